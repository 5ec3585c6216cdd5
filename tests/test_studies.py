"""Studies: what a cell says, the page and the exit code; the studies themselves are slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.machine import warp_barrier_code
from warpwright.cli import app
from warpwright.errors import UnsupportedError
from warpwright.studies import multi_grid, tesla, timing_methods, warp_level
from warpwright.studies import study as studies
from warpwright.studies.catalogue import STUDIES
from warpwright.studies.page import figure, study_page
from warpwright.studies.study import Cell, Plot, Result, Step, Study, Table, differences, ordered, spread
from warpwright.toolchain.ptxas import find_assembler


def test_cells_are_relative_or_in_their_unit() -> None:
    relative = Cell("a", "b", 110.0, 100.0, 0.1)
    assert relative.difference == pytest.approx(0.1)
    assert not Cell("a", "b", 111.0, 100.0, 0.1).holds
    assert not Cell("a", "b", 89.0, 100.0, 0.1).holds
    assert Cell("a", "b", 95.0, 100.0, 0.1).holds
    assert Cell("a", "b", 22.5, 22.51, 0.02, absolute=True).holds
    assert not Cell("a", "b", 22.4, 22.51, 0.02, absolute=True).holds
    cells = [Cell("a", "b", value, 100.0, 0.1) for value in (90.0, 101.0, 104.0)]
    assert dict(spread(cells)) == pytest.approx({"median": 0.04, "largest": 0.1})


def test_the_order_of_cells_is_compared_by_pairs() -> None:
    cells = [
        Cell("a", f"{i}", ours, paper, 0.1) for i, (ours, paper) in enumerate([(1, 10), (3, 20), (2, 30), (4, 30)])
    ]
    assert ordered(cells) == (4, 5)
    assert differences(Table("t", "cycles", cells)).endswith("; order: 4 of 5 pairs of cells as in the paper")
    assert differences(Table("t", "count", [Cell("a", "b", 1, 1, 0, absolute=True)])) == ""


def test_figures_of_ours_have_no_exponents_where_people_write_none() -> None:
    assert [figure(x) for x in (12288.0, 1234.56, 999.96, 0.012345)] == ["12288", "1235", "1000", "0.01235"]


def _result(ours: float) -> Result:
    cells = [
        Cell("1 <block>", "32", ours, 2.0, 0.25),
        Cell("2 blocks", "32", 3.0, 3.1, 0.25),
        Cell("1 <block>", "64", 2.5, 2.4, 0.25),
    ]
    return Result([Table("Barrier", "µs", cells, heat_map=True)], ["A remark."])


@pytest.mark.parametrize(("ours", "code"), [(2.2, 0), (2.6, 1)])
def test_the_exit_code_says_whether_all_cells_hold(
    ours: float, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(step: Step) -> Result:
        step("measuring")
        return _result(ours)

    monkeypatch.setitem(studies.STUDIES, "made-up", Study("made-up", "A paper, Table 1", "What it measures", run))
    ended = CliRunner().invoke(app, ["study", "made-up", "--report", str(tmp_path / "page.html")])
    assert ended.exit_code == code
    assert f"{3 - code} of 3 cells are within their tolerance" in ended.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 &lt;block&gt;" in page
    assert page.count("<svg") == 2
    assert ("<strong>+30.0%</strong>" in page) == bool(code)


def test_a_study_that_cannot_run_here_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(step: Step) -> Result:
        raise UnsupportedError("this study needs scikit-learn")

    monkeypatch.setitem(studies.STUDIES, "made-up", Study("made-up", "A paper, Table 1", "What it measures", run))
    ended = CliRunner().invoke(app, ["study", "made-up"])
    assert (ended.exit_code, ended.output.strip()) == (1, "made-up: this study needs scikit-learn")


def test_studies_are_listed_and_unknown_ones_refused() -> None:
    listed = CliRunner().invoke(app, ["study"]).output
    assert all(name in listed for name in STUDIES)
    refused = CliRunner().invoke(app, ["study", "sync-table55"])
    assert refused.exit_code == 2
    assert "sync-table5" in refused.output
    begun = CliRunner().invoke(app, ["study", "volta-fig"])
    named = begun.output.partition("begin with it: ")[2].strip().split(", ")
    numbers = [int(name.removeprefix("volta-fig")) for name in named]
    assert numbers == sorted(numbers)
    assert len(numbers) == sum(name.startswith("volta-fig") for name in STUDIES) > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "missed_count"),
    [
        *[("sync-table5", 0), ("tesla-table1", 1), ("tesla-peaks", 0), ("tesla-coalescing", 3), ("sync-figure8", 0)],
        *[("sync-table1", 1), ("sync-table4", 1), ("sync-table6", 0), ("sync-table7", 1), ("sync-table8", 0)],
        *[("sync-table9", 2), ("sync-figure6", 0), ("sync-figure7", 0), ("sync-figure9", 0), ("sync-figure10", 2)],
        *[("volta-fig1", 0), ("volta-fig2", 0), ("volta-fig5", 0), ("volta-fig6", 0), ("links", 0), ("all-reduce", 1)],
        *[("a100-table3", 0), ("volta-demos", 0), ("sync-figure11", 0), ("sync-figure12", 0), ("sync-figure13", 0)],
        *[("a100-table2", 0), ("a100-fig14", 0), ("a100-fig34", 2), ("a100-atomics", 0), ("a100-compression", 3)],
        *[
            ("a100-table1", 0),
            ("a100-table4", 0),
            ("a100-table5", 0),
            ("a100-fig31", 0),
            ("a100-fig33", 0),
            ("a100-fig35", 0),
            ("a100-grid-barrier", 0),
        ],
        *[("cayman-vs-fermi", 0), ("tesla-example", 0), ("tesla-texture", 0)],
        *[("tesla-graphics-peaks", 0), ("tesla-balance", 0), ("tesla-rasterisation", 0), ("tesla-antialiasing", 0)],
        *[("tesla-scaling", 0), ("tesla-compute", 0), ("graph-launch", 5)],
        *[("tcairs-fig11", 0), ("nvdec-table8", 0), ("nvjpg-table6", 0), ("a100-optical-flow", 0)],
        *[("mig-isolation", 0), ("ecc-campaign", 0), ("sparsity-table11", 0)],
        *[("cayman-lds", 0), ("cayman-gds", 0), ("cayman-coalescing", 0), ("cayman-texture-bandwidth", 0)],
    ],
)
def test_a_study_misses_no_more_cells_than_its_page_says(name: str, missed_count: int) -> None:
    found = STUDIES[name].run(lambda _: None)
    assert found.missed_count <= missed_count, study_page(STUDIES[name], found)


def test_the_method_of_two_kernels_cancels_what_a_launch_takes_besides() -> None:
    """Formulas 1 and 2 of the paper, with a launch's 5 us and 4 ns an instruction."""
    few, many = timing_methods.read([5512.0, 5512.0, 5521.0]), timing_methods.read([25480.0, 25492.0, 25489.0])
    found = timing_methods.inferred(few, many, 4993)
    assert found.mean == pytest.approx((25487 - 5515) / 4993)
    assert found.deviation == pytest.approx((27 + 39) ** 0.5 / 4993)
    assert timing_methods.read([7.0]) == timing_methods.Readings(7.0, 0.0)
    with pytest.raises(ValueError, match="at least one"):
        timing_methods.inferred(few, many, 0)
    with pytest.raises(ValueError, match="no readings"):
        timing_methods.read([])


def test_the_method_of_the_gpus_clock_takes_the_time_in_which_all_warps_repeat() -> None:
    assert timing_methods.by_gpu_clock([100, 104], [200, 212], 4) == ((200 - 104) / 4, 2 * 4 / (212 - 100))


@pytest.mark.ci
def test_the_table_s_accuracy_of_a_sine_is_the_interpolator_s() -> None:
    """22.47 bits: the multiplication of the argument and the cut of the result are not in it."""
    assert tesla.sine_of_quarter_turns().good_bits == pytest.approx(22.47, abs=0.02)


def test_a_page_draws_the_series_of_a_study() -> None:
    plot = Plot("Latency", "warps", "cycles", {"model": [(1.0, 4.0), (2.0, 8.0)], "paper": [(1.0, 5.0), (2.0, 7.0)]})
    page = study_page(Study("x", "y", "z", lambda _: Result()), Result([], [], [plot]))
    assert page.count('class="front"') == page.count('class="front other"') == 1
    assert "model, 2: 8 cycles" in page
    assert "paper, 1: 5 cycles" in page


def test_the_cells_of_a_map_belong_to_the_rows_of_the_papers_table() -> None:
    assert multi_grid._class("v100", 4, 16) == "at most 4 blocks and 16 warps"
    assert multi_grid._class("v100", 4, 32) == "in between"
    assert multi_grid._class("v100", 2, 64) == "16 blocks or more, or 64 warps"
    assert multi_grid._class("p100", 2, 64) == "in between"
    assert multi_grid._class("p100", 16, 16) == "more than 8 blocks"


@pytest.mark.ci
def test_a_tile_of_cuda_10_takes_the_time_of_a_fence_before_volta() -> None:
    """The fence of the block's barrier is outside of its condition, so that a barrier within a warp, which is no instruction, costs it."""
    latency, rate = warp_level.warp_barrier("p100", "tile", 16, 32)
    assert latency == pytest.approx(198, rel=0.05)
    assert warp_level.warp_barrier("p100", "coalesced", 16, 32)[0] < 3
    assert rate == pytest.approx(1 / latency, rel=0.05)


def test_a_coalesced_groups_barrier_on_v100_has_six_instructions_if_linked_separately_and_four_otherwise() -> None:
    """With the installed assembler; CUDA 11.2 to 12.9 give the same."""
    assembler = find_assembler()
    if assembler is None:
        pytest.skip("the wheel nvidia-cuda-nvcc-cu12 with ptxas is not installed")
    code = [warp_barrier_code.instructions(assembler, "6.3", "sm_60", options) for options in (("-c",), ())]
    assert [len(one) / warp_barrier_code.BARRIERS for one in code] == [6, 4]
    assert code[0][::6] == code[1][::4] == ["BRA.CONV"] * warp_barrier_code.BARRIERS


def test_launches_are_timed_by_any_clock() -> None:
    """A launch of 3 ns and a wait that ends 10 ns after the last launch; the first repeat is not counted."""
    now, ready, repeats = [0], [0], [0]

    def launch() -> None:
        now[0] += 3
        ready[0] = max(ready[0], now[0]) + 4

    def synchronize() -> None:
        now[0] = max(now[0], ready[0] + 6) + (1000 if repeats[0] == 0 else 0)
        repeats[0] += 1

    times = timing_methods.launch_times(launch, synchronize, lambda: now[0], repeats=4, many=10)
    assert times.call == timing_methods.Readings(3.0, 0.0)
    assert times.total == timing_methods.Readings(13.0, 0.0)
    assert times.additional.mean == pytest.approx(4.0)
    with pytest.raises(ValueError, match="at least two"):
        timing_methods.launch_times(launch, synchronize, lambda: 0, repeats=1)


@pytest.mark.ci
def test_no_constant_gives_the_table_s_share_of_powers_rounded_exactly() -> None:
    """74 % of 2^x: the chip's coefficients give at most 72.7 %, and values without an error of their own 74.9 %."""
    of_chip, of_any = tesla.largest_shares_of_power()
    assert of_chip == pytest.approx(72.7, abs=0.1)
    assert of_any == pytest.approx(74.9, abs=0.1)
    by_arguments = tesla.shares_of_power_by_arguments()
    assert list(by_arguments.values()) == pytest.approx([71.3, 71.7, 71.1, 65.7], abs=0.1)
