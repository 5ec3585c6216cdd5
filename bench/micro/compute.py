"""Arithmetic, tensor cores, control flow, instruction and constant caches: one SM, one block."""

from __future__ import annotations

import re
import struct

import numpy as np

from bench.device import Buffer
from bench.micro.context import Context, Row, row

STEPS = 64  # steps of the timed loop's body in alu.cu, over all chains
MMA_STEPS = 16


def _bits(values: list[float]) -> list[int]:
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]


def operands() -> np.ndarray:
    """Operand rows of alu.cu: float, int, half2, (pad), double x2, long x2, bf16x2; each x, y, a, b, c, d."""
    rows = np.zeros(128, np.uint32)
    rows[0:6] = _bits([1.5, 0.75, 0.999, 0.001, 1.001, 0.002])
    rows[8:14] = [0x12345, 7, 3, 5, 11, 2]
    rows[16:22] = [0x3C003C00, 0x38003800, 0x3BFF3BFF, 0x10001000, 0x3C013C01, 0x14001400]
    rows[32:48] = np.array([1.5, 0.75, 0.999, 0.001, 1.001, 0.002, 0, 0], np.float64).view(np.uint32)
    rows[48:64] = np.array([0x1234567890, 7, 3, 5, 11, 2, 0, 0], np.uint64).view(np.uint32)
    rows[64:70] = [0x3F803F80, 0x3F003F00, 0x3F7F3F7F, 0x3A803A80, 0x3F813F81, 0x3B003B00]
    return rows


def kernels_of(ctx: Context, module: str) -> list[str]:
    """Names of the kernels in a cubin, read from its symbol strings."""
    data = (ctx.cubins / f"{module}.sm_{ctx.arch}.cubin").read_bytes()
    return sorted({m.decode() for m in re.findall(rb"\.text\.([A-Za-z_]\w*)", data)})


def alu(ctx: Context) -> list[Row]:
    """Cycles of a dependent step (1 warp) and steps per cycle per SM (2 and 4 chains, 1 to 32 warps)."""
    source = ctx.device.upload(operands())
    rows: list[Row] = []
    zero = np.uint32(0)
    for kernel in kernels_of(ctx, "alu"):
        if kernel == "uniform_dep":
            per = ctx.slope("alu", kernel, 1, (np.uint32(3), np.uint32(5)), 16, 48)
            rows.append(row("uniform", "cycles_per_iteration_of_32_pairs", per, "cycles"))
            continue
        if kernel == "divisions":  # a benchmark of its own
            continue
        name, _, kind = kernel.rpartition("_")
        warps_list = {"dep": (1,), "ind2": (1, 4), "ind": (1, 4, 8, 16, 32), "shr": (1, 4, 8, 16, 32)}[kind]
        for warps in warps_list:
            per = ctx.slope("alu", kernel, warps, (source, zero), 16, 48)
            chains = {"dep": 1, "ind2": 2, "ind": 4, "shr": 4}[kind]
            if kind == "dep":
                rows.append(row(name, "dependent_cycles_per_step", per / STEPS, "cycles", warps=1, chains=1))
            else:
                value = STEPS * warps / per if per > 0 else float("nan")
                rows.append(row(name, "steps_per_cycle_per_sm", value, "steps/cycle", warps=warps, chains=chains,
                                common_operands=kind == "shr"))  # fmt: skip
    return rows


def tensor(ctx: Context) -> list[Row]:
    """mma.sync: cycles of a dependent step and cycles per instruction per SM by chains and warps."""
    source = ctx.device.upload(np.zeros(128, np.uint32))
    rows: list[Row] = []
    for kernel in kernels_of(ctx, "tensor"):
        name, _, kind = kernel.rpartition("_")
        chains = {"dep": 1, "operand": 1, "ind2": 2, "ind": 4}[kind]
        for warps in (1,) if chains == 1 else (1, 4, 8, 16):
            per = ctx.slope("tensor", kernel, warps, (source, np.uint32(0)), 16, 48)
            per /= MMA_STEPS * chains
            if chains == 1:
                rows.append(row(name, f"{kind}_cycles_per_mma", per, "cycles", warps=1, chains=1))
            else:
                rows.append(row(name, "cycles_per_mma_per_subcore", per / (warps / min(warps, 4)), "cycles",
                                warps=warps, chains=chains))  # fmt: skip
    return rows


def control(ctx: Context) -> list[Row]:
    """Branches, divergence, barriers, calls."""
    floats = (np.float32(1.5), np.float32(0.999), np.float32(0.001))
    rows: list[Row] = []
    for kernel in ("loop1", "loop4", "loop8", "loop16", "branch_forward", "call"):
        for warps in (1, 4, 8, 16):
            per = ctx.slope("control", kernel, warps, floats, 32, 96)
            rows.append(row(kernel, "cycles_per_iteration", per, "cycles", warps=warps))
    for kernel in ("bar_sync", "warp_sync"):
        for warps in (1, 2, 4, 8, 16, 32):
            per = ctx.slope("control", kernel, warps, floats, 16, 48) / 16
            rows.append(row(kernel, "cycles_each", per, "cycles", warps=warps))
    for kernel in ("ifelse8", "ifelse16", "ifelse32"):
        for split in (0, 32, 16, 1):
            for warps in (1, 4):
                per = ctx.slope("control", kernel, warps, floats, 16, 48, after=[np.int32(split)])
                rows.append(row(kernel, "cycles_per_ifelse", per / 8, "cycles", warps=warps, split=split))
    ctx.module("control").launch("bar_defer", 1, 64, [ctx.words, *floats, np.int32(1)])
    for kind, value in zip(("at_once", "after_lds"), ctx.words.read(np.uint32, 2), strict=True):
        rows.append(
            row("bar_defer", "cycles_from_arrival_to_clock", float(value), "cycles", kind=kind, other_warp=4000)
        )
    ctx.module("control").launch("clock_pair", 1, 32, [ctx.words, *floats, np.int32(1)])
    for i, value in enumerate(ctx.words.read(np.uint32, 8)):
        rows.append(row("clock_pair", "cycles_between_reads", float(value), "cycles", index=i))
    return rows


def branches(ctx: Context) -> list[Row]:
    """Taken branches by several warps of one sub-core and of all four; indirect branches and calls."""
    floats = (np.float32(1.5), np.float32(0.999), np.float32(0.001))
    rows: list[Row] = []
    for kernel in ("hops_1", "hops_4"):
        for mask in (0x1, 0x11, 0x1111, 0x11111111, 0xF, 0xFF, 0xFFFF, 0xFFFFFFFF):
            spans = []
            for n in (32, 96):
                marks = ctx.cycles("control", kernel, 32, (*floats, np.int32(n), np.uint32(mask)))[0].astype(np.int64)
                used = marks[[w for w in range(32) if mask >> w & 1]]
                spans.append(int(used[:, 1].max() - used[:, 0].min()))
            rows.append(row(kernel, "cycles_per_branch", (spans[1] - spans[0]) / 64 / 16, "cycles", warps=f"{mask:x}"))
    for kernel in ("jumps", "call_address", "call"):
        for warps in (1, 4, 16, 32):
            per = ctx.slope("control", kernel, warps, floats, 32, 96) / 16
            rows.append(row(kernel, "cycles_each", per, "cycles", warps=warps))
    return rows


def icache(ctx: Context) -> list[Row]:
    """Cycles per instruction of straight-line FFMA loops: warm (later passes) and cold (first pass)."""
    rows: list[Row] = []
    for kernel in sorted(kernels_of(ctx, "icache"), key=lambda k: int(k.split("_")[1])):
        body = int(kernel.split("_")[1])
        if ctx.model and body > 2048:
            continue
        for warps in (1, 4, 16):
            passes = max(2, 8192 // body)
            args = (np.float32(0.999), np.float32(0.001), np.int32(passes))
            warm = ctx.span("icache", kernel, warps, args) / (passes * body)
            cold = ctx.words.read(np.uint32, 256 + 2 * warps)[256:].reshape(-1, 2)
            first = int((cold[:, 1] - cold[:, 0]).max()) / body
            rows.append(row("icache", "warm_cycles_per_instruction", warm, "cycles", warps=warps, kib=body / 64))
            rows.append(row("icache", "cold_cycles_per_instruction", first, "cycles", warps=warps, kib=body / 64))
    return rows


def constant(ctx: Context) -> list[Row]:
    """LDC pointer chase by footprint; ULDC/FFMA stream over a footprint, warm and cold."""
    rows: list[Row] = []
    module = ctx.module("constant")
    if hasattr(module, "write_symbol"):
        rng = np.random.default_rng(1)
        for kib in (0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 60):
            stride = 64  # bytes: the constant caches' line
            count = int(kib * 1024) // stride
            order = rng.permutation(count)
            table = np.zeros(16000, np.uint32)
            table[order * stride // 4] = np.roll(order, -1) * stride
            module.write_symbol("table", table)
            steps = 512
            span = ctx.span(
                "constant", "ldc_chase", 1, (np.uint32(order[0] * stride), np.int32(4 * count), np.int32(steps)),
                threads=1,
            )  # fmt: skip
            rows.append(row("ldc_chase", "cycles_per_load_and_add", span / steps, "cycles", kib=kib, stride=stride))
            cold = ctx.span(
                "constant", "ldc_chase", 1,
                (np.uint32(order[0] * stride), np.int32(0), np.int32(max(8, min(count, 512) // 8 * 8))), threads=1,
            )  # fmt: skip
            rows.append(
                row("ldc_chase", "cold_cycles_per_load", cold / max(8, min(count, 512) // 8 * 8), "cycles", kib=kib)
            )
    for stride in (0, 1, 2, 4, 8, 16, 32, 60):
        for warps in (1, 4, 16):
            passes = 16
            args = (np.float32(1.5), np.float32(0.001), np.int32(passes))
            warm = ctx.span("constant", f"operand_{stride}", warps, args) / (passes * 256)
            marks = ctx.words.read(np.uint32, 256 + 2 * warps)[256:].reshape(-1, 2)
            first = int((marks[:, 1] - marks[:, 0]).max()) / 256
            rows.append(row("uldc_ffma", "warm_cycles_per_pair", warm, "cycles", warps=warps, kib=stride))
            rows.append(row("uldc_ffma", "cold_cycles_per_pair", first, "cycles", warps=warps, kib=stride))
    return rows


def lanes_constant(ctx: Context) -> list[Row]:
    """LDC whose lanes differ: k distinct words of one line or of k lines; rate by warps and by footprint."""
    rows: list[Row] = []
    lanes = np.arange(32)

    def offsets(distinct: int, stride: int) -> Buffer:
        return ctx.device.upload((lanes % distinct * stride).astype(np.uint32))

    for distinct in (1, 2, 4, 8, 16, 32):
        for stride in (4, 64):
            where = {"distinct": distinct, "stride": stride}
            per = ctx.slope("constant", "lanes_chain", 1, (offsets(distinct, stride),), 8, 40) / 8
            rows.append(row("lanes_chain", "cycles_per_load_and_or", per, "cycles", warps=1, **where))
            for warps in (1, 4, 16):
                after = (np.uint32(0), np.uint32(0xFFFF), np.uint32(0))
                per = ctx.slope("constant", "lanes_rate", warps, (offsets(distinct, stride),), 8, 24, after=after)
                rows.append(
                    row("lanes_rate", "cycles_per_load_per_sm", per / (8 * warps), "cycles", warps=warps, **where)
                )
    for kib in (1, 2, 4, 8, 16, 32):
        mask = np.uint32(1024 * kib - 1)
        for distinct, stride, step in ((1, 0, 64), (1, 0, 64 * 7), (8, 64, 512), (32, 64, 2048), (32, 4, 128)):
            for warps in (1, 4, 16):
                after = (np.uint32(step), mask, np.uint32(64 * 5))
                per = ctx.slope("constant", "lanes_rate", warps, (offsets(distinct, stride),), 16, 48, after=after)
                rows.append(row("lanes_rate", "cycles_per_load_per_sm", per / (8 * warps), "cycles", warps=warps,
                                distinct=distinct, stride=stride, step=step, kib=kib))  # fmt: skip
    return rows


def misses_constant(ctx: Context) -> list[Row]:
    """LDC whose lanes miss the first level: latency and rate by lines that an instruction lacks, first touches, random walks."""
    rows: list[Row] = []
    lanes = np.arange(32)
    module = ctx.module("constant")
    module.write_symbol("table", np.zeros(16000, np.uint32))
    for kib in (1, 8, 32):
        mask = np.uint32(1024 * kib - 1)
        for lines, stride in (
            (1, 64),
            (2, 64),
            (2, 128),
            (2, 256),
            (4, 64),
            (4, 256),
            (8, 64),
            (8, 256),
            (16, 64),
            (32, 64),
        ):
            source = ctx.device.upload((lanes % lines * stride).astype(np.uint32))
            for warps in (1, 4, 16):
                # A step that no smaller number of turns comes back from: the same lines only after the whole footprint.
                after = (np.uint32(lines * stride if stride == 64 else 64), mask, np.uint32(64 * 37))
                per = ctx.slope("constant", "lanes_miss", warps, (source,), 128, 256, after=after)
                rows.append(row("lanes_miss", "cycles_per_load", per, "cycles", warps=warps, lines=lines, stride=stride,
                                kib=kib))  # fmt: skip
    for lines, stride in ((1, 256), (2, 256), (4, 256), (8, 256), (32, 256), (4, 64)):
        source = ctx.device.upload((lanes % lines * stride).astype(np.uint32))
        for warps in (1, 4):
            turns = 6400 * 8 // (lines * stride * warps)
            args = [ctx.words, source, np.int32(turns), np.uint32(lines * stride), np.uint32(lines * stride * turns)]
            module.launch("lanes_cold", 1, 32 * warps, args)
            for turn, value in enumerate(ctx.words.read(np.uint32, turns)):
                if turn < 16:
                    rows.append(row("lanes_cold", "cycles_of_load", float(value), "cycles", warps=warps, lines=lines,
                                    stride=stride, turn=turn))  # fmt: skip
    rng = np.random.default_rng(3)
    for kib in (1, 2, 4, 8, 16):
        words = kib * 256
        order = rng.permutation(words)
        table = np.zeros(16000, np.uint32)
        table[order] = np.roll(order, -1) * 4
        module.write_symbol("table", table)
        for lines in (1, 8, 32):
            for warps in (1, 4, 8, 16):
                start = rng.choice(words, 32 * warps if words >= 32 * warps else words, replace=False)
                start = np.resize(start, 32 * warps).reshape(warps, 32)[:, lanes % lines]
                source = ctx.device.upload((start.reshape(-1) * 4).astype(np.uint32))
                per = ctx.slope("constant", "lanes_walk", warps, (source,), 32, 96)
                rows.append(row("lanes_walk", "cycles_per_load", per, "cycles", warps=warps, words=lines, kib=kib))
                for blocks in (2, 16, 66, 132) if warps == 8 and kib in (4, 16) else ():
                    spans = [
                        ctx.span("constant", "lanes_walk", warps, (source, np.int32(n)), blocks=blocks)
                        for n in (32, 96)
                    ]
                    per = (spans[1] - spans[0]) / 64
                    rows.append(row("lanes_walk", "cycles_per_load", per, "cycles", warps=warps, words=lines, kib=kib,
                                    blocks=blocks))  # fmt: skip
    module.write_symbol("table", np.zeros(16000, np.uint32))
    return rows


def parameters(ctx: Context) -> list[Row]:
    """First touch of kernel parameters, of one 392 bytes further on, and of the first again, by block of an SM; cycles."""
    rows: list[Row] = []
    module = ctx.module("param")
    for grid, threads in ((1, 32), (132, 32), (132, 256), (264, 1024)):
        out = ctx.device.upload(np.zeros(8 * grid, np.uint64))
        spin = np.uint32(20000 if grid > 132 else 0)
        module.launch("touch_parameters", grid, threads, [out, np.uint32(3), *[np.uint64(0)] * 48, np.uint32(5), spin])
        marks = out.read(np.uint64, 8 * grid).reshape(grid, 8)[:, 1:5].astype(np.int64)
        out.free()
        for place, part in (("first", marks[: min(grid, 132)]), ("second", marks[132:])):
            if len(part):
                for name, value in zip(
                    ("first", "far", "again"), np.median(np.diff(part, axis=1), axis=0), strict=True
                ):
                    rows.append(
                        row("parameters", f"cycles_{name}", value, "cycles", grid=grid, threads=threads, blocks=place)
                    )
    return rows


def cold(ctx: Context) -> list[Row]:
    """Cycles from the start to every fourth KiB of straight-line code, and for constant lines, in the first pass over them.

    Says something new only in a fresh process or under Nsight Compute, which empties the caches before each kernel.
    """
    rows: list[Row] = []
    module = ctx.module("cold")
    for blocks, warps in ((1, 1), (1, 4), (132, 1), (132, 4)):
        module.launch("cold_code", blocks, 32 * warps, [ctx.words, np.float32(0.999), np.float32(0.001)])
        marks = ctx.words.read(np.uint32, 64 * warps).reshape(warps, 64)[:, :49].astype(np.int64)
        for kib in (0, 1, 2, 4, 8, 16, 24, 32, 40, 48):
            value = int((marks[:, kib] - marks[:, 0]).max())
            rows.append(row("cold_code", "cycles_to_kib", value, "cycles", blocks=blocks, warps=warps, kib=kib))
    for size in (0, 4, 32, 64, 128, 256):
        module.launch("cold_constant", 1, 32, [ctx.words, np.int32(size)])
        marks = ctx.words.read(np.uint32, 49).astype(np.int64)
        steps = np.diff(marks)
        for k in (0, 1, 2, 3, 4, 8, 16, 32, 47):
            rows.append(row("cold_constant", "cycles_of_step", int(steps[k]), "cycles", stride=size, step=k))
    return rows


def fetch(ctx: Context) -> list[Row]:
    """Instructions per cycle per sub-core of FFMA loops by body and by warps: what instruction fetch can feed."""
    rows: list[Row] = []
    for kernel in sorted(kernels_of(ctx, "fetch"), key=lambda k: int(k.split("_")[1])):
        body = int(kernel.split("_")[1])
        low = max(4, 4096 // body)
        for warps in (1, 4, 8, 12, 16, 20, 24, 28, 32):
            per = ctx.slope("fetch", kernel, warps, (np.float32(0.999), np.float32(0.001)),
                            low, 3 * low)  # fmt: skip
            rows.append(row("fetch", "ipc_per_subcore", body * warps / per / min(warps, 4), "1/cycle", warps=warps,
                            body=body))  # fmt: skip
    return rows


def bank(ctx: Context) -> list[Row]:
    """Patched machine code (patch.py): register banks, reuse flags, stall counts; cycles per instruction."""
    rows: list[Row] = []
    for path in sorted((ctx.cubins / "bank").glob(f"*.sm_{ctx.arch}.cubin")):
        variant = path.name.split(".")[0]
        ctx.modules["bank"] = ctx.device.load(path.read_bytes())
        for warps in (1, 4, 8, 16):
            per = ctx.slope("bank", "bank", warps, (np.float32(0.999), np.float32(0.001)), 16, 48)
            rows.append(row(variant, "cycles_per_instruction_per_warp", per / 128, "cycles", warps=warps))
    return rows


FRACTIONS = ((0, 0), (0x7FFFFF, 0), (0, 0x7FFFFF), (0x7FFFFF, 0x7FFFFF), (0x123456, 0x654321), (1, 0))
"""Fractions of dividend and divisor."""


def divisions(ctx: Context) -> list[Row]:
    """Cycles of float divisions by the exponents of both numbers, (fractions, 256, 256) beside the rows: which take the slow path."""
    rows: list[Row] = []
    taken = []
    for a, b in FRACTIONS if not ctx.model else FRACTIONS[:1]:
        for _ in range(2):
            ctx.module("alu").launch("divisions", 132, 128, [ctx.words, np.uint32(a), np.uint32(b)])
        taken.append(ctx.words.read(np.uint32, 65536).reshape(256, 256).astype(np.uint16))
        rows.append(row("divisions", "median", float(np.median(taken[-1])), "cycles", a=hex(a), b=hex(b)))
    ctx.arrays["divisions"] = np.stack(taken)
    return rows
