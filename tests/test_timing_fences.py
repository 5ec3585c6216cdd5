"""Fences with nothing to wait for, and the block's own shared memory in a cluster, as an H200 times them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from bench.device import Model
from bench.machine.system_fences import NOTHING, WORD, Fences, shape_of
from warpwright.toolchain import compile_source

SOURCE = r"""
template <int STORES> __device__ void fences(unsigned *out, unsigned *to) {
    __syncthreads();
    unsigned begin = clock();
    for (int i = 0; i < 16; ++i) {
        if (STORES == 1) to[threadIdx.x / 32 * 32] = i;
        if (STORES == 2 && threadIdx.x == 0) to[0] = i;
        __threadfence();
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = (clock() - begin) / 16;
}
extern "C" __global__ void idle(unsigned *out, unsigned *to) { fences<0>(out, to); }
extern "C" __global__ void storing(unsigned *out, unsigned *to) { fences<1>(out, to); }
extern "C" __global__ void storing_one(unsigned *out, unsigned *to) { fences<2>(out, to); }
template <int ADDS, int FENCE> __device__ void after_adds(unsigned *out, unsigned *to) {
    for (int i = 0; i < 2; ++i) {
        unsigned begin = clock();
        #pragma unroll
        for (int k = 0; k < ADDS; ++k) atomicAdd(to, 1u);
        if (FENCE) __threadfence();
        out[0] = clock() - begin;
    }
}
extern "C" __global__ void fence_alone(unsigned *out, unsigned *to) { after_adds<0, 1>(out, to); }
extern "C" __global__ void one_add(unsigned *out, unsigned *to) { after_adds<1, 0>(out, to); }
extern "C" __global__ void one_add_and_fence(unsigned *out, unsigned *to) { after_adds<1, 1>(out, to); }
extern "C" __global__ void many_adds(unsigned *out, unsigned *to) { after_adds<64, 0>(out, to); }
extern "C" __global__ void many_adds_and_fence(unsigned *out, unsigned *to) { after_adds<64, 1>(out, to); }
extern "C" __global__ void hand_on(unsigned *out, volatile unsigned *to) {
    if (blockIdx.x == 0) {
        for (int k = 0; k < 64; ++k) atomicAdd((unsigned *)to + k * 1024, 1u);
        __threadfence();
        to[1 << 17] = 1;
    } else {
        while (to[1 << 17] == 0) {}
        __threadfence();
        unsigned sum = 0;
        for (int k = 0; k < 64; ++k) sum += to[k * 1024];
        out[0] = sum;
    }
}
extern "C" __global__ void __cluster_dims__(4, 1, 1) own_words(unsigned *out) {
    __shared__ unsigned words[2][128];
    int t = threadIdx.x;
    words[0][t] = words[1][t] = t;
    __syncthreads();
    unsigned begin = clock();
    #pragma unroll 1
    for (int i = 0; i < 32; ++i) words[~i & 1][t + 1] = words[i & 1][t] + words[i & 1][t + 2];
    if (t == 0) out[blockIdx.x] = (clock() - begin) / 32;
}
"""


@pytest.fixture(scope="module")
def module() -> ww.Module:
    return ww.GPU("h200").compile(SOURCE)


def round_cycles(module: ww.Module, kernel: str, warps: int) -> int:
    out, to = np.zeros(1, np.uint32), np.zeros(1024, np.uint32)
    module[kernel][1, 32 * warps](out, to)
    return int(out[0])


def test_fences_without_stores_wait_for_no_group(module: ww.Module) -> None:
    """``fence_crews`` on an H200: 292, 316, 386 and 499 cycles a round by 1, 8, 16 and 32 warps; behind a store of each 418 and 975 by one and 16."""
    for warps, card in ((1, 292), (8, 316), (16, 386), (32, 499)):
        assert round_cycles(module, "idle", warps) == pytest.approx(card, rel=0.08)
    assert round_cycles(module, "storing", 16) > round_cycles(module, "storing", 1) + 100


@pytest.mark.parametrize(("warps", "card"), [(1, 418), (8, 447), (16, 489), (32, 623)])
def test_a_store_by_one_warp_makes_every_fence_of_the_sm_longer(module: ww.Module, warps: int, card: float) -> None:
    """``fence_one``: 124 to 131 cycles more than without it, whatever the warps."""
    assert round_cycles(module, "storing_one", warps) == pytest.approx(card, rel=0.08)


def test_own_shared_memory_is_as_near_in_every_block_of_a_cluster(module: ww.Module) -> None:
    out = np.zeros(4, np.uint32)
    module["own_words"][4, 96](out)
    assert len(set(out.tolist())) == 1
    assert out[0] < 100


@pytest.mark.parametrize("adds", ["one_add", "many_adds"])
def test_a_fence_waits_for_its_own_warps_atomics(module: ww.Module, adds: str) -> None:
    """Atomics without a result leave a warp at once; the fence after them waits until the last one is done at L2."""
    without, fenced = round_cycles(module, adds, 1), round_cycles(module, f"{adds}_and_fence", 1)
    assert fenced > without + 200
    assert round_cycles(module, "many_adds_and_fence", 1) > round_cycles(module, "one_add_and_fence", 1) + 64


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["p100", "v100", "h200"])
def test_what_a_warp_added_before_its_fence_is_seen_after_its_flag(chip: str) -> None:
    out, to = np.zeros(1, np.uint32), np.zeros((1 << 17) + 1, np.uint32)
    ww.GPU(chip, timing="full").compile(SOURCE.replace("__cluster_dims__(4, 1, 1)", ""))["hand_on"][2, 1](out, to)
    assert out[0] == 64


AMONG_POLLS = r"""
__device__ __forceinline__ unsigned poll(const unsigned *at) {
    unsigned value;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
    return value;
}
// A barrier of the grid without fences.
extern "C" __global__ void barriers(unsigned *word, int repeats) {
    for (int i = 0; i < repeats; ++i) {
        __syncthreads();
        if (threadIdx.x == 0) {
            unsigned old = atomicAdd(word, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1);
            while (((old ^ poll(word)) & 0x80000000u) == 0) {}
        }
        __syncthreads();
    }
}
// In each block, eight warps poll a word, `fencing` warps fence and one adds to the word; out: number of operations and cycles by role.
extern "C" __global__ void crowd(unsigned *word, unsigned *out, unsigned fencing, unsigned span) {
    unsigned warp = threadIdx.x / 32, role = warp < 8 ? 0 : warp < 8 + fencing ? 1 : 2, count = 0, begin = clock(), time = begin;
    if (threadIdx.x % 32)
        return;
    while (time - begin < span) {
        if (role == 0 && poll(word) == ~0u || role == 2 && atomicAdd(word, 1) == ~0u)
            __nanosleep(1);
        if (role == 1)
            __threadfence();
        time = clock();
        ++count;
    }
    atomicAdd(out + 2 * role, count);
    atomicAdd(out + 2 * role + 1, time - begin);
}
// Records when each warp's fence is over after one or four stores to the stack, in the last of some passes between block barriers.
// A clock that is read directly after a block barrier does not wait for it; one after a load does.
extern "C" __global__ void leave(unsigned *out, unsigned four) {
    __shared__ volatile unsigned gate;
    unsigned frame[4], at = (unsigned)__cvta_generic_to_local(frame), warp = threadIdx.x / 32, begin, stored, end;
    for (int i = 0; i < 4; ++i) {
        __syncthreads();
        gate;
        begin = clock();
        asm volatile("st.local.u32 [%0], %1;" :: "r"(at), "r"(i) : "memory");
        if (four) {
            asm volatile("st.local.u32 [%0+4], %1;" :: "r"(at), "r"(i) : "memory");
            asm volatile("st.local.u32 [%0+8], %1;" :: "r"(at), "r"(i) : "memory");
            asm volatile("st.local.u32 [%0+12], %1;" :: "r"(at), "r"(i) : "memory");
        }
        stored = clock();
        __threadfence();
        end = clock();
    }
    if (threadIdx.x % 32 == 0) {
        out[2 * warp] = begin;
        out[2 * warp + 1] = end + (stored == begin);
    }
}
// The second of two groups of four warps begins `lag` cycles after the first. Both fence: the first after a store, the second after one only if `stores`.
extern "C" __global__ void follow(unsigned *out, unsigned *words, unsigned lag, unsigned stores) {
    __shared__ volatile unsigned gate;
    unsigned warp = threadIdx.x / 32;
    for (int i = 0; i < 2; ++i) {
        __syncthreads();
        gate;
        unsigned begin = clock();
        if (warp >= 4)
            while (clock() - begin < lag) {}
        if (warp < 4 || stores)
            words[threadIdx.x + 1024 * warp] = i;
        __threadfence();
        out[warp] = clock() - begin;
    }
}
// Times a load from the stack after a fence, and one from global memory.
extern "C" __global__ void reload(unsigned *words, unsigned *out) {
    unsigned frame[4], at = (unsigned)__cvta_generic_to_local(frame), value, sum = 0;
    for (int i = 0; i < 4; ++i) {
        asm volatile("st.local.u32 [%0], %1;" :: "r"(at), "r"(i) : "memory");
        sum += *(const volatile float *)(words + 64) > 1;
        __threadfence();
        unsigned begin = clock();
        asm volatile("ld.local.u32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
        if (value > 99) __nanosleep(1);
        unsigned between = clock();
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(words) : "memory");
        if (value > 99) __nanosleep(1);
        out[0] = between - begin;
        out[1] = clock() - between + sum;
    }
}
"""


@pytest.fixture(scope="module")
def among_polls() -> ww.Module:
    return ww.GPU("h200").compile(AMONG_POLLS)


@pytest.mark.ci
def test_a_fence_leaves_the_stack_in_l1(among_polls: ww.Module) -> None:
    """bench.machine.stack_fences: a load from the stack takes 55 cycles with and without a fence before it; L1 forgets global lines."""
    out = np.zeros(2, np.uint32)
    among_polls["reload"][1, 32](np.zeros(128, np.uint32), out)
    assert out[0] < 70
    assert out[1] > 200


@pytest.mark.ci
@pytest.mark.parametrize(("per_sm", "card"), [(8, 5715), (16, 11420)])
def test_polls_leave_behind_their_additions(among_polls: ww.Module, per_sm: int, card: float) -> None:
    """bench.machine.fences_among_polls, `nn`: the first poll leaves some 20 cycles after the addition, whose answer takes hundreds."""
    few, many = (among_polls["barriers"][132 * per_sm, 32](np.zeros(32, np.uint32), np.int32(n)).cycles for n in (2, 6))
    assert (many - few) / 4 == pytest.approx(card, rel=0.12)


@pytest.mark.ci
@pytest.mark.parametrize(("fencing", "card", "within"), [(1, (1620, 1719, 1631), 0.2), (4, (1612, 1709, 1608), 0.3)])
def test_a_fence_takes_a_turn_among_polls(
    among_polls: ww.Module, fencing: int, card: tuple[int, int, int], within: float
) -> None:
    """bench.machine.fences_among_polls: beside eight polling warps and one that adds, a fence takes 1,719 cycles, a poll 1,620; four warps' fences go together, or in two rounds in turn."""
    out = np.zeros(6, np.uint32)
    arguments = (np.zeros(32, np.uint32), out, np.uint32(fencing), np.uint32(12000))
    among_polls["crowd"][132, 32 * (9 + fencing)](*arguments)
    poll, fence, addition = out[1::2] / out[::2]
    assert poll == pytest.approx(card[0], rel=0.08)
    assert fence == pytest.approx(card[1], rel=within)
    assert addition == pytest.approx(card[2], rel=0.08)


def ends(among_polls: ww.Module, four: bool) -> np.ndarray:
    """Cycles until the fences of 32 warps of an SM are over after one or four stores to the stack each, in order."""
    out = np.zeros(64, np.uint32)
    among_polls["leave"][1, 1024](out, np.uint32(four))
    return np.sort(out[1::2].astype(int) - int(out[::2].min()))


@pytest.mark.ci
def test_fences_leave_together_if_all_stores_were_in_l1(among_polls: ww.Module) -> None:
    """bench.machine.fence_rounds, and the same kernel in a loop: 720 to 803 cycles."""
    over = ends(among_polls, False)
    assert over[0] == pytest.approx(720, rel=0.1)
    assert over[-1] == pytest.approx(803, rel=0.1)


@pytest.mark.ci
def test_fences_of_warps_that_stored_later_leave_with_the_next_round(among_polls: ww.Module) -> None:
    """The same with four stores: six of the fences take 1,110 to 1,130 cycles, the others 1,484 to 1,512."""
    over = ends(among_polls, True)
    gaps = np.diff(over)
    assert gaps.max() > 250
    assert gaps.argmax() + 1 < 24
    assert over[0] == pytest.approx(1110, rel=0.1)
    assert over[-1] == pytest.approx(1512, rel=0.1)


@pytest.mark.ci
@pytest.mark.parametrize(("stores", "card"), [(0, 60), (1, 350)])
def test_only_fences_after_stores_wait_for_another_round(among_polls: ww.Module, stores: int, card: int) -> None:
    """bench.machine.fence_rounds, `pairs`: if four warps fence 200 to 300 cycles after four others, their fences end 60 cycles after those, or 350 if they have stored."""
    out = np.zeros(8, np.uint32)
    among_polls["follow"][1, 256](out, np.zeros(8192, np.uint32), np.uint32(250), np.uint32(stores))
    assert int(out[4:].max()) - int(out[:4].max()) == pytest.approx(card, abs=45)


@pytest.mark.ci
@pytest.mark.parametrize(("kernel", "first", "second"), [("alf", 664, 509), ("anf", 708, 2), ("nlf", 39, 600)])
def test_the_fences_of_a_grid_barrier_take_what_a_card_takes(kernel: str, first: int, second: int) -> None:
    """bench.machine.fences_among_polls, ``parts``, one block of four warps on each SM, each of which stores four words to its stack.

    The fences of the four warps leave with one round, and the fence after the wait does not cross to the other side of L2 again for stores that a fence before it has ordered.
    """
    source = Path(__file__).parents[1] / "bench" / "machine" / "fences_among_polls.cu"
    parts = ww.GPU("h200").compile(source)[f"parts_{kernel}"]
    blocks, repeats = 132, 5
    out = np.zeros(13 * blocks, np.uint32)
    parts[blocks, 128](out, np.zeros(64, np.uint32), np.int32(repeats))
    means = out.reshape(-1, 13)[:, 1:6].mean(axis=0) / (repeats - 1)
    assert means[0] == pytest.approx(first, rel=0.08)
    assert means[4] == pytest.approx(second, rel=0.08)


@pytest.fixture(scope="module")
def system_fences() -> Fences:
    source = Path(__file__).parents[1] / "bench" / "machine" / "system_fences.cu"
    return Fences(Model("h200"), compile_source(source, 90).cubin)


@pytest.mark.parametrize("store", [NOTHING, WORD])
def test_eight_fences_for_the_system_leave_together_and_all_others_after_them(
    system_fences: Fences, store: int
) -> None:
    """bench.machine.system_fences, `warps`: 1 to 8 warps' fences are over after 1,177 cycles (1,195 after a store), a ninth warp's after 2,004 (2,021), and the last of 64 after 2,327 (2,447)."""

    def over(warps: int) -> list[int]:
        found: list[int] = system_fences.timed("sc_system", shape_of(warps), 1, store)["ends"]
        return found

    first, second, last = ((1177, 2004, 2327), (1195, 2021, 2447))[store]
    assert over(1)[0] == pytest.approx(first, rel=0.04)
    assert over(8)[-1] == pytest.approx(first, rel=0.04)
    nine, many = over(9), over(64)
    assert nine[7] == pytest.approx(first, rel=0.04)
    assert nine[8] == pytest.approx(second, rel=0.04)
    assert sum(end < second - 100 for end in many) <= 8
    assert many[-1] == pytest.approx(last, rel=0.06)


@pytest.mark.parametrize(("warps", "cycles"), [(1, 1057), (4, 1063), (16, 1656), (64, 1654)])
def test_groups_of_fences_for_the_system_follow_each_other(system_fences: Fences, warps: int, cycles: int) -> None:
    """bench.machine.system_fences, `chains`: from 12 warps on, two groups take turns, 827 cycles apart."""
    assert system_fences.chain("chain_system", shape_of(warps), 1, NOTHING) == pytest.approx(cycles, rel=0.05)


def test_fences_that_come_while_a_group_is_on_its_way_leave_when_it_is_back(system_fences: Fences) -> None:
    """bench.machine.system_fences, `apart`: the fences of 32 warps that come 300 cycles after each other are over after 10,289 cycles, in groups 827 cycles apart."""
    ends = system_fences.timed("sc_system", shape_of(32), 1, NOTHING, apart=300)["ends"]
    assert ends[-1] == pytest.approx(10289, rel=0.02)
    gaps = [gap for gap in np.diff(ends).tolist() if gap > 100]
    assert np.median(gaps) == pytest.approx(827, abs=10)
