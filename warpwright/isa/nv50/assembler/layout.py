"""Encodes machine instructions: chooses the shortest form that fits, aligns, and resolves branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from warpwright.isa.nv50.assembler.virtual_instructions import Code, Inst
from warpwright.isa.nv50.decode import context_of, encode, rows_called
from warpwright.isa.nv50.fields import Context, DoesNotFit, Token
from warpwright.isa.nv50.rows import SHORT, Row
from warpwright.isa.program import Kind, Operand

COMMUTES = frozenset(("iadd", "logic", "fadd", "fmul", "imin", "imax", "fmin", "fmax", "mul16"))
ROUNDED_BY_DEFAULT = frozenset(("fadd", "fmul"))
"""Instructions whose short forms have no rounding field: they round to nearest."""


class AssemblyError(ValueError):
    """No form of an instruction can hold its operands: a bug in the assembler."""


@dataclass(slots=True)
class Placed:
    """An encoded instruction, or a label."""

    inst: Inst
    word: int = 0
    size: int = 0
    address: int = 0


def variants(i: Inst) -> Iterator[list[Token]]:
    """The tokens, and equivalent spellings: sources exchanged, or a rounding mode omitted that a form implies."""
    yield i.tokens
    if i.opcode in COMMUTES and "sub" not in i.tokens and "subr" not in i.tokens:
        sources = [n for n, t in enumerate(i.tokens) if isinstance(t, Operand) and t.kind is not Kind.PREDICATE][1:]
        if len(sources) == 2:
            swapped = list(i.tokens)
            a, b = sources
            swapped[a], swapped[b] = swapped[b], swapped[a]
            yield swapped
    if i.opcode in ROUNDED_BY_DEFAULT and "rn" in i.tokens:
        yield [t for t in i.tokens if t != "rn"]


def shortest(i: Inst, context: Context) -> tuple[int, int]:
    """The shortest encoding and its size in bytes."""
    rows: tuple[Row, ...] = rows_called(i.opcode)
    for short in (True, False):
        for row in rows:
            if (row.form == SHORT) != short or not row.fits(context):
                continue
            for tokens in variants(i):
                try:
                    return encode(row, tokens, context, i.guard, i.tail), 8 if row.is_wide else 4
                except DoesNotFit:
                    continue
    raise AssemblyError(f"no form of {i.opcode} holds {i.tokens} with guard {i.guard}")


def long_form(i: Inst, context: Context) -> int:
    """The 8-byte encoding."""
    for row in rows_called(i.opcode):
        if row.is_wide and row.fits(context):
            for tokens in variants(i):
                try:
                    return encode(row, tokens, context, i.guard, i.tail)
                except DoesNotFit:
                    continue
    if i.opcode == "fmul" or i.opcode == "fadd":
        return long_form(Inst(i.opcode, [i.tokens[0], "rn", *i.tokens[1:]], i.guard, i.tail), context)
    raise AssemblyError(f"no long form of {i.opcode} holds {i.tokens}")


def assemble(code: Code, arch: int) -> tuple[bytes, list[tuple[int, Inst]]]:
    """Machine code, and each instruction with its address.

    Raises:
        AssemblyError: for an instruction without a form.
    """
    context = context_of(arch)
    placed: list[Placed] = []
    for i in code.instructions:
        if i.opcode == "label":
            placed.append(Placed(i))
        elif i.label:
            # A branch, at first to address 0; its size is 8 bytes whatever its target.
            placed.append(Placed(i, 0, 8))
        else:
            placed.append(Placed(i, *shortest(i, context)))
    _pair(placed, context)
    labels: dict[str, int] = {}
    at = 0
    for p in placed:
        p.address = at
        if p.inst.opcode == "label":
            labels[p.inst.label] = at
        at += p.size
    for p in placed:
        if p.inst.label and p.inst.opcode != "label":
            target = Operand(Kind.LABEL, value=labels[p.inst.label])
            name = "joinat" if p.inst.opcode == "joinat" else p.inst.opcode
            p.word = long_form(replace(p.inst, opcode=name, tokens=[name, target]), context)
    code_bytes = b"".join(p.word.to_bytes(p.size, "little") for p in placed if p.size)
    return code_bytes, [(p.address, p.inst) for p in placed if p.size]


def _pair(placed: list[Placed], context: Context) -> None:
    """Words of 4 bytes come in pairs; a single one before a label or a long word is encoded as a long word."""
    n = 0
    while n < len(placed):
        if placed[n].size != 4:
            n += 1
            continue
        if n + 1 < len(placed) and placed[n + 1].size == 4:
            n += 2
            continue
        placed[n].word, placed[n].size = long_form(placed[n].inst, context), 8
        n += 1
