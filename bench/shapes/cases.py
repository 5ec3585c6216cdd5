"""The cases of the shapes, with their references in NumPy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.holdout.case import Array, Case, Sized, sized
from bench.validation.case import launch as launch_in

Rng = np.random.Generator
F16, F32, F64, I16, I32, U8, U32 = np.float16, np.float32, np.float64, np.int16, np.int32, np.uint8, np.uint32
launch = partial(launch_in, folder=Path(__file__).parent)


def row_kernel(rng: Rng, kernel: str, blocks: int, threads: int, columns: int) -> Case:
    """A kernel whose threads walk a row each."""
    rows = blocks * threads
    end = (I32(rows), I32(columns))
    a = rng.standard_normal((rows, columns)).astype(F32)
    if kernel == "row_sums":
        args: tuple[Any, ...] = (np.zeros(rows, F32), a.ravel(), *end)
        expected: dict[int, Array] = {0: a.astype(F64).sum(axis=1)}
    elif kernel == "row_softmax":
        e = np.exp(a.astype(F64) - a.max(axis=1, keepdims=True))
        args = (np.zeros(a.size, F32), a.ravel(), *end)
        expected = {0: (e / e.sum(axis=1, keepdims=True)).ravel()}
    elif kernel == "row_normalise":
        weight = rng.standard_normal(columns).astype(F32)
        wide = a.astype(F64)
        scale = (wide.var(axis=1, keepdims=True) + 1e-5) ** -0.5
        args = (np.zeros(a.size, F32), a.ravel(), weight, *end)
        expected = {0: ((wide - wide.mean(axis=1, keepdims=True)) * scale * weight).ravel()}
    elif kernel == "row_dots":
        b = rng.standard_normal((rows, columns)).astype(F32)
        args = (np.zeros(rows, F32), a.ravel(), b.ravel(), *end)
        expected = {0: (a.astype(F64) * b).sum(axis=1)}
    elif kernel == "row_scale_half":
        half = a.astype(F16)
        args = (np.zeros(a.size, F16), half.ravel(), F32(0.5), *end)
        expected = {0: (half * F16(0.5)).ravel()}
    elif kernel == "row_running_short":
        short = rng.integers(-30, 30, (rows, columns), dtype=I16)
        args = (short.ravel(), *end)
        expected = {0: np.cumsum(short, axis=1).astype(I16).ravel()}
    else:
        words = rng.integers(0, 1 << 32, (rows, columns), dtype=U32)
        args = (np.zeros(words.size, U32), words.ravel(), *end)
        expected = {0: words.ravel() ^ U32(0x5A5A5A5A)}
    exact = kernel in ("row_scale_half", "row_running_short", "row_copy_words")
    near = {} if exact else {"rtol": 2e-3, "atol": 2e-3}
    return launch("rows", kernel, blocks, threads, args, expected, **near)


def loop_kernel(rng: Rng, kernel: str, blocks: int, threads: int, mib: int) -> Case:
    """A grid-stride loop over arrays of the given size in MiB."""
    words = mib << 18
    a = rng.integers(0, 1 << 30, words, dtype=U32)
    n = I32(words // 4) if kernel.endswith("4") else I32(words)
    each = blocks * threads
    if kernel.startswith("copy"):
        args: tuple[Any, ...] = (np.zeros(words, F32), a.view(F32), n)
        expected: dict[int, Array] = {0: a.view(F32)}
    elif kernel == "add_loop":
        x, y = a.astype(F32), a[::-1].astype(F32)
        args, expected = (np.zeros(words, F32), x, y, n), {0: x + y}
    elif kernel == "fill_loop":
        args, expected = (np.zeros(words, F32), F32(2.5), n), {0: np.full(words, 2.5, F32)}
    else:
        folded = np.bitwise_xor.reduce(a.reshape(-1, 4), axis=1) if kernel.endswith("4") else a
        padded = np.append(folded, np.zeros(-folded.size % each, U32)).reshape(-1, each)
        args, expected = (np.zeros(each, U32), a, n), {0: np.bitwise_xor.reduce(padded, axis=0)}
    return launch("streams", kernel, blocks, threads, args, expected)


def each_kernel(rng: Rng, kernel: str, blocks: int, threads: int) -> Case:
    """One element per thread."""
    n = blocks * threads - threads // 3
    a, b, c = rng.standard_normal((3, n)).astype(F32)
    near: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}
    if kernel == "scale_each":
        args: tuple[Any, ...] = (np.zeros(n, F32), a, F32(1.5), I32(n))
        expected: dict[int, Array] = {0: a * F32(1.5)}
    elif kernel == "add_each":
        args, expected = (np.zeros(n, F32), a, b, I32(n)), {0: a + b}
    elif kernel == "bias_each":
        args, expected = (a.copy(), b[:100].copy(), I32(100), I32(n)), {0: a + b[np.arange(n) % 100]}
    elif kernel == "gelu_each":
        x = a.astype(F64)
        args = (np.zeros(n, F32), a, I32(n))
        expected = {0: 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))}
        near = {"rtol": 1e-4, "atol": 1e-5}
    elif kernel == "clamp_bytes":
        raw = rng.integers(0, 256, n, dtype=U8)
        args, expected = (np.zeros(n, U8), raw, I32(20), I32(220), I32(n)), {0: np.clip(raw, 20, 220)}
    elif kernel == "half_each":
        half = a.astype(F16)
        args, expected = (np.zeros(n, F16), half, F32(0.5), I32(n)), {0: half * F16(0.5)}
    else:
        step = F32(0.9) * b - F32(0.01) * c
        args, expected = (a.copy(), b.copy(), c, F32(0.01), F32(0.9), I32(n)), {0: a + step, 1: step}
    return launch("streams", kernel, blocks, threads, args, expected, **near)


def column_kernel(rng: Rng, kernel: str, rows: int, columns: int, threads: int) -> Case:
    """Sums down the columns of a matrix."""
    dtype = F64 if kernel.endswith("double") else F32
    a = rng.standard_normal((rows, columns)).astype(dtype)
    total = a.astype(F64).sum(axis=0)
    blocks = -(-columns // threads) if kernel == "column_each" else columns
    expected = {0: (total / rows if kernel.endswith("double") else total).astype(dtype)}
    args = (np.zeros(columns, dtype), a.ravel(), I32(rows), I32(columns))
    return launch("streams", kernel, blocks, threads, args, expected, rtol=1e-4, atol=2e-3)


def permute_kernel(rng: Rng, kernel: str, extents: tuple[int, ...], order: tuple[int, ...], threads: int = 256) -> Case:
    """``out = a.transpose(order)`` of four dimensions."""
    dtype = F16 if kernel.endswith("half") else F32
    a = rng.standard_normal(extents).astype(dtype)
    out = np.ascontiguousarray(a.transpose(order))
    steps = [int(np.prod(extents[k + 1 :])) for k in range(4)]
    if kernel == "permute_scatter":
        to = [int(np.prod(out.shape[k + 1 :])) for k in range(4)]
        shape, strides = extents, [to[order.index(k)] for k in range(4)]
    else:
        shape, strides = out.shape, [steps[k] for k in order]
    args = (np.zeros(a.size, dtype), a.ravel(), *(I32(v) for v in (*shape[1:], *strides, a.size)))
    return launch("streams", kernel, -(-a.size // threads), threads, args, {0: out.ravel()})


def long_kernel(rng: Rng, kernel: str, blocks: int, threads: int, turns: int) -> Case:
    """Straight-line bodies of special functions and, but for ``plain``, an array of the thread's own."""
    from math import erf

    n = blocks * threads
    a = rng.uniform(-1, 1, n).astype(F32)
    x = a.astype(F64)
    count = int(kernel.split("_")[1])
    lanes = np.arange(n)
    table = np.stack([x * k for k in range(16)], axis=1)
    y = x * 0.5
    for turn in range(turns):
        if kernel.startswith("plain"):
            z = x + y
            for k in range(1, count + 1):
                z = (z * (0.9 + 0.0001 * k) + np.sin(z + y)) * 0.5 + z / (2.0 + k)
            x = z
            continue
        at = lanes + turn
        for k in range(count):
            s = np.sin(x * (1 + 0.01 * k)) + (np.abs(x) + 0.5) ** (0.25 + 0.01 * k)
            table[lanes, (at + k) & 15] = s
            s = s + np.exp(-np.abs(s)) * np.log(1.5 + np.abs(x)) + table[lanes, (at * 3 + k) & 15]
            x = s * 0.25 + np.vectorize(erf)(s) * 0.125
    out = x if kernel.startswith("plain") else x + table[lanes, lanes & 15]
    return launch("long", kernel, blocks, threads, (np.zeros(n, F32), a, I32(turns)), {0: out}, rtol=5e-3, atol=5e-3)


def _table() -> dict[str, Sized]:
    """All cases by name; the small ones are for checks."""
    found: dict[str, Sized] = {}
    few = {"blocks": 1, "threads": 32}
    for kernel, blocks, threads, columns in ROWS:
        made = partial(row_kernel, kernel=kernel)
        found[f"{kernel}_{blocks}x{threads}_{columns}"] = sized(
            made, {**few, "columns": 40}, blocks=blocks, threads=threads, columns=columns
        )
    for kernel, blocks, threads, mib in LOOPS:
        made = partial(loop_kernel, kernel=kernel)
        found[f"{kernel}_{blocks}x{threads}_{mib}m"] = sized(
            made, {"blocks": 4, "mib": 1}, blocks=blocks, threads=threads, mib=mib
        )
    for kernel, blocks, threads in EACH:
        made = partial(each_kernel, kernel=kernel)
        found[f"{kernel}_{blocks}x{threads}"] = sized(made, {"blocks": 4}, blocks=blocks, threads=threads)
    for kernel, rows, columns, threads in COLUMNS:
        made = partial(column_kernel, kernel=kernel)
        found[f"{kernel}_{rows}x{columns}_{threads}"] = sized(
            made, {"rows": 70, "columns": 4}, rows=rows, columns=columns, threads=threads
        )
    for kernel, extents, order in PERMUTED:
        made = partial(permute_kernel, kernel=kernel)
        name = f"{kernel}_{'x'.join(map(str, extents))}_{''.join(map(str, order))}"
        found[name] = sized(made, {"extents": (3, 4, 5, 6)}, extents=extents, order=order)
    for kernel, blocks, threads, turns in LONG:
        made = partial(long_kernel, kernel=kernel)
        found[f"{kernel}_{blocks}x{threads}_{turns}"] = sized(
            made, few | {"turns": 1}, blocks=blocks, threads=threads, turns=turns
        )
    return found


ROWS = (
    ("row_sums", 1, 32, 768), ("row_sums", 1, 128, 1024), ("row_sums", 1, 256, 2000), ("row_sums", 2, 256, 1000),
    ("row_sums", 4, 256, 4096), ("row_sums", 1, 1024, 800),
    ("row_softmax", 1, 64, 1000), ("row_softmax", 1, 256, 1024), ("row_softmax", 2, 128, 2048), ("row_softmax", 4, 64, 768),
    ("row_softmax", 1, 512, 900),
    ("row_scale_half", 1, 128, 2000), ("row_scale_half", 4, 256, 1536), ("row_scale_half", 1, 512, 1600), ("row_scale_half", 2, 64, 4096),
    ("row_running_short", 1, 32, 3000), ("row_running_short", 1, 256, 1600), ("row_running_short", 3, 512, 1600), ("row_running_short", 4, 128, 2000),
    ("row_copy_words", 1, 64, 768), ("row_copy_words", 1, 256, 800), ("row_copy_words", 2, 512, 1000), ("row_copy_words", 4, 256, 1024),
    ("row_normalise", 1, 256, 768), ("row_normalise", 2, 256, 1024), ("row_normalise", 4, 128, 1000), ("row_normalise", 1, 768, 770),
    ("row_dots", 1, 128, 1000), ("row_dots", 1, 1024, 768), ("row_dots", 4, 512, 1000),
)  # fmt: skip
LOOPS = (
    ("copy_loop", 8, 256, 2), ("copy_loop", 16, 1024, 8), ("copy_loop", 33, 512, 16), ("copy_loop", 66, 512, 64),
    ("copy_loop", 66, 1024, 32), ("copy_loop", 132, 128, 16), ("copy_loop", 132, 512, 64), ("copy_loop", 132, 1024, 48), ("copy_loop", 264, 1024, 64),
    ("copy_loop4", 8, 512, 8), ("copy_loop4", 33, 256, 16), ("copy_loop4", 66, 512, 64), ("copy_loop4", 132, 256, 32), ("copy_loop4", 132, 1024, 64),
    ("add_loop", 33, 1024, 16), ("add_loop", 66, 256, 16), ("add_loop", 132, 512, 32), ("add_loop", 132, 1024, 40),
    ("fill_loop", 16, 512, 8), ("fill_loop", 66, 512, 32), ("fill_loop", 132, 1024, 64),
    ("read_loop", 8, 1024, 8), ("read_loop", 33, 1024, 32), ("read_loop", 66, 512, 32), ("read_loop", 132, 1024, 128), ("read_loop", 132, 256, 32),
    ("read_loop", 264, 1024, 64), ("read_loop4", 16, 256, 8), ("read_loop4", 66, 1024, 96), ("read_loop4", 132, 1024, 128), ("read_loop4", 132, 256, 64),
)  # fmt: skip
EACH = (
    ("scale_each", 12, 256), ("scale_each", 64, 128), ("scale_each", 200, 256), ("scale_each", 400, 512), ("scale_each", 40, 1024),
    ("add_each", 16, 256), ("add_each", 100, 256), ("add_each", 300, 256), ("add_each", 400, 128),
    ("bias_each", 12, 128), ("bias_each", 132, 256), ("bias_each", 360, 256),
    ("gelu_each", 24, 256), ("gelu_each", 150, 512), ("gelu_each", 300, 128),
    ("clamp_bytes", 32, 256), ("clamp_bytes", 256, 256), ("clamp_bytes", 400, 256),
    ("half_each", 20, 512), ("half_each", 120, 256), ("half_each", 400, 256),
    ("momentum_each", 12, 512), ("momentum_each", 80, 256), ("momentum_each", 256, 256), ("momentum_each", 400, 64),
)  # fmt: skip
COLUMNS = (
    ("column_sums", 1024, 64, 128), ("column_sums", 2048, 256, 256), ("column_sums", 1024, 512, 256), ("column_sums", 4096, 128, 512),
    ("column_sums", 512, 1024, 128), ("column_sums", 3000, 300, 256), ("column_sums", 8192, 64, 1024), ("column_sums", 1000, 2000, 256),
    ("column_means_double", 1024, 128, 256), ("column_means_double", 2048, 300, 128), ("column_means_double", 4000, 64, 256),
    ("column_each", 512, 1024, 128), ("column_each", 1024, 4096, 256), ("column_each", 2000, 256, 64),
)  # fmt: skip
PERMUTED = (
    ("permute_gather", (16, 32, 24, 40), (0, 2, 1, 3)), ("permute_gather", (8, 16, 64, 64), (0, 1, 3, 2)), ("permute_gather", (16, 32, 24, 40), (3, 2, 1, 0)),
    ("permute_gather", (32, 8, 28, 28), (0, 2, 3, 1)), ("permute_gather", (4, 512, 12, 64), (0, 2, 1, 3)), ("permute_gather", (20, 30, 40, 50), (2, 0, 3, 1)),
    ("permute_gather", (8, 64, 56, 56), (0, 2, 3, 1)), ("permute_gather", (64, 48, 20, 10), (1, 0, 3, 2)),
    ("permute_scatter", (16, 32, 24, 40), (0, 2, 1, 3)), ("permute_scatter", (16, 32, 24, 40), (3, 2, 1, 0)), ("permute_scatter", (8, 16, 64, 64), (0, 1, 3, 2)),
    ("permute_scatter", (8, 56, 56, 64), (0, 3, 1, 2)), ("permute_scatter", (20, 30, 40, 50), (2, 0, 3, 1)),
    ("permute_half", (16, 64, 28, 28), (0, 2, 3, 1)), ("permute_half", (4, 512, 16, 64), (0, 2, 1, 3)), ("permute_half", (20, 30, 40, 50), (3, 1, 2, 0)),
    ("permute_half", (8, 28, 28, 128), (0, 3, 1, 2)),
)  # fmt: skip
LONG = (
    ("long_4", 1, 128, 4), ("long_16", 1, 64, 4), ("long_16", 2, 256, 2), ("long_40", 1, 32, 1), ("long_40", 2, 128, 2), ("long_40", 1, 256, 4),
    ("long_80", 1, 32, 1), ("long_80", 1, 128, 1), ("long_80", 2, 256, 2), ("plain_100", 1, 128, 4), ("plain_190", 1, 32, 1), ("plain_190", 2, 256, 2),
)  # fmt: skip
CASES = _table()
