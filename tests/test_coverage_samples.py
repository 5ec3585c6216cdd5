"""Coverage sampling: the bits of a mode, what draws write, and resolved pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.graphics_streams import THREE_D, Stream
from warpwright.graphics import targets
from warpwright.graphics.coverage_samples import MODES, pairs_of, resolve, weights, write_coverage
from warpwright.graphics.device import GraphicsDevice
from warpwright.graphics.pushbuffer import CommandError
from warpwright.graphics.raster import raster_triangles
from warpwright.graphics.recording import Replay

RECORDINGS = Path(__file__).parents[1] / "warpwright" / "studies" / "recordings"


@pytest.mark.parametrize(("number", "bits"), [(8, 16), (9, 32), (10, 32)])
def test_a_modes_bits_fill_its_elements(number: int, bits: int) -> None:
    """16 and 32 bits per pixel, each in a place of its own; places of samples are those of 16ths and all different."""
    mode, pairs = MODES[number], pairs_of(number)
    assert len(pairs) == bits == 8 * len(mode.holders)
    assert len({(int(h), int(b)) for _, _, h, b in pairs}) == bits
    assert len(set(mode.full + mode.places)) == mode.samples == (8 if number == 8 else 16)
    assert all(0 < v < 16 for place in mode.full + mode.places for v in place)
    for sample, belongs in enumerate(mode.belongs, len(mode.full)):
        assert sorted(belongs) == [int(f) for v, f, _, _ in pairs if v == sample]


class Pixel:
    """One quad of a surface with four full samples, in plain memory."""

    def __init__(self, number: int) -> None:
        self.number, self.memory = number, np.zeros(4096, np.uint8)
        across, down = targets.SAMPLES[number]
        self.surface: Any = ((256, -1, 0, 0), 4, (2 * across, 2 * down, across, down), np.zeros((1, 2), np.int64))

    def draw(self, full: int, covered: int) -> None:
        """Full and coverage samples of the first pixel."""
        write_coverage(
            self.memory,
            self.surface,
            np.zeros((1, 3), np.int64),
            np.array([full], np.uint32),
            np.array([covered], np.uint64),
            pairs_of(self.number),
        )

    def bits(self) -> dict[tuple[int, int], int]:
        from warpwright.graphics.rop import sample_address

        quads = np.zeros((1, 3), np.int64)
        return {
            (int(v), int(f)): int(self.memory[sample_address(self.surface, quads, 0, 0, int(h)) + 3] >> int(b) & 1)
            for v, f, h, b in pairs_of(self.number)
        }


@pytest.mark.ci
def test_bits_say_which_values_are_the_same() -> None:
    pixel = Pixel(9)
    pixel.draw(0b1111, 0xFFFF)
    assert all(pixel.bits().values())
    # A second primitive covers and is drawn to full sample 0, and covers coverage sample 7 (which may belong to 0 and 2).
    pixel.draw(0b0001, 1 << 7 | 0b0001)
    bits = pixel.bits()
    assert bits[7, 0] == 1
    assert bits[7, 2] == 0
    assert not any(value for (v, f), value in bits.items() if f == 0 and v != 7)
    assert all(value for (v, f), value in bits.items() if f != 0 and v != 7)


def test_a_full_sample_that_fails_keeps_its_coverage_samples() -> None:
    """Where two surfaces cut each other, the quality is that of the full samples."""
    pixel = Pixel(9)
    pixel.draw(0b1111, 0xFFFF)
    pixel.draw(0b0001, 0xFFFF)
    assert all(pixel.bits().values())


def test_other_pixels_keep_their_bits() -> None:
    pixel = Pixel(9)
    pixel.draw(0b1111, 0xFFFF)
    before = pixel.bits()
    pixel.draw(0b1111 << 8, 0)
    assert pixel.bits() == before


def test_a_depth_format_without_room_is_refused() -> None:
    stream = Stream()
    address = stream.device.memory.allocate(1 << 20, 4096, local=True).address
    stream.put(THREE_D, "ZETA_ADDRESS_HIGH", address >> 32, address & 0xFFFFFFFF, 0x15)
    stream.put(THREE_D, "ZETA_ENABLE", 1)
    stream.put(THREE_D, "ZETA_HORIZ", 64, 64)
    stream.put(THREE_D, "MULTISAMPLE_MODE", 9)
    stream.submit()
    with pytest.raises(CommandError, match="Z24_X8_UNORM has no room for coverage samples"):
        targets.multisample(stream.device.three_d)
    stream.put(THREE_D, "ZETA_FORMAT", 0x18)
    stream.submit()
    assert targets.multisample(stream.device.three_d) == (2, 2)
    stream.put(THREE_D, "MULTISAMPLE_MODE", 2)
    stream.submit()
    with pytest.raises(CommandError, match="Z24_C8_UNORM is for coverage samples"):
        targets.multisample(stream.device.three_d)
    stream.put(THREE_D, "MULTISAMPLE_MODE", 11)
    stream.submit()
    with pytest.raises(CommandError, match="modes 0 to 3 and 8 to 10 are"):
        targets.multisample(stream.device.three_d)


SIZE = 64


def covered(x: Any, y: Any, places: Any) -> Any:
    """Which places of each pixel a triangle covers: (SIZE, SIZE, places)."""
    table = np.rint(np.array(places) * 16).astype(np.int64)
    out = np.zeros((SIZE, SIZE, len(places)), bool)
    scissors = np.array([[0, 0, SIZE, SIZE]])
    for first in range(0, len(places), 8):
        part = np.ascontiguousarray(table[first : first + 8])
        quads, masks = np.zeros((SIZE * SIZE, 3), np.int64), np.zeros(SIZE * SIZE, np.uint32)
        count = raster_triangles(x, y, scissors, part, np.array([0, -1]), quads, masks)
        for (qx, qy, _), mask in zip(quads[:count].tolist(), masks[:count].tolist(), strict=True):
            for p in range(4):
                for s in range(len(part)):
                    out[qy + (p >> 1), qx + (p & 1), first + s] = mask >> 8 * p + s & 1
    return out


@pytest.mark.ci
def test_edges_are_smoother_than_those_of_full_samples_alone() -> None:
    """White triangles on black, whose true share of a pixel is that of 256 places: the error is much less than that of the full samples."""
    rng, mode = np.random.default_rng(3), MODES[9]
    errors: list[Any] = []
    for _ in range(6):
        x, y = rng.integers(0, SIZE * 256, (2, 1, 3))
        full, extra = covered(x, y, mode.full), covered(x, y, mode.places)
        grid = (np.arange(16) + 0.5).tolist()
        true = sum(covered(x, y, [(gx, gy) for gx in grid]).sum(axis=2) for gy in grid) / 256
        # All samples were black before: bits of full samples that are still black are those of coverage samples that are too.
        weight = np.ones((SIZE, SIZE, 4))
        for sample, belongs in enumerate(mode.belongs):
            chosen = np.full((SIZE, SIZE), belongs[0])
            for one in reversed(belongs):
                chosen = np.where(full[..., one] == extra[..., sample], one, chosen)
            weight += chosen[..., None] == np.arange(4)
        edge = (true > 0) & (true < 1)
        for value in (full.mean(axis=2), (full * weight).sum(axis=2) / 16, (full.sum(axis=2) + extra.sum(axis=2)) / 16):
            errors.append(np.square(value - true)[edge].mean() ** 0.5)
    four, coverage, sixteen = np.array(errors).reshape(6, 3).mean(axis=0)
    assert coverage < 0.75 * four
    assert sixteen <= coverage


def resolved(samples: int) -> tuple[Any, Any, Any]:
    """A recorded scene of spheres with coverage samples: resolved with their weights, resolved without, and the weights."""
    replay = Replay(RECORDINGS / f"antialiased_{samples}.wwcs")
    kept: list[Any] = []

    def prepare(device: GraphicsDevice) -> None:
        engine = device.three_d
        engine.adds_coverage_samples = True
        render = engine._end

        def after(method: int, words: Any) -> None:
            render(method, words)
            if targets.sample_mode(engine) >= 8:
                kept[:] = [targets.colour_target(engine, 0), targets.depth_target(engine), targets.sample_mode(engine)]

        for name, handler in list(engine._handlers.items()):
            if handler == engine._end:
                engine._handlers[name] = after

    replay.on_device = prepare
    replay.run()
    assert replay.device is not None
    colour, depth, number = kept
    pixel = targets.SAMPLES[number]
    weight = weights(replay.device.memory, depth, number, pixel)
    weighted = resolve(replay.device.memory, colour, depth, number, pixel)
    return weighted, replay.device, weight


@pytest.mark.ci
@pytest.mark.parametrize("samples", [4, 8])
def test_a_scene_with_coverage_samples(samples: int) -> None:
    """Weights add up to 16; within a surface coverage samples belong to the first of their lists."""
    picture, _, weight = resolved(samples)
    assert (weight.sum(axis=2) == 16).all()
    mode = MODES[9 if samples == 4 else 10]
    preferred = 1 + np.bincount([belongs[0] for belongs in mode.belongs], minlength=samples)
    inside = (weight == preferred).all(axis=2)
    assert 0.8 < inside.mean() < 0.999
    assert picture.shape == (512, 512, 4)
    assert picture.std() > 0.1
