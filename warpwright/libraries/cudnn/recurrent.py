"""Recurrent layers of cuDNN: ReLU, tanh, LSTM and GRU cells, several layers, both directions, packed sequences, dropout between layers.

A layer's inputs are multiplied in one product for all times; each time step is a product with the states and one kernel (``cuda/rnn.cu``).
"""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.driver_state import state
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import entry, invalid, unsupported
from warpwright.libraries.cublas import product_kernels, products
from warpwright.libraries.cudnn.dropout import Dropout
from warpwright.libraries.cudnn.handles import Tensor, add, element_of, found, handle_of, sum_of
from warpwright.libraries.element_types import R_16BF, R_16F, R_32F, R_64F, TYPES

_GATES = {0: 1, 1: 1, 2: 4, 3: 3}
"""Gates by cudnnRNNMode_t: ReLU, tanh, LSTM, GRU."""
_LSTM, _GRU = 2, 3
_NO_BIAS, _DOUBLE_BIAS = 0, 2
_PACKED = 1
"""CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED; 0 is unpacked."""
_TYPES = {0: R_32F, 1: R_64F, 2: R_16F, 9: R_16BF}
"""cudaDataType by cudnnDataType_t."""
_THREADS = 256
_STEP = "<8QQq5Q2i"
"""The structure Step of ``cuda/rnn.cu``."""
_ALIGNMENT = 256


@dataclass(eq=False)
class Network:
    """A recurrent network's descriptor."""

    of_null: ClassVar[int] = 0
    mode: int = 0
    biases: int = _DOUBLE_BIAS
    directions: int = 1
    type: int = 0
    input: int = 0
    hidden: int = 0
    layers: int = 1
    dropout: int = 0

    @property
    def gates(self) -> int:
        return _GATES[self.mode]

    @property
    def rows(self) -> int:
        """Rows of a weight matrix: every gate of every unit."""
        return self.gates * self.hidden

    @property
    def element_bytes(self) -> int:
        return TYPES[_TYPES[self.type]].size_bytes

    @property
    def sum_bytes(self) -> int:
        return 8 if self.type == 1 else 4

    @property
    def probability(self) -> float:
        """Of dropping an element between layers."""
        return found(Dropout, self.dropout).probability if self.dropout else 0.0

    def inputs_of(self, layer: int) -> int:
        return self.directions * self.hidden if layer else self.input

    def weights(self) -> dict[tuple[int, int], Weights]:
        """Where each layer's and direction's parameters begin, in elements of the weight space."""
        places, at = {}, 0
        for layer in range(self.layers):
            for direction in range(self.directions):
                inner = self.rows * self.inputs_of(layer)
                places[layer, direction] = (at, at + inner)
                at += inner + self.rows * self.hidden
        made = {}
        for key, (own, recurrent) in places.items():
            made[key] = Weights(own, recurrent, at, at + self.rows)
            at += 2 * self.rows if self.biases else 0
        return made

    def weight_elements(self) -> int:
        matrices = sum(self.directions * self.rows * (self.inputs_of(i) + self.hidden) for i in range(self.layers))
        return matrices + (2 * self.rows * self.directions * self.layers if self.biases else 0)


@dataclass(frozen=True, slots=True)
class Weights:
    """Offsets of a layer's parameters, in elements."""

    input: int
    recurrent: int
    input_bias: int
    recurrent_bias: int


@dataclass(eq=False)
class Sequences:
    """An RNN data descriptor: sequences of vectors, by time."""

    of_null: ClassVar[int] = 0
    type: int = 0
    layout: int = 0
    batch: int = 0
    vector: int = 0
    lengths: list[int] = field(default_factory=list)

    def steps(self) -> list[tuple[int, int]]:
        """First row and number of rows of each time step."""
        found, at = [], 0
        for time in range(max(self.lengths, default=0)):
            rows = sum(length > time for length in self.lengths)
            found.append((at, rows))
            at += rows
        return found


@dataclass(slots=True)
class Areas:
    """Consecutive parts of a work area, each aligned."""

    at: int = 0

    def take(self, size: int) -> int:
        place, self.at = self.at, self.at + -(-size // _ALIGNMENT) * _ALIGNMENT
        return place


@dataclass(slots=True)
class Kept:
    """What a layer's direction leaves for its gradients."""

    gates: int
    states: int
    cells: int
    d_input: int
    d_recurrent: int


@dataclass(slots=True)
class Layout:
    """The reserve space: what each layer keeps; offsets, or addresses once it has a place."""

    kept: dict[tuple[int, int], Kept]
    outputs: list[int]
    dropped: list[int]
    factors: list[int]
    size: int

    @classmethod
    def of(cls, network: Network, rows: int, base: int = 0) -> Layout:
        areas, n, element, sums = Areas(base), network, network.element_bytes, network.sum_bytes
        kept = {}
        for layer in range(n.layers):
            for direction in range(n.directions):
                gates, states = areas.take(rows * n.rows * sums), areas.take(rows * n.hidden * element)
                cells = areas.take(rows * 2 * n.hidden * sums) if n.mode in (_LSTM, _GRU) else 0
                own = areas.take(rows * n.rows * element)
                other = areas.take(rows * n.rows * element) if n.mode == _GRU else own
                kept[layer, direction] = Kept(gates, states, cells, own, other)
        wide = rows * n.directions * n.hidden * element
        lists = [[areas.take(wide) for _ in range(n.layers - 1)] for _ in range(3 if n.dropout else 1)]
        outputs = lists[0]
        dropped, factors = lists[1:] if n.dropout else (outputs, [])
        return cls(kept, outputs, dropped, factors, areas.at - base)


@dataclass(slots=True)
class Temporary:
    """The workspace: products of one step, states, and gradients of a layer's outputs."""

    recurrent: int
    state: int
    cell: int
    d_state: int
    d_cell: int
    d_outputs: tuple[int, int]
    size: int

    @classmethod
    def of(cls, network: Network, rows: int, batch: int, base: int = 0) -> Temporary:
        areas, n, element, sums = Areas(base), network, network.element_bytes, network.sum_bytes
        one = batch * n.hidden
        recurrent, state = areas.take(batch * n.rows * sums), areas.take(one * element)
        cell, d_state, d_cell = (areas.take(one * sums) for _ in range(3))
        wide = rows * n.directions * n.hidden * element
        d_outputs = areas.take(wide), areas.take(wide)
        return cls(recurrent, state, cell, d_state, d_cell, d_outputs, areas.at - base)


# --- descriptors ------------------------------------------------------------------------------------
@entry("cudnnCreateRNNDescriptor")
def create_network(place: int) -> None:
    add(place, Network())


@entry("cudnnCreateRNNDataDescriptor")
def create_sequences(place: int) -> None:
    add(place, Sequences())


@entry("cudnnDestroyRNNDescriptor", "cudnnDestroyRNNDataDescriptor")
def destroy(number: int) -> None:
    state().handles.drop(number)


SetNetwork = namedtuple(
    "SetNetwork",
    "number algorithm mode biases directions input_mode type precision math input hidden projection layers dropout flags",
)
"""Arguments of cudnnSetRNNDescriptor_v8."""


@entry("cudnnSetRNNDescriptor_v8", record=SetNetwork)
def set_network(call: SetNetwork) -> None:
    network = found(Network, call.number)
    element_of(call.type)
    if call.mode not in _GATES:
        raise invalid(f"no recurrent cell {call.mode}")
    if call.projection not in (0, call.hidden):
        raise unsupported("recurrent layers with projections are not provided")
    if call.biases not in (_NO_BIAS, _DOUBLE_BIAS) or call.input_mode:
        raise unsupported("recurrent layers with one bias or without input weights are not provided")
    network.mode, network.biases, network.directions = call.mode, call.biases, 2 if call.directions else 1
    network.type, network.input, network.hidden = call.type, call.input, call.hidden
    network.layers, network.dropout = call.layers, call.dropout


SetSequences = namedtuple("SetSequences", "number type layout longest batch vector lengths fill")
"""Arguments of cudnnSetRNNDataDescriptor."""


@entry("cudnnSetRNNDataDescriptor", record=SetSequences)
def set_sequences(call: SetSequences) -> None:
    sequences = found(Sequences, call.number)
    lengths = list(cmemory.read(f"{call.batch}i", call.lengths))
    if call.layout not in (0, _PACKED):
        raise unsupported("sequences in the batch's order are not provided")
    if call.layout != _PACKED and any(length != call.longest for length in lengths):
        raise unsupported("sequences of different lengths that are not packed are not provided")
    if lengths != sorted(lengths, reverse=True):
        raise unsupported("packed sequences that are not sorted by length are not provided")
    sequences.type, sequences.layout, sequences.batch = call.type, call.layout, call.batch
    sequences.vector, sequences.lengths = call.vector, lengths


@entry("cudnnGetRNNWeightSpaceSize")
def weight_space(number: int, network: int, place: int) -> None:
    described = found(Network, network)
    cmemory.put64(place, described.weight_elements() * described.element_bytes)


WeightParameters = namedtuple(
    "WeightParameters", "number network pseudo_layer size weights gate matrix matrix_place bias bias_place"
)
"""Arguments of cudnnGetRNNWeightParams."""


@entry("cudnnGetRNNWeightParams", record=WeightParameters)
def weight_parameters(call: WeightParameters) -> None:
    n = found(Network, call.network)
    layer, direction = divmod(call.pseudo_layer, n.directions)
    if not (0 <= layer < n.layers and 0 <= call.gate < 2 * n.gates):
        # Gate 2 * gates is the projection's matrix, which there is none of.
        _describe(call.matrix, call.matrix_place, n, None, (0, 0))
        _describe(call.bias, call.bias_place, n, None, (0, 0))
        return
    weights, recurrent = n.weights()[layer, direction], call.gate >= n.gates
    columns, gate = (n.hidden if recurrent else n.inputs_of(layer)), call.gate % n.gates
    matrix = (weights.recurrent if recurrent else weights.input) + gate * n.hidden * columns
    bias = (weights.recurrent_bias if recurrent else weights.input_bias) + gate * n.hidden
    _describe(call.matrix, call.matrix_place, n, call.weights + matrix * n.element_bytes, (n.hidden, columns))
    at = call.weights + bias * n.element_bytes if n.biases else None
    _describe(call.bias, call.bias_place, n, at, (n.hidden, 1))


def _describe(descriptor: int, place: int, network: Network, at: int | None, sizes: tuple[int, int]) -> None:
    """Give a parameter's sizes and address; a null address: there is none."""
    if descriptor:
        tensor, (rows, columns) = found(Tensor, descriptor), sizes
        tensor.type = network.type
        tensor.sizes, tensor.strides = (
            ([1, rows, columns], [rows * columns, columns, 1]) if at is not None else ([], [])
        )
    if place:
        cmemory.put64(place, at or 0)


@entry("cudnnGetRNNTempSpaceSizes")
def space_sizes(number: int, network: int, trains: int, x: int, work: int, reserve: int) -> None:
    n, sequences = found(Network, network), found(Sequences, x)
    rows = sum(sequences.lengths)
    kept, temporary = Layout.of(n, rows).size, Temporary.of(n, rows, sequences.batch).size
    if work:
        cmemory.put64(work, temporary + (0 if trains else kept))
    if reserve:
        cmemory.put64(reserve, kept if trains else 0)


# --- launches ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Line:
    """Rows of a matrix in memory: where they are, how many, and elements from one to the next."""

    address: int
    ld: int
    transposed: bool = False


@dataclass(slots=True)
class Pass:
    """One call: the network, its sequences, and where its weights and areas are."""

    network: Network
    sequences: Sequences
    stream: int
    weights: int
    layout: Layout
    temporary: Temporary

    @property
    def rows(self) -> int:
        return sum(self.sequences.lengths)

    @property
    def state_bytes(self) -> int:
        """The bytes of the states of one layer and direction."""
        return self.sequences.batch * self.network.hidden * self.network.element_bytes

    def launch(self, kernel: str, count: int, arguments: list[int | float | bytes]) -> None:
        """Launch a kernel of ``cuda/rnn.cu`` with a thread for each of ``count`` elements."""
        if not count:
            return
        element = element_of(self.network.type)
        defines: dict[str, str | int] = {"ELEMENT": element, "SUM": sum_of(element), "MODE": self.network.mode}
        code = library_kernels.code("rnn.cu", "cuDNN", **defines)
        library_kernels.launch(
            code, f"warpwright_rnn_{kernel}", [-(-count // _THREADS)], _THREADS, self.stream, arguments
        )

    def multiply(self, sizes: tuple[int, int, int], a: Line, b: Line, c: Line, type_of_c: int, adds: bool) -> None:
        """``C = A B`` or ``C += A B`` of matrices whose rows are contiguous; sizes are those of C and of the sum."""
        m, n, k = sizes
        if not (m and n):
            return
        own = _TYPES[self.network.type]
        result = products.Matrix(c.address, type_of_c, c.ld)
        product_kernels.run(
            products.Product(
                n,
                m,
                k,
                products.Matrix(b.address, own, b.ld, op=int(b.transposed)),
                products.Matrix(a.address, own, a.ld, op=int(a.transposed)),
                result,
                result,
                products.Scalar(1),
                products.Scalar(float(adds)),
                R_64F if own == R_64F else R_32F,
                library="cuDNN",
            ),
            self.stream,
        )

    def weight(self, offset: int) -> int:
        return self.weights + offset * self.network.element_bytes

    def layer_input(self, x: int, layer: int) -> int:
        return self.layout.dropped[layer - 1] if layer else x

    def steps(self, direction: int) -> Iterator[tuple[int, int]]:
        """Time steps in the order of a direction."""
        steps = self.sequences.steps()
        return reversed(steps) if direction else iter(steps)

    def step(self, key: tuple[int, int], first: int, rows: int, outputs: tuple[int, int]) -> bytes:
        """The structure Step of ``cuda/rnn.cu``; outputs are the layer's results and their gradients, or 0."""
        n, kept, areas = self.network, self.layout.kept[key], self.temporary
        own = n.weights()[key]
        width, element, sums = n.directions * n.hidden, n.element_bytes, n.sum_bytes
        places = [at + (first * width + key[1] * n.hidden) * element if at else 0 for at in outputs]
        biases = [self.weight(at) if n.biases else 0 for at in (own.input_bias, own.recurrent_bias)]
        gate, state = first * n.rows, first * n.hidden
        return struct.pack(
            _STEP,
            *(kept.gates + gate * sums, areas.recurrent, *biases, areas.state, areas.cell),
            *(kept.states + state * element, kept.cells + 2 * state * sums if kept.cells else 0),
            *(places[0], width, places[1], areas.d_state, areas.d_cell),
            *(kept.d_input + gate * element, kept.d_recurrent + gate * element, rows, n.hidden),
        )


Forward = namedtuple(
    "Forward",
    "number network trains lengths x_sequences x y_sequences y h_tensor hx hy c_tensor cx cy weight_bytes weights work_bytes work reserve_bytes reserve",
)
"""Arguments of cudnnRNNForward."""


@entry("cudnnRNNForward", record=Forward)
def forward(call: Forward) -> None:
    n, sequences = found(Network, call.network), found(Sequences, call.x_sequences)
    rows = sum(sequences.lengths)
    temporary = Temporary.of(n, rows, sequences.batch, call.work)
    layout = Layout.of(n, rows, call.reserve if call.trains else call.work + temporary.size)
    work = Pass(n, sequences, handle_of(call.number).stream, call.weights, layout, temporary)
    for layer in range(n.layers):
        outputs = call.y if layer == n.layers - 1 else layout.outputs[layer]
        for direction in range(n.directions):
            _forward_direction(work, call, (layer, direction), outputs)
        if layer < n.layers - 1 and n.dropout:
            count, seed = rows * n.directions * n.hidden, found(Dropout, n.dropout).next_seed()
            probability = n.probability if call.trains else 0.0
            places = [outputs, layout.dropped[layer], layout.factors[layer]]
            work.launch("drop", count, [count, *places, probability, seed, 1])


def _forward_direction(work: Pass, call: Forward, key: tuple[int, int], outputs: int) -> None:
    n, areas, own, kept = work.network, work.temporary, work.network.weights()[key], work.layout.kept[key]
    inner, sums = n.inputs_of(key[0]), R_64F if n.type == 1 else R_32F
    offset = (key[0] * n.directions + key[1]) * work.state_bytes
    count = work.sequences.batch * n.hidden
    work.launch("copy", count, [count, call.hx and call.hx + offset, areas.state])
    if n.mode == _LSTM:
        work.launch("widen", count, [count, call.cx and call.cx + offset, areas.cell])
    x = Line(work.layer_input(call.x, key[0]), inner)
    matrix = Line(work.weight(own.input), inner, transposed=True)
    work.multiply((work.rows, n.rows, inner), x, matrix, Line(kept.gates, n.rows), sums, adds=False)
    recurrent = Line(work.weight(own.recurrent), n.hidden, transposed=True)
    for first, rows in work.steps(key[1]):
        result = Line(areas.recurrent, n.rows)
        work.multiply((rows, n.rows, n.hidden), Line(areas.state, n.hidden), recurrent, result, sums, adds=False)
        work.launch("forward", rows * n.hidden, [work.step(key, first, rows, (outputs, 0))])
    if call.hy:
        work.launch("copy", count, [count, areas.state, call.hy + offset])
    if call.cy and n.mode == _LSTM:
        work.launch("narrow", count, [count, areas.cell, call.cy + offset])


BackwardData = namedtuple(
    "BackwardData",
    "number network lengths y_sequences y dy x_sequences dx h_tensor hx dhy dhx c_tensor cx dcy dcx weight_bytes weights work_bytes work reserve_bytes reserve",
)
"""Arguments of cudnnRNNBackwardData_v8."""


@entry("cudnnRNNBackwardData_v8", record=BackwardData)
def backward_data(call: BackwardData) -> None:
    n, sequences = found(Network, call.network), found(Sequences, call.x_sequences)
    rows = sum(sequences.lengths)
    temporary = Temporary.of(n, rows, sequences.batch, call.work)
    layout = Layout.of(n, rows, call.reserve)
    work = Pass(n, sequences, handle_of(call.number).stream, call.weights, layout, temporary)
    gradients = call.dy
    for layer in reversed(range(n.layers)):
        below = temporary.d_outputs[layer % 2] if layer else call.dx
        for direction in range(n.directions):
            _backward_direction(work, call, (layer, direction), gradients, below)
        if layer and n.dropout:
            count = rows * n.directions * n.hidden
            work.launch("drop", count, [count, below, below, layout.factors[layer - 1], 0.0, 0, 0])
        gradients = below


def _backward_direction(work: Pass, call: BackwardData, key: tuple[int, int], gradients: int, below: int) -> None:
    n, areas, own, kept = work.network, work.temporary, work.network.weights()[key], work.layout.kept[key]
    inner, sums = n.inputs_of(key[0]), R_64F if n.type == 1 else R_32F
    offset = (key[0] * n.directions + key[1]) * work.state_bytes
    count = work.sequences.batch * n.hidden
    work.launch("widen", count, [count, call.dhy and call.dhy + offset, areas.d_state])
    if n.mode == _LSTM:
        work.launch("widen", count, [count, call.dcy and call.dcy + offset, areas.d_cell])
    recurrent = Line(work.weight(own.recurrent), n.hidden)
    for first, rows in work.steps(1 - key[1]):
        work.launch("backward", rows * n.hidden, [work.step(key, first, rows, (0, gradients))])
        step = Line(kept.d_recurrent + first * n.rows * n.element_bytes, n.rows)
        result = Line(areas.d_state, n.hidden)
        work.multiply((rows, n.hidden, n.rows), step, recurrent, result, sums, adds=True)
    if below:
        matrix, inputs = Line(work.weight(own.input), inner), Line(below, inner)
        step = Line(kept.d_input, n.rows)
        work.multiply((work.rows, inner, n.rows), step, matrix, inputs, _TYPES[n.type], adds=key[1] > 0)
    if call.dhx:
        work.launch("narrow", count, [count, areas.d_state, call.dhx + offset])
    if call.dcx and n.mode == _LSTM:
        work.launch("narrow", count, [count, areas.d_cell, call.dcx + offset])


BackwardWeights = namedtuple(
    "BackwardWeights",
    "number network mode lengths x_sequences x h_tensor hx y_sequences y weight_bytes weights work_bytes work reserve_bytes reserve",
)
"""Arguments of cudnnRNNBackwardWeights_v8."""


@entry("cudnnRNNBackwardWeights_v8", record=BackwardWeights)
def backward_weights(call: BackwardWeights) -> None:
    n, sequences = found(Network, call.network), found(Sequences, call.x_sequences)
    rows, adds = sum(sequences.lengths), call.mode == 0
    layout = Layout.of(n, rows, call.reserve)
    temporary = Temporary.of(n, rows, sequences.batch, call.work)
    work = Pass(n, sequences, handle_of(call.number).stream, call.weights, layout, temporary)
    for key, own in n.weights().items():
        kept, inner, own_type = layout.kept[key], n.inputs_of(key[0]), _TYPES[n.type]
        inputs = Line(work.layer_input(call.x, key[0]), inner)
        step = Line(kept.d_input, n.rows, transposed=True)
        work.multiply((n.rows, inner, rows), step, inputs, Line(work.weight(own.input), inner), own_type, adds)
        step, states = Line(kept.d_recurrent, n.rows, transposed=True), Line(kept.states, n.hidden)
        result = Line(work.weight(own.recurrent), n.hidden)
        work.multiply((n.rows, n.hidden, rows), step, states, result, own_type, adds)
        if n.biases:
            for values, at in ((kept.d_input, own.input_bias), (kept.d_recurrent, own.recurrent_bias)):
                work.launch("column_sums", n.rows, [rows, n.rows, values, work.weight(at), int(adds)])
