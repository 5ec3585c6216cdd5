"""Textures and surfaces on a real card and here: the same fetches, results compared bit for bit.

``cases.py`` lists them, ``kernels.cu`` fetches, ``card.py`` runs them through CUDA's driver interface.
"""
