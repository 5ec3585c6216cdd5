"""Skips a launch that would leave the device as it is.

What a launch does, and how long it takes, follows from its code, its geometry, its constant banks, the memory that it finds and what the caches hold.  So
if an earlier launch began in the same state and left all memory as it was, this one would do the same: it is not executed, and has the time and the counts
of the earlier one.  A benchmark that launches one kernel a hundred times on the same data comes to that with its third launch or, where caches are kept between
launches, its fourth.

A launch that has read nothing of what it changed would do the same once more in the memory that it left, so the next one is skipped.  The cycle model notes what weak loads
read (``read_pieces.py``); a launch that has executed strong loads, atomics or bulk copies, or that was sampled, counts as having read everything if its kernel reads memory at all.  Clock
values that it stores may differ slightly from launch to launch, because the contents of the caches do; a skipped launch leaves those of the last one.

Memory is looked at before and after a launch if that takes a small part of the launch's time.  How long a launch takes is known from the last one of its kind; with cold
caches, where a second launch may be skipped, it is estimated for the first.  A launch on several devices is one launch here, and its memory that of all of them.  Kernels that call services, sample textures or can reach memory of the host or of another device have state elsewhere and are always executed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.execute import Counts
from warpwright.engine.launch import LaunchContext
from warpwright.timing.interface import TimingResult
from warpwright.timing.memory_image import MemoryImage
from warpwright.timing.read_pieces import PIECE_BYTES, Reads

LEAST_SECONDS = 0.001
"""Host time of a launch that is worth a look at memory."""
BYTES_PER_SECOND = 250e6
"""Memory that is looked at for each second that the launch takes: at most a quarter of its time, where all of it has to be digested."""
INSTRUCTIONS_PER_SECOND = 20e6
"""Of a kernel's code, executed once by each warp: more than the cycle model does, so that estimates are low."""
KEPT = 256
"""Kinds of launches that are known, the latest ones."""


@dataclass(slots=True)
class Known:
    """What is known of the launches that begin in the same way."""

    named: tuple[Any, ...]
    """Objects that the key names by identity, kept alive."""
    results: tuple[tuple[TimingResult, Counts], ...]
    """Of each device."""
    memory: bytes | None = None
    """Digest of the memory in which a launch would do the same and change nothing; None: not known."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was found before a launch."""

    key: Hashable
    kind: Hashable
    memory: bytes | None
    """Digest of memory before the launch; None: not taken."""
    known: Known | None
    """The launch that did what this one would do."""


class UnchangedLaunches:
    """The launches of one GPU, and those of several that it is the first of, by how they began."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Known] = OrderedDict()
        self._seconds: OrderedDict[Hashable, float] = OrderedDict()
        """Host time of the last launch of each kind."""
        self._images: WeakKeyDictionary[DeviceMemory, MemoryImage] = WeakKeyDictionary()

    def look(self, kind: Hashable, found: Hashable, contexts: Sequence[LaunchContext], estimate: float = 0.0) -> Look:
        """Look at the memory that a launch finds, if it takes long enough, and compare it.

        Args:
            kind: its code, geometry, constant banks and chip.
            found: what came before it where caches are kept.
            contexts: of each device.
            estimate: host time in seconds that the first launch of a kind takes at least.
        """
        # A launch also sees where memory is allocated.
        key = kind, found, tuple(context.memory.table().tobytes() for context in contexts)
        if not _is_small(contexts, self._seconds.get(kind, estimate)):
            return Look(key, kind, None, None)
        memory = self._digest(contexts)
        known = self._known.get(key)
        if known is not None:
            self._known.move_to_end(key)
        return Look(key, kind, memory, known if known is not None and memory == known.memory else None)

    def keep(
        self,
        look: Look,
        contexts: Sequence[LaunchContext],
        results: Sequence[tuple[TimingResult, Counts]],
        *named: Any,
        reads: Reads | None = None,
    ) -> None:
        """Record a launch that was executed after ``look``; ``reads``: what it has read of memory, if that is known."""
        seconds = sum(timing.wall_seconds for timing, _ in results)
        if seconds < LEAST_SECONDS:
            return
        self._seconds[look.kind] = seconds
        if len(self._seconds) > KEPT:
            self._seconds.popitem(last=False)
        same = None
        if look.memory is not None:
            alone = reads is not None and not any(self._has_read_changes(context, reads) for context in contexts)
            left = self._digest(contexts)
            same = left if alone or left == look.memory else None
        self._known[look.key] = Known(named, tuple(results), same)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)

    def _image(self, context: LaunchContext) -> MemoryImage:
        return self._images.setdefault(context.memory, MemoryImage())

    def _digest(self, contexts: Sequence[LaunchContext]) -> bytes:
        return b"".join(self._image(context).digest(context) for context in contexts)

    def _has_read_changes(self, context: LaunchContext, reads: Reads) -> bool:
        """Whether a launch may have read what it has changed since the last look at memory."""
        changes = self._image(context).changes(context, PIECE_BYTES)
        return any(reads.includes_any(address, pieces) for address, pieces in changes)


def may_be_unchanged(context: LaunchContext) -> bool:
    """Whether all that a launch reads and writes is in the device's own memory."""
    memory = context.memory
    return (
        not context.program.services
        and context.services is None
        and context.textures is None
        and not memory.has_mapped
        and len(memory.elsewhere()) == 0
    )


def least_seconds(context: LaunchContext) -> float:
    """Host time that a launch takes at least if its warps execute most of their code."""
    geometry = context.geometry
    warps = geometry.blocks * geometry.warps_per_block
    return warps * len(context.program.instructions) / INSTRUCTIONS_PER_SECOND


def _is_small(contexts: Sequence[LaunchContext], seconds: float) -> bool:
    return sum(context.memory.used_bytes for context in contexts) <= BYTES_PER_SECOND * seconds
