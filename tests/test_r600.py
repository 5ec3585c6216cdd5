"""Cypress and Cayman: machine code of LLVM's R600 back end, in compiled code and in the interpreter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import warpwright as ww
from tests.kernels import case, names
from tests.r600_llvm import has_r600
from tests.r600_machine import Run, Words
from tests.r600_semantics import LANES, OWN_WORDS, Kernel
from tests.test_nv50 import FAILING_ACCESSES, INTEGER_OPERATIONS, failing_access, integers, run_case, run_ptx
from warpwright.errors import ExecutionError, LaunchError, UnsupportedError
from warpwright.isa.r600.layouts import GENERATIONS
from warpwright.toolchain import CompileError
from warpwright.toolchain.r600 import compile_ir

pytestmark = pytest.mark.skipif(not has_r600(), reason="this llvmlite has no R600 back end")
CHIPS = ("hd5870", "hd6970")
SAMPLE = ("stream_triad", "matmul_tiled", "nested_divergence", "atomics_global", "warp_shuffles")


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.ci
def test_corpus_sample_in_compiled_code(chip: str, name: str) -> None:
    run_case(case(name, "small"), "compiled", chip)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.ci
def test_corpus_sample_in_the_interpreter(chip: str) -> None:
    run_case(case("nested_divergence", "small"), "interpreter", chip)


NO_DOUBLES = "LLVM's R600 back end has no double precision"
LEAST_CORRECT = 87


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_whole_corpus_is_right_or_refused_with_a_reason(chip: str) -> None:
    right, wrong = 0, []
    for name in names():
        if name in NEVER_ENDS:
            continue
        try:
            run_case(case(name, "small"), "compiled", chip)
            right += 1
        except (UnsupportedError, LaunchError, CompileError, ExecutionError) as error:
            if name not in str(error) and not isinstance(error, LaunchError | CompileError):
                wrong.append(f"{name}: {error}")
        except AssertionError as error:
            if name not in OWN_NUMERICS:
                wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)
    assert right >= LEAST_CORRECT


NEVER_ENDS: tuple[str, ...] = ("sleep_turns",)
"""With timing="off" a block waits for another one, and nothing in its code says so."""
OWN_NUMERICS = {
    "float_minmax_special": "subnormals are flushed",
    "float_divide_root": "quotients and roots are approximate, and subnormals flushed",
}
"""Cases whose expected results are those of other chips' arithmetic."""


# --- random kernels ----------------------------------------------------------------------------------------------
def same_words(found: Words, expected: Words) -> np.ndarray:
    """Equal, or both no numbers."""
    both_nan = np.isnan(found.view(np.float32)) & np.isnan(expected.view(np.float32))
    return (found == expected) | both_nan


def check_random(seed: int, generation: str, how: str) -> None:
    kernel = Kernel(seed)
    made = compile_ir(kernel.text, "", generation)
    run = Run(made.code, generation, kernel.before, kernel.parameters, registers=made.registers)
    found = (run.interpreted() if how == "interpreted" else run.compiled()).reshape(LANES, OWN_WORDS)
    wrong = np.argwhere(~same_words(found, kernel.memory))
    assert not wrong.size, f"seed {seed}: lane and word {wrong[:4].tolist()}"


@pytest.mark.ci
@pytest.mark.parametrize("generation", GENERATIONS)
def test_random_kernels_compute_what_their_ir_says(generation: str) -> None:
    for seed in range(2):
        check_random(seed, generation, "compiled")
        check_random(seed, generation, "interpreted")


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("seed", [105, 193])
def test_dividends_of_all_ones_and_choices_between_parameters(seed: int, generation: str) -> None:
    """LLVM takes the first for numbers of few bits, and makes one load of the second."""
    check_random(seed, generation, "compiled")


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("first", range(2, 202, 20))
def test_many_random_kernels_compute_what_their_ir_says(generation: str, first: int) -> None:
    for seed in range(first, first + 20):
        check_random(seed, generation, "compiled" if seed % 4 else "interpreted")


# --- single instructions --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("body", INTEGER_OPERATIONS)
@pytest.mark.ci
def test_integer_operations(chip: str, body: str) -> None:
    x, y = integers(np.uint32, 6)
    got = run_ptx(body, x, y, chip=chip).tolist()
    want = [INTEGER_OPERATIONS[body](a, b) & 0xFFFFFFFF for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert got == want


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("operation", "signed"), [("div.u32", False), ("rem.s32", True)])
@pytest.mark.ci
def test_integer_division_is_exact(chip: str, operation: str, signed: bool) -> None:
    """From a reciprocal of single precision and two corrections."""
    x, y = (v.view(np.int32 if signed else np.uint32) for v in integers(np.uint32, 5))
    y = np.where(y == 0, 1, y).astype(x.dtype)
    got = run_ptx(f"{operation} %r3, %r1, %r2;", x, y, chip=chip).tolist()
    for a, b, g in zip(x.tolist(), y.tolist(), got, strict=True):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        want = quotient if operation.startswith("div") else a - quotient * b
        assert (g - want) & 0xFFFFFFFF == 0, (a, b)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_fused_product_and_sum_is_rounded_once(chip: str) -> None:
    chance = np.random.default_rng(8)
    x, y = (chance.uniform(1, 2, 512).astype(np.float32) for _ in range(2))
    body = "mov.f32 %f4, 0fBF800000; fma.rn.f32 %f3, %f1, %f2, %f4; mov.b32 %r3, %f3;"
    got = run_ptx(body, x, y, chip=chip)
    np.testing.assert_array_equal(got, (x.astype(np.float64) * y - 1.0).astype(np.float32))


def exact_neighbours(value: Fraction) -> tuple[float, float]:
    """The floats on both sides of a value that is none."""
    near = np.float32(float(value))
    if Fraction(float(near)) == value:
        return float(near), float(near)
    toward = np.float32(-np.inf if Fraction(float(near)) > value else np.inf)
    other = np.nextafter(near, toward)
    return (float(other), float(near)) if other < near else (float(near), float(other))


@pytest.mark.parametrize("how", ["rm", "rp", "rz"])
@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
@pytest.mark.ci
def test_results_are_rounded_down_up_and_to_zero(operation: str, how: str) -> None:
    chance = np.random.default_rng(10)
    x, y = ((chance.normal(size=512) * 2.0 ** chance.integers(-12, 12, 512)).astype(np.float32) for _ in range(2))
    third = ", 0f40490FDB" if operation == "fma" else ""
    got = run_ptx(f"{operation}.{how}.f32 %f3, %f1, %f2{third}; mov.b32 %r3, %f3;", x, y, chip="hd6970")
    pi = Fraction(float(np.uint32(0x40490FDB).view(np.float32)))
    for a, b, g in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        p, q = Fraction(a), Fraction(b)
        exact = {"add": p + q, "mul": p * q, "fma": p * q + pi}[operation]
        down, up = exact_neighbours(exact)
        want = {"rm": down, "rp": up, "rz": down if exact > 0 else up}[how]
        assert g == want, (a, b)


FLOAT_ATOMICS = """
extern "C" __global__ void sums(float *total, float *old)
{
    __shared__ float part;
    if (threadIdx.x == 0)
        part = 0.0f;
    __syncthreads();
    float seen = atomicAdd(&part, (float)threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0)
        old[64] = atomicAdd(total, part);
    if (threadIdx.x == 1)
        old[65] = atomicExch(&old[66], seen + 0.5f);
    old[threadIdx.x] = seen;
}
"""


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.ci
def test_atomic_sums_and_exchanges_of_floats(chip: str) -> None:
    """In global memory and in local data share; each gives the old value."""
    total, old = np.full(1, 3.0, np.float32), np.full(67, 9.0, np.float32)
    ww.GPU(chip, timing="off").compile(FLOAT_ATOMICS)["sums"][1, 64](total, old)
    assert total[0] == 3.0 + sum(range(64))
    assert old[64] == 3.0
    assert old[65] == 9.0
    assert old[66] == old[1] + 0.5
    steps = np.diff(np.append(np.sort(old[:64]), sum(range(64))))
    assert sorted(steps.tolist()) == list(range(64))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kernel", FAILING_ACCESSES)
@pytest.mark.ci
def test_a_fault_names_the_access_of_its_instruction(kernel: str, chip: str) -> None:
    access, space = FAILING_ACCESSES[kernel]
    what = "atomic access" if access == "atomic" else access
    assert failing_access(kernel, chip, "compiled") == (access, space, f"out-of-bounds {what}")


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("cvt.f64.f32 %fd1, %f1;", NO_DOUBLES),
        ("cvt.rm.f16.f32 %rs1, %f1;", "fcvt rounded as .rm: the chip rounds to the nearest"),
        ("bar.sync 1, 64;", "the chip has one barrier for all of them"),
        (
            "div.rn.f32 %f3, %f1, %f2;",
            "a correctly rounded div of f32 is not an instruction of this chip; this chip has div.approx",
        ),
        ("mov.u64 %rd7, %clock64;", "clocks of 64 bits"),
    ],
)
def test_what_the_chip_lacks_is_refused_by_the_instruction(body: str, why: str) -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(UnsupportedError) as told:
        run_ptx(body, x, x, chip="hd6970")
    assert why in str(told.value)
    assert body.split()[0] in str(told.value)
    assert "kernel k: cannot compile line" in str(told.value)


def test_machine_code_can_be_read_back() -> None:
    source = 'extern "C" __global__ void twice(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }'
    codes = {chip: ww.GPU(chip, timing="off").compile(source).machine_code("twice") for chip in CHIPS}
    assert codes["hd5870"] != codes["hd6970"]
    assert all(len(code) % 8 == 0 for code in codes.values())
