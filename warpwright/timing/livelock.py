"""Detects launches that never end, in simulated time: every warp repeats itself and memory does not change.

The functional engine compares whole states (``engine/jit/livelock.py``).  Here warps stop at different times, so the same state of all of them hardly recurs;
but a warp's next step follows from its own state and from memory.  So once no block has ended for a while, the warps are inspected from time to time.  The first
inspections record their states.  If each warp then runs and comes back to a recorded state (or waits at a block barrier or for an mbarrier), and does so once
more after memory has been read, and memory is still the same, nothing will ever change.

A warp that has come back is not read again until the others have, so an inspection is cheap even if thousands of warps poll, and a rare state does not delay
the proof.  A warp that makes progress, if only in a register that counts rounds, does not come back to a recorded state.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import WARP
from warpwright.engine.cycle_detection import memory_digest
from warpwright.engine.launch import LaunchContext
from warpwright.native import intrinsics
from warpwright.timing import state as s
from warpwright.timing.state import State
from warpwright.timing.state_digests import digests_of

QUIET_SECONDS = 0.5
"""Wall time without the end of a block after which warps are inspected."""
LEAST_PAUSE_SECONDS, PAUSE_SECONDS = 0.02, 0.1
"""Wall time between two inspections: ``PAUSE_SHARE`` of the time without the end of a block, within these limits."""
PAUSE_SHARE = 0.02
LOOK_SHARE = 20
"""The pause between two inspections is at least this many times the CPU time of the last one, which reads the states of all warps if they do not repeat themselves.
Reading memory, which happens once in ``LOOKS`` inspections, counts once."""
LOOKS = 16
"""Inspections, at least, between two readings of memory."""
RECORDED, MOST_RECORDED = 4, 64
"""Inspections that record states: at first, and at most.  The number doubles each time that warps do not come back to recorded states."""
PATIENCE = 32
"""Inspections within which all warps must come back."""


class Watch:
    """Inspects the warps of one machine.

    Args:
        warps: the WARP structures and save areas of all resident blocks.
        saved: by a kernel's warp function, the parts of a warp's save area that belong to its state: offset from its WARP structure and size, in bytes.
        memories: shared and local memory of all resident blocks.
    """

    def __init__(
        self,
        context: LaunchContext,
        warps: npt.NDArray[np.int64],
        saved: dict[int, list[tuple[int, int]]],
        memories: tuple[npt.NDArray[np.int64], ...],
    ) -> None:
        self.context = context
        self.warps = warps
        self.saved: dict[int, list[int]] = {
            function: [word for offset, size in parts for word in range(offset // 8, (offset + size + 7) // 8)]
            for function, parts in saved.items()
        }
        self.memories = memories
        self.forget()

    def digest(self) -> bytes:
        """Digest of all memory that warps read."""
        return memory_digest(self.context.memory, self.memories)

    def forget(self) -> None:
        """Begin again: earlier observations no longer apply."""
        self.states: list[npt.NDArray[np.uint64]] = []
        self.executed = np.zeros(0, np.int64)
        self.again()

    def again(self) -> None:
        """From now on, every warp must come back once more."""
        self.returned = np.zeros(len(self.executed), np.bool_)

    def record(self, state: State) -> None:
        """Record the state of every warp."""
        m, numbers, at = state.words, *active_warps(state)
        count = int(m[s.chip.sms]) * s.SM.fields["warps"].count
        pointers = self.pointers(m, at)
        recorded = np.zeros(count, np.uint64)
        recorded[numbers] = self.digests(pointers, m[at + s.Warp.function], self.saved)
        self.states.append(recorded)
        self.executed = np.full(count, -1)
        self.executed[numbers] = self.warps[pointers + WARP.slot("instructions")]
        self.again()

    def repeats(self, state: State) -> bool:
        """Whether every warp waits at a barrier, or has come back to a recorded state since ``again``."""
        m, numbers, at = state.words, *active_warps(state)
        pointers = self.pointers(m, at)
        executed = self.warps[pointers + WARP.slot("instructions")]
        went_on = executed != self.executed[numbers]
        at_barrier = m[at + s.Warp.barrier] != 0
        waits = at_barrier & ~went_on  # in the state in which it was found before
        read = np.flatnonzero(~waits & ~self.returned[numbers])
        found = self.digests(pointers[read], m[at[read] + s.Warp.function], self.saved)
        known = np.zeros(len(read), np.bool_)
        for recorded in self.states:
            known |= recorded[numbers[read]] == found
        held = m[at[read] + s.Warp.look] != 0  # by a try_wait, which lets it go so seldom that it need not have run
        self.returned[numbers[read]] = known & (at_barrier[read] | held | went_on[read])
        self.executed[numbers] = executed
        return bool((waits | self.returned[numbers]).all() and not at_barrier.all())

    def pointers(self, m: npt.NDArray[np.int64], at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Indices of the WARP structures of warps in ``warps``."""
        return np.asarray((m[at + s.Warp.pointer] - intrinsics.address_of(self.warps)) // 8)

    def digests(
        self, pointers: npt.NDArray[np.int64], functions: npt.NDArray[np.int64], saved: dict[int, list[int]]
    ) -> npt.NDArray[np.uint64]:
        """Digests of the states of warps, none of them 0.

        Args:
            pointers: indices of their WARP structures in ``warps``.
            functions: their warp functions.
            saved: by warp function, the words of a state beyond ``resume`` and ``exited``, counted from the WARP structure.
        """
        found = np.zeros(len(pointers), np.uint64)
        for function in np.unique(functions):
            places = np.array([WARP.slot("resume"), WARP.slot("exited"), *saved[int(function)]], np.int64)
            of_function = functions == function
            found[of_function] = digests_of(self.warps, pointers[of_function], places).view(np.uint64)
        return found | np.uint64(1)


def active_warps(state: State) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers and the places in the state of all resident warps that have not ended."""
    m, slots = state.words, s.SM.fields["warps"].count
    sms = np.flatnonzero(state.sms()[:, s.SM.resident])[:, None]
    numbers = sms * slots + np.arange(slots)
    at = int(m[s.chip.sm_first]) + sms * int(m[s.chip.sm_slots]) + s.SM.warps + np.arange(slots) * s.Warp.size
    active = m[at + s.Warp.active] != 0
    return numbers[active], at[active]


class Standstill:
    """Judges whether the launches of one machine, or of several devices together, will never end.

    One device's warps may repeat themselves because they wait for another device, so all must do so. Each inspection reads all devices, so their number does not
    delay the proof.

    Args:
        watches: one for each machine; with None the launches are not judged, because a clock or the host may end them.
        states: the machines' states.
    """

    def __init__(self, watches: Sequence[Watch | None], states: Sequence[State]) -> None:
        self.watches, self.states = watches, states
        self._done = -1
        self._since = self._next = self._read_seconds = 0.0
        self._recorded = RECORDED
        self.forget()

    def forget(self) -> None:
        """Begin again: earlier observations no longer apply."""
        self._looks = 0
        self._memory: list[bytes] = []
        for watch in self.watches:
            if watch is not None:
                watch.forget()

    def reached(self, running: Sequence[int] = (0,)) -> bool:
        """Whether no warp will ever end; called between windows, for the machines whose launches have not ended."""
        watched = [(watch, self.states[n]) for n in running if (watch := self.watches[n]) is not None]
        if len(watched) < len(running):
            return False
        now = time.monotonic()
        done = sum(int(state.words[s.chip.done_blocks]) for state in self.states)
        if done != self._done:
            self._done, self._since, self._recorded = done, now, RECORDED
            self.forget()
        if now - self._since < QUIET_SECONDS or now < self._next:
            return False
        worked, self._read_seconds = time.thread_time(), 0.0
        found = self._inspect(watched)
        pause = min(max(PAUSE_SHARE * (now - self._since), LEAST_PAUSE_SECONDS), PAUSE_SECONDS)
        looked = time.thread_time() - worked - self._read_seconds
        self._next = time.monotonic() + max(pause, LOOK_SHARE * looked, self._read_seconds)
        return found

    def _inspect(self, watched: Sequence[tuple[Watch, State]]) -> bool:
        if len(watched[0][0].states) < self._recorded:
            for watch, state in watched:
                watch.record(state)
            return False
        self._looks += 1
        repeating = [watch.repeats(state) for watch, state in watched]
        if not all(repeating):
            if self._looks > PATIENCE:
                self._recorded = min(2 * self._recorded, MOST_RECORDED)
                self.forget()
            return False
        if self._memory and self._looks < LOOKS:
            return False
        reads = time.thread_time()
        before, self._memory = self._memory, [watch.digest() for watch, _ in watched]
        self._read_seconds = time.thread_time() - reads
        self._looks = 0
        for watch, _ in watched:
            watch.again()
        if before and before != self._memory:
            self.forget()
        return before == self._memory
