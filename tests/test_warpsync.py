"""WARPSYNC whose mask holds lanes that wait elsewhere: what an H200 did with the same kernels (``bench/micro/warpsync.cu``)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from bench.micro.warpsync import STAGES, WORDS
from tests.test_divergence import BENCH, ENGINES
from warpwright.errors import DeadlockError

ROWS = json.loads((BENCH / "data" / "h200" / "warpsync.json").read_text())


@cache
def module(engine: str) -> Any:
    gpu = ww.GPU("h200", timing="off", **({"engine": "interpreter"} if engine == "interpreter" else {}))
    return gpu.compile(BENCH / "micro" / "warpsync.cu", options=["-std=c++17", f"-I{BENCH / 'micro'}"])


def arguments(row: dict[str, Any]) -> list[np.uint32]:
    return [np.uint32(int(row[name], 16)) for name in ("mask", "around", "members")]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "row", [r for r in ROWS if "passed" in r], ids=lambda r: f"{r['kernel']}-{r['mask']}-{r['around']}-{r['members']}"
)
def test_groups_pass_in_the_cards_order(engine: str, row: dict[str, Any]) -> None:
    out = np.zeros(WORDS, np.uint32)
    module(engine)[row["kernel"]][1, 32](out, *arguments(row))
    stamps, mates = out[:2048].reshape(STAGES, 32), out[2048:4096].reshape(STAGES, 32)
    seen = sorted((int(stamps[s, n]), int(s), f"{mates[s, n]:08x}") for s, n in zip(*np.nonzero(stamps), strict=True))
    assert list(dict.fromkeys((stage, lanes) for _, stage, lanes in seen)) == [
        (s, lanes) for _, s, lanes in row["passed"]
    ]
    if (
        "values" in row and row["kernel"] != "shuffle"
    ):  # which reads from lanes that have ended: undefined, and 0 on the card
        assert out[4096:4128].tolist() == row["values"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", [r for r in ROWS if "words" in r], ids=lambda r: r["around"])
def test_numbas_reduction_ends(engine: str, row: dict[str, Any]) -> None:
    out = np.zeros(WORDS, np.uint32)
    module(engine)["reduce_tail"][1, 128](out, *arguments(row))
    assert (out[:2].tolist(), int(out[2:130].sum())) == (row["words"], row["ended"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "kernel", [r["kernel"] for r in ROWS if r["ends"] is False and r["kernel"] != "while_spinning"]
)
def test_what_hangs_on_the_card_is_a_deadlock(engine: str, kernel: str) -> None:
    row = next(r for r in ROWS if r["kernel"] == kernel)
    with pytest.raises(DeadlockError):
        module(engine)[kernel][1, 32](np.zeros(WORDS, np.uint32), *arguments(row))


@pytest.mark.parametrize("engine", ENGINES)
def test_some_lanes_reduce_over_a_mask_of_the_launch(engine: str) -> None:
    """WARPSYNC.EXCLUSIVE, which runs once for each mask, where all lanes have the same one."""
    source = """extern "C" __global__ void sum(unsigned *out, unsigned n, unsigned mask) {
        unsigned value = threadIdx.x;
        if (value < n) value = __reduce_add_sync(mask, value);
        out[threadIdx.x] = value;
    }"""
    gpu = ww.GPU("a100", timing="off", **({"engine": "interpreter"} if engine == "interpreter" else {}))
    out = np.zeros(32, np.uint32)
    gpu.compile(source)["sum"][1, 32](out, np.uint32(10), np.uint32(1023))
    assert out.tolist() == [45] * 10 + list(range(10, 32))
