"""Attributes a launch's cycles: one record made from a timed run.

Stall reasons have Nsight Compute's words and count warp-cycles: each cycle of each resident warp is either an issue
(``selected``) or a wait before the next instruction.  Shares of peak are means over the launch's elapsed cycles and all
instances of a unit, as Nsight Compute's ``avg.pct_of_peak_sustained_elapsed``.  Lower bounds come from ``timing/bounds.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warpwright.chips import Chip
from warpwright.errors import UnsupportedError
from warpwright.isa.machine_code import FIRST_FERMI, text_of, work_of
from warpwright.isa.program import RZ, Instruction, Kind, Program
from warpwright.isa.schedule import Work
from warpwright.quantity_text import share_text
from warpwright.timing import state as s
from warpwright.timing.bounds import ATOMICS
from warpwright.timing.metrics import BINDING_SHARE, OVERHEAD_SHARE
from warpwright.timing.pipes import timing_of
from warpwright.tools.report.resources import (
    BALANCE,
    BOUNDS,
    DRAM_LATENCY,
    GRID,
    L1_LATENCY,
    L2_LATENCY,
    LAUNCH,
    MEANINGS,
    MEMORY_LATENCY,
    STALLS,
    Resource,
)

if TYPE_CHECKING:
    from warpwright.run import Run

IDLE_SHARE = 0.5
"""SM time without a block, from which on the grid is what limits."""
ALMOST_ALL = 0.9
"""Share of the mean latency of loads that one level of memory has to account for to be named."""
BANK_BYTES = 4


@dataclass(frozen=True, slots=True)
class Stall:
    """Warp-cycles of one reason over the launch."""

    reason: str
    """Nsight Compute's word; ``selected`` is not a stall but the issues themselves."""
    warp_cycles: int
    share: float
    """Of all warp-cycles, 0 to 1."""

    @property
    def meaning(self) -> str:
        """What the warp did or waited for, in plain English."""
        return MEANINGS[self.reason]


@dataclass(frozen=True, slots=True)
class Unit:
    """One row of the speed-of-light table."""

    name: str
    group: str
    """SM or memory."""
    share: float
    """Of the unit's peak over the launch, 0 to 1."""
    peak: str
    """What peak means, in words."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of the launch's cycles."""

    name: str
    cycles: float
    """With the launch overhead, that every launch has."""
    share: float
    """Of the cycles after the launch overhead, 0 to 1."""


@dataclass(frozen=True, slots=True)
class InstructionCost:
    """One machine instruction."""

    index: int
    address: int
    text: str
    line: tuple[str, int] | None
    issues: int
    """Times that a warp issued it."""
    stall_cycles: int
    """Warp-cycles waited before it."""
    share: float
    """Issues and waits, of all warp-cycles of the launch."""
    waits_for: int | None
    """Index of the instruction whose dependence counter it waits for: the nearest one in the text that sets it."""
    reasons: Mapping[str, int]
    """Warp-cycles by reason; empty when the model counted reasons for the launch only."""


@dataclass(frozen=True, slots=True)
class LineCost:
    """One source line: the sum over its instructions."""

    file: str
    number: int
    text: str
    """Empty if the source is not available."""
    issues: int
    stall_cycles: int
    share: float
    instructions: tuple[int, ...]
    """Indices of its instructions."""
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that passed between two units, by direction, and how much of them hit."""

    l1_read: float
    """Global and local loads between SM and L1, in whole sectors."""
    l1_write: float
    shared: float
    """Shared memory: a word of every bank for each wavefront, loads and stores together."""
    l2_read: float
    l2_write: float
    l2_atomic: float
    dram_read: float
    dram_write: float
    l1_hit_rate: float | None
    """0 to 1 of the loads' sectors; None without loads."""
    l2_hit_rate: float | None
    bank_conflicts: float
    """Wavefronts of shared memory beyond the least that was needed."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Floating-point work, from issues and mean active lanes."""

    flops: float
    tensor_flops: float
    """Part of ``flops``."""
    fp64_flops: float
    """Part of ``flops``, without tensor cores."""
    lanes: float
    """Active threads of a warp-instruction, mean over the launch: predicated lanes are counted like this, not one by one."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """How one launch spent its time."""

    kernel: str
    chip: str
    cycles: int
    overhead_cycles: int
    """Launch overhead, part of ``cycles``."""
    warp_cycles: int
    """Issues and waits of all warps."""
    stalls: tuple[Stall, ...]
    """Largest first, without reasons that never came up."""
    reasons_by_instruction: bool
    """True when instructions and lines have their own reasons; False when the model counted reasons for the launch only."""
    units: tuple[Unit, ...]
    bounds: tuple[Bound, ...]
    """Largest first."""
    instructions: tuple[InstructionCost, ...]
    """In order of address, padding after the end left out."""
    lines: tuple[LineCost, ...]
    """Costliest first; empty without line information."""
    traffic: Traffic
    arithmetic: Arithmetic
    idle_share: float
    """SM time without any block after the launch overhead, 0 to 1."""
    limit: Resource
    """What limits the launch most."""
    because: str
    """The evidence, as a clause."""

    @property
    def binding(self) -> Bound:
        """The largest lower bound."""
        return self.bounds[0]

    @property
    def advice(self) -> str:
        """One sentence: what limits the launch and what would help."""
        return f"Limited by {self.limit.title}: {self.because}. What would help: {self.limit.advice}."


def attribute(run: Run) -> Attribution:
    """Explain a timed run.

    Raises:
        UnsupportedError: the run was made with timing="off".
    """
    timing, program, chip = run.timing, run.program, run.device
    if timing is None or program is None or chip is None:
        raise UnsupportedError(f"this run of {run.kernel} has no attribution: {run.why_untimed}")
    if run.shared:
        raise UnsupportedError(
            f"this run of {run.kernel} has no attribution because it shared the chip with other launches; launch it alone to find what limits it"
        )
    metrics = run.metrics
    warp_cycles = sum(timing.stalls.values())
    stalls = tuple(
        Stall(reason, count, count / max(warp_cycles, 1))
        for reason, count in sorted(timing.stalls.items(), key=lambda item: -item[1])
        if count
    )
    instructions, by_instruction = _instructions(run, program, warp_cycles)
    lines = _lines(instructions, program, warp_cycles)
    overhead = min(chip.launch.launch_overhead_cycles, timing.cycles)
    behind = max(timing.cycles - overhead, 1)
    bounds = tuple(
        Bound(name, cycles, max(cycles - overhead, 0.0) / behind)
        for name, cycles in sorted(timing.bounds.items(), key=lambda item: -item[1])
    )
    traffic = _traffic(metrics, chip)
    idle = max(0.0, 1.0 - metrics["sm__cycles_active.avg"] / behind)
    limit, because = _limit(timing.cycles, overhead, bounds, stalls, idle, run, traffic, chip)
    return Attribution(
        kernel=run.kernel,
        chip=run.chip,
        cycles=timing.cycles,
        overhead_cycles=overhead,
        warp_cycles=warp_cycles,
        stalls=stalls,
        reasons_by_instruction=by_instruction,
        units=_units(run, program, chip),
        bounds=bounds,
        instructions=instructions,
        lines=lines,
        traffic=traffic,
        arithmetic=arithmetic(run),
        idle_share=idle,
        limit=limit,
        because=because,
    )


def sm_count(run: Run) -> int:
    """SMs that a launch had: a sampled one is timed on a part of them."""
    assert run.timing is not None
    if run.sampling is not None:
        assert run.device is not None
        return run.device.sm.sm_count
    return len(run.timing.sm["active_cycles"])


# --- instructions and lines -------------------------------------------------------------------------------------------


def _setter(instructions: list[Instruction], index: int) -> int | None:
    """The nearest instruction before (or, in a loop, after) that sets a dependence counter that this one waits for."""
    mask = instructions[index].control.wait_mask & 63
    if not mask:
        return None
    count = len(instructions)
    for step in range(1, count):
        control = instructions[(index - step) % count].control
        if any(barrier < 6 and mask >> barrier & 1 for barrier in (control.write_barrier, control.read_barrier)):
            return (index - step) % count
    return None


def _padding(program: Program) -> int:
    """Instructions up to the last that is not padding (NOPs and the branch to itself after the last exit)."""
    end = len(program.instructions)
    while end and program.instructions[end - 1].opcode == "NOP":
        end -= 1
    return end


def _instructions(run: Run, program: Program, warp_cycles: int) -> tuple[tuple[InstructionCost, ...], bool]:
    timing = run.timing
    assert timing is not None
    by_reason = timing.instruction_stalls
    costs = []
    for i, instruction in enumerate(program.instructions[: _padding(program)]):
        issues, waited = int(timing.instruction_issues[i]), int(timing.instruction_stall_cycles[i])
        reasons: dict[str, int] = {}
        if by_reason is not None:
            found = {name: int(by_reason[i, column]) for column, name in enumerate(s.STALLS)}
            reasons = {
                name: n for name, n in sorted(found.items(), key=lambda item: -item[1]) if n and name != "selected"
            }
        costs.append(
            InstructionCost(
                index=i,
                address=instruction.address,
                text=text_of(program, instruction),
                line=instruction.line,
                issues=issues,
                stall_cycles=waited,
                share=(issues + waited) / max(warp_cycles, 1),
                waits_for=_setter(program.instructions, i),
                reasons=reasons,
            )
        )
    return tuple(costs), by_reason is not None


def source_lines(program: Program, file: str) -> list[str]:
    """Lines of the program's own source when ``file`` is the one it was compiled from; empty for any other file."""
    if program.source is None or file != source_file(program):
        return []
    return program.source.splitlines()


def source_file(program: Program) -> str | None:
    """The file that the program's own source stands for, if an instruction has a line of it."""
    own = program.source_name
    return own if any(i.line is not None and i.line[0] == own for i in program.instructions) else None


def _lines(instructions: tuple[InstructionCost, ...], program: Program, warp_cycles: int) -> tuple[LineCost, ...]:
    own = source_file(program)
    own_texts = source_lines(program, own) if own is not None else []
    members: dict[tuple[str, int], list[InstructionCost]] = {}
    for cost in instructions:
        if cost.line is not None:
            members.setdefault(cost.line, []).append(cost)
    found = []
    for (file, number), costs in members.items():
        texts = own_texts if file == own else []
        reasons: dict[str, int] = {}
        for cost in costs:
            for reason, count in cost.reasons.items():
                reasons[reason] = reasons.get(reason, 0) + count
        issues, waited = sum(c.issues for c in costs), sum(c.stall_cycles for c in costs)
        found.append(
            LineCost(
                file=file,
                number=number,
                text=texts[number - 1] if 1 <= number <= len(texts) else "",
                issues=issues,
                stall_cycles=waited,
                share=(issues + waited) / max(warp_cycles, 1),
                instructions=tuple(c.index for c in costs),
                reasons=dict(sorted(reasons.items(), key=lambda item: -item[1])),
            )
        )
    return tuple(sorted(found, key=lambda line: -line.share))


# --- units ------------------------------------------------------------------------------------------------------------


def _units(run: Run, program: Program, chip: Chip) -> tuple[Unit, ...]:
    """Share of peak of each unit; pipes that the kernel has no instruction for are left out."""
    assert run.timing is not None
    cycles = max(run.timing.cycles, 1)
    return (*_sm_units(run, program, chip, cycles), *_memory_units(run.metrics, chip, cycles))


def _sm_units(run: Run, program: Program, chip: Chip, cycles: int) -> Iterator[Unit]:
    """Issue and pipes."""
    timing, metrics, pipes = run.timing, run.metrics, chip.pipes
    assert timing is not None
    issue_slots = chip.sm.sm_count * chip.sm.sub_core_count * cycles
    held: dict[int, int] = {}
    for i, instruction in enumerate(program.instructions):
        work = work_of(program)(instruction)
        if work.unit not in ("memory", "texture", "mbarrier"):  # whose records say what they take
            timed = timing_of(work, chip, False)
            held[timed.pipe] = held.get(timed.pipe, 0) + timed.interval_cycles * int(timing.instruction_issues[i])
    interval = chip.issue.issue_interval_cycles
    rate = "per cycle" if interval == 1 else f"per {interval} cycles"
    per_clk = chip.issue.issue_per_clk_count
    share = run.instructions * interval / (per_clk * issue_slots)
    most = "one warp-instruction" if per_clk == 1 else "two paired warp-instructions"
    yield Unit("instruction issue", "SM", share, f"{most} {rate} and scheduler")
    issued = {name: metrics.get(f"smsp__inst_executed_pipe_{name}.sum", 0.0) for name in s.PIPES}
    lanes = pipes.fma_heavy_lanes + pipes.fma_lite_lanes
    for name, busy, peak in (
        (
            "ALU pipe (integer, logic)",
            issued["alu"] * program.lanes / (pipes.alu_lanes or pipes.fma_heavy_lanes),
            f"{pipes.alu_lanes} lanes per scheduler",
        ),
        (
            "FMA pipe (FP32)",
            (issued["fma"] + issued["fma_heavy"]) * program.lanes / lanes + float(held.get(s.P_FMA_PAIR, 0)),
            f"{lanes} lanes per scheduler",
        ),
        (
            "FMA pipe, heavy half (integer multiply)",
            float(held.get(s.P_FMA_HEAVY, 0) + held.get(s.P_FMA_PAIR, 0)),
            f"{pipes.fma_heavy_lanes} lanes per scheduler",
        ),
        ("half-precision pipe", float(held.get(s.P_HALF, 0)), f"{pipes.half_lanes} lanes per scheduler"),
        ("FP64 pipe", float(held.get(s.P_FP64, 0)), f"{pipes.fp64_lanes} lanes per scheduler"),
        ("special functions (XU)", float(held.get(s.P_XU, 0)), f"{pipes.xu_lanes} lanes per scheduler"),
        (
            "tensor pipe",
            float(held.get(s.P_TENSOR, 0)),
            f"{pipes.tensor_fp16_fma_per_clk} FP16 multiply-adds per cycle and scheduler, at the rate of warp-wide instructions",
        ),
    ):
        if busy:
            yield Unit(name, "SM", busy / issue_slots, peak)


def _memory_units(metrics: Mapping[str, float], chip: Chip, cycles: int) -> Iterator[Unit]:
    """The load/store unit, L1's fill, L2 and DRAM."""
    sms = chip.sm.sm_count
    wavefronts = metrics.get("l1tex__data_pipe_lsu_wavefronts.sum", 0.0)
    shared = metrics.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 0.0)
    lsu_peak = chip.mio.lsu_wavefronts_per_clk * sms * cycles
    per_clk = f"{chip.mio.lsu_wavefronts_per_clk:g} wavefront per cycle and SM"
    yield Unit("load/store and L1 data", "memory", wavefronts / lsu_peak, per_clk)
    if shared:
        yield Unit("of which shared memory", "memory", shared / lsu_peak, per_clk)
    missed = metrics.get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 0.0) - metrics.get(
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", 0.0
    )
    fill = chip.l1.l1_fill_bytes_per_clk
    yield Unit(
        "L2 to L1", "memory", missed * chip.l1.sector_bytes / (fill * sms * cycles), f"{fill} bytes per cycle and SM"
    )
    l2_percent = metrics.get("lts__throughput.avg.pct_of_peak_sustained_elapsed", 0.0)
    l2_peak = chip.l2.l2_slice_count * chip.l2.l2_slice_bytes_per_clk
    yield Unit("L2", "memory", l2_percent / 100, f"{l2_peak:,} bytes per cycle over {chip.l2.l2_slice_count} slices")
    dram_percent = metrics.get("dram__throughput.avg.pct_of_peak_sustained_elapsed", 0.0)
    yield Unit("DRAM", "memory", dram_percent / 100, f"{chip.dram.dram_gb_per_s:,.0f} GB/s")


def wavefront_bytes(chip: Chip) -> int:
    """Bytes that a wavefront of shared memory moves at most: a word of every bank."""
    return chip.shared.shared_bank_count * BANK_BYTES


def _traffic(metrics: Mapping[str, float], chip: Chip) -> Traffic:
    def get(name: str) -> float:
        return float(metrics.get(name, 0.0))

    loads = get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
    l2 = get("lts__t_sectors.sum")
    sector = chip.l1.sector_bytes
    return Traffic(
        l1_read=loads * sector,
        l1_write=get("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum") * sector,
        shared=get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum") * wavefront_bytes(chip),
        l2_read=get("lts__t_sectors_op_read.sum") * sector,
        l2_write=get("lts__t_sectors_op_write.sum") * sector,
        l2_atomic=get("lts__t_sectors_op_atom.sum") * sector,
        dram_read=get("dram__bytes_read.sum"),
        dram_write=get("dram__bytes_write.sum"),
        l1_hit_rate=get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum") / loads if loads else None,
        l2_hit_rate=get("lts__t_sector_hit_rate.pct") / 100 if l2 else None,
        bank_conflicts=get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"),
    )


# --- floating-point work ----------------------------------------------------------------------------------------------

FLOPS_PER_LANE = {
    **dict.fromkeys(("FADD", "FMUL", "FADD32I", "FMUL32I", "DADD", "DMUL"), 1),
    **dict.fromkeys(("FFMA", "FFMA32I", "DFMA", "HADD2", "HMUL2", "HADD2_32I", "HMUL2_32I"), 2),
    **dict.fromkeys(("HFMA2", "HFMA2_32I"), 4),
}
"""Floating-point operations of one thread; a multiply-add counts as two, packed halves count both."""
NV50_FLOPS_PER_LANE = {"fadd": 1, "fmul": 1, "fmad": 2, "dadd": 1, "dmul": 1, "dfma": 2}
"""The same for chips of compute capability 1.x."""
R600_FLOPS_PER_LANE = {"ADD": 1, "MUL": 1, "MUL_IEEE": 1, "MULADD": 2, "MULADD_IEEE": 2, "FMA": 2}
"""The same for an operation in a bundle of AMD's chips."""
PTX_FLOPS_PER_LANE = {"ADD": 1, "SUB": 1, "MUL": 1, "FMA": 2, "MAD": 2}
"""The same for PTX, where the unit determines whether they are floating-point operations."""


def _flops_per_lane(instruction: Instruction, work: Work, program: Program) -> int:
    if instruction.opcode == "BUNDLE":
        return sum(R600_FLOPS_PER_LANE.get(name, 0) for name in instruction.modifiers)
    if program.arch < FIRST_FERMI:
        return NV50_FLOPS_PER_LANE.get(instruction.opcode, 0)
    if program.control_bits:
        return FLOPS_PER_LANE.get(instruction.opcode, 0)
    if work.unit not in ("fma", "half", "fp64"):
        return 0
    packed = any(m in ("f16x2", "bf16x2", "f32x2") for m in instruction.modifiers)
    return PTX_FLOPS_PER_LANE.get(instruction.opcode, 0) * (2 if packed else 1)


def _moves_only(instruction: Instruction) -> bool:
    """A multiply-add of zero registers: the compiler's way to write a constant."""
    sources = [o for o in instruction.operands[1:] if o.kind is Kind.REGISTER]
    return bool(sources) and all(o.index == RZ for o in sources)


def arithmetic(run: Run) -> Arithmetic:
    """The floating-point work of a timed run."""
    timing, program = run.timing, run.program
    assert timing is not None
    assert program is not None
    lanes = run.thread_instructions / max(run.instructions, 1)
    plain = tensor = double = 0.0
    for i, instruction in enumerate(program.instructions):
        issues = int(timing.instruction_issues[i])
        work = work_of(program)(instruction)
        per_lane = _flops_per_lane(instruction, work, program)
        if work.unit == "tensor" and (instruction.opcode in ("HMMA", "DMMA") or not program.control_bits):
            tensor += 2.0 * work.amount * issues
        elif per_lane and not _moves_only(instruction):
            operations = per_lane * lanes * issues
            if work.unit == "fp64":
                double += operations
            else:
                plain += operations
    return Arithmetic(plain + tensor + double, tensor, double, lanes)


# --- the limit --------------------------------------------------------------------------------------------------------


def _memory_latency(traffic: Traffic, chip: Chip) -> Resource:
    """The latency that loads wait for: that of one level, if it answers almost all of them, weighted by its latency.

    Otherwise the means do not show which one decides: a few misses can delay every warp.
    """
    hits = traffic.l1_hit_rate or 0.0
    far = traffic.l2_hit_rate or 0.0
    l1 = hits * chip.l1.l1_hit_latency_cycles
    l2 = (1 - hits) * far * chip.l2.l2_hit_latency_cycles
    dram = (1 - hits) * (1 - far) * chip.dram.dram_latency_cycles
    weight, level = max((l1, L1_LATENCY), (l2, L2_LATENCY), (dram, DRAM_LATENCY), key=lambda pair: pair[0])
    return level if weight >= ALMOST_ALL * (l1 + l2 + dram) else MEMORY_LATENCY


def _limit(
    cycles: int,
    overhead: int,
    bounds: tuple[Bound, ...],
    stalls: tuple[Stall, ...],
    idle: float,
    run: Run,
    traffic: Traffic,
    chip: Chip,
) -> tuple[Resource, str]:
    """What limits, and the evidence: overhead, then a bound that binds, then idle SMs, then what warps wait for."""
    if overhead >= OVERHEAD_SHARE * cycles:
        return LAUNCH, f"{share_text(overhead / cycles)} of the cycles are before the first block runs"
    bound = bounds[0]
    if bound.share >= BINDING_SHARE and bound.name in BOUNDS:
        busiest = run.timing.busiest_slice if run.timing is not None and bound.name == ATOMICS else None
        detail = f"; {busiest}" if busiest is not None else ""
        share = share_text(bound.share)
        return BOUNDS[bound.name], f"it needs at least {share} of the cycles after the launch overhead{detail}"
    waits = [stall for stall in stalls if stall.reason != "selected"]
    resource = _of_stall(waits[0].reason, bounds, traffic, chip) if waits else BOUNDS["instruction issue"]
    if idle >= IDLE_SHARE:
        blocks = run.grid[0] * run.grid[1] * run.grid[2]
        count = sm_count(run)
        # More blocks are no number of the chip; what the few warps wait for is.
        which = GRID if blocks < count else BALANCE
        return replace(which, change=resource.change, overrides=resource.overrides), (
            f"SMs have no block for {share_text(idle)} of the time after the launch overhead "
            f"({blocks:,} block{'s' if blocks != 1 else ''} on {count} SMs)"
        )
    if not waits:
        return resource, "warps never wait"
    return resource, f"warps spend {share_text(waits[0].share)} of their time waiting ({waits[0].meaning})"


def _of_stall(reason: str, bounds: tuple[Bound, ...], traffic: Traffic, chip: Chip) -> Resource:
    if reason == "long_scoreboard":
        return _memory_latency(traffic, chip)
    if reason == "math_pipe_throttle":
        return next((BOUNDS[b.name] for b in bounds if b.name.endswith("pipe") and b.name in BOUNDS), STALLS[reason])
    return STALLS[reason]
