"""PTX to scalar LLVM IR of one thread, which LLVM's R600 back end compiles.

``from_ptx`` goes through a kernel, ``writer`` keeps the text, and the other modules have the text of each common operation.
"""
