"""The SM controllers of the clusters: which kind of waiting work gets the next warp slot, and on which SM.

Lindholm et al.: "The SMC supports static and dynamic load balancing based on driver-recommended allocations, current allocations, and relative
difficulty of additional resource allocation."  Which rule it follows is not published; a policy is a plain function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from warpwright.graphics.timed.work import KINDS

VERTEX, GEOMETRY, PIXEL, COMPUTE = range(len(KINDS))
Counts = tuple[int, int, int, int]
Policy = Callable[[Counts, Counts, int], int]
"""A policy, called for a cluster with the number of waiting warps of each kind (of kernels: blocks), the number of running warps of each kind, and the number
of warp slots; returns the kind that starts next, or -1 for none."""


def dynamic(waiting: Counts, running: Counts, slots: int) -> int:
    """The last stage of the pipeline first and kernels last, except that each waiting kind is guaranteed an eighth of the slots, so that none runs dry."""
    for kind in (VERTEX, GEOMETRY, COMPUTE):
        if waiting[kind] and running[kind] < max(1, slots // 8):
            return kind
    for kind in (PIXEL, GEOMETRY, VERTEX, COMPUTE):
        if waiting[kind]:
            return kind
    return -1


def static(waiting: Counts, running: Counts, slots: int) -> int:
    """Fixed shares of the warp slots: a quarter for vertices and primitives together, a quarter for kernels if there are any, the rest for pixels."""
    front = slots // 4
    kernels = slots // 4 if waiting[COMPUTE] or running[COMPUTE] else 0
    if waiting[PIXEL] and running[PIXEL] < slots - front - kernels:
        return PIXEL
    if waiting[COMPUTE] and running[COMPUTE] < kernels:
        return COMPUTE
    if running[VERTEX] + running[GEOMETRY] < front:
        for kind in (GEOMETRY, VERTEX):
            if waiting[kind]:
                return kind
    return -1


def vertices_first(waiting: Counts, running: Counts, slots: int) -> int:
    """The first stage of the pipeline first, kernels last."""
    for kind in (VERTEX, GEOMETRY, PIXEL, COMPUTE):
        if waiting[kind]:
            return kind
    return -1


@dataclass(frozen=True, slots=True)
class LoadBalance:
    """How work is distributed.

    Attributes:
        policy: the policy of each cluster's controller.
        kernel_share: share of a cluster's warp slots up to which blocks of kernels start while draws are left, since a block stays until its end.
        front_share: on a machine that is not unified, the share of clusters that run only vertices and primitives; 0 if all clusters run everything.
    """

    name: str
    policy: Policy
    front_share: float = 0.0
    kernel_share: float = 0.75

    def clusters(self, count: int) -> tuple[list[int], list[int]]:
        """The clusters that run pixels, and those that run vertices."""
        front = round(count * self.front_share)
        everything = list(range(count))
        return (everything[front:], everything[:front]) if front else (everything, everything)


BALANCES = {
    one.name: one
    for one in (
        LoadBalance("dynamic", dynamic),
        LoadBalance("static", static),
        LoadBalance("vertices first", vertices_first),
        LoadBalance("fixed 1:3", dynamic, 0.25),
    )
}
"""The unified machine with three policies, and a machine with a quarter of its clusters for vertices and the others for pixels."""


class Needs(NamedTuple):
    """Resources of an SM: those that a warp of graphics or a block of a kernel takes, or those that the SM has."""

    warps: int
    registers: int
    shared_bytes: int = 0
    blocks: int = 0
    """Blocks of kernels."""


@dataclass(slots=True)
class Waiting:
    """A warp of graphics, or a block of a kernel, that waits at a cluster."""

    ready: float
    grid: int
    block: int
    record: int
    """Its index among warps of its kind."""


class Controller:
    """One cluster's controller.

    Args:
        sms: numbers of its SMs.
        limits: resources of each SM.
    """

    def __init__(self, sms: list[int], limits: Needs, balance: LoadBalance) -> None:
        self.queues: tuple[deque[Waiting], ...] = tuple(deque() for _ in KINDS)
        self.running = [0] * len(KINDS)
        """Warps of each kind that run."""
        self.balance = balance
        self.draws_left = True
        """Whether draws of the batch have not ended."""
        self._free = {sm: list(limits) for sm in sms}
        self._slots = limits.warps * len(sms)

    def room_for(self, needs: Needs) -> int:
        """The SM with the most room for a warp or a block; -1 if none has."""
        best = max(self._free, key=lambda sm: (self._fitting(sm, needs), -sm))
        return best if self._fitting(best, needs) else -1

    def _fitting(self, sm: int, needs: Needs) -> int:
        """How many of them an SM has room for."""
        return min(left // need for left, need in zip(self._free[sm], needs, strict=True) if need)

    def next(self, until: float) -> int:
        """The kind of the next warp that the policy starts before ``until``; -1 for none."""
        waiting = [0] * len(KINDS)
        for kind, queue in enumerate(self.queues):
            for one in queue:
                if one.ready >= until:
                    break
                waiting[kind] += 1
        if self.draws_left and self.running[COMPUTE] >= self.balance.kernel_share * self._slots:
            waiting[COMPUTE] = 0
        if not any(waiting):
            return -1
        chosen = self.balance.policy(_counts(waiting), _counts(self.running), self._slots)
        return chosen if chosen >= 0 and waiting[chosen] else -1

    def take(self, kind: int, sm: int, needs: Needs) -> Waiting:
        """Start the first waiting warp or block of a kind on an SM."""
        self.running[kind] += needs.warps
        self._free[sm] = [left - need for left, need in zip(self._free[sm], needs, strict=True)]
        return self.queues[kind].popleft()

    def give_back(self, kind: int, sm: int, needs: Needs) -> None:
        """Release the resources of a warp or block that has ended."""
        self.running[kind] -= needs.warps
        self._free[sm] = [left + need for left, need in zip(self._free[sm], needs, strict=True)]


def _counts(found: list[int]) -> Counts:
    vertex, geometry, pixel, compute = found
    return vertex, geometry, pixel, compute
