"""Lets the host stop a launch before its kernel runs: during its analysis, and during code generation in another process (``jit/compiling_process.py``).

A running kernel checks its launch structure itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warpwright.engine.execute import Cancelled

_thread = threading.local()


@contextmanager
def cancellable(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """Within the ``with`` block, :func:`check_cancelled` of this thread calls ``is_cancelled``."""
    before = getattr(_thread, "is_cancelled", None)
    _thread.is_cancelled = is_cancelled
    try:
        yield
    finally:
        _thread.is_cancelled = before


def check_cancelled(completion: str = "") -> None:
    """Return unless the host has stopped the launch of this thread.

    Args:
        completion: what happens to the work that is given up; empty if it is lost.

    Raises:
        Cancelled: with ``completion`` in the place of positions, because no warp has begun.
    """
    is_cancelled = getattr(_thread, "is_cancelled", None)
    if is_cancelled is not None and is_cancelled():
        raise Cancelled(completion)
