"""Settings of this process, which the command line sets for the program that it runs; library code never changes them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from warpwright.errors import TimedOutError

if TYPE_CHECKING:
    from warpwright.engine.kernels import Debugs
    from warpwright.faults import DeviceFaults
    from warpwright.run import Progress, Run
    from warpwright.tools.checks import Checker, Finding


class HostTime(Protocol):
    """The simulated clock that a program reads in place of its host's (``driver/host_clock.py``)."""

    ps: int
    simulated: bool

    def wait_until(self, ps: int) -> None:
        """Advance the host's clock to the end of something for which it waits."""


class SavesLaunches(Protocol):
    """Leaves checkpoints of launches (``checkpoint.py``)."""

    def run(self, launcher: Any, launch: Any, advance: Callable[[], bool]) -> None:
        """Run a prepared launch by calling ``advance`` until it is False."""


@dataclass(frozen=True, slots=True)
class FailedLaunch:
    """A launch that ended with an error, which the program sees only as a result code."""

    how: str
    """The first line of the error's message, which names the kernel."""
    hangs: bool
    """Whether a card would never have ended it."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A call of a communicator whose bytes the host moved, so that no kernel of it is among the launches."""

    name: str
    """``AllReduce``; several calls of one group are joined."""
    gpu_number: int
    ranks: int
    size_bytes: int
    """Total of the calls' counts."""
    seconds: float
    """Simulated time; 0 without timing."""


TIMED_OUT = 124
"""Exit code of a program whose time limit has passed, as the command ``timeout`` gives it."""


def chips_named(text: str | None) -> list[str | None]:
    """Split the text of ``--gpu`` at commas, one chip per device; without a text there is one device of the default chip.

    Files become absolute paths, which remain valid if the program or its children change folders.
    """
    names = [name.strip() for name in text.split(",")] if text else [""]
    return [
        os.path.abspath(name) if name.endswith(".toml") and os.path.isfile(name) else name or None for name in names
    ]


def known_chips(text: str | None) -> list[str | None]:
    """:func:`chips_named`, with each chip checked before the program starts.

    Raises:
        ChipError: an unknown chip, or more devices than a process can have.
    """
    from warpwright.chips import ChipError, load_chip
    from warpwright.engine.host_mappings import MOST_DEVICES
    from warpwright.system import machine_names

    names = chips_named(text)
    if len(names) > MOST_DEVICES:
        raise ChipError(f"{len(names)} devices: a process has at most {MOST_DEVICES}")
    for name in names:
        if name is not None:
            if name in machine_names():
                raise ChipError(
                    f"no chip is called {name!r}: it is a machine; use --system {name}, or ww.System({name!r})"
                )
            load_chip(name)
    return names


def _installed_clock() -> HostTime | None:
    """The clock with which this process was started (``driver/site/sitecustomize.py``)."""
    return getattr(sys.modules.get("_warpwright_host_clock"), "clock", None)


@dataclass(slots=True)
class Session:
    """Settings that apply to every GPU of this process."""

    system: str | None = None
    """Machine whose GPUs are the devices of the program, whatever machine it asks for."""
    chip: str | None = None
    """Chip that every ``GPU(...)`` becomes, whatever the program asks for."""
    timing: str | None = None
    caches: str | None = None
    """How timed launches of every GPU begin: ``cold`` or ``kept``, whatever the program asks for."""
    memory_faults: str | None = None
    """Where accesses of every GPU fault: outside their ``allocation`` or their ``page``, whatever the program asks for."""
    simulates_host_clock: bool = False
    """Whether the program reads simulated time from its host's clocks."""
    host_clock: HostTime | None = field(default_factory=lambda: _installed_clock())
    """The simulated clock that a Python program in this process reads."""
    threads: int | None = None
    """Host threads of every GPU that asks for no number."""
    check: str | None = None
    """Checks that every GPU runs."""
    check_level: str | None = None
    """Lowest grade of what they tell."""
    inject: str | None = None
    """Errors of the hardware that every GPU meets: the text of ``--inject``."""
    devices_with_errors: list[DeviceFaults] = field(default_factory=list)
    """Of every GPU that ``inject`` was for, in order."""
    checkpoints: SavesLaunches | None = None
    """Where launches of every GPU are saved in the middle."""
    notes_origins: bool = False
    """Whether each launch notes the ranges, the module and the operator that it belongs to."""
    library_model: str | None = None
    """Whose times launches from the drop-in libraries have: their own kernels', or ``nvidia`` (``library_times.py``)."""
    record: str | None = None
    """File for the command stream of the program's graphics."""
    in_command: bool = False
    """Whether the command's program runs in this process, rather than in one of its own."""
    wants_frame_page: bool = False
    """Whether the command writes a page of what the program draws."""
    times_checked: bool = False
    """Whether launches are timed after they were checked, on GPUs whose timing is off as well."""
    checkers: list[Checker] = field(default_factory=list)
    """Of every GPU that was made with checks, in order."""

    def findings(self) -> list[Finding]:
        """The findings of all checks of this process."""
        return [finding for checker in self.checkers for finding in checker.findings]

    debugger: Debugs | None = None
    """Executes every launch, without time; launches run in the thread that makes them."""
    deadline: float | None = None
    """When a time limit ends the program or the test, in seconds of ``time.monotonic()``; None without one."""
    timed_out: bool = False
    """Whether the deadline has passed."""
    stopped_at: str = ""
    """Where the warps of the launch were that Ctrl-C or the deadline stopped."""

    def check_deadline(self) -> None:
        """Raise TimedOutError, once, when the deadline has passed."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.deadline = None
            self.timed_out = True
            raise TimedOutError

    @contextmanager
    def time_limit(self, seconds: float | None) -> Iterator[None]:
        """Raise TimedOutError in the main thread if the block takes longer; None means no limit.

        A launch in another thread checks the deadline itself.
        """
        self.timed_out, self.stopped_at = False, ""
        if seconds is None:
            yield
            return
        self.deadline = time.monotonic() + seconds
        main = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
        if main:
            before = signal.signal(signal.SIGALRM, lambda *_: self.check_deadline())
            # A moment after the deadline, so that it has passed when the handler looks.
            signal.setitimer(signal.ITIMER_REAL, seconds + 0.01)
        try:
            yield
        finally:
            self.deadline = None
            if main:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)

    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the chip that every GPU gets changed, on top of its own what-if values."""
    launched: bool = False
    """Whether the Python file that ran last had launched a kernel."""
    failed_here: int = 0
    """Number of launches of this process that ended with an error."""
    failed_launches: list[FailedLaunch] = field(default_factory=list)
    """Launches that the driver ended with an error, of the program and of the processes that it started."""
    collectives: list[Collective] = field(default_factory=list)
    """Likewise, what communicators moved through the host's memory."""
    replaced: set[str] = field(default_factory=set)
    """Chips that the program asked for and did not get."""
    machines: set[str] = field(default_factory=set)
    """Machines that the program made (``ww.System``) although a chip was asked for, which does not replace their GPUs."""
    on_launch: Callable[[Run], None] | None = None
    """Called with each finished launch."""
    on_progress: Callable[[Progress], None] | None = None
    """Called a few times a second during a long launch; without one, a terminal shows a line."""


session = Session()
