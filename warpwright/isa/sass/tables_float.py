"""Rows of the floating-point instructions: single, double and packed half precision.

Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.sass.fields import (
    ALL_FORMS,
    B_FORMS,
    C_FORMS,
    HALVES,
    Choice,
    Fixed,
    Pred,
    Reg,
    Row,
    Slot,
    When,
    at,
    flag,
    reg_a,
)
from warpwright.isa.sass.names import (
    BOOLEAN,
    BOOLEAN_HALF,
    COMPARE_DOUBLE,
    COMPARE_FLOAT,
    FTZ,
    FTZ_OR_FMZ,
    MUFU_FUNCTIONS,
    ROUNDING,
    SATURATE,
)

D = Reg(16)
HALF_PART = Choice(at(60, 2), ("", "H1"))
P81, P84 = Pred(81), Pred(84)
P_IN = Pred(87, 90)
SCALE = Choice(at(84, 3), (None, "D8", "D4", "D2", "", "M2", "M4", "M8"))
HALF_NAMES = tuple(name.lstrip(".") for name in HALVES)
HALF_A = reg_a("-|", suffix=Choice(at(74, 2), HALF_NAMES))
HALF_ADD = (flag(78, "F32"), FTZ, SATURATE)
RELU_IN = When(at(79, 1), (1,), Pred(87, 90, optional=True))


def half_rows(opcode: str, code: int, forms: tuple[int, ...], low: bool, head: tuple[Choice | Fixed, ...],
              tail: tuple[Choice | Fixed, ...], before: tuple[Pred, ...] | tuple[Reg, ...],
              after: tuple[Pred | When, ...], c: bool = False,
              format_bit: int = 85, bf16_from: int = 90, swizzle: bool = True) -> tuple[Row, ...]:  # fmt: skip
    """The fp16 and the bf16 row of a packed-half instruction; they differ in one bit and in their immediates."""
    rows = []
    for where, name, immediate, first in ((0, None, "f16", 70), (1, "BF16_V2", "bf16", bf16_from)):
        source = Slot("C", "-|", immediate, halves=True, swizzle=swizzle, low_register=True) if low else Slot("B", "-|", immediate, halves=True, swizzle=swizzle)
        third = (Slot("C", "-|", immediate, halves=True, swizzle=swizzle),) if c else ()
        rows.append(
            Row(opcode, code, forms, (*head, *((Fixed(name),) if name else ()), *tail),
                (*before, HALF_A if swizzle else reg_a("-|"), source, *third, *after), ((at(format_bit, 1), where),), first=first)
        )  # fmt: skip
    return tuple(rows)


# fmt: off
ROWS = (
    # single precision
    Row("FADD", 0x021, C_FORMS, (FTZ, ROUNDING, SATURATE), (D, reg_a("-|"), Slot("C", "-|", "f32", low_register=True))),
    Row("FMUL", 0x020, B_FORMS, (FTZ_OR_FMZ, SCALE, ROUNDING, SATURATE), (D, reg_a("-|"), Slot("B", "-|", "f32"))),
    Row("FFMA", 0x023, ALL_FORMS, (FTZ_OR_FMZ, ROUNDING, SATURATE),
        (D, reg_a("-|"), Slot("B", "-|", "f32"), Slot("C", "-|", "f32"))),
    Row("FSEL", 0x008, B_FORMS, (FTZ,), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN)),
    Row("FMNMX", 0x009, B_FORMS, (FTZ, flag(81, "NAN")), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN), last=80),
    Row("FMNMX", 0x009, B_FORMS, (FTZ, flag(81, "NAN"), flag(82, "XORSIGN")), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN),
        ((at(83, 1), 0),), first=86),
    Row("FSET", 0x00a, B_FORMS, (Fixed("BF"), COMPARE_FLOAT, FTZ, BOOLEAN), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN)),
    Row("FSETP", 0x00b, B_FORMS, (COMPARE_FLOAT, FTZ, BOOLEAN), (P81, P84, reg_a("-|"), Slot("B", "-|", "f32"), P_IN)),
    Row("FCHK", 0x102, B_FORMS, (), (P81, reg_a("-|"), Slot("B", "-|", "f32"))),
    Row("MUFU", 0x108, B_FORMS, (MUFU_FUNCTIONS,), (D, Slot("B", "-|", "f32")), ((at(73, 1), 0),), last=89),
    Row("MUFU", 0x108, B_FORMS, (MUFU_FUNCTIONS,), (D, Slot("B", "-|", "f32")), ((at(72, 2), 0),), first=90),
    Row("MUFU", 0x108, (1, 5, 6), (MUFU_FUNCTIONS, Fixed("F16")), (D, Slot("B", "-|", suffix=HALF_PART)), ((at(73, 1), 1),), first=75, last=89),
    Row("MUFU", 0x108, (1, 5, 6), (MUFU_FUNCTIONS, Fixed("F16")), (D, Slot("B", "-|", suffix=HALF_PART)), ((at(72, 2), 1),), first=90),
    Row("MUFU", 0x108, (1, 5, 6), (MUFU_FUNCTIONS, Fixed("BF16")), (D, Slot("B", "-|", suffix=HALF_PART)), ((at(72, 2), 2),), first=90),

    # double precision
    Row("DADD", 0x029, C_FORMS, (ROUNDING,), (D, reg_a("-|"), Slot("C", "-|", "f64"))),
    Row("DMUL", 0x028, B_FORMS, (ROUNDING,), (D, reg_a("-|"), Slot("B", "-|", "f64"))),
    Row("DFMA", 0x02b, ALL_FORMS, (ROUNDING,), (D, reg_a("-|"), Slot("B", "-|", "f64"), Slot("C", "-|", "f64"))),
    Row("DSETP", 0x02a, C_FORMS, (COMPARE_DOUBLE, BOOLEAN),
        (P81, P84, reg_a("-|"), Slot("C", "-|", "f64", low_register=True), P_IN)),

    # packed halves
    *half_rows("HADD2", 0x030, C_FORMS, True, (), HALF_ADD, (D,), ()),
    *half_rows("HMUL2", 0x032, B_FORMS, False, (), (flag(78, "F32"), FTZ_OR_FMZ, SATURATE), (D,), ()),
    *half_rows("HFMA2", 0x031, ALL_FORMS, False, (), (flag(78, "F32"), FTZ_OR_FMZ, SATURATE, flag(79, "RELU")), (D,), (RELU_IN,), True, bf16_from=80),
    *half_rows("HSET2", 0x033, C_FORMS, True, (), (flag(71, "BF"), COMPARE_FLOAT, FTZ, BOOLEAN_HALF), (D,), (P_IN,), format_bit=65),
    *half_rows("HSETP2", 0x034, C_FORMS, True, (), (COMPARE_FLOAT, FTZ, flag(71, "H_AND"), BOOLEAN_HALF), (P81, P84), (P_IN,), format_bit=65),
    *half_rows("HMNMX2", 0x040, B_FORMS, False, (), (flag(78, "F32"), FTZ, flag(81, "NAN"), flag(82, "XORSIGN")), (D,), (P_IN,), bf16_from=80),
    *half_rows("HFMA2", 0x035, ALL_FORMS, False, (Fixed("MMA"),), (FTZ_OR_FMZ, SATURATE, flag(79, "RELU")), (D,), (RELU_IN,), True, swizzle=False),
)
# fmt: on
