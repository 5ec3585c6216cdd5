"""Recursive functions take the cycles of an H200 (``bench.machine.recursion``): a BSYNC of a register that was restored takes longer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.device import Model
from bench.machine import recursion
from warpwright.toolchain import compile_source

ROOT = Path(__file__).parents[1]
ONE_WARP = (1, 32)
LEFT_ALONE = ("all differ", "random")
"""Arguments with which a warp's first lane may return alone on a card."""


@pytest.fixture(scope="module")
def model_rows() -> list[dict[str, Any]]:
    cubin = compile_source(ROOT / "bench/machine/recursion.cu", 90).cubin
    return recursion.measure(Model("h200"), cubin, (ONE_WARP,))


def card_cycles() -> dict[tuple[str, str], float]:
    """Cycles of one warp, by kernel and arguments."""
    rows = json.loads((ROOT / "bench/data/h200/recursion.json").read_text())["rows"]
    return {(r["kernel"], r["arguments"]): r["median"] for r in rows if (r["blocks"], r["threads"]) == ONE_WARP}


@pytest.mark.parametrize(
    ("kernel", "tolerance"),
    [("fibonacci_calls", 0.002), ("chain_calls", 0.012), ("halves_calls", 0.012), ("stacked_calls", 0.045)],
)
def test_each_level_of_a_recursion_takes_the_cards_cycles(
    kernel: str, tolerance: float, model_rows: list[dict[str, Any]]
) -> None:
    """``stacked_calls`` is 3 to 4 % too fast, because of conflicting accesses to the stack."""
    card = card_cycles()
    compared = [row for row in model_rows if row["kernel"] == kernel and row["arguments"] not in LEFT_ALONE]
    assert len(compared) >= 10
    for row in compared:
        assert row["median"] == pytest.approx(card[kernel, row["arguments"]], rel=tolerance), row["arguments"]


def test_a_call_that_calls_nothing_pays_for_no_restored_register(model_rows: list[dict[str, Any]]) -> None:
    """A BSYNC whose register was set by its own BSSY takes no longer."""
    of = {(row["kernel"], row["arguments"]): row["median"] for row in model_rows}
    assert of["fibonacci_calls", "all 0"] == of["fibonacci_calls", "all 1"] == 181
    assert of["chain_calls", "all 2"] - of["chain_calls", "all 1"] == 225
