"""The fast functional engine: common operations compiled by LLVM for a whole warp at a time.

``codegen.py`` is the entry point.  ``live_ranges``, ``flow`` and ``shapes`` analyse a kernel; ``function_writer``,
``arithmetic``, ``cross_lane``, ``control`` and ``trace`` write its code; ``addressing``, ``checks``, ``loads``,
``stores``, ``atomics`` and ``constants`` write memory accesses; ``shared_code`` is code that all kernels share (checks
and faults, atomics, the block scheduler), and ``shared_library`` holds it; ``object_code`` generates and loads code; ``workspace`` runs blocks of a launch.
"""
