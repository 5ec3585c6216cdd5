"""Textures and surfaces against an H200's results (bench/data/h200/textures.npz), in both engines and on three chips."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from bench.textures import rates
from bench.textures.cases import COUNT, FORMATS, Case, cases, contents, coordinates
from warpwright.engine.textures.table import Format, Image, Sampler, make_image, table_of

ROOT = Path(__file__).parents[1]
KERNELS = ROOT / "bench" / "textures" / "kernels.cu"
CARD = np.load(ROOT / "bench" / "data" / "h200" / "textures.npz")
RATES = np.load(ROOT / "bench" / "data" / "h200" / "texture_rates.npz")
CRC = dict(zip(CARD["names"].tolist(), CARD["crc32"].tolist(), strict=True))
CASES = cases()
FEW = CASES[::23]


@cache
def gpu(chip: str, engine: str) -> ww.GPU:
    return ww.GPU(chip, timing="off", engine=engine)


@cache
def kernels(chip: str, engine: str) -> ww.Module:
    return gpu(chip, engine).compile(KERNELS.read_text(), name=str(KERNELS))


def image_of(device: ww.GPU, case: Case) -> Image:
    made = make_image(
        device.memory, Format.of(FORMATS[case.format][1], case.channels), case.shape, layered=case.layered, cube=case.cube,
        levels=case.levels,
    )  # fmt: skip
    for n, level in enumerate(made.levels):
        data = contents(case, n)
        device.memory.view(level.address, data.nbytes)[:] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    made.buffer, made.pitched = case.kind == "linear", case.kind == "pitch2d"
    return made


def fetched(chip: str, engine: str, case: Case) -> np.ndarray:
    """uint32 (COUNT, 4)."""
    return fetched_by(gpu(chip, engine), kernels(chip, engine), case)


def fetched_by(device: ww.GPU, loaded: ww.Module, case: Case) -> np.ndarray:
    image = image_of(device, case)
    sampler = Sampler(
        case.address, case.linear, case.normalized, case.integer, case.srgb, case.mip_linear, case.bias, *case.clamp,
        case.border, case.seamless,
    )  # fmt: skip
    handle = table_of(device.memory).add(image, sampler)
    out = np.zeros((COUNT, 4), np.uint32)
    loaded[case.kernel][COUNT // 128, 128](np.uint64(handle), coordinates(case), out, COUNT)
    table_of(device.memory).remove(handle)
    assert image.allocation is not None
    device.memory.free(image.allocation)
    return out


def check(case: Case, out: np.ndarray) -> None:
    """Equal to the card's results; where the mechanism is not known to the last bit, as close as was measured."""
    whole = f"whole {case.name}"
    if whole not in CARD:
        assert zlib.crc32(out.tobytes()) == CRC[case.name], case.name
        return
    card = CARD[whole]
    close = np.isclose(out.view(np.float32), card.view(np.float32), rtol=2e-3, atol=0.05, equal_nan=True).all(1)
    assert close.mean() > 0.999, (case.name, int((~close).sum()))


@pytest.mark.parametrize("case", FEW, ids=lambda c: c.name)
def test_fetches_are_the_cards(case: Case) -> None:
    check(case, fetched("h200", "compiled", case))


@pytest.mark.parametrize("case", CASES[5::67], ids=lambda c: c.name)
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize(
    "chip", [pytest.param("v100", marks=pytest.mark.ci), pytest.param("a100", marks=pytest.mark.slow), "h200"]
)
def test_engines_and_chips_agree(chip: str, engine: str, case: Case) -> None:
    check(case, fetched(chip, engine, case))


@pytest.mark.ci
@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("name", ["three", "drawn", "single drawn"])
def test_levels_from_slopes_are_the_cards(name: str, engine: str) -> None:
    """Grids of slopes that ``bench.textures.rates`` took on the card: every 256th of a level."""
    kernel, given = rates.slopes()[name]
    card = RATES[f"levels {name}"]
    every = 1 if engine == "compiled" else 16
    given, card = given[:, ::every], card[::every]
    count, device = given.shape[1], gpu("h200", engine)
    case = rates.level_case(flat=kernel == "g1_f")
    image = image_of(device, case)
    sampler = Sampler(case.address, True, True, False, False, True, case.bias, *case.clamp, case.border, case.seamless)
    handle = table_of(device.memory).add(image, sampler)
    start = np.full((len(case.shape), count), 0.4)
    out = np.zeros((count, 4), np.float32)
    kernels("h200", engine)[kernel][count // 128, 128](
        np.uint64(handle), np.concatenate([start, given / 64]).astype(np.float32), out, count
    )
    assert (np.round((out[:, 0] - 1) * 256) == card).all()


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["v100", "h200"])
def test_all_fetches(chip: str) -> None:
    for case in CASES:
        check(case, fetched(chip, "compiled", case))


SOURCE = """
extern "C" __global__ void blend(cudaTextureObject_t t, float4 *out) {
    int x = threadIdx.x, y = blockIdx.x;
    out[y * blockDim.x + x] = tex2D<float4>(t, x + 0.25f, y + 0.75f);
}
extern "C" __global__ void copy(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int shift) {
    int x = threadIdx.x, y = blockIdx.x;
    float v = surf2Dread<float>(from, (x + shift) * 4, y);
    surf2Dwrite(2 * v, to, x * 4, y);
}
extern "C" __global__ void size(cudaTextureObject_t t, int *out) {
    asm("txq.width.b32 %0, [%1];" : "=r"(out[0]) : "l"(t));
    asm("txq.height.b32 %0, [%1];" : "=r"(out[1]) : "l"(t));
    asm("txq.depth.b32 %0, [%1];" : "=r"(out[2]) : "l"(t));
}
"""


@pytest.fixture(params=["v100", "a100", "h200"])
def module(request: pytest.FixtureRequest) -> ww.Module:
    return ww.GPU(request.param, timing="off").compile(SOURCE, name="textures.cu")


def test_python_interface(module: ww.Module) -> None:
    array = module.gpu.cuda_array((8, 32), channels=4)
    values = np.random.default_rng(1).random((8, 32, 4), np.float32)
    array.set(values)
    out = np.zeros((8, 32, 4), np.float32)
    module["blend"][8, 32](module.gpu.texture(array, filter="linear", address="border"), out)
    padded = np.zeros((10, 34, 4), np.float32)
    padded[1:-1, 1:-1] = values
    # The sample at (x + 0.25, y + 0.75) lies a quarter left of the texel's centre and a quarter below it.
    rows = 0.75 * padded[1:-1] + 0.25 * padded[2:]
    np.testing.assert_allclose(out, 0.75 * rows[:, 1:-1] + 0.25 * rows[:, :-2], atol=1e-6)
    assert array.get().tobytes() == values.tobytes()


def test_surfaces_are_written(module: ww.Module) -> None:
    first, second = (module.gpu.cuda_array((8, 32)) for _ in range(2))
    first.set(np.arange(256).reshape(8, 32))
    module["copy"][8, 32](module.gpu.surface(first), module.gpu.surface(second), 0)
    np.testing.assert_array_equal(second.get(), 2 * np.arange(256).reshape(8, 32))
    out = np.zeros(3, np.int32)
    module["size"][1, 1](module.gpu.texture(first), out)
    assert out.tolist()[:2] == [32, 8]


def test_a_surface_access_outside_traps(module: ww.Module) -> None:
    surface = module.gpu.surface(module.gpu.cuda_array((8, 32)))
    with pytest.raises(ww.MemoryFaultError, match="outside of a surface in kernel copy: byte 128 of row 0, slice 0"):
        module["copy"][8, 32](surface, surface, 1)


ROW_AND_BEYOND = """
extern "C" __global__ void row(cudaSurfaceObject_t to, int y)
{
    surf2Dwrite((float)threadIdx.x, to, threadIdx.x * 4, y, cudaBoundaryModeZero);
}
"""


def test_stores_outside_of_a_surface_access_nothing() -> None:
    """They are dropped, and are no writes of one place by several threads."""
    checked = ww.GPU("h200", check="racecheck")
    array = checked.cuda_array((4, 16))
    array.set(np.zeros((4, 16), np.float32))
    checked.compile(ROW_AND_BEYOND)["row"][1, 32](checked.surface(array), 3)
    assert not checked.findings
    np.testing.assert_array_equal(array.get(), [*[[0] * 16] * 3, range(16)])
    timed = ww.GPU("h200", timing="full")
    surface = timed.surface(timed.cuda_array((4, 16)))
    inside, outside = (timed.compile(ROW_AND_BEYOND)["row"][1, 32](surface, y) for y in (3, 4))
    assert outside.cycles <= inside.cycles


def test_handles_that_are_none(module: ww.Module) -> None:
    array = module.gpu.cuda_array((8, 32))
    texture = module.gpu.texture(array)
    handle = np.uint64(texture.object_handle())
    out = np.zeros((8, 32, 4), np.float32)
    with pytest.raises(ww.MemoryFaultError, match="0x3039 is not the handle of a texture object in kernel blend"):
        module["blend"][1, 1](np.uint64(12345), out)
    with pytest.raises(ww.MemoryFaultError, match="is not the handle of a surface object"):
        module["copy"][1, 1](handle, handle, 0)
    array.free()
    with pytest.raises(ww.MemoryFaultError, match="destroyed, its array was freed"):
        module["blend"][1, 1](handle, out)
    with pytest.raises(ww.FreedArrayError, match="the texture object was destroyed, or its array was freed"):
        module["blend"][1, 1](texture, out)


def test_what_no_texture_does() -> None:
    device = ww.GPU("h200", timing="off")
    with pytest.raises(ww.ArgumentError, match="channels are 1, 2 or 4"):
        device.cuda_array((4, 4), np.float64)
    with pytest.raises(ww.ArgumentError, match="cannot be filtered"):
        device.texture(device.cuda_array((4, 4), np.int32), filter="linear")
    with pytest.raises(ww.ArgumentError, match="filter='cubic' is not known; use one of point, linear"):
        device.texture(device.cuda_array((4, 4)), filter="cubic")
    with pytest.raises(TypeError, match=r"gpu.texture\(\) has no argument 'fliter': did you mean filter\?"):
        device.texture(device.cuda_array((4, 4)), fliter="linear")
    with pytest.raises(TypeError, match="has no argument 'wrap': it takes address, filter, normalized, read"):
        device.texture(device.cuda_array((4, 4)), wrap=True)
    with pytest.raises(ww.ArgumentError, match="needs normalised coordinates"):
        device.texture(device.cuda_array((4, 4), levels=3))
    with pytest.raises(ww.ArgumentError, match="no array has the sizes"):
        device.cuda_array((6, 4, 8), cube=True)


@pytest.mark.ci
@pytest.mark.parametrize("case", CASES[11::89], ids=lambda c: c.name)
def test_ptx_fetches_the_same(case: Case) -> None:
    device = ww.GPU("h200", timing="off", front_end="ptx")
    check(case, fetched_by(device, device.compile(KERNELS.read_text(), name=str(KERNELS)), case))


def test_time_of_dependent_and_of_many_samples() -> None:
    """As an H200's (bench/data/h200/textures.json): 148 cycles a step of the chain; 1,036 for 128 samples of one SM."""
    rows = json.loads((ROOT / "bench" / "data" / "h200" / "textures.json").read_text())["rows"]
    case = Case("t2", "f32", 1, (64, 64))
    device = ww.GPU("h200")
    loaded = device.compile(KERNELS.read_text(), name=str(KERNELS))
    handle = table_of(device.memory).add(image_of(device, case), Sampler(case.address))
    for way, warps in (("chain", 1), ("many", 16)):
        out, values = device.zeros(32, np.int64), device.zeros(1024)
        for _ in range(2):
            loaded[f"time2_{way}"][1, 32 * warps](np.uint64(handle), np.float32(2.3), np.float32(1), out, values)
        card = next(
            r
            for r in rows
            if r["kernel"] == f"time2_{way}" and r["case"] == case.name and r["warps"] == warps and r["step"] == 1
        )
        assert out.get()[:warps].max() == pytest.approx(max(card["cycles"]), rel=0.03)
