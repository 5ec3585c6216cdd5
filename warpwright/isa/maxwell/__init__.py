"""SASS front end of sm_50 to sm_62 (Maxwell, Pascal): 64-bit words, one control word for three instructions.

Same files as ``isa/sass``, whose vocabulary and common meanings it uses.  Imports ``isa.sass`` and ``isa.program`` only.
"""
