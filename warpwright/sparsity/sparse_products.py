"""Products with a sparse or a dense matrix on tensor cores, by a kernel of ours (``products.cu``).

Both forms have the same tiles, stages and loads of X, so that their ratio is that of the instructions and of the bytes of W.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.api import GPU
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.kernel import Kernel
from warpwright.run import Run
from warpwright.sparsity.compressed import STEP_BYTES, TILE_ROWS, SparseMatrix, depth_of_tile, padded
from warpwright.sparsity.sparse_types import Element, element

SOURCE = Path(__file__).with_name("products.cu")
FIRST_ARCH = 80
STAGES, TILE_BYTES = 3, TILE_ROWS * 2 * STEP_BYTES
THREADS = 256


def kernel(gpu: GPU, kind: Element, sparse: bool) -> Kernel:
    """The kernel ``product`` for a type.

    Raises:
        UnsupportedError: the chip has no sparse tensor-core instructions.
    """
    if gpu.chip.arch < FIRST_ARCH:
        raise UnsupportedError(f"{gpu.name} has no sparse tensor cores; a100 and h200 have them")
    depth = STEP_BYTES * 8 // kind.bits
    form = "mma.sp::ordered_metadata" if sparse else "mma"
    sum_type = "s32" if kind.is_integer else "f32"
    shape = f"m16n8k{depth if sparse else depth // 2}"
    text = f"{form}.sync.aligned.{shape}.row.col.{sum_type}.{kind.name}.{kind.name}.{sum_type}"
    defines: dict[str, str | int | None] = {
        "SPARSE": int(sparse),
        "MMA": f'"{text}"',
        "SUM": "int" if kind.is_integer else "float",
        "REGISTER": '"r"' if kind.is_integer else '"f"',
        "SELECTORS": 2 if kind.bits > 8 else 1,
    }
    kernels = gpu.kept_kernels
    key = ("sparsity", kind.name, sparse)
    if key not in kernels:
        kernels[key] = gpu.compile(SOURCE, defines=defines)["product"]
    return kernels[key]


def matmul(
    gpu: GPU, weights: SparseMatrix | npt.NDArray[Any], x: npt.NDArray[Any], type: str = "f16"
) -> tuple[npt.NDArray[Any], Run]:
    """Y = X Wᵀ on the GPU's tensor cores.

    Args:
        weights: W [m, k], compressed, or a dense matrix whose elements become ``type``.
        x: X [n, k], whose elements become the type of the weights.
        type: the element type of dense weights.

    Returns:
        Y [n, m], f32 of floats and s32 of integers, and the launch.

    Raises:
        ArgumentError: the depths differ, or a matrix has elements that the type has not.
        UnsupportedError: the chip has no sparse tensor-core instructions.
    """
    sparse = isinstance(weights, SparseMatrix)
    kind = element(weights.type if isinstance(weights, SparseMatrix) else type)
    rows, depth = weights.shape
    if x.ndim != 2 or x.shape[1] != depth:
        raise ArgumentError(f"X has rows of {depth} elements, as W; this array is {' x '.join(map(str, x.shape))}")
    columns = len(x)
    if isinstance(weights, SparseMatrix):
        values, metadata = weights.values, weights.metadata
    else:
        values, metadata = _padded_bytes(weights, kind), np.zeros(1, np.uint32)
    right = _padded_bytes(x, kind)
    y = np.zeros((len(right), len(values)), np.int32 if kind.is_integer else np.float32)
    shared_bytes = STAGES * (TILE_BYTES + TILE_BYTES // (2 if sparse else 1))
    grid = (len(values) // TILE_ROWS, len(right) // TILE_ROWS)
    depth_tiles = right.shape[1] // (2 * STEP_BYTES)
    launch = kernel(gpu, kind, sparse)[grid, THREADS, shared_bytes]
    run = launch(depth_tiles, right.shape[1], len(values), values, metadata, right, y)
    return y[:columns, :rows], run


def _padded_bytes(matrix: npt.NDArray[Any], kind: Element) -> npt.NDArray[np.uint8]:
    """The bytes of a matrix with zeros up to whole tiles."""
    rows, depth = matrix.shape
    whole = np.zeros((padded(rows, TILE_ROWS), padded(depth, depth_of_tile(kind))), matrix.dtype)
    whole[:rows, :depth] = matrix
    return kind.encode(whole)
