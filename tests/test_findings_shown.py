"""Findings as people see them: one entry for one defect, causes first, lines of the program's own file, frames of the user alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.test_checked_programs import RIGHT, pytest_run, warpwright
from warpwright.tools.checks import arranged

TWO_DEFECTS = r"""
extern "C" __global__ void two_defects(int *x, int *y, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    for (int k = 0; k < n; k++) {
        s[t] = x[t] + k;  // the write
        y[t] += s[(t + 32) & 63] * 3;  // the read
        y[t + 64] += s[t ^ 32];  // another read
    }
    y[128 + (t >> 5)] = t;  // warp by warp
    y[128] = t;  // of all
}
"""
FIRST_LINE = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "TWO_DEFECTS =" in text)
MADE = TWO_DEFECTS.replace("* 3", "* 5")
ONE_LINE = 'extern "C" __global__ void one(int *x) { x[threadIdx.x] = x[threadIdx.x ^ 32]; }'


def line(mark: str) -> str:
    return f"{Path(__file__)}:{FIRST_LINE + TWO_DEFECTS[: TWO_DEFECTS.index(mark)].count(chr(10))}: "


def checked(source: str) -> ww.GPU:
    gpu = ww.GPU("a100", check="all")
    x, y = np.arange(64, dtype=np.int32), np.zeros(192, np.int32)
    gpu.compile(source)["two_defects"][1, 64](x, y, 3)
    return gpu


def test_one_entry_for_each_defect_and_causes_first() -> None:
    found = checked(TWO_DEFECTS).findings
    assert len(found) == 9
    entries = arranged(found)
    shared = [f for f in entries if "shared memory" in f.details[0]]
    (cause,) = shared
    assert cause.places[0].line.startswith(line("// the write"))
    assert (
        sum(
            "also" in detail and line("// another read").removesuffix(": ") + " (" in detail for detail in cause.details
        )
        == 2
    )
    assert sum("Uninitialized __shared__ memory read of size 4 bytes" in detail for detail in cause.details) == 2
    assert not any(f.check == "initcheck" for f in entries)
    assert cause.count == sum(f.count for f in found if f.check == "racecheck" and "shared" in f.details[0])
    assert [f.places[0].line.split(";  ")[1] for f in entries] == ["// of all", "// the write", "// warp by warp"]
    assert [f.severity for f in entries] == ["error", "error", "warning"]
    # Its lanes of one warp race too: a finding of its own, which repeats the entry's two instructions.
    assert any(f.severity == "warning" and f.places[0].line == entries[0].places[0].line for f in found)
    assert not any(detail.startswith("also") for detail in entries[0].details)
    assert len(checked(TWO_DEFECTS).findings) == 9, "the findings themselves stay as they were"


def test_lines_of_a_kernel_in_a_python_string_are_the_files() -> None:
    lines = {p.line for f in checked(TWO_DEFECTS).findings for p in f.places}
    assert {text.split(": ")[0] + ": " for text in lines} >= {line("// the write"), line("// the read")}
    assert line("// of all") + "y[128] = t;  // of all" in lines


def test_text_that_is_changed_at_run_time_keeps_the_files_lines() -> None:
    lines = {p.line for f in checked(MADE).findings for p in f.places}
    assert line("// the write") + "s[t] = x[t] + k;  // the write" in lines
    assert line("// the read") + "y[t] += s[(t + 32) & 63] * 5;  // the read" in lines


ORIGINS = '''
import textwrap
from warpwright.source_place import lines_of_text

a = """first line
of two"""
b = (
    "lines of\\n"
    "pieces\\n"
)
c = "no line of\\nthe file\\n"
d, e = """twice
in the file""", """twice
in the file"""
f = """continued \\
line
here"""
many = """one
two"""
g = f"""
    void kernel{1 + 1}(int *x) {{
        {many}
        x[0] = {3};
    }}
"""
h = textwrap.dedent("""
        void indented(int *x)
        {
            x[1] = 5;
        }
    """)
i = """
void formatted(int *x) {{
    x[0] = {value};
}}
""".format(value=7)
j = """
void replaced(int *x) {
    x[0] = VALUE;
}
""".replace("VALUE", "7")
k = "one more line\\n" + a + "\\n" + h
l = "void alone(int *x) { x[0] = 7; }"
m, n = "void twice(int *x) {}", (
    "void twice(int *x) {}")
for text in (a, b, c, d, f, g, h, i, j, k, l, "\\n" + l + "\\n", m, "no literal of this file"[1:]):
    print(*[place[1] if place else 0 for place in lines_of_text(text)] or "-")
'''


def test_lines_of_texts_made_from_literals(tmp_path: Path) -> None:
    path = tmp_path / "literals.py"
    path.write_text(ORIGINS)
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        *("5 6", "8 9", "-", "-", "-"),
        *("0 21 22 0 23 24", "0 27 28 29 30", "0 33 34 35", "0 38 39 40", "0 5 6 0 27 28 29 30"),
        *("43", "0 43", "-", "-"),
    ]


FAR = r"""
import numpy as np
import warpwright as ww

FAR = '''
extern "C" __global__ void far(int *x) {
    x[threadIdx.x + 100000000] = 1;
}
'''

def own_helper(x):
    ww.GPU("v100").compile(FAR)["far"][1, 32](x)

def test_far():
    own_helper(np.zeros(32, np.int32))

def test_cycles(warpwright_runs):
    x = np.arange(64, dtype=np.int32)
    ww.GPU("v100").compile(RIGHT)["turn"][1, 64](x)
    (run,) = warpwright_runs
    assert run.timed and 2000 < run.cycles < 20000
    assert x.tolist() == [*range(32, 64), *range(32)]
"""


@pytest.mark.ci
def test_pytest_shows_the_finding_and_the_users_frames_and_times_checked_launches(tmp_path: Path) -> None:
    (tmp_path / "test_gpu.py").write_text(FAR + f"\nRIGHT = {RIGHT!r}\n")
    done = pytest_run(tmp_path, "--warpwright=a100", "--warpwright-check=all")
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    shown = done.stdout[: done.stdout.index("short test summary")]
    assert "Invalid __global__ write of size 4 bytes" in shown
    assert "test_gpu.py:7: x[threadIdx.x + 100000000] = 1;" in shown
    assert "own_helper(np.zeros(32, np.int32))" in shown
    package = ("api.py", "kernel.py", "run_launch.py", "launch_job.py")
    for own in (*(f"warpwright/{name}" for name in package), "checked_launch.py"):
        assert own not in shown
    assert "warpwright/run_launch.py" in pytest_run(tmp_path, "--warpwright=a100", "--full-trace").stdout


PROGRAM = """
import numpy as np
import warpwright as ww

x = np.arange(64, dtype=np.int32)
gpu = ww.GPU("v100")
run = gpu.compile({source!r})["turn"][1, 64](x)
print("cycles", run.cycles, "first", x[0])
"""


@pytest.mark.ci
def test_a_program_whose_launch_is_refused_has_not_been_checked(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(
        "import numpy as np, warpwright as ww\n"
        "node = ww.System('dgx-1')\n"
        "k = 'extern \"C\" __global__ void k(int *x) { x[threadIdx.x] = 1; }'\n"
        "node.launch(*[(g.compile(k)['k'][1 + n, 32], (g.zeros(32, np.int32),)) for n, g in enumerate(node.gpus[:2])])\n"
    )
    done = warpwright("run", "--check", "all", "two.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "the grid of device 1 is (2, 1, 1) and that of device 0 (1, 1, 1)" in done.stderr
    assert "Omit --check (check=) for this launch" in done.stderr
    assert done.stdout.splitlines()[-1] == "========= CHECK SUMMARY: no launch was checked"


@pytest.mark.ci
def test_run_checks_and_then_times(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(PROGRAM.format(source=RIGHT))
    done = warpwright("run", "--gpu", "a100", "--timing", "full", "right.py", cwd=tmp_path)
    alone = next(text for text in done.stdout.splitlines() if text.startswith("cycles"))
    done = warpwright("run", "--gpu", "a100", "--check", "all", "--timing", "full", "right.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert alone in done.stdout.splitlines()
    assert alone.endswith("first 32")
    assert done.stdout.splitlines()[-1] == "========= CHECK SUMMARY: no findings"
    done = warpwright("run", "--check", "all", "--report", "page.html", "right.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size > 1000


RACE_THEN = """
import sys
import time
import numpy as np
import warpwright as ww

x = np.zeros(64, np.int32)
module = ww.GPU("a100").compile({source!r}, name="ends.cu")
module["races"][1, 64](x)
print("raced", flush=True)
end = sys.argv[1]
if end == "assertion":
    assert x[0] == 500
elif end == "exit":
    sys.exit(3)
elif end == "text":
    sys.exit("ends with a sentence")
elif end == "fault":
    module["far"][1, 32](x)
elif end == "interrupt":
    raise KeyboardInterrupt
elif end == "endless":
    from warpwright.session import session
    session.deadline = time.monotonic() + 4  # the limit passes while the kernel runs, however long the program took to get here
    module["endless"][1, 32](x, 1 << 60)
"""
ENDS = r"""
extern "C" __global__ void races(int *x) { x[threadIdx.x & 1] = threadIdx.x; }
extern "C" __global__ void far(int *x) { x[threadIdx.x + 100000000] = 1; }
extern "C" __global__ void endless(int *x, long long turns) {
    int y = threadIdx.x;
    for (long long i = 0; i < turns; i++) y = y * 1664525 + 1013904223;
    x[threadIdx.x] = y;
}
"""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        ("assertion", 1, "AssertionError"),
        ("exit", 3, ""),
        ("text", 1, "ends with a sentence\n"),
        ("fault", 1, "out-of-bounds write of 4 bytes"),
        ("interrupt", 130, "interrupted"),
        ("endless", 124, "the time limit has passed; kernel endless, block (0, 0, 0):\n  warp 0: lanes 0-31 run at "),
    ],
)
def test_a_program_that_fails_loses_neither_findings_nor_files(
    tmp_path: Path, end: str, code: int, message: str
) -> None:
    (tmp_path / "ends.py").write_text(RACE_THEN.format(source=ENDS))
    limit = ("--timeout", "100") if end == "endless" else ()
    files = ("--json", "runs.json", "--csv", "runs.csv", "--report", "page.html")
    done = warpwright("run", "--check", "all", *limit, *files, "ends.py", end, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "raced"
    assert any("Race reported between Write access" in text for text in lines), done.stdout
    assert any("Invalid __global__ write of size 4 bytes" in text for text in lines) == (end == "fault")
    assert lines[-1] == f"========= CHECK SUMMARY: {'2 errors' if end == 'fault' else '1 error'}"
    assert [row["kernel"] for row in json.loads((tmp_path / "runs.json").read_text())] == ["races"]
    assert (tmp_path / "runs.csv").read_text().count("\n") == 2
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_a_page_without_launches_is_said_not_to_be_written(tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("raise ValueError('early')\n")
    done = warpwright("run", "--report", "page.html", "--json", "runs.json", "fails.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "page.html was not written: no launch of the program ended\n" in done.stderr
    assert json.loads((tmp_path / "runs.json").read_text()) == []


@pytest.mark.ci
def test_a_chip_without_checks_gives_no_summary(tmp_path: Path) -> None:
    (tmp_path / "early.py").write_text("import warpwright as ww\nww.GPU()\n")
    done = warpwright("run", "--check", "all", "--gpu", "g80", "early.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("early.py:2: g80 has no checks: omit check (--check)")


@pytest.mark.ci
def test_the_example_of_clusters_runs_under_the_checks() -> None:
    examples = Path(__file__).parents[1] / "examples"
    done = warpwright("run", "--check", "all", "--gpu", "h200", "clusters.py", cwd=examples)
    assert done.returncode == 0, done.stderr
    assert "column sums of (128, 4224) in clusters of 4 on h200: correct\n" in done.stdout
    assert done.stdout.splitlines()[-1] == "========= CHECK SUMMARY: no findings"


def test_prints_of_a_launch_that_is_checked_and_timed_come_once(tmp_path: Path) -> None:
    source = r"""
    extern "C" __global__ void says(int *x) {
        if (threadIdx.x == 0) printf("x is %d\n", atomicAdd(x, 1));
        int *p = (int *)malloc(16);
        p[0] = 1;
        free(p);
    }"""
    printed: list[bytes] = []
    gpu = ww.GPU("a100", check="all", timing="full")
    gpu.on_output = printed.append
    x = np.zeros(1, np.int32)
    module = gpu.compile(source)
    runs = [module["says"][2, 32](x) for _ in range(2)]
    assert x[0] == 4
    assert b"".join(printed).decode().split("\n")[:-1] == [f"x is {n}" for n in range(4)]
    assert all(run.timed and run.cycles > 0 for run in runs)
    assert not gpu.findings


@pytest.mark.parametrize("variable", ["all", ""])
def test_the_variable_of_the_checks_shows_findings_like_the_option(tmp_path: Path, variable: str) -> None:
    program = tmp_path / "races.py"
    program.write_text(
        "import numpy as np\nimport warpwright as ww\n"
        f"ww.GPU('a100', timing='off').compile({ONE_LINE!r})['one'][1, 64](np.zeros(64, np.int32))\n"
    )
    command = [sys.executable, "-m", "warpwright", "run", str(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "WARPWRIGHT_CHECK": variable}
    )
    assert done.returncode == bool(variable), done.stderr
    assert ("Race reported" in done.stdout) == ("CHECK SUMMARY: 1 error" in done.stdout) == bool(variable)
