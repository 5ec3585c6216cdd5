"""CUDA arrays, mipmapped arrays, texture and surface objects (``engine/textures``)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import ClassVar

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import Device, state
from warpwright.driver.memory import holder, memory_of
from warpwright.engine.textures.table import (
    FLOAT,
    SIGNED,
    UNSIGNED,
    Format,
    Image,
    Level,
    Sampler,
    check_sampler,
    make_image,
    table_of,
)
from warpwright.errors import ArgumentError

_FORMATS = {
    1: (UNSIGNED, 1),
    2: (UNSIGNED, 2),
    3: (UNSIGNED, 4),
    8: (SIGNED, 1),
    9: (SIGNED, 2),
    10: (SIGNED, 4),
    16: (FLOAT, 2),
    32: (FLOAT, 4),
}
"""CUarray_format."""
LAYERED, SURFACE_LOAD_STORE, CUBEMAP, GATHER = 1, 2, 4, 8
"""CUDA_ARRAY3D_*."""
_ARRAY_FLAGS = 0x1FF
_ARRAY, _MIPMAPPED, _LINEAR, _PITCHED = range(4)
"""CUresourcetype."""
_READ_AS_INTEGER, _NORMALIZED, _SRGB, _SEAMLESS = 1, 2, 0x10, 0x40
"""CU_TRSF_*."""
RESOURCE_BYTES, TEXTURE_BYTES, VIEW_BYTES = 144, 104, 112
_BORDER, _TEXTURE_FLAGS, MAX_ANISOTROPY = 3, 0x77, 16
"""CU_TR_ADDRESS_MODE_BORDER, the last mode; all CU_TRSF_* flags."""
TEXTURE_ALIGNMENT_BYTES, PITCH_ALIGNMENT_BYTES = 512, 32
"""CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT and _TEXTURE_PITCH_ALIGNMENT."""
MAX_EXTENT = 131072
"""CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH and those of two dimensions; no array exceeds it in any dimension."""


@dataclass(eq=False)
class DriverArray:
    """A CUarray: a separate array, or a level of a mipmapped array."""

    of_null: ClassVar[int] = results.INVALID_HANDLE
    image: Image
    level: int
    width: int
    height: int
    depth: int
    format: int
    flags: int = 0
    handle: int = 0
    owned: bool = True

    @property
    def place(self) -> Level:
        return self.image.levels[self.level]

    @property
    def channels(self) -> int:
        return self.image.format.channels

    @property
    def element_bytes(self) -> int:
        return self.image.format.element_bytes

    @property
    def address(self) -> int:
        return self.place.address

    @property
    def pitch(self) -> int:
        return self.place.row_bytes

    @property
    def height_rows(self) -> int:
        return self.place.height

    def address_of(self, x_bytes: int, y: int, z: int) -> int:
        return self.address + x_bytes + y * self.pitch + z * self.place.slice_bytes


@dataclass(eq=False)
class MipmappedArray:
    """A CUmipmappedArray; ``levels`` are created on demand."""

    of_null: ClassVar[int] = results.INVALID_HANDLE
    image: Image
    description: tuple[int, int, int, int, int, int]
    levels: dict[int, DriverArray]
    handle: int = 0


def element_bytes(form: int, channels: int) -> int:
    """Size of an element; 0 if the format does not exist."""
    return _FORMATS[form][1] * channels if form in _FORMATS and channels in (1, 2, 4) else 0


def _image(width: int, height: int, depth: int, form: int, channels: int, flags: int, levels: int = 1) -> Image:
    if form not in _FORMATS or channels not in (1, 2, 4) or not width or max(width, height, depth) > MAX_EXTENT:
        raise CudaError(results.INVALID_VALUE, f"no array has {channels} channels of format {form:#x}")
    cube, layered = bool(flags & CUBEMAP), bool(flags & LAYERED)
    if flags & ~_ARRAY_FLAGS or (depth and not height and not layered):
        raise CudaError(results.INVALID_VALUE)
    sizes = [size for size in (width, height, depth) if size]
    try:
        return make_image(
            state().gpu.memory,
            Format(*_FORMATS[form], channels),
            tuple(sizes),
            layered=layered,
            cube=cube,
            levels=levels,
        )
    except ArgumentError as error:
        raise CudaError(results.INVALID_VALUE, str(error)) from None


def make(width: int, height: int, depth: int, form: int, channels: int, flags: int = 0) -> DriverArray:
    """An array of zeros."""
    image = _image(width, height, depth, form, channels, flags)
    made = DriverArray(image, 0, width, height, depth, form, flags)
    made.handle = state().handles.add(made)
    return made


def make_mipmapped(
    width: int, height: int, depth: int, form: int, channels: int, flags: int, levels: int
) -> MipmappedArray:
    """A mipmapped array of zeros, with as many levels as its size allows."""
    largest = max(width, height, 0 if flags & (LAYERED | CUBEMAP) else depth)
    image = _image(width, height, depth, form, channels, flags, max(1, min(levels, largest.bit_length())))
    made = MipmappedArray(image, (width, height, depth, form, channels, flags), {})
    made.handle = state().handles.add(made)
    return made


def free_image(image: Image) -> None:
    """Free an image's memory; objects that read it are destroyed."""
    memory = memory_of(image.allocation.address) if image.allocation is not None else state().gpu.memory
    table_of(memory).forget(image)
    if image.allocation is not None:
        memory.free(image.allocation)


@entry("cuArrayCreate_v2")
def create(place: int, description: int) -> None:
    width, height, form, channels = cmemory.read("QQiI", description)
    cmemory.put64(place, make(width, height, 0, form, channels).handle)


@entry("cuArray3DCreate_v2")
def create_3d(place: int, description: int) -> None:
    width, height, depth, form, channels, flags = cmemory.read("QQQiII", description)
    cmemory.put64(place, make(width, height, depth, form, channels, flags).handle)


@entry("cuArrayGetDescriptor_v2")
def describe(place: int, handle: int) -> None:
    one = state().handles.get(DriverArray, handle)
    cmemory.write("QQiI", place, one.width, one.height, one.format, one.channels)


@entry("cuArray3DGetDescriptor_v2")
def describe_3d(place: int, handle: int) -> None:
    one = state().handles.get(DriverArray, handle)
    cmemory.write("QQQiII", place, one.width, one.height, one.depth, one.format, one.channels, one.flags)


@entry("cuArrayDestroy")
def destroy(handle: int) -> None:
    one = state().handles.get(DriverArray, handle)
    if not one.owned:
        raise CudaError(results.INVALID_HANDLE, "a level of a mipmapped array goes with the whole")
    free_image(one.image)
    state().handles.drop(handle)


@entry("cuMipmappedArrayCreate")
def create_mipmapped(place: int, description: int, levels: int) -> None:
    width, height, depth, form, channels, flags = cmemory.read("QQQiII", description)
    cmemory.put64(place, make_mipmapped(width, height, depth, form, channels, flags, levels).handle)


@entry("cuMipmappedArrayGetLevel")
def get_level(place: int, handle: int, number: int) -> None:
    whole = state().handles.get(MipmappedArray, handle)
    if number >= len(whole.image.levels):
        raise CudaError(results.INVALID_VALUE)
    if number not in whole.levels:
        width, height, depth, form, _, flags = whole.description
        sliced = bool(flags & (LAYERED | CUBEMAP))

        def halved(size: int, axis: int) -> int:
            return size if not size or (sliced and axis == 2) else max(size >> number, 1)

        one = DriverArray(
            whole.image, number, halved(width, 0), halved(height, 1), halved(depth, 2), form, flags, owned=False
        )
        one.handle = state().handles.add(one)
        whole.levels[number] = one
    cmemory.put64(place, whole.levels[number].handle)


@entry("cuMipmappedArrayDestroy")
def destroy_mipmapped(handle: int) -> None:
    whole = state().handles.get(MipmappedArray, handle)
    free_image(whole.image)
    for one in whole.levels.values():
        state().handles.drop(one.handle)
    state().handles.drop(handle)


# --- objects -----------------------------------------------------------------------------------------
def image_of(kind: int, subject: int, form: int = 0, channels: int = 0, sizes: tuple[int, ...] = ()) -> Image:
    """The object that a resource description names.

    Args:
        kind: CUresourcetype.
        subject: an array's handle or an address.
        sizes: for linear memory its bytes; for pitched memory width, height (elements) and pitch (bytes).
    """
    if not subject:
        raise CudaError(results.INVALID_VALUE)
    if kind == _ARRAY:
        one = state().handles.get(DriverArray, subject)
        image = one.image
        if len(image.levels) == 1:
            return image
        return Image(image.format, image.axes, (one.place,), image.layered, image.cube)
    if kind == _MIPMAPPED:
        return state().handles.get(MipmappedArray, subject).image
    found = holder(subject)
    if kind not in (_LINEAR, _PITCHED) or form not in _FORMATS or channels not in (1, 2, 4) or found is None:
        raise CudaError(results.INVALID_VALUE)
    format = Format(*_FORMATS[form], channels)
    if subject % TEXTURE_ALIGNMENT_BYTES or (kind == _PITCHED and sizes[2] % PITCH_ALIGNMENT_BYTES):
        raise CudaError(results.INVALID_VALUE)
    if kind == _LINEAR:
        size = min(sizes[0], found.end - subject)
        return Image(format, 1, (Level(size // format.element_bytes, 1, 1, subject, size, size),), buffer=True)
    width, height, pitch = sizes
    return Image(format, 2, (Level(width, height, 1, subject, pitch, pitch * height),), pitched=True)


def _resource(pointer: int) -> Image:
    """The image of a CUDA_RESOURCE_DESC."""
    kind, subject = cmemory.read("iQ", pointer)
    if cmemory.get32(pointer + RESOURCE_BYTES - 8):
        raise CudaError(results.INVALID_VALUE, "a resource has no flags")
    if kind not in (_LINEAR, _PITCHED):
        return image_of(kind, subject)
    _, subject, form, channels, *sizes = cmemory.read("iQiIQ" if kind == _LINEAR else "iQiIQQQ", pointer)
    return image_of(kind, subject, form, channels, tuple(sizes))


@dataclass(eq=False)
class ObjectRecord:
    """A texture or surface object with its creation parameters, for queries."""

    resource: bytes
    texture: bytes = b""
    view: bytes = b""


objects: dict[tuple[Device, int], ObjectRecord] = {}
"""By device and handle."""


def make_object(image: Image, sampler: Sampler | None, record: ObjectRecord) -> int:
    """Create a texture object, or a surface object if there is no ``sampler``; returns its handle."""
    if sampler is not None:
        try:
            check_sampler(image, sampler)
        except ArgumentError as error:
            raise CudaError(results.INVALID_VALUE, str(error)) from None
    handle = table_of(state().gpu.memory).add(image, sampler)
    objects[state().device, handle] = record
    return handle


@entry("cuTexObjectCreate")
def create_texture(place: int, resource: int, texture: int, view: int) -> None:
    state().current()
    f = cmemory.read("3iiIIifff4f", texture)
    flags, anisotropy = f[4], min(f[5], MAX_ANISOTROPY)
    if max(f[:3]) > _BORDER or f[3] > 1 or flags & ~_TEXTURE_FLAGS:
        raise CudaError(results.INVALID_VALUE)
    sampler = Sampler(
        address=(f[0], f[1], f[2]),
        linear=f[3] == 1,
        normalized=bool(flags & _NORMALIZED),
        as_integer=bool(flags & _READ_AS_INTEGER),
        srgb=bool(flags & _SRGB),
        mip_linear=f[6] == 1,
        bias=f[7],
        least=f[8],
        most=f[9],
        border=(f[10], f[11], f[12], f[13]),
        seamless=bool(flags & _SEAMLESS),
        anisotropy=anisotropy,
    )
    record = ObjectRecord(
        ctypes.string_at(resource, RESOURCE_BYTES),
        ctypes.string_at(texture, TEXTURE_BYTES),
        ctypes.string_at(view, VIEW_BYTES) if view else b"",
    )
    cmemory.put64(place, make_object(_resource(resource), sampler, record))


@entry("cuSurfObjectCreate")
def create_surface(place: int, resource: int) -> None:
    state().current()
    described = ctypes.string_at(resource, RESOURCE_BYTES)
    if int.from_bytes(described[:4], "little") != _ARRAY:
        raise CudaError(results.INVALID_VALUE, "a surface object needs an array")
    cmemory.put64(place, make_object(_resource(resource), None, ObjectRecord(described)))


@entry("cuTexObjectDestroy", "cuSurfObjectDestroy")
def destroy_object(handle: int) -> None:
    if objects.pop((state().device, handle), None) is None:
        raise CudaError(results.INVALID_VALUE)
    table_of(state().gpu.memory).remove(handle)


def record_of(handle: int) -> ObjectRecord:
    found = objects.get((state().device, handle))
    if found is None:
        raise CudaError(results.INVALID_VALUE)
    return found


@entry("cuTexObjectGetResourceDesc", "cuSurfObjectGetResourceDesc")
def object_resource(place: int, handle: int) -> None:
    found = record_of(handle).resource
    ctypes.memmove(place, found, len(found))


@entry("cuTexObjectGetTextureDesc")
def object_texture(place: int, handle: int) -> None:
    found = record_of(handle).texture
    ctypes.memmove(place, found, len(found))


@entry("cuTexObjectGetResourceViewDesc")
def object_view(place: int, handle: int) -> None:
    found = record_of(handle).view
    if not found:
        raise CudaError(results.INVALID_VALUE)
    ctypes.memmove(place, found, len(found))


@entry("cuDeviceGetTexture1DLinearMaxWidth")
def texture_width(place: int, kind: int, channels: int, device: int) -> int | None:
    state().device_of(device)
    size = element_bytes(kind, channels)
    if not size:
        return results.INVALID_VALUE
    # In texels: at most 2^28, and at most 2^30 bytes (an H200's limits).
    cmemory.put64(place, 1 << 28 if size >= 4 else (1 << 30) // size)
    return None
