"""Detects endless loops in the interpreter from digests of its warps and memory.

The interpreter keeps every register, including dead ones; they recur too when a loop does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from warpwright.engine.interpreter.convergence import AT_BARRIER, AT_CLUSTER, RUNNING
from warpwright.engine.interpreter.gather_scatter import mask_bits
from warpwright.engine.interpreter.grid import PASSES_BEFORE_NEXT_BLOCK, BlockRun
from warpwright.engine.interpreter.warp import WarpState
from warpwright.engine.lane_positions import Group

FIRST_PASS = 2 * PASSES_BEFORE_NEXT_BLOCK
"""Blocks that might end the wait have joined before; a pass is hundreds of loop iterations here."""


def warps_digest(resident: Sequence[BlockRun]) -> bytes:
    """Digest of the warps of the resident blocks and of the blocks' barriers."""
    digest = hashlib.blake2b(digest_size=16)
    for run in resident:
        digest.update(repr((run.block.linear_index, run.block.arrived, run.statuses)).encode())
        for w in run.block.warps:
            masks = (w.preds, w.upreds, w.exited, w.yielded, w.running, w.barrier_vote)
            for array in (w.regs, w.uregs, *masks, w.barriers, w.sync_masks):
                digest.update(array.tobytes())
            for lanes in (w.pcs, w.waiting, w.barrier_id, w.barrier_threads):
                digest.update(lanes.tobytes())
            groups = [*w.turns(), *((index, lanes) for _, index, lanes in w.entries)]
            digest.update(repr([(index, mask_bits(lanes)) for index, lanes in groups]).encode())
    return digest.digest()


def memories(resident: Sequence[BlockRun]) -> Iterator[npt.NDArray[np.uint8]]:
    """Shared and local memory of the resident blocks."""
    for run in resident:
        yield run.block.shared.data
        for w in run.block.warps:
            yield w.spaces.local.data


def groups_of(w: WarpState) -> list[Group]:
    """The positions of a warp's live lanes, starting with the group that runs first."""
    addresses = w.launch.kernel.addresses
    found: list[Group] = []
    seen = w.exited.copy()

    def add(what: str, index: int, lanes: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> None:
        mask = mask_bits(lanes & ~seen)
        seen[:] |= lanes
        if mask:
            found.append(Group(what, addresses[index], mask))

    at_barrier, at_cluster = w.waiting == AT_BARRIER, w.waiting == AT_CLUSTER
    elsewhere = (w.waiting != RUNNING) & ~at_barrier & ~at_cluster
    for what, waits in (("barrier", at_barrier), ("cluster", at_cluster), ("joins", elsewhere)):
        for index in np.unique(w.pcs[waits]):
            add(what, int(index), waits & (w.pcs == index))
    if w.launch.kernel.stacked:
        if w.running.any():
            add("runs", int(w.pcs[w.running][0]), w.running)
        for kind, index, lanes in reversed(w.entries):
            add("turn" if kind == "div" else "joins", index, lanes)
    else:
        for place, (index, lanes) in enumerate(w.turns()):
            add("turn" if place else "runs", index, lanes)
    return sorted(found, key=lambda group: group.what != "runs")
