"""G80's cycles: each rule of its multiprocessor from both sides, and bounds that no launch undercuts."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import warpwright as ww
from tests.g80_kernels import ONE_SM, TEXT, each, launch, trip
from tests.kernels import case, names
from warpwright.chips import load_chip
from warpwright.isa.nv50.decode import decode_section
from warpwright.isa.nv50.schedule import UNITS as NV50_UNITS
from warpwright.isa.nv50.schedule import WORKS
from warpwright.isa.schedule import UNITS
from warpwright.timing.pipes import timing_of

PLAIN = "mov.u32 %r3, 0;"


def registers(count: int) -> tuple[str, str]:
    """So many floats and integers, made before a loop and read after it."""
    made = "".join(f"mov.f32 %f{n}, %f0; mov.u32 %r{n + 3}, %r2;\n" for n in range(1, count + 1))
    read = "".join(f"add.f32 %f0, %f0, %f{n}; add.s32 %r3, %r3, %r{n + 3};\n" for n in range(1, count + 1))
    return PLAIN + made, read


SETUP, LAST = registers(8)
MADS = "".join(f"fma.rn.f32 %f{n}, %f{n}, %f{n}, %f{n};\n" for n in range(1, 5))
MULS = "".join(f"mul.f32 %f{n}, %f{n}, %f{n};\n" for n in range(5, 9))
ADDS = "".join(f"add.s32 %r{n}, %r{n}, %r2;\n" for n in range(4, 8))
BOTH = "".join(
    f"fma.rn.f32 %f{n}, %f{n}, %f{n}, %f{n};\nmul.f32 %f{n + 4}, %f{n + 4}, %f{n + 4};\n" for n in range(1, 5)
)


def by_eight(piece: str) -> float:
    """Cycles of the multiprocessor for a warp's piece, of eight warps that do independent work."""
    return each(piece, 4, SETUP, 8, LAST) / 8


@pytest.mark.ci
# --- issue and pipes --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("warps", "cycles"), [(1, 24), (6, 24), (7, 28), (24, 96)])
def test_six_warps_hide_the_latency_of_the_processors(warps: int, cycles: int) -> None:
    """A chain of multiply-adds takes 24 cycles per step by one to six warps; from there on each warp adds its four cycles, up to all 24."""
    chain = "fma.rn.f32 %f1, %f1, %f1, %f0;\n"
    found = each(chain, 32, PLAIN + "mov.f32 %f1, %f0;", warps, "add.f32 %f0, %f0, %f1;")
    assert found == pytest.approx(cycles, rel=0.01)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("piece", "cycles"),
    [(MADS, 16), (ADDS, 16), (MADS + ADDS, 32), (MULS, 8), (BOTH, 16)],
    ids=["multiply-adds", "integer sums", "both on the same processors", "products", "multiply-adds and products"],
)
def test_a_warp_takes_four_cycles_of_the_processors_and_products_may_go_to_the_other_units(
    piece: str, cycles: float
) -> None:
    """Instructions go to the two kinds of unit on alternate cycles of the scheduler, one in two cycles of the processors at the most."""
    assert by_eight(piece) == pytest.approx(cycles, rel=0.015)


@pytest.mark.ci
def test_a_special_function_takes_its_units_for_sixteen_cycles_in_which_the_processors_go_on() -> None:
    root = "rcp.approx.ftz.f32 %f1, %f1;\n"
    others = MADS.replace("%f1", "%f8")
    assert by_eight(root) == pytest.approx(16, rel=0.02)
    assert by_eight(root + others) == pytest.approx(16, rel=0.02)
    assert by_eight(root + others + ADDS) == pytest.approx(32, rel=0.02)
    assert by_eight(root + MULS) == pytest.approx(16, rel=0.02), "products go to the processors meanwhile"
    assert by_eight("sin.approx.ftz.f32 %f1, %f1;\n") == pytest.approx(32, rel=0.02)


def test_latencies_are_those_of_the_chip_file() -> None:
    def alone(piece: str) -> float:
        return each(piece, 4, SETUP, 1, LAST)

    assert alone("rcp.approx.ftz.f32 %f1, %f1;\n") == 28
    assert alone("sin.approx.ftz.f32 %f1, %f1;\n") == 56
    # Four dependent instructions, as on GT200, where Wong et al. measure 96 cycles.
    assert alone("mul.lo.s32 %r4, %r4, %r2;\n") == 96


def test_a_scheduler_issues_in_its_interval() -> None:
    """Products that both kinds of unit take need an issue in two cycles; with one in four the other units have nothing to do."""
    slow = ww.GPU("g80", timing="full", issue_interval_cycles=4, **ONE_SM)
    body = TEXT.replace("SETUP", SETUP).replace("BODY", MULS * 4).replace("LAST", LAST)
    few, many = (slow.compile(body)["k"][1, 256](np.zeros(512, np.uint32), trips) for trips in (8, 24))
    assert many.timing is not None
    assert few.timing is not None
    issued = many.metrics["smsp__inst_executed.sum"] - few.metrics["smsp__inst_executed.sum"]
    assert many.cycles - few.cycles == pytest.approx(4 * issued, rel=0.01)
    issue = many.timing.bounds["instruction issue"] - slow.chip.launch.launch_overhead_cycles
    assert issue == 4 * many.metrics["smsp__inst_executed.sum"]


# --- shared memory and barriers ---------------------------------------------------------------------------------------
SUM = 4


@pytest.mark.ci
@pytest.mark.parametrize(("stride", "cycles"), [(0, 4), (1, 4), (3, 4), (2, 8), (4, 16), (8, 32), (16, 64)])
def test_sixteen_banks_serve_half_a_warp_in_two_cycles(stride: int, cycles: float) -> None:
    """Words ``stride`` apart: odd ones share no bank, and one word is for all (guide, section 5.1.2.4).  An access holds the processors meanwhile, and a sum
    follows it."""
    setup = PLAIN + f"mov.u32 %r31, there; mul.lo.u32 %r30, %r2, {4 * stride}; and.b32 %r30, %r30, 4095;"
    setup += "add.u32 %r30, %r30, %r31;"
    loads = "".join(f"ld.shared.u32 %r{20 + n}, [%r30];" for n in range(4))
    loads += "".join(f"xor.b32 %r3, %r3, %r{20 + n};" for n in range(4))
    assert each(loads, 4, setup, 16) / 64 == pytest.approx(cycles + SUM, rel=0.08)


def test_a_chain_in_shared_memory_takes_38_cycles_a_step() -> None:
    setup = PLAIN + "mov.u32 %r30, there; st.shared.u32 [%r30], %r30;"
    assert each("ld.shared.u32 %r30, [%r30];\n", 4, setup, 1, "add.s32 %r3, %r3, %r30;") == 38


@pytest.mark.parametrize(("warps", "cycles"), [(1, 20), (8, 48), (16, 80)])
def test_a_barrier_takes_four_cycles_for_each_warp(warps: int, cycles: int) -> None:
    assert each("bar.sync 0;\n", 4, PLAIN, warps) == cycles


# --- global memory ----------------------------------------------------------------------------------------------------
OWN = PLAIN + "mul.wide.u32 %rd2, %r2, 4; add.s64 %rd1, %rd1, %rd2;"
CHASE = "ld.global.u32 %r33, [%rd1]; cvt.u64.u32 %rd5, %r33; add.s64 %rd1, %rd1, %rd5;\n"


def test_every_load_of_a_chain_goes_to_dram() -> None:
    """400 to 600 cycles (guide, section 5.1.1.3), though the lines are the same ones: nothing between a thread and DRAM keeps them."""
    found = each(CHASE, 4, OWN, 1, "sub.s64 %rd1, %rd1, %rd2;")
    assert 400 + 24 <= found <= 600 + 24
    run = launch(CHASE, OWN, 64, 1, "sub.s64 %rd1, %rd1, %rd2;")
    assert run.metrics["dram__bytes_read.sum"] == 64 * 128
    assert run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 0
    later = launch(CHASE, OWN, 64, 1, "sub.s64 %rd1, %rd1, %rd2;", chip="p100")
    assert later.metrics["dram__bytes_read.sum"] < 64 * 128


@pytest.mark.parametrize(("shift", "transactions"), [(0, 4), (4, 32)])
def test_words_that_are_not_coalesced_are_transactions_of_their_own(shift: int, transactions: int) -> None:
    """A warp's aligned words are two of 64 bytes; one word off, each thread's is 32 bytes of DRAM (guide 3.2, section G.3.2.1)."""
    setup = OWN + f"add.s64 %rd1, %rd1, {shift};"
    body = "ld.global.u32 %r33, [%rd1]; xor.b32 %r3, %r3, %r33;"
    run = launch(body, setup, 16, 1, f"sub.s64 %rd1, %rd1, %rd2; sub.s64 %rd1, %rd1, {shift};")
    assert run.metrics["dram__bytes_read.sum"] == 16 * 32 * transactions
    stored = launch(
        "st.global.u32 [%rd1], %r2;", setup, 64, 1, f"sub.s64 %rd1, %rd1, %rd2; sub.s64 %rd1, %rd1, {shift};"
    )
    assert stored.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 64 * transactions + 4
    written = stored.metrics["dram__bytes_write.sum"] / 32
    assert 64 * transactions - 64 <= written <= 64 * transactions + 4, "but for what the last batch still holds"


def test_compute_capability_1_3_joins_what_1_0_does_not() -> None:
    body = "ld.global.u32 %r33, [%rd1]; xor.b32 %r3, %r3, %r33;"
    text = OWN + "add.s64 %rd1, %rd1, 4;"
    last = "sub.s64 %rd1, %rd1, %rd2; sub.s64 %rd1, %rd1, 4;"
    source = TEXT.replace("SETUP", text).replace("BODY", body).replace("LAST", last)
    found = {}
    for name, rule in (("1.0", "half_warp_in_order"), ("1.1", "half_warp_in_order"), ("1.3", "half_warp_any_order")):
        device = ww.GPU(load_chip("g80", compute_capability=name, coalescing=rule), timing="full")
        run = device.compile(source)["k"][1, 32](np.zeros(4096, np.uint32), 16)
        found[name] = run.metrics["dram__bytes_read.sum"] / 16
    assert found == {"1.0": 1024, "1.1": 1024, "1.3": 128 + 96}


# --- whole launches ---------------------------------------------------------------------------------------------------
VECTOR_SUM = """
extern "C" __global__ void sum(const float *a, const float *b, float *c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}
"""


@pytest.mark.parametrize("chip", ["g80", "g80-ultra", "fx5600", "g92"])
def test_a_vector_sum_stays_below_the_bandwidth_of_dram(chip: str) -> None:
    device = ww.GPU(chip, timing="full")
    count = 1 << 18
    a = np.arange(count, dtype=np.float32)
    c = np.zeros_like(a)
    run = device.compile(VECTOR_SUM)["sum"][count // 256, 256](a, a, c)
    np.testing.assert_array_equal(c, a + a)
    seconds = run.cycles / (device.chip.clocks.sm_clock_mhz * 1e6)
    assert 0.6 * device.chip.dram.dram_gb_per_s < 12 * count / seconds / 1e9 < device.chip.dram.dram_gb_per_s


@pytest.mark.ci
@pytest.mark.parametrize(
    "name",
    ["stream_triad", "matmul_tiled", "nested_divergence", "call_noinline", "transpose_conflicted", "constant_filter"],
)
def test_kernels_run_right_and_undercut_no_bound(name: str) -> None:
    one = case(name, "small")
    run, arrays = one.run(ww.GPU("g80", timing="full").compile(one.source, options=one.options))
    one.verify(arrays)
    assert run.schedule == "scoreboard"
    assert run.timing is not None
    undercut = {name: bound for name, bound in run.timing.bounds.items() if run.cycles < bound}
    assert run.timing.bounds
    assert not undercut


LEAST_CORRECT = 77


@pytest.mark.slow
def test_the_corpus_runs_right_with_timing_and_undercuts_no_bound() -> None:
    """All that the chip does not lack; two cases differ by its own arithmetic (``test_nv50.py``)."""
    right = 0
    for name in names():
        one = case(name, "small")
        with contextlib.suppress(ww.UnsupportedError, ww.LaunchError, ww.CompileError, AssertionError):
            run, arrays = one.run(ww.GPU("g80", timing="full").compile(one.source, options=one.options))
            one.verify(arrays)
            assert run.timing is not None
            right += all(run.cycles >= bound for bound in run.timing.bounds.values())
    assert right >= LEAST_CORRECT


def test_a_loop_in_machine_code_has_no_copies() -> None:
    """A result goes to the register that the loop keeps it in."""
    text = TEXT.replace("SETUP", PLAIN).replace("BODY", "add.s32 %r3, %r3, %r2;").replace("LAST", "")
    module = ww.GPU("g80", timing="off").compile(text)
    opcodes = [i.opcode for i in decode_section(module.machine_code("k"), 10)]
    loop = opcodes[opcodes.index("joinat") + 1 : opcodes.index("bra") + 1]
    assert loop == ["iadd", "iadd", "mov", "iset", "bra"], "the constant 0 for the comparison is one move"


def test_every_opcode_has_a_unit_with_a_row() -> None:
    chip = load_chip("g80")
    for opcode, work in WORKS.items():
        assert work.unit in UNITS, opcode
        assert work.traits <= set(UNITS[work.unit])
        assert timing_of(work, chip, work.unit == "memory").interval_cycles >= 1
    assert sum(map(len, NV50_UNITS.values())) == len(WORKS), "no opcode has two units"


def test_a_scheduler_has_as_many_groups_of_sixteen_warps_as_an_sm_has_room_for() -> None:
    with pytest.raises(
        ww.ChipError, match="max_warps_per_sm = 60 must be a multiple of sub_core_count = 3 and at most 48"
    ):
        load_chip("g80", sub_core_count=3, max_warps_per_sm=60)
    assert load_chip("g80", sub_core_count=2, max_warps_per_sm=64).sm.max_warps_per_sm == 64
    assert load_chip("g80", max_warps_per_sm=64).sm.max_warps_per_sm == 64
    assert trip(MADS, SETUP, 24, LAST) > 0
