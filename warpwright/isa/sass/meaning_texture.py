"""Textures and surfaces.

The register layout of the arguments was read from NVRTC 12.9's code for kernels that use each form: a list [layer,
coordinates, handle (bindless), level, offsets] in two groups of registers.  With ``.SCR`` each group holds half of the
list (up to four words); otherwise the second group begins after the coordinates.  Slopes take all of the second group,
and the layer then follows the coordinates.  The first two results that the mask selects go to the first destination,
the others to the second.
"""

from __future__ import annotations

from warpwright.isa.ops import Value
from warpwright.isa.program import PT, Instruction, Kind, Operand
from warpwright.isa.sass.meaning import Emitter, meaning, only, raw32, set32, unsupported
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
    ZERO,
    TextureAccess,
)

PLAIN = ("SCR", "B", "EF", "EL", "LU", "EU", "NA", "NODEP", "AOFFI", "LZ", "LL", "LB", "LC", "LB.LC")
SHARES = {1: (1, 0), 2: (1, 1), 3: (2, 1), 4: (2, 2)}
"""Number of words in each of the two groups of .SCR."""
CONSTANT_FORM = (0x5, 0x2)
FULL = 15


def _word(b: Emitter, group: Operand, n: int) -> Value:
    return raw32(b, group) if n == 0 and group.index == 255 else raw32(b, group, n)


def _split(i: Instruction) -> tuple[list[Operand], list[Operand]]:
    """Register operands from the first on, and the operands that follow them."""
    operands = [o for o in i.operands if o.kind is not Kind.PREDICATE]
    if any(o.kind is Kind.PREDICATE and o.index != PT for o in i.operands):
        raise unsupported("the residency that a sparse texture reports in a predicate")
    count = next((n for n, o in enumerate(operands) if o.kind is not Kind.REGISTER), len(operands))
    return operands[:count], operands[count:]


def _handle(b: Emitter, i: Instruction, rest: list[Operand]) -> Value | None:
    """The object's handle; None if it is among the arguments (bindless)."""
    if rest and rest[0].kind is Kind.UNIFORM_REGISTER:
        return raw32(b, rest[0])
    if len(rest) > 1 and rest[0].kind is Kind.IMMEDIATE and rest[1].kind is Kind.IMMEDIATE and _by_constant(i):
        return b.op("load_const", "i32", b.const(4 * rest[1].value), attr=(rest[0].value, 4))
    return None


def _by_constant(i: Instruction) -> bool:
    return i.encoding >> 9 & 7 in CONSTANT_FORM


def _results(b: Emitter, i: Instruction, registers: list[Operand], value: Value, mask: int) -> None:
    """The masked results, two in the first destination (printed second), the others in the second."""
    second, first = registers[:2]
    wanted = [n for n in range(4) if mask >> n & 1]
    words = [b.op("extract", "i32", value, attr=n) for n in wanted]
    if {"F16.RN", "F16.RZ"} & set(i.modifiers):
        rounding = "rn" if "F16.RN" in i.modifiers else "rz"
        halves = [b.bitcast(b.op("fcvt", "f16", b.bitcast(w, "f32"), attr=rounding), "i16") for w in words]
        halves += [b.const(0, "i16")] * (-len(halves) % 2)
        words = []
        for n in range(0, len(halves), 2):
            high = b.op("shl", "i32", b.zext(halves[n + 1], "i32"), b.const(16))
            words.append(b.or_(b.zext(halves[n], "i32"), high))
        places = [(first, 0), (second, 0)]
    else:
        places = [(first, 0), (first, 1), (second, 0), (second, 1)]
    for (group, n), word in zip(places, words, strict=False):
        if group.index != 255:
            set32(b, Operand(Kind.REGISTER, group.index + n), word)


def _arguments(b: Emitter, i: Instruction, registers: list[Operand], count: int, first: int) -> list[Value]:
    """``count`` words from the two groups; without .SCR the first ``first`` of them are in the first group."""
    groups = [*registers[2:], Operand(Kind.REGISTER, 255)]
    share = SHARES[count][0] if "SCR" in i.modifiers else min(first, count)
    return [_word(b, groups[0], n) if n < share else _word(b, groups[1], n - share) for n in range(count)]


def _mask(rest: list[Operand]) -> int:
    return rest[-1].value if rest[-1].kind is Kind.IMMEDIATE else FULL


def _shape(rest: list[Operand]) -> str:
    return next(o.name for o in rest if o.kind is Kind.NAME)


@meaning("TEX", "TLD", "TLD4")
def TEX(i: Instruction, b: Emitter) -> None:
    """A filtered sample, a texel by integer coordinates, or one channel of four texels."""
    gather = i.opcode == "TLD4"
    components = [n for n in ("R", "G", "A") if n in i.modifiers] if gather else []
    only(i, *PLAIN, "F16.RN", "F16.RZ", "CL", *(("R", "G", "A") if gather else ("NDV",)))
    registers, rest = _split(i)
    shape = _shape(rest)
    level = EXPLICIT if "LL" in i.modifiers else ZERO if "LZ" in i.modifiers else IMPLICIT
    if {"LB", "LC", "LB.LC"} & set(i.modifiers) or (i.opcode == "TEX" and level == IMPLICIT):
        raise unsupported("a texture's level from the differences between four threads")
    access = TextureAccess(
        request={"TEX": SAMPLE, "TLD": FETCH, "TLD4": GATHER}[i.opcode],
        shape=shape,
        level=level,
        component="RGBA".index(components[0] if components else "B") if gather else 0,
        offsets="AOFFI" in i.modifiers,
    )
    if gather and not components and i.encoding >> 87 & 3 == 0:
        access = access._replace(component=0)
    handle = _handle(b, i, rest)
    place = access.layered + access.axes
    count = place + (handle is None) + (level == EXPLICIT) + access.offsets
    words = _arguments(b, i, registers, count, place)
    values = [*words[:place], *words[place + (handle is None) :]]
    _results(
        b,
        i,
        registers,
        b.op("texture", "i32x4", words[place] if handle is None else handle, *values, attr=access),
        _mask(rest),
    )


@meaning("TXD")
def TXD(i: Instruction, b: Emitter) -> None:
    """A sample whose level follows from explicit slopes."""
    only(i, *PLAIN[:7], "NODEP", "F16.RN", "F16.RZ")
    registers, rest = _split(i)
    access = TextureAccess(request=SLOPES, shape=_shape(rest))
    handle = _handle(b, i, rest)
    bindless = handle is None
    if handle is None:
        handle = _word(b, registers[2], 0)
    coordinates = [_word(b, registers[2], n + bindless) for n in range(access.axes)]
    layer = [_word(b, registers[2], access.axes + bindless)] if access.layered else []
    slopes = [_word(b, registers[3], n) for n in range(2 * access.axes)]
    _results(b, i, registers, b.op("texture", "i32x4", handle, *layer, *coordinates, *slopes, attr=access), _mask(rest))


@meaning("TXQ")
def TXQ(i: Instruction, b: Emitter) -> None:
    """Width, height, depth (or layers) and levels, as selected by the mask."""
    only(i, "B", "NODEP")
    registers, rest = _split(i)
    if _shape(rest) != "TEX_HEADER_DIMENSION":
        raise unsupported(f"the question {_shape(rest)} to a texture")
    handle = _handle(b, i, rest[1:])
    level = raw32(b, registers[2], 1 if handle is None else 0)
    access = TextureAccess(request=QUERY, shape="1D")
    value = b.op("texture", "i32x4", raw32(b, registers[2]) if handle is None else handle, level, attr=access)
    _results(b, i, registers, value, _mask(rest))


SURFACES = {"1D": "1D", "1D_BUFFER": "1D", "1D_ARRAY": "ARRAY_1D", "2D": "2D", "2D_ARRAY": "ARRAY_2D", "3D": "3D"}
SIZES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
CHANNELS = ("R", "RG")
SIGNED_NUMBERS, WIDE_NUMBERS = ("S32", "S64"), ("U64", "S64", "SD64")
SAMPLES = ("SD32", "SD64")
"""Types of reductions; the last ones follow the surface's format, with x counted in elements."""


def _surface(b: Emitter, i: Instruction, operation: int) -> tuple[TextureAccess, list[Value]]:
    place = next(o for o in i.operands if o.kind is Kind.MEMORY)
    assert place.base is not None
    shape = next(SURFACES[m] for m in i.modifiers if m in SURFACES)
    size = next((SIZES[m] for m in i.modifiers if m in SIZES), 4)
    size = 8 if any(m in WIDE_NUMBERS for m in i.modifiers) else size
    outside = IGNORE if "IGN" in i.modifiers else TRAP if "TRAP" in i.modifiers else CLAMP
    access = TextureAccess(request=operation, shape=shape, outside=outside, size=size, bytes=size)
    registers, rest = (
        [o for o in i.operands if o.kind is Kind.REGISTER],
        list(i.operands[i.operands.index(place) + 1 :]),
    )
    if operation != LOAD:
        rest = rest[1:]
    handle = _handle(b, i, rest)
    coordinates = [raw32(b, place.base, n) for n in range(access.axes + access.layered)]
    if access.layered:
        coordinates = [coordinates[-1], *coordinates[:-1]]
    return access, [raw32(b, registers[-1]) if handle is None else handle, *coordinates]


ORDERS = ("D", "P", "BA", "STRONG", "WEAK", "CONSTANT", "PRIVATE", "CTA", "SM", "GPU", "SYS", "VC", "IGN", "TRAP")


@meaning("SULD")
def SULD(i: Instruction, b: Emitter) -> None:
    only(i, *ORDERS, *SURFACES, *SIZES, *PLAIN)
    if any(o.kind is Kind.PREDICATE and o.index != PT for o in i.operands):
        raise unsupported("the residency that a sparse surface reports in a predicate")
    access, arguments = _surface(b, i, LOAD)
    value = b.op("texture", "i32x4", *arguments, attr=access)
    destination = next(o for o in i.operands if o.kind is Kind.REGISTER)
    for n in range(max(access.size // 4, 1)):
        word = b.op("extract", "i32", value, attr=n)
        signed = {"S8": 24, "S16": 16}.get(next((m for m in i.modifiers if m in SIZES), ""), 0)
        if signed:
            word = b.ashr(b.op("shl", "i32", word, b.const(signed)), b.const(signed))
        if destination.index != 255:
            set32(b, Operand(Kind.REGISTER, destination.index + n), word)


@meaning("SUST")
def SUST(i: Instruction, b: Emitter) -> None:
    formatted = "P" in i.modifiers
    only(i, *ORDERS, *SURFACES, *SIZES, *PLAIN, *CHANNELS)
    access, arguments = _surface(b, i, STORE_FORMATTED if formatted else STORE)
    count = 4 if formatted else max(access.size // 4, 1)
    if formatted:
        count = {"R": 1, "RG": 2}.get(next((m for m in i.modifiers if m in CHANNELS), ""), 4)
    b.op("texture", "i32x4", *arguments, *_data(b, i, count), attr=access)


def _data(b: Emitter, i: Instruction, count: int) -> list[Value]:
    """The data words after the coordinates."""
    place = next(n for n, o in enumerate(i.operands) if o.kind is Kind.MEMORY)
    data = i.operands[place + 1]
    return [_word(b, data, n) if data.index != 255 else b.const(0) for n in range(count)]


@meaning("SURED")
def SURED(i: Instruction, b: Emitter) -> None:
    only(i, *ORDERS, *SURFACES, *PLAIN, *REDUCTIONS, *SIGNED_NUMBERS, *WIDE_NUMBERS, *SAMPLES)
    access, arguments = _surface(b, i, REDUCE if "BA" in i.modifiers else REDUCE_FORMATTED)
    access = access._replace(
        reduction=next(REDUCTIONS.index(m) for m in i.modifiers if m in REDUCTIONS),
        signed=any(m in SIGNED_NUMBERS for m in i.modifiers),
    )
    b.op("texture", "i32x4", *arguments, *_data(b, i, access.size // 4), attr=access)
