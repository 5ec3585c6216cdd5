"""Ten scenes of OpenGL 3.3, drawn without a window: ``warpwright run --gpu g80 examples/opengl_scenes.py shadows shadows.png``.

``python examples/opengl_scenes.py [NAME [FILE]]`` draws a scene on whatever device there is and writes it as PNG or as NumPy's .npy; without a name, it
lists the scenes.  Needs moderngl, and Pillow for PNG.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import moderngl
import numpy as np

WIDTH, HEIGHT = 320, 240
Image = np.ndarray[Any, np.dtype[np.uint8]]
SCENES: dict[str, Callable[[Any], Any]] = {}
"""Each draws with a context and returns the framebuffer that has the picture."""

LIGHT = np.array([0.5, 0.8, 0.35], "f4")
SCREEN = (
    "#version 330\nin vec2 place; out vec2 uv; void main() { gl_Position = vec4(place, 0, 1); uv = place * 0.5 + 0.5; }"
)
OBJECT = """#version 330
uniform mat4 model, view, projection; in vec3 position, normal; in vec2 texcoord; out vec3 p, n; out vec2 uv;
void main() {
  vec4 world = model * vec4(position, 1.0); p = world.xyz; n = mat3(model) * normal; uv = texcoord;
  gl_Position = projection * view * world;
}"""


def scene(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    SCENES[function.__name__] = function
    return function


# --- matrices, as OpenGL reads them: by columns ---------------------------------------------------------
def perspective(degrees: float, aspect: float, near: float, far: float) -> Any:
    f = 1.0 / np.tan(np.radians(degrees) / 2)
    m = np.zeros((4, 4), "f4")
    m[0, 0], m[1, 1], m[2, 2], m[3, 2], m[2, 3] = (
        f / aspect,
        f,
        (far + near) / (near - far),
        2 * far * near / (near - far),
        -1,
    )
    return m


def orthographic(half: float, near: float, far: float) -> Any:
    m = np.diag([1 / half, 1 / half, -2 / (far - near), 1]).astype("f4")
    m[3, 2] = -(far + near) / (far - near)
    return m


def look(eye: Any, at: Any) -> Any:
    back = np.subtract(eye, at) / np.linalg.norm(np.subtract(eye, at))
    right = np.cross([0.0, 1.0, 0.0], back)
    right /= np.linalg.norm(right)
    m = np.eye(4)
    m[:3, 0], m[:3, 1], m[:3, 2] = right, np.cross(back, right), back
    m[3, :3] = -m[:3, :3].T @ np.asarray(eye)
    return m.astype("f4")


def moved(x: float, y: float, z: float, scale: Any = 1.0, turn: float = 0.0) -> Any:
    c, s = np.cos(turn), np.sin(turn)
    m = np.array([[c, 0, -s, 0], [0, 1, 0, 0], [s, 0, c, 0], [0, 0, 0, 1]])
    m[:3] *= np.broadcast_to(scale, 3)[:, None]
    m[3, :3] = x, y, z
    return m.astype("f4")


# --- meshes: position, normal, texture coordinates ------------------------------------------------------
def surface(at: Callable[[Any, Any], tuple[Any, Any, Any]], columns: int, rows: int) -> Any:
    """Triangles of a surface over the unit square."""
    u, v = np.meshgrid(np.linspace(0, 1, columns + 1), np.linspace(0, 1, rows + 1))
    step = 1e-3
    here = np.stack(at(u, v), axis=-1)
    normal = np.cross(np.stack(at(u, v + step), -1) - here, np.stack(at(u + step, v), -1) - here)
    normal /= np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-12)
    corners = np.concatenate([here, normal, u[..., None], v[..., None]], axis=-1).astype("f4")
    a, b, c, d = corners[:-1, :-1], corners[:-1, 1:], corners[1:, :-1], corners[1:, 1:]
    return np.stack([a, c, b, b, c, d], axis=2).reshape(-1, 8)


def torus(columns: int = 48, rows: int = 24) -> Any:
    def at(u: Any, v: Any) -> tuple[Any, Any, Any]:
        a, b = 2 * np.pi * u, 2 * np.pi * v
        r = 1.0 + 0.4 * np.cos(b)
        return r * np.cos(a), 0.4 * np.sin(b), r * np.sin(a)

    return surface(at, columns, rows)


def ball(columns: int = 32, rows: int = 16) -> Any:
    def at(u: Any, v: Any) -> tuple[Any, Any, Any]:
        a, b = 2 * np.pi * u, np.pi * v
        return np.cos(a) * np.sin(b), np.cos(b), np.sin(a) * np.sin(b)

    mesh = surface(at, columns, rows)
    mesh[:, 3:6] = mesh[:, :3]
    return mesh


def box() -> Any:
    corners = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            face = []
            for u, v in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                p, n = np.zeros(3), np.zeros(3)
                p[axis], p[(axis + 1) % 3], p[(axis + 2) % 3], n[axis] = side, u * side, v, side
                face.append([*p, *n, (u + 1) / 2, (v + 1) / 2])
            corners += [face[k] for k in (0, 1, 2, 0, 2, 3)]
    return np.array(corners, "f4")


def floor(half: float = 6.0, repeats: float = 6.0) -> Any:
    mesh = surface(lambda u, v: (half * (2 * u - 1), 0 * u, half * (2 * v - 1)), 1, 1)
    mesh[:, 3:6], mesh[:, 6:] = (0, 1, 0), mesh[:, 6:] * repeats
    return mesh


# --- pieces that scenes share -------------------------------------------------------------------------
def canvas(gl: Any, samples: int = 0) -> Any:
    made = gl.simple_framebuffer((WIDTH, HEIGHT), samples=samples)
    made.use()
    made.clear(0.35, 0.5, 0.7, 1.0)
    return made


def drawn(gl: Any, program: Any, mesh: Any) -> Any:
    return gl.vertex_array(
        program, [(gl.buffer(mesh.tobytes()), "3f 3f 2f", "position", "normal", "texcoord")], skip_errors=True
    )


def screen(gl: Any, pixel: str) -> Any:
    """A program over the whole target, and its vertices."""
    program = gl.program(vertex_shader=SCREEN, fragment_shader=pixel)
    corners = np.array([[-1, -1], [3, -1], [-1, 3]], "f4")
    return program, gl.vertex_array(program, [(gl.buffer(corners.tobytes()), "2f", "place")])


def camera(program: Any, eye: Any = (2.5, 2.2, 4.2), at: Any = (0.0, 0.4, 0.0)) -> None:
    program["view"].write(look(eye, at).tobytes())
    program["projection"].write(perspective(45, WIDTH / HEIGHT, 0.5, 40).tobytes())
    if "eye" in program:
        program["eye"].value = tuple(eye)


def bricks(size: int = 128) -> Image:
    """A wall of bricks, with some noise."""
    y, x = np.mgrid[0:size, 0:size]
    row = y // 16
    joint = (y % 16 < 2) | ((x + 16 * (row % 2)) % 32 < 2)
    chance = np.random.default_rng(1)
    shade = chance.integers(0, 40, (size, size)) + 12 * ((row * 7 + (x + 16 * (row % 2)) // 32 * 5) % 4)
    wall = np.stack([150 + shade, 60 + shade // 2, 40 + shade // 3], axis=-1)
    mortar = np.repeat((170 + shade // 2)[..., None], 3, axis=-1)
    made = np.where(joint[..., None], mortar, wall)
    return np.concatenate([made, np.full((size, size, 1), 255)], axis=-1).astype(np.uint8)


def texture(gl: Any, texels: Any, repeat: bool = True, unit: int = 0, anisotropy: float = 1.0) -> Any:
    kind = {np.dtype(np.uint8): "f1", np.dtype(np.float16): "f2", np.dtype(np.float32): "f4"}[texels.dtype]
    made = gl.texture((texels.shape[1], texels.shape[0]), texels.shape[2], texels.tobytes(), dtype=kind)
    made.build_mipmaps()
    made.filter, made.anisotropy = (moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR), anisotropy
    made.repeat_x = made.repeat_y = repeat
    made.use(unit)
    return made


# --- the scenes -----------------------------------------------------------------------------------------
@scene
def textured(gl: Any) -> Any:
    """Crates on a floor of bricks: trilinear textures and fog."""
    program = gl.program(
        vertex_shader=OBJECT,
        fragment_shader="""#version 330
uniform sampler2D image; uniform vec3 eye; in vec3 p, n; in vec2 uv; out vec4 colour;
void main() {
  float fog = exp(-0.12 * distance(p, eye));
  vec3 lit = texture(image, uv).rgb * (0.35 + 0.65 * max(dot(normalize(n), normalize(vec3(0.5, 0.8, 0.35))), 0.0));
  colour = vec4(mix(vec3(0.35, 0.5, 0.7), lit, fog), 1.0);
}""",
    )
    target = canvas(gl)
    gl.enable(gl.DEPTH_TEST)
    texture(gl, bricks())
    camera(program)
    ground, crate = drawn(gl, program, floor(12.0, 12.0)), drawn(gl, program, box())
    program["model"].write(moved(0, 0, 0).tobytes())
    ground.render()
    for x, z, turn in ((0, 0, 0.3), (-2.2, -1.5, 0.9), (1.8, -2.6, 0.1), (-0.5, -5.0, 0.6)):
        program["model"].write(moved(x, 0.6, z, 0.6, turn).tobytes())
        crate.render()
    return target


LIT = """#version 330
uniform vec3 eye, tint; in vec3 p, n; out vec4 colour;
void main() {
  vec3 u = normalize(n), v = normalize(eye - p), sum = tint * 0.1;
  for (int i = 0; i < 3; i++) {
    vec3 lamp = vec3(2.5 * sin(2.1 * float(i)), 2.5, 2.5 * cos(2.1 * float(i))), l = lamp - p;
    float near = 6.0 / (1.0 + dot(l, l)); l = normalize(l);
    vec3 hue = vec3(i == 0, i == 1, i == 2) * 0.6 + 0.4;
    sum += hue * near * (tint * max(dot(u, l), 0.0) + 0.5 * pow(max(dot(u, normalize(l + v)), 0.0), 32.0));
  }
  colour = vec4(sum, 1.0);
}"""


@scene
def lit(gl: Any) -> Any:
    """A torus and balls under three coloured lamps, Blinn and Phong's light per pixel."""
    program = gl.program(vertex_shader=OBJECT, fragment_shader=LIT)
    target = canvas(gl)
    gl.enable(gl.DEPTH_TEST | gl.CULL_FACE)
    camera(program)
    ring, round_, ground = drawn(gl, program, torus()), drawn(gl, program, ball()), drawn(gl, program, floor())
    gl.front_face = "ccw"
    for array, tint, model in (
        (ground, (0.5, 0.5, 0.5), moved(0, -0.4, 0)),
        (ring, (0.9, 0.6, 0.3), moved(0, 0.0, 0)),
        (round_, (0.4, 0.7, 0.9), moved(0, 0.3, 0, 0.5)),
        (round_, (0.8, 0.8, 0.8), moved(-1.9, 0.1, 0.6, 0.45)),
        (round_, (0.3, 0.8, 0.4), moved(1.9, 0.1, -0.9, 0.45)),
    ):
        program["model"].write(model.tobytes())
        program["tint"].value = tint
        array.render()
    return target


@scene
def shadows(gl: Any) -> Any:
    """A shadow map: depth from the light, then nine compared samples for each pixel."""
    size, projection, view = 512, orthographic(4.5, 1.0, 14.0), look(7 * LIGHT, (0, 0, 0))
    depths = gl.depth_texture((size, size))
    depths.compare_func, depths.repeat_x, depths.repeat_y = "<=", False, False
    depths.filter = moderngl.LINEAR, moderngl.LINEAR
    cast = gl.program(vertex_shader=OBJECT, fragment_shader="#version 330\nvoid main() { }")
    shown = gl.program(
        vertex_shader=OBJECT,
        fragment_shader="""#version 330
uniform sampler2DShadow shadow; uniform mat4 light; uniform vec3 tint; in vec3 p, n; out vec4 colour;
void main() {
  vec4 at = light * vec4(p, 1.0); vec3 s = at.xyz * 0.5 + 0.5; float lit = 0.0;
  for (int y = -1; y <= 1; y++) for (int x = -1; x <= 1; x++) lit += texture(shadow, s + vec3(vec2(x, y) * 1.5 / 512.0, -0.004));
  float d = max(dot(normalize(n), normalize(vec3(0.5, 0.8, 0.35))), 0.0);
  colour = vec4(tint * (0.25 + 0.75 * d * lit / 9.0), 1.0);
}""",
    )
    shown["light"].write((view @ projection).tobytes())
    camera(shown)
    cast["view"].write(view.tobytes())
    cast["projection"].write(projection.tobytes())
    things = [
        (floor(), (0.8, 0.75, 0.6), moved(0, 0, 0)),
        (box(), (0.7, 0.3, 0.3), moved(-1.2, 0.5, 0.2, 0.5, 0.5)),
        (torus(), (0.3, 0.6, 0.8), moved(0.9, 0.9, -0.4, 0.8, 0.2)),
        (box(), (0.5, 0.7, 0.4), moved(0.2, 1.0, -2.2, (0.2, 1.0, 0.2))),
    ]
    gl.enable(gl.DEPTH_TEST)
    behind = gl.framebuffer(depth_attachment=depths)
    target = None
    for program, place in ((cast, behind), (shown, None)):
        if place is None:
            target = canvas(gl)
            depths.use(0)
        else:
            place.use()
            place.clear(depth=1.0)
        for mesh, tint, model in things:
            program["model"].write(model.tobytes())
            if "tint" in program:
                program["tint"].value = tint
            drawn(gl, program, mesh).render()
    return target


@scene
def deferred(gl: Any) -> Any:
    """Place, normal and colour in three targets; then 24 lamps for each pixel."""
    parts = [gl.texture((WIDTH, HEIGHT), 4, dtype="f4"), gl.texture((WIDTH, HEIGHT), 4, dtype="f2")]
    parts.append(gl.texture((WIDTH, HEIGHT), 4))
    first = gl.framebuffer(parts, gl.depth_renderbuffer((WIDTH, HEIGHT)))
    program = gl.program(
        vertex_shader=OBJECT,
        fragment_shader="""#version 330
uniform vec3 tint; in vec3 p, n;
layout(location = 0) out vec4 place; layout(location = 1) out vec4 normal; layout(location = 2) out vec4 colour;
void main() { place = vec4(p, 1.0); normal = vec4(normalize(n), 0.0); colour = vec4(tint, 1.0); }""",
    )
    first.use()
    first.clear()
    gl.enable(gl.DEPTH_TEST)
    camera(program)
    round_ = drawn(gl, program, ball(24, 12))
    chance = np.random.default_rng(8)
    program["model"].write(moved(0, 0, 0).tobytes())
    program["tint"].value = (0.7, 0.7, 0.7)
    drawn(gl, program, floor()).render()
    for n in range(25):
        program["model"].write(moved(1.1 * (n % 5 - 2), 0.35, 1.1 * (n // 5 - 3), 0.35).tobytes())
        program["tint"].value = tuple(chance.uniform(0.3, 1.0, 3).tolist())
        round_.render()
    shade, whole = screen(
        gl,
        """#version 330
uniform sampler2D places, normals, colours; uniform vec3 lamps[24], hues[24]; uniform vec3 eye; in vec2 uv; out vec4 colour;
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy); vec4 p = texelFetch(places, at, 0);
  if (p.w == 0.0) { colour = vec4(0.02, 0.03, 0.06, 1.0); return; }
  vec3 n = texelFetch(normals, at, 0).xyz, base = texelFetch(colours, at, 0).rgb, sum = base * 0.05, v = normalize(eye - p.xyz);
  for (int i = 0; i < 24; i++) {
    vec3 l = lamps[i] - p.xyz; float d = dot(l, l); l *= inversesqrt(d);
    sum += hues[i] / (1.0 + 4.0 * d) * (base * max(dot(n, l), 0.0) + 0.4 * pow(max(dot(n, normalize(l + v)), 0.0), 20.0));
  }
  colour = vec4(sum, 1.0);
}""",
    )
    gl.disable(gl.DEPTH_TEST)
    target = canvas(gl)
    for unit, (name, part) in enumerate(zip(("places", "normals", "colours"), parts, strict=True)):
        part.filter = moderngl.NEAREST, moderngl.NEAREST
        part.use(unit)
        shade[name].value = unit
    lamps = np.concatenate(
        [chance.uniform(-2.6, 2.6, (24, 1)), chance.uniform(0.5, 1.2, (24, 1)), chance.uniform(-3.6, 1.6, (24, 1))], 1
    )
    shade["lamps"].write(lamps.astype("f4").tobytes())
    shade["hues"].write(chance.uniform(0.2, 2.0, (24, 3)).astype("f4").tobytes())
    shade["eye"].value = (2.5, 2.2, 4.2)
    whole.render()
    return target


@scene
def particles(gl: Any) -> Any:
    """600 sprites of a fountain, added to each other, before a dark ground."""
    program = gl.program(
        vertex_shader="""#version 330
uniform mat4 view, projection; in vec3 speed; in float age; out float life;
void main() {
  vec3 p = vec3(0.0, 0.1, 0.0) + speed * age - vec3(0.0, 1.6, 0.0) * age * age;
  gl_Position = projection * view * vec4(p, 1.0); gl_PointSize = 60.0 / gl_Position.w; life = 1.0 - age / 1.6;
}""",
        fragment_shader="""#version 330
in float life; out vec4 colour;
void main() {
  float r = length(gl_PointCoord * 2.0 - 1.0); if (r > 1.0) discard;
  colour = vec4(vec3(1.0, 0.55, 0.2) * life + vec3(0.0, 0.1, 0.4) * (1.0 - life), 1.0) * (1.0 - r) * 0.35;
}""",
    )
    target = canvas(gl)
    target.clear(0.02, 0.02, 0.05, 1.0)
    camera(program, (0.0, 1.3, 4.5), (0.0, 0.9, 0.0))
    chance = np.random.default_rng(12)
    angle, out = chance.uniform(0, 2 * np.pi, 600), chance.uniform(0.1, 0.9, 600)
    data = np.stack(
        [out * np.cos(angle), chance.uniform(2.0, 3.2, 600), out * np.sin(angle), chance.uniform(0, 1.6, 600)], 1
    )
    gl.enable(gl.BLEND | gl.PROGRAM_POINT_SIZE)
    gl.enable_direct(0x8861)  # GL_POINT_SPRITE
    gl.blend_func = gl.ONE, gl.ONE
    array = gl.vertex_array(program, [(gl.buffer(data.astype("f4").tobytes()), "3f 1f", "speed", "age")])
    array.render(gl.POINTS)
    return target


@scene
def multisampled(gl: Any) -> Any:
    """Thin spokes and a torus with four samples per pixel."""
    program = gl.program(vertex_shader=OBJECT, fragment_shader=LIT)
    target = canvas(gl, samples=4)
    gl.enable(gl.DEPTH_TEST)
    camera(program, (0.0, 2.6, 4.0), (0.0, 0.2, 0.0))
    spoke, ring = drawn(gl, program, box()), drawn(gl, program, torus())
    program["tint"].value = (0.9, 0.7, 0.4)
    program["model"].write(moved(0, 0.2, 0).tobytes())
    ring.render()
    program["tint"].value = (0.9, 0.9, 0.9)
    for n in range(18):
        program["model"].write(moved(0, 0.2, 0, (1.9, 0.015, 0.015), n * np.pi / 18).tobytes())
        spoke.render()
    made = gl.simple_framebuffer((WIDTH, HEIGHT))
    gl.copy_framebuffer(made, target)
    return made


@scene
def terrain(gl: Any) -> Any:
    """A height map that the vertex program samples, coloured by height and slope."""
    program = gl.program(
        vertex_shader="""#version 330
uniform sampler2D heights; uniform mat4 view, projection; in vec2 place; out vec3 p, n;
float at(vec2 uv) { return 1.6 * textureLod(heights, uv, 0.0).r; }
void main() {
  float e = 1.0 / 64.0, h = at(place);
  p = vec3(place.x * 10.0 - 5.0, h, place.y * 10.0 - 5.0);
  n = vec3(at(place - vec2(e, 0)) - at(place + vec2(e, 0)), 20.0 * e, at(place - vec2(0, e)) - at(place + vec2(0, e)));
  gl_Position = projection * view * vec4(p, 1.0);
}""",
        fragment_shader="""#version 330
in vec3 p, n; out vec4 colour;
void main() {
  vec3 u = normalize(n); float steep = 1.0 - u.y;
  vec3 base = mix(vec3(0.15, 0.4, 0.12), vec3(0.45, 0.4, 0.35), smoothstep(0.05, 0.25, steep));
  base = mix(base, vec3(0.95), smoothstep(1.0, 1.2, p.y)); base = mix(vec3(0.1, 0.25, 0.5), base, smoothstep(0.28, 0.34, p.y));
  colour = vec4(base * (0.25 + 0.85 * max(dot(u, normalize(vec3(0.6, 0.5, 0.2))), 0.0)), 1.0);
}""",
    )
    n, chance = 64, np.random.default_rng(4)
    waves = np.fft.fftfreq(n)
    size = np.sqrt(waves[:, None] ** 2 + waves[None] ** 2)
    rough = np.where(size > 0, 1 / np.maximum(size, 1 / n) ** 1.9, 0) * np.exp(2j * np.pi * chance.random((n, n)))
    field = np.fft.ifft2(rough).real
    field = ((field - field.min()) / (field.max() - field.min())).astype("f4")
    texture(gl, field[..., None])
    steps = np.linspace(0.01, 0.99, 97)
    v, u = np.meshgrid(steps, steps, indexing="ij")
    grid = np.stack([u, v], -1).astype("f4")
    a, b, c, d = grid[:-1, :-1], grid[:-1, 1:], grid[1:, :-1], grid[1:, 1:]
    corners = np.stack([a, c, b, b, c, d], axis=2).reshape(-1, 2)
    target = canvas(gl)
    gl.enable(gl.DEPTH_TEST)
    camera(program, (0.0, 3.2, 6.0), (0.0, 0.4, 0.0))
    gl.vertex_array(program, [(gl.buffer(corners.tobytes()), "2f", "place")]).render()
    return target


@scene
def reflections(gl: Any) -> Any:
    """A sky in a cube map, and a torus and a ball that reflect it."""
    size = 64
    grid = (np.arange(size) + 0.5) / size * 2 - 1
    t, s = np.meshgrid(grid, grid, indexing="ij")
    one = np.ones_like(s)
    ways = [(one, -t, -s), (-one, -t, s), (s, one, t), (s, -one, -t), (s, -t, one), (-s, -t, -one)]
    faces = []
    for x, y, z in ways:
        y = y / np.sqrt(x * x + y * y + z * z)
        sun = np.clip((x * 0.5 + z * 0.6) / np.sqrt(x * x + z * z + 1e-6), 0, 1) ** 8 * np.exp(-8 * y * y)
        sky = np.stack([0.35 + 0.3 * (1 - abs(y)), 0.5 + 0.25 * (1 - abs(y)), 0.75 + 0.2 * (1 - abs(y))], -1)
        earth = np.stack([0.35 - 0.2 * y, 0.28 - 0.2 * y, 0.15 - 0.1 * y], -1) * 0.8
        faces.append(np.clip(np.where(y[..., None] > 0, sky, earth) + sun[..., None], 0, 1))
    texels = np.round(255 * np.concatenate([np.stack(faces), np.ones((6, size, size, 1))], -1)).astype(np.uint8)
    cube = gl.texture_cube((size, size), 4, texels.tobytes())
    cube.filter = moderngl.LINEAR, moderngl.LINEAR
    cube.use(0)
    sky, whole = screen(
        gl,
        """#version 330
uniform samplerCube around; uniform mat4 back; in vec2 uv; out vec4 colour;
void main() { vec4 p = back * vec4(uv * 2.0 - 1.0, 1.0, 1.0); colour = texture(around, p.xyz); }""",
    )
    mirror = gl.program(
        vertex_shader=OBJECT,
        fragment_shader="""#version 330
uniform samplerCube around; uniform vec3 eye, tint; in vec3 p, n; out vec4 colour;
void main() {
  vec3 v = normalize(p - eye), u = normalize(n); float f = 0.25 + 0.75 * pow(1.0 - abs(dot(u, v)), 3.0);
  colour = vec4(mix(tint * (0.6 + 0.4 * u.y), texture(around, reflect(v, u)).rgb, f), 1.0);
}""",
    )
    eye, at = (2.0, 1.4, 3.2), (0.0, 0.2, 0.0)
    target = canvas(gl)
    turn = look(eye, at)
    turn[3, :3] = 0
    sky["back"].write(np.linalg.inv(turn @ perspective(45, WIDTH / HEIGHT, 0.5, 40)).astype("f4").tobytes())
    whole.render()
    gl.enable(gl.DEPTH_TEST)
    camera(mirror, eye, at)
    for mesh, tint, model in (
        (torus(64, 32), (0.8, 0.5, 0.1), moved(0, 0, 0)),
        (ball(48, 24), (0.7, 0.7, 0.7), moved(0, 0.5, 0, 0.5)),
    ):
        mirror["model"].write(model.tobytes())
        mirror["tint"].value = tint
        drawn(gl, mirror, mesh).render()
    return target


@scene
def mirror(gl: Any) -> Any:
    """A pool: its mask in the stencil buffer, the scene upside down within it, water blended over it."""
    program = gl.program(
        vertex_shader=OBJECT,
        fragment_shader="""#version 330
uniform vec3 tint; uniform float side; in vec3 p, n; out vec4 colour;
void main() {
  if (p.y * side < 0.0) discard;
  colour = vec4(tint * (0.3 + 0.7 * max(dot(normalize(n), normalize(vec3(0.5, 0.8 * side, 0.35))), 0.0)), 0.55);
}""",
    )
    colours = gl.renderbuffer((WIDTH, HEIGHT), 4)
    target = gl.framebuffer([colours], gl.depth_renderbuffer((WIDTH, HEIGHT)))
    target.use()
    target.clear(0.35, 0.5, 0.7, 1.0)
    gl.enable(gl.DEPTH_TEST)
    camera(program)
    solids = [
        (torus(), (0.9, 0.5, 0.2), (0.0, 0.8, 0.0), 0.8),
        (box(), (0.3, 0.5, 0.8), (-1.5, 0.5, -1.0), 0.5),
        (ball(), (0.4, 0.8, 0.4), (1.5, 0.5, -0.6), 0.5),
    ]
    for side in (-1.0, 1.0):
        program["side"].value = side
        for mesh, tint, (x, y, z), size in solids:
            program["model"].write(moved(x, side * y, z, (size, side * size, size)).tobytes())
            program["tint"].value = tint
            drawn(gl, program, mesh).render()
        if side < 0:
            gl.enable(gl.BLEND)
            program["side"].value = 1.0
            program["tint"].value = (0.15, 0.35, 0.4)
            program["model"].write(moved(0, 0.0, 0, 0.5).tobytes())
            drawn(gl, program, floor()).render()
            gl.disable(gl.BLEND)
    return target


@scene
def bloom(gl: Any) -> Any:
    """Bright balls in 16-bit floats, blurred in two passes at a quarter of the size, and mapped to eight bits."""
    bright = gl.texture((WIDTH, HEIGHT), 4, dtype="f2")
    first = gl.framebuffer([bright], gl.depth_renderbuffer((WIDTH, HEIGHT)))
    program = gl.program(vertex_shader=OBJECT, fragment_shader=LIT.replace("sum, 1.0", "sum * tint * 2.0, 1.0"))
    first.use()
    first.clear(0.01, 0.01, 0.02, 1.0)
    gl.enable(gl.DEPTH_TEST)
    camera(program)
    for n in range(9):
        glow = 0.4 + 0.5 * (n % 3)
        program["model"].write(moved(1.2 * (n % 3 - 1), 0.4, 1.2 * (n // 3 - 1), 0.4).tobytes())
        program["tint"].value = (glow, 0.8 * glow, 0.5 + 0.1 * (n // 3))
        drawn(gl, program, ball()).render()
    gl.disable(gl.DEPTH_TEST)
    small = [gl.texture((WIDTH // 4, HEIGHT // 4), 4, dtype="f2") for _ in range(2)]
    blur, whole = screen(
        gl,
        """#version 330
uniform sampler2D image; uniform vec2 way; uniform float least; in vec2 uv; out vec4 colour;
void main() {
  vec3 sum = vec3(0.0); float all = 0.0;
  for (int i = -6; i <= 6; i++) {
    float w = exp(-float(i * i) / 12.0); sum += w * max(texture(image, uv + way * float(i)).rgb - least, 0.0); all += w;
  }
  colour = vec4(sum / all, 1.0);
}""",
    )
    for image in (bright, *small):
        image.filter = moderngl.LINEAR, moderngl.LINEAR
        image.repeat_x = image.repeat_y = False
    for source, goal, way, least in (
        (bright, small[0], (4.0 / WIDTH, 0), 0.6),
        (small[0], small[1], (0, 4.0 / HEIGHT), 0.0),
    ):
        gl.framebuffer([goal]).use()
        source.use(0)
        blur["way"].value, blur["least"].value = way, least
        whole.render()
    finish, over = screen(
        gl,
        """#version 330
uniform sampler2D image, glow; in vec2 uv; out vec4 colour;
void main() { vec3 c = texture(image, uv).rgb + texture(glow, uv).rgb; colour = vec4(pow(c / (1.0 + c), vec3(1.0 / 2.2)), 1.0); }""",
    )
    target = canvas(gl)
    bright.use(0)
    small[1].use(1)
    finish["image"].value, finish["glow"].value = 0, 1
    over.render()
    return target


def picture(name: str) -> Image:
    """A scene drawn on whatever device OpenGL finds, from the top row down."""
    gl = moderngl.create_context(standalone=True, backend="egl")
    target = SCENES[name](gl)
    pixels = np.frombuffer(target.read(components=4), np.uint8).reshape(target.height, target.width, 4)
    gl.release()
    return pixels[::-1].copy()


def main(arguments: list[str]) -> None:
    if not arguments:
        for name, function in SCENES.items():
            print(f"{name:14} {function.__doc__}")
        return
    name, file = arguments[0], arguments[1] if len(arguments) > 1 else ""
    if name not in SCENES:
        sys.exit(f"there is no scene {name!r}: {', '.join(SCENES)}")
    as_array = file.endswith(".npy")
    if file and not as_array and find_spec("PIL") is None:
        sys.exit(f"{file} needs Pillow: pip install pillow, or name a .npy file")
    pixels = picture(name)
    if not file:
        print(f"{name}: mean colour {np.round(pixels[..., :3].mean(axis=(0, 1)), 2)}")
        return
    if as_array:
        np.save(file, pixels)
    else:
        from PIL import Image as Picture

        Picture.fromarray(pixels[..., :3]).save(file)
    print(f"wrote {file}")


if __name__ == "__main__":
    main(sys.argv[1:])
