"""Stream output: writes the mapped attributes of each primitive's vertices to buffers in order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.video_memory import VideoMemory

_BUFFER_COUNT = 4
_INTERLEAVED, _USED = 1, 0x80


class StreamOutput:
    """The fill level of the buffers; STRMOUT_PARAMS_LATCH resets it."""

    def __init__(self, memory: VideoMemory) -> None:
        self._memory = memory
        self._written = 0
        """Capacity of the buffers in vertices."""
        self._primitives = 0

    def latch(self, engine: RegisterEngine) -> None:
        """Start at the buffers' addresses."""
        self._written = self._primitives = 0

    def write(self, engine: RegisterEngine, attributes: npt.NDArray[np.uint32], vertices: npt.NDArray[np.int64]) -> int:
        """Append primitives, given as rows of attributes; returns the number that fit.

        Raises:
            MemoryFaultError: a buffer is not in memory.
        """
        room = max(0, engine["STRMOUT_PRIMITIVE_LIMIT"] - self._primitives)
        rows = attributes[vertices[:room].reshape(-1)]
        count = len(rows)
        sources: dict[int, int] = {}
        for slot in range(attributes.shape[1]):
            entry = engine.at("STRMOUT_MAP", slot >> 2) >> 8 * (slot & 3) & 0xFF
            if entry & _USED:
                sources[entry & 0x7F] = slot
        control = engine["STRMOUT_BUFFERS_CTRL"]
        buffers = 1 if control & _INTERLEAVED else control >> 4 & 15
        base = 0
        for number in range(min(buffers, _BUFFER_COUNT)):
            columns = engine.at("STRMOUT_NUM_ATTRIBS", number)
            stride = control >> 8 & 0xFFF if control & _INTERLEAVED else 4 * columns
            at = engine.address("STRMOUT_ADDRESS_HIGH", number) + self._written * stride
            if count and stride:
                size = (count - 1) * stride + 4 * columns
                view = self._memory.view(at, size, f"stream output {number}")
                for i in range(columns):
                    if base + i in sources:
                        words = np.lib.stride_tricks.as_strided(
                            view[4 * i :][:4], shape=(count, 4), strides=(stride, 1), writeable=True
                        )
                        words[:] = np.ascontiguousarray(rows[:, sources[base + i]]).view(np.uint8).reshape(count, 4)
            base = base + columns + 3 & ~3
        self._written += count
        done = min(room, len(vertices))
        self._primitives += done
        return done
