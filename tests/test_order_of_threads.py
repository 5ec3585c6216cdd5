"""Results that depend on the order of threads: the modes disagree, and the user learns why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import warpwright as ww
from warpwright.cli import app

RACY = r"""
extern "C" __global__ void late_reader(int *x, float *y) {
    __shared__ int s[2];
    if (threadIdx.x < 2) s[threadIdx.x] = 0;
    __syncthreads();
    if (threadIdx.x == 32) s[0] = 7;  // the write
    if (threadIdx.x == 0) {
        float a = 2;
        for (int i = 0; i < 200; i++) a = rsqrtf(a) + 1.0f;
        y[0] = a;
        x[0] = s[0];  // the read
    }
}
"""
"""Warp 0 reads 200 square roots after warp 1 wrote, if both run at once; untimed, it runs to its end first."""

PROGRAM = f"""\
import sys
import numpy as np
import warpwright as ww
x, y = np.zeros(1, np.int32), np.zeros(1, np.float32)
ww.GPU("a100").compile('''{RACY}''', name="late.cu")["late_reader"][1, 64](x, y)
"""
NOTE = (
    "note: the program failed. If threads race, its result depends on their order, which differs between timing modes, "
    "chips and runs; this finds races: warpwright run --check racecheck {}\n"
)
MAY_DIFFER = "========= The order of threads decides results: they may differ between timing modes, chips and runs\n"


def left(**options: str) -> int:
    x = np.zeros(1, np.int32)
    gpu = ww.GPU("a100", **options)
    gpu.compile(RACY, name="late.cu")["late_reader"][1, 64](x, np.zeros(1, np.float32))
    return int(x[0])


def test_the_modes_disagree_about_a_race_and_racecheck_names_it() -> None:
    results = {timing: left(timing=timing) for timing in ("off", "sampled", "full")}
    assert results == {"off": 0, "sampled": 7, "full": 7}
    for timing in ("off", "full"):
        gpu = ww.GPU("a100", timing=timing, check="racecheck")
        gpu.compile(RACY, name="late.cu")["late_reader"][1, 64](np.zeros(1, np.int32), np.zeros(1, np.float32))
        (race,) = gpu.findings
        assert race.severity == "error"
        assert {place.line.split("// ")[1] for place in race.places} == {"the write", "the read"}


@pytest.mark.parametrize("end", ["sys.exit(3)", "assert x[0] == 7", "raise ValueError(x[0])"])
def test_a_program_that_fails_is_told_how_to_find_a_race(tmp_path: Path, end: str) -> None:
    program = tmp_path / "late.py"
    program.write_text(PROGRAM + end + "\n")
    result = CliRunner().invoke(app, ["run", "--timing", "off", str(program), "4", "a b"])
    assert result.exit_code != 0
    assert result.stderr.endswith(NOTE.format(f"{program} 4 'a b'"))


def test_a_failure_that_no_race_explains_has_no_note(tmp_path: Path) -> None:
    program = tmp_path / "early.py"
    program.write_text("raise ValueError('no launch')\n")
    assert "note:" not in CliRunner().invoke(app, ["run", "--timing", "off", str(program)]).stderr
    program.write_text(PROGRAM)
    right = CliRunner().invoke(app, ["run", "--timing", "off", str(program)])
    assert right.exit_code == 0
    assert "note:" not in right.stderr


@pytest.mark.parametrize("check", ["racecheck", pytest.param("schedcheck", marks=pytest.mark.ci)])
def test_the_checks_end_with_what_a_race_means(tmp_path: Path, check: str) -> None:
    program = tmp_path / "late.py"
    program.write_text(PROGRAM + "assert x[0] in (0, 7)\n")
    result = CliRunner().invoke(app, ["run", "--check", check, str(program)])
    assert MAY_DIFFER in result.stdout
    assert "note: the program failed" not in result.stderr
    program.write_text(PROGRAM.replace("if (threadIdx.x == 32)", "if (threadIdx.x == 0)"))
    result = CliRunner().invoke(app, ["run", "--check", check, str(program)])
    assert MAY_DIFFER not in result.stdout
