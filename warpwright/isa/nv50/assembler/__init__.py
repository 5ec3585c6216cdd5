"""Assembler from PTX to NV50 machine code.

``from_ptx`` takes the steps into which ``isa.ptx`` translates a kernel (common operations and reconvergence points),
``selector`` and ``select_*`` select machine instructions over virtual registers, ``cleanup`` folds copies and removes
dead code, ``allocate`` assigns registers, and ``layout`` encodes.
"""
