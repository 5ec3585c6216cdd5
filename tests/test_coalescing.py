"""Rules by which lanes' accesses become transactions: each from both sides, with the examples of the CUDA C Programming Guide and of Kanter's Cayman article."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.chips import load_chip
from warpwright.chips.sections import COALESCING
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES
from warpwright.timing import state as s
from warpwright.timing.coalescing import address_cycles, coalesce
from warpwright.timing.records import Addresses
from warpwright.timing.reset import LaunchSizes, initial_state

Transaction = tuple[int, int]
"""First byte and bytes of a transaction."""


class Rule:
    """One rule, applied to lists of addresses."""

    def __init__(self, name: str, lanes: int = 32) -> None:
        of_amd = (
            {"base": "v100", "l1_line_bytes": 64, "sector_bytes": 64}
            if name.startswith("quarter")
            else {"base": "h200"}
        )
        chip = load_chip(of_amd.pop("base"), coalescing=name, **of_amd)
        self.line, self.sector = chip.l1.l1_line_bytes, chip.l1.sector_bytes
        self.state = initial_state(chip, LaunchSizes(100, 1, 1, 1))
        self.lanes = lanes
        full = (1 << lanes) - 1
        self.state.words[s.chip.lanes] = lanes
        self.state.words[s.chip.full_wave] = full if lanes < 64 else -1

    def transactions(self, addresses: list[int | None], size: int = 4) -> list[Transaction]:
        """What a warp moves whose lanes name these addresses; None: the lane does not take part."""
        addresses = addresses + [None] * (self.lanes - len(addresses))
        table = np.array([a or 0 for a in addresses], np.int64)
        mask = sum(1 << lane for lane, a in enumerate(addresses) if a is not None)
        mask -= 1 << 64 if mask >= 1 << 63 else 0
        sm = self.state.sm(0)
        n = joined(self.state.words, sm, 1 << 40, table.ctypes.data, mask, size)
        found = []
        words = self.state.words
        for i in range(n):
            line, sectors = int(words[s.SM(sm).lines[i]]), int(words[s.SM(sm).line_sectors[i]])
            first = (sectors & -sectors).bit_length() - 1
            count = sectors.bit_count()
            assert sectors == ((1 << count) - 1) << first, "a transaction is one piece"
            found.append((line * self.line + first * self.sector - (1 << 40), count * self.sector))
        return found

    def address_cycles(self, addresses: list[int], filtered: bool = False) -> int:
        table = np.array(addresses, np.int64)
        mask = (1 << len(addresses)) - 1
        mask -= 1 << 64 if mask >= 1 << 63 else 0
        return int(cycles(self.state.words, 1 << 40, table.ctypes.data, mask, filtered))


@partial(entry, what="", sources=SOURCES)
def joined(state: Any, sm: int, base: int, table: int, mask: int, size: int) -> int:
    return coalesce(words(state), sm, Addresses(base, True, table, mask), size, False)


@partial(entry, what="", sources=SOURCES)
def cycles(state: Any, base: int, table: int, mask: int, filtered: int) -> int:
    return address_cycles(words(state), Addresses(base, True, table, mask), filtered != 0)


def lanes(count: int, first: int = 0, step: int = 4) -> list[int | None]:
    return [first + step * lane for lane in range(count)]


@pytest.mark.ci
# --- compute capability 1.0 and 1.1 -----------------------------------------------------------------------------------
def test_in_order_words_of_a_segment_are_one_transaction() -> None:
    """Of 4, 8 and 16 bytes per lane: 64, 128, and twice 128 bytes for a half-warp; a warp has two."""
    rule = Rule("half_warp_in_order")
    assert rule.transactions(lanes(16)) == [(0, 64)]
    assert rule.transactions(lanes(32)) == [(0, 64), (64, 64)]
    assert rule.transactions(lanes(16, step=8), 8) == [(0, 128)]
    assert rule.transactions(lanes(16, step=16), 16) == [(0, 128), (128, 128)]


@pytest.mark.ci
def test_lanes_that_do_not_take_part_change_nothing() -> None:
    """The guide's figure of a divergent warp: still one transaction."""
    rule = Rule("half_warp_in_order")
    some = [a if n not in (0, 1, 2, 5, 15) else None for n, a in enumerate(lanes(16))]
    assert rule.transactions(some) == [(0, 64)]


@pytest.mark.parametrize("size", [4, 8, 16])
def test_out_of_order_misaligned_and_strided_lanes_are_single_transactions(size: int) -> None:
    """The guide's figures of accesses that are not coalesced: sixteen transactions of 32 bytes each."""
    rule = Rule("half_warp_in_order")
    swapped = lanes(16, step=size)
    swapped[3], swapped[4] = swapped[4], swapped[3]
    misaligned = lanes(16, first=size, step=size)
    strided = lanes(16, step=2 * size)
    for addresses in (swapped, misaligned, strided):
        found = rule.transactions(addresses, size)
        assert len(found) == 16
        assert found == [(a // 32 * 32, 32) for a in addresses if a is not None]


def test_a_half_warp_that_is_not_coalesced_leaves_the_other_one_alone() -> None:
    rule = Rule("half_warp_in_order")
    assert len(rule.transactions([*lanes(16, first=4), *lanes(16, first=128)])) == 16 + 1


@pytest.mark.parametrize("size", [1, 2])
def test_words_of_less_than_four_bytes_are_never_coalesced(size: int) -> None:
    assert len(Rule("half_warp_in_order").transactions(lanes(16, step=size), size)) == 16


def test_three_words_a_lane_are_not_in_order() -> None:
    """The guide's structure of three floats: the k-th lane does not name the k-th word."""
    assert len(Rule("half_warp_in_order").transactions(lanes(16, step=12))) == 16


# --- compute capability 1.2 and 1.3 -----------------------------------------------------------------------------------
def test_any_order_within_a_segment_is_one_transaction() -> None:
    """The guide's figure 5-4: random words of one 64-byte segment; the same word for all lanes."""
    rule = Rule("half_warp_any_order")
    shuffled = [4 * (7 * lane % 16) for lane in range(16)]
    assert rule.transactions(shuffled) == [(0, 64)]
    assert rule.transactions([12] * 16) == [(0, 32)]


def test_a_misaligned_half_warp_is_one_transaction_within_128_bytes_and_two_across() -> None:
    """The guide's figures: within a segment 128 bytes; across two segments each part as small as it can be."""
    rule = Rule("half_warp_any_order")
    assert rule.transactions(lanes(16, first=4)) == [(0, 128)]
    assert rule.transactions(lanes(16, first=96)) == [(96, 32), (128, 32)]
    assert rule.transactions(lanes(16, first=68)) == [(64, 64), (128, 32)]
    assert rule.transactions(lanes(16, first=64)) == [(64, 64)]


def test_a_segment_is_halved_as_long_as_one_half_is_named() -> None:
    rule = Rule("half_warp_any_order")
    assert rule.transactions([0, 28]) == [(0, 32)]
    assert rule.transactions([0, 32]) == [(0, 64)]
    assert rule.transactions([32, 64]) == [(0, 128)]
    assert rule.transactions([96, 124]) == [(96, 32)]


def test_segments_are_of_32_64_and_128_bytes_by_the_words() -> None:
    rule = Rule("half_warp_any_order")
    assert rule.transactions([0, 32], 1) == [(0, 32), (32, 32)]
    assert rule.transactions([0, 32, 64], 2) == [(0, 64), (64, 32)]
    assert rule.transactions([0, 32, 64], 4) == [(0, 128)]
    assert rule.transactions(lanes(16, step=8), 8) == [(0, 128)]
    assert rule.transactions(lanes(16, step=16), 16) == [(0, 128), (128, 128)]


def test_the_lowest_lane_that_is_left_chooses_the_segment() -> None:
    rule = Rule("half_warp_any_order")
    assert rule.transactions([256, 0, 260, 4]) == [(256, 32), (0, 32)]


# --- compute capability 2.x -------------------------------------------------------------------------------------------
def test_a_warp_moves_whole_lines() -> None:
    """The guide's figure G-1: aligned in any order one line, misaligned two."""
    rule = Rule("whole_lines")
    assert rule.transactions(lanes(32)) == [(0, 128)]
    assert rule.transactions(list(reversed(lanes(32)))) == [(0, 128)]
    assert rule.transactions(lanes(32, first=4)) == [(0, 128), (128, 128)]
    assert rule.transactions([0] * 32) == [(0, 128)]


def test_wide_words_are_requests_of_half_and_quarter_warps() -> None:
    """Two lanes of different requests that name one line move it twice."""
    rule = Rule("whole_lines")
    assert rule.transactions([0] * 32, 8) == [(0, 128)] * 2
    assert rule.transactions([0] * 32, 16) == [(0, 128)] * 4
    assert rule.transactions(lanes(32, step=8), 8) == [(0, 128), (128, 128)]
    assert rule.transactions(lanes(32, step=16), 16) == [(n * 128, 128) for n in range(4)]


# --- Cypress and Cayman -----------------------------------------------------------------------------------------------
def test_a_quarter_wavefront_moves_lines_of_64_bytes() -> None:
    rule = Rule("quarter_wavefront", 64)
    assert rule.transactions(lanes(64)) == [(64 * n, 64) for n in range(4)]
    assert rule.transactions(lanes(16, first=4)) == [(0, 64), (64, 64)]
    assert rule.transactions([0] * 64) == [(0, 64)] * 4
    assert rule.transactions(lanes(16, step=64)) == [(64 * n, 64) for n in range(16)]


def test_addresses_take_16_cycles_on_cypress_and_4_or_8_on_cayman() -> None:
    """Single words: 16 cycles where each has an address, 4 where neighbours share one, 8 for 64 bits; 16 bytes per lane fill each address."""
    cypress, cayman = Rule("quarter_wavefront", 64), Rule("quarter_wavefront_joined", 64)
    for size, joined_cycles in ((4, 4), (8, 8), (16, 16)):
        addresses = [size * lane for lane in range(64)]
        assert cypress.address_cycles(addresses) == 16
        assert cayman.address_cycles(addresses) == joined_cycles
        assert cayman.address_cycles(addresses, filtered=True) == 16, "the lanes of a filter do not share addresses"
    scattered = [256 * lane for lane in range(64)]
    assert cypress.address_cycles(scattered) == cayman.address_cycles(scattered) == 16


# --- in a launch ------------------------------------------------------------------------------------------------------
SOURCE = r"""
extern "C" __global__ void shifted(const float *x, float *y, int by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i + by];
}
"""


def traffic(rule: str, by: int) -> ww.Run:
    """A launch that copies with an offset."""
    gpu = ww.GPU("h200", coalescing=rule)
    x = np.arange(1 << 16, dtype=np.float32)
    y = np.zeros(1 << 15, np.float32)
    run = gpu.compile(SOURCE)["shifted"][128, 256](x, y, np.int32(by))
    assert (y == x[by : by + (1 << 15)]).all()
    return run


def test_a_launch_follows_the_rule_of_its_chip() -> None:
    """Aligned reads are the same for all; shifted ones ask L1 for more, by the rule's count."""
    warps = 128 * 8
    for rule, aligned, shifted in (
        ("whole_warp", 4, 5),
        ("half_warp_in_order", 4, 32),
        ("half_warp_any_order", 4, 4 + 2 + 1),
        ("whole_lines", 4, 8),
    ):
        for by, sectors in ((0, aligned), (1, shifted)):
            metrics = traffic(rule, by).metrics
            assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == pytest.approx(warps * sectors, rel=0.02)


def test_the_chip_file_names_the_rule() -> None:
    assert load_chip("g80").l1.coalescing == "half_warp_in_order"
    assert {load_chip(name).l1.coalescing for name in ("p100", "v100", "a100", "h200")} == {"whole_warp"}
    assert len(COALESCING) == 6
    with pytest.raises(ww.ChipError, match="field 'coalescing' of chip 'h200' must be 'whole_warp', "):
        load_chip("h200", coalescing="sideways")
