"""Checks the variables ``WARPWRIGHT_…`` that set up the simulated devices of a process, before anything uses their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from warpwright.errors import WarpwrightError


def refuse_invalid() -> None:
    """Check the variables of the environment; empty ones count as unset.

    Raises:
        ValueError: the first variable whose value is not valid, with the values that are.
    """
    for name, check in _CHECKS.items():
        text = os.environ.get(f"WARPWRIGHT_{name}", "")
        if not text:
            continue
        try:
            check(text)
        except (WarpwrightError, ValueError) as error:
            raise ValueError(f"WARPWRIGHT_{name}={text} is not valid: {error}; correct or unset it") from None


def _refuse_others(text: str, known: Sequence[str]) -> None:
    if text not in known:
        raise ValueError(f"use {' or '.join(known)}")


def _timing(text: str) -> None:
    from warpwright.api import TIMINGS

    _refuse_others(text, TIMINGS)


def _caches(text: str) -> None:
    from warpwright.api import CACHES

    _refuse_others(text, CACHES)


def _memory_faults(text: str) -> None:
    from warpwright.api import MEMORY_FAULTS

    _refuse_others(text, MEMORY_FAULTS)


def _host_clock(text: str) -> None:
    _refuse_others(text, ("host", "simulated"))


def _number(text: str) -> None:
    try:
        valid = int(text) > 0
    except ValueError:
        valid = False
    if not valid:
        raise ValueError("use a positive whole number")


def _seconds(text: str) -> None:
    try:
        float(text)
    except ValueError:
        raise ValueError("use a number of seconds") from None


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


_CHECKS: dict[str, Callable[[str], None]] = {
    "GPU": _chips,
    "SYSTEM": _machine,
    "TIMING": _timing,
    "CACHES": _caches,
    "MEMORY_FAULTS": _memory_faults,
    "CHECK": _checks,
    "CHECK_LEVEL": _level,
    "INJECT": _injections,
    "HOST_CLOCK": _host_clock,
    "THREADS": _number,
    "DEADLINE": _seconds,
}
"""Raise an error for an invalid value; by the variable's name after ``WARPWRIGHT_``."""
