"""The second hold-out set: kernels of courses and libraries, written and measured after the first set had been looked into.

Reductions in the order of a lecture, vectors and matrices, small systems, sweeps, image filters, cells and quantised layers, orders and
look-back, graphs, sparse forms, checksums, automata, wide integers, paths, lattices, particles and rays; blocks of 64 to 1024 threads,
many of odd numbers of warps.
"""

from __future__ import annotations

from bench.holdout.case import Case, Collection
from bench.holdout.second import cases_nature, cases_orders, cases_pictures, cases_sums

__all__ = ["Case", "case", "names"]

SECOND = Collection(cases_sums, cases_pictures, cases_orders, cases_nature)
names, case = SECOND.names, SECOND.case
