"""Finds extensions that are only used as addresses of global memory.

``sext(scalar + offset)`` equals ``sext(scalar) + offset`` unless a lane passes 2**31.  For an index that is only used
in addresses, such a wrap would place neighbouring lanes gigabytes apart.  The compiler keeps the scalar form there,
guarded by a check, and leaves the rare warp that fails it to the interpreter (Status.INTERPRET). No assumption is made
for values with other uses (hashes, products).

Complete 32-bit addresses (G80's) are zero-extended and need no check, because there is no memory on either side of a
wrap.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.jit.live_ranges import Webs
from warpwright.isa.ops import Lowered

CARRIES = frozenset(("add", "sub", "mul", "shl"))
"""i64 operations whose result is still an address."""
REREAD = frozenset(("get_reg64", "get_ureg64", "sext", "zext"))
"""Operations whose instructions may yield new information once other uses are known."""


def address_extensions(lowered: Sequence[Lowered], webs: Webs) -> frozenset[tuple[int, int]]:
    """(instruction, operation) of every 32-to-64-bit extension that is only used in addresses."""
    other_uses: set[int] = set()
    found: set[tuple[int, int]] = set()
    before = -1
    again = list(enumerate(lowered))
    while before != len(other_uses):
        before = len(other_uses)
        found = set()
        for index, low in again:
            ops = low.ops
            only = [True] * len(ops)
            for position in range(len(ops) - 1, -1, -1):
                op = ops[position]
                if op.name[:4] == "get_":
                    reference = webs.references[index, position]
                    if not only[position] or not op.name.endswith("64"):
                        other_uses.update((reference.low, reference.high))
                    continue
                extends = op.name == "sext" or (op.name == "zext" and op.attr == "address")
                if extends and op.type == "i64" and only[position] and ops[op.args[0]].type == "i32":
                    found.add((index, position))
                for place, value in enumerate(op.args):
                    if op.name in ("load", "store", "atomic"):
                        fine = place == 0 and op.attr.space == "global"
                    elif op.name in CARRIES and op.type == "i64":
                        fine = only[position]
                    elif op.name in ("set_reg64", "set_ureg64"):
                        reference = webs.references[index, position]
                        fine = reference.low == reference.high and reference.low not in other_uses
                    else:
                        fine = False
                    if not fine:
                        only[value] = False
        # The values that other instructions read are the same in every round.
        again = [(index, low) for index, low in again if any(op.name in REREAD for op in low.ops)]
    return frozenset(found)
