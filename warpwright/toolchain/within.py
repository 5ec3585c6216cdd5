"""Whether a thread is inside one of NVIDIA's compiler libraries on behalf of this package.

NVRTC and nvJitLink initialise the CUDA driver if the process has loaded one, although they need no device. The simulated driver fixes its devices at a
program's first call, so it must distinguish these calls from the program's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def within_compiler() -> Iterator[None]:
    """Mark this thread as inside a compiler library."""
    before = is_within_compiler()
    _thread.within = True
    try:
        yield
    finally:
        _thread.within = before


def is_within_compiler() -> bool:
    """Whether this thread is inside a compiler library."""
    return getattr(_thread, "within", False)
