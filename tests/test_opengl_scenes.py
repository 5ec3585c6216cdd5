"""The scenes of ``examples/opengl_scenes.py`` on the simulated GeForce 8800, beside Mesa's software driver."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mesa_drivers import needs_mesa
from tests.textured_reference import textured

SCENES = Path(__file__).parents[1] / "examples" / "opengl_scenes.py"
pytestmark = needs_mesa("nouveau")
WITHIN_ONE = ("lit", "shadows", "deferred", "particles", "multisampled", "terrain", "reflections", "mirror", "bloom")


def drawn(command: list[str], folder: Path, name: str) -> Any:
    folder.mkdir()
    done = subprocess.run(
        [*command, str(SCENES), name, str(folder / "image.npy")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "warpwright:" in line and "compiling" not in line]
    assert said == []
    return np.load(folder / "image.npy").astype(int)


def difference(tmp_path: Path, name: str) -> Any:
    """The largest difference of a channel, for each pixel."""
    ours = drawn([sys.executable, "-m", "warpwright", "run", "--gpu", "g80"], tmp_path / "g80", name)
    theirs = drawn([sys.executable], tmp_path / "mesa", name)
    assert theirs.std() > 10
    return abs(ours - theirs).max(axis=2)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n != "shadows" else pytest.mark.long) for n in WITHIN_ONE]
)
def test_scene_is_that_of_the_software_driver(tmp_path: Path, name: str) -> None:
    assert (difference(tmp_path, name) <= 1).mean() >= 0.999


def test_textures_are_filtered_as_in_double_precision(tmp_path: Path) -> None:
    """The software driver cannot be the reference: its levels and its filter lose up to four of 255."""
    image = drawn([sys.executable, "-m", "warpwright", "run", "--gpu", "g80"], tmp_path / "g80", "textured")
    found = abs(image[::-1, :, :3] - textured()).max(axis=2)
    assert (found <= 1).mean() >= 0.9999


@pytest.mark.slow
def test_the_software_driver_filters_textures_with_fewer_bits(tmp_path: Path) -> None:
    image = drawn([sys.executable], tmp_path / "mesa", "textured")
    found = abs(image[::-1, :, :3] - textured()).max(axis=2)
    assert 0.98 < (found <= 1).mean() < 0.995


def test_the_scenes_are_listed() -> None:
    done = subprocess.run([sys.executable, str(SCENES)], capture_output=True, text=True, timeout=60, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["textured", *WITHIN_ONE]


def test_what_cannot_be_drawn_or_written_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    example = runpy.run_path(str(SCENES))
    with pytest.raises(SystemExit, match="there is no scene 'nosuch': textured, lit, "):
        example["main"](["nosuch"])
    monkeypatch.setitem(example["main"].__globals__, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"x\.png needs Pillow: pip install pillow, or name a \.npy file"):
        example["main"](["lit", "x.png"])
