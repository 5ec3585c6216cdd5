"""Breakpoints and watchpoints: the commands that set, change and delete them."""

from __future__ import annotations

import re

from warpwright.toolchain.demangle import plain_name
from warpwright.tools.debugger.breakpoints import Breakpoint, Breakpoints, Watchpoint
from warpwright.tools.debugger.expressions import well_formed
from warpwright.tools.debugger.forms import CommandError
from warpwright.tools.debugger.inspection import Inspection
from warpwright.tools.debugger.places import Place, line_of, own_lines
from warpwright.tools.debugger.threads import watched_place


class Stopping(Inspection):
    """Says where launches stop."""

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
        if re.fullmatch(r"\s*main\s*", text) and here is None:
            raise CommandError("only kernels are debugged, not the host program: break at a kernel's name, or start")
        if not text.strip():
            if here is None:
                raise CommandError("break needs a place: FILE:LINE, LINE, a kernel's name or *ADDRESS")
            text = f"*{self.execution.context.program.instructions[here].address:#x}"
        line = line_of(self.execution.context.program, here) if here is not None else None
        made = self.table.add(Place.parse(text, line.file if line is not None else ""), condition.strip(), temporary)
        return f"{'Temporary breakpoint' if temporary else 'Breakpoint'} {made.number} at {self._where_of(made)}"

    do_hbreak, do_thbreak = do_break, do_tbreak

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
        pointer = watched_place(rest, thread)
        shared = pointer.space == "shared"
        if pointer.space == "local":
            raise CommandError("local memory cannot be watched: only global and shared memory")
        made = self.table.watch(rest, pointer, thread.focus.block if shared else -1)
        made.kernel = self.execution.context.program.name
        if self.execution.watched(made) is None:
            self.table.delete(made.number)
            thread.load(pointer)
        return f"Watchpoint {made.number}: {rest}"

    def do_rwatch(self, rest: str) -> str:
        """Refuses."""
        raise CommandError("reads cannot be watched: watch EXPRESSION stops after a write")

    do_awatch = do_rwatch

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

    def do_condition(self, rest: str) -> str:
        number, _, condition = rest.partition(" ")
        if not number.isdigit():
            raise CommandError(
                "condition takes a breakpoint's number and an expression; without one the breakpoint always stops"
            )
        one = self._numbered(number)[0]
        if isinstance(one, Watchpoint):
            raise CommandError("watchpoints take no condition")
        if condition.strip():
            well_formed(condition)
        one.condition = condition.strip()
        return "" if one.condition else f"Breakpoint {one.number} now always stops."

    def do_clear(self, rest: str) -> str:
        """Deletes the breakpoints of a place, by default of the one where the focus thread is."""
        kernel, here = self.execution.kernel, self._here()
        line = line_of(kernel.program, here) if here is not None else None
        file = line.file if line is not None else ""
        places = set(Place.parse(rest, file).instructions(kernel)) if rest else {here}
        found = [b for b in self.table.breakpoints if places & set(b.place.instructions(kernel))]
        if not found:
            raise CommandError(f"there is no breakpoint at {rest or 'this place'}; info breakpoints lists them")
        for one in found:
            self.table.delete(one.number)
        return f"Deleted breakpoint{'s' if len(found) > 1 else ''} {', '.join(str(b.number) for b in found)}"

    def give_commands(self, number: str, lines: list[str]) -> str:
        """Commands that are carried out when a breakpoint stops, by default the newest one."""
        if not number and not self.table.breakpoints:
            raise CommandError("there is no breakpoint")
        one = self._numbered(number)[0] if number else self.table.breakpoints[-1]
        if isinstance(one, Watchpoint):
            raise CommandError("watchpoints take no commands")
        one.commands = lines
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
