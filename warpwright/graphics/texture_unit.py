"""The texture unit of a stage: the textures and samplers bound to the numbers in its instructions.

Headers and samplers are the words that the driver has written to memory (``texture_headers.py``); compiled code takes the samples (``texture_lanes.py``), for
compiled programs and for the interpreter alike.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import LAUNCH, WARP
from warpwright.engine.launch import LaunchContext
from warpwright.graphics.texture_fields import COUNTS, SAMPLER, SAMPLERS, TEXTURE, UNITS
from warpwright.graphics.texture_headers import read_header, sampler_row, texture_row
from warpwright.isa.nv50.texture_request import TextureRequest

Words = Sequence[int]
_SERVE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_uint32, *[ctypes.c_int64] * 4)


class TextureMemory(Protocol):
    """The memory that holds textures."""

    def texture_room(self, address: int, what: str) -> tuple[int, int]:
        """Host address of a device address, and the number of bytes from there to the end of its buffer.

        Raises:
            MemoryFaultError: no buffer is at the address; the message names ``what``.
        """


class TextureUnit:
    """Textures and samplers of a run.

    Args:
        headers: eight words of each bound texture, by the unit number in instructions.
        samplers: eight words of each bound sampler.
        memory: where the textures are.
        seamless: whether filters of cube maps cross edges (a register of chips after G80).
        level_range: as :func:`~warpwright.graphics.texture_headers.read_header` has it.

    Raises:
        UnsupportedError: a header has a format or type that is not provided.
        MemoryFaultError: a texture is in no buffer.
    """

    def __init__(
        self,
        headers: Mapping[int, Words],
        samplers: Mapping[int, Words],
        memory: TextureMemory,
        seamless: bool = False,
        level_range: bool = False,
    ) -> None:
        self.table = np.zeros(UNITS + SAMPLERS + 1, np.int64)
        self.failure: BaseException | None = None
        self._keep: list[object] = [memory]
        self._samplers: dict[int, npt.NDArray[np.int64]] = {}
        self._textures: list[npt.NDArray[np.int64]] = []
        for unit, words in headers.items():
            header = read_header([int(w) for w in words], level_range)
            base, limit = memory.texture_room(header.address, f"texture {unit} ({header.format.name})")
            self._textures.append(texture_row(header, base, limit))
            self._put(unit, self._textures[-1])
        for number, words in samplers.items():
            self._samplers[number] = sampler_row([int(w) for w in words], seamless)
            self._put(UNITS + number, self._samplers[number])

    def _put(self, at: int, row: npt.NDArray[np.int64]) -> None:
        self._keep.append(row)
        self.table[at] = row.ctypes.data

    def record_in(self, notes: npt.NDArray[np.int64]) -> None:
        """Write records of the lines that quads touch, for the timing model (``texture_fields.NOTES_AT``)."""
        self._keep.append(notes)
        self.table[-1] = notes.ctypes.data
        for row in self._textures:
            row[TEXTURE["notes"] // 8] = notes.ctypes.data

    def counts(self, sampler: int) -> dict[str, int]:
        """Counters of a sampler: ``samples`` of threads, bilinear ``filters`` and ``cycles`` of the texture unit.

        In each cycle of the core clock, a texture unit looks up the four addresses of a quad and computes eight filters. Its cache misses are not counted,
        because nothing is published to anchor them.
        """
        row = self._samplers[sampler]
        return {name: int(row[SAMPLER[name] // 8]) for name in COUNTS}

    def provide(self, context: LaunchContext) -> None:
        """Make the textures available to a run."""
        # Imported here so that a program without textures does not wait for Numba.
        from warpwright.graphics.texture_lanes import serve

        context.words[LAUNCH.slot("texture")] = serve.address
        context.words[LAUNCH.slot("textures")] = self.table.ctypes.data
        context.textures = self
        context.keep.append(self.table)

    def serve(
        self, request: TextureRequest, words: Sequence[npt.NDArray[Any]], mask: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Results (4, 32) for a warp's arguments, for the interpreter; the addresses that it records are unknown."""
        from warpwright.graphics.texture_lanes import serve

        values = np.zeros((16, 32), np.uint32)
        for n, row in enumerate(words):
            values[n] = row
        launch, warp = np.zeros(LAUNCH.size_bytes // 8, np.int64), np.zeros(WARP.size_bytes // 8, np.int64)
        launch[LAUNCH.slot("textures")] = self.table.ctypes.data
        warp[WARP.slot("launch")] = launch.ctypes.data
        lanes = int(sum(1 << int(lane) for lane in np.flatnonzero(mask)))
        addresses = np.zeros(32, np.int64)
        function = _SERVE(serve.address)
        function(warp.ctypes.data, lanes, request.word(), values.ctypes.data, addresses.ctypes.data, 0)
        return values[:4].copy(), addresses
