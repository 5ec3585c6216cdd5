"""Assembles NV50 machine code from text, in the form in which ``isa.nv50.text`` (and ``envydis``) print it.

A line is an instruction, ``exit`` or ``join`` before it where it has such a tail, and ``(test $c0)`` where it is guarded; ``name:`` is a label, which branches
name, and ``//`` begins a comment. The tables of the decoder say which words and operands an instruction has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from warpwright.isa.nv50.decode import ROWS, context_of, encode
from warpwright.isa.nv50.fields import (
    NOWHERE,
    Context,
    DoesNotFit,
    Token,
    UndefinedField,
    address_register,
    condition_register,
    register,
)
from warpwright.isa.nv50.rows import TAILS, Row
from warpwright.isa.nv50.special import NAMES as SPECIAL_NAMES
from warpwright.isa.nv50.text import join, text_of
from warpwright.isa.program import Kind, Operand

ARCH = 10
_GUARD = re.compile(r"^\((?!l\d)(\w+)(?: \$c([0-3]))?\)\s+")
_LABEL = re.compile(r"^([A-Za-z_]\w*):")
_BRACKETS = re.compile(r"\(l\d+\)|[{}()]")
"""Brackets are words of their own, except those of lanes: ``(l02)``."""
_REGISTER = re.compile(r"^\$(r|a|c)(\d+)([lhdq]?)$")
_NUMBER = re.compile(r"^-?(?:0x[0-9a-f]+|0|[1-9]\d*)$")
_MEMORY = re.compile(r"^([a-z])(\d*)\[([^\]]*)\]$")
_INSIDE = re.compile(r"^(?:\$a(\d+))?(\+\+|\+)?(0x[0-9a-f]+|0|[1-9]\d*)?$")
_MARKS = {"neg": "negate", "abs": "absolute", "not": "invert"}
_ROUNDED = (("add", "f32"), ("mul", "f32"))
"""Instructions whose short words round to the nearest without saying so."""


class AssemblyError(ValueError):
    """A line is no instruction of the chip in this kind of program; the message has its number."""


@dataclass(slots=True)
class _Line:
    number: int
    text: str
    tail: str
    guard: tuple[str, int] | None
    words: list[str]
    short: int | None = None
    wide: int | None = None
    is_wide: bool = True
    address: int = 0


def assemble(text: str, stage: str = "cp", address: int = 0) -> bytes:
    """Return the machine code of a program.

    Args:
        stage: the kind of program: ``vp`` vertex, ``gp`` geometry, ``fp`` pixel, ``cp`` compute.
        address: where its first byte will be, a multiple of 8; targets of branches count from 0.

    Raises:
        AssemblyError: a line is no instruction of the chip; the message has the line's number.
    """
    context = context_of(ARCH, stage)
    lines, labels = _read(text)
    if not lines:
        raise AssemblyError("the program has no instruction")
    for line in lines:
        _encode(line, context, dict.fromkeys(labels, 0))
    _choose(lines, set(labels.values()))
    at = address
    for line in lines:
        line.address = at
        at += 8 if line.is_wide else 4
    known = {name: lines[n].address if n < len(lines) else at for name, n in labels.items()}
    code = b""
    for line in lines:
        if labels and any(word in known for word in line.words):
            _encode(line, context, known)
        word = line.wide if line.is_wide else line.short
        assert word is not None
        code += word.to_bytes(8 if line.is_wide else 4, "little")
    return code


def _read(text: str) -> tuple[list[_Line], dict[str, int]]:
    """The lines with instructions, and the line after each label."""
    lines: list[_Line] = []
    labels: dict[str, int] = {}
    for number, whole in enumerate(text.splitlines(), 1):
        rest = whole.split("//")[0].strip()
        while (label := _LABEL.match(rest)) is not None:
            labels[label[1]] = len(lines)
            rest = rest[label.end() :].strip()
        if not rest:
            continue
        tail = next((t for t in TAILS if t and rest.startswith(t + " ")), "")
        plain = rest[len(tail) :].strip()
        guard = _GUARD.match(plain)
        found = (guard[1], int(guard[2] or 0)) if guard else None
        words = _BRACKETS.sub(r" \g<0> ", plain[guard.end() if guard else 0 :]).split()
        lines.append(_Line(number, rest, tail, found, words))
    return lines, labels


def _choose(lines: Sequence[_Line], targets: set[int]) -> None:
    """Words of 4 bytes come in pairs, of which the second is no target of a branch."""
    n = 0
    while n < len(lines):
        pair = lines[n : n + 2]
        if len(pair) == 2 and all(line.short is not None for line in pair) and n + 1 not in targets:
            for line in pair:
                line.is_wide = False
            n += 2
            continue
        if lines[n].wide is None:
            raise AssemblyError(
                f"line {lines[n].number}: {lines[n].text}: it has a form of 4 bytes only, which wants a second one beside it"
            )
        n += 1


def _encode(line: _Line, context: Context, labels: dict[str, int]) -> None:
    """Set the shortest and the long word of a line.

    Raises:
        AssemblyError: it has neither.
    """
    line.short = line.wide = None
    for tokens in _readings(line.words, labels):
        for row in ROWS:
            if not row.fits(context) or (line.wide if row.is_wide else line.short) is not None:
                continue
            word = _word(row, tokens, line, context)
            if word is not None and row.is_wide:
                line.wide = word
            elif word is not None:
                line.short = word
    if line.short is None and line.wide is None:
        raise AssemblyError(f"line {line.number}: {line.text}: no instruction of this chip has this form")


def _word(row: Row, tokens: list[Token], line: _Line, context: Context) -> int | None:
    """A line in one form; None if it does not fit, or would print otherwise."""
    try:
        word = encode(row, tokens, context, line.guard, line.tail)
        printed = text_of(word, ARCH, context.stage)
    except (DoesNotFit, UndefinedField):
        return None
    guard = (
        "" if line.guard is None else f"({line.guard[0]}{'' if line.guard[0] == 'never' else f' $c{line.guard[1]}'})"
    )
    return word if printed == " ".join(part for part in (line.tail, guard, join(tokens)) if part) else None


def _readings(words: Sequence[str], labels: dict[str, int]) -> Iterator[list[Token]]:
    """The ways to read a line: marks may belong to the instruction, numbers may be targets, one register may be a vector, and short words' rounding may be left out."""
    spellings = [list(words)]
    if tuple(words[:2]) in _ROUNDED:
        spellings.append([words[0], "rn", *words[1:]])
    for spelling in spellings:
        for as_label, marks in ((False, True), (True, True), (False, False)):
            tokens = _tokens(spelling, labels, as_label, marks)
            yield tokens
            single = [
                n for n, t in enumerate(tokens) if isinstance(t, Operand) and t.kind is Kind.REGISTER and not t.suffix
            ]
            for n in single if words[0].startswith("tex") else ():
                yield [*tokens[:n], "{", tokens[n], "}", *tokens[n + 1 :]]


def _tokens(words: Sequence[str], labels: dict[str, int], as_label: bool, with_marks: bool) -> list[Token]:
    """One reading; without marks, ``neg``, ``abs`` and ``not`` belong to the instruction and not to an operand."""
    tokens: list[Token] = []
    marks: dict[str, bool] = {}
    for n, word in enumerate(words):
        if word in _MARKS and n and with_marks:
            marks[_MARKS[word]] = True
            continue
        if ":" in word:
            tokens += ["{", *(_operand(part, labels, as_label) for part in word.split(":")), "}"]
            continue
        token = _operand(word, labels, as_label)
        if marks and isinstance(token, Operand):
            token, marks = replace(token, **marks), {}  # type: ignore[arg-type]
        tokens.append(token)
    return tokens


def _operand(word: str, labels: dict[str, int], as_label: bool) -> Token:
    """An operand, or a word of the instruction."""
    if word in labels:
        return Operand(Kind.LABEL, value=labels[word])
    if word == "#":
        return NOWHERE
    if (found := _REGISTER.match(word)) is not None:
        number = int(found[2])
        if found[1] == "r":
            return register(number, found[3])
        return address_register(number) if found[1] == "a" else condition_register(number)
    if word.startswith("$"):
        return _special(word[1:])
    if _NUMBER.match(word):
        value = int(word, 0)
        return Operand(Kind.LABEL if as_label else Kind.IMMEDIATE, value=value)
    if (found := _MEMORY.match(word)) is not None and (inside := _INSIDE.match(found[3])) is not None:
        base = address_register(int(inside[1])) if inside[1] else None
        kind = Kind.CONSTANT if found[1] == "c" else Kind.MEMORY
        value = int(inside[3], 0) if inside[3] else 0
        return Operand(kind, int(found[2] or 0), value, base=base, name=found[1], reuse=inside[2] == "++")
    return word


def _special(name: str) -> Operand:
    """``$t0``, ``$s0`` and registers with names."""
    digits = name.lstrip("abcdefghijklmnopqrstuvwxyz_")
    number = next((n for n, known in SPECIAL_NAMES.items() if known == name), int(digits) if digits.isdigit() else 0)
    return Operand(Kind.SPECIAL, number, name=name)
