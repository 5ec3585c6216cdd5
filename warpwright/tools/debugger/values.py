"""Values of a stopped thread: ``print``, ``x``, ``display``, ``set``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from warpwright.tools.debugger.debugger import Debugger
from warpwright.tools.debugger.expressions import (
    SCALARS,
    ExpressionError,
    Pointer,
    Value,
    Vector,
    evaluate,
    number_of,
)
from warpwright.tools.debugger.forms import CommandError, in_form, shown
from warpwright.tools.debugger.inspection import Inspection
from warpwright.tools.debugger.kept_settings import Kept
from warpwright.tools.debugger.threads import Thread

MOST_ELEMENTS = 200
"""That ``print`` shows of an array."""


@dataclass(frozen=True, slots=True)
class _Format:
    letter: str
    count: int = 1
    unit: str = "w"


class _Named:
    """A thread's names, and those of the debugger: ``$1``, ``$`` and ``$name``."""

    def __init__(self, thread: Thread, history: list[Value], variables: dict[str, int | float]) -> None:
        self.thread = thread
        self.history = history
        self.variables = variables

    def name(self, name: str) -> Value | None:
        found = self.thread.name(name)
        if found is not None or not name.startswith("$"):
            return found
        number = name[1:]
        if number.isdigit() and 0 < int(number) <= len(self.history):
            return self.history[int(number) - 1]
        return self.variables.get(number)

    def load(self, pointer: Pointer) -> int | float:
        return self.thread.load(pointer)


class Values(Inspection):
    """Prints and sets values."""

    def __init__(self, debugger: Debugger, state: Kept) -> None:
        super().__init__(debugger, state)
        self._history: list[Value] = []

    def value_of(self, text: str) -> Value:
        """The value of an expression for the focus thread, in which ``$1`` and convenience variables have a meaning."""
        return evaluate(text, _Named(self.thread(), self._history, self.state.variables))

    def do_print(self, rest: str, form: str = "") -> str:
        if not rest.strip():
            raise CommandError("print needs an expression")
        assigned = _assignment(rest)
        if assigned is not None:
            self._assign(*assigned)
            rest = assigned[0]
        text, value = self._printed(rest, form)
        self._history.append(value)
        return f"${len(self._history)} = {text}"

    def do_output(self, rest: str, form: str = "") -> str:
        return self._printed(rest, form)[0]

    def _printed(self, rest: str, form: str) -> tuple[str, Value]:
        """What an expression shows: ``a[0]@8`` shows eight elements."""
        array = re.fullmatch(r"(.*\S)\s*@\s*(\d+)\s*", rest)
        if array is None:
            value = self.value_of(rest)
            return shown(value, form), value
        place, count = self._place_of(array[1]), int(array[2])
        if not 0 < count <= MOST_ELEMENTS:
            raise CommandError(f"@{count}: print shows from 1 to {MOST_ELEMENTS} elements; x/{count} shows more")
        values = self.thread().memory(place, count)
        letter = form or ("f" if values.dtype.kind == "f" else "d")
        return "{" + ", ".join(in_form(v, letter, values.dtype.itemsize) for v in values) + "}", place

    def _place_of(self, text: str) -> Pointer:
        thread = self.thread()
        text = text.strip()
        place = evaluate(text[1:], thread) if text.startswith("*") else evaluate("&" + text, thread)
        if not isinstance(place, Pointer):
            raise CommandError(f"{text} is not a value in memory: give c[3], or *(float *) 0x7f00")
        return place

    # --- every stop ------------------------------------------------------------------------------------
    def do_display(self, rest: str, form: str = "") -> str:
        if not rest:
            return self.displayed()
        text = f"{rest} = {self._printed(rest, form)[0]}" if self.debugger.current is not None else ""
        number = max(self.state.displays, default=0) + 1
        self.state.displays[number] = (form, rest)
        return f"{number}: {text}" if text else ""

    def do_undisplay(self, rest: str) -> str:
        if not rest:
            self.state.displays.clear()
        for word in rest.split():
            if not word.isdigit() or self.state.displays.pop(int(word), None) is None:
                raise CommandError(f"there is no display {word}; info display lists them")
        return ""

    def displayed(self) -> str:
        """The displayed expressions, as every stop shows them."""
        rows = []
        for number, (form, text) in self.state.displays.items():
            try:
                rows.append(f"{number}: {text} = {self._printed(text, form)[0]}")
            except (ExpressionError, CommandError) as error:
                rows.append(f"{number}: {text}: {error}")
        return "\n".join(rows)

    # --- types and assignments -------------------------------------------------------------------------
    def do_whatis(self, rest: str) -> str:
        value = self.value_of(rest)
        if isinstance(value, Pointer):
            return f"type = {value.type} *" + ("" if value.space == "generic" else f" @{value.space}")
        try:
            return f"type = {self._place_of(rest).type}"
        except (ExpressionError, CommandError):
            return "type = " + (
                "uint3" if isinstance(value, Vector) else "double" if isinstance(value, float) else "long"
            )

    do_ptype = do_whatis

    def set_variable(self, rest: str) -> str:
        """``set var EXPRESSION = VALUE``."""
        assigned = _assignment(rest)
        if assigned is None:
            raise CommandError("set var takes PLACE = VALUE: set var c[3] = 1.5, set var $R4 = 7")
        self._assign(*assigned)
        return ""

    def _assign(self, left: str, right: str) -> None:
        value = number_of(self.value_of(right))
        if not left.startswith("$"):
            self.execution.set_memory(self.thread(), self._place_of(left), value)
        elif self.debugger.current is not None and self.thread().name(left) is not None:
            self.execution.set_register(self.thread(), left, value)
        elif re.fullmatch(r"\$(?!U?[RP](\d|[ZT]$))[A-Za-z_]\w*", left):
            self.state.variables[left[1:]] = value
        else:
            raise CommandError(f"{left} cannot be set: only registers, values in memory and variables such as $count")

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
            return self._instructions(int(number_of(self.value_of(rest or "$pc"))), how.count)
        space = re.match(r"@(shared|local|global)\s+", rest)
        value = self.value_of(rest[space.end() :] if space else rest)
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
            row = "\t".join(in_form(v, how.letter, size) for v in values[first : first + columns])
            yield f"{pointer.address + first * size:#x}:\t{row}"


def _assignment(text: str) -> tuple[str, str] | None:
    """Both sides of ``a = b``; None where nothing is assigned."""
    found = re.fullmatch(r"\s*([^=<>!]*[^=<>!\s])\s*=(?!=)\s*(.+)", text)
    return (found[1], found[2]) if found is not None else None
