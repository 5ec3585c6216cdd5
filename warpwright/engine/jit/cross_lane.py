"""LLVM text for operations across lanes, special registers and tensor cores."""

from __future__ import annotations

import itertools

from warpwright.engine.abi import BLOCK, GRID_ID, LAUNCH, LOCAL_WINDOW, SHARED_WINDOW, WARP, WARP_SLOTS
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Masks, Val
from warpwright.engine.jit.shape_inference import LANE_MASKS, lane_masks
from warpwright.engine.jit.shapes import SCALAR_KIND, UNIFORM, UNSET_KIND, VECTOR, VECTOR_KIND, Shape
from warpwright.isa.ops import Op

IDENTITY = {
    "add": 0,
    "umin": 0xFFFFFFFF,
    "umax": 0,
    "smin": 0x7FFFFFFF,
    "smax": 0x80000000,
    "and": 0xFFFFFFFF,
    "or": 0,
    "xor": 0,
}


def first_lane_number(w: FunctionWriter, lanes: Masks) -> str:
    """Number of the lowest lane of a mask (0 for none)."""
    return w.op(f"and {w.mask_type} {w.lowest_lane(lanes.bits)}, {w.lanes - 1}")


def first_lane(w: FunctionWriter, value: Val, lanes: Masks) -> Val:
    """The value of the lowest lane, uniform."""
    if value.shape.kind != VECTOR_KIND and value.shape.pattern is None:
        return value
    number = first_lane_number(w, lanes)
    name = w.op(f"extractelement {w.vector_type(value.type)} {w.vector(value)}, {w.mask_type} {number}")
    return Val(value.type, UNIFORM, scalar=name)


def ballot(w: FunctionWriter, value: Val) -> Val:
    return Val(w.mask_type, UNIFORM, scalar=w.and_mask(w.exec, value).bits)


def shuffle(w: FunctionWriter, value: Val, lane: Val, shape: Shape) -> Val:
    if shape.kind == UNSET_KIND or (shape.kind == SCALAR_KIND and shape.const is not None):
        return Val("i32", shape)
    if shape.kind == SCALAR_KIND:
        return Val("i32", shape, scalar=w.scalar(value))
    if lane.shape.kind == SCALAR_KIND and lane.shape.const is not None:
        order = [(lane.shape.const + p) & (w.lanes - 1) for p in lane.shape.pattern or (0,) * w.lanes]
        mask = "<" + ", ".join(f"i32 {n}" for n in order) + ">"
        return Val(
            "i32", VECTOR, vector=w.op(f"shufflevector {w.vec32} {w.vector(value)}, {w.vec32} poison, {w.vec32} {mask}")
        )
    if lane.shape.kind == SCALAR_KIND and lane.shape.pattern is None:
        number = w.op(f"and i32 {w.scalar(lane)}, {w.lanes - 1}")
        one = w.op(f"extractelement {w.vec32} {w.vector(value)}, i32 {number}")
        return Val("i32", VECTOR, vector=w.splat("i32", one))
    w.declare("ww_shuffle", w.vec32, f"{w.vec32}, {w.vec32}")
    return Val(
        "i32",
        VECTOR,
        vector=w.op(f"call {w.vec32} @ww_shuffle({w.vec32} {w.vector(value)}, {w.vec32} {w.vector(lane)})"),
    )


def executed(w: FunctionWriter, value: Val, shape: Shape) -> Val:
    """The value in the lanes that execute the instruction, and zero in the others."""
    if shape.kind != VECTOR_KIND:
        return Val("i32", shape) if shape.const is not None or shape.kind == UNSET_KIND else value
    if w.exec.bits == "-1":
        return Val("i32", VECTOR, vector=w.vector(value))
    chosen = f"select {w.vecbool} {w.mask_vector(w.exec)}, {w.vec32} {w.vector(value)}, {w.vec32} zeroinitializer"
    return Val("i32", VECTOR, vector=w.op(chosen))


def match_any(w: FunctionWriter, value: Val) -> Val:
    w.declare("ww_match_any", w.vecmask, f"{w.vec32}, {w.mask_type}")
    called = f"call {w.vecmask} @ww_match_any({w.vec32} {w.vector(value)}, {w.mask_type} {w.exec.bits})"
    return Val(w.mask_type, VECTOR, vector=w.op(called))


def redux(w: FunctionWriter, op: Op, value: Val) -> Val:
    name = op.attr
    neutral = w.literal_vector("i32", (IDENTITY[name],) * w.lanes)
    chosen = w.op(f"select {w.vecbool} {w.mask_vector(w.exec)}, {w.vec32} {w.vector(value)}, {w.vec32} {neutral}")
    stem = f"llvm.vector.reduce.{name}.v{w.lanes}i32"
    w.declared[stem] = f"declare i32 @{stem}({w.vec32})"
    return Val("i32", UNIFORM, scalar=w.op(f"call i32 @{stem}({w.vec32} {chosen})"))


def mma(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """Tensor core: registers go through memory to a shared function."""
    shape, element, accumulator, n_a, n_b, n_c, arch = op.attr
    for n, value in enumerate(args):
        pointer = w.op(f"getelementptr i8, ptr %lane_values, i64 {w.row_bytes * n}") if n else "%lane_values"
        w.emit(f"store {w.vec32} {w.vector(value)}, ptr {pointer}, align 64")
    name = f"ww_mma_{shape}_{element}_{accumulator}_{n_a}_{n_b}_{n_c}_{arch}"
    w.declare(name, "void", "ptr")
    w.emit(f"call void @{name}(ptr %lane_values)")
    parts = []
    for n in range(4):
        if n < n_c:
            pointer = w.op(f"getelementptr i8, ptr %lane_values, i64 {w.row_bytes * n}") if n else "%lane_values"
            parts.append(Val("i32", VECTOR, vector=w.op(f"load {w.vec32}, ptr {pointer}, align 64")))
        else:
            parts.append(w.constant("i32", 0))
    return Val("i32x4", VECTOR, parts=tuple(parts))


def service(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """A driver function: passes words through memory to the launch's own function."""
    for n, value in enumerate(args):
        pointer = w.op(f"getelementptr i8, ptr %lane_values, i64 {w.row_bytes * n}") if n else "%lane_values"
        w.emit(f"store {w.vec32} {w.vector(value)}, ptr {pointer}, align 64")
    place = w.op(f"load ptr, ptr {w.field('%launch', LAUNCH['service'])}")
    number = w.program.services.index(op.attr)
    address = w.program.instructions[w.index].address
    w.emit(f"call void {place}(ptr %warp, i32 {w.exec.bits}, i32 {number}, ptr %lane_values, i64 {address})")
    low = w.op(f"load {w.vec32}, ptr %lane_values, align 64")
    pointer = w.op("getelementptr i8, ptr %lane_values, i64 128")
    high = w.op(f"load {w.vec32}, ptr {pointer}, align 64")
    return Val("i64", VECTOR, parts=(Val("i32", VECTOR, vector=low), Val("i32", VECTOR, vector=high)))


def special(w: FunctionWriter, op: Op, shape: Shape) -> Val:
    """A special register."""
    name: str = op.attr
    if shape.kind == SCALAR_KIND and shape.const is not None:
        return Val("i32", shape)
    stem, _, axis = name.partition(".")
    if stem == "tid":
        return _thread_index(w, axis, shape)
    if name == "laneid":
        return Val("i32", VECTOR, vector=w.literal_vector("i32", w.all_lanes))
    if name in LANE_MASKS:
        return Val("i32", VECTOR, vector=w.literal_vector("i32", lane_masks(name, w.lanes)))
    if stem == "ctaid":
        return _field(w, "%block", BLOCK[f"index_{axis}"], shape)
    if stem == "ntid":
        return _field(w, "%launch", LAUNCH[f"block_{axis}"], shape)
    if stem == "nctaid":
        return _field(w, "%launch", LAUNCH[f"grid_{axis}"], shape)
    if name in ("cluster_ctaid", "cluster_nctaid", "is_explicit_cluster") or stem in CLUSTER_FIELDS:
        return _cluster_field(w, name, shape)
    if name == "warpid":
        return _field(w, "%warp", WARP["warp_in_block"], shape)
    if name == "smid":
        return _field(w, "%warp", WARP["sm_id"], shape)
    if name == "barrier_result":
        return _field(w, "%warp", WARP["barrier_result"], shape)
    if name == "nsmid":
        return _field(w, "%launch", LAUNCH["sm_count"], shape)
    if name == "dynamic_smem_size":
        return _field(w, "%launch", LAUNCH["dynamic_shared_bytes"], shape)
    if name == "total_smem_size":
        return _field(w, "%block", BLOCK["shared_bytes"], shape)
    fixed = {
        "shared_window_hi": SHARED_WINDOW >> 32,
        "shared_window_lo": SHARED_WINDOW & 0xFFFFFFFF,
        "local_window_hi": LOCAL_WINDOW >> 32,
        "local_window_lo": LOCAL_WINDOW & 0xFFFFFFFF,
        "gridid": GRID_ID,
        "nwarpid": WARP_SLOTS,
    }
    if name in fixed:
        return w.constant("i32", fixed[name])
    if not name.startswith(("clock", "globaltimer")):
        raise NotImplementedError(f"special register {name} has no compiled form")
    clock = special64(w, "globaltimer" if name.startswith("globaltimer") else "clock")
    text = clock.scalar
    if name.endswith("hi"):
        text = w.op(f"lshr i64 {text}, 32")
    return Val("i32", UNIFORM, scalar=w.op(f"trunc i64 {text} to i32"))


def special64(w: FunctionWriter, name: str) -> Val:
    """A clock: the timing model's with tracing, else the warp's count of instructions."""
    field = WARP["globaltimer_ns"] if name == "globaltimer" else WARP["clock"]
    value = w.load_field("%warp", field)
    if not w.trace:
        before = w.load_field("%warp", WARP["instructions"])
        made = w.op(f"add i64 {before}, " + w.op("load i64, ptr %instructions"))
        value = w.op(f"add i64 {value}, {made}")
    return Val("i64", UNIFORM, scalar=value)


def _field(w: FunctionWriter, base: str, offset: int, shape: Shape) -> Val:
    return Val("i32", shape, scalar=w.load_field(base, offset, "i32"))


CLUSTER_FIELDS = {
    "cluster_ctaid": ("%block", BLOCK, "cluster_index"),
    "cluster_nctaid": ("%launch", LAUNCH, "cluster"),
    "clusterid": ("%block", BLOCK, "cluster_id"),
    "nclusterid": ("%launch", LAUNCH, "clusters"),
}
"""Positions of special registers that have an axis."""


def _cluster_field(w: FunctionWriter, name: str, shape: Shape) -> Val:
    stem, _, axis = name.partition(".")
    if axis:
        base, layout, field = CLUSTER_FIELDS[stem]
        return _field(w, base, layout[f"{field}_{axis}"], shape)
    if name == "cluster_ctaid":
        return _field(w, "%block", BLOCK["cluster_rank"], shape)
    return _field(w, "%launch", LAUNCH["explicit_cluster" if "explicit" in name else "cluster_count"], shape)


def _thread_index(w: FunctionWriter, axis: str, shape: Shape) -> Val:
    rows = w.setting.thread_index(axis)
    warp = w.load_field("%warp", WARP["warp_in_block"])
    if shape.kind == VECTOR_KIND:
        values = [v for row in rows for v in row]
        table = w.table(("thread", axis), "i32", values, len(values))
        pointer = w.op(f"getelementptr {w.vec32}, ptr {table}, i64 {warp}")
        return Val("i32", VECTOR, vector=w.op(f"load {w.vec32}, ptr {pointer}, align 64"))
    bases = [row[0] for row in rows]
    steps = {later - earlier for earlier, later in itertools.pairwise(bases)}
    if len(steps) == 1 and bases[0] == 0:
        narrow = w.op(f"trunc i64 {warp} to i32")
        return Val("i32", shape, scalar=w.op(f"mul i32 {narrow}, {steps.pop()}"))
    table = w.table(("thread base", axis), "i32", bases, len(bases))
    pointer = w.op(f"getelementptr i32, ptr {table}, i64 {warp}")
    return Val("i32", shape, scalar=w.op(f"load i32, ptr {pointer}"))
