"""Microbenchmarks that isolate one mechanism each, run with the same cubins on a real card and on the model.

`*.cu` hold the kernels, `build.py` compiles them and counts the machine instructions that each became, `compute.py`,
`memory.py` and `chip.py` launch them and turn clock readings into rows, `__main__.py` is the command.
"""
