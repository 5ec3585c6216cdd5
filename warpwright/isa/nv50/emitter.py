"""The builder for NV50 meanings, and common access to registers and addresses."""

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
    """A builder that knows the kernel that contains the instruction."""

    arch: int = 10
    wanted: frozenset[Test] = frozenset()
    """Tests of condition registers that the program reads."""
    parameter_bytes: int = 0
    """Size of the kernel's parameters, which start at byte 16 of shared memory."""
    window: int = 0
    """Upper word of every global address."""
    parameter_base_bytes: int = 0
    """Offset of the parameters in constant bank 0 of the engine."""
    targets: dict[int, int] = field(default_factory=dict)
    """For the address of each ``join``, the address after it."""
    interface: StageInterface | None = None
    """Interface of a graphics program."""


def unsupported(what: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(what)


def get(b: Nv50Emitter, number: int) -> Value:
    return b.op("get_reg", "i32", attr=number)


def address(b: Nv50Emitter, o: Operand) -> Value:
    """The byte address of a memory operand in its space; auto-increments the address register if the operand says
    so."""
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
    """A result for some lanes of each group of four; the other lanes keep their value."""
    named = next((m for m in i.modifiers if m.startswith("(l")), None)
    if named is None:
        return value
    if d.kind is not Kind.REGISTER or d.suffix:
        raise unsupported("a result for some lanes of each group of four goes to a whole register")
    mask = sum(1 << int(lane) for lane in named[2:-1] if lane.isdigit())
    within = b.and_(lane_number(b), b.const(3))
    chosen = b.icmp("ne", b.and_(b.lshr(b.const(mask), within), b.const(1)), b.const(0))
    return b.select(chosen, value, get(b, d.index))
