"""The SM controllers of the clusters: which kind of waiting work gets the next warp slot, and on which SM.

Lindholm et al.: "The SMC supports static and dynamic load balancing based on driver-recommended allocations, current allocations, and relative
difficulty of additional resource allocation."  Which rule it follows is not published; a policy is a plain function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from warpwright.graphics.timed.work import KINDS

VERTEX, GEOMETRY, PIXEL = range(len(KINDS))
Counts = tuple[int, int, int]
Policy = Callable[[Counts, Counts, int], int]
"""A policy, called for a cluster with the number of waiting warps of each kind, the number of running warps of each kind, and the number of warp slots; returns
the kind that starts next, or -1 for none."""


def dynamic(waiting: Counts, running: Counts, slots: int) -> int:
    """The last stage of the pipeline first, except that each waiting kind is guaranteed an eighth of the slots, so that no stage runs dry."""
    for kind in (VERTEX, GEOMETRY):
        if waiting[kind] and running[kind] < max(1, slots // 8):
            return kind
    for kind in (PIXEL, GEOMETRY, VERTEX):
        if waiting[kind]:
            return kind
    return -1


def static(waiting: Counts, running: Counts, slots: int) -> int:
    """Fixed shares of the warp slots: a quarter for vertices and primitives together, the rest for pixels."""
    front = slots // 4
    if waiting[PIXEL] and running[PIXEL] < slots - front:
        return PIXEL
    if running[VERTEX] + running[GEOMETRY] < front:
        for kind in (GEOMETRY, VERTEX):
            if waiting[kind]:
                return kind
    return -1


def vertices_first(waiting: Counts, running: Counts, slots: int) -> int:
    """The first stage of the pipeline first."""
    for kind in (VERTEX, GEOMETRY, PIXEL):
        if waiting[kind]:
            return kind
    return -1


@dataclass(frozen=True, slots=True)
class LoadBalance:
    """How work is distributed.

    Attributes:
        policy: the policy of each cluster's controller.
        front_share: on a machine that is not unified, the share of clusters that run only vertices and primitives; 0 if all clusters run everything.
    """

    name: str
    policy: Policy
    front_share: float = 0.0

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


@dataclass(slots=True)
class Waiting:
    """A warp that waits at a cluster."""

    ready: float
    grid: int
    block: int
    record: int
    """Its index among warps of its kind."""


class Controller:
    """One cluster's controller.

    Args:
        sms: numbers of its SMs; ``warps`` and ``registers``: the limits of each SM.
    """

    def __init__(self, sms: list[int], warps: int, registers: int, policy: Policy) -> None:
        self.queues: tuple[deque[Waiting], ...] = tuple(deque() for _ in KINDS)
        self.running = [0, 0, 0]
        self.policy = policy
        self._free = {sm: [warps, registers] for sm in sms}
        self._slots = warps * len(sms)

    def room_for(self, registers: int) -> int:
        """The SM with the most room for a warp; -1 if none has."""
        best = max(self._free, key=lambda sm: (min(self._free[sm][0], self._free[sm][1] // max(registers, 1)), -sm))
        slots, left = self._free[best]
        return best if slots and left >= registers else -1

    def next(self, until: float) -> int:
        """The kind of the next warp that the policy starts before ``until``; -1 for none."""
        waiting = [0, 0, 0]
        for kind, queue in enumerate(self.queues):
            for one in queue:
                if one.ready >= until:
                    break
                waiting[kind] += 1
        if not any(waiting):
            return -1
        chosen = self.policy(
            (waiting[0], waiting[1], waiting[2]), (self.running[0], self.running[1], self.running[2]), self._slots
        )
        return chosen if chosen >= 0 and waiting[chosen] else -1

    def take(self, kind: int, sm: int, registers: int) -> Waiting:
        """Start the first waiting warp of a kind on an SM."""
        self.running[kind] += 1
        self._free[sm][0] -= 1
        self._free[sm][1] -= registers
        return self.queues[kind].popleft()

    def give_back(self, kind: int, sm: int, registers: int) -> None:
        """Release the resources of a warp that has ended."""
        self.running[kind] -= 1
        self._free[sm][0] += 1
        self._free[sm][1] += registers
