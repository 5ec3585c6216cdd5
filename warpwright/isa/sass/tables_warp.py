"""Rows of the cross-lane instructions: votes, shuffles, matches, reductions, predicates to registers.

Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.sass.fields import REUSE_A, Choice, Fixed, Imm, Pred, Reg, Row, at, flag

D = Reg(16)
A = Reg(24)
P81 = Pred(81)
P_OUT = Pred(81, optional=True)
P_IN = Pred(87, 90)
QUANTIFIER = Choice(at(72, 2), ("ALL", "ANY", "EQ"))
SHUFFLE = Choice(at(58, 2), ("IDX", "UP", "DOWN", "BFLY"))
LANE = Imm(at(53, 5))
CLAMP = Imm(at(40, 13))
REDUCTION = Choice(at(78, 3), ("", "OR", "XOR", "SUM", "MIN", "MAX"))

# fmt: off
ROWS = (
    Row("VOTE", 0x806, (), (QUANTIFIER,), (Reg(16, optional=True), P81, P_IN)),
    Row("VOTEU", 0x886, (), (QUANTIFIER,), (Reg(16, uniform=True, optional=True), Pred(81, uniform=True), P_IN), first=75),
    Row("SHFL", 0x389, (), (SHUFFLE,), (P81, D, A, Reg(32), Reg(64))),
    Row("SHFL", 0x589, (), (SHUFFLE,), (P81, D, A, Reg(32), CLAMP)),
    Row("SHFL", 0x989, (), (SHUFFLE,), (P81, D, A, LANE, Reg(64))),
    Row("SHFL", 0xf89, (), (SHUFFLE,), (P81, D, A, LANE, CLAMP)),
    Row("MATCH", 0x3a1, (), (Fixed("ANY"), flag(73, "U64")), (D, A), ((at(79, 1), 1),)),
    Row("MATCH", 0x3a1, (), (Fixed("ALL"), flag(73, "U64")), (P81, D, A), ((at(79, 1), 0),)),
    Row("REDUX", 0x3c4, (), (REDUCTION, flag(73, "S32")), (Reg(16, uniform=True), A), first=80),
    Row("R2UR", 0x3c2, (), (), (P_OUT, Reg(16, uniform=True), Reg(24, reuse=REUSE_A)), ((at(84, 1), 0),), first=75, last=89),
    Row("R2UR", 0x3c2, (), (Fixed("OR"),), (P81, Reg(16, uniform=True), Reg(24, reuse=REUSE_A)), ((at(84, 1), 1),), first=75, last=89),
    Row("R2UR", 0x2ca, (), (), (P_OUT, Reg(16, uniform=True), Reg(24, reuse=REUSE_A)), ((at(84, 1), 0),), first=90),
    Row("R2UR", 0x2ca, (), (Fixed("OR"),), (P81, Reg(16, uniform=True), Reg(24, reuse=REUSE_A)), ((at(84, 1), 1),), first=90),
)
# fmt: on
