"""The API with timing on: cycles, metrics, the same errors, interruption."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_api_errors import SOURCE as FAULTY
from warpwright.run import Progress

SOURCE = """\
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
extern "C" __global__ void locked(int *lock, volatile int *counter)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *counter = *counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
extern "C" __global__ void clocks(long long *out)
{
    long long before = clock64();
    float x = out[0];
    for (int i = 0; i < 100; ++i) x = x * 1.5f + 1.0f;
    out[1] = clock64() - before;
    out[2] = x;
}
extern "C" __global__ void endless(volatile int *flag) { int n = 0; while (*flag == 0) n++; *flag = n; }
"""
CHIPS = ("v100", "a100", "h200")
N = 1 << 14


def saxpy_run(gpu: ww.GPU) -> Any:
    x, y = np.arange(N, dtype=np.float32), np.ones(N, np.float32)
    run = gpu.compile(SOURCE, name="timed.cu")["saxpy"][N // 256, 256](N, 2.0, x, y)
    np.testing.assert_array_equal(y, 2 * np.arange(N, dtype=np.float32) + 1)
    return run


@pytest.fixture(scope="module", params=CHIPS)
def gpu(request: pytest.FixtureRequest) -> ww.GPU:
    return ww.GPU(request.param)


def test_a_run_has_cycles_time_and_a_reason(gpu: ww.GPU) -> None:
    run = saxpy_run(gpu)
    assert run.timed
    assert 1000 < run.cycles < 100_000
    assert run.seconds == pytest.approx(run.cycles / (gpu.chip.clocks.sm_clock_mhz * 1e6))
    assert run.bottleneck
    assert run.metrics["gpc__cycles_elapsed.max"] == run.cycles
    assert run.instructions == run.metrics["smsp__inst_executed.sum"]
    assert run.metrics["launch__registers_per_thread"] == run.registers
    assert run.ipc == run.instructions / run.cycles


def test_timing_executes_what_the_engine_executes(gpu: ww.GPU) -> None:
    untimed = saxpy_run(ww.GPU(gpu.chip, timing="off"))
    timed = saxpy_run(gpu)
    assert timed.instructions == untimed.instructions
    assert timed.thread_instructions == untimed.thread_instructions


def test_cycles_do_not_depend_on_threads_or_history(gpu: ww.GPU) -> None:
    one = saxpy_run(ww.GPU(gpu.chip, threads=1)).cycles
    two = saxpy_run(ww.GPU(gpu.chip, threads=2)).cycles
    again = saxpy_run(ww.GPU(gpu.chip, threads=1)).cycles
    assert one == two == again


def test_a_lock_within_a_warp_finishes(gpu: ww.GPU) -> None:
    lock, counter = gpu.zeros(1, np.int32), gpu.zeros(1, np.int32)
    gpu.compile(SOURCE, name="timed.cu")["locked"][2, 64](lock, counter)
    assert counter.get()[0] == 128


def test_clocks_count_cycles(gpu: ww.GPU) -> None:
    out = np.zeros(3, np.int64)
    run = gpu.compile(SOURCE, name="timed.cu")["clocks"][1, 1](out)
    assert 400 <= out[1] <= run.cycles, "100 dependent multiply-adds of 4 cycles"


@pytest.mark.parametrize(
    ("kernel", "block", "arguments"),
    [
        ("saxpy", 256, lambda: (2048, 2.0, np.ones(1024, np.float32), np.ones(1024, np.float32))),
        ("shifted", 1, lambda: (np.zeros(64, np.int8), 2)),
        ("stop", 32, lambda: (np.zeros(1, np.int32),)),
        ("uneven", 128, lambda: (np.zeros(128, np.int32),)),
    ],
)
def test_errors_are_those_of_the_untimed_engine(kernel: str, block: int, arguments: Any) -> None:
    messages = []
    for timing in ("off", "full"):
        gpu = ww.GPU("a100", timing=timing)
        with pytest.raises(ww.ExecutionError) as error:
            gpu.compile(FAULTY, name="demo.cu")[kernel][5, block](*arguments())
        messages.append((type(error.value), str(error.value)))
    assert messages[0][0] is messages[1][0]
    assert messages[1][1].splitlines()[0].split(" at ")[0] == messages[0][1].splitlines()[0].split(" at ")[0]
    assert messages[1][1].splitlines()[1] == messages[0][1].splitlines()[1]


@pytest.mark.ci
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_ctrl_c_stops_a_timed_kernel(interrupted: list[Progress]) -> None:
    gpu = ww.GPU("a100")
    saxpy_run(gpu)
    kept = gpu.array(np.arange(1000))
    with pytest.raises(KeyboardInterrupt):
        gpu.compile(SOURCE, name="timed.cu")["endless"][1, 32](np.zeros(1, np.int32))
    seen = interrupted
    assert seen[-1].finished
    assert max(p.cycles for p in seen) > 0
    np.testing.assert_array_equal(kept.get(), np.arange(1000))
    saxpy_run(gpu)
