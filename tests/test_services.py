"""printf, assert, malloc and free in kernels, on both engines and through both front ends."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import AssertionFailedError, TrapError
from warpwright.toolchain import InputKind, compile_source, link

SOURCE = r"""
#include <cassert>
extern "C" __global__ void greet(const float *x) {
    printf("%s %d of %u: %5.2f %c|%-4d|%x %lld %%\n", "thread", threadIdx.x, blockDim.x, 2 * x[threadIdx.x], 'a' + threadIdx.x,
           7, 255, 1LL << 40);
}
extern "C" __global__ void counted(int *n) {
    n[threadIdx.x] = threadIdx.x & 1 ? printf("odd\n") : printf("%d %d\n", 1, 2);
}
extern "C" __global__ void checked(const int *x, int limit) {
    assert(x[threadIdx.x] < limit && "too large");
}
extern "C" __global__ void lists(int **heads, int *sums) {
    int *own = (int *)malloc(4 * (threadIdx.x + 1));
    for (int i = 0; i <= threadIdx.x; i++) own[i] = i;
    int sum = 0;
    for (int i = 0; i <= threadIdx.x; i++) sum += own[i];
    sums[threadIdx.x] = sum;
    if (threadIdx.x % 2) free(own);
    else heads[threadIdx.x] = own;
}
extern "C" __global__ void read(int **heads, int *out) {
    out[threadIdx.x] = threadIdx.x % 2 ? -1 : heads[threadIdx.x][threadIdx.x];
}
extern "C" __global__ void too_much(void **out) { out[0] = malloc(1ull << 40); }
extern "C" __global__ void stop() { __trap(); }
"""
GREETING = "".join(f"thread {n} of 3: {2 * n + 1:5.2f} {'abc'[n]}|7   |ff 1099511627776 %\n" for n in range(3))

SETTINGS = [
    pytest.param(("a100", {"engine": "compiled"}), id="compiled"),
    pytest.param(("a100", {"engine": "interpreter"}), id="interpreter"),
    pytest.param(("a100", {"engine": "compiled", "front_end": "ptx"}), id="ptx"),
    pytest.param(("p100", {"engine": "compiled"}), id="stack"),
]


@pytest.fixture(params=SETTINGS)
def gpu(request: pytest.FixtureRequest) -> ww.GPU:
    chip, options = request.param
    return ww.GPU(chip, timing="off", **options)


def test_printf_formats_as_c_does(gpu: ww.GPU, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.compile(SOURCE)["greet"][1, 3](np.array([0.5, 1.5, 2.5], np.float32))
    assert capsys.readouterr().out == GREETING


@pytest.mark.parametrize("chip", ["v100", "h200"])
def test_printf_on_other_architectures(chip: str, capsys: pytest.CaptureFixture[str]) -> None:
    ww.GPU(chip, timing="off").compile(SOURCE)["greet"][1, 3](np.array([0.5, 1.5, 2.5], np.float32))
    assert capsys.readouterr().out == GREETING


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("chip", ["p100", "v100"])
def test_separately_compiled_code_prints_and_reads_variables(
    chip: str, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such code has addresses in its instructions: on sm_60, 32 bits at bit 20, and calls use addresses of the whole program."""
    source = r"""
__device__ int table[3] = {4, 5, 6};
extern "C" __global__ void greet(const int *x) { printf("%d: %d\n", threadIdx.x, table[x[threadIdx.x]]); }
"""
    gpu = ww.GPU(chip, timing="off", engine=engine)
    arch = str(gpu.chip.arch)
    separate = compile_source(source, arch, options=["-rdc=true"]).cubin
    module = gpu.compile(link([(InputKind.CUBIN, separate, "greet.cubin")], arch).cubin)
    module["greet"][1, 3](np.array([2, 0, 1], np.int32))
    assert capsys.readouterr().out == "0: 6\n1: 4\n2: 5\n"
    module.symbol("table").set(np.array([7, 8, 9], np.int32))
    module["greet"][1, 3](np.array([2, 0, 1], np.int32))
    assert capsys.readouterr().out == "0: 9\n1: 7\n2: 8\n"


def test_printf_with_timing(capsys: pytest.CaptureFixture[str]) -> None:
    run = ww.GPU("a100").compile(SOURCE)["greet"][1, 3](np.array([0.5, 1.5, 2.5], np.float32))
    assert capsys.readouterr().out == GREETING
    assert run.cycles > 0


def test_printf_returns_the_number_of_arguments(gpu: ww.GPU, capsys: pytest.CaptureFixture[str]) -> None:
    counts = np.zeros(4, np.int32)
    gpu.compile(SOURCE)["counted"][1, 4](counts)
    assert list(counts) == [2, 0, 2, 0]
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "1 2", "1 2", "odd", "odd"]


def test_failed_assertion_names_block_and_threads(gpu: ww.GPU) -> None:
    kernel = gpu.compile(SOURCE, name="check.cu")["checked"]
    kernel[2, 4](np.zeros(4, np.int32), 1)
    with pytest.raises(AssertionFailedError) as caught:
        kernel[2, 4](np.array([0, 5, 0, 5], np.int32), 5)
    lines = str(caught.value).split("\n")
    wanted = r"check\.cu:11: (void )?checked(\(const int \*, int\))?: block: \[0,0,0\], thread: \[{n},0,0\] Assertion `"
    for line, thread in zip(lines, (1, 3), strict=True):
        assert re.match(wanted.replace("{n}", str(thread)), line), line
        assert line.endswith('x[threadIdx.x] < limit && "too large"` failed.')


@pytest.mark.ci
def test_malloc_keeps_memory_between_launches(gpu: ww.GPU) -> None:
    module = gpu.compile(SOURCE)
    heads, sums = gpu.zeros(32, np.int64), gpu.zeros(32, np.int32)
    for _ in range(3):
        module["lists"][1, 32](heads, sums)
    assert list(sums.get()) == [n * (n + 1) // 2 for n in range(32)]
    out = np.zeros(32, np.int32)
    module["read"][1, 32](heads, out)
    assert list(out) == [-1 if n % 2 else n for n in range(32)]
    places = heads.get()[::2]
    assert len(set(places)) == 16
    assert (places % 16 == 0).all()


def test_malloc_without_room_gives_null(gpu: ww.GPU) -> None:
    out = np.ones(1, np.int64)
    gpu.compile(SOURCE)["too_much"][1, 1](out)
    assert out[0] == 0


def test_trap_is_not_an_assertion(gpu: ww.GPU) -> None:
    with pytest.raises(TrapError, match="stopped itself") as caught:
        gpu.compile(SOURCE)["stop"][1, 1]()
    assert not isinstance(caught.value, AssertionFailedError)
