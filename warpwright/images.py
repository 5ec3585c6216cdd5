"""CUDA arrays, texture and surface objects of the Python interface."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from warpwright.arrays import DeviceArray
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.textures.table import (
    ADDRESSES,
    FLOAT,
    MAX_LEVELS,
    Format,
    Image,
    Level,
    Sampler,
    check_sampler,
    make_image,
    table_of,
)
from warpwright.errors import ArgumentError, FreedArrayError

Array = npt.NDArray[Any]
FILTERS = {"point": False, "linear": True}


def _release(memory: DeviceMemory, image: Image) -> None:
    table_of(memory).forget(image)
    if image.allocation is not None and not image.allocation.freed:
        memory.abandon(image.allocation)


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """Sizes and elements of a CUDA array; ``GPU.cuda_array`` explains them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    channels: int = 1
    layered: bool = False
    cube: bool = False
    levels: int = 1


class CudaArray:
    """A CUDA array or mipmapped array.  Made by ``gpu.cuda_array``."""

    def __init__(self, memory: DeviceMemory, form: ArrayForm, name: str = "") -> None:
        shape, dtype, layered, cube = form.shape, form.dtype, form.layered, form.cube
        if not shape:
            raise ArgumentError("a CUDA array has one to three sizes")
        slices: tuple[int, ...] = ()
        if cube:
            count = shape[0] * (shape[1] if layered else 1)
            slices, sizes = (count,), shape[2 if layered else 1 :]
        elif layered:
            slices, sizes = shape[:1], shape[1:]
        else:
            sizes = shape
        self.memory, self.shape, self.dtype, self.channels = memory, shape, dtype, form.channels
        label = f"CUDA array {name!r}" if name else f"CUDA array {dtype}[{', '.join(map(str, shape))}]"
        self.image = make_image(
            memory,
            Format.of(dtype, form.channels),
            (*reversed(sizes), *slices),
            layered=layered,
            cube=cube,
            levels=form.levels,
            name=label,
        )
        self._finalizer = weakref.finalize(self, _release, memory, self.image)
        self._finalizer.atexit = False

    def _level(self, level: int) -> tuple[Level, tuple[int, ...]]:
        if self.image.allocation is None or self.image.allocation.freed:
            raise FreedArrayError("the CUDA array is used after it was freed")
        if not 0 <= level < len(self.image.levels):
            raise ArgumentError(f"the array has {len(self.image.levels)} levels: there is no level {level}")
        one = self.image.levels[level]
        sizes: tuple[int, ...] = (one.depth, one.height, one.width)[3 - self.image.axes :]
        if self.image.layered or self.image.cube:
            sizes = (one.depth, *sizes[-self.image.axes :])
        return one, sizes

    def numpy(self, level: int = 0) -> Array:
        """Return a NumPy view of a level, of shape (…, height, width), with a last axis of channels if there are several; writes change the array."""
        one, sizes = self._level(level)
        raw = self.memory.view(one.address, int(np.prod(sizes)) * self.image.format.element_bytes)
        shape = (*sizes, self.channels) if self.channels > 1 else sizes
        return raw.view(self.dtype).reshape(shape)

    def set(self, values: npt.ArrayLike, level: int = 0) -> None:
        """Copy host values to a level; faces and layers of cubes may be one axis or two."""
        view = self.numpy(level)
        given = np.asarray(values)
        view[...] = given.reshape(view.shape) if given.size == view.size else given

    def get(self, level: int = 0) -> Array:
        """Return a copy of a level."""
        return self.numpy(level).copy()

    def free(self) -> None:
        """Free the memory; texture and surface objects that read it are destroyed."""
        self._level(0)
        assert self.image.allocation is not None
        table_of(self.memory).forget(self.image)
        self.memory.free(self.image.allocation)


class _Object:
    """A handle in the table, destroyed with the last reference."""

    def __init__(self, memory: DeviceMemory, image: Image, sampler: Sampler | None, keep: object) -> None:
        self.memory = memory
        self._table = table_of(memory)
        self._handle = self._table.add(image, sampler)
        self._keep = keep
        self._finalizer = weakref.finalize(self, self._table.remove, self._handle)
        self._finalizer.atexit = False

    def object_handle(self) -> int:
        """The handle that kernels receive.

        Raises:
            FreedArrayError: after :meth:`destroy`, or when the array was freed.
        """
        if self._handle not in self._table.objects:
            raise FreedArrayError(
                f"the {type(self).__name__.lower()} object was destroyed, or its array was freed; make a new one"
            )
        return self._handle

    def destroy(self) -> None:
        """Destroy the object; its array remains."""
        self.object_handle()
        self._table.remove(self._handle)


class Texture(_Object):
    """A texture object.  Made by ``gpu.texture``."""


class Surface(_Object):
    """A surface object.  Made by ``gpu.surface``."""

    def __init__(self, array: CudaArray) -> None:
        array._level(0)
        super().__init__(array.memory, array.image, None, array)


def _chosen(what: str, value: str, known: dict[str, Any]) -> Any:
    if value not in known:
        raise ArgumentError(f"{what}={value!r} is not known; use one of {', '.join(known)}")
    return known[value]


def _memory_image(source: DeviceArray, channels: int, pitched: bool) -> Image:
    """A device array as an image: elements in a row, or rows."""
    form = Format.of(source.dtype, channels)
    address = source.device_address()
    count = source.size // channels
    if not pitched:
        return Image(form, 1, (Level(count, 1, 1, address, source.nbytes, source.nbytes),), buffer=True)
    sizes = source.shape[:-1] if channels > 1 else source.shape
    if len(sizes) != 2:
        raise ArgumentError(f"pitched=True takes rows of an image, not an array of shape {source.shape}")
    height, width = sizes
    row = width * form.element_bytes
    return Image(form, 2, (Level(width, height, 1, address, row, row * height),), pitched=True)


class TextureOptions(TypedDict, total=False):
    """Keywords of ``GPU.texture``, which explains them."""

    address: str | Sequence[str]
    filter: str
    normalized: bool
    read: str
    srgb: bool
    border: Sequence[float]
    mip_filter: str
    bias: float
    level_limits: tuple[float, float] | None
    seamless: bool
    channels: int
    pitched: bool


DEFAULTS = TextureOptions(
    address="clamp",
    filter="point",
    normalized=False,
    read="",
    srgb=False,
    border=(0.0, 0.0, 0.0, 0.0),
    mip_filter="point",
    bias=0.0,
    level_limits=None,
    seamless=False,
    channels=1,
    pitched=False,
)
"""The texture options that a program does not give."""


def _check_names(options: Mapping[str, object]) -> None:
    """Refuse keywords that no texture option has; the message names similar ones, or all."""
    for name in options:
        if name not in DEFAULTS:
            near = get_close_matches(name, DEFAULTS, 2)
            told = f"did you mean {' or '.join(near)}?" if near else f"it takes {', '.join(DEFAULTS)}"
            raise TypeError(f"gpu.texture() has no argument {name!r}: {told}")


def make_texture(memory: DeviceMemory, source: CudaArray | DeviceArray, options: TextureOptions) -> Texture:
    """See ``GPU.texture``."""
    _check_names(options)
    o: TextureOptions = {**DEFAULTS, **options}
    address, read, limits = o["address"], o["read"], o["level_limits"]
    if isinstance(source, CudaArray):
        source._level(0)
        image = source.image
    elif isinstance(source, DeviceArray):
        image = _memory_image(source, o["channels"], o["pitched"])
    else:
        raise ArgumentError(
            f"a texture reads gpu.cuda_array(...) or a device array (gpu.array(values)), not a {type(source).__name__}"
        )
    linear = bool(_chosen("filter", o["filter"], FILTERS))
    modes = [address] * 3 if isinstance(address, str) else [*address, "clamp", "clamp"][:3]
    axes = [int(_chosen("address", mode, ADDRESSES)) for mode in modes]
    whole = image.format.kind != FLOAT
    as_integer = whole and (read == "element" or (not read and not linear))
    if read not in ("", "element", "normalized"):
        raise ArgumentError(f"read={read!r} is not known; use read='element' or read='normalized'")
    least, most = limits if limits is not None else (0.0, float(MAX_LEVELS))
    colour = (*(float(v) for v in o["border"]), 0.0, 0.0, 0.0, 0.0)[:4]
    sampler = Sampler(
        (axes[0], axes[1], axes[2]),
        linear,
        o["normalized"],
        as_integer,
        o["srgb"],
        bool(_chosen("mip_filter", o["mip_filter"], FILTERS)),
        o["bias"],
        least,
        most,
        (colour[0], colour[1], colour[2], colour[3]),
        o["seamless"],
    )
    check_sampler(image, sampler)
    return Texture(memory, image, sampler, source)
