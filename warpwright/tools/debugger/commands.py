"""The commands of the debugger, in the words of cuda-gdb: each takes its arguments and returns text, or what the launch does next."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

from warpwright.chips.chip import suggest
from warpwright.tools.debugger.breakpoint_commands import Stopping
from warpwright.tools.debugger.breakpoints import Breakpoint
from warpwright.tools.debugger.debugger import Debugger
from warpwright.tools.debugger.execution import Stop
from warpwright.tools.debugger.expressions import ExpressionError
from warpwright.tools.debugger.forms import CommandError
from warpwright.tools.debugger.goals import Command
from warpwright.tools.debugger.kept_settings import Kept
from warpwright.tools.debugger.places import Place, PlaceError, line_of
from warpwright.tools.debugger.threads import Focus
from warpwright.tools.debugger.values import Values

RESUMING = {
    **{"continue": "continue", "c": "continue", "fg": "continue", "stepi": "stepi", "si": "stepi", "nexti": "stepi"},
    **{"ni": "stepi", "step": "step", "s": "step", "next": "next", "n": "next", "finish": "finish", "fin": "finish"},
    **{"kill": "kill", "k": "kill", "detach": "detach"},
}
PLACED = {"until": "until", "u": "until", "advance": "advance"}
"""Take a place to which they run."""
STARTING = {"run": "run", "r": "run", "start": "start", "starti": "start"}
REVERSE = {
    **{"reverse-continue": "continue", "rc": "continue", "reverse-stepi": "stepi", "rsi": "stepi"},
    **{
        "reverse-nexti": "stepi",
        "rni": "stepi",
        "reverse-step": "step",
        "rs": "step",
        "reverse-next": "next",
        "rn": "next",
        "reverse-finish": "finish",
    },
}
SHORT = {
    **{"b": "break", "tb": "tbreak", "br": "break", "d": "delete", "i": "info", "p": "print", "l": "list", "h": "help"},
    **{"bt": "where", "backtrace": "where", "frame": "where", "f": "where", "disas": "disassemble", "q": "quit"},
    **{"inspect": "print", "call": "print", "thread": "cuda", "!": "shell", "exit": "quit"},
}
"""Other names of commands."""
FORMATTED = ("print", "x", "display", "output")
"""Take a format: ``print/x``."""
HELP = """\
run [ARGUMENTS]              the program again from its beginning, to the first breakpoint (r); keeps breakpoints and displays
start [ARGUMENTS]            the same, to the first launch;  kill: end the program;  set args ARGUMENTS, show args
break PLACE [if CONDITION]   stop before FILE:LINE, LINE, KERNEL or *ADDRESS (tbreak: once)
watch EXPRESSION             stop after a change of a value in memory: watch c[3], watch *(@shared float *) 16
condition N [EXPRESSION]     change the condition of a breakpoint;  commands [N]: what it carries out, up to end
delete, disable, enable [N]  all breakpoints, or one;  clear [PLACE];  ignore N COUNT;  info breakpoints
set cuda break_on_launch all | none
                             stop at every launch, or at breakpoints only
continue, step, next, stepi [COUNT], finish
                             finish: to the last instruction of the launch
until [PLACE], advance PLACE to a later line of the focus thread, or a place
reverse-continue, reverse-step, reverse-next, reverse-stepi [COUNT], reverse-finish
                             the same, backwards (rc, rs, rn, rsi)
cuda block X[,Y,Z] | thread X[,Y,Z] | warp N | lane N
                             change the focus;  cuda alone shows it
info cuda kernels | blocks | warps | lanes | devices;  info registers [NAME …];  info args;  info line;  info source
print[/x|/d|/u|/t|/f|/c] EXPRESSION
                             $R4, $P0, $UR4, $R2.64, $pc, threadIdx.x, a parameter, a[3], a[0]@8, *(float *) 0x7f00, $1
set var PLACE = VALUE        a register, a value in memory, or a variable: set var c[3] = 1.5, set var $R4 = 7
display[/FORMAT] EXPRESSION  print it at every stop;  undisplay [N];  whatis EXPRESSION
x/NFU ADDRESS                memory: x/8xw a, x/4fw @shared 0;  x/5i $pc: instructions
list [LINE | FIRST,LAST | KERNEL], disassemble, where
source FILE, shell COMMAND, echo TEXT, detach, quit, help [WORD]"""
WITHOUT_EFFECT = (
    "confirm",
    "pagination",
    "height",
    "width",
    "logging",
    "print",
    "verbose",
    "breakpoint",
    "history",
    "style",
)
"""Settings of gdb that scripts make and that mean nothing here."""


class Commands(Values, Stopping):
    """Carries out commands while a launch is stopped (or, of breakpoints, before one)."""

    def __init__(self, debugger: Debugger, state: Kept | None = None) -> None:
        super().__init__(debugger, state if state is not None else debugger.state)
        self.stopped_at: tuple[int, ...] = ()
        """Numbers of the breakpoints at which the launch has stopped."""

    def carry_out(self, text: str) -> str | Command:
        """Carry out a line.

        Returns:
            What to show, or what the launch does next.

        Raises:
            CommandError: there is no such command, or it cannot be carried out.
        """
        text = text.strip()
        head, _, rest = ("!", " ", text[1:]) if text.startswith("!") else text.partition(" ")
        word, _, form = head.partition("/")
        try:
            if word in STARTING:
                return self._start(STARTING[word], rest)
            if word in PLACED and (rest.strip() or word == "advance"):
                return self._advance(rest)
            if word in RESUMING or word in REVERSE or word in PLACED:
                return self._resume(word, rest)
            name = self._method(word)
            if form and name not in FORMATTED:
                raise CommandError(f"{word} takes no /{form}")
            method: Callable[..., str] = getattr(self, "do_" + name)
            return method(rest.strip(), form) if name in FORMATTED else method(rest.strip())
        except (ExpressionError, PlaceError) as error:
            raise CommandError(str(error)) from None

    def names(self) -> list[str]:
        """All commands by their full names."""
        own = (n[3:] for n in dir(self) if n.startswith("do_"))
        words = [w for table in (RESUMING, PLACED, STARTING, REVERSE) for w in table if len(w) > 3 or w == "run"]
        return sorted({*own, *words, "commands"})

    def _method(self, word: str) -> str:
        word = SHORT.get(word, word)
        names = [n[3:] for n in dir(self) if n.startswith("do_")]
        fitting = [n for n in names if n == word] or [n for n in names if word and n.startswith(word)]
        if len(fitting) != 1:
            if fitting:
                raise CommandError(f"there is no command {word!r}; which one: {', '.join(fitting)}?")
            raise CommandError(
                f"there is no command {word!r}{suggest(word, self.names()) or ';'} help lists the commands"
            )
        return fitting[0]

    # --- resuming --------------------------------------------------------------------------------------
    def _start(self, word: str, rest: str) -> Command:
        if rest.strip():
            self.do_set("args " + rest)
        return Command(word)

    def _advance(self, rest: str) -> Command:
        execution = self.execution
        here = self.thread().index
        line = line_of(execution.context.program, here) if here is not None else None
        if not rest.strip():
            raise CommandError("advance takes a place: FILE:LINE, LINE or *ADDRESS")
        at = Place.parse(rest, line.file if line is not None else "").instructions(execution.kernel)
        if not at:
            raise CommandError(f"{rest.strip()} is not in this kernel")
        return Command("advance", focus=execution.focus, at=at)

    def _resume(self, word: str, rest: str) -> Command:
        reverse = word in REVERSE
        execution = self.execution
        if rest and not rest.strip().isdigit():
            raise CommandError(f"{word} takes a count, not {rest!r}")
        count = int(rest or 1)
        if word in ("continue", "c", "fg") and count > 1:
            self._pass_by(count - 1)
            count = 1
        if reverse and execution.checkpoints.hindrance:
            raise CommandError(f"cannot go back: {execution.checkpoints.hindrance}")
        if RESUMING.get(word) == "finish" and execution.checkpoints.hindrance:
            raise CommandError(
                f"cannot stop at the end of this launch: {execution.checkpoints.hindrance}; use continue"
            )
        if word == "detach":
            self.table.clear()
            self.state.displays.clear()
            self.state.every_launch = False
            self.state.quits = True
            return Command("continue", focus=execution.focus)
        wanted = REVERSE.get(word) or RESUMING.get(word) or PLACED[word]
        return Command(wanted, reverse, execution.focus, count)

    def _pass_by(self, count: int) -> None:
        """Let a number of the next hits of the breakpoint go by at which the launch has stopped, as gdb's ``continue N`` does."""
        stopped = [one for number in self.stopped_at if (one := self.table.find(number)) is not None]
        found = next((one for one in stopped if isinstance(one, Breakpoint)), None)
        if found is None:
            raise CommandError(
                "continue COUNT skips hits of the breakpoint at which the launch stopped, and it did not stop at one"
            )
        found.ignore = found.hits + count

    def do_quit(self, rest: str) -> str:
        """Ends the program."""
        raise CommandError("the front end ends the program")

    def do_record(self, rest: str) -> str:
        """What gdb needs before it goes back."""
        return "Launches are always recorded: reverse-continue, reverse-step, reverse-stepi go back."

    def _only_frame(self, rest: str) -> str:
        raise CommandError("a thread has one frame here: inlined functions show as their source lines")

    do_up = do_down = _only_frame

    # --- settings --------------------------------------------------------------------------------------
    def do_set(self, rest: str) -> str:
        """``set var``, ``set args``, ``set listsize``, ``set cuda break_on_launch``."""
        word, _, value = rest.partition(" ")
        value = value.strip()
        if word in ("var", "variable"):
            return self.set_variable(value)
        if word.startswith("$"):
            return self.set_variable(rest)
        if word == "args":
            self.state.arguments = shlex.split(value)
            return ""
        if word == "listsize":
            if not value.isdigit() or int(value) < 1:
                raise CommandError("set listsize takes a number of lines")
            self.state.list_lines = int(value)
            return ""
        if word == "cuda" and value.startswith("break_on_launch"):
            which = value.partition(" ")[2].strip()
            if which not in ("all", "application", "none"):
                raise CommandError("set cuda break_on_launch takes all, application or none")
            self.state.every_launch = which != "none"
            return ""
        if word in WITHOUT_EFFECT:
            return ""
        raise CommandError(
            "set var PLACE = VALUE, set args ARGUMENTS, set listsize LINES, set cuda break_on_launch all | none"
        )

    def do_show(self, rest: str) -> str:
        """``show args``, ``show listsize``, ``show cuda break_on_launch``."""
        if rest == "args":
            given = self.state.arguments
            return "arguments of the command line" if given is None else shlex.join(given) or "no arguments"
        if rest == "listsize":
            return str(self.state.list_lines)
        if rest == "cuda break_on_launch":
            return "all" if self.state.every_launch else "none"
        raise CommandError("show args, show listsize, show cuda break_on_launch")

    # --- the terminal ----------------------------------------------------------------------------------
    def do_source(self, rest: str) -> str:
        """Carries out the commands of a file."""
        path = Path(rest).expanduser()
        if not path.is_file():
            raise CommandError(f"there is no file {rest}" if rest else "source takes a file of commands")
        lines = path.read_text(encoding="utf-8").splitlines()
        self.state.given[:0] = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        return ""

    def do_shell(self, rest: str) -> str:
        """Runs a command of the shell."""
        subprocess.run(rest or "$SHELL", shell=True, check=False)
        return ""

    def do_echo(self, rest: str) -> str:
        return rest.replace("\\n", "\n").rstrip("\n")

    # --- focus -----------------------------------------------------------------------------------------
    def do_cuda(self, rest: str) -> str:
        execution = self.execution
        pattern = r"(block|thread|warp|lane|kernel)\s*\(?\s*([\d, ]*\d)?\s*\)?"
        words = re.findall(pattern, rest)
        if re.sub(pattern, "", rest).strip(" ,"):
            raise CommandError("cuda block X[,Y,Z], cuda thread X[,Y,Z], cuda warp N, cuda lane N")
        focus = execution.focus
        for what, numbers in words:
            if numbers:
                focus = self._refocused(focus, what, [int(n) for n in re.findall(r"\d+", numbers)])
        execution.thread(focus)
        execution.focus = focus
        return self.focus_text() + ("\n" + self.place_text() if rest else "")

    def _refocused(self, focus: Focus, what: str, numbers: list[int]) -> Focus:
        geometry = self.execution.context.geometry
        x, y, z = (*numbers, 0, 0)[:3]
        if what in ("block", "thread"):
            size = geometry.grid if what == "block" else geometry.block
            if len(numbers) > 3 or x >= size[0] or y >= size[1] or z >= size[2]:
                raise CommandError(f"there is no {what} ({x},{y},{z}): there are {size[0]} x {size[1]} x {size[2]}")
            linear = x + size[0] * (y + size[1] * z)
            if what == "block":
                return Focus(linear, focus.warp, focus.lane)
            return Focus(focus.block, linear // geometry.lanes, linear % geometry.lanes)
        if what == "kernel":
            if x != self.execution.number:
                raise CommandError(f"kernel {x} is not running; kernel {self.execution.number} is")
            return focus
        most = geometry.warps_per_block if what == "warp" else geometry.lanes
        if x >= most:
            raise CommandError(f"there is no {what} {x}: there are {most}")
        return Focus(focus.block, x, focus.lane) if what == "warp" else Focus(focus.block, focus.warp, x)

    def do_help(self, rest: str) -> str:
        """The commands, or those whose description has a word."""
        word = SHORT.get(rest, rest)
        found = [line for line in HELP.splitlines() if re.search(rf"\b{re.escape(word)}\b", line)]
        if word and not found:
            raise CommandError(f"there is no help on {rest!r}; help lists the commands")
        return "\n".join(found) if word else HELP

    # --- stops -----------------------------------------------------------------------------------------
    def stop_text(self, stop: Stop) -> str:
        """What a stop shows."""
        self._listed = 0
        heads = {
            "breakpoint": f"Breakpoint {', '.join(map(str, stop.numbers))}",
            "watchpoint": f"Watchpoint {', '.join(map(str, stop.numbers))}: {stop.text}",
            "launch": "Launch",
            "pause": "Interrupted",
            "exception": f"Exception: {stop.text}",
        }
        head = heads.get(stop.reason, stop.text[:1].upper() + stop.text[1:])
        self.stopped_at = stop.numbers
        where = (f"[{self.focus_text()}]", self.place_text(), self.displayed())
        return "\n".join(t for t in (head, self.execution.condition_failure(), *where) if t)
