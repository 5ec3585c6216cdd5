"""The flipped words of a device's memory, and what happens when somebody reads or writes them.

A stored codeword is the right one with some bits flipped, so that data stay as they are and the flips are kept beside them.  While a launch runs, a
flipped word is in none of the ranges that accesses are checked against (:meth:`DeviceFaults.table`): an access to it stops there.  A read
decodes: a single flip is corrected, counted and written back; a double one ends the reader.  A write of the whole word leaves a right codeword; one of a part
of it reads first.  Without ECC bits flip in the data themselves, and nothing notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.chips import Chip
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import whole_number
from warpwright.faults.error_counters import (
    STRUCTURES,
    XID_CONTAINED,
    XID_PAGE_RETIRED,
    XID_RETIREMENT_FAILED,
    XID_UNCONTAINED,
    XID_UNCORRECTABLE,
    ErrorLog,
    UncorrectableEccError,
    Xid,
)
from warpwright.faults.injection import MEMORY, WORD_BITS, Exposure, Injection, InjectionError
from warpwright.faults.remapping import (
    CORRECTED,
    FIRST_ROW_REMAPPER,
    PAGE_BYTES,
    UNCORRECTABLE,
    RetiredPages,
    RowRemapper,
    row_of,
)
from warpwright.faults.secded import Verdict, code_of

_NAMES = {"dram": "DRAM", "l2": "L2", "registers": "the register file", "shared": "L1 and shared memory"}
WORD_BYTES = WORD_BITS["dram"] // 8


@dataclass(slots=True)
class Upset:
    """A word of memory whose codeword has flipped bits."""

    structure: str
    pattern: int


class DeviceFaults:
    """Errors of one device: what is to happen, what has, and what was done about it.

    Args:
        ecc: whether words are protected; without, flips change the data.
    """

    def __init__(self, chip: Chip, memory: DeviceMemory, *, ecc: bool = True) -> None:
        self.chip, self.memory, self.ecc = chip, memory, ecc
        self.log = ErrorLog()
        self.remapper = RowRemapper()
        self.retired = RetiredPages()
        self.upsets: dict[int, Upset] = {}
        """By the device address of the word."""
        self.waiting: list[Injection] = []
        self.exposures: list[Exposure] = []
        self.sampler: Callable[[Any, int], list[Injection]] | None = None
        """Draws the flips of a launch, given as a ``particles.Exposed`` and its number: campaigns."""
        self.launches = 0
        """Launches that have begun."""
        self.missed: list[str] = []
        """Injections that hit nothing, and why."""
        self.instruction_limit: int | None = None
        """Instructions of a block with a flip after which it hangs; None: it may run for ever."""
        self.hang_seconds: float | None = None
        """Host time after which compiled code with flipped memory hangs; None: it may run for ever."""
        self._offline: set[int] = set()
        self._quiet = False
        memory.host_watch = self._host_access

    @property
    def contains(self) -> bool:
        """Whether an uncorrectable error ends its reader alone (Ampere and later), or all that runs on the device."""
        return self.chip.arch >= FIRST_ROW_REMAPPER

    @property
    def active(self) -> bool:
        """Whether launches have to be watched."""
        return bool(self.upsets or self.waiting or self.exposures) or self.sampler is not None

    def add(self, wanted: Sequence[Injection | Exposure]) -> None:
        """Let injections happen at their launches, the first of which is the device's next if ``launch`` is 0 and none has begun.

        Raises:
            InjectionError: one is for a launch that has begun, or is none.
        """
        for one in wanted:
            if isinstance(one, Exposure):
                self.exposures.append(one)
                continue
            one.check()
            if one.launch < self.launches:
                raise InjectionError(f"launch {one.launch} has begun: the next one is launch {self.launches}")
            self.waiting.append(one)

    def miss(self, injection: Injection, reason: str) -> None:
        """Note that an injection hit what nobody uses, which is usual for drawn ones."""
        if not self.exposures and self.sampler is None:
            self.missed.append(f"{injection} hit nothing: {reason}")

    def summary(self) -> list[str]:
        """Lines for a person: injections that hit nothing or were not applied, then counters and messages."""
        there = {0: "made no launch", 1: "made only launch 0"}.get(
            self.launches, f"made launches 0 to {self.launches - 1}"
        )
        late = [f"{one} was not applied: launches count from 0, and the program {there}" for one in self.waiting]
        return [*self.missed, *late, *self.log.summary()]

    def inject(self, structure: str, address: int, bits: Sequence[int]) -> None:
        """Flip bits of a word of DRAM or L2 now.

        Raises:
            InjectionError: the structure keeps nothing between launches, or the address is not device memory's.
        """
        if structure not in STRUCTURES:
            raise InjectionError(f"there is no structure {structure!r}; there are: {', '.join(STRUCTURES)}")
        if structure not in MEMORY:
            raise InjectionError(
                f"{structure} keeps nothing between launches: add an Injection with its launch, block and instruction"
            )
        whole_number("faults.inject(address)", address)
        if not isinstance(bits, Iterable):
            raise TypeError(f"faults.inject(bits) takes the numbers of the bits, such as (3,), not {bits!r}")
        for bit in (bits := tuple(bits)):
            whole_number("faults.inject(bits): each bit", bit)
        made = Injection(structure, bits, address)
        made.check()
        self.plant(made)

    def plant(self, injection: Injection) -> None:
        """Flip the bits of an injection into memory."""
        word = self.address_of(injection) // WORD_BYTES * WORD_BYTES
        if not self.memory.holds(word):
            raise InjectionError(f"{word:#x} is not an address of device memory ({self.memory.base:#x} and up)")
        if self.memory.find(word) is None:
            self.miss(injection, f"no allocation contained {word:#x}")
        if self.ecc:
            before = self.upsets.pop(word, None)
            pattern = injection.pattern ^ (before.pattern if before is not None else 0)
            if pattern:
                self.upsets[word] = Upset(injection.structure, pattern)
            return
        self._flip(word, injection.pattern)

    def address_of(self, injection: Injection) -> int:
        """Device address of an injection into memory."""
        if not injection.array:
            return injection.address
        named = [a for a in self.memory if a.name in (injection.array, f"array {injection.array!r}")]
        named = named or [a for a in self.memory if repr(injection.array) in a.name]
        if len(named) != 1:
            there = ", ".join(a.name for a in self.memory) or "none"
            number = f"{len(named)} arrays are" if named else "no array is"
            raise InjectionError(f"{number} called {injection.array!r}; allocated are: {there}")
        size_bytes = named[0].end - named[0].address
        if injection.address >= size_bytes:
            raise InjectionError(
                f"{injection}: {injection.array!r} has {size_bytes:,} bytes, from 0 to {size_bytes - 1}"
            )
        return named[0].address + injection.address

    def _flip(self, word: int, pattern: int) -> None:
        with self.quiet():
            view = self.memory.view(word, WORD_BYTES).view(np.uint64)
        view[0] ^= np.uint64(pattern & (1 << 64) - 1)

    # --- accesses -----------------------------------------------------------------------------------
    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nobody reads or writes within the block: memory is looked at from outside."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def touched(self, address: int, size_bytes: int) -> list[int]:
        """Flipped words that an access of some bytes touches, ascending."""
        if len(self.upsets) < 8:
            return sorted(w for w in self.upsets if w < address + size_bytes and w + WORD_BYTES > address)
        words = range(address // WORD_BYTES * WORD_BYTES, address + size_bytes, WORD_BYTES)
        if len(words) > len(self.upsets):
            return sorted(w for w in self.upsets if w in words)
        return [w for w in words if w in self.upsets]

    def overwrite(self, word: int) -> None:
        """A write of the whole word: it is right again."""
        del self.upsets[word]
        self.log.overwritten += 1

    def read(self, word: int, consumer: str) -> None:
        """Decode a word that somebody reads.

        Raises:
            UncorrectableEccError: its code detects an error that it cannot correct.
        """
        upset = self.upsets[word]
        code = code_of(WORD_BITS[upset.structure])
        with self.quiet():
            data = int(self.memory.view(word, WORD_BYTES, read_only=True).view(np.uint64)[0])
        verdict, decoded = code.decode(code.encode(data) ^ upset.pattern)
        if verdict is Verdict.UNCORRECTABLE:
            self._uncorrectable(word, upset.structure, consumer)
        del self.upsets[word]
        if verdict is Verdict.CORRECTED:
            self.log.corrected(upset.structure)
            self._count_corrected(word, upset.structure)
        if decoded != data:
            # Three flips and more that look like one.
            self._flip(word, decoded ^ data)

    def table(self, whole: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Ranges of allocations without the flipped words."""
        rows = [(int(first), int(end)) for first, end in whole]
        for word in sorted(self.upsets):
            for n, (first, end) in enumerate(rows):
                if first < word + WORD_BYTES and word < end:
                    rows[n : n + 1] = [r for r in ((first, word), (word + WORD_BYTES, end)) if r[0] < r[1]]
                    break
        return np.array(rows, np.uint64).reshape(len(rows), 2)

    def _host_access(self, address: int, size_bytes: int, read_only: bool) -> None:
        """The host copies bytes of device memory."""
        if self._quiet or not self.upsets:
            return
        for word in self.touched(address, size_bytes):
            if not read_only and address <= word and word + WORD_BYTES <= address + size_bytes:
                self.overwrite(word)
            else:
                self.read(word, "a copy of the host")

    # --- what the driver does -------------------------------------------------------------------------
    def sm_error(self, structure: str, verdict: Verdict, consumer: str) -> None:
        """Count an error in an SM.

        Raises:
            UncorrectableEccError: it cannot be corrected.
        """
        if verdict is Verdict.CORRECTED:
            self.log.corrected(structure)
        elif verdict is Verdict.UNCORRECTABLE:
            self._uncorrectable(None, structure, consumer)

    def _count_corrected(self, word: int, structure: str) -> None:
        if structure != "dram" or self.contains:
            return
        self.retired.corrected_at[word] += 1
        if self.retired.corrected_at[word] >= 2:
            self._retire(word, CORRECTED)

    def _uncorrectable(self, word: int | None, structure: str, consumer: str) -> None:
        self.log.uncorrectable(structure)
        where = f" at {word:#x}" if word is not None else ""
        self._report(
            XID_UNCORRECTABLE, f"uncorrectable ECC error in {_NAMES[structure]}{where}, read by {consumer}", consumer
        )
        if self.contains:
            self._report(XID_CONTAINED, f"contained: {consumer}; other contexts continue", consumer)
        else:
            self._report(XID_UNCONTAINED, "uncontained: all contexts of the device end", consumer)
        if word is not None and structure == "dram":
            self._give_up(word)
        others = (
            "other contexts go on" if self.contains else f"{self.chip.name} cannot contain it: all its contexts end"
        )
        raise UncorrectableEccError(
            f"uncorrectable ECC error in {_NAMES[structure]}{where}\n  read by {consumer}\n  {others}; copy the data to the device again and launch again",
            structure=structure,
            consumer=consumer,
            contained=self.contains,
        )

    def _report(self, number: int, text: str, consumer: str = "") -> None:
        self.log.xids.append(Xid(number, text, consumer))

    def _give_up(self, word: int) -> None:
        """Off-line the page of a failed word, and replace its row at the next reset."""
        offset = word - self.memory.base
        if not self.contains:
            self._retire(word, UNCORRECTABLE)
            return
        page = offset // PAGE_BYTES * PAGE_BYTES
        if page not in self._offline:
            self._offline.add(page)
            self.memory.withhold(page, page + PAGE_BYTES)
        row = row_of(self.chip, offset)
        done = self.remapper.record(row, UNCORRECTABLE)
        number = XID_PAGE_RETIRED if done else XID_RETIREMENT_FAILED
        what = (
            "is recorded for remapping at the next reset"
            if done
            else "cannot be remapped: its bank has no spare row left"
        )
        self._report(number, f"row {row.row} of bank {row.bank}, channel {row.channel} {what}")

    def _retire(self, word: int, cause: str) -> None:
        page = (word - self.memory.base) // PAGE_BYTES * PAGE_BYTES
        new = page not in self.retired.pages
        done = self.retired.retire(page, cause)
        if done and new:
            self.memory.withhold(page, page + PAGE_BYTES)
        number = XID_PAGE_RETIRED if done else XID_RETIREMENT_FAILED
        self._report(number, f"page {page:#x} {'is retired' if done else 'cannot be retired: there are 64 already'}")

    def reset(self) -> None:
        """Reset the GPU: spare rows replace the recorded ones, and their pages are used again.

        Raises:
            InjectionError: memory is allocated, as the driver resets no GPU that somebody uses.
        """
        if len(self.memory):
            raise InjectionError("the GPU is in use: free its arrays before a reset")
        # Whatever is written first after a reset is a right codeword.
        self.upsets.clear()
        self.remapper.pending = set()
        for page in self._offline:
            self.memory.use_again(page, page + PAGE_BYTES)
        self._offline.clear()
        self.log.clear(self.log.volatile)
