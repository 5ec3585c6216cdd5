"""Prints decoded instructions of sm_50 to sm_62 as NVIDIA's ``nvdisasm`` does.

The counterpart of :mod:`warpwright.isa.sass.text`, except that a register's suffix is printed inside the bars and
before the reuse mark, and that immediates have marks of their own (``2.NEG``).
"""

from __future__ import annotations

from warpwright.isa.program import RZ, Instruction, Kind, Operand
from warpwright.isa.sass import text as wide
from warpwright.isa.sass.text import Labels


def format_instruction(instruction: Instruction, labels: Labels | None = None) -> str:
    """The instruction's text without address and encoding; ``labels`` as in the 128-bit printer."""
    text = ".".join((instruction.opcode, *instruction.modifiers))
    if instruction.guard is not None:
        text = f"@{wide.format_operand(instruction.guard)} {text}"
    for position, operand in enumerate(instruction.operands):
        if position == 0 and instruction.modifiers[-1:] == ("QRY1",):
            text += format_operand(operand, labels)  # printed without a space
            continue
        glue = " " if position == 0 or operand.name == "offset" else ", "
        text += glue + format_operand(operand, labels)
    return text.rstrip()


def format_operand(operand: Operand, labels: Labels | None = None) -> str:
    """One operand as printed."""
    if operand.kind is Kind.REGISTER:
        name = ("RZ" if operand.index == RZ else f"R{operand.index}") + operand.suffix
        if operand.absolute:
            name = f"|{name}|"
        name = ("-" if operand.negate else "") + ("~" if operand.invert else "") + name
        return name + (".reuse" if operand.reuse else "")
    if operand.kind is Kind.IMMEDIATE and operand.name == "u20":
        return f"{operand.value & 0xFFFFF:#x}{operand.suffix}"
    if operand.kind is Kind.IMMEDIATE and operand.name in ("u16", "s16"):
        value = operand.value & 0xFFFF
        value -= (value >> 15) << 16 if operand.name == "s16" else 0
        return ("-" if operand.suffix else "") + f"{value:#x}"
    if operand.kind in (Kind.IMMEDIATE, Kind.FLOAT):
        return wide.format_operand(operand, labels) + operand.suffix
    return wide.format_operand(operand, labels)
