"""Breakpoints and watchpoints of a debugger, by their numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpwright.engine.interpreter import Kernel
from warpwright.tools.debugger.expressions import Pointer
from warpwright.tools.debugger.places import Place


@dataclass(slots=True)
class Breakpoint:
    """Stops a warp before the instructions of a place."""

    number: int
    place: Place
    condition: str = ""
    """An expression of one thread; the warp stops where it holds for a thread that executes the instruction."""
    temporary: bool = False
    """Deleted when it has stopped a warp."""
    enabled: bool = True
    ignore: int = 0
    """Hits that do not stop."""
    hits: int = 0
    from_hit: int = 0
    """The first hit that stops, counted from the program's beginning."""
    commands: list[str] = field(default_factory=list)
    """Carried out when it has stopped a warp."""

    @property
    def text(self) -> str:
        """The place with its condition."""
        return self.place.text + (f" if {self.condition}" if self.condition else "")


@dataclass(slots=True)
class Watchpoint:
    """Stops after a change of a value in memory."""

    number: int
    text: str
    pointer: Pointer
    block: int = -1
    """Linear index of the block whose shared memory holds it; -1 for global memory."""
    enabled: bool = True
    hits: int = 0
    kernel: str = ""
    """Name of the kernel for whose thread the text was evaluated."""
    placed: bool = True
    """``pointer`` is of this run of the program; otherwise the kernel's next launch evaluates the text again."""


@dataclass(slots=True)
class Breakpoints:
    """All of them; ``generation`` changes when they do."""

    generation: int = 0
    breakpoints: list[Breakpoint] = field(default_factory=list)
    watchpoints: list[Watchpoint] = field(default_factory=list)
    _numbers: int = 0

    def _number(self) -> int:
        self._numbers += 1
        self.generation += 1
        return self._numbers

    def add(self, place: Place, condition: str = "", temporary: bool = False) -> Breakpoint:
        """Set a breakpoint."""
        made = Breakpoint(self._number(), place, condition, temporary)
        self.breakpoints.append(made)
        return made

    def watch(self, text: str, pointer: Pointer, block: int) -> Watchpoint:
        """Set a watchpoint."""
        made = Watchpoint(self._number(), text, pointer, block)
        self.watchpoints.append(made)
        return made

    def find(self, number: int) -> Breakpoint | Watchpoint | None:
        """The one of a number."""
        table: list[Breakpoint | Watchpoint] = [*self.breakpoints, *self.watchpoints]
        return next((b for b in table if b.number == number), None)

    def delete(self, number: int) -> bool:
        """Delete one; False where there is none of the number."""
        found = self.find(number)
        if isinstance(found, Breakpoint):
            self.breakpoints.remove(found)
        elif isinstance(found, Watchpoint):
            self.watchpoints.remove(found)
        self.generation += 1
        return found is not None

    def clear(self) -> None:
        """Delete all."""
        self.breakpoints.clear()
        self.watchpoints.clear()
        self.generation += 1

    def by_instruction(self, kernel: Kernel) -> dict[int, list[Breakpoint]]:
        """The enabled breakpoints of a kernel by the instruction before which they stop."""
        found: dict[int, list[Breakpoint]] = {}
        for one in self.breakpoints:
            if one.enabled:
                for index in one.place.instructions(kernel):
                    found.setdefault(index, []).append(one)
        return found
