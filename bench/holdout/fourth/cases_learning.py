"""Layers of neural networks: convolutions, normalisations, attention, routing, sampling, products, losses, selections."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from bench.holdout.fourth.case import Array, Case, Outputs, Rng, Sized, launch, near, normal, sized

I32, F16, F32, F64, U8, U16, U32 = np.int32, np.float16, np.float32, np.float64, np.uint8, np.uint16, np.uint32
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def conv_transpose2d(rng: Rng, channels: int, filters: int, side: int) -> Case:
    x, w = normal(rng, (channels, side, side)), normal(rng, (channels, filters, 4, 4))
    wide = np.zeros((filters, side * 2 + 2, side * 2 + 2))
    for ky in range(4):
        for kx in range(4):
            wide[:, ky : ky + 2 * side : 2, kx : kx + 2 * side : 2] += np.einsum("cyx,cf->fyx", x, w[:, :, ky, kx])
    want = wide[:, 1:-1, 1:-1]
    args = (np.zeros(want.size, F32), x.ravel(), w.ravel(), I32(channels), I32(filters), I32(side))
    grid = (-(-4 * side * side // 256), filters)
    return launch("learning", "conv_transpose2d", grid, 256, args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-3)


def conv_grouped(rng: Rng, groups: int, width: int, height: int) -> Case:
    x, w = normal(rng, (height, width, groups, 8), F16), (normal(rng, (groups, 9, 8, 8)) * F32(0.2)).astype(F16)
    padded, want = np.pad(x.astype(F32), ((1, 1), (1, 1), (0, 0), (0, 0))), np.zeros(x.shape, F32)
    for tap in range(9):
        part = padded[tap // 3 : tap // 3 + height, tap % 3 : tap % 3 + width]
        want += np.einsum("yxgc,gco->yxgo", part, w[:, tap].astype(F32), optimize=True)
    args = (np.zeros(x.size, F16), x.ravel(), w.ravel(), I32(groups), I32(width), I32(height))
    grid = (-(-width * height // 128), groups)
    return launch("learning", "conv_grouped", grid, 128, args, {0: want.astype(F16).ravel()}, rtol=2e-2, atol=3e-2)


def batchnorm_backward(rng: Rng, batch: int, channels: int, pixels: int) -> Case:
    dy, x, gain = normal(rng, (batch, channels, pixels)), normal(rng, (batch, channels, pixels)), normal(rng, channels)
    mean, inverse = x.mean(axis=(0, 2)), 1 / np.sqrt(x.var(axis=(0, 2)) + F32(1e-5))
    unit = (x.astype(F64) - mean[:, None]) * inverse[:, None]
    bias, scale = dy.astype(F64).sum(axis=(0, 2)), (dy * unit).sum(axis=(0, 2))
    n = batch * pixels
    dx = (gain * inverse)[:, None] * (dy - bias[:, None] / n - unit * scale[:, None] / n)
    args = (
        *(np.zeros(x.size, F32), np.zeros(channels, F32), np.zeros(channels, F32)),
        *(dy.ravel(), x.ravel(), gain, mean, inverse, I32(batch), I32(channels), I32(pixels)),
    )
    expected = {0: dx.astype(F32).ravel(), 1: scale.astype(F32), 2: bias.astype(F32)}
    return launch("learning", "batchnorm_backward", channels, 512, args, expected, rtol=1e-3, atol=5e-3)


def window_attention(rng: Rng, heads: int, length: int) -> Case:
    q, k, v = ((normal(rng, (heads, length, 64)) * F32(0.5)).astype(F16) for _ in range(3))
    want = np.zeros(q.shape, F32)
    for row in range(length):
        part = slice(max(0, row - 63), row + 1)
        dots = np.einsum("hc,hkc->hk", q[:, row].astype(F32), k[:, part].astype(F32)) / 8
        e = np.exp(dots - dots.max(axis=1, keepdims=True))
        want[:, row] = np.einsum("hk,hkc->hc", e / e.sum(axis=1, keepdims=True), v[:, part].astype(F32))
    args = (np.zeros(q.size, F32), q.ravel(), k.ravel(), v.ravel(), I32(length))
    grid = (-(-length // 4), heads)
    return launch("learning", "window_attention", grid, 128, args, {0: want.ravel()}, rtol=1e-2, atol=3e-3)


def moe_align(rng: Rng, tokens: int, experts: int) -> Case:
    chosen = rng.integers(0, experts, tokens, dtype=I32)
    padded = -(-np.bincount(chosen, minlength=experts) // 16) * 16
    start = np.concatenate([[0], np.cumsum(padded)])
    owner = np.repeat(np.arange(experts), padded // 16)
    room = tokens + experts * 16
    blocks = np.full(room // 16, -1, I32)
    blocks[: owner.size] = owner

    def check(outputs: Outputs) -> None:
        """Within an expert the order is open."""
        made = np.asarray(outputs[0])
        for e in range(experts):
            mine = np.sort(made[start[e] : start[e + 1]])
            np.testing.assert_array_equal(mine[mine < tokens], np.flatnonzero(chosen == e))

    args = (
        np.full(room, tokens, I32),
        np.full(room // 16, -1, I32),
        np.zeros(1, I32),
        chosen,
        I32(tokens),
        I32(experts),
    )
    expected = {1: blocks, 2: np.array([start[-1]], I32)}
    return launch("learning", "moe_align", 1, 1024, args, expected, check=check, shared_bytes=4 * (64 + experts + 1))


def top_p_sample(rng: Rng, rows: int, words: int) -> Case:
    logits = rng.standard_normal((rows, words)) * 2.5
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    p, u = (e / e.sum(axis=1, keepdims=True)).astype(F32), rng.random(rows, F32)
    exact = p.astype(F64)

    def check(outputs: Outputs) -> None:
        """The chosen token's share of the kept ones' sum holds the row's number, to rounding."""
        for row, token in enumerate(np.asarray(outputs[0])):
            low, high = 0.0, 1.0
            for _ in range(14):
                middle = 0.5 * (low + high)
                low, high = (middle, high) if exact[row][exact[row] >= middle].sum() >= 0.8 else (low, middle)
            kept = np.where(exact[row] >= low, exact[row], 0)
            sums, goal = np.cumsum(kept), u[row] * kept.sum()
            assert kept[token] > 0
            assert sums[token] - kept[token] - 1e-5 <= goal <= sums[token] + 1e-5

    args = (np.full(rows, -1, I32), p.ravel(), u, I32(words), F32(0.8))
    return launch("learning", "top_p_sample", rows, 256, args, check=check)


def fp8_gemm(rng: Rng, m: int, n: int, depth: int) -> Case:
    a, b = normal(rng, (m, depth)).astype(E4M3), normal(rng, (n, depth)).astype(E4M3)
    one, two = rng.uniform(0.5, 2, m).astype(F32), rng.uniform(0.5, 2, n).astype(F32)
    want = (a.astype(F32) @ b.astype(F32).T) * one[:, None] * two
    args = (
        *(np.zeros(m * n, U16), a.view(U8).view(U32).ravel(), b.view(U8).view(U32).ravel()),
        *(one, two, I32(n), I32(depth // 4)),
    )
    return launch("learning", "fp8_gemm", (n // 64, m // 64), 128, args, check=near(0, BF16, want, 2e-2, 0.3))


def rms_norm_residual(rng: Rng, rows: int, columns: int) -> Case:
    x, residual, gain = (
        normal(rng, (rows, columns), BF16),
        normal(rng, (rows, columns), BF16),
        normal(rng, columns, BF16),
    )
    total = (x.astype(F32) + residual.astype(F32)).astype(BF16)
    kept = total.astype(F32)
    want = kept / np.sqrt((kept**2).mean(axis=1, keepdims=True) + F32(1e-6)) * gain.astype(F32)
    args = (np.zeros(x.size, U16), residual.view(U16).ravel(), x.view(U16).ravel(), gain.view(U16), I32(columns))
    return launch(
        "learning", "rms_norm_residual", rows, 256, args, {1: total.view(U16).ravel()},
        check=near(0, BF16, want, 1e-2, 1e-3), shared_bytes=4 * columns,
    )  # fmt: skip


def swiglu_gemm(rng: Rng, m: int, n: int, depth: int) -> Case:
    x = normal(rng, (m, depth), F16)
    gate, up = ((normal(rng, (depth, n)) / F32(np.sqrt(depth))).astype(F16) for _ in range(2))
    g, u = x.astype(F32) @ gate.astype(F32), x.astype(F32) @ up.astype(F32)
    want = (g / (1 + np.exp(-g)) * u).astype(F16)
    args = (np.zeros(m * n, F16), x.ravel(), gate.ravel(), up.ravel(), I32(n), I32(depth))
    return launch("learning", "swiglu_gemm", (n // 32, m // 64), 128, args, {0: want.ravel()}, rtol=1e-2, atol=5e-3)


def gelu_backward(rng: Rng, pairs: int, grid: int) -> Case:
    dy, x = normal(rng, pairs * 2, BF16), normal(rng, pairs * 2, BF16)
    z = x.astype(F64)
    inner = np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)
    th = np.tanh(inner)
    slope = 0.5 * (1 + th) + 0.5 * z * (1 - th**2) * np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * z * z)
    want = (dy.astype(F64) * slope).astype(F32)
    args = (np.zeros(pairs, U32), dy.view(U32), x.view(U32), I32(pairs))
    return launch("learning", "gelu_backward", grid, 256, args, check=near(0, BF16, want, 1e-2, 1e-3))


def softmax_backward(rng: Rng, rows: int) -> Case:
    dy, e = normal(rng, (rows, 512)), np.exp(normal(rng, (rows, 512)))
    y = e / e.sum(axis=1, keepdims=True)
    want = (dy - (dy.astype(F64) * y).sum(axis=1, keepdims=True)) * y
    args = (np.zeros(y.size, F32), dy.ravel(), y.ravel(), I32(rows))
    expected = {0: want.astype(F32).ravel()}
    return launch("learning", "softmax_backward", -(-rows // 8), 256, args, expected, rtol=1e-3, atol=1e-6)


def grid_sample(rng: Rng, channels: int, width: int, height: int, n: int) -> Case:
    x, places = normal(rng, (channels, height, width)), rng.uniform(-1.05, 1.05, (n, 2)).astype(F32)
    u, v = (((places[:, k].astype(F64) + 1) * (width, height)[k] - 1) / 2 for k in range(2))
    left, top = np.floor(u).astype(int), np.floor(v).astype(int)
    want, padded = np.zeros((channels, n)), np.pad(x.astype(F64), ((0, 0), (1, 1), (1, 1)))
    for dy in range(2):
        for dx in range(2):
            weight = np.abs(1 - dx - (u - left)) * np.abs(1 - dy - (v - top))
            at_x, at_y = left + dx + 1, top + dy + 1
            ok = (at_x >= 0) & (at_x <= width + 1) & (at_y >= 0) & (at_y <= height + 1)
            want += ok * weight * padded[:, np.clip(at_y, 0, height + 1), np.clip(at_x, 0, width + 1)]
    args = (np.zeros(want.size, F32), x.ravel(), places.ravel(), I32(channels), I32(width), I32(height), I32(n))
    expected = {0: want.astype(F32).ravel()}
    return launch("learning", "grid_sample", -(-n // 256), 256, args, expected, rtol=1e-3, atol=2e-3)


def ctc_alpha(rng: Rng, batch: int, steps: int, symbols: int, length: int) -> Case:
    logits = normal(rng, (batch, steps, symbols)).astype(F64)
    logits = (logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))).astype(F32)
    labels = rng.integers(1, symbols, (batch, length), dtype=I32)
    loss = np.zeros(batch)
    for b in range(batch):
        text = np.zeros(2 * length + 1, I32)
        text[1::2] = labels[b]
        skip = np.zeros(text.size, bool)
        skip[2:] = (text[2:] != 0) & (text[2:] != text[:-2])
        alpha = np.full(text.size, -np.inf)
        alpha[:2] = logits[b, 0, text[:2]]
        for step in logits[b, 1:].astype(F64):
            one = np.concatenate([[-np.inf], alpha[:-1]])
            two = np.where(skip, np.concatenate([[-np.inf] * 2, alpha[:-2]]), -np.inf)
            alpha = np.logaddexp(np.logaddexp(alpha, one), two) + step[text]
        loss[b] = -np.logaddexp(alpha[-1], alpha[-2])
    args = (np.zeros(batch, F32), logits.ravel(), labels.ravel(), I32(steps), I32(symbols), I32(length))
    return launch("learning", "ctc_alpha", batch, 128, args, {0: loss.astype(F32)}, rtol=1e-3, atol=1e-2)


def warp_select(rng: Rng, rows: int, columns: int) -> Case:
    x = normal(rng, (rows, columns))
    want = -np.sort(-x, axis=1)[:, :32]
    args = (np.zeros(rows * 32, F32), x.ravel(), I32(rows), I32(columns))
    return launch("learning", "warp_select", -(-rows // 4), 128, args, {0: want.ravel()})


def multi_tensor_norm(rng: Rng, tensors: int, largest: int, chunk: int) -> Case:
    size = (largest * rng.random(tensors) ** 3).astype(I32) + 10
    offset = np.concatenate([[0], np.cumsum(size)[:-1]]).astype(I32)
    values = normal(rng, int(size.sum()))
    where = np.array([(t, c) for t in range(tensors) for c in range(-(-int(size[t]) // chunk))], I32)
    want = np.add.reduceat(values.astype(F64) ** 2, offset)
    args = (np.zeros(tensors, F32), where.ravel(), values, offset, size, I32(chunk))
    expected = {0: want.astype(F32)}
    return launch("learning", "multi_tensor_norm", len(where), 512, args, expected, rtol=1e-4, atol=1e-4)


def fft_convolve(rng: Rng, rows: int, length: int) -> Case:
    x, kernel = normal(rng, (rows, length)), normal(rng, length) * F32(0.1)
    spectrum: Array = np.fft.fft(kernel, 2048)
    want = np.fft.ifft(np.fft.fft(x, 2048) * spectrum).real[:, :length]
    order = np.array([int(f"{k:011b}"[::-1], 2) for k in range(2048)])
    args = (np.zeros(x.size, F32), x.ravel(), spectrum[order].astype(np.complex64).view(F32), I32(length))
    return launch("learning", "fft_convolve", rows, 256, args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=5e-3)


def pixel_shuffle(rng: Rng, channels: int, width: int, height: int) -> Case:
    x = normal(rng, (channels, 2, 2, height, width))
    args = (np.zeros(x.size, F32), x.ravel(), I32(channels), I32(width), I32(height))
    expected = {0: x.transpose(0, 3, 1, 4, 2).ravel()}
    return launch("learning", "pixel_shuffle", -(-x.size // 256), 256, args, expected)


CASES: dict[str, Sized] = {
    "conv_transpose2d": sized(conv_transpose2d, {"channels": 3, "filters": 2, "side": 9}, channels=32, filters=16, side=48),
    "conv_grouped": sized(conv_grouped, {"groups": 2, "width": 20, "height": 9}, groups=32, width=56, height=56),
    "batchnorm_backward": sized(batchnorm_backward, {"channels": 3, "pixels": 100}, batch=8, channels=128, pixels=784),
    "window_attention": sized(window_attention, {"heads": 2, "length": 80}, heads=8, length=1024),
    "ctc_alpha_one_block": sized(ctc_alpha, {"batch": 1, "steps": 20, "length": 5}, batch=1, steps=200, symbols=40, length=60),
    "moe_align": sized(moe_align, {"tokens": 300, "experts": 8}, tokens=8192, experts=60),
    "top_p_sample": sized(top_p_sample, {"rows": 3, "words": 900}, rows=64, words=32000),
    "fp8_gemm": sized(fp8_gemm, {"m": 64, "n": 128, "depth": 128}, m=512, n=1024, depth=1024),
    "rms_norm_residual": sized(rms_norm_residual, {"rows": 3, "columns": 520}, rows=1024, columns=4096),
    "swiglu_gemm": sized(swiglu_gemm, {"m": 64, "n": 64, "depth": 96}, m=256, n=1408, depth=768),
    "gelu_backward": sized(gelu_backward, {"pairs": 1000, "grid": 2}, pairs=1500000, grid=1056),
    "softmax_backward": sized(softmax_backward, {"rows": 10}, rows=8000),
    "grid_sample": sized(grid_sample, {"channels": 2, "width": 30, "height": 20, "n": 500}, channels=16, width=128, height=96, n=40000),
    "ctc_alpha": sized(ctc_alpha, {"batch": 2, "steps": 30, "length": 8}, batch=48, steps=150, symbols=80, length=40),
    "warp_select": sized(warp_select, {"rows": 5, "columns": 300}, rows=1500, columns=2000),
    "multi_tensor_norm": sized(multi_tensor_norm, {"tensors": 4, "largest": 3000, "chunk": 1000}, tensors=40, largest=400000, chunk=16384),
    "fft_convolve": sized(fft_convolve, {"rows": 2}, rows=700, length=1024),
    "pixel_shuffle": sized(pixel_shuffle, {"channels": 2, "width": 9, "height": 7}, channels=12, width=240, height=200),
}  # fmt: skip
