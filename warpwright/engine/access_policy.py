"""Access policies: the data that a program asks L2 to keep.

A launch may have one window of addresses (``CUaccessPolicyWindow``): a share of its lines, the hit ratio, has one
property and the others another.  Persisting lines use the part of L2 that is set aside for them (CUDA C++ Programming
Guide, "Device Memory L2 Access Management"; NVIDIA A100 whitepaper, "L2 Cache Residency Control").
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from warpwright.errors import whole_number

LARGEST_WINDOW_BYTES = 128 << 20
"""CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE of an H200 (``bench/driver_answers.py``)."""


class AccessProperty(IntEnum):
    """``CUaccessProperty``."""

    NORMAL = 0
    STREAMING = 1
    PERSISTING = 2


@dataclass(frozen=True, slots=True)
class AccessWindow:
    """An access-policy window of a launch."""

    address: int
    size_bytes: int
    hit_ratio: float
    """Fraction of the window's lines that have the property ``hit``."""
    hit: AccessProperty = AccessProperty.PERSISTING
    miss: AccessProperty = AccessProperty.STREAMING

    def __post_init__(self) -> None:
        whole_number("AccessWindow(address), such as array.device_address,", self.address)
        whole_number("AccessWindow(size_bytes)", self.size_bytes)
        if not hasattr(self.hit_ratio, "__float__"):
            raise TypeError(f"AccessWindow(hit_ratio) takes a number between 0 and 1, not {self.hit_ratio!r}")
        for name, value in (("hit", self.hit), ("miss", self.miss)):
            if value not in set(AccessProperty):
                known = ", ".join(f"AccessProperty.{one.name}" for one in AccessProperty)
                raise TypeError(f"AccessWindow({name}) takes one of {known}, not {value!r}")
        if not 0.0 <= self.hit_ratio <= 1.0:
            raise ValueError(f"hit_ratio={self.hit_ratio}: it is a share between 0 and 1")
        if not 0 <= self.size_bytes <= LARGEST_WINDOW_BYTES:
            raise ValueError(
                f"size_bytes={self.size_bytes:,} must be 0 to {LARGEST_WINDOW_BYTES:,}, the largest window"
            )
        if self.miss == AccessProperty.PERSISTING:
            raise ValueError("lines beyond the hit ratio may be normal or streaming, not persisting")
