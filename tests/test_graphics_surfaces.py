"""Surfaces and formats of the graphics device: places of elements in memory, and numbers of channels."""

from __future__ import annotations

import numpy as np
import pytest

from warpwright.errors import MemoryFaultError
from warpwright.graphics.formats import (
    COLOUR_FORMATS,
    FLOAT,
    SNORM,
    SRGB,
    UNORM,
    decode,
    encode,
    half_bits,
    half_value,
    small_float_bits,
    small_float_value,
)
from warpwright.graphics.surface_layout import Place, byte_offset, copy_rectangle, linear, tiled
from warpwright.graphics.video_memory import VideoMemory


@pytest.mark.parametrize("height_log2", range(4))
@pytest.mark.parametrize(("depth_log2", "slices"), [(0, 1), (1, 2), (2, 7)])
def test_every_byte_of_a_tiled_image_has_a_place_of_its_own(height_log2: int, depth_log2: int, slices: int) -> None:
    width, rows = 200, 37
    layout = tiled(0, width, height_log2 << 4 | depth_log2 << 8, rows, slices)
    z, y, x = np.mgrid[0:slices, 0:rows, 0:width]
    offsets = layout.offsets(x, y, z)
    assert len(np.unique(offsets)) == offsets.size
    assert offsets.min() == 0
    assert offsets.max() < layout.size
    points = np.random.default_rng(0).integers(0, (width, rows, slices), (50, 3))
    for px, py, pz in points.tolist():
        assert byte_offset(layout.key(), px, py, pz) == offsets[pz, py, px]


def test_places_in_a_block_of_two_gobs() -> None:
    """64 bytes by 4 rows are a GOB; one below the other makes a block; blocks follow each other along x."""
    layout = tiled(0, 128, 0x10, 16)
    places = [(0, 0), (63, 0), (0, 1), (0, 3), (0, 4), (0, 7), (64, 0), (0, 8)]
    offsets = [int(layout.offsets(np.array(x), np.array(y))) for x, y in places]
    assert offsets == [0, 63, 64, 192, 256, 448, 512, 1024]


@pytest.mark.parametrize("mode", [0x00, 0x20, 0x110, 0x231])
def test_a_span_has_every_byte_of_a_rectangle_even_beyond_the_pitch(mode: int) -> None:
    layout = tiled(0, 128, mode, 40, 4)
    for x, y, width, height in np.random.default_rng(2).integers((0, 0, 1, 1), (300, 40, 300, 20), (50, 4)).tolist():
        first, end = layout.span((x, x + width - 1), (y, y + height - 1), 1)
        rows, columns = np.mgrid[y : y + height, x : x + width]
        offsets = layout.offsets(columns, rows, 1)
        assert first <= offsets.min()
        assert offsets.max() < end


def test_a_rectangle_is_in_the_buffer_of_its_image() -> None:
    memory = VideoMemory(1 << 20, 1 << 20)
    one, other = (memory.allocate(1 << 16, 4096, True) for _ in range(2))
    wide = Place(tiled(one.address, 64, 0x20, 16), 0, 0)
    with pytest.raises(MemoryFaultError, match="a test \\(to\\) accesses 131072 bytes"):
        copy_rectangle(memory, wide, Place(linear(other.address, 64, 1), 0, 0), 1 << 13, 1, "a test")
    far = Place(linear(one.address, 64, 1), other.address - one.address, 0)
    with pytest.raises(MemoryFaultError, match="a test \\(to\\) accesses 65544 bytes"):
        copy_rectangle(memory, far, Place(linear(other.address, 64, 1), 0, 0), 8, 1, "a test")


@pytest.mark.ci
def test_copies_between_layouts_come_back_as_they_were() -> None:
    memory = VideoMemory(4 << 20, 1 << 20)
    flat = memory.allocate(1 << 16, 4096, True)
    image = memory.allocate(1 << 17, 4096, True)
    back = memory.allocate(1 << 16, 4096, True)
    memory.view(flat.address, 1 << 16, "a test")[:] = np.random.default_rng(1).integers(0, 256, 1 << 16)
    rows, length, pitch = 90, 333, 512
    into = Place(tiled(image.address, 700, 0x30, 120), 77, 13)
    copy_rectangle(memory, into, Place(linear(flat.address, pitch, rows), 0, 0), length, rows, "a test")
    copy_rectangle(memory, Place(linear(back.address, pitch, rows), 0, 0), into, length, rows, "a test")
    first = memory.view(flat.address, pitch * rows, "a test").reshape(rows, pitch)[:, :length]
    assert (memory.view(back.address, pitch * rows, "a test").reshape(rows, pitch)[:, :length] == first).all()


def test_half_precision_is_that_of_numpy() -> None:
    values = np.concatenate([np.random.default_rng(2).normal(0, 10.0**e, 400) for e in range(-9, 6)]).astype(np.float32)
    edges = np.array([0, -0.0, 65504, 65519, 65520, np.inf, -np.inf, 5.9e-8, 2.9e-8, 2.98e-8, 6.1e-5], np.float32)
    for value in np.concatenate([values, edges]):
        bits = half_bits(int(value.view(np.uint32)))
        with np.errstate(over="ignore"):
            expected = value.astype(np.float16)
        assert bits == int(expected.view(np.uint16))
        if np.isfinite(expected):
            assert half_value(bits) == float(expected)


@pytest.mark.parametrize("mantissa_bits", [5, 6])
def test_small_floats_are_the_inverse_of_their_bits(mantissa_bits: int) -> None:
    for bits in range(31 << mantissa_bits):
        value = small_float_value(bits, mantissa_bits)
        assert small_float_bits(value, mantissa_bits) == bits
        assert small_float_bits(np.nextafter(value, np.inf), mantissa_bits) == bits
    assert small_float_bits(-1.0, mantissa_bits) == 0
    assert small_float_bits(np.inf, mantissa_bits) == 31 << mantissa_bits


@pytest.mark.ci
@pytest.mark.parametrize("number", sorted(COLOUR_FORMATS))
def test_elements_survive_a_turn_through_numbers(number: int) -> None:
    form = COLOUR_FORMATS[number]
    elements = np.random.default_rng(number).integers(0, 256, (500, form.size), dtype=np.uint8)
    used = np.zeros(form.size, dtype=np.uint8)
    for channel in form.channels:
        if channel is not None:
            field = (1 << channel.bits) - 1 << channel.shift << 32 * channel.word
            used |= np.frombuffer(field.to_bytes(form.size, "little"), dtype=np.uint8)
    colours = decode(elements, form)
    again = encode(colours, form)
    signed = any(c is not None and c.kind == SNORM for c in form.channels)
    keep = np.ones(len(elements), dtype=bool)
    if signed:
        # -128 and -127 are both -1.
        keep = (colours > -1).all(axis=1)
    if any(c is not None and c.kind == FLOAT for c in form.channels):
        keep &= ~np.isnan(colours).any(axis=1)
    assert keep.sum() > 100
    assert not ((again ^ elements) & used)[keep].any()


@pytest.mark.ci
def test_unorm_and_srgb_round_to_the_nearest() -> None:
    form = COLOUR_FORMATS[0xD5]
    values = np.linspace(-0.1, 1.1, 997, dtype=np.float32)
    colours = np.repeat(values[:, None], 4, axis=1)
    expected = np.floor(np.clip(values.astype(np.float64), 0, 1) * 255.0 + 0.5).astype(np.uint8)
    assert (encode(colours, form)[:, 0] == expected).all()
    assert {c.kind for c in COLOUR_FORMATS[0xD6].channels if c} == {SRGB, UNORM}
    linear_values = decode(np.arange(256, dtype=np.uint8)[:, None].repeat(4, axis=1), COLOUR_FORMATS[0xD6])
    assert (encode(linear_values, COLOUR_FORMATS[0xD6])[:, 0] == np.arange(256)).all()
    assert linear_values[188, 0] == pytest.approx(0.5029, abs=1e-3)
