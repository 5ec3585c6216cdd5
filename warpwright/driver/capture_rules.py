"""Calls that a stream capture forbids because they would wait for work that is only recorded.

A capture that meets such a call is invalidated.  Its mode determines whose calls matter: those of all threads (global), of the thread that began it
(thread-local), or none (relaxed); a thread can ask for an exemption.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from warpwright.driver import results
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Device, PerThread, Stream, state

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
"""CUstreamCaptureMode."""
thread_modes: PerThread[list[int]] = PerThread(lambda: [GLOBAL])
"""The mode that each thread set with cuThreadExchangeStreamCaptureMode, in a list of one element."""


def begun() -> Iterator[Stream]:
    """The streams that are capturing through an explicit call."""
    for device in state().devices:
        for stream in device.streams:
            if stream.capture is not None and stream.capture_origin:
                yield stream


def break_capture(stream: Stream, code: int = results.STREAM_CAPTURE_UNSUPPORTED) -> CudaError:
    """Invalidate a stream's capture; returns the error to raise."""
    stream.capture_broken = True
    return CudaError(code)


def forbid_unsafe_call() -> None:
    """Invalidate the captures that a call of this thread which may wait would break.

    Raises:
        CudaError: if there is one.
    """
    mode, here = thread_modes.mine()[0], threading.get_ident()
    if mode == RELAXED:
        return
    error = None
    for stream in begun():
        own = stream.capture_thread == here
        if stream.capture_mode == RELAXED or (
            not own and (stream.capture_mode == THREAD_LOCAL or mode == THREAD_LOCAL)
        ):
            continue
        error = break_capture(stream)
    if error is not None:
        raise error


def forbid_any(device: Device) -> None:
    """Invalidate every capture of a device, for a call that waits for all its work.

    Raises:
        CudaError: if there is one.
    """
    error = None
    for stream in begun():
        if stream.device is device:
            error = break_capture(stream)
    if error is not None:
        raise error


def forbid_default_stream(default: Stream, breaks: bool = True) -> None:
    """Refuse work in the default stream that would have to wait for streams that are capturing.

    Raises:
        CudaError: if one of them is capturing; its capture is invalidated if the call ``breaks`` it.
    """
    for stream in default.device.streams:
        if stream.capture is not None and stream.blocking and stream is not default:
            stream.capture_broken |= breaks
            raise CudaError(results.STREAM_CAPTURE_IMPLICIT)
