"""State of the 3D class 0x8297 that the stages of a draw read: registers, memory, constant buffers, bound textures, counters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from warpwright.graphics import methods_3d
from warpwright.graphics.constant_buffers import ConstantBuffers
from warpwright.graphics.methods import Handler
from warpwright.graphics.pushbuffer import CommandError
from warpwright.graphics.queries import Queries
from warpwright.graphics.stream_output import StreamOutput
from warpwright.graphics.targets import ColourTarget, TargetEngine
from warpwright.graphics.texture_unit import TextureUnit
from warpwright.graphics.video_memory import VideoMemory

STAGES = ("vertex", "geometry", "pixel")
"""Stages in the order of BIND_TIC's and BIND_TSC's registers."""
ENTRY_BYTES = 32
"""Bytes of a texture header and of a sampler."""


@dataclass(frozen=True, slots=True)
class ShareOfFrame:
    """The rows of a frame that one of several chips draws: ``first`` up to ``end`` of every surface of the frame's size in pixels."""

    width: int
    height: int
    first: int
    end: int


class DrawWatch(Protocol):
    """Observes a draw step by step (``timed/tiles.py``); arrays that change later are copied."""

    def make_room(self) -> None: ...
    def collected(self, engine: State3D, vertices: Any, primitives: Any, kind: int) -> None: ...
    def vertex_program(self, engine: State3D, made: Any, inputs: Any, given: Any) -> None: ...
    def geometry_program(
        self, engine: State3D, made: Any, inputs: Any, numbers: Any, most: int, given: Any
    ) -> None: ...
    def assembled(self, primitives: Any) -> None: ...
    def was_set_up(self, parents: Any) -> None: ...
    def rasterised(self, engine: State3D, made: Any, quads: Any, state: Any) -> None: ...
    def to_programs(self, quads: Any) -> None: ...
    def pixel_program(self, engine: State3D, made: Any, pixels: Any, given: Any) -> None: ...
    def finished(self, engine: State3D, left: Any) -> None: ...
    def cleared(self, rectangle: Any, samples: Any, colour: Any, depth: Any, value: float | None) -> None: ...


class State3D(TargetEngine):
    """The registers and the objects that belong to them."""

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
        self.draws = 0
        self.watch: DrawWatch | None = None
        """The observer of each draw's steps, if draws are timed (``timed/``)."""
        self.share: ShareOfFrame | None = None
        """The part of each frame that this chip draws, if several share it; None for all of it."""
        self.last_target: ColourTarget | None = None
        """The target of the program's last draw; the driver's own draws, which use window coordinates, are ignored."""
        # Drivers write the mask of samples only to restrict it.
        for i in range(4):
            self.registers[(methods_3d.TABLE.offsets["MSAA_MASK"] >> 2) + i] = 0xFFFF

    def texture_unit(self, stage: str, units: Collection[int], samplers: Collection[int]) -> TextureUnit:
        """The textures and samplers of a stage that a program uses.

        Raises:
            CommandError: a header's number is beyond the table.
            MemoryFaultError: a header, a sampler or a texture is not in memory.
            UnsupportedError: a header has a format that is not provided.
        """
        headers = {u: self._entry("TIC", n, u) for u, n in self.textures[stage].items() if u in units}
        found = {s: self._entry("TSC", n, s) for s, n in self.samplers[stage].items() if s in samplers}
        return TextureUnit(headers, found, self.memory, level_range=True)

    def _entry(self, table: str, number: int, slot: int) -> list[int]:
        """Eight words of a texture header (TIC) or a sampler (TSC)."""
        if number > self[f"{table}_LIMIT"]:
            raise CommandError(
                f"{self.table.label}: {table} {number}, bound to slot {slot}, is beyond {table}_LIMIT = {self[f'{table}_LIMIT']}"
            )
        address = self.address(f"{table}_ADDRESS_HIGH") + ENTRY_BYTES * number
        return self.memory.words(address, ENTRY_BYTES // 4, f"{table} {number}").tolist()
