"""NCCL of this package: what it answers, and that it refuses communicators by name."""

from __future__ import annotations

import ctypes
import sys

import pytest

from tests.library_calls import Library, device

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
INVALID_USAGE = 5


def test_communicators_are_refused_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    with device():
        nccl, version = Library("libnccl.so.2"), ctypes.c_int32()
        nccl("ncclGetVersion", ctypes.byref(version))
        assert version.value >= 22000
        assert nccl.raw("ncclCommInitAll", 0, 1, 0) == INVALID_USAGE
    assert "ncclCommInitAll is not provided: the call returns ncclInvalidUsage" in capfd.readouterr().err
