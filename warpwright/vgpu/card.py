"""A card with virtual functions, and the processes that use them.

Each process runs until it waits for its kernels.  When all have, the card runs what they have submitted: with functions in time slices the contexts
take turns, with functions on MIG instances they run at once, each on its own part of the card (``sharing.py``, ``mig.py``).  A process's own work takes no simulated
time, so that results and times do not depend on how the host schedules the processes.

Profiles are those of NVIDIA's vGPU for an A100 40 GB (Virtual GPU Software User Guide, "A100 PCIe 40GB Virtual GPU Types"), of which a card has one kind at a time.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from warpwright.api import GPU
from warpwright.chips import load_chip
from warpwright.errors import ArgumentError, ExecutionError, UnsupportedError, WarpwrightError
from warpwright.mig import MigGPU
from warpwright.run import Run
from warpwright.sharing import SharedGPU
from warpwright.vgpu.guest import GuestRun, VirtualFunction
from warpwright.vgpu.registers import Channel, GuestError

TIME_SLICED = {"40c": 1, "20c": 2, "10c": 4, "8c": 5, "5c": 8, "4c": 10}
"""Functions of each profile that a card has: each has an equal part of the memory and, in its turn, the whole chip."""
ON_INSTANCES = {
    "1-5c": "1g.5gb",
    "1-10c": "1g.10gb",
    "2-10c": "2g.10gb",
    "3-20c": "3g.20gb",
    "4-20c": "4g.20gb",
    "7-40c": "7g.40gb",
}
"""Profiles of functions on MIG instances."""
MOST_BEFORE_SHORT_SLICES, SHORT_SLICE_US, SLICE_US = 8, 1000, 2000
"""Slices are shorter where a card may have more than eight functions (Virtual GPU Software User Guide, "Changing Scheduling Behavior for Time-Sliced vGPUs")."""

Guest = Callable[[VirtualFunction], Any]


@dataclass(eq=False, slots=True)
class Function:
    """A virtual function, as the card has it."""

    number: int
    profile: str
    gpu: GPU
    modules: list[Any] = field(default_factory=list)
    arrays: dict[int, Any] = field(default_factory=dict)
    pending: list[tuple[Any, list[Any]]] = field(default_factory=list)
    """Kernels that its process has submitted."""
    channel: Channel | None = None
    waits: bool = False
    gone: bool = False
    ended: bool = False
    """Whether the process has given a result, or its failure."""
    result: Any = None


class VirtualizedGPU:
    """A card in SR-IOV mode: functions that processes use as GPUs.

    Args:
        chip: ``a100``, whose profiles are known.
        options: what every function's GPU is made with.

    Raises:
        UnsupportedError: another chip, or a host without ``fork``.
    """

    def __init__(self, chip: str = "a100", **options: Any) -> None:
        if not (sys.platform.startswith("linux") and hasattr(os, "fork")):
            raise UnsupportedError("virtual functions are used by forked processes that share memory: run it on Linux")
        if load_chip(chip).name != "a100":
            raise UnsupportedError(f"{chip}: the profiles of virtual functions are those of a100; use that")
        self._chip, self._options = chip, options
        self.functions: list[Function] = []
        self.ns = 0
        """The card's clock."""
        self._kind = ""
        self._shared: SharedGPU | None = None
        self._mig: MigGPU | None = None

    def create(self, profile: str) -> Function:
        """Make a virtual function.

        Raises:
            ArgumentError: there is no such profile.
            UnsupportedError: the card has functions of another kind, or as many as it can have.
            MigError: the card has no room for the instance.
        """
        name = profile.lower()
        if name not in TIME_SLICED and name not in ON_INSTANCES:
            raise ArgumentError(
                f"profile {profile!r} is not known; use one of {', '.join([*TIME_SLICED, *ON_INSTANCES])}"
            )
        kind = name if name in TIME_SLICED else "mig"
        if self._kind not in ("", kind):
            raise UnsupportedError(
                f"the card has functions of {self._kind}: functions in time slices have one profile per card, and none on instances beside them"
            )
        self._kind = kind
        gpu = self._instance(name) if kind == "mig" else self._part(name)
        gpu.memory.share_pages()
        made = Function(len(self.functions), name, gpu)
        self.functions.append(made)
        return made

    def _instance(self, name: str) -> GPU:
        if self._mig is None:
            self._mig = MigGPU(self._chip, **self._options)
        return self._mig.create(ON_INSTANCES[name])

    def _part(self, name: str) -> GPU:
        most = TIME_SLICED[name]
        if len(self.functions) >= most:
            raise UnsupportedError(f"the card has {most} functions of {name}, as many as it can have")
        if self._shared is None:
            slice_us = SHORT_SLICE_US if most > MOST_BEFORE_SHORT_SLICES else SLICE_US
            chip = load_chip(self._chip, time_slice_us=slice_us)
            self._shared = SharedGPU(chip, "time-slices", **self._options)
        return self._shared.client(memory_kib=self._shared.chip.dram.dram_kib // most)

    def run(self, *guests: tuple[Function, Guest]) -> list[Any]:
        """Run a process on each of several functions; what each returns (as JSON has it), or its :class:`GuestError`.

        Raises:
            ArgumentError: a function twice, or of another card.
            KeyboardInterrupt: Ctrl-C, which ends the processes.
        """
        functions = [function for function, _ in guests]
        if len(set(map(id, functions))) < len(functions) or any(one not in self.functions for one in functions):
            raise ArgumentError("give each function of this card one process")
        processes: list[int] = []
        try:
            for function, guest in guests:
                function.channel, function.gone, function.result = Channel(0x100 | function.number), False, None
                function.ended = function.waits = False
                function.channel.registers.ns = self.ns
                processes.append(_forked(function, guest, functions))
                function.channel.process.close()
            self._serve(functions)
        finally:
            _end(processes)
            for function in functions:
                _leave(function)
        return [function.result for function in functions]

    def _serve(self, functions: Sequence[Function]) -> None:
        with selectors.DefaultSelector() as selector:
            for function in functions:
                assert function.channel is not None
                selector.register(function.channel.card, selectors.EVENT_READ, function)
            while not all(function.gone for function in functions):
                for key, _ in selector.select():
                    self._listen(key.data)
                    if key.data.gone:
                        selector.unregister(key.fileobj)
                if all(one.gone or one.waits for one in functions):
                    self._run_pending(functions)

    def _listen(self, function: Function) -> None:
        """Carry out what a function's process has submitted."""
        channel = function.channel
        assert channel is not None
        try:
            there = channel.rung()
        except GuestError as error:
            function.result = error
            function.gone = function.ended = True
            return
        for command in channel.commands.messages():
            try:
                _carry_out(function, command)
            except WarpwrightError as error:
                channel.answer({"error": str(error)})
        if not there:
            function.gone = True
            if not function.ended:
                function.result = GuestError(f"the process of function {function.number} has ended without a result")

    def _run_pending(self, functions: Sequence[Function]) -> None:
        """Run the kernels that all have submitted, and let the processes go on."""
        found = self._outcomes([one for one in functions if one.pending])
        began = self.ns
        for runs in found.values():
            for one in runs:
                if isinstance(one, GuestRun):
                    self.ns = max(self.ns, began + round(one.end_seconds * 1e9))
        for function in functions:
            function.pending.clear()
            if not function.waits or function.channel is None:
                continue
            function.waits = False
            runs = found.get(function.number, [])
            failed = next((one for one in runs if isinstance(one, ExecutionError)), None)
            function.channel.registers.ns = self.ns
            if failed is not None:
                function.channel.answer({"error": str(failed)})
                continue
            shifted = [
                {
                    "kernel": one.kernel,
                    "cycles": one.cycles,
                    "seconds": one.seconds,
                    "begin_seconds": began * 1e-9 + one.begin_seconds,
                    "end_seconds": began * 1e-9 + one.end_seconds,
                }
                for one in runs
                if isinstance(one, GuestRun)
            ]
            function.channel.answer({"runs": shifted})

    def _outcomes(self, functions: Sequence[Function]) -> dict[int, list[GuestRun | ExecutionError]]:
        found: dict[int, list[GuestRun | ExecutionError]] = {one.number: [] for one in functions}
        if self._mig is not None:
            ends = dict.fromkeys(found, 0.0)
            # Instances share no clock edge: the n-th kernel of each runs beside the others' n-th.
            for turn in range(max((len(one.pending) for one in functions), default=0)):
                going = [one for one in functions if turn < len(one.pending)]
                for one, run in zip(going, self._mig.launch(*(one.pending[turn] for one in going)), strict=True):
                    if not isinstance(run, Run):
                        found[one.number].append(run)
                        continue
                    begin, ends[one.number] = ends[one.number], ends[one.number] + run.seconds
                    found[one.number].append(GuestRun(run.kernel, run.cycles, run.seconds, begin, ends[one.number]))
            return found
        launches = [(one, launch) for one in functions for launch in one.pending]
        for one in functions:
            failure = getattr(one.gpu, "failure", None)
            if failure is not None:
                found[one.number].append(failure)
        launches = [(one, launch) for one, launch in launches if not found[one.number]]
        if self._shared is not None and launches:
            outcomes = self._shared.launch(*(launch for _, launch in launches))
            for (one, _), timed in zip(launches, outcomes, strict=True):
                if not isinstance(timed, ExecutionError):
                    run, begin, end = timed.run, timed.begin_seconds, timed.end_seconds
                    found[one.number].append(GuestRun(run.kernel, run.cycles, run.seconds, begin, end))
                else:
                    found[one.number].append(timed)
        return found

    def __repr__(self) -> str:
        return f"<card {self._chip} with {len(self.functions)} virtual functions>"


def _carry_out(function: Function, command: dict[str, Any]) -> None:
    """Carry out a command of a function's process."""
    channel, what = function.channel, command["do"]
    assert channel is not None
    if what == "compile":
        function.modules.append(function.gpu.compile(command["source"]))
        channel.answer({"module": len(function.modules) - 1})
    elif what == "allocate":
        array = function.gpu.empty(tuple(command["shape"]), np.dtype(command["dtype"]))
        number = max(function.arrays, default=-1) + 1
        function.arrays[number] = array
        channel.answer({"array": number, "address": array.device_address()})
    elif what == "free":
        function.arrays.pop(command["array"]).free()
        channel.answer({})
    elif what == "launch":
        # An error of a launch is that of the next wait, as a card reports it.
        kernel = function.modules[command["module"]][command["kernel"]]
        arguments = [_value(function, kind, value) for kind, value in command["arguments"]]
        function.pending.append((kernel[tuple(command["grid"]), tuple(command["block"])], arguments))
    elif what == "wait":
        function.waits = True
    else:
        function.ended = True
        function.result = GuestError(command["error"]) if what == "failed" else command["result"]


def _value(function: Function, kind: str, value: Any) -> Any:
    if kind == "array":
        if value not in function.arrays:
            raise ArgumentError(f"array {value} of function {function.number} does not exist or was freed")
        return function.arrays[value]
    return value if kind == "number" else np.dtype(kind).type(value)


def _forked(function: Function, guest: Guest, functions: Sequence[Function]) -> int:
    """Start a function's process; returns its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        return process
    channel = function.channel
    assert channel is not None
    status = 0
    try:
        for other in functions:
            if other.channel is not None:
                other.channel.card.close()
        memory = function.gpu.memory
        whole = np.asarray(_Bar1(memory.host_base, memory.capacity_bytes))
        seen = VirtualFunction(function.number, function.profile, channel, whole, memory.base)
        try:
            seen.submit({"do": "end", "result": guest(seen)})
        except BaseException as error:
            status = 1
            seen.submit({"do": "failed", "error": "".join(traceback.format_exception_only(error)).strip()})
        sys.stdout.flush()
    finally:
        os._exit(status)


class _Bar1:
    """A function's memory as an array."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self.__array_interface__ = {"version": 3, "shape": (size_bytes,), "typestr": "|u1", "data": (address, False)}


def _end(processes: Sequence[int]) -> None:
    """Wait for the processes, which have ended unless the card was interrupted."""
    for process in processes:
        try:
            if os.waitpid(process, os.WNOHANG) == (0, 0):
                os.kill(process, signal.SIGTERM)
                os.waitpid(process, 0)
        except (ChildProcessError, ProcessLookupError):
            continue


def _leave(function: Function) -> None:
    """Free what a process has left on the card."""
    for array in function.arrays.values():
        array.free()
    function.arrays.clear()
    function.modules.clear()
    function.pending.clear()
    if function.channel is not None:
        function.channel.card.close()
        function.channel = None
