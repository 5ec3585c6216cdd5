"""Device memory and events shared between processes.

A process that shares memory moves the pages that hold it into an anonymous file, whose offsets are those of the device's memory;
another maps these pages among its own.  Both processes then see each other's accesses, as on one card.  A handle
identifies the process, its file and the offset; pools and the virtual-memory API pass the file itself.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from dataclasses import dataclass

from warpwright.driver import cmemory, results
from warpwright.driver.calls import entry
from warpwright.driver.cuda_error import CudaError
from warpwright.driver.driver_state import state
from warpwright.driver.entry_points import IpcHandle
from warpwright.driver.memory import DEVICE, IMPORTED, holder, kinds, memory_of, releasers
from warpwright.driver.pools import Pool, add_pool, pool_of
from warpwright.driver.streams import Event
from warpwright.driver.vmm import Physical, map_pages
from warpwright.engine.abi import HERE
from warpwright.engine.allocation import Allocation
from warpwright.engine.device_memory import DeviceMemory

_HANDLE = struct.Struct("<8sIIQQQ")
"""Layout of a handle: magic, process, file, offset of the first page, offset of the memory in it, size."""
_MEMORY, _EVENT = b"WWmemory", b"WWevent\0"
POSIX_FILE = 1
"""CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR."""


class _SharedFile:
    """The pages of this process's device memory that others may map."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.memory = memory
        self.file = os.memfd_create("warpwright shared device memory")
        os.ftruncate(self.file, self.memory.span_bytes)
        self._moved: set[int] = set()

    def share(self, allocation: Allocation) -> tuple[int, int, int]:
        """Move an allocation's pages into the file; returns the offset of the first page, the memory's offset in it,
        and its size."""
        base = self.memory.base
        first = (allocation.address - base) // mmap.PAGESIZE * mmap.PAGESIZE
        end = -(-(allocation.end - base) // mmap.PAGESIZE) * mmap.PAGESIZE
        page = first
        while page < end:
            start = page
            while page < end and page not in self._moved:
                page += mmap.PAGESIZE
            if page > start:
                contents = self.memory.view(base + start, page - start, read_only=True)
                os.pwrite(self.file, contents.data, start)
                map_pages(base + start, page - start, self.file, start)
                self._moved.update(range(start, page, mmap.PAGESIZE))
            page += mmap.PAGESIZE
        self.memory.keep_pages(first, end)
        return first, allocation.address - base - first, allocation.size_bytes


_files: dict[DeviceMemory, _SharedFile] = {}


def _shared_file(memory: DeviceMemory) -> _SharedFile:
    if memory not in _files:
        _files[memory] = _SharedFile(memory)
    return _files[memory]


@dataclass(slots=True)
class _Import:
    """Memory of another process: reserved addresses, the allocation that kernels see, the pages, number of times
    opened."""

    memory: DeviceMemory
    whole: Allocation
    seen: Allocation
    page: int
    length: int
    key: bytes
    opened: int = 1


_imports: dict[int, _Import] = {}


def _import(file: int, offset: int, lead: int, size: int, key: bytes) -> int:
    """Address of another process's memory in this one."""
    for address, one in _imports.items():
        if one.key == key:
            one.opened += 1
            return address
    s = state()
    context = s.current()
    memory = s.gpu.memory
    length = -(-(lead + size) // mmap.PAGESIZE) * mmap.PAGESIZE
    whole = memory.allocate(length + mmap.PAGESIZE, "reserved addresses")
    memory.hide(whole)
    page = -(-whole.address // mmap.PAGESIZE) * mmap.PAGESIZE
    map_pages(page, length, file, offset)
    seen = memory.map(page + lead, size, f"{IMPORTED}, {size:,} bytes", HERE)
    _imports[seen.address] = _Import(memory, whole, seen, page, length, key)
    kinds[seen.address] = (IMPORTED, 0, context)
    return seen.address


def close(address: int) -> None:
    """Close an imported allocation.

    Raises:
        CudaError: if the address is not an imported allocation.
    """
    one = _imports.get(address)
    if one is None:
        raise CudaError(results.INVALID_VALUE)
    one.opened -= 1
    if one.opened:
        return
    del _imports[address], kinds[address]
    one.memory.unmap(one.seen)
    map_pages(one.page, one.length, -1, 0)
    one.memory.show(one.whole)
    one.memory.free(one.whole)


releasers[IMPORTED] = close


def _fields(raw: bytes, mark: bytes) -> tuple[int, ...]:
    found = _HANDLE.unpack(raw[: _HANDLE.size])
    if found[0] != mark:
        raise CudaError(results.INVALID_VALUE)
    return found[1:]


def _of_process(process: int, file: int) -> int:
    """Another process's file, opened here."""
    try:
        return os.open(f"/proc/{process}/fd/{file}", os.O_RDWR | os.O_CLOEXEC)
    except OSError as reason:
        raise CudaError(results.INVALID_VALUE, f"the memory of process {process} is gone: {reason}") from None


def _put(place: int, mark: bytes, *numbers: int) -> None:
    ctypes.memmove(place, _HANDLE.pack(mark, *numbers).ljust(64, b"\0"), 64)


def _owned(address: int) -> Allocation:
    """The allocation of cuMemAlloc or of a pool that holds an address."""
    found = holder(address)
    if found is None or kinds.get(found.address, ("",))[0] != DEVICE:
        raise CudaError(results.INVALID_VALUE)
    return found


@entry("cuIpcGetMemHandle")
def get_memory(place: int, address: int) -> None:
    state().current()
    shared = _shared_file(memory_of(address))
    _put(place, _MEMORY, os.getpid(), shared.file, *shared.share(_owned(address)))


@entry("cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2")
def open_memory(place: int, handle: IpcHandle, flags: int) -> int | None:
    state().current()
    raw = bytes(handle)
    process, file, offset, lead, size = _fields(raw, _MEMORY)
    if process == os.getpid():
        return results.INVALID_CONTEXT
    here = _of_process(process, file)
    try:
        cmemory.put64(place, _import(here, offset, lead, size, raw))
    finally:
        os.close(here)
    return None


@entry("cuIpcCloseMemHandle")
def close_memory(address: int) -> None:
    state().current()
    close(address)


# --- events ------------------------------------------------------------------------------------------
_INTERPROCESS = 4
"""CU_EVENT_INTERPROCESS."""


@entry("cuIpcGetEventHandle")
def get_event(place: int, handle: int) -> int | None:
    state().current()
    event = state().handles.get(Event, handle)
    if not event.flags & _INTERPROCESS:
        return results.INVALID_HANDLE
    _put(place, _EVENT, os.getpid(), 0, handle, 0, 0)
    return None


@entry("cuIpcOpenEventHandle")
def open_event(place: int, handle: IpcHandle) -> None:
    """Work has ended when the call that submits it returns, so an event of another process has always completed."""
    s = state()
    s.current()
    _fields(bytes(handle), _EVENT)
    made = Event(_INTERPROCESS | 2, recorded=True)
    made.handle = s.handles.add(made)
    cmemory.put64(place, made.handle)


# --- pools -------------------------------------------------------------------------------------------
@entry("cuMemPoolExportToShareableHandle")
def export_pool(place: int, handle: int, kind: int, flags: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    if kind != POSIX_FILE or pool.shareable != POSIX_FILE:
        return results.INVALID_VALUE
    cmemory.put32(place, os.dup(_shared_file(pool.device.gpu.memory).file))
    return None


@entry("cuMemPoolImportFromShareableHandle")
def import_pool(place: int, file: int, kind: int, flags: int) -> int | None:
    state().check_process()
    if kind != POSIX_FILE:
        return results.INVALID_VALUE
    cmemory.put64(place, add_pool(Pool(state().device, file=os.dup(file))))
    return None


@entry("cuMemPoolExportPointer")
def export_pointer(place: int, address: int) -> None:
    state().current()
    if pool_of(address) is None:
        raise CudaError(results.INVALID_VALUE)
    _put(place, _MEMORY, os.getpid(), 0, *_shared_file(memory_of(address)).share(_owned(address)))


@entry("cuMemPoolImportPointer")
def import_pointer(place: int, handle: int, data: int) -> int | None:
    pool = state().handles.get(Pool, handle)
    raw = ctypes.string_at(data, 64)
    _, _, offset, lead, size = _fields(raw, _MEMORY)
    if pool.file < 0:
        return results.INVALID_VALUE
    cmemory.put64(place, _import(pool.file, offset, lead, size, raw))
    return None


# --- physical memory ---------------------------------------------------------------------------------
def _shareable(memory: Physical) -> bool:
    """Whether memory was created as exportable, or is imported."""
    return not memory.properties or struct.unpack_from("<i", memory.properties, 4)[0] == POSIX_FILE


@entry("cuMemExportToShareableHandle")
def export_physical(place: int, handle: int, kind: int, flags: int) -> int | None:
    memory = state().handles.get(Physical, handle)
    if kind != POSIX_FILE or not _shareable(memory):
        return results.INVALID_VALUE
    cmemory.put32(place, os.dup(memory.file))
    return None


@entry("cuMemImportFromShareableHandle")
def import_physical(place: int, file: int, kind: int) -> int | None:
    s = state()
    s.check_process()
    if kind != POSIX_FILE:
        return results.INVALID_VALUE
    here = os.dup(file)
    pinned_on_device = struct.pack("<8i", 1, POSIX_FILE, 1, 0, 0, 0, 0, 0)
    cmemory.put64(place, s.handles.add(Physical(here, os.fstat(here).st_size, s.device, properties=pinned_on_device)))
    return None
