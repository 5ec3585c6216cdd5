"""Dense products, tensor cores, layers of neural networks."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np

from bench.validation.case import Array, Builder, Case, launch

I32, F16, F32, F64 = np.int32, np.float16, np.float32, np.float64
Rng = np.random.Generator


def gemm(rng: Rng, kernel: str, m: int, n: int, depth: int) -> Case:
    tile, block = {
        "sgemm_naive": (16, (16, 16)), "sgemm_tiled": (16, (16, 16)), "dgemm_tiled": (16, (16, 16)),
        "sgemm_registers": (64, (256,)), "sgemm_blocked": (128, (256,)),
    }[kernel]  # fmt: skip
    kind = F64 if kernel.startswith("d") else F32
    a, b = rng.standard_normal((m, depth)).astype(kind), rng.standard_normal((depth, n)).astype(kind)
    want = a.astype(F64) @ b.astype(F64)
    args = (np.zeros(m * n, kind), a.ravel(), b.ravel(), I32(n), I32(depth))
    exact = kind is F64
    return launch(
        "matrices", kernel, (n // tile, m // tile), block, args, {0: want.astype(kind).ravel()},
        rtol=1e-10 if exact else 1e-4, atol=1e-10 if exact else 1e-3,
    )  # fmt: skip


def igemm_bytes(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = rng.integers(-128, 128, (m, depth), dtype=np.int8), rng.integers(-128, 128, (n, depth), dtype=np.int8)
    want = a.astype(F64) @ b.astype(F64).T
    args = (np.zeros(m * n, I32), a.view(I32).ravel(), b.view(I32).ravel(), I32(n), I32(depth // 4))
    return launch("matrices", "igemm_bytes", (n // 32, m // 32), (16, 16), args, {0: want.astype(I32).ravel()})


def gemm_batch(rng: Rng, count: int) -> Case:
    a, b = (rng.standard_normal((count, 16, 16)).astype(F32) for _ in range(2))
    want = (a.astype(F64) @ b.astype(F64)).astype(F32)
    args = (np.zeros(a.size, F32), a.ravel(), b.ravel())
    return launch("matrices", "gemm_batch", count, (16, 16), args, {0: want.ravel()}, rtol=1e-4, atol=1e-4)


def gemv_rows(rng: Rng, rows: int, columns: int) -> Case:
    a, x = rng.standard_normal((rows, columns), F32), rng.standard_normal(columns, F32)
    args = (np.zeros(rows, F32), a.ravel(), x, I32(rows), I32(columns))
    want = (a.astype(F64) @ x.astype(F64)).astype(F32)
    return launch("matrices", "gemv_rows", -(-rows // 8), 256, args, {0: want}, rtol=1e-4, atol=1e-3)


def gemv_columns(rng: Rng, rows: int, columns: int) -> Case:
    a, x = rng.standard_normal((rows, columns), F32), rng.standard_normal(rows, F32)
    args = (np.zeros(columns, F32), a.ravel(), x, I32(rows), I32(columns))
    want = (x.astype(F64) @ a.astype(F64)).astype(F32)
    grid = (columns // 128, -(-rows // 64))
    return launch("matrices", "gemv_columns", grid, 128, args, {0: want}, rtol=1e-4, atol=1e-3)


def rank_one(rng: Rng, n: int) -> Case:
    a, x, y = rng.standard_normal((n, n)), rng.standard_normal(n), rng.standard_normal(n)
    want = a + np.outer(x, y)
    args = (a.ravel(), x, y, I32(n))
    return launch("matrices", "rank_one", (-(-n // 128), n), 128, args, {0: want.ravel()}, rtol=1e-12, atol=1e-12)


def hgemm_fragments(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = rng.standard_normal((m, depth)).astype(F16), rng.standard_normal((depth, n)).astype(F16)
    want = (a.astype(F32) @ b.astype(F32)).ravel()
    args = (np.zeros(m * n, F32), a.ravel(), b.ravel(), I32(n), I32(depth))
    return launch("tensors", "hgemm_fragments", (n // 64, m // 64), 128, args, {0: want}, rtol=1e-3, atol=1e-2)


def bgemm_pipeline(rng: Rng, m: int, n: int, depth: int) -> Case:
    a = rng.standard_normal((m, depth)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((n, depth)).astype(ml_dtypes.bfloat16)
    want = (a.astype(F32) @ b.astype(F32).T).ravel()
    args = (np.zeros(m * n, F32), a.view(np.uint16).ravel(), b.view(np.uint16).ravel(), I32(n), I32(depth))
    return launch("tensors", "bgemm_pipeline", (n // 64, m // 64), 128, args, {0: want}, rtol=1e-3, atol=1e-2)


def tensor_chains(rng: Rng, grid: int, threads: int, rounds: int) -> Case:
    column = np.where(np.arange(32) % 2, 1.0, 0.5)  # B's value in each lane; A is all ones
    # Lane l of B holds column l / 4, rows 2 (l % 4) and on: four lanes make a column of 16 rows, four rows each.
    by_column = np.array([4.0 * column[4 * j : 4 * j + 4].sum() for j in range(8)])
    lane = np.array([2 * (by_column[k % 4 * 2] + by_column[k % 4 * 2 + 1]) for k in range(32)])
    want = np.tile(4 * rounds * lane, grid * threads // 32).astype(F32)
    return launch("tensors", "tensor_chains", grid, threads, (np.zeros(grid * threads, F32), I32(rounds)), {0: want})


def softmax(x: Array) -> Array:
    e = np.exp(x.astype(F64) - x.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(F32)


def softmax_block(rng: Rng, rows: int, columns: int) -> Case:
    x = rng.standard_normal((rows, columns), F32)
    args = (np.zeros(x.size, F32), x.ravel(), I32(columns))
    return launch("layers", "softmax_block", rows, 256, args, {0: softmax(x).ravel()}, rtol=1e-4, atol=1e-7)


def softmax_warp(rng: Rng, rows: int) -> Case:
    x = rng.standard_normal((rows, 128), F32)
    args = (np.zeros(x.size, F32), x.ravel(), I32(rows))
    return launch("layers", "softmax_warp", -(-rows // 8), 256, args, {0: softmax(x).ravel()}, rtol=1e-4, atol=1e-7)


def layer_norm_block(rng: Rng, rows: int, columns: int) -> Case:
    x, gain, shift = rng.standard_normal((rows, columns), F32), rng.random(columns, F32), rng.random(columns, F32)
    f = x.astype(F64)
    d = f - f.mean(axis=1, keepdims=True)
    want = d / np.sqrt((d * d).mean(axis=1, keepdims=True) + 1e-5) * gain + shift
    args = (np.zeros(x.size, F32), x.ravel(), gain, shift, I32(columns))
    return launch("layers", "layer_norm_block", rows, 256, args, {0: want.astype(F32).ravel()}, rtol=1e-4, atol=1e-5)


def rms_norm_half(rng: Rng, rows: int, columns: int) -> Case:
    x, gain = rng.standard_normal((rows, columns)).astype(F16), rng.random(columns).astype(F16)
    f = x.astype(F64)
    want = (f / np.sqrt((f * f).mean(axis=1, keepdims=True) + 1e-5) * gain.astype(F64)).astype(F16)
    args = (np.zeros(x.size, F16), x.ravel(), gain, I32(columns // 2))
    return launch("layers", "rms_norm_half", rows, 256, args, {0: want.ravel()}, rtol=2e-3, atol=1e-3)


def attention_tiles(rng: Rng, heads: int, length: int) -> Case:
    q, k, v = (rng.standard_normal((heads, length, 32)).astype(F32) for _ in range(3))
    weights = softmax(0.17677669 * (q.astype(F64) @ k.astype(F64).transpose(0, 2, 1)))
    want = (weights @ v.astype(F64)).astype(F32)
    args = (np.zeros(q.size, F32), q.ravel(), k.ravel(), v.ravel(), I32(length))
    grid = (length // 128, heads)
    return launch("layers", "attention_tiles", grid, 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-4)


def convolve_channels(rng: Rng, inputs: int, outputs: int, width: int, height: int) -> Case:
    src, w = rng.standard_normal((inputs, height, width), F32), rng.standard_normal((outputs, inputs, 3, 3), F32)
    padded = np.pad(src.astype(F64), ((0, 0), (1, 1), (1, 1)))
    want = np.zeros((outputs, height, width))
    for dy in range(3):
        for dx in range(3):
            want += np.tensordot(w[:, :, dy, dx].astype(F64), padded[:, dy : dy + height, dx : dx + width], 1)
    args = (np.zeros(want.size, F32), src.ravel(), w.ravel(), I32(inputs), I32(width), I32(height))
    return launch(
        "layers", "convolve_channels", (width // 32, height // 8, outputs), (32, 8), args,
        {0: np.maximum(want, 0).astype(F32).ravel()}, rtol=1e-3, atol=1e-3, shared_bytes=inputs * 36,
    )  # fmt: skip


def convolve_depthwise(rng: Rng, channels: int, width: int, height: int) -> Case:
    src, w = rng.standard_normal((channels, height, width), F32), rng.standard_normal((channels, 5, 5), F32)
    padded = np.pad(src.astype(F64), ((0, 0), (2, 2), (2, 2)), mode="edge")
    want = np.zeros(src.shape)
    for dy in range(5):
        for dx in range(5):
            want += w[:, dy, dx, None, None].astype(F64) * padded[:, dy : dy + height, dx : dx + width]
    args = (np.zeros(src.size, F32), src.ravel(), w.ravel(), I32(width), I32(height))
    grid = (width // 32, height // 8, channels)
    return launch(
        "layers", "convolve_depthwise", grid, (32, 8), args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-3
    )


def pool_max(rng: Rng, planes: int, width: int, height: int) -> Case:
    src = rng.standard_normal((planes, height, width), F32)
    want = src.reshape(planes, height // 2, 2, width // 2, 2).max(axis=(2, 4)).ravel()
    args = (np.zeros(want.size, F32), src.ravel(), I32(width), I32(want.size))
    return launch("layers", "pool_max", -(-want.size // 256), 256, args, {0: want})


def pool_mean_channel(rng: Rng, channels: int, pixels: int) -> Case:
    src = rng.random((channels, pixels), F32)
    want = src.astype(F64).mean(axis=1).astype(F32)
    args = (np.zeros(channels, F32), src.ravel(), I32(pixels))
    return launch("layers", "pool_mean_channel", channels, 128, args, {0: want}, rtol=1e-4)


def bias_gelu_half(rng: Rng, rows: int, columns: int) -> Case:
    x, bias = rng.standard_normal((rows, columns)).astype(F16), rng.standard_normal(columns).astype(F16)
    v = (x + bias).astype(F64)
    want = (0.5 * v * (1 + np.tanh(0.79788456 * (v + 0.044715 * v**3)))).astype(F16)
    args = (x.ravel(), bias, I32(columns // 2), I32(x.size // 2))
    return launch("layers", "bias_gelu_half", x.size // 512, 256, args, {0: want.ravel()}, rtol=4e-3, atol=2e-3)


def embedding_rows(rng: Rng, vocabulary: int, count: int, words: int) -> Case:
    table = rng.integers(0, 1 << 30, (vocabulary, words * 4), dtype=np.uint32)
    tokens = rng.integers(0, vocabulary, count, dtype=I32)
    args = (np.zeros(count * words * 4, np.uint32), table.ravel(), tokens, I32(count), I32(words))
    return launch("layers", "embedding_rows", -(-count // 4), 128, args, {0: table[tokens].ravel()})


def cross_entropy_rows(rng: Rng, rows: int, columns: int) -> Case:
    x, labels = rng.standard_normal((rows, columns), F32), rng.integers(0, columns, rows, dtype=I32)
    f = x.astype(F64)
    want = np.log(np.exp(f).sum(axis=1)) - f[np.arange(rows), labels]
    args = (np.zeros(rows, F32), x.ravel(), labels, I32(columns))
    return launch("layers", "cross_entropy_rows", rows, 512, args, {0: want.astype(F32)}, rtol=1e-4, atol=1e-4)


CASES: dict[str, Builder] = {
    "sgemm_naive": partial(gemm, kernel="sgemm_naive", m=256, n=256, depth=160),
    "sgemm_tiled": partial(gemm, kernel="sgemm_tiled", m=320, n=320, depth=256),
    "sgemm_registers": partial(gemm, kernel="sgemm_registers", m=768, n=768, depth=128),
    "sgemm_blocked": partial(gemm, kernel="sgemm_blocked", m=1536, n=1408, depth=64),
    "sgemm_blocked_deep": partial(gemm, kernel="sgemm_blocked", m=256, n=256, depth=512),
    "dgemm_tiled": partial(gemm, kernel="dgemm_tiled", m=320, n=320, depth=128),
    "igemm_bytes": partial(igemm_bytes, m=512, n=512, depth=512),
    "gemm_batch": partial(gemm_batch, count=2000),
    "gemv_rows": partial(gemv_rows, rows=4096, columns=2048),
    "gemv_columns": partial(gemv_columns, rows=2048, columns=2048),
    "rank_one": partial(rank_one, n=1200),
    "hgemm_fragments": partial(hgemm_fragments, m=512, n=512, depth=512),
    "bgemm_pipeline": partial(bgemm_pipeline, m=768, n=768, depth=512),
    "bgemm_pipeline_full": partial(bgemm_pipeline, m=2048, n=1536, depth=128),
    "tensor_chains": partial(tensor_chains, grid=264, threads=256, rounds=100),
    "softmax_block": partial(softmax_block, rows=1500, columns=1000),
    "softmax_warp": partial(softmax_warp, rows=16000),
    "layer_norm_block": partial(layer_norm_block, rows=2048, columns=768),
    "rms_norm_half": partial(rms_norm_half, rows=1024, columns=4096),
    "attention_tiles": partial(attention_tiles, heads=32, length=256),
    "convolve_channels": partial(convolve_channels, inputs=16, outputs=16, width=64, height=64),
    "convolve_depthwise": partial(convolve_depthwise, channels=64, width=64, height=56),
    "pool_max": partial(pool_max, planes=64, width=256, height=128),
    "pool_mean_channel": partial(pool_mean_channel, channels=512, pixels=3136),
    "bias_gelu_half": partial(bias_gelu_half, rows=512, columns=3072),
    "embedding_rows": partial(embedding_rows, vocabulary=20000, count=8192, words=96),
    "cross_entropy_rows": partial(cross_entropy_rows, rows=300, columns=10000),
}
