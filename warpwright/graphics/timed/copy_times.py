"""Copies, uploads and blits in simulated time.

Engines of the same channel alternate with draws: a copy begins when all draws before it have ended, and the next draw begins after it. The duration of a copy
follows from its bytes and the chip's transfer rates: within local memory, or over PCI Express if one side is the host's. Drivers of the time describe that the
pipeline drains between the classes of a channel; the fixed cost of an engine was never published (not anchored).
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.chips.chip import Chip


@dataclass(frozen=True, slots=True)
class Copy:
    """One transfer by an engine.

    Attributes:
        label: what the engine did, such as ``"memory copy"``.
        read: bytes read; ``written``: bytes written.
        from_host: whether the source is host memory (including words of the command stream); ``to_host``: whether the destination is.
    """

    label: str
    read: int
    written: int
    from_host: bool = False
    to_host: bool = False


@dataclass(frozen=True, slots=True)
class CopyTime:
    """The begin and end of a copy, in cycles of the SMs' clock."""

    copy: Copy
    begin: float
    end: float


def copy_cycles(chip: Chip, copy: Copy) -> float:
    """Duration of a copy, in cycles of the SMs' clock."""
    rates = chip.transfer
    if copy.from_host or copy.to_host:
        moved = max(copy.read if copy.from_host else 0, copy.written if copy.to_host else 0)
        seconds = moved / (rates.host_copy_gb_per_s * 1e9)
    else:
        # The rate is in copied bytes, each of which is read and written.
        seconds = (copy.read + copy.written) / 2 / (rates.device_copy_gb_per_s * 1e9)
    return seconds * chip.clocks.sm_clock_mhz * 1e6
