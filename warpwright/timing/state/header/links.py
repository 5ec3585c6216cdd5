"""Memory elsewhere: the host's, and other devices'."""

from __future__ import annotations

from warpwright.native.units import Unit, word
from warpwright.timing.state.header.declarations import area, from_chip


class LinkWords(Unit):
    """Links to the host and to other devices (``timing/links.py``)."""

    ranges = word("host address", "ranges of lines elsewhere (Range), by line")
    range_count = word("ranges", "of lines elsewhere")
    relocated = word("", "some lines are not where they are in other processes")
    own_first = word("line", "of this device's memory")
    own_end = word("line", "one past its last")
    own_moved = word("lines", "from where caches take its memory to be")
    links = area("links", "by way (LK_) and group of slices, when it is free, in 1/256 cycle")
    link_use = area("link_use", "by way and group of slices, what packets took, in 1/256 cycle")
    link_ways = word("ways", "that there are")
    link_window = area(
        "link_window", "by way and group of slices, what packets take in this window of activity, in 1/256 cycle"
    )
    link_later = area("link_later", "the same of those that leave later")
    link_widths = area("link_widths", "by way, its width (LinkWidth)")
    widths_change = word("", "some links reduce their width")
    peer_routes = area("peer_routes", "ways to other devices' memories (PeerRoute)")
    held_up = area("held_up", "by slice of a partition, until when what waits for the host holds it up")
    atomics_elsewhere = area(
        "atomics_elsewhere", "by group of slices, lines and when their last atomics are done, in 1/256 cycle"
    )
    host_latency = from_chip("links.host_latency_ns", "cycle", "of a load from the host")
    host_ask = from_chip("links.host_ask_ns", "1/256 cycle", "of the link for a request")
    host_read = from_chip("links.host_read_packet_ns", "1/256 cycle", "for the head of an answer")
    host_read_sector = from_chip("links.host_read_sector_ns", "1/256 cycle", "for each of its sectors")
    host_write = from_chip("links.host_write_packet_ns", "1/256 cycle", "for the head of a write")
    host_write_sector = from_chip("links.host_write_sector_ns", "1/256 cycle", "for each of its sectors")
    host_write_lag = from_chip("links.host_write_lag_cycles", "cycle", "that the link to the host may be late")
    host_write_latency = from_chip("links.host_write_latency_ns", "cycle", "until a write is acknowledged")
    host_atomic_latency = from_chip("links.host_atomic_latency_ns", "cycle", "of an atomic on the host's memory")
    host_atomic_turn = from_chip("links.host_atomic_turn_ns", "1/256 cycle", "between atomics on one line")
    peer_latency = from_chip("links.peer_latency_ns", "cycle", "of a load from another device")
    peer_ask = from_chip("links.peer_ask_ns", "1/256 cycle", "of the link for a request")
    peer_packet = from_chip("links.peer_packet_ns", "1/256 cycle", "for a packet's head")
    peer_sector = from_chip("links.peer_sector_ns", "1/256 cycle", "for each of its sectors")
    peer_half_sector = from_chip("links.peer_half_sector_bytes", "bytes", "of a write that is half a sector long")
    peer_write_latency = from_chip("links.peer_write_latency_ns", "cycle", "until a write is acknowledged")
    peer_atomic_latency = from_chip("links.peer_atomic_latency_ns", "cycle", "of an atomic on another device's memory")
    peer_atomic_turn = from_chip("links.peer_atomic_turn_ns", "1/256 cycle", "between atomics on one line")
