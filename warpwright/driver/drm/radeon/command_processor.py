"""Executes command streams of the graphics ring: registers, resources, copies, fences and dispatches.

Every packet ends before the next one begins, so that what only orders work has no effect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from warpwright.driver.drm.radeon import packets as pm4
from warpwright.driver.drm.radeon.buffer_objects import Buffers
from warpwright.driver.drm.radeon.dispatch_state import ComputeState
from warpwright.driver.drm.radeon.dispatches import Dispatcher
from warpwright.errors import UnsupportedError

DATA_32, DATA_64, TIMESTAMP = 1, 2, 3
"""What an end-of-pipe event writes."""
FROM_COUNTER, FROM_SHARE, IMMEDIATE = range(3)
"""What an end-of-shader event writes."""
APPEND_COUNTERS = 0x2872C
"""GDS_APPEND_COUNT_0, and after it those of the other counters."""
CLOCK_HZ = 27_000_000
"""Of the counter that time stamps read."""


def timestamp() -> int:
    """The device's counter."""
    return time.monotonic_ns() * CLOCK_HZ // 1_000_000_000


class CommandProcessor:
    """The state that packets write, and what they start.

    Args:
        buffers: the device's memory.
        dispatcher: what runs compute programs, and has global data share.
    """

    def __init__(self, buffers: Buffers, dispatcher: Dispatcher) -> None:
        self.buffers = buffers
        self.registers: dict[int, int] = {}
        """By byte address."""
        self.resources: dict[int, tuple[int, ...]] = {}
        """Words of a buffer or a texture, by number."""
        self.samplers: dict[int, tuple[int, ...]] = {}
        self.loops: dict[int, int] = {}
        self._dispatcher = dispatcher
        self._actions: dict[int, Callable[[Sequence[int]], None]] = {
            pm4.SET_RESOURCE: self._set_resource,
            pm4.SET_SAMPLER: self._set_sampler,
            pm4.SET_LOOP_CONST: self._set_loop,
            pm4.DISPATCH_DIRECT: self._dispatch_direct,
            pm4.CP_DMA: self._copy,
            pm4.MEM_WRITE: self._write_memory,
            pm4.EVENT_WRITE_EOP: self._end_of_pipe,
            pm4.EVENT_WRITE_EOS: self._end_of_shader,
            pm4.SET_APPEND_COUNT: self._set_append_counter,
        }

    def execute(self, words: Sequence[int]) -> None:
        """Execute a stream.

        Raises:
            UnsupportedError: for a packet that has no meaning here; the rest of the stream is dropped.
            MemoryFaultError: an address is in no buffer.
        """
        for operation, payload in pm4.packets(words):
            action = self._actions.get(operation)
            if operation in pm4.FIRST_REGISTERS:
                first = pm4.FIRST_REGISTERS[operation] + pm4.REGISTER_BYTES * payload[0]
                for n, value in enumerate(payload[1:]):
                    self.registers[first + pm4.REGISTER_BYTES * n] = value
            elif action is not None:
                action(payload)
            elif operation in pm4.DRAWS:
                raise UnsupportedError(
                    f"{pm4.DRAWS[operation]}: the graphics pipeline of Cypress and Cayman is not modelled; use g80 for draws, "
                    "and here compute shaders"
                )
            elif operation == pm4.EVENT_WRITE:
                continue
            elif operation not in pm4.WITHOUT_EFFECT:
                raise UnsupportedError(f"command stream: packet {operation:#04x} has no meaning here")

    def _set_resource(self, payload: Sequence[int]) -> None:
        for at in range(1, len(payload), pm4.RESOURCE_WORDS):
            number = (payload[0] + at - 1) // pm4.RESOURCE_WORDS
            self.resources[number] = tuple(payload[at : at + pm4.RESOURCE_WORDS])

    def _set_sampler(self, payload: Sequence[int]) -> None:
        for at in range(1, len(payload), pm4.SAMPLER_WORDS):
            self.samplers[(payload[0] + at - 1) // pm4.SAMPLER_WORDS] = tuple(payload[at : at + pm4.SAMPLER_WORDS])

    def _set_loop(self, payload: Sequence[int]) -> None:
        for n, value in enumerate(payload[1:]):
            self.loops[payload[0] + n] = value

    def _dispatch_direct(self, payload: Sequence[int]) -> None:
        x, y, z = payload[:3]
        if x and y and z:
            self._dispatcher.dispatch(ComputeState(self.registers, self.resources, self.samplers), (x, y, z))

    def _copy(self, payload: Sequence[int]) -> None:
        """Bytes from memory, or a word again and again, to memory."""
        low, flags, to_low, to_high, command = payload[:5]
        size = command & 0x1F_FFFF
        source, target = flags >> 29 & 3, flags >> 20 & 3
        if source not in (0, 2):
            raise UnsupportedError("CP_DMA: copies from global data share have no meaning here")
        if target:
            words = self.buffers.view(low | (flags & 0xFF) << 32, size, "CP_DMA").view(np.uint32)
            self._dispatcher.share_words(to_low, size // 4)[:] = words if source == 0 else low
            return
        into = self.buffers.view(to_low | (to_high & 0xFF) << 32, size, "CP_DMA")
        if source == 2:
            if size % 4:
                raise UnsupportedError(f"CP_DMA: a fill of {size} bytes is not a whole number of words")
            into.view(np.uint32)[:] = low
        else:
            into[:] = self.buffers.view(low | (flags & 0xFF) << 32, size, "CP_DMA").copy()

    def _write_memory(self, payload: Sequence[int]) -> None:
        low, high, *data = payload
        size = 4 if high >> 18 & 1 else 8
        words = np.array(data, dtype=np.uint32).view(np.uint8)
        self.buffers.view(low & ~3 | (high & 0xFF) << 32, size, "MEM_WRITE")[:] = words[:size]

    def _end_of_pipe(self, payload: Sequence[int]) -> None:
        """A word, or the time, once the work before it has ended."""
        _, low, high, *data = payload
        what = high >> 29 & 7
        if not what:
            return
        value = timestamp() if what == TIMESTAMP else data[0] | data[1] << 32
        size = 4 if what == DATA_32 else 8
        into = self.buffers.view(low & ~3 | (high & 0xFF) << 32, size, "EVENT_WRITE_EOP")
        into[:] = np.frombuffer(value.to_bytes(8, "little")[:size], dtype=np.uint8)

    def _set_append_counter(self, payload: Sequence[int]) -> None:
        """Fill an append counter from memory."""
        where, low, high = payload[:3]
        number = ((where >> 16) * pm4.REGISTER_BYTES + pm4.FIRST_REGISTERS[pm4.SET_CONTEXT_REG] - APPEND_COUNTERS) // 4
        found = self.buffers.view(low & ~3 | (high & 0xFF) << 32, 4, "SET_APPEND_CNT").view(np.uint32)
        self._dispatcher.counter(number)[:] = found

    def _end_of_shader(self, payload: Sequence[int]) -> None:
        """An append counter, or words of global data share, to memory once the programs before it have ended."""
        _, low, high, which = payload[:4]
        command = high >> 29 & 7
        if command == IMMEDIATE:
            found, count = np.array([which], dtype=np.uint32), 1
        elif command == FROM_SHARE:
            count, at = which >> 16, 4 * (which & 0xFFFF)
            found = self._dispatcher.share_words(at, count)
        elif command == FROM_COUNTER:
            count = 1
            found = self._dispatcher.counter((which & 0xFFFF) - APPEND_COUNTERS // pm4.REGISTER_BYTES)
        else:
            raise UnsupportedError(f"EVENT_WRITE_EOS: command {command} has no meaning here")
        into = self.buffers.view(low & ~3 | (high & 0xFF) << 32, 4 * count, "EVENT_WRITE_EOS")
        into.view(np.uint32)[:] = found
