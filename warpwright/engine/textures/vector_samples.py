"""Samples for eight lanes at a time as LLVM vectors: the common cases.

These have one handle, one level, one or two axes, and elements that are 32-bit floats or integers read without conversion. ``lane_textures.py`` handles the
others lane by lane; both give the results of ``sampling.py``, bit for bit. Values that are the same for all lanes are computed once per warp and stored in a
*plan* (:func:`make_plan`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from warpwright.engine.textures.access_words import AT_OFFSETS, AT_SHAPE, SAMPLE, SHAPE_AXES, SHAPE_CUBE, SHAPE_LAYERED
from warpwright.engine.textures.intrinsics import part, read_64, workspace, write_64, write_double
from warpwright.engine.textures.sampling import FRACTION, GUARD, LARGEST, WIDE_BITS
from warpwright.engine.textures.table import BORDER, CLAMP, FLOAT, MIRROR, WRAP
from warpwright.engine.textures.table_fields import (
    ADDRESS,
    AS_INTEGER,
    AXES,
    BORDER_ELEMENT,
    CHANNEL_BYTES,
    CHANNELS,
    KIND,
    LEVEL,
    LEVEL_ADDRESS,
    LEVEL_ROW,
    LEVELS,
    LINEAR,
    NORMALIZED,
)
from warpwright.native.intrinsics import declared, spread

WIDTH = 8
# Words of the plan. BASE: host address of texel (0, 0); TO_DEVICE: device address minus host address; BORDER_WORDS: the border's element, one word per channel.
BASE, TO_DEVICE, ROW_BYTES, ELEMENT_BYTES, COUNT, BORDER_WORDS = (8 * n for n in range(6))
ACROSS = BORDER_WORDS + 32
# Words of the plan for an axis. Doubles: FACTOR, positions per unit of the coordinate; LIMIT, to which larger coordinates are clamped; PERIOD of coordinates
# that wrap, otherwise 0. A position is masked, multiplied by TIMES and shifted right by MORE bits. MODE: the addressing mode of texels outside. FIRST, LAST:
# the positions to which a filter is limited, in 256ths of a texel.
SIZE, FACTOR, LIMIT, PERIOD, MASK, TIMES, MORE, MODE, FIRST, LAST = (8 * n for n in range(10))
AXIS_BYTES = 80
DOWN = ACROSS + AXIS_BYTES
PLAN_WORDS = (DOWN + AXIS_BYTES) // 8
FAR = np.int64(1) << 60
"""A bound far above every position."""

plan_workspace = workspace(PLAN_WORDS)


# --- the plan ----------------------------------------------------------------------------------------
@part
def is_plain_sample(row: int, request: int) -> bool:
    """Whether this module handles a warp's samples of one object."""
    shape = request >> AT_SHAPE & 7
    if request & 15 != SAMPLE or shape >= SHAPE_LAYERED or shape == SHAPE_CUBE or request >> AT_OFFSETS & 1:
        return False
    if SHAPE_AXES[shape] > 2 or SHAPE_AXES[shape] != read_64(row + AXES) or read_64(row + LEVELS) != 1:
        return False
    as_it_is = read_64(row + KIND) == FLOAT or (read_64(row + AS_INTEGER) and not read_64(row + LINEAR))
    return read_64(row + CHANNEL_BYTES) == 4 and as_it_is


@part
def plan_axis(axis: int, size: int, mode: int, normalized: int) -> None:
    """Write the constants of ``positions.along``, ``split`` and ``inside`` for an axis; ``axis`` is the location of its part of the plan."""
    length = np.int64(0)
    while size > 1 << (FRACTION - WIDE_BITS) and (size - 1) >> length:
        length += 1
    more = max(length + WIDE_BITS - FRACTION, 0) if normalized else np.int64(0)
    one = np.int64(1) << (FRACTION + more)
    limit, period, mask = np.inf, 0.0, np.int64(-1)
    if normalized and mode == WRAP:
        period, mask = 1.0, one - 1
    elif normalized and mode == MIRROR:
        period, mask = 2.0, 2 * one - 1
    elif normalized:
        limit = np.float64(np.float32(LARGEST / size / 4))
    elif mode != BORDER:
        mode = np.int64(CLAMP)
    write_64(axis + SIZE, size)
    write_double(axis + FACTOR, np.float64(one))
    write_double(axis + LIMIT, limit)
    write_double(axis + PERIOD, period)
    write_64(axis + MASK, mask)
    write_64(axis + TIMES, size if normalized else np.int64(1))
    write_64(axis + MORE, more)
    write_64(axis + MODE, mode)
    write_64(axis + FIRST, np.int64(0) if mode == CLAMP else -FAR)
    write_64(axis + LAST, (size - 1) << 8 if mode == CLAMP else FAR)


@part
def make_plan(row: int, to_host: int, plan: int) -> None:
    level = row + LEVEL
    write_64(plan + BASE, read_64(level + LEVEL_ADDRESS) + to_host)
    write_64(plan + TO_DEVICE, -to_host)
    write_64(plan + ROW_BYTES, read_64(level + LEVEL_ROW))
    write_64(plan + ELEMENT_BYTES, 4 * read_64(row + CHANNELS))
    write_64(plan + COUNT, read_64(row + CHANNELS))
    for channel in range(4):
        write_64(plan + BORDER_WORDS + 8 * channel, read_64(row + BORDER_ELEMENT + 8 * channel))
    plan_axis(plan + ACROSS, read_64(level), read_64(row + ADDRESS), read_64(row + NORMALIZED))
    if read_64(row + AXES) == 2:
        plan_axis(plan + DOWN, read_64(level + 8), read_64(row + ADDRESS + 8), read_64(row + NORMALIZED))
    else:
        # One axis is treated as two, of which the second has one texel, whatever its coordinate.
        plan_axis(plan + DOWN, np.int64(1), np.int64(CLAMP), np.int64(0))


# --- vectors -----------------------------------------------------------------------------------------
WORD, HALF, DOUBLE, SINGLE, TRUTH = ir.IntType(64), ir.IntType(32), ir.DoubleType(), ir.FloatType(), ir.IntType(1)
POINTER = ir.PointerType()


class Lanes:
    """A number or truth value for each of eight lanes; its operators emit LLVM instructions. Integers are signed and have 64 bits."""

    def __init__(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        self.builder, self.value = builder, value
        self.is_float = value.type.element == DOUBLE

    def of(self, other: Lanes | float) -> ir.Value:
        """The LLVM value of an operand; a number is broadcast to all lanes."""
        if isinstance(other, Lanes):
            return other.value
        kind = self.value.type
        number = float(other) if self.is_float else int(other)
        return ir.Constant(kind, [ir.Constant(kind.element, number)] * WIDTH)

    def _two(self, name: str, other: Lanes | float, of_floats: str = "") -> Lanes:
        write = getattr(self.builder, of_floats if self.is_float else name)
        return Lanes(self.builder, write(self.value, self.of(other)))

    def _compared(self, sign: str, other: Lanes | float) -> Lanes:
        compare = self.builder.fcmp_ordered if self.is_float else self.builder.icmp_signed
        return Lanes(self.builder, compare(sign, self.value, self.of(other)))

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._two("add", other, "fadd")

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._two("sub", other, "fsub")

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._two("mul", other, "fmul")

    def __and__(self, other: Lanes | int) -> Lanes:
        return self._two("and_", other)

    def __or__(self, other: Lanes | int) -> Lanes:
        return self._two("or_", other)

    def __lshift__(self, other: Lanes | int) -> Lanes:
        return self._two("shl", other)

    def __rshift__(self, other: Lanes | int) -> Lanes:
        return self._two("ashr", other)

    def __lt__(self, other: Lanes | float) -> Lanes:
        return self._compared("<", other)

    def __ge__(self, other: Lanes | float) -> Lanes:
        return self._compared(">=", other)

    def equals(self, other: Lanes | float) -> Lanes:
        return self._compared("==", other)

    def __invert__(self) -> Lanes:
        return Lanes(self.builder, self.builder.not_(self.value))

    def where(self, truth: Lanes, other: Lanes | float) -> Lanes:
        """This number where the condition holds, otherwise the other."""
        return Lanes(self.builder, self.builder.select(truth.value, self.value, self.of(other)))

    def least(self, other: Lanes | float) -> Lanes:
        return self.where(self < other, other)

    def most(self, other: Lanes | float) -> Lanes:
        return self.where(self >= other, other)

    def call(self, name: str, *more: ir.Value) -> Lanes:
        """Call the LLVM intrinsic of this name for this type."""
        stem = f"llvm.{name}.v{WIDTH}{'f64' if self.is_float else 'i64'}"
        kind = ir.FunctionType(self.value.type, [self.value.type, *(v.type for v in more)])
        return Lanes(self.builder, self.builder.call(declared(self.builder, kind, stem), [self.value, *more]))

    def magnitude(self) -> Lanes:
        return self.call("fabs") if self.is_float else self.most(self * -1)

    def log2(self) -> Lanes:
        """Logarithm of a positive integer, rounded down."""
        return Lanes(self.builder, self.of(63)) - self.call("ctlz", ir.Constant(TRUTH, 0))


class Writer:
    """Emits the code that samples for eight lanes."""

    def __init__(self, builder: ir.IRBuilder, plan: ir.Value, active: ir.Value) -> None:
        self.builder, self.plan = builder, plan
        bits = builder.trunc(active, ir.IntType(WIDTH))
        self.active = Lanes(builder, builder.bitcast(bits, ir.VectorType(TRUTH, WIDTH)))

    def pointer(self, address: ir.Value, offset: int = 0) -> ir.Value:
        return self.builder.inttoptr(self.builder.add(address, ir.Constant(WORD, offset)), POINTER)

    def spread(self, value: ir.Value) -> Lanes:
        """Broadcast one value to all lanes."""
        return Lanes(self.builder, spread(self.builder, value, WIDTH))

    def planned(self, at: int, kind: ir.Type = WORD) -> Lanes:
        """A field of the plan, broadcast to all lanes."""
        return self.spread(self.builder.load(self.pointer(self.plan, at), typ=kind))

    def singles(self, address: ir.Value) -> Lanes:
        """Eight floats, as doubles."""
        kind = ir.VectorType(SINGLE, WIDTH)
        found = self.builder.load(self.pointer(address), align=4, typ=kind)
        return Lanes(self.builder, self.builder.fpext(found, ir.VectorType(DOUBLE, WIDTH)))

    def store(self, lanes: Lanes, address: ir.Value, offset: int, kind: ir.Type) -> None:
        """Store eight results; lanes that do not execute get 0."""
        value = lanes.where(self.active, 0).value
        if kind != WORD:
            value = self.builder.trunc(value, ir.VectorType(kind, WIDTH))
        self.builder.store(value, self.pointer(address, offset), align=4)

    def gather(self, addresses: Lanes, inside: Lanes, otherwise: Lanes) -> Lanes:
        """The word at each lane's address as an unsigned number; ``otherwise`` in lanes that are masked out."""
        words, truths = ir.VectorType(HALF, WIDTH), ir.VectorType(TRUTH, WIDTH)
        pointers = ir.VectorType(POINTER, WIDTH)
        name = f"llvm.masked.gather.v{WIDTH}i32.v{WIDTH}p0"
        kind = ir.FunctionType(words, [pointers, HALF, truths, words])
        at = self.builder.inttoptr(addresses.value, pointers)
        beside = self.builder.trunc(otherwise.value, words)
        mask = (inside & self.active).value
        found = self.builder.call(declared(self.builder, kind, name), [at, ir.Constant(HALF, 4), mask, beside])
        return Lanes(self.builder, self.builder.zext(found, ir.VectorType(WORD, WIDTH)))

    # --- along an axis ---
    def position(self, axis: int, coordinate: Lanes) -> Lanes:
        """As ``positions.along``."""
        limit, period = self.planned(axis + LIMIT, DOUBLE), self.planned(axis + PERIOD, DOUBLE)
        periodic = period >= 1.0
        step = period.most(1.0)
        finite = coordinate.where(coordinate.magnitude() < np.inf, 0.0)
        # Periods are 1 and 2: their inverses are exact, 1 and 3/2 - 1.
        inverse = step * -0.5 + 1.5
        again = finite - step * (finite * inverse).call("floor")
        number = coordinate.where(coordinate.equals(coordinate), 0.0)
        bounded = number.most(limit * -1.0).least(limit)
        value = again.where(periodic, bounded)
        value = value.where(value.magnitude() >= 2.0**-126, 0.0)
        scaled = value.most(-LARGEST).least(LARGEST) * self.planned(axis + FACTOR, DOUBLE)
        steps = self.builder.fptosi(scaled.call("floor").value, ir.VectorType(WORD, WIDTH))
        masked = Lanes(self.builder, steps) & self.planned(axis + MASK)
        return (masked * self.planned(axis + TIMES)) >> self.planned(axis + MORE)

    def inside(self, axis: int, texel: Lanes) -> Lanes:
        """As ``positions.inside``; positions of modes that wrap or mirror are less than one period outside."""
        size, mode = self.planned(axis + SIZE), self.planned(axis + MODE)
        clipped = texel.most(0).least(size - 1)
        around = (texel + size).where(texel < 0, texel - size)
        back = (texel + size * 2).where(texel < 0, (texel - size * 2).where(texel >= size * 2, texel))
        mirrored = back.where(back < size, size * 2 - back - 1)
        moved = around.where(mode.equals(WRAP), mirrored.where(mode.equals(MIRROR), clipped))
        outside = moved.where(~mode.equals(BORDER), -1)
        return texel.where((texel >= 0) & (texel < size), outside)

    def split(self, axis: int, position: Lanes) -> Lanes:
        """As ``positions.split`` for a filter."""
        fixed = (position + ((1 << (FRACTION - 9)) - (1 << (FRACTION - 1)))) >> (FRACTION - 8)
        return fixed.most(self.planned(axis + FIRST)).least(self.planned(axis + LAST))

    def place(self, x: Lanes, y: Lanes) -> Lanes:
        """Host address of a texel; for one in the border, that of the nearest texel along each axis."""
        row = y.most(0) * self.planned(ROW_BYTES)
        return self.planned(BASE) + row + x.most(0) * self.planned(ELEMENT_BYTES)

    def put_first(self, place: Lanes, first: ir.Value) -> None:
        self.store(place + self.planned(TO_DEVICE), first, 0, WORD)

    def each_channel(self, values: ir.Value, found: Callable[[int], Lanes]) -> None:
        """Store the channels that the format has, and 0 for the others."""
        zero = ir.Constant(ir.VectorType(HALF, WIDTH), [0] * WIDTH)
        count = self.builder.load(self.pointer(self.plan, COUNT), typ=WORD)
        for channel in range(4):
            there = self.builder.icmp_signed("<", ir.Constant(WORD, channel), count)
            with self.builder.if_else(there) as (then, otherwise):
                with then:
                    self.store(found(channel), values, 128 * channel, HALF)
                with otherwise:
                    self.builder.store(zero, self.pointer(values, 128 * channel), align=4)


def float_sum(texels: list[Lanes], weights: list[Lanes], counts: list[Lanes]) -> Lanes:
    """As ``sampling.float_sum`` for one square, given the bits of 32-bit floats, weights in 256ths, and a mask of the texels that take part."""
    nothing = counts[0] & ~counts[0]
    nan, plus, minus, all_negative = nothing, nothing, nothing, ~nothing
    top = texels[0] * 0
    for texel, weight, count in zip(texels, weights, counts, strict=True):
        exponent, mantissa, negative = texel >> 23 & 255, texel & 0x7FFFFF, texel >= 1 << 31
        odd = count & exponent.equals(255)
        nan = nan | (odd & ~mantissa.equals(0))
        plus = plus | (odd & mantissa.equals(0) & ~negative)
        minus = minus | (odd & mantissa.equals(0) & negative)
        all_negative = all_negative & (~count | negative)
        top = top.most(exponent.where(weight >= 1, 0))
    total = texels[0] * 0
    for texel, weight, count in zip(texels, weights, counts, strict=True):
        exponent, mantissa = texel >> 23 & 255, texel & 0x7FFFFF
        whole = ((mantissa | 1 << 23) << GUARD).where(exponent >= 1, 0)
        aligned = (whole >> (top - exponent.most(1)).most(0).least(62)).where(count, 0)
        added = weight * aligned
        total = total + (added * -1).where(texel >= 1 << 31, added)
    result = rounded(total, top - (127 + 23 + GUARD + 8))
    result = (result | 1 << 31).where(result.equals(0) & all_negative, result)
    infinite = (result * 0 + 0x7F800000).where(plus, (result * 0 + 0xFF800000).where(minus, result))
    return (result * 0 + 0x7FFFFFFF).where(nan | (plus & minus), infinite)


def rounded(total: Lanes, scale: Lanes) -> Lanes:
    """As ``sampling.rounded`` for 32-bit floats; ``total`` has fewer bits than a double's significand."""
    size = total.magnitude()
    exponent = (size.most(1).log2() + scale).most(-126)
    drop = exponent - scale - 23
    half = (size * 0 + 1) << (drop - 1).most(0).least(61)
    kept = ((size + half) >> drop.most(0).least(62)).where(drop >= 1, size << (drop * -1).most(0).least(62))
    kept = kept.where(drop < 61, 0)
    carried = kept >= 1 << 24
    kept, exponent = (kept >> 1).where(carried, kept), (exponent + 1).where(carried, exponent)
    field = ((exponent + 127) << 23 | kept & 0x7FFFFF).where(kept >= 1 << 23, kept).least(0x7F800000)
    return ((field | 1 << 31).where(total < 0, field)).where(~size.equals(0), 0)


# --- the samples -------------------------------------------------------------------------------------
def put_filtered(w: Writer, u: Lanes, v: Lanes, values: ir.Value, first: ir.Value) -> None:
    """Store the filtered results at positions given in units of 1/2**21 texel, and the first texels' device addresses."""
    fixed_x, fixed_y = w.split(ACROSS, u), w.split(DOWN, v)
    columns = [w.inside(ACROSS, (fixed_x >> 8) + n) for n in range(2)]
    rows = [w.inside(DOWN, (fixed_y >> 8) + n) for n in range(2)]
    f, g = fixed_x & 255, fixed_y & 255
    left = f * -1 + 256
    above, beside = (left * g + 127) >> 8, (f * g + 128) >> 8
    weights = [left - above, f - beside, above, beside]
    aside, below = f >= 1, g >= 1
    counts = [f >= 0, aside, below, aside & below]
    corners = [(x, y) for y in rows for x in columns]
    places = [w.place(x, y) for x, y in corners]
    inside = [(x >= 0) & (y >= 0) for x, y in corners]
    w.put_first(places[0], first)

    def found(channel: int) -> Lanes:
        border = w.planned(BORDER_WORDS + 8 * channel)
        texels = [w.gather((p & -4) + 4 * channel, i, border) for p, i in zip(places, inside, strict=True)]
        return float_sum(texels, weights, counts)

    w.each_channel(values, found)


def put_nearest(w: Writer, u: Lanes, v: Lanes, values: ir.Value, first: ir.Value) -> None:
    """Store the nearest texels at positions given in units of 1/2**21 texel, and their device addresses."""
    x = w.inside(ACROSS, u >> FRACTION)
    y = w.inside(DOWN, v >> FRACTION)
    place, inside = w.place(x, y), (x >= 0) & (y >= 0)
    w.put_first(place, first)
    w.each_channel(
        values, lambda channel: w.gather((place & -4) + 4 * channel, inside, w.planned(BORDER_WORDS + 8 * channel))
    )


def of_eight(put: Callable[[Writer, Lanes, Lanes, ir.Value, ir.Value], None]) -> Any:
    """Build the function that samples for eight lanes.

    Its arguments: the plan, addresses of the lanes' coordinates along both axes, a mask of the executing lanes (the low eight bits), and the destinations of
    the four words and of the first texel's device address.
    """

    @intrinsic
    def sample(typing_context: Any, plan: Any, across: Any, down: Any, active: Any, values: Any, first: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            plan, across, down, active, values, first = arguments
            w = Writer(builder, plan, active)
            u = w.position(ACROSS, w.singles(across))
            v = w.position(DOWN, w.singles(down))
            put(w, u, v, values, first)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), generate

    return sample


filter_eight, take_eight = of_eight(put_filtered), of_eight(put_nearest)


@part
def sample_warp(row: int, lanes: int, values: int, addresses: int, to_host: int) -> None:
    """Sample for a warp whose words start at ``values``, where the results go as well (``engine/abi.py``, LAUNCH.texture)."""
    plan = plan_workspace()
    make_plan(row, to_host, plan)
    # The results replace the handle and the coordinates, eight lanes at a time.
    down = values + (256 if read_64(row + AXES) == 2 else 128)
    filtered = read_64(row + LINEAR)
    for lane in range(0, 32, WIDTH):
        at = 4 * lane
        if filtered:
            filter_eight(plan, values + 128 + at, down + at, lanes >> lane, values + at, addresses + 8 * lane)
        else:
            take_eight(plan, values + 128 + at, down + at, lanes >> lane, values + at, addresses + 8 * lane)
