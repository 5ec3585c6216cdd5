"""Rows of the loads, stores, atomics and fences.

The format of global addresses depends on the chip: sm_70 prints ``[R2]`` and always names the scope (``.SYS``), sm_75
adds a uniform register, sm_80 encodes ordering and scope together and may name a descriptor ``desc[UR4][R2.64]``
(always printed from sm_90 on).  Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.program import RZ, URZ, Kind, Operand
from warpwright.isa.sass.fields import Choice, Custom, Fixed, Form, Pred, Reg, Row, at, flag, signed

D = Reg(16)
DATA = Reg(32)
DATA_2 = Reg(64)
P81 = Pred(81)
P_OUT = Pred(81, optional=True)
E = flag(72, "E")
EVICT = Choice(at(84, 3), ("EF", "", "EL", "LU", "EU", "NA"))
SIZE = Choice(at(73, 3), ("U8", "S8", "U16", "S16", "", "64", "128"))
SIZE_70 = Choice(at(73, 3), ("U8", "S8", "U16", "S16", "", "64", "128", "U.128"))
ANY_SIZE = flag(76, "U")
SECTORS = Choice(at(68, 2), ("", "LTC64B", "LTC128B", "LTC256B"))
ORDER_70 = Choice(at(79, 2), ("CONSTANT", "", "STRONG", "MMIO"))
SCOPE_70 = Choice(at(77, 2), ("CTA", "SM", "GPU", "SYS"))
PRIVATE_70 = flag(76, "PRIVATE")
ORDER_80 = Choice(at(77, 4), (
    "", "CONSTANT.PRIVATE", "CONSTANT.CTA", "CONSTANT.CTA.PRIVATE", "CONSTANT", "STRONG.SM", "STRONG.GPU.PRIVATE",
    "STRONG.GPU", "MMIO.GPU", "CONSTANT.SM", "STRONG.SYS", "CONSTANT.SM.PRIVATE", "MMIO.SYS", "CONSTANT.VC",
    "CONSTANT.VC.PRIVATE", "CONSTANT.GPU",
))  # fmt: skip
ORDER_STORE_80 = Choice(at(77, 4), (
    "", "CONSTANT.PRIVATE", "CONSTANT.CTA", "CONSTANT.CTA.PRIVATE", "STRONG.SM.PRIVATE", "STRONG.SM",
    "STRONG.GPU.PRIVATE", "STRONG.GPU", "MMIO.GPU", "CONSTANT.SM", "STRONG.SYS", "CONSTANT.SM.PRIVATE", "MMIO.SYS",
    "CONSTANT.VC", "CONSTANT.VC.PRIVATE", "CONSTANT.GPU",
))  # fmt: skip
ORDER_COPY = Choice(at(77, 4), (
    "", "CONSTANT.PRIVATE", "CONSTANT.CTA", "CONSTANT.CTA.PRIVATE", "CONSTANT", "MMIO.CTA", "GPU.PRIVATE",
    "MMIO.CTA.PRIVATE", "MMIO.SM", "CONSTANT.SM", "MMIO.VC", "CONSTANT.SM.PRIVATE", "MMIO.GPU", "CONSTANT.VC",
    "CONSTANT.VC.PRIVATE", "CONSTANT.GPU",
))  # fmt: skip
LOAD_75 = (E, EVICT, SECTORS, SIZE_70, ORDER_70, SCOPE_70, PRIVATE_70)
LOAD_70 = (E, EVICT, SIZE_70, ORDER_70, SCOPE_70, PRIVATE_70)
LOAD_80 = (E, EVICT, SECTORS, SIZE, ORDER_80)
STORE_70 = (E, EVICT, SIZE, ORDER_70, SCOPE_70, PRIVATE_70)
STORE_80 = (E, EVICT, SIZE, ORDER_STORE_80)
ORDERED_70 = (ORDER_70, SCOPE_70, PRIVATE_70)
TYPE_70 = Choice(at(73, 3), ("", "S32", "64", "F32.FTZ.RN", "F16x2.RN", "S64", "F64.RN"))
TYPE_80 = Choice(at(73, 4), ("", "S32", "64", "F32.FTZ.RN", "F16x2.RN", "S64", "F64.RN"))
TYPE_90 = Choice(at(73, 3), ("", "S32", "64", "S64", "128"))
CAS_TYPE_70 = Choice(at(73, 3), ("", "S32", "64"))
CAS_TYPE = Choice(at(73, 4), ("", "S32", "64", None, "128"))
SHARED_TYPE = Choice(at(73, 3), ("", "S32", "64"))
CACHE = Choice(at(78, 2), ("", "U", "C", "I"))
CACHE_WHOLE = ((4, "IVALL"), (6, "IVALLP"), (7, "WBALL"), (8, "WBALLP"))
CACHE_LINE = ((0, "PF1"), (1, "PF2"), (2, "WB"), (3, "IV"), (5, "RS"), (9, "PML2"), (10, "DML2"), (11, "RML2"))
SCALES = ("", ".X4", ".X8", ".X16")
REDUCTIONS = Choice(at(87, 3), ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"))
OPERATIONS_FLOAT = Choice(at(87, 3), ("ADD", None, "MIN", None, "MAX"))
TYPE_FLOAT = Choice(at(73, 4), (
    "F16x2.RN", "F16x4.RN", "F16x8.RN", "BF16x2.RN", "BF16x4.RN", "BF16x8.RN", None, None, None, "F32.FTZ.RN",
    "F32x2.FTZ.RN", "F32x4.FTZ.RN", "F32.RN", "F32x2.RN", "F32x4.RN", "F64.RN",
))  # fmt: skip
CAS_KIND = Choice(at(87, 2), ("CAS", "CAST", "CAS", "CAST.SPIN"))
OPERATIONS = Choice(at(87, 4), ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", "SAFEADD"))


def _offset(word: int, low: int = 40, width: int = 24) -> int:
    return signed(word >> low & ((1 << width) - 1), width)


def _address(base: int, suffix: str, offset: int, uniform: Operand | None = None, always: bool = False) -> Operand:
    """``[base + uniform + offset]``; a base RZ is omitted if anything else is present (unless ``always``)."""
    left_out = base == RZ and not suffix.startswith(".X") and not always and (uniform is not None or offset != 0)
    register = None if left_out else Operand(Kind.REGISTER, base, suffix=suffix)
    return Operand(Kind.MEMORY, value=offset, base=register, uniform=uniform)


def plain_address(word: int, form: Form) -> tuple[Operand, ...]:
    """``[R2+0x10]``."""
    return (_address(word >> 24 & 255, "", _offset(word)),)


def wide_address(word: int, form: Form) -> tuple[Operand, ...]:
    """``[R2+0x10]`` with a 32-bit displacement."""
    return (_address(word >> 24 & 255, "", _offset(word, 32, 32)),)


def uniform_global(
    low: int, descriptor_bit: int | None, hidden: bool, wide_bit: int = 90, always: bool = False
) -> Custom:
    """A global address with a uniform register at bit ``low``.

    ``wide_bit`` distinguishes a 64-bit from a 32-bit register; ``descriptor_bit`` makes the uniform register a
    descriptor, which sm_80 to sm_89 print only when bit 101 is set (``hidden``).  ``always`` prints a base register RZ
    (sm_90).
    """

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        handle = Operand(Kind.UNIFORM_REGISTER, word >> low & 63)
        wide = word >> wide_bit & 1
        suffix = ".64" if wide else ".U32"
        base, offset = word >> 24 & 255, _offset(word)
        if descriptor_bit is not None and wide and word >> descriptor_bit & 1:
            shown = handle if not hidden or word >> 101 & 1 else None
            operand = Operand(Kind.REGISTER, base, suffix=suffix)
            return (Operand(Kind.MEMORY, value=offset, base=operand, descriptor=shown),)
        return (_address(base, suffix, offset, handle, always=always),)

    return Custom(read)


def shared_address(low: int | None, scaled: bool = True) -> Custom:
    """``[R2.X4+UR4+0x10]``: the uniform register is at bit ``low``, the scale at bits 78–79."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        base = word >> 24 & 255
        suffix = SCALES[word >> 78 & 3] if scaled and not (low is None and base == RZ) else ""
        handle = None if low is None else Operand(Kind.UNIFORM_REGISTER, word >> low & 63)
        # Without a register, the displacement is an (unsigned) address.
        offset = word >> 40 & 0xFFFFFF if low is None and base == RZ else _offset(word)
        return (_address(base, suffix, offset, handle),)

    return Custom(read)


def copy_source(hidden: bool) -> Custom:
    """The global address of LDGSTS: a displacement of 12 bits at bit 32."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        handle = Operand(Kind.UNIFORM_REGISTER, word >> 64 & 63)
        wide = word >> 70 & 1
        base, offset = word >> 24 & 255, _offset(word, 32, 12)
        suffix = ".64" if wide else ".U32"
        if wide and word >> 76 & 1:
            shown = handle if not hidden or word >> 101 & 1 else None
            return (
                Operand(Kind.MEMORY, value=offset, base=Operand(Kind.REGISTER, base, suffix=suffix), descriptor=shown),
            )
        return (_address(base, suffix, offset, handle, always=not hidden),)

    return Custom(read)


def copy_target(word: int, form: Form) -> tuple[Operand, ...]:
    """The shared address of LDGSTS: register at bit 16, displacement of 20 bits at bit 44."""
    return (_address(word >> 16 & 255, "", _offset(word, 44, 20)),)


def cluster_address(word: int, form: Form) -> tuple[Operand, ...]:
    """``[R2.64+UR4+0x10]`` of a store to another block's shared memory; URZ is omitted."""
    handle = word >> 64 & 63
    uniform = None if handle == URZ else Operand(Kind.UNIFORM_REGISTER, handle)
    base = Operand(Kind.REGISTER, word >> 24 & 255, suffix=".64" if word >> 90 & 1 else ".U32")
    return (Operand(Kind.MEMORY, value=_offset(word), base=base, uniform=uniform),)


def uniform_shared(low: int) -> Custom:
    """``[UR4+0x10]``: a shared address given by a uniform register only."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        handle = Operand(Kind.UNIFORM_REGISTER, word >> low & 63)
        return (Operand(Kind.MEMORY, value=_offset(word), uniform=handle),)

    return Custom(read)


def indexed_constant(word: int, form: Form) -> tuple[Operand, ...]:
    """``c[0x3][R2+0x10]`` of LDC; bit 91 makes the bank bindless."""
    base, offset = word >> 24 & 255, _offset(word, 38, 16)
    register = None if base == RZ and offset else Operand(Kind.REGISTER, base)
    if register is None:
        offset &= 0xFFFF
    if word >> 91 & 1:
        handle = Operand(Kind.UNIFORM_REGISTER, word >> 32 & 63)
        return (Operand(Kind.CONSTANT, 0, offset, base=register, uniform=handle),)
    return (Operand(Kind.CONSTANT, word >> 54 & 31, offset, base=register),)


def late_predicate(word: int, form: Form) -> tuple[Operand, ...]:
    """The condition after the address (bits 64–67, complemented: zero bits mean PT, which is not printed)."""
    bits = word >> 64 & 15
    if not bits:
        return ()
    return (Operand(Kind.PREDICATE, bits & 7 ^ 7, invert=bool(bits & 8)),)


COPY = (Fixed("E"), flag(81, "", "BYPASS"), EVICT, Choice(at(71, 2), ("", "LTC64B", "LTC128B", "LTC256B")),
        Choice(at(73, 3), (None, None, None, None, "", "64", "128")), flag(82, "ZFILL"), ORDER_COPY)  # fmt: skip
COPY_TARGET = Custom(copy_target)
COPY_CONDITION = Pred(87, 90, optional=True)
LATE = Custom(late_predicate)
PLAIN = Custom(plain_address)
NO_UR, WITH_UR = (at(91, 1), 0), (at(91, 1), 1)

# fmt: off
ROWS = (
    # global and generic loads
    Row("LDG", 0x381, (), LOAD_70, (P_OUT, D, PLAIN), last=72),
    Row("LDG", 0x381, (), LOAD_75, (P_OUT, D, PLAIN, LATE), first=75, last=75),
    Row("LDG", 0x981, (), LOAD_75, (P_OUT, D, uniform_global(32, None, False), LATE), (WITH_UR,), first=75, last=75),
    Row("LDG", 0x381, (), LOAD_80, (P_OUT, D, PLAIN, LATE), first=80),
    Row("LDG", 0x981, (), LOAD_80, (P_OUT, D, uniform_global(32, 76, True), LATE), (WITH_UR,), first=80, last=89),
    Row("LDG", 0x981, (), LOAD_80, (P_OUT, D, uniform_global(32, 76, False, always=True), LATE), (WITH_UR,), first=90),
    Row("LD", 0x980, (), LOAD_70, (D, Custom(wide_address)), (NO_UR,), last=72),
    Row("LD", 0x980, (), LOAD_75, (D, Custom(wide_address), LATE), (NO_UR,), first=75, last=75),
    Row("LD", 0x980, (), LOAD_75, (D, uniform_global(32, None, False), LATE), (WITH_UR,), first=75, last=75),
    Row("LD", 0x980, (), LOAD_80, (D, Custom(wide_address), LATE), (NO_UR,), first=80),
    Row("LD", 0x980, (), LOAD_80, (D, uniform_global(32, 76, True), LATE), (WITH_UR,), first=80, last=89),
    Row("LD", 0x980, (), LOAD_80, (D, uniform_global(32, 76, False, always=True), LATE), (WITH_UR,), first=90),

    # global and generic stores
    Row("STG", 0x386, (), STORE_70, (PLAIN, DATA), last=75),
    Row("STG", 0x986, (), STORE_70, (uniform_global(64, None, False), DATA), (WITH_UR,), first=75, last=75),
    Row("STG", 0x386, (), STORE_80, (PLAIN, DATA), first=80),
    Row("STG", 0x986, (), STORE_80, (uniform_global(64, 76, True), DATA), (WITH_UR,), first=80, last=89),
    Row("STG", 0x986, (), STORE_80, (uniform_global(64, 76, False, always=True), DATA), (WITH_UR,), first=90),
    Row("ST", 0x385, (), STORE_70, (Custom(wide_address), DATA_2), last=75),
    Row("ST", 0x385, (), STORE_80, (Custom(wide_address), DATA_2), first=80),
    Row("ST", 0x985, (), STORE_70, (uniform_global(64, None, False), DATA), (WITH_UR,), first=75, last=75),
    Row("ST", 0x985, (), STORE_80, (uniform_global(64, 76, True), DATA), (WITH_UR,), first=80, last=89),
    Row("ST", 0x985, (), STORE_80, (uniform_global(64, 76, False, always=True), DATA), (WITH_UR,), first=90),

    # atomics: destination, address, operand
    Row("ATOM", 0x38a, (), (E, OPERATIONS, EVICT, TYPE_70, *ORDERED_70), (P81, D, PLAIN, DATA), last=75),
    Row("ATOM", 0x98a, (), (E, OPERATIONS, EVICT, TYPE_70, *ORDERED_70), (P81, D, uniform_global(64, None, False, 70), DATA), first=75, last=75),
    Row("ATOM", 0x98a, (), (E, OPERATIONS, EVICT, TYPE_80, ORDER_STORE_80), (P81, D, uniform_global(64, 71, True, 70), DATA), first=80, last=89),
    Row("ATOM", 0x98a, (), (E, OPERATIONS, EVICT, TYPE_90, ORDER_STORE_80), (P81, D, uniform_global(64, 71, False, 70, always=True), DATA), first=90),
    Row("ATOM", 0x9a2, (), (E, OPERATIONS_FLOAT, EVICT, TYPE_FLOAT, ORDER_STORE_80), (P81, D, uniform_global(64, 71, False, 70, always=True), DATA), first=90),
    Row("ATOM", 0x38b, (), (E, CAS_KIND, EVICT, CAS_TYPE_70, *ORDERED_70), (P81, D, PLAIN, DATA, DATA_2), last=75),
    Row("ATOM", 0x38b, (), (E, CAS_KIND, EVICT, CAS_TYPE, ORDER_STORE_80), (P81, D, PLAIN, DATA, DATA_2), first=80),
    Row("ATOMG", 0x3a8, (), (E, OPERATIONS, EVICT, TYPE_70, *ORDERED_70), (P81, D, PLAIN, DATA), last=75),
    Row("ATOMG", 0x9a8, (), (E, OPERATIONS, EVICT, TYPE_70, *ORDERED_70), (P81, D, uniform_global(64, None, False, 70), DATA), first=75, last=75),
    Row("ATOMG", 0x9a8, (), (E, OPERATIONS, EVICT, TYPE_80, ORDER_STORE_80), (P81, D, uniform_global(64, 71, True, 70), DATA), first=80, last=89),
    Row("ATOMG", 0x9a8, (), (E, OPERATIONS, EVICT, TYPE_90, ORDER_STORE_80), (P81, D, uniform_global(64, 71, False, 70, always=True), DATA), first=90),
    Row("ATOMG", 0x9a3, (), (E, OPERATIONS_FLOAT, EVICT, TYPE_FLOAT, ORDER_STORE_80), (P81, D, uniform_global(64, 71, False, 70, always=True), DATA), first=90),
    Row("ATOMG", 0x3a9, (), (E, Fixed("CAS"), EVICT, CAS_TYPE_70, *ORDERED_70), (P81, D, PLAIN, DATA, DATA_2), last=75),
    Row("ATOMG", 0x3a9, (), (E, Fixed("CAS"), EVICT, CAS_TYPE, ORDER_STORE_80), (P81, D, PLAIN, DATA, DATA_2), first=80),
    Row("ATOM", 0x38a, (), (E, OPERATIONS, EVICT, TYPE_80, ORDER_STORE_80), (P81, D, PLAIN, DATA), first=80, last=89),
    Row("ATOM", 0x38a, (), (E, OPERATIONS, EVICT, TYPE_90, ORDER_STORE_80), (P81, D, PLAIN, DATA), first=90),
    Row("ATOMG", 0x3a8, (), (E, OPERATIONS, EVICT, TYPE_80, ORDER_STORE_80), (P81, D, PLAIN, DATA), first=80, last=89),
    Row("ATOMG", 0x3a8, (), (E, OPERATIONS, EVICT, TYPE_90, ORDER_STORE_80), (P81, D, PLAIN, DATA), first=90),
    Row("ATOM", 0xf8a, (), (E, Fixed("POPC.INC"), EVICT, Choice(at(73, 4), ("32",)), ORDER_STORE_80), (P81, D, uniform_global(64, 71, True, 70)),
        (WITH_UR, (at(87, 4), 10)), first=80, last=89),
    Row("ATOM", 0xf8a, (), (E, Fixed("ARRIVE"), EVICT, Choice(at(73, 4), (None, None, "64")), ORDER_STORE_80), (P81, D, uniform_global(64, 71, True, 70)),
        (WITH_UR, (at(87, 4), 9)), first=80, last=89),
    Row("RED", 0x98e, (), (E, REDUCTIONS, EVICT, TYPE_70, *ORDERED_70), (PLAIN, DATA), (NO_UR,), last=75),
    Row("RED", 0x98e, (), (E, REDUCTIONS, EVICT, TYPE_70, *ORDERED_70), (uniform_global(64, None, False), DATA), (WITH_UR,), first=75, last=75),
    Row("RED", 0x98e, (), (E, REDUCTIONS, EVICT, TYPE_80, ORDER_STORE_80), (PLAIN, DATA), (NO_UR,), first=80, last=89),
    Row("RED", 0x98e, (), (E, REDUCTIONS, EVICT, TYPE_80, ORDER_STORE_80), (uniform_global(64, 71, True), DATA), (WITH_UR,), first=80, last=89),
    Row("REDG", 0x98e, (), (E, REDUCTIONS, EVICT, TYPE_90, ORDER_STORE_80), (PLAIN, DATA), (NO_UR,), first=90),
    Row("REDG", 0x98e, (), (E, REDUCTIONS, EVICT, TYPE_90, ORDER_STORE_80), (uniform_global(64, 71, False, always=True), DATA), (WITH_UR,), first=90),
    Row("REDG", 0x9a6, (), (E, OPERATIONS_FLOAT, EVICT, TYPE_FLOAT, ORDER_STORE_80), (PLAIN, DATA), (NO_UR,), first=90),
    Row("REDG", 0x9a6, (), (E, OPERATIONS_FLOAT, EVICT, TYPE_FLOAT, ORDER_STORE_80), (uniform_global(64, 71, False, always=True), DATA), (WITH_UR,), first=90),
    Row("ATOMS", 0x38c, (), (OPERATIONS, SHARED_TYPE), (D, shared_address(None), DATA)),
    Row("ATOMS", 0x98c, (), (OPERATIONS, SHARED_TYPE), (D, shared_address(64), DATA), (WITH_UR,), first=75),
    Row("ATOMS", 0x38d, (), (Choice(at(87, 2), ("CAS", "CAST", "CAS", "CAST.SPIN")), SHARED_TYPE), (D, shared_address(None), DATA, DATA_2)),
    Row("ATOMS", 0xf8c, (), (Fixed("POPC.INC.32"),), (D, shared_address(64)), (WITH_UR, (at(87, 4), 10)), first=75, last=89),
    Row("ATOMS", 0xf8c, (), (Fixed("ARRIVE.64"),), (D, shared_address(64)), (WITH_UR, (at(87, 4), 9)), first=80, last=89),
    Row("ATOMS", 0xf8c, (), (Fixed("POPC.INC.32"),), (D, shared_address(64)), (WITH_UR, (at(87, 4), 11)), first=90),
    Row("ATOMS", 0xf8c, (), (Fixed("ARRIVE.64"),), (D, shared_address(64)), (WITH_UR, (at(87, 4), 10)), first=90),

    Row("QSPC", 0x3aa, (), (E, Choice(at(73, 2), ("G", "L", "S", "D"))), (P81, D, PLAIN)),
    Row("QSPC", 0x9aa, (), (E, Choice(at(73, 2), ("G", "L", "S", "D"))), (P81, D, uniform_global(32, None, False, always=True)), first=90),
    Row("QSPC", 0x9aa, (), (E, Choice(at(73, 2), ("G", "L", "S", "D"))), (P81, D, uniform_global(32, None, False)), first=75, last=89),

    # fences and cache control
    Row("MEMBAR", 0x992, (), (Choice(at(79, 2), ("SC", "ALL", "", "MMIO")), Choice(at(76, 3), ("CTA", "SM", "GPU", "SYS", None, "VC")))),
    Row("ERRBAR", 0x9ab),
    Row("CGAERRBAR", 0x5ab, first=90),
    *(Row("CCTL", 0x98f, (), (CACHE, Fixed(name)), (), ((at(87, 4), code),)) for code, name in CACHE_WHOLE),
    *(Row("CCTL", 0x98f, (), (E, CACHE, Fixed(name)), (Custom(wide_address),), ((at(87, 4), code), NO_UR)) for code, name in CACHE_LINE),

    # asynchronous copies from global to shared memory, and their barriers
    Row("LDGSTS", 0xfae, (), COPY, (COPY_TARGET, copy_source(True), COPY_CONDITION), (WITH_UR,), first=80, last=89),
    Row("LDGSTS", 0xfae, (), COPY, (COPY_TARGET, copy_source(False), COPY_CONDITION), (WITH_UR,), first=90),
    Row("LDGDEPBAR", 0x9af, first=80),
    Row("ARRIVES", 0x9b0, (), (Fixed("LDGSTSBAR.64"),), (shared_address(64, False),), (WITH_UR, (at(72, 4), 10)), first=80, last=89),
    Row("ARRIVES", 0x9b0, (), (Fixed("LDGSTSBAR.64"), Choice(at(70, 2), ("", "ARVCNT", "TRANSCNT"))), (shared_address(64, False),),
        (WITH_UR, (at(72, 4), 10)), first=90),
    Row("SYNCS", 0x9a7, (), (Fixed("ARRIVE.TRANS64"), flag(73, "TMASK"), flag(74, "RED"), flag(75, "OPTOUT"),
                             Choice(at(84, 3), ("", "A1T0", "A0T1", "A0TR", "A0TX", "ART0"))),
        (D, shared_address(64, False), DATA), (WITH_UR, (at(70, 2), 0)), first=90),
    Row("SYNCS", 0x5a7, (), (Fixed("PHASECHK.TRANS64"), flag(72, "TRYWAIT")), (P81, shared_address(64, False), DATA), (WITH_UR, (at(70, 2), 1)), first=90),
    Row("SYNCS", 0x5b2, (), (Fixed("EXCH.64"),), (Reg(16, uniform=True), uniform_shared(24), Reg(32, uniform=True)), (WITH_UR, (at(72, 2), 1)), first=90, uniform=True),
    Row("SYNCS", 0x9b1, (), (Fixed("CCTL"), flag(72, "WB", "IV")), (shared_address(64, False),), (WITH_UR, (at(73, 1), 0)), first=90),
    Row("SYNCS", 0x9b1, (), (Fixed("CCTL"), flag(72, "WBALL", "IVALL")), (), (NO_UR, (at(73, 1), 0)), first=90),
    Row("STAS", 0xdbd, (), (Choice(at(73, 3), (None, None, None, None, "", "64", "128")),), (Custom(cluster_address), DATA), (WITH_UR,), first=90),
    Row("FENCE", 0x3c6, (), (Fixed("VIEW.ASYNC"), flag(72, "G", "S")), first=90),

    # shared, local, constant
    Row("LDS", 0x984, (), (ANY_SIZE, SIZE), (D, shared_address(None)), (NO_UR,), last=75),
    Row("LDS", 0x984, (), (ANY_SIZE, SIZE), (D, shared_address(32)), (WITH_UR,), first=75, last=75),
    Row("LDS", 0x984, (), (SIZE,), (D, shared_address(None)), (NO_UR,), first=80),
    Row("LDS", 0x984, (), (SIZE,), (D, shared_address(32)), (WITH_UR,), first=80),
    Row("STSM", 0x844, (), (Fixed("16"), Choice(at(78, 2), ("M88", "MT88")), Choice(at(72, 2), ("", "2", "4"))), (shared_address(None, False), DATA),
        (NO_UR,), first=90),
    Row("STSM", 0x844, (), (Fixed("16"), Choice(at(78, 2), ("M88", "MT88")), Choice(at(72, 2), ("", "2", "4"))), (shared_address(64, False), DATA),
        (WITH_UR,), first=90),
    Row("STS", 0x388, (), (SIZE,), (shared_address(None), DATA)),
    Row("STS", 0x988, (), (SIZE,), (shared_address(64), DATA), (WITH_UR,), first=75),
    Row("LDL", 0x983, (), (EVICT, SIZE), (D, shared_address(None, False)), (NO_UR,)),
    Row("LDL", 0x983, (), (EVICT, SIZE), (D, shared_address(32, False)), (WITH_UR,), first=75),
    Row("STL", 0x387, (), (EVICT, SIZE), (shared_address(None, False), DATA)),
    Row("STL", 0x987, (), (EVICT, SIZE), (shared_address(64, False), DATA), (WITH_UR,), first=75),
    Row("LDC", 0xb82, (), (Choice(at(73, 3), ("U8", "S8", "U16", "S16", "", "64")), Choice(at(78, 2), ("", "IL", "IS", "ISL"))),
        (D, Custom(indexed_constant))),
)
# fmt: on
