"""Straight-line machine code issues in the model when it does on an H200 (`bench/data/h200/sequences.json`)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.device import open_device
from bench.micro import sequences
from bench.micro.context import Context
from warpwright.toolchain import compile_source


@cache
def recorded() -> dict[str, Any]:
    return dict(json.loads(sequences.PIECES.read_text()))


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("cubins")
    source = Path(sequences.__file__).with_name("sequences.cu")
    made = compile_source(source, 90, include_folders=[source.parent], options=["-std=c++17"])
    (folder / "sequences.sm_90.cubin").write_bytes(made.cubin)
    return Context(open_device("model"), folder, "90")


@pytest.mark.ci
@pytest.mark.parametrize(
    "pair",
    [
        "wide wide",
        "mov wide",
        "hzero wide",
        "wide ffma",
        "wide fadd",
        "wide iadd3",
        "wide_imm mov",
        "mov imad_hi",
        "imad iadd3",
    ],
)
def test_pairs_of_wide_products_take_what_they_take_on_a_card(context: Context, pair: str) -> None:
    """Two passes of the multiplier: dispatch is held, each register is read twice."""
    words = [sequences.of_kind(kind, turn, False) for turn in range(64) for kind in pair.split()]
    took = (sequences.cycles(context, words, 1) - sequences.cycles(context, [], 1) + 128) / 64
    assert took == pytest.approx(recorded()["pairs"][pair]["1"][0], abs=0.05)


@pytest.mark.ci
@pytest.mark.parametrize(
    "pair",
    [
        "viadd viadd",
        "prmt viadd",
        "imad viadd",
        "imad_mov viadd",
        "fadd viadd",
        "ffma hadd2",
        "imad hadd2",
        "hadd2 hadd2",
        "prmt hadd2",
        "hzero hadd2",
        "hzero dadd",
        "hzero dmul",
        "hzero hzero",
        "hfma2_mma dadd",
        "umov umov",
        "umov uiadd3",
        "uiadd3 uiadd3",
    ],
)
def test_pairs_share_the_pipes_that_they_share_on_a_card(context: Context, pair: str) -> None:
    """VIADD takes the FMA pipe's heavy half, HADD2 both halves, HFMA2.MMA goes with FP64, UMOV without the uniform unit."""
    name = pair if pair in recorded()["pairs"] else " ".join(reversed(pair.split()))
    words = [sequences.of_kind(kind, turn, False) for turn in range(64) for kind in pair.split()]
    took = (sequences.cycles(context, words, 1) - sequences.cycles(context, [], 1) + 128) / 64
    assert took == pytest.approx(recorded()["pairs"][name]["1"][0], abs=0.05)


@pytest.mark.ci
@pytest.mark.parametrize("between", range(4))
def test_a_factor_reaches_a_wide_product_after_seven_cycles(context: Context, between: int) -> None:
    """An IADD3 that makes a factor, stall count 4, ``between`` NOPs and IMAD.WIDE: 7 cycles from the one to the other; an addend's 4 are enough."""

    def took(destination: int) -> int:
        made = sequences.field(sequences.of_kind("iadd3_2", 0, False, 4), 16, 8, destination)
        nops = [sequences.controlled(sequences.NOP, 1)] * between
        return sequences.cycles(context, [made, *nops, sequences.of_kind("wide", 0, False)], 1)

    factor, other = 24, 62
    assert took(factor) - took(other) == max(3 - between, 0)


@pytest.mark.ci
@pytest.mark.parametrize("piece", sorted(recorded()["steps"]))
def test_compiled_code_issues_when_it_does_on_a_card(context: Context, piece: str) -> None:
    steps = recorded()["steps"][piece]
    words = [int(word, 16) for _, word, _ in steps]
    took = sequences.cycles(context, words, 1) - sequences.cycles(context, [], 1) + len(words)
    assert took == pytest.approx(steps[-1][2], rel=0.02)
