"""The memory in which one host thread runs blocks of a launch: resident blocks, warps, save areas."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import BLOCK, NAMED_BARRIERS, SPILL_HEADER_BYTES, STATE_AT, WARP, Status
from warpwright.engine.jit.codegen import CompiledKernel
from warpwright.engine.jit.resident_blocks import WORKSPACE
from warpwright.engine.jit.scheduler import CANCELLED
from warpwright.engine.lane_positions import Group, SavedPositions, StandingBlock

Words = npt.NDArray[np.int64]
KEPT_BYTES = 1 << 18
"""A larger workspace is released with its launch, because clearing it would take longer than mapping a new one."""
KEPT = 4
"""Maximum number of workspaces that a kernel keeps."""
_OF_A_RUN = np.array(
    [
        WORKSPACE.slot(name)
        for name in ("outcome_block", "outcome_warp", "blocks_done", "instructions", "thread_instructions", "seen")
    ]
)
"""Fields that each run begins with zeros."""
_WARP_FUNCTION = WORKSPACE.slot("warp_function")
_COUNTER, _BLOCKS_DONE = WORKSPACE.slot("counter"), WORKSPACE.slot("blocks_done")
_TOGETHER = WORKSPACE.slot("together")
_INSTRUCTIONS, _THREAD_INSTRUCTIONS = WORKSPACE.slot("instructions"), WORKSPACE.slot("thread_instructions")
_RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def _round(size: int, to: int = 64) -> int:
    return (size + to - 1) // to * to


def _view(address: int, size_bytes: int) -> Words:
    """The memory at a host address as int64 words."""
    return np.ctypeslib.as_array((ctypes.c_int64 * (size_bytes // 8)).from_address(address))


@dataclass(slots=True)
class WarpState:
    """The state of a warp when its block stopped."""

    warp_in_block: int
    state: str
    """running | barrier | exited | stuck | cluster."""
    words: Words = field(repr=False)
    groups: list[Group] = field(default_factory=list)
    """Where its lanes are, when no warp will ever end."""

    def __getitem__(self, name: str) -> int:
        """A field of WARP as an unsigned number."""
        return int(self.words[WARP.slot(name)]) & 0xFFFFFFFFFFFFFFFF

    def locate(self, saved: SavedPositions, save: npt.NDArray[Any]) -> None:
        """Tell where the lanes are; ``save`` is the warp's save area."""
        if self.state == "exited":
            return
        if self["cancelled_at"]:
            self.groups = [Group("runs", self["cancelled_at"] - 1, self["fault_lanes"])]
        elif self.state in ("barrier", "cluster"):
            self.groups = [Group(self.state, self["fault_instruction"], self["barrier_lanes"])]
        else:
            self.groups = saved.groups(save, self["resume"], self["lanes"], self["exited"])


@dataclass(slots=True)
class Outcome:
    """How a run of blocks ended."""

    status: Status
    """EXIT when all blocks ended; FAULT, TRAP or DEADLOCK with the block and warp that stopped it."""
    cancelled: bool = False
    block_index: tuple[int, int, int] = (0, 0, 0)
    warps: list[WarpState] = field(default_factory=list)
    """Every warp of the block that stopped; empty when nothing stopped."""
    arrived: list[int] = field(default_factory=list)
    """Threads that have arrived at each named barrier of that block."""
    stopped: WarpState | None = None
    """The warp at fault."""
    resident_blocks: int = 0
    """Blocks that had begun and not ended, the one described included."""
    standing: list[StandingBlock] = field(default_factory=list)
    """For a standstill: all of them."""
    waiting: int = 0
    """Blocks, or clusters, that had not begun."""
    blocks_done: int = 0
    warp_instructions: int = 0
    thread_instructions: int = 0

    def positions(self) -> list[tuple[int, list[Group]]]:
        """The warps' numbers, and where their lanes are."""
        return [(warp.warp_in_block, warp.groups) for warp in self.warps]


class Workspace:
    """Runs blocks of launches of one compiled kernel; one workspace for each host thread.

    Args:
        shared_bytes: static and dynamic shared memory of a block.
        local_bytes_per_thread: as in LAUNCH.
        resident_blocks: blocks that may be resident at once when they only wait for each other.
    """

    def __init__(
        self, kernel: CompiledKernel, shared_bytes: int, local_bytes_per_thread: int, resident_blocks: int = 1
    ) -> None:
        if kernel.trace:
            raise ValueError(f"kernel {kernel.name}: code with trace records is run by the timing model, not by blocks")
        x, y, z = kernel.block_shape
        threads = x * y * z
        warps = -(-threads // kernel.lanes)
        local = _round(local_bytes_per_thread * kernel.lanes)
        warps_at = _round(BLOCK.size_bytes)
        save_at = warps_at + _round(WARP.size_bytes) * warps
        save_bytes = _round(kernel.spill_bytes)
        shared_at = save_at + save_bytes * warps
        local_at = shared_at + _round(shared_bytes + 64)
        slot_bytes = _round(local_at + local * warps, 4096)
        slots = max(1, resident_blocks)
        header = _round(WORKSPACE.size_bytes) + _round(kernel.site_bytes + 64) + _round(8 * slots)
        base_at = _round(header, 4096)
        # Reserved, not filled: a slot costs memory when its first block becomes resident.
        # Private: a forked process that continues with it has its own copy.
        self._memory = mmap.mmap(-1, base_at + slot_bytes * slots, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._bytes = np.frombuffer(self._memory, dtype=np.uint8)
        self.address = int(self._bytes.ctypes.data)
        self.kernel = kernel
        self.warps = warps
        sites_at = _round(WORKSPACE.size_bytes)
        order_at = sites_at + _round(kernel.site_bytes + 64)
        self._sites = self._bytes[sites_at:order_at]
        self._order = self._bytes[order_at : order_at + 8 * slots].view(np.int64)
        self._words: Words = self._bytes[: WORKSPACE.size_bytes].view(np.int64)
        self._lasting = np.array(kernel.saved_positions.lasting(SPILL_HEADER_BYTES, save_bytes), np.int64)
        values = {
            "warp_function": kernel.warp_function,
            "warp_count": warps,
            "block_threads": threads,
            "shared_bytes": shared_bytes,
            "local_bytes": local,
            "slots": slots,
            "slot_bytes": slot_bytes,
            "slot_base": self.address + base_at,
            "warps_at": warps_at,
            "warp_bytes": _round(WARP.size_bytes),
            "save_at": save_at,
            "save_bytes": save_bytes,
            "shared_at": shared_at,
            "local_at": local_at,
            "sites": self.address + sites_at,
            "order": self.address + order_at,
            "judged": kernel.judged,
            "lasting": self._lasting.ctypes.data,
            "lasting_count": len(self._lasting),
        }
        for name, value in values.items():
            self._words[WORKSPACE.slot(name)] = value
        self._made = self._words.copy()
        self._slots_in_order = np.arange(slots)
        self._sizes = shared_bytes, local_bytes_per_thread, resident_blocks
        self._run = _RUN(kernel.run_blocks)

    @classmethod
    def take(
        cls, kernel: CompiledKernel, shared_bytes: int, local_bytes_per_thread: int, resident_blocks: int
    ) -> Workspace:
        """One that an earlier launch gave back, as good as new, or a new one."""
        sizes = shared_bytes, local_bytes_per_thread, resident_blocks
        for space in tuple(kernel.idle):
            if space._sizes != sizes:
                continue
            try:
                kernel.idle.remove(space)
            except ValueError:
                continue  # another thread was faster
            ctypes.memset(space.address, 0, len(space._bytes))
            space._words[:] = space._made
            return space
        return cls(kernel, *sizes)

    def give_back(self) -> None:
        """Let another launch have it; it is not to be used any more."""
        if len(self._bytes) <= KEPT_BYTES:
            self.kernel.idle.append(self)
            del self.kernel.idle[:-KEPT]

    @property
    def blocks_done(self) -> int:
        """Blocks of the current or last run that have ended; may be read while it runs."""
        return int(self._words[WORKSPACE.slot("blocks_done")])

    def renew(self) -> None:
        """Let the run in progress go on in the kernel's present code: each warp at its next turn."""
        self._words[_WARP_FUNCTION] = self.kernel.warp_function

    def run(self, launch: int, first: int, count: int, counter: int = 0, together: int = 1) -> Outcome:
        """Run blocks ``first`` … ``first + count - 1`` of a launch; releases the GIL meanwhile.

        Args:
            launch: host pointer to LAUNCH.
            counter: host pointer to an int64 that several threads draw block numbers from (it holds the
                next one), or 0 to run the whole range here.
            together: number of blocks that become resident at the start, because all of them meet at a grid barrier.
        """
        words = self._words
        # Allocations may have changed since the last launch, so nothing cached about them holds.
        self._sites[:] = 0
        self._order[:] = self._slots_in_order
        words[_OF_A_RUN] = 0
        words[_WARP_FUNCTION] = self.kernel.warp_function
        words[_COUNTER] = counter
        words[_TOGETHER] = together
        status = int(self._run(launch, self.address, first, count))
        outcome = Outcome(
            Status.EXIT if status in (0, CANCELLED) else Status(status),
            status == CANCELLED,
            blocks_done=int(words[_BLOCKS_DONE]),
            warp_instructions=int(words[_INSTRUCTIONS]),
            thread_instructions=int(words[_THREAD_INSTRUCTIONS]),
            waiting=max(0, first + count - int(_view(int(words[_COUNTER]), 8)[0])),
        )
        if outcome.status is not Status.EXIT or (outcome.cancelled and self._find_cancelled()):
            self._describe(outcome)
        return outcome

    def _resident(self) -> list[int]:
        """Host addresses of the resident blocks."""
        base, stride = (int(self._words[WORKSPACE.slot(name)]) for name in ("slot_base", "slot_bytes"))
        return [base + int(slot) * stride for slot in self._order[: int(self._words[WORKSPACE.slot("resident")])]]

    def _find_cancelled(self) -> bool:
        """Make the block that the host's stop found running the outcome's; False when no block was resident."""
        words = self._words
        warps_at, warp_stride = int(words[WORKSPACE.slot("warps_at")]), int(words[WORKSPACE.slot("warp_bytes")])
        blocks = self._resident()
        for block in blocks:
            for n in range(self.warps):
                if _view(block + warps_at + n * warp_stride, WARP.size_bytes)[WARP.slot("cancelled_at")]:
                    words[WORKSPACE.slot("outcome_block")] = block
                    return True
        words[WORKSPACE.slot("outcome_block")] = blocks[0] if blocks else 0
        return bool(blocks)

    def _describe(self, outcome: Outcome) -> None:
        block = int(self._words[WORKSPACE.slot("outcome_block")])
        located = outcome.status is Status.STANDSTILL or outcome.cancelled
        outcome.block_index, outcome.warps = self._block(block, located)
        resident = self._resident()
        outcome.resident_blocks = len(resident)
        if outcome.status is Status.STANDSTILL:
            for one in resident:
                index, warps = self._block(one, located)
                outcome.standing.append(StandingBlock(index, [(warp.warp_in_block, warp.groups) for warp in warps]))
        words = _view(block, BLOCK.size_bytes)
        first = BLOCK.slot("barriers")
        outcome.arrived = [int(n) for n in words[first : first + NAMED_BARRIERS]]
        at = int(words[BLOCK.slot("warps")])
        stride, stopped_at = (int(self._words[WORKSPACE.slot(name)]) for name in ("warp_bytes", "outcome_warp"))
        if (stopped_at - at) % stride == 0 and 0 <= (stopped_at - at) // stride < self.warps:
            outcome.stopped = outcome.warps[(stopped_at - at) // stride]

    def _block(self, address: int, located: bool) -> tuple[tuple[int, int, int], list[WarpState]]:
        """Index and warps of the resident block at a host address; ``located``: with the positions of their lanes."""
        block = _view(address, BLOCK.size_bytes)
        x, y, z = (int(block[BLOCK.slot(name)]) for name in ("index_x", "index_y", "index_z"))
        at, stride = int(block[BLOCK.slot("warps")]), int(self._words[WORKSPACE.slot("warp_bytes")])
        found = []
        for n in range(self.warps):
            words = _view(at + n * stride, WARP.size_bytes).copy()
            save = _view(int(words[WARP.slot("spill")]), 64)
            state = ("running", "barrier", "exited", "stuck", "cluster")[int(save[STATE_AT // 8])]
            found.append(WarpState(n, state, words))
            if located:
                found[-1].locate(self.kernel.saved_positions, _view(found[-1]["spill"], self.kernel.spill_bytes))
        return (x, y, z), found
