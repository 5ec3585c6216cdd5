"""Graphs of the driver: nodes from the structure of all kinds, conditions that kernels set."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Iterator

import pytest

from tests.driver_library import Driver
from warpwright.driver import results

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
KERNEL, GRAPH, WAIT_EVENT, RECORD_EVENT, CONDITIONAL = 0, 4, 6, 7, 13
EXTERNAL, MOVE = 1, 1
"""CU_EVENT_WAIT_EXTERNAL, CU_GRAPH_USER_OBJECT_MOVE."""
IF, WHILE, SWITCH = 0, 1, 2
COUNT = """
.version 8.4
.target sm_80
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 h, .param .b32 v);
.visible .entry count(.param .u64 p, .param .u64 handle, .param .u32 by)
{
    // p[0] += 1, p[1] -= by; the condition becomes p[1].
    .reg .u32 %r<5>;
    .reg .u64 %d<3>;
    ld.param.u64 %d1, [p];
    ld.param.u64 %d2, [handle];
    ld.param.u32 %r1, [by];
    ld.global.u32 %r2, [%d1];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%d1], %r2;
    ld.global.u32 %r3, [%d1+4];
    sub.u32 %r3, %r3, %r1;
    st.global.u32 [%d1+4], %r3;
    {
    .param .b64 h;
    .param .b32 v;
    st.param.b64 [h], %d2;
    st.param.b32 [v], %r3;
    call.uni cudaGraphSetConditional, (h, v);
    }
    ret;
}
"""


@pytest.fixture(scope="module")
def count(driver: Driver) -> int:
    module = driver.word("cuModuleLoadData", COUNT.encode())
    return int(driver.word("cuModuleGetFunction", module, b"count"))


@pytest.fixture
def counters(driver: Driver) -> Iterator[int]:
    """Two words of device memory."""
    address = int(driver.word("cuMemAlloc_v2", 8))
    driver("cuMemsetD32_v2", address, 0, 2)
    yield address
    driver("cuMemFree_v2", address)


def words(driver: Driver, address: int) -> tuple[int, int]:
    raw = ctypes.create_string_buffer(8)
    driver("cuMemcpyDtoH_v2", raw, address, 8)
    return struct.unpack("II", raw.raw)


def node(driver: Driver, graph: int, kind: int, rest: bytes, *needs: int) -> tuple[int, bytes]:
    """Add a node from CUgraphNodeParams; its handle, and the structure as the call left it."""
    raw = ctypes.create_string_buffer(struct.pack("i12x", kind) + rest, 256)
    before = (ctypes.c_uint64 * max(len(needs), 1))(*needs)
    return int(driver.word("cuGraphAddNode", graph, before, len(needs), raw)), raw.raw[16:]


def kind_of(driver: Driver, handle: int) -> int:
    """CUgraphNodeType."""
    kind = ctypes.c_uint32()
    driver("cuGraphNodeGetType", handle, ctypes.byref(kind))
    return kind.value


def kernel(driver: Driver, graph: int, function: int, counters: int, condition: int, by: int, *needs: int) -> int:
    values = (ctypes.c_uint64(counters), ctypes.c_uint64(condition), ctypes.c_uint32(by))
    pointers = (ctypes.c_void_p * 3)(*(ctypes.addressof(v) for v in values))
    rest = struct.pack("Q7IQQQQ", function, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)
    return node(driver, graph, KERNEL, rest, *needs)[0]


def conditional(driver: Driver, graph: int, condition: int, choice: int, count: int, *needs: int) -> list[int]:
    """Handles of a new conditional node's bodies."""
    _, raw = node(driver, graph, CONDITIONAL, struct.pack("QiIQQ", condition, choice, count, 0, 0), *needs)
    place = struct.unpack_from("Q", raw, 16)[0]
    return list((ctypes.c_uint64 * count).from_address(place))


def launched(driver: Driver, graph: int, times: int = 1) -> None:
    executable = driver.word("cuGraphInstantiateWithFlags", graph, 0)
    for _ in range(times):
        driver("cuGraphLaunch", executable, 0)
    driver("cuCtxSynchronize")
    driver("cuGraphExecDestroy", executable)


def test_body_runs_while_the_kernel_says_so_and_each_launch_begins_with_the_default(
    driver: Driver, count: int, counters: int
) -> None:
    graph = driver.word("cuGraphCreate", 0)
    condition = driver.word("cuGraphConditionalHandleCreate", graph, driver.word("cuCtxGetCurrent"), 1, 1)
    (body,) = conditional(driver, graph, condition, WHILE, 1)
    kernel(driver, body, count, counters, condition, 1)
    driver("cuMemsetD32_v2", counters + 4, 5, 1)
    launched(driver, graph)
    assert words(driver, counters) == (5, 0)
    # The condition is the default, 1, again: 0 - 1 goes on, until 2^32 launches; so the count is set before.
    driver("cuMemsetD32_v2", counters + 4, 2, 1)
    launched(driver, graph)
    assert words(driver, counters) == (7, 0)
    driver("cuGraphDestroy", graph)


@pytest.mark.parametrize(("value", "taken"), [(0, 1), (3, 0)])
def test_if_has_a_body_for_each_outcome(driver: Driver, count: int, counters: int, value: int, taken: int) -> None:
    graph = driver.word("cuGraphCreate", 0)
    condition = driver.word("cuGraphConditionalHandleCreate", graph, driver.word("cuCtxGetCurrent"), 0, 0)
    first = kernel(driver, graph, count, counters, condition, (-value) & 0xFFFFFFFF)
    bodies = conditional(driver, graph, condition, IF, 2, first)
    for number, body in enumerate(bodies):
        kernel(driver, body, count, counters, condition, 100 * (number + 1))
    launched(driver, graph)
    assert words(driver, counters) == (2, value - 100 * (taken + 1) & 0xFFFFFFFF)
    driver("cuGraphDestroy", graph)


def test_switch_takes_the_body_of_the_value_or_none(driver: Driver, count: int, counters: int) -> None:
    graph = driver.word("cuGraphCreate", 0)
    condition = driver.word("cuGraphConditionalHandleCreate", graph, driver.word("cuCtxGetCurrent"), 0, 0)
    # 1, 2, 3 in three launches; the bodies add 1,000 and 2,000 to the second word, and take them off again.
    first = kernel(driver, graph, count, counters, condition, 0xFFFFFFFF)
    bodies = conditional(driver, graph, condition, SWITCH, 3, first)
    for number, body in enumerate(bodies):
        child = driver.word("cuGraphCreate", 0)
        there = kernel(driver, child, count, counters, condition, 1000 * number)
        kernel(driver, child, count, counters, condition, (-1000 * number) & 0xFFFFFFFF, there)
        node(driver, body, GRAPH, struct.pack("Q", child))
        driver("cuGraphDestroy", child)
    launched(driver, graph, times=4)
    # Two launches find a body (1 and 2), two find none (3 and 4).
    assert words(driver, counters) == (4 + 2 * 2, 4)
    driver("cuGraphDestroy", graph)


ASK = """
.version 8.4
.target sm_80
.address_size 64
.extern .func (.param .b32 r) cudaGraphLaunch(.param .b64 g, .param .b64 s);
.visible .entry ask(.param .u64 p, .param .u64 graph, .param .u64 stream, .param .u32 digit)
{
    // p[1] = 10 * p[1] + digit; p[0] = 100 * p[0] + what the launch returns.
    .reg .u32 %r<7>;
    .reg .u64 %d<4>;
    .reg .pred %p<2>;
    ld.param.u64 %d1, [p];
    ld.param.u64 %d2, [graph];
    ld.param.u64 %d3, [stream];
    ld.param.u32 %r1, [digit];
    ld.global.u32 %r2, [%d1+4];
    mad.lo.u32 %r2, %r2, 10, %r1;
    st.global.u32 [%d1+4], %r2;
    setp.eq.u64 %p1, %d3, 0;
    @%p1 bra done;
    {
    .param .b64 g;
    .param .b64 s;
    .param .b32 r;
    st.param.b64 [g], %d2;
    st.param.b64 [s], %d3;
    call.uni (r), cudaGraphLaunch, (g, s);
    ld.param.b32 %r3, [r];
    }
    ld.global.u32 %r4, [%d1];
    mad.lo.u32 %r4, %r4, 100, %r3;
    st.global.u32 [%d1], %r4;
done:
    ret;
}
"""
TAIL, FIRE, SIBLING = 1 << 56, 2 << 56, 3 << 56
"""cudaStreamGraphTailLaunch, cudaStreamGraphFireAndForget, cudaStreamGraphFireAndForgetAsSibling."""
DEVICE_LAUNCH = 4
"""CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH."""


@pytest.fixture(scope="module")
def ask(driver: Driver) -> int:
    module = driver.word("cuModuleLoadData", ASK.encode())
    return int(driver.word("cuModuleGetFunction", module, b"ask"))


Step = tuple[int, int, int]
"""A kernel's digit, the executable graph that it launches and as what."""


def asking(driver: Driver, ask: int, counters: int, *steps: Step, flags: int = DEVICE_LAUNCH) -> int:
    """An executable graph of kernels in a line; uploaded."""
    graph = driver.word("cuGraphCreate", 0)
    needs: list[int] = []
    for digit, launches, stream in steps:
        values = (*map(ctypes.c_uint64, (counters, launches, stream)), ctypes.c_uint32(digit))
        pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(v) for v in values))
        rest = struct.pack("Q7IQQQQ", ask, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)
        needs = [node(driver, graph, KERNEL, rest, *needs)[0]]
    made = int(driver.word("cuGraphInstantiateWithFlags", graph, flags))
    driver("cuGraphUpload", made, 0)
    driver("cuGraphDestroy", graph)
    return made


def test_kernels_launch_graphs_beside_their_own_and_after_it(driver: Driver, ask: int, counters: int) -> None:
    last = asking(driver, ask, counters, (5, 0, 0))
    fired = asking(driver, ask, counters, (4, 0, 0))
    tail = asking(driver, ask, counters, (3, last, TAIL))
    other = asking(driver, ask, counters, (6, 0, 0))
    parent = asking(driver, ask, counters, (1, tail, TAIL), (2, fired, FIRE), (7, other, TAIL), flags=0)
    for times in (1, 2):
        driver("cuMemsetD32_v2", counters, 0, 2)
        driver("cuGraphLaunch", parent, 0)
        driver("cuCtxSynchronize")
        # What the tail's graph has for its own tail comes before the tail's next.
        assert words(driver, counters) == (0, 1247356), times
    # A sibling runs although the graph that asked has ended.
    child = asking(driver, ask, counters, (8, last, SIBLING))
    parent = asking(driver, ask, counters, (1, child, FIRE))
    driver("cuMemsetD32_v2", counters, 0, 2)
    driver("cuGraphLaunch", parent, 0)
    driver("cuCtxSynchronize")
    assert words(driver, counters) == (0, 185)


def test_kernels_launch_only_graphs_that_are_instantiated_for_it(driver: Driver, ask: int, counters: int) -> None:
    plain = asking(driver, ask, counters, (9, 0, 0), flags=0)
    good = asking(driver, ask, counters, (4, 0, 0))
    parent = asking(driver, ask, counters, (1, plain, FIRE), (2, good, 7), (3, good, FIRE))
    driver("cuGraphLaunch", parent, 0)
    driver("cuCtxSynchronize")
    # cudaErrorInvalidValue, twice; then none.
    assert words(driver, counters) == (10100, 1234)
    # Outside a graph no kernel may.
    driver("cuMemsetD32_v2", counters, 0, 2)
    values = (*map(ctypes.c_uint64, (counters, good, FIRE)), ctypes.c_uint32(1))
    pointers = (ctypes.c_void_p * 4)(*(ctypes.addressof(v) for v in values))
    driver("cuLaunchKernel", ask, 1, 1, 1, 1, 1, 1, 0, 0, pointers, 0)
    driver("cuCtxSynchronize")
    assert words(driver, counters) == (1, 1)
    # A graph with a node that no kernel may launch is not instantiated so.
    graph = driver.word("cuGraphCreate", 0)
    condition = driver.word("cuGraphConditionalHandleCreate", graph, driver.word("cuCtxGetCurrent"), 1, 1)
    conditional(driver, graph, condition, IF, 1)
    place = ctypes.c_uint64()
    assert driver.raw("cuGraphInstantiateWithFlags", ctypes.byref(place), graph, DEVICE_LAUNCH) == 1
    driver("cuGraphDestroy", graph)


def test_a_kernel_finds_the_graph_that_it_belongs_to(driver: Driver, counters: int) -> None:
    from warpwright.toolchain import compile_source

    source = """extern "C" __global__ void own(unsigned long long *p) {
        asm volatile("mov.u64 %0, %%current_graph_exec;" : "=l"(*p));
    }"""
    module = driver.word("cuModuleLoadData", compile_source(source, 80).cubin)
    own = driver.word("cuModuleGetFunction", module, b"own")
    graph = driver.word("cuGraphCreate", 0)
    values = (ctypes.c_uint64 * 1)(counters)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(values))
    rest = struct.pack("Q7IQQQQ", own, 1, 1, 1, 1, 1, 1, 0, ctypes.addressof(pointers), 0, 0, 0)
    node(driver, graph, KERNEL, rest)
    executable = int(driver.word("cuGraphInstantiateWithFlags", graph, 0))
    driver("cuGraphLaunch", executable, 0)
    driver("cuCtxSynchronize")
    low, high = words(driver, counters)
    assert low | high << 32 == executable != 0
    driver("cuLaunchKernel", own, 1, 1, 1, 1, 1, 1, 0, 0, pointers, 0)
    driver("cuCtxSynchronize")
    assert words(driver, counters) == (0, 0)
    driver("cuGraphDestroy", graph)


def test_conditions_refuse_what_no_node_may_have(driver: Driver, counters: int) -> None:
    graph = driver.word("cuGraphCreate", 0)
    condition = driver.word("cuGraphConditionalHandleCreate", graph, driver.word("cuCtxGetCurrent"), 0, 0)
    place = ctypes.c_uint64()
    for handle, choice, bodies in ((condition, IF, 3), (condition, WHILE, 2), (condition, 3, 1), (counters, IF, 1)):
        raw = ctypes.create_string_buffer(struct.pack("i12xQiIQQ", CONDITIONAL, handle, choice, bodies, 0, 0), 256)
        assert driver.raw("cuGraphAddNode", ctypes.byref(place), graph, 0, 0, raw) == 1
    driver("cuGraphDestroy", graph)


def test_graphs_leave_no_handles_behind(driver: Driver, count: int, counters: int) -> None:
    import gc

    from warpwright.driver.driver_state import state
    from warpwright.engine import graph_condition_values as conditions

    def once() -> None:
        graph = driver.word("cuGraphCreate", 0)
        condition = driver.word("cuGraphConditionalHandleCreate", graph, driver.word("cuCtxGetCurrent"), 1, 1)
        (body,) = conditional(driver, graph, condition, IF, 1)
        kernel(driver, body, count, counters, condition, 1)
        launched(driver, graph)
        driver("cuGraphDestroy", graph)

    once()
    gc.collect()  # what other tests left
    before = len(state().handles._items), len(conditions._values)
    gc.disable()  # nothing waits for a collection
    try:
        for _ in range(3):
            once()
        assert (len(state().handles._items), len(conditions._values)) == before
    finally:
        gc.enable()


def test_long_chains(driver: Driver, count: int, counters: int) -> None:
    graph = driver.word("cuGraphCreate", 0)
    needs = (ctypes.c_uint64 * 1)()
    for n in range(3000):
        needs[0] = driver.word("cuGraphAddEmptyNode", graph, needs if n else 0, int(n > 0))
    launched(driver, graph)
    driver("cuGraphDestroy", graph)


def test_nodes_of_events_have_their_kind_and_their_event(driver: Driver) -> None:
    graph = driver.word("cuGraphCreate", 0)
    first, second = (driver.word("cuEventCreate", 0) for _ in range(2))
    for kind, number in (("EventWait", WAIT_EVENT), ("EventRecord", RECORD_EVENT)):
        made = driver.word(f"cuGraphAdd{kind}Node", graph, 0, 0, first)
        assert kind_of(driver, made) == number
        driver(f"cuGraph{kind}NodeSetEvent", made, second)
        event = ctypes.c_uint64()
        driver(f"cuGraph{kind}NodeGetEvent", made, ctypes.byref(event))
        assert event.value == second
    driver("cuGraphDestroy", graph)


def test_a_capture_waits_for_events_of_outside_only_where_that_is_said(driver: Driver) -> None:
    stream, other = (driver.word("cuStreamCreate", 0) for _ in range(2))
    never, outside = (driver.word("cuEventCreate", 0) for _ in range(2))
    driver("cuEventRecord", outside, other)
    driver("cuStreamBeginCapture_v2", stream, 0)
    driver("cuStreamWaitEvent", stream, never, 0)
    assert driver.raw("cuStreamWaitEvent", stream, outside, 0) == results.STREAM_CAPTURE_ISOLATION
    driver("cuStreamWaitEvent", stream, outside, EXTERNAL)
    place = ctypes.c_uint64()
    driver("cuStreamEndCapture", stream, ctypes.byref(place))
    graph = place.value
    handles = (ctypes.c_uint64 * 4)()
    count = ctypes.c_uint64(4)
    driver("cuGraphGetNodes", graph, handles, ctypes.byref(count))
    assert count.value == 1
    assert kind_of(driver, handles[0]) == WAIT_EVENT
    launched(driver, graph)
    driver("cuGraphDestroy", graph)


def test_nodes_refuse_parameters_of_another_kind(driver: Driver, counters: int) -> None:
    graph = driver.word("cuGraphCreate", 0)
    fill = ctypes.create_string_buffer(struct.pack("QQIIQQ", counters, 0, 7, 4, 2, 1))
    empty = driver.word("cuGraphAddEmptyNode", graph, 0, 0)
    assert driver.raw("cuGraphMemsetNodeSetParams", empty, fill) == results.INVALID_VALUE
    driver("cuGraphDestroy", graph)


def test_copies_say_what_they_copy(driver: Driver, counters: int) -> None:
    graph = driver.word("cuGraphCreate", 0)
    host = ctypes.create_string_buffer(8)
    copy = struct.pack("4QIQQQQQQ4QIQQQQQQ3Q", *(0, 0, 0, 0, 2, 0, counters, 0, 0, 8, 1),
                       *(0, 0, 0, 0, 1, ctypes.addressof(host), 0, 0, 0, 8, 1), 8, 1, 1)  # fmt: skip
    made = driver.word("cuGraphAddMemcpyNode", graph, 0, 0, ctypes.create_string_buffer(copy), 0)
    told = ctypes.create_string_buffer(len(copy))
    driver("cuGraphMemcpyNodeGetParams", made, told)
    assert told.raw == copy
    driver("cuGraphDestroy", graph)


def test_a_user_object_goes_with_the_last_graph_that_refers_to_it(driver: Driver) -> None:
    gone: list[int] = []
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(gone.append)
    graph = driver.word("cuGraphCreate", 0)
    user = driver.word("cuUserObjectCreate", 7, ctypes.cast(destroy, ctypes.c_void_p), 1, 0)
    driver("cuGraphRetainUserObject", graph, user, 1, MOVE)
    executable = driver.word("cuGraphInstantiateWithFlags", graph, 0)
    assert driver.raw("cuGraphReleaseUserObject", graph, user, 2) == results.INVALID_VALUE
    driver("cuGraphDestroy", graph)
    assert gone == []
    driver("cuGraphExecDestroy", executable)
    assert gone == [7]
