"""SMs, GPCs and kernels by their numbers."""

from __future__ import annotations

from typing import Any

from warpwright.native.intrinsics import core
from warpwright.timing import state as s


@core
def sm_at(m: Any, number: int) -> s.SM:
    """An SM's region."""
    return s.SM(m[s.chip.sm_first] + number * m[s.chip.sm_slots])


@core
def gpc_at(m: Any, number: int) -> s.Gpc:
    """The fields of a GPC."""
    return s.Gpc(m[s.chip.gpc_fields] + number * s.Gpc.size)


@core
def kernel_at(m: Any, number: int) -> s.Kernel:
    """A kernel's context."""
    return s.Kernel(m[s.chip.kernels] + number * s.Kernel.size)
