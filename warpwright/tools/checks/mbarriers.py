"""mbarriers under racecheck: who waits for a phase learns what preceded the arrivals of that phase, and of earlier ones.

A thread that still waits for a phase may run after other threads have arrived at the next one. It has not synchronised with those arrivals, even if the word
that it reads was written by them, because in another run it would have read an earlier value. So each mbarrier keeps the arrivals of the phase that is not
complete apart from those of all complete ones, and a test passes on only the latter.

A warp of a checked launch stops before every operation of an mbarrier (``engine/kernels.with_mbarriers``), so the object in memory is then the result of the
operation that has just been executed, and shows whether that operation has completed the phase.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import SHARED_WINDOW
from warpwright.engine.blocks import MBARRIER, PHASE
from warpwright.isa import mbarrier as mb
from warpwright.isa.program import Program
from warpwright.isa.sass import meaning_mbarrier as sm_80
from warpwright.isa.sass.mbarrier_code import FIRST_WITH_SYNCS, is_mbarrier, tests_phase
from warpwright.tools.checks.happens_before import EMPTY, BlockClocks, Clock

Lanes = dict[int, npt.NDArray[np.int64]]
"""By warp of the block, the epoch of the last arrival of each lane."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The ``mbarrier.init`` of an object."""

    warp: int
    """Of its block."""
    epoch: int
    instruction: int
    again: bool
    """Whether the object was in use before."""

    def precedes(self, clocks: BlockClocks, warp: int) -> bool:
        """Whether what a warp of the block does now is ordered after it."""
        return warp == self.warp or int(clocks.known[warp, self.warp]) > self.epoch


@dataclass(slots=True)
class Mbarrier:
    """An mbarrier of a resident block."""

    value: int
    """The object after the last operation."""
    complete: Clock = EMPTY
    """What preceded the arrivals of all phases that are complete."""
    pending: Clock = EMPTY
    """What preceded the arrivals of the phase that is not."""
    complete_lanes: Lanes = field(default_factory=dict)
    pending_lanes: Lanes = field(default_factory=dict)
    told: dict[int, Clock] = field(default_factory=dict)
    """By warp of the block, ``complete`` at its last test."""
    begun: Beginning | None = None
    """None if the operation that initialised it is not known."""

    def arrive(self, clock: Clock) -> None:
        """What precedes an arrival, or a copy that completes bytes of the phase."""
        self.pending = self.pending.joined(clock)

    def arrive_lanes(self, clocks: BlockClocks, warp: int, lanes: int) -> None:
        """Lanes of a warp of its own block arrive."""
        row = self.pending_lanes.setdefault(warp, np.zeros(clocks.lanes.shape[1], np.int64))
        row[clocks.numbers(lanes)] = clocks.epochs[warp]

    def become(self, value: int, ends: bool) -> None:
        """The object has changed to ``value``; ``ends``: its phase is complete."""
        self.value = value
        if not ends:
            return
        self.complete, self.pending = self.complete.joined(self.pending), EMPTY
        for warp, row in self.pending_lanes.items():
            before = self.complete_lanes.get(warp)
            self.complete_lanes[warp] = row if before is None else np.maximum(before, row)
        self.pending_lanes = {}

    def tested(self, clocks: BlockClocks, warp: int, lanes: int) -> None:
        """Lanes of a warp of its block test the phase."""
        if self.told.get(warp) is not self.complete:
            self.told[warp] = self.complete
            clocks.learn(warp, self.complete)
        if (row := self.complete_lanes.get(warp)) is not None:
            clocks.lanes_learn(warp, lanes, row)


class Mbarriers:
    """The mbarriers of a resident block, by word of its shared memory."""

    def __init__(self, architecture: int) -> None:
        self._has_syncs = architecture >= FIRST_WITH_SYNCS
        self.objects: dict[int, Mbarrier] = {}

    def begin(self, word: int, value: int, clocks: BlockClocks, warp: int, instruction: int) -> None:
        """A warp's ``mbarrier.init``: earlier phases of an object at the same place mean nothing to its users."""
        begun = Beginning(warp, int(clocks.epochs[warp]), instruction, word in self.objects)
        self.objects[word] = Mbarrier(value, begun=begun)

    def signalled(self, before: Clock, shared: npt.NDArray[np.uint8]) -> None:
        """A store has completed bytes of a phase (``st.async``); which object it signals shows in shared memory.

        Args:
            before: what precedes the store.
        """
        for word, found in self.objects.items():
            now = mbarrier_at(shared, word)
            if now != found.value:
                found.arrive(before)
                found.become(now, bool((found.value ^ now) & mb.PHASE))

    def at(self, word: int, value: int, arrivals: int) -> tuple[Mbarrier, bool]:
        """The object that an operation has changed, and whether its phase is complete.

        Args:
            value: of the object after the operation.
            arrivals: threads that arrived.
        """
        found = self.objects.get(word)
        if self._has_syncs:
            if found is None:
                found = self.objects[word] = Mbarrier(value & ~mb.PHASE)
            return found, bool((found.value ^ value) & mb.PHASE)
        # Before sm_90 an initialisation is a plain store; it shows in a value that does not follow from the last one. A new object is in phase 0.
        if found is None:
            found = self.objects[word] = Mbarrier(0)
        ends = bool((found.value ^ value) & mb.PHASE)
        if not ends and arrived_80(found.value, arrivals) != value:
            ends = bool(value & mb.PHASE)
        return found, ends


def mbarrier_at(shared: npt.NDArray[np.uint8], word: int) -> int:
    """The object at an address of a block's shared memory."""
    offset = word - SHARED_WINDOW
    return int(shared[offset : offset + 8].view(np.uint64)[0])


def arrived_80(word: int, arrivals: int) -> int:
    """An sm_80 object after arrivals: the meaning of ``ATOMS.ARRIVE`` (``isa/sass/meaning_mbarrier.py``), on Python integers."""
    for _ in range(arrivals):
        word = sm_80.arrived_80(word)
    return word


def unrecorded(program: Program) -> dict[int, str]:
    """Operations of mbarriers of which the checks need a record and timing has none, or before which a timed warp does not stop: ``PHASE`` or ``MBARRIER`` by
    index of the instruction."""
    tests = dict.fromkeys(tests_phase(program), PHASE)
    if program.arch >= FIRST_WITH_SYNCS:
        return tests
    return {n: MBARRIER for n, i in enumerate(program.instructions) if is_mbarrier(i)} | tests
