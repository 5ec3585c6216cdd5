"""The events of a kernel that the checks examine: its memory accesses and everything that orders them, by basic block.

A traced warp leaves a record for each basic block that it enters and for each access in it (``engine/abi.py``).  The rest
is known from the machine code:

* ``__syncwarp()`` is WARPSYNC where lanes may have diverged, BRA.CONV before an out-of-line WARPSYNC, and a NOP
  where the compiler knows that they have not (NVRTC 12.9 for sm_70 to sm_90).
* MEMBAR is a fence; ``acquire`` of a scope beyond the block ends in CCTL.IVALL, which empties L1.
* An atomic of a type that the memory does not have is a loop of a load and a compare-and-swap of the same address, by the
  compiler or by hand: the load, which sees whatever is there, belongs to the atomic.
* ``volatile`` accesses to shared memory are plain LDS and STS; their lines come from the kernel's PTX, if it has any.
* SYNCS and ATOMS.ARRIVE are mbarriers (``isa/sass/mbarrier_code.py``): an arrival releases and a test acquires what the block's threads did.
* LDGSTS, UBLKCP, UTMALDG and UTMASTG copy asynchronously: LDGDEPBAR and UTMACMDFLUSH end a group of copies, DEPBAR waits for groups, and FENCE.VIEW.ASYNC
  (``fence.proxy.async``) makes what threads wrote visible to bulk copies.
* HGMMA and the like are products of a warpgroup; the last of a group names a scoreboard, for which WARPGROUP.DEPBAR waits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpwright.engine.blocks import BasicBlock, MemoryAccess, initialises_mbarrier
from warpwright.isa.program import RZ, Instruction, Kind, Program
from warpwright.isa.sass.mbarrier_code import is_mbarrier, tests_of_mbarriers
from warpwright.isa.sass.schedule import GROUP_PRODUCTS


class Event(IntEnum):
    """What happens at a point of a basic block."""

    LOAD = 0
    STORE = 1
    ATOMIC = 2
    LANES = 3
    """Lanes of the warp synchronise."""
    FENCE = 4
    CONSTANT = 5
    """A record that is irrelevant to memory that programs write."""
    BULK = 6
    """A bulk copy; its record has the memory that it reads and writes."""
    PROXY = 7
    """A fence between the accesses of threads and those of bulk copies."""
    COMMIT = 8
    """The end of a group of asynchronous copies; BYTES: the dependence counter, SCOPE: 1 for bulk copies."""
    WAIT = 9
    """A wait for groups; BYTES: the dependence counter, -1 for any, SCOPE: groups that may be left."""
    PRODUCTS = 10
    """The last product of a group of a warpgroup's products."""
    PRODUCTS_WAIT = 11
    """A wait for such groups; SCOPE: how many may be left."""


class Column(IntEnum):
    """A row of the event table."""

    EVENT = 0
    INSTRUCTION = 1
    BYTES = 2
    """Bytes per lane."""
    STRONG = 3
    """1: atomic or volatile, which never races with another strong access. 2: of block scope, which synchronises without a fence. Bulk copies: 1 if they
    reduce, each element atomically (PTX ISA: ``.relaxed.gpu``)."""
    SYNCHRONISES = 4
    """1: reading stops after it, because it may release or acquire."""
    SCOPE = 5
    """Accesses: 1 for the block's own shared memory, whatever rank in its cluster the address holds.  Fences: 0 the block, 1 the device and beyond.  Indexed
    reads of constant memory: bytes of the bank, 0 if unknown."""
    UNIFORM = 6
    """Stores: 1 if the machine code shows that every lane stores the same value."""
    COPY = 7
    """Stores: 1 if they belong to an asynchronous copy."""

    GUARD = 8
    """Loads: 1 if the value only decides whether an atomic on the same address follows."""


COLUMNS = len(Column)
SIGNALLING_STORE = "STAS"
"""``st.async``: a plain store into a block of the cluster that then signals an mbarrier there; the records do not contain which one."""
_BULK_REDUCTIONS = ("UBLKRED", "UTMAREDG")
_EVENTS = {"load": Event.LOAD, "store": Event.STORE, "atomic": Event.ATOMIC}


@dataclass(frozen=True, slots=True)
class Events:
    """The event table of one kernel."""

    rows: npt.NDArray[np.int64]
    """Shape (events, COLUMNS)."""
    starts: npt.NDArray[np.int64]
    """First row of each basic block, and the end of the last: shape (blocks + 1,)."""
    fences: bool
    """True when a fence or a barrier object may order accesses of different warps."""
    narrow_shared: bool
    """True when some access to shared memory is narrower than four bytes."""
    limited_constants: bool
    """True when some access reads constant memory at an index, and the bank's size is known."""
    copies: bool
    """True if the kernel has bulk copies, whose mbarriers must be notified."""
    mbarriers: Set[int]
    """Indices of the instructions that initialise, change or test an mbarrier."""


def reduces(instruction: Instruction) -> bool:
    """Whether a bulk copy adds to (or otherwise combines with) what is at its target."""
    return instruction.opcode in _BULK_REDUCTIONS


def _synchronises_lanes(program: Program, index: int) -> bool:
    instruction = program.instructions[index]
    if instruction.opcode == "WARPSYNC":
        return True
    if instruction.opcode == "BRA":
        return "CONV" in instruction.modifiers
    return instruction.opcode == "NOP"


def _bank(instruction: Instruction) -> int:
    """The constant bank of an indexed read."""
    return next((o.index for o in instruction.operands if o.kind is Kind.CONSTANT), 0)


def _address(instruction: Instruction) -> tuple[int, int] | None:
    """(base register, displacement) of the memory operand."""
    operand = next((o for o in instruction.operands if o.kind is Kind.MEMORY), None)
    if operand is None or operand.base is None:
        return None if operand is None else (RZ, operand.value)
    return operand.base.index, operand.value


def _loads_of_atomics(program: Program) -> set[int]:
    """Indices of loads from the address of a later compare-and-swap."""
    found = set()
    for index, instruction in enumerate(program.instructions):
        if not instruction.opcode.startswith("ATOM") or not any(m.startswith("CAS") for m in instruction.modifiers):
            continue
        where = _address(instruction)
        for back in range(index - 1, -1, -1):
            before = program.instructions[back]
            if before.opcode.startswith("LD") and _address(before) == where and where is not None:
                found.add(back)
            if where is not None and before.guard is None and _registers(before, True) & {where[0], where[0] + 1}:
                # Before this instruction the register held another address.
                break
    return found


MOST_BETWEEN = 64
"""Most instructions between a read and the atomic that it guards."""
_COMPARISONS = ("ISETP", "FSETP", "DSETP", "HSETP2", "UISETP")


def _registers(instruction: Instruction, targets: bool) -> set[int]:
    """Registers that an instruction writes or reads; for operands that may be double words, both."""
    found = set[int]()
    writes_none = instruction.opcode.startswith(("ST", "RED")) or instruction.opcode in _COMPARISONS
    width = (
        4
        if "128" in instruction.modifiers
        else 2
        if {"64", "WIDE"} & set(instruction.modifiers) or instruction.opcode.startswith("D")
        else 1
    )
    first = next((n for n, o in enumerate(instruction.operands) if o.kind in (Kind.REGISTER, Kind.MEMORY)), -1)
    for n, operand in enumerate(instruction.operands):
        if operand.kind is Kind.REGISTER and operand.index != RZ and (n == first and not writes_none) == targets:
            found |= set(range(operand.index, operand.index + width))
        elif operand.kind is Kind.MEMORY and operand.base is not None and not targets:
            found |= {operand.base.index, operand.base.index + 1}
    return found


def guards_of_atomics(program: Program) -> set[int]:
    """Indices of loads whose value is only compared, before an atomic of the same address: ``if (*top >= 0) atomicAdd(top, -1)``."""
    code, found = program.instructions, set[int]()
    for index, atomic in enumerate(code):
        where = _address(atomic) if atomic.opcode.startswith(("ATOM", "RED")) else None
        if where is None:
            continue
        for back in range(index - 1, max(index - MOST_BETWEEN, -1), -1):
            before = code[back]
            if before.opcode in ("RET", "BAR", "CALL") or (before.opcode == "EXIT" and before.guard is None):
                break
            if before.opcode in ("LD", "LDG", "LDS") and _address(before) == where:
                if _is_only_compared(code, back):
                    found.add(back)
                break
            if _registers(before, True) & {where[0], where[0] + 1}:
                break
    return found


def _is_only_compared(code: Sequence[Instruction], load: int) -> bool:
    """Whether only comparisons read the loaded value, until its register is written again."""
    target = _registers(code[load], True)
    for instruction in code[load + 1 :]:
        if _registers(instruction, False) & target and instruction.opcode not in _COMPARISONS:
            return False
        if _registers(instruction, True) & target and instruction.guard is None:
            break
    return True


def is_only_copied(code: Sequence[Instruction], load: int) -> bool:
    """Whether only stores use the loaded value, as their data, until its register is written again."""
    target = _registers(code[load], True)
    stored = False
    for instruction in code[load + 1 :]:
        if _registers(instruction, False) & target:
            data = instruction.operands[-1]
            address = _address(instruction)
            if not instruction.opcode.startswith("ST") or (address and {address[0], address[0] + 1} & target):
                return False
            stored |= data.kind is Kind.REGISTER and data.index in target
        if _registers(instruction, True) & target and instruction.guard is None:
            break
    return stored


_SHARED_VOLATILE = re.compile(r"\b(?:ld|st)\.(?:volatile|relaxed|acquire|release)(?:\.\w+)*\.shared\b")


def volatile_lines(ptx: str | None) -> frozenset[int]:
    """Source lines whose accesses to shared memory are volatile (or relaxed, acquire, release) in the PTX of a module."""
    lines = set()
    current = 0
    for text in (ptx or "").splitlines():
        words = text.split()
        if len(words) >= 3 and words[0] == ".loc":
            current = int(words[2])
        elif _SHARED_VOLATILE.search(text):
            lines.add(current)
    return frozenset(lines)


def _stores_one_value(program: Program, index: int) -> bool:
    """Whether a store's data is RZ or a register that was last set to an immediate or a kernel argument."""
    instruction = program.instructions[index]
    if not instruction.opcode.startswith("ST") or not instruction.operands:
        return False
    if instruction.operands[-1].kind is not Kind.REGISTER:
        return False
    data = instruction.operands[-1].index
    if data == RZ:
        return True
    for back in range(index - 1, -1, -1):
        before = program.instructions[back]
        first = before.operands[0] if before.operands else None
        if first is None or first.kind is not Kind.REGISTER or first.index != data or before.opcode.startswith("ST"):
            continue
        sources = [o for o in before.operands[1:] if not (o.kind is Kind.REGISTER and o.index == RZ)]
        constants = (Kind.IMMEDIATE, Kind.FLOAT, Kind.CONSTANT, Kind.UNIFORM_REGISTER)
        return before.guard is None and all(o.kind in constants for o in sources)
    return False


class _Facts(NamedTuple):
    """Facts about a kernel that determine how its accesses are classified."""

    parts: set[int]
    """Loads that belong to an atomic."""
    tests: set[int]
    """Loads that test an mbarrier."""
    guards: set[int]
    """Loads that only guard an atomic."""
    volatile: Set[int]
    """Source lines of volatile accesses to shared memory."""
    fences: bool
    """Whether anything besides barriers orders warps."""


def _of_access(access: MemoryAccess, index: int, program: Program, facts: _Facts) -> list[int]:
    """The event of an access to shared, global or generic memory."""
    instruction = program.instructions[index]
    shared = access.space == "shared"
    # mbarrier.init exchanges the word without using its old value, which may be undefined.
    event = Event.STORE if initialises_mbarrier(instruction) else _EVENTS[access.kind]
    signals = instruction.opcode == SIGNALLING_STORE
    mbarrier = is_mbarrier(instruction) or index in facts.tests
    block_scope = mbarrier or (access.access.strong and _of_block(instruction))
    strong = (access.access.strong and not signals) or event is Event.ATOMIC or index in facts.parts or mbarrier
    strong |= shared and instruction.line is not None and instruction.line[1] in facts.volatile
    synchronises = signals or (facts.fences and strong and index not in facts.parts)
    kind = 2 if block_scope else int(strong)
    one_value = _stores_one_value(program, index)
    copy = event is Event.STORE and instruction.opcode == "LDGSTS"
    guard = event is Event.LOAD and index in facts.guards
    return [
        event,
        index,
        access.bytes,
        kind,
        int(synchronises),
        int(shared),
        int(one_value),
        int(copy),
        int(guard),
    ]


def events_of(program: Program, blocks: Sequence[BasicBlock], volatile: Set[int] = frozenset()) -> Events:
    """The event table of a kernel that was compiled with tracing.

    Args:
        volatile: source lines of volatile accesses to shared memory.
    """
    rows: list[list[int]] = []
    starts = [0]
    tests = tests_of_mbarriers(program)
    behind_tests = {compare + 1 for compare in tests.values()}
    fences = any(i.opcode in ("MEMBAR", SIGNALLING_STORE) or is_mbarrier(i) for i in program.instructions)
    facts = _Facts(_loads_of_atomics(program), set(tests), guards_of_atomics(program), volatile, fences)
    narrow = copies = False
    for block in blocks:
        accesses = list(block.accesses)
        for index in range(block.first, block.first + block.count):
            instruction = program.instructions[index]
            while accesses and accesses[0].instruction == index:
                access = accesses.pop(0)
                if access.space in ("constant", "value"):
                    bank = _bank(instruction) if access.space == "constant" else 0
                    limit = len(program.constant_banks.get(bank, b"")) if bank else 0
                    rows.append([Event.CONSTANT, index, access.bytes, 0, 0, limit, 0, 0, 0])
                    continue
                if access.kind == "bulk":
                    copies = True
                    rows.append([Event.BULK, index, access.bytes, int(reduces(instruction)), 0, 0, 0, 0, 0])
                    continue
                narrow |= access.space in ("shared", "generic") and access.bytes < 4
                rows.append(_of_access(access, index, program, facts))
            if instruction.opcode == "MEMBAR" or (instruction.opcode == "CCTL" and "IVALL" in instruction.modifiers):
                wide = not {"CTA", "SM"} & set(instruction.modifiers)
                rows.append([Event.FENCE, index, 0, 0, 1, int(wide), 0, 0, 0])
            elif index not in behind_tests and _synchronises_lanes(program, index):
                rows.append([Event.LANES, index, 0, 0, 0, 0, 0, 0, 0])
            else:
                rows += _of_copies(instruction, index)
        starts.append(len(rows))
    table = np.array(rows, np.int64).reshape(len(rows), COLUMNS)
    limited = bool(table[table[:, Column.EVENT] == Event.CONSTANT, Column.SCOPE].any())
    mbarriers = {n for n, i in enumerate(program.instructions) if is_mbarrier(i)} | set(tests)
    return Events(table, np.array(starts, np.int64), fences, narrow, limited, copies, mbarriers)


def _of_copies(instruction: Instruction, index: int) -> list[list[int]]:
    """The event of an instruction that orders asynchronous copies or products, if it is one."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "FENCE" and "ASYNC" in modifiers:
        return [[Event.PROXY, index, 0, 0, 1, 0, 0, 0, 0]]
    if opcode in ("LDGDEPBAR", "UTMACMDFLUSH"):
        counters = (instruction.control.write_barrier, instruction.control.read_barrier)
        return [[Event.COMMIT, index, min(counters), 0, 1, int(opcode == "UTMACMDFLUSH"), 0, 0, 0]]
    if opcode == "DEPBAR":
        counter = next((o.index for o in instruction.operands if o.kind is Kind.SCOREBOARD), -1)
        left = next((o.value for o in instruction.operands if o.kind is Kind.IMMEDIATE), 0)
        return [[Event.WAIT, index, counter, 0, 1, left, 0, 0, 0]]
    if opcode in GROUP_PRODUCTS and any(o.kind is Kind.SCOREBOARD for o in instruction.operands):
        return [[Event.PRODUCTS, index, 0, 0, 1, 0, 0, 0, 0]]
    if opcode == "WARPGROUP" and "DEPBAR" in modifiers:
        return [[Event.PRODUCTS_WAIT, index, 0, 0, 1, instruction.operands[-1].value, 0, 0, 0]]
    return []


def _of_block(instruction: Instruction) -> bool:
    return "CTA" in instruction.modifiers or "SM" in instruction.modifiers
