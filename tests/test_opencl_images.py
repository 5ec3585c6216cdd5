"""Images of OpenCL C on Cypress and Cayman beside NumPy, which computes what the OpenCL C specification defines."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_opencl import needs_opencl
from warpwright.engine.r600_images import ORDERS, TYPES
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.isa.r600.compiler.opencl_image_functions import readable
from warpwright.isa.r600.decode import decode_program

pytestmark = [pytest.mark.ci, needs_opencl]
CHIPS = ("hd5870", "hd6970")
CASES = [("hd5870", "off"), ("hd6970", "full")]
POINTS = 256


def each_on_one(names: Sequence[str], machines: Sequence[Any], first: int = 0) -> list[Any]:
    """Every (name, machine): each name on one of the machines in turn, from number ``first`` on; on the others it is a repetition, which is slow."""
    return [
        pytest.param(
            *((machine,) if isinstance(machine, str) else machine), name, marks=() if on == n else pytest.mark.slow
        )
        for i, name in enumerate(names)
        for n, machine in enumerate(machines)
        for on in [(i + first) % len(machines)]
    ]


READS = """
#define READ(name, kind, coordinate) __kernel void name(read_only kind in, sampler_t s, __global const coordinate *at, __global float4 *out) \\
    { int i = get_global_id(0); out[i] = read_imagef(in, s, at[i]); }
READ(read_1d, image1d_t, float)
READ(read_1d_array, image1d_array_t, float2)
READ(read_2d, image2d_t, float2)
READ(read_2d_array, image2d_array_t, float4)
READ(read_3d, image3d_t, float4)
READ(texel_1d, image1d_t, int)
READ(texel_1d_array, image1d_array_t, int2)
READ(texel_2d, image2d_t, int2)
READ(texel_2d_array, image2d_array_t, int4)
READ(texel_3d, image3d_t, int4)
#define PLAIN(name, kind, coordinate) __kernel void name(read_only kind in, __global const coordinate *at, __global float4 *out) \\
    { int i = get_global_id(0); out[i] = read_imagef(in, at[i]); }
PLAIN(plain_1d, image1d_t, int)
PLAIN(plain_1d_array, image1d_array_t, int2)
PLAIN(plain_2d, image2d_t, int2)
PLAIN(plain_2d_array, image2d_array_t, int4)
PLAIN(plain_3d, image3d_t, int4)
"""
SHAPES = {"1d": (20,), "1d_array": (5, 20), "2d": (12, 20), "2d_array": (5, 12, 20), "3d": (6, 12, 20)}
"""By kind, the layers first."""
THREE_DIMENSIONAL = ("-Xclang", "-cl-ext=+cl_khr_3d_image_writes")
MODES = [
    *[("clamp_to_edge", normalized) for normalized in (False, True)],
    *[("clamp", normalized) for normalized in (False, True)],
    *[("repeat", True), ("mirrored_repeat", True)],
]


# --- the specification in NumPy ---------------------------------------------------------------------------------
def neighbours(place: Any, extent: int, address: str, normalized: bool, linear: bool) -> list[tuple[Any, Any]]:
    """The texels of an axis and their weights; -1 is the border."""
    last = extent - 1
    if address == "repeat":
        u = (place - np.floor(place)) * extent
    elif address == "mirrored_repeat":
        u = np.abs(place - 2 * np.rint(place / 2)) * extent
    else:
        u = place * extent if normalized else place
    first = np.floor(u - 0.5 * linear)
    weight = u - 0.5 - first if linear else np.zeros_like(u)

    def texel(n: Any) -> Any:
        if address == "clamp":
            return np.where((n < 0) | (n > last), -1, n)
        if address == "repeat":
            return n % extent
        return np.clip(n, 0, last)

    return [(texel(first).astype(int), 1 - weight), (texel(first + 1).astype(int), weight)][: 1 + linear]


def read(image: Any, places: Any, address: str, normalized: bool, linear: bool, layered: bool) -> Any:
    """Means of texels, shape (points, channels); a place has x first and the layer last."""
    sizes = image.shape[layered:-1]
    axes = [neighbours(places[:, n], size, address, normalized, linear) for n, size in enumerate(sizes[::-1])]
    layer = np.clip(np.rint(places[:, len(axes)]), 0, image.shape[0] - 1).astype(int) if layered else None
    total = np.zeros((len(places), image.shape[-1]))
    for corner in product(*axes):
        at = [numbers for numbers, _ in corner][::-1]
        inside = np.all([n >= 0 for n in at], axis=0)
        weight = np.prod([w for _, w in corner], axis=0)
        found = image[(layer, *at) if layered else tuple(at)]
        total += np.where(inside, weight, 0)[:, None] * found
    return total


def random_places(kind: str, normalized: bool, whole: bool = False) -> Any:
    """Places from one image before to one after it, between the edges of texels."""
    rng, layered = np.random.default_rng(7), kind.endswith("array")
    sizes = SHAPES[kind][layered:][::-1]
    found = np.zeros((POINTS, 1 if kind == "1d" else 2 if kind in ("1d_array", "2d") else 4))
    for n, size in enumerate(sizes):
        texel = rng.integers(-size, 2 * size, POINTS)
        found[:, n] = (
            texel
            if whole
            else (texel + rng.uniform(0.05, 0.45, POINTS) + 0.5 * rng.integers(0, 2, POINTS))
            / (size if normalized else 1)
        )
    if layered:
        layers = SHAPES[kind][0]
        found[:, len(sizes)] = (
            rng.integers(-1, layers + 1, POINTS)
            if whole
            else rng.integers(-1, layers + 1, POINTS) + rng.uniform(-0.4, 0.4, POINTS)
        )
    return found.astype(np.int32 if whole else np.float32)


def image_of(gpu: ww.GPU, kind: str, seed: int = 3) -> tuple[Any, Any]:
    shape, layered = SHAPES[kind], kind.endswith("array")
    texels = np.random.default_rng(seed).random((*shape, 4), np.float32)
    image = gpu.image(shape, layered=layered)
    image.set(texels)
    return image, texels


# --- reads ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("chip", "timing", "kind"), each_on_one(tuple(SHAPES), CASES))
def test_reads_follow_the_specifications_formulas(chip: str, timing: str, kind: str) -> None:
    """Both filters, all addressing modes, coordinates of both kinds; one kernel takes all samplers."""
    gpu = ww.GPU(chip, timing=timing)
    kernel = gpu.compile(READS)[f"read_{kind}"]
    image, texels = image_of(gpu, kind)
    for (address, normalized), filter in product(MODES, ("nearest", "linear")):
        places, out = random_places(kind, normalized), np.zeros((POINTS, 4), np.float32)
        kernel[4, 64](image, gpu.sampler(filter, address, normalized=normalized), places, out)
        wanted = read(texels, places.astype(float), address, normalized, filter == "linear", kind.endswith("array"))
        tolerance = {"atol": 2e-5, "rtol": 0} if filter == "linear" else {"atol": 0, "rtol": 0}
        np.testing.assert_allclose(out, wanted, err_msg=f"{filter} {address} {normalized}", **tolerance)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("chip", CHIPS)
def test_whole_coordinates_are_numbers_of_texels(chip: str, kind: str) -> None:
    """With a sampler, and without one inside of the image."""
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile(READS)
    image, texels = image_of(gpu, kind)
    places, out = random_places(kind, False, whole=True), np.zeros((POINTS, 4), np.float32)
    for address in ("clamp_to_edge", "clamp"):
        module[f"texel_{kind}"][4, 64](image, gpu.sampler(address=address), places, out)
        np.testing.assert_array_equal(out, read(texels, places, address, False, False, kind.endswith("array")))
    inside = places.copy()
    sizes = SHAPES[kind][::-1] if not kind.endswith("array") else (*SHAPES[kind][:0:-1], SHAPES[kind][0])
    for n, size in enumerate(sizes):
        inside[:, n] %= size
    module[f"plain_{kind}"][4, 64](image, inside, out)
    np.testing.assert_array_equal(
        out,
        texels[
            tuple(inside[:, n] for n in range(len(sizes)))[::-1]
            if not kind.endswith("array")
            else (inside[:, len(sizes) - 1], *[inside[:, n] for n in range(len(sizes) - 1)][::-1])
        ],
    )


@pytest.mark.parametrize(("order", "border"), [("RGBA", [0, 0, 0, 0]), ("R", [0, 0, 0, 1]), ("A", [0, 0, 0, 0])])
@pytest.mark.parametrize("chip", CHIPS)
def test_the_borders_colour_has_an_alpha_of_one_where_the_format_has_none(
    chip: str, order: str, border: list[int]
) -> None:
    gpu = ww.GPU(chip, timing="off")
    image, out = gpu.image((3, 3), np.uint8, order=order, normalized=True), np.full((2, 4), 7, np.float32)
    image.set(255)
    gpu.compile(READS)["texel_2d"][1, 2](
        image, gpu.sampler(address="clamp"), np.array([[-1, 0], [1, 3]], np.int32), out
    )
    np.testing.assert_array_equal(out, [border, border])


CONSTANTS = """
__constant sampler_t smooth = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_MIRRORED_REPEAT | CLK_FILTER_LINEAR;
float4 both(read_only image2d_t in, float2 at)
{
    const sampler_t sharp = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    return read_imagef(in, smooth, at) + read_imagef(in, sharp, at * 8.0f);
}
__kernel void k(read_only image2d_t a, read_only image2d_t b, __global const float2 *at, __global float4 *out)
{
    int i = get_global_id(0), l = get_local_id(0);
    if (l & 1) out[i] = both(a, at[i]); else out[i] = both(b, at[i]);
    out[i] += read_imagef(a, (int2)(l & 15, 3));
}
"""


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("chip", CHIPS)
def test_samplers_of_the_program_and_lanes_that_read_different_images(chip: str, engine: str) -> None:
    gpu = ww.GPU(chip, timing="off", engine=engine)
    module = gpu.compile(CONSTANTS)
    (a, first), (b, second) = (image_of(gpu, "2d", seed) for seed in (1, 2))
    places, out = random_places("2d", True), np.zeros((POINTS, 4), np.float32)
    module["k"][4, 64](a, b, places, out)
    lane, at = np.arange(POINTS) % 64, places.astype(float)
    each = [
        read(texels, at, "mirrored_repeat", True, True, False) + read(texels, at * 8, "clamp", False, False, False)
        for texels in (first, second)
    ]
    wanted = np.where((lane & 1)[:, None], *each) + first[3, lane & 15]
    np.testing.assert_allclose(out, wanted, atol=4e-5)
    fetches = [
        f
        for clause in decode_program(module.machine_code("k"), gpu.chip.identity.generation).clauses.values()
        for f in clause.fetches
    ]
    names = [f.operation.name for f in fetches if f.operation.name != "VFETCH"]
    assert set(names) == {"SAMPLE_LZ", "LD"}


# --- formats, writes --------------------------------------------------------------------------------------------
COPIES = """
#define COPY(kind, name, type) __kernel void name(read_only kind in, write_only kind out) \\
    { int2 p = (int2)(get_global_id(0), get_global_id(1)); write_image##type(out, p, read_image##type(in, p)); }
COPY(image2d_t, copy_f, f)
COPY(image2d_t, copy_i, i)
COPY(image2d_t, copy_ui, ui)
#define SEEN(name, type, vector) __kernel void name(read_only image2d_t in, __global vector *out) \\
    { int x = get_global_id(0), y = get_global_id(1); out[y * get_global_size(0) + x] = read_image##type(in, (int2)(x, y)); }
SEEN(see_f, f, float4)
SEEN(see_i, i, int4)
SEEN(see_ui, ui, uint4)
"""


@pytest.mark.parametrize(
    ("chip", "order"), [*[("hd6970", order) for order in ORDERS], ("hd5870", "RG"), ("hd5870", "BGRA")]
)
def test_formats_are_read_and_written(chip: str, order: str) -> None:
    """Writes give the bytes that were read; channels that an order lacks are 0, or 1 for alpha."""
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile(COPIES)
    selects = ORDERS[order][1]
    for name, normalized in TYPES:
        if ORDERS[order][0] in (0x10B8, 0x10B9) and not normalized and not name.startswith("float"):
            continue  # OpenCL has these orders for fractions and floats alone.
        source, copy = (gpu.image((8, 64), name, order=order, normalized=normalized) for _ in range(2))
        dtype, rng = np.dtype(name), np.random.default_rng(5)
        values = (
            rng.normal(size=source.get().shape)
            if dtype.kind == "f"
            else rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, source.get().shape, endpoint=True, dtype=dtype)
        )
        source.set(values)
        kind = "f" if normalized or dtype.kind == "f" else "i" if dtype.kind == "i" else "ui"
        module[f"copy_{kind}"][(1, 8), 64](source, copy)
        held = source.get()
        if normalized and dtype.kind == "i":
            held = np.maximum(held, -np.iinfo(dtype).max)  # the lowest number means -1, as the next one does
        np.testing.assert_array_equal(copy.get(), held, err_msg=f"{name} {normalized}")
        out = np.zeros((8, 64, 4), {"f": "f4", "i": "i4", "ui": "u4"}[kind])
        module[f"see_{kind}"][(1, 8), 64](source, out)
        texels = held.reshape(8, 64, -1).astype("f8" if kind == "f" else "i8")
        if normalized:
            texels = np.maximum(texels / np.iinfo(dtype).max, -1)
        whole = np.concatenate(
            [texels, *[np.zeros((8, 64, 1))] * (4 - texels.shape[2]), np.zeros((8, 64, 1)), np.ones((8, 64, 1))], 2
        )
        np.testing.assert_allclose(out, whole[..., list(selects)], rtol=2e-7, err_msg=f"{name} {normalized}")


WRITES = """
__kernel void w1(write_only image1d_t out) { int i = get_global_id(0); write_imagei(out, i, (int4)(i, -i, 3, 4)); }
__kernel void w1a(write_only image1d_array_t out) { int x = get_global_id(0), y = get_global_id(1); write_imageui(out, (int2)(x, y), (uint4)(x, y, 3, 4)); }
__kernel void w2(write_only image2d_t out) { int x = get_local_id(0), y = get_group_id(1); write_imagef(out, (int2)(x - 8, y - 3), (float4)(x, y, 3, 4)); }
__kernel void w2a(write_only image2d_array_t out)
{ int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2); write_imagei(out, (int4)(x, y, z, 0), (int4)(x, y, z, 4)); }
#pragma OPENCL EXTENSION cl_khr_3d_image_writes : enable
__kernel void w3(write_only image3d_t out, __global int *sum)
{ int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2); atomic_add(sum, x); write_imagei(out, (int4)(x, y, z, 0), (int4)(x, y, z, 4)); }
"""


@pytest.mark.parametrize(("chip", "timing"), CASES)
def test_writes_reach_each_kind_of_image_and_nothing_outside_of_it(chip: str, timing: str) -> None:
    gpu = ww.GPU(chip, timing=timing)
    module = gpu.compile(WRITES, options=THREE_DIMENSIONAL)
    one = gpu.image(100, np.int32)
    module["w1"][2, 64](one)
    n = np.arange(100)
    np.testing.assert_array_equal(one.get(), np.stack([n, -n, n * 0 + 3, n * 0 + 4], 1))
    rows = gpu.image((3, 50), np.uint32, order="RG", layered=True)
    module["w1a"][(1, 4), 64](rows)
    np.testing.assert_array_equal(rows.get(), np.stack(np.meshgrid(np.arange(50), np.arange(3)), 2))
    flat = gpu.image((7, 40))
    module["w2"][(1, 16), 64](flat)
    x, y = np.meshgrid(np.arange(40) + 8, np.arange(7) + 3)
    np.testing.assert_array_equal(flat.get(), np.stack([x, y, x * 0 + 3, x * 0 + 4], 2))
    sum = np.zeros(1, np.int32)
    for name, more in (("w2a", ()), ("w3", (sum,))):
        deep = gpu.image((3, 5, 40), np.int32, layered=name == "w2a")
        module[name][(1, 8, 4), 64](deep, *more)
        z, y, x = np.indices((3, 5, 40))
        np.testing.assert_array_equal(deep.get(), np.stack([x, y, z, x * 0 + 4], 3))
    assert sum[0] == 32 * 2016


@pytest.mark.parametrize("chip", CHIPS)
def test_properties_of_images(chip: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    kernel = gpu.compile(
        """
    __kernel void k(read_only image2d_t a, write_only image3d_t b, read_only image2d_array_t c, read_only image1d_array_t d, __global int *out)
    {
        int2 e = get_image_dim(a), f = get_image_dim(c);
        int4 g = get_image_dim(b);
        int all[] = { get_image_width(a), get_image_height(a), e.x, e.y, get_image_width(b), get_image_height(b), get_image_depth(b), g.x, g.y, g.z, g.w,
            f.x, f.y, get_image_array_size(c), get_image_width(d), get_image_array_size(d),
            get_image_channel_order(a) == CLK_BGRA, get_image_channel_data_type(a) == CLK_UNORM_INT8, get_image_channel_order(b) == CLK_R,
            get_image_channel_data_type(b) == CLK_HALF_FLOAT, get_image_channel_data_type(c) == CLK_SIGNED_INT16, get_image_channel_order(d) == CLK_RG };
        for (int n = 0; n < 22; n++) out[n] = all[n];
    }""",
        options=THREE_DIMENSIONAL,
    )["k"]
    a = gpu.image((5, 7), np.uint8, order="BGRA", normalized=True)
    b = gpu.image((2, 3, 4), np.float16, order="R")
    c = gpu.image((6, 8, 9), np.int16, layered=True)
    d = gpu.image((10, 11), order="RG", layered=True)
    out = np.zeros(22, np.int32)
    kernel[1, 1](a, b, c, d, out)
    assert out.tolist() == [7, 5, 7, 5, 4, 3, 2, 4, 3, 2, 0, 9, 8, 6, 11, 10, *[1] * 6]


ELEMENTS = """
__kernel void pairs(write_only image2d_t out, __global const float2 *in, __global const int2 *at, int n)
{
    float2 v = in[get_global_id(0)];
    int2 p = at[get_global_id(0)];
    for (int i = 0; i < n; i++, v += 1.0f, p.y += 1) write_imagef(out, p, (float4)(v, p.x, -1));
}
__kernel void positions(read_only image2d_t in, write_only image2d_t out, __global int *sum)
{
    int2 p = (int2)(get_local_id(0), get_group_id(1));
    write_imagef(out, p, read_imagef(in, p));
    atomic_add(sum, get_local_id(0));
}
"""


@pytest.mark.parametrize("chip", CHIPS)
def test_pairs_and_positions_become_coordinates_and_values(chip: str) -> None:
    """LLVM's back end cannot select them as they are (``toolchain/r600_rewrites.py``)."""
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile(ELEMENTS)
    out, values = gpu.image((4, 64)), np.random.default_rng(1).random((64, 2), np.float32)
    at = np.stack([np.arange(64)[::-1], np.zeros(64)], 1).astype(np.int32)
    module["pairs"][1, 64](out, values, at, 4)
    n = np.arange(4, dtype=np.float32)
    steps = [values[::-1]]
    for _ in n[1:]:
        steps.append(steps[-1] + np.float32(1))
    np.testing.assert_array_equal(out.get()[..., :2], np.stack(steps))
    np.testing.assert_array_equal(out.get()[..., 2:], np.stack([np.tile(np.arange(64), (4, 1)), -np.ones((4, 64))], 2))
    (image, texels), copy, sum = image_of(gpu, "2d"), gpu.image((12, 20)), np.zeros(1, np.int32)
    module["positions"][(1, 12), 64](image, copy, sum)
    np.testing.assert_array_equal(copy.get(), texels)
    assert sum[0] == 12 * 2016


def test_the_example_of_the_documentation() -> None:
    """``docs/howto/textures.md``: each texel is the mean of four."""
    gpu = ww.GPU("hd6970")
    picture, smaller = gpu.image((240, 320), np.uint8, normalized=True), gpu.image((120, 160), order="R")
    picture.set(np.random.default_rng(1).integers(0, 256, (240, 320, 4), np.uint8))
    k = gpu.compile("""
__kernel void shrink(read_only image2d_t in, sampler_t s, write_only image2d_t out)
{
    int2 p = (int2)(get_global_id(0), get_global_id(1));
    float2 at = (convert_float2(p) + 0.5f) / convert_float2(get_image_dim(out));
    write_imagef(out, p, read_imagef(in, s, at));
}""")
    run = k["shrink"][(3, 120), 64](picture, gpu.sampler("linear", normalized=True), smaller)
    red = picture.get()[..., 0].reshape(120, 2, 160, 2).mean((1, 3)) / 255
    np.testing.assert_allclose(smaller.get(), red, atol=2e-5)
    assert run.cycles > 1000


# --- time -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("chip", CHIPS)
def test_a_read_takes_the_time_of_a_filters_mean(chip: str) -> None:
    """16 cycles of a wavefront: four addresses per cycle, also where all lanes read one texel."""
    gpu = ww.GPU(chip)
    kernel = gpu.compile("""
    __kernel void k(read_only image2d_t in, int n, __global float *out)
    {
        const sampler_t s = CLK_FILTER_LINEAR | CLK_ADDRESS_CLAMP_TO_EDGE;
        float sum = 0.0f;
        float2 at = (float2)(0.5f, n);
        for (int i = 0; i < n; i++, at.x += 1.0f)
            #pragma unroll
            for (int j = 0; j < 8; j++) { at.y -= 1.0f; sum += read_imagef(in, s, at).x; }
        out[get_global_id(0)] = sum;
    }""")["k"]
    image, _ = image_of(gpu, "2d")
    out, wavefronts = np.zeros(1024, np.float32), 16
    few, many = (kernel[1, 64 * wavefronts](image, n, out).cycles for n in (4, 20))
    assert 16 <= (many - few) / (8 * 16) / wavefronts < 18


# --- what is refused --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("read_only image2d_depth_t a", "parameter 1: image2d_depth_t has no meaning on Cypress and Cayman here"),
        ("read_only image2d_msaa_t a", "parameter 1: image2d_msaa_t has no meaning on Cypress and Cayman here"),
    ],
)
def test_types_of_images_are_refused_by_name(source: str, why: str) -> None:
    text = f"__kernel void k({source}, __global int *out) {{ out[0] = get_image_width(a); }}"
    options = ["-cl-std=CL2.0", "-Xclang", "-cl-ext=+cl_khr_depth_images,+cl_khr_gl_msaa_sharing"]
    with pytest.raises(UnsupportedError, match=f"kernel k: {why}"):
        ww.GPU("hd6970", timing="off").compile(text, options=options)


def test_functions_are_refused_by_name_in_the_kernel_that_calls_them() -> None:
    source = """
    __constant sampler_t s = CLK_NORMALIZED_COORDS_TRUE | CLK_FILTER_LINEAR;
    __kernel void levels(write_only image2d_t a, __global float4 *out) { write_imagef(a, (int2)(0), 1, out[0]); }
    __kernel void plain(read_only image2d_t a, __global float4 *out) { out[0] = read_imagef(a, s, (float2)(0.5f)); }
    """
    gpu = ww.GPU("hd6970", timing="off")
    module = gpu.compile(
        source, options=["-cl-std=CL2.0", "-Xclang", "-cl-ext=+cl_khr_mipmap_image,+cl_khr_mipmap_image_writes"]
    )
    with pytest.raises(
        UnsupportedError, match=r"kernel levels .*write_imagef of image2d_t .*has no meaning on Cypress and Cayman here"
    ):
        module["levels"]
    image, out = gpu.image((1, 1)), np.zeros(4, np.float32)
    image.set([[[1, 2, 3, 4]]])
    module["plain"][1, 1](image, out)
    assert out.tolist() == [1, 2, 3, 4]
    assert (
        readable("_Z11read_imagef14ocl_image2d_ro11ocl_samplerDv2_ff")
        == "read_imagef of image2d_t with a sampler and Dv2_ff"
    )


def test_filters_of_integers_are_refused_at_the_launch() -> None:
    gpu = ww.GPU("hd6970", timing="off")
    kernel = gpu.compile(
        "__kernel void k(read_only image2d_t a, sampler_t s, __global int4 *out) { out[0] = read_imagei(a, s, (float2)(0.5f)); }"
    )["k"]
    out = np.zeros(4, np.int32)
    with pytest.raises(UnsupportedError, match="SAMPLE_LZ: integers cannot be filtered"):
        kernel[1, 1](gpu.image((2, 2), np.int32), gpu.sampler("linear"), out)


def test_arguments_that_are_no_images_are_refused() -> None:
    gpu, other = ww.GPU("hd6970", timing="off"), ww.GPU("hd6970", timing="off")
    kernel = gpu.compile(
        "__kernel void k(read_only image2d_t a, sampler_t s, __global float4 *out) { out[0] = read_imagef(a, s, (int2)(0)); }"
    )["k"]
    out = np.zeros(4, np.float32)
    image, sampler = gpu.image((2, 2)), gpu.sampler()
    for arguments, why in (
        ((out, sampler, out), r"argument 1 'a' of k takes an image \(gpu.image\(...\)\), not a ndarray"),
        ((image, 5, out), r"argument 2 's' of k takes a sampler \(gpu.sampler\(...\)\), not a int"),
        (
            (gpu.image((2, 2, 2)), sampler, out),
            r"argument 1 'a' of k takes an image2d_t, not <image RGBA of float32, 2 x 2 x 2>, an image3d_t",
        ),
        ((other.image((2, 2)), sampler, out), "argument 1 'a' of k: it is in another GPU's memory"),
    ):
        with pytest.raises(ArgumentError, match=why):
            kernel[1, 1](*arguments)
    for call, why in (
        (lambda: gpu.image((2, 2), np.float64), "not float64"),
        (lambda: gpu.image((2, 2), order="GBR"), "order='GBR' is not known"),
        (lambda: gpu.image((2, 0)), "no image has the sizes"),
        (lambda: gpu.sampler("cubic"), "filter='cubic' is not known; use one of nearest, linear"),
        (lambda: gpu.sampler(address="repeat"), "needs normalized=True"),
    ):
        with pytest.raises(ArgumentError, match=why):
            call()
    with pytest.raises(UnsupportedError, match=r"a100: gpu.image\(...\) is for OpenCL C on hd5870 and hd6970"):
        ww.GPU("a100").image((2, 2))
