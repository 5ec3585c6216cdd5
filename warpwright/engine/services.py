"""Driver services for kernels: printf, malloc, free and assert, the operation ``service``.

Output is collected while a launch runs and emitted when it has ended, as a card's buffer is at synchronisation.  The
heap of ``malloc`` is one allocation for all kernels of a device, as large as CUDA's default limit
(cudaLimitMallocHeapSize, CUDA C++ Programming Guide, "Dynamic Global Memory Allocation").
"""

from __future__ import annotations

import ctypes
import re
import struct
import weakref
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from warpwright.engine.abi import BLOCK, LOCAL_WINDOW, SHARED_WINDOW, WARP, WINDOW_BYTES
from warpwright.engine.allocation import Allocation
from warpwright.engine.child_launches import DeviceLaunches
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.faults import thread_of
from warpwright.engine.geometry import Dim3
from warpwright.engine.graph_condition_values import set_condition
from warpwright.engine.graph_launch_requests import request
from warpwright.engine.graph_node_updates import UPDATES
from warpwright.engine.graph_node_updates import serve as update_node
from warpwright.engine.launch import LaunchContext
from warpwright.isa.program import Program
from warpwright.toolchain.demangle import plain_name

HEAP_BYTES = 8 << 20
HEAP_ALIGNMENT_BYTES = 16
HEAP_GAP_BYTES = 16
"""Minimum distance between two pieces of the heap, so that memcheck detects accesses past the end of one."""
LONGEST_STRING = 4096
PRINTF_BUFFER_BYTES = 1 << 20
"""cudaLimitPrintfFifoSize's default."""

Reader = Callable[[int, int, int], bytes]
"""Reads (lane, generic address, size) as bytes; raises IndexError for an invalid address."""
Writer = Callable[[int, int, bytes], None]
"""Stores bytes at (lane, generic address); raises IndexError for an invalid address."""
Words = Sequence[npt.NDArray[np.uint32]]
_SPECIFIER = re.compile(rb"%[-+ #0]*(\*|\d+)?(?:\.(\*|\d+)?)?(hh|h|ll|l|z|t|j|L)?([diouxXcspfFeEgGaA%n])")


HEAP_NAME = "heap of device malloc"
HeapState = tuple[list[tuple[int, int]], dict[int, "HeapPiece"]]
"""Free ranges (address, bytes), and allocations by address."""


class HeapCall(NamedTuple):
    """The caller of ``malloc`` or ``free``."""

    program: Program
    instruction: int
    """Byte address of the call; -1 where it is not known."""
    block: Dim3
    thread: Dim3


class HeapPiece(NamedTuple):
    """The result of one call of ``malloc``."""

    size_bytes: int
    """Requested bytes."""
    room_bytes: int
    """Bytes taken, including the gap after it."""
    by: HeapCall


class DeviceHeap:
    """The heap of device ``malloc``: first fit, kept between launches."""

    def __init__(self, memory: DeviceMemory) -> None:
        self.allocation: Allocation = memory.allocate(HEAP_BYTES, HEAP_NAME, undefined=True)
        self._memory = memory
        self._free: list[tuple[int, int]] = [(self.allocation.address, HEAP_BYTES)]
        self._live: dict[int, HeapPiece] = {}
        self._freed: dict[int, HeapPiece] = {}

    def allocate(self, size: int, by: HeapCall) -> int:
        """Address of ``size`` bytes, or 0 if there is no room, as on a card."""
        wanted = -(-max(size, 1) // HEAP_ALIGNMENT_BYTES) * HEAP_ALIGNMENT_BYTES + HEAP_GAP_BYTES
        for i, (address, room) in enumerate(self._free):
            if room >= wanted:
                if room == wanted:
                    del self._free[i]
                else:
                    self._free[i] = (address + wanted, room - wanted)
                self._live[address] = HeapPiece(size, wanted, by)
                self._freed.pop(address, None)
                if self._memory.observer is not None:
                    self._memory.observer.emptied(address, size)
                return address
        return 0

    def table(self) -> npt.NDArray[np.uint64]:
        """First byte and the one after the last of each piece, ascending, shape (pieces, 2)."""
        rows = sorted((address, address + piece.size_bytes) for address, piece in self._live.items())
        return np.array(rows, np.uint64).reshape(-1, 2)

    def pieces(self) -> dict[int, HeapPiece]:
        """Allocations that have not been freed, by address."""
        return dict(self._live)

    def explain(self, address: int) -> str:
        """A description of the pieces around an address that no piece contains."""
        for pieces, what in ((self._freed, ", which were freed"), (self._live, "")):
            for first, piece in pieces.items():
                if first <= address < first + piece.room_bytes:
                    behind = address - first - piece.size_bytes
                    where = (
                        f"byte {address - first:,} of"
                        if behind < 0
                        else f"{behind:,} bytes past the end of"
                        if behind
                        else "directly after the end of"
                    )
                    kernel = plain_name(piece.by.program.name)
                    return f"it is {where} {piece.size_bytes:,} bytes that malloc gave to kernel {kernel}{what}"
        return "it is in the heap of device malloc, but in no allocation"

    def mark(self) -> Callable[[], None]:
        """A token that restores the heap to its current state."""
        free, live = list(self._free), dict(self._live)

        def restore() -> None:
            self._free, self._live = free, live

        return restore

    def state(self) -> HeapState:
        """The current heap, for :meth:`become`."""
        return list(self._free), dict(self._live)

    def become(self, state: HeapState) -> None:
        """Restore a saved heap."""
        self._free, self._live = list(state[0]), dict(state[1])

    def was_freed(self, address: int) -> bool:
        """Whether an address is that of a freed piece."""
        return address in self._freed

    def free(self, address: int) -> bool:
        """Free memory; returns False if the pointer is not a piece of the heap."""
        piece = self._live.pop(address, None)
        if piece is None:
            return address == 0
        self._freed[address] = piece
        insort(self._free, (address, piece.room_bytes))
        joined: list[tuple[int, int]] = []
        for at, room in self._free:
            if joined and sum(joined[-1]) == at:
                joined[-1] = (joined[-1][0], joined[-1][1] + room)
            else:
                joined.append((at, room))
        self._free = joined
        return True


_heaps: weakref.WeakKeyDictionary[DeviceMemory, DeviceHeap] = weakref.WeakKeyDictionary()


def existing_heap(memory: DeviceMemory) -> DeviceHeap | None:
    """A device's heap, if a kernel has used it."""
    found = _heaps.get(memory)
    return None if found is None or found.allocation.freed else found


def heap_of(memory: DeviceMemory) -> DeviceHeap:
    """A device's heap, created when a kernel that uses it is first launched."""
    found = existing_heap(memory)
    if found is None:
        found = _heaps[memory] = DeviceHeap(memory)
    return found


class HeapGuard(Protocol):
    """Observer of the heap during a launch."""

    def heap_changed(self) -> None:
        """``malloc`` or ``free`` was called."""

    def bad_free(self, address: int, freed: bool, by: HeapCall) -> None:
        """A thread frees an address that is not a piece of the heap; ``freed``: it was one before."""


@dataclass(frozen=True, slots=True)
class ServicesState:
    """The effects of a launch's services so far."""

    output: bytes
    lost: bool
    assertions: tuple[str, ...]
    heap: HeapState | None


@dataclass(frozen=True, slots=True)
class CallingWarp:
    """A warp that calls a service."""

    block: Dim3
    """Index (x, y, z) of its block."""
    number: int
    """The warp's number in its block."""
    read: Reader
    write: Writer
    """How the service reaches the memory of one of its lanes."""


class LaunchServices:
    """Output, heap and child launches of one launch."""

    def __init__(self, context: LaunchContext, launches: DeviceLaunches | None = None) -> None:
        self.context = context
        self.launches = launches
        self.heap = heap_of(context.memory) if "malloc" in context.program.services else None
        self.output = bytearray()
        self.lost = False
        self.assertions: list[str] = []
        self.failure: BaseException | None = None
        self.guard: HeapGuard | None = None
        """Observer of the heap."""
        self.bad_string: Callable[[int, HeapCall], None] | None = None
        """Called with addresses that ``printf`` is to print as text but that are not in memory."""

    def serve(
        self,
        name: str,
        lanes: Sequence[int],
        words: Words,
        warp: CallingWarp,
        instruction: int = -1,
    ) -> npt.NDArray[np.uint64]:
        """Execute the service for each lane, lowest first; returns the lanes' results.

        Args:
            instruction: byte address of the call; -1 if unknown.
        """
        result = np.zeros(32, np.uint64)
        for lane in lanes:
            arguments = [int(w[lane]) for w in words]
            if name == "vprintf":
                by = partial(self._caller, instruction, warp, lane)
                result[lane] = self._print(lane, _address(arguments, 0), _address(arguments, 2), warp.read, by)
            elif name == "malloc" and self.heap is not None:
                result[lane] = self.heap.allocate(_address(arguments, 0), self._caller(instruction, warp, lane))
                self._heap_changed()
            elif name == "free":
                self._free(_address(arguments, 0), self._caller(instruction, warp, lane))
            elif name == "__assertfail":
                self._assert(lane, arguments, warp)
            elif name == "cudaGraphSetConditional":
                set_condition(_address(arguments, 0), arguments[2])
            elif name == "cudaGraphLaunch":
                result[lane] = request(self.context.memory, _address(arguments, 0), _address(arguments, 2))
            elif name in UPDATES:
                result[lane] = update_node(name, arguments, partial(warp.read, lane))
            elif self.launches is not None:
                if name.endswith("StreamCreate"):
                    warp.write(lane, _address(arguments, 0), self.launches.new_stream().to_bytes(8, "little"))
                else:
                    result[lane] = self._launch(self.launches, name.rpartition("cnpv2")[2], arguments)
        return result

    def _caller(self, instruction: int, warp: CallingWarp, lane: int) -> HeapCall:
        thread = thread_of(self.context.geometry, warp.number, lane)
        return HeapCall(self.context.program, instruction, warp.block, thread)

    def _free(self, address: int, by: HeapCall) -> None:
        heap = heap_of(self.context.memory)
        if not heap.free(address) and self.guard is not None:
            self.guard.bad_free(address, heap.was_freed(address), by)
        self._heap_changed()

    def _heap_changed(self) -> None:
        if self.guard is not None:
            self.guard.heap_changed()

    def _launch(self, launches: DeviceLaunches, name: str, words: Sequence[int]) -> int:
        """A function of the device runtime."""
        if name == "GetParameterBufferV2":
            grid, block = (words[2], words[3], words[4]), (words[5], words[6], words[7])
            return launches.parameters(_address(words, 0), grid, block, words[8])
        if name == "LaunchDeviceV2":
            return launches.launch(_address(words, 0))
        if name == "SetLastError":
            launches.last_error = words[0]
            return words[0]
        if name == "GetLastError":
            return launches.last_error
        return 0  # StreamDestroy

    def _print(self, lane: int, form: int, values: int, read: Reader, by: Callable[[], HeapCall]) -> int:
        def string(address: int) -> bytes | None:
            found = _string(read, lane, address)
            if found is None and self.bad_string is not None:
                self.bad_string(address, by())
            return found

        text = string(form)
        if text is None:
            return 0xFFFF_FFFF
        printed, count = format_text(text, lambda offset, size: read(lane, values + offset, size), string)
        if len(self.output) + len(printed) <= PRINTF_BUFFER_BYTES:
            self.output += printed
        else:
            self.lost = True
        return count

    def _assert(self, lane: int, arguments: list[int], warp: CallingWarp) -> None:
        message, file, function = (_string(warp.read, lane, _address(arguments, at)) or b"?" for at in (0, 2, 5))
        block, thread = warp.block, thread_of(self.context.geometry, warp.number, lane)
        place = f"block: [{block[0]},{block[1]},{block[2]}], thread: [{thread[0]},{thread[1]},{thread[2]}]"
        shown = [x.decode(errors="replace") for x in (file, function, message)]
        self.assertions.append(f"{shown[0]}:{arguments[4]}: {shown[1]}: {place} Assertion `{shown[2]}` failed.")

    def mark(self) -> Callable[[], None]:
        """A token that undoes all later effects, if a block is restarted by the other engine."""
        printed, lost, asserted = len(self.output), self.lost, len(self.assertions)
        heap = self._own_heap()
        restore = heap.mark() if heap is not None else None

        def take_back() -> None:
            del self.output[printed:], self.assertions[asserted:]
            self.lost = lost
            if restore is not None:
                restore()

        return take_back

    def state(self) -> ServicesState:
        """All effects so far, for :meth:`become`."""
        heap = self._own_heap()
        return ServicesState(
            bytes(self.output), self.lost, tuple(self.assertions), heap.state() if heap is not None else None
        )

    def become(self, state: ServicesState) -> None:
        """Restore saved effects: the launch is repeated from there, or its own run counts after all."""
        self.output[:] = state.output
        self.lost, self.assertions[:] = state.lost, state.assertions
        heap = self._own_heap()
        if heap is not None and state.heap is not None:
            heap.become(state.heap)

    def _own_heap(self) -> DeviceHeap | None:
        return heap_of(self.context.memory) if {"malloc", "free"} & set(self.context.program.services) else None

    # --- compiled code ----------------------------------------------------------------------------
    def native(self) -> Any:
        """The C function that compiled code calls: (WARP, lanes, number of the service, words, instruction)."""
        names = tuple(self.context.program.services)

        def call(warp: int, lanes: int, number: int, values: int, instruction: int) -> None:
            try:
                self._serve_native(names[number], warp, lanes, values, instruction)
            except BaseException as failure:
                self.failure = failure

        word, double = ctypes.c_uint32, ctypes.c_uint64
        return ctypes.CFUNCTYPE(None, double, word, word, double, double)(call)

    def _serve_native(self, name: str, warp: int, lanes: int, values: int, instruction: int) -> None:
        table = np.ctypeslib.as_array((ctypes.c_uint32 * 512).from_address(values)).reshape(16, 32)
        block = _word(warp + WARP["block"])
        local, shared = _word(warp + WARP["local_base"]), _word(block + BLOCK["shared_base"])
        room = _word(block + BLOCK["shared_bytes"])
        index = tuple(_word(block + BLOCK[f"index_{axis}"]) for axis in "xyz")

        def places(lane: int, address: int, size: int) -> Sequence[int] | None:
            """Host addresses of bytes of local or shared memory; None for addresses in neither."""
            if LOCAL_WINDOW <= address < LOCAL_WINDOW + WINDOW_BYTES:
                offset = address - LOCAL_WINDOW
                return [local + (at // 4 * 32 + lane) * 4 + at % 4 for at in range(offset, offset + size)]
            if SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES:
                offset = address - SHARED_WINDOW
                if offset + size > room:
                    raise IndexError(address)
                return range(shared + offset, shared + offset + size)
            return None

        def read(lane: int, address: int, size: int) -> bytes:
            here = places(lane, address, size)
            return self.read_global(address, size) if here is None else b"".join(ctypes.string_at(at, 1) for at in here)

        def write(lane: int, address: int, contents: bytes) -> None:
            here = places(lane, address, len(contents))
            if here is None:
                self.read_global(address, len(contents))
                self.context.memory.view(address, len(contents))[...] = np.frombuffer(contents, np.uint8)
                return
            for at, byte in zip(here, contents, strict=True):
                ctypes.c_uint8.from_address(at).value = byte

        chosen = [lane for lane in range(32) if lanes >> lane & 1]
        number = _word(warp + WARP["warp_in_block"])
        caller = CallingWarp((index[0], index[1], index[2]), number, read, write)
        result = self.serve(name, chosen, list(table.copy()), caller, instruction)
        table[0] = result.astype(np.uint32)
        table[1] = (result >> np.uint64(32)).astype(np.uint32)

    def read_global(self, address: int, size: int) -> bytes:
        """Bytes of global memory, within one allocation."""
        memory = self.context.memory
        found = memory.find(address)
        if found is None or address + size > found.end:
            raise IndexError(address)
        return memory.view(address, size, read_only=True).tobytes()


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _address(words: Sequence[int], at: int) -> int:
    return words[at] | words[at + 1] << 32


def _string(read: Reader, lane: int, address: int) -> bytes | None:
    """A C string in device memory; None if it is not in memory."""
    found = bytearray()
    try:
        while len(found) < LONGEST_STRING:
            byte = read(lane, address + len(found), 1)
            if byte == b"\0":
                return bytes(found)
            found += byte
    except IndexError:
        return bytes(found) if found else None
    return bytes(found)


def format_text(
    form: bytes, argument: Callable[[int, int], bytes], string: Callable[[int], bytes | None]
) -> tuple[bytes, int]:
    """The text that printf produces for a format, and the number of its arguments.

    Args:
        argument: bytes of the argument buffer (offset, size).  Arguments are in it as in a structure: 4 bytes for integers of
            32 bits and less, 8 for others, doubles and pointers, each aligned to its size.
        string: the C string at an address.
    """
    libc = ctypes.CDLL(None)
    at, count = 0, 0

    def take(size: int) -> bytes:
        nonlocal at, count
        at = -(-at // size) * size
        raw = argument(at, size)
        at += size
        count += 1
        return raw

    def show(match: re.Match[bytes]) -> bytes:
        width, precision, length, kind = match[1], match[2], match[3] or b"", match[4]
        if kind == b"%":
            return b"%"
        if kind == b"n":
            return b""
        specifier = match[0]
        for star in (width, precision):
            if star == b"*":
                specifier = specifier.replace(b"*", str(struct.unpack("<i", take(4))[0]).encode(), 1)
        value: Any
        if kind in b"fFeEgGaA":
            value = ctypes.c_double(struct.unpack("<d", take(8))[0])
            specifier = specifier.replace(b"L", b"")
        elif kind == b"s":
            value = string(struct.unpack("<Q", take(8))[0])
            value = ctypes.c_char_p(b"(null)" if value is None else value)
        elif kind == b"p":
            value = ctypes.c_void_p(struct.unpack("<Q", take(8))[0])
        elif kind in b"diouxX" and length in (b"l", b"ll", b"z", b"t", b"j"):
            value = ctypes.c_int64(struct.unpack("<q", take(8))[0])
        else:
            value = ctypes.c_int32(struct.unpack("<i", take(4))[0])
        room = 512 + LONGEST_STRING
        buffer = ctypes.create_string_buffer(room)
        written = int(libc.snprintf(buffer, ctypes.c_size_t(room), specifier, value))
        return buffer.raw[: min(max(written, 0), room - 1)]

    try:
        return _SPECIFIER.sub(show, form), count
    except IndexError:
        return form, count


def emit(services: LaunchServices, write: Callable[[bytes], None]) -> None:
    """Emit the output of a launch."""
    if services.output:
        write(bytes(services.output))
        services.output.clear()
