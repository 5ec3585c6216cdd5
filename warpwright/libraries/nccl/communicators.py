"""Communicators: making, splitting and asking them; versions, texts and memory.

The ranks of a process that belong to one communicator share a :class:`Clique`. A communicator whose ranks are all in one process runs its collectives there; otherwise
the lowest rank of each process speaks for it.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from os import getpid
from typing import Any, ClassVar

from warpwright.driver import cmemory
from warpwright.driver.calls import ENTRIES as DRIVER_CALLS
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Device, state
from warpwright.driver.entry_points import UniqueId
from warpwright.libraries.calls import LibraryError, entry, invalid
from warpwright.libraries.nccl.rendezvous import Meeting, identity

VERSION = 23007
"""NCCL_VERSION_CODE whose interface the entry points are of: 2.30.7."""
_NAMES = (
    *("no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument"),
    *("invalid usage", "remote process exited or there was a network error", "NCCL operation in progress"),
)
NO_COLOR = -1
"""NCCL_SPLIT_NOCOLOR."""


@dataclass(eq=False)
class Clique:
    """The ranks of one communicator that are in this process."""

    name: bytes
    ranks: int
    processes: dict[int, int]
    """The process of each rank."""
    ordinals: dict[int, int]
    """The device of each rank."""
    members: dict[int, Communicator] = field(default_factory=dict)
    posted: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    """What each rank of this process has called and not all of them yet."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    done: int = 0

    @property
    def whole(self) -> bool:
        """Whether all ranks are in this process."""
        return len(set(self.processes.values())) == 1

    @property
    def local(self) -> list[int]:
        """The ranks in this process."""
        return [rank for rank, process in self.processes.items() if process == getpid()]

    @property
    def speaker(self) -> Communicator:
        """The communicator whose connection speaks for this process."""
        return self.members[min(self.local)]


@dataclass(eq=False)
class Communicator:
    """One rank's communicator."""

    of_null: ClassVar[int] = 0
    clique: Clique
    rank: int
    device: Device
    meeting: Meeting
    thread: int
    handle: int = 0
    scales: dict[int, float] = field(default_factory=dict)
    """Factors of premultiplied sums by ncclRedOp_t."""

    @property
    def ranks(self) -> int:
        return self.clique.ranks


_cliques: dict[bytes, Clique] = {}


def communicator(handle: int) -> Communicator:
    """The communicator of a handle.

    Raises:
        LibraryError: ncclInvalidArgument.
    """
    try:
        return state().handles.get(Communicator, handle)
    except CudaError:
        raise invalid("no such communicator") from None


@dataclass
class Join:
    """A rank that has said that it joins."""

    meeting: Meeting
    name: bytes
    rank: int
    place: int
    device: Device

    def finish(self) -> None:
        """Wait for the other ranks, and store the communicator's handle."""
        said = self.meeting.hear()
        places = list(said.values())
        if len(set(places)) < len(places):
            raise LibraryError("not_supported", "two ranks of a communicator are on one device")
        clique = _cliques.get(self.name)
        if clique is None:
            processes, ordinals = ({rank: value[i] for rank, value in said.items()} for i in (0, 1))
            clique = _cliques[self.name] = Clique(self.name, len(said), processes, ordinals)
        made = Communicator(clique, self.rank, self.device, self.meeting, threading.get_ident())
        clique.members[self.rank] = made
        made.handle = state().handles.add(made)
        cmemory.put64(self.place, made.handle)


def begin_to_join(place: int, count: int, name: bytes, rank: int, device: Device) -> Join:
    """Say that a rank joins.

    Raises:
        LibraryError: there is no such rank.
    """
    if not place or count < 1 or not 0 <= rank < count:
        raise invalid(f"rank {rank} of {count}")
    meeting = Meeting(name, count, rank)
    # Devices of another process are others, but for the one that every process sees under its number.
    meeting.say((getpid(), device.index))
    return Join(meeting, name, rank, place, device)


class Group:
    """What a thread has called since its ncclGroupStart."""

    def __init__(self) -> None:
        self.depth = 0
        self.joins: list[Join] = []
        self.calls: list[Any] = []


_groups = threading.local()


def group() -> Group:
    """The calling thread's group."""
    if not hasattr(_groups, "mine"):
        _groups.mine = Group()
    found: Group = _groups.mine
    return found


@entry("ncclGetUniqueId")
def get_unique_id(place: int) -> None:
    cmemory.given(place)
    cmemory.write("128s", place, identity())


@entry("ncclCommInitRank")
def init_rank(place: int, count: int, name: UniqueId, rank: int) -> None:
    raw = bytes(memoryview(name).cast("B"))
    join = begin_to_join(place, count, raw, rank, state().device)
    if group().depth:
        group().joins.append(join)
    else:
        join.finish()


@entry("ncclCommInitRankConfig")
def init_rank_configured(place: int, count: int, name: UniqueId, rank: int, configuration: int) -> None:
    init_rank(place, count, name, rank)


@entry("ncclCommInitRankScalable")
def init_rank_scalable(place: int, count: int, rank: int, names: int, name: int, configuration: int) -> None:
    if names < 1:
        raise invalid()
    init_rank(place, count, UniqueId.from_address(name), rank)


@entry("ncclCommInitAll")
def init_all(place: int, count: int, devices: int) -> None:
    if not place or count < 1:
        raise invalid()
    s = state()
    numbers = cmemory.read(f"{count}i", devices) if devices else tuple(range(count))
    name = identity()
    joins = [begin_to_join(place + 8 * i, count, name, i, s.device_of(number)) for i, number in enumerate(numbers)]
    for join in joins:
        join.finish()


@entry("ncclCommSplit")
def split(handle: int, color: int, key: int, place: int, configuration: int) -> None:
    old = communicator(handle)
    if len(old.clique.local) > 1 and old.thread == next(iter(old.clique.members.values())).thread:
        raise LibraryError("not_supported", "ncclCommSplit of several ranks of one thread is not provided")
    said = old.meeting.gather((color, key, old.rank, identity() if color != NO_COLOR else b""))
    if color == NO_COLOR:
        cmemory.put64(place, 0)
        return
    mine = sorted((one for one in said.values() if one[0] == color), key=lambda one: one[1:3])
    order = [one[2] for one in mine]
    begin_to_join(place, len(mine), mine[0][3], order.index(old.rank), old.device).finish()


@entry("ncclCommDestroy", "ncclCommAbort")
def destroy(handle: int) -> None:
    old = communicator(handle)
    state().handles.drop(handle)
    old.meeting.leave()
    old.clique.members.pop(old.rank, None)
    if not old.clique.members:
        _cliques.pop(old.clique.name, None)


@entry("ncclCommFinalize", "ncclCommRevoke", "ncclCommSuspend", "ncclCommResume")
def finalize(handle: int, *_: int) -> None:
    communicator(handle)


@entry("ncclCommCount")
def count_of(handle: int, place: int) -> None:
    cmemory.put32(place, communicator(handle).ranks)


@entry("ncclCommUserRank")
def rank_of(handle: int, place: int) -> None:
    cmemory.put32(place, communicator(handle).rank)


@entry("ncclCommCuDevice")
def device_of(handle: int, place: int) -> None:
    cmemory.put32(place, communicator(handle).device.ordinal)


@entry("ncclCommGetAsyncError")
def asynchronous_error(handle: int, place: int) -> None:
    communicator(handle)
    cmemory.put32(place, 0)


@entry("ncclMemAlloc")
def allocate(place: int, size: int) -> None:
    if DRIVER_CALLS["cudaMalloc"](place, size):
        raise LibraryError("allocation_failed")


@entry("ncclMemFree")
def free(address: int) -> None:
    if DRIVER_CALLS["cudaFree"](address):
        raise invalid()


@entry("ncclCommRegister")
def register(handle: int, address: int, size: int, place: int) -> None:
    communicator(handle)
    cmemory.put64(place, address)


@entry("ncclCommDeregister")
def deregister(handle: int, registered: int) -> None:
    communicator(handle)


@entry("ncclGetVersion")
def get_version(place: int) -> None:
    cmemory.put32(place, VERSION)


@entry("ncclGetErrorString")
def error_string(result: int) -> int:
    return cmemory.static_text(_NAMES[result] if 0 <= result < len(_NAMES) else "unknown result code")


@entry("ncclGetLastError")
def last_error(handle: int) -> int:
    return cmemory.static_text("see the message on standard error")
