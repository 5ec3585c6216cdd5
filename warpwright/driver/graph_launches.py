"""Calls on executable graphs: instantiation, update and launch."""

from __future__ import annotations

from itertools import chain

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.capture_rules import break_capture, forbid_default_stream
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.device_graphs import launches_graphs, run_with_launches
from warpwright.driver.driver_state import state
from warpwright.driver.graphs import COPY, FILL, GRAPH, KERNEL, Executable, Graph, Vertex, before_launch, twin
from warpwright.driver.pending import queue as pending
from warpwright.engine import graph_launch_requests

_INSTANTIATE_FLAGS, _DEVICE_LAUNCH = 0xF, 4
"""CUDA_GRAPH_INSTANTIATE_FLAG_*."""
_SWITCHED = (KERNEL, COPY, FILL)
"""Kinds of nodes that may be disabled."""


def instantiate(handle: int, flags: int = 0) -> int:
    """Handle of an executable graph."""
    graph = state().handles.get(Graph, handle)
    graph.ordered()
    updatable = [one.updatable for one in graph.updatable() if one.updatable is not None]
    if any(one.instantiated for one in updatable):
        raise CudaError(results.NOT_SUPPORTED)
    for one in updatable:
        one.instantiated = True
    copy, twins = graph.clone()
    made = Executable(copy, twins, flags)
    made.handle = state().handles.add(made)
    return made.handle


@entry("cuGraphInstantiateWithFlags")
def instantiate_with_flags(place: int, handle: int, flags: int) -> None:
    state().check_process()
    if flags & ~_INSTANTIATE_FLAGS or (flags & _DEVICE_LAUNCH and not _kernels_may_launch(handle)):
        raise CudaError(results.INVALID_VALUE)
    cmemory.put64(place, instantiate(handle, flags & 0xFFFF_FFFF))


def _kernels_may_launch(handle: int) -> bool:
    """Whether a graph contains only nodes that a kernel may launch, and one at least."""
    vertices = state().handles.get(Graph, handle).vertices
    return bool(vertices) and all(v.work.kind in (KERNEL, COPY, FILL, GRAPH) for v in vertices)


@entry("cuGraphInstantiate", "cuGraphInstantiate_v2")
def instantiate_2(place: int, handle: int, error_node: int, log: int, room: int) -> None:
    cmemory.put64(place, instantiate(handle))
    if log and room:
        cmemory.put_text(log, "", room)


@entry("cuGraphInstantiateWithParams")
def instantiate_with_parameters(place: int, handle: int, parameters: int) -> None:
    cmemory.put64(place, instantiate(handle, cmemory.get64(parameters) & 0xFFFF_FFFF))
    # hErrNode_out, result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS.
    cmemory.put64(parameters + 16, 0)
    cmemory.put32(parameters + 24, 0)


@entry("cuGraphExecGetFlags")
def executable_flags(handle: int, place: int) -> None:
    cmemory.put64(place, state().handles.get(Executable, handle).flags)


@entry("cuGraphExecDestroy")
def executable_destroy(handle: int) -> None:
    state().handles.get(Executable, handle).graph.release()
    state().handles.drop(handle)
    graph_launch_requests.forbid(handle)


@entry("cuGraphUpload")
def upload(handle: int, stream: int) -> None:
    _uploaded(state().handles.get(Executable, handle))


def _uploaded(executable: Executable) -> None:
    """The device has an executable graph: kernels may launch it if it was instantiated for that, and change its nodes."""
    for one in executable.graph.updatable():
        if one.updatable is not None:
            one.work.upload(one.updatable, one.enabled)
    if executable.flags & _DEVICE_LAUNCH:
        graph_launch_requests.allow(executable.handle)


@entry("cuGraphLaunch")
def launch(handle: int, stream_handle: int) -> None:
    s = state()
    s.current()
    executable = s.handles.get(Executable, handle)
    stream = s.stream(stream_handle)
    if stream.capture is not None:
        raise break_capture(stream)
    if stream is stream.device.default_stream:
        forbid_default_stream(stream)
    costs = stream.device.gpu.chip.launch
    s.host_calls(costs.graph_call_us + costs.graph_call_node_us * len(executable.graph.vertices))
    _uploaded(executable)
    launches = launches_graphs(executable.graph)
    if not launches and executable.graph.queued(stream):
        return
    pending.drain()
    if launches:
        run_with_launches(executable, stream)
        return
    for prepare in before_launch:
        prepare(executable.graph, executable.flags)
    executable.graph.run(stream)


def _switched(executable: int, node: int) -> Vertex:
    """A node of an executable graph that can be disabled."""
    found = twin(executable, node)
    if found.work.kind not in _SWITCHED:
        raise CudaError(results.INVALID_VALUE)
    return found


@entry("cuGraphNodeSetEnabled")
def set_enabled(executable: int, node: int, value: int) -> None:
    _switched(executable, node).enabled = bool(value)


@entry("cuGraphNodeGetEnabled")
def get_enabled(executable: int, node: int, place: int) -> None:
    cmemory.put32(place, int(_switched(executable, node).enabled))


def take_over(executable: int, graph: int) -> tuple[int, int]:
    """Update an executable graph from a graph of the same shape; returns (CUgraphExecUpdateResult, handle of the node
    that differs)."""
    target = state().handles.get(Executable, executable)
    given = state().handles.get(Graph, graph)
    old, new = target.graph.vertices, given.vertices
    updatable = next(chain(target.graph.updatable(), given.updatable()), None)
    if updatable is not None:
        return 6, updatable.handle  # CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED
    if len(old) != len(new):
        return 2, 0
    place = {v: i for i, v in enumerate(new)}
    before = {v: i for i, v in enumerate(old)}
    for ours, theirs in zip(old, new, strict=True):
        if ours.work.kind != theirs.work.kind:
            return 3, theirs.handle
        if sorted(before[n] for n in ours.needs) != sorted(place[n] for n in theirs.needs):
            return 2, theirs.handle
    for ours, theirs in zip(old, new, strict=True):
        ours.replace(theirs.work.copied())
    target.twins = {**target.twins, **dict(zip(new, old, strict=True))}
    return 0, 0


@entry("cuGraphExecUpdate")
def update(executable: int, graph: int, node_place: int, result_place: int) -> int | None:
    outcome, node = take_over(executable, graph)
    cmemory.put64(node_place, node)
    cmemory.put32(result_place, outcome)
    return results.GRAPH_EXEC_UPDATE_FAILURE if outcome else None


@entry("cuGraphExecUpdate_v2")
def update_2(executable: int, graph: int, info: int) -> int | None:
    outcome, node = take_over(executable, graph)
    if info:
        cmemory.write("iQQ", info, outcome, node, 0)
    return results.GRAPH_EXEC_UPDATE_FAILURE if outcome else None
