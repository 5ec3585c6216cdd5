"""NVML's calls about errors of memory: counters, remapped rows, retired pages (``faults``).

A device without injected errors answers like a card without errors.
"""

from __future__ import annotations

from warpwright.driver import cmemory
from warpwright.driver.nvml import INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_SUPPORTED, device_of_handle, nvml
from warpwright.faults import DeviceFaults
from warpwright.faults.error_counters import Counts
from warpwright.faults.remapping import CORRECTED, FIRST_ROW_REMAPPER, UNCORRECTABLE

_KINDS = ("corrected", "uncorrectable")
"""nvmlMemoryErrorType_t."""
_VOLATILE, _AGGREGATE = 0, 1
"""nvmlEccCounterType_t."""
_PLACES: dict[int, tuple[str, ...]] = {
    0: ("shared",),
    1: ("l2",),
    2: ("dram",),
    3: ("registers",),
    7: ("l2", "registers", "shared"),
}
"""nvmlMemoryLocation_t: L1 cache, L2 cache, device memory, register file, all SRAM."""
_HISTOGRAM = ("max", "high", "partial", "low", "none")
_CAUSES = {0: CORRECTED, 1: UNCORRECTABLE}
"""nvmlPageRetirementCause_t."""


def _faults(handle: int) -> DeviceFaults | None:
    gpu = device_of_handle(handle).made_gpu
    return gpu.injected if gpu is not None else None


def _remaps(handle: int) -> bool:
    return device_of_handle(handle).gpu.chip.arch >= FIRST_ROW_REMAPPER


def _counters(handle: int, counter: int) -> dict[str, Counts]:
    faults = _faults(handle)
    if faults is None:
        return {}
    return faults.log.aggregate if counter == _AGGREGATE else faults.log.volatile


def _sum(handle: int, kind: int, counter: int, structures: tuple[str, ...] | None) -> int:
    counters = _counters(handle, counter)
    return sum(getattr(c, _KINDS[kind]) for name, c in counters.items() if structures is None or name in structures)


@nvml("nvmlDeviceGetTotalEccErrors")
def total_errors(handle: int, kind: int, counter: int, place: int) -> int:
    device_of_handle(handle)
    if kind not in (0, 1) or counter not in (_VOLATILE, _AGGREGATE):
        return INVALID_ARGUMENT
    cmemory.put64(place, _sum(handle, kind, counter, None))
    return 0


@nvml("nvmlDeviceGetMemoryErrorCounter")
def error_counter(handle: int, kind: int, counter: int, location: int, place: int) -> int:
    device_of_handle(handle)
    if kind not in (0, 1) or counter not in (_VOLATILE, _AGGREGATE):
        return INVALID_ARGUMENT
    if location not in _PLACES:
        return NOT_SUPPORTED
    cmemory.put64(place, _sum(handle, kind, counter, _PLACES[location]))
    return 0


@nvml("nvmlDeviceGetEccMode")
def ecc_mode(handle: int, current: int, pending: int) -> None:
    device_of_handle(handle)
    faults = _faults(handle)
    for place in (current, pending):
        cmemory.put32(place, int(faults is None or faults.ecc))


@nvml("nvmlDeviceClearEccErrorCounts")
def clear(handle: int, counter: int) -> int:
    device_of_handle(handle)
    if counter not in (_VOLATILE, _AGGREGATE):
        return INVALID_ARGUMENT
    faults = _faults(handle)
    if faults is not None:
        faults.log.clear(faults.log.aggregate if counter == _AGGREGATE else faults.log.volatile)
    return 0


@nvml("nvmlDeviceGetRemappedRows")
def remapped_rows(handle: int, corrected: int, uncorrectable: int, pending: int, failed: int) -> int:
    if not _remaps(handle):
        return NOT_SUPPORTED
    faults = _faults(handle)
    counts = faults.remapper.counts() if faults is not None else (0, 0)
    cmemory.put32(corrected, counts[0])
    cmemory.put32(uncorrectable, counts[1])
    cmemory.put32(pending, int(faults is not None and bool(faults.remapper.pending)))
    cmemory.put32(failed, int(faults is not None and faults.remapper.failed))
    return 0


@nvml("nvmlDeviceGetRowRemapperHistogram")
def histogram(handle: int, place: int) -> int:
    if not _remaps(handle):
        return NOT_SUPPORTED
    faults, chip = _faults(handle), device_of_handle(handle).gpu.chip
    banks = chip.dram.dram_channel_count * chip.dram.dram_bank_count
    found = faults.remapper.histogram(chip) if faults is not None else {"max": banks}
    cmemory.write("5I", place, *(found.get(name, 0) for name in _HISTOGRAM))
    return 0


def _retired(handle: int, cause: int, count: int, addresses: int) -> int:
    if _remaps(handle):
        return NOT_SUPPORTED
    if cause not in _CAUSES:
        return INVALID_ARGUMENT
    faults = _faults(handle)
    pages = [page for page, why in faults.retired.pages.items() if why == _CAUSES[cause]] if faults is not None else []
    given = cmemory.get32(count)
    cmemory.put32(count, len(pages))
    if not addresses:
        return 0 if not given else INVALID_ARGUMENT
    if given < len(pages):
        return INSUFFICIENT_SIZE
    for n, page in enumerate(sorted(pages)):
        cmemory.put64(addresses + 8 * n, page)
    return 0


@nvml("nvmlDeviceGetRetiredPages")
def retired_pages(handle: int, cause: int, count: int, addresses: int) -> int:
    return _retired(handle, cause, count, addresses)


@nvml("nvmlDeviceGetRetiredPages_v2")
def retired_pages_2(handle: int, cause: int, count: int, addresses: int, timestamps: int) -> int:
    """Times are 0: a simulated card has no date."""
    code = _retired(handle, cause, count, addresses)
    if not code and addresses and timestamps:
        for n in range(cmemory.get32(count)):
            cmemory.put64(timestamps + 8 * n, 0)
    return code


@nvml("nvmlDeviceGetRetiredPagesPendingStatus")
def retirement_pending(handle: int, place: int) -> int:
    """Always none: a page is no longer allocated as soon as it is retired."""
    if _remaps(handle):
        return NOT_SUPPORTED
    cmemory.put32(place, 0)
    return 0
