"""Asynchronous copies past L1: what an H200 asks L2 for, by where the bytes come from and go to (bench.micro ``copies_once`` under a profiler)."""

import pytest

from tests.timing_synthetic import Synthetic, affine, device, gather, run, shared
from warpwright.isa.ops import Access

LANES = range(32)


def asked(source: list[int], target: int | list[int], *modifiers: str, size: int = 16) -> float:
    """Sectors that L2 is asked for by one copy of ``size`` bytes per lane from ``source`` to consecutive bytes of shared memory, or a record's."""
    kernel = (
        Synthetic().add("LDGSTS", "E", *modifiers, "128", reads=[0, 1], access=Access("global", size), stall=2).exit()
    )
    records = [source, affine(shared(target), size) if isinstance(target, int) else target]
    return run(kernel, lambda b, w: [(0, records)], shared_bytes=4096).metrics["lts__t_sectors_srcunit_tex_op_read.sum"]


def rows(lanes: int, first: int = 0) -> list[int]:
    """The record of rows of so many lanes, 1 KiB apart."""
    return gather([device(first + lane % lanes * 16 + lane // lanes * 1024) for lane in LANES])


@pytest.mark.parametrize("target", [0, 32, 96])
def test_a_copy_past_l1_to_whole_sectors_asks_once(target: int) -> None:
    assert asked(affine(device(0), 16), target, "BYPASS") == 16


@pytest.mark.parametrize("target", [16, 48, 112])
def test_a_copy_past_l1_asks_twice_for_what_lies_across_two_sectors(target: int) -> None:
    assert asked(affine(device(0), 16), target, "BYPASS") == 32


@pytest.mark.parametrize(
    ("source", "sectors"),
    [
        (rows(8), 32),
        (rows(8, 64), 24),
        (rows(4), 24),
        (rows(2), 16),
        (gather([device(128 * lane) for lane in LANES]), 32),
    ],
)
def test_like_requests_of_a_copy_are_one(source: list[int], sectors: int) -> None:
    assert asked(source, 16, "BYPASS") == sectors


@pytest.mark.parametrize("by", [1, 2, 3])
def test_halves_of_a_sector_that_change_places_are_asked_for_once(by: int) -> None:
    """``planned_copies_once``: as in tiles whose parts change places by an exclusive or."""
    assert asked(affine(device(0), 16), gather([shared((lane ^ by) * 16) for lane in LANES]), "BYPASS") == 16


def test_a_copy_through_l1_asks_once() -> None:
    assert asked(affine(device(0), 16), 16) == 16
