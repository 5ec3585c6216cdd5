"""A folder of results that one process at a time writes to."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


def hold(folder: Path, what: str, error: type[Exception], parts: Path | None = None) -> IO[str]:
    """Make a folder, and hold it until the file that comes back is closed; the system releases it when the process ends.

    Args:
        what: ``sweep`` or ``campaign``, for messages.
        error: raised where another process has the folder, or it cannot be written.
        parts: a folder inside it, made too.
    """
    try:
        (parts or folder).mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise error(f"another {what} is writing to {folder}: wait for it, or give another --output") from None
    except OSError as refusal:
        raise error(f"cannot write to {folder}: {refusal.strerror or refusal}") from None
    return lock
