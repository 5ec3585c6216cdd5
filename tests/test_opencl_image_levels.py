"""Levels of images, buffers of texels and images that are read and written: OpenCL C on Cypress and Cayman beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_opencl import needs_opencl
from tests.test_opencl_images import CASES, CHIPS, POINTS, SHAPES, each_on_one, read
from warpwright.errors import ArgumentError, UnsupportedError
from warpwright.isa.r600.decode import decode_program

pytestmark = [pytest.mark.ci, needs_opencl]
LEVELS = ["-cl-std=CL2.0", "-Xclang", "-cl-ext=+cl_khr_mipmap_image"]
READ_WRITE = ["-cl-std=CL2.0", "-Xclang", "-cl-ext=+__opencl_c_read_write_images"]


# --- levels -----------------------------------------------------------------------------------------------------
def levels_source() -> str:
    """Kernels that read each kind of image at a level, and by gradients."""
    found = ["#pragma OPENCL EXTENSION cl_khr_mipmap_image : enable"]
    for kind in SHAPES:
        place = {"1d": "float", "1d_array": "float2", "2d": "float2"}.get(kind, "float4")
        slope = {"1d": "float", "3d": "float4"}.get(kind.removesuffix("_array"), "float2")
        head = f"(read_only image{kind}_t in, sampler_t s, __global const {place} *at, __global const"
        tail = "__global float4 *out) { int i = get_global_id(0); out[i] = read_imagef(in, s, at[i],"
        found += [
            f"__kernel void level_{kind}{head} float *level, {tail} level[i]); }}",
            f"__kernel void slope_{kind}{head} {slope} *h, __global const {slope} *v, {tail} h[i], v[i]); }}",
        ]
    return "\n".join(found)


def mipmapped(gpu: ww.GPU, kind: str, levels: int) -> tuple[Any, list[Any]]:
    """An image with random texels in each level, and these."""
    layered, rng = kind.endswith("array"), np.random.default_rng(4)
    image, texels = gpu.image(SHAPES[kind], layered=layered, levels=levels), []
    for n in range(levels):
        shape = [size if layered and not axis else max(size >> n, 1) for axis, size in enumerate(SHAPES[kind])]
        texels.append(rng.random((*shape, 4), np.float32))
        image.level(n).set(texels[-1])
    return image, texels


def wanted_of(texels: list[Any], places: Any, detail: Any, filter: str, mip: str, layered: bool) -> Any:
    """What the specification defines: a level's mean, or that of two."""
    detail = np.clip(detail, 0, len(texels) - 1)
    each = [read(t, places.astype(float), "repeat", True, filter == "linear", layered) for t in texels]
    low = np.floor(detail + 0.5 * (mip == "nearest")).astype(int)
    share = (detail - low)[:, None] if mip == "linear" else 0.0
    high, rows = np.minimum(low + 1, len(texels) - 1), np.arange(len(places))
    stacked = np.stack(each)
    return stacked[low, rows] * (1 - share) + stacked[high, rows] * share


def normalized_places(kind: str) -> Any:
    """Places whose nearest texel is clear in each level."""
    rng, layered = np.random.default_rng(9), kind.endswith("array")
    count = {"1d": 1, "1d_array": 2, "2d": 2}.get(kind, 4)
    found = rng.uniform(-1, 2, (POINTS, count)).astype(np.float32)
    if layered:
        layer = 1 if kind.startswith("1d") else 2
        found[:, layer] = rng.integers(0, SHAPES[kind][0], POINTS)
    return found


@pytest.mark.parametrize(("chip", "timing", "kind"), each_on_one(tuple(SHAPES), CASES, first=1))
def test_reads_of_a_level_follow_the_specifications_formulas(chip: str, timing: str, kind: str) -> None:
    gpu = ww.GPU(chip, timing=timing)
    kernel = gpu.compile(levels_source(), options=LEVELS)[f"level_{kind}"]
    levels, layered = 4, kind.endswith("array")
    image, texels = mipmapped(gpu, kind, levels)
    places = normalized_places(kind)
    detail = np.random.default_rng(2).uniform(-1, levels + 1, POINTS).astype(np.float32)
    for filter, mip in (("linear", "linear"), ("linear", "nearest"), ("nearest", "nearest")):
        out = np.zeros((POINTS, 4), np.float32)
        kernel[4, 64](image, gpu.sampler(filter, "repeat", normalized=True, mip=mip), places, detail, out)
        wanted = wanted_of(texels, places, detail, filter, mip, layered)
        # Nearest texels and levels may fall on the other side of an edge by rounding.
        different = np.abs(out - wanted).max(1) > 5e-5
        assert different.sum() <= (0 if filter == mip == "linear" else 2), f"{filter} {mip}"


@pytest.mark.parametrize(("chip", "kind"), each_on_one(tuple(SHAPES), CHIPS))
def test_gradients_choose_the_level_at_which_the_longer_one_is_a_texel_long(chip: str, kind: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    kernel = gpu.compile(levels_source(), options=LEVELS)[f"slope_{kind}"]
    layered = kind.endswith("array")
    image, texels = mipmapped(gpu, kind, 4)
    dimensions = len(SHAPES[kind]) - layered
    sizes = np.array(SHAPES[kind][::-1][:dimensions], float)
    rng, width = np.random.default_rng(6), 4 if dimensions == 3 else dimensions
    slopes = [(2.0 ** rng.uniform(-2, 4, (POINTS, 1)) * rng.normal(size=(POINTS, width)) / 20) for _ in "hv"]
    slopes = [slope.astype(np.float32) for slope in slopes]
    slopes[0][0] = slopes[1][0] = 0
    lengths = [np.sqrt(((slope[:, :dimensions] * sizes) ** 2).sum(1)) for slope in slopes]
    with np.errstate(divide="ignore"):
        detail = np.log2(np.maximum(*lengths))
    places, out = normalized_places(kind), np.zeros((POINTS, 4), np.float32)
    kernel[4, 64](image, gpu.sampler("linear", "repeat", normalized=True, mip="linear"), places, *slopes, out)
    wanted = wanted_of(texels, places, detail, "linear", "linear", layered)
    np.testing.assert_allclose(out, wanted, atol=5e-5)


def test_a_level_is_one_fetch_and_a_program_without_levels_reads_the_first() -> None:
    gpu = ww.GPU("hd6970", timing="off")
    source = """
    __kernel void k(read_only image2d_t in, write_only image2d_t out, __global int *count)
    {
        const sampler_t s = CLK_NORMALIZED_COORDS_TRUE | CLK_FILTER_NEAREST | CLK_ADDRESS_CLAMP_TO_EDGE;
        int2 p = (int2)(get_local_id(0), get_group_id(1));
        float2 at = (convert_float2(p) + 0.5f) / 8.0f;
        write_imagef(out, p, MEAN);
        if (p.x == 0 && p.y == 0) *count = COUNT;
    }"""
    image, texels = gpu.image((16, 16), levels=5), np.random.default_rng(1).random((16, 16, 4), np.float32)
    image.set(texels)
    module = gpu.compile(
        source,
        options=LEVELS,
        defines={"MEAN": "read_imagef(in, s, at, 1.0f)", "COUNT": "get_image_num_mip_levels(in)"},
    )
    plain = gpu.compile(source, defines={"MEAN": "read_imagef(in, s, at)", "COUNT": "0"})
    count = np.zeros(1, np.int32)
    # Each level is made from the one before, which a kernel reads as an image of its own.
    plain["k"][(1, 8), 8](image, image.level(1), count)
    np.testing.assert_array_equal(image.level(1).get(), texels[1::2, 1::2])
    out = gpu.image((8, 8))
    module["k"][(1, 8), 8](image, out, count)
    np.testing.assert_array_equal(out.get(), texels[1::2, 1::2])
    assert count[0] == 5
    fetches = [
        f.operation.name
        for clause in decode_program(module.machine_code("k"), gpu.chip.identity.generation).clauses.values()
        for f in clause.fetches
    ]
    assert fetches == ["SAMPLE_L"]


# --- buffers of texels ------------------------------------------------------------------------------------------
BUFFERS = """
#define COPY(name, type, vector) __kernel void name(read_only image1d_buffer_t in, write_only image1d_buffer_t out, __global vector *seen) \\
    { int i = get_global_id(0); vector v = read_image##type(in, i); seen[i] = v; write_image##type(out, i, v); \\
      if (i == 0) seen[0].x = get_image_width(in); }
COPY(copy_f, f, float4)
COPY(copy_i, i, int4)
COPY(copy_ui, ui, uint4)
"""


@pytest.mark.parametrize(("chip", "timing"), CASES)
def test_buffers_of_texels_are_read_and_written_in_their_format(chip: str, timing: str) -> None:
    """Past 16,384 texels, where no image reaches."""
    gpu = ww.GPU(chip, timing=timing)
    module, count = gpu.compile(BUFFERS), 70_000
    rng, blocks = np.random.default_rng(3), -(-count // 256)
    for name, dtype, order, normalized in (
        ("copy_f", np.float32, "RGBA", False),
        ("copy_f", np.uint8, "BGRA", True),
        ("copy_i", np.int16, "RG", False),
        ("copy_ui", np.uint32, "R", False),
    ):
        source, copy = (gpu.image_buffer(count, dtype, order=order, normalized=normalized) for _ in range(2))
        shape = source.get().shape
        values = rng.random(shape) if dtype == np.float32 else rng.integers(0, 200, shape)
        source.set(values)
        seen = np.zeros((blocks * 256, 4), {"f": "f4", "i": "i4"}.get(name[-1], "u4"))
        if name == "copy_ui":
            seen = np.zeros((blocks * 256, 4), "u4")
        module[name][blocks, 256](source, copy, seen)
        np.testing.assert_array_equal(copy.get(), source.get())
        held = source.get().reshape(count, -1)
        wanted = np.zeros((count, 4))
        wanted[:, 3] = 1
        wanted[:, : held.shape[1]] = held[:, [2, 1, 0, 3]] / 255 if order == "BGRA" else held
        np.testing.assert_allclose(seen[1:count], wanted[1:], rtol=2e-7)
        assert seen[0, 0] == count
        assert not seen[count:].any() or order != "RGBA"


def test_a_buffer_of_texels_shares_an_array() -> None:
    gpu = ww.GPU("hd6970", timing="off")
    module = gpu.compile(BUFFERS)
    array = gpu.array(np.arange(256, dtype=np.int32))
    copy, seen = gpu.image_buffer(256, np.int32, order="R"), np.zeros((256, 4), np.int32)
    module["copy_i"][1, 256](gpu.image_buffer(array, order="R"), copy, seen)
    np.testing.assert_array_equal(copy.get(), np.arange(256))
    names = {
        f.operation.name
        for clause in decode_program(module.machine_code("copy_i"), gpu.chip.identity.generation).clauses.values()
        for f in clause.fetches
    }
    assert names == {"VFETCH"}
    assert gpu.image_buffer(array).get().shape == (64, 4)
    for texels, why in ((0, "a buffer of 0 texels of 16 bytes"), (gpu.zeros(3), "a buffer of 0 texels")):
        with pytest.raises(ArgumentError, match=why):
            gpu.image_buffer(texels)


# --- images that are read and written ---------------------------------------------------------------------------
BOTH = """
#define STEP(name, kind, place, at, type, vector) __kernel void name(read_write kind a, read_write kind b, int n) \\
    { place p = at; \\
      for (int i = 0; i < n; i++) { \\
          write_image##type(b, p, read_image##type(a, p) + read_image##type(b, p)); \\
          atomic_work_item_fence(CLK_IMAGE_MEM_FENCE, memory_order_acq_rel, memory_scope_work_item); \\
          write_image##type(a, p, read_image##type(b, p) * (vector)2); } }
#define X get_global_id(0)
#define Y get_global_id(1)
#define Z get_global_id(2)
STEP(step_1d, image1d_t, int, X, i, int4)
STEP(step_buffer, image1d_buffer_t, int, X, f, float4)
STEP(step_2d, image2d_t, int2, ((int2)(X, Y)), f, float4)
STEP(step_2d_array, image2d_array_t, int4, ((int4)(X, Y, Z, 0)), ui, uint4)
__kernel void pass_on(read_write image2d_t a, __global int *sum)
{
    int x = get_local_id(0), y = get_group_id(1);
    write_imagei(a, (int2)(x, y), (int4)(x, y, x * y, 1));
    barrier(CLK_GLOBAL_MEM_FENCE);
    atomic_add(sum, read_imagei(a, (int2)(63 - x, y)).z);
}
"""


@pytest.mark.parametrize(("chip", "timing"), CASES)
def test_a_kernel_reads_what_it_has_written_to_an_image(chip: str, timing: str) -> None:
    gpu = ww.GPU(chip, timing=timing)
    module, rng = gpu.compile(BOTH, options=READ_WRITE), np.random.default_rng(8)
    for name, shape, dtype, grid in (
        ("step_1d", (100,), np.int32, 2),
        ("step_buffer", (100,), np.float32, 2),
        ("step_2d", (3, 40), np.float32, (1, 4)),
        ("step_2d_array", (2, 3, 40), np.uint16, (1, 4, 2)),
    ):
        make, form = gpu.image, {"layered": True} if name.endswith("array") else {}
        if name.endswith("buffer"):
            make, shape = gpu.image_buffer, shape[0]
        images = [make(shape, dtype, **form) for _ in range(2)]
        held = [rng.integers(0, 50, image.get().shape).astype(dtype) for image in images]
        for image, values in zip(images, held, strict=True):
            image.set(values)
        module[name][grid, 64](*images, 3)
        a, b = (values.astype("i8") for values in held)
        for _ in range(3):
            b = a + b
            a = b * 2
        np.testing.assert_array_equal(images[0].get(), a)
        np.testing.assert_array_equal(images[1].get(), b)


@pytest.mark.parametrize("chip", CHIPS)
def test_other_threads_of_a_group_read_it_after_a_barrier(chip: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    image, sum = gpu.image((5, 64), np.int32), np.zeros(1, np.int32)
    gpu.compile(BOTH, options=READ_WRITE)["pass_on"][(1, 5), 64](image, sum)
    assert sum[0] == 2016 * 10


def test_more_stores_than_llvm_can_number_are_refused() -> None:
    images = ", ".join(f"read_write image2d_t a{n}" for n in range(8))
    body = " ".join(f"write_imagei(a{n}, (int2)(0), read_imagei(a{n}, (int2)(1)));" for n in range(8))
    source = f"__kernel void k({images}, __global int *s) {{ {body} atomic_add(s, 1); }}"
    module = ww.GPU("hd6970", timing="off").compile(source, options=READ_WRITE)
    with pytest.raises(
        UnsupportedError,
        match=r"1 kinds of atomics in the program and 8 written images, up to the 8. of them also read: together at most 16",
    ):
        module["k"]


# --- conversions of writes --------------------------------------------------------------------------------------
@pytest.mark.parametrize("chip", CHIPS)
def test_integers_that_do_not_fit_become_the_nearest_that_do(chip: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile("""
    __kernel void i(write_only image2d_t out, __global const int4 *in) { int n = get_global_id(0); write_imagei(out, (int2)(n, 0), in[n]); }
    __kernel void ui(write_only image2d_t out, __global const uint4 *in) { int n = get_global_id(0); write_imageui(out, (int2)(n, 0), in[n]); }""")
    rng = np.random.default_rng(2)
    for name, dtypes in (("i", (np.int8, np.int16, np.int32)), ("ui", (np.uint8, np.uint16, np.uint32))):
        whole = np.dtype(f"{name[0]}4")
        values = (rng.integers(-(2**31), 2**31, (64, 4)) >> rng.integers(0, 30, (64, 4))).astype(np.int32).view(whole)
        for dtype in dtypes:
            image = gpu.image((1, 64), dtype)
            module[name][1, 64](image, values)
            limits = np.iinfo(dtype)
            np.testing.assert_array_equal(image.get()[0], np.clip(values, limits.min, limits.max))
