"""Two runs beside each other: launches matched by kernel and order, with the difference of every number.

Both sides are rows of ``tools/export.py``, so that a baseline may be a file of an earlier ``warpwright run --json``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from warpwright.errors import UnsupportedError
from warpwright.html_tables import table
from warpwright.quantity_text import figures, time_text
from warpwright.tools.export import launch_record

if TYPE_CHECKING:
    from warpwright.run import Run

Row = Mapping[str, Any]
"""A launch as ``Run.to_dict`` gives it."""
NEEDED = ("kernel", "chip", "cycles", "seconds", "grid_x", "block_x")
"""Columns that a baseline must have."""
NOT_COMPARED = {
    "launch",
    "sm_clock_mhz",
    "wall_seconds",
    "compile_seconds",
    "repeated",
    "skipped",
    "timed_in_full",
    "expected_error",
}
"""Columns that say nothing of the launch's work on the chip."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number of both sides."""

    name: str
    """A column of the row: a field or one of Nsight Compute's names."""
    before: float
    now: float

    @property
    def change(self) -> float | None:
        """Relative to ``before``; None where that is 0 and the number is not."""
        if self.before == self.now:
            return 0.0
        return self.now / self.before - 1.0 if self.before else None


@dataclass(frozen=True, slots=True)
class Pair:
    """A launch on both sides, or on one of them."""

    before: Row | None
    now: Row | None
    index: int | None
    """Of the launch among those of ``now``; None where it is missing there."""

    def differences(self) -> tuple[Difference, ...]:
        """All numbers that both sides have, in the order of the row; none where a side is missing."""
        if self.before is None or self.now is None:
            return ()
        return tuple(
            Difference(name, float(self.before[name]), float(value))
            for name, value in self.now.items()
            if name not in NOT_COMPARED and _is_number(value) and _is_number(self.before.get(name))
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """The launches of two runs."""

    name_before: str
    """What the other side is: a file or a chip."""
    name_now: str
    pairs: tuple[Pair, ...]
    """In order of the launches."""

    def of_launch(self, index: int) -> Pair | None:
        """The pair of a launch of ``now``, if it has one on the other side."""
        return next((p for p in self.pairs if p.index == index and p.before is not None), None)

    @property
    def total(self) -> Difference:
        """Simulated seconds of the launches that are on both sides."""
        both = [p for p in self.pairs if p.before is not None and p.now is not None]
        before = sum(float(p.before["seconds"]) for p in both if p.before is not None)
        now = sum(float(p.now["seconds"]) for p in both if p.now is not None)
        return Difference("seconds", before, now)

    @property
    def unmatched(self) -> tuple[int, int]:
        """Launches that are only before, and only now."""
        return sum(p.now is None for p in self.pairs), sum(p.before is None for p in self.pairs)

    def _repr_html_(self) -> str:
        rows = [(_kernel(p), _time(p.before), _time(p.now), _pace(p)) for p in self.pairs]
        return table(
            f"{self.name_before} and {self.name_now}",
            rows,
            ("launch", self.name_before, self.name_now, "times as fast"),
        )


def _kernel(pair: Pair) -> str:
    row = pair.before if pair.now is None else pair.now
    return "" if row is None else str(row["kernel"])


def _time(row: Row | None) -> str:
    return "–" if row is None else time_text(float(row["seconds"]))


def _pace(pair: Pair) -> str:
    """How many times as short the launch is now, if it is on both sides."""
    if pair.before is None or pair.now is None:
        return ""
    return figures(float(pair.before["seconds"]) / float(pair.now["seconds"]))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_rows(path: Path) -> list[Row]:
    """The launches of a file that ``warpwright run --json`` wrote.

    Raises:
        UnsupportedError: the file cannot be read or holds no timed launches; the message names it.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise UnsupportedError(f"cannot read the baseline {path}: {reason or error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnsupportedError(f"the baseline {path} is not an array of launches: write it with warpwright run --json {path} PROGRAM")  # fmt: skip
    for number, row in enumerate(rows):
        missing = [name for name in NEEDED if name not in row]
        if missing:
            raise UnsupportedError(
                f"launch {number} of the baseline {path} has no {missing[0]}: write the file with warpwright run --json {path} PROGRAM"
            )
        if not _is_number(row["cycles"]):
            raise UnsupportedError(
                f"launch {number} of the baseline {path} has no cycles: write the file with --timing full"
            )
    return rows


def compare_rows(before: Sequence[Row], runs: Sequence[Run], name_before: str, name_now: str) -> Comparison:
    """Match the launches of two runs: the same kernels in the same order, whatever was launched between them."""
    now = [launch_record(run) for run in runs]
    matcher = difflib.SequenceMatcher(None, [r["kernel"] for r in before], [r["kernel"] for r in now], autojunk=False)
    pairs = []
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            pairs += [Pair(before[i], now[j], j) for i, j in zip(range(first, last), range(start, end), strict=True)]
        else:
            pairs += [Pair(before[i], None, None) for i in range(first, last)]
            pairs += [Pair(None, now[j], j) for j in range(start, end)]
    return Comparison(name_before, name_now, tuple(pairs))


def compared_with(
    baseline: Run | Sequence[Run] | Sequence[Row] | str | PathLike[str], runs: Sequence[Run], name: str = ""
) -> Comparison:
    """Compare runs with a baseline: a run, several, their rows, or a file of ``warpwright run --json``.

    Args:
        name: of the baseline; its file or chip otherwise.

    Raises:
        UnsupportedError: the baseline cannot be read, is not timed, or has no launch.
    """
    rows: list[Row] = []
    if isinstance(baseline, (str, PathLike)):
        name = name or Path(baseline).name
        rows += read_rows(Path(baseline))
    else:
        others = baseline if isinstance(baseline, Sequence) else [baseline]
        for one in cast("Sequence[Run | Row]", others):
            if not isinstance(one, Mapping) and not hasattr(one, "metrics"):
                raise TypeError(f"baseline takes runs, or a file of warpwright run --json, not {one!r}")
            row = one if isinstance(one, Mapping) else launch_record(one)
            if row.get("cycles") is None:
                raise UnsupportedError(
                    f"the baseline's run of {row['kernel']} has no cycles: make its GPU with timing='full'"
                )
            rows.append(row)
    if not rows:
        raise UnsupportedError("the baseline has no launch to compare with")
    name = name or ", ".join(dict.fromkeys(str(row["chip"]) for row in rows))
    now = ", ".join(dict.fromkeys(run.chip for run in runs))
    # The same chip on both sides: then the chip tells nothing apart.
    return compare_rows(rows, runs, *((name, now) if name != now else ("baseline", "now")))
