"""Kernel nodes that kernels may change: ``CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE``.

A node that has become updatable stays updatable, and its graph can be instantiated only once.  An upload gives the device what the host has set since the previous upload.
"""

from __future__ import annotations

import struct
import weakref
from dataclasses import dataclass, field

from warpwright.driver import results
from warpwright.driver.cuda_error import CudaError
from warpwright.engine.graph_node_updates import DeviceNode, device_node, drop, new_handle, upload

UPDATABLE = 13
"""CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE; its value is a flag and, at byte 8, the device's handle."""


@dataclass(eq=False)
class Updatable:
    """What makes a node updatable; its copy in an executable graph shares it."""

    handle: int = field(default_factory=new_handle)
    """Of the node in kernels (cudaGraphDeviceNode_t)."""
    instantiated: bool = False
    uploaded: tuple[object, bool] | None = None
    """The node's work and whether it was enabled, as the host had set them at the last upload."""

    def __post_init__(self) -> None:
        weakref.finalize(self, drop, self.handle)

    def upload(self, work: object, enabled: bool, made: DeviceNode) -> None:
        """Give the device what the host has set, unless nothing has changed since the last upload."""
        if self.uploaded is None or self.uploaded[0] is not work or self.uploaded[1] != enabled:
            self.uploaded = work, enabled
            upload(self.handle, made)

    def on_device(self) -> DeviceNode | None:
        """What the device has for the node; None before the first upload."""
        return device_node(self.handle)


def made_updatable(current: Updatable | None, raw: bytes) -> tuple[Updatable | None, bytes]:
    """What makes a node updatable after the attribute was set, and the attribute's value with the node's handle.

    Raises:
        CudaError: the flag is neither 0 nor 1 (invalid value), or it would make an updatable node not updatable (not supported).
    """
    (flag,) = struct.unpack_from("<i", raw)
    if flag not in (0, 1):
        raise CudaError(results.INVALID_VALUE)
    if current is not None and not flag:
        raise CudaError(results.NOT_SUPPORTED)
    if not flag:
        return None, raw
    made = current or Updatable()
    return made, raw[:8] + made.handle.to_bytes(8, "little") + raw[16:]
