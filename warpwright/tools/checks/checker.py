"""The checks of one GPU: which are enabled, how each launch is watched, and the findings.

``memcheck`` costs nothing: every access is checked against the allocations anyway, and a fault becomes a finding.  The others run the launch with trace records
but without timing (``checked_execution.py``), and read the records (``shadow.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.kernels import Traced, lowered_of
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel
from warpwright.engine.standstill import Among
from warpwright.errors import DeadlockError, UnsupportedError
from warpwright.isa.program import Program
from warpwright.tools.checks.arrangement import Findings
from warpwright.tools.checks.checked_launch import CheckedGrids, CheckedLaunch
from warpwright.tools.checks.events import Events, events_of, volatile_lines
from warpwright.tools.checks.findings import SEVERITIES, Finding
from warpwright.tools.checks.global_shadow import Shadows
from warpwright.tools.checks.heap import leaks
from warpwright.tools.checks.host_stack import user_stack
from warpwright.tools.checks.known_launches import Repeats
from warpwright.tools.checks.skipped_barriers import Detours, detours_of
from warpwright.tools.checks.stream_races import StreamRaces
from warpwright.tools.checks.warp_syncs import constant_masks, places

CHECKS = ("memcheck", "racecheck", "synccheck", "initcheck")
"""The checks selected by ``all``: compute-sanitizer's tools."""
MORE_CHECKS = ("leakcheck", "perfcheck", "schedcheck")
DEFAULT_LEVEL = "warning"
"""As compute-sanitizer's --print-level and --racecheck-detect-level."""


def parse(checks: str | Iterable[str]) -> tuple[str, ...]:
    """Names of checks from ``"racecheck,initcheck"``, ``"all"`` or a sequence.

    Raises:
        UnsupportedError: a name is unknown.
    """
    names = checks.split(",") if isinstance(checks, str) else list(checks)
    chosen: list[str] = []
    for name in (n.strip() for n in names):
        if name == "all":
            chosen += CHECKS
        elif name in CHECKS or name in MORE_CHECKS:
            chosen.append(name)
        else:
            known = ", ".join((*CHECKS, *MORE_CHECKS))
            raise UnsupportedError(f"check={name!r} is not known; use {known}, or all for the first four")
    return tuple(dict.fromkeys(chosen))


def parse_level(level: str) -> str:
    """The lowest severity that is reported.

    Raises:
        UnsupportedError: the severity is unknown.
    """
    if level not in SEVERITIES:
        raise UnsupportedError(f"check level {level!r} is not known; use {', '.join(SEVERITIES)}")
    return level


BEGINS_LATER = (
    "under the checks launches run one after the other: if another launch, another GPU or the host releases this one, "
    "this is not a deadlock of the program; run it without --check"
)


def is_whole(written: npt.NDArray[np.uint8]) -> bool:
    """Whether all bytes were written; the end is tested first, because most memory with unwritten bytes has some there."""
    words = written.view(np.int64)
    return bool((words[-512:] == -1).all() and (words == -1).all())


class Checker:
    """Watches the launches of one GPU.

    Args:
        checks: names, see :func:`parse`.
        memory: the GPU's memory.
        seed: first seed of schedcheck's orders.
        level: lowest severity of the findings that are kept, one of ``SEVERITIES``.
    """

    def __init__(
        self, checks: str | Iterable[str], memory: DeviceMemory, seed: int = 1, level: str = DEFAULT_LEVEL
    ) -> None:
        self.checks = parse(checks)
        self.told = frozenset(SEVERITIES[: SEVERITIES.index(parse_level(level)) + 1])
        """Severities of the findings that are kept."""
        self.findings = Findings()
        self.memory = memory
        self.seed = seed
        self.launches = 0
        self._told_of_free = False
        """Whether the current call is an invalid free that has been reported."""
        self.host: tuple[str, ...] = ()
        """The host's call stack of the current launch."""
        self.repeats_without = False
        """Whether the current launch is repeated without the checks if it waits for something outside of it."""
        self.written: dict[int, npt.NDArray[np.uint8]] = {}
        """Map of written bytes, by address of the allocation; only for allocations whose initial contents are undefined."""
        self.origins: dict[int, str] = {}
        self.repeats = Repeats(self)
        self.shadows = Shadows()
        self.stream_races = StreamRaces(self.shadows, memory, self.add) if "racecheck" in self.checks else None
        self._events: dict[int, Events] = {}
        self._detours: dict[int, Detours] = {}
        if {"initcheck", "leakcheck"} & set(self.checks):
            memory.observer = self

    # --- notifications of the memory (engine/allocation.py, Observer) --------------------------------------------------
    def allocated(self, allocation: Allocation, undefined: bool) -> None:
        """An allocation was made."""
        if undefined:
            # Padded by eight bytes, because it is read as double words.
            self.written[allocation.address] = written = np.zeros((allocation.size_bytes + 15) // 8 * 8, np.uint8)
            written[allocation.size_bytes :] = 255
            stack = user_stack()
            self.origins[allocation.address] = stack[-1] if stack else ""

    def freed(self, allocation: Allocation) -> None:
        """An allocation was freed."""
        self.written.pop(allocation.address, None)
        self.origins.pop(allocation.address, None)

    def filled(self, address: int, size_bytes: int, contents: npt.NDArray[np.uint8] | None = None) -> None:
        """The host wrote (or may write) bytes, or copied bytes of which not all were written."""
        inside = self.memory.find(address)
        if inside is None:
            return
        if contents is not None and inside.address not in self.written and inside.address in self.origins:
            # Everything had been written.
            self.written[inside.address] = np.full((inside.size_bytes + 15) // 8 * 8, 255, np.uint8)
        if inside.address in self.written:
            start = address - inside.address
            self.written[inside.address][start : start + size_bytes] = 255 if contents is None else contents

    def contents(self, address: int, size_bytes: int) -> npt.NDArray[np.uint8] | None:
        """255 for each written byte, 0 for others; None if all were written."""
        inside = self.memory.find(address)
        if inside is None or inside.address not in self.written or "initcheck" not in self.checks:
            return None
        start = address - inside.address
        held = self.written[inside.address][start : start + size_bytes]
        return None if held.all() else held.copy()

    def read_by_host(self, rows: Sequence[tuple[int, npt.NDArray[np.uint8]]], size_bytes: int) -> None:
        """Bytes of which not all were written are copied to the host.

        Programs often copy whole arrays of which only part is in use, so this is only information; if none of the bytes was written, it is an error.
        """
        address, contents = rows[0]
        inside = self.memory.find(address)
        assert inside is not None
        count = sum(int((some == 0).sum()) for _, some in rows)
        first = address + int(np.flatnonzero(contents == 0)[0])
        origin = self.origins.get(inside.address, "")
        details = (
            f"Address {first:#x}: byte {first - inside.address:,} of {inside.name}; nothing wrote {count:,} of the bytes",
            *([f"allocated at {origin}"] if origin else []),
        )
        title = f"Uninitialized __global__ memory copied to the host: {size_bytes:,} bytes"
        severity = "error" if count == size_bytes else "info"
        self.add([Finding("initcheck", severity, title, (), details, 1, first, 0, user_stack())])

    def emptied(self, address: int, size_bytes: int) -> None:
        """The contents of bytes become undefined again."""
        inside = self.memory.find(address)
        if inside is not None and inside.address in self.written:
            start = address - inside.address
            self.written[inside.address][start : start + size_bytes] = 0

    def forget_written(self) -> None:
        """Drop the map of memory that has been written completely, which then costs initcheck nothing."""
        for address, written in list(self.written.items()):
            if is_whole(written):
                del self.written[address]

    # --- launches ---------------------------------------------------------------------------------------------
    def launching(self) -> None:
        """A launch is about to be submitted: remember the call stack of the host thread that makes it."""
        self.host = user_stack()

    def execution(
        self, loaded: LoadedKernel, context: LaunchContext, resident_blocks: int, ptx: str | None
    ) -> CheckedLaunch:
        """The launch as :class:`warpwright.engine.kernels.Execution`.

        Args:
            ptx: the module's PTX, if it has any.
        """
        self.launches += 1
        return CheckedLaunch(self, loaded, context, resident_blocks, ptx)

    def together(self, launches: Sequence[CheckedLaunch], among: Callable[[int, Sequence[int]], Among]) -> CheckedGrids:
        """Launches on several GPUs at once, this one's among them.

        Args:
            launches: as from :meth:`execution` of each GPU's checker.
            among: describes a launch among the others, by its number and the numbers of those that have ended.
        """
        return CheckedGrids(launches, among)

    def deadlock(self, error: DeadlockError, launch: int, host: tuple[str, ...], others: bool = False) -> None:
        """A launch has ended with a deadlock.

        Args:
            others: whether work that the checks begin only after it could have released it.
        """
        if "synccheck" in self.checks:
            title, *waits = str(error).splitlines()
            told = tuple(line.strip() for line in waits)
            told += (BEGINS_LATER,) if others else ()
            title = f"Barrier error detected. {title}"
            self.add([Finding("synccheck", "error", title, (), told, 1, None, launch, host)])

    def not_checked(self, kernel: str) -> None:
        """The last launch only repeated itself, and is run again without the checks, beside other work."""
        title = f"Not checked: kernel {kernel} waits for another launch, another GPU or the host"
        told = (
            "under the checks launches run one after the other, so that nothing could release it; "
            "it runs from its start again, without the checks and together with other work",
        )
        self.add([Finding("synccheck", "warning", title, (), told, 1, None, self.launches, self.host)])

    def events(self, program: Program, kernel: Traced, ptx: str | None) -> Events:
        """The event table of a compiled kernel, created at its first launch."""
        if kernel.address not in self._events:
            self._events[kernel.address] = events_of(program, kernel.blocks, volatile_lines(ptx))
        return self._events[kernel.address]

    def detours(self, loaded: LoadedKernel, kernel: Traced, ptx: str | None) -> Detours:
        """The ways round the barriers of a compiled kernel, found at its first launch."""
        if kernel.address not in self._detours:
            syncs = places(loaded.program, kernel.blocks, constant_masks(loaded.program, ptx))
            self._detours[kernel.address] = detours_of(loaded.program, kernel.blocks, lowered_of(loaded), syncs)
        return self._detours[kernel.address]

    def bad_free(self, address: int) -> None:
        """The program frees an address that is not, or no longer, an allocation."""
        if "memcheck" in self.checks:
            freed = self.memory.freed_at(address)
            self._told_of_free = True
            what = f"it is in {freed.name}, which was freed" if freed is not None else "it is not an allocation"
            title = (
                f"Malloc/Free error encountered: {'Double free' if freed is not None else 'Invalid pointer to free'}"
            )
            self.add([Finding("memcheck", "error", title, (), (f"Address {address:#x}: {what}",), host=user_stack())])

    def failed_call(self, what: str, severity: str, why: str = "") -> None:
        """A call of the program failed; ``why`` has further details."""
        told, self._told_of_free = self._told_of_free, False
        if "memcheck" in self.checks and not told:
            details = (why,) if why else ()
            self.add([Finding("memcheck", severity, what, (), details, host=user_stack(), of_call=True)])

    def leaked(self, allocations: Iterable[Allocation]) -> None:
        """Report allocations that the program never freed."""
        if "leakcheck" in self.checks:
            for allocation in allocations:
                title = f"Leaked {allocation.size_bytes:,} bytes at {allocation.address:#x}"
                origin = self.origins.get(allocation.address)
                details = (f"allocated at {origin}",) if origin else ()
                self.add([Finding("leakcheck", "error", title, (), details, 1, allocation.address)])
            self.add(leaks(self.memory))

    def add(self, found: Iterable[Finding]) -> None:
        """Add findings; a finding that repeats an earlier one increases its count."""
        for new in (f for f in found if f.severity in self.told):
            same = next((f for f in self.findings if _same(f, new)), None)
            if same is None:
                self.findings.append(new)
            else:
                same.count += new.count


def _same(a: Finding, b: Finding) -> bool:
    """A key of the defect: its lines (an unrolled loop has many instructions for one line), or its instructions if they have no lines."""

    def where(finding: Finding) -> list[tuple[str, str | int, str]]:
        return [(p.kernel, p.line or p.offset, p.what) for p in finding.places]

    if (a.check, a.severity, a.title) != (b.check, b.severity, b.title):
        return False
    return where(a) == where(b) and (bool(a.places) or a.host == b.host)
