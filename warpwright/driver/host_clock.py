"""The simulated clock of the host: the time that a program reads from its host's clocks under ``--host-clock simulated``.

The host's own work takes no time; its waits, its launch and synchronisation calls, and its sleeps do.  Native programs
read it through ``clock_library.py``, Python programs through the functions of ``time`` that :func:`install` replaces.
Modules of the standard library and of this package keep the host's clock, on which their waits depend, except
those that read it for the program (``_ASKERS``).

Only the standard library is imported: ``site/sitecustomize.py`` loads this file into Pythons that do not have the package.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

SYMBOL, WORDS = "warpwright_clock", 16
STATE, PS, READ_PS, WALL_NS, MONOTONIC_NS, RANGES = 1, 4, 5, 6, 7, 8
"""As ``clock_library.py`` has them."""
BEGUN = 2
READING_PS = 28_000
"""Duration of one clock reading: 27 to 30 ns on an H200's host (``bench/data/h200/host_calls.json``); what matters is
that it is not zero."""
_OWN = "warpwright"
_ASKERS = frozenset({"timeit", "__main__", "warpwright.studies.timing_methods"})
"""Modules of the standard library and of this package that read a clock for the program."""
_REPLACED = ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "sleep")


class HostClock:
    """Simulated time of the host, in picoseconds.

    Args:
        words: shared with native code; without, the clock is this process's Python's alone.
        simulated: whether the program reads it; else it only keeps when what the host waited for had ended.
    """

    def __init__(self, words: Any = None, simulated: bool = False) -> None:
        self.simulated = simulated
        self._words = (ctypes.c_int64 * WORDS)() if words is None else words
        if self._words[STATE] != BEGUN:
            self._words[WALL_NS], self._words[MONOTONIC_NS] = time.time_ns(), time.monotonic_ns()
            self._words[STATE] = BEGUN
        if simulated:
            self._words[READ_PS] = READING_PS

    @property
    def ps(self) -> int:
        """Its time."""
        return int(self._words[PS])

    @ps.setter
    def ps(self, value: int) -> None:
        self._words[PS] = value

    def wait_until(self, ps: int) -> None:
        """Advance the clock to the end of something that the host waits for."""
        self.ps = max(self.ps, ps)

    def read_ns(self, wall: bool = False) -> int:
        """A reading of the wall clock, or of the monotonic clock."""
        self.ps += READING_PS
        return int(self._words[WALL_NS if wall else MONOTONIC_NS]) + self.ps // 1000

    def leave_out(self, ranges: list[tuple[int, int]]) -> None:
        """Exclude callers in these address ranges, which read the host's clocks."""
        for number, (low, high) in enumerate(ranges[: (WORDS - RANGES) // 2]):
            self._words[RANGES + 2 * number], self._words[RANGES + 2 * number + 1] = low, high


def shared_words() -> Any:
    """The words of the clock library that this process was started with; None without one."""
    try:
        return (ctypes.c_int64 * WORDS).in_dll(ctypes.CDLL(None), SYMBOL)
    except (OSError, ValueError, TypeError):
        return None


def interpreter_ranges() -> list[tuple[int, int]]:
    """Addresses of the file that holds the interpreter's code."""
    try:
        place = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            rows = [line.split(maxsplit=5) for line in maps]
    except OSError:
        return []
    spans: list[tuple[int, int, str]] = []
    for row in rows:
        low, _, high = row[0].partition("-")
        spans.append((int(low, 16), int(high, 16), row[5].strip() if len(row) > 5 else ""))
    name = next((path for low, high, path in spans if low <= place < high), "")
    own = [(low, high) for low, high, path in spans if path == name]
    return [(min(low for low, _ in own), max(high for _, high in own))] if name else []


def of_process() -> HostClock:
    """The clock of this process: the library's words where it was started with one."""
    words = shared_words()
    clock = HostClock(words, simulated=words is not None)
    if words is not None:
        clock.leave_out(interpreter_ranges())
    return clock


def _asks_for_program(depth: int = 2) -> bool:
    """Whether a reading belongs to the program itself, according to the calling module."""
    try:
        name = str(sys._getframe(depth).f_globals.get("__name__", ""))
    except ValueError:
        return True
    root = name.partition(".")[0]
    return name in _ASKERS or root in _ASKERS or (root != _OWN and root not in sys.stdlib_module_names)


def _functions(clock: HostClock) -> dict[str, Callable[..., Any]]:
    real = {name: getattr(time, name) for name in _REPLACED}

    def reader(name: str, wall: bool, whole: bool) -> Callable[[], Any]:
        def read() -> Any:
            if not _asks_for_program():
                return real[name]()
            ns = clock.read_ns(wall)
            return ns if whole else ns / 1e9

        read.__name__ = name
        return read

    def sleep(seconds: float) -> None:
        real["sleep"](seconds)
        if _asks_for_program():
            clock.ps += round(seconds * 1e12)

    found: dict[str, Callable[..., Any]] = {
        name: reader(name, name.startswith("time"), name.endswith("_ns")) for name in _REPLACED[:-1]
    }
    found["sleep"] = sleep
    return found


@contextmanager
def installed(clock: HostClock) -> Iterator[None]:
    """Let Python programs read a clock through ``time`` and ``timeit``, within the block."""
    before = {name: getattr(time, name) for name in _REPLACED}
    functions = _functions(clock)
    for name, function in functions.items():
        setattr(time, name, function)
    _replace_timer(before["perf_counter"], functions["perf_counter"])
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(time, name, function)
        _replace_timer(functions["perf_counter"], before["perf_counter"])


def _replace_timer(old: Callable[..., Any], new: Callable[..., Any]) -> None:
    """The timer of ``timeit``, which its functions have as the default of an argument."""
    import timeit

    timeit.default_timer = new
    for function in (timeit.Timer.__init__, timeit.timeit, timeit.repeat):
        defaults = function.__defaults__ or ()
        function.__defaults__ = tuple(new if value is old else value for value in defaults)


_lasting = ExitStack()
clock: HostClock | None = None
"""The functions that :func:`install` has replaced."""


def install() -> None:
    """Make this process's Python program read the shared clock permanently; does nothing if there is none."""
    global clock
    if shared_words() is not None:
        clock = of_process()
        _lasting.enter_context(installed(clock))
