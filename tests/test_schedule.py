"""Schedules: every opcode that decodes has a timing row, and what the issue stage knows of an instruction comes from a schedule alone."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest

import warpwright as ww
from tests.timing_synthetic import Synthetic, run
from warpwright.chips import load_chip
from warpwright.isa.machine_code import schedule
from warpwright.isa.nv50 import meaning as nv50_meaning
from warpwright.isa.nv50.decode import ROWS as NV50_ROWS
from warpwright.isa.nv50.lower import Nv50Emitter, lower_instruction
from warpwright.isa.nv50.schedule import WORKS as NV50_WORKS
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Control, Instruction, Kind, Operand, Program
from warpwright.isa.sass import schedule as sass_schedule
from warpwright.isa.sass.meaning import UnsupportedInstruction
from warpwright.isa.schedule import UNITS, UnknownTiming, Work
from warpwright.timing.pipes import ROWS, timing_of

SASS: ModuleType = importlib.import_module("warpwright.isa.sass.decode")
MAXWELL: ModuleType = importlib.import_module("warpwright.isa.maxwell.decode")
CHIPS = ("p100", "v100", "a100", "h200")


def example(opcode: str) -> Instruction:
    """An instruction of an opcode, with the modifiers and operands that its work is read from."""
    register = Operand(Kind.REGISTER, 4)
    return Instruction(0, opcode, ("64x8x16", "16816"), (register, register, Operand(Kind.IMMEDIATE)))


def opcodes(arch: int) -> set[str]:
    """Every opcode that an architecture's tables decode."""
    if arch < 70:
        return {row.opcode for row in MAXWELL.ROWS if row.first <= arch}
    return {row.opcode for row in SASS.ROWS if row.first <= arch <= row.last}


def test_each_unit_has_a_row_and_each_row_a_unit() -> None:
    assert set(ROWS) == set(UNITS)


@pytest.mark.parametrize("chip", CHIPS)
def test_every_opcode_that_decodes_has_a_timing_row(chip: str) -> None:
    """With and without accesses, on every architecture that the chip's tables decode."""
    device = load_chip(chip)
    found = opcodes(device.arch)
    assert len(found) > 80
    for opcode in sorted(found):
        work = sass_schedule.work_of(example(opcode))
        assert work.traits <= set(UNITS[work.unit]), opcode
        for accesses in (False, True):
            timing = timing_of(work, device, accesses)
            assert timing.interval_cycles >= 1, opcode
            assert timing.latency_cycles >= 0, opcode


def test_no_row_is_for_an_opcode_that_nothing_decodes() -> None:
    decoded = set().union(*(opcodes(arch) for arch in (*SASS.ARCHES, *MAXWELL.ARCHES)))
    assert set(sass_schedule.WORKS) == decoded | {"SERVICE"}


def test_what_a_loader_makes_has_a_row_too() -> None:
    """A call of a driver's function becomes an instruction that no word stands for: a kernel that prints is timed."""
    kernel = ww.GPU("h200").compile('extern "C" __global__ void k() { printf("%d\\n", 7); }')["k"]
    run = kernel[1, 1]()
    assert run.cycles > 0
    assert run.program is not None
    assert "SERVICE" in {m for i in run.program.instructions for m in (i.opcode, *i.modifiers)}


def test_every_nv50_opcode_has_a_row_or_no_meaning() -> None:
    """Compute programs and the pipeline's programs are timed; a compute program that holds a graphics instruction is refused before that."""
    decoded = {row.opcode for row in NV50_ROWS}
    graphics = set(nv50_meaning.GRAPHICS_MEANINGS)
    assert {"tex", "interp", "emit", "quadop"} <= graphics <= decoded
    assert set(NV50_WORKS) == decoded & set(nv50_meaning.MEANINGS) | graphics | {"tail"}
    for opcode in decoded - set(nv50_meaning.MEANINGS):
        with pytest.raises(UnsupportedInstruction, match="has no meaning in a compute program"):
            lower_instruction(Instruction(0, opcode, (), ()), Nv50Emitter())


def test_an_opcode_without_a_row_is_an_error_that_names_it() -> None:
    """Kernel, architecture, opcode, text and address; no silent ALU instruction."""
    odd = Instruction(0x30, "WIBBLE", ("X2",), (Operand(Kind.REGISTER, 5),))
    program = Program("odd", 80, [odd])
    with pytest.raises(UnknownTiming) as caught:
        schedule(program, [Lowered([])], [])
    assert str(caught.value) == (
        "kernel odd (sm_80): opcode WIBBLE has no timing row: WIBBLE.X2 R5 at 0x0030; use timing='off'"
    )


def test_a_launch_with_an_unknown_opcode_ends_in_that_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sass_schedule.WORKS, "FFMA")
    kernel = ww.GPU("a100").compile(
        'extern "C" __global__ void k(float *x, float a) { x[threadIdx.x] = x[threadIdx.x] * a + 1.25f; }'
    )["k"]
    with pytest.raises(ww.UnsupportedError, match=r"kernel k \(sm_80\): opcode FFMA has no timing row: FFMA .* at 0x"):
        kernel[1, 32](np.ones(32, np.float32), 2.0)


def test_control_bits_become_a_schedule() -> None:
    """Stall counts as the card acts on them, counters from the wait mask, none where a field names none."""
    control = Control(stall_cycles=4, write_barrier=2, read_barrier=7, wait_mask=0b100001)
    add = Instruction(
        0x40, "IADD3", (), (Operand(Kind.REGISTER, 1), Operand(Kind.REGISTER, 2, reuse=True)), None, control
    )
    (issue,) = schedule(Program("k", 80, [add]), [Lowered([])], [])
    assert issue.work == Work("alu")
    assert (issue.stall_cycles, issue.yields, issue.waits) == (4, False, (0, 5))
    assert (issue.write_counter, issue.read_counter, issue.address) == (2, -1, 0x40)
    (issue,) = schedule(
        Program("k", 80, [Instruction(0, "NOP", (), (), None, Control(15, True, 7, 3))]), [Lowered([])], []
    )
    assert (issue.stall_cycles, issue.yields, issue.write_counter, issue.read_counter) == (15, True, -1, 3)


def pair_cycles(second: str, width: int, *, stall: int = 0, wait: tuple[int, ...] = ()) -> int:
    """Cycles of a hundred pairs of an addition and another instruction on P100."""
    kernel = Synthetic(arch=60)
    for _ in range(100):
        kernel.add("IADD", writes=(4,), reads=(2, 3), stall=stall)
        kernel.add(second, writes=(5,), reads=(6, 7), stall=8, wait=wait)
    kernel.exit()
    chip = load_chip("p100", issue_per_clk_count=width)
    return run(kernel, lambda block, warp: [(0, [])], chip=chip).cycles


def test_a_pair_of_the_machine_code_issues_in_one_cycle_where_the_chip_issues_two() -> None:
    """A stall count of 0 saves the cycles that it takes alone (2), and nothing on a chip that issues one; other stall counts save nothing."""
    one, two = pair_cycles("MUFU", 1), pair_cycles("MUFU", 2)
    assert one - two == pytest.approx(2 * 100, abs=4)
    assert pair_cycles("MUFU", 1, stall=1) == pair_cycles("MUFU", 2, stall=1)
    assert pair_cycles("MUFU", 2, stall=1) - two == pytest.approx(100, abs=4)


def test_the_second_of_a_pair_waits_for_its_pipe() -> None:
    """Two additions marked as a pair do not issue in one cycle: they share a pipe."""
    assert pair_cycles("IADD", 2) > pair_cycles("MUFU", 2)


def rounds_of_pairs(first: str, second: str, width: int, blocks: int = 4) -> float:
    """Cycles of one more pair of each warp on one P100 SM that is full: 32 warps on each of its two schedulers."""

    def cycles(count: int) -> int:
        kernel = Synthetic(arch=60)
        for _ in range(count):
            kernel.add(first, writes=(4,), reads=(2, 3), stall=0)
            kernel.add(second, stall=6)
        kernel.exit()
        chip = load_chip("p100", issue_per_clk_count=width, sm_count=1, gpc_sm_counts=[1])
        return run(kernel, lambda block, warp: [(0, [])], chip=chip, grid=blocks, block=512).cycles

    return (cycles(120) - cycles(40)) / 80


def test_both_dispatch_units_of_a_scheduler_with_32_warps_are_used() -> None:
    """A pair of 64 warps takes the SM's two schedulers 32 cycles; 64 where each issues one instruction, or where both need the cores."""
    assert load_chip("p100").issue.issue_per_clk_count == 2
    assert rounds_of_pairs("IADD", "NOP", 2) == pytest.approx(32, rel=0.03)
    assert rounds_of_pairs("IADD", "NOP", 1) == pytest.approx(64, rel=0.03)
    assert rounds_of_pairs("IADD", "FADD", 2) == pytest.approx(64, rel=0.03), "integers and FP32 share GP100's cores"


def ends_of_two(greedy: bool) -> tuple[int, int]:
    """When two warps of a P100 scheduler end that are in different groups of its slots; the older one is ready while the other one issues.

    A third warp, of the other scheduler, brings the code before.
    """
    kernel = Synthetic(arch=60)
    for _ in range(10):
        kernel.add("IADD", writes=(4,), reads=(2, 3), stall=15)
    kernel.add("BRA", control_op="branch", target=11, stall=1)
    for _ in range(400):
        kernel.add("NOP")
    kernel.exit()
    chip = load_chip("p100", scheduler_is_greedy=greedy, sm_count=1, gpc_sm_counts=[1])
    waits = (8, 0, 6)
    found = run(kernel, lambda block, warp: [*[(0, [])] * waits[block], (1, [])], chip=chip, grid=3, block=32)
    return int(found.blocks[0, 2]), int(found.blocks[2, 2])


def test_a_greedy_scheduler_goes_on_with_its_last_warp_in_whatever_group_of_slots() -> None:
    """Otherwise the oldest block's warp issues as soon as it can."""
    older, younger = ends_of_two(greedy=True)
    assert younger < older - 50
    older, younger = ends_of_two(greedy=False)
    assert older < younger - 50


def test_control_bits_pair_instructions_before_volta_only() -> None:
    """A stall count of 0 without giving way; each instruction belongs to one pair."""

    def bundles(arch: int, *controls: Control) -> list[int]:
        code = [Instruction(8 * n, "IADD", (), (), control=control) for n, control in enumerate(controls)]
        return [issue.bundle for issue in schedule(Program("k", arch, code), [Lowered([])] * len(code), [])]

    stalls = (Control(0), Control(0), Control(4), Control(0, True), Control(1))
    assert bundles(60, *stalls) == [0, 0, -1, -1, -1]
    assert bundles(70, *stalls) == [-1] * 5
