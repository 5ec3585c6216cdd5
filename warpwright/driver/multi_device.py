"""Cooperative launches on several devices (``cuLaunchCooperativeKernelMultiDevice`` of CUDA 12 and earlier).

Errors follow the driver API's documentation of CUDA 12.9; it does not specify the codes for a default stream and for
two launches on one device, for which those of HIP's ``hipLaunchCooperativeKernelMultiDevice`` are used.  All kernels
begin at the same simulated moment, even with CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from warpwright.driver import cmemory, launch_records, results
from warpwright.driver.calls import code_of, entry
from warpwright.driver.cuda_error import CudaError, say
from warpwright.driver.driver_state import PER_THREAD_STREAM, Context, Stream, in_context, picoseconds, state
from warpwright.driver.functions import Function, function
from warpwright.driver.launches import Launch, check, gather, launcher_of
from warpwright.errors import ExecutionError, LaunchError

NO_PRE_SYNC, NO_POST_SYNC = 1, 2
_PARAMETERS_BYTES = 56
"""Of CUDA_LAUNCH_PARAMS."""


def read_launches(place: int, count: int) -> list[tuple[Any, ...]]:
    """Function, grid, block, shared bytes, stream and arguments of each CUDA_LAUNCH_PARAMS."""
    found = []
    for number in range(count):
        handle, gx, gy, gz, bx, by, bz, shared, stream, arguments = cmemory.read(
            "Q7I4xQQ", place + _PARAMETERS_BYTES * number
        )
        found.append((handle, (gx, gy, gz), (bx, by, bz), shared, stream, arguments))
    return found


def launch_on_streams(
    asked: Sequence[tuple[Any, ...]],
    flags: int,
    find: Callable[[int], Function],
    checks: Callable[[Launch], None] = check,
) -> None:
    """Run launches as one cooperative launch, in the order of their streams.

    Args:
        asked: as returned by :func:`read_launches`.
        find: the kernel of a handle, on the current context's device.
        checks: raises for an invalid configuration.

    Raises:
        CudaError: for launches that cannot run together; faults mark the contexts instead.
    """
    s = state()
    if not asked or len(asked) > len(s.devices) or flags & ~(NO_PRE_SYNC | NO_POST_SYNC):
        raise CudaError(results.INVALID_VALUE)
    streams = [_stream(one[4]) for one in asked]
    if len({id(stream.device) for stream in streams}) < len(streams):
        raise CudaError(
            results.INVALID_DEVICE, "two launches of a cooperative launch on several devices are on one device"
        )
    contexts = [stream.context or stream.device.primary for stream in streams]
    launches = []
    for (handle, grid, block, shared, _, arguments), stream, context in zip(asked, streams, contexts, strict=True):
        with in_context(context):
            s.current()
            target = find(handle)
            made = Launch(target, grid, block, shared, gather(target, arguments, 0), cooperative=True)
            if target.image.context.device is not stream.device:
                raise CudaError(
                    results.INVALID_HANDLE, f"{target.symbol}: the kernel and its stream are of different devices"
                )
            checks(made)
            made.partition = s.partition_of(stream)
            launches.append(made)
    launch_together(launches, streams, contexts, flags)


def _stream(handle: int) -> Stream:
    """A stream that such a launch may use.

    Raises:
        CudaError: if it is a default stream, or is capturing.
    """
    if handle <= PER_THREAD_STREAM:
        raise CudaError(
            results.INVALID_HANDLE,
            "a cooperative launch on several devices needs streams made with cuStreamCreate: it cannot use a default stream",
        )
    stream = state().stream(handle)
    if stream.capture is not None:
        raise CudaError(results.STREAM_CAPTURE_UNSUPPORTED)
    return stream


def launch_together(
    launches: Sequence[Launch], streams: Sequence[Stream], contexts: Sequence[Context], flags: int = 0
) -> None:
    """Run launches of equal kernels on several devices, all beginning at one simulated time, and let their streams continue together.

    Raises:
        CudaError: for launches that cannot run together; faults mark the contexts instead.
    """
    from warpwright.device_launches import DeviceMember, launch_on_devices

    s = state()

    def reaches(first: int, second: int) -> bool:
        return s.can_access(streams[first].device, streams[second].device)

    members = []
    for launch, context in zip(launches, contexts, strict=True):
        with in_context(context):
            members.append(DeviceMember(launcher_of(launch), launch.parameters))
    launched = [stream.device.gpu.chip.launch for stream in streams]
    s.host_calls(sum(one.launch_call_us for one in launched))
    begin = max(s.begin(stream, one.launch_latency_us) for stream, one in zip(streams, launched, strict=True))
    try:
        runs = launch_on_devices(members, reaches=reaches)
    except LaunchError as error:
        too_large = "must run at once" in str(error)
        raise CudaError(
            results.COOPERATIVE_LAUNCH_TOO_LARGE if too_large else results.INVALID_VALUE, str(error)
        ) from None
    except ExecutionError as error:
        say(str(error))
        launch_records.note_failure(error)
        for context in contexts:
            context.sticky = code_of(error)
        return
    ends = [
        begin + picoseconds(run.seconds) if run.timed else stream.ps for run, stream in zip(runs, streams, strict=True)
    ]
    for stream, end in zip(streams, ends, strict=True):
        stream.ps = end if flags & NO_POST_SYNC else max(ends)


@entry("cuLaunchCooperativeKernelMultiDevice")
def launch_multi_device(place: int, count: int, flags: int) -> None:
    cmemory.given(place)
    launch_on_streams(read_launches(place, count), flags, function)
