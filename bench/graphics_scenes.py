"""Scenes of the studies of Tesla's graphics (``warpwright/studies/tesla_graphics.py``), as programs of OpenGL 3.3.

``python -m bench.graphics_scenes`` records each one to ``warpwright/studies/recordings``; that needs moderngl, EGL and Mesa's nouveau driver.
``python -m bench.graphics_scenes NAME`` renders one, on whatever device there is, and is what is recorded.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RECORDINGS = Path(__file__).parents[1] / "warpwright" / "studies" / "recordings"
SIZE = 512
SCENES: dict[str, Callable[[Any], None]] = {}
PLAIN = "#version 330\nin vec3 place; void main() { gl_Position = vec4(place, 1.0); }"
RED = "#version 330\nout vec4 colour; void main() { colour = vec4(1.0, 0.5, 0.25, 0.5); }"
NOISE = """#version 330
out vec4 colour;
void main() { vec2 p = gl_FragCoord.xy; colour = fract(sin(vec4(dot(p, vec2(12.9, 78.2)), dot(p, vec2(39.3, 11.1)), p)) * 43758.5); }"""
LIT_VERTEX = """#version 330
in vec3 place; in vec3 normal; uniform mat4 turn; out vec3 n; out vec3 p;
void main() { p = mat3(turn) * place; n = mat3(turn) * normal; gl_Position = turn * vec4(place, 1.0); gl_Position.z *= 0.5; }"""
LIT_PIXEL = """#version 330
in vec3 n; in vec3 p; out vec4 colour;
void main() {
  vec3 u = normalize(n), l = normalize(vec3(0.4, 0.5, -0.8)), h = normalize(l + normalize(vec3(0, 0, -2) - p));
  float d = max(dot(u, l), 0.0), s = pow(max(dot(u, h), 0.0), 24.0);
  colour = vec4(vec3(0.1) + d * (0.5 + 0.5 * u) + s, 1.0);
}"""
LONG_VERTEX = """#version 330
in vec3 place; in vec3 normal; uniform mat4 turn; out vec3 n;
void main() {
  vec3 v = normal; for (int i = 0; i < 12; i++) v = v * 0.98 + sin(v.yzx + place) * 0.02;
  n = v; gl_Position = turn * vec4(place, 1.0); gl_Position.z *= 0.5;
}"""
SHORT_PIXEL = "#version 330\nin vec3 n; out vec4 colour; void main() { colour = vec4(n * 0.5 + 0.5, 1.0); }"
HEAVY_PIXEL = """#version 330
in vec3 n; in vec3 p; out vec4 colour;
void main() {
  vec3 v = n; for (int i = 0; i < 24; i++) v = v * 0.98 + sin(v.yzx + p) * 0.02;
  colour = vec4(v * 0.5 + 0.5, 1.0);%s
}"""


def scene(function: Callable[[Any], None]) -> Callable[[Any], None]:
    SCENES[function.__name__] = function
    return function


def target(gl: Any, depth: bool = True, samples: int = 0, kind: str = "f1") -> Any:
    size = (SIZE, SIZE)
    made = gl.framebuffer(
        [gl.renderbuffer(size, 4, samples=samples, dtype=kind)],
        gl.depth_renderbuffer(size, samples=samples) if depth else None,
    )
    made.use()
    made.clear(0.1, 0.1, 0.2, 1.0, depth=1.0)
    return made


def layers(gl: Any, depths: list[float], pixel: str = RED) -> None:
    """Squares over the whole window, one draw each."""
    program = gl.program(vertex_shader=PLAIN, fragment_shader=pixel)
    for z in depths:
        corners = np.array([[-1, -1, z], [1, -1, z], [-1, 1, z], [1, 1, z]], "f4")
        array = gl.vertex_array(program, [(gl.buffer(corners.tobytes()), "3f", "place")])
        array.render(5)


def ball(rows: int) -> Any:
    """Vertices (place, normal) of a sphere as one strip of triangles."""
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 2 * rows + 1), np.linspace(0, np.pi, rows + 1))
    place = np.stack([np.cos(u) * np.sin(v), np.cos(v), np.sin(u) * np.sin(v)], axis=-1).astype("f4")
    strips = np.stack([place[:-1], place[1:]], axis=2).reshape(rows, -1, 3)
    # A row ends, and the next one begins, with a vertex more, so that nothing is drawn between them.
    strips = np.concatenate([strips[:, :1], strips, strips[:, -1:]], axis=1).reshape(-1, 3)
    return np.concatenate([strips, strips], axis=1)


def balls(
    gl: Any, rows: int, places: list[tuple[float, float, float, float]], pixel: str, vertex: str = LIT_VERTEX
) -> None:
    """Spheres with the given number of rows of triangles: x, y, depth, radius."""
    program = gl.program(vertex_shader=vertex, fragment_shader=pixel)
    array = gl.vertex_array(program, [(gl.buffer(ball(rows).tobytes()), "3f 3f", "place", "normal")])
    for x, y, z, radius in places:
        turn = np.diag([radius, radius, radius, 1.0]).astype("f4")
        turn[3, :3] = x, y, z
        program["turn"].write(turn.tobytes())
        array.render(5)


@scene
def fill(gl: Any) -> None:
    """Colour alone: eight squares over the whole window."""
    target(gl, depth=False)
    layers(gl, [0.0] * 8)


@scene
def depth_only(gl: Any) -> None:
    """Depth alone: eight squares, each in front of the one before, with colours off."""
    made = target(gl)
    made.color_mask = False, False, False, False
    made.use()
    gl.enable(gl.DEPTH_TEST)
    layers(gl, [0.8 - 0.1 * n for n in range(8)])


@scene
def hidden(gl: Any) -> None:
    """Sixteen squares behind one that was drawn before."""
    target(gl)
    gl.enable(gl.DEPTH_TEST)
    layers(gl, [-0.5] + [0.5] * 16)


@scene
def blended(gl: Any) -> None:
    """Eight squares of four 16-bit floats per pixel, blended over random colours."""
    target(gl, depth=False, kind="f2")
    layers(gl, [0.0], NOISE)
    gl.enable(gl.BLEND)
    layers(gl, [0.0] * 8)


@scene
def primitives(gl: Any) -> None:
    """A strip of 40,000 triangles that fall between the centres of pixels."""
    target(gl)
    n = np.arange(40_002)
    places = np.stack([n * 0.4 / SIZE / len(n), (n & 1) * 0.4 / SIZE, 0 * n], axis=1) + 0.001 / SIZE
    program = gl.program(vertex_shader=PLAIN, fragment_shader=RED)
    gl.vertex_array(program, [(gl.buffer(places.astype("f4").tobytes()), "3f", "place")]).render(5)


def sampled(gl: Any, lookups: int, filters: tuple[int, int], stretch: float, anisotropy: float = 1.0) -> None:
    target(gl, depth=False)
    image = gl.texture(
        (256, 256),
        4,
        np.tile(np.random.default_rng(2).integers(0, 256, (32, 32, 4), dtype=np.uint8), (8, 8, 1)).tobytes(),
    )
    image.build_mipmaps()
    image.filter, image.anisotropy = filters, anisotropy
    image.use()
    program = gl.program(
        vertex_shader=PLAIN,
        fragment_shader=f"""#version 330
uniform sampler2D image; out vec4 colour;
void main() {{
  vec2 at = gl_FragCoord.xy / vec2(256.0, {256.0 * stretch}); vec4 sum = vec4(0.0);
  {" ".join(f"sum += texture(image, at + vec2({n / 16.0}, 0.0));" for n in range(lookups))}
  colour = sum / {float(lookups)};
}}""",
    )
    corners = np.array([[-1, -1, 0], [1, -1, 0], [-1, 1, 0], [1, 1, 0]], "f4")
    gl.vertex_array(program, [(gl.buffer(corners.tobytes()), "3f", "place")]).render(5)


@scene
def bilinear(gl: Any) -> None:
    """Sixteen bilinear samples for each pixel."""
    sampled(gl, 16, (9729, 9729), 1.0)


@scene
def trilinear(gl: Any) -> None:
    """Sixteen trilinear samples for each pixel, halfway between two levels."""
    sampled(gl, 16, (9987, 9729), 0.7)


@scene
def anisotropic(gl: Any) -> None:
    """Sixteen samples for each pixel at an anisotropy of two."""
    sampled(gl, 16, (9985, 9729), 0.5, 2.0)


@scene
def large_triangles(gl: Any) -> None:
    """Four spheres of few triangles, side by side, lit for each pixel."""
    target(gl)
    gl.enable(gl.DEPTH_TEST | gl.CULL_FACE)
    balls(gl, 8, [(x, y, 0.0, 0.48) for x in (-0.5, 0.5) for y in (-0.5, 0.5)], LIT_PIXEL)


@scene
def small_triangles(gl: Any) -> None:
    """Sixty-four small spheres of many triangles, with a long vertex program and a short pixel program."""
    target(gl)
    gl.enable(gl.DEPTH_TEST | gl.CULL_FACE)
    steps = np.linspace(-0.85, 0.85, 8).tolist()
    balls(gl, 24, [(x, y, 0.0, 0.1) for x in steps for y in steps], SHORT_PIXEL, LONG_VERTEX)


@scene
def mixed(gl: Any) -> None:
    """Two large spheres of few triangles and thirty-two small ones of many, each with its programs."""
    target(gl)
    gl.enable(gl.DEPTH_TEST | gl.CULL_FACE)
    balls(gl, 8, [(-0.5, 0.5, 0.0, 0.48), (0.5, 0.5, 0.0, 0.48)], LIT_PIXEL)
    steps = np.linspace(-0.85, 0.85, 8).tolist()
    balls(gl, 24, [(x, y, 0.0, 0.1) for x in steps for y in (-0.9, -0.65, -0.4, -0.15)], SHORT_PIXEL, LONG_VERTEX)


def stacked(gl: Any, order: list[int], discards: bool = False) -> None:
    target(gl)
    gl.enable(gl.DEPTH_TEST)
    places = [(0.02 * n, -0.02 * n, 0.1 * n, 0.8) for n in order]
    balls(gl, 16, places, HEAVY_PIXEL % (" if (colour.x < -1.0) discard;" if discards else ""))


@scene
def front_to_back(gl: Any) -> None:
    """Six spheres, the nearest first, with a long pixel program."""
    stacked(gl, list(range(6)))


@scene
def back_to_front(gl: Any) -> None:
    """The same, the farthest first."""
    stacked(gl, list(range(5, -1, -1)))


@scene
def late_depth(gl: Any) -> None:
    """The nearest first, with a program that may discard pixels: depth is tested after it."""
    stacked(gl, list(range(6)), discards=True)


def _antialiased(samples: int) -> Callable[[Any], None]:
    def draw(gl: Any) -> None:
        made = target(gl, samples=samples)
        gl.enable(gl.DEPTH_TEST | gl.CULL_FACE)
        balls(gl, 12, [(x, y, 0.0, 0.3) for x in (-0.62, 0.0, 0.62) for y in (-0.62, 0.0, 0.62)], LIT_PIXEL)
        if samples:
            plain = target(gl)
            gl.copy_framebuffer(plain, made)

    draw.__name__ = f"antialiased_{samples or 1}"
    return draw


for _samples in (0, 2, 4, 8):
    scene(_antialiased(_samples))


AVERAGE = """#version 330
uniform sampler2D drawn; out vec4 colour;
void main() {
  ivec2 first = ivec2(gl_FragCoord.xy) * SCALE; vec4 sum = vec4(0.0);
  for (int y = 0; y < SCALE; y++) for (int x = 0; x < SCALE; x++) sum += texelFetch(drawn, first + ivec2(x, y), 0);
  colour = sum / float(SCALE * SCALE);
}"""


def _supersampled(scale: int) -> Callable[[Any], None]:
    """The spheres of ``antialiased_1`` on a surface that is larger along each axis, and the mean of each pixel's samples."""

    def draw(gl: Any) -> None:
        size = (scale * SIZE, scale * SIZE)
        drawn = gl.texture(size, 4)
        made = gl.framebuffer([drawn], gl.depth_renderbuffer(size))
        made.use()
        made.clear(0.1, 0.1, 0.2, 1.0, depth=1.0)
        gl.enable(gl.DEPTH_TEST | gl.CULL_FACE)
        balls(gl, 12, [(x, y, 0.0, 0.3) for x in (-0.62, 0.0, 0.62) for y in (-0.62, 0.0, 0.62)], LIT_PIXEL)
        target(gl, depth=False)
        gl.disable(gl.DEPTH_TEST | gl.CULL_FACE)
        drawn.use(0)
        layers(gl, [0.0], AVERAGE.replace("SCALE", str(scale)))

    draw.__name__ = f"supersampled_{scale * scale}"
    return draw


for _scale in (2, 4):
    scene(_supersampled(_scale))


def main(names: list[str]) -> None:
    if len(names) == 1:
        import moderngl

        gl = moderngl.create_context(standalone=True, backend="egl")
        SCENES[names[0]](gl)
        gl.finish()
        return
    RECORDINGS.mkdir(exist_ok=True)
    for name in names or list(SCENES):
        made = RECORDINGS / f"{name}.wwcs"
        command = [sys.executable, "-m", "warpwright", "run", "--gpu", "g80", "--record", str(made), __file__, name]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
