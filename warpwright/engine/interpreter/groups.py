"""Where the lanes of a warp stand: who runs, who waits for whom, and which group goes next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.engine.interpreter.memory import mask_bits

LANES = 32
YIELDS_BEFORE_ALL_TAKE_TURNS = 1024
"""So that who spins and who gave way before cannot wait for each other for ever."""
RUNNING, AT_WARPSYNC, AT_BARRIER, AT_CLUSTER = -1, 16, 17, 18
"""What a lane waits for: nothing, B register 0..15, a WARPSYNC, a block barrier, its cluster's barrier."""


def lane_mask(bits: int) -> npt.NDArray[np.bool_]:
    """An integer mask as 32 booleans."""
    return (bits >> np.arange(LANES) & 1).astype(np.bool_)


class Groups:
    """The lanes of one warp by groups.

    ``pcs`` int64 (32,) as instruction indices, ``exited`` bool and ``waiting`` (32,), ``barriers`` uint32 (16, 32).
    """

    def __init__(self, exited: npt.NDArray[np.bool_], collective: frozenset[int]) -> None:
        self.pcs = np.zeros(LANES, np.int64)
        self.exited = exited
        self.collective = collective
        """WARPSYNCs at which lanes of different ones meet."""
        self.barriers = np.zeros((16, LANES), np.uint32)
        self.waiting = np.full(LANES, RUNNING)
        self.sync_masks = np.zeros(LANES, np.uint32)
        self.stack: list[tuple[int, npt.NDArray[np.bool_]]] = [(0, ~exited)]
        """Groups that could run: instruction index and lanes; the last goes first."""
        self.yielded = np.zeros(LANES, np.bool_)
        self.yields = 0
        """Lanes of groups that gave way and have not run since."""

    def count(self, pc: int, lanes: npt.NDArray[np.bool_]) -> None:
        """Count an instruction that the lanes execute as they are released."""
        raise NotImplementedError

    def ready(self, lanes: npt.NDArray[np.bool_]) -> None:
        """Push lanes that no longer wait, a group for each instruction at which they stand."""
        for pc in sorted({int(pc) for pc in self.pcs[lanes]}):
            self.stack.append((pc, lanes & (self.pcs == pc)))

    def release(self, arriving: npt.NDArray[np.bool_] | None = None) -> bool:
        """Push the lanes whose convergence barrier or WARPSYNC is complete; True when there were some.

        ``arriving``: lanes that have just arrived, when only their convergence point is asked; a WARPSYNC that they
        alone complete is not run again.
        """
        dead, gave_way = mask_bits(self.exited), mask_bits(self.yielded | (self.waiting == AT_WARPSYNC))
        found = False
        asked = self.waiting if arriving is None else self.waiting[arriving]
        for number in sorted({int(n) for n in asked} - {RUNNING, AT_BARRIER, AT_CLUSTER}):
            here = self.waiting == number
            masks = self.sync_masks if number == AT_WARPSYNC else self.barriers[number]
            leaving = np.zeros(LANES, np.bool_)
            excused = dead if number == AT_WARPSYNC else dead | gave_way
            groups = [here & (masks == wanted) for wanted in {int(v) for v in masks[here]}]
            if number == AT_WARPSYNC:
                groups = [part for group in groups for part in self.met(group)]
            for group in groups:
                wanted = int(masks[group][0])
                if wanted & ~excused & ~mask_bits(group) == 0:
                    leaving |= group
                    if number != AT_WARPSYNC:
                        # Who gave way no longer waits for anybody there.
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

    def met(self, group: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.bool_]]:
        """Lanes of one mask that wait at a WARPSYNC, by those that have met: at one place, or at COLLECTIVE ones."""
        apart = [self.pcs == pc for pc in {int(p) for p in self.pcs[group]} - self.collective]
        together = group & ~np.logical_or.reduce([np.zeros(LANES, np.bool_), *apart])
        return [group & place for place in apart] + ([together] if together.any() else [])

    def give_way(self, pc: int, lanes: npt.NDArray[np.bool_], yields: bool) -> bool:
        """Let another group go on; False when none can.

        YIELD does not wake groups that gave way themselves, but every ``YIELDS_BEFORE_ALL_TAKE_TURNS``th time: who was let go first goes
        on first (``bench/micro/spins.cu``, cas_once).
        """
        self.yields += yields
        patient = yields and self.yields % YIELDS_BEFORE_ALL_TAKE_TURNS
        self.yielded |= lanes
        if self.stack and not (patient and self.yielded[self.stack[-1][1]].any()):
            self.stack.insert(0, (pc, lanes))
            return True
        self.stack.append((pc, lanes))
        return self.release()

    def choose(self) -> tuple[int, npt.NDArray[np.bool_]] | None:
        """(instruction index, lanes) of the next group, or None."""
        if not self.stack:
            self.release()
        if not self.stack:
            return None
        pc, group = self.stack.pop()
        self.yielded &= ~group
        return pc, group
