"""Flips in an SM: in a register of a lane, or in a word of a block's shared memory, while the interpreter runs the block.

With ECC the true value stays and the flips are kept beside it, until an instruction reads the word (a decoder then looks at it) or writes it.  A register is
read where an active lane's instruction names it as a source; a shuffle reads the lanes that it takes values from, so that it counts as a read of
every lane.  Without ECC the value changes, and the block goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.faults import source_line
from warpwright.engine.interpreter import BlockState, Kernel, WarpState
from warpwright.engine.interpreter.gather_scatter import SharedSpace
from warpwright.errors import ExecutionError
from warpwright.faults.device_faults import DeviceFaults
from warpwright.faults.injection import WORD_BITS, Injection, InjectionError
from warpwright.faults.secded import Verdict, code_of
from warpwright.isa.ops import Access, Lowered
from warpwright.isa.program import Program
from warpwright.toolchain.demangle import plain_name

Array = npt.NDArray[Any]
WORD_BYTES = WORD_BITS["shared"] // 8
_READS_OTHERS = frozenset(("shuffle", "mma", "wgmma", "first_lane", "ballot", "match_any", "redux"))
_WIDTHS = {"get_reg": 1, "get_reg64": 2, "set_reg": 1, "set_reg64": 2}


class HungError(ExecutionError):
    """A launch with a fault takes many times what it takes without."""


def registers_of(lowered: Lowered) -> tuple[frozenset[int], frozenset[int], bool]:
    """Registers that an instruction reads and writes, and whether it reads those of other lanes."""
    found: dict[str, set[int]] = {"get": set(), "set": set()}
    for op in lowered.ops:
        if op.name in _WIDTHS:
            found[op.name[:3]].update(range(op.attr, op.attr + _WIDTHS[op.name]))
    return frozenset(found["get"]), frozenset(found["set"]), any(op.name in _READS_OTHERS for op in lowered.ops)


def place_in(program: Program, block: BlockState, warp: WarpState, index: int, lane: int | None = None) -> str:
    """Kernel, block, warp and source line, for messages."""
    lanes = f", lane {lane}" if lane is not None else ""
    line = source_line(program, warp.launch.kernel.addresses[index])
    at = f" at {line}" if line else ""
    return f"kernel {plain_name(program.name)}, block {block.index}, warp {warp.warp_in_block}{lanes}{at}"


def _uses(kernel: Kernel, register: int) -> bool:
    """Whether an instruction of a kernel names a register."""
    return any(register in names for one in kernel.lowered for names in registers_of(one)[:2])


class Strike:
    """One injection into a block that is interpreted; :meth:`before` is called before each instruction of it."""

    def __init__(self, injection: Injection, faults: DeviceFaults, kernel: Kernel, limit: int | None) -> None:
        self.injection, self.faults, self.kernel, self.limit = injection, faults, kernel, limit
        self.struck = False
        self.pattern = 0
        """Flipped bits that nobody has seen yet; with ECC alone."""
        self.is_alone = True
        """No other injection watches the same block."""

    def attach(self, block: BlockState) -> None:
        """Get ready to watch a block."""

    def before(self, warp: WarpState, index: int, lanes: Array) -> None:
        """Strike when the moment has come, and watch the flipped word."""
        launch = warp.launch
        if self.limit is not None and launch.clock > self.limit:
            raise HungError(
                f"kernel {plain_name(self.kernel.program.name)} has executed {launch.clock:,} instructions of a block that ends after "
                "far fewer without the fault"
            )
        if not self.struck and self.due(warp):
            self.strike(warp)
            self.struck = True
        if self.pattern:
            self.watch(warp, index, lanes)
        elif self.struck and self.limit is None and self.is_alone:
            # Nothing is left to watch.
            launch.before = None

    def due(self, warp: WarpState) -> bool:
        raise NotImplementedError

    def strike(self, warp: WarpState) -> None:
        raise NotImplementedError

    def watch(self, warp: WarpState, index: int, lanes: Array) -> None:
        """Look whether an instruction reads or writes the flipped word."""

    def decode(self, data: int, consumer: str) -> int:
        """What a reader of the flipped word gets.

        Raises:
            UncorrectableEccError: it gets nothing.
        """
        code = code_of(WORD_BITS[self.injection.structure])
        verdict, decoded = code.decode(code.encode(data) ^ self.pattern)
        self.pattern = 0
        self.faults.sm_error(self.injection.structure, verdict, consumer)
        assert verdict is not Verdict.CLEAN or decoded == data
        return decoded

    def overwrite(self) -> None:
        """A write of the whole word."""
        self.pattern = 0
        self.faults.log.overwritten += 1


class RegisterStrike(Strike):
    """Flips in a register of one lane."""

    def __init__(self, injection: Injection, faults: DeviceFaults, kernel: Kernel, limit: int | None) -> None:
        super().__init__(injection, faults, kernel, limit)
        if injection.address >= kernel.registers:
            raise InjectionError(f"registers@R{injection.address}: a thread has R0 to R{kernel.registers - 1}")
        used = kernel.program.registers
        if 0 < used <= injection.address and not _uses(kernel, injection.address):
            faults.miss(injection, f"{plain_name(kernel.program.name)} has registers R0 to R{used - 1}")
        self._named: dict[int, tuple[frozenset[int], frozenset[int], bool]] = {}

    def due(self, warp: WarpState) -> bool:
        return warp.warp_in_block == self.injection.warp and warp.instructions >= self.injection.instruction

    def strike(self, warp: WarpState) -> None:
        number, lane = self.injection.address, self.injection.lane
        if lane >= warp.lanes:
            raise InjectionError(f"lane {lane}: a warp has lanes 0 to {warp.lanes - 1}")
        if self.faults.ecc:
            self.pattern = self.injection.pattern
        else:
            warp.regs[number, lane] ^= np.uint32(self.injection.pattern & 0xFFFF_FFFF)

    def watch(self, warp: WarpState, index: int, lanes: Array) -> None:
        if warp.warp_in_block != self.injection.warp:
            return
        if index not in self._named:
            self._named[index] = registers_of(self.kernel.lowered[index])
        number, lane = self.injection.address, self.injection.lane
        reads, writes, of_others = self._named[index]
        active = bool(self._executing(warp, index, lanes)[lane])
        if number in reads and (active or of_others):
            consumer = place_in(self.kernel.program, warp.block, warp, index, lane)
            warp.regs[number, lane] = np.uint32(self.decode(int(warp.regs[number, lane]), consumer))
        elif number in writes and active:
            self.overwrite()

    def _executing(self, warp: WarpState, index: int, lanes: Array) -> Array:
        guard = self.kernel.lowered[index].guard
        if guard is None:
            return lanes
        file, number, inverted = guard
        holds = (warp.preds if file == "pred" else warp.upreds)[number]
        return lanes & ~holds if inverted else lanes & holds


class _WatchedShared(SharedSpace):
    """Shared memory with a flipped word."""

    def __init__(self, size_bytes: int, strike: SharedStrike) -> None:
        super().__init__(size_bytes)
        self._strike = strike

    def load(self, at: Array, size: int, m: Array) -> Array:
        self._strike.seen(self, at, size, m, reads=True)
        return super().load(at, size, m)

    def store(self, at: Array, value: Array, size: int, m: Array) -> None:
        self._strike.seen(self, at, size, m, reads=False)
        super().store(at, value, size, m)

    def atomic(self, at: Array, operand: Array, compare: Array | None, how: Access, m: Array) -> Array:
        self._strike.seen(self, at, how.bytes, m, reads=True)
        return super().atomic(at, operand, compare, how, m)


class SharedStrike(Strike):
    """Flips in a word of the block's shared memory."""

    _block: BlockState
    _at: tuple[WarpState, int] | None = None
    """The instruction that runs."""

    def attach(self, block: BlockState) -> None:
        self._block = block
        if self.injection.address // WORD_BYTES * WORD_BYTES + WORD_BYTES > block.shared.size_bytes:
            raise InjectionError(
                f"shared@{self.injection.address:#x}: the block has {block.shared.size_bytes:,} bytes of shared memory"
            )
        block.shared = _WatchedShared(block.shared.size_bytes, self)

    @property
    def word(self) -> int:
        """Byte offset of the flipped word."""
        return self.injection.address // WORD_BYTES * WORD_BYTES

    def due(self, warp: WarpState) -> bool:
        return warp.launch.clock >= self.injection.instruction

    def strike(self, warp: WarpState) -> None:
        if self.faults.ecc:
            self.pattern = self.injection.pattern
        else:
            self._block.shared.views[4][self.word // 4] ^= np.uint32(self.injection.pattern & 0xFFFF_FFFF)

    def watch(self, warp: WarpState, index: int, lanes: Array) -> None:
        self._at = warp, index

    def seen(self, space: SharedSpace, at: Array, size: int, m: Array, *, reads: bool) -> None:
        """An access: does it touch the word?"""
        if not self.pattern or self._at is None:
            return
        first = at[m].astype(np.int64)
        begins = np.maximum(first, self.word)
        ends = np.minimum(first + size, self.word + WORD_BYTES)
        touching = begins < ends
        if not touching.any():
            return
        written = {int(b) for low, high in zip(begins[touching], ends[touching], strict=True) for b in range(low, high)}
        if not reads and len(written) == WORD_BYTES:
            self.overwrite()
            return
        warp, index = self._at
        consumer = place_in(self.kernel.program, self._block, warp, index)
        words = space.views[4]
        words[self.word // 4] = np.uint32(self.decode(int(words[self.word // 4]), consumer))


def strike_of(injections: Sequence[Injection], faults: DeviceFaults, kernel: Kernel, limit: int | None) -> list[Strike]:
    """What each injection into an SM does."""
    kinds = {"registers": RegisterStrike, "shared": SharedStrike}
    return [kinds[one.structure](one, faults, kernel, limit) for one in injections]
