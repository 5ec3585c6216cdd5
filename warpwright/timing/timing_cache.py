"""Reuses the time of an earlier launch that must have taken the same time.

With cold caches, every launch begins with an empty chip. If a kernel's control flow and addresses do not depend on the contents of memory
(``engine/data_independence.py``), a launch of the same code, geometry and constant banks on the same chip makes the same accesses in the same order, so the
model would yield the same cycles. Such a launch is executed for its results only and gets the earlier launch's time.

With kept caches (``kept_caches.py``), the two preceding launches, and the copies and fills since the first of them, must be the same as well, so that L2 holds
the same lines. Kernels whose time or results depend on more are always timed: those that read clocks or the number of their SM, that use atomics, textures or
bulk copies, or that wait for a time or for memory, and those with MATCH, whose time depends on the number of different values.

Sampled timing is an estimate in any case. Launches on other arrays then count as the same if the arrays have the same alignment, and kernels may depend on
memory if two consecutively timed launches executed the same number of instructions, so the layers of a model are timed once or twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from warpwright.engine.blocks import CLOCKS, basic_blocks
from warpwright.engine.data_independence import is_oblivious
from warpwright.engine.kernels import lowered_of, watches_memory
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel, computed_once
from warpwright.isa.ops import Op
from warpwright.timing.interface import TimingResult
from warpwright.timing.kept_caches import KeptCaches
from warpwright.timing.shared_chip import TimedGrid

WORTH_SECONDS = 0.02
"""Host time of timing below which a launch is timed again, because compiling code without trace would take longer."""
KEPT = 256
"""Number of recent launches whose times are kept."""
CLOSE = 0.01
"""Largest relative difference of the instructions of two launches that count as alike."""
_INSTRUCTIONS = "smsp__inst_executed.sum"
_TIMED_ALWAYS = frozenset(("atomic", "texture", "bulk", "match_any", "nanosleep", "wgmma"))
_OF_PLACE_AND_TIME = CLOCKS | {"smid"}


@dataclass(frozen=True, slots=True)
class Known:
    """A launch that was timed."""

    sure: bool
    """Whether a later launch of the same key may have its time."""
    kept: tuple[Any, ...]
    """The objects that its key refers to by identity."""
    timing: TimingResult


class Key(NamedTuple):
    """What determines the time of a launch."""

    launch: Hashable
    found: Hashable
    sure: bool = True
    """True if the contents of memory do not matter; False if two launches only suggest it."""


class Repeats:
    """The launches of one GPU whose time is known."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Known] = OrderedDict()
        self._groups: OrderedDict[Hashable, tuple[tuple[Any, ...], tuple[TimedGrid | None, ...]]] = OrderedDict()

    def beginning(
        self,
        loaded: LoadedKernel,
        context: LaunchContext,
        *how: Any,
        kept: KeptCaches | None = None,
        alike: bool = False,
    ) -> Key:
        """What decides, with memory, what a launch does and how long it takes.

        Args:
            how: the chip, the policies and what else it is timed with.
            kept: the device's caches, which record the launch, because earlier launches also determine its time.
            alike: an estimate is enough: launches on other arrays count as the same.
        """
        launch = _launch(loaded, context, how, alike)
        found = None
        if kept is not None:
            found = kept.found
            kept.launched(launch)
        return Key(launch, found)

    def key(self, loaded: LoadedKernel, begins: Key, *, alike: bool = False) -> Key | None:
        """What determines the time of a launch; None if the contents of memory may.

        Args:
            begins: its beginning.
            alike: an estimate is enough.
        """
        if _may_repeat(loaded):
            return begins
        return begins._replace(sure=False) if alike and _may_be_alike(loaded) else None

    def group_key(
        self,
        launches: Sequence[tuple[LoadedKernel, LaunchContext]],
        order: Hashable,
        *how: Any,
        kept: KeptCaches | None = None,
    ) -> Hashable | None:
        """The same for launches that share the chip; ``order``: what is given of their order and beginnings."""
        group = tuple(_launch(loaded, context, how) for loaded, context in launches), order
        found = None
        if kept is not None:
            found = kept.found
            kept.launched(group)
        return (group, found) if all(_may_repeat(loaded) for loaded, _ in launches) else None

    def find_group(self, key: Hashable | None) -> list[TimedGrid | None] | None:
        """The times of an earlier group with the same key."""
        found = self._groups.get(key) if key is not None else None
        return list(found[1]) if found is not None else None

    def keep_group(self, key: Hashable, grids: Sequence[TimedGrid | None], *named: Any) -> None:
        """A group was timed; ``named`` are the kernels and what the key was made with."""
        self._groups[key] = named, tuple(grids)
        if len(self._groups) > KEPT:
            self._groups.popitem(last=False)

    def find(self, key: Hashable | None) -> TimingResult | None:
        """The time of an earlier launch with the same key."""
        found = self._known.get(key) if key is not None else None
        if found is None or not found.sure:
            return None
        self._known.move_to_end(key)
        return found.timing

    def confirm(self, key: Hashable | None, instructions: int) -> None:
        """Check the instructions of a launch that got an earlier one's time; if their number differs, the next launch is timed."""
        found = self._known.get(key)
        if found is not None and not _is_close(found.timing.metrics.get(_INSTRUCTIONS, 0), instructions):
            del self._known[key]

    def keep(self, key: Hashable | None, timing: TimingResult, *named: Any) -> None:
        """A launch was timed; ``named`` are the kernel and what the key was made with."""
        if key is None or timing.cpu_seconds < WORTH_SECONDS:
            return
        before = self._known.get(key)
        sure = (isinstance(key, Key) and key.sure) or (before is not None and _executes_as_much(before.timing, timing))
        self._known[key] = Known(sure, named, timing)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)


def _launch(loaded: LoadedKernel, context: LaunchContext, how: tuple[Any, ...], alike: bool = False) -> Hashable:
    """What a launch begins with."""
    memory = context.memory
    constants = context.constants_likeness() if alike else context.constants_digest()
    about = (constants, memory.elsewhere().tobytes(), memory.has_mapped, len(memory.compressible))
    return (id(loaded), context.geometry, *about, context.window, context.set_aside_bytes, *map(id, how))


@computed_once
def _may_repeat(loaded: LoadedKernel) -> bool:
    """Whether a kernel's time follows from what it is launched with."""
    lowered = lowered_of(loaded)
    return (
        not loaded.program.services
        and not watches_memory(loaded)
        and not any(_is_timed_always(op) for low in lowered for op in low.ops)
        and is_oblivious(loaded.program, basic_blocks(loaded.program, lowered), lowered, constants=True)
    )


def _may_be_alike(loaded: LoadedKernel) -> bool:
    """Whether equal numbers of instructions imply equal times: not if warps wait for each other through memory or read a clock."""
    return not watches_memory(loaded) and not any(
        (op.name in ("special", "special64") and op.attr in CLOCKS) or op.name == "nanosleep"
        for low in lowered_of(loaded)
        for op in low.ops
    )


def _executes_as_much(one: TimingResult, other: TimingResult) -> bool:
    return _is_close(one.metrics.get(_INSTRUCTIONS, 0), other.metrics.get(_INSTRUCTIONS, 0))


def _is_close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * max(one, other)


def _is_timed_always(op: Op) -> bool:
    if op.name in ("special", "special64"):
        return op.attr in _OF_PLACE_AND_TIME
    return op.name in _TIMED_ALWAYS and op.attr != "grid"
