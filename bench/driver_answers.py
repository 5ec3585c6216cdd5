"""Records what a driver answers to right and wrong arguments: ``python -m bench.driver_answers --out FILE`` on a card.

Tensor maps of random arguments, advice and prefetches of managed memory with the attributes of its ranges, batches of copies,
places of allocations, attributes of the device: the calls are made the same way on Warpwright's driver
(``tests/test_driver_answers.py``), which must answer alike.  Arguments follow from a seed, so that only answers are kept.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

MAPS = 4000
"""Random tensor maps of each kind."""
ATTRIBUTES = 160
MIB = 1 << 20


class Library:
    """Calls by name, with ints as 64-bit words; the result is the driver's code."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.begin()

    def __call__(self, name: str, *arguments: Any) -> int:
        given = [ctypes.c_uint64(a & (1 << 64) - 1) if isinstance(a, int) else a for a in arguments]
        try:
            return int(self.library[name](*given))
        except AttributeError:
            return -1  # the driver has no such call

    def word(self, name: str, *arguments: Any) -> int:
        """The value that a successful call stores at the address in its first argument."""
        place = ctypes.c_uint64()
        code = self(name, ctypes.byref(place), *arguments)
        assert code == 0, f"{name}: {code}"
        return place.value

    def begin(self) -> None:
        assert self("cuInit", 0) == 0
        self.context = self.word("cuDevicePrimaryCtxRetain", 0)
        assert self("cuCtxSetCurrent", self.context) == 0


# --- tensor maps -----------------------------------------------------------------------------------------------------
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
SHIFTED = (*(0,) * 12, 8, 16, 32, 64)
STRANGE = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1024, 1025, (1 << 32) - 1)


def words(values: Sequence[int], kind: Any = ctypes.c_uint64) -> Any:
    mask = (1 << 8 * ctypes.sizeof(kind)) - 1
    return (kind * max(len(values), 1))(*(v & mask for v in values))


def a_map(draw: random.Random, im2col: bool) -> list[Any]:
    """Arguments that mostly make a map: place, type, rank, address, sizes, strides, then box or corners, steps and kinds."""
    kind = draw.randrange(13)
    size = ELEMENT_BYTES[kind]
    interleave = draw.choice((0, 0, 0, 1, 2))
    rank = draw.randint(3 if im2col or interleave else 1, 5)
    sizes = [draw.choice((1, 2, 16, 33, 64, 100, 1000, 1 << 20)) for _ in range(rank)]
    pitch, strides = sizes[0] * size, []
    for n in sizes[1:]:
        pitch = -(-pitch // 32) * 32
        strides.append(pitch)
        pitch *= n
        pitch %= 1 << 36
        pitch = pitch or 32
    swizzle = draw.choice((0, 0, 1, 2, 3)) if interleave != 2 else draw.choice((0, 1))
    span = (256, 32, 64, 128)[swizzle]
    inner = max(draw.choice((16, 32, 64, 128)) // size, 1)
    inner = min(inner, span // size)
    steps = [draw.choice((1, 1, 1, 2, 3, 8)) for _ in range(rank)]
    box = [inner, *(draw.choice((1, 2, 8, 16, 64)) for _ in range(rank - 1))]
    kinds = [interleave, swizzle, draw.randrange(4), draw.choice((0, 0, 1))]
    low = [draw.choice((0, -1, 1, -3, 7)) for _ in range(rank - 2)]
    high = [draw.choice((0, -1, 1, -3, 7)) for _ in range(rank - 2)]
    about = [low, high, inner, draw.choice((1, 8, 64, 1024))] if im2col else [box]
    return [0, kind, rank, 0, sizes, strides, *about, steps, *kinds]


def changed(draw: random.Random, arguments: list[Any]) -> None:
    """One argument, or an element of one, becomes something that may not be allowed."""
    at = draw.randrange(len(arguments))
    if at == 0:
        arguments[0] = draw.choice((1, 4, 8, 16, 32, 48))
    elif at == 3:
        arguments[3] = draw.choice((1, 2, 4, 8, 16, 24, 32, 48, 64))
    elif isinstance(arguments[at], list):
        values = arguments[at]
        if values:
            n = draw.randrange(len(values))
            if at == 5:
                values[n] = draw.choice(
                    (0, 8, 16, 24, 32, 48, 64, values[n] + 8, values[n] + 16, (1 << 40) - 16, 1 << 40, (1 << 40) + 32)
                )
            elif at == 4:
                values[n] = draw.choice((*STRANGE, 1 << 32, (1 << 32) + 1))
            elif len(values) == arguments[2] - 2 and at in (6, 7):
                values[n] = draw.choice((-129, -128, -17, -16, 15, 16, 127, 128, -32768, 32767, 32768, -32769))
            else:
                values[n] = draw.choice(STRANGE)
    elif at == 1:
        arguments[1] = draw.choice((*range(13), 13, 14, 15, 16, 17, 99))
    elif at == 2:
        pass  # given by the lists' lengths
    else:
        arguments[at] = (
            draw.choice((0, 1, 2, 3, 4, *STRANGE))
            if len(arguments) > 12 and at in (8, 9)
            else draw.choice((0, 1, 2, 3, 4, 5))
        )


def maps(im2col: bool) -> Iterator[list[Any]]:
    """The arguments of all maps of a kind; a third of them as they come, others changed in one or two places."""
    draw = random.Random(7 + im2col)
    for _ in range(MAPS):
        arguments = a_map(draw, im2col)
        for _ in range(draw.choice((0, 1, 1, 1, 2))):
            changed(draw, arguments)
        yield arguments


def encode(lib: Library, im2col: bool, arguments: list[Any], address: int) -> list[Any]:
    """The code and, of a map that was made, a digest of its bytes."""
    room = (ctypes.c_uint8 * 512)()
    base = -(-ctypes.addressof(room) // 64) * 64
    place, kind, rank, offset, sizes, strides, *rest = arguments
    if im2col:
        low, high, channels, pixels, steps, *kinds = rest
        about = [words(low, ctypes.c_uint32), words(high, ctypes.c_uint32), channels, pixels]
    else:
        box, steps, *kinds = rest
        about = [words(box, ctypes.c_uint32)]
    name = "cuTensorMapEncodeIm2col" if im2col else "cuTensorMapEncodeTiled"
    code = lib(
        name, base + place, kind, rank, address + offset, words(sizes), words(strides), *about,
        words(steps, ctypes.c_uint32), *kinds,
    )  # fmt: skip
    if code:
        return [code]
    return [0, hashlib.sha256(ctypes.string_at(base + place, 128)).hexdigest()[:12]]


def tensor_maps(lib: Library, address: int) -> dict[str, Any]:
    """Answers to all random maps, for a tensor at ``address``, and to new addresses of one."""
    found: dict[str, Any] = {"address": address}
    for im2col in (False, True):
        found["im2col" if im2col else "tiled"] = [encode(lib, im2col, a, address) for a in maps(im2col)]
    room = (ctypes.c_uint8 * 512)()
    base = -(-ctypes.addressof(room) // 64) * 64
    replaced = []
    for place in (0, 8, 16, 32):
        for offset in (0, 1, 8, 16, 32, 48):
            encode_in = (
                words([64, 64]),
                words([128]),
                words([16, 16], ctypes.c_uint32),
                words([1, 1], ctypes.c_uint32),
            )
            code = lib("cuTensorMapEncodeTiled", base + place, 6, 2, address, *encode_in, 0, 0, 0, 0)
            replaced.append([code, lib("cuTensorMapReplaceAddress", base + place, address + offset)])
    return {**found, "replaced": replaced}


# --- managed memory ----------------------------------------------------------------------------------------------------
DEVICE, HOST, HOST_NUMA, HOST_NUMA_CURRENT = ((kind, 0) for kind in (1, 2, 3, 4))


def location(where: tuple[int, int]) -> int:
    """A CUmemLocation by value."""
    return where[0] | (where[1] & 0xFFFFFFFF) << 32


def range_attributes(lib: Library, address: int, size: int) -> list[list[int]]:
    """Code and value of every attribute of a range; of ACCESSED_BY three devices."""
    found = []
    for number in range(10):
        values = (ctypes.c_int32 * 3)(-77, -77, -77)
        code = lib("cuMemRangeGetAttribute", values, 12 if number == 3 else 4, number, address, size)
        found.append([code, *values[: 3 if number == 3 else 1]])
    return found


def managed_steps(
    lib: Library, address: int, plain: int, host: int, stream: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The queries, in order: of 8 MiB of managed, plain device and page-locked memory."""
    advise, prefetch = "cuMemAdvise", "cuMemPrefetchAsync"
    whole, half = 8 * MIB, 4 * MIB

    def show(at: int = 0, size: int = whole) -> Callable[[], Any]:
        return lambda: range_attributes(lib, address + at, size)

    def call(name: str, *arguments: Any) -> Callable[[], Any]:
        return lambda: lib(name, *arguments)

    yield "fresh", show()
    for name, pointer in (("plain", plain), ("host", host), ("unknown", 0x1000)):
        yield f"attributes of {name} memory", lambda pointer=pointer: range_attributes(lib, pointer, MIB)
        yield f"advice for {name} memory", call(advise, pointer, MIB, 1, 0)
        yield f"prefetch of {name} memory", call(prefetch, pointer, MIB, 0, stream)
    for advice in range(8):
        for device in (0, -1, 7, -2):
            yield f"advice {advice} for {device}", call(advise, address, whole, advice, device)
            yield f"after advice {advice} for {device}", show()
    yield "unset reads", call(advise, address, whole, 2, 0)
    yield "unset place", call(advise, address, whole, 4, 0)
    yield "unset access", call(advise, address, whole, 6, 0)
    yield "unset access of the host", call(advise, address, whole, 6, -1)
    yield "as before", show()
    yield "the first half", call(advise, address, half, 1, 0)
    yield "half is read mostly", show()
    yield "the first half is", show(0, half)
    yield "the other is not", show(half, half)
    yield "both halves", call(advise, address + half, half, 1, 0)
    yield "all is read mostly", show()
    yield "first half prefers the device", call(advise, address, half, 3, 0)
    yield "second half prefers the host", call(advise, address + half, half, 3, -1)
    yield "two places", show()
    yield "first place", show(0, half)
    yield "second place", show(half, half)
    yield "accessed by the device", call(advise, address, whole, 5, 0)
    yield "accessed by the host", call(advise, address, half, 5, -1)
    yield "both in the first half", show(0, half)
    yield "one in all", show()
    for device in (0, -1, 7):
        yield f"prefetch to {device}", call(prefetch, address, whole, device, stream)
        yield f"after the prefetch to {device}", show()
    yield "prefetch of half", call(prefetch, address, half, 0, stream)
    yield "half is there", show()
    yield "that half", show(0, half)
    yield "parts of pages", call(advise, address + 100, 1000, 2, 0)
    yield "of these pages", show(0, 4096)
    yield "of this page", show(4096, 4096)
    yield "of the 64 KiB behind", show(65536, 65536)
    yield "no bytes", call(advise, address, 0, 1, 0)
    yield "no bytes to prefetch", call(prefetch, address, 0, 0, stream)
    yield "too many bytes", call(advise, address, whole + MIB, 1, 0)
    yield "too many to prefetch", call(prefetch, address, whole + MIB, 0, stream)
    yield "attributes of too many", show(0, whole + MIB)
    yield "attributes of none", show(0, 0)
    for where in (DEVICE, HOST, HOST_NUMA, HOST_NUMA_CURRENT, (0, 0), (1, 9), (2, 5), (9, 0)):
        yield f"prefetch (2) to {where}", call("cuMemPrefetchAsync_v2", address, whole, location(where), 0, stream)
        yield f"after the prefetch (2) to {where}", show()
        for advice in (3, 5, 6, 4):
            yield f"advice (2) {advice} for {where}", call("cuMemAdvise_v2", address, whole, advice, location(where))
            yield f"after advice (2) {advice} for {where}", show()
    yield "prefetch with flags", call("cuMemPrefetchAsync_v2", address, whole, location(DEVICE), 1, stream)

    def several() -> Any:
        """Attributes of four kinds in one call."""
        places = [(ctypes.c_int32 * 3)(-77, -77, -77) for _ in range(4)]
        pointers = words([ctypes.addressof(p) for p in places])
        kinds = words([1, 3, 2, 4], ctypes.c_uint32)
        code = lib("cuMemRangeGetAttributes", pointers, words([4, 12, 4, 4]), kinds, 4, address, whole)
        return [code, *(list(p) for p in places)]

    yield "several attributes", several
    for size, number in ((8, 1), (3, 1), (4, 3), (6, 3), (8, 3), (0, 3), (8, 2)):
        values = (ctypes.c_int32 * 3)(-77, -77, -77)
        yield (
            f"{size} bytes for attribute {number}",
            lambda v=values, s=size, n=number: [lib("cuMemRangeGetAttribute", v, s, n, address, whole), *v],
        )


def managed(lib: Library) -> dict[str, Any]:
    """Every answer about managed memory, by the step's name."""
    address, plain = lib.word("cuMemAllocManaged", 8 * MIB, 1), lib.word("cuMemAlloc_v2", 8 * MIB)
    host, stream = lib.word("cuMemHostAlloc", 8 * MIB, 0), lib.word("cuStreamCreate", 1)
    return {name: ask() for name, ask in managed_steps(lib, address, plain, host, stream)}


# --- batches of copies --------------------------------------------------------------------------------------------------
BATCHES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("two copies", {}),
    ("no copies", {"count": 0}),
    ("legacy stream", {"stream": 0}),
    ("legacy stream by its name", {"stream": 1}),
    ("stream of the thread", {"stream": 2}),
    ("no attributes", {"kinds": 0}),
    ("begins late", {"begins": [1]}),
    ("behind the last", {"begins": [0, 2], "orders": [1, 1]}),
    ("twice the same", {"begins": [0, 0], "orders": [1, 1]}),
    ("backwards", {"begins": [1, 0], "orders": [1, 1]}),
    ("two kinds", {"begins": [0, 1], "orders": [3, 2]}),
    ("more kinds than copies", {"begins": [0, 1, 2], "orders": [1, 1, 1]}),
    *((f"order {n}", {"orders": [n]}) for n in (0, 1, 2, 3, 4, -1)),
    ("flags 1", {"flags": 1}),
    ("flags 2", {"flags": 2}),
    ("an empty copy", {"sizes": [256, 0]}),
    ("hints", {"hints": [(1, 0), (2, 0)]}),
    ("wrong hints", {"hints": [(1, 99), (7, 0)]}),
)


def a_batch(lib: Library, stream: int, version: int, how: dict[str, Any]) -> list[Any]:
    """Two copies, of 256 bytes to the device and of 512 within it: code, index of what failed, whether bytes arrived."""
    data = bytes(n * 7 & 255 for n in range(1024))
    first, second = (lib.word("cuMemAlloc_v2", 1024) for _ in range(2))
    for place in (first, second):
        lib("cuMemsetD8_v2", place, 0, 1024)
    lib("cuMemcpyHtoD_v2", second + 512, data[512:], 512)
    source = ctypes.create_string_buffer(data, 1024)
    sources = [ctypes.addressof(source), second + 512]
    targets = [first, first + 256]
    orders = how.get("orders", [1])
    hints = how.get("hints", [(0, 0), (0, 0)])
    packed = b"".join(struct.pack("<iiiiiI", o, *hints[0], *hints[1], how.get("flags", 0)) for o in orders)
    attributes = ctypes.create_string_buffer(packed, len(packed))
    begins = how.get("begins", [0])
    failed = ctypes.c_uint64(77)
    arguments = [
        words(targets), words(sources), words(how.get("sizes", [256, 512])), how.get("count", 2),
        attributes, words(begins), how.get("kinds", len(begins)),
    ]  # fmt: skip
    name = "cuMemcpyBatchAsync" if version == 1 else "cuMemcpyBatchAsync_v2"
    code = lib(name, *arguments, *((ctypes.byref(failed),) if version == 1 else ()), how.get("stream", stream))
    lib("cuCtxSynchronize")
    got = (ctypes.c_uint8 * 768)()
    lib("cuMemcpyDtoH_v2", got, first, 768)
    arrived = [bytes(got[:256]) == data[:256], bytes(got[256:768]) == data[512:]]
    for place in (first, second):
        lib("cuMemFree_v2", place)
    return [code, failed.value, *arrived]


BLOCKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a block", {}),
    ("none", {"count": 0}),
    ("legacy stream", {"stream": 0}),
    ("wider rows", {"row": 48, "layer": 5}),
    ("rows too short", {"row": 16}),
    ("layers too low", {"layer": 2}),
    ("rows as wide as it is", {"row": 0, "layer": 0}),
    ("no depth", {"extent": (32, 4, 0)}),
    ("no width", {"extent": (0, 4, 2)}),
    *((f"order {n}", {"order": n}) for n in (0, 1, 2, 3, 4)),
    ("kind 0", {"kind": 0}),
    ("kind 3", {"kind": 3}),
    ("operation's flags", {"own": 1}),
    ("flags", {"flags": 1}),
    ("into an array", {"array": True}),
    ("into an array, displaced", {"array": True, "offset": (2, 1, 1), "extent": (8, 2, 1)}),
    ("behind an array's end", {"array": True, "offset": (2, 1, 1)}),
)


def a_block(lib: Library, stream: int, version: int, how: dict[str, Any]) -> list[Any]:
    """One block of 32 by 4 by 2 bytes from the host into device memory, or of words into an array: result code, what failed, and a digest of the contents."""
    width, height, depth = how.get("extent", (32, 4, 2) if not how.get("array") else (16, 4, 2))
    row, layer = how.get("row", 32), how.get("layer", 4)
    data = bytes(n * 11 & 255 for n in range(4096))
    source = ctypes.create_string_buffer(data, 4096)
    target = lib.word("cuMemAlloc_v2", 4096)
    lib("cuMemsetD8_v2", target, 0, 4096)
    pointer = struct.pack("<QQQii", ctypes.addressof(source), row, layer, 0, 0)
    from_side = struct.pack("<i4x", how.get("kind", 1)) + pointer
    array = 0
    if how.get("array"):
        shape = struct.pack("<QQQIII4x", 16, 4, 2, 0x20, 1, 0)
        array = lib.word("cuArray3DCreate_v2", ctypes.c_char_p(shape))
        from_side = struct.pack("<i4x", 1) + struct.pack("<QQQii", ctypes.addressof(source), 16, 4, 0, 0)
        to_side = struct.pack("<i4xQQQQ", 2, array, *how.get("offset", (0, 0, 0)))
    else:
        to_side = struct.pack("<i4xQQQii", 1, target, 32, 4, 0, 0)
    packed = from_side + to_side + struct.pack("<QQQiI", width, height, depth, how.get("order", 1), how.get("own", 0))
    assert len(packed) == 112
    operation = ctypes.create_string_buffer(packed, 112)
    failed = ctypes.c_uint64(77)
    name = "cuMemcpy3DBatchAsync" if version == 1 else "cuMemcpy3DBatchAsync_v2"
    between = (ctypes.byref(failed),) if version == 1 else ()
    code = lib(name, how.get("count", 1), operation, *between, how.get("flags", 0), how.get("stream", stream))
    lib("cuCtxSynchronize")
    got = (ctypes.c_uint8 * 512)()
    if array:
        # The array's rows of 64 bytes, layer by layer.
        out = struct.pack(
            "<QQQQI4xQQQQQQ" + "QQQQI4xQQQQQQ" + "QQQ",
            *(0, 0, 0, 0, 3, 0, 0, array, 0, 0, 0),
            *(0, 0, 0, 0, 1, ctypes.addressof(got), 0, 0, 0, 64, 4),
            *(64, 4, 2),
        )
        lib("cuMemcpy3D_v2", ctypes.c_char_p(out))
        lib("cuArrayDestroy", array)
    else:
        lib("cuMemcpyDtoH_v2", got, target, 512)
    lib("cuMemFree_v2", target)
    return [code, failed.value, hashlib.sha256(bytes(got)).hexdigest()[:12]]


def batches(lib: Library) -> dict[str, Any]:
    """Answers to batches of copies, by version of the call and name."""
    stream = lib.word("cuStreamCreate", 1)
    found = {}
    for version in (1, 2):
        for name, how in BATCHES:
            found[f"{version}: {name}"] = a_batch(lib, stream, version, how)
        for name, how in BLOCKS:
            found[f"{version}: 3D, {name}"] = a_block(lib, stream, version, how)
    return found


# --- places and attributes ----------------------------------------------------------------------------------------------
SIZES = (
    1,
    512,
    65536,
    512 << 10,
    MIB - 1,
    MIB,
    MIB + 1,
    2 * MIB - 1,
    2 * MIB,
    2 * MIB + 1,
    3 * MIB,
    16 * MIB + 5,
    174 * MIB,
)


def places(lib: Library) -> list[int]:
    """Alignment of the address of an allocation of each size, 2 MiB at most."""
    found = [lib.word("cuMemAlloc_v2", size) for size in SIZES]
    for address in found:
        lib("cuMemFree_v2", address)
    return [min(address & -address, 2 * MIB) for address in found]


def attributes(lib: Library) -> list[list[int]]:
    """Code and value of every device attribute."""
    found = []
    for number in range(ATTRIBUTES):
        value = ctypes.c_int(-77)
        code = lib("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
        found.append([code, value.value])
    return found


def keeper(lib: Library, out: Path, command: str) -> Callable[[str, Any], None]:
    """Returns a function that adds answers by name to a file that begins with the command and the driver's version."""
    version = ctypes.c_int()
    lib("cuDriverGetVersion", ctypes.byref(version))
    found: dict[str, Any] = {"command": command, "cuda_driver": version.value}

    def keep(name: str, answers: Any) -> None:
        found[name] = answers
        out.write_text(json.dumps(found))

    return keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--address", type=int, help="of the maps' tensor; without it an allocation's")
    given = parser.parse_args()
    lib = Library()
    keep = keeper(lib, given.out, "python -m bench.driver_answers --out FILE")
    keep("attributes", attributes(lib))
    keep("places", places(lib))
    keep("tensor_maps", tensor_maps(lib, given.address or lib.word("cuMemAlloc_v2", 64 * MIB)))
    keep("batches", batches(lib))
    keep("managed", managed(lib))


if __name__ == "__main__":
    main()
