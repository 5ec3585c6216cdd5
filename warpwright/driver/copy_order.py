"""The bytes that copies and fills access in a stream's order, and whether the host waits for them, for racecheck.

Fills, and copies within and between devices, return before they are done, blocking ones too; a copy from or to the host's ordinary memory
returns when it is done, one from or to its page-locked memory when it is a blocking one (driver API, "API synchronization behavior").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from warpwright.driver.driver_state import Device, Stream, state
from warpwright.driver.memory import HOST, REGISTERED, device_at, holder, kinds
from warpwright.driver.work_order import host_waits_for, races_of, submitted, watching

if TYPE_CHECKING:
    from warpwright.driver.copies import Side

Extent = tuple[int, int, int]
"""Bytes of a row, rows of a slice, slices."""


def copied(stream: Stream, source: Side | None, target: Side, extent: Extent) -> None:
    """Record the bytes that a copy (a fill if there is no source) accesses in a stream's order."""
    if not watching():
        return
    work = submitted(stream)
    touched: dict[Device, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    waits = False
    for n, side in enumerate((source, target)):
        if side is None:
            continue
        if holder(side.address) is None:
            waits = True
        else:
            touched.setdefault(device_at(side.address), ([], []))[n].extend(_ranges(side, extent))
    for device, (read, written) in touched.items():
        races = races_of(device)
        if races is not None:
            races.copied(work, read, written)
    if waits:
        host_waits_for([stream])


def _ranges(side: Side, extent: Extent) -> list[tuple[int, int]]:
    """Address and end of each row."""
    width, rows, slices = extent
    starts = (side.address + (z * side.height + y) * side.pitch for z in range(slices) for y in range(rows))
    return [(start, start + width) for start in starts]


def returned(stream: Stream, target: int, source: int) -> None:
    """Record that a blocking copy between two addresses has returned."""
    if not all(on_device(address) for address in (target, source)):
        state().host_waits(stream.ps)
        host_waits_for([stream])


def on_device(address: int) -> bool:
    """Whether an allocation holds the address that is not page-locked or registered host memory."""
    found = holder(address)
    return found is not None and kinds.get(found.address, ("",))[0] not in (HOST, REGISTERED)
