"""A plug-in of pytest for Numba's tests: what each test's call takes, and its launches alone, in the processor's seconds of all threads.

``pytest -p bench.test_seconds``, with the name of the JSON file to be written in ``TEST_SECONDS_FILE``.  Launches are counted where Numba has
compiled the kernel: in the call of the driver's launch with its arguments, or of a kernel of its simulator.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Generator
from math import prod
from pathlib import Path
from typing import Any

import pytest

_tests: dict[str, dict[str, float]] = {}
_launches = {"seconds": 0.0, "threads": 0}
_inside = [False]


def _timed(call: Callable[..., Any], threads: Callable[..., int]) -> Callable[..., Any]:
    """A launch that counts its seconds and its threads; a call inside of a launch is that of a device function."""

    def launch(*arguments: Any, **named: Any) -> Any:
        if _inside[0]:
            return call(*arguments, **named)
        _inside[0] = True
        began = time.process_time()
        try:
            return call(*arguments, **named)
        finally:
            _inside[0] = False
            _launches["seconds"] += time.process_time() - began
            _launches["threads"] += threads(*arguments, **named)

    return launch


def _on_device(_: Any, __: Any, grid: tuple[int, ...], block: tuple[int, ...], *___: Any, **____: Any) -> int:
    return prod(grid) * prod(block)


def _simulated(kernel: Any, *_: Any) -> int:
    sizes = (kernel.grid_dim, kernel.block_dim)
    return prod(prod(size) if isinstance(size, tuple) else int(size) for size in sizes)


def pytest_configure() -> None:
    """Watch launches."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        from numba.cuda.simulator.kernel import FakeCUDAKernel

        FakeCUDAKernel.__call__ = _timed(FakeCUDAKernel.__call__, _simulated)
    else:
        from numba.cuda.dispatcher import _Kernel

        _Kernel.launch = _timed(_Kernel.launch, _on_device)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Time the call; a test that does not pass leaves no entry."""
    _launches.update(seconds=0.0, threads=0)
    began = time.process_time()
    result = yield
    _tests[item.nodeid] = {
        "seconds": time.process_time() - began,
        "launches": _launches["seconds"],
        "threads": _launches["threads"],
    }
    return result


def pytest_sessionfinish() -> None:
    """Write them."""
    Path(os.environ["TEST_SECONDS_FILE"]).write_text(json.dumps(_tests))
