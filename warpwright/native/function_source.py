"""Syntax trees of native functions, found by their code objects."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType

from warpwright.native.units import UnitError, lowered


class TranslationError(Exception):
    """A function is written in more of Python than is translated."""


def _functions_in(node: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions among a node's statements, to any depth; expressions, which are most of a tree, are skipped."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for statement in getattr(node, part, ()) if not isinstance(node, ast.expr) else ():
            if isinstance(statement, ast.FunctionDef):
                yield statement
            yield from _functions_in(statement)


@cache
def _file_functions(path: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file, or of what an interactive session keeps as one, by their first line, decorators included."""
    found = _functions_in(ast.parse("".join(linecache.getlines(path))))
    return {min([node.lineno, *(d.lineno for d in node.decorator_list)]): node for node in found}


def source_of(function: FunctionType) -> ast.FunctionDef:
    """The syntax tree of a function that a file defines."""
    found = _file_functions(function.__code__.co_filename).get(function.__code__.co_firstlineno)
    if found is None or found.name != function.__name__:
        raise TranslationError(f"the file of {function.__name__} has changed since it was loaded")
    return found


@cache
def plain_source(function: FunctionType) -> ast.FunctionDef:
    """The syntax tree of a function with the places of units' fields (``units.py``) as sums."""
    try:
        return lowered(function, source_of(function))
    except UnitError as error:
        raise TranslationError(str(error)) from None


def _codes(code: CodeType) -> list[CodeType]:
    """A code and those within it."""
    return [code, *(inner for part in code.co_consts if isinstance(part, CodeType) for inner in _codes(part))]


def is_source_of(function: FunctionType) -> bool:
    """Whether a function does what its file says now, which may have changed since it was loaded."""
    path = function.__code__.co_filename
    return function.__code__ in _codes(compile("".join(linecache.getlines(path)), path, "exec", dont_inherit=True))


def symbol(function: FunctionType) -> str:
    """A function's name in the module."""
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
