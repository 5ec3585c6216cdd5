"""Bulk copies (cp.async.bulk, PTX ISA 9.7.9.25.4; UBLKCP, UTMALDG and related): the operation that both front ends produce.

Each is one operation, ``bulk``, of sixteen words per lane at the places named below.  Copies are complete at once in the
functional engines, which then tell the mbarrier; in simulated time they tell it when the bytes have arrived.
"""

from __future__ import annotations

from typing import NamedTuple

WORDS = 16
(
    SHARED,  # shared address: what is written, or read where the copy goes to global memory
    BARRIER,  # shared address of the mbarrier
    GLOBAL,  # generic address, two words: of the bytes, or of the tensor map
    _GLOBAL_HIGH,
    BYTES,
    RANKS,  # multicast: mask of the blocks that get a copy
    FIRST_COORDINATE,  # five
    *_COORDINATES,
    FIRST_OFFSET,  # of im2col, three
    _SECOND_OFFSET,
    _THIRD_OFFSET,
    SOURCE,  # shared address that a copy within the cluster reads
    _SPARE,
) = range(WORDS)

DIRECTIONS = ("load", "store", "within", "prefetch")
"""From global to shared memory, back, from shared memory to another block's, and into L2 alone."""
OPERATIONS = ("", "add", "min", "max", "inc", "dec", "and", "or", "xor")
TYPES = ("u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16")


class Bulk(NamedTuple):
    """Attribute of the operation ``bulk``."""

    direction: str
    operation: str = ""
    """Of a reduction; empty for copies."""
    type: str = "u32"
    """Of a reduction's elements; those of tensors are the tensor map's."""
    rank: int = 0
    """Dimensions of the tensor; 0 for copies of bytes."""
    im2col: bool = False
    multicast: bool = False
    once: bool = False
    """For the lowest executing lane only (machine code: the uniform datapath); else for each executing lane."""

    @property
    def number(self) -> int:
        """The same as one number, for compiled code; ``of`` gives it back."""
        fields = (
            (DIRECTIONS.index(self.direction), 2),
            (OPERATIONS.index(self.operation), 4),
            (TYPES.index(self.type), 4),
            (self.rank, 3),
            (int(self.im2col), 1),
            (int(self.multicast), 1),
            (int(self.once), 1),
        )
        total = shift = 0
        for value, width in fields:
            total |= value << shift
            shift += width
        return total

    @staticmethod
    def of(number: int) -> Bulk:
        """What ``number`` made."""
        return Bulk(
            DIRECTIONS[number & 3],
            OPERATIONS[number >> 2 & 15],
            TYPES[number >> 6 & 15],
            number >> 10 & 7,
            *(bool(number >> n & 1) for n in (13, 14, 15)),
        )
