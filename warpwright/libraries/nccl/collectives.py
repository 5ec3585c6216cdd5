"""Collective and point-to-point calls, and groups of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from warpwright.driver import cmemory
from warpwright.driver.driver_state import Stream, state
from warpwright.libraries.calls import LibraryError, entry, invalid
from warpwright.libraries.nccl import transport
from warpwright.libraries.nccl.communicators import Communicator, communicator, group
from warpwright.libraries.nccl.moves import ELEMENT_BYTES, POINT_TO_POINT, REDUCTIONS, Kind, Request

PREMULTIPLIED = 5
"""The first of ncclRedOp_t that ncclRedOpCreatePreMulSum makes."""
_FP8 = (10, 11)


@dataclass(slots=True)
class Call:
    """A request in its stream."""

    communicator: Communicator
    request: Request
    stream: Stream


def _call(handle: int, stream: int, kind: Kind, buffers: tuple[int, int], elements: tuple[int, int], operation: int = 0, root: int = 0) -> None:  # fmt: skip
    """Hand in a call.

    Args:
        buffers: addresses to send from and to receive at.
        elements: number and ncclDataType_t.
        root: or the peer of a send or receive.
    """
    count, type = elements
    rank = communicator(handle)
    if not 0 <= type < len(ELEMENT_BYTES):
        raise invalid(f"there is no ncclDataType_t {type}")
    scale = 1.0
    if kind in REDUCTIONS:
        if type in _FP8:
            raise LibraryError("not_supported", "reductions of 8-bit floating-point types are not provided")
        if operation >= PREMULTIPLIED and operation not in rank.scales:
            raise invalid(f"there is no ncclRedOp_t {operation}")
        scale = rank.scales.get(operation, 1.0)
    request = Request(kind, *buffers, count, type, operation, root, scale)
    made = Call(rank, request, state().stream(stream) if stream > 2 else rank.device.default_stream)
    if made.stream.capture is not None:
        raise LibraryError("not_supported", "collectives are not captured into CUDA graphs")
    if group().depth:
        group().calls.append(made)
    else:
        _post([made])


@entry("ncclAllReduce")
def all_reduce(send: int, receive: int, count: int, type: int, operation: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.ALL_REDUCE, (send, receive), (count, type), operation=operation)


@entry("ncclReduce")
def reduce(send: int, receive: int, count: int, type: int, operation: int, root: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.REDUCE, (send, receive), (count, type), operation=operation, root=root)


@entry("ncclReduceScatter")
def reduce_scatter(send: int, receive: int, count: int, type: int, operation: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.REDUCE_SCATTER, (send, receive), (count, type), operation=operation)


@entry("ncclBroadcast")
def broadcast(send: int, receive: int, count: int, type: int, root: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.BROADCAST, (send, receive), (count, type), root=root)


@entry("ncclBcast")
def broadcast_in_place(buffer: int, count: int, type: int, root: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.BROADCAST, (buffer, buffer), (count, type), root=root)


@entry("ncclAllGather")
def all_gather(send: int, receive: int, count: int, type: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.ALL_GATHER, (send, receive), (count, type))


@entry("ncclAlltoAll")
def all_to_all(send: int, receive: int, count: int, type: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.ALL_TO_ALL, (send, receive), (count, type))


@entry("ncclGather")
def gather(send: int, receive: int, count: int, type: int, root: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.GATHER, (send, receive), (count, type), root=root)


@entry("ncclScatter")
def scatter(send: int, receive: int, count: int, type: int, root: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.SCATTER, (send, receive), (count, type), root=root)


@entry("ncclSend")
def send(buffer: int, count: int, type: int, peer: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.SEND, (buffer, 0), (count, type), root=peer)


@entry("ncclRecv")
def receive(buffer: int, count: int, type: int, peer: int, handle: int, stream: int) -> None:
    _call(handle, stream, Kind.RECEIVE, (0, buffer), (count, type), root=peer)


@entry("ncclRedOpCreatePreMulSum")
def create_operation(place: int, scalar: int, type: int, residence: int, handle: int) -> None:
    rank = communicator(handle)
    number = PREMULTIPLIED + len(rank.scales)
    rank.scales[number] = transport.scalar(scalar, type)
    cmemory.put32(place, number)


@entry("ncclRedOpDestroy")
def destroy_operation(operation: int, handle: int) -> None:
    if operation not in communicator(handle).scales:
        raise invalid()


# --- groups -----------------------------------------------------------------------------------------
@entry("ncclGroupStart")
def group_start() -> None:
    group().depth += 1


@entry("ncclGroupEnd")
def group_end() -> None:
    mine = group()
    if not mine.depth:
        raise LibraryError("not_supported", "ncclGroupEnd without ncclGroupStart")
    mine.depth -= 1
    if mine.depth:
        return
    joins, mine.joins = mine.joins, []
    calls, mine.calls = mine.calls, []
    for join in joins:
        join.finish()
    _post(calls)


Step = list[Call]
"""One rank's part of what all ranks do at once: a collective, or the sends and receives of a group."""


def _steps(calls: Sequence[Call]) -> dict[Communicator, list[Step]]:
    """Each rank's steps: sends and receives of a group are one, after its collectives."""
    found: dict[Communicator, list[Step]] = {}
    for made in calls:
        steps = found.setdefault(made.communicator, [])
        if made.request.kind not in POINT_TO_POINT:
            steps.append([made])
    for made in calls:
        if made.request.kind in POINT_TO_POINT:
            steps = found[made.communicator]
            if not steps or steps[-1][0].request.kind not in POINT_TO_POINT:
                steps.append([])
            steps[-1].append(made)
    return found


def _post(calls: Sequence[Call]) -> None:
    """Hand in calls; what every rank of this process has handed in is done."""
    posted = _steps(calls)
    targets = {}
    for rank, steps in posted.items():
        clique = rank.clique
        with clique.changed:
            clique.posted[rank.rank].extend(steps)
            targets[rank] = clique.done + len(clique.posted[rank.rank])
    for clique in {rank.clique: None for rank in posted}:
        with clique.changed:
            while len(clique.posted) == len(clique.local) and all(clique.posted.values()):
                steps = [clique.posted[rank].pop(0) for rank in clique.local]
                clique.done += 1
                try:
                    transport.perform(clique, [[(c.request, c.stream) for c in step] for step in steps])
                finally:
                    clique.changed.notify_all()
    for rank, target in targets.items():
        _await(rank, target)


def _await(rank: Communicator, target: int) -> None:
    """Wait until a rank's calls are done, where other threads call for the other ranks of this process."""
    clique = rank.clique
    here = threading.get_ident()
    if any(one.thread == here for one in clique.members.values() if one is not rank):
        return  # this thread itself calls for another rank next
    with clique.changed:
        while clique.done < target:
            clique.changed.wait()
