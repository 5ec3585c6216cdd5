"""The whole chip: clocks, bandwidths, the SMs' places, block dispatch, launch overhead."""

from __future__ import annotations

import numpy as np

from bench.device import smi
from bench.micro.context import Context, Row, row


def clock(ctx: Context) -> list[Row]:
    """SM clock: cycles over %globaltimer's nanoseconds in a spinning block, alone and on every SM."""
    rows: list[Row] = []
    out = ctx.device.upload(np.zeros(5 * 264, np.uint64))
    for blocks in (1, 132, 264):
        ctx.module("launch").launch("stamp", blocks, 1024, [out, np.uint64(20_000_000)])
        stamps = out.read(np.uint64, 5 * blocks).reshape(blocks, 5).astype(np.int64)
        mhz = (stamps[:, 2] - stamps[:, 1]) / (stamps[:, 4] - stamps[:, 3]) * 1000
        rows.append(row("sm_clock", "mhz", float(np.median(mhz)), "MHz", blocks=blocks))
    ticks = np.unique(stamps[:, 3:] % 1024)
    gaps = np.diff(np.unique(stamps[:, 3:].reshape(-1)))
    rows.append(row("globaltimer", "least_step_ns", float(gaps.min()) if len(gaps) else 0.0, "ns", seen=len(ticks)))
    return rows


def bandwidth(ctx: Context) -> list[Row]:
    """DRAM: read, write, copy (bytes read + written) and random sectors by size; and by number of SMs."""
    rows: list[Row] = []
    module = ctx.module("memory")
    source, target = ctx.device.alloc(4 << 30), ctx.device.alloc(4 << 30)
    source.zero()
    for mib in (16, 32, 64, 128, 256, 1024, 4096):
        for kernel, factor in (("bw_read", 1), ("bw_write", 1), ("bw_copy", 2), ("bw_gather", 1)):
            best = 0.0
            where = {}
            for blocks, threads in ((132, 1024), (264, 1024), (1056, 512), (mib * 64, 256)):
                args = [ctx.words, source, target, np.uint64(mib << 16)]
                seconds = min(module.launches(kernel, blocks, threads, args, 0, 1) for _ in range(4))
                rate = factor * (mib << 20) / seconds * 1e-9
                if rate > best:
                    best, where = rate, {"blocks": blocks, "threads": threads}
            rows.append(row(kernel, "gb_per_s", best, "GB/s", mib=mib, **where))
    rows.append({**row("clocks_after_bandwidth", "nvidia_smi", 0.0, ""), "smi": smi()})
    for blocks in (1, 2, 4, 8, 16, 33, 66, 132):
        for kernel, factor in (("bw_read", 1), ("bw_write", 1), ("bw_copy", 2)):
            size = 32 * blocks << 20
            args = [ctx.words, source, target, np.uint64(size >> 4)]
            seconds = min(module.launches(kernel, blocks, 1024, args, 0, 1) for _ in range(3))
            rows.append(row(kernel, "gb_per_s", factor * size / seconds * 1e-9, "GB/s", sms=blocks, mib=size >> 20))
    source.free()
    target.free()
    return rows


def placement(ctx: Context) -> list[Row]:
    """Which SMs share a GPC: blocks of one cluster always do. Groups of smids, by cluster size."""
    rows: list[Row] = []
    module = ctx.module("launch")
    groups: list[list[int]] = []
    for size in (2, 4, 8):
        kernel = f"stamp_cluster{size}"
        parent = list(range(256))

        def find(a: int, parent: list[int] = parent) -> int:
            while parent[a] != a:
                a = parent[a]
            return a

        first = []
        for blocks in (16 * size, 132 // size * size, 528 // size * size):
            out = ctx.device.upload(np.zeros(5 * blocks, np.uint64))
            module.launch(kernel, blocks, 1024, [out, np.uint64(20000)], 100_000)
            smids = out.read(np.uint64, 5 * blocks).reshape(blocks // size, size, 5)[:, :, 0].astype(int)
            for cluster in smids:
                for sm in cluster[1:]:
                    parent[find(int(sm))] = find(int(cluster[0]))
            if blocks == 132 // size * size:
                first = smids.tolist()
            out.free()
        groups = [[sm for sm in range(132) if find(sm) == root] for root in range(256)]
        groups = [g for g in groups if g]
        rows.append(
            {**row("gpc_groups", "groups", len(groups), "", cluster=size), "groups": groups, "first_wave": first}
        )
    ctx.arrays["gpc_of_sm"] = np.array([next(i for i, g in enumerate(groups) if sm in g) for sm in range(132)])
    return rows


def l2_map(ctx: Context) -> list[Row]:
    """Least latency of each of 256 L2-resident lines from every SM (raw matrix in `.npz`): near and far partitions."""
    lines, stride = 256, (1 << 16) + 128
    base = ctx.device.alloc(lines * stride + 4096)
    base.zero()
    out = ctx.device.upload(np.zeros(132 * (lines + 1), np.uint32))
    ctx.module("memory").launch(
        "l2_map", 132, 32, [out, base, np.int32(lines), np.uint64(stride // 4), np.int32(6)], 200_000
    )
    matrix = out.read(np.uint32, 132 * (lines + 1)).reshape(132, lines + 1)
    ctx.arrays["l2_map"] = matrix[np.argsort(matrix[:, 0])]
    data = matrix[:, 1:]
    rows = [
        row("l2_map", f"p{p}", float(np.percentile(data, p)), "cycles") for p in (0, 1, 10, 25, 50, 75, 90, 99, 100)
    ]
    base.free()
    return rows


def l2_band(ctx: Context) -> list[Row]:
    """L2 read and write bandwidth by which SMs are active and footprint: bytes per cycle per active SM."""
    rows: list[Row] = []
    base = ctx.device.alloc(300 << 20)
    base.zero()
    gpc = ctx.arrays.get("gpc_of_sm")
    sets: dict[str, list[int]] = {"1": [0], "1_other": [60], "tpc": [0, 1], "2_apart": [0, 60], "all": list(range(132))}
    for n in (4, 8, 16, 33, 66):
        sets[f"first{n}"] = list(range(n))
        sets[f"spread{n}"] = [int(i * 132 / n) for i in range(n)]
    if gpc is not None:
        for g in (0, 1):
            members = [int(s) for s in np.flatnonzero(gpc == g)]
            for n in (4, 8, len(members)):
                sets[f"gpc{g}_{n}"] = members[:n]
    out = ctx.device.upload(np.zeros(6 * 132, np.uint64))
    for name, members in sets.items():
        mask = np.zeros(256, np.uint32)
        mask[members] = 1
        buffer = ctx.device.upload(mask)
        for mib in (0.125, 0.25, 1, 8, 32, 64, 128) if name == "all" else (0.25, 1, 8, 32):
            for mode, word in ((0, "read"), (1, "write"), (2, "read_own")):
                if mode == 2 and mib > 1:
                    continue
                iters = max(1, int(16 / mib))
                n16 = np.uint64(int(mib * 65536))
                for _ in range(2):
                    ctx.module("memory").launch(
                        "l2_band", 132, 1024, [out, buffer, base, n16, np.int32(iters), np.int32(mode)], 200_000
                    )
                stamps = out.read(np.uint64, 6 * 132).reshape(132, 6).astype(np.int64)
                active = stamps[stamps[:, 1] == 1]
                cycles = float(np.mean(active[:, 5] - active[:, 4]))
                nbytes = iters * mib * 2**20
                wall = float(active[:, 3].max() - active[:, 2].min())
                rows.append(row(f"l2_{word}", "bytes_per_cycle_per_sm", nbytes / cycles, "B/clk", sms=len(active),
                                set=name, mib=mib, total_gb_per_s=round(nbytes * len(active) / wall, 1)))  # fmt: skip
        buffer.free()
    base.free()
    return rows


def dispatch(ctx: Context) -> list[Row]:
    """Start clock and SM of every block: dispatch order and rate, restart gap after a block ends, tail."""
    rows: list[Row] = []
    module = ctx.module("launch")
    cases = [
        (grid, threads, spin) for grid in (132, 264, 1320, 13200) for threads in (32, 256, 1024) for spin in (0, 4000)
    ]
    for grid, threads, spin in cases:
        out = ctx.device.upload(np.zeros(5 * grid, np.uint64))
        for _ in range(2):
            module.launch("stamp", grid, threads, [out, np.uint64(spin)])
        stamps = out.read(np.uint64, 5 * grid).reshape(grid, 5).astype(np.int64)
        out.free()
        where = {"grid": grid, "threads": threads, "spin": spin}
        begin, end = stamps[:, 3].min(), stamps[:, 4].max()
        rows.append(row("dispatch", "span_ns", float(end - begin), "ns", **where))
        rows.append(row("dispatch", "start_span_ns", float(stamps[:, 3].max() - begin), "ns", **where))
        rows.append(row("dispatch", "sms_used", float(len(np.unique(stamps[:, 0]))), "", **where))
        counts = np.bincount(stamps[:, 0].astype(int), minlength=132)
        rows.append(row("dispatch", "blocks_per_sm_most", float(counts.max()), "", **where, least=int(counts.min())))
        gaps = []
        for sm in np.unique(stamps[:, 0]):
            starts = np.sort(stamps[stamps[:, 0] == sm, 1])
            gaps.append(np.diff(starts))
        flat = np.concatenate(gaps) if gaps else np.zeros(0)
        if len(flat):
            for p in (1, 10, 50, 90):
                rows.append(
                    row("dispatch", f"same_sm_start_gap_p{p}", float(np.percentile(flat, p)), "cycles", **where)
                )
        resident = min(32, 2048 // threads)
        if spin and grid > 132 * resident:
            after = []
            for sm in np.unique(stamps[:, 0]):
                mine = stamps[stamps[:, 0] == sm]
                starts, ends = np.sort(mine[:, 1]), np.sort(mine[:, 2])
                after.append(starts[resident:] - ends[: len(starts) - resident])
            flat = np.concatenate(after)
            for p in (10, 50, 90):
                rows.append(
                    row("dispatch", f"end_to_next_start_p{p}", float(np.percentile(flat, p)), "cycles", **where)
                )
        if grid <= 1320:
            ctx.arrays[f"stamps_{grid}_{threads}_{spin}"] = stamps
            rows.append({**row("dispatch", "first_smids", float(stamps[0, 0]), "", **where),
                         "smids": stamps[:132, 0].tolist()})  # fmt: skip
    return rows


def empty(ctx: Context) -> list[Row]:
    """An empty kernel: seconds of one launch between events, and of each of 64 launches back to back."""
    rows: list[Row] = []
    module = ctx.module("launch")
    for grid in (1, 132, 264, 1320, 13200, 132000):
        for threads in (32, 256, 1024):
            one = sorted(module.launches("empty", grid, threads, [], 0, 1) for _ in range(9))
            many = min(module.launches("empty", grid, threads, [], 0, 64) for _ in range(3))
            rows.append(row("empty", "one_launch_us", one[4] * 1e6, "us", grid=grid, threads=threads))
            rows.append(row("empty", "back_to_back_us", many / 64 * 1e6, "us", grid=grid, threads=threads))
    return rows


def empty_once(ctx: Context) -> list[Row]:
    """The empty kernel, twice a shape, and one long spinning block per SM: what a profiler is pointed at."""
    module = ctx.module("launch")
    for grid in (1, 132, 264, 1320, 13200, 132000):
        for threads in (32, 256, 1024):
            for _ in range(2):
                module.launch("empty", grid, threads, [])
    out = ctx.device.upload(np.zeros(5 * 132, np.uint64))
    module.launch("stamp", 132, 1024, [out, np.uint64(2_000_000)])
    return []


def profile_once(ctx: Context) -> list[Row]:
    """A few loops at several warps per SM, for a profiler that counts why warps wait."""
    from bench.micro.compute import operands

    source = ctx.device.upload(operands())
    for kernel in ("fadd_shr", "ffma_shr", "ffma_ind", "pair_lop3_imad_shr", "lop3_shr"):
        for warps in (4, 16, 32):
            ctx.module("alu").launch(kernel, 1, warps * 32, [ctx.words, source, np.uint32(0), np.int32(512)])
    for warps in (4, 16, 32):
        ctx.module("fetch").launch(
            "fetch_64", 1, warps * 32, [ctx.words, np.float32(0.999), np.float32(0.001), np.int32(512)]
        )
    out = ctx.device.upload(np.zeros(5 * 132, np.uint64))
    for grid in (1, 132):
        for threads in (32, 1024):
            for spin in (0, 1000, 10000):
                ctx.module("launch").launch("stamp", grid, threads, [out, np.uint64(spin)])
    return []
