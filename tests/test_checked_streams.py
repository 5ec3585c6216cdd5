"""racecheck over streams, events, graphs, copies and the host: work that touches the same bytes, and that nothing orders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.driver_library import ENVIRONMENT, IN_ANOTHER_PROCESS, VECTOR_ADD

COUNT = (
    VECTOR_ADD.split(".visible .entry", maxsplit=1)[0]
    + """
.visible .entry count(.param .u64 a)
{
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [a];
    red.global.add.u32 [%d1], 1;
    ret;
}
"""
)
POLL = (
    VECTOR_ADD.split(".visible .entry", maxsplit=1)[0]
    + """
.visible .entry poll(.param .u64 word, .param .u64 to)
{
    .reg .pred %p<2>;
    .reg .b32 %r<2>;
    .reg .b64 %d<3>;
    ld.param.u64 %d1, [word];
    ld.param.u64 %d2, [to];
AGAIN:
    ld.volatile.global.u32 %r1, [%d1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    st.global.u32 [%d2], %r1;
    ret;
}
"""
)
"""Polls a word, then writes its value: a kernel that is queued, and so is a graph that contains it."""
BEGIN = f"""{IN_ANOTHER_PROCESS}
import json
from warpwright.session import session

def function(text, name):
    return cuda.word("cuModuleGetFunction", cuda.word("cuModuleLoadData", text.encode()), name)

add, count, polling = function({VECTOR_ADD!r}, b"add"), function({COUNT!r}, b"count"), function({POLL!r}, b"poll")
u64, u32 = ctypes.c_uint64, ctypes.c_uint32
a, b, c = (cuda.word("cuMemAlloc_v2", 4096) for _ in range(3))
s, t = (cuda.word("cuStreamCreate", 1) for _ in range(2))
p, q = (cuda.word("cuStreamCreate", 0) for _ in range(2))
event = cuda.word("cuEventCreate", 2)
host = (u32 * 1024)()
called = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)

def launch(stream, to=a, of=b, n=1024):
    cuda.launch(add, 4, 256, u64(to), u64(of), u32(n), stream=stream)

def begin():
    cuda("cuCtxSynchronize")
    for x in (a, b, c):
        cuda("cuMemsetD8_v2", x, 1, 4096)
    cuda("cuCtxSynchronize")

def capture(second_needs_first):
    cuda("cuStreamBeginCapture_v2", s, 0)
    cuda("cuEventRecord", event, s)
    if second_needs_first:
        launch(s)
        cuda("cuEventRecord", event, s)
        cuda("cuStreamWaitEvent", t, event, 0)
        launch(t)
    else:
        cuda("cuStreamWaitEvent", t, event, 0)
        launch(s)
        launch(t)
    cuda("cuEventRecord", event, t)
    cuda("cuStreamWaitEvent", s, event, 0)
    graph = u64()
    cuda("cuStreamEndCapture", s, ctypes.byref(graph))
    return cuda.word("cuGraphInstantiateWithFlags", graph.value, 0)

def poll(stream, word=b, to=a):
    cuda.launch(polling, 1, 1, u64(word), u64(to), stream=stream)

def capture_poll():
    cuda("cuStreamBeginCapture_v2", s, 0)
    poll(s)
    launch(s)
    graph = u64()
    cuda("cuStreamEndCapture", s, ctypes.byref(graph))
    return cuda.word("cuGraphInstantiateWithFlags", graph.value, 0)
"""
REPORT = """
print(json.dumps([f.title.split("between ")[-1] for checker in session.checkers for f in checker.findings]))
"""
LAUNCHES = "Write access and Write access of launches"
READ_LATER, WRITE_LATER = "Write access and Read access of launches", "Read access and Write access of launches"
BOTH_WAYS = {LAUNCHES, READ_LATER, WRITE_LATER}
"""Of a kernel that reads and writes a word, twice."""
UNORDERED = {
    "two streams": ("launch(s); launch(t)", BOTH_WAYS),
    "an event from before the launch": (
        'cuda("cuEventRecord", event, s); launch(s); cuda("cuStreamWaitEvent", t, event, 0); launch(t)',
        BOTH_WAYS,
    ),
    "the default stream waits for blocking ones alone": ("launch(0); launch(s)", BOTH_WAYS),
    "the host waits for another stream": ('launch(s); cuda("cuStreamSynchronize", t); launch(t)', BOTH_WAYS),
    "what one launch reads": ("launch(s); launch(t, to=c, of=a)", {READ_LATER}),
    "what one launch read": ("launch(s); launch(t, to=b, of=c)", {WRITE_LATER}),
    "a launch after others in its stream": ("launch(s, to=c); launch(s); launch(t, to=b, of=b); launch(t)", BOTH_WAYS),
    "a fill": (
        'launch(s); cuda("cuMemsetD8Async", a, 0, 4096, t)',
        {"Write access and Write access of a copy", "Read access and Write access of a copy"},
    ),
    "a fill before": (
        'cuda("cuMemsetD8Async", a, 0, 4096, t); launch(s)',
        {"Write access of a copy and Write access", "Write access of a copy and Read access"},
    ),
    "a copy of the result": (
        'launch(s); cuda("cuMemcpyDtoDAsync_v2", c, a, 4096, t)',
        {"Write access and Read access of a copy"},
    ),
    "a copy to the host": (
        'launch(s); cuda("cuMemcpyDtoH_v2", host, a, 4096)',
        {"Write access and Read access of a copy"},
    ),
    "copies into one place": (
        'cuda("cuMemcpyDtoDAsync_v2", a, b, 4096, s); cuda("cuMemcpyDtoDAsync_v2", a + 4092, c, 4, t)',
        {"Write access and Write access of copies"},
    ),
    "nodes without an edge": ('cuda("cuGraphLaunch", capture(False), s)', BOTH_WAYS),
    "a graph beside a launch": ('cuda("cuGraphLaunch", capture(True), s); launch(t)', BOTH_WAYS),
    "a graph that polls, beside a launch": ('cuda("cuGraphLaunch", capture_poll(), s); launch(t)', BOTH_WAYS),
    "a launch beside a graph that polls": ('launch(t); cuda("cuGraphLaunch", capture_poll(), s)', BOTH_WAYS),
    "launches that repeat": ("\nfor _ in range(4): launch(s)\nlaunch(t)", BOTH_WAYS),
}
ORDERED = {
    "one stream": "launch(s); launch(s)",
    "an event": 'launch(s); cuda("cuEventRecord", event, s); cuda("cuStreamWaitEvent", t, event, 0); launch(t)',
    "by way of a third stream": (
        'launch(s); cuda("cuEventRecord", event, s); cuda("cuStreamWaitEvent", p, event, 0);'
        'cuda("cuEventRecord", event, p); cuda("cuStreamWaitEvent", t, event, 0); launch(t)'
    ),
    "the host waits": 'launch(s); cuda("cuStreamSynchronize", s); launch(t)',
    "the host waits for an event": 'launch(s); cuda("cuEventRecord", event, s); cuda("cuEventSynchronize", event); launch(t)',
    "the host waits for the device": 'launch(s); cuda("cuCtxSynchronize"); launch(t)',
    "a free waits for the device": 'x = cuda.word("cuMemAlloc_v2", 8); launch(s); cuda("cuMemFree_v2", x); launch(t)',
    "the default stream": "launch(p); launch(0); launch(q)",
    "halves": "launch(s, n=512); launch(t, to=a + 2048, n=512)",
    "atomics": "cuda.launch(count, 1, 32, u64(a), stream=s); cuda.launch(count, 1, 32, u64(a), stream=t)",
    "copies of one place": 'cuda("cuMemcpyDtoDAsync_v2", a, b, 4096, s); cuda("cuMemcpyDtoDAsync_v2", c, b, 4096, t)',
    "copies side by side": 'cuda("cuMemcpyDtoDAsync_v2", a, b, 4092, s); cuda("cuMemcpyDtoDAsync_v2", a + 4092, c, 4, t)',
    "a copy from the host is done": 'cuda("cuMemcpyHtoD_v2", a, host, 4096); launch(s)',
    "a call of the host": 'launch(s); cuda("cuLaunchHostFunc", s, called, 0); launch(t)',
    "a graph that polls, in its stream": (
        'e = capture_poll(); cuda("cuMemsetD8Async", a, 0, 4096, s); cuda("cuGraphLaunch", e, s); launch(s);'
        'cuda("cuGraphLaunch", e, s); cuda("cuMemcpyDtoDAsync_v2", c, a, 4096, s); cuda("cuMemsetD8Async", a, 0, 4096, s)'
    ),
    "a graph that polls, and the default stream": (
        'e = capture_poll(); cuda("cuMemsetD8Async", a, 0, 4096, 0); cuda("cuGraphLaunch", e, p); launch(0)'
    ),
    "events around a graph that polls": (
        'e = capture_poll(); launch(t); cuda("cuEventRecord", event, t); cuda("cuStreamWaitEvent", s, event, 0); cuda("cuGraphLaunch", e, s);'
        'cuda("cuEventRecord", event, s); cuda("cuStreamWaitEvent", t, event, 0); launch(t)'
    ),
    "the host waits for a graph that polls": (
        'cuda("cuGraphLaunch", capture_poll(), s); cuda("cuEventRecord", event, s); cuda("cuEventSynchronize", event); launch(t)'
    ),
    "nodes with an edge": 'e = capture(True); cuda("cuGraphLaunch", e, s); cuda("cuGraphLaunch", e, s); launch(s)',
    "memory that a pool gives again": """
for stream in (s, t):
    x = cuda.word("cuMemAllocAsync", 4096, stream)
    cuda("cuMemsetD8Async", x, 0, 4096, stream)
    launch(stream, to=x)
    cuda("cuMemFreeAsync", x, stream)
""",
    "launches that repeat": 'for _ in range(4):\n    launch(s)\n    cuda("cuStreamSynchronize", s)\nlaunch(t)',
}
"""Calls between ``begin`` and the report."""


def found(case: str, tmp_path: Path) -> list[str]:
    program = tmp_path / "program.py"
    program.write_text(f"{BEGIN}\nbegin()\n{case}\ncuda('cuCtxSynchronize')\n{REPORT}")
    environment = {**os.environ, **ENVIRONMENT, "WARPWRIGHT_CHECK": "racecheck"}
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    titles: list[str] = json.loads(done.stdout.splitlines()[-1])
    return titles


@pytest.mark.slow
@pytest.mark.parametrize("case", UNORDERED)
def test_work_that_nothing_orders_races(case: str, tmp_path: Path) -> None:
    calls, titles = UNORDERED[case]
    assert set(found(calls, tmp_path)) == titles


@pytest.mark.slow
@pytest.mark.parametrize("case", ORDERED)
def test_ordered_work_does_not_race(case: str, tmp_path: Path) -> None:
    assert found(ORDERED[case], tmp_path) == []


@pytest.mark.ci
def test_ordered_work_alone_has_no_finding(tmp_path: Path) -> None:
    """All ordered cases in one program, then unordered ones, of which the first finding of each kind is reported."""
    after = "\nbegin()\n"
    assert found(after.join(ORDERED.values()), tmp_path) == []
    every = set().union(*(titles for _, titles in UNORDERED.values()))
    assert set(found(after.join(calls for calls, _ in UNORDERED.values()), tmp_path)) == every
