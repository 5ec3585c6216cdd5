"""The cases: textures by format, shape, addressing and filter, and their coordinates.

Everything follows from a case's name, so that a card's results can be stored as digests.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np

COUNT = 1024
"""Fetches of one case."""
WRAP, CLAMP, MIRROR, BORDER = 0, 1, 2, 3
ADDRESSES = ("wrap", "clamp", "mirror", "border")
"""By the number that CUaddress_mode gives them."""
FORMATS = {
    "u8": (1, np.uint8),
    "u16": (2, np.uint16),
    "u32": (3, np.uint32),
    "s8": (8, np.int8),
    "s16": (9, np.int16),
    "s32": (10, np.int32),
    "f16": (16, np.float16),
    "f32": (32, np.float32),
}
"""CUarray_format and the type of one channel."""


PTX_FORMS = ("e1", "e2", "e3", "ea2", "el2", "o2", "ro2")


@dataclass(frozen=True)
class Case:
    """One texture and one way to fetch from it."""

    form: str
    """Kernel of ``kernels.cu``, without its result type."""
    format: str
    channels: int
    shape: tuple[int, ...]
    """Width first; layers last, if any."""
    kind: str = "array"
    """array | mipmapped | linear | pitch2d."""
    layered: bool = False
    cube: bool = False
    gather: bool = False
    levels: int = 1
    address: tuple[int, int, int] = (CLAMP, CLAMP, CLAMP)
    linear: bool = False
    normalized: bool = False
    integer: bool = False
    """Read mode element type (for integer formats)."""
    srgb: bool = False
    mip_linear: bool = False
    bias: float = 0.0
    clamp: tuple[float, float] = (0.0, 0.0)
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    seamless: bool = False
    content: str = "random"
    """random | impulse | wide | special | level | count."""
    coordinates: str = "mixed"
    """mixed | fine | count | sweep."""
    dimensions: int = field(default=0)

    @property
    def name(self) -> str:
        flags = [
            *(
                w
                for w in (
                    "layered",
                    "cube",
                    "gather",
                    "linear",
                    "normalized",
                    "integer",
                    "srgb",
                    "mip_linear",
                    "seamless",
                )
                if getattr(self, w)
            ),
            *("".join(ADDRESSES[a][0] for a in self.address),),
        ]
        if self.bias:
            flags.append(f"bias{self.bias}")
        if self.clamp != (0.0, 0.0):
            flags.append(f"clamp{self.clamp[0]}-{self.clamp[1]}")
        if any(self.border):
            flags.append("coloured")
        size = "x".join(map(str, self.shape))
        return f"{self.form} {self.format}x{self.channels} {self.kind} {size} l{self.levels} {' '.join(flags)} {self.content} {self.coordinates}"

    @property
    def result(self) -> str:
        """Suffix of the kernel's name: the type that it returns."""
        if self.format in ("f16", "f32") or not self.integer or self.form in PTX_FORMS:
            return "f"
        return "u" if self.format[0] == "u" else "i"

    @property
    def kernel(self) -> str:
        return f"{self.form}_{self.result}"

    @property
    def spatial(self) -> int:
        """Dimensions that are filtered."""
        return {"fetch": 1, "t1": 1, "a1": 1, "l1": 1, "g1": 1, "t3": 3, "l3": 3, "e1": 1, "e3": 3}.get(self.form, 2)

    def random(self, what: str) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(f"{self.name} {what}".encode()))


def level_shape(case: Case, level: int) -> tuple[int, ...]:
    """Shape of a level's data, outermost first, channels last; layers (and faces) are not reduced."""
    sizes = [max(s >> level, 1) for s in case.shape]
    if case.layered or case.cube:
        sizes[-1] = case.shape[-1]
    return (*reversed(sizes), case.channels)


@cache
def contents(case: Case, level: int = 0) -> np.ndarray:
    """Texels of a level."""
    shape, kind = level_shape(case, level), np.dtype(FORMATS[case.format][1])
    # The same for every way of addressing, so that results can be compared.
    rng = np.random.default_rng(zlib.crc32(f"{case.format} {case.content} {shape}".encode()))
    size = int(np.prod(shape))
    if case.content == "count":
        return np.arange(size).astype(np.uint64).astype(f"u{kind.itemsize}").view(kind).reshape(shape)
    if case.content == "codes":
        return np.arange(size // case.channels).repeat(case.channels).astype(kind).reshape(shape)
    if case.content == "level":
        return np.full(shape, level + 1).astype(kind)
    if case.content == "impulse":
        flat = np.zeros(size, kind)
        flat[:: 3 * case.channels + 1] = 1 if kind.kind == "f" else np.iinfo(kind).max
        return flat.reshape(shape)
    if kind.kind != "f":
        return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, size, dtype=kind, endpoint=True).reshape(shape)
    values = rng.uniform(-1, 1, size)
    if case.content == "wide":
        values = np.ldexp(
            values, rng.integers(-12 if kind.itemsize == 2 else -60, 12 if kind.itemsize == 2 else 60, size)
        )
    flat = values.astype(kind)
    if case.content == "special":
        odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(kind).tiny / 4, np.finfo(kind).max], kind)
        where = rng.random(size) < 0.3
        flat[where] = rng.choice(odd, int(where.sum()))
    return flat.reshape(shape)


def _mixed(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Positions in texels: random, fine steps around texel centres and borders, far away, not finite."""
    parts = [
        rng.uniform(-1.5, size + 1.5, count // 2),
        rng.integers(-2 * 512, (size + 2) * 512, count // 4) / 512.0,
        rng.integers(-3, size + 3, count // 16) + 0.5,
        rng.uniform(-5 * size, 6 * size, count // 16),
    ]
    values = np.concatenate(parts).astype(np.float32)
    edges = (rng.integers(-2, 2 * size + 2, count // 16) / 2).astype(np.float32)
    edges = np.nextafter(edges, rng.choice(np.array([-9.0, 99.0], np.float32), count // 16).astype(np.float32))
    odd = np.array(
        [
            np.nan,
            np.inf,
            -np.inf,
            0.0,
            -0.0,
            1e-40,
            -1e-40,
            1e30,
            -1e30,
            2.0**23,
            2.0**31,
            -(2.0**31),
            65536.5,
            -70000.25,
            1e6,
            3e9,
        ],
        np.float32,
    )
    values = np.concatenate([values, edges, odd])
    values = np.concatenate([values, rng.uniform(0, size, count - len(values)).astype(np.float32)])
    return rng.permutation(values)


def coordinates(case: Case) -> np.ndarray:
    """Shape (arguments, COUNT), float32: what the kernel takes."""
    rng = case.random("coordinates")
    rows: list[np.ndarray] = []
    sizes = case.shape[: case.spatial]
    if case.coordinates == "count":
        return np.arange(-8, COUNT - 8, dtype=np.float32)[None]
    cubic = case.cube
    if cubic:
        for _ in range(3):
            row = rng.uniform(-1, 1, COUNT)
            row[rng.random(COUNT) < 0.1] = 1.0
            row[rng.random(COUNT) < 0.05] = -1.0
            row[rng.random(COUNT) < 0.03] = 0.0
            rows.append(row.astype(np.float32))
    else:
        for size in sizes:
            if case.coordinates == "fine":
                row = (np.arange(COUNT) / 2048.0 + rng.integers(0, size, COUNT) + 0.25).astype(np.float32)
            elif case.coordinates == "grid":
                row = (np.arange(COUNT) // (1 if size == sizes[0] and not rows else sizes[0]) % size + 0.5).astype(
                    np.float32
                )
            elif case.coordinates == "whole":
                row = rng.integers(-2, size + 3, COUNT).astype(np.float32)
            elif case.coordinates in ("sweep", "octave", "pair", "both"):
                row = np.full(COUNT, size * 0.37, np.float32)
            else:
                row = _mixed(rng, size, COUNT)
            rows.append((row / np.float32(size)).astype(np.float32) if case.normalized else row)
    layers = case.shape[-1] // (6 if cubic else 1) if case.layered else 0
    if case.layered:
        layer = rng.integers(-1, layers + 2, COUNT)
        layer[rng.random(COUNT) < 0.02] = 70000
        rows.append(layer.astype(np.float32))
    if case.form in ("l1", "l2", "l3", "la2", "lcube"):
        lod = rng.uniform(-1.5, case.levels + 1, COUNT)
        lod[::4] = rng.integers(-2 * 256, (case.levels + 1) * 512, len(lod[::4])) / 512.0
        if case.coordinates == "sweep":
            lod = np.arange(COUNT) * ((case.levels + 2) / COUNT) - 1
        lod[5], lod[77], lod[99] = np.nan, np.inf, -np.inf
        rows.append(lod.astype(np.float32))
    if case.form == "el2":
        rows.append(rng.integers(-1, case.levels + 2, COUNT).astype(np.float32))
    if case.coordinates in ("octave", "pair", "both"):
        # Slopes in texels: du/dx over an octave; du/dx = 2 with dv/dx from 0 to 4; du/dx over an octave beside dv/dy = 3.
        u = 1 + np.arange(COUNT) / COUNT if case.coordinates != "pair" else np.full(COUNT, 2.0)
        v = np.arange(COUNT) / 256.0
        none = np.zeros(COUNT)
        slopes = {
            "octave": (2 * u, none, none, none),
            "pair": (u, v, none, none),
            "both": (4 * u - 3, none, none, none + 3),
        }
        chosen = slopes[case.coordinates][:: 2 if case.form == "g1" else 1]
        sizes_of = (case.shape[0], case.shape[-1])
        rows += [(s / sizes_of[k % 2]).astype(np.float32) for k, s in enumerate(chosen)]
        return np.stack(rows)
    if case.form in ("g1", "g2"):
        count = 2 if case.form == "g1" else 4
        scale = 1.0 / np.array(case.shape[0]) if case.normalized else 1.0
        for k in range(count):
            slope = rng.uniform(-1, 1, COUNT) * np.exp2(rng.uniform(-2, case.levels + 1, COUNT)) * scale
            if case.coordinates == "sweep":
                slope = np.exp2(np.linspace(-2, case.levels + 1, COUNT)) * scale * (k == 0)
            slope[rng.random(COUNT) < 0.1] = 0.0
            rows.append(slope.astype(np.float32))
    return np.stack(rows)


def cases() -> list[Case]:
    """All of them, each once."""
    return list({case.name: case for case in _cases()}.values())


ALL_WRAP, ALL_CLAMP, ALL_MIRROR, ALL_BORDER = ((a,) * 3 for a in (WRAP, CLAMP, MIRROR, BORDER))


def _cases() -> Iterator[Case]:
    yield from _formats()
    yield from _forms_of_ptx()
    yield from _filters()
    yield from _addresses()
    for linear in (False, True):
        yield from _planes(linear)
        yield from _layers_and_cubes(linear)
        yield from _gathers(linear)
        yield from _mipmaps(linear)


def _formats() -> Iterator[Case]:
    """Every value of 8 bits, many of 16, by element."""
    for name in FORMATS:
        for channels in (1, 2, 4):
            for integer in (False, True):
                if integer and name[0] == "f":
                    continue
                if not integer and name in ("u32", "s32"):
                    continue
                yield Case(
                    "fetch",
                    name,
                    channels,
                    (1000,),
                    kind="linear",
                    integer=integer,
                    content="count" if name[0] != "f" else "random",
                    coordinates="count",
                )
                yield Case("t2", name, channels, (16, 8), integer=integer)
                if not integer:
                    yield Case("t2", name, channels, (16, 8), linear=True)
    yield Case("fetch", "f32", 1, (1000,), kind="linear", content="special", coordinates="count")
    yield Case("fetch", "f16", 1, (1000,), kind="linear", content="count", coordinates="count")
    for name in ("u16", "s16"):
        for channels in (1, 2, 4):
            yield Case("fetch", name, channels, (1000,), kind="linear", coordinates="count")
    yield Case("t2", "u8", 4, (16, 16), srgb=True, normalized=True, content="count")
    yield Case("t2", "u8", 4, (16, 16), srgb=True, normalized=True, linear=True)
    yield Case("t2", "u8", 4, (16, 16), srgb=True, normalized=True, content="codes", coordinates="grid")


def _forms_of_ptx() -> Iterator[Case]:
    """Forms that only PTX has."""
    for mode in (ALL_CLAMP, ALL_BORDER):
        yield Case("e2", "f32", 4, (13, 7), address=mode, coordinates="whole")
        yield Case("e3", "f32", 1, (5, 6, 7), address=mode, coordinates="whole")
        yield Case("ea2", "f32", 4, (13, 7, 3), layered=True, address=mode, coordinates="whole")
        yield Case("e1", "f32", 1, (16,), address=mode, coordinates="whole")
        yield Case(
            "el2",
            "f32",
            1,
            (16, 16),
            kind="mipmapped",
            levels=4,
            normalized=True,
            address=mode,
            clamp=(0.0, 99.0),
            coordinates="whole",
        )
    for linear in (False, True):
        for mode in (ALL_CLAMP, ALL_WRAP, ALL_MIRROR, ALL_BORDER):
            yield Case("o2", "f32", 1, (13, 7), linear=linear, normalized=True, address=mode)
            yield Case("ro2", "f32", 4, (13, 7), gather=True, linear=linear, normalized=True, address=mode)
    for where in ("octave", "pair", "both"):
        for form, shape in (("g1", (32,)), ("g2", (32, 32)), ("g2", (32, 16))):
            if form == "g2" or where == "octave":
                yield Case(
                    form,
                    "f32",
                    1,
                    shape,
                    kind="mipmapped",
                    levels=5,
                    linear=True,
                    mip_linear=True,
                    normalized=True,
                    clamp=(0.0, 99.0),
                    content="level",
                    coordinates=where,
                )


def _filters() -> Iterator[Case]:
    """Filtering arithmetic."""
    for form, shape in (("t1", (16,)), ("t2", (16, 8)), ("t3", (8, 8, 4))):
        for name, channels in (
            ("f32", 1),
            ("f16", 1),
            ("u8", 1),
            ("u16", 1),
            ("s8", 1),
            ("s16", 1),
            ("f32", 4),
            ("u8", 4),
            ("f16", 4),
            ("f32", 2),
        ):
            for content in ("impulse", "random", "wide", "special"):
                if content in ("wide", "special") and name[0] != "f":
                    continue
                yield Case(form, name, channels, shape, linear=True, content=content, coordinates="fine")


def _addresses() -> Iterator[Case]:
    """Coordinates inside and outside, by mode."""
    for form, shapes in (("t1", ((16,), (13,))), ("t2", ((16, 8), (13, 7))), ("t3", ((8, 8, 4), (5, 6, 7)))):
        for shape in shapes:
            for linear in (False, True):
                for name, channels in (("f32", 1), ("u8", 4)):
                    for normalized, mode in (
                        (True, ALL_WRAP),
                        (True, ALL_CLAMP),
                        (True, ALL_MIRROR),
                        (True, ALL_BORDER),
                        (False, ALL_CLAMP),
                        (False, ALL_BORDER),
                        (False, ALL_WRAP),
                        (False, ALL_MIRROR),
                    ):
                        yield Case(form, name, channels, shape, linear=linear, normalized=normalized, address=mode)
                    yield Case(
                        form,
                        name,
                        channels,
                        shape,
                        linear=linear,
                        normalized=True,
                        address=ALL_BORDER,
                        border=(0.25, 0.5, -0.75, 2.0),
                    )
                    yield Case(
                        form, name, channels, shape, linear=linear, normalized=True, address=(WRAP, MIRROR, CLAMP)
                    )


def _planes(linear: bool) -> Iterator[Case]:
    """Pitched linear memory, and large arrays."""
    for normalized in (False, True):
        yield Case("t2", "f32", 1, (48, 7), kind="pitch2d", linear=linear, normalized=normalized)
        yield Case("t2", "u8", 4, (48, 7), kind="pitch2d", linear=linear, normalized=normalized)
        yield Case(
            "t2",
            "f32",
            1,
            (48, 7),
            kind="pitch2d",
            linear=linear,
            normalized=normalized,
            address=ALL_BORDER if not normalized else ALL_WRAP,
        )
    yield Case("t2", "f32", 1, (1000, 600), linear=linear, normalized=True)
    yield Case("t2", "f32", 1, (8192, 3), linear=linear, normalized=True, address=ALL_WRAP)
    yield Case("t1", "f32", 1, (32768,), linear=linear, normalized=True)
    yield Case("t1", "f32", 1, (32768,), linear=linear)


def _layers_and_cubes(linear: bool) -> Iterator[Case]:
    """Layers, cubes, and cubes of layers and levels."""
    for mode, normalized in ((ALL_CLAMP, False), (ALL_BORDER, True), (ALL_WRAP, True)):
        yield Case("a1", "f32", 1, (16, 5), layered=True, linear=linear, address=mode, normalized=normalized)
        yield Case("a2", "f32", 4, (16, 8, 5), layered=True, linear=linear, address=mode, normalized=normalized)
        yield Case("a2", "u8", 4, (13, 7, 3), layered=True, linear=linear, address=mode, normalized=normalized)
    for seamless in (False, True):
        for content in ("impulse", "random"):
            for form, channels, size in (("cube", 1, (8, 8, 6)), ("cube", 4, (13, 13, 6)), ("acube", 1, (8, 8, 18))):
                yield Case(
                    form,
                    "f32",
                    channels,
                    size,
                    cube=True,
                    layered=form == "acube",
                    linear=linear,
                    normalized=True,
                    seamless=seamless,
                    content=content,
                )
        yield Case(
            "cube", "f32", 1, (8, 8, 6), cube=True, linear=linear, normalized=True, seamless=seamless, address=ALL_WRAP
        )
        yield Case(
            "lcube",
            "f32",
            1,
            (16, 16, 6),
            kind="mipmapped",
            levels=5,
            mip_linear=True,
            cube=True,
            linear=linear,
            normalized=True,
            seamless=seamless,
        )


def _gathers(linear: bool) -> Iterator[Case]:
    """The four texels of a filter."""
    for form in ("r2", "r2b"):
        for mode, normalized in ((ALL_CLAMP, False), (ALL_WRAP, True), (ALL_MIRROR, True), (ALL_BORDER, True)):
            yield Case(form, "f32", 4, (16, 8), gather=True, linear=linear, normalized=normalized, address=mode)
        yield Case(form, "u8", 4, (13, 7), gather=True, linear=linear, normalized=True)
        yield Case(form, "s32", 4, (13, 7), gather=True, integer=True, normalized=True)
        yield Case(form, "f32", 1, (13, 7), gather=True, normalized=True)


def _mipmaps(linear: bool) -> Iterator[Case]:
    """Levels by number, by slopes, and between levels."""
    for mip_linear in (False, True):
        base = {"kind": "mipmapped", "linear": linear, "mip_linear": mip_linear, "normalized": True}
        for content, where in (("level", "sweep"), ("random", "sweep"), ("random", "mixed")):
            yield Case(
                "l2", "f32", 1, (16, 16), levels=5, clamp=(0.0, 99.0), content=content, coordinates=where, **base
            )
        yield Case("l2", "f32", 1, (16, 16), levels=5, clamp=(0.0, 99.0), content="wide", coordinates="sweep", **base)
        yield Case(
            "l2",
            "f32",
            1,
            (16, 16),
            levels=5,
            clamp=(0.0, 99.0),
            bias=0.7,
            content="level",
            coordinates="sweep",
            **base,
        )
        yield Case(
            "l2",
            "f32",
            1,
            (16, 16),
            levels=5,
            clamp=(0.0, 99.0),
            bias=-1.3,
            content="level",
            coordinates="sweep",
            **base,
        )
        yield Case("l2", "f32", 1, (16, 16), levels=5, clamp=(0.8, 2.6), content="level", coordinates="sweep", **base)
        yield Case("l2", "f32", 1, (16, 16), levels=5, content="level", coordinates="sweep", **base)
        yield Case("l2", "u8", 4, (13, 9), levels=4, clamp=(0.0, 99.0), **base)
        yield Case("l2", "f16", 4, (13, 9), levels=4, clamp=(0.0, 99.0), **base)
        yield Case("t2", "f32", 1, (16, 16), levels=5, clamp=(0.0, 99.0), bias=1.3, content="level", **base)
        yield Case("t2", "f32", 1, (16, 16), levels=5, clamp=(1.5, 99.0), content="level", **base)
        yield Case("l1", "f32", 1, (32,), levels=6, clamp=(0.0, 99.0), **base)
        yield Case("l3", "f32", 1, (8, 8, 8), levels=4, clamp=(0.0, 99.0), **base)
        yield Case("la2", "f32", 1, (16, 8, 3), levels=4, layered=True, clamp=(0.0, 99.0), **base)
        for where in ("sweep", "mixed"):
            yield Case("g1", "f32", 1, (32,), levels=6, clamp=(0.0, 99.0), content="level", coordinates=where, **base)
            yield Case(
                "g2", "f32", 1, (32, 32), levels=6, clamp=(0.0, 99.0), content="level", coordinates=where, **base
            )
            yield Case(
                "g2", "f32", 1, (32, 16), levels=5, clamp=(0.0, 99.0), content="level", coordinates=where, **base
            )
        yield Case("g2", "f32", 1, (32, 16), levels=5, clamp=(0.0, 99.0), **base)
