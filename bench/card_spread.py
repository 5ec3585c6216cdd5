"""How far a real card's own cycles differ from one launch to the next, and so how well any model can agree with a recording.

``python -m bench.card_spread [--gpu h200] [--set corpus …] [--over 10]`` reads the repetitions that ``bench.corpus_card record`` has kept
(``cycles`` of ``bench/data/<card>/<set>.json``) and those of the set's earlier recordings (``earlier``), and prints for each set:

``range``      the largest minus the smallest of a kernel's repetitions over their median: median and mean over the kernels, and the largest
``one launch`` mean difference of a single repetition from the median of its kernel
``median``     mean error expected of the recorded median, from its own repetitions (bootstrap: all ways to draw as many of them again).
               They were measured in one process, so this is the least error that a perfect model would show
``earlier``    differences of the medians from those of an earlier recording, in another process, on another day and perhaps another card of the
               kind. If both are equally uncertain, the mean error of one of them, and so a perfect model's, is the mean difference over √2

Kernels whose repetitions have two modes are listed: those with a gap in their sorted cycles that is wider than all the rest of their range, has two
values on both sides and is at least 3 % of the median.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.kernel_sets import NAMES

DATA = Path(__file__).parent / "data"
GAP = 0.03
"""Fraction of the median below which a gap between two cycle counts is no sign of two modes."""


@dataclass(frozen=True)
class Spread:
    """One kernel's repetitions; all but ``modes`` are fractions of their median."""

    range: float
    one_launch: float
    """Mean absolute difference of a single repetition from the median."""
    of_median: float
    """Mean absolute error expected of the median; NaN for a single repetition."""
    modes: tuple[float, float] | None
    """Means of the cycles below and above the gap, if there are two modes."""


def error_of_median(cycles: Sequence[float]) -> float:
    """Bootstrap estimate of the mean absolute error of the median of some repetitions, as a fraction of it; NaN for one repetition."""
    if len(cycles) < 2:
        return math.nan
    middle = statistics.median(cycles)
    ordered = sorted(cycles)
    drawn = itertools.combinations_with_replacement(range(len(ordered)), len(ordered))
    total = weights = 0.0
    for places in drawn:
        orders = math.factorial(len(places)) / math.prod(math.factorial(places.count(place)) for place in set(places))
        total += orders * abs(statistics.median([ordered[place] for place in places]) - middle)
        weights += orders
    return total / weights / middle


def two_modes(cycles: Sequence[float]) -> tuple[float, float] | None:
    """Means of the two groups into which the widest gap parts the cycles, or None where they do not form two groups.

    A gap parts them if it is wider than what remains of their range, at least ``GAP`` of the median, and if each side has at least two values.
    """
    ordered = sorted(cycles)
    gaps = [(after - before, place + 1) for place, (before, after) in enumerate(itertools.pairwise(ordered))]
    if not gaps:
        return None
    gap, place = max(gaps)
    low, high = ordered[:place], ordered[place:]
    rest = ordered[-1] - ordered[0] - gap
    if min(len(low), len(high)) < 2 or gap <= rest or gap < GAP * statistics.median(ordered):
        return None
    return statistics.mean(low), statistics.mean(high)


def spread(cycles: Sequence[float]) -> Spread:
    """How far one kernel's repetitions differ."""
    middle = statistics.median(cycles)
    return Spread(
        (max(cycles) - min(cycles)) / middle,
        statistics.mean(abs(one - middle) for one in cycles) / middle,
        error_of_median(cycles),
        two_modes(cycles),
    )


def between(first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Signed difference of the medians of two recordings by kernel, as a fraction of the first's; of the kernels that both have."""
    return {
        name: statistics.median(second[name]) / statistics.median(cycles) - 1
        for name, cycles in first.items()
        if name in second
    }


def recorded(card: str, which: str) -> list[dict[str, list[float]]]:
    """Cycles of every repetition by kernel, of each recording of a set, the latest first.

    Raises:
        FileNotFoundError: when nothing was recorded for this card and set.
    """
    data = json.loads((DATA / card / f"{which}.json").read_text())
    return [data["cycles"], *(recording["cycles"] for recording in data.get("earlier", []))]


def report(which: str, recordings: Sequence[Mapping[str, Sequence[float]]], over: float) -> str:
    """Lines for one set: figures of its latest recording, differences from each earlier one, kernels with a range above ``over`` percent or two modes."""
    latest, *earlier = recordings
    found = {name: spread(cycles) for name, cycles in latest.items()}
    ranges = {name: 100 * one.range for name, one in found.items()}
    worst = max(ranges, key=lambda name: ranges[name])
    lines = [
        f"{which}: {len(found)} kernels, {_repeats(latest)} repetitions; range: median {statistics.median(ranges.values()):.1f}%,"
        f" mean {statistics.mean(ranges.values()):.1f}%, largest {ranges[worst]:.1f}% ({worst});"
        f" one launch {100 * statistics.mean(s.one_launch for s in found.values()):.2f}%,"
        f" median {100 * statistics.mean(s.of_median for s in found.values()):.2f}%"
    ]
    for before in earlier:
        differences = between(before, latest)
        sizes = [100 * abs(difference) for difference in differences.values()]
        worst = max(differences, key=lambda name: abs(differences[name]))
        lines.append(
            f"  earlier, {_repeats(before)} repetitions: median {statistics.median(sizes):.2f}%, mean {statistics.mean(sizes):.2f}%"
            f" (over √2 {statistics.mean(sizes) / math.sqrt(2):.2f}%), with its sign {100 * statistics.mean(differences.values()):+.2f}%,"
            f" largest {100 * differences[worst]:+.1f}% ({worst})"
        )
    wide = sorted((name for name in ranges if ranges[name] > over), key=lambda name: -ranges[name])
    lines.append(f"  {len(wide)} with a range above {over:g}%: {', '.join(f'{n} {ranges[n]:.0f}%' for n in wide)}")
    parted = [f"{n} {s.modes[0]:,.0f} and {s.modes[1]:,.0f}" for n, s in found.items() if s.modes]
    lines.append(f"  {len(parted)} with two modes: {'; '.join(parted)}")
    return "\n".join(lines)


def _repeats(cycles: Mapping[str, Sequence[float]]) -> str:
    return "/".join(map(str, sorted({len(values) for values in cycles.values()})))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--set", default=[*NAMES], nargs="*", dest="sets", help="sets of kernels (default all)")
    parser.add_argument("--over", type=float, default=10.0, help="list kernels with a larger range (percent)")
    given = parser.parse_args()
    for which in given.sets:
        print(report(which, recorded(given.gpu, which), given.over), flush=True)


if __name__ == "__main__":
    main()
