"""Which numbers of the chip a launch's time depends on, and how well they are known.

Each cycle is booked to what passed in it: the launch overhead, or what the resident warps did or waited for.  Each of those has the
numbers that set its length, which share it equally; where the bandwidth of a memory unit binds the launch, waits for memory
and full queues rest on that bandwidth and not on latencies.  Waits at barriers are other warps' time and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from warpwright.chips import Chip
from warpwright.chips.kinds import BASED_ON_THE_CHIP, KINDS
from warpwright.isa.machine_code import work_of
from warpwright.quantity_text import share_text
from warpwright.timing import state as s
from warpwright.timing.bounds import ATOMICS
from warpwright.timing.metrics import BINDING_SHARE
from warpwright.timing.pipes import timing_of
from warpwright.tools.report.attribution import Attribution, attribute

if TYPE_CHECKING:
    from warpwright.isa.program import Instruction, Program
    from warpwright.run import Run

PROGRAM = "program"
"""Time that no number of the chip decides: stall counts of the machine code, sleeping, waits of unknown cause."""
OTHERS_TIME = frozenset({"barrier"})
"""Reasons whose cycles are those of other warps."""
BEHIND_MEMORY = frozenset({"long_scoreboard", "mio_throttle", "lg_throttle", "drain"})
"""Reasons that become as long as a unit of the memory system makes them where its bandwidth binds."""
ISSUE = ("issue_per_clk_count",)
REASONS: Mapping[str, tuple[str, ...]] = {
    "selected": ISSUE,
    "not_selected": ISSUE,
    "wait": (),  # stall counts, which the compiler writes into the machine code
    "sleeping": (),
    "mio_throttle": ("mio_queue_entries", "mio_sub_core_interval_cycles", "lsu_wavefronts_per_clk"),
    "lg_throttle": ("mio_queue_entries", "mio_sub_core_interval_cycles", "lsu_wavefronts_per_clk"),
    "no_instruction": (
        *("l0_icache_kib", "l1_icache_latency_cycles", "l1_icache_line_interval_cycles"),
        *("l1_icache_kib", "l2_icache_line_interval_cycles"),
    ),
    "imc_miss": ("immediate_miss_cycles", "l15_constant_latency_cycles", "l2_constant_latency_cycles"),
    "branch_resolving": ("branch_latency_cycles",),
    "membar": ("membar_gpu_latency_cycles", "membar_written_latency_cycles", "membar_block_latency_cycles"),
    "dispatch_stall": ("register_bank_count", "operand_window_cycles"),
    "drain": ("l1_write_bytes_per_clk", "l2_hit_latency_cycles"),
}
"""The numbers that set how long a warp's wait lasts; those of other reasons depend on the instruction."""
PIPES: Mapping[int, tuple[str, ...]] = {
    s.P_ALU: ("alu_lanes",),
    s.P_FMA: ("fma_heavy_lanes", "fma_lite_lanes"),
    s.P_FMA_HEAVY: ("fma_heavy_lanes",),
    s.P_FMA_PAIR: ("fma_heavy_lanes", "half_fma_halves_count"),
    s.P_HALF: ("half_lanes",),
    s.P_FP64: ("fp64_lanes",),
    s.P_XU: ("xu_lanes",),
    s.P_TENSOR: ("tensor_fp16_fma_per_clk", "tensor_sync_extra_cycles"),
    s.P_UNIFORM: ("uniform_interval_cycles",),
    s.P_ADU: ("block_barrier_issue_cycles",),
    s.P_CONVERGENCE: ("convergence_interval_cycles",),
}
PRODUCERS: Mapping[str, tuple[str, ...]] = {
    "LDS": ("shared_load_latency_cycles",),
    "LDSM": ("shared_load_latency_cycles",),
    "STS": ("shared_store_latency_cycles",),
    "ATOMS": ("shared_atomic_latency_cycles",),
    "LDC": ("ldc_latency_cycles",),
    "SHFL": ("shuffle_latency_cycles",),
    "MATCH": ("match_latency_cycles",),
    "REDUX": ("redux_latency_cycles",),
    "S2R": ("special_register_latency_cycles",),
    "S2UR": ("special_uniform_latency_cycles",),
    "SYNCS": ("mbarrier_look_latency_cycles",),
    "MUFU": ("xu_latency_cycles",),
}
"""Latencies of the instructions whose results a warp waits for in ``short_scoreboard``."""
SHORT = ("shared_load_latency_cycles", "xu_latency_cycles", "mio_latency_cycles")
"""Where the instruction is not known."""
BOUNDS: Mapping[str, tuple[str, ...]] = {
    "L1 and shared memory": ("lsu_wavefronts_per_clk", "l1_data_bytes_per_clk"),
    "L1 fill": ("l1_fill_bytes_per_clk", "gpc_read_bytes_per_clk"),
    "L2 bandwidth": ("l2_slice_bytes_per_clk", "l2_slice_count", "gpc_read_bytes_per_clk"),
    ATOMICS: ("l2_atomic_sector_cycles", "l2_atomic_word_cycles", "l2_atomic_float_cycles"),
    "DRAM bandwidth": ("dram_gb_per_s",),
    "PCI Express": ("host_read_packet_ns", "host_read_sector_ns", "host_write_packet_ns", "host_write_sector_ns"),
    "NVLink": ("peer_packet_ns", "peer_sector_ns"),
}
"""Bandwidths to which waits for memory are attributed if they bind."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """How well the numbers are known on which a launch's time depends."""

    by_kind: Mapping[str, float]
    """Share of the time by kind of number, 0 to 1, in the order of ``KINDS``; what the program alone decides is ``program``."""
    by_field: Mapping[str, float]
    """Share of the time by number, largest first."""
    not_of_the_chip: float
    """Share that depends on numbers that are borrowed, fitted, assumed or set."""
    weakest: tuple[str, ...]
    """Up to three numbers of those with the largest shares, at least 1% each."""

    @property
    def sentence(self) -> str:
        """The shares in words."""
        kinds = ", ".join(
            f"{share_text(share)} {kind}"
            for kind, share in self.by_kind.items()
            if kind not in BASED_ON_THE_CHIP and kind != PROGRAM and share >= 0.005
        )
        if not kinds:
            return "Its time depends on numbers that are measured on this chip or published about it."
        most = f" (most on {', '.join(self.weakest)})" if self.weakest else ""
        return (
            f"{share_text(self.not_of_the_chip)} of its time depends on numbers not known for this chip: {kinds}{most}."
        )


def evidence(a: Attribution, program: Program, chip: Chip) -> Evidence:
    """Attribute a launch's time to the numbers of its chip."""
    shares: dict[str, float] = {}
    known = {stall.reason: stall.warp_cycles for stall in a.stalls if stall.reason not in OTHERS_TIME}
    overhead = a.overhead_cycles / max(a.cycles, 1)
    _book(shares, ("launch_overhead_cycles",), overhead)
    total = sum(known.values())
    for reason, cycles in known.items():
        for fields, part in _parts(reason, a, program, chip):
            _book(shares, fields, (1 - overhead) * part * cycles / total)
    if not total:
        _book(shares, (), 1 - overhead)
    by_field = dict(sorted(((f, n) for f, n in shares.items() if f != PROGRAM), key=lambda item: -item[1]))
    by_kind = {kind: sum(n for f, n in by_field.items() if chip.kind(f) == kind) for kind in KINDS}
    by_kind = {kind: share for kind, share in by_kind.items() if share} | {PROGRAM: shares.get(PROGRAM, 0.0)}
    weak = [f for f, n in by_field.items() if chip.kind(f) not in BASED_ON_THE_CHIP and n >= 0.01]
    rests = sum(n for kind, n in by_kind.items() if kind not in BASED_ON_THE_CHIP and kind != PROGRAM)
    return Evidence(by_kind, by_field, rests, tuple(weak[:3]))


def evidence_of(run: Run) -> Evidence:
    """The evidence for a timed run.

    Raises:
        UnsupportedError: the run was made with timing="off".
    """
    found = attribute(run)
    assert run.program is not None
    assert run.device is not None
    return evidence(found, run.program, run.device)


def _book(shares: dict[str, float], fields: tuple[str, ...], share: float) -> None:
    for field in fields or (PROGRAM,):
        shares[field] = shares.get(field, 0.0) + share / max(len(fields), 1)


def _parts(reason: str, a: Attribution, program: Program, chip: Chip) -> Iterator[tuple[tuple[str, ...], float]]:
    """The numbers on which a reason's cycles depend, and the share of each."""
    if reason in BEHIND_MEMORY and a.bounds and a.bounds[0].share >= BINDING_SHARE and a.bounds[0].name in BOUNDS:
        yield BOUNDS[a.bounds[0].name], 1.0
    elif reason == "long_scoreboard":
        yield from _memory(a, chip)
    elif reason in ("short_scoreboard", "math_pipe_throttle"):
        found: dict[tuple[str, ...], int] = {}
        for cost in a.instructions:
            cycles = cost.reasons.get(reason, 0)
            if cycles:
                at = cost.index if reason == "math_pipe_throttle" else cost.waits_for
                fields = _of_instruction(reason, None if at is None else program.instructions[at], program, chip)
                found[fields] = found.get(fields, 0) + cycles
        if not found:
            found[_of_instruction(reason, None, program, chip)] = 1
        total = sum(found.values())
        for fields, cycles in found.items():
            yield fields, cycles / total
    else:
        yield REASONS[reason], 1.0


def _of_instruction(reason: str, instruction: Instruction | None, program: Program, chip: Chip) -> tuple[str, ...]:
    if reason == "short_scoreboard":
        if instruction is None:
            return SHORT
        if instruction.opcode in PRODUCERS:
            return PRODUCERS[instruction.opcode]
        pipe = timing_of(work_of(program)(instruction), chip, False).pipe
        return ("xu_latency_cycles",) if pipe == s.P_XU else SHORT
    if instruction is None:
        return PIPES[s.P_FMA]
    return PIPES.get(timing_of(work_of(program)(instruction), chip, False).pipe, ISSUE)


def _memory(a: Attribution, chip: Chip) -> Iterator[tuple[tuple[str, ...], float]]:
    """Waits for global and local memory: the latencies of the levels that answered."""
    hits, found = a.traffic.l1_hit_rate or 0.0, a.traffic.l2_hit_rate or 0.0
    levels = (
        (("l1_hit_latency_cycles",), hits * chip.l1.l1_hit_latency_cycles),
        (("l2_hit_latency_cycles",), (1 - hits) * found * chip.l2.l2_hit_latency_cycles),
        (("dram_latency_cycles",), (1 - hits) * (1 - found) * chip.dram.dram_latency_cycles),
    )
    total = sum(weight for _, weight in levels)
    for fields, weight in levels:
        if weight:
            yield fields, weight / total
