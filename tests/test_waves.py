"""The contract of waves of 16, 32 and 64 lanes, on an instruction set of the tests' own (``wave_machine.py``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.wave_machine import WIDTHS, Run, Words
from warpwright.engine.abi import Status
from warpwright.engine.jit.codegen import TargetChoice
from warpwright.engine.jit.host_machine import Registers
from warpwright.engine.jit.shape_inference import CodeForm
from warpwright.isa.ops import Op

pytestmark = pytest.mark.parametrize("lanes", WIDTHS)
AVX2 = Registers(masks=False, words=8)
SSE = Registers(masks=False, words=4)
Reference = Callable[[int, Words], Words]


def mask_words(lanes: int, mask: int) -> list[int]:
    """A mask as VOTE leaves it: one word, or two for 64 lanes."""
    return [mask & 0xFFFFFFFF, mask >> 32] if lanes == 64 else [mask, 0]


def both(lanes: int, text: str, words: Words, threads: int = 0, blocks: int = 1) -> Words:
    """Run in the interpreter and, in three forms, compiled; all must agree, also in what was executed."""
    run = Run(lanes, text, words, threads, blocks)
    found, outcome = run.interpreted()
    assert outcome.status is Status.EXIT
    for options in (
        {},
        {"target": TargetChoice(registers=AVX2, ordinary_calls=True)},
        {"target": TargetChoice(registers=SSE)},
        {"form": CodeForm(patterns=False)},
    ):
        other = Run(lanes, text, words, threads, blocks)
        result, counts = other.compiled(**options)
        np.testing.assert_array_equal(result, found, err_msg=str(options))
        assert counts.warp_instructions == outcome.instructions
        assert counts.thread_instructions == outcome.thread_instructions
    return found


def zeros(count: int) -> Words:
    return np.zeros(count, np.uint32)


# --- what lanes do by themselves -----------------------------------------------------------------------------------
def test_arithmetic_is_each_lanes_own(lanes: int) -> None:
    text = """
        LANE r0
        MUL r1 r0 3
        ADD r1 r1 7
        XOR r1 r1 r0
        ST r0 r1
        EXIT
    """
    lane = np.arange(lanes, dtype=np.uint32)
    np.testing.assert_array_equal(both(lanes, text, zeros(lanes)), (lane * 3 + 7) ^ lane)


def test_the_last_wave_of_a_block_may_have_fewer_threads(lanes: int) -> None:
    threads = 2 * lanes + lanes // 2 - 1
    text = """
        TID r0
        LANE r1
        SHL r2 r0 1
        ST r2 r0
        ADD r2 r2 1
        ST r2 r1
        EXIT
    """
    found = both(lanes, text, zeros(6 * lanes), threads)
    n = np.arange(threads)
    np.testing.assert_array_equal(found[: 2 * threads : 2], n)
    np.testing.assert_array_equal(found[1 : 2 * threads : 2], n % lanes)
    assert not found[2 * threads :].any()


@pytest.mark.parametrize("order", ["forward", "backward", "scattered", "one place"])
def test_loads_and_stores_of_every_order(lanes: int, order: str) -> None:
    index = {
        "forward": "ADD r1 r0 0",
        "backward": f"SUB r1 {lanes - 1} r0",
        "scattered": f"MUL r1 r0 5\nAND r1 r1 {lanes - 1}",
        "one place": "SET r1 3",
    }[order]
    text = f"""
        LANE r0
        {index}
        LD r2 r1
        ADD r3 r1 {lanes}
        ST r3 r2
        EXIT
    """
    words = np.concatenate([np.random.default_rng(1).integers(1, 1 << 32, lanes, np.uint32), zeros(lanes)])
    found = both(lanes, text, words)
    lane = np.arange(lanes)
    places = {"forward": lane, "backward": lane[::-1], "scattered": lane * 5 % lanes, "one place": lane * 0 + 3}[order]
    expected = zeros(lanes)
    expected[places] = words[places]
    np.testing.assert_array_equal(found[lanes:], expected)


def test_partial_waves_at_the_end_of_an_array_touch_nothing_else(lanes: int) -> None:
    text = f"""
        LANE r0
        LESS p0 r0 {lanes - 3}
        @p0 LD r1 r0
        @p0 ADD r1 r1 1
        @p0 ST r0 r1
        EXIT
    """
    # The buffer ends where the last executing lane is: any other access would be a fault.
    words = np.arange(lanes - 3, dtype=np.uint32)
    np.testing.assert_array_equal(both(lanes, text, words), words + 1)


# --- lanes that part -----------------------------------------------------------------------------------------------
PARTS = """
        LANE r0
        SET r3 0
        SPLIT 0 meet
        LESS p0 r0 {cut}
        @p0 BRA small
        MUL r1 r0 2
        BRA meet
small:  ADD r1 r0 100
        SET r4 0
turn:   ADD r4 r4 1            # lane n turns n + 1 times
        ADD r3 r3 2
        LESS p1 r0 r4
        @!p1 BRA turn
meet:   SYNC 0
        LESS p2 r0 {lanes}
        VOTE r5 p2             # all together again
        SHL r2 r0 2
        ST r2 r1
        ADD r2 r2 1
        ST r2 r3
        ADD r2 r2 1
        ST r2 r5
        ADD r2 r2 1
        ST r2 r6
        EXIT
"""


@pytest.mark.parametrize("by", ["barrier", "stack"])
def test_lanes_that_part_meet_again(lanes: int, by: str) -> None:
    cut = lanes // 2 + 3
    text = PARTS.format(cut=cut, lanes=lanes)
    if by == "stack":
        text = text.replace("SPLIT 0 meet", "MEET after").replace("meet:   SYNC 0", "meet:   JOIN\nafter:")
    found = both(lanes, text, zeros(4 * lanes)).reshape(lanes, 4)
    lane = np.arange(lanes)
    small = lane < cut
    np.testing.assert_array_equal(found[:, 0], np.where(small, lane + 100, lane * 2))
    np.testing.assert_array_equal(found[:, 1], np.where(small, 2 * (lane + 1), 0))
    assert found[:, 2:].tolist() == [mask_words(lanes, (1 << lanes) - 1)] * lanes


def test_lanes_that_end_leave_the_others_alone(lanes: int) -> None:
    text = f"""
        LANE r0
        AND r1 r0 1
        LESS p0 r1 1
        @!p0 EXIT
        LESS p1 r0 {lanes}
        VOTE r2 p1
        SHL r4 r0 1
        ST r4 r2
        ADD r4 r4 1
        ST r4 r3
        EXIT
    """
    found = both(lanes, text, zeros(2 * lanes)).reshape(lanes, 2)
    even = sum(1 << n for n in range(0, lanes, 2))
    assert found[::2].tolist() == [mask_words(lanes, even)] * (lanes // 2)
    assert not found[1::2].any()


# --- across lanes --------------------------------------------------------------------------------------------------
def test_votes_and_matches_have_a_bit_for_each_lane(lanes: int) -> None:
    text = f"""
        LANE r0
        MUL r1 r0 7
        AND r1 r1 {lanes - 1}
        LESS p0 r1 {lanes // 3}
        VOTE r2 p0
        AND r6 r0 3
        MATCH r4 r6
        SHL r8 r0 2
        ST r8 r2
        ADD r8 r8 1
        ST r8 r3
        ADD r8 r8 1
        ST r8 r4
        ADD r8 r8 1
        ST r8 r5
        EXIT
    """
    found = both(lanes, text, zeros(4 * lanes)).reshape(lanes, 4)
    vote = sum(1 << n for n in range(lanes) if n * 7 % lanes < lanes // 3)
    for n in range(lanes):
        alike = sum(1 << other for other in range(lanes) if other % 4 == n % 4)
        assert found[n].tolist() == mask_words(lanes, vote) + mask_words(lanes, alike)


def test_shuffles_reach_every_lane_and_wrap(lanes: int) -> None:
    text = f"""
        LANE r0
        MUL r1 r0 r0
        ADD r2 r0 5            # beyond the last lane: the number modulo the lanes
        SHFL r3 r1 r2
        LD r4 r0               # lanes that are known only when it runs
        SHFL r5 r1 r4
        SHFL r6 r1 {lanes - 1}
        MUL r7 r0 3
        ST r7 r3
        ADD r7 r7 1
        ST r7 r5
        ADD r7 r7 1
        ST r7 r6
        EXIT
    """
    words = np.concatenate([np.random.default_rng(2).integers(0, 4 * lanes, lanes, np.uint32), zeros(2 * lanes)])
    found = both(lanes, text, words).reshape(lanes, 3)
    square = np.arange(lanes) ** 2
    np.testing.assert_array_equal(found[:, 0], square[(np.arange(lanes) + 5) % lanes])
    np.testing.assert_array_equal(found[:, 1], square[words[:lanes] % lanes])
    np.testing.assert_array_equal(found[:, 2], square[-1])


def test_sums_go_over_the_executing_lanes(lanes: int) -> None:
    text = f"""
        LANE r0
        SUM r1 r0
        LESS p0 r0 {lanes - 5}
        @p0 SUM r2 r0
        SHL r3 r0 1
        ST r3 r1
        ADD r3 r3 1
        ST r3 r2
        EXIT
    """
    found = both(lanes, text, zeros(2 * lanes)).reshape(lanes, 2)
    assert (found[:, 0] == sum(range(lanes))).all()
    assert (found[: lanes - 5, 1] == sum(range(lanes - 5))).all()
    assert not found[lanes - 5 :, 1].any()


# --- waves of a block ----------------------------------------------------------------------------------------------
SHARED = """
        TID r0
        MUL r1 r0 r0
        STS r0 r1
        BAR
        SUB r2 {last} r0
        LDS r3 r2
        ST r0 r3
        EXIT
"""


@pytest.mark.parametrize("waves", [1, 3])
def test_shared_memory_is_exchanged_at_a_barrier(lanes: int, waves: int) -> None:
    threads = waves * lanes - 3
    found = both(lanes, SHARED.format(last=threads - 1), zeros(threads), threads)
    np.testing.assert_array_equal(found, np.arange(threads, dtype=np.uint32)[::-1] ** 2)


def test_atomics_count_every_lane_of_every_block(lanes: int) -> None:
    text = """
        TID r0
        AND r1 r0 3
        INC r2 r1 1
        EXIT
    """
    threads, blocks = 2 * lanes + 5, 3
    found = both(lanes, text, zeros(4), threads, blocks)
    np.testing.assert_array_equal(found, [blocks * len(range(n, threads, 4)) for n in range(4)])


# --- records and time ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("text", "threads"), [(PARTS, 1), (SHARED, 3)], ids=["parting", "shared"])
def test_a_timed_launch_reads_the_records_of_every_width(lanes: int, text: str, threads: int) -> None:
    """The cycle model follows basic blocks, lanes and addresses by the records: a word read amiss would end it, or change what was counted."""
    threads = threads * lanes - (0 if threads == 1 else 3)
    filled = text.format(cut=lanes // 2 + 3, lanes=lanes, last=threads - 1)
    expected, outcome = Run(lanes, filled, zeros(4 * lanes), threads).interpreted()
    run = Run(lanes, filled, zeros(4 * lanes), threads)
    result = run.timed()
    np.testing.assert_array_equal(run.result(), expected)
    assert int(result.metrics["smsp__inst_executed.sum"]) == outcome.instructions
    assert int(result.metrics["smsp__thread_inst_executed.sum"]) == outcome.thread_instructions


def test_a_block_of_1024_threads_is_timed_in_waves_of_every_width(lanes: int) -> None:
    """Of 16 lanes these are 64 waves, as many as an SM holds."""
    text = """
        TID r0
        BAR
        ST r0 r0
        BAR
        EXIT
    """
    threads = 1024
    run = Run(lanes, text, zeros(threads), threads)
    result = run.timed()
    np.testing.assert_array_equal(run.result(), np.arange(threads))
    assert int(result.metrics["smsp__thread_inst_executed.sum"]) == 5 * threads


@pytest.mark.parametrize(("stride", "shift"), [(1, 0), (2, 1), (8, 3), (32, 5)])
def test_an_access_asks_for_the_sectors_of_its_lanes(lanes: int, stride: int, shift: int) -> None:
    text = f"""
        LANE r0
        SHL r1 r0 {shift}
        LD r2 r1
        EXIT
    """
    result = Run(lanes, text, zeros(stride * lanes)).timed()
    sectors = -(-lanes * stride // 8) if stride < 8 else lanes
    assert int(result.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]) == sectors


@pytest.mark.parametrize(("shift", "lanes_on_a_bank"), [(0, 1), (1, 2), (2, 4)])
def test_shared_memory_serves_as_many_lanes_at_once_as_it_has_banks(
    lanes: int, shift: int, lanes_on_a_bank: int
) -> None:
    """32 banks: 64 lanes take two groups of 32, and 16 lanes fill half of the banks."""
    text = f"""
        LANE r0
        SHL r1 r0 {shift}
        LDS r2 r1
        EXIT
    """
    groups = max(lanes // 32, 1)
    passes = groups * max(lanes_on_a_bank * min(lanes, 32) // 32, 1)
    result = Run(lanes, text, zeros(4)).timed()
    assert int(result.metrics["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"]) == passes


def test_an_instruction_holds_its_pipe_for_its_lanes(lanes: int) -> None:
    """H200's 16 lanes of integer arithmetic take a wave of 16 in one cycle, of 32 in two, of 64 in four."""

    def cycles(count: int) -> int:
        text = "LANE r0\n" + "ADD r1 r0 1\n" * count + "EXIT"
        return Run(lanes, text, zeros(4), 4 * 4 * lanes).timed().cycles  # four waves on each sub-core

    each = (cycles(96) - cycles(32)) / 64 / 4
    assert each == pytest.approx(lanes / 16, rel=0.1)


def test_operations_of_warps_are_refused_to_waves_of_another_width(lanes: int) -> None:
    """The driver's functions, textures, bulk copies and tensor products are defined for 32 lanes."""
    run = Run(lanes, "LANE r0\nEXIT", zeros(1))
    run.lowered[0].ops.insert(1, Op("service", "i64", (), "malloc"))
    if lanes == 32:
        return
    with pytest.raises(
        ValueError, match=f"LANE at 0x0 uses service, which is defined for waves of 32 lanes, not of {lanes}"
    ):
        run.compiled()
    with pytest.raises(ValueError, match=f"operation service is one of waves of 32 lanes, not of {lanes}"):
        run.interpreted()
