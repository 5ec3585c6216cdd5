"""A program as the timing core reads it: one row of sixteen words an instruction, and one of five a basic block.

Control bits, scoreboards and reuse flags come from the encoding (``isa/program.py``); what an instruction does to
memory from its lowered operations; pipe and latency from ``classes.py``.  Register reads are counted by bank
(register number's parity), once as they are and once with what the register-file cache still holds from the
instruction before (Huerta et al., MICRO'25, section 5: one entry for each operand slot).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.engine.blocks import ENDS_BLOCK, BasicBlock, MemoryAccess
from warpwright.isa.ops import Lowered
from warpwright.isa.program import RZ, Control, Instruction, Kind, Operand, Program
from warpwright.isa.sass.lower import register_effects
from warpwright.isa.sass.meaning import is_zero
from warpwright.isa.texture_access import TextureAccess
from warpwright.timing import state as s
from warpwright.timing.classes import GROUP_PRODUCTS, Timing, timing_of

CONSTANT_BANK_BYTES = 65536
"""Of a bank whose size the program does not tell."""


WARP_PRODUCTS = ("HMMA", "IMMA", "QMMA", "BMMA")
BYPASSED = (s.P_ALU, s.P_FMA, s.P_FMA_HEAVY, s.P_FMA_PAIR, s.P_HALF)
"""Pipes of fixed latency whose results other instructions may take on their way to the registers."""


@dataclass(slots=True)
class StaticProgram:
    """``rows``: instructions x I_SLOTS, then blocks x s.BasicBlock.size from ``blocks_at`` on; the first 8 words hold where."""

    rows: npt.NDArray[np.int64]
    blocks_at: int
    code_lines: int
    const_lines: int
    instructions: int
    parameter_lines: int


def _reads_by_bank(registers: Sequence[int], banks: int, passes: int) -> int:
    """How often each register bank is read, four bits a bank: a register's bank is its number's rest by how many there are."""
    counts = [passes * sum(r % banks == bank for r in registers) for bank in range(banks)]
    assert max(counts) < 16, f"{counts} reads of one instruction: a bank's number has four bits"
    return sum(count << 4 * bank for bank, count in enumerate(counts))


def _sources(instruction: Instruction, writes: frozenset[tuple[str, int]]) -> list[Operand]:
    """Register operands that are read, in slot order."""
    operands = [o for o in instruction.operands if o.kind is Kind.REGISTER]
    if operands and ("reg", operands[0].index) in writes and instruction.operands[0] is operands[0]:
        operands = operands[1:]
    elif len(operands) > 1 and ("reg", operands[0].index) in writes:
        operands = operands[1:]  # predicate destinations are printed around the register
    return operands


class _ConstantLines:
    """Numbers of the lines of the banks that a program reads, bank after bank; a bank begins on a whole block."""

    def __init__(self, program: Program, chip: Chip) -> None:
        self.line_bytes = chip.constant_cache.constant_line_bytes
        block_lines = chip.constant_cache.constant_block_bytes // self.line_bytes
        ends: dict[int, int] = {}
        for instruction in program.instructions:
            operand = _constant(instruction)
            if operand is None:
                continue
            end = operand.value + 1
            if _is_indexed(operand):  # anywhere in the bank
                end = len(program.constant_banks.get(operand.index, b"")) or CONSTANT_BANK_BYTES
            ends[operand.index] = max(ends.get(operand.index, 0), end)
        self.first: dict[int, int] = {}
        self.count = 0
        for bank, end in sorted(ends.items()):
            self.first[bank] = self.count
            self.count += -(-end // (self.line_bytes * block_lines)) * block_lines
            if bank == 0:
                self.parameter_lines = self.count
        self.bank_lines = {bank: -(-end // self.line_bytes) for bank, end in ends.items()}

    parameter_lines = 0

    def of(self, operand: Operand) -> int:
        """Line of a known place; of an indexed operand its bank's first."""
        return self.first[operand.index] + (0 if _is_indexed(operand) else operand.value // self.line_bytes)


def _is_indexed(operand: Operand) -> bool:
    return operand.base is not None and not is_zero(operand.base)


def _constant(instruction: Instruction) -> Operand | None:
    return next((o for o in instruction.operands if o.kind is Kind.CONSTANT and o.uniform is None), None)


def _factors(instruction: Instruction) -> set[int]:
    """Registers that IMAD.WIDE or IMAD.HI multiplies."""
    values = [o for o in instruction.operands[1:] if o.kind not in (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)]
    return {o.index for o in values[:2] if o.kind is Kind.REGISTER and o.index != RZ}


def _wait_for_factors(
    rows: npt.NDArray[np.int64],
    blocks: Sequence[BasicBlock],
    timings: Sequence[Timing],
    program: Program,
    written: Sequence[frozenset[int]],
    pass_cycles: int,
) -> None:
    """Hold wide products back whose factors come later than the stall counts say.

    They do not take a factor on its way to the registers: with the instruction that makes it 4, 5, 6 cycles before them they issue 3, 2, 1 later
    (bench.micro ``issue_steps``).  The cycles between are those of the stall counts; a wait in between makes them longer, never shorter.
    """
    for block in blocks:
        for index in range(block.first + 1, block.first + block.count):
            latency = timings[index].factor_latency_cycles
            missing = _factors(program.instructions[index]) if latency else set()
            before, apart, late = index, 0, 0
            while missing and apart < latency + pass_cycles and before > block.first:
                before -= 1
                apart += int(rows[s.Instruction(before * s.Instruction.size).stall])
                made = missing & written[before]
                if made and timings[before].kind == s.K_FIXED and timings[before].pipe in BYPASSED:
                    late = max(late, latency + (timings[before].passes - 1) * pass_cycles - apart)
                missing -= made
            rows[s.Instruction((index - 1) * s.Instruction.size).stall] += late


def stall_cycles(control: Control) -> int:
    """Cycles until the same warp may issue again (bench/micro on H200, machine code with edited control bits).

    A warp that does not give way waits as many as the field says up to 11; 12 to 14 act as 1, 15 and 0 as 2.  One that gives
    way waits at least 2, and 34 when the field is 0.
    """
    stall = control.stall_cycles
    if control.yield_flag:
        return max(stall, 2) if stall else 34
    if stall > 11:
        return 2 if stall == 15 else 1
    return stall or 2


Access = tuple[str, int, str, bool, str]
"""Of a memory instruction: space, bytes of a lane, kind, whether it is strong, an atomic's operation."""


def encode(program: Program, lowered: Sequence[Lowered], blocks: Sequence[BasicBlock], chip: Chip) -> StaticProgram:
    """Build the table.

    Args:
        lowered: one entry an instruction; blocks: by the number that trace records carry.
    """
    count = len(program.instructions)
    rows = np.zeros(count * s.Instruction.size + len(blocks) * s.BasicBlock.size, np.int64)
    accesses: dict[int, list[Access]] = {}
    clocks = {block.first for block in blocks if block.stop == "clock"}
    stops = {block.first for block in blocks if block.stop == "strong"}
    for block in blocks:
        for access in block.accesses:
            accesses.setdefault(access.instruction, []).append(
                (access.space, access.bytes, access.kind, _is_strong(access, stops), access.access.operation)
            )
    constants = _ConstantLines(program, chip)
    line_bytes = chip.instruction_cache.icache_line_bytes
    held: dict[int, int] = {}  # operand slot -> register in the register-file cache
    starts = {block.first for block in blocks}
    timings: list[Timing] = []
    written: list[frozenset[int]] = []
    for index, instruction in enumerate(program.instructions):
        if index in starts:
            held = {}
        row = rows[index * s.Instruction.size : (index + 1) * s.Instruction.size]
        control = instruction.control
        memory = accesses.get(index, [])
        timing = timing_of(instruction, chip, bool(memory), program.lanes)
        timings.append(timing)
        kind = timing.kind
        if index in clocks and not memory:
            kind = s.K_AWAIT if "TRYWAIT" in instruction.modifiers else s.K_CLOCK
        row[s.Instruction.kind] = kind
        row[s.Instruction.pipe] = timing.pipe
        row[s.Instruction.interval] = timing.interval_cycles
        row[s.Instruction.latency] = timing.latency_cycles
        row[s.Instruction.stall] = stall_cycles(control)
        row[s.Instruction.yields] = int(control.yield_flag)
        row[s.Instruction.wait] = control.wait_mask & 63
        row[s.Instruction.write_barrier] = control.write_barrier if control.write_barrier < 6 else -1
        row[s.Instruction.read_barrier] = control.read_barrier if control.read_barrier < 6 else -1
        row[s.Instruction.line] = instruction.address // line_bytes
        row[s.Instruction.constant] = -1
        operand = _constant(instruction)
        if operand is not None and kind in (s.K_CONSTANT, s.K_INDEXED, s.K_LOOKUP):
            row[s.Instruction.op] = constants.of(operand)
        elif operand is not None and not _is_indexed(operand):
            row[s.Instruction.constant] = constants.of(operand)
        if kind == s.K_MATCH:
            row[s.Instruction.op] = timing.value_cycles
        lookup = kind in (s.K_MATCH, s.K_INDEXED, s.K_LOOKUP)
        row[s.Instruction.extra] = constants.bank_lines[operand.index] if operand and lookup else timing.wavefronts
        reads, writes = register_effects(lowered[index])
        written.append(frozenset(number for file, number in writes if file == "reg" and number != RZ))
        plain = [number for file, number in reads if file == "reg" and number != RZ]
        sources = _sources(instruction, writes)
        cached = {o.index for slot, o in enumerate(sources) if held.get(slot) == o.index}
        others = {o.index for o in sources} - cached
        # Of a pair both registers are held (HMMA.884 of V100 names A and B so in every step, and takes two cycles).
        fewer = [r for r in plain if r not in cached and not (r & 1 and r - 1 in cached and r not in others)]
        passes = timing.passes
        held_up = (passes - 1) * chip.pipes.wide_multiply_pass_cycles
        row[s.Instruction.stall] += held_up
        if instruction.opcode in GROUP_PRODUCTS:  # reads its accumulators and A while the pipe works, at its own pace
            plain = fewer = []
        by_bank = [_reads_by_bank(registers, chip.issue.register_bank_count, passes) for registers in (plain, fewer)]
        row[s.Instruction.reads] = by_bank[0] | by_bank[1] << 16 | held_up << 32
        if instruction.opcode in WARP_PRODUCTS and chip.pipes.tensor_read_cycles:
            row[s.Instruction.reads] |= s.PRODUCT
        for slot, operand in enumerate(sources):
            if operand.reuse:
                held[slot] = operand.index
            else:
                held.pop(slot, None)
        if memory and not lookup:
            _encode_access(row, instruction, memory[0], chip)
        if kind == s.K_MEMBAR:
            row[s.Instruction.strong] = 0 if "CTA" in instruction.modifiers else s.FENCE_AT_L2
            if "SYS" in instruction.modifiers:
                row[s.Instruction.strong] |= s.FENCE_SYSTEM
        if instruction.opcode == "DEPBAR":
            row[s.Instruction.extra] = _depbar(instruction, row)
    _wait_for_factors(rows, blocks, timings, program, written, chip.pipes.wide_multiply_pass_cycles)
    at = count * s.Instruction.size
    _encode_blocks(rows[at:], blocks, lowered)
    last = program.instructions[-1].address // line_bytes if count else 0
    return StaticProgram(rows, at, last + 1, constants.count, count, constants.parameter_lines)


def _is_strong(access: MemoryAccess, stops: set[int]) -> bool:
    """A strong access, but for a load of its block's scope before which no warp stops: L1 has what it reads (bench.micro ``scopes``)."""
    how = access.access
    return how.strong and (isinstance(how, TextureAccess) or how.scope != "block" or access.instruction in stops)


def _encode_access(row: npt.NDArray[np.int64], instruction: Instruction, access: Access, chip: Chip) -> None:
    """What a memory instruction asks for: its width, its operation and its flags."""
    space, size, operation, strong, atomic = access
    if operation == "bulk":
        row[s.Instruction.kind] = s.K_BULK
        row[s.Instruction.pipe] = s.P_MIO
        operation = "load"
    row[s.Instruction.access_bytes] = size
    row[s.Instruction.op] = {"load": s.OP_LOAD, "store": s.OP_STORE, "atomic": s.OP_ATOMIC}[operation]
    if operation == "atomic" and (instruction.opcode == "RED" or instruction.control.write_barrier >= 6):
        row[s.Instruction.op] = s.OP_REDUCE
    row[s.Instruction.strong] = int(strong or operation == "atomic")
    if strong and operation == "load" and not {"GPU", "gpu", "cluster"}.isdisjoint(instruction.modifiers):
        row[s.Instruction.strong] = s.DEVICE_SCOPE
    row[s.Instruction.extra] = 2 if atomic == "cas" else 1
    row[s.Instruction.extra] |= 512 * (_atomic_kind(atomic, size) | 8 * int(row[s.Instruction.op] == s.OP_ATOMIC))
    if "BYPASS" in instruction.modifiers or "CG" in instruction.modifiers:  # Pascal: cached in L2 only
        row[s.Instruction.extra] |= 256
    if "POPC" in instruction.modifiers:
        row[s.Instruction.extra] |= s.COUNTS_LANES
    if instruction.opcode == "ATOMS" and "CAST" in instruction.modifiers:
        shared = chip.shared
        row[s.Instruction.extra] = 1 | s.ONE_PASS
        row[s.Instruction.latency] = (
            shared.shared_cast_latency_cycles if size == 4 else shared.shared_cast_wide_latency_cycles
        )
    if instruction.opcode == "LDSM":
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
    """The block of a strong access at which a warp stops next, whatever the strong access of this one brings; -1 when that is open.

    There is no other record between the two, and no way but one.
    """
    last = lowered[block.first + block.count - 1]
    goes_on = not any(op.name in ENDS_BLOCK for op in last.ops) or (
        last.ops[-1].name == "branch" and last.guard is None
    )
    if block.stop != "strong" or len(block.accesses) != 1 or len(block.successors) != 1 or not goes_on:
        return -1
    return block.successors[0] if blocks[block.successors[0]].stop == "strong" else -1


def _atomic_kind(operation: str, size: int) -> int:
    """Bits for L2: 1 a floating-point sum, 2 handled by half sectors (compare-and-swap, doubles), 4 words of 8 bytes (8: answers)."""
    sums = operation in ("fadd", "fadd_ftz", "fadd_quiet", "fadd_f16x2", "fadd_bf16x2")
    return int(sums) | 2 * int(operation == "cas" or (sums and size == 8)) | 4 * int(size == 8)


def _depbar(instruction: Instruction, row: npt.NDArray[np.int64]) -> int:
    """DEPBAR.LE SBn, m: which counter goes to ``Instruction.op``, how many may be left is the result; DEPBAR {…} waits for a mask."""
    row[s.Instruction.op] = -1
    allowed = 0
    for operand in instruction.operands:
        if operand.kind is Kind.SCOREBOARD and row[s.Instruction.op] < 0:
            row[s.Instruction.op] = operand.index
        elif operand.kind is Kind.IMMEDIATE:
            allowed = operand.value
    return allowed
