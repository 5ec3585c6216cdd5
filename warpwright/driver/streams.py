"""Streams and events: order, capture, simulated time, and host functions in a stream's order.

Work runs before any call that could observe it (``pending.py``), so every stream is idle whenever a program queries it.
An event holds its stream's simulated clock; a device without timing holds the host's, so that a program's own
measurements stay meaningful.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from dataclasses import dataclass, field
from typing import ClassVar

from warpwright.driver import cmemory, printf_buffer, results
from warpwright.driver.access_windows import WINDOW, window_of
from warpwright.driver.calls import entry
from warpwright.driver.capture_rules import (
    RELAXED,
    break_capture,
    forbid_default_stream,
    forbid_unsafe_call,
    thread_modes,
)
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import PER_THREAD_STREAM, Context, Device, Stream, picoseconds, state
from warpwright.driver.graphs import (
    RECORD_EVENT,
    WAIT_EVENT,
    Empty,
    Graph,
    HostCall,
    Node,
    Vertex,
    new_graph,
    submit,
    vertex,
)
from warpwright.driver.memory import MANAGED, kinds, whole_size
from warpwright.driver.pending import queue, runs
from warpwright.driver.queued_work import Item, Work
from warpwright.driver.work_order import begin, host_waits, host_waits_for
from warpwright.engine.work_clocks import Clock, learn

_capture_numbers = itertools.count(1)
UNJOINED = 904
"""CUDA_ERROR_STREAM_CAPTURE_UNJOINED."""

_SINGLE = 4
"""CU_MEM_ATTACH_SINGLE."""
_EXTERNAL = 1
"""CU_EVENT_WAIT_EXTERNAL, CU_EVENT_RECORD_EXTERNAL: the event becomes a node of the graph, not an edge."""


@dataclass(eq=False)
class Event:
    """A point in a stream's work."""

    of_null: ClassVar[int] = results.INVALID_HANDLE
    flags: int = 0
    handle: int = 0
    recorded: bool = False
    ps: int = 0
    """Simulated time of its last record; for a device without timing, host time."""
    capture: Graph | None = None
    capture_tail: list[Vertex] = field(default_factory=list)
    capture_id: int = 0
    capture_mode: int = 0
    device: Device | None = None
    """The device whose streams record it; unknown for another process's event."""
    clock: Clock = field(default_factory=dict)
    """Work that ended before it (``work_order.py``)."""
    records: int = 0
    """Number of times that it was recorded."""
    queued: Item | None = None
    """Its last record, if that was queued."""


@dataclass(eq=False)
class RecordEvent(Node):
    """The record of an event by a graph."""

    event: Event
    kind = RECORD_EVENT

    def run(self, stream: Stream) -> None:
        record(self.event, stream)


@dataclass(eq=False)
class WaitEvent(Node):
    """A wait for an event that is not recorded in the same graph."""

    event: Event
    kind = WAIT_EVENT

    def run(self, stream: Stream) -> None:
        await_event(self.event, stream)


def _record_ps(event: Event, stream: Stream) -> int:
    """Simulated time that recording an event takes in its stream; zero for an event without timing."""
    if not state().timed or event.flags & _NO_TIMING:
        return 0
    return picoseconds(stream.device.gpu.chip.launch.event_record_us * 1e-6)


QUEUES = 8
"""Hardware queues to which streams are assigned in turn (CUDA_DEVICE_MAX_CONNECTIONS)."""


def hardware_queue(stream: Stream) -> int:
    """The queue of a stream."""
    streams = stream.device.streams
    return streams.index(stream) % QUEUES if stream in streams else 0


class _Record(Work):
    """A record of an event in the queue."""

    def __init__(self, event: Event) -> None:
        self.event, self.number = event, event.records
        self.waiting: list[int] = []
        """Hardware queues that wait for it, in the order of their waits."""

    def run(self, stream: Stream) -> None:
        ps = _time(self.event, stream)
        if self.number == self.event.records:
            self.event.ps, self.event.clock = ps, dict(begin(stream))

    def duration(self, stream: Stream) -> int:
        return _record_ps(self.event, stream)


class _Await(Work):
    """A queued wait for an event, for its last record at the time when the wait was submitted."""

    def __init__(self, event: Event, stream: Stream) -> None:
        self.ps, self.record = event.ps, event.queued
        self.queue = hardware_queue(stream)
        self.turn = 0
        """Of its queue among those that wait for the event."""
        self._duration: int | None = None
        if self.record is not None and isinstance(self.record.work, _Record):
            waiting = self.record.work.waiting
            if self.queue not in waiting:
                waiting.append(self.queue)
            self.turn = waiting.index(self.queue)

    def run(self, stream: Stream) -> None:
        s = state()
        if s.timed:
            recorded = self.record.ps if self.record is not None else self.ps
            stream.ps = max(s.begin(stream), recorded) + self.duration(stream)

    def duration(self, stream: Stream) -> int:
        """From the record on: until the device looks at the stream's queue again, and the queues before it have begun.

        The device looks at the queues that wait in turn; those that it finds released begin one after the other (`bench.machine.event_waits` on an H200).
        """
        if not state().timed or self.record is None or self.record.stream is stream:
            return 0
        if self._duration is None:
            launch = stream.device.gpu.chip.launch
            us = launch.event_wait_us + self.turn * launch.event_release_us
            us += max(len(self._waiting_queues()) - 1, 0) * launch.event_poll_us
            self._duration = picoseconds(us * 1e-6)
        return self._duration

    def _waiting_queues(self) -> set[int]:
        """Queues that wait when the event is recorded: for it, or for an event whose wait is the first work of its stream and was submitted later."""
        assert self.record is not None
        found, seen, later = set[int](), set[Stream](), False
        for item in queue.items:
            later = later or item.work is self
            work = item.work
            if not isinstance(work, _Await) or item.stream in seen or work.record is None:
                seen.add(item.stream)
                continue
            if work.record is self.record or (later and not work.record.done):
                found.add(work.queue)
            seen.add(item.stream)
        return found


def _time(event: Event, stream: Stream) -> int:
    """Let a record take its time; returns the time stored in the event."""
    s = state()
    stream.ps = s.begin(stream) + _record_ps(event, stream)
    return stream.ps if s.timed else picoseconds(s.now())


def record(event: Event, stream: Stream) -> None:
    """Store a stream's time in an event; an event with timing takes some time itself."""
    event.recorded = True
    event.capture = None
    event.records += 1
    if queue.items:
        event.queued = queue.add(stream, _Record(event))
        return
    event.queued = None
    event.ps = _time(event, stream)
    event.clock = dict(begin(stream))


def await_event(event: Event, stream: Stream) -> None:
    """Let a stream continue no earlier than an event's record."""
    s = state()
    learn(stream.clock, event.clock)
    if not event.recorded:
        return
    if queue.items:
        queue.add(stream, _Await(event, stream), [event.queued] if event.queued is not None else [])
    elif s.timed:
        stream.ps = max(s.begin(stream), event.ps)


# --- streams -----------------------------------------------------------------------------------------
def create_stream(flags: int, priority: int = 0, context: Context | None = None) -> int:
    """Handle of a new stream, in the current context unless one is given."""
    s = state()
    context = context or s.current()
    made = Stream(context.device, flags, priority, context=context if context.partition is not None else None)
    made.handle = s.handles.add(made)
    made.device.streams.append(made)
    return made.handle


@entry("cuStreamCreate")
def create(place: int, flags: int) -> int | None:
    if flags not in (0, 1):
        return results.INVALID_VALUE
    cmemory.put64(place, create_stream(flags))
    return None


@entry("cuStreamCreateWithPriority")
def create_with_priority(place: int, flags: int, priority: int) -> int | None:
    if flags not in (0, 1):
        return results.INVALID_VALUE
    cmemory.put64(place, create_stream(flags, within_priorities(priority)))
    return None


def within_priorities(priority: int) -> int:
    """A requested priority, limited to the device's range."""
    return max(-5, min(0, priority))


@entry("cuStreamDestroy_v2")
def destroy(handle: int) -> int | None:
    s = state()
    if handle <= PER_THREAD_STREAM:
        return results.INVALID_HANDLE
    stream = s.handles.get(Stream, handle)
    if stream in stream.device.streams:
        stream.device.streams.remove(stream)
        default = stream.device.default_stream
        default.ps = max(default.ps, stream.ps if stream.blocking else 0)
        if stream.blocking:
            learn(default.clock, stream.clock)
    s.handles.drop(handle)
    return None


@entry("cuStreamSynchronize", "cuStreamQuery")
def synchronize(handle: int) -> int | None:
    printf_buffer.flush()
    state().current()
    stream = state().stream(handle)
    if stream.capture is not None:
        stream.capture_broken = True
        return results.STREAM_CAPTURE_UNSUPPORTED
    if stream is stream.device.default_stream:
        forbid_default_stream(stream)
        forbid_unsafe_call()
    if runs(stream):
        return results.NOT_READY
    state().host_waits(state().begin(stream))
    host_waits_for([stream])
    return None


@entry("cuStreamWaitEvent")
def wait_event(handle: int, event: int, flags: int) -> None:
    s = state()
    s.current()
    stream, awaited = s.stream(handle), s.handles.get(Event, event)
    s.host_calls(stream.device.gpu.chip.launch.event_call_us)
    _check_external(flags, stream)
    if stream is stream.device.default_stream:
        forbid_default_stream(stream)
    if awaited.capture is not None:
        if stream.capture is None:
            stream.capture, stream.capture_tail = awaited.capture, []
            stream.capture_id, stream.capture_mode = awaited.capture_id, awaited.capture_mode
            stream.capture_origin = False
        elif stream.capture is not awaited.capture:
            raise CudaError(results.STREAM_CAPTURE_MERGE)
        stream.capture_tail = list(dict.fromkeys([*stream.capture_tail, *awaited.capture_tail]))
    elif stream.capture is None:
        await_event(awaited, stream)
    elif flags & _EXTERNAL:
        submit(stream, WaitEvent(awaited))
    elif awaited.recorded:
        # A capture depends on nothing outside it.
        raise CudaError(results.STREAM_CAPTURE_ISOLATION)


def _check_external(flags: int, stream: Stream) -> None:
    """Refuse unknown event flags, and external events outside a capture."""
    if flags & ~_EXTERNAL:
        raise CudaError(results.INVALID_VALUE)
    if flags and stream.capture is None:
        raise CudaError(results.ILLEGAL_STATE)


@entry("cuStreamGetFlags")
def get_flags(handle: int, place: int) -> None:
    cmemory.put32(place, state().stream(handle).flags)


@entry("cuStreamGetPriority")
def get_priority(handle: int, place: int) -> None:
    cmemory.put32(place, state().stream(handle).priority & 0xFFFF_FFFF)


@entry("cuStreamGetId")
def get_id(handle: int, place: int) -> None:
    state().stream(handle)
    cmemory.put64(place, handle or 1)


@entry("cuStreamGetCtx")
def get_context(handle: int, place: int) -> None:
    stream = state().stream(handle)
    cmemory.put64(place, (stream.context or state().context_of(stream.device)).handle)


@entry("cuStreamGetCtx_v2")
def get_context_2(handle: int, place: int, green: int) -> None:
    """For a green context's stream, the primary context is returned first."""
    stream = state().stream(handle)
    if stream.context is None:
        get_context(handle, place)
    else:
        cmemory.put64(place, stream.device.primary.handle)
    cmemory.put64(green, stream.context.handle if stream.context is not None else 0)


@entry("cuStreamGetDevice")
def get_device(handle: int, place: int) -> None:
    cmemory.put32(place, state().stream(handle).device.ordinal)


_POLICY = 3
_ATTRIBUTES = (WINDOW, _POLICY, 8, 9, 10)
"""CU_LAUNCH_ATTRIBUTE_* of streams: window of accesses, how the host waits, priority, map of domains, domain."""


@entry("cuStreamSetAttribute")
def set_attribute(handle: int, number: int, value: int) -> int | None:
    stream = state().stream(handle)
    if number not in _ATTRIBUTES or (number == _POLICY and not 1 <= cmemory.get32(value) <= 4):
        return results.INVALID_VALUE
    if number == WINDOW:
        window_of(ctypes.string_at(value, 64))
    stream.attributes[number] = ctypes.string_at(value, 64)
    return None


@entry("cuStreamGetAttribute")
def get_attribute(handle: int, number: int, place: int) -> int | None:
    stream = state().stream(handle)
    if number not in _ATTRIBUTES or not place:
        return results.INVALID_VALUE
    ctypes.memmove(place, stream.attributes.get(number, bytes(64)), 64)
    return None


@entry("cuStreamCopyAttributes")
def copy_attributes(target: int, source: int) -> None:
    state().stream(target).attributes = dict(state().stream(source).attributes)


@entry("cuStreamAttachMemAsync")
def attach_memory(handle: int, address: int, size: int, flags: int) -> None:
    """Memory always belongs to all streams here, so the arguments are checked without effect."""
    stream = state().stream(handle)
    if stream.capture is not None:
        raise break_capture(stream)
    known, _, _ = kinds.get(address, ("", 0, None))
    if known != MANAGED or flags not in (1, 2, 4) or size not in (0, whole_size(address)):
        raise CudaError(results.INVALID_VALUE)
    if flags == _SINGLE and stream is stream.device.default_stream:
        raise CudaError(results.INVALID_VALUE)


@entry("cuLaunchHostFunc")
def host_function(handle: int, function: int, data: int) -> int | None:
    if not function:
        return results.INVALID_VALUE
    state().current()
    submit(state().stream(handle), HostCall(function, data))
    return None


@dataclass(eq=False)
class Callback(Node):
    """A stream callback, which receives the stream and its status."""

    function: int
    stream: int
    data: int
    kind = 3

    def run(self, stream: Stream) -> None:
        host_waits_for([stream])
        ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)(self.function)(self.stream, 0, self.data)


@entry("cuStreamAddCallback")
def add_callback(handle: int, function: int, data: int, flags: int) -> int | None:
    if not function or flags:
        return results.INVALID_VALUE
    state().current()
    stream = state().stream(handle)
    if stream.capture is not None:
        stream.capture_broken = True
        return results.STREAM_CAPTURE_UNSUPPORTED
    submit(stream, Callback(function, handle, data))
    return None


# --- capture -----------------------------------------------------------------------------------------
@entry("cuStreamBeginCapture_v2")
def begin_capture(handle: int, mode: int) -> None:
    _begin(handle, new_graph(), [], mode)


@entry("cuStreamBeginCapture")
def begin_capture_1(handle: int) -> None:
    _begin(handle, new_graph(), [], 0)


@entry("cuStreamBeginCaptureToGraph")
def begin_capture_to_graph(handle: int, graph: int, needs: int, data: int, count: int, mode: int) -> None:
    _begin(handle, state().handles.get(Graph, graph), [vertex(h) for h in cmemory.words64(needs, count)], mode)


def _begin(handle: int, graph: Graph, tail: list[Vertex], mode: int) -> None:
    state().current()
    if not 0 <= mode <= RELAXED:
        raise CudaError(results.INVALID_VALUE)
    if handle in (0, 1):
        raise CudaError(results.STREAM_CAPTURE_UNSUPPORTED)
    stream = state().stream(handle)
    if stream.capture is not None:
        raise CudaError(results.ILLEGAL_STATE)
    stream.capture, stream.capture_tail, stream.capture_mode = graph, tail, mode
    stream.capture_id, stream.capture_origin, stream.capture_broken = next(_capture_numbers), True, False
    stream.capture_thread = threading.get_ident()


@entry("cuStreamEndCapture")
def end_capture(handle: int, place: int) -> None:
    s = state()
    stream = s.stream(handle)
    graph = stream.capture
    if graph is None:
        raise CudaError(results.ILLEGAL_STATE)
    if not stream.capture_origin:
        raise CudaError(results.STREAM_CAPTURE_UNMATCHED)
    reached: set[Vertex] = set()
    queue = list(stream.capture_tail)
    while queue:
        one = queue.pop()
        if one not in reached:
            reached.add(one)
            queue += one.needs
    others = [x for device in s.devices for x in device.streams if x.capture is graph and x is not stream]
    unjoined = any(v not in reached for x in others for v in x.capture_tail)
    broken = stream.capture_broken or any(x.capture_broken for x in others)
    for x in (stream, *others):
        x.capture, x.capture_tail, x.capture_broken = None, [], False
    cmemory.put64(place, 0 if broken or unjoined else graph.handle)
    if broken:
        raise CudaError(results.STREAM_CAPTURE_INVALIDATED)
    if unjoined:
        raise CudaError(UNJOINED)


def _status(stream: Stream) -> int:
    """CUstreamCaptureStatus: none, active, invalidated."""
    return 0 if stream.capture is None else 2 if stream.capture_broken else 1


def _asked_of_capture(handle: int) -> Stream:
    """The stream of a query about captures; a query about the default stream fails while a stream that it waits for is
    capturing."""
    stream = state().stream(handle)
    if stream is stream.device.default_stream:
        forbid_default_stream(stream, breaks=False)
    return stream


@entry("cuStreamIsCapturing")
def is_capturing(handle: int, place: int) -> None:
    state().current()
    cmemory.put32(place, _status(_asked_of_capture(handle)))


@entry("cuStreamGetCaptureInfo")
def capture_info(handle: int, status: int, number: int) -> None:
    _info(handle, status, number, 0, 0, 0)


@entry("cuStreamGetCaptureInfo_v2")
def capture_info_2(handle: int, status: int, number: int, graph: int, needs: int, count: int) -> None:
    _info(handle, status, number, graph, needs, count)


@entry("cuStreamGetCaptureInfo_v3")
def capture_info_3(handle: int, status: int, number: int, graph: int, needs: int, data: int, count: int) -> None:
    _info(handle, status, number, graph, needs, count)
    stream = state().stream(handle)
    if stream.capture is not None:
        # CUgraphEdgeData of 8 bytes each: zeros are edges that wait for a whole node; a dependent launch makes its own another one.
        _edges[stream] = (ctypes.c_uint64 * max(len(stream.capture_tail), 1))()
        cmemory.put64(data, ctypes.addressof(_edges[stream]))


_lists: dict[Stream, ctypes.Array[ctypes.c_uint64]] = {}
_edges: dict[Stream, ctypes.Array[ctypes.c_uint64]] = {}
"""Arrays to which callers hold pointers, until their next call."""


def _info(handle: int, status: int, number: int, graph: int, needs: int, count: int) -> None:
    stream = _asked_of_capture(handle)
    cmemory.put32(status, _status(stream))
    if stream.capture is None:
        return
    cmemory.put64(number, stream.capture_id)
    cmemory.put64(graph, stream.capture.handle)
    tail = stream.capture_tail
    _lists[stream] = (ctypes.c_uint64 * max(len(tail), 1))(*(v.handle for v in tail))
    cmemory.put64(needs, ctypes.addressof(_lists[stream]))
    cmemory.put64(count, len(tail))


@entry("cuStreamUpdateCaptureDependencies")
def update_dependencies(handle: int, needs: int, count: int, flags: int) -> None:
    _update(handle, needs, count, flags)


@entry("cuStreamUpdateCaptureDependencies_v2")
def update_dependencies_2(handle: int, needs: int, data: int, count: int, flags: int) -> None:
    _update(handle, needs, count, flags)


def _update(handle: int, needs: int, count: int, flags: int) -> None:
    stream = state().stream(handle)
    if stream.capture is None:
        raise CudaError(results.ILLEGAL_STATE)
    given = [vertex(h) for h in cmemory.words64(needs, count)]
    stream.capture_tail = given if flags & 1 else list(dict.fromkeys([*stream.capture_tail, *given]))


@entry("cuThreadExchangeStreamCaptureMode")
def exchange_mode(place: int) -> None:
    wanted, mine = cmemory.get32(place), thread_modes.mine()
    cmemory.put32(place, mine[0])
    mine[0] = wanted


# --- events ------------------------------------------------------------------------------------------
_NO_TIMING = 2


@entry("cuEventCreate")
def event_create(place: int, flags: int) -> int | None:
    s = state()
    s.current()
    # An event that other processes may use has no timing.
    if flags & ~7 or flags & 6 == 4:
        return results.INVALID_VALUE
    made = Event(flags, device=s.device)
    made.handle = s.handles.add(made)
    cmemory.put64(place, made.handle)
    return None


@entry("cuEventDestroy_v2")
def event_destroy(handle: int) -> None:
    state().handles.get(Event, handle)
    state().handles.drop(handle)


@entry("cuEventRecord")
def event_record(handle: int, stream: int) -> None:
    s = state()
    s.current()
    event, queue = s.handles.get(Event, handle), s.stream(stream)
    s.host_touches()
    s.host_calls(queue.device.gpu.chip.launch.event_call_us)
    if event.device not in (None, queue.device):
        raise CudaError(results.INVALID_HANDLE)
    if queue is queue.device.default_stream:
        forbid_default_stream(queue)
    if queue.capture is not None:
        event.capture, event.capture_tail = queue.capture, list(queue.capture_tail)
        event.capture_id, event.capture_mode = queue.capture_id, queue.capture_mode
        if not event.capture_tail:
            # An event recorded before the first captured node still joins other streams to the capture.
            root = queue.capture.add(Empty(), ())
            queue.capture_tail = event.capture_tail = [root]
    else:
        record(event, queue)


@entry("cuEventRecordWithFlags")
def event_record_with_flags(handle: int, stream: int, flags: int) -> None:
    s = state()
    queue = s.stream(stream)
    _check_external(flags, queue)
    if flags & _EXTERNAL and queue.capture is not None:
        submit(queue, RecordEvent(s.handles.get(Event, handle)))
    else:
        event_record(handle, stream)


@entry("cuEventSynchronize", "cuEventQuery")
def event_synchronize(handle: int) -> int | None:
    printf_buffer.flush()
    state().current()
    event = state().handles.get(Event, handle)
    if event.capture is not None:
        return results.STREAM_CAPTURE_UNSUPPORTED
    if event.queued is not None and not event.queued.done:
        return results.NOT_READY
    if state().timed:
        state().host_waits(event.ps)
    host_waits(event.clock)
    return None


@entry("cuEventElapsedTime", "cuEventElapsedTime_v2")
def elapsed(place: int, start: int, end: int) -> int | None:
    s = state()
    s.check_process()
    first, last = s.handles.get(Event, start), s.handles.get(Event, end)
    if not place or not (first.recorded and last.recorded) or (first.flags | last.flags) & _NO_TIMING:
        return results.INVALID_HANDLE
    if first.device is not last.device:  # CUDA C++ Programming Guide, "Stream and Event Behavior"
        return results.INVALID_HANDLE
    cmemory.put_float(place, (last.ps - first.ps) * 1e-9)
    return None
