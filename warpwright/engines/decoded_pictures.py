"""Decoded pictures in device memory."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from warpwright.arrays import DeviceArray
from warpwright.engines.timeline import Device
from warpwright.timing.state.memory_system import BR_DROPPED


def written(device: Device, pixels: npt.NDArray[Any], label: str) -> DeviceArray:
    """A picture in device memory, as an engine leaves it: L2 does not have its lines."""
    made = DeviceArray(device.memory, pixels.shape, pixels.dtype, label)
    made.set(pixels)
    if device.kept_caches is not None:
        device.kept_caches.used(made.device_address(), made.nbytes, BR_DROPPED)
    return made
