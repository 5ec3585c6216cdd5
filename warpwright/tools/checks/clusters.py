"""Clusters of several blocks under the checks: their barrier, and accesses to another block's shared memory.

A warp that leaves its cluster's barrier knows what every warp that arrived there knew. A block's shared memory lives only as long as the block, so before it
ends a block must know of all accesses to it by other blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import LOCAL_WINDOW, MAX_CLUSTER, SHARED_OFFSETS, SHARED_WINDOW
from warpwright.isa.ops import SHARED_RANK_SHIFT
from warpwright.tools.checks import block_runner as tu
from warpwright.tools.checks import shadow as sh
from warpwright.tools.checks.checked_execution import Block, Warp
from warpwright.tools.checks.happens_before import EMPTY, Clock
from warpwright.tools.checks.resident_block import ResidentBlock


@dataclass
class _Cluster:
    """The state of a resident cluster of several blocks."""

    members: npt.NDArray[np.int64]
    """Rows of ``shadow.M_*`` by rank."""
    arrived: Clock = EMPTY
    """What the warps that have arrived at its barrier knew."""
    places: set[int] = field(default_factory=set)
    """Basic blocks from which they arrived."""


@dataclass(frozen=True, slots=True)
class Visit:
    """An access to a block's shared memory by another block of its cluster."""

    instruction: int
    address: int
    warp: int
    """Number of the warp in the launch."""
    lane: int


class Clusters:
    """The resident clusters of a launch."""

    def __init__(self, resident: dict[int, ResidentBlock], lanes: int) -> None:
        """``resident``: blocks by number, maintained by the caller; ``lanes``: lanes of a wave."""
        self._resident = resident
        self._whole = (1 << lanes) - 1
        self._halves = int(lanes > sh.HALF_LANES)
        self._clusters: dict[int, _Cluster] = {}
        """Clusters by the number of their first block."""
        self._latest = 0
        """Last epoch of any block that has ended."""

    def first_epoch(self, cluster: Sequence[Block]) -> int:
        """An epoch that precedes all epochs of the blocks.

        Every block's cells contain stamps of all warps of the cluster, so its blocks begin with the same epoch.
        """
        if len(cluster) == 1:
            return 0
        epochs = (int(max(r.clocks.epochs.max(), r.clocks.copies.max())) for r in self._resident.values())
        return max((self._latest, *epochs))

    def admitted(self, cluster: Sequence[Block]) -> None:
        """The blocks of a cluster became resident."""
        if len(cluster) == 1:
            return
        members = [self._resident[block.number].member() for block in cluster]
        members += [(0,) * sh.MEMBER_WORDS] * (MAX_CLUSTER - len(members))
        formed = self._clusters[cluster[0].number] = _Cluster(np.array(members, np.int64))
        for block in cluster:
            s = self._resident[block.number].states
            s[:, sh.S_MEMBERS], s[:, sh.S_RANK] = formed.members.ctypes.data, block.rank

    def at_barrier(self, block: Block, warp: Warp) -> None:
        """A warp has arrived at its cluster's barrier, or waits there."""
        if warp["barrier_mode"] == tu.CLUSTER_ARRIVE:
            cluster = self._clusters[block.cluster[0].number]
            cluster.arrived = cluster.arrived.joined(self._resident[block.number].clocks.clock(warp.in_block))
            cluster.places.add(int(block.turn[tu.T_LAST]))
        elif warp.state != tu.AT_CLUSTER:
            self._passes(block, warp)

    def _passes(self, block: Block, warp: Warp) -> None:
        """A warp leaves its cluster's barrier, and learns what all arriving warps knew."""
        resident = self._resident[block.number]
        clock = resident.waits.pop(warp.in_block, None)
        if clock is None:
            return
        resident.clocks.learn(warp.in_block, clock)
        s = resident.states[warp.in_block]
        lanes = warp["barrier_lanes"]
        if lanes == self._whole:
            s[sh.S_WHOLE] = s[sh.S_EPOCH]
        else:
            resident.clocks.lanes_meet(warp.in_block, lanes)
        resident.note_others(block, warp.in_block)

    def places(self, cluster: Sequence[Block]) -> list[int]:
        """Basic blocks from which warps have arrived at the cluster's barrier."""
        return sorted(self._clusters[cluster[0].number].places)

    def met(self, cluster: Sequence[Block]) -> None:
        """A cluster's barrier completes."""
        state = self._clusters[cluster[0].number]
        for block in cluster:
            if block.ended:
                continue
            resident = self._resident[block.number]
            for warp in block.warps:
                resident.waits[warp.in_block] = state.arrived
                if warp.state == tu.AT_CLUSTER:
                    self._passes(block, warp)
        state.arrived = EMPTY
        state.places.clear()

    def not_awaited(self, block: Block) -> Iterator[Visit]:
        """For each instruction of other blocks, its first access to a block's shared memory of which the block does not know when it ends."""
        resident = self._resident[block.number]
        warps = len(resident.states)
        found: set[int] = set()
        for stamp, instruction, address, lane in resident.visits.tolist():
            if not stamp or instruction in found:
                continue
            warp = ((stamp >> 32) - 1) >> self._halves
            number, in_block = divmod(warp, warps)
            rows = (foreign.rows.get(number) for foreign in resident.clocks.foreign)
            if any(row is not None and row[in_block] > stamp & sh.EPOCH_BITS for row in rows):
                continue
            found.add(instruction)
            yield Visit(instruction, address, warp, lane)

    def ended(self, block: Block, last: int) -> None:
        """A block has ended; its last epoch was ``last``."""
        self._latest = max(self._latest, last)
        if all(one is block or one.ended for one in block.cluster):
            self._clusters.pop(block.cluster[0].number, None)

    def owners(self, block: Block, words: set[int], own: bool) -> Iterator[tuple[Block, set[int]]]:
        """The blocks whose shared memory contains some of the words, each with its words as local addresses.

        Args:
            block: the block that accesses the words.
            own: whether they are the block's own, whatever rank the addresses hold.
        """
        found: dict[int, set[int]] = {}
        for word in words:
            if SHARED_WINDOW <= word < LOCAL_WINDOW:
                rank = block.rank if own else (word - SHARED_WINDOW) >> SHARED_RANK_SHIFT
                found.setdefault(rank, set()).add(SHARED_WINDOW + (word & SHARED_OFFSETS))
        for rank, some in found.items():
            yield block.cluster[rank], some


def byte_of_cluster(address: int) -> str:
    """Describe a byte of the shared memory of a cluster's block."""
    rank = (address - SHARED_WINDOW) >> SHARED_RANK_SHIFT
    return f"byte {address & SHARED_OFFSETS:,} of shared memory of block {rank} of the cluster"
