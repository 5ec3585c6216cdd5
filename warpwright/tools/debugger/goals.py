"""What a command waits for: the instruction before which the launch stops, unless a breakpoint stops it before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from warpwright.engine.interpreter import WarpState
from warpwright.tools.debugger.places import Line, function_of, line_of
from warpwright.tools.debugger.threads import Focus

Reached: TypeAlias = "Callable[[Focus, WarpState, int, npt.NDArray[Any]], bool]"
"""Of the warp that is about to execute an instruction (its index, the lanes); the focus is that warp's first lane."""


@dataclass(frozen=True, slots=True)
class Command:
    """What the person at the debugger wants next.

    ``continue``, ``stepi`` (one instruction of the focus thread), ``step`` (to another source line), ``next`` (the same without
    entering functions), ``until`` (the same, to a later line), ``advance`` (to a place), ``finish`` (to the end of the launch), ``run``
    (the program again, from its beginning), ``kill``.
    """

    word: str
    reverse: bool = False
    focus: Focus | None = None
    """The thread that steps."""
    count: int = 1
    at: tuple[int, ...] = ()
    """Instructions of the place to which ``advance`` goes."""


def goal(command: Command, program: Any, index: int | None, line: Line | None) -> Reached:
    """When a command has done its work.

    Args:
        index: the instruction of the focus thread.
        line: its source line.
    """
    focus = command.focus
    if command.word in ("continue", "finish") or focus is None:
        return lambda *_: False
    start = function_of(program, index) if index is not None else 0

    def own(at: Focus, lanes: npt.NDArray[Any]) -> bool:
        return (at.block, at.warp) == (focus.block, focus.warp) and bool(lanes[focus.lane])

    def reached(at: Focus, warp: WarpState, i: int, lanes: npt.NDArray[Any]) -> bool:
        if not own(at, lanes):
            return False
        if command.word == "advance":
            return i in command.at
        if command.word == "stepi" or line is None:
            return command.word != "next" or function_of(program, i) == start
        here = line_of(program, i)
        if here is None or here == line:
            return False
        if command.word == "until":
            return function_of(program, i) == start and (here.file != line.file or here.number > line.number)
        return command.word == "step" or function_of(program, i) == start

    return reached
