"""Batch normalisation of cuDNN: training, inference, gradients; without fused activation or addition."""

from __future__ import annotations

import struct
from collections import namedtuple
from dataclasses import dataclass

from warpwright.driver import cmemory
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import entry, unsupported
from warpwright.libraries.cudnn.handles import Tensor, found, handle_of, sum_of

_PER_ACTIVATION = 0
"""CUDNN_BATCHNORM_PER_ACTIVATION."""
_ARGUMENTS = "<11Q3q6d3i4x"
_THREADS = 256


@dataclass(slots=True)
class Batch:
    """A tensor as its normalisation sees it."""

    tensor: Tensor
    channels: int
    images: int
    positions: int
    strides: tuple[int, int, int]
    """Elements between images, channels and positions."""

    @classmethod
    def of(cls, tensor: Tensor, mode: int) -> Batch:
        """The batch of a tensor whose positions follow each other.

        Raises:
            LibraryError: they do not.
        """
        sizes, strides = tensor.sizes, tensor.strides
        positions, step = 1, strides[-1] if len(sizes) > 2 else 1
        if mode == _PER_ACTIVATION:
            count = 1
            for size, stride in zip(reversed(sizes[1:]), reversed(strides[1:]), strict=True):
                if size > 1 and stride != count:
                    raise unsupported("per-activation normalisation of images with gaps is not provided")
                count *= size
            return cls(tensor, count, sizes[0], 1, (strides[0], 1, 1))
        for size, stride in zip(reversed(sizes[2:]), reversed(strides[2:]), strict=True):
            if size > 1 and positions > 1 and stride != positions * step:
                raise unsupported("normalisation of tensors with gaps between rows is not provided")
            step = stride if positions == 1 else step
            positions *= size
        return cls(tensor, sizes[1], sizes[0], positions, (strides[0], strides[1], step))


def _scale(place: int, tensor: Tensor) -> float:
    return float(cmemory.read("d" if tensor.element == "double" else "f", place)[0])


@dataclass(slots=True)
class Work:
    """The structure Arguments of ``cuda/batch_norm.cu``, field by field."""

    x: int = 0
    dy: int = 0
    out: int = 0
    scale: int = 0
    bias: int = 0
    mean: int = 0
    inverse: int = 0
    running_mean: int = 0
    running_variance: int = 0
    dscale: int = 0
    dbias: int = 0
    alpha: float = 1.0
    beta: float = 0.0
    alpha_parameters: float = 1.0
    beta_parameters: float = 0.0
    epsilon: float = 0.0
    factor: float = 0.0

    def run(self, kernel: str, batch: Batch, stream: int) -> None:
        """Launch a kernel with a block for each channel."""
        element = batch.tensor.element
        arguments = struct.pack(
            _ARGUMENTS,
            *(self.x, self.dy, self.out, self.scale, self.bias, self.mean, self.inverse),
            *(self.running_mean, self.running_variance, self.dscale, self.dbias),
            *batch.strides,
            *(self.alpha, self.beta, self.alpha_parameters, self.beta_parameters, self.epsilon, self.factor),
            *(batch.images, batch.positions, bool(self.mean)),
        )
        code = library_kernels.code("batch_norm.cu", "cuDNN", ELEMENT=element, SUM=sum_of(element))
        library_kernels.launch(code, f"warpwright_batch_norm_{kernel}", [batch.channels], _THREADS, stream, [arguments])


def _plain(operations: int) -> None:
    if operations:
        raise unsupported("normalisation fused with an activation or an addition is not provided")


@entry("cudnnDeriveBNTensorDescriptor")
def derive(derived: int, x: int, mode: int) -> None:
    source, target = found(Tensor, x), found(Tensor, derived)
    sizes = [1, *source.sizes[1:]] if mode == _PER_ACTIVATION else [1, source.sizes[1], *[1] * (len(source.sizes) - 2)]
    target.type, target.sizes = 1 if source.element == "double" else 0, sizes
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    target.strides = strides[::-1]


ForwardWorkspace = namedtuple("ForwardWorkspace", "number mode operations x z y parameters activation place")
"""Arguments of cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize."""


@entry("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize", record=ForwardWorkspace)
def forward_workspace(call: ForwardWorkspace) -> None:
    cmemory.put64(call.place, 0)


BackwardWorkspace = namedtuple("BackwardWorkspace", "number mode operations x y dy dz dx parameters activation place")
"""Arguments of cudnnGetBatchNormalizationBackwardExWorkspaceSize."""


@entry("cudnnGetBatchNormalizationBackwardExWorkspaceSize", record=BackwardWorkspace)
def backward_workspace(call: BackwardWorkspace) -> None:
    cmemory.put64(call.place, 0)


@entry("cudnnGetBatchNormalizationTrainingExReserveSpaceSize")
def reserve_space(number: int, mode: int, operations: int, activation: int, x: int, place: int) -> None:
    cmemory.put64(place, 0)


ForwardTraining = namedtuple(
    "ForwardTraining",
    "number mode operations alpha beta x_tensor x z_tensor z y_tensor y parameters scale bias factor running_mean running_variance epsilon mean inverse activation workspace workspace_bytes reserve reserve_bytes",
)
"""Arguments of cudnnBatchNormalizationForwardTrainingEx."""


@entry("cudnnBatchNormalizationForwardTrainingEx", record=ForwardTraining)
def forward_training(call: ForwardTraining) -> None:
    _plain(call.operations)
    tensor = found(Tensor, call.x_tensor)
    work = Work(
        x=call.x, out=call.y, scale=call.scale, bias=call.bias, mean=call.mean, inverse=call.inverse, running_mean=call.running_mean,
        running_variance=call.running_variance, alpha=_scale(call.alpha, tensor), beta=_scale(call.beta, tensor), epsilon=call.epsilon, factor=call.factor,
    )  # fmt: skip
    work.run("training", Batch.of(tensor, call.mode), handle_of(call.number).stream)


ForwardTraining7 = namedtuple(
    "ForwardTraining7",
    "number mode alpha beta x_tensor x y_tensor y parameters scale bias factor running_mean running_variance epsilon mean inverse",
)
"""Arguments of cudnnBatchNormalizationForwardTraining."""


@entry("cudnnBatchNormalizationForwardTraining", record=ForwardTraining7)
def forward_training_7(call: ForwardTraining7) -> None:
    absent = dict.fromkeys(set(ForwardTraining._fields) - set(call._fields), 0)
    forward_training(ForwardTraining(**call._asdict(), **absent))


ForwardInference = namedtuple(
    "ForwardInference", "number mode alpha beta x_tensor x y_tensor y parameters scale bias mean variance epsilon"
)
"""Arguments of cudnnBatchNormalizationForwardInference."""


@entry("cudnnBatchNormalizationForwardInference", record=ForwardInference)
def forward_inference(call: ForwardInference) -> None:
    tensor = found(Tensor, call.x_tensor)
    work = Work(
        x=call.x, out=call.y, scale=call.scale, bias=call.bias, running_mean=call.mean, running_variance=call.variance, alpha=_scale(call.alpha, tensor),
        beta=_scale(call.beta, tensor), epsilon=call.epsilon,
    )  # fmt: skip
    work.run("inference", Batch.of(tensor, call.mode), handle_of(call.number).stream)


Backward = namedtuple(
    "Backward",
    "number mode operations alpha beta alpha_parameters beta_parameters x_tensor x y_tensor y dy_tensor dy dz_tensor dz dx_tensor dx parameters scale bias dscale dbias epsilon mean inverse activation workspace workspace_bytes reserve reserve_bytes",
)
"""Arguments of cudnnBatchNormalizationBackwardEx."""


@entry("cudnnBatchNormalizationBackwardEx", record=Backward)
def backward(call: Backward) -> None:
    _plain(call.operations)
    tensor = found(Tensor, call.x_tensor)
    if not found(Tensor, call.dy_tensor).strides == tensor.strides == found(Tensor, call.dx_tensor).strides:
        raise unsupported("gradients with another layout than the input are not provided")
    work = Work(
        x=call.x, dy=call.dy, out=call.dx, scale=call.scale, mean=call.mean, inverse=call.inverse, dscale=call.dscale, dbias=call.dbias, alpha=_scale(call.alpha, tensor),
        beta=_scale(call.beta, tensor), alpha_parameters=_scale(call.alpha_parameters, tensor),
        beta_parameters=_scale(call.beta_parameters, tensor), epsilon=call.epsilon,
    )  # fmt: skip
    work.run("backward", Batch.of(tensor, call.mode), handle_of(call.number).stream)
