"""Calls of compiler libraries that Ctrl-C or a time limit can interrupt.

Python handles signals between its own instructions, so a library call that takes minutes delays them. Such a call runs in its own thread while the main
thread waits. After a signal, the library is asked to stop; if it does not stop soon, its result is discarded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")
POLL_SECONDS = 0.05
MOST_WAIT_SECONDS = 0.5
"""Time that an interrupted library has to stop; NVRTC checks at least as often, except in its last phase, the assembler."""
STACK_BYTES = 256 << 20
"""Address space of the thread's stack: compilers recurse as deep as expressions are nested."""
_making = threading.Lock()


class Interruptible(Generic[Result]):
    """A call that can be interrupted.

    Args:
        work: the call. Its argument returns whether to stop; once it returns True, the result is not used.
    """

    def __init__(self, work: Callable[[Callable[[], bool]], Result]) -> None:
        self._work = work
        self._gives_up = threading.Event()
        self._ended = threading.Event()
        self._result: Result
        self._error: BaseException | None = None

    def run(self) -> Result:
        """Make the call: directly in threads other than the main one, which receive no signals."""
        if threading.current_thread() is not threading.main_thread():
            return self._work(self._gives_up.is_set)
        try:
            self._start()
            while not self._ended.wait(POLL_SECONDS):
                pass
        except BaseException:
            self._gives_up.set()
            self._ended.wait(MOST_WAIT_SECONDS)
            raise
        if self._error is not None:
            raise self._error
        return self._result

    def _start(self) -> None:
        with _making:
            before = threading.stack_size(STACK_BYTES)
            try:
                threading.Thread(target=self._call, name="warpwright compiler", daemon=True).start()
            finally:
                threading.stack_size(before)

    def _call(self) -> None:
        try:
            self._result = self._work(self._gives_up.is_set)
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()
