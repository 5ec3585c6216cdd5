"""``warpwright campaign``: a fault-injection campaign over a workload."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpwright.commands.option_records import with_options
from warpwright.commands.output import INTERRUPTED, MISUSED, console, fail
from warpwright.messages import report
from warpwright.quantity_text import share_text, time_text

if TYPE_CHECKING:
    from warpwright.campaigns import Campaign

LINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class CampaignOptions:
    """The options of ``warpwright campaign``."""

    injections: Annotated[
        int, typer.Option("--injections", "-n", help="Runs of the workload, each with one error.")
    ] = 1000
    gpu: Annotated[str, typer.Option("--gpu", "-g", help="Chip.")] = "a100"
    structures: Annotated[str, typer.Option(help="Where bits flip, separated by commas.")] = "dram,l2,registers,shared"
    bits: Annotated[int, typer.Option(help="Flipped neighbouring bits of one word.")] = 1
    ecc: Annotated[bool, typer.Option("--ecc/--no-ecc", help="Whether words are protected.")] = False
    seed: Annotated[int, typer.Option(help="Chooses words, bits and moments.")] = 0
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the results (default: PROGRAM.campaign).")
    ] = None
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1
    scheduler: Annotated[str | None, typer.Option(help="Run on a Dask cluster: tcp://HOST:8786.")] = None


@with_options(CampaignOptions)
def campaign(
    program: Annotated[
        Path,
        typer.Argument(
            help="Python file with prepare(gpu), which returns a function that launches and returns arrays."
        ),
    ],
    options: CampaignOptions,
) -> None:
    """Run a workload thousands of times with one flipped bit each, and count masked, wrong, ended and hung runs.

    The same command continues where it was stopped.
    """
    from warpwright.campaigns import CampaignError, CampaignSpecification
    from warpwright.campaigns import campaign as run_campaign
    from warpwright.errors import WarpwrightError

    o = options
    structures = tuple(name.strip() for name in o.structures.split(","))
    asked = CampaignSpecification(str(program), o.injections, o.gpu, structures, o.bits, o.ecc, o.seed)
    folder = o.output or program.with_suffix(".campaign")
    last = [time.monotonic()]

    def progress(done: int, total: int) -> None:
        if time.monotonic() - last[0] >= LINE_SECONDS:
            last[0] = time.monotonic()
            report(f"{done:,} of {total:,} injections")

    try:
        found = run_campaign(asked, folder, workers=o.workers, scheduler=o.scheduler, progress=progress)
    except CampaignError as error:
        raise fail(str(error), MISUSED) from None
    except WarpwrightError as error:
        raise fail(str(error)) from None
    except KeyboardInterrupt:
        raise fail("interrupted; the same command continues from here", INTERRUPTED) from None
    show(found)


def show(found: Campaign) -> None:
    """Print the shares of the outcomes by structure, with their 95 % intervals."""
    from rich.table import Table

    from warpwright.campaigns.injector import OUTCOMES

    table = Table(header_style="bold")
    table.add_column("structure")
    for heading in ("injections", *OUTCOMES):
        table.add_column(heading, justify="right")
    for structure in (*found.specification.structures, None):
        counts = found.counts(structure)
        shares = []
        for outcome in OUTCOMES:
            share, low, high = found.rate(outcome, structure)
            shares.append(f"{share_text(share)} ({share_text(low)}-{share_text(high)})" if counts[outcome] else "0")
        table.add_row(structure or "all", f"{sum(counts.values()):,}", *shares)
    out = console()
    out.print(table)
    before = len(found.rows) - found.ran
    told = f"{found.ran:,} injections in {time_text(found.seconds)}" + (
        f", {before:,} finished before" if before else ""
    )
    out.print(told)
    out.print(f"wrote {found.folder / 'injections.csv'}", markup=False, soft_wrap=True)
