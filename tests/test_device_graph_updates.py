"""Kernels that change nodes of graphs, wait for graphs that they fire, and ask for their graph in PTX."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.driver_library import Driver, attached
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.graph_launch_requests import FIRE, allow, current_graph, forbid, request, running
from warpwright.engine.graph_node_updates import DeviceNode, drop, upload
from warpwright.toolchain import compile_source

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
UPDATABLE, DEVICE_LAUNCH = 13, 4
NOT_SUPPORTED, INVALID_VALUE, UPDATE_FAILURE = 801, 1, 910
UPDATE_NOT_SUPPORTED = 6
"""CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED."""
SOURCE = """
struct Grid { unsigned x, y, z; };
struct Update { unsigned long long node; int field; union { Grid grid; struct { const void *value; size_t offset, size; } param; unsigned enabled; }; };
extern "C" __device__ int cudaGraphKernelNodeSetParam(void *, size_t, const void *, size_t);
extern "C" __device__ int cudaGraphKernelNodeSetGridDim(void *, Grid);
extern "C" __device__ int cudaGraphKernelNodeSetEnabled(void *, bool);
extern "C" __device__ int cudaGraphKernelNodeUpdatesApply(const Update *, size_t);
extern "C" __device__ int cudaGraphLaunch(void *, unsigned long long);
extern "C" __global__ void work(int *p, int by) { if (threadIdx.x == 0) atomicAdd(p, by * 1000 + 1); }
extern "C" __global__ void change(void *a, void *b, unsigned long long c, int *p, int *out)
{
    int five = 5, seven = 7;
    out[0] = cudaGraphKernelNodeSetParam(a, 8, &five, 4);
    out[1] = cudaGraphKernelNodeSetGridDim(a, {3, 2, 1});
    out[2] = cudaGraphKernelNodeSetEnabled(b, false);
    int *to = p + 2;
    Update list[4];
    list[0].node = list[1].node = list[2].node = list[3].node = c;
    list[0].field = 2, list[0].param = {&to, 0, 8};
    list[1].field = 2, list[1].param = {&seven, 8, 4};
    list[2].field = 1, list[2].grid = {4, 1, 1};
    list[3].field = 9;
    out[3] = cudaGraphKernelNodeUpdatesApply(list, 3);
    out[4] = cudaGraphKernelNodeSetParam(a, 100, &five, 4);
    out[5] = cudaGraphKernelNodeSetGridDim(a, {0, 1, 1});
    out[6] = cudaGraphKernelNodeUpdatesApply(list + 3, 1);
    out[7] = cudaGraphKernelNodeSetEnabled(out, true);
}
extern "C" __global__ void flag(volatile int *p, int value) { *p = value; }
extern "C" __global__ void fire_and_wait(volatile int *p, void *graph, int value, unsigned long long how)
{
    p[1] = cudaGraphLaunch(graph, how);
    while (p[0] != value) {}
    p[2] = value;
}
extern "C" __global__ void timed_wait(volatile int *p, void *graph, int value)
{
    long long begin = clock64();
    p[1] = cudaGraphLaunch(graph, 2ull << 56);
    while (p[0] != value) {}
    p[2] = clock64() - begin;
}
"""


@pytest.fixture(scope="module")
def module(driver: Driver) -> int:
    return int(driver.word("cuModuleLoadData", compile_source(SOURCE, 80).ptx.encode()))


@pytest.fixture
def memory(driver: Driver) -> Iterator[int]:
    """32 words of device memory, zero."""
    address = int(driver.word("cuMemAlloc_v2", 128))
    driver("cuMemsetD32_v2", address, 0, 32)
    yield address
    driver("cuMemFree_v2", address)


def words(driver: Driver, address: int, count: int) -> tuple[int, ...]:
    driver("cuCtxSynchronize")
    raw = ctypes.create_string_buffer(4 * count)
    driver("cuMemcpyDtoH_v2", raw, address, 4 * count)
    return struct.unpack(f"{count}i", raw.raw)


def kernel(driver: Driver, graph: int, function: int, *values: int, block: int = 1, needs: tuple[int, ...] = ()) -> int:
    """A kernel node, whose parameters are 64-bit words."""
    held = [ctypes.c_uint64(value) for value in values]
    pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(one) for one in held))
    rest = struct.pack("Q7IQQQQ", function, 1, 1, 1, block, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)
    raw = ctypes.create_string_buffer(struct.pack("i12x", 0) + rest, 256)
    before = (ctypes.c_uint64 * max(len(needs), 1))(*needs)
    return int(driver.word("cuGraphAddNode", graph, before, len(needs), raw))


def updatable(driver: Driver, node: int) -> int:
    """Make a node updatable; its handle in kernels."""
    value = ctypes.create_string_buffer(struct.pack("i4xQ", 1, 0), 64)
    driver("cuGraphKernelNodeSetAttribute", node, UPDATABLE, value)
    return int(struct.unpack_from("Q", value.raw, 8)[0])


@pytest.mark.ci
def test_kernels_change_the_nodes_after_them(driver: Driver, module: int, memory: int) -> None:
    work, change = (int(driver.word("cuModuleGetFunction", module, name)) for name in (b"work", b"change"))
    graph = driver.word("cuGraphCreate", 0)
    first, second, third = (kernel(driver, graph, work, memory + 4 * at, 1, block=32) for at in (0, 1, 0))
    handles = [updatable(driver, one) for one in (first, second, third)]
    before = kernel(driver, graph, change, *handles, memory, memory + 64)
    origins, targets = (ctypes.c_uint64 * 3)(*[before] * 3), (ctypes.c_uint64 * 3)(first, second, third)
    driver("cuGraphAddDependencies", graph, origins, targets, 3)
    executable = driver.word("cuGraphInstantiateWithFlags", graph, 0)
    for times in (1, 2):
        driver("cuGraphLaunch", executable, 0)
        assert words(driver, memory, 3) == (times * 6 * 5001, 0, times * 4 * 7001)
    # Right, and then a parameter, a grid, a field and a node that there is not: as on an H200.
    assert words(driver, memory + 64, 8) == (0, 0, 0, 0, 1, 1, 1, 1)
    # What the host sets holds from the next upload on, for the kernel too.
    driver("cuGraphNodeSetEnabled", executable, third, 0)
    driver("cuGraphUpload", executable, 0)
    driver("cuMemsetD32_v2", memory, 0, 32)
    driver("cuGraphLaunch", executable, 0)
    assert words(driver, memory, 3) == (6 * 5001, 0, 0)
    place, value = ctypes.c_uint64(), ctypes.create_string_buffer(64)
    assert driver.raw("cuGraphInstantiateWithFlags", ctypes.byref(place), graph, 0) == NOT_SUPPORTED
    assert driver.raw("cuGraphKernelNodeSetAttribute", first, UPDATABLE, value) == NOT_SUPPORTED
    assert driver.raw("cuGraphDestroyNode", first) == NOT_SUPPORTED
    assert driver.raw("cuGraphKernelNodeCopyAttributes", before, first) == NOT_SUPPORTED
    outcome = ctypes.create_string_buffer(24)
    assert driver.raw("cuGraphExecUpdate_v2", executable, graph, outcome) == UPDATE_FAILURE
    assert struct.unpack_from("i", outcome)[0] == UPDATE_NOT_SUPPORTED
    value[0] = 2
    assert driver.raw("cuGraphKernelNodeSetAttribute", before, UPDATABLE, value) == INVALID_VALUE
    driver("cuGraphExecDestroy", executable)
    driver("cuGraphDestroy", graph)


@pytest.mark.ci
@pytest.mark.parametrize("how", [2 << 56, 3 << 56], ids=["fire and forget", "sibling"])
def test_a_kernel_waits_for_the_graph_that_it_fires(driver: Driver, module: int, memory: int, how: int) -> None:
    flag, wait = (int(driver.word("cuModuleGetFunction", module, name)) for name in (b"flag", b"fire_and_wait"))
    fired, graph = driver.word("cuGraphCreate", 0), driver.word("cuGraphCreate", 0)
    kernel(driver, fired, flag, memory, 3, needs=(kernel(driver, fired, flag, memory, 2),))
    inner = driver.word("cuGraphInstantiateWithFlags", fired, DEVICE_LAUNCH)
    driver("cuGraphUpload", inner, 0)
    kernel(driver, graph, wait, memory, inner, 3, how)
    executable = driver.word("cuGraphInstantiateWithFlags", graph, 0)
    for _ in range(2):
        driver("cuMemsetD32_v2", memory, 0, 32)
        driver("cuGraphLaunch", executable, 0)
        assert words(driver, memory, 3) == (3, 0, 3)


TIMED = """
import sys
from tests import driver_library
from tests.test_device_graph_updates import timed_waits

driver_library.ENVIRONMENT["WARPWRIGHT_TIMING"] = "full"
print(*timed_waits())
"""


def timed_waits() -> list[int]:
    """Cycles for which a kernel waits, by its own clock, for a graph of one node and of two in a row."""
    waits = []
    with attached() as driver:
        module = int(driver.word("cuModuleLoadData", compile_source(SOURCE, 80).ptx.encode()))
        flag, wait = (int(driver.word("cuModuleGetFunction", module, name)) for name in (b"flag", b"timed_wait"))
        memory = int(driver.word("cuMemAlloc_v2", 128))
        for nodes in (1, 2):
            fired, graph = driver.word("cuGraphCreate", 0), driver.word("cuGraphCreate", 0)
            before = [kernel(driver, fired, flag, memory, 2)] if nodes == 2 else []
            kernel(driver, fired, flag, memory, 3, needs=tuple(before))
            inner = driver.word("cuGraphInstantiateWithFlags", fired, DEVICE_LAUNCH)
            driver("cuGraphUpload", inner, 0)
            kernel(driver, graph, wait, memory, inner, 3)
            driver("cuMemsetD32_v2", memory, 0, 32)
            driver("cuGraphLaunch", driver.word("cuGraphInstantiateWithFlags", graph, 0), 0)
            waits.append(words(driver, memory, 3)[2])
    return waits


@pytest.mark.ci
def test_time_passes_for_a_kernel_that_waits_for_a_graph() -> None:
    """An H200 waits 1,780 cycles for one node and 3,250 for two in a row."""
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", TIMED], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    one, two = map(int, done.stdout.split())
    assert 1000 < one < 4000
    assert two - one == pytest.approx(1500, rel=0.4)


@pytest.mark.ci
def test_a_kernel_that_waits_for_what_no_graph_writes_is_a_deadlock() -> None:
    with attached() as driver:
        module = int(driver.word("cuModuleLoadData", compile_source(SOURCE, 80).ptx.encode()))
        flag, wait = (int(driver.word("cuModuleGetFunction", module, name)) for name in (b"flag", b"fire_and_wait"))
        memory = int(driver.word("cuMemAlloc_v2", 128))
        driver("cuMemsetD32_v2", memory, 0, 32)
        fired, graph = driver.word("cuGraphCreate", 0), driver.word("cuGraphCreate", 0)
        kernel(driver, fired, flag, memory, 3)
        inner = driver.word("cuGraphInstantiateWithFlags", fired, DEVICE_LAUNCH)
        driver("cuGraphUpload", inner, 0)
        kernel(driver, graph, wait, memory, inner, 4, FIRE)
        driver.raw("cuGraphLaunch", driver.word("cuGraphInstantiateWithFlags", graph, 0), 0)
        assert driver.raw("cuCtxSynchronize") != 0


def test_devices_have_their_own_graphs() -> None:
    one, other = (DeviceMemory(1 << 20) for _ in range(2))
    allow(7)
    try:
        with running(5, [one]):
            assert (current_graph(one), current_graph(other)) == (5, 0)
            assert (request(one, 7, FIRE), request(other, 7, FIRE)) == (0, 1)
            with running(6, [other, one]) as inner:
                assert (current_graph(one), current_graph(other)) == (6, 6)
                assert inner.launcher is None
            assert (current_graph(one), current_graph(other)) == (5, 0)
    finally:
        forbid(7)


PTX = """
.version 8.5
.target sm_80
.address_size 64
.extern .func (.param .b32 r) cudaGraphKernelNodeSetGridDim(.param .b64 node, .param .align 4 .b8 grid[12]);
.visible .entry own(.param .u64 p, .param .u64 node)
{
    .reg .u64 %d<4>;
    .reg .u32 %r<2>;
    ld.param.u64 %d1, [p];
    ld.param.u64 %d2, [node];
    mov.u64 %d3, %current_graph_exec;
    st.global.u64 [%d1], %d3;
    {
    .param .b64 n;
    .param .align 4 .b8 g[12];
    .param .b32 r;
    st.param.b64 [n], %d2;
    st.param.b32 [g], 7;
    st.param.b32 [g+4], 8;
    st.param.b32 [g+8], 9;
    call.uni (r), cudaGraphKernelNodeSetGridDim, (n, g);
    ld.param.b32 %r1, [r];
    }
    st.global.u32 [%d1+8], %r1;
    ret;
}
"""


@pytest.mark.parametrize("front_end", ["ptx", pytest.param("sass", marks=pytest.mark.ci)])
def test_a_kernel_asks_for_its_graph_and_changes_a_grid(front_end: str) -> None:
    gpu = ww.GPU("a100", timing="off", front_end=front_end)
    own = gpu.compile(PTX)["own"]
    p, node = gpu.zeros(2, np.uint64), DeviceNode(bytearray(), (1, 1, 1), True, (10, 10, 10))
    upload(64, node)
    try:
        own[1, 1](p, np.uint64(64))
        assert list(p.get()) == [0, 0]
        assert node.grid == (7, 8, 9)
        with running(0x1_0000_0005, [gpu.memory]):
            own[1, 1](p, np.uint64(64))
        assert list(p.get()) == [0x1_0000_0005, 0]
    finally:
        drop(64)
