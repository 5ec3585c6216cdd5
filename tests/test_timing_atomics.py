"""Rules of L2's atomic units, with values of a card from ``bench/micro``."""

import pytest

from tests.memory_units import ADD4, ADD8, FADD4, ask, idle
from tests.timing_synthetic import Synthetic, affine, device, run
from warpwright.chips import load_chip
from warpwright.isa.ops import Access
from warpwright.timing import instruction_table
from warpwright.timing import state as s


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
