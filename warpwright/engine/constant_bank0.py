"""Constant bank 0: values that the driver passes to a kernel, which compiled code reads at fixed offsets.

The offsets below were read from nvJitLink 12.9's machine code for kernels that use each value (``gridDim``, generic
pointers to shared and local memory, ``__constant__`` addresses, ``%dynamic_smem_size``, cooperative groups' grid), for
sm_60 to sm_62, sm_70, sm_72, sm_80 to sm_89 and sm_90; ``isa/bank0.py`` defines those that PTX also reads.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from warpwright.engine.abi import GRID_ID, LOCAL_WINDOW, SHARED_WINDOW
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.geometry import Geometry
from warpwright.engine.graph_launch_requests import current_graph
from warpwright.isa.bank0 import CURRENT_GRAPH, grid_workspace
from warpwright.isa.program import Kind, Operand, Program

SYSTEM_SHARED_BYTES = 1024
"""The system's part of a block's shared memory from sm_80 on (CUDA C++ Programming Guide, 8.x and 9.0)."""
SYSTEM_SHARED_REGION = 512
"""Offset of its region 1: our choice, larger than the 288 bytes that cooperative groups expect there."""
SHARED_ROUNDING_BYTES = 128
CLOCK_TRIES = 1 << 20
"""Our choice: the upper half of a 64-bit clock changes once in 2^32 cycles, so that the second attempt succeeds."""


@dataclass(frozen=True, slots=True)
class Bank0Layout:
    """Byte offsets in constant bank 0 that compiled code reads, in addition to the parameters."""

    block_dim: int = 0x00
    """Three u32: blockDim.x, .y, .z."""
    grid_dim: int = 0x0C
    """Three u32: gridDim.x, .y, .z."""
    shared_window: int = 0x18
    """u64: generic address of shared byte 0 (sm_90 code reads SR_SWINHI instead)."""
    local_window: int = 0x20
    """u64: generic address of local byte 0."""
    stack_top: int = 0x28
    """u32: first value of R1, the stack pointer, which grows down."""
    dynamic_shared_bytes: int = 0x2C
    """u32: %dynamic_smem_size."""
    grid_id: int = 0x30
    """u64: %gridid."""
    sm_count: int | None = 0x10C
    """u32: %nsmid (older code reads SR_VIRTCFG)."""
    shared_bytes: int | None = None
    """u32: shared memory that a block requests, without rounding (%aggr_smem_size)."""
    constant_window: int = 0x50
    """u64: generic address of byte 0 of constant bank 3 (``&c`` of a ``__constant__ c``)."""
    reserved_shared_bytes: int = 0x114
    """u32: bytes of shared memory that the system keeps (%total_smem_size is SR_SMEMSZ minus this)."""
    reserved_shared_end: int = 0x120
    """u32: %reserved_smem_offset_end."""
    reserved_shared_region: int = 0x124
    """u32: %reserved_smem_offset_1, where cooperative groups keep the barriers of tiles wider than a warp."""
    parameter_window: int | None = None
    """Two u64: generic addresses of the parameters' first and last byte, for parameters whose address is taken
    (``__grid_constant__``)."""
    bank_window: int | None = None
    """u64: generic address of bank 0 itself, from which older code counts a parameter's address."""
    parameter_last: int | None = None
    """u32: offset in bank 0 of the parameters' last byte, where ``bank_window`` is."""
    shared_window_high: int | None = None
    local_window_high: int | None = None
    """Offsets of the upper words of the two windows, if they do not follow the lower ones."""
    clock_tries: int | None = None
    """u32: number of retries by code that reads a 64-bit clock in halves while the upper half changes."""
    graph: int | None = None
    """u64: %current_graph_exec."""


_LAYOUTS = {
    60: Bank0Layout(
        block_dim=0x08,
        grid_dim=0x14,
        shared_window=0x00,
        shared_window_high=0x100,
        local_window=0x04,
        local_window_high=0x104,
        stack_top=0x20,
        dynamic_shared_bytes=0xFC,
        grid_id=0x28,
        sm_count=None,
        constant_window=0xD0,
        clock_tries=0x10C,
    ),
    70: Bank0Layout(bank_window=0x40, parameter_last=0x114, graph=CURRENT_GRAPH[7]),
    80: Bank0Layout(bank_window=0x40, parameter_last=0x12C, graph=CURRENT_GRAPH[8]),
    90: Bank0Layout(
        constant_window=0xD0,
        shared_bytes=0x13C,
        reserved_shared_end=0x68,
        reserved_shared_region=0x6C,
        parameter_window=0x198,
        graph=CURRENT_GRAPH[9],
    ),
}


def bank0_layout(arch: int) -> Bank0Layout:
    """Where compiled code for an architecture (60, 70, 80, 90 and their minor versions) finds launch values.

    Code for sm_1x has no such bank; its launch words use sm_60's layout, as does the bank of PTX on sm_20.
    """
    return _LAYOUTS[max(arch // 10 * 10, 60)]


def uses_system_shared(program: Program) -> bool:
    """Whether compiled code reads the position of the system's part of shared memory (sm_80 and later)."""
    if program.arch < 80:
        return False
    layout = bank0_layout(program.arch)
    return _reads(
        program,
        "system shared",
        lambda: {layout.reserved_shared_bytes, layout.reserved_shared_end, layout.reserved_shared_region},
    )


def names_its_graph(program: Program) -> bool:
    """Whether code reads %current_graph_exec."""
    place = bank0_layout(program.arch).graph
    return place is not None and _reads(program, "current graph", lambda: {place, place + 4})


def _reads(program: Program, what: str, wanted: Callable[[], Set[int | None]]) -> bool:
    """Whether code reads one of these words of constant bank 0; computed once per program."""
    if what not in program.facts:
        places = wanted() - {None}
        program.facts[what] = any(
            _constants(operand) in places for instruction in program.instructions for operand in instruction.operands
        )
    return program.facts[what]


def system_shared_offset(program: Program, geometry: Geometry) -> int:
    """Offset of the system's part of shared memory: after the block's own part on sm_80, before it on sm_90."""
    if program.arch >= 90:
        return 0
    own = program.shared_static_bytes + geometry.dynamic_shared_bytes
    return -(-own // SHARED_ROUNDING_BYTES) * SHARED_ROUNDING_BYTES


def shared_bytes(program: Program, geometry: Geometry) -> int:
    """Shared memory that a block requests, including the system's part if the kernel uses it."""
    own = program.shared_static_bytes + geometry.dynamic_shared_bytes
    if not uses_system_shared(program):
        return own
    if program.arch >= 90:
        return own if geometry.reserved_shared_bytes else own + SYSTEM_SHARED_BYTES
    return system_shared_offset(program, geometry) + SYSTEM_SHARED_BYTES


def reachable_shared_bytes(program: Program, geometry: Geometry) -> int:
    """Shared memory that a block is allocated and can access (SR_SMEMSZ): whole units (PTX ISA,
    ``%total_smem_size``)."""
    unit = 128 if program.arch >= 80 else 256
    return -(-shared_bytes(program, geometry) // unit) * unit


def _constants(operand: Operand) -> int | None:
    return operand.value if operand.kind is Kind.CONSTANT and operand.index == 0 and operand.base is None else None


def is_cooperative(program: Program) -> bool:
    """Whether the kernel reads the grid barrier's workspace, so that all of its blocks must be resident at once."""
    return _reads(program, "grid workspace", lambda: set(grid_workspace(program.arch)))


def stack_bytes(program: Program) -> int:
    """Local memory of one thread, rounded like the stack pointer to a multiple of 16."""
    return -(-program.local_bytes_per_thread // 16) * 16


CLUSTER_EXPLICIT, CLUSTER_SHAPE, CLUSTER_BLOCKS = 0x140, 0x144, 0x188
"""Offsets in bank 0 of sm_90: whether clusters were requested; blocks of a cluster by axis, their reciprocals, clusters
of the grid by axis; total number of blocks of a cluster.  Source: ptxas's code for ``%is_explicit_cluster``,
``%cluster_nctaid``, ``%clusterid``, ``%nclusterid`` and ``%cluster_nctarank``; a launch without clusters counts as one
of single blocks, as on an H200 (``bench/data/h200/forms.npz``)."""


def reciprocal(count: int) -> float:
    """1 / count in single precision, rounded up: code divides an index by multiplying by it and truncating."""
    nearest = np.float32(1) / np.float32(count)
    return float(nearest if float(nearest) * count >= 1 else np.nextafter(nearest, np.float32(math.inf)))


def constant_bank0(
    program: Program,
    geometry: Geometry,
    parameters: bytes | bytearray,
    constant_window: int = 0,
    workspace: int = 0,
    sm_count: int = 1,
) -> bytearray:
    """The bytes of constant bank 0 for one launch.

    Args:
        parameters: as laid out by :func:`warpwright.engine.arguments.pack`.
        constant_window: device address of bank 3, for pointers to ``__constant__`` variables.
        workspace: device address of the cooperative workspace, 0 for ordinary launches.
        sm_count: SMs of the chip.
    """
    layout = bank0_layout(program.arch)
    base = program.parameter_base_bytes
    template = program.constant_banks.get(0, b"")
    bank = bytearray(max(len(template), base + max(program.parameter_size_bytes, len(parameters)), 0x220))
    bank[: len(template)] = template
    struct.pack_into("<3I", bank, layout.block_dim, *geometry.block)
    struct.pack_into("<3I", bank, layout.grid_dim, *geometry.grid)
    for window, low, high in (
        (SHARED_WINDOW, layout.shared_window, layout.shared_window_high),
        (LOCAL_WINDOW, layout.local_window, layout.local_window_high),
    ):
        struct.pack_into("<I", bank, low, window & 0xFFFF_FFFF)
        struct.pack_into("<I", bank, low + 4 if high is None else high, window >> 32)
    struct.pack_into("<I", bank, layout.stack_top, stack_bytes(program))
    struct.pack_into("<I", bank, layout.dynamic_shared_bytes, geometry.dynamic_shared_bytes)
    struct.pack_into("<Q", bank, layout.grid_id, GRID_ID)
    if layout.sm_count is not None:
        struct.pack_into("<I", bank, layout.sm_count, sm_count)
    if layout.shared_bytes is not None:
        struct.pack_into("<I", bank, layout.shared_bytes, shared_bytes(program, geometry))
    struct.pack_into("<Q", bank, layout.constant_window, constant_window)
    place_workspace(program, bank, workspace)
    if layout.clock_tries is not None:
        struct.pack_into("<I", bank, layout.clock_tries, CLOCK_TRIES)
    if program.arch >= 90:
        shape = geometry.cluster_shape
        struct.pack_into("<I", bank, CLUSTER_EXPLICIT, int(geometry.cluster is not None))
        struct.pack_into("<3I3f3I", bank, CLUSTER_SHAPE, *shape, *map(reciprocal, shape), *geometry.clusters)
        struct.pack_into("<I", bank, CLUSTER_BLOCKS, geometry.cluster_blocks)
    if uses_system_shared(program):
        begin = system_shared_offset(program, geometry)
        struct.pack_into("<I", bank, layout.reserved_shared_bytes, SYSTEM_SHARED_BYTES)
        struct.pack_into("<I", bank, layout.reserved_shared_end, begin + SYSTEM_SHARED_BYTES)
        struct.pack_into("<I", bank, layout.reserved_shared_region, begin + SYSTEM_SHARED_REGION)
    bank[base : base + len(parameters)] = parameters
    return bank


def place_workspace(program: Program, bank0: bytearray, address: int) -> None:
    """Record in constant bank 0 where the workspace of the grid's barrier is."""
    high, low = grid_workspace(program.arch)
    struct.pack_into("<I", bank0, high, address >> 32)
    struct.pack_into("<I", bank0, low, address & 0xFFFF_FFFF)


def place_graph(program: Program, bank0: bytearray, memory: DeviceMemory) -> None:
    """Record in constant bank 0 the graph to which the launch belongs, if code reads it."""
    place = bank0_layout(program.arch).graph
    if place is not None and names_its_graph(program):
        struct.pack_into("<Q", bank0, place, current_graph(memory))


def reads_parameters_by_address(program: Program) -> bool:
    """Whether code takes the address of a parameter, which then must be in memory."""
    layout = bank0_layout(program.arch)
    return _reads(program, "parameter window", lambda: {layout.parameter_window, layout.bank_window})


def place_parameters(program: Program, bank0: bytearray, address: int) -> None:
    """Record in constant bank 0 that a copy of it is at ``address``."""
    layout = bank0_layout(program.arch)
    first = program.parameter_base_bytes
    last = first + max(1, program.parameter_size_bytes) - 1
    if layout.parameter_window is not None:
        struct.pack_into("<2Q", bank0, layout.parameter_window, address + first, address + last)
    if layout.bank_window is not None and layout.parameter_last is not None:
        struct.pack_into("<Q", bank0, layout.bank_window, address)
        struct.pack_into("<I", bank0, layout.parameter_last, last)
