"""Shared memory, L1, L2, DRAM, atomics and fences."""

from __future__ import annotations

import numpy as np

from bench.device import Buffer
from bench.micro.context import Context, Row, row

LANES = np.arange(32)
LINE = 128


def table(ctx: Context, offsets: np.ndarray) -> Buffer:
    """32 lane offsets in bytes and a 33rd word of 0, which keeps loads from being hoisted."""
    return ctx.device.upload(np.append(offsets, 0).astype(np.uint32))


def conflict(way: int, width: int) -> np.ndarray:
    """Lanes 0 .. way-1 share the first bank group, each in its own 128-byte row; the others have their own."""
    words = max(1, width // 4)
    lanes = LANES * words
    return np.where(way > LANES, LANES * 32 * words, lanes) * 4


def shared(ctx: Context) -> list[Row]:
    """LDS/ATOMS/LDSM chases, access patterns by width, warps and conflict degree."""
    rows: list[Row] = []
    same = table(ctx, LANES * 0)
    for kernel in ("lds32_chase", "lds64_chase", "lds128_chase", "ldsm1_chase", "ldsm4_chase", "atoms_add_chase",
                   "atoms_cas_chase"):  # fmt: skip
        per = ctx.slope("shared", kernel, 1, (same,), 8, 40, 32768) / 16
        rows.append(row(kernel, "cycles_per_load_and_fold", per, "cycles", warps=1))
    for kernel in ("lds32_self", "atoms_self", "atoms_cas_self"):
        for name, offsets in ({"linear": LANES * 4} | {f"way{k}": conflict(k, 4) for k in (2, 4, 8, 16, 32)}).items():
            buffer = table(ctx, offsets)
            per = ctx.slope("shared", kernel, 1, (buffer,), 8, 40, 32768) / 16
            rows.append(row(kernel, "cycles_per_load", per, "cycles", warps=1, pattern=name))
    if not ctx.model:
        per = _dsmem(ctx, same)
        rows.append(row("dsmem_chase", "cycles_per_load_and_moves", per, "cycles", warps=1))
    widths = {"lds32": 4, "lds64": 8, "lds128": 16, "lds8": 1, "sts32": 4, "sts64": 8, "sts128": 16, "atoms_add": 4,
              "atoms_red": 4, "atoms_count": 4, "atoms_max": 4, "atoms_exch": 4, "atoms_cas": 4, "atoms_fadd": 4}  # fmt: skip
    for kernel, width in widths.items():
        patterns = {"linear": LANES * width, "same": LANES * 0}
        if kernel in ("lds32", "sts32", "atoms_add"):
            patterns |= {f"way{k}": conflict(k, 4) for k in (2, 3, 4, 6, 8, 12, 16, 24, 32)}
            patterns |= {f"same_word_{k}": np.where(k > LANES, 0, LANES * 4) for k in (2, 4, 8, 16)}
        if kernel in ("lds64", "sts64", "lds128", "sts128"):
            # k-way among the lanes of a phase (half-warp for 64-bit, quarter-warp for 128-bit), and across phases.
            patterns |= {f"stride{k}": LANES * width * k for k in (2, 4, 8)}
            patterns["pairs"] = (LANES // 2) * width
        if kernel in ("atoms_add", "atoms_count"):
            patterns |= {f"distinct{k}": (LANES % k) * 4 for k in (2, 4, 8, 16)}
        if kernel == "atoms_count":
            patterns |= {f"apart{k}": (LANES % k) * 128 for k in (2, 4, 8)}
        for name, offsets in patterns.items():
            buffer = table(ctx, offsets)
            for warps in (1, 4, 16, 32) if name == "linear" else (1, 16):
                per = ctx.slope("shared", kernel, warps, (buffer,), 8, 24, 40960)
                rows.append(
                    row(kernel, "cycles_per_access_per_sm", per / (16 * warps), "cycles", warps=warps, pattern=name)
                )
            buffer.free()
    for kernel in ("ldsm1", "ldsm2", "ldsm4"):
        for name, offsets in {"rows16": LANES * 16, "rows128": LANES * 128, "same": LANES * 0}.items():
            buffer = table(ctx, offsets)
            for warps in (1, 4, 16):
                per = ctx.slope("shared", kernel, warps, (buffer,), 8, 24, 40960)
                rows.append(
                    row(kernel, "cycles_per_access_per_sm", per / (16 * warps), "cycles", warps=warps, pattern=name)
                )
            buffer.free()
    return rows


def _dsmem(ctx: Context, off: Buffer) -> float:
    spans = []
    for n in (8, 40):
        marks = ctx.cycles("shared", "dsmem_chase", 1, (off, np.int32(n)), 32768, blocks=2)[0]
        spans.append(int(marks[0, 1] - marks[0, 0]))
    return (spans[1] - spans[0]) / 32 / 16


def host_ring(ctx: Context, count: int, stride: int, seed: int = 1) -> tuple[Buffer, int]:
    """A random cycle of `count` pointers, `stride` bytes apart, built on the host; returns (buffer, first address)."""
    buffer = ctx.device.alloc(count * stride)
    base = buffer.address
    order = np.random.default_rng(seed).permutation(count)
    words = np.zeros(count * stride // 8, np.uint64)
    words[order * (stride // 8)] = base + np.roll(order, -1) * stride
    words[order * (stride // 8) + 1] = words[order * (stride // 8)]
    buffer.write(words)
    return buffer, base + int(order[0]) * stride


def device_ring(ctx: Context, buffer: Buffer, count: int, stride: int) -> int:
    """A random cycle of a power of two of pointers built on the device; returns the first address."""
    mult, add = (0x9E3779B1 & ~7) | 5, 0x7F4A7C15 | 1
    blocks = max(1, min(1024, count // 256))
    ctx.module("memory").launch(
        "ring", blocks, 256, [buffer, np.uint64(count), np.uint64(stride // 8), np.uint64(mult), np.uint64(add)]
    )
    return buffer.address


def latency(ctx: Context) -> list[Row]:
    """Cycles per load of a random pointer chase by footprint, through L1 (`chase_ca`) and past it (`chase_cg`)."""
    rows: list[Row] = []
    small = [4, 32, 128, 160, 176, 192, 200, 208, 216, 224, 232, 240, 248, 256, 272, 288, 320, 512]
    module = ctx.module("memory")
    if hasattr(module, "carveout"):
        module.carveout("chase_ca", 0)
    for kib in small:
        count = kib * 1024 // LINE
        buffer, start = host_ring(ctx, count, LINE)
        steps = max(256, min(count * 2, 4096))
        for kernel in ("chase_ca", "chase_cg") if kib in (32, 512) else ("chase_ca",):
            span = ctx.span("memory", kernel, 1, (np.uint64(start), np.int32(2 * count), np.int32(steps)), threads=1)
            rows.append(row(kernel, "cycles_per_load", span / steps, "cycles", kib=kib, stride=LINE))
        if kib == 32:
            for kernel in ("chase_nc", "chase_ca128", "chase_volatile", "chase_atom_or", "chase_atom_cas",
                           "chase_local_generic"):  # fmt: skip
                args = (np.uint64(start), np.int32(2 * count), np.int32(steps))
                span = ctx.span("memory", kernel, 1, args, threads=1)
                rows.append(row(kernel, "cycles_per_load", span / steps, "cycles", kib=kib, stride=LINE))
            span = ctx.span(
                "memory", "chase_ca", 1, (np.uint64(start), np.int32(2 * count), np.int32(steps)), threads=32
            )
            rows.append(row("chase_ca", "cycles_per_load", span / steps, "cycles", kib=kib, stride=LINE, lanes=32))
        buffer.free()
    if ctx.model:
        return rows
    big = ctx.device.alloc(4 << 30)
    for mib in (1, 4, 8, 16, 24, 32, 40, 48, 64, 128, 256, 512, 1024, 4096):
        if mib & (mib - 1):
            buffer, start = host_ring(ctx, mib * 8192, LINE)
            count = mib * 8192
        else:
            count = mib * 8192
            start = device_ring(ctx, big, count, LINE)
        warm = count if mib <= 64 else 8192
        steps = 8192
        for kernel in ("chase_cg", "chase_ca") if mib <= 64 else ("chase_cg",):
            span = ctx.span("memory", kernel, 1, (np.uint64(start), np.int32(warm), np.int32(steps)), threads=1)
            rows.append(row(kernel, "cycles_per_load", span / steps, "cycles", kib=mib * 1024, stride=LINE))
        if mib & (mib - 1):
            buffer.free()
    big.free()
    return rows


def lanes(ctx: Context) -> list[Row]:
    """Latency of one warp-wide 64-bit load, or atomic, by pattern of its lanes: L1 hits, L2 hits, atomics at L2."""
    rows: list[Row] = []
    base = ctx.device.alloc(1 << 20)
    shapes = {"linear8": LANES * 8, "stride16": LANES * 16, "stride32": LANES * 32, "stride128": LANES * LINE}
    shapes |= {f"lines{k}": (LANES % k) * LINE for k in (1, 2, 4, 8, 16)}
    for name, offsets in shapes.items():
        buffer = table(ctx, offsets)
        ctx.module("memory").launch("self_point", 1, 32, [base, buffer])
        for kernel in ("self_ca", "self_cg", "self_atom"):
            for warps in (1, 4):
                per = ctx.slope("memory", kernel, warps, (base, buffer), 8, 40) / 8
                rows.append(row(kernel, "cycles_per_load", per, "cycles", pattern=name, warps=warps))
        buffer.free()
    base.zero()
    for kib in (32, 1024):
        args = (np.uint64(base.address), np.int32(64), np.int32(512))
        span = ctx.span("memory", "chase_u32", 1, args, threads=1)
        rows.append(row("chase_u32", "cycles_per_load_and_add", span / 512, "cycles", kib=kib))
    base.free()
    return rows


def steps(ctx: Context) -> list[Row]:
    """Each load's own latency: L2 (two partitions), DRAM, sectors in order; percentiles and histogram in `.npz`."""
    rows: list[Row] = []
    big = ctx.device.alloc(1 << 30)
    cases = {
        "l2_16mib": ("steps_cg", 16 << 20, LINE, 131072, 4096),
        "l2_2mib_weak": ("steps_ca", 2 << 20, LINE, 16384, 4096),
        "l2_16mib_weak": ("steps_ca", 16 << 20, LINE, 131072, 4096),
        "l2_32mib_weak": ("steps_ca", 32 << 20, LINE, 262144, 4096),
        "l2_64mib_weak": ("steps_ca", 64 << 20, LINE, 524288, 4096),
        "dram_1gib_weak": ("steps_ca", 1 << 30, LINE, 1024, 8192),
        "l2_2mib": ("steps_cg", 2 << 20, LINE, 16384, 4096),
        "l2_32mib": ("steps_cg", 32 << 20, LINE, 262144, 4096),
        "dram_1gib": ("steps_cg", 1 << 30, LINE, 1024, 8192),
        "dram_1gib_stride4k": ("steps_cg", 1 << 30, 4096, 1024, 8192),
    }
    for name, (kernel, size, stride, warm, count) in cases.items():
        start = device_ring(ctx, big, size // stride, stride)
        ctx.module("memory").launch(kernel, 1, 1, [ctx.words, np.uint64(start), np.int32(warm), np.int32(count)], 40960)
        _percentiles(ctx, rows, name, count)
    # In address order, 32 bytes apart: what a miss brings along (sector, pair of sectors, line, row of DRAM).
    pointers = np.arange(1 << 19, dtype=np.uint64) * 32 + big.address + 32
    words = np.zeros(len(pointers) * 4, np.uint64)
    words[::4] = pointers
    for kernel in ("steps_ca", "steps_cg"):
        big.write(words)
        flush = ctx.device.alloc(256 << 20)
        flush.zero()
        flush.free()
        ctx.module("memory").launch(
            kernel, 1, 1, [ctx.words, np.uint64(big.address), np.int32(0), np.int32(4096)], 40960
        )
        _percentiles(ctx, rows, f"in_order_32b_{kernel[-2:]}", 4096)
    big.free()
    return rows


def _percentiles(ctx: Context, rows: list[Row], name: str, count: int) -> None:
    values = ctx.words.read(np.uint32, count)
    ctx.arrays[f"steps_{name}"] = values
    for p in (1, 10, 25, 50, 75, 90, 99, 99.9):
        rows.append(row(name, f"p{p}", float(np.percentile(values, p)), "cycles"))
    rows.append(row(name, "mean", float(values.mean()), "cycles"))


def tlb(ctx: Context) -> list[Row]:
    """Chase over pages: one line in every `stride` bytes; the lines fit L2, the pages sooner or later no TLB."""
    rows: list[Row] = []
    for stride, counts in {
        (64 << 10) + 256: (64, 256, 1024, 4096, 16384, 65536),
        (2 << 20) + 256: (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    }.items():
        buffer = ctx.device.alloc(max(counts) * stride)
        for count in counts:
            start = device_ring(ctx, buffer, count, stride)
            span = min(
                ctx.span("memory", "chase_cg", 1, (np.uint64(start), np.int32(2 * count), np.int32(4096)), threads=1)
                for _ in range(2)
            )
            rows.append(row("tlb", "cycles_per_load", span / 4096, "cycles", stride=stride, pages=count,
                            mib=count * stride / 2**20))  # fmt: skip
        buffer.free()
    return rows


def patterns() -> dict[str, np.ndarray]:
    """Lane offsets in bytes of one warp access."""
    found = {f"stride{s}": LANES * s for s in (4, 8, 16, 32, 64, 128)}
    found |= {f"lines{k}": (LANES % k) * LINE for k in (1, 2, 4, 8, 16)}
    found |= {f"sectors{k}": (LANES % k) * 32 for k in (1, 2, 4, 8, 16)}
    found["reverse4"] = (31 - LANES) * 4
    found["offset4"] = LANES * 4 + 4
    found["offset16"] = LANES * 4 + 16
    return found


def access(ctx: Context) -> list[Row]:
    """Cycles per warp access by pattern: L1 hits, L2 hits past L1, stores, one SM, 1 to 32 warps."""
    rows: list[Row] = []
    base = ctx.device.alloc(16 << 20)
    for kernel, width in {"ldg32_ca": 4, "ldg64_ca": 8, "ldg128_ca": 16, "ldg32_cg": 4, "ldg64_cg": 8, "ldg128_cg": 16,
                          "stg32": 4, "stg64": 8, "stg128": 16}.items():  # fmt: skip
        table_of = patterns() if width == 4 else {"linear": LANES * width, "same": LANES * 0, "stride128": LANES * 128}
        if kernel == "stg32":
            table_of = {
                k: v for k, v in table_of.items() if k in ("stride4", "stride8", "stride32", "stride128", "lines1")
            }
        warp_step = 0 if kernel.endswith("_ca") else 36864
        for name, offsets in table_of.items():
            buffer = table(ctx, offsets)
            for warps in (1, 4, 16, 32) if name in ("stride4", "linear", "stride128") else (1, 16):
                low, high = (8, 24) if kernel.endswith("_ca") else (4, 12)
                per = ctx.slope("memory", kernel, warps, (base, buffer, np.uint32(warp_step)), low, high, 4096)
                rows.append(
                    row(kernel, "cycles_per_access_per_sm", per / (8 * warps), "cycles", warps=warps, pattern=name)
                )
            buffer.free()
    base.free()
    return rows


def queue(ctx: Context) -> list[Row]:
    """When each of 32 independent loads of a warp issues, L2 hits; clocks relative to the first, then the end."""
    rows: list[Row] = []
    base = ctx.device.alloc(64 << 20)
    for kernel in ("queue_ca", "queue_cg"):
        for name, offsets, step in (
            ("line", LANES * 4, 1 << 18),
            ("lines32", LANES * LINE, 1 << 18),
            ("lines8", (LANES % 8) * LINE, 1 << 18),
        ):
            buffer = table(ctx, offsets)
            for warps in (1, 2, 4, 8, 16):
                args = [ctx.words, base, buffer, np.uint32(1 << 19), np.uint32(step)]
                for _ in range(2):
                    ctx.module("memory").launch(kernel, 1, warps * 32, args, 4096)
                marks = ctx.words.read(np.uint32, warps * 34).reshape(warps, 34)
                rows.append({**row(kernel, "issue_clocks", float(marks[0, 33]), "cycles", warps=warps, pattern=name),
                             "warp0": marks[0].tolist(), "last": marks[-1].tolist()})  # fmt: skip
            buffer.free()
    base.free()
    return rows


def atomics(ctx: Context) -> list[Row]:
    """ATOM and RED at L2: cycles per warp instruction on one SM; operations per nanosecond on the whole chip."""
    rows: list[Row] = []
    base = ctx.device.alloc(256 << 20)
    shapes = {"same": LANES * 0, "linear": LANES * 4, "lines32": LANES * LINE, "distinct2": (LANES % 2) * 4,
              "sectors4": (LANES % 4) * 32}  # fmt: skip
    for kernel in ("atom_add", "atom_cas", "atom_fadd", "red_add", "red_fadd", "red_add64"):
        for name, offsets in shapes.items():
            buffer = table(ctx, offsets * (2 if kernel == "red_add64" else 1))
            for warps in (1, 16):
                for step in (0, 36864):
                    per = ctx.slope("memory", kernel, warps, (base, buffer, np.uint32(step)), 4, 12, 4096)
                    rows.append(row(kernel, "cycles_per_access_per_sm", per / (8 * warps), "cycles", warps=warps,
                                    pattern=name, spread=bool(step)))  # fmt: skip
            if not ctx.model:
                for step in (0, 4096):
                    seconds = []
                    for n in (8, 40):
                        args = [ctx.words, base, buffer, np.uint32(step), np.int32(n)]
                        seconds.append(min(ctx.module("memory").launch(kernel, 132, 512, args, 4096) for _ in range(3)))
                    warps_done = 2 * 32 * 8 * 132 * 16  # two passes of the timed loop
                    rate = warps_done / (seconds[1] - seconds[0]) * 1e-9
                    rows.append(
                        row(kernel, "chip_warp_instructions_per_ns", rate, "1/ns", pattern=name, spread=bool(step))
                    )
            buffer.free()
    base.free()
    return rows


def fences(ctx: Context) -> list[Row]:
    """LDGSTS to landing, and fences with and without stores before them."""
    rows: list[Row] = []
    base = ctx.device.alloc(16 << 20)
    linear = table(ctx, LANES * 16)
    for kernel in ("ldgsts4", "ldgsts16", "ldgsts16_cg", "fence_cta", "fence_gl", "fence_gl_st1", "fence_gl_st4",
                   "fence_acq_rel", "fence_acq_rel_st1", "fence_sys"):  # fmt: skip
        for warps in (1, 16):
            per = ctx.slope("memory", kernel, warps, (base, linear, np.uint32(32768)), 8, 24, 32768)
            rows.append(row(kernel, "cycles_each", per, "cycles", warps=warps))
    base.free()
    return rows
