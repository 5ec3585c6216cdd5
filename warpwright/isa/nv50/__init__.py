"""Front end of NV50 machine code (sm_10 to sm_13: G80 to GT200): words of 4 and 8 bytes.

``fields`` defines the parts of table rows; each part reads and writes its bits, so that the same tables serve to decode
and to assemble.  ``meaning*`` turn decoded words into common operations.  Imports ``isa.program``, ``isa.ops`` and what
they import only.
"""
