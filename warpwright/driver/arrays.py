"""CUDA arrays, textures and surfaces: arrays are memory with a shape; what samples them waits for the engine.

An array's rows lie one behind the other, padded to the pitch that textures need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warpwright.driver import c, results
from warpwright.driver.calls import CudaError, entry
from warpwright.driver.devices import PITCH_BYTES
from warpwright.driver.memory import allocate, release
from warpwright.driver.state import state
from warpwright.errors import UnsupportedError

_FORMAT_BYTES = {1: 1, 2: 2, 3: 4, 8: 1, 9: 2, 10: 4, 16: 2, 32: 4}
"""CUarray_format."""


@dataclass(eq=False)
class DriverArray:
    """A CUarray."""

    address: int
    width: int
    height: int
    depth: int
    format: int
    channels: int
    flags: int = 0
    handle: int = 0

    @property
    def element_bytes(self) -> int:
        return _FORMAT_BYTES[self.format] * self.channels

    @property
    def pitch(self) -> int:
        row = self.width * self.element_bytes
        return -(-row // PITCH_BYTES) * PITCH_BYTES if self.height > 1 else row

    @property
    def height_rows(self) -> int:
        return max(self.height, 1)

    def address_of(self, x_bytes: int, y: int, z: int) -> int:
        return self.address + x_bytes + y * self.pitch + z * self.pitch * self.height_rows


def make(width: int, height: int, depth: int, form: int, channels: int, flags: int = 0) -> DriverArray:
    """An array of zeros."""
    if form not in _FORMAT_BYTES or channels not in (1, 2, 4) or not width:
        raise CudaError(results.INVALID_VALUE)
    made = DriverArray(0, width, height, depth, form, channels, flags)
    made.address = allocate(made.pitch * made.height_rows * max(depth, 1))
    made.handle = state().handles.add(made)
    return made


@entry("cuArrayCreate_v2")
def create(place: int, description: int) -> None:
    width, height, form, channels = c.read("QQiI", description)
    c.put64(place, make(width, height, 0, form, channels).handle)


@entry("cuArray3DCreate_v2")
def create_3d(place: int, description: int) -> None:
    width, height, depth, form, channels, flags = c.read("QQQiII", description)
    c.put64(place, make(width, height, depth, form, channels, flags).handle)


@entry("cuArrayGetDescriptor_v2")
def describe(place: int, handle: int) -> None:
    one = state().handles.get(DriverArray, handle)
    c.write("QQiI", place, one.width, one.height, one.format, one.channels)


@entry("cuArray3DGetDescriptor_v2")
def describe_3d(place: int, handle: int) -> None:
    one = state().handles.get(DriverArray, handle)
    c.write("QQQiII", place, one.width, one.height, one.depth, one.format, one.channels, one.flags)


@entry("cuArrayDestroy")
def destroy(handle: int) -> None:
    one = state().handles.get(DriverArray, handle)
    release(one.address)
    state().handles.drop(handle)


def _copies() -> None:
    """Linear copies between arrays and other memory."""
    from warpwright.driver.copies import linear

    def place(handle: int, offset: int) -> int:
        return state().handles.get(DriverArray, handle).address + offset

    @entry("cuMemcpyHtoA_v2", "cuMemcpyDtoA_v2")
    def to_array(array: int, offset: int, source: int, size: int) -> None:
        linear(place(array, offset), source, size, 0, ())

    @entry("cuMemcpyHtoAAsync_v2")
    def to_array_async(array: int, offset: int, source: int, size: int, stream: int) -> None:
        linear(place(array, offset), source, size, stream, ())

    @entry("cuMemcpyAtoH_v2", "cuMemcpyAtoD_v2")
    def from_array(target: int, array: int, offset: int, size: int) -> None:
        linear(target, place(array, offset), size, 0, ())

    @entry("cuMemcpyAtoHAsync_v2")
    def from_array_async(target: int, array: int, offset: int, size: int, stream: int) -> None:
        linear(target, place(array, offset), size, stream, ())

    @entry("cuMemcpyAtoA_v2")
    def between(target: int, target_offset: int, source: int, source_offset: int, size: int) -> None:
        linear(place(target, target_offset), place(source, source_offset), size, 0, ())


_copies()


@entry(
    "cuTexObjectCreate",
    "cuTexObjectDestroy",
    "cuSurfObjectCreate",
    "cuSurfObjectDestroy",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayGetLevel",
    "cuMipmappedArrayDestroy",
    "cuTexRefCreate",
    "cuTexRefSetArray",
    "cuTexRefSetAddress_v2",
)
def textures(*_: Any) -> int:
    raise UnsupportedError("textures and surfaces are not modelled yet: read global memory instead")
