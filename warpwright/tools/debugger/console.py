"""The debugger on a terminal: reads commands where a launch has stopped."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from warpwright.tools.debugger.commands import CommandError, Commands
from warpwright.tools.debugger.debugger import Debugger
from warpwright.tools.debugger.execution import DebuggedExecution, Stop
from warpwright.tools.debugger.goals import Command

PROMPT = "(warpwright) "
REPEATED = frozenset(("step", "s", "next", "n", "stepi", "si", "nexti", "ni", "list", "l", "rs", "rn", "rsi", "rni"))
"""An empty line repeats these."""


class Console:
    """A front end that prints stops and reads commands.

    Args:
        commands: carried out first.
        batch: at their end the program runs on without a stop.
    """

    def __init__(self, commands: Iterable[str] = (), batch: bool = False) -> None:
        self.debugger = Debugger(self)
        self.commands = Commands(self.debugger)
        self._given = list(commands)
        self._batch = batch
        self._last = ""
        self.killed = False
        """The command quit or kill has ended the program."""

    def launched(self, execution: DebuggedExecution) -> None:
        """Nothing is shown."""

    def stopped(self, execution: DebuggedExecution, stop: Stop) -> Command:
        self._show(self.commands.stop_text(stop))
        while True:
            line = self._line()
            if line is None:
                if self._batch:
                    self.debugger.breakpoints.clear()
                    return Command("continue", focus=execution.focus)
                return self._kill()
            if line in ("quit", "q", "exit", "kill"):
                return self._kill()
            try:
                found = self.commands.carry_out(line) if line else ""
            except CommandError as error:
                found = str(error)
            if isinstance(found, Command):
                return found
            self._show(found)

    def _kill(self) -> Command:
        self.killed = True
        return Command("kill")

    def _line(self) -> str | None:
        """The next command; None at the end of them."""
        if self._given:
            line = self._given.pop(0).strip()
            self._show(PROMPT + line)
            return line
        if self._batch:
            return None
        try:
            line = input(PROMPT).strip()
        except EOFError:
            return None
        except KeyboardInterrupt:
            self._show("Quit (the command quit ends the program)")
            return ""
        if not line and self._last.split(" ")[0] in REPEATED:
            return self._last
        self._last = line
        return line

    @staticmethod
    def _show(text: str) -> None:
        if text:
            print(text, flush=True)

    def ended(self, execution: DebuggedExecution) -> None:
        if sys.exc_info()[0] is None:
            self._show(f"[kernel {execution.number} has ended]")
