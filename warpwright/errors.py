"""Every error that Warpwright raises about a program, a launch or memory.  This module imports nothing.

A message says what went wrong, where (kernel, line of source, block, thread, address) and what to do.  Each
class also derives from the built-in exception that a Python reader expects, so that ``except ValueError``
does what it looks like.
"""

from __future__ import annotations


class WarpwrightError(Exception):
    """Base of all errors about a program, a launch or device memory."""


class _NameNotFoundError(WarpwrightError, KeyError):
    def __str__(self) -> str:
        # KeyError shows the repr of its argument; a sentence should be shown as it is.
        return str(self.args[0]) if self.args else ""


class KernelNotFoundError(_NameNotFoundError):
    """No kernel or global symbol of that name is in the module; the message lists those that are."""


class MetricNotFoundError(_NameNotFoundError):
    """A run has no counter of that name; the message lists those that are called nearly so."""


class ArgumentError(WarpwrightError, TypeError):
    """Kernel arguments do not fit the kernel's parameters: count, size, type or layout."""


class LaunchError(WarpwrightError, ValueError):
    """Grid, block, registers or shared memory of a launch do not fit the chip."""


class OutOfMemoryError(WarpwrightError, MemoryError):
    """The device's memory cannot hold an allocation."""


class FreedArrayError(WarpwrightError, ValueError):
    """A device array is used after it was freed."""


class UnsupportedError(WarpwrightError, NotImplementedError):
    """The chip or this version does not have a feature; the message names who has it or what to use instead."""


class ExecutionError(WarpwrightError, RuntimeError):
    """Base of what can go wrong while a kernel runs."""


class TimedOutError(KeyboardInterrupt):
    """The time limit of a program or a test (``--timeout``) has passed; the error ends it as Ctrl-C does."""


class MemoryFaultError(ExecutionError):
    """An access that no allocation holds, or that is not aligned to its size.

    Attributes:
        kernel: name of the kernel.
        address: device address (or byte offset in shared or local memory) of the first faulting lane.
        bytes: size of the access of one thread.
        block: index (x, y, z) of the block.
        thread: index (x, y, z) of the thread in its block.
        line: (file, line number) when the module has line information.
        instruction: byte offset of the instruction in the kernel.
        access: ``read``, ``write`` or ``atomic``.
        space: ``global``, ``shared`` or ``local``.
        misaligned: whether the address is no multiple of the access's size; else it is out of bounds.
        reason: what lies around the address, as the message's last line says.
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


class TrapError(ExecutionError):
    """The kernel stopped itself: a failed assertion or a trap instruction."""


class IllegalInstructionError(ExecutionError):
    """The kernel reached a machine instruction that has no meaning here, or a jump left its code."""


class AssertionFailedError(TrapError):
    """An ``assert`` of the kernel failed; the message has a line for each thread, as a card's driver prints it."""


class DeadlockError(ExecutionError):
    """No warp can go on; the message lists which warps wait for what."""
