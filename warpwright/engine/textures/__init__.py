"""Textures and surfaces: what their handles stand for, and how they are sampled.

``table.py`` describes them, ``sampling.py`` samples with NumPy (the interpreter), ``compiled_textures.py`` for compiled code.
"""
