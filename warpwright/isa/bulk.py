"""Bulk copies (cp.async.bulk, PTX ISA 9.7.9.25.4; UBLKCP, UTMALDG and related): the operation that both front ends produce.

Each copy is one operation, ``bulk``, with sixteen words per lane at the positions named below.  In the functional
engines copies complete at once and signal the mbarrier; in simulated time they signal it when the bytes have arrived.
"""

from __future__ import annotations

from typing import NamedTuple

WORDS = 16
(
    SHARED,  # shared address: the destination, or the source of a copy to global memory
    BARRIER,  # shared address of the mbarrier
    GLOBAL,  # generic address (two words) of the bytes or of the tensor map
    _GLOBAL_HIGH,
    BYTES,
    RANKS,  # multicast: mask of the blocks that receive a copy
    FIRST_COORDINATE,  # five of them
    *_COORDINATES,
    FIRST_OFFSET,  # im2col offsets, three of them
    _SECOND_OFFSET,
    _THIRD_OFFSET,
    SOURCE,  # shared address that a copy within the cluster reads from
    _SPARE,
) = range(WORDS)

DIRECTIONS = ("load", "store", "within", "prefetch")
"""Global to shared memory, shared to global memory, shared memory to another block's shared memory, prefetch into
L2."""
OPERATIONS = ("", "add", "min", "max", "inc", "dec", "and", "or", "xor")
TYPES = ("u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16")


class Bulk(NamedTuple):
    """Attribute of the operation ``bulk``."""

    direction: str
    operation: str = ""
    """Reduction operation; empty for copies."""
    type: str = "u32"
    """Element type of a reduction; a tensor's element type is in its tensor map."""
    rank: int = 0
    """Number of dimensions of the tensor; 0 for copies of plain bytes."""
    im2col: bool = False
    multicast: bool = False
    once: bool = False
    """True if only the lowest executing lane copies (machine code: the uniform datapath), false if every executing lane
    does."""

    @property
    def number(self) -> int:
        """The attribute encoded as one number, for compiled code; ``of`` decodes it."""
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
        """Decode what ``number`` returned."""
        return Bulk(
            DIRECTIONS[number & 3],
            OPERATIONS[number >> 2 & 15],
            TYPES[number >> 6 & 15],
            number >> 10 & 7,
            *(bool(number >> n & 1) for n in (13, 14, 15)),
        )
