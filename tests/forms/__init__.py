"""Every form of every PTX instruction: tables from the PTX ISA manual, one kernel a form, edge and random values."""

from __future__ import annotations

from tests.forms import atomics, compare, convert, floating, integer, memory, move, tensor, video, warp
from tests.forms.form import Form

SECTIONS = {
    "integer": integer.ROWS,
    "floating": floating.ROWS,
    "compare": compare.ROWS,
    "convert": convert.ROWS,
    "move": move.ROWS,
    "memory": memory.ROWS,
    "atomics": atomics.ROWS,
    "warp": warp.ROWS,
    "tensor": tensor.ROWS,
    "video": video.ROWS,
}


def all_forms(arch: int | None = None) -> list[Form]:
    """Every form, or those that an architecture has."""
    found = [form for section, rows in SECTIONS.items() for row in rows for form in row.forms(section)]
    return [f for f in found if arch is None or f.arch <= arch <= f.row.last]
