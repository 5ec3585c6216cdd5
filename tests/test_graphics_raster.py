"""Fixed functions of the graphics device against plain definitions of theirs: coverage, planes, clipping, depth, stencil, blending."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from warpwright.graphics import input_assembler, rop
from warpwright.graphics.clipping import _clip_polygons
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.formats import COLOUR_FORMATS, DEPTH_FORMATS
from warpwright.graphics.planes import line_planes, triangle_planes
from warpwright.graphics.raster import raster_lines, raster_rectangles, raster_triangles, sample_table
from warpwright.graphics.surface_layout import linear


def covered(x: Any, y: Any, size: int, samples: int = 1, room: int = 4096) -> list[Any]:
    """Masks of samples by triangle: arrays (size, size)."""
    quads, coverage = np.empty((room, 3), dtype=np.int64), np.empty(room, dtype=np.uint32)
    start = np.array([0, -1], dtype=np.int64)
    scissors = np.tile(np.array([0, 0, size, size], dtype=np.int64), (len(x), 1))
    out = [np.zeros((size + 1, size + 1), dtype=np.int64) for _ in range(len(x))]
    while start[0] < len(x):
        count = raster_triangles(x, y, scissors, sample_table(samples), start, quads, coverage)
        for (qx, qy, t), mask in zip(quads[:count].tolist(), coverage[:count].tolist(), strict=True):
            for p in range(4):
                assert not out[t][qy + (p >> 1), qx + (p & 1)]
                out[t][qy + (p >> 1), qx + (p & 1)] = mask >> 8 * p & 255
    return [image[:size, :size] for image in out]


def by_the_rule(x: Any, y: Any, size: int, samples: int) -> Any:
    """Coverage of one triangle, sample by sample, in Python's integers."""
    corners = list(zip(x.tolist(), y.tolist(), strict=True))
    area = (corners[1][0] - corners[0][0]) * (corners[2][1] - corners[0][1])
    area -= (corners[2][0] - corners[0][0]) * (corners[1][1] - corners[0][1])
    out = np.zeros((size, size), dtype=np.int64)
    if not area:
        return out
    if area < 0:
        corners = [corners[0], corners[2], corners[1]]
    py, px = np.mgrid[0:size, 0:size] * 256
    for s, (sx, sy) in enumerate(sample_table(samples).tolist()):
        inside = np.ones((size, size), dtype=bool)
        for a, b in ((0, 1), (1, 2), (2, 0)):
            (xa, ya), (xb, yb) = corners[a], corners[b]
            value = (xb - xa) * (py + sy - ya) - (yb - ya) * (px + sx - xa)
            owns = yb < ya or (yb == ya and xb > xa)
            inside &= (value > 0) | ((value == 0) & owns)
        out |= inside.astype(np.int64) << s
    return out


@pytest.mark.ci
@pytest.mark.parametrize("samples", [1, 2, 4, 8])
def test_coverage_is_that_of_the_rule(samples: int) -> None:
    rng = np.random.default_rng(samples)
    x, y = rng.integers(-2000, 14000, (60, 3)), rng.integers(-2000, 14000, (60, 3))
    # Corners on samples and on lattices: edges pass through samples exactly.
    x[:30], y[:30] = x[:30] // 128 * 128, y[:30] // 128 * 128
    x[:10], y[:10] = x[:10] // 256 * 256 + 128, y[:10] // 256 * 256 + 128
    for t, image in enumerate(covered(x, y, 48, samples, room=64)):
        assert (image == by_the_rule(x[t], y[t], 48, samples)).all()


def test_triangles_with_a_common_edge_share_no_sample_and_leave_none() -> None:
    rng = np.random.default_rng(9)
    for _ in range(50):
        corners = rng.integers(0, 48 * 64, (4, 2)) * 4
        middle = corners.sum(axis=0) // 4
        fan = [(middle, corners[i], corners[(i + 1) % 4]) for i in range(4)]
        hull = np.array([[p[0] for p in t] for t in fan]), np.array([[p[1] for p in t] for t in fan])
        area = [(t[1] - t[0])[0] * (t[2] - t[0])[1] - (t[1] - t[0])[1] * (t[2] - t[0])[0] for t in fan]
        if min(area) <= 0:
            continue
        assert sum(covered(*hull, 48)).max() == 1  # type: ignore[arg-type]


@pytest.mark.ci
def test_points_cover_the_samples_of_their_square() -> None:
    edges = np.array([[128, 128, 640, 384], [129, 129, 640, 384]], dtype=np.int64)
    scissors = np.array([[0, 0, 8, 8]] * 2, dtype=np.int64)
    quads, coverage = np.empty((64, 3), dtype=np.int64), np.empty(64, dtype=np.uint32)
    count = raster_rectangles(edges, scissors, sample_table(1), np.array([0, -1]), quads, coverage)
    pixels = sorted(
        (t, qx + (p & 1), qy + (p >> 1))
        for (qx, qy, t), mask in zip(quads[:count].tolist(), coverage[:count].tolist(), strict=True)
        for p in range(4)
        if mask >> 8 * p & 1
    )
    assert pixels == [(0, 0, 0), (0, 1, 0)]


def test_a_line_has_one_pixel_for_each_step() -> None:
    ends = np.array([[128, 128, 128 + 10 * 256, 128 + 4 * 256], [128 + 5 * 256, 128, 128, 128]], dtype=np.int64)
    quads, coverage = np.empty((64, 3), dtype=np.int64), np.empty(64, dtype=np.uint32)
    scissors = np.array([[0, 0, 64, 64]] * 2, dtype=np.int64)
    widths, stipple = np.ones(2, dtype=np.int64), np.zeros(4, dtype=np.int64)
    count = raster_lines(ends, widths, stipple, scissors, 1, np.array([0, -1]), quads, coverage)
    pixels: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    for (qx, qy, t), mask in zip(quads[:count].tolist(), coverage[:count].tolist(), strict=True):
        bit = mask.bit_length() - 1 >> 3
        pixels[t].append((qx + (bit & 1), qy + (bit >> 1)))
    assert pixels[0] == [(i, (128 + i * 1024 // 10) // 256) for i in range(10)]
    assert pixels[1] == [(5, 0), (4, 0), (3, 0), (2, 0), (1, 0)]


def test_planes_pass_through_the_corners() -> None:
    rng = np.random.default_rng(4)
    x, y, values = rng.integers(0, 1 << 16, (40, 3)), rng.integers(0, 1 << 16, (40, 3)), rng.normal(0, 5, (40, 3, 6))
    planes = np.zeros((40, 6, 3))
    triangle_planes(x, y, values, planes)
    for corner in range(3):
        dx, dy = (x[:, corner] - x[:, 0]) / 256, (y[:, corner] - y[:, 0]) / 256
        at = planes[:, :, 0] * dx[:, None] + planes[:, :, 1] * dy[:, None] + planes[:, :, 2]
        assert np.allclose(at, values[:, corner], atol=1e-6)
    line_planes(x[:, :2], y[:, :2], values[:, :2], planes)
    dx, dy = (x[:, 1] - x[:, 0]) / 256, (y[:, 1] - y[:, 0]) / 256
    at = planes[:, :, 0] * dx[:, None] + planes[:, :, 1] * dy[:, None] + planes[:, :, 2]
    assert np.allclose(at, values[:, 1])


@pytest.mark.ci
def test_clipping_keeps_what_is_inside_of_all_planes() -> None:
    rng = np.random.default_rng(6)
    distances = rng.normal(0, 1, (300, 3, 3))
    weights, counts = np.zeros((300, 8, 3)), np.zeros(300, dtype=np.int64)
    _clip_polygons(distances, weights, counts, False)
    for p in range(300):
        kept = weights[p, : counts[p]] @ distances[p]
        assert (kept > -1e-9).all()
        assert np.allclose(weights[p, : counts[p]].sum(axis=1), 1)
        if (distances[p] >= 0).all():
            assert counts[p] == 3
        if (distances[p] < 0).all(axis=0).any():
            assert counts[p] == 0


@pytest.mark.parametrize(
    ("kind", "count", "last", "expected", "provoking"),
    [
        (input_assembler.TRIANGLE_STRIP, 5, True, [[0, 1, 2], [2, 1, 3], [2, 3, 4]], [2, 3, 4]),
        (input_assembler.TRIANGLE_STRIP, 5, False, [[0, 1, 2], [1, 3, 2], [2, 3, 4]], [0, 1, 2]),
        (input_assembler.TRIANGLE_FAN, 5, True, [[0, 1, 2], [0, 2, 3], [0, 3, 4]], [2, 3, 4]),
        (input_assembler.QUADS, 5, True, [[0, 1, 3], [1, 2, 3]], [3, 3]),
        (input_assembler.LINE_LOOP, 3, True, [[0, 1], [1, 2], [2, 0]], [1, 2, 0]),
        (input_assembler.LINES, 5, False, [[0, 1], [2, 3]], [0, 2]),
        (input_assembler.POLYGON, 4, True, [[0, 1, 2], [0, 2, 3]], [0, 0]),
        (input_assembler.TRIANGLES_ADJACENCY, 7, True, [[0, 1, 2, 3, 4, 5]], [4]),
        (input_assembler.LINE_STRIP_ADJACENCY, 5, True, [[0, 1, 2, 3], [1, 2, 3, 4]], [2, 3]),
    ],
)
def test_primitives_of_each_type(
    kind: int, count: int, last: bool, expected: list[list[int]], provoking: list[int]
) -> None:
    made = input_assembler.assemble(kind, np.arange(count), last)
    assert made.vertices.tolist() == expected
    assert made.provoking.tolist() == provoking


def test_an_index_begins_a_new_strip() -> None:
    made = input_assembler.assemble(input_assembler.TRIANGLE_STRIP, np.array([0, 1, 2, -1, 3, 4, 5, 6]), True)
    assert made.vertices.tolist() == [[0, 1, 2], [3, 4, 5], [5, 4, 6]]
    assert made.numbers.tolist() == [0, 1, 2]


@pytest.mark.ci
def test_vertices_as_words_have_the_numbers_and_restarts_that_are_sent_between_them() -> None:
    """As the driver sends client arrays: VERTEX_ID_BASE before a vertex, and the restart index as an element."""
    engine = GraphicsDevice(1 << 20, 8, 2).three_d
    whole_numbers = 0x5AE8_0000
    for name, value in (
        ("VERTEX_ARRAY_ATTRIB", whole_numbers),
        ("VP_ATTR_EN", 1),
        ("VP_GP_BUILTIN_ATTR_EN", 1),
        ("PRIM_RESTART_ENABLE", 1),
        ("PRIM_RESTART_INDEX", 255),
    ):
        engine.registers[engine.table.offsets[name] // 4] = value
    assembly = input_assembler.Assembly()
    assembly.begin(input_assembler.TRIANGLE_STRIP)
    for number in range(7):
        if number == 3:
            assembly.add_elements(np.array([255]))
        assembly.add_vertex_words(np.array([100 + number], np.uint32), 5 * number)
    found = input_assembler.collect(engine, engine.memory, assembly, 0)
    assert found.inputs[:, 0].copy().view(np.float32).tolist() == [100, 101, 102, 103, 104, 105, 106]
    assert found.inputs[:, 1].tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert found.order.tolist() == [0, 1, 2, -1, 3, 4, 5, 6]
    engine.registers[engine.table.offsets["PRIM_RESTART_INDEX"] // 4] = 254
    assert input_assembler.collect(engine, engine.memory, assembly, 0).order.tolist() == [0, 1, 2, 3, 4, 5, 6]


# --- raster operations --------------------------------------------------------------------------------
def one_row(pixels: int, size: int) -> tuple[Any, rop.Surface, Any]:
    """Memory with one row of pixels, its surface, and quads over it of which only the upper left pixel is used."""
    layout = linear(0, 4096, 2)
    table = np.zeros((1, 2), dtype=np.int64)
    quads = np.stack([np.arange(pixels) * 2, np.zeros(pixels, np.int64), np.zeros(pixels, np.int64)], axis=1)
    return np.zeros(8192, dtype=np.uint8), (layout.key(), size, (2 * pixels, 2, 1, 1), table), quads


@pytest.mark.ci
@pytest.mark.parametrize("function", range(8))
@pytest.mark.parametrize("number", sorted(DEPTH_FORMATS))
def test_depth_is_compared_and_written(number: int, function: int) -> None:
    form = DEPTH_FORMATS[number]
    memory, surface, quads = one_row(3, form.size)
    words = np.zeros(19, dtype=np.int64)
    words[:3] = 1, function, 1
    always = words.copy()
    always[1] = rop.ALWAYS
    bounds, front = np.zeros(2), np.ones(1, dtype=bool)

    def draw(depths: list[float], state: Any) -> list[bool]:
        coverage = np.ones(3, dtype=np.uint32)
        z = np.zeros((12, 1), dtype=np.float32)
        z[::4, 0] = depths
        rop.depth_stencil(memory, surface, form.table(), quads, coverage, z, front, (state, bounds))
        return [bool(c) for c in coverage]

    assert draw([0.5, 0.5, 0.5], always) == [True] * 3
    comparisons = {
        0: (False, False, False),
        1: (True, False, False),
        2: (False, True, False),
        3: (True, True, False),
        4: (False, False, True),
        5: (True, False, True),
        6: (False, True, True),
        7: (True, True, True),
    }
    assert tuple(draw([0.25, 0.5, 0.75], words)) == comparisons[function]
    equal = always.copy()
    equal[1:3] = rop.EQUAL, 0
    now = [new if passed else 0.5 for new, passed in zip((0.25, 0.5, 0.75), comparisons[function], strict=True)]
    assert draw(now, equal) == [True] * 3


@pytest.mark.ci
def test_stencil_operations_of_both_sides() -> None:
    form = DEPTH_FORMATS[0x16]
    memory, surface, quads = one_row(1, 4)
    operations = {0: 0, 1: 0xFF - 0x12, 2: 0x12, 3: 0x34, 4: 0x13, 5: 0x11, 6: 0x13, 7: 0x11}
    for code, expected in operations.items():
        for side, is_front in ((4, True), (11, False)):
            memory[:] = 0
            memory[3] = 0x12
            words = np.zeros(19, dtype=np.int64)
            words[3] = 1
            for at in (4, 11):
                words[at : at + 7] = rop.ALWAYS, 0x34, 255, 255, 2, 2, 2
            words[side + 6] = code
            coverage = np.ones(1, dtype=np.uint32)
            z = np.zeros((4, 1), dtype=np.float32)
            state = (words, np.zeros(2))
            rop.depth_stencil(memory, surface, form.table(), quads, coverage, z, np.array([is_front]), state)
            assert memory[3] == expected
    words[side] = rop.LESS
    words[side + 3], words[side + 4] = 0x0F, 1
    memory[3] = 0x12
    rop.depth_stencil(memory, surface, form.table(), quads, coverage, z, np.array([False]), (words, np.zeros(2)))
    assert memory[3] == 0x1D, "only bits of the write mask change"
    assert not coverage[0]


def blend(source: Any, target: Any, factors: tuple[int, int], equation: int, number: int = 0xC0) -> Any:
    form = COLOUR_FORMATS[number]
    memory, surface, quads = one_row(1, form.size)
    from warpwright.graphics.formats import decode, encode

    memory[: form.size] = encode(np.array(target, np.float32), form)
    words = np.array([1, equation, *factors, equation, *factors, -1, 15, 0, 0, 0], dtype=np.int64)
    colours = np.tile(np.array(source, np.float32), (4, 1))
    constant = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    seconds = np.tile(np.array([0.9, 0.8, 0.7, 0.6], np.float32), (4, 1))
    coverage = np.ones(1, dtype=np.uint32)
    rop.write_colours(memory, surface, form.table(), quads, coverage, colours, seconds, (words, constant))
    return decode(memory[: form.size], form)


@pytest.mark.ci
def test_factors_and_equations_of_blending() -> None:
    s, d = np.array([0.5, 0.25, 1.5, 0.75], np.float32), np.array([0.125, 0.5, 0.75, 0.5], np.float32)
    c, t = np.array([0.1, 0.2, 0.3, 0.4], np.float32), np.array([0.9, 0.8, 0.7, 0.6], np.float32)
    one = np.float32(1)
    saturated = np.array([min(s[3], one - d[3])] * 3 + [1], np.float32)
    values = [0 * s, 0 * s + one, s, one - s, s[3], one - s[3], d[3], one - d[3], d, one - d, saturated]
    values += [c, one - c, c[3], one - c[3], t, one - t, t[3], one - t[3]]
    for a, fa in enumerate(values):
        for b, fb in ((1, values[1]), (5, values[5])):
            assert np.allclose(blend(s, d, (a, b), 0), s * fa + d * fb, atol=1e-6)
    assert np.allclose(blend(s, d, (1, 1), 3), s - d)
    assert np.allclose(blend(s, d, (1, 1), 4), d - s)
    assert np.allclose(blend(s, d, (0, 0), 1), np.minimum(s, d))
    assert np.allclose(blend(s, d, (0, 0), 2), np.maximum(s, d))


@pytest.mark.ci
def test_logic_operations_are_the_sixteen_of_opengl() -> None:
    form = COLOUR_FORMATS[0xD5]
    source, target = 0b1100, 0b1010
    truth = [
        0,
        source & target,
        source & ~target,
        source,
        ~source & target,
        target,
        source ^ target,
        source | target,
        ~(source | target),
        ~(source ^ target),
        ~target,
        source | ~target,
        ~source,
        ~source | target,
        ~(source & target),
        -1,
    ]
    for operation, expected in enumerate(truth):
        memory, surface, quads = one_row(1, 4)
        memory[:4] = target
        words = np.array([0, 0, 0, 0, 0, 0, 0, operation, 7, 1, 0, 0], dtype=np.int64)
        colours = np.full((4, 4), source / 255, dtype=np.float32)
        coverage = np.ones(1, dtype=np.uint32)
        rop.write_colours(
            memory, surface, form.table(), quads, coverage, colours, colours, (words, np.zeros(4, np.float32))
        )
        assert memory[:4].tolist() == [expected & 255] * 3 + [target], operation
