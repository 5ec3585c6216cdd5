"""Finds extensions that are only used as addresses of global memory.

``sext(scalar + offset)`` equals ``sext(scalar) + offset`` unless a lane passes 2**31.  For an index whose
only use is an address, such a wrap would put neighbouring lanes gigabytes apart; the compiler keeps the
scalar form there behind a check, and leaves the rare warp that fails it to the interpreter (Status.INTERPRET).
Values that are used for anything else (hashes, products) are never assumed.

Whole addresses of 32 bits (G80's) are extended without a sign and need no check: on whichever side of a wrap memory ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.jit.live_ranges import Webs
from warpwright.isa.ops import Lowered

CARRIES = frozenset(("add", "sub", "mul", "shl"))
"""i64 operations through which an address stays an address."""
REREAD = frozenset(("get_reg64", "get_ureg64", "sext", "zext"))
"""Operations whose instructions may say something new once other uses are known."""


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
        # What the others read they read in every round.
        again = [(index, low) for index, low in again if any(op.name in REREAD for op in low.ops)]
    return frozenset(found)
