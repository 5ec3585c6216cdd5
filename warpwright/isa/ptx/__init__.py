"""PTX front end: text → records (``parser``) → common operations (``lower``), a second opinion on machine code.

``program_from_ptx`` is the entry point.  Imports only the contracts of ``warpwright.isa``.
"""
