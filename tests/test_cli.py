"""The command line: what it prints, its exit codes, and that Ctrl-C leaves no mess."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from warpwright.chips import chip_names, kind_counts, load_chip
from warpwright.cli import app
from warpwright.session import session

PROGRAM = """\
import sys
import numpy as np
import warpwright as ww

SOURCE = '''
extern "C" __global__ void add(int n, int by, int *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += by; }
extern "C" __global__ void endless(volatile int *flag) { int n = 0; while (*flag == 0) n++; *flag = n; }
'''

gpu = ww.GPU("a100")
module = gpu.compile(SOURCE, name="program.cu")
x = np.zeros(100, np.int32)
what = sys.argv[1] if len(sys.argv) > 1 else ""
if what == "endless":
    print("started", flush=True)
    module["endless"][1, 32](x)
module["add"][1, 128](1000 if what == "fault" else 100, 3, x)
assert (x == 3).all()
print("result", x[0], "on", gpu.name, sys.argv[1:])
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def call(*words: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command line."""
    result = CliRunner().invoke(app, [str(w) for w in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_version() -> None:
    assert call("version") == (0, "warpwright 0.1.0\n", "")


def test_chips_lists_every_chip() -> None:
    code, out, _ = call("chips")
    assert code == 0
    for word in ("a100", "h200", "v100", "Volta", "Hopper", "1,555"):
        assert word in out


def test_chip_shows_each_number_with_its_source() -> None:
    code, out, _ = call("chips", "a100")
    assert code == 0
    assert "sm_clock_mhz" in out
    assert "a100wp: Table 4" in out
    counts = ", ".join(f"{count} {kind}" for kind, count in kind_counts(load_chip("a100")).items())
    assert counts in " ".join(out.split())


def test_unknown_chip() -> None:
    assert call("chips", "a101") == (
        2,
        "",
        "no chip is called 'a101'; did you mean 'a100' or 'v100' or 'p100'? known chips: a100, fx5600, g80, g80-ultra, g92, gtx480, h200, hd5870, hd6970, p100, v100\n",
    )


def test_run_without_timing_prints_launches(program: Path) -> None:
    code, out, err = call("run", program, "--timing", "off", "one", "two")
    assert code == 0
    assert "result 3 on a100 ['one', 'two']" in out
    row = next(line for line in out.splitlines() if "add" in line)
    cells = [c.strip() for c in row.strip("│ ").split("│")]
    assert cells[:3] == ["add", "1", "128"]
    assert "cycles" not in out
    assert err == ""


def test_gpu_option_replaces_the_programs_chip_and_says_so(program: Path) -> None:
    code, out, err = call("run", "--gpu", "v100", "--timing", "off", program)
    assert code == 0
    assert "on v100" in out
    assert err == "note: the program requests a100; --gpu replaces it with v100\n"


@pytest.mark.ci
def test_a_chip_does_not_replace_the_gpus_of_a_machine_that_the_program_makes(tmp_path: Path) -> None:
    path = tmp_path / "machine.py"
    path.write_text(
        "import numpy as np\nimport warpwright as ww\nnode = ww.System('p100x2-pcie')\n"
        "SOURCE = 'extern \"C\" __global__ void one(int *x) { x[threadIdx.x] = 1; }'\n"
        "node.gpus[1].compile(SOURCE)['one'][1, 32](np.zeros(32, np.int32))\n"
    )
    code, _, err = call("run", "--gpu", "v100", "--timing", "off", str(path))
    assert code == 0
    assert (
        err
        == "note: the program makes the machine p100x2-pcie, whose GPUs --gpu does not replace; --system replaces the machine\n"
    )
    code, out, _ = call("compare", "p100", "v100", "--", str(path))
    assert code == 1
    assert "v100 does not run it: the program chose other chips for its launches (p100)" in out
    assert "p100 does not run it" not in out


def test_missing_program() -> None:
    assert call("run", "nowhere.py") == (2, "", "there is no program nowhere.py\n")


def test_unknown_timing(program: Path) -> None:
    assert call("run", "--timing", "quick", program) == (2, "", "--timing must be full, sampled or off, not quick\n")


def test_a_fault_is_a_sentence_with_the_programs_line(program: Path) -> None:
    code, _, err = call("run", "--timing", "off", program, "fault")
    assert code == 1
    lines = err.splitlines()
    assert lines[0].startswith(f"{program}:17: out-of-bounds read of 4 bytes at 0x7f")
    assert lines[0].endswith("in kernel add")
    assert lines[-1].endswith("the address is directly after its end")
    assert "Traceback" not in err


def test_a_programs_own_exception_is_shown_from_its_first_line_on(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("def f():\n    raise ValueError('own')\n\nf()\n")
    code, out, err = call("run", path)
    assert (code, out) == (1, "")
    lines = [line for line in err.splitlines() if "^" not in line and "~" not in line]
    assert lines == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 4, in <module>',
        "    f()",
        f'  File "{path}", line 2, in f',
        "    raise ValueError('own')",
        "ValueError: own",
    ]
    path.write_text("f(\n")
    code, _, err = call("run", path)
    assert code == 1
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "SyntaxError: '(' was never closed"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--qqq", "PROGRAM"), "unknown option --qqq; see warpwright run -h\n"),
        (("run", "--chek", "all", "PROGRAM"), "unknown option --chek; did you mean '--check' or '--caches' or '--checkpoint'? see warpwright run -h\n"),
        (("run", "--gpu", "A100", "PROGRAM"), f"no chip is called 'A100'; did you mean 'a100'? known chips: {', '.join(chip_names())}\n"),
        (("run", "FOLDER"), "FOLDER is a folder: give a Python file or a command\n"),
        (("run", "--report", "FOLDER/no/x.html", "PROGRAM"), "cannot write FOLDER/no/x.html: there is no folder FOLDER/no\n"),
        (("report", "PROGRAM", "-o", "FOLDER"), "cannot write FOLDER: it is a folder\n"),
        (("report", "ls"), "ls is not a Python file (*.py); for other programs use: warpwright run --report PAGE.html COMMAND\n"),
        (("run", "--caches", "warm", "PROGRAM"), "--caches warm is not known: cold or kept\n"),
        (("run", "--caches", "cold", "--timing", "off", "PROGRAM"), "--caches has no effect without times: omit --timing off\n"),
        (("run", "FOLDER/plain.txt"), "FOLDER/plain.txt is not executable: chmod +x FOLDER/plain.txt (a Python file's name must end in .py)\n"),
        (("run", "./nowhere"), "there is no program ./nowhere\n"),
        (("run", "FOLDER/no/x"), "there is no program FOLDER/no/x: there is no folder FOLDER/no\n"),
        (("run", "FOLDER/nowhere"), "there is no program FOLDER/nowhere\n"),
        (("run", "no-such-command"), "there is no program no-such-command, neither in this folder nor on the search path (PATH)\n"),
        (("run", "FOLDER/lost"), "FOLDER/lost is a link to nowhere-at-all, which does not exist\n"),
        (("run", "FOLDER/lost.py"), "FOLDER/lost.py is a link to nowhere-at-all, which does not exist\n"),
        (("compare", "v100", "--", "FOLDER/plain.txt"), "FOLDER/plain.txt is not executable: chmod +x FOLDER/plain.txt (a Python file's name must end in .py)\n"),
        (("compare", "v100", "a100", "--", "nowhere.py"), "there is no program nowhere.py\n"),
    ],
)  # fmt: skip
def test_what_can_be_seen_to_be_wrong_is_said_before_anything_runs(
    words: tuple[str, ...], said: str, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "plain.txt").touch()
    (tmp_path / "lost").symlink_to("nowhere-at-all")
    (tmp_path / "lost.py").symlink_to("nowhere-at-all")
    given = [w.replace("PROGRAM", str(program)).replace("FOLDER", str(tmp_path)) for w in words]
    assert call(*given) == (2, "", said.replace("FOLDER", str(tmp_path)))


def test_compare_looks_up_every_chip_first(program: Path) -> None:
    code, out, err = call("compare", "--timing", "off", "v100", "a101", "--", program)
    assert (code, out) == (2, "")
    assert err.startswith("no chip is called 'a101'")


@pytest.mark.parametrize("caches", ["cold", "kept"])
def test_caches_of_every_gpu_begin_as_the_command_says(caches: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import warpwright as ww\nprint([ww.GPU('v100', caches=c).caches for c in ('cold', 'kept', None)])\n"
    )
    code, out, _ = call("run", "--caches", caches, program)
    assert (code, out.splitlines()[0]) == (0, str([caches] * 3))
    assert session.caches is None


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_caches_of_other_processes_begin_as_the_command_says(tmp_path: Path, repository: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import warpwright as ww\nfrom warpwright.driver.driver_state import state\n"
        "print(ww.GPU('v100').caches, state().devices[0].gpu.caches)\n"
    )
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "v100", "--caches", "cold", "--", sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run([*command, str(program)], env=environment, text=True, capture_output=True)
    assert done.stdout.startswith("cold cold"), done.stderr


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_a_command_whose_python_makes_its_own_gpu(program: Path, repository: Path) -> None:
    """Chip, timing and checks hold for ``ww.GPU`` in a separate process, and its launches are listed."""
    environment = {**os.environ, "PYTHONPATH": str(repository)}

    def told(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "warpwright", "run", "--gpu", "v100", *words]
        done = subprocess.run(command, env=environment, text=True, capture_output=True)
        return done.returncode, done.stdout

    code, out = told("--timing", "off", "--", sys.executable, str(program))
    assert code == 0
    assert "result 3 on v100 []" in out
    assert [c.strip() for c in next(line for line in out.splitlines() if "│ add" in line).split("│")][1:4] == [
        "add",
        "1",
        "128",
    ]
    code, out = told("--check", "memcheck", "--", sys.executable, str(program), "fault")
    assert code == 1
    assert "Invalid __global__ read of size 4 bytes" in out
    assert out.splitlines()[-1] == "========= CHECK SUMMARY: 1 error"


def test_a_program_without_launches(tmp_path: Path) -> None:
    path = tmp_path / "nothing.py"
    path.write_text("print('hello')\n")
    assert call("run", path) == (0, "hello\nthe program launched no kernel\n", "")


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
@pytest.mark.parametrize("word", ["./sort", "sort", "bin/../sort", "link", "ABSOLUTE"])
def test_a_program_of_the_folder_is_not_the_systems(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "sort", 'echo "mine $*"')
    (tmp_path / "bin").mkdir()
    (tmp_path / "link").symlink_to("sort")
    monkeypatch.chdir(tmp_path)
    code, *_ = call("run", word.replace("ABSOLUTE", str(tmp_path / "sort")), "--reverse", "-k")
    assert (code, capfd.readouterr().out) == (0, "mine --reverse -k\n")


@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_commands_of_the_search_path_run_beside_a_folder_of_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sort").mkdir()
    (tmp_path / "echo").touch()  # a file that is not executable is no command
    monkeypatch.chdir(tmp_path)
    assert call("run", "echo", "a word")[0] == call("run", "sort", os.devnull)[0] == 0
    assert capfd.readouterr().out == "a word\n"
    assert call("run", "./sort")[2] == "./sort is a folder: give a Python file or a command\n"


@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_what_the_system_cannot_start_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(64))
    path.chmod(0o755)
    code, out, err = call("run", path)
    assert (code, out) == (2, "")
    assert err == (
        f"cannot start {path}: Exec format error; give a program of this machine, or a script whose first line names its "
        "interpreter (#!/bin/sh)\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_a_program_and_its_exit_code_are_compared_as_python_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    script(tmp_path / "go", 'echo "on $WARPWRIGHT_GPU $*"; exit ${1#-}')
    monkeypatch.chdir(tmp_path)
    assert call("compare", "v100", "a100", "--", "./go", "-0")[:2] == (
        0,
        "v100\na100\nthe program launched no kernel\n",
    )
    assert capfd.readouterr().out == "on v100 -0\non a100 -0\n"
    code, out, _ = call("compare", "v100", "a100", "--", "./go", "-3")
    assert code == 3
    for chip in ("v100", "a100"):
        assert f"{chip} does not run it: go -3 ended with exit code 3; see its output above" in " ".join(out.split())


def test_a_python_file_finds_what_lies_beside_the_file_that_a_link_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "program.py").write_text("import os\nos.chdir('/')\nimport beside_the_program\n")
    (tmp_path / "real" / "beside_the_program.py").write_text("print('found')\n")
    (tmp_path / "link.py").symlink_to("real/program.py")
    monkeypatch.chdir(tmp_path)
    assert call("run", "./link.py") == (0, "found\nthe program launched no kernel\n", "")


def test_launches_that_all_fail_are_not_none(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import numpy as np, warpwright as ww\n"
        "kernel = ww.GPU('v100', timing='off').compile('extern \"C\" __global__ void stop() { __trap(); }')['stop']\n"
        "try:\n    kernel[1, 1]()\nexcept ww.TrapError:\n    print('caught')\n"
    )
    assert call("run", str(tmp_path / "program.py"))[:2] == (0, "caught\nno launch of the program completed\n")


def test_a_chip_file_is_found_from_wherever_a_program_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text('base = "a100"\nname = "mine"\nsm_count = 7\n')
    (tmp_path / "program.py").write_text(
        "import os\nimport warpwright as ww\nos.chdir('/')\nprint(ww.GPU('a100').chip.sm.sm_count)\n"
    )
    monkeypatch.chdir(tmp_path)
    code, out, _ = call("run", "--gpu", "mine.toml", "program.py")
    assert (code, out) == (0, "7\nthe program launched no kernel\n")
    if sys.platform == "linux":
        from warpwright.driver.attach import child_environment

        monkeypatch.chdir(tmp_path)
        assert child_environment("v100,mine.toml", None, None)["WARPWRIGHT_GPU"] == f"v100,{tmp_path / 'mine.toml'}"


def test_compare_wants_chips_then_a_program() -> None:
    assert call("compare", "v100", "a100") == (
        2,
        "",
        "give chips, then the program: warpwright compare v100 a100 -- FILE.py\n",
    )


def test_compare_without_timing(program: Path) -> None:
    code, out, _ = call("compare", "--timing", "off", "v100", "h200", "--", program, "word")
    assert code == 0
    assert "result 3 on v100 ['word']" in out
    assert "result 3 on h200 ['word']" in out


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_quietly_with_130(program: Path, repository: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    command = [sys.executable, "-m", "warpwright.cli", "run", "--timing", "off", str(program), "endless"]
    process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), textwrap.indent(err, "  ")
    assert err.startswith("interrupted; kernel endless, block (0, 0, 0):\n  warp 0: lanes 0-31 run at program.cu:3: ")
    assert err.count("\n") == 2, "no traceback"


def test_import_alone_is_light(repository: Path) -> None:
    code = "import sys, warpwright, warpwright.cli; print([m for m in ('numba', 'llvmlite', 'numpy', 'pydantic') if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(repository)},
        text=True,
        capture_output=True,
        check=True,
    )
    assert out.stdout == "[]\n"


@pytest.mark.ci
@pytest.mark.parametrize("name", ["KILL", "SEGV"])
def test_a_program_that_a_signal_ended_reports_no_empty_result(tmp_path: Path, name: str) -> None:
    program = tmp_path / "ends.sh"
    program.write_text(f"#!/bin/sh\nkill -{name} $$\n")
    program.chmod(0o755)
    command = [sys.executable, "-m", "warpwright", "run", "--check", "all", str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 128 + signal.Signals[f"SIG{name}"]
    assert f"SIG{name} ended the program before" in ended.stderr
    assert ("memory is short" in ended.stderr) == (name == "KILL")
    assert not ended.stdout
