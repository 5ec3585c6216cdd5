"""Finds loads that are only used as single-precision numbers.

A uniform word is loaded into a general register by default.  A word that is only read as a float is loaded directly
into a vector register, from which it can be broadcast to the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.jit.live_ranges import Webs
from warpwright.isa.ops import Lowered, Op


def single_loads(lowered: Sequence[Lowered], webs: Webs) -> frozenset[int]:
    """Instructions whose loaded words all go to registers that are only read as f32."""
    other: set[int] = set()
    loads: list[tuple[int, list[int]]] = []
    for index, low in enumerate(lowered):
        ops = low.ops
        used = {a for op in ops if op.name != "bitcast" or op.type != "f32" for a in op.args}
        for position, op in enumerate(ops):
            if op.name[:4] == "get_" and (position in used or op.name != "get_reg"):
                reference = webs.references[index, position]
                other.update((reference.low, reference.high))
        found = next((n for n, op in enumerate(ops) if op.name == "load"), None)
        if found is None:
            continue
        targets: list[int] = []
        for position, op in enumerate(ops):
            if op.name[:4] == "set_" and _comes_from(ops, op.args[0], found):
                reference = webs.references[index, position]
                targets += [reference.low] if op.name == "set_reg" and reference.high < 0 else [-2]
        loads.append((index, targets))
    other.add(-2)
    return frozenset(index for index, targets in loads if targets and not other.intersection(targets))


def _comes_from(ops: Sequence[Op], value: int, load: int) -> bool:
    return value == load or (ops[value].name == "extract" and ops[value].args[0] == load)
