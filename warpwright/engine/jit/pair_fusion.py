"""Fuses 64-bit sums that machine code computes in halves.

Incrementing a pointer takes two instructions: the low word's sum with a carry (IADD3, LEA) and the high word's with
that carry (IADD3.X, LEA.HI.X); copying one takes two MOVs.  Word by word, such an address has no known shape, because
the carry differs from lane to lane.  Therefore, if both halves are in one basic block and no instruction between them
is affected, the second one computes and writes the pair, and the first one only its carry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.live_ranges import FILE_BASE, Key, cells, is_predicate
from warpwright.isa.ops import Lowered, Op

Term = tuple[Any, ...]
"""A value as an expression: (operation, attribute, terms...); registers and constants are (operation, attribute)."""

REG = FILE_BASE["reg"]
ZERO: Term = ("const", 0)
SIGN: Term = ("const", 31)
LEAVES = ("get_reg", "get_ureg", "const")
COPIED = ("get_reg", "get_ureg", "load_const", "mul")
SHIFTED = ("ashr", "mul")
"""Opcodes of copies and sign extensions; IMAD can also be a move (:func:`term_of`)."""


@dataclass(slots=True)
class Half:
    """One word of a sum in a register."""

    made: int
    """The instruction that computed it."""
    written: int
    """The instruction that wrote it to the register: the same one, or a copy."""
    terms: list[Term]
    low: Half | None = None
    """For high words: the low word whose carry was added."""


@dataclass(slots=True)
class Writer:
    """A list of operations under construction."""

    ops: list[Op] = field(default_factory=list)

    def op(self, name: str, type: str, *args: int, attr: Any = None) -> int:
        self.ops.append(Op(name, type, args, attr))
        return len(self.ops) - 1


# --- reading --------------------------------------------------------------------------------------
def term_of(ops: Sequence[Op], value: int) -> Term:
    op = ops[value]
    if op.name in LEAVES:
        return (op.name, op.attr)
    parts = [term_of(ops, a) for a in op.args]
    if op.name == "mul" and op.type == "i32" and ("const", 1) in parts:
        # IMAD as a move.
        parts.remove(("const", 1))
        return parts[0]
    return (op.name, op.attr, *parts)


def terms_of(ops: Sequence[Op], value: int) -> Iterator[Term]:
    """The terms of a sum of words, without zeros."""
    op = ops[value]
    if op.name == "add" and op.type == "i32":
        for argument in op.args:
            yield from terms_of(ops, argument)
        return
    term = term_of(ops, value)
    if term != ZERO:
        yield term


def registers(term: Term) -> Iterator[Key]:
    """Cells that a value reads."""
    if term[0] in ("get_reg", "get_ureg"):
        yield from cells(term[0], term[1])
    for part in term[2:]:
        yield from registers(part)


def find_low(low: Lowered) -> tuple[int, int, list[Term]] | None:
    """(carry's predicate, register, terms) of an instruction that adds two words and outputs the carry."""
    written = {op.name: op for op in low.ops if op.name[:4] == "set_"}
    if set(written) != {"set_reg", "set_pred"}:
        return None
    total = written["set_reg"].args[0]
    carry = low.ops[written["set_pred"].args[0]]
    whole = low.ops[total]
    if whole.name != "add" or (carry.name, carry.attr) != ("icmp", "ult"):
        return None
    if carry.args[0] != total or carry.args[1] not in whole.args:
        return None
    terms = [term_of(low.ops, a) for a in whole.args]
    if any(t[0] == "add" for t in terms):
        return None
    return written["set_pred"].attr, written["set_reg"].attr, terms


def find_high(low: Lowered, written: Op) -> tuple[int, int, list[Term]] | None:
    """(carry's predicate, register, other terms) of an instruction that adds a carry and only writes that register."""
    if not any(op.name == "zext" for op in low.ops):
        return None
    terms = list(terms_of(low.ops, written.args[0]))
    carries = [t for t in terms if t[0] == "zext" and t[2][0] == "get_pred"]
    if len(carries) != 1 or len(terms) > 3:
        return None
    terms.remove(carries[0])
    return carries[0][2][1], written.attr, terms


def find_copy(low: Lowered, written: Op) -> tuple[int, Term] | None:
    """(register, new value) of a plain copy, an instruction that only writes that register."""
    if low.guard is not None or low.ops[written.args[0]].name not in COPIED:
        return None
    term = term_of(low.ops, written.args[0])
    return (written.attr, term) if term[0] in ("get_reg", "get_ureg", "load_const") else None


def find_sign(low: Lowered, written: Op) -> tuple[int, int] | None:
    """(register, register whose sign extension it holds) of an instruction that only writes the first."""
    if low.guard is not None or low.ops[written.args[0]].name not in SHIFTED:
        return None
    term = term_of(low.ops, written.args[0])
    if term[0] != "ashr" or term[3] != SIGN or term[2][0] != "get_reg" or term[2][1] == written.attr:
        return None
    return written.attr, term[2][1]


def touched(low: Lowered) -> tuple[set[Key], set[Key]]:
    """(cells read, cells written) by an instruction."""
    read: set[Key] = set()
    written: set[Key] = set()
    if low.guard is not None:
        read.add(FILE_BASE[low.guard[0]] + low.guard[1])
    for op in low.ops:
        (read if op.name[:4] == "get_" else written).update(cells(op.name, op.attr))
    return read, written


# --- writing --------------------------------------------------------------------------------------
def write_word(w: Writer, term: Term) -> int | None:
    """Write a word's expression again; None if it is not simple."""
    if term[0] in LEAVES:
        return w.op(term[0], "i32", attr=term[1])
    if term[0] == "load_const" and term[2][0] == "const":
        return w.op("load_const", "i32", w.op("const", "i32", attr=term[2][1]), attr=term[1])
    return None


def write_pair(w: Writer, low: Term, high: Term, signs: dict[int, int]) -> int | None:
    """The 64-bit value of two words; None if they are not simple.  ``signs``: registers that hold the sign extension of
    others."""
    if low[0] == "shl":
        return _write_shifted(w, low, high, signs)
    if low[0] == high[0] == "get_reg" and high[1] == low[1] + 1 and low[1] % 2 == 0:
        return w.op("get_reg64", "i64", attr=low[1])
    if low[0] == high[0] == "const":
        return w.op("const", "i64", attr=low[1] | high[1] << 32)
    if low[0] == "load_const" and low[2][0] == "const" and high == ("load_const", low[1], ("const", low[2][1] + 4)):
        return w.op("load_const", "i64", w.op("const", "i32", attr=low[2][1]), attr=(low[1][0], 8))
    word = write_word(w, low)
    if word is None:
        return None
    if high == ("ashr", None, low, SIGN) or (low[0] == high[0] == "get_reg" and signs.get(high[1]) == low[1]):
        return w.op("sext", "i64", word)
    if high == ZERO:
        return w.op("zext", "i64", word)
    upper = write_word(w, high)
    return None if upper is None else w.op("pack64", "i64", word, upper)


def _write_shifted(w: Writer, low: Term, high: Term, signs: dict[int, int]) -> int | None:
    """LEA: the bits shifted out of the low word enter the high word."""
    base, amount = low[2], low[3]
    if amount[0] != "const" or not 0 < amount[1] < 32:
        return None
    leaves = ("lshr", None, base, ("const", 32 - amount[1]))
    upper = ZERO
    if high != leaves:
        parts = [part for part in high[2:] if part != leaves]
        if high[0] != "or" or len(parts) != 1 or parts[0][0] != "shl" or parts[0][3] != amount:
            return None
        upper = parts[0][2]
    value = write_pair(w, base, upper, signs)
    return None if value is None else w.op("shl", "i64", value, w.op("const", "i64", attr=amount[1]))


def write_sum(target: int, low: list[Term], high: list[Term], signs: dict[int, int]) -> list[Op] | None:
    """Operations of a complete sum.  Any high word that belongs to a low word gives the same sum, so the simplest is
    used."""
    found: list[list[Op]] = []
    padded = [*high, ZERO, ZERO][:2]
    for order in (padded, padded[::-1]):
        w = Writer()
        values = [write_pair(w, a, b, signs) for a, b in zip(low, order, strict=True)]
        whole = [v for v in values if v is not None]
        if len(whole) == len(low):
            w.op("set_reg64", "void", w.op("add", "i64", *whole), attr=target)
            found.append(w.ops)
    return min(found, key=lambda ops: sum(op.name in ("pack64", "zext") for op in ops), default=None)


def write_copy(target: int, low: Term, high: Term, made_wide: set[int]) -> list[Op] | None:
    """Operations of a copied pair; None for two words that are unrelated neighbours."""
    w = Writer()
    value = write_pair(w, low, high, {})
    if value is None or low[0] != high[0]:
        return None
    if low[0] == "get_reg" and (w.ops[value].name != "get_reg64" or low[1] not in made_wide):
        return None
    w.op("set_reg64", "void", value, attr=target)
    return w.ops


# --- the kernel -----------------------------------------------------------------------------------
class _Block:
    """One pass over a basic block: which registers hold halves of a sum, and where both are adjacent."""

    def __init__(self, result: list[Lowered], read_wide: set[int], made_wide: set[int]) -> None:
        self.result = result
        self.read_wide = read_wide
        self.made_wide = made_wide
        self.carries: dict[int, Half] = {}
        self.halves: dict[int, Half] = {}
        self.copies: dict[int, tuple[int, Term]] = {}
        self.signs: dict[int, int] = {}

    def visit(self, index: int) -> None:
        low = self.result[index]
        written = [op for op in low.ops if op.name[:4] == "set_"]
        if not written:
            return
        first = find_low(low) if len(written) == 2 else None
        high, copy, sign = None, None, None
        if len(written) == 1 and written[0].name == "set_reg":
            high, copy, sign = find_high(low, written[0]), find_copy(low, written[0]), find_sign(low, written[0])
        carry = None if high is None else self.carries.get(high[0])
        copied = self.halves.get(copy[1][1]) if copy is not None and copy[1][0] == "get_reg" else None
        signs = self.signs
        for cell in (c for op in written for c in cells(op.name, op.attr)):
            if is_predicate(cell):
                self.carries.pop(cell - FILE_BASE["pred"], None)
            elif cell >= REG:
                number = cell - REG
                self.signs = {a: b for a, b in self.signs.items() if number not in (a, b)}
                self.copies.pop(number, None)
                self.halves.pop(number, None)
        if first is not None:
            self.carries[first[0]] = self.halves[first[1]] = Half(index, index, first[2])
        elif high is not None and carry is not None:
            self.halves[high[1]] = Half(index, index, high[2], carry)
        elif copied is not None and copy is not None:
            self.halves[copy[0]] = replace(copied, written=index)
        if sign is not None:
            self.signs[sign[0]] = sign[1]
        target = next((op.attr for op in written if op.name == "set_reg"), None)
        if target is None or self._close_sum(index, target, signs):
            return
        if copy is not None and not self._close_copy(index, *copy):
            self.copies[copy[0]] = (index, copy[1])

    def _close_sum(self, index: int, target: int, signs: dict[int, int]) -> bool:
        """Write a sum whose second half has just been written."""
        low, high = self.halves.get(target & ~1), self.halves.get(target | 1)
        if low is None or high is None or high.low is None or low.low is not None or high.low.made != low.made:
            return False
        other = low if target & 1 else high
        if len({self.result[n].guard for n in (low.made, high.made, other.written, index)}) > 1:
            return False
        ops = write_sum(target & ~1, low.terms, high.terms, signs)
        if ops is None or not self._apart(target ^ 1, other.written, index, low.made, [*low.terms, *high.terms]):
            return False
        self._join(target ^ 1, other.written, index, ops)
        return True

    def _close_copy(self, index: int, target: int, value: Term) -> bool:
        """Write a pair whose second word has just been copied."""
        first, term = self.copies.get(target ^ 1, (-1, ZERO))
        if first < 0 or target & ~1 not in self.read_wide:
            return False
        words = (term, value) if target & 1 else (value, term)
        ops = write_copy(target & ~1, *words, self.made_wide)
        if ops is None or not self._apart(target ^ 1, first, index, first, list(words)):
            return False
        self._join(target ^ 1, first, index, ops)
        return True

    def _apart(self, target: int, first: int, second: int, made: int, sources: list[Term]) -> bool:
        """Whether the second instruction may write the result that ``first`` writes to a register.

        ``sources`` are values at instruction ``made``; only that write may change them before the second instruction.
        """
        cell = REG + target
        stay = {c for term in sources for c in registers(term)}
        guard = self.result[first].guard
        if guard is not None:
            stay.add(FILE_BASE[guard[0]] + guard[1])
        for index in range(made, second):
            read, written = touched(self.result[index])
            if index == first:
                written.discard(cell)
            elif index > first and (cell in read or cell in written):
                return False
            if stay & written:
                return False
        return cell not in touched(self.result[second])[0]

    def _join(self, target: int, first: int, second: int, ops: list[Op]) -> None:
        """Let the second instruction write both registers, and leave only the carry to the first."""
        early = self.result[first]
        nothing = Op("const", "i32", (), 0)
        kept = [nothing if op.name == "set_reg" else op for op in early.ops]
        self.result[first] = Lowered(kept, early.guard)
        self.result[second] = Lowered(ops, self.result[second].guard)
        self.made_wide.add(target & ~1)
        for number in (target, target ^ 1):
            self.halves.pop(number, None)
            self.copies.pop(number, None)


def widen(blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> list[Lowered]:
    """Fuse the 64-bit sums of a kernel where this is safe."""
    result = list(lowered)
    read_wide = {op.attr for low in lowered for op in low.ops if op.name == "get_reg64"}
    made_wide = {op.attr for low in lowered for op in low.ops if op.name == "set_reg64"}
    for block in blocks:
        one = _Block(result, read_wide, made_wide)
        for index in range(block.first, block.first + block.count):
            one.visit(index)
    if any(new is not old for new, old in zip(result, lowered, strict=True)):
        _drop_carries(blocks, lowered, result)
    return result


def _drop_carries(blocks: Sequence[BasicBlock], before: Sequence[Lowered], result: list[Lowered]) -> None:
    """Remove unused carries, which would count as other uses of an address's low word."""
    live: list[set[Key]] = [set() for _ in blocks]
    changes = [new is not old for new, old in zip(result, before, strict=True)]
    found = map(_predicates, result)
    effects = {index: both for index, both in enumerate(found) if any(both) or changes[index]}
    concerned = [[index for index in range(b.first + b.count - 1, b.first - 1, -1) if index in effects] for b in blocks]
    """The dead predicates of each block, scanned from its end."""
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            alive = set().union(*(live[s] for s in block.successors))
            for index in concerned[block.number]:
                read, gone = effects[index]
                alive = alive - gone | read
            if alive != live[block.number]:
                live[block.number] = alive
                changed = True
    for block in blocks:
        alive = set().union(*(live[s] for s in block.successors))
        for index in concerned[block.number]:
            low = result[index]
            carry_only = changes[index] and all(op.name[:4] != "set_" or op.name == "set_pred" for op in low.ops)
            if carry_only and not alive & touched(low)[1]:
                low = result[index] = Lowered([], low.guard)
                effects[index] = _predicates(low)
            read, gone = effects[index]
            alive = alive - gone | read


def _predicates(low: Lowered) -> tuple[set[Key], set[Key]]:
    """(predicates that an instruction reads, those that are dead before it)."""
    read: set[Key] = set()
    gone: set[Key] = set()
    if low.guard is not None:
        read.add(FILE_BASE[low.guard[0]] + low.guard[1])
    for op in low.ops:
        if op.name in ("get_pred", "get_upred"):
            read.update(cells(op.name, op.attr))
        elif op.name in ("set_pred", "set_upred") and low.guard is None:
            gone.update(cells(op.name, op.attr))
    return read, gone
