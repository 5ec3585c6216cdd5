"""Reads, writes and copies of one element a thread, from cold and from warm L2, at sizes from 4 to 256 MiB."""

from __future__ import annotations

import numpy as np

from bench.micro.context import Context, Row, row

WIDTHS = {"read16": 16, "read4": 4, "write16": 16, "write4": 4, "copy16": 16, "copy4": 4, "read_two": 4,
          "scatter_word": 4, "scatter_sector": 4, "gather_word": 4}  # fmt: skip


def mixture(ctx: Context) -> list[Row]:
    """Cycles (1.98 GHz) of one launch, launch overhead included; ``bytes`` is what each array takes."""
    rows: list[Row] = []
    most = (32 if ctx.model else 256) << 20
    source, target = ctx.device.alloc(most), ctx.device.alloc(most)
    other = ctx.device.alloc(most)
    module = ctx.module("mixture")
    for kernel, width in WIDTHS.items():
        for mib in (4, 16, 32) if ctx.model else (4, 8, 16, 24, 32, 64, 128, 256):
            n = (mib << 20) // width
            args = [ctx.words, source, target, source, np.uint32(n)]
            for state in ("cold",) if ctx.model else ("cold", "warm"):
                seconds = []
                for _ in range(1 if ctx.model else 3):
                    if state == "cold" and not ctx.model:
                        module.launch("sweep", 1056, 512, [other, np.uint64(most >> 4)])
                    seconds.append(module.launch(kernel, -(-n // 256), 256, args))
                rows.append(row(kernel, "cycles", min(seconds) * 1.98e9, "cycles", mib=mib, state=state))
    for buffer in (source, target, other):
        buffer.free()
    return rows
