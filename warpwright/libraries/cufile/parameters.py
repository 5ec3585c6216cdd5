"""Parameters and properties, which can be set and read but do not affect transfers.

Defaults are those of libcufile without a configuration file (GPUDirect Storage, "cuFile configuration file"); the driver of GPUDirect Storage is reported as absent, as in cuFile's
compatibility mode.
"""

from __future__ import annotations

from warpwright.driver import cmemory
from warpwright.libraries.calls import entry
from warpwright.libraries.cufile.file_transfer import INVALID_VALUE
from warpwright.libraries.cufile.files import file_driver

VERSION = 1150
"""Of cuFile 1.15, in CUDA 13.0."""
_UNSUPPORTED_LIMIT, _ALREADY_OPEN = 5003, 5026
"""CU_FILE_DRIVER_UNSUPPORTED_LIMIT, _ALREADY_OPEN."""
_DIRECT_KB, _CACHE_KB, _BUFFER_CACHE_KB, _PINNED_KB, _BATCH, _POLL_KB, _BATCH_TIMEOUT_MS = 5, 6, 7, 8, 9, 10, 11
_POLLS, _COMPATIBLE = 0, 1
"""Of CUFileSizeTConfigParameter_t and CUFileBoolConfigParameter_t."""
sizes = [0, 128, 4, 8192, 4, 16384, 131072, 1024, 33554432, 128, 4, 50]
"""By CUFileSizeTConfigParameter_t."""
switches = [False, True, False, False, True, False, True, False, False, False, False, False]
"""By CUFileBoolConfigParameter_t."""
texts = ["ERROR", "", ""]
"""By CUFileStringConfigParameter_t."""
_PROPERTIES = "IIQQII6I"
"""CUfileDrvProps_t."""
_FEATURES = 0b1111
"""Of fflags: dynamic routing, batches, streams, parallel transfers."""


@entry("cuFileGetVersion")
def get_version(place: int) -> int | None:
    if not place:
        return INVALID_VALUE
    cmemory.put32(place, VERSION)
    return None


@entry("cuFileDriverGetProperties")
def get_properties(place: int) -> int | None:
    if not place:
        return INVALID_VALUE
    control = switches[_POLLS] | switches[_COMPATIBLE] << 1
    kib = (sizes[n] for n in (_CACHE_KB, _BUFFER_CACHE_KB, _PINNED_KB, _BATCH, _BATCH_TIMEOUT_MS))
    values = (0, 0, sizes[_POLL_KB], sizes[_DIRECT_KB], 0, control, _FEATURES, *kib)
    cmemory.write(_PROPERTIES, place, *values)
    return None


def _register_limit(name: str, number: int) -> None:
    @entry(name)
    def put(size_kb: int) -> int | None:
        """Set a limit, a multiple of 4 KB."""
        if not size_kb or size_kb % 4:
            return _UNSUPPORTED_LIMIT
        sizes[number] = size_kb
        return None


for _name, _number in (("DirectIOSize", _DIRECT_KB), ("CacheSize", _CACHE_KB), ("PinnedMemSize", _PINNED_KB)):
    _register_limit(f"cuFileDriverSetMax{_name}", _number)


@entry("cuFileDriverSetPollMode")
def set_poll_mode(polls: int, threshold_kb: int) -> None:
    switches[_POLLS], sizes[_POLL_KB] = bool(polls & 1), threshold_kb


@entry("cuFileGetParameterSizeT")
def get_size(number: int, place: int) -> int | None:
    if not (place and 0 <= number < len(sizes)):
        return INVALID_VALUE
    cmemory.put64(place, sizes[number])
    return None


@entry("cuFileGetParameterBool")
def get_switch(number: int, place: int) -> int | None:
    if not (place and 0 <= number < len(switches)):
        return INVALID_VALUE
    cmemory.write("?", place, switches[number])
    return None


@entry("cuFileGetParameterString")
def get_text(number: int, place: int, room: int) -> int | None:
    if not (place and room > 0 and 0 <= number < len(texts)):
        return INVALID_VALUE
    cmemory.put_text(place, texts[number], room)
    return None


@entry("cuFileSetParameterSizeT")
def set_size(number: int, value: int) -> int | None:
    """Parameters can be changed until cuFile's driver is opened."""
    if file_driver.opened:
        return _ALREADY_OPEN
    if not 0 <= number < len(sizes):
        return INVALID_VALUE
    sizes[number] = value
    return None


@entry("cuFileSetParameterBool")
def set_switch(number: int, value: int) -> int | None:
    if file_driver.opened:
        return _ALREADY_OPEN
    if not 0 <= number < len(switches):
        return INVALID_VALUE
    switches[number] = bool(value & 1)
    return None


@entry("cuFileSetParameterString")
def set_text(number: int, place: int) -> int | None:
    if file_driver.opened:
        return _ALREADY_OPEN
    if not (place and 0 <= number < len(texts)):
        return INVALID_VALUE
    texts[number] = cmemory.text(place)
    return None
