"""Infers the shape of every operation's result, as a fixed point over a whole kernel."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from warpwright.engine.blocks import BasicBlock, waits_under_guard
from warpwright.engine.jit import shapes as sh
from warpwright.engine.jit.flow import concurrency
from warpwright.engine.jit.flow_graph import Bits, Flow, members
from warpwright.engine.jit.live_ranges import Reference, Webs
from warpwright.engine.jit.rowwise import infer_rows, row_length
from warpwright.engine.jit.shapes import (
    SCALAR_KIND,
    UNIFORM,
    UNSET,
    UNSET_KIND,
    VECTOR,
    VECTOR_KIND,
    WIDTH,
    Pattern,
    Shape,
)
from warpwright.engine.jit.sign_extensions import address_extensions
from warpwright.isa.ops import OPS, Lowered, Op

Known = Shape | tuple[Shape, ...]
"""Shape of a value, or of the words of an i32x2, i32x4 or packed i64."""

MAX_GRID = {"x": (1 << 31) - 1, "y": 65535, "z": 65535}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeForm:
    """What the code of a kernel relies on, and what it records."""

    patterns: bool = True
    """False: only uniform values remain scalars (the version used when a check fails)."""
    grid_fits: bool = True
    """gridDim.x * blockDim.x is less than 2**31; larger launches use code that does not rely on it."""
    speculate: bool = True
    """Widening of a patterned 32-bit value may rely on a run-time check."""
    clustered: bool = False
    """Launches with clusters of several blocks: shared addresses contain their block's rank."""
    any_length: bool = False
    """Serves one-dimensional blocks of whole warps of any length (up to 1,024 threads), with trace records only."""
    watched: bool = False
    """With trace records: also record what only the checks use, the lanes that execute warp-wide operations and those
    that are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(CodeForm):
    """Parameters of a compilation besides the code."""

    block_shape: tuple[int, int, int]
    """blockDim; the largest, if the code serves blocks of any length."""
    lanes: int = 32
    """Lanes of a wave (``Program.lanes``)."""
    block_dim_offset: int = 0
    grid_dim_offset: int = 12
    """Offsets of blockDim and gridDim in constant bank 0."""

    @property
    def threads(self) -> int:
        x, y, z = self.block_shape
        return x * y * z

    @property
    def warps(self) -> int:
        return -(-self.threads // self.lanes)

    def thread_index(self, axis: str) -> list[list[int]]:
        """threadIdx of each lane of each warp of a block; lanes beyond the block continue the count."""
        x, y, _ = self.block_shape
        rows = []
        for warp in range(self.warps):
            numbers = range(warp * self.lanes, (warp + 1) * self.lanes)
            if axis == "x":
                rows.append([n % x for n in numbers])
            elif axis == "y":
                rows.append([n // x % y for n in numbers])
            else:
                rows.append([n // (x * y) for n in numbers])
        return rows

    def thread_shape(self, axis: str) -> Shape:
        """Shape of threadIdx: a pattern when all warps share it."""
        rows = self.thread_index(axis)
        pattern = [value - rows[0][0] for value in rows[0]]
        for row in rows:
            if [value - row[0] for value in row] != pattern:
                return VECTOR
        bases = [row[0] for row in rows]
        if not any(pattern):
            return (
                sh.constant(bases[0])
                if len(set(bases)) == 1
                else Shape(SCALAR_KIND, None, None, _align(bases), max(bases))
            )
        if not self.patterns:
            return VECTOR
        if not any(bases):
            return sh.known(tuple(pattern))
        return Shape(SCALAR_KIND, tuple(pattern), None, _align(bases), max(bases))


def _align(values: Sequence[int]) -> int:
    both = 0
    for v in values:
        both |= v
    return both & -both if both else sh.FULL_ALIGNMENT


def uniform(shape: Known) -> bool:
    """Whether all lanes hold the same value."""
    return isinstance(shape, Shape) and shape.kind == SCALAR_KIND and shape.pattern is None


LANE_MASKS: dict[str, Callable[[int], int]] = {
    "lanemask_eq": lambda n: 1 << n,
    "lanemask_lt": lambda n: (1 << n) - 1,
    "lanemask_le": lambda n: (2 << n) - 1,
    "lanemask_gt": lambda n: -1 << n + 1,
    "lanemask_ge": lambda n: -1 << n,
}


def lane_masks(name: str, lanes: int) -> Pattern:
    """The value of a lane-mask register (32 bits) in each lane of a wave."""
    if lanes > 32:
        raise ValueError(
            f"special register {name} has 32 bits, and waves have {lanes} lanes: make the mask from laneid"
        )
    return tuple(LANE_MASKS[name](n) & (1 << lanes) - 1 for n in range(lanes))


def special_shape(name: str, setting: Setting) -> Shape:
    """Shape of a special register."""
    stem, _, axis = name.partition(".")
    if stem == "tid":
        return setting.thread_shape(axis)
    if stem == "ntid":
        if setting.any_length and axis == "x":
            return Shape(SCALAR_KIND, None, None, setting.lanes, setting.block_shape[0])
        return sh.constant(setting.block_shape["xyz".index(axis)])
    if stem in ("ctaid", "nctaid"):
        most = MAX_GRID[axis]
        if setting.grid_fits:
            threads = setting.lanes if setting.any_length and axis == "x" else setting.block_shape["xyz".index(axis)]
            most = min(most, ((1 << 31) - 1) // threads)
        return Shape(SCALAR_KIND, None, None, 1, most if stem == "nctaid" else most - 1)
    if name == "laneid":
        return sh.known(tuple(range(setting.lanes))) if setting.patterns else VECTOR
    if name in LANE_MASKS:
        return sh.known(lane_masks(name, setting.lanes)) if setting.patterns else VECTOR
    if name in ("cluster_ctaid", "cluster_nctaid") and not setting.clustered:
        return sh.constant(int(name == "cluster_nctaid"))
    if name == "warpid":
        return Shape(SCALAR_KIND, None, None, 1, setting.warps - 1)
    return UNIFORM


def _compare(relation: str, x: Shape, y: Shape, width: int) -> Shape:
    if x.const is None or y.const is None:
        return UNIFORM if x.pattern is None and y.pattern is None else VECTOR
    count = len(x.pattern or y.pattern or (0,))
    left, right = _lanes(x, width, count), _lanes(y, width, count)
    if relation[0] == "s":
        half = 1 << (width - 1)
        left = [v ^ half for v in left]
        right = [v ^ half for v in right]
    test = COMPARE[relation[-2:]]
    return sh._known(tuple(int(test(a, b)) for a, b in zip(left, right, strict=True)), 1)


def _lanes(shape: Shape, width: int, count: int) -> list[int]:
    """The value of each lane; a uniform one is repeated."""
    mask = (1 << width) - 1
    assert shape.const is not None
    return [(shape.const + p) & mask for p in shape.pattern or (0,) * count]


def _select(condition: Shape, x: Shape, y: Shape, width: int) -> Shape:
    if condition.kind == SCALAR_KIND and condition.pattern is None:
        if condition.const is not None:
            return x if condition.const & 1 else y
        return sh.meet(x, y)
    if condition.kind == SCALAR_KIND and condition.const is not None and x.const is not None and y.const is not None:
        count = len(condition.pattern or ())
        pick, first, second = _lanes(condition, 1, count), _lanes(x, width, count), _lanes(y, width, count)
        return sh._known(tuple(a if p else b for p, a, b in zip(pick, first, second, strict=True)), width)
    both = sh.meet(x, y)
    return both if both.kind == SCALAR_KIND and both.const is not None else VECTOR


def words(value: Known, count: int) -> tuple[Shape, ...]:
    """Shapes of the 32-bit words of a value."""
    if isinstance(value, tuple) and not isinstance(value, Shape):
        return value
    assert isinstance(value, Shape)
    if count == 1:
        return (value,)
    if value.kind != SCALAR_KIND:
        return (value if value.kind == UNSET_KIND else VECTOR,) * count
    if value.pattern is None:
        if value.const is not None:
            return tuple(sh.constant(value.const >> 32 * n & 0xFFFFFFFF) for n in range(count))
        return (UNIFORM,) * count
    low = Shape(SCALAR_KIND, sh._fit(value.pattern, 32), None, min(value.align, 1 << 31))
    return (low, *(VECTOR,) * (count - 1))


def pack(parts: tuple[Shape, ...]) -> Shape:
    """Shape of an i64 composed of two words."""
    low, high = parts
    if uniform(low) and uniform(high):
        if low.const is not None and high.const is not None:
            return sh.constant(low.const | high.const << 32)
        bound = low.bound if high.const == 0 else -1
        return Shape(SCALAR_KIND, None, None, low.align if low.align < 1 << 31 else 1, bound)
    if low.kind == SCALAR_KIND and high.const == 0 and uniform(high) and sh.never_wraps(low, 32, False):
        return low
    return UNSET if UNSET_KIND in (low.kind, high.kind) and VECTOR_KIND not in (low.kind, high.kind) else VECTOR


BITWISE = frozenset(("and", "or", "xor"))
ALWAYS_VECTOR = frozenset(("match_any", "get_barrier", "service"))
LANEWISE = frozenset(
    name
    for name, signature in OPS.items()
    if signature.effect == "pure" and name not in ("const", "select", "pack64", "pack2", "pack4", "extract")
)
"""Operations whose results differ between lanes as soon as one operand does."""
ALWAYS_UNIFORM = frozenset(
    ("active", "ballot", "redux", "barrier_red", "special64", "load_const_uniform", "copy_const", "next_copy")
)


def infer(op: Op, args: list[Known], types: Sequence[str], setting: Setting, assume: bool) -> Known:
    """Shape of one operation's result.  ``assume``: an extension may rely on a run-time check."""
    name = op.name
    if name == "const":
        return sh.constant(op.attr)
    if name in LANEWISE and VECTOR in args and UNSET not in args:
        return VECTOR
    if name in ALWAYS_UNIFORM:
        return UNIFORM
    if name in ALWAYS_VECTOR:
        return VECTOR
    if name == "special":
        return special_shape(op.attr, setting)
    if name in ("pack2", "pack4", "pack64"):
        return tuple(args)  # type: ignore[arg-type]
    if name == "extract":
        parts = words(args[0], {"i32x2": 2, "i32x4": 4, "i64": 2}.get(types[0], 0))
        return parts[int(op.attr)]
    flat = [
        pack(a) if isinstance(a, tuple) and not isinstance(a, Shape) and len(a) == 2 and t == "i64" else a
        for a, t in zip(args, types, strict=True)
    ]
    if name == "load":
        return _load(op, flat)
    if name == "load_const":
        return _load_const(op, flat[0], setting)
    if name in ("mma", "texture"):
        return (VECTOR,) * 4
    if name == "wgmma":
        return (VECTOR,) * (op.attr.n // 8 * op.attr.tile[5])
    if name == "atomic":
        return (VECTOR,) * 4 if op.type == "i32x4" else VECTOR
    plain: list[Shape] = [a for a in flat if isinstance(a, Shape)]
    if len(plain) != len(flat):
        return VECTOR
    if name == "first_lane":
        return plain[0] if uniform(plain[0]) else UNIFORM
    if name in ("shuffle", "executed"):
        return _shuffle(*plain) if name == "shuffle" else _executed(*plain)
    for shape in plain:
        if shape.kind == UNSET_KIND:
            return UNSET
    width = WIDTH.get(op.type, 32)
    length = row_length(setting.block_shape, setting.lanes) if setting.patterns else 0
    if any(shape.rows is not None for shape in plain):
        by_rows = infer_rows(name, plain, width, length, setting.lanes, assume)
        if by_rows is not None:
            return by_rows
        plain = [VECTOR if shape.rows is not None else shape for shape in plain]
    if name == "select":
        return _chosen(plain, width)
    if any(shape.kind == VECTOR_KIND for shape in plain):
        return VECTOR
    result = _of_scalars(op, plain, types, width, assume)
    if name == "mul" and result.kind == VECTOR_KIND:
        result = infer_rows(name, plain, width, length, setting.lanes, assume) or result
    if not setting.patterns and result.pattern is not None:
        return VECTOR
    return result


def _of_scalars(op: Op, plain: list[Shape], types: Sequence[str], width: int, assume: bool) -> Shape:
    """Shape of an operation on operands that are all scalars."""
    name = op.name
    if name == "add":
        return sh.add(plain[0], plain[1], width)
    if name == "sub":
        return sh.add(plain[0], plain[1], width, -1)
    if name == "mul":
        return sh.multiply(plain[0], plain[1], width)
    if name == "shl":
        return sh.shift_left(plain[0], plain[1], width)
    if name in BITWISE:
        return sh.bitwise(name, plain[0], plain[1], width)
    if name == "not":
        minus = Shape(SCALAR_KIND, None, (1 << width) - 1, 1, -1)
        return sh.add(minus, plain[0], width, -1)
    if name in ("lshr", "ashr"):
        return sh.shift_right(plain[0], plain[1], width, name == "ashr")
    if name == "icmp":
        return _compare(op.attr, plain[0], plain[1], WIDTH[types[0]])
    if name in ("zext", "sext"):
        return _widen(plain[0], types[0], op.type, name == "sext", assume)
    if name == "trunc":
        return _truncate(plain[0], width)
    if name == "bitcast":
        return plain[0]
    if name == "lop3":
        return _lop3(op.attr, plain)
    return UNIFORM if all(p.pattern is None for p in plain) else VECTOR


def _chosen(plain: list[Shape], width: int) -> Shape:
    """Shape of a select: condition and its two operands."""
    condition, x, y = plain
    if VECTOR_KIND not in (condition.kind, x.kind, y.kind):
        return _select(condition, x, y, width)
    if condition.kind == SCALAR_KIND and condition.pattern is None and condition.const is not None:
        return x if condition.const & 1 else y
    if condition.kind == VECTOR_KIND and VECTOR_KIND not in (x.kind, y.kind):
        return _select(condition, x, y, width)
    return VECTOR


def _load(op: Op, args: Sequence[Known]) -> Known:
    """A load from one address for all lanes returns a uniform value, except from local memory, which each lane has
    separately; a second operand is the condition."""
    address = args[0]
    count = {"i32x2": 2, "i32x4": 4}.get(op.type, 1)
    per_lane = op.attr.space in ("local", "generic") or len(args) > 1
    shape = UNSET if address == UNSET else UNIFORM if uniform(address) and not per_lane else VECTOR
    return shape if count == 1 else (shape,) * count


def _load_const(op: Op, offset: Known, setting: Setting) -> Known:
    count = {"i32x2": 2, "i32x4": 4}.get(op.type, 1)
    assert isinstance(offset, Shape)
    if offset.kind == UNSET_KIND:
        shape = UNSET
    elif not uniform(offset):
        shape = VECTOR
    elif op.attr[0] == 0 and offset.const is not None and op.attr[1] == 4:
        # Words set by the driver: blockDim, for which this code is usually compiled, and gridDim.
        block, grid = offset.const - setting.block_dim_offset, offset.const - setting.grid_dim_offset
        if block in (0, 4, 8):
            shape = special_shape("ntid." + "xyz"[block // 4], setting)
        elif grid in (0, 4, 8):
            shape = special_shape("nctaid." + "xyz"[grid // 4], setting)
        else:
            shape = UNIFORM
    else:
        shape = UNIFORM
    return shape if count == 1 else (shape,) * count


def _shuffle(value: Shape, lane: Shape) -> Shape:
    if value.kind == UNSET_KIND or uniform(value):
        return value
    if value.kind == SCALAR_KIND and lane.kind == SCALAR_KIND and lane.const is not None:
        assert value.pattern is not None
        count = len(value.pattern)
        pattern = sh._fit(tuple(value.pattern[n & count - 1] for n in _lanes(lane, 32, count)), 32)
        return value._replace(pattern=pattern)
    return VECTOR


def _executed(value: Shape) -> Shape:
    return value if value.kind == UNSET_KIND or (value.const == 0 and uniform(value)) else VECTOR


def _widen(x: Shape, source: str, target: str, signed: bool, assume: bool) -> Shape:
    width = WIDTH[source]
    mask = (1 << WIDTH[target]) - 1
    if x.pattern is None:
        if x.const is not None:
            return sh.constant((sh._signed(x.const, width) if signed else x.const) & mask)
        bound = x.bound if x.bound >= 0 and (not signed or x.bound < 1 << (width - 1)) else -1
        if not signed and bound < 0:
            bound = (1 << width) - 1
        # A scalar whose known low zeros reach its top bit: widening preserves them.
        return Shape(SCALAR_KIND, None, None, min(x.align, 1 << (width - 1)), bound)
    if x.const is not None:
        values = _lanes(x, width, len(x.pattern))
        if signed:
            values = [sh._signed(v, width) for v in values]
        return sh._known(tuple(values), WIDTH[target])
    if sh.never_wraps(x, width, signed) or assume:
        bound = x.bound if x.bound >= 0 and (not signed or x.bound < 1 << (width - 1)) else -1
        return Shape(SCALAR_KIND, x.pattern, None, min(x.align, 1 << (width - 1)), bound)
    return VECTOR


def _truncate(x: Shape, width: int) -> Shape:
    mask = (1 << width) - 1
    pattern = None if x.pattern is None else sh._fit(x.pattern, width)
    const = None if x.const is None else x.const & mask
    if const is not None and pattern is None:
        return sh.constant(const)
    bound = x.bound if 0 <= x.bound <= mask else -1
    return Shape(
        SCALAR_KIND, pattern, const, x.align if x.align >= sh.FULL_ALIGNMENT else min(x.align, 1 << (width - 1)), bound
    )


def _lop3(table: int, args: list[Shape]) -> Shape:
    """Two-operand cases of LOP3 preserve patterns; the others do not."""
    if all(p.pattern is None for p in args):
        if all(p.const is not None for p in args):
            x, y, z = (p.const or 0 for p in args)
            total = 0
            for row in range(8):
                if table >> row & 1:
                    term = 0xFFFFFFFF
                    for value, bit in ((x, row >> 2 & 1), (y, row >> 1 & 1), (z, row & 1)):
                        term &= value if bit else ~value
                    total |= term
            return sh.constant(total & 0xFFFFFFFF)
        return UNIFORM
    two = two_operand(table)
    if two is not None:
        name, first, second = two
        return sh.bitwise(name, args[first], args[second], 32)
    return VECTOR


def two_operand(table: int) -> tuple[str, int, int] | None:
    """LOP3 truth tables that are and, or, xor of two of the three operands."""
    return {
        0xC0: ("and", 0, 1),
        0xA0: ("and", 0, 2),
        0x88: ("and", 1, 2),
        0xFC: ("or", 0, 1),
        0xFA: ("or", 0, 2),
        0xEE: ("or", 1, 2),
        0x3C: ("xor", 0, 1),
        0x5A: ("xor", 0, 2),
        0x66: ("xor", 1, 2),
    }.get(table)


@dataclass(slots=True)
class Analysis:
    """Everything known about a kernel before its code is written."""

    webs: list[Shape]
    """Shape of each web."""
    values: list[list[Known]]
    """Shape of each operation's result, by instruction."""
    together: list[Bits]
    """For each block: blocks at whose start other groups can be while it runs."""
    waiting: Bits
    """Blocks at whose start groups wait for others."""
    stands: Bits
    """Blocks at whose start runnable groups can be."""
    divergent: Bits
    live_elsewhere: list[frozenset[int]]
    """For each block: webs that pending lanes elsewhere may still read."""


def analyse(
    blocks: Sequence[BasicBlock], lowered: Sequence[Lowered], webs: Webs, flow: Flow, setting: Setting
) -> Analysis:
    """Compute the fixed point of shapes and divergence."""
    known = _Shapes(lowered, webs, setting)
    block_of = [b.number for b in blocks for _ in range(b.count)]
    divergent = 0
    together, waiting, stands = concurrency(flow, 0)
    live_at = _LiveAt(webs)
    elsewhere = [live_at(bits) for bits in together]
    queue = _Queue(len(lowered))
    terminators = [b.first + b.count - 1 for b in blocks]
    while True:
        for index in queue:
            for web in known.evaluate(index, elsewhere[block_of[index]]):
                queue.add(known.readers[web])
        found = divergent
        for n, last in enumerate(terminators):
            if not found >> n & 1 and _diverges(
                last, lowered[last], webs, known.shapes, known.values[last], flow.stacked
            ):
                found |= 1 << n
        if found == divergent:
            # A web defined only by its own old value (flags collected in a register that was never cleared) starts as 0.
            unset = [n for n in webs.live_in[0] if known.shapes[n] == UNSET]
            if not unset:
                break
            for number in unset:
                known.shapes[number] = sh.constant(0)
                queue.add(known.readers[number])
            continue
        divergent = found
        together, waiting, stands = concurrency(flow, divergent)
        for n, bits in enumerate(together):
            new = live_at(bits)
            if bits or new != elsewhere[n]:
                elsewhere[n] = new
                b = blocks[n]
                queue.add(range(b.first, b.first + b.count))
    return Analysis(known.shapes, known.values, together, waiting, stands, divergent, elsewhere)


class _Queue:
    """Instructions to be evaluated, in code order; each is in the queue once."""

    def __init__(self, total: int) -> None:
        self.heap = list(range(total))
        self.queued = [True] * total

    def add(self, indices: Iterable[int]) -> None:
        for index in indices:
            if not self.queued[index]:
                self.queued[index] = True
                heapq.heappush(self.heap, index)

    def __iter__(self) -> Iterator[int]:
        while self.heap:
            index = heapq.heappop(self.heap)
            self.queued[index] = False
            yield index


class _LiveAt:
    """Webs that are live at the start of any block in a set.  Many blocks share a set, so each set is computed once."""

    def __init__(self, webs: Webs) -> None:
        self._live = [sum(1 << number for number in live) for live in webs.live_in]
        self._known: dict[Bits, frozenset[int]] = {}

    def __call__(self, bits: Bits) -> frozenset[int]:
        found = self._known.get(bits)
        if found is None:
            live = 0
            for n in members(bits):
                live |= self._live[n]
            found = self._known[bits] = frozenset(members(live))
        return found


def _diverges(index: int, low: Lowered, webs: Webs, shapes: list[Shape], values: list[Known], stacked: bool) -> bool:
    if not low.ops:
        return False
    last = low.ops[-1]
    if last.name == "warpsync":
        return last.attr == "exclusive" and not uniform(values[last.args[0]])
    if last.name == "branch_indirect":
        return not uniform(_flat(values[last.args[0]])) or (
            low.guard is not None and not uniform(shapes[webs.references[index, -1].low])
        )
    if last.name in ("branch", "pop"):
        if low.guard is not None and not uniform(shapes[webs.references[index, -1].low]):
            return shapes[webs.references[index, -1].low].kind != UNSET_KIND
        return bool(last.args) and not uniform(values[last.args[0]]) and values[last.args[0]] != UNSET
    if waits_under_guard(low) and not stacked:
        return not uniform(shapes[webs.references[index, -1].low])
    return False


def _flat(value: Known) -> Shape:
    if isinstance(value, Shape):
        return value
    return pack(value) if len(value) == 2 else VECTOR


class _Shapes:
    """Shapes of webs and of operations' results, which can only lose knowledge."""

    def __init__(self, lowered: Sequence[Lowered], webs: Webs, setting: Setting) -> None:
        self.lowered, self.webs, self.setting = lowered, webs, setting
        self.extensions = address_extensions(lowered, webs) if setting.speculate else frozenset()
        self.types = [[op.type for op in low.ops] for low in lowered]
        self.shapes = [UNSET] * len(webs.webs)
        self.values: list[list[Known]] = [[] for _ in lowered]
        self.readers: list[list[int]] = [[] for _ in webs.webs]
        """For each web: the instructions whose results depend on its shape."""
        written: set[int] = set()
        for (index, position), reference in webs.references.items():
            if position >= 0 and lowered[index].ops[position].name[:4] not in ("get_", "bsyn"):
                written.update((reference.low, reference.high))
            if position < 0 or lowered[index].ops[position].name[:4] == "get_" or lowered[index].guard is not None:
                self.readers[reference.low].append(index)
                if reference.high >= 0:
                    self.readers[reference.high].append(index)
        # A register that is never written reads as 0.
        for web in webs.webs:
            if web.number not in written:
                self.shapes[web.number] = sh.constant(0)

    def evaluate(self, index: int, elsewhere: frozenset[int]) -> list[int]:
        """Evaluate the shapes of one instruction; returns the webs whose shape changed.

        Args:
            elsewhere: webs that pending lanes elsewhere may still read.
        """
        low, types = self.lowered[index], self.types[index]
        found: list[Known] = []
        changed: list[int] = []
        guard = None if low.guard is None else self.shapes[self.webs.references[index, -1].low]
        mixed_guard = guard is not None and not (guard.kind != VECTOR_KIND and guard.pattern is None)
        for position, op in enumerate(low.ops):
            name = op.name
            shape: Known = UNSET
            if name[:4] == "get_" and name != "get_barrier":
                shape = self._read(op, self.webs.references[index, position])
            elif name[:4] == "set_":
                reference = self.webs.references[index, position]
                for web, new in _parts(reference, found[op.args[0]]):
                    mixes = web in elsewhere or (mixed_guard and reference.keeps_old)
                    if self._write(name, web, new, mixes):
                        changed.append(web)
            elif name in ("bssy", "break"):
                web = self.webs.references[index, position].low
                if self.shapes[web] != VECTOR:
                    self.shapes[web] = VECTOR
                    changed.append(web)
            elif name not in ("push", "pop", "call"):
                assume = name in ("sext", "zext") and (index, position) in self.extensions
                shape = infer(op, [found[a] for a in op.args], [types[a] for a in op.args], self.setting, assume)
            found.append(shape)
        self.values[index] = found
        return changed

    def _read(self, op: Op, reference: Reference) -> Known:
        """The shape of a register when an operation reads it."""
        shape: Known = self.shapes[reference.low]
        if reference.high >= 0:
            return (
                shape if reference.high == reference.low else (self.shapes[reference.low], self.shapes[reference.high])
            )
        web = self.webs.webs[reference.low]
        return words(shape, 2)[_cell(op) != web.keys[0]] if web.type == "i64" else shape

    def _write(self, name: str, web: int, new: Shape, mixes: bool) -> bool:
        """Widen a web's shape by a value written to it; ``mixes``: other lanes keep the old value.  Returns whether it
        changed."""
        if name[4] == "u" and not uniform(new) and new.kind != UNSET_KIND:
            new = UNIFORM
        elif name == "set_barrier":
            new = VECTOR
        old = self.shapes[web]
        both = sh.widened(old, new)
        if mixes and (both.rows or (both.kind == SCALAR_KIND and both.const is None)):
            both = VECTOR
        self.shapes[web] = both
        return both != old


def _parts(reference: Reference, value: Known) -> tuple[tuple[int, Shape], ...]:
    """The webs that receive a register's new value, with the shape of each part."""
    if reference.high < 0 or reference.high == reference.low:
        return ((reference.low, _flat(value)),)
    low, high = words(value, 2)
    return ((reference.low, low), (reference.high, high))


def _cell(op: Op) -> int:
    from warpwright.engine.jit.live_ranges import FILE_BASE, FILE_OF_OP

    return int(FILE_BASE[FILE_OF_OP[op.name]] + op.attr)
