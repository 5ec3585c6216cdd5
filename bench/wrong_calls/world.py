"""The objects that rows name: one object of each kind, locations that calls write, and structures."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from bench.driver_answers import MIB, Library

INT, WORD, ROOM, NULL = "int", "word", "room", 0
"""Places that a call writes: an int or a 64-bit word that is kept, and room of which nothing is kept."""
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


class World:
    """A context with one object of each kind."""

    def __init__(self) -> None:
        lib = self.lib = Library()
        self.kept: list[Any] = []
        """Memory that calls point to, kept alive while they are made."""
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
