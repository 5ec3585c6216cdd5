"""cuBLAS handles: stream, workspace, math mode, pointer mode; versions and texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Device, state
from warpwright.libraries.calls import LibraryError, entry, invalid

VERSION = 130400
"""CUBLAS_VERSION of CUDA 13.2: major * 10000 + minor * 100 + patch."""
HOST_SCALARS, DEVICE_SCALARS = 0, 1
TF32_MATH = 3
"""CUBLAS_TF32_TENSOR_OP_MATH."""
TENSOR_OP_MATH = 1
_STATUS_NAMES = {
    0: "CUBLAS_STATUS_SUCCESS",
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
    16: "CUBLAS_STATUS_LICENSE_ERROR",
}


@dataclass(eq=False)
class Handle:
    """What cublasCreate makes."""

    of_null: ClassVar[int] = 0
    device: Device
    stream: int = 0
    pointer_mode: int = HOST_SCALARS
    math_mode: int = 0
    atomics: int = 0
    sm_count_target: int = 0
    workspace: tuple[int, int] = (0, 0)

    @property
    def tf32(self) -> bool:
        """Whether products of f32 may round their operands to TF32."""
        return bool(self.math_mode & 0xF == TF32_MATH or self.math_mode & 0xF == TENSOR_OP_MATH)


def handle_of(number: int) -> Handle:
    """The handle.

    Raises:
        LibraryError: CUBLAS_STATUS_NOT_INITIALIZED.
    """
    try:
        return state().handles.get(Handle, number)
    except CudaError:
        raise LibraryError("not_initialized") from None


@entry("cublasCreate_v2", "cublasLtCreate")
def create(place: int) -> None:
    if not place:
        raise invalid()
    cmemory.put64(place, state().handles.add(Handle(state().device)))


@entry("cublasDestroy_v2", "cublasLtDestroy")
def destroy(number: int) -> None:
    handle_of(number)
    state().handles.drop(number)


@entry("cublasSetStream_v2")
def set_stream(number: int, stream: int) -> None:
    handle = handle_of(number)
    handle.stream, handle.workspace = stream, (0, 0)


@entry("cublasGetStream_v2")
def get_stream(number: int, place: int) -> None:
    cmemory.put64(place, handle_of(number).stream)


@entry("cublasSetWorkspace_v2")
def set_workspace(number: int, address: int, size: int) -> None:
    # Kernels here need none; kept so that a program can rely on the call's checks.
    if address % 256:
        raise invalid("the workspace is not aligned to 256 bytes")
    handle_of(number).workspace = (address, size)


_SETTINGS = {
    "PointerMode_v2": "pointer_mode",
    "MathMode": "math_mode",
    "AtomicsMode": "atomics",
    "SmCountTarget": "sm_count_target",
}


def _register(name: str, field: str) -> None:
    @entry(f"cublasSet{name}")
    def put(number: int, value: int) -> None:
        if value < 0 or (field == "pointer_mode" and value > DEVICE_SCALARS):
            raise invalid()
        setattr(handle_of(number), field, value)

    @entry(f"cublasGet{name}")
    def get(number: int, place: int) -> None:
        cmemory.put32(place, getattr(handle_of(number), field))


for _name, _field in _SETTINGS.items():
    _register(_name, _field)


@entry("cublasGetVersion_v2")
def get_version(_: int, place: int) -> None:
    cmemory.put32(place, VERSION)


@entry("cublasLtGetVersion")
def get_lt_version() -> int:
    return VERSION


@entry("cublasGetCudartVersion", "cublasLtGetCudartVersion")
def get_runtime_version() -> int:
    return 13020


@entry("cublasGetProperty", "cublasLtGetProperty")
def get_property(kind: int, place: int) -> None:
    parts = (VERSION // 10000, VERSION // 100 % 100, VERSION % 100)
    if not 0 <= kind < len(parts):
        raise invalid()
    cmemory.put32(place, parts[kind])


@entry("cublasGetStatusName", "cublasGetStatusString", "cublasLtGetStatusName", "cublasLtGetStatusString")
def status_name(status: int) -> int:
    return cmemory.static_text(_STATUS_NAMES.get(status, "unknown CUBLAS status"))
