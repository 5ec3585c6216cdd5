"""``warpwright resume``: runs a launch from its checkpoint to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpwright.commands.launch_output import show_table
from warpwright.commands.output import INTERRUPTED, MISUSED, check_folder, console, fail


def resume(
    checkpoint: Annotated[Path, typer.Argument(help="File of warpwright run --checkpoint.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.npz",
            help="Write the device's arrays to this file, as bytes by name: view() gives them their type.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--mig", metavar="PROFILE:START", help="Resume in a MIG instance of a fresh card, such as 3g.20gb:4."
        ),
    ] = None,
    again: Annotated[
        Path | None, typer.Option("--checkpoint", metavar="FILE", help="File for further checkpoints.")
    ] = None,
    every: Annotated[int, typer.Option("--checkpoint-every", min=1, help="Simulated cycles between two.")] = 1_000_000,
) -> None:
    """Run a launch from its checkpoint to its end, with the same memory, cycles and counters as without the interruption."""
    import numpy as np

    from warpwright.checkpoint import Checkpoints
    from warpwright.checkpoint import resume as go_on
    from warpwright.chips.mig import MigError
    from warpwright.errors import WarpwrightError
    from warpwright.mig import MigGPU

    for option, path in (("--output", output), ("--checkpoint", again)):
        if path is not None:
            check_folder(option, path)
    gpu = None
    if profile is not None:
        name, _, start = profile.partition(":")
        try:
            gpu = MigGPU("a100", timing="full").create(name, int(start) if start else None)
        except (MigError, ValueError) as error:
            raise fail(f"--mig {profile}: {error}", MISUSED) from None
    try:
        found = go_on(
            checkpoint, gpu, checkpoints=Checkpoints(again, every_cycles=every) if again is not None else None
        )
    except WarpwrightError as error:
        raise fail(str(error)) from None
    except KeyboardInterrupt:
        raise fail("interrupted", INTERRUPTED) from None
    out = console()
    out.print(f"{found.run.kernel} resumed at cycle {found.cycle:,}", markup=False)
    show_table([found.run], found.run.chip, out)
    if output is not None:
        np.savez(output, **{_plain(name): found.array(name) for name in found.allocations})  # type: ignore[arg-type]
        out.print(f"wrote {output}", markup=False, soft_wrap=True)


def _plain(label: str) -> str:
    """The name that a program gave an array, of a label such as ``array 'x'``."""
    return label.removeprefix("array ").strip("'")
