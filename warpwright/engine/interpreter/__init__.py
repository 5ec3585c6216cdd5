"""The NumPy interpreter of the common operations: the reference for compiled code and its fallback.

One warp runs with Volta's independent thread scheduling: lanes that run together form a group, and one group runs at a
time.  When lanes diverge, the smaller part continues (of equal parts, the one that falls through) and the other waits
on a stack; a group runs until it waits, ends or yields.  BSYNC and WARPSYNC join groups.  A group that another group
was pushed on top of is joined, when its turn comes, by all lanes at its instruction.  An indirect branch takes the
lanes that share the target of the lowest lane; the others execute it again.  This is the behaviour of an H200
(``bench/micro/divergence.cu``).

A lane waits at BSYNC until every lane of its barrier's mask waits there with the same mask or has exited (BREAK removes
lanes from the mask of all its members), and at WARPSYNC until all live lanes of its mask wait at a WARPSYNC with the
same mask.  A group that executes YIELD or NANOSLEEP goes to the bottom of the stack, and until it runs again no BSYNC
waits for it: a lane may hold a lock while it waits there for lanes that spin on this lock (NVIDIA, US patent
2016/0019066, "Execution of divergent threads using a convergence barrier"). Block barriers count threads; exited
threads are not expected, and a warp whose live lanes have all arrived counts as 32 if the instruction names a thread
count (PTX ISA, ``barrier``).
"""

from __future__ import annotations

from warpwright.engine.interpreter.cluster import BlockState, ClusterState
from warpwright.engine.interpreter.convergence import lane_mask
from warpwright.engine.interpreter.grid import Outcome, run_block, run_grid
from warpwright.engine.interpreter.warp import Environment, Kernel, Launch, Limits, OverLimit, WarpState

__all__ = [
    "BlockState",
    "ClusterState",
    "Environment",
    "Kernel",
    "Launch",
    "Limits",
    "Outcome",
    "OverLimit",
    "WarpState",
    "lane_mask",
    "run_block",
    "run_grid",
]
