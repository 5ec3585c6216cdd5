"""The loss of connectionist temporal classification in cuDNN (``cuda/ctc.cu``): floats, labels and lengths on the host (cudnnCTCLoss) or on the device (cudnnCTCLoss_v8)."""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from warpwright.driver import cmemory
from warpwright.driver.driver_state import state
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import entry, invalid, unsupported
from warpwright.libraries.cudnn.handles import Tensor, add, found, handle_of

_FLOAT = 0
"""CUDNN_DATA_FLOAT."""
_PROBABILITIES, _SOFTMAX = 0, 1
"""CUDNN_LOSS_NORMALIZATION_NONE and _SOFTMAX: what the activations are."""
_THREADS, _WORDS = 128, 512
_ARGUMENTS = "<7Q7q3i4x"


@dataclass(eq=False)
class Loss:
    """A descriptor of the loss."""

    of_null: ClassVar[int] = 0
    type: int = _FLOAT
    normalization: int = _PROBABILITIES
    gradient_mode: int = 0
    most_labels: int = 0


@entry("cudnnCreateCTCLossDescriptor")
def create(place: int) -> None:
    add(place, Loss())


@entry("cudnnDestroyCTCLossDescriptor")
def destroy(number: int) -> None:
    state().handles.drop(number)


@entry(*(f"cudnnSetCTCLossDescriptor{form}" for form in ("", "Ex", "_v8", "_v9")))
def set_loss(number: int, type: int, normalization: int = 0, gradient_mode: int = 0, most_labels: int = 0) -> None:
    if type != _FLOAT:
        raise unsupported(f"losses of cudnnDataType_t {type} are not provided")
    if normalization not in (_PROBABILITIES, _SOFTMAX):
        raise invalid()
    loss = found(Loss, number)
    loss.type, loss.normalization, loss.gradient_mode, loss.most_labels = (
        type,
        normalization,
        gradient_mode,
        most_labels,
    )


@entry(*(f"cudnnGetCTCLossDescriptor{form}" for form in ("", "Ex", "_v8", "_v9")))
def get_loss(number: int, *places: int) -> None:
    loss = found(Loss, number)
    values = (loss.type, loss.normalization, loss.gradient_mode, loss.most_labels)
    for place, value in zip(places, values, strict=False):
        cmemory.put32(place, value)


def _words_of_sequence(times: int, labels: int) -> int:
    """A scale for each time, the states' sums forwards, and two rows of sums backwards."""
    return times + (times + 2) * (2 * labels + 1)


def _activations(number: int) -> Tensor:
    tensor = found(Tensor, number)
    if tensor.type != _FLOAT or len(tensor.sizes) != 3:
        raise unsupported("activations other than floats by time, sequence and symbol are not provided")
    return tensor


def _host_words(place: int, count: int) -> list[int]:
    return list(cmemory.read(f"{count}i", place)) if count else []


Size = namedtuple("Size", "handle activations gradients labels label_lengths times algorithm loss place")
"""Arguments of cudnnGetCTCLossWorkspaceSize."""


@entry("cudnnGetCTCLossWorkspaceSize", record=Size)
def workspace_size(call: Size) -> None:
    times, count, _ = _activations(call.activations).sizes
    lengths = _host_words(call.label_lengths, count)
    words = sum(lengths) + 2 * count + count * _words_of_sequence(times, max(lengths, default=0))
    cmemory.put64(call.place, 4 * words)


@entry("cudnnGetCTCLossWorkspaceSize_v8")
def workspace_size_v8(handle: int, algorithm: int, loss: int, activations: int, gradients: int, place: int) -> None:
    times, count, _ = _activations(activations).sizes
    cmemory.put64(place, 4 * count * _words_of_sequence(times, found(Loss, loss).most_labels))


@dataclass(frozen=True, slots=True)
class Labels:
    """Device addresses: all sequences' labels one after the other, the number of each sequence's labels and times."""

    labels: int
    label_lengths: int
    times: int
    most_labels: int


def _launch(name: str, grid: int, stream: int, arguments: Sequence[int | float | bytes]) -> None:
    code = library_kernels.code("ctc.cu", "cuDNN")
    library_kernels.launch(code, f"warpwright_{name}", (grid,), _THREADS, stream, arguments)


def _run(stream: int, loss: Loss, tensors: tuple[int, int, int, int], of: Labels, costs: int, work: int) -> None:
    """The loss; ``tensors`` are descriptor and address of the activations and of their gradients."""
    x_number, x, dx_number, dx = tensors
    activations = _activations(x_number)
    times, count, symbols = activations.sizes
    gradients = _activations(dx_number).strides if dx else [0, 0, 0]
    stride = _words_of_sequence(times, of.most_labels)
    addresses = (x, costs, dx, work, of.labels, of.label_lengths, of.times)
    softmax = loss.normalization == _SOFTMAX
    packed = struct.pack(_ARGUMENTS, *addresses, *activations.strides, *gradients, stride, times, symbols, not softmax)
    _launch("ctc_loss", count, stream, [packed])


Call = namedtuple(
    "Call",
    "handle activations x labels label_lengths times costs gradients dx algorithm loss work size",
)
"""Arguments of cudnnCTCLoss."""


@entry("cudnnCTCLoss", record=Call)
def ctc_loss(call: Call) -> None:
    stream, count = handle_of(call.handle).stream, _activations(call.activations).sizes[1]
    lengths = _host_words(call.label_lengths, count)
    total = sum(lengths)
    words = [*_host_words(call.labels, total), *lengths, *_host_words(call.times, count)]
    for first in range(0, len(words), _WORDS):
        some = words[first : first + _WORDS]
        parameter = struct.pack(f"<{_WORDS}i", *some, *[0] * (_WORDS - len(some)))
        _launch("put_words", 1, stream, [call.work + 4 * first, parameter, len(some)])
    of = Labels(call.work, call.work + 4 * total, call.work + 4 * (total + count), max(lengths, default=0))
    tensors = (call.activations, call.x, call.gradients, call.dx)
    _run(stream, found(Loss, call.loss), tensors, of, call.costs, call.work + 4 * len(words))


CallV8 = namedtuple(
    "CallV8",
    "handle algorithm loss activations x labels label_lengths times costs gradients dx size work",
)
"""Arguments of cudnnCTCLoss_v8."""


@entry("cudnnCTCLoss_v8", record=CallV8)
def ctc_loss_v8(call: CallV8) -> None:
    loss = found(Loss, call.loss)
    of = Labels(call.labels, call.label_lengths, call.times, loss.most_labels)
    tensors = (call.activations, call.x, call.gradients, call.dx)
    _run(handle_of(call.handle).stream, loss, tensors, of, call.costs, call.work)
