"""Output and exit codes of the commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

FAILED = 1
MISUSED = 2
"""Exit code for an invalid command line, as for unknown options."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in a shell: 128 + SIGINT."""
WIDTH_WITHOUT_TERMINAL = 140


def console(stderr: bool = False) -> Console:
    """A console whose tables in a file or a pipe are not limited to the width of a terminal."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made = Console(stderr=stderr, highlight=False, emoji=False, width=WIDTH_WITHOUT_TERMINAL)
    return made


def fail(message: str, code: int = FAILED) -> typer.Exit:
    """Print a message as an error; to be raised."""
    console(stderr=True).print(message, style="red", markup=False, soft_wrap=True)
    return typer.Exit(code)


def check_folder(option: str, path: Path) -> None:
    """Reject a file whose folder does not exist; ``option`` is the option that names it."""
    if not path.absolute().parent.is_dir():
        raise fail(f"{option} {path}: there is no folder {path.absolute().parent}", MISUSED)


def check_output(path: Path) -> None:
    """Reject a file that cannot be written, before the work for it is done."""
    if path.is_dir():
        raise fail(f"cannot write {path}: it is a folder", MISUSED)
    if not path.parent.is_dir():
        raise fail(f"cannot write {path}: there is no folder {path.parent}", MISUSED)
