"""tex, tld4, txq, suld, sust and suq through objects (PTX ISA, sections 9.7.9 and 9.7.10), as ptxas implements them.

A 1D texture is sampled as a 2D texture at height 0; a sample without a level requests a level below all others; the
special-function unit divides a cube map's direction by its largest component; a layer is at most 65,535.
"""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.ptx.meaning import Emitter, meaning, only, type_of, types_of, unsupported
from warpwright.isa.ptx.syntax import BITS, Address, Instruction, Operand, Register, Vector
from warpwright.isa.texture_access import (
    CLAMP,
    EXPLICIT,
    FETCH,
    GATHER,
    IGNORE,
    IMPLICIT,
    LOAD,
    QUERY,
    REDUCE,
    REDUCE_FORMATTED,
    REDUCTIONS,
    SAMPLE,
    SLOPES,
    STORE,
    STORE_FORMATTED,
    TRAP,
    TextureAccess,
)

SHAPES = {
    "1d": "1D",
    "2d": "2D",
    "3d": "3D",
    "a1d": "ARRAY_1D",
    "a2d": "ARRAY_2D",
    "cube": "CUBE",
    "acube": "ARRAY_CUBE",
}
"""By geometry."""
MOST_LAYERS = 0xFFFF
OUTSIDE = {"trap": TRAP, "clamp": CLAMP, "zero": IGNORE}
COMBINATIONS = tuple(name.lower() for name in REDUCTIONS)
DIMENSIONS = ("width", "height", "depth")


def _object(b: Emitter, o: Operand) -> tuple[Value, tuple[Operand, ...]]:
    """Handle and coordinates of ``[object, {…}]``."""
    if not isinstance(o, Address) or not isinstance(o.base, Register):
        raise unsupported("a texture or surface that is not named by an object's handle")
    handle = b.trunc(b.source(o.base, "b64"), "i32")
    more = o.more[0] if o.more else Vector(())
    return handle, more.items if isinstance(more, Vector) else (more,)


def _shape(i: Instruction) -> str:
    found = [SHAPES[m] for m in i.modifiers if m in SHAPES]
    if not found:
        raise unsupported(f"the geometry of {i.name}")
    return found[0]


def _items(o: Operand) -> tuple[Operand, ...]:
    return o.items if isinstance(o, Vector) else (o,)


def _layer(b: Emitter, o: Operand) -> Value:
    return b.op("umin", "i32", b.source(o, "u32"), b.const(MOST_LAYERS))


def _offsets(b: Emitter, o: Operand, axes: int, bits: int, step: int) -> Value:
    """Texel offsets, packed as in the instruction."""
    total = b.const(0)
    for n, item in enumerate(_items(o)[:axes]):
        part = b.and_(b.source(item, "s32"), b.const((1 << bits) - 1))
        total = b.or_(total, b.shl(part, b.const(step * n)) if n else part)
    return total


def _direction(b: Emitter, coordinates: list[Value]) -> list[Value]:
    """A cube map's direction, scaled so that its largest component is one."""
    floats = [b.bitcast(x, "f32") for x in coordinates]
    sizes = [b.op("fabs", "f32", x) for x in floats]
    largest = b.op("fmax", "f32", b.op("fmax", "f32", sizes[0], sizes[1], attr="number"), sizes[2], attr="number")
    factor = b.op("mufu", "f32", largest, attr="rcp")
    return [b.bitcast(b.op("fmul", "f32", x, factor, attr="rn"), "i32") for x in floats]


def _write(b: Emitter, i: Instruction, d: Operand, value: Value) -> None:
    words = [b.op("extract", "i32", value, attr=n) for n in range(4)]
    if types_of(i)[0] == "f16x2":
        halves = [b.zext(b.bitcast(b.op("fcvt", "f16", b.bitcast(w, "f32"), attr="rn"), "i16"), "i32") for w in words]
        words = [b.or_(halves[n], b.shl(halves[n + 1], b.const(16))) for n in (0, 2)]
    for item, word in zip(_items(d), words, strict=False):
        b.result(item, word)


@meaning("tex", "tld4")
def tex(i: Instruction, b: Emitter) -> None:
    gather = i.opcode == "tld4"
    only(i, SHAPES, "v4", "v2", *(("r", "g", "b", "a") if gather else ("base", "level", "grad")))
    d, place, *rest = i.operands
    handle, given = _object(b, place)
    shape = _shape(i)
    whole = types_of(i)[-1] == "s32"
    layer = [_layer(b, given[0])] if shape.startswith("ARRAY") else []
    axes = TextureAccess(shape=shape).axes
    coordinates = [b.source(o, "b32") for o in given[len(layer) : len(layer) + axes]]
    if len(coordinates) < axes:
        raise unsupported(f"{i.name} with {len(given)} coordinates")
    request, level, levels = GATHER if gather else FETCH if whole else SAMPLE, IMPLICIT, []
    if "level" in i.modifiers:
        level, levels = EXPLICIT, [b.source(rest.pop(0), "b32")]
    elif "grad" in i.modifiers:
        if axes > 2 or "CUBE" in shape:
            raise unsupported("slopes of a texture with three axes")
        request = SLOPES
        by_x, by_y = (_items(rest.pop(0)) for _ in range(2))
        levels = [b.source(o, "b32") for n in range(axes) for o in (by_x[n], by_y[n])]
    if "CUBE" in shape and not whole:
        coordinates = _direction(b, coordinates)
    if shape == "1D" and not whole:
        shape = "2D"
        coordinates.append(b.const(0))
        levels += [b.const(0)] * 2 if request == SLOPES else []
    offsets = [_offsets(b, rest[0], axes, 6 if gather else 4, 8 if gather else 4)] if rest else []
    access = TextureAccess(
        request=request,
        shape=shape,
        level=level,
        component=next(("rgba".index(m) for m in i.modifiers if m in ("r", "g", "b", "a")), 0) if gather else 0,
        offsets=bool(offsets),
    )
    _write(b, i, d, b.op("texture", "i32x4", handle, *layer, *coordinates, *levels, *offsets, attr=access))


@meaning("txq", "suq")
def txq(i: Instruction, b: Emitter) -> None:
    only(i, DIMENSIONS, "num_mipmap_levels", "array_size", "level")
    d, place, *rest = i.operands
    handle, _ = _object(b, place)
    level = b.source(rest[0], "b32") if rest else b.const(0)
    value = b.op("texture", "i32x4", handle, level, attr=TextureAccess(request=QUERY, shape="1D"))
    names = (*DIMENSIONS, "num_mipmap_levels")
    asked = [n for n, name in enumerate(names) if name in i.modifiers] or [2]
    b.result(d, b.op("extract", "i32", value, attr=asked[0]))


def _surface(b: Emitter, i: Instruction, place: Operand, request: int) -> tuple[TextureAccess, list[Value]]:
    only(i, SHAPES, OUTSIDE, "b", "p", "v2", "v4", "ca", "cg", "cs", "cv", "wb", "wt", *COMBINATIONS)
    handle, given = _object(b, place)
    shape = _shape(i)
    count = 2 if "v2" in i.modifiers else 4 if "v4" in i.modifiers else 1
    size = BITS[type_of(i)] // 8 * count
    outside = next((OUTSIDE[m] for m in i.modifiers if m in OUTSIDE), TRAP)
    access = TextureAccess(request=request, shape=shape, outside=outside, size=size, bytes=size)
    layer = [_layer(b, given[0])] if access.layered else []
    coordinates = [b.source(o, "b32") for o in given[len(layer) : len(layer) + access.axes]]
    return access, [handle, *layer, *coordinates]


@meaning("suld")
def suld(i: Instruction, b: Emitter) -> None:
    if "p" in i.modifiers:
        raise unsupported("formatted surface loads")
    d, place = i.operands
    access, arguments = _surface(b, i, place, LOAD)
    value = b.op("texture", "i32x4", *arguments, attr=access)
    bits = BITS[type_of(i)]
    words = [b.op("extract", "i32", value, attr=n) for n in range(max(access.size // 4, 1))]
    for n, item in enumerate(_items(d)):
        if bits == 64:
            b.result(item, b.op("pack64", "i64", words[2 * n], words[2 * n + 1]))
            continue
        word = words[n * bits // 32]
        shift = n * bits % 32
        b.result(item, b.trunc(b.lshr(word, b.const(shift)) if shift else word, f"i{bits}"))


@meaning("sust")
def sust(i: Instruction, b: Emitter) -> None:
    place, d = i.operands
    formatted = "p" in i.modifiers
    access, arguments = _surface(b, i, place, STORE_FORMATTED if formatted else STORE)
    bits = BITS[type_of(i)]
    words: list[Value] = []
    for n, item in enumerate(_items(d)):
        if bits == 64:
            words += b.high_low(b.source(item, "b64"))
            continue
        value = b.zext(b.source(item, f"b{bits}"), "i32")
        if n * bits % 32:
            words[-1] = b.or_(words[-1], b.shl(value, b.const(n * bits % 32)))
        else:
            words.append(value)
    b.op("texture", "i32x4", *arguments, *words, attr=access)


@meaning("sured")
def sured(i: Instruction, b: Emitter) -> None:
    place, o = i.operands
    access, arguments = _surface(b, i, place, REDUCE_FORMATTED if "p" in i.modifiers else REDUCE)
    access = access._replace(
        reduction=next(COMBINATIONS.index(m) for m in i.modifiers if m in COMBINATIONS),
        signed=type_of(i).startswith("s"),
    )
    words = [b.source(o, "b32")] if access.size == 4 else b.high_low(b.source(o, "b64"))
    b.op("texture", "i32x4", *arguments, *words, attr=access)
