"""The fast functional engine: common operations compiled by LLVM for a whole warp at a time.

``compile.py`` is the entry; ``webs``, ``flow`` and ``shapes`` analyse a kernel; ``function``, ``arithmetic``, ``lanes``,
``control`` and ``trace`` write its code, ``places``, ``checks``, ``loads``, ``stores``, ``atomics`` and ``constants`` that
of memory accesses; ``support`` is code that all kernels share (checks and faults, atomics, the block scheduler);
``workspace`` runs blocks of a launch.
"""
