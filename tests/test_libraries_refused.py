"""NVSHMEM, which is refused, as programs see it."""

from __future__ import annotations

import ctypes
import sys

import pytest

from tests.library_calls import Device, Library

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
NOT_SUPPORTED = 3


def test_initialisation_and_memory_are_refused_by_name(memory: Device, capfd: pytest.CaptureFixture[str]) -> None:
    library = Library("libnvshmem_host.so.3")
    assert library.raw("nvshmemid_init_status") == 0
    assert library.raw("nvshmemx_get_uniqueid", 0) == NOT_SUPPORTED
    assert library.raw("nvshmemid_hostlib_init_attr", 0, 0, 0, 0, 0) == NOT_SUPPORTED
    library.library.nvshmem_malloc.restype = ctypes.c_void_p
    assert library.library.nvshmem_malloc(ctypes.c_size_t(64)) is None
    said = capfd.readouterr().err
    assert "nvshmemx_get_uniqueid is not provided: the call returns NVSHMEMX_ERROR_NOT_SUPPORTED" in said
    assert "nvshmem_malloc is not provided: the call returns a null pointer" in said
