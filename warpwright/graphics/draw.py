"""One draw: vertices through their programs, primitives through setup and raster, quads through pixel programs and ROPs.

Stages follow Figure 1 of the seed, each for a whole batch.  Fragments of a pixel are processed in the order of their primitives.
"""

from __future__ import annotations

from warpwright.graphics import draw_programs, input_assembler
from warpwright.graphics.fragments import render
from warpwright.graphics.input_assembler import Primitives, Vertices
from warpwright.graphics.linkage import mapped
from warpwright.graphics.state_3d import State3D

_VERTEX_CONSTANT, _GEOMETRY_CONSTANT = 0x40, 0x80
_WITHOUT_NEIGHBOURS = {4: (1, 2), 6: (0, 2, 4)}
"""The corners proper of lines and triangles with adjacency, used if there is no geometry program to read the neighbours."""


def draw(engine: State3D, kind: int, vertices: Vertices) -> None:
    """Execute a draw of a type of primitives.

    Raises:
        CommandError: a state that is not provided.
        MemoryFaultError: a fetch or a write outside the buffers.
        ExecutionError: a program is at fault.
    """
    primitives = input_assembler.assemble(kind, vertices.order, bool(engine["PROVOKING_VERTEX_LAST"]))
    engine.draws += 1
    counts = engine.queries.counts
    counts["vertices fetched"] += int((vertices.order >= 0).sum())
    counts["primitives fetched"] += len(primitives.vertices)
    counts["vertex programs"] += len(vertices.inputs)
    if not len(primitives.vertices):
        return
    if engine.watch is not None:
        engine.watch.make_room()
        engine.watch.collected(engine, vertices, primitives, kind)
    results = draw_programs.run_vertices(engine, vertices.inputs)
    attributes = mapped(engine, "VP", results, _VERTEX_CONSTANT)
    if engine["GP_ENABLE"]:
        counts["geometry programs"] += len(primitives.vertices)
        results, primitives = draw_programs.run_geometry(engine, attributes, primitives)
        attributes = mapped(engine, "GP", results, _GEOMETRY_CONSTANT)
        counts["primitives of geometry programs"] += len(primitives.vertices)
    elif primitives.corners in _WITHOUT_NEIGHBOURS:
        corners = list(_WITHOUT_NEIGHBOURS[primitives.corners])
        primitives = Primitives(primitives.vertices[:, corners], primitives.provoking, primitives.numbers)
    if engine.watch is not None:
        engine.watch.assembled(primitives)
    counts["primitives generated"] += len(primitives.vertices)
    if engine["STRMOUT_ENABLE"]:
        written = engine.stream_output.write(engine, attributes, primitives.vertices)
        counts["primitives streamed out"] += written
        engine.queries.overflowed |= written < len(primitives.vertices)
    if engine["RASTERIZE_ENABLE"]:
        render(engine, attributes, primitives)
