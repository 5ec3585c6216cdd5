"""The simulated chip behind the ``radeon`` driver: its buffers, its command processor and the GPU that runs compute programs."""

from __future__ import annotations

from collections.abc import Sequence

from warpwright.chips import load_chip
from warpwright.driver.drm.radeon.buffer_objects import Buffer, Buffers
from warpwright.driver.drm.radeon.command_processor import CommandProcessor
from warpwright.driver.drm.radeon.dispatches import Dispatcher


class RadeonDevice:
    """A chip for Mesa's ``r600`` driver.

    Args:
        chip: its name.
        host_bytes: what it can map of the host's memory.
    """

    def __init__(self, chip: str, host_bytes: int) -> None:
        self.chip = load_chip(chip)
        self.buffers = Buffers(self.chip.dram.dram_kib << 10, host_bytes)
        self.dispatcher = Dispatcher(chip, self.buffers)
        self.processor = CommandProcessor(self.buffers, self.dispatcher)
        self.submissions = 0

    def allocate(self, size: int, align: int, local: bool) -> Buffer:
        """A new buffer; raises as :meth:`Buffers.allocate`."""
        return self.buffers.allocate(size, align, local)

    def place(self, buffer: Buffer, address: int) -> None:
        """Give a buffer its virtual address, where programs reach it."""
        self.buffers.place(buffer, address)
        self.dispatcher.show(buffer)

    def unplace(self, buffer: Buffer) -> None:
        """Take a buffer's virtual address away."""
        self.dispatcher.hide(buffer)
        self.buffers.unplace(buffer)

    def release(self, handle: int) -> None:
        """Give up one reference to a buffer."""
        buffer = self.buffers.by_handle[handle]
        if buffer.references == 1:
            self.dispatcher.hide(buffer)
        self.buffers.release(handle)

    def submit(self, words: Sequence[int]) -> None:
        """Execute a command stream of the graphics ring; raises as :meth:`CommandProcessor.execute`."""
        self.submissions += 1
        self.processor.execute(words)
