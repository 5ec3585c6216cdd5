"""Compiled results on disk, so that a program compiles once on a machine.

An entry is one file: a 40-byte header (magic, then the SHA-256 of the payload) and the payload.  It is
written to a temporary file in the same folder and renamed, so that a reader in another process sees a
whole entry or none.  If several processes need an absent entry at the same time, one of them creates it (:meth:`DiskCache.made`). The file's modification time
records the last use; when the folder grows past its bound, the least recently used entries are removed first.

The folder is ``$WARPWRIGHT_CACHE`` or the platform's cache folder (``$XDG_CACHE_HOME/warpwright`` or
``~/.cache/warpwright``).  A folder that cannot be written is not an error: results are then not kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from warpwright.environment import mib, setting

_MAGIC = b"WWCACHE1"
_HEADER_BYTES = len(_MAGIC) + 32
_PRUNE_EVERY = 64
"""Check the folder's size once in this many puts, because listing it costs more than writing."""

_MOST_WAIT_SECONDS = 600.0
"""Time after which a process creates an entry itself although another process is creating it."""

DEFAULT_LIMIT_BYTES = 512 << 20
"""Upper bound of the folder; ``$WARPWRIGHT_CACHE_MIB`` sets another."""


def default_folder() -> Path:
    """``$WARPWRIGHT_CACHE``, or ``warpwright`` in the platform's cache folder."""
    chosen = os.environ.get("WARPWRIGHT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "warpwright"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "warpwright"


def cache_key(parts: Iterable[str | bytes]) -> str:
    """SHA-256 (hex) of a sequence of parts; the length of each part is hashed too, so that different sequences have different input."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def default_cache() -> DiskCache:
    """The cache in :func:`default_folder`; one object per folder and bound."""
    return _shared_cache(default_folder(), _limit_from_environment())


@lru_cache(maxsize=16)
def _shared_cache(folder: Path, limit_bytes: int) -> DiskCache:
    return DiskCache(folder, limit_bytes)


def _limit_from_environment() -> int:
    return setting("CACHE_MIB", mib, DEFAULT_LIMIT_BYTES)


class DiskCache:
    """Bytes by (kind, key), in one folder; safe for several processes and threads at once.

    ``kind`` is a short word (``ptx``, ``cubin``, ``object``) and becomes a subfolder; ``key`` is a
    hexadecimal digest that covers everything the value depends on (:func:`cache_key`).
    """

    def __init__(self, folder: Path | None = None, limit_bytes: int | None = None) -> None:
        self.folder = folder if folder is not None else default_folder()
        self.limit_bytes = limit_bytes if limit_bytes is not None else _limit_from_environment()
        self._puts = 0

    def path(self, kind: str, key: str) -> Path:
        """The file of an entry, whether or not it exists."""
        return self.folder / kind / key[:2] / key

    def get(self, kind: str, key: str) -> bytes | None:
        """The value, or None if it is absent or its file is damaged; a damaged file is removed."""
        path = self.path(kind, key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        payload = data[_HEADER_BYTES:]
        if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(payload).digest() != data[len(_MAGIC) : _HEADER_BYTES]:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        # A read-only cache still serves entries; only their order of use is not recorded.
        with contextlib.suppress(OSError):
            os.utime(path)
        return payload

    def put(self, kind: str, key: str, value: bytes) -> None:
        """Store a value. If the folder cannot be written, nothing is stored and nothing raised."""
        path = self.path(kind, key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
        except OSError:
            return
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(value).digest() + value)
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            return
        if self._puts % _PRUNE_EVERY == 0 or len(value) * _PRUNE_EVERY > self.limit_bytes:
            self.prune()
        self._puts += 1

    def made(self, kind: str, key: str, make: Callable[[], bytes]) -> bytes:
        """The value; if it is absent, the result of ``make``, which is kept.

        If several processes and threads request it at once, one creates the value and the others wait.
        """
        value = self.get(kind, key)
        if value is not None:
            return value
        with self.alone(kind, key):
            value = self.get(kind, key)
            if value is None:
                value = make()
                self.put(kind, key, value)
            return value

    def awaited(self, kind: str, key: str) -> bytes | None:
        """The value, once the process that creates it, if there is one, has finished; None if there is none then."""
        value = self.get(kind, key)
        if value is not None:
            return value
        with self.alone(kind, key):
            return self.get(kind, key)

    def claim(self, kind: str, key: str) -> int | None:
        """The lock of an entry as a file descriptor, which a child process can inherit and hold; None if another process holds it.

        The holder ends it with :meth:`release`, or by ending.

        Raises:
            OSError: the folder cannot be written, or its file system has no locks.
        """
        path = self._lock_path(kind, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            if isinstance(error, BlockingIOError):
                return None
            raise
        return handle

    def release(self, kind: str, key: str, handle: int) -> None:
        """Release the lock that :meth:`claim` returned."""
        # A process that waits for the file removed here finds the entry when it gets the lock.
        with contextlib.suppress(OSError):
            self._lock_path(kind, key).unlink()
        os.close(handle)

    def _lock_path(self, kind: str, key: str) -> Path:
        return self.folder / "locks" / f"{kind}-{key}"

    @contextlib.contextmanager
    def alone(self, kind: str, key: str) -> Iterator[None]:
        """Hold the lock of an entry, which may also be kept elsewhere; the system releases it when the process ends.

        The block runs without the lock if the folder cannot be written, its file system has no locks, or the wait is too long.
        """
        path = self._lock_path(kind, key)
        handle = -1
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if handle >= 0:
                _lock(handle)
            yield
        finally:
            if handle >= 0:
                self.release(kind, key, handle)

    def prune(self) -> int:
        """Remove the least recently used entries until the folder is within its bound.

        Returns how many files were removed.
        """
        entries = []
        for path in self.folder.glob("*/*/*"):
            # Another process may remove a file between the listing and the query.
            with contextlib.suppress(OSError):
                status = path.stat()
                entries.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        removed = 0
        for _, size, path in sorted(entries, key=lambda e: e[0]):
            if total <= self.limit_bytes:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
            total -= size
        return removed

    def clear(self) -> None:
        """Remove every entry."""
        for path in self.folder.glob("*/*/*"):
            with contextlib.suppress(OSError):
                path.unlink()


def _lock(handle: int) -> None:
    """Lock an open file, or return without the lock after ``_MOST_WAIT_SECONDS`` or where files cannot be locked."""
    until = time.monotonic() + _MOST_WAIT_SECONDS
    while time.monotonic() < until:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            return
        else:
            return
