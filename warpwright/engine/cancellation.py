"""Lets the host stop a launch whose kernel does not run yet: its analysis, and code generation in another process (``jit/compiling_process.py``).

A running kernel looks at its launch structure itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from warpwright.engine.execute import Cancelled

_thread = threading.local()


@contextmanager
def cancellable(is_cancelled: Callable[[], bool]) -> Iterator[None]:
    """In this thread and block, :func:`check_cancelled` asks ``is_cancelled``."""
    before = getattr(_thread, "is_cancelled", None)
    _thread.is_cancelled = is_cancelled
    try:
        yield
    finally:
        _thread.is_cancelled = before


def check_cancelled(completion: str = "") -> None:
    """Return unless the host has stopped the launch of this thread.

    Args:
        completion: what becomes of the work that is given up; empty if it is lost.

    Raises:
        Cancelled: with ``completion`` in the place of positions, because no warp has begun.
    """
    is_cancelled = getattr(_thread, "is_cancelled", None)
    if is_cancelled is not None and is_cancelled():
        raise Cancelled(completion)
