"""Compares a run with a run of the same launches on a chip with one resource relieved.

A launch changes its arrays, so it can't simply be repeated: the caller hands over a function that makes its arrays and
launches on a GPU that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpwright.errors import LaunchError, UnsupportedError
from warpwright.tools.report.attribution import attribute

if TYPE_CHECKING:
    from warpwright.api import GPU
    from warpwright.run import Run

Program = Callable[["GPU"], object]
"""Makes its arrays and launches on the GPU that it is given."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Cycles of the same launches, as they are and with part of the chip changed."""

    change: str
    """What was changed, in words: ``twice the DRAM bandwidth``."""
    overrides: Mapping[str, Any]
    """The chip's fields with their new values."""
    before: tuple[int, ...]
    """Cycles of each launch on the chip as it is."""
    after: tuple[int, ...]
    """Cycles of each launch on the changed chip."""

    def saved(self, launch: int) -> float:
        """Share of a launch's cycles that the change saves; negative when it costs cycles."""
        return 1.0 - self.after[launch] / self.before[launch]

    def sentence(self, launch: int = 0) -> str:
        """``With twice the DRAM bandwidth it takes 4,100 cycles instead of 5,134 (20% less).``"""
        saved = self.saved(launch)
        amount = f"{abs(saved):.0%} {'less' if saved >= 0 else 'more'}"
        if abs(saved) < 0.005:
            amount = "no difference"
        return (
            f"With {self.change} it takes {self.after[launch]:,} cycles instead of {self.before[launch]:,} ({amount})."
        )


def launches(program: Program, gpu: GPU) -> list[Run]:
    """What a program launches on a GPU.

    Raises:
        LaunchError: nothing.
    """
    program(gpu)
    if not gpu.launches:
        raise LaunchError(
            "a what-if needs a function that launches on the GPU that it is given; this one launched nothing"
        )
    return gpu.launches


def compare(before: Sequence[Run], after: Sequence[Run], change: str, overrides: Mapping[str, Any]) -> WhatIf:
    """Two runs of the same launches as one record.

    Raises:
        LaunchError: the launches are not the same.
    """
    if [(r.kernel, r.grid, r.block) for r in before] != [(r.kernel, r.grid, r.block) for r in after]:
        raise LaunchError("a what-if compares the same launches, but the program launched others on the changed chip")
    return WhatIf(change, dict(overrides), tuple(r.cycles for r in before), tuple(r.cycles for r in after))


def advised(program: Program, run: Run, *, baseline: Sequence[Run] = ()) -> WhatIf:
    """Time a program again with that resource relieved which limits one of its launches.

    Args:
        program: makes its arrays and launches on the GPU that it is given.
        run: the launch whose limit counts.
        baseline: all launches of the program on this chip; ``run`` alone when it has no other.

    Raises:
        UnsupportedError: no number of the chip corresponds to the limit (a grid too small, the issue of instructions).
        LaunchError: as for :func:`what_if`.
    """
    limit = attribute(run).limit
    if limit.overrides is None:
        raise UnsupportedError(f"{run.kernel} is limited by {limit.title}, which is not a number of the chip")
    if run.device is None or run.gpu_type is None:
        raise UnsupportedError(f"the run of {run.kernel} comes from another process: time the changed chip there")
    overrides = limit.overrides(run.device)
    return compare(baseline or [run], launches(program, run.gpu_type(run.device, **overrides)), limit.change, overrides)
