"""``warpwright debug``: debugs the kernels of a program on the terminal or in an editor."""

from __future__ import annotations

from typing import Annotated

import typer

from warpwright.commands.options import GpuOption
from warpwright.commands.program_execution import check_options


def debug(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help="Python file, or any command.")],
    gpu: GpuOption = None,
    commands: Annotated[
        list[str] | None, typer.Option("--ex", metavar="COMMAND", help="Command to execute first.")
    ] = None,
    batch: Annotated[bool, typer.Option("--batch", help="Run on without a stop after the last --ex command.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--dap", metavar="PORT", min=1, max=65535, help="Wait for an editor at this port (Debug Adapter Protocol)."
        ),
    ] = None,
) -> None:
    """Debug the kernels of a program: breakpoints, steps forwards and backwards, registers, memory. Arguments after the program are passed to it.

    The first launch stops before its first instruction; there, help lists the commands. Kernels run in the interpreter, without timing.
    """
    from warpwright.commands.debugged import Debugged, run_debugged

    check_options(context, gpu, None, program)
    code = run_debugged(Debugged([program, *context.args], gpu, commands or [], batch, port))
    if code:
        raise typer.Exit(code)
