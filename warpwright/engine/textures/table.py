"""CUDA arrays, and the table of texture and surface objects that a launch reads.

A handle combines an index into the table (its low 20 bits) and a count of that entry's uses, so that a destroyed object is never mistaken for the next one. An
array's elements are stored row by row and slice by slice without gaps; programs see them only through samples.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import Layout
from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import ArgumentError, UnsupportedError

WRAP, CLAMP, MIRROR, BORDER = range(4)
ADDRESSES = {"wrap": WRAP, "clamp": CLAMP, "mirror": MIRROR, "border": BORDER}
UNSIGNED, SIGNED, FLOAT = range(3)
"""Kinds of numbers."""
TEXTURE, SURFACE = 1, 2
MAX_LEVELS = 16
LEVEL_SLOTS = 6
"""Of one level: width, height, depth (or layers), address, and the strides in bytes between rows and between slices."""
ROW = Layout(
    handle=1,  # 0: nothing
    purpose=1,  # TEXTURE or SURFACE
    axes=1,  # of the image: 1, 2, 3
    layered=1,
    cube=1,
    layers=1,  # images; of cubes: cubes
    kind=1,  # UNSIGNED, SIGNED or FLOAT
    channel_bytes=1,
    channels=1,
    normalized=1,
    as_integer=1,  # read mode element type of an integer format: no conversion
    srgb=1,
    linear=1,
    mip_linear=1,
    seamless=1,
    buffer=1,  # linear memory: an element outside is 0
    pitched=1,
    address=3,  # addressing mode by axis
    border_element=4,  # the border's colour by channel, as an element of the image
    bias=1,  # signed, in 1/256
    least=1,  # of the level, in 1/256
    most=1,
    levels=1,
    level=MAX_LEVELS * LEVEL_SLOTS,
)
"""One object."""
INDEX_BITS = 20
FIRST_ROWS = 64


@dataclass(frozen=True)
class Format:
    """Elements of an array."""

    kind: int
    channel_bytes: int
    channels: int

    @property
    def element_bytes(self) -> int:
        return self.channel_bytes * self.channels

    @classmethod
    def of(cls, dtype: npt.DTypeLike, channels: int) -> Format:
        """The format of channels of a NumPy type.

        Raises:
            ArgumentError: textures cannot have such elements.
        """
        found = np.dtype(dtype)
        kinds = {"u": UNSIGNED, "i": SIGNED, "f": FLOAT}
        if found.kind not in kinds or found.itemsize > 4 or channels not in (1, 2, 4):
            raise ArgumentError(
                f"a texture has no elements of {channels} {found}: channels are 1, 2 or 4 of 8, 16 or 32-bit integers, float16 or float32"
            )
        return cls(kinds[found.kind], found.itemsize, channels)


@dataclass(frozen=True)
class Level:
    """Location and size of one level; ``depth`` counts slices or layers."""

    width: int
    height: int
    depth: int
    address: int
    row_bytes: int
    slice_bytes: int


@dataclass(eq=False)
class Image:
    """A CUDA array, a mipmapped array, or memory that is read through a texture.

    ``axes`` is 1 to 3; layers and faces are slices of ``depth``, which is not halved from level to level.
    """

    format: Format
    axes: int
    levels: tuple[Level, ...]
    layered: bool = False
    cube: bool = False
    buffer: bool = False
    pitched: bool = False
    allocation: Allocation | None = None
    """The image's own memory."""
    users: list[int] = field(default_factory=list)
    """Handles of objects that read it."""

    @property
    def layers(self) -> int:
        if not self.layered:
            return 0
        return self.levels[0].depth // (6 if self.cube else 1)


def make_image(
    memory: DeviceMemory,
    format: Format,
    shape: tuple[int, ...],
    *,
    layered: bool = False,
    cube: bool = False,
    levels: int = 1,
    name: str = "CUDA array",
) -> Image:
    """An array with its memory; ``shape`` is (width[, height[, depth]]); for layered arrays and cubes its last number counts layers or faces.

    Raises:
        ArgumentError: no array can have these sizes.
    """
    axes = len(shape) - (1 if layered or cube else 0)
    if not 1 <= axes <= 3 or min(shape) < 1 or (cube and (axes != 2 or shape[0] != shape[1] or shape[2] % 6)):
        raise ArgumentError(f"no array has the sizes {shape}" + (": a cube is (n, n, 6 times cubes)" if cube else ""))
    if cube and not layered and shape[2] != 6:
        raise ArgumentError(f"a cube has six faces, not {shape[2]}; several cubes are layered")
    if not 1 <= levels <= MAX_LEVELS:
        raise ArgumentError(f"an array has 1 to {MAX_LEVELS} levels, not {levels}")
    depth = shape[-1] if layered or cube else 0
    sizes = []
    for n in range(levels):
        halved = [max(s >> n, 1) for s in shape[:axes]]
        width, height, slices = (*halved, 1, 1)[:3]
        sizes.append((width, height, depth or slices))
    total = sum(w * h * d for w, h, d in sizes) * format.element_bytes
    allocation = memory.allocate(total, name)
    found = []
    address = allocation.address
    for width, height, slices in sizes:
        row = width * format.element_bytes
        found.append(Level(width, height, slices, address, row, row * height))
        address += row * height * slices
    return Image(format, axes, tuple(found), layered, cube, allocation=allocation)


@dataclass(frozen=True)
class Sampler:
    """How a texture is read."""

    address: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    linear: bool = False
    normalized: bool = False
    as_integer: bool = False
    srgb: bool = False
    mip_linear: bool = False
    bias: float = 0.0
    least: float = 0.0
    most: float = 0.0
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    seamless: bool = False
    anisotropy: int = 1


def check_sampler(image: Image, sampler: Sampler) -> None:
    """Refuse samplers that CUDA does not have or that are not modelled.

    Raises:
        ArgumentError, UnsupportedError: with the cause.
    """
    if sampler.anisotropy > 1:
        raise UnsupportedError("anisotropic filtering is not modelled: use anisotropy 1 (maxAnisotropy 0 or 1)")
    whole = image.format.kind != FLOAT and (sampler.as_integer or image.format.channel_bytes == 4)
    if sampler.linear and whole:
        raise ArgumentError(
            "a texture of integers cannot be filtered: read it as normalised floats, or without a filter"
        )
    if image.buffer and sampler.normalized:
        raise ArgumentError("a texture of linear memory is read by element: it has no normalised coordinates")
    if len(image.levels) > 1 and not sampler.normalized:
        raise ArgumentError("a texture with levels needs normalised coordinates")


def fixed_level(value: float) -> int:
    """A level in units of 1/256, truncated towards zero, as the sampler stores it."""
    return int(np.clip(np.trunc(np.float64(np.float32(value)) * 256), -(1 << 20), 1 << 20))


def border_element(format: Format, as_integer: bool, value: float) -> int:
    """One channel of the border's colour as an element: the bits of a float, or the nearest integer."""
    single = np.float32(value)
    size, signed = format.channel_bytes, format.kind == SIGNED
    if format.kind == FLOAT:
        return int(single.view(np.uint32)) if size == 4 else int(single.astype(np.float16).view(np.uint16))
    most = (1 << 8 * size - signed) - 1
    if as_integer:
        # In this case the colour's bits are an integer.
        whole = int(single.view(np.int32 if signed else np.uint32))
        return int(np.clip(whole, -most - 1 if signed else 0, most))
    return int(np.ceil(np.clip(float(single), -1.0 if signed else 0.0, 1.0) * most - 0.5))


class TextureTable:
    """Texture and surface objects of one device."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self.rows = np.zeros((FIRST_ROWS, ROW.size_bytes // 8), np.int64)
        self._free = list(range(FIRST_ROWS - 1, 0, -1))
        self._uses: dict[int, int] = {}
        self.objects: dict[int, Image] = {}
        """Live handles."""

    def add(self, image: Image, sampler: Sampler | None) -> int:
        """Add a texture object, or a surface object if there is no ``sampler``; returns its handle."""
        if not self._free:
            count = len(self.rows)
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self._free = list(range(2 * count - 1, count - 1, -1))
        index = self._free.pop()
        use = self._uses.get(index, 0) + 1
        self._uses[index] = use
        handle = index | (use & 0xFFF) << INDEX_BITS
        row = self.rows[index]
        row[:] = 0

        def put(name: str, *values: int) -> None:
            at = ROW.slot(name)
            row[at : at + len(values)] = values

        how = sampler or Sampler()
        put("handle", handle)
        put("purpose", SURFACE if sampler is None else TEXTURE)
        for name in ("axes", "layered", "cube", "layers", "buffer", "pitched"):
            put(name, int(getattr(image, name)))
        for name in ("kind", "channel_bytes", "channels"):
            put(name, int(getattr(image.format, name)))
        for name in ("normalized", "srgb", "linear", "mip_linear", "seamless"):
            put(name, int(getattr(how, name)))
        put("address", *how.address)
        whole = bool(image.format.kind != FLOAT and (how.as_integer or image.format.channel_bytes == 4))
        put("as_integer", int(whole))
        put("border_element", *(border_element(image.format, whole, value) for value in how.border))
        for name in ("bias", "least", "most"):
            put(name, fixed_level(getattr(how, name)))
        put("levels", len(image.levels))
        put("level", *(v for one in image.levels for v in (one.width, one.height, one.depth, one.address, one.row_bytes, one.slice_bytes)))  # fmt: skip
        self.objects[handle] = image
        image.users.append(handle)
        return handle

    def remove(self, handle: int) -> bool:
        """Destroy an object; returns False if there is none."""
        image = self.objects.pop(handle, None)
        if image is None:
            return False
        image.users.remove(handle)
        index = handle & (1 << INDEX_BITS) - 1
        self.rows[index] = 0
        self._free.append(index)
        return True

    def forget(self, image: Image) -> None:
        """Invalidate the objects of an image that is freed."""
        for handle in tuple(image.users):
            self.remove(handle)


_tables: weakref.WeakKeyDictionary[DeviceMemory, TextureTable] = weakref.WeakKeyDictionary()


def table_of(memory: DeviceMemory) -> TextureTable:
    """A device's table."""
    found = _tables.get(memory)
    if found is None:
        found = _tables[memory] = TextureTable(memory)
    return found


def read_row(row: npt.NDArray[np.int64]) -> dict[str, Any]:
    """A row as a mapping from field name to value, for Python code."""
    found: dict[str, Any] = {}
    slots = [(name, ROW.slot(name)) for name in ROW]
    ends = [at for _, at in slots[1:]] + [ROW.slot("level") + MAX_LEVELS * LEVEL_SLOTS]
    for (name, at), end in zip(slots, ends, strict=True):
        found[name] = int(row[at]) if end - at == 1 else tuple(int(v) for v in row[at:end])
    levels = found.pop("level")
    found["level"] = [Level(*levels[LEVEL_SLOTS * n : LEVEL_SLOTS * n + LEVEL_SLOTS]) for n in range(found["levels"])]
    return found
