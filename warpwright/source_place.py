"""Finds the string literal of a Python program that holds a kernel's text, so that messages name lines of the program's file.

Only a literal whose lines are lines of the file counts; text that is built at run time keeps its own line numbers.
"""

from __future__ import annotations

import ast
import os
import sys
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parent
MOST_FRAMES = 32
LARGEST_FILE_BYTES = 4 << 20


def place_of_text(text: str) -> tuple[str, int] | None:
    """Return the file and line where a kernel's text begins, from the files on the call stack; None if none contains it."""
    if "\n" not in text.strip():
        return None
    frame = sys._getframe(1)
    seen = set[str]()
    for _ in range(MOST_FRAMES):
        name = frame.f_code.co_filename
        if name not in seen and not Path(name).is_relative_to(PACKAGE) and name.endswith(".py"):
            seen.add(name)
            line = _literals(name, _version(name)).get(text)
            if line is not None:
                return name, line
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def _version(name: str) -> int:
    try:
        return os.stat(name).st_mtime_ns
    except OSError:
        return 0


@lru_cache(maxsize=64)
def _literals(name: str, version: int) -> dict[str, int]:
    """Texts of several lines in a Python file, each on as many lines of the file, and where they begin; those that are there twice are left out."""
    try:
        if version == 0 or os.path.getsize(name) > LARGEST_FILE_BYTES:
            return {}
        tree = ast.parse(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    found: dict[str, int] = {}
    twice = set[str]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node.end_lineno is None:
            continue
        lines, ends = node.end_lineno - node.lineno, node.value.count("\n")
        if lines and lines in (ends, ends - node.value.endswith("\n")):
            (twice.add(node.value) if node.value in found else found.update({node.value: node.lineno}))
    return {text: line for text, line in found.items() if text not in twice}
