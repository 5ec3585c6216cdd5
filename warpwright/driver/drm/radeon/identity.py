"""What Mesa is told of Cypress and Cayman."""

from __future__ import annotations

import os
from typing import NamedTuple

from warpwright.driver.drm.identity import Identity
from warpwright.driver.drm.radeon.buffer_objects import node_descriptor

VENDOR = 0x1002
"""ATI."""
KERNEL_DRIVER = (b"radeon", b"20080528", b"ATI Radeon")
VERSION = (2, 50, 0)
"""Of Linux 4.12, the last one: what Mesa's driver asks for."""


class Die(NamedTuple):
    """What the kernel driver tells of a chip (``DRM_RADEON_INFO``)."""

    pci_device: int
    tile_pipes: int
    backends: int
    shader_engines: int
    dram_banks_code: int
    """0, 1 or 2 for 4, 8 or 16 banks."""
    row_bytes_code: int
    """0, 1 or 2 for rows of 1, 2 or 4 KiB."""

    @property
    def tiling(self) -> int:
        """The tiling word: pipes, banks, bytes of a pipe's turn (256) and of a row."""
        return (self.tile_pipes.bit_length() - 1) | self.dram_banks_code << 4 | self.row_bytes_code << 12


DIES = {
    "evergreen": Die(0x6898, 8, 8, 2, 1, 1),
    "cayman": Die(0x6718, 8, 8, 2, 1, 1),
}
"""By generation: Radeon HD 5870 (Cypress XT) and HD 6970 (Cayman XT)."""


def identity_of(generation: str) -> Identity:
    """The device of a generation."""
    path = f"/proc/{os.getpid()}/fd/{node_descriptor()}".encode()
    return Identity(KERNEL_DRIVER, VERSION, VENDOR, DIES[generation].pci_device, path)
