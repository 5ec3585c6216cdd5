"""Numeric encoding of a texture access (``isa/texture_access.py``) for compiled code."""

import numpy as np

from warpwright.isa import texture_access as asked

SHAPE_CUBE, SHAPE_LAYERED = asked.SHAPES.index("CUBE"), asked.SHAPES.index("ARRAY_1D")
SHAPE_1D = asked.SHAPES.index("1D")
SHAPE_AXES = np.array([asked.AXES[shape] for shape in asked.SHAPES])
SHIFTS = {name: sum(list(asked.FIELDS.values())[:n]) for n, name in enumerate(asked.FIELDS)}
AT_SHAPE, AT_LEVEL, AT_COMPONENT, AT_OUTSIDE = SHIFTS["shape"], SHIFTS["level"], SHIFTS["component"], SHIFTS["outside"]
AT_SIZE, AT_OFFSETS = SHIFTS["size"], SHIFTS["offsets"]
SAMPLE, FETCH, GATHER, SLOPES, QUERY = asked.SAMPLE, asked.FETCH, asked.GATHER, asked.SLOPES, asked.QUERY
LOAD, STORE, STORE_FORMATTED, REDUCE = asked.LOAD, asked.STORE, asked.STORE_FORMATTED, asked.REDUCE
EXPLICIT, SURFACE_CLAMP, TRAP = asked.EXPLICIT, asked.CLAMP, asked.TRAP
NO_LEVEL = -32.0
"""The level that compiled code requests if the program names none: a number below every level."""
