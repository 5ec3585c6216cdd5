"""mbarrier objects (PTX ISA, section 9.7.13.15): arrivals, transaction counts, waits; the object is sm_90's (``isa/mbarrier.py``)."""

from __future__ import annotations

from warpwright.isa import mbarrier as mb
from warpwright.isa.ops import Access
from warpwright.isa.ptx.meaning import Emitter, meaning, only, unsupported
from warpwright.isa.ptx.meaning_memory import SCOPES, SPACES, locate, space_of
from warpwright.isa.ptx.syntax import Instruction, Operand

ORDERS = ("acquire", "release", "relaxed")


@meaning("mbarrier")
def mbarrier(i: Instruction, b: Emitter) -> None:
    action = i.modifiers[0]
    only(i, action, "expect_tx", "parity", "noComplete", SPACES, ORDERS, SCOPES)
    operands = list(i.operands)
    if action == "inval":
        return
    if action == "pending_count":
        state = b.source(operands[1], "b64")
        field = b.and_(b.lshr(state, b.const(mb.PENDING_AT, "i64")), b.const(mb.COUNT_MASK, "i64"))
        left = b.and_(b.sub(b.const(1 << mb.COUNT_BITS, "i64"), field), b.const(mb.COUNT_MASK, "i64"))
        b.result(operands[0], b.trunc(left, "i32"))
    elif action == "init":
        space, at = locate(b, operands[0], space_of(i))
        value = mb.fresh(b, b.zext(b.source(operands[1], "u32"), "i64"))
        words = [b.op("extract", "i32", value, attr=n) for n in range(2)]
        b.op("store", "void", at, b.op("pack2", "i32x2", *words), attr=Access(space, 8))
    elif action in ("arrive", "arrive_drop"):
        arrive(i, b, operands, action == "arrive_drop")
    elif action in ("expect_tx", "complete_tx"):
        space, at = locate(b, operands[0], space_of(i))
        count = b.zext(b.source(operands[1], "u32"), "i64")
        mb.change(b, space, at, None, count if action == "expect_tx" else b.neg(count))
    elif action in ("test_wait", "try_wait"):
        wait(i, b, operands)
    else:
        raise unsupported(f"mbarrier.{action}")


def arrive(i: Instruction, b: Emitter, operands: list[Operand], leaves: bool) -> None:
    """An arrival, optionally with expected bytes; returns the state before it."""
    d, o, *more = operands
    space, at = locate(b, o, space_of(i))
    given = b.zext(b.source(more[0], "u32"), "i64") if more else None
    one = b.const(1, "i64")
    b.op("fence", "void", attr="cta")
    if "expect_tx" in i.modifiers:
        old = mb.change(b, space, at, one, given, leaves)
    else:
        old = mb.change(b, space, at, one if given is None else given, None, leaves)
    b.result(d, old)


def wait(i: Instruction, b: Emitter, operands: list[Operand]) -> None:
    """Whether the phase given by a state or a parity has ended."""
    d, o, which, *_ = operands
    space, at = locate(b, o, space_of(i))
    now = b.op("extract", "i32", b.op("load", "i32x2", at, attr=Access(space, 8, True, "phase")), attr=1)
    if "parity" in i.modifiers:
        then = b.shl(b.source(which, "u32"), b.const(31))
    else:
        then = b.op("extract", "i32", b.source(which, "b64"), attr=1)
    b.result(d, b.icmp("slt", b.xor(now, then), b.const(0)))
