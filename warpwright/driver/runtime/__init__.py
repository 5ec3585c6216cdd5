"""libcudart: the runtime's functions over those of the driver.

``calls`` implements what every call of the runtime does (a current context, the last error), ``registration`` receives
what nvcc's host code registers, ``launching`` implements ``<<<>>>``; the rest is grouped by subject as in the driver.
"""
