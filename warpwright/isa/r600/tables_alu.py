"""Operations of ALU words: opcode, name, number of sources and the slots that can execute them.

Rows are runs of consecutive opcodes; ``-`` marks an unused opcode.  Cypress has the slots x, y, z and w and a fifth, t,
for transcendental functions and 32-bit products; Cayman executes these in x, y and z together (or in all four).
"""

from __future__ import annotations

from typing import NamedTuple

from warpwright.isa.r600.layouts import CAYMAN, EVERGREEN


class Slots(NamedTuple):
    """Where each generation executes an operation: ``v`` in the slot of its destination's channel, ``t`` in the fifth
    slot, "" not at all."""

    evergreen: str
    cayman: str


class AluOperation(NamedTuple):
    """A row of the tables."""

    opcode: int
    name: str
    source_count: int
    slots: Slots

    def slots_of(self, generation: str) -> str:
        return self.slots.evergreen if generation == EVERGREEN else self.slots.cayman

    @property
    def sets_predicate(self) -> bool:
        return self.name.startswith("PRED_")


ANY = Slots("vt", "v")
VECTOR = Slots("v", "v")
TRANSCENDENTAL = Slots("t", "v")
ON_EVERGREEN = Slots("vt", "")
TRANSCENDENTAL_ON_EVERGREEN = Slots("t", "")
ON_CAYMAN = Slots("", "v")


def run(first: int, sources: int, slots: Slots, names: str) -> tuple[AluOperation, ...]:
    """Consecutive opcodes from ``first`` on."""
    return tuple(AluOperation(first + i, name, sources, slots) for i, name in enumerate(names.split()) if name != "-")


OP2: tuple[AluOperation, ...] = (
    *run(0x00, 2, ANY, "ADD MUL MUL_IEEE MAX MIN MAX_DX10 MIN_DX10 - SETE SETGT SETGE SETNE"),
    *run(0x0C, 2, ANY, "SETE_DX10 SETGT_DX10 SETGE_DX10 SETNE_DX10"),
    *run(0x10, 1, ANY, "FRACT TRUNC CEIL RNDNE FLOOR"),
    *run(0x15, 2, ANY, "ASHR_INT LSHR_INT LSHL_INT"),
    *run(0x19, 1, ANY, "MOV"),
    *run(0x1A, 0, ANY, "NOP"),
    *run(0x1E, 2, ANY, "PRED_SETGT_UINT PRED_SETGE_UINT PRED_SETE PRED_SETGT PRED_SETGE PRED_SETNE"),
    *run(0x24, 1, ANY, "PRED_SET_INV"),
    *run(0x25, 2, ANY, "PRED_SET_POP"),
    *run(0x26, 0, ANY, "PRED_SET_CLR"),
    *run(0x27, 1, ANY, "PRED_SET_RESTORE"),
    *run(0x28, 2, ANY, "PRED_SETE_PUSH PRED_SETGT_PUSH PRED_SETGE_PUSH PRED_SETNE_PUSH"),
    *run(0x2C, 2, ANY, "KILLE KILLGT KILLGE KILLNE AND_INT OR_INT XOR_INT"),
    *run(0x33, 1, ANY, "NOT_INT"),
    *run(0x34, 2, ANY, "ADD_INT SUB_INT MAX_INT MIN_INT MAX_UINT MIN_UINT SETE_INT SETGT_INT SETGE_INT SETNE_INT"),
    *run(0x3E, 2, ANY, "SETGT_UINT SETGE_UINT KILLGT_UINT KILLGE_UINT"),
    *run(0x42, 2, ANY, "PRED_SETE_INT PRED_SETGT_INT PRED_SETGE_INT PRED_SETNE_INT"),
    *run(0x46, 2, ANY, "KILLE_INT KILLGT_INT KILLGE_INT KILLNE_INT PRED_SETE_PUSH_INT PRED_SETGT_PUSH_INT"),
    *run(0x4C, 2, ANY, "PRED_SETGE_PUSH_INT PRED_SETNE_PUSH_INT PRED_SETLT_PUSH_INT PRED_SETLE_PUSH_INT"),
    *run(0x50, 1, ANY, "FLT_TO_INT BFREV_INT"),
    *run(0x52, 2, ANY, "ADDC_UINT SUBB_UINT"),
    *run(0x54, 0, ANY, "GROUP_BARRIER"),
    *run(0x55, 0, ON_EVERGREEN, "GROUP_SEQ_BEGIN GROUP_SEQ_END"),
    *run(0x57, 2, ANY, "SET_MODE"),
    *run(0x58, 0, ON_EVERGREEN, "SET_CF_IDX0 SET_CF_IDX1"),
    *run(0x5A, 2, ANY, "SET_LDS_SIZE"),
    *run(0x5B, 2, ON_CAYMAN, "MUL_INT24 MULHI_INT24"),
    *run(0x5D, 1, ON_CAYMAN, "FLT_TO_INT_TRUNC"),
    *run(0x81, 1, TRANSCENDENTAL, "EXP_IEEE LOG_CLAMPED LOG_IEEE RECIP_CLAMPED RECIP_FF RECIP_IEEE"),
    *run(0x87, 1, TRANSCENDENTAL, "RECIPSQRT_CLAMPED RECIPSQRT_FF RECIPSQRT_IEEE SQRT_IEEE - - SIN COS"),
    *run(0x8F, 2, TRANSCENDENTAL, "MULLO_INT MULHI_INT MULLO_UINT MULHI_UINT"),
    *run(0x93, 1, TRANSCENDENTAL_ON_EVERGREEN, "RECIP_INT RECIP_UINT"),
    *run(0x95, 2, TRANSCENDENTAL, "RECIP_64 RECIP_CLAMPED_64 RECIPSQRT_64 RECIPSQRT_CLAMPED_64 SQRT_64"),
    *run(0x9A, 1, TRANSCENDENTAL, "FLT_TO_UINT INT_TO_FLT UINT_TO_FLT"),
    *run(0xA0, 2, VECTOR, "BFM_INT"),
    *run(0xA2, 1, VECTOR, "FLT32_TO_FLT16 FLT16_TO_FLT32 UBYTE0_FLT UBYTE1_FLT UBYTE2_FLT UBYTE3_FLT"),
    *run(0xAA, 1, VECTOR, "BCNT_INT FFBH_UINT FFBL_INT FFBH_INT FLT_TO_UINT4"),
    *run(0xAF, 2, VECTOR, "DOT_IEEE"),
    *run(0xB0, 1, VECTOR, "FLT_TO_INT_RPI FLT_TO_INT_FLOOR"),
    *run(0xB2, 2, VECTOR, "MULHI_UINT24"),
    *run(0xB3, 1, VECTOR, "MBCNT_32HI_INT OFFSET_TO_FLT"),
    *run(0xB5, 2, VECTOR, "MUL_UINT24"),
    *run(0xB6, 1, VECTOR, "BCNT_ACCUM_PREV_INT MBCNT_32LO_ACCUM_PREV_INT"),
    *run(0xB8, 2, VECTOR, "SETE_64 SETNE_64 SETGT_64 SETGE_64 MIN_64 MAX_64 DOT4 DOT4_IEEE CUBE"),
    *run(0xC1, 1, VECTOR, "MAX4"),
    *run(0xC4, 1, VECTOR, "FREXP_64"),
    *run(0xC5, 2, VECTOR, "LDEXP_64"),
    *run(0xC6, 1, VECTOR, "FRACT_64"),
    *run(0xC7, 2, VECTOR, "PRED_SETGT_64 PRED_SETE_64 PRED_SETGE_64 MUL_64 ADD_64"),
    *run(0xCC, 1, VECTOR, "MOVA_INT FLT64_TO_FLT32 FLT32_TO_FLT64"),
    *run(0xCF, 2, VECTOR, "SAD_ACCUM_PREV_UINT DOT"),
    *run(0xD1, 1, VECTOR, "MUL_PREV MUL_IEEE_PREV ADD_PREV"),
    *run(0xD4, 2, VECTOR, "MULADD_PREV MULADD_IEEE_PREV INTERP_XY INTERP_ZW INTERP_X INTERP_Z"),
    *run(0xDA, 1, VECTOR, "STORE_FLAGS LOAD_STORE_FLAGS LDS_1A"),
    *run(0xDD, 2, VECTOR, "LDS_1A1D - LDS_2A"),
    *run(0xE0, 1, VECTOR, "INTERP_LOAD_P0 INTERP_LOAD_P10 INTERP_LOAD_P20"),
)
"""Operations of up to two sources."""

OP3: tuple[AluOperation, ...] = (
    *run(0x04, 3, VECTOR, "BFE_UINT BFE_INT BFI_INT FMA"),
    *run(0x08, 3, ON_CAYMAN, "MULADD_INT24"),
    *run(0x09, 3, VECTOR, "CNDNE_64 FMA_64 LERP_UINT BIT_ALIGN_INT BYTE_ALIGN_INT SAD_ACCUM_UINT SAD_ACCUM_HI_UINT"),
    *run(0x10, 3, VECTOR, "MULADD_UINT24"),
    *run(
        0x14, 3, ANY, "MULADD MULADD_M2 MULADD_M4 MULADD_D2 MULADD_IEEE CNDE CNDGT CNDGE CNDE_INT CNDGT_INT CNDGE_INT"
    ),
    *run(0x1F, 3, TRANSCENDENTAL, "MUL_LIT"),
)
"""Operations of three sources."""

LDS_INDEXED = 0x11
"""Three-source opcode of words that access local data share; ``lds_op`` selects the operation."""

LDS: tuple[AluOperation, ...] = (
    *run(0x00, 2, VECTOR, "LDS_ADD LDS_SUB LDS_RSUB LDS_INC LDS_DEC LDS_MIN_INT LDS_MAX_INT LDS_MIN_UINT LDS_MAX_UINT"),
    *run(0x09, 2, VECTOR, "LDS_AND LDS_OR LDS_XOR"),
    *run(0x0C, 3, VECTOR, "LDS_MSKOR"),
    *run(0x0D, 2, VECTOR, "LDS_WRITE"),
    *run(0x0E, 3, VECTOR, "LDS_WRITE_REL LDS_WRITE2 LDS_CMP_STORE LDS_CMP_STORE_SPF"),
    *run(0x12, 2, VECTOR, "LDS_BYTE_WRITE LDS_SHORT_WRITE"),
    *run(
        0x20, 2, VECTOR, "LDS_ADD_RET LDS_SUB_RET LDS_RSUB_RET LDS_INC_RET LDS_DEC_RET LDS_MIN_INT_RET LDS_MAX_INT_RET"
    ),
    *run(0x27, 2, VECTOR, "LDS_MIN_UINT_RET LDS_MAX_UINT_RET LDS_AND_RET LDS_OR_RET LDS_XOR_RET"),
    *run(0x2C, 3, VECTOR, "LDS_MSKOR_RET"),
    *run(0x2D, 2, VECTOR, "LDS_XCHG_RET"),
    *run(0x2E, 3, VECTOR, "LDS_XCHG_REL_RET LDS_XCHG2_RET LDS_CMP_XCHG_RET LDS_CMP_XCHG_SPF_RET"),
    *run(0x32, 1, VECTOR, "LDS_READ_RET LDS_READ_REL_RET"),
    *run(0x34, 2, VECTOR, "LDS_READ2_RET"),
    *run(0x35, 3, VECTOR, "LDS_READWRITE_RET"),
    *run(0x36, 1, VECTOR, "LDS_BYTE_READ_RET LDS_UBYTE_READ_RET LDS_SHORT_READ_RET LDS_USHORT_READ_RET"),
)


def _index(rows: tuple[AluOperation, ...], generation: str) -> dict[int, AluOperation]:
    return {row.opcode: row for row in rows if row.slots_of(generation)}


OP2_OF = {g: _index(OP2, g) for g in (EVERGREEN, CAYMAN)}
OP3_OF = {g: _index(OP3, g) for g in (EVERGREEN, CAYMAN)}
LDS_OF = {g: _index(LDS, g) for g in (EVERGREEN, CAYMAN)}
