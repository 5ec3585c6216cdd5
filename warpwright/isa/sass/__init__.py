"""SASS front end: turns machine code of sm_70 to sm_90 (128-bit encodings) into programs.

``fields`` bit-field readers · ``names`` enumerations · ``tables_*`` one row per instruction · ``decode`` words to records ·
``text`` records to nvdisasm's text · ``load`` cubins to programs · ``meaning*``, ``lower`` what instructions do.
Imports ``isa.program`` and ``toolchain`` only.
"""

from warpwright.isa.sass.decode import ARCHES, UnknownEncoding, decode, decode_section
from warpwright.isa.sass.load import program_from_cubin
from warpwright.isa.sass.text import format_instruction, format_operand

__all__ = [
    "ARCHES",
    "UnknownEncoding",
    "decode",
    "decode_section",
    "format_instruction",
    "format_operand",
    "program_from_cubin",
]
