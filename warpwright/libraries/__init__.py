"""Drop-in libraries with the public interfaces of cuBLAS, cuBLASLt, cuDNN, cuFFT, cuSPARSE, cuSPARSELt, cuSOLVER, cuRAND, NCCL, cuFile and CUPTI.

``calls.py`` turns entry points into Python functions, ``library_kernels.py`` compiles and launches the package's own CUDA C++ (``cuda/``), one module or folder for each library
answers its interface. Kernels run as those of the program do: they are executed, checked and timed, and their names begin with ``warpwright_``.

May import ``driver`` and everything to its left.
"""

from warpwright.libraries.library_files import provide

__all__ = ["provide"]
