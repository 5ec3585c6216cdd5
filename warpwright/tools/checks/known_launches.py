"""Recognises launches that repeat an earlier one, which have the same findings and need not be watched.

What a launch does is determined by its code, its geometry, its SMs, its constant banks and the memory that it touches.  A launch of the same
code, geometry and banks as an earlier one, which finds those allocations with the same bytes, touches the same ones again, takes the
same ways and shows the same findings: benchmarks launch a kernel hundreds of times on the same data.  It runs without being watched,
so that its results are there, and its findings count on.  Nothing is taken on trust: where one byte differs, it is watched.

The first launch of a kind only tells which allocations such launches touch, so that single launches pay nothing; from the second on, their
contents are digested before each.  Kernels that call services (``malloc``, launches of kernels) have state elsewhere and are watched always.

Where nothing that a kernel does follows from what memory holds (``engine/data_independence.py``), a launch that showed nothing says the same of every later one of
its kind: these make the same accesses in the same order, whatever the bytes are.  What it wrote was written for all of them, and memory of
which more was written shows no more; so they are watched only where something that they touch was allocated anew.  A launch that showed
something says no such thing: whether two writes race depends on their values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warpwright.engine.data_independence import is_oblivious
from warpwright.engine.device_memory import Allocation, DeviceMemory
from warpwright.engine.execute import Counts
from warpwright.engine.kernels import Traced, calls_services, with_masks
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel
from warpwright.tools.checks.findings import Finding
from warpwright.tools.checks.memory_digests import digest

if TYPE_CHECKING:
    from warpwright.tools.checks.checker import Checker

BYTES_PER_THREAD_INSTRUCTION = 4
"""Of memory that are digested for each thread-instruction of the launch, at most: a digest takes at most 1 ns a byte and a check takes more
than that for a thread-instruction (``docs/model/checks.md``), so that looking never takes longer than watching."""


@dataclass(slots=True)
class _Kind:
    """What is known of the launches of one kernel with one geometry and the same constant banks."""

    touched: tuple[tuple[int, int], ...]
    """(address, bytes) of the allocations."""
    thread_instructions: int
    oblivious: bool
    """Whether nothing that these launches do follows from what memory holds, and none of them showed anything."""
    shown: dict[bytes, list[Finding]]
    """Findings by the digest of what the launch found in memory; of oblivious ones, of which bytes were ever written."""


class Repeats:
    """The launches of one GPU, by how they began."""

    def __init__(self, checker: Checker) -> None:
        self._memory: DeviceMemory = checker.memory
        self._written = checker.written
        self._kinds: dict[bytes, _Kind] = {}
        self._kernels: dict[int, LoadedKernel] = {}
        """Kept, so that no other kernel comes to have the number of one that is known."""
        self.repeated = 0
        """Launches that were not watched again."""

    def start(self, loaded: LoadedKernel, context: LaunchContext) -> Start:
        """How a launch that is about to begin begins."""
        if calls_services(loaded):
            return Start(None, None)
        self._kernels[id(loaded)] = loaded
        kind = hashlib.blake2b(repr((id(loaded), context.geometry)).encode(), digest_size=16)
        kind.update(context.sms.data)
        kind.update(context.constants_digest())
        if context.textures is not None:
            kind.update(context.textures.table.rows.data)
        known = self._kinds.get(kind.digest())
        return Start(kind.digest(), self._digest(known) if known is not None else None)

    def touched(self, start: Start) -> tuple[tuple[int, int], ...] | None:
        """(address, bytes) of the allocations that launches of this kind touched; None when it is not known."""
        known = self._kinds.get(start.kind) if start.kind is not None else None
        return known.touched if known is not None else None

    def shown(self, start: Start) -> list[Finding] | None:
        """What the launches that began so showed; None when there was none, or it is not known."""
        if start.kind is None or start.contents is None:
            return None
        shown = self._kinds[start.kind].shown.get(start.contents)
        self.repeated += shown is not None
        return shown

    def keep(
        self, start: Start, loaded: LoadedKernel, kernel: Traced, touched: Sequence[Allocation], counts: Counts, found: list[Finding]
    ) -> None:  # fmt: skip
        """A launch that was watched has ended without a fault."""
        if start.kind is None:
            return
        places = tuple((a.address, a.size_bytes) for a in touched)
        oblivious = not found and is_oblivious(loaded.program, kernel.blocks, with_masks(loaded))
        known = self._kinds.get(start.kind)
        if known is None or (known.touched, known.oblivious) != (places, oblivious):
            known = self._kinds[start.kind] = _Kind(places, counts.thread_instructions, oblivious, {})
            start = replace(start, contents=None)
        written = self._written_digest(places)
        if oblivious:
            known.shown[written] = []
        elif start.contents is not None and written == start.contents[:16]:
            # What a launch wrote for the first time must be noted again when it is run again: then it is watched.
            known.shown[start.contents] = [replace(finding) for finding in found]

    def _digest(self, kind: _Kind) -> bytes | None:
        """What is known of the memory that launches of a kind touch: digests of which bytes were ever written and, unless they are oblivious, of the bytes.

        None when some of that memory is no more, or there is too much of it.
        """
        if not all(self._is_there(place) for place in kind.touched):
            return None
        looked_at = [(a, size) for a, size in kind.touched if not kind.oblivious or a in self._written]
        if sum(size for _, size in looked_at) > BYTES_PER_THREAD_INSTRUCTION * kind.thread_instructions:
            return None
        if kind.oblivious:
            return self._written_digest(kind.touched)
        contents = hashlib.blake2b(digest_size=16)
        for address, size in kind.touched:
            contents.update(digest(self._memory.view(address, size, read_only=True)))
        return self._written_digest(kind.touched) + contents.digest()

    def _is_there(self, place: tuple[int, int]) -> bool:
        """Whether an allocation is still there."""
        inside = self._memory.find(place[0])
        return inside is not None and (inside.address, inside.size_bytes) == place

    def _written_digest(self, places: tuple[tuple[int, int], ...]) -> bytes:
        contents = hashlib.blake2b(digest_size=16)
        for address, _ in places:
            written = self._written.get(address)
            contents.update(b"-" if written is None else digest(written))
        return contents.digest()


@dataclass(frozen=True, slots=True)
class Start:
    """How a launch begins."""

    kind: bytes | None
    """Of its code, geometry and constant banks; None when it has state elsewhere."""
    contents: bytes | None
    """Of the memory that launches of its kind touch, as far as it decides what they do; None when that is not known."""
