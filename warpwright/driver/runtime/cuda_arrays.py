"""Arrays, textures and surfaces of the runtime."""

from __future__ import annotations

import ctypes
import platform

from warpwright.driver import cmemory, results
from warpwright.driver.calls import ENTRIES, SIGNATURES, entry
from warpwright.driver.cuda_arrays import (
    DriverArray,
    ObjectRecord,
    image_of,
    make,
    make_mipmapped,
    make_object,
)
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.entry_points import Extent
from warpwright.driver.runtime.calls import runtime, same
from warpwright.engine.textures.table import Image, Sampler

_LINEAR, _PITCHED = 2, 3
"""cudaResourceType."""
_FORMS = {(0, 8): 8, (0, 16): 9, (0, 32): 10, (1, 8): 1, (1, 16): 2, (1, 32): 3, (2, 16): 16, (2, 32): 32}
"""CUarray_format by cudaChannelFormatKind and bits."""
INVALID_CHANNEL = 20
RESOURCE_BYTES, TEXTURE_BYTES, VIEW_BYTES = 64, 72, 48


def _form(x: int, y: int, z: int, w: int, kind: int) -> tuple[int, int]:
    """(CUarray_format, channels) of a cudaChannelFormatDesc."""
    if (kind, x) not in _FORMS:
        raise CudaError(INVALID_CHANNEL, f"no array has channels of {x} bits of kind {kind}")
    return _FORMS[kind, x], sum(bits > 0 for bits in (x, y, z, w))


@runtime("cudaMallocArray")
def malloc_array(place: int, description: int, width: int, height: int, flags: int) -> None:
    form, channels = _form(*cmemory.read("5i", description))
    cmemory.put64(place, make(width, height, 0, form, channels, flags).handle)


@runtime("cudaMalloc3DArray")
def malloc_3d_array(place: int, description: int, extent: Extent, flags: int) -> None:
    form, channels = _form(*cmemory.read("5i", description))
    cmemory.put64(place, make(extent.width, extent.height, extent.depth, form, channels, flags).handle)


@runtime("cudaMallocMipmappedArray")
def malloc_mipmapped(place: int, description: int, extent: Extent, levels: int, flags: int) -> None:
    form, channels = _form(*cmemory.read("5i", description))
    cmemory.put64(
        place, make_mipmapped(extent.width, extent.height, extent.depth, form, channels, flags, levels).handle
    )


@runtime("cudaFreeArray")
def free_array(handle: int) -> None:
    if handle:
        ENTRIES["cuArrayDestroy"](handle)


@runtime("cudaFreeMipmappedArray")
def free_mipmapped(handle: int) -> None:
    if handle:
        ENTRIES["cuMipmappedArrayDestroy"](handle)


same("cudaGetMipmappedArrayLevel", "cuMipmappedArrayGetLevel")


def _write_channels(place: int, one: DriverArray) -> None:
    bits = [8 * one.image.format.channel_bytes if n < one.channels else 0 for n in range(4)]
    kind = next(k for (k, _), form in _FORMS.items() if form == one.format)
    cmemory.write("5i", place, *bits, kind)


@runtime("cudaGetChannelDesc")
def channel_description(place: int, handle: int) -> None:
    _write_channels(place, state().handles.get(DriverArray, handle))


@runtime("cudaArrayGetInfo")
def array_info(description: int, extent: int, flags: int, handle: int) -> None:
    one = state().handles.get(DriverArray, handle)
    if description:
        _write_channels(description, one)
    if extent:
        cmemory.write("QQQ", extent, one.width, one.height, one.depth)
    cmemory.put32(flags, one.flags)


def _by_hidden_pointer() -> None:
    """cudaCreateChannelDesc returns a structure of 20 bytes: on x86-64 its address is a hidden first argument."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return
    SIGNATURES["cudaCreateChannelDesc"] = "Qiiiii"

    @entry("cudaCreateChannelDesc", result=ctypes.c_uint64)
    def create_channel_description(place: int, x: int, y: int, z: int, w: int, kind: int) -> int:
        cmemory.write("5i", place, x, y, z, w, kind)
        return place


_by_hidden_pointer()


# --- objects -----------------------------------------------------------------------------------------
def _resource(pointer: int) -> Image:
    """The image of a cudaResourceDesc."""
    kind, subject = cmemory.read("iQ", pointer)
    if kind not in (_LINEAR, _PITCHED):
        return image_of(kind, subject)
    f = cmemory.read("iQ5iQ" if kind == _LINEAR else "iQ5iQQQ", pointer)
    return image_of(kind, subject, *_form(*f[2:7]), f[7:])


@runtime("cudaCreateTextureObject")
def create_texture(place: int, resource: int, texture: int, view: int) -> None:
    state().current()
    f = cmemory.read("3iiii4fiIifffii", texture)
    sampler = Sampler(
        address=(f[0], f[1], f[2]),
        linear=f[3] == 1,
        as_integer=f[4] == 0,
        srgb=bool(f[5]),
        border=(f[6], f[7], f[8], f[9]),
        normalized=bool(f[10]),
        anisotropy=f[11],
        mip_linear=f[12] == 1,
        bias=f[13],
        least=f[14],
        most=f[15],
        seamless=bool(f[17]),
    )
    record = ObjectRecord(
        ctypes.string_at(resource, RESOURCE_BYTES),
        ctypes.string_at(texture, TEXTURE_BYTES),
        ctypes.string_at(view, VIEW_BYTES) if view else b"",
    )
    cmemory.put64(place, make_object(_resource(resource), sampler, record))


@runtime("cudaCreateSurfaceObject")
def create_surface(place: int, resource: int) -> int | None:
    state().current()
    if cmemory.get32(resource) != 0:
        return results.INVALID_VALUE
    record = ObjectRecord(ctypes.string_at(resource, RESOURCE_BYTES))
    cmemory.put64(place, make_object(_resource(resource), None, record))
    return None


for _name, _driver in (
    ("cudaDestroyTextureObject", "cuTexObjectDestroy"),
    ("cudaDestroySurfaceObject", "cuSurfObjectDestroy"),
    ("cudaGetTextureObjectResourceDesc", "cuTexObjectGetResourceDesc"),
    ("cudaGetTextureObjectTextureDesc", "cuTexObjectGetTextureDesc"),
    ("cudaGetTextureObjectResourceViewDesc", "cuTexObjectGetResourceViewDesc"),
    ("cudaGetSurfaceObjectResourceDesc", "cuSurfObjectGetResourceDesc"),
):
    same(_name, _driver)
