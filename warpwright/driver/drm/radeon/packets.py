"""Words of command streams: packets of types 2 and 3, with the numbers of ``PM4`` as Mesa's ``r600`` driver writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from warpwright.errors import UnsupportedError

NOP, CLEAR_STATE, DEALLOCATE_STATE = 0x10, 0x12, 0x14
DISPATCH_DIRECT, DISPATCH_INDIRECT = 0x15, 0x16
MODE_CONTROL, SET_PREDICATION, CONTEXT_CONTROL, INDEX_TYPE, NUM_INSTANCES = 0x18, 0x20, 0x28, 0x2A, 0x2F
WAIT_REG_MEM, MEM_WRITE, COPY_DW = 0x3C, 0x3D, 0x3B
CP_DMA, PFP_SYNC_ME, SURFACE_SYNC = 0x41, 0x42, 0x43
EVENT_WRITE, EVENT_WRITE_EOP, EVENT_WRITE_EOS = 0x46, 0x47, 0x48
SET_CONFIG_REG, SET_CONTEXT_REG = 0x68, 0x69
SET_BOOL_CONST, SET_LOOP_CONST, SET_RESOURCE, SET_SAMPLER, SET_CTL_CONST = range(0x6B, 0x70)
SET_APPEND_COUNT = 0x75
DRAWS = {
    0x24: "DRAW_INDIRECT",
    0x25: "DRAW_INDEX_INDIRECT",
    0x27: "DRAW_INDEX_2",
    0x2B: "DRAW_INDEX",
    0x2D: "DRAW_INDEX_AUTO",
    0x2E: "DRAW_INDEX_IMMD",
}
WITHOUT_EFFECT = frozenset(
    (
        *(NOP, CLEAR_STATE, DEALLOCATE_STATE, MODE_CONTROL, CONTEXT_CONTROL, INDEX_TYPE, NUM_INSTANCES, WAIT_REG_MEM),
        *(PFP_SYNC_ME, SURFACE_SYNC, SET_BOOL_CONST, SET_CTL_CONST, SET_PREDICATION),
    )
)
"""Packets that order work, which here ends before the next packet begins, or that only draws use."""
FIRST_REGISTERS = {SET_CONFIG_REG: 0x8000, SET_CONTEXT_REG: 0x28000}
"""Byte addresses of the registers that a packet's offset counts from."""
REGISTER_BYTES = 4
RESOURCE_WORDS, SAMPLER_WORDS = 8, 3


class Packet(NamedTuple):
    """An operation with its words."""

    operation: int
    words: Sequence[int]


def packets(words: Sequence[int]) -> Iterator[Packet]:
    """The packets of type 3 of a stream.

    Raises:
        UnsupportedError: for a packet of another type, or one that is cut off.
    """
    at = 0
    while at < len(words):
        header = words[at]
        kind, count = header >> 30, (header >> 16 & 0x3FFF) + 1
        at += 1
        if kind == 2:
            continue
        if kind != 3 or at + count > len(words):
            raise UnsupportedError(f"command stream: word {at - 1}, {header:#010x}, begins no packet")
        yield Packet(header >> 8 & 0xFF, words[at : at + count])
        at += count
