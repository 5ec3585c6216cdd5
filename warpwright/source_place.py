"""Finds the string literals of a Python program that hold a kernel's text, so that messages name lines of the program's file.

The text need not be a literal: it may contain several, be an f-string, or be a literal that ``textwrap.dedent``, ``str.format``, ``%`` or ``str.replace`` has
changed. Lines are compared without indentation, and the fields of an f-string stand for any text. If the text contains no literal, it is compared line by
line with the literals that have as many lines. Lines that no literal has keep the text's own numbers.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

PACKAGE = Path(__file__).parent
MOST_FRAMES = 32
LARGEST_FILE_BYTES = 4 << 20
LEAST_EQUAL_PART = 0.5
"""A literal is the origin of a changed text if at least this part of its lines is unchanged."""
LEAST_CHARACTERS = 8
"""One line of a literal must have as many: a brace alone identifies nothing."""

FileLine = tuple[str, int]
"""A file's name and the number of one of its lines, from 1."""


@dataclass(frozen=True, slots=True)
class LiteralLine:
    """A line of a literal, without indentation."""

    text: str
    """The line, or its beginning up to an f-string's field."""
    has_field: bool

    def matches(self, line: str) -> bool:
        """Whether a line of a text may come from this one."""
        return line.startswith(self.text) if self.has_field else line == self.text


@dataclass(frozen=True, slots=True)
class Literal:
    """A string literal of several lines, each of which is a line of its file; it neither begins nor ends with an empty line."""

    lines: tuple[LiteralLine, ...]
    first: int
    """The first line's number in the file."""


def lines_of_text(text: str) -> tuple[FileLine | None, ...]:
    """Return the place of each line of a kernel's text in the files on the call stack.

    Lines without an origin are None; the tuple is empty if all are.
    """
    if not text.strip():
        return ()
    lines = [line.strip() for line in text.splitlines()]
    names = list(_files())
    if "\n" not in text.strip():
        place = next((place for name in names if (place := _place_of_line(text.strip(), name))), None)
        return tuple(place if line else None for line in lines) if place else ()
    files = [(name, _literals(name, _version(name))) for name in names]
    found: list[FileLine | None] = [None] * len(lines)
    for name, literals in files:
        for literal in sorted(literals, key=lambda one: -len(one.lines)):
            for number, origin in _contained(lines, literal):
                found[number] = found[number] or (name, origin)
    if not any(found):
        for name, literals in files:
            for number, origin in _changed(lines, literals):
                found[number] = found[number] or (name, origin)
    return tuple(found) if any(found) else ()


def _files() -> Iterator[str]:
    """Python files on the call stack outside this package, innermost first."""
    frame = sys._getframe(2)
    seen = set[str]()
    for _ in range(MOST_FRAMES):
        name = frame.f_code.co_filename
        if name not in seen and not Path(name).is_relative_to(PACKAGE) and name.endswith(".py"):
            seen.add(name)
            yield name
        if frame.f_back is None:
            return
        frame = frame.f_back


def _contained(lines: Sequence[str], literal: Literal) -> list[tuple[int, int]]:
    """Numbers of the text's lines, from 0, that are a literal's, with their numbers in the file; empty if the text lacks one of them."""
    for start in range(len(lines) - len(literal.lines) + 1):
        found = _matched(lines, start, literal)
        if found:
            return found
    return []


def _matched(lines: Sequence[str], start: int, literal: Literal) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at, may_skip = start, False
    for offset, line in enumerate(literal.lines):
        # A field's value may have several lines.
        while may_skip and at < len(lines) and not line.matches(lines[at]):
            at += 1
        if at == len(lines) or not line.matches(lines[at]):
            return []
        found.append((at, literal.first + offset))
        at, may_skip = at + 1, line.has_field
    return found


def _changed(lines: Sequence[str], literals: Iterable[Literal]) -> list[tuple[int, int]]:
    """The same for the literal of which most lines are unchanged; empty if none or more than one is closest."""
    skipped = next(number for number, line in enumerate(lines) if line)
    trimmed = [_plain(line) for line in _trimmed(lines)]
    counts: list[tuple[int, Literal]] = []
    for literal in literals:
        if len(literal.lines) == len(trimmed):
            pairs = zip(literal.lines, trimmed, strict=True)
            equal = sum(bool(text) and _plain(line.text) == text for line, text in pairs)
            if equal >= LEAST_EQUAL_PART * sum(map(bool, trimmed)):
                counts.append((equal, literal))
    most = max((count for count, _ in counts), default=0)
    best = [literal for count, literal in counts if count == most]
    if len(best) != 1:
        return []
    return [(skipped + offset, best[0].first + offset) for offset in range(len(trimmed))]


def _plain(line: str) -> str:
    """A line with the braces and percent signs that templates write twice."""
    return line.replace("{{", "{").replace("}}", "}").replace("%%", "%")


def _trimmed(lines: Sequence[str]) -> Sequence[str]:
    """Lines without empty ones at both ends."""
    full = [number for number, line in enumerate(lines) if line]
    return lines[full[0] : full[-1] + 1] if full else []


def _place_of_line(line: str, name: str) -> FileLine | None:
    """The place of a literal of one line in a file; None if the file has none or several."""
    numbers = {number for number, text in _single_lines(name, _version(name)) if text == line}
    return (name, numbers.pop()) if len(numbers) == 1 and len(line) >= LEAST_CHARACTERS else None


def _version(name: str) -> int:
    try:
        return os.stat(name).st_mtime_ns
    except OSError:
        return 0


def _nodes(name: str, version: int) -> list[ast.AST]:
    """The nodes of a Python file; none if it cannot be read or parsed."""
    try:
        if version == 0 or os.path.getsize(name) > LARGEST_FILE_BYTES:
            return []
        return list(ast.walk(ast.parse(Path(name).read_text(encoding="utf-8"))))
    except (OSError, ValueError, SyntaxError):
        return []


@lru_cache(maxsize=64)
def _single_lines(name: str, version: int) -> tuple[tuple[int, str], ...]:
    """The literals of one line in a Python file, each with its line's number."""
    constants = [node for node in _nodes(name, version) if isinstance(node, ast.Constant)]
    return tuple(
        (node.lineno, node.value.strip())
        for node in constants
        if node.lineno == node.end_lineno and isinstance(node.value, str)
    )


@lru_cache(maxsize=64)
def _literals(name: str, version: int) -> tuple[Literal, ...]:
    """The literals of several lines that a Python file has only once."""
    nodes = _nodes(name, version)
    joined = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    # Their constant parts are nodes of their own, with the place of the whole string.
    parts = set(map(id, chain.from_iterable(node.values for node in joined)))
    texts: list[ast.Constant | ast.JoinedStr] = [n for n in nodes if isinstance(n, ast.Constant) and id(n) not in parts]
    found: dict[tuple[LiteralLine, ...], Literal | None] = {}
    for node in texts + joined:
        literal = _literal(node)
        if literal is not None:
            found[literal.lines] = None if literal.lines in found else literal
    return tuple(literal for literal in found.values() if literal is not None)


def _literal(node: ast.Constant | ast.JoinedStr) -> Literal | None:
    """A string with several lines that are lines of its file; None for any other constant."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    lines = [LiteralLine("", False)]
    for value in values:
        if not isinstance(value, ast.Constant):
            lines[-1] = LiteralLine(lines[-1].text, True)
            continue
        if not isinstance(value.value, str):
            return None
        first, *others = value.value.split("\n")
        if not lines[-1].has_field:
            lines[-1] = LiteralLine(lines[-1].text + first, False)
        lines += [LiteralLine(line, False) for line in others]
    assert node.end_lineno is not None
    ends, ends_with_break = len(lines) - 1, not lines[-1].text and not lines[-1].has_field
    spanned = node.end_lineno - node.lineno
    if not spanned or spanned not in (ends, ends - ends_with_break):
        return None
    bare = [LiteralLine(line.text.lstrip() if line.has_field else line.text.strip(), line.has_field) for line in lines]
    full = [number for number, line in enumerate(bare) if line.text or line.has_field]
    if len(full) < 2 or not any(len(line.text) >= LEAST_CHARACTERS for line in bare):
        return None
    return Literal(tuple(bare[full[0] : full[-1] + 1]), node.lineno + full[0])
