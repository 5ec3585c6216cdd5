"""Several lanes or warps at one unit of an SM: tries of additions to shared memory, bulk copies of many warps, as an H200 times them
(``bench.micro tries bulk_crews``, whose kernels these are)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.device import open_device
from bench.micro.context import Context
from bench.micro.crews import try_plans
from warpwright.engine.interpreter.gather_scatter import SharedSpace
from warpwright.toolchain import compile_source

MICRO = Path(__file__).parent.parent / "bench" / "micro"
LANES = np.arange(32)


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("cubins")
    made = compile_source(MICRO / "crews.cu", "90", include_folders=[MICRO], options=["-std=c++17"])
    (folder / "crews.sm_90.cubin").write_bytes(made.cubin)
    return Context(open_device("model", "h200"), folder, "90")


@pytest.mark.parametrize(
    ("kernel", "places", "card"),
    [
        ("tries_float", "apart", 138),
        ("tries_float", "word", 3083),
        ("tries_float", "bank", 4075),
        ("tries_float", "4_banks_apart", 435),
        ("tries_double", "apart", 158),
        ("tries_double", "word", 3563),
        ("tries_double", "bank", 2361),
        ("tries_double", "16_on_bank_far", 1118),
    ],
)
def test_one_lane_a_bank_adds_at_each_try(ctx: Context, kernel: str, places: str, card: float) -> None:
    """Lanes on different words of a bank try as often as those on one word; doubles only within their half of the warp."""
    table = ctx.device.upload(try_plans()[places].astype(np.uint32))
    assert ctx.slope("crews", kernel, 1, [table], 4, 12) == pytest.approx(card, rel=0.05)


def test_the_interpreter_casts_once_a_bank() -> None:
    at, ones = LANES * 128, np.ones(32, np.uint32)
    assert SharedSpace(1 << 14).cast(at, ones, 0 * ones, 4, LANES >= 3).nonzero()[0].tolist() == [3]
    assert SharedSpace(1 << 14).cast(LANES * 4, ones, 0 * ones, 4, LANES >= 3).sum() == 29
    wide = np.ones(32, np.uint64)
    assert SharedSpace(1 << 14).cast(at, wide, 0 * wide, 8, LANES >= 3).nonzero()[0].tolist() == [3, 16]


@pytest.mark.ci
@pytest.mark.parametrize(("warps", "card"), [(1, 1500), (4, 1510), (8, 1634)])
def test_bulk_loads_of_several_warps_begin_side_by_side(ctx: Context, warps: int, card: float) -> None:
    """16 copies of 16 bytes by each warp, from the first issue to the end of the wait."""
    args = [ctx.words_beside, *(np.uint32(v) for v in (1, 16, 16))]
    assert ctx.span("crews", "bulk_crew", warps, args, 65536) == pytest.approx(card, rel=0.05)
