"""Routes between two GPUs of a machine, and the time of copies and kernels' accesses over them.

Peer access has a route over NVLinks (direct, or over switches) or over PCI Express within one processor's root
complexes; the driver refuses it if two GPUs are connected only by the link between processors.  Copies between such
GPUs go through the host's memory.  The driver never routes through another GPU; :func:`relay_route` is the route that a
program can take itself, as collective libraries do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from warpwright.engine.peer_routes import HOST_ROUTE, PeerRoute
from warpwright.system.machine import HOST, NVLINK, PCIE, Cable, LinkKind, Machine, gpu_node


@dataclass(frozen=True)
class Route:
    """The path of packets from one GPU to another."""

    nodes: tuple[str, ...]
    """Nodes from the first GPU to the last; parallel switches are one node, ``nvswitch0+nvswitch1``."""
    link: LinkKind
    """The kind of link of the narrowest step."""
    link_count: int
    """Bandwidth of the narrowest step."""
    topology: str
    """Name of the connection in ``nvidia-smi topo -m``: ``NV2``, ``PIX``, ``PXB`` or ``PHB``."""

    @property
    def native_atomics(self) -> bool:
        """Whether the route supports atomics on the other GPU's memory: NVLink does, PCI Express does not."""
        return self.link.protocol == NVLINK

    @property
    def packet_gb_per_s(self) -> float:
        """Bandwidth of packets in one direction, including heads."""
        return self.link_count * self.link.packet_gb_per_s

    @property
    def copy_gb_per_s(self) -> float:
        """Bandwidth of a large copy."""
        payload = self.link.copy_payload_bytes
        return self.packet_gb_per_s * payload / (payload + self.link.head_bytes)

    def copy_seconds(self, size_bytes: int, idle_seconds: float = 0.0) -> float:
        """Time that the links need for a copy's packets, without latency.

        Args:
            idle_seconds: how long they had nothing to do before, after which they may be at reduced width.
        """
        packets = -(-size_bytes // self.link.copy_payload_bytes)
        whole = (size_bytes + packets * self.link.head_bytes) / (self.packet_gb_per_s * 1e9)
        again = self.link.replays_per_packet
        wide = whole * (1 + again) + packets * again * self.link.credit_latency_ns * 1e-9 / self.link_count
        return wide + self._lost_to_width(wide, idle_seconds)

    def _lost_to_width(self, wide: float, idle_seconds: float) -> float:
        """What a copy that takes ``wide`` seconds at full width loses because it finds its links at reduced width.

        They notice the copy at the end of their window of activity, and have no packets while they change.
        """
        rule = self.link.width_rule
        if rule is None or idle_seconds < rule.window_ns * 1e-9:
            return 0.0
        window = rule.window_ns * 1e-9
        if wide * rule.slowdown <= window or rule.widen_above >= 1:
            return wide * (rule.slowdown - 1)
        return window * (1 - 1 / rule.slowdown) + rule.change_ns * 1e-9

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """The steps, each one direction of one cable or of a GPU's links to its switches."""
        return tuple(pairwise(self.nodes))


@lru_cache(maxsize=4096)
def route(machine: Machine, first: int, last: int) -> Route | None:
    """The route over which a GPU accesses another one's memory; None if the driver refuses peer access."""
    if first == last:
        return None
    ends = gpu_node(first), gpu_node(last)
    return _nvlinks(machine, *ends) or _pcie(machine, *ends)


@lru_cache(maxsize=4096)
def host_route(machine: Machine, ordinal: int) -> Route | None:
    """The NVLinks between a GPU and a processor; None where they have none, and speak PCI Express."""
    own = gpu_node(ordinal)
    cables = [
        cable
        for cable in machine.cables_of[own]
        if cable.link.protocol == NVLINK and machine.switches.get(cable.other(own)) == HOST
    ]
    if not cables:
        return None
    count = sum(cable.count for cable in cables)
    return Route((own, cables[0].other(own)), cables[0].link, count, f"NV{count}")


@lru_cache(maxsize=4096)
def host_ways(machine: Machine, ordinal: int) -> tuple[tuple[tuple[str, str], float], ...]:
    """The steps of a copy from a GPU to the nearest processor, and the GB/s of a copy over each: its NVLinks to it, or PCI Express with its switches,
    whose links to the processor GPUs share."""
    own = host_route(machine, ordinal)
    if own is not None:
        return ((own.ways[0], own.copy_gb_per_s),)
    first = gpu_node(ordinal)
    hosts = [node for node, kind in machine.switches.items() if kind == HOST]
    paths = [_shortest(first, host, lambda node: _pcie_steps(machine, node)) for host in hosts]
    path = min((path for path in paths if path is not None), key=len)
    steps = []
    for near, far in pairwise(path):
        cable = _cable(machine, near, far)
        steps.append(((near, far), Route((near, far), cable.link, cable.count, "").copy_gb_per_s))
    return tuple(steps)


def _nvlinks(machine: Machine, first: str, last: str) -> Route | None:
    """All direct NVLinks together; otherwise every switch to which both GPUs have links."""
    own = [cable for cable in machine.cables_of[first] if cable.link.protocol == NVLINK]
    direct = [cable for cable in own if cable.other(first) == last]
    if direct:
        count = sum(cable.count for cable in direct)
        return Route((first, last), direct[0].link, count, f"NV{count}")
    count, switches, link = 0, [], None
    for cable in own:
        switch = cable.other(first)
        beyond = [one for one in machine.cables_of[last] if one.link.protocol == NVLINK and one.other(last) == switch]
        if machine.switches.get(switch) == NVLINK and beyond:
            count += min(cable.count, sum(one.count for one in beyond))
            switches.append(switch)
            link = min((cable.link, *(one.link for one in beyond)), key=lambda kind: kind.packet_gb_per_s)
    if link is None:
        return None
    return Route((first, "+".join(switches), last), link, count, f"NV{count}")


def _pcie(machine: Machine, first: str, last: str) -> Route | None:
    """The shortest path over PCI Express, which may cross one processor but not the link between two."""
    path = _shortest(first, last, lambda node: _pcie_steps(machine, node))
    if path is None:
        return None
    cables = [_cable(machine, a, b) for a, b in pairwise(path)]
    narrowest = min(cables, key=lambda cable: cable.packet_gb_per_s)
    between = [machine.switches[node] for node in path[1:-1]]
    topology = "PHB" if HOST in between else "PIX" if len(between) == 1 else "PXB"
    return Route(path, narrowest.link, narrowest.count, topology)


def _pcie_steps(machine: Machine, node: str) -> Iterable[str]:
    return (cable.other(node) for cable in machine.cables_of[node] if cable.link.protocol == PCIE)


def _cable(machine: Machine, first: str, last: str) -> Cable:
    cables = [one for one in machine.cables_of[first] if one.other(first) == last and one.link.protocol == PCIE]
    return max(cables, key=lambda one: one.packet_gb_per_s)


def _shortest(first: str, last: str, steps: Callable[[str], Iterable[str]]) -> tuple[str, ...] | None:
    """The shortest path between two GPUs; paths end at other GPUs unless ``steps`` continue from them."""
    came: dict[str, str] = {first: ""}
    new = [first]
    while new and last not in came:
        found = []
        for node in new:
            if node != first and node.startswith("gpu"):
                continue
            for other in steps(node):
                if other not in came:
                    came[other] = node
                    found.append(other)
        new = found
    if last not in came:
        return None
    path = [last]
    while path[-1] != first:
        path.append(came[path[-1]])
    return tuple(reversed(path))


def relay_route(machine: Machine, first: int, last: int) -> tuple[tuple[int, ...], float]:
    """The GPUs on the widest of the shortest NVLink paths from one GPU to another, and its copy bandwidth in GB/s;
    empty if there is none."""
    best: dict[int, tuple[tuple[int, ...], float]] = {first: ((first,), float("inf"))}
    new = dict(best)
    while new and last not in best:
        found: dict[int, tuple[tuple[int, ...], float]] = {}
        for at, (path, width) in new.items():
            for other in range(len(machine.gpus)):
                step = route(machine, at, other)
                if other in best or step is None or step.link.protocol != NVLINK:
                    continue
                wide = min(width, step.copy_gb_per_s)
                if other not in found or wide > found[other][1]:
                    found[other] = ((*path, other), wide)
        best |= found
        new = found
    return best.get(last, ((), 0.0))


def performance_rank(machine: Machine, first: int, last: int) -> int:
    """Rank of a route's bandwidth among those of the machine: 0 is the widest."""
    count = len(machine.gpus)
    found = [route(machine, a, b) for a in range(count) for b in range(count)]
    widths = sorted({one.copy_gb_per_s for one in found if one is not None}, reverse=True)
    own = route(machine, first, last)
    return widths.index(own.copy_gb_per_s) if own is not None else 0


def peer_routes(machine: Machine, ordinal: int) -> dict[int, PeerRoute]:
    """Times of accesses by a GPU's kernels to each other GPU's memory that it can access, and to the host's if NVLinks connect it."""
    gangs: dict[tuple[str, str], int] = {}
    ways = {other: route(machine, ordinal, other) for other in range(len(machine.gpus))}
    ways[HOST_ROUTE] = host_route(machine, ordinal)
    found: dict[int, PeerRoute] = {}
    for other, way in ways.items():
        if way is None:
            continue
        link, rate = way.link, way.packet_gb_per_s
        found[other] = PeerRoute(
            gang=gangs.setdefault(way.ways[0], len(gangs)),
            ask_ns=link.access_ask_bytes / rate,
            packet_ns=link.access_head_bytes / rate,
            sector_ns=link.access_sector_bytes / rate,
            latency_ns=link.access_latency_ns,
            write_latency_ns=link.access_write_latency_ns,
            atomic_latency_ns=link.access_atomic_latency_ns,
            errors_per_million_packets=link.errors_per_million_packets,
            replay_ns=link.credit_latency_ns / way.link_count,
            posted_writes=bool(link.posted_writes),
            acknowledge_ns=link.access_acknowledge_bytes / rate,
            width=link.width_rule,
        )
    return found
