"""Entries in two tiers: the first process on a machine runs code that LLVM has hardly optimised until the optimised code is on disk.

LLVM's passes take most of the time of compiling an entry of hundreds of functions.  Without most of them, LLVM takes a fifth of the time, and the code takes 1.4 times as long (``bench.model_tiers``).
Both tiers give the same results and share all state, so a caller passes from one to the other between two calls.

One process on a machine, apart from the one that needs the code, compiles both tiers, the quick one first.  It holds the locks of both entries on disk
(``toolchain/cache.py``) from its beginning, so no other is started, and the system releases them however it ends.  It is not a child of its starter, which may end
first: the next process then finds the optimised code.  It has no terminal and none of its starter's pipes, is not in its process group, and runs at a lower priority
while it optimises.  Entries are written to the disk atomically.

``WARPWRIGHT_BACKGROUND=0`` turns the first tier off: the process that first needs the code compiles and optimises it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import IO, Any

from warpwright.environment import flag, setting
from warpwright.messages import report_compiling
from warpwright.native import direct, intrinsics
from warpwright.native.direct import FULL, KIND, QUICK, code_key, object_code
from warpwright.toolchain.cache import DiskCache, default_cache, default_folder

NICENESS = 5
"""Of the process while it optimises: a third of the share of a process that competes for its core, so that a launch on all cores gets the optimised code within a minute."""
_DETACH = "import os; os.fork() and os._exit(0); os.setpgid(0, 0); "
"""The forked process has no parent that must wait for it, and Ctrl-C does not reach it."""
_START = "from warpwright.native.tiered import main; main()"


@dataclass(frozen=True)
class Named:
    """An entry that need not be imported: its module, name and file, what determines its code, and what messages call it."""

    module: str
    name: str
    file: Path
    sources: tuple[Path, ...]
    what: str

    def key(self, tier: str) -> str:
        """The key on disk of its machine code."""
        return code_key(self.name, self.file, self.sources, tier)


def in_background() -> bool:
    """Whether other processes may be started to compile."""
    return setting("BACKGROUND", flag, True) and bool(sys.executable)


def begin(entry: Named) -> bool:
    """Start the process that compiles an entry's missing tiers, unless there is one; returns whether it was started.

    Raises:
        OSError: the cache cannot be written, or the process cannot be started.
    """
    cache, full = default_cache(), entry.key(FULL)
    if cache.path(KIND, full).is_file():
        return False
    quick = entry.key(QUICK)
    claims: dict[str, int] = {}  # locks by the keys of their entries
    for key in (full, quick):
        handle = None if cache.path(KIND, key).is_file() else cache.claim(KIND, key)
        if handle is None:
            break
        claims[key] = handle
    # Another process may have finished since the first look.
    if full not in claims or cache.path(KIND, full).is_file():
        return _give_up(cache, claims)
    if quick in claims:
        report_compiling(entry.what)
    try:
        _start(entry, list(claims.values()))
    except OSError:
        _give_up(cache, claims)
        raise
    for handle in claims.values():
        os.close(handle)  # the lock stays with the process, which has inherited the descriptor
    return True


def _give_up(cache: DiskCache, claims: Mapping[str, int]) -> bool:
    """Release locks; nothing was started."""
    for key, handle in claims.items():
        cache.release(KIND, key, handle)
    return False


def _environment() -> dict[str, str]:
    """The environment of the process that compiles: without variables that this package sets for programs that it runs, such as the simulated clock."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WARPWRIGHT_") and k != "LD_PRELOAD"}
    own = {name: os.environ[name] for name in ("WARPWRIGHT_CACHE_MIB", "WARPWRIGHT_CPU") if name in os.environ}
    return {**kept, **own, "WARPWRIGHT_CACHE": str(default_folder().resolve())}


def _start(entry: Named, handles: Sequence[int]) -> None:
    start_detached(_START, (entry.module, entry.name), handles)


def start_detached(program: str, words: Sequence[str], handles: Sequence[int], stdin: IO[bytes] | None = None) -> None:
    """Start a process that compiles and may outlive this one.

    Args:
        program: Python code.
        words: its command line; the numbers of the handles follow.
        handles: file descriptors that it inherits.
        stdin: what it reads, by default nothing.

    Raises:
        OSError: the process cannot be started.
    """
    # The working folder, which Python searches first, is the package's: the program's may hold modules of any name.
    package = Path(__file__).parent.parent.parent
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-c", _DETACH + program, *words, *map(str, handles)],
        cwd=package,
        env=_environment(),
        pass_fds=handles,
        stdin=quiet if stdin is None else stdin,
        stdout=quiet,
        stderr=quiet,
    )
    # The process forks and ends at once; the thread reaps it.
    threading.Thread(target=process.wait, daemon=True).start()


def main() -> None:
    """Compile the entry that the command line names: its module, its name, then the locks of the optimised and of the quick code."""
    module, name, *handles = sys.argv[1:]
    optimising, *compiling = map(int, handles)
    entry: TieredEntry = getattr(importlib.import_module(module), name)
    entry.compile_tiers(optimising, *compiling)


class TieredEntry(direct.Entry):
    """An entry whose quick code is taken where there is no optimised code yet."""

    def __init__(
        self, function: FunctionType, what: str, sources: tuple[Path, ...] = (), parts: Sequence[Any] = ()
    ) -> None:
        super().__init__(function, what, sources, parts)
        self.tier = ""
        """Of the code that calls take now; empty while there is none."""
        self._full: Path | None = None  # where the optimised code will be

    def named(self) -> Named:
        """What a process needs to know to compile it."""
        function = self.py_func
        file = Path(function.__code__.co_filename)
        return Named(function.__module__, function.__name__, file, self.sources, self.what)

    def prepare(self) -> None:
        """Load its optimised code: from the disk, from a process that is compiling it, or compiled now."""
        with direct._lock:
            if self.tier != FULL:
                self._take(FULL, super()._load())

    def compile_tiers(self, optimising: int, compiling: int | None = None) -> None:
        """Compile what is missing on disk, and release the locks of both tiers."""
        cache = default_cache()
        text = self.translated()
        if compiling is not None:
            cache.put(KIND, self.key(QUICK), object_code(text, QUICK))
            cache.release(KIND, self.key(QUICK), compiling)
        os.nice(NICENESS)
        cache.put(KIND, self.key(FULL), object_code(text))
        cache.release(KIND, self.key(FULL), optimising)

    def _loaded(self) -> Callable[..., int]:
        if self.tier != FULL and (self._full is None or self._full.is_file()):
            with direct._lock:
                if self._full is None:
                    self._load()
                elif self.tier != FULL:
                    self._optimised()
        assert self._call is not None
        return self._call

    def _optimised(self) -> bool:
        """Take the optimised code from the disk; returns whether it was there."""
        code = default_cache().get(KIND, self.key())
        if code is not None:
            self._take(FULL, self._callable(code))
        return code is not None

    def _load(self) -> Callable[..., int]:
        self._full = default_cache().path(KIND, self.key())
        if self._optimised():
            self.stats.cache_hits[self.py_func.__name__] += 1
        elif (code := self._quick_code()) is not None:
            self.stats.cache_hits[self.py_func.__name__] += 1
            self._take(QUICK, self._callable(code))
        else:
            self._take(FULL, super()._load())
        assert self._call is not None
        return self._call

    def _quick_code(self) -> bytes | None:
        """The first tier's code, once a process has compiled it; None where no process may be started, or it has failed."""
        if not in_background():
            return None
        with contextlib.suppress(OSError):
            begin(self.named())
            return default_cache().awaited(KIND, self.key(QUICK))
        return None

    def _take(self, tier: str, call: Callable[..., int]) -> None:
        # Other host threads of a launch may still run the code of the other tier, which stays in memory.
        self._call, self.tier = call, tier


def entry(function: Any, *, what: str, sources: tuple[Path, ...] = (), parts: Sequence[Any] = ()) -> Any:
    """As ``direct.entry``, in two tiers."""
    if intrinsics.BOUNDSCHECK:
        return direct.entry(function, what=what, sources=sources)
    return TieredEntry(function, what, sources, parts)
