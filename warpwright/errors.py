"""The errors that Warpwright raises about programs, launches and memory.  This module imports nothing of the package.

A message states what went wrong, where (kernel, source line, block, thread, address) and what to do.  Each
class also derives from a matching built-in exception, so that ``except ValueError`` works as expected.
"""

from __future__ import annotations

from dataclasses import dataclass

UNTIMED = "its GPU was made with timing='off' or with checks: add timing='full' (--timing full)"
"""Why a run has no times, and what to do."""


def only_checked(reason: str) -> str:
    """Why a run that was to be checked and timed has no times, and what to do."""
    return f"it was only checked, because it cannot be repeated with timing ({reason}): time it in a run without checks (omit --check or check=)"


def whole_number(what: str, value: object) -> None:
    """Refuse what is not a whole number.

    Args:
        what: the argument's name, which the message begins with.

    Raises:
        TypeError: it is none.
    """
    try:
        value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        raise TypeError(f"{what} takes a whole number, not {value!r}") from None


class WarpwrightError(Exception):
    """Base of all errors about a program, a launch or device memory."""


class _NameNotFoundError(WarpwrightError, KeyError):
    def __str__(self) -> str:
        # KeyError shows the repr of its argument; a sentence should be shown as it is.
        return str(self.args[0]) if self.args else ""


class KernelNotFoundError(_NameNotFoundError):
    """The module has no kernel or global symbol of that name; the message lists those it has."""


class MetricNotFoundError(_NameNotFoundError):
    """A run has no counter of that name; the message lists similar names."""


class ArgumentError(WarpwrightError, TypeError):
    """Kernel arguments do not fit the kernel's parameters: count, size, type or layout."""


class LaunchError(WarpwrightError, ValueError):
    """Grid, block, registers or shared memory of a launch do not fit the chip."""


class OutOfMemoryError(WarpwrightError, MemoryError):
    """The device's memory cannot hold an allocation."""


class FreedArrayError(WarpwrightError, ValueError):
    """A device array was used after it was freed."""


class UnsupportedError(WarpwrightError, NotImplementedError):
    """The chip or this version lacks a feature; the message names what has it or what to use instead."""


class ExecutionError(WarpwrightError, RuntimeError):
    """Base of all errors that occur while a kernel runs."""


class TimedOutError(KeyboardInterrupt):
    """The time limit of a program or a test (``--timeout``) has passed; the error ends it as Ctrl-C does."""


class KilledError(KeyboardInterrupt):
    """The person at the debugger ended the program: no handler of errors may stop that."""


@dataclass(eq=False, repr=False)
class FaultingAccess:
    """An access to memory that failed, as :class:`MemoryFaultError` describes it."""

    kernel: str = ""
    """Name of the kernel."""
    address: int = 0
    """Device address (or byte offset in shared or local memory) of the first faulting lane."""
    bytes: int = 0
    """Size of one thread's access."""
    block: tuple[int, int, int] = (0, 0, 0)
    """Index (x, y, z) of the block."""
    thread: tuple[int, int, int] = (0, 0, 0)
    """Index (x, y, z) of the thread in its block."""
    line: tuple[str, int] | None = None
    """File and line number, if the module has line information."""
    instruction: int = 0
    """Byte offset of the instruction in the kernel."""
    access: str = ""
    """``read``, ``write`` or ``atomic``."""
    space: str = "global"
    """``global``, ``shared`` or ``local``."""
    misaligned: bool = False
    """True if the address is not a multiple of the size of the access; else it is out of bounds."""
    reason: str = ""
    """The nearest allocations, as in the last line of the message."""
    lanes: int = 0
    """Mask of the warp's lanes whose access failed."""


class MemoryFaultError(ExecutionError, FaultingAccess):
    """A kernel accessed memory outside every allocation, or not aligned to the size of the access.

    Its attributes are those of :class:`FaultingAccess`: ``kernel``, ``address``, ``bytes``, ``block``, ``thread``, ``line``, ``instruction``,
    ``access``, ``space``, ``misaligned``, ``reason`` and ``lanes``.
    """

    def __init__(self, message: str, fault: FaultingAccess | None = None) -> None:
        super().__init__(message)
        vars(self).update(vars(fault or FaultingAccess()))


class MemoryOverrunWarning(RuntimeWarning):
    """A kernel accessed memory outside every allocation where a card would not detect it (``memory_faults="page"``)."""


class TrapError(ExecutionError):
    """The kernel stopped itself with a failed assertion or a trap instruction."""


class IllegalInstructionError(ExecutionError):
    """The kernel reached an instruction that is not supported, or jumped outside its code."""


class AssertionFailedError(TrapError):
    """An ``assert`` of the kernel failed; the message has one line per thread, as a card's driver prints it."""


class DeadlockError(ExecutionError):
    """No warp can make progress; the message lists what each warp waits for."""

    repeats = False
    """Whether warps run and repeat themselves, so that something outside of the launch could release them."""
