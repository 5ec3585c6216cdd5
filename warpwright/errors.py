"""The errors that Warpwright raises about programs, launches and memory.  This module imports nothing.

A message states what went wrong, where (kernel, source line, block, thread, address) and what to do.  Each
class also derives from a matching built-in exception, so that ``except ValueError`` works as expected.
"""

from __future__ import annotations

UNTIMED = "its GPU was made with timing='off' or with checks: add timing='full' (--timing full)"
"""Why a run has no times, and what to do."""


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


class MemoryFaultError(ExecutionError):
    """A kernel accessed memory outside every allocation, or not aligned to the size of the access.

    Attributes:
        kernel: name of the kernel.
        address: device address (or byte offset in shared or local memory) of the first faulting lane.
        bytes: size of one thread's access.
        block: index (x, y, z) of the block.
        thread: index (x, y, z) of the thread in its block.
        line: (file, line number), if the module has line information.
        instruction: byte offset of the instruction in the kernel.
        access: ``read``, ``write`` or ``atomic``.
        space: ``global``, ``shared`` or ``local``.
        misaligned: True if the address is not a multiple of the size of the access; else it is out of bounds.
        reason: the nearest allocations, as in the last line of the message.
        lanes: mask of the warp's lanes whose access failed.
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str = "",
        address: int = 0,
        bytes: int = 0,
        block: tuple[int, int, int] = (0, 0, 0),
        thread: tuple[int, int, int] = (0, 0, 0),
        line: tuple[str, int] | None = None,
        instruction: int = 0,
        access: str = "",
        space: str = "global",
        misaligned: bool = False,
        reason: str = "",
        lanes: int = 0,
    ) -> None:
        super().__init__(message)
        self.kernel = kernel
        self.address = address
        self.bytes = bytes
        self.block = block
        self.thread = thread
        self.line = line
        self.instruction = instruction
        self.access = access
        self.space = space
        self.misaligned = misaligned
        self.reason = reason
        self.lanes = lanes


class TrapError(ExecutionError):
    """The kernel stopped itself with a failed assertion or a trap instruction."""


class IllegalInstructionError(ExecutionError):
    """The kernel reached an instruction that is not supported, or jumped outside its code."""


class AssertionFailedError(TrapError):
    """An ``assert`` of the kernel failed; the message has one line per thread, as a card's driver prints it."""


class DeadlockError(ExecutionError):
    """No warp can make progress; the message lists what each warp waits for."""
