"""Values and tables as the debugger prints them."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwright.tools.debugger.expressions import Pointer, Value, Vector, number_of


class CommandError(Exception):
    """A command that cannot be carried out: the message says why."""


def register_row(name: str, value: int) -> tuple[str, ...]:
    """Name, hexadecimal, integer and float of a register."""
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
        return in_form(np.array([number], f"u{size}").view(f"f{size}")[0], "f", size)
    return (
        in_form(number, form or ("f" if isinstance(number, float) else "d"), 8 if abs(number) >> 32 else 4)
        if isinstance(number, int)
        else f"{number:.9g}"
    )


def in_form(value: Any, letter: str, size: int) -> str:
    """A number of ``size`` bytes by a format letter of ``x`` and ``print``."""
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
    if letter == "c":
        text = chr(bits & 0xFF)
        return f"{value} {text!r}" if text.isprintable() else str(value)
    return str(value)


def table(heads: tuple[str, ...], rows: list[Any]) -> str:
    """Rows below their headings, in columns."""
    cells = [heads, *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)
