"""Machine code of a kernel in two tiers: generated quickly at first, optimised once the kernel has run for as long as that takes.

Both are generated from one text, so they have the same resume points and save areas, and a warp that one has stopped continues in the other.
Optimised code therefore replaces quick code in the middle of a launch.  Code that writes trace records stays quick: the timing model, which reads them, takes
a hundred times as long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from warpwright.engine.launch_thread import STACK_BYTES

SECONDS_PER_CHARACTER = 1e-6
"""Time in which a character of a module's text is written and becomes optimised code: 1.0 to 2.0 µs (``python -m bench.code_tiers``)."""


class Improvement:
    """Generates the optimised code of a kernel in a thread of its own, once.

    Args:
        make: generates the code, and makes launches that begin from now on use it.
        patience_seconds: how long quick code runs before that.
    """

    def __init__(self, make: Callable[[], None], patience_seconds: float) -> None:
        self._make = make
        self.patience_seconds = patience_seconds
        self.ran_seconds = 0.0
        """Host time of the launches that have ended."""
        self._thread: threading.Thread | None = None
        self._begun = threading.Lock()

    def begin_if_due(self, running_seconds: float = 0.0, then: Callable[[], None] = lambda: None) -> None:
        """Begin if quick code has run for long enough; a launch that runs calls it with the time since its start, and ``then`` with the code."""
        if self.ran_seconds + running_seconds < self.patience_seconds or not self._begun.acquire(blocking=False):
            return

        def work() -> None:
            self._make()
            then()

        # Not a daemon: a process must not end while LLVM works.
        self._thread = threading.Thread(target=work, name="warpwright optimiser", daemon=False)
        before = threading.stack_size(STACK_BYTES)
        try:
            self._thread.start()
        finally:
            threading.stack_size(before)

    def wait(self) -> None:
        """Wait until the optimised code is there, if it has begun to be generated."""
        if self._thread is not None:
            self._thread.join()
