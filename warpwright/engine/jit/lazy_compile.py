"""Compiles rarely used parts of a kernel when a warp first reaches them.

The compiler keeps code for unusual operands out of line, such as a division whose quotient may be denormal or a square
root of zero.  In a small kernel this is most of the code, and few launches execute it.  A kernel with such *slow paths*
is therefore first compiled without them.  A warp that reaches one saves its live state as at any stop, and enters the
*whole* function, which is compiled at that point, at the same place.  It stays there until its next stop; if the first
function knows that place, it continues there.

Both are written from the same analysis, and the whole function begins with the first one's resume points and its
layout of the save area (:class:`Layout`), so that either can continue where the other has stopped.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from warpwright.engine.abi import Status
from warpwright.engine.blocks import BasicBlock
from warpwright.engine.jit.flow_graph import Bits, Flow, members
from warpwright.engine.jit.function_writer import FunctionWriter
from warpwright.engine.jit.llvm_text import ResumePoint
from warpwright.isa.ops import Lowered
from warpwright.isa.program import Program

WARP_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)


def slow_path_blocks(program: Program, blocks: Sequence[BasicBlock], flow: Flow) -> Bits:
    """Blocks of slow paths, and those that only lead to them or only come from them.

    None if lanes could wait in them for a block barrier, or on the stack of chips before Volta.
    """
    rare: Bits = 0
    for block in blocks:
        address = program.instructions[block.first].address
        if any(start <= address < end for start, end in program.slow_paths):
            rare |= 1 << block.number
    if not rare or flow.stacked:
        return 0
    before: list[Bits] = [0] * len(blocks)
    for block in blocks:
        for successor in block.successors:
            before[successor] |= 1 << block.number
    grown = -1
    while grown != rare:
        grown = rare
        for block in blocks[1:]:
            after = sum(1 << s for s in set(block.successors))
            if (after and not after & ~rare) or (before[block.number] and not before[block.number] & ~rare):
                rare |= 1 << block.number
    waits = any(flow.ends[n] in ("barrier", "barrier_red") for n in range(len(blocks)) if rare >> n & 1)
    return 0 if waits or rare & 1 else rare


def without_joins(rare: Bits, flow: Flow, divergent: Bits) -> Bits:
    """Rare blocks without BSYNCs that are the direct target of a remaining branch.

    Both functions must split lanes in the same way.  With the BSYNC, its lanes wait there; without it, the other part
    would be pushed, and the whole function could not take that part from the stack.
    """
    while True:
        joins = 0
        for n in members(divergent & ~rare):
            joins |= sum(1 << s for s in set(flow.blocks[n].successors) if flow.joined_by.get(s, 0) >> n & 1)
        if not joins & rare:
            return rare
        rare &= ~joins


@dataclass(frozen=True, slots=True)
class Layout:
    """State that the first function passes to the whole one."""

    resumes: list[tuple[str, int]]
    """Kind and block of each resume point, in numerical order."""
    offsets: dict[str, int]
    """Offsets in the save area."""
    sites: int
    """Number of allocation caches used; the whole function's own caches follow them."""
    most_sites: int
    """Space for both functions' allocation caches."""
    most_bytes: int
    """Space for the variables of both functions."""

    @classmethod
    def of(cls, w: FunctionWriter, lowered: Sequence[Lowered]) -> Layout:
        """Layout of a function that has been written without its slow-path blocks."""
        accesses = sum(op.name in ("load", "store", "atomic") for low in lowered for op in low.ops)
        # A variable takes at most 256 bytes and begins at a cache line; each block may have a mask of pending lanes.
        further = [n for n in range(len(w.webs.webs)) if w.has_storage(n) and f"w{n}" not in w.offsets]
        variables = 320 * len(further) + 8 * len(w.blocks)
        return cls(
            [(r.kind, r.block) for r in w.resumes.values()],
            dict(w.offsets),
            w.sites,
            w.sites + 2 * accesses,
            w.offsets.get("end", 0) + variables,
        )

    def begin(self, w: FunctionWriter) -> None:
        """Start the whole function where the first one's layout ends."""
        w.offsets.update(self.offsets)
        w.sites = self.sites
        for number, (kind, block) in enumerate(self.resumes, 1):
            w.resumes[kind, -1 if kind in ("next", "scan", "barrier") else block] = ResumePoint(number, kind, block)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Layout:
        return cls(**{**found, "resumes": [(kind, block) for kind, block in found["resumes"]]})


class Whole:
    """The whole function of a kernel: the first one calls it through the pointer at ``place``, which compiles it first.

    Args:
        compile: compiles it and returns its address.
        place: address of the first function's pointer to it; the optimised first function has its own.
    """

    def __init__(self, compile: Callable[[], int], place: int) -> None:
        self._compile = compile
        self._pointers = [ctypes.c_uint64.from_address(place)]
        self._lock = threading.Lock()
        self._function: Callable[[int], int] | None = None
        self.failure: BaseException | None = None
        """Why it could not be compiled; a warp that needs it then stops with NOT_COMPILED."""
        self._enter = WARP_FUNCTION(self._run)
        self._pointers[0].value = ctypes.cast(self._enter, ctypes.c_void_p).value or 0

    @property
    def compiled(self) -> bool:
        """Whether it has been compiled because a warp needed it."""
        return self._function is not None

    def improve(self, place: int) -> None:
        """Let the optimised first function call it too, through its pointer at ``place``; if it has been compiled, compile it anew."""
        with self._lock:
            self._pointers.append(ctypes.c_uint64.from_address(place))
            self._pointers[-1].value = self._pointers[0].value
            if self._function is not None:
                self._make()

    def _make(self) -> None:
        address = self._compile()
        self._function = WARP_FUNCTION(address)
        for pointer in self._pointers:
            pointer.value = address

    def _run(self, warp: int) -> int:
        try:
            with self._lock:
                self.failure = None
                if self._function is None:
                    self._make()
                assert self._function is not None
        except BaseException as failure:
            self.failure = failure
            return int(Status.NOT_COMPILED)
        return self._function(warp)
