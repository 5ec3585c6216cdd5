"""The record of a machine: its GPUs, switches, kinds of links and cables.

Bandwidths are per direction; gigabytes are 10^9 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from warpwright.engine.host_coherence import ProbeCosts, TranslationCosts
from warpwright.engine.managed_pages import MigrationCosts
from warpwright.engine.peer_routes import WidthRule
from warpwright.errors import WarpwrightError

NVLINK, PCIE, SMP = "nvlink", "pcie", "smp"
PROTOCOLS = (NVLINK, PCIE, SMP)
"""Protocol of a link: NVLink, PCI Express, or the protocol between two processors (QPI, UPI, xGMI)."""
HOST = "host"
SWITCHES = (NVLINK, PCIE, HOST)
"""Kind of a node that is not a GPU: a switch of NVLinks or of PCI Express, or a processor with its root complexes."""


class MachineError(WarpwrightError, ValueError):
    """A machine that does not exist or whose description is wrong; the message says what to change."""


class Limits(NamedTuple):
    """Type and range of a number in a machine file."""

    kind: type
    least: float
    most: float
    accesses: bool = False
    """Applies only to links over which GPUs access each other's memory: NVLink and PCI Express."""
    needed: bool = True
    """Whether a file must specify it."""


LINK_FIELDS: Mapping[str, Limits] = {
    "lane_count": Limits(int, 1, 64),
    "lane_gbit_per_s": Limits(float, 0.1, 1000),
    "coding_percent": Limits(float, 1, 100),
    "head_bytes": Limits(int, 0, 256),
    "copy_payload_bytes": Limits(int, 1, 65536),
    "credit_bytes": Limits(int, 64, 1 << 30),
    "credit_latency_ns": Limits(float, 1, 100_000),
    "errors_per_million_packets": Limits(float, 0, 500_000, needed=False),
    "access_ask_bytes": Limits(float, 0, 4096, True),
    "access_head_bytes": Limits(float, 1, 4096, True),
    "access_sector_bytes": Limits(float, 0, 4096, True),
    "access_latency_ns": Limits(float, 0, 100_000, True),
    "access_write_latency_ns": Limits(float, 0, 100_000, True),
    "access_atomic_latency_ns": Limits(float, 0, 100_000, True),
    "posted_writes": Limits(int, 0, 1, True, needed=False),
    "access_acknowledge_bytes": Limits(float, 0, 4096, True, needed=False),
    "reduced_lane_count": Limits(int, 1, 63, needed=False),
    "reduce_below_percent": Limits(float, 0, 100, needed=False),
    "widen_above_percent": Limits(float, 0, 100, needed=False),
    "activity_window_us": Limits(float, 0.1, 1_000_000, needed=False),
    "width_change_us": Limits(float, 0, 1_000_000, needed=False),
    "reduced_power_percent": Limits(float, 0, 100, needed=False),
}
WIDTH_FIELDS = (
    "reduced_lane_count",
    "reduce_below_percent",
    "widen_above_percent",
    "activity_window_us",
    "width_change_us",
    "reduced_power_percent",
)
"""Of a link that reduces its width by itself; a file has all of them or none."""
HOST_FIELDS: Mapping[str, Limits] = {"staged_copy_percent": Limits(float, 1, 100)}
MIGRATION_FIELDS: Mapping[str, Limits] = {
    "page_kib": Limits(int, 4, 2048),
    "fault_latency_us": Limits(float, 0, 10_000),
    "sleep_after_us": Limits(float, 0, 1_000_000),
    "wake_us": Limits(float, 0, 10_000),
    "deep_sleep_after_us": Limits(float, 0, 1_000_000),
    "deep_wake_us": Limits(float, 0, 10_000),
    "fault_batch_us": Limits(float, 0, 10_000),
    "fault_region_us": Limits(float, 0, 10_000),
    "host_region_us": Limits(float, 0, 10_000),
    "fault_page_us": Limits(float, 0, 10_000),
    "fault_entry_us": Limits(float, 0, 10_000),
    "populate_page_us": Limits(float, 0, 10_000),
    "populate_entry_us": Limits(float, 0, 10_000),
    "fault_batch_count": Limits(int, 1, 1 << 16),
    "prefetch_percent": Limits(float, 1, 100),
    "prefetch_region_kib": Limits(int, 4, 1 << 20),
    "access_counter_threshold": Limits(int, 0, 65_535),
    "access_counter_kib": Limits(int, 4, 1 << 20),
    "access_counter_us": Limits(float, 0, 10_000),
    "copy_percent": Limits(float, 1, 100),
    "prefetch_copy_percent": Limits(float, 1, 100),
    "prefetch_to_host_percent": Limits(float, 1, 100),
    "host_fault_us": Limits(float, 0, 10_000),
    "host_page_us": Limits(float, 0, 10_000),
    "evict_region_us": Limits(float, 0, 10_000),
    "evict_new_page_us": Limits(float, 0, 10_000),
}
"""Of ``[migration]``; the sizes are powers of two."""
TRANSLATION_FIELDS: Mapping[str, Limits] = {
    "page_kib": Limits(int, 4, 1 << 20),
    "request_ns": Limits(float, 0, 1_000_000),
    "pages_per_answer": Limits(int, 1, 256),
    "kept_page_count": Limits(int, 1, 1 << 20),
    "shoot_down_ns": Limits(float, 0, 1_000_000),
}
PROBE_FIELDS: Mapping[str, Limits] = {
    "line_count": Limits(int, 1, 1 << 24),
    "way_count": Limits(int, 1, 256),
    "watermark_percent": Limits(float, 1, 100),
    "probe_ns": Limits(float, 0, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class LinkKind:
    """One kind of link of a machine; every number is for one link and one direction."""

    name: str
    protocol: str
    """``nvlink``, ``pcie`` or ``smp``."""
    lane_count: int
    lane_gbit_per_s: float
    """Number of bits transmitted in parallel (lanes)."""
    coding_percent: float
    """Fraction of the raw bandwidth that packets can use, after line coding and error correction."""
    head_bytes: int
    """Bytes on the wire for each packet in addition to its payload: header, checks, acknowledgement."""
    copy_payload_bytes: int
    """Maximum payload of a copy engine's packet."""
    credit_bytes: int
    """The receiver's buffer: bytes that may be in flight without a returned credit."""
    credit_latency_ns: float
    """Time from a packet's departure to the return of its credit."""
    errors_per_million_packets: float = 0.0
    """Fraction of packets that arrive corrupted: the receiver drops them and what follows, and the sender retransmits
    all of it one round trip later."""
    access_ask_bytes: float = 0.0
    """Bytes on the wire for an SM's read request."""
    access_head_bytes: float = 1.0
    """Bytes for the head of a packet with sectors of a line."""
    access_sector_bytes: float = 32.0
    """Bytes for each sector."""
    access_latency_ns: float = 0.0
    """Latency of a load beyond an L2 hit, over the whole route."""
    access_write_latency_ns: float = 0.0
    """Time until a write is acknowledged, beyond a write to L2."""
    access_atomic_latency_ns: float = 0.0
    posted_writes: int = 0
    """1: nobody answers a write, and a fence of the system's scope asks the target whether all have arrived; 0: the target acknowledges each write."""
    access_acknowledge_bytes: float = 0.0
    """Bytes on the wire for the acknowledgement of a write that is not posted."""
    reduced_lane_count: int = 0
    """Lanes of a direction that has had little to do; 0: links of this kind do not reduce their width."""
    reduce_below_percent: float = 0.0
    """Activity of a full direction below which it reduces its width."""
    widen_above_percent: float = 0.0
    """Activity of a reduced direction above which it takes its full width again."""
    activity_window_us: float = 0.0
    """Time over which activity is counted."""
    width_change_us: float = 0.0
    """Time without packets while a direction takes its full width again."""
    reduced_power_percent: float = 100.0
    """Power of a reduced direction, of that at full width."""

    @property
    def width_rule(self) -> WidthRule | None:
        """How a gang of such links reduces its width; None if it does not."""
        if not self.reduced_lane_count:
            return None
        return WidthRule(
            slowdown=self.lane_count / self.reduced_lane_count,
            reduce_below=self.reduce_below_percent / 100,
            widen_above=self.widen_above_percent / 100,
            window_ns=self.activity_window_us * 1e3,
            change_ns=self.width_change_us * 1e3,
            power=self.reduced_power_percent / 100,
        )

    @property
    def wire_gb_per_s(self) -> float:
        """Bandwidth on the wire, one direction."""
        return self.lane_count * self.lane_gbit_per_s / 8

    @property
    def packet_gb_per_s(self) -> float:
        """Bandwidth of packets including heads: that of the wire after coding, or as many as credits allow."""
        return min(self.wire_gb_per_s * self.coding_percent / 100, self.credit_bytes / self.credit_latency_ns)

    @property
    def replays_per_packet(self) -> float:
        """Average number of retransmissions of a packet."""
        share = self.errors_per_million_packets / 1e6
        return share / (1 - share)


@dataclass(frozen=True, slots=True)
class Cable:
    """``count`` links of one kind between two nodes."""

    link: LinkKind
    ends: tuple[str, str]
    count: int

    def other(self, node: str) -> str:
        """The node at the other end."""
        return self.ends[1] if self.ends[0] == node else self.ends[0]

    @property
    def packet_gb_per_s(self) -> float:
        """Bandwidth of all of its links, one direction."""
        return self.count * self.link.packet_gb_per_s


@dataclass(frozen=True, eq=False)
class Machine:
    """One machine.  Nodes are ``gpu0``, ``gpu1``, … and the switches by their names."""

    name: str
    product: str
    gpus: tuple[str, ...]
    """Chip of each GPU: a name or a file."""
    switches: Mapping[str, str]
    """Kind of each further node: ``nvlink``, ``pcie`` or ``host``."""
    cables: tuple[Cable, ...]
    staged_copy_percent: float
    """Fraction of PCI Express's bandwidth reached by a copy that the driver stages through the host's memory."""
    migration: MigrationCosts | None
    """How pages of managed memory move; None: they do not, and are where kernels use them."""
    translation: TranslationCosts | None
    """How GPUs use the host's page tables; None: they cannot."""
    probes: ProbeCosts | None
    """The GPUs' probe filters; None: the host caches nothing of their memory."""
    sources: Mapping[str, str]
    """Source of each number, by ``link.field``."""
    kinds: Mapping[str, str]
    documents: Mapping[str, str]

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, GPUs first."""
        return (*(gpu_node(i) for i in range(len(self.gpus))), *self.switches)

    @cached_property
    def cables_of(self) -> Mapping[str, tuple[Cable, ...]]:
        """The cables at each node."""
        return {node: tuple(cable for cable in self.cables if node in cable.ends) for node in self.nodes}


def gpu_node(ordinal: int) -> str:
    """The name of a GPU's node."""
    return f"gpu{ordinal}"
