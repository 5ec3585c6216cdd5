"""Checks the variables ``WARPWRIGHT_…`` that a program's devices depend on, before anything uses their values."""

from __future__ import annotations

from collections.abc import Callable

from warpwright import environment
from warpwright.environment import one_of, setting


def refuse_invalid() -> None:
    """Check the variables of the environment; empty ones count as unset.

    Raises:
        SettingError: names the first variable with an invalid value, and the valid values.
    """
    for name, check in _CHECKS.items():
        setting(name, check, None)


def _timing(text: str) -> None:
    from warpwright.gpu_options import TIMINGS

    one_of(text, TIMINGS)


def _caches(text: str) -> None:
    from warpwright.gpu_options import CACHES

    one_of(text, CACHES)


def _memory_faults(text: str) -> None:
    from warpwright.gpu_options import MEMORY_FAULTS

    one_of(text, MEMORY_FAULTS)


def _library_model(text: str) -> None:
    from warpwright.library_times import MODELS

    one_of(text, MODELS)


def _host_clock(text: str) -> None:
    one_of(text, ("host", "simulated"))


def _traceback(text: str) -> None:
    one_of(text, ("full",))


def _cpu(text: str) -> None:
    from warpwright.engine.jit.named_cpu import check_cpu

    check_cpu(text)


def _chips(text: str) -> None:
    from warpwright.session import known_chips

    known_chips(text)


def _machine(text: str) -> None:
    from warpwright.system import load_machine

    load_machine(text)


def _checks(text: str) -> None:
    from warpwright.tools.checks.checker import parse

    parse(text)


def _level(text: str) -> None:
    from warpwright.tools.checks.checker import parse_level

    parse_level(text)


def _injections(text: str) -> None:
    from warpwright.faults.injection import parse_injections

    parse_injections(text)


_CHECKS: dict[str, Callable[[str], object]] = {
    "GPU": _chips,
    "SYSTEM": _machine,
    "TIMING": _timing,
    "CACHES": _caches,
    "MEMORY_FAULTS": _memory_faults,
    "CHECK": _checks,
    "CHECK_LEVEL": _level,
    "INJECT": _injections,
    "HOST_CLOCK": _host_clock,
    "LIBRARY_MODEL": _library_model,
    "THREADS": environment.whole_number,
    "DEADLINE": environment.seconds,
    "STORAGE_GB_PER_S": environment.gb_per_s,
    "CACHE_MIB": environment.mib,
    "CPU": _cpu,
    "BACKGROUND": environment.flag,
    "TRACE_CALLS": environment.flag,
    "BOUNDSCHECK": environment.flag,
    "TRACEBACK": _traceback,
}
"""Raise an error for an invalid value; by the variable's name after ``WARPWRIGHT_``."""
