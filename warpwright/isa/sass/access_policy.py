"""Finds SASS memory instructions with an access policy, and the uniform registers that hold the policies.

Global accesses name a descriptor, ``desc[UR4][R2.64]``.  Nearly all of them load it from constant bank 0, where it
requests no policy; a descriptor made by ``createpolicy`` holds the policy in its upper word.  The bits were derived
from the compiler's code for each form:

======  ==========================================================================================================
31..28  1: there is a policy
27      0: for a fraction of all addresses, 1: for a range
26..25  what is asked for those: 0 nothing, 1 evict_first, 2 evict_last, 3 evict_normal
24      1: evict_first for the others
23..20  sixteenths of the addresses, less one; of a range the size of its blocks, as a power of two, less 12
18..12  of a range: the number of its first block, modulo 128
11..5   of a range: how many blocks follow
======  ==========================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from warpwright.isa.program import Instruction, Kind, Program

MEMORY_DESCRIPTOR = {8: 0x118, 9: 0x208}
"""Offset of the descriptor in constant bank 0, by major version of the architecture."""
URZ = 63


def _descriptor(i: Instruction) -> int | None:
    """The uniform register of a global access's descriptor."""
    for operand in i.operands:
        if operand.kind is Kind.MEMORY and operand.descriptor is not None and operand.base is not None:
            return operand.descriptor.index
    return None


def _written(i: Instruction) -> Iterator[int]:
    """Uniform registers that an instruction may write; for those that write several, the first two."""
    if i.operands and i.operands[0].kind is Kind.UNIFORM_REGISTER:
        yield i.operands[0].index
        yield i.operands[0].index + 1


def policy_registers(program: Program) -> dict[int, int]:
    """By index of an instruction: the uniform register with the upper word of its access policy.

    Accesses with the descriptor from constant bank 0 are omitted; the last write before the access in the code decides.
    If another path brings the other kind of descriptor, a policy is missed, or an empty one is read, which has no
    effect.
    """
    offset = MEMORY_DESCRIPTOR.get(program.arch // 10)
    if offset is None:
        return {}
    plain: set[int] = set()
    found: dict[int, int] = {}
    for index, i in enumerate(program.instructions):
        register = _descriptor(i)
        if register is not None and register != URZ and register not in plain:
            found[index] = register + 1
        source = i.operands[1] if len(i.operands) > 1 else None
        given = (
            i.opcode == "ULDC"
            and "64" in i.modifiers
            and source is not None
            and source.kind is Kind.CONSTANT
            and (source.index, source.value) == (0, offset)
        )
        for written in _written(i):
            plain.discard(written)
            plain.discard(written - 1)
        if given:
            plain.add(i.operands[0].index)
    return found
