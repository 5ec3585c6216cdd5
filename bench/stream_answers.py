"""What a driver answers about SM resources, streams' memory operations, batches of ranges, pools and its log.

    python -m bench.stream_answers --out FILE        (on a card)

The calls are made the same way on Warpwright's driver (``tests/test_driver_answers.py``), which must answer alike. Calls that crash a card's driver (resources
without a type, null pointers) are left out.
"""

from __future__ import annotations

import argparse
import ctypes
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.driver_answers import MIB, Library, keeper, words

RESOURCE_BYTES = 144
"""CUdevResource; SMs, smallest part and alignment from byte 96 on."""
SM, NON_BLOCKING = 1, 1
PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry where(.param .u64 places, .param .u32 turns) {
    .reg .u64 %rd<4>;
    .reg .u32 %r<8>;
    .reg .pred %p;
    ld.param.u64 %rd1, [places];
    ld.param.u32 %r1, [turns];
    mov.u32 %r2, 0;
again:
    nanosleep.u32 1000;
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p, %r2, %r1;
    @%p bra again;
    mov.u32 %r3, %smid;
    mov.u32 %r4, %nsmid;
    mov.u32 %r5, %ctaid.x;
    mul.wide.u32 %rd2, %r5, 8;
    add.u64 %rd3, %rd1, %rd2;
    st.global.v2.u32 [%rd3], {%r3, %r4};
    ret;
}
\0"""
"""Each block stays for a while and leaves the number of its SM and of all."""
BLOCKS = 4224
TURNS = 20


def resources(count: int = 1) -> Any:
    """Room for resources."""
    return ctypes.create_string_buffer(RESOURCE_BYTES * max(count, 1))


def told(raw: bytes) -> list[int]:
    """Type, SMs, smallest part and alignment of a resource."""
    return [struct.unpack_from("<i", raw)[0], *struct.unpack_from("<III", raw, 96)]


def piece(room: Any, number: int, count: int = 1) -> Any:
    """A copy of some of an array's resources."""
    raw = room.raw[RESOURCE_BYTES * number : RESOURCE_BYTES * (number + count)]
    return ctypes.create_string_buffer(raw, len(raw))


class Green:
    """Questions about SM resources and green contexts."""

    def __init__(self, lib: Library) -> None:
        self.lib = lib
        module = lib.word("cuModuleLoadData", ctypes.c_char_p(PTX))
        self.kernel = lib.word("cuModuleGetFunction", module, ctypes.c_char_p(b"where"))
        self.room = lib.word("cuMemAlloc_v2", 8 * BLOCKS)
        self.whole = resources()
        lib("cuDeviceGetDevResource", 0, self.whole, SM)

    def split(self, least: int, most: int, flags: int) -> list[Any]:
        """Code, groups made, SMs of each, what remains, and the same without a place for groups."""
        groups, rest, count, counted = resources(most), resources(), ctypes.c_uint32(most), ctypes.c_uint32(most)
        split = "cuDevSmResourceSplitByCount"
        code = self.lib(split, groups, ctypes.byref(count), self.whole, rest, flags, least)
        without = self.lib(split, 0, ctypes.byref(counted), self.whole, 0, flags, least)
        made = [told(piece(groups, n).raw) for n in range(count.value if code == 0 else 0)]
        return [code, count.value, made, told(rest.raw), without, counted.value]

    def parts(self) -> dict[str, Any]:
        """Every split that is asked for."""
        return {
            f"{least} SMs, {most} groups, flags {flags}": self.split(least, most, flags)
            for flags in range(4)
            for least in (0, 1, 2, 3, 7, 8, 9, 16, 17, 24, 32, 64, 66, 100, 128, 130, 132, 133)
            for most in (0, 1, 2, 17, 200)
        }

    def questions(self) -> dict[str, Any]:
        """Of devices, contexts and wrong resources."""
        lib, room = self.lib, resources()
        found: dict[str, Any] = {
            f"device, type {kind}": lib("cuDeviceGetDevResource", 0, room, kind) for kind in (0, 1, 2, 1000, 10000)
        }
        found["device"] = told(self.whole.raw)
        found["no such device"] = lib("cuDeviceGetDevResource", 9, room, SM)
        found["context"] = [lib("cuCtxGetDevResource", lib.context, room, SM), told(room.raw)]
        found["no context"] = lib("cuCtxGetDevResource", 0, room, SM)
        count = ctypes.c_uint32(1)
        nothing = lib("cuDevSmResourceSplitByCount", room, ctypes.byref(count), resources(), resources(), 0, 8)
        found["split of nothing"] = nothing
        groups, count = self.two()
        part = piece(groups, 0)
        found["split of a part"] = lib(
            "cuDevSmResourceSplitByCount", room, ctypes.byref(count), part, resources(), 0, 8
        )
        return found

    def two(self) -> tuple[Any, ctypes.c_uint32]:
        """Two groups of 16 SMs."""
        groups, count = resources(2), ctypes.c_uint32(2)
        assert self.lib("cuDevSmResourceSplitByCount", groups, ctypes.byref(count), self.whole, resources(), 0, 16) == 0
        return groups, count

    def make(self, room: Any, count: int, flags: int = 1, device: int = 0) -> tuple[int, int]:
        """Code and handle of a green context."""
        description, made = ctypes.c_uint64(), ctypes.c_uint64()
        assert self.lib("cuDevResourceGenerateDesc", ctypes.byref(description), room, count) == 0
        return self.lib("cuGreenCtxCreate", ctypes.byref(made), description, device, flags), made.value

    def sms(self, stream: int, blocks: int = BLOCKS) -> tuple[int, set[int], set[int]]:
        """Result of a launch in a stream, the SMs that had its blocks, and what they hold for the number of all."""
        place, turns = ctypes.c_uint64(self.room), ctypes.c_uint32(TURNS)
        arguments = words([ctypes.addressof(place), ctypes.addressof(turns)])
        code = self.lib("cuLaunchKernel", self.kernel, blocks, 1, 1, 32, 1, 1, 0, stream, arguments, 0)
        code = code or self.lib("cuStreamSynchronize", stream)
        seen = (ctypes.c_uint32 * (2 * blocks))()
        self.lib("cuMemcpyDtoH_v2", seen, self.room, 8 * blocks)
        return code, set(seen[::2]), set(seen[1::2])

    def together(self, stream: int, blocks: int) -> int:
        """Result of a cooperative launch."""
        place, turns = ctypes.c_uint64(self.room), ctypes.c_uint32(1)
        arguments = words([ctypes.addressof(place), ctypes.addressof(turns)])
        code = self.lib("cuLaunchCooperativeKernel", self.kernel, blocks, 1, 1, 32, 1, 1, 0, stream, arguments)
        return code or self.lib("cuStreamSynchronize", stream)

    def stream(self, context: int, flags: int = NON_BLOCKING, priority: int = 0) -> tuple[int, int]:
        """Code and handle of a stream of a green context."""
        made = ctypes.c_uint64()
        return self.lib("cuGreenCtxStreamCreate", ctypes.byref(made), context, flags, priority), made.value

    def contexts(self) -> dict[str, Any]:
        """Green contexts of 16, 16, both and all SMs: what they are, and where their kernels run."""
        lib = self.lib
        groups, _ = self.two()
        found: dict[str, Any] = {f"flags {n}": self.make(piece(groups, 0), 1, n)[0] for n in range(4)}
        found["no such device"] = self.make(piece(groups, 0), 1, 1, 9)[0]
        first, second = self.make(piece(groups, 0), 1)[1], self.make(piece(groups, 1), 1)[1]
        both, whole = self.make(groups, 2)[1], self.make(self.whole, 1)[1]
        room = resources()
        for name, context in (("first", first), ("both", both), ("whole", whole)):
            found[f"resource of {name}"] = [lib("cuGreenCtxGetDevResource", context, room, SM), told(room.raw)]
        found["type 0"] = lib("cuGreenCtxGetDevResource", first, room, 0)
        context = lib.word("cuCtxFromGreenCtx", first)
        found["its context"] = [context == first, lib("cuCtxGetDevResource", context, room, SM), told(room.raw)]
        found["stream's flags"] = [self.stream(first, flags)[0] for flags in range(3)]
        priority = ctypes.c_int()
        stream = self.stream(first, priority=-9)[1]
        lib("cuStreamGetPriority", stream, ctypes.byref(priority))
        found["priority"] = priority.value
        seen: dict[str, set[int]] = {}
        for name, one in (("first", first), ("second", second), ("both", both), ("whole", whole)):
            code, seen[name], counts = self.sms(self.stream(one)[1])
            found[f"kernels of {name}"] = [code, len(seen[name]), sorted(counts)]
        found["disjoint"] = not seen["first"] & seen["second"]
        found["together"] = seen["first"] | seen["second"] == seen["both"]
        found["cooperative"] = [self.together(stream, 16 * 32), self.together(stream, 16 * 32 + 1)]
        found["cooperative on all"] = [self.together(0, 132 * 32), self.together(0, 132 * 32 + 1)]
        one, other = ctypes.c_uint64(7), ctypes.c_uint64(7)
        code = lib("cuStreamGetGreenCtx", stream, ctypes.byref(one))
        found["stream's green context"] = [code, one.value == first]
        found["default stream's"] = [lib("cuStreamGetGreenCtx", 0, ctypes.byref(one)), one.value]
        code = lib("cuStreamGetCtx_v2", stream, ctypes.byref(one), ctypes.byref(other))
        found["stream's contexts"] = [code, one.value == lib.context, other.value == first]
        found["stream's context"] = [lib("cuStreamGetCtx", stream, ctypes.byref(one)), one.value == first]
        found["current"] = self.current(first)
        event = lib.word("cuEventCreate", 0)
        for name, call, given in (
            ("record", "cuGreenCtxRecordEvent", first), ("wait", "cuGreenCtxWaitEvent", second),
            ("record of all", "cuCtxRecordEvent", lib.context), ("record of its context", "cuCtxRecordEvent", first),
            ("wait of all", "cuCtxWaitEvent", lib.context),
        ):  # fmt: skip
            found[name] = lib(call, given, event)
        found["record of no event"] = lib("cuGreenCtxRecordEvent", first, 0)
        found["destroyed as a context"] = lib("cuCtxDestroy_v2", first)
        found["destroyed"] = lib("cuGreenCtxDestroy", first)
        found["its stream then"] = lib("cuStreamSynchronize", stream)
        return found

    def current(self, green: int) -> list[Any]:
        """With a green context current: its flags, where the default and a new stream's kernels run, memory, modules, the device."""
        lib = self.lib
        assert lib("cuCtxSetCurrent", green) == 0
        flags, device, owner = ctypes.c_uint32(), ctypes.c_int(9), ctypes.c_uint64()
        found: list[Any] = [lib("cuCtxGetFlags", ctypes.byref(flags)), flags.value, len(self.sms(0)[1])]
        stream = lib.word("cuStreamCreate", NON_BLOCKING)
        found += [len(self.sms(stream)[1]), lib("cuStreamGetGreenCtx", stream, ctypes.byref(owner))]
        found += [owner.value == green, lib("cuMemFree_v2", lib.word("cuMemAlloc_v2", 4096))]
        found += [lib("cuModuleUnload", lib.word("cuModuleLoadData", ctypes.c_char_p(PTX)))]
        found += [lib("cuCtxGetDevice", ctypes.byref(device)), device.value]
        assert lib("cuCtxSetCurrent", lib.context) == 0
        return found


# --- memory operations ---------------------------------------------------------------------------------------------------
WAIT_32, WRITE_32, FLUSH, WAIT_64, WRITE_64, BARRIER = range(1, 7)


def word_operation(kind: int, address: int, value: int, flags: int = 0) -> bytes:
    return struct.pack("<i4xQQI4xQ8x", kind, address, value, flags, 0)


def other_operation(kind: int, flags: int = 0) -> bytes:
    return struct.pack("<iI40x", kind, flags)


def memory_operations(lib: Library) -> dict[str, Any]:
    """Answers to batches of operations and to single ones, captured and as nodes."""
    stream, word, host = (
        lib.word("cuStreamCreate", 1),
        lib.word("cuMemAlloc_v2", 4096),
        lib.word("cuMemHostAlloc", 4096, 0),
    )
    found: dict[str, Any] = {}

    def value() -> int:
        place = ctypes.c_uint64()
        lib("cuMemcpyDtoH_v2", ctypes.byref(place), word, 8)
        return place.value

    def batch(name: str, operations: Sequence[bytes], flags: int = 0, given: int | None = None) -> None:
        raw = b"".join(operations)
        room = ctypes.create_string_buffer(raw, max(len(raw), 1))
        code = lib("cuStreamBatchMemOp_v2", stream if given is None else given, len(operations), room, flags)
        found[name] = [code, lib("cuStreamSynchronize", stream), value()]

    write = word_operation(WRITE_32, word, 5)
    lib("cuMemsetD8_v2", word, 0, 4096)
    batch("write and wait", [write, word_operation(WAIT_32, word, 5, 1)])
    batch("64 bits", [word_operation(WRITE_64, word + 8, 1 << 40), word_operation(WAIT_64, word + 8, 1 << 40, 1)])
    for flags in range(3):
        batch(f"barrier {flags}", [other_operation(BARRIER, flags)])
    batch("flush", [other_operation(FLUSH)])
    batch("none", [])
    for kind in (0, 7, 9):
        batch(f"kind {kind}", [word_operation(kind, word, 1)])
    batch("flags", [write], flags=1)
    for flags in (1, 2):
        batch(f"write, flags {flags}", [word_operation(WRITE_32, word, 6, flags)])
    for flags in (4, 9, 1 | 1 << 30):
        batch(f"wait, flags {flags}", [write, word_operation(WAIT_32, word, 5, flags)])
    batch("misaligned", [word_operation(WRITE_32, word + 2, 6)])
    batch("misaligned, 64 bits", [word_operation(WRITE_64, word + 4, 6)])
    for name, address in (("null", 0), ("unknown", 0x1000), ("host", host)):
        batch(name, [word_operation(WRITE_32, address, 6)])
    batch("default stream", [word_operation(WRITE_32, word, 7)], given=0)
    batch("256", [word_operation(WRITE_32, word, n) for n in range(256)])
    batch("257", [word_operation(WRITE_32, word, n) for n in range(257)])
    for flags, written, waited in ((0, 5, 3), (2, 6, 2), (3, 6, 2), (0, 1, 0xFFFF_FFFF)):
        operations = [word_operation(WRITE_32, word, written), word_operation(WAIT_32, word, waited, flags)]
        batch(f"{written} for {waited}, flags {flags}", operations)
    room = ctypes.create_string_buffer(write, 48)
    found["first version"] = lib("cuStreamBatchMemOp", stream, 1, room, 0)
    for call in ("cuStreamWriteValue32_v2", "cuStreamWaitValue32_v2"):
        for name, address, flags in (
            ("misaligned", word + 2, 0),
            ("flags", word, 8),
            ("null", 0, 0),
            ("unknown", 0x1000, 0),
        ):
            found[f"{call}, {name}"] = lib(call, stream, address, 0, flags)
    found["graphs"] = operations_in_graphs(lib, stream, word, value)
    return found


def operations_in_graphs(lib: Library, stream: int, word: int, value: Any) -> list[Any]:
    """What a capture of three calls holds and does, and nodes by hand."""
    lib("cuMemsetD8_v2", word, 0, 4096)
    lib("cuCtxSynchronize")
    room = ctypes.create_string_buffer(
        word_operation(WRITE_32, word + 4, 3) + word_operation(WAIT_32, word + 4, 3, 1), 96
    )
    found: list[Any] = [
        lib("cuStreamBeginCapture_v2", stream, 0),
        lib("cuStreamWriteValue32_v2", stream, word, 77, 0),
        lib("cuStreamWaitValue32_v2", stream, word, 77, 1),
        lib("cuStreamBatchMemOp_v2", stream, 2, room, 0),
    ]
    graph, count, kind = ctypes.c_uint64(), ctypes.c_uint64(8), ctypes.c_int()
    found.append(lib("cuStreamEndCapture", stream, ctypes.byref(graph)))
    nodes = (ctypes.c_uint64 * 8)()
    lib("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    for node in nodes[: count.value]:
        found += [lib("cuGraphNodeGetType", node, ctypes.byref(kind)), kind.value]
    place = ctypes.create_string_buffer(64)
    found.append(lib("cuGraphBatchMemOpNodeGetParams", nodes[count.value - 1], place))
    context, many, operations, flags = struct.unpack_from("<QI4xQI", place.raw)
    found += [context == lib.context, many, flags]
    found += [list(struct.unpack_from("<i4x8xQI", ctypes.string_at(operations + 48 * n, 48))) for n in range(many)]
    executable = ctypes.c_uint64()
    found.append(lib("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0))
    found += [lib("cuGraphLaunch", executable, stream), lib("cuStreamSynchronize", stream), value()]
    lib("cuGraphCreate", ctypes.byref(graph), 0)

    def parameters(context: int, count: int, operations: int, flags: int) -> Any:
        return ctypes.create_string_buffer(struct.pack("<QI4xQI4x", context, count, operations, flags), 32)

    made, base = ctypes.c_uint64(), ctypes.addressof(room)
    for given in (
        (lib.context, 2, base, 0),
        (0, 2, base, 0),
        (lib.context, 0, base, 0),
        (lib.context, 2, base, 1),
        (lib.context, 2, 0, 0),
    ):
        found.append(lib("cuGraphAddBatchMemOpNode", ctypes.byref(made), graph, 0, 0, parameters(*given)))
    found.append(lib("cuGraphBatchMemOpNodeSetParams", made, parameters(lib.context, 1, base, 0)))
    return found


# --- ranges, pools, the log ------------------------------------------------------------------------------------------------
RANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("two", {}),
    ("host", {"places": [(2, 0)]}),
    ("two places", {"places": [(1, 0), (2, 0)], "begins": [0, 1]}),
    ("a node of the host", {"places": [(3, 0)]}),
    ("the thread's node", {"places": [(4, 0)]}),
    ("no place", {"places": [(0, 0)]}),
    ("no such device", {"places": [(1, 9)]}),
    ("none", {"count": 0}),
    ("no places", {"kinds": 0}),
    ("begins late", {"begins": [1]}),
    ("backwards", {"places": [(1, 0), (2, 0)], "begins": [1, 0]}),
    ("twice the same", {"places": [(1, 0), (2, 0)], "begins": [0, 0]}),
    ("behind the last", {"places": [(1, 0), (2, 0)], "begins": [0, 2]}),
    ("more places than ranges", {"places": [(1, 0)] * 3, "begins": [0, 1, 2]}),
    ("flags", {"flags": 1}),
    ("legacy stream", {"stream": 0}),
    ("legacy stream by its name", {"stream": 1}),
    ("stream of the thread", {"stream": 2}),
    ("an empty range", {"sizes": [MIB, 0]}),
    ("device memory", {"second": "plain"}),
    ("unknown memory", {"second": "unknown"}),
    ("too long", {"sizes": [MIB, 8 * MIB]}),
)


def ranges(lib: Library) -> dict[str, Any]:
    """Answers to batches of two ranges of 8 MiB of managed memory, and where their pages were prefetched then."""
    address, plain, stream = (
        lib.word("cuMemAllocManaged", 8 * MIB, 1),
        lib.word("cuMemAlloc_v2", MIB),
        lib.word("cuStreamCreate", 1),
    )
    others = {"plain": plain, "unknown": 0x1000}

    def where() -> list[int]:
        found = []
        for offset in (0, MIB, 4 * MIB):
            for number in (7, 8):
                word = ctypes.c_int32(-77)
                lib("cuMemRangeGetAttribute", ctypes.byref(word), 4, number, address + offset, 4096)
                found.append(word.value)
        return found

    found = {}
    for call in ("cuMemPrefetchBatchAsync", "cuMemDiscardAndPrefetchBatchAsync", "cuMemDiscardBatchAsync"):
        for name, how in RANGES:
            begins, places = how.get("begins", [0]), how.get("places", [(1, 0)])
            packed = b"".join(struct.pack("<ii", *place) for place in places)
            second = others.get(how.get("second", ""), address + 4 * MIB)
            about = [ctypes.create_string_buffer(packed, len(packed)), words(begins), how.get("kinds", len(begins))]
            if call == "cuMemDiscardBatchAsync":
                if {"places", "begins", "kinds"} & how.keys():
                    continue
                about = []
            given = [words([address, second]), words(how.get("sizes", [MIB, MIB])), how.get("count", 2)]
            code = lib(call, *given, *about, how.get("flags", 0), how.get("stream", stream))
            lib("cuCtxSynchronize")
            found[f"{call}, {name}"] = [code, where()]
    return found


def pools(lib: Library) -> dict[str, Any]:
    """Pools of places and kinds of memory: codes of the default, the current and the change, and whether the first two are one."""
    found = {}
    for place in ((1, 0), (2, 0), (3, 0), (0, 0), (1, 9)):
        for kind in range(4):
            packed = ctypes.create_string_buffer(struct.pack("<ii", *place), 8)
            first, second = ctypes.c_uint64(), ctypes.c_uint64()
            code = lib("cuMemGetDefaultMemPool", ctypes.byref(first), packed, kind)
            other = lib("cuMemGetMemPool", ctypes.byref(second), packed, kind)
            changed = None if code else lib("cuMemSetMemPool", packed, kind, first)
            found[f"{place}, {kind}"] = [code, other, first.value == second.value, changed]
    return found


def log(lib: Library) -> dict[str, Any]:
    """How the error log is read, and what of a failed call stands in it for certain."""
    told_of: list[tuple[int, int, str, int]] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)

    def tell(data: int, level: int, message: bytes, length: int) -> None:
        told_of.append((data, level, message.decode(), length))

    listener, handle, start = kind(tell), ctypes.c_uint64(), ctypes.c_uint32(9)
    found: dict[str, Any] = {"register": lib("cuLogsRegisterCallback", listener, 5, ctypes.byref(handle))}
    found["current"] = lib("cuLogsCurrent", ctypes.byref(start), 0)
    found["current, flags"] = lib("cuLogsCurrent", ctypes.byref(start), 1)
    lib("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 0)
    found["told"] = [list(one) for one in told_of if one[2].startswith("Returning")]
    room, size, next_one = ctypes.create_string_buffer(5000), ctypes.c_uint64(5000), ctypes.c_uint32(start.value)
    code = lib("cuLogsDumpToMemory", ctypes.byref(next_one), room, ctypes.byref(size), 0)
    lines = room.value.decode().splitlines()
    found["dump"] = [code, size.value == len(room.value), lines[-1].split("] ", 1)[1], next_one.value > start.value]
    size = ctypes.c_uint64(5000)
    code = lib("cuLogsDumpToMemory", ctypes.byref(next_one), room, ctypes.byref(size), 0)
    found["dump of nothing"] = [code, size.value]
    size = ctypes.c_uint64(20)
    code = lib("cuLogsDumpToMemory", 0, room, ctypes.byref(size), 0)
    found["dump into 20 bytes"] = [code, size.value]
    size = ctypes.c_uint64(5000)
    found["dump, flags"] = lib("cuLogsDumpToMemory", 0, room, ctypes.byref(size), 1)
    found["dump to no file"] = lib("cuLogsDumpToFile", 0, ctypes.c_char_p(b"/nowhere/at/all"), 0)
    found["unregister"] = lib("cuLogsUnregisterCallback", handle)
    told_of.clear()
    lib("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 0)
    found["told then"] = told_of
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    lib = Library()
    keep = keeper(lib, given.out, "python -m bench.stream_answers --out FILE")
    green = Green(lib)
    keep("parts", green.parts())
    keep("resources", green.questions())
    keep("memory_operations", memory_operations(lib))
    keep("ranges", ranges(lib))
    keep("pools", pools(lib))
    keep("log", log(lib))
    keep("green_contexts", green.contexts())


if __name__ == "__main__":
    main()
