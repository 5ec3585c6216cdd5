"""Measurements of what the special-function unit and the tensor cores of a real card compute, bit for bit."""
