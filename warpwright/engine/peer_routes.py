"""Times of a device's accesses over links to the memory of other devices and of the host."""

from __future__ import annotations

from dataclasses import dataclass

from warpwright.engine.host_mappings import MOST_DEVICES

HOST_ROUTE = MOST_DEVICES
"""Key of the route to the host's memory among those to other devices' (``peer_routes``), where NVLinks join the two."""


@dataclass(frozen=True, slots=True)
class WidthRule:
    """How each direction of a gang of links reduces its width to save power (Choquette et al.: Volta, IEEE Micro 2018, "Power")."""

    slowdown: float
    """Time of a packet at reduced width, over that at full width."""
    reduce_below: float
    """Share of a window in use below which a direction at full width reduces it."""
    widen_above: float
    """Share above which a reduced direction returns to full width."""
    window_ns: float
    change_ns: float
    """Time without packets while it returns."""
    power: float
    """At reduced width, as a share of that at full width."""


@dataclass(frozen=True, slots=True)
class PeerRoute:
    """Times of accesses by a device's kernels to one peer's memory, instead of the chip's ``[links]``."""

    gang: int
    """Routes with the same gang share their first links; gangs are numbered from 0."""
    ask_ns: float
    """Occupancy of the gang's outgoing links by a read request."""
    packet_ns: float
    sector_ns: float
    latency_ns: float
    """Latency of a load beyond an L2 hit."""
    write_latency_ns: float
    atomic_latency_ns: float
    errors_per_million_packets: float = 0.0
    """Fraction of packets that arrive corrupted and are retransmitted."""
    replay_ns: float = 0.0
    """Time until the sender knows of the error and retransmits all packets since, beyond the packet's own."""
    posted_writes: bool = False
    """Whether writes have no answer, so that a fence has to ask whether they have arrived."""
    acknowledge_ns: float = 0.0
    """Occupancy of the gang's incoming links by the acknowledgement of a write that is not posted."""
    width: WidthRule | None = None
    """How the gang's links reduce their width; None: they do not."""
