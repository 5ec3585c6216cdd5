"""What a launch returns: its cycles, counters and report; and its progress while it runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from warpwright import html_tables
from warpwright.chips import Chip, Occupancy
from warpwright.engine.geometry import Dim3
from warpwright.errors import UNTIMED, MetricNotFoundError, UnsupportedError
from warpwright.isa.machine_code import FIRST_FERMI
from warpwright.isa.program import Program
from warpwright.isa.schedule import SCOREBOARD_NOTE
from warpwright.library_times import LibraryTime
from warpwright.quantity_text import share_text, time_text
from warpwright.ranges import Origin
from warpwright.repeatable_launch import Repeat

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from warpwright.api import GPU
    from warpwright.timing.interface import Sampling, TimingResult
    from warpwright.tools.report.attribution import Attribution


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a running launch, for display."""

    kernel: str
    phase: str
    """``compiling`` (the kernel, for the host), ``interpreting`` (until compiling it pays off), ``model`` (waits for the cycle model, which is compiled once on a machine) or
    ``running``."""
    seconds: float
    """Host time since the launch began."""
    blocks_done: int
    blocks: int
    cycles: int = 0
    """Simulated cycles so far; 0 with timing off."""
    finished: bool = False
    idle_seconds: float = 0.0
    """Host time since the number of ended blocks was last seen to change."""
    instructions: int = 0
    """In the kernel's machine code; the time of compiling grows with them."""
    waited_seconds: float = 0.0
    """Host time before the first block ran, while the kernel was compiled or the launch waited for the cycle model."""
    longest_gap_seconds: float = 0.0
    """Longest host time so far between two changes of the number of ended blocks."""
    together: bool = False
    """Whether all blocks run at once, so that the first ones that end do not show when the others will."""


class Metrics(dict[str, float]):
    """Counters by Nsight Compute's names; an unknown name raises an error that lists similar ones."""

    def __missing__(self, name: str) -> float:
        near = difflib.get_close_matches(name, self, n=3, cutoff=0.5)
        hint = f"; nearest: {', '.join(near)}" if near else "; run.metrics lists what there is"
        raise MetricNotFoundError(f"this run has no metric {name!r}{hint}")


@dataclass(slots=True)
class Run:
    """The results of one launch: cycles, counters, findings.

    ``cycles``, ``seconds`` and ``bottleneck`` belong to timing="full"; without timing they raise
    :class:`UnsupportedError`.
    """

    kernel: str
    chip: str
    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int
    registers: int
    """Per thread."""
    shared_bytes: int
    """Per block, static and dynamic."""
    resident: Occupancy
    """Blocks that an SM holds at once, and what bounds them."""
    instructions: int
    """Warp-instructions executed."""
    thread_instructions: int
    wall_seconds: float
    """Host time of the launch without compiling."""
    compile_seconds: float
    timing: TimingResult | None = None
    sm_clock_mhz: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=Metrics)
    """By Nsight Compute's names."""
    device: Chip | None = field(default=None, repr=False)
    """The chip's record."""
    program: Program | None = field(default=None, repr=False)
    """The decoded kernel, for reports by instruction and source line."""
    origin: Origin | None = None
    """The ranges, the module and the operator that the program made it in, where they are noted (``run --report``)."""
    library: LibraryTime | None = None
    """For a launch from a drop-in library under ``--library-model``: the measured ratio that its time is multiplied by."""
    repeated: bool = False
    """True if an earlier launch began in the same state and this one reuses its time (``timing/timing_cache.py``)."""
    skipped: bool = False
    """True if, in addition, it was not executed: an earlier launch found the same memory and left it as it was (``timing/unchanged_launches.py``)."""
    timed_in_full: str = ""
    """With ``timing="sampled"``: why the launch was timed in full; empty if it was sampled, or if only the size of its grid prevents that."""
    caches: str = "cold"
    """``"kept"`` if it found in L2 what earlier launches, copies and fills had left; ``"cold"`` if it began with empty caches, as a sampled launch always does."""
    gpu_number: int = 0
    """Number of its GPU among the program's devices."""
    children: list[Run] = field(default_factory=list, repr=False)
    """Launches made by the kernel, in order; they ran after it."""
    gpu_type: type[GPU] | None = field(default=None, repr=False)
    """Makes a GPU like the one on which it ran; None for a run of another process."""
    repeat: Repeat | None = field(default=None, repr=False, compare=False)
    """Launches again with the same arguments; None for a run of another process or of a program's own driver calls."""
    why_untimed: str = field(default=UNTIMED, repr=False, compare=False)
    """For a run without timing: why, and what to do."""

    def _timed(self, what: str) -> TimingResult:
        if self.timing is None:
            raise UnsupportedError(f"this run of {self.kernel} has no {what}: {self.why_untimed}")
        return self.timing

    @property
    def cycles(self) -> int:
        """SM cycles from launch to the end of the last block (``gpc__cycles_elapsed.max``)."""
        return self._timed("cycles").cycles

    @property
    def seconds(self) -> float:
        """Simulated time of the kernel, or of NVIDIA's library in its place (``library``)."""
        ratio = self.library.ratio if self.library is not None else None
        return self._timed("seconds").seconds * (1.0 if ratio is None else ratio)

    @property
    def seconds_with_children(self) -> float:
        """Simulated time of the kernel and of all kernels that it launched, in sequence."""
        return self.seconds + sum(child.seconds_with_children for child in self.children)

    @property
    def bottleneck(self) -> str:
        """One sentence that names what limits the kernel."""
        return self._timed("bottleneck").bottleneck

    @property
    def sampling(self) -> Sampling | None:
        """The timed part of a sampled launch and its expected error; None if every block was timed, or none."""
        return self.timing.sampling if self.timing is not None else None

    @property
    def schedule(self) -> str:
        """What decided when instructions may issue: ``"control bits"`` of the machine code, or a ``"scoreboard"`` (PTX executed directly, and G80's machine code)."""
        return "control bits" if self.program is None or self.program.control_bits else "scoreboard"

    @property
    def schedule_note(self) -> str:
        """A note on the origin of the cycles; empty if they are those of machine code."""
        ptx = self.timing is not None and self.schedule == "scoreboard" and self.program is not None
        return SCOREBOARD_NOTE if ptx and self.program is not None and self.program.arch >= FIRST_FERMI else ""

    @property
    def timed(self) -> bool:
        """True if the run has cycles."""
        return self.timing is not None

    @property
    def shared(self) -> bool:
        """True if other launches shared the chip: the run then has a time, instructions and stall reasons, but no counters of caches or DRAM."""
        return self.timing is not None and not self.timing.sm

    @property
    def occupancy(self) -> float:
        """Theoretical occupancy: the fraction, 0 to 1, of an SM's warp slots that this launch can fill."""
        return self.resident.fraction

    @property
    def ipc(self) -> float:
        """Warp-instructions per cycle of the whole chip."""
        return self.instructions / max(1, self.cycles)

    @property
    def simulation_speed(self) -> float:
        """Warp-instructions simulated per second of host time."""
        return self.instructions / self.wall_seconds if self.wall_seconds > 0 else 0.0

    def attribution(self) -> Attribution:
        """Where the cycles went: stall reasons, cost per instruction and line, utilisation of each unit, and the limit.

        Raises:
            UnsupportedError: the GPU was made with timing="off".
        """
        from warpwright.tools.report.attribution import attribute

        return attribute(self)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "",
        what_if: Callable[[GPU], object] | None = None,
        baseline: Run | str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write a self-contained HTML page that shows the launch.

        Args:
            what_if: a function that repeats the launch, with its arrays, on the GPU that it is passed.  With it, the page
                ranks the resources that may limit the launch by the cycles that relieving each of them saves.
            baseline: an earlier run, one on another chip, or a file of ``warpwright run --json``, which the page shows beside this one.

        Raises:
            UnsupportedError: the GPU was made with timing="off", or the baseline cannot be read or has no cycles.
        """
        from warpwright.tools.report.comparison import compared_with
        from warpwright.tools.report.page import write_report
        from warpwright.tools.report.relieved import ranked

        rankings = {0: ranked(what_if, self)} if what_if is not None else {}
        comparison = None if baseline is None else compared_with(baseline, [self])
        return write_report(path, [self], title=title, rankings=rankings, comparison=comparison)

    def to_dict(self) -> dict[str, Any]:
        """Return the launch as one flat row: geometry, time and every counter by Nsight Compute's name.

        ``pandas.DataFrame([run.to_dict() for run in gpu.launches])`` is the table of all launches.
        """
        from warpwright.tools.export import launch_record

        return launch_record(self)

    def _repr_html_(self) -> str:
        rows = [
            ("grid, block", f"{self.grid}, {self.block}"),
            ("registers per thread", f"{self.registers}"),
            ("occupancy", share_text(self.occupancy)),
            ("warp instructions", f"{self.instructions:,}"),
        ]
        if self.timing is not None:
            estimate = f" ({self.sampling})" if self.sampling is not None else ""
            rows.insert(0, ("cycles", f"{self.cycles:,}{estimate}"))
            scale = f", {self.library}" if self.library is not None else ""
            rows.insert(1, ("time", f"{time_text(self.seconds)}{scale}"))
            if self.schedule_note:
                rows.insert(2, ("timed", self.schedule_note))
            rows.append(("bound by", self.bottleneck))
        table = html_tables.table(f"{self.kernel} on {self.chip}", rows)
        if self.timing is None or self.shared or self.program is None or self.device is None:
            return table
        from warpwright.tools.report.page import report_html

        return table + html_tables.frame(f"Report of {self.kernel} on {self.chip}", report_html([self]))

    def __repr__(self) -> str:
        timed = f", {self.cycles:,} cycles" if self.timing is not None else ""
        if self.sampling is not None:
            timed += f" ({self.sampling})"
        if self.schedule_note:
            timed += " by a scoreboard"
        return f"<run of {self.kernel} on {self.chip}, grid {self.grid}, block {self.block}{timed}>"
