"""The debugger: stops launches at source lines and instructions, shows threads, registers and memory, and goes back.

Launches run in the NumPy interpreter, without time.  ``console.py`` is the command line's front end, ``scripted.py`` Python's,
``dap.py`` that of editors.
"""
