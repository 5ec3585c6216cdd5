"""G80 (compute capability 1.0): machine code of our assembler, in compiled code and in the interpreter."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.early.cases import early_case, early_names
from tests.kernels import Case, case, names
from tests.nv50_oracle import compare, find_envydis, printed
from warpwright.chips import Chip, load_chip
from warpwright.engine.silicon_mufu import SCALE, Arrays, Programs
from warpwright.errors import LaunchError, UnsupportedError
from warpwright.isa.nv50.decode import decode_section
from warpwright.toolchain import CompileError

WORDS = Path(__file__).parent / "data" / "nv50_words.json"
"""Words that the assembler made of the corpus, with envydis' text of each (``tests/record_nv50.py``)."""
SAMPLE = (
    *("stream_triad", "matmul_tiled", "mandelbrot", "nested_divergence", "switch_table", "call_noinline"),
    *("integer_divide", "local_permutation", "constant_filter", "fft_radix2"),
)
"""Cases that together reach branches, loops, calls, shared, local and constant memory, integers and floats."""
ENGINES = ("compiled", "interpreter")


def run_case(found: Case, engine: str, chip: str | Chip = "g80") -> None:
    gpu = ww.GPU(chip, timing="off", engine=engine)
    module = gpu.compile(found.source, options=found.options)
    for name, value in found.device_globals.items():
        module.symbol(name).set(value)
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in found.args]
    module[found.kernel][found.grid, found.block, found.shared_bytes](*arguments)
    found.verify({n: a for n, a in enumerate(arguments) if isinstance(a, np.ndarray)})


@pytest.mark.parametrize("name", SAMPLE)
def test_corpus_sample_in_compiled_code(name: str) -> None:
    run_case(case(name, "small"), "compiled")


@pytest.mark.ci
@pytest.mark.parametrize("name", ["stream_triad", "nested_divergence", "call_noinline", "integer_divide"])
def test_corpus_sample_in_the_interpreter(name: str) -> None:
    run_case(case(name, "small"), "interpreter")


OWN_NUMERICS = {
    "float_minmax_special": "subnormals are flushed",
    "libm_special": "the multiply-add truncates its product: 2.2e-6 where 2e-6 is allowed",
}
"""Cases whose expected results are those of later chips' arithmetic."""
LEAST_CORRECT = {"g80": 93, "g92": 107}
"""Of the 145 kernels in ``tests/kernels`` and ``tests/early``; g92 has atomics on global memory."""


def corpus() -> Iterator[Case]:
    """The kernels of later chips and those of 2007."""
    yield from (case(name, "small") for name in names())
    yield from (early_case(name) for name in early_names())


@pytest.mark.slow
@pytest.mark.parametrize(("chip", "engine"), [("g80", "compiled"), ("g80", "interpreter"), ("g92", "compiled")])
def test_whole_corpus_is_right_or_refused_with_a_reason(chip: str, engine: str) -> None:
    right, wrong = 0, []
    for found in corpus():
        name = found.name
        try:
            run_case(found, engine, chip)
            right += 1
        except (UnsupportedError, LaunchError, CompileError) as error:
            if name not in str(error) and not isinstance(error, LaunchError | CompileError):
                wrong.append(f"{name}: {error}")
        except AssertionError as error:
            if name not in OWN_NUMERICS:
                wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)
    assert right >= LEAST_CORRECT[chip]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loop_that_waits_for_another_warps_write_to_global_memory_sees_it(engine: str) -> None:
    """NV50 words do not mark volatile loads."""
    run_case(case("sleep_turns", "small"), engine, "g92")


# --- single instructions --------------------------------------------------------------------------
HEADER = ".version 7.0\n.target sm_50\n.address_size 64\n"


def run_ptx(body: str, x: np.ndarray, y: np.ndarray, engine: str = "compiled", chip: str | Chip = "g80") -> np.ndarray:
    """``body`` computes %r3 (or %f3) from %r1, %r2 (%f1, %f2), the thread's words of two arrays."""
    text = (
        HEADER
        + """
.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b)
{
    .reg .pred %p<8>; .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<20>; .reg .b16 %rs<8>; .reg .f64 %fd<4>;
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];
    cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2; cvta.to.global.u64 %rd3, %rd3;
    mov.u32 %r10, %tid.x; mov.u32 %r11, %ctaid.x; mov.u32 %r12, %ntid.x; mad.lo.s32 %r10, %r11, %r12, %r10;
    mul.wide.u32 %rd4, %r10, SIZE;
    add.s64 %rd1, %rd1, %rd4; add.s64 %rd2, %rd2, %rd4; add.s64 %rd3, %rd3, %rd4;
    LOAD
    BODY
    STORE
    ret;
}
"""
    )
    size = x.dtype.itemsize
    loads = {4: "ld.global.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd3]; mov.b32 %f1, %r1; mov.b32 %f2, %r2;"}
    loads[8] = "ld.global.u64 %rd5, [%rd2]; ld.global.u64 %rd6, [%rd3];"
    store = {4: "st.global.u32 [%rd1], %r3;", 8: "st.global.u64 [%rd1], %rd7;"}
    text = text.replace("SIZE", str(size)).replace("LOAD", loads[size]).replace("STORE", store[size])
    gpu = ww.GPU(chip, timing="off", engine=engine)
    out = np.zeros_like(x)
    assert x.size % 64 == 0
    gpu.compile(text.replace("BODY", body))["k"][x.size // 64, 64](out, x.copy(), y.copy())
    return out


def integers(dtype: type, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of all sizes, and the corners."""
    chance = np.random.default_rng(seed)
    bits = np.dtype(dtype).itemsize * 8
    corners = [0, 1, 2, 3, 7, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1]
    grid = np.array([(a, b) for a in corners for b in corners], dtype=np.uint64)
    wide = chance.integers(0, 1 << 63, (960, 2), dtype=np.uint64) * 2 + chance.integers(0, 2, (960, 2), dtype=np.uint64)
    wide >>= chance.integers(0, 64, (960, 2), dtype=np.uint64)
    both = np.concatenate([grid, wide & np.uint64((1 << bits) - 1)]).astype(np.dtype(dtype))
    return both[:, 0].copy(), both[:, 1].copy()


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("operation", ["div", "rem"])
def test_integer_division_is_exact(type: str, operation: str) -> None:
    kind = np.dtype(type[0].replace("u", "uint").replace("s", "int") + type[1:])
    x, y = (v.view(kind) for v in integers(np.uint32 if type[1:] == "32" else np.uint64, 5))
    registers = ("%r3, %r1, %r2",) if kind.itemsize == 4 else ("%rd7, %rd5, %rd6",)
    got = run_ptx(f"{operation}.{type} {registers[0]};", x, y)
    for a, b, g in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        if b == 0:
            want = -1 if operation == "div" else a
        else:
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            want = quotient if operation == "div" else a - quotient * b
        mask = (1 << 8 * kind.itemsize) - 1
        assert g & mask == want & mask, (a, b)


INTEGER_OPERATIONS = {
    "mul.lo.u32 %r3, %r1, %r2;": lambda a, b: a * b,
    "mul.hi.u32 %r3, %r1, %r2;": lambda a, b: a * b >> 32,
    "mul.hi.s32 %r3, %r1, %r2;": lambda a, b: signed(a) * signed(b) >> 32,
    "mul24.lo.u32 %r3, %r1, %r2;": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "mul24.hi.u32 %r3, %r1, %r2;": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16,
    "mul24.lo.s32 %r3, %r1, %r2;": lambda a, b: signed24(a) * signed24(b),
    "mul24.hi.s32 %r3, %r1, %r2;": lambda a, b: signed24(a) * signed24(b) >> 16,
    "mad24.lo.s32 %r3, %r1, %r2, %r1;": lambda a, b: signed24(a) * signed24(b) + a,
    "and.b32 %r4, %r1, 0xffff; mul.lo.u32 %r3, %r4, %r2;": lambda a, b: (a & 0xFFFF) * b,
    "and.b32 %r4, %r1, 0xffff; mul.lo.u32 %r3, %r2, %r4;": lambda a, b: (a & 0xFFFF) * b,
    "and.b32 %r4, %r1, 0xffff; shr.u32 %r5, %r2, 16; mul.lo.u32 %r3, %r4, %r5;": lambda a, b: (a & 0xFFFF) * (b >> 16),
    "mov.u32 %r4, %ntid.x; mul.lo.u32 %r3, %r4, 1000;": lambda a, b: 64000,
    "mul.lo.u32 %r3, %r1, 40503;": lambda a, b: a * 40503,
    "popc.b32 %r3, %r1;": lambda a, b: bin(a).count("1"),
    "clz.b32 %r3, %r1;": lambda a, b: 32 - a.bit_length(),
    "brev.b32 %r3, %r1;": lambda a, b: int(f"{a:032b}"[::-1], 2),
    "min.s32 %r3, %r1, %r2;": lambda a, b: min(signed(a), signed(b)),
    "shl.b32 %r3, %r1, %r2;": lambda a, b: a << b if b < 32 else 0,
    "shr.s32 %r3, %r1, %r2;": lambda a, b: signed(a) >> min(b, 31),
    "setp.lt.s32 %p1, %r1, %r2; selp.b32 %r3, %r1, %r2, %p1;": lambda a, b: min(signed(a), signed(b)),
    "sub.cc.u32 %r4, %r1, %r2; subc.u32 %r3, 0, 0;": lambda a, b: -int(a < b),
    "prmt.b32 %r3, %r1, %r2, 0x5140;": lambda a, b: a & 255 | (b & 255) << 8 | (a & 0xFF00) << 8 | (b & 0xFF00) << 16,
}


def signed(x: int) -> int:
    return x - (x >> 31 << 32)


def signed24(x: int) -> int:
    return (x & 0xFFFFFF) - ((x >> 23 & 1) << 24)


@pytest.mark.parametrize("body", INTEGER_OPERATIONS)
def test_integer_operations(body: str) -> None:
    x, y = integers(np.uint32, 6)
    got = run_ptx(body, x, y).tolist()
    want = [INTEGER_OPERATIONS[body](a, b) & 0xFFFFFFFF for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert got == want


def test_64_bit_products_and_shifts() -> None:
    x, y = integers(np.uint64, 7)
    got = run_ptx("mul.lo.u64 %rd7, %rd5, %rd6;", x, y).tolist()
    assert got == [a * b & (1 << 64) - 1 for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    got = run_ptx("cvt.u32.u64 %r1, %rd6; shr.s64 %rd7, %rd5, %r1;", x.view(np.int64), y.view(np.int64)).tolist()
    assert got == [a >> min(b & 0xFFFFFFFF, 63) for a, b in zip(x.view(np.int64).tolist(), y.tolist(), strict=True)]


# --- numerics -------------------------------------------------------------------------------------
def truncated(product: np.ndarray) -> np.ndarray:
    """f64 products cut to 24 significant bits."""
    return (product.view(np.uint64) & np.uint64(~((1 << 29) - 1) & (1 << 64) - 1)).view(np.float64)


@pytest.mark.parametrize("engine", ENGINES)
def test_multiply_add_truncates_its_product(engine: str) -> None:
    chance = np.random.default_rng(8)
    x, y = (chance.uniform(1, 2, 512).astype(np.float32) for _ in range(2))
    got = run_ptx("mov.f32 %f4, 0fBF800000; fma.rn.f32 %f3, %f1, %f2, %f4; mov.b32 %r3, %f3;", x, y, engine)
    want = (truncated(x.astype(np.float64) * y) - 1.0).astype(np.float32)
    rounded = (x.astype(np.float64) * y - 1.0).astype(np.float32)
    np.testing.assert_array_equal(got, want)
    assert (want != rounded).sum() > 100


def flushed(words: np.ndarray) -> np.ndarray:
    """f32 with zeros in place of subnormals."""
    return np.where((words & 0x7F800000) == 0, words & 0x80000000, words).astype(np.uint32).view(np.float32)


@pytest.mark.ci
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("exponents", "least_cut"), [((0, 256), 0), ((96, 160), 3000), ((0, 40), 0), ((62, 66), 200), ((185, 195), 0)]
)
def test_multiply_add_of_all_magnitudes(exponents: tuple[int, int], least_cut: int, engine: str) -> None:
    """Products that f32 cannot hold, with their error or at all; zeros, subnormals, infinities and NaN among the operands."""
    chance = np.random.default_rng(15)
    x, y = (
        (chance.integers(*exponents, 16384) << 23 | chance.integers(0, 1 << 23, 16384)).astype(np.uint32)
        | (chance.integers(0, 2, 16384) << 31).astype(np.uint32)
        for _ in range(2)
    )
    corners = np.array([0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001])
    x[: 9 * 64], y[: 9 * 9 * 7] = corners.repeat(64), np.tile(corners.repeat(7), 9)
    y[8192:12288] = x[8192:12288]  # then nothing is added
    body = "xor.b32 %r4, %r1, %r2; mov.b32 %f4, %r4; fma.rn.f32 %f3, %f1, %f2, %f4; mov.b32 %r3, %f3;"
    got = run_ptx(body, x, y, engine)
    a, b, c = flushed(x), flushed(y), flushed(x ^ y)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        product = a.astype(np.float64) * b
        want = (np.where(c == 0, product, truncated(product)) + c).astype(np.float32)
        rounded = (product + c).astype(np.float32)
    want = flushed(np.where(np.isnan(want), np.uint32(0x7FFFFFFF), want.view(np.uint32)))
    np.testing.assert_array_equal(got, want.view(np.uint32))
    assert (want != rounded).sum() >= least_cut


def test_a_product_is_rounded_where_nothing_is_added() -> None:
    chance = np.random.default_rng(9)
    x, y = (chance.uniform(1, 2, 512).astype(np.float32) for _ in range(2))
    got = run_ptx("mov.f32 %f4, 0f00000000; fma.rn.f32 %f3, %f1, %f2, %f4; mov.b32 %r3, %f3;", x, y)
    np.testing.assert_array_equal(got, x * y)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["rm", "rp"])
def test_sums_are_rounded_down_and_up(how: str, engine: str) -> None:
    """Exactly, with overflow and zeros of either sign."""
    chance = np.random.default_rng(10)
    x, y = ((chance.normal(size=1024) * 2.0 ** chance.integers(-30, 30, 1024)).astype(np.float32) for _ in range(2))
    y[:64] = -x[:64]
    x[64:72] = [3e38, -3e38, np.inf, -np.inf, 0, -0.0, 0, -0.0]
    y[64:72] = [2e38, -2e38, 1, 1, 0, -0.0, -0.0, 0]
    got = run_ptx(f"add.{how}.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", x, y, engine)
    down = how == "rm"
    for a, b, g in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        if math.isinf(a):
            assert g == a
            continue
        exact = Fraction(a) + Fraction(b)
        with np.errstate(over="ignore"):
            neighbour = float(np.nextafter(np.float32(g), np.float32(np.inf if down else -np.inf)))
        if exact == 0:
            assert g == 0
            negative = (
                math.copysign(1, a) < 0 or math.copysign(1, b) < 0
                if down
                else a == b == 0 and math.copysign(1, a) + math.copysign(1, b) < 0
            )
            assert (math.copysign(1, g) < 0) == negative, (a, b)
        elif down:
            assert math.isinf(g) or Fraction(g) <= exact
            assert math.isinf(neighbour) or Fraction(neighbour) > exact
        else:
            assert math.isinf(g) or Fraction(g) >= exact
            assert math.isinf(neighbour) or Fraction(neighbour) < exact


@pytest.mark.parametrize("how", ["rm", "rp"])
def test_a_multiply_add_rounds_its_truncated_product_and_sum_down_or_up(how: str) -> None:
    """As ``expf`` uses it, with a product that is exact: the next integer below or above."""
    x = np.random.default_rng(11).uniform(-120, 120, 512).astype(np.float32)
    magic = np.float32(12582912.0)
    body = f"mov.f32 %f4, 0f3F800000; mov.f32 %f5, 0f4B400000; fma.{how}.f32 %f6, %f1, %f4, %f5; sub.f32 %f3, %f6, %f5; mov.b32 %r3, %f3;"
    got = run_ptx(body, x, x)
    assert magic.view(np.uint32) == 0x4B400000
    np.testing.assert_array_equal(got, np.floor(x) if how == "rm" else np.ceil(x))


@pytest.mark.parametrize("operation", ["add.f16", "sub.f16", "mul.f16", "fma.rn.f16", "min.f16", "max.f16"])
def test_halves_are_rounded_once(operation: str) -> None:
    """Of all sizes, subnormals included; NumPy's results in double precision, rounded to 16 bits once."""
    chance = np.random.default_rng(12)
    a, b = (chance.integers(0, 0x7C00, 2048).astype(np.uint16) for _ in range(2))
    a, b = (
        a | (chance.integers(0, 2, 2048) << 15).astype(np.uint16),
        b | (chance.integers(0, 2, 2048) << 15).astype(np.uint16),
    )
    third = "%rs1, " if operation.startswith("fma") else ""
    body = f"cvt.u16.u32 %rs1, %r1; cvt.u16.u32 %rs2, %r2; {operation} %rs3, %rs1, %rs2{', %rs1' if third else ''}; cvt.u32.u16 %r3, %rs3;"
    got = run_ptx(body, a.astype(np.uint32), b.astype(np.uint32)).astype(np.uint16).view(np.float16)
    x, y = (v.view(np.float16).astype(np.float64) for v in (a, b))
    exact = {
        "add.f16": lambda: x + y,
        "sub.f16": lambda: x - y,
        "mul.f16": lambda: x * y,
        "fma.rn.f16": lambda: x * y + x,
        "min.f16": lambda: np.minimum(x, y),
        "max.f16": lambda: np.maximum(x, y),
    }[operation]()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, exact.astype(np.float16))


@pytest.mark.parametrize("engine", ENGINES)
def test_subnormals_are_flushed(engine: str) -> None:
    x = np.full(64, 1e-40, np.float32)
    x[32:] = 1.5e-38
    y = np.full(64, 1.0, np.float32)
    y[32:] = 0.5
    got = run_ptx("mul.rn.f32 %f3, %f1, %f2; mov.b32 %r3, %f3;", x, y, engine)
    assert not got.any()


@pytest.mark.parametrize(("name", "reference"), [("sin", np.sin), ("cos", np.cos), ("ex2", np.exp2)])
def test_functions_in_two_instructions(name: str, reference: object) -> None:
    x = np.linspace(-6, 6, 512, dtype=np.float32)
    got = run_ptx(f"{name}.approx.f32 %f3, %f1; mov.b32 %r3, %f3;", x, x)
    want = reference(x.astype(np.float64))  # type: ignore[operator]
    np.testing.assert_allclose(got, want, rtol=3e-6 if name == "ex2" else 0, atol=2e-6)


def presin(x: np.ndarray) -> np.ndarray:
    """Sign and quarters of turns of f32 in fixed point with 23 bits after the point, below 2**25."""
    words = x.view(np.uint32).astype(np.uint64)
    whole = ((words & 0x7FFFFF | 0x800000) * 0xA2F983 >> 16).astype(object)
    up = (words >> 23 & 0xFF).astype(np.int64) - 135
    moved = [w << u if u >= 0 else w >> -u for w, u in zip(whole, up.tolist(), strict=True)]
    return np.array([m & 0x1FFFFFF for m in moved], dtype=np.int64)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sines_of_all_turns_keep_every_bit_of_their_argument(name: str, engine: str) -> None:
    """Of arguments from half a turn on too, which have more digits than f32: the interpolator's value of the quarter, cut."""
    chance = np.random.default_rng(16)
    x = (chance.uniform(2, 60, 4096) * np.where(chance.integers(0, 2, 4096), 1, -1)).astype(np.float32)
    got = run_ptx(f"{name}.approx.f32 %f3, %f1; mov.b32 %r3, %f3;", x, x, engine)
    turns = presin(x) + (0 if name == "sin" else 1 << 23)
    place = np.where(turns >> 23 & 1, ~turns, turns) & 0x7FFFFF
    unit = Programs(Arrays())
    value = unit.interpolate("sin", place >> 17, place & 0x1FFFF)
    negative = (turns >> 24 & 1).astype(bool) ^ ((x < 0) & (name == "sin"))
    want = np.ldexp(value >> np.maximum(np.frexp(value)[1] - 24, 0) << np.maximum(np.frexp(value)[1] - 24, 0), -SCALE)
    np.testing.assert_array_equal(got, np.where(negative, -want, want).astype(np.float32))


# --- lanes of a warp ------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("how", "source"),
    [
        ("idx.b32 %r3, %r1, 5, 31", lambda lane: np.full_like(lane, 5)),
        ("up.b32 %r3, %r1, 3, 0", lambda lane: np.where(lane >= 3, lane - 3, lane)),
        ("down.b32 %r3, %r1, 7, 31", lambda lane: np.where(lane + 7 < 32, lane + 7, lane)),
        ("bfly.b32 %r3, %r1, 9, 31", lambda lane: lane ^ 9),
    ],
)
def test_shuffles_go_through_shared_memory(how: str, source: object, engine: str) -> None:
    x = np.arange(128, dtype=np.uint32) * 77 + 5
    lane = np.arange(128) % 32
    got = run_ptx(f"shfl.sync.{how}, -1;", x, x, engine)
    np.testing.assert_array_equal(got, x[np.arange(128) // 32 * 32 + source(lane)])  # type: ignore[operator]


@pytest.mark.parametrize("engine", ENGINES)
def test_votes_count_the_lanes_that_are_there(engine: str) -> None:
    """Of all lanes, and of those of one branch: lanes of an earlier vote leave nothing behind."""
    chance = np.random.default_rng(4)
    x, y = (chance.integers(0, 2, 128).astype(np.uint32) for _ in range(2))
    body = """
    setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r2, 0;
    vote.sync.ballot.b32 %r5, %p1, -1;
    mov.u32 %r6, 0;
    @%p2 bra HERE;
    bra THERE;
HERE:
    activemask.b32 %r6;
THERE:
    xor.b32 %r7, %r5, %r6; mov.u32 %r3, %r7;
    """
    got = run_ptx(body, x, y, engine)

    def word(flags: np.ndarray) -> np.ndarray:
        return (
            np.packbits(flags.astype(bool).reshape(-1, 4, 8), axis=2, bitorder="little").reshape(-1, 4).view(np.uint32)
        )

    want = word(x).repeat(32) ^ np.where(y != 0, word(y).repeat(32), 0).astype(np.uint32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", ["popc", "and", "or"])
def test_reducing_barriers_count_all_warps_of_a_block(how: str, engine: str) -> None:
    x = (np.random.default_rng(6).integers(0, 40, 256) > 0).astype(np.uint32)
    x[64:128], x[128:192] = 0, 1
    read = (
        "bar.red.popc.u32 %r3, 0, %p1;"
        if how == "popc"
        else f"bar.red.{how}.pred %p2, 0, %p1; selp.u32 %r3, 1, 0, %p2;"
    )
    got = run_ptx(f"setp.ne.u32 %p1, %r1, 0; {read} add.u32 %r3, %r3, %r2;", x, np.ones_like(x), engine)
    blocks = x.reshape(-1, 64)
    want = {"popc": blocks.sum(axis=1), "and": blocks.all(axis=1), "or": blocks.any(axis=1)}[how].astype(np.uint32)
    np.testing.assert_array_equal(got, want.repeat(64) + 1)


@pytest.mark.parametrize("type", ["u64", "s64"])
def test_floats_become_integers_of_64_bits(type: str) -> None:
    """Towards zero, the nearest that there is beyond the ends; no number is the least of signed ones."""
    chance = np.random.default_rng(7)
    x = (chance.normal(size=512) * 2.0 ** chance.integers(0, 70, 512)).astype(np.float32)
    x[:8] = [0, -0.0, np.nan, np.inf, -np.inf, 2.0**63, -(2.0**63), 2.0**64]
    low, high = (
        run_ptx(f"cvt.rzi.{type}.f32 %rd7, %f1; mov.b64 {{%r5, %r6}}, %rd7; mov.b32 %r3, {word};", x, x).view(np.uint32)
        for word in ("%r5", "%r6")
    )
    least, most = (0, 2**64 - 1) if type == "u64" else (-(2**63), 2**63 - 1)
    for a, found in zip(x.tolist(), (high.astype(np.uint64) << np.uint64(32) | low).tolist(), strict=True):
        want = (
            2**63
            if math.isnan(a)
            else least
            if a == -math.inf
            else most
            if a == math.inf
            else min(max(int(a), least), most)
        )
        assert found == want % 2**64, a


@pytest.mark.parametrize(("type", "how"), [("u64", "rn"), ("s64", "rn"), ("u64", "rz"), ("s64", "rz")])
def test_integers_of_64_bits_become_floats(type: str, how: str) -> None:
    chance = np.random.default_rng(8)
    x = (chance.integers(0, 1 << 63, 512, dtype=np.uint64) << np.uint64(1)) >> chance.integers(
        0, 64, 512, dtype=np.uint64
    )
    x[:6] = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 40) + (1 << 16)]
    y = np.zeros_like(x)
    got = run_ptx(f"cvt.{how}.f32.{type} %f3, %rd5; mov.b32 %r3, %f3; cvt.u64.u32 %rd7, %r3;", x, y)
    for a, g in zip(x.tolist(), got.astype(np.uint32).view(np.float32).tolist(), strict=True):
        value = a - (1 << 64) if type == "s64" and a >> 63 else a
        size = abs(value)
        extra = max(size.bit_length() - 24, 0)
        cut = size >> extra
        rest = size - (cut << extra)
        if how == "rn" and (2 * rest > 1 << extra or (2 * rest == 1 << extra and rest and cut & 1)):
            cut += 1
        assert g == math.copysign(cut << extra, value), value


def test_match_finds_equal_values() -> None:
    x = np.random.default_rng(5).integers(0, 4, 128).astype(np.uint32)
    got = run_ptx("match.any.sync.b32 %r3, %r1, -1;", x, x)
    warps = x.reshape(-1, 32)
    same = (warps[:, :, None] == warps[:, None, :]).astype(np.uint64) << np.arange(32, dtype=np.uint64)
    np.testing.assert_array_equal(got, same.sum(axis=2).reshape(-1).astype(np.uint32))


# --- limits ---------------------------------------------------------------------------------------
REFUSED = {
    "add.f64 %fd1, %fd2, %fd3;": "double precision needs compute capability 1.3",
    "atom.global.add.u32 %r3, [%rd2], 1;": "atomics on global memory need compute capability 1.1",
    "bar.red.popc.u32 %r3, 0, 32, %p1;": "barriers for some threads of a block need compute capability 2.0",
    "div.rn.f32 %f3, %f1, %f2;": "a correctly rounded div of f32 needs compute capability 2.0",
    "ld.u32 %r3, [%rd2];": "generic addresses need compute capability 2.0",
    "bar.sync 1, 32;": "barriers for some threads of a block need compute capability 2.0",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_the_chip_lacks_is_refused_with_line_and_text(body: str) -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(UnsupportedError) as caught:
        run_ptx(body, x, x)
    message = str(caught.value)
    assert REFUSED[body] in message
    assert "kernel k: cannot assemble line 14" in message
    assert body.rstrip(";") in message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("atom.global.add.u64 %rd5, [%rd2], %rd6;", "atomics of 64 bits on global memory need compute capability 1.2"),
        ("atom.global.add.f32 %f3, [%rd2], %f1;", "atomic sums of f32 need compute capability 2.0"),
        (
            "atom.global.max.u64 %rd5, [%rd2], %rd6;",
            "the atomic operation umax of 64 bits needs a compute capability after 1.3",
        ),
    ],
)
def test_atomics_that_1_1_lacks_are_refused_with_what_they_need(body: str, message: str) -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(UnsupportedError, match=message):
        run_ptx(body, x, x, chip="g92")


def test_atomics_come_with_1_1() -> None:
    x = np.zeros(64, np.uint32)
    got = run_ptx("mov.u32 %r3, 0; atom.global.add.u32 %r3, [%rd2], 5;", x, x, chip="g92")
    assert not got.any()


def test_checks_and_ptx_as_it_is_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"g80 has no checks: omit check \(--check\)"):
        ww.GPU("g80", check="memcheck")
    with pytest.raises(UnsupportedError, match="g80 runs machine code only, not front_end='ptx': omit front_end"):
        ww.GPU("g80", front_end="ptx")


FAULTS = """
extern "C" __global__ void adds(int *x, int n) { x[threadIdx.x * n] += 1; }
extern "C" __global__ void sets(int *x, int n) { x[threadIdx.x * n] = 1; }
extern "C" __global__ void counts(int *x, int n) { atomicAdd(&x[threadIdx.x * n], 1); }
extern "C" __global__ void reads_shared(int *x, int n)
{
    __shared__ int tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[0] = tile[n];
}
extern "C" __global__ void writes_shared(int *x, int n)
{
    __shared__ int tile[64];
    tile[threadIdx.x * n] = x[threadIdx.x];
    __syncthreads();
    x[0] = tile[threadIdx.x ^ 1];
}
"""
"""The access of each kernel fails where ``n`` is large."""
FAILING_ACCESSES = {
    "adds": ("read", "global"),
    "sets": ("write", "global"),
    "counts": ("atomic", "global"),
    "reads_shared": ("read", "shared"),
    "writes_shared": ("write", "shared"),
}


def failing_access(kernel: str, chip: object, engine: str) -> tuple[str | None, str | None, str]:
    """What the fault of a kernel says: access, space, and the first words of the message."""
    module = ww.GPU(chip, timing="off", engine=engine).compile(FAULTS)  # type: ignore[arg-type]
    with pytest.raises(ww.MemoryFaultError) as caught:
        module[kernel][1, 64](np.zeros(64, np.int32), 100_000_000)
    return caught.value.access, caught.value.space, str(caught.value).partition(" of ")[0]


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("kernel", FAILING_ACCESSES)
@pytest.mark.ci
def test_a_fault_names_the_access_of_its_instruction(kernel: str, engine: str) -> None:
    access, space = FAILING_ACCESSES[kernel]
    chip = load_chip("g80", compute_capability="1.1")
    what = "atomic access" if access == "atomic" else access
    assert failing_access(kernel, chip, engine) == (access, space, f"out-of-bounds {what}")


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [(1, 1024, "at most 512 threads"), ((1, 1, 2), 64, "grid.z is 2"), ((70000, 1, 1), 64, "grid.x is 70,000")],
)
def test_launch_limits(grid: object, block: object, message: str) -> None:
    kernel = ww.GPU("g80", timing="off").compile('extern "C" __global__ void k(int *x) { *x = 1; }')["k"]
    with pytest.raises(LaunchError, match=message):
        kernel[grid, block](np.zeros(1, np.int32))


def test_the_number_of_registers_limits_a_declared_block() -> None:
    source = """
extern "C" __global__ void __launch_bounds__(512) k(float *x) {
    float v[24];
    for (int i = 0; i < 24; i++) v[i] = x[i * 512 + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 24; i++) x[i * 512 + threadIdx.x] = v[23 - i] + v[(i * 7) % 24];
}
"""
    x = np.random.default_rng(3).normal(size=(24, 512)).astype(np.float32)
    gpu = ww.GPU("g80", timing="off")
    got = x.copy()
    gpu.compile(source)["k"][1, 512](got)
    np.testing.assert_array_equal(got, np.array([x[23 - i] + x[(i * 7) % 24] for i in range(24)]))


# --- words ----------------------------------------------------------------------------------------
def test_words_of_the_corpus_print_as_envydis_printed_them() -> None:
    recorded = json.loads(WORDS.read_text())
    assert len(recorded) > 3000
    wrong = [(w, printed(int(w, 16), 10), text) for w, text in recorded.items() if printed(int(w, 16), 10) != text]
    assert not wrong, wrong[:10]


ENVYDIS = find_envydis()


@pytest.mark.skipif(ENVYDIS is None, reason="envydis is not installed (set WARPWRIGHT_ENVYDIS)")
@pytest.mark.parametrize("name", ["stream_triad", "fft_radix2", "switch_table"])
def test_assembled_words_print_as_envydis_prints_them(name: str) -> None:
    found = case(name, "small")
    module = ww.GPU("g80", timing="off").compile(found.source, options=found.options)
    code = module.machine_code(found.kernel)
    words = [i.encoding for i in decode_section(code, 10)]
    assert not compare(str(ENVYDIS), 10, words)
