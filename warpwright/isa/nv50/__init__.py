"""Front end of NV50 machine code (sm_10 to sm_13: G80 to GT200): words of 4 and 8 bytes.

``fields`` has the parts that rows of the tables are made of; each reads its bits and writes them, so that the same tables
decode and assemble.  ``meaning*`` turn decoded words into common operations.  Imports ``isa.program``, ``isa.ops`` and what
they import only.
"""
