"""The compute class 0x50C0 of a graphics channel: its state.  Launches from a graphics context are not provided."""

from __future__ import annotations

from warpwright.graphics import methods_compute
from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.pushbuffer import CommandError, Words
from warpwright.graphics.video_memory import VideoMemory


class ComputeEngine(RegisterEngine):
    """Keeps registers; the drivers set its state up when a channel is made."""

    def __init__(self, memory: VideoMemory) -> None:
        super().__init__(methods_compute.TABLE, {"LAUNCH": self._launch})
        self.memory = memory

    def _launch(self, method: int, words: Words) -> None:
        raise CommandError(
            f"{self.table.label}: LAUNCH is not provided: compute shaders of OpenGL are not; CUDA programs run on this chip"
        )
