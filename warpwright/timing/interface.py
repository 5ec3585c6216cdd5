"""The interface of the timing model: its inputs and results.

::

    result = simulate(chip, Grid(program, lowered, kernel, context), Supervision(threads=1))

``chip``      a :class:`warpwright.chips.Chip`
``program``   the decoded kernel (control bits, operands)
``lowered``   its common operations, one :class:`warpwright.isa.ops.Lowered` per instruction: distinguishes memory accesses,
              barriers and strong accesses
``kernel``    the compiled warp function with tracing on (:class:`TracedKernel`)
``context``   the launch's :class:`warpwright.engine.launch.LaunchContext` (LAUNCH structure, geometry)

How the host runs the launch, its threads and callbacks, is a :class:`Supervision`; cycles and results do not depend on it.

Blocks are created, run and ended by the timing model itself: it owns the BLOCK and WARP structures,
shared and local memory of resident blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from warpwright.engine.abi import Status
from warpwright.engine.blocks import BasicBlock
from warpwright.engine.lane_positions import SavedPositions


class TracedKernel(Protocol):
    """A kernel compiled with tracing on."""

    @property
    def address(self) -> int: ...  # of the native function  int32 f(WARP *)

    @property
    def spill_bytes(self) -> int: ...  # size of a warp's save area, zeroed before the launch

    @property
    def trace_words(self) -> int: ...  # what it may write beyond the limit of its record buffer

    @property
    def judged(self) -> bool: ...  # whether a warp's next step follows from its state and memory alone (no clocks)

    @property
    def saved_positions(self) -> SavedPositions: ...  # what a warp's save area holds

    @property
    def has_policies(self) -> bool: ...  # whether accesses name access policies of their own

    @property
    def blocks(self) -> Sequence[BasicBlock]: ...  # by the number that block records carry


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a timed launch."""

    phase: str
    """``model`` (the model itself is compiled, once on a machine, or loaded) or ``running``."""
    cycles: int = 0
    blocks_done: int = 0
    blocks: int = 0
    instructions: int = 0


class TimingError(RuntimeError):
    """A launch that cannot continue in simulated time; ``warps`` holds the warps concerned."""

    def __init__(
        self,
        message: str,
        status: Status | None = None,
        warps: Sequence[Mapping[str, int]] = (),
        waiting_blocks: int = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        """FAULT, TRAP, DEADLOCK … as the warp function returned; None for a deadlock among warps."""
        self.warps = list(warps)
        """Fields of engine/abi.py's WARP (fault_kind, fault_address, …), the block's index (``block_x`` …) and what it waits for."""
        self.waiting_blocks = waiting_blocks
        """For warps that only repeat themselves: how many blocks of the machine's only launch have not begun."""


class TimingCancelled(TimingError):
    """``cancel`` stopped the launch; ``warps`` holds those that were resident."""


ProgressCallback = Callable[[Progress], None]
CancelCallback = Callable[[], bool]
InterpretCallback = Callable[[int], int]
Saver = Callable[[Any, Callable[[], bool]], None]
"""Runs a machine to its end by calling its second argument, which runs some windows, until that is False; it looks at the machine, its first
argument, between them: checkpoints."""


class NotesReads(Protocol):
    """Records which memory a launch reads (``read_pieces.py``)."""

    def attach(self, state: Any) -> None:
        """A machine that runs the launch alone is about to begin."""


@dataclass(frozen=True, slots=True)
class Supervision:
    """How the host runs a timed launch."""

    threads: int = 1
    """Host threads."""
    progress: ProgressCallback | None = None
    """Called about five times a second."""
    cancel: CancelCallback | None = None
    """Called equally often; true stops the launch (:class:`TimingCancelled`)."""
    interpret: InterpretCallback | None = None
    """Called with a WARP pointer when its function returned ``INTERPRET``; returns the new status."""
    saver: Saver | None = None
    """Runs the machine's windows in place of the model."""
    reads: NotesReads | None = None
    """Records what a launch that is timed in full reads of memory."""


ALONE = Supervision()
"""One host thread and no callbacks."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a sampled launch timed, and the expected error of its cycles."""

    timed_blocks: int
    blocks: int
    timed_instructions: int
    """Warp instructions."""
    instructions: int
    sections: int
    """Stretches of the grid that were timed."""
    share: float
    """Share of the chip on which they were timed, with its share of L2, crossbar and DRAM; 1 for the whole chip."""
    expected_error: float
    """Expected relative error of ``cycles`` against full timing."""
    timed_steps: int = 0
    """Number of timed steps of a grid that repeats the same step between its barriers; 0 if blocks were sampled instead."""
    steps: int = 0
    """Number of all its steps."""
    spread: float = 0.0
    """Difference in cycles, relative to the mean, between the longest and the shortest of the timed steps from which the others are estimated."""

    def __str__(self) -> str:
        if self.timed_steps:
            return (
                f"estimated from {self.timed_steps:,} of {self.steps:,} steps between grid barriers, which differ by "
                f"{100 * self.spread:.1f}%, expected error {100 * self.expected_error:.1f}%"
            )
        return (
            f"estimated from {self.timed_blocks:,} of {self.blocks:,} blocks, expected error "
            f"{100 * self.expected_error:.1f}%"
        )


ALMOST_ALL_ATOMICS = 0.95
"""If one line has at least this share of a slice's atomics, the text does not mention the others."""


@dataclass(frozen=True, slots=True)
class BusiestSlice:
    """The L2 slice whose atomics took the most time; a slice executes its atomics one by one."""

    slice: int
    """Its number."""
    requests: int
    """Atomics that it executed, one for each line and instruction of a warp."""
    passes: int
    """Passes over lines: for each sector, the largest number of lanes of the warp on the same word."""
    cycles: float
    """Time of the slice for all of them but the last."""
    address: int
    """Device address of the line with the most atomics."""
    line_bytes: int
    line_requests: int
    """Atomics on this line, at least: a slice counts only those on its most recent lines."""

    def __str__(self) -> str:
        each = self.passes / self.requests
        lanes = f", {each:.3g} lanes of a warp on one word in turn" if each >= 2 else ""
        alone = self.line_requests >= ALMOST_ALL_ATOMICS * self.requests
        lines = "one line" if alone else "several lines"
        most = "" if alone else f"; the busiest line has {self.line_requests:,}"
        return (
            f"slice {self.slice} of L2 executes {self.requests:,} atomics on {lines} of {self.line_bytes} bytes one by one "
            f"({self.cycles / max(self.requests - 1, 1):.3g} cycles each{lanes}{most})"
        )


@dataclass(slots=True)
class TimingResult:
    """Cycles of one launch, and how they were spent."""

    cycles: int
    """``gpc__cycles_elapsed.max``: launch overhead, blocks, drain."""
    seconds: float
    metrics: dict[str, float]
    """By Nsight Compute's names."""
    bottleneck: str
    """One sentence."""
    bounds: dict[str, float]
    """Closed-form lower bounds in cycles (``bounds.py``)."""
    busiest_slice: BusiestSlice | None = None
    """None if L2 executed no atomics, and for sampled launches."""
    stalls: dict[str, int] = field(default_factory=dict)
    """Warp-cycles between issues by reason, with Nsight Compute's words; ``selected`` counts issues."""
    sm: dict[str, Any] = field(default_factory=dict)
    """Arrays by SM (shape (sm_count,), int64): active cycles, instructions, blocks."""
    instruction_issues: Any = None
    """Times each instruction was issued, shape (instructions,), int64."""
    instruction_stall_cycles: Any = None
    """Warp-cycles spent waiting before each instruction, shape (instructions,), int64."""
    instruction_stalls: Any = None
    """The same by reason, shape (instructions, reasons), int64; columns in the order of ``stalls``."""
    blocks: Any = None
    """SM, start and end (cycles) of each block of the grid, shape (blocks, 3), int64; of a large grid the first ones."""
    wall_seconds: float = 0.0
    """Host time of the simulation."""
    cpu_seconds: float = 0.0
    """CPU time of the thread that simulated; all of it with ``threads=1``."""
    sampling: Sampling | None = None
    """Of a sampled launch: cycles and counters are then estimates."""
