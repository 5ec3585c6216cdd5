"""Moves, selections, special registers, and transfers between register files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from warpwright.isa.ops import Value
from warpwright.isa.program import RZ, Instruction, Kind, Operand
from warpwright.isa.sass.meaning import (
    REGISTERS,
    Emitter,
    is_predicate,
    meaning,
    only,
    predicate,
    raw32,
    set32,
    set64,
    set_predicate,
    src32,
    unsupported,
)

SPECIAL_NAMES = {
    "SR_LANEID": "laneid",
    "SR_VIRTUALSMID": "smid",
    "SR_SMID": "smid",
    "SR_CLOCKLO": "clock_lo",
    "SR_CLOCKHI": "clock_hi",
    "SR_GLOBALTIMERLO": "globaltimer_lo",
    "SR_GLOBALTIMERHI": "globaltimer_hi",
    "SR_EQMASK": "lanemask_eq",
    "SR_LTMASK": "lanemask_lt",
    "SR_LEMASK": "lanemask_le",
    "SR_GTMASK": "lanemask_gt",
    "SR_GEMASK": "lanemask_ge",
    "SR_SWINHI": "shared_window_hi",
    "SR_SWINLO": "shared_window_lo",
    "SR_LWINHI": "local_window_hi",
    "SR_LWINLO": "local_window_lo",
    "SR_SMEMSZ": "total_smem_size",
    "SR_NTID": "ntid.x",
    "SR_CgaCtaId": "cluster_ctaid",
    "SR_CgaSize": "cluster_nctaid",
}
"""Special registers by printed name; ``SR_TID.X`` and related names follow a pattern."""

PACKED = {"SR_VIRTID": (("warpid", 8), ("smid", 20)), "SR_VIRTCFG": (("nwarpid", 8), ("nsmid", 20))}
"""Special registers with several fields: the fields that compiled code extracts, and their lowest bits (nvJitLink 12.9
for sm_60 and sm_90)."""


def special(b: Emitter, o: Operand) -> Value:
    """The value of a special register."""
    name = o.name
    if name in ("SRZ", "SR_LMEMHIOFF"):
        # LMEMHIOFF: the offset in local memory down to which the stack may grow; debug code reads it on entry.
        return b.const(0)
    if name in SPECIAL_NAMES:
        return b.op("special", "i32", attr=SPECIAL_NAMES[name])
    if name in PACKED:
        parts = [b.shl(b.op("special", "i32", attr=part), b.const(at)) for part, at in PACKED[name]]
        return reduce(b.or_, parts)
    stem, _, axis = name.removeprefix("SR_").lower().partition(".")
    if stem in ("tid", "ctaid", "ntid", "nctaid") and axis in ("x", "y", "z"):
        return b.op("special", "i32", attr=f"{stem}.{axis}")
    raise unsupported(f"special register {name}")


@meaning("S2R", "S2UR")
def S2R(i: Instruction, b: Emitter) -> None:
    only(i)
    set32(b, i.operands[0], special(b, i.operands[1]))


@meaning("CS2R")
def CS2R(i: Instruction, b: Emitter) -> None:
    only(i, "32")
    d, source = i.operands
    if "32" in i.modifiers:
        set32(b, d, special(b, source))
    elif source.name == "SRZ":
        set64(b, d, b.const(0, "i64"))
    elif source.name == "SR_CLOCKLO":
        set64(b, d, b.op("special64", "i64", attr="clock"))
    elif source.name == "SR_GLOBALTIMERLO":
        set64(b, d, b.op("special64", "i64", attr="globaltimer"))
    else:
        raise unsupported(f"64-bit read of special register {source.name}")


@meaning("MOV", "UMOV")
def MOV(i: Instruction, b: Emitter) -> None:
    only(i, "64")
    set32(b, i.operands[0], src32(b, i.operands[1]))


@meaning("SEL", "USEL")
def SEL(i: Instruction, b: Emitter) -> None:
    only(i)
    d, x, y, p = i.operands
    set32(b, d, b.select(predicate(b, p), src32(b, x), src32(b, y)))


@meaning("R2UR")
def R2UR(i: Instruction, b: Emitter) -> None:
    """Returns the lowest lane's value; the predicate is true in lanes whose own value differs.

    The predicate's meaning was inferred from its use: the compiler guards a BRA.DIV with its complement, so that
    threads with different masks take the slow path of a warp reduction.  With OR, the predicate stays true where it
    was: a loop over the warp's distinct 64-bit values tests the second word this way.
    """
    only(i, "OR")
    d, x = (o for o in i.operands if o.kind in REGISTERS)
    value = src32(b, x)
    first = b.op("first_lane", "i32", value)
    for o in i.operands:
        if is_predicate(o):
            differs = b.icmp("ne", value, first)
            set_predicate(b, o, b.or_(predicate(b, o), differs) if "OR" in i.modifiers else differs)
    set32(b, d, first)


@meaning("P2R", "UP2UR")
def P2R(i: Instruction, b: Emitter) -> None:
    """Move predicates 0 to 6 (masked) to the low bits of a register, or to its named byte."""
    only(i, *_BYTES)
    d, _pr, x, mask = i.operands
    byte = _byte((*i.modifiers, *d.suffix.split(".")))
    chosen = mask.value & 0x7F
    total = b.const(0)
    for n in range(7):
        if chosen >> n & 1:
            source = "get_upred" if i.opcode == "UP2UR" else "get_pred"
            bit = b.select(b.op(source, "i1", attr=n), b.const(1 << n + 8 * byte), b.const(0))
            total = b.or_(total, bit)
    rest = b.and_(src32(b, x), b.const(~(chosen << 8 * byte)))
    set32(b, d, b.or_(rest, total))


_BYTES = ("B1", "B2", "B3")


def _byte(names: Iterable[str]) -> int:
    return next((int(name[1]) for name in names if name in _BYTES), 0)


@meaning("R2P", "UR2UP")
def R2P(i: Instruction, b: Emitter) -> None:
    """Move the low bits of a register, or of its named byte, to predicates 0 to 6 (masked)."""
    only(i)
    x = i.operands[1]
    chosen = i.operands[2].value if len(i.operands) > 2 else 0x7F
    bits = raw32(b, x)
    byte = _byte(x.suffix.split("."))
    values = []
    for n in range(7):
        if chosen >> n & 1:
            values.append((n, b.icmp("ne", b.and_(bits, b.const(1 << n + 8 * byte)), b.const(0))))
    for n, value in values:
        b.op("set_upred" if i.opcode == "UR2UP" else "set_pred", "void", value, attr=n)


@meaning("B2R")
def B2R(i: Instruction, b: Emitter) -> None:
    """The result of the last reducing barrier: a count, and whether it is not zero."""
    only(i, "RESULT")
    if "RESULT" not in i.modifiers:
        raise unsupported("B2R of a barrier's state")
    result = b.op("special", "i32", attr="barrier_result")
    for o in i.operands:
        if is_predicate(o):
            set_predicate(b, o, b.icmp("ne", result, b.const(0)))
        elif o.kind is Kind.REGISTER and o.index != RZ:
            set32(b, o, result)


@meaning("LEPC")
def LEPC(i: Instruction, b: Emitter) -> None:
    """The address of this instruction, or of the given label."""
    only(i)
    target = b.code_base + (i.operands[1].value if len(i.operands) > 1 else i.address)
    set64(b, i.operands[0], b.const(target, "i64"))
