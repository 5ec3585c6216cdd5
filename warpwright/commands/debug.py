"""``warpwright debug``: debugs the kernels of a program on the terminal or in an editor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from warpwright.commands.execution import check_options, guarded
from warpwright.commands.options import GpuOption
from warpwright.commands.output import console, fail


def debug(
    context: typer.Context,
    program: Annotated[str, typer.Argument(help="Python file, or any command.")],
    gpu: GpuOption = None,
    commands: Annotated[
        list[str] | None, typer.Option("--ex", metavar="COMMAND", help="Command to carry out first.")
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
    from warpwright.programs import execute_command, is_python_file
    from warpwright.tools.debugger import child, dap, debugger
    from warpwright.tools.debugger.console import Console

    check_options(gpu, None, program)
    words = [program, *context.args]
    if not is_python_file(program):
        os.environ[child.VARIABLE] = child.setting(commands or [], batch, port)
        try:
            _, code = execute_command(words, gpu, "off")
        finally:
            del os.environ[child.VARIABLE]
        if code:
            raise typer.Exit(code)
        return
    if port is not None:
        server = dap.Server()
        console(stderr=True).print(f"waiting for an editor at 127.0.0.1:{port} (Debug Adapter Protocol)")
        server.listen(port)
        try:
            with debugger.debugging(server.debugger):
                guarded(Path(program), words[1:], gpu, "off")
        except typer.Exit as end:
            server.finished(end.exit_code)
            raise
        server.finished()
        return
    front_end = Console(commands or [], batch)
    try:
        with debugger.debugging(front_end.debugger):
            runs = guarded(Path(program), words[1:], gpu, "off")
    except typer.Exit:
        if front_end.killed:
            return
        raise
    if not runs:
        raise fail("the program launched no kernel")
