"""Source names of mangled C++ functions (Itanium C++ ABI, section 5.1), for finding kernels by name."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d+")
_WHOLE = re.compile(r"L[a-z]n?[^E]*E|[ST][0-9A-Z]*_")
"""A literal of a built-in type (its digits are not a length), or a reference to an earlier part of the name."""


def plain_name(symbol: str) -> str:
    """``_Z5saxpyIfEviT_PKS0_PS0_`` is ``saxpy``, ``_ZN2ns5plainEPi`` is ``ns::plain``; others stay as they are.

    Parameters and template arguments are left out.
    """
    if not symbol.startswith("_Z"):
        return symbol
    at = 2
    nested = symbol.startswith("N", at)
    at += nested
    # Qualifiers of the function (const, volatile) and internal linkage come before the name.
    while at < len(symbol) and symbol[at] in "KVL":
        at += 1
    parts = []
    while match := _NUMBER.match(symbol, at):
        length = int(match[0])
        part = symbol[match.end() : match.end() + length]
        if len(part) < length or not length:
            return symbol
        parts.append("(anonymous namespace)" if part.startswith("_GLOBAL__N_") else part)
        at = match.end() + length
        if not nested:
            break
        while at < len(symbol) and symbol[at] == "L":
            at += 1
        if symbol.startswith("I", at):
            after = _skip_arguments(symbol, at)
            # These are arguments of an enclosing class; those of the function itself end the name.
            if after < 0 or not _NUMBER.match(symbol, after):
                break
            at = after
    return "::".join(parts) if parts else symbol


def _skip_arguments(symbol: str, at: int) -> int:
    """Position after the template arguments that begin with ``I`` at ``at``, or -1 if they do not end."""
    depth = 0
    while at < len(symbol):
        if match := _NUMBER.match(symbol, at):
            at = match.end() + int(match[0])
        elif match := _WHOLE.match(symbol, at):
            at = match.end()
        elif symbol[at] in "INLXJ":
            depth += 1
            at += 1
        elif symbol[at] == "E":
            depth -= 1
            at += 1
            if depth == 0:
                return at
        else:
            at += 1
    return -1
