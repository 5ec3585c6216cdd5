"""What the ranks of a communicator read and write for a collective.

A move combines ``count`` elements of one or more ranks' buffers, in the order of the ranks, and stores the result in the buffers of one or more ranks.  An all-reduce
is one move for each rank: the rank's share of the elements is read from all ranks and written to all of them.  No rank reads
what another writes, also where a buffer is both source and target, so that moves need no order among each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from warpwright.libraries.calls import LibraryError, invalid


class Kind(Enum):
    """Calls that ranks answer together."""

    ALL_REDUCE = "AllReduce"
    BROADCAST = "Broadcast"
    REDUCE = "Reduce"
    ALL_GATHER = "AllGather"
    REDUCE_SCATTER = "ReduceScatter"
    ALL_TO_ALL = "AlltoAll"
    GATHER = "Gather"
    SCATTER = "Scatter"
    SEND = "Send"
    RECEIVE = "Recv"


REDUCTIONS = (Kind.ALL_REDUCE, Kind.REDUCE, Kind.REDUCE_SCATTER)
POINT_TO_POINT = (Kind.SEND, Kind.RECEIVE)


@dataclass(frozen=True, slots=True)
class Request:
    """One rank's call."""

    kind: Kind
    send: int
    receive: int
    count: int
    type: int
    operation: int = 0
    """ncclRedOp_t; those from ``PREMULTIPLIED`` on are scaled sums."""
    root: int = 0
    """Or the peer of a send or receive."""
    scale: float = 1.0

    @property
    def terms(self) -> tuple[Kind, int, int, int, int]:
        """What every rank must have said alike."""
        return self.kind, self.count, self.type, self.operation, self.root


@dataclass(frozen=True, slots=True)
class Move:
    """Sources and targets are pairs of rank and address; ``rank`` does the move."""

    rank: int
    sources: tuple[tuple[int, int], ...]
    targets: tuple[tuple[int, int], ...]
    count: int


ELEMENT_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)
"""By ncclDataType_t: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, two of fp8."""


def _share(count: int, rank: int, ranks: int, element_bytes: int) -> tuple[int, int]:
    """First element and number of a rank's share: whole vectors of 16 bytes where there are enough."""
    vector = 16 // element_bytes
    each = -(-count // (ranks * vector)) * vector
    first = min(rank * each, count)
    return first, min(each, count - first)


def moves_of(requests: Sequence[Request]) -> list[Move]:
    """The moves of one collective.

    Args:
        requests: one for each rank.

    Raises:
        LibraryError: ncclInvalidUsage where the ranks' calls differ.
    """
    first = requests[0]
    if any(one.terms != first.terms for one in requests):
        raise LibraryError("not_supported", f"the ranks' calls differ: {[one.terms for one in requests]}")
    if first.kind in (Kind.BROADCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER) and not 0 <= first.root < len(requests):
        raise invalid(f"there is no rank {first.root}")
    made = [move for move in _moves(first.kind, requests) if move.count]
    return [m for m in made if not (len(m.sources) == 1 and m.sources == m.targets)]


def _moves(kind: Kind, requests: Sequence[Request]) -> Iterable[Move]:
    first, ranks = requests[0], range(len(requests))
    count, size, root = first.count, ELEMENT_BYTES[first.type], first.root
    sends = [one.send for one in requests]
    receives = [one.receive for one in requests]
    step = count * size
    if kind in (Kind.ALL_REDUCE, Kind.REDUCE):
        for rank in ranks:
            begin, many = _share(count, rank, len(requests), size)
            written = ranks if kind is Kind.ALL_REDUCE else (root,)
            yield Move(
                rank,
                tuple((p, sends[p] + begin * size) for p in ranks),
                tuple((p, receives[p] + begin * size) for p in written),
                many,
            )
    elif kind is Kind.REDUCE_SCATTER:
        for rank in ranks:
            yield Move(rank, tuple((p, sends[p] + rank * step) for p in ranks), ((rank, receives[rank]),), count)
    elif kind is Kind.ALL_GATHER:
        for rank in ranks:
            targets = tuple((p, receives[p] + rank * step) for p in ranks if receives[p] + rank * step != sends[rank])
            yield Move(rank, ((rank, sends[rank]),), targets, count if targets else 0)
    elif kind is Kind.BROADCAST:
        for rank in ranks:
            yield Move(rank, ((root, sends[root]),), ((rank, receives[rank]),), count)
    elif kind is Kind.GATHER:
        for rank in ranks:
            yield Move(rank, ((rank, sends[rank]),), ((root, receives[root] + rank * step),), count)
    elif kind is Kind.SCATTER:
        for rank in ranks:
            yield Move(rank, ((root, sends[root] + rank * step),), ((rank, receives[rank]),), count)
    elif kind is Kind.ALL_TO_ALL:
        for rank in ranks:
            for peer in ranks:
                yield Move(rank, ((rank, sends[rank] + peer * step),), ((peer, receives[peer] + rank * step),), count)


def paired(calls: Sequence[Sequence[Request]]) -> tuple[list[Move], int]:
    """Moves of the sends and receives of a group, and the type of their elements' bytes.

    Args:
        calls: those of each rank, in their order.

    Raises:
        LibraryError: a send without its receive, or of another size.
    """
    made = []
    waiting = {
        (rank, one.root): [r for r in calls[rank] if r.kind is Kind.RECEIVE and r.root == one.root]
        for rank in range(len(calls))
        for one in calls[rank]
        if one.kind is Kind.RECEIVE
    }
    for rank, requests in enumerate(calls):
        for one in requests:
            if one.kind is not Kind.SEND:
                continue
            candidates = waiting.get((one.root, rank))
            if not candidates:
                raise LibraryError("not_supported", f"rank {rank} sends to rank {one.root}, which does not receive it")
            other = candidates.pop(0)
            sizes = [request.count * ELEMENT_BYTES[request.type] for request in (one, other)]
            if sizes[0] != sizes[1]:
                raise LibraryError(
                    "not_supported", f"rank {rank} sends {sizes[0]} bytes and rank {one.root} receives {sizes[1]}"
                )
            made.append(Move(rank, ((rank, one.send),), ((one.root, other.receive),), sizes[0]))
    if any(waiting.values()):
        lonely = next(key for key, left in waiting.items() if left)
        raise LibraryError("not_supported", f"rank {lonely[0]} receives from rank {lonely[1]}, which does not send")
    return [move for move in made if move.count and move.sources != move.targets], 1
