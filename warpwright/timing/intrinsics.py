"""LLVM intrinsics of the cycle model: sixteen ways or slots at once, and a scheduler called by address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from warpwright.native.intrinsics import WORD, Pair, Piece, Word, declared, has_feature, spread

WAYS = 16
"""Ways of a set that ``find_way`` and ``oldest_way`` search."""


def _load_vector(builder: Any, address: Any, lanes: int) -> Any:
    vector = ir.VectorType(WORD, lanes)
    return builder.load(builder.inttoptr(address, vector.as_pointer()), align=8)


def _first_true(builder: Any, flags: Any, lanes: int) -> Any:
    """Number of the first set element, ``lanes`` when there is none."""
    mask = builder.zext(builder.bitcast(flags, ir.IntType(lanes)), WORD)
    return builder.cttz(builder.or_(mask, WORD(1 << lanes)), ir.Constant(ir.IntType(1), 1))


def _extreme(builder: Any, vector: Any, which: str) -> Any:
    """The smallest (``smin``) or largest (``smax``) of 16 words."""
    kind = ir.FunctionType(WORD, [vector.type])
    return builder.call(declared(builder, kind, f"llvm.vector.reduce.{which}.v16i64"), [vector])


def _looked_up(builder: Any, table: Any, places: Any) -> Any:
    """Of 16 int64 at a host address those at sixteen places: moved between registers where the processor can, a gather takes it some twenty cycles."""
    if has_feature("avx512f"):
        eight = ir.VectorType(WORD, 8)
        kind = ir.FunctionType(eight, [eight] * 3)
        move = declared(builder, kind, "llvm.x86.avx512.vpermi2var.q.512")
        low, high = (_load_vector(builder, builder.add(table, WORD(offset)), 8) for offset in (0, 64))
        halves = [builder.call(move, [low, _half(builder, places, which), high]) for which in (0, 1)]
        return builder.shuffle_vector(*halves, _numbers(range(16)))
    lanes = 16
    vector = ir.VectorType(WORD, lanes)
    addresses = builder.add(spread(builder, table, lanes), builder.mul(places, ir.Constant(vector, [8] * lanes)))
    pointers = builder.inttoptr(addresses, ir.VectorType(ir.PointerType(), lanes))
    flags = ir.VectorType(ir.IntType(1), lanes)
    kind = ir.FunctionType(vector, [pointers.type, ir.IntType(32), flags, vector])
    gather = declared(builder, kind, "llvm.masked.gather.v16i64.v16p0")
    everyone = ir.Constant(flags, [1] * lanes)
    return builder.call(gather, [pointers, ir.IntType(32)(8), everyone, ir.Constant(vector, ir.Undefined)])


def _numbers(numbers: Sequence[int]) -> Any:
    """Which elements a shuffle takes."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), list(numbers))


def _half(builder: Any, vector: Any, which: int) -> Any:
    """The first or the second eight of 16 words."""
    return builder.shuffle_vector(
        vector, ir.Constant(vector.type, ir.Undefined), _numbers(range(8 * which, 8 * which + 8))
    )


def _opaque(builder: Any, value: Any) -> Any:
    """A word that is opaque to LLVM, so that a vector of it is made where it is used; one kept across calls would be written to memory and read back."""
    same = ir.InlineAsm(ir.FunctionType(WORD, [WORD]), "", "=r,0", side_effect=True)
    return builder.call(same, [value])


@Piece
def scan_slots(builder: Any, times: Any, ports: Any, free: Any, now: Any) -> Pair:
    """(mask of the slots that can issue now, time at which the next other one can) for sixteen slots.

    A slot can issue at its own time, or when its port is free, whichever is later: ``times`` and ``ports`` are host addresses of 16 int64
    each, ``free`` that of the ports' times.  Uses LLVM's vectors, which it maps to the processor's own width.
    """
    lanes = 16
    opened = _looked_up(builder, free, _load_vector(builder, ports, lanes))
    own = _load_vector(builder, times, lanes)
    at = builder.select(builder.icmp_signed(">", own, opened), own, opened)
    ready = builder.icmp_signed("<=", at, spread(builder, _opaque(builder, now), lanes))
    later = builder.select(ready, spread(builder, _opaque(builder, WORD(1 << 60)), lanes), at)
    mask = builder.zext(builder.bitcast(ready, ir.IntType(lanes)), WORD)
    return mask, _extreme(builder, later, "smin")


@Piece
def find_way(builder: Any, tags: Any, line: Any, shift: Any) -> Word:
    """The first of 16 int64 at a host address that is ``line`` when shifted right; 16 when none is."""
    held = builder.ashr(_load_vector(builder, tags, WAYS), spread(builder, shift, WAYS))
    return _first_true(builder, builder.icmp_signed("==", held, spread(builder, line, WAYS)), WAYS)


@Piece
def dirty_ways(builder: Any, tags: Any, stamps: Any, dirty: Any, kept: Any) -> Word:
    """Mask of those of 16 int64 at ``tags`` that have bits of ``dirty`` and whose counterpart at ``stamps`` is less than ``kept``."""
    bits = builder.and_(_load_vector(builder, tags, WAYS), spread(builder, dirty, WAYS))
    changed = builder.icmp_signed("!=", bits, ir.Constant(bits.type, [0] * WAYS))
    below = builder.icmp_signed("<", _load_vector(builder, stamps, WAYS), spread(builder, kept, WAYS))
    return builder.zext(builder.bitcast(builder.and_(changed, below), ir.IntType(WAYS)), WORD)


@Piece
def oldest_way(builder: Any, stamps: Any) -> Word:
    """The first of the smallest of 16 int64 at a host address."""
    held = _load_vector(builder, stamps, WAYS)
    least = _extreme(builder, held, "smin")
    return _first_true(builder, builder.icmp_signed("==", held, spread(builder, least, WAYS)), WAYS)


@Piece
def oldest(builder: Any, ready: Any, ages: Any) -> Word:
    """The slot of the smallest of 16 int64 at a host address, among those whose bit is set."""
    held = _load_vector(builder, ages, WAYS)
    able = builder.bitcast(builder.trunc(ready, ir.IntType(WAYS)), ir.VectorType(ir.IntType(1), WAYS))
    those = builder.select(able, held, ir.Constant(held.type, [1 << 60] * WAYS))
    least = _extreme(builder, those, "smin")
    return _first_true(builder, builder.icmp_signed("==", those, spread(builder, least, WAYS)), WAYS)


def _call_words(builder: Any, function: Any, *arguments: Any) -> Any:
    """A function of words, called by address; it may interpret some of them as pointers."""
    callee = builder.inttoptr(function, ir.FunctionType(WORD, [WORD] * len(arguments)).as_pointer())
    return builder.call(callee, arguments)


@Piece
def call_scheduler(builder: Any, function: Any, ready: Any, last: Any, ages: Any) -> Word:
    """A warp scheduler (``policies.py``) by address: ``int64 f(int64 ready, int64 last, int64 *ages)``."""
    return _call_words(builder, function, ready, last, ages)


@Piece
def call_replacement(builder: Any, function: Any, used: Any, filled: Any, ways: Any, time: Any) -> Word:
    """A replacement policy (``policies.py``) by address: ``int64 f(int64 *used, int64 *filled, int64 ways, int64 time)``."""
    return _call_words(builder, function, used, filled, ways, time)
