"""Results that depend on the order of threads: the modes disagree, and the user learns why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import warpwright as ww
from warpwright.cli import app
from warpwright.tools.checks.findings import depends_on_order

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
MAY_DIFFER = (
    "========= The order of threads decides results: they may differ between timing modes, chips and runs, and cycles "
    "between numbers of host threads\n"
)


def left(**options: str) -> int:
    x = np.zeros(1, np.int32)
    gpu = ww.GPU("a100", **options)
    gpu.compile(RACY, name="late.cu")["late_reader"][1, 64](x, np.zeros(1, np.float32))
    return int(x[0])


@pytest.mark.ci
def test_the_modes_disagree_about_a_race_and_racecheck_names_it() -> None:
    results = {timing: left(timing=timing) for timing in ("off", "sampled", "full")}
    assert results == {"off": 0, "sampled": 7, "full": 7}
    for timing in ("off", "full"):
        gpu = ww.GPU("a100", timing=timing, check="racecheck")
        gpu.compile(RACY, name="late.cu")["late_reader"][1, 64](np.zeros(1, np.int32), np.zeros(1, np.float32))
        (race,) = gpu.findings
        assert race.severity == "error"
        assert {place.line.split("// ")[1] for place in race.places} == {"the write", "the read"}


def test_the_advice_names_the_machine(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    program.write_text(PROGRAM + "sys.exit(3)\n")
    result = CliRunner().invoke(app, ["run", "--system", "dgx-1", "--timing", "off", str(program)])
    assert f"this finds races: warpwright run --system dgx-1 --check racecheck {program}\n" in result.stderr


@pytest.mark.parametrize("end", ["sys.exit(3)", "assert x[0] == 7", "raise ValueError(x[0])"])
def test_a_program_that_fails_is_told_how_to_find_a_race(tmp_path: Path, end: str) -> None:
    program = tmp_path / "late.py"
    program.write_text(PROGRAM + end + "\n")
    result = CliRunner().invoke(app, ["run", "--timing", "off", str(program), "4", "a b"])
    assert result.exit_code != 0
    assert result.stderr.endswith(NOTE.format(f"{program} 4 'a b'"))


def test_checks_before_a_program_in_the_same_process_are_not_its_own(tmp_path: Path) -> None:
    ww.GPU("a100", check="racecheck")
    program = tmp_path / "late.py"
    program.write_text(PROGRAM + "sys.exit(3)\n")
    result = CliRunner().invoke(app, ["run", "--timing", "off", str(program)])
    assert result.stderr.endswith(NOTE.format(program))


def test_a_failure_that_no_race_explains_has_no_note(tmp_path: Path) -> None:
    program = tmp_path / "early.py"
    program.write_text("raise ValueError('no launch')\n")
    assert "note:" not in CliRunner().invoke(app, ["run", "--timing", "off", str(program)]).stderr
    program.write_text(PROGRAM)
    right = CliRunner().invoke(app, ["run", "--timing", "off", str(program)])
    assert right.exit_code == 0
    assert "note:" not in right.stderr


def test_a_program_that_has_been_checked_is_not_told_to_check(tmp_path: Path) -> None:
    """Checked by its own code, or in a separate process by the option of the command."""
    program = tmp_path / "late.py"
    program.write_text(PROGRAM.replace('GPU("a100")', 'GPU("a100", check="racecheck")') + "sys.exit(3)\n")
    result = CliRunner().invoke(app, ["run", "--timing", "off", str(program)])
    assert result.exit_code == 3
    assert "note: the program failed" not in result.stderr
    program.write_text(PROGRAM + "sys.exit(3)\n")
    result = CliRunner().invoke(app, ["run", "--check", "racecheck", sys.executable, str(program)])
    assert "Race reported" in result.stdout
    assert result.exit_code == 3
    assert "note: the program failed" not in result.stderr


@pytest.mark.ci
@pytest.mark.parametrize("check", ["racecheck", "schedcheck"])
def test_the_checks_end_with_what_a_race_means(tmp_path: Path, check: str) -> None:
    program = tmp_path / "late.py"
    program.write_text(PROGRAM + "assert x[0] in (0, 7)\n")
    result = CliRunner().invoke(app, ["run", "--check", check, str(program)])
    assert MAY_DIFFER in result.stdout
    assert "note: the program failed" not in result.stderr
    program.write_text(PROGRAM.replace("if (threadIdx.x == 32)", "if (threadIdx.x == 0)"))
    result = CliRunner().invoke(app, ["run", "--check", check, str(program)])
    assert MAY_DIFFER not in result.stdout


UNITE = r"""
__device__ int root_of(SHARED int *parent, int v) {
    int up = parent[v];
    while (up != v) {
        int next = parent[up];  // the read
        if (next != up) parent[v] = next;  // the write
        v = up, up = next;
    }
    return v;
}
extern "C" __global__ void unite(int *parent, const int2 *edges, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = root_of(parent, edges[i].x), b = root_of(parent, edges[i].y);
    while (a != b) {
        if (a < b) { int t = a; a = b, b = t; }
        int seen = atomicCAS(parent + a, a, b);
        if (seen == a) return;
        a = root_of(parent, seen), b = root_of(parent, b);
    }
}
"""
"""Union-find: blocks halve paths that others follow. Its components do not depend on the order of threads, its work does."""
VERTICES, EDGES = 3000, 3500


def united(shared: str = "", **options: Any) -> tuple[np.ndarray, ww.Run, ww.GPU]:
    """Each vertex's root after the launch, the run and its GPU; ``shared`` qualifies what blocks share."""
    gpu = ww.GPU("a100", **options)
    parent = np.arange(VERTICES, dtype=np.int32)
    edges = np.random.default_rng(7).integers(0, VERTICES, 2 * EDGES).astype(np.int32)
    kernel = gpu.compile(UNITE.replace("SHARED", shared), name="unite.cu")["unite"]
    run = kernel[-(-EDGES // 128), 128](parent, edges, np.int32(EDGES))
    for _ in range(16):
        parent = parent[parent]
    return parent, run, gpu


@pytest.mark.ci
def test_a_benign_race_leaves_the_same_in_every_mode() -> None:
    modes = (
        {"timing": "off"},
        {"timing": "sampled"},
        {"timing": "full", "threads": 1},
        {"timing": "full", "threads": 2},
    )
    first, *others = (united(**mode)[0] for mode in modes)
    for roots in others:
        np.testing.assert_array_equal(roots, first)


def test_cycles_of_a_race_repeat_on_one_host_thread() -> None:
    assert united(threads=1)[1].cycles == united(threads=1)[1].cycles


def test_cycles_of_strong_accesses_do_not_depend_on_host_threads() -> None:
    """What the documentation advises for reproducible cycles: volatile accesses are executed in the order of simulated time."""
    assert len({united("volatile", threads=threads)[1].cycles for threads in (1, 2, 2, 4)}) == 1


@pytest.mark.ci
def test_racecheck_names_a_race_between_blocks() -> None:
    """The finding after which the report says that cycles may differ between numbers of host threads."""
    found = [f for f in united(timing="off", check="racecheck")[2].findings if f.severity == "error"]
    named = {(place.line.partition("// ")[2], place.block) for f in found for place in f.places}
    assert {"the read", "the write"} <= {what for what, _ in named}
    assert len({block for _, block in named}) > 1
    assert depends_on_order(found)
