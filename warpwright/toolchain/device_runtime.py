"""Machine code of functions that the driver provides to the device runtime: the barrier of a whole grid.

CUDA C++ has this barrier in a header; other languages (Numba's ``this_grid().sync()``) call ``cudaCGSynchronize`` of
libcudadevrt, which leaves it to the driver.  The barrier here is the header's: the blocks add to a word of the launch's
workspace, the first one so much that the highest bit changes when all have come.
"""

from __future__ import annotations

from functools import cache

from warpwright.toolchain.compile import compile_source
from warpwright.toolchain.cubin import Module

ROUTINES = ("__cuda_syscall_CGS_get_intrinsic_handle", "__cuda_syscall_CGS_sync")
_SOURCE = r"""
// Scopes: 1 the grid, 2 the grids of several devices, of which there are none.
extern "C" __device__ void *__cuda_syscall_CGS_get_intrinsic_handle(unsigned scope) {
    unsigned high, low;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    return scope == 1 ? (void *)((unsigned long long)high << 32 | low) : nullptr;
}
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(void *workspace, unsigned flags) {
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        unsigned *arrived = (unsigned *)workspace + 1;
        unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
        __threadfence();
        unsigned before = atomicAdd(arrived, first ? 0x80000000u - (blocks - 1) : 1u);
        while (((before ^ *(volatile unsigned *)arrived) & 0x80000000u) == 0) {}
        __threadfence();
    }
    __syncthreads();
    return 0;
}
"""
_REGISTERS = 24
"""What the smallest kernel that calls functions has."""


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
