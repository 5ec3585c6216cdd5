"""Tensor cores: one function per kind of matrix product, generated on demand (``shared_code.py``)."""

from __future__ import annotations

from warpwright.engine import matrix_fragments
from warpwright.engine.jit import float_formats, silicon
from warpwright.engine.jit.llvm_text import Text
from warpwright.engine.jit.operation_form import Form
from warpwright.engine.jit.wave import Wave
from warpwright.engine.matrix_fragments import LANES


def mma_function(name: str, wave: Wave) -> tuple[str, dict[str, str]]:
    """``ww_mma_<shape>_<element>_<accumulator>_<n_a>_<n_b>_<n_c>_<arch>``: registers in rows of 32 words, D replaces A.

    For a sparse shape (``engine/matrix_fragments.py``), the metadata follows C.

    Sums in f16 and f32 are the silicon's (``engine/silicon_mma.py``); integers are added in f64 in the order of k, beginning
    with the accumulator, as ``engine/numerics.py`` defines it.
    """
    _, _, shape, element, accumulator, *numbers = name.split("_")
    n_a, n_b, n_c, arch = (int(n) for n in numbers)
    quads = shape.startswith("m8n8k4.")
    k = 4 if quads else matrix_fragments.depth(shape)
    k_a = 4 if quads else matrix_fragments.products(shape)
    rows = matrix_fragments.rows(shape)
    first_element, second_element = matrix_fragments.elements(element)
    t = Text()
    t.emit(f"%a = alloca [{128 if quads else rows * k_a} x double], align 256")
    t.emit(f"%b = alloca [{128 if quads else 8 * k} x double], align 256")
    t.emit(f"%c = alloca [{rows * 8} x double], align 64")
    f = Form(t, True)
    a_values = _values_of(f, first_element, 0, n_a)
    b_values = _values_of(f, second_element, n_a, n_b)
    c_values = _values_of(f, accumulator, n_a + n_b, n_c)
    if quads:
        step = silicon.Fused(t, LANES, arch, element, accumulator, 4)
        results = _volta_step(t, shape, step, a_values, b_values, c_values)
        _store_results(t, f, accumulator, results)
        return _mma_text(name, t)
    _spread_factors(t, a_values, b_values, max(1, len(a_values) // n_a), rows // 8, k_a)
    places = [
        [(lane // 4 + 8 * (n // 2)) * 8 + lane % 4 * 2 + n % 2 for lane in range(LANES)] for n in range(rows // 8 * 2)
    ]
    for n, value in enumerate(c_values):
        _spread(t, value, "%c", places[n])
    fused = silicon.Fused(t, 8, arch, element, accumulator, k_a) if accumulator in ("f16", "f32") else None
    if fused:
        _store_powers(t, fused, "a", first_element, rows * k_a)
        _store_powers(t, fused, "b", second_element, 8 * k)
    sparse = matrix_fragments.is_sparse(shape)
    if sparse:
        _store_chosen(t, shape, n_a, _register(t, n_a + n_b + n_c))
    _loop_over_rows(t, fused, rows, k_a, sparse)
    _store_results(t, f, accumulator, [_gathered(t, lanes) for lanes in places])
    return _mma_text(name, t)


ROW = "<8 x double>"


def _register(t: Text, n: int) -> str:
    return t.op(f"load <32 x i32>, ptr {t.field('%values', 128 * n)}, align 64")


def _values_of(f: Form, kind: str, first: int, count: int) -> list[str]:
    """The values in consecutive registers, as <32 x double>."""
    if kind != "f64":
        return [v for n in range(count) for v in _elements(f, kind, _register(f.w, first + n))]
    found = []
    for n in range(0, count, 2):
        low, high = (f.cast("zext", "i32", "i64", _register(f.w, first + n + part)) for part in range(2))
        wide = f.op("or", "i64", low, f.op("shl", "i64", high, f.const("i64", 32)))
        found.append(f.cast("bitcast", "i64", "f64", wide))
    return found


def _elements(f: Form, kind: str, word: str) -> list[str]:
    """Values of a register, lowest first, as <32 x double>."""
    if kind in ("f16", "bf16"):
        parts = []
        for shift in (0, 16):
            moved = f.op("lshr", "i32", word, f.const("i32", shift))
            half = f.cast("trunc", "i32", "i16", moved)
            parts.append(float_formats.to_double(f, kind, f.cast("bitcast", "i16", kind, half)))
        return parts
    if kind in ("tf32", "f32"):
        if kind == "tf32":
            word = f.op("and", "i32", word, f.const("i32", 0xFFFFE000))
        return [f.cast("fpext", "f32", "f64", f.cast("bitcast", "i32", "f32", word))]
    if kind == "s32":
        return [f.cast("sitofp", "i32", "f64", word)]
    if kind == "b1":
        bits = [f.op("and", "i32", f.op("lshr", "i32", word, f.const("i32", n)), f.const("i32", 1)) for n in range(32)]
        return [f.cast("sitofp", "i32", "f64", bit) for bit in bits]
    if kind in ("e4m3", "e5m2"):
        return [_small_float(f, kind, word, n) for n in range(4)]
    parts = []
    for n in range(4):
        moved = f.op("shl", "i32", word, f.const("i32", 24 - 8 * n))
        moved = f.op("ashr" if kind[0] == "s" else "lshr", "i32", moved, f.const("i32", 24))
        parts.append(f.cast("sitofp", "i32", "f64", moved))
    return parts


def _spread(t: Text, value: str, base: str, places: list[int]) -> None:
    """Store each lane's double at its position."""
    for lane, place in enumerate(places):
        one = t.op(f"extractelement <32 x double> {value}, i64 {lane}")
        t.emit(f"store double {one}, ptr {t.field(base, 8 * place)}")


def _spread_factors(
    t: Text, a_values: list[str], b_values: list[str], per_register: int, row_halves: int, k_a: int
) -> None:
    """Store the fragments of A (rows of ``k_a``) and B (rows of 8) as matrices."""
    group = [lane // 4 for lane in range(LANES)]
    thread = [lane % 4 for lane in range(LANES)]
    for n, value in enumerate(a_values):
        r, part = divmod(n, per_register)
        column = [x * per_register + part + 4 * per_register * (r // row_halves) for x in thread]
        _spread(t, value, "%a", [(g + 8 * (r % row_halves)) * k_a + x for g, x in zip(group, column, strict=True)])
    for n, value in enumerate(b_values):
        r, part = divmod(n, per_register)
        places = [(x * per_register + part + 4 * per_register * r) * 8 + g for g, x in zip(group, thread, strict=True)]
        _spread(t, value, "%b", places)


def _store_powers(t: Text, fused: silicon.Fused, base: str, kind: str, count: int) -> None:
    """Store the powers of two of a matrix's elements next to it."""
    t.emit(f"%power_{base} = alloca [{count} x double], align 64")
    for place in range(0, 8 * count, 64):
        line = t.op(f"load {ROW}, ptr {t.field(f'%{base}', place)}, align 64")
        t.emit(f"store {ROW} {fused.powers(kind, line)}, ptr {t.field(f'%power_{base}', place)}, align 64")


def _loop_over_rows(t: Text, fused: silicon.Fused | None, rows: int, k_a: int, sparse: bool) -> None:
    """Compute each row of D from the row of C."""
    t.emit("br label %row_loop")
    t.label("row_loop")
    t.emit("%r = phi i64 [ 0, %0 ], [ %r1, %row_done ]")
    c_p = t.op(f"getelementptr {ROW}, ptr %c, i64 %r")
    start = t.op(f"load {ROW}, ptr {c_p}")
    a_p = t.op(f"getelementptr [{k_a} x double], ptr %a, i64 %r")
    chosen_p = t.op(f"getelementptr [{k_a} x i64], ptr %chosen, i64 %r") if sparse else ""
    if fused:
        _fused_row(t, fused, k_a, a_p, chosen_p, start)
        t.emit("br label %row_done")
    else:
        _ordered_row(t, k_a, a_p, chosen_p, start)
    t.label("row_done")
    t.emit(f"store {ROW} %sum1, ptr {c_p}")
    t.emit("%r1 = add i64 %r, 1")
    t.emit(f"br i1 {t.op(f'icmp ult i64 %r1, {rows}')}, label %row_loop, label %out")
    t.label("out")


def _gathered(t: Text, places: list[int]) -> str:
    """A register's values of D, gathered from a position per lane."""
    value = "poison"
    for lane, place in enumerate(places):
        one = t.op(f"load double, ptr {t.field('%c', 8 * place)}")
        value = t.op(f"insertelement <32 x double> {value}, double {one}, i64 {lane}")
    return value


def _mma_text(name: str, t: Text) -> tuple[str, dict[str, str]]:
    t.emit("ret void")
    return f"define void @{name}(ptr %values) noinline {{\n" + "\n".join(t.lines) + "\n}\n", dict(t.declared)


def _small_float(f: Form, kind: str, word: str, n: int) -> str:
    """Byte n of a word, an 8-bit float, as f64; converted through f16, whose format includes all of them."""
    byte = f.op("and", "i32", f.op("lshr", "i32", word, f.const("i32", 8 * n)), f.const("i32", 0xFF))
    if kind == "e5m2":
        half = f.cast("trunc", "i32", "i16", f.op("shl", "i32", byte, f.const("i32", 8)))
        return float_formats.to_double(f, "f16", f.cast("bitcast", "i16", "f16", half))
    # e4m3: the exponent's bias grows from 7 to 15; the largest code without its sign is NaN.
    size = f.op("and", "i32", byte, f.const("i32", 0x7F))
    sign = f.op("shl", "i32", f.op("and", "i32", byte, f.const("i32", 0x80)), f.const("i32", 8))
    moved = f.op("or", "i32", f.op("shl", "i32", size, f.const("i32", 7)), sign)
    half = f.cast("bitcast", "i16", "f16", f.cast("trunc", "i32", "i16", moved))
    scaled = f.op("fmul", "f64", float_formats.to_double(f, "f16", half), f.const("f64", 0x4070000000000000))
    nan = f.op("icmp eq", "i32", size, f.const("i32", 0x7F))
    return f.select("f64", nan, f.const("f64", 0x7FF8000000000000), scaled)


def _store_chosen(t: Text, shape: str, n_a: int, metadata: str) -> None:
    """For each element of A, the byte offset of the row of B that belongs to it, as %chosen."""
    k_a, width = matrix_fragments.products(shape), matrix_fragments.element_bits(shape, n_a)
    t.emit(f"%chosen = alloca [{matrix_fragments.rows(shape) * k_a} x i64], align 64")
    lanes = {}
    for row, line in enumerate(matrix_fragments.places(shape, width)):
        for n, (lane, low) in enumerate(line):
            if lane not in lanes:
                word = t.op(f"extractelement <32 x i32> {metadata}, i64 {lane}")
                lanes[lane] = t.op(f"zext i32 {word} to i64")
            index = t.op(f"and i64 {t.op(f'lshr i64 {lanes[lane]}, {low + (width == 32)}')}, {1 if width == 32 else 3}")
            begin = t.op(f"add i64 {t.op(f'shl i64 {index}, 6')}, {64 * matrix_fragments.position(n, 0, width)}")
            t.emit(f"store i64 {begin}, ptr {t.field('%chosen', 8 * (row * k_a + n))}")


def _ordered_row(t: Text, k: int, a_p: str, chosen_p: str, start: str) -> None:
    """One row of D as %sum1: one multiply-add per k, in order."""
    row = "<8 x double>"
    t.emit("br label %k_loop")
    t.label("k_loop")
    t.emit("%k = phi i64 [ 0, %row_loop ], [ %k1, %k_loop ]")
    t.emit(f"%sum = phi {row} [ {start}, %row_loop ], [ %sum1, %k_loop ]")
    factor_p = t.op(f"getelementptr double, ptr {a_p}, i64 %k")
    factor = t.op(f"load double, ptr {factor_p}")
    if chosen_p:
        begin = t.op(f"load i64, ptr {t.op(f'getelementptr i64, ptr {chosen_p}, i64 %k')}")
        line_p = t.op(f"getelementptr i8, ptr %b, i64 {begin}")
    else:
        line_p = t.op(f"getelementptr {row}, ptr %b, i64 %k")
    line = t.op(f"load {row}, ptr {line_p}")
    left = _splat(t, factor)
    t.declared["llvm.fma.v8f64"] = f"declare {row} @llvm.fma.v8f64({row}, {row}, {row})"
    result = t.op(f"call {row} @llvm.fma.v8f64({row} {left}, {row} {line}, {row} %sum)")
    found = "splat (double 0xFFF8000000000000)"
    # Which NaN is propagated: the second factor's, else the sum's, else the first factor's, made quiet.
    for source in (left, "%sum", line):
        word = t.op(f"or <8 x i64> {t.op(f'bitcast {row} {source} to <8 x i64>')}, splat (i64 {1 << 51})")
        quiet = t.op(f"bitcast <8 x i64> {word} to {row}")
        found = t.op(f"select <8 x i1> {t.op(f'fcmp uno {row} {source}, {source}')}, {row} {quiet}, {row} {found}")
    t.emit(f"%sum1 = select <8 x i1> {t.op(f'fcmp uno {row} {result}, {result}')}, {row} {found}, {row} {result}")
    t.emit("%k1 = add i64 %k, 1")
    t.emit(f"br i1 {t.op(f'icmp ult i64 %k1, {k}')}, label %k_loop, label %row_done")


def _splat(t: Text, value: str) -> str:
    row = "<8 x double>"
    one = t.op(f"insertelement {row} poison, double {value}, i64 0")
    return t.op(f"shufflevector {row} {one}, {row} poison, <8 x i32> zeroinitializer")


def _fused_row(t: Text, fused: silicon.Fused, k: int, a_p: str, chosen_p: str, start: str) -> None:
    """One row of D as %sum1: the silicon's fused sums."""
    row = "<8 x double>"
    power_p = t.op(f"getelementptr [{k} x double], ptr %power_a, i64 %r")
    total = start
    for first in range(0, k, fused.chunk):
        pairs = []
        for n in range(first, first + fused.chunk):
            factors = [_splat(t, t.op(f"load double, ptr {t.field(p, 8 * n)}")) for p in (a_p, power_p)]
            if chosen_p:
                begin = t.op(f"load i64, ptr {t.field(chosen_p, 8 * n)}")
                places = [t.op(f"getelementptr i8, ptr {p}, i64 {begin}") for p in ("%b", "%power_b")]
            else:
                places = [t.field(p, 64 * n) for p in ("%b", "%power_b")]
            lines = [t.op(f"load {row}, ptr {p}, align 64") for p in places]
            pairs.append((factors[0], lines[0], factors[1], lines[1]))
        total = fused.sum(pairs, total)
    t.emit(f"%sum1 = select i1 true, {row} {total}, {row} poison")


def _volta_step(t: Text, shape: str, fused: silicon.Fused, a: list[str], b: list[str], c: list[str]) -> list[str]:
    """One step of Volta's m8n8k4: four products of 8x4 by 4x8, each by eight lanes."""
    _, layout_a, layout_b, step_text = shape.split(".")
    step = int(step_text)
    for base, values in (("%a", a), ("%b", b)):
        for n, value in enumerate(values):
            t.emit(f"store <32 x double> {value}, ptr {t.field(base, 256 * n)}, align 64")
    gather = "llvm.masked.gather.v32f64.v32p0"
    t.declared[gather] = f"declare <32 x double> @{gather}(<32 x ptr>, i32, <32 x i1>, <32 x double>)"

    def pick(base: str, places: list[int]) -> str:
        pointers = t.op(f"getelementptr double, ptr {base}, <32 x i64> {t.literal_vector('i64', places)}")
        return t.op(
            f"call <32 x double> @{gather}(<32 x ptr> {pointers}, i32 8, <32 x i1> {t.literal_vector('i1', (1,) * 32)}, "
            "<32 x double> zeroinitializer)"
        )

    def source(quad: int, across: int, along: int, by_member: bool) -> int:
        """Position of an element: by lanes of the quad pair along its outer dimension, or along k."""
        member, register = (across % 4, along) if by_member else (along, across % 4)
        return 32 * register + quad * 4 + member + 16 * (across // 4)

    results = []
    for n, total in enumerate(c):
        rows, columns = [], []
        for lane in range(LANES):
            member, upper = lane % 4, 4 * (lane // 16)
            if len(c) == 2:
                rows.append((lane & 1) + 2 * (step & 1) + upper)
                columns.append(4 * (step >> 1) + (lane & 2) + n)
            else:
                rows.append(member + upper)
                columns.append(4 * step + n)
        quads = [lane % 16 // 4 for lane in range(LANES)]
        pairs = []
        for k in range(4):
            left = pick("%a", [source(q, r, k, layout_a == "row") for q, r in zip(quads, rows, strict=True)])
            right = pick("%b", [source(q, x, k, layout_b == "col") for q, x in zip(quads, columns, strict=True)])
            pairs.append((left, right, fused.powers(fused.element, left), fused.powers(fused.element, right)))
        results.append(fused.sum(pairs, total))
    return results


def _store_results(t: Text, f: Form, accumulator: str, values: list[str]) -> None:
    """Round sums to the accumulator's format and store them as registers."""
    registers: list[str] = []
    for value in values:
        if accumulator == "s32":
            wide = f.call("fptosi.sat", "f64", value, result="i64")
            registers.append(f.cast("trunc", "i64", "i32", wide))
            continue
        if accumulator == "f64":
            short = value
        elif accumulator == "f32":
            short = f.cast("fptrunc", "f64", "f32", value)
        else:
            short = float_formats.round_single(f, accumulator, float_formats.odd_single(f, value), "rn")
        if accumulator != "f64":
            nan = float_formats.is_nan(f, accumulator, short)
            short = f.select(accumulator, nan, f.const(accumulator, float_formats.CANONICAL[accumulator]), short)
        word = float_formats.bits(f, accumulator, short)
        if accumulator == "f64":
            registers.append(f.cast("trunc", "i64", "i32", word))
            registers.append(f.cast("trunc", "i64", "i32", f.op("lshr", "i64", word, f.const("i64", 32))))
        else:
            registers.append(word)
    if accumulator in ("f16", "bf16"):
        wide_words = [f.cast("zext", "i16", "i32", r) for r in registers]
        registers = [
            f.op("or", "i32", wide_words[n], f.op("shl", "i32", wide_words[n + 1], f.const("i32", 16)))
            for n in range(0, len(wide_words), 2)
        ]
    for n, word in enumerate(registers):
        t.emit(f"store <32 x i32> {word}, ptr {t.field('%values', 128 * n)}, align 64")
