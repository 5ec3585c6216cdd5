"""A block in the interpreter and its cluster: shared memory, warps, barriers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import NAMED_BARRIERS
from warpwright.engine.geometry import Dim3
from warpwright.engine.interpreter.convergence import AT_BARRIER, AT_CLUSTER, RUNNING
from warpwright.engine.interpreter.gather_scatter import SharedSpace
from warpwright.engine.interpreter.warp import Launch, WarpState


class ClusterState:
    """The blocks of a cluster by rank (one block in launches without clusters)."""

    def __init__(self, launch: Launch, number: int, trace: bool = False) -> None:
        x, y, _ = launch.geometry.grid
        count = launch.geometry.cluster_blocks
        self.blocks: list[BlockState] = []
        for rank in range(count):
            linear = launch.geometry.clustered_block(number * count + rank)
            self.blocks.append(BlockState(launch, (linear % x, linear // x % y, linear // (x * y)), self))
        for block in self.blocks:
            block.populate(trace)

    def complete_barrier(self) -> bool:
        """Release the warps at the cluster's barrier once every live lane has arrived; returns whether any waited."""
        warps = [warp for block in self.blocks for warp in block.warps]
        if not any(warp.cluster_arrived.any() for warp in warps):
            return False
        if any((~warp.exited & ~warp.cluster_arrived).any() for warp in warps):
            return False
        for warp in warps:
            warp.cluster_arrived[:] = False
            lanes = warp.waiting == AT_CLUSTER
            warp.waiting[lanes] = RUNNING
            warp.pcs[lanes] += 1
            warp.ready(lanes)
        return True


class BlockState:
    """One block: shared memory, warps, named barriers."""

    def __init__(self, launch: Launch, index: Dim3, cluster: ClusterState) -> None:
        geometry = launch.geometry
        self.launch = launch
        self.index = index
        self.cluster = cluster
        self.ended = False
        x, y, _ = geometry.grid
        self.linear_index = index[0] + x * (index[1] + y * index[2])
        self.shared = SharedSpace(launch.shared_bytes)
        self.arrived = [0] * NAMED_BARRIERS
        """Threads that arrived without waiting (BAR.ARV), for each named barrier."""
        self.released = False
        """Whether a barrier has been completed in the middle of a step."""
        self.warps: list[WarpState] = []

    def populate(self, trace: bool) -> None:
        """Create the warps, once the whole cluster is known; with ``trace`` each keeps its records."""
        self.warps = [WarpState(self.launch, self, w) for w in range(self.launch.geometry.warps_per_block)]
        if trace:
            for warp in self.warps:
                warp.trace = []

    def complete_barriers(self) -> bool:
        """Release the waiting lanes of every complete barrier; returns whether there was one since the last call."""
        progress, self.released = self.released, False
        living = sum(int((~warp.exited).sum()) for warp in self.warps)
        for number, groups in self._waiting().items():
            progress |= self._complete(number, groups, living)
        return progress

    def complete_counts(self) -> None:
        """Release the lanes of every complete barrier with an explicit count: the arrival that completes it releases them, and later warps wait for the next phase."""
        for number, groups in self._waiting().items():
            if max(int(warp.barrier_threads[lanes].max()) for warp, lanes in groups) > 0:
                self.released |= self._complete(number, groups, 0)

    def arrive(self, number: int, threads: int, count: int) -> None:
        """Count threads that arrive without waiting (BAR.ARV) at a barrier of ``count`` threads."""
        self.arrived[number] += threads
        groups = self._waiting().get(number, [])
        if groups:
            self.released |= self._complete(number, groups, 0)
        elif self.arrived[number] >= count:
            self.arrived[number] = 0

    def _waiting(self) -> dict[int, list[tuple[WarpState, npt.NDArray[np.bool_]]]]:
        """The warps and lanes that wait at each barrier."""
        waiting: dict[int, list[tuple[WarpState, npt.NDArray[np.bool_]]]] = {}
        for warp in self.warps:
            here = warp.waiting == AT_BARRIER
            for number in {int(n) for n in warp.barrier_id[here]}:
                waiting.setdefault(number, []).append((warp, here & (warp.barrier_id == number)))
        return waiting

    def _complete(self, number: int, groups: list[tuple[WarpState, npt.NDArray[np.bool_]]], living: int) -> bool:
        """Release a barrier's lanes if as many threads have arrived as it counts, or all ``living`` ones if it has no count; returns whether they have."""
        expected = max(int(warp.barrier_threads[lanes].max()) for warp, lanes in groups)
        present = self.arrived[number]
        for warp, lanes in groups:
            whole = expected > 0 and bool((lanes | warp.exited).all())
            present += warp.lanes if whole else int(lanes.sum())
        if present < (expected or living):
            return False
        self.arrived[number] = 0
        votes = np.concatenate([warp.barrier_vote[lanes] for warp, lanes in groups])
        mode = groups[0][0].barrier_mode
        result = {"popc": int(votes.sum()), "and": int(votes.all()), "or": int(votes.any())}.get(mode, 0)
        for warp, lanes in groups:
            if mode:
                warp.barrier_result = result
            warp.waiting[lanes] = RUNNING
            warp.pcs[lanes] += 1
            warp.ready(lanes)
        return True
