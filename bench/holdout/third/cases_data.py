"""Joins, groups, queries, codecs, codes; pictures, volumes, triangles, rays."""

from __future__ import annotations

import hashlib

import numpy as np

from bench.holdout.third.case import Array, Case, Outputs, Rng, Sized, launch, mixed, normal, sized

I8, I32, I64, F32, F64, U8, U16, U32, U64 = (
    *(np.int8, np.int32, np.int64, np.float32, np.float64),
    *(np.uint8, np.uint16, np.uint32, np.uint64),
)


def join_probe(rng: Rng, built: int, probed: int, places: int) -> Case:
    keys = rng.integers(0, built, built, dtype=U32)
    table = np.full((places, 2), 0xFFFFFFFF, U32)
    for payload, place in enumerate((mixed(keys) & U32(places - 1)).tolist()):
        while table[place, 0] != 0xFFFFFFFF:
            place = (place + 1) % places
        table[place] = keys[payload], payload
    asked = rng.integers(0, built * 2, probed, dtype=U32)
    order = np.argsort(keys, kind="stable")
    low, high = (np.searchsorted(keys[order], asked, side) for side in ("left", "right"))
    rows = np.repeat(np.arange(probed), high - low)
    offset = np.arange(rows.size) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    want = np.stack([rows, order[np.repeat(low, high - low) + offset]], axis=1)

    def check(outputs: Outputs) -> None:
        """Warps take room in any order."""
        found = np.asarray(outputs[0]).reshape(-1, 2)[: want.shape[0]]
        assert outputs[1][0] == want.shape[0]
        np.testing.assert_array_equal(found[np.lexsort(found.T[::-1])], want[np.lexsort(want.T[::-1])])

    args = (
        np.zeros((want.shape[0] + 64) * 2, U32),
        np.zeros(1, U32),
        table.ravel(),
        U32(places - 1),
        asked,
        I32(probed),
    )
    return launch("tables", "join_probe", -(-probed // 256), 256, args, check=check)


def group_sums(rng: Rng, n: int, groups: int, places: int, grid: int) -> Case:
    keys = mixed(np.minimum(rng.zipf(1.2, n) - 1, groups - 1)) & U32(0x7FFFFFFF)
    values = rng.integers(0, 1 << 20, n, dtype=U32)
    known, index, number = np.unique(keys, return_inverse=True, return_counts=True)
    sums = np.zeros(known.size, U64)
    np.add.at(sums, index, values.astype(U64))

    def check(outputs: Outputs) -> None:
        """Keys take places in any order."""
        used = np.flatnonzero(np.asarray(outputs[0]) != 0xFFFFFFFF)
        order = used[np.argsort(outputs[0][used])]
        for got, want in zip((outputs[k][order] for k in range(3)), (known, sums, number), strict=True):
            np.testing.assert_array_equal(got, want)

    args = (
        *(np.full(places, 0xFFFFFFFF, U32), np.zeros(places, U64), np.zeros(places, U32)),
        *(U32(places - 1), keys, values, I32(n)),
    )
    return launch("tables", "group_sums", grid, 256, args, check=check)


def query_groups(rng: Rng, n: int, grid: int) -> Case:
    date, price = rng.integers(0, 2500, n, dtype=I32), rng.integers(1000, 10_000_000, n, dtype=I32)
    group, discount, tax = (
        rng.integers(0, 6, n, dtype=U8),
        rng.integers(0, 11, n, dtype=U8),
        rng.integers(0, 9, n, dtype=U8),
    )
    less = price.astype(U64) * (100 - discount).astype(U64)
    columns = np.stack([price.astype(U64), less, less * (U64(100) + tax), np.ones(n, U64)], axis=1)
    want = np.zeros((6, 4), U64)
    np.add.at(want, group[date <= 2000], columns[date <= 2000])
    args = (np.zeros(24, U64), date, group, price, discount, tax, I32(2000), I32(n))
    return launch("tables", "query_groups", grid, 256, args, {0: want.ravel()})


def parse_decimals(rng: Rng, n: int) -> Case:
    values = (rng.standard_normal(n) * 10.0 ** rng.integers(2, 9, n)).astype(I64)
    decimals = rng.integers(0, 3, n)
    texts = []
    for value, places in zip(values.tolist(), decimals.tolist(), strict=True):
        sign, digits = "-" if value < 0 else "", str(abs(value)).rjust(places + 1, "0")
        texts.append(sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits))
    text = np.frombuffer(("\n".join(texts) + "\n").encode(), I8)
    starts = np.concatenate([[0], np.cumsum([len(t) + 1 for t in texts])]).astype(I32)
    want = values * 10 ** (2 - decimals)
    args = (np.zeros(n, I64), text.copy(), starts, I32(n))
    return launch("tables", "parse_decimals", -(-n // 256), 256, args, {0: want})


def expand_tokens(rng: Rng, chunks: int) -> Case:
    want, packed, starts = np.zeros((chunks, 4096), U8), bytearray(), [0]
    letters = rng.integers(0, 256, 1 << 16, dtype=U8)
    for chunk in want:
        to = 0
        while to < 4096:
            literals = min(int(rng.integers(1, 24)), 4096 - to)
            at = int(rng.integers(0, (1 << 16) - 24))
            chunk[to : to + literals] = letters[at : at + literals]
            to += literals
            length, back = min(int(rng.integers(4, 90)), 4096 - to), int(rng.integers(1, to + 1))
            packed += bytes((literals, length, back & 255, back >> 8)) + letters[at : at + literals].tobytes()
            chunk[to : to + length] = np.resize(chunk[to - back : to], length)
            to += length
        starts.append(len(packed))
    args = (np.zeros(want.size, U8), np.frombuffer(bytes(packed), U8).copy(), np.array(starts, I32), I32(chunks))
    return launch("tables", "expand_tokens", -(-chunks // 2), 64, args, {0: want.ravel()})


def range_decode(rng: Rng, streams: int, length: int) -> Case:
    share = rng.exponential(1.0, 256) ** 2
    many = 1 + np.floor(share / share.sum() * (4096 - 256)).astype(I64)
    many[np.argmax(many)] += 4096 - many.sum()
    first = np.cumsum(many) - many
    symbols = rng.choice(256, (length, streams), p=many / 4096)
    state, words, sent = (
        np.full(streams, 65536, I64),
        np.zeros((streams, length), U16),
        np.zeros((streams, length), bool),
    )
    for k in range(length - 1, -1, -1):
        f, c = many[symbols[k]], first[symbols[k]]
        full = state >= f << 20
        words[:, k], sent[:, k] = state & 65535, full
        state = np.where(full, state >> 16, state)
        state = (state // f << 12) + state % f + c
    starts = np.concatenate([[0], np.cumsum(sent.sum(axis=1))])[:-1].astype(I32)
    symbol = np.repeat(np.arange(256), many)
    slots = (symbol << 24 | many[symbol] - 1 << 12 | first[symbol]).astype(U32)
    args = (
        *(np.zeros(length * streams, U8), np.append(words[sent], U16(0)), starts, state.astype(U32)),
        *(slots, I32(streams), I32(length)),
    )
    return launch("tables", "range_decode", -(-streams // 128), 128, args, {0: symbols.astype(U8).ravel()})


def field_table() -> Array:
    """Products in the field of 256 with the polynomial 0x11d."""
    product, powers = np.zeros((256, 256), U8), np.arange(256)
    for bit in range(8):
        for y in range(256):
            if y >> bit & 1:
                product[:, y] ^= powers.astype(U8)
        powers = powers << 1 ^ np.where(powers & 128, 0x11D, 0)
    return product


def field_parities(rng: Rng, words: int) -> Case:
    product, factors = field_table(), rng.integers(2, 256, (4, 10))
    data = rng.integers(0, 256, (10, words * 4), dtype=U8)
    tables = np.stack([product[factors][..., :16], product[factors][..., np.arange(16) * 16]], axis=2)
    want = np.bitwise_xor.reduce(product[factors[:, :, None], data[None]], axis=1)
    args = (np.zeros(words * 4, U32), data.view(U32).ravel(), tables.ravel(), I32(words))
    return launch("tables", "field_parities", -(-words // 128), 128, args, {0: want.view(U32).ravel()})


def blake_records(rng: Rng, n: int) -> Case:
    records = rng.integers(0, 256, (n, 256), dtype=U8)
    want = np.frombuffer(b"".join(hashlib.blake2s(r.tobytes()).digest() for r in records), U32)
    args = (np.zeros(n * 8, U32), records.view(U32).ravel(), I32(n))
    return launch("tables", "blake_records", -(-n // 128), 128, args, {0: want})


def bit_distances(rng: Rng, n: int, length: int) -> Case:
    pattern = rng.integers(97, 105, 64, dtype=U8)
    texts = rng.integers(97, 105, (length, n), dtype=U8)
    copied = rng.random(n) < 0.5
    texts[: min(length, 64), copied] = np.where(
        rng.random((min(length, 64), copied.sum())) < 0.8, pattern[: min(length, 64), None], 97
    )
    masks = np.zeros(256, U64)
    for k, letter in enumerate(pattern):
        masks[letter] |= U64(1) << U64(k)
    column = np.repeat(np.arange(65)[:, None], n, axis=1)
    for k in range(length):
        after = np.empty_like(column)
        after[0] = k + 1
        for row in range(64):
            swapped = column[row] + (texts[k] != pattern[row])
            after[row + 1] = np.minimum(np.minimum(swapped, column[row + 1] + 1), after[row] + 1)
        column = after
    args = (np.zeros(n, I32), texts.ravel(), masks, I32(n), I32(length))
    return launch("tables", "bit_distances", -(-n // 192), 192, args, {0: column[64].astype(I32)})


def similar_means(rng: Rng, width: int, height: int) -> Case:
    src, sharp = rng.random((height, width), F32), 2.0
    padded = np.pad(src, 4, mode="edge").astype(F64)
    sums, weights = np.zeros(src.shape), np.zeros(src.shape)

    def moved(dx: int, dy: int) -> Array:
        return padded[4 + dy : 4 + dy + height, 4 + dx : 4 + dx + width]

    for dy in range(-3, 4):
        for dx in range(-3, 4):
            far = sum((moved(px, py) - moved(dx + px, dy + py)) ** 2 for py in (-1, 0, 1) for px in (-1, 0, 1))
            w = np.exp(-far * sharp)
            sums, weights = sums + w * moved(dx, dy), weights + w
    args = (np.zeros(src.size, F32), src.ravel(), I32(width), I32(height), F32(sharp))
    grid = (-(-width // 16), -(-height // 16))
    want = (sums / weights).astype(F32)
    return launch("pictures", "similar_means", grid, (16, 16), args, {0: want.ravel()}, rtol=1e-4, atol=1e-5)


def mosaic_colours(rng: Rng, width: int, height: int) -> Case:
    src = rng.integers(0, 256, (height, width), dtype=U8)
    padded = np.pad(src.astype(I32), 1, mode="reflect")

    def at(dx: int, dy: int) -> Array:
        return padded[1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]

    sides, ends = at(-1, 0) + at(1, 0), at(0, -1) + at(0, 1)
    corners = at(-1, -1) + at(1, -1) + at(-1, 1) + at(1, 1)
    y, x = np.mgrid[:height, :width]
    odd, green = y % 2 == 1, (x ^ y) % 2 == 1
    r = np.where(green, np.where(odd, ends, sides) >> 1, np.where(odd, corners >> 2, at(0, 0)))
    g = np.where(green, at(0, 0), sides + ends >> 2)
    b = np.where(green, np.where(odd, sides, ends) >> 1, np.where(odd, at(0, 0), corners >> 2))
    want = np.stack([r, g, b, np.full(src.shape, 255)], axis=2).astype(U8)
    args = (np.zeros(src.size * 4, U8), src.ravel(), I32(width), I32(height))
    grid = (-(-width // 32), -(-height // 8))
    return launch("pictures", "mosaic_colours", grid, (32, 8), args, {0: want.ravel()})


def planes_pixels(rng: Rng, width: int, height: int) -> Case:
    bright, colour = (
        rng.integers(0, 256, (height, width), dtype=U8),
        rng.integers(0, 256, (height // 2, width // 2, 2), dtype=U8),
    )
    u, v = (np.kron(colour[..., k].astype(I32) - 128, np.ones((2, 2), I32)) for k in range(2))
    c = 298 * (bright.astype(I32) - 16) + 128
    want = np.stack([c + 409 * v >> 8, c - 100 * u - 208 * v >> 8, c + 516 * u >> 8], axis=2)
    args = (np.zeros(bright.size * 3, U8), bright.ravel(), colour.ravel(), I32(width), I32(height))
    grid = (-(-width // 64), -(-height // 16))
    return launch("pictures", "planes_pixels", grid, (32, 8), args, {0: np.clip(want, 0, 255).astype(U8).ravel()})


def track_points(rng: Rng, n: int, width: int, height: int) -> Case:
    y, x = np.mgrid[:height, :width].astype(F64)
    waves = [(rng.uniform(0.1, 0.5, 2), rng.uniform(0, 6, 1), rng.random()) for _ in range(6)]
    one, two = (
        sum(a * np.sin(f[0] * (x - dx) + f[1] * (y - dy) + p) for f, p, a in waves).astype(F32)
        for dx, dy in ((0, 0), (0.6, -0.4))
    )
    points = (10 + rng.random((n, 2)) * (width - 20, height - 20)).astype(F32)

    def sample(image: Array, px: Array, py: Array) -> Array:
        px, py = np.clip(px, 0, width - 1.001), np.clip(py, 0, height - 1.001)
        x0, y0 = px.astype(int), py.astype(int)
        fx, fy = px - x0, py - y0
        top = image[y0, x0] * (1 - fx) + image[y0, x0 + 1] * fx
        return top * (1 - fy) + (image[y0 + 1, x0] * (1 - fx) + image[y0 + 1, x0 + 1] * fx) * fy

    k = np.arange(64)
    px, py = points[:, :1].astype(F64) + k % 8 - 3.5, points[:, 1:].astype(F64) + k // 8 - 3.5
    value = sample(one, px, py)
    gx, gy = (0.5 * (sample(one, px + a, py + b) - sample(one, px - a, py - b)) for a, b in ((1, 0), (0, 1)))
    xx, xy, yy = (gx * gx).sum(axis=1), (gx * gy).sum(axis=1), (gy * gy).sum(axis=1)
    scale, u, v = 1 / (xx * yy - xy * xy + 1e-6), np.zeros(n), np.zeros(n)
    for _ in range(4):
        off = value - sample(two, px + u[:, None], py + v[:, None])
        bx, by = (off * gx).sum(axis=1), (off * gy).sum(axis=1)
        u, v = u + (yy * bx - xy * by) * scale, v + (xx * by - xy * bx) * scale
    steady = xx * yy - xy * xy > 0.05

    def check(outputs: Outputs) -> None:
        """Where the picture has corners: elsewhere rounding leads points astray."""
        moved = np.asarray(outputs[0]).reshape(-1, 2)[steady]
        np.testing.assert_allclose(moved, np.stack([u, v], axis=1)[steady], rtol=2e-2, atol=2e-2)

    args = (np.zeros(n * 2, F32), points.ravel(), one.ravel(), two.ravel(), I32(n), I32(width), I32(height))
    return launch("pictures", "track_points", -(-n // 4), 128, args, check=check)


def match_bits(rng: Rng, n: int, listed: int) -> Case:
    queries, known = rng.integers(0, 1 << 63, (n, 4), dtype=U64), rng.integers(0, 1 << 63, (listed, 4), dtype=U64)
    want = np.zeros(n, I32)
    for at in range(0, n, 500):
        far = np.bitwise_count(queries[at : at + 500, None] ^ known[None]).sum(axis=2, dtype=I32)
        nearest = np.partition(far, 1, axis=1)[:, :2]
        want[at : at + 500] = far.argmin(axis=1) | nearest[:, 1] - nearest[:, 0] << 20
    args = (np.zeros(n, I32), queries.view(U32).ravel(), known.view(U32).ravel(), I32(n), I32(listed))
    return launch("pictures", "match_bits", -(-n // 128), 128, args, {0: want})


def equalise_tiles(rng: Rng, across: int, down: int) -> Case:
    src = np.clip(rng.normal(120, 30, (down * 64, across * 64)), 0, 255).astype(U8)
    tiles = src.reshape(down, 64, across, 64).swapaxes(1, 2)
    want = np.zeros_like(tiles)
    for y in range(down):
        for x in range(across):
            bins = np.bincount(tiles[y, x].ravel(), minlength=256)
            kept = np.minimum(bins, 60)
            sums = np.cumsum(kept + (bins - kept).sum() // 256)
            want[y, x] = np.minimum(sums * 255 // 4096, 255)[tiles[y, x]]
    args = (np.zeros(src.size, U8), src.ravel(), I32(across * 64), U32(60))
    return launch("pictures", "equalise_tiles", (across, down), 256, args, {0: want.swapaxes(1, 2).ravel()})


def back_project(rng: Rng, width: int, views: int) -> Case:
    detectors = width * 3 // 2
    seen = rng.random((views, detectors), F32)
    angles = np.arange(360) * np.pi / views
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(F32)
    y, x = np.mgrid[:width, :width] - 0.5 * (width - 1)
    want = np.zeros((width, width))
    for view in range(views):
        at = x * directions[view, 0].astype(F64) + y * directions[view, 1].astype(F64) + 0.5 * (detectors - 1)
        cell = np.floor(at).astype(int)
        inside, part = (cell >= 0) & (cell + 1 < detectors), at - cell
        low = np.clip(cell, 0, detectors - 2)
        want += np.where(inside, seen[view, low] * (1 - part) + seen[view, low + 1] * part, 0)
    args = (np.zeros(want.size, F32), seen.ravel(), I32(width), I32(detectors), I32(views))
    grid = (-(-width // 16), -(-width // 16))
    return launch(
        "pictures", "back_project", grid, (16, 16), args, {0: want.astype(F32).ravel()},
        rtol=1e-3, atol=1e-2, device_globals={"directions": directions},
    )  # fmt: skip


def raster_tiles(rng: Rng, triangles: int, width: int) -> Case:
    corners = np.clip(
        rng.integers(0, width, (triangles, 1, 2)) + rng.integers(-14, 15, (triangles, 3, 2)), 0, width - 1
    )
    one, two = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    corners = corners[one[:, 0] * two[:, 1] != one[:, 1] * two[:, 0]]
    depth, name = rng.integers(0, 1 << 14, len(corners)), np.arange(len(corners))
    want = np.full((width, width), 0xFFFFFFFF, U32)
    for c, key in zip(corners, depth << 16 | name, strict=True):
        (x0, y0), (x1, y1) = c.min(axis=0), c.max(axis=0)
        y, x = np.mgrid[y0 : y1 + 1, x0 : x1 + 1]
        turns = [
            (b[0] - a[0]) * (y - a[1]) - (b[1] - a[1]) * (x - a[0]) for a, b in zip(c, np.roll(c, -1, 0), strict=True)
        ]
        inside = np.all([t >= 0 for t in turns], axis=0) | np.all([t <= 0 for t in turns], axis=0)
        part = want[y0 : y1 + 1, x0 : x1 + 1]
        part[inside] = np.minimum(part[inside], U32(key))
    rest = np.concatenate([corners[:, 2], depth[:, None], name[:, None]], axis=1).astype(I32)
    args = (
        *(np.zeros(want.size, U32), corners[:, :2].astype(I32).ravel(), rest.ravel()),
        *(I32(len(corners)), I32(width)),
    )
    return launch("pictures", "raster_tiles", (width // 16, width // 16), 256, args, {0: want.ravel()})


def walk_voxels(rng: Rng, n: int, side: int) -> Case:
    filled = rng.random(side**3) < 0.01
    origins, ways = (rng.random((n, 4)) * side).astype(F32), normal(rng, (n, 4))
    origins = np.minimum(origins, F32(side - 0.01))
    places, one = origins[:, :3].astype(I32), F32(1)
    turn, each = np.where(ways[:, :3] < 0, -1, 1), np.abs(one / ways[:, :3])
    inside = np.where(ways[:, :3] < 0, origins[:, :3] - places, (places + 1).astype(F32) - origins[:, :3])
    following, found, going = inside * each, np.full(n, -1, I32), np.ones(n, bool)
    for step in range(3 * side + 1):
        going &= ((places >= 0) & (places < side)).all(axis=1)
        cell = np.where(going, (places[:, 2] * side + places[:, 1]) * side + places[:, 0], 0)
        hit = going & filled[cell]
        found[hit] = step
        going &= ~hit
        x, y, z = following.T
        axis = np.where((x < y) & (x < z), 0, np.where(y < z, 1, 2))
        rows = np.flatnonzero(going)
        places[rows, axis[rows]] += turn[rows, axis[rows]]
        following[rows, axis[rows]] += each[rows, axis[rows]]
    bits = np.packbits(filled, bitorder="little").view(U32)
    args = (np.zeros(n, I32), bits, origins.ravel(), ways.ravel(), I32(n), I32(side))
    return launch("pictures", "walk_voxels", -(-n // 128), 128, args, {0: found})


CASES: dict[str, Sized] = {
    "join_probe": sized(join_probe, {"built": 200, "probed": 500, "places": 512}, built=60000, probed=400000, places=1 << 17),
    "group_sums": sized(
        group_sums, {"n": 4000, "groups": 2000, "places": 4096, "grid": 2}, n=600000, groups=20000, places=1 << 16, grid=264
    ),
    "query_groups": sized(query_groups, {"n": 3000, "grid": 2}, n=1500000, grid=528),
    "parse_decimals": sized(parse_decimals, {"n": 600}, n=200000),
    "expand_tokens": sized(expand_tokens, {"chunks": 3}, chunks=1500),
    "range_decode": sized(range_decode, {"streams": 150, "length": 20}, streams=20000, length=128),
    "range_decode_one_block": sized(range_decode, {"streams": 70, "length": 20}, streams=128, length=1000),
    "field_parities": sized(field_parities, {"words": 200}, words=200000),
    "blake_records": sized(blake_records, {"n": 140}, n=40000),
    "bit_distances": sized(bit_distances, {"n": 250, "length": 40}, n=30000, length=96),
    "similar_means": sized(similar_means, {"width": 40, "height": 20}, width=640, height=480),
    "mosaic_colours": sized(mosaic_colours, {"width": 50, "height": 20}, width=1920, height=1080),
    "planes_pixels": sized(planes_pixels, {"width": 70, "height": 20}, width=1920, height=1080),
    "track_points": sized(track_points, {"n": 9, "width": 64, "height": 48}, n=4000, width=640, height=480),
    "match_bits": sized(match_bits, {"n": 200, "listed": 128}, n=12000, listed=1024),
    "equalise_tiles": sized(equalise_tiles, {"across": 1, "down": 2}, across=30, down=16),
    "back_project": sized(back_project, {"width": 32, "views": 9}, width=256, views=180),
    "raster_tiles": sized(raster_tiles, {"triangles": 300, "width": 48}, triangles=3000, width=480),
    "walk_voxels": sized(walk_voxels, {"n": 200, "side": 32}, n=40000, side=128),
}  # fmt: skip
