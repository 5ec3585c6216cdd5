"""Compiles a subset of Python, whose annotations give all types, to machine code.

The cycle model, the block scheduler and the checks are written in it.  ``intrinsics.py`` has the few things beyond arithmetic and arrays,
``translate.py`` writes LLVM's code straight from the source, ``direct.py`` makes functions of it that Python calls, and ``by_numba.py``
has Numba do the same.  Imports nothing of the package but the cache of ``toolchain``.
"""
