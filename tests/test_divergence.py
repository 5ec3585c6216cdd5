"""Order, joining and counts of a warp's groups: what an H200 did with the same kernels (``bench/micro/divergence.cu``)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from bench.micro.divergence import LANES, LEAVES, LOG, counted_cases, groups, mixed_classes, parting

BENCH = Path(__file__).parent.parent / "bench"
ENGINES = ("compiled", "interpreter")


@cache
def recorded() -> dict[str, list[dict[str, Any]]]:
    return dict(json.loads((BENCH / "data" / "h200" / "divergence.json").read_text())["results"])


@cache
def module(engine: str) -> tuple[ww.GPU, Any]:
    interpreted = engine == "interpreter"
    gpu = ww.GPU("h200", timing="off", engine="interpreter") if interpreted else ww.GPU("h200", timing="off")
    options = ["-std=c++17", f"-I{BENCH / 'micro'}"]
    return gpu, gpu.compile(BENCH / "micro" / "divergence.cu", options=options)


@pytest.mark.ci
@pytest.mark.parametrize("engine", ENGINES)
def test_executed_instructions_are_the_cards(engine: str) -> None:
    _, made = module(engine)
    found = []
    for kernel, argument in counted_cases():
        run = made[kernel][1, 32](np.zeros(4096, np.uint32), argument, np.int32(100))
        found.append((kernel, float(run.instructions)))
    assert found == [(row["name"], row["value"]) for row in recorded()["counted_once"]]


@cache
def profiled() -> dict[str, list[dict[str, Any]]]:
    return dict(json.loads((BENCH / "data" / "h200" / "ncu_micro.json").read_text())["results"])


def executed(row: dict[str, Any]) -> tuple[float, float]:
    """Warp and thread instructions of a profiled launch."""
    return row["smsp__inst_executed.sum"], row["smsp__thread_inst_executed.sum"]


@pytest.mark.ci
@pytest.mark.parametrize("engine", ENGINES)
def test_groups_that_wait_at_one_instruction_join_as_on_the_card(engine: str) -> None:
    """All but the last one pushed, wherever they lie on the stack; they take along who waits there at a BSYNC."""
    _, made = module(engine)
    for row, sizes in zip(profiled()["leaves_once"], LEAVES, strict=True):
        words = np.repeat(np.arange(len(sizes)), sizes).astype(np.uint32)
        run = made["count_leaves"][1, 32](np.zeros(8192, np.uint32), words, np.int32(100))
        assert (run.instructions, run.thread_instructions) == executed(row), sizes


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_run_together_and_in_the_order_of_the_card(engine: str) -> None:
    _, made = module(engine)
    for name, (words, places) in parting().items():
        out = np.zeros(16384, np.uint32)
        made["leave_apart"][1, 32](out, words.astype(np.uint32), places.astype(np.uint32), np.int32(10))
        stamps, mates = out[:4096].reshape(2, 64, 32)
        found = [(row["stage"], row["lanes"]) for row in groups("leave_apart", stamps, mates)]
        assert found == [(row["stage"], row["lanes"]) for row in recorded()["part"] if row["words"] == name], name


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kernel", ["count_break", "count_exit"])
def test_lanes_that_break_and_exit_let_go_run_the_bsync_again(engine: str, kernel: str) -> None:
    _, made = module(engine)
    rows = [row for row in profiled()["lets_go_once"] if row["kernel"] == kernel]
    for row, words in zip(rows, mixed_classes(), strict=True):
        run = made[kernel][1, 32](np.zeros(16384, np.uint32), words)
        assert (run.instructions, run.thread_instructions) == executed(row), words


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("kernel", "words"), [("turns_shared", LANES), ("turns_shared", 3 - LANES // 8)])
def test_spinning_lanes_poll_as_often_as_on_the_card(engine: str, kernel: str, words: np.ndarray) -> None:
    name = {0: "lane", 3: "3-lane/8"}[int(words[0])]
    out = np.zeros(16384 + 32 * LOG, np.uint32)
    module(engine)[1][kernel][1, 32](out, words.astype(np.uint32), np.int32(LOG))
    rows = [r for r in recorded()["spin"] if r["name"] == kernel and r["metric"] == "polls_of_lane"]
    assert list(out[64 * 32 + 2048 :][:32]) == [r["value"] for r in rows if r["words"] == name]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0xF, 0x88888888])
@pytest.mark.parametrize("kernel", ["lock_turns", "lock_inside"])
def test_lanes_take_a_lock_after_as_many_polls_as_on_the_card(engine: str, kernel: str, mask: int) -> None:
    out = np.zeros(16384 + 32 * LOG, np.uint32)
    module(engine)[1][kernel][1, 32](out, np.uint32(mask), np.zeros(1024, np.uint32), np.int32(LOG))
    rows = [r for r in recorded()["spin"] if r["name"] == kernel and r["metric"] == "polls_of_lane"]
    assert list(out[64 * 32 + 2048 :][:32]) == [r["value"] for r in rows if r["mask"] == f"{mask:08x}"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mask", [1, 0xFFFFFFFE, 0xFFFF, 0xFFFFFF00])
def test_smaller_side_runs_first(engine: str, mask: int) -> None:
    out = np.zeros(16384, np.uint32)
    module(engine)[1]["two_sides"][1, 32](out, np.uint32(mask), np.int32(8))
    stamps = out[:2048].reshape(64, 32)
    first = [1 if stamps[1].max() < stamps[2].max() else 2]
    rows = [r for r in recorded()["order"] if r["name"] == "two_sides" and r["mask"] == f"{mask:08x}"]
    assert first == [r["stage"] for r in sorted(rows, key=lambda r: r["order"])][1:2]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cells", [4, 8, 32])
def test_groups_behind_a_loop_of_yields_go_one_after_the_other(engine: str, cells: int) -> None:
    """Two loops of compare-and-swaps: the groups that leave the first one do not take turns in the second one.

    Taking turns they make 953, 597 and 268 instructions; our count lacks the first of a loop's BSYNCs.
    """
    rows = json.loads((BENCH / "data" / "h200" / "ncu_micro.json").read_text())["results"]["cas_once"]
    [made] = [r for r in rows if (r["cells"], r.get("second"), r["blocks"]) == (cells, 1, 1)]
    gpu, _ = module(engine)
    kernel = gpu.compile(BENCH / "micro" / "spins.cu", options=[f"-I{BENCH / 'micro'}"])["cas_once"]
    run = kernel[1, 32](np.zeros(1 << 14, np.uint32), np.uint32(cells), np.int32(1))
    assert float(run.instructions) == pytest.approx(made["smsp__inst_executed.sum"], rel=0.06)


DIVIDES = """extern "C" __global__ void divide(float* out, float a, float b) { out[threadIdx.x] = a / b; }"""


@pytest.mark.parametrize("engine", ENGINES)
def test_divisions_take_the_slow_path_for_the_cards_exponents(engine: str) -> None:
    """An H200 takes the fast one for dividends of exponents 25 to 254, divisors of 2 to 251, from -124 to 126 apart."""
    gpu, _ = module(engine)
    kernel = gpu.compile(DIVIDES)["divide"]

    def slow(above: int, below: int) -> bool:
        a, b = (np.uint32(exponent << 23 | 0x123456).view(np.float32) for exponent in (above, below))
        return bool(kernel[1, 32](np.zeros(32, np.float32), a, b).instructions > usual)

    usual = kernel[1, 32](np.zeros(32, np.float32), np.float32(3), np.float32(2)).instructions
    for above, below in ((25, 100), (254, 200), (100, 2), (200, 251), (100, 224), (226, 100)):
        assert not slow(above, below), (above, below)
    for above, below in ((24, 100), (255, 200), (100, 1), (200, 252), (100, 225), (227, 100)):
        assert slow(above, below), (above, below)


TWO_LOCKS = """
extern "C" __global__ void two_locks(unsigned *locks, unsigned lanes) {
    if (threadIdx.x < lanes) switch (threadIdx.x % 3) {
    case 0: while (atomicCAS(&locks[0], 0u, 1u) != 0) __nanosleep(93); __threadfence(); locks[1]++; __threadfence(); atomicExch(&locks[0], 0u); break;
    case 1: while (atomicCAS(&locks[2], 0u, 1u) != 0) __nanosleep(97); __threadfence(); locks[3]++; __threadfence(); atomicExch(&locks[2], 0u); break;
    }
    __syncthreads();
}
"""


@pytest.mark.parametrize("engine", ["compiled", pytest.param("interpreter", marks=pytest.mark.ci)])
def test_lanes_that_hold_two_locks_go_on_while_all_others_of_their_warp_sleep(engine: str) -> None:
    """Either loop's lanes can always run, so no group is ever alone; those that wait for sleeping ones must continue nevertheless."""
    gpu = ww.GPU("h200", timing="off", engine=engine)
    locks = np.zeros(4, np.uint32)
    gpu.compile(TWO_LOCKS)["two_locks"][1, 32](locks, 32)
    assert locks.tolist() == [0, 11, 0, 11]
