"""Calls, kernels, copies and fills for a profiler (``libraries/cupti.py``): when each ran, and which call of the program submitted it.

The device's times are simulated and the host's are not, so both are put on the host's clock: work keeps its simulated duration and its simulated distance from the work
before it, and begins no earlier than the call that submitted it.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Submitted(NamedTuple):
    """The call that submitted some work."""

    number: int
    """Correlation: the same for the call and its work."""
    ns: int
    """When the call began, on the host's clock."""


@dataclass(slots=True)
class Call:
    """A call of the runtime (or, by a name in ``cu``, of the driver)."""

    name: str
    number: int
    thread: int
    begin_ns: int
    end_ns: int
    result: int
    links: dict[int, int]
    """The program's correlation identifiers that were on top of their stacks when the call was made, by kind."""


@dataclass(slots=True)
class DeviceWork:
    """A kernel, copy or fill."""

    stream: Any
    """Its ``Stream``."""
    number: int
    begin_ns: float
    end_ns: float
    work: Any
    """The node: ``Launch``, ``Copy`` or ``Fill``."""


@dataclass
class Recorder:
    """Records while a profiler wants them."""

    calls: list[Call] = field(default_factory=list)
    work: list[DeviceWork] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    """Names of calls that are not recorded."""
    at_first: Callable[[], None] | None = None
    """Called before the first record and then removed."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _offset_ns: float = 0.0
    """From simulated time to the host's clock."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _mine: threading.local = field(default_factory=threading.local)

    def links(self) -> dict[int, list[int]]:
        """The calling thread's stacks of the program's correlation identifiers, by kind."""
        if not hasattr(self._mine, "links"):
            self._mine.links = {}
        found: dict[int, list[int]] = self._mine.links
        return found

    def call(self, name: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
        """Make a call of the program and record it."""
        name = name.removeprefix("__")
        submitted = Submitted(next(self._numbers), time.perf_counter_ns())
        result = -1
        try:
            with self.within(submitted):
                result = function(*arguments) or 0
            return result
        finally:
            if name not in self.left_out:
                self._add(name, submitted, result)

    def _add(self, name: str, submitted: Submitted, result: int) -> None:
        if self.at_first is not None:
            function, self.at_first = self.at_first, None
            function()
        tops = {kind: stack[-1] for kind, stack in self.links().items() if stack}
        thread = threading.get_ident() & 0xFFFF_FFFF
        self.calls.append(Call(name, submitted.number, thread, submitted.ns, time.perf_counter_ns(), result, tops))

    @contextmanager
    def within(self, submitted: Submitted | None) -> Iterator[None]:
        """Within the block, work of this thread belongs to a call."""
        before = getattr(self._mine, "submitted", None)
        self._mine.submitted = submitted or before
        try:
            yield
        finally:
            self._mine.submitted = before

    def submitted(self) -> Submitted:
        """The call that submits work now; for work of a drop-in library, a launch of its own."""
        found: Submitted | None = getattr(self._mine, "submitted", None)
        if found is None:
            found = Submitted(next(self._numbers), time.perf_counter_ns())
            self._add("cudaLaunchKernel", found, 0)
        return found

    def done(self, work: Any, stream: Any, begin_ps: int, end_ps: int) -> None:
        """Record work of a stream, by its simulated times."""
        submitted = self.submitted()
        with self._lock:
            begin_ns = begin_ps / 1000 + self._offset_ns
            if begin_ns < submitted.ns:
                self._offset_ns += submitted.ns - begin_ns
                begin_ns = float(submitted.ns)
            self.work.append(
                DeviceWork(stream, submitted.number, begin_ns, begin_ns + (end_ps - begin_ps) / 1000, work)
            )


recorder: Recorder | None = None
"""None without a profiler."""


def submitted() -> Submitted | None:
    """The call that submits work now, if a profiler wants to know."""
    return recorder.submitted() if recorder is not None else None


@contextmanager
def within(call: Submitted | None) -> Iterator[None]:
    """Within the block, work of this thread belongs to a call that was made earlier."""
    if recorder is None:
        yield
        return
    with recorder.within(call):
        yield


def done(work: Any, stream: Any, begin_ps: int, end_ps: int) -> None:
    """Work of a stream has ended."""
    if recorder is not None:
        recorder.done(work, stream, begin_ps, end_ps)
