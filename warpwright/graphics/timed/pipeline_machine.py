"""Runs a batch of draws on the machine: stages, SM controllers and the SMs of the timing model, window by window.

In each window, the stages first advance as far as known results allow (``stages.py``), the controllers start the warps that are ready, the SMs run
(``timing/windows.py``), and the warps that have ended pass on their results. Memory requests of a window are answered after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from warpwright.chips import load_chip
from warpwright.chips.chip import Chip
from warpwright.errors import WarpwrightError
from warpwright.graphics.timed import stages
from warpwright.graphics.timed.capture import ProgramRun
from warpwright.graphics.timed.compute_work import Distributor, KernelTime, KernelWork
from warpwright.graphics.timed.sm_controllers import COMPUTE, Controller, LoadBalance, Needs, Waiting
from warpwright.graphics.timed.work import (
    COARSE,
    DISTRIBUTION,
    GEOMETRY,
    GRAPHICS_KINDS,
    INPUT,
    PIXEL,
    SETUP,
    UNKNOWN,
    VERTEX,
    Pipe,
    Rates,
    Records,
    Work,
    new_pipe,
    running,
)
from warpwright.timing import metrics, stage_work, warming, windows
from warpwright.timing import state as s
from warpwright.timing.block_sources import Grid
from warpwright.timing.policies import Policies
from warpwright.timing.simulate import Prepared, prepare

_KIND_STAGES = (VERTEX, GEOMETRY, PIXEL)
RESIDENT_SAMPLES = 128
"""Number of times in a batch at which warps are counted."""


class GraphicsDeadlock(WarpwrightError, RuntimeError):
    """A batch of draws that cannot continue."""


def rates_of(chip: Chip) -> Rates:
    """The chip's numbers in cycles of the SMs' clock."""
    g = chip.graphics
    core = chip.clocks.sm_clock_mhz / g.core_clock_mhz
    return Rates(
        core,
        core / g.front_end_words_per_clk,
        core / g.clip_primitives_per_clk,
        core / g.setup_primitives_per_clk,
        core / g.coarse_raster_tiles_per_clk,
        core * g.raster_tile_pixels_count**2 / g.zcull_pixels_per_clk,
        core * 4 / g.fine_raster_pixels_per_clk,
        core * 4 / g.rop_pixels_per_clk,
        core * 4 / g.rop_depth_pixels_per_clk,
        core / g.distribution_quads_per_clk,
        core * g.fixed_stage_latency_cycles,
        len(chip.sm.gpc_sm_counts),
        chip.l2.l2_slice_count,
        g.vertex_buffer_warps_count,
        g.pixel_queue_warps_count,
        chip.l1.sector_bytes,
    )


def for_graphics(chip: Chip) -> Chip:
    """The chip as graphics warps see it: CTA limits do not apply to them."""
    return load_chip(
        chip,
        max_blocks_per_sm=chip.sm.max_warps_per_sm,
        named_barriers_per_sm_count=max(chip.sm.named_barriers_per_sm_count, chip.sm.max_warps_per_sm),
    )


@dataclass(slots=True)
class BatchResult:
    """The times of a batch, in cycles of the SMs' clock; rows are its draws."""

    cycles: float
    labels: list[str]
    first: npt.NDArray[np.float64]
    last: npt.NDArray[np.float64]
    busy: npt.NDArray[np.float64]
    waits: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    instructions: npt.NDArray[np.int64]
    """(draws, kinds): number of warps."""
    warp_cycles: npt.NDArray[np.float64]
    """(draws, kinds): cycles for which warps were resident."""
    warps: npt.NDArray[np.int64]
    resident: npt.NDArray[np.float64]
    """(samples, 1 + kinds): a time, and the number of warps of each kind running then."""
    units: dict[str, float] = field(default_factory=dict)
    """Counters of the units that all draws share."""
    kernels: list[KernelTime] = field(default_factory=list)
    """Kernels that ran beside the draws."""


class _Machine:
    """The timing model's machine with the grids of a batch, whose blocks stages and the compute work distributor start."""

    def __init__(
        self,
        chip: Chip,
        runs: list[ProgramRun],
        kernels: list[KernelWork],
        kept: dict[str, npt.NDArray[np.int64]],
    ) -> None:
        grids = [Grid(run.program, run.made.lowered, run.made.traced, run.context) for run in runs]
        grids += [kernel.grid for kernel in kernels]
        count = len(grids)
        if len(grids) == 1:
            # The dispatcher distinguishes one launch from several; a pipeline counts as several.
            grids = grids * 2
        self.chip = chip
        self.prepared: Prepared = prepare(chip, grids, Policies())
        state = self.prepared.state
        self.m = state.words
        self.kernels = [state.kernel(n) for n in range(count)]
        for number in range(len(grids)):
            k = state.kernel(number)
            self.m[k.next_block], self.m[k.arrived] = self.m[k.blocks], 1
        self.m[s.chip.begun], self.m[s.chip.next_arrival], self.m[s.chip.pauses] = 1, s.INF, 1
        limit = int(self.m[s.chip.texture_latency])
        self.m[s.chip.window] = min(int(self.m[s.chip.window]), limit) if limit else self.m[s.chip.window]
        self.window = int(self.m[s.chip.window])
        for area, words in kept.items():
            self.m[state.areas[area] : state.areas[area] + len(words)] = words
        self.needs = [Needs(1, int(self.m[k.registers])) for k in self.kernels[: len(runs)]]
        self.needs += [
            Needs(int(self.m[k.warps_per_block]), int(self.m[k.registers]), int(self.m[k.shared_need]), 1)
            for k in self.kernels[len(runs) :]
        ]
        self._log = [int(self.m[k.block_log]) for k in self.kernels]

    @property
    def now(self) -> int:
        return int(self.m[s.chip.now])

    def start(self, rows: list[tuple[int, int, int, int]]) -> None:
        if rows:
            given = np.array(rows, np.int64)
            stage_work.start_warps(self.m, given, len(rows))

    def run(self, pause: float) -> None:
        """Run windows up to a time; at least one."""
        self.m[s.chip.pause_at] = int(min(max(pause, self.now + self.window), 1 << 60))
        self.m[s.chip.known_ended] = self.m[s.chip.ended_kernels]
        outcome = int(windows.run_windows(self.m, self.prepared.static.rows, 1))
        if outcome == warming.STOPPED:
            from warpwright.timing.simulate import handle_stop

            handle_stop(self.prepared.state, None)

    def skip_to(self, time: float) -> None:
        """Skip to a time before which nothing runs."""
        self.m[s.chip.now] = max(self.now, int(time))

    def log_place(self, grid: int, block: int) -> int:
        return self._log[grid] + block * s.LoggedBlock.size

    def pass_traffic(self, traffic: stages.Traffic) -> None:
        count = int(traffic.used[0])
        if count:
            stage_work.stage_traffic(self.m, traffic.rows, count)

    def kept_areas(self) -> dict[str, npt.NDArray[np.int64]]:
        """The contents of the texture caches for the next batch, whose clock begins at 0."""
        state, found = self.prepared.state, {}
        units, words = state.areas["texture_units"], int(self.m[s.chip.texture_unit_words])
        gpcs = len(self.chip.sm.gpc_sm_counts)
        part = self.m[units : units + gpcs * words].reshape(gpcs, words).copy()
        part[:, : s.TextureUnit.size] = 0
        part[:, s.TextureUnit.size + s.T_FILL :: s.T_WORDS] = 0
        part[:, s.TextureUnit.size + s.T_STAMP :: s.T_WORDS] -= self.now
        found["texture_units"] = part.reshape(-1)
        size = self.chip.l2.l2_slice_count * int(self.m[s.chip.texture_l2_sets] * self.m[s.chip.texture_l2_ways])
        first = state.areas["texture_l2"]
        second = self.m[first : first + size * s.T_WORDS].copy().reshape(-1, s.T_WORDS)
        second[:, s.T_FILL] = 0
        second[:, s.T_STAMP] -= self.now
        found["texture_l2"] = second.reshape(-1)
        return found

    def counters(self) -> dict[str, float]:
        m, state = self.m, self.prepared.state
        units, words = state.areas["texture_units"], int(m[s.chip.texture_unit_words])
        rows = m[units : units + len(self.chip.sm.gpc_sm_counts) * words].reshape(-1, words)
        channels = m[state.areas["dram_state"] :][: self.chip.dram.dram_channel_count * s.Channel.size].reshape(
            -1, s.Channel.size
        )
        size = self.chip.l1.sector_bytes
        issues, _ = metrics.by_instruction(state)
        table = self.prepared.static.rows[: len(issues) * s.Instruction.size].reshape(len(issues), -1)
        pipe, held = table[:, s.Instruction.pipe], issues * table[:, s.Instruction.interval]
        either = float(held[np.isin(pipe, (s.P_FMA, s.P_FMA_LITE))].sum()) / 2
        return {
            "SP busy cycles": float(held[np.isin(pipe, (s.P_ALU, s.P_FMA_HEAVY))].sum()) + either,
            "SFU busy cycles": float(held[pipe == s.P_XU].sum()) + either,
            "texture busy cycles": float(rows[:, s.TextureUnit.busy].sum()) / 256,
            "texture quads": float(rows[:, s.TextureUnit.quads].sum()),
            "texture hits": float(rows[:, s.TextureUnit.hits].sum()),
            "texture misses": float(rows[:, s.TextureUnit.misses].sum()),
            "texture L2 misses": float(rows[:, s.TextureUnit.l2_misses].sum()),
            "DRAM bytes read": float(channels[:, s.Channel.sectors_read].sum()) * size,
            "DRAM bytes written": float(channels[:, s.Channel.sectors_written].sum()) * size,
        }


class Batch:
    """One batch in progress."""

    def __init__(
        self,
        chip: Chip,
        work: Work,
        runs: list[ProgramRun],
        balance: LoadBalance,
        kept: dict[str, npt.NDArray[np.int64]],
        kernels: list[KernelWork],
    ) -> None:
        self.work, self.runs, self.rates = work, runs, rates_of(chip)
        self.pipe: Pipe = new_pipe(len(work.draws), self.rates.clusters, self.rates.partitions)
        self.traffic = stages.new_traffic()
        self.machine = _Machine(for_graphics(chip), runs, kernels, kept) if runs or kernels else None
        self.distributor = Distributor(chip, kernels, len(runs))
        limits = Needs(
            chip.sm.max_warps_per_sm,
            chip.sm.registers_per_sm,
            1024 * chip.shared.shared_carveout_kib[-1],
            chip.sm.max_blocks_per_sm,
        )
        self.controllers: list[Controller] = []
        first = 0
        for count in chip.sm.gpc_sm_counts:
            sms = list(range(first, first + count))
            self.controllers.append(Controller(sms, limits, balance))
            first += count
        self._graphics: tuple[Records, ...] = (work.vertex_warps, work.geometry_warps, work.pixel_warps)
        self._records: tuple[Records, ...] = (*self._graphics, self.distributor.records)
        self._seen = [0] * len(GRAPHICS_KINDS)
        self._resident: list[tuple[int, int, int, int, int]] = []
        """Kind, record number, cluster, SM, and position in the log."""

    # --- controllers ----------------------------------------------------------------------------------
    def _queue_ready(self) -> None:
        """Queue the warps that stages have created at their clusters' controllers."""
        made = (int(self.pipe.next[INPUT]), int(self.pipe.next[GEOMETRY]), int(self.pipe.next[PIXEL]))
        for kind, end in enumerate(made):
            records = self._records[kind]
            for n in range(self._seen[kind], end):
                one = records[n]
                waiting = Waiting(float(one["ready"]), int(one["grid"]), int(one["block"]), n)
                self.controllers[int(one["cluster"])].queues[kind].append(waiting)
            self._seen[kind] = end

    def _start(self, until: float) -> int:
        """Start the warps that are ready and have room; returns how many."""
        assert self.machine is not None
        rows = []
        now = self.machine.now
        for cluster, controller in enumerate(self.controllers):
            while True:
                kind = controller.next(until)
                if kind < 0:
                    break
                grid = controller.queues[kind][0].grid
                needs = self.machine.needs[grid]
                sm = controller.room_for(needs)
                if sm < 0:
                    break
                one = controller.take(kind, sm, needs)
                ready = one.ready
                if kind == 2:
                    self.pipe.queued[cluster] -= 1
                elif kind == COMPUTE:
                    ready = self.distributor.begin(one.record, sm, ready, needs.warps)
                begin = max(int(np.ceil(ready)), now)
                self._records[kind]["start"][one.record] = begin
                rows.append((grid, one.block, sm, begin))
                self._resident.append((kind, one.record, cluster, sm, self.machine.log_place(grid, one.block)))
        self.machine.start(rows)
        return len(rows)

    def _start_all(self, until: float) -> int:
        """Start warps, and blocks of kernels as long as clusters take them; returns how many."""
        assert self.machine is not None
        started = 0
        if not self.distributor.done:
            draws_left = not self._drawn()
            for controller in self.controllers:
                controller.draws_left = draws_left
        while True:
            fed = self.distributor.feed(self.controllers, self.machine.needs, self.machine.now, until)
            started += self._start(until)
            if not fed:
                return started

    def _collect(self) -> None:
        """Collect the warps that ended in the last window."""
        assert self.machine is not None
        if not self._resident:
            return
        places = np.array([place for *_, place in self._resident]) + s.LoggedBlock.end
        ends = self.machine.m[places]
        ended = np.flatnonzero(ends > 0)
        for n in ended[np.argsort(ends[ended], kind="stable")].tolist():
            kind, record, cluster, sm, _ = self._resident[n]
            records = self._records[kind]
            records["end"][record] = float(ends[n])
            self.controllers[cluster].give_back(kind, sm, self.machine.needs[int(records["grid"][record])])
            if kind == 2:
                stages.rop_warp(self.work, self.rates, self.pipe, record, self.traffic)
            elif kind == COMPUTE:
                self.distributor.ended(float(ends[n]))
        if len(ended):
            gone = set(ended.tolist())
            self._resident = [one for n, one in enumerate(self._resident) if n not in gone]

    # --- the loop -------------------------------------------------------------------------------------
    def _pass(self) -> None:
        if self.machine is not None:
            self.machine.pass_traffic(self.traffic)
        else:
            self.traffic.rows[:, 5] = self.traffic.rows[:, 0]
        stages.answers(self.work, self.rates, self.pipe, self.traffic)

    def _drawn(self) -> bool:
        """Whether all draws have ended."""
        pipe, work = self.pipe, self.work
        return (
            int(pipe.next[SETUP]) == len(work.primitives)
            and int(pipe.next[COARSE]) == len(work.runs)
            and int(pipe.next[DISTRIBUTION]) == len(work.runs)
            and all(seen == len(records) for seen, records in zip(self._seen, self._graphics, strict=True))
            and all(kind == COMPUTE for kind, *_ in self._resident)
            and not any(queue for controller in self.controllers for queue in controller.queues[:COMPUTE])
        )

    def _done(self) -> bool:
        return (
            self.distributor.done
            and not self._resident
            and not any(controller.queues[COMPUTE] for controller in self.controllers)
            and self._drawn()
        )

    def _next_time(self) -> float:
        """The next time at which something can happen outside the SMs."""
        soonest = min(float(stages.next_event(self.work, self.rates, self.pipe)), self.distributor.next_time)
        for controller in self.controllers:
            for queue in controller.queues:
                if queue:
                    soonest = min(soonest, queue[0].ready)
        return soonest

    def run(self) -> None:
        """Run the batch to its end.

        Raises:
            GraphicsDeadlock: nothing can continue although work is left.
        """
        window = self.machine.window if self.machine is not None else 256
        now = stuck = 0
        while not self._done():
            until = float(now + window)
            before = self.pipe.next.copy()
            self._advance(until)
            if self._resident:
                assert self.machine is not None
                self.machine.run(self._next_time())
                now = self.machine.now
                self._collect()
                self._pass()
                stuck = 0
                continue
            coming = self._next_time()
            stuck = stuck + 1 if coming == UNKNOWN and (before == self.pipe.next).all() else 0
            if stuck > 2:
                raise GraphicsDeadlock(f"the pipeline is stuck at cycle {now:,}: report the program or recording")
            now = int(max(until, min(coming, 1 << 60))) if coming != UNKNOWN else int(until)
            if self.machine is not None:
                self.machine.skip_to(now)

    def _advance(self, until: float) -> None:
        """Advance stages and controllers up to the end of a window; warps that start make room for others."""
        while True:
            stages.before_window(self.work, self.rates, self.pipe, until, self.traffic)
            self._pass()
            stages.distribution_stage(self.work, self.rates, self.pipe, until)
            self._queue_ready()
            started = self._start_all(until) if self.machine is not None else 0
            if not started or not (self.pipe.stopped < until).any():
                break
        stages.end_window(self.pipe, until)

    def result(self, labels: list[str]) -> BatchResult:
        """The times of the batch."""
        pipe, draws = self.pipe, len(self.work.draws)
        instructions = np.zeros((draws, len(GRAPHICS_KINDS)), np.int64)
        warp_cycles, warps = np.zeros((draws, len(GRAPHICS_KINDS))), np.zeros((draws, len(GRAPHICS_KINDS)), np.int64)
        for kind, records in enumerate(self._graphics):
            if len(records):
                spent = records["end"] - records["start"]
                warp_cycles[:, kind] = np.bincount(records["draw"], weights=spent, minlength=draws)
                warps[:, kind] = np.bincount(records["draw"], minlength=draws)
                np.minimum.at(pipe.first[:, _KIND_STAGES[kind]], records["draw"], records["start"])
                np.maximum.at(pipe.last[:, _KIND_STAGES[kind]], records["draw"], records["end"])
        pipe.busy[:, list(_KIND_STAGES)] = 0
        for kind in range(len(GRAPHICS_KINDS)):
            stage = _KIND_STAGES[kind]
            ran = np.isfinite(pipe.first[:, stage])
            pipe.busy[ran, stage] = (pipe.last - np.where(np.isfinite(pipe.first), pipe.first, 0))[ran, stage]
        units: dict[str, float] = {}
        kernels: list[KernelTime] = []
        if self.machine is not None:
            executed = [int(self.machine.m[k.instructions]) for k in self.machine.kernels]
            for run, count in zip(self.runs, executed, strict=False):
                instructions[run.draw, run.kind] += count
            units = self.machine.counters()
            kernels = self.distributor.times(executed[len(self.runs) :])
        cycles = max([float(pipe.last.max()) if draws else 0.0, *(kernel.end for kernel in kernels)])
        times = (np.arange(RESIDENT_SAMPLES) + 0.5) * cycles / RESIDENT_SAMPLES
        graphics = [running(records, times) for records in self._graphics]
        resident = np.stack([times, *graphics, self.distributor.running(times)], axis=1)
        return BatchResult(
            cycles,
            labels,
            pipe.first,
            pipe.last,
            pipe.busy,
            pipe.waits,
            pipe.counts,
            instructions,
            warp_cycles,
            warps,
            resident,
            units,
            kernels,
        )

    def close(self) -> dict[str, npt.NDArray[np.int64]]:
        """Release memory for the next batch; returns the contents of the caches."""
        if self.machine is None:
            return {}
        kept = self.machine.kept_areas()
        self.machine.prepared.close()
        return kept
