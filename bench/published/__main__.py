"""Compare the model of V100 and A100 with figures that others published.

    python -m bench.published [v100|a100] [PATTERN ...]            # the table, from the stored figures
    python -m bench.published --checkouts FOLDER [v100|a100] [PATTERN ...] [--store]

FOLDER holds checkouts of the repositories that ``--sources`` lists, by their names; with it, rows whose key contains a
pattern are run (all of them in about an hour on a core; whole programs need nvcc 13 and gcc).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from bench.published import programs, rows, streams
from bench.published.rows import Row

KERNELS = streams.MEASURES


def is_compared(row: Row) -> bool:
    """Whether its program is public, with data that can be made, and builds."""
    return row.program in KERNELS or row.id in programs.LAUNCHES


def measure(wanted: Iterable[Row], checkouts: Path, told: Callable[[str], None]) -> dict[str, float]:
    """The model's figures for rows, by key; a row that fails is told and left out."""
    found: dict[str, float] = {}
    built = checkouts / "built"
    whole = programs.Programs(checkouts, built)
    for row in wanted:
        began = time.monotonic()
        try:
            ours = KERNELS[row.program](row, checkouts) if row.program in KERNELS else whole.measure(row)
        except Exception as error:  # continue with the next row
            told(f"{row.key}: {type(error).__name__}: {str(error)[:300]}")
            continue
        found[row.key] = ours
        seconds = time.monotonic() - began
        told(f"{row.key}: {row.value:,.6g} {row.unit}, here {ours:,.6g}, {row.error(ours):+.1%}, {seconds:.0f} s")
    return found


def summary(errors: Sequence[float]) -> str:
    sizes = np.abs(np.array(errors))
    if not len(sizes):
        return "nothing"
    return f"{len(sizes)} rows, mean {sizes.mean():.1%}, median {np.median(sizes):.1%}, worst {sizes.max():.1%}"


def table(wanted: Sequence[Row], figures: dict[str, float]) -> str:
    """Rows as a table of Markdown, chip by chip, with the means of both halves."""
    lines = []
    checked = rows.checking()
    for family in ("v100", "a100"):
        some = [r for r in wanted if r.family == family and r.key in figures]
        if not some:
            continue
        lines += ["", f"| {family}: card/figure | half | published | here | error |", "|---|---|---|---|---|"]
        for row in some:
            ours, half = figures[row.key], "check" if row.key in checked else "learn"
            error = f"{row.error(ours):+.1%}"
            shown = f"**{error}**" if abs(row.error(ours)) > 0.15 else error
            lines.append(f"| {row.key} | {half} | {row.value:,.5g} {row.unit} | {ours:,.5g} | {shown} |")
        lines.append("")
        for half, inside in (("learn", False), ("check", True)):
            errors = [r.error(figures[r.key]) for r in some if (r.key in checked) == inside]
            lines.append(f"{family}, half to {half}: {summary(errors)}")
        other = [(r, r.details["accel_sim_cycles"]) for r in some if "accel_sim_cycles" in r.details]
        if other:
            lines.append(f"{family}, rows that Accel-Sim published itself: {summary([r.error(v) for r, v in other])}")
            lines.append(f"the same rows here: {summary([r.error(figures[r.key]) for r, _ in other])}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pattern", nargs="*", help="v100, a100, or part of a row's key")
    parser.add_argument("--checkouts", type=Path, help="run the rows, with programs from checkouts in this folder")
    parser.add_argument("--store", action="store_true", help="keep the figures in bench/data/published/model.json")
    parser.add_argument("--sources", action="store_true", help="list the repositories, and rows that are not compared")
    arguments = parser.parse_args()
    families = [p for p in arguments.pattern if p in ("v100", "a100")]
    patterns = [p for p in arguments.pattern if p not in families]
    wanted = [
        r
        for r in rows.load()
        if (not families or r.family in families) and (not patterns or any(p in r.key for p in patterns))
    ]
    if arguments.sources:
        places = [f"{programs.FOLDERS[n].split('/')[0]}: {text}" for n, text in programs.REPOSITORIES.items()]
        places.append(f"{streams.FOLDER}: {streams.REPOSITORY}")
        print("\n".join(places))
        print("not compared:", ", ".join(r.key for r in wanted if not is_compared(r)))
        return
    figures = rows.stored()
    if arguments.checkouts:
        runnable = [r for r in wanted if is_compared(r)]
        figures |= measure(runnable, arguments.checkouts.resolve(), lambda text: print(text, flush=True))
        if arguments.store:
            rows.store(figures)
    print(table(wanted, figures))


if __name__ == "__main__":
    main()
