"""State of the 3D class 0x5097 that the stages of a draw read: registers, memory, constant buffers, bound textures, counters."""

from __future__ import annotations

from collections.abc import Mapping

from warpwright.graphics import methods_3d
from warpwright.graphics.constant_buffers import ConstantBuffers
from warpwright.graphics.methods import Handler, RegisterEngine
from warpwright.graphics.queries import Queries
from warpwright.graphics.shader_programs import Textures
from warpwright.graphics.stream_output import StreamOutput
from warpwright.graphics.video_memory import VideoMemory

STAGES = ("vertex", "geometry", "pixel")
"""Stages in the order of BIND_TIC's and BIND_TSC's registers."""


class State3D(RegisterEngine):
    """The registers with what belongs to them."""

    def __init__(self, memory: VideoMemory, handlers: Mapping[str, Handler]) -> None:
        super().__init__(methods_3d.TABLE, handlers)
        self.memory = memory
        self.constants = ConstantBuffers(memory)
        self.queries = Queries(memory)
        self.stream_output = StreamOutput(memory)
        self.textures: dict[str, dict[int, int]] = {stage: {} for stage in STAGES}
        """Numbers of texture headers by slot, for each stage."""
        self.samplers: dict[str, dict[int, int]] = {stage: {} for stage in STAGES}
        self.instance = 0

    def texture_unit(self, stage: str) -> Textures | None:
        """The textures of a stage's programs."""
        return None
