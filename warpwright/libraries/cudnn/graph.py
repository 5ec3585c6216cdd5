"""cuDNN's graph API: descriptors with attributes, graphs of one convolution, one engine, plans and their execution.

A graph of other operations has no engine: the heuristics return none, and finalising a plan for it is refused.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass, field
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.driver_state import state
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported
from warpwright.libraries.cudnn.convolutions import DATA, FILTER, FORWARD, Geometry, Operand, check, convolve
from warpwright.libraries.cudnn.handles import Tensor, add, element_of, found, handle_of

_CONVOLUTION, _ENGINE, _CONFIGURATION, _HEURISTICS, _PLAN = 1, 2, 3, 4, 5
_CONV_FORWARD, _CONV_FILTER, _CONV_DATA, _GRAPH, _PACK, _TENSOR = 10, 11, 12, 15, 16, 17
"""cudnnBackendDescriptorType_t."""
_DESCRIPTOR = 15
"""CUDNN_TYPE_BACKEND_DESCRIPTOR."""
_SIZES = {0: 8, 1: 4, 2: 1, 3: 8, 4: 4, 5: 8, 6: 8, 23: 4, 24: 1, 26: 16, _DESCRIPTOR: 8}
"""Bytes of an element by cudnnBackendAttributeType_t; of enumerations 4."""
_CONV_COMP_TYPE, _CONV_MODE, _CONV_DILATIONS, _CONV_STRIDES, _CONV_POST, _CONV_PRE, _CONV_DIMS = range(100, 107)
_HEUR_GRAPH, _HEUR_RESULTS, _CFG_ENGINE, _CFG_KNOBS, _PLAN_CONFIG, _PLAN_WORKSPACE = 201, 202, 300, 302, 401, 402
_GRAPH_OPERATIONS, _GRAPH_ENGINES, _TENSOR_TYPE, _TENSOR_SIZES, _TENSOR_STRIDES, _TENSOR_ID = (
    801,
    802,
    901,
    902,
    903,
    906,
)
_PACK_IDS, _PACK_POINTERS, _ENGINE_GRAPH, _ENGINE_INDEX = 1000, 1001, 1300, 1301
"""cudnnBackendAttributeName_t."""
_OPERATIONS = {
    # Mode of the kernel; attributes: alpha, beta, convolution, and the tensors x, w, y.
    _CONV_FORWARD: (FORWARD, 700, 701, 702, (704, 703, 705)),
    _CONV_DATA: (DATA, 706, 707, 708, (710, 709, 711)),
    _CONV_FILTER: (FILTER, 712, 713, 714, (716, 715, 717)),
}


@dataclass(eq=False)
class Descriptor:
    """A backend descriptor: type and bytes of each attribute, and the descriptors that others name.

    It keeps those: a program destroys its own handles of them as soon as it has set the attribute.
    """

    of_null: ClassVar[int] = 0
    kind: int
    values: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    items: dict[int, list[Descriptor]] = field(default_factory=dict)
    finalized: bool = False

    def numbers(self, attribute: int) -> list[int]:
        """An attribute of integers or enumerations."""
        if attribute not in self.values:
            return []
        type, raw = self.values[attribute]
        size = _SIZES.get(type, 4)
        return [int.from_bytes(raw[i : i + size], "little", signed=True) for i in range(0, len(raw), size)]

    def scale(self, attribute: int, default: float) -> float:
        """An attribute that is a float or a double."""
        if attribute not in self.values:
            return default
        raw = self.values[attribute][1]
        return float(struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0])

    def one(self, attribute: int, kind: int) -> Descriptor:
        """The descriptor that an attribute names.

        Raises:
            LibraryError: none, or one of another kind.
        """
        named = self.items.get(attribute, [])
        if len(named) != 1:
            raise invalid(f"the attribute {attribute} is not set")
        (item,) = named
        if item.kind != kind:
            raise invalid(f"the attribute {attribute} is a descriptor of type {item.kind}, not {kind}")
        return item


def tensor_of(d: Descriptor) -> Tensor:
    """The tensor of a descriptor."""
    (type,) = d.numbers(_TENSOR_TYPE)
    return Tensor(type, d.numbers(_TENSOR_SIZES), d.numbers(_TENSOR_STRIDES))


def _geometry(d: Descriptor) -> Geometry:
    padding = d.numbers(_CONV_PRE)
    if padding != d.numbers(_CONV_POST):
        raise unsupported("convolutions with different padding on both sides are not provided")
    (mode,) = d.numbers(_CONV_MODE)
    return Geometry(padding, d.numbers(_CONV_STRIDES), d.numbers(_CONV_DILATIONS), mode)


def _operation(graph: Descriptor) -> Descriptor:
    """The only operation of a graph.

    Raises:
        LibraryError: there are others than one convolution that kernels exist for.
    """
    operations = graph.items.get(_GRAPH_OPERATIONS, [])
    if len(operations) != 1 or operations[0].kind not in _OPERATIONS:
        kinds = [operation.kind for operation in operations]
        raise unsupported(f"graphs of one convolution are provided, not one of operations {kinds}")
    operation = operations[0]
    _, _, _, convolution, places = _OPERATIONS[operation.kind]
    x, w, y = (tensor_of(operation.one(place, _TENSOR)) for place in places)
    element_of(x.type)
    check(x, w, y, _geometry(operation.one(convolution, _CONVOLUTION)))
    return operation


@entry("cudnnBackendCreateDescriptor")
def create(kind: int, place: int) -> None:
    add(place, Descriptor(kind))


@entry("cudnnBackendDestroyDescriptor")
def destroy(number: int) -> None:
    state().handles.drop(number)


@entry("cudnnBackendSetAttribute")
def set_attribute(number: int, attribute: int, type: int, count: int, place: int) -> None:
    descriptor = found(Descriptor, number)
    if descriptor.finalized:
        raise LibraryError("invalid_value", "the descriptor is finalized")
    if type == _DESCRIPTOR:
        descriptor.items[attribute] = [found(Descriptor, one) for one in cmemory.words64(place, count)]
        return
    size = _SIZES.get(type, 4)
    descriptor.values[attribute] = (type, ctypes.string_at(place, size * count) if count else b"")


@entry("cudnnBackendFinalize")
def finalize(number: int) -> None:
    descriptor = found(Descriptor, number)
    if descriptor.kind == _PLAN:
        _operation(_graph_of(descriptor))
    if descriptor.kind == _ENGINE:
        _operation(descriptor.one(_ENGINE_GRAPH, _GRAPH))
    descriptor.finalized = True


def _graph_of(plan: Descriptor) -> Descriptor:
    engine = plan.one(_PLAN_CONFIG, _CONFIGURATION).one(_CFG_ENGINE, _ENGINE)
    return engine.one(_ENGINE_GRAPH, _GRAPH)


def _configurations(heuristics: Descriptor) -> list[Descriptor]:
    """The engine configurations of a graph: one, or none for operations that have no kernels."""
    graph = heuristics.one(_HEUR_GRAPH, _GRAPH)
    _operation(graph)
    engine = Descriptor(_ENGINE, items={_ENGINE_GRAPH: [graph]}, finalized=True)
    return [Descriptor(_CONFIGURATION, items={_CFG_ENGINE: [engine]}, finalized=True)]


def _copy(source: Descriptor, number: int) -> None:
    target = found(Descriptor, number)
    target.kind, target.values, target.items = source.kind, dict(source.values), dict(source.items)
    target.finalized = True


@entry("cudnnBackendGetAttribute")
def get_attribute(number: int, attribute: int, type: int, room: int, count: int, place: int) -> None:
    descriptor = found(Descriptor, number)
    if type == _DESCRIPTOR:
        items = _configurations(descriptor) if attribute == _HEUR_RESULTS else descriptor.items.get(attribute, [])
        cmemory.put64(count, len(items) if not room or not place else min(room, len(items)))
        for item, target in zip(items, cmemory.words64(place, min(room, len(items))) if place else (), strict=False):
            _copy(item, target)
        return
    computed = {_PLAN_WORKSPACE: bytes(8), _GRAPH_ENGINES: (1).to_bytes(8, "little"), _ENGINE_INDEX: bytes(8)}
    raw = descriptor.values.get(attribute, (type, computed.get(attribute, b"")))[1]
    size = _SIZES.get(type, 4)
    available = len(raw) // size
    cmemory.put64(count, available if not room or not place else min(room, available))
    if room and place:
        ctypes.memmove(place, raw, min(room, available) * size)


@entry("cudnnBackendExecute")
def execute(number: int, plan: int, pack: int) -> None:
    operation = _operation(_graph_of(found(Descriptor, plan)))
    variant = found(Descriptor, pack)
    memory = dict(zip(variant.numbers(_PACK_IDS), variant.numbers(_PACK_POINTERS), strict=True))
    mode, alpha, beta, convolution, places = _OPERATIONS[operation.kind]
    operands = []
    for place in places:
        tensor = operation.one(place, _TENSOR)
        (identity,) = tensor.numbers(_TENSOR_ID)
        if identity not in memory:
            raise invalid(f"the variant pack has no memory for the tensor {identity}")
        operands.append(Operand(tensor_of(tensor), memory[identity]))
    x, w, y = operands
    scales = (operation.scale(alpha, 1.0), operation.scale(beta, 0.0))
    geometry = _geometry(operation.one(convolution, _CONVOLUTION))
    convolve(mode, (x, w, y), geometry, scales, handle_of(number).stream)
