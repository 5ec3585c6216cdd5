"""Iterative refinement: linear systems solved to double precision with factors from tensor cores of lower precision.

``factors`` is an LU factorisation in FP64, FP32, TF32, FP16 or BF16, ``solver`` refines its solutions by GMRES and falls back to FP64 factors.
The kernels of both are in ``refinement.cu``.  Source: the A100 whitepaper, "Mixed Precision Tensor Cores for HPC".
"""

from __future__ import annotations

from warpwright.refinement.factors import PRECISIONS, Factors
from warpwright.refinement.solver import Solution, solve

__all__ = ["PRECISIONS", "Factors", "Solution", "solve"]
