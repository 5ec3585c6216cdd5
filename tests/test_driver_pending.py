"""Kernels of several streams of a program share the chip; queued work keeps the streams' order, and what a program sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_driver_devices import HEAD as DRIVER_HEAD
from tests.test_driver_devices import finished, right
from warpwright.chips import load_chip

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

ROOT = Path(__file__).parents[1]
SOURCE = r"""
extern "C" __global__ void work(float *out, int rounds) {
    float a = threadIdx.x, b = 1, c = 2, d = 3;
    for (int i = 0; i < rounds; i++) { a = a * 1.01f + b; b = b * 1.01f + c; c = c * 1.01f + d; d = d * 1.01f + a; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
}
extern "C" __global__ void step(int *cell, int factor, int summand) { *cell = *cell * factor + summand; }
extern "C" __global__ void await(volatile int *flag, int *out) { while (*flag == 0); *out = *flag + 1; }
extern "C" __global__ void raise(volatile int *flag, int value) { *flag = value; }
extern "C" __global__ void fail() { *(int *)16 = 1; }
"""
HEAD = f"""
from warpwright.toolchain import compile_source
SOURCE = {SOURCE!r}
on(0)
cubin = compile_source(SOURCE, 90).cubin
module = cuda.word("cuModuleLoadData", cubin)
work, step, wait, lift, fail = (
    cuda.word("cuModuleGetFunction", module, n) for n in (b"work", b"step", b"await", b"raise", b"fail"))
SMS, WHOLE_SM = 132, 200 << 10
cuda("cuFuncSetAttribute", work, ctypes.c_int(8), ctypes.c_int(WHOLE_SM))

def streams(count, flags=1, priorities=None):
    return [cuda.word("cuStreamCreateWithPriority", flags, ctypes.c_int(p)) for p in priorities or [0] * count]

def do(stream, blocks, rounds, place):
    cuda.launch(work, blocks, 1024, ctypes.c_uint64(place), ctypes.c_int(rounds), shared=WHOLE_SM, stream=stream)

def change(stream, cell, factor, summand):
    cuda.launch(step, 1, 1, ctypes.c_uint64(cell), ctypes.c_int(factor), ctypes.c_int(summand), stream=stream)

def event():
    return cuda.word("cuEventCreate", 0)

def between(first, last):
    return 1e3 * cuda.word("cuEventElapsedTime", first, last, kind=ctypes.c_float)

def word(place):
    back = ctypes.c_int32()
    cuda("cuMemcpyDtoH_v2", ctypes.byref(back), place, 4)
    return back.value

def cell(value=0):
    place = cuda.word("cuMemAlloc_v2", 4)
    cuda("cuMemsetD32_v2", place, value, 1)
    return place
"""


def run(program: str, timing: str = "full", chips: str = "h200", **more: str) -> str:
    return right(HEAD + program, chips, WARPWRIGHT_TIMING=timing, **more)


PAIR = """
a, b = streams(2)
places = [cuda.word("cuMemAlloc_v2", 4 * 132 * 1024) for _ in range(2)]

def took(blocks, both=True, rounds=500):
    first, fork, join, last = (event() for _ in range(4))
    cuda("cuEventRecord", first, a)
    cuda("cuEventRecord", fork, a)
    cuda("cuStreamWaitEvent", b, fork, 0)
    do(a, blocks, rounds, places[0])
    if both:
        do(b, blocks, rounds, places[1])
    cuda("cuEventRecord", join, b)
    cuda("cuStreamWaitEvent", a, join, 0)
    cuda("cuEventRecord", last, a)
    cuda("cuCtxSynchronize")
    return between(first, last)
"""


@pytest.mark.ci
def test_kernels_of_two_streams_take_sms_from_each_other() -> None:
    run(
        PAIR
        + """
alone, half, whole = took(132, both=False), took(66), took(132)
assert half < 1.1 * alone, (alone, half)
assert whole > 1.5 * alone, (alone, whole)
"""
    )


@pytest.mark.ci
@pytest.mark.parametrize("count", [1, 2], ids=["one stream", "two streams"])
def test_a_launch_overhead_begins_before_the_kernel_ahead_has_ended(count: int) -> None:
    """bench.machine.kernel_gaps on H200: kernels of 8,000 cycles follow each other as soon as empty ones."""
    program = f"""
all = streams({count})
cells = [cell() for _ in all]

def line(length):
    first, last = event(), event()
    cuda("cuEventRecord", first, all[0])
    for _ in range(length):
        change(all[0], cells[0], 1, 1)
    cuda("cuEventRecord", last, all[0])
    cuda("cuCtxSynchronize")
    return between(first, last)

if len(all) > 1:  # streams of their own share the chip
    change(all[1], cells[1], 1, 1)
line(1)  # brings the code
one, four = line(1), line(4)
print("found", one, (four - one) / 3)
"""
    one, each = (float(word) for word in run(program).split("found")[1].split())
    launch = load_chip("h200").launch
    assert launch.stream_launch_lead_us > 0.2
    assert each == pytest.approx(one - launch.event_record_us - launch.stream_launch_lead_us, abs=0.05)


@pytest.mark.ci
def test_a_stream_of_a_higher_priority_goes_first() -> None:
    run(
        PAIR
        + """
urgent, = streams(1, priorities=[-5])
cuda("cuCtxSynchronize")
begin, low, high = (event() for _ in range(3))
cuda("cuEventRecord", begin, a)
cuda("cuStreamWaitEvent", b, begin, 0)
cuda("cuStreamWaitEvent", urgent, begin, 0)
do(a, 132, 400, places[0])
do(b, 132, 100, places[1])
cuda("cuEventRecord", low, b)
do(urgent, 132, 100, places[1])
cuda("cuEventRecord", high, urgent)
cuda("cuCtxSynchronize")
assert between(high, low) > 2, between(high, low)
"""
    )


@pytest.mark.parametrize("timing", ["full", "off"])
def test_queued_work_keeps_the_order_of_streams_events_and_the_default_stream(timing: str) -> None:
    run(
        """
a, b = streams(2)
blocking, other = streams(2, flags=0)
one = cell(1)
done, unrelated = event(), event()
change(a, one, 2, 3)                 # 5
cuda("cuEventRecord", done, a)
cuda("cuStreamWaitEvent", b, done, 0)
cuda("cuEventRecord", done, a)       # the wait is for the first record
change(b, one, 10, 1)                # 51
cuda("cuMemcpyDtoDAsync_v2", one2 := cell(), one, 4, b)
cuda("cuEventRecord", unrelated, b)
cuda("cuStreamWaitEvent", blocking, unrelated, 0)
change(blocking, one, 2, 0)          # 102
change(0, one, 3, 1)                 # 307: after all blocking streams
change(other, one, 2, 1)             # 615: after the default stream
assert (word(one), word(one2)) == (615, 51)
""",
        timing,
    )


GRAPH = """
class Parameters(ctypes.Structure):
    _fields_ = (("function", ctypes.c_void_p), *((n, ctypes.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
                ("values", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kernel", ctypes.c_void_p), ("context", ctypes.c_void_p))

def node(graph, needs, function, blocks, threads, shared, *values):
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    filled = Parameters(function, blocks, 1, 1, threads, 1, 1, shared, ctypes.addressof(pointers))
    array = (ctypes.c_uint64 * max(1, len(needs)))(*needs)
    return cuda.word("cuGraphAddKernelNode_v2", graph, array, len(needs), ctypes.byref(filled))

def change_node(graph, needs, place, factor, summand):
    return node(graph, needs, step, 1, 1, 0, ctypes.c_uint64(place), ctypes.c_int(factor), ctypes.c_int(summand))

def work_node(graph, needs, blocks, rounds, place):
    return node(graph, needs, work, blocks, 1024, WHOLE_SM, ctypes.c_uint64(place), ctypes.c_int(rounds))

def microseconds(executable, stream):
    first, last = event(), event()
    cuda("cuEventRecord", first, stream)
    cuda("cuGraphLaunch", executable, stream)
    cuda("cuEventRecord", last, stream)
    cuda("cuCtxSynchronize")
    return between(first, last)
"""


@pytest.mark.ci
@pytest.mark.parametrize("streams", [0, 2])
def test_branches_of_a_graph_take_sms_from_each_other(streams: int) -> None:
    run(
        GRAPH
        + f"""
places = [cuda.word("cuMemAlloc_v2", 4 * 132 * 1024) for _ in range(2)]
on = streams(2)[0] if {streams} else 0
def took(blocks, branches):
    graph = cuda.word("cuGraphCreate", 0)
    for n in range(branches):
        work_node(graph, [], blocks, 500, places[n])
    return microseconds(cuda.word("cuGraphInstantiateWithFlags", graph, 0), on)
alone, half, whole = took(132, 1), took(66, 2), took(132, 2)
assert half < 1.15 * alone, (alone, half)
assert whole > 1.5 * alone, (alone, whole)
"""
    )


def test_a_graphs_nodes_keep_their_order_in_the_queue_and_two_launches_follow_each_other() -> None:
    run(
        GRAPH
        + """
a, b = streams(2)
one, two = cell(1), cell(1)
graph = cuda.word("cuGraphCreate", 0)
first = change_node(graph, [], one, 2, 3)
left = change_node(graph, [first], one, 10, 1)
right = change_node(graph, [first], two, 2, 1)
last = change_node(graph, [left, right], one, 1, 100)
executable = cuda.word("cuGraphInstantiateWithFlags", graph, 0)
change(a, one, 3, 0)                       # 3
cuda("cuGraphLaunch", executable, a)       # ((3 * 2 + 3) * 10 + 1) + 100 = 191; 3
cuda("cuGraphLaunch", executable, a)       # ((191 * 2 + 3) * 10 + 1) + 100 = 3951; 7
change(a, one, 1, 1)
change(b, cell(), 1, 1)
assert (word(one), word(two)) == (3952, 7)
"""
    )


def test_copies_and_host_functions_in_queued_streams_keep_their_places() -> None:
    run(
        """
a, b = streams(2)
host = cuda.word("cuMemHostAlloc", 16, 0)
words = (ctypes.c_int32 * 4).from_address(host)
words[:] = 7, 0, 0, 0
one, two = cell(), cell()
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def call(_):
    words[2] = words[1] + 1
change(b, two, 1, 5)
cuda("cuMemcpyHtoDAsync_v2", one, host, 4, a)
change(a, one, 2, 1)
cuda("cuMemcpyDtoHAsync_v2", host + 4, one, 4, a)
cuda("cuLaunchHostFunc", a, call, 0)
cuda("cuMemcpyHtoDAsync_v2", two, host + 8, 4, a)
assert cuda.raw("cuStreamQuery", a) == 0
assert (words[1], words[2], word(two)) == (15, 16, 16)
pageable = (ctypes.c_int32 * 1)(40)
change(b, two, 0, 1)
cuda("cuMemcpyHtoDAsync_v2", one, pageable, 4, a)
pageable[0] = 99                     # read by the call, not later
change(a, one, 1, 2)
assert word(one) == 42
"""
    )


def test_kernels_of_two_streams_that_do_not_meet_have_the_counters_of_launches_alone() -> None:
    run(
        """
from warpwright.session import session
runs = []
session.on_launch = runs.append
SIZE = 4 << 20                       # 80 us of PCI Express, after the other stream's copy
host = cuda.word("cuMemHostAlloc", SIZE, 0)
pair = streams(2)
ends = []
for stream in pair:
    place = cuda.word("cuMemAlloc_v2", SIZE)
    cuda("cuMemcpyHtoDAsync_v2", place, host, SIZE, stream)
    do(stream, 4, 20, place)
    cuda("cuMemcpyDtoHAsync_v2", host, place, 4096, stream)
    ends.append(event())
    cuda("cuEventRecord", ends[-1], stream)
cuda("cuCtxSynchronize")
assert [one.shared for one in runs] == [False, False]
assert all(one.metrics["lts__t_sectors.sum"] > 0 for one in runs)
assert 60 < between(*ends) < 100, between(*ends)
"""
    )


def test_a_kernel_of_a_sampled_program_may_wait_for_the_host() -> None:
    """It is timed in full, says so, and has the host time of its machine."""
    run(
        """
from warpwright.session import session
runs = []
session.on_launch = runs.append
host = cuda.word("cuMemHostAlloc", 4, 2)
flag, out = ctypes.c_int32.from_address(host), cell()
flag.value = 0
cuda.launch(wait, 1, 32, ctypes.c_uint64(host), ctypes.c_uint64(out))
flag.value = 41
assert word(out) == 42
assert [one.timed_in_full for one in runs] == ["it polls memory"]
assert runs[0].wall_seconds > 0, runs[0].wall_seconds
""",
        "sampled",
    )


@pytest.mark.parametrize("timing", ["full", "off"])
def test_kernels_that_wait_for_another_streams_kernel_or_for_the_host_go_on(timing: str) -> None:
    run(
        """
flags = [cell(), cell()]
outs = [cell(), cell()]
a, b = streams(2)
def await_flag(stream, flag, out):
    cuda.launch(wait, 1, 32, ctypes.c_uint64(flag), ctypes.c_uint64(out), stream=stream)
def raise_flag(stream, flag, value):
    cuda.launch(lift, 1, 1, ctypes.c_uint64(flag), ctypes.c_int(value), stream=stream)
await_flag(a, flags[0], outs[0])     # waits for b, which then waits for a
raise_flag(a, flags[1], 5)
raise_flag(b, flags[0], 3)
await_flag(b, flags[1], outs[1])
assert [word(out) for out in outs] == [4, 6]

host = cuda.word("cuMemHostAlloc", 4, 2)
flag = ctypes.c_int32.from_address(host)
flag.value = 0
await_flag(0, host, outs[0])
flag.value = 41
cuda("cuCtxSynchronize")
assert word(outs[0]) == 42

place = cell()
await_flag(a, place, outs[0])
cuda("cuStreamWriteValue32_v2", b, place, 8, 0)
assert word(outs[0]) == 9
cuda("cuStreamWaitValue32_v2", a, flags[1], 77, 1)
change(a, outs[0], 1, 100)
cuda("cuStreamWriteValue32_v2", b, flags[1], 77, 0)
assert word(outs[0]) == 109
""",
        timing,
    )


@pytest.mark.ci
@pytest.mark.parametrize("check", ["", "all"])
def test_a_module_may_be_loaded_between_a_kernel_that_waits_and_the_one_that_releases_it(check: str) -> None:
    run(
        """
flag, out = cell(), cell()
a, b = streams(2)
cuda.launch(wait, 1, 32, ctypes.c_uint64(flag), ctypes.c_uint64(out), stream=a)
other = cuda.word("cuModuleLoadData", cubin)
again = cuda.word("cuModuleGetFunction", other, b"raise")
library = cuda.word("cuLibraryLoadData", cubin, None, None, 0, None, None, 0)
cuda.launch(again, 1, 1, ctypes.c_uint64(flag), ctypes.c_int(3), stream=b)
assert word(out) == 4
""",
        "off",
        **({"WARPWRIGHT_CHECK": check} if check else {}),
    )


def test_a_stream_that_waits_for_a_word_that_nobody_writes_is_an_error_of_the_call_that_waits_for_it() -> None:
    done = finished(
        HEAD
        + """
a, b = streams(2)
place = cell()
cuda("cuStreamWaitValue32_v2", a, place, 77, 1)
print(cuda.raw("cuStreamSynchronize", a))
cuda("cuCtxSynchronize")
""",
        "h200",
        WARPWRIGHT_TIMING="full",
    )
    assert done.stdout == "801\n"
    assert "a stream waits for a word that nothing submitted so far writes" in done.stderr


@pytest.mark.ci
def test_the_host_may_poll_memory_without_a_call() -> None:
    run(
        """
import time
a, b = streams(2)
host = cuda.word("cuMemHostAlloc", 4, 2)
word_of_host = ctypes.c_int32.from_address(host)
word_of_host.value = 0
cuda.launch(lift, 1, 1, ctypes.c_uint64(host), ctypes.c_int(3), stream=a)
until = time.monotonic() + 60
while not word_of_host.value:
    assert time.monotonic() < until
"""
    )


@pytest.mark.parametrize("beside", [False, True])
def test_a_fault_in_the_queue_names_its_kernel_and_its_stream_and_marks_the_context(beside: bool) -> None:
    done = finished(
        HEAD
        + f"""
a, b = streams(2)
one = cell()
if {beside}:
    change(a, one, 1, 1)
cuda.launch(fail, 1, 1, stream=b)
print(cuda.raw("cuStreamSynchronize", b), cuda.raw("cuStreamSynchronize", a))
print(f"stream {{b:#x}}")
""",
        "h200",
        WARPWRIGHT_TIMING="full",
    )
    codes, stream = done.stdout.splitlines()
    assert codes == "700 700"
    assert "fail" in done.stderr
    assert f"launched in {stream}" in done.stderr


def test_what_is_queued_when_a_program_ends_runs() -> None:
    done = finished(HEAD + "a, b = streams(2)\ncuda.launch(fail, 1, 1, stream=b)\n", "h200", WARPWRIGHT_TIMING="full")
    assert "launched in stream" in done.stderr


@pytest.mark.ci
def test_reports_list_launches_that_shared_the_chip_without_a_limit_of_their_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DRIVER_HEAD + HEAD + PAIR + "took(66)\n")
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "warpwright", "report", "--gpu", "h200", "-o", str(page), str(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert page.read_text().count("<td>shared the chip</td>") == 2
    command[3:6] = ["run", "--gpu", "h200"]
    done = subprocess.run(
        [*command[:6], str(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "it shared the chip" in done.stdout


@pytest.mark.slow
def test_a_time_limit_ends_a_program_with_work_in_the_queue(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    more = "a, b = streams(2)\nplace = cuda.word('cuMemAlloc_v2', 4 * 132 * 1024)\n"
    program.write_text(
        DRIVER_HEAD + HEAD + more + "for s in (a, b):\n    do(s, 132, 1 << 30, place)\ncuda('cuCtxSynchronize')\n"
    )
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "h200", "--timeout", "15", str(program)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == 124, done.stdout + done.stderr


@pytest.mark.ci
def test_what_the_host_submits_after_it_has_waited_starts_no_earlier_than_what_it_waited_for_ended() -> None:
    run(
        PAIR
        + """
first, last, later = (event() for _ in range(3))
cuda("cuEventRecord", first, a)
do(a, 132, 500, places[0])
cuda("cuEventRecord", last, a)
cuda("cuStreamSynchronize", a)
cuda("cuEventRecord", later, b)
assert 0 <= between(last, later) < 5
both = took(132)                       # side by side, although one of the streams was idle for longer
start = event()
cuda("cuEventRecord", start, b)
do(a, 132, 500, places[0])
do(b, 132, 500, places[1])
cuda("cuEventRecord", last, a)
cuda("cuEventRecord", later, b)
cuda("cuCtxSynchronize")
found = between(start, last), between(start, later)
assert max(found) > 1.6 * min(found), (found, both)
"""
    )


FORK = """
many = streams(10)
places = [cuda.word("cuMemAlloc_v2", 4 * 1024) for _ in many]
forked, *joined = (cuda.word("cuEventCreate", 2) for _ in range(11))
first, last = event(), event()

def took(width):
    cuda("cuEventRecord", first, many[0])
    do(many[0], 1, 2000, places[0])
    cuda("cuEventRecord", forked, many[0])
    for n in range(width):
        if n:
            cuda("cuStreamWaitEvent", many[n], forked, 0)
        do(many[n], 1, 2000, places[n])
        if n:
            cuda("cuEventRecord", joined[n], many[n])
            cuda("cuStreamWaitEvent", many[0], joined[n], 0)
    do(many[0], 1, 2000, places[0])
    cuda("cuEventRecord", last, many[0])
    cuda("cuCtxSynchronize")
    return between(first, last)
print(*(took(width) for width in (2, 3, 4, 8, 9, 10)))
"""


@pytest.mark.ci
def test_queues_that_wait_for_an_event_are_released_one_after_the_other() -> None:
    """A fork of streams (bench.machine.event_waits on an H200): each further queue waits for its turn; there are eight."""
    launch = load_chip("h200").launch
    two, three, four, eight, nine, ten = map(float, run(FORK).split())
    each = launch.event_release_us + launch.event_poll_us
    # The kernels' own times vary by some hundredths, as their first constants and blocks begin beside more or fewer others.
    assert three - two == pytest.approx(each, abs=0.1)
    assert four - two == pytest.approx(2 * each, abs=0.1)
    assert eight - two == pytest.approx(6 * each, abs=0.1)
    # The tenth stream shares the queue of the second.
    assert ten - nine == pytest.approx(0, abs=0.2)
