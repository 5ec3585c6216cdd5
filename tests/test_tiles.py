"""Programs with their shared arrays remapped to L1 (``bench.tiles``, Figure 4 of Choquette et al.)."""

from __future__ import annotations

import json

import pytest

import warpwright as ww
from bench import tiles, tiles_card

SOURCE = """extern "C" __global__ void first(float *x) {
    __shared__ float a[16][17], b[4];
    __shared__ int c[8];
}
extern "C" __global__ void second(float *x) {
    __shared__ float2 a[2][256];
}
"""


def test_each_shared_array_gets_a_place_of_its_own_in_the_blocks_part() -> None:
    text = tiles.remapped(SOURCE)
    assert "__shared__" not in text
    assert text.count("\n") == SOURCE.count("\n")  # lines keep their numbers
    assert "typedef float a_array[16][17]; a_array &a = *(a_array *)(tiles_part() + 0);" in text
    assert "b_array &b = *(b_array *)(tiles_part() + 0 + (sizeof(a_array) + 127) / 128 * 128);" in text
    assert "typedef int c_array[8];" in text
    assert text.count("(sizeof(b_array) + 127) / 128 * 128)") == 1  # of c
    assert "typedef float2 a_array[2][256]; a_array &a = *(a_array *)(tiles_part() + 0);" in text


@pytest.mark.ci
def test_the_set_is_of_programs_and_not_of_single_mechanisms() -> None:
    names = [name for name, _ in tiles.cases()]
    assert len(names) >= 40
    assert {"sgemm_tiled", "heat_tiled", "fft_shared", "scan_tiles", "bodies_tiled", "transpose_shared"} <= set(names)
    assert not {"histogram_bytes", "shared_lookup", "layer_extern"} & set(names)  # atomics, a mechanism, no fixed size


@pytest.mark.slow
def test_l1_costs_pascal_more_than_volta() -> None:
    """P100 reads a quarter as wide as V100 from L1, and takes 81 cycles where V100 takes 28 (Choquette et al., "L1 cache and shared memory")."""
    slower = {
        chip: {
            both.name: both.slowdown - 1 for both in tiles.pairs(ww.GPU(chip), ["transpose_shared", "sum_one_block"])
        }
        for chip in ("p100", "v100")
    }
    assert slower["p100"]["transpose_shared"] > 1.1 * slower["v100"]["transpose_shared"] > 0
    for chip in slower:
        assert abs(slower[chip]["sum_one_block"]) < 0.05  # hardly anything is shared


@pytest.mark.ci
@pytest.mark.long
def test_what_is_written_is_found_in_l1_as_on_a_card() -> None:
    """Programs whose tiles are written in parts and read in turn: an H200 found 96, 93 and 89 % of the sectors (``bench.tiles_card``)."""
    card = json.loads(tiles_card.STORED.read_text())["programs"]
    for both in tiles.pairs(ww.GPU("h200"), ["align_tiles", "walsh_rows", "fft_shared"]):
        ours = {metric: float(both.cached.metrics[metric]) for metric in tiles_card.METRICS}
        assert tiles_card.found({"in_l1": ours}) == pytest.approx(tiles_card.found(card[both.name]), abs=0.03)
