"""Graphs that kernels launch (CUDA C++ Programming Guide, "Device Graph Launch").

A graph whose kernels may launch graphs runs as a unit. A fire-and-forget graph begins when the launching kernel has ended and runs concurrently with the
nodes that follow; tail graphs run in order after the graph and everything that it has fired.
"""

from __future__ import annotations

from warpwright.driver.driver_state import Stream, state
from warpwright.driver.graphs import KERNEL, Executable, Graph, after_node, before_launch
from warpwright.driver.work_order import begin as clock_of
from warpwright.engine.graph_launch_requests import GraphRun, current_run, running
from warpwright.engine.launch import names_its_graph
from warpwright.engine.work_clocks import learn, new_queue

LAUNCH = "cudaGraphLaunch"


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
        with running(following.handle) as run:
            following.graph.run(stream)
            # Sibling launches by the graphs that it has fired are known only now.
            stream.ps = max(stream.ps, _run_fired(run, stream))
        ahead += [state().handles.get(Executable, handle) for handle in reversed(run.tail)]


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


def _after_node(lane: Stream) -> int:
    run = current_run()
    return _run_fired(run, lane) if run is not None else 0


after_node.append(_after_node)
