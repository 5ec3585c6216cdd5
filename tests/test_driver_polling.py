"""Kernels that poll memory, which host functions, copies, other streams or the host's threads answer while they run."""

from __future__ import annotations

import sys

import pytest

from tests.test_driver_devices import finished
from tests.test_driver_pending import HEAD, SOURCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

MODES = pytest.mark.parametrize("timing", ["full", pytest.param("sampled", marks=pytest.mark.ci), "off"])
MORE = r"""
extern "C" __global__ void serve(volatile int *asked, volatile int *answer, int rounds) {
    for (int i = 1; i <= rounds; i++) { while (*asked < i); __threadfence_system(); *answer = 10 * i; __threadfence_system(); }
}
extern "C" __global__ void meet(volatile int *mine, volatile int *other, int *out) {
    *mine = 1;
    __threadfence_system();
    while (*other == 0);
    *out = *other + 1;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(volatile int *mine, volatile int *other, int *out) {
    *mine = 1;
    __threadfence_system();
    while (*other == 0);
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    *out = *other + 1;
}
"""
ASKS = r"""
extern "C" __global__ void asks(int *flag, int *out) { while (atomicAdd(flag, 0) == 0); *out = *flag + 1; }
"""
SPEAKS = r"""
#include <cassert>
#include <cstdio>
extern "C" __global__ void tell(volatile int *mine, volatile int *other, int *out) {
    *mine = 1;
    __threadfence_system();
    while (*other == 0);
    if (threadIdx.x == 0) printf("heard %d\n", *other);
    assert(*other < 100);
    *out = *other + 1;
}
"""
HOST = """
host = cuda.word("cuMemHostAlloc", 64, 2)
words = (ctypes.c_int32 * 16).from_address(host)
words[:] = [0] * 16
"""
OWN = (
    HEAD.replace(repr(SOURCE), repr(MORE + SOURCE))
    + """
serve, meet, pairs = (cuda.word("cuModuleGetFunction", module, n) for n in (b"serve", b"meet", b"pairs"))
a, b = streams(2)
def ask(stream, flag, out):
    cuda.launch(wait, 1, 32, ctypes.c_uint64(flag), ctypes.c_uint64(out), stream=stream)

def call(function):
    kept.append(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function))
    return kept[-1]

kept = []
NOT_READY = 600
"""
    + HOST
)


def runs(program: str, timing: str = "full", chips: str = "h200", **more: str) -> str:
    done = finished(OWN + program, chips, WARPWRIGHT_TIMING=timing, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.ci
@MODES
def test_a_host_function_and_a_copy_of_another_stream_answer_a_kernel(timing: str) -> None:
    runs(
        """
one, out, flag, source = cell(), cell(), cell(), cell(5)
def answer(_):
    words[0] = 41
ask(a, host, out)
change(b, one, 1, 1)
cuda("cuLaunchHostFunc", b, call(answer), 0)
assert word(out) == 42
ask(a, flag, out)
change(b, source, 1, 1)
cuda("cuMemcpyDtoDAsync_v2", flag, source, 4, b)
assert word(out) == 7
""",
        timing,
    )


def test_a_kernel_ends_after_the_copy_that_answers_it() -> None:
    runs(
        """
out, flag, source = cell(), cell(), cell(5)
ask(a, flag, out)
change(b, source, 1, 1)
copied, ended = event(), event()
cuda("cuMemcpyDtoDAsync_v2", flag, source, 4, b)
cuda("cuEventRecord", copied, b)
cuda("cuEventRecord", ended, a)
cuda("cuCtxSynchronize")
assert 0 < between(copied, ended) < 10, between(copied, ended)
"""
    )


@MODES
def test_a_kernel_and_the_host_meet_both_ways_through_another_streams_kernel(timing: str) -> None:
    runs(
        """
first, out, seen = cell(), cell(), cell()
def answer(_):
    words[0] = 6
cuda.launch(meet, 1, 1, ctypes.c_uint64(first), ctypes.c_uint64(host), ctypes.c_uint64(out), stream=a)
ask(b, first, seen)                  # waits for the kernel, which waits for the host function after this one
cuda("cuLaunchHostFunc", b, call(answer), 0)
cuda("cuCtxSynchronize")
assert (word(out), word(seen)) == (7, 2)
""",
        timing,
    )


@pytest.mark.ci
@MODES
def test_a_kernel_that_comes_after_a_host_function_answers_one_that_runs(timing: str) -> None:
    runs(
        """
first, second, out = cell(), cell(), cell()
calls = []
cuda.launch(meet, 1, 1, ctypes.c_uint64(first), ctypes.c_uint64(second), ctypes.c_uint64(out), stream=a)
ask(b, first, cell())
cuda("cuLaunchHostFunc", b, call(lambda _: calls.append(1)), 0)
cuda.launch(lift, 1, 1, ctypes.c_uint64(second), ctypes.c_int(8), stream=b)
cuda("cuCtxSynchronize")
assert word(out) == 9 and calls == [1]
""",
        timing,
    )


@pytest.mark.ci
@MODES
def test_the_host_and_a_kernel_answer_each_other_through_copies_of_another_stream(timing: str) -> None:
    runs(
        """
asked, answer = cell(), cell()
cuda.launch(serve, 1, 1, ctypes.c_uint64(asked), ctypes.c_uint64(answer), ctypes.c_int(3), stream=a)
for i in (1, 2, 3):
    words[0] = i
    cuda("cuMemcpyHtoDAsync_v2", asked, host, 4, b)
    for turn in range(50):
        cuda("cuMemcpyDtoHAsync_v2", host + 4, answer, 4, b)
        cuda("cuStreamSynchronize", b)
        if words[1] == 10 * i:
            break
    else:
        raise AssertionError(list(words))
    assert i == 3 or cuda.raw("cuStreamQuery", a) == NOT_READY
cuda("cuStreamSynchronize", a)
""",
        timing,
    )


@MODES
def test_the_host_and_a_kernel_answer_each_other_through_the_hosts_memory(timing: str) -> None:
    runs(
        """
done = event()
cuda.launch(serve, 1, 1, ctypes.c_uint64(host), ctypes.c_uint64(host + 4), ctypes.c_int(2), stream=a)
cuda("cuEventRecord", done, a)
for i in (1, 2):
    assert cuda.raw("cuStreamQuery", a) == cuda.raw("cuEventQuery", done) == NOT_READY
    words[0] = i
    for turn in range(50):
        code = cuda.raw("cuEventQuery", done)
        if words[1] == 10 * i:
            break
    else:
        raise AssertionError(list(words))
cuda("cuEventSynchronize", done)
assert cuda.raw("cuStreamQuery", a) == 0
""",
        timing,
    )


@pytest.mark.ci
@MODES
def test_a_stream_is_awaited_while_another_ones_kernel_polls(timing: str) -> None:
    runs(
        """
out, one = cell(), cell()
ask(a, host, out)
change(b, one, 1, 5)
cuda("cuStreamSynchronize", b)
assert word(one) == 5                # a blocking copy does not wait for streams that are not blocking
assert cuda.raw("cuStreamQuery", a) == NOT_READY
change(b, one, 2, 1)
cuda("cuStreamSynchronize", b)
pageable = (ctypes.c_int32 * 1)(0)
cuda("cuMemcpyDtoHAsync_v2", pageable, one, 4, b)
assert pageable[0] == 11
words[0] = 20
cuda("cuStreamSynchronize", a)
assert word(out) == 21
""",
        timing,
    )


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
@pytest.mark.parametrize("calls", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_another_thread_of_the_host_answers(timing: str, calls: bool) -> None:
    runs(
        f"""
import threading, time
out, flag, ready = cell(), cell(), threading.Event()
context = cuda.word("cuCtxGetCurrent")
def answer():
    cuda("cuCtxSetCurrent", ctypes.c_uint64(context))
    cuda("cuStreamQuery", b)
    ready.set()
    time.sleep(0.5)
    words[0] = 30
    if {calls}:
        cuda("cuMemcpyHtoDAsync_v2", flag, host, 4, b)
thread = threading.Thread(target=answer)
thread.start()
ready.wait()
ask(a, flag if {calls} else host, out)
cuda("cuCtxSynchronize")
thread.join()
assert word(out) == 31
""",
        timing,
    )


@pytest.mark.ci
@MODES
def test_a_stream_is_awaited_while_another_one_waits_for_a_word(timing: str) -> None:
    runs(
        """
one = cell(1)
cuda("cuStreamWaitValue32_v2", a, host, 3, 1)
change(a, one, 5, 0)
change(b, one, 1, 1)
cuda("cuStreamSynchronize", b)
assert word(one) == 2 and cuda.raw("cuStreamQuery", a) == NOT_READY
words[0] = 3
cuda("cuStreamSynchronize", a)
assert word(one) == 10
""",
        timing,
    )


TELL = f"""
tell = cuda.word("cuModuleGetFunction", cuda.word("cuModuleLoadData", compile_source({SPEAKS!r}, 90).cubin), b"tell")
"""


@pytest.mark.ci
@MODES
@pytest.mark.parametrize("kernel", ["tell", pytest.param("pairs", marks=pytest.mark.ci)])
def test_kernels_that_run_alone_meet_the_host_too(kernel: str, timing: str) -> None:
    said = runs(
        TELL
        + f"""
first, out, seen = cell(), cell(), cell()
def answer(_):
    words[0] = 6
cuda.launch({kernel}, 2, 32, ctypes.c_uint64(first), ctypes.c_uint64(host), ctypes.c_uint64(out), stream=a)
ask(b, first, seen)
cuda("cuLaunchHostFunc", b, call(answer), 0)
cuda("cuCtxSynchronize")
assert (word(out), word(seen)) == (7, 2)
""",
        timing,
    )
    assert said == ("heard 6\n" * 2 if kernel == "tell" else "")


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
def test_an_assertion_that_fails_after_the_hosts_answer_is_the_contexts_error(timing: str) -> None:
    done = finished(
        OWN
        + TELL
        + """
first, out = cell(), cell()
def answer(_):
    words[0] = 600
cuda.launch(tell, 1, 1, ctypes.c_uint64(first), ctypes.c_uint64(host), ctypes.c_uint64(out), stream=a)
ask(b, first, cell())
cuda("cuLaunchHostFunc", b, call(answer), 0)
print(cuda.raw("cuCtxSynchronize"), cuda.raw("cuCtxSynchronize"))
""",
        "h200",
        WARPWRIGHT_TIMING=timing,
    )
    assert done.stdout.split() == ["heard", "600", "710", "710"], done.stdout + done.stderr
    assert "Assertion `*other < 100` failed" in done.stderr


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
def test_a_cooperative_kernel_meets_the_host(timing: str) -> None:
    runs(
        """
first, out, seen = cell(), cell(), cell()
values = [ctypes.c_uint64(v) for v in (first, host, out)]
pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(v) for v in values))
cuda("cuLaunchCooperativeKernel", meet, 2, 1, 1, 32, 1, 1, 0, ctypes.c_uint64(a), pointers)
ask(b, first, seen)
def answer(_):
    words[0] = 6
cuda("cuLaunchHostFunc", b, call(answer), 0)
cuda("cuCtxSynchronize")
assert (word(out), word(seen)) == (7, 2)
assert cuda.raw("cuLaunchCooperativeKernel", meet, 1 << 20, 1, 1, 32, 1, 1, 0, ctypes.c_uint64(a), pointers) == 720
""",
        timing,
    )


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
def test_kernels_of_two_devices_meet(timing: str) -> None:
    runs(
        """
out, other_out = cell(), cell()
on(1)
there = cuda.word("cuModuleLoadData", cubin)
meet_there = cuda.word("cuModuleGetFunction", there, b"meet")
c, = streams(1)
cuda.launch(meet_there, 1, 1, ctypes.c_uint64(host), ctypes.c_uint64(host + 4), ctypes.c_uint64(host + 8), stream=c)
on(0)
cuda.launch(meet, 1, 1, ctypes.c_uint64(host + 4), ctypes.c_uint64(host), ctypes.c_uint64(out), stream=a)
cuda("cuCtxSynchronize")
assert word(out) == 2 and words[2] == 2
""",
        timing,
        "h200,h200",
    )


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
def test_a_copy_of_another_device_outlasts_the_kernels_beside_which_it_began(timing: str) -> None:
    runs(
        """
flag, out, place = cell(), cell(), cuda.word("cuMemAlloc_v2", 4 * 1024)
on(1)
there = cuda.word("cuModuleLoadData", cubin)
step_there = cuda.word("cuModuleGetFunction", there, b"step")
SIZE = 64 << 20
large, back = cuda.word("cuMemAlloc_v2", SIZE), cuda.word("cuMemHostAlloc", SIZE, 0)
cuda("cuMemsetD32_v2", large, 5, SIZE // 4)
c, = streams(1)
on(0)
ask(a, flag, out)
do(b, 1, 500, place)
cuda.launch(lift, 1, 1, ctypes.c_uint64(flag), ctypes.c_int(41), stream=b)
on(1)
cuda.launch(step_there, 1, 1, ctypes.c_uint64(large), ctypes.c_int(2), ctypes.c_int(1), stream=c)
cuda("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(back), ctypes.c_uint64(large), SIZE, ctypes.c_uint64(c))
cuda("cuCtxSynchronize")
assert (ctypes.c_int32 * 3).from_address(back)[:] == [11, 5, 5]
on(0)
cuda("cuCtxSynchronize")
assert word(out) == 42
""",
        timing,
        "h200,h200",
    )


BARE = HEAD.replace(repr(SOURCE), repr(ASKS + SOURCE))
"""One stream, no memory that the host can access: nothing that could release a kernel exists when it is launched."""


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
@pytest.mark.parametrize("kernel", ["await", "asks"])
def test_a_kernel_of_a_stream_that_is_made_later_answers(kernel: str, timing: str) -> None:
    done = finished(
        BARE
        + f"""
flag, out = cell(), cell()
poll = cuda.word("cuModuleGetFunction", module, b"{kernel}")
a, = streams(1)
cuda.launch(poll, 1, 32, ctypes.c_uint64(flag), ctypes.c_uint64(out), stream=a)
b, = streams(1)
cuda.launch(lift, 1, 1, ctypes.c_uint64(flag), ctypes.c_int(41), stream=b)
cuda("cuStreamSynchronize", b)
cuda("cuStreamSynchronize", a)
assert word(out) == 42
""",
        "h200",
        WARPWRIGHT_TIMING=timing,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
def test_another_device_gets_access_and_answers(timing: str) -> None:
    done = finished(
        BARE
        + """
flag, out = cell(), cell()
a, = streams(1)
cuda.launch(wait, 1, 32, ctypes.c_uint64(flag), ctypes.c_uint64(out), stream=a)
here = cuda.word("cuCtxGetCurrent")
on(1)
there = cuda.word("cuModuleLoadData", cubin)
lift_there = cuda.word("cuModuleGetFunction", there, b"raise")
cuda("cuMemFree_v2", cuda.word("cuMemAlloc_v2", 256, kind=ctypes.c_uint64))  # waits for this device only
cuda("cuCtxSynchronize")
cuda("cuCtxEnablePeerAccess", here, 0)
cuda.launch(lift_there, 1, 1, ctypes.c_uint64(flag), ctypes.c_int(41))
cuda("cuCtxSynchronize")
on(0)
cuda("cuCtxSynchronize")
assert word(out) == 42
""",
        "h200,h200",
        WARPWRIGHT_TIMING=timing,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def checked(program: str, checks: str, timing: str) -> tuple[str, list[str]]:
    """Run a program on two devices under the checks; returns the line that it prints, and its findings' severities and titles."""
    done = finished(
        program
        + """
from warpwright.driver.driver_state import state
for device in state().devices:
    for finding in device.gpu.findings:
        print(finding.severity, finding.title)
""",
        "h200,h200",
        WARPWRIGHT_CHECK=checks,
        WARPWRIGHT_TIMING=timing,
    )
    assert done.stdout, done.stderr
    first, *findings = done.stdout.splitlines()
    return first, findings


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["off", "full"])
@pytest.mark.parametrize("answered", [True, False])
def test_a_checked_kernel_that_waits_for_another_device(answered: bool, timing: str) -> None:
    """The checks run launches one after the other, so the kernel runs without them, beside the one that releases it."""
    first, findings = checked(
        BARE
        + f"""
flag, out = cell(), cell()
a, = streams(1)
here = cuda.word("cuCtxGetCurrent")
on(1)
cuda("cuCtxEnablePeerAccess", here, 0)
lift_there = cuda.word("cuModuleGetFunction", cuda.word("cuModuleLoadData", cubin), b"raise")
on(0)
cuda.launch(wait, 1, 32, ctypes.c_uint64(flag), ctypes.c_uint64(out), stream=a)
on(1)
if {answered}:
    cuda.launch(lift_there, 1, 1, ctypes.c_uint64(flag), ctypes.c_int(41))
    cuda("cuCtxSynchronize")
on(0)
print(cuda.raw("cuCtxSynchronize"), word(out) if {answered} else 0)
""",
        "racecheck,synccheck",
        timing,
    )
    assert first == ("0 42" if answered else "702 0"), findings
    title = "Not checked: kernel await waits for another launch, another GPU or the host"
    assert findings[0] == f"warning {title}"
    assert [text for text in findings if "deadlock" in text] == findings[1:]
    assert len(findings) == 1 + (not answered)


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["off", "full"])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("meets", [True, False])
def test_checked_kernels_that_wait_for_each_other(meets: bool, devices: int, timing: str) -> None:
    """Each is given up by the checks, also the later one, which they run beside the first; devices have access to each other's memory."""
    first, findings = checked(
        HEAD.replace(repr(SOURCE), repr(MORE + SOURCE))
        + f"""
flags, out, stays = [cell(), cell()], [cell(), cell()], cell()
here = cuda.word("cuCtxGetCurrent")
kernels = [cuda.word("cuModuleGetFunction", module, b"meet")] * 2
if {devices} == 2:
    on(1)
    there = cuda.word("cuCtxGetCurrent")
    cuda("cuCtxEnablePeerAccess", here, 0)
    kernels[1] = cuda.word("cuModuleGetFunction", cuda.word("cuModuleLoadData", cubin), b"meet")
    flags[1] = cell()
    on(0)
    cuda("cuCtxEnablePeerAccess", there, 0)
for number, kernel in enumerate(kernels):
    on(number if {devices} == 2 else 0)
    awaited = flags[1 - number] if {meets} else stays
    cuda.launch(kernel, 1, 1, *(ctypes.c_uint64(at) for at in (flags[number], awaited, out[number])), stream=streams(1)[0])
codes = []
for number in range({devices}):
    on(number)
    codes.append(cuda.raw("cuCtxSynchronize"))
on(0)
print(codes, [word(at) for at in out] if {meets} else 0)
""",
        "synccheck",
        timing,
    )
    codes = [0 if meets else 702] * devices
    assert first == f"{codes} {[2, 2] if meets else 0}", findings
    warning = "warning Not checked: kernel meet waits for another launch, another GPU or the host"
    assert findings.count(warning) == 2, findings
    deadlocks = [text for text in findings if "deadlock in kernel meet" in text]
    assert len(deadlocks) == (0 if meets else devices)
    assert len(findings) == 2 + len(deadlocks)


GRAPH_MEETS = (
    HEAD.replace(repr(SOURCE), repr(MORE + SOURCE))
    + """
flags, out, stays = [cell(), cell()], [cell(), cell()], cell()
meet = cuda.word("cuModuleGetFunction", module, b"meet")
a, b = streams(2)

def launch(number, awaited, stream):
    cuda.launch(meet, 1, 1, *(ctypes.c_uint64(at) for at in (flags[number], awaited, out[number])), stream=stream)

cuda("cuStreamBeginCapture_v2", a, 0)
launch(0, AWAITED, a)
graph = ctypes.c_uint64()
cuda("cuStreamEndCapture", a, ctypes.byref(graph))
cuda("cuGraphLaunch", cuda.word("cuGraphInstantiateWithFlags", graph.value, 0), a)
"""
)
"""A graph whose kernel sets a flag and waits for another one."""


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["off", "full"])
def test_a_checked_kernel_of_a_graph_that_waits_for_another_stream(timing: str) -> None:
    first, findings = checked(
        GRAPH_MEETS.replace("AWAITED", "flags[1]")
        + """
launch(1, flags[0], b)
print(cuda.raw("cuCtxSynchronize"), [word(at) for at in out])
""",
        "synccheck",
        timing,
    )
    assert first == "0 [2, 2]", findings
    assert set(findings) == {"warning Not checked: kernel meet waits for another launch, another GPU or the host"}


@pytest.mark.ci
@pytest.mark.parametrize("check", ["", "memcheck"])
def test_the_deadlock_of_a_kernel_of_a_graph_names_the_stream_of_the_graph(check: str) -> None:
    program = GRAPH_MEETS.replace("AWAITED", "stays") + 'print(f"{a:#x}", cuda.raw("cuCtxSynchronize"))'
    done = finished(program, "h200", WARPWRIGHT_CHECK=check)
    stream, code = done.stdout.split()
    assert code == "702", done.stderr
    assert f"launched by a graph in stream {stream}; reported by the first later call" in done.stderr


@pytest.mark.ci
def test_the_message_of_a_checked_kernel_that_cannot_run_again_says_what_to_do() -> None:
    """Registered host memory is not restored, so the wait is a deadlock; memcheck has no finding that could say more."""
    done = finished(
        BARE
        + """
page = (ctypes.c_char * 8192)()
cuda("cuMemHostRegister_v2", ctypes.c_uint64(-(-ctypes.addressof(page) // 4096) * 4096), 4096, 2)
cuda.launch(wait, 1, 32, ctypes.c_uint64(cell()), ctypes.c_uint64(cell()))
print(cuda.raw("cuCtxSynchronize"))
""",
        "h200",
        WARPWRIGHT_CHECK="memcheck",
    )
    assert done.stdout.splitlines() == ["702"], done.stdout + done.stderr
    assert "if another launch, another GPU or the host releases this one" in done.stderr
    assert "run it without --check" in done.stderr


@pytest.mark.ci
@pytest.mark.parametrize("timing", ["full", "off"])
def test_what_nothing_answers_is_a_deadlock_of_its_kernel(timing: str) -> None:
    done = finished(
        OWN.replace(HOST, "")
        + """
flag, one = cell(), cell()
calls = []
ask(a, flag, cell())
change(b, one, 1, 5)
cuda("cuLaunchHostFunc", b, call(lambda _: calls.append(1)), 0)
print(cuda.raw("cuStreamSynchronize", b), calls)
print(cuda.raw("cuCtxSynchronize"))
""",
        "h200",
        WARPWRIGHT_TIMING=timing,
    )
    assert done.stdout.splitlines() == ["0 [1]", "702"], done.stdout + done.stderr
    assert "await" in done.stderr


@pytest.mark.ci
def test_times_are_the_same_for_any_number_of_the_hosts_threads() -> None:
    program = """
first, second, out = cell(), cell(), cell()
places = [cuda.word("cuMemAlloc_v2", 4 * 132 * 1024) for _ in range(2)]
points = [event() for _ in range(4)]
cuda("cuEventRecord", points[0], a)
cuda.launch(meet, 1, 1, ctypes.c_uint64(first), ctypes.c_uint64(second), ctypes.c_uint64(out), stream=a)
cuda("cuEventRecord", points[1], a)
do(b, 100, 40, places[0])
cuda("cuLaunchHostFunc", b, call(lambda _: None), 0)
do(b, 100, 40, places[1])
cuda("cuEventRecord", points[2], b)
cuda("cuMemcpyDtoDAsync_v2", second, first, 4, b)
cuda("cuEventRecord", points[3], b)
cuda("cuCtxSynchronize")
print([between(points[0], one) for one in points[1:]], word(out))
"""
    found = {runs(program, WARPWRIGHT_THREADS=str(threads)) for threads in (1, 2)}
    assert len(found) == 1, found
    assert found.pop().split()[-1] == "2"
