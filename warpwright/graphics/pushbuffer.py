"""Command streams: the words of a pushbuffer become method writes to the engines bound to eight subchannels.

A header names a subchannel, a method and a number of words; the words go to consecutive methods or all to that one. The header formats are those of NV04 to
NV50 (envytools, "FIFO pusher: the DMA pusher").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from warpwright.errors import WarpwrightError

Words = npt.NDArray[np.uint32]
SUBCHANNEL_COUNT = 8
_BIND = 0
"""The method that binds an object to a subchannel."""


class CommandError(WarpwrightError, ValueError):
    """A command stream requests something that the device does not have; the message names the method."""


class Engine(Protocol):
    """The engine of a subchannel."""

    def write(self, method: int, words: Words, increments: bool) -> None:
        """Write words to a method, or to consecutive ones."""


class Pushbuffer:
    """The decoder of one channel; the words of a header may be in a later segment.

    Args:
        objects: engines by the handle with which a stream binds them.
    """

    def __init__(self, objects: Mapping[int, Engine]) -> None:
        self._objects = objects
        self._bound: list[Engine | None] = [None] * SUBCHANNEL_COUNT
        self._subchannel = self._method = self._left = 0
        self._increments = False
        self._takes_length = False
        self.watch: Callable[[int, int, Words, bool], None] | None = None
        """Called before words are written, with subchannel, method, words and whether methods increment."""

    def execute(self, words: Words) -> None:
        """Execute a segment.

        Raises:
            CommandError: a word is not a header, a subchannel has no object, or an engine refuses the write.
        """
        at, end = 0, len(words)
        while at < end:
            if self._takes_length:
                self._left, self._takes_length = int(words[at]) & 0xFF_FFFF, False
                at += 1
            elif self._left:
                count = min(self._left, end - at)
                self._write(words[at : at + count])
                at += count
            else:
                self._header(int(words[at]))
                at += 1

    def abandon(self) -> None:
        """Drop an unfinished header after an error."""
        self._left, self._takes_length = 0, False

    def _header(self, word: int) -> None:
        self._subchannel, self._method = word >> 13 & 7, word & 0x1FFC
        if word & 0xE003_0003 == 0:
            self._left, self._increments = word >> 18 & 0x7FF, True
        elif word & 0xE003_0003 == 0x4000_0000:
            self._left, self._increments = word >> 18 & 0x7FF, False
        elif word & 0xFFFF_0003 == 0x0003_0000:
            self._takes_length, self._increments = True, False
        else:
            raise CommandError(
                f"pushbuffer word {word:#010x} is not a method header: jumps and calls within a pushbuffer are not provided"
            )

    def _write(self, words: Words) -> None:
        subchannel, method, increments = self._subchannel, self._method, self._increments
        self._left -= len(words)
        if increments:
            self._method += 4 * len(words)
        if self.watch is not None:
            self.watch(subchannel, method, words, increments)
        if method == _BIND:
            self._bind(subchannel, int(words[0]))
            words = words[1:]
            method = 4
            if not len(words):
                return
        engine = self._bound[subchannel]
        if engine is None:
            raise CommandError(f"method {method:#06x} on subchannel {subchannel}, to which no object is bound")
        engine.write(method, words, increments)

    def _bind(self, subchannel: int, handle: int) -> None:
        engine = self._objects.get(handle)
        if engine is None:
            raise CommandError(f"the command stream binds the object {handle:#x}, which does not exist on this channel")
        self._bound[subchannel] = engine
