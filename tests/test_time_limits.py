"""Time limits and interruptions: a program that never ends is stopped, and the message has the lines of its warps."""

from __future__ import annotations

import io
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import TimedOutError
from warpwright.programs import outside_launch
from warpwright.run import Progress
from warpwright.session import session
from warpwright.timing import windows
from warpwright.tools.progress import ProgressLog, describe, duration, seconds_left

SOURCE = """
extern "C" __global__ void counts(int* out, long long turns) {
    int x = threadIdx.x;
    for (long long i = 0; i < turns; i++) x = x * 1664525 + 1013904223;
    __syncthreads();
    out[threadIdx.x] = x;
}
extern "C" __global__ void polls(volatile int* flag, int* out) {
    if (threadIdx.x >= 32) {
        // A clock may end the loop, so that it is no deadlock.
        while (*flag == 0 && clock64() != 1) {
        }
    }
    __syncthreads();
    out[threadIdx.x] = 1;
}
"""
ENDLESS = 1 << 60
PROGRAM = f"""
import sys
import numpy as np
import warpwright as ww

gpu = ww.GPU("v100")
kernel = gpu.compile('''{SOURCE}''', name="program.cu")["counts"]

def test_it():
    kernel[1, 64](gpu.zeros(64, np.int32), {ENDLESS})

if __name__ == "__main__":
    test_it()
"""


def stopped(kernel: str, timing: str, engine: str = "compiled", check: str = "") -> str:
    """What is known of the warps of an endless launch that a limit of a second and a half stopped."""
    gpu = ww.GPU("v100", timing=timing, engine=engine, check=check)
    module = gpu.compile(SOURCE, name="limits.cu")
    out = gpu.zeros(64, np.int32)
    arguments = (out, ENDLESS) if kernel == "counts" else (gpu.zeros(1, np.int32), out)
    # Compiled before the limit begins.
    module["counts"][2, 64](out, 1)
    module["polls"][2, 64](gpu.array(np.ones(1, np.int32)), out)
    with pytest.raises(TimedOutError), session.time_limit(1.5):
        module[kernel][2, 64](*arguments)
    assert module["counts"][1, 64](out, 1).instructions > 0, "the GPU stays usable"
    return session.stopped_at


@pytest.mark.ci
@pytest.mark.parametrize(
    ("timing", "engine"),
    [
        ("full", "compiled"),
        *(pytest.param("off", engine, marks=pytest.mark.ci) for engine in ("compiled", "interpreter")),
    ],
)
def test_a_time_limit_says_at_which_lines_the_warps_were(timing: str, engine: str) -> None:
    text = stopped("counts", timing, engine)
    # Which of the two blocks ran when the time was over is the host's affair.
    assert re.match(r"kernel counts, block \([01], 0, 0\):\n", text), text
    assert re.search(r"warps? 0(-1)?: lanes 0-31 run at limits\.cu:4: ", text), text


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["off", pytest.param("full", marks=pytest.mark.ci)])
def test_a_time_limit_tells_warps_that_wait_from_those_that_run(timing: str) -> None:
    text = stopped("polls", timing)
    assert re.search(r"warp 0: lanes 0-31 waits? at the block barrier limits\.cu:14: ", text), text
    assert re.search(r"warp 1: lanes 0-31 run at limits\.cu:1[12]: ", text), text


@pytest.mark.ci
@pytest.mark.parametrize("check", ["all", "schedcheck"])
def test_a_time_limit_has_the_lines_under_the_checks(check: str) -> None:
    text = stopped("counts", "off", check=check)
    assert re.match(r"kernel counts, block \([01], 0, 0\):\n", text), text
    assert re.search(r"warps? 0(-1)?: lanes 0-31 run at limits\.cu:4: ", text), text
    text = stopped("polls", "off", check=check)
    assert re.search(r"warp 1: lanes 0-31 run at limits\.cu:1[12]: ", text), text
    if check == "all":
        assert re.search(r"warp 0: lanes 0-31 waits? at the block barrier limits\.cu:14: ", text), text


@pytest.mark.ci
def test_a_limit_ends_a_launch_of_another_thread() -> None:
    gpu = ww.GPU("v100", timing="off")
    kernel = gpu.compile(SOURCE)["counts"]
    out = gpu.zeros(64, np.int32)
    kernel[1, 64](out, 1)
    raised: list[BaseException] = []

    def work() -> None:
        try:
            kernel[1, 64](out, ENDLESS)
        except BaseException as error:
            raised.append(error)

    def join() -> None:
        while thread.is_alive():
            thread.join(0.1)

    # Of the two threads, the one that sees the deadline first gets the error.
    thread = threading.Thread(target=work)
    session.deadline = time.monotonic() + 1.5
    thread.start()
    join()
    assert session.deadline is None
    assert isinstance(raised[0], TimedOutError)


def test_nothing_is_left_of_a_limit_that_was_not_reached() -> None:
    with session.time_limit(30):
        assert session.deadline is not None
    assert session.deadline is None
    assert not session.timed_out


def test_a_time_limit_outside_a_launch_names_the_programs_line(tmp_path: Path) -> None:
    program = tmp_path / "waits.py"
    program.write_text("import time\n\ndef wait():\n    time.sleep(30)\n\nwait()\n")
    with pytest.raises(TimedOutError) as stop, session.time_limit(0.05):
        runpy.run_path(str(program))
    expected = "no kernel was running, before the first launch; waits.py:4: time.sleep(30)"
    assert outside_launch(stop.value, program, launched=False) == expected


def test_a_time_limit_during_compilation_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "compiles.py"
    program.write_text("import warpwright as ww\n\nww.GPU('v100').compile('__global__ void k() { }')\n")

    def over(*_: object, **__: object) -> None:
        raise TimedOutError

    monkeypatch.setattr("warpwright.toolchain.compile.read_cubin", over)
    with pytest.raises(TimedOutError) as stop:
        runpy.run_path(str(program))
    text = outside_launch(stop.value, program, launched=True)
    assert (
        text == "a kernel's source was being compiled; compiles.py:3: ww.GPU('v100').compile('__global__ void k() { }')"
    )


def run_with_limit(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "warpwright.cli", "run", "--timing", "off", "--timeout", "8", *words]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="processes run on the simulated driver only on Linux")
@pytest.mark.parametrize("words", [("program.py",), ("python3", "program.py")])
def test_the_command_stops_a_program_with_exit_code_124(tmp_path: Path, words: tuple[str, ...]) -> None:
    words = tuple(sys.executable if w == "python3" else w for w in words)
    ended = run_with_limit(tmp_path, *words)
    assert ended.returncode == 124, ended.stderr
    assert "run at program.cu:4" in ended.stderr


@pytest.mark.ci
def test_pytest_fails_a_test_at_its_limit(tmp_path: Path) -> None:
    warm = "kernel[1, 64](gpu.zeros(64, np.int32), 1)  # Compiled before the test's limit begins."
    (tmp_path / "test_program.py").write_text(PROGRAM.replace("def test_it", f"{warm}\n\ndef test_it"))
    command = [sys.executable, "-m", "pytest", "-q", "--warpwright=v100", "--warpwright-timing=off"]
    command += ["--warpwright-timeout=2", "test_program.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, env=os.environ)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "the time limit of 2 s has passed (--warpwright-timeout); kernel counts, block (0, 0, 0):" in ended.stdout
    assert "run at program.cu:4" in ended.stdout
    assert "run_launch.py" not in ended.stdout, "frames of the package are of no use to a reader"


def progress(seconds: float, done: int, cycles: int = 0) -> Progress:
    return Progress("sums", "running", seconds, done, 64, cycles)


def test_progress_has_blocks_rate_and_time_left() -> None:
    assert describe(progress(4, 0)) == "0 of 64 blocks, 4 s"
    assert describe(progress(4, 16)) == "16 of 64 blocks (4.00/s), 4 s, 12 s left"
    assert describe(progress(4, 16, 8000)) == "16 of 64 blocks, 8,000 cycles (2,000/s), 4 s, 12 s left"
    assert describe(replace(progress(4, 0), phase="compiling")) == "compiling, 4 s"
    large = replace(progress(4, 0), phase="compiling", instructions=44_600)
    assert describe(large) == "compiling 44,600 instructions, 4 s"
    interpreted = "0 of 64 blocks, interpreted until compiling its 44,600 instructions pays off, 4 s"
    assert describe(replace(large, phase="interpreting")) == interpreted
    waits = "waiting for the cycle model, which is compiled once on this machine, 4 s"
    assert describe(replace(progress(4, 0), phase="model")) == waits
    assert seconds_left(progress(4, 64)) == 0
    assert seconds_left(replace(progress(40, 16), waited_seconds=24)) == 48, "blocks ran for 16 s"
    waves = replace(progress(40, 16), longest_gap_seconds=10)
    assert seconds_left(replace(waves, idle_seconds=19)) == 120
    assert seconds_left(replace(waves, idle_seconds=21)) is None, "no block ends any more"
    assert seconds_left(replace(waves, together=True)) is None, "all blocks run at once"
    assert seconds_left(replace(progress(5, 1), longest_gap_seconds=0.1, idle_seconds=4)) is None
    assert [duration(s) for s in (0.4, 59, 61, 7260)] == ["0 s", "59 s", "1 min 1 s", "2 h 1 min"]


def test_a_log_has_a_line_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("warpwright.tools.progress.time.monotonic", lambda: now[0])
    stream = io.StringIO()
    log = ProgressLog(stream)
    for second in range(1, 121):
        now[0] += 1
        log(progress(second, 0))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "warpwright: sums: 0 of 64 blocks, 5 s"
    assert len(lines) == 11 + 2, "every 5 s, and after a minute every 30 s"


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_while_a_native_program_loads_python_ends_it_without_a_traceback() -> None:
    from warpwright.driver.attach import boot_of

    code = boot_of("import time; print('loading', flush=True); time.sleep(60)").code
    loading = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert loading.stdout is not None
    assert loading.stdout.readline() == "loading\n"
    os.kill(loading.pid, signal.SIGINT)
    _, shown = loading.communicate(timeout=60)
    assert (loading.returncode, shown) == (-signal.SIGINT, "")


class SlowModel:
    """The cycle model, whose machine code is loaded slowly."""

    def __init__(self) -> None:
        self.loaded, self.signatures = windows.run_windows, ""

    def _load(self) -> None:
        if not self.signatures:
            time.sleep(0.3)
            self.signatures = "loaded"

    def __call__(self, *given: object) -> int:
        self._load()
        return int(self.loaded(*given))

    def address(self, function: object) -> int:
        self._load()
        return int(self.loaded.address(function))


@pytest.mark.ci
@pytest.mark.parametrize("gpus", [1, 2])
def test_a_launch_that_waits_for_the_cycle_model_says_so(gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that its kernel is being compiled."""
    node = ww.System("p100x2-nvlink")
    launches = []
    for gpu in node.gpus[:gpus]:
        out = gpu.array(np.zeros(32, np.int32))
        launches.append((gpu.compile(SOURCE)["counts"][1, 32], (out, np.int64(3))))
    node.launch(*launches)  # its machine code is there from now on
    monkeypatch.setattr(windows, "run_windows", SlowModel())
    monkeypatch.setattr("warpwright.launch_job.QUIET_SECONDS", 0.01)
    monkeypatch.setattr("warpwright.launch_job.POLL_SECONDS", 0.01)
    phases: list[str] = []
    monkeypatch.setattr(session, "on_progress", lambda shown: phases.append(shown.phase))
    launches = [(launch, (given[0], np.int64(4))) for launch, given in launches]
    if gpus == 1:
        launches[0][0](*launches[0][1])
    else:
        node.launch(*launches)
    assert "model" in phases
    assert "compiling" not in phases[phases.index("model") :]
