"""Serving and training: split decoding, experts, codes, recurrences, selections, adapters, boxes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from bench.holdout.third.case import Array, Case, Outputs, Rng, Sized, launch, mixed, near, normal, sized

I32, F16, F32, F64, U8, U16, U32, U64 = (
    *(np.int32, np.float16, np.float32, np.float64),
    *(np.uint8, np.uint16, np.uint32, np.uint64),
)
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def attention_parts(q: Array, k: Array, v: Array, each: int) -> tuple[Array, Array, Array]:
    """By split and query head: sums of weighted values, largest logits and sums of weights."""
    splits, heads = -(-k.shape[0] // each), q.shape[0]
    out, tops, sums = np.zeros((splits, heads, 128)), np.zeros((splits, heads)), np.zeros((splits, heads))
    for s in range(splits):
        part = slice(s * each, (s + 1) * each)
        logits = np.einsum("hd,khd->hk", q.astype(F64), np.repeat(k[part].astype(F64), 4, axis=1)) / np.sqrt(128)
        tops[s] = logits.max(axis=1)
        e = np.exp(logits - tops[s][:, None])
        sums[s] = e.sum(axis=1)
        out[s] = np.einsum("hk,khd->hd", e, np.repeat(v[part].astype(F64), 4, axis=1))
    return out, tops, sums


def decode_split(rng: Rng, heads: int, length: int, each: int) -> Case:
    q, k, v = (normal(rng, s, F16) for s in ((heads * 4, 128), (length, heads, 128), (length, heads, 128)))
    out, tops, sums = attention_parts(q, k, v, each)
    want = np.concatenate([out, tops[..., None], sums[..., None], np.zeros((*sums.shape, 2))], axis=2).astype(F32)
    args = (np.zeros(want.size, F32), q.ravel(), k.ravel(), v.ravel(), I32(length), I32(each))
    return launch("serving", "decode_split", (want.shape[0], heads), 128, args, {0: want.ravel()}, rtol=2e-3, atol=2e-3)


def combine_splits(rng: Rng, heads: int, splits: int) -> Case:
    parts = normal(rng, (splits, heads, 132))
    parts[..., 129] = 1 + rng.random((splits, heads))
    scale = np.exp(parts[..., 128].astype(F64) - parts[..., 128].max(axis=0))
    want = (scale[..., None] * parts[..., :128]).sum(axis=0) / (scale * parts[..., 129]).sum(axis=0)[:, None]
    args = (np.zeros(want.size, F32), parts.ravel(), I32(splits), I32(heads))
    return launch("serving", "combine_splits", heads, 128, args, {0: want.astype(F32).ravel()}, rtol=1e-4, atol=1e-5)


def grouped_product(rng: Rng, tokens: int, experts: int, n: int, depth: int) -> Case:
    x, w = normal(rng, (tokens, depth), F16), normal(rng, (experts, depth, n), F16)
    chosen = np.minimum(rng.geometric(min(0.7, 2.2 / experts), tokens) - 1, experts - 1)
    rows, expert = [], []
    for e in range(experts):
        mine = np.flatnonzero(chosen == e)
        for at in range(0, mine.size, 32):
            rows.append(np.pad(mine[at : at + 32], (0, max(0, at + 32 - mine.size)), constant_values=-1))
            expert.append(e)
    want = np.zeros((tokens, n), F32)
    for e in range(experts):
        want[chosen == e] = x[chosen == e].astype(F32) @ w[e].astype(F32)
    tiles = np.array(rows, I32)
    args = (np.zeros(want.size, F16), x.ravel(), w.ravel(), tiles.ravel(), np.array(expert, I32), I32(n), I32(depth))
    return launch(
        "serving", "grouped_product", (n // 64, len(expert)), 128, args, {0: want.astype(F16).ravel()},
        rtol=4e-3, atol=4e-2,
    )  # fmt: skip


def dequant_codes(rng: Rng, words: int) -> Case:
    codes, levels = rng.integers(0, 1 << 32, words, dtype=U32), np.sort(rng.uniform(-1, 1, 16)).astype(F32)
    scales = rng.random(-(-words // 8), F32)
    nibbles = (codes[:, None] >> (4 * np.arange(8, dtype=U32)) & U32(15)).astype(int)
    want = (levels[nibbles] * np.repeat(scales, 8)[:words, None]).astype(BF16)
    args = (np.zeros(words * 8, U16), codes, scales, levels, I32(words))
    return launch("serving", "dequant_codes", -(-words // 256), 256, args, {0: want.view(U16).ravel()})


def welford_channels(rng: Rng, images: int, channels: int, pixels: int) -> Case:
    src = normal(rng, (images, channels, pixels)) + rng.standard_normal(channels).astype(F32)[:, None]
    mean, variance = src.astype(F64).mean(axis=(0, 2)), src.astype(F64).var(axis=(0, 2))
    args = (np.zeros(channels, F32), np.zeros(channels, F32), src.ravel(), I32(images), I32(channels), I32(pixels))
    expected = {0: mean.astype(F32), 1: variance.astype(F32)}
    return launch("serving", "welford_channels", channels, 256, args, expected, rtol=1e-3, atol=1e-4)


def scatter_gradients(rng: Rng, count: int, rows: int, width: int) -> Case:
    tokens = np.minimum(rng.zipf(1.3, count) - 1, rows - 1).astype(I32)
    gradients = rng.integers(-8, 9, (count, width)).astype(F32)
    want = np.zeros((rows, width), F32)
    np.add.at(want, tokens, gradients)
    args = (np.zeros(want.size, F32), gradients.ravel(), tokens, I32(count), I32(width))
    return launch("serving", "scatter_gradients", -(-count // 8), 256, args, {0: want.ravel()})


def wkv_recurrence(rng: Rng, batch: int, steps: int, channels: int) -> Case:
    decay, bonus = (normal(rng, channels) for _ in range(2))
    k, v = (normal(rng, (batch, steps, channels)) for _ in range(2))
    w, a, b = -np.exp(decay.astype(F64)), np.zeros((batch, channels)), np.zeros((batch, channels))
    top, want = np.full((batch, channels), -1e30), np.zeros(k.shape, F32)
    for s in range(steps):
        key, value = k[:, s].astype(F64), v[:, s].astype(F64)
        most = np.maximum(top, bonus + key)
        e, f = np.exp(top - most), np.exp(bonus + key - most)
        want[:, s] = (e * a + f * value) / (e * b + f)
        most = np.maximum(w + top, key)
        e, f = np.exp(w + top - most), np.exp(key - most)
        a, b, top = e * a + f * value, e * b + f, most
    args = (np.zeros(k.size, F32), decay, bonus, k.ravel(), v.ravel(), I32(steps), I32(channels))
    return launch(
        "serving", "wkv_recurrence", (-(-channels // 128), batch), 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-4
    )


def conv_causal(rng: Rng, channels: int, length: int) -> Case:
    src, taps = normal(rng, (channels, length), BF16), normal(rng, (channels, 4))
    padded = np.pad(src.astype(F32), ((0, 0), (3, 0)))
    y = sum(taps[:, k : k + 1] * padded[:, k : k + length] for k in range(4))
    want = y / (1 + np.exp(-y))
    args = (np.zeros(src.size, U16), src.view(U16).ravel(), taps.ravel(), I32(channels), I32(length))
    grid = (max(1, length // 2048), channels)
    return launch("serving", "conv_causal", grid, 128, args, check=near(0, BF16, want, 1e-2, 1e-3))


def cast_transpose(rng: Rng, width: int, height: int) -> Case:
    src = normal(rng, (height, width), BF16)
    cast = (src.astype(F32) * F32(8)).astype(E4M3).view(U8)
    most = np.abs(src.astype(F32)).max().view(U32)
    args = (
        *(np.zeros(cast.size, U8), np.zeros(cast.size, U8), np.zeros(1, U32), src.view(U16).ravel()),
        *(F32(8), I32(width), I32(height)),
    )
    expected = {0: cast.ravel(), 1: cast.T.ravel(), 2: np.array([most], U32)}
    return launch("serving", "cast_transpose", (width // 64, height // 64), 256, args, expected)


def adam_8bit(rng: Rng, blocks: int) -> Case:
    signed = np.sort(np.concatenate([np.linspace(-1, 1, 128) ** 3, np.linspace(-1, 1, 128)])).astype(F32)
    plain = (np.linspace(0, 1, 256) ** 2).astype(F32)
    w, g = normal(rng, (blocks, 2048)), normal(rng, (blocks, 2048))
    m, v = (rng.integers(0, 256, (blocks, 2048), dtype=U8) for _ in range(2))
    ms, vs = rng.random(blocks, F32) + F32(0.1), rng.random(blocks, F32) + F32(0.1)
    first = 0.9 * signed[m] * ms[:, None] + 0.1 * g
    second = 0.99 * plain[v] * vs[:, None] + 0.01 * g * g
    want = w - 0.001 * first / (np.sqrt(second) + 1e-8)
    tops = np.abs(first).max(axis=1), second.max(axis=1)

    def check(outputs: Outputs) -> None:
        """Moments are the nearest codes, or equally near ones."""
        np.testing.assert_allclose(outputs[0], want.ravel(), rtol=1e-4, atol=1e-4)
        for index, table, moment, top in ((1, signed, first, tops[0]), (2, plain, second, tops[1])):
            np.testing.assert_allclose(outputs[index + 2], top, rtol=1e-5)
            share = moment / top[:, None]
            off = np.abs(table[np.asarray(outputs[index]).reshape(share.shape)] - share)
            places = np.clip(np.searchsorted(table, share), 1, 255)
            best = np.minimum(np.abs(table[places] - share), np.abs(table[places - 1] - share))
            assert (off <= best + 1e-5).all(), f"adam_8bit: codes of argument {index} are not the nearest"

    args = (w.ravel(), m.ravel(), v.ravel(), ms, vs, g.ravel(), signed, plain, F32(0.001))
    return launch("serving", "adam_8bit", blocks, 256, args, check=check)


def radix_select(rng: Rng, rows: int, columns: int, k: int) -> Case:
    src = (rng.integers(0, 1 << 31, (rows, columns), dtype=U32) + rng.integers(0, 9, (rows, 1), dtype=U32)).astype(U32)
    args = (np.zeros(rows, U32), src.ravel(), I32(columns), I32(k))
    return launch("serving", "radix_select", rows, 256, args, {0: np.sort(src, axis=1)[:, -k]})


def gumbel_sample(rng: Rng, rows: int, columns: int) -> Case:
    logits, seed = normal(rng, (rows, columns)), 12345
    u = (mixed(np.arange(rows * columns, dtype=U32) ^ U32(seed)) >> U32(8)) * 5.9604645e-8 + 2.9802322e-8
    score = logits - np.log(-np.log(u.reshape(rows, columns)))

    def check(outputs: Outputs) -> None:
        """The logarithms of two machines may order near equals differently."""
        chosen = np.take_along_axis(score, np.asarray(outputs[0])[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(chosen, score.max(axis=1), atol=1e-4)

    args = (np.zeros(rows, I32), logits.ravel(), I32(columns), U32(seed))
    return launch("serving", "gumbel_sample", rows, 512, args, check=check)


def adapter_shrink(rng: Rng, tokens: int, adapters: int, pairs: int) -> Case:
    x, a = normal(rng, (tokens, pairs * 2), F16), normal(rng, (adapters, 16, pairs * 2), F16)
    chosen = rng.integers(0, adapters, tokens).astype(I32)
    want = np.stack([a[c].astype(F32) @ x[t].astype(F32) for t, c in enumerate(chosen)])
    args = (np.zeros(want.size, F32), x.ravel(), a.ravel(), chosen, I32(pairs))
    return launch("serving", "adapter_shrink", tokens, 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-2)


def overlap_masks(rng: Rng, n: int) -> Case:
    corner, extent = rng.integers(0, 400, (n, 2)), rng.integers(20, 90, (n, 2))
    boxes = np.concatenate([corner, corner + extent], axis=1).astype(F32)
    words = -(-n // 64)
    want = np.zeros((n, words * 64), bool)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for i in range(n):
        w = np.minimum(boxes[i, 2], boxes[:, 2]) - np.maximum(boxes[i, 0], boxes[:, 0])
        h = np.minimum(boxes[i, 3], boxes[:, 3]) - np.maximum(boxes[i, 1], boxes[:, 1])
        both = w * h
        over = (w > 0) & (h > 0) & (both > F32(0.5) * (area[i] + area - both))
        want[i, i + 1 : n] = over[i + 1 :]
    bits = np.packbits(want, axis=1, bitorder="little").view(U64)
    args = (np.zeros(n * words, U64), boxes.ravel(), I32(n), F32(0.5))
    return launch("serving", "overlap_masks", (words, words), 64, args, {0: bits.ravel()})


def region_align(rng: Rng, regions: int, channels: int, width: int, height: int) -> Case:
    features = normal(rng, (channels, height, width))
    corner = rng.random((regions, 2)) * (width / 2, height / 2)
    boxes = np.concatenate([corner, corner + 3 + rng.random((regions, 2)) * (width, height) / 2], axis=1).astype(F32)
    want = np.zeros((regions, channels, 7, 7))
    places = (np.arange(7)[:, None] + np.array([0.25, 0.75])).ravel()
    for r, box in enumerate(boxes.astype(F64)):
        x, y = box[0] + places * (box[2] - box[0]) / 7, box[1] + places * (box[3] - box[1]) / 7
        x0, y0 = np.clip(x.astype(int), 0, width - 2), np.clip(y.astype(int), 0, height - 2)
        fx, fy = x - x0, (y - y0)[:, None]
        top = features[:, y0][:, :, x0] * (1 - fx) + features[:, y0][:, :, x0 + 1] * fx
        low = features[:, y0 + 1][:, :, x0] * (1 - fx) + features[:, y0 + 1][:, :, x0 + 1] * fx
        inside = (y <= height - 1)[:, None] & (x <= width - 1)
        sampled = np.where(inside, top * (1 - fy) + low * fy, 0)
        want[r] = sampled.reshape(channels, 7, 2, 7, 2).mean(axis=(2, 4))
    args = (
        *(np.zeros(want.size, F32), features.ravel(), boxes.ravel(), I32(want.size)),
        *(I32(channels), I32(width), I32(height)),
    )
    return launch(
        "serving", "region_align", -(-want.size // 256), 256, args, {0: want.astype(F32).ravel()},
        rtol=1e-2, atol=1e-3,
    )  # fmt: skip


CASES: dict[str, Sized] = {
    "decode_split": sized(decode_split, {"heads": 1, "length": 100, "each": 64}, heads=8, length=4000, each=512),
    "combine_splits": sized(combine_splits, {"heads": 2, "splits": 3}, heads=512, splits=16),
    "grouped_product": sized(
        grouped_product, {"tokens": 40, "experts": 2, "n": 64, "depth": 64}, tokens=2000, experts=8, n=768, depth=512
    ),
    "dequant_codes": sized(dequant_codes, {"words": 300}, words=1 << 20),
    "dequant_codes_one_block": sized(dequant_codes, {"words": 100}, words=256),
    "welford_channels": sized(
        welford_channels, {"images": 2, "channels": 2, "pixels": 300}, images=8, channels=192, pixels=784
    ),
    "scatter_gradients": sized(
        scatter_gradients, {"count": 40, "rows": 10, "width": 128}, count=8192, rows=5000, width=512
    ),
    "wkv_recurrence": sized(wkv_recurrence, {"batch": 1, "steps": 10}, batch=4, steps=256, channels=960),
    "conv_causal": sized(conv_causal, {"channels": 2, "length": 1600}, channels=400, length=4096),
    "cast_transpose": sized(cast_transpose, {"width": 64, "height": 128}, width=1536, height=1024),
    "adam_8bit": sized(adam_8bit, {"blocks": 1}, blocks=700),
    "radix_select": sized(radix_select, {"rows": 2, "columns": 700}, rows=100, columns=8192, k=50),
    "gumbel_sample": sized(gumbel_sample, {"rows": 2, "columns": 1500}, rows=64, columns=32000),
    "adapter_shrink": sized(adapter_shrink, {"tokens": 2, "pairs": 96}, tokens=300, adapters=12, pairs=2048),
    "overlap_masks": sized(overlap_masks, {"n": 150}, n=3000),
    "region_align": sized(
        region_align, {"regions": 2, "channels": 3, "width": 20, "height": 15}, regions=64, channels=64, width=100,
        height=76,
    ),
}  # fmt: skip
