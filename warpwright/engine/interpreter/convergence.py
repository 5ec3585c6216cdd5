"""Groups of a warp's lanes: which group runs, which groups wait, and which runs next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.engine.interpreter.gather_scatter import mask_bits, mask_dtype

YIELDS_BEFORE_ALL_TAKE_TURNS = 4
"""Ensures that spinning lanes and lanes that yielded before them do not wait for each other forever."""
RUNNING, AT_WARPSYNC, AT_BARRIER, AT_CLUSTER = -1, 16, 17, 18
"""What a lane waits for: nothing, B register 0..15, a WARPSYNC, a block barrier, its cluster's barrier."""


def lane_mask(bits: int, lanes: int) -> npt.NDArray[np.bool_]:
    """An integer mask as booleans."""
    return np.unpackbits(np.frombuffer(bits.to_bytes(lanes // 8, "little"), np.uint8), bitorder="little").astype(
        np.bool_
    )


class Groups:
    """The lanes of one warp, in groups.

    ``pcs`` int64 [lanes] as instruction indices, ``exited`` bool and ``waiting`` [lanes], ``barriers`` [16, lanes] masks.
    """

    def __init__(self, exited: npt.NDArray[np.bool_], collective: frozenset[int]) -> None:
        self.lanes = len(exited)
        self.pcs = np.zeros(self.lanes, np.int64)
        self.exited = exited
        self.collective = collective
        """WARPSYNCs whose lanes meet with those of other WARPSYNCs."""
        self.barriers = np.zeros((16, self.lanes), mask_dtype(self.lanes))
        self.waiting = np.full(self.lanes, RUNNING)
        self.sync_masks = np.zeros(self.lanes, mask_dtype(self.lanes))
        self.stack: list[tuple[int, npt.NDArray[np.bool_]]] = [(0, ~exited)]
        """Runnable groups: instruction index and lanes; the last one runs first."""
        self.apart = False
        """Whether the last one was pushed after the last choice from the stack: it then runs alone, while those below
        another one are joined."""
        self.going: tuple[int, npt.NDArray[np.bool_]] | None = None
        """The group that continues without waiting."""
        self.yielded = np.zeros(self.lanes, np.bool_)
        self.yields = 0
        """Lanes of groups that yielded and have not run since."""

    def count(self, pc: int, lanes: npt.NDArray[np.bool_]) -> None:
        """Count an instruction that the lanes execute when they are released."""
        raise NotImplementedError

    def push(self, pc: int, lanes: npt.NDArray[np.bool_]) -> None:
        """Queue a group to run before all others."""
        self.stack.append((pc, lanes))
        self.apart = True

    def ready(self, lanes: npt.NDArray[np.bool_]) -> None:
        """Lanes no longer wait: queue a group for each instruction at which they are; the last one continues if no
        other does."""
        groups = [(pc, lanes & (self.pcs == pc)) for pc in sorted({int(pc) for pc in self.pcs[lanes]})]
        if self.going is None:
            self.going = groups.pop()
        for pc, part in groups:
            self.push(pc, part)

    def release(self, arriving: npt.NDArray[np.bool_] | None = None) -> bool:
        """Push the lanes whose convergence barrier or WARPSYNC is complete; returns whether there were any.

        ``arriving``: lanes that have just arrived, if only their convergence point is to be tested; a WARPSYNC that
        they alone complete is not executed again.
        """
        dead, gave_way = mask_bits(self.exited), mask_bits(self.yielded | (self.waiting == AT_WARPSYNC))
        found = False
        asked = self.waiting if arriving is None else self.waiting[arriving]
        for number in sorted({int(n) for n in asked} - {RUNNING, AT_BARRIER, AT_CLUSTER}):
            here = self.waiting == number
            masks = self.sync_masks if number == AT_WARPSYNC else self.barriers[number]
            leaving = np.zeros(self.lanes, np.bool_)
            excused = dead if number == AT_WARPSYNC else dead | gave_way
            groups = [here & (masks == wanted) for wanted in {int(v) for v in masks[here]}]
            if number == AT_WARPSYNC:
                groups = [part for group in groups for part in self.met(group)]
            for group in groups:
                wanted = int(masks[group][0])
                if wanted & ~excused & ~mask_bits(group) == 0:
                    leaving |= group
                    if number != AT_WARPSYNC:
                        # Lanes that yielded no longer wait for others there.
                        masks[~leaving & (masks == wanted)] = 0
            if not leaving.any():
                continue
            found = True
            if number == AT_WARPSYNC:
                for pc in {int(pc) for pc in self.pcs[leaving]}:
                    here = leaving & (self.pcs == pc)
                    if arriving is None or not arriving[here].all():
                        self.count(pc, here)
            self.waiting[leaving] = RUNNING
            self.pcs[leaving] += 1
            self.ready(leaving)
        return found

    def let_go(self) -> None:
        """Push the lanes at BSYNCs for which no lane is missing any more, because others left by BREAK or EXIT; they
        execute the BSYNC again."""
        dead = mask_bits(self.exited)
        for pc in sorted({int(pc) for pc in self.pcs[(self.waiting >= 0) & (self.waiting < AT_WARPSYNC)]}):
            here = (self.pcs == pc) & (self.waiting >= 0) & (self.waiting < AT_WARPSYNC)
            masks = self.barriers[int(self.waiting[here][0])]
            leaving = np.zeros(self.lanes, np.bool_)
            for wanted in {int(v) for v in masks[here]}:
                group = here & (masks == wanted)
                if wanted & ~dead & ~mask_bits(group) == 0:
                    leaving |= group
            if leaving.any():
                self.waiting[leaving] = RUNNING
                self.push(pc, leaving)

    def met(self, group: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.bool_]]:
        """Lanes with the same mask that wait at a WARPSYNC, grouped by those that meet: at one address, or at
        COLLECTIVE ones."""
        apart = [self.pcs == pc for pc in {int(p) for p in self.pcs[group]} - self.collective]
        together = group & ~np.logical_or.reduce([np.zeros(self.lanes, np.bool_), *apart])
        return [group & place for place in apart] + ([together] if together.any() else [])

    def give_way(self, pc: int, lanes: npt.NDArray[np.bool_], yields: bool) -> bool:
        """Let another group continue; returns False if none can.

        If all other groups have yielded as well, NANOSLEEP lets lanes continue that wait at a BSYNC only for such groups.
        YIELD does not wake groups that yielded themselves, except every ``YIELDS_BEFORE_ALL_TAKE_TURNS``th time; the
        group released first continues first (``bench/micro/spins.cu``, cas_once).
        """
        self.yields += yields
        patient = yields and self.yields % YIELDS_BEFORE_ALL_TAKE_TURNS
        # Groups that have yielded are below all others.
        all_yielded = bool(self.stack) and bool(self.yielded[self.stack[-1][1]].all())
        self.yielded |= lanes
        if self.stack and not (patient and all_yielded):
            self.stack.insert(0, (pc, lanes))
            if all_yielded and not yields:
                self.release()
            return True
        self.push(pc, lanes)
        return self.release()

    def choose(self) -> tuple[int, npt.NDArray[np.bool_]] | None:
        """(instruction index, lanes) of the next group, or None.

        A group that others were pushed on top of is joined by all lanes at its instruction: those on the stack and
        those that wait there at a BSYNC, which they execute again (``bench/micro/divergence.cu``, count_leaves and
        leave_apart).
        """
        if self.going is None and not self.stack:
            self.release()
        if self.going is not None:
            pc, group = self.going
            self.going = None
        elif self.stack:
            pc, group = self.stack.pop()
            group = group if self.apart else self.join(pc, group)
            self.apart = False
        else:
            return None
        self.yielded &= ~group
        return pc, group

    def turns(self) -> list[tuple[int, npt.NDArray[np.bool_]]]:
        """The runnable groups, in order."""
        return [*([] if self.going is None else [self.going]), *reversed(self.stack)]

    def join(self, pc: int, group: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """All lanes that are at an instruction; they stop waiting."""
        mates = [lanes for other, lanes in self.stack if other == pc]
        self.stack = [entry for entry in self.stack if entry[0] != pc]
        waits = (self.waiting >= 0) & (self.waiting < AT_WARPSYNC) & (self.pcs == pc)
        self.waiting[waits] = RUNNING
        return np.logical_or.reduce([group, waits, *mates])
