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
def kernels() -> tuple[Model, Module]:
    device = Model(load_chip("h200", sm_count=1))
    return device, device.load(compile_source(ROOT / "bench/machine/guarded_fences.cu", 90).cubin)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kernel", "warps", "tolerance"),
    [
        *[("cta", warps, tolerance) for warps, tolerance in ((1, 0.01), (4, 0.1), (8, 0.02), (32, 0.2))],
        *[("stored_cta", warps, tolerance) for warps, tolerance in ((1, 0.06), (4, 0.1), (8, 0.05), (32, 0.05))],
    ],
)
def test_fences_of_block_scope_take_a_cards_time(kernel: str, warps: int, tolerance: float) -> None:
    few, many = guarded_fences.REPEATS
    model, module = kernels()
    out, words = (model.upload(np.zeros(count, np.uint32)) for count in (256, 2048))
    spans = []
    for repeats in (few, many):
        module.launch(kernel, 1, 32 * warps, [out, words, np.int32(repeats), np.int32(32)])
        read = out.read(np.uint32, 4 * warps).reshape(-1, 4).astype(np.int64)
        spans.append(float((read[:, 1] - read[:, 0]).mean()))
    cycles = (spans[1] - spans[0]) / ((many - few) * guarded_fences.UNROLLED)
    card = CARD[f"{kernel} always"][guarded_fences.WARPS.index(warps)]
    assert cycles == pytest.approx(card, rel=tolerance)
