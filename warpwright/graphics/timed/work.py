"""Records of the work of a batch of draws, in the form that compiled stages take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]
UNKNOWN = float("inf")
"""A time that is not yet known."""

STAGES = (
    *(
        "front end",
        "input assembler",
        "vertex programs",
        "geometry programs",
        "clip and setup",
        "coarse raster",
        "z-cull",
    ),
    *("fine raster", "early depth", "distribution", "pixel programs", "ROP"),
)
(FRONT, INPUT, VERTEX, GEOMETRY, SETUP, COARSE, ZCULL, FINE, DEPTH, DISTRIBUTION, PIXEL, ROP) = range(len(STAGES))
KINDS = ("vertex", "geometry", "pixel", "compute")
"""Kinds of work on SMs: those of graphics in the order of the pipeline, then the blocks of kernels."""
GRAPHICS_KINDS = KINDS[:3]

_TIMES = [("ready", "f8"), ("start", "f8"), ("end", "f8")]
DRAW = np.dtype([("words", "i8"), ("first_primitive", "i8"), ("primitives", "i8"), ("first_run", "i8"), ("runs", "i8")])
VERTEX_WARP = np.dtype(
    [
        ("draw", "i8"),
        ("grid", "i8"),
        ("block", "i8"),
        ("cluster", "i8"),
        ("core_cycles", "f8"),
        ("first_line", "i8"),
        ("lines", "i8"),
        *_TIMES,
    ]
)
BLOCK = np.dtype([("kernel", "i8"), ("grid", "i8"), ("block", "i8"), ("latency", "f8"), *_TIMES])
"""A block of a kernel that runs beside draws. ``latency``: from its start on an SM to its first instruction."""
GEOMETRY_WARP = np.dtype([("draw", "i8"), ("grid", "i8"), ("block", "i8"), ("cluster", "i8"), ("after", "i8"), *_TIMES])
"""``after``: the last warp of vertices that it needs."""
PRIMITIVE = np.dtype([("draw", "i8"), ("vertex_warp", "i8"), ("geometry_warp", "i8"), ("made", "i8"), ("done", "f8")])
"""``made``: number of triangles, lines or points that setup passes on."""
RUN = np.dtype(
    [("draw", "i8"), ("primitive", "i8"), ("cluster", "i8"), ("partition", "i8"), ("sector", "i8")]
    + [(name, "i8") for name in ("quads", "culled", "early", "alive", "shaded", "cleared")]
    + [(name, "i8") for name in ("depth_reads", "depth_writes", "colour_reads", "colour_writes", "paid")]
    + [("tested", "f8"), ("distributed", "f8")]
)
"""The quads of a primitive in a raster tile.

``sector``: the tile's sector in DRAM; ``culled``: Z-cull rejects it; ``early``: depth is tested before the pixel program; ``alive``: number of quads that go to
pixel programs; ``cleared``: tiles of a clear; reads and writes are in sectors; ``paid``: its colours' traffic has been issued.
"""
PIXEL_WARP = np.dtype(
    [
        ("draw", "i8"),
        ("grid", "i8"),
        ("block", "i8"),
        ("cluster", "i8"),
        ("run", "i8"),
        ("first_part", "i8"),
        ("parts", "i8"),
        *_TIMES,
    ]
)
"""``run``: the run after whose distribution it is complete."""
PART = np.dtype([("run", "i8"), ("quads", "i8"), ("tested", "i8")])
"""Quads of a warp in one run: those whose colours the ROP writes, and those whose depth it tests after the program."""


def new_records(count: int, kind: np.dtype[np.void]) -> Records:
    """Records with unknown times."""
    made = np.zeros(count, kind)
    for name in ("ready", "start", "end", "done", "tested", "distributed"):
        if kind.names is not None and name in kind.names and kind[name] == np.float64:
            made[name] = UNKNOWN
    return made


class Work(NamedTuple):
    """A batch of draws."""

    draws: Records
    vertex_warps: Records
    vertex_lines: npt.NDArray[np.int64]
    """The 128-byte lines that vertex warps fetch."""
    geometry_warps: Records
    primitives: Records
    runs: Records
    pixel_warps: Records
    parts: Records


class Rates(NamedTuple):
    """A chip's numbers, in cycles of the SMs' clock."""

    core: float
    """One cycle of the core clock."""
    word: float
    """Cycles of the front end per word."""
    clip: float
    setup: float
    coarse: float
    zcull: float
    fine_quad: float
    rop_quad: float
    depth_quad: float
    distributed_quad: float
    latency: float
    clusters: int
    partitions: int
    vertex_buffer: int
    pixel_queue: int
    sector_bytes: int


class Pipe(NamedTuple):
    """The state of the stages between two windows."""

    free: npt.NDArray[np.float64]
    """When each stage takes its next work."""
    cluster_free: npt.NDArray[np.float64]
    """(2, clusters): the same for distribution, and for results going to the ROPs."""
    rop_free: npt.NDArray[np.float64]
    """(2, partitions): the same for depth and for colours."""
    next: npt.NDArray[np.int64]
    """The next item of each stage."""
    queued: npt.NDArray[np.int64]
    """Number of pixel warps waiting at each cluster."""
    out: npt.NDArray[np.int64]
    """Number of vertex warps of each cluster that setup has not consumed."""
    first: npt.NDArray[np.float64]
    last: npt.NDArray[np.float64]
    busy: npt.NDArray[np.float64]
    """(draws, stages): begin and end of each draw on each stage, and how long it kept the stage busy."""
    waits: npt.NDArray[np.float64]
    """(stages): how long each stage was blocked."""
    stopped: npt.NDArray[np.float64]
    """(stages): the time since which a stage has been blocked; UNKNOWN if it is not."""
    counts: npt.NDArray[np.int64]
    """(draws, counters): ``COUNTERS``."""


COUNTERS = ("tiles", "tiles culled", "quads", "quads shaded", "depth sectors", "colour sectors")
(N_TILES, N_CULLED, N_QUADS, N_SHADED, N_DEPTH, N_COLOUR) = range(len(COUNTERS))


def new_pipe(draws: int, clusters: int, partitions: int) -> Pipe:
    """An idle pipeline."""
    stages = len(STAGES)
    return Pipe(
        np.zeros(stages),
        np.zeros((2, clusters)),
        np.zeros((2, partitions)),
        np.zeros(stages, np.int64),
        np.zeros(clusters, np.int64),
        np.zeros(clusters, np.int64),
        np.full((draws, stages), UNKNOWN),
        np.zeros((draws, stages)),
        np.zeros((draws, stages)),
        np.zeros(stages),
        np.full(stages, UNKNOWN),
        np.zeros((draws, len(COUNTERS)), np.int64),
    )


def running(records: Records, times: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Number of warps running at each time."""
    began, ended = (np.searchsorted(np.sort(records[name]), times, "right") for name in ("start", "end"))
    return (began - ended).astype(np.float64)
