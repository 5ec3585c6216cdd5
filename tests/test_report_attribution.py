"""Attribution: every cycle is accounted for once, shares agree with the counters, and the advice fits the kernel."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import warpwright as ww
from warpwright.cli import app
from warpwright.isa.sass.schedule import work_of
from warpwright.run import Run
from warpwright.session import session
from warpwright.timing import state as s
from warpwright.timing.pipes import timing_of
from warpwright.tools.report import Attribution, WhatIf, attribute, ranked, trace_events, what_if, write_trace
from warpwright.tools.report.resources import BOUNDS, MEANINGS, STALLS

SOURCE = """\
extern "C" __global__ void stream(int n, const float4 *x, float4 *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i];
}
extern "C" __global__ void multiply(int n, float *x)
{
    float a = x[0], b = a, c = a, d = a;
    for (int i = 0; i < n; ++i) {
        a = a * 1.5f + 1.0f; b = b * 1.5f + 1.0f; c = c * 1.5f + 1.0f; d = d * 1.5f + 1.0f;
    }
    x[threadIdx.x] = a + b + c + d;
}
extern "C" __global__ void chase(int n, const int *next, int *out)
{
    int at = 0;
    for (int i = 0; i < n; ++i)
        at = next[at];
    out[0] = at;
}
extern "C" __global__ void roots(int n, float *x)
{
    float a = x[threadIdx.x];
    for (int i = 0; i < n; ++i)
        asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(a));
    x[threadIdx.x] = a;
}
extern "C" __global__ void doubles(int n, double *x)
{
    double a = x[threadIdx.x];
    for (int i = 0; i < n; ++i)
        a = a * 1.0000001 + 1e-7;
    x[threadIdx.x] = a;
}
"""


def run(gpu: ww.GPU, name: str) -> Run:
    kernel = gpu.compile(SOURCE, name="limits.cu")[name]
    if name == "stream":
        n = 1 << 18
        return kernel[264, 512](n, np.ones(4 * n, np.float32), np.zeros(4 * n, np.float32))
    if name == "multiply":
        return kernel[132, 512](2000, np.ones(512, np.float32))
    if name == "chase":
        return kernel[1, 32](200, np.roll(np.arange(1 << 16), -97).astype(np.int32), np.zeros(1, np.int32))
    if name == "roots":
        return kernel[132, 512](300, np.ones(512, np.float32))
    return kernel[132, 256](100, np.ones(256))


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    gpu = ww.GPU("h200")
    return {name: run(gpu, name) for name in ("stream", "multiply", "chase", "roots", "doubles")}


@pytest.fixture(scope="module")
def explained(runs: dict[str, Run]) -> dict[str, Attribution]:
    return {name: attribute(one) for name, one in runs.items()}


def test_every_warp_cycle_is_counted_once(explained: dict[str, Attribution], runs: dict[str, Run]) -> None:
    for name, a in explained.items():
        stalled = sum(stall.warp_cycles for stall in a.stalls if stall.reason != "selected")
        assert sum(cost.stall_cycles for cost in a.instructions) == stalled
        assert sum(cost.issues for cost in a.instructions) == runs[name].instructions
        assert sum(stall.share for stall in a.stalls) == pytest.approx(1)
        assert sum(cost.share for cost in a.instructions) == pytest.approx(1)
        assert sum(line.share for line in a.lines) == pytest.approx(1)
        assert sum(len(line.instructions) for line in a.lines) == len(a.instructions)


def test_reasons_of_instructions_add_up_to_those_of_the_launch(explained: dict[str, Attribution]) -> None:
    for a in explained.values():
        assert a.reasons_by_instruction
        for cost in a.instructions:
            assert sum(cost.reasons.values()) == cost.stall_cycles
        for stall in a.stalls:
            if stall.reason != "selected":
                assert sum(cost.reasons.get(stall.reason, 0) for cost in a.instructions) == stall.warp_cycles
        for line in a.lines:
            assert sum(line.reasons.values()) == line.stall_cycles


def test_a_load_is_waited_for_at_its_use(explained: dict[str, Attribution]) -> None:
    a = explained["chase"]
    worst = max(a.instructions, key=lambda cost: cost.stall_cycles)
    assert worst.waits_for is not None
    assert a.instructions[worst.waits_for].text.startswith("LDG")
    assert next(iter(worst.reasons)) == "long_scoreboard"
    assert a.lines[0].text.strip() == "at = next[at];"
    assert a.lines[0].file == "limits.cu"
    assert a.lines[0].number == 18


def test_no_unit_passes_its_peak(explained: dict[str, Attribution]) -> None:
    for a in explained.values():
        assert all(0 <= unit.share <= 1 for unit in a.units)
        assert all(0 <= bound.share <= 1.0001 for bound in a.bounds)
        assert a.binding.cycles <= a.cycles


def test_pipes_are_counted_as_the_model_counts_them(runs: dict[str, Run]) -> None:
    """Issues by instruction and the pipe that the tables give it add up to the model's own counters."""
    for one in runs.values():
        assert one.timing is not None
        assert one.program is not None
        assert one.device is not None
        by_pipe: dict[int, int] = {}
        for i, instruction in enumerate(one.program.instructions):
            work = work_of(instruction)
            if work.unit != "memory":
                pipe = timing_of(work, one.device, False).pipe
                by_pipe[pipe] = by_pipe.get(pipe, 0) + int(one.timing.instruction_issues[i])
        for pipe in (s.P_FMA, s.P_FMA_HEAVY, s.P_HALF, s.P_FP64, s.P_XU, s.P_TENSOR):
            assert by_pipe.get(pipe, 0) == one.metrics.get(f"smsp__inst_executed_pipe_{s.PIPES[pipe]}.sum", 0)


def test_speed_of_light_agrees_with_the_counters(explained: dict[str, Attribution], runs: dict[str, Run]) -> None:
    for name, a in explained.items():
        units = {unit.name: unit.share for unit in a.units}
        metrics = runs[name].metrics
        for unit, metric in (("DRAM", "dram__throughput"), ("L2", "lts__throughput")):
            assert 100 * units[unit] == pytest.approx(metrics[f"{metric}.avg.pct_of_peak_sustained_elapsed"])


def test_floating_point_work(explained: dict[str, Attribution]) -> None:
    multiply = explained["multiply"].arithmetic
    assert multiply.flops == pytest.approx(132 * 512 * (2000 * 8 + 3), rel=0.02)
    assert multiply.tensor_flops == multiply.fp64_flops == 0
    doubles = explained["doubles"].arithmetic
    assert doubles.fp64_flops == doubles.flops == pytest.approx(132 * 256 * 200, rel=0.02)
    assert explained["stream"].arithmetic.flops == 0


def test_the_limit_fits_the_kernel(explained: dict[str, Attribution]) -> None:
    assert explained["multiply"].limit.title in ("the FP32 pipe", "instruction issue")
    assert explained["roots"].limit.title == "the special-function pipe"
    assert explained["chase"].limit.title in ("launch overhead", "a grid too small for the chip")
    assert "1 block on 132 SMs" in explained["chase"].because or "before the first block" in explained["chase"].because
    advice = explained["roots"].advice
    assert advice.startswith("Limited by the special-function pipe: it needs at least ")
    assert advice.endswith("fast approximations where they are enough.")


def test_traffic(explained: dict[str, Attribution]) -> None:
    stream = explained["stream"].traffic
    assert stream.l1_read == stream.l1_write == 1 << 22
    assert stream.dram_read == pytest.approx(1 << 22, rel=0.02)
    assert stream.l1_hit_rate == 0
    assert stream.shared == 0


def test_relieving_the_limit_saves_cycles(runs: dict[str, Run]) -> None:
    """Twice the lanes shorten a kernel that special functions bind, and leave results and instructions alone."""
    found = ranked(lambda gpu: run(gpu, "roots"), runs["roots"]).reliefs[0].what_if
    assert found.overrides == {"xu_lanes": 8}
    assert found.before == (runs["roots"].cycles,)
    assert found.saved(0) > 0.1
    assert found.sentence() == (
        f"With twice the special-function lanes it takes {found.after[0]:,} cycles instead of {found.before[0]:,} "
        f"({found.saved(0):.0%} less)."
    )


def test_a_what_if_of_ones_own(runs: dict[str, Run]) -> None:
    slower = what_if(lambda gpu: run(gpu, "roots"), "h200", baseline=[runs["roots"]], xu_lanes=2)
    assert slower.change == "xu_lanes = 2"
    assert slower.saved(0) < 0
    assert slower.sentence().endswith("% more).")
    same = WhatIf("nothing changed", {}, (1000,), (1001,))
    assert same.sentence() == "With nothing changed it takes 1,001 cycles instead of 1,000 (no difference)."


def test_what_if_refusals(runs: dict[str, Run]) -> None:
    with pytest.raises(ww.LaunchError) as refused:
        what_if(lambda gpu: None, "h200", xu_lanes=8)
    assert str(refused.value) == (
        "a what-if needs a function that launches on the GPU that it is given; this one launched nothing"
    )
    with pytest.raises(ww.LaunchError) as refused:
        what_if(lambda gpu: run(gpu, "roots"), "h200", baseline=[runs["chase"]], xu_lanes=8)
    assert str(refused.value) == (
        "a what-if compares the same launches, but the program launched others on the changed chip"
    )


def test_untimed_runs_have_no_attribution() -> None:
    untimed = run(ww.GPU("h200", timing="off"), "roots")
    with pytest.raises(ww.UnsupportedError) as refused:
        attribute(untimed)
    assert (
        str(refused.value)
        == "this run of roots has no attribution: its GPU was made with timing='off' or with checks: add timing='full' (--timing full)"
    )


def test_every_limit_can_be_named_and_relieved() -> None:
    """Each stall reason has words; overrides of every resource make a valid chip on every chip."""
    assert set(MEANINGS) == set(s.STALLS)
    assert set(STALLS) == set(s.STALLS) - {"selected", "long_scoreboard"}
    for name in ww.chip_names():
        chip = ww.load_chip(name)
        for resource in (*BOUNDS.values(), *STALLS.values()):
            assert bool(resource.change) == (resource.overrides is not None)
            if resource.overrides is not None:
                ww.load_chip(chip, **resource.overrides(chip))


def test_bounds_of_the_model_are_known(runs: dict[str, Run]) -> None:
    for one in runs.values():
        assert one.timing is not None
        assert set(one.timing.bounds) <= set(BOUNDS)


def test_a_run_explains_itself(runs: dict[str, Run], tmp_path: Path) -> None:
    assert runs["roots"].attribution() == attribute(runs["roots"])
    page = runs["roots"].report(tmp_path / "roots.html", title="Roots", what_if=lambda gpu: run(gpu, "roots"))
    text = page.read_text(encoding="utf-8")
    assert "<title>Roots</title>" in text
    assert "<td>twice the special-function lanes" in text


def test_blocks_have_their_sm_and_times(runs: dict[str, Run]) -> None:
    for one in runs.values():
        assert one.timing is not None
        assert one.device is not None
        blocks = one.timing.blocks
        assert blocks.shape == (one.grid[0], 3)
        assert (blocks[:, 1] >= one.device.launch.launch_overhead_cycles).all()
        assert (blocks[:, 1] < blocks[:, 2]).all()
        assert blocks[:, 2].max() <= one.cycles
        assert np.array_equal(np.bincount(blocks[:, 0], minlength=132), one.timing.sm["blocks"])


def test_a_trace_has_every_block(runs: dict[str, Run], tmp_path: Path) -> None:
    both = [runs["stream"], runs["roots"]]
    content = json.loads(write_trace(tmp_path / "trace.json", both).read_text(encoding="utf-8"))
    events = content["traceEvents"]
    blocks = [e for e in events if e.get("cat") == "block"]
    assert len(blocks) == 264 + 132
    assert sum(e.get("cat") == "launch" for e in events) == 2
    # Blocks of one place of an SM follow each other, and the second launch follows the first.
    ends: dict[tuple[int, int], float] = {}
    for event in sorted(blocks, key=lambda e: float(e["ts"])):
        place = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(place, 0.0) - 1e-9
        ends[place] = event["ts"] + event["dur"]
    first = max(e["ts"] + e["dur"] for e in blocks if e["pid"] == 1)
    assert first <= runs["stream"].seconds * 1e6 <= min(e["ts"] for e in blocks if e["pid"] == 2)
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {
        "1. stream 264 x 512",
        "2. roots 132 x 512",
    }


def test_untimed_runs_have_no_trace() -> None:
    untimed = run(ww.GPU("h200", timing="off"), "roots")
    with pytest.raises(ww.UnsupportedError) as refused:
        trace_events([untimed])
    assert (
        str(refused.value)
        == "this run of roots has no trace: its GPU was made with timing='off' or with checks: add timing='full' (--timing full)"
    )


PROGRAM = """\
import numpy as np
import warpwright as ww
SOURCE = '''
extern "C" __global__ void add(int n, float *x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += 1.0f;
}
'''
x = np.zeros(1000, np.float32)
ww.GPU("a100").compile(SOURCE, name="program.cu")["add"][4, 256](1000, x)
print("sum", x.sum())
"""


def test_the_command_line_writes_reports(tmp_path: Path) -> None:
    program, page, trace = tmp_path / "program.py", tmp_path / "page.html", tmp_path / "trace.json"
    program.write_text(PROGRAM)
    words = ["report", str(program), "--output", str(page), "--trace", str(trace)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    first, headline, *written = result.stdout.splitlines()
    assert first == "sum 1000.0"
    assert headline.startswith("add: Limited by launch overhead: half the launch overhead saves ")
    assert " 104 of 108 SMs got no block. " in headline
    assert written == [f"wrote {page}", f"wrote {trace}"]
    assert "running again with half the launch overhead\n" in result.stderr
    assert "<td>half the launch overhead" in page.read_text(encoding="utf-8")
    assert f"<title>{program}</title>" in page.read_text(encoding="utf-8")
    assert len(json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]) > 4
    assert session.overrides == {}
    result = CliRunner().invoke(app, ["run", str(program), "--report", str(page)])
    assert result.exit_code == 0
    assert result.stdout.endswith(f"wrote {page}\n")
    assert "With half" not in page.read_text(encoding="utf-8")
    result = CliRunner().invoke(app, ["run", str(program), "--timing", "off", "--report", str(page)])
    assert result.exit_code == 1
    assert (
        "this run of add has no report: its GPU was made with timing='off' or with checks: add timing='full' (--timing full)"
        in result.stderr
    )


def readme_sample() -> str:
    """The program in Python of README."""
    page = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    (sample,) = (block.partition("```")[0] for block in page.split("```python\n")[1:] if "run.bottleneck" in block)
    return sample


def reported(folder: Path, text: str, *arguments: str) -> tuple[Result, str]:
    """The result of ``report`` for a program, and its page."""
    program, page = folder / "program.py", folder / "page.html"
    program.write_text(text)
    result = CliRunner().invoke(app, ["report", str(program), "--output", str(page), *arguments])
    return result, page.read_text(encoding="utf-8") if page.exists() else ""


def left_out(page: str) -> list[str]:
    """The page's sentences about runs in which the program failed."""
    return [html.unescape(text) for text in re.findall('<p data-name="left-out">(.*?)</p>', page)]


def test_a_program_may_read_its_times_in_every_run_of_a_report(tmp_path: Path) -> None:
    """README's sample reads cycles, seconds and bottleneck; perfcheck's run has them too."""
    result, page = reported(tmp_path, readme_sample())
    assert result.exit_code == 0, result.output
    assert "saxpy: Limited by " in result.stdout
    assert "<td>half the launch overhead" in page
    assert left_out(page) == []


def test_ranking_a_function_lets_it_read_its_times() -> None:
    def program(gpu: ww.GPU) -> ww.Run:
        run = gpu.compile(SOURCE, name="limits.cu")["doubles"][1, 32](10, np.ones(32))
        assert run.cycles > 0
        return run

    assert ranked(program, program(ww.GPU("a100"))).reliefs


def test_a_what_if_in_which_the_program_fails_is_left_out_of_the_page(tmp_path: Path) -> None:
    text = PROGRAM.replace("ww.GPU", "run = ww.GPU") + "assert run.cycles > 3000, run.cycles\n"
    result, page = reported(tmp_path, text)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("sum 1000.0\nadd: ")
    assert "<td>half the L2 latency" in page
    assert "<td>half the launch overhead" not in page
    (sentence,) = left_out(page)
    failure = r"\S*program\.py:14: AssertionError: \d+"
    assert re.fullmatch(
        rf"Not timed: half the launch overhead; the program fails with this change \({failure}\)\.", sentence
    )
    assert re.search(rf"the program fails with half the launch overhead: {failure}\n", result.stderr)


def test_a_program_that_launches_other_kernels_in_a_what_if_keeps_what_can_be_compared(tmp_path: Path) -> None:
    """The second kernel's grid depends on the first one's time, as in a program that tunes itself."""
    second = "gpu = ww.GPU('a100')\nrun = gpu.compile(SOURCE, name='program.cu')['add'][4, 256](1000, x)\n"
    text = PROGRAM.partition("ww.GPU(")[0] + second
    blocks = "8 if run.cycles > 3000 else 16"
    text += f"gpu.compile(SOURCE.replace('add', 'more'), name='program.cu')['more'][{blocks}, 256](1000, x)\n"
    result, page = reported(tmp_path, text)
    assert result.exit_code == 0, result.output
    more, add = sorted(result.stdout.splitlines()[:2], key=lambda line: line.startswith("add: "))
    assert add.startswith("add: Limited by ")
    assert "half the launch overhead" in add
    assert more.startswith("more: Limited by ")
    (sentence,) = left_out(page)
    assert (
        sentence
        == "Not compared: half the launch overhead; with this change, the program launches more a different number of times or with other grids."
    )


def test_a_page_is_written_although_the_program_runs_only_once(tmp_path: Path) -> None:
    text = f"import pathlib, sys\nonce = pathlib.Path({str(tmp_path / 'once')!r})\nif once.exists():\n    sys.exit(3)\nonce.touch()\n"
    result, page = reported(tmp_path, text + PROGRAM)
    assert result.exit_code == 0, result.output
    assert "add: The limit of add was not found: no run with a resource relieved succeeded." in result.stdout
    untried, unchecked = left_out(page)
    assert re.fullmatch(
        r"Not timed: .*half the launch overhead.*; the program fails with these changes \(sys\.exit\(3\)\)\.", untried
    )
    assert unchecked == "Accesses were not checked: the program fails with perfcheck (sys.exit(3))."
    (headline,) = re.findall('<p data-name="headline">(.*?)</p>', page)
    assert "launch overhead" in headline
    assert "not found" not in headline


def test_source_of_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "limits.cu"
    path.write_text(SOURCE)
    gpu = ww.GPU("h200")
    one = gpu.compile(path)["doubles"][1, 32](10, np.ones(32))
    texts = {line.text.strip() for line in one.attribution().lines}
    assert "a = a * 1.0000001 + 1e-7;" in texts
