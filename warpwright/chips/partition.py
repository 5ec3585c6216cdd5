"""Part of a chip: some of its SMs, which run a launch's blocks and share everything else with the other SMs.

Which sizes a part may have is the driver's rule by compute capability (CUDA driver API, ``cuDevSmResourceSplitByCount``): so many SMs at least, and a
multiple of so many, which are together in a GPC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from warpwright.chips.chip import Chip
from warpwright.chips.chip_files import load_chip


class Steps(NamedTuple):
    """Sizes of parts, in SMs."""

    smallest: int
    together: int
    """Every size is a multiple of this."""

    def size_of(self, wanted: int) -> int:
        """The smallest size of at least ``wanted`` SMs."""
        return -(-max(wanted, self.smallest) // self.together) * self.together


_APART = Steps(2, 2)
"""Without regard to GPCs: the two SMs of a TPC (an H200's driver, 13.0)."""


def steps(chip: Chip, apart: bool = False) -> Steps:
    """Sizes that parts of a chip may have; ``apart``: their SMs need not be together."""
    if chip.arch < 70:
        return Steps(1, 1)
    if chip.arch < 80 or apart:
        return _APART
    return Steps(4, 2) if chip.arch < 90 else Steps(8, 8)


@dataclass(frozen=True, eq=False)
class Partition:
    """Some SMs of a chip."""

    chip: Chip
    """The part as a chip of its own, with the whole memory system."""
    sms: tuple[int, ...]
    """Their numbers, ascending."""


def partition(chip: Chip, sms: Sequence[int]) -> Partition:
    """The part of a chip that some of its SMs are.

    Raises:
        ValueError: none of them, or one that the chip does not have.
    """
    numbers = tuple(sorted(set(sms)))
    if not numbers or not 0 <= numbers[0] <= numbers[-1] < chip.sm.sm_count:
        raise ValueError(f"{chip.name} has SMs 0 to {chip.sm.sm_count - 1}, not {list(sms)}")
    held = set(numbers)
    gpcs = _shares(chip.sm.gpc_sm_counts, held)
    first = sum(n in held for n in range(chip.sm.gpc_sm_counts[0]))
    apart = sum(n in held for n in range(chip.sm.dispatch_apart_sm_count))
    part = load_chip(
        chip,
        sm_count=len(numbers),
        gpc_sm_counts=[count for count in gpcs if count],
        gpc_l2_partitions=[side for count, side in zip(gpcs, chip.sm.gpc_l2_partitions, strict=True) if count],
        cluster_sm_counts=[count for count in _shares(chip.sm.cluster_sm_counts, held) if count],
        dispatch_apart_sm_count=apart if apart < first else 0,
    )
    return Partition(part, numbers)


def _ranges(counts: Sequence[int]) -> list[range]:
    """The numbers of the SMs of each group."""
    return [range(first, end) for first, end in pairwise(accumulate(counts, initial=0))]


def _shares(counts: Sequence[int], held: set[int]) -> list[int]:
    """How many of each group's SMs are held."""
    return [sum(n in held for n in numbers) for numbers in _ranges(counts)]


def split(chip: Chip, size: int, most: int, apart: bool = False) -> tuple[list[list[int]], list[int]]:
    """Groups of ``size`` SMs, ``most`` of them at the most, and the SMs that are left.

    Those of a group of the smallest size are together; larger ones are made of such groups, and of what is left of GPCs where there are no more.
    """
    together = steps(chip, apart).together
    groups = [range(chip.sm.sm_count)] if apart else _ranges(chip.sm.cluster_sm_counts or chip.sm.gpc_sm_counts)
    whole = [n for numbers in groups for n in numbers[: len(numbers) // together * together]]
    ends = [n for numbers in groups for n in numbers[len(numbers) // together * together :]]
    count = min(most, (len(whole) if size == together else len(whole) + len(ends)) // size)
    order = whole + ends
    return [order[n * size : (n + 1) * size] for n in range(count)], order[count * size :]
