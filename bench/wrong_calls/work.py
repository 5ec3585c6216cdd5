"""Streams, events, modules, launches and graphs."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from typing import Any

from bench.driver_answers import MIB
from bench.wrong_calls.world import INT, KERNELS, NULL, ROOM, WORD, World, words


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
