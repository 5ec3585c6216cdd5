"""cuDNN's spatial transformer (``cuda/spatial.cu``): grids of affine maps, and images sampled at them bilinearly, in two dimensions, with their gradients."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass, field
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.driver_state import state
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import entry, invalid, unsupported
from warpwright.libraries.cudnn.handles import Tensor, add, element_of, found, handle_of, sum_of

_BILINEAR = 0
"""CUDNN_SAMPLER_BILINEAR."""
_THREADS = 256
_DIMENSIONS = 4


@dataclass(eq=False)
class Transformer:
    """A descriptor: the type of the grid's elements, and the sizes of the sampled images."""

    of_null: ClassVar[int] = 0
    type: int = 0
    sizes: list[int] = field(default_factory=list)


@entry("cudnnCreateSpatialTransformerDescriptor")
def create(place: int) -> None:
    add(place, Transformer())


@entry("cudnnDestroySpatialTransformerDescriptor")
def destroy(number: int) -> None:
    state().handles.drop(number)


@entry("cudnnSetSpatialTransformerNdDescriptor")
def set_transformer(number: int, sampler: int, type: int, count: int, sizes: int) -> None:
    if sampler != _BILINEAR or not sizes:
        raise invalid()
    if count != _DIMENSIONS:
        raise unsupported("spatial transformers of other than two dimensions are not provided")
    transformer = found(Transformer, number)
    transformer.type, transformer.sizes = type, list(cmemory.read(f"{count}i", sizes))


def _launch(
    name: str, element: str, items: int, stream: int, arguments: list[int | float | bytes], block_per_item: bool = False
) -> None:
    if not items:
        return
    macros = {"GRADIENT": 1} if name.startswith("sampler_") else {}
    code = library_kernels.code("spatial.cu", "cuDNN", ELEMENT=element, SUM=sum_of(element), **macros)
    grid = (items if block_per_item else -(-items // _THREADS),)
    library_kernels.launch(code, f"warpwright_{name}", grid, _THREADS, stream, arguments)


@entry("cudnnSpatialTfGridGeneratorForward")
def grid_forward(number: int, transformer: int, theta: int, grid: int) -> None:
    stream, of = handle_of(number).stream, found(Transformer, transformer)
    images, _, height, width = of.sizes
    element = element_of(of.type)
    _launch("affine_grid", element, images * height * width, stream, [images, height, width, theta, grid])


@entry("cudnnSpatialTfGridGeneratorBackward")
def grid_backward(number: int, transformer: int, dgrid: int, dtheta: int) -> None:
    stream, of = handle_of(number).stream, found(Transformer, transformer)
    images, _, height, width = of.sizes
    _launch(
        "affine_grid_gradient", element_of(of.type), images, stream, [height, width, dgrid, dtheta], block_per_item=True
    )


def _image(number: int, address: int, of: Transformer) -> tuple[Tensor, bytes]:
    """An image's tensor, and the kernels' ``Image``."""
    tensor = found(Tensor, number)
    if len(tensor.sizes) != _DIMENSIONS or tensor.type != of.type:
        raise invalid()
    return tensor, struct.pack("<Q4q4i", address, *tensor.strides, *tensor.sizes)


def _check(images: Tensor, samples: Tensor, of: Transformer) -> None:
    if samples.sizes != of.sizes or images.sizes[:2] != of.sizes[:2]:
        raise invalid()


def _numbers(element: str, *places: int) -> list[float]:
    form = "d" if element == "double" else "f"
    return [cmemory.read(form, place)[0] for place in places]


def _points(of: Transformer) -> int:
    images, _, height, width = of.sizes
    return images * height * width


Forward = namedtuple("Forward", "number transformer alpha x_tensor x grid beta y_tensor y")
"""Arguments of cudnnSpatialTfSamplerForward."""


@entry("cudnnSpatialTfSamplerForward", record=Forward)
def sampler_forward(call: Forward) -> None:
    stream, of = handle_of(call.number).stream, found(Transformer, call.transformer)
    (x, of_x), (y, of_y) = _image(call.x_tensor, call.x, of), _image(call.y_tensor, call.y, of)
    _check(x, y, of)
    scales = _numbers(x.element, call.alpha, call.beta)
    _launch("sampler", x.element, _points(of), stream, [of_x, of_y, call.grid, *scales])


Backward = namedtuple(
    "Backward",
    "number transformer alpha x_tensor x beta dx_tensor dx alpha_grid dy_tensor dy grid beta_grid dgrid",
)
"""Arguments of cudnnSpatialTfSamplerBackward."""


@entry("cudnnSpatialTfSamplerBackward", record=Backward)
def sampler_backward(call: Backward) -> None:
    stream, of = handle_of(call.number).stream, found(Transformer, call.transformer)
    (x, of_x), (dx, of_dx) = _image(call.x_tensor, call.x, of), _image(call.dx_tensor, call.dx, of)
    dy, of_dy = _image(call.dy_tensor, call.dy, of)
    _check(x, dy, of)
    if dx.sizes != x.sizes:
        raise invalid()
    if x.element not in ("float", "double"):
        raise unsupported("the gradient of a sampler of f16 is not provided")
    alpha, beta, alpha_grid, beta_grid = _numbers(x.element, call.alpha, call.beta, call.alpha_grid, call.beta_grid)
    images, channels, height, width = dx.sizes
    _launch("sampler_scale", x.element, images * channels * height * width, stream, [of_dx, beta])
    places: list[int | float | bytes] = [of_x, of_dx, of_dy, call.grid, call.dgrid]
    _launch("sampler_gradient", x.element, _points(of), stream, [*places, alpha, alpha_grid, beta_grid])
