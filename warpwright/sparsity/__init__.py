"""Structured sparsity: matrices of which every group of four keeps two, and products with them on tensor cores.

``pruning`` sets weights to zero, ``compressed`` stores what is left as the hardware reads it, and ``products`` multiplies with it.
Sources: the A100 whitepaper, "A100 Introduces Fine-Grained Structured Sparsity" (figures 12 and 13), and PTX ISA, "Sparse matrix storage".
"""

from __future__ import annotations

from warpwright.sparsity.compressed import SparseMatrix, compress
from warpwright.sparsity.pruning import is_sparse, mask, prune_2_4
from warpwright.sparsity.sparse_products import matmul

__all__ = ["SparseMatrix", "compress", "is_sparse", "mask", "matmul", "prune_2_4"]
