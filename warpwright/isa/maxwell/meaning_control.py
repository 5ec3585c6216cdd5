"""Branches and the reconvergence stack of sm_50 to sm_62.

Every warp has a stack of (kind, target, lanes).  ``SSY``, ``PBK``, ``PCNT`` and ``PRET`` push the point at which lanes
reconverge after a branch, a loop, an iteration or a call; a divergent branch pushes the side that waits.  ``SYNC``,
``BRK``, ``CONT`` and ``RET`` move the executing lanes to the topmost entry of their kind and remove them from every
entry above it; when no lane is left to run, the top of the stack runs next (Coon and Lindholm, US patents 7,353,369 and
7,617,384). The operations ``push``, ``pop`` and ``call`` express this; the engines maintain the stack.
"""

from __future__ import annotations

from warpwright.isa.maxwell.fields import WORD_BYTES
from warpwright.isa.maxwell.meaning import PascalEmitter, condition, condition_operand, meaning
from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind
from warpwright.isa.sass.meaning import only, src32, unsupported
from warpwright.isa.sass.meaning_service import serve

PUSHES = {"SSY": "ssy", "PBK": "brk", "PCNT": "cnt", "PRET": "ret"}
POPS = {"SYNC": "ssy", "BRK": "brk", "CONT": "cnt", "RET": "ret"}


def tests(i: Instruction, b: PascalEmitter) -> list[Value]:
    """The condition-code test of an instruction that has one in addition to its guard."""
    operand = condition_operand(i)
    return [] if operand is None else [condition(b, operand.name)]


def target_of(i: Instruction) -> int:
    found = next((o.value for o in i.operands if o.kind is Kind.LABEL), None)
    if found is None:
        raise unsupported(f"{i.opcode} to a target in constant memory")
    return found


@meaning("BRA", "JMP")
def BRA(i: Instruction, b: PascalEmitter) -> None:
    only(i, "U", "LMT")
    b.op("branch", "void", *tests(i, b), attr=target_of(i))


@meaning("EXIT", "KIL")
def EXIT(i: Instruction, b: PascalEmitter) -> None:
    only(i, "KEEPREFCOUNT")
    b.op("exit", "void", *tests(i, b))


@meaning(*PUSHES)
def PUSH(i: Instruction, b: PascalEmitter) -> None:
    only(i, "NOINC")
    b.op("push", "void", attr=(PUSHES[i.opcode], target_of(i)))


@meaning(*POPS)
def POP(i: Instruction, b: PascalEmitter) -> None:
    only(i)
    b.op("pop", "void", *tests(i, b), attr=POPS[i.opcode])


@meaning("CAL", "JCAL")
def CAL(i: Instruction, b: PascalEmitter) -> None:
    """A call pushes its return address unless a PRET has already done so (NOINC)."""
    only(i, "NOINC")
    b.op("call" if "NOINC" not in i.modifiers else "branch", "void", attr=target_of(i))


@meaning("BRX", "JMX")
def BRX(i: Instruction, b: PascalEmitter) -> None:
    only(i, "LMT")
    register = next((o for o in i.operands if o.kind is Kind.REGISTER), None)
    if register is None or condition_operand(i) is not None:
        raise unsupported(f"{i.opcode} through constant memory or with a condition")
    displacement = next((o.value for o in i.operands if o.kind is Kind.IMMEDIATE), 0)
    base = b.code_base + displacement + (i.address + WORD_BYTES if i.opcode == "BRX" else 0)
    place = b.add(b.sext(src32(b, register), "i64"), b.const(base, "i64"))
    # The target may be a control word; code begins at a multiple of 32.
    at_control = b.icmp("eq", b.and_(b.trunc(place, "i32"), b.const(31)), b.const(0))
    step = b.select(at_control, b.const(WORD_BYTES), b.const(0))
    b.op("branch_indirect", "void", b.add(place, b.zext(step, "i64")), attr=())


@meaning("SERVICE")
def SERVICE(i: Instruction, b: PascalEmitter) -> None:
    """A driver function; the caller's PRET has pushed the return address."""
    if serve(i.modifiers[0], b):
        b.op("pop", "void", attr=POPS["RET"])
