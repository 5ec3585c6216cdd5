"""L1's rules, one by one: passes of loads, tags, hits on outstanding misses, what stores and atomics leave.

Values on H200 are those of ``bench/micro`` on a card (``bench/data/h200/README.md``); where a rule has an edge, both sides of it are pinned.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.memory_units import ADD4, DATA, GLOBAL2, GLOBAL4, GLOBAL8, GLOBAL16, LANES, LINE, idle, repeat
from tests.timing_synthetic import Synthetic, affine, device, gather, loop_cycles, run
from warpwright.chips import load_chip
from warpwright.isa.ops import Access
from warpwright.native.direct import entry
from warpwright.native.intrinsics import words
from warpwright.timing import SOURCES, coalescer
from warpwright.timing import state as s
from warpwright.timing.reset import LaunchSizes, initial_state


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
    """Sectors that the last load finds in L1 after the other steps. Each step waits for the load before it."""

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
    """Sectors of a line that a load does not find in L1, long after two stores that issue ``apart`` cycles apart."""
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
