"""Draws in simulated time: stages' rates pinned from both sides, Z-cull that is never wrong, and recordings whose memory time does not touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warpwright.chips import load_chip
from warpwright.errors import UnsupportedError
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Replay
from warpwright.graphics.timed import stages, zcull
from warpwright.graphics.timed.capture import new_lines, through_vertex_cache
from warpwright.graphics.timed.frame import described, frame_of
from warpwright.graphics.timed.pipeline_machine import rates_of
from warpwright.graphics.timed.sm_controllers import (
    BALANCES,
    COMPUTE,
    Controller,
    Needs,
    Waiting,
    dynamic,
    static,
    vertices_first,
)
from warpwright.graphics.timed.tile_compression import CompressedSurface, Surfaces, depth_sectors, pass_cache
from warpwright.graphics.timed.work import (
    COARSE,
    DEPTH,
    DRAW,
    FINE,
    GEOMETRY_WARP,
    INPUT,
    PART,
    PIXEL_WARP,
    PRIMITIVE,
    RUN,
    SETUP,
    UNKNOWN,
    VERTEX_WARP,
    ZCULL,
    Work,
    new_pipe,
    new_records,
)
from warpwright.tools.report.frame_page import MOST_PICTURES, FramePictures, frame_page, heat_image

pytestmark = pytest.mark.ci
RECORDINGS = Path(__file__).parents[1] / "warpwright" / "studies" / "recordings"
CHIP = load_chip("g80")
RATES = rates_of(CHIP)
CORE = CHIP.clocks.sm_clock_mhz / CHIP.graphics.core_clock_mhz


# --- stages, one item after the other ---------------------------------------------------------------
def work(primitives: int = 0, runs: int = 0, vertex_warps: int = 1, **fields: Any) -> Work:
    """A draw of work without fetches, whose vertices have come out at cycle 0."""
    vertices = new_records(vertex_warps, VERTEX_WARP)
    vertices["end"], vertices["core_cycles"] = 0.0, 32.0
    vertices["cluster"] = np.arange(vertex_warps) % RATES.clusters
    made = new_records(primitives, PRIMITIVE)
    made["geometry_warp"], made["made"] = -1, 1
    tiles = new_records(runs, RUN)
    tiles["quads"], tiles["primitive"] = 64, 0
    tiles["partition"], tiles["cluster"] = np.arange(runs) % RATES.partitions, np.arange(runs) % RATES.clusters
    for name, value in fields.items():
        tiles[name] = value
    none = np.zeros(0, np.int64)
    empty = (new_records(0, GEOMETRY_WARP), new_records(0, PIXEL_WARP), new_records(0, PART))
    return Work(new_records(1, DRAW), vertices, none, empty[0], made, tiles, empty[1], empty[2])


def passed(given: Work, until: float = 1e9) -> Any:
    pipe, traffic = new_pipe(1, RATES.clusters, RATES.partitions), stages.new_traffic()
    stages.before_window(given, RATES, pipe, until, traffic)
    stages.distribution_stage(given, RATES, pipe, until)
    return pipe


def test_setup_takes_a_primitive_per_clock() -> None:
    pipe = passed(work(primitives=50))
    assert pipe.next[SETUP] == 50
    assert pipe.busy[0, SETUP] == pytest.approx(50 * CORE)
    assert pipe.last[0, SETUP] - pipe.first[0, SETUP] == pytest.approx(50 * CORE)


def test_the_input_assembler_takes_eight_scalars_per_clock() -> None:
    """32 vertices of eight scalars are 32 clocks, and the next warp begins when they are over, not before."""
    pipe = passed(work(vertex_warps=3))
    assert pipe.last[0, INPUT] - pipe.first[0, INPUT] == pytest.approx(3 * 32 * CORE)


def test_the_input_assembler_waits_for_room() -> None:
    """A cluster has so many warps between it and setup."""
    most = RATES.vertex_buffer * RATES.clusters
    pipe = passed(work(vertex_warps=most + 1), until=1e6)
    assert pipe.next[INPUT] == most
    stages.end_window(pipe, 1e6)
    assert pipe.free[INPUT] == 1e6
    assert pipe.waits[INPUT] > 0


def test_zcull_rejects_256_pixels_per_clock() -> None:
    pipe = passed(work(primitives=1, runs=40, culled=1))
    assert pipe.last[0, ZCULL] - pipe.first[0, ZCULL] == pytest.approx(40 * CORE)
    assert pipe.busy[0, FINE] == 0


def test_fine_raster_holds_the_tiles_before_it_back() -> None:
    """64 pixels per clock: a whole tile takes four, and coarse rasterisation is no more than three tiles ahead."""
    pipe = passed(work(primitives=1, runs=40))
    assert pipe.busy[0, FINE] == pytest.approx(40 * 4 * CORE)
    assert pipe.last[0, COARSE] - pipe.first[0, COARSE] > 37 * 4 * CORE


def test_early_depth_takes_eight_pixels_per_clock_and_partition() -> None:
    given = work(primitives=1, runs=60, early=1)
    pipe = passed(given)
    # 60 tiles of 256 pixels over six partitions; the first tile of the last partition comes after five others, each of four clocks of fine raster.
    taken = pipe.rop_free[0].max() - pipe.first[0, DEPTH]
    assert 10 * 32 * CORE <= taken <= (10 * 32 + 8 * 4) * CORE
    assert pipe.busy[0].sum() >= 60 * 32 * CORE
    assert pipe.rop_free[0].min() == pytest.approx(pipe.rop_free[0].max(), rel=0.1)


def test_rops_take_four_pixels_per_clock() -> None:
    """Warps of eight quads of one partition are 32 pixels: eight clocks each, one after the other."""
    given = work(primitives=1, runs=1)
    warps, parts = new_records(10, PIXEL_WARP), new_records(10, PART)
    warps["end"], warps["first_part"], warps["parts"] = 0.0, np.arange(10), 1
    parts["quads"] = 8
    given = given._replace(pixel_warps=warps, parts=parts)
    pipe, traffic = new_pipe(1, RATES.clusters, RATES.partitions), stages.new_traffic()
    for n in range(10):
        stages.rop_warp(given, RATES, pipe, n, traffic)
    assert pipe.rop_free[1, 0] == pytest.approx(RATES.latency + 80 * CORE)


def test_a_stage_stops_at_the_end_of_the_window() -> None:
    pipe = passed(work(primitives=50), until=20 * CORE)
    assert 0 < pipe.next[SETUP] < 50


def test_setup_waits_for_the_vertices() -> None:
    given = work(primitives=5)
    given.vertex_warps["end"] = UNKNOWN
    assert passed(given).next[SETUP] == 0
    given.vertex_warps["end"] = 5000.0
    assert passed(given).first[0, SETUP] == pytest.approx(5000.0 + RATES.latency)


# --- vertices ---------------------------------------------------------------------------------------
def test_the_vertex_cache_forgets_the_first_in() -> None:
    strip = np.stack([np.arange(10), np.arange(1, 11), np.arange(2, 12)], axis=1).astype(np.int64)
    misses, last = np.zeros(30, np.int64), np.zeros(10, np.int64)
    assert through_vertex_cache(strip, 4, misses, last) == 12
    assert misses[:12].tolist() == list(range(12))
    assert last.tolist() == list(range(2, 12))
    again = np.concatenate([strip[:1], strip[5:6], strip[:1]])
    assert through_vertex_cache(again, 4, misses, last) == 9
    assert through_vertex_cache(again, 8, misses, last) == 6


def test_sectors_are_fetched_once_while_they_are_kept() -> None:
    sectors = np.array([1, 1, 2, 3, 1, 4, 5, 6, 1], np.int64)
    assert new_lines(sectors, 4).tolist() == [True, False, True, True, False, True, True, True, True]


# --- Z-cull -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("function", [1, 3, 4, 6, 7])
def test_zcull_never_rejects_what_would_pass(function: int) -> None:
    """Random planes over one tile against a depth buffer of every pixel: LESS, LEQUAL, GREATER, GEQUAL, ALWAYS."""
    rng = np.random.default_rng(function)
    size, side = 16, 2
    stored = np.full((side * size, side * size), 1.0 if function < 4 else 0.0)
    hierarchy = zcull.HierarchicalDepth(side, side)
    hierarchy.fill(float(stored[0, 0]))
    compare = {1: np.less, 3: np.less_equal, 4: np.greater, 6: np.greater_equal, 7: lambda a, b: np.ones_like(a, bool)}
    rejected = 0
    for _ in range(400):
        x, y = rng.integers(0, side, 2)
        plane = np.array([[*rng.normal(0, 0.01, 2), rng.random()]])
        rows, columns = np.mgrid[0:size, 0:size] + 0.5
        z = np.clip(plane[0, 2] + plane[0, 0] * (columns + x * size) + plane[0, 1] * (rows + y * size), 0, 1)
        covered = np.ones((size, size), bool) if rng.random() < 0.5 else rng.random((size, size)) < 0.3
        culled = zcull.cull_tiles(
            np.array([[x, y]]),
            np.zeros(1, np.int64),
            np.array([bool(covered.all())]),
            plane,
            np.array([[0.0, 1.0]]),
            np.zeros((1, 2), np.int64),
            (function, zcull.CULLS_AND_WRITES, size),
            (hierarchy.least, hierarchy.greatest),
        )
        place = stored[y * size : (y + 1) * size, x * size : (x + 1) * size]
        passes = covered & compare[function](z, place)
        rejected += int(culled[0])
        assert not (culled[0] and passes.any())
        place[passes] = z[passes]
        assert hierarchy.least[y, x] <= place.min() + 1e-9
        assert hierarchy.greatest[y, x] >= place.max() - 1e-9
    assert (rejected > 20) == (function != 7)


# --- compression and ROP caches ---------------------------------------------------------------------
def test_a_plane_is_compressed_and_noise_is_not() -> None:
    surface = CompressedSurface(0, 1, 1, 8, 0)
    y, x = np.mgrid[0:8, 0:8]
    plane = (1000 + 3 * x + 5 * y).astype(float)[None, :, :, None]
    quarters = plane + np.where((x < 4) & (y < 4), 500, 0)[None, :, :, None]
    noise = np.random.default_rng(0).integers(0, 1 << 24, (1, 8, 8, 1)).astype(float)
    assert [int(depth_sectors(v, surface, False, 8)[0]) for v in (plane, quarters, noise)] == [1, 2, 8]


def test_a_tile_is_read_once_and_written_when_it_leaves() -> None:
    surfaces = Surfaces(8, 8, 2, 1, 32)
    surface = surfaces.of(0, 64, 8, (1, 1), 4)
    assert surface.whole_sectors == 8
    surfaces.sectors[:] = 8
    tiles = np.array([0, 1, 0, 2, 1], np.int64)
    out = np.zeros((5, 2), np.int64)
    seen = (tiles, np.arange(5), np.zeros(5, np.int64))
    pass_cache(seen, True, 0, (surfaces.sectors, np.full(8, 4, np.int64)), surfaces.cache, out)
    # Tile 2 takes the place of 1, which was used longest ago, and 1 that of 0.
    assert out.tolist() == [[8, 0], [8, 0], [0, 0], [8, 4], [4, 4]]


def test_a_cleared_surface_is_not_read() -> None:
    surfaces = Surfaces(8, 8, 2, 1, 32)
    surface = surfaces.of(0, 64, 64, (1, 1), 4)
    assert surfaces.clear(surface, 0, 0, 64, 64) == 0
    assert not surfaces.sectors.any()
    assert surfaces.clear(surface, 0, 0, 12, 8) == 8


# --- SM controllers ---------------------------------------------------------------------------------
def test_policies() -> None:
    assert dynamic((1, 0, 5, 0), (0, 0, 40, 0), 48) == 0  # vertices have an eighth of the slots
    assert dynamic((1, 0, 5, 0), (6, 0, 30, 0), 48) == 2
    assert dynamic((0, 0, 5, 1), (0, 0, 40, 5), 48) == 3  # and so have kernels
    assert dynamic((0, 0, 5, 1), (0, 0, 40, 6), 48) == 2
    assert dynamic((0, 0, 0, 1), (0, 0, 0, 40), 48) == 3
    assert static((5, 0, 0, 0), (12, 0, 0, 0), 48) == -1  # a quarter
    assert static((5, 1, 0, 0), (11, 0, 0, 0), 48) == 1
    assert static((0, 0, 5, 0), (0, 0, 36, 0), 48) == -1
    assert static((0, 0, 5, 1), (0, 0, 24, 0), 48) == 3  # kernels take a quarter from pixels while there are any
    assert static((0, 0, 5, 1), (0, 0, 24, 12), 48) == -1
    assert vertices_first((1, 1, 1, 1), (40, 0, 0, 0), 48) == 0
    assert vertices_first((0, 0, 0, 1), (0, 0, 40, 0), 48) == 3
    assert BALANCES["fixed 1:3"].clusters(8) == (list(range(2, 8)), [0, 1])
    assert BALANCES["dynamic"].clusters(4) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_a_controller_fills_its_sms_evenly_and_no_further() -> None:
    controller, warp = Controller([4, 5], Needs(2, 100), BALANCES["dynamic"]), Needs(1, 30)
    for n in range(6):
        controller.queues[2].append(Waiting(float(n), 0, n, n))
    chosen = []
    while controller.next(10.0) == 2 and controller.room_for(warp) >= 0:
        sm = controller.room_for(warp)
        chosen.append((sm, controller.take(2, sm, warp).block))
    assert chosen == [(4, 0), (5, 1), (4, 2), (5, 3)]
    controller.give_back(2, 5, warp)
    assert controller.room_for(warp) == 5
    assert controller.room_for(Needs(1, 101)) == -1
    assert controller.next(3.5) == -1  # those that are left are not ready yet


@pytest.mark.parametrize(
    ("block", "most"),
    [
        (Needs(2, 100, 512, 1), 8),  # eight blocks
        (Needs(8, 100, 512, 1), 3),  # 24 warps
        (Needs(2, 2000, 512, 1), 4),  # 8,192 registers
        (Needs(2, 100, 5 << 10, 1), 3),  # 16 KiB of shared memory
    ],
)
def test_an_sm_takes_blocks_up_to_each_of_its_limits(block: Needs, most: int) -> None:
    controller = Controller([0], Needs(24, 8192, 16 << 10, 8), BALANCES["dynamic"])
    for n in range(most):
        controller.queues[COMPUTE].append(Waiting(0.0, 0, n, n))
        assert controller.room_for(block) == 0
        controller.take(COMPUTE, 0, block)
    assert controller.room_for(block) == -1
    assert controller.running == [0, 0, 0, most * block.warps]
    warp = Needs(1, 10)
    fits = controller.room_for(warp) == 0
    assert fits == (most * block.warps < 24)  # graphics use what blocks leave


@pytest.mark.parametrize(("left", "most"), [(True, 36), (False, 48)])
def test_kernels_leave_a_quarter_of_the_slots_while_draws_are_left(left: bool, most: int) -> None:
    controller, block = Controller([0, 1], Needs(24, 8192, 16 << 10, 8), BALANCES["dynamic"]), Needs(3, 10, 0, 1)
    controller.draws_left = left
    for n in range(16):
        controller.queues[COMPUTE].append(Waiting(0.0, 0, n, n))
    while controller.next(1.0) == COMPUTE:
        controller.take(COMPUTE, controller.room_for(block), block)
    assert controller.running[COMPUTE] == most


# --- whole frames -----------------------------------------------------------------------------------
def timed(name: str, balance: str = "dynamic", **overrides: Any) -> tuple[Replay, Any]:
    replay = Replay(RECORDINGS / f"{name}.wwcs", load_chip("g80", **overrides), balance)
    replay.run()
    assert replay.device is not None
    return replay, frame_of(replay.device.timer)  # type: ignore[arg-type]


def test_time_changes_no_image_and_is_always_the_same() -> None:
    first, frame = timed("large_triangles")
    assert first.is_same is True
    assert first.device is not None
    assert first.device.timer is not None
    assert first.device.timer.watch.unsafe_culls == 0
    draws = [d for d in frame.draws if d.label != "clear"]
    assert len(draws) == 4
    for d in draws:
        assert d.spans["vertex programs"][0] < d.spans["clip and setup"][0] < d.spans["pixel programs"][0]
        assert d.spans["pixel programs"][1] < d.spans["ROP"][1]
        assert d.warps["vertex"]
        assert d.warps["pixel"] >= d.counts["quads shaded"] / 8
    assert "cycles" in described(frame)[0]
    warps = np.array(frame.resident)
    assert (np.diff(warps[:, 0]) > 0).all()
    assert warps[:, 1:].max() <= CHIP.sm.sm_count * CHIP.sm.max_warps_per_sm
    assert (warps[:, 3] > 0).any()
    assert not warps[-1, 1:].any()
    assert frame.to_dict()["cycles"] == frame.cycles
    second, again = timed("large_triangles")
    assert second.is_same is True
    assert again.to_dict() == frame.to_dict()


def test_zcull_saves_hidden_layers() -> None:
    """Sixteen hidden squares of 1,024 tiles cost a clock each, and no pixel."""
    _, frame = timed("hidden")
    hidden = [d for d in frame.draws if d.counts["tiles"]][1:]
    assert len(hidden) == 16
    # Tiles on the diagonal, and next to it, are in both triangles.
    assert all(1024 < d.counts["tiles"] <= 1024 + 64 for d in hidden)
    assert all(d.counts["tiles culled"] == d.counts["tiles"] for d in hidden)
    assert all(d.counts["quads shaded"] == 0 for d in hidden)


def test_late_depth_is_culled_too_and_shades_no_rejected_tile() -> None:
    """A program that discards tests depth afterwards; what Z-cull rejects never reaches it."""
    replay = Replay(RECORDINGS / "late_depth.wwcs", load_chip("g80"))
    seen: list[Any] = []

    def watch(device: GraphicsDevice) -> None:
        assert device.timer is not None
        device.timer.watch.maps_wanted = True
        device.timer.flush = lambda: None  # type: ignore[method-assign]
        seen.append(device.timer.watch)

    replay.on_device = watch
    replay.run()
    runs = seen[0].work().runs
    assert seen[0].unsafe_culls == 0
    assert (runs["culled"] != 0).sum() > 100
    assert not runs["alive"][runs["culled"] != 0].any()
    assert not runs["early"].any()
    assert max(int(m.shaded.max()) for m in seen[0].maps.values()) > 1


def test_a_page_shows_every_draw(tmp_path: Path) -> None:
    replay = Replay(RECORDINGS / "hidden.wwcs", load_chip("g80"))
    pictures: list[FramePictures] = []
    replay.on_device = lambda device: pictures.append(FramePictures(device))
    replay.run()
    assert replay.device is not None
    page = frame_page(replay.device, pictures[0].finish(), "hidden & seen")
    assert "<h1>hidden &amp; seen</h1>" in page
    assert page.count("data:image/png;base64,") == 18 + 3
    assert "not anchored" in page
    assert heat_image(np.array([[0.0, 1.0]]), 1.0)[0, 1, 0] == 200


def test_many_draws_have_a_picture_of_every_second_or_fourth() -> None:
    """The last one is always there, and each says after which draw it is."""
    device = GraphicsDevice.of_chip("g80")
    device.keep_time(CHIP)
    pictures = FramePictures(device)
    for _ in range(200):
        pictures._before()
    kept = [after for after, _ in pictures.finish()]
    assert kept == [*range(0, 199, 4), 199]
    assert len(kept) <= MOST_PICTURES + 1


def test_other_chips_have_no_graphics() -> None:
    with pytest.raises(UnsupportedError, match="have no numbers: use g80"):
        GraphicsDevice.of_chip("g80").keep_time(load_chip("h200"))
