"""cuDNN handles, tensor and filter descriptors, versions and texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported

VERSION = 92600
"""CUDNN_VERSION whose interface the entry points are of: 9.26.0."""
ELEMENTS = {0: "float", 1: "double", 2: "half_t", 9: "bfloat_t"}
"""Names in ``cuda/types.cuh`` of the cudnnDataType_t that kernels have."""
_STATUS_NAMES = {
    0: "CUDNN_STATUS_SUCCESS",
    1001: "CUDNN_STATUS_NOT_INITIALIZED",
    2000: "CUDNN_STATUS_BAD_PARAM",
    3000: "CUDNN_STATUS_NOT_SUPPORTED",
    4000: "CUDNN_STATUS_INTERNAL_ERROR",
    5000: "CUDNN_STATUS_EXECUTION_FAILED",
}
Kind = TypeVar("Kind")


@dataclass(eq=False)
class Handle:
    """What cudnnCreate makes."""

    of_null: ClassVar[int] = 0
    stream: int = 0


@dataclass(eq=False)
class Tensor:
    """A tensor or filter descriptor: element type, sizes, strides in elements."""

    of_null: ClassVar[int] = 0
    type: int = 0
    sizes: list[int] = field(default_factory=list)
    strides: list[int] = field(default_factory=list)
    format: int = 0

    @property
    def element(self) -> str:
        """Its elements' name in the kernels' sources."""
        return element_of(self.type)


def element_of(type: int) -> str:
    """The kernels' name of a cudnnDataType_t.

    Raises:
        LibraryError: there are no kernels for it.
    """
    if type not in ELEMENTS:
        raise unsupported(f"tensors of cudnnDataType_t {type} are not provided")
    return ELEMENTS[type]


def sum_of(element: str) -> str:
    """The type of sums and of parameters."""
    return "double" if element == "double" else "float"


def found(kind: type[Kind], number: int) -> Kind:
    """The object of a handle or descriptor.

    Raises:
        LibraryError: CUDNN_STATUS_BAD_PARAM.
    """
    try:
        return state().handles.get(kind, number)
    except CudaError:
        raise invalid(f"no such {kind.__name__.lower()}") from None


def handle_of(number: int) -> Handle:
    """The handle; CUDNN_STATUS_NOT_INITIALIZED without one."""
    try:
        return state().handles.get(Handle, number)
    except CudaError:
        raise LibraryError("not_initialized") from None


def add(place: int, made: object) -> None:
    """Give a caller the descriptor of an object."""
    if not place:
        raise invalid()
    cmemory.put64(place, state().handles.add(made))


@entry("cudnnCreate")
def create(place: int) -> None:
    add(place, Handle())


@entry("cudnnSetStream")
def set_stream(number: int, stream: int) -> None:
    handle_of(number).stream = stream


@entry("cudnnGetStream")
def get_stream(number: int, place: int) -> None:
    cmemory.put64(place, handle_of(number).stream)


_DESTROY = [f"cudnnDestroy{kind}Descriptor" for kind in ("Tensor", "Filter", "Convolution", "Activation")]


@entry("cudnnDestroy", *_DESTROY)
def destroy(number: int) -> None:
    state().handles.drop(number)


@entry("cudnnGetVersion")
def get_version() -> int:
    return VERSION


@entry("cudnnGetCudartVersion")
def get_runtime_version() -> int:
    return 13020


@entry("cudnnGetProperty")
def get_property(kind: int, place: int) -> None:
    parts = (VERSION // 10000, VERSION // 100 % 100, VERSION % 100)
    if not 0 <= kind < len(parts):
        raise invalid()
    cmemory.put32(place, parts[kind])


@entry("cudnnGetErrorString")
def error_string(status: int) -> int:
    return cmemory.static_text(_STATUS_NAMES.get(status, "unknown cuDNN status"))


@entry("cudnnGetLastErrorString")
def last_error_string(place: int, room: int) -> None:
    cmemory.put_text(place, "see the message on standard error", room)


# --- descriptors ------------------------------------------------------------------------------------
@entry("cudnnCreateTensorDescriptor", "cudnnCreateFilterDescriptor")
def create_tensor(place: int) -> None:
    add(place, Tensor())


def _words(place: int, count: int) -> list[int]:
    return list(cmemory.read(f"{count}i", place)) if count else []


@entry("cudnnSetTensorNdDescriptor")
def set_tensor(number: int, type: int, count: int, sizes: int, strides: int) -> None:
    tensor = found(Tensor, number)
    tensor.type, tensor.sizes, tensor.strides = type, _words(sizes, count), _words(strides, count)


def _packed(sizes: list[int], order: list[int]) -> list[int]:
    """Strides of a tensor without gaps whose dimensions are in ``order``, the outermost first."""
    strides, step = [0] * len(sizes), 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= sizes[dimension]
    return strides


def _in_format(sizes: list[int], format: int) -> list[int]:
    order = [*range(len(sizes))]
    return _packed(sizes, order if format == 0 else [0, *order[2:], 1])


@entry("cudnnSetTensor4dDescriptor")
def set_tensor_4d(number: int, format: int, type: int, n: int, c: int, h: int, w: int) -> None:
    tensor = found(Tensor, number)
    tensor.type, tensor.sizes, tensor.strides = type, [n, c, h, w], _in_format([n, c, h, w], format)


@entry("cudnnGetTensorNdDescriptor")
def get_tensor(number: int, room: int, type: int, count: int, sizes: int, strides: int) -> None:
    tensor = found(Tensor, number)
    cmemory.put32(type, tensor.type)
    cmemory.put32(count, len(tensor.sizes))
    given = min(room, len(tensor.sizes))
    cmemory.write(f"{given}i", sizes, *tensor.sizes[:given])
    cmemory.write(f"{given}i", strides, *tensor.strides[:given])


@entry("cudnnSetFilterNdDescriptor")
def set_filter(number: int, type: int, format: int, count: int, sizes: int) -> None:
    tensor = found(Tensor, number)
    tensor.type, tensor.format, tensor.sizes = type, format, _words(sizes, count)
    tensor.strides = _in_format(tensor.sizes, format)


@entry("cudnnSetFilter4dDescriptor")
def set_filter_4d(number: int, type: int, format: int, k: int, c: int, h: int, w: int) -> None:
    tensor = found(Tensor, number)
    tensor.type, tensor.format, tensor.sizes = type, format, [k, c, h, w]
    tensor.strides = _in_format(tensor.sizes, format)


@entry("cudnnGetFilterNdDescriptor")
def get_filter(number: int, room: int, type: int, format: int, count: int, sizes: int) -> None:
    tensor = found(Tensor, number)
    cmemory.put32(type, tensor.type)
    cmemory.put32(format, tensor.format)
    cmemory.put32(count, len(tensor.sizes))
    given = min(room, len(tensor.sizes))
    cmemory.write(f"{given}i", sizes, *tensor.sizes[:given])


@entry("cudnnCreateActivationDescriptor")
def create_activation(place: int) -> None:
    add(place, Tensor())


@entry("cudnnSetActivationDescriptor")
def set_activation(number: int, mode: int, propagates_nan: int, coefficient: float) -> None:
    found(Tensor, number).format = mode
