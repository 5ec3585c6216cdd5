"""The programs of a draw: their code, constants and textures as set in registers, and their runs over batches of vertices, primitives and quads."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from warpwright.graphics.input_assembler import Primitives
from warpwright.graphics.setup import SetUp
from warpwright.graphics.shader_programs import MOST_SLOTS, Constants, Pixels, ShaderProgram, Textures, load_program
from warpwright.graphics.state_3d import State3D
from warpwright.isa.program import Kind

Words = npt.NDArray[np.uint32]
Stage = Literal["vertex", "geometry", "pixel"]
_CODE_BYTES = 1 << 19
"""Size of a stage's code segment in bytes; branch targets are relative to its start."""
_REGISTERS: dict[Stage, str] = {"vertex": "VP", "geometry": "GP", "pixel": "FP"}
_INDEXED_LOCAL_BYTES = 4096
_MOST_RESULTS, _MOST_LOCAL_LOG, _MOST_EMITTED = 64, 14, 1024
"""Registers of a pixel program's results, the logarithm of a thread's local memory in units of 8 bytes, and vertices that a geometry program emits."""
_POINTS, _LINES = 1, 2
"""GP_OUTPUT_PRIMITIVE_TYPE."""
_loaded: dict[bytes, ShaderProgram] = {}
"""Decoded programs, by their code and the other state that they depend on."""


def program(engine: State3D, stage: Stage) -> ShaderProgram:
    """The current program of a stage.

    Raises:
        BadProgram: its code is invalid.
        MemoryFaultError: its code is not in a buffer.
    """
    name = _REGISTERS[stage]
    base, entry = engine.address(f"{name}_ADDRESS_HIGH"), engine[f"{name}_START_ID"]
    buffer = engine.memory.find(base)
    size = min(_CODE_BYTES, buffer.address + buffer.size - base) if buffer else _CODE_BYTES
    code = engine.memory.view(base, size, f"the {stage} program's code")
    results = engine.limited("FP_RESULT_COUNT", _MOST_RESULTS) if stage == "pixel" else 0
    slots = engine.limited(f"{name}_REG_ALLOC_RESULT", MOST_SLOTS) if stage != "pixel" else 0
    local_log = engine.limited("LOCAL_SIZE_LOG", _MOST_LOCAL_LOG)
    local = 8 << local_log if local_log else 0
    key = hashlib.blake2b(code[entry:].tobytes(), digest_size=16)
    key.update(repr((stage, entry, results, slots, local)).encode())
    found = _loaded.get(key.digest())
    if found is None:
        contents = code.tobytes()
        found = load_program(contents, entry, stage, results=results, output_slots=slots, local_bytes=local)
        needed = _local_bytes(found)
        if needed > local:
            found = load_program(contents, entry, stage, results=results, output_slots=slots, local_bytes=needed)
        _loaded[key.digest()] = found
    return found


def _local_bytes(made: ShaderProgram) -> int:
    """Size of the local memory that a program's instructions access.

    Mesa 22.3 sets LOCAL_SIZE_LOG without counting a program's arrays. The chip does not check addresses against it; a thread that exceeds it accesses memory of
    warps that are not running.
    """
    operands = [o for i in made.instructions for o in i.operands if o.kind is Kind.MEMORY and o.name == "l"]
    if not operands:
        return 0
    highest = max(o.value for o in operands) + 16
    return max(highest, _INDEXED_LOCAL_BYTES) if any(o.base is not None for o in operands) else highest


def constants(engine: State3D, stage: Stage) -> Constants:
    """The contents of the stage's constant buffers."""
    return {index: words.view(np.uint8) for index, words in engine.constants.contents(stage).items()}


def textures(engine: State3D, made: ShaderProgram, stage: Stage) -> Textures | None:
    """The textures and samplers that a program's instructions use."""
    if not made.uses_textures:
        return None
    return engine.texture_unit(stage, made.texture_numbers("t"), made.texture_numbers("s"))


def bound(engine: State3D, stage: Stage) -> tuple[ShaderProgram, tuple[Constants, Textures | None]]:
    """The program of a stage, and the constants and textures that it reads."""
    made = program(engine, stage)
    return made, (constants(engine, stage), textures(engine, made, stage))


def run_vertices(engine: State3D, inputs: Words) -> Words:
    """Run the vertex program for vertices (n, slots); returns their results."""
    made, given = bound(engine, "vertex")
    results = made.run_vertices(inputs, *given)
    if engine.watch is not None:
        engine.watch.vertex_program(engine, made, inputs, given)
    return results


def run_pixels(
    engine: State3D,
    made: SetUp,
    primitive: npt.NDArray[np.int64],
    x: npt.NDArray[np.float32],
    y: npt.NDArray[np.float32],
    centroid: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]] | None,
) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Run the pixel program for quads, each of four consecutive pixels; returns the results and a mask of the discarded pixels."""
    used, local = np.unique(primitive, return_inverse=True)
    pixels = Pixels(
        np.repeat(local.astype(np.int32), 4),
        np.ascontiguousarray(x).reshape(-1),
        np.ascontiguousarray(y).reshape(-1),
        made.planes[used],
        made.is_front[used],
        *((c.reshape(-1) for c in centroid) if centroid else (None, None)),
    )
    found, given = bound(engine, "pixel")
    results = found.run_pixels(pixels, *given)
    if engine.watch is not None:
        engine.watch.pixel_program(engine, found, pixels, given)
    return results


def run_geometry(engine: State3D, attributes: Words, primitives: Primitives) -> tuple[Words, Primitives]:
    """Run the geometry program; returns the vertices that it emits and the primitives that they form."""
    made, given = bound(engine, "geometry")
    most = engine.limited("GP_VERTEX_OUTPUT_COUNT", _MOST_EMITTED)
    inputs = attributes[primitives.vertices]
    numbers = primitives.numbers.astype(np.uint32)
    emitted = made.run_primitives(inputs, numbers, most, *given)
    if engine.watch is not None:
        engine.watch.geometry_program(engine, made, inputs, numbers, most, given)
    kind, last = engine["GP_OUTPUT_PRIMITIVE_TYPE"], bool(engine["PROVOKING_VERTEX_LAST"])
    rows: list[npt.NDArray[np.int64]] = []
    provoking: list[npt.NDArray[np.int64]] = []
    for p in range(len(emitted.counts)):
        count = int(emitted.counts[p])
        starts = [0, *(i for i in range(1, count) if emitted.cuts[p, i]), count]
        for a, b in pairwise(starts):
            strip, chosen = _strip(kind, a, b, last)
            rows.append(strip + p * most)
            provoking.append(chosen + p * most)
    words = emitted.words.reshape(-1, emitted.words.shape[2])
    if not rows:
        empty = np.zeros(0, dtype=np.int64)
        return words, Primitives(np.zeros((0, kind), dtype=np.int64), empty, empty)
    vertices = np.concatenate(rows)
    return words, Primitives(vertices, np.concatenate(provoking), np.arange(len(vertices)))


def _strip(kind: int, a: int, b: int, last: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Primitives of a strip of the vertices from ``a`` to before ``b``, and their provoking vertices."""
    if kind == _POINTS:
        i = np.arange(a, b)
        return i[:, None], i
    if kind == _LINES:
        i = np.arange(a, max(a, b - 1))
        return np.stack([i, i + 1], axis=1), i + 1 if last else i
    i = np.arange(a, max(a, b - 2))
    odd = (i - a) & 1
    rows = np.stack([i + odd, i + 1 - odd, i + 2], axis=1) if last else np.stack([i, i + 1 + odd, i + 2 - odd], axis=1)
    return rows, i + 2 if last else i
