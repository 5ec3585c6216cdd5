"""Which pipe an opcode takes, for how long, and when its result is there.

One row an opcode: the pipe, the name of its interval and of its latency, looked up in the chip.  Sources: the assignment of
operations to pipes is the one that NVIDIA's profiler reports (inst_executed_pipe_*); intervals follow from the
lanes in the chip file (CUDA C++ Programming Guide, throughput table), latencies from the chip file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from warpwright.chips.chip import Chip
from warpwright.isa.program import Instruction, Kind
from warpwright.timing import state as s


class Timing(NamedTuple):
    """What an instruction asks of its sub-core."""

    pipe: int
    interval_cycles: int
    latency_cycles: int
    """Issue to the release of its write barrier, for what does not go through the memory path."""
    kind: int
    wavefronts: int = 0
    """Of the load/store unit, for K_MIO; of MATCH.ANY for each different value; of BAR 1 where it does not hold up what follows at once."""
    value_cycles: int = 0
    """MATCH.ANY: for each further different value."""
    passes: int = 1
    """Of wide products: how often it is dispatched and reads its registers."""
    factor_latency_cycles: int = 0
    """Of wide products: from the issue of what makes one of its factors at the least."""


ALU = (
    *(
        "IADD3",
        "LOP3",
        "LOP",
        "SHF",
        "SHL",
        "SHR",
        "LEA",
        "PRMT",
        "SEL",
        "MOV",
        "ISETP",
        "ICMP",
        "IMNMX",
        "VIMNMX",
        "IABS",
    ),
    *(
        "FSETP",
        "FSEL",
        "FMNMX",
        "FSET",
        "PLOP3",
        "P2R",
        "R2P",
        "SGXT",
        "BMSK",
        "VABSDIFF",
        "VABSDIFF4",
        "LOP32I",
        "MOV32I",
    ),
    *("IADD", "ISET", "PSETP", "VOTE", "CSET", "CSETP", "FCHK", "I2FP", "F2FP", "VIADDMNMX", "VHMNMX", "LEPC"),
    *("CS2R", "HSETP2", "HMNMX2", "HSET2", "I2IP", "F2IP", "IADD32I", "FSWZ", "VOTE_VTG", "SCATTER", "GATHER"),
    *("ISCADD", "ISCADD32I", "BFE", "BFI", "PSET", "FCMP", "VADD", "VMNMX", "VSHL", "VSHR", "VSET", "VSETP"),
)
FMA = ("FFMA", "FADD", "FMUL", "FADD32I", "FFMA32I", "FMUL32I", "FSWZADD")
FMA_HEAVY = ("IMAD", "IMUL", "IDP", "IDP4A", "IMAD32I", "XMAD", "IMUL32I", "VMAD", "IMADSP", "VIADD")
"""VIADD too, though it only adds: beside IMAD 4 cycles a pair, beside ALU instructions 2 (bench.micro ``issue_pairs`` on an H200)."""
HALF = ("HADD2", "HMUL2", "HFMA2", "HADD2_32I", "HMUL2_32I", "HFMA2_32I", "HFMA2_MMA")
FP64 = ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX", "DSET")
XU = ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV", "I2I", "RRO")
TENSOR = ("HMMA", "QMMA", "IMMA", "BMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "UMMA")
UNIFORM = (
    *("UIADD3", "ULOP3", "USHF", "ULEA", "UMOV", "USEL", "UISETP", "UPRMT", "UPLOP3", "UIMAD", "USHL", "USHR", "UPOPC"),
    *(
        "UFLO",
        "UBREV",
        "USGXT",
        "UBMSK",
        "R2UR",
        "UP2UR",
        "UR2UP",
        "VOTEU",
        "ULOP",
        "ULOP32I",
        "UPSETP",
        "UCLEA",
        "UF2FP",
    ),
    *("UBLKPF", "UBLKCP", "ULEPC", "USETMAXREG", "UIADD3_64", "UVIMNMX", "UIMNMX", "UFSETP"),
)
INDIRECT = ("BRX", "JMX", "RET")
"""Branches whose target a register holds; CALL may be one."""
BRANCH = (
    *(
        "BRA",
        "BRX",
        "JMP",
        "JMX",
        "CALL",
        "RET",
        "BSSY",
        "BSYNC",
        "BREAK",
        "WARPSYNC",
        "BMOV",
        "YIELD",
        "KILL",
        "RTT",
        "JMXU",
    ),
    *(
        "BRXU",
        "BPT",
        "PRET",
        "RPCMOV",
        "BCLEAR",
        "PREEXIT",
        "ACQBULK",
        "ELECT",
        "ENDCOLLECTIVE",
        *("SSY", "SYNC", "PBK", "BRK", "PCNT", "CONT", "CAL", "JCAL", "KIL"),
        "WARPGROUP",
        "WARPGROUPSET",
    ),
)
NOTHING = ("NOP", "PMTRIG", "ERRBAR", "CCTLL", "CCTLT", "SETCTAID", "VIRTCOUNT")
MIO = (
    "SHFL",
    "LDC",
    "S2R",
    "S2UR",
    "MATCH",
    "REDUX",
    "ULDC",
    "LEPC_MIO",
    "DEPBAR_MIO",
    "SETLMEMBASE",
    "GETLMEMBASE",
    "AL2P",
    "ARRIVES",
)
KINDS = {
    "EXIT": s.K_EXIT,
    "BAR": s.K_BARRIER,
    "B2R": s.K_BARRIER,
    "UCGABAR_ARV": s.K_BARRIER,
    "UCGABAR_WAIT": s.K_BARRIER,
    "LDGDEPBAR": s.K_COPY_DONE,
    "UTMACMDFLUSH": s.K_COPY_DONE,
    "DEPBAR": s.K_DEPBAR,
    "MEMBAR": s.K_MEMBAR,
    "NANOSLEEP": s.K_SLEEP,
}
TEXTURE = ("TEX", "TLD", "TLD4", "TXD", "TXQ")
FMA_SHAPES = {
    # Multiply-adds of one tensor instruction by its shape: M x N x K of the warp.
    "884": 8 * 8 * 4 * 4 // 4,  # a quarter of the warp's four 8x8x4 products (one of four steps)
    "1688": 16 * 8 * 8,
    "16816": 16 * 8 * 16,
    "16832": 16 * 8 * 32,
    "16864": 16 * 8 * 64,
    "1684": 16 * 8 * 4,
    "8816": 8 * 8 * 16,
    "8832": 8 * 8 * 32,
}
_TABLE = {
    **dict.fromkeys(ALU, "alu"),
    **dict.fromkeys(FMA, "fma"),
    **dict.fromkeys(FMA_HEAVY, "fma_heavy"),
    **dict.fromkeys(HALF, "half"),
    **dict.fromkeys(FP64, "fp64"),
    **dict.fromkeys(XU, "xu"),
    **dict.fromkeys(TENSOR, "tensor"),
    **dict.fromkeys(UNIFORM, "uniform"),
    **dict.fromkeys(BRANCH, "branch"),
    **dict.fromkeys(NOTHING, "none"),
    **dict.fromkeys(MIO, "mio"),
}


def known(opcode: str) -> bool:
    """Whether the tables name the opcode (memory instructions are known by their accesses)."""
    return opcode in _TABLE or opcode in KINDS


def _is_indirect(instruction: Instruction) -> bool:
    """Whether a branch must read where it goes."""
    return instruction.opcode in INDIRECT or (
        instruction.opcode == "CALL" and any(o.kind is Kind.REGISTER for o in instruction.operands)
    )


def timing_of(instruction: Instruction, chip: Chip, is_memory: bool, lanes: int = 32) -> Timing:
    """Pipe, interval and latency of an instruction; an opcode that no table names is taken as integer arithmetic."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    pipes, issue = chip.pipes, chip.issue
    if opcode in ("LDC", "ULDC"):
        return _constant(instruction, chip, is_memory)
    if opcode in TEXTURE:
        # Behind the texture units, which the record's fetch waits for: what a sample takes longer than an L1 hit, and their time.
        interval = lanes // 4 // pipes.texture_quads_per_clk // (2 if opcode == "TLD" else 1)
        longer = max(pipes.texture_latency_cycles - chip.l1.l1_hit_latency_cycles, 0)
        return Timing(s.P_MIO, 1, longer | max(interval, 1) << s.TEXTURE_INTERVAL_SHIFT, s.K_MEMORY)
    if opcode == "SYNCS":
        if not is_memory:  # a look, which leaves no record
            return Timing(s.P_MIO, 1, chip.cluster.mbarrier_look_latency_cycles, s.K_MIO, 1)
        return Timing(s.P_MIO, 1, chip.cluster.mbarrier_arrive_latency_cycles, s.K_MEMORY)
    if opcode == "MATCH":
        return _match(instruction, chip)
    if is_memory:
        return Timing(s.P_MIO, 1, 0, s.K_COPY if opcode == "LDGSTS" else s.K_MEMORY)
    if opcode == "CCTL":
        return Timing(s.P_BRANCH, 2, 0, s.K_INVALIDATE if "IVALL" in modifiers else s.K_FIXED)
    if opcode in KINDS:
        kind = KINDS[opcode]
        if opcode == "BAR":
            return Timing(s.P_ADU, chip.shared.block_barrier_issue_cycles, 0, kind, int("DEFER_BLOCKING" in modifiers))
        if opcode == "B2R":  # it asks the barriers' unit for a reduction's result
            return Timing(
                s.P_ADU, chip.shared.block_barrier_issue_cycles, chip.shared.block_barrier_result_latency_cycles, kind
            )
        latency = pipes.membar_gpu_latency_cycles if kind == s.K_MEMBAR else 0
        if kind == s.K_MEMBAR and "CTA" in modifiers:
            latency = pipes.membar_block_latency_cycles
        elif kind == s.K_MEMBAR and "SYS" in modifiers:
            latency = max(latency, round(chip.elsewhere.system_fence_least_ns * chip.clocks.sm_clock_mhz / 1000))
        return Timing(s.P_BRANCH, 2, latency, kind)
    group = _TABLE.get(opcode, "alu")
    wide = "WIDE" in modifiers or "HI" in modifiers
    if group == "fma":
        return Timing(s.P_FMA, -(-lanes // pipes.fma_heavy_lanes), pipes.fma_latency_cycles, s.K_FIXED)
    if group == "fma_heavy":
        interval = pipes.wide_multiply_interval_cycles if wide else -(-lanes // pipes.fma_heavy_lanes)
        passes = pipes.wide_multiply_passes_count if wide else 1
        latency = pipes.fma_latency_cycles + (1 if wide else 0)
        factors = pipes.wide_factor_latency_cycles if wide else 0
        return Timing(s.P_FMA_HEAVY, interval, latency, s.K_FIXED, passes=passes, factor_latency_cycles=factors)
    if group == "half":
        if pipes.half_fma_halves_count and "MMA" not in modifiers:
            both = pipes.half_fma_halves_count == 2
            interval = -(-lanes // pipes.fma_heavy_lanes)
            return Timing(s.P_FMA_PAIR if both else s.P_FMA_HEAVY, interval, pipes.half_latency_cycles, s.K_FIXED)
        return Timing(s.P_HALF, -(-lanes // pipes.half_lanes), pipes.half_latency_cycles, s.K_FIXED)
    if group == "fp64":
        return Timing(s.P_FP64, -(-lanes // pipes.fp64_lanes), pipes.fp64_latency_cycles, s.K_FIXED)
    if group == "xu":
        longer = _converts_wide(opcode, modifiers)
        return Timing(
            s.P_XU,
            -(-lanes // pipes.xu_lanes) + longer * pipes.xu_wide_source_cycles,
            pipes.xu_latency_cycles + 2 * longer * pipes.xu_wide_source_cycles,
            s.K_FIXED,
        )
    if group == "tensor":
        return _group_product(instruction, chip) if opcode in GROUP_PRODUCTS else _tensor(instruction, chip)
    if opcode == "WARPGROUP" and "DEPBAR" in modifiers and not instruction.operands[-1].value:
        # Its warp's products are done when the pipe has nothing left to do.
        return Timing(s.P_TENSOR, 1, pipes.tensor_latency_cycles, s.K_FIXED)
    if opcode == "R2UR":
        return Timing(s.P_ALU, -(-lanes // pipes.alu_lanes), issue.uniform_latency_cycles, s.K_FIXED)
    if opcode == "UMOV":  # two cycles a pair of them, or with UIADD3 (issue_pairs): it does not take the uniform unit
        return Timing(s.P_NONE, 1, issue.uniform_latency_cycles, s.K_FIXED)
    if group == "uniform":
        return Timing(s.P_UNIFORM, issue.uniform_interval_cycles, issue.uniform_latency_cycles, s.K_FIXED)
    if group == "branch":
        if _is_indirect(instruction):
            interval = issue.indirect_branch_interval_cycles
            return Timing(s.P_BRANCH, interval, issue.indirect_branch_latency_cycles, s.K_BRANCH)
        if opcode == "BSYNC":
            return Timing(s.P_BRANCH, 2, issue.convergence_latency_cycles, s.K_JOIN)
        if opcode == "YIELD":
            return Timing(s.P_BRANCH, 2, issue.branch_latency_cycles, s.K_YIELD)
        return Timing(s.P_BRANCH, 2, issue.branch_latency_cycles, s.K_BRANCH)
    if group == "none":
        return Timing(s.P_NONE, 1, 1, s.K_FIXED)
    if group == "mio":
        return _through_queue(instruction, chip)
    return Timing(s.P_ALU, -(-lanes // pipes.alu_lanes), pipes.alu_latency_cycles, s.K_FIXED)


WIDE_SOURCES = {"F2F": ("F64",), "F2I": ("F64",), "FRND": ("F64",), "I2F": ("S64", "U64")}


def _converts_wide(opcode: str, modifiers: Sequence[str]) -> bool:
    """Whether a conversion reads 64 bits a lane: the type of the source is named last where both are."""
    wide = WIDE_SOURCES.get(opcode, ())
    types = [m for m in modifiers if m in ("F16", "BF16", "F32", "F64", "S64", "U64")]
    return any(m in wide for m in (types[-1:] if opcode == "F2F" else types))


def _match(instruction: Instruction, chip: Chip) -> Timing:
    """MATCH.ANY takes the lanes' different values one after the other, MATCH.ALL looks at one."""
    pipes = chip.pipes
    words = 2 if "U64" in instruction.modifiers else 1
    latency = pipes.match_latency_cycles + pipes.match_word_cycles * (words - 1) - chip.mio.mio_latency_cycles
    if "ANY" not in instruction.modifiers:
        return Timing(s.P_MIO, 1, latency, s.K_MIO, pipes.match_wavefronts_count * words)
    further = pipes.match_value_cycles + pipes.match_wavefronts_count * (words - 1)
    return Timing(s.P_MIO, 1, latency, s.K_MATCH, pipes.match_wavefronts_count * words, value_cycles=further)


def _tensor(instruction: Instruction, chip: Chip) -> Timing:
    pipes = chip.pipes
    shape = next((m for m in instruction.modifiers if m in FMA_SHAPES), "16816")
    work = FMA_SHAPES[shape]
    rate = pipes.tensor_fp16_fma_per_clk
    if instruction.opcode == "DMMA":
        rate = max(pipes.tensor_fp64_fma_per_clk, 1)
        work = 8 * 8 * 4
    elif instruction.opcode == "IMMA":
        rate *= 2
    elif any("TF32" in m for m in instruction.modifiers):
        rate //= 2
    latency = pipes.tensor_latency_cycles
    interval = max(-(-work * pipes.tensor_sync_slowdown_percent // (100 * rate)), 1)
    return Timing(s.P_TENSOR, interval, latency, s.K_FIXED)


def _constant(instruction: Instruction, chip: Chip, indexed: bool) -> Timing:
    """LDC goes through the queue; a ULDC that no dependence counter guards reads its line before it issues, as operands do."""
    if instruction.opcode == "ULDC" and instruction.control.write_barrier >= 6:
        issue = chip.issue
        if indexed:  # does not hold up the uniform pipe (uniform_constants)
            return Timing(s.P_MIO, 1, issue.uniform_latency_cycles, s.K_INDEXED)
        return Timing(s.P_UNIFORM, issue.uniform_interval_cycles, issue.uniform_latency_cycles, s.K_FIXED)
    latency = chip.constant_cache.ldc_latency_cycles - chip.mio.mio_latency_cycles
    return Timing(s.P_MIO, 1, latency, s.K_LOOKUP if indexed else s.K_CONSTANT)


GROUP_PRODUCTS = ("HGMMA", "IGMMA", "BGMMA", "QGMMA")
GROUP_DEPTH_BYTES = 32
"""What a warpgroup's product reads along k of one row of A."""


def _group_product(instruction: Instruction, chip: Chip) -> Timing:
    """A warpgroup's product: the pipe's own rate, or shared memory's, which feeds all four sub-cores once.

    Measured on an H200 for all formats: 64 x N x 32 bytes take N / 2 cycles or, where operands are more, 16 for A and N / 4
    for B (N / 2 for a sparse product, which reads twice as deep).
    """
    pipes = chip.pipes
    shape = next(m for m in instruction.modifiers if m.startswith("64x"))
    columns = int(shape.split("x")[1])
    sparse = "SP" in instruction.modifiers
    halves = GROUP_DEPTH_BYTES // 2
    work = -(-16 * columns * halves // max(pipes.tensor_fp16_fma_per_clk, 1))
    from_registers = any(o.kind is Kind.REGISTER for o in instruction.operands[1:2])
    shared_bytes = columns * GROUP_DEPTH_BYTES * (2 if sparse else 1)
    shared_bytes += 0 if from_registers else 64 * GROUP_DEPTH_BYTES
    fed = -(-shared_bytes // chip.l1.l1_data_bytes_per_clk)
    least = pipes.sparse_group_product_least_cycles if sparse else pipes.group_product_least_cycles
    return Timing(s.P_TENSOR, max(work, fed, least), pipes.tensor_latency_cycles, s.K_FIXED)


def _through_queue(instruction: Instruction, chip: Chip) -> Timing:
    opcode, pipes = instruction.opcode, chip.pipes
    if opcode == "SHFL":
        return Timing(s.P_MIO, 1, pipes.shuffle_latency_cycles - chip.mio.mio_latency_cycles, s.K_MIO, 1)
    if opcode == "REDUX":
        latency = pipes.redux_latency_cycles - chip.mio.mio_latency_cycles
        return Timing(s.P_MIO, 1, latency, s.K_MIO, pipes.redux_wavefronts_count)
    uniform = opcode == "S2UR"
    latency = pipes.special_uniform_latency_cycles if uniform else pipes.special_register_latency_cycles
    return Timing(s.P_XU, pipes.special_register_interval_cycles, latency, s.K_FIXED)
