"""Rows of the conversions between number formats, and of rounding to an integral value.

``F2I``, ``I2F`` and ``F2F`` print only the formats that are not the default (F32, S32).
Each conversion has two opcodes: one for operands of up to 32 bits, one for 64-bit operands.
Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.sass.fields import B_FORMS, Choice, Fixed, Reg, Row, Slot, at, flag, reg_a
from warpwright.isa.sass.names import FTZ, ROUND_TO_INTEGER, ROUNDING

D = Reg(16)
FLOAT_RESULT = Choice(at(75, 2), (None, "F16", "", "F64"))
FLOAT_RESULT_90 = Choice(at(75, 2), ("BF16", "F16", "", "F64"))
FLOAT_SOURCE = Choice(at(84, 2), (None, "F16", "", "F64"))
FLOAT_RESULT_ALWAYS = Choice(at(75, 2), ("BF16", "F16", "F32", "F64"))
FLOAT_SOURCE_ALWAYS = Choice(at(84, 2), (None, "F16", "F32", "F64"))
INTEGER_RESULT = Choice(at(72, 1, 75, 2), ("U8", "S8", "U16", "S16", "U32", "", "U64", "S64"))
INTEGER_SOURCE = Choice(at(74, 1, 84, 2), ("U8", "S8", "U16", "S16", "U32", "", "U64", "S64"))
NTZ = flag(77, "NTZ")
FLOATING = Slot("B", "-|", "f32")
DOUBLE = Slot("B", "-|", "f64")
HALF = Slot("B", "-|", "half", suffix=Choice(at(60, 2), ("", "H1")))
INTEGER_PARTS = (
    (0, Slot("B", "", "signed", suffix=Choice(at(60, 2), ("", "B1", "B2", "B3")))),
    (1, Slot("B", "", "signed", suffix=Choice(at(60, 2), ("", "H1")))),
    (2, Slot("B", "", "signed")),
    (3, Slot("B", "", "signed")),
)
UNSIGNED_PARTS = (*INTEGER_PARTS[:2], (2, Slot("B")), (3, Slot("B")))
NAMED_PARTS = tuple((sign, *part) for sign, parts in ((0, UNSIGNED_PARTS), (1, INTEGER_PARTS)) for part in parts)
"""Source of I2F by size: bytes and half words may be any part of the register."""
RELU = flag(75, "RELU")
MERGED = Reg(64, reuse=124, suffix=flag(72, "H1"))
SATFINITE = flag(77, "SATFINITE")
PACKED_INTEGERS = (
    *((code, kind, MERGED, ((at(73, 1), 0),)) for code, kind in enumerate(("U8", "S8", "U16", "S16"))),
    *(
        (code, kind, Reg(64, reuse=124, suffix=Choice(at(72, 2), (None, None, None, "28"))), ())
        for code, kind in ((4, "U2"), (5, "S2"))
    ),
    *(
        (code, kind, Reg(64, reuse=124, suffix=Choice(at(72, 2), (None, None, "24"))), ())
        for code, kind in ((6, "U4"), (7, "S4"))
    ),
)
"""Type codes of I2IP, with the part of C that is kept."""
PACK = Choice(at(79, 2), ("", None, None, "RZ"))

# fmt: off
ROWS = (
    *(Row("F2I", 0x105, B_FORMS, (FTZ, INTEGER_RESULT, FLOAT_SOURCE, ROUND_TO_INTEGER, NTZ), (D, source), ((at(84, 2), code),))
      for code, source in ((1, HALF), (2, FLOATING))),
    *(Row("F2I", 0x111, B_FORMS, (FTZ, INTEGER_RESULT, FLOAT_SOURCE, ROUND_TO_INTEGER, NTZ), (D, source), ((at(84, 2), code),))
      for code, source in ((1, HALF), (2, FLOATING), (3, DOUBLE))),
    *(Row("F2I", code, B_FORMS, (FTZ, INTEGER_RESULT, Fixed("BF16"), ROUND_TO_INTEGER, NTZ), (D, HALF), ((at(84, 3), 4),), first=90)
      for code in (0x105, 0x111)),
    Row("FRND", 0x107, B_FORMS, (FTZ, Fixed("BF16"), ROUND_TO_INTEGER), (D, HALF), ((at(84, 3), 4),), first=90),
    *(Row("I2F", code, B_FORMS, (FLOAT_RESULT, INTEGER_SOURCE, ROUNDING), (D, source), ((at(84, 2), size), (at(74, 1), sign)), last=89)
      for code in (0x106, 0x112) for sign, size, source in NAMED_PARTS),
    *(Row("I2F", code, B_FORMS, (FLOAT_RESULT_90, INTEGER_SOURCE, ROUNDING), (D, source), ((at(84, 2), size), (at(74, 1), sign)), first=90)
      for code in (0x106, 0x112) for sign, size, source in NAMED_PARTS),
    *(Row("F2F", 0x104, B_FORMS, (FTZ, FLOAT_RESULT_ALWAYS, FLOAT_SOURCE_ALWAYS, ROUNDING), (D, source), ((at(84, 2), code),))
      for code, source in ((1, HALF), (2, FLOATING))),
    *(Row("F2F", 0x110, B_FORMS, (FTZ, FLOAT_RESULT_ALWAYS, FLOAT_SOURCE_ALWAYS, ROUNDING), (D, source), ((at(84, 2), code),))
      for code, source in ((1, HALF), (2, FLOATING), (3, DOUBLE))),
    *(Row("F2F", code, B_FORMS, (FTZ, FLOAT_RESULT_ALWAYS, Fixed("BF16"), ROUNDING), (D, HALF), ((at(84, 3), 4),), first=90)
      for code in (0x104, 0x110)),
    *(Row("FRND", 0x107, B_FORMS, (FTZ, FLOAT_RESULT, ROUND_TO_INTEGER), (D, source), ((at(84, 2), code),))
      for code, source in ((1, HALF), (2, FLOATING))),
    Row("FRND", 0x113, B_FORMS, (FTZ, FLOAT_RESULT, ROUND_TO_INTEGER), (D, DOUBLE), ((at(84, 2), 3),)),
    Row("I2FP", 0x045, B_FORMS, (Fixed("F32"), flag(74, "S32", "U32"), ROUNDING), (D, Slot("B")), ((at(75, 3), 2), (at(84, 2), 2)), first=86),
    Row("F2FP", 0x03e, B_FORMS, (SATFINITE, RELU, flag(76, "BF16"), Fixed("PACK_AB"), PACK),
        (D, reg_a(), Slot("B", "", "f32")), ((at(78, 1), 0), (at(81, 1), 0)), first=80, last=87),
    Row("F2FP", 0x03e, B_FORMS, (SATFINITE, RELU, flag(76, "BF16"), Fixed("MERGE_C"), PACK),
        (D, Slot("B", "", "f32"), MERGED), ((at(78, 1), 1), (at(81, 1), 0)), first=80, last=87),
    Row("F2FP", 0x03e, B_FORMS, (SATFINITE, RELU, flag(76, "BF16.F32", "F16.F32"), Fixed("PACK_AB"), PACK),
        (D, reg_a(), Slot("B", "", "f32")), ((at(78, 1), 0), (at(72, 3), 0), (at(81, 2), 0), (at(86, 2), 0), (at(89, 2), 0)), first=89),
    Row("F2FP", 0x03e, B_FORMS, (SATFINITE, RELU, flag(76, "BF16.F32", "F16.F32"), Fixed("MERGE_C"), PACK),
        (D, Slot("B", "", "f32"), Slot("C")), ((at(78, 1), 1), (at(72, 3), 0), (at(81, 2), 0), (at(86, 2), 0), (at(89, 2), 0)), first=89),
    # saturated packing: two results, with the rest of C above
    *(Row("I2IP", 0x039, B_FORMS, (Fixed(f"{kind}.S32.SAT"),), (D, reg_a(), Slot("B", "", "signed"), part), ((at(74, 2), saturates), (at(76, 3), code), *where), first=first, last=last)
      for saturates, first, last in ((0, 72, 89), (1, 90, 90)) for code, kind, part, where in PACKED_INTEGERS),
    Row("F2IP", 0x043, B_FORMS, (Choice(at(76, 2), ("U8", "S8")), Fixed("F32"), Choice(at(78, 2), ("", None, None, "TRUNC")), flag(74, "NTZ"), RELU),
        (D, reg_a(), Slot("B", "", "f32"), MERGED), first=86),
    # 8-bit floats: the result is combined with one half of C
    Row("F2FP", 0x03e, B_FORMS, (RELU, Fixed("F16"), flag(73, "E4M3", "E5M2"), Fixed("UNPACK_B")),
        (D, Slot("B", suffix=flag(88, "H1"))), ((at(74, 1), 1), (at(76, 1), 0), (at(79, 3), 0), (at(86, 2), 0), (at(89, 2), 1)), first=89),
    Row("F2FP", 0x03e, B_FORMS, (RELU, Fixed("TF32.F32"), Choice(at(89, 1), ("MERGE_C", "PACK_B")), PACK), (D, Slot("B", "", "f32")),
        ((at(72, 3), 0), (at(76, 1), 1), (at(78, 1), 1), (at(81, 1), 0), (at(86, 3), 1), (at(89, 2), 1)), first=90),
    Row("F2FP", 0x03e, B_FORMS, (SATFINITE, RELU, flag(76, "E4M3", "E5M2"), Fixed("F32.PACK_AB_MERGE_C")),
        (D, reg_a(), Slot("B", "", "f32"), MERGED), ((at(73, 2), 0), (at(78, 1), 1), (at(86, 2), 2), (at(89, 2), 2)), first=89),
    Row("F2FP", 0x03e, B_FORMS, (SATFINITE, RELU, flag(76, "E4M3", "E5M2"), Fixed("F16.UNPACK_B_MERGE_C")),
        (D, Slot("B"), MERGED), ((at(73, 2), 1), (at(78, 1), 0), (at(86, 2), 2), (at(89, 2), 2)), first=89),
)
# fmt: on
