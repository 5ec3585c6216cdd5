"""The 3D class 0x8297: its registers, the vertices between VERTEX_BEGIN_GL and VERTEX_END_GL, and the work that methods start."""

from __future__ import annotations

import numpy as np

from warpwright.graphics import targets
from warpwright.graphics.conditions import holds
from warpwright.graphics.draw import draw
from warpwright.graphics.input_assembler import Assembly, collect
from warpwright.graphics.pushbuffer import CommandError, Words
from warpwright.graphics.state_3d import STAGES, State3D
from warpwright.graphics.video_memory import VideoMemory

_INSTANCE_NEXT = 1 << 28
_MOST_VERTICES = 1 << 26
_IMMEDIATE = ((0x500, 16, 4), (0x400, 16, 3), (0x380, 8, 2), (0x300, 4, 1))
"""Methods that set attribute values: offset of the first one, bytes between attributes, and number of components."""


class Engine3D(State3D):
    """Executes methods: their effects on the state, and the vertices of the draw being specified."""

    def __init__(self, memory: VideoMemory) -> None:
        super().__init__(
            memory,
            {
                "VERTEX_BEGIN_GL": self._begin,
                "VERTEX_END_GL": self._end,
                "VERTEX_BUFFER_COUNT": self._arrays,
                "VB_ELEMENT_U32": self._elements,
                "VB_ELEMENT_U16": self._elements,
                "VB_ELEMENT_U8": self._elements,
                "VERTEX_DATA": self._vertex_data,
                "VTX_ATTR_1F": self._attribute,
                "VTX_ATTR_2F_Y": self._attribute,
                "VTX_ATTR_3F_Z": self._attribute,
                "VTX_ATTR_4F_W": self._attribute,
                "CB_DEF_SET": self._define_constants,
                "CB_ADDR": self._place_constants,
                "CB_DATA": self._write_constants,
                "SET_PROGRAM_CB": self._bind_constants,
                "BIND_TIC": self._bind_texture,
                "BIND_TSC": self._bind_sampler,
                "CLEAR_BUFFERS": self._clear,
                "QUERY_GET": self._query,
                "COUNTER_RESET": self._reset_counter,
                "STRMOUT_PARAMS_LATCH": self._latch_stream_output,
                "SCREEN_SCISSOR_VERT": self._limit_screen,
            },
        )
        self.assembly = Assembly()

    def abandon(self) -> None:
        """Drop an unfinished primitive after an error."""
        self.assembly.abandon()

    # --- vertices -------------------------------------------------------------------------------------
    def _begin(self, method: int, words: Words) -> None:
        word = int(words[-1])
        self.instance = self.instance + 1 if word & _INSTANCE_NEXT else 0
        self.assembly.begin(word & 0x0FFF_FFFF)

    def _end(self, method: int, words: Words) -> None:
        assembly = self.assembly
        if not assembly.is_open:
            raise CommandError(f"{self.table.label}: VERTEX_END_GL without VERTEX_BEGIN_GL")
        try:
            if holds(self, self.memory):
                draw(self, assembly.type, collect(self, self.memory, assembly, self.instance))
        finally:
            assembly.abandon()

    def _arrays(self, method: int, words: Words) -> None:
        first, count = self["VERTEX_BUFFER_FIRST"], int(words[-1])
        if count > _MOST_VERTICES:
            raise self.refuse("VERTEX_BUFFER_COUNT", count, f"a draw has at most {_MOST_VERTICES} vertices")
        self.assembly.add_arrays(first, count)

    def _elements(self, method: int, words: Words) -> None:
        name = self.table.names[method]
        if name == "VB_ELEMENT_U32":
            self.assembly.add_elements(words.astype(np.int64))
            return
        setup = self[f"{name}_SETUP"]
        narrow = words.view(np.uint16 if name == "VB_ELEMENT_U16" else np.uint8).astype(np.int64)
        if setup:
            # Number of elements, and the position of the first one in its word.
            places, count_mask = (31, 0x7FFF_FFFF) if name == "VB_ELEMENT_U16" else (30, 0x3FFF_FFFF)
            self.assembly.add_limited_elements(narrow, setup >> places, setup & count_mask)
        else:
            self.assembly.add_elements(narrow)

    def _vertex_data(self, method: int, words: Words) -> None:
        self.assembly.add_vertex_words(words, self["VERTEX_ID_BASE"])

    def _attribute(self, method: int, words: Words) -> None:
        """Set an attribute's value; setting attribute 0 completes a vertex."""
        base, stride, count = next(row for row in _IMMEDIATE if method >= row[0])
        number = (method - base) // stride
        at = (base + stride * number) >> 2
        value = np.array([0, 0, 0, 1], dtype=np.float32).view(np.uint32)
        value[:count] = self.registers[at : at + count]
        self.assembly.set_attribute(number, value)

    # --- constants, textures --------------------------------------------------------------------------
    def _define_constants(self, method: int, words: Words) -> None:
        self.constants.define(self.address("CB_DEF_ADDRESS_HIGH"), int(words[-1]))

    def _place_constants(self, method: int, words: Words) -> None:
        self.constants.place(int(words[-1]))

    def _write_constants(self, method: int, words: Words) -> None:
        self.constants.write(words)

    def _bind_constants(self, method: int, words: Words) -> None:
        for word in words.tolist():
            self.constants.bind(word)

    def _bind_texture(self, method: int, words: Words) -> None:
        bound = self.textures[STAGES[(method - self.table.offsets["BIND_TIC"]) // 8]]
        for word in words.tolist():
            self._bind(bound, word, word >> 1 & 0xFF, word >> 9 & 0x3FFFFF)

    def _bind_sampler(self, method: int, words: Words) -> None:
        bound = self.samplers[STAGES[(method - self.table.offsets["BIND_TSC"]) // 8]]
        for word in words.tolist():
            self._bind(bound, word, word >> 4 & 15, word >> 12 & 0x1FF)

    @staticmethod
    def _bind(bound: dict[int, int], word: int, slot: int, number: int) -> None:
        if word & 1:
            bound[slot] = number
        else:
            bound.pop(slot, None)

    # --- the rest -------------------------------------------------------------------------------------
    def _clear(self, method: int, words: Words) -> None:
        if holds(self, self.memory):
            for word in words.tolist():
                targets.clear(self, self.memory, word)
                if self.watch is not None:
                    self.watch.cleared(*targets.cleared(self, word))

    def _query(self, method: int, words: Words) -> None:
        self.queries.report(self, int(words[-1]))

    def _reset_counter(self, method: int, words: Words) -> None:
        self.queries.reset(int(words[-1]))

    def _latch_stream_output(self, method: int, words: Words) -> None:
        self.stream_output.latch(self)

    def _limit_screen(self, method: int, words: Words) -> None:
        """Chips that share a frame receive the same commands; the driver sets a different scissor on each for surfaces of the frame's size."""
        share = self.share
        size = self["SCREEN_SCISSOR_HORIZ"], self["SCREEN_SCISSOR_VERT"]
        if share is not None and size == (share.width << 16, share.height << 16):
            self.registers[method >> 2] = share.first | (share.end - share.first) << 16
