"""One warp in the interpreter: its registers, the methods that generated code calls, and its trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
    head_words,
)
from warpwright.engine.blocks import BasicBlock, address_index, basic_blocks, initialises_mbarrier
from warpwright.engine.bulk import BulkFault, perform, tell
from warpwright.engine.constant_bank0 import reachable_shared_bytes, stack_bytes
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter.code import Code, generate
from warpwright.engine.interpreter.convergence import Groups
from warpwright.engine.interpreter.gather_scatter import (
    ClusterMemory,
    Global,
    GlobalSpace,
    LocalSpace,
    Memories,
    MemoryFault,
    mask_bits,
)
from warpwright.engine.interpreter.special_registers import specials
from warpwright.engine.reconvergence import uses_stack
from warpwright.engine.services import CallingWarp, LaunchServices
from warpwright.isa.bulk import Bulk
from warpwright.isa.ops import Access, Lowered
from warpwright.isa.program import Program
from warpwright.isa.texture_access import TextureAccess

if TYPE_CHECKING:
    from warpwright.engine.interpreter.cluster import BlockState
    from warpwright.engine.textures.launch_textures import LaunchTextures

Array = npt.NDArray[Any]


class Kernel:
    """A lowered program, ready to be interpreted; created once for all launches."""

    @cached_property
    def blocks(self) -> list[BasicBlock]:
        """The basic blocks to which trace records refer."""
        return basic_blocks(self.program, self.lowered)

    @cached_property
    def block_at(self) -> dict[int, BasicBlock]:
        """Block by the index of its first instruction."""
        return {block.first: block for block in self.blocks}

    def __init__(self, program: Program, lowered: Sequence[Lowered]) -> None:
        self.program = program
        self.lowered = lowered
        self.code: list[Code | None] = [None] * len(lowered)
        """Code of the instructions that a warp has reached."""
        self.index_of = address_index(program)
        self.addresses = [i.address for i in program.instructions]
        self.registers, self.predicates = file_sizes(lowered)
        self.collective = frozenset(
            n for n, one in enumerate(lowered) for op in one.ops if op.name == "warpsync" and op.attr == "collective"
        )
        self.gives_way = frozenset(n for n, one in enumerate(program.instructions) if initialises_mbarrier(one))
        """Before these a warp lets the others of its block run."""
        self.stacked = uses_stack(lowered)
        """Whether warps reconverge by a stack (chips before Volta)."""

    def code_at(self, index: int) -> Code:
        """The code of an instruction, generated when a warp first reaches it, because most slow paths of a kernel are
        never reached."""
        code = self.code[index]
        if code is None:
            code = self.code[index] = generate(self.lowered[index], self.program.lanes)
        return code


def file_sizes(lowered: Sequence[Lowered]) -> tuple[int, int]:
    """Registers and predicates per lane: machine code's 256 and 8, or as many as virtual registers need."""
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


class OverLimit(Exception):
    """A launch exceeds the limits of this execution."""


TURN_BACK_EDGES = 256
"""Few enough that warps that spin until another warp has done its part do not take most of a launch's time."""


@dataclass(slots=True)
class Limits:
    """Limits of a launch; it raises :class:`OverLimit` beyond them, and also when a warp yields to others."""

    instructions: int
    """Number of warp-instructions of the launch."""
    back_edges: int
    """Number of backward branches of one warp."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a launch finds outside its own code and memory."""

    sm_count: int = 1
    """Number of the chip's SMs."""
    sms: Sequence[int] | npt.NDArray[np.int64] | None = None
    """Numbers of those that run blocks; None: all."""
    services: LaunchServices | None = None
    textures: LaunchTextures | None = None


class Launch:
    """State that all warps of one launch share.

    Args:
        banks: contents of the constant banks by number, including bank 0; bytes beyond their end read as 0.
        environment: the chip's SMs, and what the launch's instructions ask of the host.
    """

    def __init__(
        self,
        kernel: Kernel,
        geometry: Geometry,
        memory: Global,
        banks: Mapping[int, bytes | bytearray | npt.NDArray[np.uint8]],
        environment: Environment | None = None,
    ) -> None:
        environment = environment or Environment()
        self.kernel = kernel
        self.geometry = geometry
        self.shared_bytes = reachable_shared_bytes(kernel.program, geometry)
        self.globals = GlobalSpace(memory)
        self.banks = {
            n: b if isinstance(b, np.ndarray) else np.frombuffer(bytes(b), dtype=np.uint8) for n, b in banks.items()
        }
        self.sm_count = environment.sm_count
        self.sms = range(self.sm_count) if environment.sms is None else environment.sms
        """Numbers of the SMs that run blocks."""
        self.services = environment.services
        self.textures = environment.textures
        self.clock = 0
        self.limits: Limits | None = None
        self.turn_back_edges = TURN_BACK_EDGES
        """Number of backward branches after which a warp yields to others."""
        self.before: Callable[[WarpState, int, Array], None] | None = None
        """Called before each instruction with the warp, the instruction's index and the lanes; may raise
        :class:`Paused`."""
        self._constants: dict[tuple[int, int, int], Array] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Launch:
        # A copy of warps is a copy of their state; they remain warps of this launch.
        return self

    def constant(self, bank: int, offset: int, size: int) -> Array:
        """A constant at a fixed offset, in every lane."""
        key = bank, offset, size
        if key not in self._constants:
            self._constants[key] = self.constants(bank, np.full(self.kernel.program.lanes, offset, np.uint32), size)
        return self._constants[key]

    def constants(self, bank: int, offsets: Array, size: int) -> Array:
        """Constants at each lane's offset: uint8 to uint64, or shape (4, lanes) for 16 bytes."""
        data = self.banks.get(bank)
        result = np.zeros((len(offsets), size), np.uint8)
        if data is not None and len(data):
            places = offsets.astype(np.int64)[:, None] + np.arange(size)
            inside = (places >= 0) & (places < len(data))
            result = np.where(inside, data[np.where(inside, places, 0)], 0).astype(np.uint8)
        if size == 16:
            return np.ascontiguousarray(result.view(np.uint32).T)
        return result.view(f"u{size}").reshape(-1)


@dataclass(frozen=True, slots=True)
class Fault:
    """An access that failed, or a trap."""

    kind: FaultKind
    address: int
    bytes: int
    lanes: int
    instruction: int
    """Byte address of the instruction in the program."""


class Paused(Exception):
    """The watcher of a launch (``Launch.before``) stopped a warp before an instruction; run again, it continues there.

    Args:
        index: index of the instruction.
        lanes: the lanes that would execute it.
    """

    def __init__(self, index: int, lanes: Array) -> None:
        super().__init__(index)
        self.index = index
        self.lanes = lanes


class Stopped(Exception):
    """A warp that cannot continue; ``status`` says why."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


NOTHING = Code(None, None)
"""The result of an instruction whose guard holds in no lane."""


class WarpState(Groups):
    """The architectural state of one warp, and where its lanes are.

    ``regs`` is uint32 (256 or more, lanes), ``uregs`` uint32 (64, lanes) with equal columns, ``preds`` and ``upreds`` bool
    (8, lanes) (``preds`` may have more).
    """

    def __init__(self, launch: Launch, block: BlockState, warp_in_block: int) -> None:
        lanes = launch.kernel.program.lanes
        linear = warp_in_block * lanes + np.arange(lanes)
        super().__init__(linear >= launch.geometry.threads_per_block, launch.kernel.collective)
        self.launch = launch
        self.block = block
        self.warp_in_block = warp_in_block
        self.regs = np.zeros((launch.kernel.registers, lanes), np.uint32)
        self.uregs = np.zeros((64, self.lanes), np.uint32)
        self.preds = np.zeros((launch.kernel.predicates, self.lanes), np.bool_)
        self.upreds = np.zeros((8, self.lanes), np.bool_)
        self.preds[7] = self.upreds[7] = True
        self.entries: list[list[Any]] = []
        """Before Volta: (kind, instruction index, lanes) of the waiting entries; see ``stack.py``."""
        self.running = ~self.exited
        self.started = False
        self.barrier_id = np.zeros(self.lanes, np.int64)
        self.barrier_threads = np.zeros(self.lanes, np.int64)
        self.barrier_mode = ""
        self.barrier_vote = np.zeros(self.lanes, np.bool_)
        self.barrier_result = 0
        self.cluster_arrived = np.zeros(self.lanes, np.bool_)
        """Lanes that have arrived at the cluster's barrier in its current phase."""
        self.instructions = 0
        self.thread_instructions = 0
        self.back_edges = 0
        self.turn_back_edges = 0
        """Number of backward branches since the warp's turn began."""
        self.gave_way_at = -1
        """The instruction before which the warp has just let others run (``Kernel.gives_way``), or -1."""
        self.trace: list[int] | None = None
        self.fault: Fault | None = None
        self.spaces = Memories(launch.globals, block, LocalSpace(stack_bytes(launch.kernel.program), lanes))
        self._specials = specials(block, warp_in_block)

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
        return np.full(self.lanes, value & 0xFFFFFFFF, np.uint32)

    def special64(self, name: str) -> Array:
        """A 64-bit special register; the number of executed instructions serves as both clocks."""
        return np.full(self.lanes, self.launch.clock, np.uint64)

    def service(self, name: str, words: list[Array], m: Array) -> Array:
        """A function of the driver."""
        services = self.launch.services
        assert services is not None

        def read(lane: int, address: int, size: int) -> bytes:
            only = np.arange(self.lanes) == lane
            found = bytearray()
            for at in range(address, address + size):
                try:
                    byte = self.spaces.load(np.full(self.lanes, at, np.uint64), Access("generic", 1), only)
                except MemoryFault:
                    raise IndexError(address) from None
                found.append(int(byte[lane]))
            return bytes(found)

        def write(lane: int, address: int, contents: bytes) -> None:
            only = np.arange(self.lanes) == lane
            for at, byte in enumerate(contents, address):
                try:
                    value = np.full(self.lanes, byte, np.uint32)
                    self.spaces.store(np.full(self.lanes, at, np.uint64), value, Access("generic", 1), only)
                except MemoryFault:
                    raise IndexError(address) from None

        lanes = [int(lane) for lane in np.flatnonzero(m)]
        return services.serve(name, lanes, words, CallingWarp(self.block.index, self.warp_in_block, read, write))

    def texture(self, access: TextureAccess, words: list[Array], m: Array) -> Array:
        """A texture or surface access."""
        textures = self.launch.textures
        assert textures is not None
        result, first = textures.serve(access, words, m)
        if self.trace is not None:
            self.record(first, access, m & (first != 0) if access.on_surface else m)
        return result

    def bulk(self, what: Bulk, words: list[Array], m: Array) -> None:
        """Bulk copies, which complete at once."""
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

    def aligned(self, at: Array, how: Access, m: Array) -> None:
        """Raise a fault if an executing lane's address is not a multiple of the access size."""
        wrong = (at.astype(np.int64) & (how.bytes - 1)) != 0
        if (wrong & m).any():
            bits = mask_bits(wrong & m)
            first = int(at[(bits & -bits).bit_length() - 1])
            raise MemoryFault(FaultKind.MISALIGNED, first, bits, how.bytes)

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
            self.trace += [*self.head(TAG_AFFINE << 60, 0), 0]
            return
        first = int(lanes[0])
        stride = 0
        if len(lanes) > 1:
            difference, apart = int(addresses[lanes[1]] - addresses[first]), int(lanes[1]) - first
            stride = difference // apart
        line = addresses[first] + stride * (np.arange(self.lanes) - first)
        if -(1 << 23) <= stride < 1 << 23 and bool((line[lanes] == addresses[lanes]).all()):
            self.trace += [
                *self.head(TAG_AFFINE << 60 | (stride & 0xFFFFFF) << 32, bits),
                int(line[0]) & 0xFFFFFFFFFFFFFFFF,
            ]
        else:
            self.trace += self.head(TAG_GATHER << 60, bits)
            self.trace += [int(a) & 0xFFFFFFFFFFFFFFFF for a in addresses]

    def head(self, bits: int, lanes: int) -> list[int]:
        """A record's head (``engine/abi.py``)."""
        return [bits | lanes] if head_words(self.lanes) == 1 else [bits, lanes]

    def count(self, pc: int, lanes: npt.NDArray[np.bool_]) -> None:
        """Count one executed instruction, which is a separate basic block here."""
        if self.trace is not None:
            self.trace += self.head(TAG_BLOCK << 60 | self.launch.kernel.block_at[pc].number << 32, mask_bits(lanes))
        self.instructions += 1
        self.thread_instructions += int(lanes.sum())
        self.launch.clock += 1

    def stop(self, kind: FaultKind, index: int, lanes: int, status: Status, address: int = 0, size: int = 0) -> Status:
        """Record why the warp stops at an instruction; returns ``status``."""
        addresses = self.launch.kernel.addresses
        place = addresses[index] if 0 <= index < len(addresses) else index * 16
        self.fault = Fault(kind, address, size, lanes, place)
        return status

    def jump_back(self) -> None:
        """Count a backward branch if the launch has limits."""
        if self.launch.limits is not None:
            self.back_edges += 1
            self.check_limits(self.launch.limits)

    def check_limits(self, limits: Limits) -> None:
        """Raise :class:`OverLimit` if a limit is exceeded."""
        if self.back_edges > limits.back_edges or self.launch.clock > limits.instructions:
            raise OverLimit

    # --- one instruction --------------------------------------------------------------------------
    def execute(self, pc: int, m: Array) -> tuple[Code, Array, Any]:
        """Execute an instruction, except its control operation, for the running lanes.

        Returns the instruction, the lanes whose guard holds, and the arguments of the control operation.

        Raises:
            Stopped: at an access that fails.
        """
        kernel = self.launch.kernel
        if self.launch.before is not None:
            self.launch.before(self, pc, m)
        if self.trace is not None and pc in kernel.block_at:
            self.trace += self.head(TAG_BLOCK << 60 | kernel.block_at[pc].number << 32, mask_bits(m))
        c = kernel.code[pc] or kernel.code_at(pc)
        self.instructions += 1
        self.thread_instructions += int(np.count_nonzero(m))
        self.launch.clock += 1
        e = m
        if c.guard is not None:
            file, number, inverted = c.guard
            p = (self.preds if file == "pred" else self.upreds)[number]
            e = m & ~p if inverted else m & p
            if not e.any():
                if self.trace is not None:
                    self.trace += [*self.head(TAG_AFFINE << 60, 0), 0] * c.records
                return NOTHING, e, None
        if c.run is None:
            return c, e, None
        try:
            return c, e, c.run(self, e, c.values)
        except MemoryFault as fault:
            raise Stopped(self.stop(fault.kind, pc, fault.lanes, Status.FAULT, fault.address, fault.bytes)) from None
