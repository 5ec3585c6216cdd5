"""Starts the program in a separate process, under the debugger, as often as the debugger asks."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import typer

from warpwright.commands.output import MISUSED, fail
from warpwright.commands.output import console as shown_on
from warpwright.commands.program_execution import guarded
from warpwright.programs import execute_command, is_python_file
from warpwright.tools.debugger import child, console, dap, debugger, kept_settings


@dataclass(frozen=True, slots=True)
class Debugged:
    """What the command line asks for."""

    words: list[str]
    """The program and its arguments."""
    chip: str | None
    commands: list[str]
    batch: bool
    port: int | None

    def with_arguments(self, kept: kept_settings.Kept) -> list[str]:
        """The program and its arguments, or those that the debugger has set."""
        return self.words if kept.arguments is None else [self.words[0], *kept.arguments]


def run_debugged(asked: Debugged) -> int:
    """Debug a program; returns the exit code."""
    folder, owner = tempfile.mkdtemp(prefix="warpwright-debug-"), os.getpid()
    keep = Path(folder) / "state"
    kept_settings.Kept(given=list(asked.commands), stops_at_launch=asked.port is None).save(keep)
    try:
        if is_python_file(asked.words[0]):
            return _python_file(asked, keep)
        return kept_settings.supervise(lambda: _command(asked, keep), keep, _idle(asked, keep))
    finally:
        # The program's process, a copy of this one, leaves by here as well.
        if os.getpid() == owner:
            shutil.rmtree(folder)


def _idle(asked: Debugged, keep: Path) -> Callable[[int], bool] | None:
    if asked.batch or asked.port is not None:
        return None
    return lambda code: console.Console(keep=keep).idle(code)


def _command(asked: Debugged, keep: Path) -> int:
    """Run a command, whose processes obey the variable."""
    os.environ[child.VARIABLE] = child.setting(keep, asked.batch, asked.port)
    try:
        return execute_command(asked.with_arguments(kept_settings.Kept.load(keep)), asked.chip, "off")[1]
    finally:
        del os.environ[child.VARIABLE]


def _python_file(asked: Debugged, keep: Path) -> int:
    """Run a Python file in a copy of this process; where the system cannot copy processes, in this one, and once."""
    connection = None
    if (port := asked.port) is not None:
        try:
            connection = dap.accept(port, lambda: shown_on(stderr=True).print(dap.waiting(port)))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise fail(f"--dap {port}: {reason}; choose another port", MISUSED) from None
    if not hasattr(os, "fork"):
        return _in_this_process(asked, None, connection)

    def run() -> int:
        code = kept_settings.forked()
        if code is None:
            raise typer.Exit(_in_this_process(asked, keep, connection))
        return code

    return kept_settings.supervise(run, keep, _idle(asked, keep))


def _in_this_process(asked: Debugged, keep: Path | None, editor: socket.socket | None) -> int:
    """Run a Python file; returns its exit code."""
    front_end: dap.Server | console.Console
    if editor is not None:
        front_end = dap.Server(keep)
        front_end.connect(editor)
    else:
        front_end = console.Console(asked.commands, asked.batch, keep)
    program, *arguments = asked.with_arguments(front_end.state)
    code = 0
    try:
        with debugger.debugging(front_end.debugger):
            runs = guarded(Path(program), arguments, asked.chip, "off")
        if not runs and editor is None:
            code = fail("the program launched no kernel").exit_code
    except typer.Exit as end:
        killed = isinstance(front_end, console.Console) and front_end.killed
        code = 0 if killed else end.exit_code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        raise
    finally:
        if isinstance(front_end, dap.Server):
            front_end.finished(code)
    return code
