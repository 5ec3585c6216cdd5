"""Constant caches of the timing model, on instructions written by hand; figures from ``bench.micro`` on an H200."""

from __future__ import annotations

import pytest

from tests.timing_synthetic import Synthetic, gather, run
from warpwright.chips import load_chip
from warpwright.isa.ops import Access
from warpwright.isa.program import Kind, Operand

LINE, BLOCK = 64, 256


def place(offset: int = 0, bank: int = 3, index: int | None = None) -> Operand:
    base = None if index is None else Operand(Kind.REGISTER, index=index)
    return Operand(Kind.CONSTANT, index=bank, value=offset, base=base)


def lookups(offsets: list[list[int]], warps: int = 1) -> int:
    """Cycles of LDCs that wait for each other, one for each list of the lanes' offsets in bank 3."""
    kernel = Synthetic()
    for _ in offsets:
        kernel.add(
            "LDC", writes=[4], operands=[place(index=2)], access=Access("constant", 4), kind="touch",
            write_barrier=0, wait=[0], stall=2,
        )  # fmt: skip
    kernel.add("IADD3", writes=[5], reads=[4], wait=[0], stall=4)
    records = [gather([lanes[n % len(lanes)] for n in range(32)]) for lanes in offsets]
    return run(kernel.exit(), lambda block, warp: [(0, records)], block=32 * warps).cycles


def last(before: list[list[int]], one: list[int]) -> int:
    """What one more LDC takes."""
    return lookups([*before, one]) - lookups(before)


WARM = [[0], [64], [128], [192]]


@pytest.mark.parametrize("words", [1, 2, 8, 32])
def test_each_further_different_word_takes_eleven_cycles(words: int) -> None:
    assert last(WARM, [4 * n for n in range(words)]) == pytest.approx(last(WARM, [0]) + 11 * (words - 1), abs=1)


def test_words_of_one_place_are_one() -> None:
    assert last(WARM, [8, 12] * 16) == last(WARM, [8, 12])


@pytest.mark.parametrize("lines", [1, 4, 8])
def test_each_missed_line_takes_seventy_cycles_more(lines: int) -> None:
    blocks = [[BLOCK * n + LINE * k for k in range(3)] for n in range(lines)]  # brings the blocks, not their last lines
    words = [BLOCK * n + LINE * 3 for n in range(lines)]
    hits = last([*blocks, words], words)
    assert last(blocks, words) == pytest.approx(hits + 70 * lines, abs=1)


@pytest.mark.parametrize(("lines", "extra"), [(32, 0), (33, 70)])
def test_the_first_level_holds_32_lines_first_in_first_out(lines: int, extra: int) -> None:
    every = [[LINE * n] for n in range(lines)]
    assert last(every * 2, [0]) == pytest.approx(last(WARM, [0]) + extra, abs=1)


def test_a_block_of_256_bytes_comes_from_memory_at_its_first_touch() -> None:
    chip = load_chip("h200")
    beyond = chip.constant_cache.l2_constant_latency_cycles - chip.constant_cache.ldc_latency_cycles
    memory = chip.dram.dram_latency_cycles - chip.l2.l2_hit_latency_cycles
    assert last(WARM, [1024]) == pytest.approx(last(WARM, [0]) + beyond + memory, abs=2)
    assert last([*WARM, [1024]], [1024 + LINE]) == pytest.approx(last(WARM, [0]) + 70, abs=1)


def test_an_sm_takes_two_cycles_a_different_word() -> None:
    words = [4 * n for n in range(32)]
    spent = lookups([*WARM, *[words] * 9], warps=16) - lookups([*WARM, words], warps=16)
    assert spent == pytest.approx(8 * 16 * 32 * 2, rel=0.05)


def operands(offsets: list[int], bank: int) -> int:
    """Cycles of additions whose operands are constants."""
    kernel = Synthetic()
    for offset in offsets:
        kernel.add("IADD3", writes=[4], reads=[5], operands=[place(offset, bank)], stall=4)
    return run(kernel.exit()).cycles


def test_an_operand_waits_for_its_line_once_and_parameters_lie_in_the_second_level() -> None:
    hit = operands([0, 4, 8], 0) - operands([0, 4], 0)
    assert operands([0, 4, LINE], 0) - operands([0, 4], 0) == pytest.approx(hit + 49, abs=1)
    assert operands([0, 4, BLOCK], 0) - operands([0, 4], 0) == pytest.approx(hit + 49, abs=1)
    assert operands([0, 4, BLOCK], 3) - operands([0, 4], 3) > hit + 250


def test_a_sub_core_has_twelve_ldcs_in_flight() -> None:
    """H200 (``bench.machine.first_loads --starts``): of 64 warps that begin with an LDC, 48 begin at once, the others when the first constants have arrived."""

    def waited(count: int) -> int:
        kernel = Synthetic()
        for _ in range(count):
            kernel.add("LDC", writes=[4], operands=[place(index=2)], access=Access("constant", 4), kind="touch", write_barrier=0, stall=2)  # fmt: skip
        return int(run(kernel.exit(), lambda block, warp: [(0, [gather([0] * 32)] * count)]).stalls["mio_throttle"])

    assert waited(12) < 60 < 250 < waited(13)


def test_a_uniform_load_without_a_counter_leaves_the_queue_alone() -> None:
    store = Access("global", 4)

    def waited(opcode: str) -> int:
        kernel = Synthetic()
        for _ in range(40):
            kernel.add("STG", reads=[2, 3], access=store, kind="store", stall=1)
        kernel.add(opcode, operands=[place(8, 0)], stall=2, write_barrier=7 if opcode == "ULDC" else 0)
        kernel.add("IADD3", writes=[4], reads=[5], stall=4, wait=[] if opcode == "ULDC" else [0])
        records = [gather([(1 << 43) + 128 * (32 * k + n) for n in range(32)]) for k in range(40)]
        result = run(kernel.exit(), lambda block, warp: [(0, records)])
        return int(result.instruction_stalls[40:42].sum())

    assert waited("ULDC") < 64 < 500 < waited("LDC")


def uniform_loads(lines: list[int], warps: int = 1) -> int:
    """Cycles of ULDCs with an index, one for each line, that no dependence counter guards."""
    kernel = Synthetic()
    for _ in lines:
        kernel.add("ULDC", operands=[place(index=2)], access=Access("constant", 4), kind="touch", stall=11)
    records = [gather([LINE * line] * 32) for line in lines]
    return run(kernel.exit(), lambda block, warp: [(0, records)], block=32 * warps).cycles


@pytest.mark.parametrize(("lines", "extra"), [(1, 0), (4, 0), (5, 59), (8, 59)])
def test_four_lines_of_indexed_uldcs_are_found_again(lines: int, extra: int) -> None:
    brought = list(range(8))  # of all blocks, which come from far away the first time
    once = [*brought, *range(lines), *range(lines)]
    again = uniform_loads([*once, *range(lines)]) - uniform_loads(once)
    assert again == pytest.approx(lines * (11 + extra), abs=2)


def test_sub_cores_keep_lines_of_their_own() -> None:
    every = [*range(8), *range(4)]
    one, four = (uniform_loads([*every, *range(4)], warps) - uniform_loads(every, warps) for warps in (1, 4))
    assert one == pytest.approx(four, abs=2)
