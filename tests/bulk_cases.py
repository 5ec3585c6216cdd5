"""Kernels of bulk copies and tensor maps, their inputs, and what NumPy says of them; an H200 ran the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

SOURCE = r"""
typedef struct { alignas(64) unsigned long long words[16]; } Map;
#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))
#define BEGIN(bar, count) if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1; fence.mbarrier_init.release.cluster;" :: "r"(bar), "r"(count) : "memory"); __syncthreads();
#define EXPECT(bar, bytes) asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(bar), "r"(bytes) : "memory")
#define WAIT(bar, parity) asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(bar), "r"(parity) : "memory")
#define CLUSTER_SYNC asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
#define STORED asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory")
#define FENCE asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define TILE "cp.async.bulk.tensor."
#define INTO ".shared::cluster.global.tile.mbarrier::complete_tx::bytes"
#define COLUMN ".shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
#define RANK(c0, c1, c2, c3, c4, asm1, asm2, asm3, asm4, asm5) switch (rank) { case 1: asm1; break; case 2: asm2; break; case 3: asm3; break; case 4: asm4; break; default: asm5; }

extern "C" __global__ void scale(float *out, const float *in, unsigned bytes) {
    extern __shared__ __align__(128) float floats[];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), n = bytes / 4;
    in += blockIdx.x * n, out += blockIdx.x * n;
    BEGIN(bar, 1)
    if (threadIdx.x == 0) {
        EXPECT(bar, bytes);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(SHARED(floats)), "l"(in), "r"(bytes), "r"(bar) : "memory");
    }
    WAIT(bar, 0);
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) floats[i] = floats[i] * 2 + i;
    FENCE;
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" :: "l"(out), "r"(SHARED(floats)), "r"(bytes) : "memory");
        STORED;
    }
}
extern "C" __global__ void spread(unsigned *out, const unsigned *in, unsigned mask) {
    __shared__ __align__(128) unsigned tile[64], other[64];
    __shared__ __align__(8) unsigned long long gates[2];
    unsigned bar = SHARED(&gates[0]), bar2 = SHARED(&gates[1]), rank, size;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    tile[threadIdx.x] = 7, other[threadIdx.x] = 9;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar2));
    BEGIN(bar, 1)
    FENCE;
    if (threadIdx.x == 0) { if (mask >> rank & 1) EXPECT(bar, 256); EXPECT(bar2, 256); }
    CLUSTER_SYNC;
    if (rank == 0 && threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;" :: "r"(SHARED(tile)), "l"(in), "r"(bar), "h"((unsigned short)mask) : "memory");
    if (mask >> rank & 1) WAIT(bar, 0);
    unsigned there, there_bar, next = (rank + 1) % size;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(other)), "r"(next));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_bar) : "r"(bar2), "r"(next));
    tile[threadIdx.x] += rank;
    FENCE;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" :: "r"(there), "r"(SHARED(tile)), "r"(there_bar) : "memory");
    WAIT(bar2, 0);
    out[blockIdx.x * 64 + threadIdx.x] = other[threadIdx.x];
    CLUSTER_SYNC;
}
extern "C" __global__ void rows_by_lanes(unsigned *out, const unsigned *in, int pitch, int lanes) {
    __shared__ __align__(128) unsigned tile[32][8];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), t = threadIdx.x;
    for (int k = 0; k < 8; ++k) tile[t][k] = 7;
    BEGIN(bar, 1)
    FENCE;
    if (t == 0) EXPECT(bar, 32 * lanes);
    __syncwarp();
    if ((int)t >= 32 - lanes) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 32, [%2];" :: "r"(SHARED(tile[t])), "l"(in + t * pitch), "r"(bar) : "memory");
    WAIT(bar, 0);
    for (int k = 0; k < 8; ++k) out[t * 8 + k] = tile[t][k];
}
extern "C" __global__ void mail(unsigned *out) {
    __shared__ unsigned box[64];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), rank, there, there_bar;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    BEGIN(bar, 1)
    if (threadIdx.x == 0) EXPECT(bar, 256);
    CLUSTER_SYNC;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(SHARED(box)), "r"(rank ^ 1));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there_bar) : "r"(bar), "r"(rank ^ 1));
    unsigned value = 100 * rank + threadIdx.x;
    if (threadIdx.x < 32) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" :: "r"(there + 4 * threadIdx.x), "r"(value), "r"(there_bar) : "memory");
    else if (threadIdx.x < 48) asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, [%3];" :: "r"(there + 8 * threadIdx.x - 128), "r"(value), "r"(value + 1000), "r"(there_bar) : "memory");
    WAIT(bar, 0);
    out[blockIdx.x * 64 + threadIdx.x] = box[threadIdx.x];
    CLUSTER_SYNC;
}
#define REDUCE(name, op) extern "C" __global__ void reduce_##name(unsigned *out, const unsigned *in) { \
    __shared__ __align__(128) unsigned tile[64]; \
    tile[threadIdx.x] = in[threadIdx.x]; \
    FENCE; __syncthreads(); \
    if (threadIdx.x == 0) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." op " [%0], [%1], 256;" :: "l"(out), "r"(SHARED(tile)) : "memory"); STORED; } }
REDUCE(add_u32, "add.u32") REDUCE(add_u64, "add.u64") REDUCE(add_f32, "add.f32") REDUCE(add_f64, "add.f64") REDUCE(add_f16, "add.noftz.f16")
REDUCE(add_bf16, "add.noftz.bf16") REDUCE(min_s32, "min.s32") REDUCE(max_u32, "max.u32") REDUCE(min_u64, "min.u64") REDUCE(max_s64, "max.s64")
REDUCE(inc_u32, "inc.u32") REDUCE(dec_u32, "dec.u32") REDUCE(and_b32, "and.b32") REDUCE(or_b64, "or.b64") REDUCE(xor_b32, "xor.b32")
REDUCE(min_f16, "min.f16") REDUCE(max_bf16, "max.bf16")

#define LOAD(rank, form, coords) asm volatile(TILE rank form " [%0], [%1, {" coords "}], [%2];" :: "r"(SHARED(tile)), "l"(&map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory")
extern "C" __global__ void load_tile(const __grid_constant__ Map map, unsigned char *out, int rank, unsigned bytes, unsigned span, int c0, int c1, int c2, int c3, int c4) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate);
    for (unsigned i = threadIdx.x; i < span; i += blockDim.x) tile[i] = 0xee;
    FENCE;
    BEGIN(bar, 1)
    if (threadIdx.x == 0) {
        EXPECT(bar, bytes);
        RANK(c0, c1, c2, c3, c4, LOAD("1d", INTO, "%3"), LOAD("2d", INTO, "%3, %4"), LOAD("3d", INTO, "%3, %4, %5"), LOAD("4d", INTO, "%3, %4, %5, %6"), LOAD("5d", INTO, "%3, %4, %5, %6, %7"))
    }
    WAIT(bar, 0);
    for (unsigned i = threadIdx.x; i < span; i += blockDim.x) out[i] = tile[i];
}
#define LOADC(rank, coords, offsets) asm volatile(TILE rank COLUMN " [%0], [%1, {" coords "}], [%2], {" offsets "};" :: "r"(SHARED(tile)), "l"(&map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "h"(o0), "h"(o1), "h"(o2) : "memory")
extern "C" __global__ void load_column(const __grid_constant__ Map map, unsigned char *out, int rank, unsigned bytes, unsigned span, int c0, int c1, int c2, int c3, int c4, unsigned short o0, unsigned short o1, unsigned short o2) {
    extern __shared__ __align__(1024) unsigned char tile[];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate);
    for (unsigned i = threadIdx.x; i < span; i += blockDim.x) tile[i] = 0xee;
    FENCE;
    BEGIN(bar, 1)
    if (threadIdx.x == 0) {
        EXPECT(bar, bytes);
        switch (rank) { case 3: LOADC("3d", "%3, %4, %5", "%8"); break; case 4: LOADC("4d", "%3, %4, %5, %6", "%8, %9"); break; default: LOADC("5d", "%3, %4, %5, %6, %7", "%8, %9, %10"); }
    }
    WAIT(bar, 0);
    for (unsigned i = threadIdx.x; i < span; i += blockDim.x) out[i] = tile[i];
}
#define STORE(op, rank, form, coords) asm volatile(op rank ".global.shared::cta" form " [%1, {" coords "}], [%0];" :: "r"(SHARED(tile)), "l"(&map), "r"(c0), "r"(c1), "r"(c2) : "memory")
extern "C" __global__ void store_tile(const __grid_constant__ Map map, const unsigned char *in, int what, unsigned span, int c0, int c1, int c2) {
    extern __shared__ __align__(1024) unsigned char tile[];
    for (unsigned i = threadIdx.x; i < span; i += blockDim.x) tile[i] = in[i];
    FENCE;
    __syncthreads();
    if (threadIdx.x == 0) {
        switch (what) {
        case 1: STORE(TILE, "1d", ".tile.bulk_group", "%2"); break;
        case 2: STORE(TILE, "2d", ".tile.bulk_group", "%2, %3"); break;
        case 3: STORE(TILE, "3d", ".tile.bulk_group", "%2, %3, %4"); break;
        case 4: STORE("cp.reduce.async.bulk.tensor.", "2d", ".add.tile.bulk_group", "%2, %3"); break;
        case 5: STORE("cp.reduce.async.bulk.tensor.", "2d", ".max.tile.bulk_group", "%2, %3"); break;
        default: STORE(TILE, "3d", ".im2col_no_offs.bulk_group", "%2, %3, %4"); break;
        }
        STORED;
    }
}
extern "C" __global__ void multicast_tile(const __grid_constant__ Map map, unsigned char *out, unsigned mask) {
    __shared__ __align__(1024) unsigned char tile[2048];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    BEGIN(bar, 1)
    if (threadIdx.x == 0) EXPECT(bar, 2048);
    CLUSTER_SYNC;
    if (threadIdx.x == 0)
        asm volatile(TILE "2d" INTO ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" :: "r"(SHARED(tile) + 1024 * rank), "l"(&map), "r"(bar), "r"(0), "r"((int)rank * 8), "h"((unsigned short)mask) : "memory");
    WAIT(bar, 0);
    for (unsigned i = threadIdx.x; i < 2048; i += blockDim.x) out[blockIdx.x * 2048 + i] = tile[i];
    CLUSTER_SYNC;
}
extern "C" __global__ void replaced(const __grid_constant__ Map first, Map *changed, unsigned char *out, unsigned long long address, int rows) {
    __shared__ __align__(128) Map here;
    __shared__ __align__(1024) unsigned char tile[1024];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate);
    if (threadIdx.x < 16) here.words[threadIdx.x] = first.words[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(SHARED(&here)), "l"(address) : "memory");
        asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" :: "r"(SHARED(&here)), "r"(rows) : "memory");
        asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, 8;" :: "r"(SHARED(&here)) : "memory");
        asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 3;" :: "r"(SHARED(&here)) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" :: "l"(changed), "r"(SHARED(&here)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(changed) : "memory");
    BEGIN(bar, 1)
    if (threadIdx.x == 0) {
        EXPECT(bar, 1024);
        asm volatile(TILE "2d" INTO " [%0], [%1, {0, 2}], [%2];" :: "r"(SHARED(tile)), "l"(changed), "r"(bar) : "memory");
    }
    WAIT(bar, 0);
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) out[i] = tile[i];
}
"""


@dataclass
class Case:
    """One launch: arguments are arrays (copied in, the first ``out`` of them back), numbers, or a :class:`MapOf`."""

    name: str
    kernel: str
    arguments: list[Any]
    check: Callable[[list[Any]], None]
    grid: int = 1
    block: int = 64
    shared: int = 0
    cluster: int = 1
    unordered: bool = False


@dataclass
class MapOf:
    """A tensor map of the array argument at ``place``."""

    place: int
    box: tuple[int, ...]
    """By dimension of the array, innermost last."""
    swizzle: int = 0
    steps: tuple[int, ...] | None = None
    fill: int = 0
    lower: tuple[int, ...] | None = None
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    shape: tuple[int, ...] = field(default=())
    hidden: Any = None
    """The tensor, when it is no argument by itself."""


@dataclass
class AddressOf:
    """The device address of an array that is no argument by itself."""

    hidden: Any


def swizzle_places(size: int, swizzle: int, line: int = 0) -> np.ndarray:
    """Where each byte of a box, whose rows have ``line`` bytes, lies in shared memory (aligned to 1,024 bytes)."""
    at = np.arange(size)
    if swizzle and line:
        at = at // line * swizzle + at % line
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    return at ^ ((at >> 7) & mask) << 4


def box_of(
    a: np.ndarray, start: tuple[int, ...], box: tuple[int, ...], steps: tuple[int, ...] | None = None, fill: Any = 0
) -> np.ndarray:
    """The elements of a box; dimensions in the array's order."""
    steps = steps or (1,) * a.ndim
    index = [
        s + np.arange(0, n, k if d < a.ndim - 1 else 1) * 1
        for d, (s, n, k) in enumerate(zip(start, box, steps, strict=True))
    ]
    out = np.full([len(i) for i in index], fill, a.dtype)
    valid = [(i >= 0) & (i < n) for i, n in zip(index, a.shape, strict=True)]
    out[np.ix_(*valid)] = a[np.ix_(*[i[v] for i, v in zip(index, valid, strict=True)])]
    return out


def equal(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.uint8), np.ascontiguousarray(want).view(np.uint8))


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(7)
    x = rng.random(4 * 512, dtype=np.float32)
    want = x.reshape(4, 512) * 2 + np.arange(512, dtype=np.float32)
    yield Case(
        "scale",
        "scale",
        [np.zeros_like(x), x, np.uint32(2048)],
        lambda a: equal(a[0], want.ravel()),
        grid=4,
        shared=2048,
    )
    v = rng.integers(0, 1 << 30, 64, dtype=np.uint32)
    for cluster, mask in ((4, 0b1011), (2, 0b10)):
        base = [(v if mask >> r & 1 else np.full(64, 7, np.uint32)) + np.uint32(r) for r in range(cluster)]
        ring = np.concatenate([base[(r - 1) % cluster] for r in range(cluster)])
        yield Case(
            f"spread_{cluster}",
            "spread",
            [np.zeros(64 * cluster, np.uint32), v, np.uint32(mask)],
            lambda a, w=ring: equal(a[0], w),
            grid=cluster,
            cluster=cluster,
        )

    words = rng.integers(0, 1 << 30, (32, 12), dtype=np.uint32)
    for lanes in (
        1,
        5,
        32,
    ):  # the assembler copies in a loop over the lanes, whose addresses pass through uniform registers
        filled = np.where(np.arange(32)[:, None] >= 32 - lanes, words[:, :8], np.uint32(7))
        yield Case(
            f"rows_by_{lanes}_lanes",
            "rows_by_lanes",
            [np.zeros(256, np.uint32), words.ravel(), np.int32(12), np.int32(lanes)],
            lambda a, w=filled: equal(a[0], w.ravel()),
            block=32,
        )

    def boxes(rank: int) -> np.ndarray:
        low = 100 * rank + np.arange(32)
        t = 100 * rank + np.arange(32, 48)
        return np.concatenate([low, np.stack([t, t + 1000], 1).ravel()]).astype(np.uint32)

    yield Case(
        "mail",
        "mail",
        [np.zeros(128, np.uint32)],
        lambda a: equal(a[0], np.concatenate([boxes(1), boxes(0)])),
        grid=2,
        cluster=2,
    )
    yield from reductions(rng)
    yield from tiles(rng)
    yield from columns(rng)
    yield from stores(rng)
    yield from replacements(rng)
    a = rng.integers(0, 60000, (32, 64), dtype=np.uint16)
    half = [box_of(a, (8 * r, 0), (8, 64)).tobytes() for r in range(2)]
    yield Case(
        "multicast",
        "multicast_tile",
        [MapOf(1, (8, 64), shape=a.shape, hidden=a), np.zeros(4096, np.uint8), np.uint32(3)],
        lambda r: equal(r[1], np.frombuffer((half[0] + half[1]) * 2, np.uint8)),
        grid=2,
        cluster=2,
    )


def replacements(rng: np.random.Generator) -> Iterator[Case]:
    first, second = (rng.integers(0, 60000, (rows, 64), dtype=np.uint16) for rows in (16, 9))
    image = np.zeros(1024, np.uint8)
    image[swizzle_places(1024, 128)] = np.frombuffer(box_of(second, (2, 0), (8, 64)).tobytes(), np.uint8)
    arguments = [
        MapOf(0, (4, 64), shape=first.shape, hidden=first),
        np.zeros(32, np.uint32),
        np.zeros(1024, np.uint8),
        AddressOf(second),
        np.int32(9),
    ]
    yield Case("replaced", "replaced", arguments, lambda r: equal(r[2], image), block=32)


def reductions(rng: np.random.Generator) -> Iterator[Case]:
    kinds = {
        "u32": np.uint32,
        "u64": np.uint64,
        "f32": np.float32,
        "f64": np.float64,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "s32": np.int32,
        "s64": np.int64,
        "b32": np.uint32,
        "b64": np.uint64,
    }
    operations: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda x, y: (x + y).astype(x.dtype), "min": np.minimum, "max": np.maximum, "and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y,
        "inc": lambda x, y: np.where(x >= y, 0, x + 1).astype(x.dtype), "dec": lambda x, y: np.where((x == 0) | (x > y), y, x - 1).astype(x.dtype),
    }  # fmt: skip
    names = "add_u32 add_u64 add_f32 add_f64 add_f16 add_bf16 min_s32 max_u32 min_u64 max_s64 inc_u32 dec_u32 and_b32 or_b64 xor_b32 min_f16 max_bf16"
    for name in names.split():
        operation, kind = name.split("_")
        dtype = np.dtype(kinds[kind])
        count = 256 // dtype.itemsize
        if dtype.kind in "ui":
            x, y = (
                rng.integers(0, 50, count).astype(dtype)
                if operation in ("inc", "dec")
                else rng.integers(0, 1 << 30, count).astype(dtype) - dtype.type(dtype.kind == "i") * dtype.type(1 << 29)
                for _ in range(2)
            )
        else:
            x, y = ((rng.random(count) * 8 - 4).astype(dtype) for _ in range(2))
        with np.errstate(all="ignore"):
            want = operations[operation](x, y)
        raw = [np.ascontiguousarray(a).view(np.uint32).copy() for a in (x, y)]
        yield Case(f"reduce_{name}", f"reduce_{name}", raw, lambda a, w=want: equal(a[0], w))


def tiles(rng: np.random.Generator) -> Iterator[Case]:
    def one(
        name: str,
        a: np.ndarray,
        box: tuple[int, ...],
        start: tuple[int, ...],
        swizzle: int = 0,
        steps: tuple[int, ...] | None = None,
        fill: int = 0,
    ) -> Case:
        value = np.array(np.nan, a.dtype) if fill else 0
        want = box_of(a, start, box, steps, value).tobytes()
        if fill:
            nan = b"\xf7\x7f" * (a.itemsize // 2)
            outside = ~box_of(np.ones(a.shape, bool), start, box, steps)
            raw = np.frombuffer(want, np.uint8).reshape(-1, a.itemsize).copy()
            raw[outside.ravel()] = np.frombuffer(nan, np.uint8)
            want = raw.tobytes()
        line = box[-1] * a.itemsize
        span = -(-len(want) // line * max(swizzle, line) // 1024) * 1024
        image = np.full(span, 0xEE, np.uint8)
        image[swizzle_places(len(want), swizzle, line)] = np.frombuffer(want, np.uint8)
        coordinates = [*reversed(start), 0, 0, 0, 0][:5]
        arguments = [
            MapOf(1, box, swizzle, steps, fill, shape=a.shape, hidden=a),
            np.zeros(span, np.uint8),
            np.int32(a.ndim),
            np.uint32(len(want)),
            np.uint32(span),
            *map(np.int32, coordinates),
        ]
        return Case(f"tile_{name}", "load_tile", arguments, lambda r: equal(r[1], image), shared=span)

    a = rng.integers(0, 60000, (40, 96), dtype=np.uint16)
    for swizzle, inner in ((0, 64), (32, 16), (64, 32), (128, 64)):
        yield one(f"swizzle_{swizzle}", a, (16, inner), (4, 8), swizzle)
    yield one("short_rows_128", a, (16, 32), (4, 8), 128)
    yield one("negative", a, (16, 64), (-3, -8))
    yield one("negative_row", a, (16, 64), (-3, 8))
    yield one("outside_end", a, (16, 64), (30, 56), 128)
    yield one("far_away", a, (8, 64), (100, 0))
    yield one("nan", a.view(np.float16).astype(np.float32)[:, :32].copy(), (8, 16), (36, 24), fill=1)
    yield one("steps", a, (16, 64), (1, 0), steps=(2, 1))
    yield one("1d", rng.integers(0, 255, 1000, dtype=np.uint8), (256,), (800,))
    yield one("3d", rng.random((5, 12, 20), dtype=np.float32), (2, 5, 8), (4, 9, 8))
    yield one("4d", rng.random((3, 4, 8, 16), dtype=np.float32), (2, 3, 4, 8), (1, -1, 6, 4))
    yield one("5d", rng.integers(0, 1 << 60, (3, 2, 4, 6, 8), dtype=np.uint64), (2, 2, 3, 2, 4), (2, 0, 2, 5, 6))


def column(
    a: np.ndarray,
    start: tuple[int, ...],
    offsets: tuple[int, ...],
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    channels: int,
    pixels: int,
    steps: tuple[int, ...],
) -> np.ndarray:
    """im2col by its definition; everything innermost first, the array in its own order."""
    sizes = a.shape[::-1]
    out = np.zeros((pixels, channels), a.dtype)
    position = list(start[1:])
    for p in range(pixels):
        there = [q + (offsets[n] if n < len(offsets) else 0) for n, q in enumerate(position)]
        for c in range(channels):
            index = (start[0] + c, *there)
            if all(0 <= q < n for q, n in zip(index, sizes, strict=True)):
                out[p, c] = a[index[::-1]]
        for n in range(len(lower)):
            position[n] += steps[n + 1]
            if position[n] <= sizes[n + 1] - 1 + upper[n]:
                break
            position[n] = lower[n]
        else:
            position[-1] += 1
    return out


def columns(rng: np.random.Generator) -> Iterator[Case]:
    def one(
        name: str,
        a: np.ndarray,
        start: tuple[int, ...],
        offsets: tuple[int, ...],
        lower: tuple[int, ...],
        upper: tuple[int, ...],
        channels: int,
        pixels: int,
        swizzle: int = 0,
    ) -> Case:
        steps = (1,) * a.ndim
        want = column(a, start, offsets, lower, upper, channels, pixels, steps).tobytes()
        span = -(-len(want) // 1024) * 1024
        image = np.full(span, 0xEE, np.uint8)
        image[swizzle_places(len(want), swizzle)] = np.frombuffer(want, np.uint8)
        made = MapOf(1, (1,) * a.ndim, swizzle, None, 0, lower, upper, channels, pixels, a.shape, a)
        numbers = [*map(np.int32, [*start, 0, 0][:5]), *map(np.uint16, [*offsets, 0, 0][:3])]
        return Case(
            f"column_{name}",
            "load_column",
            [made, np.zeros(span, np.uint8), np.int32(a.ndim), np.uint32(len(want)), np.uint32(span), *numbers],
            lambda r: equal(r[1], image),
            shared=span,
        )

    nhwc = rng.integers(0, 60000, (3, 7, 9, 32), dtype=np.uint16)
    yield one("4d", nhwc, (0, -1, -1, 0), (0, 0), (-1, -1), (-1, -1), 32, 64)
    yield one("4d_offsets", nhwc, (8, 3, 2, 1), (2, 1), (-1, -1), (-1, -1), 16, 48)
    yield one("4d_swizzle", nhwc, (0, -1, 0, 1), (1, 2), (-1, -1), (-1, -1), 32, 32, 64)
    nwc = rng.random((4, 11, 16), dtype=np.float32)
    yield one("3d", nwc, (4, 0, 1), (1,), (0,), (-2,), 8, 24)
    ndhwc = rng.random((2, 3, 4, 5, 8), dtype=np.float32)
    yield one("5d", ndhwc, (0, 0, -1, -1, 0), (1, 1, 1), (-1, -1, -1), (-1, -1, -1), 8, 60)


def stores(rng: np.random.Generator) -> Iterator[Case]:
    def one(
        name: str,
        what: int,
        a: np.ndarray,
        box: tuple[int, ...],
        start: tuple[int, ...],
        combine: Callable[[Any, Any], Any],
        swizzle: int = 0,
    ) -> Case:
        values = rng.integers(0, 1000, box).astype(a.dtype)
        want = a.copy()
        index = [s + np.arange(n) for s, n in zip(start, box, strict=True)]
        valid = [(i >= 0) & (i < n) for i, n in zip(index, a.shape, strict=True)]
        there = np.ix_(*[i[v] for i, v in zip(index, valid, strict=True)])
        want[there] = combine(want[there], values[np.ix_(*valid)]).astype(a.dtype)
        raw = np.frombuffer(values.tobytes(), np.uint8)
        span = -(-len(raw) // 1024) * 1024
        image = np.zeros(span, np.uint8)
        image[swizzle_places(len(raw), swizzle)] = raw
        coordinates = [*reversed(start), 0, 0][:3]
        made = MapOf(-1, box, swizzle, shape=a.shape, hidden=a)
        return Case(
            f"store_{name}",
            "store_tile",
            [made, image, np.int32(what), np.uint32(span), *map(np.int32, coordinates)],
            lambda r, w=want: equal(r[0], w),
            shared=span,
        )

    a = rng.integers(0, 1000, (24, 48)).astype(np.float32)

    def keep(old: Any, new: Any) -> Any:
        return new

    yield one("2d", 2, a, (8, 16), (20, 40), keep)
    yield one("2d_swizzle", 2, a, (16, 32), (4, 8), keep, 128)
    yield one("1d", 1, rng.integers(0, 1000, 300).astype(np.int32), (128,), (220,), keep)
    yield one("3d", 3, rng.integers(0, 1000, (6, 8, 12)).astype(np.float32), (3, 4, 4), (4, 6, 8), keep)
    yield one("add", 4, a, (8, 16), (20, 40), lambda old, new: old + new)
    yield one("max", 5, a.astype(np.int32), (8, 16), (4, 0), np.maximum, 64)
