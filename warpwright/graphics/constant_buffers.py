"""Constant buffers of the 3D and compute classes: definitions, bindings to programs, and writes from the command stream."""

from __future__ import annotations

from warpwright.graphics.pushbuffer import CommandError, Words
from warpwright.graphics.video_memory import VideoMemory

BUFFER_COUNT = 128
STAGES = {0: "vertex", 2: "geometry", 3: "pixel"}
"""The stage's program number in SET_PROGRAM_CB; the compute class has a separate register."""


class ConstantBuffers:
    """128 buffers of up to 64 KiB, of which each stage's programs see sixteen."""

    def __init__(self, memory: VideoMemory) -> None:
        self._memory = memory
        self._defined: list[tuple[int, int]] = [(0, 0)] * BUFFER_COUNT
        self.bound: dict[str, dict[int, int]] = {stage: {} for stage in STAGES.values()}
        self._place = (0, 0)

    def define(self, address: int, word: int) -> None:
        """CB_DEF_SET: the buffer in bits 16 to 22, its size in the low half, where 0 is 64 KiB."""
        self._defined[word >> 16 & 0x7F] = (address, (word & 0xFFFF) or 0x10000)

    def bind(self, word: int) -> None:
        """SET_PROGRAM_CB: buffer, index that the program uses, program, and whether it is bound.

        Raises:
            CommandError: there is no such program.
        """
        stage = word >> 4 & 15
        if stage not in STAGES:
            raise CommandError(
                f"SET_PROGRAM_CB = {word:#x} names program {stage}: there are 0 (vertex), 2 (geometry) and 3 (pixel)"
            )
        bound = self.bound[STAGES[stage]]
        index = word >> 8 & 15
        if word & 1:
            bound[index] = word >> 12 & 0x7F
        else:
            bound.pop(index, None)

    def place(self, word: int) -> None:
        """CB_ADDR: the buffer and the word in it to which the next words go."""
        self._place = (word & 0x7F, word >> 8 & 0x3FFF)

    def write(self, words: Words) -> None:
        """CB_DATA: write words to consecutive locations.

        Raises:
            MemoryFaultError: the buffer is not in memory.
        """
        buffer, at = self._place
        address, size = self._defined[buffer]
        count = max(0, min(len(words), size // 4 - at))
        if count:
            self._memory.words(address + 4 * at, count, f"a write to constant buffer {buffer}")[:] = words[:count]
        self._place = (buffer, at + len(words))

    def contents(self, stage: str) -> dict[int, Words]:
        """The buffers of a stage's programs as words, by index."""
        found = {}
        for index, buffer in self.bound[stage].items():
            address, size = self._defined[buffer]
            inside = self._memory.find(address)
            if inside is not None:
                # A buffer may be shorter than its definition; the engine pads the part beyond its end.
                size = min(size, inside.address + inside.size - address)
                found[index] = self._memory.words(address, size // 4, f"constant buffer {buffer}")
        return found
