"""The functional engine: executes programs.  May import chips, isa and toolchain, and nothing above.

``abi``: layouts shared with timing; ``device_memory``: device memory; ``jit``: LLVM code for whole warps;
``interpreter``: the NumPy reference; ``numerics``: tensor cores and special functions.
"""
