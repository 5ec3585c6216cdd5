"""Programmatic dependent launch: a kernel that begins when those before it let it, and waits for their ends itself."""

from __future__ import annotations

import sys

import pytest

from tests.test_driver_devices import finished
from tests.test_driver_pending import HEAD, SOURCE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

MODES = pytest.mark.parametrize("timing", ["full", "sampled", "off"])
MORE = r"""
__device__ unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory"); return t; }
__device__ float spend(float seed, int rounds) {
    float a = seed, b = 1, c = 2, d = 3;
    for (int i = 0; i < rounds; i++) { a = a * 1.01f + b; b = b * 1.01f + c; c = c * 1.01f + d; d = d * 1.01f + a; }
    return a + b + c + d;
}
extern "C" __global__ void first(int *out, unsigned long long *times, int rounds, int triggers, float *sums) {
    if (triggers) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    sums[threadIdx.x] = spend(threadIdx.x, rounds);
    __threadfence();
    out[blockIdx.x * blockDim.x + threadIdx.x] = 3;
    if (threadIdx.x == 0) times[blockIdx.x] = now();
}
extern "C" __global__ void second(const int *in, int *out, unsigned long long *times, int rounds, int waits, float *sums) {
    unsigned long long begin = now();
    float sum = spend(threadIdx.x, rounds);
    if (waits) asm volatile("griddepcontrol.wait;" ::: "memory");
    unsigned long long after = now();
    out[blockIdx.x * blockDim.x + threadIdx.x] += in[blockIdx.x * blockDim.x + threadIdx.x] + 1;
    sums[threadIdx.x] = sum;
    if (threadIdx.x == 0) { times[2 * blockIdx.x] = begin; times[2 * blockIdx.x + 1] = after; }
}
"""
OWN = (
    HEAD.replace(repr(SOURCE), repr(SOURCE + MORE))
    + """
first, second = (cuda.word("cuModuleGetFunction", module, n) for n in (b"first", b"second"))
class Configuration(ctypes.Structure):
    _fields_ = (("shape", ctypes.c_uint * 7), ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint))
BLOCKS, THREADS = 132, 64
def memory(size):
    place = cuda.word("cuMemAlloc_v2", size)
    cuda("cuMemsetD8_v2", place, 0, size)
    return place
data, out, sums = memory(4 * BLOCKS * THREADS), memory(4 * BLOCKS * THREADS), [memory(4 * THREADS) for _ in range(2)]
times = [memory(16 * BLOCKS) for _ in range(2)]
stream, = streams(1)

def launch(function, values, early=False, on=None):
    attribute = (ctypes.c_uint32 * 18)()
    attribute[0], attribute[2] = 6, 1            # programmatic stream serialization
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
    made = Configuration((ctypes.c_uint * 7)(BLOCKS, 1, 1, THREADS, 1, 1, 0), on or stream, ctypes.addressof(attribute), int(early))
    cuda("cuLaunchKernelEx", ctypes.byref(made), function, pointers, None)

def do_first(rounds, triggers=1, on=None):
    values = [ctypes.c_uint64(data), ctypes.c_uint64(times[0]), ctypes.c_int(rounds), ctypes.c_int(triggers), ctypes.c_uint64(sums[0])]
    launch(first, values, on=on)

def do_second(rounds, early=True, waits=1, on=None):
    values = [ctypes.c_uint64(data), ctypes.c_uint64(out), ctypes.c_uint64(times[1]), ctypes.c_int(rounds), ctypes.c_int(waits)]
    launch(second, [*values, ctypes.c_uint64(sums[1])], early, on)

def read(place, kind, count):
    back = (kind * count)()
    cuda("cuMemcpyDtoH_v2", back, place, ctypes.sizeof(back))
    return list(back)

def results():
    return set(read(out, ctypes.c_int32, BLOCKS * THREADS))

def clocks():
    ends, both = read(times[0], ctypes.c_uint64, BLOCKS), read(times[1], ctypes.c_uint64, 2 * BLOCKS)
    return ends, both[::2], both[1::2]

def took(work):
    begin, end = event(), event()
    cuda("cuEventRecord", begin, stream)
    work()
    cuda("cuEventRecord", end, stream)
    cuda("cuStreamSynchronize", stream)
    return between(begin, end)
"""
)


def runs(program: str, timing: str = "full", chips: str = "h200") -> None:
    done = finished(OWN + program, chips, WARPWRIGHT_TIMING=timing)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.ci
@MODES
@pytest.mark.parametrize("triggers", [0, 1])
def test_a_dependent_kernel_reads_what_the_one_before_has_written(timing: str, triggers: int) -> None:
    runs(
        f"""
for turn in range(1, 4):
    do_first(300, {triggers})
    do_second(10)
    cuda("cuStreamSynchronize", stream)
    assert results() == {{4 * turn}}, results()
""",
        timing,
    )


def test_it_begins_when_all_blocks_have_let_it_and_waits_for_their_ends() -> None:
    runs(
        """
do_first(400)
do_second(100)
cuda("cuStreamSynchronize", stream)
ends, begins, passes = clocks()
assert max(begins) < min(ends), (begins, ends)
assert min(passes) > max(ends), (passes, ends)
"""
    )


def test_it_takes_less_time_than_in_order_also_where_only_the_ends_of_blocks_let_it_begin() -> None:
    runs(
        """
def pair(early, triggers):
    do_first(400, triggers)
    do_second(200, early)
pair(True, 1)                                     # code and caches; from here on launches may overlap
plain, early, ended = (took(lambda: pair(*how)) for how in ((False, 1), (True, 1), (True, 0)))
assert early < plain - 1.5, (plain, early)
assert early + 0.4 < ended < plain - 0.5, (plain, early, ended)
"""
    )


def test_what_comes_after_a_dependent_kernel_comes_after_the_one_that_it_did_not_wait_for() -> None:
    runs(
        """
begin, middle, end = (event() for _ in range(3))
do_first(0)
do_second(0)                                      # from here on launches may overlap
cuda("cuEventRecord", begin, stream)
do_first(600)
cuda("cuEventRecord", middle, stream)
cuda("cuStreamSynchronize", stream)
alone = between(begin, middle)
cuda("cuEventRecord", begin, stream)
do_first(600)
do_second(0, waits=0)                             # ends before the first one
ends, begins, passes = clocks()
cuda("cuEventRecord", end, stream)
cuda("cuStreamSynchronize", stream)
assert max(passes) < min(ends), (passes, ends)
assert between(begin, end) > alone - 0.1, (between(begin, end), alone)
"""
    )


def test_without_the_attribute_kernels_follow_each_other() -> None:
    runs(
        """
do_first(300)
do_second(0, early=False, waits=0)
cuda("cuStreamSynchronize", stream)
assert results() == {4}, results()
"""
    )


GRAPHS = """
def captured(work):
    cuda("cuStreamBeginCapture_v2", stream, 0)
    work()
    graph = ctypes.c_uint64()
    cuda("cuStreamEndCapture", stream, ctypes.byref(graph))
    return graph.value

def pair(early):
    do_first(400)
    do_second(200, early)

def edges(graph):
    count = ctypes.c_uint64(8)
    origins, targets, data = ((ctypes.c_uint64 * 8)() for _ in range(3))
    cuda("cuGraphGetEdges_v2", graph, origins, targets, data, ctypes.byref(count))
    return [(origins[i], targets[i], bytes(data)[8 * i:8 * i + 8]) for i in range(count.value)]

def launched(graph):
    executable = cuda.word("cuGraphInstantiateWithFlags", graph, 0)
    return took(lambda: cuda("cuGraphLaunch", executable, stream))

ORDINARY, PROGRAMMATIC = bytes(8), bytes([1, 0, 1, 0, 0, 0, 0, 0])
"""


@pytest.mark.ci
@MODES
def test_captured_dependent_launches_are_programmatic_edges(timing: str) -> None:
    runs(
        GRAPHS
        + f"""
plain, early = captured(lambda: pair(False)), captured(lambda: pair(True))
assert [data for _, _, data in edges(plain)] == [ORDINARY]
assert [data for _, _, data in edges(early)] == [PROGRAMMATIC]
first_time, second_time = launched(plain), launched(early)
again = launched(early)
assert results() == {{12}}, results()
if {timing == "full"}:
    assert second_time < first_time - 0.5 and again < first_time - 0.5, (first_time, second_time, again)
""",
        timing,
    )


def test_edges_of_a_graph_may_be_programmatic() -> None:
    runs(
        GRAPHS
        + """
graph = captured(lambda: pair(False))
(origin, target, _), = edges(graph)
cuda("cuGraphRemoveDependencies_v2", graph, ctypes.byref(ctypes.c_uint64(origin)), ctypes.byref(ctypes.c_uint64(target)), 0, 1)
assert edges(graph) == []
def link(data):
    return cuda.raw("cuGraphAddDependencies_v2", graph, ctypes.byref(ctypes.c_uint64(origin)), ctypes.byref(ctypes.c_uint64(target)), data, 1)
assert link(bytes([1, 0, 0, 0, 0, 0, 0, 0])) == 1      # a port of the trigger, of an ordinary edge
assert link(bytes([3, 0, 1, 0, 0, 0, 0, 0])) == 1
assert link(PROGRAMMATIC) == 0
assert [data for _, _, data in edges(graph)] == [PROGRAMMATIC]
count, kinds = ctypes.c_uint64(4), (ctypes.c_uint64 * 4)()
nodes = (ctypes.c_uint64 * 4)()
cuda("cuGraphNodeGetDependencies_v2", target, nodes, kinds, ctypes.byref(count))
assert (count.value, nodes[0], bytes(kinds)[:8]) == (1, origin, PROGRAMMATIC)
count.value = 4
cuda("cuGraphNodeGetDependentNodes_v2", origin, nodes, kinds, ctypes.byref(count))
assert (count.value, nodes[0], bytes(kinds)[:8]) == (1, target, PROGRAMMATIC)
plain = captured(lambda: pair(False))
launched(plain)
found = launched(graph), launched(plain)
assert found[0] < found[1] - 0.5, found
copy = cuda.word("cuGraphClone", graph)
assert [data for _, _, data in edges(copy)] == [PROGRAMMATIC]
"""
    )
