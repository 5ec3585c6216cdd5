"""cuDNN of this package, called as C programs call it, against NumPy."""

from __future__ import annotations

import ctypes
import itertools
import sys

import numpy as np
import pytest

from tests.library_calls import Array, Device, Library

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files"),
]
FLOAT, NCHW, CROSS_CORRELATION, SPATIAL = 0, 0, 1, 1
NOT_SUPPORTED, BAD_PARAM = 3000, 2000


@pytest.fixture(scope="module")
def dnn(memory: Device) -> Library:
    return Library("libcudnn.so.9")


def integers(*values: int) -> Array:
    return np.array(values, np.int32)


def tensor(dnn: Library, array: Array) -> int:
    made = dnn.word("cudnnCreateTensorDescriptor")
    strides = integers(*(s // array.itemsize for s in array.strides))
    dnn("cudnnSetTensorNdDescriptor", made, FLOAT, array.ndim, integers(*array.shape), strides)
    return made


def convolution(x: Array, w: Array, padding: int, stride: int, dilation: int, groups: int) -> Array:
    """A direct convolution of images by filters."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = ((x.shape[a] - dilation * (w.shape[a] - 1) - 1) // stride + 1 for a in (2, 3))
    y = np.zeros((x.shape[0], w.shape[0], height, width))
    of_group = w.shape[0] // groups
    for k, r, s in itertools.product(*(range(w.shape[a]) for a in (0, 2, 3))):
        first = k // of_group * w.shape[1]
        rows, columns = r * dilation, s * dilation
        seen = x[
            :,
            first : first + w.shape[1],
            rows : rows + height * stride : stride,
            columns : columns + width * stride : stride,
        ]
        y[:, k] += np.einsum("nchw,c->nhw", seen[:, :, :height, :width], w[k, :, r, s])
    return y


@pytest.mark.parametrize(("padding", "stride", "dilation", "groups"), [(1, 1, 1, 1), (0, 2, 1, 2), (2, 1, 2, 1)])
def test_convolution_and_its_gradients(
    memory: Device, dnn: Library, padding: int, stride: int, dilation: int, groups: int
) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 4, 9, 8)).astype(np.float32)
    w = random.standard_normal((6, 4 // groups, 3, 3)).astype(np.float32)
    arguments = (padding, stride, dilation, groups)
    expected = convolution(x, w, *arguments)
    y = np.zeros(expected.shape, np.float32)
    handle, shape = dnn.word("cudnnCreate"), dnn.word("cudnnCreateConvolutionDescriptor")
    pairs = (integers(v, v) for v in (padding, stride, dilation))
    dnn("cudnnSetConvolutionNdDescriptor", shape, 2, *pairs, CROSS_CORRELATION, FLOAT)
    dnn("cudnnSetConvolutionGroupCount", shape, groups)
    filters = dnn.word("cudnnCreateFilterDescriptor")
    dnn("cudnnSetFilterNdDescriptor", filters, FLOAT, NCHW, 4, integers(*w.shape))
    of_x, of_y = tensor(dnn, x), tensor(dnn, y)
    px, pw, py = (memory.put(a) for a in (x, w, y))
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    dnn("cudnnConvolutionForward", handle, one, of_x, px, filters, pw, shape, 1, 0, 0, zero, of_y, py)
    np.testing.assert_allclose(memory.get(py, np.float32, y.shape, "C"), expected, atol=2e-5)
    # Gradients of the sum of the squares' halves: directional derivatives by differences.
    dy = expected.astype(np.float32)
    pdy, pdx, pdw = memory.put(dy), memory.put(np.zeros_like(x)), memory.put(np.zeros_like(w))
    dnn("cudnnConvolutionBackwardData", handle, one, filters, pw, of_y, pdy, shape, 1, 0, 0, zero, of_x, pdx)
    dnn("cudnnConvolutionBackwardFilter", handle, one, of_x, px, of_y, pdy, shape, 1, 0, 0, zero, filters, pdw)
    dx, dw = memory.get(pdx, np.float32, x.shape, "C"), memory.get(pdw, np.float32, w.shape, "C")
    for i in range(4):
        step_x, step_w = random.standard_normal(x.shape), random.standard_normal(w.shape)
        along_x = (dy * convolution(step_x, w, *arguments)).sum()
        along_w = (dy * convolution(x, step_w, *arguments)).sum()
        assert (dx * step_x).sum() == pytest.approx(along_x, rel=1e-4, abs=1e-2), i
        assert (dw * step_w).sum() == pytest.approx(along_w, rel=1e-4, abs=1e-2), i


def test_sizes_that_do_not_fit_are_refused(memory: Device, dnn: Library) -> None:
    handle, shape = dnn.word("cudnnCreate"), dnn.word("cudnnCreateConvolutionDescriptor")
    dnn("cudnnSetConvolutionNdDescriptor", shape, 2, *(integers(1, 1) for _ in range(3)), CROSS_CORRELATION, FLOAT)
    filters = dnn.word("cudnnCreateFilterDescriptor")
    dnn("cudnnSetFilterNdDescriptor", filters, FLOAT, NCHW, 4, integers(2, 2, 3, 3))
    x = tensor(dnn, np.zeros((1, 3, 5, 5), np.float32))
    y = tensor(dnn, np.zeros((1, 2, 5, 5), np.float32))
    one = np.ones(1, np.float32)
    assert dnn.raw("cudnnConvolutionForward", handle, one, x, 0, filters, 0, shape, 1, 0, 0, one, y, 0) == BAD_PARAM


@pytest.mark.parametrize("channels_last", [False, True])
def test_batch_normalisation(memory: Device, dnn: Library, channels_last: bool) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((3, 5, 4, 6)).astype(np.float32)
    if channels_last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    scale, bias = random.standard_normal((2, 5)).astype(np.float32)
    handle, of_x = dnn.word("cudnnCreate"), tensor(dnn, x)
    parameters = dnn.word("cudnnCreateTensorDescriptor")
    dnn("cudnnDeriveBNTensorDescriptor", parameters, of_x, SPATIAL)
    flat = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).reshape(-1) if channels_last else x.reshape(-1)
    px, py, pscale, pbias = (memory.put(a) for a in (flat, flat, scale, bias))
    running_mean, running_variance, mean, inverse = (memory.put(np.full(5, v, np.float32)) for v in (0, 1, 0, 0))
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    dnn(
        "cudnnBatchNormalizationForwardTraining", handle, SPATIAL, one, zero, of_x, px, of_x, py, parameters, pscale, pbias,
        ctypes.c_double(0.1), running_mean, running_variance, ctypes.c_double(1e-5), mean, inverse,
    )  # fmt: skip
    middle, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    normal = (x - middle[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
    expected = normal * scale[:, None, None] + bias[:, None, None]
    found = memory.get(py, np.float32, flat.shape, "C")
    found = found.reshape(3, 4, 6, 5).transpose(0, 3, 1, 2) if channels_last else found.reshape(x.shape)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    unbiased = x.var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(memory.get(running_variance, np.float32, (5,)), 0.9 + 0.1 * unbiased, rtol=1e-5)
    np.testing.assert_allclose(memory.get(mean, np.float32, (5,)), middle, atol=1e-6)


def test_graphs_without_kernels_have_no_engine(dnn: Library, capfd: pytest.CaptureFixture[str]) -> None:
    operation, graph, heuristics = (ctypes.c_uint64() for _ in range(3))
    for kind, place in ((13, operation), (15, graph), (4, heuristics)):
        dnn("cudnnBackendCreateDescriptor", kind, ctypes.byref(place))
    dnn("cudnnBackendSetAttribute", graph.value, 801, 15, 1, ctypes.byref(operation))
    dnn("cudnnBackendSetAttribute", heuristics.value, 201, 15, 1, ctypes.byref(graph))
    count = ctypes.c_uint64()
    status = dnn.raw("cudnnBackendGetAttribute", heuristics.value, 202, 15, 0, ctypes.byref(count), 0)
    assert status == NOT_SUPPORTED
    assert "graphs of one convolution are provided, not one of operations [13]" in capfd.readouterr().err


def _lstm(x: Array, h: Array, c: Array, input: Array, recurrent: Array, bias: Array) -> tuple[Array, Array, Array]:
    """Outputs of all times and the last states of one layer, whose biases are already added."""
    outputs = []
    for step in x:
        i, f, g, o = np.split(step @ input.T + h @ recurrent.T + bias, 4, axis=1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        outputs.append(h)
    return np.stack(outputs), h, c


def _parameter(
    dnn: Library, network: tuple[int, int], gate: int, weights: int, size: int
) -> tuple[int, int, list[int]]:
    """Addresses of a gate's matrix and bias, and the matrix's sizes."""
    matrix, bias = (dnn.word("cudnnCreateTensorDescriptor") for _ in range(2))
    places = np.zeros(2, np.uint64)
    arguments = (ctypes.c_int(0), size, weights, ctypes.c_int(gate))
    dnn("cudnnGetRNNWeightParams", *network, *arguments, matrix, places[:1], bias, places[1:])
    type, count, sizes, strides = (np.zeros(8, np.int32) for _ in range(4))
    dnn("cudnnGetTensorNdDescriptor", matrix, ctypes.c_int(8), type, count, sizes, strides)
    return int(places[0]), int(places[1]), sizes[: count[0]].tolist()


def test_a_layer_of_long_short_term_memory(memory: Device, dnn: Library) -> None:
    times, batch, width, hidden, lstm, double_bias = 3, 2, 5, 4, 2, 2
    random = np.random.default_rng(5)
    handle = dnn.word("cudnnCreate")
    network = (handle, dnn.word("cudnnCreateRNNDescriptor"))
    modes = (0, lstm, double_bias, 0, 0, FLOAT, FLOAT, 0, width, hidden, hidden, 1)
    dnn("cudnnSetRNNDescriptor_v8", network[1], *map(ctypes.c_int, modes), 0, ctypes.c_uint(0))
    sequences = []
    for size in (width, hidden):
        sequences.append(dnn.word("cudnnCreateRNNDataDescriptor"))
        shape = map(ctypes.c_int, (FLOAT, 0, times, batch, size))
        dnn("cudnnSetRNNDataDescriptor", sequences[-1], *shape, integers(times, times), 0)
    size, work, reserve = np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.zeros(1, np.uint64)
    dnn("cudnnGetRNNWeightSpaceSize", *network, size)
    assert size[0] == 4 * (4 * hidden * (width + hidden) + 8 * hidden)
    dnn("cudnnGetRNNTempSpaceSizes", *network, ctypes.c_int(0), sequences[0], work, reserve)
    assert reserve[0] == 0
    weights = memory.put(np.zeros(int(size[0]), np.uint8))
    values = {False: random.standard_normal((4 * hidden, width)), True: random.standard_normal((4 * hidden, hidden))}
    bias = random.standard_normal((2, 4 * hidden))
    for gate in range(8):
        recurrent, rows = gate >= 4, slice(gate % 4 * hidden, (gate % 4 + 1) * hidden)
        matrix, place, sizes = _parameter(dnn, network, gate, weights, int(size[0]))
        assert sizes == [1, hidden, hidden if recurrent else width]
        part = np.ascontiguousarray(values[recurrent][rows], np.float32)
        ctypes.memmove(matrix, part.ctypes.data, part.nbytes)
        part = np.ascontiguousarray(bias[int(recurrent)][rows], np.float32)
        ctypes.memmove(place, part.ctypes.data, part.nbytes)
    x, h, c = (random.standard_normal(s) for s in ((times, batch, width), (batch, hidden), (batch, hidden)))
    inputs = [memory.put(np.ascontiguousarray(v, np.float32)) for v in (x, h, c)]
    y, hy, cy = (memory.put(np.zeros(n, np.float32)) for n in (times * batch * hidden, *[batch * hidden] * 2))
    states = (0, inputs[1], hy, 0, inputs[2], cy)
    spaces = (int(size[0]), weights, int(work[0]), memory.put(np.zeros(int(work[0]), np.uint8)), 0, 0)
    dnn(
        *("cudnnRNNForward", *network, ctypes.c_int(0), 0),
        *(sequences[0], inputs[0], sequences[1], y, *states, *spaces),
    )
    expected = _lstm(x, h, c, values[False], values[True], bias.sum(0))
    shapes = ((times, batch, hidden), (batch, hidden), (batch, hidden))
    for place, shape, wanted in zip((y, hy, cy), shapes, expected, strict=True):
        np.testing.assert_allclose(memory.get(place, np.float32, shape, "C"), wanted, atol=1e-5)


def test_projections_are_refused(dnn: Library) -> None:
    network, modes = dnn.word("cudnnCreateRNNDescriptor"), (0, 2, 2, 0, 0, FLOAT, FLOAT, 0, 5, 4, 3, 1)
    arguments = (network, *map(ctypes.c_int, modes), 0, ctypes.c_uint(0))
    assert dnn.raw("cudnnSetRNNDescriptor_v8", *arguments) == NOT_SUPPORTED


def ctc(x: Array, labels: list[int]) -> tuple[float, Array]:
    """The loss of activations by time and symbol and its gradient, by all alignments of a short sequence."""
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    total, through = 0.0, np.zeros_like(p)
    for path in itertools.product(range(x.shape[1]), repeat=len(x)):
        shown = [s for s, _ in itertools.groupby(path) if s]
        if shown == labels:
            chance = float(np.prod(p[range(len(x)), path]))
            total += chance
            through[range(len(x)), path] += chance
    return (-np.log(total), p - through / total) if total else (0.0, np.zeros_like(p))


@pytest.mark.parametrize("on_device", [False, True])
def test_connectionist_temporal_classification(memory: Device, dnn: Library, on_device: bool) -> None:
    random = np.random.default_rng(4)
    most, symbols, labels, times = 5, 3, [[1, 2], [1, 1, 2], [], [2, 2, 2]], [5, 5, 3, 4]
    x = random.standard_normal((most, len(labels), symbols)).astype(np.float32)
    words = [integers(*itertools.chain(*labels)), integers(*map(len, labels)), integers(*times)]
    loss = dnn.word("cudnnCreateCTCLossDescriptor")
    handle, shape = dnn.word("cudnnCreate"), tensor(dnn, x)
    costs, gradients = memory.put(np.full(len(labels), 7, np.float32)), memory.put(np.full(x.shape, 7, np.float32))
    place, size = memory.put(x), np.zeros(1, np.uint64)
    if on_device:
        dnn("cudnnSetCTCLossDescriptor_v8", loss, FLOAT, 1, 0, 8)
        dnn("cudnnGetCTCLossWorkspaceSize_v8", handle, 0, loss, shape, shape, size)
        work = memory.put(np.zeros(int(size[0]), np.uint8))
        arrays = [memory.put(w) for w in words]
        arguments = (handle, 0, loss, shape, place, *arrays, costs, shape, gradients, int(size[0]), work)
        dnn("cudnnCTCLoss_v8", *arguments)
    else:
        dnn("cudnnSetCTCLossDescriptorEx", loss, FLOAT, 1, 0)
        dnn("cudnnGetCTCLossWorkspaceSize", handle, shape, shape, *words, 0, loss, size)
        work = memory.put(np.zeros(int(size[0]), np.uint8))
        dnn("cudnnCTCLoss", handle, shape, place, *words, costs, shape, gradients, 0, loss, work, int(size[0]))
    found = memory.get(gradients, np.float32, x.shape, "C")
    for n, (label, count) in enumerate(zip(labels, times, strict=True)):
        expected, slope = ctc(x[:count, n].astype(float), label)
        assert memory.get(costs, np.float32, (len(labels),))[n] == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(found[:count, n], slope, atol=1e-5)
        assert not found[count:, n].any()


def bilinear(x: Array, grid: Array) -> Array:
    """Images sampled at the points of a grid, 0 outside, with the first and last elements' centres at -1 and 1."""
    images, channels, height, width = x.shape
    y = np.zeros((images, channels, *grid.shape[1:3]))
    for n, i, j in itertools.product(range(images), *map(range, grid.shape[1:3])):
        px, py = (grid[n, i, j] + 1) / 2 * (width - 1, height - 1)
        for column, row in itertools.product(
            (int(np.floor(px)), int(np.floor(px)) + 1), (int(np.floor(py)), int(np.floor(py)) + 1)
        ):
            if 0 <= column < width and 0 <= row < height:
                y[n, :, i, j] += (1 - abs(px - column)) * (1 - abs(py - row)) * x[n, :, row, column]
    return y


def test_spatial_transformer(memory: Device, dnn: Library) -> None:
    random = np.random.default_rng(5)
    x, theta = random.standard_normal((2, 3, 6, 5)), random.standard_normal((2, 2, 3))
    dy, dgrid, old = (random.standard_normal(shape) for shape in ((2, 3, 4, 7), (2, 4, 7, 2), x.shape))
    handle, transformer = dnn.word("cudnnCreate"), dnn.word("cudnnCreateSpatialTransformerDescriptor")
    dnn("cudnnSetSpatialTransformerNdDescriptor", transformer, 0, 1, 4, integers(*dy.shape))
    places = {
        name: memory.put(v) for name, v in (("x", x), ("theta", theta), ("dy", dy), ("dgrid", dgrid), ("dx", old))
    }
    of_grid, of_dtheta = (memory.put(np.full(shape, 7.0)) for shape in (dgrid.shape, theta.shape))
    dnn("cudnnSpatialTfGridGeneratorForward", handle, transformer, places["theta"], of_grid)
    columns, rows = np.meshgrid(np.linspace(-1, 1, 7), np.linspace(-1, 1, 4))
    base = np.stack([columns, rows, np.ones_like(rows)], -1)
    grid = np.einsum("ijk,nlk->nijl", base, theta)
    np.testing.assert_allclose(memory.get(of_grid, float, grid.shape, "C"), grid, atol=1e-12)
    dnn("cudnnSpatialTfGridGeneratorBackward", handle, transformer, places["dgrid"], of_dtheta)
    expected = np.einsum("ijk,nijl->nlk", base, dgrid)
    np.testing.assert_allclose(memory.get(of_dtheta, float, theta.shape, "C"), expected, atol=1e-12)

    def of(array: Array) -> int:
        made = dnn.word("cudnnCreateTensorDescriptor")
        strides = integers(*(s // array.itemsize for s in array.strides))
        dnn("cudnnSetTensorNdDescriptor", made, 1, 4, integers(*array.shape), strides)
        return made

    one, two, half = np.ones(1), np.full(1, 2.0), np.full(1, 0.5)
    at_y = memory.put(dy)
    dnn("cudnnSpatialTfSamplerForward", handle, transformer, two, of(x), places["x"], of_grid, half, of(dy), at_y)
    np.testing.assert_allclose(memory.get(at_y, float, dy.shape, "C"), 2 * bilinear(x, grid) + 0.5 * dy, atol=1e-11)
    dnn(
        "cudnnSpatialTfSamplerBackward",
        *(
            handle,
            transformer,
            two,
            of(x),
            places["x"],
            half,
            of(x),
            places["dx"],
            two,
            of(dy),
            places["dy"],
            of_grid,
            one,
            places["dgrid"],
        ),
    )
    # Gradients of the sum of y dy: y is linear in x, and differences of y tell its slope along the grid, away from the elements' lines.
    by_x = np.zeros_like(x)
    for n, c in itertools.product(range(2), range(3)):
        for at in np.ndindex(x.shape[2:]):
            unit = np.zeros((1, 1, *x.shape[2:]))
            unit[0, 0][at] = 1
            by_x[n, c][at] = (bilinear(unit, grid[n : n + 1])[0, 0] * dy[n, c]).sum()
    np.testing.assert_allclose(memory.get(places["dx"], float, x.shape, "C"), 2 * by_x + 0.5 * old, atol=1e-11)
    step, found = 1e-6, memory.get(places["dgrid"], float, grid.shape, "C")
    for axis in (0, 1):
        moved = [bilinear(x, grid + sign * step * np.eye(2)[axis]) for sign in (1, -1)]
        slope = ((moved[0] - moved[1]) / (2 * step) * dy).sum(1)
        np.testing.assert_allclose(found[..., axis], 2 * slope + dgrid[..., axis], atol=1e-5)


def test_a_spatial_transformer_that_is_not_provided(memory: Device, dnn: Library) -> None:
    transformer = dnn.word("cudnnCreateSpatialTransformerDescriptor")
    arguments = ("cudnnSetSpatialTransformerNdDescriptor", transformer)
    assert dnn.raw(*arguments, 0, FLOAT, 5, integers(1, 1, 2, 2, 2)) == NOT_SUPPORTED
    assert dnn.raw(*arguments, 1, FLOAT, 4, integers(1, 1, 2, 2)) == BAD_PARAM
