"""How commands print and end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
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
