"""Prints decoded instructions as NVIDIA's ``nvdisasm`` does.

The text is generated from the record alone, so that a record that prints correctly is complete.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from warpwright.isa.program import PT, RZ, URZ, Instruction, Kind, Operand
from warpwright.isa.sass.fields import PACKED, signed

Labels = Mapping[int, str]


def format_instruction(instruction: Instruction, labels: Labels | None = None) -> str:
    """The instruction's text without address and encoding.

    ``labels`` maps byte offsets to names: a target with a name is printed as ```(name)``, any other as a number.
    """
    head = ".".join((instruction.opcode, *instruction.modifiers))
    if instruction.guard is not None:
        head = f"@{format_operand(instruction.guard)} {head}"
    text = head
    previous: Kind | None = None
    for position, operand in enumerate(instruction.operands):
        # RET and CALL put their target after a register without a comma.
        after = operand.kind is Kind.LABEL and previous is Kind.REGISTER and instruction.opcode in ("RET", "CALL")
        glue = " " if position == 0 or after or operand.name == "offset" else ", "
        text += glue + format_operand(operand, labels)
        previous = operand.kind
    return text.rstrip()


def format_operand(operand: Operand, labels: Labels | None = None) -> str:
    """One operand as printed."""
    return _PRINTERS[operand.kind](operand, labels or {})


def hexadecimal(value: int) -> str:
    """Hexadecimal with the sign in front."""
    return f"-{-value:#x}" if value < 0 else f"{value:#x}"


def _dressed(operand: Operand, name: str) -> str:
    """Add sign, complement, bars, reuse mark and suffix to a name; the suffix of a register is outside the bars."""
    is_register = operand.kind is Kind.REGISTER
    if not is_register:
        name += operand.suffix
    if operand.absolute:
        name = f"|{name}|"
    if operand.invert:
        name = "~" + name
    if operand.negate:
        name = "-" + name
    if operand.reuse:
        name += ".reuse"
    return name + operand.suffix if is_register else name


def _register(operand: Operand, labels: Labels) -> str:
    return _dressed(operand, "RZ" if operand.index == RZ else f"R{operand.index}")


def _uniform_register(operand: Operand, labels: Labels) -> str:
    name = "URZ" if operand.index == URZ else f"UR{operand.index}"
    return _dressed(operand, f"{operand.name}[{name}]" if operand.name else name)


def _predicate(operand: Operand, labels: Labels) -> str:
    return ("!" if operand.invert else "") + ("PT" if operand.index == PT else f"P{operand.index}")


def _uniform_predicate(operand: Operand, labels: Labels) -> str:
    return ("!" if operand.invert else "") + ("UPT" if operand.index == PT else f"UP{operand.index}")


def _immediate(operand: Operand, labels: Labels) -> str:
    value = operand.value
    if operand.name == "signed" and value >= 1 << 31:
        value -= 1 << 32
    return hexadecimal(value)


def float_value(bits: int, form: str) -> float:
    """The decimal text of the bits of an ``f16``, ``bf16``, ``f32`` or ``f64``."""
    if form == "f64":
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if form == "f16":
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    if form == "bf16":
        bits <<= 16
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


SIGN_BIT = {"f16": 15, "bf16": 15, "f32": 31, "f64": 63}
BIGGEST_PLAIN = 1e9
"""Magnitudes from here on are printed with an exponent and twenty decimal places."""


def _float(operand: Operand, labels: Labels) -> str:
    bits, form = operand.value, operand.name
    value = float_value(bits, form)
    sign = "-" if bits >> SIGN_BIT[form] & 1 else "+"
    if value != value:
        signalling = form == "f64" and not bits >> 51 & 1
        return f"{sign}{'S' if signalling else 'Q'}NAN "
    if value in (float("inf"), float("-inf")):
        return f"{sign}INF "
    if value == 0 and sign == "-":
        return "-0.0 "
    return format_number(value)


def format_number(value: float) -> str:
    """Twenty significant digits, as in C; large numbers in exponential form."""
    if abs(value) >= BIGGEST_PLAIN:
        return f"{value:.20e}"
    return f"{value:.20g}"


def _constant(operand: Operand, labels: Labels) -> str:
    gap = " " if operand.name == PACKED else ""
    if operand.uniform is not None:
        bank = f"cx[{_uniform_register(operand.uniform, labels)}]"
    else:
        bank = f"c[{operand.index:#x}]"
    inner = hexadecimal(operand.value)
    if operand.base is None and operand.uniform is None:
        # A bank has 64 KiB: the offset wraps, and is printed as a signed number.
        inner = hexadecimal(signed(operand.value, 16))
    elif operand.base is not None:
        inner = format_operand(operand.base, labels) + (f"+{inner}" if operand.value else "")
    return _dressed(operand, f"{bank}{gap}[{inner}]")


def _memory(operand: Operand, labels: Labels) -> str:
    parts = []
    if operand.base is not None:
        parts.append(format_operand(operand.base))
    if operand.uniform is not None:
        parts.append(format_operand(operand.uniform))
    if operand.value or not parts:
        parts.append(hexadecimal(operand.value))
    if operand.descriptor is not None and not operand.base and not operand.uniform:
        return f"desc[{format_operand(operand.descriptor)}]"
    text = f"[{'+'.join(parts)}]"
    if operand.descriptor is not None:
        text = f"desc[{format_operand(operand.descriptor)}]{text}"
    return text + operand.suffix


def _label(operand: Operand, labels: Labels) -> str:
    name = labels.get(operand.value) or operand.name
    return f"`({name})" if name else hexadecimal(operand.value)


def _name(operand: Operand, labels: Labels) -> str:
    return operand.name


def _barrier(operand: Operand, labels: Labels) -> str:
    return operand.name or f"B{operand.index}"


def _scoreboard(operand: Operand, labels: Labels) -> str:
    return operand.name or f"SB{operand.index}"


_PRINTERS = {
    Kind.REGISTER: _register,
    Kind.UNIFORM_REGISTER: _uniform_register,
    Kind.PREDICATE: _predicate,
    Kind.UNIFORM_PREDICATE: _uniform_predicate,
    Kind.BARRIER: _barrier,
    Kind.SPECIAL: _name,
    Kind.IMMEDIATE: _immediate,
    Kind.FLOAT: _float,
    Kind.CONSTANT: _constant,
    Kind.MEMORY: _memory,
    Kind.LABEL: _label,
    Kind.SCOREBOARD: _scoreboard,
    Kind.NAME: _name,
}
