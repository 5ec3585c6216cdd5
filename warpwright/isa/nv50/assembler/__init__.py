"""Assembler from PTX to NV50 machine code.

``from_ptx`` takes the steps that ``isa.ptx`` makes of a kernel (common operations, with the places where lanes meet again),
``selector`` and ``select_*`` choose machine instructions over virtual registers, ``cleanup`` folds and drops, ``allocate`` gives
registers, ``layout`` encodes.
"""
