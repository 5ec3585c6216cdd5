"""A position in PTX text: reads tokens in sequence, and constant expressions (PTX ISA, section 4.6)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from warpwright.isa.ptx.lexer import Token, tokens
from warpwright.isa.ptx.syntax import Immediate, PtxError

PRECEDENCE = ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")


class Reader:
    """Reads tokens; errors name the text, the line and the token found.

    Args:
        name: name of the text in messages.
    """

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.tokens = tokens(text, name)
        self.position = 0

    @property
    def word(self) -> Token:
        return self.tokens[self.position]

    def advance(self) -> Token:
        token = self.tokens[self.position]
        self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        return self.word.text in texts

    def accept(self, text: str) -> bool:
        if self.word.text == text and self.word.kind != "string":
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.word.text != text:
            raise self.error(f"expected '{text}'")
        return self.advance()

    def error(self, what: str) -> PtxError:
        found = f"found '{self.word.text}'" if self.word.kind != "end" else "the text ends"
        line = self.text.splitlines()[self.word.line - 1].strip() if self.text else ""
        return PtxError(f"{self.name}:{self.word.line}: {what}, but {found}\n  {line}")

    def identifier(self) -> str:
        if self.word.kind != "word":
            raise self.error("expected a name")
        return self.advance().text

    def integer(self) -> int:
        value = self.expression()
        if not isinstance(value, int):
            raise self.error("expected an integer")
        return value

    def skip_line(self) -> None:
        line = self.word.line
        while self.word.line == line and self.word.kind != "end":
            self.position += 1

    def skip_braces(self) -> None:
        self.expect("{")
        depth = 1
        while depth:
            token = self.advance()
            if token.kind == "end":
                self.position -= 1
                raise self.error("expected '}'")
            depth += (token.text == "{") - (token.text == "}")

    def skip_to_semicolon(self) -> None:
        while not self.accept(";"):
            if self.word.kind == "end":
                raise self.error("expected ';'")
            self.advance()

    def displacement(self) -> int:
        """An optional ``+ n`` or ``- n``."""
        total = 0
        while self.at("+", "-"):
            sign = 1 if self.advance().text == "+" else -1
            value = self.unary()
            if not isinstance(value, int):
                raise self.error("expected an integer")
            total += sign * value
        return total

    def expression(self, level: int = 0) -> int | Immediate:
        """A constant expression: integers as int, floats as Immediate."""
        if level == len(PRECEDENCE):
            return self.unary()
        left = self.expression(level + 1)
        while self.word.kind == "mark" and self.word.text in PRECEDENCE[level].split():
            operator = self.advance().text
            right = self.expression(level + 1)
            if not isinstance(left, int) or not isinstance(right, int):
                raise self.error("floating-point constants cannot be combined")
            left = _combine(operator, left, right)
        if level == 0 and isinstance(left, int) and self.accept("?"):
            yes = self.expression()
            self.expect(":")
            no = self.expression()
            return yes if left else no
        return left

    def unary(self) -> int | Immediate:
        token = self.word
        if token.kind == "integer":
            self.advance()
            text = token.text.rstrip("U")
            if len(text) > 1 and text[0] == "0" and text.isdigit():
                return int(text, 8)
            return int(text, 0)
        if token.kind == "float":
            self.advance()
            return _float(token.text)
        if token.text == "WARP_SZ":
            self.advance()
            return 32
        if token.text in ("-", "~", "!", "+"):
            self.advance()
            value = self.unary()
            if isinstance(value, Immediate):
                return (
                    Immediate(value.bits ^ 1 << value.float_bits - 1, value.float_bits) if token.text == "-" else value
                )
            return {"-": -value, "~": ~value, "!": int(not value), "+": value}[token.text]
        if token.text == "(":
            self.advance()
            if self.word.text in (".s64", ".u64"):  # a cast
                self.advance()
                self.expect(")")
                return self.unary()
            inner = self.expression()
            self.expect(")")
            return inner
        raise self.error("expected a constant")


def _float(text: str) -> Immediate:
    if text[:2] in ("0f", "0F"):
        return Immediate(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D"):
        return Immediate(int(text[2:], 16), 64)
    return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)


def _combine(operator: str, x: int, y: int) -> int:
    if operator in ("/", "%") and y == 0:
        raise PtxError("a constant expression divides by zero")
    quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if operator in ("/", "%") else 0
    known: dict[str, Callable[[], int]] = {
        "+": lambda: x + y,
        "-": lambda: x - y,
        "*": lambda: x * y,
        "/": lambda: quotient,
        "%": lambda: x - y * quotient,
        "<<": lambda: x << y,
        ">>": lambda: x >> y,
        "&": lambda: x & y,
        "|": lambda: x | y,
        "^": lambda: x ^ y,
        "==": lambda: int(x == y),
        "!=": lambda: int(x != y),
        "<": lambda: int(x < y),
        "<=": lambda: int(x <= y),
        ">": lambda: int(x > y),
        ">=": lambda: int(x >= y),
        "&&": lambda: int(bool(x) and bool(y)),
        "||": lambda: int(bool(x) or bool(y)),
    }
    return known[operator]()
