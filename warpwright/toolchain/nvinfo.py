"""The attributes of a cubin's ``.nv.info`` sections (EIATTR records).

A record is two bytes (format, attribute) and then, by format: nothing (1), a byte or half-word value (2, 3), or
a 16-bit size and that many bytes (4).  Attribute numbers are those of NVIDIA's own printer (``cuobjdump -elf``), against which this reader was checked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from warpwright.toolchain.compile_errors import CubinError


class Attribute(IntEnum):
    """The attributes that a launch or the decoder needs."""

    MAX_THREADS = 0x05
    PARAM_CBANK = 0x0A
    EXTERNS = 0x0F
    REQNTID = 0x10
    FRAME_SIZE = 0x11
    MIN_STACK_SIZE = 0x12
    KPARAM_INFO = 0x17
    CBANK_PARAM_SIZE = 0x19
    MAXREG_COUNT = 0x1B
    EXIT_INSTR_OFFSETS = 0x1C
    CRS_STACK_SIZE = 0x1E
    MAX_STACK_SIZE = 0x23
    COOP_GROUP_INSTR_OFFSETS = 0x28
    COOP_GROUP_MASK_REGIDS = 0x29
    REGCOUNT = 0x2F
    INT_WARP_WIDE_INSTR_OFFSETS = 0x31
    INDIRECT_BRANCH_TARGETS = 0x34
    NUM_MBARRIERS = 0x38
    CTA_PER_CLUSTER = 0x3D
    EXPLICIT_CLUSTER = 0x3E
    MAX_CLUSTER_RANK = 0x3F
    RESERVED_SMEM_USED = 0x41
    RESERVED_SMEM_0_SIZE = 0x42
    KPARAM_INFO_V2 = 0x45
    NUM_BARRIERS = 0x4C


_NO_VALUE, _BYTE, _HALF, _SIZED = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Record:
    """One attribute: ``value`` of a byte or half-word record, ``data`` of a sized one."""

    attribute: int
    value: int
    data: bytes

    def words(self) -> tuple[int, ...]:
        """The data as 32-bit unsigned words, without the bytes after the last whole word."""
        count = len(self.data) // 4
        return struct.unpack_from(f"<{count}I", self.data)


def read_records(data: bytes, where: str) -> Iterator[Record]:
    """Every record of one ``.nv.info`` section; errors name ``where`` (file and section)."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if at + value > len(data):
                raise CubinError(f"{where} is damaged: attribute {attribute:#x} at byte {at - 4} runs past the end.")
            yield Record(attribute, 0, data[at : at + value])
            at += value
        elif form in (_NO_VALUE, _BYTE, _HALF):
            yield Record(attribute, value & 0xFF if form == _BYTE else value, b"")
        else:
            raise CubinError(f"{where} is damaged: unknown format {form} at byte {at - 4}.")


def indirect_branches(record: Record) -> list[tuple[int, tuple[int, ...]]]:
    """Pairs (branch offset, target offsets) of an ``INDIRECT_BRANCH_TARGETS`` record, in bytes."""
    words = record.words()
    found = []
    at = 0
    # Each entry: offset of the branch, two reserved half-words and a word, count, then the targets.
    while at + 3 <= len(words):
        branch, count = words[at], words[at + 2]
        found.append((branch, words[at + 3 : at + 3 + count]))
        at += 3 + count
    return found
