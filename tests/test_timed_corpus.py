"""Launches with the timing model leave the right results: its warps stop and go on where untimed ones never do.

The cases chosen stop in many ways: locks and spin loops, atomics, votes at barriers, named barriers, hand-over between
blocks, calls through pointers, recursion, clocks and sleep.
"""

from __future__ import annotations

from functools import cache

import pytest

import warpwright as ww
from tests.kernels import case, cases

ARCH = {"v100": 70, "a100": 80, "h200": 90}
QUICK = {
    "h200": frozenset(
        (
            *("lock_lanes", "lock_blocks", "lock_buckets", "lock_ticket", "volatile_handoff", "chained_scan"),
            *("atom_acquire_release", "atomics_global", "atomics_shared", "atomics_wide", "atomics_cas_loop"),
            *("barrier_votes", "barrier_named", "barrier_pairs", "clock_read", "sleep_turns", "call_noinline"),
            *("call_pointers", "recursion_fibonacci", "recursion_quicksort", "switch_table", "leaving_lanes"),
            *("nested_divergence", "reduce_last_block", "compact_positive", "matmul_tiled", "warp_shuffles"),
            *("group_coalesced", "async_reverse", "local_permutation", "histogram_shared", "mma_half"),
        )
    ),
    "a100": frozenset(("lock_lanes", "barrier_named", "recursion_ackermann", "atomics_shared", "call_pointers")),
    "v100": frozenset(("lock_lanes", "barrier_pairs", "recursion_fibonacci", "chained_scan", "mma_volta")),
}
"""Run every time; the rest of the corpus is slow."""


@cache
def gpu(chip: str) -> ww.GPU:
    return ww.GPU(chip)


def parameters() -> list[object]:
    return [
        pytest.param(c.name, chip, id=f"{chip}-{c.name}", marks=() if c.name in QUICK[chip] else pytest.mark.slow)
        for chip, arch in ARCH.items()
        for c in cases("small")
        if arch >= c.min_arch
    ]


@pytest.mark.parametrize(("name", "chip"), parameters())
def test_timed_launch_is_right(name: str, chip: str) -> None:
    one = case(name, "small")
    module = gpu(chip).compile(one.source, options=one.options)
    run, outputs = one.run(module)
    one.verify(outputs)
    assert run.cycles > 0


def test_chosen_cases_exist() -> None:
    names = {c.name for c in cases("small")}
    assert [n for chosen in QUICK.values() for n in sorted(chosen) if n not in names] == []
