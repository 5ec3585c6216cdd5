"""The part of the watch after setup: groups quads into runs per tile, applies Z-cull, packs pixel warps per cluster, and computes the ROPs' reads and
writes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpwright.chips.chip import Chip
from warpwright.graphics import targets
from warpwright.graphics.fragment_state import FragmentState
from warpwright.graphics.raster import Quads
from warpwright.graphics.setup import SetUp
from warpwright.graphics.shader_programs import Constants, Pixels, ShaderProgram
from warpwright.graphics.state_3d import State3D
from warpwright.graphics.texture_unit import TextureUnit
from warpwright.graphics.timed import zcull
from warpwright.graphics.timed.capture import QUADS, Integers, Watch, chosen_pixels
from warpwright.graphics.timed.heat import HeatMaps
from warpwright.graphics.timed.tile_compression import (
    CompressedSurface,
    Surfaces,
    colour_sectors,
    depth_sectors,
    pass_cache,
    tile_depths,
)
from warpwright.graphics.timed.work import PART, PIXEL_WARP, PRIMITIVE, RUN, Records, new_records
from warpwright.graphics.video_memory import FIRST_ADDRESS, VideoMemory


@dataclass(slots=True)
class _Batch:
    """Quads of a batch before the depth test, as runs."""

    keys: Integers
    """For each run, in order: primitive, row and column of the tile."""
    rows: Records
    quads: Quads
    run_of: Integers
    """The run of each quad."""


def _keys(quads: Quads, side: int) -> Integers:
    shift = side.bit_length() - 1
    return quads.primitive << 32 | (quads.y >> shift) << 16 | quads.x >> shift


class TileWatch(Watch):
    """A watch of all stages."""

    def __init__(self, chip: Chip, memory: VideoMemory, clusters: tuple[list[int], list[int]]) -> None:
        super().__init__(chip, memory.host_address, clusters)
        self.memory = memory
        graphics = chip.graphics
        self.tile = graphics.raster_tile_pixels_count
        self.partitions = chip.l2.l2_slice_count
        self.surfaces = Surfaces(
            graphics.rop_tile_pixels_count,
            graphics.compression_ratio_count,
            graphics.rop_cache_tiles_count,
            self.partitions,
            chip.l1.sector_bytes,
        )
        self.hierarchies: dict[tuple[int, int, int], zcull.HierarchicalDepth] = {}
        self.maps_wanted = False
        self.maps: dict[tuple[int, int], HeatMaps] = {}
        """Heat maps by width and height of the targets, if they are requested."""
        self.unsafe_culls = 0
        """Tiles that Z-cull would have rejected although some samples pass, because the depth was not written by a draw."""
        self._pixels: tuple[ShaderProgram, Pixels, tuple[Constants, TextureUnit | None]] | None = None

    def place_of(self, x: Integers, y: Integers) -> tuple[Integers, Integers]:
        """The cluster that shades a tile's pixels, and the partition whose ROP writes them."""
        clusters = np.array(self.clusters[0])
        return clusters[(x + 3 * y) % len(clusters)], (x + 2 * y) % self.partitions

    # --- quads ----------------------------------------------------------------------------------------
    def rasterised(self, engine: State3D, made: SetUp, quads: Quads, state: FragmentState) -> None:
        """Quads have been rasterised, before any test."""
        keys = _keys(quads, self.tile)
        found, run_of, counts = np.unique(keys, return_inverse=True, return_counts=True)
        rows = new_records(len(found), RUN)
        primitive, y, x = found >> 32, found >> 16 & 0xFFFF, found & 0xFFFF
        rows["draw"], rows["quads"] = self.draws - 1, counts
        rows["primitive"] = self._first_primitive + made.parents[np.minimum(primitive, len(made.parents) - 1)]
        rows["cluster"], rows["partition"] = self.place_of(x, y)
        rows["early"] = int(not state.is_late and state.depth is not None and state.depth_state.writes)
        rows["sector"] = self._sector_of(state, x, y)
        copied = Quads(quads.x.copy(), quads.y.copy(), quads.primitive.copy(), quads.coverage.copy())
        self._batch = _Batch(found, rows, copied, run_of.reshape(-1))
        self._made, self._state = made, state
        self._cull(made, state, primitive, x, y)
        self._shaded: Quads | None = None
        self._pixels = None

    def _sector_of(self, state: FragmentState, x: Integers, y: Integers) -> Integers:
        """The location of a tile in DRAM: of the first colour target, or of depth."""
        surface = self._surface(state.colours[0][0] if state.colours else state.depth, state)
        if surface is None:
            return np.zeros(len(x), np.int64)
        per = self.tile // self.surfaces.side
        tile = np.minimum(y * per, surface.down - 1) * surface.across + np.minimum(x * per, surface.across - 1)
        return surface.sector + tile * surface.whole_sectors

    def _surface(
        self, target: targets.ColourTarget | targets.DepthTarget | None, state: FragmentState
    ) -> CompressedSurface | None:
        if target is None:
            return None
        at = target.surface
        return self.surfaces.of(at.layout.address - FIRST_ADDRESS, at.width, at.height, state.samples, target.form.size)

    # --- Z-cull ---------------------------------------------------------------------------------------
    def _hierarchy(self, depth: targets.DepthTarget, samples: tuple[int, int]) -> zcull.HierarchicalDepth:
        at = depth.surface
        key = (at.layout.address, at.width, at.height)
        if key not in self.hierarchies:
            across, down = -(-at.width // samples[0] // self.tile), -(-at.height // samples[1] // self.tile)
            self.hierarchies[key] = zcull.HierarchicalDepth(across, down)
        return self.hierarchies[key]

    def _cull(self, made: SetUp, state: FragmentState, primitive: Integers, x: Integers, y: Integers) -> None:
        depth, words = state.depth, state.depth_state.words
        if depth is None or made.layers.any():
            return
        tests, function, writes, stencils = (int(w) for w in words[:4])
        whole = self._covers_tile(state)
        what = zcull.NEVER_CULLS
        if tests and not state.exports_depth:
            culls = not stencils
            what = (
                zcull.CULLS_AND_WRITES if culls and writes else zcull.CULLS if culls else zcull.WRITES if writes else 0
            )
        if state.is_late or state.exports_depth:
            whole = np.zeros_like(whole)
        hierarchy = self._hierarchy(depth, state.samples)
        if writes and state.exports_depth:
            hierarchy.least[y, x], hierarchy.greatest[y, x] = -np.inf, np.inf
        self._batch.rows["culled"] = zcull.cull_tiles(
            np.stack([x, y], axis=1),
            primitive,
            whole,
            made.depth,
            made.limits,
            made.origins,
            (function, what, self.tile),
            (hierarchy.least, hierarchy.greatest),
        )

    def _covers_tile(self, state: FragmentState) -> npt.NDArray[np.bool_]:
        """Which runs cover every sample of their tile."""
        batch = self._batch
        samples = state.samples[0] * state.samples[1]
        full = np.uint32(((1 << samples) - 1) * 0x01010101)
        whole = np.bincount(batch.run_of[batch.quads.coverage == full], minlength=len(batch.rows))
        return whole == (self.tile // 2) ** 2

    # --- after the depth test, the program, everything ------------------------------------------------------
    def run_of(self, quads: Quads) -> Integers:
        """The runs of the batch's remaining quads."""
        return np.searchsorted(self._batch.keys, _keys(quads, self.tile))

    def to_programs(self, quads: Quads) -> None:
        """These quads will run the pixel program."""
        self._shaded = Quads(quads.x.copy(), quads.y.copy(), quads.primitive.copy(), quads.coverage.copy())

    def pixel_program(
        self, engine: State3D, made: ShaderProgram, pixels: Pixels, given: tuple[Constants, TextureUnit | None]
    ) -> None:
        """The pixel program has run."""
        self._pixels = (made, pixels, given)

    def finished(self, engine: State3D, left: Quads) -> None:
        """The batch is done; ``left`` has passed all tests (None if nothing was shaded)."""
        batch, state = self._batch, self._state
        rows = batch.rows
        left = left.chosen(left.coverage != 0)
        survivors = self._shaded if self._shaded is not None else left
        # With late depth, the functional pipeline shades pixels that Z-cull rejects; their samples fail afterwards.
        passed = self._counted(left if state.is_late else survivors)
        alive = self._counted(survivors)
        wrong = (rows["culled"] != 0) & (passed > 0)
        if wrong.any():
            self.unsafe_culls += int(wrong.sum())
            rows["culled"][wrong] = 0
            if state.depth is not None:
                self.hierarchies.pop(
                    (state.depth.surface.layout.address, state.depth.surface.width, state.depth.surface.height), None
                )
        alive[rows["culled"] != 0] = 0
        rows["alive"] = alive
        if self.maps_wanted:
            self._add_to_maps(state, survivors)
        self._traffic(state, left)
        first = self.rows.count("runs")
        if self._pixels is not None and self._shaded is not None and len(self._shaded):
            rows["shaded"] = alive > 0
            self._pixel_warps(engine, first, left)
        self.rows.add("runs", rows)
        self.rows.found["draws"][-1]["runs"] += len(rows)

    def _add_to_maps(self, state: FragmentState, survivors: Quads) -> None:
        """Count the batch in the maps for its target's size."""
        target = state.colours[0][0] if state.colours else state.depth
        if target is None:
            return
        size = target.surface.width // state.samples[0], target.surface.height // state.samples[1]
        if size not in self.maps:
            self.maps[size] = HeatMaps(*size, self.tile)
        if state.colours or state.is_late:
            self.maps[size].add_quads(survivors)
        self.maps[size].add_tiles(self._batch.keys, self._batch.rows["culled"])

    def _counted(self, quads: Quads) -> Integers:
        """Number of quads in each run."""
        count = len(self._batch.rows)
        return np.bincount(self.run_of(quads), minlength=count) if len(quads) else np.zeros(count, np.int64)

    def _pixel_warps(self, engine: State3D, first_run: int, left: Quads) -> None:
        """Pack the quads of a cluster's tiles into warps of eight, in the order of their runs."""
        assert self._pixels is not None
        assert self._shaded is not None
        made, pixels, given = self._pixels
        runs = self.run_of(self._shaded)
        clusters = self._batch.rows["cluster"][runs]
        order = np.lexsort((runs, clusters))
        order = order[self._batch.rows["culled"][runs[order]] == 0]
        if not len(order):
            return
        padded = _padded(order, clusters[order])
        grid = self.add_run(engine, 2, made, made.place_pixels(chosen_pixels(pixels, padded), self.arena), given)
        quads = padded.reshape(-1, QUADS)
        warps = new_records(len(quads), PIXEL_WARP)
        warps["draw"], warps["grid"] = self.draws - 1, grid
        warps["cluster"] = clusters[quads[:, 0]]
        last = np.where(quads >= 0, runs[np.maximum(quads, 0)], -1).max(axis=1)
        full = (quads >= 0).all(axis=1)
        warps["run"] = first_run + np.where(full, last, len(self._batch.rows) - 1)
        warps["block"] = np.arange(len(quads))
        keys = self._shaded.primitive << 32 | self._shaded.y << 16 | self._shaded.x
        passed = np.isin(keys, left.primitive << 32 | left.y << 16 | left.x)
        self._parts(warps, quads, runs, passed, first_run)
        self.rows.add("pixel_warps", warps[np.argsort(warps["run"], kind="stable")])

    def _parts(
        self, warps: Records, quads: Integers, runs: Integers, passed: npt.NDArray[np.bool_], first_run: int
    ) -> None:
        """The output of each warp to the ROPs, by run."""
        late = self._state.is_late and self._state.depth is not None and self._state.depth_state.writes
        flat = quads.reshape(-1)
        real = flat >= 0
        owner = np.repeat(np.arange(len(quads)), QUADS)[real]
        run, sent = runs[flat[real]], passed[flat[real]]
        if not self._state.colours:
            sent = np.zeros_like(sent)
        keep = sent | late
        keys, inverse = np.unique(owner[keep] << 40 | run[keep], return_inverse=True)
        parts = new_records(len(keys), PART)
        parts["run"] = first_run + (keys & (1 << 40) - 1)
        parts["quads"] = (
            np.bincount(inverse.reshape(-1), weights=sent[keep], minlength=len(keys)) * self._colour_passes()
        )
        if late:
            parts["tested"] = np.bincount(inverse.reshape(-1), minlength=len(keys))
        per_warp = np.bincount(keys >> 40, minlength=len(warps))
        first = self.rows.add("parts", parts)
        warps["parts"] = per_warp
        warps["first_part"] = first + np.cumsum(per_warp) - per_warp

    def _colour_passes(self) -> int:
        """How often a ROP processes a quad: once for each target, twice for 64-bit and four times for 128-bit pixels."""
        return sum(max(1, target.form.size // 4) for target, _ in self._state.colours)

    # --- memory ----------------------------------------------------------------------------------------
    def _traffic(self, state: FragmentState, left: Quads) -> None:
        """The depth and colour traffic of runs."""
        rows, batch = self._batch.rows, self._batch
        if state.depth is not None and state.depth_state.writes:
            tested = batch.quads if not state.is_late else (self._shaded or left)
            kept = rows["culled"][self.run_of(tested)] == 0
            surface = self._surface(state.depth, state)
            assert surface is not None
            seen = self._tiles(tested.chosen(kept), surface)
            new = self.surfaces.sectors.copy()
            touched = self._whole_tiles(np.unique(seen[0]) - surface.first, surface) + surface.first
            if len(touched):
                values = tile_depths(
                    self.memory, state.depth, surface, touched - surface.first, state.samples, self.surfaces.side
                )
                new[touched] = depth_sectors(values, surface, state.depth.form.is_float, self.surfaces.most)
                self._read_back(state, surface, touched - surface.first, values)
            out = self._cached(seen, 1, True, new)
            rows["depth_reads"], rows["depth_writes"] = out[:, 0], out[:, 1]
        for target, reads in state.colours:
            surface = self._surface(target, state)
            assert surface is not None
            if not len(left):
                break
            seen = self._tiles(left, surface)
            new = self.surfaces.sectors.copy()
            touched = np.unique(seen[0])
            if target.surface.layer_stride == 0 or not self._made.layers.any():
                new[touched] = colour_sectors(
                    self.memory,
                    target,
                    surface,
                    touched - surface.first,
                    state.samples,
                    self.surfaces.side,
                    self.surfaces.most,
                )
            out = self._cached(seen, 0, reads or self._is_partial(left), new)
            rows["colour_reads"] += out[:, 0]
            rows["colour_writes"] += out[:, 1]

    def _whole_tiles(self, tiles: Integers, surface: CompressedSurface) -> Integers:
        """All compression tiles within the raster tiles that contain any of the given ones."""
        per = self.tile // self.surfaces.side
        corners = np.unique(tiles // surface.across // per * per << 32 | tiles % surface.across // per * per)
        step = np.arange(per)
        rows = (corners >> 32)[:, None, None] + step[:, None]
        columns = (corners & (1 << 32) - 1)[:, None, None] + step
        inside = (rows < surface.down) & (columns < surface.across)
        return np.unique((rows * surface.across + columns)[inside])

    def _is_partial(self, quads: Quads) -> bool:
        """Whether quads cover their tiles only partially, so that the tiles must be read first."""
        samples = self._state.samples[0] * self._state.samples[1]
        full = np.uint32(((1 << samples) - 1) * 0x01010101)
        return bool((quads.coverage != full).mean() > 0.5)

    def _tiles(self, quads: Quads, surface: CompressedSurface) -> tuple[Integers, Integers, Integers]:
        """The tiles of a surface that contain quads, in the order of their runs: indices, runs, partitions."""
        shift = self.surfaces.side.bit_length() - 1
        runs = self.run_of(quads)
        x, y = np.minimum(quads.x >> shift, surface.across - 1), np.minimum(quads.y >> shift, surface.down - 1)
        keys = np.unique(runs << 32 | (y * surface.across + x))
        run = keys >> 32
        return surface.first + (keys & (1 << 32) - 1), run, self._batch.rows["partition"][run]

    def _cached(self, seen: tuple[Integers, Integers, Integers], side: int, reads: bool, new: Integers) -> Integers:
        out = np.zeros((len(self._batch.rows), 2), np.int64)
        pass_cache(seen, reads, side, (self.surfaces.sectors, new), self.surfaces.cache, out)
        return out

    def _read_back(
        self, state: FragmentState, surface: CompressedSurface, tiles: Integers, values: npt.NDArray[np.float64]
    ) -> None:
        """Return the depths of whole raster tiles from the ROPs to Z-cull."""
        assert state.depth is not None
        if self._made.layers.any():
            return
        form = state.depth.form
        scale = 1.0 if form.is_float else 1.0 / ((1 << form.depth_bits) - 1)
        hierarchy = self._hierarchy(state.depth, state.samples)
        per = self.tile // self.surfaces.side
        x, y = tiles % surface.across // per, tiles // surface.across // per
        key = y << 20 | x
        order = np.argsort(key, kind="stable")
        found, first = np.unique(key[order], return_index=True)
        flat = values.reshape(len(values), -1)[order] * scale
        low, high = np.minimum.reduceat(flat.min(axis=1), first), np.maximum.reduceat(flat.max(axis=1), first)
        fx, fy = found & (1 << 20) - 1, found >> 20
        hierarchy.least[fy, fx], hierarchy.greatest[fy, fx] = low, high

    # --- clears ---------------------------------------------------------------------------------------
    def cleared(
        self,
        rectangle: tuple[int, int, int, int],
        samples: tuple[int, int],
        colour: targets.ColourTarget | None,
        depth: targets.DepthTarget | None,
        value: float | None,
    ) -> None:
        """A clear of a rectangle of pixels; ``value`` is the new depth, or None if depth is unchanged."""
        draw = self.begin("clear")
        row = new_records(1, PRIMITIVE)
        row["draw"], row["vertex_warp"], row["geometry_warp"] = draw, -1, -1
        primitive = self.rows.add("primitives", row)
        left, top, right, bottom = rectangle
        if right <= left or bottom <= top:
            return
        writes = sector = 0
        for target in (colour, depth):
            if target is not None:
                at = target.surface
                surface = self.surfaces.of(
                    at.layout.address - FIRST_ADDRESS, at.width, at.height, samples, target.form.size
                )
                writes += self.surfaces.clear(surface, left, top, right, bottom)
                sector = surface.sector
        if depth is not None and value is not None:
            hierarchy = self._hierarchy(depth, samples)
            covers = (
                left <= 0
                and top <= 0
                and right >= depth.surface.width // samples[0]
                and bottom >= depth.surface.height // samples[1]
            )
            if covers:
                hierarchy.fill(value)
            else:
                area = (
                    slice(top // self.tile, -(-bottom // self.tile)),
                    slice(left // self.tile, -(-right // self.tile)),
                )
                hierarchy.least[area] = np.minimum(hierarchy.least[area], value)
                hierarchy.greatest[area] = np.maximum(hierarchy.greatest[area], value)
        x, y = np.meshgrid(
            np.arange(left // self.tile, -(-right // self.tile)), np.arange(top // self.tile, -(-bottom // self.tile))
        )
        rows = new_records(x.size, RUN)
        rows["draw"], rows["primitive"], rows["cleared"], rows["sector"] = draw, primitive, 1, sector
        rows["cluster"], rows["partition"] = self.place_of(x.reshape(-1), y.reshape(-1))
        rows["colour_writes"] = -(-writes // x.size)
        self.rows.add("runs", rows)


def _padded(order: Integers, clusters: Integers) -> Integers:
    """Quads in the order of their clusters, with each cluster's padded with -1 to whole warps."""
    groups = np.split(order, np.flatnonzero(np.diff(clusters)) + 1)
    parts = []
    for group in groups:
        parts += [group, np.full(-len(group) % QUADS, -1, np.int64)]
    return np.concatenate(parts)
