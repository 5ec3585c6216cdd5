"""Launches as data: the same rows from the API and from files, by columns that do not depend on the launch."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright import html_tables
from warpwright.chips import load_chip
from warpwright.tools.export import FORMATS, ExportError, check_format, launch_rows, write_launches

SOURCE = """
template <class T> __global__ void scale(T* x, T by) { x[blockIdx.x * blockDim.x + threadIdx.x] *= by; }
"""
NAME = "scale<float>"


@pytest.fixture(scope="module")
def runs() -> list[ww.Run]:
    found = []
    for chip, timing in (("v100", "full"), ("a100", "off")):
        gpu = ww.GPU(chip, timing=timing)
        x = gpu.array(np.arange(256, dtype=np.float32))
        found.append(gpu.compile(SOURCE, name_expressions=[NAME])[NAME][(2, 1), 128](x, 2.0))
        assert x[3] == 6
    return found


def test_a_row_has_plain_values(runs: list[ww.Run]) -> None:
    timed, untimed = (run.to_dict() for run in runs)
    assert timed["cycles"] == runs[0].cycles
    assert timed["grid_x"] == 2
    assert timed["block_x"] == 128
    assert timed["timing"] == "full"
    assert timed["smsp__inst_executed.sum"] == runs[0].metrics["smsp__inst_executed.sum"]
    assert untimed["cycles"] is None
    assert untimed["timing"] == "off"
    assert {type(v) for v in (*timed.values(), *untimed.values())} <= {str, int, float, bool, type(None)}
    assert json.loads(json.dumps(timed, allow_nan=False)) == timed


def test_columns_come_first_and_do_not_depend_on_timing(runs: list[ww.Run]) -> None:
    rows = launch_rows(runs)
    assert list(rows[0]) == list(rows[1])
    assert list(rows[0])[:3] == ["launch", "kernel", "chip"]
    assert [row["launch"] for row in rows] == [0, 1]


@pytest.mark.parametrize("kind", FORMATS)
def test_files_hold_the_rows(tmp_path: Path, runs: list[ww.Run], kind: str) -> None:
    path = tmp_path / f"launches.{kind}"
    write_launches(path, kind, runs)
    rows = launch_rows(runs)
    if kind == "json":
        assert json.loads(path.read_text()) == rows
    elif kind == "csv":
        with path.open(newline="") as file:
            read = list(csv.DictReader(file))
        assert [row["kernel"] for row in read] == [row["kernel"] for row in rows]
        assert float(read[0]["seconds"]) == rows[0]["seconds"]
        assert read[1]["cycles"] == ""
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        table = parquet.read_table(path)
        assert table.to_pylist() == rows
        assert str(table.schema.field("cycles").type) == "int64"
        assert {str(f.type) for f in table.schema if "__" in f.name} == {"double"}


@pytest.mark.parametrize("kind", FORMATS)
def test_no_launches_give_an_empty_table(tmp_path: Path, kind: str) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    path = tmp_path / "none"
    write_launches(path, kind, [])
    assert path.exists()


def test_parquet_without_pyarrow_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_format("json")
    with pytest.raises(ExportError, match=r"pip install 'warpwright\[data\]'"):
        check_format("parquet")


@pytest.mark.ci
def test_the_command_writes_files(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"import numpy as np\nimport warpwright as ww\nx = np.ones(256, np.float32)\n"
        f"ww.GPU('v100', timing='off').compile('''{SOURCE}''', name_expressions=[{NAME!r}])[{NAME!r}][2, 128](x, 2.0)\n"
    )
    command = [sys.executable, "-m", "warpwright.cli", "run", "--json", "out.json", "--csv", "out.csv", str(program)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert row["kernel"] == "scale"
    assert (tmp_path / "out.csv").read_text().count("\n") == 2
    refused = subprocess.run([*command[:4], "--json", "no/folder.json", str(program)], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "there is no folder" in refused.stderr


def test_notebooks_show_tables_with_names_escaped(runs: list[ww.Run]) -> None:
    assert "scale on v100" in runs[0]._repr_html_()
    assert "sum&lt;float&gt;" in html_tables.table("", [("sum<float>", "1")])
    assert f"{runs[0].cycles:,}" in runs[0]._repr_html_()
    assert "cycles" not in runs[1]._repr_html_()
    assert "80 at" in load_chip("v100")._repr_html_()
    gpu = ww.GPU("v100", timing="off")
    gpu.compile(SOURCE, name_expressions=[NAME])[NAME][1, 32](gpu.zeros(32), 1.0)
    assert gpu._repr_html_().count("<tr>") == 2


def test_a_device_array_is_indexed_as_numpys() -> None:
    gpu = ww.GPU("v100", timing="off")
    values = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = gpu.array(values)
    assert x[1, 2] == 6
    assert (x[1:, ::2] == values[1:, ::2]).all()
    part = x[0]
    part[:] = 99
    assert x[0, 0] == 0, "a slice is a copy on the host"
    x[2] = 7
    x[0, 1:3] = [5, 6]
    assert x.get().tolist() == [[0, 5, 6, 3], [4, 5, 6, 7], [7, 7, 7, 7]]
    assert [int(row.sum()) for row in x] == [14, 22, 28]
    with pytest.raises(IndexError):
        x[3]
    assert not math.isnan(float(x[0, 0]))
