"""The memory-to-memory engine (class 0x5039): copies of rectangles of bytes between linear and tiled images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpwright.graphics import methods_m2mf
from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.pushbuffer import Words
from warpwright.graphics.surface_layout import Place, copy_rectangle, linear, tiled
from warpwright.graphics.video_memory import VideoMemory

if TYPE_CHECKING:
    from warpwright.graphics.timed.timer import GraphicsTimer

_BYTES_TO_BYTES = 0x101
"""The FORMAT in which both sides advance by one byte."""
_MOST_LINES = 2047
"""The field has eleven bits; drivers split longer copies."""


class MemoryCopyEngine(RegisterEngine):
    """Starts a copy when BUF_NOTIFY is written, the last method of a copy."""

    def __init__(self, memory: VideoMemory) -> None:
        super().__init__(methods_m2mf.TABLE, {"BUF_NOTIFY": self._copy})
        self.memory = memory
        self.timer: GraphicsTimer | None = None
        """Times copies."""

    def _side(self, side: str) -> Place:
        address = self[f"OFFSET_{side}_HIGH"] << 32 | self[f"OFFSET_{side}"]
        if self[f"LINEAR_{side}"]:
            pitch = self[f"PITCH_{side}"]
            # The pitch is signed: an image may be copied upwards from its last row.
            return Place(linear(address, pitch - (1 << 32) if pitch >> 31 else pitch, self["LINE_COUNT"]), 0, 0)
        position = self[f"TILING_POSITION_{side}"]
        layout = tiled(
            address,
            self[f"TILING_PITCH_{side}"],
            self[f"TILING_MODE_{side}"],
            self[f"TILING_HEIGHT_{side}"],
            self[f"TILING_DEPTH_{side}"],
        )
        return Place(layout, position & 0xFFFF, position >> 16, self[f"TILING_POSITION_{side}_Z"])

    def _copy(self, method: int, words: Words) -> None:
        if self["FORMAT"] != _BYTES_TO_BYTES:
            raise self.refuse("FORMAT", self["FORMAT"], "copies advance by one byte on both sides (0x101)")
        if self["LINE_COUNT"] > _MOST_LINES:
            raise self.refuse("LINE_COUNT", self["LINE_COUNT"], f"a copy has at most {_MOST_LINES} lines")
        source, target = self._side("IN"), self._side("OUT")
        length, count = self["LINE_LENGTH_IN"], self["LINE_COUNT"]
        copy_rectangle(self.memory, target, source, length, count, "a memory copy")
        if self.timer is not None:
            self.timer.copied(
                "memory copy", (source.layout.address, length * count), (target.layout.address, length * count)
            )
