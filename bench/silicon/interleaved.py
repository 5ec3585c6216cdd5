"""Interleaved tensor maps on a card: what the driver takes, the bytes it writes, and where a copy puts what.

    python -m bench.silicon.interleaved prepare --to build/interleaved      # the cubin
    python -m bench.silicon.interleaved record --from build/interleaved --out FILE      # on the machine with the card
    python -m bench.silicon.interleaved check                               # the engine against the record

Each case is a random tensor map in the interleaved layout (16 or 32 bytes of channels together), or one of im2col without it,
with a random place.  Global memory holds 32-bit words that count up, shared memory a filling.  The record has for each case
whether the copy is an illegal instruction, a digest of the map that the driver writes, and one of the words of shared (loads)
or global memory (stores) that changed, with their number.  The kernel does not wait for a count of bytes, which is what is
asked, but for a time; a second launch expects the bytes that the first one wrote, and each time the mbarrier completed.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.device import Card, DeviceError
from warpwright.engine.bulk import BulkFault, perform
from warpwright.engine.tensor_map import TensorMap
from warpwright.isa import bulk

DATA = Path(__file__).parent / "data" / "interleaved.json"
GLOBAL_BYTES = 1 << 20
SPAN_BYTES = 1 << 15
"""Bytes of shared memory that are kept."""
CASES = 1000
SOURCE = r"""
typedef struct { alignas(64) unsigned long long words[16]; } Map;
#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))
#define TILE ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"
#define COLUMN ".shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
#define LOAD(rank, form, coords, tail) asm volatile("cp.async.bulk.tensor." rank form " [%0], [%1, {" coords "}], [%2]" tail ";" :: "r"(SHARED(tile)), "l"(&map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "h"(o0), "h"(o1), "h"(o2) : "memory")
#define STORE(rank, form, coords) asm volatile("cp.async.bulk.tensor." rank ".global.shared::cta" form ".bulk_group [%1, {" coords "}], [%0];" :: "r"(SHARED(tile)), "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory")
#define C3 "%3, %4, %5"
#define C4 C3 ", %6"
#define C5 C4 ", %7"
extern "C" __global__ void load(const __grid_constant__ Map map, unsigned *out, unsigned *arrived, int what, unsigned span, unsigned bytes,
    int c0, int c1, int c2, int c3, int c4, unsigned short o0, unsigned short o1, unsigned short o2) {
    extern __shared__ __align__(1024) unsigned tile[];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate);
    for (unsigned i = threadIdx.x; i < span / 4; i += blockDim.x) tile[i] = 0xeeeeeeee;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory");
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(bar), "r"(bytes) : "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0) switch (what) {
        case 3: LOAD("3d", TILE, C3, ""); break;
        case 4: LOAD("4d", TILE, C4, ""); break;
        case 5: LOAD("5d", TILE, C5, ""); break;
        case 13: LOAD("3d", COLUMN, C3, ", {%8}"); break;
        case 14: LOAD("4d", COLUMN, C4, ", {%8, %9}"); break;
        default: LOAD("5d", COLUMN, C5, ", {%8, %9, %10}");
    }
    for (long long begin = clock64(); clock64() - begin < 60000;) ;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(bar) : "memory");
    if (threadIdx.x == 0) *arrived = 1 + done;
    for (unsigned i = threadIdx.x; i < span / 4; i += blockDim.x) out[i] = tile[i];
}
#undef C3
#undef C4
#undef C5
#define C3 "%2, %3, %4"
#define C4 C3 ", %5"
#define C5 C4 ", %6"
extern "C" __global__ void store(const __grid_constant__ Map map, const unsigned *in, int what, unsigned span,
    int c0, int c1, int c2, int c3, int c4) {
    extern __shared__ __align__(1024) unsigned tile[];
    for (unsigned i = threadIdx.x; i < span / 4; i += blockDim.x) tile[i] = in[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        switch (what) {
            case 3: STORE("3d", ".tile", C3); break;
            case 4: STORE("4d", ".tile", C4); break;
            case 5: STORE("5d", ".tile", C5); break;
            case 13: STORE("3d", ".im2col_no_offs", C3); break;
            case 14: STORE("4d", ".im2col_no_offs", C4); break;
            default: STORE("5d", ".im2col_no_offs", C5);
        }
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""
ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 7: 4}
"""Element sizes of the types (CUtensorMapDataType) in cases."""


@dataclass(frozen=True)
class Case:
    """A tensor map and one copy; dimensions begin with the innermost."""

    store: bool
    type: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int
    swizzle: int
    fill: int
    start: tuple[int, ...]
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    offsets: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.sizes)


def draw(rng: np.random.Generator, number: int) -> Case:
    """A case; each fifth may reach over the tensor."""

    def pick(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    wild = number % 5 == 4
    rank = 3 + number % 3
    interleave = 1 + number // 3 % 2
    column = number // 6 % 3 == 2
    if column and number % 4 == 0:
        interleave = 0
    group = max(16, 16 * interleave)
    type = (0, 1, 2, 7)[pick(0, 3)]
    per = 16 // ELEMENT_BYTES[type]
    store = number % 4 == 3
    swizzle = 0 if not interleave else pick(0, 3) if interleave == 1 or pick(0, 5) == 0 else 1
    inner = pick(2, 4 if not column else 9) * (per if not interleave else 1)
    sizes = [inner, *(pick(2, 6) for _ in range(rank - 1))]
    if interleave:
        sizes[rank - 2] = pick(1, 12)
    strides = [group * pick(6, 12) if interleave or not column else 16 * pick(inner // per, 12)]
    for _ in range(rank - 2):
        strides.append(strides[-1] * pick(2, 4))
    steps = [1 if pick(0, 3) else pick(1, 3) for _ in range(rank)]
    fill = int(type == 7 and not store and pick(0, 1))
    shared: dict[str, Any] = {"steps": tuple(steps), "interleave": interleave, "swizzle": swizzle, "fill": fill}
    low = -2 if wild and not store else 0
    start = [pick(low, n - 1 if not wild else n + 1) for n in sizes]
    if not interleave:
        start[0] = start[0] // per * per
    if column:
        first = 0 if interleave else 1
        lower = [pick(-1, 1) for _ in range(rank - 2)]
        upper = [pick(-1, 0) for _ in range(rank - 2)]
        for n in range(rank - 2):
            size = sizes[first + n]
            lower[n] = min(lower[n], size - 1 + upper[n])
            start[first + n] = pick(
                lower[n] - (wild and pick(0, 3) == 0), size - 1 + upper[n] + (wild and pick(0, 3) == 0)
            )
        offsets = tuple(0 if store else pick(0, 2) for _ in range(rank - 2))
        if store:
            start = [max(v, 0) for v in start]
        channels = min(256, per * (pick(1, 4) if not interleave else pick(1, 16)))
        return Case(
            store, type, tuple(sizes), tuple(strides), (), **shared, start=tuple(start), lower=tuple(lower), upper=tuple(upper),
            channels=channels, pixels=pick(1, 20), offsets=offsets,
        )  # fmt: skip
    box = [per * pick(1, 2), *(pick(1, 3) for _ in range(rank - 1))]
    box[rank - 2] = pick(1, 40)
    return Case(store, type, tuple(sizes), tuple(strides), tuple(box), **shared, start=tuple(start))


def cases() -> list[Case]:
    rng = np.random.default_rng(20)
    return [draw(rng, n) for n in range(CASES)]


def encoded(card: Card, case: Case, address: int) -> tuple[int, bytes]:
    """The driver's answer and the 128 bytes that it wrote."""
    room = np.zeros(256, np.uint8)
    place = -(-room.ctypes.data // 64) * 64
    words = {
        "sizes": (ctypes.c_uint64 * 5)(*case.sizes),
        "strides": (ctypes.c_uint64 * 5)(*case.strides),
        "box": (ctypes.c_uint32 * 5)(*case.box),
        "steps": (ctypes.c_uint32 * 5)(*case.steps),
    }
    head = (ctypes.c_void_p(place), ctypes.c_int(case.type), ctypes.c_uint(case.rank), ctypes.c_void_p(address))
    tail = [ctypes.c_int(v) for v in (case.interleave, case.swizzle, 0, case.fill)]
    if case.lower is None:
        code = card.lib.cuTensorMapEncodeTiled(
            *head, words["sizes"], words["strides"], words["box"], words["steps"], *tail
        )
    else:
        corners = [(ctypes.c_int * 3)(*c) for c in (case.lower, case.upper)]
        counts = ctypes.c_uint(case.channels), ctypes.c_uint(case.pixels)
        code = card.lib.cuTensorMapEncodeIm2col(
            *head, words["sizes"], words["strides"], *corners, *counts, words["steps"], *tail
        )
    at = place - room.ctypes.data
    return int(code), room[at : at + 128].tobytes()


def record_from(folder: Path, first: int, out: Path) -> None:
    """Run cases from a number on, a line of JSON each; a copy that the card refuses ends the process."""
    card = Card()
    module = card.load((folder / "interleaved.cubin").read_bytes())
    memory, result, gates = card.alloc(GLOBAL_BYTES), card.alloc(SPAN_BYTES), card.alloc(16)
    base = np.arange(GLOBAL_BYTES // 4, dtype=np.uint32)
    tile = np.arange(SPAN_BYTES // 4, dtype=np.uint32) + np.uint32(0x4000_0000)
    with out.open("a") as file:
        for number, case in list(enumerate(cases()))[first:]:
            code, raw = encoded(card, case, memory.address)
            line: dict[str, Any] = {"number": number, "code": code, "map": raw.hex(), "address": memory.address}
            if code:
                file.write(json.dumps(line) + "\n")
                continue
            what = np.int32(case.rank + 10 * (case.lower is not None))
            start = [np.int32(v) for v in (*case.start, 0, 0)[:5]]
            memory.write(base)
            try:
                if case.store:
                    result.write(tile)
                    module.launch(
                        "store", 1, 64, [np.void(raw), result, what, np.uint32(SPAN_BYTES), *start], SPAN_BYTES
                    )
                    found = memory.read(np.uint32, GLOBAL_BYTES // 4)
                    places = np.flatnonzero(found != base)
                    line |= {"places": places.tolist(), "words": found[places].tolist()}
                else:
                    offsets = [np.uint16(v) for v in (*case.offsets, 0, 0, 0)[:3]]
                    given = [np.void(raw), result, gates, what, np.uint32(SPAN_BYTES)]
                    module.launch("load", 1, 64, [*given, np.uint32(1 << 19), *start, *offsets], SPAN_BYTES)
                    found = result.read(np.uint32, SPAN_BYTES // 4)
                    places = np.flatnonzero(found != 0xEEEEEEEE)
                    line |= {"places": places.tolist(), "words": found[places].tolist()}
                    # Written twice with the bytes that were written: does the mbarrier complete?
                    module.launch("load", 1, 64, [*given, np.uint32(4 * len(places)), *start, *offsets], SPAN_BYTES)
                    line["arrived"] = int(gates.read(np.uint32, 1)[0]) - 1
            except DeviceError as error:
                line["error"] = str(error)
            file.write(json.dumps(line) + "\n")
            file.flush()
            if "error" in line:
                return


def digest(line: dict[str, Any]) -> list[Any]:
    """The record of a case: [illegal, digest of the map, digest of the words, their number]."""
    raw = bytearray.fromhex(line["map"])
    raw[:8] = bytes(8)  # the tensor's address
    if "error" in line:
        return [True, zlib.crc32(raw), 0, 0]
    if line.get("arrived") == 0:
        raise SystemExit(f"case {line['number']}: the mbarrier does not complete with the bytes that were written")
    changed = np.array([line["places"], line["words"]], np.uint32)
    return [False, zlib.crc32(raw), zlib.crc32(changed.tobytes()), len(line["places"])]


def record(folder: Path, out: Path) -> None:
    lines = out.with_suffix(".jsonl")
    lines.unlink(missing_ok=True)
    count = 0
    while count < CASES:
        part = ["part", "--from", str(folder), "--first", str(count), "--out", str(lines)]
        subprocess.run([sys.executable, "-m", "bench.silicon.interleaved", *part], timeout=300, check=False)
        now = len(lines.read_text().splitlines()) if lines.exists() else 0
        if now == count:
            raise SystemExit(f"case {count} does not come to an end")
        count = now
    keep(lines, out)


def keep(lines: Path, out: Path) -> None:
    found = [digest(json.loads(line)) for line in lines.read_text().splitlines()]
    out.write_text("[\n" + ",\n".join(json.dumps(line) for line in found) + "\n]\n")


class Memory:
    """Global and shared memory of one block, as a copy wants them (``engine/bulk.py``)."""

    rank = 0
    address, map_address = 1 << 20, 1 << 12

    def __init__(self, map: bytes) -> None:
        self.map = np.frombuffer(map, np.uint8)
        self.words = np.arange(GLOBAL_BYTES // 4, dtype=np.uint32)
        self.tile = np.full(SPAN_BYTES, 0xEE, np.uint8)

    def shared(self, rank: int) -> np.ndarray:
        return self.tile

    def view(self, address: int, size: int) -> np.ndarray:
        if address == self.map_address:
            return self.map
        at = address - self.address
        assert 0 <= at <= GLOBAL_BYTES - size
        return self.words.view(np.uint8)[at : at + size]


def ours(case: Case) -> list[Any]:
    """The engine's result for a case, in the form of :func:`digest`."""
    tensor = TensorMap(
        *(
            Memory.address,
            case.type,
            case.sizes,
            case.strides,
            case.box or (1,) * case.rank,
            case.steps,
            case.interleave,
        ),
        *(case.swizzle, 0, case.fill, case.lower, case.upper, case.channels, case.pixels),
    )
    tensor.check()
    memory = Memory(tensor.encode())
    words = [0] * bulk.WORDS
    words[bulk.GLOBAL] = Memory.map_address
    words[bulk.FIRST_COORDINATE : bulk.FIRST_COORDINATE + case.rank] = [v & 0xFFFFFFFF for v in case.start]
    words[bulk.FIRST_OFFSET : bulk.FIRST_OFFSET + len(case.offsets)] = case.offsets
    if case.store:
        memory.tile = (np.arange(SPAN_BYTES // 4, dtype=np.uint32) + np.uint32(0x4000_0000)).view(np.uint8)
    line: dict[str, Any] = {"map": tensor.encode().hex(), "number": 0}
    before = memory.words.copy() if case.store else memory.tile.view(np.uint32).copy()
    what = bulk.Bulk("store" if case.store else "load", rank=case.rank, im2col=case.lower is not None)
    try:
        moved = perform(what, words, memory)
    except BulkFault:
        return digest(line | {"error": ""})
    after = memory.words if case.store else memory.tile.view(np.uint32)
    places = np.flatnonzero(after != before)
    assert case.store or moved.bytes == 4 * len(places)
    return digest(line | {"places": places, "words": after[places]})


def check() -> list[str]:
    """A line for each case in which the engine differs from the card."""
    known = json.loads(DATA.read_text())
    return [
        f"case {n}: {case}: {mine}, not {card}"
        for n, (case, card) in enumerate(zip(cases(), known, strict=True))
        if (mine := ours(case)) != card
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "record", "part", "check"])
    parser.add_argument("--to", "--from", dest="folder", type=Path, default=Path("build/interleaved"))
    parser.add_argument("--out", type=Path, default=DATA)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.what == "prepare":
        from warpwright.toolchain import compile_source

        arguments.folder.mkdir(parents=True, exist_ok=True)
        source = arguments.folder / "interleaved.cu"
        source.write_text(SOURCE)
        (arguments.folder / "interleaved.cubin").write_bytes(compile_source(source, 90).cubin)
    elif arguments.what == "record":
        record(arguments.folder, arguments.out)
    elif arguments.what == "part":
        record_from(arguments.folder, arguments.first, arguments.out)
    else:
        wrong = check()
        print(*wrong[:20], f"{len(cases()) - len(wrong)} of {len(cases())} cases have the card's bytes", sep="\n")
        sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
