"""Tables of methods: names by offset, and engines whose methods write registers or start work.

A row of a table is ``(offset, name)`` or ``(offset, name, count, stride)`` for an array; offsets and strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.graphics.pushbuffer import CommandError, Words

Row = tuple[int, str] | tuple[int, str, int, int]
LAST_METHOD = 0x2000


class MethodTable:
    """The methods of a class.

    Args:
        label: how messages name the class.
        rows: its methods.

    Raises:
        ValueError: two rows share an offset, or a name is used twice.
    """

    def __init__(self, label: str, rows: Iterable[Row]) -> None:
        self.label = label
        self.names: dict[int, str] = {}
        self.offsets: dict[str, int] = {}
        self.strides: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        for row in rows:
            offset, name = row[0], row[1]
            count, stride = (row[2], row[3]) if len(row) == 4 else (1, 4)
            if name in self.offsets:
                raise ValueError(f"{label}: {name} is listed twice")
            self.offsets[name], self.strides[name], self.counts[name] = offset, stride, count
            for i in range(count):
                at = offset + stride * i
                if at in self.names:
                    raise ValueError(f"{label}: {name} and {self.names[at]} share {at:#06x}")
                self.names[at] = f"{name}[{i}]" if count > 1 else name
        self.known = np.zeros(LAST_METHOD // 4, dtype=bool)
        self.known[[offset // 4 for offset in self.names]] = True

    def name(self, offset: int) -> str:
        """``RT_FORMAT[2]``, or the offset of an unknown method."""
        return self.names.get(offset, f"method {offset:#06x}")


Handler = Callable[[int, Words], None]
"""Takes the offset of the method and the words written to it."""


class RegisterEngine:
    """An engine whose methods write registers; those with a handler start work as well."""

    def __init__(self, table: MethodTable, handlers: Mapping[str, Handler]) -> None:
        self.table = table
        self.registers: npt.NDArray[np.uint32] = np.zeros(LAST_METHOD // 4, dtype=np.uint32)
        self.floats: npt.NDArray[np.float32] = self.registers.view(np.float32)
        self._handlers: dict[int, Handler] = {}
        for name, handler in handlers.items():
            for i in range(table.counts[name]):
                self._handlers[table.offsets[name] + table.strides[name] * i] = handler
        self._starts = np.zeros(LAST_METHOD // 4, dtype=bool)
        self._starts[[offset // 4 for offset in self._handlers]] = True

    def __getitem__(self, name: str) -> int:
        """The value of a register."""
        return int(self.registers[self.table.offsets[name] >> 2])

    def at(self, name: str, index: int) -> int:
        """The value of one register of an array."""
        return int(self.registers[(self.table.offsets[name] + self.table.strides[name] * index) >> 2])

    def limited(self, name: str, most: int) -> int:
        """The value of a register with a hardware limit.

        Raises:
            CommandError: it exceeds ``most``.
        """
        value = self[name]
        if value > most:
            raise CommandError(f"{name} is {value:,}: the chip has at most {most:,}")
        return value

    def float_at(self, name: str, index: int = 0) -> float:
        """The value of a register that holds a 32-bit float."""
        return float(self.floats[(self.table.offsets[name] + self.table.strides[name] * index) >> 2])

    def address(self, name: str, index: int = 0) -> int:
        """The 40-bit address in a pair of registers, of which the first, named here, holds the high half."""
        at = (self.table.offsets[name] + self.table.strides[name] * index) >> 2
        return int(self.registers[at]) << 32 | int(self.registers[at + 1])

    def write(self, method: int, words: Words, increments: bool) -> None:
        """Write words to a method, or to consecutive ones.

        Raises:
            CommandError: the class does not have the method.
        """
        first = method >> 2
        if not increments:
            self._check(first, first + 1)
            self.registers[first] = words[-1]
            if self._starts[first]:
                self._handlers[method](method, words)
            return
        last = first + len(words)
        self._check(first, last)
        starts = self._starts[first:last]
        done = 0
        for i in np.flatnonzero(starts).tolist():
            self.registers[first + done : first + i + 1] = words[done : i + 1]
            done = i + 1
            self._handlers[method + 4 * i](method + 4 * i, words[i : i + 1])
        self.registers[first + done : last] = words[done:]

    def _check(self, first: int, last: int) -> None:
        known = self.table.known[first:last]
        if last > len(self.table.known) or not known.all():
            bad = first + (int(np.argmin(known)) if len(known) else 0)
            before = [o for o in self.table.names if o < 4 * bad]
            near = f" (after {self.table.names[max(before)]})" if before else ""
            raise CommandError(
                f"{self.table.label} has no {self.table.name(4 * bad)}{near}, or it is not provided: "
                "report it with the program that emits it"
            )

    def refuse(self, name: str, value: Any, why: str) -> CommandError:
        """The error for a state that is not provided."""
        shown = f"{value:#x}" if isinstance(value, int) else str(value)
        return CommandError(f"{self.table.label}: {name} = {shown} is not provided: {why}")
