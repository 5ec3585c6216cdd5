"""Matrix instructions (PTX ISA, sections 9.7.14 and 9.7.15): mma.sync, wmma, ldmatrix, stmatrix, movmatrix.

``mma.sync`` maps to the common operation, fragment by fragment.  The layout of wmma's fragments is
implementation-defined; here it is that of ``mma.sync``: m16n16k16 is two m16n8k16 side by side, m8n32k16 is four with
empty lower rows, m32n8k16 is two, one above the other.  Unused registers of a fragment hold zero. ``mma`` of 8-bit
floats is a separate product on sm_89; sm_90's machine code converts them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from warpwright.isa import matrix_products
from warpwright.isa.ops import Access, Value
from warpwright.isa.ptx.meaning import Emitter, meaning, only, types_of, unsupported
from warpwright.isa.ptx.meaning_memory import locate, offset_by, read, space_of, split_words
from warpwright.isa.ptx.meaning_warp import gather
from warpwright.isa.ptx.syntax import BITS, Immediate, Instruction, Negated, Operand, Vector
from warpwright.isa.quad_products import by_multiply_adds, half_addend

LAYOUTS = ("row", "col")
NARROW = ("s4", "u4", "b1")
ELEMENTS = ("f16", "bf16", "tf32", "s8", "u8")
EIGHT_BIT = ("e4m3", "e5m2")
SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)$")
SPACES = ("global", "shared", "shared::cta", "shared::cluster")


def shape_of(i: Instruction) -> str:
    found = next((m for m in i.modifiers if SHAPE.match(m)), None)
    if found is None:
        raise unsupported(f"{i.opcode} without a shape")
    return found


def element_types(i: Instruction) -> list[str]:
    """The types among the modifiers, including those that no register has."""
    return [m for m in i.modifiers if m in BITS or m in NARROW]


def extents(shape: str) -> tuple[int, int, int]:
    match = SHAPE.match(shape)
    assert match is not None
    return int(match[1]), int(match[2]), int(match[3])


def registers(b: Emitter, o: Operand) -> list[Value]:
    """The 32-bit words of a fragment, whatever the type of its registers."""
    if not isinstance(o, Vector):
        raise unsupported("a fragment that is not a list of registers")
    return [b.source(item, "b32") for item in o.items]


def write(b: Emitter, o: Operand, words: list[Value]) -> None:
    if not isinstance(o, Vector) or len(o.items) != len(words):
        raise unsupported(f"a fragment of other than {len(words)} registers")
    for item, word in zip(o.items, words, strict=True):
        b.result(item, word)


@meaning("mma")
def mma(i: Instruction, b: Emitter) -> None:
    """``mma[.sp].sync.aligned.shape.alayout.blayout.dtype.atype.btype.ctype d, a, b, c[, metadata, selector]``."""
    shape = shape_of(i)
    only(
        i, "sp", "sp::ordered_metadata", "sync", "aligned", "satfinite", "xor", "and", "popc", *LAYOUTS, *NARROW, shape
    )
    types = element_types(i)
    if len(types) != 4:
        raise unsupported(f"{i.name}")
    to, first, second, addend = types
    d, x, y, z, *sparse = i.operands
    gather(b, None)
    if first == "f64":
        left, right, total = words_f64(b, x), words_f64(b, y), words_f64(b, z)
        write_f64(b, i, d, matrix_products.doubles(b, b.arch, shape, left, right, total))
        return
    left, right, total = registers(b, x), registers(b, y), registers(b, z)
    chosen = []
    if sparse:
        chosen = [b.source(sparse[0], "b32")]
        shape += f".sp{number(sparse[1])}"
    if to == "s32":
        if first == "b1":
            write(b, d, matrix_products.bit_counts(b, b.arch, shape, "and" in i.modifiers, left, right, total))
            return
        saturates = "satfinite" in i.modifiers
        write(
            b, d, matrix_products.integers(b, b.arch, shape, (first, second), (left, right, total), saturates, chosen)
        )
        return
    if shape == "m8n8k4" and first == second == "f16":
        write(b, d, quad_product(b, i, (to, addend), (left, right, total)))
        return
    if to != addend:
        raise unsupported(f"operands of types {', '.join(types)}")
    if first in EIGHT_BIT and second in EIGHT_BIT:
        if b.arch >= 90:
            found = matrix_products.eight_bit_floats(
                b, b.arch, shape, (first, second), to, (left, right, total), chosen
            )
        else:
            element = first if first == second else first + second
            found = matrix_products.product(b, b.arch, (shape, element, to), left, right, total, chosen)
        write(b, d, found)
        return
    if first != second or first not in ELEMENTS:
        raise unsupported(f"operands of types {', '.join(types)}")
    write(b, d, matrix_products.product(b, b.arch, (shape, first, to), left, right, total, chosen))


def quad_product(
    b: Emitter, i: Instruction, types: tuple[str, str], words: tuple[list[Value], list[Value], list[Value]]
) -> list[Value]:
    """m8n8k4, by Volta's steps or as in later chips' code; ``types`` are those of D and C."""
    left, right, total = words
    layouts = [m for m in i.modifiers if m in LAYOUTS]
    if b.arch >= 80:
        return by_multiply_adds(b, (layouts[0], layouts[1]), types, left, right, total)
    if types == ("f32", "f16"):
        total = [b.bitcast(half_addend(b, total[n & 4 and 2 :][:2], n), "i32") for n in range(8)]
    found = []
    for n in range(len(total) // 2):
        part = f"m8n8k4.{layouts[0]}.{layouts[1]}.{n}"
        found += matrix_products.product(b, b.arch, (part, "f16", types[0]), left, right, total[2 * n : 2 * n + 2], [])
    return found


def number(o: Operand) -> int:
    """An immediate operand of the instruction."""
    if isinstance(o, Negated) and o.sign == "-":
        return -number(o.operand)
    if not isinstance(o, Immediate) or o.float_bits:
        raise unsupported("an immediate operand that is not an integer")
    return o.bits


# --- f64 ------------------------------------------------------------------------------------------
def words_f64(b: Emitter, o: Operand) -> list[Value]:
    """Both words of each f64 of a fragment."""
    if not isinstance(o, Vector):
        raise unsupported("a fragment that is not a list of registers")
    return [word for item in o.items for word in b.high_low(b.bitcast(b.source(item, "f64"), "i64"))]


def write_f64(b: Emitter, i: Instruction, d: Operand, words: list[Value]) -> None:
    if not isinstance(d, Vector) or 2 * len(d.items) != len(words):
        raise unsupported(f"{i.name} with {len(words) // 2} results")
    for n, item in enumerate(d.items):
        b.result(item, b.bitcast(b.op("pack64", "i64", *words[2 * n : 2 * n + 2]), "f64"))


# --- wmma -----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Tile:
    """The part of a wmma fragment that one operation handles: rows and columns from an origin, held in some of its
    registers."""

    row: int
    column: int
    first: int
    """First register."""
    rows: int
    """16, or 8 where the lower half is empty."""


def tiles(role: str, shape: str, per: int) -> list[Tile]:
    """The parts of fragment a, b or c; each register holds ``per`` elements."""
    m, n, k = extents(shape)
    found: list[Tile] = []
    if role == "a":
        count = min(m, 16) * k // (32 * per)
        for part in range(max(1, m // 16)):
            found.append(Tile(16 * part, 0, count * part, min(m, 16)))
    elif role == "b":
        count = 8 * k // (32 * per)
        for part in range(n // 8):
            found.append(Tile(0, 8 * part, count * part, k))
    else:
        count = min(m, 16) * 8 // (32 * per)
        for down in range(max(1, m // 16)):
            for across in range(n // 8):
                found.append(Tile(16 * down, 8 * across, count * (down * (n // 8) + across), min(m, 16)))
    return found


def elements(role: str, shape: str, per: int) -> list[tuple[int, int, int, int, int, int]]:
    """For each element of a fragment: register, place in it, and its row and column as
    ``row + 1 * group (+ …)``: (register, place, row, column, thread factor of row, thread factor of column)."""
    _, _, k = extents(shape)
    found = []
    for tile in tiles(role, shape, per):
        halves = tile.rows // 8
        if role == "a":
            for register in range(halves * k // (4 * per)):
                for place in range(per):
                    row, column = 8 * (register % halves), place + 4 * per * (register // halves)
                    found.append((tile.first + register, place, tile.row + row, tile.column + column, 0, per))
        elif role == "b":
            for register in range(k // (4 * per)):
                for place in range(per):
                    found.append(
                        (tile.first + register, place, tile.row + place + 4 * per * register, tile.column, per, 0)
                    )
        else:
            for register in range(2 * halves // per):
                for place in range(per):
                    n = register * per + place
                    found.append((tile.first + register, place, tile.row + 8 * (n // 2), tile.column + n % 2, 0, 2))
    return found


@meaning("wmma")
def wmma(i: Instruction, b: Emitter) -> None:
    if "mma" in i.modifiers:
        wmma_multiply(i, b)
    elif "load" in i.modifiers or "store" in i.modifiers:
        wmma_move(i, b)
    else:
        raise unsupported(f"{i.name}")


def element_bits(type: str) -> int:
    return BITS[type]


def wmma_address(
    b: Emitter, i: Instruction, role: str, shape: str, o: Operand, stride: Operand | None
) -> tuple[str, Value, Value, Value, Value]:
    """(space, base, stride, lane's group, lane's thread) for a fragment's elements; strides in elements."""
    m, n, k = extents(shape)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(role, (m, n))
    layout = next(x for x in i.modifiers if x in LAYOUTS)
    space, base = locate(b, o, space_of(i))
    kind = b.type_of(base)
    if stride is None:
        step = b.const(columns if layout == "row" else rows, kind)
    else:
        step = b.source(stride, "u32")
        step = b.zext(step, "i64") if kind == "i64" else step
    lane = b.op("special", "i32", attr="laneid")
    group, thread = b.lshr(lane, b.const(2)), b.and_(lane, b.const(3))
    if kind == "i64":
        group, thread = b.zext(group, "i64"), b.zext(thread, "i64")
    return space, base, step, group, thread


def wmma_move(i: Instruction, b: Emitter) -> None:
    """``wmma.load.a|b|c`` and ``wmma.store.d``, element by element."""
    shape = shape_of(i)
    only(i, "load", "store", "a", "b", "c", "d", "sync", "aligned", *LAYOUTS, *SPACES, shape)
    type = types_of(i)[-1]
    loads = "load" in i.modifiers
    role = next(m for m in i.modifiers if m in ("a", "b", "c", "d"))
    role = "c" if role == "d" else role
    fragment, place, *more = i.operands if loads else (i.operands[1], i.operands[0], *i.operands[2:])
    if not isinstance(fragment, Vector):
        raise unsupported("a fragment that is not a list of registers")
    if type == "f64" or BITS[type] < 8:
        raise unsupported(f"wmma of .{type}")
    gather(b, None)
    space, base, stride, group, thread = wmma_address(b, i, role, shape, place, more[0] if more else None)
    by_row = "row" in i.modifiers
    size = BITS[type] // 8
    per = 4 // size
    words: list[Value] = [b.const(0)] * len(fragment.items) if loads else registers(b, fragment)
    where = elements(role, shape, per)
    for register, part, row, column, row_factor, column_factor in where:
        # Columns of b follow the group; otherwise rows do.
        across = role == "b"
        r = b.like(row, base)
        c = b.like(column, base)
        if across:
            r, c = b.add(r, b.mul(thread, b.like(row_factor, base))), b.add(c, group)
        else:
            r, c = b.add(r, group), b.add(c, b.mul(thread, b.like(column_factor, base)))
        index = b.add(b.mul(r, stride), c) if by_row else b.add(b.mul(c, stride), r)
        at = b.add(base, b.mul(index, b.like(size, base)))
        if loads:
            value = b.zext(read(b, space, at, size, Access(space, size)), "i32")
            words[register] = b.or_(words[register], b.shl(value, b.const(8 * size * part)) if part else value)
        else:
            piece = b.lshr(words[register], b.const(8 * size * part)) if part else words[register]
            b.op("store", "void", at, b.trunc(piece, f"i{8 * size}"), attr=Access(space, size))
    if loads:
        write(b, fragment, words)


def wmma_multiply(i: Instruction, b: Emitter) -> None:
    """``wmma.mma.sync.aligned.alayout.blayout.shape.dtype[.atype.btype].ctype d, a, b, c``."""
    shape = shape_of(i)
    only(i, "mma", "sync", "aligned", *LAYOUTS, shape)
    types = types_of(i)
    to, addend = types[0], types[-1]
    element = types[1] if len(types) == 4 else "f16"
    if element not in ELEMENTS or (len(types) == 4 and types[1] != types[2]):
        raise unsupported(f"wmma of types {', '.join(types)}")
    m, _, k = extents(shape)
    d, x, y, z = i.operands
    gather(b, None)
    left, right, total = registers(b, x), registers(b, y), registers(b, z)
    per = 32 // BITS[element] if element != "tf32" else 1
    in_half = to == addend == "f16"
    if addend == "f16" and not in_half:
        total = widened(b, total)
    sum_type = "s32" if to == "s32" else "f16" if in_half else "f32"
    whole = 2 if in_half else 4
    held = whole if m >= 16 else whole // 2
    zero = b.const(0)
    words: list[Value] = []
    for up in tiles("a", shape, per):
        count = min(m, 16) * k // (32 * per)
        own = left[up.first : up.first + count]
        if m == 8:
            own = [w for word in own for w in (word, zero)]
        for across in tiles("b", shape, per):
            mine = right[across.first : across.first + 8 * k // (32 * per)]
            c = total[len(words) : len(words) + held] + [zero] * (whole - held)
            parts = (
                2 if element == "tf32" else 1
            )  # the assembler generates two products of four columns each, which round twice
            for n in range(parts):
                one, other = (w[n * len(w) // parts : (n + 1) * len(w) // parts] for w in (own, mine))
                c = matrix_products.product(b, b.arch, (f"m16n8k{k // parts}", element, sum_type), one, other, c, [])
            words += c[:held]
    write(b, d, narrowed(b, words) if to == "f16" and not in_half else words)


def widened(b: Emitter, words: list[Value]) -> list[Value]:
    """Packed f16 sums as f32."""
    found = []
    for word in words:
        for n in range(2):
            part = b.trunc(b.lshr(word, b.const(16)) if n else word, "i16")
            found.append(b.bitcast(b.op("fcvt", "f32", b.bitcast(part, "f16"), attr="rn"), "i32"))
    return found


def narrowed(b: Emitter, words: list[Value]) -> list[Value]:
    found = []
    for n in range(0, len(words), 2):
        halves = []
        for word in words[n : n + 2]:
            x = b.op("canonical_nan", "f16", b.op("fcvt", "f16", b.bitcast(word, "f32"), attr="rn"))
            halves.append(b.zext(b.bitcast(x, "i16"), "i32"))
        found.append(b.or_(halves[0], b.shl(halves[1], b.const(16))))
    return found


# --- matrices between shared memory and registers -------------------------------------------------
COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def matrix_options(i: Instruction) -> tuple[int, bool]:
    only(i, "sync", "aligned", "m8n8", "trans", *COUNTS, *SPACES)
    if "m8n8" not in i.modifiers or types_of(i)[-1] != "b16":
        raise unsupported(f"{i.name}")
    return next(COUNTS[m] for m in i.modifiers if m in COUNTS), "trans" in i.modifiers


def row_of(b: Emitter, base: Value, matrix: int, row: Value) -> Value:
    """The address of a row, which lane 8 * matrix + row holds."""
    return b.op("shuffle", "i32", base, b.add(row, b.const(8 * matrix)))


@meaning("ldmatrix")
def ldmatrix(i: Instruction, b: Emitter) -> None:
    """Lane 4r + c gets elements 2c and 2c + 1 of row r of each matrix (.trans: of column r)."""
    count, transposed = matrix_options(i)
    gather(b, None)
    d, o = i.operands
    items = d.items if isinstance(d, Vector) else (d,)
    space, base = locate(b, o, "shared")
    lane = b.op("special", "i32", attr="laneid")
    row, column = b.lshr(lane, b.const(2)), b.and_(lane, b.const(3))
    words = []
    for matrix in range(count):
        if not transposed:
            at = b.add(row_of(b, base, matrix, row), b.shl(column, b.const(2)))
            words.append(split_words(b, read(b, space, at, 4))[0])
            continue
        halves = []
        for n in range(2):
            other = b.add(b.shl(column, b.const(1)), b.const(n))
            at = b.add(row_of(b, base, matrix, other), b.shl(row, b.const(1)))
            halves.append(b.zext(read(b, space, at, 2), "i32"))
        words.append(b.or_(halves[0], b.shl(halves[1], b.const(16))))
    write(b, Vector(items), words)


@meaning("stmatrix")
def stmatrix(i: Instruction, b: Emitter) -> None:
    """The reverse of ldmatrix."""
    count, transposed = matrix_options(i)
    gather(b, None)
    o, source = i.operands
    items = source.items if isinstance(source, Vector) else (source,)
    words = registers(b, Vector(items))
    space, base = locate(b, o, "shared")
    lane = b.op("special", "i32", attr="laneid")
    row, column = b.lshr(lane, b.const(2)), b.and_(lane, b.const(3))
    for matrix in range(count):
        if not transposed:
            at = b.add(row_of(b, base, matrix, row), b.shl(column, b.const(2)))
            b.op("store", "void", at, words[matrix], attr=Access(space, 4))
            continue
        for n in range(2):
            other = b.add(b.shl(column, b.const(1)), b.const(n))
            at = b.add(row_of(b, base, matrix, other), b.shl(row, b.const(1)))
            part = b.trunc(b.lshr(words[matrix], b.const(16)) if n else words[matrix], "i16")
            b.op("store", "void", offset_by(b, at, 0), part, attr=Access(space, 2))


@meaning("movmatrix")
def movmatrix(i: Instruction, b: Emitter) -> None:
    """Transpose an 8x8 matrix of 16-bit elements whose row r is in lanes 4r to 4r + 3."""
    only(i, "sync", "aligned", "m8n8", "trans")
    gather(b, None)
    word = b.source(i.operands[1], "b32")
    b.result(i.operands[0], matrix_products.transposed(b, word))
