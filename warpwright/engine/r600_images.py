"""Images and samplers of OpenCL C on Cypress and Cayman, as arguments of kernels.  Made by ``gpu.image`` and ``gpu.sampler``.

Rows are linear and padded as Evergreen's *linear aligned* surfaces: to 64 texels and to 256 bytes.
"""

from __future__ import annotations

import struct
import weakref
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import ArgumentError, FreedArrayError
from warpwright.isa.r600.bindings import IMAGE_RECORD_BYTES, MIP_LINEAR, MIP_NEAREST
from warpwright.isa.r600.compiler.opencl_images import LEVELS_AT, ImageKind, Texels
from warpwright.isa.r600.element_formats import FORMATS, FRACTION, INTEGER, NUMBER

Array = npt.NDArray[Any]
ROW_ALIGNMENT_BYTES, LEAST_ROW_TEXELS = 256, 64
MOST_SIZE = 16384
"""Texels along an axis, and layers: ``WIDTH`` and ``HEIGHT`` of SQ_TEX_RESOURCE have 14 bits."""
MOST_BUFFER_BYTES = 1 << 32
"""``SIZE`` of SQ_VTX_CONSTANT has 32 bits."""
ORDERS: dict[str, tuple[int, tuple[int, int, int, int]]] = {
    # OpenCL's number, and the component (4: zero, 5: one) of each channel
    **{
        "R": (0x10B0, (0, 4, 4, 5)),
        "A": (0x10B1, (4, 4, 4, 0)),
        "RG": (0x10B2, (0, 1, 4, 5)),
        "RA": (0x10B3, (0, 4, 4, 1)),
    },
    **{"RGBA": (0x10B5, (0, 1, 2, 3)), "BGRA": (0x10B6, (2, 1, 0, 3)), "ARGB": (0x10B7, (1, 2, 3, 0))},
    **{"INTENSITY": (0x10B8, (0, 0, 0, 0)), "LUMINANCE": (0x10B9, (0, 0, 0, 5))},
}
"""Orders of channels."""
TYPES: dict[tuple[str, bool], int] = {
    **{("int8", True): 0x10D0, ("int16", True): 0x10D1, ("uint8", True): 0x10D2, ("uint16", True): 0x10D3},
    **{("int8", False): 0x10D7, ("int16", False): 0x10D8, ("int32", False): 0x10D9},
    **{("uint8", False): 0x10DA, ("uint16", False): 0x10DB, ("uint32", False): 0x10DC},
    **{("float16", False): 0x10DD, ("float32", False): 0x10DE},
}
"""OpenCL's channel data type, by NumPy's type and whether integers are fractions of their largest value."""
_NUMBERS = {known: number for number, known in FORMATS.items()}
FILTERS = {"nearest": 0x10, "linear": 0x20}
MIPS = {"nearest": MIP_NEAREST, "linear": MIP_LINEAR}
ADDRESSES = {"none": 0, "clamp_to_edge": 2, "clamp": 4, "repeat": 6, "mirrored_repeat": 8}


@dataclass(frozen=True, slots=True)
class ImageForm:
    """Sizes and elements of an image; ``GPU.image`` explains them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "RGBA"
    normalized: bool = False
    layered: bool = False
    levels: int = 1
    buffer: bool = False

    @property
    def components(self) -> int:
        """Numbers of a texel in memory."""
        return max(n for n in ORDERS[self.order][1] if n < 4) + 1

    @property
    def kind(self) -> ImageKind:
        return ImageKind(len(self.shape) - self.layered, self.layered, self.buffer)

    @property
    def extents(self) -> tuple[int, int, int]:
        """Width, height, and layers or the depth."""
        sizes = self.shape[1:] if self.layered else self.shape
        width, height, depth = (*reversed(sizes), 1, 1)[:3]
        return width, height, self.shape[0] if self.layered else depth

    @property
    def texel_bytes(self) -> int:
        return self.dtype.itemsize * self.components

    def level(self, number: int) -> ImageForm:
        """Form of a level: each size is halved per level, except the number of layers."""
        sizes = [max(n >> number, 1) for n in self.shape]
        return replace(self, shape=(*self.shape[: self.layered], *sizes[self.layered :]), levels=1)

    def check(self) -> None:
        """Refuse sizes and elements that no image has.

        Raises:
            ArgumentError: with the cause.
        """
        self.check_elements()
        if self.buffer:
            self._check_buffer()
        elif not 1 <= self.kind.dimensions <= (2 if self.layered else 3) or not all(
            1 <= n <= MOST_SIZE for n in self.shape
        ):
            raise ArgumentError(
                f"no image has the sizes {self.shape}: one to three, or a number of layers before one or two, each from 1 to {MOST_SIZE}"
            )
        most = max(self.shape[self.layered :]).bit_length()
        if not 1 <= self.levels <= (1 if self.buffer else most):
            raise ArgumentError(f"levels={self.levels}: an image of {self.shape} has 1 to {most}")

    def check_elements(self) -> None:
        """Refuse elements that no image has.

        Raises:
            ArgumentError: with the cause.
        """
        if self.order not in ORDERS:
            raise ArgumentError(f"order={self.order!r} is not known; use one of {', '.join(ORDERS)}")
        if (self.dtype.name, self.normalized) not in TYPES:
            wanted = (
                "normalized=True takes 8 and 16-bit integers"
                if self.normalized
                else "an image's channels are 8, 16 or 32-bit integers, float16 or float32"
            )
            raise ArgumentError(f"{wanted}, not {self.dtype}")

    def _check_buffer(self) -> None:
        if not 0 < self.shape[0] * self.texel_bytes <= MOST_BUFFER_BYTES:
            raise ArgumentError(
                f"a buffer of {self.shape[0]} texels of {self.texel_bytes} bytes: it has at least one, and at most {MOST_BUFFER_BYTES >> 30} GiB"
            )


def row_texels(form: ImageForm) -> int:
    """Row pitch in texels."""
    width = form.shape[-1]
    alignment = 1 if form.buffer else max(LEAST_ROW_TEXELS, ROW_ALIGNMENT_BYTES // form.texel_bytes)
    return -(-width // alignment) * alignment


def size_bytes(form: ImageForm) -> int:
    """Size of the first level in bytes."""
    _, height, depth = form.extents
    return row_texels(form) * height * depth * form.texel_bytes


class ClImage:
    """An image in the memory of a simulated AMD GPU.  Made by ``gpu.image``."""

    def __init__(
        self,
        memory: DeviceMemory,
        form: ImageForm,
        name: str = "",
        within: tuple[object, Allocation, int] | None = None,
    ) -> None:
        form.check()
        self.memory, self.form = memory, form
        self.row_texels = row_texels(form)
        """Texels from a row to the next."""
        sizes = [size_bytes(form.level(n)) for n in range(form.levels)]
        self._starts = [sum(sizes[:n]) for n in range(form.levels)]
        if within is not None:
            self._owner, self._allocation, self._offset = within
            return
        label = f"image {name!r}" if name else f"image {form.dtype}[{', '.join(map(str, form.shape))}]"
        self._owner, self._allocation, self._offset = None, memory.allocate(sum(sizes), label), 0
        self._finalizer = weakref.finalize(self, memory.abandon, self._allocation)
        self._finalizer.atexit = False

    def level(self, number: int) -> ClImage:
        """One of its levels, as an image that shares its memory: kernels write levels one at a time.

        Raises:
            ArgumentError: it has no such level.
        """
        if not 0 <= number < self.form.levels:
            raise ArgumentError(f"{self!r} has the levels 0 to {self.form.levels - 1}, not {number}")
        within = self._owner or self, self._allocation, self._offset + self._starts[number]
        return ClImage(self.memory, self.form.level(number), within=within)

    @property
    def _address(self) -> int:
        return self._allocation.address + self._offset

    def numpy(self) -> Array:
        """Return a NumPy view of its first level, of shape (…, height, width), with a last axis of components if there are several; writes change the image.

        Raises:
            FreedArrayError: the image was freed.
        """
        if self._allocation.freed:
            raise FreedArrayError(
                f"{self._allocation.name} was used after it was freed; make a new one with gpu.image(...)"
            )
        width, height, depth = self.form.extents
        raw = self.memory.view(self._address, size_bytes(self.form.level(0))).view(self.form.dtype)
        texels = raw.reshape(depth, height, self.row_texels, self.form.components)[:, :, :width]
        return texels.reshape(*self.form.shape, *[self.form.components] * (self.form.components > 1))

    def set(self, values: npt.ArrayLike) -> None:
        """Copy host values to the image."""
        self.numpy()[...] = values

    def get(self) -> Array:
        """Return a copy."""
        return self.numpy().copy()

    def free(self) -> None:
        """Free the memory at once, with that of the other levels, or of the array that it shares."""
        self.memory.free(self._allocation)

    def texels(self, at: int) -> Texels:
        """The image as a program sees it, with its record at an offset of the launch's words."""
        form = self.form
        number = _NUMBERS[8 * form.dtype.itemsize, form.components, form.dtype.kind == "f"]
        kind = NUMBER if form.dtype.kind == "f" else FRACTION if form.normalized else INTEGER
        selects = ORDERS[form.order][1]
        return Texels(at, number, kind, form.dtype.kind == "i", selects, form.texel_bytes, form.levels)

    def record(self, levels: int = 1) -> bytes:
        """The launch's words: for each level address, sizes, texels per row and per layer, then channel data type and order, or the number of levels.

        Args:
            levels: levels that the words have place for.
        """
        self.numpy()
        form = self.form
        kinds = TYPES[form.dtype.name, form.normalized] | ORDERS[form.order][0] << 16
        if form.buffer:
            size, count = form.shape[0] * form.texel_bytes, form.shape[0]
            return struct.pack("<Q6I", self._address, size & 0xFFFFFFFF, count, 1, count, count, kinds)
        records = []
        for n in range(min(form.levels, levels)):
            level = form.level(n)
            _, height, _ = level.extents
            steps = row_texels(level), row_texels(level) * height
            records.append(struct.pack("<Q6I", self._address + self._starts[n], *level.extents, *steps, kinds))
        words = b"".join(records).ljust(IMAGE_RECORD_BYTES * levels, b"\0")
        if levels > 1:
            words = words[:LEVELS_AT] + struct.pack("<I", form.levels) + words[LEVELS_AT + 4 :]
        return words

    def __repr__(self) -> str:
        form = self.form
        return f"<image {form.order} of {form.dtype}, {' x '.join(map(str, form.shape))}{' layers first' if form.layered else ''}>"


@dataclass(frozen=True, slots=True)
class ClSampler:
    """How a kernel reads images.  Made by ``gpu.sampler``."""

    value: int
    """OpenCL C's number of it."""
    mip: int = MIP_NEAREST
    """How it chooses among an image's levels."""


def make_sampler(filter: str, address: str, normalized: bool, mip: str) -> ClSampler:
    """See ``GPU.sampler``."""
    for what, given, known in (("filter", filter, FILTERS), ("address", address, ADDRESSES), ("mip", mip, MIPS)):
        if given not in known:
            raise ArgumentError(f"{what}={given!r} is not known; use one of {', '.join(known)}")
    if not normalized and (address in ("repeat", "mirrored_repeat") or mip == "linear"):
        what = f"address={address!r}" if mip != "linear" else f"mip={mip!r}"
        raise ArgumentError(f"{what} needs normalized=True, as in OpenCL")
    return ClSampler(FILTERS[filter] | ADDRESSES[address] | normalized, MIPS[mip])
