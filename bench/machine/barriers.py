"""Barriers of a warp, a block, a grid and several grids: the driver's routines and candidates for their protocol.

On the card: ``python -m bench.machine.barriers --cubins FOLDER --out FILE``.  ``python -m bench.machine.barriers --build FOLDER`` makes the cubins.

``this_grid().sync()`` of CUDA before 11, of Numba, and ``multi_grid_group`` call a routine of the driver, whose code is not published.  It is timed here from outside: by
blocks of an SM and threads of a block, beside kernels of known protocols.  A protocol is five letters:

====== =====================================================================
place  choices
====== =====================================================================
scope  of its fences: ``g`` the GPU, ``s`` the system
before fences before the block's first barrier: ``-`` none, ``a`` all threads; after it: ``l`` the first thread
look   ``v`` volatile loads, ``x`` additions of nothing, ``f`` volatile loads with a fence each
who    looks: ``l`` the first thread of a block between its barriers, ``a`` every thread
after  fences after the wait: ``-`` none, ``l`` the first thread, ``a`` all threads
====== =====================================================================
"""

from __future__ import annotations

import ctypes
import itertools
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, CardModule, smi
from bench.machine.card_program import cubins_parser

SHAPES = [(b, t) for b in (0, 1, 2, 4, 8, 16, 32) for t in (32, 64, 128, 256, 512, 1024) if b * t <= 2048]
"""Blocks per SM (0: a single block in all) and threads per block."""
CALLED = [
    f"{scope}{places}"
    for scope in ("g", "s", "m")
    for places in ("ll", "al", "la", "aa", "bl", "bc", "bb", "ba", "bd", "ac")
]
"""Protocols of a function that is called, keeps registers on its stack and counts threads as a general one does: the scope of its fences (``m``: the first the GPU's, the second
the system's) and where they are.  First fence: ``l`` the first thread's after the first barrier, ``a`` all threads' before it, ``b`` all threads' after it.  Second: ``l`` the first
thread's, ``a`` all threads' after the last barrier, ``b`` all threads' before it, ``c`` none, ``d`` the first thread's and all threads' after the last barrier."""
REPEATS = (8, 40)
TURNS = 3
PROTOCOLS = ["".join(letters) for letters in itertools.product("gs", "-la", "vxf", "la", "-la")]
_HEAD = """
template <char SCOPE> __device__ __forceinline__ void fence() { if (SCOPE == 'g') __threadfence(); else __threadfence_system(); }

template <char SCOPE, char BEFORE, char LOOK, char WHO, char AFTER>
__device__ __forceinline__ void barriers(unsigned *word, unsigned *cycles, int repeats)
{
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++) {
        unsigned before = WHO == 'a' ? *(volatile unsigned *)word : 0;
        if (BEFORE == 'a')
            fence<SCOPE>();
        __syncthreads();
        bool first = threadIdx.x == 0;
        if (first) {
            unsigned mine = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
            if (BEFORE == 'l')
                fence<SCOPE>();
            unsigned old = atomicAdd(word, mine);
            if (WHO == 'l')
                before = old;
        }
        if (WHO == 'a' || first) {
            unsigned now;
            do {
                now = LOOK == 'x' ? atomicAdd(word, 0) : *(volatile unsigned *)word;
                if (LOOK == 'f')
                    fence<SCOPE>();
            } while (((before ^ now) & 0x80000000u) == 0);
            if (AFTER == 'l' && first)
                fence<SCOPE>();
        }
        __syncthreads();
        if (AFTER == 'a')
            fence<SCOPE>();
    }
    unsigned end = clock();
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *cycles = end - begin;
}
"""
_CALLED = """
struct Workspace { unsigned size, arrived; };
template <char SCOPE> __device__ __forceinline__ void first_fence() { if (SCOPE == 's') __threadfence_system(); else __threadfence(); }
template <char SCOPE> __device__ __forceinline__ void second_fence() { if (SCOPE == 'g') __threadfence(); else __threadfence_system(); }

template <char SCOPE, char FIRST, char SECOND>
__device__ __noinline__ unsigned called(unsigned long long handle, unsigned flags)
{
    volatile unsigned frame[4];
    frame[0] = threadIdx.x; frame[1] = threadIdx.y; frame[2] = threadIdx.z; frame[3] = flags;
    if (!handle)
        return 1;
    Workspace *own = (Workspace *)(handle & ~1ull);
    bool all = !(flags & 1);
    if (FIRST == 'a')
        first_fence<SCOPE>();
    if (all)
        __syncthreads();
    if (FIRST == 'b')
        first_fence<SCOPE>();
    if (!all || threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        unsigned mine = blockIdx.x + blockIdx.y + blockIdx.z == 0 ? 0x80000000u - (blocks - 1) : 1;
        if (FIRST == 'l')
            first_fence<SCOPE>();
        unsigned before = atomicAdd(&own->arrived, mine);
        while (((before ^ *(volatile unsigned *)&own->arrived) & 0x80000000u) == 0) {}
        if (SECOND == 'l' || SECOND == 'd')
            second_fence<SCOPE>();
    }
    if (SECOND == 'b')
        second_fence<SCOPE>();
    if (all)
        __syncthreads();
    if (SECOND == 'a' || SECOND == 'd')
        second_fence<SCOPE>();
    return frame[0] + frame[1] + frame[2] == 0xffffffffu;
}

template <char SCOPE, char FIRST, char SECOND>
__device__ __forceinline__ void calls(unsigned *word, unsigned *cycles, int repeats)
{
    unsigned begin = clock(), failed = 0;
#pragma unroll 1
    for (int i = 0; i < repeats; i++)
        failed += called<SCOPE, FIRST, SECOND>((unsigned long long)word, 0);
    unsigned end = clock();
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *cycles = end - begin + failed;
}
"""
_DRIVER = """
typedef unsigned long long Handle;
extern "C" __device__ Handle __cuda_syscall_CGS_get_intrinsic_handle(unsigned scope);
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(Handle handle, unsigned flags);
template <int SCOPE> __device__ __forceinline__ void barriers(unsigned *cycles, int repeats)
{
    Handle all = __cuda_syscall_CGS_get_intrinsic_handle(SCOPE);
    unsigned begin = clock();
#pragma unroll 1
    for (int i = 0; i < repeats; i++)
        __cuda_syscall_CGS_sync(all, 0);
    unsigned end = clock();
    if (threadIdx.x == 0 && blockIdx.x == 0)
        *cycles = end - begin;
}
extern "C" __global__ void grid(unsigned *word, unsigned *cycles, int repeats) { barriers<1>(cycles, repeats); }
extern "C" __global__ void grids(unsigned *word, unsigned *cycles, int repeats) { barriers<2>(cycles, repeats); }
"""


def name_of(protocol: str) -> str:
    """The kernel of a protocol."""
    return "grid_" + protocol.replace("-", "n")


def source() -> str:
    """CUDA C++ of the kernels of all protocols."""
    kernels = []
    for protocol in PROTOCOLS:
        letters = ", ".join(f"'{letter}'" for letter in protocol)
        kernels.append(
            f'extern "C" __global__ void {name_of(protocol)}(unsigned *word, unsigned *cycles, int repeats) {{ barriers<{letters}>(word, cycles, repeats); }}'
        )
    for protocol in CALLED:
        letters = ", ".join(f"'{letter}'" for letter in protocol)
        kernels.append(
            f'extern "C" __global__ void {name_of(protocol)}(unsigned *word, unsigned *cycles, int repeats) {{ calls<{letters}>(word, cycles, repeats); }}'
        )
    return _HEAD + _CALLED + "\n".join(kernels)


_OPTIONS = ["-maxrregcount=32"]


def driver_cubin(arch: int) -> bytes:
    """Kernels ``grid`` and ``grids``, which call the driver's routine."""
    from warpwright.toolchain import InputKind, compile_source, link

    separate = compile_source(_DRIVER, arch, options=["-rdc=true", *_OPTIONS]).cubin
    return link([(InputKind.CUBIN, separate, "driver.cubin")], arch).cubin


def build(folder: Path, arch: int) -> None:
    """Make the cubins."""
    from warpwright.toolchain import compile_source

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "protocols.cubin").write_bytes(compile_source(source(), arch, options=_OPTIONS).cubin)
    (folder / "driver.cubin").write_bytes(driver_cubin(arch))


class Barriers:
    """Cooperative launches on the first device."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.words = card.alloc(4096)
        self.words.zero()
        self.stream = ctypes.c_void_p()
        card.call("cuStreamCreate", ctypes.byref(self.stream), ctypes.c_uint(1))
        self.sm_count = int(card.describe()["sm_count"])

    def cycles(self, module: CardModule, kernel: str, blocks: int, threads: int, repeats: int, several: bool) -> int:
        """Cycles of the first block's first thread around `repeats` barriers."""
        cells = (ctypes.c_uint64(self.words.address), ctypes.c_uint64(self.words.address + 512), ctypes.c_int(repeats))
        parameters = (ctypes.c_void_p * 3)(*[ctypes.addressof(cell) for cell in cells])
        function = module.function(kernel)
        if several:
            packed = struct.pack("<Q7I4xQQ", function.value, blocks, 1, 1, threads, 1, 1, 0, self.stream.value,
                                 ctypes.addressof(parameters))  # fmt: skip
            self.card.call(
                "cuLaunchCooperativeKernelMultiDevice", ctypes.c_char_p(packed), ctypes.c_uint(1), ctypes.c_uint(0)
            )
        else:
            dims = [ctypes.c_uint(v) for v in (blocks, 1, 1, threads, 1, 1, 0)]
            self.card.call("cuLaunchCooperativeKernel", function, *dims, self.stream, parameters)
        self.card.call("cuStreamSynchronize", self.stream)
        return int(self.words.read(np.uint32, 1, 512)[0])

    def row(self, module: CardModule, kernel: str, several: bool = False) -> list[float]:
        """Cycles of one more barrier by ``SHAPES``: the median of turns."""
        found = []
        for per_sm, threads in SHAPES:
            blocks = per_sm * self.sm_count or 1
            each = []
            for _ in range(TURNS):
                few, many = (self.cycles(module, kernel, blocks, threads, r, several) for r in REPEATS)
                each.append((many - few) / (REPEATS[1] - REPEATS[0]))
            found.append(float(np.median(each)))
        return found


def measure(card: Card, cubins: Path, only: Sequence[str] | None = None) -> Iterator[tuple[str, list[float]]]:
    """Rows by name."""
    barriers = Barriers(card)
    driver = card.load((cubins / "driver.cubin").read_bytes())
    yield "driver, grid", barriers.row(driver, "grid")
    try:
        yield "driver, grids", barriers.row(driver, "grids", True)
    except Exception as error:  # the driver may have left the call out
        print(error, flush=True)
    protocols = card.load((cubins / "protocols.cubin").read_bytes())
    for protocol in only or (*CALLED, *PROTOCOLS):
        yield protocol, barriers.row(protocols, name_of(protocol))


def distance(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Median and largest relative difference."""
    differences = np.abs(np.array(ours) / np.array(theirs) - 1)
    return float(np.median(differences)), float(differences.max())


def main() -> None:
    parser = cubins_parser(__doc__)
    parser.add_argument("--only", nargs="+", help="protocols")
    options = parser.parse_args()
    if options.build:
        build(options.build, options.arch)
        return
    card = Card()
    found: dict[str, Any] = {"shapes": SHAPES, "rows": {}, **card.describe()}
    for name, row in measure(card, options.cubins, options.only):
        found["rows"][name] = row
        print(name, " ".join(f"{value:.0f}" for value in row), flush=True)
        if options.out:
            options.out.write_text(json.dumps(found))
    found["after"] = smi()
    for of in ("driver, grid", "driver, grids"):
        if of in found["rows"]:
            near = sorted(
                (distance(found["rows"][p], found["rows"][of]), p) for p in (*CALLED, *PROTOCOLS) if p in found["rows"]
            )
            print(of, "is nearest to", near[:8])
    if options.out:
        options.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
