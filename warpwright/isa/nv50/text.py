"""Prints NV50 instructions as ``envydis`` does."""

from __future__ import annotations

from warpwright.isa.nv50.decode import context_of, tokens_of
from warpwright.isa.nv50.fields import Token
from warpwright.isa.nv50.rows import IMMEDIATE, LONG, TAILS, read_guard
from warpwright.isa.program import Instruction, Kind, Operand


def number(value: int) -> str:
    return f"{value & 0xFFFFFFFFFFFFFFFF:#x}"


def format_operand(o: Operand) -> str:
    """One operand with its modifiers."""
    marks = ("neg " if o.negate else "") + ("abs " if o.absolute else "") + ("not " if o.invert else "")
    return marks + _plain(o)


def _plain(o: Operand) -> str:
    if o.kind is Kind.REGISTER:
        if o.name == "a":
            return f"$a{o.index}" if o.index else "0x0"
        return f"$r{o.index}{o.suffix}"
    if o.kind is Kind.PREDICATE:
        return f"$c{o.index}"
    if o.kind is Kind.SPECIAL:
        return f"${o.name}"
    if o.kind in (Kind.IMMEDIATE, Kind.LABEL):
        return f"-{-o.value:#x}" if o.value < 0 else number(o.value)
    if o.kind in (Kind.MEMORY, Kind.CONSTANT):
        return _memory(o)
    return o.name


def _memory(o: Operand) -> str:
    where = "0x0" if o.base is None and o.reuse else "" if o.base is None else _plain(o.base)
    if o.name == "g":
        inside = where
    elif o.reuse:
        inside = f"{where}++{number(o.value)}"
    else:
        inside = f"{where}+{number(o.value)}" if where and o.value else where or number(o.value)
    numbered = f"{o.index}" if o.name in ("c", "g") else ""
    return (f"{o.suffix} " if o.suffix else "") + f"{o.name}{numbered}[{inside}]"


def text_of(word: int, arch: int, stage: str = "cp") -> str:
    """A word as text.  Raises UndefinedField if it is not an instruction."""
    context = context_of(arch, stage)
    row, tokens = tokens_of(word, context)
    before = []
    if row.form == LONG and TAILS[word >> 32 & 3]:
        before.append(TAILS[word >> 32 & 3])
    if row.form == LONG or (row.is_wide and row.form != IMMEDIATE and row.guarded):
        guard = read_guard(word)
        if guard is not None:
            before.append(f"({guard[0]}{'' if guard[0] == 'never' else f' $c{guard[1]}'})")
    return " ".join([*before, join(tokens)])


def join(tokens: list[Token]) -> str:
    text, vector = "", False
    for t in tokens:
        if t in ("{", "}"):
            vector = t == "{"
            text += " " if vector else ""
            continue
        glue = ":" if vector else " "
        text += ("" if not text or text[-1] in " (" or t == ")" else glue) + (
            t if isinstance(t, str) else format_operand(t)
        )
    return text.replace("  ", " ")


def format_instruction(i: Instruction, arch: int = 13) -> str:
    """An instruction of a program as text."""
    return text_of(i.encoding, arch)
