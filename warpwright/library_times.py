"""``--library-model nvidia``: the time of a launch from the drop-in libraries, scaled by a ratio that was measured on a card.

The kernels of these libraries are this package's own. A ratio is the time of NVIDIA's library over that of this package's kernel for one operation, both measured
on the same card in one run (``libraries/data/nvidia_times.json``). With the option, a launch takes its simulated time multiplied by the ratio of its class; cycles and
counters remain those of the kernel that is simulated.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

MODELS = ("nvidia",)
"""Values of ``--library-model``."""
NO_RATIO = "no ratio measured"


@dataclass(frozen=True, slots=True)
class LibraryTime:
    """How the time of a library's launch was derived."""

    library: str
    """Of the call: cuBLAS."""
    ratio: float | None = None
    """Time of NVIDIA's library over that of this package's kernel; None: not measured, and the time is not scaled."""
    measured: str = ""
    """The operation for which the ratio was measured: ``bf16 tn 1024x2048x512``."""

    def __str__(self) -> str:
        """``× 0.81 (cuBLAS bf16 tn 1024x2048x512)``, or that there is no ratio."""
        if self.ratio is None:
            return f"{NO_RATIO} ({self.library})"
        return f"× {self.ratio:.2f} ({self.library} {self.measured})"


@cache
def measured_times() -> dict[str, Any]:
    """The measurements by chip."""
    folder = resources.files("warpwright.libraries").joinpath("data")
    found: dict[str, Any] = json.loads(folder.joinpath("nvidia_times.json").read_text(encoding="utf-8"))
    return found


def unmeasured(chips: Sequence[str]) -> str:
    """A message about the chips on which NVIDIA's libraries were not measured; empty if there are none."""
    known = measured_times()
    without = [chip for chip in dict.fromkeys(chips) if chip not in known]
    if not without:
        return ""
    return (
        f"no times of NVIDIA's libraries were measured on {', '.join(without)}, only on {', '.join(known)}: "
        "omit --library-model"
    )
