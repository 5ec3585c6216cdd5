"""The thread that runs all launches: the timing model's helper threads belong to the thread that first started them.

A launch is passed to it through two locks, which costs a tenth of a thread pool's futures; launches of several threads
take turns.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

POLL_SECONDS = 0.05
STACK_BYTES = 256 << 20
"""Address space of the thread's stack: LLVM's passes recurse as deep as a kernel's code is long (30,000 instructions ended a process
whose threads have 8 MiB)."""


class Worker:
    """A thread that executes one piece of work at a time."""

    def __init__(self) -> None:
        self.busy = False
        self._turn = threading.Lock()
        self._start = threading.Lock()
        self._done = threading.Lock()
        self._start.acquire()
        self._work: Callable[[], None] = lambda: None
        before = threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=self._loop, name="warpwright launch", daemon=True).start()
        finally:
            threading.stack_size(before)

    def _loop(self) -> None:
        while True:
            self._start.acquire()
            try:
                self._work()
            finally:
                self.busy = False
                self._done.release()

    def begin(self, work: Callable[[], None]) -> None:
        """Start ``work``, which must not raise, once the work of other threads has ended."""
        self._turn.acquire()
        self._done.acquire(blocking=False)
        self._work = work
        self.busy = True
        self._start.release()

    def finished(self, timeout: float) -> bool:
        """Wait for a while; returns whether the work is done.  Ctrl-C is handled."""
        return self._done.acquire(timeout=timeout) or not self.busy

    def wait(self) -> None:
        """Wait for the end of the work, ignoring any number of Ctrl-C."""
        while self.busy:
            try:
                self.finished(POLL_SECONDS)
            except KeyboardInterrupt:
                continue

    def end(self) -> None:
        """Wait for the end of the work, then let the next thread have its turn."""
        self.wait()
        self._work = lambda: None
        self._turn.release()


_worker: Worker | None = None
_making = threading.Lock()


def worker() -> Worker:
    """This process's worker."""
    global _worker
    if _worker is None:
        with _making:
            if _worker is None:
                _worker = Worker()
    return _worker


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _worker, _making
    _worker, _making = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
