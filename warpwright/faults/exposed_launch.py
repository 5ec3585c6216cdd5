"""The next launch of a device with errors: the injections that are for it, and those that are drawn for it."""

from __future__ import annotations

from functools import partial

from warpwright.engine.kernels import Execution
from warpwright.engine.launch import LaunchContext
from warpwright.engine.module import LoadedKernel
from warpwright.faults.device_faults import DeviceFaults
from warpwright.faults.injected_launch import InjectedExecution, profile
from warpwright.faults.particles import Exposed, draw


def injected_execution(
    loaded: LoadedKernel, context: LaunchContext, resident_blocks: int, faults: DeviceFaults
) -> Execution:
    """The launch with its errors; the injections leave the list of those that wait."""
    number = faults.launches
    faults.launches += 1
    due = [one for one in faults.waiting if one.launch == number]
    faults.waiting = [one for one in faults.waiting if one.launch != number]
    if faults.exposures or faults.sampler is not None:
        exposed = Exposed(faults.chip, context, resident_blocks, partial(profile, loaded, context, faults))
        for exposure in faults.exposures:
            due += draw(exposure, exposed, number)
        if faults.sampler is not None:
            due += faults.sampler(exposed, number)
    return InjectedExecution(
        loaded,
        context,
        resident_blocks,
        faults,
        due,
        instruction_limit=faults.instruction_limit,
        hang_seconds=faults.hang_seconds,
    )
