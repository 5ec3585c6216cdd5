"""Recognises launches that repeat an earlier one, which have the same findings and need not be watched.

What a launch does is determined by its code, its geometry, its SMs, its constant banks and the memory that it touches. A launch with the same code, geometry
and banks as an earlier one, and with the same bytes in those allocations, touches the same allocations, takes the same paths and has the same findings;
benchmarks launch a kernel hundreds of times on the same data. Such a launch runs without being watched, which produces its results, and its findings are
counted again. Nothing is assumed: if a single byte differs, the launch is watched.

The first launch of a kind only determines which allocations such launches touch, so that single launches cost nothing extra; from the second launch on, the
allocations' contents are digested before each. Kernels that call services (``malloc``, launches of kernels) have state elsewhere and are always watched.

If nothing that a kernel does depends on the contents of memory (``engine/data_independence.py``), a launch without findings proves that later launches of its
kind have none: they make the same accesses in the same order, whatever the bytes are. Memory that it wrote counts as written for all of them, and more written
memory cannot add findings, so they are watched only if something that they touch has been reallocated. A launch with findings proves no such thing, because
whether two writes race depends on their values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warpwright.engine.allocation import Allocation
from warpwright.engine.data_independence import is_oblivious
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.execute import Counts
from warpwright.engine.kernels import Traced, calls_services, with_masks
from warpwright.engine.launch import LaunchContext
from warpwright.engine.memory_digests import digest
from warpwright.engine.module import LoadedKernel
from warpwright.tools.checks.findings import Finding

if TYPE_CHECKING:
    from warpwright.tools.checks.checker import Checker

BYTES_PER_THREAD_INSTRUCTION = 4
"""Most bytes of memory that are digested per thread-instruction of the launch. A digest takes at most 1 ns per byte, and a check takes longer than that per
thread-instruction (``docs/model/checks.md``), so digesting never takes longer than watching."""


@dataclass(slots=True)
class _Kind:
    """Knowledge about the launches of one kernel with the same geometry and constant banks."""

    touched: tuple[tuple[int, int], ...]
    """(address, bytes) of the allocations."""
    thread_instructions: int
    oblivious: bool
    """Whether nothing that these launches do depends on the contents of memory, and none of them had findings."""
    shown: dict[bytes, list[Finding]]
    """Findings, by the digest of memory at the start of the launch; for data-independent launches, by the digest of which bytes were ever written."""


class Repeats:
    """The launches of one GPU, by their start."""

    def __init__(self, checker: Checker) -> None:
        self._memory: DeviceMemory = checker.memory
        self._written = checker.written
        self._kinds: dict[bytes, _Kind] = {}
        self._kernels: dict[int, LoadedKernel] = {}
        """Kept alive, so that no other kernel gets the id of a known one."""
        self.repeated = 0
        """Number of launches that were not watched again."""

    def start(self, loaded: LoadedKernel, context: LaunchContext) -> Start:
        """Describe the start of a launch."""
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
        """(address, bytes) of the allocations that launches of this kind touched; None if unknown."""
        known = self._kinds.get(start.kind) if start.kind is not None else None
        return known.touched if known is not None else None

    def shown(self, start: Start) -> list[Finding] | None:
        """The findings of earlier launches with the same start; None if there was none or they are unknown."""
        if start.kind is None or start.contents is None:
            return None
        shown = self._kinds[start.kind].shown.get(start.contents)
        self.repeated += shown is not None
        return shown

    def keep(
        self, start: Start, loaded: LoadedKernel, kernel: Traced, touched: Sequence[Allocation], counts: Counts, found: list[Finding]
    ) -> None:  # fmt: skip
        """Remember a watched launch that has ended without a fault."""
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
            # If a launch wrote bytes for the first time, that must be recorded each time, so a repetition is watched.
            known.shown[start.contents] = [replace(finding) for finding in found]

    def _digest(self, kind: _Kind) -> bytes | None:
        """Digest of the memory that launches of a kind touch: which bytes were ever written and, unless the launches are data-independent, their contents.

        None if some of that memory has been freed or there is too much of it.
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
    """The start of a launch."""

    kind: bytes | None
    """Digest of its code, geometry and constant banks; None if it has state elsewhere."""
    contents: bytes | None
    """Digest of the memory that launches of its kind touch, as far as it affects them; None if unknown."""
