"""Groups of kernels that share a device's chip: their selection from the queue, and when each may begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from warpwright.driver import activities
from warpwright.driver.driver_state import picoseconds

if TYPE_CHECKING:
    from warpwright.driver.queued_work import Item
    from warpwright.kernel import Launcher
    from warpwright.launch_groups import Member

MOST_TOGETHER = 60
"""Kernels of one machine (``launch_groups``)."""


def watches(launcher: Launcher | None) -> bool:
    """Whether a kernel polls memory, or may do so."""
    from warpwright.engine.kernels import polls_memory

    return launcher is not None and polls_memory(launcher.kernel._loaded)


class Group:
    """Kernels that share a chip, and when each may begin."""

    def __init__(self, ready: Sequence[Item]) -> None:
        self.items: list[Item] = list(ready)
        self.held: list[Item] = []
        """Kernels that wait for other work, which is executed while the group runs."""
        self.device = ready[0].device
        self.floors = {item: item.start() for item in ready}
        """When each may begin, according to work that has finished."""
        self.delays: dict[Item, dict[Item, int]] = {item: {} for item in ready}
        """For each kernel: picoseconds from the end of another kernel of the group to its start."""
        self._before: dict[Item, set[Item]] = {item: {item} for item in ready}
        """For an item, the kernels of the group that end before it ends, including itself."""

    def extend(self, items: Sequence[Item]) -> None:
        """Add kernels whose predecessors are only kernels of the group, events and waits; a kernel that waits for all of the group runs after it instead."""
        floors, ends = dict(self.floors), {item: {item: 0} for item in self.items}
        for item in items:
            if item in ends or item.begun:
                continue
            if any(need not in ends for need in item.needs if not need.done):
                continue
            waited = [need for need in item.needs if not need.done]
            floor = max([item.start(), *(floors[need] for need in waited if need.launcher is None)])
            after: dict[Item, int] = {}
            for need in waited:
                for kernel, delay in ends[need].items():
                    delay += item.extra - item.lead_ps(need)
                    after[kernel] = max(delay, after.get(kernel, delay))
            before = set().union(*(self._before[need] for need in waited))
            if item.launcher is None:
                duration = item.work.duration(item.stream)
                if duration is None:
                    continue
                floors[item] = floor + duration
                ends[item] = {kernel: delay + duration for kernel, delay in after.items()}
                self._before[item] = before
            elif (
                item.shares
                and item.device is self.device
                and len(self.items) < MOST_TOGETHER
                and (len(before) < len(self.items) or item.early)
            ):
                self.floors[item], self.delays[item] = floor, after
                ends[item] = {item: 0}
                self._before[item] = before | {item}
                self.items.append(item)

    def hold(self, items: Sequence[Item]) -> None:
        """Add kernels that wait for other work, which is executed while the group runs; kernels after all polling kernels are left out, because they cannot release any of them."""
        polling = {item for item in self.items if watches(item.launcher)}
        after: dict[Item, set[Item]] = {}
        for item in items:
            before = [after.get(need, set()) for need in item.needs if not need.done]
            after[item] = set().union(*before, {item} & polling)
            if item in self.floors or item.launcher is None or item.begun or not item.shares:
                continue
            if item.device is self.device and after[item] < polling and len(self.items) < MOST_TOGETHER:
                self.floors[item], self.delays[item] = item.start(), {}
                self.items.append(item)
                self.held.append(item)

    @property
    def base_ps(self) -> int:
        """When the first of them may begin."""
        return min(self.floors[item] for item in self.items)

    def members(self) -> list[Member]:
        """The kernels in the form that a machine takes."""
        from warpwright.launch_groups import Member

        place = {item: number for number, item in enumerate(self.items)}
        return [
            Member(
                item.launcher,
                item.work.parameter_bytes(),
                priority=item.stream.priority,
                after=tuple(place[one] for one in self.delays[item]),
                delays_seconds=tuple(delay * 1e-12 for delay in self.delays[item].values()),
                earliest_seconds=(self.floors[item] - self.base_ps) * 1e-12,
                early=tuple(place[one] for one in self.delays[item] if one in item.early),
                cooperative=item.work.is_cooperative(),
                held=item in self.held,
                origin=item.work.origin(),
            )
            for item in self.items
            if item.launcher is not None
        ]

    def run(self, timed: bool) -> list[Item]:
        """Time the kernels together until the chip is idle; returns those that have ended or were given up.

        Raises:
            Exception: an error of their launch other than a kernel's fault.
        """
        from warpwright.launch_groups import GroupError, launch_until_idle

        base = self.base_ps
        try:
            times = launch_until_idle(self.members(), timed=timed)
        except GroupError as failure:
            item = self.items[failure.place]
            item.work.failed(failure.error, item.context, item.stream)
            return self.items
        ended = []
        for item, one in zip(self.items, times, strict=True):
            if one is not None:
                ended.append(item)
                # Of two kernels in one stream, the later one is the later item.
                _end(item, base, one.begin_seconds, one.end_seconds, timed)
        return ended


def _end(item: Item, base_ps: int, begin_seconds: float, end_seconds: float, timed: bool) -> None:
    """Record a kernel that has ended: in its stream, if kernels take time, and for a profiler."""
    begin, end = (base_ps + picoseconds(seconds) for seconds in (begin_seconds, end_seconds))
    if timed:
        item.stream.ended_kernel(end)
    with activities.within(item.call):
        activities.done(item.work, item.stream, begin, end)


class ResidentGroup:
    """Kernels that stay on a chip while other work is executed, in a machine that can be paused."""

    def __init__(self, group: Group, timed: bool) -> None:
        from warpwright.resident_launches import ResidentLaunches

        self.group, self.timed = group, timed
        self.base_ps = group.base_ps
        self.standing = 0
        """How often all its warps were found to repeat themselves since the last other event."""
        self.failed = False
        self._launches = ResidentLaunches(group.members(), timed=timed)
        for item in group.items:
            item.begun = item not in group.held

    @property
    def now_ps(self) -> int:
        """Its clock; without timing, a separate one."""
        return self.base_ps + picoseconds(self._launches.now_seconds)

    @property
    def done(self) -> bool:
        """Whether the chip is idle and no kernel will begin unless it is released."""
        return self._launches.done

    def run(self, until_ps: int | None) -> list[Item]:
        """Continue up to a time, or to the end of a kernel; returns those that have ended or were given up.

        Raises:
            Exception: an error of a launch other than a kernel's fault.
        """
        from warpwright.launch_groups import GroupError

        until = None if until_ps is None else (until_ps - self.base_ps) * 1e-12
        try:
            ended = self._launches.run(until)
        except GroupError as failure:
            return self._fail(failure.place, failure.error)
        items = []
        for place, one in ended.items():
            item = self.group.items[place]
            _end(item, self.base_ps, one.begin_seconds, one.end_seconds, self.timed)
            items.append(item)
        if self.done:
            for item in self.group.items:
                item.begun = item in items or item.done
        return items

    def _fail(self, place: int, error: Exception) -> list[Item]:
        item = self.group.items[place]
        self.failed = True
        item.work.failed(error, item.context, item.stream)
        return self.group.items

    def release(self, items: Sequence[Item]) -> None:
        """Let held kernels begin, because the work that they waited for has ended."""
        for item in items:
            item.begun = True
            self.group.held.remove(item)
            self._launches.release(self.group.items.index(item), (item.start() - self.base_ps) * 1e-12)

    def look(self) -> None:
        """Test whether all its warps only repeat themselves."""
        if self._launches.repeats():
            self.standing += 1

    def give_up(self) -> None:
        """Fail for a deadlock.

        Raises:
            Exception: if the error is not a kernel's fault.
        """
        from warpwright.launch_groups import GroupError

        error = self._launches.deadlock()
        self._fail(error.place if isinstance(error, GroupError) else 0, getattr(error, "error", error))

    def close(self) -> None:
        """Discard the machine; kernels that have not begun may begin in another."""
        self._launches.close()
        for item in self.group.held:
            item.begun = False
