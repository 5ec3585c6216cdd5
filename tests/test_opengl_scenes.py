"""The scenes of ``examples/opengl_scenes.py`` on the simulated GeForce 8800, beside Mesa's software driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mesa_drivers import needs_mesa

SCENES = Path(__file__).parents[1] / "examples" / "opengl_scenes.py"
pytestmark = needs_mesa("nouveau")
ACCURATE = {"GALLIVM_PERF": "no_brilinear,no_rho_approx,no_quad_lod,no_aos_sampling"}
"""Makes the software driver filter in floats, where it would otherwise in eight bits."""
WITHIN_ONE = ("lit", "shadows", "deferred", "particles", "multisampled", "terrain", "reflections", "mirror", "bloom")


def drawn(command: list[str], folder: Path, name: str, **variables: str) -> Any:
    folder.mkdir()
    done = subprocess.run(
        [*command, str(SCENES), name, str(folder / "image.npy")],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warpwright:" not in done.stderr, done.stderr
    return np.load(folder / "image.npy").astype(int)


def difference(tmp_path: Path, name: str, **variables: str) -> Any:
    """The largest difference of a channel, for each pixel."""
    ours = drawn([sys.executable, "-m", "warpwright", "run", "--gpu", "g80"], tmp_path / "g80", name)
    theirs = drawn([sys.executable], tmp_path / "mesa", name, **variables)
    assert theirs.std() > 10
    return abs(ours - theirs).max(axis=2)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n != "shadows" else ()) for n in WITHIN_ONE]
)
def test_scene_is_that_of_the_software_driver(tmp_path: Path, name: str) -> None:
    assert (difference(tmp_path, name) <= 1).mean() >= 0.999


@pytest.mark.slow
def test_textures_differ_by_the_bits_of_the_filters_weights(tmp_path: Path) -> None:
    """Weights and levels have eight bits after the point on the chip; the software driver has floats here."""
    found = difference(tmp_path, "textured", **ACCURATE)
    assert found.max() <= 2
    assert (found <= 1).mean() >= 0.998


def test_the_scenes_are_listed() -> None:
    done = subprocess.run([sys.executable, str(SCENES)], capture_output=True, text=True, timeout=60, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["textured", *WITHIN_ONE]
