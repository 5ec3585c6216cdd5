"""Look-ups and walks that data decides, and integers at work: hashes, transforms, packed streams."""

from __future__ import annotations

import hashlib
import heapq

import numpy as np

from bench.holdout.case import Array, Case, Outputs, Sized, launch, sized

I32, I64, F32, F64, U16, U32, U64, U8 = (
    *(np.int32, np.int64, np.float32, np.float64),
    *(np.uint16, np.uint32, np.uint64, np.uint8),
)
Rng = np.random.Generator


def tree_find(rng: Rng, queries: int, levels: int) -> Case:
    leaves = 64**levels  # nodes of the last level; each has 64 keys
    sorted_keys = np.sort(rng.choice(1 << 28, leaves * 64, replace=False)).astype(I32)
    sorted_keys[0] = 0
    keys, children, values = [], [], []
    for level in range(levels + 1):
        nodes = 64**level
        lows = sorted_keys.reshape(nodes, 64, -1)[:, :, 0]
        ends = np.append(lows[1:, 0], np.iinfo(I32).max)
        keys.append(np.column_stack([lows, ends]))
        first = sum(64**k for k in range(level + 1))
        children.append(first + np.arange(nodes * 64).reshape(nodes, 64))
        values.append(lows * 3 + 1)
    wanted = rng.choice(sorted_keys, queries).astype(I32)
    wanted[::7] += 1
    at = np.searchsorted(sorted_keys, wanted)
    found = sorted_keys[np.minimum(at, sorted_keys.size - 1)] == wanted
    args = (
        np.zeros(queries, I32),
        *(np.concatenate([p.astype(I32).ravel() for p in parts]) for parts in (keys, children, values)),
        *(wanted, I32(levels)),
    )
    return launch("lookups", "tree_find", queries, 64, args, {0: np.where(found, wanted * 3 + 1, -1).astype(I32)})


def cross_sections(rng: Rng, lookups: int, nuclides: int, points: int) -> Case:
    energy = np.sort(rng.random((nuclides, points)), axis=1)
    energy[:, 0], energy[:, -1] = 0.0, 1.0
    data = np.concatenate([energy[..., None], rng.random((nuclides, points, 5))], axis=-1)
    union = np.sort(energy.ravel())
    index = np.stack([np.searchsorted(e, union, "right") - 1 for e in energy], axis=1).clip(0, points - 2)
    sizes = np.array([34, 5, 4, 4, 27, 21, 21, 21, 21, 9, 9, 9])
    sizes = np.minimum(sizes, nuclides)
    first = np.concatenate(([0], np.cumsum(sizes)))
    members = np.concatenate([rng.choice(nuclides, s, replace=False) for s in sizes])
    table, density = np.zeros(192, I32), rng.random(192)
    table[: members.size] = members
    wanted, materials = rng.random(lookups), rng.choice(12, lookups, p=np.array([14, 5, 5, 13, 15, *[7] * 6, 6]) / 100)
    low = np.clip(np.searchsorted(union, wanted, "right") - 1, 0, union.size - 2)
    want = np.zeros((lookups, 5))
    for m in range(12):
        mine = materials == m
        for k in range(first[m], first[m + 1]):
            at = index[low[mine], members[k]]
            below, above = data[members[k], at], data[members[k], at + 1]
            f = (above[:, 0] - wanted[mine]) / (above[:, 0] - below[:, 0])
            want[mine] += (above[:, 1:] - f[:, None] * (above[:, 1:] - below[:, 1:])) * density[k]
    args = (
        *(np.zeros(want.size), union, index.astype(I32).ravel(), data.ravel(), wanted, materials.astype(I32)),
        *(I32(lookups), I32(union.size), I32(nuclides), I32(points)),
    )
    contents = {
        "material_first": first.astype(I32),
        "material_nuclides": table,
        "material_density": density,
    }
    return launch(
        "lookups", "cross_sections", -(-lookups // 256), 256, args, {0: want.ravel()},
        rtol=1e-9, atol=1e-9, device_globals=contents,
    )  # fmt: skip


NODE = np.dtype([("low", F32, 3), ("left", I32), ("high", F32, 3), ("count", I32)])


def boxes(spheres: Array) -> tuple[Array, Array]:
    """A tree of boxes over spheres (x, y, z, radius), cut at the median of the widest axis; nodes and the spheres in its order."""
    nodes, order = np.zeros(1, NODE), np.arange(len(spheres))
    pending = [(0, 0, len(spheres))]
    while pending:
        at, begin, end = pending.pop()
        mine = spheres[order[begin:end]]
        low, high = (mine[:, :3] - mine[:, 3:]).min(axis=0), (mine[:, :3] + mine[:, 3:]).max(axis=0)
        nodes[at]["low"], nodes[at]["high"] = low, high
        if end - begin <= 4:
            nodes[at]["left"], nodes[at]["count"] = begin, end - begin
            continue
        axis = int((high - low).argmax())
        order[begin:end] = order[begin:end][np.argsort(mine[:, axis], kind="stable")]
        left, middle = len(nodes), (begin + end) // 2
        nodes = np.concatenate([nodes, np.zeros(2, NODE)])
        nodes[at]["left"] = left
        pending += [(left, begin, middle), (left + 1, middle, end)]
    return nodes, spheres[order]


def trace_boxes(rng: Rng, rays: int, count: int) -> Case:
    spheres = np.column_stack([rng.random((count, 3)) * 20 - 10, 0.05 + rng.random(count) * 0.3]).astype(F32)
    nodes, spheres = boxes(spheres)
    origin = np.broadcast_to(np.array([0, 0, -30], F32), (rays, 3))
    target = rng.random((rays, 3)) * 18 - 9
    target[:, 2] = 0
    direction = target - origin
    direction = (direction / np.linalg.norm(direction, axis=1, keepdims=True)).astype(F32)
    nearest, second = np.full(rays, 1e30), np.full(rays, 1e30)
    who = np.full(rays, -1)
    for s in range(count):
        to = spheres[s, :3].astype(F64) - origin
        along = (to * direction).sum(axis=1)
        inside = spheres[s, 3] ** 2 - ((to * to).sum(axis=1) - along**2)
        t = np.where(inside > 0, along - np.sqrt(np.maximum(inside, 0)), 1e30)
        t = np.where(t > 0, t, 1e30)
        second = np.minimum(second, np.maximum(nearest, t))
        closer = t < nearest
        nearest, who = np.where(closer, t, nearest), np.where(closer, s, who)

    def check(outputs: Outputs) -> None:
        """Rays that graze a sphere may miss it: rounding decides."""
        hit, distance = np.asarray(outputs[0]), np.asarray(outputs[1])
        agree = hit == who
        if agree.mean() < 0.995:
            raise AssertionError(f"trace_boxes: {(~agree).sum()} of {rays} rays hit other spheres")
        np.testing.assert_allclose(distance[agree & (who >= 0)], nearest[agree & (who >= 0)], rtol=1e-3)

    args = (
        *(np.zeros(rays, I32), np.zeros(rays, F32), nodes.view(U8).ravel(), spheres.ravel()),
        *(np.column_stack([origin, direction]).astype(F32).ravel(), I32(rays)),
    )
    return launch("lookups", "trace_boxes", -(-rays // 128), 128, args, check=check)


def place_queens(rng: Rng, board: int) -> Case:
    full, starts, counts = (1 << board) - 1, [], []

    def solutions(row: int, columns: int, left: int, right: int) -> int:
        if row == board:
            return 1
        total, open_places = 0, full & ~(columns | left | right)
        while open_places:
            bit = open_places & -open_places
            open_places ^= bit
            total += solutions(row + 1, columns | bit, (left | bit) << 1, (right | bit) >> 1)
        return total

    for a in range(board):
        for b in range(board):
            for c in range(board):
                if len({a, b, c}) < 3 or abs(a - b) == 1 or abs(b - c) == 1 or abs(a - c) == 2:
                    continue
                columns = 1 << a | 1 << b | 1 << c
                left, right = (1 << a << 3 | 1 << b << 2 | 1 << c << 1), (1 << a >> 3 | 1 << b >> 2 | 1 << c >> 1)
                starts.append((columns, left & 0xFFFFFFFF, right))
                counts.append(solutions(3, columns, left, right))
    order = rng.permutation(len(starts))
    given = np.array(starts, U32)[order]
    args = (np.zeros(len(starts), U32), given.ravel(), I32(len(starts)), I32(board), I32(3))
    return launch("lookups", "place_queens", -(-len(starts) // 64), 64, args, {0: np.array(counts, U32)[order]})


def viterbi_path(rng: Rng, sequences: int, steps: int) -> Case:
    transition, emission = rng.integers(0, 4000, (64, 64), dtype=I32), rng.integers(0, 4000, (64, 32), dtype=I32)
    seen = rng.integers(0, 32, (sequences, steps), dtype=U8)
    cost, back = emission[:, seen[:, 0]].T, np.zeros((sequences, steps, 64), U8)
    for s in range(1, steps):
        into = cost[:, :, None] + transition
        back[:, s] = into.argmin(axis=1)
        cost = into.min(axis=1) + emission[:, seen[:, s]].T
    path, at = np.zeros((sequences, steps), U8), cost.argmin(axis=1)
    for s in range(steps - 1, -1, -1):
        path[:, s] = at
        at = back[np.arange(sequences), s, at]
    args = (
        *(np.zeros(path.size, U8), np.zeros(back.size, U8), transition.ravel(), emission.ravel(), seen.ravel()),
        I32(steps),
    )
    return launch("lookups", "viterbi_path", sequences, 64, args, {0: path.ravel(), 1: back.ravel()})


def perlin_octaves(rng: Rng, width: int, height: int, octaves: int) -> Case:
    shuffled = np.tile(rng.permutation(256).astype(U8), 2)
    table, scale = shuffled.astype(I64), F32(0.031)

    def gradient(h: Array, x: Array, y: Array) -> Array:
        u, v = np.where(h & 1, -x, x), np.where(h & 2, -y, y)
        return np.where(h & 4, u + v, np.where(h & 8, u, v))

    want, weight = np.zeros((height, width)), 1.0
    for _ in range(octaves):
        px, py = np.meshgrid(np.arange(width, dtype=F32) * scale, np.arange(height, dtype=F32) * scale)
        fx, fy = np.floor(px), np.floor(py)
        cx, cy, px, py = fx.astype(I64) & 255, fy.astype(I64) & 255, px - fx, py - fy
        u, v = (p * p * p * (p * (p * 6 - 15) + 10) for p in (px, py))
        a, b = table[cx] + cy, table[cx + 1] + cy
        low, low1 = gradient(table[a & 511], px, py), gradient(table[b & 511], px - 1, py)
        high, high1 = gradient(table[(a + 1) & 511], px, py - 1), gradient(table[(b + 1) & 511], px - 1, py - 1)
        low, high = low + u * (low1 - low), high + u * (high1 - high)
        want += weight * (low + v * (high - low))
        weight, scale = weight / 2, scale * F32(2)
    args = (np.zeros(want.size, F32), I32(width), I32(octaves), F32(0.031))
    return launch(
        "lookups", "perlin_octaves", (width // 32, height // 8), (32, 8), args, {0: want.astype(F32).ravel()},
        rtol=1e-3, atol=1e-3, device_globals={"shuffled": shuffled},
    )  # fmt: skip


def classify_cubes(rng: Rng, nx: int, ny: int, nz: int) -> Case:
    z, y, x = np.meshgrid(*(np.linspace(0, 7, n + 1) for n in (nz, ny, nx)), indexing="ij")
    field = (np.sin(x) * np.cos(y) + np.sin(y) * np.cos(z) + np.sin(z) * np.cos(x)).astype(F32)
    bits = np.zeros((nz, ny, nx), I32)
    for k in range(8):
        dx, dy, dz = k & 1, k >> 1 & 1, k >> 2
        bits |= (field[dz : dz + nz, dy : dy + ny, dx : dx + nx] < F32(0.3)).astype(I32) << k
    some = ((bits != 0) & (bits != 255)).reshape(-1, 32)
    each = np.unpackbits(bits.astype(U8).reshape(-1, 32), axis=1).sum(axis=1)
    corners = each[some.any(axis=1)].sum()
    args = (
        *(np.zeros(bits.size, U8), np.zeros(bits.size // 32, I32), np.zeros(1, U64), field.ravel()),
        *(I32(nx), I32(ny), F32(0.3)),
    )
    expected = {0: bits.astype(U8).ravel(), 1: some.sum(axis=1).astype(I32), 2: np.array([corners], U64)}
    return launch("lookups", "classify_cubes", (nx // 32, ny // 4, nz), (32, 4), args, expected)


def resample_walk(rng: Rng, n: int) -> Case:
    weights = rng.random(n) ** 4
    cumulated = np.cumsum(weights / weights.sum()).astype(F32)
    positions, first = rng.random(n, F32), F32(0.3 / n)
    draws = first + np.arange(n, dtype=F32) / F32(n)
    at = np.minimum(np.searchsorted(cumulated, draws, "left"), n - 1).astype(I32)
    args = (np.zeros(n, I32), np.zeros(n, F32), cumulated, positions, I32(n), first)
    return launch("lookups", "resample_walk", -(-n // 128), 128, args, {0: at, 1: positions[at]})


def centre_gain(rng: Rng, n: int, centres: int) -> Case:
    points, weights = rng.random((32, n), F32), rng.integers(1, 4, n).astype(F32)
    costs, who = rng.random(n, F32) * F32(12), rng.integers(0, centres, n, dtype=I32)
    limits, candidate = rng.random(centres, F32) * F32(6), n // 3
    cost = ((points - points[:, candidate, None]).astype(F64) ** 2).sum(axis=0) * weights
    move = cost < costs
    gain = np.where(move, cost - costs, np.maximum(0, costs - limits[who]))

    def check(outputs: Outputs) -> None:
        clear = np.abs(cost - costs) > 1e-4
        np.testing.assert_array_equal(np.asarray(outputs[1])[clear], move[clear])
        np.testing.assert_allclose(np.asarray(outputs[0])[clear], gain[clear], rtol=1e-4, atol=1e-4)

    args = (
        *(np.zeros(n, F32), np.zeros(n, U8), points.ravel(), weights, costs, who, limits),
        *(I32(n), I32(candidate)),
    )
    return launch("lookups", "centre_gain", -(-n // 256), 256, args, check=check)


def keccak_rounds() -> Array:
    """The 24 round constants, from their shift register."""
    constants, register = [], 1
    for _ in range(24):
        value = 0
        for j in range(7):
            if register & 1:
                value |= 1 << ((1 << j) - 1)
            register = (register << 1) ^ ((register >> 7) * 0x171)
        constants.append(value)
    return np.array(constants, U64)


def sha3_blocks(rng: Rng, n: int) -> Case:
    text = rng.integers(0, 256, (n, 100), dtype=U8)
    block = np.zeros((n, 136), U8)
    block[:, :100], block[:, 100] = text, 6
    block[:, 135] |= 0x80
    words = np.ascontiguousarray(block.view(U64).T)
    want = np.stack([np.frombuffer(hashlib.sha3_256(row.tobytes()).digest(), U64) for row in text]).T
    args = (np.zeros(4 * n, U64), words.ravel(), I32(n))
    return launch(
        "numbers", "sha3_blocks", -(-n // 128), 128, args, {0: want.ravel()},
        device_globals={"keccak_rounds": keccak_rounds()},
    )  # fmt: skip


GOLDILOCKS = 2**64 - 2**32 + 1


def ntt_shared(rng: Rng, transforms: int) -> Case:
    data = rng.integers(0, GOLDILOCKS, (transforms, 1024), dtype=U64)
    root = pow(7, (GOLDILOCKS - 1) // 1024, GOLDILOCKS)
    roots = [pow(root, k, GOLDILOCKS) for k in range(512)]
    reversed_bits = np.array([int(f"{i:010b}"[::-1], 2) for i in range(1024)])
    x, half = data[:, reversed_bits].astype(object), 1
    while half < 1024:
        pairs = x.reshape(transforms, -1, 2, half)
        b = pairs[:, :, 1] * np.array(roots[:: 512 // half], object) % GOLDILOCKS
        x = np.stack([(pairs[:, :, 0] + b) % GOLDILOCKS, (pairs[:, :, 0] - b) % GOLDILOCKS], axis=2)
        half *= 2
    want = x.reshape(-1).astype(U64)
    return launch("numbers", "ntt_shared", transforms, 256, (data.ravel(), np.array(roots, U64)), {0: want})


def montgomery_squares(rng: Rng, n: int, rounds: int) -> Case:
    prime = 2**255 - 19
    inverse = -pow(prime, -1, 2**32) % 2**32
    words = rng.integers(0, 1 << 32, (n, 8), dtype=U32)
    words[:, 7] &= U32(0x3FFFFFFF)
    back = pow(2**256, -1, prime)
    numbers = [int.from_bytes(row.tobytes(), "little") for row in words]
    for _ in range(rounds):
        numbers = [v * v * back % prime for v in numbers]
    want = np.stack([np.frombuffer(v.to_bytes(32, "little"), U32) for v in numbers]).T
    modulus = np.frombuffer(prime.to_bytes(32, "little"), U32)
    args = (np.ascontiguousarray(words.T).ravel(), modulus.copy(), U32(inverse), I32(n), I32(rounds))
    return launch("numbers", "montgomery_squares", -(-n // 128), 128, args, {0: want.ravel()})


def unpack_deltas(rng: Rng, blocks: int) -> Case:
    widths, bases = rng.integers(1, 33, blocks).astype(U8), rng.integers(0, 1 << 31, blocks, dtype=U32)
    first, packed, want = [], [], []
    at = 0
    for width, base in zip(widths.tolist(), bases.tolist(), strict=True):
        deltas = rng.integers(0, 1 << width, 1024, dtype=U64)
        bits = (deltas[:, None] >> np.arange(width, dtype=U64) & U64(1)).astype(U8)
        words = np.packbits(bits.ravel(), bitorder="little").view(U32)
        first.append(at)
        packed.append(words)
        at += words.size
        want.append((np.cumsum(deltas) + U64(base)).astype(U32))
    stream = np.concatenate([*packed, np.zeros(1, U32)])
    args = (np.zeros(blocks * 1024, U32), stream, np.array(first, I32), bases, widths)
    return launch("numbers", "unpack_deltas", blocks, 256, args, {0: np.concatenate(want)})


def code_lengths(weights: Array) -> list[int]:
    """Lengths of a Huffman code."""
    heap = [(float(w), k, [k]) for k, w in enumerate(weights)]
    lengths = [0] * len(heap)
    heapq.heapify(heap)
    while len(heap) > 1:
        (a, _, left), (b, k, right) = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in left + right:
            lengths[symbol] += 1
        heapq.heappush(heap, (a + b, k, left + right))
    return lengths


def huffman_chunks(rng: Rng, chunks: int, symbols: int) -> Case:
    weights = 1.0 / (1.0 + np.arange(48)) ** 1.1
    lengths = np.array(code_lengths(weights))
    if lengths.max() > 10:
        raise ValueError("a code is longer than the table's ten bits")
    codes, table, code = np.zeros(48, U64), np.zeros(1024, U16), 0
    for symbol in np.argsort(lengths, kind="stable"):
        length = int(lengths[symbol])
        codes[symbol] = code >> (10 - length)
        table[code : code + (1 << (10 - length))] = length << 8 | int(symbol)
        code += 1 << (10 - length)
    text = rng.choice(48, (chunks, symbols), p=weights / weights.sum()).astype(U8)
    first, words, at = [], [], 0
    for row in text:
        bits = "".join(f"{codes[s]:0{lengths[s]}b}" for s in row)
        bits += "0" * (-len(bits) % 32)
        stream = np.frombuffer(int(bits, 2).to_bytes(len(bits) // 8, "big"), ">u4").astype(U32)
        first.append(at)
        words.append(stream)
        at += stream.size
    args = (
        *(np.zeros(text.size, U8), np.concatenate([*words, np.zeros(2, U32)]), np.array(first, I32), table),
        *(I32(chunks), I32(symbols)),
    )
    return launch("numbers", "huffman_chunks", -(-chunks // 128), 128, args, {0: text.ravel()})


CASES: dict[str, Sized] = {
    "tree_find": sized(tree_find, {"queries": 9, "levels": 1}, queries=12000, levels=2),
    "cross_sections": sized(cross_sections, {"lookups": 300, "nuclides": 12, "points": 20}, lookups=40000, nuclides=68, points=800),
    "trace_boxes": sized(trace_boxes, {"rays": 150, "count": 60}, rays=12000, count=1000),
    "place_queens": sized(place_queens, {"board": 6}, board=10),
    "viterbi_path": sized(viterbi_path, {"sequences": 2, "steps": 6}, sequences=200, steps=48),
    "viterbi_path_one_block": sized(viterbi_path, {"steps": 5}, sequences=1, steps=200),
    "perlin_octaves": sized(perlin_octaves, {"width": 32, "height": 8}, width=512, height=384, octaves=5),
    "classify_cubes": sized(classify_cubes, {"nx": 32, "ny": 4, "nz": 3}, nx=128, ny=96, nz=112),
    "resample_walk": sized(resample_walk, {"n": 300}, n=4000),
    "centre_gain": sized(centre_gain, {"n": 500}, n=100000, centres=300),
    "sha3_blocks": sized(sha3_blocks, {"n": 40}, n=40000),
    "ntt_shared": sized(ntt_shared, {"transforms": 1}, transforms=200),
    "montgomery_squares": sized(montgomery_squares, {"n": 50, "rounds": 2}, n=20000, rounds=6),
    "unpack_deltas": sized(unpack_deltas, {"blocks": 3}, blocks=3000),
    "huffman_chunks": sized(huffman_chunks, {"chunks": 140, "symbols": 30}, chunks=16000, symbols=100),
}  # fmt: skip
