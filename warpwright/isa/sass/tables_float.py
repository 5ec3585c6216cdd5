"""Rows of the floating-point instructions: single, double and packed half precision.

Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from warpwright.isa.program import Operand
from warpwright.isa.sass.fields import (
    ALL_FORMS,
    B_FORMS,
    C_FORMS,
    HALVES,
    REUSE_C,
    Choice,
    Custom,
    Fixed,
    Form,
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
    FTZ_FMZ_OR_OOB,
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
HALF_C = Reg(64, negate=84, absolute=83, reuse=REUSE_C, suffix=Choice(at(76, 2), HALF_NAMES))
"""The third source of VHMNMX, always a register."""
HALF_A = reg_a("-|", suffix=Choice(at(74, 2), HALF_NAMES))
HFMA2_90 = (flag(78, "F32"), FTZ_FMZ_OR_OOB, SATURATE, flag(79, "RELU"))
HFMA2_80 = (flag(78, "F32"), FTZ_OR_FMZ, SATURATE, flag(79, "RELU"))
RELU_IN = When(at(79, 1), (1,), Pred(87, 90, optional=True))


@dataclass(frozen=True)
class PackedHalf:
    """A packed-half instruction, with fp16 and bf16 rows that differ in ``format_bit`` and in their immediates.

    ``before`` and ``after`` are the operands around the sources A, B (``has_b``) and C (``has_c``; an instruction with
    only C encodes it at bit 32).
    """

    opcode: str
    code: int
    forms: tuple[int, ...]
    before: tuple[Reg | Pred, ...]
    after: tuple[Pred | Reg | When, ...]
    modifiers: tuple[Choice | Fixed, ...]
    _: KW_ONLY
    head: tuple[Fixed, ...] = ()
    has_b: bool = True
    has_c: bool = False
    swizzle: bool = True
    conjugate: bool = False
    format_bit: int = 85
    bf16_from: int = 90
    first: int = 70
    last: int = 90

    def rows(self) -> tuple[Row, ...]:
        """The fp16 and the bf16 row."""
        rows = []
        a = HALF_A if self.swizzle else reg_a("-|")
        for value, name, immediate, start in (
            (0, "", "f16", self.first),
            (1, "BF16_V2", "bf16", max(self.first, self.bf16_from)),
        ):
            if start > self.last:
                continue
            sources: list[Slot] = []
            if self.has_b:
                sources.append(Slot("B", "-|", immediate, halves=True, swizzle=self.swizzle, conjugate=self.conjugate))
            if self.has_c:
                sources.append(
                    Slot("C", "-|", immediate, halves=True, swizzle=self.swizzle, low_register=not self.has_b)
                )
            kind = (Fixed(name),) if name else ()
            where = ((at(self.format_bit, 1), value),)
            operands = (*self.before, a, *sources, *self.after)
            rows.append(
                Row(
                    self.opcode,
                    self.code,
                    self.forms,
                    (*self.head, *kind, *self.modifiers),
                    operands,
                    where,
                    start,
                    self.last,
                )
            )
        return tuple(rows)


def mufu_source(word: int, form: Form) -> tuple[Operand, ...]:
    """The source of MUFU; an immediate of RCP64H and RSQ64H is the upper half of a double."""
    wide = MUFU_FUNCTIONS.read(word, form)[0].endswith("64H")
    return Slot("B", "-|", "f64" if wide else "f32").read(word, form)


# fmt: off
ROWS = (
    # single precision
    Row("FADD", 0x021, C_FORMS, (FTZ, ROUNDING, SATURATE), (D, reg_a("-|"), Slot("C", "-|", "f32", low_register=True))),
    Row("FMUL", 0x020, B_FORMS, (FTZ_OR_FMZ, SCALE, ROUNDING, SATURATE), (D, reg_a("-|"), Slot("B", "-|", "f32"))),
    Row("FFMA", 0x023, ALL_FORMS, (FTZ_OR_FMZ, ROUNDING, SATURATE),
        (D, reg_a("-|"), Slot("B", "-|", "f32"), Slot("C", "-|", "f32"))),
    Row("FSEL", 0x008, B_FORMS, (FTZ,), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN)),
    Row("FMNMX", 0x009, B_FORMS, (FTZ,), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN), last=75),
    Row("FMNMX", 0x009, B_FORMS, (FTZ, flag(81, "NAN")), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN), first=80, last=80),
    Row("FMNMX", 0x009, B_FORMS, (FTZ, flag(81, "NAN"), flag(82, "XORSIGN")), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN),
        ((at(83, 1), 0),), first=86),
    Row("FSET", 0x00a, B_FORMS, (Fixed("BF"), COMPARE_FLOAT, FTZ, BOOLEAN), (D, reg_a("-|"), Slot("B", "-|", "f32"), P_IN)),
    Row("FSETP", 0x00b, B_FORMS, (COMPARE_FLOAT, FTZ, BOOLEAN), (P81, P84, reg_a("-|"), Slot("B", "-|", "f32"), P_IN)),
    Row("FCHK", 0x102, B_FORMS, (), (P81, reg_a("-|"), Slot("B", "-|", "f32"))),
    Row("MUFU", 0x108, B_FORMS, (MUFU_FUNCTIONS,), (D, Custom(mufu_source)), ((at(73, 1), 0),), last=89),
    Row("MUFU", 0x108, B_FORMS, (MUFU_FUNCTIONS,), (D, Custom(mufu_source)), ((at(72, 2), 0),), first=90),
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
    *PackedHalf("HADD2", 0x030, C_FORMS, (D,), (), (flag(78, "F32"), FTZ, SATURATE), has_b=False, has_c=True).rows(),
    *PackedHalf("HMUL2", 0x032, B_FORMS, (D,), (), (flag(78, "F32"), FTZ_OR_FMZ, SATURATE)).rows(),
    *PackedHalf("HFMA2", 0x031, ALL_FORMS, (D,), (), (flag(78, "F32"), FTZ_OR_FMZ, SATURATE), has_c=True, last=75).rows(),
    *PackedHalf("HFMA2", 0x031, ALL_FORMS, (D,), (RELU_IN,), HFMA2_80, has_c=True, bf16_from=80, first=80, last=80).rows(),
    *PackedHalf("HFMA2", 0x031, ALL_FORMS, (D,), (RELU_IN,), HFMA2_80, has_c=True, bf16_from=80, conjugate=True, first=86, last=89).rows(),
    *PackedHalf("HFMA2", 0x031, ALL_FORMS, (D,), (RELU_IN,), HFMA2_90, has_c=True, conjugate=True, first=90).rows(),
    *PackedHalf("HFMA2", 0x035, ALL_FORMS, (D,), (RELU_IN,), (FTZ_OR_FMZ, SATURATE, flag(79, "RELU")), head=(Fixed("MMA"),), has_c=True,
               swizzle=False, first=80).rows(),
    *PackedHalf("HSET2", 0x033, C_FORMS, (D,), (P_IN,), (flag(71, "BF"), COMPARE_FLOAT, FTZ, BOOLEAN_HALF), has_b=False, has_c=True, format_bit=65).rows(),
    *PackedHalf("HSETP2", 0x034, C_FORMS, (P81, P84), (P_IN,), (COMPARE_FLOAT, flag(71, "H_AND"), FTZ, BOOLEAN_HALF), has_b=False, has_c=True,
               format_bit=65).rows(),
    *PackedHalf("HMNMX2", 0x040, B_FORMS, (D,), (P_IN,), (flag(78, "F32"), FTZ, flag(81, "NAN")), bf16_from=80, first=80, last=80).rows(),
    *PackedHalf("HMNMX2", 0x040, B_FORMS, (D,), (P_IN,), (flag(78, "F32"), FTZ, flag(81, "NAN"), flag(82, "XORSIGN")), bf16_from=86, first=86).rows(),
    *PackedHalf("VHMNMX", 0x047, B_FORMS, (D,), (HALF_C, P_IN), (FTZ, flag(81, "NAN"), flag(82, "XORSIGN")), first=90).rows(),
)
# fmt: on
