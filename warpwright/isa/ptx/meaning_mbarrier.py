"""mbarrier objects (PTX ISA, section 9.7.13.15): arrivals and waits without transaction counts.

The object's 64 bits are opaque to a program.  Here the lower word holds the phase's parity in bit 0 and the expected
arrivals above it, the upper word the pending arrivals.  An arrival subtracts from the pending ones; whoever brings
them to zero adds the expected ones again and flips the parity, so that arrivals of the next phase may already have
been counted.  An arrival's state is the object as it found it.
"""

from __future__ import annotations

from warpwright.isa.ops import Access, Value
from warpwright.isa.ptx.meaning import Emitter, meaning, only, unsupported
from warpwright.isa.ptx.meaning_memory import SCOPES, SPACES, locate, space_of
from warpwright.isa.ptx.syntax import Instruction, Operand

ORDERS = ("acquire", "release", "relaxed")


def change(b: Emitter, space: str, at: Value, operation: str, operand: Value) -> Value:
    """Atomically change the object; what it was."""
    return b.op("atomic", "i64", at, operand, attr=Access(space, 8, space != "shared", operation, "i64"))


def arrive(b: Emitter, space: str, at: Value, count: Value, drop: bool = False, completes: bool = True) -> Value:
    """``count`` arrivals (i64); with ``drop`` no longer expected in later phases."""
    shift, one, zero = b.const(32, "i64"), b.const(1, "i64"), b.const(0, "i64")
    less = b.shl(count, shift)
    if drop:
        less = b.add(less, b.shl(count, one))
    old = change(b, space, at, "add", b.neg(less))
    if not completes:
        return old
    expected = b.lshr(b.and_(old, b.const(0xFFFFFFFF, "i64")), one)
    if drop:
        expected = b.sub(expected, count)
    last = b.icmp("eq", b.lshr(old, shift), count)
    change(b, space, at, "add", b.select(last, b.shl(expected, shift), zero))
    change(b, space, at, "xor", b.zext(last, "i64"))
    return old


@meaning("mbarrier")
def mbarrier(i: Instruction, b: Emitter) -> None:
    action = i.modifiers[0]
    only(i, action, "parity", "noComplete", SPACES, ORDERS, SCOPES)
    operands = list(i.operands)
    if action == "inval":
        return
    if action == "pending_count":
        b.result(operands[0], b.op("extract", "i32", b.source(operands[1], "b64"), attr=1))
        return
    if action == "init":
        space, at = locate(b, operands[0], space_of(i))
        count = b.source(operands[1], "u32")
        value = b.op("pack2", "i32x2", b.shl(count, b.const(1)), count)
        b.op("store", "void", at, value, attr=Access(space, 8))
    elif action in ("arrive", "arrive_drop"):
        d, o, *more = operands
        space, at = locate(b, o, space_of(i))
        count = b.zext(b.source(more[0], "u32"), "i64") if more else b.const(1, "i64")
        b.op("fence", "void", attr="cta")
        b.result(d, arrive(b, space, at, count, action == "arrive_drop", "noComplete" not in i.modifiers))
    elif action in ("test_wait", "try_wait"):
        wait(i, b, operands)
    else:
        raise unsupported(f"mbarrier.{action}")


def wait(i: Instruction, b: Emitter, operands: list[Operand]) -> None:
    """Whether the phase of a state (or of a parity) has ended."""
    d, o, which, *_ = operands
    space, at = locate(b, o, space_of(i))
    now = b.op("extract", "i32", b.op("load", "i32x2", at, attr=Access(space, 8, True)), attr=0)
    if "parity" in i.modifiers:
        then = b.source(which, "u32")
    else:
        then = b.op("extract", "i32", b.source(which, "b64"), attr=0)
    b.result(d, b.icmp("ne", b.and_(b.xor(now, then), b.const(1)), b.const(0)))
