"""Rows of control flow, convergence, barriers and the instructions around them.

Targets are absolute byte offsets once decoded.  A predicate before a target is a condition in addition to the guard.
Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.program import Kind, Operand
from warpwright.isa.sass.fields import (
    B_FORMS,
    Choice,
    Custom,
    Fixed,
    Form,
    Imm,
    Named,
    Offset,
    Pred,
    Reg,
    Row,
    Slot,
    Target,
    at,
    flag,
)
from warpwright.isa.sass.names import SPECIAL_REGISTERS

D = Reg(16)
R24 = Reg(24)
UR24 = Reg(24, uniform=True)
CONDITION = Pred(87, 90, optional=True)
BARRIER_AT_16 = Named(at(16, 4), tuple(f"B{n}" for n in range(16)), Kind.BARRIER)
BARRIER_AT_24 = Named(at(24, 6), (
    *(f"B{n}" for n in range(16)), *(f"THREAD_STATE_ENUM.{n}" for n in range(5)), "TRAP_RETURN_PC.LO",
    "TRAP_RETURN_PC.HI", "TRAP_RETURN_MASK", "MEXITED", "MKILL", "MACTIVE", "MATEXIT", "OPT_STACK", "API_CALL_DEPTH",
    "ATEXIT_PC.LO", "ATEXIT_PC.HI",
), Kind.BARRIER)  # fmt: skip
NEAR = Target(at(34, 30), 4)
FAR = Target(at(34, 48), 4)
FAR_90 = Target(at(16, 8, 34, 48), 4)
BEHIND_90 = Offset(at(16, 8, 34, 48), 4)
ABSOLUTE = Target(at(34, 47), 4, relative=False)
BEHIND = Offset(at(34, 48), 4)
BEHIND_OPTIONAL = Offset(at(34, 48), 4, optional=True)
BEHIND_OPTIONAL_90 = Offset(at(16, 8, 34, 48), 4, optional=True)
ABSOLUTE_90 = Target(at(16, 8, 34, 47), 4, relative=False)
BRANCH_KIND = Choice(at(85, 2), ("", "INC", "DEC"))
BRANCH_TEST = Choice(at(32, 2), ("", "U", "DIV", "CONV"))
BRANCH_LANES = Reg(24, invert=30, uniform=True)
UNIFORM = (at(91, 1), 1)
NOINC = flag(86, "NOINC")
NODEC = flag(86, "NODEC")
BARRIER_MODE = at(77, 3)
DEFER_SET = flag(80, "DEFER_BLOCKING")
REDUCTION = Choice(at(74, 2), ("POPC", "AND", "OR"))
SPECIAL = Named(at(72, 8), SPECIAL_REGISTERS, Kind.SPECIAL)

SCOREBOARD = Named(at(44, 3), tuple(f"SB{n}" for n in range(6)), Kind.SCOREBOARD)


def scoreboard_set(word: int, form: Form) -> tuple[Operand, ...]:
    """Further scoreboards that must be zero: ``value`` is the mask, the name is as printed, for example ``{3,1}``."""
    mask = word >> 32 & 63
    members = ",".join(str(n) for n in reversed(range(6)) if mask >> n & 1)
    return (Operand(Kind.NAME, value=mask, name=f"{{{members}}}"),) if mask else ()


def barrier_rows(code: int, number: tuple[Imm | Reg, ...], count: Imm | Reg, always: Imm | Reg) -> tuple[Row, ...]:
    """BAR in one of its four forms; ``count`` may be absent, and is printed with ``always`` even if it is zero."""
    return (
        Row("BAR", code, (), (Fixed("SYNC"), DEFER_SET), (*number, count), ((BARRIER_MODE, 0),)),
        Row("BAR", code, (), (Fixed("ARV"), DEFER_SET), (*number, always), ((BARRIER_MODE, 1),)),
        Row(
            "BAR", code, (), (Fixed("RED"), REDUCTION, DEFER_SET), (*number, count, Pred(87, 90)), ((BARRIER_MODE, 2),)
        ),
        Row("BAR", code, (), (Fixed("SCAN"), DEFER_SET), (*number, always, Pred(87, 90)), ((BARRIER_MODE, 3),)),
    )


# fmt: off
ROWS = (
    # branches, calls, returns
    Row("BRA", 0x947, (), (BRANCH_KIND, BRANCH_TEST), (CONDITION, FAR), ((at(91, 1), 0),), last=89),
    Row("BRA", 0x947, (), (BRANCH_KIND, BRANCH_TEST), (CONDITION, FAR_90), ((at(91, 1), 0), (at(84, 1), 0)), first=90),
    Row("BRA", 0x947, (), (BRANCH_KIND, Fixed("U.ANY")), (CONDITION, FAR_90), ((at(91, 1), 0), (at(84, 1), 1), (at(32, 2), 1)), first=90),
    Row("BRA", 0x547, (), (BRANCH_KIND, Fixed("U")), (CONDITION, Pred(24, 27, uniform=True), FAR_90), (UNIFORM, (at(84, 1), 0), (at(32, 2), 1)), first=90),
    *(Row("BRA", 0x947, (), (BRANCH_KIND, Fixed(name)), (CONDITION, BRANCH_LANES, FAR), (UNIFORM, (at(32, 2), code)), first=80, last=89)
      for code, name in ((2, "DIV"), (3, "CONV"))),
    *(Row("BRA", 0x947, (), (BRANCH_KIND, Fixed(name)), (CONDITION, BRANCH_LANES, FAR_90), (UNIFORM, (at(32, 2), code)), first=90)
      for code, name in ((2, "DIV"), (3, "CONV"))),
    Row("BRX", 0x949, (), (BRANCH_KIND,), (CONDITION, R24, BEHIND), ((at(91, 1), 0),), last=89),
    Row("BRX", 0x949, (), (BRANCH_KIND,), (CONDITION, R24, BEHIND_90), ((at(91, 1), 0),), first=90),
    Row("BRXU", 0x958, (), (BRANCH_KIND,), (CONDITION, UR24, BEHIND), (UNIFORM,), last=89),
    Row("BRXU", 0x958, (), (BRANCH_KIND,), (CONDITION, UR24, BEHIND_90), (UNIFORM,), first=90),
    Row("CALL", 0x944, (), (Fixed("REL"), NOINC), (CONDITION, FAR), ((at(91, 1), 0),), last=89),
    Row("CALL", 0x944, (), (Fixed("REL"), NOINC), (CONDITION, FAR_90), ((at(91, 1), 0),), first=90),
    Row("CALL", 0x344, (), (Fixed("REL"), NOINC), (CONDITION, R24, FAR), last=89),
    Row("CALL", 0x344, (), (Fixed("REL"), NOINC), (CONDITION, R24, FAR_90), first=90),
    Row("CALL", 0x943, (), (Fixed("ABS"), NOINC), (CONDITION, ABSOLUTE), ((at(91, 1), 0),), last=89),
    Row("CALL", 0x943, (), (Fixed("ABS"), NOINC), (CONDITION, ABSOLUTE_90), ((at(91, 1), 0),), first=90),
    Row("CALL", 0x343, (), (Fixed("ABS"), NOINC), (CONDITION, R24, BEHIND_OPTIONAL), last=89),
    Row("CALL", 0x343, (), (Fixed("ABS"), NOINC), (CONDITION, R24, BEHIND_OPTIONAL_90), first=90),
    Row("RET", 0x950, (), (Fixed("REL"), NODEC), (CONDITION, R24, FAR), ((at(91, 1), 0), (at(85, 1), 0)), last=89),
    Row("RET", 0x950, (), (Fixed("REL"), NODEC), (CONDITION, R24, FAR_90), ((at(91, 1), 0), (at(85, 1), 0)), first=90),
    Row("RET", 0x950, (), (Fixed("ABS"), NODEC), (CONDITION, R24, BEHIND), ((at(91, 1), 0), (at(85, 1), 1)), last=89),
    Row("RET", 0x950, (), (Fixed("ABS"), NODEC), (CONDITION, R24, BEHIND_90), ((at(91, 1), 0), (at(85, 1), 1)), first=90),
    Row("EXIT", 0x94d, (), (Choice(at(84, 2), ("", "KEEPREFCOUNT", "PREEMPTED")), flag(86, "NO_ATEXIT")), (CONDITION,)),
    Row("BPT", 0x95c, (), (Choice(at(84, 3), (None, None, None, "TRAP")),), (Imm(at(34, 3), optional=True),)),
    Row("NOP", 0x918),
    Row("PMTRIG", 0x801, (), (), (CONDITION, Imm(at(32, 16))), ((at(91, 1), 0),)),

    Row("LEPC", 0x34e, (), (), (D,)),
    Row("LEPC", 0x94e, (), (), (D, Target(at(24, 58))), first=90),

    # convergence
    Row("BSSY", 0x945, (), (), (CONDITION, BARRIER_AT_16, NEAR)),
    Row("BSYNC", 0x941, (), (), (CONDITION, BARRIER_AT_16)),
    Row("BREAK", 0x942, (), (), (CONDITION, BARRIER_AT_16)),
    Row("YIELD", 0x946, (), (), (CONDITION,)),
    Row("WARPSYNC", 0x148, B_FORMS, (), (CONDITION, Slot("B")), last=75),
    Row("WARPSYNC", 0x148, (4,), (), (CONDITION, Slot("B")), first=80, last=89),
    Row("WARPSYNC", 0x148, (1, 5, 6), (flag(86, "EXCLUSIVE"),), (CONDITION, Slot("B")), first=80, last=89),
    Row("WARPSYNC", 0x348, (), (flag(85, "EXCLUSIVE"),), (CONDITION, R24), ((at(86, 1), 0),), first=90),
    Row("WARPSYNC", 0x348, (), (Fixed("COLLECTIVE"),), (CONDITION, R24, FAR_90), ((at(85, 2), 2),), first=90),
    Row("WARPSYNC", 0x948, (), (Fixed("ALL"),), (CONDITION,), ((at(85, 2), 0),), first=90),
    Row("WARPSYNC", 0x948, (), (Fixed("COLLECTIVE.ALL"),), (CONDITION, FAR_90), ((at(85, 2), 2),), first=90),
    Row("ENDCOLLECTIVE", 0x91b, (), (), (CONDITION,), first=90),
    Row("ELECT", 0x82f, (), (flag(85, "IGNOREKILL"),), (Pred(81), Reg(16, uniform=True), Pred(87, 90)), ((at(91, 1), 0),), first=90),

    # block barriers: number and thread count are immediates or registers
    *barrier_rows(0xb1d, (Imm(at(54, 4)),), Imm(at(42, 12), optional=True), Imm(at(42, 12))),
    *barrier_rows(0x91d, (Imm(at(54, 4)),), Reg(32), Reg(32)),
    *barrier_rows(0x51d, (Reg(32),), Imm(at(42, 12), optional=True), Imm(at(42, 12))),
    *barrier_rows(0x31d, (Reg(32),), Reg(32), Reg(32)),
    Row("BAR", 0xb1d, (), (Fixed("SYNCALL"), DEFER_SET), (), ((BARRIER_MODE, 4),)),
    Row("DEPBAR", 0x91a, (), (Fixed("LE"),), (SCOREBOARD, Imm(at(38, 6)), Custom(scoreboard_set)), ((at(47, 1), 1),)),
    Row("DEPBAR", 0x91a, (), (), (Custom(scoreboard_set),), ((at(47, 1), 0),)),
    Row("B2R", 0x31c, (), (Fixed("RESULT"),), (D, Pred(81, optional=True)), ((at(78, 2), 1),)),

    Row("BMOV", 0x355, (), (Fixed("32"), flag(84, "CLEAR")), (D, BARRIER_AT_24)),
    Row("BMOV", 0x356, (), (Fixed("32"), flag(84, "PQUAD")), (BARRIER_AT_24, Reg(32))),
    Row("RPCMOV", 0x352, (), (Fixed("32"),), (Named(at(31, 1), ("Rpc.LO", "Rpc.HI")), Reg(32)), first=90),
    Row("RPCMOV", 0x353, (), (Fixed("32"),), (D, Named(at(31, 1), ("Rpc.LO", "Rpc.HI"))), first=90),
    Row("UCGABAR_ARV", 0x9c7, first=90),
    Row("UCGABAR_WAIT", 0xdc7, first=90),
    Row("PREEXIT", 0x82d, first=90),
    Row("ACQBULK", 0x82e, first=90),

    Row("B2R", 0x31c, (), (), (D, Imm(at(54, 4))), ((at(78, 2), 0),)),

    # special registers
    Row("S2R", 0x919, (), (), (D, SPECIAL)),
    Row("CS2R", 0x805, (), (flag(80, "", "32"),), (D, SPECIAL)),
    Row("NANOSLEEP", 0x15d, B_FORMS, (flag(86, "RAND"), flag(85, "WARP")), (CONDITION, Slot("B")), last=89),
    Row("NANOSLEEP", 0x15d, B_FORMS, (flag(86, "RAND"), flag(85, "WARP"), flag(84, "SYNCS")), (CONDITION, Slot("B")), ((at(83, 1), 0),), first=90),
)
# fmt: on
