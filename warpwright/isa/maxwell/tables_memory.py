"""Rows of loads, stores, atomics, constants and caches.

Facts: as in :mod:`tables_integer`.
"""

from __future__ import annotations

from warpwright.isa.maxwell.fields import (
    Address,
    Choice,
    Custom,
    Derived,
    Fixed,
    Pred,
    Reg,
    Row,
    UndefinedField,
    at,
    flag,
    signed,
    single,
)
from warpwright.isa.maxwell.tables_integer import D
from warpwright.isa.program import RZ, Kind, Operand
from warpwright.isa.sass.fields import Form

SIZE_48 = Choice(at(48, 3), ("U8", "S8", "U16", "S16", "", "64", "128", "U.128"))
SIZE_LOCAL = Choice(at(48, 3), ("U8", "S8", "U16", "S16", "", "64", "128"))
SIZE_53 = Choice(at(53, 3), ("U8", "S8", "U16", "S16", "", "64", "128", "U.128"))
SIZE_53_STORE = Choice(at(53, 3), ("U8", "S8", "U16", "S16", "", "64", "128"))
NEAR = Address(at(20, 24))
OPERATIONS = ("ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH", None, "SAFEADD")
ATOMIC_TYPES = ("", "S32", "U64", "F32.FTZ.RN", "F16x2.RN", "S64", "F64.RN")
ATOM_TYPE = Choice(at(49, 3), ATOMIC_TYPES)


def shared_size(word: int, form: Form) -> str:
    """LDS prints ``.U.32`` for a flag that the other sizes print as ``.U`` (apparently: uncached)."""
    size = word >> 48 & 7
    name = ("U8", "S8", "U16", "S16", "", "64", "128")
    if size == 7:
        raise_undefined("size 7 of a shared access")
    if word >> 44 & 1:
        return "U." + (name[size] or "32")
    return name[size]


def raise_undefined(what: str) -> None:
    raise UndefinedField(f"{what} is undefined")


def cas_pair(wide: int) -> Custom:
    """Comparand and value of CAS, in consecutive registers, either of which may be RZ."""

    def read(word: int, form: Form) -> tuple[Operand, ...]:
        first = word >> 20 & 255
        which = word >> 50 & 3
        step = 2 if word >> wide & 1 else 1
        zero = Operand(Kind.REGISTER, RZ)
        here = Operand(Kind.REGISTER, first)
        after = zero if first == RZ else Operand(Kind.REGISTER, (first + step) & 255)
        if which == 3:
            raise_undefined("source selection 3 of a compare-and-swap")
        return ((here, after), (here, zero), (zero, here))[which]

    return Custom(read)


def shared_cas(word: int, form: Form) -> tuple[Operand, ...]:
    first = word >> 20 & 255
    which = word >> 28 & 3
    if which == 3:
        raise_undefined("source selection 3 of a compare-and-swap")
    step = 2 if word >> 52 & 1 else 1
    zero, here = Operand(Kind.REGISTER, RZ), Operand(Kind.REGISTER, first)
    after = zero if first == RZ else Operand(Kind.REGISTER, (first + step) & 255)
    return ((here, after), (here, zero), (zero, here))[which]


def constant(word: int, form: Form) -> tuple[Operand, ...]:
    """``c[bank][R + offset]``."""
    offset = signed(word >> 20 & 0xFFFF, 16)
    index = word >> 8 & 255
    base = None if index == RZ else Operand(Kind.REGISTER, index)
    return (Operand(Kind.CONSTANT, word >> 36 & 31, offset, base=base),)


CACHE_LOAD = Choice(at(46, 2), ("", "CG", "CI", "CV"))
CACHE_STORE = Choice(at(46, 2), ("", "CG", "CS", "WT"))

# fmt: off
ROWS = (
    Row("LDG", single(0xeed0, 13), (flag(45, "E"), CACHE_LOAD, SIZE_48), (D, NEAR)),
    Row("STG", single(0xeed8, 13), (flag(45, "E"), CACHE_STORE, SIZE_LOCAL), (NEAR, D)),
    Row("LD", single(0x8000, 3), (flag(52, "E"), Choice(at(56, 2), ("", "CG", "CI", "CV")), SIZE_53), (D, Address(at(20, 32)), Pred(58, optional=True))),
    Row("ST", single(0xa000, 3), (flag(52, "E"), Choice(at(56, 2), ("", "CG", "CS", "WT")), SIZE_53_STORE), (Address(at(20, 32)), D, Pred(58, optional=True))),
    Row("LDL", single(0xef40, 13), (Choice(at(44, 2), ("", "LU", "CI", "CV")), SIZE_LOCAL), (D, NEAR)),
    Row("STL", single(0xef50, 13), (Choice(at(44, 2), ("", "CG", "CS", "WT")), SIZE_LOCAL), (NEAR, D)),
    Row("LDS", single(0xef48, 13), (Derived(shared_size),), (D, NEAR)),
    Row("STS", single(0xef58, 13), (SIZE_LOCAL,), (NEAR, D)),
    Row("LDC", single(0xef90, 13), (Choice(at(48, 3), ("U8", "S8", "U16", "S16", "", "64")), Choice(at(44, 2), ("", "IL", "IS", "ISL"))), (D, Custom(constant))),

    Row("ATOM", single(0xed00, 8), (flag(48, "E"), Choice(at(52, 4), OPERATIONS), ATOM_TYPE), (D, Address(at(28, 20)), Reg(20))),
    Row("ATOM", single(0xeef0, 12), (flag(48, "E"), Fixed("CAS"), flag(49, "64")), (D, Address(at(28, 20)), cas_pair(49))),
    Row("RED", single(0xebf8, 13), (flag(48, "E"), Choice(at(23, 3), OPERATIONS[:8]), Choice(at(20, 3), ATOMIC_TYPES)), (Address(at(28, 20)), D)),
    Row("ATOMS", single(0xec00, 8), (Choice(at(52, 4), OPERATIONS[:9]), Choice(at(28, 2), ("", "S32", "U64", "S64"))), (D, Address(at(30, 22), 4), Reg(20))),
    Row("ATOMS", single(0xee00, 10), (Choice(at(53, 1), ("CAST", "CAST.SPIN")), flag(52, "64")), (D, Address(at(30, 22), 4), Custom(shared_cas)), ((at(55, 1), 0),)),
    Row("ATOMS", single(0xee40, 11), (Fixed("CAS"), flag(52, "64")), (D, Address(at(30, 22), 4), Custom(shared_cas))),

    Row("CCTL", single(0xef60, 11), (flag(52, "E"), Choice(at(4, 3), ("", "U", "C", "I", "CRS")), Choice(at(0, 4), ("QRY1", "PF1", "PF1.5", "PF2", "WB", "IV", "IVALL", "RS", None, "RSLB"))), (Address(at(22, 30), 4),)),
    Row("MEMBAR", single(0xef98, 13), (Choice(at(8, 2), ("CTA", "GL", "SYS", "VC")), Choice(at(0, 2), ("", "IVALLD", "IVALLT", "IVALLTD")))),
)
# fmt: on
