"""One launch: checks grid and block against the chip, and builds constant bank 0 and the context that warps read.

Constant bank 0 begins with values that the driver passes to a kernel; compiled code reads them at fixed offsets.  The
offsets below were read from nvJitLink 12.9's machine code for kernels that use each value (``gridDim``, generic
pointers to shared and local memory, ``__constant__`` addresses, ``%dynamic_smem_size``, cooperative groups' grid), for
sm_60 to sm_62, sm_70, sm_72, sm_80 to sm_89 and sm_90; ``isa/bank0.py`` defines those that PTX also reads.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.chips import Chip, Occupancy, OccupancyError, occupancy
from warpwright.engine.abi import GRID_ID, LAUNCH, LOCAL_WINDOW, MAX_CLUSTER, SHARED_WINDOW
from warpwright.engine.access_policy import AccessWindow
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.graph_launch_requests import current_graph
from warpwright.errors import LaunchError
from warpwright.isa.bank0 import CURRENT_GRAPH, grid_workspace
from warpwright.isa.ops import FIRST_CLUSTERS
from warpwright.isa.program import Kind, Operand, Program

Dim3 = tuple[int, int, int]
MAX_BLOCK: Dim3 = (1024, 1024, 64)
MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
"""CUDA C++ Programming Guide, table of technical specifications per compute capability (6.0 to 9.0 agree)."""
FIRST_MAX_BLOCK: Dim3 = (512, 512, 64)
FIRST_MAX_GRID: Dim3 = (65535, 65535, 1)
"""CUDA Programming Guide 1.1, appendix A.1, for compute capability 1.x."""
FERMI_MAX_GRID: Dim3 = (65535, 65535, 65535)
"""CUDA C Programming Guide 3.2, appendix F, for compute capability 2.x."""
SYSTEM_SHARED_BYTES = 1024
"""The system's part of a block's shared memory from sm_80 on (CUDA C++ Programming Guide, 8.x and 9.0)."""
SYSTEM_SHARED_REGION = 512
"""Offset of its region 1: our choice, larger than the 288 bytes that cooperative groups expect there."""
SHARED_ROUNDING_BYTES = 128
GRID_WORKSPACE_BYTES = 256
"""Workspace of a cooperative launch's grid barrier: a word that blocks add to and spin on, and a line that a launch on several devices uses."""
GRID_BARRIER_AT = 4
"""Offset of that word."""
ALIKE_BYTES = 512
"""Alignment of arrays up to which launches on other arrays count as equal: the alignment that allocators guarantee."""
CLOCK_TRIES = 1 << 20
"""Our choice: the upper half of a 64-bit clock changes once in 2^32 cycles, so that the second attempt succeeds."""

Words = npt.NDArray[np.int64]


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


@dataclass(frozen=True, slots=True)
class Geometry:
    """Shape of a launch."""

    grid: Dim3
    block: Dim3
    dynamic_shared_bytes: int = 0
    reserved_shared_bytes: int = 0
    """Bytes at the start of shared memory that the system keeps and the kernel's static size includes (sm_90: 1,024)."""
    cluster: Dim3 | None = None
    """Blocks of a cluster, if the launch or the kernel specifies them."""
    lanes: int = 32
    """Threads of a warp (``Program.lanes``)."""

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster_shape(self) -> Dim3:
        """Blocks of a cluster by axis; (1, 1, 1) without clusters."""
        return self.cluster or (1, 1, 1)

    @property
    def clusters(self) -> Dim3:
        """Clusters of the grid by axis."""
        (x, y, z), (a, b, c) = self.grid, self.cluster_shape
        return x // a, y // b, z // c

    @property
    def cluster_blocks(self) -> int:
        """Blocks of a cluster."""
        return 1 if self.cluster is None else prod(self.cluster)

    def clustered_block(self, number: int) -> int:
        """Linear index in the grid of block ``number`` in dispatch order: cluster by cluster, by rank within each."""
        if self.cluster is None:
            return number
        cluster, rank = divmod(number, self.cluster_blocks)
        index, following = 0, 1
        for size, of_cluster in zip(self.grid, self.cluster, strict=True):
            cluster, high = divmod(cluster, size // of_cluster)
            rank, low = divmod(rank, of_cluster)
            index += (high * of_cluster + low) * following
            following *= size
        return index

    @property
    def threads_per_block(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads_per_block // self.lanes)


def as_dim3(value: Any, what: str) -> Dim3:
    """A positive int, or one to three of them, as (x, y, z).

    Raises:
        LaunchError: for any other value, naming ``what`` ("grid" or "block").
    """
    parts = value if isinstance(value, tuple | list) else (value,)
    try:
        numbers = [operator.index(p) for p in parts]
    except TypeError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise LaunchError(f"{what} is one to three positive integers, not {value!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


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


def launch_shared_bytes(program: Program, geometry: Geometry) -> int:
    """Shared memory of a block, static and dynamic, without the system's part."""
    return program.shared_static_bytes - geometry.reserved_shared_bytes + geometry.dynamic_shared_bytes


def launch_occupancy(program: Program, geometry: Geometry, chip: Chip) -> Occupancy:
    """Number of this launch's blocks that fit one SM at once, and the limiting resource."""
    shared = launch_shared_bytes(program, geometry)
    clustered = geometry.cluster is not None
    return occupancy(
        *(chip, geometry.threads_per_block, program.registers, shared, max(program.barriers, 1), clustered),
        lanes=program.lanes,
    )


def most_extents(arch: int) -> tuple[Dim3, Dim3]:
    """The largest extents of a block and of a grid; AMD's chips use Fermi's (Direct3D 11)."""
    if 10 <= arch < 20:
        return FIRST_MAX_BLOCK, FIRST_MAX_GRID
    return MAX_BLOCK, MAX_GRID if arch >= 30 else FERMI_MAX_GRID


def check_geometry(program: Program, geometry: Geometry, chip: Chip, kernel: str) -> Occupancy:
    """Refuse a launch that the chip cannot run; otherwise return its occupancy.

    Raises:
        LaunchError: names the exceeded quantity, the chip's limit and what to do.
    """
    threads, most_threads = geometry.threads_per_block, chip.sm.max_threads_per_block
    allowed = min(most_threads, program.max_threads_per_block or most_threads)
    if threads > most_threads:
        raise LaunchError(
            f"{kernel}: a block of {threads:,} threads {geometry.block}: {chip.name} runs at most "
            f"{most_threads:,} threads in a block; use smaller blocks and more of them"
        )
    if threads > allowed:
        raise LaunchError(
            f"{kernel}: a block of {threads:,} threads {geometry.block}: the kernel was compiled for at most {allowed:,} "
            "(__launch_bounds__ or .maxntid); use smaller blocks and more of them"
        )
    most_block, most_grid = most_extents(chip.arch)
    for what, sizes, limits in (("block", geometry.block, most_block), ("grid", geometry.grid, most_grid)):
        for axis, size, most in zip("xyz", sizes, limits, strict=True):
            if size > most:
                raise LaunchError(f"{kernel}: {what}.{axis} is {size:,}: {chip.name} allows at most {most:,}")
    if geometry.dynamic_shared_bytes < 0:
        raise LaunchError(f"{kernel}: {geometry.dynamic_shared_bytes} bytes of dynamic shared memory were asked for")
    static = program.shared_static_bytes - geometry.reserved_shared_bytes
    needed = static + geometry.dynamic_shared_bytes
    most_shared = chip.shared.shared_max_per_block_kib * 1024
    if needed > most_shared:
        raise LaunchError(
            f"{kernel}: a block needs {needed:,} bytes of shared memory ({static:,} static, "
            f"{geometry.dynamic_shared_bytes:,} dynamic): {chip.name} gives a block at most {most_shared:,}"
        )
    try:
        resident = launch_occupancy(program, geometry, chip)
    except OccupancyError as reason:
        raise LaunchError(f"{kernel}: {reason}; use smaller blocks or __launch_bounds__") from None
    if geometry.cluster is not None:
        check_cluster(geometry, resident, chip, kernel)
    return resident


def clusters_at_once(cluster_blocks: int, blocks_per_sm: int, chip: Chip) -> int:
    """Number of clusters that the chip holds at once: all blocks of a cluster are in the same GPC."""
    return sum(sms * blocks_per_sm // cluster_blocks for sms in chip.sm.cluster_sm_counts if sms >= cluster_blocks)


def check_cluster(geometry: Geometry, resident: Occupancy, chip: Chip, kernel: str) -> None:
    """Refuse clusters that the chip could not launch.

    Raises:
        LaunchError: names the exceeded quantity, the chip's limit and what to do.
    """
    shape = " x ".join(str(blocks) for blocks in geometry.cluster_shape)
    if chip.arch < FIRST_CLUSTERS:
        raise LaunchError(
            f"{kernel}: {chip.name} has no thread block clusters (sm_{FIRST_CLUSTERS} and later do, such as h200), and the "
            f"launch asks for clusters of {shape} blocks"
        )
    if geometry.cluster_blocks > MAX_CLUSTER:
        raise LaunchError(
            f"{kernel}: clusters of {shape} are {geometry.cluster_blocks} blocks: {chip.name} runs at most {MAX_CLUSTER} "
            "in a cluster"
        )
    for axis, size, blocks in zip("xyz", geometry.grid, geometry.cluster_shape, strict=True):
        if size % blocks:
            raise LaunchError(
                f"{kernel}: grid.{axis} is {size:,}, which clusters of {shape} blocks do not divide: it must be a multiple "
                f"of {blocks}"
            )
    if not clusters_at_once(geometry.cluster_blocks, resident.blocks_per_sm, chip):
        raise LaunchError(
            f"{kernel}: clusters of {geometry.cluster_blocks} blocks do not fit a GPC of {chip.name}, which has "
            f"{max(chip.sm.cluster_sm_counts)} SMs with room for {resident.blocks_per_sm} of these blocks each; use smaller "
            "clusters or blocks with less shared memory"
        )


def _constants(operand: Operand) -> int | None:
    return operand.value if operand.kind is Kind.CONSTANT and operand.index == 0 and operand.base is None else None


def is_cooperative(program: Program) -> bool:
    """Whether the kernel reads the grid barrier's workspace, so that all of its blocks must be resident at once."""
    return _reads(program, "grid workspace", lambda: set(grid_workspace(program.arch)))


NOT_COOPERATIVE = (
    "grid.sync() traps in a launch that is not cooperative: launch the kernel with cudaLaunchCooperativeKernel"
)


def lacks_grid_barrier(context: LaunchContext) -> bool:
    """Whether a launch is not cooperative although its kernel synchronises its grid."""
    return not context.is_cooperative and is_cooperative(context.program)


def check_cooperative(geometry: Geometry, resident: Occupancy, chip: Chip, kernel: str) -> None:
    """Refuse a grid whose blocks cannot all be resident, if the kernel synchronises the whole grid."""
    at_once = resident.blocks_per_sm * chip.sm.sm_count
    if geometry.blocks > at_once:
        raise LaunchError(
            f"{kernel} synchronises its whole grid, so all of its {geometry.blocks:,} blocks must run at once: "
            f"{chip.name} with {chip.sm.sm_count} SMs holds {at_once:,} of them; use fewer blocks"
        )


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


@cache
def _all_sms(sm_count: int) -> Words:
    return np.arange(sm_count, dtype=np.int64)


def host_address(array: npt.NDArray[Any]) -> int:
    """The host address of a contiguous, writable array; a third of the time of ``array.ctypes.data``."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data))


def aligned_words(size_bytes: int) -> Words:
    """Zeroed int64 words that begin on a 64-byte boundary, shape (size_bytes // 8,)."""
    raw = np.zeros(size_bytes + 64, dtype=np.uint8)
    skip = -host_address(raw) % 64
    return raw[skip : skip + size_bytes].view(np.int64)


@dataclass(slots=True)
class LaunchContext:
    """The LAUNCH structure of ``engine/abi.py``; keeps everything that it points to alive."""

    program: Program
    geometry: Geometry
    memory: DeviceMemory
    words: Words
    banks: dict[int, npt.NDArray[np.uint8]] = field(default_factory=dict)
    """Constant banks by number, bank 0 included."""
    keep: list[Any] = field(default_factory=list)
    sms: Words = field(default_factory=lambda: _all_sms(1))
    """Numbers of the SMs that take blocks: block n runs on the n-th of them, cyclically."""
    services: Any = None
    """The launch's :class:`~warpwright.engine.services.LaunchServices`, if its kernel calls any."""

    textures: Any = None
    """The launch's :class:`~warpwright.engine.textures.launch_textures.LaunchTextures`, if its kernel uses any."""
    exact_shared: bool = False
    """Whether shared memory ends after the requested bytes, as for memcheck, instead of after its last allocation
    unit."""
    window: AccessWindow | None = None
    """Access-policy windows: addresses that L2 is to keep longer or shorter."""
    set_aside_bytes: int = 0
    """Part of L2 set aside for persisting lines."""
    is_cooperative: bool = False
    """Whether blocks may wait for the whole grid: the launch has the workspace of ``grid.sync()``."""
    grid_barrier: int = 0
    """Device address of that workspace, if its barrier is of this grid alone."""
    passing: tuple[int, ...] = ()
    """Addresses of memory that belongs to the launch alone: its grid barrier's workspace, its parameters."""

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block can reach."""
        reach = shared_bytes if self.exact_shared else reachable_shared_bytes
        return reach(self.program, self.geometry)

    @property
    def address(self) -> int:
        """Host pointer to the structure."""
        return host_address(self.words)

    def constants_digest(self) -> bytes:
        """Digest (16 bytes) of all constant banks, including arguments, which distinguishes launches."""
        found = hashlib.blake2b(digest_size=16)
        for number, bank in sorted(self.banks.items()):
            found.update(number.to_bytes(4, "little"))
            found.update(np.ascontiguousarray(bank).data)
        return found.digest()

    def constants_likeness(self) -> bytes:
        """As :meth:`constants_digest`, but for words that are addresses of device memory, only their alignment and
        which of them are equal count.

        Launches with equal digests do the same work on different arrays, for example the layers of a model on their own
        weights.
        """
        found = hashlib.blake2b(digest_size=16)
        for number, bank in sorted(self.banks.items()):
            raw = np.ascontiguousarray(bank).view(np.uint8).reshape(-1)
            words = raw[: raw.size // 8 * 8].copy().view(np.uint64)
            names: dict[int, int] = {}
            for at in np.flatnonzero(self.memory.holds_each(words)):
                address = int(words[at])
                words[at] = names.setdefault(address, len(names)) * ALIKE_BYTES + address % ALIKE_BYTES
            found.update(number.to_bytes(4, "little"))
            found.update(words.data)
            found.update(raw[raw.size // 8 * 8 :].data)
        return found.digest()

    def __getitem__(self, name: str) -> int:
        return int(self.words[LAUNCH.slot(name)])

    def show_allocations(self, table: npt.NDArray[np.uint64]) -> None:
        """From now on, check accesses against these ranges: first byte and one past the last, ascending."""
        self.keep.append(table)
        self.words[LAUNCH.slot("allocations")] = table.ctypes.data
        self.words[LAUNCH.slot("allocation_count")] = len(table)

    def cancel(self) -> None:
        """Request every warp to stop at its next yield, barrier or backward branch of a long loop."""
        self.words[LAUNCH.slot("cancel")] = 1

    @property
    def cancelled(self) -> bool:
        return bool(self.words[LAUNCH.slot("cancel")])


def make_context(
    program: Program,
    geometry: Geometry,
    memory: DeviceMemory,
    bank0: bytes | bytearray,
    banks: Mapping[int, npt.NDArray[np.uint8]],
    sm_count: int,
    sms: Sequence[int] | None = None,
) -> LaunchContext:
    """Build the launch structure.

    Args:
        bank0: from :func:`constant_bank0`.
        banks: contents of the other constant banks by number; arrays are referenced, not copied.
        sm_count: SMs of the chip (%nsmid).
        sms: numbers of the SMs that take its blocks (%smid); all by default.
    """
    return LaunchTemplate(program, geometry, memory, banks, sm_count, sms).context(bank0)


_BANK0, _BANK0_BYTES = LAUNCH.slot("constant_banks"), LAUNCH.slot("constant_bytes")
_ALLOCATIONS, _ALLOCATION_COUNT = LAUNCH.slot("allocations"), LAUNCH.slot("allocation_count")
_PAGES, _PAGE_COUNT, _OVERRUN = (LAUNCH.slot(name) for name in ("pages", "page_count", "overrun"))
_BANK0_AT = LAUNCH.size_bytes
"""Offset of constant bank 0 in the memory of a launch: after LAUNCH, whose size is in whole lines."""


class LaunchTemplate:
    """What launches of a kernel with the same geometry share: the structure LAUNCH, except for bank 0 and the table of allocations.

    Copying it takes a third of the time of building the structure.  The arguments are those of :func:`make_context`.
    """

    __slots__ = ("_banks", "_geometry", "_memory", "_program", "_sms", "_table", "_words", "_zeros")

    def __init__(
        self,
        program: Program,
        geometry: Geometry,
        memory: DeviceMemory,
        banks: Mapping[int, npt.NDArray[np.uint8]],
        sm_count: int,
        sms: Sequence[int] | None = None,
    ) -> None:
        self._program, self._geometry, self._memory, self._banks = program, geometry, memory, dict(banks)
        self._sms = _all_sms(sm_count) if sms is None else np.array(sms, np.int64)
        self._zeros = aligned_words(64)
        """Contents of absent banks."""
        self._table: tuple[npt.NDArray[np.uint64] | None, int] = None, 0
        """The last launch's table of allocations, and its host address."""
        self._words = words = np.zeros(_BANK0_AT // 8, np.int64)
        values = {
            **dict(zip(("grid_x", "grid_y", "grid_z"), geometry.grid, strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), geometry.block, strict=True)),
            **dict(zip(("cluster_x", "cluster_y", "cluster_z"), geometry.cluster_shape, strict=True)),
            **dict(zip(("clusters_x", "clusters_y", "clusters_z"), geometry.clusters, strict=True)),
            "cluster_count": geometry.cluster_blocks,
            "explicit_cluster": geometry.cluster is not None,
            "dynamic_shared_bytes": geometry.dynamic_shared_bytes,
            "host_minus_device": memory.host_minus_device,
            "sm_count": sm_count,
            "lanes": program.lanes,
            "taking_sms": self._sms.ctypes.data,
            "taking_sm_count": len(self._sms),
            "local_bytes_per_thread": stack_bytes(program),
        }
        for name, value in values.items():
            words[LAUNCH.slot(name)] = value
        words[_BANK0 : _BANK0 + 8] = host_address(self._zeros)
        for number, contents in banks.items():
            words[_BANK0 + number] = contents.ctypes.data
            words[_BANK0_BYTES + number] = contents.nbytes

    def context(self, bank0: bytes | bytearray) -> LaunchContext:
        """A launch's own copy, with its constant bank 0 (from :func:`constant_bank0`)."""
        size = len(bank0)
        room = aligned_words(_BANK0_AT + (size + 127) // 64 * 64)
        room[: _BANK0_AT // 8] = self._words
        own = room.view(np.uint8)[_BANK0_AT : _BANK0_AT + size]
        own[:] = np.frombuffer(bank0, dtype=np.uint8)
        table = self._memory.table()
        known, table_at = self._table
        if known is not table:
            table_at = int(table.ctypes.data)
            self._table = table, table_at
        room[_ALLOCATIONS], room[_ALLOCATION_COUNT] = table_at, len(table)
        keep: list[Any] = [table, room, self._zeros]
        if self._memory.pages is not None:
            pages = self._memory.page_table()
            room[_PAGES], room[_PAGE_COUNT] = int(pages.ctypes.data), len(pages)
            room[_OVERRUN] = host_address(self._memory.pages.noted)
            keep.append(pages)
        room[_BANK0], room[_BANK0_BYTES] = host_address(room) + _BANK0_AT, size
        return LaunchContext(
            self._program,
            self._geometry,
            self._memory,
            room[: _BANK0_AT // 8],
            {**self._banks, 0: own},
            keep,
            self._sms,
        )
