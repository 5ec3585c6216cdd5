"""The validation and the hold-out set: enough kernels, each with a case, a measurement and a reference that the engine meets."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from bench import holdout, validation
from bench.accuracy import CYCLES, Row, measured, summary, verdict
from bench.holdout.case import SOURCES as HELD_OUT
from bench.kernel_sets import kernel_set
from bench.validation.case import SOURCES
from tests import kernels, programs

QUICK = ("copy_24_blocks", "heat_direct_small", "sum_one_block", "gemm_batch", "long_bodies_one_block", "sha256_blocks")
"""Run every time; the rest of the set is slow."""


@pytest.mark.parametrize(("which", "least"), [("validation", 80), ("holdout", 60), ("third", 70), ("fourth", 85)])
def test_set_is_large_and_measured(which: str, least: int) -> None:
    recorded, names = measured("h200", which), kernel_set(which).names()
    assert len(names) >= least
    assert sorted(recorded) == sorted(names)
    assert all(record[CYCLES] > 0 for record in recorded.values())


def kernels_of(folder: Path) -> set[str]:
    attributes = r"(?:__\w+__\([^)]*\) )*"
    found = (re.findall(rf'extern "C" __global__ void {attributes}(\w+)\(', p.read_text()) for p in folder.glob("*.cu"))
    return {name for names in found for name in names}


@pytest.mark.parametrize("folder", [SOURCES, HELD_OUT])
def test_every_kernel_of_every_source_is_launched(folder: Path) -> None:
    launched = "".join(path.read_text() for path in folder.glob("cases_*.py"))
    assert [name for name in sorted(kernels_of(folder)) if f'"{name}"' not in launched] == []


def test_no_kernel_is_of_another_set() -> None:
    assert {case.kernel for case in map(validation.case, QUICK)}.isdisjoint(kernels.names())
    others = kernels_of(SOURCES) | set(kernels.names()) | set(programs.names())
    assert kernels_of(HELD_OUT).isdisjoint(others)


def test_inputs_follow_from_the_seed() -> None:
    first, again, other = (validation.case("gemm_batch", seed) for seed in (0, 0, 1))
    assert np.array_equal(first.args[1], again.args[1])
    assert not np.array_equal(first.args[1], other.args[1])


def test_unknown_case_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match="copy_one_block"):
        validation.case("copy_no_block")
    with pytest.raises(KeyError, match="rotary_embed"):
        holdout.case("rotate_nothing")


@cache
def gpu() -> ww.GPU:
    return ww.GPU("h200", timing="off")


@pytest.mark.ci
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in validation.names()]
)
def test_results_are_the_references(name: str) -> None:
    case = validation.case(name)
    module = gpu().compile(case.source, options=case.options)
    case.verify(case.run(module)[1])


def row(card_cycles: float, error: float, hits: float, dram: float, instructions: float = 100.0) -> Row:
    values = dict.fromkeys(
        ("smsp__thread_inst_executed.sum", "lts__t_sectors.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
        100.0,
    )
    card = {
        **values,
        CYCLES: card_cycles,
        "smsp__inst_executed.sum": 100.0,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": 50.0,
        "lts__t_sectors_lookup_hit.sum": 50.0,
        "dram__bytes_read.sum": 1e6,
        "dram__bytes_write.sum": 1e6,
    }
    ours = {
        **card,
        CYCLES: card_cycles * (1 + error),
        "smsp__inst_executed.sum": instructions,
        "lts__t_sectors_lookup_hit.sum": hits,
        "dram__bytes_write.sum": dram,
    }
    return Row("x", card, ours, 1e-6)


def test_counts_and_hit_rates_are_compared_with_what_differs_from_run_to_run_on_the_card() -> None:
    one = row(1000, 0.0, 57, 1e6, 104)
    assert not one.same_instructions
    assert one.l2_points == pytest.approx(7)
    executed, hits = "smsp__inst_executed.sum", "lts__t_sectors_lookup_hit.sum"
    runs = {executed: [99.0, 105.0, 100.0], hits: [48.0, 55.0, 50.0], "lts__t_sectors.sum": [100.0, 100.0, 100.0]}
    spread = replace(one, runs=runs)
    assert spread.same_instructions
    assert verdict(spread) == "spread"
    assert spread.l2_points == pytest.approx(2)
    assert verdict(one) == "DIFFER"
    assert verdict(row(1000, 0.0, 50, 1e6)) == "same"
    assert not replace(one, runs={executed: [99.0, 103.0]}).same_instructions


def test_comparison_counts_what_differs() -> None:
    figures = summary([row(1000, 0.1, 50, 1e6), row(2000, -0.1, 54, 1.2e6, 101), row(4000, 0.0, 52, 1e6)])
    assert figures["mean"] == pytest.approx(0.2 / 3)
    assert figures["worst"] == pytest.approx(0.1)
    assert figures["same_instructions"] == 2
    assert figures["l1_within_3"] == 1
    assert figures["l2_within_3"] == pytest.approx(2 / 3)
    assert figures["dram_within_5"] == pytest.approx(2 / 3)
    assert figures["speed"] == pytest.approx(1e8 * (1.01) ** (1 / 3))
