"""The texture unit of G80 against OpenGL's rules, written again here in NumPy, at positions that 256ths of a texel hold exactly."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tests.nv50_shaders import code_of, recorded
from warpwright.errors import FaultingAccess, MemoryFaultError, UnsupportedError
from warpwright.graphics.shader_programs import Pixels, load_program
from warpwright.graphics.texture_headers import FORMATS, read_header
from warpwright.graphics.texture_unit import TextureUnit
from warpwright.isa.nv50.texture_request import AUTO, BIAS, FETCH, LEVEL, SIZE, TextureRequest

pytestmark = pytest.mark.ci
ONE_D, TWO_D, THREE_D, CUBE, ONE_D_ARRAY, TWO_D_ARRAY, BUFFER, RECTANGLE = range(8)
SNORM, UNORM, SINT, UINT, FLOAT = 1, 2, 3, 4, 7
RGBA = (2, 3, 4, 5)
ADDRESS = 0x2000_1000


@dataclass
class Memory:
    """One buffer at ADDRESS."""

    bytes: np.ndarray

    def texture_room(self, address: int, what: str) -> tuple[int, int]:
        at = address - ADDRESS
        if not 0 <= at < len(self.bytes):
            raise MemoryFaultError(
                f"GPU fault: {what} at {address:#x}", FaultingAccess(address=address, bytes=1, reason="no buffer")
            )
        return int(self.bytes.ctypes.data) + at, len(self.bytes) - at


@dataclass
class Header:
    """Fields of a texture header."""

    format: int = 0x08
    types: Sequence[int] = (UNORM,) * 4
    sources: Sequence[int] = RGBA
    type: int = TWO_D
    size: tuple[int, int, int] = (8, 8, 1)
    levels: int = 1
    srgb: bool = False
    normalized: bool = True
    pitch: int = 0
    blocks: tuple[int, int] = (0, 0)
    anisotropy: int = 0

    def words(self) -> list[int]:
        w0 = self.format | sum(t << 6 + 3 * n for n, t in enumerate(self.types))
        w0 |= sum(s << 18 + 3 * n for n, s in enumerate(self.sources))
        w2 = self.type << 14 | self.srgb << 10 | self.normalized << 31 | bool(self.pitch) << 18
        w2 |= self.blocks[0] << 22 | self.blocks[1] << 25
        width, height, depth = self.size
        return [w0, ADDRESS, w2, self.pitch, width, height & 0xFFFF | depth << 16 | self.levels - 1 << 28,
                self.anisotropy << 27, 0]  # fmt: skip


@dataclass
class Sampler:
    """Fields of a sampler."""

    wrap: Sequence[int] = (2, 2, 2)
    magnify: int = 1
    minify: int = 1
    mip: int = 1
    bias: float = 0.0
    lods: tuple[float, float] = (0.0, 15.0)
    compare: int = -1
    anisotropy: int = 0
    border: Sequence[float] = (0.25, 0.5, 0.75, 1.0)

    def words(self) -> list[int]:
        w0 = sum(w << 3 * n for n, w in enumerate(self.wrap)) | self.anisotropy << 20
        if self.compare >= 0:
            w0 |= 1 << 9 | self.compare << 10
        w1 = self.magnify | self.minify << 4 | self.mip << 6 | (int(self.bias * 256) & 0x1FFF) << 12
        w2 = int(self.lods[0] * 256) | int(self.lods[1] * 256) << 12
        return [w0, w1, w2, 0, *np.array(self.border, np.float32).view(np.uint32).tolist()]


def offset(level: Any, x_bytes: int, y: int, z: int) -> int:
    """Where a byte of a level is: GOBs of 64 bytes by 4 rows, blocks of GOBs in a column, columns of blocks in depth."""
    if level.height_log2 < 0:
        return int(level.offset + y * level.pitch + x_bytes)
    rows, slices = 4 << level.height_log2, 1 << level.depth_log2
    across, down = level.pitch // 64, -(-level.height // rows)
    block = (z // slices * down + y // rows) * across + x_bytes // 64
    inside = (z % slices * (rows // 4) + y % rows // 4) * 256 + y % 4 * 64 + x_bytes % 64
    return int(level.offset + block * 64 * rows * slices + inside)


@dataclass
class Texture:
    """A texture in memory: elements by level, layer, slice, row and column."""

    header: Header
    elements: list[np.ndarray]
    """By level: (layers, depth, height, width, element bytes) uint8."""
    unit: TextureUnit = field(init=False)
    memory: Memory = field(init=False)

    def put(self) -> None:
        read = read_header(self.header.words())
        self.memory = Memory(np.zeros(read.size_bytes + 64, np.uint8))
        for level, texels in zip(read.levels, self.elements, strict=True):
            size = texels.shape[-1]
            for layer, z, y, x in itertools.product(*(range(n) for n in texels.shape[:4])):
                at = layer * read.layer_bytes + offset(level, x * size, y, z)
                self.memory.bytes[at : at + size] = texels[layer, z, y, x]

    def bind(self, sampler: Sampler, seamless: bool = False) -> TextureUnit:
        self.put()
        return TextureUnit({3: self.header.words()}, {2: sampler.words()}, self.memory, seamless)


def rgba8(header: Header, seed: int = 0) -> Texture:
    """Random bytes."""
    chance, made = np.random.default_rng(seed), []
    width, height, depth = header.size
    layers = {CUBE: 6 * depth, ONE_D_ARRAY: depth, TWO_D_ARRAY: depth}.get(header.type, 1)
    size = FORMATS[header.format].element_bytes
    for n in range(header.levels):
        deep = max(1, depth >> n) if header.type == THREE_D else 1
        shape = (layers, deep, max(1, height >> n), max(1, width >> n), size)
        made.append(chance.integers(0, 256, shape, dtype=np.uint8))
    return Texture(header, made)


def ask(
    unit: TextureUnit, kind: int, *arguments: Any, derivatives: bool = False, offsets: Sequence[int] = (0, 0, 0)
) -> np.ndarray:
    """Results (n, 4) as f32 of up to 32 lanes; arguments are f32 or i32 arrays."""
    count = len(np.atleast_1d(arguments[0]))
    x, y, z = offsets
    request = TextureRequest(
        kind=kind, unit=3, sampler=2, arguments=len(arguments), derivatives=derivatives, x=x, y=y, z=z
    )
    words = []
    for a in arguments:
        a = np.atleast_1d(a)
        row = np.zeros(32, np.uint32)
        row[:count] = (a.astype(np.float32) if a.dtype.kind == "f" else a.astype(np.int32)).view(np.uint32)
        words.append(row)
    found, _ = unit.serve(request, words, np.arange(32) < count)
    return found[:, :count].T.copy().view(np.float32)


# --- OpenGL's rules ---------------------------------------------------------------------------------
def wrapped(i: int, n: int, mode: int) -> int | None:
    """A texel's number, None for the border (OpenGL 3.3, table 3.17 and EXT_texture_mirror_clamp)."""
    if mode == 0:
        return i % n
    if mode == 1:
        m = i % (2 * n)
        return m if m < n else 2 * n - 1 - m
    if mode >= 5 and i < 0:
        i = -1 - i
    if mode in (2, 5):
        return min(max(i, 0), n - 1)
    return i if 0 <= i < n else None


def by_rule(
    texels: np.ndarray, position: Sequence[float], wrap: Sequence[int], linear: bool, border: Sequence[float]
) -> np.ndarray:
    """A sample of (depth, height, width, 4) at a position in texels: x, y, z as far as there are axes."""
    sizes = texels.shape[2::-1][: len(position)]
    choices = []
    for u, n, mode in zip(position, sizes, wrap, strict=False):
        if mode in (4, 7):
            u = min(max(abs(u) if mode == 7 else u, 0.0), n if linear else n - 1e-9)
        if mode in (5, 6):
            u = abs(u)
        if linear:
            low = int(np.floor(u - 0.5))
            share = u - 0.5 - low
            choices.append([(wrapped(low, n, mode), 1 - share), (wrapped(low + 1, n, mode), share)])
        else:
            choices.append([(wrapped(int(np.floor(u)), n, mode), 1.0)])
    total = np.zeros(4)
    for corner in itertools.product(*choices):
        weight = np.prod([share for _, share in corner])
        index = [i for i, _ in corner]
        if weight:
            place = tuple(reversed(index + [0] * (3 - len(index))))
            total += weight * (np.asarray(border) if None in index else texels[place])
    return total


def numbers(texture: Texture, level: int = 0, layer: int = 0) -> np.ndarray:
    """RGBA8 elements as fractions: (depth, height, width, 4)."""
    return np.asarray(texture.elements[level][layer] / 255.0)


POSITIONS = [-9.0, -4.25, -1.0, -0.5, -0.125, 0.0, 0.25, 0.5, 1.0, 3.375, 7.5, 7.75, 8.0, 8.5, 9.625, 15.5, 16.0, 21.25]


@pytest.mark.parametrize("mode", range(8))
@pytest.mark.parametrize("linear", [False, True])
def test_wrap_modes(mode: int, linear: bool) -> None:
    texture = rgba8(Header())
    how = 2 if linear else 1
    unit = texture.bind(Sampler((mode, 0, 0), how, how))
    u = np.array(POSITIONS)
    found = ask(unit, LEVEL, u / 8, np.full(len(u), 3.25 / 8), np.zeros(len(u)))
    border = (0.25, 0.5, 0.75, 1.0)
    for x, got in zip(u, found, strict=True):
        wanted = by_rule(numbers(texture), (x, 3.25), (mode, 0), linear, border)
        np.testing.assert_allclose(got, wanted, atol=2e-7, err_msg=f"{x}")


@pytest.mark.parametrize("kind", [ONE_D, TWO_D, THREE_D])
@pytest.mark.parametrize("blocks", [(0, 0), (1, 0), (2, 2), (4, 1)])
def test_filters_of_one_two_and_three_axes_in_all_blocks(kind: int, blocks: tuple[int, int]) -> None:
    size = {ONE_D: (37, 1, 1), TWO_D: (37, 21, 1), THREE_D: (20, 11, 6)}[kind]
    texture = rgba8(Header(type=kind, size=size, blocks=blocks))
    unit = texture.bind(Sampler((0, 1, 2), 2, 2))
    chance = np.random.default_rng(4)
    axes = kind + 1
    places = chance.integers(-4096, 8192, (32, axes)) / 256
    places[:, 1:] = np.abs(places[:, 1:]) % np.array(size[1:axes] or [1])
    # Positions in 256ths that a float holds after the division and back.
    scaled = (places / np.array(size[:axes])).astype(np.float32)
    found = ask(unit, LEVEL, *scaled.T, np.zeros(32))
    for place, got in zip(scaled.astype(np.float64) * np.array(size[:axes]), found, strict=True):
        exact = np.floor((place - 0.5) * 256 + 0.5) / 256 + 0.5
        np.testing.assert_allclose(got, by_rule(numbers(texture), exact, (0, 1, 2), True, (0, 0, 0, 0)), atol=2e-7)


def test_levels_follow_each_other_in_smaller_blocks() -> None:
    texture = rgba8(Header(size=(70, 45, 1), levels=7, blocks=(4, 0)))
    unit = texture.bind(Sampler())
    for n in range(7):
        texels = numbers(texture, n)
        height, width = texels.shape[1:3]
        for x, y in ((0, 0), (width - 1, height - 1), (width // 2, height // 3)):
            got = ask(unit, FETCH, np.array([x]), np.array([y]), np.array([n]))[0]
            np.testing.assert_allclose(got, texels[0, y, x], atol=1e-7)


def test_volumes_have_levels_too() -> None:
    texture = rgba8(Header(type=THREE_D, size=(17, 9, 12), levels=4, blocks=(2, 3)))
    unit = texture.bind(Sampler())
    for n in range(4):
        texels = numbers(texture, n)
        z, y, x = (s - 1 for s in texels.shape[:3])
        got = ask(unit, FETCH, np.array([x]), np.array([y]), np.array([z]), np.array([n]))[0]
        np.testing.assert_allclose(got, texels[z, y, x], atol=1e-7)


@pytest.mark.parametrize("kind", [ONE_D_ARRAY, TWO_D_ARRAY])
def test_arrays_have_layers_with_levels_of_their_own(kind: int) -> None:
    texture = rgba8(Header(type=kind, size=(19, 1 if kind == ONE_D_ARRAY else 13, 5), levels=3, blocks=(1, 0)))
    unit = texture.bind(Sampler(mip=2))
    for layer, lod in itertools.product((0, 2, 4, 9), (0.0, 1.0, 2.0)):
        texels = numbers(texture, int(lod), min(layer, 4))
        height, width = texels.shape[1:3]
        place = [np.array([2.5 / width])] + ([np.array([1.5 / height])] if kind == TWO_D_ARRAY else [])
        got = ask(unit, LEVEL, *place, np.array([layer]), np.array([lod]))[0]
        np.testing.assert_allclose(got, texels[0, 1 if kind == TWO_D_ARRAY else 0, 2], atol=1e-7)


FACES = [((0, +1), (2, -1), (1, -1)), ((0, -1), (2, +1), (1, -1)), ((1, +1), (0, +1), (2, +1)),
         ((1, -1), (0, +1), (2, -1)), ((2, +1), (0, +1), (1, -1)), ((2, -1), (0, -1), (1, -1))]  # fmt: skip
"""Table 3.18 of OpenGL 3.3: the major axis and its sign, then axes and signs of s and t."""


@pytest.mark.parametrize("face", range(6))
def test_cube_maps_choose_faces(face: int) -> None:
    texture = rgba8(Header(type=CUBE, size=(8, 8, 1), blocks=(1, 0)))
    unit = texture.bind(Sampler((2, 2, 2), 2, 2))
    (axis, sign), (s_axis, s_sign), (t_axis, t_sign) = FACES[face]
    for s, t in ((0.25, -0.5), (-0.75, 0.125), (0.0, 0.5)):
        vector = np.zeros(3)
        vector[axis], vector[s_axis], vector[t_axis] = sign, s * s_sign, t * t_sign
        got = ask(unit, LEVEL, *vector[:, None], np.zeros(1))[0]
        place = ((s + 1) / 2 * 8, (t + 1) / 2 * 8)
        np.testing.assert_allclose(got, by_rule(numbers(texture, 0, face), place, (2, 2), True, (0,) * 4), atol=2e-7)


def test_seamless_filters_go_over_edges() -> None:
    texture = rgba8(Header(type=CUBE, size=(4, 4, 1)))
    at_edge = np.array([1.0, -0.125, 1.0])  # between +x and +z, a sixteenth of the face off its middle
    got = ask(texture.bind(Sampler((2, 2, 2), 2, 2), True), LEVEL, *at_edge[:, None], np.zeros(1))[0]
    x_face, z_face = numbers(texture, 0, 0)[0], numbers(texture, 0, 4)[0]
    t = (0.125 + 1) / 2 * 4 - 0.5
    low, share = int(np.floor(t)), t - np.floor(t)
    columns = [x_face[low] * (1 - share) + x_face[low + 1] * share for x_face in (x_face[:, 0], z_face[:, 3])]
    np.testing.assert_allclose(got, (columns[0] + columns[1]) / 2, atol=3e-7)
    apart = ask(texture.bind(Sampler((2, 2, 2), 2, 2), False), LEVEL, *at_edge[:, None], np.zeros(1))[0]
    np.testing.assert_allclose(apart, columns[0], atol=3e-7)


@pytest.mark.parametrize("mip", [1, 2, 3])
def test_levels_of_explicit_lods(mip: int) -> None:
    texture = rgba8(Header(size=(16, 16, 1), levels=5))
    unit = texture.bind(Sampler(mip=mip, magnify=2, minify=2))
    for lod in (-1.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 1.75, 3.99, 4.0, 9.0):
        got = ask(unit, LEVEL, np.array([0.3125]), np.array([0.625]), np.array([lod]))[0]

        def at(n: int) -> np.ndarray:
            texels = numbers(texture, min(n, 4))
            size = texels.shape[1]
            return by_rule(texels, (0.3125 * size, 0.625 * size), (2, 2), True, (0,) * 4)

        limited = min(max(lod, 0.0), 4.0)
        fixed = np.floor(limited * 256) / 256
        if mip == 1:
            wanted = at(0)
        elif mip == 2:
            wanted = at(max(0, int(np.ceil(limited + 0.5)) - 1))
        else:
            low = int(np.floor(fixed))
            wanted = at(low) * (1 - (fixed - low)) + at(low + 1) * (fixed - low)
        np.testing.assert_allclose(got, wanted, atol=4e-7, err_msg=str(lod))


def quad(origin: Sequence[float], dx: Sequence[float], dy: Sequence[float]) -> list[np.ndarray]:
    """Coordinates of a quad's four pixels."""
    o, a, b = (np.array(v) for v in (origin, dx, dy))
    return list(np.stack([o, o + a, o + b, o + a + b]).T)


@pytest.mark.parametrize("scale", [1.0, 2.0, 4.0, 3.0])
@pytest.mark.parametrize("kind", [AUTO, BIAS])
def test_levels_come_from_the_quad(scale: float, kind: int) -> None:
    """The larger of the two slopes, in texels, is two to the level; a bias adds to it."""
    header = Header(size=(64, 64, 1), levels=7)
    texture = rgba8(header)
    for n, texels in enumerate(texture.elements):
        texels[:] = 16 * n
    unit = texture.bind(Sampler(mip=3, magnify=2, minify=2, bias=0.5))
    coordinates = quad((0.3, 0.4), (scale / 64, 0), (0, 0.5 / 64))
    more = [np.full(4, 0.25)] if kind == BIAS else []
    got = ask(unit, kind, *coordinates, *more, derivatives=True)
    lod = np.log2(scale) + 0.5 + (0.25 if kind == BIAS else 0.0)
    np.testing.assert_allclose(got[:, 0], 16 * lod / 255, atol=16 / 255 / 200)
    without = ask(unit, kind, *coordinates, *more, derivatives=False)
    np.testing.assert_allclose(without[:, 0], 16 * 0.5 / 255 + (16 * 0.25 / 255 if kind == BIAS else 0), atol=1e-3)


def test_lods_have_limits() -> None:
    texture = rgba8(Header(size=(64, 64, 1), levels=7))
    for n, texels in enumerate(texture.elements):
        texels[:] = 16 * n
    for least, most, wanted in ((2.0, 15.0, 2.0), (0.0, 1.5, 1.5), (3.0, 3.0, 3.0)):
        unit = texture.bind(Sampler(mip=3, magnify=2, minify=2, lods=(least, most)))
        got = ask(unit, LEVEL, np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.array([-4.0, wanted]))
        np.testing.assert_allclose(got[1, 0], 16 * wanted / 255, atol=1e-6)
        np.testing.assert_allclose(got[0, 0], 16 * least / 255, atol=1e-6)


@pytest.mark.parametrize(("ratio", "level"), [(0, 3.0), (1, 2.0), (2, 1.0), (4, 0.0), (7, 0.0)])
def test_anisotropy_takes_the_level_of_the_shorter_axis(ratio: int, level: float) -> None:
    """A footprint of 8 by 1 texels: so many samples as are allowed, each of the level that then suits."""
    texture = rgba8(Header(size=(64, 64, 1), levels=7))
    for n, texels in enumerate(texture.elements):
        texels[:] = 16 * n
    unit = texture.bind(Sampler((0, 0, 0), 2, 2, 3, anisotropy=ratio))
    got = ask(unit, AUTO, *quad((0.5, 0.5), (8 / 64, 0), (0, 1 / 64)), derivatives=True)
    np.testing.assert_allclose(got[:, 0], 16 * level / 255, atol=1e-6)


def test_anisotropic_samples_lie_along_the_longer_axis() -> None:
    texture = rgba8(Header(size=(32, 32, 1)))
    unit = texture.bind(Sampler((0, 0, 0), 2, 2, anisotropy=2))
    got = ask(unit, AUTO, *quad((0.5, 0.25), (4 / 32, 0), (0, 1 / 32)), derivatives=True)[0]
    wanted = np.mean(
        [by_rule(numbers(texture), (16 + step, 8), (0, 0), True, (0,) * 4) for step in (-1.5, -0.5, 0.5, 1.5)], axis=0
    )
    np.testing.assert_allclose(got, wanted, atol=2e-7)


@pytest.mark.parametrize(("in_header", "in_sampler", "texels"), [(0, 0, 4), (1, 0, 8), (0, 1, 8)])
def test_a_header_asks_for_anisotropy_too(in_header: int, in_sampler: int, texels: int) -> None:
    """A pixel of eight samples is four texels by two: with 2:1 in the header, as drivers resolve such surfaces, its value is the mean of all eight."""
    texture = rgba8(Header(size=(16, 8, 1), anisotropy=in_header))
    unit = texture.bind(Sampler((2, 2, 2), 2, 2, 1, anisotropy=in_sampler))
    found = ask(unit, AUTO, *quad((2 / 16, 1 / 8), (4 / 16, 0), (0, 2 / 8)), derivatives=True)
    around = numbers(texture)[0, 0:2, 0:4] if texels == 8 else numbers(texture)[0, 0:2, 1:3]
    np.testing.assert_allclose(found[0], around.mean(axis=(0, 1)), atol=1e-6)


@pytest.mark.parametrize("function", range(8))
def test_depths_are_compared_before_they_are_filtered(function: int) -> None:
    header = Header(0x2B, (UNORM, UINT, UINT, UINT), (2, 2, 2, 7), size=(4, 4, 1))
    texture = rgba8(header, 9)
    raw = np.arange(16, dtype=np.uint32).reshape(4, 4) * 0x111111
    texture.elements[0][0, 0] = raw[:, :, None].view(np.uint8).reshape(4, 4, 4)
    unit = texture.bind(Sampler((2, 2, 2), 2, 2, compare=function))
    reference = np.float32(5 * 0x111111 / 0xFFFFFF)
    depth = (raw / 0xFFFFFF).astype(np.float32)
    relation = [
        lambda d: d < d,
        np.greater,
        np.equal,
        np.greater_equal,
        np.less,
        np.not_equal,
        np.less_equal,
        lambda d: d == d,
    ]
    passes = relation[function](depth) if function in (0, 7) else relation[function](depth, reference)
    image = np.repeat(np.asarray(passes, float)[None, :, :, None], 4, axis=3)
    got = ask(unit, LEVEL, np.array([1.75 / 4]), np.array([1.25 / 4]), np.array([reference]), np.zeros(1))[0]
    wanted = by_rule(image, (1.75, 1.25), (2, 2), True, (0,) * 4)
    np.testing.assert_allclose(got[:3], wanted[:3], atol=1e-7)
    assert got[3] == 1.0


def test_references_of_fixed_depths_are_clamped() -> None:
    texture = rgba8(Header(0x2B, (UNORM, UINT, UINT, UINT), (2, 2, 2, 7), size=(1, 1, 1)))
    texture.elements[0][:] = 255
    unit = texture.bind(Sampler(compare=2))
    assert ask(unit, LEVEL, np.array([0.5]), np.array([0.5]), np.array([7.0]), np.zeros(1))[0, 0] == 1.0


# --- formats ----------------------------------------------------------------------------------------
def half(raw: int) -> float:
    return float(np.array(raw, np.uint16).view(np.float16))


def small(raw: int, bits: int) -> float:
    return half(raw << (10 - bits))


def channel(raw: int, bits: int, kind: int) -> float:
    if kind == UNORM:
        return raw / ((1 << bits) - 1)
    whole = raw - (1 << bits) if raw >> bits - 1 else raw
    if kind == SNORM:
        return max(whole / ((1 << bits - 1) - 1), -1.0)
    if kind == FLOAT:
        if bits == 32:
            return float(np.array(raw, np.uint32).view(np.float32))
        return half(raw) if bits == 16 else small(raw, bits - 5)
    return float(raw if kind == UINT else whole)


WIDTHS = {
    0x01: (32, 32, 32, 32), 0x03: (16, 16, 16, 16), 0x04: (32, 32), 0x05: (32, 8, 24), 0x07: (8, 8, 8), 0x08: (8, 8, 8, 8),
    0x09: (10, 10, 10, 2), 0x0C: (16, 16), 0x0D: (24, 8), 0x0E: (8, 24), 0x0F: (32,), 0x12: (4, 4, 4, 4), 0x13: (1, 5, 5, 5),
    0x14: (5, 5, 5, 1), 0x15: (5, 6, 5), 0x16: (5, 5, 6), 0x18: (8, 8), 0x1B: (16,), 0x1D: (8,), 0x1E: (4, 4), 0x21: (11, 11, 10),
    0x29: (8, 24), 0x2A: (24,), 0x2B: (24, 8), 0x2F: (32,), 0x30: (32, 8), 0x3A: (16,),
}  # fmt: skip
"""Bits of channels from the lowest on, by format (names in envytools' rnndb list them from the highest)."""


def kinds_of(form: int) -> tuple[int, ...]:
    if form == 0x21:
        return (FLOAT,)
    widths = WIDTHS[form]
    return (UNORM, SNORM, UINT, SINT, *((FLOAT,) if set(widths) <= {16, 32} else ()))


@pytest.mark.parametrize(("form", "kind"), [(f, k) for f in WIDTHS for k in kinds_of(f)])
def test_formats(form: int, kind: int) -> None:
    if kind in (UNORM, SNORM) and 1 in WIDTHS[form] and kind == SNORM:
        pytest.skip("a signed fraction of one bit is none")
    texture = rgba8(Header(form, (kind,) * 4, RGBA, size=(16, 2, 1)), form)
    unit = texture.bind(Sampler())
    x = np.arange(16)
    found = ask(unit, FETCH, x, np.ones(16, np.int64), np.zeros(16, np.int64))
    for n in range(16):
        bits = int.from_bytes(texture.elements[0][0, 0, 1, n].tobytes(), "little")
        for got, width in zip(found[n], WIDTHS[form], strict=False):
            wanted = channel(bits & ((1 << width) - 1), width, kind)
            bits >>= width
            if kind in (UINT, SINT):
                assert got.view(np.int32) == np.array(wanted).astype(np.int64).astype(np.int32)
            elif np.isnan(wanted):
                assert np.isnan(got)
            else:
                np.testing.assert_allclose(got, wanted, rtol=1e-7)


def test_shared_exponents() -> None:
    texture = rgba8(Header(0x20, (FLOAT,) * 4, (2, 3, 4, 7), size=(16, 1, 1)))
    found = ask(texture.bind(Sampler()), FETCH, np.arange(16), np.zeros(16, np.int64), np.zeros(16, np.int64))
    for n in range(16):
        word = int.from_bytes(texture.elements[0][0, 0, 0, n].tobytes(), "little")
        wanted = [(word >> 9 * k & 511) * 2.0 ** ((word >> 27) - 24) for k in range(3)]
        np.testing.assert_allclose(found[n], [*wanted, 1.0], rtol=1e-7)


def test_srgb_is_made_linear_but_alpha_is_not() -> None:
    texture = rgba8(Header(srgb=True, size=(16, 16, 1)))
    value = numbers(texture)[0]
    found = np.concatenate(
        [ask(texture.bind(Sampler()), FETCH, np.arange(16), np.full(16, y), np.zeros(16, np.int64)) for y in range(16)]
    )
    flat = value.reshape(-1, 4)
    wanted = np.where(flat <= 0.04045, flat / 12.92, ((flat + 0.055) / 1.055) ** 2.4)
    np.testing.assert_allclose(found[:, :3], wanted[:, :3], rtol=1e-6)
    np.testing.assert_allclose(found[:, 3], flat[:, 3], rtol=1e-7)


def dxt_colours(first: int, second: int, four: bool) -> list[np.ndarray]:
    a, b = (np.array([c >> 11, c >> 5 & 63, c & 31]) / (31, 63, 31) for c in (first, second))
    if four or first > second:
        return [a, b, (2 * a + b) / 3, (a + 2 * b) / 3]
    return [a, b, (a + b) / 2, np.zeros(3)]


def dxt_numbers(first: float, second: float, more: bool, least: float) -> list[float]:
    if more:
        return [first, second, *(((7 - n) * first + n * second) / 7 for n in range(1, 7))]
    return [first, second, *(((5 - n) * first + n * second) / 5 for n in range(1, 5)), least, 1.0]


@pytest.mark.parametrize("form", [0x24, 0x25, 0x26])
def test_compressed_colours(form: int) -> None:
    texture = rgba8(Header(form, size=(16, 8, 1)), form)
    read = read_header(texture.header.words())
    size = FORMATS[form].element_bytes
    chance = np.random.default_rng(form)
    memory = Memory(np.zeros(read.size_bytes, np.uint8))
    blocks = chance.integers(0, 256, (2, 4, size), dtype=np.uint8)
    for y, x in itertools.product(range(2), range(4)):
        memory.bytes[offset(read.levels[0], x * size, y, 0) :][:size] = blocks[y, x]
    unit = TextureUnit({3: texture.header.words()}, {2: Sampler().words()}, memory)
    for y in range(8):
        found = ask(unit, FETCH, np.arange(16), np.full(16, y), np.zeros(16, np.int64))
        for x in range(16):
            block = blocks[y // 4, x // 4].tobytes()
            colour = block[-8:]
            first, second, codes = (int.from_bytes(colour[a:b], "little") for a, b in ((0, 2), (2, 4), (4, 8)))
            at = y % 4 * 4 + x % 4
            code = codes >> 2 * at & 3
            np.testing.assert_allclose(found[x, :3], dxt_colours(first, second, form != 0x24)[code], atol=1e-7)
            if form == 0x24:
                alpha = 0.0 if first <= second and code == 3 else 1.0
            elif form == 0x25:
                alpha = (int.from_bytes(block[:8], "little") >> 4 * at & 15) / 15
            else:
                three = int.from_bytes(block[2:8], "little") >> 3 * at & 7
                alpha = dxt_numbers(block[0] / 255, block[1] / 255, block[0] > block[1], 0.0)[three]
            np.testing.assert_allclose(found[x, 3], alpha, atol=1e-7)


@pytest.mark.parametrize("form", [0x27, 0x28])
@pytest.mark.parametrize("kind", [UNORM, SNORM])
def test_compressed_numbers(form: int, kind: int) -> None:
    header = Header(form, (kind,) * 4, (2, 3, 0, 7), size=(8, 4, 1))
    size = FORMATS[form].element_bytes
    memory = Memory(np.random.default_rng(form).integers(0, 256, 512, dtype=np.uint8))
    unit = TextureUnit({3: header.words()}, {2: Sampler().words()}, memory)
    for y in range(4):
        found = ask(unit, FETCH, np.arange(8), np.full(8, y), np.zeros(8, np.int64))
        for x in range(8):
            block = memory.bytes[x // 4 * size :][:size].tobytes()
            for n in range(size // 8):
                half_block = block[8 * n : 8 * n + 8]
                ends = [channel(b, 8, kind) for b in half_block[:2]]
                order = [b - 256 if kind == SNORM and b > 127 else b for b in half_block[:2]]
                three = int.from_bytes(half_block[2:], "little") >> 3 * (y * 4 + x % 4) & 7
                wanted = dxt_numbers(*ends, order[0] > order[1], -1.0 if kind == SNORM else 0.0)[three]
                np.testing.assert_allclose(found[x, n], wanted, atol=1e-7)
            assert found[x, 3] == 1.0


def test_sources_choose_channels_and_constants() -> None:
    texture = rgba8(Header(sources=(4, 0, 7, 2)))
    got = ask(texture.bind(Sampler()), FETCH, np.array([5]), np.array([2]), np.array([0]))[0]
    value = numbers(texture)[0, 2, 5]
    np.testing.assert_allclose(got, [value[2], 0.0, 1.0, value[0]], rtol=1e-7)


def test_later_chips_show_a_range_of_levels() -> None:
    """Level 0 of a program is the first one of the range; the layers stay where they are."""
    texture = rgba8(Header(type=TWO_D_ARRAY, size=(32, 16, 3), levels=5, blocks=(1, 0)))
    texture.put()
    words = texture.header.words()
    words[7] = 3 << 4 | 1
    unit = TextureUnit({3: words}, {2: Sampler().words()}, texture.memory, level_range=True)
    got = ask(unit, FETCH, np.array([7, 3, 1]), np.array([5, 2, 1]), np.array([2, 1, 0]), np.array([0, 1, 3]))
    np.testing.assert_allclose(got[0], numbers(texture, 1, 2)[0, 5, 7], rtol=1e-7)
    np.testing.assert_allclose(got[1], numbers(texture, 2, 1)[0, 2, 3], rtol=1e-7)
    assert not got[2].any()
    assert ask(unit, SIZE, np.array([0]))[0].view(np.int32).tolist() == [16, 8, 3, 3]
    assert read_header(words).levels[0].width == 32


# --- rectangles, buffers, queries, what is outside ----------------------------------------------------
def test_rectangles_have_rows_of_a_pitch_and_coordinates_in_texels() -> None:
    texture = rgba8(Header(type=RECTANGLE, size=(10, 6, 1), pitch=128, normalized=False))
    unit = texture.bind(Sampler((2, 2, 2), 2, 2))
    got = ask(unit, LEVEL, np.array([3.25]), np.array([4.75]), np.zeros(1))[0]
    np.testing.assert_allclose(got, by_rule(numbers(texture), (3.25, 4.75), (2, 2), True, (0,) * 4), atol=1e-7)


def test_buffers_are_fetched_by_number() -> None:
    texture = rgba8(Header(type=BUFFER, size=(100, 1, 1), pitch=512, normalized=False))
    got = ask(texture.bind(Sampler()), FETCH, np.array([0, 57, 99, 100, -1]))
    value = numbers(texture)[0, 0]
    np.testing.assert_allclose(got[:3], value[[0, 57, 99]], rtol=1e-7)
    assert not got[3:].any()


def test_fetches_have_offsets_and_are_zero_outside() -> None:
    texture = rgba8(Header())
    unit = texture.bind(Sampler())
    x, y = np.array([3, 7, 0, 2]), np.array([4, 4, 4, 1])
    got = ask(unit, FETCH, x, y, np.zeros(4, np.int64), offsets=(1, -2, 0))
    value = numbers(texture)[0]
    np.testing.assert_allclose(got[[0, 2]], value[[2, 2], [4, 1]], rtol=1e-7)
    assert not got[[1, 3]].any()
    assert not ask(unit, FETCH, np.array([1]), np.array([1]), np.array([1])).any()


def test_offsets_of_samples_wrap() -> None:
    texture = rgba8(Header())
    unit = texture.bind(Sampler((0, 0, 0), 2, 2))
    got = ask(unit, LEVEL, np.array([7.25 / 8]), np.array([0.75 / 8]), np.zeros(1), offsets=(7, -8, 0))[0]
    np.testing.assert_allclose(got, by_rule(numbers(texture), (14.25, -7.25), (0, 0), True, (0,) * 4), atol=2e-7)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (ONE_D, (5, 1, 1, 3)),
        (TWO_D, (5, 3, 1, 3)),
        (THREE_D, (5, 3, 2, 3)),
        (ONE_D_ARRAY, (5, 4, 1, 3)),
        (TWO_D_ARRAY, (5, 3, 4, 3)),
    ],
)
def test_sizes(kind: int, wanted: Sequence[int]) -> None:
    unit = rgba8(Header(type=kind, size=(10, 1 if kind in (ONE_D, ONE_D_ARRAY) else 6, 4), levels=3)).bind(Sampler())
    assert ask(unit, SIZE, np.array([1]))[0].view(np.int32).tolist() == list(wanted)
    assert ask(unit, SIZE, np.array([7]))[0].view(np.int32).tolist() == [0, 0, 0, 3]


def test_integers_are_never_filtered() -> None:
    texture = rgba8(Header(types=(UINT,) * 4))
    got = ask(texture.bind(Sampler((0, 0, 0), 2, 2)), LEVEL, np.array([3.75 / 8]), np.array([2.25 / 8]), np.zeros(1))[0]
    assert got.view(np.int32).tolist() == texture.elements[0][0, 0, 2, 3].tolist()


def test_texels_after_the_end_of_the_buffer_are_zero() -> None:
    texture = rgba8(Header(size=(16, 64, 1), sources=(2, 3, 4, 7)))
    texture.put()
    memory = Memory(texture.memory.bytes[:1024])
    unit = TextureUnit({3: texture.header.words()}, {2: Sampler().words()}, memory)
    got = ask(unit, FETCH, np.array([2, 2]), np.array([8, 60]), np.zeros(2, np.int64))
    np.testing.assert_allclose(got[0, :3], numbers(texture)[0, 8, 2, :3], rtol=1e-7)
    assert got[1].tolist() == [0, 0, 0, 1]


def test_nothing_bound_gives_black() -> None:
    unit = TextureUnit({}, {}, Memory(np.zeros(8, np.uint8)))
    assert ask(unit, AUTO, np.array([0.5]), np.array([0.5]))[0].tolist() == [0, 0, 0, 1]


def test_numbers_that_are_none_and_too_large_are_places_too() -> None:
    unit = rgba8(Header()).bind(Sampler((0, 1, 2), 2, 2))
    odd = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-44])
    for mode in range(8):
        unit = rgba8(Header()).bind(Sampler((mode, mode, mode), 2, 2, 3))
        found = ask(unit, AUTO, np.resize(odd, 32), np.resize(odd[::-1], 32), derivatives=True)
        assert ((found >= 0) & (found <= 1)).all()


def test_formats_and_places_that_are_not_there_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="texture format 0x1f is not provided"):
        read_header(Header(0x1F).words())
    with pytest.raises(MemoryFaultError, match=r"texture 7 \(A8B8G8R8\) at 0x20001000"):
        TextureUnit({7: Header().words()}, {}, Memory(np.zeros(0, np.uint8)))


def test_random_headers_and_samplers_crash_nothing() -> None:
    chance = np.random.default_rng(11)
    memory, made = Memory(chance.integers(0, 256, 1 << 16, dtype=np.uint8)), 0
    for _ in range(1500):
        words = chance.integers(0, 1 << 32, 8).tolist()
        words[1], words[2] = ADDRESS + int(chance.integers(0, 1 << 16)), words[2] & ~0xFF
        words[4] &= (1 << int(chance.integers(1, 30))) - 1
        try:
            unit = TextureUnit(
                {3: words}, {2: chance.integers(0, 1 << 32, 8).tolist()}, memory, bool(chance.integers(2))
            )
        except UnsupportedError:
            continue
        made += 1
        arguments = [
            chance.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32).view(np.int32) for _ in range(4)
        ]
        for kind in (AUTO, BIAS, LEVEL, FETCH, SIZE):
            ask(unit, kind, *arguments, derivatives=True, offsets=(3, -3, 1))
    assert made > 100


# --- cycles -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("ratio", "stretch", "mip", "filters", "cycles"),
    [
        (0, 1.0, 1, 4, 1),
        (0, 1.5, 3, 8, 1),  # two levels
        (1, 2.0, 1, 8, 1),  # 2:1 anisotropic at full speed
        (2, 3.0, 1, 12, 2),
        (2, 4.0, 1, 16, 2),
        (1, 2.0 * 1.5, 3, 16, 2),
        (7, 16.0, 1, 64, 8),
    ],
)
def test_a_quad_takes_a_cycle_for_its_addresses_and_for_each_eight_filters(
    ratio: int, stretch: float, mip: int, filters: int, cycles: int
) -> None:
    """Lindholm et al.: four addresses and eight filters a clock."""
    unit = rgba8(Header(size=(64, 64, 1), levels=7)).bind(Sampler((0, 0, 0), 2, 2, mip, anisotropy=ratio))
    narrow = 1.5 if mip == 3 and ratio else 1.0
    ask(unit, AUTO, *quad((0.4, 0.4), (stretch / 64, 0), (0, narrow / 64)), derivatives=True)
    assert unit.counts(2) == {"samples": 4, "filters": filters, "cycles": cycles}


def test_a_part_of_a_quad_takes_its_cycle_too() -> None:
    unit = rgba8(Header()).bind(Sampler((0, 0, 0), 2, 2))
    ask(unit, LEVEL, np.full(5, 0.5), np.full(5, 0.5), np.zeros(5))
    assert unit.counts(2) == {"samples": 5, "filters": 5, "cycles": 2}


# --- programs ---------------------------------------------------------------------------------------
TEXTURED = [
    n for n in recorded() if "tex" in " ".join(recorded()[n]["text"].values()) and recorded()[n]["stage"] == "pixel"
]


def unit_for(name: str) -> TextureUnit:
    """Textures of the types that a program's instructions want."""
    kinds = {
        "1d": ONE_D,
        "3d": THREE_D,
        "cube": CUBE,
        "1d_array": ONE_D_ARRAY,
        "2d_array": TWO_D_ARRAY,
        "size": THREE_D,
        "offset_array": TWO_D_ARRAY,
    }
    target = name.split("_", 2)[2].replace("shadow", "") if name.count("_") > 1 else name.split("_")[1]
    kind = kinds.get("2d_array" if name == "pixel_fetch_offset" else target, TWO_D)
    header = Header(
        type=kind,
        size=(16, 1 if kind in (ONE_D, ONE_D_ARRAY) else 16, 1 if kind in (TWO_D, CUBE, ONE_D) else 4),
        levels=4,
    )
    texture = rgba8(header)
    texture.put()
    sampler = Sampler((0, 1, 0), 2, 2, 3, compare=4 if "shadow" in name else -1).words()
    words = header.words()
    cube = rgba8(Header(type=CUBE, size=(16, 16, 1), levels=4))
    units = {0: words, 3: cube.header.words() if name == "pixel_two_textures" else words}
    memory = Memory(np.resize(texture.memory.bytes, 1 << 16))
    return TextureUnit(units, {0: sampler, 3: sampler}, memory)


@pytest.mark.parametrize("name", TEXTURED)
def test_textured_programs_give_the_same_bits_in_both_engines(name: str) -> None:
    chance = np.random.default_rng(1)
    corner = chance.uniform(0, 1, (16, 2)).repeat(4, axis=0).astype(np.float32)
    place = np.ascontiguousarray(
        corner + np.tile([(0, 0), (0.06, 0), (0, 0.05), (0.06, 0.05)], (16, 1)).astype(np.float32)
    )
    planes = chance.uniform(0.5, 1.5, (2, 8, 4)).astype(np.float32)
    planes[:, 1] *= 3
    p = Pixels(np.repeat(np.arange(16) % 2, 4).astype(np.int32), place[:, 0].copy(), place[:, 1].copy(), planes)
    program, unit = load_program(code_of(name), 0, "pixel", results=4, name=name), unit_for(name)
    compiled, _ = program.run_pixels(p, {}, unit)
    interpreted, _ = program.run_pixels(p, {}, unit, engine="interpreter")
    assert np.array_equal(compiled, interpreted)
    assert compiled.any()


def test_a_program_samples_what_the_unit_samples() -> None:
    """Through perspective: slot 0 is both 1/W and the first coordinate, so that s is 1."""
    texture = rgba8(Header(size=(16, 16, 1)))
    texture.put()
    unit = TextureUnit({0: texture.header.words()}, {0: Sampler((0, 0, 0), 2, 2).words()}, texture.memory)
    planes = np.zeros((1, 8, 4), np.float32)
    planes[0, 0, 0] = planes[0, 1, 1] = 1.0
    x = (np.arange(32) / 16).astype(np.float32)
    p = Pixels(np.zeros(32, np.int32), x, np.zeros(32, np.float32), planes)
    found, _ = load_program(code_of("pixel_tex_2d"), 0, "pixel", results=4).run_pixels(p, {}, unit)
    wanted = [by_rule(numbers(texture), (16.0, t * 16), (0, 0), True, (0,) * 4) for t in x]
    np.testing.assert_allclose(found.view(np.float32), wanted, atol=2e-7)
