"""The drop-in driver: ``libcuda.so.1`` and ``libcudart.so`` whose entry points are Python functions over the engine.

``elf`` and ``stubs`` write the libraries, ``entry_points`` lists what they export, ``attach`` puts this process's
functions behind them.  The functions themselves are grouped by subject (``contexts``, ``modules``, ``launches`` …), each under
``@entry("cuName")``; what they share is in ``state`` (device, contexts, handles), ``calls`` (results, errors) and ``c``
(reading and writing C memory).  ``runtime`` is libcudart over the same functions.

May import everything below it (``api``, ``run``, ``engine``, ``toolchain``, ``chips``); only the command line imports it.
"""
