"""Translates native functions from their source to one LLVM module.

They are written in a small part of Python, and their annotations say all types: ``int`` is 64 bits wide, ``bool`` one bit, ``Any`` a pointer
to int64, ``tuple`` a result of several, ``Annotated[Any, layout]`` the address of a structure, whose fields of 64 bits are found by their
names (``warp["lanes"]``), and a ``NamedTuple`` of these a record, which is passed as its fields.  Nothing must be inferred, so that an entry with two hundred functions is translated in a second;
Numba, which compiles the same functions with checked indices or for callers of its own, takes twenty.

A policy (``policies.py``), which its user writes, needs no annotations: its kind says them, and how long its arrays are.
"""

from __future__ import annotations

import ast
import builtins
import gc
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from llvmlite import ir

from warpwright.native import intrinsics
from warpwright.native.annotated_types import (
    POINTER,
    TRUTH,
    WORD,
    is_record,
    layout_of,
    record_of,
    record_types,
    type_of,
    types_of,
)
from warpwright.native.function_source import TranslationError, plain_source, symbol
from warpwright.native.units import cell_contents

_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_OPERATIONS: dict[type[ast.operator], tuple[str, Callable[[int, int], int]]] = {
    ast.Add: ("add", operator.add),
    ast.Sub: ("sub", operator.sub),
    ast.Mult: ("mul", operator.mul),
    ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("ashr", operator.rshift),
    ast.BitAnd: ("and_", operator.and_),
    ast.BitOr: ("or_", operator.or_),
    ast.BitXor: ("xor", operator.xor),
}


def _signed(value: int) -> int:
    """A number as 64 bits hold it."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Turn Python's garbage collector off: it would visit the growing module again and again, which takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(frozen=True)
class _Record:
    """A value that has the fields of a ``NamedTuple``."""

    kind: Any
    values: list[Any]


@dataclass(frozen=True)
class ArrayOf:
    """An array that a policy may read, as long as a number says, or another argument."""

    words: int = 0
    argument: int | None = None


class Translation:
    """An LLVM module of functions that are called from outside, which grows by the functions that its functions call, and its ``text``.

    Args:
        policy: the arguments of the only entry, a policy: None is a number.
        names: what functions are called in the module, if not as ``symbol`` says.
    """

    def __init__(
        self,
        *entries: FunctionType,
        policy: Sequence[ArrayOf | None] | None = None,
        names: Mapping[FunctionType, str] | None = None,
    ) -> None:
        self.module = ir.Module(entries[0].__name__)
        self.policy = policy
        self._names = names or {}
        self._functions: dict[FunctionType, ir.Function] = {}
        self._waiting: list[FunctionType] = []
        with _without_collections():
            for entry in entries:
                self.function(entry).linkage = "external"
            while self._waiting:
                python = self._waiting.pop()
                _Body(self, python, self._functions[python]).write()
            self.text = str(self.module)

    def function(self, python: FunctionType) -> ir.Function:
        """A function of the module; it is written when its turn comes."""
        if python not in self._functions:
            tree = plain_source(python)
            if self.policy is None:
                names = python.__globals__
                kinds = [kind for argument in tree.args.args for kind in types_of(argument.annotation, names)]
                kind = ir.FunctionType(type_of(tree.returns, names), kinds)
            else:
                kind = ir.FunctionType(WORD, [POINTER if array else WORD for array in self.policy])
            made = ir.Function(self.module, kind, self._names.get(python) or symbol(python))
            made.linkage = "internal"
            made.attributes.add("nounwind")
            if getattr(python, "apart", False):
                made.attributes.add("noinline")
                made.attributes.add("cold")
            self._functions[python] = made
            self._waiting.append(python)
        return self._functions[python]


class _Body:
    """The statements of one function."""

    def __init__(self, whole: Translation, python: FunctionType, function: ir.Function) -> None:
        self.whole = whole
        self.python = python
        self.tree = plain_source(python)
        self.function = function
        self.places = ir.IRBuilder(function.append_basic_block("places"))  # variables; LLVM makes registers of them
        self.builder = ir.IRBuilder(function.append_basic_block("body"))
        self.variables: dict[str, ir.AllocaInstr] = {}
        self.records: dict[str, Any] = {}  # the kinds of variables that are records, whose fields are variables
        self.layouts: dict[str, Any] = {}  # of variables that are addresses of structures
        self.loops: list[tuple[ir.Block, ir.Block]] = []  # where ``continue`` and ``break`` lead
        self.lengths: dict[str, ir.Value] = {}  # of a policy's arrays

    def write(self) -> None:
        first = self.builder.block
        try:
            self._arguments()
            self._statements(self.tree.body)
        except TranslationError as error:
            raise TranslationError(f"{self.python.__module__}.{self.python.__name__}: {error}") from None
        if not self.builder.block.is_terminated:
            if isinstance(self.function.function_type.return_type, ir.VoidType):
                self.builder.ret_void()
            elif self.whole.policy is not None:
                self.builder.ret(WORD(-1))  # no slot and no way: whoever asked says so
            else:
                self.builder.unreachable()
        self.places.branch(first)

    def _arguments(self) -> None:
        names = [argument.arg for argument in self.tree.args.args]
        if self.whole.policy is not None and len(names) != len(self.function.args):
            raise TranslationError(f"it takes {len(names)} arguments, not {len(self.function.args)}")
        values = iter(self.function.args)
        for argument in self.tree.args.args:
            record = record_of(argument.annotation, self.python.__globals__)
            if record is not None:
                self._set(argument.arg, _Record(record, [next(values) for _ in record_types(record)]))
                continue
            self._set(argument.arg, next(values))
            self._declare(argument.arg, argument.annotation)
        for name, array in zip(names, self.whole.policy or (), strict=False):
            if array is not None:
                known = array.argument is None
                self.lengths[name] = WORD(array.words) if known else self.function.args[array.argument]

    # --- variables -------------------------------------------------------------------------------

    def _set(self, name: str, value: Any) -> None:
        if isinstance(value, _Record):
            if self.records.setdefault(name, value.kind) is not value.kind or name in self.variables:
                raise TranslationError(f"{name} holds a {value.kind.__name__} and something else")
            for field, kind, part in zip(value.kind._fields, record_types(value.kind), value.values, strict=True):
                self._set(f"{name}.{field}", self._as(part, kind))
            return
        if not isinstance(value, ir.Value):
            raise TranslationError(f"{name} is to hold one number")
        if name in self.lengths:
            raise TranslationError(f"{name} is an array")
        if name not in self.variables:
            self.variables[name] = self.places.alloca(value.type, name=name)
        place = self.variables[name]
        self.builder.store(self._as(value, place.allocated_type), place)

    def _declare(self, name: str, annotation: ast.expr | None) -> None:
        """Take note of the structure that a variable's annotation names."""
        if (layout := layout_of(annotation, self.python.__globals__)) is not None:
            self.layouts[name] = layout

    def _as(self, value: Any, kind: ir.Type) -> ir.Value:
        """A value where another type is wanted: truth values are numbers as well."""
        if not isinstance(value, ir.Value):
            raise TranslationError("a tuple or nothing is used where a number is required")
        if value.type == kind:
            return value
        if value.type == TRUTH and kind == WORD:
            return WORD(int(value.constant)) if isinstance(value, ir.Constant) else self.builder.zext(value, WORD)
        raise TranslationError(f"{value.type} is used where {kind} is required")

    def _word(self, node: ast.expr) -> ir.Value:
        return self._as(self._value(node), WORD)

    def _truth(self, value: Any) -> ir.Value:
        if isinstance(value, ir.Value) and value.type == TRUTH:
            return value
        return self.builder.icmp_signed("!=", self._as(value, WORD), WORD(0))

    # --- statements ------------------------------------------------------------------------------

    def _statements(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            if self.builder.block.is_terminated:
                return
            getattr(self, f"_do_{type(node).__name__}", self._unknown)(node)

    def _unknown(self, node: ast.AST) -> Any:
        raise TranslationError(f"line {getattr(node, 'lineno', '?')}: {type(node).__name__} is not translated")

    def _do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self._value(node.value)

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Return(self, node: ast.Return) -> None:
        kind = self.function.function_type.return_type
        if node.value is None:
            self.builder.ret_void()
            return
        value = self._value(node.value)
        if isinstance(kind, ir.LiteralStructType):
            parts = value.values if isinstance(value, _Record) else value
            parts = [self._as(part, wanted) for part, wanted in zip(parts, kind.elements, strict=True)]
            value = ir.Constant(kind, ir.Undefined)
            for index, part in enumerate(parts):
                value = self.builder.insert_value(value, part, index)
        self.builder.ret(self._as(value, kind))

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, self._value(node.value))
        if isinstance(node.target, ast.Name):
            self._declare(node.target.id, node.annotation)

    def _do_Assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._store(target, value)

    def _store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            if target.id != "_":  # what nobody wants
                self._set(target.id, value)
        elif isinstance(target, ast.Subscript):
            self.builder.store(self._as(value, WORD), self._writable(target))
        elif isinstance(target, ast.Tuple):
            parts = value.values if isinstance(value, _Record) else value
            for part, single in zip(target.elts, parts, strict=True):
                self._store(part, single)
        else:
            self._unknown(target)

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            place = self._writable(node.target)
            self.builder.store(self._as(self._operate(node.op, self.builder.load(place), node.value), WORD), place)
        else:
            self._store(node.target, self._operate(node.op, self._value(node.target), node.value))

    def _do_If(self, node: ast.If) -> None:
        yes, no, behind = (self.function.append_basic_block(name) for name in ("then", "else", "behind"))
        self._branch(node.test, yes, no)
        for block, statements in ((yes, node.body), (no, node.orelse)):
            self.builder.position_at_end(block)
            self._statements(statements)
            if not self.builder.block.is_terminated:
                self.builder.branch(behind)
        self.builder.position_at_end(behind)

    def _do_While(self, node: ast.While) -> None:
        head, body, behind = (self.function.append_basic_block(name) for name in ("while", "do", "behind"))
        done = self._done(node, behind)
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self._branch(node.test, body, done)
        self._loop(node, body, head, done, behind)

    def _done(self, node: ast.For | ast.While, behind: ir.Block) -> ir.Block:
        """Where a loop goes that no ``break`` ends: to its ``else``, if it has one."""
        return self.function.append_basic_block("loop.else") if node.orelse else behind

    def _loop(
        self, node: ast.For | ast.While, body: ir.Block, again: ir.Block, done: ir.Block, behind: ir.Block
    ) -> None:
        self.loops.append((again, behind))
        self.builder.position_at_end(body)
        self._statements(node.body)
        if not self.builder.block.is_terminated:
            self.builder.branch(again)
        self.loops.pop()
        if node.orelse:
            self.builder.position_at_end(done)
            self._statements(node.orelse)
            if not self.builder.block.is_terminated:
                self.builder.branch(behind)
        self.builder.position_at_end(behind)

    def _do_For(self, node: ast.For) -> None:
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range"):
            self._unknown(node.iter)
            return
        bounds = [self._word(argument) for argument in call.args]
        first, stop, step = (*((WORD(0), *bounds) if len(bounds) == 1 else bounds), WORD(1))[:3]
        if not isinstance(node.target, ast.Name):
            self._unknown(node.target)
            return
        counter = self.places.alloca(WORD)
        head, body, turn, behind = (self.function.append_basic_block(n) for n in ("for", "do", "turn", "behind"))
        done = self._done(node, behind)
        self.builder.store(first, counter)
        self.builder.branch(head)
        self.builder.position_at_end(head)
        at = self.builder.load(counter)
        self.builder.cbranch(self._goes_on(at, stop, step), body, done)
        self.builder.position_at_end(turn)
        self.builder.store(self.builder.add(at, step, flags=["nsw"]), counter)
        self.builder.branch(head)
        self.builder.position_at_end(body)
        self._set(node.target.id, at)
        self._loop(node, body, turn, done, behind)

    def _goes_on(self, at: ir.Value, stop: ir.Value, step: ir.Value) -> ir.Value:
        """Whether a range that has come to ``at`` holds it; one with a step of 0 is empty."""
        build = self.builder
        if isinstance(step, ir.Constant):
            return build.icmp_signed("<" if step.constant > 0 else ">", at, stop)
        up = build.and_(build.icmp_signed(">", step, WORD(0)), build.icmp_signed("<", at, stop))
        down = build.and_(build.icmp_signed("<", step, WORD(0)), build.icmp_signed(">", at, stop))
        return build.or_(up, down)

    def _do_Break(self, node: ast.Break) -> None:
        self.builder.branch(self.loops[-1][1])

    def _do_Continue(self, node: ast.Continue) -> None:
        self.builder.branch(self.loops[-1][0])

    # --- conditions ------------------------------------------------------------------------------

    def _branch(self, node: ast.expr, yes: ir.Block, no: ir.Block) -> None:
        """Go to one of two blocks; what Python would not look at is not looked at."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._branch(node.operand, no, yes)
        elif isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                following = self.function.append_basic_block("and" if isinstance(node.op, ast.And) else "or")
                if isinstance(node.op, ast.And):
                    self._branch(part, following, no)
                else:
                    self._branch(part, yes, following)
                self.builder.position_at_end(following)
            self._branch(node.values[-1], yes, no)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            left = self._value(node.left)
            for index, (operation, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
                right = self._value(right_node)
                last = index == len(node.ops) - 1
                following = yes if last else self.function.append_basic_block("and")
                self.builder.cbranch(self._compare(operation, left, right), following, no)
                if not last:
                    self.builder.position_at_end(following)
                left = right
        else:
            condition = self._truth(self._value(node))
            if isinstance(condition, ir.Constant):
                self.builder.branch(yes if condition.constant else no)
            else:
                self.builder.cbranch(condition, yes, no)

    def _branched(self, node: ast.expr) -> ir.Value:
        """A condition of several parts as a value."""
        yes, no, behind = (self.function.append_basic_block(name) for name in ("yes", "no", "behind"))
        self._branch(node, yes, no)
        for block in (yes, no):
            self.builder.position_at_end(block)
            self.builder.branch(behind)
        self.builder.position_at_end(behind)
        joined = self.builder.phi(TRUTH)
        joined.add_incoming(TRUTH(1), yes)
        joined.add_incoming(TRUTH(0), no)
        return joined

    def _compare(self, operation: ast.cmpop, left: Any, right: Any) -> ir.Value:
        if type(operation) not in _COMPARISONS:
            raise TranslationError(f"{type(operation).__name__} is not translated")
        return self.builder.icmp_signed(_COMPARISONS[type(operation)], self._as(left, WORD), self._as(right, WORD))

    # --- values ----------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Any:
        """An LLVM value, a tuple of such, or None of a call that gives nothing."""
        return getattr(self, f"_of_{type(node).__name__}", self._unknown)(node)

    def _of_Constant(self, node: ast.Constant) -> Any:
        return self._known(node.value)

    def _known(self, value: Any) -> Any:
        """A number, or a tuple of numbers, of Python's."""
        if isinstance(value, bool):
            return TRUTH(int(value))
        if isinstance(value, int):
            return WORD(_signed(int(value)))
        if isinstance(value, tuple):
            return tuple(self._known(part) for part in value)
        raise TranslationError(f"{value!r} is not a number")

    def _object(self, node: ast.expr) -> Any:
        """What a name of the function's file, or of a module that it imports, stands for."""
        if isinstance(node, ast.Attribute):
            return getattr(self._object(node.value), node.attr)
        if isinstance(node, ast.Name):
            code, cells = self.python.__code__, self.python.__closure__ or ()
            names = {**self.python.__globals__, **cell_contents(code.co_freevars, cells)}
            if node.id in names and node.id not in code.co_varnames:
                return names[node.id]
            if hasattr(builtins, node.id):
                return getattr(builtins, node.id)
        raise TranslationError(f"line {node.lineno}: {ast.unparse(node)} is not known")

    def _of_Name(self, node: ast.Name) -> Any:
        if node.id in self.records:
            fields = self.records[node.id]._fields
            values = [self.builder.load(self.variables[f"{node.id}.{field}"]) for field in fields]
            return _Record(self.records[node.id], values)
        if node.id in self.variables:
            return self.builder.load(self.variables[node.id])
        return self._known(self._object(node))

    def _of_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in self.records:
            if node.attr not in self.records[node.value.id]._fields:
                raise TranslationError(f"line {node.lineno}: {ast.unparse(node)} names no field")
            return self.builder.load(self.variables[f"{node.value.id}.{node.attr}"])
        return self._known(self._object(node))

    def _of_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._value(part) for part in node.elts)

    def _of_Compare(self, node: ast.Compare) -> ir.Value:
        if len(node.ops) > 1:
            return self._branched(node)
        left = self._value(node.left)
        return self._compare(node.ops[0], left, self._value(node.comparators[0]))

    def _of_BoolOp(self, node: ast.BoolOp) -> ir.Value:
        """The operand that decides, as in Python: ``a or 3`` is a number, of truth values a truth value."""
        found: list[tuple[ir.Value, ir.Value, ir.Block]] = []  # operands, their truth, the ends of their code
        starts: list[ir.Block] = []
        for part in node.values:
            if found:
                starts.append(self.function.append_basic_block("operand"))
                self.builder.position_at_end(starts[-1])
            value = self._value(part)
            found.append((value, self._truth(value), self.builder.block))
        behind = self.function.append_basic_block("behind")
        kind = TRUTH if all(value.type == TRUTH for value, _, _ in found) else WORD
        joined = ir.PhiInstr(behind, kind, "", flags=())
        for (value, truth, end), following in zip(found, [*starts, None], strict=True):
            self.builder.position_at_end(end)
            joined.add_incoming(self._as(value, kind), end)
            if following is None:
                self.builder.branch(behind)
            elif isinstance(node.op, ast.And):
                self.builder.cbranch(truth, following, behind)
            else:
                self.builder.cbranch(truth, behind, following)
        behind.instructions.insert(0, joined)
        self.builder.position_at_end(behind)
        return joined

    def _of_UnaryOp(self, node: ast.UnaryOp) -> ir.Value:
        if isinstance(node.op, ast.Not):
            return self.builder.not_(self._truth(self._value(node.operand)))
        value = self._word(node.operand)
        if isinstance(node.op, ast.USub):
            return WORD(_signed(-value.constant)) if isinstance(value, ir.Constant) else self.builder.neg(value)
        if isinstance(node.op, ast.Invert):
            return WORD(_signed(~value.constant)) if isinstance(value, ir.Constant) else self.builder.not_(value)
        return value

    def _of_BinOp(self, node: ast.BinOp) -> Any:
        return self._operate(node.op, self._value(node.left), node.right)

    def _operate(self, operation: ast.operator, left: Any, right_node: ast.expr) -> ir.Value:
        right = self._value(right_node)
        a, b = self._as(left, WORD), self._as(right, WORD)
        if isinstance(operation, ast.FloorDiv | ast.Mod):
            return self._divide(a, b, isinstance(operation, ast.Mod))
        if type(operation) not in _OPERATIONS:
            raise TranslationError(f"{type(operation).__name__} is not translated")
        name, known = _OPERATIONS[type(operation)]
        if isinstance(a, ir.Constant) and isinstance(b, ir.Constant):
            return WORD(_signed(known(a.constant, b.constant)))
        return getattr(self.builder, name)(a, b)

    def _divide(self, a: ir.Value, b: ir.Value, rest: bool) -> ir.Value:
        """Python's quotient or rest, rounded down; 0 where the divisor is 0, as Numba's with NumPy's rules."""
        build = self.builder
        by_zero = build.icmp_signed("==", b, WORD(0))
        safe = build.select(by_zero, WORD(1), b)
        remainder = build.srem(a, safe)
        differs = build.icmp_signed("<", build.xor(remainder, safe), WORD(0))
        below = build.and_(differs, build.icmp_signed("!=", remainder, WORD(0)))
        if rest:
            result = build.add(remainder, build.select(below, safe, WORD(0)))
        else:
            result = build.sub(build.sdiv(a, safe), build.zext(below, WORD))
        return build.select(by_zero, WORD(0), result)

    def _of_IfExp(self, node: ast.IfExp) -> ir.Value:
        starts = [self.function.append_basic_block(name) for name in ("then", "else")]
        behind = self.function.append_basic_block("behind")
        self._branch(node.test, *starts)
        ends, values = [], []
        for block, part in zip(starts, (node.body, node.orelse), strict=True):
            self.builder.position_at_end(block)
            values.append(self._value(part))
            ends.append(self.builder.block)
        kind = values[0].type if values[0].type == values[1].type else WORD
        joined = ir.PhiInstr(behind, kind, "", flags=())
        for block, value in zip(ends, values, strict=True):
            self.builder.position_at_end(block)
            joined.add_incoming(self._as(value, kind), block)
            self.builder.branch(behind)
        behind.instructions.insert(0, joined)
        self.builder.position_at_end(behind)
        return joined

    def _element(self, node: ast.Subscript) -> ir.Value:
        """Where a word of an array, or a field of a structure, is."""
        if isinstance(node.value, ast.Name) and node.value.id in self.layouts:
            address = self.builder.add(self._value(node.value), WORD(self._offset(self.layouts[node.value.id], node)))
            return self.builder.inttoptr(address, POINTER)
        base = self._value(node.value)
        if not isinstance(base, ir.Value) or base.type != POINTER:
            raise TranslationError(f"line {node.lineno}: {ast.unparse(node.value)} is not an array")
        index = self._word(node.slice)
        if self.whole.policy is not None:
            index = self._within(node, index)
        return self.builder.gep(base, [index])

    def _within(self, node: ast.Subscript, index: ir.Value) -> ir.Value:
        """An index into a policy's array: Python's negative ones count from its end, and one after it is the last."""
        if not isinstance(node.value, ast.Name) or node.value.id not in self.lengths:
            raise TranslationError(f"line {node.lineno}: {ast.unparse(node.value)} is not an argument")
        build, length = self.builder, self.lengths[node.value.id]
        index = build.select(build.icmp_signed("<", index, WORD(0)), build.add(index, length), index)
        return build.select(build.icmp_unsigned("<", index, length), index, build.sub(length, WORD(1)))

    def _writable(self, node: ast.Subscript) -> ir.Value:
        if self.whole.policy is not None:
            raise TranslationError(f"line {node.lineno}: a policy only reads its arrays")
        return self._element(node)

    def _offset(self, layout: Any, node: ast.Subscript) -> int:
        """Of a field that a structure is asked for by its name."""
        try:
            return int(layout[ast.literal_eval(node.slice)])
        except (KeyError, ValueError):
            raise TranslationError(f"line {node.lineno}: {ast.unparse(node)} names no field") from None

    def _of_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.slice, ast.Constant) and not isinstance(node.value, ast.Name | ast.Attribute):
            return self._value(node.value)[node.slice.value]
        if isinstance(node.value, ast.Name) and node.value.id not in self.variables:
            if not isinstance(found := self._object(node.value), tuple):
                return WORD(self._offset(found, node))
            known, place = self._known(found), self._value(node.slice)
            if isinstance(place, ir.Constant):
                return known[place.constant]
        return self.builder.load(self._element(node))

    # --- calls -----------------------------------------------------------------------------------

    def _of_Call(self, node: ast.Call) -> Any:
        if node.keywords:
            raise TranslationError(f"line {node.lineno}: a call names its arguments")
        callee = self._object(node.func)
        if (
            callee is len
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id in self.lengths
        ):
            return self.lengths[node.args[0].id]
        arguments = [self._value(argument) for argument in node.args]
        if callee is bool:
            return self._truth(arguments[0])
        if is_record(callee):
            if len(arguments) != len(callee._fields):
                raise TranslationError(f"line {node.lineno}: {callee.__name__} has {len(callee._fields)} fields")
            return _Record(callee, arguments)
        if callee is min or callee is max:
            return self._extreme("<" if callee is min else ">", arguments)
        if isinstance(callee, intrinsics.Piece):
            return callee.definition(self.builder, *(self._plain(argument) for argument in arguments))
        if not isinstance(callee, intrinsics.Part):
            raise TranslationError(f"line {node.lineno}: {ast.unparse(node.func)} is not a function for machine code")
        return self._call(callee.py_func, arguments)

    def _extreme(self, sign: str, arguments: Sequence[Any]) -> ir.Value:
        best, *others = (self._as(argument, WORD) for argument in arguments)
        for other in others:
            best = self.builder.select(self.builder.icmp_signed(sign, other, best), other, best)
        return best

    def _plain(self, value: Any) -> ir.Value:
        """What a piece gets: a pointer, or a number of 64 bits."""
        return value if isinstance(value, ir.Value) and value.type == POINTER else self._as(value, WORD)

    def _call(self, python: FunctionType, arguments: list[Any]) -> Any:
        function = self.whole.function(python)
        kinds = function.function_type.args
        arguments = [part for given in arguments for part in (given.values if isinstance(given, _Record) else [given])]
        missing = len(kinds) - len(arguments)
        if missing:
            arguments = [*arguments, *(self._known(value) for value in (python.__defaults__ or ())[-missing:])]
        result = self.builder.call(
            function, [self._as(argument, kind) for argument, kind in zip(arguments, kinds, strict=True)]
        )
        if isinstance(result.type, ir.LiteralStructType):
            parts = tuple(self.builder.extract_value(result, index) for index in range(len(result.type.elements)))
            record = record_of(plain_source(python).returns, python.__globals__)
            return parts if record is None else _Record(record, list(parts))
        return None if isinstance(result.type, ir.VoidType) else result
