"""Elements of buffers and images: conversion between words in memory and components in registers.

Resources and random access targets number their formats alike.
"""

from __future__ import annotations

import struct

from warpwright.isa.ops import Access, Value
from warpwright.isa.r600.meaning import R600Emitter
from warpwright.isa.sass.meaning import UnsupportedInstruction

FRACTION, INTEGER, NUMBER = range(3)
"""Number formats: a fraction of the largest value, an integer, a number."""
FORMATS: dict[int, tuple[int, int, bool]] = {
    # bits per component, number of components, whether they are floats
    **{0x01: (8, 1, False), 0x07: (8, 2, False), 0x1A: (8, 4, False)},
    **{0x05: (16, 1, False), 0x0F: (16, 2, False), 0x1F: (16, 4, False)},
    **{0x06: (16, 1, True), 0x10: (16, 2, True), 0x20: (16, 4, True)},
    **{0x0D: (32, 1, False), 0x1D: (32, 2, False), 0x2F: (32, 3, False), 0x22: (32, 4, False)},
    **{0x0E: (32, 1, True), 0x1E: (32, 2, True), 0x30: (32, 3, True), 0x23: (32, 4, True)},
}
PACKED: dict[int, tuple[tuple[int, ...], bool]] = {
    # bits of each component, from the lowest, whether they are floats
    **{
        0x15: ((11, 11, 10), False),
        0x16: ((11, 11, 10), True),
        0x17: ((10, 11, 11), False),
        0x18: ((10, 11, 11), True),
    },
    **{0x19: ((10, 10, 10, 2), False), 0x1B: ((2, 10, 10, 10), False)},
}
"""Formats of one word whose components differ in size: 10_11_11, 11_11_10, 2_10_10_10 and 10_10_10_2, of which the names begin with the highest bits."""
SMALL_FLOAT_EXPONENT = 5
"""Bits of the exponent of a float of 10 or 11 bits, as of a half; it has no sign."""
ZERO, ONE = 4, 5
"""Selects that mean a constant."""


def element_bytes(number: int) -> int:
    """Size of an element of a format, in bytes."""
    if number in PACKED:
        return 4
    bits, components, _ = FORMATS[number]
    return bits * components // 8


def is_known(number: int) -> bool:
    """Whether a format has a meaning here."""
    return number in FORMATS or number in PACKED


def checked(number: int, what: str) -> int:
    """A format's number.

    Raises:
        UnsupportedInstruction: the format has no meaning here.
    """
    if not is_known(number):
        raise UnsupportedInstruction(f"{what} of format {number:#x} has no meaning here")
    return number


# --- from memory ------------------------------------------------------------------------------------------------
def load_element(b: R600Emitter, at: Value, inside: Value | None, size: int) -> list[Value]:
    """The words of an element, zero where it is outside. An element smaller than a word occupies its lower bits."""
    guard = () if inside is None else (inside,)
    if size == 12:
        places = [b.add(at, b.const(4 * n, "i64")) for n in range(3)]
        return [b.op("load", "i32", place, *guard, attr=Access("global", 4)) for place in places]
    if size < 4:
        return [b.zext(b.op("load", f"i{8 * size}", at, *guard, attr=Access("global", size)), "i32")]
    if size == 4:
        return [b.op("load", "i32", at, *guard, attr=Access("global", 4))]
    loaded = b.op("load", f"i32x{size // 4}", at, *guard, attr=Access("global", size))
    return [b.op("extract", "i32", loaded, attr=n) for n in range(size // 4)]


def from_memory(b: R600Emitter, words: list[Value], number: int, kind: int, signed: bool) -> list[Value]:
    """The components of an element, in register form."""
    if number in PACKED:
        return _unpacked(b, words[0], number, kind, signed)
    bits, components, is_float = FORMATS[number]
    if bits < 32:
        each = 32 // bits
        mask = b.number((1 << bits) - 1)
        words = [b.and_(b.lshr(words[n // each], b.number(bits * (n % each))), mask) for n in range(components)]
    return [_converted(b, x, bits, is_float, kind, signed) for x in words[:components]]


def _converted(b: R600Emitter, x: Value, bits: int, is_float: bool, kind: int, signed: bool) -> Value:
    """A component in register form: an integer, or a float of its number or fraction."""
    if is_float:
        if bits == 32:
            return x
        return b.bitcast(b.op("fcvt", "f32", b.bitcast(b.trunc(x, "i16"), "f16"), attr="rn"), "i32")
    if signed and bits < 32:
        x = b.ashr(b.shl(x, b.number(32 - bits)), b.number(32 - bits))
    if kind == INTEGER or bits == 32:
        # A 32-bit number is already a float.
        return x
    value = b.op("i2f", "f32", x, attr=(signed, "rn"))
    if kind == FRACTION:
        value = b.op("fmul", "f32", value, b.single(_bits(1 / _largest(bits, signed))), attr="rn")
        if signed:
            value = b.op("fmax", "f32", value, b.single(0xBF800000), attr="number")
    return b.bitcast(value, "i32")


def _unpacked(b: R600Emitter, word: Value, number: int, kind: int, signed: bool) -> list[Value]:
    """The components of a word of a packed format."""
    found, at = [], 0
    widths, is_float = PACKED[number]
    for bits in widths:
        x = b.and_(b.lshr(word, b.number(at)), b.number((1 << bits) - 1))
        at += bits
        if is_float:
            half = b.shl(x, b.number(10 + SMALL_FLOAT_EXPONENT - bits))
            found.append(b.bitcast(b.op("fcvt", "f32", b.bitcast(b.trunc(half, "i16"), "f16"), attr="rn"), "i32"))
        else:
            found.append(_converted(b, x, bits, False, kind, signed))
    return found


def _largest(bits: int, signed: bool) -> int:
    return (1 << bits - signed) - 1


def _bits(value: float) -> int:
    (found,) = struct.unpack("<I", struct.pack("<f", value))
    return int(found)


def one_of(b: R600Emitter, kind: int) -> Value:
    """The value of a missing fourth channel."""
    return b.number(1 if kind == INTEGER else 0x3F800000)


def selected(b: R600Emitter, values: list[Value], selects: tuple[int, int, int, int], kind: int) -> list[Value]:
    """The channels that a resource selects from an element's components."""

    def channel(select: int) -> Value:
        if select == ONE:
            return one_of(b, kind)
        return values[select] if select < len(values) else b.number(0)

    return [channel(select) for select in selects]


def all_channels(b: R600Emitter, values: list[Value], kind: int) -> list[Value]:
    """Four channels; those without a component are 0, 0 and 1."""
    return values + [b.number(0)] * (3 - len(values)) + [one_of(b, kind)] * (len(values) < 4)


# --- to memory --------------------------------------------------------------------------------------------------
def to_memory(b: R600Emitter, data: list[Value], number: int, kind: int, signed: bool) -> list[Value]:
    """The words of an element, from components in register form. An element smaller than a word occupies its lower bits."""
    if number in PACKED:
        return [_packed(b, data, number, kind, signed)]
    bits, components, is_float = FORMATS[number]
    if bits == 32:
        return data[:components]
    fields = [_field(b, x, bits, is_float, kind, signed) for x in data[:components]]
    each = 32 // bits
    words = []
    for first in range(0, components, each):
        word = fields[first]
        for n, x in enumerate(fields[first + 1 : first + each], 1):
            word = b.or_(word, b.shl(x, b.number(bits * n)))
        words.append(word)
    return words


def _packed(b: R600Emitter, data: list[Value], number: int, kind: int, signed: bool) -> Value:
    """The word of a packed format; floats are cut to their bits, and those below zero become zero."""
    word, at = b.number(0), 0
    widths, is_float = PACKED[number]
    for x, bits in zip(data, widths, strict=False):
        if is_float:
            value = b.op("fmax", "f32", b.bitcast(x, "f32"), b.single(0), attr="nan")
            half = b.zext(b.bitcast(b.op("fcvt", "f16", value, attr="rz"), "i16"), "i32")
            part = b.and_(b.lshr(half, b.number(10 + SMALL_FLOAT_EXPONENT - bits)), b.number((1 << bits) - 1))
        else:
            part = _field(b, x, bits, False, kind, signed)
        word = b.or_(word, b.shl(part, b.number(at)))
        at += bits
    return word


def _field(b: R600Emitter, x: Value, bits: int, is_float: bool, kind: int, signed: bool) -> Value:
    """The bits of a component: the nearest fraction, the nearest half-precision number, or an integer's lower bits."""
    if is_float:
        return b.zext(b.bitcast(b.op("fcvt", "f16", b.bitcast(x, "f32"), attr="rn"), "i16"), "i32")
    if kind != INTEGER:
        largest = _largest(bits, signed)
        value = b.bitcast(x, "f32")
        if kind == FRACTION:
            value = b.op("fmul", "f32", value, b.single(_bits(float(largest))), attr="rn")
        x = b.op("f2i", "i32", value, attr=(True, "rn"))
        lowest = b.number(-largest if signed else 0)
        x = b.op("smin", "i32", b.op("smax", "i32", x, lowest), b.number(largest))
    return b.and_(x, b.number((1 << bits) - 1))


def store_element(b: R600Emitter, at: Value, words: list[Value], size: int) -> None:
    """Write the words of an element.

    Raises:
        UnsupportedInstruction: the element has three words, which no random access target has.
    """
    if size == 12:
        raise UnsupportedInstruction("a store of three words has no meaning here")
    if size < 4:
        value = b.trunc(words[0], f"i{8 * size}")
    elif size == 4:
        value = words[0]
    else:
        value = b.op(f"pack{size // 4}", f"i32x{size // 4}", *words)
    b.op("store", "void", at, value, attr=Access("global", size))
