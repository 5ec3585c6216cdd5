"""Detects code that uses more stack than the compiler reports.

``alloca`` lowers the stack pointer R1 at run time, which a cubin's attributes do not describe.  The driver's default
stack has room for it, as for recursion.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from warpwright.isa.program import RZ, Instruction, Kind, Operand

STACK_POINTER = 1
SIGN = 1 << 31


def stack_bytes(instructions: Iterable[Instruction], starts: Sequence[int], stated: int, default: int) -> int:
    """Stack bytes per thread: the compiler's figure (``stated``), or at least ``default`` if a function uses more than
    that.

    ``starts`` are the functions' addresses in ascending order.
    """
    taken: dict[int, int] = {}
    for instruction in instructions:
        least = lowered_by(instruction)
        if least is None:
            return max(stated, default)
        function = bisect_right(starts, instruction.address)
        taken[function] = taken.get(function, 0) + least
    return max(stated, default) if max(taken.values(), default=0) > stated else stated


def lowered_by(instruction: Instruction) -> int | None:
    """Bytes by which an instruction lowers the stack pointer; None if the amount is in a register."""
    target, *sources = instruction.operands or (None,)
    if target is None or not is_stack_pointer(target) or not any(map(is_stack_pointer, sources)):
        return 0
    others = [o for o in sources if o.kind in (Kind.REGISTER, Kind.UNIFORM_REGISTER) and not is_stack_pointer(o)]
    if any(o.index != RZ for o in others if o.kind is Kind.REGISTER) or any(
        o.kind is Kind.UNIFORM_REGISTER for o in others
    ):
        return None
    values = [(o.value & 2 * SIGN - 1 ^ SIGN) - SIGN for o in sources if o.kind is Kind.IMMEDIATE]
    return max(0, -sum(values))


def is_stack_pointer(o: Operand) -> bool:
    return o.kind is Kind.REGISTER and o.index == STACK_POINTER
