"""Splits PTX text into the lexical elements of the PTX ISA manual, chapter 4."""

from __future__ import annotations

import re
from typing import NamedTuple

from warpwright.isa.ptx.syntax import PtxError

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f]+|//[^\n]*)
    |(?P<newline>\n)
    |(?P<comment>/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
    |(?P<directive>@@\w+|\.[A-Za-z_][\w$]*(?:::\w+)*)
    |(?P<word>(?:%[A-Za-z_$][\w$]*|[A-Za-z_$][\w$]*)(?:(?:\.|::)\w+)*)
    |(?P<mark><<|>>|&&|\|\||==|!=|<=|>=|[{}\[\]()<>,;:|!@+\-*/%&^~?=])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """One token."""

    kind: str
    """string | float | integer | directive | word | mark | end."""
    text: str
    line: int
    start: int
    """Offset in the text."""


def tokens(text: str, name: str = "PTX") -> list[Token]:
    """All tokens of ``text``, followed by an ``end`` token.

    Raises:
        PtxError: at a character that cannot begin a token.
    """
    found: list[Token] = []
    line, position, end = 1, 0, len(text.rstrip("\0 \n\t"))
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise PtxError(f"{name}:{line}: {text[position]!r} begins no word of PTX")
        kind = match.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += match[0].count("\n")
        elif kind != "space":
            found.append(Token(kind, match[0], line, position))
        position = match.end()
    found.append(Token("end", "", line, end))
    return found
