"""Executes command streams of the copy engine: copies between buffers and fills."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warpwright.driver.drm.radeon.buffer_objects import Buffers
from warpwright.errors import UnsupportedError

COPY, FENCE, TRAP, FILL, NOP = 3, 6, 7, 0xD, 0xF
WORDS, BYTES = 0x00, 0x40
"""Ways to copy: ``sub_cmd`` of COPY."""


def execute(buffers: Buffers, words: Sequence[int]) -> None:
    """Execute a stream.

    Raises:
        UnsupportedError: for a packet that has no meaning here; the rest of the stream is dropped.
        MemoryFaultError: an address is in no buffer.
    """
    at = 0
    while at < len(words):
        header = words[at]
        command, how, count = header >> 28, header >> 20 & 0xFF, header & 0xFFFFF
        if command == COPY and how in (WORDS, BYTES):
            to_low, low, to_high, high = words[at + 1 : at + 5]
            size = count * (4 if how == WORDS else 1)
            source = buffers.view(low | (high & 0xFF) << 32, size, "DMA copy").copy()
            buffers.view(to_low | (to_high & 0xFF) << 32, size, "DMA copy")[:] = source
            at += 5
        elif command == FILL:
            low, value, high = words[at + 1 : at + 4]
            into = buffers.view(low | (high >> 16 & 0xFF) << 32, 4 * count, "DMA fill")
            into.view(np.uint32)[:] = value
            at += 4
        elif command in (NOP, TRAP):
            at += 1
        elif command == FENCE:
            at += 4
        else:
            raise UnsupportedError(
                f"DMA ring: packet {header:#010x} has no meaning here (tiled textures are not modelled)"
            )
