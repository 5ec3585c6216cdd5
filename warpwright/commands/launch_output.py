"""Launches as tables on the terminal, as pages and as data files."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from warpwright.commands.output import MISUSED, console, fail
from warpwright.session import session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from warpwright.driver.drm.frames import Frames
    from warpwright.run import Run
    from warpwright.tools.report.comparison import Comparison
    from warpwright.tools.report.relieved import Ranking

MOST_ROWS = 40
"""Rows of the table of launches; a larger number of launches is grouped by kernel."""


def show_launches(runs: list[Run]) -> None:
    from warpwright.tools.launch_tables import in_full_summary, library_summary, repeats_summary
    from warpwright.tools.report.evidence import evidence_of

    out = console()
    if session.failed_launches:
        show_failures(out)
        if not runs:
            return
    if session.collectives:
        show_collectives(out)
    if not runs:
        none = "no launch of the program completed" if session.failed_here else "the program launched no kernel"
        out.print(none, markup=False, soft_wrap=True)
        return
    by_chip: dict[str, list[Run]] = {}
    for r in runs:
        by_chip.setdefault(r.chip, []).append(r)
    for chip, some in by_chip.items():
        show_table(some, chip, out)
        timed = [r for r in some if r.timed and not r.shared and r.program is not None and r.device is not None]
        if timed:
            longest = max(timed, key=lambda r: r.seconds)
            out.print(f"{longest.kernel}: {evidence_of(longest).sentence}")
    for line in (repeats_summary(runs), *in_full_summary(runs), library_summary(runs)):
        if line:
            out.print(line, markup=False, soft_wrap=True)


def show_failures(out: Console) -> None:
    """Print the errors with which the driver ended launches, each once with its number of occurrences."""
    for how, count in Counter(failed.how for failed in session.failed_launches).items():
        out.print(f"a launch failed{f', {count:,} times' if count > 1 else ''}: {how}", markup=False, soft_wrap=True)


def show_collectives(out: Console) -> None:
    """Print what communicators moved without kernels: between processes, and in the cases that ``nccl/transport.py`` names."""
    from warpwright.tools.launch_tables import collective_columns, fitting_table

    table, without = fitting_table(
        collective_columns(session.collectives), "collectives through the host's memory", out
    )
    out.print(table)
    note_omitted(without, out)


def show_table(runs: list[Run], chip: str, out: Console) -> None:
    """Print the launches of one chip, as far as the terminal is wide enough."""
    from warpwright.tools.launch_tables import fitting_table, grouped_columns, launch_columns

    columns = launch_columns(runs) if len(runs) <= MOST_ROWS else grouped_columns(runs)
    table, without = fitting_table(columns, chip, out)
    out.print(table)
    note_omitted(without, out)


def note_omitted(columns: list[str], out: Console) -> None:
    """Name the columns for which the terminal is too narrow."""
    if columns:
        out.print(f"left out to fit {out.width} columns: {', '.join(columns)}", markup=False)


def show_frames(title: str) -> list[Frames]:
    """Print a summary of the program's draws, and return them."""
    drawing = sys.modules.get("warpwright.driver.drm.frames")
    if drawing is None:
        return []
    objects = sys.modules.get("warpwright.driver.drm.objects")
    found: list[Frames] = drawing.drawn(objects.used_device() if objects is not None else None, title)
    for one in found:
        console().print("\n".join(one.lines), markup=False, soft_wrap=True)
    return found


def write_frame_pages(path: Path, frames: list[Frames], beside: bool) -> None:
    """Write the page of each process's draws; ``beside`` a page of launches it has ``-frame`` in its name."""
    pages = [frame.page for frame in frames if frame.page]
    if not pages and not beside:
        why = (
            "its draws have no cycles: omit --timing, or use --timing full"
            if frames
            else "no launch of the program ended"
        )
        fail(f"{path} was not written: {why}")
    for number, page in enumerate(pages):
        stem = f"{path.stem}{'-frame' if beside else ''}{f'-{number + 1}' if number else ''}"
        place = path.with_name(f"{stem}{path.suffix}")
        try:
            place.write_text(page, encoding="utf-8")
        except OSError as error:
            raise fail(f"cannot write {place}: {error.strerror or error}") from None
        console().print(f"wrote {place}", markup=False, soft_wrap=True)


def write_pages(
    path: Path,
    runs: list[Run],
    title: str,
    rankings: Mapping[int, Ranking] | None = None,
    trace: Path | None = None,
    comparison: Comparison | None = None,
) -> None:
    from warpwright.errors import WarpwrightError
    from warpwright.tools.report import write_report, write_trace

    try:
        written = [write_report(path, runs, title=title, rankings=rankings, comparison=comparison)]
        if trace is not None:
            written.append(write_trace(trace, runs))
    except (OSError, WarpwrightError) as error:
        raise fail(str(error)) from None
    for one in written:
        console().print(f"wrote {one}", markup=False, soft_wrap=True)


def data_files(*paths: Path | None) -> dict[Path, str]:
    """Return the files for results as data, after checking their formats."""
    from warpwright.tools.export import ExportError, check_format

    kinds = ("json", "csv", "parquet")
    given = [(kind, path) for kind, path in zip(kinds, paths, strict=True) if path is not None]
    for kind, _ in given:
        try:
            check_format(kind)
        except ExportError as error:
            raise fail(str(error), MISUSED) from None
    return {path: kind for kind, path in given}


def export(outputs: Mapping[Path, str], runs: list[Run]) -> None:
    """Write one row per launch into each file."""
    from warpwright.tools.export import write_launches

    for path, kind in outputs.items():
        try:
            write_launches(path, kind, runs)
        except OSError as error:
            raise fail(f"cannot write {path}: {error.strerror or error}") from None
        console(stderr=True).print(f"wrote {path}", markup=False, soft_wrap=True)
