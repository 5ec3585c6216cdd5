"""Selects instructions for exchanges between lanes of a warp: through shared memory, because the chip has no shuffles
or ballots.

A block that uses them reserves 128 bytes for each warp that an SM can hold, before its own shared memory.  The lanes of
a warp run in lockstep, so that no barrier is needed between a store and the loads that follow; as on every chip without
independent thread scheduling, lanes in different branches do not exchange values.
"""

from __future__ import annotations

from warpwright.isa.nv50.assembler.select_integer import add, compare, invert, logic, population, shift
from warpwright.isa.nv50.assembler.select_memory import read_shared, store_shared
from warpwright.isa.nv50.assembler.selector import Const, Selector, Value, Word, refuse, select
from warpwright.isa.nv50.assembler.virtual_instructions import word
from warpwright.isa.nv50.fields import immediate
from warpwright.isa.ops import Op
from warpwright.isa.program import Kind, Operand

LANES = 32
WARPS_PER_SM = 24
EXCHANGE_BYTES = WARPS_PER_SM * LANES * 4
"""A warp's words are found by its number among the warps of the SM, which ``$physid`` holds."""
EXCHANGES = frozenset(("shfl", "vote", "match", "activemask", "ldmatrix"))
"""PTX instructions that need these words."""
BALLOT_WORDS = LANES // 4


def place_of_warp(s: Selector) -> tuple[Word, Word]:
    """Lane number and address of the warp's words."""
    if s.exchange_base == 0:
        raise refuse("lanes that exchange values in this instruction")
    if s.exchange is None:
        physical = s.result("mov_from_sr", ("mov",), Operand(Kind.SPECIAL, 0, name="physid"))
        warp = logic(s, "and", shift(s, "u32", physical, Const(1)), Const(31 << 7))
        first = s.result("iadd", ("add", "b32"), s.src(warp), s.src_or_imm(Const(s.exchange_base)))
        s.exchange = logic(s, "and", physical, Const(31)), first
    return s.exchange


def word_of_lane(s: Selector, first: Word, lane: Word) -> int:
    """Address of a lane's word."""
    return s.result("iadd", ("add", "b32"), s.src(first), s.src(shift(s, "shl", lane, Const(2))))


@select("shuffle")
def shuffle(s: Selector, op: Op, value: Value, source: Value) -> Value:
    lane, first = place_of_warp(s)
    store_shared(s, word_of_lane(s, first, lane), 0, 4, s.reg(value))
    return read_shared(s, word_of_lane(s, first, s.raw(source)), 0, "b32")


def gathered_bits(s: Selector, vote: Word) -> Word:
    """A word with one bit per active lane, set where ``vote`` is all ones.

    Lane 8 i + k owns bit k of byte i.  Byte i of the k-th word is its vote, so that the OR of the eight words is the
    result.  They are cleared first, for inactive lanes.
    """
    lane, first = place_of_warp(s)
    below = logic(s, "and", lane, Const(7))
    zero = s.reg(Const(0))
    for n in range(BALLOT_WORDS):
        store_shared(s, first, 4 * n, 4, zero)
    place = word_of_lane(s, first, below)
    place = s.result("iadd", ("add", "b32"), word(place), s.src(shift(s, "u32", lane, Const(3))))
    own = s.result("shl", ("shl", "b32"), s.src(Const(1)), s.src(below))
    store_shared(s, place, 0, 1, s.reg(logic(s, "and", own, vote)))
    found: Word = Const(0)
    for n in range(BALLOT_WORDS):
        found = logic(s, "or", found, read_shared(s, first, 4 * n, "b32"))
    return found


@select("ballot")
def ballot(s: Selector, op: Op, vote: Value) -> Value:
    return gathered_bits(s, s.raw(vote))


@select("active")
def active(s: Selector, op: Op) -> Value:
    return gathered_bits(s, Const(0xFFFFFFFF))


@select("barrier_red")
def barrier_red(s: Selector, op: Op, number: Value, count: Value, vote: Value) -> None:
    """The vote of all threads of a block: each warp stores its part in its first word, after all words were cleared,
    and every thread adds them up."""
    asked = s.raw(vote)
    if s.guard is not None or s.raw(count) != Const(0) or not isinstance(s.raw(number), Const):
        raise refuse("barriers for some threads of a block need compute capability 2.0")
    votes = gathered_bits(s, invert(s, asked) if op.attr == "and" else asked)
    part = population(s, votes) if op.attr == "popc" else votes
    _, first = place_of_warp(s)
    words = [Const(s.exchange_base + 4 * LANES * warp) for warp in range(WARPS_PER_SM)]
    wait(s, number)
    for place in words:
        store_shared(s, place, 0, 4, s.reg(Const(0)))
    wait(s, number)
    store_shared(s, first, 0, 4, s.reg(part))
    wait(s, number)
    found: Word = Const(0)
    for place in words:
        part = read_shared(s, place, 0, "b32")
        found = add(s, found, part) if op.attr == "popc" else logic(s, "or", found, part)
    wait(s, number)
    if op.attr == "and":
        found = compare(s, "e", "u32", found, Const(0))
    s.emit("mov", "mov", "b32", word(s.barrier_result), s.src(found))
    s.changed(s.barrier_result)


def wait(s: Selector, number: Value) -> None:
    """Wait for every warp of the block."""
    found = s.raw(number)
    assert isinstance(found, Const)
    s.emit("bar", "bar", "inc", "wait", immediate(found.bits), "all")


@select("match_any")
def match_any(s: Selector, op: Op, value: Value) -> Value:
    """Compare with every lane's word in turn."""
    here = gathered_bits(s, Const(0xFFFFFFFF))
    lane, first = place_of_warp(s)
    mine = s.reg(value)
    store_shared(s, word_of_lane(s, first, lane), 0, 4, mine)
    found: Word = Const(0)
    for n in range(LANES):
        same = compare(s, "e", "u32", read_shared(s, first, 4 * n, "b32"), mine)
        found = logic(s, "or", found, logic(s, "and", same, Const(1 << n)))
    return logic(s, "and", found, here)
