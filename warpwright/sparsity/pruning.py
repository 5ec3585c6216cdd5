"""Pruning by magnitude: what a group of elements keeps."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpwright.errors import ArgumentError
from warpwright.sparsity.sparse_types import Element, element

Number = TypeVar("Number", bound=np.generic)


def runs(weights: npt.NDArray[Number], kind: Element) -> npt.NDArray[Number]:
    """A matrix as [rows, runs, groups, elements of a group].

    Raises:
        ArgumentError: it is no matrix, or its rows do not divide into runs.
    """
    if weights.ndim != 2 or weights.shape[1] % kind.run:
        shape = " x ".join(map(str, weights.shape))
        raise ArgumentError(f"a sparse matrix has rows of a multiple of {kind.run} elements; this array is {shape}")
    return weights.reshape(weights.shape[0], -1, kind.groups, kind.group)


def mask(weights: npt.ArrayLike, type: str = "f16") -> npt.NDArray[np.bool_]:
    """Which elements pruning keeps: in every run of a row the half whose magnitudes are largest, the earlier of equals.

    Args:
        weights: a matrix [m, k]; runs follow each other along k.
        type: the element type, which sets the run: four elements of f16, bf16, s8 and u8; two of tf32; four pairs of s4 and u4.
    """
    kind = element(type)
    magnitudes = np.abs(runs(np.asarray(weights, np.float64), kind)).sum(axis=-1)
    order = np.argsort(-magnitudes, axis=-1, kind="stable")
    kept = np.zeros(magnitudes.shape, np.bool_)
    np.put_along_axis(kept, order[..., : kind.groups // 2], True, axis=-1)
    return np.repeat(kept[..., None], kind.group, axis=-1).reshape(np.shape(weights))


def prune_2_4(weights: npt.NDArray[Number], type: str = "f16") -> npt.NDArray[Number]:
    """A copy of a weight matrix [m, k] with the smaller half of every run set to zero (see :func:`mask`)."""
    return np.where(mask(weights, type), weights, weights.dtype.type(0))


def is_sparse(weights: npt.NDArray[Any], type: str = "f16") -> bool:
    """Whether at most half of the groups of every run are not zero."""
    kind = element(type)
    return bool(((runs(weights, kind) != 0).any(axis=-1).sum(axis=-1) <= kind.groups // 2).all())
