"""Detects launches that never end, in simulated time: every warp repeats itself and memory does not change.

The functional engine compares whole states (``engine/jit/livelock.py``).  Here warps stop at different times, so the same state of all of them hardly recurs;
but a warp's next step follows from its own state and from memory.  So once no block has ended for a while, the warps are inspected from time to time.  If each
of them has continued and come back to a state in which it was found before (or waits at a block barrier or for an mbarrier), and memory is the same at the
beginning and the end of that time, nothing will ever change.  A warp that has come back need not be read again in that time, so that an inspection is cheap
even if thousands of warps poll, and a state that is seldom met does not delay the proof.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import SPILL_HEADER_BYTES, WARP
from warpwright.engine.cycle_detection import memory_digest
from warpwright.engine.launch import LaunchContext
from warpwright.native import intrinsics
from warpwright.timing import state as s
from warpwright.timing.state import State

QUIET_SECONDS = 0.5
"""Wall time without the end of a block after which warps are inspected."""
LEAST_PAUSE_SECONDS, PAUSE_SECONDS = 0.02, 0.1
"""Wall time between two inspections: ``PAUSE_SHARE`` of the time without the end of a block, within these limits."""
PAUSE_SHARE = 0.02
LOOK_SHARE = 20
"""The pause between two inspections is at least this many times the CPU time of the last one, which reads the states of all warps if they do not repeat themselves."""
LOOKS = 16
"""Inspections, at least, between two readings of memory."""
KEPT_STATES = 32
"""States of a warp to which it may come back: those of the last inspections."""
CHUNK_WORDS = 1 << 18
"""Words of saved state that are digested at once, which the host's caches hold."""


class Watch:
    """Inspects the warps of one machine.

    Args:
        warps: the WARP structures and save areas of all resident blocks.
        saved: by a kernel's warp function, the offset of a warp's save area from its WARP structure and its size, in bytes.
        memories: shared and local memory of all resident blocks.
    """

    def __init__(
        self,
        context: LaunchContext,
        warps: npt.NDArray[np.int64],
        saved: dict[int, tuple[int, int]],
        memories: tuple[npt.NDArray[np.int64], ...],
    ) -> None:
        self.context = context
        self.warps = warps
        self.saved = {
            function: ((offset + SPILL_HEADER_BYTES) // 8, max(0, size - SPILL_HEADER_BYTES + 7) // 8)
            for function, (offset, size) in saved.items()
        }
        self.memories = memories
        self.forget()

    def digest(self) -> bytes:
        """Digest of all memory that warps read."""
        return memory_digest(self.context.memory, self.memories)

    def forget(self) -> None:
        """Begin again: what has been seen means nothing any more."""
        self.looks = 0
        self.executed = self.returned = np.zeros(0, np.int64)
        self.states = np.zeros((0, 0), np.uint64)

    def repeats(self, state: State) -> bool:
        """Whether every warp waits at a barrier or has come back to an earlier state since ``forget``; also records the states."""
        m, numbers, at = state.words, *_active_warps(state)
        if not self.looks:
            count = int(m[s.chip.sms]) * s.SM.fields["warps"].count
            self.executed, self.returned = np.full(count, -1), np.zeros(count, np.bool_)
            self.states = np.zeros((KEPT_STATES, count), np.uint64)
        pointers = (m[at + s.Warp.pointer] - intrinsics.address_of(self.warps)) // 8
        executed = self.warps[pointers + WARP.slot("instructions")]
        went_on = executed != self.executed[numbers]
        at_barrier = m[at + s.Warp.barrier] != 0
        waits = at_barrier & ~went_on  # in the state in which it was found before
        read = np.flatnonzero(~waits & ~self.returned[numbers])
        found = self._digests(pointers[read], m[at[read] + s.Warp.function])
        known = (self.states[:, numbers[read]] == found).any(axis=0)
        held = m[at[read] + s.Warp.look] != 0  # by a try_wait, which lets it go so seldom that it need not have run
        self.returned[numbers[read]] = known & (at_barrier[read] | held | went_on[read])
        self.states[self.looks % KEPT_STATES, numbers[read]] = found
        self.executed[numbers] = executed
        self.looks += 1
        return bool((waits | self.returned[numbers]).all() and not at_barrier.all())

    def _digests(self, pointers: npt.NDArray[np.int64], functions: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Digests of the states of warps, none of them 0; ``pointers``: the indices of their WARP structures in ``warps``."""
        found = np.zeros(len(pointers), np.uint64)
        for function in np.unique(functions):
            offset, size = self.saved[int(function)]
            places = np.array([WARP.slot("resume"), WARP.slot("exited"), *range(offset, offset + size)])
            factors = _factors(len(places))
            of_function = np.flatnonzero(functions == function)
            for part in np.array_split(of_function, len(of_function) * len(places) // CHUNK_WORDS + 1):
                words = self.warps[pointers[part][:, None] + places].view(np.uint64)
                words ^= words >> np.uint64(32)
                words *= factors
                words ^= words >> np.uint64(29)
                found[part] = words.sum(axis=1, dtype=np.uint64)
        return found | np.uint64(1)


def _factors(count: int) -> npt.NDArray[np.uint64]:
    """Odd multipliers, one for each word of a state."""
    return np.random.Generator(np.random.PCG64(count)).integers(0, 1 << 64, count, np.uint64) | np.uint64(1)


def _active_warps(state: State) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers and the places in the state of all resident warps that have not ended."""
    m, slots = state.words, s.SM.fields["warps"].count
    sms = np.flatnonzero(state.sms()[:, s.SM.resident])[:, None]
    numbers = sms * slots + np.arange(slots)
    at = int(m[s.chip.sm_first]) + sms * int(m[s.chip.sm_slots]) + s.SM.warps + np.arange(slots) * s.Warp.size
    active = m[at + s.Warp.active] != 0
    return numbers[active], at[active]


class Standstill:
    """Judges whether the launches of one machine, or of several devices together, will never end.

    One device's warps may repeat themselves because they wait for another device, so all must do so.  An inspection begins with the device that ended the last
    one, because it repeats nothing yet, and ends with the first that does not repeat itself.

    Args:
        watches: one for each machine; with None the launches are not judged, because a clock or the host may end them.
        states: the machines' states.
    """

    def __init__(self, watches: Sequence[Watch | None], states: Sequence[State]) -> None:
        self.watches, self.states = watches, states
        self._done = -1
        self._since = self._next = 0.0
        self._memory: list[bytes] = []
        self._first = self._looks = 0

    def _forget(self) -> None:
        self._first = self._looks = 0
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
            self._done, self._since, self._memory = done, now, []
            self._forget()
        if now - self._since < QUIET_SECONDS or now < self._next:
            return False
        worked = time.thread_time()
        found = self._inspect(watched)
        pause = min(max(PAUSE_SHARE * (now - self._since), LEAST_PAUSE_SECONDS), PAUSE_SECONDS)
        self._next = time.monotonic() + max(pause, LOOK_SHARE * (time.thread_time() - worked))
        return found

    def _inspect(self, watched: Sequence[tuple[Watch, State]]) -> bool:
        self._looks += 1
        first = self._first % len(watched)
        for turn in range(len(watched)):
            watch, state = watched[(first + turn) % len(watched)]
            if not watch.repeats(state):
                self._first = first + turn
                return False
        if self._looks < LOOKS:
            return False
        before, self._memory = self._memory, [watch.digest() for watch, _ in watched]
        self._forget()
        return before == self._memory
