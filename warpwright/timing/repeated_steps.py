"""Skips steps of an untimed rest (``untimed_rest.py``) that only repeat themselves, such as the unrolled barriers of microbenchmarks.

The warps of an untimed rest run in turns, in a fixed order, so what they do follows from their own state, from their blocks' barriers and from memory.  If after some turns all of these are
as they were before, and every warp has advanced by the same number of copies of code that repeats itself (``engine/jit/repeated_code.py``), the same turns will do the same again, as long as
copies are left.  Instead of running them, the warps' copy numbers, their counts of instructions and the clock are advanced: results, counts and times are the same.

This requires that no copy depends on its number: constants that grow from copy to copy may only be addresses of code.  Nor may a warp read a clock in these turns, because it would stop before the read.
Recurring states are found by Brent's algorithm; the warps of one SM are compared first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import TURNS_AT, WARP, Status
from warpwright.engine.jit.repeated_code import Repeats, Run, repeats_of
from warpwright.isa.effects import Effect, register_effects
from warpwright.isa.ops import Lowered
from warpwright.timing import state as s
from warpwright.timing.livelock import Watch, active_warps
from warpwright.timing.simulate import Prepared, watch_of
from warpwright.timing.unchanged_launches import may_be_unchanged

FIRST_TURNS = 8
"""Turns after the first untimed step from which states are compared."""
MOST_TURNS = 1 << 11
"""Turns after which a period is no longer looked for."""
MOST_MEMORY_BYTES = 1 << 26
"""Memory that kernels can write, which is digested whenever the warps' states recur."""
JUMPS = ("RET", "BRX", "JMX")
"""Opcodes that do nothing with a register but jump to the address in it."""
_COUNTS = (WARP.slot("instructions"), WARP.slot("thread_instructions"))
"""Of a warp's structure: counts that grow from step to step without determining anything."""
_AT_STOPS = tuple(
    WARP.slot(name)
    for name in ("barrier_id", "barrier_threads", "barrier_mode", "barrier_lanes", "barrier_vote", "barrier_result")
)
"""Of a warp's structure: the barrier or warp-wide operation that it has stopped at."""
_OF_MODEL = (s.Warp.status, s.Warp.barrier, s.Warp.block)
"""Of a warp in the cycle model's state: the rest of what decides when it runs again."""


@dataclass(frozen=True, slots=True)
class _State:
    """A launch between two turns."""

    key: tuple[bytes, ...]
    """All that determines how it continues, except for memory and the copy numbers."""
    places: npt.NDArray[np.int64]
    """Index of each warp's structure WARP."""
    copies: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    """Warp and thread instructions of each warp, shape (warps, 2)."""
    steps: int
    """Untimed steps so far."""
    clock: int
    """Cycle at which the last of them ended."""
    corrected: int
    """Cycles by which they differ from the pattern."""


class RepeatedSteps:
    """Looks at a launch after each turn of its untimed rest, until its steps have been skipped."""

    def __init__(self, launch: Prepared, watch: Watch, run: Run) -> None:
        self._launch, self._watch, self._run = launch, watch, run
        at = launch.space.parts[0].spill_offset
        self._copy = (at + launch.grids[0].kernel.saved_positions.copy) // 8
        function = launch.grids[0].kernel.address
        lasting = [word for word in watch.saved[function] if word != self._copy]
        self._words = {function: [*lasting, (at + TURNS_AT) // 8, *_AT_STOPS]}
        self._turns = 0
        self._first = self._memory = b""
        self._seen: _State | None = None

    def goes_on(self) -> bool:
        """Whether to look again after the next turn: not once steps have been skipped, or if a period is no longer looked for."""
        if int(self._launch.state.words[s.chip.rest_steps]) == 0:
            return True
        self._turns += 1
        if self._reads_clocks():
            self._seen = None
        if self._turns >= FIRST_TURNS and self._turns & (self._turns - 1) == 0:
            self._first, self._seen = self._digest_first(), self._look()
            self._memory = self._watch.digest()
        elif self._seen is not None and self._digest_first() == self._first:
            now = self._look()
            # Memory is read only if all else is as it was.
            if now.key == self._seen.key and self._watch.digest() == self._memory and self._skip(self._seen, now):
                return False
        return self._turns < MOST_TURNS

    def _reads_clocks(self) -> bool:
        """Whether the next thing that some warp does is to read a clock."""
        _, at = active_warps(self._launch.state)
        return bool((self._launch.state.words[at + s.Warp.status] == Status.CLOCK).any())

    def _digest_first(self) -> bytes:
        """Digest of the warps of the first SM that has active ones."""
        numbers, at = active_warps(self._launch.state)
        slots = s.SM.fields["warps"].count
        at = at[numbers // slots == numbers[0] // slots] if len(numbers) else at
        return self._digests(at)

    def _digests(self, at: npt.NDArray[np.int64]) -> bytes:
        m = self._launch.state.words
        return self._watch.digests(self._watch.pointers(m, at), m[at + s.Warp.function], self._words).tobytes()

    def _look(self) -> _State:
        state = self._launch.state
        m, (numbers, at) = state.words, active_warps(state)
        places = self._watch.pointers(m, at)
        blocks = state.sms()[:, s.SM.blocks : s.SM.blocks + s.MAX_BLOCKS * s.BlockSlot.size]
        key = (
            numbers.tobytes(),
            self._digests(at),
            m[at[:, None] + np.array(_OF_MODEL)].tobytes(),
            blocks.tobytes(),
            m[[s.chip.rest_work, s.chip.grid_bit]].tobytes(),
            (int(m[s.chip.rest_steps]) % int(m[s.chip.pattern_steps])).to_bytes(8, "little"),
        )
        warps = self._watch.warps
        counts = warps[places[:, None] + np.array(_COUNTS)]
        steps, clock, corrected = m[[s.chip.rest_steps, s.chip.rest_clock, s.chip.rest_corrected]].tolist()
        return _State(key, places, warps[places + self._copy].copy(), counts, steps, clock, corrected)

    def _skip(self, before: _State, now: _State) -> bool:
        """Skip as many periods as there are copies for; returns False if ``before`` and ``now``, whose keys are equal, are not a period apart."""
        further = now.copies - before.copies
        if not len(further) or further[0] <= 0 or (further != further[0]).any():
            return False
        m, warps = self._launch.state.words, self._watch.warps
        periods = int((self._run.copies - 1 - now.copies.max()) // further[0])
        warps[now.places + self._copy] += periods * further
        warps[now.places[:, None] + np.array(_COUNTS)] += periods * (now.counts - before.counts)
        # A step's time follows from its work and its place in the pattern, which both recur.
        m[s.chip.rest_steps] += periods * (now.steps - before.steps)
        m[s.chip.rest_clock] += periods * (now.clock - before.clock)
        m[s.chip.rest_corrected] += periods * (now.corrected - before.corrected)
        return True


def repeated_steps(launch: Prepared) -> RepeatedSteps | None:
    """The object that skips steps of a launch's untimed rest; None if they cannot be skipped."""
    grid = launch.grids[0]
    if grid.kernel.saved_positions.copy < 0 or not may_be_unchanged(grid.context):
        return None
    if sum(size for _, size in grid.context.memory.writable()) > MOST_MEMORY_BYTES:
        return None
    found = repeats_of(grid.program, grid.lowered)
    if found is None or len(found.runs) != 1 or _copies_differ(found, found.runs[0]):
        return None
    return RepeatedSteps(launch, launch.watch or watch_of(launch.grids, launch.space), found.runs[0])


def _copies_differ(made: Repeats, run: Run) -> bool:
    """Whether what a copy does, or code that lies between two copies on some path, depends on the copy's number."""
    successors = [tuple(block.successors) for block in made.blocks]
    own = {b.number for b in made.blocks if run.first <= made.index_of(b) < run.first + run.length}
    if not any(op.name == "copy_const" for n in own for low in _lowered_of(made, n) for op in low.ops):
        return False
    between = _reachable(own, successors) & _reachable(own, _reversed(successors)) | own
    # Registers that hold an address of the copy, such as one to return to, at the beginning of each block.
    held: dict[int, set[Effect]] = {n: set() for n in between}
    waiting = sorted(between)
    while waiting:
        number = waiting.pop()
        leaving = _addresses_after(made, number, run, held[number])
        if leaving is None:
            return True
        for one in successors[number]:
            if one in between and not leaving <= held[one]:
                held[one] |= leaving
                waiting.append(one)
    return False


def _addresses_after(made: Repeats, number: int, run: Run, held: set[Effect]) -> set[Effect] | None:
    """The registers that hold an address of the copy after a block; None if such an address is used for anything but a jump, or another value depends on the copy."""
    found = set(held)
    block = made.blocks[number]
    for index in range(block.first, block.first + block.count):
        low = made.lowered[index]
        reads, writes = register_effects(low)
        grows = [op for op in low.ops if op.name == "copy_const"]
        if reads & found and made.program.instructions[index].opcode not in JUMPS:
            return None
        if grows and (
            any(op.attr[1] != run.bytes for op in grows)
            or not all(op.name in ("const", "copy_const") or op.name.startswith("set_") for op in low.ops)
        ):
            return None
        if low.guard is None:
            found -= writes
        if grows:
            found |= writes
    return found


def _lowered_of(made: Repeats, number: int) -> Sequence[Lowered]:
    block = made.blocks[number]
    return made.lowered[block.first : block.first + block.count]


def _reversed(successors: Sequence[Iterable[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in successors]
    for number, following in enumerate(successors):
        for one in following:
            found[one].append(number)
    return found


def _reachable(first: Iterable[int], successors: Sequence[Iterable[int]]) -> set[int]:
    """Blocks that are reachable from the ``first`` ones, including these."""
    found, waiting = set(first), list(first)
    while waiting:
        for one in successors[waiting.pop()]:
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found
