"""Warpwright: a GPU that anyone can run anywhere."""
