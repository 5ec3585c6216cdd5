"""OpenCL C on Cypress and Cayman, where clang and libclc are installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import UnsupportedError
from warpwright.toolchain import CompileError, MissingToolError
from warpwright.toolchain.opencl import find_tools

CHIPS = ("hd5870", "hd6970")


def has_opencl() -> bool:
    try:
        find_tools("evergreen")
        find_tools("cayman")
    except MissingToolError:
        return False
    return True


needs_opencl = pytest.mark.skipif(not has_opencl(), reason="clang and libclc are not installed")
SOURCE = """
typedef struct { int a; float b; } pair;
__constant float table[4] = {1.0f, 2.5f, -3.0f, 4.0f};

__kernel void saxpy(int n, float a, __global const float *x, __global float *y)
{
    int i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}
__kernel void turned(__global float *out, __global const float *in, __local float *first, __local float *second, __constant float *c)
{
    __local int zero;
    int l = get_local_id(0), n = get_local_size(0);
    zero = 0;
    first[l] = in[get_global_id(0)] * c[l & 3];
    second[l] = 1000.0f + l;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[get_global_id(0)] = first[n - 1 - l] + second[l ^ 1] + zero;
}
__kernel void histogram(__global int *h, __global const uchar *in)
{
    __local int s[16];
    int l = get_local_id(0);
    if (l < 16) s[l] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_inc(&s[in[get_global_id(0)] & 15]);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < 16) atomic_add(&h[l], s[l]);
}
__kernel void arguments(__global float4 *y, char c, short s, long l, float4 v, pair p, __global long *h)
{
    int i = get_global_id(0);
    y[i] = v * table[i & 3] + (float)(c + s) + p.b * p.a;
    h[i] = l * i + get_work_dim() + get_global_offset(0);
}
__kernel void atomics(__global int *x, __global int *old)
{
    int i = get_global_id(0);
    old[i] = atomic_add(&x[0], 3);
    atomic_sub(&x[1], i);
    atomic_max(&x[2], i);
    atomic_min(&x[3], -i);
    atomic_or(&x[4], 1 << (i & 31));
    if (atomic_cmpxchg(&x[5], 7, 100 + i) == 7) x[6] = i;
    atomic_xchg((volatile __global float *)&x[7], 1.5f);
    mem_fence(CLK_GLOBAL_MEM_FENCE);
}
__kernel void rotated(__global int *y, int n)
{
    int a[8], s = 0;
    for (int i = 0; i < 8; i++) a[i] = y[i];
    for (int i = 0; i < n; i++) s += a[(i * 3 + get_local_id(0)) & 7];
    y[64 + get_global_id(0)] = s;
}
__kernel void chosen(__global int *y, int a, int b)
{
    y[get_global_id(0)] = y[get_global_id(0)] > 4 ? a : b;
    y[64 + get_global_id(0)] = y[get_global_id(0)] > 4 ? a : (int)get_local_size(0);
    if (atomic_add(&y[128], 1) >= 1000) y[129] = 1;
}
__attribute__((reqd_work_group_size(32, 2, 1))) __kernel void plane(__global int *y, int width)
{
    y[get_global_id(1) * width + get_global_id(0)] = get_global_size(0) * 1000 + get_group_id(1) * 10 + get_work_dim();
}
"""


@pytest.mark.ci
@needs_opencl
@pytest.mark.parametrize("chip", CHIPS)
def test_kernels_get_scalars_arrays_and_structures(chip: str) -> None:
    module = ww.GPU(chip, timing="off").compile(SOURCE)
    x, y = np.arange(256, dtype=np.float32), np.ones(256, np.float32)
    module["saxpy"][4, 64](200, 2.0, x, y)
    np.testing.assert_array_equal(y, np.where(x < 200, 2 * x + 1, 1))
    v, out, h = np.array([1, 2, 3, 4], np.float32), np.zeros((64, 4), np.float32), np.zeros(64, np.int64)
    pair = np.array([(3, 2.0)], dtype=[("a", "i4"), ("b", "f4")])
    module["arguments"][1, 64](out, np.int8(-5), np.int16(300), 1 << 33, v.tobytes(), pair.tobytes(), h)
    table = np.array([1, 2.5, -3, 4], np.float32)
    np.testing.assert_array_equal(out, v * table[np.arange(64) & 3][:, None] + 301)
    np.testing.assert_array_equal(h, (np.arange(64) << 33) + 1)


@needs_opencl
@pytest.mark.parametrize("chip", CHIPS)
def test_local_parameters_take_their_size(chip: str) -> None:
    kernel = ww.GPU(chip, timing="off").compile(SOURCE)["turned"]
    x, c, out = np.arange(256, dtype=np.float32), np.array([1, 2, 3, 4], np.float32), np.zeros(256, np.float32)
    kernel[4, 64, 512](out, x, 256, 256, c)
    turned = (x * c[np.arange(256) & 3]).reshape(4, 64)[:, ::-1] + 1000 + (np.arange(64) ^ 1)
    np.testing.assert_array_equal(out, turned.ravel())


@pytest.mark.ci
@needs_opencl
@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize("chip", [pytest.param("hd5870", marks=pytest.mark.ci), "hd6970"])
def test_atomics_on_both_memories(chip: str, engine: str) -> None:
    module = ww.GPU(chip, timing="off", engine=engine).compile(SOURCE)
    bytes_in = np.random.default_rng(0).integers(0, 256, 256).astype(np.uint8)
    h = np.zeros(16, np.int32)
    module["histogram"][4, 64](h, bytes_in)
    np.testing.assert_array_equal(h, np.bincount(bytes_in & 15, minlength=16))
    x, old = np.array([0, 0, 0, 0, 0, 7, -1, 0], np.int32), np.zeros(128, np.int32)
    module["atomics"][2, 64](x, old)
    assert sorted(old) == list(range(0, 384, 3))
    assert x[:5].tolist() == [384, -sum(range(128)), 127, -127, -1]
    assert x[5] == 100 + x[6]
    assert x[7:].view(np.float32)[0] == 1.5


@needs_opencl
@pytest.mark.parametrize("chip", [pytest.param("hd5870", marks=pytest.mark.ci), "hd6970"])
def test_private_arrays_and_groups_of_two_dimensions(chip: str) -> None:
    module = ww.GPU(chip, timing="off").compile(SOURCE)
    y = np.arange(128, dtype=np.int32)
    module["rotated"][1, 64](y, 5)
    np.testing.assert_array_equal(y[64:], sum((n * 3 + np.arange(64)) & 7 for n in range(5)))
    y = np.arange(130, dtype=np.int32) % 8
    y[128:] = 0
    before = y.copy()
    module["chosen"][1, 64](y, 70, 3)
    np.testing.assert_array_equal(y[:64], np.where(before[:64] > 4, 70, 3))
    np.testing.assert_array_equal(y[64:128], np.where(y[:64] > 4, 70, 64))
    assert y[128:].tolist() == [64, 0]
    z = np.zeros((6, 64), np.int32)
    module["plane"][(2, 3), (32, 2)](z, 64)
    np.testing.assert_array_equal(z, np.full((6, 64), 64002) + np.arange(6)[:, None] // 2 * 10)


@needs_opencl
@pytest.mark.ci
def test_libclc_has_the_functions() -> None:
    source = """
    __kernel void k(__global float *y, __global const float *x)
    {
        int i = get_global_id(0);
        y[i] = sin(x[i]) + exp(x[i]) * log(x[i]) + sqrt(x[i]) + pow(x[i], 1.5f);
    }"""
    x = np.linspace(0.1, 6, 256).astype(np.float32)
    y = np.zeros_like(x)
    ww.GPU("hd5870", timing="off").compile(source)["k"][4, 64](y, x)
    z = x.astype(np.float64)
    np.testing.assert_allclose(y, np.sin(z) + np.exp(z) * np.log(z) + np.sqrt(z) + z**1.5, rtol=2e-6)


@needs_opencl
def test_kernels_are_timed() -> None:
    x, y = np.arange(4096, dtype=np.float32), np.ones(4096, np.float32)
    run = ww.GPU("hd6970").compile(SOURCE)["saxpy"][64, 64](4096, 2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert run.cycles is not None
    assert run.cycles > 500


@needs_opencl
@pytest.mark.ci
@pytest.mark.parametrize("chip", CHIPS)
def test_a_file_of_opencl(chip: str) -> None:
    """The engine benchmark's kernels."""
    path = Path(__file__).parent.parent / "bench" / "kernels" / "engine.cl"
    module = ww.GPU(chip, timing="off").compile(path)
    x, y, z = np.arange(100, dtype=np.float32), np.full(100, 3, np.float32), np.zeros(100, np.float32)
    module["triad"][2, 64](100, 2.0, x, y, z)
    np.testing.assert_array_equal(z, 2 * x + y)
    a, b = (np.random.default_rng(n).random((32, 32), dtype=np.float32) for n in (1, 2))
    for name in ("matmul", "tiled"):
        c = np.zeros((32, 32), np.float32)
        module[name][(2, 2), (16, 16)](32, a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    counts = np.zeros((16, 32), np.int32)
    module["mandelbrot"][(2, 2), (16, 8)](32, 16, 50, counts)
    assert counts.min() == 1
    assert counts.max() == 50


FAULTY = """
__kernel void k(__global int *x)
{
    x[0] = undeclared;
}
"""


@needs_opencl
@pytest.mark.parametrize(
    ("body", "extension"),
    [
        ("x[0] = read_imagef(a, s, (float2)(0, 0), 1.0f);", "cl_khr_mipmap_image"),
        ("x[0] = read_imagef(a, s,\n(float2)(0, 0), (float2)(0, 0), (float2)(1, 1));", "cl_khr_mipmap_image"),
        ("x[0] = read_imagef(a, s, (float4)(0, 0, 1, 1, 2));", ""),
    ],
)
def test_errors_name_the_option_that_a_read_needs(body: str, extension: str) -> None:
    text = f"__kernel void k(__global float4 *x, read_only image2d_t a, sampler_t s)\n{{\n{body}\n}}\n"
    with pytest.raises(CompileError) as caught:
        ww.GPU("hd5870", timing="off").compile(text, options=["-cl-std=CL2.0"])
    notes = [one.message for one in caught.value.diagnostics if one.severity == "note"]
    assert notes == (
        [f'reads with a level of detail or gradients need options=["-cl-std=CL2.0", "-Xclang", "-cl-ext=+{extension}"]']
        if extension
        else []
    )


@needs_opencl
def test_errors_name_the_line() -> None:
    line = Path(__file__).read_text().splitlines().index("    x[0] = undeclared;") + 1
    with pytest.raises(CompileError, match=rf"test_opencl\.py:{line}:12: error: use of undeclared identifier"):
        ww.GPU("hd5870", timing="off").compile(FAULTY)
    with pytest.raises(CompileError, match=r"k\.cl:4:12: error: use of undeclared identifier"):
        ww.GPU("hd5870", timing="off").compile(FAULTY, name="k.cl")
    with pytest.raises(UnsupportedError, match="kernel k: parameter x: LLVM's R600 back end has no double precision"):
        ww.GPU("hd5870", timing="off").compile(
            "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n__kernel void k(double x) {}\n",
            options=["-Xclang", "-cl-ext=+cl_khr_fp64"],
        )


def test_without_a_compiler_the_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_CLANG", "no-such-clang")
    with pytest.raises(
        MissingToolError, match=r"OpenCL C: no clang with the target r600 was found: install clang and libclc"
    ):
        ww.GPU("hd5870", timing="off").compile("__kernel void k(__global int *x) { x[0] = 1; }\n")


@needs_opencl
def test_without_libclc_its_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWRIGHT_LIBCLC", "/nonexistent")
    with pytest.raises(MissingToolError, match=r"libclc's cayman-r600--\.bc was not found in /nonexistent"):
        ww.GPU("hd6970", timing="off").compile("__kernel void k(__global int *x) { x[0] = 1; }\n")


@needs_opencl
def test_groups_are_turned_in_local_memory() -> None:
    y = np.arange(1024, dtype=np.float32)
    expected = 2 * y.reshape(16, 64)[:, ::-1].ravel()
    gpu = ww.GPU("hd6970")
    module = gpu.compile("""
__kernel void scale(__global float *y, float a, __local float *tile)
{
    int l = get_local_id(0);
    tile[l] = y[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[get_global_id(0)] = a * tile[get_local_size(0) - 1 - l];
}
""")
    module["scale"][16, 64, 256](y, 2.0, 256)  # 16 groups of 64; 256 bytes of local memory, all of them for tile
    np.testing.assert_array_equal(y, expected)
    with pytest.raises(ww.ArgumentError, match=r"take 256 bytes, .* has 0 .*\[grid, block, 256\]"):
        module["scale"][16, 64](y, 2.0, 256)
