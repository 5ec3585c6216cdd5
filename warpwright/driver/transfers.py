"""Simulated time of copies and fills, and which of them wait for each other.

A copy takes a latency plus its bytes divided by the bandwidth of its path: PCI Express between the host and a device, NVLink between two devices, DRAM within
one.  Each device has a copy engine for each direction to and from the host: copies of one direction are made one after the
other, whatever their streams (``python -m bench.transfers`` on H200; the chip's ``[transfer]``).

Between devices of a machine (``system/``) a copy uses the links of its route, each of which makes one copy after the other; without peer access between the
two, it goes through the host's memory.  Copies between the host and devices of a machine share a PCI Express switch's link to its processor.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from warpwright.driver.driver_state import Device, Stream, picoseconds, state
from warpwright.driver.memory import HOST, REGISTERED, device_at, holder, kinds
from warpwright.engine.managed_pages import (
    FIRST_GPU,
    NOWHERE,
    ON_HOST,
    PG_PLACE,
    ManagedMemory,
    PageTable,
    processor_of,
)
from warpwright.system.routes import host_route, host_ways
from warpwright.timing.state.memory_system import BR_DROPPED as DROPPED
from warpwright.timing.state.memory_system import BR_READ as READ
from warpwright.timing.state.memory_system import BR_WRITTEN as WRITTEN

if TYPE_CHECKING:
    from warpwright.chips import Chip

TO_DEVICE, FROM_DEVICE = "to the device", "from the device"


def copy(stream: Stream, target: int, source: int, size: int) -> None:
    """Account for the time of a copy between two addresses."""
    if not state().timed:
        return
    state().host_touches()
    to, of = _place(target), _place(source)
    _settle(target, size)
    if isinstance(to, Device) and isinstance(of, Device):
        chip = of.gpu.chip
        if to is of:
            _spend(stream, _device_seconds(chip, size))
            _uses_l2(to, source, size, READ)
            _uses_l2(to, target, size, WRITTEN)
        else:
            _between(stream, to, of, size)
            _uses_l2(to, target, size, DROPPED)
    elif isinstance(to, Device) and not isinstance(of, Device):
        _with_host(stream, to, size, _host_seconds(to, size, of), TO_DEVICE)
        _uses_l2(to, target, size, DROPPED)
    elif isinstance(of, Device) and not isinstance(to, Device):
        _with_host(stream, of, size, _host_seconds(of, size, to), FROM_DEVICE)


def with_storage(stream: Stream, address: int, size: int, direction: str, storage_gb_per_s: float | None) -> None:
    """Account for the time of a transfer between storage and an address: that of a copy between page-locked host memory and the device, or of the storage if it
    is slower.

    Args:
        direction: ``TO_DEVICE`` or ``FROM_DEVICE``.
        storage_gb_per_s: the storage's rate; None if it takes no time.
    """
    if not state().timed:
        return
    state().host_touches()
    storage_seconds = _seconds(size, storage_gb_per_s) if storage_gb_per_s else 0.0
    place = _place(address)
    if not isinstance(place, Device):
        _spend(stream, storage_seconds)
        return
    if direction == TO_DEVICE:
        _settle(address, size)
    seconds = max(_host_seconds(place, size, HOST), storage_seconds)
    _with_host(stream, place, size, seconds, direction)
    if direction == TO_DEVICE:
        _uses_l2(place, address, size, DROPPED)


def _settle(address: int, size: int) -> None:
    """Place the untouched pages of managed memory that a copy writes to on the device that allocated them."""
    table = _pages(address)
    if table is not None:
        part = table.part(address, size)
        part[part[:, PG_PLACE] == NOWHERE, PG_PLACE] = processor_of(device_at(address).index)


def _between(stream: Stream, to: Device, of: Device, size: int) -> None:
    """Time of a copy between two devices."""
    s, transfer = state(), of.gpu.chip.transfer
    latency = transfer.host_copy_latency_us * 1e-6
    if s.machine is None:
        _spend(stream, latency + _seconds(size, transfer.peer_copy_gb_per_s))
        return
    route = s.route(of, to)
    if route is None or not (s.reaches(of, to) or s.reaches(to, of)):
        rate = min(_host_gb_per_s(one) for one in (to, of)) * s.machine.staged_copy_percent / 100
        free = max(of.engines_free.get(FROM_DEVICE, 0), to.engines_free.get(TO_DEVICE, 0))
        steps = {**_host_steps(of, FROM_DEVICE), **_host_steps(to, TO_DEVICE)}
        begin = _occupy(max(s.begin(stream), free), size, steps)
        stream.ps = begin + picoseconds(latency + _seconds(size, rate))
        of.engines_free[FROM_DEVICE] = to.engines_free[TO_DEVICE] = stream.ps
        return
    free = max(s.links_free.get(way, 0) for way in route.ways)
    begin = max(s.begin(stream), free)
    taken = picoseconds(route.copy_seconds(size, (begin - free) * 1e-12 if free else math.inf))
    # The latency does not occupy the engine or the link: the next copy's packets follow at once.
    s.links_free |= dict.fromkeys(route.ways, begin + taken)
    stream.ps = begin + taken + picoseconds(latency)


def _with_host(stream: Stream, device: Device, size: int, seconds: float, direction: str) -> None:
    """Of a copy between the host and a device, which takes turns with those of other devices on links that both use."""
    begin = max(state().begin(stream), device.engines_free.get(direction, 0))
    begin = _occupy(begin, size, _host_steps(device, direction))
    stream.ps = device.engines_free[direction] = begin + picoseconds(seconds)


def _host_steps(device: Device, direction: str) -> dict[tuple[str, str], float]:
    """The machine's links between the host and a device, in the direction of a copy, with the GB/s of each."""
    machine = state().machine
    if machine is None:
        return {}
    steps = host_ways(machine, device.index)
    return {(b, a) if direction == TO_DEVICE else (a, b): rate for (a, b), rate in steps}


def _occupy(begin: int, size: int, steps: dict[tuple[str, str], float]) -> int:
    """When a copy begins that uses some links, each of which makes one copy after the other."""
    free = state().links_free
    begin = max(begin, *(free.get(way, 0) for way in steps)) if steps else begin
    free |= {way: begin + picoseconds(_seconds(size, rate)) for way, rate in steps.items()}
    return begin


def fill(stream: Stream, address: int, size: int) -> None:
    """Account for the time of a fill that starts at an address."""
    if state().timed:
        state().host_touches()
        migrate(stream, address, size, processor_of(stream.device.index))
        transfer = stream.device.gpu.chip.transfer
        _spend(stream, transfer.fill_latency_us * 1e-6 + _seconds(size, transfer.fill_gb_per_s))
        place = _place(address)
        if isinstance(place, Device):
            _uses_l2(place, address, size, WRITTEN)


def _uses_l2(device: Device, address: int, size: int, how: int) -> None:
    """Record the L2 lines that a copy or a fill uses, which the next kernel may hit."""
    if device.gpu.kept_caches is not None:
        device.gpu.kept_caches.used(address, size, how)


def _device_seconds(chip: Chip, size: int) -> float:
    """Time of a copy within a device."""
    transfer = chip.transfer
    in_l2 = 2 * size <= chip.l2.l2_kib * 1024
    rate = transfer.device_copy_l2_gb_per_s if in_l2 else transfer.device_copy_gb_per_s
    return transfer.device_copy_latency_us * 1e-6 + _seconds(size, rate)


def migrate(stream: Stream, address: int, size: int, target: int) -> None:
    """Move the pages of managed memory that a range touches to a processor; each source is one copy."""
    table = _pages(address)
    if table is None:
        return
    managed = state().managed
    assert managed is not None
    moves = managed.bring(table, address, size, target)
    _evicted(stream, managed)
    for source, moved in moves.items():
        if source != NOWHERE:
            costs = managed.costs
            percent = costs.prefetch_to_host_percent if target == ON_HOST else costs.prefetch_copy_percent
            rate = _migration_gb_per_s(source, target) * percent / costs.copy_percent
            device = state().cards[max(source, target) - FIRST_GPU]
            direction = TO_DEVICE if source == ON_HOST else FROM_DEVICE
            latency = device.gpu.chip.transfer.host_copy_latency_us * 1e-6
            _spend(stream, latency + _seconds(moved, rate), (device, direction))


def _evicted(stream: Stream, managed: ManagedMemory) -> None:
    """Regions have left full devices for the host."""
    done, managed.host.evicted_bytes = managed.host.evicted_bytes, {}
    regions, managed.host.evicted_regions = managed.host.evicted_regions, 0
    pages, managed.host.new_pages = managed.host.new_pages, 0
    costs = managed.costs
    seconds = (regions * costs.evict_region_us + pages * costs.evict_new_page_us) * 1e-6
    for processor, size in done.items():
        seconds += _seconds(size, _migration_gb_per_s(processor, ON_HOST))
    if seconds:
        _spend(stream, seconds)


def _migration_gb_per_s(source: int, target: int) -> float:
    """Bandwidth between two processors, at least one of which is a GPU."""
    to_gpu = target != ON_HOST
    migration = state().cards[(target if to_gpu else source) - FIRST_GPU].gpu.memory.migration
    assert migration is not None
    return migration.copy_gb_per_s[source if to_gpu else target]


def _pages(address: int) -> PageTable | None:
    """The page table of the managed memory that holds an address; None for other memory, or if pages do not move."""
    managed = state().managed
    found = holder(address) if managed is not None else None
    return managed.tables.get(found.address) if managed is not None and found is not None else None


def _place(address: int) -> Device | str:
    """The device in whose memory an address is, or its kind of host memory (empty for ordinary memory). Managed memory is where the address's page is; until it
    is first touched, the page belongs to the device that allocated it.
    """
    found = holder(address)
    if found is None:
        return ""
    table = _pages(address)
    if table is not None:
        place = int(table.part(address, 1)[0, PG_PLACE])
        if place == ON_HOST:
            return HOST
        if place >= FIRST_GPU:
            return state().cards[place - FIRST_GPU]
    kind = kinds.get(found.address, ("",))[0]
    return kind if kind in (HOST, REGISTERED) else device_at(address)


def _host_gb_per_s(device: Device) -> float:
    """Bandwidth of copies between page-locked host memory and a device; over NVLink if the machine has one between the two."""
    machine = state().machine
    way = host_route(machine, device.index) if machine is not None else None
    return way.copy_gb_per_s if way is not None else device.gpu.chip.transfer.host_copy_gb_per_s


def _host_seconds(device: Device, size: int, kind: str) -> float:
    transfer = device.gpu.chip.transfer
    bandwidth = _host_gb_per_s(device) if kind else transfer.pageable_copy_gb_per_s
    return transfer.host_copy_latency_us * 1e-6 + _seconds(size, bandwidth)


def _seconds(size: int, gb_per_s: float) -> float:
    return size / (gb_per_s * 1e9)


def _spend(stream: Stream, seconds: float, engine: tuple[Device, str] | None = None) -> None:
    begin = state().begin(stream)
    if engine is not None:
        device, direction = engine
        begin = max(begin, device.engines_free.get(direction, 0))
        device.engines_free[direction] = begin + picoseconds(seconds)
    stream.ps = begin + picoseconds(seconds)
