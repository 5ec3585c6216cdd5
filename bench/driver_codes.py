"""What a driver answers to calls with wrong arguments: ``python -m bench.driver_codes --out FILE`` on a card.

Each row is a call with its arguments; kept are its code and, where the row asks for one, the value that it stores.  The same
rows are asked of Warpwright's driver (``tests/test_driver_codes.py``).  A process asks one row after the other; where it dies,
as a real driver does of some null pointers, the row says so and another process goes on behind it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.driver_answers import MIB, Library

INT, WORD, ROOM, NULL = "int", "word", "room", 0
"""Places that a call writes: an int or a 64-bit word that is kept, and room of which nothing is kept."""
PARTS = 8
"""Processes at a time."""
SECONDS = 60
"""How long one of them may take."""
KERNELS = b"""
.version 7.8
.target sm_80
.address_size 64
.global .align 8 .b8 table[64];
.visible .entry store(.param .u64 place, .param .u32 value)
{
    .reg .b64 %a;
    .reg .b32 %v;
    .shared .align 4 .b8 kept[256];
    ld.param.u64 %a, [place];
    ld.param.u32 %v, [value];
    st.shared.u32 [kept], %v;
    ld.shared.u32 %v, [kept];
    st.global.u32 [%a], %v;
    ret;
}
.visible .entry nothing() { ret; }
.visible .entry few() .maxntid 64, 1, 1 { ret; }
.visible .entry stops() { trap; ret; }
"""
Row = tuple[str, Callable[[], Any]]


class World:
    """A context with one object of each kind."""

    def __init__(self) -> None:
        lib = self.lib = Library()
        self.kept: list[Any] = []
        """What calls point to: it must live as long as they are made."""
        self.memory, self.managed = lib.word("cuMemAlloc_v2", MIB), lib.word("cuMemAllocManaged", MIB, 1)
        self.host = lib.word("cuMemHostAlloc", 65536, 2)
        self.plain_memory = ctypes.create_string_buffer(65536 * 2)
        self.plain = -(-ctypes.addressof(self.plain_memory) // 4096) * 4096
        self.stream, self.event = lib.word("cuStreamCreate", 1), lib.word("cuEventCreate", 0)
        self.untimed = lib.word("cuEventCreate", 2)
        self.module = lib.word("cuModuleLoadData", KERNELS)
        self.store, self.nothing, self.few = (
            lib.word("cuModuleGetFunction", self.module, n) for n in (b"store", b"nothing", b"few")
        )
        self.library = lib.word("cuLibraryLoadData", KERNELS, 0, 0, 0, 0, 0, 0)
        self.kernel = lib.word("cuLibraryGetKernel", self.library, b"store")
        self.graph, self.other_graph = lib.word("cuGraphCreate", 0), lib.word("cuGraphCreate", 0)
        self.first = lib.word("cuGraphAddEmptyNode", self.graph, 0, 0)
        self.second = lib.word("cuGraphAddEmptyNode", self.graph, words(self.first), 1)
        self.foreign = lib.word("cuGraphAddEmptyNode", self.other_graph, 0, 0)
        self.executable = lib.word("cuGraphInstantiateWithFlags", self.graph, 0)
        self.pool = lib.word("cuMemPoolCreate", pool_of())
        self.reserved = lib.word("cuMemAddressReserve", 8 * MIB, 0, 0, 0)
        self.physical = lib.word("cuMemCreate", 2 * MIB, physical_of(), 0)
        self.array = lib.word("cuArrayCreate_v2", struct.pack("<QQII", 64, 16, 0x20, 1))

    def ask(self, name: str, *arguments: Any) -> Any:
        """A call's code, or code and value where an argument is a place of one."""
        rooms = {
            n: ctypes.create_string_buffer(b"\x4d" * 4096, 4096) for n, a in enumerate(arguments) if isinstance(a, str)
        }
        code = self.lib(name, *(rooms.get(n, a) for n, a in enumerate(arguments)))
        for n, room in rooms.items():
            if arguments[n] != ROOM:
                return [code, struct.unpack_from("<i" if arguments[n] == INT else "<Q", room)[0]]
        return code


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *(v & (1 << 64) - 1 for v in values))


def pool_of(allocation: int = 1, handles: int = 0, where: int = 1, device: int = 0, size: int = 0) -> bytes:
    """A CUmemPoolProps."""
    return struct.pack("<iiiiQQH54x", allocation, handles, where, device, 0, size, 0)


def physical_of(allocation: int = 1, handles: int = 0, where: int = 1, device: int = 0) -> bytes:
    """A CUmemAllocationProp."""
    return struct.pack("<iiiiQ8x", allocation, handles, where, device, 0)


def access_of(device: int = 0, flags: int = 3, where: int = 1) -> bytes:
    """A CUmemAccessDesc."""
    return struct.pack("<iii", where, device, flags)


def devices(w: World) -> Iterator[tuple[Any, ...]]:
    """Calls that need no context."""
    yield "cuInit", 1
    yield from (("cuDeviceGet", ROOM, n) for n in (1, -1, 64))
    yield "cuDeviceGet", NULL, 0
    yield "cuDeviceGetCount", NULL
    yield "cuDriverGetVersion", NULL
    yield from (("cuDeviceGetName", ROOM, n, 0) for n in (0, 1, 4, -1))
    yield "cuDeviceGetName", NULL, 10, 0
    yield "cuDeviceGetName", ROOM, 100, 9
    yield "cuDeviceTotalMem_v2", NULL, 0
    yield "cuDeviceTotalMem_v2", ROOM, 5
    yield from (("cuDeviceGetAttribute", ROOM, n, 0) for n in (0, 999, -1))
    yield "cuDeviceGetAttribute", NULL, 1, 0
    yield "cuDeviceGetAttribute", ROOM, 1, 7
    yield "cuDeviceGetUuid_v2", NULL, 0
    yield "cuDeviceGetUuid_v2", ROOM, 3
    yield "cuDeviceComputeCapability", ROOM, ROOM, 3
    yield from (("cuDeviceGetPCIBusId", ROOM, n, 0) for n in (0, 4, 12, 13))
    yield "cuDeviceGetPCIBusId", ROOM, 13, 5
    yield from (("cuDeviceGetByPCIBusId", ROOM, n) for n in (b"nonsense", b"0000:ff:1f.0", b""))
    yield from (("cuGetErrorString", n, WORD) for n in (99999, -1))
    yield from (("cuGetErrorName", n, WORD) for n in (99999, -1))
    yield "cuGetErrorName", 1, NULL
    yield "cuDeviceCanAccessPeer", INT, 0, 0
    yield "cuDeviceCanAccessPeer", INT, 0, 1
    yield from (("cuDeviceGetP2PAttribute", INT, n, 0, 0) for n in (1, 99))
    yield from (("cuDeviceGetTexture1DLinearMaxWidth", WORD, *n, 0) for n in ((0x20, 4), (0x20, 3), (0x99, 1), (1, 1)))
    yield from (("cuDeviceGetExecAffinitySupport", INT, n, 0) for n in (0, 1, 9))
    yield "cuDeviceGetDefaultMemPool", ROOM, 4
    yield "cuDeviceGetDefaultMemPool", NULL, 0
    yield "cuDeviceGetMemPool", NULL, 0
    yield "cuDeviceSetMemPool", 0, 0
    yield "cuDevicePrimaryCtxGetState", 7, ROOM, ROOM
    yield "cuDevicePrimaryCtxGetState", 0, NULL, ROOM
    yield from (("cuDevicePrimaryCtxSetFlags_v2", 0, n) for n in (3, 0x1000))
    yield "cuDevicePrimaryCtxSetFlags_v2", 9, 0
    yield "cuDevicePrimaryCtxRelease_v2", 9
    yield "cuDevicePrimaryCtxRetain", ROOM, 9
    yield "cuDevicePrimaryCtxRetain", NULL, 0
    yield "cuDevicePrimaryCtxReset_v2", 9
    yield "cuGetProcAddress_v2", b"cuNothing", ROOM, 12000, 0, INT
    yield "cuGetProcAddress_v2", b"cuNothing", ROOM, 12000, 0, NULL
    yield "cuGetProcAddress_v2", b"cuInit", NULL, 12000, 0, NULL
    yield "cuGetProcAddress_v2", NULL, ROOM, 12000, 0, NULL
    yield "cuGetProcAddress_v2", b"cuInit", ROOM, 12000, 99, INT
    yield "cuGetProcAddress_v2", b"cuMemAllocAsync", ROOM, 10000, 0, INT
    yield "cuModuleGetLoadingMode", NULL


def contexts(w: World) -> Iterator[tuple[Any, ...]]:
    yield "cuCtxCreate_v2", NULL, 0, 0
    yield "cuCtxCreate_v2", ROOM, 0, 9
    yield from (("cuCtxCreate_v2", ROOM, n, 0) for n in (3, 5, 0x1000, -1))
    yield "cuCtxPushCurrent_v2", 0
    yield "cuCtxDestroy_v2", 0
    yield "cuCtxDestroy_v2", w.lib.context
    yield "cuCtxGetDevice", NULL
    yield "cuCtxGetCurrent", NULL
    yield "cuCtxGetFlags", NULL
    yield from (("cuCtxSetFlags", n) for n in (3, 0x1000))
    yield from (("cuCtxGetLimit", WORD, n) for n in range(12))
    yield "cuCtxGetLimit", NULL, 0
    yield from (("cuCtxSetLimit", n, 1) for n in (3, 6, 7, 9, 99))
    for limit, value in ((0, 1), (0, 1500), (0, 1 << 30), (1, 1), (1, 5 << 20), (2, 1), (4, 1), (5, 100), (5, 7)):
        yield "cuCtxSetLimit", limit, value
        yield "cuCtxGetLimit", WORD, limit
    yield "cuCtxGetCacheConfig", NULL
    yield "cuCtxGetCacheConfig", INT
    yield "cuCtxSetCacheConfig", 7
    yield "cuCtxSetSharedMemConfig", 5
    yield "cuCtxGetSharedMemConfig", INT
    yield "cuCtxGetStreamPriorityRange", NULL, NULL
    yield "cuCtxGetApiVersion", 0, ROOM
    yield "cuCtxGetApiVersion", w.lib.context, NULL
    yield "cuCtxGetApiVersion", w.lib.context, INT
    yield "cuCtxGetId", 0, NULL
    yield from (("cuCtxEnablePeerAccess", w.lib.context, n) for n in (0, 1))
    yield "cuCtxEnablePeerAccess", 0, 0
    yield "cuCtxDisablePeerAccess", w.lib.context
    yield "cuCtxDisablePeerAccess", 0
    yield "cuCtxPopCurrent_v2", NULL
    yield "cuCtxGetCurrent", WORD
    yield "cuCtxPopCurrent_v2", ROOM
    yield "cuCtxSetCurrent", w.lib.context


def memory(w: World) -> Iterator[tuple[Any, ...]]:
    m, huge = w.memory, 1 << 60
    yield from (("cuMemAlloc_v2", ROOM, n) for n in (0, huge, -1))
    yield "cuMemAlloc_v2", NULL, 16
    yield from (("cuMemFree_v2", n) for n in (0, 16, 0x1000, m + 16, w.host, w.plain))
    yield from (
        ("cuMemAllocPitch_v2", ROOM, ROOM, *n) for n in ((0, 4, 4), (4, 0, 4), (4, 4, 3), (4, 4, 0), (4, 4, 32))
    )
    yield "cuMemAllocPitch_v2", NULL, ROOM, 4, 4, 4
    yield "cuMemAllocPitch_v2", ROOM, NULL, 4, 4, 4
    yield from (("cuMemAllocPitch_v2", ROOM, WORD, *n, 4) for n in ((1, 1), (100, 3), (513, 2)))
    yield "cuMemGetInfo_v2", NULL, NULL
    yield "cuMemGetInfo_v2", NULL, ROOM
    yield from (("cuMemGetAddressRange_v2", ROOM, ROOM, n) for n in (0, 0x1000, w.plain, w.reserved))
    yield "cuMemGetAddressRange_v2", NULL, WORD, m + 5
    yield "cuMemGetAddressRange_v2", NULL, WORD, w.host + 5
    yield "cuMemGetAddressRange_v2", NULL, WORD, w.managed + 5
    yield "cuMemGetAddressRange_v2", NULL, NULL, m
    yield "cuMemAllocHost_v2", ROOM, 0
    yield "cuMemAllocHost_v2", NULL, 16
    yield from (("cuMemHostAlloc", ROOM, *n) for n in ((0, 0), (16, 8), (16, 0x80)))
    yield from (("cuMemFreeHost", n) for n in (0, w.plain, w.host + 8, m))
    yield from (("cuMemHostGetDevicePointer_v2", ROOM, *n) for n in ((w.host, 1), (w.plain, 0), (m, 0), (0, 0)))
    yield "cuMemHostGetDevicePointer_v2", NULL, w.host, 0
    yield from (("cuMemHostGetFlags", INT, n) for n in (w.host, w.plain, m, 0))
    yield from (
        ("cuMemHostRegister_v2", *n) for n in ((0, 4096, 0), (w.plain, 0, 0), (w.plain, 4096, 0x80), (w.host, 4096, 0))
    )
    yield "cuMemHostUnregister", w.plain
    yield "cuMemHostRegister_v2", w.plain, 4096, 0
    yield from (("cuMemHostRegister_v2", *n) for n in ((w.plain, 4096, 0), (w.plain + 100, 10, 0), (w.plain, 8192, 0)))
    yield from (("cuMemHostUnregister", n) for n in (w.plain + 8, w.plain, w.plain, 0, w.host))
    yield from (("cuMemAllocManaged", ROOM, *n) for n in ((0, 1), (16, 0), (16, 3), (16, 4), (16, 9)))
    yield "cuMemAllocManaged", NULL, 16, 1
    for name in ("cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"):
        for far, near, size in (
            (m, 0, 16),
            (m, 0, 0),
            (0, w.plain, 16),
            (0, w.plain, 0),
            (m + MIB - 8, w.plain, 16),
            (0x1000, w.plain, 16),
            (w.plain, w.plain + 64, 16),
            (w.host, w.plain, 16),
            (w.managed, w.plain, 16),
        ):
            yield name, *((far, near) if "HtoD" in name else (near, far)), size
    for target, source, size in (
        (m, m + 64, 64),
        (m, m + 32, 64),
        (m, 0x1000, 16),
        (m, w.plain, 16),
        (m, m + MIB - 8, 16),
        (0, m, 0),
        (m, w.host, 16),
    ):
        yield "cuMemcpyDtoD_v2", target, source, size
        yield "cuMemcpy", target, source, size
        yield "cuMemcpyAsync", target, source, size, w.stream
    yield "cuMemcpy", w.plain, w.plain + 64, 16
    yield "cuMemcpy", w.plain, 0, 16
    yield "cuMemcpyPeer", m, w.lib.context, m + 64, w.lib.context, 16
    yield "cuMemcpyPeer", m, 0, m + 64, w.lib.context, 16
    for name, at, count in (
        ("8", m, 0),
        ("8", 0, 16),
        ("8", 0, 0),
        ("8", m + MIB - 8, 16),
        ("16", m + 1, 4),
        ("16", m, 4),
        ("32", m + 2, 1),
        ("32", m + 1, 0),
        ("8", w.plain, 16),
        ("8", w.host, 16),
    ):
        yield f"cuMemsetD{name}_v2", at, 0, count
        yield f"cuMemsetD{name}Async", at, 0, count, w.stream
    for name, pitch, width, height in (
        ("8", 16, 32, 2),
        ("8", 16, 16, 0),
        ("8", 0, 16, 2),
        ("8", 16, 0, 2),
        ("16", 31, 4, 2),
        ("32", 32, 8, 2),
        ("32", 30, 4, 2),
        ("8", MIB, 16, 2),
    ):
        yield f"cuMemsetD2D{name}_v2", m, pitch, 0, width, height
    for number in range(1, 24):
        for what in (m, w.host, w.plain, w.managed):
            yield "cuPointerGetAttribute", ROOM, number, what
    yield "cuPointerGetAttribute", NULL, 1, m
    yield "cuPointerGetAttribute", ROOM, 2, 0
    yield from (("cuPointerGetAttribute", INT, 2, n) for n in (m, w.host, w.managed, w.reserved))
    yield from (("cuPointerGetAttribute", INT, 8, n) for n in (m, w.host, w.managed))
    yield from (("cuPointerGetAttribute", INT, 9, n) for n in (m, w.host, w.managed))
    yield from (("cuPointerGetAttributes", 1, struct.pack("<I", n), ROOM, w.plain) for n in (99,))
    yield "cuPointerGetAttributes", 0, NULL, NULL, m
    for number in (1, 2, 3, 4, 8, 9):
        for what in (m, w.plain, w.host, 0):
            yield "attribute among others", number, what
    yield from (("cuPointerSetAttribute", struct.pack("<i", 1), *n) for n in ((6, m), (6, w.plain), (7, m), (1, m)))


def copies(w: World) -> Iterator[tuple[Any, ...]]:
    """CUDA_MEMCPY2D: x in bytes, y, kind, host, device, array, pitch of source and target, width and height."""
    m = w.memory

    def flat(source: tuple[int, ...], target: tuple[int, ...], width: int, height: int) -> bytes:
        return struct.pack("<" + "QQI4xQQQQ" * 2 + "QQ", *source, *target, width, height)

    def device(address: int, pitch: int, x: int = 0, kind: int = 2) -> tuple[int, ...]:
        return x, 0, kind, 0, address, 0, pitch

    def host(address: int, pitch: int, kind: int = 1) -> tuple[int, ...]:
        return 0, 0, kind, address, 0, 0, pitch

    def array(handle: int, x: int = 0) -> tuple[int, ...]:
        return x, 0, 3, 0, 0, handle, 0

    shapes = {
        "as it should be": (device(m, 64), host(w.plain, 64), 32, 4),
        "no width": (device(m, 64), host(w.plain, 64), 0, 4),
        "no height": (device(m, 64), host(w.plain, 64), 32, 0),
        "source's rows too short": (device(m, 16), host(w.plain, 64), 32, 4),
        "target's rows too short": (device(m, 64), host(w.plain, 16), 32, 4),
        "no pitch": (device(m, 0), host(w.plain, 0), 32, 4),
        "no pitch, one row": (device(m, 0), host(w.plain, 0), 32, 1),
        "x behind the pitch": (device(m, 64, 48), host(w.plain, 64), 32, 4),
        "kind 0": (device(m, 64, 0, 0), host(w.plain, 64), 32, 4),
        "kind 5": (device(m, 64, 0, 5), host(w.plain, 64), 32, 4),
        "kind unified": (device(m, 64, 0, 4), host(w.plain, 64), 32, 4),
        "behind the memory": (device(m + MIB - 64, 64), host(w.plain, 64), 32, 4),
        "no host": (device(m, 64), host(0, 64), 32, 4),
        "no device": (device(0, 64), host(w.plain, 64), 32, 4),
        "array": (array(w.array), host(w.plain, 64), 32, 4),
        "no array": (array(0), host(w.plain, 64), 32, 4),
        "behind the array's rows": (array(w.array, 256), host(w.plain, 64), 32, 4),
        "more rows than the array": (array(w.array), host(w.plain, 64), 32, 17),
        "within an element of the array": (array(w.array, 2), host(w.plain, 64), 32, 4),
        "wide pitch": (device(m, 1 << 31), host(w.plain, 64), 32, 1),
        "host to host": (host(w.plain, 64), host(w.plain + 4096, 64), 32, 4),
    }
    for name, shape in shapes.items():
        for call in ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2"):
            yield "named", f"{call}: {name}", call, flat(*shape)
    yield "cuMemcpy2D_v2", NULL
    yield "cuMemcpy2DAsync_v2", NULL, w.stream
    yield "cuMemcpy3D_v2", NULL
    yield from (("cuMemcpyAtoH_v2", w.plain, w.array, *n) for n in ((0, 16), (0, 257), (2, 16), (256, 16), (0, 0)))
    yield "cuMemcpyAtoH_v2", w.plain, 0, 0, 16
    yield from (("cuMemcpyHtoA_v2", w.array, *n) for n in ((0, w.plain, 16), (0, 0, 16), (250, w.plain, 16)))


def streams(w: World) -> Iterator[tuple[Any, ...]]:
    s = w.stream
    yield from (("cuStreamCreate", ROOM, n) for n in (2, -1))
    yield "cuStreamCreate", NULL, 0
    yield "cuStreamCreateWithPriority", ROOM, 2, 0
    yield "cuStreamCreateWithPriority", NULL, 0, 0
    yield from (("priority", n) for n in (99, 0, -1, -5, -99))
    yield "cuStreamDestroy_v2", 0
    for name in ("cuStreamQuery", "cuStreamSynchronize"):
        yield from ((name, n) for n in (0, 1, 2, s))
    for name in ("cuStreamGetPriority", "cuStreamGetFlags"):
        yield from ((name, n, INT) for n in (0, 1, 2, s))
        yield name, s, NULL
    yield from (("cuStreamGetCtx", n, NULL) for n in (0, s))
    yield "cuStreamGetId", s, NULL
    yield from (
        ("cuStreamWaitEvent", *n)
        for n in ((s, 0, 0), (s, w.event, 5), (s, w.event, 0), (0, w.event, 0), (s, w.event, 1))
    )
    yield "cuStreamAddCallback", s, 0, 0, 0
    yield "cuLaunchHostFunc", s, 0, 0
    yield from (
        ("cuStreamAttachMemAsync", *n)
        for n in (
            (s, w.memory, 0, 1),
            (s, w.managed, 0, 9),
            (s, w.managed, 5, 4),
            (s, w.managed, 0, 4),
            (0, w.managed, 0, 4),
            (s, w.managed, 0, 1),
            (s, 0, 0, 1),
        )
    )
    yield from (("cuStreamBeginCapture_v2", *n) for n in ((0, 0), (1, 0), (s, 9), (s, -1)))
    yield "cuStreamEndCapture", s, ROOM
    yield "cuStreamEndCapture", 0, ROOM
    yield from (("cuStreamIsCapturing", n, INT) for n in (0, 1, s))
    yield "cuStreamIsCapturing", s, NULL
    yield "cuThreadExchangeStreamCaptureMode", NULL
    yield from (("cuThreadExchangeStreamCaptureMode", struct.pack("<i", n)) for n in (9, -1))
    yield from (("cuStreamGetAttribute", s, n, ROOM) for n in (0, 1, 3, 8, 99))
    yield "cuStreamGetAttribute", s, 1, NULL
    yield from (("cuStreamSetAttribute", s, n, bytes(64)) for n in (0, 3, 99))
    yield "cuStreamCopyAttributes", s, 0
    yield from (("cuStreamWriteValue32_v2", s, n, 1, 0) for n in (w.memory + 2, 0x1000, 0, w.memory))
    yield "cuStreamWriteValue32_v2", s, w.memory, 1, 9
    yield from (("cuStreamWaitValue32_v2", s, n, 0, 0) for n in (w.memory + 2, 0x1000))
    yield "cuStreamBatchMemOp_v2", s, 0, NULL, 0
    yield "cuStreamBatchMemOp_v2", s, 1, NULL, 0
    yield from (("cuEventCreate", ROOM, n) for n in (3, 4, 6, 8, 99, -1))
    yield "cuEventCreate", NULL, 0
    yield from (("cuEventRecord", *n) for n in ((0, 0), (0, s)))
    yield from (("cuEventRecordWithFlags", w.untimed, s, n) for n in (7, 1, 0))
    yield from (("new event", n) for n in ("cuEventQuery", "cuEventSynchronize", "cuEventDestroy_v2"))
    yield from ((n, 0) for n in ("cuEventQuery", "cuEventSynchronize", "cuEventDestroy_v2"))
    yield ("elapsed",)


def modules(w: World) -> Iterator[tuple[Any, ...]]:
    texts = {
        "nothing": b"",
        "words": b"no code at all",
        "bad syntax": KERNELS.replace(b"ret;", b"rett;"),
        "an unknown variable": KERNELS.replace(b"[place]", b"[unknown]"),
        "of version 99": KERNELS.replace(b".version 7.8", b".version 99.0"),
        "for sm_999": KERNELS.replace(b"sm_80", b"sm_999"),
        "for sm_100": KERNELS.replace(b"sm_80", b"sm_100").replace(b"7.8", b"8.7"),
        "for sm_90a": KERNELS.replace(b"sm_80", b"sm_90a").replace(b"7.8", b"8.0"),
        "without a target": b".version 7.8\n.visible .entry e() { ret; }",
        "an undefined function": b".version 7.8\n.target sm_80\n.address_size 64\n.extern .func f();\n.visible .entry e() { call f; ret; }",
        "an ELF header alone": b"\x7fELF" + bytes(60),
        "a fat binary's header alone": struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0),
    }
    for name, text in texts.items():
        padded = text + bytes(64)
        yield "named", f"cuModuleLoadData: {name}", "cuModuleLoadData", ROOM, padded
        yield "named", f"cuModuleLoadDataEx: {name}", "cuModuleLoadDataEx", ROOM, padded, 0, 0, 0
        yield "named", f"library: {name}", "library and its kernel", padded
    yield "cuModuleLoadData", ROOM, NULL
    yield "cuModuleLoadData", NULL, KERNELS
    yield "cuModuleLoad", ROOM, b"/no/such/file"
    yield "cuModuleLoad", ROOM, NULL
    yield "cuModuleLoadFatBinary", ROOM, b"no fat binary" + bytes(64)
    yield from (("cuModuleLoadDataEx", ROOM, KERNELS, 1, struct.pack("<I", n), words(0)) for n in (0, 7, 8, 99))
    yield from (("cuModuleGetFunction", ROOM, w.module, n) for n in (b"none", b"", NULL))
    yield "cuModuleGetFunction", NULL, w.module, b"store"
    yield "cuModuleGetFunction", ROOM, 0, b"store"
    yield from (("cuModuleGetGlobal_v2", ROOM, ROOM, w.module, n) for n in (b"none", b"store", NULL))
    yield "cuModuleGetGlobal_v2", NULL, WORD, w.module, b"table"
    yield "cuModuleGetGlobal_v2", NULL, NULL, w.module, b"table"
    yield "cuModuleUnload", 0
    yield "cuModuleGetFunctionCount", INT, w.module
    yield "cuModuleGetFunctionCount", NULL, w.module
    yield from (
        ("link", *n)
        for n in ((1, KERNELS), (1, b"bad"), (9, KERNELS), (1, texts["an undefined function"]), (0, b"bad"))
    )
    yield "cuLinkCreate_v2", 0, 0, 0, NULL
    yield "cuLinkDestroy", 0
    yield "cuLibraryLoadData", ROOM, NULL, 0, 0, 0, 0, 0, 0
    yield "cuLibraryLoadFromFile", ROOM, b"/no/such/file", 0, 0, 0, 0, 0, 0
    yield "cuLibraryUnload", 0
    yield from (("cuLibraryGetKernel", ROOM, w.library, n) for n in (b"none", b"table", NULL))
    yield "cuLibraryGetKernel", NULL, w.library, b"store"
    yield "cuLibraryGetKernel", ROOM, 0, b"store"
    yield from (("cuLibraryGetGlobal", ROOM, ROOM, w.library, n) for n in (b"none", b"store"))
    yield "cuLibraryGetGlobal", NULL, WORD, w.library, b"table"
    yield "cuLibraryGetManaged", ROOM, ROOM, w.library, b"table"
    yield "cuLibraryGetUnifiedFunction", ROOM, w.library, b"store"
    yield "cuLibraryGetKernelCount", INT, w.library
    yield "cuLibraryEnumerateKernels", ROOM, 99, w.library
    yield "cuLibraryGetModule", ROOM, 0
    yield "cuKernelGetFunction", ROOM, 0
    yield "cuKernelGetFunction", NULL, w.kernel
    yield from (("cuKernelGetAttribute", INT, n, w.kernel, 0) for n in (0, 1, 8, 9, 10, 99, -1))
    yield "cuKernelGetAttribute", INT, 0, w.kernel, 9
    yield "cuKernelGetAttribute", NULL, 0, w.kernel, 0
    for number, value in (
        (8, 4096),
        (8, 49152),
        (8, 232448),
        (8, -1),
        (9, 50),
        (9, 101),
        (9, -2),
        (0, 32),
        (14, 1),
        (99, 0),
    ):
        yield "cuKernelSetAttribute", number, value, w.kernel, 0
        yield "cuFuncSetAttribute", w.store, number, value
        yield "cuFuncGetAttribute", INT, number, w.store
    yield from (("cuFuncGetAttribute", INT, n, w.nothing) for n in range(18))
    yield "cuFuncGetAttribute", INT, 0, w.few
    yield "cuFuncGetAttribute", NULL, 0, w.store
    yield "cuFuncGetAttribute", ROOM, 0, 0
    yield from (("cuFuncSetCacheConfig", w.store, n) for n in (3, 4, -1))
    yield "cuFuncSetCacheConfig", 0, 0
    yield "cuFuncSetSharedMemConfig", w.store, 5
    yield "cuFuncGetModule", NULL, w.store
    yield "cuFuncGetModule", ROOM, 0
    yield "cuFuncGetName", ROOM, 0
    yield "cuFuncGetName", NULL, w.store
    yield from (("cuFuncGetParamInfo", w.store, n, WORD, ROOM) for n in (0, 1, 2, 99))
    yield from (("cuKernelGetParamInfo", w.kernel, n, WORD, NULL) for n in (0, 1, 2))
    yield "cuKernelGetParamInfo", w.kernel, 0, NULL, NULL
    yield "cuFuncIsLoaded", INT, w.store
    yield "cuFuncLoad", 0


def launches(w: World) -> Iterator[tuple[Any, ...]]:
    place, value = words(w.memory), struct.pack("<I", 5)
    kept = ctypes.create_string_buffer(place, 8), ctypes.create_string_buffer(value, 4)
    w.kept += kept
    parameters = words(*(ctypes.addressof(k) for k in kept))
    for grid in ((1, 1, 1), (0, 1, 1), (1, 65536, 1), (1, 1, 65536), (1 << 31, 1, 1), (1, 0, 1)):
        yield "cuLaunchKernel", w.nothing, *grid, 32, 1, 1, 0, w.stream, 0, 0
    for block in ((0, 1, 1), (1025, 1, 1), (32, 64, 1), (1, 1, 65), (1, 1, 64), (1024, 1, 1), (-1, 1, 1)):
        yield "cuLaunchKernel", w.nothing, 1, 1, 1, *block, 0, w.stream, 0, 0
    yield "cuLaunchKernel", w.few, 1, 1, 1, 65, 1, 1, 0, w.stream, 0, 0
    for shared in (49152, 49153, 232448, 232449, -1):
        yield "cuLaunchKernel", w.nothing, 1, 1, 1, 32, 1, 1, shared, w.stream, 0, 0
    for shared in (48896, 48897):
        yield "cuLaunchKernel", w.store, 1, 1, 1, 32, 1, 1, shared, w.stream, parameters, 0
    yield "cuLaunchKernel", 0, 1, 1, 1, 32, 1, 1, 0, w.stream, 0, 0
    yield "cuLaunchKernel", w.store, 1, 1, 1, 32, 1, 1, 0, w.stream, 0, 0
    yield "cuLaunchKernel", w.kernel, 1, 1, 1, 32, 1, 1, 0, w.stream, parameters, 0
    packed = ctypes.create_string_buffer(place + value, 12)
    size = ctypes.create_string_buffer(words(12), 8)
    w.kept += packed, size
    extras = {
        "whole": (1, ctypes.addressof(packed), 2, ctypes.addressof(size), 0),
        "without a size": (1, ctypes.addressof(packed), 0),
        "without a buffer": (2, ctypes.addressof(size), 0),
        "of something else": (7, ctypes.addressof(size), 0),
        "empty": (0,),
    }
    for name, listed in extras.items():
        yield "named", f"extra {name}", "cuLaunchKernel", w.store, 1, 1, 1, 32, 1, 1, 0, w.stream, 0, words(*listed)
    yield (
        "named",
        "extra and parameters",
        "cuLaunchKernel",
        w.store,
        1,
        1,
        1,
        32,
        1,
        1,
        0,
        w.stream,
        parameters,
        words(*extras["whole"]),
    )
    for blocks in (132, 132 * 32, 132 * 32 + 1):
        yield "cuLaunchCooperativeKernel", w.nothing, blocks, 1, 1, 32, 1, 1, 0, w.stream, 0
    yield "cuLaunchCooperativeKernel", 0, 1, 1, 1, 32, 1, 1, 0, w.stream, 0

    def shape(grid: int, block: int, *attributes: bytes, count: int | None = None, shared: int = 0) -> bytes:
        listed = ctypes.create_string_buffer(b"".join(attributes) + bytes(8))
        w.kept.append(listed)
        at = ctypes.addressof(listed) if attributes else 0
        return struct.pack(
            "<7I4xQQI4x", grid, 1, 1, block, 1, 1, shared, w.stream, at, len(attributes) if count is None else count
        )

    def attribute(number: int, *values: int) -> bytes:
        return struct.pack("<i4x", number) + struct.pack(f"<{len(values)}i", *values).ljust(64, b"\0")

    cluster = {n: attribute(4, n, 1, 1) for n in (0, 1, 2, 3, 8, 16)}
    shapes = {
        "plain": shape(4, 32),
        "no grid": shape(0, 32),
        "attributes without a list": shape(4, 32, count=1),
        "an unknown attribute": shape(4, 32, attribute(99, 0)),
        "ignored": shape(4, 32, attribute(0, 0)),
        **{f"clusters of {n}": shape(16, 32, a) for n, a in cluster.items()},
        "clusters of 3 in 4": shape(4, 32, cluster[3]),
        "clusters of 2 in 5": shape(5, 32, cluster[2]),
        "cooperative": shape(4, 32, attribute(2, 1)),
        "cooperative, too large": shape(132 * 32 + 1, 32, attribute(2, 1)),
        "priority": shape(4, 32, attribute(8, -3)),
        "policy 9": shape(4, 32, cluster[2], attribute(5, 9)),
        "synchronisation 9": shape(4, 32, attribute(3, 9)),
        "programmatic": shape(4, 32, attribute(6, 1)),
        "domain 9": shape(4, 32, attribute(10, 9)),
        "preferred clusters": shape(16, 32, cluster[2], attribute(11, 4, 1, 1)),
        "carve-out 101": shape(4, 32, attribute(14, 101)),
    }
    for name, made in shapes.items():
        yield "named", f"cuLaunchKernelEx: {name}", "cuLaunchKernelEx", made, w.nothing, 0, 0
        yield "named", f"clusters at once: {name}", "cuOccupancyMaxActiveClusters", INT, w.nothing, made
        yield "named", f"largest cluster: {name}", "cuOccupancyMaxPotentialClusterSize", INT, w.nothing, made
    yield "cuLaunchKernelEx", NULL, w.nothing, 0, 0
    yield "cuLaunchKernelEx", shapes["plain"], 0, 0, 0
    for threads, shared in ((0, 0), (-1, 0), (32, 0), (1024, 0), (1025, 0), (64, 49152), (64, 49153), (64, 232448)):
        yield "cuOccupancyMaxActiveBlocksPerMultiprocessor", INT, w.nothing, threads, shared
    yield "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", INT, w.nothing, 32, 0, 9
    yield "cuOccupancyMaxActiveBlocksPerMultiprocessor", INT, 0, 32, 0
    yield "cuOccupancyMaxActiveBlocksPerMultiprocessor", NULL, w.nothing, 32, 0
    yield "cuOccupancyMaxActiveBlocksPerMultiprocessor", INT, w.kernel, 32, 0
    for shared, limit in ((0, 0), (0, 100), (0, -1), (0, 5000), (49152, 0), (50000, 0), (1 << 30, 0)):
        yield "cuOccupancyMaxPotentialBlockSize", ROOM, INT, w.nothing, 0, shared, limit
    for target in (w.nothing, w.store):
        for blocks, threads in (
            (1, 256),
            (4, 32),
            (2, 64),
            (2, 128),
            (3, 120),
            (32, 32),
            (33, 32),
            (64, 32),
            (0, 32),
            (1, 0),
            (1, 1025),
            (8, 64),
            (2, 1024),
            (3, 1024),
        ):
            yield "cuOccupancyAvailableDynamicSMemPerBlock", WORD, target, blocks, threads
    yield "cuOccupancyAvailableDynamicSMemPerBlock", NULL, w.nothing, 1, 32
    yield "cuFuncSetAttribute", w.few, 8, 100000
    for blocks in (1, 2, 4):
        yield "cuOccupancyAvailableDynamicSMemPerBlock", WORD, w.few, blocks, 64


def graphs(w: World) -> Iterator[tuple[Any, ...]]:
    g = w.graph
    yield "cuGraphCreate", ROOM, 1
    yield "cuGraphCreate", NULL, 0
    yield from ((name, 0) for name in ("cuGraphDestroy", "cuGraphExecDestroy", "cuGraphDestroyNode"))
    yield "cuGraphAddEmptyNode", NULL, g, 0, 0
    yield "cuGraphAddEmptyNode", ROOM, 0, 0, 0
    yield "cuGraphAddEmptyNode", ROOM, g, NULL, 1
    yield "cuGraphAddEmptyNode", ROOM, g, words(w.foreign), 1
    yield "cuGraphAddEmptyNode", ROOM, w.other_graph, words(w.foreign, w.foreign), 2
    yield "cuGraphAddKernelNode_v2", ROOM, w.other_graph, 0, 0, NULL

    def kernel(function: int, grid: int = 1, block: int = 32, shared: int = 0) -> bytes:
        return struct.pack("<Q7I4xQQQQ", function, grid, 1, 1, block, 1, 1, shared, 0, 0, 0, 0)

    for name, made in (
        ("none", kernel(0)),
        ("nothing", kernel(w.nothing)),
        ("no grid", kernel(w.nothing, 0)),
        ("no block", kernel(w.nothing, 1, 0)),
        ("a large block", kernel(w.nothing, 1, 2000)),
        ("much shared", kernel(w.nothing, 1, 32, 60000)),
        ("no parameters", kernel(w.store)),
    ):
        yield "named", f"kernel node: {name}", "cuGraphAddKernelNode_v2", ROOM, w.other_graph, 0, 0, made
    for pairs in ((w.first, w.first), (w.first, w.second), (w.first, w.foreign), (w.second, w.first)):
        yield (
            "named",
            f"edge {[(w.first, w.second, w.foreign).index(p) for p in pairs]}",
            "cuGraphAddDependencies",
            g,
            words(pairs[0]),
            words(pairs[1]),
            1,
        )
    yield "named", "a circle", "cuGraphInstantiateWithFlags", ROOM, g, 0
    yield "named", "a circle's edge goes", "cuGraphRemoveDependencies", g, words(w.second), words(w.first), 1
    yield "named", "no edge goes", "cuGraphRemoveDependencies", g, words(w.second), words(w.first), 1
    yield from (("cuGraphInstantiateWithFlags", ROOM, g, n) for n in (99, 16, 4))
    yield "cuGraphInstantiateWithFlags", NULL, g, 0
    yield "cuGraphInstantiateWithFlags", ROOM, 0, 0
    yield "cuGraphLaunch", 0, w.stream
    yield "cuGraphLaunch", w.executable, w.stream
    yield "cuGraphLaunch", w.executable, 0
    yield "cuGraphUpload", 0, w.stream
    yield "cuGraphExecUpdate_v2", w.executable, w.other_graph, ROOM
    yield "cuGraphExecUpdate_v2", 0, g, ROOM
    yield "cuGraphExecUpdate_v2", w.executable, g, NULL
    yield "cuGraphNodeGetType", w.first, INT
    yield "cuGraphNodeGetType", 0, ROOM
    yield "cuGraphNodeGetType", w.first, NULL
    yield "cuGraphGetNodes", g, NULL, NULL
    yield "cuGraphGetNodes", g, NULL, ROOM
    yield "cuGraphGetRootNodes", 0, NULL, ROOM
    yield "cuGraphGetEdges", g, NULL, NULL, NULL
    yield "cuGraphKernelNodeGetParams_v2", w.first, ROOM
    yield "cuGraphKernelNodeSetParams_v2", w.first, kernel(w.nothing)
    yield "cuGraphExecKernelNodeSetParams_v2", w.executable, w.first, kernel(w.nothing)
    yield "cuGraphExecKernelNodeSetParams_v2", w.executable, w.foreign, kernel(w.nothing)
    yield "cuGraphMemcpyNodeGetParams", w.first, ROOM

    def memset(address: int, size: int = 4, width: int = 8, height: int = 1, pitch: int = 0) -> bytes:
        return struct.pack("<QQIIQQ", address, pitch, 7, size, width, height)

    shapes = {
        "as it should be": memset(w.memory), "size 3": memset(w.memory, 3), "size 8": memset(w.memory, 8), "size 0": memset(w.memory, 0), "no address": memset(0),
        "misaligned": memset(w.memory + 2), "no width": memset(w.memory, 4, 0), "no height": memset(w.memory, 4, 8, 0), "behind": memset(w.memory + MIB - 16),
        "host": memset(w.host), "plain": memset(w.plain), "short rows": memset(w.memory, 4, 8, 2, 16), "rows": memset(w.memory, 4, 8, 2, 64),
    }  # fmt: skip
    for name, made in shapes.items():
        yield "named", f"fill node: {name}", "cuGraphAddMemsetNode", ROOM, w.other_graph, 0, 0, made, w.lib.context
    yield (
        "named",
        "fill node without context",
        "cuGraphAddMemsetNode",
        ROOM,
        w.other_graph,
        0,
        0,
        shapes["as it should be"],
        0,
    )
    yield "cuGraphAddMemcpyNode", ROOM, w.other_graph, 0, 0, NULL, w.lib.context
    yield "cuGraphAddHostNode", ROOM, w.other_graph, 0, 0, words(0, 0)
    yield "cuGraphAddHostNode", ROOM, w.other_graph, 0, 0, NULL
    yield "cuGraphAddChildGraphNode", ROOM, w.other_graph, 0, 0, w.other_graph
    yield "cuGraphAddChildGraphNode", ROOM, w.other_graph, 0, 0, 0
    yield "cuGraphAddEventRecordNode", ROOM, w.other_graph, 0, 0, 0
    yield "cuGraphAddEventWaitNode", ROOM, w.other_graph, 0, 0, 0
    yield "cuGraphAddMemFreeNode", ROOM, w.other_graph, 0, 0, 0
    yield "cuGraphAddMemFreeNode", ROOM, w.other_graph, 0, 0, 0x1000
    yield "cuGraphAddMemAllocNode", ROOM, w.other_graph, 0, 0, NULL
    yield "cuGraphClone", ROOM, 0
    yield "cuGraphClone", NULL, g
    yield "cuGraphNodeFindInClone", ROOM, w.first, w.other_graph
    yield from (("cuGraphConditionalHandleCreate", ROOM, g, 0, 0, n) for n in (0, 9))
    yield "cuGraphConditionalHandleCreate", ROOM, g, w.lib.context, 0, 0
    yield "cuGraphRetainUserObject", g, 0, 1, 0
    yield "cuUserObjectCreate", ROOM, 0, 0, 1, 1
    yield "cuUserObjectRelease", 0, 1
    yield "cuGraphDebugDotPrint", g, b"/no/such/folder/file", 0
    yield "cuGraphExecGetFlags", w.executable, WORD
    yield "cuGraphNodeSetEnabled", w.executable, w.first, 1
    yield "cuGraphNodeGetEnabled", w.executable, w.first, INT
    yield "cuDeviceGraphMemTrim", 9
    yield "cuDeviceGetGraphMemAttribute", 0, 99, ROOM
    yield "cuDeviceSetGraphMemAttribute", 0, 0, words(0)
    yield "cuDeviceSetGraphMemAttribute", 0, 1, words(5)


def virtual(w: World) -> Iterator[tuple[Any, ...]]:
    r, p, step = w.reserved, w.physical, 2 * MIB
    for size, align, flags in (
        (0, 0, 0),
        (100, 0, 0),
        (step, 3, 0),
        (step, 4096, 0),
        (step, 0, 1),
        (step + 4096, 0, 0),
        (1 << 60, 0, 0),
        (65536, 0, 0),
    ):
        yield "cuMemAddressReserve", ROOM, size, align, 0, flags
    yield "cuMemAddressReserve", NULL, step, 0, 0, 0
    yield from (("cuMemAddressFree", *n) for n in ((0, step), (0x200000, step), (r, step), (r + step, step), (r, 0)))
    for size, prop, flags in (
        (0, {}, 0),
        (100, {}, 0),
        (65536, {}, 0),
        (step, {"allocation": 0}, 0),
        (step, {"allocation": 9}, 0),
        (step, {"where": 0}, 0),
        (step, {"where": 9}, 0),
        (step, {"device": 9}, 0),
        (step, {"handles": 99}, 0),
        (step, {}, 1),
        (1 << 60, {}, 0),
    ):
        yield "named", f"cuMemCreate {size} {prop} {flags}", "cuMemCreate", ROOM, size, physical_of(**prop), flags
    yield "cuMemCreate", ROOM, step, NULL, 0
    yield from (("cuMemGetAllocationGranularity", WORD, physical_of(), n) for n in (0, 1, 9))
    yield "named", "granularity of device 9", "cuMemGetAllocationGranularity", WORD, physical_of(device=9), 0
    yield "cuMemGetAllocationGranularity", NULL, physical_of(), 0
    yield from (
        ("cuMemMap", *n)
        for n in (
            (r, 0, 0, p, 0),
            (r, step, 4096, p, 0),
            (r, step, step, p, 0),
            (r + 4096, step, 0, p, 0),
            (r, 2 * step, 0, p, 0),
            (r, step, 0, 0, 0),
            (r, step, 0, p, 1),
            (0, step, 0, p, 0),
            (w.memory, step, 0, p, 0),
            (r, step // 2, 0, p, 0),
        )
    )
    yield "cuMemSetAccess", r, step, access_of(), 1
    yield "cuMemUnmap", r, step
    yield "cuMemMap", r, step, 0, p, 0
    yield "named", "mapped twice", "cuMemMap", r, step, 0, p, 0
    yield "named", "one handle at two places", "cuMemMap", r + step, step, 0, p, 0
    yield "named", "no access yet", "cuMemcpyHtoD_v2", r, w.plain, 16
    yield "named", "no access yet, fill", "cuMemsetD8_v2", r, 0, 16
    yield "cuMemGetAccess", WORD, struct.pack("<ii", 1, 0), r
    for name, entries, count in (
        ("device 9", access_of(9), 1),
        ("flags 2", access_of(0, 2), 1),
        ("flags 7", access_of(0, 7), 1),
        ("kind 0", access_of(0, 3, 0), 1),
        ("none", access_of(), 0),
    ):
        yield "named", f"access: {name}", "cuMemSetAccess", r, step, entries, count
    yield "named", "access to half", "cuMemSetAccess", r, step // 2, access_of(), 1
    yield "named", "access to more", "cuMemSetAccess", r, 4 * step, access_of(), 1
    yield "named", "access", "cuMemSetAccess", r, step, access_of(), 1
    yield "cuMemGetAccess", WORD, struct.pack("<ii", 1, 0), r
    yield "cuMemGetAccess", WORD, struct.pack("<ii", 1, 9), r
    yield "cuMemGetAccess", WORD, struct.pack("<ii", 1, 0), r + 3 * step
    yield "named", "access now", "cuMemcpyHtoD_v2", r, w.plain, 16
    yield "named", "across the end", "cuMemcpyHtoD_v2", r + step - 8, w.plain, 16
    yield "named", "read only", "cuMemSetAccess", r, step, access_of(0, 1), 1
    yield "named", "freed while it is mapped", "cuMemFree_v2", r
    yield "named", "released address while mapped", "cuMemAddressFree", r, 8 * MIB
    yield "cuMemRetainAllocationHandle", ROOM, w.memory
    yield "cuMemRetainAllocationHandle", ROOM, w.plain
    yield "cuMemRetainAllocationHandle", NULL, r
    yield "cuMemGetAllocationPropertiesFromHandle", ROOM, 0
    yield "cuMemExportToShareableHandle", ROOM, p, 1, 0
    yield "cuMemExportToShareableHandle", ROOM, 0, 1, 0
    yield "cuMemImportFromShareableHandle", ROOM, -1, 1
    yield "named", "unmap half", "cuMemUnmap", r, step // 2
    yield "named", "unmap more", "cuMemUnmap", r, 4 * step
    yield "cuMemUnmap", r + step, step
    yield "named", "unmap", "cuMemUnmap", r, step
    yield "named", "unmap again", "cuMemUnmap", r, step
    yield "cuMemRelease", 0
    yield "named", "release", "cuMemRelease", p


def pools(w: World) -> Iterator[tuple[Any, ...]]:
    for prop in (
        {"allocation": 0},
        {"handles": 99},
        {"where": 0},
        {"where": 9},
        {"device": 9},
        {"size": 1},
        {"allocation": 2},
        {"where": 2},
        {"handles": 1},
    ):
        yield "named", f"cuMemPoolCreate {prop}", "cuMemPoolCreate", ROOM, pool_of(**prop)
    yield "cuMemPoolCreate", ROOM, NULL
    yield "cuMemPoolCreate", NULL, pool_of()
    yield "cuMemPoolDestroy", 0
    default = w.lib.word("cuDeviceGetDefaultMemPool", 0)
    yield "named", "destroy the default pool", "cuMemPoolDestroy", default
    yield from (("cuMemPoolGetAttribute", w.pool, n, WORD) for n in (0, 4, 5, 7, 9, 99))
    yield from (("cuMemPoolSetAttribute", w.pool, n, words(5)) for n in (0, 4, 5, 6, 7, 8, 99))
    yield "cuMemPoolSetAttribute", 0, 4, words(5)
    yield "cuMemPoolGetAttribute", w.pool, 4, NULL
    yield "cuMemPoolTrimTo", 0, 0
    s = w.stream
    yield from (("cuMemAllocAsync", WORD, n, s) for n in (0,))
    yield from (("cuMemAllocAsync", ROOM, n, s) for n in (1 << 60, -1))
    yield "cuMemAllocAsync", NULL, 16, s
    yield "cuMemAllocFromPoolAsync", WORD, 0, w.pool, s
    yield "cuMemAllocFromPoolAsync", ROOM, 16, 0, s
    yield "cuMemAllocFromPoolAsync", NULL, 16, w.pool, s
    yield from (("cuMemFreeAsync", n, s) for n in (0, 0x1000, w.memory + 16, w.host, w.managed))
    yield "asynchronous memory", "cuMemFree_v2"
    yield "asynchronous memory", "cuMemFreeAsync"
    yield "asynchronous memory", "twice"
    yield "asynchronous memory", "inside"
    for name, entries, count in (
        ("host", access_of(0, 3, 2), 1),
        ("none to itself", access_of(0, 0), 1),
        ("read to itself", access_of(0, 1), 1),
        ("device 9", access_of(9), 1),
        ("flags 7", access_of(0, 7), 1),
        ("no entry", access_of(), 0),
    ):
        yield "named", f"pool's access: {name}", "cuMemPoolSetAccess", w.pool, entries, count
    yield "cuMemPoolGetAccess", INT, w.pool, struct.pack("<ii", 1, 0)
    yield "cuMemPoolGetAccess", INT, w.pool, struct.pack("<ii", 1, 9)
    yield "cuMemPoolExportToShareableHandle", ROOM, w.pool, 1, 0
    yield "cuMemPoolExportPointer", ROOM, w.memory
    yield "cuIpcGetMemHandle", ROOM, w.plain
    yield "cuIpcGetEventHandle", ROOM, w.event
    yield "cuIpcCloseMemHandle", w.memory


def arrays(w: World) -> Iterator[tuple[Any, ...]]:
    for width, height, kind, channels in (
        (0, 0, 0x20, 1),
        (16, 0, 0x20, 3),
        (16, 0, 0x20, 0),
        (16, 0, 0x99, 1),
        (16, 0, 0x20, 8),
        (1 << 20, 0, 0x20, 1),
        (64, 1 << 20, 1, 1),
        (16, 16, 0x10, 4),
    ):
        yield "cuArrayCreate_v2", ROOM, struct.pack("<QQII", width, height, kind, channels)
    for width, height, depth, flags in (
        (16, 0, 0, 0),
        (16, 16, 6, 4),
        (16, 15, 6, 4),
        (16, 16, 5, 4),
        (16, 0, 3, 1),
        (16, 0, 4, 0),
        (16, 16, 0, 8),
        (16, 16, 0, 1 << 20),
        (16, 16, 2, 2),
    ):
        yield "cuArray3DCreate_v2", ROOM, struct.pack("<QQQIII4x", width, height, depth, 0x20, 1, flags)
    yield "cuArrayCreate_v2", ROOM, NULL
    yield "cuArrayCreate_v2", NULL, struct.pack("<QQII", 16, 0, 0x20, 1)
    yield "cuArrayDestroy", 0
    yield "cuArrayGetDescriptor_v2", ROOM, 0
    yield "cuArrayGetDescriptor_v2", NULL, w.array
    yield "cuMipmappedArrayDestroy", 0
    shape = struct.pack("<QQQIII4x", 16, 16, 0, 0x20, 1, 0)
    for levels in (0, 1, 5, 6, 99):
        yield "cuMipmappedArrayCreate", ROOM, shape, levels

    def resource(kind: int, *values: int, flags: int = 0) -> bytes:
        return (struct.pack("<i4x", kind) + words(*values)).ljust(136, b"\0") + struct.pack("<I4x", flags)

    def linear(address: int, format: int = 0x20, channels: int = 1, size: int = 4096) -> bytes:
        return (struct.pack("<i4xQIIQ", 2, address, format, channels, size)).ljust(144, b"\0")

    def pitched(address: int, pitch: int = 512, width: int = 64, height: int = 4) -> bytes:
        return struct.pack("<i4xQIIQQQ", 3, address, 0x20, 1, width, height, pitch).ljust(144, b"\0")

    def texture(*modes: int, filtering: int = 0, flags: int = 0, anisotropy: int = 0) -> bytes:
        return struct.pack("<iiiiIIiff", *(*modes, 0, 0, 0)[:3], filtering, flags, anisotropy, 0, 0, 0).ljust(
            104, b"\0"
        )

    plain = texture()
    shapes = {
        "an array": (resource(0, w.array), plain), "no array": (resource(0, 0), plain), "kind 9": (resource(9, w.array), plain), "flags": (resource(0, w.array, flags=1), plain),
        "linear": (linear(w.memory), plain), "linear, misaligned": (linear(w.memory + 4), plain), "linear, no address": (linear(0), plain), "linear, no size": (linear(w.memory, size=0), plain),
        "linear, three channels": (linear(w.memory, 0x20, 3), plain), "linear, unknown format": (linear(w.memory, 0x99), plain), "linear, behind": (linear(w.memory + MIB - 1024), plain),
        "linear, filtered": (linear(w.memory), texture(filtering=1)), "linear, of the host": (linear(w.plain), plain),
        "pitched": (pitched(w.memory), plain), "pitched by 48": (pitched(w.memory, 48), plain), "pitch too short": (pitched(w.memory, 128, 64), plain), "pitched, misaligned": (pitched(w.memory + 32), plain),
        "pitched, no height": (pitched(w.memory, 512, 64, 0), plain), "normalized wrap": (resource(0, w.array), texture(0, 0, 0, flags=2)), "wrap": (resource(0, w.array), texture(0, 0, 0)),
        "mirror": (resource(0, w.array), texture(2, 2, 2)), "address mode 9": (resource(0, w.array), texture(9)), "filter 9": (resource(0, w.array), texture(filtering=9)),
        "filtered integers": (resource(0, w.array), texture(filtering=1, flags=1)), "flags 0x100": (resource(0, w.array), texture(flags=0x100)), "anisotropy 17": (resource(0, w.array), texture(anisotropy=17)),
    }  # fmt: skip
    for name, (what, how) in shapes.items():
        yield "named", f"texture of {name}", "cuTexObjectCreate", ROOM, what, how, 0
    yield "cuTexObjectCreate", ROOM, NULL, plain, 0
    yield "cuTexObjectCreate", ROOM, resource(0, w.array), NULL, 0
    yield "cuTexObjectCreate", NULL, resource(0, w.array), plain, 0
    yield "named", "surface of an array that is none", "cuSurfObjectCreate", ROOM, resource(0, w.array)
    yield "named", "surface of memory", "cuSurfObjectCreate", ROOM, linear(w.memory)
    yield "cuSurfObjectCreate", ROOM, NULL


WITHOUT: tuple[tuple[str, tuple[Any, ...]], ...] = (
    *((name, (ROOM, 16)) for name in ("cuMemAlloc_v2", "cuMemAllocHost_v2")),
    ("cuMemAllocManaged", (ROOM, 16, 1)), ("cuMemHostAlloc", (ROOM, 16, 0)), ("cuMemFree_v2", (0,)), ("cuMemFreeHost", (0,)),
    ("cuMemGetInfo_v2", (ROOM, ROOM)), ("cuMemGetAddressRange_v2", (ROOM, ROOM, "memory")), ("cuMemHostGetDevicePointer_v2", (ROOM, "host", 0)),
    ("cuMemHostGetFlags", (ROOM, "host")), ("cuMemcpyDtoH_v2", ("plain", "memory", 16)), ("cuMemcpyHtoD_v2", ("memory", "plain", 16)), ("cuMemcpy", ("memory", "host", 16)),
    ("cuMemcpyDtoHAsync_v2", ("plain", "memory", 16, "stream")), ("cuMemcpyDtoHAsync_v2", ("plain", "memory", 16, 0)), ("cuMemsetD8_v2", ("memory", 0, 16)), ("cuMemsetD8Async", ("memory", 0, 16, "stream")),
    ("cuMemHostRegister_v2", ("plain", 4096, 0)), ("cuMemHostUnregister", ("plain",)),
    ("cuPointerGetAttribute", (ROOM, 2, "memory")), ("cuPointerGetAttribute", (ROOM, 2, "plain")), ("cuPointerGetAttribute", (ROOM, 1, "memory")), ("attribute among others", (2, "memory")), ("attribute among others", (2, "plain")),
    ("cuStreamCreate", (ROOM, 0)), ("cuStreamSynchronize", ("stream",)), ("cuStreamQuery", ("stream",)), ("cuStreamQuery", (0,)), ("cuStreamSynchronize", (0,)), ("cuStreamGetFlags", ("stream", ROOM)), ("cuStreamGetCtx", ("stream", ROOM)), ("cuStreamGetCtx", (0, ROOM)),
    ("cuStreamWaitEvent", ("stream", "event", 0)), ("cuStreamIsCapturing", ("stream", ROOM)), ("cuStreamGetPriority", ("stream", ROOM)), ("cuStreamGetId", ("stream", ROOM)),
    ("cuEventCreate", (ROOM, 0)), ("cuEventQuery", ("event",)), ("cuEventRecord", ("event", "stream")), ("cuEventRecord", ("event", 0)), ("cuEventSynchronize", ("event",)), ("cuEventElapsedTime", (ROOM, "event", "event")),
    ("cuModuleLoadData", (ROOM, KERNELS)), ("cuModuleGetFunction", (ROOM, "module", b"store")), ("cuModuleGetGlobal_v2", (ROOM, ROOM, "module", b"table")),
    ("cuLibraryLoadData", (ROOM, KERNELS, 0, 0, 0, 0, 0, 0)), ("cuLibraryGetKernel", (ROOM, "library", b"store")), ("cuLibraryGetModule", (ROOM, "library")), ("cuLibraryGetGlobal", (ROOM, ROOM, "library", b"table")), ("cuLibraryGetKernelCount", (ROOM, "library")),
    ("cuKernelGetFunction", (ROOM, "kernel")), ("cuKernelGetAttribute", (ROOM, 0, "kernel", 0)), ("cuKernelSetAttribute", (8, 4096, "kernel", 0)), ("cuKernelGetParamInfo", ("kernel", 0, ROOM, ROOM)), ("cuKernelGetName", (ROOM, "kernel")),
    ("cuFuncGetAttribute", (ROOM, 0, "store")), ("cuFuncSetAttribute", ("store", 8, 4096)), ("cuFuncGetParamInfo", ("store", 0, ROOM, ROOM)), ("cuFuncGetModule", (ROOM, "store")), ("cuFuncGetName", (ROOM, "store")),
    ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)), ("cuLaunchKernel", ("kernel", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuLaunchHostFunc", ("stream", 0, 0)),
    ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (ROOM, "nothing", 32, 0)), ("cuOccupancyAvailableDynamicSMemPerBlock", (ROOM, "nothing", 1, 32)),
    ("cuGraphCreate", (ROOM, 0)), ("cuGraphInstantiateWithFlags", (ROOM, "graph", 0)), ("cuGraphLaunch", ("executable", "stream")), ("cuGraphLaunch", ("executable", 0)), ("cuGraphAddEmptyNode", (ROOM, "other_graph", 0, 0)), ("cuGraphUpload", ("executable", "stream")), ("cuGraphNodeGetType", ("first", ROOM)),
    ("cuMemCreate", (ROOM, 2 * MIB, physical_of(), 0)), ("cuMemAddressReserve", (ROOM, 2 * MIB, 0, 0, 0)), ("cuMemGetAllocationGranularity", (ROOM, physical_of(), 0)), ("cuMemMap", ("reserved", 2 * MIB, 0, "physical", 0)), ("cuMemSetAccess", ("reserved", 2 * MIB, access_of(), 1)), ("cuMemUnmap", ("reserved", 2 * MIB)),
    ("cuMemAllocAsync", (ROOM, 16, "stream")), ("cuMemAllocAsync", (ROOM, 16, 0)), ("cuMemAllocFromPoolAsync", (ROOM, 16, "pool", "stream")), ("cuMemFreeAsync", (0x1000, "stream")), ("cuMemPoolCreate", (ROOM, pool_of())), ("cuMemPoolGetAttribute", ("pool", 4, ROOM)), ("cuMemPoolTrimTo", ("pool", 0)), ("cuDeviceGetDefaultMemPool", (ROOM, 0)),
    ("cuCtxGetLimit", (ROOM, 0)), ("cuCtxSetLimit", (0, 1024)), ("cuCtxSynchronize", ()), ("cuCtxGetDevice", (ROOM,)), ("cuCtxGetCurrent", (WORD,)), ("cuCtxPopCurrent_v2", (ROOM,)), ("cuCtxGetFlags", (ROOM,)), ("cuCtxGetCacheConfig", (ROOM,)), ("cuCtxGetStreamPriorityRange", (ROOM, ROOM)), ("cuCtxGetApiVersion", (0, ROOM)), ("cuCtxGetId", (0, ROOM)), ("cuCtxSetFlags", (0,)),
    ("cuArrayCreate_v2", (ROOM, struct.pack("<QQII", 16, 0, 0x20, 1))), ("cuArrayGetDescriptor_v2", (ROOM, "array")), ("cuMemAdvise", ("managed", MIB, 1, 0)), ("cuMemPrefetchAsync", ("managed", MIB, 0, "stream")), ("cuMemRangeGetAttribute", (ROOM, 4, 1, "managed", MIB)), ("cuThreadExchangeStreamCaptureMode", (struct.pack("<i", 0),)),
    ("cuIpcGetMemHandle", (ROOM, "memory")), ("cuUserObjectRelease", (0, 1)), ("cuLinkCreate_v2", (0, 0, 0, ROOM)), ("cuCtxResetPersistingL2Cache", ()), ("cuTensorMapEncodeTiled", (NULL, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
)  # fmt: skip
"""Calls without a current context; names stand for the world's objects."""


def without_context(w: World) -> Iterator[tuple[Any, ...]]:
    w.lib("cuCtxSetCurrent", 0)
    for name, arguments in WITHOUT:
        given = [getattr(w, a) if isinstance(a, str) and a not in (ROOM, WORD, INT) else a for a in arguments]
        yield (
            "named",
            f"no context: {name}{tuple(a if not isinstance(a, bytes) else '...' for a in arguments)}",
            name,
            *given,
        )
        w.lib("cuCtxSetCurrent", 0)


CAPTURED: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("cuStreamSynchronize", ("stream",)), ("cuStreamQuery", ("stream",)), ("cuCtxSynchronize", ()), ("cuMemAlloc_v2", (ROOM, 16)), ("cuMemAllocAsync", (ROOM, 16, "stream")),
    ("cuMemcpyDtoH_v2", ("plain", "memory", 16)), ("cuMemcpyHtoDAsync_v2", ("memory", "plain", 16, "stream")), ("cuMemcpyHtoDAsync_v2", ("memory", "host", 16, 0)), ("cuMemsetD8_v2", ("memory", 0, 16)), ("cuMemsetD8Async", ("memory", 0, 16, 0)),
    ("cuEventRecord", ("event", "stream")), ("cuEventQuery", ("event",)), ("cuEventSynchronize", ("event",)), ("cuEventRecord", ("event", 0)), ("cuEventElapsedTime", (ROOM, "event", "event")), ("cuEventCreate", (ROOM, 0)),
    ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)), ("cuLaunchKernel", ("nothing", 0, 1, 1, 32, 1, 1, 0, "stream", 0, 0)),
    ("cuStreamDestroy_v2", (0,)), ("cuStreamCreate", (ROOM, 0)), ("cuStreamBeginCapture_v2", ("stream", 0)), ("cuStreamWaitEvent", ("stream", "untimed", 0)), ("cuStreamWaitEvent", (0, "untimed", 0)), ("cuModuleLoadData", (ROOM, KERNELS)),
    ("cuStreamAddCallback", ("stream", 0, 0, 0)), ("cuGraphLaunch", ("executable", 0)), ("cuGraphLaunch", ("executable", "stream")), ("cuMemFree_v2", (0,)), ("cuStreamSynchronize", (0,)), ("cuStreamQuery", (0,)), ("cuStreamAttachMemAsync", ("stream", "managed", 0, 4)), ("cuCtxGetLimit", (ROOM, 0)), ("cuMemGetInfo_v2", (ROOM, ROOM)),
    ("cuFuncGetAttribute", (ROOM, 0, "store")), ("cuPointerGetAttribute", (ROOM, 2, "memory")), ("cuMemHostAlloc", (ROOM, 16, 0)), ("cuMemPrefetchAsync", ("managed", MIB, 0, "stream")), ("cuStreamWriteValue32_v2", ("stream", "memory", 1, 0)), ("cuMemPoolTrimTo", ("pool", 0)), ("cuStreamGetCaptureInfo_v2", ("stream", INT, 0, 0, 0, 0)), ("cuStreamGetCaptureInfo_v2", (0, INT, 0, 0, 0, 0)), ("cuStreamIsCapturing", (0, INT)), ("cuStreamIsCapturing", ("stream", INT)),
)  # fmt: skip
"""Calls while a stream is captured, in each of the three modes: the call's answer, the capture's state behind it, and how it ends."""


def captured(w: World) -> Iterator[tuple[Any, ...]]:
    for mode in (0, 1, 2):
        for blocking in (1, 0):
            for name, arguments in CAPTURED:
                if blocking == 0 and 0 not in arguments:
                    continue
                yield "captured", mode, blocking, name, *arguments


AFTER: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("cuStreamSynchronize", ("stream",)), ("cuCtxSynchronize", ()), ("cuStreamQuery", ("stream",)), ("cuMemAlloc_v2", (ROOM, 16)), ("cuMemFree_v2", ("memory",)), ("cuMemFree_v2", (0,)), ("cuMemcpyDtoH_v2", ("plain", "memory", 16)),
    ("cuLaunchKernel", ("nothing", 1, 1, 1, 32, 1, 1, 0, "stream", 0, 0)), ("cuEventQuery", ("event",)), ("cuEventRecord", ("event", "stream")), ("cuEventCreate", (ROOM, 0)), ("cuStreamCreate", (ROOM, 0)), ("cuMemGetInfo_v2", (ROOM, ROOM)), ("cuMemHostAlloc", (ROOM, 16, 0)), ("cuMemFreeHost", ("host",)),
    ("cuCtxGetDevice", (ROOM,)), ("cuCtxGetLimit", (ROOM, 0)), ("cuDeviceGetCount", (ROOM,)), ("cuFuncGetAttribute", (ROOM, 0, "store")), ("cuModuleGetFunction", (ROOM, "module", b"store")), ("cuPointerGetAttribute", (ROOM, 2, "memory")), ("cuGraphCreate", (ROOM, 0)), ("cuGraphLaunch", ("executable", "stream")), ("cuModuleLoadData", (ROOM, KERNELS)),
    ("cuMemAllocAsync", (ROOM, 16, "stream")), ("cuMemsetD8Async", ("memory", 0, 16, "stream")), ("cuCtxGetFlags", (ROOM,)), ("cuCtxGetStreamPriorityRange", (ROOM, ROOM)), ("cuOccupancyMaxActiveBlocksPerMultiprocessor", (ROOM, "nothing", 32, 0)), ("cuMemCreate", (ROOM, 2 * MIB, physical_of(), 0)), ("cuLibraryGetKernel", (ROOM, "library", b"store")),
    ("cuEventDestroy_v2", ("event",)), ("cuModuleUnload", ("module",)), ("cuStreamDestroy_v2", ("stream",)), ("cuDevicePrimaryCtxReset_v2", (0,)), ("cuMemAlloc_v2", (ROOM, 16)),
)  # fmt: skip
"""Calls behind a kernel that stopped with a trap."""


def faulted(w: World) -> Iterator[tuple[Any, ...]]:
    stops = w.lib.word("cuModuleGetFunction", w.module, b"stops")
    yield "named", "a trap", "cuLaunchKernel", stops, 1, 1, 1, 1, 1, 1, 0, w.stream, 0, 0
    for n, (name, arguments) in enumerate(AFTER):
        given = [getattr(w, a) if isinstance(a, str) and a not in (ROOM, WORD, INT) else a for a in arguments]
        yield "named", f"behind a trap, {n}: {name}", name, *given


GROUPS = {
    f.__name__: f
    for f in (devices, contexts, memory, copies, streams, modules, launches, graphs, virtual, pools, arrays, without_context, captured, faulted)
}  # fmt: skip


def several(w: World, row: tuple[Any, ...]) -> Any:
    """Rows of more than one call."""
    lib, name = w.lib, row[0]
    if name == "priority":
        place, got = ctypes.c_uint64(), ctypes.c_int(77)
        code = lib("cuStreamCreateWithPriority", ctypes.byref(place), 1, row[1])
        lib("cuStreamGetPriority", place.value, ctypes.byref(got))
        return [code, got.value]
    if name == "attribute among others":
        values = (ctypes.c_uint64 * 1)(0x4D4D4D4D4D4D4D4D)
        code = lib("cuPointerGetAttributes", 1, struct.pack("<I", row[1]), words(ctypes.addressof(values)), row[2])
        known = row[1] in (2, 8, 9)
        return [code, ctypes.c_int(values[0] & 0xFFFFFFFF).value if known else values[0] in (0, row[2])]
    if name == "new event":
        return lib(row[1], lib.word("cuEventCreate", 0))
    if name == "elapsed":
        first, second, out = lib.word("cuEventCreate", 0), lib.word("cuEventCreate", 0), ctypes.c_float()
        place = ctypes.byref(out)
        codes = [lib("cuEventElapsedTime", place, first, second)]
        lib("cuEventRecord", first, w.stream)
        codes.append(lib("cuEventElapsedTime", place, first, second))
        lib("cuEventRecord", second, w.stream)
        lib("cuStreamSynchronize", w.stream)
        codes += [
            lib("cuEventElapsedTime", place, a, b)
            for a, b in ((first, second), (second, first), (0, second), (w.untimed, second))
        ]
        lib("cuEventRecord", w.untimed, w.stream)
        lib("cuStreamSynchronize", w.stream)
        return [
            *codes,
            lib("cuEventElapsedTime", place, w.untimed, second),
            lib("cuEventElapsedTime", 0, first, second),
        ]
    if name == "link":
        made, cubin, size = (ctypes.c_uint64() for _ in range(3))
        assert lib("cuLinkCreate_v2", 0, 0, 0, ctypes.byref(made)) == 0
        link = made.value
        text = row[2] + bytes(1)
        codes = [lib("cuLinkAddData_v2", link, row[1], text, len(text), b"name", 0, 0, 0)]
        return [
            *codes,
            lib("cuLinkComplete", link, ctypes.byref(cubin), ctypes.byref(size)),
            lib("cuLinkDestroy", link),
        ]
    if name == "library and its kernel":
        library, kernel, function = (ctypes.c_uint64() for _ in range(3))
        code = lib("cuLibraryLoadData", ctypes.byref(library), row[1], 0, 0, 0, 0, 0, 0)
        if code:
            return [code]
        codes = [code, lib("cuLibraryGetKernel", ctypes.byref(kernel), library.value, b"nothing")]
        return codes if codes[1] else [*codes, lib("cuKernelGetFunction", ctypes.byref(function), kernel.value)]
    if name == "asynchronous memory":
        memory = lib.word("cuMemAllocAsync", 4096, w.stream)
        if row[1] == "cuMemFree_v2":
            return lib("cuMemFree_v2", memory)
        if row[1] == "inside":
            return [lib("cuMemFreeAsync", memory + 16, w.stream), lib("cuMemFreeAsync", memory, w.stream)]
        codes = [lib("cuMemFreeAsync", memory, w.stream)]
        return [*codes, lib("cuMemFreeAsync", memory, w.stream)] if row[1] == "twice" else codes
    assert name == "captured", name
    _, mode, blocking, call, *arguments = row
    w.stream, w.event = lib.word("cuStreamCreate", blocking), lib.word("cuEventCreate", 0)
    begun = lib("cuStreamBeginCapture_v2", w.stream, mode)
    given = [getattr(w, a) if isinstance(a, str) and a not in (ROOM, WORD, INT) else a for a in arguments]
    answer = w.ask(call, *given)
    state, graph = ctypes.c_int(77), ctypes.c_uint64(77)
    queried = lib("cuStreamIsCapturing", w.stream, ctypes.byref(state))
    ended = lib("cuStreamEndCapture", w.stream, ctypes.byref(graph))
    return [begun, answer, queried, state.value, ended, graph.value == 0]


def rows(w: World, group: str) -> Iterator[Row]:
    """Each row's name, which holds no address, and how it is asked."""
    own = {v: k for k, v in vars(w).items() if isinstance(v, int) and v > 4096}
    own[w.lib.context] = "context"
    stretches = {n: getattr(w, n) for n in ("memory", "managed", "host", "plain", "reserved")}

    def shown(value: Any) -> str:
        if isinstance(value, bytes):
            return value.decode() if value.isascii() and value.isalpha() else "..."
        if not isinstance(value, int) or value in own:
            return str(own.get(value, value))
        offset, near = (
            min((value - begin, n) for n, begin in stretches.items() if value > begin) if value > 1 << 32 else (0, "")
        )
        return f"{near}+{offset}" if 0 < offset <= 8 * MIB else str(value)

    seen: Counter[str] = Counter()
    for row in GROUPS[group](w):
        if row[0] == "named":
            name, row = row[1], row[2:]
        else:
            name = f"{row[0]}({', '.join(shown(a) for a in row[1:])})"
        seen[name] += 1
        name += f" #{seen[name]}" if seen[name] > 1 else ""
        known = row[0].startswith("cu")
        yield name, partial(w.ask, *row) if known else partial(several, w, row)


def ask(group: str, dead: set[int]) -> None:
    """Ask a group's rows one after the other, but for the dead ones, and print each name and answer."""
    world = World()
    for n, (name, answer) in enumerate(rows(world, group)):
        print(json.dumps(name), flush=True)
        print(json.dumps("dies" if n in dead else answer()), flush=True)


def answers(group: str) -> dict[str, Any]:
    """A group's answers by name; ``"dies"`` where the process did, or did not go on."""
    dead: set[int] = set()
    while True:
        command = [sys.executable, "-m", "bench.driver_codes", "--group", group, "--dead", ",".join(map(str, dead))]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
            ended, said = done.returncode == 0, done.stdout
        except subprocess.TimeoutExpired as error:
            ended, said = False, (error.stdout or b"").decode()
        lines = [json.loads(line) for line in said.splitlines()]
        if ended:
            return dict(zip(lines[0::2], lines[1::2], strict=True))
        if not lines or len(lines) // 2 in dead:
            return {"nothing": said[-300:]}
        dead.add(len(lines) // 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--group", choices=GROUPS)
    parser.add_argument("--dead", default="", help="rows that are not asked, by number")
    given = parser.parse_args()
    if given.group and not given.out:
        ask(given.group, {int(n) for n in given.dead.split(",") if n})
        return
    groups = [given.group] if given.group else list(GROUPS)
    with ThreadPoolExecutor(PARTS) as executor:
        found = dict(zip(groups, executor.map(answers, groups), strict=True))
    given.out.write_text(json.dumps({"command": "python -m bench.driver_codes --out FILE", "rows": found}))


if __name__ == "__main__":
    main()
