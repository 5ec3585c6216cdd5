"""The watch: converts the steps of functional draws to work for the timed stages.

Functional stages call the watch after each step (``draw.py``, ``draw_programs.py``, ``fragments.py``). Programs run again in simulated time with the same
inputs, which the watch therefore keeps: the vertices that miss the vertex cache, primitives, and quads in the order of their tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.engine.device_memory import DeviceMemory
from warpwright.engine.launch import LaunchContext
from warpwright.graphics.compiled import compiled
from warpwright.graphics.input_assembler import Primitives, Vertices, fetched_places
from warpwright.graphics.shader_programs import Constants, Pixels, PlacedRun, ShaderProgram
from warpwright.graphics.state_3d import State3D
from warpwright.graphics.texture_fields import NOTE_BASE, NOTE_PLACE, NOTE_SHIFT, NOTE_WORDS, NOTES_AT
from warpwright.graphics.texture_unit import TextureUnit
from warpwright.graphics.timed.work import (
    DRAW,
    GEOMETRY_WARP,
    PART,
    PIXEL_WARP,
    PRIMITIVE,
    RUN,
    VERTEX_WARP,
    Records,
    Work,
    new_records,
)
from warpwright.graphics.video_memory import FIRST_ADDRESS
from warpwright.isa.nv50.stage_words import NOBODY
from warpwright.isa.program import Program

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
WARP, QUADS = 32, 8
ARENA_BYTES = 1 << 31
NOTE_RING_WORDS = 1 << 22
_REGISTERS = {"vertex": "VP", "geometry": "GP", "pixel": "FP"}
_LEAST_REGISTERS = 4
_NAMES = {
    0: ("point", ""),
    1: ("line", ""),
    2: ("line", " of a loop"),
    3: ("line", " of a strip"),
    4: ("triangle", ""),
    5: ("triangle", " of a strip"),
    6: ("triangle", " of a fan"),
}
"""Names of primitives, by the number of their type (``VERTEX_BEGIN_GL``)."""


class Arena:
    """Memory for the inputs of all runs of a batch."""

    def __init__(self) -> None:
        self.memory = DeviceMemory(ARENA_BYTES)
        self._taken: list[object] = []

    def words(self, count: int) -> tuple[int, Words]:
        room = self.memory.allocate(max(4 * count, 4), "attributes of a graphics program")
        self._taken.append(room)
        return room.address, self.memory.view(room.address, 4 * count).view(np.uint32)

    def empty(self) -> None:
        for room in self._taken:
            self.memory.free(room)  # type: ignore[arg-type]
        self._taken.clear()


@dataclass(slots=True)
class ProgramRun:
    """One timed run of a program: a grid of warps."""

    kind: int
    """One of ``work.KINDS``."""
    draw: int
    made: ShaderProgram
    program: Program
    context: LaunchContext
    warps: int
    keep: list[object] = field(default_factory=list)


@dataclass(slots=True)
class _Rows:
    """Collects the batch's records as a list of arrays."""

    found: dict[str, list[Any]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, rows: Records | Integers) -> int:
        """Add rows; returns the number of the first one."""
        first = self.counts.get(name, 0)
        self.found.setdefault(name, []).append(rows)
        self.counts[name] = first + len(rows)
        return first

    def count(self, name: str) -> int:
        return self.counts.get(name, 0)

    def whole(self, name: str, dtype: np.dtype[np.void]) -> Records:
        return np.concatenate(self.found[name]) if self.found.get(name) else np.zeros(0, dtype)


@compiled
def through_vertex_cache(
    primitives: npt.NDArray[np.int64], kept: int, misses: npt.NDArray[np.int64], last: npt.NDArray[np.int64]
) -> int:
    """Collect the vertices (rows) that miss the vertex cache, in the order in which they are transformed; returns their number.

    Args:
        primitives: (n, corners): rows of vertices.
        last: for each primitive, the number of the last vertex that it needs; -1 for none yet.
    """
    cache = np.full(kept, -1, dtype=np.int64)
    number = np.full(kept, -1, dtype=np.int64)
    count = place = 0
    newest = -1
    for p in range(primitives.shape[0]):
        for corner in range(primitives.shape[1]):
            row, at = primitives[p, corner], -1
            for n in range(kept):
                if cache[n] == row:
                    at = number[n]
                    break
            if at < 0:
                misses[count] = row
                cache[place], number[place] = row, count
                at = count
                place = place + 1 if place + 1 < kept else 0
                count += 1
            newest = max(newest, at)
        last[p] = newest
    return count


@compiled
def new_lines(sectors: npt.NDArray[np.int64], kept: int) -> npt.NDArray[np.bool_]:
    """The sectors read for vertices that the input assembler does not already hold."""
    cache = np.full(kept, -1, dtype=np.int64)
    new = np.zeros(len(sectors), dtype=np.bool_)
    place = 0
    for n in range(len(sectors)):
        there = False
        for k in range(kept):
            if cache[k] == sectors[n]:
                there = True
                break
        if not there:
            new[n] = True
            cache[place] = sectors[n]
            place = place + 1 if place + 1 < kept else 0
    return new


class Watch:
    """Collects the work of draws.

    Args:
        clusters: the clusters that run pixels, and those that run vertices.
    """

    def __init__(self, chip: Chip, host_address: int, clusters: tuple[list[int], list[int]]) -> None:
        self.chip, self.graphics = chip, chip.graphics
        self.clusters = clusters
        self.arena = Arena()
        self.notes = np.zeros(NOTES_AT + NOTE_RING_WORDS, np.int64)
        self.notes[NOTE_BASE], self.notes[NOTE_WORDS] = host_address, len(self.notes)
        self.notes[NOTE_SHIFT] = max(chip.texture.texture_unit_line_bytes, 1).bit_length() - 1
        self._programs: dict[tuple[int, int], Program] = {}
        self.before_draw: Callable[[], None] = lambda: None
        """Called before each draw and clear, to take pictures."""
        self.when_full: Callable[[], None] = lambda: None
        self._turn = 0
        self._words = 0
        self.empty()

    def empty(self) -> None:
        """Begin a new batch."""
        self.runs: list[ProgramRun] = []
        self.rows = _Rows()
        self.labels: list[str] = []
        self.arena.empty()
        self.notes[NOTE_PLACE] = NOTES_AT
        self._vertices: Vertices | None = None
        self._geometry_parents: Integers | None = None

    def make_room(self) -> None:
        """Before a draw, run the batch if it is full."""
        self.when_full()

    # --- draws ----------------------------------------------------------------------------------------
    @property
    def draws(self) -> int:
        return self.rows.count("draws")

    def commands(self, words: int) -> None:
        """Words that the front end has fetched so far; those since the previous draw belong to the next one."""
        self._words += words

    def begin(self, label: str) -> int:
        """Begin a draw or a similar operation."""
        self.before_draw()
        row = new_records(1, DRAW)
        row["words"], self._words = self._words, 0
        row["first_primitive"], row["first_run"] = self.rows.count("primitives"), self.rows.count("runs")
        self.labels.append(label)
        return self.rows.add("draws", row)

    def program_of(self, engine: State3D, made: ShaderProgram) -> Program:
        """A program and the registers that its threads use."""
        registers = max(engine[f"{_REGISTERS[made.stage]}_REG_ALLOC_TEMP"], _LEAST_REGISTERS)
        key = (id(made), registers)
        if key not in self._programs:
            self._programs[key] = replace(made.program, registers=min(registers, self.chip.sm.max_registers_per_thread))
        return self._programs[key]

    def add_run(
        self,
        engine: State3D,
        kind: int,
        made: ShaderProgram,
        placed: PlacedRun,
        given: tuple[Constants, TextureUnit | None],
    ) -> int:
        """Add a run of a program; returns its number among the batch's grids."""
        constants, textures = given
        copies = {
            n: np.frombuffer(c, np.uint8).copy() if isinstance(c, bytes) else c.copy() for n, c in constants.items()
        }
        if textures is not None:
            textures.record_in(self.notes)
        context = made.context_of(placed, copies, textures)
        warps = -(-placed.threads // WARP)
        self.runs.append(
            ProgramRun(kind, self.draws - 1, made, self.program_of(engine, made), context, warps, [placed, copies])
        )
        return len(self.runs) - 1

    # --- vertices and primitives ------------------------------------------------------------------------
    def collected(self, engine: State3D, vertices: Vertices, primitives: Primitives, kind: int) -> None:
        """The input assembler has collected a draw."""
        name, rest = _NAMES.get(kind, ("primitive", ""))
        count = len(primitives.vertices)
        self.begin(f"draw {engine.draws}: {count:,} {name}{'s' * (count != 1)}{rest}")
        self._vertices, self._primitives = vertices, primitives
        self._geometry_parents = None

    def vertex_program(
        self, engine: State3D, made: ShaderProgram, inputs: Words, given: tuple[Constants, TextureUnit | None]
    ) -> None:
        """The vertex program has run; in simulated time, a vertex runs each time it misses the vertex cache."""
        assert self._vertices is not None
        rows = self._primitives.vertices
        misses, last = np.zeros(rows.size, np.int64), np.zeros(len(rows), np.int64)
        kept = max(self.graphics.vertex_cache_vertices_count, 1)
        chosen = misses[: through_vertex_cache(np.ascontiguousarray(rows), kept, misses, last)]
        grid = self.add_run(engine, 0, made, made.place_vertices(inputs[chosen], self.arena), given)
        warps = new_records(-(-len(chosen) // WARP), VERTEX_WARP)
        self._input_work(engine, warps, chosen, last, inputs.shape[1])
        warps["draw"], warps["grid"], warps["block"] = self.draws - 1, grid, np.arange(len(warps))
        warps["cluster"] = self._round_robin(len(warps))
        self._first_vertex_warp = self.rows.add("vertex_warps", warps)
        made_of = new_records(len(rows), PRIMITIVE)
        made_of["draw"], made_of["geometry_warp"] = self.draws - 1, -1
        made_of["vertex_warp"] = self._first_vertex_warp + last // WARP
        self._made_of = made_of

    def _round_robin(self, count: int) -> Integers:
        """Assign warps to the vertex clusters in turn."""
        clusters = np.array(self.clusters[1])
        turns = (self._turn + np.arange(count)) % len(clusters)
        self._turn = (self._turn + count) % len(clusters)
        return clusters[turns]

    def _input_work(self, engine: State3D, warps: Records, chosen: Integers, last: Integers, scalars: int) -> None:
        """The input assembler's work for each warp: primitives, scalars, and sectors of arrays to fetch."""
        assert self._vertices is not None
        graphics, count = self.graphics, len(warps)
        primitives = np.bincount(last // WARP, minlength=count)[:count]
        each = np.bincount(np.arange(len(chosen)) // WARP, minlength=count)
        warps["core_cycles"] = np.maximum(
            primitives / graphics.input_primitives_per_clk, each * scalars / graphics.input_scalars_per_clk
        )
        elements = self._vertices.elements
        if elements is None:
            return
        size = self.chip.l1.sector_bytes
        columns, owners = [], []
        for places, wide in fetched_places(engine, elements[chosen]):
            first, end = (places - FIRST_ADDRESS) // size, (places + wide - 1 - FIRST_ADDRESS) // size
            columns += [first, end]
            owners += [np.arange(len(chosen)) // WARP] * 2
        if not columns:
            return
        sectors = np.stack(columns, axis=1).reshape(-1)
        owner = np.stack(owners, axis=1).reshape(-1)
        new = new_lines(sectors, max(graphics.vertex_fetch_lines_count, 1))
        lines = sectors[new]
        per_warp = np.bincount(owner[new], minlength=count)
        first_line = self.rows.add("vertex_lines", lines)
        warps["lines"] = per_warp
        warps["first_line"] = first_line + np.cumsum(per_warp) - per_warp

    def geometry_program(
        self,
        engine: State3D,
        made: ShaderProgram,
        inputs: Words,
        numbers: Words,
        most: int,
        given: tuple[Constants, TextureUnit | None],
    ) -> None:
        """The geometry program has run."""
        grid = self.add_run(engine, 1, made, made.place_primitives(inputs, numbers, most, self.arena), given)
        warps = new_records(-(-len(inputs) // WARP), GEOMETRY_WARP)
        warps["draw"], warps["grid"], warps["block"] = self.draws - 1, grid, np.arange(len(warps))
        warps["cluster"] = self._round_robin(len(warps))
        ends = np.minimum(np.arange(1, len(warps) + 1) * WARP, len(inputs)) - 1
        warps["after"] = self._made_of["vertex_warp"][ends]
        first = self.rows.add("geometry_warps", warps)
        self._geometry_parents = first + np.arange(len(inputs)) // WARP
        self._most = most

    def assembled(self, primitives: Primitives) -> None:
        """Primitives have been assembled for setup."""
        rows = self._made_of
        if self._geometry_parents is not None:
            parents = primitives.vertices[:, 0] // self._most
            rows = new_records(len(primitives.vertices), PRIMITIVE)
            rows["draw"], rows["vertex_warp"] = self.draws - 1, -1
            rows["geometry_warp"] = self._geometry_parents[parents]
        self._set_up = rows
        self._first_primitive = self.rows.add("primitives", rows)
        self.rows.found["draws"][-1]["primitives"] = len(rows)

    def was_set_up(self, parents: Integers) -> None:
        """Setup has converted these primitives to triangles, lines or points."""
        self._set_up["made"] += np.bincount(parents, minlength=len(self._set_up))

    # --- the batch ------------------------------------------------------------------------------------
    def work(self) -> Work:
        """All the work collected."""
        rows = self.rows
        lines = np.concatenate(rows.found["vertex_lines"]) if rows.found.get("vertex_lines") else np.zeros(0, np.int64)
        return Work(
            rows.whole("draws", DRAW),
            rows.whole("vertex_warps", VERTEX_WARP),
            lines.astype(np.int64),
            rows.whole("geometry_warps", GEOMETRY_WARP),
            rows.whole("primitives", PRIMITIVE),
            rows.whole("runs", RUN),
            rows.whole("pixel_warps", PIXEL_WARP),
            rows.whole("parts", PART),
        )


def chosen_pixels(pixels: Pixels, quads: Integers) -> Pixels:
    """Pixels of the quads with the given numbers; -1 stands for a quad without pixels."""
    rows = (np.maximum(quads, 0)[:, None] * 4 + np.arange(4)).reshape(-1)
    nobody = np.repeat(quads < 0, 4)
    primitive = pixels.primitive[rows].copy()
    primitive[nobody] = np.uint32(NOBODY).view(np.int32)

    def taken(values: npt.NDArray[np.float32] | None) -> npt.NDArray[np.float32] | None:
        return None if values is None else values[rows]

    return Pixels(
        primitive,
        pixels.x[rows],
        pixels.y[rows],
        pixels.planes,
        pixels.facing,
        taken(pixels.centroid_x),
        taken(pixels.centroid_y),
    )
