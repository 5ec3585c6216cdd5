"""Meanings of accesses to global data share: memory of the whole chip, addressed by bytes, with atomics in its banks."""

from __future__ import annotations

from warpwright.isa.ops import Access, Value
from warpwright.isa.r600.meaning import R600Emitter, register_name
from warpwright.isa.r600.meaning_memory import LDS_ATOMICS, ONE_SELECT, ZERO_SELECT, put_selected
from warpwright.isa.sass.meaning import UnsupportedInstruction

SHARE_BYTES = 64 << 10
COUNTERS = 12
"""Append counters of Cypress, each a word that a fetch selects by number; stored after the share."""
ALL_BYTES = SHARE_BYTES + 4 * COUNTERS
WORD_ADDRESSES = SHARE_BYTES - 4
"""Mask of the significant address bits."""


def global_data_share(b: R600Emitter, base: int) -> None:
    """An access to the share that begins at a device address.

    Raises:
        UnsupportedInstruction: naming an operation without a meaning here.
    """
    word = b.item.fetch
    assert word is not None
    f, name = word.fields, word.operation.name
    if not base:
        raise UnsupportedInstruction(f"{name}: the program was loaded without global data share")
    sources = [_selected(b, f["src_gpr"], f[f"src_sel_{c}"]) for c in "xyz"]
    if f["alloc_consume"]:
        if f["uav_index_mode"]:
            raise UnsupportedInstruction(f"{name} of an append counter that an index names has no meaning here")
        at = b.const(base + SHARE_BYTES + 4 * f["uav_id"], "i64")
    else:
        at = _address(b, base, sources[0])
    if name == "GDS_WRITE":
        b.op("store", "void", at, sources[1], attr=Access("global", 4))
        return
    if name == "GDS_READ_RET":
        found = b.op("load", "i32", at, attr=Access("global", 4))
    else:
        found = _atomic(b, name, at, sources[1:])
    if name.endswith("_RET"):
        put_selected(b, f, [found])


def _selected(b: R600Emitter, register: int, select: int) -> Value:
    """A channel of a register, or the constant zero or one."""
    if select in (ZERO_SELECT, ONE_SELECT):
        return b.number(select - ZERO_SELECT)
    return b.get(register_name(register, "xyzw"[select & 3]))


def _address(b: R600Emitter, base: int, offset: Value) -> Value:
    inside = b.zext(b.and_(offset, b.number(WORD_ADDRESSES)), "i64")
    return b.add(inside, b.const(base, "i64"))


def _atomic(b: R600Emitter, name: str, at: Value, data: list[Value]) -> Value:
    stem = name.removeprefix("GDS_").removesuffix("_RET")
    operation = LDS_ATOMICS.get(stem)
    operands = data[:1]
    if stem == "SUB":
        operation, operands = "add", [b.sub(b.number(0), data[0])]
    if operation is None:
        raise UnsupportedInstruction(f"{name} has no meaning here")
    if operation == "cas":
        # The expected value comes first.
        operands = [data[1], data[0]]
    return b.op("atomic", "i32", at, *operands, attr=Access("global", 4, operation=operation))
