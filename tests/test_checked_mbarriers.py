"""mbarriers of chips without SYNCS: the checks know a test of one by the machine code that ptxas makes of it."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww

SOURCE = r"""
__device__ unsigned address_of(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ unsigned long long arrive(unsigned bar) {
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(bar) : "memory");
    return state;
}
__device__ bool test(unsigned bar, unsigned long long state) {
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(bar), "l"(state) : "memory");
    return done;
}
__device__ bool test_parity(unsigned bar, unsigned parity) {
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    return done;
}
template <class Wait> __device__ void body(int *y, Wait wait) {
    __shared__ unsigned long long bars[4];
    __shared__ int s[96];
    int t = threadIdx.x;
    unsigned bar = address_of(&bars[y[0] & 3]);
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 96;" :: "r"(bar) : "memory");
    __syncthreads();
    s[t] = t * 3;
    unsigned long long state = arrive(bar);
    wait(bar, state);
    y[1 + t] = s[95 - t];
}
extern "C" __global__ void by_state(int *y) { body(y, [](unsigned b, unsigned long long s) { while (!test(b, s)) {} }); }
extern "C" __global__ void by_parity(int *y, unsigned parity) {
    body(y, [=](unsigned b, unsigned long long s) { while (!test_parity(b, parity)) {} });
}
extern "C" __global__ void by_known_parity(int *y) { body(y, [](unsigned b, unsigned long long s) { while (!test_parity(b, 0)) {} }); }
extern "C" __global__ void by_nothing(int *y) { body(y, [](unsigned b, unsigned long long s) {}); }
extern "C" __global__ void alike(int *y) {
    __shared__ unsigned s[96];
    int t = threadIdx.x;
    s[t] = t << 25;
    unsigned other = s[95 - t];
    y[1 + t] = (other ^ y[0]) & 0x80000000 ? 1 : 2;
}
"""


@pytest.mark.parametrize("chip", ["a100", "h200"])
@pytest.mark.parametrize("kernel", ["by_state", "by_parity", "by_known_parity"])
def test_a_wait_orders_what_came_before_the_arrivals(chip: str, kernel: str) -> None:
    gpu = ww.GPU(chip, check="all")
    y = gpu.array(np.zeros(97, np.int32))
    arguments = (y, np.uint32(0)) if kernel == "by_parity" else (y,)
    gpu.compile(SOURCE, name="mbarriers.cu")[kernel][1, 96](*arguments)
    assert gpu.findings == []
    assert (y.numpy()[1:] == 3 * np.arange(96)[::-1]).all()


@pytest.mark.parametrize("chip", ["a100", "h200"])
@pytest.mark.parametrize("kernel", ["by_nothing", "alike"])
def test_what_is_no_wait_orders_nothing(chip: str, kernel: str) -> None:
    gpu = ww.GPU(chip, check="racecheck")
    gpu.compile(SOURCE, name="mbarriers.cu")[kernel][1, 96](gpu.array(np.zeros(97, np.int32)))
    assert "error" in {f.severity for f in gpu.findings if "shared memory" in " ".join(f.details)}


PHASES = r"""
__device__ unsigned address_of(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long *bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(address_of(bar)), "r"(count) : "memory");
}
__device__ void arrive(unsigned long long *bar) {
    asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" :: "r"(address_of(bar)) : "memory");
}
__device__ void await(unsigned long long *bar, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done) : "r"(address_of(bar)), "r"(parity) : "memory");
}
template <int PER_TILE> __device__ void tiles(const int *x, int *y, int n) {
    __shared__ unsigned long long bar;
    __shared__ int s[96];
    int t = threadIdx.x, sum = 0, phase = 0;
    if (t == 0) init(&bar, 96);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        s[t] = x[k * 96 + t];  // fill
        arrive(&bar);
        await(&bar, phase++ & 1);
        sum += s[(t + 40) % 96];  // use
        if (PER_TILE == 2) arrive(&bar), await(&bar, phase++ & 1);
    }
    y[t] = sum;
}
extern "C" __global__ void one_phase(const int *x, int *y, int n) { tiles<1>(x, y, n); }
extern "C" __global__ void two_phases(const int *x, int *y, int n) { tiles<2>(x, y, n); }
template <bool EARLY> __device__ void ring(const int *x, int *y, int n) {
    __shared__ unsigned long long full[2], empty[2];
    __shared__ int s[2][64];
    int t = threadIdx.x & 63, sum = 0;
    if (threadIdx.x < 2) init(&full[threadIdx.x], 64), init(&empty[threadIdx.x], 64);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        int slot = k & 1;
        if (threadIdx.x >= 64) {
            await(&empty[slot], (k / 2 & 1) ^ 1);
            s[slot][t] = x[k * 64 + t];  // fill
            arrive(&full[slot]);
        } else {
            await(&full[slot], k / 2 & 1);
            if (EARLY) arrive(&empty[slot]);
            sum += s[slot][63 - t];  // use
            if (!EARLY) arrive(&empty[slot]);
        }
    }
    if (threadIdx.x < 64) y[t] = sum;
}
extern "C" __global__ void right_ring(const int *x, int *y, int n) { ring<false>(x, y, n); }
extern "C" __global__ void early_ring(const int *x, int *y, int n) { ring<true>(x, y, n); }
extern "C" __global__ void other_slot(const int *x, int *y, int n) {
    __shared__ unsigned long long full[2];
    __shared__ int s[2][64];
    int t = threadIdx.x & 63;
    if (threadIdx.x < 2) init(&full[threadIdx.x], 64);
    __syncthreads();
    if (threadIdx.x >= 64)
        for (int k = 0; k < 2; k++) {
            s[k][t] = x[k * 64 + t];  // fill
            arrive(&full[k]);
        }
    else {
        await(&full[0], 0);
        y[t] = s[1][63 - t];  // use
    }
}
"""


def _phases(chip: str, kernel: str, threads: int) -> list[str]:
    """What racecheck and synccheck report for one of the kernels, with the lines' comments."""
    gpu = ww.GPU(chip, check="racecheck,synccheck")
    x, y = gpu.array(np.arange(96 * 6, dtype=np.int32)), gpu.array(np.zeros(96, np.int32))
    gpu.compile(PHASES, name="phases.cu")[kernel][1, threads](x, y, np.int32(4))
    return [str(finding) for finding in gpu.findings]


@pytest.mark.parametrize("chip", ["a100", pytest.param("h200", marks=pytest.mark.ci)])
@pytest.mark.parametrize(("kernel", "threads"), [("two_phases", 96), ("right_ring", 128)])
def test_phases_order_tiles(chip: str, kernel: str, threads: int) -> None:
    assert _phases(chip, kernel, threads) == []


@pytest.mark.parametrize("chip", [pytest.param("a100", marks=pytest.mark.ci), "h200"])
@pytest.mark.parametrize(("kernel", "threads"), [("one_phase", 96), ("early_ring", 128), ("other_slot", 128)])
def test_who_waits_for_a_phase_learns_of_no_other(chip: str, kernel: str, threads: int) -> None:
    """Not of arrivals at the next phase, and not of those at another mbarrier."""
    (found,) = _phases(chip, kernel, threads)
    assert "hazard" in found
    assert "// fill" in found
    assert "// use" in found
    assert "or a further phase of the mbarrier (cuda::barrier)" in found


BARRIER = r"""
#include <cuda/barrier>
template <int PER_TILE> __device__ void tiles(const int *x, int *y, int n) {
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int s[96];
    int t = threadIdx.x, sum = 0;
    if (t == 0) init(&bar, 96);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        s[t] = x[k * 96 + t];  // fill
        bar.arrive_and_wait();
        sum += s[(t + 40) % 96];  // use
        if (PER_TILE == 2) bar.arrive_and_wait();
    }
    y[t] = sum;
}
extern "C" __global__ void one_phase(const int *x, int *y, int n) { tiles<1>(x, y, n); }
extern "C" __global__ void two_phases(const int *x, int *y, int n) { tiles<2>(x, y, n); }
"""


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_phases_of_a_cuda_barrier(chip: str) -> None:
    """On v100 it consists of atomics, which warps of a checked block execute in turn, so that those that poll see each phase."""
    gpu = ww.GPU(chip, check="racecheck,synccheck")
    module = gpu.compile(BARRIER, name="phases.cu")
    x, y = gpu.array(np.arange(96 * 4, dtype=np.int32)), gpu.array(np.zeros(96, np.int32))
    module["two_phases"][1, 96](x, y, np.int32(4))
    assert gpu.findings == []
    module["one_phase"][1, 96](x, y, np.int32(4))
    assert any("WAR hazard" in str(finding) and "// fill" in str(finding) for finding in gpu.findings)
    assert all("take a lock" not in str(finding) for finding in gpu.findings)


HALVES = r"""
extern "C" __global__ void poll_half(int *y) {
    __shared__ unsigned long long word;
    __shared__ int s[32];
    unsigned seen = 0;
    if (threadIdx.x == 0) word = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] = threadIdx.x;  // fill
        __syncwarp();
        if (threadIdx.x == 0)
            asm volatile("{.reg .b64 old; fence.acq_rel.cta; atom.add.acquire.cta.u64 old, [%0], %1;}" :: "l"(&word), "l"(1ull << 32) : "memory");
    } else {
        while (!seen) asm volatile("ld.acquire.cta.u32 %0, [%1];" : "=r"(seen) : "l"((unsigned *)&word + 1) : "memory");
        y[threadIdx.x] = s[63 - threadIdx.x];  // use
    }
}
"""


@pytest.mark.ci
def test_a_poll_of_one_half_of_a_word_is_ordered_after_its_atomics() -> None:
    """As the first poll of a ``cuda::barrier`` before sm_80 is, which reads the upper 32 bits of the object."""
    gpu = ww.GPU("v100", check="racecheck")
    y = gpu.array(np.zeros(64, np.int32))
    gpu.compile(HALVES, name="halves.cu")["poll_half"][1, 64](y)
    assert gpu.findings == []
    assert (y.numpy()[32:] == np.arange(32)[::-1]).all()


INITIALISED = r"""
#include <cuda/barrier>
using Barrier = cuda::barrier<cuda::thread_scope_block>;
template <class Body> __device__ void with_barrier(int count, bool meet, Body body) {
    __shared__ Barrier bar;
    if (threadIdx.x == 0) init(&bar, count);
    if (meet) __syncthreads();
    body(bar);
}
// Right: once, and again after all have left.
extern "C" __global__ void twice(int *y) {
    with_barrier(blockDim.x, true, [=](Barrier &bar) {
        bar.arrive_and_wait();
        __syncthreads();
        if (threadIdx.x == 0) { bar.~Barrier(); init(&bar, blockDim.x); }
        __syncthreads();
        bar.arrive_and_wait();
        y[threadIdx.x] = 1;
    });
}
// Right: one warp waits for another's, in two roles.
extern "C" __global__ void roles(int *y) {
    with_barrier(blockDim.x, true, [=](Barrier &bar) {
        if (threadIdx.x < 32) { y[threadIdx.x] = 1; auto token = bar.arrive(); (void)token; }
        else { auto token = bar.arrive(); bar.wait(static_cast<Barrier::arrival_token &&>(token)); y[threadIdx.x] = y[threadIdx.x - 32]; }
    });
}
// Wrong: nothing orders the first use after the initialisation.
extern "C" __global__ void at_once(int *y) {
    with_barrier(blockDim.x, false, [=](Barrier &bar) { bar.arrive_and_wait(); y[threadIdx.x] = 1; });
}
// Wrong: initialised again while the threads of the first warp may still wait.
extern "C" __global__ void while_others_wait(int *y) {
    with_barrier(32, true, [=](Barrier &bar) {
        if (threadIdx.x < 32) { bar.arrive_and_wait(); y[threadIdx.x] = 1; bar.arrive_and_wait(); }
        else if (threadIdx.x == 32) { init(&bar, 32); }
    });
}
"""


def barrier_findings(chip: str, kernel: str, check: str = "all") -> list[ww.Finding]:
    gpu = ww.GPU(chip, check=check, timing="off")
    try:
        gpu.compile(INITIALISED, name="bars.cu")[kernel][1, 64](np.zeros(64, np.int32))
    except ww.DeadlockError:
        assert kernel == "while_others_wait"
    return list(gpu.findings)


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_a_barrier_that_is_initialised_again_ends_as_a_deadlock(chip: str) -> None:
    """On v100, threads wait in two copies of a loop that reads a clock; both call one function, and the second ends the threads."""
    findings = barrier_findings(chip, "while_others_wait", "synccheck")
    assert any("deadlock in kernel while_others_wait" in finding.title for finding in findings)


@pytest.mark.ci
@pytest.mark.parametrize("check", ["all", "synccheck"])
def test_an_mbarrier_is_used_after_its_initialisation_and_left_before_the_next(check: str) -> None:
    for kernel in ("twice", "roles"):
        assert barrier_findings("h200", kernel, check) == []
    first = barrier_findings("h200", "at_once", check)[0]
    assert (first.check, first.title) == ("synccheck", "Barrier error detected. Invalid arguments.")
    assert "nothing orders this after the initialisation of the mbarrier at byte" in str(first)
    again = next(
        one for one in barrier_findings("h200", "while_others_wait", check) if one.title.endswith("arguments.")
    )
    assert "was initialised again at" in str(again)
    assert "threads that had arrived may wait forever" in str(again)
