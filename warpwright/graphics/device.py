"""A graphics device: memory, a channel with its objects, and the engines that execute methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpwright.chips import load_chip
from warpwright.chips.chip import Chip
from warpwright.errors import UnsupportedError
from warpwright.graphics import methods_2d, methods_3d, methods_compute, methods_m2mf
from warpwright.graphics.engine_2d import Engine2D
from warpwright.graphics.engine_3d import Engine3D
from warpwright.graphics.engine_compute import ComputeEngine
from warpwright.graphics.memory_copies import MemoryCopyEngine
from warpwright.graphics.pushbuffer import Engine, Pushbuffer, Words
from warpwright.graphics.video_memory import Buffer, VideoMemory

if TYPE_CHECKING:
    from warpwright.graphics.timed.timer import GraphicsTimer

CHIPSET = 0x84
"""The chip that the device reports: G84, G80's successor of 2007. The pipelines are alike, but G80's texture headers cannot select a range of levels, so Mesa
would generate each level of a mipmap from level 0."""
HOST_BYTES = 512 << 20
"""Size of the host memory that the device maps: the driver's usual aperture."""


def graphics_chip(name: str) -> Chip:
    """A chip whose graphics pipeline is modelled.

    Raises:
        UnsupportedError: it is not.
    """
    return _with_graphics(load_chip(name))


def _with_graphics(chip: Chip) -> Chip:
    if chip.identity.architecture != "Tesla":
        raise UnsupportedError(
            f"the graphics pipeline of {chip.identity.product} is not modelled: use g80, g80-ultra, fx5600 or g92"
        )
    return chip


class GraphicsDevice:
    """One channel of a device.

    Args:
        local_bytes: size of local memory.
        tpc_count: texture/processor clusters.
        sms_per_tpc: SMs of each.
    """

    def __init__(self, local_bytes: int, tpc_count: int, sms_per_tpc: int) -> None:
        self.chipset = CHIPSET
        self.tpc_count, self.sms_per_tpc = tpc_count, sms_per_tpc
        self.memory = VideoMemory(local_bytes, HOST_BYTES)
        self.three_d = Engine3D(self.memory)
        self._copies = MemoryCopyEngine(self.memory)
        self._two_d = Engine2D(self.memory)
        self._engines: dict[int, Engine] = {
            methods_m2mf.CLASS: self._copies,
            methods_2d.CLASS: self._two_d,
            methods_3d.CLASS: self.three_d,
            methods_compute.CLASS: ComputeEngine(self.memory),
        }
        self._objects: dict[int, Engine] = {}
        self.classes_by_handle: dict[int, int] = {}
        self.pushbuffer = Pushbuffer(self._objects)
        self.submissions = 0
        self.is_dead = False
        self.on_submit: Callable[[list[tuple[int, int]]], None] | None = None
        """Called before each submission with its segments: device addresses and bytes."""
        self.after_submit: Callable[[], None] | None = None
        self.timer: GraphicsTimer | None = None
        """The timer of draws; None without timing."""
        self.host_buffers: dict[int, Buffer] = {}
        """Buffers that the host may write at any time, by handle."""
        self.before_free: Callable[[Buffer], None] | None = None
        self.kept_image: npt.NDArray[np.uint8] | None = None
        """What was drawn last to a buffer that no longer exists (``recording.keep_last_image``)."""

    @classmethod
    def of_chip(cls, name: str) -> GraphicsDevice:
        """The device of a chip's file; raises as :meth:`of`."""
        return cls.of(load_chip(name))

    @classmethod
    def of(cls, chip: Chip) -> GraphicsDevice:
        """The device of a chip.

        Raises:
            UnsupportedError: its graphics pipeline is not modelled.
        """
        counts = _with_graphics(chip).sm.gpc_sm_counts
        return cls(chip.dram.dram_kib << 10, len(counts), counts[0])

    def keep_time(self, chip: Chip, balance: str = "dynamic") -> GraphicsTimer:
        """Simulate the time of all draws and copies from now on.

        Args:
            balance: a name in ``timed.sm_controllers.BALANCES``.

        Raises:
            UnsupportedError: the chip's file has no numbers of the stages.
        """
        if not chip.graphics.core_clock_mhz:
            raise UnsupportedError(
                f"the graphics stages of {chip.identity.product} have no numbers: use g80, g80-ultra, fx5600 or g92"
            )
        from warpwright.graphics.timed.sm_controllers import BALANCES
        from warpwright.graphics.timed.timer import GraphicsTimer

        self.timer = GraphicsTimer(chip, self.memory, BALANCES[balance])
        self.three_d.watch = self.timer.watch
        self.three_d.queries.timer = self._copies.timer = self._two_d.timer = self.timer
        return self.timer

    @property
    def classes(self) -> list[int]:
        """Class numbers of the engines."""
        return list(self._engines)

    def has_class(self, number: int) -> bool:
        return number in self._engines

    def add_object(self, handle: int, number: int) -> None:
        """Let command streams bind an engine by a handle; objects of other kinds have no engine."""
        engine = self._engines.get(number)
        if engine is not None:
            self._objects[handle] = engine
            self.classes_by_handle[handle] = number

    def remove_object(self, handle: int) -> None:
        self._objects.pop(handle, None)
        self.classes_by_handle.pop(handle, None)

    def host_writes(self, buffer: Buffer) -> None:
        """Record that the host has mapped a buffer."""
        self.host_buffers[buffer.handle] = buffer

    def free(self, buffer: Buffer) -> None:
        """Free a buffer, which the host can no longer write."""
        if self.before_free is not None:
            self.before_free(buffer)
        self.host_buffers.pop(buffer.handle, None)
        self.memory.free(buffer)

    def submit(self, segments: list[tuple[int, int]]) -> None:
        """Execute segments of command words, each a device address and a number of bytes.

        Raises:
            WarpwrightError: a method requests something that is not provided, or is invalid; the rest of the submission is dropped.
        """
        self.submissions += 1
        if self.on_submit is not None:
            self.on_submit(segments)
        try:
            for address, size in segments:
                if self.timer is not None:
                    self.timer.watch.commands(size // 4)
                self.pushbuffer.execute(self._words(address, size))
        except BaseException:
            self.pushbuffer.abandon()
            self.three_d.abandon()
            raise
        finally:
            if self.timer is not None:
                self.timer.end_of_submission()
            if self.after_submit is not None:
                self.after_submit()

    def _words(self, address: int, size: int) -> Words:
        contents = self.memory.view(address, size, "the command fetch")
        words = np.zeros(-(-size // 4), dtype=np.uint32)
        words.view(np.uint8)[:size] = contents
        return words
