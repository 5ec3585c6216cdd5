"""Functional engine: gives meaning to programs.  May import chips and isa (and toolchain); nothing above.

``abi`` the layouts shared with timing, ``memory`` device memory, ``jit`` LLVM code for whole warps,
``interpreter`` the NumPy reference, ``numerics`` tensor cores and special functions.
"""
