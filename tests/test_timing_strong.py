"""Strong accesses of one warp in a row, beside an H200's figures (``bench/data/h200/strong.json``)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.timing_synthetic import Synthetic, affine, device, run
from warpwright.isa.ops import Access

LOOK = Access("global", 4, strong=True)
ADD = Access("global", 4, True, "add", "u32")


def in_a_row(count: int, access: Access, kind: str, waits: bool) -> int:
    """Cycles of a warp that makes ``count`` strong accesses, each to a line of its own; ``waits``: each for the one before."""
    kernel = Synthetic()
    for i in range(count):
        kernel.add(
            "LDG" if kind == "load" else "ATOMG",
            writes=[2 + i],
            reads=[30],
            access=access,
            kind=kind,
            write_barrier=0,
            wait=[0] if waits and i else [],
            stall=2,
        )
    kernel.add("MOV", writes=[1], reads=[2], wait=[0], stall=5).exit()
    visits = [(i, [affine(device(4096 * (i + 1)))]) for i in range(count)]

    def trace(_block: int, _warp: int) -> list[tuple[int, list[list[int]]]]:
        return visits

    return run(kernel, trace, stopping=True).cycles


@pytest.mark.parametrize(("access", "kind"), [(LOOK, "load"), (ADD, "atomic")])
def test_strong_accesses_that_do_not_wait_for_each_other_overlap(access: Access, kind: str) -> None:
    two, eight = in_a_row(2, access, kind, False), in_a_row(8, access, kind, False)
    assert eight - two < 60  # they leave a few cycles apart; one after the other they would take 6 x 280
    assert in_a_row(8, access, kind, True) - in_a_row(2, access, kind, True) > 6 * 270


SOURCE = """
extern "C" __global__ void turns(unsigned *out, unsigned *words, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; i++) {
        unsigned a = *(volatile unsigned *)(words), b = atomicAdd(words + 64, 1u), c = *(volatile unsigned *)(words + 128);
        if (b & 1) sum += *(volatile unsigned *)(words + 192) + atomicExch(words + 256, b);
        sum += a + b * 3 + c;
    }
    out[threadIdx.x + blockIdx.x * blockDim.x] = sum;
}
"""


@pytest.mark.ci
@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (1, 32)])
def test_what_strong_accesses_bring_stays_as_it_is_in_order(blocks: int, threads: int) -> None:
    """Warps that run ahead take their words in program order: as the functional engine, which runs one warp after the other."""
    found = []
    for timing in ("off", "full"):
        kernel = ww.GPU("h200", timing=timing).compile(SOURCE)["turns"]
        out, words = np.zeros(blocks * threads, np.uint32), np.arange(1 << 10, dtype=np.uint32)
        kernel[blocks, threads](out, words, np.int32(9))
        found.append((np.sort(out), words))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])


MICRO = Path(__file__).parents[1] / "bench" / "micro"
ROUNDS = 18


@cache
def module() -> Any:
    return ww.GPU("h200").compile((MICRO / "strong.cu").read_text(), options=[f"-I{MICRO}"])


def round_of(kind: str, count: int, warps: int, lane_step: int) -> float:
    """Cycles of a round of ``count`` accesses by each of an SM's ``warps``, whose lanes are ``lane_step`` bytes apart."""
    spans = []
    for n in (4, 12):
        out, memory = np.zeros(2 << 12, np.uint32), np.zeros(1 << 19, np.uint32)
        step, warp_step = np.uint32(4096), np.uint32(65536)
        module()[f"{kind}_{count}"][1, 32 * warps](
            out, memory, np.uint32(lane_step), warp_step, step, np.uint32(0), np.int32(n)
        )
        marks = out[: 2 * warps].reshape(-1, 2).astype(np.int64)
        spans.append(marks[:, 1].max() - marks[:, 0].min())
    return float(spans[1] - spans[0]) / 8


@cache
def near() -> int:
    """A place of the array that has its home with the two blocks that play, as on the card: what they write is gone from the other side."""
    return max(0, 4096, key=lambda place: play(1, place, 32, 0)[1])


def hand_over(warps: int, at: int, fence: int) -> tuple[float, float]:
    """Cycles of a round of a ping-pong ``at`` bytes from a word that other blocks' warps poll; cycles of a look of theirs."""
    return play(warps, near(), at, fence)


def play(warps: int, place: int, at: int, fence: int) -> tuple[float, float]:
    """``hand_over`` at a place of the array."""
    out, watched = np.zeros(1 << 14, np.uint32), np.zeros(1 << 18, np.uint32)
    offsets = np.full(32, place, np.uint32)
    module()["crowd"][132, 32 * warps](
        out, watched, np.uint32(place + at), offsets, np.uint32(1), np.int32(ROUNDS), np.int32(fence), np.int32(0)
    )
    looks = out[8 : 8 + 4 * 130 * warps].reshape(-1, 4).astype(np.int64)
    return float(out[0]) / (ROUNDS - 2), float(looks[:, 0].sum() / looks[:, 1].sum())


@pytest.mark.ci
def test_a_fence_goes_behind_the_reads_that_wait_where_its_sm_has_been() -> None:
    """Two fences a round of a ping-pong, with 2,080 warps that poll the next line, or a line elsewhere.

    With half as many, a round without fences takes 1,830 or 2,220 cycles, depending on when the polls begin.
    """
    behind = (hand_over(16, 160, 1)[0] - hand_over(16, 160, 0)[0]) / 2
    apart = (hand_over(16, (256 << 10) + 32, 1)[0] - hand_over(16, (256 << 10) + 32, 0)[0]) / 2
    assert apart < behind - 100


@pytest.mark.ci
@pytest.mark.parametrize(("polling", "card", "within"), [(0, 517, 0.12), (8, 830, 0.05)])
def test_a_fence_takes_its_own_time_and_the_wait_of_a_poll(polling: int, card: float, within: float) -> None:
    """bench.machine.fence_visits: after a store to the far side, beside ``polling`` warps of each other SM that poll a word of the same slice."""
    visits = ww.GPU("h200").compile(MICRO.parent / "machine" / "fence_visits.cu")["visits"]
    blocks, turns, line = 132 if polling else 1, 8, 160
    out, words = np.zeros(4 + 2 * 32 * 132, np.uint32), np.zeros(1 << 18, np.uint32)
    visits[blocks, 32 * max(polling, 1)](out, words, *map(np.int32, (0, line, line, 0, turns)))
    assert int(out[1]) == pytest.approx(card, rel=within)


@pytest.mark.ci
@pytest.mark.parametrize(("fence", "card"), [(0, 2308), (1, 3823)])
def test_a_word_is_handed_over_beside_polls_as_on_a_card(fence: int, card: float) -> None:
    """bench.machine.polled_hand_overs: a round between both sides of L2 beside eight polling warps of each other SM."""
    kernel = ww.GPU("h200").compile(MICRO.parent / "machine" / "polled_hand_overs.cu")["hand_over"]
    logged, partner, line, turns = 512, 40, 160, 16
    out, words = np.zeros(2 * logged + 2 * 32 * 132, np.uint32), np.zeros(1 << 18, np.uint32)
    kernel[132, 256](out, words, *map(np.int32, (partner, line, fence, turns)))
    cycles = int((out[: logged - 1] >> 2).sum())
    assert cycles / turns == pytest.approx(card, rel=0.12)


def test_a_written_line_is_gone_from_the_other_partition_with_all_its_sectors() -> None:
    """Looks at one sector while others of its line are written: a card's take 389 cycles, 325 beside a line that is not."""
    written, beside = hand_over(1, 32, 0)[1], hand_over(1, 160, 0)[1]
    assert written - beside == pytest.approx(64, abs=25)
    # What is written from the other side stays there (bench.machine.written), so nobody has to fetch it again.
    away = 4096 - near()
    assert play(1, away, 32, 0)[1] - play(1, away, 160, 0)[1] == pytest.approx(0, abs=25)


@pytest.mark.parametrize(("warps", "card"), [(1, 478), (4, 570)])
def test_fences_of_an_sm_leave_in_groups(warps: int, card: float) -> None:
    assert round_of("st_release", 4, warps, 0) / 4 == pytest.approx(card, rel=0.15)


@pytest.mark.parametrize(("lane_step", "card"), [(0, 130), (4, 258), (128, 4118)])
def test_strong_stores_take_the_load_store_unit_as_others_do(lane_step: int, card: float) -> None:
    assert round_of("st_volatile", 4, 16, lane_step) == pytest.approx(card, rel=0.08)


STOPS = """
#if __CUDA_ARCH__ < 700
#define __nanosleep(ns)
#endif
extern "C" __global__ void waits(volatile int *flags, int *out) {
    __shared__ int s[256];
    int t = threadIdx.x;
    s[t] = 3 * t;
    flags[t] = t;
    __syncthreads();
    out[t] = s[255 - t];
}
extern "C" __global__ void votes(volatile int *flags, int *out) {
    int t = threadIdx.x;
    flags[t] = t;
    out[t] = __syncthreads_or(t == 3) * 1000 + __syncthreads_count(t & 1);
}
extern "C" __global__ void adds(int *flags, int *out) {
    int t = threadIdx.x;
    atomicAdd(flags + t % 7, t);
    out[t] = __syncthreads_and(t < 256);
}
extern "C" __global__ void hands_over(volatile int *flags, int *out) {
    __shared__ int s[128];
    int t = threadIdx.x;
    if (t < 128) {
        s[t] = t * t;
        flags[t] = 1;
        asm volatile("bar.arrive 2, 256;" ::: "memory");
        out[t] = -1;
    } else {
        flags[t] = 2;
        asm volatile("bar.sync 2, 256;" ::: "memory");
        out[t] = s[255 - t];
    }
}
extern "C" __global__ void sleeps(volatile int *flags, int *out) {
    int t = threadIdx.x;
    flags[t] = t;
    __nanosleep(10000);
    out[t] = flags[t];
}
"""


@cache
def stopped(chip: str, timing: str, kernel: str) -> tuple[list[int], list[int], float]:
    gpu = ww.GPU(chip, timing=timing)
    flags, out = np.zeros(256, np.int32), np.zeros(256, np.int32)
    launched = gpu.compile(STOPS)[kernel][1, 256](flags, out)
    return flags.tolist(), out.tolist(), launched.seconds if timing == "full" else 0.0


@pytest.mark.parametrize("chip", ["p100", "v100", "a100", "h200"])
@pytest.mark.parametrize("kernel", ["waits", "votes", "adds", "hands_over"])
def test_a_barrier_counts_who_comes_right_behind_a_strong_access(chip: str, kernel: str) -> None:
    """The barrier issues before the access is executed, in the serial phase of the window."""
    assert stopped(chip, "full", kernel)[:2] == stopped(chip, "off", kernel)[:2]


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_a_warp_sleeps_right_behind_a_strong_access(chip: str) -> None:
    awake, asleep = stopped(chip, "full", "waits"), stopped(chip, "full", "sleeps")
    assert asleep[:2] == stopped(chip, "off", "sleeps")[:2]
    assert 9e-6 < asleep[2] - awake[2] < 11e-6


BLOCK_BARRIERS = """
extern "C" __global__ void sums(float *out, float a, float b, int n) {
    float x = threadIdx.x;
    #pragma unroll 1
    for (int i = 0; i < n; i++) {
        #pragma unroll
        for (int u = 0; u < 8; u++) {
            asm volatile("bar.sync 0;" ::: "memory");
            #pragma unroll
            for (int k = 0; k < 4; k++) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(a), "f"(b));
        }
    }
    out[threadIdx.x] = x;
}
extern "C" __global__ void counts(int *out, int n) {
    int x = threadIdx.x;
    #pragma unroll 1
    for (int i = 0; i < n; i++) {
        #pragma unroll
        for (int u = 0; u < 8; u++) x = __syncthreads_count(x & 3);
    }
    out[threadIdx.x] = x;
}
"""


@pytest.mark.parametrize(
    ("kernel", "warps", "card"), [("sums", 1, 25.25), ("sums", 8, 37.6), ("counts", 1, 63.0), ("counts", 32, 150.0)]
)
def test_a_step_with_a_block_barrier_takes_what_a_card_takes(kernel: str, warps: int, card: float) -> None:
    """bench.micro ``block_bars``: what needs nothing that a barrier orders issues while the warp waits; BAR.RED's result takes the unit again."""
    function = ww.GPU("h200").compile(BLOCK_BARRIERS)[kernel]
    floats = (0.999, 0.001) if kernel == "sums" else ()
    kind = np.float32 if kernel == "sums" else np.int32
    few, more = (function[1, 32 * warps](np.zeros(1024, kind), *floats, n).cycles for n in (8, 40))
    assert (more - few) / 32 / 8 == pytest.approx(card, rel=0.08)


READ_L2 = r"""
extern "C" __global__ void read_l2(float *sums, const float *from, int turns) {
    float sum = 0;
    const float *at = from + blockIdx.x * blockDim.x + threadIdx.x;
    #pragma unroll 4
    for (int i = 0; i < turns; ++i) sum += __ldcg(at + 32 * i);
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""
"""Loads of L2's scope (LDG.STRONG.GPU), of which 64 warps of an SM have hundreds on their way."""


def test_answers_of_strong_loads_share_the_port_of_their_gpc() -> None:
    """14 SMs of one GPC read from L2 what the GPC's port passes (22.2 bytes a cycle and SM), by strong loads too."""
    gpu = ww.GPU("v100", threads=1, sm_count=14, gpc_sm_counts=[14], gpc_l2_partitions=[0])
    kernel = gpu.compile(READ_L2)["read_l2"]
    blocks, threads, turns = 28, 1024, (16, 48)
    source = gpu.zeros(blocks * threads + 32 * turns[1], np.float32)
    sums = gpu.zeros(blocks * threads, np.float32)
    short, long = (kernel[blocks, threads](sums, source, np.int32(n)).cycles for n in turns)
    rate = 4 * blocks * threads * (turns[1] - turns[0]) / (long - short)
    assert 0.9 * 311 < rate < 1.02 * 311
