"""The graphics pipeline of Tesla in time: "NVIDIA Tesla: A Unified Graphics and Computing Architecture" (IEEE Micro, 2008).

Scenes are recordings of command streams (``bench/graphics_scenes.py``), which run without OpenGL.  The paper gives peaks and arguments, and no
measurements: peaks are compared with it, and arguments with what follows from its numbers in closed form.  Formats of Z-cull and compression,
the shapes of tiles and the latencies of fixed stages were never published: what depends on them is not anchored, and each study says so.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from warpwright.chips import load_chip
from warpwright.graphics.coverage_samples import MODES
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.recording import Replay
from warpwright.graphics.targets import SAMPLES
from warpwright.graphics.timed.frame import FrameTime, frame_of
from warpwright.graphics.timed.linked_chips import in_turn, split
from warpwright.graphics.timed.sm_controllers import BALANCES
from warpwright.studies.study import Cell, Plot, Result, Step, Table, study
from warpwright.studies.tesla import PAPER
from warpwright.studies.tesla_pictures import RECORDINGS, pictures

CHIP = "g80-ultra"
PIXELS = 512 * 512
NOT_ANCHORED = (
    "Not anchored: formats of Z-cull and compression, shapes of tiles, their clusters and partitions, queues between stages, latencies of fixed "
    "stages, the front end's rate, and when coverage samples' bits (CSAA) are cleared. Nobody published them, and no card was measured."
)


@lru_cache(maxsize=64)
def frame(scene: str, balance: str = "dynamic", clusters: int = 8, adds_coverage: bool = False) -> FrameTime:
    """A timed recording of a scene on a chip with the given number of clusters; with coverage samples up to 16 in all, if requested."""
    changed: dict[str, Any] = {}
    if clusters != 8:
        changed = {"sm_count": 2 * clusters, "gpc_sm_counts": [2] * clusters, "gpc_l2_partitions": [0] * clusters}
    replay = Replay(RECORDINGS / f"{scene}.wwcs", load_chip(CHIP, **changed), balance)
    replay.on_device = lambda device: _prepare(device, adds_coverage)
    replay.run()
    # Coverage samples change the depth surface.
    assert replay.is_same or adds_coverage
    assert replay.device is not None
    assert replay.device.timer is not None
    return frame_of(replay.device.timer)


def _prepare(device: GraphicsDevice, adds_coverage: bool) -> None:
    """A scene's uploads come before its frame, and are no part of what studies ask."""
    assert device.timer is not None
    device.timer.times_copies = False
    device.three_d.adds_coverage_samples = adds_coverage


def per_clock(found: FrameTime, amount: float, stage: str) -> float:
    """Items that each draw except the first passed on per core clock, from the end of the first draw on that stage to that of the last."""
    chip = load_chip(CHIP)
    draws = [d for d in found.draws if stage in d.spans and d.counts["tiles"]]
    cycles = draws[-1].spans[stage][1] - draws[0].spans[stage][1]
    return amount * (len(draws) - 1) / (cycles * chip.graphics.core_clock_mhz / chip.clocks.sm_clock_mhz)


@study("tesla-graphics-peaks", f"{PAPER}, peak rates of the graphics pipeline")
def peaks(step: Step) -> Result:
    """Peaks of ROPs, Z-cull, setup, texture units and memory, by recorded scenes on the whole pipeline."""
    chip = load_chip(CHIP)
    step("fill, depth, Z-cull")
    rates = [
        Cell("colour, six ROPs", "pixels/clk", per_clock(frame("fill"), PIXELS, "ROP"), 24.0, 0.05),
        Cell("depth alone", "pixels/clk", per_clock(frame("depth_only"), PIXELS, "early depth"), 48.0, 0.05),
    ]
    hidden = frame("hidden")
    behind = [d for d in hidden.draws if d.counts["tiles"]][1:]
    tiles = sum(d.counts["tiles culled"] for d in behind[1:]) / (len(behind) - 1)
    step("primitives, texture, memory")
    spans = [d.spans["clip and setup"] for d in frame("primitives").draws if d.counts["tiles"] or d.warps["vertex"]]
    clocks = (spans[-1][1] - spans[0][0]) * chip.graphics.core_clock_mhz / chip.clocks.sm_clock_mhz
    rates += [
        Cell("Z-cull", "pixels/clk", per_clock(_without_first(hidden), 256 * tiles, "z-cull"), 256.0, 0.05),
        Cell("setup", "primitives/clk", 40_000 / clocks, 1.0, 0.05),
    ]
    bilerps = []
    for scene, filters in (("trilinear", 8), ("anisotropic", 8)):
        found = frame(scene)
        seconds = max(d.end - d.begin for d in found.draws) / (chip.clocks.sm_clock_mhz * 1e6)
        bilerps.append(Cell(scene, "Gbilerp/s", 16 * filters * PIXELS / 4 / seconds / 1e9, 38.4, 0.15))
    blended = frame("blended")
    moved = blended.counters["DRAM bytes read"] + blended.counters["DRAM bytes written"]
    memory = Cell("blended 16-bit floats", "GB/s", moved / blended.seconds / 1e9, 104.0, 0.2)
    result = Result(
        [
            Table("Stages", "per core clock", rates),
            Table("Texture", "Gbilerp/s", bilerps),
            Table("Memory", "GB/s", [memory]),
        ]
    )
    result.remarks.append(
        "The 104 GB/s are the pins' rate; rows, turnarounds and refresh leave less (tesla-peaks has 88 GB/s of reads)."
    )
    result.remarks.append(NOT_ANCHORED)
    return result


def _without_first(found: FrameTime) -> FrameTime:
    """The draws after the first that has tiles."""
    draws = [d for d in found.draws if d.counts["tiles"]][1:]
    return FrameTime(found.chip, found.cycles, found.seconds, draws, found.use, found.counters, found.resident)


@study("tesla-balance", f"{PAPER}, The road to unification; SM controller")
def balance(step: Step) -> Result:
    """Unified processors with three policies against a fixed split of one cluster of vertices for three of pixels."""
    scenes = {"large_triangles": "large triangles", "small_triangles": "small triangles", "mixed": "both"}
    times: dict[str, list[tuple[float, float]]] = {}
    shares, ratios, idle = [], [], []
    for place, (scene, what) in enumerate(scenes.items()):
        step(what)
        unified = frame(scene)
        for name in BALANCES:
            found = frame(scene, name)
            times.setdefault(name, []).append((float(place), 1e6 * found.seconds))
            busy = max(found.use["SPs"], found.use["SFUs"])
            idle.append(Cell(what, name, 100 * (1 - min(busy, 1.0)), 100 * (1 - min(busy, 1.0)), 0.01))
        for kind, share in unified.shares().items():
            shares.append(Cell(what, kind, 100 * share, 100 * share, 0.01))
        # Pixels have six clusters of eight, vertices two.
        bound = {"large_triangles": 8 / 6, "small_triangles": 8 / 2}.get(scene)
        if bound is not None:
            ratio = frame(scene, "fixed 1:3").cycles / unified.cycles
            ratios.append(Cell(what, "fixed / unified", ratio, bound, 0.15))
    result = Result([Table("Time of the fixed split over unified", "ratio", ratios)])
    result.maps = [Table("Warp time by kind, unified", "%", shares), Table("Idle processors", "%", idle)]
    result.plots = [Plot("Frame time by policy: large triangles, small ones, both", "scene", "µs", times)]
    for scene, what in scenes.items():
        by_name = ", ".join(f"{name} {1e6 * frame(scene, name).seconds:.1f}" for name in BALANCES)
        result.remarks.append(
            f"{what}: {by_name} µs; limited by {frame(scene).bottleneck}, with the fixed split by {frame(scene, 'fixed 1:3').bottleneck}."
        )
    result.remarks.append(
        "The paper's ratio of one vertex processor to three of pixels is that of earlier GPUs; which policy G80's controllers follow is not published."
    )
    result.remarks.append(NOT_ANCHORED)
    return result


@study("tesla-rasterisation", f"{PAPER}, Rasterization")
def rasterisation(step: Step) -> Result:
    """Z-cull, early against late depth, and compression, by recorded scenes."""
    step("early and late depth")
    scenes = {
        "front_to_back": "nearest first",
        "back_to_front": "farthest first",
        "late_depth": "nearest first, discarding",
    }
    found = {scene: frame(scene) for scene in scenes}
    shaded = {scene: sum(d.counts["quads shaded"] for d in f.draws) for scene, f in found.items()}
    culled = {scene: sum(d.counts["tiles culled"] for d in f.draws) for scene, f in found.items()}
    # The pixel programs limit all three, so that time follows from the quads that are shaded.
    base = found["back_to_front"].cycles / shaded["back_to_front"]
    cells = [
        Cell(what, "cycles / quads, relative", found[scene].cycles / shaded[scene] / base, 1.0, 0.1)
        for scene, what in scenes.items()
    ]
    step("compression")
    fill, noise = frame("fill"), frame("blended")
    plain = 8 * PIXELS * 4
    ratios = [
        Cell("equal colours", "of 8:1", plain / 8 / (fill.counters["DRAM bytes written"]), 1.0, 0.1),
        Cell("noise of 16-bit floats", "of 1:1", 9 * PIXELS * 8 / noise.counters["DRAM bytes written"], 1.0, 0.1),
    ]
    result = Result(
        [
            Table("Time follows from what is shaded", "ratio", cells),
            Table("Written colours by compression", "ratio", ratios),
        ]
    )
    for scene, what in scenes.items():
        result.remarks.append(
            f"{what}: {shaded[scene]:,} quads shaded, {culled[scene]:,} tiles rejected by Z-cull, {1e6 * found[scene].seconds:.0f} µs."
        )
    result.remarks.append(NOT_ANCHORED)
    return result


@study("tesla-antialiasing", f"{PAPER}, Table 2 and the storage example")
def antialiasing(step: Step) -> Result:
    """Table 2's modes, the 368 MB example, and the cost of multisampling and coverage sampling on a recorded scene."""
    megabyte = 1 << 20
    example = 1600 * 1200 * 16 * (8 + 4) / 1e6
    cells = [Cell("1,600 x 1,200, 16 samples of 64 + 32 bits", "MB", example, 368.0, 0.01)]
    base = frame("antialiased_1")
    remarks, times, traffic = [], [], []
    for samples in (1, 2, 4, 8):
        step(f"{samples} samples")
        found = frame(f"antialiased_{samples}")
        spheres = [d for d in found.draws if d.counts["tiles"] > 8 and d.counts["depth sectors"]]
        seconds = (
            (max(d.end for d in spheres) - min(d.begin for d in spheres)) / found.cycles * found.seconds
            if spheres
            else 0.0
        )
        times.append((float(samples), 1e6 * seconds))
        moved = found.counters["DRAM bytes read"] + found.counters["DRAM bytes written"]
        traffic.append((float(samples), moved / megabyte))
        stored = 512 * 512 * samples * 8 / megabyte
        remarks.append(
            f"{samples} samples: {stored:.0f} MB of colour and depth, {moved / megabyte:.1f} MB moved, {1e6 * found.seconds:.0f} µs with the resolve."
        )
    quads = [
        sum(d.counts["quads shaded"] for d in frame(f"antialiased_{n}").draws if d.counts["depth sectors"])
        for n in (1, 8)
    ]
    cells_shaded = [Cell("8 samples / 1 sample", "quads shaded", quads[1] / quads[0], 1.0, 0.3)]
    result = Result(
        [Table("Storage", "MB", cells), Table("The program runs once per pixel", "ratio", cells_shaded)], remarks
    )
    result.plots = [
        Plot("Time of the spheres", "samples", "µs", {"multisampling": times}),
        Plot("Traffic", "samples", "MB", {"multisampling": traffic}),
    ]
    result.remarks.append(
        "A quad on an edge is shaded for each triangle that covers one of its samples: with more samples there are more of these."
    )
    result.remarks.append(
        f"Without antialiasing the frame takes {1e6 * base.seconds:.0f} µs. Multisampling stores at most eight samples on this chip, so that Table 2's column of 16 multisamples is missing."
    )
    result.tables += _coverage_sampling(step, result.remarks)
    result.tables += _supersampling(step, result.remarks)
    result.pictures = [pictures(step)]
    result.remarks.append(NOT_ANCHORED)
    return result


def _supersampling(step: Step, remarks: list[str]) -> list[Table]:
    """Table 2's brute-force supersampling: the scene on a surface with 4 or 16 pixels for each one of the picture, which a last draw averages."""
    base = frame("antialiased_1")
    shaded, stored, times = [], [], []
    one, _ = _samples("antialiased_1")
    for samples in (1, 4, 16):
        step(f"supersampling {samples}x")
        what = f"supersampling {samples}x"
        scene = "antialiased_1" if samples == 1 else f"supersampled_{samples}"
        passed, pixels = _samples(scene)
        shaded.append(Cell(what, "shader", (passed - (PIXELS if samples > 1 else 0)) / one, float(samples), 0.02))
        stored.append(Cell(what, "stored", pixels / PIXELS, float(samples), 0.0))
        times.append(f"{frame(scene).cycles / base.cycles:.1f} times the time with {samples}")
    remarks.append(
        "Supersampling is drawn as programs did it: on a surface of 4 or 16 times the pixels, of which the last draw takes the mean for each pixel of the picture. "
        f"The frame takes {', '.join(times[1:])} samples."
    )
    return [Table("Table 2, supersampling", "samples of a pixel", shaded + stored)]


@lru_cache(maxsize=4)
def _samples(scene: str) -> tuple[int, int]:
    """Samples that pass all tests in a scene, and pixels of the largest surface that it draws to."""
    replay = Replay(RECORDINGS / f"{scene}.wwcs")
    largest = [0]

    def on_device(device: GraphicsDevice) -> None:
        engine = device.three_d

        def before(segments: list[tuple[int, int]]) -> None:
            engine.registers[engine.table.offsets["SAMPLECNT_ENABLE"] // 4] = 1

        def after() -> None:
            if engine.last_target is not None:
                surface = engine.last_target.surface
                largest[0] = max(largest[0], surface.width * surface.height)

        device.on_submit, device.after_submit = before, after

    replay.on_device = on_device
    replay.run()
    assert replay.device is not None
    return replay.device.three_d.queries.samples, largest[0]


def _coverage_sampling(step: Step, remarks: list[str]) -> list[Table]:
    """Table 2's modes as the chip has them, and 16 samples of which four are stored against four samples, on the same scene."""
    modes = {"multisampling 1x": 0, "multisampling 4x": 2, "coverage sampling 4x": 2, "coverage sampling 16x": 9}
    stored = {what: math.prod(SAMPLES[number]) for what, number in modes.items()}
    coverage = {what: MODES[number].samples if number in MODES else stored[what] for what, number in modes.items()}
    paper = {"multisampling 1x": (1, 1), "multisampling 4x": (4, 4), "coverage sampling 4x": (4, 4)}
    paper["coverage sampling 16x"] = (4, 16)
    table = [Cell(what, "stored", stored[what], paper[what][0], 0.0) for what in modes]
    table += [Cell(what, "coverage", coverage[what], paper[what][1], 0.0) for what in modes]
    step("coverage sampling")
    four, sixteen = frame("antialiased_4"), frame("antialiased_4", adds_coverage=True)
    quads = [sum(d.counts["quads shaded"] for d in found.draws) for found in (four, sixteen)]
    moved = [found.counters["DRAM bytes read"] + found.counters["DRAM bytes written"] for found in (four, sixteen)]
    ratios = [
        Cell("16x", "time of 4x", sixteen.cycles / four.cycles, 1.0, 0.05),
        Cell("16x", "bandwidth of 4x", moved[1] / moved[0], 1.0, 0.05),
        Cell("16x", "shaded quads of 4x", quads[1] / quads[0], 1.0, 0.05),
    ]
    remarks.append(
        "Coverage bits are in the depth surface's fourth byte, so that 16 samples take the memory of four: places and bits are those that envytools found on chips. When bits are cleared is "
        "the model's rule, and stencil is given up for them. Tests measure the quality: the error of edges is 0.046 of full scale with 16 samples of which four are stored, 0.111 with four, and "
        "0.040 if all 16 were stored."
    )
    return [
        Table("Table 2, samples of a pixel", "samples", table),
        Table("Coverage sampling against multisampling", "ratio", ratios),
    ]


@study("tesla-scaling", f"{PAPER}, Scalability and performance")
def scaling(step: Step) -> Result:
    """Frame time with 1 to 8 clusters, and two chips that split a frame or take turns."""
    series: dict[str, list[tuple[float, float]]] = {}
    cells = []
    for scene, what in (("large_triangles", "pixels"), ("small_triangles", "vertices")):
        for clusters in (1, 2, 4, 8):
            step(f"{what}, {clusters} clusters")
            found = frame(scene, "dynamic", clusters)
            series.setdefault(what, []).append((float(clusters), frame(scene, "dynamic", 1).cycles / found.cycles))
    # While the processors limit it, a frame takes half as long with twice the clusters.
    cells = [
        Cell(what, f"{int(n)} clusters", speed, n, 0.15) for what, points in series.items() for n, speed in points[1:3]
    ]
    result = Result([Table("Speed relative to one cluster", "times", cells)])
    result.plots = [Plot("Speed by clusters", "clusters", "times", series)]
    result.tables += _linked(step, result.remarks)
    result.remarks.append(NOT_ANCHORED)
    return result


def _linked(step: Step, remarks: list[str]) -> list[Table]:
    """Two chips on each of two scenes: bands of rows, and frames in turn."""
    speeds, pictures = [], []
    chip = load_chip(CHIP)
    # Both chips transform all vertices: where these are the limit, a split frame takes as long as on one chip.
    for scene, what, bound in (("large_triangles", "pixels", 2.0), ("small_triangles", "vertices", 1.0)):
        step(f"{what}, two chips")
        alone = frame(scene)
        halves = split(RECORDINGS / f"{scene}.wwcs", chip)
        turns = in_turn(RECORDINGS / f"{scene}.wwcs", chip)
        slowest = max(one.cycles for one in halves.frames)
        speeds.append(Cell(what, "split frame", alone.cycles / slowest, bound, 0.2))
        differ = int((halves.picture != turns.picture).any(axis=2).sum())
        pictures.append(Cell(what, "pixels that differ", differ, 0.0, 0.0, absolute=True))
        (first, second), frames = halves.bands, halves.frames
        remarks.append(
            f"{what}: one chip takes {1e6 * alone.seconds:.1f} µs; two that split the frame {1e6 * frames[0].seconds:.1f} µs for rows {first[0]} to {first[1]} and "
            f"{1e6 * frames[1].seconds:.1f} µs for {second[0]} to {second[1]}; two that take turns finish a frame every {1e6 * alone.seconds / 2:.1f} µs, each "
            f"{1e6 * alone.seconds:.1f} µs after it began. On the link the other chip's pixels take {1e6 * halves.link_seconds:.0f} and {1e6 * turns.link_seconds:.0f} µs "
            "per frame, while the next one is drawn."
        )
    return [
        Table("Speed of two chips that split a frame", "times one chip", speeds),
        Table("Picture of both bands", "pixels", pictures),
    ]
