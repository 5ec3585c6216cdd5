"""Texture and surface accesses of a warp: the compiled form against NumPy's, bit for bit (``engine/textures``)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import warpwright as ww
from warpwright.engine.abi import LAUNCH, WARP
from warpwright.engine.interpreter.gather_scatter import MemoryFault
from warpwright.engine.launch import LaunchContext, aligned_words
from warpwright.engine.textures.launch_textures import LaunchTextures
from warpwright.engine.textures.table import FLOAT, Format, Sampler, make_image, table_of
from warpwright.isa.texture_access import (
    CLAMP,
    EXPLICIT,
    FETCH,
    GATHER,
    IGNORE,
    LOAD,
    SAMPLE,
    SLOPES,
    STORE,
    STORE_FORMATTED,
    TRAP,
    ZERO,
    TextureAccess,
)

DEVICE = ww.GPU("h200", timing="off")
DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4")
SPECIAL = np.array(
    [0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x00800000, 0x4B000001], np.uint32
)


class Warp:
    """One warp of a launch that does nothing but textures."""

    def __init__(self) -> None:
        nothing: Any = None
        self.context = LaunchContext(nothing, nothing, DEVICE.memory, aligned_words(LAUNCH.size_bytes))
        self.context.words[LAUNCH.slot("host_minus_device")] = DEVICE.memory.host_minus_device
        self.textures = LaunchTextures(self.context)
        self.textures.provide(self.context)
        self.warp = aligned_words(WARP.size_bytes)
        self.warp[WARP.slot("launch")] = self.context.address
        self.left_to_python = 0
        self._count = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint32, *[ctypes.c_uint64] * 4)(self._rare)
        self.context.words[LAUNCH.slot("texture_slow_path")] = ctypes.cast(self._count, ctypes.c_void_p).value or 0

    def _rare(self, *_: int) -> None:
        self.left_to_python += 1

    def compiled(self, access: TextureAccess, words: np.ndarray, lanes: int) -> tuple[np.ndarray, np.ndarray]:
        from warpwright.engine.textures import compiled_textures  # here, because the import compiles

        values = np.ascontiguousarray(words)
        first = np.zeros(32, np.int64)
        compiled_textures.serve.ctypes(
            self.warp.ctypes.data, lanes, access.word(), values.ctypes.data, first.ctypes.data, 0
        )
        return values[:4], first

    def numpy(self, access: TextureAccess, words: np.ndarray, lanes: int) -> tuple[np.ndarray, np.ndarray]:
        mask = (lanes >> np.arange(32) & 1).astype(np.bool_)
        return self.textures.serve(access, list(words.copy()), mask)


@st.composite
def accesses(draw: st.DrawFn) -> tuple[Any, ...]:
    axes = draw(st.integers(1, 3))
    layered = axes < 3 and draw(st.booleans())
    dtype = draw(st.sampled_from(DTYPES))
    format = Format.of(dtype, draw(st.sampled_from((1, 2, 4))))
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=axes + layered, max_size=axes + layered)))
    name = f"ARRAY_{axes}D" if layered else f"{axes}D"
    on_surface = draw(st.booleans()) and draw(st.booleans())
    if on_surface:
        request = draw(st.sampled_from((LOAD, STORE, STORE_FORMATTED)))
        size = draw(st.sampled_from([s for s in (1, 2, 4, 8, 16) if s <= format.element_bytes]))
        access = TextureAccess(
            request=request, shape=name, size=size, outside=draw(st.sampled_from((IGNORE, CLAMP, TRAP)))
        )
        return format, shape, layered, 1, None, access
    normalized = draw(st.booleans())
    levels = draw(st.integers(1, 4)) if normalized else 1
    integer = format.kind != FLOAT and (format.channel_bytes == 4 or draw(st.booleans()))
    sampler = Sampler(
        address=tuple(draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))),
        linear=not integer and draw(st.booleans()),
        normalized=normalized,
        as_integer=integer,
        srgb=dtype == "u1" and not integer and draw(st.booleans()),
        mip_linear=draw(st.booleans()),
        bias=draw(st.sampled_from((0.0, 0.7, -1.3))),
        least=draw(st.sampled_from((0.0, 0.8))),
        most=draw(st.sampled_from((0.0, 2.6, 99.0))),
        border=tuple(draw(st.lists(st.sampled_from((0.0, 1.0, -0.4, 0.3, 7.5)), min_size=4, max_size=4))),
    )
    request = draw(st.sampled_from((SAMPLE, SAMPLE, FETCH, SLOPES, *([GATHER] if axes == 2 else []))))
    level = EXPLICIT if request in (SAMPLE, FETCH) and draw(st.booleans()) else ZERO
    access = TextureAccess(
        request=request, shape=name, level=level, component=draw(st.integers(0, 3)) if request == GATHER else 0,
        offsets=request != SLOPES and draw(st.booleans()),
    )  # fmt: skip
    return format, shape, layered, levels, sampler, access


def arguments(
    rng: np.random.Generator, access: TextureAccess, shape: tuple[int, ...], format: Format, normalized: bool
) -> np.ndarray:
    """The words of a warp, all but the handle: coordinates about the image, some of them unusual."""
    words = rng.integers(0, 1 << 32, (16, 32), np.uint32)
    at = 1
    if access.layered:
        words[1] = rng.integers(0, shape[-1] + 2, 32)
        at = 2
    whole = access.request in (FETCH, LOAD, STORE, STORE_FORMATTED)
    for axis in range(access.axes):
        size = shape[axis] * (format.element_bytes if axis == 0 and access.request in (LOAD, STORE) else 1)
        if whole:
            words[at + axis] = rng.integers(-1, size + 2, 32).astype(np.int32).view(np.uint32)
            if access.request in (LOAD, STORE) and axis == 0:
                words[at] = (words[at].view(np.int32) // access.size * access.size).view(np.uint32)
        else:
            row = rng.uniform(-1.5, 2.5, 32) * (1 if normalized else size)
            row[::3] = rng.integers(-2, 2 * size + 3, len(row[::3])) / 2 / (size if normalized else 1)
            words[at + axis] = row.astype(np.float32).view(np.uint32)
            unusual = rng.random(32) < 0.1
            words[at + axis][unusual] = rng.choice(SPECIAL, int(unusual.sum()))
    rest = at + access.axes
    if access.request == FETCH and access.level == EXPLICIT:
        words[rest] = rng.integers(-1, 5, 32).astype(np.int32).view(np.uint32)
    elif access.request == SLOPES:
        words[rest : rest + 6] = rng.normal(0, 0.3, (6, 32)).astype(np.float32).view(np.uint32)
    elif access.request == SAMPLE and access.level == EXPLICIT:
        words[rest] = (rng.integers(-300, 5 * 256, 32) / 256).astype(np.float32).view(np.uint32)
    return words


NAN_TO_HALF = TextureAccess("global", 4, cache="TEXTURE", request=STORE_FORMATTED, shape="ARRAY_2D", size=1)


@example((Format(FLOAT, 2, 1), (7, 1, 5), True, 1, None, NAN_TO_HALF), 799, 1024)
@settings(max_examples=150, deadline=None)
@given(accesses(), st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
def test_compiled_is_numpys(drawn: tuple[Any, ...], seed: int, lanes: int) -> None:
    compare(drawn, seed, lanes)


@st.composite
def plain_samples(draw: st.DrawFn) -> tuple[Any, ...]:
    """What ``vector_samples.py`` serves: one level of 32-bit elements, one or two axes, no offsets."""
    axes = draw(st.integers(1, 2))
    format = Format.of(draw(st.sampled_from(("f4", "f4", "u4", "i4"))), draw(st.sampled_from((1, 2, 4))))
    shape = tuple(draw(st.lists(st.one_of(st.integers(1, 9), st.just(17000)), min_size=axes, max_size=axes)))
    shape = (shape[0], min(shape[1], 9)) if axes == 2 else shape
    is_float = format.kind == FLOAT
    sampler = Sampler(
        address=tuple(draw(st.lists(st.integers(0, 3), min_size=3, max_size=3))),
        linear=is_float and draw(st.booleans()),
        normalized=draw(st.booleans()),
        as_integer=not is_float,
        border=tuple(draw(st.lists(st.sampled_from((0.0, 1.0, -0.4, 0.3, 7.5)), min_size=4, max_size=4))),
    )
    level = draw(st.sampled_from((EXPLICIT, ZERO)))
    return format, shape, False, 1, sampler, TextureAccess(request=SAMPLE, shape=f"{axes}D", level=level)


@pytest.mark.ci
@settings(max_examples=150, deadline=None)
@given(plain_samples(), st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
def test_eight_lanes_at_a_time_are_numpys(drawn: tuple[Any, ...], seed: int, lanes: int) -> None:
    compare(drawn, seed, lanes)


def compare(drawn: tuple[Any, ...], seed: int, lanes: int) -> None:
    """An access of the compiled form and of NumPy's, what they give and what they leave in memory."""
    format, shape, layered, levels, sampler, access = drawn
    rng = np.random.default_rng(seed)
    image = make_image(DEVICE.memory, format, shape, layered=layered, levels=levels)
    assert image.allocation is not None
    texels = DEVICE.memory.view(image.allocation.address, image.allocation.size_bytes)
    texels[:] = rng.integers(0, 256, len(texels), np.uint8)
    if format.kind == FLOAT and rng.random() < 0.7:
        values = rng.normal(0, 1, len(texels) // format.channel_bytes).astype(f"f{format.channel_bytes}")
        texels[:] = values.view(np.uint8)
    before = texels.copy()
    handle = table_of(DEVICE.memory).add(image, sampler)
    try:
        warp = Warp()
        words = arguments(rng, access, shape, format, sampler is not None and sampler.normalized)
        words[0] = handle
        try:
            expected, first = warp.numpy(access, words, lanes)
        except MemoryFault:
            # A trap: Python tells about it, and nothing was changed.
            found, _ = warp.compiled(access, words, lanes)
            assert warp.left_to_python == 1
            np.testing.assert_array_equal(found, words[:4])
            np.testing.assert_array_equal(texels, before)
            return
        after = texels.copy()
        texels[:] = before
        found, at = warp.compiled(access, words, lanes)
        assert warp.left_to_python == 0
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(at, first)
        np.testing.assert_array_equal(texels, after)
    finally:
        table_of(DEVICE.memory).remove(handle)
        DEVICE.memory.free(image.allocation)


@pytest.mark.parametrize("handle", [0, 5, 1 << 20, 0xFFFFFFFF])
def test_a_handle_that_is_none_is_left_to_python(handle: int) -> None:
    warp = Warp()
    words = np.zeros((16, 32), np.uint32)
    words[0] = handle
    warp.compiled(TextureAccess(), words, 1)
    assert warp.left_to_python == 1
