"""Unmodified OpenGL programs on the simulated GeForce 8800, through the system's Mesa, beside Mesa's software driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mesa_drivers import complaints, needs_mesa

SCENES = Path(__file__).with_name("graphics_scenes.py")
pytestmark = needs_mesa("nouveau")
EXACT = ("triangle", "lit_cubes", "several_targets", "primitive_types", "geometry", "multisampled")
"""Scenes in which every channel of every pixel is within 1 of the software driver's."""


def render(command: list[str], folder: Path, name: str) -> Any:
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [*command, str(SCENES), str(folder), name], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not complaints(done.stderr), done.stderr
    return np.load(folder / f"{name}.npy").astype(int)


def test_a_run_says_how_to_get_cycles(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "g80", str(SCENES), str(tmp_path), "triangle"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "with 1 draw, without cycles: --timing full gives them" in done.stdout


def test_time_does_not_change_the_image(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "g80"]
    plain = render(command, tmp_path / "plain", "lit_cubes")
    done = subprocess.run(
        [*command, "--timing", "full", str(SCENES), str(tmp_path), "lit_cubes"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert (np.load(tmp_path / "lit_cubes.npy").astype(int) == plain).all()
    assert "cycles (0.0" in done.stdout
    assert "ROP" in done.stdout


def test_a_report_of_what_is_drawn(tmp_path: Path) -> None:
    """In the command's process, in a Python process of its own, and refused where draws have no cycles."""
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "g80", "--report", str(page)]
    program = [str(SCENES), str(tmp_path), "triangle"]
    told = []
    for words in (program, [sys.executable, *program]):
        page.unlink(missing_ok=True)
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=True)
        assert f"wrote {page}" in done.stdout.replace("\n", "")
        assert "draw 1: 1 triangle" in page.read_text()
        told.append([line for line in done.stdout.splitlines() if "cycles" in line])
    assert told[0] == told[1]
    page.unlink()
    done = subprocess.run(
        [*command, "--timing", "off", *program], capture_output=True, text=True, timeout=300, check=False
    )
    assert not page.exists()
    assert "its draws have no cycles: omit --timing" in done.stderr


def both(tmp_path: Path, name: str) -> tuple[Any, Any]:
    simulated = render([sys.executable, "-m", "warpwright", "run", "--gpu", "g80"], tmp_path / "g80", name)
    return simulated, render([sys.executable], tmp_path / "mesa", name)


@pytest.mark.parametrize("name", EXACT)
def test_scene_is_that_of_the_software_driver(tmp_path: Path, name: str) -> None:
    ours, theirs = both(tmp_path, name)
    assert abs(ours - theirs).max() <= 1
    assert theirs.std() > 10


def test_coverage_of_2000_random_triangles(tmp_path: Path) -> None:
    """The software driver clips triangles that leave the window, which moves a few of their pixels; elsewhere nothing differs."""
    ours, theirs = both(tmp_path, "random_triangles")
    assert (ours != theirs).any(axis=2).sum() <= 12


@pytest.mark.parametrize(
    ("name", "share", "most"),
    [("clipped", 0.999, 1), ("lines", 0.999, 1), ("blended", 1.0, 4), ("sampling", 0.999, 3), ("mipmaps", 1.0, 3)],
)
def test_scene_is_close_to_the_software_driver(tmp_path: Path, name: str, share: float, most: int) -> None:
    ours, theirs = both(tmp_path, name)
    assert (abs(ours - theirs).max(axis=2) <= most).mean() >= share


def test_smooth_lines_cover_what_the_software_driver_covers(tmp_path: Path) -> None:
    """OpenGL leaves a pixel's share to the implementation within the exact area's neighbourhood; the software driver computes it from distances."""
    ours, theirs = both(tmp_path, "smooth_lines")
    assert abs(ours - theirs)[:, :, :3].max() <= 32
    for n in range(24):
        cell = np.s_[n // 6 * 40 + 40 : n // 6 * 40 + 80, n % 6 * 40 : n % 6 * 40 + 40, 0]
        assert ours[cell].sum() == pytest.approx(theirs[cell].sum(), rel=0.03)
        assert ours[cell].sum() / 255 == pytest.approx(30.6, rel=0.005)


def test_a_context_without_opengl_draws_the_same_bits(tmp_path: Path) -> None:
    """``test_graphics_context.py`` compares with a recording of this scene; here the driver compiles and draws it."""
    from tests.test_graphics_context import scene
    from warpwright import GPU
    from warpwright.graphics.context import Context

    drawn = render([sys.executable, "-m", "warpwright", "run", "--gpu", "g80"], tmp_path, "crossing")
    colours, _ = scene(Context(GPU("g80", timing="off")))
    assert np.array_equal((colours[::-1] * 255 + 0.5).astype(np.uint8), drawn)


def test_a_native_program_finds_the_device(tmp_path: Path) -> None:
    """A process of its own (another Python) gets the drop-in libraries by its environment."""
    program = "import moderngl; print(moderngl.create_context(standalone=True, backend='egl').info['GL_RENDERER'])"
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", "g80", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[0] == "NV84"


def test_other_chips_leave_opengl_alone() -> None:
    from warpwright.driver.drm.attach import has_graphics

    assert has_graphics("g80")
    assert has_graphics("g80-ultra")
    assert not has_graphics("a100")
    assert not has_graphics(None)


RELEASES_ALL = """
import moderngl, numpy as np
gl = moderngl.create_context(standalone=True, backend="egl")
texture = gl.texture((16, 8), 4)
target = gl.framebuffer([texture])
target.use()
program = gl.program("#version 330\\nin vec2 at; void main() { gl_Position = vec4(at, 0, 1); }",
                     "#version 330\\nout vec4 c; void main() { c = vec4(1, 0.2, 0, 1); }")
corners = gl.buffer(np.array([-1, -1, 3, -1, -1, 3], "f4").tobytes())
gl.vertex_array(program, [(corners, "2f", "at")]).render()
target.read()
target.release()
texture.release()
gl.release()
"""


def test_a_program_that_releases_all_it_has_made_is_recorded_and_has_a_picture(tmp_path: Path) -> None:
    """Its target and the driver's buffers no longer exist when it ends."""
    pil_image = pytest.importorskip("PIL.Image")
    program, recording, image = (tmp_path / name for name in ("program.py", "frame.wwcs", "frame.png"))
    program.write_text(RELEASES_ALL)
    command = [sys.executable, "-m", "warpwright"]
    for words in (
        ["run", "--gpu", "g80", "--record", str(recording), str(program)],
        ["replay", str(recording), "--image", str(image)],
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    assert "memory is as recorded" in done.stdout
    assert f"wrote {image}" in done.stdout
    with pil_image.open(image) as found:
        assert found.size == (16, 8)
        assert {pixel[1][:3] for pixel in found.convert("RGBA").getcolors()} == {(255, 51, 0)}
