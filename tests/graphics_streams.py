"""Command streams of tests, as a driver would write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpwright.graphics import methods_2d, methods_3d, methods_m2mf
from warpwright.graphics.device import GraphicsDevice

THREE_D, TWO_D, COPIES = 3, 4, 5
HANDLES = {THREE_D: 0xBEEF8297, TWO_D: 0xBEEF502D, COPIES: 0xBEEF5039}
OFFSETS = {THREE_D: methods_3d.TABLE, TWO_D: methods_2d.TABLE, COPIES: methods_m2mf.TABLE}


class Stream:
    """Writes commands into a buffer of a device and submits them."""

    def __init__(self) -> None:
        self.device = GraphicsDevice(16 << 20, 8, 2)
        self.words: list[int] = []
        for subchannel, handle in HANDLES.items():
            self.device.add_object(handle, handle & 0xFFFF)
            self.words += [1 << 18 | subchannel << 13, handle]

    def put(self, subchannel: int, name: str, *values: int, index: int = 0) -> None:
        table = OFFSETS[subchannel]
        method = table.offsets[name] + table.strides[name] * index
        self.words += [len(values) << 18 | subchannel << 13 | method, *(v & 0xFFFFFFFF for v in values)]

    def submit(self) -> None:
        memory = self.device.memory
        buffer = memory.allocate(4 * len(self.words), 4096, local=False)
        memory.words(buffer.address, len(self.words), "a test")[:] = self.words
        size, self.words = 4 * len(self.words), []
        try:
            self.device.submit([(buffer.address, size)])
        finally:
            memory.free(buffer)

    def submit_mapped(self) -> None:
        """As :meth:`submit`, from a buffer that the host has mapped, as a driver's is."""
        memory = self.device.memory
        buffer = memory.allocate(4 * len(self.words), 4096, local=False)
        self.device.host_writes(buffer)
        memory.words(buffer.address, len(self.words), "a test")[:] = self.words
        size, self.words = 4 * len(self.words), []
        self.device.submit([(buffer.address, size)])
        self.device.free(buffer)

    def copy(self, source: int, target: int, length: int, rows: int, pitch: int) -> None:
        """A copy from rows of a pitch into rows without gaps."""
        self.put(COPIES, "LINEAR_IN", 1)
        self.put(COPIES, "LINEAR_OUT", 1)
        self.put(COPIES, "PITCH_IN", pitch, length)
        self.put(COPIES, "OFFSET_IN_HIGH", source >> 32, target >> 32)
        self.put(COPIES, "OFFSET_IN", source, target)
        self.put(COPIES, "LINE_LENGTH_IN", length, rows, 0x101, 0)


def crossing_triangles() -> tuple[Any, Any]:
    """Positions (n, 4), with w from 1 to 3, and colours (n, 4) of triangles that cut each other and are half transparent."""
    rng = np.random.default_rng(21)
    w = rng.uniform(1, 3, (180, 1))
    place = np.concatenate(
        [rng.uniform(-1.1, 1.1, (180, 2)), rng.uniform(-0.9, 0.9, (180, 1)), np.ones((180, 1))], axis=1
    )
    colours = np.concatenate([rng.uniform(0, 1, (180, 3)), rng.uniform(0.3, 0.9, (180, 1))], axis=1)
    return (place * w).astype(np.float32), colours.astype(np.float32)
