"""Whether a thread is within one of NVIDIA's compiler libraries on this package's behalf.

NVRTC and nvJitLink initialise a CUDA driver that the process has loaded, although they need no device.  The simulated driver keeps its
devices from a program's first call on, so that it must tell these calls from the program's own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_thread = threading.local()


@contextmanager
def within_compiler() -> Iterator[None]:
    """This thread calls a compiler library."""
    before = is_within_compiler()
    _thread.within = True
    try:
        yield
    finally:
        _thread.within = before


def is_within_compiler() -> bool:
    """Whether it does."""
    return getattr(_thread, "within", False)
