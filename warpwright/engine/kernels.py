"""Prepares a loaded kernel for launches: lowers it once, and compiles it once per block shape."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from warpwright.engine.blocks import CLOCKS, INSTRUCTION_BYTES, BasicBlock, address_index, basic_blocks
from warpwright.engine.clock_uses import judged
from warpwright.engine.compiled_launch import CompiledExecution
from warpwright.engine.execute import Counts
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreted_launch import InterpretedExecution
from warpwright.engine.interpreter import Kernel
from warpwright.engine.jit.codegen import CompiledKernel, compile_kernel
from warpwright.engine.jit.shape_inference import CodeForm
from warpwright.engine.lane_positions import SavedPositions
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel, computed_once
from warpwright.engine.spin_loops import polls, with_strong_polls
from warpwright.isa.machine_code import FIRST_FERMI, lower
from warpwright.isa.ops import WARP_LANES, Access, Lowered, Op
from warpwright.isa.sass.access_policy import policy_registers


class Execution(Protocol):
    """A functional launch, in compiled code or in the interpreter."""

    @property
    def blocks_done(self) -> int: ...

    def run(self) -> Counts: ...


class Debugs(Protocol):
    """Interface of a debugger, which executes the launches of a process itself."""

    def execution(
        self, loaded: LoadedKernel, context: LaunchContext, resident_blocks: int, ptx: str | None
    ) -> Execution:
        """The execution of a launch; ``ptx`` of its module, if there is any."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A kernel compiled with tracing, in the form that the timing model takes."""

    address: int
    """Address of the native function ``int32 f(WARP*)``."""
    spill_bytes: int
    trace_words: int
    blocks: Sequence[BasicBlock]
    judged: bool
    saved_positions: SavedPositions
    has_policies: bool = False


def blocks_are_independent(lowered: Sequence[Lowered]) -> bool:
    """Whether blocks can communicate only through plain accesses: no atomics, no volatile accesses to global memory."""
    for instruction in lowered:
        for op in instruction.ops:
            if op.name in ("load", "store", "atomic"):
                access: Access = op.attr
                if access.space in ("global", "generic") and (access.strong or op.name == "atomic"):
                    return False
    return True


_OTHER_READS = ("atomic", "bulk", "texture", "service")


class MemoryReads(NamedTuple):
    """Indices of instructions that may read memory that outlives the launch."""

    weak_loads: list[int]
    """The cycle model notes what these read (``timing/read_pieces.py``)."""
    others: list[int]


@computed_once
def copies_in_bulk(loaded: LoadedKernel) -> bool:
    """Whether the kernel has bulk copies."""
    return any(op.name == "bulk" for low in lowered_of(loaded) for op in low.ops)


@computed_once
def waits_for_cluster(loaded: LoadedKernel) -> bool:
    """Whether the kernel has cluster barriers."""
    kinds = {"cluster_arrive", "cluster_wait"}
    return any(op.name == "barrier" and op.attr in kinds for low in lowered_of(loaded) for op in low.ops)


@computed_once
def reads_cycles(loaded: LoadedKernel) -> bool:
    """Whether the kernel reads the SM's clock, which counts cycles only where it is timed."""
    clocks = CLOCKS - {"globaltimer", "globaltimer_lo", "globaltimer_hi"}
    return any(
        op.name in ("special", "special64") and op.attr in clocks for low in lowered_of(loaded) for op in low.ops
    )


@computed_once
def _strong_loads(loaded: LoadedKernel) -> list[int]:
    """Indices of the strong loads of global memory."""
    return [
        n
        for n, low in enumerate(lowered_of(loaded))
        if any(op.name == "load" and op.attr.strong and op.attr.space in ("global", "generic") for op in low.ops)
    ]


@computed_once
def _polled_atomics(loaded: LoadedKernel) -> list[int]:
    """Indices of the atomics at a fixed address of global memory on which the end of a loop depends."""
    lowered, index_of = lowered_of(loaded), address_index(loaded.program)
    return [
        n
        for space in ("global", "generic")
        for n in polls(lowered, index_of, space)
        if any(op.name == "atomic" for op in lowered[n].ops)
    ]


def watches_memory(loaded: LoadedKernel) -> bool:
    """Whether the kernel has strong loads of global memory, through which blocks wait for each other."""
    return bool(_strong_loads(loaded))


@computed_once
def memory_reads(loaded: LoadedKernel) -> MemoryReads:
    """The instructions that may read memory that outlives the launch."""
    weak, others = [], []
    for n, low in enumerate(lowered_of(loaded)):
        loads = [op for op in low.ops if op.name == "load" and op.attr.space not in ("shared", "local")]
        if any(op.attr.strong for op in loads) or any(op.name in _OTHER_READS for op in low.ops):
            others.append(n)
        elif loads:
            weak.append(n)
    return MemoryReads(weak, others)


def polls_memory(loaded: LoadedKernel) -> bool:
    """Whether the kernel may wait for another kernel, a copy or the host: it has strong loads of global memory, or a loop that ends depending on an atomic at a fixed address."""
    return watches_memory(loaded) or bool(_polled_atomics(loaded))


@computed_once
def may_wait_for_others(loaded: LoadedKernel) -> bool:
    """Whether work outside the launch may release the kernel: it polls memory, and not only with accesses of block scope, as the atomics of ``cuda::barrier`` before
    sm_80 are."""
    instructions = loaded.program.instructions
    places = (*_strong_loads(loaded), *_polled_atomics(loaded))
    return any({"CTA", "SM"}.isdisjoint(instructions[n].modifiers) for n in places)


@computed_once
def lets_dependents_begin(loaded: LoadedKernel) -> bool:
    """Whether the kernel has ``griddepcontrol.launch_dependents``."""
    return any(
        i.opcode == "PREEXIT" or (i.opcode == "griddepcontrol" and "launch_dependents" in i.modifiers)
        for i in loaded.program.instructions
    )


@computed_once
def calls_services(loaded: LoadedKernel) -> bool:
    """Whether the kernel may call a driver service, other than one provided by another kernel of its module."""
    program = loaded.program
    if not program.services:
        return False
    lowered = lowered_of(loaded)
    blocks = basic_blocks(program, lowered)
    reached, work = {0}, [0]
    while work:
        new = set(blocks[work.pop()].successors) - reached
        reached |= new
        work += new
    serving = {n for n, low in enumerate(lowered) if any(op.name == "service" for op in low.ops)}
    return any(not serving.isdisjoint(range(blocks[n].first, blocks[n].first + blocks[n].count)) for n in reached)


BRIEF_INSTRUCTIONS = 1 << 20
"""Number of warp-instructions that end before anybody would press Ctrl-C: some milliseconds of compiled code."""


def is_brief(loaded: LoadedKernel, geometry: Geometry) -> bool:
    """Whether a launch must end soon: it has no backward or indirect branch, no barrier, and is small."""
    if loaded.straight is None:
        loaded.straight = _is_straight(loaded)
    return (
        loaded.straight
        and geometry.blocks * geometry.warps_per_block * len(loaded.program.instructions) < BRIEF_INSTRUCTIONS
    )


def _is_straight(loaded: LoadedKernel) -> bool:
    waits = ("barrier", "barrier_red", "bsync", "warpsync", "branch_indirect", "nanosleep")
    places = [
        (i.address, op)
        for i, low in zip(loaded.program.instructions, lowered_of(loaded), strict=True)
        for op in low.ops
    ]
    if any(op.name in waits for _, op in places):
        return False
    targets = {op.attr for address, op in places if op.name == "branch" and op.attr != address}
    ends = {
        i.address
        for i, low in zip(loaded.program.instructions, lowered_of(loaded), strict=True)
        if low.ops and low.ops[-1].name == "exit" and not low.ops[-1].args and low.guard is None
    }
    # The compiler puts an unreachable branch to itself after the last EXIT.
    return all(
        op.attr > address or (op.attr == address and address not in targets and address - INSTRUCTION_BYTES in ends)
        for address, op in places
        if op.name == "branch"
    )


def lowered_of(loaded: LoadedKernel) -> list[Lowered]:
    """The kernel's common operations, computed once."""
    if loaded.lowered is None:
        loaded.lowered = lower(loaded.program)
        if loaded.program.arch < FIRST_FERMI:
            loaded.lowered = with_strong_polls(loaded.lowered, address_index(loaded.program))
    return loaded.lowered


def code_key(geometry: Geometry, trace: bool) -> tuple[int, int, int, bool, bool, bool]:
    """Block shape, whether the code traces, whether the grid has less than 2**31 threads, whether there are clusters."""
    grid_fits = geometry.grid[0] * geometry.block[0] < 1 << 31
    return (*geometry.block, trace, grid_fits, geometry.cluster_blocks > 1)


ANY_LENGTH = (1024, 1, 1)
"""The largest of the blocks that code for any length serves."""
LONG_TO_COMPILE = 8192
"""Instructions of a kernel that takes many seconds to compile."""


def _serves_any_length(loaded: LoadedKernel, geometry: Geometry, made: Collection[tuple[int | bool, ...]]) -> bool:
    """Whether a launch is to be traced by code for blocks of any length: blocks of the kernel's launches differ, or might in a kernel that takes long to compile.

    Args:
        made: keys of the code that there is.
    """
    x, y, z = geometry.block
    lanes = loaded.program.lanes
    if lanes != WARP_LANES or x % lanes or x > ANY_LENGTH[0] or (y, z) != (1, 1):
        return False
    return len(loaded.program.instructions) >= LONG_TO_COMPILE or any(key[3] and key[:3] != (x, y, z) for key in made)


def compiled_of(loaded: LoadedKernel, geometry: Geometry, trace: bool, policies: bool = False) -> CompiledKernel:
    """The kernel compiled for a block shape (and, separately, for grids of 2**31 threads and more), once for each.

    Args:
        policies: whether a trace contains the access policies of instructions.
    """
    key = code_key(geometry, trace)
    noted = policies and bool(policies_of(loaded))
    made = loaded.compiled_with_policies if noted else loaded.compiled
    if key not in made:
        form, block = CodeForm(grid_fits=key[4], clustered=key[5]), geometry.block
        if trace and _serves_any_length(loaded, geometry, made):
            form, block = replace(form, any_length=True), ANY_LENGTH
        lowered = with_policies(loaded) if noted else lowered_of(loaded)
        made[key] = compile_kernel(loaded.program, lowered, block, trace=trace, form=form, is_quick=True)
    return made[key]


def policies_of(loaded: LoadedKernel) -> dict[int, int]:
    """Instructions with their own access policy, and the register that holds it; computed once."""
    if loaded.policies is None:
        loaded.policies = policy_registers(loaded.program)
    return loaded.policies


def with_policies(loaded: LoadedKernel) -> list[Lowered]:
    """The kernel's common operations, extended by ones that record access policies for the timing model."""
    result = list(lowered_of(loaded))
    for index, register in policies_of(loaded).items():
        if result[index].ops:
            note = [Op("get_ureg", "i32", (), register), Op("access_policy", "void", (0,))]
            result[index] = _noted(note, result[index])
    return result


def _noted(note: list[Op], low: Lowered) -> Lowered:
    """Append an instruction's operations to others, renumbering their references."""
    rest = [op._replace(args=tuple(a + len(note) for a in op.args)) for op in low.ops]
    return Lowered([*note, *rest], low.guard)


def with_masks(loaded: LoadedKernel, constants: Mapping[int, int] | None = None) -> list[Lowered]:
    """The kernel's common operations, extended by ones that record lanes outside the mask of a ``*_sync`` operation.

    Args:
        constants: index of an instruction that such an operation became: its mask; for chips without WARPSYNC.
    """
    result = list(lowered_of(loaded))
    for index, instruction in enumerate(loaded.program.instructions):
        mask = loaded.program.warp_masks.get(instruction.address)
        if constants and index in constants:
            note = [Op("const", "i32", (), constants[index]), Op("gathers", "void", (0,))]
        elif mask is None or any(op.name == "warpsync" for op in result[index].ops):
            continue
        else:
            note = [Op(f"get_{mask[0]}", "i32", (), mask[1]), Op("named", "void", (0,))]
        result[index] = _noted(note, result[index])
    return result


def with_mbarriers(lowered: list[Lowered], mbarriers: Mapping[int, str]) -> list[Lowered]:
    """Common operations of which those that test or change an mbarrier leave a trace record, before which a warp stops.

    Args:
        mbarriers: index of an instruction: ``PHASE`` for a test, ``MBARRIER`` for an arrival.
    """
    result = list(lowered)
    for index, kind in mbarriers.items():
        ops = result[index].ops
        one = next(op for op in ops if op.name in ("load", "atomic"))
        how = Access(one.attr.space, one.attr.bytes, True, kind, one.attr.type)
        result[index] = Lowered([*ops, Op("touch", "void", one.args[:1], how)], result[index].guard)
    return result


def _synchronises_lanes(loaded: LoadedKernel) -> bool:
    """Whether a kernel has operations that name the lanes of a warp."""
    return bool(loaded.program.warp_masks) or any(o.name == "warpsync" for x in lowered_of(loaded) for o in x.ops)


def traced(
    loaded: LoadedKernel,
    context: LaunchContext,
    masks: Mapping[int, int] | None = None,
    policies: bool = True,
    mbarriers: Mapping[int, str] | None = None,
) -> Traced:
    """The kernel as the timing model runs it.

    Args:
        policies: whether the trace contains access policies, which the checks do not use.
        masks: for the checks, which record lanes missing from the mask of a ``*_sync`` operation and lanes that it
            names in vain (:func:`with_masks`); otherwise None.
        mbarriers: for the checks, operations of mbarriers that timing does not record (:func:`with_mbarriers`).
    """
    if mbarriers or (masks is not None and (masks or _synchronises_lanes(loaded))):
        key = (*code_key(context.geometry, True), masks is not None)
        if key not in loaded.compiled_for_checks:
            lowered = with_masks(loaded, masks) if masks is not None else lowered_of(loaded)
            loaded.compiled_for_checks[key] = compile_kernel(
                loaded.program,
                with_mbarriers(lowered, mbarriers or {}),
                context.geometry.block,
                trace=True,
                form=CodeForm(watched=masks is not None, grid_fits=key[4], clustered=key[5]),
                is_quick=True,
            )
        compiled = loaded.compiled_for_checks[key]
    else:
        compiled = compiled_of(loaded, context.geometry, True, policies)
    return Traced(
        compiled.warp_function,
        compiled.spill_bytes,
        compiled.trace_words,
        compiled.blocks,
        compiled.judged,
        compiled.saved_positions,
        policies and masks is None and bool(policies_of(loaded)),
    )


def compiled_execution(
    loaded: LoadedKernel, context: LaunchContext, resident_blocks: int, threads: int
) -> CompiledExecution:
    """A launch in compiled code, without timing."""
    compiled = compiled_of(loaded, context.geometry, False)
    return CompiledExecution(
        context, compiled, resident_blocks, threads if threads > 1 and blocks_are_independent(lowered_of(loaded)) else 1
    )


def interpreted_execution(loaded: LoadedKernel, context: LaunchContext, resident_blocks: int) -> InterpretedExecution:
    """A launch in the interpreter."""
    if loaded.interpreted is None:
        loaded.interpreted = Kernel(loaded.program, lowered_of(loaded))
    return InterpretedExecution(
        context, loaded.interpreted, resident_blocks, judged(loaded.program, lowered_of(loaded))
    )
