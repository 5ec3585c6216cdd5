"""LLVM types of annotations: words, truth values, pointers, records, addresses of structures."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from warpwright.native.function_source import TranslationError

WORD, TRUTH = ir.IntType(64), ir.IntType(1)
POINTER = WORD.as_pointer()
_TYPES: dict[str, ir.Type] = {"int": WORD, "bool": TRUTH, "Any": POINTER, "None": ir.VoidType()}


def layout_of(annotation: ast.expr | None, names: dict[str, Any]) -> Any:
    """The structure whose address an annotation stands for: gives the byte offset of a field by its name."""
    if not isinstance(annotation, ast.Name):
        return None
    return next(iter(getattr(names.get(annotation.id), "__metadata__", ())), None)


def record_of(annotation: ast.expr | None, names: Mapping[str, Any]) -> type | None:
    """The record (a ``NamedTuple``) that an annotation names."""
    if isinstance(annotation, ast.Attribute) and isinstance(annotation.value, ast.Name):
        found = getattr(names.get(annotation.value.id), annotation.attr, None)
    else:
        found = names.get(annotation.id) if isinstance(annotation, ast.Name) else None
    return found if is_record(found) else None


def is_record(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")


def record_types(record: Any) -> list[ir.Type]:
    """LLVM's types of a record's fields."""
    kinds = []
    for name in record._fields:
        text = record.__annotations__[name]
        text = getattr(text, "__forward_arg__", getattr(text, "__name__", text))
        if text not in ("int", "bool", "Any"):
            raise TranslationError(f"{record.__name__}.{name} is to be int, bool or Any, not {text}")
        kinds.append(_TYPES[text])
    return kinds


def types_of(annotation: ast.expr | None, names: dict[str, Any]) -> list[ir.Type]:
    """LLVM's types of a parameter: a record is passed as its fields."""
    record = record_of(annotation, names)
    return [type_of(annotation, names)] if record is None else record_types(record)


def type_of(annotation: ast.expr | None, names: dict[str, Any]) -> ir.Type:
    """LLVM's type of an annotation in a file of these names."""
    if (record := record_of(annotation, names)) is not None:
        return ir.LiteralStructType(record_types(record))
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        return ir.LiteralStructType([type_of(part, names) for part in annotation.slice.elts])
    text = ast.unparse(annotation) if annotation is not None else ""
    if text in _TYPES:
        return _TYPES[text]
    if layout_of(annotation, names) is None:
        raise TranslationError(f"a type is int, bool, Any, a structure or a tuple of them, not {text or 'missing'}")
    return WORD
