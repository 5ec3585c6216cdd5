"""Graphs that kernels launch (CUDA C++ Programming Guide, "Device Graph Launch").

A graph whose kernels may launch graphs runs as a unit. A fire-and-forget graph begins when the launching kernel has ended and runs concurrently with the
nodes that follow; tail graphs run in order after the graph and everything that it has fired.

A kernel that may poll memory can wait for what it fires: it stays on the chip, and the graph runs soon after it is requested. The kernel does not execute meanwhile,
as if it did nothing but wait; the clocks that it reads keep running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpwright.driver.driver_state import Stream, picoseconds, state
from warpwright.driver.graphs import (
    KERNEL,
    Executable,
    Graph,
    Node,
    after_node,
    before_launch,
    replacing_run,
    sooner_ps,
)
from warpwright.driver.kernel_groups import watches
from warpwright.driver.work_order import begin as clock_of
from warpwright.engine.constant_bank0 import names_its_graph
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.graph_launch_requests import GraphRun, current_run, running
from warpwright.engine.work_clocks import learn, new_queue

if TYPE_CHECKING:
    from warpwright.resident_launches import ResidentLaunches

LAUNCH = "cudaGraphLaunch"
CLOCK_STEP_SECONDS = 1e-9
"""Longer than a cycle: a machine that runs until this long after a time has reached that time."""


def launches_graphs(graph: Graph) -> bool:
    """Whether a kernel of a graph, or of the graphs in it, may launch a graph or asks for its own."""
    for vertex in graph.vertices:
        launcher = vertex.work.kernel() if vertex.work.kind == KERNEL else None
        program = launcher.kernel._loaded.program if launcher is not None else None
        if program is not None and (LAUNCH in program.services or names_its_graph(program)):
            return True
        if any(launches_graphs(one) for one in vertex.work.graphs()):
            return True
    return False


def run_with_launches(executable: Executable, stream: Stream) -> None:
    """Run an executable graph and everything that its kernels launch."""
    ahead = [executable]
    while ahead:
        following = ahead.pop()
        for prepare in before_launch:
            prepare(following.graph, following.flags)
        devices = (stream.device.gpu.memory, *_devices(following.graph))
        with running(following.handle, devices) as run:
            following.graph.run(stream)
            # Sibling launches by the graphs that it has fired are known only now.
            stream.ps = max(stream.ps, _run_fired(run, stream))
        ahead += [state().handles.get(Executable, handle) for handle in reversed(run.tail)]


def _devices(graph: Graph) -> list[DeviceMemory]:
    """The memory of the device of each kernel of a graph and of the graphs in it."""
    found = []
    for vertex in graph.vertices:
        launcher = vertex.work.kernel()
        found += [launcher.kernel.gpu.memory] if launcher is not None else []
        for one in vertex.work.graphs():
            found += _devices(one)
    return found


def _run_fired(run: GraphRun, stream: Stream) -> int:
    """Run what a graph's kernels have fired, from the stream's time on; returns the last one's end in picoseconds."""
    last = 0
    while run.fired:
        executable = state().handles.get(Executable, run.fired.pop(0))
        lane = Stream(stream.device, flags=1)
        lane.ps, lane.queue, lane.clock = stream.ps, new_queue(), dict(clock_of(stream))
        run_with_launches(executable, lane)
        learn(stream.clock, lane.clock)
        last = max(last, lane.ps)
    return last


def _run_waiting(work: Node, lane: Stream) -> bool:
    """Run a kernel that may wait for graphs that it fires; returns False for other nodes."""
    from warpwright.launch_groups import GroupError, Member
    from warpwright.resident_launches import ResidentLaunches, may_stop

    gpu = lane.device.gpu
    run = current_run(gpu.memory)
    launcher = work.kernel() if run is not None else None
    if run is None or launcher is None or LAUNCH not in launcher.kernel._loaded.program.services:
        return False
    if not watches(launcher) or not may_stop(launcher, checked=True):
        return False
    s = state()
    began = s.begin(lane, gpu.chip.launch.launch_latency_us)
    member = Member(launcher, work.parameter_bytes(), cooperative=work.is_cooperative(), origin=work.origin())
    launches = ResidentLaunches([member], timed=s.timed)
    run.on_fire = launches.stop
    try:
        took = _beside_fired(launches, run, lane, began)
        lane.ps = began + took if s.timed else lane.ps
    except GroupError as failure:
        work.failed(failure.error, s.current(), lane)
    finally:
        run.on_fire = None
        launches.close()
    return True


def _beside_fired(launches: ResidentLaunches, run: GraphRun, lane: Stream, began: int) -> int:
    """Run a kernel to its end, and each graph that it fires when the graph begins; returns the time of all, in picoseconds.

    A fired graph begins as the next node of a graph does: the request needs no call of the host.  Until then the kernel runs on; while the graph runs, only the
    clocks that the kernel reads advance.

    Raises:
        GroupError: a fault in the kernel, or it waits for something that cannot happen.
    """
    from warpwright.launch_groups import GroupError

    lead = picoseconds(lane.device.gpu.chip.launch.graph_launch_overhead_us * 1e-6)
    stood, repeats = 0, 0
    fired: list[tuple[int, GraphRun]] = []  # when they begin, on the machine's clock, in picoseconds
    while True:
        ended = launches.run(fired[0][0] * 1e-12 + CLOCK_STEP_SECONDS if fired else None)
        if ended:
            return picoseconds(ended[0].end_seconds) + stood
        now = picoseconds(launches.now_seconds)
        known = [one for _, one in fired]
        asked = [one for one in (run, run.launcher) if one is not None and one.fired and one not in known]
        fired += [(now + lead, one) for one in asked]
        begun = [one for begin, one in fired if begin <= now]
        fired = fired[len(begun) :]
        for one in begun:
            beside = Stream(lane.device, flags=1)
            at = began + now + stood
            beside.ps, beside.queue, beside.clock = at - lead - sooner_ps(lane), new_queue(), dict(clock_of(lane))
            took = max(0, _run_fired(one, beside) - at)
            learn(lane.clock, beside.clock)
            launches.stand(took * 1e-12)
            stood += took
        repeats = 0 if asked or begun or fired else repeats + launches.repeats()
        if repeats == 2:
            error = launches.deadlock()
            raise error if isinstance(error, GroupError) else GroupError(0, error)


def _after_node(lane: Stream) -> int:
    run = current_run(lane.device.gpu.memory)
    return _run_fired(run, lane) if run is not None else 0


replacing_run.append(_run_waiting)
after_node.append(_after_node)
