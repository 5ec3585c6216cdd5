"""libcudart: the runtime's functions over those of the driver.

``calls`` adds what the runtime does for every call (a current context, the last error), ``registration`` takes what nvcc's host
code registers, ``launching`` is ``<<<>>>``; the rest stands by subject as in the driver.
"""
