"""What a simulated device tells Mesa's loader that it is."""

from __future__ import annotations

import os
from typing import NamedTuple

from warpwright.session import chips_named, session


class Identity(NamedTuple):
    """A device and the kernel driver that answers for it."""

    kernel_driver: tuple[bytes, bytes, bytes]
    """Name, date and description."""
    version: tuple[int, int, int]
    vendor: int
    device: int
    node_path: bytes
    """What the loader opens for the render node."""


def chip_name() -> str | None:
    """The chip that the session asks for."""
    return session.chip or chips_named(os.environ.get("WARPWRIGHT_GPU"))[0]
