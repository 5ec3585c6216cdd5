"""Launches that begin in the interpreter and go on in compiled code give what compiled code gives: bits, faults, output, counts.

Every case runs with the interpreter alone, with compiled code alone, and with limits that end the interpreter's part in the middle of a block.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from tests.kernels import Case, case, names
from warpwright.engine import tiers
from warpwright.engine.interpreter import Launch
from warpwright.engine.jit import codegen as jit

SOME = (
    *("stream_triad", "matmul_tiled", "mandelbrot", "reduce_sum", "lock_lanes", "lock_blocks", "recursion_fibonacci"),
    *("atomics_global", "atomics_shared", "atomics_cas_loop", "barrier_votes", "barrier_named", "volatile_handoff"),
    *(
        "chained_scan",
        "clock_read",
        "call_pointers",
        "nested_divergence",
        "leaving_lanes",
        "warp_shuffles",
        "sleep_turns",
    ),
    *("histogram_shared", "compact_positive", "reduce_last_block", "local_permutation", "mma_half"),
)
ALWAYS = 1 << 60


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that other tests left on the disk does not count."""
    monkeypatch.setattr(tiers, "has_code", lambda *_: False)


@pytest.fixture
def part_done(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Blocks that compiled code took over from, launch by launch; ``len`` where the interpreter did all."""
    done: list[int] = []
    run = tiers.TieredExecution._finish

    def finish(self: tiers.TieredExecution) -> Any:
        done.append(self.blocks_done)
        return run(self)

    monkeypatch.setattr(tiers.TieredExecution, "_finish", finish)
    return done


def launch(one: Case, engine: str, chip: str = "a100") -> tuple[dict[int, np.ndarray], ww.Run]:
    """The buffers after a case, on a GPU of its own."""
    module = ww.GPU(chip, timing="off", engine=engine).compile(one.source, options=one.options)
    for symbol, contents in one.device_globals.items():
        module.symbol(symbol).set(contents)
    args = [a.copy() if isinstance(a, np.ndarray) and a.ndim else a for a in one.args]
    run = module[one.kernel][one.grid, one.block, one.shared_bytes](*args)
    return {index: a for index, a in enumerate(args) if isinstance(a, np.ndarray) and a.ndim}, run


@cache
def compiled(name: str, chip: str) -> tuple[dict[int, np.ndarray], ww.Run]:
    return launch(case(name, "small"), "compiled", chip)


def same(name: str, chip: str) -> None:
    one = case(name, "small")
    wanted, reference = compiled(name, chip)
    got, run = launch(one, "tiered", chip)
    one.verify(got)
    for index, values in wanted.items():
        assert got[index].tobytes() == values.tobytes(), (name, index)
    assert run.instructions == reference.instructions
    assert run.thread_instructions == reference.thread_instructions


def limit(monkeypatch: pytest.MonkeyPatch, instructions: int) -> None:
    monkeypatch.setattr(tiers, "budget", lambda loaded, geometry: instructions if geometry.cluster_blocks == 1 else 0)


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("instructions", [ALWAYS, 700])
def test_some_of_the_corpus(name: str, instructions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit(monkeypatch, instructions)
    same(name, "a100")


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
@pytest.mark.parametrize("name", names())
def test_corpus(name: str, chip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if case(name, "small").min_arch > {"v100": 70, "a100": 80, "h200": 90}[chip]:
        pytest.skip("of a later architecture")
    for instructions in (ALWAYS, 3000, 150):
        limit(monkeypatch, instructions)
        same(name, chip)


ADDS = r"""
#include <cstdio>
extern "C" __global__ void adds(int *sum, int *place, double *values, int turns, int *heap) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    __shared__ int before;
    if (threadIdx.x == 0) {
        before = atomicAdd(sum, blockIdx.x + 1);
        int *own = (int *)malloc(16);
        own[0] = before;
        heap[blockIdx.x] = own[0] + (own != nullptr);
        if (blockIdx.x % 2) free(own);
        printf("block %d after %d\n", blockIdx.x, before);
    }
    __syncthreads();
    place[me] = before;
    double x = values[me];
    for (int i = 0; i < turns; i++) x = fma(x, 1.0000001, (double)i);
    values[me] = x;
}
"""


@pytest.mark.ci
@given(st.integers(1, 6), st.integers(1, 80), st.integers(0, 60), st.integers(0, 4000))
@settings(max_examples=25, deadline=None)
def test_a_block_that_is_taken_back_leaves_nothing(blocks: int, threads: int, turns: int, instructions: int) -> None:
    """Memory, the heap and what was printed are as if the block had never begun."""

    def run(engine: str) -> tuple[list[bytes], bytes, int]:
        gpu = adding_gpu(engine)
        printed: list[bytes] = []
        gpu.on_output = printed.append
        rng = np.random.default_rng(blocks)
        arrays = np.zeros(1, np.int32), np.zeros(blocks * threads, np.int32), rng.random(blocks * threads)
        heap = np.zeros(blocks, np.int32)
        done = gpu.compile(ADDS)["adds"][blocks, threads](*arrays, turns, heap)
        return [a.tobytes() for a in (*arrays, heap)], b"".join(printed), done.instructions

    with pytest.MonkeyPatch.context() as patch:
        limit(patch, instructions)
        assert run("tiered") == run("compiled")


@cache
def adding_gpu(engine: str) -> ww.GPU:
    return ww.GPU("a100", timing="off", engine=engine)


def test_hands_over_at_the_block_that_is_too_long(monkeypatch: pytest.MonkeyPatch, part_done: list[int]) -> None:
    limit(monkeypatch, 2000)
    args = np.zeros(1, np.int32), np.zeros(320, np.int32), np.zeros(320), 40, np.zeros(10, np.int32)
    gpu = ww.GPU("a100", timing="off", engine="tiered")
    run = gpu.compile(ADDS)["adds"][10, 32](*args)
    assert 0 < part_done[0] < 10
    assert args[0][0] == 55
    assert run.compile_seconds > 0


@pytest.mark.ci
def test_hands_over_once_the_first_blocks_predict_too_long_a_launch(
    monkeypatch: pytest.MonkeyPatch, part_done: list[int]
) -> None:
    limit(monkeypatch, 2000)
    source = """extern "C" __global__ void steps(int *x) {
        int v = threadIdx.x;
        for (int i = 0; i < 200; i++) v = v * v + x[i & 1];
        x[2 + blockIdx.x * 32 + threadIdx.x] = v;
    }"""
    found = []
    for blocks in (64, 4):
        for engine in ("tiered", "compiled"):
            x = np.arange(2 + 64 * 32, dtype=np.int32)
            ww.GPU("a100", timing="off", engine=engine).compile(source)["steps"][blocks, 32](x)
            found.append(x)
    assert part_done == [1]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[3])


def test_warps_that_wait_are_handed_over(monkeypatch: pytest.MonkeyPatch, part_done: list[int]) -> None:
    limit(monkeypatch, ALWAYS)
    launch(case("lock_blocks", "small"), "tiered")
    assert part_done == [] or part_done[0] < case("lock_blocks", "small").grid[0]
    launch(case("volatile_handoff", "small"), "tiered")
    assert part_done


def test_an_endless_loop_ends_in_compiled_code(part_done: list[int]) -> None:
    source = 'extern "C" __global__ void waits(volatile int *flag) { while (flag[0] == 0) ; flag[1] = 1; }'
    gpu = ww.GPU("a100", timing="off", engine="tiered")
    with pytest.raises(ww.DeadlockError):
        gpu.compile(source)["waits"][1, 32](np.zeros(2, np.int32))
    assert part_done == [0]


def test_faults_are_told_by_compiled_code(part_done: list[int]) -> None:
    source = 'extern "C" __global__ void far(int *a, int n) { a[threadIdx.x] = 1; a[threadIdx.x + n] = 2; }'
    told = []
    for engine in ("compiled", "tiered"):
        gpu = ww.GPU("a100", timing="off", engine=engine)
        with pytest.raises(ww.MemoryFaultError) as error:
            gpu.compile(source)["far"][2, 32](gpu.array(np.zeros(32, np.int32)), 1 << 24)
        told.append(str(error.value))
    assert told[0] == told[1]
    assert part_done == [0]


def test_code_is_made_once_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many launches of a small kernel end in compiled code, the first ones do without."""
    counted: list[int] = []
    made = jit.to_object
    monkeypatch.setattr(jit, "to_object", lambda *a, **k: counted.append(1) or made(*a, **k))
    source = 'extern "C" __global__ void add(int *a, int b) { a[threadIdx.x] += b; }'
    gpu = ww.GPU("a100", timing="off", engine="tiered")
    kernel = gpu.compile(source)["add"]
    values = gpu.array(np.zeros(32, np.int32))
    kernel[1, 32](values, 1)
    assert counted == []
    assert kernel._loaded.interpreted_instructions > 0
    for _ in range(60):
        kernel[1, 32](values, 1)
    assert kernel._loaded.compiled
    np.testing.assert_array_equal(values.numpy(), np.full(32, 61))


def test_large_launches_are_compiled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Launch, "__init__", None)
    source = 'extern "C" __global__ void set(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] = 1; }'
    values = np.zeros(1 << 16, np.int32)
    ww.GPU("a100", timing="off", engine="tiered").compile(source)["set"][256, 256](values)
    assert values.all()


def test_code_on_the_disk_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "has_code", jit.has_code)
    one = case("stream_triad", "small")
    launch(one, "compiled")
    monkeypatch.setattr(jit, "_memory", {})
    monkeypatch.setattr(Launch, "__init__", None)
    launch(one, "tiered")
