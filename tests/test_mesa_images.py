"""GLSL compute shaders on images and textures of the simulated Cypress and Cayman, through Mesa's ``r600`` driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.glsl_images import FORMATS, HEIGHT, LAYERS, WIDTH
from tests.mesa_drivers import needs_mesa, run, saved_by

pytestmark = needs_mesa("r600")
PROGRAM = Path(__file__).with_name("glsl_images.py")
CASES = (
    ("hd5870", "off"),
    pytest.param(("hd6970", "off"), marks=pytest.mark.slow),  # as without timing on the other chip, and as with timing
    ("hd6970", "full"),
)


def results(chip: str, timing: str) -> dict[str, Any]:
    return saved_by(PROGRAM, chip, timing)[0]


def seen(given: Any, name: str) -> Any:
    """What a load gives of texels: four channels, of which the missing ones are 0, 0 and 1."""
    fraction = name in ("rgba8", "rg8")
    values = given.astype("f4") / np.float32(255) if fraction else given
    whole = np.zeros(
        (*given.shape[:2], 4), dtype="f4" if fraction or given.dtype.kind == "f" else given.dtype.kind + "4"
    )
    whole[..., 3] = 1
    whole[..., : given.shape[2]] = values
    return whole


@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("name", FORMATS)
def test_images_of_each_format(name: str, case: tuple[str, str]) -> None:
    found = results(*case)
    given, wanted = found[f"{name}_given"], seen(found[f"{name}_given"], name)
    if name in ("rgba8", "rg8"):
        assert np.allclose(found[f"{name}_seen"], wanted, rtol=1.2e-7, atol=0)
    else:
        assert (found[f"{name}_seen"] == wanted).all()
    stored, turned = found[f"{name}_stored"], given[::-1, ::-1]
    assert (stored == (turned.view("u2") if stored.dtype != turned.dtype else turned)).all()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_stores_convert_to_the_nearest_fraction_and_half(case: tuple[str, str]) -> None:
    found = results(*case)
    given = found["conversions_given"]
    assert (given < 0).any()
    assert (given > 1).any()
    assert (found["conversions_fraction"] == np.rint(np.clip(given, 0, 1) * np.float32(255))).all()
    assert (found["conversions_half"] == given.astype("f2")).all()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_images_whose_components_differ_in_size(case: tuple[str, str]) -> None:
    found = results(*case)
    words = found["r11f_g11f_b10f_given"]
    parts = [(words & 0x7FF) << 4, (words >> 11 & 0x7FF) << 4, (words >> 22) << 5]
    wanted = np.stack([part.astype("u2").view("f2").astype("f4") for part in parts], 2)
    assert (found["r11f_g11f_b10f_seen"][..., :3] == wanted).all()
    assert (found["r11f_g11f_b10f_seen"][..., 3] == 1).all()
    words = found["rgb10_a2_given"]
    parts = [(words >> at & most) / np.float32(most) for at, most in ((0, 1023), (10, 1023), (20, 1023), (30, 3))]
    assert np.allclose(found["rgb10_a2_seen"], np.stack(parts, 2), rtol=1.2e-7, atol=0)
    for name in ("r11f_g11f_b10f", "rgb10_a2"):
        assert (found[f"{name}_stored"] == found[f"{name}_given"]).all()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_layers_volumes_and_atomics(case: tuple[str, str]) -> None:
    found = results(*case)
    given = found["layers_given"]
    assert (found["layers_swapped"] == np.where(given == 1000 * LAYERS, -5, given)).all()
    assert (found["layers_volume"] == given + 0.25).all()
    assert found["layers_sums"][:2].tolist() == [
        [WIDTH * HEIGHT] * LAYERS + [0],
        [WIDTH - 1 + 100 * (HEIGHT - 1)] * LAYERS + [0],
    ]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_loads_outside_give_zeros_and_stores_outside_do_nothing(case: tuple[str, str]) -> None:
    found = results(*case)
    wanted = np.zeros((HEIGHT, WIDTH), dtype="u4")
    given = np.pad(found["outside_given"], ((0, 4), (0, 3)))
    wanted[: HEIGHT - 5, 30:] = given[4 + 5 : 4 + HEIGHT, 3 : 3 + WIDTH - 30] + 1
    assert (found["outside_stored"] == wanted).all()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_images_that_are_buffers(case: tuple[str, str]) -> None:
    found = results(*case)
    given, colours = found["buffers_given"], found["buffers_colours"]
    assert (found["buffers_words"] == given ^ 0xFF).all()
    assert (colours == np.stack([given & 255, given >> 24, np.full(128, 128), np.full(128, 255)], 1)).all()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_texels_sizes_swizzles_and_dot_products(case: tuple[str, str]) -> None:
    found = results(*case)
    given = (found["texels_given"].astype("f4") / np.float32(255))[..., [2, 1, 0, 3]]
    got = found["texels_seen"]
    assert np.allclose(got[..., :2], given[..., :2], rtol=1.2e-7, atol=0)
    assert (got[..., 2] == found["texels_whole"][2] + np.float32(LAYERS)).all()
    assert np.allclose(got[..., 3], given @ np.array([1, 2, 4, 8], dtype="f4"), rtol=4e-7)


def test_filtered_cube_maps_are_refused_by_name(tmp_path: Path) -> None:
    place = tmp_path / "filtered.py"
    place.write_text(
        "import moderngl\n"
        "c = moderngl.create_context(standalone=True, backend='egl', require=430)\n"
        "c.texture_cube((8, 8), 4, bytes(256 * 6)).use(0)\n"
        "b = c.buffer(reserve=16); b.bind_to_storage_buffer(1)\n"
        "p = c.compute_shader('#version 430\\nlayout(local_size_x = 1) in; layout(binding = 0) uniform samplerCube t;'\n"
        " 'layout(std430, binding = 1) buffer B { vec4 b; }; void main() { b = textureLod(t, vec3(0.3), 0.0); }')\n"
        "p.run(1); b.read()\n"
    )
    done = run("hd6970", "--timing", "off", str(place))
    assert "filtered cube maps have no meaning here" in done.stderr
