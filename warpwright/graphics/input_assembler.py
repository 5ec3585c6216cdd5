"""The input assembler: collects a draw's commands, fetches vertices, and converts primitives of all types to lists of vertices.

Lindholm et al., "NVIDIA Tesla" (2008): "The input assembler collects geometric primitives (points, lines, triangles, line strips, and triangle strips) and
fetches associated vertex input attribute data."
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.graphics import vertex_formats
from warpwright.graphics.methods import RegisterEngine
from warpwright.graphics.pushbuffer import CommandError, Words
from warpwright.graphics.video_memory import FIRST_ADDRESS, VideoMemory

Integers = npt.NDArray[np.int64]
ATTRIBUTE_COUNT = 16
_FETCHES = 1 << 29
_STRIDE = 0xFFF
_CONSTANT = 1 << 4
_VERTEX_ID, _INSTANCE_ID, _PRIMITIVE_ID, _ADD_START = 1, 1 << 4, 1 << 8, 1 << 12
"""Bits of VP_GP_BUILTIN_ATTR_EN."""
(
    POINTS,
    LINES,
    LINE_LOOP,
    LINE_STRIP,
    TRIANGLES,
    TRIANGLE_STRIP,
    TRIANGLE_FAN,
    QUADS,
    QUAD_STRIP,
    POLYGON,
    LINES_ADJACENCY,
    LINE_STRIP_ADJACENCY,
    TRIANGLES_ADJACENCY,
    TRIANGLE_STRIP_ADJACENCY,
) = range(14)


class Assembly:
    """The vertices between VERTEX_BEGIN_GL and VERTEX_END_GL.

    Vertices come from arrays (by index), as words in attribute order, or attribute by attribute.
    """

    def __init__(self) -> None:
        self.current: npt.NDArray[np.uint32] = np.zeros((ATTRIBUTE_COUNT, 4), dtype=np.uint32)
        """Values of the attributes that have no array."""
        self.current[:, 3] = np.float32(1).view(np.uint32)
        self.abandon()

    def abandon(self) -> None:
        """Drop everything except the attributes' values."""
        self.is_open = False
        self.type = 0
        self.indices: list[Integers] = []
        self.are_arrays: list[bool] = []
        self.words: list[Words] = []
        self.id_bases: list[int] = []
        """VERTEX_ID_BASE when each of ``words`` arrived."""
        self.between_words: list[tuple[int, Integers]] = []
        """Elements that came after vertices as words, with the number of words before them."""
        self.vertices: list[npt.NDArray[np.uint32]] = []
        self._limit: tuple[int, int] | None = None

    def begin(self, kind: int) -> None:
        self.abandon()
        if kind > TRIANGLE_STRIP_ADJACENCY:
            raise CommandError(f"the 3D class (0x8297): VERTEX_BEGIN_GL = {kind:#x} is not a type of primitives")
        self.is_open, self.type = True, kind

    def add_arrays(self, first: int, count: int) -> None:
        """Add the vertices ``first`` to ``first + count - 1`` of the arrays."""
        self.indices.append(np.arange(first, first + count, dtype=np.int64))
        self.are_arrays.append(True)

    def add_elements(self, indices: Integers) -> None:
        if self.words:
            self.between_words.append((sum(map(len, self.words)), indices))
        self.indices.append(indices)
        self.are_arrays.append(False)

    def add_limited_elements(self, indices: Integers, skipped: int, count: int) -> None:
        """Add ``count`` elements of a range of memory after the first ``skipped``; the remaining ones are not part of the draw."""
        self.add_elements(indices[skipped : skipped + count])

    def add_vertex_words(self, words: Words, id_base: int) -> None:
        self.words.append(words.copy())
        self.id_bases.append(id_base)

    def set_attribute(self, number: int, value: npt.NDArray[np.uint32]) -> None:
        self.current[number] = value
        if number == 0 and self.is_open:
            self.vertices.append(self.current.copy())


@dataclass(frozen=True, slots=True)
class Vertices:
    """The vertices of a draw as inputs of the vertex program, and the order in which primitives use them."""

    inputs: npt.NDArray[np.uint32]
    """One row per vertex, one column per 32-bit input slot."""
    order: Integers
    """Rows of the vertices in the order of the draw; -1 starts a new primitive."""
    elements: Integers | None = None
    """The vertices' indices in the arrays; None if they came in the command stream."""


def collect(engine: RegisterEngine, memory: VideoMemory, assembly: Assembly, instance: int) -> Vertices:
    """Fetch the vertices of a draw.

    Raises:
        CommandError: an attribute's format is unknown.
        MemoryFaultError: an array is not in a buffer.
    """
    elements = None
    if assembly.words:
        attributes, numbers, order = _from_words(engine, assembly)
    elif assembly.vertices:
        attributes = np.stack(assembly.vertices)
        order = np.arange(len(attributes), dtype=np.int64)
        numbers = order + engine["VERTEX_ID_BASE"]
    else:
        order, ids = _unique(engine, assembly)
        attributes = _from_arrays(engine, memory, assembly, ids, instance)
        elements = _moved(engine, assembly, ids)
        numbers = ids + engine["VERTEX_ID_BASE"]
    return Vertices(_inputs(engine, attributes, numbers, instance), order, elements)


def _unique(engine: RegisterEngine, assembly: Assembly) -> tuple[Integers, Integers]:
    """The rows in draw order, and the array index of each row."""
    pieces = []
    restart = engine["PRIM_RESTART_INDEX"] if engine["PRIM_RESTART_ENABLE"] else None
    for indices, is_array in zip(assembly.indices, assembly.are_arrays, strict=True):
        if restart is not None and not is_array:
            pieces.append(np.where(indices == restart, -1, indices))
        else:
            pieces.append(indices)
    all_indices = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
    found, rows = np.unique(all_indices, return_inverse=True)
    rows = rows.astype(np.int64)
    if len(found) and found[0] < 0:
        return rows - 1, found[1:]
    return rows, found


def _from_arrays(
    engine: RegisterEngine, memory: VideoMemory, assembly: Assembly, ids: Integers, instance: int
) -> npt.NDArray[np.uint32]:
    attributes = np.empty((len(ids), ATTRIBUTE_COUNT, 4), dtype=np.uint32)
    rows = _moved(engine, assembly, ids)
    for number in range(ATTRIBUTE_COUNT):
        word, fetch = engine.at("VERTEX_ARRAY_ATTRIB", number), engine.at("VERTEX_ARRAY_FETCH", number)
        if word & _CONSTANT or not fetch & _FETCHES or not _components(engine, number):
            # An array that the program does not read may have no buffer any more.
            attributes[:, number] = assembly.current[number]
            continue
        elements = rows
        if engine.at("VERTEX_ARRAY_PER_INSTANCE", number):
            divisor = max(1, engine.at("VERTEX_ARRAY_DIVISOR", number))
            elements = np.full(len(rows), engine["VB_INSTANCE_BASE"] + instance // divisor)
        attributes[:, number] = _elements(engine, memory, number, elements)
    return attributes


def _moved(engine: RegisterEngine, assembly: Assembly, ids: Integers) -> Integers:
    """Indices of elements after adding the base vertex."""
    base = engine["VB_ELEMENT_BASE"] if not all(assembly.are_arrays) else 0
    return ids + (base - (1 << 32) if base >> 31 else base)


def fetched_places(engine: RegisterEngine, elements: Integers) -> list[tuple[Integers, int]]:
    """For each array that the vertex program reads: device addresses and sizes in bytes of its elements."""
    found = []
    for number in range(ATTRIBUTE_COUNT):
        word, fetch = engine.at("VERTEX_ARRAY_ATTRIB", number), engine.at("VERTEX_ARRAY_FETCH", number)
        if word & _CONSTANT or not fetch & _FETCHES or not _components(engine, number):
            continue
        start = engine.address("VERTEX_ARRAY_START_HIGH", number) + (word >> 5 & 0x3FFF)
        rows = np.zeros_like(elements) if engine.at("VERTEX_ARRAY_PER_INSTANCE", number) else elements
        found.append((start + rows * (fetch & _STRIDE), vertex_formats.size_of(word, number)))
    return found


def _elements(engine: RegisterEngine, memory: VideoMemory, number: int, elements: Integers) -> npt.NDArray[np.uint32]:
    """One attribute of the vertices; elements beyond the array's limit are zero."""
    word, stride = engine.at("VERTEX_ARRAY_ATTRIB", number), engine.at("VERTEX_ARRAY_FETCH", number) & _STRIDE
    size = vertex_formats.size_of(word, number)
    start = engine.address("VERTEX_ARRAY_START_HIGH", number) + (word >> 5 & 0x3FFF)
    limit = engine.address("VERTEX_ARRAY_LIMIT_HIGH", number)
    addresses = start + elements * stride
    inside = (addresses >= start) & (addresses + size - 1 <= limit)
    if inside.any():
        low, high = int(addresses[inside].min()), int(addresses[inside].max())
        memory.place(low, high + size - low, f"vertex array {number}")
    return vertex_formats.fetch(memory.bytes, np.where(inside, addresses - FIRST_ADDRESS, -1), word, number)


def _from_words(engine: RegisterEngine, assembly: Assembly) -> tuple[npt.NDArray[np.uint32], Integers, Integers]:
    """Vertices given in the command stream: the attributes that the program reads, each starting at a new word; the vertices' numbers; and their order.

    The driver writes VERTEX_ID_BASE before each vertex whose number the program reads, so that such vertices are not counted. The restart index between vertices
    starts a new primitive.
    """
    active, at = [], 0
    for number in range(ATTRIBUTE_COUNT):
        word = engine.at("VERTEX_ARRAY_ATTRIB", number)
        if word and not word & _CONSTANT and _components(engine, number):
            active.append((number, word, at))
            at += -(-vertex_formats.size_of(word, number) // 4)
    data = np.concatenate(assembly.words)
    count = len(data) // at if at else 0
    rows = np.ascontiguousarray(data[: count * at]).view(np.uint8)
    attributes = np.broadcast_to(assembly.current, (count, ATTRIBUTE_COUNT, 4)).copy()
    for number, word, first in active:
        offsets = np.arange(count, dtype=np.int64) * (4 * at) + 4 * first
        attributes[:, number] = vertex_formats.fetch(rows, offsets, word, number)
    # The piece that has a vertex's first word.
    ends = np.cumsum([len(words) for words in assembly.words])
    pieces = np.searchsorted(ends, np.arange(count) * at, side="right")
    order = np.arange(count, dtype=np.int64)
    if engine["PRIM_RESTART_ENABLE"] and at:
        restart = engine["PRIM_RESTART_INDEX"]
        cuts = [words // at for words, indices in assembly.between_words if (indices == restart).any()]
        order = np.insert(order, np.minimum(cuts, count).astype(np.int64), -1)
    return attributes, np.array(assembly.id_bases, np.int64)[pieces], order


def _components(engine: RegisterEngine, number: int) -> int:
    """The components of an attribute that the vertex program reads, as bits."""
    return engine.at("VP_ATTR_EN", number // 8) >> 4 * (number % 8) & 15


def _inputs(
    engine: RegisterEngine, attributes: npt.NDArray[np.uint32], numbers: Integers, instance: int
) -> npt.NDArray[np.uint32]:
    """The enabled components of the attributes one after another, then the vertex's and the instance's number."""
    columns = []
    for number in range(ATTRIBUTE_COUNT):
        mask = _components(engine, number)
        columns += [attributes[:, number, i] for i in range(4) if mask >> i & 1]
    builtin = engine["VP_GP_BUILTIN_ATTR_EN"]
    if builtin & _VERTEX_ID:
        columns.append(numbers.astype(np.uint32))
    if builtin & _INSTANCE_ID:
        columns.append(np.full(len(numbers), instance, dtype=np.uint32))
    return np.stack(columns, axis=1) if columns else np.zeros((len(numbers), 1), dtype=np.uint32)


# --- primitives ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Primitives:
    """Primitives as rows of vertices: one column for points, two for lines, three for triangles (four and six with adjacency)."""

    vertices: Integers
    provoking: Integers
    """The provoking vertex of each primitive, which supplies its flat attributes."""
    numbers: Integers
    """The number of each primitive in the draw, as programs see it."""
    edges: npt.NDArray[np.bool_] | None = None
    """For triangles: whether the edges from corners 0, 1 and 2 to the next corner are edges of the original polygon."""

    @property
    def corners(self) -> int:
        return self.vertices.shape[1]


def assemble(kind: int, order: Integers, provoking_last: bool) -> Primitives:
    """The primitives of a draw; ``order`` lists its vertices, and -1 restarts a primitive."""
    parts = [p[p >= 0] for p in np.split(order, np.flatnonzero(order < 0))]
    made = [_assemble(kind, part, provoking_last) for part in parts if len(part)]
    width = _CORNERS[kind]
    if not made:
        empty = np.zeros(0, dtype=np.int64)
        return Primitives(np.zeros((0, width), dtype=np.int64), empty, empty, np.zeros((0, 3), dtype=bool))
    numbers, first = [], 0
    for piece in made:
        numbers.append(piece.numbers + first)
        first += int(piece.numbers[-1]) + 1 if len(piece.numbers) else 0
    edges = [piece.edges for piece in made if piece.edges is not None]
    return Primitives(
        np.concatenate([piece.vertices for piece in made]),
        np.concatenate([piece.provoking for piece in made]),
        np.concatenate(numbers),
        np.concatenate(edges) if edges else None,
    )


_CORNERS = {
    POINTS: 1,
    LINES: 2,
    LINE_LOOP: 2,
    LINE_STRIP: 2,
    LINES_ADJACENCY: 4,
    LINE_STRIP_ADJACENCY: 4,
    TRIANGLES_ADJACENCY: 6,
    TRIANGLE_STRIP_ADJACENCY: 6,
}
for _kind in (TRIANGLES, TRIANGLE_STRIP, TRIANGLE_FAN, QUADS, QUAD_STRIP, POLYGON):
    _CORNERS[_kind] = 3


def _assemble(kind: int, order: Integers, last: bool) -> Primitives:
    count = len(order)
    if kind == POINTS:
        return _made(order[:, None], 0)
    if kind in (LINES, LINE_STRIP, LINE_LOOP):
        return _made(order[_lines(kind, count)], 1 if last else 0)
    if kind in (LINES_ADJACENCY, LINE_STRIP_ADJACENCY):
        step = 4 if kind == LINES_ADJACENCY else 1
        first = np.arange(0, count - 3, step)[:, None]
        return _made(order[first + np.arange(4)], 2 if last else 1)
    if kind in (TRIANGLES_ADJACENCY, TRIANGLE_STRIP_ADJACENCY):
        return _made(order[_with_neighbours(kind, count)], 4 if last else 0)
    return _triangles(kind, order, last)


def _made(vertices: Integers, provoking: int) -> Primitives:
    return Primitives(vertices, vertices[:, provoking] if len(vertices) else vertices[:, 0], np.arange(len(vertices)))


def _lines(kind: int, count: int) -> Integers:
    if kind == LINES:
        return np.arange(count // 2 * 2).reshape(-1, 2)
    rows = np.stack([np.arange(max(0, count - 1)), np.arange(1, max(1, count))], axis=1)
    if kind == LINE_LOOP and count > 1:
        rows = np.concatenate([rows, [[count - 1, 0]]])
    return rows


def _with_neighbours(kind: int, count: int) -> Integers:
    """Corners 0, 2 and 4, each followed by the vertex adjacent to the edge that it begins (OpenGL 3.3, table 2.4)."""
    if kind == TRIANGLES_ADJACENCY:
        return np.arange(count // 6 * 6).reshape(-1, 6)
    total = max(0, (count - 4) // 2)
    rows = []
    for i in range(total):
        at = 2 * i
        is_first, is_last = i == 0, i == total - 1
        if i % 2 == 0:
            before = 1 if is_first else at - 2
            after = at + 5 if is_last else at + 6
            rows.append([at, before, at + 2, after, at + 4, at + 3])
        else:
            after = at + 5 if is_last else at + 6
            rows.append([at + 2, at - 2, at, at + 3, at + 4, after])
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def _triangles(kind: int, order: Integers, last: bool) -> Primitives:
    count = len(order)
    if kind == TRIANGLES:
        rows = np.arange(count // 3 * 3).reshape(-1, 3)
        return _outlined(
            order, rows, rows[:, 2 if last else 0], np.arange(len(rows)), np.ones((len(rows), 3), dtype=bool)
        )
    if kind == TRIANGLE_STRIP:
        i = np.arange(max(0, count - 2))
        odd = i & 1
        # The winding alternates; the provoking vertex stays first, or last.
        rows = (
            np.stack([i + odd, i + 1 - odd, i + 2], axis=1) if last else np.stack([i, i + 1 + odd, i + 2 - odd], axis=1)
        )
        return _outlined(order, rows, i + 2 if last else i, i, np.ones((len(rows), 3), dtype=bool))
    if kind in (TRIANGLE_FAN, POLYGON):
        i = np.arange(max(0, count - 2))
        rows = np.stack([np.zeros_like(i), i + 1, i + 2], axis=1)
        edges = np.ones((len(rows), 3), dtype=bool)
        if kind == POLYGON:
            edges[1:, 0], edges[:-1, 2] = False, False
            return _outlined(order, rows, np.zeros_like(i), np.zeros_like(i), edges)
        return _outlined(order, rows, i + 2 if last else i + 1, i, edges)
    if kind == QUADS:
        corners = np.arange(count // 4 * 4).reshape(-1, 4)
    else:
        first = np.arange(0, count - 3, 2)
        corners = np.stack([first, first + 1, first + 3, first + 2], axis=1)
    provoking = corners[:, 3 if last else 0] if kind == QUADS else corners[:, 2 if last else 0]
    rows = np.stack([corners[:, [0, 1, 3]], corners[:, [1, 2, 3]]], axis=1).reshape(-1, 3)
    edges = np.tile(np.array([[True, False, True], [True, True, False]]), (len(corners), 1))
    return _outlined(order, rows, np.repeat(provoking, 2), np.repeat(np.arange(len(corners)), 2), edges)


def _outlined(
    order: Integers, rows: Integers, provoking: Integers, numbers: Integers, edges: npt.NDArray[np.bool_]
) -> Primitives:
    return Primitives(order[rows], order[provoking], numbers, edges)
