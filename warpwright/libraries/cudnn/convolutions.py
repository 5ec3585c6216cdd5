"""Convolutions: the launch of their kernels, and the functions of cuDNN 7 and 8."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import entry, invalid, unsupported
from warpwright.libraries.cublas.product_kernels import Plan
from warpwright.libraries.cudnn.handles import Tensor, add, found, handle_of, sum_of
from warpwright.libraries.cudnn.measured_convolutions import Convolution, time_of
from warpwright.session import session

FORWARD, DATA, FILTER = range(3)
"""MODE of ``cuda/convolution.cu``."""
_TILE, _THREADS = 64, 256
_ARGUMENTS = "<3Q 15q 2d 9i 7i".replace(" ", "")
_CONVOLUTION = 0
"""CUDNN_CONVOLUTION: the filter is flipped; 1 is cross-correlation."""


@dataclass(eq=False)
class Geometry:
    """A convolution's parameters for each spatial dimension."""

    of_null: ClassVar[int] = 0
    padding: list[int] = field(default_factory=list)
    stride: list[int] = field(default_factory=list)
    dilation: list[int] = field(default_factory=list)
    mode: int = 1
    groups: int = 0
    """0: as many as the channels of the input have those of the filter."""
    math_type: int = 0


@dataclass(slots=True)
class Operand:
    """A tensor with its memory."""

    tensor: Tensor
    address: int


def _three(values: list[int], missing: int) -> list[int]:
    """Values of depth, height and width."""
    return [missing] * (3 - len(values)) + values


def _five(values: list[int]) -> list[int]:
    """Strides of image, channel, depth, height and width."""
    return [*values[:2], *_three(values[2:], 0)]


def check(x: Tensor, w: Tensor, y: Tensor, g: Geometry) -> int:
    """The number of groups.

    Raises:
        LibraryError: sizes that do not belong together; more than three spatial dimensions, or tensors of different types.
    """
    spatial = len(x.sizes) - 2
    if not 1 <= spatial <= 3:
        raise unsupported(f"convolutions with {spatial} spatial dimensions are not provided")
    if not x.type == w.type == y.type:
        raise unsupported("convolutions of tensors of different types are not provided")
    groups = g.groups or x.sizes[1] // w.sizes[1]
    wanted = [
        (n + 2 * p - d * (r - 1) - 1) // s + 1
        for n, p, d, r, s in zip(x.sizes[2:], g.padding, g.dilation, w.sizes[2:], g.stride, strict=True)
    ]
    fits = x.sizes[1] == groups * w.sizes[1] and y.sizes[:2] == [x.sizes[0], w.sizes[0]] and not w.sizes[0] % groups
    if not fits or y.sizes[2:] != wanted:
        raise invalid(f"a convolution of {x.sizes} by {w.sizes} does not make {y.sizes}")
    return groups


def convolve(
    mode: int, operands: tuple[Operand, Operand, Operand], g: Geometry, scales: tuple[float, float], stream: int
) -> None:
    """Submit one of the three products of input, filter and output to a stream; the one that is its result is written."""
    x, w, y = (operand.tensor for operand in operands)
    check(x, w, y, g)
    if 0 in (*x.sizes, *w.sizes, *y.sizes):
        return
    planned = plan(mode, operands, g, scales)
    code = library_kernels.code(planned.file, "cuDNN", KERNEL=planned.name, **planned.macros)
    time = None
    if session.library_model is not None:
        time = time_of(class_of(mode, (x, w, y), g), code.digest(), library_kernels.chip_name())
    library_kernels.launch(code, planned.name, planned.grid, planned.threads, stream, planned.arguments, time=time)


def class_of(mode: int, tensors: tuple[Tensor, Tensor, Tensor], g: Geometry) -> Convolution | None:
    """What is known of a convolution's measured time; None for groups, dilation and orders in memory that were not measured."""
    x, w, y = tensors
    if check(x, w, y, g) != 1 or set(g.dilation) - {1}:
        return None
    orders = set.intersection(*(orders_of(tensor) for tensor in tensors))
    if not orders:
        return None
    return Convolution(x.type, mode, min(orders), prod(x.sizes[2:]) * x.sizes[0], x.sizes[1], w.sizes[0])


def orders_of(tensor: Tensor) -> set[str]:
    """``nchw`` and ``nhwc`` as far as a tensor is laid out so without gaps; both for one position or one channel."""
    sizes, found = tensor.sizes, set()
    for name, axes in (("nchw", tuple(range(len(sizes)))), ("nhwc", (0, *range(2, len(sizes)), 1))):
        expected, step = {}, 1
        for axis in reversed(axes):
            expected[axis] = step
            step *= sizes[axis]
        if all(tensor.strides[axis] == expected[axis] for axis in axes if sizes[axis] > 1):
            found.add(name)
    return found


def plan(mode: int, operands: tuple[Operand, Operand, Operand], g: Geometry, scales: tuple[float, float]) -> Plan:
    """The kernel of one of the three products."""
    x, w, y = (operand.tensor for operand in operands)
    groups = check(x, w, y, g)
    filter_sizes, strides = _three(w.sizes[2:], 1), _three(g.stride, 1)
    outs, ins = _three(y.sizes[2:], 1), _three(x.sizes[2:], 1)
    in_channels, out_channels = w.sizes[1], w.sizes[0] // groups
    element = x.element
    name = f"warpwright_convolution_{('forward', 'data', 'filter')[mode]}_{'x'.join(map(str, filter_sizes))}_stride_{'x'.join(map(str, strides))}"
    defines: dict[str, str | int] = {"MODE": mode, "ELEMENT": element, "SUM": sum_of(element)}
    defines |= {f"FILTER_{axis}": size for axis, size in zip("DHW", filter_sizes, strict=True)}
    defines |= {f"STRIDE_{axis}": size for axis, size in zip("DHW", strides, strict=True)}
    arguments = struct.pack(
        _ARGUMENTS,
        *(operand.address for operand in operands),
        *(*_five(x.strides), *_five(w.strides), *_five(y.strides)),
        *scales,
        *(x.sizes[0], *ins, *outs, in_channels, out_channels),
        *(*_three(g.padding, 0), *_three(g.dilation, 1), g.mode == _CONVOLUTION),
    )
    taps = filter_sizes[0] * filter_sizes[1] * filter_sizes[2]
    columns = in_channels * taps
    if mode != FILTER:
        positions = ins if mode == DATA else outs
        columns = x.sizes[0] * positions[0] * positions[1] * positions[2]
    rows = in_channels if mode == DATA else out_channels
    grid = (-(-columns // _TILE), -(-rows // _TILE), groups)
    return Plan("convolution.cu", name, defines, grid, _THREADS, (arguments,))


# --- functions of cuDNN 7 and 8 ---------------------------------------------------------------------
@entry("cudnnCreateConvolutionDescriptor")
def create_convolution(place: int) -> None:
    add(place, Geometry())


@entry("cudnnSetConvolutionNdDescriptor")
def set_convolution(number: int, count: int, padding: int, stride: int, dilation: int, mode: int, type: int) -> None:
    g = found(Geometry, number)
    g.padding, g.stride, g.dilation = (list(cmemory.read(f"{count}i", place)) for place in (padding, stride, dilation))
    g.mode, g.groups = mode, 1


SetConvolution2d = namedtuple(
    "SetConvolution2d", "number pad_h pad_w stride_h stride_w dilation_h dilation_w mode type"
)
"""Arguments of cudnnSetConvolution2dDescriptor."""


@entry("cudnnSetConvolution2dDescriptor", record=SetConvolution2d)
def set_convolution_2d(call: SetConvolution2d) -> None:
    g = found(Geometry, call.number)
    g.padding, g.stride, g.dilation = (
        [call.pad_h, call.pad_w],
        [call.stride_h, call.stride_w],
        [call.dilation_h, call.dilation_w],
    )
    g.mode, g.groups = call.mode, 1


@entry("cudnnSetConvolutionGroupCount")
def set_groups(number: int, groups: int) -> None:
    found(Geometry, number).groups = groups


@entry("cudnnSetConvolutionMathType")
def set_math_type(number: int, math_type: int) -> None:
    found(Geometry, number).math_type = math_type


_WORKSPACES = [f"cudnnGetConvolution{name}WorkspaceSize" for name in ("Forward", "BackwardData", "BackwardFilter")]


@entry(*_WORKSPACES)
def workspace_size(number: int, a: int, b: int, c: int, d: int, algorithm: int, place: int) -> None:
    handle_of(number)
    cmemory.put64(place, 0)


_PERFORMANCE = "iifQiii3i"
"""cudnnConvolution*AlgoPerf_t: algorithm, status, time, memory, determinism, math type, reserved."""
_ALGORITHMS = [f"cudnnGetConvolution{name}Algorithm_v7" for name in ("Forward", "BackwardData", "BackwardFilter")]


@entry(*_ALGORITHMS)
def algorithms(number: int, a: int, b: int, c: int, d: int, wanted: int, count: int, place: int) -> None:
    handle_of(number)
    if wanted < 1:
        raise invalid()
    # Algorithm 1 is deterministic in all three enumerations.
    cmemory.write(_PERFORMANCE, place, 1, 0, 0.0, 0, 1, 0, 0, 0, 0)
    cmemory.put32(count, 1)


def _scales(alpha: int, beta: int, tensor: Tensor) -> tuple[float, float]:
    layout = "d" if tensor.element == "double" else "f"
    return cmemory.read(layout, alpha)[0], cmemory.read(layout, beta)[0]


def _run(
    number: int,
    mode: int,
    tensors: tuple[int, int, int],
    places: tuple[int, int, int],
    geometry: int,
    alpha: int,
    beta: int,
) -> None:
    operands = [Operand(found(Tensor, t), p) for t, p in zip(tensors, places, strict=True)]
    x, w, y = operands
    scales = _scales(alpha, beta, x.tensor)
    convolve(mode, (x, w, y), found(Geometry, geometry), scales, handle_of(number).stream)


Forward = namedtuple("Forward", "number alpha x_tensor x w_tensor w geometry algorithm workspace size beta y_tensor y")
"""Arguments of cudnnConvolutionForward."""


@entry("cudnnConvolutionForward", record=Forward)
def forward(call: Forward) -> None:
    _run(
        call.number,
        FORWARD,
        (call.x_tensor, call.w_tensor, call.y_tensor),
        (call.x, call.w, call.y),
        call.geometry,
        call.alpha,
        call.beta,
    )


BackwardData = namedtuple(
    "BackwardData", "number alpha w_tensor w dy_tensor dy geometry algorithm workspace size beta dx_tensor dx"
)
"""Arguments of cudnnConvolutionBackwardData."""


@entry("cudnnConvolutionBackwardData", record=BackwardData)
def backward_data(call: BackwardData) -> None:
    _run(
        call.number,
        DATA,
        (call.dx_tensor, call.w_tensor, call.dy_tensor),
        (call.dx, call.w, call.dy),
        call.geometry,
        call.alpha,
        call.beta,
    )


BackwardFilter = namedtuple(
    "BackwardFilter", "number alpha x_tensor x dy_tensor dy geometry algorithm workspace size beta dw_tensor dw"
)
"""Arguments of cudnnConvolutionBackwardFilter."""


@entry("cudnnConvolutionBackwardFilter", record=BackwardFilter)
def backward_filter(call: BackwardFilter) -> None:
    _run(
        call.number,
        FILTER,
        (call.x_tensor, call.dw_tensor, call.dy_tensor),
        (call.x, call.dw, call.dy),
        call.geometry,
        call.alpha,
        call.beta,
    )
