"""Pictures, radio and sound: decoding, beams, resampling, detection, stereo, gradients, corners, lines, views, distances."""

from __future__ import annotations

import numpy as np

from bench.holdout.fourth.case import Case, Outputs, Rng, Sized, launch, normal, sized

I8, I16, I32, I64, F32, F64 = np.int8, np.int16, np.int32, np.int64, np.float32, np.float64
U8, U16, U32 = np.uint8, np.uint16, np.uint32


def ldpc_minsum(rng: Rng, words: int, rounds: int) -> Case:
    z, layers, columns = 96, 12, 24
    entries, first = [], [0]
    for layer in range(layers):
        mine = [*np.sort(rng.choice(12, 5, replace=False)), *([12 + layer] if layer == 0 else [11 + layer, 12 + layer])]
        entries += [(int(c), int(rng.integers(0, z)) if c < 12 else 0) for c in mine]
        first.append(len(entries))
    received = np.clip(np.rint(rng.normal(8, 7, (words, columns * z))), -127, 127).astype(I8)
    values, messages, rows = received.astype(I64), np.zeros((len(entries), words, z), I64), np.arange(z)
    for _ in range(rounds):
        for layer in range(layers):
            part = range(first[layer], first[layer + 1])
            at = np.stack([entries[e][0] * z + (rows + entries[e][1]) % z for e in part])
            v = values[:, at].swapaxes(0, 1) - messages[first[layer] : first[layer + 1]]
            size = np.abs(v)
            ordered, which = np.sort(size, axis=0), size.argmin(axis=0)
            sign = np.logical_xor.reduce(v < 0, axis=0)
            least = np.where(np.arange(len(part))[:, None, None] == which, ordered[1], ordered[0]) * 3 // 4
            made = np.where(sign ^ (v < 0), -least, least)
            messages[first[layer] : first[layer + 1]] = made
            values[:, at] = np.clip(v + made, -2000, 2000).swapaxes(0, 1)
    args = (
        *(np.zeros(received.size, U8), received.ravel(), np.array(entries, I32).ravel(), np.array(first, I32)),
        *(I32(layers), I32(columns), I32(rounds)),
    )
    room = 2 * z * (columns + len(entries))
    return launch("signals", "ldpc_minsum", words, z, args, {0: (values < 0).astype(U8).ravel()}, shared_bytes=room)


def delay_and_sum(rng: Rng, width: int, height: int, count: int, samples: int) -> Case:
    traces, receivers = normal(rng, (count, samples)), np.zeros((count, 2), F32)
    receivers[:, 0] = np.linspace(0, width * 0.1, count)
    traces = np.cumsum(traces, axis=1) * F32(0.1)
    y, x = np.mgrid[:height, :width].astype(F64)
    px, py, want, rate = (
        x * F64(F32(0.1)),
        (y + 20) * F64(F32(0.1)),
        np.zeros((height, width)),
        samples / (width * 0.35),
    )
    for r in range(count):
        when = (py + np.hypot(px - receivers[r, 0], py - receivers[r, 1])) * rate
        k = np.floor(when).astype(I64)
        ok, at = k + 1 < samples, np.minimum(k, samples - 2)
        want += np.where(ok, traces[r, at] * (1 - (when - k)) + traces[r, at + 1] * (when - k), 0)
    args = (
        *(np.zeros(want.size, F32), traces.ravel(), receivers.ravel(), I32(count), I32(samples), I32(width)),
        *(F32(0.1), F32(rate)),
    )
    expected = {0: want.astype(F32).ravel()}
    return launch("signals", "delay_and_sum", (width // 32, height // 8), 256, args, expected, rtol=1e-2, atol=0.1)


def polyphase_resample(rng: Rng, channels: int, n: int) -> Case:
    have = n * 147 // 160 + 32
    src, taps = normal(rng, (channels, have)), normal(rng, (24, 160)) * F32(0.2)
    up = np.arange(n) * 147
    want = np.zeros((channels, n))
    for k in range(24):
        want += src[:, up // 160 + k].astype(F64) * taps[k, up % 160]
    args = (np.zeros(want.size, F32), src.ravel(), taps.ravel(), I32(n), I32(have))
    grid = (-(-n // 320), channels)
    return launch("signals", "polyphase_resample", grid, 320, args, {0: want.astype(F32).ravel()}, rtol=1e-3, atol=1e-4)


def cfar_detect(rng: Rng, ranges: int, rows: int) -> Case:
    cells = normal(rng, (rows, ranges, 2))
    cells[rng.random((rows, ranges)) < 0.002] *= 8
    power = (cells.astype(F64) ** 2).sum(axis=2)
    padded = np.pad(power, ((0, 0), (20, 20)))
    noise = sum(padded[:, 20 - k : 20 - k + ranges] + padded[:, 20 + k : 20 + k + ranges] for k in range(4, 21))
    want, close = power > 6 * noise / 34, np.abs(power - 6 * noise / 34) < 1e-4 * power

    def check(outputs: Outputs) -> None:
        """The list may have any order; elements at the threshold may be in it or not."""
        count = int(outputs[1][0])
        found = np.zeros(power.size, bool)
        found[np.asarray(outputs[0])[:count]] = True
        assert found.sum() == count
        assert (found == want.ravel())[~close.ravel()].all()

    args = (np.zeros(power.size, I32), np.zeros(1, I32), cells.ravel(), I32(ranges), I32(rows), F32(6))
    return launch("signals", "cfar_detect", (-(-ranges // 256), rows), 256, args, check=check)


def sgm_path(rng: Rng, width: int, height: int) -> Case:
    right = rng.integers(0, 1 << 32, (height, width), dtype=U32)
    left = np.roll(right, 9, axis=1) ^ (U32(1) << rng.integers(0, 31, (height, width)).astype(U32))
    want, last, least = np.zeros((height, width, 128), I64), np.zeros((height, 128), I64), np.zeros(height, I64)
    for x in range(width):
        cost = np.bitwise_count(left[:, x, None] ^ right[:, np.maximum(x - np.arange(128), 0)])
        wide = np.pad(last, ((0, 0), (1, 1)), constant_values=1 << 20)
        side = np.minimum(wide[:, :-2], wide[:, 2:]) + 10
        last = cost + np.minimum(np.minimum(last, side), least[:, None] + 120) - least[:, None]
        least, want[:, x] = last.min(axis=1), last
    args = (np.zeros(want.size, U16), left.ravel(), right.ravel(), I32(width), I32(height))
    return launch("signals", "sgm_path", -(-height // 4), 128, args, {0: want.astype(U16).ravel()})


def hog_cells(rng: Rng, across: int, down: int) -> Case:
    width, height = across * 32, down * 8
    y, x = np.mgrid[:height, :width]
    picture = (128 + 90 * np.sin(x / 7 + y / 11) + rng.integers(-20, 20, (height, width))).astype(U8)
    wide = np.pad(picture.astype(I64), 1, mode="edge")
    dx, dy = wide[1:-1, 2:] - wide[1:-1, :-2], wide[2:, 1:-1] - wide[:-2, 1:-1]
    cosine = np.array([256, 241, 196, 128, 44, -44, -128, -196, -241])
    sine = np.array([0, 88, 165, 222, 252, 252, 222, 165, 88])
    along = np.abs(dx[..., None] * cosine + dy[..., None] * sine)
    want = np.zeros((down, across * 4, 9), I64)
    np.add.at(want, (y // 8, x // 8, along.argmax(axis=2)), dx * dx + dy * dy)
    args = (np.zeros(want.size, I32), picture.ravel(), I32(width), I32(height))
    return launch("signals", "hog_cells", (across, down), 256, args, {0: want.astype(I32).ravel()})


def fast_corners(rng: Rng, width: int, height: int) -> Case:
    y, x = np.mgrid[:height, :width]
    picture = np.clip(120 + 60 * ((x // 23 + y // 19) % 2) + rng.normal(0, 9, (height, width)), 0, 255).astype(U8)
    middle = picture[3:-3, 3:-3].astype(I32)
    cx = [0, 1, 2, 3, 3, 3, 2, 1, 0, -1, -2, -3, -3, -3, -2, -1]
    cy = [-3, -3, -2, -1, 0, 1, 2, 3, 3, 3, 2, 1, 0, -1, -2, -3]
    around = np.stack([picture[3 + v : height - 3 + v, 3 + u : width - 3 + u] for u, v in zip(cx, cy, strict=True)])
    corner = np.zeros(middle.shape, bool)
    for side in (around > middle + 20, around < middle - 20):
        twice = np.concatenate([side, side])
        for k in range(16):
            corner |= twice[k : k + 9].all(axis=0)
    rows, columns = np.nonzero(corner)
    want = (rows + 3) * width + columns + 3

    def check(outputs: Outputs) -> None:
        """The list has any order."""
        np.testing.assert_array_equal(np.sort(np.asarray(outputs[0])[: want.size]), want)

    args = (np.zeros(picture.size, I32), np.zeros(1, I32), picture.ravel(), I32(width), I32(height), I32(20))
    grid = (-(-(width - 6) // 32), -(-(height - 6) // 8))
    expected = {1: np.array([want.size], I32)}
    return launch("signals", "fast_corners", grid, 256, args, expected, check=check)


def hough_lines(rng: Rng, n: int, angles: int, distances: int) -> Case:
    points, angle = rng.integers(0, distances // 3, (n, 2), dtype=I32), np.arange(angles) * np.pi / angles
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(F32)
    exact = points.astype(F64) @ directions.astype(F64).T
    at = np.floor(exact).astype(I64) + distances // 2
    want = np.stack([np.bincount(at[:, a], minlength=distances) for a in range(angles)])

    def check(outputs: Outputs) -> None:
        """Rounding moves points that are on the edge of two bins."""
        assert (
            np.abs(np.asarray(outputs[0], I64) - want.ravel()).sum()
            <= 2 * (np.abs(exact - np.rint(exact)) < 1e-3).sum()
        )

    args = (np.zeros(want.size, U32), points.ravel(), directions.ravel(), I32(n), I32(distances))
    return launch("signals", "hough_lines", angles, 512, args, check=check, shared_bytes=4 * distances)


def perspective_bytes(rng: Rng, width: int, height: int) -> Case:
    y, x = np.mgrid[:height, :width]
    ramp = 128 + 60 * np.sin(x / 9) + 60 * np.cos(y / 13)
    picture = np.stack([ramp, ramp[::-1], ramp[:, ::-1]], axis=2).astype(U8)
    m = np.array([0.9, 0.12, 6, -0.08, 0.95, 9, 0.05 / width, 0.03 / height, 1], F32)
    w = m[6].astype(F64) * x + m[7].astype(F64) * y + m[8]
    u, v = ((m[k].astype(F64) * x + m[k + 1].astype(F64) * y + m[k + 2]) / w for k in (0, 3))
    left, top = np.floor(u).astype(I64), np.floor(v).astype(I64)
    inside = (left >= 0) & (top >= 0) & (left + 1 < width) & (top + 1 < height)
    left, top = np.clip(left, 0, width - 2), np.clip(top, 0, height - 2)
    fx, fy = (u - left)[..., None], (v - top)[..., None]
    upper = picture[top, left] * (1 - fx) + picture[top, left + 1] * fx
    lower = picture[top + 1, left] * (1 - fx) + picture[top + 1, left + 1] * fx
    want = np.where(inside[..., None], upper * (1 - fy) + lower * fy, 0)

    def check(outputs: Outputs) -> None:
        """Bytes are rounded; places at the picture's edge may fall outside."""
        off = np.abs(np.asarray(outputs[0]).reshape(want.shape).astype(F64) - want)
        assert np.mean(off > 1.5) < 1e-3

    args = (np.zeros(picture.size, U8), picture.ravel(), I32(width), I32(height), m)
    return launch("signals", "perspective_bytes", (-(-width // 32), -(-height // 8)), (32, 8), args, check=check)


def distance_parabolas(rng: Rng, width: int, height: int) -> Case:
    away = np.minimum(rng.geometric(0.05, (height, width)), 200) - 1
    src = (away * away).astype(I32)
    rows = np.arange(height)
    want = np.stack([(src + ((rows - q) ** 2)[:, None]).min(axis=0) for q in range(height)])
    args = (np.zeros(src.size, I32), src.ravel(), np.zeros(src.size, I16), I32(width), I32(height))
    return launch("signals", "distance_parabolas", -(-width // 64), 64, args, {0: want.astype(I32).ravel()})


CASES: dict[str, Sized] = {
    "ldpc_minsum": sized(ldpc_minsum, {"words": 2, "rounds": 2}, words=400, rounds=8),
    "delay_and_sum": sized(delay_and_sum, {"width": 32, "height": 16, "count": 6, "samples": 200}, width=256, height=256, count=64, samples=2000),
    "polyphase_resample": sized(polyphase_resample, {"channels": 2, "n": 700}, channels=16, n=48000),
    "cfar_detect": sized(cfar_detect, {"ranges": 300, "rows": 3}, ranges=4096, rows=256),
    "sgm_path": sized(sgm_path, {"width": 40, "height": 5}, width=320, height=480),
    "hog_cells": sized(hog_cells, {"across": 2, "down": 3}, across=40, down=90),
    "fast_corners": sized(fast_corners, {"width": 70, "height": 40}, width=1280, height=720),
    "hough_lines": sized(hough_lines, {"n": 400, "angles": 3, "distances": 600}, n=20000, angles=180, distances=2400),
    "perspective_bytes": sized(perspective_bytes, {"width": 60, "height": 30}, width=1280, height=720),
    "distance_parabolas": sized(distance_parabolas, {"width": 40, "height": 50}, width=4000, height=300),
}  # fmt: skip
