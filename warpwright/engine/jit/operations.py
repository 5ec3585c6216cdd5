"""All operations except control flow and registers: which module writes each, and properties of their results.

A scalar result is computed once per basic block: the same operation on the same operands returns it again.
"""

from __future__ import annotations

from collections.abc import Callable

from warpwright.engine.abi import WARP, FaultKind
from warpwright.engine.jit import cross_lane as ln
from warpwright.engine.jit import trace as tr
from warpwright.engine.jit import warpgroup_products as gr
from warpwright.engine.jit.arithmetic import emit_pure
from warpwright.engine.jit.atomics import emit_atomic
from warpwright.engine.jit.bulk_copies import emit_bulk
from warpwright.engine.jit.checks import settle_faults
from warpwright.engine.jit.constants import emit_load_const
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Val
from warpwright.engine.jit.loads import emit_load
from warpwright.engine.jit.rowwise import emit_rows, scalar_of, spread
from warpwright.engine.jit.shape_inference import Known, pack
from warpwright.engine.jit.shapes import SCALAR_KIND, UNIFORM, UNSET, VECTOR, Shape, never_wraps
from warpwright.engine.jit.stores import emit_store
from warpwright.engine.jit.texture_calls import emit_texture
from warpwright.isa.ops import Op


def nothing() -> Val:
    """The result of an operation without a result."""
    return Val("void", UNSET)


def emit_operation(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    """Write an operation whose result is ``known`` to have a certain shape."""
    writer = WRITERS.get(op.name)
    return _pure(w, op, args, known) if writer is None else writer(w, op, args, known)


# --- by kind --------------------------------------------------------------------------------------
def _pack64(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    return pair(w, args[0], args[1])


def pair(w: FunctionWriter, low: Val, high: Val) -> Val:
    """The i64 of two words."""
    shape = pack((low.shape, high.shape))
    if shape.pattern is None:
        return Val("i64", shape, parts=(low, high))
    return Val("i64", shape, scalar=w.op(f"zext i32 {w.scalar(low)} to i64") if shape.const is None else "")


def _extract(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    return args[0].parts[op.attr] if args[0].parts else w.word(args[0], op.attr)


def _store(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    emit_store(w, op, args[0], args[1])
    return nothing()


def _touch(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    if w.trace:
        whole = w.exec
        w.exec = w.and_mask(whole, args[1]) if len(args) > 1 else whole
        tr.record_access(w, args[0], op.attr)
        w.exec = whole
    return nothing()


def _fence(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    w.emit("fence seq_cst" if op.attr != "cta" else 'fence syncscope("singlethread") seq_cst')
    return nothing()


def _bulk(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    emit_bulk(w, op, args)
    return nothing()


def _load_const(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    if isinstance(known, Shape) and known.const is not None:
        return Val(op.type, known)
    key = w.number(op, args)
    if key is None:
        return emit_load_const(w, op, args[0])
    if key not in w.numbered:
        w.numbered[key] = emit_load_const(w, op, args[0])
    return w.numbered[key]


def _special(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    assert isinstance(known, Shape)
    return ln.special(w, op, known)


def _shuffle(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    assert isinstance(known, Shape)
    return ln.shuffle(w, args[0], args[1], known)


def _executed(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    assert isinstance(known, Shape)
    return ln.executed(w, args[0], known)


def _pure(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    assert isinstance(known, Shape)
    name = op.name
    if known.rows is not None:
        if op.attr == "address":
            top = max(*known.rows, 0)
            rows = tuple(_extended(w, scalar_of(w, args[0], row), top) for row in range(w.lanes // w.row_length))
            return Val(op.type, known, rows=rows)
        if name == "sext":
            _check_extension(w, args[0])
        return Val(op.type, known, rows=emit_rows(w, name, op.type, args))
    if known.kind != SCALAR_KIND:
        return emit_pure(w, op, args, known)
    if name == "sext" and known.pattern is not None and known.const is None:
        _check_extension(w, args[0])
    key = w.number(op, args)
    if key is not None and key in w.numbered:
        return w.numbered[key]
    if op.attr == "address" and known.pattern is not None and known.const is None:
        value = w.made("i64", known, _extended(w, w.scalar(args[0]), max(*known.pattern, 0)))
    else:
        value = emit_pure(w, op, args, known)
    if key is not None:
        w.numbered[key] = value
    if op.type == "i64" and value.scalar:
        w.note_sum(name, value.scalar, args)
        _shorten(w, value)
    elif name == "add" and op.type == "i32" and value.scalar:
        w.note_offset(value.scalar, args)
    return value


def _shorten(w: FunctionWriter, value: Val) -> None:
    """An address that an unrolled loop computes by repeatedly adding a stride, as a shift and an addition."""
    sum_ = w.sums.get(value.scalar)
    if sum_ is None or sum_.times < 4 or sum_.times & (sum_.times - 1):
        return
    many = w.op(f"mul i64 {sum_.stride}, {sum_.times}")
    value.scalar = w.op(f"add i64 {w.op(f'add i64 {sum_.root}, {many}')}, {sum_.step}")
    w.sums[value.scalar] = sum_


def _extended(w: FunctionWriter, scalar: str, top: int) -> str:
    """The scalar of 32-bit addresses, zero-extended so that the lane with the largest offset has its correct address.

    Lanes before a wrap at 2**32 get an address below the device's memory; their own is at the end of 4 GiB, where there
    is no memory either.
    """
    if not top:
        return w.op(f"zext i32 {scalar} to i64")
    last = w.op(f"zext i32 {w.op(f'add i32 {scalar}, {top}')} to i64")
    return w.op(f"sub i64 {last}, {top}")


def _check_extension(w: FunctionWriter, value: Val) -> None:
    """Stop if scalar + offset passes 2**31 in some executing lane (see ``sign_extensions.py``)."""
    pattern = value.shape.rows or value.shape.pattern
    if pattern is None or not any(pattern) or (value.shape.rows is None and never_wraps(value.shape, 32, True)):
        return
    settle_faults(w)
    least = -(1 << 31) - min(*pattern, 0)
    most = (1 << 31) - 1 - max(*pattern, 0)
    fine = "true"
    for scalar in value.rows or (w.scalar(value),):
        above = w.op(f"sub i32 {scalar}, {least}")
        inside = w.op(f"icmp ule i32 {above}, {most - least}")
        fine = inside if fine == "true" else w.op(f"and i1 {fine}, {inside}")
    go, look, leave = w.new_label("fits"), w.new_label("wraps"), w.new_label("leave")
    w.emit(f"br i1 {fine}, label %{go}, label %{look}, !prof !0")
    w.label(look)
    # Lanes that do not execute may exceed it, because their values are never used.
    vec = w.vector_type("i32")
    offsets = w.literal_vector("i32", pattern)
    if value.rows:
        start = spread(w, Val("i32", VECTOR, rows=value.rows))
    else:
        start = w.splat("i32", w.scalar(value))
    total = w.op(f"add {vec} {start}, {offsets}")
    both = w.op(f"and {vec} {w.op(f'xor {vec} {total}, {start}')}, {w.op(f'xor {vec} {total}, {offsets}')}")
    wrong = w.op(f"and {w.mask_type} {w.exec.bits}, {w.bits_of(w.op(f'icmp slt {vec} {both}, zeroinitializer'))}")
    w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {wrong}, 0')}, label %{go}, label %{leave}, !prof !0")
    w.label(leave)
    w.store_field("%warp", WARP["fault_instruction"], str(w.program.instructions[w.index].address))
    w.store_field("%warp", WARP["fault_lanes"], w.wide_mask(wrong))
    w.emit("br label %interpret")
    w.label(go)


def _named(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    tr.note_outside(w, w.exec.bits, args[0], w.program.instructions[w.index].address)
    return nothing()


def _access_policy(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    tr.record_policy(w, args[0])
    return nothing()


def _gathers(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    """A warp-wide operation on chips that do not wait for the lanes of its mask."""
    kind = w.mask_type
    named = w.op(f"and {kind} {args[0].shape.const}, %lanes")
    tr.record_sync(w, w.block, w.exec.bits, w.op(f"and {kind} {named}, {w.op(f'xor {kind} {w.exec.bits}, -1')}"))
    return nothing()


def _aligned(w: FunctionWriter, op: Op, args: list[Val], known: Known) -> Val:
    """Fault if some lane's address is not a multiple of the access size."""
    size = op.attr.bytes
    lanes = w.and_mask(w.exec, args[1])
    addresses = w.vector(args[0])
    low = w.op(f"and {w.vec32} {addresses}, {w.literal_vector('i32', (size - 1,) * w.lanes)}")
    wrong = w.op(f"and {w.mask_type} {w.bits_of(w.op(f'icmp ne {w.vec32} {low}, zeroinitializer'))}, {lanes.bits}")
    go, bad = w.new_label("aligned"), w.new_label("misaligned")
    w.emit(f"br i1 {w.op(f'icmp eq {w.mask_type} {wrong}, 0')}, label %{go}, label %{bad}, !prof !0")
    w.label(bad)
    first = w.lowest_lane(wrong)
    address = w.op(f"zext i32 {w.op(f'extractelement {w.vec32} {addresses}, {w.mask_type} {first}')} to i64")
    values = {"fault_kind": str(int(FaultKind.MISALIGNED)), "fault_address": address, "fault_bytes": str(size)}
    values |= {"fault_lanes": w.wide_mask(wrong)}
    values |= {"fault_instruction": str(w.program.instructions[w.index].address)}
    for name, value in values.items():
        w.store_field("%warp", WARP[name], value)
    w.emit("br label %fault")
    w.label(go)
    return nothing()


def _copy_const(w: FunctionWriter, op: Op) -> Val:
    """A constant that grows with each copy of a run."""
    first, step = op.attr
    copy = w.op("load i64, ptr %copy")
    if op.type == "i32":
        copy = w.op(f"trunc i64 {copy} to i32")
    return Val(op.type, UNIFORM, scalar=w.op(f"add {op.type} {w.op(f'mul {op.type} {copy}, {step}')}, {first}"))


def _next_copy(w: FunctionWriter, op: Op) -> Val:
    """Go on to the next copy of a run; returns whether there is one, and otherwise begins to count anew."""
    following = w.op(f"add i64 {w.op('load i64, ptr %copy')}, 1")
    more = w.op(f"icmp ult i64 {following}, {op.attr}")
    w.emit(f"store i64 {w.op(f'select i1 {more}, i64 {following}, i64 0')}, ptr %copy")
    return Val("i1", UNIFORM, scalar=more)


WRITERS: dict[str, Callable[[FunctionWriter, Op, list[Val], Known], Val]] = {
    "gathers": _gathers,
    "access_policy": _access_policy,
    "aligned": _aligned,
    "const": lambda w, op, args, known: w.constant(op.type, op.attr),
    "copy_const": lambda w, op, args, known: _copy_const(w, op),
    "next_copy": lambda w, op, args, known: _next_copy(w, op),
    "pack2": lambda w, op, args, known: Val(op.type, VECTOR, parts=tuple(args)),
    "pack4": lambda w, op, args, known: Val(op.type, VECTOR, parts=tuple(args)),
    "pack64": _pack64,
    "extract": _extract,
    "load": lambda w, op, args, known: emit_load(w, op, args),
    "store": _store,
    "atomic": lambda w, op, args, known: emit_atomic(w, op, args),
    "touch": _touch,
    "fence": _fence,
    "named": _named,
    "async_commit": lambda w, op, args, known: nothing(),
    "bulk": _bulk,
    "service": lambda w, op, args, known: ln.service(w, op, args),
    "texture": lambda w, op, args, known: emit_texture(w, op, args),
    "mma": lambda w, op, args, known: ln.mma(w, op, args),
    "wgmma": lambda w, op, args, known: gr.group_product(w, op, args),
    "special64": lambda w, op, args, known: ln.special64(w, op.attr),
    "load_const": _load_const,
    "active": lambda w, op, args, known: Val("i32", UNIFORM, scalar=w.exec.bits),
    "ballot": lambda w, op, args, known: ln.ballot(w, args[0]),
    "special": _special,
    "shuffle": _shuffle,
    "executed": _executed,
    "match_any": lambda w, op, args, known: ln.match_any(w, args[0]),
    "redux": lambda w, op, args, known: ln.redux(w, op, args[0]),
    "first_lane": lambda w, op, args, known: ln.first_lane(w, args[0], w.exec),
}
"""All other operations are pure."""
