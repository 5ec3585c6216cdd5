"""CUPTI's activity records of calls, kernels, copies and fills, which PyTorch's profiler reads.

Times are those of ``driver/activities.py``: simulated durations of the device's work on the host's clock.  Only callbacks for resources can be enabled, and
they are never called; counters, sampling and other kinds of activities are refused.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

from warpwright.driver import activities, cmemory
from warpwright.driver.activities import Call, DeviceWork, Recorder
from warpwright.driver.copies import Copy, Fill
from warpwright.driver.cuda_error import say
from warpwright.driver.driver_state import state
from warpwright.driver.launches import Launch
from warpwright.driver.memory import HOST, MANAGED, REGISTERED, device_at, holder, kinds
from warpwright.driver.pending import queue
from warpwright.libraries.calls import entry, invalid, unsupported

VERSION = 130001
"""CUPTI_API_VERSION of CUDA 13.0."""
END, EMPTY = 12, 18
"""CUPTI_ERROR_MAX_LIMIT_REACHED, _QUEUE_EMPTY."""
COPY, FILL, KERNEL, DRIVER, RUNTIME, CONCURRENT, OVERHEAD, LINK = 1, 2, 3, 4, 5, 10, 17, 39
"""CUpti_ActivityKind."""
_KINDS = (COPY, FILL, KERNEL, DRIVER, RUNTIME, CONCURRENT, OVERHEAD, LINK)
_RESOURCES = 3
"""CUPTI_CB_DOMAIN_RESOURCE."""
_KERNEL = "<IBBHII3Q3I3i3iiiIIIqQQQQ4BIQIIQII4IQIIB7x"
"""CUpti_ActivityKernel10, whose fields are at the same offsets as in earlier versions."""
_COPY = "<I4B3Q6IQQ3IB3xQ"
"""CUpti_ActivityMemcpy6."""
_FILL = "<II3Q4IHHIQQ3IB3x"
"""CUpti_ActivityMemset4, with the padding at its end."""
_CALL, _LINK = "<IIQQIIII", "<IIQII"
"""CUpti_ActivityAPI, CUpti_ActivityExternalCorrelation."""
_SIZES = {
    kind: -(-struct.calcsize(layout) // 8) * 8
    for kind, layout in ((COPY, _COPY), (FILL, _FILL), (KERNEL, _KERNEL), (CONCURRENT, _KERNEL))
} | {DRIVER: struct.calcsize(_CALL), RUNTIME: struct.calcsize(_CALL), LINK: struct.calcsize(_LINK)}
_PAGEABLE, _PINNED, _ON_DEVICE, _IS_MANAGED = 1, 2, 3, 5
"""CUpti_ActivityMemoryKind."""
_DIRECTIONS = {(True, False): 1, (False, True): 2, (False, False): 8, (True, True): 9}
"""CUpti_ActivityMemcpyKind by whether source and target are on the host."""
_BETWEEN_DEVICES = 10
_FIRST_STREAM, _DEFAULT_STREAM = 13, 7
"""Numbers that CUPTI gives to streams."""


@dataclass
class Profiler:
    """What the program has enabled and registered."""

    kinds: set[int] = field(default_factory=set)
    recorder: Recorder = field(default_factory=Recorder)
    requested: int = 0
    completed: int = 0
    """Addresses of the program's functions that give buffers and take filled ones."""
    timestamp: int = 0
    """Address of the program's function that reads its clock, in units of its own; 0: nanoseconds."""
    began: tuple[int, int] = (0, 0)
    """The host's clock and the program's when recording began."""
    buffers: list[tuple[int, int]] = field(default_factory=list)
    """Addresses and sizes in bytes of empty buffers that the program has given."""


profiler = Profiler()


@cache
def numbers() -> dict[str, int]:
    """CUPTI's numbers of calls by name."""
    rows = resources.files("warpwright.libraries").joinpath("data/cupti_calls.txt").read_text(encoding="utf-8")
    return {name: int(number) for name, number in (row.split() for row in rows.splitlines())}


# --- what is recorded -------------------------------------------------------------------------------
@entry("cuptiActivityEnable")
def enable(kind: int) -> None:
    if kind not in _KINDS:
        raise unsupported(f"activities of kind {kind} are not provided")
    if not profiler.kinds:
        queue.drain()
        profiler.began = time.perf_counter_ns(), _now()
        say(
            "durations of the device's work in the profiler are simulated; the times of calls and of the host are those of the simulator"
        )
        if state().devices[0].gpu.timing == "off":
            say("with --timing off the device's work has no duration")
    profiler.kinds.add(kind)
    profiler.recorder.at_first = profiler.recorder.at_first or _hold_buffer
    activities.recorder = profiler.recorder


@entry("cuptiActivityDisable")
def disable(kind: int) -> None:
    queue.drain()
    profiler.kinds.discard(kind)
    if not profiler.kinds:
        activities.recorder = None


def _leave_out(driver: bool) -> None:
    @entry("cuptiActivityEnableDriverApi" if driver else "cuptiActivityEnableRuntimeApi")
    def choose(number: int, wanted: int) -> None:
        names = {name for name, one in numbers().items() if one == number and name.startswith("cuda") != driver}
        left_out = profiler.recorder.left_out
        profiler.recorder.left_out = left_out - names if wanted else left_out | names


_leave_out(True)
_leave_out(False)


@entry("cuptiActivityPushExternalCorrelationId")
def push_link(kind: int, number: int) -> None:
    profiler.recorder.links().setdefault(kind, []).append(number)


@entry("cuptiActivityPopExternalCorrelationId")
def pop_link(kind: int, place: int) -> int | None:
    stack = profiler.recorder.links().get(kind)
    if not stack:
        return EMPTY
    number = stack.pop()
    if place:
        cmemory.put64(place, number)
    return None


@entry("cuptiActivitySetAttribute", "cuptiActivityGetAttribute", "cuptiActivityEnableCudaEventDeviceTimestamps")
def without_effect(*_: int) -> None:
    """Sizes of device buffers and records of events, neither of which exists here."""


# --- buffers ----------------------------------------------------------------------------------------
@entry("cuptiActivityRegisterCallbacks")
def register_callbacks(requested: int, completed: int) -> None:
    if not (requested and completed):
        raise invalid()
    profiler.requested, profiler.completed = requested, completed


@entry("cuptiActivityRegisterTimestampCallback")
def register_timestamp(function: int) -> None:
    profiler.timestamp = function


def _now() -> int:
    """The program's clock."""
    if not profiler.timestamp:
        return time.time_ns()
    return int(ctypes.CFUNCTYPE(ctypes.c_uint64)(profiler.timestamp)())


@entry("cuptiGetTimestamp")
def get_timestamp(place: int) -> None:
    cmemory.put64(place, _now())


def _buffer() -> tuple[int, int]:
    """A new buffer from the program: its address and size in bytes."""
    address, size, most = (ctypes.c_size_t() for _ in range(3))
    kind = ctypes.CFUNCTYPE(None, *[ctypes.POINTER(ctypes.c_size_t)] * 3)
    kind(profiler.requested)(ctypes.byref(address), ctypes.byref(size), ctypes.byref(most))
    return address.value, size.value


def _hold_buffer() -> None:
    """Request a buffer as soon as there is a record: programs flush only if they have given one."""
    if profiler.requested and not profiler.buffers:
        profiler.buffers.append(_buffer())


@entry("cuptiActivityFlushAll")
def flush(flags: int) -> None:
    queue.drain()
    records = deque(_records())
    completed = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint32, *[ctypes.c_size_t] * 3)
    while (records or profiler.buffers) and profiler.requested:
        address, size = profiler.buffers.pop() if profiler.buffers else _buffer()
        used = 0
        while records and used + len(records[0]) <= size:
            record = records.popleft()
            ctypes.memmove(address + used, record, len(record))
            used += len(record)
        completed(profiler.completed)(0, 0, address, size, used)
        if not used:
            break
    profiler.recorder.at_first = _hold_buffer


@entry("cuptiActivityGetNextRecord")
def next_record(buffer: int, valid: int, place: int) -> int | None:
    if not (buffer and place):
        raise invalid()
    at = cmemory.get64(place)
    following = at + _SIZES[cmemory.get32(at)] if at else buffer
    if following >= buffer + valid:
        return END
    cmemory.put64(place, following)
    return None


@entry("cuptiActivityGetNumDroppedRecords")
def dropped(context: int, stream: int, place: int) -> None:
    cmemory.put64(place, 0)


# --- records ----------------------------------------------------------------------------------------
class _Clock:
    """Turns the host's clock into the program's, by two readings of both."""

    def __init__(self) -> None:
        self._ns, self._own = profiler.began
        passed = max(time.perf_counter_ns() - self._ns, 1)
        self._rate = (_now() - self._own) / passed

    def __call__(self, ns: float) -> int:
        return self._own + round((ns - self._ns) * self._rate)


def _records() -> list[bytes]:
    """All records so far, in the order of the calls; links precede the records to which they belong."""
    recorder, clock = profiler.recorder, _Clock()
    calls, work = recorder.calls[:], recorder.work[:]
    del recorder.calls[: len(calls)], recorder.work[: len(work)]
    found = []
    for call in calls:
        if LINK in profiler.kinds or not profiler.kinds:
            found += [struct.pack(_LINK, LINK, kind, number, call.number, 0) for kind, number in call.links.items()]
        found.append(_call(call, clock))
    for one in work:
        record = _kernel(one, clock) if isinstance(one.work, Launch) else _move(one, clock)
        found.append(record.ljust(_SIZES[struct.unpack_from("<I", record)[0]], b"\0"))
    return found


def _call(call: Call, clock: _Clock) -> bytes:
    kind = RUNTIME if call.name.startswith("cuda") else DRIVER
    process, result = state().process, call.result & 0xFFFF_FFFF
    times = clock(call.begin_ns), clock(call.end_ns)
    return struct.pack(_CALL, kind, numbers().get(call.name, 0), *times, process, call.thread, call.number, result)


def _stream_number(one: DeviceWork) -> int:
    stream = one.stream
    if stream is stream.device.default_stream or stream not in stream.device.streams:
        return _DEFAULT_STREAM
    return _FIRST_STREAM + stream.device.streams.index(stream) - 1


def _place(one: DeviceWork) -> tuple[int, int, int]:
    """Device, context and stream."""
    ordinal = one.stream.device.ordinal
    return ordinal, ordinal + 1, _stream_number(one)


def _kernel(one: DeviceWork, clock: _Clock) -> bytes:
    launch: Launch = one.work
    function, record = launch.function, launch.function.record
    begin, end = clock(one.begin_ns), clock(one.end_ns)
    kind = CONCURRENT if CONCURRENT in profiler.kinds or KERNEL not in profiler.kinds else KERNEL
    name = cmemory.static_text(function.symbol)
    static, local = function.attribute(1), function.attribute(3)
    shared = static + launch.shared
    cluster = launch.cluster or function.cluster or (0, 0, 0)
    return struct.pack(
        _KERNEL,
        *(kind, 0, 0, record.registers, 0, 0, begin, end, end, *_place(one), *launch.grid, *launch.block),
        *(static, launch.shared, local, 0, one.number, one.number, name, 0, 0, 0, int(launch.cooperative), 0, 0, 0),
        *(shared, 0, 0, 0, 0, 0, 0, *cluster, 0, 0, 0, 0, 0),
    )


def _memory_kind(address: int) -> int:
    found = holder(address)
    if found is None:
        return _PAGEABLE
    kind = kinds.get(found.address, ("",))[0]
    return {HOST: _PINNED, REGISTERED: _PINNED, MANAGED: _IS_MANAGED}.get(kind, _ON_DEVICE)


def _move(one: DeviceWork, clock: _Clock) -> bytes:
    """A copy or a fill."""
    begin, end, work = clock(one.begin_ns), clock(one.end_ns), one.work
    if isinstance(work, Fill):
        size, kind = work.width * work.size * work.height, _memory_kind(work.address)
        value = work.value & 0xFFFF_FFFF
        return struct.pack(_FILL, FILL, value, size, begin, end, *_place(one), one.number, 0, kind, 0, 0, 0, 0, 0, 0, 0)
    assert isinstance(work, Copy)
    source, target = _memory_kind(work.source.address), _memory_kind(work.target.address)
    direction = _DIRECTIONS[source <= _PINNED, target <= _PINNED]
    if direction == _DIRECTIONS[False, False] and device_at(work.source.address) is not device_at(work.target.address):
        direction = _BETWEEN_DEVICES
    head = (COPY, direction, source, target, 0, work.size, begin, end, *_place(one), one.number, 0, 0)
    return struct.pack(_COPY, *head, 0, 0, 0, 0, 0, 0, 1)


# --- the rest ---------------------------------------------------------------------------------------
@entry("cuptiGetVersion")
def get_version(place: int) -> None:
    cmemory.put32(place, VERSION)


@entry("cuptiGetResultString")
def result_string(result: int, place: int) -> None:
    names = {0: "SUCCESS", 1: "ERROR_INVALID_PARAMETER", 12: "ERROR_MAX_LIMIT_REACHED", 18: "ERROR_QUEUE_EMPTY", 27: "ERROR_NOT_SUPPORTED"}  # fmt: skip
    cmemory.put64(place, cmemory.static_text(f"CUPTI_{names.get(result, f'ERROR_{result}')}"))


@entry("cuptiSubscribe")
def subscribe(place: int, function: int, data: int) -> None:
    cmemory.put64(place, state().handles.add(("CUPTI's subscriber", function, data)))


@entry("cuptiUnsubscribe")
def unsubscribe(handle: int) -> None:
    state().handles.drop(handle)


@entry("cuptiEnableDomain")
def enable_domain(wanted: int, handle: int, domain: int) -> None:
    _check_domain(wanted, domain)


@entry("cuptiEnableCallback")
def enable_callback(wanted: int, handle: int, domain: int, number: int) -> None:
    _check_domain(wanted, domain)


def _check_domain(wanted: int, domain: int) -> None:
    if wanted and domain != _RESOURCES:
        raise unsupported("callbacks at calls are not provided; activity records are")


@entry("cuptiFinalize")
def finalize() -> None:
    profiler.kinds.clear()
    activities.recorder = None
