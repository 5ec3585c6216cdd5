"""The memory system's rules, one by one: passes through L1, the store buffer, ports of L2 slices, atomics, refresh of DRAM's banks.

Values on H200 are those of ``bench/micro`` on a card (``bench/data/h200/README.md``); where a rule has an edge, both sides of it are pinned.
"""

import itertools
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.timing_synthetic import FULL, Synthetic, affine, device, gather, loop_cycles, run, shared
from warpwright.chips import load_chip
from warpwright.isa.ops import Access
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import (
    SOURCES,
    address_hash,
    atomics,
    coalescer,
    dram,
    exchange,
    instruction_table,
    l2,
    read_coalescer,
)
from warpwright.timing import state as s
from warpwright.timing.dram_rules import RULES, Rule
from warpwright.timing.reset import LaunchSizes, initial_state

GLOBAL2, GLOBAL4, GLOBAL8, GLOBAL16 = (Access("global", size) for size in (2, 4, 8, 16))
LINE, LANES = 128, range(32)
DATA = Path(__file__).parents[1] / "bench" / "data" / "h200"


@partial(entry, what="", sources=SOURCES)
def ask(state: Any, unit: int, line: int, sectors: int, held: int, time: int) -> int:
    """What a unit of the memory system answers: when it is done, or (``unit`` 4) which slice is a line's home."""
    m = words(state)
    if unit == 0:
        return l2.read(m, 0, address_hash.slice_of(m, line), line, sectors, time, False)
    if unit == 1:
        return l2.write(m, 0, address_hash.slice_of(m, line), line, sectors, held, time)
    if unit == 2:
        return dram.dram_read(m, 0, line, sectors, time)
    if unit == 3:
        return dram.dram_write(m, 0, line, sectors, time)
    if unit == 5:  # for an SM of the first GPC
        return read_coalescer.coalesced_read(m, 0, 0, address_hash.slice_of(m, line), line, sectors, time)
    if unit == 6:
        return atomics.atomic_change(m, 0, line, held == 1)
    if unit == 7:
        return atomics.atomic_cost(m, held, time == 1)
    if unit == 8:  # by an SM of the other partition
        return l2.write(m, 1, address_hash.slice_of(m, line), line, sectors, held, time)
    if unit == 9:  # an atomic's place at the home
        return l2.touch(m, address_hash.slice_of(m, line), line, time, False, 0)
    if unit == 10:
        return address_hash.bank_of(m, address_hash.bank_block(m, line))
    if unit == 11:
        return address_hash.channel_of(m, 0, line)
    return address_hash.slice_of(m, line)


def dram_bank(m: np.ndarray, line: int) -> int:
    return int(ask(m, 10, line, 0, 0, 0))


def dram_channel(m: np.ndarray, line: int) -> int:
    return int(ask(m, 11, line, 0, 0, 0))


def read(m: np.ndarray, line: int, sectors: int, time: int) -> int:
    return int(ask(m, 0, line, sectors, 0, time))


def write(m: np.ndarray, line: int, sectors: int, whole: int, time: int, partition: int = 0) -> int:
    held = sum((32 if (whole >> sector) & 1 else 4) << (16 * sector) for sector in range(4))
    return int(ask(m, 8 if partition else 1, line, sectors, held, time))


def dram_read(m: np.ndarray, line: int, sectors: int, time: int) -> int:
    return int(ask(m, 2, line, sectors, 0, time))


def dram_write(m: np.ndarray, line: int, sectors: int, time: int) -> int:
    return int(ask(m, 3, line, sectors, 0, time))


def idle(name: str = "h200", **what_if: int) -> np.ndarray:
    """State of a chip on which nothing has run."""
    return initial_state(load_chip(name, **what_if), LaunchSizes(100, 1, 1, 1)).words


def repeat(opcode: str, count: int, access: Access, kind: str, **options: object) -> Synthetic:
    """So many of one memory instruction, then EXIT."""
    kernel = Synthetic()
    for _ in range(count):
        kernel.add(opcode, reads=[0, 1], access=access, kind=kind, **options)
    return kernel.exit()


# --- loads through L1 -----------------------------------------------------------------------------------
def load_passes(record: list[int], access: Access = GLOBAL4) -> float:
    """Cycles of the load/store unit for a load that hits L1."""
    kernel = repeat("LDG", 32, access, "load", writes=[4], stall=1)
    return loop_cycles(kernel, [record] * 32, block=512) / (32 * 16)


@pytest.mark.parametrize(("stride", "passes"), [(4, 1), (8, 2), (16, 4), (32, 8), (64, 16), (128, 32)])
def test_a_load_takes_a_pass_for_each_word_of_a_bank(stride: int, passes: int) -> None:
    assert load_passes(affine(device(0), stride)) == pytest.approx(passes, rel=0.03)


@pytest.mark.parametrize(
    ("lines", "passes"),
    [([0, 1], 1), ([0, 1, 2, 3], 1), ([0, 2, 4, 6], 1), ([0, 4, 8, 12], 1), ([0, 8, 16, 24], 1), ([0, 3, 6, 9], 3),
     (range(8), 2), (range(0, 24, 3), 5), (range(16), 4), (range(32), 8)],
)  # fmt: skip
def test_lines_of_different_tag_banks_pass_together(lines: list[int], passes: int) -> None:
    addresses = [device(lines[lane % len(lines)] * LINE + lane * 4) for lane in LANES]
    assert load_passes(gather(addresses)) == pytest.approx(passes, rel=0.03)


@partial(entry, what="", sources=SOURCES)
def passes_over(state: Any, sm: int, count: int) -> int:
    """Passes of the tag stage over the lines in the scratch of the SM that begins there."""
    m = words(state)
    return coalescer.tag_passes(m, sm, count, 4)


def test_lines_pass_together_where_a_card_s_do() -> None:
    """bench.micro ``tag_banks``: loads of two or three lines which differ in a bit or two take a cycle more where two share a bank."""
    m = idle()
    sm = int(m[s.chip.sm_first])
    rows = json.loads((DATA / "micro_turns.json").read_text())["results"]["tag_banks"]
    for row in rows:
        bits = [1 << int(bit) for bit in row["bits"].replace("+", ",").split(",")]
        lines = [0, sum(bits)] if "+" in row["bits"] else [0, *bits]
        m[sm + s.SM.lines : sm + s.SM.lines + len(lines)] = lines
        assert passes_over(m, sm, len(lines)) == round(row["value"] - 65.3), row["bits"]
    assert len(rows) == 324


def turn_cycles(kernel: Synthetic, records: Callable[[int, int], list[list[int]]], warps: int) -> float:
    """Cycles of one more turn by ``warps`` warps of an SM, each turn with records of its own."""

    def turns(count: int) -> int:
        return run(kernel, lambda _, warp: [(0, records(warp, i)) for i in range(count)], block=32 * warps).cycles

    return (turns(24) - turns(8)) / 16


@pytest.mark.parametrize(("sectors", "cycles"), [(1, 32), (2, 16), (4, 8)])
def test_one_line_that_l1_lacks_is_asked_for_a_cycle(sectors: int, cycles: int) -> None:
    """bench.micro ``miss_rate``, ``row_walks``: 1.00 to 1.07 cycles per line, whatever is asked of it (rows 4,100 bytes apart have no bank conflicts)."""
    kernel = Synthetic()
    for _ in range(8):
        kernel.add("LDG", writes=[4], reads=[0, 1], access=GLOBAL4, write_barrier=0)
    kernel.add("NOP", wait=[0]).exit()

    def records(warp: int, turn: int) -> list[list[int]]:
        def load(number: int) -> list[int]:
            base = ((warp * 24 + turn) * 8 + number) * 32 * 33 * LINE
            return gather([device(base + lane // sectors * (33 * LINE + 4) + lane % sectors * 32) for lane in LANES])

        return [load(number) for number in range(8)]

    assert turn_cycles(kernel, records, 32) / (32 * 8) == pytest.approx(cycles, rel=0.1)


def test_loads_that_wait_for_the_same_lines_pass_one_after_the_other() -> None:
    """bench.micro ``cold_walks``, one warp, rows 3,072 bytes apart: a turn of one load of 32 passes, which begins 64 bytes of each row, takes 1,030 cycles, of eight
    loads of the same sectors 1,267."""

    def cycles(loads: int) -> float:
        kernel = Synthetic()
        for _ in range(loads):
            kernel.add("LDG", writes=[4], reads=[0, 1], access=GLOBAL4, write_barrier=0, stall=2)
        kernel.add("NOP", wait=[0]).exit()
        return turn_cycles(kernel, lambda _, turn: [affine(device(64 * turn + 4 * k), 3072) for k in range(loads)], 1)

    assert cycles(8) - cycles(1) == pytest.approx(1267 - 1030, rel=0.1)


@pytest.mark.parametrize(
    ("access", "pitch", "cycles"),
    [(GLOBAL4, 4100, 70.9), (GLOBAL4, 3000, 74.9), (GLOBAL4, 8000, 79.2), (GLOBAL4, 4096, 83.5), (GLOBAL4, 3200, 92.2),
     (GLOBAL2, 4100, 72.2), (GLOBAL2, 3000, 76.8), (GLOBAL2, 4096, 103.5), (GLOBAL2, 3200, 109.1)],
)  # fmt: skip
def test_loads_and_stores_take_turns_at_l1_s_array(access: Access, pitch: int, cycles: float) -> None:
    """bench.micro ``copy_walks``, 16 warps: four loads and four stores in a row, each lane down a row of its own; the stores alone take 64 (3,200 bytes apart 77 with
    two bytes)."""
    kernel = Synthetic()
    for k in range(4):
        kernel.add("LDG", writes=[4 + k], reads=[0, 1], access=access, write_barrier=0, stall=2)
    for k in range(4):
        kernel.add("STG", reads=[0, 4 + k], access=access, kind="store", wait=[0], stall=2)
    kernel.exit()

    def records(warp: int, turn: int) -> list[list[int]]:
        rows = [device(warp * 32 * pitch + (4 * turn + k) * access.bytes) for k in range(4)]
        return [*(affine(row, pitch) for row in rows), *(affine(row + (16 << 20), pitch) for row in rows)]

    assert turn_cycles(kernel, records, 16) / 64 == pytest.approx(cycles, rel=0.15)


@pytest.mark.parametrize(("stride", "cycles"), [(4, 3.7), (16, 6.9), (32, 11.1), (64, 18.1), (128, 34.3)])
def test_a_store_of_a_line_takes_less_of_l1_s_array_than_of_the_output(stride: int, cycles: float) -> None:
    """bench.micro ``store_beside``: a load that hits, of 1 to 32 passes, and a store of a whole line."""
    kernel = Synthetic()
    kernel.add("LDG", writes=[4], reads=[0, 1], access=GLOBAL4, stall=2)
    kernel.add("STG", reads=[0, 1], access=GLOBAL4, kind="store", stall=2).exit()

    def records(warp: int, turn: int) -> list[list[int]]:
        return [affine(device(0), stride), affine(device((1 << 20) + (warp * 64 + turn) * LINE), 4)]

    assert turn_cycles(kernel, records, 16) / 16 == pytest.approx(cycles, rel=0.17)


@pytest.mark.parametrize(
    ("access", "pitch", "cycles"),
    [(GLOBAL4, 3072, 64), (GLOBAL2, 4096, 65), (GLOBAL2, 2560, 71), (GLOBAL2, 2816, 80), (GLOBAL2, 3072, 86), (GLOBAL2, 2304, 88), (GLOBAL2, 3000, 64),
     (GLOBAL2, 4100, 64)],
)  # fmt: skip
def test_stores_of_two_bytes_to_one_bank_take_longer_for_each_pass_over_tags(
    access: Access, pitch: int, cycles: float
) -> None:
    """bench.micro ``narrow_stores``, 16 warps."""

    def records(warp: int, turn: int) -> list[list[int]]:
        return [affine(device(warp * 32 * pitch + (4 * turn + k) * access.bytes), pitch) for k in range(4)]

    assert turn_cycles(repeat("STG", 4, access, "store", stall=2), records, 16) / 64 == pytest.approx(cycles, rel=0.06)


def test_stores_wait_a_cycle_for_each_line_that_comes() -> None:
    """bench.micro ``few_sms``: one SM copies a line in 5.2 cycles."""
    kernel, access, lines = Synthetic(), GLOBAL16, 4
    for k in range(4):
        kernel.add("LDG", writes=[4 + 4 * k], reads=[0, 1], access=access, write_barrier=0, stall=2)
    for k in range(4):
        kernel.add("STG", reads=[0, 4 + 4 * k], access=access, kind="store", wait=[0], stall=2)
    kernel.exit()

    def records(warp: int, turn: int) -> list[list[int]]:
        rows = [device(((warp * 32 + turn) * 4 + k) * lines * LINE) for k in range(4)]
        return [*(affine(row, access.bytes) for row in rows), *(affine(row + (16 << 20), access.bytes) for row in rows)]

    assert turn_cycles(kernel, records, 32) / (32 * 4 * lines) == pytest.approx(5.2, rel=0.08)


@pytest.mark.parametrize(("access", "passes"), [(GLOBAL4, 1), (GLOBAL8, 2), (GLOBAL16, 4)])
def test_neighbouring_lanes_take_one_pass_wherever_they_begin(access: Access, passes: int) -> None:
    record = affine(device(access.bytes), access.bytes)
    assert load_passes(record, access) == pytest.approx(passes, rel=0.03)


def test_l1_holds_its_whole_size() -> None:
    kernel = repeat("LDG", 1, GLOBAL4, "load", writes=[4], wait=[0], write_barrier=0, stall=2)
    lines = 200 * 1024 // LINE
    records = [affine(device(i * LINE)) for i in range(lines)]
    metrics = run(kernel, lambda b, w: [(0, [record]) for record in records * 2]).metrics
    hits = metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]
    assert hits >= 0.99 * 4 * lines


@pytest.mark.parametrize(("left_kib", "fits_kib"), [(224, 216), (192, 184), (60, 52), (28, 20)])
def test_8_kib_of_what_the_carve_out_leaves_hold_no_lines(left_kib: int, fits_kib: int) -> None:
    """bench.micro ``capacity``."""
    m = initial_state(load_chip("h200"), LaunchSizes(left_kib, 1, 1, 1)).words
    assert m[s.chip.l1_sets] * m[s.chip.l1_ways] == fits_kib * 1024 // LINE


def test_a_walk_over_more_than_l1_holds_finds_a_part_of_it() -> None:
    """bench.micro ``capacity``: of 248 KiB where 216 fit 49 % are found, of 320 none; the least recently used line to go would leave nothing of either."""
    kernel = repeat("LDG", 1, GLOBAL4, "load", writes=[4], wait=[0], write_barrier=0, stall=2)

    def found(kib: int) -> float:
        records = [affine(device(i * LINE), 0, 1) for i in range(kib * 8)]
        metrics = run(kernel, lambda b, w: [(0, [record]) for record in records * 3]).metrics
        return metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] / (2 * len(records))

    assert 0.35 < found(248) < 0.7
    assert found(432) < 0.2


def test_sectors_and_hits_are_counted() -> None:
    kernel = repeat("LDG", 3, GLOBAL4, "load", writes=[4], write_barrier=0, wait=[0], stall=2)
    records = [affine(device(0)), affine(device(0)), affine(device(0), 8)]
    metrics = run(kernel, lambda b, w: [(0, records)], chip="v100").metrics
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 4 + 4 + 8
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 0 + 4 + 4
    assert metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == 8
    assert metrics["dram__bytes_read.sum"] == 8 * 32


def test_what_crosses_to_the_other_partition_is_looked_up_twice() -> None:
    kernel = repeat("LDG", 1, GLOBAL4, "load", writes=[4], write_barrier=0, wait=[0], stall=2)
    looked_up = set()
    for chunk in range(64):
        metrics = run(kernel, lambda b, w, chunk=chunk: [(0, [affine(device(512 * chunk))])]).metrics
        looked_up.add((metrics["lts__t_sectors_op_read.sum"], metrics["lts__t_sectors_lookup_hit.sum"]))
    (near, found), (far, found_far) = sorted(looked_up)
    assert (far - near, found_far - found) == (4, 0)


def test_a_sector_that_crosses_to_the_other_partition_takes_its_pair_along() -> None:
    kernel = repeat("LDG", 1, GLOBAL4, "load", writes=[4], write_barrier=0, wait=[0], stall=2)
    across = set()
    for chunk in range(64):
        metrics = run(kernel, lambda b, w, chunk=chunk: [(0, [affine(device(512 * chunk), 0)])]).metrics
        across.add(metrics["lts__t_sectors_srcunit_ltcfabric_op_read.sum"])
    assert max(across) - min(across) == 2


def test_a_launch_looks_up_code_and_fences() -> None:
    """bench.micro ``scattered_once`` on H200: 9 pairs of an SM and a slice 2979 fences, 12,408 pairs 25,380; eight GPCs fetch the code."""
    kernel = repeat("LDG", 1, GLOBAL4, "load", writes=[4], write_barrier=0, wait=[0], stall=2)
    metrics = run(kernel, lambda b, w: [(0, [affine(device(512 * 20 * (b % 9)))])], grid=9).metrics
    assert metrics["lts__t_sectors_op_membar.sum"] == pytest.approx(2979, rel=0.01)
    assert metrics["lts__t_sectors_srcunit_gcc_op_read.sum"] == 8 * (8 + 90)
    everywhere = run(
        repeat("LDG", 512, GLOBAL4, "load", stall=2),
        lambda b, w: [(0, [affine(device(256 * i)) for i in range(512)])],
        grid=132,
    ).metrics
    assert everywhere["lts__t_sectors_op_membar.sum"] == pytest.approx(25_380, rel=0.01)


def test_a_hit_on_an_outstanding_miss_joins_it() -> None:
    kernel = repeat("LDG", 8, GLOBAL4, "load", writes=[4], write_barrier=0, stall=2)
    result = run(kernel, lambda b, w: [(0, [affine(device(0))] * 8)], chip="v100")
    assert result.metrics["lts__t_sectors_srcunit_tex_op_read.sum"] == 4


@pytest.mark.parametrize(("apart", "hits"), [(2, 0), (7, 0), (8, 1), (11, 1)])
def test_misses_of_a_line_a_few_cycles_apart_leave_as_one_request(apart: int, hits: int) -> None:
    """The second sector of a pair from DRAM is found by a request that comes 8 cycles later; before that it leaves with the first one."""

    def found(*sectors: int) -> float:
        kernel = Synthetic()
        for n in range(len(sectors)):
            kernel.add("LDG", writes=[4 + n], reads=[0, 1], access=GLOBAL4, write_barrier=n, stall=apart)
        kernel.exit()
        records = [affine(device(32 * sector), 0, 1) for sector in sectors]
        return run(kernel, lambda b, w: [(0, records)]).metrics["lts__t_sectors_lookup_hit.sum"]

    # One sector across the link or not: both cases look up as many when nothing is found.
    assert found(0, 1) - found(0, 2) == hits


Step = tuple[str, list[int]]
WHOLE_LINE, FIRST_WORD, SECOND_SECTOR = affine(device(0)), affine(device(0), 0, 1), affine(device(32), 4, 0xFF)


def found_in_l1(*steps: Step, wait: bool = True, chip: str = "h200") -> float:
    """Sectors that the last load finds in L1 behind the others' steps, each of which waits for the load before it."""

    def hits(these: tuple[Step, ...]) -> float:
        kernel = Synthetic()
        for opcode, _ in these:
            if opcode == "LDG":
                kernel.add("LDG", writes=[4], reads=[0, 1], access=GLOBAL4, write_barrier=0, wait=[0], stall=2)
            else:
                kind = "store" if opcode == "STG" else "atomic"
                access = GLOBAL4 if opcode == "STG" else ADD4
                kernel.add(opcode, reads=[0, 1], access=access, kind=kind, wait=[0] if wait else [], stall=2)
        kernel.exit()
        visits: list[list[list[int]]] = [[]]  # an atomic begins a basic block
        for opcode, record in these:
            if opcode == "RED":
                visits.append([])
            visits[-1].append(record)
        metrics = run(kernel, lambda b, w: list(enumerate(visits)), chip=chip).metrics
        return metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]

    return hits(steps) - hits(steps[:-1])


def test_l1_keeps_what_stores_write() -> None:
    """bench.micro ``kept``: words of a line of which L1 held nothing, words of a line that it held, words that together are a sector."""
    load, store = ("LDG", WHOLE_LINE), ("STG", WHOLE_LINE)
    word = ("STG", FIRST_WORD)
    assert found_in_l1(store, load) == found_in_l1(load, store, load) == 4
    assert found_in_l1(word, load) == 0
    assert found_in_l1(word, ("LDG", FIRST_WORD)) == 1
    assert found_in_l1(word, ("LDG", affine(device(4), 0, 1))) == 0
    assert found_in_l1(load, word, load) == found_in_l1(store, word, load) == 4
    even, odd = ("STG", affine(device(0), 4, 0x55555555)), ("STG", affine(device(0), 4, 0xAAAAAAAA))
    assert found_in_l1(even, load) == 0
    assert found_in_l1(even, odd, load) == 4
    assert found_in_l1(("STG", SECOND_SECTOR), load) == 1


def lost_behind(first: list[int], then: list[int], apart: int) -> float:
    """Sectors of a line that a load lacks long behind two stores that issue so many cycles apart."""
    kernel = Synthetic()
    for cycles in (apart, 400):
        kernel.add("STG", reads=[0, 1], access=GLOBAL4, kind="store", stall=1)
        for _ in range(cycles - 1):
            kernel.add("NOP", stall=1)
    kernel.add("LDG", writes=[4], reads=[0, 1], access=GLOBAL4, write_barrier=0, stall=2).exit()
    metrics = run(kernel, lambda b, w: [(0, [first, then, WHOLE_LINE])]).metrics
    return 4 - metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"]


def test_a_store_to_a_line_that_is_on_its_way_out_costs_l1_what_the_one_before_wrote() -> None:
    """bench.micro ``kept_behind``: of stores of half a line, of three sectors and one, of one and three, back to back and with one and two products between, which take the register that the store reads."""
    half, other_half = affine(device(0), 4, 0xFFFF), affine(device(64), 4, 0xFFFF)
    sector, three = affine(device(0), 4, 0xFF), affine(device(32), 4, 0xFFFFFF)
    lost = {pair: [] for pair in ("halves", "three, one", "one, three", "a line twice")}  # type: dict[str, list[float]]
    for apart in (4, 19, 23):
        lost["halves"].append(lost_behind(half, other_half, apart))
        lost["three, one"].append(lost_behind(three, sector, apart))
        lost["one, three"].append(lost_behind(sector, three, apart))
        lost["a line twice"].append(lost_behind(WHOLE_LINE, WHOLE_LINE, apart))
    assert lost == {"halves": [0, 2, 0], "three, one": [0, 3, 0], "one, three": [0, 0, 0], "a line twice": [0, 0, 0]}


def test_what_comes_for_a_line_that_was_stored_to_meanwhile_is_not_kept() -> None:
    load = ("LDG", WHOLE_LINE)
    assert found_in_l1(load, ("STG", FIRST_WORD), load, wait=False) == 0
    assert found_in_l1(load, ("STG", SECOND_SECTOR), load, wait=False) == 1
    assert found_in_l1(load, ("STG", WHOLE_LINE), load, wait=False) == 4


def test_an_atomic_drops_its_line_from_l1() -> None:
    load = ("LDG", WHOLE_LINE)
    assert found_in_l1(load, ("RED", FIRST_WORD), load) == 0
    assert found_in_l1(load, ("RED", affine(device(LINE), 0, 1)), load) == 4


def test_pascal_drops_what_is_stored_to() -> None:
    load = ("LDG", WHOLE_LINE)
    assert found_in_l1(("STG", WHOLE_LINE), load, chip="p100") == 0
    assert found_in_l1(load, ("STG", FIRST_WORD), load, chip="p100") == 3


# --- stores ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("access", "stride", "cycles"), [
    (GLOBAL4, 4, 4), (GLOBAL8, 8, 8), (GLOBAL16, 16, 16),  # whole sectors, one per cycle
    (GLOBAL4, 8, 10), (GLOBAL4, 16, 20), (GLOBAL4, 32, 40),  # partial ones, and a cycle for each line of them
    (GLOBAL4, 64, 48), (GLOBAL4, 128, 64), (GLOBAL4, 0, 2),  # two cycles per line at least
])  # fmt: skip
def test_a_store_takes_what_a_card_shows(access: Access, stride: int, cycles: int) -> None:
    kernel = repeat("STG", 1, access, "store", stall=2)

    def turns(count: int) -> int:
        def trace(block: int, warp: int) -> list[tuple[int, list[list[int]]]]:
            return [(0, [affine(device((warp * 64 + i) * 8192), stride)]) for i in range(count)]

        return run(kernel, trace, block=512).cycles

    assert (turns(48) - turns(16)) / (32 * 16) == pytest.approx(cycles, rel=0.05)


def stores_at_l2(apart: int, second: int = 4) -> float:
    """Sectors that L2 sees of two stores of a word, the second issued ``apart`` cycles after the first."""
    kernel = Synthetic()
    kernel.add("STG", reads=[0, 1], access=GLOBAL4, kind="store", stall=min(apart, 11))
    left = apart - min(apart, 11)
    while left:
        kernel.add("NOP", stall=min(left, 11))
        left -= min(left, 11)
    kernel.add("STG", reads=[0, 1], access=GLOBAL4, kind="store", stall=2).exit()
    metrics = run(
        kernel, lambda b, w: [(0, [affine(device(0), 0, 1), affine(device(second), 0, 1)])], chip="v100"
    ).metrics
    return metrics["lts__t_sectors_srcunit_tex_op_write.sum"]


def test_a_store_joins_the_line_that_has_not_left_the_buffer() -> None:
    # A line leaves 16 cycles behind the end of its last store, which takes one, when no other store has come.
    assert stores_at_l2(16) == 1
    assert stores_at_l2(17) == 2
    assert stores_at_l2(4, second=LINE) == 2


def test_stores_that_fill_their_sectors_one_after_the_other_reach_l2_once() -> None:
    kernel = repeat("STG", 4, GLOBAL4, "store", stall=2)
    records = [affine(device(4 * i), 16) for i in range(4)]
    metrics = run(kernel, lambda b, w: [(0, records)], chip="v100").metrics
    assert metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 4 * 16
    assert metrics["lts__t_sectors_srcunit_tex_op_write.sum"] == 16


@pytest.mark.parametrize(
    ("lines", "others", "left"),
    [(4, 1, 0), (4, 2, 2), (4, 3, 4), (2, 1, 0), (2, 2, 2), (8, 1, 0), (8, 2, 0), (8, 3, 8)],
)
def test_other_stores_push_lines_out(lines: int, others: int, left: int) -> None:
    """bench.micro ``joins_once``, ``one``, ``two`` and ``three``: stores four cycles apart, the last to the first one's lines."""
    kernel = repeat("STG", others + 2, GLOBAL4, "store", stall=4)
    records = [affine(device(1 << 16 << i), 4 * lines) for i in range(others + 1)]
    records.append(affine(device((1 << 16) + 4), 4 * lines))
    metrics = run(kernel, lambda b, w: [(0, records)]).metrics
    assert metrics["lts__t_sectors_srcunit_tex_op_write.sum"] / 4 == lines * (others + 1) + left


@pytest.mark.parametrize(
    ("size", "count", "warps", "joined"),
    [
        (4, 8, 3, True),
        (4, 8, 4, False),
        (4, 4, 4, True),
        (2, 8, 3, True),
        (2, 8, 4, False),
        (1, 8, 4, True),
        (8, 4, 3, True),
        (8, 4, 4, False),
    ],
)
def test_the_store_buffer_holds_so_many_lines(size: int, count: int, warps: int, joined: bool) -> None:
    """bench.micro ``joins_once``, ``together``: stores of ``size`` bytes that fill a structure of each thread, warps of different sub-cores; a line of which bytes are
    written takes two places."""
    access = Access("global", size)
    kernel = repeat("STG", count, access, "store", stall=4)
    each = size * count

    def trace(block: int, warp: int) -> list[tuple[int, list[list[int]]]]:
        return [(0, [affine(device(32 * each * warp + size * i), each) for i in range(count)])]

    metrics = run(kernel, trace, block=32 * warps).metrics
    lines = each * 32 // LINE * warps
    assert metrics["lts__t_sectors_srcunit_tex_op_write.sum"] / 4 == (lines if joined else lines * count)


@pytest.mark.parametrize(("space", "at_least"), [("shared", 2000), ("global", 3000)])
def test_loads_wait_behind_stores_that_wait(space: str, at_least: int) -> None:
    """bench.micro ``store_times``, ``held_up``: while three sub-cores store four partly written lines each time, a load of the fourth takes 180 cycles from shared
    memory, 560 from L1, instead of 28 and 40.  Here 192 such stores take 3,840 cycles."""
    kernel = repeat("STG", 64, GLOBAL4, "store", stall=2)
    for _ in range(200):
        kernel.add("LD", reads=[0, 1], writes=[4], access=Access(space, 4), write_barrier=0, wait=[0], stall=2)
    kernel.exit()
    at = affine(shared(0) if space == "shared" else device(1 << 24))

    def cycles(storing: bool) -> int:
        def trace(block: int, warp: int) -> list[tuple[int, list[list[int]]]]:
            if warp == 0:
                return [(1, [at] * 200)]
            return [(0, [affine(device(4096 * (warp * 64 + i)), 16, FULL if storing else 0) for i in range(64)])]

        return run(kernel, trace, block=128, shared_bytes=1024).cycles

    assert cycles(True) - cycles(False) >= at_least


# --- ports of a slice ---------------------------------------------------------------------------------------
def steady(function: object, count: int) -> float:
    """Cycles between the last answers of ``count`` requests at one time."""
    answers = [function(i) for i in range(count)]
    return (answers[-1] - answers[count // 2]) / (count - 1 - count // 2)


@pytest.mark.ci
@pytest.mark.parametrize(("sectors", "whole", "cycles"), [(15, 15, 4.61), (1, 0, 2.51), (15, 0, 5.80)])
def test_a_write_takes_its_home_for_the_request_and_for_each_sector(sectors: int, whole: int, cycles: float) -> None:
    m = idle(l2_partition_count=1)
    assert steady(lambda i: write(m, 0, sectors, whole, 1000), 400) == pytest.approx(cycles, rel=0.03)


def lines_far_away(m: np.ndarray, count: int) -> list[int]:
    """Lines of one slice that lies in the other partition than the SM that asks."""
    half = m[s.chip.slices] // 2
    homes = {line: int(ask(m, 4, line, 0, 0, 0)) for line in range(200 * count)}
    first = next(home for home in homes.values() if home >= half)
    return [line for line, home in homes.items() if home == first][:count]


@pytest.mark.ci
@pytest.mark.parametrize(("sectors", "whole", "card"), [(15, 15, 9.04), (15, 0, 11.2)])
def test_what_is_written_far_away_crosses_at_its_slices_rate(sectors: int, whole: int, card: float) -> None:
    """bench.micro ``crossing``: far stores of whole lines 41.6 sectors per cycle over 94 slices, of every other word 33.6; near ones 81.5 and 64.8."""
    m = idle()
    line = lines_far_away(m, 1)[0]
    assert steady(lambda i: write(m, line, sectors, whole, 1000), 400) == pytest.approx(card, rel=0.03)


@pytest.mark.ci
def test_lines_come_from_far_away_at_a_slices_rate_and_are_near_then() -> None:
    """bench.micro ``crossing``: far loads of lines that are in L2 40.3 sectors per cycle over 94 slices, 9.3 cycles per line."""
    m = idle()
    lines = lines_far_away(m, 300)
    for line in lines:
        write(m, line, 15, 15, 0, partition=1)  # from the home's own side
    assert steady(lambda i: read(m, lines[i], 15, 20_000), 300) == pytest.approx(9.3, rel=0.03)
    assert steady(lambda i: read(m, lines[i], 15, 40_000), 300) == pytest.approx(128 / 55, rel=0.03)


NEAR_CYCLES, FAR_CYCLES = 130, 310
"""At a slice: a line that it has, and one that it fetches from the other side."""


@pytest.mark.ci
@pytest.mark.parametrize("whole", [15, 0])
@pytest.mark.parametrize("partition", [0, 1])
def test_what_a_store_leaves_on_the_readers_side(whole: int, partition: int) -> None:
    """bench.machine.written on an H200: a line whose home is far and that was read before is near still after a store by an SM of the reader's side, of
    whole or partial sectors (median 282 to 287 cycles), and far again after one from the home's side (451)."""
    m = idle()
    line = lines_far_away(m, 1)[0]
    read(m, line, 15, 0)
    assert read(m, line, 15, 10_000) - 10_000 < NEAR_CYCLES
    write(m, line, 15, whole, 20_000, partition)
    took = read(m, line, 15, 30_000) - 30_000
    assert (took < NEAR_CYCLES) if partition == 0 else (NEAR_CYCLES < took < FAR_CYCLES)


def test_whole_sectors_of_a_line_that_nobody_has_read_stay_on_the_writers_side() -> None:
    """bench.machine.written, not read before: 283 cycles where whole sectors were written, DRAM's 725 where words were."""
    for sectors, whole, near in ((15, 15, True), (1, 1, True), (1, 0, False)):
        m = idle()
        line = lines_far_away(m, 1)[0]
        write(m, line, sectors, whole, 0)
        assert (read(m, line, 1, 10_000) - 10_000 < NEAR_CYCLES) == near


def test_an_atomic_takes_the_copy_on_the_readers_side() -> None:
    """bench.machine.written, sums: 452 cycles after them on whichever side they were made."""
    m = idle()
    line = lines_far_away(m, 1)[0]
    read(m, line, 15, 0)
    ask(m, 9, line, 15, 0, 10_000)
    assert NEAR_CYCLES < read(m, line, 15, 20_000) - 20_000 < FAR_CYCLES


@pytest.mark.parametrize(("sectors", "cycles"), [(1, 64 / 55), (3, 64 / 55), (7, 96 / 55), (15, 128 / 55)])
def test_a_read_takes_at_least_a_clock_of_l2(sectors: int, cycles: float) -> None:
    m = idle(l2_partition_count=1)
    read(m, 0, 15, 0)
    assert steady(lambda i: read(m, 0, sectors, 5000), 400) == pytest.approx(cycles, rel=0.03)


def test_reads_pass_beside_writes() -> None:
    m = idle(l2_partition_count=1)
    read(m, 1, 15, 0)  # of the same slice
    alone = read(m, 1, 15, 5000)
    for _ in range(100):
        write(m, 0, 15, 15, 6000)
    assert read(m, 1, 15, 6000) - 6000 <= alone - 5000 + (1 << s.CALENDAR_SHIFT)


def test_a_written_line_takes_room_in_both_partitions() -> None:
    # With all ways allowed to be dirty, room alone decides what is written back.
    m = idle(l2_kib=1536, l2_dirty_ways=16)
    lines = 1536 * 1024 // LINE
    for line in range(lines):
        write(m, line, 15, 15, 1000 + line)
    assert s.dram_counted(m, s.Channel.sectors_written) == pytest.approx(4 * lines // 2, rel=0.1)


def test_lines_are_spread_over_slices_as_a_card_spreads_them() -> None:
    """bench.micro ``slices`` on H200: every other pair of lines of a KiB, 4 KiB of one partition by parity, slices in turn."""
    m = idle()
    homes = np.array([int(ask(m, 4, line, 0, 0, 0)) for line in range(1 << 14)])
    pairs = homes.reshape(-1, 2, 2, 2)  # KiB, half, unit, line
    assert np.array_equal(pairs, np.broadcast_to(pairs[:, :1, :, :1], pairs.shape))
    assert (pairs[:, 0, 0, 0] != pairs[:, 0, 1, 0]).all()
    blocks = homes.reshape(-1, 32) // 47
    number = np.arange(len(blocks))
    assert np.array_equal(blocks, np.tile((sum(number >> bit for bit in (0, 1, 3, 5, 7)) & 1)[:, None], 32))
    for part in homes.reshape(-1, 1024):
        assert set(np.bincount(part, minlength=94) // 4) == {2, 3}


@pytest.mark.parametrize("chip", ["p100", "v100", "a100", "h200"])
def test_every_slice_has_its_share_of_the_lines(chip: str) -> None:
    m = idle(chip)
    counts = np.bincount([int(ask(m, 4, line, 0, 0, 0)) for line in range(1 << 15)], minlength=int(m[s.chip.slices]))
    assert counts.min() >= 0.97 * counts.mean()
    assert counts.max() <= 1.03 * counts.mean()


def completed(lines: int, sectors: int, whole: int) -> int:
    """Sectors that L2 reads and writes back of so many lines that are written once, in a cache of 4 sets x 16 ways a slice."""
    m = idle(l2_kib=752)
    for line in range(lines):
        write(m, line, sectors, whole, 1000 + 20 * line)
    return s.counted(m, s.SliceGroup.completed)


def test_l2_completes_partly_written_lines_beyond_two_ways_of_a_set() -> None:
    held = 752  # of 6016
    assert completed(held // 2, 15, 0) <= 0.1 * 4 * held
    assert completed(3 * held, 15, 0) >= 4 * 2 * held
    assert completed(3 * held, 1, 0) >= 2 * held
    assert completed(3 * held, 15, 15) == 0


@pytest.mark.ci
def test_a_write_waits_until_dram_reads_the_line_that_it_completes() -> None:
    """bench.machine.single_launches on H200: stores of a million words that are 32 words apart, nearly all of which complete a line, take 65 cycles of the chip per thousand."""

    def longest(whole: int) -> int:
        """Cycles until the last of some writes is accepted, where DRAM opens a row in 800 cycles."""
        m = idle(l2_kib=752, dram_four_activates_read_ns=1640, dram_refresh_ns=0, dram_bank_refresh_ns=0)
        return max(write(m, line, 1, whole, 1000) - 1000 for line in range(3 * 752))

    assert longest(1) < 300
    assert longest(0) > 3 * 800  # 16 lines of each slice are completed, four of a row


def test_a_sector_that_is_written_word_by_word_needs_nothing_from_dram() -> None:
    m = idle()
    first, ways = int(m[s.chip.l2_tags]), int(m[s.chip.l2_ways])
    last = first + int(m[s.chip.l2_slice_words]) * int(m[s.chip.slices])
    fills = m[first:last].reshape(-1, s.L2_WAY_WORDS, ways)[:, 2]
    for word in range(8):
        write(m, 0, 1, 0, 1000 + 50 * word)
        assert fills.any() == (word < 7)


def test_sms_of_a_gpc_ask_l2_once_for_what_is_on_its_way() -> None:
    m = idle()
    first = int(ask(m, 5, 0, 15, 0, 1000))
    assert int(ask(m, 5, 0, 15, 1, 1100)) == first
    assert s.counted(m, s.SliceGroup.coalesced) == 4
    ask(m, 5, 0, 3, 2, 1100)  # other sectors of the line: asked for by itself
    ask(m, 5, 0, 15, 1, first + 1000)  # long answered
    assert s.counted(m, s.SliceGroup.coalesced) == 4


@pytest.mark.parametrize(
    ("asked", "joined"),
    [
        ([1, 1], 1),
        ([1] * 4, 3),
        ([1] * 8, 6),
        ([1, 1, 2, 2], 1),
        ([1, 2, 1, 2], 0),
        ([1, 2, 2, 1, 1], 0),
        ([1, 1, 2, 1, 1], 2),
    ],
)
def test_a_request_is_made_for_four_sms_until_one_asks_for_another_sector(asked: list[int], joined: int) -> None:
    """bench.micro ``crowd_once``: 2, 4, 8 SMs that read a sector ask 1.00, 1.00, 2.02 times; 4 and 8 of which half read the next sector 3.67 and 6.45."""
    m = idle()
    for at, sectors in enumerate(asked):
        ask(m, 5, 0, sectors, 0, 1000 + at)
    assert s.counted(m, s.SliceGroup.coalesced) == joined


@pytest.mark.parametrize(("apart", "joined"), [(30, 1), (40, 0)])
def test_what_l2_has_is_joined_within_34_cycles(apart: int, joined: int) -> None:
    """bench.micro ``together_once``."""
    m = idle()
    later = int(ask(m, 5, 0, 1, 0, 1000)) + 1000
    ask(m, 5, 0, 1, 0, later)
    ask(m, 5, 0, 1, 0, later + apart)
    assert s.counted(m, s.SliceGroup.coalesced) == joined


def test_sms_come_in_another_order_each_window() -> None:
    """bench.micro ``crowd_once``: what 8 SMs of a GPC ask for in the same cycle comes in a random order."""
    turns, draw_of, in_turn = (f.py_func for f in (exchange.turns, exchange.window_draw, exchange.sm_in_turn))  # type: ignore[attr-defined]
    for sms in (1, 7, 16, 18):
        width = turns(sms)
        orders = set()
        for window in range(64):
            order = [in_turn(draw_of(window * 200), k, width) for k in range(width)]
            assert sorted(order) == list(range(width))
            orders.add(tuple(sm for sm in order if sm < sms))
        assert len(orders) >= min(sms, 16)


# --- atomics --------------------------------------------------------------------------------------------------
ADD4, ADD8, FADD4 = (Access("global", size, False, kind, t) for size, kind, t in
                     ((4, "add", "i32"), (8, "add", "i64"), (4, "fadd", "f32")))  # fmt: skip


def atomics_each(
    opcodes: list[str], record: list[int], access: Access = ADD4, warps: int = 8, **options: object
) -> float:
    """Cycles over the chip of one turn of some atomics, each a basic block of its own, of every warp."""
    kernel = Synthetic()
    for opcode in opcodes:
        barrier = 0 if opcode == "ATOMG" else 7
        kernel.add(opcode, reads=[0, 1], access=access, kind="atomic", write_barrier=barrier, stall=2)
    kernel.exit()

    def turns(count: int) -> int:
        visits = [(number, [record]) for number in range(len(opcodes))] * count
        return run(kernel, lambda b, w: visits, block=32 * warps, grid=16, **options).cycles

    return (turns(24) - turns(8)) / (16 * warps * 16)


@pytest.mark.parametrize(
    ("access", "stride", "mask", "cycles"),
    [(ADD4, 0, 1, 1.45), (ADD4, 0, 0xFF, 11.6), (ADD4, 0, 0xFFFFFFFF, 46.4), (ADD4, 4, 0xFFFFFFFF, 4.64),
     (FADD4, 0, 0xFFFFFFFF, 111), (ADD8, 8, 0xFFFFFFFF, 9.28)],
)  # fmt: skip
def test_atomics_take_what_a_card_shows(access: Access, stride: int, mask: int, cycles: float) -> None:
    taken = atomics_each(["RED"], affine(device(0), stride, mask), access)
    assert taken == pytest.approx(cycles, rel=0.06)


@pytest.mark.parametrize(("mask", "cycles"), [(1, 4.6), (0xFF, 37.4), (0xFFFFFFFF, 135.4)])
def test_atomics_with_and_without_an_answer_take_turns(mask: int, cycles: float) -> None:
    assert atomics_each(["RED", "ATOMG"], affine(device(0), 0, mask)) == pytest.approx(cycles, rel=0.1)


def test_turns_cost_nothing_on_whole_sectors() -> None:
    assert atomics_each(["RED", "ATOMG"], affine(device(0), 4)) == pytest.approx(2 * 4.64, rel=0.05)


def test_an_answer_comes_later_than_a_loads() -> None:
    def chase(count: int) -> Synthetic:
        kernel = Synthetic()
        for _ in range(count):
            kernel.add(
                "ATOMG", writes=[0], reads=[0, 1], access=ADD4, kind="atomic", write_barrier=0, wait=[0], stall=2
            )
        return kernel.exit()

    def each_of(line: int) -> float:
        def turns(count: int) -> int:
            visits = [(number, [affine(device(512 * line), 0, 1)]) for number in range(8)] * count
            return run(chase(8), lambda b, w: visits).cycles

        return (turns(8) - turns(4)) / 32

    taken = {round(each_of(line)) for line in range(0, 94, 9)}
    near, far = min(taken), max(taken)
    assert near == pytest.approx(327, rel=0.1)
    assert far == pytest.approx(517, rel=0.1)


@pytest.mark.parametrize(("lines", "changes"), [(1, False), (4, False), (5, True), (8, True)])
def test_atomics_on_more_lines_than_a_slice_has_at_hand_cost_more(lines: int, changes: bool) -> None:
    m = idle()
    for line in range(lines):
        ask(m, 6, line, 0, 0, 0)
    assert all(bool(ask(m, 6, line, 0, 0, 0)) == changes for line in range(lines))
    assert int(ask(m, 6, 100, 0, 1, 0)) > int(ask(m, 6, 101, 0, 0, 0)) > 0


@pytest.mark.parametrize(
    ("lanes", "again", "card"), [(1, True, 3.47), (2, True, 6.94), (1, False, 1.45), (2, False, 1.45 + 3.47)]
)
def test_floating_point_sums_wait_for_those_before_on_the_same_word(lanes: int, again: bool, card: float) -> None:
    """bench.micro ``contended``: sums of f32 on one word 3.47, on four lines by turns 1.92; ``scattered_atomics``: f64 at random 51 per cycle
    over the chip, as integers."""
    m = idle()
    units = int(ask(m, 7, 0, 0, lanes | 1 << 7 | 1 << 48, int(again)))
    assert units / int(m[s.chip.slice_capacity]) * (1 << s.CALENDAR_SHIFT) == pytest.approx(card, rel=0.05)


@pytest.mark.parametrize(("kind", "factor"), [(0, 1.15), (1, 2.7), (17, 11.0)])
def test_v100_adds_floats_and_halves_at_rates_of_their_own(kind: int, factor: float) -> None:
    """NVIDIA A100 whitepaper, "Atomics Improvements": A100 over V100, all slices, sums of a warp's lanes on a line; integers by their slices and clocks."""
    per_second = []
    for name in ("v100", "a100"):
        m, chip = idle(name), load_chip(name)
        words = sum((1 | 8 << 7) << (int(m[s.chip.pass_bits]) * sector) for sector in range(4)) | kind << 48
        cycles = int(ask(m, 7, 0, 0, words, 0)) / int(m[s.chip.slice_capacity]) * (1 << s.CALENDAR_SHIFT)
        per_second.append(chip.l2.l2_slice_count * chip.clocks.sm_clock_mhz / cycles)
    assert per_second[1] / per_second[0] == pytest.approx(factor, rel=0.03)


def test_single_words_of_floats_take_an_integers_pass_on_v100() -> None:
    m = idle("v100")
    integer, float_sum, halves = (int(ask(m, 7, 0, 0, 1 | 1 << 7 | kind << 48, 0)) for kind in (0, 1, 17))
    assert integer == float_sum == halves


def test_every_floating_point_sum_is_known_as_one() -> None:
    """An addition of floats without denormals is one too: what the compiler makes of atomicAdd."""
    for operation in ("fadd", "fadd_ftz", "fadd_f16x2", "fadd_bf16x2"):
        assert instruction_table._atomic_kind(operation, 4) & 1
    assert instruction_table._atomic_kind("add", 4) & 1 == 0


# --- DRAM ----------------------------------------------------------------------------------------------------------
def test_a_bank_in_refresh_answers_when_it_is_over() -> None:
    duration, interval = 495, 3861  # 250 and 1950 ns at 1980 MHz
    m = idle(dram_refresh_ns=0.0)
    turn = itertools.count(1)

    def taken(phase: int) -> int:
        """A read of another row of one bank at some time of a refresh interval, long after the one before."""
        k = next(turn)
        time = 4 * interval * k + phase
        first, channels = int(m[s.chip.dram_banks]), int(m[s.chip.slices] * m[s.chip.channels_per_slice])
        m[first : first + 2 * channels * int(m[s.chip.dram_bank_count])] = 0
        return dram_read(m, 1 << 20, 15, time) - time

    waits = [taken(phase) for phase in range(interval)]
    plain = min(waits)
    late = [wait - plain for wait in waits]
    assert sum(wait > 0 for wait in late) == duration
    first = next(i for i in range(interval) if late[i] > 0 and late[i - 1] == 0)
    turned = late[first:] + late[:first]
    assert turned[:duration] == list(range(duration, 0, -1))


def test_a_channel_postpones_eight_refreshes_for_its_first_requests() -> None:
    """``bench/shapes`` on H200: kernels of 40 to 400 blocks, an element per thread, take what they take without refresh."""
    postponed = 8 * 3861 // 16
    m = idle(dram_refresh_ns=0.0)
    first = dram_read(m, 0, 15, 0)
    took = {time: dram_read(m, 1 << 12, 15, time) - time for time in range(64, 4 * 3861, 64)}
    assert all(cycles <= first for time, cycles in took.items() if time < postponed)
    assert max(cycles for time, cycles in took.items() if time >= postponed) > first + 400


def test_a_bank_in_use_is_refreshed_too() -> None:
    """bench.micro ``loaded`` on H200: turns of loads take as long as they do when some wait, also while all banks are in use."""
    m = idle()
    took = [dram_read(m, 1 << 12, 15, time) - time for time in range(10**6, 10**6 + 8000, 64)]
    assert max(took) - min(took) >= 495


def test_the_same_bank_of_all_channels_is_refreshed_at_once() -> None:
    """bench.micro ``bursts`` on H200, emptied caches: of loads of 16 KiB at once none wait, or most do."""
    found = []
    for time in range(10**7, 10**7 + 40_000, 4000):
        m = idle()
        found.append(
            [read(m, line, 15, time) - time for line in (0, 2, 8, 10, 16, 18, 24, 26)]
        )  # eight slices of one partition
    assert max(max(waits) - min(waits) for waits in found) < 50
    assert max(map(max, found)) - min(map(min, found)) > 200


def test_lanes_on_rows_of_their_own_wait_for_a_refresh_three_times_of_four() -> None:
    """bench.micro ``cold_walks`` on H200: 32 lanes that read 3 to 8 KiB apart take 230 cycles longer than without a refresh."""
    lines = [4096 * lane // LINE for lane in LANES]
    m = idle(dram_refresh_ns=0.0)
    times = [20_000 * k + 200 * (k % 20) for k in range(200)]
    slowest = np.array([max(dram_read(m, line, 15, time) for line in lines) - time for time in times])[1:]
    waits = slowest - slowest.min()
    assert 0.6 < np.mean(waits > 40) < 0.9
    assert 150 < np.mean(waits) < 350


def test_write_batches_turn_the_bus_around_only_between_reads() -> None:
    def cycles(with_reads: bool) -> int:
        m = idle()
        for i in range(2000):
            time = 1000 + 3 * i  # faster than the two channels write
            dram_write(m, i, 15, time)
            if with_reads:
                dram_read(m, i, 1, time)
        return dram_write(m, 0, 15, 10**6) - 1000

    m = idle()
    per_batch = int(m[s.chip.dram_read_to_write] + m[s.chip.dram_write_to_read]) / 256
    batches = 2000 / int(m[s.chip.dram_batch]) / 2  # two channels
    reads = 2000 * int(m[s.chip.dram_sector]) / 256 / 2
    assert cycles(True) - cycles(False) == pytest.approx(per_batch * batches + reads, rel=0.2)


def test_a_read_waits_for_a_batch_of_writes() -> None:
    """bench.micro ``stream_turns`` on H200: once L2 writes back, turns of copies take 130 to 220 cycles longer at 40 % of DRAM's bandwidth."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    alone = dram_read(m, 0, 15, 1000) - 1000
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    line = 0
    while not dram_write(m, line, 15, 1000):  # until the first batch leaves its queue
        line += 1
    batch = 4 * int(m[s.chip.dram_batch]) * int(m[s.chip.dram_sector]) / 256
    waits = dram_read(m, line, 15, 1000) - 1000 - alone
    assert waits == pytest.approx(batch, rel=0.15)
    assert 800 < waits < 1200


def lines_of_a_channel(m: np.ndarray, count: int, rows: int) -> list[int]:
    """So many lines of one channel, in turn of so many rows."""
    channel = dram_channel(m, 0)
    steps = [n << 15 for n in range(1 << 13) if dram_channel(m, n << 15) == channel][:rows]
    return [steps[i % rows] for i in range(count)]


def written_alone(m: np.ndarray, lines: list[int]) -> int:
    """When all batches of writes that come at once have left."""
    for line in lines:
        dram_write(m, line, 1, 1000)
    return dram_write(m, lines[0], 1, 10**6)


def test_a_batch_of_writes_opens_32_rows() -> None:
    """bench.machine.dram_turns on H200: of a queue of 96 writes at random 32 leave at once, and a read comes before the next 32."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    places, rows = int(m[s.chip.dram_batch]), int(m[s.chip.dram_batch_rows])
    each = int(m[s.chip.dram_activate_write]) / 256
    lines = lines_of_a_channel(m, places, places)
    ends = [dram_write(m, line, 1, 1000) for line in lines]
    assert ends[:-1] == [0] * (places - 1)
    assert ends[-1] - 1000 == pytest.approx(rows * each, abs=2 * each)
    end = written_alone(m, lines_of_a_channel(m, 2 * rows, 2 * rows))
    assert end - ends[-1] == pytest.approx(2 * rows * each, rel=0.05)


def test_a_read_comes_before_the_next_batch() -> None:
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    alone = dram_read(m, 1 << 28, 1, 1000) - 1000
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    places, rows = int(m[s.chip.dram_batch]), int(m[s.chip.dram_batch_rows])
    for line in lines_of_a_channel(m, 2 * places, 2 * places):
        dram_write(m, line, 1, 1000)
    each = int(m[s.chip.dram_activate_write]) / 256
    channel = dram_channel(m, 0)
    line = next(n for n in range(1 << 28, 1 << 29, 1 << 15) if dram_channel(m, n) == channel)
    assert dram_read(m, line, 1, 1001) - 1001 < alone + (rows + 2) * each


@pytest.mark.parametrize(("mib", "card_ns"), [(64, 5.2), (128, 5.7), (1024, 6.1)])
def test_writes_to_a_row_leave_together(mib: int, card_ns: float) -> None:
    """bench.machine.dram_turns on H200: ns of a channel for each line of so many MiB, written at random."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    lines = np.random.default_rng(1).integers(0, mib << 13, 8000)
    for i, line in enumerate(lines):
        dram_write(m, int(line), 1, 1000 + 5 * i)
    cycles = dram_write(m, 0, 1, 10**6) - 1000
    assert 2 * cycles / 1.98 / len(lines) == pytest.approx(card_ns, rel=0.12)


@pytest.mark.parametrize(("period", "card_ns"), [(32, 1.34), (8, 2.52), (2, 3.64)])
def test_reads_among_writes_turn_the_bus_around(period: int, card_ns: float) -> None:
    """bench.machine.dram_turns on H200, stores to 1 GiB: ns of a channel that a read for so many writes adds to each write."""

    def each(reads: bool) -> float:
        m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
        lines = np.random.default_rng(2).integers(0, 1 << 23, (8000, 2))
        for i, (line, other) in enumerate(lines.tolist()):
            dram_write(m, line, 1, 1000 + 5 * i)
            if reads and i % period == 0:
                dram_read(m, (1 << 23) + other, 3, 1000 + 5 * i)
        return 2 * (dram_write(m, 0, 1, 10**6) - 1000) / 1.98 / len(lines)

    assert each(True) - each(False) == pytest.approx(card_ns, rel=0.25)


@pytest.mark.parametrize("sectors", [1, 3])
def test_a_queue_of_requests_holds_as_many_writes_of_32_bytes_as_of_64(sectors: int) -> None:
    m = idle("g80", dram_write_batch_requests_count=6)
    ends = [dram_write(m, line, sectors, 1000) for line in range(6)]
    assert ends[:5] == [0] * 5
    assert ends[5] > 1000


def test_a_channel_opens_no_row_before_the_interval_from_the_last_one_is_over() -> None:
    """A read of another bank comes the interval after the first, and one of the same row does not wait for it."""

    def between(other: int, interval_ns: float) -> int:
        m = idle("g80", dram_activate_interval_ns=interval_ns, dram_refresh_ns=0.0)
        first, second = (dram_read(m, line, 1, 1024) for line in (0, other))
        return second - first

    chip = load_chip("g80")
    next_bank = chip.dram.dram_bank_block_bytes // chip.l1.l1_line_bytes
    interval_cycles = 54
    interval_ns = interval_cycles * 1000 / chip.clocks.sm_clock_mhz
    assert between(next_bank, interval_ns) == interval_cycles
    assert between(next_bank, 0.0) < interval_cycles / 4
    assert between(1, interval_ns) == between(1, 0.0)


@pytest.mark.parametrize(("sectors", "cycles"), [(3, 8.1), (15, 10.1)])
def test_a_channel_opens_rows_in_an_interval(sectors: int, cycles: float) -> None:
    """bench.micro ``scattered`` on H200: 64 bytes at random take 8.1 cycles of a channel, whole lines their time on the bus."""
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0)
    channels = int(m[s.chip.channels_per_slice])
    count = 4000
    end = max(dram_read(m, row << 15, sectors, 1000) for row in range(count))
    assert (end - 1000) * channels / count == pytest.approx(cycles, rel=0.1)


def _bank_group(m: np.ndarray, line: int) -> int:
    return dram_bank(m, line) % int(m[s.chip.dram_groups])


def test_bursts_of_one_bank_group_keep_their_distance() -> None:
    """tCCD_L: two reads of one row are that long apart, reads of two groups as long as without the rule."""
    chip = load_chip("h200")
    cycles = 40
    rule_ns = cycles * 1000 / chip.clocks.sm_clock_mhz

    def between(other: Callable[[np.ndarray, int], bool], latency_ns: float) -> int:
        m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_group_column_ns=latency_ns)
        channel = dram_channel(m, 0)
        line = next(n for n in range(1, 1 << 16) if dram_channel(m, n) == channel and other(m, n))
        for one in (0, line):
            dram_read(m, one, 1, 1000)  # opens the rows
        first, second = (dram_read(m, one, 1, 51_200) for one in (0, line))
        return int(second - first)

    def same_row(m: np.ndarray, line: int) -> bool:
        return line < 8

    def other_group(m: np.ndarray, line: int) -> bool:
        return _bank_group(m, line) != _bank_group(m, 0)

    assert between(same_row, rule_ns) == cycles
    assert between(other_group, rule_ns) == between(other_group, 0.0) < cycles / 4


def test_a_line_of_one_bank_group_takes_its_bursts_distances() -> None:
    chip = load_chip("h200")
    rule_ns = 40 * 1000 / chip.clocks.sm_clock_mhz
    one, four = (
        int(dram_read(idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_group_column_ns=rule_ns), 0, n, 1000))
        for n in (1, 15)
    )
    assert four - one == 3 * 40


def test_rows_of_one_bank_group_open_the_interval_apart() -> None:
    """tRRD_L: banks of one group open rows that far apart, banks of two groups at once."""
    chip = load_chip("h200")
    cycles = 90
    rule_ns = cycles * 1000 / chip.clocks.sm_clock_mhz

    def between(same: bool, latency_ns: float) -> int:
        m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_group_activate_ns=latency_ns)
        channel = dram_channel(m, 0)
        line = next(
            n
            for n in range(1, 1 << 16)
            if dram_channel(m, n) == channel
            and dram_bank(m, n) != dram_bank(m, 0)
            and (_bank_group(m, n) == _bank_group(m, 0)) == same
        )
        first, second = (dram_read(m, one, 1, 1024) for one in (0, line))
        return int(second - first)

    assert between(True, rule_ns) == cycles
    assert between(False, rule_ns) == between(False, 0.0) < cycles / 4


def test_four_rows_open_in_tfaw() -> None:
    """Reads of rows of their own take a quarter of tFAW each, and whole lines their bursts."""
    chip = load_chip("h200")
    cycles = 80
    window_ns = cycles * 1000 / chip.clocks.sm_clock_mhz
    m = idle(dram_refresh_ns=0.0, dram_bank_refresh_ns=0.0, dram_four_activates_read_ns=window_ns)
    channels, count = int(m[s.chip.channels_per_slice]), 2000
    end = max(dram_read(m, row << 15, 1, 1000) for row in range(count))
    assert (end - 1000) * channels / count == pytest.approx(cycles / 4, rel=0.05)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_of_dram_has_a_number_and_a_word(rule: Rule) -> None:
    """A chip whose number is larger has a larger latency in the model's state: the row is read."""
    chip = load_chip("g80")
    assert rule.field in type(chip.dram).model_fields
    more = {rule.field: (chip.get(rule.field) or 4.0) * (0.5 if rule.field == "dram_gb_per_s" else 2)}
    before, after = idle("g80"), idle("g80", **more)
    words = {name: field for name, field in s.Header.fields.items() if name.startswith(("dram_", "bank_refresh"))}
    changed = [name for name, field in words.items() if after[field.offset] > before[field.offset]]
    assert changed, rule
