"""The builder of NV50 meanings, and what every part of them reads: registers and addresses."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpwright.isa.nv50.condition_registers import Test
from warpwright.isa.nv50.stage_words import StageInterface
from warpwright.isa.ops import Builder, Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass.meaning import UnsupportedInstruction

FIRST_ADDRESS_REGISTER = 128


@dataclass(slots=True)
class Nv50Emitter(Builder):
    """A builder that knows the kernel around the instruction."""

    arch: int = 10
    wanted: frozenset[Test] = frozenset()
    """Tests of condition registers that someone reads."""
    parameter_bytes: int = 0
    """Size of the kernel's parameters, which are in shared memory from byte 16 on."""
    window: int = 0
    """Upper word of every address in global memory."""
    parameter_base_bytes: int = 0
    """Where the launch keeps the parameters (constant bank 0 of the engine)."""
    targets: dict[int, int] = field(default_factory=dict)
    """By the address of a ``join``: the address after it."""
    interface: StageInterface | None = None
    """Of a graphics program."""


def unsupported(what: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(what)


def get(b: Nv50Emitter, number: int) -> Value:
    return b.op("get_reg", "i32", attr=number)


def address(b: Nv50Emitter, o: Operand) -> Value:
    """The byte address of a memory operand in its space; a stepping register is stepped on."""
    if o.base is None:
        return b.const(0 if o.reuse else o.value)
    number = FIRST_ADDRESS_REGISTER + o.base.index
    base = get(b, number)
    moved = b.and_(b.add(base, b.const(o.value)), b.const(0xFFFF)) if o.value else base
    if not o.reuse:
        return moved
    b.op("set_reg", "void", moved, attr=number)
    return base


def lane_number(b: Nv50Emitter) -> Value:
    return b.op("special", "i32", attr="laneid")


def for_lanes(b: Nv50Emitter, i: Instruction, d: Operand, value: Value) -> Value:
    """A result for some lanes of each group of four; the others keep what they have."""
    named = next((m for m in i.modifiers if m.startswith("(l")), None)
    if named is None:
        return value
    if d.kind is not Kind.REGISTER or d.suffix:
        raise unsupported("a result for some lanes of each group of four goes to a whole register")
    mask = sum(1 << int(lane) for lane in named[2:-1] if lane.isdigit())
    within = b.and_(lane_number(b), b.const(3))
    chosen = b.icmp("ne", b.and_(b.lshr(b.const(mask), within), b.const(1)), b.const(0))
    return b.select(chosen, value, get(b, d.index))
