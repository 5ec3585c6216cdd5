"""Lines that the simulator prints on standard error beside a program's own output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO


def report(message: str, stream: TextIO | None = None) -> None:
    """Print a message as one line, by default on standard error; the line is flushed, because the program may be long or end at any time."""
    print(f"warpwright: {message}", file=stream or sys.stderr, flush=True)


def report_compiling(what: str) -> None:
    """Report that the simulator's own code is being compiled; nothing for code without a name."""
    if what:
        report(f"compiling {what}, once on this machine …")


@dataclass(slots=True)
class OncePerKernel:
    """Reports a mistake that does not end a launch only the first time that a kernel makes it."""

    report: Callable[[str], None] = report
    kernels: set[str] = field(default_factory=set)
    """Kernels that have been reported."""

    def __call__(self, kernel: str, message: str) -> None:
        """Report the message, unless the kernel has been reported."""
        if kernel not in self.kernels:
            self.kernels.add(kernel)
            self.report(message)
