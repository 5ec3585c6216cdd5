"""Images and samplers of OpenCL C on Cypress and Cayman, as arguments of kernels.  Made by ``gpu.image`` and ``gpu.sampler``.

Rows are linear and padded as Evergreen's *linear aligned* surfaces: to 64 texels and to 256 bytes.
"""

from __future__ import annotations

import struct
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.device_memory import DeviceMemory
from warpwright.errors import ArgumentError, FreedArrayError
from warpwright.isa.r600.bindings import BoundImage
from warpwright.isa.r600.compiler.opencl_images import ImageKind
from warpwright.isa.r600.element_formats import FORMATS, FRACTION, INTEGER, NUMBER

Array = npt.NDArray[Any]
ROW_ALIGNMENT_BYTES, LEAST_ROW_TEXELS = 256, 64
MOST_SIZE = 16384
"""Texels along an axis, and layers: ``WIDTH`` and ``HEIGHT`` of SQ_TEX_RESOURCE have 14 bits."""
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
ADDRESSES = {"none": 0, "clamp_to_edge": 2, "clamp": 4, "repeat": 6, "mirrored_repeat": 8}


@dataclass(frozen=True, slots=True)
class ImageForm:
    """Sizes and elements of an image; ``GPU.image`` explains them."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "RGBA"
    normalized: bool = False
    layered: bool = False

    @property
    def components(self) -> int:
        """Numbers of a texel in memory."""
        return max(n for n in ORDERS[self.order][1] if n < 4) + 1

    @property
    def kind(self) -> ImageKind:
        return ImageKind(len(self.shape) - self.layered, self.layered)

    @property
    def extents(self) -> tuple[int, int, int]:
        """Width, height, and layers or the depth."""
        sizes = self.shape[1:] if self.layered else self.shape
        width, height, depth = (*reversed(sizes), 1, 1)[:3]
        return width, height, self.shape[0] if self.layered else depth

    def check(self) -> None:
        """Refuse sizes and elements that no image has.

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
        if not 1 <= self.kind.dimensions <= (2 if self.layered else 3) or not all(
            1 <= n <= MOST_SIZE for n in self.shape
        ):
            raise ArgumentError(
                f"no image has the sizes {self.shape}: one to three, or a number of layers before one or two, each from 1 to {MOST_SIZE}"
            )


class ClImage:
    """An image in the memory of a simulated AMD GPU.  Made by ``gpu.image``."""

    def __init__(self, memory: DeviceMemory, form: ImageForm, name: str = "") -> None:
        form.check()
        self.memory, self.form = memory, form
        texel_bytes = form.dtype.itemsize * form.components
        width, height, depth = form.extents
        alignment = max(LEAST_ROW_TEXELS, ROW_ALIGNMENT_BYTES // texel_bytes)
        self.row_texels = -(-width // alignment) * alignment
        label = f"image {name!r}" if name else f"image {form.dtype}[{', '.join(map(str, form.shape))}]"
        self._allocation = memory.allocate(self.row_texels * height * depth * texel_bytes, label)
        self._finalizer = weakref.finalize(self, memory.abandon, self._allocation)
        self._finalizer.atexit = False

    def numpy(self) -> Array:
        """Return a NumPy view, of shape (…, height, width), with a last axis of components if there are several; writes change the image.

        Raises:
            FreedArrayError: the image was freed.
        """
        if self._allocation.freed:
            raise FreedArrayError(
                f"{self._allocation.name} was used after it was freed; make a new one with gpu.image(...)"
            )
        width, height, depth = self.form.extents
        raw = self.memory.view(self._allocation.address, self._allocation.size_bytes).view(self.form.dtype)
        texels = raw.reshape(depth, height, self.row_texels, self.form.components)[:, :, :width]
        return texels.reshape(*self.form.shape, *[self.form.components] * (self.form.components > 1))

    def set(self, values: npt.ArrayLike) -> None:
        """Copy host values to the image."""
        self.numpy()[...] = values

    def get(self) -> Array:
        """Return a copy."""
        return self.numpy().copy()

    def free(self) -> None:
        """Free the memory at once."""
        self.memory.free(self._allocation)

    def bound(self, at: int) -> BoundImage:
        """The image as a program sees it, with its record at an offset of the launch's words."""
        form = self.form
        number = _NUMBERS[8 * form.dtype.itemsize, form.components, form.dtype.kind == "f"]
        kind = NUMBER if form.dtype.kind == "f" else FRACTION if form.normalized else INTEGER
        signed = form.dtype.kind == "i"
        return BoundImage(at, form.kind.dimensions, form.layered, number, kind, signed, 1, ORDERS[form.order][1])

    def record(self) -> bytes:
        """The launch's words: address, sizes, texels per row and per layer, channel data type and order."""
        self.numpy()
        _, height, _ = self.form.extents
        kinds = TYPES[self.form.dtype.name, self.form.normalized] | ORDERS[self.form.order][0] << 16
        steps = self.row_texels, self.row_texels * height
        return struct.pack("<Q6I", self._allocation.address, *self.form.extents, *steps, kinds)

    def __repr__(self) -> str:
        form = self.form
        return f"<image {form.order} of {form.dtype}, {' x '.join(map(str, form.shape))}{' layers first' if form.layered else ''}>"


@dataclass(frozen=True, slots=True)
class ClSampler:
    """How a kernel reads images.  Made by ``gpu.sampler``."""

    value: int
    """OpenCL C's number of it."""


def make_sampler(filter: str, address: str, normalized: bool) -> ClSampler:
    """See ``GPU.sampler``."""
    for what, given, known in (("filter", filter, FILTERS), ("address", address, ADDRESSES)):
        if given not in known:
            raise ArgumentError(f"{what}={given!r} is not known; use one of {', '.join(known)}")
    if not normalized and address in ("repeat", "mirrored_repeat"):
        raise ArgumentError(f"address={address!r} needs normalized=True, as in OpenCL")
    return ClSampler(FILTERS[filter] | ADDRESSES[address] | normalized)
