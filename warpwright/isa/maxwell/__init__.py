"""SASS front end for sm_50 to sm_62 (Maxwell, Pascal): 64-bit words, with one control word for every three
instructions.

Its files correspond to those of ``isa/sass``, whose vocabulary and common meanings it uses.  Imports ``isa.sass`` and
``isa.program`` only.
"""
