"""Fuses 64-bit arithmetic that the compiler splits into two 32-bit instructions.

Recognised within one basic block: ``IADD3``/``UIADD3`` with a carry and its ``IADD3.X`` or ``IMAD.X``; ``LEA`` with a carry
and ``LEA.HI.X`` (also ``.SX32``, and after ``IADD3``); the two halves of a shift by a constant; ``ISETP`` and
``ISETP.EX``.  One of the two instructions receives the 64-bit operation and all results of both (including the carry
predicate; the compiler removes unused results), and the other becomes empty.  A pair is fused only if one instruction
can be moved to the other's position without effect: no instruction in between writes a source of the moved one, or
reads or writes its results; both have the same guard; and the upper half depends on the lower half only through the
carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from warpwright.isa.ops import Lowered, Value, verify
from warpwright.isa.program import PT, RZ, URZ, Instruction, Kind, Operand, Program
from warpwright.isa.sass.meaning import (
    REGISTERS,
    Emitter,
    is_false,
    is_zero,
    raw32,
    set32,
    set64,
    set_predicate,
    split,
    src64,
)
from warpwright.isa.sass.meaning_integer import RELATIONS, set_comparison

WINDOW = 32
"""Maximum distance of the two halves, in instructions."""

Effect = tuple[str, int]
Effects = tuple[frozenset[Effect], frozenset[Effect]]
Build = Callable[[Emitter], None]
Signs = Mapping[int, int]
"""For registers that hold a sign extension (all bits equal to the sign): the register whose sign it is."""
CONTROL = frozenset(
    ("branch", "branch_indirect", "exit", "trap", "bssy", "bsync", "break", "warpsync", "yield", "nanosleep")
) | {"barrier", "barrier_red"}
ADDS = {"IADD3": ("IADD3", "IMAD"), "UIADD3": ("UIADD3", "UIMAD")}
LEAS = {"LEA": "LEA", "ULEA": "ULEA"}


def block_leaders(program: Program, lowered: Sequence[Lowered]) -> set[int]:
    """Indices of possible branch targets, including those of jump tables in constant banks."""
    index_of = {i.address: n for n, i in enumerate(program.instructions)}
    leaders = {0}
    displacements = {0, program.code_base}
    indirect = False
    for n, one in enumerate(lowered):
        last = one.ops[-1] if one.ops else None
        if last is None or last.name not in CONTROL:
            continue
        leaders.add(n + 1)
        if last.name == "branch":
            leaders.add(index_of.get(last.attr, n + 1))
        elif last.name == "bssy":
            leaders.add(index_of.get(last.attr[1], n + 1))
        elif last.name in ("bsync", "warpsync"):
            leaders.add(n)
        elif last.name == "branch_indirect":
            indirect = True
            for op in one.ops:
                if op.name == "const" and op.type == "i64":
                    displacements.add(op.attr - (op.attr >> 63 << 64))
    if indirect:
        for data in program.constant_banks.values():
            for at in range(0, len(data) - 3, 4):
                word = int.from_bytes(data[at : at + 4], "little", signed=True)
                leaders |= {index_of[t] for d in displacements if (t := word + d - program.code_base) in index_of}
    return leaders


def same(x: Operand, y: Operand) -> bool:
    """Whether two operands have the same value."""
    return (x.kind, x.index, x.value, x.negate, x.invert, x.absolute, x.base) == (
        y.kind,
        y.index,
        y.value,
        y.negate,
        y.invert,
        y.absolute,
        y.base,
    )


def plain(o: Operand) -> bool:
    """Whether an operand is a register, number or constant without modifiers."""
    kinds = (*REGISTERS, Kind.IMMEDIATE, Kind.CONSTANT)
    return o.kind in kinds and not (o.negate or o.invert or o.absolute or o.suffix)


def bare(o: Operand) -> Operand:
    """The operand without negation and complement."""
    return Operand(o.kind, o.index, o.value, base=o.base, uniform=o.uniform)


def adjacent(low: Operand, high: Operand) -> bool:
    """Whether two operands are the halves of one 64-bit register pair or constant."""
    if low.kind is not high.kind:
        return False
    if low.kind in REGISTERS:
        last = RZ if low.kind is Kind.REGISTER else URZ
        return low.index % 2 == 0 and high.index == low.index + 1 and high.index != last
    return (
        low.kind is Kind.CONSTANT and (low.index, low.base) == (high.index, high.base) and high.value == low.value + 4
    )


def extends(low: Operand, high: Operand, signs: Signs) -> bool:
    """Whether the upper half is only the sign extension of the lower half."""
    return low.kind is Kind.REGISTER and high.kind is Kind.REGISTER and signs.get(high.index) == low.index


def wide(b: Emitter, low: Operand, high: Operand, signs: Signs) -> Value:
    """The 64-bit value of two halves, without their modifiers."""
    low, high = bare(low), bare(high)
    if extends(low, high, signs):
        return b.sext(raw32(b, low), "i64")
    if adjacent(low, high):
        return src64(b, low)
    if low.kind is Kind.IMMEDIATE and (high.kind is Kind.IMMEDIATE or is_zero(high)):
        upper = high.value if high.kind is Kind.IMMEDIATE else 0
        return b.const((upper & 0xFFFFFFFF) << 32 | low.value & 0xFFFFFFFF, "i64")
    if is_zero(high):
        return b.zext(raw32(b, low), "i64")
    return b.op("pack64", "i64", raw32(b, low), raw32(b, high))


def write(b: Emitter, low: Operand, high: Operand, value: Value) -> None:
    """Write both halves of a result."""
    if adjacent(low, high):
        set64(b, low, value)
        return
    set32(b, low, b.trunc(value, "i32"))
    set32(b, high, b.op("extract", "i32", value, attr=1))


# --- the patterns ---------------------------------------------------------------------------------
def upper_sources(i: Instruction, carry: Operand) -> tuple[Operand, list[Operand]] | None:
    """(destination, addends) of an instruction that adds a carry and has no other special features."""
    if "X" not in i.modifiers:
        return None
    s = split(i)
    inputs = [p for p in s.predicates_in if not is_false(p)]
    if len(inputs) != 1 or not same(inputs[0], carry) or any(p.index != PT for p in s.predicates_out):
        return None
    assert s.destination is not None
    sources = list(s.sources)
    if i.opcode in ("IMAD", "UIMAD"):
        if set(i.modifiers) - {"X"}:
            return None
        x, y, z = sources
        if is_zero(x) or is_zero(y):
            sources = [z]
        elif y.kind is Kind.IMMEDIATE and y.value == 1 and not y.negate:
            sources = [x, z]
        else:
            return None
        if any(o.negate or o.absolute or o.suffix for o in sources):
            return None
    return s.destination, [o for o in sources if not is_zero(o) or o.invert]


def add_pair(low: Instruction, high: Instruction, signs: Signs) -> Build | None:
    """``IADD3`` with a carry and its upper half."""
    if low.opcode not in ADDS or high.opcode not in ADDS[low.opcode] or "X" in low.modifiers:
        return None
    s = split(low)
    out = [p for p in s.predicates_out if p.index != PT]
    if len(out) != 1 or s.predicates_out[0].index == PT:
        return None
    carry = out[0]
    upper = upper_sources(high, carry)
    lower = [o for o in s.sources if not is_zero(o) or o.negate]
    if upper is None or s.destination is None:
        return None
    destination, above = upper
    negative = [o for o in lower if o.negate]
    positive = [o for o in lower if not o.negate]
    inverted = [o for o in above if o.invert]
    if len(lower) > 2 or len(negative) > 1 or len(inverted) != len(negative) or len(above) - len(inverted) > 2:
        return None
    if not all(plain(bare(o)) and not (o.absolute or o.suffix or o.invert) for o in lower):
        return None
    if any(o.negate or o.absolute or o.suffix for o in above):
        return None
    zero = Operand(Kind.IMMEDIATE)
    pairs: list[tuple[Operand, Operand]] = []
    rest = [o for o in above if not o.invert]
    for o in positive:
        match = next((h for h in rest if adjacent(o, h) or extends(o, h, signs)), None)
        if match is not None:
            rest.remove(match)
            pairs.append((o, match))
    for o in positive:
        if not any(o is p for p, _ in pairs):
            pairs.append((o, rest.pop(0) if rest else zero))
    pairs += [(zero, h) for h in rest]
    low_destination = s.destination

    def build(b: Emitter) -> None:
        values = [wide(b, x, y, signs) for x, y in pairs]
        total = values[0] if values else b.const(0, "i64")
        for value in values[1:]:
            total = b.add(total, value)
        first = raw32(b, positive[0]) if positive else b.const(0)
        if negative:
            carried = b.icmp("uge", first, raw32(b, bare(negative[0])))
            total = b.sub(total, wide(b, negative[0], inverted[0], signs))
        else:
            carried = b.icmp("ult", b.trunc(total, "i32"), first)
        set_predicate(b, carry, carried)
        write(b, low_destination, destination, total)

    return build


def lea_pair(low: Instruction, high: Instruction, signs: Signs) -> Build | None:
    """``LEA`` with a carry and ``LEA.HI.X``."""
    if low.opcode not in LEAS or high.opcode != low.opcode or low.modifiers or "HI" not in high.modifiers:
        return None
    s, t = split(low), split(high)
    out = [p for p in s.predicates_out if p.index != PT]
    inputs = [p for p in t.predicates_in if not is_false(p)]
    if len(out) != 1 or "X" not in high.modifiers or len(inputs) != 1 or not same(inputs[0], out[0]):
        return None
    if any(p.index != PT for p in t.predicates_out) or s.predicates_in:
        return None
    x, y, shift = s.sources
    if "SX32" in high.modifiers:
        x_again, y_above, shift_again = t.sources
        above = None
    else:
        x_again, y_above, above, shift_again = t.sources
    operands = [x, y, x_again, y_above, *([] if above is None else [above])]
    if not all(plain(o) for o in operands) or not same(x, x_again) or shift.value != shift_again.value:
        return None
    carry, amount = out[0], shift.value & 31
    low_destination, destination = s.destination, t.destination
    assert low_destination is not None
    assert destination is not None

    def build(b: Emitter) -> None:
        base = b.sext(raw32(b, x), "i64") if above is None else wide(b, x, above, signs)
        scaled = b.shl(base, b.const(amount, "i64")) if amount else base
        total = b.add(scaled, wide(b, y, y_above, signs))
        set_predicate(b, carry, b.icmp("ult", b.trunc(total, "i32"), b.trunc(scaled, "i32")))
        write(b, low_destination, destination, total)

    return build


def index_pair(low: Instruction, high: Instruction, signs: Signs) -> Build | None:
    """``IADD3`` with a carry and ``LEA.HI.X.SX32 …, 0x1``: a 64-bit base plus a sign-extended index."""
    if low.opcode not in ADDS or low.modifiers or high.opcode != low.opcode.replace("IADD3", "LEA"):
        return None
    if set(high.modifiers) != {"HI", "X", "SX32"}:
        return None
    s, t = split(low), split(high)
    out = [p for p in s.predicates_out if p.index != PT]
    inputs = [p for p in t.predicates_in if not is_false(p)]
    if len(out) != 1 or s.predicates_out[0].index == PT or any(p.index != PT for p in t.predicates_out):
        return None
    index, above, shift = t.sources
    sources = [o for o in s.sources if not is_zero(o)]
    found = next((o for o in sources if same(o, index)), None)
    if len(inputs) != 1 or not same(inputs[0], out[0]) or shift.value != 1 or found is None or len(sources) > 2:
        return None
    if not all(plain(o) for o in (*sources, above)):
        return None
    base = next((o for o in sources if o is not found), Operand(Kind.IMMEDIATE))
    carry, low_destination, destination = out[0], s.destination, t.destination
    assert low_destination is not None
    assert destination is not None

    def build(b: Emitter) -> None:
        total = b.add(wide(b, base, above, signs), b.sext(raw32(b, index), "i64"))
        set_predicate(b, carry, b.icmp("ult", b.trunc(total, "i32"), raw32(b, index)))
        write(b, low_destination, destination, total)

    return build


def left_shift(i: Instruction) -> tuple[Operand, Operand, int] | None:
    """(destination, source, amount) of the lower half of a left shift by a constant."""
    if i.opcode in ("IMAD", "UIMAD") and i.modifiers == ("SHL", "U32"):
        d, x, factor, z = i.operands
        power = factor.value & 0xFFFFFFFF
        if factor.kind is Kind.IMMEDIATE and is_zero(z) and power and power & (power - 1) == 0:
            return d, x, power.bit_length() - 1
    if i.opcode in ("SHF", "USHF") and i.modifiers == ("L", "U32"):
        d, x, amount, _ = i.operands
        if amount.kind is Kind.IMMEDIATE:
            return d, x, amount.value
    return None


def shift_pair(low: Instruction, high: Instruction, signs: Signs) -> Build | None:
    """The two halves of a 64-bit shift by 1 to 31."""
    if high.opcode not in ("SHF", "USHF") or "HI" not in high.modifiers or "W" in high.modifiers:
        return None
    d_high, second, amount_high, third = high.operands
    if amount_high.kind is not Kind.IMMEDIATE or not 0 < amount_high.value < 32:
        return None
    amount = amount_high.value
    if high.modifiers[0] == "L":
        left = left_shift(low)
        if left is None or left[2] != amount or high.modifiers[1] not in ("U32", "U64"):
            return None
        d_low, x, _ = left
        above, name = third, "shl"
        matched = same(x, second)
    else:
        if low.opcode != high.opcode or low.modifiers not in (("R", "U64"), ("R", "S64")) or len(low.operands) != 4:
            return None
        d_low, x, amount_low, above = low.operands
        signed = high.modifiers[1] in ("S32", "S64")
        name = "ashr" if signed else "lshr"
        matched = amount_low.kind is Kind.IMMEDIATE and amount_low.value == amount and same(above, third)
    if not matched or not plain(x) or not plain(above):
        return None

    def build(b: Emitter) -> None:
        write(b, d_low, d_high, b.binary(name, wide(b, x, above, signs), b.const(amount, "i64")))

    return build


def compare_pair(low: Instruction, high: Instruction, signs: Signs) -> Build | None:
    """``ISETP.EX`` as one comparison; the lower half stays as it is."""
    if low.opcode != high.opcode or low.opcode not in ("ISETP", "UISETP"):
        return None
    if "EX" in low.modifiers or "EX" not in high.modifiers or low.modifiers[0] != high.modifiers[0]:
        return None
    relation = low.modifiers[0]
    unsigned_low = "U32" in low.modifiers or relation in ("EQ", "NE")
    if relation not in RELATIONS or not unsigned_low or "AND" not in low.modifiers:
        return None
    p, _, x, y, with_low = low.operands
    first, second, x_above, y_above, with_, ex = high.operands
    if with_low.index != PT or with_low.invert or not same(p, ex) or p.index == PT:
        return None
    if not all(plain(o) for o in (x, y, x_above, y_above)):
        return None
    sign = "" if relation in ("EQ", "NE") else "u" if "U32" in high.modifiers else "s"

    def build(b: Emitter) -> None:
        result = b.icmp(sign + relation.lower(), wide(b, x, x_above, signs), wide(b, y, y_above, signs))
        set_comparison(b, high, result, first, second, with_)

    return build


PATTERNS: tuple[Callable[[Instruction, Instruction, Signs], Build | None], ...] = (
    add_pair,
    lea_pair,
    index_pair,
    shift_pair,
    lambda first, second, signs: shift_pair(second, first, signs),
)


# --- the pass -------------------------------------------------------------------------------------
def fuse(
    program: Program,
    lowered: Sequence[Lowered],
    effects: Callable[[Lowered], Effects],
    leaders: Iterable[int] | None = None,
) -> list[Lowered]:
    """Fuse the 64-bit pairs of a program; the module's docstring states what is guaranteed.

    Args:
        effects: ``register_effects``.
        leaders: indices at which basic blocks begin; computed if None.
    """
    result = list(lowered)
    starts = block_leaders(program, lowered) if leaders is None else set(leaders)
    known = [effects(one) for one in lowered]
    signs = signs_of(program, lowered, known, starts)
    fused: set[int] = set()
    for k, low in enumerate(program.instructions):
        if k in fused or not starts_pair(low):
            continue
        for m in range(k + 1, min(k + WINDOW, len(lowered))):
            if m in starts:
                break
            if m in fused or not starts_pair(program.instructions[m]):
                continue
            high = program.instructions[m]
            kept = {d: x for d, x in signs[k].items() if signs[m].get(d) == x}
            compare = compare_pair(low, high, kept)
            if compare is not None:
                if still_valid(lowered, known, k, m):
                    emit(result, lowered, m, compare, program)
                    fused.add(m)
                break
            build = next((found for pattern in PATTERNS if (found := pattern(low, high, kept))), None)
            place = None if build is None else pair_place(lowered, known, k, m)
            if build is not None and place is not None:
                emit(result, lowered, place, build, program)
                result[k + m - place] = Lowered([], None)
                fused |= {k, m}
                break
    return result


def signs_of(
    program: Program, lowered: Sequence[Lowered], known: Sequence[Effects], starts: set[int]
) -> list[dict[int, int]]:
    """For each instruction, the sign extensions that registers hold before it, made by ``SHF.R.S32.HI Rd, RZ, 0x1f,
    Rx`` in its block."""
    found: list[dict[int, int]] = []
    now: dict[int, int] = {}
    for n, i in enumerate(program.instructions):
        if n in starts:
            now = {}
        found.append(now)
        written = {number for file, number in known[n][1] if file == "reg"}
        if written and now:
            now = {d: x for d, x in now.items() if d not in written and x not in written}
        if i.opcode == "SHF" and i.modifiers == ("R", "S32", "HI") and lowered[n].guard is None:
            d, low, amount, x = i.operands
            whole = is_zero(low) and amount.kind is Kind.IMMEDIATE and amount.value == 31
            if whole and x.kind is Kind.REGISTER and plain(x) and d.index != x.index:
                now = {**now, d.index: x.index}
    return found


def starts_pair(i: Instruction) -> bool:
    return i.opcode in ("IADD3", "UIADD3", "LEA", "ULEA", "SHF", "USHF", "IMAD", "UIMAD", "ISETP", "UISETP")


def emit(result: list[Lowered], lowered: Sequence[Lowered], at: int, build: Build, program: Program) -> None:
    emitter = Emitter(arch=program.arch, code_base=program.code_base)
    build(emitter)
    verify(emitter.ops)
    result[at] = Lowered(emitter.ops, lowered[at].guard)


def still_valid(lowered: Sequence[Lowered], known: Sequence[Effects], k: int, m: int) -> bool:
    """Whether the result of ``k`` can be computed at ``m``: same guard, and neither ``k``'s sources nor its results
    have changed."""
    if lowered[k].guard != lowered[m].guard:
        return False
    reads, writes = known[k]
    between = range(k + 1, m)
    return not reads & writes and not any((reads | writes) & known[n][1] for n in between)


def pair_place(lowered: Sequence[Lowered], known: Sequence[Effects], k: int, m: int) -> int | None:
    """The position at which a pair can be executed as one: ``m``, else ``k``, else None."""
    if lowered[k].guard != lowered[m].guard:
        return None
    (reads_k, writes_k), (reads_m, writes_m) = known[k], known[m]
    guard = lowered[k].guard
    if guard is not None and (guard[0], guard[1]) in writes_k:
        return None
    handed = writes_k & reads_m
    if writes_k & writes_m or any(file not in ("pred", "upred") for file, _ in handed) or len(handed) > 1:
        return None
    written = frozenset[Effect]().union(*(known[n][1] for n in range(k + 1, m)))
    read = frozenset[Effect]().union(*(known[n][0] for n in range(k + 1, m)))
    if handed & written:
        return None
    if not reads_k & written and not writes_k & (read | written):
        return m
    if not (reads_m - handed) & written and not writes_m & (read | written):
        return k
    return None
