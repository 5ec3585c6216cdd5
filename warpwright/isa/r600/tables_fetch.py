"""Fetch words: vertex fetches (loads from buffers), texture fetches, memory reads and global data share."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from warpwright.isa.r600.layouts import CAYMAN, EVERGREEN


class FetchKind(Enum):
    """The layout of a fetch word."""

    VERTEX = "vertex"
    SEMANTIC = "semantic vertex"
    TEXTURE = "texture"
    MEMORY = "memory"
    GLOBAL_SHARE = "global data share"


class FetchOperation(NamedTuple):
    """A row of the tables."""

    opcode: int
    """``inst`` of a vertex or texture fetch, with ``inst_mod`` from bit 8 on; ``mem_op`` of a read; ``gds_op``."""
    name: str
    kind: FetchKind
    generations: tuple[str, ...] = (EVERGREEN, CAYMAN)


BUFFER_INFO = 0x0E
"""``inst`` of GET_BUFFER_RESINFO, which has the layout of a vertex fetch."""
VERTEX_OPERATIONS: dict[int, FetchOperation] = {
    0x00: FetchOperation(0x00, "VFETCH", FetchKind.VERTEX),
    0x01: FetchOperation(0x01, "SEMFETCH", FetchKind.SEMANTIC),
    BUFFER_INFO: FetchOperation(BUFFER_INFO, "GET_BUFFER_RESINFO", FetchKind.VERTEX),
}

MEMORY_INSTRUCTION = 0x02
"""``inst`` of the words that ``mem_op`` distinguishes."""
MEMORY_OPERATIONS: dict[int, FetchOperation] = {
    0: FetchOperation(0, "READ_SCRATCH", FetchKind.MEMORY),
    2: FetchOperation(2, "READ_MEM", FetchKind.MEMORY),
}
GLOBAL_SHARE_MEMORY, TESSELLATION_WRITE = 4, 5
"""``mem_op`` of accesses to global data share and of TF_WRITE, which has their layout."""
TF_WRITE = FetchOperation(0, "TF_WRITE", FetchKind.GLOBAL_SHARE)


def _texture(opcode: int, name: str, generations: tuple[str, ...] = (EVERGREEN, CAYMAN)) -> tuple[int, FetchOperation]:
    return opcode, FetchOperation(opcode, name, FetchKind.TEXTURE, generations)


TEXTURE_OPERATIONS: dict[int, FetchOperation] = dict(
    (
        _texture(0x003, "LD"),
        _texture(0x103, "LDFPTR"),
        _texture(0x004, "GET_TEXTURE_RESINFO"),
        _texture(0x005, "GET_NUMBER_OF_SAMPLES"),
        _texture(0x006, "GET_LOD"),
        _texture(0x007, "GET_GRADIENTS_H"),
        _texture(0x107, "GET_GRADIENTS_H_FINE"),
        _texture(0x008, "GET_GRADIENTS_V"),
        _texture(0x108, "GET_GRADIENTS_V_FINE"),
        _texture(0x009, "SET_TEXTURE_OFFSETS"),
        _texture(0x00A, "KEEP_GRADIENTS"),
        _texture(0x00B, "SET_GRADIENTS_H"),
        _texture(0x10B, "SET_GRADIENTS_H_COARSE", (CAYMAN,)),
        _texture(0x20B, "SET_GRADIENTS_H_PACKED_FINE", (CAYMAN,)),
        _texture(0x30B, "SET_GRADIENTS_H_PACKED_COARSE", (CAYMAN,)),
        _texture(0x00C, "SET_GRADIENTS_V"),
        _texture(0x10C, "SET_GRADIENTS_V_COARSE", (CAYMAN,)),
        _texture(0x20C, "SET_GRADIENTS_V_PACKED_FINE", (CAYMAN,)),
        _texture(0x30C, "SET_GRADIENTS_V_PACKED_COARSE", (CAYMAN,)),
        _texture(0x00D, "PASS"),
        _texture(0x10D, "PASS1"),
        _texture(0x20D, "PASS2"),
        _texture(0x30D, "PASS3"),
        _texture(0x010, "SAMPLE"),
        _texture(0x011, "SAMPLE_L"),
        _texture(0x012, "SAMPLE_LB"),
        _texture(0x013, "SAMPLE_LZ"),
        _texture(0x014, "SAMPLE_G"),
        _texture(0x015, "GATHER4"),
        _texture(0x016, "SAMPLE_G_LB"),
        _texture(0x017, "GATHER4_O"),
        _texture(0x018, "SAMPLE_C"),
        _texture(0x019, "SAMPLE_C_L"),
        _texture(0x01A, "SAMPLE_C_LB"),
        _texture(0x01B, "SAMPLE_C_LZ"),
        _texture(0x01C, "SAMPLE_C_G"),
        _texture(0x01D, "GATHER4_C"),
        _texture(0x01E, "SAMPLE_C_G_LB"),
        _texture(0x01F, "GATHER4_C_O"),
    )
)
GATHERS = frozenset({0x15, 0x17, 0x1D, 0x1F})
"""Texture fetches whose ``inst_mod`` selects the gathered component."""

_GLOBAL_SHARE_NAMES = {
    0x00: "ADD SUB RSUB INC DEC MIN_INT MAX_INT MIN_UINT MAX_UINT AND OR XOR MSKOR WRITE WRITE_REL WRITE2 CMP_STORE"
    " CMP_STORE_SPF BYTE_WRITE SHORT_WRITE",
    0x20: "ADD_RET SUB_RET RSUB_RET INC_RET DEC_RET MIN_INT_RET MAX_INT_RET MIN_UINT_RET MAX_UINT_RET AND_RET OR_RET"
    " XOR_RET MSKOR_RET XCHG_RET XCHG_REL_RET XCHG2_RET CMP_XCHG_RET CMP_XCHG_SPF_RET READ_RET READ_REL_RET READ2_RET"
    " READWRITE_RET BYTE_READ_RET UBYTE_READ_RET SHORT_READ_RET USHORT_READ_RET",
    0x3F: "ATOMIC_ORDERED_ALLOC",
}
GLOBAL_SHARE_OPERATIONS: dict[int, FetchOperation] = {
    first + i: FetchOperation(first + i, f"GDS_{name}", FetchKind.GLOBAL_SHARE)
    for first, names in _GLOBAL_SHARE_NAMES.items()
    for i, name in enumerate(names.split())
}

BITS_OF_FORMAT: dict[int, tuple[int, int]] = {1: (8, 1), 5: (16, 1), 0x0D: (32, 1), 0x1D: (64, 2), 0x22: (128, 4)}
"""Bits per element and number of components of the data formats that plain loads use."""
