"""A sparse matrix as tensor cores read it: the kept elements, and metadata that says where they were.

The metadata of an instruction's 16 rows is spread over the lanes of a warp as ``engine/matrix_fragments.py`` describes it.  A word per lane is
stored for as many instructions in a row as fill the 32 lanes: two of 16- and 32-bit elements, which the selector 0 and 1 of ``mma.sp``
name, and one of narrower ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.engine.matrix_fragments import places
from warpwright.errors import ArgumentError
from warpwright.sparsity.pruning import is_sparse, runs
from warpwright.sparsity.sparse_types import Element, element

TILE_ROWS = 128
"""Rows of a block's tile of the product kernel; matrices are stored padded to it."""
STEP_BYTES = 64
"""Bytes of a row of B that one instruction takes, of every type."""
TILE_STEPS = 2
"""Instructions in depth of a tile."""
INSTRUCTION_ROWS = 16


def padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def depth_of_tile(kind: Element) -> int:
    """Elements of a row of B in a tile."""
    return TILE_STEPS * STEP_BYTES * 8 // kind.bits


@dataclass(frozen=True, slots=True)
class SparseMatrix:
    """Weights [m, k] of which every run keeps half (:func:`compress`)."""

    type: str
    shape: tuple[int, int]
    values: npt.NDArray[np.uint8]
    """Bytes of the kept elements, row by row, [m padded to 128, half of k's bytes padded to 64]."""
    metadata: npt.NDArray[np.uint32]
    """Words of the lanes [tiles of 16 rows, words of depth, 32]."""

    @property
    def nbytes(self) -> int:
        """Bytes of values and metadata."""
        return self.values.nbytes + self.metadata.nbytes


def compress(weights: npt.NDArray[Any], type: str = "f16") -> SparseMatrix:
    """Store a matrix that was pruned.

    Args:
        weights: [m, k]; floats for f16, bf16 and tf32 (rounded to the nearest), integers for s8, u8, s4 and u4.

    Raises:
        ArgumentError: the matrix is not sparse in the pattern of its type, or has elements that the type has not.
    """
    kind = element(type)
    if not is_sparse(weights, type):
        raise ArgumentError(
            f"in some run of {kind.run} elements more than half are not zero; prune the matrix first: prune_2_4(weights, {type!r})"
        )
    rows, depth = weights.shape
    whole = np.zeros((padded(rows, TILE_ROWS), padded(depth, depth_of_tile(kind))), weights.dtype)
    whole[:rows, :depth] = weights
    grouped = runs(whole, kind)
    used = (grouped != 0).any(axis=-1)
    # The groups in use first, in their order; then those of zeros, which fill runs that keep less than half.
    order = np.argsort(~used, axis=-1, kind="stable")[..., : kind.groups // 2]
    order.sort(axis=-1)
    kept = np.take_along_axis(grouped, order[..., None], axis=-2)
    values = kind.encode(kept.reshape(len(whole), -1))
    return SparseMatrix(type, (rows, depth), values, _metadata(kind, order.reshape(len(whole), -1)))


def _metadata(kind: Element, order: npt.NDArray[np.intp]) -> npt.NDArray[np.uint32]:
    """Words [tiles of 16 rows, words of depth, lane] of the kept groups' places in their runs [row, group]."""
    width = max(kind.bits, 8)
    per_step = STEP_BYTES * 8 // width // 2
    # The element of tf32 of a run of two: 0b0100 names the first, 0b1110 the second (PTX ISA, "Sparse matrix storage").
    index = np.where(order == 0, 0b0100, 0b1110) if kind.groups == 2 else order
    steps_per_word = 2 if width > 8 else 1
    tiles = index.reshape(len(order) // INSTRUCTION_ROWS, INSTRUCTION_ROWS, -1, steps_per_word, per_step)
    words = np.zeros((tiles.shape[0], tiles.shape[2], 32), np.uint32)
    for step in range(steps_per_word):
        shape = f"m{INSTRUCTION_ROWS}n8k{2 * per_step}.sp{step}"
        for row, line in enumerate(places(shape, width)):
            for n, (lane, low) in enumerate(line):
                words[:, :, lane] |= tiles[:, row, :, step, n].astype(np.uint32) << np.uint32(low)
    return words
