"""Machine code of functions that the driver provides to the device runtime: the barriers of a grid and of the grids of several devices.

CUDA C++ implements the grid barrier in a header; other languages (Numba's ``this_grid().sync()``), CUDA before 11 and ``multi_grid_group`` call
``cudaCGSynchronize``, ``cudaCGGetRank`` and ``cudaCGGetSize`` of libcudadevrt, which call the driver (names, arguments and flags are those of CUDA 12.9's
libcudadevrt; 11.2's calls the same function).  In the grid barrier here, as in the header's, each block adds to a word of the launch's workspace; the first block adds as much as makes the
highest bit change when all have arrived. Every thread fences before its block's barrier, and the first one after its wait, which reproduces the time of the driver's routine on an H200
(``bench/machine/barriers.py``, ``bench/machine/fences_among_polls.py``); a grid alone on its device needs no system-wide fence, even if it requests the barrier of several grids.

NVIDIA does not publish the barrier of several grids.  Its structure follows from published times: two P100s need twice the time of a grid barrier on one plus
3.7 microseconds, and at most 9 % more with any number of blocks and threads (Tables 8 and 9 of "A Study of Synchronization Methods in Modern GPUs").  Therefore
each grid synchronises; its first block then synchronises with those of the other devices while the other blocks wait in a second grid barrier, which the first
block joins last. The first blocks synchronise along a tree of devices that can access each other's memory, by storing the round's number: a child stores it
into its parent's workspace, and the parent into the child's when all have arrived. Each device polls only its own memory, so PCI Express, which does not carry
atomics, suffices. The words that the blocks poll share a line with nothing else.
``engine/multi_grid.py`` initialises the workspaces.
"""

from __future__ import annotations

from functools import cache

from warpwright.toolchain.compile import compile_source
from warpwright.toolchain.cubin import Module

SYNC = "__cuda_syscall_CGS_sync"
LIBRARY_CALLS = {
    "cudaCGGetIntrinsicHandle": "__cuda_syscall_CGS_get_intrinsic_handle",
    "cudaCGGetRank": "__cuda_syscall_CGS_get_rank",
    "cudaCGGetSize": "__cuda_syscall_CGS_get_size",
    "cudaCGSynchronize": SYNC,
}
"""Functions of libcudadevrt, each with the driver's function that has its arguments and its meaning: code that was not linked with the library calls that one."""
ROUTINES = tuple(LIBRARY_CALLS.values())
ARRIVED, GRIDS, RANK, CHILD_COUNT, IN_PARENT, MET, RELEASED, COME, IN_CHILD = 4, 128, 132, 136, 144, 256, 384, 512, 640
"""Byte offsets in the workspace of a launch on several devices, as in the structure below; the workspace of a launch on one device ends before ``MET``."""
GRIDS_WORKSPACE_BYTES = 768
MOST_CHILDREN = 16
_SOURCE = r"""
struct Workspace {
    unsigned size, arrived;            // the grid's barrier
    unsigned polled[30];               // nothing else is read from the line that all blocks poll
    unsigned grids, rank, child_count, none;
    unsigned *in_parent;               // this grid's word of its parent's `come`; null at the root
    unsigned to_the_next_line[26];
    unsigned met, alone[31];           // this grid's part of the barrier of all grids
    unsigned released, alone_too[31];  // the last round that the parent has released
    unsigned come[16], also_alone[16];  // the last round that each child has come to
    unsigned *in_child[16];            // each child's `released`
};

static __device__ __forceinline__ unsigned look(const unsigned *word) { return *(const volatile unsigned *)word; }
static __device__ __forceinline__ void put(unsigned *word, unsigned value) { *(volatile unsigned *)word = value; }
static __device__ __forceinline__ unsigned blocks_of_grid() { return gridDim.x * gridDim.y * gridDim.z; }
static __device__ __forceinline__ unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }

// Four children are polled at a time.
static __device__ __forceinline__ void wait_for_children(const unsigned *come, unsigned count, unsigned round) {
    for (unsigned done = 0; done < count; done += 4) {
        unsigned a, b, c, d, left = count - done;
        do
            asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(come + done) : "memory");
        while (a != round || (left > 1 && b != round) || (left > 2 && c != round) || (left > 3 && d != round));
    }
}

static __device__ __forceinline__ void meet_other_grids(Workspace *own) {
    unsigned round = look(&own->released) + 1;
    wait_for_children(own->come, own->child_count, round);
    __threadfence_system();
    if (own->in_parent) {
        put(own->in_parent, round);
        while (look(&own->released) != round) {}
        __threadfence_system();
    }
    for (unsigned child = 0; child < own->child_count; child++)
        put(own->in_child[child], round);
    if (!own->in_parent)
        put(&own->released, round);
}

// Scopes: 1 the grid, 2 the grids of several devices, whose handle is odd.
extern "C" __device__ unsigned long long __cuda_syscall_CGS_get_intrinsic_handle(unsigned scope) {
    unsigned high, low;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    unsigned long long workspace = (unsigned long long)high << 32 | low;
    if (scope == 1)
        return workspace;
    return scope == 2 && workspace && ((Workspace *)workspace)->grids ? workspace + 1 : 0;
}

extern "C" __device__ unsigned __cuda_syscall_CGS_get_size(unsigned *threads, unsigned *grids, unsigned long long handle) {
    if (!handle)
        return 1;
    unsigned count = handle & 1 ? ((Workspace *)(handle - 1))->grids : 1;
    if (threads)
        *threads = count * blocks_of_grid() * threads_of_block();
    if (grids)
        *grids = count;
    return 0;
}

extern "C" __device__ unsigned __cuda_syscall_CGS_get_rank(unsigned *thread, unsigned *grid, unsigned long long handle) {
    if (!handle)
        return 1;
    unsigned rank = handle & 1 ? ((Workspace *)(handle - 1))->rank : 0;
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned within = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    if (thread)
        *thread = (rank * blocks_of_grid() + block) * threads_of_block() + within;
    if (grid)
        *grid = rank;
    return 0;
}

// Wait until the bit is not what it was, and see what the others wrote before: with a fence, as in the header of CUDA 11 and, judged by its time on an H200, in the driver's routine
// (bench.machine.fences_among_polls, parts "alf"), or by loads with that order.
static __device__ __forceinline__ void await(const unsigned *word, unsigned before) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 900
    unsigned now;
    do
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    while (((before ^ now) & 0x80000000u) == 0);
#else
    while (((before ^ look(word)) & 0x80000000u) == 0) {}
    __threadfence();
#endif
}

// The driver's routine keeps registers on its stack, which its fences then wait for: four words for each thread on Hopper (bench.machine.barriers), where this one's compiler saves what the
// caller may use. For Volta it gets by with fewer registers, but published barriers of V100 grow with the warps, as with two words.
static __device__ __forceinline__ void save_registers(unsigned stack) {
#if __CUDA_ARCH__ >= 700 && __CUDA_ARCH__ < 800
    for (unsigned word = 0; word < 2; word++)
        asm volatile("st.local.u32 [%0], %1;" :: "r"(stack + 4 * word), "r"(word) : "memory");
#endif
}
static __device__ __forceinline__ void restore_registers(unsigned stack) {
#if __CUDA_ARCH__ >= 700 && __CUDA_ARCH__ < 800
    unsigned restored;
    for (unsigned word = 0; word < 2; word++)
        asm volatile("ld.local.u32 %0, [%1];" : "=r"(restored) : "r"(stack + 4 * word) : "memory");
#endif
}

static __device__ __forceinline__ bool first_thread() { return threadIdx.x + threadIdx.y + threadIdx.z == 0; }
static __device__ __forceinline__ bool first_block() { return blockIdx.x + blockIdx.y + blockIdx.z == 0; }

static __device__ __forceinline__ void meet_grid(unsigned *word) {
    unsigned before = atomicAdd(word, first_block() ? 0x80000000u - (blocks_of_grid() - 1) : 1u);
    await(word, before);
}

// Flag 1: one thread of each block calls, between barriers of its block.
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(unsigned long long handle, unsigned flags) {
    if (!handle)
        return 1;
    unsigned words[4], stack = (unsigned)__cvta_generic_to_local(words);
    save_registers(stack);
    Workspace *own = (Workspace *)(handle & ~1ull);
    bool several = handle & 1 && own->grids > 1, all_threads = !(flags & 1);
#if __CUDA_ARCH__ >= 900
    // In as few instructions as the driver's routine for one grid.
    if (!several && all_threads) {
        __threadfence();
        __syncthreads();
        if (first_thread())
            meet_grid(&own->arrived);
        __syncthreads();
        return 0;
    }
#endif
    if (several)
        __threadfence_system();
    else
        __threadfence();
    if (all_threads)
        __syncthreads();
    if (!all_threads || first_thread()) {
        meet_grid(several ? &own->met : &own->arrived);
        if (several && first_block())
            meet_other_grids(own);
    }
    if (all_threads)
        __syncthreads();
    if (several) {
        __threadfence();
        if (all_threads)
            __syncthreads();
        if (!all_threads || first_thread())
            meet_grid(&own->met);
        if (all_threads)
            __syncthreads();
    }
    restore_registers(stack);
    return 0;
}
"""
_REGISTERS = 24
"""Resources of the smallest kernel that calls functions."""


@cache
def routines(arch: int) -> Module:
    """The functions' relocatable machine code, one section ``.text.NAME`` each.

    Args:
        arch: 70, 80, 90 …
    """
    compiled = compile_source(
        _SOURCE, arch, options=["-rdc=true", f"-maxrregcount={_REGISTERS}"], name="device_runtime"
    )
    return compiled.module
