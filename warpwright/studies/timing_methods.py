"""The two methods of "A Study of Synchronization Methods in Modern GPUs" (section 3): by the GPU's clock, and by a clock of the host.

They are functions of readings, whoever made them: a simulated chip, or a card.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean, stdev


@dataclass(frozen=True, slots=True)
class Readings:
    """Mean and standard deviation of repeated readings, in the readings' unit."""

    mean: float
    deviation: float = 0.0


def read(values: Sequence[float]) -> Readings:
    """Mean and standard deviation of a launch's repeated readings; one reading has no deviation.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError("there are no readings: launch the kernel at least once")
    return Readings(fmean(values), stdev(values) if len(values) > 1 else 0.0)


def inferred(few: Readings, many: Readings, repeat_difference: int) -> Readings:
    """The time of one more instruction, from two kernels that differ only in its repeats (formulas 1 and 2). The overhead of a launch cancels, so the host's
    clock suffices.

    Args:
        few: times of the kernel with fewer repeats.
        many: times of the kernel with more.
        repeat_difference: the difference in repeats.

    Raises:
        ValueError: the second kernel does not have more repeats.
    """
    if repeat_difference < 1:
        raise ValueError(
            f"the second kernel has {repeat_difference} more repeats than the first: it needs at least one"
        )
    deviation = math.hypot(few.deviation, many.deviation)
    return Readings((many.mean - few.mean) / repeat_difference, deviation / repeat_difference)


def by_gpu_clock(begins: Sequence[int], ends: Sequence[int], repeats: int) -> tuple[float, float]:
    """Latency of one instruction and its rate, from the clocks of all warps of one SM around its repeats, after Wong.

    The latency counts from the last warp's beginning to the first one's end; the rate, in warp-instructions per cycle, all of the time.
    """
    latency = (min(ends) - max(begins)) / repeats
    return latency, len(begins) * repeats / (max(ends) - min(begins))


def by_host_clock(
    launch: Callable[[int], object],
    synchronize: Callable[[], object],
    clock_ns: Callable[[], int] | None = None,
    *,
    repeats: tuple[int, int] = (512, 5632),
    launches: int = 20,
) -> Readings:
    """Nanoseconds of one more instruction by the host's clock (formulas 1 and 2); any instruction will do, including a barrier of all SMs or of several GPUs.

    It works on a card and under ``warpwright run --host-clock simulated``.

    Args:
        launch: launches the kernel once, with as many repeats of the instruction as its argument says.
        synchronize: waits for the launch.
        clock_ns: returns the time in nanoseconds; ``time.perf_counter_ns`` by default.
        repeats: of the instruction in the two kernels; the defaults are the paper's.
        launches: number of launches of each kernel that are measured; one more precedes them and is left out, as in the paper.

    Raises:
        ValueError: the second number of repeats is not the larger one, or there are no launches.
    """
    few, many = (
        read([_timed(partial(launch, count), synchronize, clock_ns)[1] for _ in range(launches + 1)][1:])
        for count in repeats
    )
    return inferred(few, many, repeats[1] - repeats[0])


def _timed(
    launch: Callable[[], object], synchronize: Callable[[], object], clock_ns: Callable[[], int] | None
) -> tuple[int, int]:
    """Nanoseconds of a launch call, and from it to the end of the wait."""
    clock_ns = clock_ns or time.perf_counter_ns
    begin = clock_ns()
    launch()
    called = clock_ns()
    synchronize()
    return called - begin, clock_ns() - begin


@dataclass(frozen=True, slots=True)
class LaunchTimes:
    """Duration of launches of one kernel in nanoseconds, by the host's clock."""

    call: Readings
    """The call that launches, of one launch alone."""
    total: Readings
    """From the call to the end of the wait for the kernel."""
    additional: Readings
    """One launch more in a row of launches (formulas 1 and 2)."""


def launch_times(
    launch: Callable[[], object],
    synchronize: Callable[[], object],
    clock_ns: Callable[[], int] | None = None,
    *,
    repeats: int = 20,
    many: int = 128,
) -> LaunchTimes:
    """Time launches by the host's clock: traditional, cooperative or of several devices, of a null kernel or of any other.

    It runs on a card, and under ``warpwright run --host-clock simulated``.  The first repeat is left out, as the paper does.

    Args:
        launch: launches the kernel once.
        synchronize: waits for what was launched.
        clock_ns: the clock; the default is ``time.perf_counter_ns``.

    Raises:
        ValueError: fewer than two repeats, or no launch more.
    """
    if repeats < 2 or many < 2:
        raise ValueError(f"{repeats} repeats of {many} launches: give at least two of each")

    def row() -> None:
        for _ in range(many):
            launch()

    alone, rows = ([_timed(how, synchronize, clock_ns) for _ in range(repeats)][1:] for how in (launch, row))
    call, one = (read(times) for times in zip(*alone, strict=True))
    more = read([total for _, total in rows])
    return LaunchTimes(call, one, inferred(one, more, many - 1))
