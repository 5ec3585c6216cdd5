"""UBLKCP, UTMALDG and related instructions: bulk copies of bytes and of boxes of tensors (``isa/bulk.py``).

Operands are runs of uniform registers: in a copy to shared memory ``[UR8]`` names the shared address, the mbarrier's
address and then the coordinates; in a copy from shared memory, the shared address and the coordinates.  The next
register holds sizes in units of 16 bytes (or im2col offsets, 16, 8 or 5 bits each) and, in its upper half, the
multicast mask. Source: how ptxas fills these registers for each form of cp.async.bulk.
"""

from __future__ import annotations

from warpwright.isa import bulk
from warpwright.isa.bulk import Bulk
from warpwright.isa.ops import Value
from warpwright.isa.program import Instruction, Kind, Operand
from warpwright.isa.sass.meaning import Emitter, meaning, only, raw32, unsupported
from warpwright.isa.sass.tables_bulk import OPERATION, TYPE

OPERATIONS = tuple(str(name) for name in OPERATION.names)
TYPE_MODIFIERS = frozenset(part for name in TYPE.names if name for part in str(name).split("."))
DIMENSIONS = {f"{n}D": n for n in range(1, 6)}
OFFSET_BITS = {3: 16, 4: 8, 5: 5}
"""Width of each im2col offset, by the tensor's rank."""


def run(i: Instruction, place: int) -> Operand:
    """The first uniform register that the n-th operand names (n is ``place``)."""
    operand = i.operands[place]
    uniform = operand.uniform if operand.kind is Kind.MEMORY else operand
    if uniform is None:
        raise unsupported(f"{i.opcode} with this operand {place}")
    return uniform


def emit(b: Emitter, what: Bulk, words: dict[int, Value]) -> None:
    zero = b.const(0)
    b.op("bulk", "void", *(words.get(n, zero) for n in range(bulk.WORDS)), attr=what)


def wide(b: Emitter, words: dict[int, Value], o: Operand) -> None:
    words[bulk.GLOBAL], words[bulk.GLOBAL + 1] = raw32(b, o), raw32(b, o, 1)


def size_and_ranks(b: Emitter, words: dict[int, Value], o: Operand) -> None:
    packed = raw32(b, o)
    words[bulk.BYTES] = b.shl(b.and_(packed, b.const(0xFFFF)), b.const(4))
    words[bulk.RANKS] = b.lshr(packed, b.const(16))


@meaning("UBLKCP", "UBLKRED")
def UBLKCP(i: Instruction, b: Emitter) -> None:
    only(i, "S", "G", "MULTICAST", *OPERATIONS, *TYPE_MODIFIERS)
    to, from_ = (run(i, n) for n in range(2))
    words: dict[int, Value] = {}
    size_and_ranks(b, words, run(i, 2))
    way = i.modifiers[:2]
    if way == ("S", "G"):
        direction = "load"
        words[bulk.SHARED], words[bulk.BARRIER] = raw32(b, to), raw32(b, to, 1)
        wide(b, words, from_)
    elif way == ("G", "S"):
        direction = "store"
        wide(b, words, to)
        words[bulk.SHARED] = raw32(b, from_)
    else:
        direction = "within"
        words[bulk.SHARED], words[bulk.BARRIER] = raw32(b, to), raw32(b, to, 1)
        words[bulk.SOURCE] = raw32(b, from_)
    operation = next((m for m in i.modifiers if m in OPERATIONS), "").lower()
    rest = [m for m in i.modifiers[3:] if m not in ("RN", "MULTICAST")] if operation else []
    type = ".".join(rest).lower() or "u32"
    emit(b, Bulk(direction, operation, type, multicast="MULTICAST" in i.modifiers, once=True), words)


@meaning("UBLKPF")
def UBLKPF(i: Instruction, b: Emitter) -> None:
    only(i, "L2")
    words: dict[int, Value] = {}
    wide(b, words, run(i, 0))
    size_and_ranks(b, words, run(i, 1))
    emit(b, Bulk("prefetch", once=True), words)


@meaning("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF")
def UTMA(i: Instruction, b: Emitter) -> None:
    only(i, "L2", "IM2COL", "MULTICAST", *DIMENSIONS, *OPERATIONS)
    rank = next(n for name, n in DIMENSIONS.items() if name in i.modifiers)
    im2col, multicast = "IM2COL" in i.modifiers, "MULTICAST" in i.modifiers
    place = run(i, 0)
    words: dict[int, Value] = {}
    wide(b, words, run(i, 1))
    coordinate = 0
    if i.opcode != "UTMAPF":
        words[bulk.SHARED] = raw32(b, place)
        coordinate = 1
    if i.opcode == "UTMALDG":
        words[bulk.BARRIER] = raw32(b, place, 1)
        coordinate = 2
    for n in range(rank):
        words[bulk.FIRST_COORDINATE + n] = raw32(b, place, coordinate + n)
    extra = len(i.operands) > 2 and i.operands[2].kind is Kind.UNIFORM_REGISTER
    if extra and im2col:
        packed, width = raw32(b, run(i, 2)), OFFSET_BITS[rank]
        for n in range(rank - 2):
            offset = b.lshr(packed, b.const(n * width)) if n else packed
            words[bulk.FIRST_OFFSET + n] = b.and_(offset, b.const((1 << width) - 1))
    if extra and multicast:
        words[bulk.RANKS] = b.lshr(raw32(b, run(i, 2)), b.const(16))
    direction = {"UTMALDG": "load", "UTMAPF": "prefetch"}.get(i.opcode, "store")
    operation = next((m for m in i.modifiers if m in OPERATIONS), "").lower() if i.opcode == "UTMAREDG" else ""
    emit(b, Bulk(direction, operation, rank=rank, im2col=im2col, multicast=multicast, once=True), words)


@meaning("UTMACCTL", "UTMACMDFLUSH")
def UTMACCTL(i: Instruction, b: Emitter) -> None:
    """The cache of tensor maps, and the end of a group of copies; copies complete at once, so there is nothing to
    do."""
