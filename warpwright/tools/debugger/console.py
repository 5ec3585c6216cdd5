"""The debugger on a terminal: reads commands where a launch has stopped, and once the program has ended."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from warpwright.tools.debugger.commands import Commands
from warpwright.tools.debugger.debugger import Debugger
from warpwright.tools.debugger.execution import DebuggedExecution, Stop
from warpwright.tools.debugger.forms import CommandError
from warpwright.tools.debugger.goals import Command
from warpwright.tools.debugger.kept_settings import Kept, leave

PROMPT = "(warpwright) "
REPEATED = frozenset(("step", "s", "next", "n", "stepi", "si", "nexti", "ni", "list", "l", "rs", "rn", "rsi", "rni"))
"""An empty line repeats these."""
QUIT = ("quit", "q", "exit")


class Console:
    """A front end that prints stops and reads commands.

    Args:
        commands: carried out first.
        batch: at their end the program runs on without a stop.
        keep: file with the state that outlives the program's process; without one the program cannot start again.
    """

    def __init__(self, commands: Iterable[str] = (), batch: bool = False, keep: Path | None = None) -> None:
        self._keep = keep
        self.state = Kept.load(keep) if keep is not None else Kept(given=list(commands))
        self.debugger = Debugger(self, self.state)
        self.commands = Commands(self.debugger)
        self._batch = batch
        self._last = ""
        self.killed = False
        """The command quit, kill or run has ended the program."""

    # --- what the debugger asks ----------------------------------------------------------------------------
    def launched(self, execution: DebuggedExecution) -> None:
        """Nothing is shown."""

    def stopped(self, execution: DebuggedExecution, stop: Stop) -> Command:
        text = self.commands.stop_text(stop)
        if not self._of_breakpoints(stop):
            self._show(text)
        while True:
            found = self._next()
            if found is None and self._batch:
                return self._run_on(execution)
            if found is None or found.word == "kill":
                self.killed = True
                self.state.quits |= found is None
                self._save()
                return Command("kill")
            if found.word in ("run", "start"):
                if self._keep is not None:
                    self._again(found.word)
                    leave()
                self._show("the program cannot be restarted here: quit, and run warpwright debug again")
                continue
            self._save()
            return found

    def ended(self, execution: DebuggedExecution) -> None:
        if sys.exc_info()[0] is None:
            self._show(f"[kernel {execution.number} has ended]")

    def _run_on(self, execution: DebuggedExecution) -> Command:
        self.debugger.breakpoints.clear()
        self.state.every_launch = False
        return Command("continue", focus=execution.focus)

    def _of_breakpoints(self, stop: Stop) -> bool:
        """Put the commands of the breakpoints before those to come; True where the first one is ``silent``."""
        found = [one for b in self.debugger.breakpoints.breakpoints if b.number in stop.numbers for one in b.commands]
        silent = found[:1] == ["silent"]
        self.state.given[:0] = found[silent:]
        return silent

    # --- commands ------------------------------------------------------------------------------------------
    def idle(self, code: int) -> bool:
        """Read commands while the program is not running; True where it is to start."""
        self._show(f"[the program has ended{f' with exit code {code}' if code else ''}; run restarts it]")
        while True:
            found = self._next()
            if found is None or self.state.quits:
                return False
            if found.word in ("run", "start"):
                self._again(found.word)
                return True
            self._show("the program is not running; run starts it")

    def _again(self, word: str) -> None:
        self.state.start_again(word == "start")
        self._save()

    def _save(self) -> None:
        if self._keep is not None:
            self.state.save(self._keep)

    def _next(self) -> Command | None:
        """What the next commands ask for; None at their end."""
        while True:
            line = self._line()
            if line is None or line in QUIT:
                self.state.quits = line in QUIT
                return None if line is None else Command("kill")
            try:
                found = self._carried_out(line) if line else ""
            except CommandError as error:
                found = str(error)
            if isinstance(found, Command):
                return found
            self._show(found)

    def _carried_out(self, line: str) -> str | Command:
        word, _, rest = line.partition(" ")
        if word not in ("commands", "comm"):
            return self.commands.carry_out(line)
        lines = []
        while (one := self._line(">")) is not None and one != "end":
            lines.append(one)
        return self.commands.give_commands(rest.strip(), lines)

    def _line(self, prompt: str = PROMPT) -> str | None:
        """The next command; None at the end of them."""
        if self.state.given:
            given = self.state.given.pop(0).strip()
            self._show(prompt + given)
            return given
        if self._batch:
            return None
        try:
            line = read_line(prompt, self.commands.names())
        except KeyboardInterrupt:
            self._show("Quit (the command quit ends the program)")
            return ""
        if line is None:
            return None
        if not line and self._last.split(" ")[0] in REPEATED:
            return self._last
        self._last = line
        return line

    @staticmethod
    def _show(text: str) -> None:
        if text:
            print(text, flush=True)


def read_line(prompt: str, words: list[str]) -> str | None:
    """A line from the terminal, where the arrow keys and Tab work; otherwise no byte beyond the line's end is read."""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline

            readline.set_completer(lambda text, n: next(iter([w for w in words if w.startswith(text)][n:]), None))
            readline.parse_and_bind("tab: complete")
        try:
            return input(prompt).strip()
        except EOFError:
            return None
    print(prompt, end="", flush=True)
    line = bytearray()
    while (byte := os.read(sys.stdin.fileno(), 1)) not in (b"", b"\n"):
        line += byte
    print(line.decode(errors="replace"), flush=True)
    return line.decode(errors="replace").strip() if line or byte else None
