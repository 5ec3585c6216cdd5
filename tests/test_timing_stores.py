"""The store buffer's rules, with values of a card from ``bench/micro``: joined lines, lines pushed out, waiting loads."""

import pytest

from tests.memory_units import GLOBAL4, GLOBAL8, GLOBAL16, LINE, repeat
from tests.timing_synthetic import FULL, Synthetic, affine, device, run, shared
from warpwright.isa.ops import Access


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
    # A line leaves 16 cycles after the end of its last store, which takes one cycle, unless another store comes.
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
