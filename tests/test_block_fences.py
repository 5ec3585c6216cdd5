"""Fences of block scope pass the memory queue and wait for no store (``bench.machine.guarded_fences`` on H200)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from bench.device import Model, Module
from bench.machine import guarded_fences
from tests.timing_synthetic import Synthetic, affine, device, run
from warpwright.chips import load_chip
from warpwright.isa.ops import Access
from warpwright.toolchain import compile_source

ROOT = Path(__file__).parent.parent
CARD = json.loads((ROOT / "bench/data/h200/guarded_fences.json").read_text())["rows"]
WORD = Access("global", 4)


def fence_cycles(chip: str, *, store: bool, waits: bool) -> float:
    """Cycles of a warp for a fence of block scope, after a store if ``store``; ``waits``: a counter holds the next instruction."""
    barrier, wait = (0, [0]) if waits else (7, [])

    def cycles(count: int) -> int:
        kernel = Synthetic()
        for _ in range(count):
            if store:
                kernel.add("STG", reads=[0, 1, 2], access=WORD, kind="store", wait=wait, stall=2)
            kernel.add("MEMBAR", "SC", "CTA", wait=[] if store else wait, read_barrier=barrier, stall=6)
        records = [affine(device(0)) for _ in range(count)] if store else []
        return run(kernel.exit(), lambda b, w: [(0, records)], chip=load_chip(chip, sm_count=1)).cycles

    return (cycles(24) - cycles(8)) / 16


@pytest.mark.parametrize(("chip", "waits"), [("h200", True), ("a100", False), ("v100", False)])
def test_a_fence_of_block_scope_waits_for_no_store(chip: str, waits: bool) -> None:
    """On an H200 8 cycles from a fence to the next, and 20 for a store and a fence; the store's way to L2 and back takes over 200."""
    assert fence_cycles(chip, store=False, waits=waits) == 8
    assert fence_cycles(chip, store=True, waits=waits) <= 20


def test_only_the_counter_of_a_fence_of_block_scope_holds_its_warp() -> None:
    """The stall count of the fence is 6: what needs no counter issues then."""
    kernel = Synthetic().add("MEMBAR", "SC", "CTA", read_barrier=0, stall=6).add("FADD", writes=[4], reads=[5], stall=1)
    waiting = Synthetic().add("MEMBAR", "SC", "CTA", read_barrier=0, stall=6)
    waiting.add("FADD", writes=[4], reads=[5], stall=1, wait=[0])
    chip = load_chip("h200", sm_count=1)
    ends = [run(one.exit(), lambda b, w: [(0, [])], chip=chip).cycles for one in (kernel, waiting)]
    assert ends[1] - ends[0] == 2


@cache
def kernels() -> tuple[Model, Module, Module]:
    """A device of one SM, and the kernels without guards and with."""
    device = Model(load_chip("h200", sm_count=1))
    cubin = compile_source(ROOT / "bench/machine/guarded_fences.cu", 90).cubin
    return device, device.load(cubin), device.load(guarded_fences.guarded(cubin))


def turn_cycles(kernel: str, warps: int, lanes: int | None) -> float:
    """Mean cycles of a turn of a warp, as ``guarded_fences.measure`` has them; ``lanes``: whose guard is true, None for fences without one."""
    model, plain, with_guards = kernels()
    out, words = (model.upload(np.zeros(count, np.uint32)) for count in (256, 2048))
    few, many = guarded_fences.REPEATS
    spans = []
    for repeats in (few, many):
        module = plain if lanes is None else with_guards
        module.launch(kernel, 1, 32 * warps, [out, words, np.int32(repeats), np.int32(32 if lanes is None else lanes)])
        read = out.read(np.uint32, 4 * warps).reshape(-1, 4).astype(np.int64)
        spans.append(float((read[:, 1] - read[:, 0]).mean()))
    return (spans[1] - spans[0]) / ((many - few) * guarded_fences.UNROLLED)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kernel", "warps", "tolerance"),
    [
        *[("cta", warps, tolerance) for warps, tolerance in ((1, 0.01), (4, 0.1), (8, 0.02), (32, 0.2))],
        *[("stored_cta", warps, tolerance) for warps, tolerance in ((1, 0.06), (4, 0.1), (8, 0.05), (32, 0.05))],
    ],
)
def test_fences_of_block_scope_take_a_cards_time(kernel: str, warps: int, tolerance: float) -> None:
    card = CARD[f"{kernel} always"][guarded_fences.WARPS.index(warps)]
    assert turn_cycles(kernel, warps, None) == pytest.approx(card, rel=tolerance)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kernel", "warps", "tolerance"),
    [
        *[(kernel, warps, 0.06) for kernel in ("gl", "sys", "stored_gl") for warps in (1, 32)],
        *[("cta", 1, 0.01), ("cta", 8, 0.05), ("cta", 32, 0.15), ("stored_cta", 8, 0.08), ("stored_cta", 32, 0.15)],
    ],
)
def test_a_fence_that_no_lane_executes_waits_for_nothing(kernel: str, warps: int, tolerance: float) -> None:
    """Its guard is false in all lanes: 72 cycles with the three instructions after it, instead of 271 for the device and 986 for the system."""
    card = CARD[f"{kernel} 0"][guarded_fences.WARPS.index(warps)]
    assert turn_cycles(kernel, warps, 0) == pytest.approx(card, rel=tolerance)


@pytest.mark.ci
@pytest.mark.parametrize("kernel", ["gl", "sys", "cta"])
def test_a_fence_that_one_lane_executes_takes_as_long_as_one_of_all(kernel: str) -> None:
    assert turn_cycles(kernel, 1, 1) == pytest.approx(turn_cycles(kernel, 1, None), abs=0.5)
