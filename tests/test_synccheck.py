"""Barriers that not all threads come to: threads that go round one, and masks that lack who comes."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.tools.checks.warp_syncs import barrier_site

SOURCE = r"""
extern "C" __global__ void some_go_round(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    for (int b = 0; b < 4; b++) {
        if (64 * b + t < n) {
            s[t] += in[64 * b + t];
            __syncthreads();  // round
        }
    }
    if (t == 0) for (int i = 0; i < 64; i++) *out += s[i];
}
extern "C" __global__ void none_goes_round(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    for (int b = 0; b < 4; b++) {
        if (64 * b + t < n) s[t] += in[64 * b + t];
        __syncthreads();
    }
    if (t == 0) for (int i = 0; i < 64; i++) *out += s[i];
}
extern "C" __global__ void some_return(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = in[t];
    __syncthreads();
    out[t] = s[n - 1 - t];
}
extern "C" __global__ void leaves_the_loop(const int *in, int n, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int i = t; i < n; i += 64) {
        s[t] = in[i];
        __syncthreads();  // loop
    }
    out[t] = s[t];
}
extern "C" __global__ void lacks_one(int last, int *out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    unsigned mask = __ballot_sync(0xffffffff, t < 16);
    if (t <= last) {
        s[t] = t;
        __syncwarp(mask);  // mask
        if (t == 0) for (int i = 0; i < 16; i++) *out += s[i];
    }
    __syncthreads();
}
extern "C" __global__ void shuffles(int last, unsigned mask, int *out) {
    int t = threadIdx.x;
    if (t <= last) out[t] = __shfl_xor_sync(mask, t, 1);
}
"""
CHIPS = pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
IN, OUT = np.arange(256, dtype=np.int32), np.zeros(64, np.int32)


def checked(chip: str) -> tuple[ww.GPU, ww.Module]:
    gpu = ww.GPU(chip, check="synccheck")
    return gpu, gpu.compile(SOURCE, name="sync.cu")


def line(mark: str) -> str:
    return f"sync.cu:{SOURCE[: SOURCE.index('// ' + mark)].count(chr(10)) + 1}:"


@CHIPS
def test_threads_that_end_behind_a_barrier_that_they_went_round(chip: str) -> None:
    gpu, module = checked(chip)
    module["some_go_round"][1, 64](IN, 240, OUT)
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Divergent thread(s) in warp."
    (place,) = finding.places
    assert place.line.startswith(line("round"))
    assert place.thread == (48, 0, 0)
    assert finding.details[0].startswith("16 thread(s) of the warp did not come with the others")


@CHIPS
def test_a_whole_warp_goes_round(chip: str) -> None:
    gpu, module = checked(chip)
    module["some_go_round"][1, 64](IN, 224, OUT)
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Divergent thread(s) in block."
    assert finding.places[0].line.startswith(line("round"))
    assert finding.places[0].thread == (32, 0, 0)
    gpu.findings.clear()
    module["leaves_the_loop"][1, 64](IN, 224, OUT)
    (finding,) = gpu.findings
    assert finding.places[0].line.startswith(line("loop"))


@CHIPS
def test_barriers_that_are_met_as_they_should_be(chip: str) -> None:
    gpu, module = checked(chip)
    for n in (224, 240, 256):
        module["none_goes_round"][1, 64](IN, n, OUT)
    module["some_go_round"][1, 64](IN, 256, OUT)
    module["leaves_the_loop"][1, 64](IN, 256, OUT)
    for n in (20, 32, 40, 64):
        module["some_return"][1, 64](IN, n, OUT)
    assert not gpu.findings


@CHIPS
def test_a_mask_that_lacks_a_thread(chip: str) -> None:
    gpu, module = checked(chip)
    module["lacks_one"][1, 32](15, OUT)
    module["shuffles"][1, 32](15, 0xFFFF, OUT)
    assert not gpu.findings
    module["lacks_one"][1, 32](16, OUT)
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Invalid arguments."
    assert finding.places[0].line.startswith(line("mask"))
    assert finding.places[0].thread == (16, 0, 0)


MISSING = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void
KERNEL partial_sums(const int *in, int *out) {
    __shared__ int part[8][32][8];
    int d = threadIdx.x, c = threadIdx.y, b = threadIdx.z;
    for (int k = 0; k < 8; k++) part[k][b][c] = in[(k * 32 + b) * 8 + c & 255];
    __syncthreads();
    for (int k = b; k < 8; k += blockDim.z) {
        int sum = 0;
        for (int r = d; r < blockDim.z; r += 4) {
            int v = part[k][r][c];
            v += __shfl_down_sync(0xffffffff, v, 1, 4);  // partial_sums
            v += __shfl_down_sync(0xffffffff, v, 2, 4);
            sum += v;
        }
        if (d == 0) out[c * 8 + k] = sum;
    }
}
KERNEL half_shuffle(const int *in, int *out) {
    int t = threadIdx.x, v = t;
    if (t < 16)
        v = __shfl_xor_sync(~0u, v, 1);  // half_shuffle
    out[t] = v;
}
KERNEL half_vote(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    if (v > 3)
        v = __any_sync(~0u, v > 5);  // half_vote
    out[t] = v;
}
KERNEL half_ballot(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    if (v > 3)
        v = __ballot_sync(~0u, v > 5) * in[t + 32];  // half_ballot
    out[t] = v;
}
KERNEL half_tile(const int *in, int *out) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int t = threadIdx.x, v = in[t];
    if (v > 3)
        v = warp.shfl_xor(v, 1);  // half_tile
    out[t] = v;
}
KERNEL leaves_early(const int *in, int *out) {
    int t = threadIdx.x, v = t;
    for (int i = 0; i <= in[t] >> 3; i++)
        v += __shfl_down_sync(~0u, v, 1);  // leaves_early
    out[t] = v;
}
KERNEL half_small_tile(const int *in, int *out) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int t = threadIdx.x, v = in[t];
    if (v > 3)
        v = tile.shfl_xor(v, 1);  // half_small_tile
    out[t] = v;
}
KERNEL half_syncwarp(const int *in, int *out) {
    __shared__ int s[32];
    int t = threadIdx.x, v = in[t];
    s[t] = v;
    if (v > 3) {
        __syncwarp();  // half_syncwarp
        v = s[t ^ 1];
    }
    out[t] = v;
}
KERNEL two_places(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    if (v > 3)
        v = __shfl_xor_sync(~0u, v, 1);
    else
        v = __shfl_xor_sync(~0u, v + 2, 1) * in[t + 32];  // two_places
    out[t] = v;
}
KERNEL returns(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    if (v < 4) return;
    out[t] = __shfl_xor_sync(~0u, v, 1);
}
KERNEL return_in_turn(const int *in, int *out) {
    int t = threadIdx.x, v = in[t] >> 2;
    for (int k = 0; k < 40; k++) {
        if (k & in[0]) v += __shfl_xor_sync(~0u, v, 1);
        out[t] = v;
        if (v < k) return;
        if (k % 3 == in[0]) v += __popc(__ballot_sync(~0u, v > 5));
    }
    out[t] = -v;
}
KERNEL some_meet(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    for (int k = 0; k < 9; k++) {
        unsigned mask = __ballot_sync(~0u, v > k);
        if (v > k) v += __shfl_sync(mask, v, __ffs(mask) - 1);
        out[t] = v;
    }
}
KERNEL whole_turns(const int *in, int *out) {
    int t = threadIdx.x, v = in[t];
    for (int i = t; i < 32 * in[1]; i += 32) v += __shfl_down_sync(~0u, v, 1);
    for (int offset = 16; offset; offset /= 2) v += __shfl_xor_sync(~0u, v, offset);
    if (v > 1000) out[t] = v;
    __syncwarp();
    out[t ^ 1] = v;
}
"""
FOUR_CHIPS = pytest.mark.parametrize(
    "chip", [pytest.param("p100", marks=pytest.mark.ci), pytest.param("v100", marks=pytest.mark.ci), "a100", "h200"]
)
MASKS_NEEDED = ("half_small_tile", "half_syncwarp")
"""Whose mask, or whose instruction, machine code of sm_60 does not have."""
IN_ONE_PLACE = ("two_places",)
"""What chips before sm_70 cannot do: lanes meet at one instruction only."""


def missing_line(name: str) -> str:
    return f"missing.cu:{MISSING[: MISSING.index('// ' + name)].count(chr(10)) + 1}:"


@pytest.mark.ci
@FOUR_CHIPS
def test_lanes_that_the_mask_names_went_round(chip: str) -> None:
    gpu = ww.GPU(chip, check="synccheck")
    module = gpu.compile(MISSING, name="missing.cu")
    into = np.zeros(256, np.int32)
    for name in (
        *("half_shuffle", "half_vote", "half_ballot", "half_tile", "leaves_early"),
        *(MASKS_NEEDED if chip != "p100" else IN_ONE_PLACE),
    ):
        module[name][1, 32](IN, into)
        assert [f.title for f in gpu.findings] == ["Barrier error detected. Divergent thread(s) in warp."], name
        (finding,) = gpu.findings
        assert finding.places[0].line.startswith(missing_line(name))
        assert "named by the mask went around it" in finding.details[0]
        gpu.findings.clear()


@pytest.mark.ci
@FOUR_CHIPS
def test_a_block_too_small_for_its_loop(chip: str) -> None:
    """Two-dimensional blocks: of four threads in a row as many take the loop as there are layers."""
    gpu = ww.GPU(chip, check="synccheck")
    module = gpu.compile(MISSING, name="missing.cu")
    for layers, missing in ((1, 24), (2, 16), (3, 8), (4, 0), (8, 0)):
        module["partial_sums"][1, (4, 8, layers)](IN, OUT)
        if missing:
            (finding,) = gpu.findings
            assert finding.places[0].line.startswith(missing_line("partial_sums"))
            assert finding.places[0].thread == (layers, 0, 0)
            assert finding.details[0].startswith(f"{missing} thread(s) named by the mask went around it")
        else:
            assert not gpu.findings
        gpu.findings.clear()


@pytest.mark.ci
@FOUR_CHIPS
def test_lanes_that_no_mask_misses(chip: str) -> None:
    """Threads that have ended, that are not named, and from sm_70 on those that meet at another place with the same mask."""
    gpu = ww.GPU(chip, check="synccheck")
    module = gpu.compile(MISSING, name="missing.cu")
    right = ["returns", "return_in_turn", "some_meet", "whole_turns"]
    for name in right + list(IN_ONE_PLACE if chip != "p100" else ()):
        for threads in (32, 20):
            module[name][2, threads](IN, np.zeros(256, np.int32))
            assert not gpu.findings, name


TWO_INSTRUCTIONS = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry apart(.param .u64 out)
{
    .reg .pred %p;
    .reg .u32 %t;
    .reg .u64 %d;
    ld.param.u64 %d, [out];
    mov.u32 %t, %tid.x;
    setp.ge.u32 %p, %t, 32;
    @%p bra others;
    bar.sync 0;
    st.global.u32 [%d], %t;
    ret;
others:
    bar.sync 0;
    ret;
}
"""


def test_one_barrier_may_be_several_instructions() -> None:
    """Compilers copy a barrier into the ways behind it; without lines of source nobody can tell that it was two."""
    gpu = ww.GPU("a100", timing="off", check="synccheck")
    gpu.compile(TWO_INSTRUCTIONS)["apart"][1, 64](np.zeros(1, np.int32))
    assert gpu.findings == []


GRID_BARRIERS = """
#include <cooperative_groups.h>
extern "C" __global__ void once() { cooperative_groups::this_grid().sync(); }
extern "C" __global__ void stored(int *out) {
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    cooperative_groups::this_grid().sync();
    out[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}
extern "C" __global__ void repeated(int *out) {
    auto grid = cooperative_groups::this_grid();
    for (int k = 0; k < 3; k++) {
        out[grid.thread_rank()] = k; grid.sync();
        out[grid.size() + grid.thread_rank()] = out[(grid.thread_rank() + 77) % grid.size()];
    }
}
extern "C" __global__ void parted(int *out) {
    if (threadIdx.x < 32) {
        __syncthreads();  // here
        out[threadIdx.x] = 1;
    } else {
        __syncthreads();  // there
    }
}
"""


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["p100", "v100", "a100", "h200"])
def test_a_grid_barrier_is_one_barrier(chip: str) -> None:
    """The compiler repeats the last barrier for warps that have not converged, with the number of the kernel's last line."""
    gpu = ww.GPU(chip, timing="off", check="synccheck")
    module = gpu.compile(GRID_BARRIERS, name="grid.cu")
    module["once"][4, 64]()
    module["stored"][4, 96](np.zeros(4 * 96, np.int32))
    module["repeated"][4, 128](np.zeros(2 * 4 * 128, np.int32))
    assert gpu.findings == []
    module["parted"][1, 64](np.zeros(32, np.int32))
    (finding,) = gpu.findings
    told = finding.places[0].line + finding.details[0]
    assert "// here" in told
    assert "// there" in told


def test_a_copy_of_a_barrier_belongs_to_the_branch_that_goes_there() -> None:
    """For sm_90, the compiler places them after the kernel's last instruction; in a module of many kernels, some get the line of the kernel's end."""
    kernel = ww.GPU("h200", timing="off").compile(GRID_BARRIERS, name="grid.cu")["repeated"]
    program = kernel._loaded.program
    opcodes = [instruction.opcode for instruction in program.instructions]
    end = opcodes.index("EXIT", opcodes.index("BAR"))
    copies = [n for n, opcode in enumerate(opcodes) if opcode == "BAR" and n > end]
    assert len(copies) == 5
    for copy in copies:
        site = barrier_site(program, copy)
        assert site is not None
        assert site < end
        assert "DIV" in program.instructions[site].modifiers or opcodes[site] == "BAR"
    assert len({barrier_site(program, copy) for copy in copies}) == len(copies)


TWO_IN_ONE_COPY = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void until_stopped(const int *x, int *y) {
    auto grid = cg::this_grid();
    int t = grid.thread_rank();
    volatile int *stop = y + 64;
    for (int i = 0; i < 4; i++) {
        if (t == 70 && i == 1) *stop = 1;
        if (x[t] % (i + 1) == 0) {
            auto group = cg::coalesced_threads();
            if (group.thread_rank() == 0) atomicAdd(y + i, group.size());
        }
        grid.sync();
        int end = *stop;
        grid.sync();
        if (end) break;
    }
}
"""


@pytest.mark.parametrize("chip", ["v100", "h200"])
def test_copies_of_two_barriers_behind_one_branch_are_not_divergent(chip: str) -> None:
    """For sm_90, the second barrier of the first ``grid.sync()`` and the first one of the second have copies in sequence for diverged warps."""
    gpu = ww.GPU(chip, timing="off", check="all")
    kernel = gpu.compile(TWO_IN_ONE_COPY, name="grid.cu")["until_stopped"]
    y = np.zeros(65, np.int32)
    kernel[2, 64](np.arange(128, dtype=np.int32), y)
    assert list(y[:4]) == [128, 64, 0, 0]
    assert gpu.findings == []
    if chip == "h200":
        program = kernel._loaded.program
        opcodes = [instruction.opcode for instruction in program.instructions]
        end = opcodes.index("EXIT", opcodes.index("BAR"))
        copies = [n for n, opcode in enumerate(opcodes) if opcode == "BAR" and n > end]
        sites = [barrier_site(program, copy) for copy in copies]
        assert len(set(sites)) == len(copies)
        assert "BAR" in {opcodes[site] for site in sites if site is not None}  # a second copy
