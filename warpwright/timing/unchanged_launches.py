"""Skips a launch that would leave the device as it is.

What a launch does, and how long it takes, follows from its code, its geometry, its constant banks, the memory that it finds and what the caches hold.  So
if an earlier launch began in the same state and left all memory as it was, this one would do the same: it is not executed, and has the time and the counts
of the earlier one.  A benchmark that launches one kernel a hundred times on the same data comes to that with its third launch or, where caches are kept between
launches, its fourth.

A launch that reads no memory does what the last one of its kind did, whatever memory that one found.  Clock values that it stores may differ slightly from launch
to launch, because the contents of the caches do; a skipped launch leaves those of the last one.

The first launch of a kind only shows how long it takes, so that single launches pay nothing; memory is digested before and after later ones, whatever caches they
find, if that takes a small part of the time.  A launch on several devices is one launch here, and its memory that of all of them.  Kernels that call services, sample textures or can reach memory of the host or of another device have state elsewhere and are always executed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from warpwright.engine.cycle_detection import memory_digest
from warpwright.engine.execute import Counts
from warpwright.engine.launch import LaunchContext
from warpwright.timing.interface import TimingResult

LEAST_SECONDS = 0.001
"""Host time of a launch that is worth a digest of memory."""
BYTES_PER_SECOND = 250e6
"""Memory that is digested for each second that the launch takes: at most a quarter of its time."""
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
    """Digest of the memory that a launch has found and left, or, if it reads none, has left; None: none has left it as it was."""


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

    def look(self, kind: Hashable, found: Hashable, contexts: Sequence[LaunchContext]) -> Look:
        """Digest the memory that a launch finds, if a launch of its kind is known, and compare it.

        Args:
            kind: its code, geometry, constant banks and chip.
            found: what came before it where caches are kept.
            contexts: of each device.
        """
        # A launch also sees where memory is allocated.
        key = kind, found, tuple(context.memory.table().tobytes() for context in contexts)
        seconds = self._seconds.get(kind)
        if seconds is None or not _is_small(contexts, seconds):
            return Look(key, kind, None, None)
        memory = _digest(contexts)
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
        reads_memory: bool = True,
    ) -> None:
        """Record a launch that was executed after ``look``; ``reads_memory``: what it does may depend on the memory that it found."""
        seconds = sum(timing.wall_seconds for timing, _ in results)
        if seconds < LEAST_SECONDS:
            return
        self._seconds[look.kind] = seconds
        if len(self._seconds) > KEPT:
            self._seconds.popitem(last=False)
        left = _digest(contexts) if look.memory is not None else None
        same = left if left == look.memory or not reads_memory else None
        self._known[look.key] = Known(named, tuple(results), same)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)


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


def _digest(contexts: Sequence[LaunchContext]) -> bytes:
    return b"".join(memory_digest(context.memory, (), without=context.passing) for context in contexts)


def _is_small(contexts: Sequence[LaunchContext], seconds: float) -> bool:
    return sum(one.size_bytes for context in contexts for one in context.memory) <= BYTES_PER_SECOND * seconds
