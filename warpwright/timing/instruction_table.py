"""The program as the cycle model reads it: sixteen words per instruction and five per basic block.

Stall cycles, dependence counters and reuse flags come from the schedule (``isa/schedule.py``); what an instruction does to
memory from its lowered operations; pipe and latency from ``pipes.py``.  Register reads are counted by bank
(register number's parity), once without and once with the operands that the register-file cache holds from the previous instruction (Huerta et al., MICRO'25,
section 5: one entry for each operand slot).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.engine.blocks import ENDS_BLOCK, BasicBlock, MemoryAccess
from warpwright.isa.effects import Effect
from warpwright.isa.machine_code import schedule
from warpwright.isa.ops import Lowered
from warpwright.isa.program import RZ, Program
from warpwright.isa.schedule import COUNTERS, Constant, Issue
from warpwright.isa.texture_access import TextureAccess
from warpwright.timing import state as s
from warpwright.timing.pipes import Timing, timing_of

CONSTANT_BANK_BYTES = 65536
"""Size of a bank whose size the program does not state."""

BYPASSED = (s.P_ALU, s.P_FMA, s.P_FMA_HEAVY, s.P_FMA_PAIR, s.P_HALF)
"""Pipes of fixed latency whose results other instructions may take on their way to the registers."""


@dataclass(slots=True)
class StaticProgram:
    """``rows``: instructions x Instruction.size, then blocks x BasicBlock.size from ``blocks_at`` on, then lists of the counters that
    instructions wait for."""

    rows: npt.NDArray[np.int64]
    blocks_at: int
    blocks: int
    code_lines: int
    const_lines: int
    instructions: int
    parameter_lines: int
    scoreboard_entries: int
    """Of a warp; 0 for code whose control bits say what it waits for."""


MOST_READS = 15
"""Of a register bank by one instruction, in the four bits that a bank's number has."""


def _reads_by_bank(registers: Sequence[int], banks: int, passes: int) -> int:
    """How often each register bank is read, four bits per bank; a register's bank is its number modulo the number of banks."""
    counts = [passes * sum(r % banks == bank for r in registers) for bank in range(banks)]
    # DMMA.16x8x16, which keeps its pipe for 64 cycles, reads sixteen of each of two banks: fifteen hold up others no less.
    counts = [min(count, MOST_READS) for count in counts]
    return sum(count << 4 * bank for bank, count in enumerate(counts))


class _ConstantLines:
    """Numbers of the lines of the banks that a program reads, bank after bank; a bank begins on a whole block."""

    def __init__(self, program: Program, issues: Sequence[Issue], chip: Chip) -> None:
        self.line_bytes = chip.constant_cache.constant_line_bytes
        block_lines = chip.constant_cache.constant_block_bytes // self.line_bytes
        ends: dict[int, int] = {}
        for constant in (issue.constant for issue in issues if issue.constant is not None):
            end = constant.offset_bytes + 1
            if constant.indexed:  # anywhere in the bank
                end = len(program.constant_banks.get(constant.bank, b"")) or CONSTANT_BANK_BYTES
            ends[constant.bank] = max(ends.get(constant.bank, 0), end)
        self.first: dict[int, int] = {}
        self.count = 0
        for bank, end in sorted(ends.items()):
            self.first[bank] = self.count
            self.count += -(-end // (self.line_bytes * block_lines)) * block_lines
            if bank == 0:
                self.parameter_lines = self.count
        self.bank_lines = {bank: -(-end // self.line_bytes) for bank, end in ends.items()}

    parameter_lines = 0

    def of(self, constant: Constant) -> int:
        """Line of a constant address; for an indexed operand, its bank's first line."""
        return self.first[constant.bank] + (0 if constant.indexed else constant.offset_bytes // self.line_bytes)


def _wait_for_factors(
    rows: npt.NDArray[np.int64],
    blocks: Sequence[BasicBlock],
    timings: Sequence[Timing],
    issues: Sequence[Issue],
    pass_cycles: int,
) -> None:
    """Delay wide products whose factors are written later than the stall counts imply.

    They cannot take a factor from the bypass: if the instruction that produces it issues 4, 5, 6 cycles before them, they issue 3, 2, 1 cycles later
    (bench.micro ``issue_steps``).  The cycles between are those of the stall counts; a wait in between makes them longer, never shorter.
    """
    for block in blocks:
        for index in range(block.first + 1, block.first + block.count):
            latency = timings[index].factor_latency_cycles
            missing = issues[index].factors if latency else frozenset()
            before, apart, late = index, 0, 0
            while missing and apart < latency + pass_cycles and before > block.first:
                before -= 1
                apart += int(rows[s.Instruction(before * s.Instruction.size).stall])
                made = missing & _registers(issues[before].writes)
                if made and timings[before].kind == s.K_FIXED and timings[before].pipe in BYPASSED:
                    late = max(late, latency + (timings[before].passes - 1) * pass_cycles - apart)
                missing -= made
            rows[s.Instruction((index - 1) * s.Instruction.size).stall] += late


def _registers(effects: frozenset[Effect]) -> frozenset[int]:
    """Numbers of the vector registers that an instruction reads or writes."""
    return frozenset(number for file, number in effects if file == "reg" and number != RZ)


Access = tuple[str, int, str, bool, str]
"""Of a memory instruction: space, bytes of a lane, kind, whether it is strong, an atomic's operation."""


def _accesses(blocks: Sequence[BasicBlock]) -> dict[int, list[Access]]:
    """The accesses of each instruction that has any."""
    stops = {block.first for block in blocks if block.stop == "strong"}
    found: dict[int, list[Access]] = {}
    for block in blocks:
        for access in block.accesses:
            found.setdefault(access.instruction, []).append(
                (access.space, access.bytes, access.kind, _is_strong(access, stops), access.access.operation)
            )
    return found


def _encode_issue(row: npt.NDArray[np.int64], issue: Issue, timing: Timing) -> None:
    """How long an instruction occupies its pipe, and how it delays those after it."""
    row[s.Instruction.pipe] = timing.pipe
    row[s.Instruction.interval] = timing.interval_cycles
    row[s.Instruction.latency] = timing.latency_cycles
    row[s.Instruction.stall] = issue.stall_cycles
    row[s.Instruction.yields] = int(issue.yields)
    row[s.Instruction.write_barrier] = issue.write_counter
    row[s.Instruction.read_barrier] = issue.read_counter


def _fence_scope(issue: Issue) -> int:
    """Where a fence waits for its answer: flags of ``Instruction.strong``."""
    scope = 0 if "block" in issue.work.traits else s.FENCE_AT_L2
    return scope | s.FENCE_SYSTEM if "system" in issue.work.traits else scope


def _encode_meeting(row: npt.NDArray[np.int64], issue: Issue, timing: Timing, chip: Chip) -> None:
    """What a fence, a warpgroup's product or a wait for a counter needs besides."""
    if timing.kind == s.K_MEMBAR or timing.kind == s.K_GUARDED_FENCE:
        row[s.Instruction.strong] = _fence_scope(issue)
    elif timing.kind == s.K_GROUP:
        # The tensor cores of all sub-cores are busy for the product's time, a warp's port only until it can issue the next one.
        row[s.Instruction.op] = timing.interval_cycles
        row[s.Instruction.interval] = chip.pipes.group_product_issue_cycles
    elif issue.work.unit == "counter_wait":
        row[s.Instruction.op] = issue.awaited_counter
        row[s.Instruction.extra] = issue.work.amount


def encode(program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock], chip: Chip) -> StaticProgram:
    """Build the table.

    Args:
        lowered: one entry per instruction; blocks: by the number that trace records carry.

    Raises:
        UnknownTiming: an instruction has no timing row.
    """
    issues = schedule(program, lowered, blocks)
    count = len(issues)
    fixed_words = count * s.Instruction.size + len(blocks) * s.BasicBlock.size
    lists = _WaitLists(fixed_words)
    rows = np.zeros(fixed_words, np.int64)
    accesses = _accesses(blocks)
    clocks = {block.first for block in blocks if block.stop == "clock"}
    constants = _ConstantLines(program, issues, chip)
    line_bytes = chip.instruction_cache.icache_line_bytes
    held = _HeldRegisters({block.first for block in blocks})
    timings: list[Timing] = []
    for index, issue in enumerate(issues):
        row = rows[index * s.Instruction.size : (index + 1) * s.Instruction.size]
        memory = accesses.get(index, [])
        timing = timing_of(issue.work, chip, bool(memory), program.lanes)
        timings.append(timing)
        kind = timing.kind
        if index in clocks and not memory:
            kind = s.K_AWAIT if "try_wait" in issue.work.traits else s.K_CLOCK
        row[s.Instruction.kind] = kind
        row[s.Instruction.wait] = lists.word(index, issue)
        row[s.Instruction.line] = issue.address // line_bytes
        _encode_issue(row, issue, timing)
        _encode_constant(row, issue, timing, constants)
        _encode_reads(row, issue, timing, chip, held.before(index, issue))
        if memory and kind not in LOOKUPS:
            _encode_access(row, issue, memory[0], chip)
            if memory[0][0] == "shared" and chip.shared.shared_in_cores and "second_word" not in issue.work.traits:
                row[s.Instruction.pipe] = s.P_FMA_HEAVY
                row[s.Instruction.interval] = -(-program.lanes // chip.pipes.fma_heavy_lanes)
        if issue.work.unit == "mbarrier" and row[s.Instruction.kind] != s.K_MIO:
            row[s.Instruction.extra] |= s.MBARRIER
        _encode_meeting(row, issue, timing, chip)
        _encode_convergence(row, issue)
    if chip.issue.issue_per_clk_count > 1:
        _pair(rows, issues)
    _wait_for_factors(rows, blocks, timings, issues, chip.pipes.wide_multiply_pass_cycles)
    at = count * s.Instruction.size
    _encode_blocks(rows[at:], blocks, lowered)
    last = issues[-1].address // line_bytes if count else 0
    return StaticProgram(
        np.concatenate((rows, np.array(lists.words, np.int64))),
        at,
        len(blocks),
        last + 1,
        constants.count,
        count,
        constants.parameter_lines,
        max((max(issue.waits, default=0) + 1 for issue in issues), default=0) - COUNTERS if lists.words else 0,
    )


class _WaitLists:
    """The conditions for issue: a mask of the six counters, or a list of counters and scoreboard entries."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.words: list[int] = []

    def word(self, index: int, issue: Issue) -> int:
        """``Instruction.wait``: the mask, or how far before its list the instruction's row is, negative."""
        if all(counter < COUNTERS for counter in issue.waits):
            return sum(1 << counter for counter in issue.waits)
        place = self.at + len(self.words)
        self.words += [len(issue.waits), *issue.waits]
        return index * s.Instruction.size - place


def _pair(rows: npt.NDArray[np.int64], issues: Sequence[Issue]) -> None:
    """The first of two instructions of a bundle does not delay its warp."""
    for index, (first, second) in enumerate(pairwise(issues)):
        if first.bundle >= 0 and first.bundle == second.bundle:
            rows[s.Instruction(index * s.Instruction.size).stall] = 0


LOOKUPS = (s.K_MATCH, s.K_INDEXED, s.K_GUARDED_FENCE, s.K_LOOKUP)
"""Kinds whose records are not addresses."""


def _encode_constant(row: npt.NDArray[np.int64], issue: Issue, timing: Timing, constants: _ConstantLines) -> None:
    """The line of a constant operand, or of a load of constants; wavefronts of other instructions."""
    row[s.Instruction.constant] = -1
    kind, constant = int(row[s.Instruction.kind]), issue.constant
    if constant is not None and kind in (s.K_CONSTANT, s.K_INDEXED, s.K_LOOKUP):
        row[s.Instruction.op] = constants.of(constant)
    elif constant is not None and not constant.indexed:
        row[s.Instruction.constant] = constants.of(constant)
    if kind == s.K_MATCH:
        row[s.Instruction.op] = timing.value_cycles
    lookup = constant is not None and kind in LOOKUPS
    row[s.Instruction.extra] = (
        constants.bank_lines[constant.bank] if constant is not None and lookup else timing.wavefronts
    )


class _HeldRegisters:
    """The register-file cache along a basic block: one entry for each operand slot."""

    def __init__(self, starts: set[int]) -> None:
        self.starts = starts
        self.held: dict[int, int] = {}

    def before(self, index: int, issue: Issue) -> set[int]:
        """Registers of an instruction that the cache holds when it issues; the instruction then leaves those marked for reuse."""
        if index in self.starts:
            self.held = {}
        cached = {o.register for slot, o in enumerate(issue.sources) if self.held.get(slot) == o.register}
        for slot, operand in enumerate(issue.sources):
            if operand.reuse:
                self.held[slot] = operand.register
            else:
                self.held.pop(slot, None)
        return cached


def _encode_reads(row: npt.NDArray[np.int64], issue: Issue, timing: Timing, chip: Chip, cached: set[int]) -> None:
    """Reads of each register bank, without and with the register-file cache."""
    plain = [number for file, number in issue.reads if file == "reg" and number != RZ]
    others = {o.register for o in issue.sources} - cached
    # Of a pair both registers are held (HMMA.884 of V100 names A and B so in every step, and takes two cycles).
    fewer = [r for r in plain if r not in cached and not (r & 1 and r - 1 in cached and r not in others)]
    passes = timing.passes
    held_up = (passes - 1) * chip.pipes.wide_multiply_pass_cycles + issue.work.instructions - 1
    row[s.Instruction.stall] += held_up
    if issue.work.unit == "group_product":  # the pipe reads accumulators and A at its own pace while it works
        plain = fewer = []
    by_bank = [_reads_by_bank(registers, chip.issue.register_bank_count, passes) for registers in (plain, fewer)]
    row[s.Instruction.reads] = by_bank[0] | by_bank[1] << 16 | held_up << 32
    if issue.work.unit == "tensor" and "fp64" not in issue.work.traits and chip.pipes.tensor_read_cycles:
        row[s.Instruction.reads] |= s.PRODUCT


def _is_strong(access: MemoryAccess, stops: set[int]) -> bool:
    """A strong access, but for a load of its block's scope before which no warp stops: L1 has what it reads (bench.micro ``scopes``)."""
    how = access.access
    return how.strong and (isinstance(how, TextureAccess) or how.scope != "block" or access.instruction in stops)


def _encode_convergence(row: npt.NDArray[np.int64], issue: Issue) -> None:
    """The convergence register of an instruction that begins, restores or waits at one."""
    work = issue.work
    if work.amount == 0 or not (work.unit == "join" or work.traits & {"begins", "restores"}):
        return
    if work.unit in ("convergence", "join"):
        row[s.Instruction.op] = -(1 << work.amount) if "begins" in work.traits else 1 << work.amount


def _encode_access(row: npt.NDArray[np.int64], issue: Issue, access: Access, chip: Chip) -> None:
    """The fields of a memory instruction: width, operation and flags."""
    space, size, operation, strong, atomic = access
    traits = issue.work.traits
    if operation == "bulk":
        row[s.Instruction.kind] = s.K_BULK
        row[s.Instruction.pipe] = s.P_MIO
        operation = "load"
    row[s.Instruction.access_bytes] = size
    row[s.Instruction.op] = {"load": s.OP_LOAD, "store": s.OP_STORE, "atomic": s.OP_ATOMIC}[operation]
    if operation == "atomic" and "no_result" in traits:
        row[s.Instruction.op] = s.OP_REDUCE
    row[s.Instruction.strong] = int(strong or operation == "atomic")
    if strong and operation == "load" and "device_scope" in traits:
        row[s.Instruction.strong] = s.DEVICE_SCOPE
    row[s.Instruction.extra] = 2 if atomic == "cas" else 1
    row[s.Instruction.extra] |= 512 * (_atomic_kind(atomic, size) | 8 * int(row[s.Instruction.op] == s.OP_ATOMIC))
    if "l2_only" in traits:
        row[s.Instruction.extra] |= 256
    if "counts_lanes" in traits:
        row[s.Instruction.extra] |= s.COUNTS_LANES
    if "one_pass" in traits:
        shared = chip.shared
        row[s.Instruction.extra] = 1 | s.ONE_PASS
        row[s.Instruction.latency] = (
            shared.shared_cast_latency_cycles if size == 4 else shared.shared_cast_wide_latency_cycles
        )
    if "global_share" in traits:
        row[s.Instruction.extra] = 1 | s.GLOBAL_SHARE
        row[s.Instruction.latency] = chip.shared.global_share_latency_cycles - chip.mio.mio_latency_cycles
        row[s.Instruction.strong] = 0
    if issue.work.unit == "texture" and chip.texture.texture_unit_l1_kib:
        row[s.Instruction.extra] |= s.SAMPLES
    if "filtered" in traits:
        row[s.Instruction.extra] |= s.FILTERED
    if "matrix_rows" in traits:
        row[s.Instruction.extra] |= s.MATRIX_ROWS
    if space == "shared":
        row[s.Instruction.extra] |= s.OWN_SHARED
        if atomic == "cas":
            row[s.Instruction.latency] = chip.shared.shared_cas_latency_cycles - chip.mio.mio_latency_cycles


def _encode_blocks(rows: npt.NDArray[np.int64], blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> None:
    """The table of basic blocks, ``BL_`` fields of each."""
    for block in blocks:
        place = block.number * s.BasicBlock.size
        rows[s.BasicBlock(place).first] = block.first
        rows[s.BasicBlock(place).end] = block.first + block.count
        for slot, stop in ((s.BasicBlock.strong, "strong"), (s.BasicBlock.clock, "clock")):
            follow = [n for n in block.successors if blocks[n].stop == stop]
            rows[place + slot] = follow[0] if follow else -1
        rows[s.BasicBlock(place).sure] = _sure_to_follow(block, blocks, lowered)


def _sure_to_follow(block: BasicBlock, blocks: Sequence[BasicBlock], lowered: Sequence[Lowered]) -> int:
    """The basic block of the next strong access at which a warp stops, if it does not depend on the result of this block's strong access; otherwise -1.

    There is no other record between the two, and only one path.
    """
    last = lowered[block.first + block.count - 1]
    goes_on = not any(op.name in ENDS_BLOCK for op in last.ops) or (
        last.ops[-1].name == "branch" and last.guard is None
    )
    if block.stop != "strong" or len(block.accesses) != 1 or len(block.successors) != 1 or not goes_on:
        return -1
    return block.successors[0] if blocks[block.successors[0]].stop == "strong" else -1


def _atomic_kind(operation: str, size: int) -> int:
    """Bits for L2: 1 a floating-point sum, 2 handled by half sectors (compare-and-swap, doubles), 4 words of 8 bytes (8: answers), 16 sums of two halves."""
    halves = operation in ("fadd_f16x2", "fadd_bf16x2")
    sums = halves or operation in ("fadd", "fadd_ftz", "fadd_quiet")
    return int(sums) | 2 * int(operation == "cas" or (sums and size == 8)) | 4 * int(size == 8) | 16 * int(halves)
