"""Sparse matrices: pruning keeps the larger half, and products of every type equal NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.sparsity import SparseMatrix, compress, is_sparse, mask, matmul, prune_2_4
from warpwright.sparsity.sparse_types import ELEMENTS

TYPES = tuple(ELEMENTS)


def decoded(found: npt.NDArray[np.uint8], type: str) -> npt.NDArray[np.float32]:
    """Floats of their bytes."""
    if type == "bf16":
        return (found.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return found.view(np.float16 if type == "f16" else np.float32).astype(np.float32)


def matrix(rng: np.random.Generator, rows: int, depth: int, type: str) -> npt.NDArray[Any]:
    """Values whose products are exact in the type and in sums of f32 or s32."""
    kind = ELEMENTS[type]
    if kind.is_integer:
        return rng.integers(kind.low, kind.high, (rows, depth), endpoint=True)
    return rng.integers(-8, 9, (rows, depth)).astype(np.float32) / 4


@given(st.integers(0, 2**32 - 1), st.sampled_from(TYPES))
@settings(max_examples=60, deadline=None)
def test_pruning_keeps_the_larger_half_of_every_run(seed: int, type: str) -> None:
    kind = ELEMENTS[type]
    weights = np.random.default_rng(seed).standard_normal((3, 4 * kind.run))
    pruned = prune_2_4(weights, type)
    assert is_sparse(pruned, type)
    assert not is_sparse(weights, type)
    kept = mask(weights, type)
    np.testing.assert_array_equal(pruned, np.where(kept, weights, 0))
    groups = np.abs(weights).reshape(-1, kind.groups, kind.group).sum(axis=-1)
    of_groups = kept.reshape(-1, kind.groups, kind.group).all(axis=-1)
    assert (of_groups.sum(axis=-1) == kind.groups // 2).all()
    smallest = np.where(of_groups, groups, np.inf).min(axis=-1)
    assert (np.where(of_groups, -np.inf, groups).max(axis=-1) <= smallest).all()


ON_H200 = ("bf16", "s8", "u4")
"""Each type on one chip: types of a size differ in the instruction's type alone, and both chips have all of them."""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("chip", "type"),
    [
        pytest.param(chip, type, marks=() if (chip == "h200") == (type in ON_H200) else pytest.mark.slow)
        for chip in ("a100", "h200")
        for type in TYPES
    ],
)
def test_products_equal_numpys(chip: str, type: str) -> None:
    rng = np.random.default_rng(7)
    gpu = ww.GPU(chip, timing="off")
    for rows, columns, runs in ((5, 3, 9), (130, 140, 70)):
        weights = prune_2_4(matrix(rng, rows, runs * ELEMENTS[type].run, type), type)
        weights[rng.random(weights.shape) < 0.2] = 0  # runs that keep less than half
        x = matrix(rng, columns, weights.shape[1], type)
        expected = x.astype(np.float64) @ weights.astype(np.float64).T
        sparse, _ = matmul(gpu, compress(weights, type), x)
        dense, _ = matmul(gpu, weights, x, type)
        np.testing.assert_array_equal(sparse, expected)
        np.testing.assert_array_equal(dense, expected)


@pytest.mark.parametrize("type", ["f16", "bf16", "tf32"])
def test_floats_are_rounded_to_the_nearest(type: str) -> None:
    kind, steps = ELEMENTS[type], {"f16": 10, "bf16": 7, "tf32": 10}[type]
    values = np.float32([1, 1 + 2.0**-steps, 1 + 2.0 ** -(steps + 1), 1 + 3 * 2.0 ** -(steps + 1), -np.inf])
    expected = np.float32([1, 1 + 2.0**-steps, 1, 1 + 2 * 2.0**-steps, -np.inf])
    found = kind.encode(values[None])
    np.testing.assert_array_equal(decoded(found, type)[0], expected)
    assert np.isnan(decoded(kind.encode(np.float32([[np.nan]])), type)).all()


def test_later_products_do_not_compile_their_kernel_again() -> None:
    gpu = ww.GPU("a100", timing="off")
    rng = np.random.default_rng(4)
    weights, x = matrix(rng, 64, 64, "s8"), matrix(rng, 8, 64, "s8")
    sparse = compress(prune_2_4(weights, "s8"), "s8")
    for form in (weights, sparse, weights, sparse):
        matmul(gpu, form, x, "s8")
    programs = [run.program for run in gpu.launches]
    assert programs[2] is programs[0]
    assert programs[3] is programs[1]
    assert programs[1] is not programs[0]


def test_a_sparse_matrix_takes_nine_sixteenths_of_the_bytes() -> None:
    weights = prune_2_4(np.random.default_rng(1).standard_normal((128, 256)))
    assert compress(weights).nbytes == 128 * 256 * 2 * 9 // 16


def test_refusals() -> None:
    dense = np.ones((128, 64), np.float32)
    with pytest.raises(ww.ArgumentError, match=r"prune the matrix first: prune_2_4\(weights, 'f16'\)"):
        compress(dense)
    with pytest.raises(ww.ArgumentError, match="rows of a multiple of 4 elements; this array is 128 x 63"):
        prune_2_4(dense[:, :63])
    with pytest.raises(ww.ArgumentError, match=r"type 'f8'; the types are f16, bf16"):
        mask(dense, "f8")
    with pytest.raises(ww.ArgumentError, match="elements of type s8 are -128 to 127"):
        compress(np.int64([[200, 0, 0, 0]]), "s8")
    with pytest.raises(ww.ArgumentError, match="elements of type s8 are integers, not float32"):
        compress(prune_2_4(dense), "s8")
    with pytest.raises(ww.UnsupportedError, match="v100 has no sparse tensor cores"):
        matmul(ww.GPU("v100", timing="off"), dense, dense)
    with pytest.raises(ww.ArgumentError, match="rows of 64 elements, as W; this array is 2 x 32"):
        matmul(ww.GPU("a100", timing="off"), dense, dense[:2, :32])
    assert isinstance(compress(prune_2_4(dense)), SparseMatrix)
