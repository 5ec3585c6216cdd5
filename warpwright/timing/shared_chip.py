"""Results of a launch that shared the chip with others: its time, instructions and stall reasons.

Counters of units that launches share (caches, DRAM, ports) belong to none of them and are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.chips.chip import Chip
from warpwright.timing import metrics as metrics_module
from warpwright.timing import state as s
from warpwright.timing.interface import TimingResult
from warpwright.timing.state import State


@dataclass(slots=True)
class TimedGrid:
    """One of several launches, in cycles of their common clock."""

    begin: int
    """When its launch began, before its overhead."""
    end: int
    result: TimingResult
    instructions: int
    thread_instructions: int


def timed_grid(state: State, chip: Chip, number: int, first_pc: int, instructions: int) -> TimedGrid:
    """A launch's part of what a machine has counted; its instructions are from ``first_pc`` on."""
    m, k = state.words, state.kernel(number)
    begin, end = int(m[k.begins]), int(m[k.finish])
    cycles = end - begin
    issues, waits = (part[first_pc : first_pc + instructions].copy() for part in metrics_module.by_instruction(state))
    reasons = metrics_module.stalls(issues, waits)
    log, blocks = int(m[k.block_log]), min(int(m[k.blocks]), int(m[k.logged_blocks]))
    clock = chip.clocks.sm_clock_mhz * 1e6
    executed, threads = int(m[k.instructions]), int(m[k.thread_instructions])
    result = TimingResult(
        cycles=cycles,
        seconds=cycles / clock,
        metrics={
            "gpc__cycles_elapsed.max": float(cycles),
            "gpu__time_duration.sum": cycles / clock * 1e9,
            "sm__inst_executed.sum": float(executed),
            "smsp__inst_executed.sum": float(executed),
            "smsp__thread_inst_executed.sum": float(threads),
        },
        bottleneck="it shared the chip with other launches: what limits it alone is known when it runs alone",
        bounds={},
        stalls=reasons,
        instruction_issues=issues,
        instruction_stall_cycles=waits.sum(axis=1),
        instruction_stalls=waits,
        blocks=m[log : log + blocks * s.LoggedBlock.size].reshape(blocks, s.LoggedBlock.size).copy(),
    )
    return TimedGrid(begin, end, result, executed, threads)
