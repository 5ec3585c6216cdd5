"""Copies, uploads and blits in simulated time.

They are done by engines of the same channel, one after the other with draws: a copy begins when all draws before it have ended, and the next
draw begins after it.  What a copy takes follows from the bytes that it moves and the rates of the chip's transfers: within local memory, or over
PCI Express if one side is the host's.  That the pipeline drains between the classes of a channel is how drivers of the time describe it; what
an engine takes besides was never published (not anchored).
"""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.chips.chip import Chip


@dataclass(frozen=True, slots=True)
class Copy:
    """What an engine moves.

    Attributes:
        label: what the engine did, such as ``"memory copy"``.
        read: bytes read; ``written``: bytes written.
        from_host: whether what is read is the host's memory (words of the command stream too); ``to_host``: what is written.
    """

    label: str
    read: int
    written: int
    from_host: bool = False
    to_host: bool = False


@dataclass(frozen=True, slots=True)
class CopyTime:
    """When a copy began and ended, in cycles of the SMs' clock."""

    copy: Copy
    begin: float
    end: float


def copy_cycles(chip: Chip, copy: Copy) -> float:
    """How long a copy takes, in cycles of the SMs' clock."""
    rates = chip.transfer
    if copy.from_host or copy.to_host:
        moved = max(copy.read if copy.from_host else 0, copy.written if copy.to_host else 0)
        seconds = moved / (rates.host_copy_gb_per_s * 1e9)
    else:
        # The rate counts copied bytes, each of which is read and written.
        seconds = (copy.read + copy.written) / 2 / (rates.device_copy_gb_per_s * 1e9)
    return seconds * chip.clocks.sm_clock_mhz * 1e6
