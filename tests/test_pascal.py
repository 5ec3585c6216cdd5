"""Chip p100: the kernel corpus in machine code of sm_60 and in PTX, in compiled code and in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.kernels import Case, case, names
from warpwright.chips import Chip, load_chip
from warpwright.toolchain import CompileError

SAMPLE = (
    *("stream_triad", "matmul_tiled", "mandelbrot", "reduce_sum", "scan_block_exclusive", "barrier_votes"),
    *("nested_divergence", "switch_table", "recursion_quicksort", "call_pointers", "integer_divide_wide"),
    *("half_arithmetic", "double_arithmetic", "histogram_shared", "group_tiles"),
)
"""Cases that together reach branches, loops, calls, jump tables and every kind of arithmetic."""


def run_case(found: Case, engine: str, chip: str | Chip = "p100", front_end: str = "sass") -> None:
    gpu = ww.GPU(chip, timing="off", engine=engine, front_end=front_end)
    module = gpu.compile(found.source, options=found.options)
    for name, value in found.device_globals.items():
        module.symbol(name).set(value)
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in found.args]
    module[found.kernel][found.grid, found.block, found.shared_bytes](*arguments)
    found.verify({n: a for n, a in enumerate(arguments) if isinstance(a, np.ndarray)})


def available(name: str, engine: str, front_end: str = "sass") -> None:
    """Run a case that compiles for sm_60; some files use what came with later chips."""
    try:
        run_case(case(name, "small"), engine, front_end=front_end)
    except CompileError:
        pytest.skip("its source file uses what sm_60 does not have")


@pytest.mark.ci
@pytest.mark.parametrize("name", [n for n in SAMPLE if n in names()])
def test_corpus_sample_in_compiled_code(name: str) -> None:
    available(name, "compiled")


@pytest.mark.parametrize("name", ["stream_triad", "nested_divergence", "call_pointers", "integer_divide_wide"])
def test_corpus_sample_in_the_interpreter(name: str) -> None:
    available(name, "interpreter")


@pytest.mark.ci
@pytest.mark.parametrize("name", ["nested_divergence", "call_pointers", "recursion_quicksort", "group_tiles"])
def test_corpus_sample_in_ptx(name: str) -> None:
    available(name, "compiled", "ptx")


@pytest.mark.slow
@pytest.mark.parametrize("front_end", ["sass", "ptx"])
@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("name", names())
def test_whole_corpus(name: str, engine: str, front_end: str) -> None:
    available(name, engine, front_end)


DIVIDED = """
extern "C" __global__ void paths(int n, const int *x, int *out)
{
    int i = threadIdx.x, sum = 0;
    for (int k = 0; k < n; k++) {
        if ((x[i] + k) % 5 == 0) continue;
        if (k > x[i]) break;
        if (k & 1) sum += k * i; else { sum -= x[i]; if (i & 2) sum ^= k; }
    }
    if (i % 7 == 3) return;
    out[i] = sum;
}
"""


def paths(n: int, x: np.ndarray) -> np.ndarray:
    out = np.full(64, -1, np.int32)
    for i in range(64):
        total = 0
        for k in range(n):
            if (int(x[i]) + k) % 5 == 0:
                continue
            if k > x[i]:
                break
            if k & 1:
                total += k * i
            else:
                total -= int(x[i])
                if i & 2:
                    total ^= k
        if i % 7 != 3:
            out[i] = total
    return out


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_breaks_and_continues_take_their_lanes_along(engine: str) -> None:
    x = np.random.default_rng(3).integers(0, 40, 64).astype(np.int32)
    out = np.full(64, -1, np.int32)
    gpu = ww.GPU("p100", timing="off", engine=engine)
    gpu.compile(DIVIDED)["paths"][1, 64](37, x, out)
    np.testing.assert_array_equal(out, paths(37, x))


def test_time_of_a_launch_stands_on_the_chip_file() -> None:
    gpu = ww.GPU("p100")
    assert (gpu.chip.arch, gpu.chip.sm.sm_count, gpu.chip.pipes.tensor_fp16_fma_per_clk) == (60, 56, 0)
    x, y = np.arange(4096, dtype=np.float32), np.ones(4096, np.float32)
    source = (
        'extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += a * x[i]; }"
    )
    run = gpu.compile(source)["saxpy"][16, 256](4096, 2.0, x, y)
    np.testing.assert_array_equal(y, 2 * np.arange(4096, dtype=np.float32) + 1)
    assert run.cycles > gpu.chip.dram.dram_latency_cycles


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("name", ["matmul_tiled", "nested_divergence", "histogram_shared"])
def test_code_of_sm_61_runs(name: str, engine: str) -> None:
    """Machine code for sm_61 on a chip that is P100's but for its compute capability."""
    p100 = load_chip("p100")
    chip = p100.model_copy(update={"identity": p100.identity.model_copy(update={"compute_capability": "6.1"})})
    run_case(case(name, "small"), engine, chip)


GENERIC = """
extern "C" __global__ void add_somewhere(unsigned *out, int shared_lanes) {
    __shared__ unsigned counts[32];
    unsigned lane = threadIdx.x;
    counts[lane] = 100 * lane;
    out[lane] = 7 * lane;
    __syncthreads();
    unsigned *place = lane < shared_lanes ? counts : out;  // known only when it runs
    atomicAdd(place + lane, 1000u);
    unsigned old = atomicExch(place + (lane ^ 1), lane);
    __syncthreads();
    out[32 + lane] = counts[lane];
    out[64 + lane] = old;
}
"""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("chip", ["p100", "v100"])
def test_generic_atomics_find_shared_and_global_memory(chip: str, engine: str) -> None:
    gpu = ww.GPU(chip, timing="off", engine=engine)
    out = np.zeros(96, np.uint32)
    gpu.compile(GENERIC)["add_somewhere"][1, 32](out, 16)
    lane = np.arange(32)
    swapped = lane ^ 1
    np.testing.assert_array_equal(out[:32], np.where(lane < 16, 7 * lane, swapped))
    np.testing.assert_array_equal(out[32:64], np.where(lane < 16, swapped, 100 * lane))
    np.testing.assert_array_equal(out[64:], np.where(lane < 16, 100, 7) * swapped + 1000)
