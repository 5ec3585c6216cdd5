"""Common behaviour of runtime functions: makes the device current, and records the last error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warpwright.driver import results
from warpwright.driver.calls import ENTRIES, Function, entry, failed
from warpwright.driver.driver_state import PerThread, state
from warpwright.driver.entry_points import Record, spread
from warpwright.driver.observing_calls import drained

NOT_READY = results.NOT_READY
_errors: PerThread[list[int]] = PerThread(lambda: [0])
chosen: PerThread[list[int]] = PerThread(lambda: [0])
"""The calling thread's device, by its number."""


def last_error(forget: bool) -> int:
    """The calling thread's last error."""
    held = _errors.mine()
    code = held[0]
    if forget:
        held[0] = 0
    return code


def remember(code: int) -> int:
    """Record a result as the last error, unless it is a success."""
    if code and code != NOT_READY:
        _errors.mine()[0] = code
    return code


def ensure() -> None:
    """Initialise, and make the primary context current if there is none."""
    s = state()
    if not s.initialized:
        ENTRIES["cuInit"](0)
    s.check_process()
    if not s.stack:
        primary = s.devices[chosen.mine()[0]].primary
        primary.users = max(primary.users, 1)
        s.stack.append(primary)


def runtime(
    *names: str, versions: tuple[str, ...] = ("",), record: Record | None = None
) -> Callable[[Function], Function]:
    """Register a function for the runtime's entry points with these names.

    Args:
        versions: ``12`` or ``13`` if they use one name for different functions.
        record: the function takes the call's arguments as one such record.
    """

    def register(function: Function) -> Function:
        after_queue = drained(names[0], function if record is None else spread(function, record))

        def call(*arguments: Any) -> int:
            try:
                ensure()
                return remember(after_queue(*arguments) or 0)
            except BaseException as error:
                return remember(failed(names[0], error))

        for name in names:
            for version in versions:
                entry(f"{name}@{version}" if version else name)(call)
        return function

    return register


def same(runtime_name: str, driver_name: str, *more: Any) -> None:
    """A runtime function with the same arguments as a driver function (and ``more`` after them)."""
    target = ENTRIES[driver_name]

    def call(*arguments: Any) -> Any:
        return target(*arguments, *more)

    runtime(runtime_name)(call)
