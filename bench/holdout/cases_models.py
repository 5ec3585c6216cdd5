"""Inference and training of language and vision models."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from bench.holdout.case import Array, Case, Outputs, Sized, launch, near, sized

I32, F16, F32, F64, U32, U64, U8 = np.int32, np.float16, np.float32, np.float64, np.uint32, np.uint64, np.uint8
U16, BF16, FP8 = np.uint16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
Rng = np.random.Generator


def normal(rng: Rng, shape: Any, dtype: Any = F32) -> Array:
    return rng.standard_normal(shape, F32).astype(dtype)


def rotary_embed(rng: Rng, tokens: int, heads: int) -> Case:
    x = normal(rng, (tokens, heads, 128), BF16)
    angles = np.arange(2048)[:, None] / 10000 ** (np.arange(64) / 64)
    turns = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(F32)
    at = rng.integers(0, 2048, tokens, dtype=I32)
    c, s = turns[at, None, :, 0], turns[at, None, :, 1]
    a, b = x[..., :64].astype(F32), x[..., 64:].astype(F32)
    want = np.concatenate([a * c - b * s, b * c + a * s], axis=-1)
    args = (x.view(U16).ravel(), turns.ravel(), at, I32(heads))
    return launch("inference", "rotary_embed", tokens, 256, args, check=near(0, BF16, want, 1e-2, 1e-2))


def softmax_online(rng: Rng, rows: int, columns: int) -> Case:
    x = normal(rng, (rows, columns)) * F32(3)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    args = (np.zeros(x.size, F32), x.ravel(), I32(columns // 4))
    want = (e / e.sum(axis=1, keepdims=True)).ravel()
    return launch("inference", "softmax_online", rows, 256, args, {0: want}, rtol=1e-4, atol=1e-8)


def gemv_int4(rng: Rng, rows: int, columns: int) -> Case:
    nibbles = rng.integers(0, 16, (rows, columns // 8, 8), dtype=U32)
    place = np.array([0, 4, 1, 5, 2, 6, 3, 7], U32)  # where element e of a word stands
    words = (nibbles << (4 * place)).sum(axis=2, dtype=U32)
    scales, x = (rng.random((rows, columns // 128)) * 0.1).astype(F16), normal(rng, columns, F16)
    weights = (nibbles.reshape(rows, -1, 128).astype(F32) - 8) * scales[..., None].astype(F32)
    want = weights.reshape(rows, columns) @ x.astype(F32)
    args = (np.zeros(rows, F32), words.ravel(), scales.ravel(), x, I32(rows), I32(columns))
    return launch("inference", "gemv_int4", -(-rows // 4), 128, args, {0: want}, rtol=2e-3, atol=2e-3)


def paged_attention(rng: Rng, sequences: int, heads: int, longest: int) -> Case:
    lengths = rng.integers(1, longest + 1, sequences, dtype=I32)
    pages_each = -(-longest // 16)
    pages = rng.permutation(sequences * pages_each).astype(I32).reshape(sequences, pages_each)
    shape = (pages.size, heads // 4, 16, 64)
    q, k, v = normal(rng, (sequences, heads, 64), F16), normal(rng, shape, F16), normal(rng, shape, F16)
    want = np.zeros((sequences, heads, 64), F32)
    for s, length in enumerate(lengths):
        keys, values = (
            np.repeat(c[pages[s]].astype(F32).transpose(1, 0, 2, 3).reshape(heads // 4, -1, 64)[:, :length], 4, axis=0)
            for c in (k, v)
        )
        dots = (keys @ q[s].astype(F32)[:, :, None])[..., 0] / 8
        e = np.exp(dots - dots.max(axis=1, keepdims=True))
        want[s] = ((e / e.sum(axis=1, keepdims=True))[:, None] @ values)[:, 0]
    args = (
        *(np.zeros(want.size, F32), q.ravel(), k.ravel(), v.ravel(), pages.ravel(), lengths),
        *(I32(heads), I32(pages_each)),
    )
    return launch(
        "inference", "paged_attention", (heads, sequences), 128, args, {0: want.ravel()},
        rtol=1e-3, atol=1e-4, shared_bytes=4 * pages_each * 16,
    )  # fmt: skip


def cache_append(rng: Rng, tokens: int, heads: int, pages: int) -> Case:
    key, value = (rng.integers(0, 1 << 16, (tokens, heads, 64), dtype=U16) for _ in range(2))
    slots = rng.permutation(pages * 16)[:tokens].astype(I32)
    slots[rng.random(tokens) < 0.1] = -1
    keys, values = np.zeros((pages, heads, 8, 16, 8), U16), np.zeros((pages, heads, 64, 16), U16)
    used = slots >= 0
    page, place = slots[used] // 16, slots[used] % 16
    keys[page, :, :, place, :] = key[used].reshape(-1, heads, 8, 8)
    values[page, :, :, place] = value[used]
    args = (np.zeros(keys.size, U16), np.zeros(values.size, U16), key.ravel(), value.ravel(), slots, I32(heads))
    return launch("inference", "cache_append", tokens, 128, args, {0: keys.ravel(), 1: values.ravel()})


def top_four(rng: Rng, rows: int, columns: int) -> Case:
    x = np.stack([rng.permutation(columns) for _ in range(rows)]).astype(F32) - F32(columns / 3)
    where = np.argsort(-x, axis=1)[:, :4].astype(I32)
    bits = np.take_along_axis(x, where, axis=1).view(U32)
    best = np.where(bits >> 31, ~bits, bits | U32(1 << 31))
    args = (np.zeros(rows * 4, U32), np.zeros(rows * 4, I32), x.ravel(), I32(rows), I32(columns))
    return launch("inference", "top_four", -(-rows // 8), 256, args, {0: best.ravel(), 1: where.ravel()})


def quantise_rows(rng: Rng, rows: int, columns: int) -> Case:
    x = (normal(rng, (rows, columns)) * np.exp2(rng.integers(-6, 6, (rows, 1)))).astype(BF16)
    most = np.abs(x.astype(F32)).max(axis=1, keepdims=True)
    scaled = x.astype(F32) * (F32(448) / most)
    want = np.clip(scaled, -448, 448).astype(FP8).view(U8)
    args = (np.zeros(x.size, U8), np.zeros(rows, F32), x.view(U16).ravel(), I32(columns // 4))
    expected = {0: want.ravel(), 1: (most / F32(448)).ravel()}
    return launch("inference", "quantise_rows", rows, 256, args, expected)


def gated_unit(rng: Rng, rows: int, hidden: int) -> Case:
    x = normal(rng, (rows, 2, hidden), BF16)
    g, u = x[:, 0].astype(F32), x[:, 1].astype(F32)
    args = (np.zeros(rows * hidden, U16), x.view(U16).ravel(), I32(hidden // 2))
    check = near(0, BF16, g / (1 + np.exp(-g)) * u, 1e-2, 1e-3)
    return launch("inference", "gated_unit", (-(-hidden // 512), rows), 256, args, check=check)


def selective_scan(rng: Rng, batch: int, steps: int, channels: int) -> Case:
    u, delta = normal(rng, (batch, steps, channels)), rng.random((batch, steps, channels), F32) * F32(0.2)
    a, b, c = -rng.random((channels, 16), F32) * 4, normal(rng, (batch, steps, 16)), normal(rng, (batch, steps, 16))
    state, want = np.zeros((batch, channels, 16), F32), np.zeros_like(u)
    for t in range(steps):
        d = delta[:, t, :, None]
        state = np.exp(d * a) * state + d * u[:, t, :, None] * b[:, t, None, :]
        want[:, t] = (state * c[:, t, None, :]).sum(axis=-1)
    args = (
        *(np.zeros(u.size, F32), u.ravel(), delta.ravel(), a.ravel(), b.ravel(), c.ravel()),
        *(I32(steps), I32(channels)),
    )
    grid = (channels // 128, batch)
    return launch("inference", "selective_scan", grid, 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-4)


def route_tokens(rng: Rng, tokens: int) -> Case:
    logits = normal(rng, (tokens, 64))
    who = np.argsort(-logits, axis=1)[:, :2].astype(I32)
    top = np.take_along_axis(logits, who, axis=1)
    e = np.exp(top - top[:, :1])
    counts = np.bincount(who.ravel(), minlength=64).astype(I32)

    def check(outputs: Outputs) -> None:
        """Which token comes first at an expert is anybody's; its places are 0, 1, 2 …"""
        place = np.asarray(outputs[2])
        np.testing.assert_allclose(outputs[1], (e / e.sum(axis=1, keepdims=True)).ravel(), rtol=1e-4)
        for expert in range(64):
            mine = np.sort(place[who.ravel() == expert])
            np.testing.assert_array_equal(mine, np.arange(mine.size), err_msg=f"places at expert {expert}")

    args = (
        *(np.zeros(tokens * 2, I32), np.zeros(tokens * 2, F32), np.zeros(tokens * 2, I32)),
        *(np.zeros(64, I32), logits.ravel(), I32(tokens)),
    )
    return launch("inference", "route_tokens", -(-tokens // 8), 256, args, {0: who.ravel(), 3: counts}, check=check)


def layer_norm_backward(rng: Rng, rows: int, grid: int) -> Case:
    x, dy, gain = normal(rng, (rows, 1024)) * F32(2), normal(rng, (rows, 1024)), rng.random(1024, F32)
    mean = x.mean(axis=1)
    scale = 1 / np.sqrt(x.var(axis=1) + F32(1e-5))
    h = (x - mean[:, None]) * scale[:, None]
    d = dy * gain
    dx = (d - d.mean(axis=1, keepdims=True) - h * (d * h).mean(axis=1, keepdims=True)) * scale[:, None]
    parts = [np.stack([p[b::grid].sum(axis=0) for b in range(grid)]).ravel() for p in (dy * h, dy)]
    out = (np.zeros(x.size, F32), np.zeros(grid * 1024, F32), np.zeros(grid * 1024, F32))
    args = (*out, dy.ravel(), x.ravel(), gain, mean, scale.astype(F32), I32(rows))
    expected = {0: dx.ravel(), 1: parts[0], 2: parts[1]}
    return launch("training", "layer_norm_backward", grid, 256, args, expected, rtol=1e-3, atol=1e-4)


def embedding_bag(rng: Rng, bags: int, vocabulary: int, longest: int) -> Case:
    lengths = rng.integers(0, longest + 1, bags)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(I32)
    table = normal(rng, (vocabulary, 128))
    indices = np.minimum(rng.zipf(1.3, int(offsets[-1])) - 1, vocabulary - 1).astype(I32)
    weights = rng.random(indices.size, F32)
    want = np.zeros((bags, 128), F32)
    np.add.at(want, np.repeat(np.arange(bags), lengths), table[indices] * weights[:, None])
    args = (np.zeros(bags * 128, F32), table.ravel(), indices, weights, offsets, I32(bags))
    return launch("training", "embedding_bag", -(-bags // 4), 128, args, {0: want.ravel()}, rtol=1e-3, atol=1e-3)


def philox(counter: Array, seed: int) -> list[Array]:
    """Philox 4x32-10 of counters (i, 0, seed, 0x5eed) under the key (seed, 0xcafe)."""
    c = [counter.astype(U64), np.zeros(counter.size, U64), *(np.full(counter.size, v, U64) for v in (seed, 0x5EED))]
    low = U64(0xFFFFFFFF)
    for r in range(10):
        key = [U64((k + r * step) & 0xFFFFFFFF) for k, step in ((seed, 0x9E3779B9), (0xCAFE, 0xBB67AE85))]
        p0, p1 = c[0] * U64(0xD2511F53), c[2] * U64(0xCD9E8D57)
        c = [(p1 >> U64(32)) ^ c[1] ^ key[0], p1 & low, (p0 >> U64(32)) ^ c[3] ^ key[1], p0 & low]
    return c


def dropout_philox(rng: Rng, quads: int) -> Case:
    x, threshold, scale = normal(rng, (quads, 4)), int(0.9 * 2**32), F32(1 / 0.9)
    keep = np.stack([c < threshold for c in philox(np.arange(quads), 1234)], axis=1)
    args = (np.zeros(x.size, F32), np.zeros(x.size, U8), x.ravel(), U32(1234), U32(threshold), scale, I32(quads))
    expected = {0: np.where(keep, x * scale, F32(0)).ravel(), 1: keep.astype(U8).ravel()}
    return launch("training", "dropout_philox", -(-quads // 256), 256, args, expected)


def group_norm(rng: Rng, images: int, groups: int, channels_each: int, pixels: int) -> Case:
    x = normal(rng, (images * groups, channels_each, pixels), F16)
    gain, shift = rng.random(groups * channels_each, F32), normal(rng, groups * channels_each)
    f = x.astype(F32)
    h = (f - f.mean(axis=(1, 2), keepdims=True)) / np.sqrt(f.var(axis=(1, 2), keepdims=True) + F32(1e-5))
    g, s = (np.tile(v.reshape(groups, channels_each, 1), (images, 1, 1)) for v in (gain, shift))
    v = h * g + s
    want = (v / (1 + np.exp(-v))).astype(F16)
    args = (np.zeros(x.size, F16), x.ravel(), gain, shift, I32(groups), I32(channels_each), I32(pixels))
    return launch("training", "group_norm", images * groups, 256, args, {0: want.ravel()}, rtol=1e-2, atol=2e-3)


def winograd_tiles(rng: Rng, channels: int, width: int, height: int) -> Case:
    src = normal(rng, (channels, height, width))
    padded, across, down = np.pad(src, ((0, 0), (1, 1), (1, 1))), width // 2, height // 2
    d = [[padded[:, y : y + height : 2, x : x + width : 2] for x in range(4)] for y in range(4)]
    m = [[r[0] - r[2], r[1] + r[2], r[2] - r[1], r[1] - r[3]] for r in zip(*d, strict=True)]  # m[x][y]
    m = [list(column) for column in zip(*m, strict=True)]
    want = np.stack([v for r in m for v in (r[0] - r[2], r[1] + r[2], r[2] - r[1], r[1] - r[3])])
    args = (np.zeros(want.size, F32), src.ravel(), I32(width), I32(height), I32(across), I32(down))
    grid = (-(-across * down // 128), channels)
    return launch("training", "winograd_tiles", grid, 128, args, {0: want.ravel()})


CASES: dict[str, Sized] = {
    "rotary_embed": sized(rotary_embed, {"tokens": 3, "heads": 5}, tokens=2048, heads=16),
    "softmax_online": sized(softmax_online, {"rows": 2, "columns": 1100}, rows=600, columns=8192),
    "softmax_online_one_block": sized(softmax_online, {"columns": 1500}, rows=1, columns=32000),
    "gemv_int4": sized(gemv_int4, {"rows": 5, "columns": 2048}, rows=4096, columns=4096),
    "paged_attention": sized(
        paged_attention, {"sequences": 3, "heads": 4, "longest": 70}, sequences=16, heads=32, longest=600
    ),
    "cache_append": sized(cache_append, {"tokens": 6, "heads": 4, "pages": 2}, tokens=3000, heads=8, pages=256),
    "top_four": sized(top_four, {"rows": 9, "columns": 700}, rows=1000, columns=5000),
    "quantise_rows": sized(quantise_rows, {"rows": 2, "columns": 1064}, rows=1024, columns=5120),
    "gated_unit": sized(gated_unit, {"rows": 3, "hidden": 600}, rows=2048, hidden=2816),
    "selective_scan": sized(selective_scan, {"batch": 1, "steps": 6, "channels": 128}, batch=8, steps=48, channels=1536),
    "route_tokens": sized(route_tokens, {"tokens": 37}, tokens=8192),
    "layer_norm_backward": sized(layer_norm_backward, {"rows": 5, "grid": 2}, rows=2000, grid=264),
    "embedding_bag": sized(embedding_bag, {"bags": 9, "vocabulary": 50}, bags=4096, vocabulary=60000, longest=40),
    "dropout_philox": sized(dropout_philox, {"quads": 600}, quads=1 << 20),
    "group_norm": sized(group_norm, {"images": 1, "groups": 3, "pixels": 72}, images=8, groups=32, channels_each=10, pixels=1024),
    "winograd_tiles": sized(winograd_tiles, {"channels": 2, "width": 20, "height": 14}, channels=96, width=112, height=56),
}  # fmt: skip
