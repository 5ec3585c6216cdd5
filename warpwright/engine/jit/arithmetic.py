"""Pure operations as LLVM text: integers (``integers.py``), floats (``floats.py``), conversions, special functions (``silicon.py``)."""

from __future__ import annotations

from warpwright.engine.jit import conversions, floats, integers, silicon
from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.llvm_text import Text, Val
from warpwright.engine.jit.operation_form import Form, Handler
from warpwright.engine.jit.shapes import SCALAR_KIND, VECTOR_KIND, Shape
from warpwright.isa.ops import Op

HANDLERS: dict[str, Handler] = {
    **integers.HANDLERS,
    **floats.HANDLERS,
    **conversions.HANDLERS,
    "mufu": silicon.call,
}
PREDICATE_OPERATIONS = frozenset(("and", "or", "xor", "not", "select"))


def emit_pure(w: Text, op: Op, args: list[Val], shape: Shape) -> Val:
    """Write one operation whose result has ``shape``."""
    if shape.kind == sh.UNSET_KIND or (shape.kind == SCALAR_KIND and shape.const is not None):
        return Val(op.type, shape)
    is_vector = shape.kind == VECTOR_KIND
    if is_vector and op.type == "i1" and not w.registers.masks and op.name in PREDICATE_OPERATIONS:
        return _predicates(w, op, args, shape)
    form = Form(w, is_vector)
    handler = HANDLERS.get(op.name)
    if handler is None:
        raise NotImplementedError(f"operation {op.name} has no compiled form")
    return w.made(op.type, shape, handler(form, op, args))


def _predicates(w: Text, op: Op, args: list[Val], shape: Shape) -> Val:
    """An operation on predicates, on machines without a mask register."""
    if op.name != "select" and all(a.vector and a.place == w.place and not a.bits for a in args):
        # The operands were just compared and are as wide as the compared numbers.
        form = Form(w, True)
        words = [form.cast("sext", "i1", "i32", a.vector) for a in args]
        both = ("xor", words[0], form.const("i32", 0xFFFFFFFF)) if op.name == "not" else (op.name, *words)
        name = form.op("icmp slt", "i32", form.op(both[0], "i32", *both[1:]), "zeroinitializer")
        return w.made("i1", shape, name)
    names = [w.predicate(a) for a in args]
    if op.name == "select":
        name = w.choose(*names)
    else:
        name = w.op(f"xor i32 {names[0]}, -1" if op.name == "not" else f"{op.name} i32 {names[0]}, {names[1]}")
    return Val("i1", shape, bits=name)
