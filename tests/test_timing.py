"""The cycle model's rules, each pinned from both sides on kernels made by hand: no engine, no compiler."""

import numpy as np
import pytest

from tests.timing_synthetic import Synthetic, affine, device, each, gather, loop_cycles, run, shared
from warpwright.chips import load_chip
from warpwright.isa.ops import Access
from warpwright.isa.program import Kind, Operand
from warpwright.timing.policies import Policies

CHIPS = ["v100", "a100", "h200"]
GLOBAL4, GLOBAL8, GLOBAL16 = Access("global", 4), Access("global", 8), Access("global", 16)
SHARED4, SHARED8, SHARED16 = Access("shared", 4), Access("shared", 8), Access("shared", 16)


def repeat(opcode: str, count: int, **options: object) -> Synthetic:
    kernel = Synthetic()
    for _ in range(count):
        kernel.add(opcode, **options)
    return kernel.exit()


# --- issue and pipes ---------------------------------------------------------------------------------
@pytest.mark.parametrize("chip", CHIPS)
def test_dependent_ffma_takes_four_cycles(chip: str) -> None:
    assert each(lambda n: repeat("FFMA", n, writes=[0], reads=[0, 1, 2], stall=4), chip=chip) == 4


@pytest.mark.parametrize("stall", [1, 2, 5, 11])
def test_a_warp_waits_exactly_its_stall_count(stall: int) -> None:
    assert each(lambda n: repeat("NOP", n, stall=stall)) == stall


@pytest.mark.parametrize(("chip", "opcode", "interval"), [
    ("v100", "FFMA", 2), ("a100", "FFMA", 2), ("h200", "FFMA", 1),
    ("v100", "IADD3", 2), ("h200", "IADD3", 2), ("h200", "IMAD", 2),
    ("v100", "DADD", 4), ("a100", "DADD", 4), ("h200", "DADD", 2),
    ("v100", "MUFU", 8), ("h200", "MUFU", 8), ("h200", "POPC", 8),
])  # fmt: skip
def test_a_pipe_takes_a_warp_in_32_over_lanes_cycles(chip: str, opcode: str, interval: int) -> None:
    assert each(lambda n: repeat(opcode, n, writes=[4], reads=[0, 1], stall=1), chip=chip) == interval


def test_different_pipes_work_at_the_same_time() -> None:
    def mixed(count: int) -> Synthetic:
        kernel = Synthetic()
        for i in range(count):
            kernel.add("IADD3" if i & 1 else "FFMA", writes=[4], reads=[0, 1], stall=1)
        return kernel.exit()

    assert each(mixed, chip="v100") == 1


@pytest.mark.parametrize(("reads", "cycles"), [([0, 1, 3], 2), ([0, 2, 4], 3), ([0, 2], 2), ([0, 1], 1)])
def test_operands_of_one_register_bank_take_turns(reads: list[int], cycles: int) -> None:
    assert each(lambda n: repeat("FFMA", n, writes=[6], reads=reads, stall=1)) == cycles


@pytest.mark.parametrize(("reads", "cycles"), [([0, 4, 8], 3), ([1, 3, 5], 2), ([3, 7, 11], 3), ([2, 6, 3], 2)])
def test_p100_has_four_register_banks(reads: list[int], cycles: int) -> None:
    assert each(lambda n: repeat("FFMA", n, writes=[6], reads=reads, stall=1), chip="p100") == cycles


def test_the_reuse_cache_saves_register_reads() -> None:
    plain = each(lambda n: repeat("FFMA", n, writes=[6], reads=[0, 2, 4], stall=1))
    reused = each(lambda n: repeat("FFMA", n, writes=[6], reads=[0, 2, 4], reuse=[0, 2], stall=1))
    assert (plain, reused) == (3, 1)


def test_four_sub_cores_issue_side_by_side_and_one_serves_its_warps_in_turn() -> None:
    kernel = repeat("FFMA", 64, writes=[6], reads=[0, 1], stall=1)
    one = loop_cycles(kernel, block=32)
    assert loop_cycles(kernel, block=128) == pytest.approx(one, abs=1)
    assert loop_cycles(kernel, block=256) == pytest.approx(128, abs=4)


@pytest.mark.parametrize("chip", CHIPS)
def test_fma_only_kernel_is_within_5_percent_of_peak(chip: str) -> None:
    record = load_chip(chip)
    kernel = Synthetic()
    for i in range(256):
        kernel.add("FFMA", writes=[i % 8], reads=[i % 8, 9, 10], reuse=[9, 10], stall=1)
    result = run(kernel.exit(), lambda block, warp: [(0, [])] * 40, chip=chip, grid=record.sm.sm_count, block=512)
    overhead = record.launch.launch_overhead_cycles
    assert 0.95 <= (result.bounds["FMA pipe"] - overhead) / (result.cycles - overhead) <= 1


# --- dependence counters -----------------------------------------------------------------------------
def test_a_consumer_waits_for_its_counter_and_no_longer() -> None:
    def pair(waits: bool) -> Synthetic:
        kernel = Synthetic()
        for _ in range(8):
            kernel.add("MUFU", writes=[4], reads=[0], write_barrier=2, stall=2)
            kernel.add("FADD", writes=[5], reads=[4], wait=[2] if waits else [], stall=1)
        return kernel.exit()

    latency = load_chip("h200").pipes.xu_latency_cycles
    assert loop_cycles(pair(True)) - loop_cycles(pair(False)) == pytest.approx(8 * (latency + 1) - 64, abs=8)


def test_depbar_with_a_count_waits_for_the_older_copies_only() -> None:
    copy = Access("global", 4)

    def kernel(left: int) -> Synthetic:
        k = Synthetic()
        for _ in range(2):
            k.add("LDGSTS", reads=[0, 1], access=copy, stall=2)
            k.add("LDGDEPBAR", write_barrier=0, stall=2)
        k.add(
            "DEPBAR", "LE", stall=4, operands=[Operand(Kind.SCOREBOARD, index=0), Operand(Kind.IMMEDIATE, value=left)]
        )
        return k.exit()

    def cycles(left: int) -> int:
        # The first copy hits what an earlier one brought; the second goes to DRAM.
        records = [affine(device(0)), affine(shared(0)), affine(device(1 << 20)), affine(shared(128))]
        return run(kernel(left), lambda b, w: [(0, records)], shared_bytes=1024).cycles

    assert cycles(0) >= cycles(1)


@pytest.mark.parametrize(
    ("opcode", "reads", "later"),
    [
        ("MOV", (24,), (0, 0, 0, 1, 0, 0, 0, 2, 1, 0)),
        ("FFMA", (24, 35, 44), (4, 3, 2, 2, 1, 0, 0, 2, 1, 0)),
        ("DADD", (), (8, 7, 6, 5, 4, 3, 2, 1, 0, 0)),
    ],
)
def test_a_tensor_product_reads_at_times_of_its_own(
    opcode: str, reads: tuple[int, ...], later: tuple[int, ...]
) -> None:
    """What an instruction 1 to 10 cycles behind HMMA holds up on an H200 (bench.micro ``tensor_gaps``)."""

    def cycles(gap: int) -> int:
        kernel = Synthetic()
        for _ in range(8):
            kernel.add(
                "HMMA", "16816", "F32", writes=range(48, 52), reads=[*range(32, 36), 28, 29, *range(48, 52)], stall=1
            )
            for n in range(1, 16):
                if n == gap:
                    kernel.add(opcode, writes=[8], reads=reads, stall=1)
                else:
                    kernel.add("NOP", stall=1)
        return loop_cycles(kernel.exit(), [])

    alone = cycles(0)
    assert [(cycles(gap) - alone) / 8 for gap in range(1, 11)] == pytest.approx(later, abs=0.2)


# --- shared memory -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("chip", "latency"), [("v100", 19), ("a100", 26), ("h200", 23)])
def test_shared_load_latency(chip: str, latency: int) -> None:
    def chase(count: int) -> Synthetic:
        return repeat("LDS", count, writes=[0], reads=[0], access=SHARED4, write_barrier=0, wait=[0], stall=2)

    assert each(chase, record=affine(shared(0), 0, 1), chip=chip, shared_bytes=1024) == latency


@pytest.mark.parametrize("ways", [1, 2, 4, 8, 16, 32])
def test_bank_conflicts_take_a_wavefront_each(ways: int) -> None:
    kernel = repeat("LDS", 64, writes=[4], reads=[0], access=SHARED4, stall=1)
    record = [affine(shared(0), 4 * ways)] * 64
    cycles = loop_cycles(kernel, record, block=512, shared_bytes=4096)
    assert cycles == pytest.approx(64 * 16 * ways, rel=0.02)


@pytest.mark.parametrize(("access", "waves"), [(SHARED4, 1), (SHARED8, 2), (SHARED16, 4)])
def test_wide_shared_accesses_take_128_bytes_a_cycle(access: Access, waves: int) -> None:
    kernel = repeat("LDS", 64, writes=[4], reads=[0], access=access, stall=1)
    cycles = loop_cycles(kernel, [affine(shared(0), access.bytes)] * 64, block=512, shared_bytes=4096)
    assert cycles == pytest.approx(64 * 16 * waves, rel=0.02)


@pytest.mark.parametrize("ways", [4, 8, 32])
def test_one_warp_passes_in_two_cycles_each(ways: int) -> None:
    """An H200's loads of k-way conflicts take 2 k cycles each by one warp, k by many (bench.micro ``shared``)."""
    kernel = repeat("LDS", 64, writes=[4], reads=[0], access=SHARED4, stall=1)
    cycles = loop_cycles(kernel, [affine(shared(0), 4 * ways)] * 64, block=32, shared_bytes=4096)
    assert cycles == pytest.approx(64 * 2 * ways, rel=0.02)


@pytest.mark.parametrize(("access", "cycles"), [(SHARED4, 4), (SHARED8, 6), (SHARED16, 10)])
def test_stores_of_one_warp_take_two_cycles_a_register(access: Access, cycles: int) -> None:
    """Address and data of a store to shared memory pass its sub-core's way a register in two cycles (5.8, 8.2, 12.2 with the loop)."""
    data = range(4, 4 + access.bytes // 4)
    kernel = repeat("STS", 64, reads=[0, *data], access=access, kind="store", stall=1)
    taken = loop_cycles(kernel, [affine(shared(0), access.bytes)] * 64, block=32, shared_bytes=4096)
    assert taken == pytest.approx(64 * cycles, rel=0.02)


@pytest.mark.parametrize(("access", "waves"), [(SHARED8, 1), (SHARED16, 2)])
@pytest.mark.parametrize("apart", [1, 2])
def test_loads_of_lanes_in_pairs_return_two_registers_a_cycle(access: Access, waves: int, apart: int) -> None:
    """LDS.64 and LDS.128 of pairs of lanes take 1 and 2 cycles on an H200 (bench.micro ``shared``), of two halves of a warp 2 and 4."""
    kernel = repeat("LDS", 64, writes=[4], reads=[0], access=access, stall=1)
    words = [lane // 2 if apart == 1 else lane // 4 * 2 + lane % 2 for lane in range(32)]

    def cycles_each(words: list[int]) -> float:
        record = gather([shared(access.bytes * word) for word in words])
        return loop_cycles(kernel, [record] * 64, block=1024, shared_bytes=4096) / 64 / 32

    assert cycles_each(words) == pytest.approx(waves, rel=0.05)
    assert cycles_each([lane % 16 for lane in range(32)]) == pytest.approx(2 * waves, rel=0.02)


def test_a_broadcast_and_a_permutation_have_no_conflict() -> None:
    kernel = repeat("LDS", 4, writes=[4], reads=[0], access=SHARED4, stall=1)
    turn = [gather([shared(4 * (31 - lane)) for lane in range(32)]), affine(shared(64), 0)] * 2
    result = run(kernel, lambda b, w: [(0, turn)], shared_bytes=1024)
    assert result.metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == 0


def test_a_wide_broadcast_needs_fewer_wavefronts_than_its_bytes_and_has_no_conflict() -> None:
    kernel = repeat("LDS", 4, writes=[4], reads=[0], access=SHARED16, stall=1)
    result = run(kernel, lambda b, w: [(0, [affine(shared(64), 0)] * 4)], shared_bytes=1024)
    assert result.metrics["l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"] == 0


def test_the_queue_takes_one_in_two_cycles_for_each_register_of_an_address() -> None:
    def burst(count: int) -> Synthetic:
        return repeat("LDS", count, writes=[4], reads=[0], access=SHARED4, stall=1)

    assert each(burst, record=affine(shared(0)), shared_bytes=1024) == 2


@pytest.mark.parametrize(("access", "longer"), [(SHARED4, 0), (SHARED8, 3), (SHARED16, 9)])
def test_a_wide_shared_load_takes_three_cycles_for_each_further_pass(access: Access, longer: int) -> None:
    """An H200: 44, 47, 53 cycles per turn (bench.micro ``load_bursts``)."""

    def chase(count: int) -> Synthetic:
        return repeat("LDS", count, writes=[0], reads=[0], access=access, write_barrier=0, wait=[0], stall=2)

    assert each(chase, record=affine(shared(0), access.bytes), shared_bytes=1024) == 23 + longer


@pytest.mark.parametrize(("values", "latency"), [(1, 28), (2, 39), (32, 369)])
def test_match_takes_different_values_one_after_the_other(values: int, latency: int) -> None:
    def chase(count: int) -> Synthetic:
        value = Access("value", 4)
        kernel = Synthetic()
        for _ in range(count):
            kernel.add("MATCH", "ANY", writes=[0], reads=[0], access=value, write_barrier=0, wait=[0], stall=2)
        return kernel.exit()

    record = affine(5, 0) if values == 1 else affine(0, 1, (1 << values) - 1)
    assert each(chase, record=record) == latency


# --- global memory ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("chip", "latency"), [("v100", 28), ("a100", 35), ("h200", 32)])
def test_l1_hit_latency(chip: str, latency: int) -> None:
    def chase(count: int) -> Synthetic:
        return repeat("LDG", count, writes=[0], reads=[0, 1], access=GLOBAL4, write_barrier=0, wait=[0], stall=2)

    assert each(chase, record=affine(device(0), 0, 1), chip=chip) == latency


def chase_cycles(chip: str, addresses: list[int], warm: list[int]) -> float:
    """Cycles a load of a chain that follows ``addresses`` after a pass over ``warm`` (around L1)."""
    around = Access("global", 4)

    def kernel(count: int) -> Synthetic:
        k = Synthetic()
        for _ in range(count):
            k.add("LDG", "BYPASS", writes=[0], reads=[0, 1], access=around, write_barrier=0, wait=[0], stall=2)
        return k.exit()

    def cycles(chain: list[int]) -> int:
        every = [*warm, *chain]
        return run(kernel(len(every)), lambda b, w: [(0, [affine(a, 0, 1) for a in every])], chip=chip).cycles

    half = len(addresses) // 2
    return (cycles(addresses) - cycles(addresses[:half])) / (len(addresses) - half)


@pytest.mark.parametrize(("chip", "published"), [("v100", [193, 212, 221]), ("a100", [200, 221]), ("h200", [280])])
def test_l2_hit_latency_is_within_10_percent_of_what_is_published(chip: str, published: list[int]) -> None:
    lines = [device(4096 * i) for i in range(64)]
    cycles = chase_cycles(chip, lines * 2, lines)
    assert all(abs(cycles - value) <= 0.1 * value for value in published)


@pytest.mark.parametrize(("chip", "published"), [("v100", [408, 460]), ("a100", [574]), ("h200", [655])])
def test_dram_latency_is_within_10_percent_of_what_is_published(chip: str, published: list[float]) -> None:
    """Of A100 466 (Luo et al.), 574 (gpu-benches, two cards) and 640 (mt4g) are published; the chip file has the one in the middle."""
    random = np.random.default_rng(1)
    lines = [device(int(line) * 128) for line in random.permutation(1 << 20)[:256]]
    cycles = chase_cycles(chip, lines, [])
    assert all(abs(cycles - value) <= 0.1 * value for value in published)


def test_writes_reach_dram_only_when_l2_is_full() -> None:
    kernel = repeat("STG", 4, reads=[0, 1, 2], access=GLOBAL16, kind="store", stall=2)

    def trace(block: int, warp: int) -> list[tuple[int, list[list[int]]]]:
        base = (block * 8 + warp) * 2048
        return [(0, [affine(device(base + 512 * i), 16) for i in range(4)])]

    small = run(kernel, trace, grid=64, block=256).metrics
    assert (small["dram__bytes_write.sum"], small["dram__bytes_read.sum"]) == (0, 0)
    tiny = load_chip("h200", l2_kib=1536)
    large = run(kernel, trace, chip=tiny, grid=512, block=256).metrics
    # A written line takes room in both partitions.
    assert large["dram__bytes_write.sum"] == pytest.approx(512 * 8 * 2048 - 1536 * 1024 / 2, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_streaming_reaches_85_to_95_percent_of_dram_bandwidth(chip: str) -> None:
    record = load_chip(chip)
    kernel = Synthetic()
    for i in range(4):
        kernel.add("LDG", writes=[4 * i + 4], reads=[0, 1], access=GLOBAL16, write_barrier=i, stall=2)
    kernel.add("FADD", writes=[0], reads=[4, 8], wait=[0, 1, 2, 3], stall=4).exit()
    grid = 256 * 2**20 // (256 * 64)

    def trace(block: int, warp: int) -> list[tuple[int, list[list[int]]]]:
        return [(0, [affine(device(block * 16384 + i * 4096 + warp * 512), 16) for i in range(4)])]

    result = run(kernel, trace, chip=record, grid=grid, block=256)
    assert 0.85 <= 256 * 2**20 / result.seconds / 1e9 / record.dram.dram_gb_per_s <= 0.96


# --- barriers, blocks, instruction fetch ----------------------------------------------------------------
@pytest.mark.parametrize(("warps", "card"), [(1, 14.6), (2, 16.6), (4, 20.6), (8, 28.6), (16, 44.6), (32, 76.6)])
def test_block_barriers_cost_what_a_card_shows(warps: int, card: float) -> None:
    kernel = Synthetic()
    kernel.add("BAR", "SYNC", control_op="barrier", stall=5).exit()

    def cycles(count: int) -> int:
        return run(kernel, lambda b, w: [(0, [])] * count + [(1, [])], block=32 * warps).cycles

    assert (cycles(60) - cycles(20)) / 40 == pytest.approx(card, abs=4)


@pytest.mark.parametrize(
    ("opcode", "interval", "latency"), [("FADD", 1, 4), ("IADD3", 2, 4), ("DADD", 2, 8), ("MUFU", 8, 17)]
)
@pytest.mark.parametrize("warps", [1, 3, 4, 5, 8])
def test_chains_of_a_sub_cores_warps_keep_their_pipe_busy(opcode: str, interval: int, latency: int, warps: int) -> None:
    """bench.micro ``warp_chains``: as on an H200, none of a block's warps falls behind."""
    fixed = opcode != "MUFU"

    def total(count: int) -> int:
        kernel = Synthetic()
        for _ in range(count):
            wait = [] if fixed else [0]
            kernel.add(
                opcode, writes=[4], reads=[4], stall=latency if fixed else 1, write_barrier=7 if fixed else 0, wait=wait
            )
        return run(kernel.exit(), lambda b, w: [(0, [])], block=128 * warps).cycles

    assert (total(96) - total(32)) / 64 == pytest.approx(max(latency, warps * interval), rel=0.05)


@pytest.mark.parametrize(("modifiers", "interval"), [(("F64", "F32"), 8), (("F32", "F64"), 9)])
def test_a_conversion_of_64_bits_takes_longer(modifiers: tuple[str, str], interval: int) -> None:
    assert each(lambda n: _conversions(modifiers, n)) == interval


def _conversions(modifiers: tuple[str, str], count: int) -> Synthetic:
    kernel = Synthetic()
    for _ in range(count):
        kernel.add("F2F", *modifiers, writes=[4], reads=[0, 1], stall=1)
    return kernel.exit()


def test_blocks_of_a_full_sm_pass_their_barriers_one_after_the_other() -> None:
    """bench.micro ``block_bars`` on an H200: 32 blocks of two warps a barrier in 46 cycles each, the SM's 32 in 135."""
    kernel = Synthetic()
    kernel.add("BAR", "SYNC", "DEFER_BLOCKING", control_op="barrier", stall=5).exit()
    result = run(kernel, lambda b, w: [(0, [])] * 64 + [(1, [])], chip=load_chip("h200", sm_count=1), grid=32, block=64)
    spans = np.sort(result.blocks[:, 2] - result.blocks[:, 1])
    assert spans[-1] == pytest.approx(64 * 130, rel=0.1)
    assert spans[:4].max() < 64 * 64


@pytest.mark.parametrize(("blocks", "warps", "card"), [(32, 1, 7.45), (32, 2, 11.8), (16, 4, 20.2), (8, 8, 36.7)])
def test_a_barrier_among_shared_loads_takes_the_load_store_unit_too(blocks: int, warps: int, card: float) -> None:
    """Four loads of each warp and a barrier on an H200 (bench.micro ``bars_among``): cycles of the SM a barrier; the loads alone take four per warp."""
    kernel = Synthetic()
    for number in range(4):
        kernel.add("LDS", writes=[4 + number], reads=[0], access=SHARED4, write_barrier=0, stall=1)
    kernel.add("FADD", writes=[0], reads=[4, 7], wait=[0], stall=5)
    kernel.add("BAR", "SYNC", "DEFER_BLOCKING", control_op="barrier", stall=5).exit()
    word, chip = affine(shared(0), 4), load_chip("h200", sm_count=1)

    def cycles(turns: int) -> int:
        played = [(0, [word] * 4)] * turns + [(1, [])]
        return run(kernel, lambda b, w: played, chip=chip, grid=blocks, block=32 * warps, shared_bytes=128).cycles

    assert (cycles(96) - cycles(32)) / 64 / blocks == pytest.approx(card, rel=0.1)


@pytest.mark.parametrize("active", [0, 32])
def test_accesses_without_an_active_lane_take_the_load_store_unit(active: int) -> None:
    """Two shared loads and a store of each of two warps between barriers of 32 blocks: 311 to 315 cycles of an H200's SM, however many lanes make them (bench.micro ``bars_masked``)."""
    kernel = Synthetic()
    for number in range(2):
        kernel.add("LDS", writes=[4 + number], reads=[0], access=SHARED4, write_barrier=0, stall=1)
    kernel.add("FADD", writes=[6], reads=[4, 5], wait=[0], stall=5)
    kernel.add("STS", reads=[0, 6], access=SHARED4, kind="store", stall=1)
    kernel.add("BAR", "SYNC", "DEFER_BLOCKING", control_op="barrier", stall=5).exit()
    word, chip = affine(shared(0), 4, (1 << active) - 1), load_chip("h200", sm_count=1)

    def cycles(turns: int) -> int:
        played = [(0, [word] * 3)] * turns + [(1, [])]
        return run(kernel, lambda b, w: played, chip=chip, grid=32, block=64, shared_bytes=128).cycles

    assert (cycles(96) - cycles(32)) / 64 == pytest.approx(313, rel=0.1)


def test_fences_of_an_sm_take_turns_where_it_has_places_for_a_few() -> None:
    chip = load_chip("p100", sm_count=1)
    latency, turn = chip.pipes.membar_block_latency_cycles, chip.pipes.membar_place_cycles

    def cycles(warps: int, count: int) -> int:
        kernel = Synthetic()
        for _ in range(count):
            kernel.add("MEMBAR", "SC", "CTA", stall=5)
        kernel.exit()
        return run(kernel, lambda b, w: [(0, [])], chip=chip, block=32 * warps).cycles

    def each(warps: int) -> float:
        return (cycles(warps, 60) - cycles(warps, 20)) / 40

    assert each(8) == pytest.approx(each(1), abs=2)
    assert latency <= each(1) <= latency + 16
    # Thirty-two warps wait for the places of eight, and those that were first for the end of the round.
    assert each(32) == pytest.approx(latency + 3 * turn, rel=0.02)


def test_a_chip_of_one_sm_begins_anew_behind_a_whole_one() -> None:
    kernel = repeat("NOP", 20, stall=15)
    small = load_chip("a100", sm_count=1)
    fresh = run(kernel, chip=small).cycles
    run(kernel, chip="h200")
    assert run(kernel, chip=small).cycles == fresh > 300


def test_blocks_wait_for_room_and_follow_each_other() -> None:
    kernel = repeat("NOP", 20, stall=15)
    chip = load_chip("h200", sm_count=1)
    full = load_chip("h200", sm_count=1).sm.max_warps_per_sm // 32
    one = run(kernel, chip=chip, grid=full, block=1024)
    two = run(kernel, chip=chip, grid=2 * full, block=1024)
    assert two.cycles - one.cycles >= chip.launch.block_launch_latency_cycles
    assert int(two.sm["blocks"].sum()) == 2 * full


def test_every_block_runs_once_wherever_it_runs() -> None:
    kernel = repeat("NOP", 4, stall=2)
    result = run(kernel, grid=1000, block=96)
    assert int(result.sm["blocks"].sum()) == 1000
    assert result.metrics["smsp__inst_executed.sum"] == 1000 * 3 * 5


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kib", "low", "high"), [(24, 1.0, 1.15), (96, 2.0, 2.5), pytest.param(192, 5.2, 6.0, marks=pytest.mark.ci)]
)
def test_straight_line_code_is_fetched_at_the_rate_of_the_level_that_holds_it(
    kib: int, low: float, high: float
) -> None:
    count = kib * 64
    kernel = repeat("FFMA", count, writes=[6], reads=[0, 1], stall=1)
    assert low <= loop_cycles(kernel, iterations=3) / count <= high


@pytest.mark.ci
@pytest.mark.parametrize(("kib", "measured"), [(128, 2.42), (136, 3.41), (144, 4.29), (152, 4.91)])
def test_code_a_little_larger_than_the_second_level_is_found_there_in_part(kib: int, measured: float) -> None:
    """bench.micro ``icache`` on H200: sets of four lines, of which those with five lines of the loop keep none."""
    count = kib * 64
    kernel = repeat("FFMA", count, writes=[6], reads=[0, 1], stall=1)
    assert loop_cycles(kernel, iterations=3) / count == pytest.approx(measured, rel=0.08)


@pytest.mark.ci
def test_code_that_l2_lacks_comes_as_much_slower_as_dram_is_farther() -> None:
    """bench.micro ``straight_once`` on H200: beyond the 64 KiB that a launch brings, 116 cycles per line by one SM, 104 by all; 45 once L2 has it."""

    def cycles(kib: int, turns: int = 1) -> int:
        kernel = repeat("FFMA", kib * 64, writes=[6], reads=[0, 1], stall=1)
        return run(kernel, lambda block, warp: [(0, [])] * turns).cycles

    cold, lines = cycles(256) - cycles(192), 64 * 8
    assert 100 <= cold / lines <= 120
    assert 40 <= (cycles(256, 2) - cycles(256)) / (256 * 8) <= 50


# --- properties of a whole run ----------------------------------------------------------------------------
def busy_kernel() -> tuple[Synthetic, object]:
    kernel = Synthetic()
    kernel.add("LDG", writes=[4], reads=[0, 1], access=GLOBAL4, write_barrier=0, stall=2)
    kernel.add("FFMA", writes=[5], reads=[4, 5, 6], wait=[0], stall=4)
    kernel.add("STS", reads=[5, 7], access=SHARED4, kind="store", stall=2)
    kernel.add("BAR", "SYNC", control_op="barrier", stall=5)
    kernel.add("LDS", writes=[8], reads=[7], access=SHARED4, write_barrier=1, stall=2)
    kernel.add("STG", reads=[0, 1, 8], access=GLOBAL4, kind="store", wait=[1], stall=2).exit()

    def trace(block: int, warp: int) -> list[tuple[int, list[list[int]]]]:
        at = (block * 977 + warp * 31) % 4096 * 128
        return [
            (0, [affine(device(at), 4 + block % 3 * 8), affine(shared(warp * 128))]),
            (1, [affine(shared(warp * 4), 128), affine(device((1 << 24) + at))]),
        ]

    return kernel, trace


def test_cycles_do_not_depend_on_host_threads_or_on_the_run() -> None:
    kernel, trace = busy_kernel()
    runs = [run(kernel, trace, grid=700, block=128, shared_bytes=8192, threads=n) for n in (1, 2, 1)]
    assert runs[0].cycles == runs[1].cycles == runs[2].cycles
    assert runs[0].metrics == runs[1].metrics == runs[2].metrics


def test_stall_reasons_account_for_every_cycle_of_every_warp() -> None:
    kernel, trace = busy_kernel()
    result = run(kernel, trace, grid=200, block=128, shared_bytes=8192)
    booked = sum(result.stalls.values())
    lived = result.metrics["smsp__warps_active.avg.per_cycle_active"] * result.sm["active_cycles"].sum() * 4
    assert booked == pytest.approx(lived, rel=0.05)


def test_the_bottleneck_is_one_sentence_about_what_binds() -> None:
    result = run(
        repeat("FFMA", 512, writes=[6], reads=[0, 1], stall=1), lambda b, w: [(0, [])] * 20, grid=132, block=512
    )
    assert result.bottleneck.startswith("instruction issue binds: ") or result.bottleneck.startswith("FMA pipe binds: ")


def test_a_tiny_launch_is_said_to_be_overhead() -> None:
    kernel, trace = busy_kernel()
    result = run(kernel, trace, grid=1, block=32, shared_bytes=8192)
    overhead = load_chip("h200").launch.launch_overhead_cycles
    share = 100 * overhead / result.cycles
    assert share >= 60
    assert result.bottleneck == f"launch overhead ({share:.0f}% of the time is before the first block runs)"


def test_another_scheduler_is_a_plain_function_and_changes_the_order_only() -> None:
    def youngest_first(ready: int, last: int, ages: object) -> int:
        best = -1
        for slot in range(16):
            if (ready >> slot) & 1 and (best < 0 or ages[slot] > ages[best]):
                best = slot
        return best

    kernel, trace = busy_kernel()
    usual = run(kernel, trace, grid=400, block=256, shared_bytes=8192)
    other = run(kernel, trace, grid=400, block=256, shared_bytes=8192, policies=Policies(youngest_first))
    assert other.metrics["smsp__inst_executed.sum"] == usual.metrics["smsp__inst_executed.sum"]
    assert other.cycles != usual.cycles
