"""Matrix products of warpgroups (``engine/wgmma.py``): one function per kind, generated on demand (``shared_code.py``).

A function takes its arguments in rows of 32 words: the warp's number, A (four rows; a descriptor fills two), B's
descriptor, metadata, then C, which D replaces.  It returns the highest shared memory address requested.  If that is out
of range, nothing was read there, and the caller reads that byte by an ordinary load, which reports the fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.engine.abi import BLOCK
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import Text, Val
from warpwright.engine.jit.loads import emit_load
from warpwright.engine.jit.shapes import UNIFORM, VECTOR
from warpwright.engine.jit.tensor_cores import mma_function
from warpwright.engine.jit.wave import Wave
from warpwright.engine.matrix_fragments import LANES
from warpwright.isa.ops import Access, GroupProduct, Lowered, Op

VEC = "<32 x i32>"
WARP_ROW, A_ROW, B_ROW, METADATA_ROW, C_ROW = 0, 1, 5, 7, 8
GROUP, THREAD = [lane // 4 for lane in range(LANES)], [lane % 4 for lane in range(LANES)]


def scratch_bytes(lowered: Sequence[Lowered]) -> int:
    """Number of rows that the largest product of a kernel needs; 0 without one."""
    products = [op.attr for one in lowered for op in one.ops if op.name == "wgmma"]
    return 128 * max((C_ROW + how.n // 8 * how.tile[5] for how in products), default=0)


def name_of(how: GroupProduct) -> str:
    """``ww_wgmma_<element>_<sum>_<arch>_<options>``: s A from shared memory, a b transposed, n m negated, 0-3 selector."""
    options = "s" * how.shared_a + "a" * how.transposed[0] + "b" * how.transposed[1]
    options += "n" * how.negated[0] + "m" * how.negated[1] + (str(how.selector) if how.selector >= 0 else "")
    return f"ww_wgmma_{how.element}_{how.accumulator}_{how.arch}_{options or '-'}"


def named(name: str) -> GroupProduct:
    """The properties that a function's name encodes (for one column of tiles)."""
    element, accumulator, arch, options = name.removeprefix("ww_wgmma_").split("_")
    selector = next((int(c) for c in options if c.isdigit()), -1)
    transposed, negated = ("a" in options, "b" in options), ("n" in options, "m" in options)
    return GroupProduct(8, element, accumulator, int(arch), "s" in options, transposed, negated, selector)


def group_product(w: FunctionWriter, op: Op, args: list[Val]) -> Val:
    """The operation: passes its words through memory to the function."""
    how: GroupProduct = op.attr
    count_a, n_c = 2 if how.shared_a else 4, how.n // 8 * how.tile[5]
    rows = [WARP_ROW, *range(A_ROW, A_ROW + count_a), B_ROW, B_ROW + 1, *([METADATA_ROW] if how.selector >= 0 else [])]
    rows += range(C_ROW, C_ROW + n_c)
    for row, value in zip(rows, args, strict=True):
        w.emit(f"store {VEC} {w.vector(value)}, ptr {w.field('%group_values', 128 * row)}, align 64")
    name = name_of(how)
    w.declare(name, "i32", "ptr, ptr, i64, i32")
    total = w.load_field("%block", BLOCK["shared_bytes"])
    top = w.op(f"call i32 @{name}(ptr %group_values, ptr %shared_base, i64 {total}, i32 {how.n // 8})")
    access = Op("load", "i8", (0,), Access("shared", 1))
    emit_load(w, access, [Val("i32", UNIFORM, scalar=top)])
    parts = [
        Val("i32", VECTOR, vector=w.op(f"load {VEC}, ptr {w.field('%group_values', 128 * (C_ROW + n))}, align 64"))
        for n in range(n_c)
    ]
    return Val("words", VECTOR, parts=tuple(parts))


class Places:
    """Text that locates the words of one operand in shared memory, by its descriptor."""

    def __init__(self, t: Text, row: int) -> None:
        self.t = t
        low, high = (self.scalar(f"load i32, ptr {t.field('%values', 128 * (row + n))}") for n in range(2))
        self.start = self.offset(low, 0)
        self.leading, self.stride = self.offset(low, 16), self.offset(high, 0)
        self.base = self.scalar(f"and i32 {self.scalar(f'lshr i32 {high}, 17')}, 7")
        mode = self.scalar(f"lshr i32 {high}, 30")
        self.plain = t.op(f"icmp eq i32 {mode}, 0")
        # Rows of 16, 128, 64 and 32 bytes.
        wider = self.scalar(f"and i32 {self.scalar(f'sub i32 0, {mode}')}, 3")
        self.shift = self.scalar(f"add i32 {wider}, 4")
        self.row = self.scalar(f"shl i32 1, {self.shift}")
        self.mask = self.scalar(f"sub i32 {self.scalar(f'lshr i32 {self.row}, 4')}, 1")

    def scalar(self, text: str) -> str:
        return self.t.op(text)

    def offset(self, word: str, low: int) -> str:
        units = self.scalar(f"and i32 {self.scalar(f'lshr i32 {word}, {low}')}, 16383")
        return self.scalar(f"shl i32 {units}, 4")

    def splat(self, scalar: str) -> str:
        one = self.t.op(f"insertelement {VEC} poison, i32 {scalar}, i64 0")
        return self.t.op(f"shufflevector {VEC} {one}, {VEC} poison, {VEC} zeroinitializer")

    def constant(self, values: Sequence[int]) -> str:
        return self.t.literal_vector("i32", values)

    def vector(self, operation: str, x: str, y: str) -> str:
        return self.t.op(f"{operation} {VEC} {x}, {y}")

    def times(self, x: str, scalar: str) -> str:
        return self.vector("mul", x, self.splat(scalar))

    def either(self, plain: str, swizzled: str) -> str:
        return self.scalar(f"select i1 {self.plain}, i32 {plain}, i32 {swizzled}")

    def swizzled(self, offset: str) -> str:
        at = self.vector("add", offset, self.splat(self.start))
        line = self.vector("lshr", at, self.constant([7] * LANES))
        line = self.vector("and", self.vector("sub", line, self.splat(self.base)), self.splat(self.mask))
        return self.vector("xor", at, self.vector("shl", line, self.constant([4] * LANES)))

    def along_k(self, index: str, register: int) -> str:
        """Addresses of a lane's word; ``index`` is its row of A or column of B."""
        line = self.times(self.vector("and", index, self.constant([7] * LANES)), self.row)
        eight = self.times(self.vector("lshr", index, self.constant([3] * LANES)), self.stride)
        rows = self.scalar(f"mul i32 {self.scalar(f'lshr i32 {16 * register}, {self.shift}')}, {self.leading}")
        inside = self.scalar(f"and i32 {self.scalar(f'sub i32 {self.row}, 1')}, {16 * register}")
        step = self.scalar(f"add i32 {rows}, {inside}")
        offset = self.vector("add", self.vector("add", line, eight), self.splat(step))
        return self.swizzled(self.vector("add", offset, self.constant([4 * t for t in THREAD])))

    def across_k(self, index: str, register: int, part: int) -> str:
        """Addresses of a lane's 16-bit element at k = 2t + 8 * register + part."""
        byte = self.vector("shl", index, self.constant([1] * LANES))
        inside = self.vector("and", byte, self.splat(self.scalar(f"sub i32 {self.row}, 1")))
        across = self.times(self.vector("lshr", byte, self.splat(self.shift)), self.either(self.stride, self.leading))
        line = self.times(self.constant([2 * t + part for t in THREAD]), self.row)
        down = self.scalar(f"mul i32 {self.either(self.leading, self.stride)}, {register}")
        offset = self.vector("add", self.vector("add", inside, across), self.vector("add", line, self.splat(down)))
        return self.swizzled(offset)

    def read(self, address: str, size: int) -> str:
        """The contents of addresses in range, 0 elsewhere; the highest address requested goes to %top."""
        t = self.t
        for stem, result in (("umax", "i32"), ("umin", "i32")):
            t.declared[f"llvm.vector.reduce.{stem}.v32i32"] = (
                f"declare {result} @llvm.vector.reduce.{stem}.v32i32({VEC})"
            )
        highest = t.op(f"call i32 @llvm.vector.reduce.umax.v32i32({VEC} {address})")
        highest = t.op(f"add i32 {highest}, {size - 1}")
        before = t.op("load i32, ptr %top")
        above = t.op(f"icmp ugt i32 {highest}, {before}")
        t.emit(f"store i32 {t.op(f'select i1 {above}, i32 {highest}, i32 {before}')}, ptr %top")
        wide = t.op(f"zext {VEC} {address} to <32 x i64>")
        limit = t.op(f"insertelement <32 x i64> poison, i64 %limit{size}, i64 0")
        limit = t.op(f"shufflevector <32 x i64> {limit}, <32 x i64> poison, {VEC} zeroinitializer")
        inside = t.op(f"icmp sle <32 x i64> {wide}, {limit}")
        pointers = t.op(f"getelementptr i8, ptr %shared, <32 x i64> {wide}")
        kind = f"<32 x i{8 * size}>"
        gather = f"llvm.masked.gather.v32i{8 * size}.v32p0"
        t.declared[gather] = f"declare {kind} @{gather}(<32 x ptr>, i32, <32 x i1>, {kind})"
        word = t.op(
            f"call {kind} @{gather}(<32 x ptr> {pointers}, i32 {size}, <32 x i1> {inside}, {kind} zeroinitializer)"
        )
        return word if size == 4 else t.op(f"zext {kind} {word} to {VEC}")

    def word(self, transposed: bool, index: str, register: int) -> str:
        """A register of the operand's fragment."""
        if not transposed:
            return self.read(self.along_k(index, register), 4)
        low, high = (self.read(self.across_k(index, register, part), 2) for part in range(2))
        return self.vector("or", low, self.vector("shl", high, self.constant([16] * LANES)))


def _write_tiles(t: Text, how: GroupProduct, inner: str) -> None:
    """Read A's fragment once, then loop over the tiles of 8 columns, each a call of ``inner``."""
    n_a, n_b, n_c = how.tile[3:6]

    def negate(word: str, which: int) -> str:
        sign = t.literal_vector("i32", [how.sign_bits] * LANES)
        return t.op(f"xor {VEC} {word}, {sign}") if how.negated[which] else word

    def load(base: str, row: int) -> str:
        return t.op(f"load {VEC}, ptr {t.field(base, 128 * row)}, align 64")

    def store(word: str, base: str, row: int) -> None:
        t.emit(f"store {VEC} {word}, ptr {t.field(base, 128 * row)}, align 64")

    from_a = Places(t, A_ROW) if how.shared_a else None
    from_b = Places(t, B_ROW)
    if from_a:
        warp = t.op("load i32, ptr %values")
        first = from_a.splat(t.op(f"shl i32 {t.op(f'and i32 {warp}, 3')}, 4"))
    for n in range(n_a):
        if from_a:
            index = from_a.vector("add", first, from_a.constant([g + 8 * (n % 2) for g in GROUP]))
            word = from_a.word(how.transposed[0], index, n // 2)
        else:
            word = load("%values", A_ROW + n)
        store(negate(word, 0), "%left", n)
    if how.selector >= 0:
        store(load("%values", METADATA_ROW), "%tile", n_a + n_b + n_c)
    before = "%0"
    t.emit("br label %tiles")
    t.label("tiles")
    t.emit(f"%n = phi i32 [ 0, {before} ], [ %n1, %tiles ]")
    index = from_b.vector("add", from_b.splat(t.op("shl i32 %n, 3")), from_b.constant(GROUP))
    for n in range(n_a):
        store(load("%left", n), "%tile", n)
    for n in range(n_b):
        store(negate(from_b.word(how.transposed[1], index, n), 1), "%tile", n_a + n)
    row = t.op(f"mul i32 %n, {n_c}")
    row = t.op(f"zext i32 {t.op(f'add i32 {row}, {C_ROW}')} to i64")
    sums = t.op(f"getelementptr [32 x i32], ptr %values, i64 {row}")
    for n in range(n_c):
        store(load(sums, n), "%tile", n_a + n_b + n)
    t.emit(f"call void @{inner}(ptr %tile)")
    for n in range(n_c):
        store(load("%tile", n), sums, n)
    t.emit("%n1 = add i32 %n, 1")
    t.emit("%more = icmp ult i32 %n1, %tiles_wanted")
    t.emit("br i1 %more, label %tiles, label %out")
    t.label("out")
    t.emit(f"ret i32 {t.op('load i32, ptr %top')}")


def group_function(name: str, wave: Wave) -> tuple[str, dict[str, str]]:
    """The definition of a function, with the product of 8 columns inside, and what it declares."""
    how = named(name)
    inner = "_".join(("ww_mma", *map(str, how.tile)))
    definition, declared = mma_function(inner, wave)
    t = Text(declared=declared)
    t.emit(f"%left = alloca [{32 * how.tile[3]} x i32], align 64")
    t.emit("%tile = alloca [512 x i32], align 64")
    t.emit("%top = alloca i32")
    t.emit("store i32 0, ptr %top")
    for size in (2, 4):
        t.emit(f"%limit{size} = sub i64 %bytes, {size}")
    _write_tiles(t, how, inner)
    own = definition.replace(f"define void @{inner}(", f"define internal void @{inner}(")
    head = f"define i32 @{name}(ptr %values, ptr %shared, i64 %bytes, i32 %tiles_wanted) noinline {{\n"
    return own + head + "\n".join(t.lines) + "\n}\n", t.declared
