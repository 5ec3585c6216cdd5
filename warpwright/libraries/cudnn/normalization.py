"""Batch normalisation of cuDNN: training, inference, gradients; without fused activation or addition."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from warpwright.driver import cmemory
from warpwright.libraries import kernels
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
        code = kernels.code("batch_norm.cu", "cuDNN", ELEMENT=element, SUM=sum_of(element))
        kernels.launch(code, f"warpwright_batch_norm_{kernel}", [batch.channels], _THREADS, stream, [arguments])


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


@entry("cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize")
def forward_workspace(
    number: int, mode: int, operations: int, x: int, z: int, y: int, parameters: int, activation: int, place: int
) -> None:
    cmemory.put64(place, 0)


@entry("cudnnGetBatchNormalizationBackwardExWorkspaceSize")
def backward_workspace(
    number: int, mode: int, operations: int, x: int, y: int, dy: int, dz: int, dx: int, parameters: int, activation: int, place: int
) -> None:  # fmt: skip
    cmemory.put64(place, 0)


@entry("cudnnGetBatchNormalizationTrainingExReserveSpaceSize")
def reserve_space(number: int, mode: int, operations: int, activation: int, x: int, place: int) -> None:
    cmemory.put64(place, 0)


@entry("cudnnBatchNormalizationForwardTrainingEx")
def forward_training(
    number: int, mode: int, operations: int, alpha: int, beta: int, x_tensor: int, x: int, z_tensor: int, z: int, y_tensor: int,
    y: int, parameters: int, scale: int, bias: int, factor: float, running_mean: int, running_variance: int, epsilon: float,
    mean: int, inverse: int, activation: int, workspace: int, workspace_bytes: int, reserve: int, reserve_bytes: int,
) -> None:  # fmt: skip
    _plain(operations)
    tensor = found(Tensor, x_tensor)
    work = Work(
        x=x, out=y, scale=scale, bias=bias, mean=mean, inverse=inverse, running_mean=running_mean,
        running_variance=running_variance, alpha=_scale(alpha, tensor), beta=_scale(beta, tensor), epsilon=epsilon, factor=factor,
    )  # fmt: skip
    work.run("training", Batch.of(tensor, mode), handle_of(number).stream)


@entry("cudnnBatchNormalizationForwardTraining")
def forward_training_7(
    number: int, mode: int, alpha: int, beta: int, x_tensor: int, x: int, y_tensor: int, y: int, parameters: int, scale: int,
    bias: int, factor: float, running_mean: int, running_variance: int, epsilon: float, mean: int, inverse: int,
) -> None:  # fmt: skip
    forward_training(
        number, mode, 0, alpha, beta, x_tensor, x, 0, 0, y_tensor, y, parameters, scale, bias, factor, running_mean,
        running_variance, epsilon, mean, inverse, 0, 0, 0, 0, 0,
    )  # fmt: skip


@entry("cudnnBatchNormalizationForwardInference")
def forward_inference(
    number: int, mode: int, alpha: int, beta: int, x_tensor: int, x: int, y_tensor: int, y: int, parameters: int, scale: int,
    bias: int, mean: int, variance: int, epsilon: float,
) -> None:  # fmt: skip
    tensor = found(Tensor, x_tensor)
    work = Work(
        x=x, out=y, scale=scale, bias=bias, running_mean=mean, running_variance=variance, alpha=_scale(alpha, tensor),
        beta=_scale(beta, tensor), epsilon=epsilon,
    )  # fmt: skip
    work.run("inference", Batch.of(tensor, mode), handle_of(number).stream)


@entry("cudnnBatchNormalizationBackwardEx")
def backward(
    number: int, mode: int, operations: int, alpha: int, beta: int, alpha_parameters: int, beta_parameters: int, x_tensor: int,
    x: int, y_tensor: int, y: int, dy_tensor: int, dy: int, dz_tensor: int, dz: int, dx_tensor: int, dx: int, parameters: int,
    scale: int, bias: int, dscale: int, dbias: int, epsilon: float, mean: int, inverse: int, activation: int, workspace: int,
    workspace_bytes: int, reserve: int, reserve_bytes: int,
) -> None:  # fmt: skip
    _plain(operations)
    tensor = found(Tensor, x_tensor)
    if not found(Tensor, dy_tensor).strides == tensor.strides == found(Tensor, dx_tensor).strides:
        raise unsupported("gradients laid out otherwise than the input are not provided")
    work = Work(
        x=x, dy=dy, out=dx, scale=scale, mean=mean, inverse=inverse, dscale=dscale, dbias=dbias, alpha=_scale(alpha, tensor),
        beta=_scale(beta, tensor), alpha_parameters=_scale(alpha_parameters, tensor),
        beta_parameters=_scale(beta_parameters, tensor), epsilon=epsilon,
    )  # fmt: skip
    work.run("backward", Batch.of(tensor, mode), handle_of(number).stream)
