"""Control flow, barriers and operations across lanes (PTX ISA, sections 9.7.12, 9.7.13 and 9.7.19).

``.sync`` instructions first gather the threads of their member mask, in a separate step; their result is then
restricted to the mask, because other threads may be at the same instruction.
"""

from __future__ import annotations

from warpwright.isa.ops import Access, Value
from warpwright.isa.ptx.meaning import (
    Emitter,
    Place,
    is_signed,
    meaning,
    only,
    only_types,
    type_of,
    unsupported,
)
from warpwright.isa.ptx.syntax import BITS, Immediate, Instruction, Operand, Pair, Symbol

FULL = 0xFFFFFFFF


def gather(b: Emitter, mask: Operand | None) -> None:
    """Wait for the threads of a mask, and end the step."""
    members = b.const(FULL) if mask is None else b.source(mask, "b32")
    b.op("warpsync", "void", members, attr="collective")
    b.step()


def members(b: Emitter, mask: Operand, lanes: Value) -> Value:
    """The mask of the lanes that are in the member mask."""
    if isinstance(mask, Immediate) and mask.bits & FULL == FULL:
        return lanes
    return b.and_(lanes, b.source(mask, "b32"))


# --- control --------------------------------------------------------------------------------------
@meaning("bra")
def bra(i: Instruction, b: Emitter) -> None:
    only(i, "uni")
    target = i.operands[0]
    if not isinstance(target, Symbol):
        raise unsupported("a branch to something that is not a label")
    b.op("branch", "void", attr=Place(target.name))


@meaning("brx")
def brx(i: Instruction, b: Emitter) -> None:
    """``brx.idx index, list``: to the index-th label of a ``.branchtargets`` list."""
    only(i, "idx", "uni")
    index, listed = i.operands
    labels = b.context.targets.get(listed.name) if isinstance(listed, Symbol) else None
    if labels is None:
        raise unsupported("brx.idx without a .branchtargets list")
    n = b.source(index, "u32")
    address = b.op("const", "i64", attr=Place(labels[-1]))
    for position in range(len(labels) - 2, -1, -1):
        here = b.op("const", "i64", attr=Place(labels[position]))
        address = b.select(b.icmp("eq", n, b.const(position)), here, address)
    b.op("branch_indirect", "void", address, attr=tuple(Place(label) for label in labels))


@meaning("exit")
def exit_(i: Instruction, b: Emitter) -> None:
    only(i)
    b.op("exit", "void")


@meaning("trap")
def trap(i: Instruction, b: Emitter) -> None:
    only(i)
    b.op("trap", "void", attr="trap")


@meaning("nanosleep")
def nanosleep(i: Instruction, b: Emitter) -> None:
    only(i)
    b.op("nanosleep", "void", b.source(i.operands[0], "u32"))


# --- barriers -------------------------------------------------------------------------------------
@meaning("bar", "barrier")
def bar(i: Instruction, b: Emitter) -> None:
    only(
        i,
        "sync",
        "arrive",
        "red",
        "warp",
        "popc",
        "and",
        "or",
        "cta",
        "aligned",
        "cluster",
        "wait",
        "acquire",
        "release",
        "relaxed",
    )
    operands = list(i.operands)
    if "warp" in i.modifiers:
        b.op("warpsync", "void", b.source(operands[0], "b32"), attr="collective")
        return
    if "cluster" in i.modifiers:
        how = "cluster_wait" if "wait" in i.modifiers else "cluster_arrive"
        b.op("barrier", "void", b.const(0), b.const(0), attr=how)
        return
    if "red" in i.modifiers:
        d, number, *rest = operands
        vote = b.source(rest[-1], "pred")
        threads = b.source(rest[0], "u32") if len(rest) > 1 else b.const(0)
        how = next(m for m in i.modifiers if m in ("popc", "and", "or"))
        b.op("barrier_red", "i32", b.source(number, "u32"), threads, vote, attr=how)
        b.step()
        result = b.op("special", "i32", attr="barrier_result")
        b.result(d, result if how == "popc" else b.icmp("ne", result, b.const(0)))
        return
    number, *rest = operands
    threads = b.source(rest[0], "u32") if rest else b.const(0)
    b.op("barrier", "void", b.source(number, "u32"), threads, attr="arrive" if "arrive" in i.modifiers else "sync")


# --- votes and exchanges --------------------------------------------------------------------------
@meaning("vote")
def vote(i: Instruction, b: Emitter) -> None:
    only(i, "sync", "all", "any", "uni", "ballot")
    if "sync" in i.modifiers:
        d, p, mask = i.operands
        gather(b, mask)
    else:
        d, p = i.operands
        mask = Immediate(FULL)
    yes = members(b, mask, b.op("ballot", "i32", b.source(p, "pred")))
    if "ballot" in i.modifiers:
        b.result(d, yes)
        return
    whole = b.icmp("eq", yes, members(b, mask, b.op("active", "i32")))
    none = b.icmp("eq", yes, b.const(0))
    answer = whole if "all" in i.modifiers else b.not_(none) if "any" in i.modifiers else b.or_(whole, none)
    b.result(d, answer)


@meaning("match")
def match(i: Instruction, b: Emitter) -> None:
    only(i, "any", "all", "sync")
    type = only_types(i, "b32", "b64")
    d, x, mask = i.operands
    gather(b, mask)
    value = b.source(x, type)
    if "any" in i.modifiers:  # its time depends on the number of distinct values
        b.op("touch", "void", value, attr=Access("value", 8 if type == "b64" else 4))
    if type == "b64":
        low, high = b.high_low(value)
        same = b.and_(b.op("match_any", "i32", low), b.op("match_any", "i32", high))
    else:
        same = b.op("match_any", "i32", value)
    same = members(b, mask, same)
    if "all" in i.modifiers:
        whole = b.icmp("eq", same, members(b, mask, b.op("active", "i32")))
        same = b.select(whole, same, b.const(0))
        if isinstance(d, Pair):
            b.result(d.second, whole)
            d = d.first
    b.result(d, same)


@meaning("activemask")
def activemask(i: Instruction, b: Emitter) -> None:
    only(i)
    b.result(i.operands[0], b.op("active", "i32"))


@meaning("elect")
def elect(i: Instruction, b: Emitter) -> None:
    """Elects the lowest thread of the mask."""
    only(i, "sync")
    d, mask = i.operands
    gather(b, mask)
    lane = b.op("special", "i32", attr="laneid")
    lanes = members(b, mask, b.op("active", "i32"))
    lowest = b.op("clz", "i32", b.op("bitreverse", "i32", lanes))
    if isinstance(d, Pair):
        b.result(d.first, lowest)
        d = d.second
    b.result(d, b.icmp("eq", lane, lowest))


@meaning("redux")
def redux(i: Instruction, b: Emitter) -> None:
    """Active threads outside the mask would be counted, so they contribute the neutral element."""
    only(i, "sync", "add", "min", "max", "and", "or", "xor")
    type = only_types(i, "u32", "s32", "b32")
    d, x, mask = i.operands
    gather(b, mask)
    name = next(m for m in i.modifiers if m in ("add", "min", "max", "and", "or", "xor"))
    operation = ("s" if is_signed(type) else "u") + name if name in ("min", "max") else name
    value = b.source(x, type)
    if not (isinstance(mask, Immediate) and mask.bits & FULL == FULL):
        neutral = {"umin": FULL, "and": FULL, "smin": 0x7FFFFFFF, "smax": 0x80000000}.get(operation, 0)
        lane = b.op("special", "i32", attr="laneid")
        inside = b.icmp("ne", b.and_(b.lshr(b.source(mask, "b32"), lane), b.const(1)), b.const(0))
        value = b.select(inside, value, b.const(neutral))
    b.result(d, b.op("redux", "i32", value, attr=operation))


SHUFFLES = ("up", "down", "bfly", "idx")


@meaning("shfl")
def shfl(i: Instruction, b: Emitter) -> None:
    """The second-to-last operand holds the clamp in bits 4..0 and the segment mask in bits 12..8."""
    only(i, "sync", *SHUFFLES)
    if BITS[type_of(i)] != 32:
        raise unsupported("shfl of other than 32 bits")
    d, x, by, bounds, *masks = i.operands
    if "sync" in i.modifiers:
        gather(b, masks[0])
    lane = b.op("special", "i32", attr="laneid")
    word = b.source(bounds, "b32")
    thirty_one = b.const(31)
    segment, clamp = b.and_(b.lshr(word, b.const(8)), thirty_one), b.and_(word, thirty_one)
    distance = b.and_(b.source(by, "b32"), thirty_one)
    outside = b.xor(segment, thirty_one)
    lowest = b.and_(lane, segment)
    bound = b.or_(lowest, b.and_(clamp, outside))
    if "up" in i.modifiers:
        source = b.sub(lane, distance)
        inside = b.icmp("sge", source, bound)
    else:
        if "down" in i.modifiers:
            source = b.add(lane, distance)
        elif "bfly" in i.modifiers:
            source = b.xor(lane, distance)
        else:
            source = b.or_(lowest, b.and_(distance, outside))
        inside = b.icmp("sle", source, bound)
    result = b.op("shuffle", "i32", b.source(x, "b32"), b.select(inside, source, lane))
    if isinstance(d, Pair):
        b.result(d.second, inside)
        d = d.first
    b.result(d, result)
