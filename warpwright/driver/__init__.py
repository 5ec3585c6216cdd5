"""The drop-in driver: ``libcuda.so.1`` and ``libcudart.so`` whose entry points are Python functions over the engine.

``elf_writer`` and ``stubs`` write the libraries, ``entry_points`` lists their exports, ``attach`` connects them to this
process's functions.  The functions are grouped by subject (``contexts``, ``modules``, ``launches`` …), each registered
by ``@entry("cuName")``; shared parts are in ``state`` (device, contexts, handles), ``calls`` (results, errors) and
``cmemory`` (reading and writing C memory).  ``runtime`` implements libcudart on the same functions.

May import everything below it (``api``, ``run``, ``engine``, ``toolchain``, ``chips``); only the command line imports it.
"""
