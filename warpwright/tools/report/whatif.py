"""Times the same launches on a chip with one resource relieved, to find out what that resource costs.

A launch changes its arrays, so it can't simply be repeated: the caller hands over a function that makes its arrays and
launches on a GPU that it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from warpwright.api import GPU
from warpwright.tools.report.relieved import Program, WhatIf, compare, launches

if TYPE_CHECKING:
    from warpwright.chips import Chip
    from warpwright.run import Run


def what_if(program: Program, chip: str | Chip = "h200", *, baseline: Sequence[Run] = (), **overrides: Any) -> WhatIf:
    """Time a program's launches on a chip and on the same chip with some fields changed.

    Args:
        program: makes its arrays and launches on the GPU that it is given.
        baseline: its launches on the unchanged chip, when they are at hand; they are timed first otherwise.
        overrides: fields of the chip, as for :class:`warpwright.GPU`: ``what_if(program, "a100", l2_kib=81920)``.

    Raises:
        LaunchError: the program launched nothing, or other kernels on the changed chip.
        ChipError: unknown field, or a value out of range.
    """
    before = list(baseline) or launches(program, GPU(chip))
    after = launches(program, GPU(chip, **overrides))
    return compare(before, after, ", ".join(f"{name} = {value}" for name, value in overrides.items()), overrides)
