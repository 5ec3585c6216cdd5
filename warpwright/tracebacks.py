"""Tracebacks of errors about a user's program, which end at the program's own call."""

from __future__ import annotations

import os
from typing import TypeVar

Raised = TypeVar("Raised", bound=BaseException)
TRACEBACK = "WARPWRIGHT_TRACEBACK"
"""The variable of the environment that keeps all frames where it is ``full``."""


def without_own_frames(error: Raised) -> Raised:
    """Drop the frames of this package, unless ``WARPWRIGHT_TRACEBACK=full``; to be raised."""
    return error if os.environ.get(TRACEBACK) == "full" else error.with_traceback(None)
