"""Iterative refinement: factors are LAPACK's up to rounding, solutions have double precision, and what does not converge falls back."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.refinement import PRECISIONS, Factors, solve
from warpwright.refinement.solver import UNIT_ROUNDOFF, padded, scales
from warpwright.studies.a100_refinement import Outcome, _continued, mean_speedup
from warpwright.studies.refinement_matrices import MATRICES, spectrum

ROUNDING = {"fp64": 2.0**-53, "fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("a100", timing="off")


@pytest.mark.ci
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("block", [64, 192, 512])
def test_factors_make_the_matrix_again(gpu: ww.GPU, precision: str, block: int) -> None:
    n = max(320, block + 64)
    a = np.random.default_rng(3).standard_normal((n, n))
    factors = Factors(gpu, a, PRECISIONS[precision])
    factors.run(block)
    lu = factors.lu.get().astype(np.float64)
    lower, upper = np.tril(lu, -1) + np.eye(n), np.triu(lu)
    assert factors.singular == 0
    assert sorted(factors.order()) == list(range(n))
    # Partial pivoting: no multiplier is larger than one.
    assert np.abs(np.tril(lu, -1)).max() <= 1 + 1e-6
    difference = np.abs(lower @ upper - a[factors.order()])
    growth = np.abs(lower) @ np.abs(upper)
    assert (difference <= 8 * ROUNDING[precision] * growth + 1e-12).all()
    # A lower precision is really used: FP32 would be ten times as near.
    if precision in ("tf32", "fp16", "bf16"):
        assert difference.max() > 0.02 * ROUNDING[precision] * growth.max()


@pytest.mark.ci
@pytest.mark.parametrize("precision", PRECISIONS)
def test_solutions_have_double_precision(gpu: ww.GPU, precision: str) -> None:
    rng = np.random.default_rng(5)
    a, x = rng.standard_normal((150, 150)), rng.standard_normal(150)
    solution = solve(gpu, a, a @ x, precision)
    assert solution.converged
    assert solution.backward_error <= 192**0.5 * UNIT_ROUNDOFF
    np.testing.assert_allclose(solution.x, x, rtol=0, atol=1e-11)
    assert (solution.iterations == 0) == (precision == "fp64")


@pytest.mark.ci
def test_what_does_not_converge_is_solved_in_fp64(gpu: ww.GPU) -> None:
    rng = np.random.default_rng(6)
    a, x = spectrum(1e9, "geometric", rng, 256), rng.standard_normal(256)
    solution = solve(gpu, a, a @ x, "bf16", most_iterations=5)
    assert not solution.converged
    assert solution.iterations <= 5
    assert solution.backward_error <= 16 * UNIT_ROUNDOFF


@pytest.mark.ci
def test_scaling_lets_fp16_have_a_matrix_of_any_size(gpu: ww.GPU) -> None:
    rng = np.random.default_rng(7)
    a = rng.standard_normal((128, 128)) * 10.0 ** rng.integers(-20, 20, (128, 1)) * 10.0 ** rng.integers(-10, 10, 128)
    assert solve(gpu, a, a @ np.ones(128), "fp16").converged


def test_scales_are_powers_of_two_and_bring_every_row_and_column_near_one() -> None:
    a = np.random.default_rng(8).standard_normal((40, 40)) * np.logspace(-9, 9, 40)[:, None]
    a[3] = 0
    rows, columns = scales(a)
    assert all((np.log2(one) % 1 == 0).all() for one in (rows, columns))
    sizes = np.abs(a * rows[:, None] * columns).max(axis=0)
    assert ((sizes > 0.5) & (sizes <= 1)).all()
    assert padded(np.ones((65, 65))).shape == (128, 128)


@pytest.mark.ci
def test_singular_matrices_and_wrong_shapes_are_refused(gpu: ww.GPU) -> None:
    with pytest.raises(ArgumentError, match="order 64 is singular"):
        solve(gpu, np.zeros((64, 64)), np.ones(64))
    with pytest.raises(ArgumentError, match=r"not shapes \(3, 4\) and \(3,\)"):
        solve(gpu, np.ones((3, 4)), np.ones(3))
    with pytest.raises(ArgumentError, match="precision='fp8' is not known"):
        solve(gpu, np.eye(3), np.ones(3), "fp8")
    with pytest.raises(UnsupportedError, match="v100 has no tensor cores for TF32"):
        solve(ww.GPU("v100", timing="off"), np.eye(64), np.ones(64))


def test_there_are_37_matrices_and_each_is_the_same_every_time() -> None:
    assert len(MATRICES) == 37
    for name in ("random", "circuit, 6 decades"):
        first, second = (MATRICES[name](np.random.default_rng(1)) for _ in range(2))
        assert np.array_equal(first, second)


def test_a_time_is_continued_by_the_work() -> None:
    seconds = _continued((1024, 2048, 4096), [3 + 2 * 2048**2, 3 + 2 * 4096**2], 2)
    assert seconds(16384) == pytest.approx(3 + 2 * 16384**2)


def test_a_fallback_costs_the_failed_attempt_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from warpwright.studies import a100_refinement as refinement

    monkeypatch.setattr(
        refinement, "factorisation", lambda precision: lambda order: 9.0 if precision == "fp64" else 3.0
    )
    monkeypatch.setattr(refinement, "iteration", lambda precision: lambda order: 1.0)
    assert refinement.speedup(Outcome(1, True), "tf32", 64) == pytest.approx(2)
    assert refinement.speedup(Outcome(6, False), "tf32", 64) == pytest.approx(0.5)
    assert mean_speedup({"a": Outcome(1, True), "b": Outcome(6, False)}, "tf32", 64) == pytest.approx(1)
