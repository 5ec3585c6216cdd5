"""Rows of the matrix instructions: HMMA, IMMA, BMMA, DMMA, matrix loads from shared memory and the 8×8 transpose.

sm_70's HMMA.884 works in steps on quads of lanes and names the layout of each operand (``.ROW``, ``.COL``); from
sm_75 on one instruction is one whole ``mma`` tile.  Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import Choice, Custom, Fixed, Form, Imm, Reg, Row, at, flag
from warpwright.isa.sass.tables_memory import NO_UR, WITH_UR, shared_address

D = Reg(16)
A_ROW = Reg(24, reuse=122, suffix=Choice(at(73, 1), ("ROW",)))
B_COL = Reg(32, reuse=123, suffix=Choice(at(74, 1), (None, "COL")))
A = Reg(24, negate=72, reuse=122)
B = Reg(32, negate=63, reuse=123)
C = Reg(64, reuse=124)
C_DOUBLE = Reg(64, negate=75, absolute=74, reuse=124)
QUAD_A = Reg(24, negate=72, reuse=122, suffix=Choice(at(73, 1), ("ROW", "COL")))
QUAD_B = Reg(32, negate=63, reuse=123, suffix=Choice(at(74, 1), ("ROW", "COL")))
SATFINITE = flag(77, "SATFINITE")
HMMA_SHAPE = Choice(at(75, 1, 78, 1), ("1688", "16816", "1684"))
HMMA_INPUT = Choice(at(82, 2), ("", "BF16", "TF32"))
ACCUMULATOR = flag(76, "F32", "F16")
HMMA_SPARSE_SHAPE = Choice(at(75, 1, 78, 1), ("1688", "16816", None, "16832"))
SPARSE = Fixed("SP")
METADATA = (Reg(40, reuse=50), Imm(at(48, 2)))
IMMA_SHAPE = Choice(at(75, 1, 85, 2), ("8816", None, "8832", None, "16816", "16832", "16864"))
IMMA_SPARSE_SHAPE = Choice(at(75, 1, 85, 2), ("8816", None, "8832", None, "16816", "16832", "16864", "168128"))
IMMA_A = Choice(at(76, 1, 83, 1), ("U8", "S8", "U4", "S4"))
IMMA_B = Choice(at(78, 1, 84, 1), ("U8", "S8", "U4", "S4"))
IMMA_A_90 = Choice(at(76, 1, 83, 1), ("U8", "S8"))
IMMA_B_90 = Choice(at(78, 1, 84, 1), ("U8", "S8"))
"""sm_90's code computes products of nibbles from products of bytes."""
IMMA_SAT = flag(82, "SAT")
BMMA_SHAPE = Choice(at(75, 2), ("88128", "168128", "168256"))
BMMA_MODE = Choice(at(78, 1), ("XOR.POPC", "AND.POPC"))
QMMA_OPERANDS = (
    D,
    Reg(24, negate=72, reuse=122, suffix=Choice(at(73, 1), ("ROW",))),
    Reg(32, negate=63, reuse=123, suffix=Choice(at(74, 1), (None, "COL"))),
    C,
)
QMMA_KINDS = (flag(77, "F32", "F16"), Choice(at(78, 1), ("E4M3", "E5M2")), Choice(at(79, 1), ("E4M3", "E5M2")))
MATRICES = Choice(at(72, 2), ("", "2", "4"))
DENSE, SPARSE_BIT = (at(73, 1), 0), (at(73, 1), 1)


def late_uniform_predicate(word: int, form: Form) -> tuple[Operand, ...]:
    """The condition of sm_90 (bits 87–90, complemented: zero bits mean UPT, which is not printed)."""
    bits = word >> 87 & 15
    return (Operand(Kind.UNIFORM_PREDICATE, bits & 7 ^ 7, invert=bool(bits & 8)),) if bits else ()


LATE = Custom(late_uniform_predicate)

# fmt: off
ROWS = (
    Row("HMMA", 0x236, (), (Fixed("884"), flag(76, "F32", "F16"), flag(78, "F32", "F16"),
                            Choice(at(79, 2), ("STEP0", "STEP1", "STEP2", "STEP3")), SATFINITE),
        (D, QUAD_A, QUAD_B, C), ((at(75, 1), 0),), last=75),
    Row("HMMA", 0x23c, (), (HMMA_SHAPE, ACCUMULATOR, SATFINITE), (D, A, B, C), first=75, last=75),
    Row("HMMA", 0x23c, (), (HMMA_SHAPE, ACCUMULATOR, HMMA_INPUT), (D, A, B, C), (DENSE,), first=80, last=89),
    Row("HMMA", 0x23c, (), (HMMA_SHAPE, ACCUMULATOR, HMMA_INPUT), (D, A, B, C, LATE), (DENSE,), first=90),
    Row("HMMA", 0x23c, (), (SPARSE, HMMA_SPARSE_SHAPE, ACCUMULATOR, HMMA_INPUT), (D, A, B, C, *METADATA), (SPARSE_BIT,), first=80, last=89),
    Row("HMMA", 0x23c, (), (SPARSE, HMMA_SPARSE_SHAPE, ACCUMULATOR, HMMA_INPUT), (D, A, B, C, LATE, *METADATA), (SPARSE_BIT,), first=90),
    Row("IMMA", 0x237, (), (Choice(at(75, 1, 85, 1), ("8816", None, "8832")), IMMA_A, IMMA_B, IMMA_SAT),
        (D, A_ROW, B_COL, C), first=72, last=75),
    Row("IMMA", 0x237, (), (IMMA_SHAPE, IMMA_A, IMMA_B, IMMA_SAT), (D, A_ROW, B_COL, C), ((at(72, 1), 0),), first=80, last=89),
    Row("IMMA", 0x237, (), (IMMA_SHAPE, IMMA_A_90, IMMA_B_90, IMMA_SAT), (D, A_ROW, B_COL, C, LATE), ((at(72, 1), 0),), first=90),
    Row("IMMA", 0x237, (), (SPARSE, IMMA_SPARSE_SHAPE, IMMA_A, IMMA_B, IMMA_SAT), (D, A_ROW, B_COL, C, *METADATA), ((at(72, 1), 1),), first=80, last=89),
    Row("IMMA", 0x237, (), (SPARSE, IMMA_SHAPE, IMMA_A_90, IMMA_B_90, IMMA_SAT), (D, A_ROW, B_COL, C, LATE, *METADATA), ((at(72, 1), 1),), first=90),
    Row("BMMA", 0x23d, (), (Fixed("88128"), Fixed("XOR.POPC")), (D, A_ROW, B_COL, C), first=75, last=75),
    Row("BMMA", 0x23d, (), (BMMA_SHAPE, BMMA_MODE), (D, A_ROW, B_COL, C), ((at(80, 1), 1), (at(77, 1), 0)), first=80, last=89),
    Row("BMMA", 0x23d, (), (BMMA_SHAPE, BMMA_MODE), (D, A_ROW, B_COL, C, LATE), ((at(80, 1), 1), (at(77, 1), 0)), first=90),
    Row("DMMA", 0x23f, (), (Fixed("884"), Choice(at(78, 2), ("", "RM", "RP", "RZ"))),
        (D, Reg(24, negate=72, absolute=73, reuse=122), Reg(32, negate=63, absolute=62, reuse=123), C_DOUBLE),
        ((at(76, 2), 0),), first=80, last=89),
    Row("DMMA", 0x23f, (), (Choice(at(76, 2), ("8x8x4", "16x8x4", "16x8x8", "16x8x16")), Choice(at(78, 2), ("", "RM", "RP", "RZ"))),
        (D, Reg(24, negate=72, absolute=73, reuse=122), Reg(32, negate=63, absolute=62, reuse=123), C_DOUBLE, LATE),
        first=90),
    Row("QMMA", 0x27a, (), (Choice(at(75, 2), ("16816", "16832", "16864")), *QMMA_KINDS), (*QMMA_OPERANDS, LATE), ((at(80, 1), 0),), first=89, last=89),
    Row("QMMA", 0x27a, (), (SPARSE, Choice(at(75, 2), ("16816", "16832", "16864")), *QMMA_KINDS), (*QMMA_OPERANDS, LATE, *METADATA), ((at(80, 1), 1),), first=89, last=89),
    Row("LDSM", 0x83b, (), (Fixed("16"), Choice(at(78, 2), ("M88", "MT88", "M816", "M832")), MATRICES),
        (D, shared_address(None, False)), (NO_UR,), first=75),
    Row("LDSM", 0x83b, (), (Fixed("16"), Choice(at(78, 2), ("M88", "MT88", "M816", "M832")), MATRICES),
        (D, shared_address(32, False)), (WITH_UR,), first=75),
    Row("MOVM", 0x23a, (), (Fixed("16"), Choice(at(78, 2), ("MT88", "M832", "M864"))), (D, Reg(24)), first=75),
)
# fmt: on
