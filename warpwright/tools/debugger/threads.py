"""What a stopped launch shows: its blocks, warps and lanes, and the registers and memory of one thread."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import LOCAL_WINDOW, SHARED_WINDOW, SHARED_WINDOW_BYTES, WINDOW_BYTES
from warpwright.engine.arguments import describe_parameters
from warpwright.engine.faults import thread_of
from warpwright.engine.geometry import Dim3
from warpwright.engine.interpreter import BlockState, Launch, WarpState
from warpwright.engine.interpreter.livelock import groups_of
from warpwright.engine.launch import LaunchContext
from warpwright.tools.debugger.expressions import SCALARS, ExpressionError, Pointer, Value, Vector, evaluate
from warpwright.tools.debugger.places import source_of

_REGISTER = re.compile(r"\$(U?R|U?P)(\d+)(\.64)?$")


class StoppedLaunch(Protocol):
    """What a thread's view needs of its launch."""

    context: LaunchContext
    launch: Launch
    used_uniform: frozenset[int]
    """Uniform registers that the kernel names."""

    def block(self, linear: int) -> BlockState | None:
        """A resident block; None for one that has ended or not begun."""

    def block_index(self, linear: int) -> Dim3:
        """blockIdx of a block."""

    def global_bytes(self, address: int, size: int) -> bytes:
        """Bytes of global memory; raises ExpressionError where not all are allocated."""

    def write_global(self, address: int, values: npt.NDArray[np.uint8]) -> None:
        """Change bytes of global memory; raises ExpressionError where not all are allocated."""

    def parameters(self) -> dict[str, Value]:
        """The kernel's parameters."""


@dataclass(frozen=True, slots=True)
class Focus:
    """One thread: the block by its linear index, the warp in it, the lane."""

    block: int
    warp: int
    lane: int


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """Lanes of a warp that are at one place."""

    state: str
    """``active`` (goes on next), ``divergent`` (waits for its turn), ``barrier`` or ``converging``."""
    index: int
    """Of the instruction."""
    mask: int


_STATES = {"runs": "active", "turn": "divergent", "barrier": "barrier", "joins": "converging"}


def lane_groups(warp: WarpState) -> list[LaneGroup]:
    """Where the living lanes of a warp are, those first that go on next."""
    kernel = warp.launch.kernel
    index_of = {address: n for n, address in enumerate(kernel.addresses)}
    return [LaneGroup(_STATES[g.what], index_of[g.instruction], g.lanes) for g in groups_of(warp)]


def group_with(warp: WarpState, lane: int) -> LaneGroup | None:
    """The group of a lane; None once it has exited."""
    return next((g for g in lane_groups(warp) if g.mask >> lane & 1), None)


class Thread:
    """The view of one thread: a :class:`~warpwright.tools.debugger.expressions.Scope`."""

    def __init__(self, execution: StoppedLaunch, focus: Focus) -> None:
        self.execution = execution
        self.focus = focus
        found = execution.block(focus.block)
        if found is None:
            raise ExpressionError(
                f"block {execution.block_index(focus.block)} is not resident: it has ended, or not begun"
            )
        self.block: BlockState = found
        if not 0 <= focus.warp < len(found.warps):
            raise ExpressionError(f"a block has {len(found.warps)} warps")
        self.warp: WarpState = found.warps[focus.warp]
        self.lane = focus.lane

    # --- where it is ---------------------------------------------------------------------------------
    @property
    def index(self) -> int | None:
        """The instruction that it executes next; None once it has exited."""
        group = group_with(self.warp, self.lane)
        return group.index if group is not None else None

    @property
    def thread_index(self) -> Vector:
        return Vector(*thread_of(self.execution.context.geometry, self.focus.warp, self.lane))

    # --- names ---------------------------------------------------------------------------------------
    def name(self, name: str) -> Value | None:
        geometry = self.execution.context.geometry
        if name.startswith("$"):
            return self._register(name)
        vectors = {"blockIdx": self.block.index, "blockDim": geometry.block, "gridDim": geometry.grid}
        if name in vectors:
            return Vector(*vectors[name])
        if name == "threadIdx":
            return self.thread_index
        if name == "warpSize":
            return self.warp.lanes
        parameter = self.parameters().get(name)
        if parameter is not None:
            return parameter
        address = self.execution.context.program.symbols.get(name)
        return Pointer(address, "int", "global") if address is not None else None

    def _register(self, name: str) -> Value | None:
        found = _REGISTER.match(name)
        if found is None:
            index = self.index
            known = {"$lane": self.lane, "$warp": self.focus.warp, "$clock": self.execution.launch.clock}
            if name == "$pc" and index is not None:
                return self.execution.context.program.instructions[index].address
            return known.get(name)
        kind, number, wide = found[1], int(found[2]), bool(found[3])
        files = {"R": self.warp.regs, "UR": self.warp.uregs, "P": self.warp.preds, "UP": self.warp.upreds}
        file = files[kind]
        zero = {"R": 255, "UR": 63}.get(kind)
        if number == zero:
            return 0
        if number + wide >= len(file):
            return None
        low = int(file[number, self.lane])
        return low | int(file[number + 1, self.lane]) << 32 if wide else low

    def registers(self) -> dict[str, int]:
        """The registers that the kernel uses, by name: ``R0`` to ``R254``, ``UR0``, ``P0``, ``UP0`` …"""
        program = self.execution.context.program
        found = {
            f"R{n}": int(self.warp.regs[n, self.lane])
            for n in range(min(max(program.registers, 1), len(self.warp.regs)))
        }
        used = self.execution.used_uniform
        found |= {f"UR{n}": int(self.warp.uregs[n, self.lane]) for n in sorted(used)}
        found |= {f"P{n}": int(self.warp.preds[n, self.lane]) for n in range(7)}
        if used:
            found |= {f"UP{n}": int(self.warp.upreds[n, self.lane]) for n in range(7)}
        return found

    def parameters(self) -> dict[str, Value]:
        """The kernel's parameters by the names of its source (``arg0`` … where it has none)."""
        return dict(self.execution.parameters())

    # --- memory --------------------------------------------------------------------------------------
    def load(self, pointer: Pointer) -> int | float:
        values = self.memory(pointer, 1)
        return values[0].item()

    def memory(self, pointer: Pointer, count: int) -> npt.NDArray[Any]:
        """``count`` values from a pointer on.

        Raises:
            ExpressionError: bytes of it are not in memory that the thread can reach.
        """
        dtype = np.dtype("u8" if pointer.type.endswith("*") else SCALARS[pointer.type])
        return np.frombuffer(self.bytes_at(pointer, count * dtype.itemsize), dtype)

    def bytes_at(self, pointer: Pointer, size: int) -> bytes:
        """Bytes from an address on, of the pointer's memory."""
        space, at = self._space_of(pointer)
        if space == "global":
            return self.execution.global_bytes(at, size)
        memory = self.warp.spaces.local if space == "local" else self.block.shared
        return memory.data[self._own_places(space, at, size)].tobytes()

    @staticmethod
    def _space_of(pointer: Pointer) -> tuple[str, int]:
        """The memory that a pointer means, and the address in it."""
        at, space = pointer.address, pointer.space
        if space == "generic":
            if SHARED_WINDOW <= at < SHARED_WINDOW + SHARED_WINDOW_BYTES:
                space, at = "shared", at - SHARED_WINDOW
            elif LOCAL_WINDOW <= at < LOCAL_WINDOW + WINDOW_BYTES:
                space, at = "local", at - LOCAL_WINDOW
            else:
                space = "global"
        return space, at

    def _own_places(self, space: str, at: int, size: int) -> npt.NDArray[np.int64]:
        """Indices of bytes of the block's shared or the thread's local memory in the array that holds them."""
        memory = self.warp.spaces.local if space == "local" else self.block.shared
        if at < 0 or at + size > memory.size_bytes:
            raise ExpressionError(
                f"{size} bytes at {at:#x} are not in the {memory.size_bytes:,} bytes of {space} memory"
            )
        places = np.arange(at, at + size)
        return places if space == "shared" else self.warp.spaces.local.offsets(places, np.full(size, self.lane))

    # --- writing ---------------------------------------------------------------------------------------
    def write(self, pointer: Pointer, data: bytes) -> None:
        """Write bytes to an address of the pointer's memory.

        Raises:
            ExpressionError: they are not in memory that the thread can reach.
        """
        space, at = self._space_of(pointer)
        values = np.frombuffer(data, np.uint8)
        if space == "global":
            self.execution.write_global(at, values)
            return
        memory = self.warp.spaces.local if space == "local" else self.block.shared
        memory.data[self._own_places(space, at, len(data))] = values

    def write_register(self, name: str, value: int) -> None:
        """Set a register, a pair (``$R2.64``) or a predicate.

        Raises:
            ExpressionError: there is no such register.
        """
        found = _REGISTER.match(name)
        if found is None or self._register(name) is None:
            raise ExpressionError(f" {name} is not a register that can be set: $R4, $R2.64, $UR4, $P0")
        kind, number, wide = found[1], int(found[2]), bool(found[3])
        if number == {"R": 255, "UR": 63}.get(kind):
            raise ExpressionError(f"{name} is always zero")
        file = {"R": self.warp.regs, "UR": self.warp.uregs, "P": self.warp.preds, "UP": self.warp.upreds}[kind]
        lanes = slice(None) if kind.startswith("U") else self.lane
        file[number, lanes] = bool(value) if kind.endswith("P") else value & 0xFFFFFFFF
        if wide:
            file[number + 1, lanes] = value >> 32 & 0xFFFFFFFF


def watched_place(text: str, thread: Thread) -> Pointer:
    """Where the value of an expression is.

    Raises:
        ExpressionError: it is in no memory.
    """
    text = text.strip()
    place = evaluate(text[1:], thread) if text.startswith("*") else evaluate("&" + text, thread)
    if not isinstance(place, Pointer):
        raise ExpressionError(f"{text} is not a value in memory: watch c[3], or watch *(float *) 0x7f00")
    if place.space == "generic" and 0 <= place.address - SHARED_WINDOW < SHARED_WINDOW_BYTES:
        return Pointer(place.address - SHARED_WINDOW, place.type, "shared")
    return place


def parameters_of(execution: StoppedLaunch, ptx: str | None) -> dict[str, Value]:
    """The kernel's parameters: numbers, pointers to the declared type, or the bits of what is neither."""
    program = execution.context.program
    bank0 = execution.launch.banks[0]
    found: dict[str, Value] = {}
    for parameter in describe_parameters(program, source_of(program), ptx):
        at = program.parameter_base_bytes + parameter.offset_bytes
        data = bank0[at : at + parameter.size_bytes].tobytes()
        declared = re.sub(r"\b(const|volatile|__restrict__|struct)\b", "", parameter.declared)
        words = declared.replace("*", " * ").split()
        stars, base = words.count("*"), " ".join(w for w in words if w != "*")
        name = parameter.name or f"arg{parameter.ordinal}"
        bits = int.from_bytes(data, "little")
        if parameter.kind == "pointer" and parameter.size_bytes == 8:
            known = base if base in SCALARS else "unsigned char"
            found[name] = Pointer(bits, known + "*" * max(0, stars - 1), "generic")
        elif base in SCALARS and np.dtype(SCALARS[base]).itemsize == len(data):
            found[name] = np.frombuffer(data, SCALARS[base])[0].item()
        else:
            found[name] = bits
    return found
