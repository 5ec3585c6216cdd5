"""What calls return while the interpreter ends: the same as after it, when the stubs answer alone (``tests/test_driver_native.py``)."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

from warpwright.driver import calls
from warpwright.driver.entry_points import CLOSED_TEXT, Ending, ending
from warpwright.libraries import calls as library_calls


def gone(*_: Any) -> None:
    raise RuntimeError("what the call needs has been taken apart")


@pytest.fixture(autouse=True)
def _interpreter_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        *(("cudaSetDevice", 0), ("cudaFree", 0), ("cuStreamDestroy_v2", 0), ("cudaMalloc", 4), ("cuLaunchKernel", 4)),
        # PyTorch's destructors of memory that a stream used.
        *(("cudaEventRecord", 0), ("cudaEventQuery", 0), ("cudaStreamWaitEvent", 0)),
    ],
)
def test_what_gives_back_or_goes_to_a_device_succeeds_and_the_rest_is_gone(name: str, result: int) -> None:
    assert (ending(name) is Ending.GONE) == (result != 0)
    assert calls._guarded(name, gone)(0) == result


def test_the_device_is_the_first_and_there_is_no_event_no_recording_and_no_active_context() -> None:
    device, event, capture, flags, active = (ctypes.c_uint32(7) for _ in range(5))
    assert calls._guarded("cudaGetDevice", gone)(ctypes.addressof(device)) == 0
    assert calls._guarded("cudaEventCreateWithFlags", gone)(ctypes.addressof(event), 2) == 0
    assert calls._guarded("cudaStreamIsCapturing", gone)(0, ctypes.addressof(capture)) == 0
    state = calls._guarded("cuDevicePrimaryCtxGetState", gone)
    assert state(0, ctypes.addressof(flags), ctypes.addressof(active)) == 0
    assert (device.value, event.value, capture.value, flags.value, active.value) == (0, 0, 0, 0, 0)


def test_texts_are_texts() -> None:
    for place in (
        calls._guarded("cudaGetErrorString", gone)(4),
        library_calls._guarded("cublas", "cublasGetStatusString", gone)(1),
    ):
        assert ctypes.string_at(place) == CLOSED_TEXT


def test_what_is_still_known_is_told() -> None:
    assert calls._guarded("cudaGetDeviceCount", lambda _: 35)(0) == 35


def test_libraries_end_with_their_own_status() -> None:
    assert library_calls._guarded("cublas", "cublasDestroy_v2", gone)(1) == 0
    assert (
        library_calls._guarded("cublas", "cublasCreate_v2", gone)(1) == library_calls.STATUSES["cublas"].not_initialized
    )
