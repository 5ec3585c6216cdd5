"""Textures and surfaces: the objects behind their handles, and how they are sampled.

``table.py`` describes the objects, ``sampling.py`` samples them with NumPy for the interpreter, and ``compiled_textures.py`` does it for compiled code.
"""
