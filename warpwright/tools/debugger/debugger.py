"""The debugger of a process: makes the execution of each launch, holds breakpoints, and asks a front end what comes next."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from warpwright.chips.chip_files import chip_names, load_chip
from warpwright.engine.interpreter import Kernel
from warpwright.engine.kernels import lowered_of
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel
from warpwright.errors import UnsupportedError
from warpwright.isa.machine_code import FIRST_FERMI, FIRST_MAXWELL
from warpwright.isa.nv50.decode import ARCHES as NV50
from warpwright.isa.program import Program
from warpwright.session import session
from warpwright.toolchain.demangle import plain_name
from warpwright.tools.debugger.execution import DebuggedExecution, Stop
from warpwright.tools.debugger.goals import Command
from warpwright.tools.debugger.kept_settings import Kept


def handles(arch: int) -> bool:
    """Whether the debugger handles what programs of an architecture become: machine code that it can print, with source lines."""
    return arch >= FIRST_MAXWELL or arch in NV50


def _refuse(program: Program) -> None:
    if handles(program.arch):
        return
    lacks = "PTX that stands for machine code" if program.arch >= FIRST_FERMI else "machine code without source lines"
    chips = ", ".join(name for name in chip_names() if handles(load_chip(name).arch))
    raise UnsupportedError(
        f"the debugger cannot stop in kernel {plain_name(program.name)}: its chip ({program.architecture}) runs {lacks}; "
        f"choose one of {chips} (--gpu, or ww.GPU)"
    )


class FrontEnd(Protocol):
    """Shows stops and gets commands, in the thread that launches."""

    def launched(self, execution: DebuggedExecution) -> None:
        """A launch begins."""

    def stopped(self, execution: DebuggedExecution, stop: Stop) -> Command:
        """Show a stop; returns what comes next."""

    def ended(self, execution: DebuggedExecution) -> None:
        """A launch is over."""


class Debugger:
    """One for a process.

    Args:
        state: what a process before left: breakpoints, and where launches stop.
    """

    def __init__(self, front_end: FrontEnd, state: Kept | None = None) -> None:
        self.front_end = front_end
        self.state = state if state is not None else Kept()
        self.breakpoints = self.state.breakpoints
        self.pausing = False
        self.stops_at_launches = self.state.stops_at_launch
        self.launches = 0
        self.current: DebuggedExecution | None = None
        """The launch that runs or has stopped."""

    def execution(
        self, loaded: LoadedKernel, context: LaunchContext, resident_blocks: int, ptx: str | None
    ) -> DebuggedExecution:
        """The execution of a launch.

        Raises:
            UnsupportedError: the debugger does not handle the code of the kernel's chip.
        """
        _refuse(loaded.program)
        if loaded.interpreted is None:
            loaded.interpreted = Kernel(loaded.program, lowered_of(loaded))
        self.launches += 1
        return DebuggedExecution(context, loaded.interpreted, resident_blocks, self, self.launches - 1, ptx)

    # --- what an execution asks ------------------------------------------------------------------------
    def launched(self, execution: DebuggedExecution) -> bool:
        self.current = execution
        self.front_end.launched(execution)
        stops, self.stops_at_launches = self.stops_at_launches, False
        return stops or self.state.every_launch

    def stopped(self, execution: DebuggedExecution, stop: Stop) -> Command:
        self.pausing = False
        return self.front_end.stopped(execution, stop)

    def ended(self, execution: DebuggedExecution) -> None:
        self.current = None
        self.front_end.ended(execution)

    # --- from outside ----------------------------------------------------------------------------------
    def pause(self) -> None:
        """Stop the launch that runs before its next instruction, or the next launch at its beginning."""
        self.pausing = True


@contextmanager
def debugging(debugger: Debugger, interruptible: bool = True) -> Iterator[None]:
    """Launches of this process are the debugger's within the block.

    Args:
        interruptible: Ctrl-C pauses a launch that runs.
    """
    main = interruptible and threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if main else None

    def interrupt(number: int, frame: FrameType | None) -> None:
        if debugger.current is None or debugger.pausing:
            raise KeyboardInterrupt
        debugger.pause()

    session.debugger = debugger
    if main:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        session.debugger = None
        if main:
            signal.signal(signal.SIGINT, before)
