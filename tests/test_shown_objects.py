"""What the objects of the interface show: tables that fit the terminal, representations, tracebacks, examples of the help."""

from __future__ import annotations

import re
import shlex
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer.main
from rich.console import Console
from typer.testing import CliRunner

import warpwright as ww
from warpwright.cli import app
from warpwright.commands.examples import EXAMPLES, SUMMARIES
from warpwright.session import session
from warpwright.tools.checks.findings import Place
from warpwright.tools.checks.host_stack import user_stack
from warpwright.tools.launch_tables import (
    LEFT_OUT_FIRST,
    Column,
    fitting_table,
    grouped_columns,
    launch_columns,
    short_name,
)
from warpwright.tools.report import write_report

RACE = """
extern "C" __global__ void reverse(float *x)
{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}
"""


def runs() -> list[Any]:
    made: dict[str, Any] = {
        "kernel": "transpose_of_blocks_with_padding",
        "grid": (4096, 4096, 1),
        "block": (32, 8, 1),
        "registers": 255,
        "occupancy": 0.5,
        "timed": True,
        "metrics": {"dram__bytes_read.sum": 1e9, "dram__bytes_write.sum": 1e9},
        "seconds": 1.234e-3,
        "sampling": None,
        "cycles": 1_234_567,
        "ipc": 123.4,
        "bottleneck": "latency: warps wait for global, local or L2 memory (51% of warp time); the nearest limit is DRAM",
        "instructions": 123_456_789,
        "simulation_speed": 1e6,
        "library": None,
        "gpu_number": 0,
        "skipped": False,
    }
    return [SimpleNamespace(**made), SimpleNamespace(**{**made, "timed": False})]


@pytest.mark.ci
@pytest.mark.parametrize("columns", [launch_columns, grouped_columns])
def test_launches_of_several_gpus_name_theirs(
    columns: Callable[[Sequence[ww.Run]], list[Column]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = ww.System("p100x2-nvlink", timing="off").gpus
    source = 'extern "C" __global__ void k(int *x) { x[threadIdx.x] = 1; }'
    runs = [gpu.compile(source)["k"][1, 32](gpu.array(np.zeros(32, np.int32))) for gpu in gpus]
    cells = {column.heading: column.cells for column in columns(runs)}
    assert cells["GPU"] == ["0", "1"]
    assert {column.heading: column.cells for column in columns(runs[1:])}["GPU"] == ["1"]
    assert "GPU" not in {column.heading for column in columns(runs[:1])}
    monkeypatch.setattr(session, "system", "p100x2-nvlink")
    assert {column.heading: column.cells for column in columns(runs[:1])}["GPU"] == ["0"]
    assert [run.to_dict()["gpu_number"] for run in runs] == [0, 1]


@pytest.mark.ci
def test_a_page_of_several_gpus_names_that_of_each_launch(tmp_path: Path) -> None:
    gpus = ww.System("p100x2-nvlink").gpus
    source = 'extern "C" __global__ void k(int *x) { x[threadIdx.x] = 1; }'
    runs = [gpu.compile(source)["k"][1, 32](gpu.array(np.zeros(32, np.int32))) for gpu in gpus]
    heading = '<th scope="col" class=num>GPU</th>'
    assert heading in write_report(tmp_path / "both.html", runs).read_text(encoding="utf-8")
    assert heading in write_report(tmp_path / "second.html", runs[1:]).read_text(encoding="utf-8")
    assert heading not in write_report(tmp_path / "first.html", runs[:1]).read_text(encoding="utf-8")


@pytest.mark.parametrize("columns", [launch_columns, grouped_columns])
@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_a_table_of_launches_fits_the_terminal_and_cuts_no_number_short(columns: Any, width: int) -> None:
    console = Console(width=width, force_terminal=False)
    given = columns(runs())
    table, without = fitting_table(given, "h200", console)
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in captured.get()
    assert without == [heading for heading in LEFT_OUT_FIRST if heading in without], "in the order of the list"
    cells = {cell.strip() for line in lines for cell in line.split("│")}
    for column in given:
        if column.heading not in without and not column.least:
            assert set(column.cells) <= cells
    assert bool(without) == (width < 130) or columns is grouped_columns


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("ns::add", "ns::add"),
        ("cub::CUB_300001_SM_900::detail::radix_sort::DeviceRadixSortOnesweepKernel", "DeviceRadixSortOnesweepKernel"),
        ("at::native::vectorized_elementwise_kernel<4, at::native::Fill<float>>", "vectorized_elementwise_kernel<4, at::native::Fill<float>>"),
        ("(anonymous namespace)::detail::a_kernel_of_many_words_in_its_name", "a_kernel_of_many_words_in_its_name"),
        ("a_kernel_of_many_words_in_its_name_and_no_namespace", "a_kernel_of_many_words_in_its_name_and_no_namespace"),
    ],
)  # fmt: skip
def test_long_names_lose_their_namespaces(name: str, short: str) -> None:
    assert short_name(name) == short


def test_columns_are_kept_where_there_is_room() -> None:
    table, without = fitting_table([Column("kernel", ["add"], 24), Column("simulated", ["1"])], "", Console(width=40))
    assert (without, [c.header for c in table.columns]) == ([], ["kernel", "simulated"])


def test_findings_are_shown_as_the_report_of_their_causes() -> None:
    gpu = ww.GPU("a100", timing="off", check="all")
    gpu.compile(RACE)["reverse"][1, 64](np.zeros(64, np.float32))
    assert len(gpu.findings) == 3
    shown = repr(gpu.findings)
    assert shown.count("Race reported") == 1
    assert shown.splitlines()[0].startswith("========= Error: Race reported")
    assert shown.splitlines()[-1] == "========= CHECK SUMMARY: 1 error"
    assert ";," not in shown
    assert ";;" not in shown
    assert "<pre>" in gpu.findings._repr_html_()  # type: ignore[attr-defined]
    written = Path(__file__).read_text().splitlines().index("    s[threadIdx.x] = x[threadIdx.x];") + 1
    one = repr(next(f for f in gpu.findings if f.check == "racecheck"))
    assert one.startswith("<racecheck error: Race reported between ")
    assert one.count("test_shown_objects.py:") == 2
    assert f"test_shown_objects.py:{written})" in one
    (call,) = {f.host[-1] for f in gpu.findings}
    assert "test_shown_objects.py:" in call


def test_places_name_their_line_without_its_text() -> None:
    place = Place("", "k", "LDS R0, [R1]", 16, "C:/a: b/k.cu:12: y = a ? 1: 2;", (0, 0, 0), (0, 0, 0))
    assert (place.file_line(), place.where()) == ("C:/a: b/k.cu:12", "k+0x10 in C:/a: b/k.cu:12")


def test_the_hosts_calls_leave_out_pytest_and_pythons_library() -> None:
    assert user_stack()
    assert not [call for call in user_stack() if "pytest:" in call or "/asyncio/" in call or "_pytest" in call]


def test_representations_are_one_line() -> None:
    gpu = ww.GPU("a100", timing="off")
    module = gpu.compile('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }')
    assert repr(gpu.chip) == str(gpu.chip) == "<chip a100 (A100-SXM4-40GB), 108 SMs>"
    assert repr(module["twice"]).startswith("<kernel twice(float *x), ")
    assert repr(module["twice"][2, 32, 64]) == (
        "<launcher of twice, grid (2, 1, 1), block (32, 1, 1), 64 bytes of dynamic shared memory: call it with the arguments>"
    )
    assert repr(gpu.compile("")) == "<module kernel.cu for a100: no kernels>"


def own_frames(call: Any) -> list[str]:
    with pytest.raises(ww.WarpwrightError) as raised:
        call()
    names = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    return [name for name in names if "/warpwright/" in name and "/tests/" not in name]


def test_errors_about_a_program_show_one_frame_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = ww.GPU("a100", timing="off")
    kernel = gpu.compile('extern "C" __global__ void over(float *x) { x[threadIdx.x + 1] = 0; }')["over"]

    def fault() -> None:
        kernel[1, 32](np.zeros(32, np.float32))

    def wrong() -> None:
        gpu.compile("nonsense")

    assert len(own_frames(fault)) == len(own_frames(wrong)) == 1
    monkeypatch.setenv("WARPWRIGHT_TRACEBACK", "full")
    assert len(own_frames(fault)) > 1
    assert len(own_frames(wrong)) > 1


def test_compile_errors_name_the_lines_of_the_python_file() -> None:
    source = """
extern "C" __global__ void wrong(int *p)
{
    p[0] = undeclared;
}
"""
    with pytest.raises(ww.CompileError) as raised:
        ww.GPU("a100", timing="off").compile(source)
    (diagnostic,) = raised.value.diagnostics
    own = next(
        n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line == "    p[0] = undeclared;"
    )
    assert (diagnostic.source_name, diagnostic.line) == (__file__, own)
    assert f"{__file__}:{own}:12: error: " in str(raised.value)
    with pytest.raises(ww.CompileError) as named:
        ww.GPU("a100", timing="off").compile(source, name="mine.cu")
    assert named.value.diagnostics[0].line == 4


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_examples_of_the_help_are_valid_commands(command: str) -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("warpwright", ["version"])
    for example in EXAMPLES[command]:
        name, *words = shlex.split(example)
        found = group.get_command(context, name)
        assert name == command
        made = found.make_context(name, words, parent=context)
        assert not [word for word in made.args if word.startswith("--") and word != "--"], example


def test_the_help_of_all_commands_fits_80_columns() -> None:
    shown = CliRunner().invoke(app, ["-h"], terminal_width=80).stdout
    assert "..." not in shown.partition("Commands:")[2]
    assert max(map(len, shown.splitlines())) <= 80
    for command, summary in SUMMARIES.items():
        assert re.search(rf"^  {command} +{re.escape(summary)}$", shown, re.MULTILINE)
