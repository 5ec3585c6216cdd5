"""Launches of graphs that kernels request with ``cudaGraphLaunch``.

CUDA C++ Programming Guide, "Device Graph Launch": only kernels of a graph may launch one, and only one that was instantiated for device launch and uploaded.  A
fire-and-forget launch runs concurrently with the graph, a tail launch after the graph and all that it has fired, a sibling as if the graph's own launcher had fired it.
The driver runs them (:mod:`warpwright.driver.device_graphs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from warpwright.engine.device_memory import DeviceMemory

TAIL, FIRE, SIBLING = 1 << 56, 2 << 56, 3 << 56
"""cudaStreamGraphTailLaunch, cudaStreamGraphFireAndForget, cudaStreamGraphFireAndForgetAsSibling."""
FIRED_COUNT, TAIL_COUNT = 120, 255
"""Maximum number of fire-and-forget (with siblings) and of tail launches per execution of a graph (CUDA C++ Programming Guide, "Device Graph Launch")."""
_INVALID_VALUE, _PENDING_COUNT_EXCEEDED = 1, 69


@dataclass(eq=False)
class GraphRun:
    """One execution of an executable graph."""

    handle: int
    launcher: GraphRun | None
    fired: list[int] = field(default_factory=list)
    """Executable graphs that its kernels have fired and that have not begun."""
    fired_count: int = 0
    tail: list[int] = field(default_factory=list)
    """Executable graphs to run after it."""
    on_fire: Callable[[], None] | None = None
    """Called after each of its fire-and-forget requests."""


_launchable: set[int] = set()
_runs: dict[DeviceMemory, list[GraphRun]] = {}
"""Executions by the memory of each device whose kernels belong to them, the innermost last."""


def allow(handle: int) -> None:
    """Let kernels launch an executable graph."""
    _launchable.add(handle)


def forbid(handle: int) -> None:
    """Stop kernels from launching an executable graph."""
    _launchable.discard(handle)


@contextmanager
def running(handle: int, devices: Iterable[DeviceMemory]) -> Iterator[GraphRun]:
    """Record what the kernels of an executable graph request.

    Args:
        devices: the memory of each device on which it has kernels, that of its stream first.
    """
    memories = list(dict.fromkeys(devices))
    made = GraphRun(handle, current_run(memories[0]))
    for memory in memories:
        _runs.setdefault(memory, []).append(made)
    try:
        yield made
    finally:
        for memory in memories:
            _runs[memory].pop()
            if not _runs[memory]:
                del _runs[memory]


def current_run(memory: DeviceMemory) -> GraphRun | None:
    """The execution of a graph to which the running kernel of a device belongs; None outside graphs."""
    runs = _runs.get(memory)
    return runs[-1] if runs else None


def current_graph(memory: DeviceMemory) -> int:
    """``%current_graph_exec`` (``cudaGetCurrentGraphExec``): the handle of the graph of the kernel that runs on a device; 0 outside graphs."""
    run = current_run(memory)
    return run.handle if run is not None else 0


def request(memory: DeviceMemory, handle: int, stream: int) -> int:
    """``cudaGraphLaunch`` in a kernel of a device; returns 0 or the error's number."""
    run = current_run(memory)
    if run is None or handle not in _launchable:
        return _INVALID_VALUE
    if stream == TAIL:
        if len(run.tail) == TAIL_COUNT:
            return _PENDING_COUNT_EXCEEDED
        if handle == run.handle and handle in run.tail:
            return _INVALID_VALUE
        run.tail.append(handle)
        return 0
    if stream not in (FIRE, SIBLING):
        return _INVALID_VALUE
    parent = run.launcher if stream == SIBLING and run.launcher is not None else run
    # A graph that is running or pending cannot be launched concurrently with itself.
    if handle in parent.fired or any(one.handle == handle for one in _runs[memory]):
        return _INVALID_VALUE
    if parent.fired_count == FIRED_COUNT:
        return _PENDING_COUNT_EXCEEDED
    parent.fired_count += 1
    parent.fired.append(handle)
    if run.on_fire is not None:
        run.on_fire()
    return 0
