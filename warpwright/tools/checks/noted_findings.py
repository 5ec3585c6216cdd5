"""Converts the numeric notes of the checks on a launch to findings: hazards, unwritten memory, constants, ended shared memory, and waste."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import SHARED_OFFSETS, SHARED_WINDOW
from warpwright.engine.allocation import Allocation
from warpwright.engine.execute import block_index
from warpwright.engine.faults import thread_of
from warpwright.engine.lane_locks import Lock, Locks
from warpwright.isa.ops import SHARED_RANK_SHIFT
from warpwright.isa.program import Program
from warpwright.quantity_text import number_text
from warpwright.tools.checks import shadow as sh
from warpwright.tools.checks.clusters import Visit, byte_of_cluster
from warpwright.tools.checks.events import Column, Event, Events, is_only_copied
from warpwright.tools.checks.findings import Finding, Place, place
from warpwright.tools.checks.happens_before import BULK_STORES, CP_ASYNC

if TYPE_CHECKING:
    from warpwright.tools.checks.checked_launch import CheckedLaunch
    from warpwright.tools.checks.joined_grids import Joined
    from warpwright.tools.checks.uninitialized_use import Verdict

WAITS = {
    CP_ASYNC: "the copy is not waited for: cp.async.wait_group (or wait_all) in the thread, then a barrier for other threads",
    BULK_STORES: "the copy is not waited for: cp.async.bulk.wait_group.read in the issuing thread, then a barrier for other threads",
    0: "the copy is not waited for: every thread that touches its bytes must first wait on its mbarrier",
}
"""What orders accesses after a copy, by kind of column; 0 for the columns of mbarriers."""
MAY_BE_OLD = (
    "the other block's release was read, but no __threadfence() follows that read to order this access: "
    "its sector was read in this launch before it was written, so an L1 may hold the old line (a volatile read bypasses L1)"
)
UNACQUIRED = (
    "PTX orders this access only after a __threadfence() that follows the read of the other block's release; a card issues in order, "
    "and nothing had brought the old line into an L1"
)
GUARDS = (
    "the value only decides whether an atomic on the same word follows, which reads the word again, so it may be old; "
    "an atomic or volatile read would not race"
)
UNSHOWN = (
    "threads' writes become visible to asynchronous copies only after a fence.proxy.async: by the writer before the barrier, "
    "or by the issuer of the copy after it"
)
NARROW = (
    "an access of block scope (atomicAdd_block, cuda::thread_scope_block) is atomic only within its own block: "
    "accesses by several blocks need device scope (atomicAdd)"
)
UNFENCED_LOCK = (
    "threads that take a lock with an atomic: __threadfence() after taking it and before releasing it orders them"
)
A_PHASE = "a further phase of the mbarrier (cuda::barrier): a thread that has waited for a phase is not ordered after what others have done since they arrived at it"
FENCED_LOCK = "threads of one warp that take a lock with an atomic, with fences on both sides: nothing is wrong if it is the same lock"
WASTE = 2.0
"""perfcheck reports an access that moves this many times the bytes it needs."""


class NotedFindings:
    """Creates the findings of one launch from its notes."""

    def __init__(
        self,
        launch: CheckedLaunch,
        events: Events,
        live: list[Allocation],
        issuers: dict[tuple[int, int], int],
        joined: Joined | None = None,
    ) -> None:
        """``live``: allocations by number; ``issuers``: warps of copies by block and column, filled as the launch runs; ``joined``: the grids that are checked together."""
        self._joined = joined
        self._launch = launch
        self._context = launch.context
        self._program: Program = launch.context.program
        self._events = events
        self._live = live
        self._issuers = issuers
        self._warps = self._context.geometry.warps_per_block

    @cached_property
    def _locks(self) -> Locks:
        return Locks(self._program)

    def place_of(self, instruction: int, what: str, warp: int, lane: int) -> Place:
        """The place of an instruction with a lane of a warp of the launch, or of the launches that are checked together."""
        geometry = self._context.geometry
        index = block_index(warp // self._warps % geometry.blocks, geometry.grid)
        return place(self._program, instruction, what, index, thread_of(geometry, warp % self._warps, lane))

    def _only_copies(self, instruction: int) -> bool:
        return is_only_copied(self._program.instructions, instruction)

    def _access_word(self, instruction: int) -> str:
        rows = self._events.rows
        mine = rows[rows[:, Column.INSTRUCTION] == instruction]
        kinds = {Event(int(k)) for k in mine[:, Column.EVENT]}
        reduces = Event.BULK in kinds and mine[:, Column.STRONG].any()
        return "Atomic" if Event.ATOMIC in kinds or reduces else "Write" if kinds == {Event.STORE} else "Read"

    def not_awaited(self, visit: Visit) -> Finding:
        """The finding of an access to shared memory whose block may have ended."""
        word = self._access_word(visit.instruction)
        details = (
            f"{byte_of_cluster(visit.address)}, which ends without waiting for the access: it may have ended before",
            "blocks of a cluster: a cluster.sync() (barrier.cluster) after the access keeps the other block alive until then",
        )
        return Finding(
            "racecheck",
            "error",
            f"Error: Race reported between {word} access and the end of the block whose memory it is",
            (self.place_of(visit.instruction, f"{word} access", visit.warp, visit.lane),),
            details,
            1,
            visit.address,
            self._launch.number,
            self._launch.host,
        )

    def noted(self, row: npt.NDArray[np.int64], unwritten: Verdict) -> Finding:
        """The finding of a row of ``shadow.F_*``.

        Args:
            unwritten: the effect of unwritten shared memory on the results.
        """
        kind, space, address = int(row[sh.F_KIND]), int(row[sh.F_SPACE]), int(row[sh.F_ADDRESS])
        shared = space < 0
        where = f"byte {address & SHARED_OFFSETS:,} of shared memory" if shared else self._where(address)
        if space <= sh.ANY:
            where = byte_of_cluster(
                SHARED_WINDOW + ((sh.ANY - space) << SHARED_RANK_SHIFT) + (address & SHARED_OFFSETS)
            )
        if kind & sh.HAZARD == sh.UNDEFINED:
            return self._unwritten(row, unwritten, where)
        if kind & sh.HAZARD == sh.BEYOND:
            return self._beyond_constants(row)
        return self._race(row, where)

    def _race(self, row: npt.NDArray[np.int64], where: str) -> Finding:
        """The finding for two accesses that nothing orders."""
        kind, address, count = int(row[sh.F_KIND]), int(row[sh.F_ADDRESS]), int(row[sh.F_COUNT])
        unacquired, guards, narrow = kind & sh.UNACQUIRED, kind & sh.GUARDS, kind & sh.NARROW_SCOPE
        kind &= sh.HAZARD
        names = {sh.RAW: "RAW", sh.WAR: "WAR", sh.WAW: "WAW"}
        grids = self._joined.grids if self._joined is not None else 1
        launch_warps = self._context.geometry.blocks * self._warps * grids
        copy = int(row[sh.F_OTHER_WARP]) - launch_warps
        kind_of_copy = copy // self._warps
        if copy >= 0:
            number = int(row[sh.F_WARP]) // self._warps
            own = number * self._warps + copy % self._warps
            row = row.copy()
            row[sh.F_OTHER_WARP] = own if kind_of_copy == CP_ASYNC else self._issuers[number, copy]
        severity = ("error", "warning", "info")[int(row[sh.F_SEVERITY])]
        before, now = int(row[sh.F_BEFORE]), int(row[sh.F_NOW])
        lock = self._locks.around(before, now) if copy < 0 and kind in names else Lock.NO
        fenced = lock is Lock.FENCED and int(row[sh.F_OTHER_WARP]) == int(row[sh.F_WARP])
        severity = "info" if fenced else severity
        earlier = "Read" if kind == sh.WAR else self._access_word(before).replace("Read", "Write")
        reads = kind == sh.RAW or (kind == sh.UNSHOWN and severity == "error")
        later = "Read" if reads else self._access_word(now).replace("Read", "Write")
        places = (
            self.place_of(before, f"{earlier} access", int(row[sh.F_OTHER_WARP]), int(row[sh.F_OTHER_LANE])),
            self.place_of(now, f"{later} access", int(row[sh.F_WARP]), int(row[sh.F_LANE])),
        )
        if copy >= 0:
            advice = WAITS.get(kind_of_copy, WAITS[0])
        elif kind == sh.UNSHOWN:
            advice = UNSHOWN
        elif unacquired:
            advice = UNACQUIRED if severity == "info" else MAY_BE_OLD
        else:
            advice = GUARDS if guards else NARROW if narrow else self._missing_order(row, lock)
        hazard = f"{names[kind]} hazard" if kind in names else "Not shown"
        details = [f"{hazard} at {address:#x}: {where}", advice]
        of, other_of = self._device(int(row[sh.F_WARP])), self._device(int(row[sh.F_OTHER_WARP]))
        if of != other_of:
            details.append(f"the first access is of device {other_of} of the launch, the second of device {of}")
        if severity == "info" and not unacquired and not guards and not fenced:
            details.append("both wrote the same value")
        title = f"{severity.capitalize()}: Race reported between {earlier} access and {later} access"
        if kind == sh.UNSHOWN:
            title = f"{severity.capitalize()}: Missing fence.proxy.async between {earlier} access and asynchronous copy"
        elif copy >= 0:
            title = f"{severity.capitalize()}: Race reported between asynchronous {earlier} access and {later} access"
        return Finding(
            "racecheck", severity, title, places, tuple(details), count, address, self._launch.number, self._launch.host
        )

    def _device(self, warp: int) -> int:
        """Number of a warp's device in a launch on several."""
        return warp // self._warps // self._context.geometry.blocks

    def _unwritten(self, row: npt.NDArray[np.int64], unwritten: Verdict, where: str) -> Finding:
        """The finding of a read of unwritten memory."""
        space, address, count = int(row[sh.F_SPACE]), int(row[sh.F_ADDRESS]), int(row[sh.F_COUNT])
        shared = space < 0
        memory = "__shared__" if shared else "__global__"
        title = f"Uninitialized {memory} memory read of size {int(row[sh.F_BYTES])} bytes"
        byte = not shared and row[sh.F_SEVERITY] == sh.INFO
        padding = not shared and row[sh.F_SEVERITY] == sh.WARNING and self._only_copies(int(row[sh.F_NOW]))
        severity = unwritten.severity if shared else "info" if padding or byte else "error"
        one = self.place_of(int(row[sh.F_NOW]), "", int(row[sh.F_WARP]), int(row[sh.F_LANE]))
        details = [f"Address {address:#x}: {where}"]
        if shared:
            details.append(unwritten.sentence)
        else:
            inside = self._live[space]
            origins = self._launch.checker.origins if self._joined is None else self._joined.origins
            origin = origins.get(inside.address, "")
            details.append(
                f"allocated at {origin}; these bytes have not been written since"
                if origin
                else "nothing wrote these bytes"
            )
        if padding:
            details.append("they lie between written bytes and are only copied: are they padding of a structure?")
        if byte:
            details.append(
                "one of the two bytes was written: is it a value of one byte, read with the padding after it?"
            )
        return Finding(
            "initcheck",
            severity,
            title,
            (one,),
            tuple(details),
            count,
            address,
            self._launch.number,
            self._launch.host,
        )

    def _beyond_constants(self, row: npt.NDArray[np.int64]) -> Finding:
        """The finding of a read beyond the module's __constant__ variables."""
        address, count = int(row[sh.F_ADDRESS]), int(row[sh.F_COUNT])
        title = f"Invalid __constant__ read of size {int(row[sh.F_BYTES])} bytes"
        one = self.place_of(int(row[sh.F_NOW]), "", int(row[sh.F_WARP]), int(row[sh.F_LANE]))
        told = (
            f"Address {address:#x} is out of bounds",
            "it is past the end of the module's __constant__ variables; a card reads 0 there",
        )
        return Finding("memcheck", "error", title, (one,), told, count, address, self._launch.number, self._launch.host)

    def _missing_order(self, row: npt.NDArray[np.int64], lock: Lock) -> str:
        """What would order two accesses, depending on the scope that their threads share."""
        other, warp = int(row[sh.F_OTHER_WARP]), int(row[sh.F_WARP])
        if lock is Lock.UNFENCED:
            return UNFENCED_LOCK
        if lock is Lock.FENCED and other == warp:
            return FENCED_LOCK
        if other == warp:
            return "threads of one warp: __syncwarp() between the accesses orders them"
        if other // self._warps == warp // self._warps:
            syncs = "threads of one block: __syncthreads() between the accesses orders them"
            return f"{syncs}, or {A_PHASE}" if self._events.mbarriers or self._program.of_barriers else syncs
        if self._device(other) != self._device(warp):
            return (
                "threads of different devices: only multi_grid_group::sync(), an atomic or volatile flag with __threadfence_system() on both sides, "
                "or another launch, orders them"
            )
        if row[sh.F_SPACE] < 0:
            return "threads of two blocks of a cluster: cluster.sync() (barrier.cluster) between the accesses, or an mbarrier, orders them"
        return (
            "threads of different blocks: only an atomic or volatile flag with __threadfence() on both sides, "
            "or another launch, orders them"
        )

    def _where(self, address: int) -> str:
        inside = self._context.memory.find(address)
        return f"byte {address - inside.address:,} of {inside.name}" if inside is not None else "no allocation"

    def waste(self, counters: npt.NDArray[np.int64]) -> list[Finding]:
        """perfcheck: accesses that move many more bytes than they need."""
        found = []
        for index in np.flatnonzero(counters[:, sh.N_REQUESTS]):
            requests, sectors, ideal, waves, ideal_waves = (int(v) for v in counters[index])
            one = self.place_of(int(index), "", 0, 0)
            if sectors >= WASTE * ideal > 0:
                title = f"Uncoalesced access: {number_text(sectors / requests)} sectors per request, {number_text(ideal / requests)} would suffice"
                details = (f"{32 * sectors:,} bytes moved for {requests:,} requests",)
                found.append(
                    Finding(
                        "perfcheck", "warning", title, (one,), details, 1, None, self._launch.number, self._launch.host
                    )
                )
            if waves >= WASTE * ideal_waves > 0:
                title = f"Bank conflicts: {number_text(waves / requests)} wavefronts per request, {number_text(ideal_waves / requests)} would suffice"
                details = (f"{waves - ideal_waves:,} wavefronts more than needed in {requests:,} requests",)
                found.append(
                    Finding(
                        "perfcheck", "warning", title, (one,), details, 1, None, self._launch.number, self._launch.host
                    )
                )
        return found
