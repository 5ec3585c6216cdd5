"""Operands of ``call``: passes arguments and results through frames."""

from __future__ import annotations

from warpwright.isa.ops import Access
from warpwright.isa.ptx.meaning import Emitter
from warpwright.isa.ptx.syntax import BITS, Immediate, Instruction, Operand, Register, Symbol, Variable, Vector


def call_parts(i: Instruction) -> tuple[tuple[Operand, ...], Operand, tuple[Operand, ...], Operand | None]:
    """(results, target, arguments, list or prototype) of a call."""
    operands = list(i.operands)
    results = operands.pop(0) if operands and isinstance(operands[0], Vector) else Vector(())
    target = operands.pop(0)
    arguments = operands.pop(0) if operands and isinstance(operands[0], Vector) else Vector(())
    assert isinstance(results, Vector)
    assert isinstance(arguments, Vector)
    return results.items, target, arguments.items, operands[0] if operands else None


def argument_words(b: Emitter, argument: Operand, size: int) -> list[int]:
    """An argument as 32-bit words: a parameter variable's bytes, or a value."""
    if isinstance(argument, Symbol):
        storage = b.context.symbols(argument.name)
        if storage.space == "local":
            place = b.frame(storage.offset)
            return [
                b.op("load", "i32", b.add(place, b.const(4 * n)) if n else place, attr=Access("local", 4))
                for n in range(size // 4)
            ]
    if size == 4:
        return [b.source(argument, "u32")]
    return list(b.high_low(b.source(argument, "u64")))


def copy_in(b: Emitter, argument: Operand, variable: Variable, at: int) -> None:
    """Copy an argument into the callee's frame: a parameter variable's bytes, or a value."""
    if isinstance(argument, Symbol):
        storage = b.context.symbols(argument.name)
        if storage.space == "local":
            copy_bytes(b, b.frame(storage.offset), at, variable.size_bytes, variable.align)
            return
    store_values(b, argument, at, variable)


def copy_out(b: Emitter, result: Operand, variable: Variable, at: int) -> None:
    if isinstance(result, Symbol):
        storage = b.context.symbols(result.name)
        copy_bytes(b, at, b.frame(storage.offset), variable.size_bytes, variable.align)
        return
    load_values(b, result, at, variable)


def copy_bytes(b: Emitter, from_: int, to: int, size: int, alignment: int) -> None:
    """Copy from local memory to local memory, in pieces as large as the alignment allows."""
    done = 0
    while done < size:
        piece = next(p for p in (4, 2, 1) if p <= alignment and done + p <= size)
        type = {4: "i32", 2: "i16", 1: "i8"}[piece]
        source, target = (b.add(x, b.const(done)) if done else x for x in (from_, to))
        value = b.op("load", type, source, attr=Access("local", piece))
        b.op("store", "void", target, value, attr=Access("local", piece))
        done += piece


def registers_of(variable: Variable) -> Operand:
    """The registers that a register parameter declares."""
    if variable.vector == 1:
        return Register(variable.name)
    return Vector(tuple(Register(f"{variable.name}.{c}") for c in "xyzw"[: variable.vector]))


def elements_of(o: Operand, variable: Variable) -> list[tuple[int, Operand]]:
    """(offset, operand) for a value, or for each component of a vector."""
    items = o.items if isinstance(o, Vector) and variable.vector > 1 else (o,)
    return [(n * variable.element_bytes, item) for n, item in enumerate(items)]


def store_values(b: Emitter, o: Operand, at: int, variable: Variable) -> None:
    for offset, item in elements_of(o, variable):
        literal_float = isinstance(item, Immediate) and variable.type in ("f32", "f64")
        type = variable.type if literal_float or variable.type == "pred" else f"b{BITS[variable.type]}"
        value = b.source(item, type)
        value = b.zext(value, "i8") if type == "pred" else b.bitcast(value, f"i{BITS[variable.type]}")
        if variable.element_bytes == 8:
            value = b.op("pack2", "i32x2", *b.high_low(value))
        place = b.add(at, b.const(offset)) if offset else at
        b.op("store", "void", place, value, attr=Access("local", variable.element_bytes))


def load_values(b: Emitter, o: Operand, at: int, variable: Variable) -> None:
    size = variable.element_bytes
    for offset, item in elements_of(o, variable):
        place = b.add(at, b.const(offset)) if offset else at
        if size == 8:
            words = b.op("load", "i32x2", place, attr=Access("local", 8))
            value = b.op("pack64", "i64", *(b.op("extract", "i32", words, attr=n) for n in range(2)))
        else:
            value = b.op("load", f"i{8 * size}", place, attr=Access("local", size))
        b.result(item, b.trunc(value, "i1") if variable.type == "pred" else value)
