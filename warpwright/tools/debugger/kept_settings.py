"""What the debugger keeps when the program that it debugs starts again, in a separate process: breakpoints, displays, commands to come."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from warpwright.tools.debugger.breakpoints import Breakpoint, Breakpoints


@dataclass(slots=True)
class Kept:
    """The debugger's state, which outlives the program's process in a file."""

    breakpoints: Breakpoints = field(default_factory=Breakpoints)
    displays: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Format and expression of each, by number."""
    variables: dict[str, int | float] = field(default_factory=dict)
    """Convenience variables: ``$name``."""
    given: list[str] = field(default_factory=list)
    """Commands that are carried out before any is read."""
    arguments: list[str] | None = None
    """Arguments of the program that replace those of the command line."""
    stops_at_launch: bool = True
    """Stop before the first instruction of the first launch."""
    every_launch: bool = False
    """Stop before the first instruction of each launch."""
    list_lines: int = 10
    again: bool = False
    """The process has ended so that the program starts again."""
    quits: bool = False
    """The debugger ends with the process."""
    by_source: dict[str, list[Breakpoint]] = field(default_factory=dict)
    """An editor's breakpoints, by the path of their file; function breakpoints under the empty path."""
    configured: bool = False
    """The editor has set its breakpoints."""

    def save(self, path: Path) -> None:
        """Write it, at once as a whole."""
        whole = path.with_suffix(".new")
        whole.write_bytes(pickle.dumps(self))
        whole.replace(path)

    @classmethod
    def load(cls, path: Path) -> Kept:
        """Read what :meth:`save` wrote."""
        found = pickle.loads(path.read_bytes())
        assert isinstance(found, cls)
        return found

    def start_again(self, stops_at_launch: bool) -> None:
        """Prepare for the program's next process: no breakpoint has been hit, and addresses of memory are not known."""
        self.again, self.quits, self.stops_at_launch = True, False, stops_at_launch
        for one in self.breakpoints.breakpoints:
            one.ignore, one.hits = max(0, one.ignore - one.hits), 0
        for watched in self.breakpoints.watchpoints:
            watched.hits, watched.placed = 0, False


def supervise(run: Callable[[], int], path: Path, idle: Callable[[int], bool] | None) -> int:
    """Run the program, and again while the debugger asks for it; returns the exit code of its last process.

    Args:
        run: runs the program in a separate process, with the state in ``path``, and returns its exit code.
        idle: reads commands once the program has ended with an exit code; True where it is to start again.
    """
    while True:
        code = run()
        kept = Kept.load(path)
        if kept.quits:
            return 0
        if not kept.again:
            if idle is None or not idle(code):
                return code
            kept = Kept.load(path)
        kept.again = False
        kept.save(path)


def forked() -> int | None:
    """Go on in a child process: returns None there, and the child's exit code in this one, which waits for it and ignores Ctrl-C."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        return None
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        signal.signal(signal.SIGINT, before)
    # A shell says 128 + the signal.
    return code if code >= 0 else 128 - code


def leave() -> None:
    """End this process at once, so that the program starts again: nothing of the program runs before."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)
