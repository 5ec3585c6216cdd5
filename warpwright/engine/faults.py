"""Builds error messages for faults and deadlocks: what, where in the source, which thread, nearest allocation.

A stopped warp stores kind, address, lanes and instruction in its WARP structure (``engine/abi.py``); this module
turns them into the exceptions of ``warpwright.errors``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpwright.engine.abi import (
    LOCAL_WINDOW,
    SHARED_RANK_SHIFT,
    SHARED_WINDOW,
    SHARED_WINDOW_BYTES,
    WINDOW_BYTES,
    FaultKind,
)
from warpwright.engine.card_pages import Overrun
from warpwright.engine.code_sites import awaited_operation, find, first_operation, index_at, place_of
from warpwright.engine.device_memory import GAP_BYTES, DeviceMemory
from warpwright.engine.geometry import Dim3, Geometry
from warpwright.engine.lane_positions import Group
from warpwright.errors import (
    DeadlockError,
    ExecutionError,
    FaultingAccess,
    IllegalInstructionError,
    MemoryFaultError,
    TrapError,
    UnsupportedError,
)
from warpwright.isa.machine_code import FIRST_FERMI, lower
from warpwright.isa.ops import Op
from warpwright.isa.program import Instruction, Program
from warpwright.quantity_text import byte_count_text
from warpwright.toolchain.demangle import plain_name

_READS = ("LD", "ULD")
_ATOMICS = ("ATOM", "RED")
_WORDS = {"load": "read", "store": "write", "atomic": "atomic"}
"""Names of the common operations in messages."""
_SHARED = ("LDS", "STS", "ATOMS")
_LOCAL = ("LDL", "STL")
_SHARED_FAULTS = (FaultKind.SHARED_OUT_OF_BOUNDS, FaultKind.NO_SUCH_BLOCK, FaultKind.BLOCK_HAS_EXITED)
VOLTA = 70
"""From this architecture on, lanes of a warp have independent thread scheduling."""
_SHOWN_WARPS = 8
SHOWN_PLACES = 3
"""Greatest number of calls of one function that a message names."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a warp stopped and why: the fault fields of WARP with the block that it belongs to."""

    block: Dim3
    warp_in_block: int
    lanes: int
    """Mask of the affected lanes."""
    instruction: int
    """Byte address in the program."""
    kind: int = 0
    address: int = 0
    """Device address accessed by the first of these lanes, or byte offset in shared or local memory."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class WaitingWarp:
    """One warp of a block that cannot continue."""

    warp_in_block: int
    state: str
    """``exited``, ``barrier``, ``cluster`` (at its cluster's barrier) or ``converge`` (its own lanes wait for each
    other)."""
    barrier: int = 0
    barrier_threads: int = 0
    """Number of threads that the barrier expects; 0 for the whole block."""
    instruction: int = -1
    """Byte address of the instruction at which it waits; -1 if unknown."""
    lanes: int = 0


def instruction_at(program: Program, address: int) -> Instruction | None:
    """The instruction at a byte address, or None when the address is outside the program."""
    index = find(program, address)
    return None if index is None else program.instructions[index]


def source_line(program: Program, address: int) -> str | None:
    """``saxpy.cu:5: y[i] = a * x[i] + y[i];`` for an instruction, or None without line information.

    The text comes from the program's own source if the line is in it, otherwise from disk.  For a function without lines of its own, the lines are those of
    its calls (``code_sites.py``).
    """
    index = find(program, address)
    if index is None:
        return None
    places = [program.instructions[n].line for n in place_of(program, index)]
    return " or ".join(_with_text(program, *place) for place in places[:SHOWN_PLACES] if place is not None) or None


def _with_text(program: Program, name: str, number: int) -> str:
    """A line's file, number and text."""
    lines: Sequence[str] = ()
    if program.source is not None and name == program.source_name:
        lines = program.source.splitlines()
    elif Path(name).is_file():
        lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
    text = lines[number - 1].strip() if 1 <= number <= len(lines) else ""
    name, number = program.origin(name, number)
    return f"{name}:{number}: {text}" if text else f"{name}:{number}"


def _first_lane(mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else 0


def thread_of(geometry: Geometry, warp_in_block: int, lane: int) -> Dim3:
    """threadIdx of a lane."""
    linear = warp_in_block * geometry.lanes + lane
    x, y, _ = geometry.block
    return linear % x, linear // x % y, linear // (x * y)


def _place(program: Program, geometry: Geometry, stop: Stop) -> str:
    """Lines of a message that describe the place: source (or instruction), block, thread."""
    lane = _first_lane(stop.lanes)
    thread = thread_of(geometry, stop.warp_in_block, lane)
    others = stop.lanes.bit_count() - 1
    line = source_line(program, stop.instruction)
    instruction = instruction_at(program, stop.instruction)
    what = f"{line}\n  " if line else ""
    if instruction is not None:
        mnemonic = ".".join((instruction.opcode, *instruction.modifiers))
        what += f"instruction {mnemonic} at {stop.instruction:#x}\n  "
    more = f" and {others} more of its warp" if others > 0 else ""
    return f"{what}block {stop.block}, thread {thread}{more}"


def _access_word(instruction: Instruction | None, meant: Op | None) -> str:
    """``read``, ``write`` or ``atomic``: by the operation where it is known, else by the opcode."""
    if meant is not None:
        return _WORDS[meant.name]
    opcode = instruction.opcode if instruction is not None else ""
    if opcode.startswith(_ATOMICS):
        return "atomic"
    return "read" if opcode.startswith(_READS) else "write"


def _meant(program: Program, kind: FaultKind, instruction: Instruction | None, size: int) -> Op | None:
    """The operation that failed, for chips before Fermi and AMD's, whose opcodes do not identify their accesses.

    G80's arithmetic instructions read shared memory, its moves write it, and R600's bundles contain any operation.
    """
    if program.arch >= FIRST_FERMI or instruction is None:
        return None
    operations = lower(program)[program.instructions.index(instruction)].ops
    found = [op for op in operations if op.name in _WORDS]
    if kind in _SHARED_FAULTS:
        found = [op for op in found if op.attr.space in ("shared", "generic")]
    return next((op for op in found if op.attr.bytes == size), found[0] if found else None)


def _space(kind: FaultKind, instruction: Instruction | None, meant: Op | None, address: int) -> str:
    """The space of an access: from its fault, else from its operation or opcode, else from the window of its generic
    address."""
    opcode = instruction.opcode if instruction is not None else ""
    space = meant.attr.space if meant is not None else ""
    if kind in _SHARED_FAULTS or space == "shared" or opcode.startswith(_SHARED):
        return "shared"
    if kind is FaultKind.LOCAL_OUT_OF_BOUNDS or space == "local" or opcode.startswith(_LOCAL):
        return "local"
    windows = (("shared", SHARED_WINDOW, SHARED_WINDOW_BYTES), ("local", LOCAL_WINDOW, WINDOW_BYTES))
    return next((name for name, base, size in windows if 0 <= address - base < size), "global")


def _nearest(memory: DeviceMemory, address: int) -> str:
    """Describes the surroundings of a device address."""
    if address == 0 or address < 4096:
        return "the address is a null pointer or next to one"
    last = memory.base + memory.span_bytes - 1
    near = memory.nearest(address)
    distance = max(near.address - address, address - near.end, 0) if near is not None else GAP_BYTES
    beside_mapped = near is not None and near.mapped and distance < GAP_BYTES
    if not memory.base <= address <= last and not beside_mapped:
        other = memory.device_at(address)
        theirs = memory.opened_by(other) if other is not None else None
        if theirs is not None:
            return f"in device {other}'s memory, to which this device has access: {_nearest(theirs, address)}"
        if other is not None:
            return f"the address is one of device {other}'s memory, to which this device has no access (cudaDeviceEnablePeerAccess, or System.enable_peer_access in Python)"
        return (
            f"the address is not one of device memory ({memory.base:#x} to {last:#x}): "
            "is a host pointer or an uninitialised value used as an address?"
        )
    freed = memory.freed_at(address)
    # Next to a live allocation, an access past its end is more likely than a use after free.
    if freed is not None and distance >= GAP_BYTES:
        return f"the address is in {freed.name}, which was freed"
    if near is None:
        return "no memory is allocated"
    named = near.name.endswith("bytes")
    what = (
        f"{near.name} at {near.address:#x}"
        if named
        else f"{near.name} ({byte_count_text(near.size_bytes)} at {near.address:#x})"
    )
    if address >= near.end:
        gap = address - near.end
        where = "the address is directly after its end" if gap == 0 else f"the address is {gap:,} bytes past its end"
    elif address < near.address:
        where = f"the address is {near.address - address:,} bytes before its start"
    else:
        where = f"the access begins at its byte {address - near.address:,} and passes its end"
    return f"nearest allocation: {what}; {where}"


def fault_error(
    program: Program, geometry: Geometry, memory: DeviceMemory, stop: Stop, shared_bytes: int
) -> ExecutionError:
    """The exception for a warp that stopped with ``Status.FAULT``.

    Args:
        shared_bytes: shared memory of the block, static and dynamic.
    """
    kind = FaultKind(stop.kind)
    if kind in (FaultKind.TEXTURE_HANDLE, FaultKind.SURFACE_OUT_OF_BOUNDS):
        return _texture_error(program, geometry, stop)
    said = _illegal(kind, stop, plain_name(program.name))
    if said is not None:
        head, *advice = said
        return IllegalInstructionError("\n  ".join([head, _place(program, geometry, stop), *advice]))
    instruction = instruction_at(program, stop.instruction)
    meant = _meant(program, kind, instruction, stop.bytes)
    if program.arch < FIRST_FERMI and _space(kind, instruction, meant, stop.address) == "global":
        # Addresses have 32 bits and wrap.
        stop = replace(stop, address=memory.base & ~0xFFFFFFFF | stop.address & 0xFFFFFFFF)
    access = _access_word(instruction, meant)
    head, tail = _wrong_access(program, geometry, memory, stop, shared_bytes, access)
    return _memory_fault(
        program,
        geometry,
        stop,
        head,
        tail,
        access=access,
        space=_space(kind, instruction, meant, stop.address),
        misaligned=kind is FaultKind.MISALIGNED,
        reason=tail,
    )


def miscount_text(program: Program, noted: int) -> str:
    """The warning for a barrier with an invalid number of threads.

    Args:
        noted: LAUNCH.miscounted.
    """
    threads, line = noted >> 1 & 0x7FFF, source_line(program, noted >> 16)
    at = line or f"{plain_name(program.name)}+{noted >> 16:#x}"
    if noted & 1:
        why = "earlier threads specified another number: all threads that arrive at a barrier must specify the same one, or it may never complete on a card"
    else:
        why = (
            f"the number of threads must be a multiple of {program.lanes}; a card refuses it as an illegal instruction"
        )
    return f"kernel {plain_name(program.name)} has a barrier of {threads} threads at {at}\n  {why}"


def overrun_text(program: Program, geometry: Geometry, memory: DeviceMemory, overrun: Overrun) -> str:
    """The warning about an access outside all allocations that a card does not detect."""
    stop = Stop(
        overrun.block,
        overrun.warp_in_block,
        1 << overrun.lane,
        overrun.instruction,
        int(FaultKind.OUT_OF_BOUNDS),
        overrun.address,
        overrun.bytes,
    )
    if overrun.located:
        access = _access_word(instruction_at(program, stop.instruction), None)
        head, tail = _wrong_access(program, geometry, memory, stop, 0, access)
        head = f"{head}\n  {_place(program, geometry, stop)}"
    else:
        head, tail = _wrong_access(program, geometry, memory, stop, 0, "access")
    return (
        f"{head}\n  {tail}\n  a card does not detect it, because the address is in a page of 2 MiB that it has mapped (memory faults by page); "
        '--check memcheck (check="memcheck") reports every such access'
    )


def _illegal(kind: FaultKind, stop: Stop, kernel: str) -> tuple[str, ...] | None:
    """Message and advice for an error of an instruction itself; None for accesses."""
    if kind is FaultKind.STACK_OVERFLOW:
        return (
            f"the reconvergence stack of a warp overflows in kernel {kernel}",
            "calls and divided branches nest too deep: is there a recursion without end?",
        )
    if kind is FaultKind.TENSOR_COORDINATE:
        return (
            f"tensor copy at a coordinate that none may have in kernel {kernel}",
            "the innermost coordinate must be a multiple of 16 bytes, and no coordinate of a store negative",
        )
    if kind is FaultKind.OTHER_TENSOR:
        return (
            f"tensor map of another rank or mode than the instruction's in kernel {kernel}",
            f"the tensor map is at {stop.address:#x}: is it encoded, and as tiled or im2col as the instruction asks?",
        )
    if kind is FaultKind.WILD_BRANCH:
        return (f"jump to {stop.address:#x}, which is not code of the kernel, in kernel {kernel}",)
    if kind is FaultKind.ILLEGAL_INSTRUCTION:
        return (f"instruction without a meaning in kernel {kernel}",)
    return None


def _wrong_access(
    program: Program, geometry: Geometry, memory: DeviceMemory, stop: Stop, shared_bytes: int, access: str
) -> tuple[str, str]:
    """Description of an access and its location, and the reason why it is an error."""
    kernel, kind = plain_name(program.name), FaultKind(stop.kind)
    size = f"{stop.bytes} byte{'s' if stop.bytes != 1 else ''}"
    what = "atomic access" if access == "atomic" else access
    if kind is FaultKind.MISALIGNED:
        head = f"misaligned {what} of {size} at {stop.address:#x} in kernel {kernel}"
        tail = f"an access of {size} needs an address that is a multiple of {stop.bytes}"
        if memory.find(stop.address) is not None:
            inside = memory.find(stop.address)
            assert inside is not None
            tail += f"; this is byte {stop.address - inside.address:,} of {inside.name}"
    elif kind is FaultKind.SHARED_OUT_OF_BOUNDS:
        offset = stop.address - SHARED_WINDOW if stop.address >= SHARED_WINDOW else stop.address
        offset = offset & 0xFFFF_FFFF
        head = f"out-of-bounds {what} of {size} at byte {offset:,} of shared memory in kernel {kernel}"
        tail = f"the block has {shared_bytes:,} bytes of shared memory ({geometry.dynamic_shared_bytes:,} dynamic)"
    elif kind is FaultKind.LOCAL_OUT_OF_BOUNDS:
        offset = stop.address - LOCAL_WINDOW if stop.address >= LOCAL_WINDOW else stop.address
        offset = (offset & 0xFFFF_FFFF) - (0 if offset & 0x8000_0000 == 0 else 1 << 32)
        head = f"out-of-bounds {what} of {size} at byte {offset:,} of local memory in kernel {kernel}"
        tail = f"a thread has {program.local_bytes_per_thread:,} bytes of local memory (is the recursion too deep?)"
    elif kind in (FaultKind.NO_SUCH_BLOCK, FaultKind.BLOCK_HAS_EXITED):
        rank = (stop.address & 0xFFFF_FFFF) >> SHARED_RANK_SHIFT
        head = f"{what} of {size} in the shared memory of block {rank} of the cluster in kernel {kernel}"
        tail = (
            f"the cluster has {geometry.cluster_blocks} block{'s' if geometry.cluster_blocks != 1 else ''}"
            if kind is FaultKind.NO_SUCH_BLOCK
            else "that block has exited: it must stay, with a cluster barrier, until no block accesses its memory"
        )
    else:
        head = f"out-of-bounds {what} of {size} at {stop.address:#x} in kernel {kernel}"
        tail = _nearest(memory, stop.address)
    return head, tail


def _memory_fault(
    program: Program, geometry: Geometry, stop: Stop, head: str, tail: str, **more: Any
) -> MemoryFaultError:
    """The common message of memory faults: what, where, why; ``more`` are other fields of its access."""
    instruction = instruction_at(program, stop.instruction)
    return MemoryFaultError(
        f"{head}\n  {_place(program, geometry, stop)}\n  {tail}",
        FaultingAccess(
            kernel=plain_name(program.name),
            address=stop.address,
            bytes=stop.bytes,
            block=stop.block,
            thread=thread_of(geometry, stop.warp_in_block, _first_lane(stop.lanes)),
            line=instruction.line if instruction is not None else None,
            instruction=stop.instruction,
            lanes=stop.lanes,
            **more,
        ),
    )


def _texture_error(program: Program, geometry: Geometry, stop: Stop) -> MemoryFaultError:
    """An invalid handle, or a surface access that traps."""
    kernel = plain_name(program.name)
    if stop.kind == FaultKind.TEXTURE_HANDLE:
        what = "texture" if stop.bytes == 1 else "surface"
        head = f"{stop.address:#x} is not the handle of a {what} object in kernel {kernel}"
        tail = f"the object was destroyed, its array was freed, or the value never was a {what}'s handle"
    else:
        x, y, z = (((stop.address >> 21 * n & 0x1FFFFF) ^ 0x100000) - 0x100000 for n in range(3))
        size = f"{stop.bytes} byte{'s' if stop.bytes != 1 else ''}"
        head = f"access of {size} outside of a surface in kernel {kernel}: byte {x:,} of row {y:,}, slice {z:,}"
        tail = "surface coordinates count bytes along x; cudaBoundaryModeClamp and cudaBoundaryModeZero do not trap"
    return _memory_fault(program, geometry, stop, head, tail)


def trap_error(program: Program, geometry: Geometry, stop: Stop) -> TrapError:
    """The exception for a warp that stopped with ``Status.TRAP``."""
    return TrapError(
        f"kernel {plain_name(program.name)} stopped itself (trap or failed assertion)\n  "
        f"{_place(program, geometry, stop)}"
    )


def wrap_error(program: Program, geometry: Geometry, stop: Stop) -> UnsupportedError:
    """The error for an index that passes 2**31 between two threads of a warp, which compiled code does not support."""
    return UnsupportedError(
        f"a 32-bit index passes 2**31 between threads of one warp in kernel {program.name}\n"
        f"  {_place(program, geometry, stop)}\n"
        "  compiled code does not follow it: compute the index in 64 bits, or run with "
        "GPU(..., timing='off', engine='interpreter')"
    )


def _lane_list(mask: int) -> str:
    """``lanes 0-15, 20``."""
    parts, lane = [], 0
    while mask >> lane:
        if mask >> lane & 1:
            first = lane
            while mask >> (lane + 1) & 1:
                lane += 1
            parts.append(str(first) if first == lane else f"{first}-{lane}")
        lane += 1
    return ("lane " if mask.bit_count() == 1 else "lanes ") + ", ".join(parts)


def _describe_wait(program: Program, warp: WaitingWarp) -> tuple[str, str]:
    """What a warp does, worded for one warp and for several in the same state."""
    line = source_line(program, warp.instruction) if warp.instruction >= 0 else None
    at = f" at {line}" if line else ""
    if warp.state == "exited":
        return "has exited", "have exited"
    if warp.state == "cluster":
        return f"waits for its cluster{at}", f"wait for their cluster{at}"
    if warp.state == "barrier":
        expects = f" of {warp.barrier_threads} threads" if warp.barrier_threads else ""
        some = f" with {_lane_list(warp.lanes)} only" if warp.lanes not in (0, (1 << program.lanes) - 1) else ""
        where = f"at barrier {warp.barrier}{expects}{some}{at}"
        return f"waits {where}", f"wait {where}"
    own = f"own lanes{f': {_lane_list(warp.lanes)} wait' if warp.lanes else ''}{at}"
    return f"waits for its {own}", f"wait for their {own}"


def warp_rows(described: Iterable[tuple[int, tuple[str, str]]]) -> list[str]:
    """Lines that state what each warp does, with warps in the same state combined.

    Args:
        described: for each warp, its number and what it does, worded for one warp and for several.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for number, what in described:
        groups.setdefault(what, []).append(number)
    rows = [
        f"warp {members[0]}: {one}" if len(members) == 1 else f"warps {_ranges(members)}: {several}"
        for (one, several), members in groups.items()
    ]
    more = len(rows) - _SHOWN_WARPS
    return rows[:_SHOWN_WARPS] + ([f"and {more} groups more"] if more > 0 else [])


def _counted_barriers(lanes: int, warps: Sequence[WaitingWarp], arrived: Sequence[int]) -> str:
    """How many threads have arrived at barriers that name a number; empty if all warps wait at barriers of the whole block."""
    waiting = [warp for warp in warps if warp.state == "barrier"]
    if not any(warp.barrier_threads for warp in waiting):
        return ""
    parts = []
    for number in sorted({warp.barrier for warp in waiting}):
        here = [warp for warp in waiting if warp.barrier == number]
        threads = max(warp.barrier_threads for warp in here)
        if not threads:
            parts.append(f"barrier {number} is complete when every thread of the block has arrived")
            continue
        wait = lanes * len(here)
        came = arrived[number] if number < len(arrived) else wait
        have = f"{came:,} have, of which {wait:,} wait there" if came > wait else f"{wait:,} wait there"
        parts.append(
            f"barrier {number} is complete when {threads:,} threads have arrived (bar.sync, bar.arrive), and {have}"
        )
    return "; ".join(parts)


_OF_BLOCK = "every thread of the block must reach the same barrier; is a __syncthreads() inside a condition?"
_OF_WARP = (
    "all lanes that a *_sync operation or a group's sync() or shuffle names must reach that operation; "
    "is one inside a condition that leaves some out?"
)


def deadlock_error(
    program: Program, block: Dim3, warps: Sequence[WaitingWarp], arrived: Sequence[int] = ()
) -> DeadlockError:
    """The exception for a block in which no warp can continue; lists what each warp waits for.

    Args:
        arrived: threads that have arrived at each named barrier, those that wait there included; empty if it is not known.
    """
    kernel = plain_name(program.name)
    shown = warp_rows((warp.warp_in_block, _describe_wait(program, warp)) for warp in warps)
    of_cluster = any(warp.state == "cluster" for warp in warps)
    advice = (
        "every thread of the cluster must arrive at its barrier; does a block wait once more than the others?"
        if of_cluster
        else _counted_barriers(program.lanes, warps, arrived)
        or (_OF_BLOCK if any(warp.state == "barrier" for warp in warps) else _OF_WARP)
    )
    return DeadlockError(
        f"deadlock in kernel {kernel}, block {block}: no warp can go on\n  " + "\n  ".join(shown) + f"\n  {advice}"
    )


_STANDS = {
    "runs": ("only repeats", "only repeat"),
    "turn": ("waits its turn at", "wait their turn at"),
    "joins": ("waits for the warp's other lanes at", "wait for the warp's other lanes at"),
    "barrier": ("waits at the block barrier", "wait at the block barrier"),
    "cluster": ("waits at its cluster's barrier", "wait at their cluster's barrier"),
}


_RUNS = {**_STANDS, "runs": ("runs at", "run at")}


def describe_groups(
    program: Program, groups: Sequence[Group], words: Mapping[str, tuple[str, str]] = _STANDS
) -> tuple[str, str]:
    """Where the lanes of a warp are, one line per group; the text for one warp and for several."""
    parts = []
    for group in groups:
        line = source_line(program, _shown_address(program, group)) if group.instruction >= 0 else None
        what = words[group.what][group.lanes.bit_count() > 1]
        parts.append(f"{_lane_list(group.lanes)} {what} {line or 'code without source lines (-lineinfo adds them)'}")
    text = "\n    ".join(parts)
    return text or "has exited", text or "have exited"


def _shown_address(program: Program, group: Group) -> int:
    """Address of the instruction whose line shows where a group of lanes is."""
    if group.what in ("barrier", "cluster"):
        return group.instruction
    shown = first_operation if group.what == "runs" else awaited_operation
    return program.instructions[shown(program, index_at(program, group.instruction))].address


def positions(program: Program, block: Dim3, warps: Sequence[tuple[int, Sequence[Group]]], resident_blocks: int) -> str:
    """The positions of a launch's warps when the host stopped it.

    Args:
        block: the block that ran last, or the first resident one.
        warps: its warps' numbers and the positions of their lanes, without exited ones.
        resident_blocks: number of blocks that had begun and not ended.
    """
    shown = warp_rows((number, describe_groups(program, groups, _RUNS)) for number, groups in warps)
    if resident_blocks > 1:
        shown.append(f"and {resident_blocks - 1:,} more resident block{'s' if resident_blocks > 2 else ''}")
    return f"kernel {plain_name(program.name)}, block {block}:\n  " + "\n  ".join(shown)


def _ranges(numbers: Sequence[int]) -> str:
    """``0-3, 7``."""
    parts: list[list[int]] = []
    for n in numbers:
        if parts and n == parts[-1][-1] + 1:
            parts[-1][1:] = [n]
        else:
            parts.append([n])
    return ", ".join("-".join(str(n) for n in p) for p in parts)
