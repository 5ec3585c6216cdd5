"""Kernels of the kinds that ran on compute capability 1.0: no atomics, no doubles, nothing between lanes but shared memory."""
