"""Setup: culls clipped primitives and computes their window coordinates and the planes of their attributes and depth.

A primitive is a triangle, a line or a point; polygon modes turn triangles into lines or points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics import planes as plane_equations
from warpwright.graphics.clipping import Clipped, Windowed, clip, to_window
from warpwright.graphics.formats import depth_format
from warpwright.graphics.input_assembler import Primitives
from warpwright.graphics.linkage import Interpolants, Semantics
from warpwright.graphics.raster import snap
from warpwright.graphics.state_3d import State3D

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
POINT_MODE, LINE_MODE, FILL_MODE = 0x1B00, 0x1B01, 0x1B02
_FRONT, _FRONT_AND_BACK = 0x404, 0x408
_COUNTERCLOCKWISE = 0x901
_FLAT_SHADING = 0x1D00
_UPPER_LEFT = 0x10
VIEWPORT_COUNT = 16
MOST_PIXELS = 64.0
"""Largest diameter of points (as Mesa reports it), and largest width of lines (the driver allows less)."""


@dataclass(slots=True)
class SetUp:
    """Primitives ready for rasterisation, all with the same number of corners.

    Attributes:
        x: window coordinates in 256ths of a pixel: (primitives, corners).
        planes: (primitives, slots, 4) of the pixel program's inputs: the value at the first corner, its changes along x and y per
            pixel, and the bits of the provoking vertex's value.
        depth: (primitives, 3): changes along x and y, and the value at the first corner.
        limits: the range to which depth is clamped.
        scissors: left, top, right and bottom in pixels.
    """

    corners: int
    x: Integers
    y: Integers
    planes: npt.NDArray[np.float32]
    depth: Floats
    limits: Floats
    is_front: npt.NDArray[np.bool_]
    layers: Integers
    scissors: Integers
    sizes: Floats
    """Diameters of points."""
    parents: Integers
    """The draw's primitives that they come from."""

    @property
    def origins(self) -> Integers:
        return np.stack([self.x[:, 0], self.y[:, 0]], axis=1)

    def __len__(self) -> int:
        return len(self.x)


def _as_numbers(attributes: npt.NDArray[np.uint32]) -> Floats:
    with np.errstate(invalid="ignore"):
        return attributes.view(np.float32).astype(np.float64)


@dataclass(slots=True)
class _Source:
    """A draw's primitives before and after clipping."""

    raw: npt.NDArray[np.uint32]
    primitives: Primitives
    clipped: Clipped
    window: Windowed
    viewports: Integers
    semantics: Semantics
    interpolants: Interpolants

    def flat_words(self, slot: int) -> npt.NDArray[np.uint32]:
        """A flat attribute's bits for each primitive."""
        return self.raw[self.primitives.provoking[self.clipped.parents], slot]


def _flat_integers(source: _Source, slot: int | None) -> Integers | None:
    if slot is None or slot >= source.raw.shape[1]:
        return None
    return source.flat_words(slot).astype(np.int64)


def prepare(engine: State3D, raw: npt.NDArray[np.uint32], primitives: Primitives) -> list[SetUp]:
    """Clip, cull and set up primitives; the lines and points that polygon modes create from triangles are in separate lists."""
    semantics, interpolants = Semantics.of(engine), Interpolants.of(engine)
    viewports = np.zeros(len(primitives.vertices), dtype=np.int64)
    if semantics.viewport is not None and semantics.viewport < raw.shape[1]:
        viewports = np.clip(raw[primitives.provoking, semantics.viewport].astype(np.int64), 0, VIEWPORT_COUNT - 1)
    attributes = _as_numbers(raw)
    engine.queries.counts["primitives before clipping"] += len(primitives.vertices)
    if engine["VIEWPORT_TRANSFORM_EN"]:
        scales = np.array(
            [max(abs(engine.float_at(f"VIEWPORT_SCALE_{axis}", int(v))) for v in np.unique(viewports)) for axis in "XY"]
        )
        linear = interpolants.first + np.flatnonzero(interpolants.linear)
        colours = linear - semantics.front_colour
        backs = semantics.back_colour + colours[(colours >= 0) & (colours < semantics.colour_count)]
        linear = np.union1d(linear, backs)
        clipped = clip(engine, attributes, primitives.vertices, scales, linear[linear < attributes.shape[1]])
    else:
        clipped = Clipped(attributes, primitives.vertices, np.arange(len(primitives.vertices)))
    viewports = viewports[clipped.parents]
    window = to_window(engine, clipped.attributes, clipped.vertices, viewports)
    source = _Source(raw, primitives, clipped, window, viewports, semantics, interpolants)
    engine.queries.counts["primitives after clipping"] += len(clipped.vertices)
    if not len(clipped.vertices):
        return []
    if primitives.corners == 3:
        return _triangles(engine, source)
    chosen = np.arange(len(clipped.vertices))
    corners = np.broadcast_to(np.arange(primitives.corners), (len(chosen), primitives.corners))
    return [_made(engine, source, chosen, corners, np.ones(len(chosen), dtype=bool))]


def _triangles(engine: State3D, source: _Source) -> list[SetUp]:
    x, y = snap(source.window.x), snap(source.window.y)
    area = (x[:, 1] - x[:, 0]) * (y[:, 2] - y[:, 0]) - (x[:, 2] - x[:, 0]) * (y[:, 1] - y[:, 0])
    # With y pointing down, a positive area appears clockwise to the viewer.
    is_front = (area < 0) == (engine["FRONT_FACE"] == _COUNTERCLOCKWISE)
    keep = np.ones(len(x), dtype=bool)
    if engine["CULL_FACE_ENABLE"]:
        which = engine["CULL_FACE"]
        keep = np.zeros_like(keep) if which == _FRONT_AND_BACK else (~is_front if which == _FRONT else is_front)
    found = []
    front, back = engine["POLYGON_MODE_FRONT"] or FILL_MODE, engine["POLYGON_MODE_BACK"] or FILL_MODE
    for mode in dict.fromkeys((front, back)):
        sides = np.zeros(len(x), dtype=bool)
        sides |= is_front if front == mode else False
        sides |= ~is_front if back == mode else False
        chosen = np.flatnonzero(keep & sides & ((area != 0) | (mode != FILL_MODE)))
        if len(chosen):
            found.append(_in_mode(engine, source, chosen, is_front, mode))
    return found


def _in_mode(engine: State3D, source: _Source, chosen: Integers, is_front: npt.NDArray[np.bool_], mode: int) -> SetUp:
    """Triangles in a polygon mode: as they are, as their edges, or as their corners."""
    if mode == FILL_MODE:
        corners = np.broadcast_to(np.arange(3), (len(chosen), 3))
        return _made(engine, source, chosen, corners, is_front[chosen])
    edges = source.primitives.edges
    drawn = np.ones((len(chosen), 3), dtype=bool) if edges is None else edges[source.clipped.parents[chosen]]
    which, side = np.nonzero(drawn)
    corners = np.stack([side, (side + 1) % 3], axis=1) if mode == LINE_MODE else side[:, None]
    return _made(engine, source, chosen[which], corners, is_front[chosen[which]], from_polygons=mode)


def _made(
    engine: State3D,
    source: _Source,
    chosen: Integers,
    corners: Integers,
    is_front: npt.NDArray[np.bool_],
    from_polygons: int = FILL_MODE,
) -> SetUp:
    """Set up the chosen primitives, each with the chosen corners."""
    rows, window = chosen[:, None], source.window
    move = 128 if engine["PIXEL_CENTER_INTEGER"] else 0
    x, y = snap(window.x[rows, corners]) + move, snap(window.y[rows, corners]) + move
    vertices = source.clipped.vertices[rows, corners]
    reciprocal = window.reciprocal_w[rows, corners]
    values = _inputs(engine, source, chosen, vertices, reciprocal, window.z[rows, corners], is_front)
    made = np.zeros((len(chosen), values.shape[2], 3))
    with_depth = np.concatenate([values, window.z[rows, corners][:, :, None]], axis=2)
    made = np.zeros((len(chosen), with_depth.shape[2], 3))
    if corners.shape[1] == 3:
        plane_equations.triangle_planes(x, y, with_depth, made)
    elif corners.shape[1] == 2:
        plane_equations.line_planes(x, y, with_depth, made)
    else:
        made[:, :, 2] = with_depth[:, 0]
    result = SetUp(
        corners.shape[1],
        x,
        y,
        _program_planes(engine, source, chosen, made[:, :-1], is_front),
        made[:, -1],
        _limits(engine, source.viewports[chosen]),
        is_front,
        _layers(engine, source, chosen),
        _scissors(engine, source.viewports[chosen]),
        _point_sizes(engine, source, vertices) if corners.shape[1] == 1 else np.zeros(0),
        source.clipped.parents[chosen],
    )
    _positions(source.interpolants, result)
    if corners.shape[1] == 1:
        _sprites(engine, source, result, reciprocal[:, 0])
    if source.primitives.corners == 3:
        _offset_depth(engine, result, made[:, -1], from_polygons, np.abs(window.z[chosen]).max(axis=1))
    return result


def _program_planes(
    engine: State3D, source: _Source, chosen: Integers, made: Floats, is_front: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float32]:
    """Planes in the order of the program's slots, with the words of flat inputs."""
    interpolants = source.interpolants
    out = np.zeros((len(chosen), max(1, interpolants.slots), 4), dtype=np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        out[:, : made.shape[1], 0] = made[:, :, 2]
        out[:, : made.shape[1], 1:3] = made[:, :, :2]
    words = out.view(np.uint32)
    first = sum(interpolants.position)
    for i in range(interpolants.smooth + interpolants.flat):
        slot = min(interpolants.first + i, source.raw.shape[1] - 1)
        if slot == source.semantics.primitive_id and not engine["GP_ENABLE"]:
            words[:, first + i, 3] = source.primitives.numbers[source.clipped.parents[chosen]].astype(np.uint32)
        else:
            words[:, first + i, 3] = source.flat_words(slot)[chosen]
            back = _back_of(engine, source, slot)
            if back is not None:
                words[~is_front, first + i, 3] = source.flat_words(back)[chosen[~is_front]]
    return out


def _back_of(engine: State3D, source: _Source, slot: int) -> int | None:
    """The attribute that replaces a colour on back-facing primitives; None for attributes that are not colours."""
    semantics = source.semantics
    number = slot - semantics.front_colour
    back = semantics.back_colour + number
    if not 0 <= number < semantics.colour_count or not engine["VERTEX_TWO_SIDE_ENABLE"] or back >= source.raw.shape[1]:
        return None
    return back


def _positions(interpolants: Interpolants, made: SetUp) -> None:
    """Planes of the pixel's coordinates."""
    for axis in range(2):
        if interpolants.position[axis]:
            slot = sum(interpolants.position[:axis])
            made.planes[:, slot] = 0.0
            made.planes[:, slot, 1 + axis] = 1.0
            made.planes[:, slot, 0] = (made.x if axis == 0 else made.y)[:, 0] / 256.0


def _inputs(
    engine: State3D,
    source: _Source,
    chosen: Integers,
    vertices: Integers,
    reciprocal: Floats,
    z: Floats,
    is_front: npt.NDArray[np.bool_],
) -> Floats:
    """Values of the pixel program's inputs at the corners: (primitives, corners, slots); those with perspective divided by w."""
    interpolants, attributes = source.interpolants, source.clipped.attributes
    columns = []
    for used, value in zip(interpolants.position, (z, z, z, reciprocal), strict=True):
        if used:
            columns.append(value)
    last = attributes.shape[1] - 1
    for i in range(interpolants.smooth):
        slot = interpolants.first + i
        value = attributes[vertices, min(slot, last)]
        value = _coloured(engine, source, chosen, vertices, slot, value, is_front)
        columns.append(value if interpolants.linear[i] else value * reciprocal)
    if not columns:
        return np.zeros((*vertices.shape, 0))
    return np.stack(columns, axis=2)


def _coloured(
    engine: State3D,
    source: _Source,
    chosen: Integers,
    vertices: Integers,
    slot: int,
    value: Floats,
    is_front: npt.NDArray[np.bool_],
) -> Floats:
    """A colour's value: the back colour for back-facing primitives, one vertex's colour with flat shading, and clamped if enabled."""
    semantics = source.semantics
    number = slot - semantics.front_colour
    if not 0 <= number < semantics.colour_count:
        return value
    attributes = source.clipped.attributes
    provoking = source.primitives.provoking[source.clipped.parents[chosen]][:, None]
    if engine["SHADE_MODEL"] == _FLAT_SHADING:
        value = np.broadcast_to(attributes[provoking, slot], vertices.shape)
    back = _back_of(engine, source, slot)
    if back is not None and not is_front.all():
        other = attributes[vertices, back]
        if engine["SHADE_MODEL"] == _FLAT_SHADING:
            other = np.broadcast_to(attributes[provoking, back], vertices.shape)
        value = np.where(is_front[:, None], value, other)
    return np.clip(value, 0.0, 1.0) if engine["SEMANTIC_COLOR"] >> 24 & 1 else value


def _limits(engine: State3D, viewports: Integers) -> Floats:
    near = np.array([engine.float_at("DEPTH_RANGE_NEAR", i) for i in range(VIEWPORT_COUNT)])[viewports]
    far = np.array([engine.float_at("DEPTH_RANGE_FAR", i) for i in range(VIEWPORT_COUNT)])[viewports]
    return np.stack([np.minimum(near, far), np.maximum(near, far)], axis=1)


def _layers(engine: State3D, source: _Source, chosen: Integers) -> Integers:
    found = _flat_integers(source, source.semantics.layer)
    if found is None:
        return np.full(len(chosen), engine["LAYER"] & 0xFFFF, dtype=np.int64)
    return found[chosen]


def _scissors(engine: State3D, viewports: Integers) -> Integers:
    """The scissor of each primitive's viewport within the screen's."""
    horizontal, vertical = engine["SCREEN_SCISSOR_HORIZ"], engine["SCREEN_SCISSOR_VERT"]
    x, y = horizontal & 0xFFFF, vertical & 0xFFFF
    screen = np.array([x, y, x + (horizontal >> 16), y + (vertical >> 16)], dtype=np.int64)
    rows = []
    for i in range(VIEWPORT_COUNT):
        box = screen.copy()
        if engine.at("SCISSOR_ENABLE", i):
            h, v = engine.at("SCISSOR_HORIZ", i), engine.at("SCISSOR_VERT", i)
            box[:2] = np.maximum(box[:2], [h & 0xFFFF, v & 0xFFFF])
            box[2:] = np.minimum(box[2:], [h >> 16, v >> 16])
        rows.append(box)
    return np.stack(rows)[viewports]


def line_width(engine: State3D, least: float = 1.0) -> float:
    """The width of lines in pixels, within the chip's limits."""
    return float(np.clip(np.nan_to_num(engine.float_at("LINE_WIDTH")), least, MOST_PIXELS))


def _point_sizes(engine: State3D, source: _Source, vertices: Integers) -> Floats:
    slot = source.semantics.point_size
    if slot is not None and slot < source.clipped.attributes.shape[1]:
        sizes = source.clipped.attributes[vertices[:, 0], slot]
    else:
        sizes = np.full(len(vertices), engine.float_at("POINT_SIZE"))
    return np.clip(np.nan_to_num(sizes), 1.0, MOST_PIXELS)


def _sprites(engine: State3D, source: _Source, made: SetUp, reciprocal: Floats) -> None:
    """Planes of the inputs that are replaced by a point's coordinates (point sprites)."""
    if not engine["POINT_SPRITE_ENABLE"]:
        return
    first, position = source.interpolants.first, sum(source.interpolants.position)
    is_upper = engine["POINT_SPRITE_CTRL"] & _UPPER_LEFT
    for i in range(source.interpolants.smooth):
        slot = first + i
        component = engine.at("POINT_COORD_REPLACE_MAP", slot >> 3) >> 4 * (slot & 7) & 15
        if not component:
            continue
        scale = np.ones_like(reciprocal) if source.interpolants.linear[i] else reciprocal
        plane = np.zeros((len(made), 3))
        if component == 1:
            plane[:, 1], plane[:, 0] = 1.0 / made.sizes, 0.5
        elif component == 2:
            plane[:, 2], plane[:, 0] = (1.0 if is_upper else -1.0) / made.sizes, 0.5
        elif component == 4:
            plane[:, 0] = 1.0
        made.planes[:, position + i, :3] = plane * scale[:, None]


def _offset_depth(engine: State3D, made: SetUp, depth: Floats, mode: int, largest: Floats) -> None:
    """Polygon offset: factor times the depth's slope, and units of its resolution."""
    name = {POINT_MODE: "POINT", LINE_MODE: "LINE"}.get(mode, "FILL")
    if not engine[f"POLYGON_OFFSET_{name}_ENABLE"]:
        return
    slope = np.maximum(np.abs(depth[:, 0]), np.abs(depth[:, 1]))
    form = depth_format(engine["ZETA_FORMAT"]) if engine["ZETA_ENABLE"] else None
    if form is not None and form.is_float:
        with np.errstate(divide="ignore"):
            unit = 2.0 ** (np.floor(np.log2(np.maximum(largest, 1e-38))) - 23)
    else:
        unit = np.full(len(made), 2.0 ** -(form.depth_bits if form else 24))
    # The register counts steps of the depth format, as in an emulator of NV20 that is checked against hardware (xemu-project/xemu, pull request 2240); NVIDIA's drivers and Mesa's
    # write twice the units of OpenGL. On G80 itself the unit was not measured (not anchored).
    offset = engine.float_at("POLYGON_OFFSET_FACTOR") * slope + engine.float_at("POLYGON_OFFSET_UNITS") * unit
    limit = engine.float_at("POLYGON_OFFSET_CLAMP")
    if limit > 0:
        offset = np.minimum(offset, limit)
    elif limit < 0:
        offset = np.maximum(offset, limit)
    made.depth[:, 2] += offset
