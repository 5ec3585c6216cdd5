"""The commands of the command line, one module for each; :mod:`warpwright.cli` collects them.

``output`` and ``options`` are at the bottom; ``execution``, ``run_settings``, ``launch_output`` and ``check_findings`` are shared by the commands,
which do not import each other.  A module that is slow to import is imported by the function that needs it.
"""
