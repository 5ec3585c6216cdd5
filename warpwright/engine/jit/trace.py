"""Writes trace records (``engine/abi.py``) for the timing model.

The number of words that a basic block writes is known at compile time, so the position of the next record is a constant
offset from the block's start.  The buffer's space is checked at the start of loop iterations, and wherever more than a
few hundred words may have been written since the last check; ``words_ahead`` computes this.

Nearly every word is the sum of one of a few values of the block (its lanes and base addresses), a constant and some
strides.  The words are therefore written at the end of the block, eight at a time: a shuffle of these values, a sum
with a vector of constants, and a product if a stride is only known at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpwright.engine.abi import (
    BULK_WORDS,
    LOCAL_WINDOW,
    SHARED_WINDOW,
    TAG_AFFINE,
    TAG_BLOCK,
    TAG_BULK,
    TAG_GATHER,
    TAG_PATTERN,
    TAG_POLICY,
    TAG_SYNC,
    WARP,
    head_words,
)
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.shapes import SCALAR_KIND, UNSET_KIND, WIDTH
from warpwright.isa.ops import Access
from warpwright.isa.texture_access import TextureAccess

CHUNK = 8
VEC8 = f"<{CHUNK} x i64>"
STEP_LIMIT = 1 << 30
"""Maximum constant distance between addresses that certainly cannot wrap around."""
WORDS_BETWEEN_CHECKS = 512
"""Number of words written without checking for space, except where one block has more."""


class Word(NamedTuple):
    """A word of a record: a value of the block (or none) plus a constant."""

    value: str
    constant: str


def _signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def _put(w: FunctionWriter, word: Word) -> None:
    w.trace_line.append((w.trace_words, word))
    w.trace_words += 1


def _place(w: FunctionWriter, at: int) -> str:
    return w.field(w.trace_at, 8 * at) if at else w.trace_at


class Term(NamedTuple):
    """A word as an earlier value, a constant and some strides: ``value + constant + times * stride``."""

    value: str
    constant: str
    stride: str = ""
    times: int = 0


def _term(w: FunctionWriter, word: Word, known: dict[tuple[str, str], str]) -> Term:
    """A word in terms of the first value with the same root and stride in ``known``."""
    sum_ = w.sums.get(word.value)
    if sum_ is None:
        return Term(*word)
    value = known.setdefault((sum_.root, sum_.stride), word.value)
    first = w.sums[value]
    constant = _signed(int(word.constant) + sum_.step - first.step, 64)
    return Term(value, str(constant), sum_.stride, sum_.times - first.times)


def _values(terms: Sequence[Term]) -> set[str]:
    return {term.value for term in terms} - {""}


Line = tuple[int, list[Term]]
"""Words that are written together, and the position of the first."""


def _lines(w: FunctionWriter, line: list[tuple[int, Word]]) -> tuple[list[Line], list[tuple[int, Word]]]:
    """Words that are written eight at a time, and the others."""
    lines: list[Line] = []
    others = []
    known: dict[tuple[str, str], str] = {}
    while line:
        first, ahead = line[0][0], line[:CHUNK]
        if len(ahead) == CHUNK and ahead[-1][0] == first + CHUNK - 1:
            terms = [_term(w, word, known) for _, word in ahead]
            if len(_values(terms)) < CHUNK:
                lines.append((first, terms))
                line = line[CHUNK:]
                continue
        others.append(line[0])
        line = line[1:]
    return lines, others


def _hold(w: FunctionWriter, lines: Sequence[Line]) -> tuple[str, list[str]]:
    """A vector of the values for as many lines as fit, and these values; its last element stays zero."""
    values: list[str] = []
    for _, terms in lines:
        new = sorted(_values(terms) - set(values))
        if len(values) + len(new) >= CHUNK:
            break
        values += new
    places = CHUNK if len(values) >= CHUNK // 2 else CHUNK // 2
    held = "zeroinitializer"
    for n, value in enumerate(values):
        held = w.op(f"insertelement <{places} x i64> {held}, i64 {value}, i64 {n}")
    return held, values + [""] * (places - len(values))


def _write_words(w: FunctionWriter) -> None:
    """Write the block's pending words."""
    line, w.trace_line = w.trace_line, []
    lines, others = _lines(w, line)
    for at, word in others:
        value = word.value or "0"
        if word.constant != "0":
            value = w.op(f"add i64 {value}, {word.constant}")
        w.emit(f"store i64 {value}, ptr {_place(w, at)}, align 8")
    if not lines:
        return
    rows: dict[tuple[str, ...], int] = {}
    """Vectors of constants, all in one table: one address that is opaque to LLVM serves them all."""
    for _, terms in lines:
        for row in ([term.constant for term in terms], *_strides(terms).values()):
            rows.setdefault(tuple(row), len(rows))
    constants = [c for row in rows for c in row]
    table = w.table(("words", *constants), "i64", ", ".join(f"i64 {c}" for c in constants), len(constants))
    start = w.op(f'call ptr asm "", "=r,0"(ptr {table})')

    def constant(row: Sequence[str]) -> str:
        return w.op(f"load {VEC8}, ptr {w.field(start, 8 * CHUNK * rows[tuple(row)])}, align 64")

    held, values = "", [""]
    for n, (first, terms) in enumerate(lines):
        if not _values(terms) <= set(values):
            held, values = _hold(w, lines[n:])
        words = constant([term.constant for term in terms])
        if _values(terms):
            places = ", ".join(f"i32 {values.index(term.value)}" for term in terms)
            kind = f"<{len(values)} x i64>"
            spread = w.op(f"shufflevector {kind} {held}, {kind} poison, <{CHUNK} x i32> <{places}>")
            words = w.op(f"add {VEC8} {spread}, {words}")
        for stride, times in _strides(terms).items():
            many = w.op(f"mul {VEC8} {_eight(w, stride)}, {constant(times)}")
            words = w.op(f"add {VEC8} {words}, {many}")
        w.emit(f"store {VEC8} {words}, ptr {_place(w, first)}, align 8")


def _strides(terms: Sequence[Term]) -> dict[str, list[str]]:
    """Number of each stride in the words of a line."""
    strides = sorted({term.stride for term in terms if term.times})
    return {s: [str(term.times if term.stride == s else 0) for term in terms] for s in strides}


def _eight(w: FunctionWriter, value: str) -> str:
    one = w.op(f"insertelement {VEC8} poison, i64 {value}, i64 0")
    return w.op(f"shufflevector {VEC8} {one}, {VEC8} poison, <{CHUNK} x i32> zeroinitializer")


def _head(w: FunctionWriter, lanes: str, bits: int) -> Word:
    """A record's first word: lanes in the lower bits, other fields above."""
    if lanes.lstrip("-").isdigit():
        return Word("", str(_signed((int(lanes) & (1 << w.lanes) - 1) + bits, 64)))
    if (lanes, 0) not in w.trace_heads:
        w.trace_heads[lanes, 0] = w.wide_mask(lanes)
    return Word(w.trace_heads[lanes, 0], str(_signed(bits, 64)))


def _put_head(w: FunctionWriter, lanes: str, bits: int) -> None:
    """A record's head: its tag and the lanes, which have a separate word if there are more than 32."""
    if head_words(w.lanes) == 1:
        _put(w, _head(w, lanes, bits))
        return
    _put(w, Word("", str(_signed(bits, 64))))
    _put(w, _head(w, lanes, 0))


def record_block(w: FunctionWriter, number: int, lanes: str) -> None:
    """A block record: its number and the lanes that enter it."""
    if not w.trace:
        return
    w.trace_at = w.op("load ptr, ptr %trace_at")
    w.trace_words = 0
    w.trace_heads = {}
    repeats = w.repeats
    if repeats is None:
        _put_head(w, lanes, (TAG_BLOCK << 60) | number << 32)
    elif repeats.numbers[number] >= 0:
        true_number = repeats.numbers[number]
        if not repeats.blocks_per_copy[number]:
            _put_head(w, lanes, (TAG_BLOCK << 60) | true_number << 32)
            return
        copy = w.op("load i64, ptr %copy")
        more = w.op(f"mul i64 {copy}, {repeats.blocks_per_copy[number] << 32}")
        head = w.op(f"add i64 {w.wide_mask(lanes)}, {more}")
        _put(w, Word(head, str(_signed((TAG_BLOCK << 60) | true_number << 32, 64))))


def finish_block(w: FunctionWriter) -> None:
    """Set the position of the next block's records."""
    if w.trace:
        _write_words(w)
        w.emit(f"store ptr {w.field(w.trace_at, 8 * w.trace_words)}, ptr %trace_at")


def _first_address(w: FunctionWriter, address: Val, first: int, window: int) -> Word:
    """Lane 0's address: ``first`` bytes from the scalar part."""
    if address.shape.const is not None:
        width = WIDTH[address.type]
        return Word("", str(_signed((address.shape.const + first & (1 << width) - 1) + window, 64)))
    base = w.scalar(address)
    root, step = w.offsets_of.get(base, (base, 0))
    if address.type == "i32" and address.shape.bound >= 0 and first >= 0 and abs(step) < STEP_LIMIT:
        # With a known bound, no sum wraps around, so that one address of the block serves all that differ by constants.
        key = (root, window)
        if key not in w.trace_heads:
            w.trace_heads[key] = w.op(f"sext i32 {root} to i64")
        return Word(w.trace_heads[key], str(window + step + first))
    if address.type != "i32":
        return Word(base, str(first))
    if first:
        base = w.op(f"add i32 {base}, {first}")
    return Word(w.op(f"zext i32 {base} to i64"), str(window))


def record_access(w: FunctionWriter, address: Val, access: Access | TextureAccess, lanes: str = "") -> None:
    """A memory record: affine where one stride describes all lanes, a pattern where the compiler knows their distances.

    ``lanes`` are those that perform an access, by default all active ones.
    """
    if not (w.trace and w.recording):
        return
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(access.space, 0)
    shape = address.shape
    if shape.kind not in (SCALAR_KIND, UNSET_KIND):
        _put_head(w, lanes or w.exec.bits, TAG_GATHER << 60)
        vector = w.vector(address)
        if address.type == "i32":
            vector = w.op(f"zext {w.vec32} {vector} to {w.vec64}")
            if window:
                vector = w.op(f"add {w.vec64} {vector}, {w.literal_vector('i64', (window,) * w.lanes)}")
        w.emit(f"store {w.vec64} {vector}, ptr {_place(w, w.trace_words)}, align 8")
        w.trace_words += w.lanes
        return
    pattern = shape.pattern or (0,) * w.lanes
    width = WIDTH[address.type]
    offsets = [_signed(p - pattern[0], width) for p in pattern]
    step = offsets[1]
    affine = -(1 << 23) <= step < 1 << 23 and offsets == [step * n for n in range(w.lanes)]
    tag = TAG_AFFINE << 60 | (step & 0xFFFFFF) << 32 if affine else TAG_PATTERN << 60
    _put_head(w, lanes or w.exec.bits, tag)
    _put(w, _first_address(w, address, pattern[0], window))
    if not affine:
        table = w.table(("distances", tuple(offsets)), "i64", offsets, w.lanes)
        _put(w, Word("", f"ptrtoint (ptr {table} to i64)"))


def record_policy(w: FunctionWriter, policy: Val) -> None:
    """The access policy of the access whose record follows; not for the checks, which do not use it."""
    if not w.trace or w.setting.watched:
        return
    if policy.shape.const is not None:
        _put(w, Word("", str(TAG_POLICY << 60 | policy.shape.const & 0xFFFFFFFF)))
        return
    if policy.shape.kind in (SCALAR_KIND, UNSET_KIND):
        word = w.scalar(policy)
    else:  # if lanes may differ in a uniform register: the first active lane's value
        first = w.op(f"and {w.mask_type} {w.lowest_lane(w.exec.bits)}, {w.lanes - 1}")
        word = w.op(f"extractelement {w.vec32} {w.vector(policy)}, {w.mask_type} {first}")
    _put(w, Word(w.op(f"zext i32 {word} to i64"), str(TAG_POLICY << 60)))


def mark(w: FunctionWriter, record: int, bit: str) -> None:
    """Set a bit in a record's first word, given by its position in ``trace_line``, if a condition holds at run time."""
    at, head = w.trace_line[record]
    w.trace_line[record] = (at, Word(w.op(f"or i64 {head.value or '0'}, {bit}"), head.constant))


def record_bulk(w: FunctionWriter, lanes: str, direction: int) -> str:
    """The record of a bulk copy, which its execution fills in after the first word; returns its address, or null."""
    if not (w.trace and w.recording):
        return "null"
    place = w.field(w.trace_at, 8 * w.trace_words) if w.trace_words else w.trace_at
    _put_head(w, lanes, TAG_BULK << 60 | direction << 32)
    w.trace_words += BULK_WORDS - 1
    return place


def record_sync(w: FunctionWriter, number: int, lanes: str, absent: str) -> None:
    """For the checks: lanes that execute a warp-wide operation of a block, and those of its mask that do not."""
    if not (w.trace and w.setting.watched):
        return
    _put_head(w, lanes, TAG_SYNC << 60 | number << 32)
    _put(w, Word(w.wide_mask(absent), "0"))


def record_sync_alone(w: FunctionWriter, number: int, lanes: str, absent: str) -> None:
    """As :func:`record_sync`, outside the code of a block."""
    if not (w.trace and w.setting.watched):
        return
    words = w.trace_words
    w.trace_at = w.op("load ptr, ptr %trace_at")
    w.trace_words, w.trace_heads = 0, {}
    record_sync(w, number, lanes, absent)
    finish_block(w)
    w.trace_words += words


def note_outside(w: FunctionWriter, lanes: str, wanted: Val, address: int) -> None:
    """Report to the checks lanes that reach a WARPSYNC whose mask, an operand of each lane, lacks them."""
    if wanted.shape.const == (1 << w.lanes) - 1 or not w.setting.watched:
        return
    own = w.literal_vector(w.mask_type, tuple(1 << lane for lane in range(w.lanes)))
    named = w.op(f"and {w.vecmask} {w.vector(wanted)}, {own}")
    lacking = w.bits_of(w.op(f"icmp eq {w.vecmask} {named}, zeroinitializer"))
    outside = w.wide_mask(w.op(f"and {w.mask_type} {lacking}, {lanes}"))
    before = w.load_field("%warp", WARP["outside_lanes"])
    w.store_field("%warp", WARP["outside_lanes"], w.op(f"or i64 {before}, {outside}"))
    place = w.load_field("%warp", WARP["outside_instruction"])
    here = w.op(f"icmp ne i64 {outside}, 0")
    w.store_field("%warp", WARP["outside_instruction"], w.op(f"select i1 {here}, i64 {address}, i64 {place}"))


def words_ahead(words: int, before: Sequence[int], forced: bool) -> tuple[bool, int]:
    """(whether a block must check for space, words that may have been written since the last check when it ends).

    Args:
        words: number of words that the block itself writes.
        before: the same result for the blocks that may run right before it; ``forced``: whether one branches back
            to it.
    """
    most = max(before, default=0)
    if forced or most + words > WORDS_BETWEEN_CHECKS:
        return True, words
    return False, most + words
