"""How moves are made: by kernels on all devices of the process at once, or through the host's memory.

Kernels (``cuda/nccl.cu``) read and write the other devices' memory over the simulated links, and take the time that this takes.  Between processes, for devices without access
to each other, and with checks or sampled timing, the host moves the bytes, and the time is that of the links: each rank's bytes by every step
of their route, the slowest step counting.
"""

from __future__ import annotations

import ctypes
import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from warpwright.driver.contexts import peers_open
from warpwright.driver.copies import written
from warpwright.driver.driver_state import Device, Stream, in_context, picoseconds, state
from warpwright.driver.launch_records import note_collective
from warpwright.driver.launches import Launch
from warpwright.driver.multi_device import launch_together
from warpwright.driver.pending import finish
from warpwright.libraries import library_kernels
from warpwright.libraries.nccl.moves import ELEMENT_BYTES, REDUCTIONS, Kind, Move, Request, moves_of, paired
from warpwright.session import Collective

if TYPE_CHECKING:
    from warpwright.libraries.nccl.communicators import Clique

_INT8, _UINT8, _HALF, _FLOAT, _DOUBLE, _BFLOAT = 0, 1, 6, 7, 8, 9
_ELEMENTS = (
    "signed char",
    "unsigned char",
    "int",
    "unsigned",
    "long long",
    "unsigned long long",
    "half_t",
    "float",
    "double",
    "bfloat_t",
)
_ARRAYS = ("i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "u2")
_AVERAGE, _PREMULTIPLIED = 4, 5
_NAMES = ("sum", "prod", "max", "min")
_SCALED = ("", "premulsum", "avg")
"""Names of reductions whose sum is multiplied or divided."""
BUFFERS, MOVES = 16, 8
"""Ranks of one process, and moves of one launch."""
THREADS, LARGEST_GRID = 512, 24
_PARAMETER = "<" + f"{2 * BUFFERS}Qq2i"
Array = NDArray[Any]


def scalar(place: int, type: int) -> float:
    """The factor of a premultiplied sum; a simulated device's addresses are the process's."""
    raw = ctypes.string_at(place, ELEMENT_BYTES[type])
    if type == _BFLOAT:
        return float(np.frombuffer(b"\0\0" + raw, "<f4")[0])
    return float(np.frombuffer(raw, _ARRAYS[type])[0])


def _sum_type(type: int) -> str:
    if type in (_HALF, _FLOAT, _BFLOAT):
        return "float"
    return (
        "double"
        if type == _DOUBLE
        else ("unsigned long long" if _ELEMENTS[type].startswith("unsigned") else "long long")
    )


def _scaling(request: Request, ranks: int) -> tuple[float, int, int]:
    """Factor or divisor, which of the two (``cuda/nccl.cu``), and the operation of a reduction."""
    if request.kind not in REDUCTIONS:
        return 1.0, 0, 0
    if request.operation == _AVERAGE:
        return float(ranks), 2, 0
    if request.operation >= _PREMULTIPLIED:
        return request.scale, 1, 0
    return 1.0, 0, request.operation


Part = list[tuple[Request, Stream]]
"""One rank's requests of a step, in their streams."""


def perform(clique: Clique, parts: Sequence[Part]) -> None:
    """Do one step of a communicator.

    Args:
        parts: of each rank of this process, by rank.
    """
    streams = {rank: part[0][1] for rank, part in zip(clique.local, parts, strict=True)}
    for part in parts:
        for _, stream in part:
            finish(stream)
    requests = [[request for request, _ in part] for part in parts]
    if not clique.whole:
        seconds = _between_processes(clique, requests, streams)
        _note(clique, requests, streams, seconds)
        return
    moves, first = _planned(requests)
    if _can_run_kernels(list(streams.values())):
        for some in _batches(moves):
            _launch(some, first, streams)
    else:
        _by_host(moves, first, len(parts))
        ordinals = {rank: stream.device.index for rank, stream in streams.items()}
        _note(clique, requests, streams, _take_time(moves, first, streams, ordinals))


def _note(clique: Clique, requests: Sequence[Sequence[Request]], streams: dict[int, Stream], seconds: float) -> None:
    """Record a step that the host has done, for each rank of this process."""
    for own, stream in zip(requests, streams.values(), strict=True):
        name = ", ".join(dict.fromkeys(request.kind.value for request in own))
        size = sum(request.count * ELEMENT_BYTES[request.type] for request in own)
        note_collective(Collective(name, stream.device.index, clique.ranks, size, seconds))


def _planned(requests: Sequence[Sequence[Request]]) -> tuple[list[Move], Request]:
    """The moves of a step, and the request whose type and operation they have."""
    first = requests[0][0]
    if first.kind in (Kind.SEND, Kind.RECEIVE):
        moves, _ = paired(requests)
        return moves, Request(Kind.SEND, 0, 0, 0, _UINT8)
    return moves_of([each[0] for each in requests]), first


def _can_run_kernels(streams: Sequence[Stream]) -> bool:
    s = state()
    devices = [stream.device for stream in streams]
    if len(devices) > BUFFERS or any(d.gpu.timing == "sampled" or d.gpu.checker is not None for d in devices):
        return False
    return all(s.can_access(one, other) for one in devices for other in devices if one is not other)


def _batches(moves: Sequence[Move]) -> Iterable[list[Move]]:
    """Moves of one launch each: of every rank as many as a launch takes."""
    left: dict[int, list[Move]] = defaultdict(list)
    for move in moves:
        left[move.rank].append(move)
    while any(left.values()):
        batch = []
        for rank, own in left.items():
            batch += own[:MOVES]
            left[rank] = own[MOVES:]
        yield batch


def _launch(moves: Sequence[Move], first: Request, streams: dict[int, Stream]) -> None:
    """Run a kernel on every rank's device at once."""
    scale, scales, operation = _scaling(first, len(streams))
    name = f"warpwright_nccl_{first.kind.value}" + (
        f"_{_SCALED[scales] or _NAMES[operation]}" if first.kind in REDUCTIONS else ""
    )
    size = ELEMENT_BYTES[first.type]
    code = library_kernels.code(
        "nccl.cu",
        "NCCL",
        KERNEL=name,
        ELEMENT=_ELEMENTS[first.type] if first.kind in REDUCTIONS else {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}[size],
        SUM=_sum_type(first.type) if first.kind in REDUCTIONS else "unsigned long long",
        OPERATION=operation if first.kind in REDUCTIONS else -1,
        SCALES=scales,
        MOVES=MOVES,
        BUFFERS=BUFFERS,
    )  # fmt: skip
    vectors = int(all(place % 16 == 0 for m in moves for _, place in (*m.sources, *m.targets)))
    longest = max(m.count for m in moves)
    grid = min(LARGEST_GRID, max(1, -(-longest * size // (16 * THREADS))))
    depth = max(sum(m.rank == rank for m in moves) for rank in streams)
    launches, contexts = [], []
    for rank, stream in streams.items():
        own = [m for m in moves if m.rank == rank]
        rows = [_row(m) for m in own] + [bytes(struct.calcsize(_PARAMETER))] * (MOVES - len(own))
        context = stream.context or stream.device.primary
        with in_context(context):
            function = code.here().function(name)
        parameters = bytearray(function.parameter_bytes)
        values = (b"".join(rows), struct.pack("<d", scale), struct.pack("<i", vectors))
        for (offset, width), value in zip(function.parameters, values, strict=True):
            parameters[offset : offset + width] = value
        launches.append(Launch(function, (grid, depth, 1), (THREADS, 1, 1), 0, bytes(parameters), cooperative=True))
        contexts.append(context)
    with peers_open(contexts):
        launch_together(launches, list(streams.values()), contexts)


def _row(move: Move) -> bytes:
    sources, targets = ([place for _, place in side] for side in (move.sources, move.targets))
    padded = [side + [0] * (BUFFERS - len(side)) for side in (sources, targets)]
    return struct.pack(_PARAMETER, *padded[0], *padded[1], move.count, len(sources), len(targets))


# --- through the host -------------------------------------------------------------------------------
def _values(raw: bytes, type: int) -> Array:
    """Elements in the type in which they are combined."""
    if type == _BFLOAT:
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    found = np.frombuffer(raw, _ARRAYS[type])
    return found.astype(np.float32) if type == _HALF else found


def _combined(parts: Sequence[bytes], request: Request, ranks: int) -> bytes:
    """What a move stores."""
    scale, scales, operation = _scaling(request, ranks)
    if len(parts) == 1 and not scales:
        return parts[0]
    type = request.type
    function = (np.add, np.multiply, np.maximum, np.minimum)[operation]
    with np.errstate(all="ignore"):
        total = _values(parts[0], type)
        for part in parts[1:]:
            total = function(total, _values(part, type))
        if scales == 1:
            total = total * total.dtype.type(scale)
        if scales == 2:
            total = total / total.dtype.type(scale) if total.dtype.kind == "f" else np.trunc(total / scale)
        if type == _BFLOAT:
            bits = total.astype(np.float32).view(np.uint32)
            return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()
        return total.astype(_ARRAYS[type]).tobytes()


def _store(place: int, raw: bytes) -> None:
    ctypes.memmove(place, raw, len(raw))
    written(place, len(raw))


def _by_host(moves: Sequence[Move], first: Request, ranks: int) -> None:
    size = ELEMENT_BYTES[first.type]
    results = [
        _combined([ctypes.string_at(place, m.count * size) for _, place in m.sources], first, ranks) for m in moves
    ]
    for move, result in zip(moves, results, strict=True):
        for _, place in move.targets:
            _store(place, result)


def _between_processes(clique: Clique, requests: Sequence[Sequence[Request]], streams: dict[int, Stream]) -> float:
    """A step of ranks in several processes: each tells what it wants, then what it combined or sends; returns its time in seconds."""
    meeting = clique.speaker.meeting
    said = _gathered(clique, meeting, dict(zip(clique.local, requests, strict=True)))
    moves, first = _planned([said[rank] for rank in range(clique.ranks)])
    size, here = ELEMENT_BYTES[first.type], set(clique.local)
    # Buffers that another process's moves read.
    needed = {
        (rank, place, move.count)
        for move in moves
        for rank, place in move.sources
        if rank in here and any(target not in here for target, _ in move.targets)
    }
    sent = {key: ctypes.string_at(key[1], key[2] * size) for key in needed}
    received = _gathered(clique, meeting, sent)
    results = []
    for move in moves:
        if all(rank not in here for rank, _ in move.targets):
            continue
        parts = [
            received[key]
            if (key := (rank, place, move.count)) in received
            else ctypes.string_at(place, move.count * size)
            for rank, place in move.sources
        ]
        results.append((move, _combined(parts, first, clique.ranks)))
    for move, result in results:
        for rank, place in move.targets:
            if rank in here:
                _store(place, result)
    return _take_time(moves, first, streams, clique.ordinals)


def _gathered(clique: Clique, meeting: Any, mine: dict[Any, Any]) -> dict[Any, Any]:
    """The dictionaries of all processes together; ranks that do not speak for their process send an empty one."""
    for rank, member in clique.members.items():
        if member.meeting is not meeting:
            member.meeting.say({})
            assert rank in clique.local
    found: dict[Any, Any] = {}
    for part in meeting.gather(mine).values():
        found |= part
    for member in clique.members.values():
        if member.meeting is not meeting:
            member.meeting.hear()
    return found


def _take_time(moves: Sequence[Move], first: Request, streams: dict[int, Stream], ordinals: dict[int, int]) -> float:
    """Let the streams' devices spend the time of the links; returns it in seconds."""
    s = state()
    if not s.timed or not moves:
        return 0.0
    size = ELEMENT_BYTES[first.type]
    taken: dict[Any, float] = defaultdict(float)
    for move in moves:
        crossings = [(rank, move.rank) for rank, _ in move.sources] + [(move.rank, rank) for rank, _ in move.targets]
        for of, to in crossings:
            if of != to:
                for way, seconds in _ways(s.device_of(ordinals[of]), s.device_of(ordinals[to]), move.count * size):
                    taken[way] += seconds
    begin = max(s.begin(stream, stream.device.gpu.chip.launch.launch_latency_us) for stream in streams.values())
    latency = max(stream.device.gpu.chip.transfer.host_copy_latency_us for stream in streams.values()) * 1e-6
    end = begin + picoseconds(max(taken.values(), default=0.0) + latency)
    for stream in streams.values():
        stream.ps = end
    return (end - begin) * 1e-12


def _ways(of: Device, to: Device, size: int) -> Iterable[tuple[Any, float]]:
    """The steps of a route, and the time that so many bytes take each of them."""
    s = state()
    if s.machine is None:
        seconds = size / (of.gpu.chip.transfer.peer_copy_gb_per_s * 1e9)
        return [((of, "out"), seconds), ((to, "in"), seconds)]
    route = s.route(of, to)
    if route is None:
        rate = min(one.gpu.chip.transfer.host_copy_gb_per_s for one in (of, to)) * s.machine.staged_copy_percent / 100
        return [((of, "host"), size / (rate * 1e9)), ((to, "host"), size / (rate * 1e9))]
    return [(way, route.copy_seconds(size)) for way in route.ways]
