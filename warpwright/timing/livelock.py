"""Detects launches that never end, in simulated time: every warp repeats itself and memory does not change.

The functional engine compares whole states (``engine/jit/livelock.py``).  Here warps stop at different times, so the same state of all of them hardly recurs;
but a spinning warp runs through few states, and its next step follows from its state and from memory. So once no block has ended for a while, the warps are
inspected from time to time. If in many consecutive inspections every warp has continued (or waits at a block barrier or for an mbarrier) and was in a state
that it had been in before, and memory is the same at the beginning and the end of that time, nothing will ever change.
"""

from __future__ import annotations

import ctypes
import hashlib
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import SPILL_HEADER_BYTES, WARP
from warpwright.engine.cycle_detection import memory_digest
from warpwright.engine.launch import LaunchContext
from warpwright.timing import state as s
from warpwright.timing.state import State

QUIET_SECONDS = 0.5
"""Wall time without the end of a block after which warps are inspected."""
LEAST_PAUSE_SECONDS, PAUSE_SECONDS = 0.02, 0.1
"""Wall time between two inspections: ``PAUSE_SHARE`` of the time without the end of a block, within these limits."""
PAUSE_SHARE = 0.02
LOOK_SHARE = 20
"""The pause between two inspections is at least this many times the duration of the last one, because thousands of warps are read one by one."""
LOOKS = 16
"""Consecutive inspections that must find nothing new, before memory is read and again after it."""


@dataclass(slots=True)
class _Past:
    """What is known about a warp since the last end of a block."""

    instructions: int = -1
    digests: set[bytes] = field(default_factory=set)


class Watch:
    """Judges the launches of a machine.

    Args:
        saved: by a kernel's warp function, the offset of a warp's save area from its WARP structure and its size, in bytes.
        memories: shared and local memory of all resident blocks.
    """

    def __init__(
        self,
        context: LaunchContext,
        saved: dict[int, tuple[int, int]],
        memories: tuple[npt.NDArray[np.int64], ...],
    ) -> None:
        self.context = context
        self.saved = {
            function: (offset + SPILL_HEADER_BYTES, max(0, size - SPILL_HEADER_BYTES))
            for function, (offset, size) in saved.items()
        }
        self.memories = memories
        self.blocks_done = -1
        self.since = self.looked = 0.0
        self.pause = LEAST_PAUSE_SECONDS
        self.forget()

    def digest(self) -> bytes:
        """Digest of all memory that warps read."""
        return memory_digest(self.context.memory, self.memories)

    def forget(self) -> None:
        """Begin again: what has been seen means nothing any more."""
        self.past: dict[int, _Past] = {}
        self.streak = 0
        self.memory = b""

    def never_ends(self, state: State) -> bool:
        """Whether no warp will ever end; called between windows."""
        now = time.monotonic()
        done = int(state.words[s.chip.done_blocks])
        if done != self.blocks_done:
            self.blocks_done, self.since = done, now
            self.forget()
        if now - self.since < QUIET_SECONDS or now - self.looked < self.pause:
            return False
        repeats = self.repeats(state)
        self.looked = time.monotonic()
        pause = min(max(PAUSE_SHARE * (now - self.since), LEAST_PAUSE_SECONDS), PAUSE_SECONDS)
        self.pause = max(pause, LOOK_SHARE * (self.looked - now))
        if not repeats:
            self.streak, self.memory = 0, b""
            return False
        self.streak += 1
        if self.streak < LOOKS:
            return False
        self.streak = 0
        before, self.memory = self.memory, self.digest()
        return before == self.memory

    def repeats(self, state: State) -> bool:
        """Whether every warp has continued into a state that it has been in before; also records the states."""
        m = state.words
        repeats, running = True, False
        for sm, slot in state.active_warps():
            w = s.SM(sm).warps[slot]
            pointer = int(m[s.Warp(w).pointer])
            past = self.past.setdefault(pointer, _Past())
            at_barrier = bool(m[s.Warp(w).barrier])
            executed = ctypes.c_int64.from_address(pointer + WARP["instructions"]).value
            if at_barrier and executed == past.instructions:
                continue  # in the state in which it was found before
            fields = np.ctypeslib.as_array((ctypes.c_int64 * (WARP.size_bytes // 8)).from_address(pointer))
            digest = hashlib.blake2b(fields[[WARP.slot("resume"), WARP.slot("exited")]].tobytes(), digest_size=16)
            kept_at, kept_bytes = self.saved[int(m[s.Warp(w).function])]
            digest.update(ctypes.string_at(pointer + kept_at, kept_bytes))
            found = digest.digest()
            held = bool(m[s.Warp(w).look])  # by a try_wait, which lets it go so seldom that it need not have run
            repeats &= found in past.digests and (at_barrier or held or executed != past.instructions)
            running |= not at_barrier
            past.digests.add(found)
            past.instructions = executed
        return repeats and running
