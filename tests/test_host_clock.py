"""The simulated clock in place of the host's: the library for native programs, Python's functions, and what calls of the driver take."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.test_driver_devices import HEAD
from warpwright.chips import load_chip
from warpwright.cli import app
from warpwright.driver import attach, clock_library, host_clock
from warpwright.driver.clock_library import SONAME, build_clock_library
from warpwright.native.direct import entry
from warpwright.native.intrinsics import sleep, words
from warpwright.session import session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the library is an ELF file")

READ = """
import ctypes, time
libc = ctypes.CDLL(None)
class Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("rest", ctypes.c_int64))
def now(clock=1):
    t = Time()
    assert libc.clock_gettime(clock, ctypes.byref(t)) == 0
    return t.seconds * 10**9 + t.rest
"""


def ran(program: str, **more: str) -> str:
    """What a Python program that was started with the clock library prints."""
    site = os.fspath(Path(attach.__file__).parent / "site")
    path = os.pathsep.join([site, *(p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)])
    environment = {
        **os.environ,
        "LD_PRELOAD": os.fspath(attach.folder() / SONAME),
        "WARPWRIGHT_HOST_CLOCK": "simulated",
        "PYTHONPATH": path,
        **more,
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_library_and_the_python_side_name_the_same_words() -> None:
    for name in ("STATE", "PS", "READ_PS", "WALL_NS", "MONOTONIC_NS", "RANGES", "WORDS", "BEGUN"):
        assert getattr(clock_library, name) == getattr(host_clock, name)
    assert clock_library.CLOCK_SYMBOL == host_clock.SYMBOL
    with pytest.raises(ValueError, match="no clock library for riscv64; there are some for x86_64 and aarch64"):
        build_clock_library("riscv64")


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_a_library_is_built_for_each_machine(machine: str, number: int) -> None:
    raw = build_clock_library(machine)
    assert raw[:4] == b"\x7fELF"
    assert int.from_bytes(raw[18:20], "little") == number


def test_native_code_reads_simulated_time() -> None:
    """Work takes none, a reading 28 ns, a sleep its time; processor time and the interpreter's own readings are the host's."""
    ran(
        READ
        + """
import threading
first = now()
sum(range(10**6))
assert now() - first == 28
words = (ctypes.c_int64 * 16).in_dll(ctypes.CDLL(None), "warpwright_clock")
words[4] += 5 * 10**12
assert now() - first == 5 * 10**9 + 2 * 28
assert libc.usleep(2000) == 0
assert now() - first == 5 * 10**9 + 2 * 10**6 + 3 * 28
wanted = Time(0, 3 * 10**6)
assert libc.nanosleep(ctypes.byref(wanted), None) == 0
assert now() - first == 5 * 10**9 + 5 * 10**6 + 4 * 28
until = now() + 10**6
wanted = Time(until // 10**9, until % 10**9)
assert libc.clock_nanosleep(1, 1, ctypes.byref(wanted), None) == 0
assert until <= now() < until + 1000
day = Time()
assert libc.gettimeofday(ctypes.byref(day), None) == 0
libc.time.restype = ctypes.c_int64
assert libc.time(None) == day.seconds
assert 0 <= now(0) - (day.seconds * 10**9 + day.rest * 1000) < 10**9
used = now(2)
sum(range(10**6))
assert now(2) > used + 1000
began = threading.Event()
assert not began.wait(0.01)   # the interpreter's waits end by the host's clock
"""
    )


def test_python_reads_simulated_time() -> None:
    said = ran(
        """
import time, timeit
from time import perf_counter
first = perf_counter()
sum(range(10**6))
print(round((perf_counter() - first) * 1e9))
first = time.monotonic_ns(), time.time_ns()
time.sleep(0.01)
print(time.monotonic_ns() - first[0], time.time_ns() - first[1] > 10**7, timeit.timeit("sum(range(10**5))", number=3) < 1e-6)
"""
    )
    assert said.split() == ["28", str(10**7 + 2 * 28), "True", "True"]


def test_what_installs_the_clock_in_a_process_takes_it_away_again() -> None:
    clock = host_clock.HostClock(simulated=True)
    real = time.perf_counter
    with host_clock.installed(clock):
        namespace: dict[str, int] = {"__name__": "program"}  # type: ignore[dict-item]
        exec("import time\nfirst = time.perf_counter_ns()\nsecond = time.perf_counter_ns()", namespace)
        assert namespace["second"] - namespace["first"] == 28
    assert time.perf_counter is real


LAUNCHES = (
    HEAD
    + READ
    + """
on(0)
here, function = filled(1), kernel()
add(function, here, here)
cuda("cuCtxSynchronize")
def took(launches):
    first = now()
    for _ in range(launches):
        add(function, here, here)
    called = now()
    cuda("cuCtxSynchronize")
    return called - first, now() - first
print(*took(1), *took(1), *took(101))
first = now()
cuda("cuCtxSynchronize")
print(now() - first)
"""
)


@pytest.mark.ci
def test_launches_and_waits_take_a_hosts_time() -> None:
    """As the two methods measure them: an empty wait, a launch until it has ended, and one launch more."""
    launch = load_chip("h200").launch
    said = ran(LAUNCHES, WARPWRIGHT_GPU="h200", WARPWRIGHT_TIMING="full").split()
    call, total, again_call, again, _, many, idle = (float(word) / 1e3 for word in said)
    assert call == again_call == pytest.approx(launch.launch_call_us, abs=0.1)
    # A card's empty kernel takes 8.3 to 8.8 (bench/data/h200/host_calls.json), and this one loads and stores.
    assert 8.3 < total < 9.5
    assert again == pytest.approx(total, rel=0.02)
    assert (many - again) / 100 == pytest.approx(launch.launch_call_us, rel=0.05)
    assert idle == pytest.approx(launch.synchronize_call_us, abs=0.1)


SCRIPT = """
import time
import numpy as np
import warpwright as ww
kernel = ww.GPU("h200").compile('extern "C" __global__ void spin(long long n) { long long b = clock64(); while (clock64() - b < n); }')["spin"]
first = time.perf_counter()
run = kernel[1, 32](np.int64(100000))
took = time.perf_counter() - first
costs = kernel.gpu.chip.launch
assert abs(took - run.seconds - (costs.launch_call_us + costs.launch_latency_us) * 1e-6) < 1e-7, took
"""


def test_a_python_file_reads_the_time_of_its_launches(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(SCRIPT)
    done = CliRunner().invoke(app, ["run", "--host-clock", "simulated", str(program)])
    assert done.exit_code == 0, done.output
    assert session.host_clock is None
    assert not session.simulates_host_clock


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host-clock", "wall"], "--host-clock wall is not known: host or simulated"),
        (["--host-clock", "simulated", "--timing", "off"], "--host-clock simulated needs times"),
    ],
)
def test_clocks_that_cannot_be_are_refused(words: list[str], said: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("")
    done = CliRunner().invoke(app, ["run", *words, str(program)])
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_the_timing_methods_read_the_programs_clock() -> None:
    said = ran("""
import time
from warpwright.studies.timing_methods import by_host_clock, launch_times
times = launch_times(lambda: None, lambda: None, repeats=3, many=2)
print(times.call.mean, times.total.mean, times.total.deviation)
found = by_host_clock(lambda repeats: [time.perf_counter_ns() for _ in range(repeats)], lambda: None, repeats=(5, 25), launches=2)
print(found.mean, found.deviation)
""")
    assert said.split() == ["28.0", "56.0", "0.0", "28.0", "0.0"]  # 28 ns for each reading of the simulated clock


@partial(entry, what="", sources=(Path(__file__),))
def pauses(state: Any, count: int) -> int:
    """Pause as the cycle model's host threads do; returns the number of pauses so far."""
    m = words(state)
    for _ in range(count):
        sleep(100)
        m[0] += 1
    return m[0]


def test_pauses_of_the_cycle_model_are_not_the_programs_time() -> None:
    said = ran(
        READ
        + """
import numpy as np
from tests.test_host_clock import pauses
state = np.zeros(8, np.int64)
assert pauses(state, 1) == 1
begin = now()
assert pauses(state, 20) == 21
print(now() - begin)
"""
    )
    assert said.split() == ["28"]  # a reading's time
