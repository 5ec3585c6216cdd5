"""The commands of the debugger, in the words of cuda-gdb: each takes its arguments and returns text, or what the launch does next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpwright.toolchain.demangle import plain_name
from warpwright.tools.debugger.breakpoints import Breakpoint, Breakpoints, Watchpoint
from warpwright.tools.debugger.debugger import Debugger
from warpwright.tools.debugger.execution import DebuggedExecution, Stop
from warpwright.tools.debugger.expressions import (
    SCALARS,
    ExpressionError,
    Pointer,
    Value,
    Vector,
    evaluate,
    number_of,
    well_formed,
)
from warpwright.tools.debugger.goals import Command
from warpwright.tools.debugger.places import Place, PlaceError, instruction_text, last_line, line_of, own_lines, text_of
from warpwright.tools.debugger.threads import Focus, LaneGroup, Thread, lane_groups

LIST_LINES = 10
RESUMING = {
    **{"continue": "continue", "c": "continue", "stepi": "stepi", "si": "stepi", "nexti": "stepi", "ni": "stepi"},
    **{"step": "step", "s": "step", "next": "next", "n": "next", "finish": "finish", "kill": "kill"},
}
REVERSE = {
    **{"reverse-continue": "continue", "rc": "continue", "reverse-stepi": "stepi", "rsi": "stepi"},
    **{
        "reverse-nexti": "stepi",
        "rni": "stepi",
        "reverse-step": "step",
        "rs": "step",
        "reverse-next": "next",
        "rn": "next",
    },
}
HELP = """\
break PLACE [if CONDITION]   stop before FILE:LINE, LINE, KERNEL or *ADDRESS (tbreak: once)
watch EXPRESSION             stop after a change of a value in memory: watch c[3], watch *(@shared float *) 16
delete, disable, enable [N]  all breakpoints, or one;  ignore N COUNT;  info breakpoints
continue, step, next, stepi [COUNT], finish
                             finish: to the last instruction of the launch
reverse-continue, reverse-step, reverse-next, reverse-stepi [COUNT]
                             the same, backwards (rc, rs, rn, rsi)
cuda block X[,Y,Z] | thread X[,Y,Z] | warp N | lane N
                             change the focus;  cuda alone shows it
info cuda kernels | blocks | warps | lanes;  info registers [NAME …];  info args;  info line
print[/x|/d|/u|/t|/f] EXPRESSION
                             $R4, $P0, $UR4, $R2.64, $pc, threadIdx.x, a parameter, a[3], *(float *) 0x7f00
x/NFU ADDRESS                memory: x/8xw a, x/4fw @shared 0;  x/5i $pc: instructions
list [LINE], disassemble, where
kill, quit, help"""


class CommandError(Exception):
    """A command that cannot be carried out: the message says why."""


@dataclass(frozen=True, slots=True)
class _Format:
    letter: str
    count: int = 1
    unit: str = "w"


class Commands:
    """Carries out commands while a launch is stopped (or, of breakpoints, before one)."""

    def __init__(self, debugger: Debugger) -> None:
        self.debugger = debugger
        self._history = 0
        self._listed = 0

    @property
    def execution(self) -> DebuggedExecution:
        """The launch that has stopped."""
        if self.debugger.current is None:
            raise CommandError("no kernel is running")
        return self.debugger.current

    def thread(self) -> Thread:
        return self.execution.thread()

    def carry_out(self, text: str) -> str | Command:
        """Carry out a line.

        Returns:
            What to show, or what the launch does next.

        Raises:
            CommandError: there is no such command, or it cannot be carried out.
        """
        head, _, rest = text.strip().partition(" ")
        word, _, form = head.partition("/")
        try:
            if word in RESUMING or word in REVERSE:
                return self._resume(word, rest)
            name = self._method(word)
            if form and name not in ("print", "x"):
                raise CommandError(f"{word} takes no /{form}")
            method: Callable[..., str] = getattr(self, "do_" + name)
            return method(rest.strip(), form) if name in ("print", "x") else method(rest.strip())
        except (ExpressionError, PlaceError) as error:
            raise CommandError(str(error)) from None

    def _method(self, word: str) -> str:
        short = {
            "b": "break",
            "tb": "tbreak",
            "d": "delete",
            "i": "info",
            "p": "print",
            "l": "list",
            "bt": "where",
            "h": "help",
        }
        word = {**short, "backtrace": "where", "disas": "disassemble", "inspect": "print", "q": "quit"}.get(word, word)
        names = [n[3:] for n in dir(self) if n.startswith("do_")]
        fitting = [n for n in names if n == word] or [n for n in names if word and n.startswith(word)]
        if len(fitting) != 1:
            what = f"which one: {', '.join(fitting)}?" if fitting else "help lists the commands"
            raise CommandError(f"there is no command {word!r}; {what}")
        return fitting[0]

    def _resume(self, word: str, rest: str) -> Command:
        reverse = word in REVERSE
        execution = self.execution
        if rest and not rest.strip().isdigit():
            raise CommandError(f"{word} takes a count, not {rest!r}")
        count = int(rest or 1)
        if word in ("continue", "c") and count > 1:
            # As in gdb: the breakpoint here lets so many go by.
            return Command("continue", focus=execution.focus, count=1)
        if reverse and execution.checkpoints.hindrance:
            raise CommandError(f"cannot go back: {execution.checkpoints.hindrance}")
        if RESUMING.get(word) == "finish" and execution.checkpoints.hindrance:
            raise CommandError(
                f"cannot stop at the end of this launch: {execution.checkpoints.hindrance}; use continue"
            )
        return Command((REVERSE if reverse else RESUMING)[word], reverse, execution.focus, count)

    def do_quit(self, rest: str) -> str:
        """Ends the program."""
        raise CommandError("the front end ends the program")

    # --- breakpoints -----------------------------------------------------------------------------------
    @property
    def table(self) -> Breakpoints:
        return self.debugger.breakpoints

    def do_break(self, rest: str) -> str:
        return self._break(rest, False)

    def do_tbreak(self, rest: str) -> str:
        return self._break(rest, True)

    def _break(self, rest: str, temporary: bool) -> str:
        text, found, condition = (
            re.split(r"(?:^|\s)(if)\s", rest, maxsplit=1) if re.search(r"(?:^|\s)if\s", rest) else (rest, "", "")
        )
        if found and not condition.strip():
            raise CommandError("a condition is missing after if")
        if found:
            well_formed(condition)
        here = self._here()
        if not text.strip():
            if here is None:
                raise CommandError("break needs a place: FILE:LINE, LINE, a kernel's name or *ADDRESS")
            text = f"*{self.execution.context.program.instructions[here].address:#x}"
        line = line_of(self.execution.context.program, here) if here is not None else None
        made = self.table.add(Place.parse(text, line.file if line is not None else ""), condition.strip(), temporary)
        return f"{'Temporary breakpoint' if temporary else 'Breakpoint'} {made.number} at {self._where_of(made)}"

    def _here(self) -> int | None:
        return self.thread().index if self.debugger.current is not None else None

    def _where_of(self, one: Breakpoint) -> str:
        if self.debugger.current is None:
            return f"{one.place.text} (of kernels to come)"
        kernel = self.debugger.current.kernel
        places = one.place.instructions(kernel)
        if not places:
            lines = f", which has {own_lines(kernel.program)}" if one.place.line else ""
            return f"{one.place.text} (not in kernel {plain_name(kernel.program.name)}{lines}; of kernels to come)"
        line = line_of(kernel.program, places[0])
        return f"{line or hex(kernel.addresses[places[0]])}" + (f" ({len(places)} places)" if len(places) > 1 else "")

    def do_watch(self, rest: str) -> str:
        thread = self.thread()
        pointer = self._watched(rest, thread)
        shared = pointer.space == "shared"
        if pointer.space == "local":
            raise CommandError("local memory cannot be watched: only global and shared memory")
        made = self.table.watch(rest, pointer, thread.focus.block if shared else -1)
        if self.execution.watched(made) is None:
            self.table.delete(made.number)
            thread.load(pointer)
        return f"Watchpoint {made.number}: {rest}"

    @staticmethod
    def _watched(text: str, thread: Thread) -> Pointer:
        """Where the value of an expression is."""
        text = text.strip()
        place = evaluate(text[1:], thread) if text.startswith("*") else evaluate("&" + text, thread)
        if not isinstance(place, Pointer):
            raise CommandError(f"{text} is not a value in memory: watch c[3], or watch *(float *) 0x7f00")
        from warpwright.engine.abi import SHARED_WINDOW, SHARED_WINDOW_BYTES

        if place.space == "generic" and 0 <= place.address - SHARED_WINDOW < SHARED_WINDOW_BYTES:
            return Pointer(place.address - SHARED_WINDOW, place.type, "shared")
        return place

    def _numbered(self, rest: str) -> list[Breakpoint | Watchpoint]:
        if not rest:
            return [*self.table.breakpoints, *self.table.watchpoints]
        found = []
        for word in rest.split():
            one = self.table.find(int(word)) if word.isdigit() else None
            if one is None:
                raise CommandError(f"there is no breakpoint {word}")
            found.append(one)
        return found

    def do_delete(self, rest: str) -> str:
        for one in self._numbered(rest):
            self.table.delete(one.number)
        return ""

    def do_disable(self, rest: str) -> str:
        return self._enable(rest, False)

    def do_enable(self, rest: str) -> str:
        return self._enable(rest, True)

    def _enable(self, rest: str, enabled: bool) -> str:
        for one in self._numbered(rest):
            one.enabled = enabled
        self.table.generation += 1
        return ""

    def do_ignore(self, rest: str) -> str:
        words = rest.split()
        if len(words) != 2 or not words[1].isdigit():
            raise CommandError("ignore takes a breakpoint's number and a count")
        one = self._numbered(words[0])[0]
        if isinstance(one, Watchpoint):
            raise CommandError("watchpoints cannot be ignored; disable it")
        one.ignore = one.hits + int(words[1])
        return f"The next {words[1]} hits of breakpoint {one.number} do not stop."

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

    def focus_text(self) -> str:
        """``kernel 0 saxpy, block (1,0,0), thread (3,0,0), warp 0, lane 3``."""
        execution, focus = self.execution, self.execution.focus
        thread = self.thread().thread_index
        block = ",".join(map(str, execution.block_index(focus.block)))
        name = plain_name(execution.context.program.name)
        return (
            f"kernel {execution.number} {name}, block ({block}), thread ({thread.x},{thread.y},{thread.z}), "
            f"warp {focus.warp}, lane {focus.lane}"
        )

    def place_text(self) -> str:
        """Source line and instruction of the focus thread."""
        program, index = self.execution.context.program, self.thread().index
        if index is None:
            return "the thread has exited"
        line = line_of(program, index)
        address = program.instructions[index].address
        machine = f"=> {address:#06x}  {instruction_text(program, index)}"
        return f"{line}\n{line.number}\t{text_of(program, line)}\n{machine}" if line is not None else machine

    def do_where(self, rest: str) -> str:
        return f"#0  {self.focus_text()}\n{self.place_text()}"

    # --- info ------------------------------------------------------------------------------------------
    def do_info(self, rest: str) -> str:
        words = rest.split()
        if words[:1] == ["cuda"]:
            words = ["cuda_" + (words[1] if len(words) > 1 else "kernels"), *words[2:]]
        names = [n[5:] for n in dir(self) if n.startswith("info_")]
        fitting = [n for n in names if words and n.startswith(words[0])]
        if not words or not fitting:
            raise CommandError(f"info {', '.join(n.replace('_', ' ') for n in names)}")
        method: Callable[[list[str]], str] = getattr(self, "info_" + fitting[0])
        return method(words[1:])

    def info_breakpoints(self, words: list[str]) -> str:
        rows = [
            (
                b.number,
                "breakpoint",
                "y" if b.enabled else "n",
                b.place.text + (f" if {b.condition}" if b.condition else ""),
                b.hits,
            )
            for b in self.table.breakpoints
        ]
        rows += [(w.number, "watchpoint", "y" if w.enabled else "n", w.text, w.hits) for w in self.table.watchpoints]
        return _table(("Num", "Type", "Enb", "What", "Hits"), rows) if rows else "no breakpoints or watchpoints"

    def info_registers(self, words: list[str]) -> str:
        thread = self.thread()
        known = thread.registers()
        names = [w.lstrip("$") for w in words] or list(known)
        rows = []
        for name in names:
            value = known.get(name)
            if value is None:
                value = int(number_of(evaluate("$" + name, thread)))
            rows.append(_register_row(name, value))
        return _table(("Name", "Hex", "Integer", "Float"), rows)

    def info_args(self, words: list[str]) -> str:
        rows = self.thread().parameters().items()
        return "\n".join(f"{name} = {shown(value)}" for name, value in rows) or "the kernel has no parameters"

    def info_line(self, words: list[str]) -> str:
        return self.place_text()

    def info_locals(self, words: list[str]) -> str:
        raise CommandError(
            "machine code names no local variables: they are in registers (info registers) or parameters (info args)"
        )

    def info_cuda_kernels(self, words: list[str]) -> str:
        e = self.execution
        g = e.context.geometry
        row = (
            f"* {e.number}",
            plain_name(e.context.program.name),
            g.grid,
            g.block,
            f"{e.blocks_done:,} of {g.blocks:,}",
        )
        return _table(("Kernel", "Name", "Grid", "Block", "Blocks done"), [row])

    def info_cuda_blocks(self, words: list[str]) -> str:
        e = self.execution
        rows = [
            (
                ("* " if run.block.linear_index == e.focus.block else "  ") + ",".join(map(str, run.block.index)),
                sum(not w.exited.all() for w in run.block.warps),
            )
            for run in e.resident
        ]
        more = f"\n{e.blocks_done:,} of {e.context.geometry.blocks:,} blocks have ended; blocks join when those that run wait"
        return _table(("Block", "Running warps"), rows) + more

    def info_cuda_warps(self, words: list[str]) -> str:
        thread = self.thread()
        rows = []
        for warp in thread.block.warps:
            mark = "* " if warp.warp_in_block == thread.focus.warp else "  "
            groups = lane_groups(warp)
            rows += [(mark + str(warp.warp_in_block), *self._group_row(g)) for g in groups]
            if not groups:
                rows.append((mark + str(warp.warp_in_block), "exited", "", "", ""))
        return _table(("Warp", "State", "Lanes", "PC", "Line"), rows)

    def _group_row(self, group: LaneGroup) -> tuple[str, str, str, str]:
        program = self.execution.context.program
        line = line_of(program, group.index)
        return group.state, f"{group.mask:#010x}", f"{program.instructions[group.index].address:#06x}", str(line or "")

    def info_cuda_lanes(self, words: list[str]) -> str:
        thread = self.thread()
        groups = lane_groups(thread.warp)
        rows = []
        for lane in range(thread.warp.lanes):
            group = next((g for g in groups if g.mask >> lane & 1), None)
            state, _, pc, line = self._group_row(group) if group is not None else ("exited", "", "", "")
            at = Thread(self.execution, Focus(thread.focus.block, thread.focus.warp, lane)).thread_index
            mark = "* " if lane == thread.lane else "  "
            rows.append((f"{mark}{lane}", state, f"({at.x},{at.y},{at.z})", pc, line))
        return _table(("Lane", "State", "Thread", "PC", "Line"), rows)

    info_cuda_threads = info_cuda_lanes

    # --- values ----------------------------------------------------------------------------------------
    def do_print(self, rest: str, form: str = "") -> str:
        if not rest.strip():
            raise CommandError("print needs an expression")
        value = evaluate(rest, self.thread())
        self._history += 1
        return f"${self._history} = {shown(value, form)}"

    def do_x(self, rest: str, form: str = "") -> str:
        found = re.fullmatch(r"(\d*)([xduftic]?)([bhwg]?)", form) or re.fullmatch(r"(\d*)([bhwg]?)([xduftic]?)", form)
        if found is None:
            raise CommandError(f"x/{form}: give a count, a format (x d u t f i) and a unit (b h w g)")
        letters = {found[2], found[3]}
        how = _Format(
            next((c for c in letters if c in tuple("xduftic")), "x"),
            int(found[1] or 1),
            next((c for c in letters if c in tuple("bhwg")), "w"),
        )
        if how.letter == "i":
            return self._instructions(int(number_of(evaluate(rest or "$pc", self.thread()))), how.count)
        space = re.match(r"@(shared|local|global)\s+", rest)
        value = evaluate(rest[space.end() :] if space else rest, self.thread())
        pointer = value if isinstance(value, Pointer) else Pointer(int(number_of(value)), "int")
        unit = {"b": "u1", "h": "u2", "w": "u4", "g": "u8"}[how.unit]
        if how.letter == "f":
            unit = {"h": "f2", "g": "f8"}.get(how.unit, "f4")
        elif how.letter == "d":
            unit = "i" + unit[1]
        name = next(n for n, t in SCALARS.items() if t == unit)
        pointer = Pointer(pointer.address, name, space[1] if space else pointer.space)
        return "\n".join(self._rows(pointer, how))

    def _rows(self, pointer: Pointer, how: _Format) -> Iterator[str]:
        values = self.thread().memory(pointer, how.count)
        size = values.dtype.itemsize
        columns = max(1, 16 // size)
        for first in range(0, how.count, columns):
            row = "\t".join(_in_form(v, how.letter, size) for v in values[first : first + columns])
            yield f"{pointer.address + first * size:#x}:\t{row}"

    def _instructions(self, address: int, count: int) -> str:
        kernel = self.execution.kernel
        first = kernel.index_of.get(address)
        if first is None:
            raise CommandError(f"there is no instruction at {address:#x}")
        return "\n".join(self._machine(n) for n in range(first, min(first + count, len(kernel.addresses))))

    def _machine(self, index: int) -> str:
        program = self.execution.context.program
        mark = "=>" if index == self.thread().index else "  "
        line = line_of(program, index)
        where = f"  ; {line.file.rsplit('/', 1)[-1]}:{line.number}" if line is not None else ""
        return f"{mark} {program.instructions[index].address:#06x}  {instruction_text(program, index)}{where}"

    def do_disassemble(self, rest: str) -> str:
        return "\n".join(self._machine(n) for n in range(len(self.execution.kernel.addresses)))

    def do_list(self, rest: str) -> str:
        program, index = self.execution.context.program, self.thread().index
        here = line_of(program, index) if index is not None else None
        if here is None:
            raise CommandError("there is no source: the kernel was compiled without line information (-lineinfo)")
        first = int(rest) - LIST_LINES // 2 if rest.isdigit() else self._listed or here.number - LIST_LINES // 2
        first = max(1, min(first, last_line(program, here.file)))
        last = min(first + LIST_LINES - 1, last_line(program, here.file))
        self._listed = last + 1
        rows = (type(here)(here.file, n) for n in range(first, last + 1))
        return "\n".join(f"{'>' if row == here else ' '}{row.number}\t{text_of(program, row)}" for row in rows)

    def do_help(self, rest: str) -> str:
        return HELP

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
        return "\n".join(
            t for t in (head, self.execution.condition_failure(), f"[{self.focus_text()}]", self.place_text()) if t
        )


def _register_row(name: str, value: int) -> tuple[str, ...]:
    if "P" in name:
        return name, "", str(value), ""
    signed = value - (1 << 32) if value >> 31 & 1 else value
    return name, f"{value:#010x}", str(signed), f"{np.uint32(value & 0xFFFFFFFF).view(np.float32):.6g}"


def shown(value: Value, form: str = "") -> str:
    """A value as ``print`` shows it."""
    if isinstance(value, (Pointer, Vector)) and not form:
        return str(value)
    number = number_of(value)
    if form == "f" and isinstance(number, int):
        size = 8 if number >> 32 else 4
        return _in_form(np.array([number], f"u{size}").view(f"f{size}")[0], "f", size)
    return (
        _in_form(number, form or ("f" if isinstance(number, float) else "d"), 8 if abs(number) >> 32 else 4)
        if isinstance(number, int)
        else f"{number:.9g}"
    )


def _in_form(value: Any, letter: str, size: int) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.9g}"
    value = int(value)
    bits = value & (1 << 8 * size) - 1
    if letter == "x":
        return f"{bits:#0{2 * size + 2}x}"
    if letter == "t":
        return f"{bits:b}"
    if letter == "u":
        return str(bits)
    return str(value)


def _table(heads: tuple[str, ...], rows: list[Any]) -> str:
    cells = [heads, *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)
