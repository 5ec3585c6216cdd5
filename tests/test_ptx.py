"""PTX as a second opinion: the whole corpus against its references and against machine code."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests import kernels
from tests.kernels import Case, cases
from warpwright.kernel import Module

CHIPS = {70: "v100", 80: "a100", 90: "h200"}
CONTRACTED = ("fast_intrinsics", "dft_direct", "fft_radix2", "black_scholes")
"""Here the assembler fuses products and sums that PTX keeps apart (it may, where they have no .rn)."""
TIMES = ("clock_read",)
"""Results that are times."""
VOLTA_ORDER = ("wmma_float", "wmma_tiled")
"""Volta's compiled wmma takes the products in another order of k than mma.m16n8k16 does, which changes last bits."""

COVERING = (
    "stream_copy_vec4", "narrow_widths", "reduce_max_shared", "warp_votes", "sort_bitonic", "histogram_private", "atomics_global", "lock_ticket",
    "barrier_votes", "chained_scan", "group_tiles", "float_divide_root", "fast_math_option", "double_arithmetic", "half_arithmetic",
    "integer_divide_wide", "recursion_quicksort", "call_noinline", "game_of_life", "fft_radix2", "kmeans_assign", "gelu_bias", "async_reverse",
    "wmma_float", "mma_float", "mma_volta",
)  # fmt: skip
"""Cases whose kernels together have every instruction of the corpus's PTX for sm_90, with its types and modifiers; the others are slow."""

Outputs = dict[int, Any]


@cache
def corpus(covering: bool = False) -> list[Case]:
    return [kernels.case(name, "small") for name in COVERING] if covering else cases("small")


def instructions(ptx: str, kernel: str) -> set[str]:
    """The instructions of a kernel and of what it calls, with their types and modifiers."""
    parts = re.split(r"(?m)^(?=(?:\.visible |\.weak )*\.(?:entry|func)\b)", ptx)
    named = {
        m[1]: part for part in parts if (m := re.match(r"[^{;]*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", part))
    }
    wanted, seen = [kernel], set[str]()
    while wanted:
        name = wanted.pop()
        seen.add(name)
        wanted += [other for other in named if other not in seen and re.search(rf"\b{re.escape(other)}\b", named[name])]
    lines = (line for name in seen for line in named[name].splitlines())
    found = (re.match(r"\s*(?:@!?%p\d+\s+)?([a-z]\w*(?:\.[\w:]+)*)\s+[^;]*;", line) for line in lines)
    return {one[1] for one in found if one}


def launch(module: Module, case: Case) -> Outputs:
    """Run a case; its buffers afterwards, by index of argument."""
    for name, contents in case.device_globals.items():
        module.symbol(name).set(contents)
    arguments = [a.copy() if isinstance(a, np.ndarray) and a.ndim else a for a in case.args]
    module[case.kernel][case.grid, case.block, case.shared_bytes](*arguments)
    return {i: a for i, a in enumerate(arguments) if isinstance(a, np.ndarray) and a.ndim}


def through_ptx(case: Case, arch: int, engine: str, *more: str) -> Outputs:
    gpu = ww.GPU(CHIPS[arch], timing="off", engine=engine, front_end="ptx")
    return launch(gpu.compile(case.source, options=(*case.options, *more)), case)


def through_machine_code(case: Case, arch: int, *more: str) -> Outputs:
    gpu = ww.GPU(CHIPS[arch], timing="off", engine="interpreter")
    return launch(gpu.compile(case.source, options=(*case.options, *more)), case)


@pytest.mark.slow
def test_covering_cases_have_every_instruction_of_the_corpus() -> None:
    gpu, found = ww.GPU("h200", timing="off", front_end="ptx"), {}
    for case in corpus():
        kernel = gpu.compile(case.source, options=case.options)[case.kernel]
        found[case.name] = instructions(kernel._loaded_module.compiled.ptx, kernel._loaded.program.name)
    covered = set[str]().union(*(found[name] for name in COVERING))
    assert len(covered) > 400
    assert set[str]().union(*found.values()) == covered


@pytest.mark.ci
@pytest.mark.parametrize(
    ("arch", "engine", "covering"),
    [
        pytest.param(90, "compiled", True),
        *(
            pytest.param(arch, engine, False, marks=pytest.mark.slow)
            for arch in CHIPS
            for engine in ("interpreter", "compiled")
        ),
    ],
)
def test_corpus_equals_its_references(arch: int, engine: str, covering: bool) -> None:
    failures = []
    for case in corpus(covering):
        if case.min_arch > arch:
            continue
        try:
            case.verify(through_ptx(case, arch, engine))
        except (AssertionError, ww.WarpwrightError) as error:
            failures.append(f"{case.name}: {' '.join(str(error).split())[:200]}")
    assert not failures, "\n".join(failures)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("arch", "covering"), [(80, True), *(pytest.param(arch, False, marks=pytest.mark.slow) for arch in CHIPS)]
)
def test_corpus_gives_the_bits_of_machine_code(arch: int, covering: bool) -> None:
    failures = []
    for case in corpus(covering):
        if case.min_arch > arch or case.name in TIMES or (arch == 70 and case.name in VOLTA_ORDER):
            continue
        more = ("--fmad=false",) if case.name in CONTRACTED else ()
        ours, theirs = through_ptx(case, arch, "interpreter", *more), through_machine_code(case, arch, *more)
        for index, got in ours.items():
            mine, other = (np.frombuffer(x.tobytes(), np.uint8) for x in (got, theirs[index]))
            different = int((mine != other).sum())
            if different:
                failures.append(f"{case.name}: argument {index}: {different} bytes of {got.nbytes}")
    assert not failures, "\n".join(failures)


def test_global_and_constant_variables() -> None:
    """Initialisers with addresses, in global and constant memory; contents set from outside."""
    source = """.version 8.8
.target sm_80
.address_size 64
.global .align 4 .u32 table[3] = {10, 20, 30};
.global .align 8 .u64 where[2] = {table, generic(bias)};
.const .align 4 .u32 bias = 5;
.visible .entry k(.param .u64 out)
{
    .reg .b64 %rd<5>;
    .reg .b32 %r<5>;
    ld.param.u64 %rd1, [out];
    ld.global.u64 %rd2, [where];
    ld.u32 %r1, [%rd2+8];
    ld.global.u64 %rd3, [where+8];
    ld.u32 %r2, [%rd3];
    ld.const.u32 %r3, [bias];
    add.u32 %r1, %r1, %r2;
    add.u32 %r1, %r1, %r3;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
    gpu = ww.GPU("a100", timing="off", engine="interpreter", front_end="ptx")
    module = gpu.compile(source)
    out = np.zeros(1, np.uint32)
    module["k"][1, 1](out)
    assert out[0] == 40
    module.symbol("table").set(np.array([0, 0, 100], np.uint32))
    module["k"][1, 1](out)
    assert out[0] == 110


def test_a_fault_names_the_line_of_the_program() -> None:
    source = """extern "C" __global__ void k(int *p) {
    p[threadIdx.x + 100000] = 1;
}"""
    gpu = ww.GPU("a100", timing="off", engine="interpreter", front_end="ptx")
    module = gpu.compile(source, name="k.cu")
    with pytest.raises(ww.MemoryFaultError, match=r"out-of-bounds write of 4 bytes.*\n.*k\.cu:2: p\[threadIdx"):
        module["k"][1, 1](np.zeros(4, np.int32))


def test_what_is_not_supported_is_an_error_of_the_package() -> None:
    source = ".version 8.8\n.target sm_80\n.address_size 64\n.entry k()\n{\ntxq.width.b32 %r, [t];\n}\n"
    gpu = ww.GPU("a100", timing="off", engine="interpreter", front_end="ptx")
    with pytest.raises(ww.WarpwrightError, match="register %r is not declared"):
        gpu.compile(source, name="k.ptx")
    module = gpu.compile(source.replace("%r", "_"), name="k.ptx")
    with pytest.raises(
        ww.UnsupportedError,
        match=r"^kernel k: cannot execute line 6 of k\.ptx \(sm_80\): txq\.width\.b32 _, \[t\]: a texture or surface that is not named by an object's handle$",
    ):
        module["k"]


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(ww.UnsupportedError) as caught:
        ww.GPU("a100", timing="off", front_end="spirv")
    assert str(caught.value) == "front_end='spirv' is not known; use front_end='sass' or front_end='ptx'"
    cubin = ww.GPU("a100", timing="off").compile("__global__ void k() {}").cubin
    with pytest.raises(ww.UnsupportedError) as caught:
        ww.GPU("a100", timing="off", front_end="ptx").compile(cubin, name="k.cubin")
    assert str(caught.value) == (
        "k.cubin holds machine code only; front_end='ptx' takes CUDA C++ or PTX, front_end='sass' a cubin"
    )


BARRIERS = """#include <cuda/barrier>
#include <cooperative_groups.h>
extern "C" __global__ void k(const int *in, int *out, int rounds) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int box[128];
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    int t = threadIdx.x, v = in[t];
    for (int r = 0; r < rounds; ++r) {
        box[t] = v;
        bar.arrive_and_wait();
        v += box[(t + 1) % 128];
        auto token = bar.arrive();
        bar.wait(std::move(token));
    }
    cuda::memcpy_async(&box[t], &in[t], sizeof(int), bar);
    bar.arrive_and_wait();
    out[t] = v + box[t];
}
"""


@pytest.mark.ci
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_barrier_objects(chip: str, engine: str) -> None:
    start = np.arange(128, dtype=np.int32)
    want = start.copy()
    for _ in range(5):
        want = want + np.roll(want, -1)
    out = np.zeros(128, np.int32)
    gpu = ww.GPU(chip, timing="off", engine=engine, front_end="ptx")
    gpu.compile(BARRIERS)["k"][1, 128](start, out, np.int32(5))
    np.testing.assert_array_equal(out, want + start)


TF32 = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(float *out, const float *a, const float *b) {
    wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> y;
    wmma::load_matrix_sync(x, a, 8);
    wmma::load_matrix_sync(y, b, 8);
    wmma::fill_fragment(sum, 0.0f);
    wmma::mma_sync(sum, x, y, sum);
    wmma::store_matrix_sync(out, sum, 16, wmma::mem_row_major);
}
"""


@pytest.mark.parametrize("front_end", ["sass", "ptx"])
def test_wmma_of_tf32_rounds_after_every_four_products(front_end: str) -> None:
    """1 + 2^-24 + 2^-24, the last one in the second half of k: each half is cut to 24 bits, one sum would be 1 + 2^-23."""
    rows = np.zeros((16, 8), np.float32)
    rows[:, 0], rows[:, 1] = 1, 2.0**-12
    rows[::2, 2], rows[1::2, 4] = 2.0**-12, 2.0**-12
    out = np.zeros((16, 16), np.float32)
    gpu = ww.GPU("h200", timing="off", front_end=front_end)
    gpu.compile(TF32)["k"][1, 32](out, rows, rows)
    want = np.ones((16, 16), np.float32)
    want[::2, ::2] = 1 + 2.0**-23
    np.testing.assert_array_equal(out, want)
