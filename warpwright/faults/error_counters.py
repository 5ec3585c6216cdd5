"""What a device has counted and reported of its errors: corrected and uncorrectable ones by structure, Xid messages."""

from __future__ import annotations

from dataclasses import dataclass, field

from warpwright.errors import ExecutionError

STRUCTURES = ("dram", "l2", "registers", "shared")
"""Where bits flip.  ``shared`` is the SM's data array, of which L1 and shared memory are parts."""
CUDA_ERROR_ECC_UNCORRECTABLE = 214

XID_PAGE_RETIRED, XID_RETIREMENT_FAILED = 63, 64
"""Chips with row remapping use the same two numbers for a remapped row and for a failure to remap one."""
XID_UNCORRECTABLE, XID_CONTAINED, XID_UNCONTAINED = 48, 94, 95


class UncorrectableEccError(ExecutionError):
    """A kernel or a copy read a word with an error that its code detects and cannot correct.

    Attributes:
        structure: ``dram``, ``l2``, ``registers`` or ``shared``.
        consumer: the kernel, or the copy, that read the word.
        contained: whether other contexts of the device go on.
    """

    cuda_result = CUDA_ERROR_ECC_UNCORRECTABLE

    def __init__(self, message: str, *, structure: str, consumer: str, contained: bool) -> None:
        super().__init__(message)
        self.structure, self.consumer, self.contained = structure, consumer, contained


@dataclass(frozen=True, slots=True)
class Xid:
    """A message of the driver about an error."""

    number: int
    text: str
    consumer: str = ""
    """Who met the error; empty where nobody did."""

    def __str__(self) -> str:
        return f"Xid {self.number}: {self.text}"


@dataclass(slots=True)
class Counts:
    """Of one structure."""

    corrected: int = 0
    uncorrectable: int = 0


@dataclass(slots=True)
class ErrorLog:
    """Counters since the driver was loaded (volatile) and of the board's life (aggregate), and the Xid messages in order."""

    volatile: dict[str, Counts] = field(default_factory=lambda: {name: Counts() for name in STRUCTURES})
    aggregate: dict[str, Counts] = field(default_factory=lambda: {name: Counts() for name in STRUCTURES})
    xids: list[Xid] = field(default_factory=list)
    overwritten: int = 0
    """Flipped words that were written over before anybody read them: nothing notices those."""

    def corrected(self, structure: str) -> None:
        """Count a corrected error."""
        for counts in (self.volatile, self.aggregate):
            counts[structure].corrected += 1

    def uncorrectable(self, structure: str) -> None:
        """Count a detected error."""
        for counts in (self.volatile, self.aggregate):
            counts[structure].uncorrectable += 1

    def clear(self, counts: dict[str, Counts]) -> None:
        """Set one kind of counters to zero."""
        for name in STRUCTURES:
            counts[name] = Counts()

    def summary(self) -> list[str]:
        """Lines for a person: counters that are not zero, then the Xid messages."""
        counted = [
            f"{name}: {counts.corrected:,} corrected, {counts.uncorrectable:,} uncorrectable"
            for name, counts in self.volatile.items()
            if counts.corrected or counts.uncorrectable
        ]
        words = "word was" if self.overwritten == 1 else "words were"
        over = [f"{self.overwritten:,} flipped {words} written over unread"] if self.overwritten else []
        return [*(counted or ["no error was met"]), *over, *map(str, self.xids)]

    def total(self, kind: str, *, aggregate: bool = False) -> int:
        """``corrected`` or ``uncorrectable`` errors of all structures."""
        counts = self.aggregate if aggregate else self.volatile
        return sum(getattr(one, kind) for one in counts.values())
