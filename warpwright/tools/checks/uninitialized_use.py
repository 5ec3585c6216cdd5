"""Decides by experiment whether a launch's result depends on unwritten shared memory.

Blocks find in shared memory what earlier blocks left there. Many read more of it than their warps wrote and discard it, such as a scan of 32 words of which
three were written; that is not a defect. If a watched launch read such words, it runs again from the same state with other contents in them, and the outcomes
are compared: global memory, printed output, the heap, and whether the launch ends at all.

Memory is saved before each launch that may read shared memory; after the first launch of a kind (``known_launches.py``), only what such launches touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.constant_bank0 import SYSTEM_SHARED_BYTES, uses_system_shared
from warpwright.engine.execute import Counts
from warpwright.engine.kernels import Traced
from warpwright.engine.launch import LaunchContext
from warpwright.engine.services import ServicesState
from warpwright.engine.tiers import REVERSIBLE
from warpwright.errors import ExecutionError
from warpwright.quantity_text import byte_count_text
from warpwright.tools.checks.checked_execution import CheckedExecution, TooLong
from warpwright.tools.checks.watch import Watch

if TYPE_CHECKING:
    from warpwright.tools.checks.checked_launch import CheckedLaunch

MOST_BYTES = 1 << 30
"""Most bytes of global memory that are saved before a launch; copying them takes about a second."""
SMALL_BYTES = 1 << 20
"""Allocations up to this size are saved even if earlier launches did not touch them, because another launch may."""
LONGER = 4
"""A trial that takes this many times the launch's instructions is stopped: its length depends on the contents."""
LEAST_LIMIT = 100_000
"""Warp-instructions that every trial may take."""
SEED = 1
"""Seed of the second contents."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the trials."""

    depends: bool | None
    """None if there was no trial."""
    sentence: str

    @property
    def severity(self) -> str:
        """Severity of a read of unwritten shared memory."""
        return "warning" if self.depends is None else "error" if self.depends else "info"


def own_shared(context: LaunchContext) -> slice:
    """The part of a block's shared memory without the system's reserved bytes (``engine/constant_bank0.py``)."""
    program, geometry = context.program, context.geometry
    begin = geometry.reserved_shared_bytes
    if program.arch >= 90 and not begin and uses_system_shared(program):
        begin = SYSTEM_SHARED_BYTES
    own = program.shared_static_bytes - geometry.reserved_shared_bytes + geometry.dynamic_shared_bytes
    return slice(begin, begin + own)


def reads_shared(kernel: Traced) -> bool:
    """Whether a kernel may read shared memory."""
    return any(
        access.space in ("shared", "generic") and access.kind != "store"
        for block in kernel.blocks
        for access in block.accesses
    )


class Before:
    """The state before a launch, from which it can run again.

    Args:
        known: (address, bytes) of the allocations that launches of its kind touch, if known.
    """

    def __init__(self, launch: CheckedLaunch, kernel: Traced, known: Sequence[tuple[int, int]] | None) -> None:
        self._launch, self._kernel = launch, kernel
        self._context = context = launch.context
        self._own = own_shared(context)
        self._memory = memory = context.memory
        live = [
            a
            for a in memory
            if not a.mapped and (known is None or a.size_bytes <= SMALL_BYTES or (a.address, a.size_bytes) in known)
        ]
        self._bytes = sum(a.size_bytes for a in live)
        self._kept = {a.address: memory.snapshot(a) for a in live} if self._bytes <= MOST_BYTES else {}
        self._services = context.services
        self._said = context.services.state() if context.services is not None else None

    def verdict(self, touched: Sequence[Allocation], counts: Counts) -> Verdict:
        """Run a launch that has ended again, with other contents in unwritten shared memory."""
        reason = self._hindrance(touched)
        if reason:
            return Verdict(None, f"whether the results depend on it was not tested: {reason}")
        after = [self._memory.snapshot(a) for a in touched]
        end = self._services.state() if self._services is not None else None
        limit = max(LEAST_LIMIT, LONGER * counts.warp_instructions)
        try:
            for fill in self._contents():
                difference = self._trial(fill, touched, after, end, limit)
                if difference:
                    return Verdict(True, f"the result of the launch depends on its contents: {difference}")
        finally:
            for allocation, contents in zip(touched, after, strict=True):
                self._memory.restore(allocation, contents)
            if end is not None:
                self._services.become(end)
        return Verdict(
            False, "the results of the launch do not depend on its contents: they are the same with two other contents"
        )

    def _hindrance(self, touched: Sequence[Allocation]) -> str:
        """Why the launch cannot be run again; empty if it can."""
        program = self._context.program
        if not REVERSIBLE.issuperset(program.services):
            return "the kernel launches kernels"
        if any(i.opcode.startswith("SU") for i in program.instructions):
            return "the kernel may write surfaces"
        if self._bytes > MOST_BYTES:
            return f"{byte_count_text(self._bytes)} of memory would have to be kept"
        if any(a.mapped for a in touched):
            return "the launch reaches memory of the host or of another device"
        if any(a.address not in self._kept for a in touched):
            return "the launch touches other memory than the one before"
        return ""

    def _contents(self) -> Sequence[npt.NDArray[np.uint8]]:
        """The contents of shared memory instead of zeros: all ones (NaN, -1), and random bytes."""
        size = self._own.stop
        ones, mixed = np.full(size, 255, np.uint8), np.random.default_rng(SEED).integers(0, 256, size, np.uint8)
        for one in (ones, mixed):
            one[: self._own.start] = 0
        return ones, mixed

    def _trial(
        self,
        fill: npt.NDArray[np.uint8],
        touched: Sequence[Allocation],
        after: Sequence[npt.NDArray[np.uint8]],
        end: ServicesState | None,
        limit: int,
    ) -> str:
        """Run it once; returns how its results differ, or an empty string."""
        for allocation in touched:
            self._memory.restore(allocation, self._kept[allocation.address])
        if self._services is not None:
            self._services.become(self._said)
        watch = Watch(self._launch, self._kernel, set())
        resident = self._launch.resident_blocks
        try:
            CheckedExecution(self._context, self._kernel, resident, watch, fill=fill, limit=limit).run()
        except TooLong:
            return f"with other contents it takes more than {LONGER} times its instructions"
        except ExecutionError as error:
            return f"with other contents it fails: {str(error).splitlines()[0]}"
        if self._services is not None and self._services.state() != end:
            return "with other contents it prints something else, or leaves another heap"
        return _first_difference(self._memory_now(touched), after, touched)

    def _memory_now(self, touched: Sequence[Allocation]) -> list[npt.NDArray[np.uint8]]:
        return [self._memory.view(a.address, a.size_bytes, read_only=True) for a in touched]


def _first_difference(
    now: Sequence[npt.NDArray[np.uint8]], after: Sequence[npt.NDArray[np.uint8]], touched: Sequence[Allocation]
) -> str:
    """How the contents of allocations differ; empty if they do not."""
    total, first = 0, ""
    for mine, other, allocation in zip(now, after, touched, strict=True):
        if np.array_equal(mine, other):
            continue
        differs = np.flatnonzero(mine != other)
        first = first or f"byte {int(differs[0]):,} of {allocation.name}"
        total += len(differs)
    return f"{total:,} bytes of memory differ, {first} first" if total else ""
