"""Rows of control flow, the reconvergence stack, barriers, votes, shuffles and special registers.

Targets are absolute byte offsets once decoded.  Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.maxwell.fields import (
    Choice,
    Condition,
    Custom,
    Fixed,
    Imm,
    Named,
    Offset,
    Pred,
    Reg,
    Row,
    Target,
    at,
    flag,
    signed,
    single,
)
from warpwright.isa.maxwell.names import SPECIAL_REGISTERS
from warpwright.isa.maxwell.tables_integer import BOOLEAN, D_CC, P0, P3, P39, D
from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import Form

NEAR = Target(at(20, 24))
ABSOLUTE = Custom(lambda word, form: (Operand(Kind.LABEL, value=word >> 20 & 0xFFFFFFFF),))
CONDITION = Condition()
FROM_CONSTANT = (at(5, 1), 1)
DIRECT = (at(5, 1), 0)


def constant(word: int, form: Form) -> tuple[Operand, ...]:
    """The constant that holds a target."""
    return (Operand(Kind.CONSTANT, word >> 36 & 31, word >> 20 & 0xFFFF),)


def indexed_constant(word: int, form: Form) -> tuple[Operand, ...]:
    base = Operand(Kind.REGISTER, word >> 8 & 255)
    return (Operand(Kind.CONSTANT, word >> 36 & 31, signed(word >> 20 & 0xFFFF, 16), base=base),)


CONSTANT = Custom(constant)


def pushes(opcode: str, code: int, *modifiers: Choice) -> tuple[Row, ...]:
    """An instruction that names a code address, directly or through a constant; it has no guard."""
    return (
        Row(opcode, single(code, 12), modifiers, (NEAR,), (DIRECT,), guarded=False),
        Row(opcode, single(code, 12), modifiers, (CONSTANT,), (FROM_CONSTANT,), guarded=False),
    )


def scoreboards(word: int, form: Form) -> tuple[Operand, ...]:
    mask = word & 63
    members = ",".join(str(n) for n in reversed(range(6)) if mask >> n & 1)
    return (Operand(Kind.NAME, value=mask, name=f"{{{members}}}"),) if mask else ()


def barrier_number(word: int, form: Form) -> tuple[Operand, ...]:
    if word >> 44 & 1:
        return (Operand(Kind.IMMEDIATE, value=word >> 8 & 255),)
    return (Operand(Kind.REGISTER, word >> 8 & 255),)


def barrier_count(always: bool) -> Custom:
    def read(word: int, form: Form) -> tuple[Operand, ...]:
        if word >> 43 & 1:
            value = word >> 20 & 0xFFF
            return (Operand(Kind.IMMEDIATE, value=value),) if value or always else ()
        return (Operand(Kind.REGISTER, word >> 20 & 255),)

    return Custom(read)


def shuffle_sources(word: int, form: Form) -> tuple[Operand, ...]:
    lane = (
        Operand(Kind.IMMEDIATE, value=word >> 20 & 31) if word >> 28 & 1 else Operand(Kind.REGISTER, word >> 20 & 255)
    )
    mask = (
        Operand(Kind.IMMEDIATE, value=word >> 34 & 0x1FFF)
        if word >> 29 & 1
        else Operand(Kind.REGISTER, word >> 39 & 255)
    )
    return (lane, mask)


def trig(word: int, form: Form) -> tuple[Operand, ...]:
    value = word >> 20 & 0xFFFF
    return (Operand(Kind.IMMEDIATE, value=value),) if value else ()


BAR_NUMBER = Custom(barrier_number)
SPECIAL = Named(at(20, 8), SPECIAL_REGISTERS, Kind.SPECIAL)
SCOREBOARD = Named(at(26, 3), tuple(f"SB{n}" for n in range(6)), Kind.SCOREBOARD)
BAR_MODE = at(32, 3)
ALWAYS = (at(39, 4), 7)
TESTS = (
    *("F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"),
    *("OFF", "LO", "SFF", "LS", "HI", "SFT", "HS", "OFT", "CSM_TA", "CSM_TR", "CSM_MX", "FCSM_TA", "FCSM_TR"),
    *("FCSM_MX", "RLE", "RGT"),
)
CC_TEST = Choice(at(8, 5), TESTS)


def word_cc(word: int, form: Form) -> tuple[Operand, ...]:
    return (Operand(Kind.NAME, name="CC"),)


# fmt: off
ROWS = (
    Row("BRA", single(0xe240, 12), (flag(7, "U"), flag(6, "LMT")), (CONDITION, NEAR), (DIRECT,)),
    Row("BRA", single(0xe240, 12), (flag(7, "U"), flag(6, "LMT")), (CONDITION, CONSTANT), (FROM_CONSTANT,)),
    Row("BRX", single(0xe250, 12), (flag(6, "LMT"),), (CONDITION, Reg(8), Offset(at(20, 24), optional=True)), (DIRECT,)),
    Row("BRX", single(0xe250, 12), (flag(6, "LMT"),), (CONDITION, Custom(indexed_constant)), (FROM_CONSTANT,)),
    Row("JMP", single(0xe210, 12), (flag(7, "U"), flag(6, "LMT")), (CONDITION, ABSOLUTE), (DIRECT,)),
    Row("JMP", single(0xe210, 12), (flag(7, "U"), flag(6, "LMT")), (CONDITION, CONSTANT), (FROM_CONSTANT,)),
    Row("JMX", single(0xe200, 12), (flag(6, "LMT"),), (CONDITION, Reg(8), Offset(at(20, 32), optional=True)), (DIRECT,)),
    Row("JMX", single(0xe200, 12), (flag(6, "LMT"),), (CONDITION, Custom(indexed_constant)), (FROM_CONSTANT,)),
    *pushes("SSY", 0xe290), *pushes("PBK", 0xe2a0), *pushes("PCNT", 0xe2b0),
    *pushes("PRET", 0xe270, flag(6, "", "NOINC")), *pushes("CAL", 0xe260, flag(6, "", "NOINC")),
    Row("JCAL", single(0xe220, 12), (flag(6, "", "NOINC"),), (ABSOLUTE,), (DIRECT,), guarded=False),
    Row("JCAL", single(0xe220, 12), (flag(6, "", "NOINC"),), (CONSTANT,), (FROM_CONSTANT,), guarded=False),
    Row("SYNC", single(0xf0f8, 13), (), (CONDITION,)),
    Row("BRK", single(0xe340, 12), (), (CONDITION,)),
    Row("CONT", single(0xe350, 12), (), (CONDITION,)),
    Row("RET", single(0xe320, 12), (), (CONDITION,)),
    Row("EXIT", single(0xe300, 12), (flag(5, "KEEPREFCOUNT"),), (CONDITION,)),
    Row("KIL", single(0xe330, 12), (), (CONDITION,)),
    Row("BPT", single(0xe3a0, 12), (Choice(at(6, 3), ("DRAIN_ILLEGAL", "CAL", "PAUSE", "TRAP", "INT", "DRAIN", "PAUSE_QUIET")),), (Imm(at(20, 20), optional=True),), guarded=False),
    Row("NOP", single(0x50b0, 13), (flag(13, "TRIG"),), (Condition(8), Custom(trig))),
    Row("LEPC", single(0x50d0, 13), (), (D,)),

    Row("BAR", single(0xf0a8, 13), (Fixed("SYNC"),), (BAR_NUMBER, barrier_count(False)), ((BAR_MODE, 0), ALWAYS)),
    Row("BAR", single(0xf0a8, 13), (Fixed("ARV"),), (BAR_NUMBER, barrier_count(True)), ((BAR_MODE, 1), ALWAYS)),
    Row("BAR", single(0xf0a8, 13), (Fixed("RED"), Choice(at(35, 2), ("POPC", "AND", "OR"))), (BAR_NUMBER, barrier_count(False), P39), ((BAR_MODE, 2),)),
    Row("BAR", single(0xf0a8, 13), (Fixed("SCAN"),), (BAR_NUMBER, barrier_count(True), P39), ((BAR_MODE, 3),)),
    Row("B2R", single(0xf0b8, 13), (Fixed("RESULT"),), (D, Pred(45, optional=True)), ((at(32, 2), 1), (at(8, 8), 255))),
    Row("B2R", single(0xf0b8, 13), (), (D, Imm(at(8, 8))), ((at(32, 2), 0),)),
    Row("DEPBAR", single(0xf0f0, 13), (Fixed("LE"),), (SCOREBOARD, Imm(at(20, 6)), Custom(scoreboards)), ((at(29, 1), 1),)),
    Row("DEPBAR", single(0xf0f0, 13), (), (Custom(scoreboards),), ((at(29, 1), 0),)),

    Row("S2R", single(0xf0c8, 13), (), (D, SPECIAL)),
    Row("CS2R", single(0x50c8, 13), (), (D, SPECIAL)),
    Row("VOTE", single(0x50d8, 13), (Choice(at(48, 2), ("ALL", "ANY", "EQ")),), (D, Pred(45), P39)),
    Row("SHFL", single(0xef10, 13), (Choice(at(30, 2), ("IDX", "UP", "DOWN", "BFLY")),), (Pred(48), D, Reg(8), Custom(shuffle_sources))),
    Row("CSET", single(0x5098, 13), (flag(44, "BF"), CC_TEST, BOOLEAN), (D_CC, Custom(word_cc), P39)),
    Row("CSETP", single(0x50a0, 13), (CC_TEST, BOOLEAN), (P3, P0, Custom(word_cc), P39)),
)
# fmt: on
