"""``warpwright sweep``: runs all combinations of programs, chips, overrides and arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpwright.commands.output import FAILED, INTERRUPTED, MISUSED, console, fail


def sweep(
    specification: Annotated[Path, typer.Argument(help="TOML file: programs, chips, overrides and arguments.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results (default: SPECIFICATION.sweep).")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes (default: one per core).")] = None,
    scheduler: Annotated[str | None, typer.Option(help="Run on a Dask cluster: tcp://HOST:8786.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Also run failed points again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the number of points.")] = False,
) -> None:
    """Run all combinations of programs, chips, overrides and arguments; the same command continues where it was stopped."""
    from warpwright.sweeps.specification import SweepError, points_of, read_specification
    from warpwright.sweeps.sweep import sweep as run_sweep
    from warpwright.tools.progress import duration

    out = console()
    try:
        if dry_run:
            out.print(f"{len(points_of(read_specification(specification), Path.cwd())):,} points")
            return
        done = run_sweep(specification, output, workers=workers, scheduler=scheduler, retry_failed=retry_failed)
    except SweepError as error:
        raise fail(str(error), MISUSED) from None
    except KeyboardInterrupt:
        raise fail("interrupted; the same command continues from here", INTERRUPTED) from None
    before = len(done.points) - done.ran_count
    told = f"{len(done.points):,} points: {done.ran_count:,} run in {duration(done.wall_seconds)}"
    told += f", {before:,} finished before" if before else ""
    told += f", {done.failed_count:,} without a result" if done.failed_count else ""
    out.print(told)
    out.print(
        f"wrote {done.folder / 'results'}/*.parquet and {done.folder / 'index.html'}", markup=False, soft_wrap=True
    )
    if done.failed_count:
        raise typer.Exit(FAILED)
