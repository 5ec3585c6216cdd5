"""A finished launch that can be repeated, for as long as the program keeps its arguments."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from warpwright.errors import LaunchError

if TYPE_CHECKING:
    from warpwright.kernel import Launcher


class Repeat:
    """Launches again with the same arguments, as they are now.

    Arrays are referenced weakly: a run keeps none of them alive.  Host arrays are copied first and device memory is put back
    afterwards, so that a repeated launch changes nothing.
    """

    __slots__ = ("_arguments", "_launch", "_launcher")

    def __init__(
        self, launch: Callable[[Launcher, Sequence[Any]], object], launcher: Launcher, arguments: Sequence[Any]
    ) -> None:
        self._launch = launch
        self._launcher = launcher
        self._arguments = tuple(_weak(argument) for argument in arguments)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """In another process there is nothing to repeat."""
        return type(None), ()

    def __call__(self) -> None:
        """Launch it again.

        Raises:
            LaunchError: an argument is gone, or device memory cannot be put back.
        """
        from warpwright.engine.launch_snapshot import LaunchSnapshot, hindrance

        kernel = self._launcher.kernel
        arguments = [get() for get in self._arguments]
        gone = [
            p.name or f"{n + 1}"
            for n, (p, a) in enumerate(zip(kernel.parameters, arguments, strict=False))
            if a is None
        ]
        if gone:
            raise LaunchError(
                f"this run of {kernel.name} cannot be repeated: the program no longer has its argument {gone[0]}. "
                "Keep the array in a variable"
            )
        reason = hindrance(kernel._loaded.program, kernel.gpu.memory)
        if reason:
            raise LaunchError(f"this run of {kernel.name} cannot be repeated: {reason}")
        before = LaunchSnapshot(kernel.gpu.memory)
        try:
            self._launch(self._launcher, [a.copy() if isinstance(a, np.ndarray) else a for a in arguments])
        finally:
            before.restore()


def _weak(argument: Any) -> Callable[[], Any]:
    """A function that gives the argument, or None once it is gone; numbers and texts, which nothing else keeps, are kept."""
    try:
        return weakref.ref(argument)
    except TypeError:
        return lambda: argument
