"""Tensor-core instructions take the cycles of an H200 (``bench.micro tensor``), one after another and side by side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.studies.a100_tensor_cores import SOURCE, Format

CARD = Path(__file__).parents[1] / "bench" / "data" / "h200" / "micro_tensor.json"
DENSE, SPARSE = "mma.sync.aligned.", "mma.sp::ordered_metadata.sync.aligned."
# Name in the card's rows: instruction; registers of A, B and the sums.
CASES = {
    "hmma_1688_f32": (f"{DENSE}m16n8k8.row.col.f32.f16.f16.f32", (2, 1, 4)),
    "hmma_16816_f16": (f"{DENSE}m16n8k16.row.col.f16.f16.f16.f16", (4, 2, 2)),
    "hmma_1688_tf32": (f"{DENSE}m16n8k8.row.col.f32.tf32.tf32.f32", (4, 2, 4)),
    "imma_16816_s8": (f"{DENSE}m16n8k16.row.col.s32.s8.s8.s32", (2, 1, 4)),
    "bmma_168256": (f"{DENSE}m16n8k256.row.col.s32.b1.b1.s32.and.popc", (4, 2, 4)),
    "hmma_sp_16816_f32": (f"{SPARSE}m16n8k16.row.col.f32.f16.f16.f32", (2, 2, 4)),
    "hmma_sp_16832_f32": (f"{SPARSE}m16n8k32.row.col.f32.f16.f16.f32", (4, 4, 4)),
    "imma_sp_16864_s8": (f"{SPARSE}m16n8k64.row.col.s32.s8.s8.s32", (4, 4, 4)),
    "dmma_884": (f"{DENSE}m8n8k4.row.col.f64.f64.f64.f64", (2, 2, 4)),
    "dmma_16x8x16": (f"{DENSE}m16n8k16.row.col.f64.f64.f64.f64", (16, 8, 8)),
}
STEPS = 32
QUICK = ("hmma_1688_f32", "hmma_sp_16832_f32")


def card(name: str, chains: int) -> float:
    """Cycles from one instruction to the next, of one warp with 1 chain, of 16 warps of a block with 4 per sub-core."""
    rows = json.loads(CARD.read_text())["results"]["tensor"]
    metric, warps = ("dep_cycles_per_mma", 1) if chains == 1 else ("cycles_per_mma_per_subcore", 16)
    where = (name, metric, chains, warps)
    (found,) = (r["value"] for r in rows if (r["name"], r["metric"], r["chains"], r["warps"]) == where)
    return float(found)


def model(name: str, chains: int) -> float:
    instruction, registers = CASES[name]
    kind = Format(
        name, "h200", instruction, registers, 0, 0.0, ".sp" in instruction, "f64" if "f64" in instruction else ""
    )
    defines = {"SUMS": registers[2], "STEP": kind.step, "CHAINS": chains, "STEPS": STEPS}
    kernel = ww.GPU("h200", timing="full").compile(SOURCE, defines=defines)["products"]
    warps = 1 if chains == 1 else 16
    few, many = (kernel[1, 32 * warps](np.zeros(32 * warps, np.uint32), repeats).cycles for repeats in (4, 12))
    return (many - few) / (8 * STEPS * chains) / max(warps // 4, 1)


@pytest.mark.ci
@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.ci) for n in CASES])
def test_a_tensor_instruction_takes_an_h200s_cycles(name: str) -> None:
    assert model(name, 1) == pytest.approx(card(name, 1), rel=0.03)
    assert model(name, 4) == pytest.approx(card(name, 4), rel=0.04)
