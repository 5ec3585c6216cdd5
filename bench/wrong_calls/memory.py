"""Devices, contexts, memory of every kind, copies, pools, arrays and textures."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from bench.driver_answers import MIB
from bench.wrong_calls.world import INT, NULL, ROOM, WORD, World, access_of, physical_of, pool_of, words


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
