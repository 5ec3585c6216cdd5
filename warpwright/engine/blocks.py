"""Basic blocks of a kernel: the unit in which both engines execute and the trace counts.

A block is entered only at its first instruction and left only after its last.  Leaders are: the first instruction,
targets of branches and of BSSY, instructions after a control operation, convergence points (BSYNC, WARPSYNC: lanes may
have to wait before them), indirect branches (executed again for each target), block barriers with a guard (executed
again for the waiting lanes), and strong accesses to global or generic memory and clock reads, so that a traced warp can
stop *before* them.

Calls through registers and returns are indirect branches (``meaning_control``), so a block that ends
in one has every possible target as successor: functions whose address is taken, the places after the calls of a function,
the targets that the meaning lists, and code addresses that constant banks hold (jump tables).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from warpwright.engine.reconvergence import stack_targets
from warpwright.engine.spin_loops import block_looks, changes_shared, polls
from warpwright.isa.ops import ATTRIBUTES, Access, Lowered, Op
from warpwright.isa.program import Instruction, Program
from warpwright.isa.texture_access import TextureAccess

INSTRUCTION_BYTES = 16
ENDS_BLOCK = frozenset(
    (
        *("branch", "branch_indirect", "exit", "trap", "bsync", "warpsync", "yield", "nanosleep", "barrier"),
        *("barrier_red", "pop", "call"),
    )
)
"""Control operations that end a block."""
STARTS_BLOCK = frozenset(("bsync", "warpsync", "branch_indirect"))
"""Operations before which lanes may wait, or that are executed once for each of their targets."""
BULK_ACCESS = Access("global", 16)
"""Represents a bulk copy, which its record describes."""
PHASE = "phase"
"""``Access.operation`` of a test of an mbarrier: a traced warp stops before it as before a clock read, so that the test
sees the arrivals up to the cycle of its issue."""
MBARRIER = "mbarrier"
"""``Access.operation`` of an atomic that changes an mbarrier."""
CLOCKS = frozenset(("clock", "clock_lo", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"))


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A memory instruction, or half of an asynchronous copy: one record in a block's trace, in this order."""

    instruction: int
    """Index in ``Program.instructions``."""
    space: str
    """global | generic | shared | local."""
    bytes: int
    """Bytes per lane."""
    kind: str
    """load | store | atomic | bulk."""
    access: Access | TextureAccess


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """``count`` instructions from index ``first``; ``successors`` are block numbers in ascending order."""

    number: int
    first: int
    count: int
    successors: tuple[int, ...]
    accesses: tuple[MemoryAccess, ...]
    stop: str = ""
    """Why a traced warp stops before this block: "" | strong | clock."""
    gives_way: bool = False
    """Whether a warp lets the other warps of its block run before it executes this block: it begins with an mbarrier's
    initialisation (``initialises_mbarrier``)."""


def address_index(program: Program) -> dict[int, int]:
    """Index of each instruction by byte address."""
    if 50 <= program.arch < 70:  # a jump to a control word lands after it
        found = {i.address - 8: n for n, i in enumerate(program.instructions) if i.address % 32 == 8}
        return found | {instruction.address: index for index, instruction in enumerate(program.instructions)}
    return {instruction.address: index for index, instruction in enumerate(program.instructions)}


def is_clock(op: Op) -> bool:
    """Whether the operation reads a clock."""
    return op.name in ("special", "special64") and op.attr in CLOCKS


def initialises_mbarrier(instruction: Instruction) -> bool:
    """Whether an instruction makes an mbarrier, perhaps in the place of one at which other warps still wait.

    On a card the end of a phase wakes all warps that wait for it, before any of them can have executed the dozens of
    instructions up to the next initialisation.  Programs rely on it (libcu++'s ``arrive_tx_cta``, which an H200 passes).  So a warp gives
    way before the initialisation, and with timing it executes it in the cycle in which it issues.
    """
    if instruction.opcode == "mbarrier":
        return instruction.modifiers[:1] == ("init",)
    return instruction.opcode == "SYNCS" and "EXCH" in instruction.modifiers


def stop_before(lowered: Lowered) -> str:
    """Why a traced warp stops before this instruction in any kernel: "" | strong | clock."""
    for op in lowered.ops:
        if op.name == "load" and op.attr.operation == PHASE:
            return "clock"
        if op.name in ("load", "store", "atomic"):
            access: Access = op.attr
            if access.space == "shared" and access.operation == MBARRIER:
                return "clock"  # a warp that waits for it must not be woken before the cycle of its issue
            if access.space in ("global", "generic") and (access.strong or op.name == "atomic"):
                return "strong"
        elif is_clock(op) or (op.name == "touch" and op.attr.operation in (PHASE, MBARRIER)):
            return "clock"
    return ""


def waits_under_guard(lowered: Lowered) -> bool:
    """Whether this is a block barrier at which only the lanes wait that satisfy a guard."""
    waits = (op.name in ("barrier", "barrier_red") and op.attr in ("sync", "popc", "and", "or") for op in lowered.ops)
    return lowered.guard is not None and any(waits)


def recorded_accesses(lowered: Lowered) -> tuple[int, ...]:
    """The memory operations of an instruction that leave a trace record, as positions.

    One record represents the instruction, however many operations its meaning has: the one marked with ``touch``, else
    the first.  An asynchronous copy has two, its global load and its shared store.
    """
    places = [n for n, op in enumerate(lowered.ops) if op.name in ("touch", "bulk")]
    if places:
        return tuple(places)
    places = [
        n
        for n, op in enumerate(lowered.ops)
        if op.name in ("load", "store", "atomic", "texture")
        and op.attr.cache != ATTRIBUTES
        and not (op.name == "load" and op.attr.operation == PHASE)
    ]
    if len(places) < 2:
        return tuple(places)
    first, last = (lowered.ops[n] for n in (places[0], places[-1]))
    copies = (first.name, first.attr.space, last.name, last.attr.space) == ("load", "global", "store", "shared")
    return (places[0], places[-1]) if copies else (places[0],)


def _kind(op: Op) -> str:
    """load | store | atomic."""
    if op.name == "texture":
        return "store" if op.attr.writes else "load"
    if op.name == "touch":
        return "atomic" if op.attr.operation == MBARRIER else "load"
    return op.name


def _recorded(index: int, op: Op) -> MemoryAccess:
    access = BULK_ACCESS if op.name == "bulk" else op.attr
    return MemoryAccess(index, access.space, access.bytes, _kind(op), access)


def return_sites(program: Program) -> list[int]:
    """Indices of the instructions after every CALL, which are the possible targets of returns."""
    last = len(program.instructions) - 1
    return [i + 1 for i, x in enumerate(program.instructions) if x.opcode in ("CALL", "CAL", "JCAL") and i < last]


def indirect_targets(program: Program, lowered: Sequence[Lowered]) -> dict[int, tuple[int, ...]]:
    """For each instruction that ends in an indirect branch: indices of its possible targets.

    If the loader knows the functions, a call through a register may reach those whose address is taken, and a return
    the
    places after the calls of its function.
    """
    index_of = address_index(program)
    # Before Volta, calls return through the reconvergence stack, not through a register.
    sites = tuple(return_sites(program)) if program.arch >= 70 else ()
    result: dict[int, tuple[int, ...]] = {}
    tables: tuple[int, ...] | None = None
    returns: _Returns | None = None
    callable_: frozenset[int] = frozenset()
    if program.functions and sites:
        callable_ = _functions_by_register(program, lowered, index_of)
        returns = _Returns(program, lowered, callable_)
    for index, low in enumerate(lowered):
        if not low.ops or low.ops[-1].name != "branch_indirect":
            continue
        listed = low.ops[-1].attr
        opcode = program.instructions[index].opcode
        if listed:
            result[index] = tuple(sorted({index_of[a] for a in listed if a in index_of}))
        elif opcode in RETURNS:
            result[index] = sites if returns is None else returns.of(program.instructions[index].address)
        elif opcode == "CALL" and returns is not None:
            result[index] = tuple(sorted(index_of[a] for a in callable_ if a in index_of))
        else:
            if tables is None:
                tables = _addresses_in_tables(program, lowered, index_of)
            taken = (index_of[a] for a in callable_ if a in index_of and opcode.startswith("JMX"))
            result[index] = tuple(sorted({*sites, *tables, *taken}))
    return result


RETURNS = ("RET", "SERVICE")


def _functions_by_register(program: Program, lowered: Sequence[Lowered], index_of: dict[int, int]) -> frozenset[int]:
    """First bytes of functions that a call through a register may reach.

    Whole-program code refers to a kernel's functions without relocations: by their offsets in a table in a constant
    bank, or in instructions' constants, relative to the kernel's code, as its calls use them.
    """
    if not any(
        low.ops and low.ops[-1].name == "branch_indirect" and not low.ops[-1].attr and i.opcode not in RETURNS
        for i, low in zip(program.instructions, lowered, strict=True)
    ):
        return program.taken
    places = {program.instructions[n].address for n in _addresses_in_tables(program, lowered, index_of)}
    constants = {bits - program.code_base for bits in _constants(lowered)}
    places |= {bits + displacement for bits in constants for displacement in _displacements(program, lowered)}
    # A kernel is never called; services are known by their relocations.
    functions = set(program.functions) - {0}
    return program.taken | {
        a for a in places & functions if a in index_of and program.instructions[index_of[a]].opcode != "SERVICE"
    }


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def _constants(lowered: Sequence[Lowered]) -> set[int]:
    """All constants in instructions."""
    return {_signed(op.attr) for low in lowered for op in low.ops if op.name == "const" and op.type in ("i32", "i64")}


def _displacements(program: Program, lowered: Sequence[Lowered]) -> set[int]:
    """Displacements that indirect branches may add to the word that they receive."""
    found = {0, program.code_base}
    for low in lowered:
        if low.ops and low.ops[-1].name == "branch_indirect":
            found.update(_signed(op.attr) for op in low.ops if op.name == "const" and op.type == "i64")
    return found


class _Returns:
    """Possible return addresses of each function: after its calls, and after calls of functions that jump into it."""

    def __init__(self, program: Program, lowered: Sequence[Lowered], callable_: frozenset[int]) -> None:
        self._functions = program.functions
        self._group = {f: f for f in program.functions}
        last = len(program.instructions) - 1
        calls: list[tuple[int, Iterable[int]]] = []
        for index, (i, low) in enumerate(zip(program.instructions, lowered, strict=True)):
            for op in low.ops:
                if op.name == "branch" and i.opcode == "CALL":
                    if index < last:
                        calls.append((index + 1, (op.attr,)))
                elif op.name == "branch_indirect" and i.opcode == "CALL":
                    # A call that became a service names the address after it.
                    if index < last and not op.attr:
                        calls.append((index + 1, callable_))
                elif op.name == "branch":
                    self._join(i.address, op.attr)
                elif op.name == "branch_indirect" and i.opcode not in RETURNS:
                    # JMX may continue in another function, which then returns to this function's caller.
                    for target in op.attr or (callable_ if i.opcode.startswith("JMX") else ()):
                        self._join(i.address, target)
        self._sites: dict[int, set[int]] = {}
        for site, callees in calls:
            for callee in callees:
                self._sites.setdefault(self._root(callee), set()).add(site)

    def of(self, address: int) -> tuple[int, ...]:
        """Indices of possible targets of a return at ``address``."""
        return tuple(sorted(self._sites.get(self._root(address), ())))

    def _root(self, address: int) -> int:
        """The representative of the group of functions to which an address belongs."""
        function = self._functions[max(bisect_right(self._functions, address) - 1, 0)]
        while self._group[function] != function:
            function = self._group[function]
        return function

    def _join(self, one: int, other: int) -> None:
        self._group[self._root(one)] = self._root(other)


def _addresses_in_tables(program: Program, lowered: Sequence[Lowered], index_of: dict[int, int]) -> tuple[int, ...]:
    """Code addresses that may be taken: words of constant banks (absolute, or relative to a branch) and constants."""
    displacements = _displacements(program, lowered)
    found: set[int] = set()
    for bank, data in program.constant_banks.items():
        if bank == 0:
            continue
        for (word,) in struct.iter_unpack("<i", data[: len(data) // 4 * 4]):
            for displacement in displacements:
                target = index_of.get(word + displacement - program.code_base)
                if target is not None:
                    found.add(target)
                target = index_of.get(word + displacement)
                if target is not None:
                    found.add(target)
    if not found:
        # No table: addresses are computed by the code itself (function pointers in registers).
        constants = {bits - program.code_base for bits in _constants(lowered)}
        found.update(index_of[c] for c in constants if c in index_of and c)
    return tuple(sorted(found))


def _stops(lowered: Sequence[Lowered], index_of: dict[int, int], initialises: frozenset[int]) -> Callable[[int], str]:
    """Why a traced warp stops before an instruction, by index; empty if it does not."""
    looks = polls(lowered, index_of)
    waits = block_looks(lowered, index_of)

    def stops(index: int) -> str:
        if index in initialises:
            return "clock"
        if index not in waits and any(op.name == "load" and op.attr.scope == "block" for op in lowered[index].ops):
            return ""
        if index in looks or (looks and changes_shared(lowered[index])):
            return "clock"
        return stop_before(lowered[index])

    return stops


def _leaders(
    lowered: Sequence[Lowered],
    index_of: dict[int, int],
    place: Callable[[int, int], int],
    stops: Callable[[int], str],
    indirect: dict[int, tuple[int, ...]],
) -> set[int]:
    """The first instruction of each block."""
    leaders = {0}
    for index, low in enumerate(lowered):
        ends = False
        for op in low.ops:
            if op.name in ("branch", "call"):
                leaders.add(place(op.attr, index))
            elif op.name == "push":
                leaders.add(place(op.attr[1], index))
            elif op.name == "bssy":
                if op.attr[1] in index_of:
                    leaders.add(index_of[op.attr[1]])
            elif op.name in STARTS_BLOCK:
                leaders.add(index)
            ends = ends or op.name in ENDS_BLOCK
        if ends and index + 1 < len(lowered):
            leaders.add(index + 1)
        if stops(index) or waits_under_guard(low):
            leaders.add(index)
        leaders.update(indirect.get(index, ()))
    return leaders


def basic_blocks(program: Program, lowered: Sequence[Lowered], begins: Iterable[int] = ()) -> list[BasicBlock]:
    """Split a kernel into basic blocks.

    Args:
        lowered: one entry for each instruction of ``program``.
        begins: further instructions at which blocks begin, by index.

    Returns:
        Blocks in code order; ``blocks[n].number == n``.

    Raises:
        ValueError: when a direct branch leaves the program.
    """
    total = len(lowered)
    if total != len(program.instructions):
        raise ValueError(f"{program.name}: {len(program.instructions)} instructions but {total} meanings")
    index_of = address_index(program)
    indirect = indirect_targets(program, lowered)
    landings = stack_targets(lowered, index_of, indirect)

    def place(address: int, index: int) -> int:
        found = index_of.get(address)
        if found is None:
            at = program.instructions[index].address
            raise ValueError(
                f"{program.name}: the branch at {at:#x} goes to {address:#x}, outside of the kernel's code"
            )
        return found

    initialises = frozenset(n for n, one in enumerate(program.instructions) if initialises_mbarrier(one))
    stops = _stops(lowered, index_of, initialises)
    starts = sorted({*_leaders(lowered, index_of, place, stops, indirect), *begins})
    number_at = {start: number for number, start in enumerate(starts)}
    blocks = []
    for number, first in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else total
        accesses = tuple(
            _recorded(i, op)
            for i in range(first, end)
            for op in (lowered[i].ops[n] for n in recorded_accesses(lowered[i]))
        )
        targets, falls = _ways_out(lowered[end - 1], end - 1, place, indirect, landings)
        successors = {number_at[i] for i in targets}
        if falls and number + 1 < len(starts):
            successors.add(number + 1)
        following = tuple(sorted(successors))
        blocks.append(BasicBlock(number, first, end - first, following, accesses, stops(first), first in initialises))
    return blocks


def _ways_out(
    last: Lowered,
    index: int,
    place: Callable[[int, int], int],
    indirect: Mapping[int, Iterable[int]],
    landings: Mapping[int, Iterable[int]],
) -> tuple[set[int], bool]:
    """Instructions to which the last instruction of a block, at ``index``, may jump, and whether the block also falls
    through."""
    final = last.ops[-1] if last.ops else None
    if final is None:
        return set(), True
    conditional = bool(final.args) or last.guard is not None
    if final.name == "branch":
        return {place(final.attr, index)}, conditional
    if final.name == "branch_indirect":
        return set(indirect[index]), last.guard is not None
    if final.name == "call":
        return {place(final.attr, index)}, False
    if final.name == "pop":
        return set(landings[index]), conditional
    return set(), conditional or final.name not in ("exit", "trap")
