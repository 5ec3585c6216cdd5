"""Evaluates C expressions over a stopped thread: registers, built-in variables, parameters, device variables and memory.

Machine code names no local variables (``-lineinfo`` has lines alone); a name that is none of the above is an error that says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

SCALARS: Mapping[str, str] = {
    "bool": "u1",
    "char": "i1",
    "signed char": "i1",
    "unsigned char": "u1",
    "short": "i2",
    "unsigned short": "u2",
    "int": "i4",
    "unsigned": "u4",
    "unsigned int": "u4",
    "long": "i8",
    "unsigned long": "u8",
    "long long": "i8",
    "unsigned long long": "u8",
    "half": "f2",
    "__half": "f2",
    "float": "f4",
    "double": "f8",
    "size_t": "u8",
    **{f"{sign}int{bits}_t": f"{'u' if sign else 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
"""C types and their NumPy forms."""
SPACES = ("global", "shared", "local", "generic")


class ExpressionError(Exception):
    """An expression that cannot be read or evaluated."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address with the type of what is there."""

    address: int
    type: str
    """A C type, as :data:`SCALARS` names it; a ``*`` at its end for pointers to pointers."""
    space: str = "generic"

    @property
    def size_bytes(self) -> int:
        return 8 if self.type.endswith("*") else np.dtype(SCALARS[self.type]).itemsize

    def at(self, index: int) -> Pointer:
        """The pointer ``index`` elements further."""
        return Pointer(self.address + index * self.size_bytes, self.type, self.space)

    def __str__(self) -> str:
        space = f"@{self.space} " if self.space in ("shared", "local") else ""
        return f"({space}{self.type} *) {self.address:#x}"


@dataclass(frozen=True, slots=True)
class Vector:
    """threadIdx and its like."""

    x: int
    y: int
    z: int

    def __str__(self) -> str:
        return f"{{x = {self.x}, y = {self.y}, z = {self.z}}}"


Value: TypeAlias = int | float | Pointer | Vector


class Scope(Protocol):
    """Where an expression finds what it names."""

    def name(self, name: str) -> Value | None:
        """The value of a name, ``$R4`` and the like included; None where nothing is called so."""

    def load(self, pointer: Pointer) -> int | float:
        """The value that a pointer points to.

        Raises:
            ExpressionError: it points nowhere.
        """


_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+\.\d*(?:[eE][-+]?\d+)?f?|\d+(?:[eE][-+]?\d+)f?|\d+)[uUlL]*"
    r"|(?P<name>\$\w+(?:\.64)?|@\w+|[A-Za-z_]\w*(?:::\w+)*)"
    r"|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^~!<>()\[\].]))"
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", ">", "<=", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_INTEGER: Mapping[str, Callable[[int, int], int]] = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "%": lambda a, b: a - b * int(a / b),
}
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def tokens_of(text: str) -> list[str]:
    """Cut an expression into its tokens.

    Raises:
        ExpressionError: at a character that no expression has.
    """
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"cannot read {text[at:]!r} in {text!r}")
        found.append(match.group("number") or match.group("name") or match.group("sign"))
        at = match.end()
    return found


def evaluate(text: str, scope: Scope) -> Value:
    """The value of an expression.

    Raises:
        ExpressionError: it cannot be read, names something unknown, or reads memory that is not there.
    """
    parser = _Parser(tokens_of(text), text, scope)
    value = parser.binary(0)
    if parser.tokens:
        raise ExpressionError(f"cannot read {parser.tokens[0]!r} in {text!r}")
    return value


def well_formed(text: str) -> None:
    """Refuse what cannot be an expression, before there is a thread for which to evaluate it.

    Raises:
        ExpressionError: it has no tokens, unpaired brackets, or ends with an operator.
    """
    tokens, open_ = tokens_of(text), list[str]()
    for token in tokens:
        if token in "([":
            open_.append(")" if token == "(" else "]")
        elif token in ")]" and (not open_ or open_.pop() != token):
            raise ExpressionError(f"{token!r} closes nothing in {text.strip()!r}")
    if not tokens or not re.match(r"[$\w)\]]", tokens[-1][-1]):
        raise ExpressionError(f"the expression {text.strip()!r} ends too early")
    if open_:
        raise ExpressionError(f"{open_[-1]!r} is missing in {text.strip()!r}")


def number_of(value: Value) -> int | float:
    """A value as a number: the address of a pointer."""
    if isinstance(value, Vector):
        raise ExpressionError("a vector is not a number: name one of its components, such as threadIdx.x")
    return value.address if isinstance(value, Pointer) else value


def bytes_of(place: Pointer, value: int | float) -> bytes:
    """A number as the type that a pointer points to holds it.

    Raises:
        ExpressionError: the type is of whole numbers, and the number is not whole.
    """
    dtype = np.dtype("u8" if place.type.endswith("*") else SCALARS[place.type])
    if dtype.kind == "f":
        return dtype.type(value).tobytes()
    if value != int(value):
        raise ExpressionError(f"{value} is no {place.type}")
    return (int(value) & (1 << 8 * dtype.itemsize) - 1).to_bytes(dtype.itemsize, "little")


class _Parser:
    """Recursive descent, which evaluates as it reads."""

    def __init__(self, tokens: list[str], text: str, scope: Scope) -> None:
        self.tokens = tokens
        self.text = text
        self.scope = scope

    def take(self, wanted: str = "") -> str:
        if not self.tokens or (wanted and self.tokens[0] != wanted):
            raise ExpressionError(f"{wanted or 'something'!r} is missing in {self.text!r}")
        return self.tokens.pop(0)

    def binary(self, level: int) -> Value:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.tokens and self.tokens[0] in _LEVELS[level]:
            sign = self.take()
            left = _apply(sign, left, self.binary(level + 1))
        return left

    def unary(self) -> Value:
        if not self.tokens:
            raise ExpressionError(f"the expression {self.text!r} ends too early")
        if self.tokens[0] == "*":
            self.take()
            return self.dereference(self.unary())
        if self.tokens[0] == "&":
            self.take()
            return self.address()
        if self.tokens[0] in ("-", "~", "!", "+"):
            sign, value = self.take(), number_of(self.unary())
            if sign == "~":
                return ~int(value)
            return int(not value) if sign == "!" else -value if sign == "-" else value
        cast = self.cast()
        if cast is not None:
            return cast
        return self.postfix(self.primary())

    def dereference(self, value: Value) -> Value:
        if not isinstance(value, Pointer):
            raise ExpressionError("only a pointer can be dereferenced: cast an address, as in *(float *)0x7f00")
        loaded = self.scope.load(value)
        return Pointer(int(loaded), value.type[:-1].strip()) if value.type.endswith("*") else loaded

    def address(self) -> Value:
        """Of a device variable, or of an element of what a pointer points to."""
        value = self.primary()
        if not isinstance(value, Pointer):
            raise ExpressionError("only device variables and elements of arrays have an address")
        if self.tokens[:1] == ["["]:
            self.take()
            value = value.at(int(number_of(self.binary(0))))
            self.take("]")
        return value

    def cast(self) -> Value | None:
        """``(float *) x``, ``(@shared int *) 16`` or ``(unsigned) x``; None where no type follows the parenthesis."""
        if self.tokens[:1] != ["("]:
            return None
        words, at = [], 1
        while at < len(self.tokens) and (re.match(r"[@A-Za-z_]", self.tokens[at]) or self.tokens[at] == "*"):
            words.append(self.tokens[at])
            at += 1
        space = words.pop(0)[1:] if words and words[0].startswith("@") else "generic"
        stars = words.count("*")
        type_ = " ".join(w for w in words if w not in ("*", "const", "volatile"))
        if self.tokens[at : at + 1] != [")"] or type_ not in SCALARS:
            return None
        if space not in SPACES:
            raise ExpressionError(f"there is no memory @{space}: @global, @shared or @local")
        del self.tokens[: at + 1]
        value = number_of(self.unary())
        if stars:
            return Pointer(int(value), type_ + "*" * (stars - 1), space)
        dtype = np.dtype(SCALARS[type_])
        if dtype.kind == "f":
            return float(dtype.type(value))
        bits = int(value) & (1 << 8 * dtype.itemsize) - 1
        return int(np.array([bits], f"u{dtype.itemsize}").view(dtype)[0])

    def primary(self) -> Value:
        token = self.take()
        if token == "(":
            value = self.binary(0)
            self.take(")")
            return value
        if token[0].isdigit():
            if token[:2] in ("0x", "0X"):
                return int(token, 16)
            return float(token.rstrip("f")) if re.search(r"[.eE]", token) else int(token)
        if not re.match(r"[$A-Za-z_]", token):
            raise ExpressionError(f"cannot read {token!r} in {self.text!r}")
        found = self.scope.name(token)
        if found is None:
            what = "there is no register" if token.startswith("$") else "nothing is called"
            hint = (
                ""
                if token.startswith("$")
                else (
                    ": machine code names parameters, device variables, threadIdx, blockIdx, blockDim and gridDim; local variables are "
                    "in registers ($R0 …), shared memory is read by address (*(@shared float *) 0)"
                )
            )
            raise ExpressionError(f"{what} {token}{hint}")
        return found

    def postfix(self, value: Value) -> Value:
        while self.tokens[:1] in (["["], ["."]):
            if self.take() == "[":
                index = int(number_of(self.binary(0)))
                self.take("]")
                if not isinstance(value, Pointer):
                    raise ExpressionError("only a pointer has elements")
                value = self.dereference(value.at(index))
            else:
                part = self.take()
                if not isinstance(value, Vector) or part not in ("x", "y", "z"):
                    raise ExpressionError(f"there is no member {part} in {self.text!r}")
                value = int(getattr(value, part))
        return value


def _apply(sign: str, left: Value, right: Value) -> Value:
    if isinstance(left, Pointer) and sign in ("+", "-") and not isinstance(right, Pointer):
        return left.at(int(number_of(right)) * (1 if sign == "+" else -1))
    if isinstance(right, Pointer) and sign == "+" and not isinstance(left, Pointer):
        return right.at(int(number_of(left)))
    a, b = number_of(left), number_of(right)
    if sign in ("/", "%") and b == 0:
        raise ExpressionError("division by zero")
    if sign == "&&" or sign == "||":
        return int(bool(a) and bool(b) if sign == "&&" else bool(a) or bool(b))
    if sign in _COMPARE:
        return int(_COMPARE[sign](a, b))
    if sign in _INTEGER:
        return _INTEGER[sign](int(a), int(b))
    if sign == "/":
        return a / b if isinstance(a, float) or isinstance(b, float) else int(a / b)
    return a + b if sign == "+" else a - b if sign == "-" else a * b
