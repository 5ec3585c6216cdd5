"""A plug-in of pytest for Numba's tests: the time of each test's call, and the part of the program that takes it.

``pytest -p bench.test_seconds``, with the name of the JSON file to be written in ``TEST_SECONDS_FILE``.  Seconds are the processor's, of all
threads, with the clock's beside them.  A phase's seconds are without those of phases inside it:

========== ==========================================================================================
frontend   numba-cuda: Python's code to typed code to LLVM's
nvvm       NVIDIA's libNVVM: LLVM's code to PTX
link       NVIDIA's nvJitLink and NVRTC: PTX or C++ to machine code
bind       the driver's load of a module (without what is counted below)
launch     a launch as numba-cuda makes it: arguments, copies to and from the device
decode     here: machine code to operations
write      here: operations to LLVM's text
generate   here: LLVM's text to the host's code
attach     here: code of the host, from LLVM or from the disk, into memory
run        here: what is left of a launch: the kernel itself
driver     here: all other calls of the driver
rest       Python, unittest, NumPy; all of a kernel of Numba's simulator is in ``launch``
========== ==========================================================================================

Launches are counted where Numba has compiled the kernel: in the call of the driver's launch with its arguments, or of a kernel of its
simulator.  A card's context is made before the first test, as ``context``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Generator
from math import prod
from pathlib import Path
from typing import Any

import pytest

Seconds = dict[str, Any]
_tests: dict[str, Seconds] = {}
_inside = [False]


class Phases:
    """Seconds by phase, each without the phases inside it; launches run in a thread of their own while their caller waits."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self.open: list[str] = []
        self.launches = {"launches": 0.0, "launched": 0, "threads": 0}
        self.last = self.now()

    @staticmethod
    def now() -> tuple[float, float]:
        return time.process_time(), time.perf_counter()

    def count(self) -> None:
        """Give the time since the last change to the phase that is open."""
        now = self.now()
        entry = self.spent.setdefault(self.open[-1] if self.open else "rest", [0.0, 0.0])
        for n in range(2):
            entry[n] += now[n] - self.last[n]
        self.last = now

    def wrap(self, phase: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function, counted as a phase."""

        def counted(*arguments: Any, **named: Any) -> Any:
            self.count()
            self.open.append(phase)
            try:
                return call(*arguments, **named)
            finally:
                self.count()
                self.open.pop()

        return counted

    def replace(self, phase: str, name: str, modules: str) -> None:
        """Count a function of a module wherever modules of a package know it, or a method of a class."""
        owner, attribute = name.rsplit(".", 1)
        module, _, kind = owner.partition(":")
        holder = sys.modules.get(module)
        if holder is None or (kind and not hasattr(holder, kind)):
            return
        if kind:
            holder = getattr(holder, kind)
        found = getattr(holder, attribute)
        counted = self.wrap(phase, found)
        setattr(holder, attribute, counted)
        if kind:
            return
        for other, contents in list(sys.modules.items()):
            if other.startswith(modules) and getattr(contents, attribute, None) is found:
                setattr(contents, attribute, counted)


_phases = Phases()
_NUMBA = (
    ("frontend", "numba.cuda.compiler.compile_cuda"),
    ("nvvm", "numba.cuda.cudadrv.nvvm.compile_ir"),
    ("link", "numba.cuda.cudadrv.nvrtc.compile"),
    ("link", "numba.cuda.cudadrv.driver:_Linker.complete"),
    ("link", "numba.cuda.cudadrv.driver:_Linker.get_linked_ptx"),
    ("bind", "numba.cuda.dispatcher:_Kernel.bind"),
)
_OURS = (
    ("decode", "warpwright.engine.module:LoadedModule.load"),
    ("decode", "warpwright.engine.kernels.lowered_of"),
    ("write", "warpwright.engine.kernels.compile_kernel"),
    ("generate", "warpwright.engine.jit.codegen.to_object"),
    ("generate", "warpwright.engine.jit.shared_library.to_object"),
    ("attach", "warpwright.engine.jit.codegen.load_object"),
    ("attach", "warpwright.engine.jit.shared_library.load_object"),
    ("run", "warpwright.run_launch.launch_packed"),
)


def _timed(call: Callable[..., Any], threads: Callable[..., int]) -> Callable[..., Any]:
    """A launch that counts its seconds and its threads; a call inside of a launch is that of a device function."""
    call = _phases.wrap("launch", call)

    def launch(*arguments: Any, **named: Any) -> Any:
        if _inside[0]:
            return call(*arguments, **named)
        _inside[0] = True
        began = time.process_time()
        try:
            return call(*arguments, **named)
        finally:
            _inside[0] = False
            _phases.launches["launches"] += time.process_time() - began
            _phases.launches["launched"] += 1
            _phases.launches["threads"] += threads(*arguments, **named)

    return launch


def _on_device(_: Any, __: Any, grid: tuple[int, ...], block: tuple[int, ...], *___: Any, **____: Any) -> int:
    return prod(grid) * prod(block)


def _simulated(kernel: Any, *_: Any) -> int:
    sizes = (kernel.grid_dim, kernel.block_dim)
    return prod(prod(size) if isinstance(size, tuple) else int(size) for size in sizes)


def _watch_driver() -> None:
    """Count the calls of this package's driver, before they are made known to C."""
    from warpwright.driver import calls

    for phase, name in _OURS:
        _phases.replace(phase, name, "warpwright")
    guarded = calls._guarded
    calls._guarded = lambda name, function: _phases.wrap("driver", guarded(name, function))


def pytest_configure() -> None:
    """Watch compilers and launches."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        from numba.cuda.simulator.kernel import FakeCUDAKernel

        FakeCUDAKernel.__call__ = _timed(FakeCUDAKernel.__call__, _simulated)
        return
    if "WARPWRIGHT_LIBRARIES" in os.environ:
        _watch_driver()
    from numba import cuda
    from numba.cuda.dispatcher import _Kernel

    for phase, name in _NUMBA:
        _phases.replace(phase, name, "numba")
    _Kernel.launch = _timed(_Kernel.launch, _on_device)
    _phases.clear()
    cuda.current_context()
    _keep("context")


def _keep(name: str) -> None:
    """Record the time spent since the last ``clear``."""
    _phases.count()
    _tests[name] = {
        "seconds": sum(process for process, _ in _phases.spent.values()),
        "clock": sum(clock for _, clock in _phases.spent.values()),
        **_phases.launches,
        "phases": {phase: process for phase, (process, _) in _phases.spent.items()},
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Time the call."""
    _phases.clear()
    result = yield
    _keep(item.nodeid)
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test that does not pass leaves no entry (unittest's are known to fail only when their report is made)."""
    if report.when == "call" and report.outcome != "passed":
        _tests.pop(report.nodeid, None)
    if report.when == "teardown":
        # A later test may end the process.
        Path(os.environ["TEST_SECONDS_FILE"]).write_text(json.dumps(_tests))
