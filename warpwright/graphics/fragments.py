"""From primitives to the framebuffer: raster, early or late depth, pixel programs, and colours, in batches of quads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics import draw_programs, rop, targets
from warpwright.graphics.coverage_samples import MODES, CoverageMode, pairs_of, write_coverage
from warpwright.graphics.fragment_state import FragmentState
from warpwright.graphics.input_assembler import Primitives
from warpwright.graphics.planes import sample_depths
from warpwright.graphics.pushbuffer import CommandError
from warpwright.graphics.raster import (
    BATCH_QUADS,
    Quads,
    raster_lines,
    raster_rectangles,
    raster_triangles,
    sample_table,
)
from warpwright.graphics.setup import SetUp, line_width, prepare
from warpwright.graphics.smooth import is_smooth, outlines, raster_shares
from warpwright.graphics.state_3d import State3D

_MULTIPLE_RESULTS, _EXPORTS_DEPTH, _DISCARDS = 1, 1 << 8, 1 << 20
"""Bits of FP_CONTROL."""
_ALPHA_TO_COVERAGE, _ALPHA_TO_ONE = 1, 1 << 4
_INSIDE_ANY, _OUTSIDE_ALL = 0, 1
_STIPPLE_ROWS = 32
_THRESHOLDS = np.array([[1, 5], [7, 3]], dtype=np.float32) / 8
"""What is added to a number of samples by alpha before it is rounded down, by row and column of a pixel within its quad."""


def render(engine: State3D, attributes: npt.NDArray[np.uint32], primitives: Primitives) -> None:
    """Draw primitives, given the attributes of their vertices.

    Raises:
        CommandError: the state is not provided.
    """
    output = _Output.of(engine)
    if output.colours and engine["VIEWPORT_TRANSFORM_EN"]:
        engine.last_target = output.colours[0][1]
    for made in prepare(engine, attributes, primitives):
        if engine.watch is not None:
            engine.watch.was_set_up(made.parents)
        polygons = primitives.corners == 3
        for quads in rasterise(engine, made, output.samples):
            if polygons and engine["POLYGON_STIPPLE_ENABLE"]:
                quads = _stippled(engine, quads)
            if engine["CLIP_RECTS_EN"]:
                quads = _in_rectangles(engine, quads)
            if len(quads):
                _finish(engine, made, quads, output)


# --- raster -------------------------------------------------------------------------------------------
def _line_arguments(
    engine: State3D, made: SetUp
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ends, widths and stipples as :func:`raster_lines` takes them."""
    ends = np.stack([made.x[:, 0], made.y[:, 0], made.x[:, 1], made.y[:, 1]], axis=1)
    widths = np.full(len(made), int(line_width(engine) + 0.5), dtype=np.int64)
    steps = np.maximum(abs(ends[:, 2] - ends[:, 0]), abs(ends[:, 3] - ends[:, 1])) >> 8
    stipple = np.zeros(2 + len(made), dtype=np.int64)
    if engine["LINE_STIPPLE_ENABLE"]:
        word = engine["LINE_STIPPLE"]
        stipple[:2] = word >> 8 & 0xFFFF, (word & 0xFF) + 1
        # In a strip the pattern continues from line to line; separate lines restart it.
        follows = np.concatenate([[False], (ends[1:, :2] == ends[:-1, 2:]).all(axis=1)])
        at = 0
        for i in range(len(made)):
            at = at + int(steps[i - 1]) if follows[i] else 0
            stipple[2 + i] = at
    return ends, widths, stipple


def _wide_lines(made: SetUp, width: float) -> SetUp:
    """Convert each line of a multisampled target to two triangles that form a rectangle around it."""
    dx, dy = (made.x[:, 1] - made.x[:, 0]).astype(float), (made.y[:, 1] - made.y[:, 0]).astype(float)
    length = np.maximum(np.hypot(dx, dy), 1e-9)
    nx, ny = -dy / length * width * 128, dx / length * width * 128
    corner_x = np.stack([made.x[:, 0] + nx, made.x[:, 0] - nx, made.x[:, 1] - nx, made.x[:, 1] + nx], axis=1)
    corner_y = np.stack([made.y[:, 0] + ny, made.y[:, 0] - ny, made.y[:, 1] - ny, made.y[:, 1] + ny], axis=1)
    split = np.array([[0, 1, 2], [0, 2, 3]])
    made.x = np.rint(corner_x).astype(np.int64)[:, split].reshape(-1, 3)
    made.y = np.rint(corner_y).astype(np.int64)[:, split].reshape(-1, 3)
    return made


def rasterise(engine: State3D, made: SetUp, samples: int) -> Iterator[Quads]:
    """Rasterise primitives to batches of quads. On a multisampled target without MULTISAMPLE_ENABLE, the pixel's centre decides for all samples."""
    inside = samples if samples > 1 and engine["MULTISAMPLE_ENABLE"] else 1
    smooth = is_smooth(engine, made.corners, samples)
    for quads in _touched(engine, made) if smooth else _covered(engine, made, _places(engine, inside), 0):
        if inside < samples:
            quads.coverage = quads.coverage * np.uint32((1 << samples) - 1)
        yield quads


def _places(engine: State3D, samples: int) -> npt.NDArray[np.int64]:
    """Positions of a pixel's full samples in 256ths of a pixel."""
    mode = MODES.get(targets.sample_mode(engine))
    if mode is None or samples == 1:
        return sample_table(samples)
    return np.array(mode.full, dtype=np.int64) * 16


def _covered(engine: State3D, made: SetUp, table: npt.NDArray[np.int64], first: int) -> Iterator[Quads]:
    """Batches of quads, starting at a given primitive, that cover any of up to eight positions of a pixel."""
    inside = len(table)
    room = max(BATCH_QUADS, 8192)
    total, divide = len(made), 1
    triangles = made
    if made.corners == 2 and inside > 1:
        origins = made.origins
        triangles = _wide_lines(_copied(made), line_width(engine))
        total, divide = 2 * len(origins), 2
    start = np.array([first * divide, -1], dtype=np.int64)
    shared = (start, np.empty((room, 3), dtype=np.int64), np.empty(room, dtype=np.uint32))
    lines = _line_arguments(engine, made) if made.corners == 2 and inside == 1 else None
    while start[0] < total:
        if made.corners == 3 or divide == 2:
            scissors = np.repeat(made.scissors, divide, axis=0)
            count = raster_triangles(triangles.x, triangles.y, scissors, table, *shared)
        elif lines is not None:
            count = raster_lines(*lines, made.scissors, 1, *shared)
        else:
            half = np.rint(made.sizes * 128).astype(np.int64)
            x, y = made.x[:, 0], made.y[:, 0]
            edges = np.stack([x - half, y - half, x + half, y + half], axis=1)
            count = raster_rectangles(edges, made.scissors, table, *shared)
        quads, coverage = shared[1][:count].copy(), shared[2][:count].copy()
        yield Quads(quads[:, 0], quads[:, 1], quads[:, 2] // divide, coverage)


def _touched(engine: State3D, made: SetUp) -> Iterator[Quads]:
    """Batches of quads of primitives that are antialiased one by one, with the share that is covered of each pixel."""
    found = outlines(engine, made)
    start = np.array([0, -1], dtype=np.int64)
    places, coverage = np.empty((BATCH_QUADS, 3), dtype=np.int64), np.empty(BATCH_QUADS, dtype=np.uint32)
    shares = np.empty((BATCH_QUADS, 4))
    while start[0] < len(found.corners):
        count = raster_shares(found.corners, found.primitive, made.scissors, start, places, coverage, shares)
        x, y, primitive = places[:count].T.copy()
        yield Quads(x, y, primitive, coverage[:count].copy(), shares[:count].copy())


def _copied(made: SetUp) -> SetUp:
    """A copy of the primitives whose coordinates may be replaced."""
    return SetUp(
        made.corners,
        made.x,
        made.y,
        made.planes,
        made.depth,
        made.limits,
        made.is_front,
        made.layers,
        made.scissors,
        made.sizes,
        made.parents,
    )


def _pixels(quads: Quads) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Coordinates of the four pixels of quads: (quads, 4)."""
    return quads.x[:, None] + np.array([0, 1, 0, 1]), quads.y[:, None] + np.array([0, 0, 1, 1])


def _without(quads: Quads, drop: npt.NDArray[np.bool_]) -> Quads:
    """Remove pixels, given as a mask (quads, 4), from quads."""
    masks = np.where(drop, np.uint32(0), np.array([0xFF, 0xFF00, 0xFF0000, 0xFF000000], dtype=np.uint32))
    quads.coverage &= np.bitwise_or.reduce(masks, axis=1).astype(np.uint32)
    return quads.chosen(quads.coverage != 0)


def _stippled(engine: State3D, quads: Quads) -> Quads:
    """Polygon stipple: each row of the pattern is a word, with bytes from left to right and the highest bit first."""
    pattern = np.array([engine.at("POLYGON_STIPPLE_PATTERN", i) for i in range(_STIPPLE_ROWS)], dtype=np.int64)
    x, y = _pixels(quads)
    bit = (x & 24) + 7 - (x & 7)
    return _without(quads, (pattern[y & 31] >> bit & 1) == 0)


def _in_rectangles(engine: State3D, quads: Quads) -> Quads:
    """Window rectangles: keep the pixels inside any of them, or those outside all of them."""
    x, y = _pixels(quads)
    inside = np.zeros(x.shape, dtype=bool)
    for i in range(8):
        h, v = engine.at("CLIP_RECT_HORIZ", i), engine.at("CLIP_RECT_VERT", i)
        inside |= (x >= (h & 0xFFFF)) & (x < h >> 16) & (y >= (v & 0xFFFF)) & (y < v >> 16)
    return _without(quads, inside if engine["CLIP_RECTS_MODE"] == _OUTSIDE_ALL else ~inside)


# --- depth, programs, colours ---------------------------------------------------------------------------
@dataclass(slots=True)
class _Output:
    """The targets of a draw's fragments."""

    colours: list[tuple[int, targets.ColourTarget, rop.BlendState]]
    """For each colour result of the pixel program: its number, its target, and how they are blended."""
    depth: targets.DepthTarget | None
    depth_state: rop.DepthState
    across: int
    down: int
    control: int

    @property
    def samples(self) -> int:
        return self.across * self.down

    @classmethod
    def of(cls, engine: State3D) -> _Output:
        across, down = targets.multisample(engine)
        colours = []
        word = engine["RT_CONTROL"]
        for i in range(word & 15):
            number = word >> 4 + 3 * i & 7
            target = targets.colour_target(engine, number)
            if target is not None:
                colours.append((i, target, rop.BlendState.of(engine, i, target.form)))
        depth = targets.depth_target(engine)
        return cls(colours, depth, rop.DepthState.of(engine), across, down, engine["FP_CONTROL"])

    def is_late(self, engine: State3D) -> bool:
        """Whether the pixel program or the alpha test decides what reaches the depth test."""
        decides = self.control & (_EXPORTS_DEPTH | _DISCARDS) or engine["ALPHA_TEST_ENABLE"]
        return bool(decides or engine["MULTISAMPLE_CTRL"] & _ALPHA_TO_COVERAGE)


def _finish(engine: State3D, made: SetUp, quads: Quads, output: _Output) -> None:
    """Process a batch: depth, pixel programs and colours."""
    if engine["MULTISAMPLE_ENABLE"] and output.samples > 1:
        mask = engine.at("MSAA_MASK", 0) & (1 << output.samples) - 1
        quads.coverage &= np.uint32(mask * 0x01010101)
        quads = quads.chosen(quads.coverage != 0)
    late = output.is_late(engine)
    watch = engine.watch
    if watch is not None:
        watch.rasterised(engine, made, quads, _state_of(output, late))
    depths = _depths(engine, made, quads, output.samples)
    if not late:
        quads, depths = _test_depth(engine, made, quads, depths, output)
        _count(engine, quads)
    needs_colour = any(state.words[8] for _, _, state in output.colours)
    if not len(quads) or (not needs_colour and not late):
        _note_coverage(engine, made, quads, output)
        if watch is not None:
            watch.finished(engine, quads)
        return
    if watch is not None:
        watch.to_programs(quads)
    results, killed = _shade(engine, made, quads, output)
    if quads.shares is not None:
        _multiply_alphas(results, quads.shares, output)
    _apply_program(engine, quads, results, killed, output)
    if late:
        if output.control & _EXPORTS_DEPTH:
            if not results.shape[1]:
                raise CommandError("FP_CONTROL exports depth, but FP_RESULT_COUNT is 0: the program has no result")
            exported = results[:, -1].view(np.float32)
            depths = np.repeat(exported[:, None], output.samples, axis=1)
        keep = quads.coverage != 0
        results = results.reshape(-1, 4, results.shape[1])[keep].reshape(-1, results.shape[1])
        depths = depths.reshape(-1, 4, depths.shape[1])[keep].reshape(-1, depths.shape[1])
        quads = quads.chosen(keep)
        if output.depth is not None and output.depth_state.writes:
            _run_depth(engine, made, quads, depths, output)
        _count(engine, quads)
    _note_coverage(engine, made, quads, output)
    for number, target, state in output.colours:
        _write(engine, made, quads, results, number, target, state, output)
    if watch is not None:
        watch.finished(engine, quads)


def _note_coverage(engine: State3D, made: SetUp, quads: Quads, output: _Output) -> None:
    """Update the coverage samples for the primitives whose full samples are drawn, in modes that have them."""
    number = targets.sample_mode(engine)
    mode = MODES.get(number)
    enabled = mode is not None and (engine["CSAA_ENABLE"] or engine.adds_coverage_samples)
    if mode is None or not enabled or output.depth is None or not len(quads):
        return
    if engine["MULTISAMPLE_ENABLE"]:
        masks = _coverage_masks(engine, made, quads, mode)
    else:
        masks = np.full(len(quads), np.iinfo(np.uint64).max, dtype=np.uint64)
    write_coverage(
        engine.memory.bytes,
        _surface(engine, output.depth.surface, output.depth.form.size, made, output, "the depth buffer"),
        np.stack([quads.x, quads.y, quads.primitive], axis=1),
        quads.coverage,
        masks,
        pairs_of(number),
    )


def _coverage_masks(engine: State3D, made: SetUp, quads: Quads, mode: CoverageMode) -> npt.NDArray[np.uint64]:
    """Masks of the covered samples of both kinds, in the form that ``coverage_samples.write_coverage`` takes."""

    def keys(some: Quads) -> npt.NDArray[np.int64]:
        return some.primitive << 40 | some.y << 20 | some.x

    # The two halves of a line have separate quads; a sample covered by either counts for both.
    wanted, number = np.unique(keys(quads), return_inverse=True)
    masks = np.zeros(len(wanted), dtype=np.uint64)
    last = int(quads.primitive.max())
    places = np.array(mode.full + mode.places, dtype=np.int64) * 16
    for first in range(0, mode.samples, 8):
        table = np.ascontiguousarray(places[first : first + 8])
        for found in _covered(engine, made, table, int(quads.primitive.min())):
            at = np.minimum(np.searchsorted(wanted, keys(found)), len(wanted) - 1)
            same = wanted[at] == keys(found)
            wide = np.zeros(len(found), dtype=np.uint64)
            for p in range(4):
                wide |= (found.coverage >> np.uint32(8 * p) & np.uint32(255)).astype(np.uint64) << np.uint64(
                    16 * p + first
                )
            np.bitwise_or.at(masks, at[same], wide[same])
            if len(found) and found.primitive[-1] > last:
                break
    allowed = engine.at("MSAA_MASK", 0) & 0xFFFF
    return masks[number.reshape(-1)] & np.uint64(sum(allowed << 16 * p for p in range(4)))


def _state_of(output: _Output, late: bool) -> FragmentState:
    """The fragment state that is passed to a watch."""
    colours = []
    for _, target, state in output.colours:
        channels, blends, logic = int(state.words[8]), bool(state.words[0]), int(state.words[7]) >= 0
        if channels:
            present = sum(1 << i for i, channel in enumerate(target.form.channels) if channel is not None)
            colours.append((target, blends or logic or bool(present & ~channels)))
    exports = bool(output.control & _EXPORTS_DEPTH)
    return FragmentState(output.depth, output.depth_state, colours, (output.across, output.down), late, exports)


def _count(engine: State3D, quads: Quads) -> None:
    """Occlusion queries count samples that pass all tests."""
    if engine["SAMPLECNT_ENABLE"] and len(quads):
        bits = np.unpackbits(np.ascontiguousarray(quads.coverage).view(np.uint8))
        engine.queries.samples += int(bits.sum())


def _depths(engine: State3D, made: SetUp, quads: Quads, samples: int) -> npt.NDArray[np.float32]:
    inside = samples if samples > 1 and engine["MULTISAMPLE_ENABLE"] else 1
    out = np.empty((4 * len(quads), inside), dtype=np.float32)
    places = np.stack([quads.x, quads.y], axis=1)
    sample_depths(made.depth, made.origins, places, quads.primitive, _places(engine, inside), made.limits, out)
    return np.ascontiguousarray(np.repeat(out, samples, axis=1)) if inside < samples else out


def _surface(
    engine: State3D, surface: targets.Target, size: int, made: SetUp, output: _Output, what: str
) -> rop.Surface:
    """A surface in the form that compiled loops take."""
    table = np.zeros((len(made), 2), dtype=np.int64)
    for number in np.unique(made.layers).tolist():
        layout, z = surface.layer(number)
        table[made.layers == number] = engine.memory.place(layout.address, layout.size, what), z
    return surface.layout.key(), size, (surface.width, surface.height, output.across, output.down), table


def _test_depth(
    engine: State3D, made: SetUp, quads: Quads, depths: npt.NDArray[np.float32], output: _Output
) -> tuple[Quads, npt.NDArray[np.float32]]:
    if output.depth is None or not output.depth_state.writes or not len(quads):
        return quads, depths
    _run_depth(engine, made, quads, depths, output)
    keep = quads.coverage != 0
    return quads.chosen(keep), depths.reshape(-1, 4, depths.shape[1])[keep].reshape(-1, depths.shape[1])


def _run_depth(engine: State3D, made: SetUp, quads: Quads, depths: npt.NDArray[np.float32], output: _Output) -> None:
    assert output.depth is not None
    form = output.depth.form
    rop.depth_stencil(
        engine.memory.bytes,
        _surface(engine, output.depth.surface, form.size, made, output, "the depth buffer"),
        form.table(),
        np.stack([quads.x, quads.y, quads.primitive], axis=1),
        quads.coverage,
        depths,
        made.is_front,
        (output.depth_state.words, output.depth_state.bounds),
    )


def _shade(
    engine: State3D, made: SetUp, quads: Quads, output: _Output
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """Run the pixel program at the pixels' centres."""
    x, y = _pixels(quads)
    origins = made.origins[quads.primitive]
    at_x = (x + 0.5 - origins[:, :1] / 256.0).astype(np.float32)
    at_y = (y + 0.5 - origins[:, 1:] / 256.0).astype(np.float32)
    centroid = None
    if output.samples > 1 and engine["MULTISAMPLE_ENABLE"]:
        centroid = _centroids(quads, _places(engine, output.samples), at_x, at_y)
    # Helper pixels are not counted.
    engine.queries.counts["pixel programs"] += int(
        np.count_nonzero(np.ascontiguousarray(quads.coverage).view(np.uint8))
    )
    return draw_programs.run_pixels(engine, made, quads.primitive, at_x, at_y, centroid)


def _centroids(
    quads: Quads, table: npt.NDArray[np.int64], at_x: npt.NDArray[np.float32], at_y: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """The mean position of a pixel's covered samples; its centre if all or none are covered."""
    samples = len(table)
    bits = quads.coverage[:, None, None] >> (8 * np.arange(4)[:, None] + np.arange(samples)).astype(np.uint32) & 1
    covered = bits.astype(np.float32)
    places = table / 256.0 - 0.5
    count = covered.sum(axis=2)
    partly = (count > 0) & (count < samples)
    scale = np.where(partly, 1.0 / np.maximum(count, 1), 0.0)
    move = (covered @ places) * scale[:, :, None]
    return (at_x + move[:, :, 0]).astype(np.float32), (at_y + move[:, :, 1]).astype(np.float32)


def _multiply_alphas(results: npt.NDArray[np.uint32], shares: npt.NDArray[np.float64], output: _Output) -> None:
    """Multiply the alphas of all colours that are not integers by the covered shares (OpenGL 3.3, section 3.11)."""
    columns = set()
    for number, target, state in output.colours:
        if not target.form.is_integer:
            first = 4 * number if output.control & _MULTIPLE_RESULTS else 0
            columns |= {first + 3, first + 7} if state.uses_second_source else {first + 3}
    for column in columns:
        if column < results.shape[1]:
            results.view(np.float32)[:, column] *= shares.reshape(-1).astype(np.float32)


def _apply_program(
    engine: State3D,
    quads: Quads,
    results: npt.NDArray[np.uint32],
    killed: npt.NDArray[np.bool_],
    output: _Output,
) -> None:
    """Remove pixels that the program discarded or that fail the alpha test, and samples by alpha to coverage."""
    drop = killed.reshape(-1, 4)
    alpha = results[:, 3].view(np.float32).reshape(-1, 4) if results.shape[1] > 3 else None
    if engine["ALPHA_TEST_ENABLE"] and alpha is not None and output.colours:
        drop = drop | ~rop.alpha_passes(engine, alpha)
    masks = np.where(drop, np.uint32(0), np.uint32(0xFF))
    if (
        engine["MULTISAMPLE_CTRL"] & _ALPHA_TO_COVERAGE
        and output.samples > 1
        and engine["MULTISAMPLE_ENABLE"]
        and alpha is not None
    ):
        masks = masks & samples_of_alpha(quads, alpha, output.samples)
    whole = np.bitwise_or.reduce(masks << (8 * np.arange(4)).astype(np.uint32), axis=1).astype(np.uint32)
    quads.coverage &= whole


def samples_of_alpha(quads: Quads, alpha: npt.NDArray[np.float32], samples: int) -> npt.NDArray[np.uint32]:
    """Masks of samples by alpha to coverage: (quads, 4).

    The number of samples is proportional to alpha. A fraction of a sample becomes one in a quarter, a half or three quarters of the pixels of a quad. NVIDIA's chips
    dither so (https://gitlab.freedesktop.org/mesa/mesa/-/merge_requests/31373); which pixel of a quad has which threshold on G80 is not published (not anchored).
    """
    x, y = _pixels(quads)
    threshold = _THRESHOLDS[y & 1, x & 1]
    kept = np.floor(np.clip(np.nan_to_num(alpha), 0, 1) * np.float32(samples) + threshold).astype(np.uint32)
    return (np.uint32(1) << kept) - np.uint32(1)


def _write(
    engine: State3D,
    made: SetUp,
    quads: Quads,
    results: npt.NDArray[np.uint32],
    number: int,
    target: targets.ColourTarget,
    state: rop.BlendState,
    output: _Output,
) -> None:
    """Write one target's colours."""
    if not len(quads) or not state.words[8]:
        return
    first = 4 * number if output.control & _MULTIPLE_RESULTS else 0
    colours = _registers(results, first)
    if engine["MULTISAMPLE_CTRL"] & _ALPHA_TO_ONE and output.samples > 1:
        colours[:, 3] = 1.0
    seconds = _registers(results, first + 4) if state.uses_second_source else colours
    rop.write_colours(
        engine.memory.bytes,
        _surface(engine, target.surface, target.form.size, made, output, f"render target {number}"),
        target.form.table(),
        np.stack([quads.x, quads.y, quads.primitive], axis=1),
        quads.coverage,
        colours,
        seconds,
        (state.words, state.constant),
    )


def _registers(results: npt.NDArray[np.uint32], first: int) -> npt.NDArray[np.float32]:
    """Four result registers of a pixel program; those that it does not return are 0."""
    out = np.zeros((len(results), 4), dtype=np.uint32)
    part = results[:, first : first + 4]
    out[:, : part.shape[1]] = part
    return out.view(np.float32)
