"""PTX to scalar LLVM IR of one thread, which LLVM's R600 back end compiles.

``from_ptx`` traverses a kernel, ``writer`` collects the text, and the other modules generate the text of each common
operation.
"""
