"""The NumPy interpreter of the common operations: the reference for compiled code and its fallback.

One warp runs with Volta's independent thread scheduling: lanes that run together are a group, one group runs at a
time.  Where lanes part, the smaller part goes on (of equal parts the one that falls through) and the other waits on a
stack; a group runs until it waits, ends or gives way.  Nothing but BSYNC and WARPSYNC joins groups; an indirect branch
takes the lanes that share the target of the lowest lane, the others run it again.  So an H200 does
(``bench/micro/divergence.cu``).

A lane waits at BSYNC until every lane of its barrier's mask waits there with the same mask or has exited (BREAK takes
lanes out of the mask of all its members), and at WARPSYNC until all living lanes of its mask wait at one with
the same mask.  A group that executes YIELD or NANOSLEEP goes to the bottom of the stack, and until it runs again no
BSYNC waits for it: a lane may hold a lock while it waits there for the very lanes that spin on the lock
(NVIDIA, US patent 2016/0019066, "Execution of divergent threads using a convergence barrier").
Block barriers count threads; exited threads are not expected, and a warp of which all living lanes have arrived counts
as 32 where the instruction names a thread count (PTX ISA, ``barrier``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    TAG_AFFINE,
    TAG_BLOCK,
    TAG_GATHER,
    FaultKind,
    Status,
)
from warpwright.engine.blocks import BasicBlock, address_index, basic_blocks
from warpwright.engine.bulk import BulkFault, perform, tell
from warpwright.engine.interpreter_code import Code, generate
from warpwright.engine.interpreter_memory import (
    Global,
    GlobalSpace,
    LocalSpace,
    Memories,
    MemoryFault,
    SharedSpace,
    mask_bits,
)
from warpwright.engine.interpreter_stack import run_stacked
from warpwright.engine.launch import Dim3, Geometry, shared_bytes, stack_bytes
from warpwright.engine.reconvergence import uses_stack
from warpwright.isa.bulk import Bulk
from warpwright.isa.ops import SHARED_RANK_SHIFT, Access, Lowered
from warpwright.isa.program import Program
from warpwright.isa.textures import TextureAccess

if TYPE_CHECKING:
    from warpwright.engine.services import LaunchServices
    from warpwright.engine.textures.serve import LaunchTextures

LANES = 32
RUNNING, AT_WARPSYNC, AT_BARRIER, AT_CLUSTER = -1, 16, 17, 18
"""What a lane waits for: nothing, B register 0..15, a WARPSYNC, a block barrier, its cluster's barrier."""
BACK_EDGES_BEFORE_YIELD = 4096
"""Backward branches after which a warp lets other warps run."""
PASSES_BEFORE_NEXT_BLOCK = 4
"""Fruitless passes over the resident blocks before one more becomes resident."""

Array = npt.NDArray[Any]


def lane_mask(bits: int) -> npt.NDArray[np.bool_]:
    """An integer mask as 32 booleans."""
    return (bits >> np.arange(LANES) & 1).astype(np.bool_)


class Kernel:
    """A lowered program, ready to be interpreted; made once for all launches."""

    def __init__(self, program: Program, lowered: Sequence[Lowered]) -> None:
        self.program = program
        self.code: list[Code] = generate(lowered)
        self.index_of = address_index(program)
        self.addresses = [i.address for i in program.instructions]
        self.blocks: list[BasicBlock] = basic_blocks(program, lowered)
        self.block_at = {block.first: block for block in self.blocks}
        self.registers, self.predicates = file_sizes(lowered)
        self.stacked = uses_stack(lowered)
        """Whether warps reconverge by a stack (chips before Volta)."""


def file_sizes(lowered: Sequence[Lowered]) -> tuple[int, int]:
    """Registers and predicates of a lane: machine code's 256 and 8, or what virtual registers need."""
    registers, predicates = 256, 8
    for one in lowered:
        if one.guard is not None and one.guard[0] == "pred":
            predicates = max(predicates, one.guard[1] + 1)
        for op in one.ops:
            if op.name in ("get_reg", "set_reg", "get_reg64", "set_reg64"):
                registers = max(registers, op.attr + 2)
            elif op.name in ("get_pred", "set_pred"):
                predicates = max(predicates, op.attr + 1)
    return registers, predicates


class Launch:
    """What every warp of one launch shares.

    Args:
        banks: contents of the constant banks by number, bank 0 included; space beyond reads 0.
    """

    def __init__(
        self,
        kernel: Kernel,
        geometry: Geometry,
        memory: Global,
        banks: Mapping[int, bytes | bytearray | npt.NDArray[np.uint8]],
        sm_count: int = 1,
        services: LaunchServices | None = None,
        textures: LaunchTextures | None = None,
    ) -> None:
        self.kernel = kernel
        self.geometry = geometry
        self.shared_bytes = shared_bytes(kernel.program, geometry)
        self.globals = GlobalSpace(memory)
        self.banks = {
            n: b if isinstance(b, np.ndarray) else np.frombuffer(bytes(b), dtype=np.uint8) for n, b in banks.items()
        }
        self.sm_count = sm_count
        self.services = services
        self.textures = textures
        self.clock = 0
        self._constants: dict[tuple[int, int, int], Array] = {}

    def constant(self, bank: int, offset: int, size: int) -> Array:
        """A constant at a fixed offset, in every lane."""
        key = bank, offset, size
        if key not in self._constants:
            self._constants[key] = self.constants(bank, np.full(LANES, offset, np.uint32), size)
        return self._constants[key]

    def constants(self, bank: int, offsets: Array, size: int) -> Array:
        """Constants at each lane's offset: uint8 to uint64, or shape (4, 32) for 16 bytes."""
        data = self.banks.get(bank)
        result = np.zeros((LANES, size), np.uint8)
        if data is not None and len(data):
            places = offsets.astype(np.int64)[:, None] + np.arange(size)
            inside = (places >= 0) & (places < len(data))
            result = np.where(inside, data[np.where(inside, places, 0)], 0).astype(np.uint8)
        if size == 16:
            return np.ascontiguousarray(result.view(np.uint32).T)
        return result.view(f"u{size}").reshape(LANES)


@dataclass(frozen=True, slots=True)
class Fault:
    """An access that failed, or a trap."""

    kind: FaultKind
    address: int
    bytes: int
    lanes: int
    instruction: int
    """Byte address of the instruction in the program."""


class WarpState:
    """The architectural state of one warp, and where its lanes stand.

    ``regs`` is uint32 (256 or more, 32), ``uregs`` uint32 (64, 32) with equal columns, ``preds`` and ``upreds`` bool
    (8, 32) (``preds`` may have more),
    ``barriers`` uint32 (16, 32), ``pcs`` int64 (32,) as instruction indices, ``exited`` and ``waiting`` (32,).
    """

    def __init__(self, launch: Launch, block: BlockState, warp_in_block: int) -> None:
        self.launch = launch
        self.block = block
        self.warp_in_block = warp_in_block
        self.regs = np.zeros((launch.kernel.registers, LANES), np.uint32)
        self.uregs = np.zeros((64, LANES), np.uint32)
        self.preds = np.zeros((launch.kernel.predicates, LANES), np.bool_)
        self.upreds = np.zeros((8, LANES), np.bool_)
        self.preds[7] = self.upreds[7] = True
        self.barriers = np.zeros((16, LANES), np.uint32)
        self.pcs = np.zeros(LANES, np.int64)
        linear = warp_in_block * LANES + np.arange(LANES)
        self.exited = linear >= launch.geometry.threads_per_block
        self.waiting = np.full(LANES, RUNNING)
        self.entries: list[list[Any]] = []
        """Before Volta: (kind, instruction index, lanes) of what waits; see ``interpreter_stack``."""
        self.running = ~self.exited
        self.started = False
        self.sync_masks = np.zeros(LANES, np.uint32)
        self.barrier_id = np.zeros(LANES, np.int64)
        self.barrier_threads = np.zeros(LANES, np.int64)
        self.barrier_mode = ""
        self.barrier_vote = np.zeros(LANES, np.bool_)
        self.barrier_result = 0
        self.cluster_arrived = np.zeros(LANES, np.bool_)
        """Lanes that have arrived at the cluster's barrier in its current phase."""
        self.stack: list[tuple[int, npt.NDArray[np.bool_]]] = [(0, ~self.exited)]
        """Groups that could run: instruction index and lanes; the last goes first."""
        self.yielded = np.zeros(LANES, np.bool_)
        """Lanes of groups that gave way and have not run since."""
        self.instructions = 0
        self.thread_instructions = 0
        self.trace: list[int] | None = None
        self.fault: Fault | None = None
        self.spaces = Memories(launch.globals, block, LocalSpace(stack_bytes(launch.kernel.program)))
        x, y, _ = launch.geometry.block
        self._specials = {
            "tid.x": linear % x,
            "tid.y": linear // x % y,
            "tid.z": linear // (x * y),
            "laneid": np.arange(LANES),
            "warpid": np.full(LANES, warp_in_block),
            "lanemask_eq": 1 << np.arange(LANES),
            "lanemask_lt": (1 << np.arange(LANES)) - 1,
            "lanemask_le": (2 << np.arange(LANES)) - 1,
            "lanemask_gt": 0xFFFFFFFF ^ (2 << np.arange(LANES)) - 1,
            "lanemask_ge": 0xFFFFFFFF ^ (1 << np.arange(LANES)) - 1,
        }
        for name, value in self._uniform_specials().items():
            self._specials[name] = np.full(LANES, value)
        self._specials = {name: (value & 0xFFFFFFFF).astype(np.uint32) for name, value in self._specials.items()}

    def _uniform_specials(self) -> dict[str, int]:
        geometry, block = self.launch.geometry, self.block
        values = {
            "nwarpid": geometry.warps_per_block,
            "smid": block.linear_index % self.launch.sm_count,
            "nsmid": self.launch.sm_count,
            "gridid": 1,
            "shared_window_hi": SHARED_WINDOW >> 32,
            "shared_window_lo": SHARED_WINDOW & 0xFFFFFFFF,
            "local_window_hi": LOCAL_WINDOW >> 32,
            "local_window_lo": LOCAL_WINDOW & 0xFFFFFFFF,
            "cluster_ctaid": block.cluster.blocks.index(block),
            "cluster_nctaid": geometry.cluster_blocks,
            "is_explicit_cluster": int(geometry.cluster is not None),
            "dynamic_smem_size": geometry.dynamic_shared_bytes,
            "total_smem_size": block.shared.size_bytes,
        }
        for axis, size, count, index in zip("xyz", geometry.block, geometry.grid, block.index, strict=True):
            values |= {f"ntid.{axis}": size, f"nctaid.{axis}": count, f"ctaid.{axis}": index}
        for axis, size, index in zip("xyz", geometry.cluster_shape, block.index, strict=True):
            values |= {f"cluster_ctaid.{axis}": index % size, f"cluster_nctaid.{axis}": size}
            values |= {f"clusterid.{axis}": index // size, f"nclusterid.{axis}": values[f"nctaid.{axis}"] // size}
        return values

    # --- what generated code calls ----------------------------------------------------------------
    def special(self, name: str) -> Array:
        """A special register in every lane."""
        known = self._specials.get(name)
        if known is not None:
            return known
        if name == "barrier_result":
            value = self.barrier_result
        elif name in ("clock_lo", "clock_hi"):
            value = self.launch.clock >> (0 if name == "clock_lo" else 32)
        elif name in ("globaltimer_lo", "globaltimer_hi"):
            value = self.launch.clock >> (0 if name == "globaltimer_lo" else 32)
        else:
            raise ValueError(f"no special register is called {name!r}")
        return np.full(LANES, value & 0xFFFFFFFF, np.uint32)

    def special64(self, name: str) -> Array:
        """A 64-bit special register: the count of executed instructions stands for both clocks."""
        return np.full(LANES, self.launch.clock, np.uint64)

    def service(self, name: str, words: list[Array], m: Array) -> Array:
        """A function of the driver."""
        services = self.launch.services
        assert services is not None

        def read(lane: int, address: int, size: int) -> bytes:
            only = np.arange(LANES) == lane
            found = bytearray()
            for at in range(address, address + size):
                try:
                    byte = self.spaces.load(np.full(LANES, at, np.uint64), Access("generic", 1), only)
                except MemoryFault:
                    raise IndexError(address) from None
                found.append(int(byte[lane]))
            return bytes(found)

        lanes = [int(lane) for lane in np.flatnonzero(m)]
        return services.serve(name, lanes, words, self.block.index, self.warp_in_block, read)

    def texture(self, access: TextureAccess, words: list[Array], m: Array) -> Array:
        """A texture or surface access."""
        textures = self.launch.textures
        assert textures is not None
        result, first = textures.serve(access, words, m)
        if self.trace is not None:
            self.record(first, access, m)
        return result

    def bulk(self, what: Bulk, words: list[Array], m: Array) -> None:
        """Bulk copies, complete at once."""
        memory = ClusterMemory(self)
        lanes = np.flatnonzero(m)
        for lane in lanes[:1] if what.once else lanes:
            try:
                tell(perform(what, [int(w[lane]) for w in words], memory), memory)
            except BulkFault as fault:
                raise MemoryFault(fault.kind, fault.address, 1 << int(lane), fault.bytes) from None

    def load(self, at: Array, how: Access, m: Array, recorded: bool) -> Array:
        if recorded and self.trace is not None:
            self.record(at, how, m)
        return self.spaces.load(at, how, m)

    def touch(self, at: Array, how: Access, m: Array) -> None:
        if self.trace is not None:
            self.record(at, how, m)

    def store(self, at: Array, value: Array, how: Access, m: Array, recorded: bool) -> None:
        if recorded and self.trace is not None:
            self.record(at, how, m)
        self.spaces.store(at, value, how, m)

    def atomic(self, at: Array, operand: Array, compare: Array | None, how: Access, m: Array, recorded: bool) -> Array:
        if recorded and self.trace is not None:
            self.record(at, how, m)
        return self.spaces.atomic(at, operand, compare, how, m)

    # --- trace ------------------------------------------------------------------------------------
    def record(self, at: Array, how: Access | TextureAccess, m: Array) -> None:
        """One memory record (``engine/abi.py``)."""
        assert self.trace is not None
        base = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(how.space, 0)
        addresses = at.astype(np.int64) + base
        bits = mask_bits(m)
        lanes = np.flatnonzero(m)
        if not len(lanes):
            self.trace += [TAG_AFFINE << 60, 0]
            return
        first = int(lanes[0])
        stride = 0
        if len(lanes) > 1:
            difference, apart = int(addresses[lanes[1]] - addresses[first]), int(lanes[1]) - first
            stride = difference // apart
        line = addresses[first] + stride * (np.arange(LANES) - first)
        if -(1 << 23) <= stride < 1 << 23 and bool((line[lanes] == addresses[lanes]).all()):
            self.trace += [TAG_AFFINE << 60 | (stride & 0xFFFFFF) << 32 | bits, int(line[0]) & 0xFFFFFFFFFFFFFFFF]
        else:
            self.trace.append(TAG_GATHER << 60 | bits)
            self.trace += [int(a) & 0xFFFFFFFFFFFFFFFF for a in addresses]

    # --- scheduling -------------------------------------------------------------------------------
    def ready(self, lanes: npt.NDArray[np.bool_]) -> None:
        """Push lanes that no longer wait, a group for each instruction at which they stand."""
        for pc in sorted({int(pc) for pc in self.pcs[lanes]}):
            self.stack.append((pc, lanes & (self.pcs == pc)))

    def release(self, arriving: npt.NDArray[np.bool_] | None = None) -> bool:
        """Push the lanes whose convergence barrier or WARPSYNC is complete; True when there were some.

        ``arriving``: lanes that have just arrived, when only their convergence point is asked; a WARPSYNC that they
        alone complete is not run again.
        """
        dead, gave_way = mask_bits(self.exited), mask_bits(self.yielded | (self.waiting == AT_WARPSYNC))
        found = False
        asked = self.waiting if arriving is None else self.waiting[arriving]
        for number in sorted({int(n) for n in asked} - {RUNNING, AT_BARRIER, AT_CLUSTER}):
            here = self.waiting == number
            masks = self.sync_masks if number == AT_WARPSYNC else self.barriers[number]
            leaving = np.zeros(LANES, np.bool_)
            excused = dead if number == AT_WARPSYNC else dead | gave_way
            groups = [here & (masks == wanted) for wanted in {int(v) for v in masks[here]}]
            if number == AT_WARPSYNC:
                groups = [part for group in groups for part in self.met(group)]
            for group in groups:
                wanted = int(masks[group][0])
                if wanted & ~excused & ~mask_bits(group) == 0:
                    leaving |= group
                    if number != AT_WARPSYNC:
                        # Who gave way no longer waits for anybody there.
                        masks[~leaving & (masks == wanted)] = 0
            if not leaving.any():
                continue
            found = True
            if number == AT_WARPSYNC:
                for pc in {int(pc) for pc in self.pcs[leaving]}:
                    here = leaving & (self.pcs == pc)
                    if arriving is None or not arriving[here].all():
                        self.count(pc, here)
            self.waiting[leaving] = RUNNING
            self.pcs[leaving] += 1
            self.ready(leaving)
        return found

    def met(self, group: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.bool_]]:
        """Lanes of one mask that wait at a WARPSYNC, by those that have met: at one place, or at COLLECTIVE ones."""
        code = self.launch.kernel.code
        apart = [self.pcs == pc for pc in {int(p) for p in self.pcs[group]} if code[pc].attr != "collective"]
        together = group & ~np.logical_or.reduce([np.zeros(LANES, np.bool_), *apart])
        return [group & place for place in apart] + ([together] if together.any() else [])

    def count(self, pc: int, lanes: npt.NDArray[np.bool_]) -> None:
        """Count one executed instruction, which is a basic block of its own."""
        if self.trace is not None:
            self.trace.append(TAG_BLOCK << 60 | self.launch.kernel.block_at[pc].number << 32 | mask_bits(lanes))
        self.instructions += 1
        self.thread_instructions += int(lanes.sum())
        self.launch.clock += 1

    def give_way(self, pc: int, lanes: npt.NDArray[np.bool_]) -> bool:
        """Put a group at the bottom of the stack; False when no other can go on instead."""
        others = bool(self.stack)
        self.stack.insert(0, (pc, lanes))
        self.yielded |= lanes
        return others or self.release()

    def choose(self) -> tuple[int, npt.NDArray[np.bool_]] | None:
        """(instruction index, lanes) of the next group, or None."""
        if not self.stack:
            self.release()
        if not self.stack:
            return None
        pc, group = self.stack.pop()
        self.yielded &= ~group
        return pc, group


class ClusterMemory:
    """What a warp's bulk copies reach."""

    def __init__(self, warp: WarpState) -> None:
        self.warp = warp

    @property
    def rank(self) -> int:
        return self.warp.block.cluster.blocks.index(self.warp.block)

    def shared(self, rank: int) -> npt.NDArray[np.uint8]:
        blocks = self.warp.block.cluster.blocks
        if rank >= len(blocks):
            raise BulkFault(FaultKind.NO_SUCH_BLOCK, SHARED_WINDOW + (rank << SHARED_RANK_SHIFT), 0)
        if blocks[rank].ended:
            raise BulkFault(FaultKind.BLOCK_HAS_EXITED, SHARED_WINDOW + (rank << SHARED_RANK_SHIFT), 0)
        return blocks[rank].shared.data[: blocks[rank].shared.size_bytes]

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        space = self.warp.launch.globals
        if space.outside(np.array([address], np.int64), size)[0]:
            raise BulkFault(FaultKind.OUT_OF_BOUNDS, address, size)
        first = address - space.base
        return space.views[1][first : first + size]


class ClusterState:
    """The blocks of a cluster (one, in launches without clusters) by rank."""

    def __init__(self, launch: Launch, number: int, trace: bool = False) -> None:
        x, y, _ = launch.geometry.grid
        count = launch.geometry.cluster_blocks
        self.blocks: list[BlockState] = []
        for rank in range(count):
            linear = launch.geometry.clustered_block(number * count + rank)
            self.blocks.append(BlockState(launch, (linear % x, linear // x % y, linear // (x * y)), self))
        for block in self.blocks:
            block.populate(trace)

    def complete_barrier(self) -> bool:
        """Release who waits at the cluster's barrier once every living lane has arrived; True when there was one."""
        warps = [warp for block in self.blocks for warp in block.warps]
        if not any(warp.cluster_arrived.any() for warp in warps):
            return False
        if any((~warp.exited & ~warp.cluster_arrived).any() for warp in warps):
            return False
        for warp in warps:
            warp.cluster_arrived[:] = False
            lanes = warp.waiting == AT_CLUSTER
            warp.waiting[lanes] = RUNNING
            warp.pcs[lanes] += 1
            warp.ready(lanes)
        return True

    def runs(self) -> list[BlockRun]:
        """Each block on its way."""
        found = [BlockRun(block) for block in self.blocks]
        for run in found:
            run.cluster = found
        return found


class BlockState:
    """One block: shared memory, warps, named barriers."""

    def __init__(self, launch: Launch, index: Dim3, cluster: ClusterState) -> None:
        geometry = launch.geometry
        self.launch = launch
        self.index = index
        self.cluster = cluster
        self.ended = False
        x, y, _ = geometry.grid
        self.linear_index = index[0] + x * (index[1] + y * index[2])
        self.shared = SharedSpace(launch.shared_bytes)
        self.arrived = [0] * 16
        """Threads that arrived without waiting (BAR.ARV), for each named barrier."""
        self.warps: list[WarpState] = []

    def populate(self, trace: bool) -> None:
        """Make the warps, once the whole cluster is known; with ``trace`` each keeps its records."""
        self.warps = [WarpState(self.launch, self, w) for w in range(self.launch.geometry.warps_per_block)]
        if trace:
            for warp in self.warps:
                warp.trace = []

    def complete_barriers(self) -> bool:
        """Release the waiting lanes of every barrier that has all its threads; True when there was one."""
        waiting: dict[int, list[tuple[WarpState, npt.NDArray[np.bool_]]]] = {}
        living = 0
        for warp in self.warps:
            living += int((~warp.exited).sum())
            here = warp.waiting == AT_BARRIER
            for number in {int(n) for n in warp.barrier_id[here]}:
                waiting.setdefault(number, []).append((warp, here & (warp.barrier_id == number)))
        progress = False
        for number, groups in waiting.items():
            expected = max(int(warp.barrier_threads[lanes].max()) for warp, lanes in groups)
            present = self.arrived[number]
            for warp, lanes in groups:
                whole = expected > 0 and bool((lanes | warp.exited).all())
                present += LANES if whole else int(lanes.sum())
            if present < (expected or living):
                continue
            progress = True
            self.arrived[number] = 0
            votes = np.concatenate([warp.barrier_vote[lanes] for warp, lanes in groups])
            mode = groups[0][0].barrier_mode
            result = {"popc": int(votes.sum()), "and": int(votes.all()), "or": int(votes.any())}.get(mode, 0)
            for warp, lanes in groups:
                if mode:
                    warp.barrier_result = result
                warp.waiting[lanes] = RUNNING
                warp.pcs[lanes] += 1
                warp.ready(lanes)
        return progress


@dataclass(frozen=True, slots=True)
class Wait:
    """A warp that can not go on: why and where."""

    warp_in_block: int
    state: str
    """``exited``, ``barrier``, ``cluster`` or ``converge``."""
    barrier: int
    barrier_threads: int
    instruction: int
    lanes: int


@dataclass(slots=True)
class Outcome:
    """How a launch (or a block) ended."""

    status: Status
    """EXIT, FAULT, TRAP, DEADLOCK or YIELD (the instruction limit was reached)."""
    block: Dim3 = (0, 0, 0)
    warp_in_block: int = 0
    fault: Fault | None = None
    waits: list[Wait] = field(default_factory=list)
    """For a deadlock: every warp of the block."""
    instructions: int = 0
    """Warp-instructions executed."""
    thread_instructions: int = 0


def stop(
    warp: WarpState, kind: FaultKind, index: int, lanes: int, status: Status, address: int = 0, size: int = 0
) -> Status:
    addresses = warp.launch.kernel.addresses
    place = addresses[index] if 0 <= index < len(addresses) else index * 16
    warp.fault = Fault(kind, address, size, lanes, place)
    return status


def run_warp(w: WarpState) -> Status:
    """Run a warp until it exits, waits at a block barrier, yields to other warps, faults or deadlocks."""
    with np.errstate(all="ignore"):
        return run_stacked(w, stop, _block_barrier) if w.launch.kernel.stacked else _run(w)


def _run(w: WarpState) -> Status:
    kernel = w.launch.kernel
    code, block_at = kernel.code, kernel.block_at
    total = len(code)
    back_edges = 0
    while True:
        chosen = w.choose()
        if chosen is None:
            if ((w.waiting == AT_BARRIER) | (w.waiting == AT_CLUSTER)).any():
                return Status.BARRIER
            return Status.EXIT if w.exited.all() else Status.DEADLOCK
        pc, m = chosen
        lanes = int(m.sum())
        while True:
            if pc >= total:
                return stop(w, FaultKind.WILD_BRANCH, pc, mask_bits(m), Status.FAULT, 16 * pc)
            if w.trace is not None and pc in block_at:
                w.trace.append(TAG_BLOCK << 60 | block_at[pc].number << 32 | mask_bits(m))
            c = code[pc]
            w.instructions += 1
            w.thread_instructions += lanes
            w.launch.clock += 1
            e = m
            if c.guard is not None:
                file, number, inverted = c.guard
                p = (w.preds if file == "pred" else w.upreds)[number]
                e = m & ~p if inverted else m & p
                if not e.any():
                    if w.trace is not None:
                        w.trace += [TAG_AFFINE << 60, 0] * c.records
                    pc += 1
                    continue
            values: Any = None
            if c.run is not None:
                try:
                    values = c.run(w, e)
                except MemoryFault as fault:
                    return stop(w, fault.kind, pc, fault.lanes, Status.FAULT, fault.address, fault.bytes)
            if not c.control:
                pc += 1
                continue
            if c.control == "branch":
                taken = e if values is None else e & values[0]
                target = kernel.index_of.get(c.attr, total)
                count = int(taken.sum())
                if count == 0:
                    pc += 1
                    continue
                rest = m & ~taken
                if count < lanes:
                    # The smaller part goes on, the one that falls through when they are equal.
                    if count < lanes - count:
                        w.stack.append((pc + 1, rest))
                    else:
                        w.stack.append((target, taken))
                        m, lanes = rest, lanes - count
                        pc += 1
                        continue
                    m, lanes = taken, count
                if target <= pc:
                    back_edges += 1
                    if back_edges >= BACK_EDGES_BEFORE_YIELD:
                        w.stack.append((target, m))
                        return Status.YIELD
                pc = target
                continue
            if c.control in ("bssy", "break"):
                _convergence(w, c, e, values)
                pc += 1
                continue
            status = _control(w, c, pc, m, e, values)
            if status is not None:
                return status
            break


def _convergence(w: WarpState, c: Code, e: Array, values: Any) -> None:
    if c.control == "bssy":
        w.barriers[c.attr[0]][e] = mask_bits(e)
        return
    e = e if values is None else e & values[0]
    leaving = np.uint32(~mask_bits(e) & 0xFFFFFFFF)
    members = np.uint32(np.bitwise_or.reduce(w.barriers[c.attr][e]))
    w.barriers[c.attr][lane_mask(int(members))] &= leaving


def _control(w: WarpState, c: Code, pc: int, m: Array, e: Array, values: Any) -> Status | None:
    """Everything but direct branches and masks: the group ends here; those that follow it are pushed."""
    kernel = w.launch.kernel
    past = m & ~e
    w.pcs[m] = pc + 1
    if c.control == "branch_indirect":
        leader = int(e.argmax())
        address = int(values[0][leader])
        here = e & (values[0] == values[0][leader])
        rest = m & ~here
        offset = (address - kernel.program.code_base) & 0xFFFFFFFFFFFFFFFF
        index = kernel.index_of.get(offset)
        if index is None:
            return stop(w, FaultKind.WILD_BRANCH, pc, mask_bits(here), Status.FAULT, offset)
        groups = [(index, here)]
        if rest.any():
            # The others run the instruction again; the smaller part goes first.
            groups.insert(1 if rest.sum() < here.sum() else 0, (pc, rest))
        w.stack += groups
        return None
    if c.control == "exit":
        gone = e if values is None else e & values[0]
        w.exited |= gone
        past = m & ~gone
        if past.any():
            w.stack.append((pc + 1, past))
        return None
    if c.control == "trap":
        return stop(w, FaultKind.NONE, pc, mask_bits(e), Status.TRAP)
    if c.control in ("yield", "nanosleep"):
        others = w.give_way(pc + 1, m)
        return Status.YIELD if c.control == "nanosleep" and not others else None
    if past.any():
        w.stack.append((pc + 1, past))
    if c.control in ("bsync", "warpsync"):
        if c.control == "bsync":
            masks, kind = w.barriers[c.attr], c.attr
        else:
            if c.attr == "exclusive":
                own = lane_mask(int(values[0][int(e.argmax())]))
                own[int(e.argmax())] = True
                if (e & ~own).any():
                    w.stack.append((pc, e & ~own))
                e = e & own
            w.sync_masks[e] = values[0][e]
            masks, kind = w.sync_masks, AT_WARPSYNC
        alone = e & (masks & (np.uint32(1) << np.arange(LANES, dtype=np.uint32)) == 0)
        if alone.any():
            w.stack.append((pc + 1, alone))
        waits = e & ~alone
        w.waiting[waits] = kind
        w.pcs[waits] = pc
        w.release(waits)
        return None
    _block_barrier(w, c, pc, e, values)
    return None


def _block_barrier(w: WarpState, c: Code, pc: int, e: Array, values: Any) -> None:
    if c.control == "barrier" and c.attr == "arrive":
        first = int(e.argmax())
        number = int(values[0][first]) & 15
        whole = bool((e | w.exited).all())
        w.block.arrived[number] += LANES if whole else int(e.sum())
        w.stack.append((pc + 1, e))
        return
    if c.control == "barrier" and c.attr.startswith("cluster"):
        arrives = c.attr == "cluster_arrive"
        passes = e if arrives else e & ~w.cluster_arrived
        w.cluster_arrived |= e if arrives else False
        waits = e & ~passes
        w.waiting[waits] = AT_CLUSTER
        w.pcs[waits] = pc
        if passes.any():
            w.stack.append((pc + 1, passes))
        return
    w.waiting[e] = AT_BARRIER
    w.pcs[e] = pc
    w.barrier_id[e] = values[0][e] & 15
    w.barrier_threads[e] = values[1][e]
    w.barrier_mode = c.attr if c.control == "barrier_red" else ""
    if c.control == "barrier_red":
        w.barrier_vote[e] = values[2][e]


class BlockRun:
    """A block on its way: every call of :meth:`step` runs each of its warps once."""

    def __init__(self, block: BlockState) -> None:
        self.block = block
        self.cluster = [self]
        """The runs of its cluster's blocks."""
        self.statuses = [Status.YIELD] * len(block.warps)
        self.stuck = False
        """No warp can go on unless another block of the cluster does."""

    def step(self) -> Outcome | None:
        """Run each warp that can go on until it stops; the outcome once the block has ended."""
        block = self.block
        for n, warp in enumerate(block.warps):
            if self.statuses[n] in (Status.EXIT, Status.DEADLOCK, Status.BARRIER):
                continue
            status = run_warp(warp)
            self.statuses[n] = status
            if status in (Status.FAULT, Status.TRAP):
                return self.outcome(status, n)
        if all(s is Status.EXIT for s in self.statuses):
            block.ended = True
            return self.outcome(Status.EXIT, 0)
        if block.complete_barriers():
            self.wake()
        elif block.cluster.complete_barrier():
            for run in self.cluster:
                run.wake()
        elif not any(s is Status.YIELD for s in self.statuses):
            waits = any((warp.waiting == AT_CLUSTER).any() for warp in block.warps)
            self.stuck = True
            if not waits or all(run.stuck or run.block.ended for run in self.cluster):
                first = next(n for n, s in enumerate(self.statuses) if s is not Status.EXIT)
                return self.outcome(Status.DEADLOCK, first)
        return None

    def wake(self) -> None:
        """Warps that waited at a barrier may run."""
        self.stuck = False
        self.statuses = [Status.YIELD if s in (Status.BARRIER, Status.DEADLOCK) else s for s in self.statuses]

    def outcome(self, status: Status, warp: int) -> Outcome:
        block = self.block
        waits = [describe_wait(w, s) for w, s in zip(block.warps, self.statuses, strict=True)]
        return Outcome(
            status,
            block.index,
            warp,
            block.warps[warp].fault,
            waits if status is Status.DEADLOCK else [],
            sum(w.instructions for w in block.warps),
            sum(w.thread_instructions for w in block.warps),
        )


def describe_wait(w: WarpState, status: Status) -> Wait:
    """Why a warp of a deadlocked block stands."""
    if status is Status.EXIT:
        return Wait(w.warp_in_block, "exited", 0, 0, -1, 0)
    for_cluster = bool((w.waiting == AT_CLUSTER).any())
    kind = AT_CLUSTER if for_cluster else AT_BARRIER if status is Status.BARRIER else -1
    lanes = ~w.exited if kind == -1 else w.waiting == kind
    first = int(lanes.argmax())
    place = w.launch.kernel.addresses[int(w.pcs[first])]
    state = {AT_BARRIER: "barrier", AT_CLUSTER: "cluster"}.get(kind, "converge")
    return Wait(
        w.warp_in_block, state, int(w.barrier_id[first]), int(w.barrier_threads[first]), place, mask_bits(lanes)
    )


def run_block(launch: Launch, index: Dim3, trace: bool = False) -> tuple[Outcome, BlockState]:
    """Run one block (of a launch without clusters) to its end; with ``trace`` each warp keeps its records in ``trace``."""
    x, y, _ = launch.geometry.grid
    block = ClusterState(launch, index[0] + x * (index[1] + y * index[2]), trace).blocks[0]
    run = BlockRun(block)
    while True:
        outcome = run.step()
        if outcome is not None:
            return outcome, block


def run_grid(launch: Launch, resident_blocks: int = 1 << 30, instruction_limit: int | None = None) -> Outcome:
    """Run every block in order of its index.

    One block (or cluster) is resident at first; another joins whenever the resident ones only spin, up to
    ``resident_blocks``, so that blocks may wait for each other.  The first block that does not end
    well ends the launch.
    """
    pending = iter(range(launch.geometry.blocks // launch.geometry.cluster_blocks))
    resident: list[BlockRun] = []
    total = Outcome(Status.EXIT)
    fruitless = 0
    while True:
        if not resident or (fruitless >= PASSES_BEFORE_NEXT_BLOCK and len(resident) < resident_blocks):
            number = next(pending, None)
            if number is not None:
                resident += ClusterState(launch, number).runs()
                fruitless = 0
            elif not resident:
                return total
        fruitless += 1
        for run in list(resident):
            outcome = run.step()
            if outcome is None:
                continue
            fruitless = 0
            resident.remove(run)
            total.instructions += outcome.instructions
            total.thread_instructions += outcome.thread_instructions
            if outcome.status is not Status.EXIT:
                outcome.instructions = total.instructions
                outcome.thread_instructions = total.thread_instructions
                return outcome
        if instruction_limit is not None and launch.clock > instruction_limit:
            total.status = Status.YIELD
            return total
