"""The four demonstrations of independent thread scheduling in "Volta: Performance and Programmability": what ends, and with which results.

The article guarantees them for Volta; on other processors, a spin lock may live-lock, an assertion may fire and a body may run diverged. A model with one order
of threads shows one outcome where the article allows several: only what it guarantees, and the live-lock, are compared.
"""

from __future__ import annotations

import numpy as np

from warpwright.api import GPU
from warpwright.errors import DeadlockError
from warpwright.kernel import Module
from warpwright.studies.study import Cell, Result, Step, Table, study

PAPER = "Choquette et al., Volta: Performance and Programmability, 2018"
CHIPS = ("v100", "p100")
SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void demo_a(int *mutex, volatile int *count)
{
    while (atomicCAS(mutex, 0, 1) == 1)
        ;
    *count = *count + 1;
    __threadfence();
    *(volatile int *)mutex = 0;
}

__device__ __noinline__ bool is_odd(int x) { return x & 1; }
__device__ __noinline__ bool is_even(int x) { return !(x & 1); }
extern "C" __global__ void demo_b(volatile int *is_sound, int *fired)
{
    const int x = threadIdx.x;
    if (is_odd(x) || is_even(x)) {
        if (!*is_sound)
            atomicAdd(fired, 1);
        __syncthreads();
        *is_sound = 0;
    }
}

// Counts the groups of threads that run the body together.
extern "C" __global__ void demo_c(int *groups, const int *equal)
{
    for (int i = 0; i < 32; i++)
        if (equal[threadIdx.x] == i) {
            unsigned mask = __activemask();
            if (threadIdx.x % 32 == __ffs(mask) - 1)
                atomicAdd(groups, 1);
        }
}

extern "C" __global__ void demo_d(int *total, int *given, int lanes)
{
    if (threadIdx.x % 32 < lanes) {
        cg::coalesced_group g = cg::coalesced_threads();
        int prev;
        if (g.thread_rank() == 0)
            prev = atomicAdd(total, g.size());
        given[blockIdx.x * blockDim.x + threadIdx.x] = g.thread_rank() + g.shfl(prev, 0);
    }
}
"""
THREADS, BLOCKS = 64, 4


def spin_lock(module: Module) -> tuple[int, str]:
    """Critical sections that ran, and the explanation of a lock that is never free."""
    mutex, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    try:
        module["demo_a"][BLOCKS, THREADS](mutex, count)
    except DeadlockError as error:
        return 0, str(error).splitlines()[0]
    return int(count[0]), ""


def assertions(module: Module) -> int:
    """Threads whose assertion fired next to a barrier in divergent code."""
    sound, fired = np.ones(1, np.int32), np.zeros(1, np.int32)
    module["demo_b"][1, THREADS](sound, fired)
    return int(fired[0])


def aggregated(module: Module, lanes: int) -> bool:
    """Whether the threads received distinct consecutive numbers."""
    total, given = np.zeros(1, np.int32), np.full(BLOCKS * THREADS, -1, np.int32)
    module["demo_d"][BLOCKS, THREADS](total, given, np.int32(lanes))
    count = BLOCKS * THREADS // 32 * lanes
    return int(total[0]) == count and sorted(given[given >= 0].tolist()) == list(range(count))


def groups(module: Module) -> int:
    """Groups in which a warp's threads run a body, each in its own turn."""
    found = np.zeros(1, np.int32)
    module["demo_c"][1, 32](found, np.arange(32, dtype=np.int32))
    return int(found[0])


@study("volta-demos", f"{PAPER}, demo_A to demo_D")
def demonstrations(step: Step) -> Result:
    """Spin lock and barrier in divergent code, convergence, aggregation by a coalesced group."""
    found, cells = Result(), []
    for chip in CHIPS:
        module = GPU(chip, timing="full").compile(SOURCE)
        step(f"{chip}, spin lock")
        sections, why = spin_lock(module)
        cells.append(Cell("A: critical sections", chip, sections, BLOCKS * THREADS if chip == "v100" else 0, 0.0, True))
        if why:
            found.remarks.append(f"demo A on {chip}: {why}")
        step(f"{chip}, barrier")
        fired = assertions(module)
        if chip == "v100":
            cells.append(Cell("B: assertions that fire", chip, fired, 0, 0.0, True))
        else:
            found.remarks.append(f"demo B on {chip}, where the assertion may fire: it fires in {fired} threads.")
        step(f"{chip}, aggregation")
        right = all(aggregated(module, lanes) for lanes in (1, 7, 32))
        cells.append(Cell("D: numbers are right", chip, int(right), 1, 0.0, True))
        found.remarks.append(
            f"demo C on {chip}: the body runs in {groups(module)} groups of a warp; the article says that Volta may run fewer, which is its compiler's choice."
        )
    found.tables.append(Table("Demonstrations", "count", cells))
    return found
