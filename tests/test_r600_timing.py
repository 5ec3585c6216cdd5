"""Cypress and Cayman in time: every rule from both sides, on assembly whose clauses are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import warpwright as ww
from tests.r600_llvm import has_r600
from warpwright.isa.r600.load import program_from_code
from warpwright.isa.r600.schedule import BUNDLE_CYCLES, FETCHES, QUEUE, from_clauses
from warpwright.studies import cayman
from warpwright.studies.cayman import CHIPS, Bench, bundles, conflicting, fetch_cycles, fetching, pairs, share

pytestmark = pytest.mark.skipif(not has_r600(), reason="this llvmlite has no R600 back end")
PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"


@pytest.fixture(params=list(CHIPS), scope="module")
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


@pytest.mark.ci
@pytest.mark.parametrize(("wavefronts", "cycles"), [(1, 8), (2, 4), (3, 4), (16, 4)])
def test_two_wavefronts_take_turns_at_four_cycles_a_bundle(bench: Bench, wavefronts: int, cycles: int) -> None:
    """One alone waits for its own results; more than two add nothing."""
    assert bench.cycles(bundles, wavefronts) == cycles


@pytest.mark.ci
def test_a_bundle_of_four_takes_no_longer_than_one_of_one(bench: Bench) -> None:
    def wide(count: int) -> str:
        return "alu\n" + "  ADD_INT T2.x, T2.x, 1; ADD_INT T2.y, T2.y, T0.x; MOV T2.z, PV.x; MOV T2.w, PV.y\n" * count

    assert bench.cycles(wide, 2) == bench.cycles(bundles, 2)


@pytest.mark.ci
def test_a_multiply_add_of_doubles_takes_all_slots_of_one_bundle(bench: Bench) -> None:
    """544 and 676 Gflops of 850 and 880 MHz: one for each lane in four cycles, a fifth and a quarter of single precision."""

    def fma(count: int) -> str:
        upper = "; ".join(f"FMA_64 T2.{c}, T3.y, T3.y, T3.y" for c in "xyz")
        return "alu\n" + f"  {upper}; FMA_64 T2.w, T3.x, T3.x, T3.x\n" * count

    assert bench.cycles(fma, 2) == 4
    chip = bench.gpu.chip
    assert (
        round(2 * 16 * chip.sm.sm_count * chip.clocks.sm_clock_mhz / 1000) == {"hd5870": 544, "hd6970": 676}[chip.name]
    )


@pytest.mark.ci
def test_local_data_share_gives_128_bytes_a_cycle(bench: Bench) -> None:
    """Two values by each bundle: 512 bytes in its four cycles."""
    assert bench.cycles(pairs, 16) == 4


@pytest.mark.ci
@pytest.mark.parametrize(("degree", "passes"), [(0, 1), (1, 2), (2, 4), (4, 8), (16, 32), (32, 64)])
def test_n_accesses_to_a_bank_take_n_cycles(bench: Bench, degree: int, passes: int) -> None:
    """64 lanes on 32 banks: two cycles without a conflict, one where all read the same word."""
    assert bench.run(conflicting(degree)(8)).metrics[PASSES] == 8 * passes


@pytest.mark.ci
@pytest.mark.parametrize("degree", [8, 16, 32])
def test_conflicts_limit_local_data_share_when_they_take_longer_than_its_bundles(bench: Bench, degree: int) -> None:
    assert bench.cycles(conflicting(degree), 16) == 2 * degree


@pytest.mark.ci
def test_bundles_limit_local_data_share_when_conflicts_take_less(bench: Bench) -> None:
    """A load and the move that takes its value: two bundles of four cycles."""
    assert bench.cycles(conflicting(2), 16) == 8


@pytest.mark.ci
@pytest.mark.parametrize(("banks", "passes"), [(16, 4), (32, 2)])
def test_a_low_end_part_with_16_banks_has_half_the_bandwidth(banks: int, passes: int) -> None:
    bench = Bench("hd6970", shared_bank_count=banks)
    assert bench.run(conflicting(1)(8)).metrics[PASSES] == 8 * passes


@pytest.mark.ci
@pytest.mark.parametrize("chip", CHIPS)
def test_a_group_has_up_to_32_kb_of_local_data_share(chip: str) -> None:
    source = 'extern "C" __global__ void k(int *x) { extern __shared__ int y[]; y[threadIdx.x] = 1; x[threadIdx.x] = y[threadIdx.x]; }'
    kernel = ww.GPU(chip, timing="off").compile(source)["k"]
    x = np.zeros(64, np.int32)
    kernel[1, 64, 32 << 10](x)
    assert (x == 1).all()
    with pytest.raises(ww.LaunchError, match="32,768"):
        kernel[1, 64, (32 << 10) + 4](x)


@pytest.mark.ci
def test_global_data_share_answers_after_25_cycles(bench: Bench) -> None:
    assert bench.cycles(share("GDS_READ_RET", 0)) == 25
    assert bench.cycles(share("GDS_READ_RET", 1)) == 26, "64 lanes take its 32 banks twice"
    assert bench.cycles(share("GDS_READ_RET", 32)) - bench.cycles(share("GDS_READ_RET", 16)) == 32


@pytest.mark.ci
@pytest.mark.parametrize(
    ("chip", "words", "cycles"),
    [
        *[("hd5870", 1, 16), ("hd5870", 2, 16), ("hd5870", 4, 16)],
        *[("hd6970", 1, 4), ("hd6970", 2, 8), ("hd6970", 4, 16)],
    ],
)
def test_a_memory_wavefront_takes_so_many_cycles(chip: str, words: int, cycles: int) -> None:
    assert fetch_cycles(Bench(chip), words) == pytest.approx(cycles, rel=0.01)


@pytest.mark.ci
def test_cayman_brings_words_into_local_data_share_without_a_bundle() -> None:
    """Cypress needs a fetch and a bundle, Cayman the fetch alone, in the time of a fetch into registers; conflicts of its banks take their cycles."""
    for chip, instructions in (("hd5870", 2), ("hd6970", 1)):
        assert cayman.instructions_moved(Bench(chip), chip) == instructions
    bench = Bench("hd6970")

    def into(stride: int) -> Callable[[int], str]:
        place = (
            f"alu\n  LSHL_INT T3.x, T0.x, 2\n  MUL_UINT24 T3.y, T0.x, {4 * stride}\n  ADD_INT T3.x, T3.x, KC0[2].w\n"
        )
        return lambda count: place + ("fetch\n" + "  VFETCH LDS.x, T3.xy\n" * 8) * count

    assert bench.cycles(into(1), 16) / 8 == pytest.approx(4, rel=0.02)
    assert bench.cycles(into(4), 16) / 8 == pytest.approx(8, rel=0.02), "64 lanes on 8 of 32 banks"


@pytest.mark.ci
def test_a_quarter_wavefront_looks_up_a_line_of_64_bytes(bench: Bench) -> None:
    metric = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
    assert bench.run(fetching(1)(1)).metrics[metric] == 8 * 4
    assert bench.run(fetching(4)(1)).metrics[metric] == 8 * 16


@pytest.mark.ci
def test_l1_holds_8_kb_and_no_more(bench: Bench) -> None:
    assert cayman.second_walk(bench, 8) == 1
    assert cayman.second_walk(bench, 9) == 0, "the least recently used line of all is replaced"


@pytest.mark.ci
def test_the_read_path_does_not_see_writes(bench: Bench) -> None:
    assert cayman.after_store(bench) == 1


@pytest.mark.ci
def test_fetches_of_one_wavefront_do_not_go_beside_its_bundles_but_those_of_others_do(bench: Bench) -> None:
    def mixed(count: int) -> str:
        place = "alu\n  LSHL_INT T3.x, T0.x, 2\n  ADD_INT T3.x, PV.x, KC0[2].w\n"
        return place + ("alu\n" + "  ADD_INT T2.x, T2.x, 1\n" * 10 + "fetch\n  VFETCH T4.x, T3.x\n") * count

    fetch = bench.cycles(lambda n: mixed(0) + "fetch\n  VFETCH T4.x, T3.x\n" * n)
    alone, many = bench.cycles(mixed), bench.cycles(mixed, 8)
    assert alone >= 10 * BUNDLE_CYCLES + fetch - BUNDLE_CYCLES
    assert many < alone / 3
    assert many >= 10 * BUNDLE_CYCLES / 2, "the ALUs' own time"


# --- the schedule ----------------------------------------------------------------------------------------------------
def test_a_clause_waits_for_the_one_before_and_a_bundle_for_the_value_that_it_takes() -> None:
    from warpwright.isa.r600.assemble import assemble

    text = """
    fetch
      VFETCH T2.x, T0.x
      VFETCH T3.x, T0.x
    alu
      LDS_READ_RET T2.x
      MOV T4.x, T3.x
      MOV T5.x, OQAP
    """
    issues = from_clauses(program_from_code(assemble(text, "cayman"), "cayman", "f"))
    assert [i.waits for i in issues[:5]] == [(), (), (FETCHES,), (), (QUEUE,)]
    assert [i.write_counter for i in issues[:5]] == [FETCHES, FETCHES, QUEUE, -1, -1]
    assert [i.stall_cycles for i in issues[2:5]] == [BUNDLE_CYCLES] * 3


@pytest.mark.ci
@pytest.mark.parametrize("chip", CHIPS)
def test_a_compiled_kernel_is_timed_and_never_faster_than_its_bounds(chip: str) -> None:
    source = 'extern "C" __global__ void add(int *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }'
    kernel = ww.GPU(chip, timing="full").compile(source)["add"]
    x = np.arange(1 << 16, dtype=np.int32)
    run = kernel[256, 256](x)
    np.testing.assert_array_equal(x, np.arange(1 << 16) + 1)
    assert run.cycles > 0
    assert run.timing is not None
    assert all(bound <= run.cycles for bound in run.timing.bounds.values())
