"""Typed state: a unit of a machine declares its fields once, and native functions read them by name.

A unit's fields are words of one flat array of int64.  A value of its type is the index of its first word::

    class SM(Unit):
        finish = word("cycle", "last end of a warp")
        blocks = parts(BlockSlot, 32, "blocks that the SM runs")

    m[sm.finish] = time                     # sm: SM
    live = m[sm.blocks[slot].live_warps]

A unit of many fields may be declared in parts: it has the fields of its bases, one base after the other, and then its own.

In Python ``sm.finish`` is that number.  Functions for machine code are rewritten before they are compiled (``lowered``): ``sm.finish``
becomes ``sm + 25``, so that neither translator nor Numba knows anything of units.  A variable is a unit where its annotation says so,
where it comes from another unit's parts, from a call that returns one, or from the class itself: ``SM(index)``.
"""

from __future__ import annotations

import ast
import pickle
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import cache
from types import CellType, FunctionType
from typing import Any, ClassVar, Generic, TypeVar

Of = TypeVar("Of", bound="Unit")


class UnitError(Exception):
    """A function uses a unit's fields in a way that says nothing."""


class Field:
    """One word of a unit, or ``count`` words one after the other.

    Args:
        unit: of the number: ``cycle``, ``bytes``, ``1/256 cycle``; empty for indices, counts and flags.
        reset: what the word holds at the start of a launch.
    """

    offset = 0

    def __init__(self, unit: str, text: str, count: int = 1, reset: int = 0, align: int = 1) -> None:
        self.unit, self.text, self.count, self.reset, self.align = unit, text, count, reset, align

    @property
    def size(self) -> int:
        """Words that it takes."""
        return self.count

    def __get__(self, unit: Unit | None, owner: type[Unit]) -> int:
        return self.offset if unit is None else self.offset + int(unit)


class Words(int):
    """Where an array of a unit begins; ``[i]`` is the place of an element."""

    def __getitem__(self, index: int) -> int:
        return int(self) + index


class ArrayField(Field):
    """Several words of one meaning."""

    def __get__(self, unit: Unit | None, owner: type[Unit]) -> Words:
        return Words(super().__get__(unit, owner))


class Parts(int, Generic[Of]):
    """Where the parts of a unit begin; ``[i]`` is one of them."""

    kind: type[Of]

    def __getitem__(self, index: int) -> Of:
        return self.kind(int(self) + index * self.kind.size)


class PartsField(Field, Generic[Of]):
    """Units inside a unit."""

    def __init__(self, kind: type[Of], count: int, text: str, align: int = 1) -> None:
        super().__init__("", text, count, align=align)
        self.kind = kind

    @property
    def size(self) -> int:
        return self.count * self.kind.size

    def __get__(self, unit: Unit | None, owner: type[Unit]) -> Parts[Of]:
        found: Parts[Of] = Parts(super().__get__(unit, owner))
        found.kind = self.kind
        return found


def word(unit: str, text: str, *, reset: int = 0, align: int = 1) -> Field:
    """One word.  ``align``: it begins at a multiple of so many words."""
    return Field(unit, text, reset=reset, align=align)


def words(count: int, unit: str, text: str, *, reset: int = 0, align: int = 1) -> ArrayField:
    """Several words of one meaning."""
    return ArrayField(unit, text, count, reset, align)


def parts(kind: type[Of], count: int, text: str, *, align: int = 1) -> PartsField[Of]:
    """Several units inside this one."""
    return PartsField(kind, count, text, align)


class _Declarations(dict[str, Any]):
    """What a unit's class body declares: a field's name is its own."""

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(self.get(name), Field):
            raise UnitError(f"{self['__qualname__']}.{name}: the unit already declares a field of this name")
        super().__setitem__(name, value)


class _UnitType(type):
    """Of units: a second field of a name is an error, not a new place for the first."""

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **how: Any) -> _Declarations:
        return _Declarations()


class Unit(int, metaclass=_UnitType):
    """A unit of the machine: the index of its first word.  ``align``: its size is a multiple of so many words."""

    size: ClassVar[int] = 0
    fields: ClassVar[dict[str, Field]] = {}

    def __init_subclass__(cls, align: int = 1, size: int = 0) -> None:
        super().__init_subclass__()
        cls.fields = _inherited(cls) | {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        position = 0
        for name, one in cls.fields.items():
            if hasattr(Unit, name):
                raise UnitError(f"{cls.__name__}.{name}: every unit has an attribute of this name")
            one.offset = position = -(-position // one.align) * one.align
            position += one.size
        if size and size < position:
            raise UnitError(f"{cls.__name__} takes {position} words, not {size}")
        cls.size = size or -(-position // align) * align

    @classmethod
    def resets(cls, start: int = 0) -> Iterator[tuple[int, int, int]]:
        """First word, number of words and value of what is not 0 at the start of a launch, parts included."""
        for one in cls.fields.values():
            if isinstance(one, PartsField):
                for index in range(one.count):
                    yield from one.kind.resets(start + one.offset + index * one.kind.size)
            elif one.reset:
                yield start + one.offset, one.count, one.reset


def _inherited(unit: type[Unit]) -> dict[str, Field]:
    """The fields of a unit's bases, which become its own: their places in it are not those in a base."""
    found: dict[str, Field] = {}
    for base in unit.__bases__:
        for name, one in getattr(base, "fields", {}).items():
            if name in found or name in vars(unit):
                raise UnitError(f"{unit.__qualname__}.{name}: the unit already declares a field of this name")
            found[name] = copy(one)
    for name, one in found.items():
        setattr(unit, name, one)
    return found


# --- functions for machine code ----------------------------------------------------------------------


def lowered(function: FunctionType, tree: ast.FunctionDef) -> ast.FunctionDef:
    """A function's syntax tree with places as sums in the stead of units' fields; ``tree`` itself where it has none.

    The nodes that it adds have no line numbers.

    Raises:
        UnitError: a field that a unit does not have, or a variable that is now a unit and now something else.
    """
    lowering = _Lowering(function)
    changed: ast.FunctionDef = lowering.visit(pickle.loads(pickle.dumps(tree, pickle.HIGHEST_PROTOCOL)))
    return changed if lowering.changes else tree


@cache
def plain(function: FunctionType, source_of: Callable[[FunctionType], ast.FunctionDef]) -> FunctionType:
    """A function as Python would run it without units, for Numba; ``function`` itself where it has none."""
    tree = source_of(function)
    changed = lowered(function, tree)
    if changed is tree:
        return function
    if function.__closure__:
        raise UnitError(f"{function.__name__} has units' fields and variables of an enclosing function")
    changed.decorator_list = []
    module = ast.fix_missing_locations(ast.Module(body=[changed], type_ignores=[]))
    space: dict[str, Any] = {}
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True)
    exec(code, function.__globals__, space)
    made: FunctionType = space[function.__name__]
    made.__module__, made.__defaults__ = function.__module__, function.__defaults__
    return made


class _Lowering(ast.NodeTransformer):
    def __init__(self, function: FunctionType) -> None:
        code, cells = function.__code__, function.__closure__ or ()
        self.locals = {*code.co_varnames}
        self.names = {**function.__globals__, **cell_contents(code.co_freevars, cells)}
        self.of = f"{function.__module__}.{function.__name__}"
        self.units: dict[str, type[Unit]] = {}
        self.changes = False

    # --- what an expression stands for ---------------------------------------------------------------

    def _object(self, node: ast.expr) -> Any:
        """What a name that is no variable stands for; None for everything else."""
        if isinstance(node, ast.Name):
            return None if node.id in self.locals else self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            return getattr(self._object(node.value), node.attr, None)
        return None

    def _annotated(self, annotation: ast.expr | None) -> type[Unit] | None:
        found = self._object(annotation) if annotation is not None else None
        return found if isinstance(found, type) and issubclass(found, Unit) else None

    def _unit(self, node: ast.expr) -> type[Unit] | None:
        """The unit that an expression's value is the place of."""
        if isinstance(node, ast.Name) and node.id in self.units:
            return self.units[node.id]
        if isinstance(node, ast.Subscript):
            one = self._field(node.value)
            return one.kind if isinstance(one, PartsField) else None
        if isinstance(node, ast.Call):
            called = self._object(node.func)
            if isinstance(called, type):
                return called if issubclass(called, Unit) else None
            return _returned(getattr(called, "py_func", None))
        if isinstance(node, ast.IfExp):
            return self._unit(node.body)
        found = self._object(node)
        return type(found) if isinstance(found, Unit) else None

    def _field(self, node: ast.expr) -> Field | None:
        """The field that an attribute names."""
        if not isinstance(node, ast.Attribute):
            return None
        kind = self._unit(node.value) or self._annotated(node.value)
        return kind.fields.get(node.attr) if kind is not None else None

    # --- the function without units ------------------------------------------------------------------

    def visit_arg(self, node: ast.arg) -> ast.arg:
        if (unit := self._annotated(node.annotation)) is not None:
            self._take(node.arg, unit)
            node.annotation = ast.Name("int", ast.Load())
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.args = self.visit(node.args)
        if node.returns is not None:
            node.returns = self._plain_annotation(node.returns)
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def _plain_annotation(self, node: ast.expr) -> ast.expr:
        if self._annotated(node) is not None:
            self.changes = True
            return ast.Name("int", ast.Load())
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            node.slice.elts = [self._plain_annotation(part) for part in node.slice.elts]
        return node

    def _take(self, name: str, unit: type[Unit] | None) -> None:
        """Note what a variable holds."""
        known = self.units.get(name)
        if known is not None and unit is not known:
            raise UnitError(
                f"{self.of}: {name} holds a {known.__name__}, and then {unit.__name__ if unit else 'a number'}"
            )
        if unit is not None:
            self.units[name] = unit
            self.changes = True

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        unit = self._annotated(node.annotation)
        if node.value is not None:
            node.value = self.visit(node.value)
        if unit is not None and isinstance(node.target, ast.Name):
            self._take(node.target.id, unit)
            node.annotation = ast.Name("int", ast.Load())
        else:
            node.target = self.visit(node.target)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        kinds = self._units_of(node.value)
        node.value = self.visit(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._take(target.id, kinds[0] if len(kinds) == 1 else None)
            elif isinstance(target, ast.Tuple):
                for one, kind in zip(target.elts, kinds if len(kinds) > 1 else [None] * len(target.elts), strict=False):
                    if isinstance(one, ast.Name):
                        self._take(one.id, kind)
        node.targets = [self.visit(target) for target in node.targets]
        return node

    def _units_of(self, node: ast.expr) -> list[type[Unit] | None]:
        """Of each value of a tuple, or of the one value."""
        if isinstance(node, ast.Tuple):
            return [self._unit(part) for part in node.elts]
        if isinstance(node, ast.Call):
            called = getattr(self._object(node.func), "py_func", None)
            if called is not None and (several := _returned_tuple(called)):
                return several
        return [self._unit(node)]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        kind = self._unit(node.value)
        if kind is not None:
            if node.attr not in kind.fields:
                raise UnitError(f"{self.of}, line {node.lineno}: {kind.__name__} has no field {node.attr}")
            self.changes = True
            start = self._object(node.value)
            offset = kind.fields[node.attr].offset
            if isinstance(start, Unit):
                return ast.copy_location(ast.Constant(int(start) + offset), node)
            return ast.copy_location(_sum(self.visit(node.value), offset), node)
        owner = self._annotated(node.value)
        if owner is not None:
            self.changes = True
            return ast.copy_location(ast.Constant(int(getattr(owner, node.attr))), node)
        return node if isinstance(node.value, ast.Name) else self._inside(node)

    def _inside(self, node: ast.Attribute) -> ast.expr:
        node.value = self.visit(node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        one = self._field(node.value)
        if isinstance(one, ArrayField | PartsField):
            step = one.kind.size if isinstance(one, PartsField) else 1
            start, index = self.visit(node.value), self.visit(node.slice)
            if (known := _number(index)) is not None:
                return ast.copy_location(_sum(start, known * step), node)
            if step != 1:
                index = ast.BinOp(index, ast.Mult(), ast.Constant(step))
            return ast.copy_location(ast.BinOp(start, ast.Add(), index), node)
        if one is not None:
            raise UnitError(f"{self.of}, line {node.lineno}: {ast.unparse(node.value)} is one word")
        node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        called = self._object(node.func)
        if isinstance(called, type) and issubclass(called, Unit):
            self.changes = True
            return self.visit(node.args[0])
        node.func = self.visit(node.func) if isinstance(node.func, ast.Attribute) else node.func
        node.args = [self.visit(argument) for argument in node.args]
        return node


def _sum(start: ast.expr, offset: int) -> ast.expr:
    """``start + offset``, constants added up."""
    known = _number(start)
    if known is not None:
        return ast.Constant(known + offset)
    if isinstance(start, ast.BinOp) and isinstance(start.op, ast.Add) and (more := _number(start.right)) is not None:
        return ast.BinOp(start.left, ast.Add(), ast.Constant(more + offset))
    return ast.BinOp(start, ast.Add(), ast.Constant(offset)) if offset else start


def _number(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def cell_contents(names: Sequence[str], cells: Sequence[CellType]) -> dict[str, Any]:
    """What the variables of an enclosing function hold."""
    return {name: cell.cell_contents for name, cell in zip(names, cells, strict=True)}


@cache
def _evaluated(annotation: str, function: FunctionType) -> Any:
    try:
        return eval(annotation, function.__globals__)
    except (NameError, AttributeError, TypeError):
        return None


def _returned(function: FunctionType | None) -> type[Unit] | None:
    """The unit that a function returns."""
    text = function.__annotations__.get("return") if function is not None else None
    found = _evaluated(text, function) if isinstance(text, str) and function is not None else text
    return found if isinstance(found, type) and issubclass(found, Unit) else None


def _returned_tuple(function: FunctionType) -> list[type[Unit] | None]:
    """The units of a tuple that a function returns; empty where it returns none."""
    text = function.__annotations__.get("return", "")
    found = _evaluated(text, function) if isinstance(text, str) else text
    elements = getattr(found, "__args__", ())
    return [e if isinstance(e, type) and issubclass(e, Unit) else None for e in elements]
