"""Scenes of OpenGL 3.3 for moderngl: ``python graphics_scenes.py FOLDER [NAME …]`` renders them without a window and writes FOLDER/NAME.npy.

The same file runs on the simulated GeForce 8800 (``warpwright run --gpu g80``) and on Mesa's software driver.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import moderngl
import numpy as np

Image = np.ndarray[Any, np.dtype[np.uint8]]
SCENES: dict[str, Callable[[Any], Image]] = {}
PLAIN = """
#version 330
in vec3 position; in vec4 colour; out vec4 shade;
void main() { gl_Position = vec4(position, 1.0); shade = colour; }
"""
SHADED = """
#version 330
in vec4 shade; out vec4 fragment;
void main() { fragment = shade; }
"""


def scene(function: Callable[[Any], Image]) -> Callable[[Any], Image]:
    SCENES[function.__name__] = function
    return function


def read(target: Any, components: int = 4, attachment: int = 0) -> Image:
    data = np.frombuffer(target.read(components=components, attachment=attachment), np.uint8)
    return data.reshape(target.height, target.width, components)


def perspective(aspect: float = 1.0, near: float = 0.5, far: float = 20.0) -> Any:
    f = 1.6
    m = np.zeros((4, 4), np.float32)
    m[0, 0], m[1, 1], m[2, 2], m[3, 2] = f / aspect, f, (far + near) / (near - far), 2 * far * near / (near - far)
    m[2, 3] = -1
    return m


def turned(angle: float, tilt: float, away: float) -> Any:
    c, s, d, t = np.cos(angle), np.sin(angle), np.cos(tilt), np.sin(tilt)
    around = np.array([[c, 0, -s, 0], [0, 1, 0, 0], [s, 0, c, 0], [0, 0, 0, 1]], np.float32)
    over = np.array([[1, 0, 0, 0], [0, d, t, 0], [0, -t, d, 0], [0, 0, 0, 1]], np.float32)
    moved = np.eye(4, dtype=np.float32)
    moved[3, 2] = -away
    return around @ over @ moved


def cube() -> tuple[Any, Any]:
    """Positions and normals of 24 vertices, and 36 indices."""
    vertices, indices = [], []
    for axis in range(3):
        for side in (-1, 1):
            first = len(vertices)
            for u, v in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                p = [0, 0, 0]
                p[axis], p[(axis + 1) % 3], p[(axis + 2) % 3] = side, u * side, v
                n = [0, 0, 0]
                n[axis] = side
                vertices.append([*p, *n, (u + 1) / 2, (v + 1) / 2])
            indices += [first, first + 1, first + 2, first, first + 2, first + 3]
    return np.array(vertices, "f4"), np.array(indices, "u4")


@scene
def triangle(gl: Any) -> Image:
    program = gl.program(vertex_shader=PLAIN, fragment_shader=SHADED)
    corners = [(-0.8, -0.8, 0, 1, 0, 0, 1), (0.8, -0.8, 0, 0, 1, 0, 1), (0, 0.8, 0, 0, 0, 1, 1)]
    target = gl.simple_framebuffer((256, 256))
    target.use()
    target.clear(0.125, 0.25, 0.5, 1.0)
    buffer = gl.buffer(np.array(corners, "f4"))
    gl.vertex_array(program, [(buffer, "3f 4f", "position", "colour")]).render()
    return read(target)


@scene
def random_triangles(gl: Any) -> Image:
    """2,000 triangles, half of them on lattices of 1/16 pixel and coarser, each in a colour of its own: exact coverage."""
    size, rng = 512, np.random.default_rng(7)
    corners = rng.uniform(-40, size + 40, (2000, 3, 2))
    around = rng.uniform(0, size, (2000, 1, 2))
    small = rng.random(2000) < 0.7
    corners[small] = (around + rng.normal(0, 18, (2000, 3, 2)))[small]
    for i in range(0, 2000, 2):
        lattice = 16 >> (i // 2 % 5)
        corners[i] = np.round(corners[i] * lattice) / lattice
    position = np.zeros((2000, 3, 7), np.float32)
    position[:, :, :2] = corners / size * 2 - 1
    number = np.arange(1, 2001)
    for channel, shift in enumerate((0, 8, 16)):
        position[:, :, 3 + channel] = ((number >> shift & 255) / 255)[:, None]
    position[:, :, 6] = 1
    program = gl.program(vertex_shader=PLAIN, fragment_shader=SHADED)
    target = gl.simple_framebuffer((size, size))
    target.use()
    target.clear()
    gl.vertex_array(program, [(gl.buffer(position), "3f 4f", "position", "colour")]).render()
    return read(target)


LIT_VERTEX = """
#version 330
uniform mat4 projection; uniform mat4 view; uniform vec3 offset[5];
in vec3 position; in vec3 normal; in vec2 place; out vec3 n; out vec3 p; out vec2 uv; flat out int number;
void main() {
    vec4 at = view * vec4(position * 0.6 + offset[gl_InstanceID], 1.0);
    gl_Position = projection * at; p = at.xyz; n = mat3(view) * normal; uv = place; number = gl_InstanceID;
}
"""
LIT_FRAGMENT = """
#version 330
in vec3 n; in vec3 p; in vec2 uv; flat in int number; out vec4 fragment;
void main() {
    vec3 light = normalize(vec3(0.4, 0.8, 0.6)), eye = normalize(-p), m = normalize(n);
    float diffuse = max(dot(m, light), 0.0), shine = pow(max(dot(reflect(-light, m), eye), 0.0), 16.0);
    vec3 base = vec3(float(number) * 0.2, 0.6, 1.0 - float(number) * 0.2);
    fragment = vec4(base * (0.15 + 0.75 * diffuse) + vec3(0.4 * shine), 1.0);
}
"""


def lit(gl: Any, size: tuple[int, int], samples: int = 0) -> Any:
    program = gl.program(vertex_shader=LIT_VERTEX, fragment_shader=LIT_FRAGMENT)
    vertices, indices = cube()
    program["projection"].write(perspective(size[0] / size[1]))
    program["view"].write(turned(0.6, 0.5, 5.0))
    program["offset"].write(np.array([[0, 0, 0], [1.5, 0, 0], [-1.5, 0, 0], [0, 1.3, 0.4], [0, -1.3, 1.5]], "f4"))
    array = gl.vertex_array(
        program,
        [(gl.buffer(vertices), "3f 3f 2f", "position", "normal", "place")],
        gl.buffer(indices),
        skip_errors=True,
    )
    target = gl.simple_framebuffer(size, samples=samples)
    target.use()
    target.clear(0.1, 0.1, 0.1, 1.0)
    gl.enable(moderngl.DEPTH_TEST | moderngl.CULL_FACE)
    array.render(instances=5)
    return target


@scene
def lit_cubes(gl: Any) -> Image:
    """Instances, indices, perspective, depth test, face culling, specular light."""
    return read(lit(gl, (320, 240)))


@scene
def multisampled(gl: Any) -> Image:
    target = lit(gl, (160, 120), samples=4)
    plain = gl.simple_framebuffer((160, 120))
    gl.copy_framebuffer(plain, target)
    return read(plain)


@scene
def blended(gl: Any) -> Image:
    """Additive and ordinary blending of overlapping particles (points with a size of their own)."""
    program = gl.program(
        vertex_shader="""
        #version 330
        in vec3 place; in vec4 colour; out vec4 shade;
        void main() { gl_Position = vec4(place.xy, 0.0, 1.0); gl_PointSize = place.z; shade = colour; }
        """,
        fragment_shader="""
        #version 330
        in vec4 shade; out vec4 fragment;
        void main() { vec2 d = gl_PointCoord - 0.5; fragment = vec4(shade.rgb, shade.a * max(0.0, 1.0 - 4.0 * dot(d, d))); }
        """,
    )
    rng = np.random.default_rng(3)
    count = 200
    data = np.concatenate(
        [rng.uniform(-0.9, 0.9, (count, 2)), rng.uniform(4, 40, (count, 1)), rng.random((count, 4))], axis=1
    )
    target = gl.simple_framebuffer((256, 256))
    target.use()
    target.clear(0.0, 0.0, 0.1, 1.0)
    gl.enable(moderngl.BLEND | moderngl.PROGRAM_POINT_SIZE)
    array = gl.vertex_array(program, [(gl.buffer(data.astype("f4")), "3f 4f", "place", "colour")])
    gl.blend_func = moderngl.SRC_ALPHA, moderngl.ONE
    array.render(moderngl.POINTS, vertices=100)
    gl.blend_func = moderngl.SRC_ALPHA, moderngl.ONE_MINUS_SRC_ALPHA
    array.render(moderngl.POINTS, vertices=100, first=100)
    return read(target)


@scene
def several_targets(gl: Any) -> Image:
    """Three colour attachments of three formats, side by side."""
    program = gl.program(
        vertex_shader=PLAIN,
        fragment_shader="""
        #version 330
        in vec4 shade; layout(location=0) out vec4 a; layout(location=1) out vec4 b; layout(location=2) out vec4 c;
        void main() { a = shade; b = vec4(1.0 - shade.rgb, 1.0); c = vec4(shade.bgr * 2.0, 1.0); }
        """,
    )
    textures = [gl.texture((96, 96), 4), gl.texture((96, 96), 4), gl.texture((96, 96), 4, dtype="f2")]
    target = gl.framebuffer(textures)
    target.use()
    target.clear()
    corners = [(-0.9, -0.9, 0, 1, 0, 0, 1), (0.9, -0.7, 0, 0, 1, 0, 1), (0.1, 0.9, 0, 0, 0, 1, 1)]
    gl.vertex_array(program, [(gl.buffer(np.array(corners, "f4")), "3f 4f", "position", "colour")]).render()
    half = np.frombuffer(textures[2].read(), np.float16).reshape(96, 96, 4)
    third = (np.clip(half.astype(np.float32) / 2, 0, 1) * 255 + 0.5).astype(np.uint8)
    return np.concatenate([read(target, attachment=0), read(target, attachment=1), third], axis=1)


@scene
def clipped(gl: Any) -> Image:
    """Triangles through the near plane and a user plane, and beyond the window."""
    program = gl.program(
        vertex_shader="""
        #version 330
        uniform mat4 projection; in vec3 position; in vec4 colour; out vec4 shade; out float gl_ClipDistance[1];
        void main() { gl_Position = projection * vec4(position, 1.0); shade = colour; gl_ClipDistance[0] = position.x + 0.4 * position.y + 0.7; }
        """,
        fragment_shader=SHADED,
    )
    program["projection"].write(perspective())
    rng = np.random.default_rng(11)
    corners = rng.uniform(-1, 1, (60, 3, 3)) * (3, 3, 4) - (0, 0, 2)
    data = np.concatenate([corners, rng.random((60, 3, 3)), np.ones((60, 3, 1))], axis=2).astype("f4")
    target = gl.simple_framebuffer((200, 200))
    target.use()
    target.clear()
    gl.enable(moderngl.DEPTH_TEST)
    gl.enable_direct(0x3000)
    gl.vertex_array(program, [(gl.buffer(data), "3f 4f", "position", "colour")]).render()
    gl.disable_direct(0x3000)
    return read(target)


@scene
def geometry(gl: Any) -> Image:
    """A geometry program makes a quad of each point."""
    program = gl.program(
        vertex_shader="""
        #version 330
        in vec2 place; in vec3 colour; out vec3 tint;
        void main() { gl_Position = vec4(place, 0.0, 1.0); tint = colour; }
        """,
        geometry_shader="""
        #version 330
        layout(points) in; layout(triangle_strip, max_vertices=4) out; in vec3 tint[]; out vec4 shade;
        void main() {
            for (int i = 0; i < 4; i++) {
                gl_Position = gl_in[0].gl_Position + vec4(0.1 * float(i & 1), 0.12 * float(i >> 1), 0.0, 0.0);
                shade = vec4(tint[0] * (0.5 + 0.25 * float(i & 1)), 1.0); EmitVertex();
            }
            EndPrimitive();
        }
        """,
        fragment_shader=SHADED,
    )
    rng = np.random.default_rng(5)
    data = np.concatenate([rng.uniform(-0.9, 0.8, (50, 2)), rng.random((50, 3))], axis=1).astype("f4")
    target = gl.simple_framebuffer((200, 200))
    target.use()
    target.clear()
    gl.vertex_array(program, [(gl.buffer(data), "2f 3f", "place", "colour")]).render(moderngl.POINTS)
    return read(target)


@scene
def lines(gl: Any) -> Image:
    """Lines, strips and loops of one pixel, in many directions."""
    program = gl.program(vertex_shader=PLAIN, fragment_shader=SHADED)
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    rows = []
    for a in angles:
        rows += [(0.1 * np.cos(a), 0.1 * np.sin(a), 0, 1, 1, 1, 1), (0.9 * np.cos(a), 0.9 * np.sin(a), 0, 1, 0, 0.5, 1)]
    target = gl.simple_framebuffer((150, 150))
    target.use()
    target.clear()
    gl.vertex_array(program, [(gl.buffer(np.array(rows, "f4")), "3f 4f", "position", "colour")]).render(moderngl.LINES)
    return read(target)


@scene
def smooth_lines(gl: Any) -> Image:
    """Antialiased white lines in many directions, none of which meet: a pixel's value is the share that a line covers."""
    program = gl.program(vertex_shader=PLAIN, fragment_shader=SHADED)
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False) + 0.05
    rows = []
    for n, a in enumerate(angles):
        middle = np.array([n % 6 - 2.5, n // 6 - 1.5]) * 40 / 120
        for end in (-15.3, 15.3):
            rows.append((middle[0] + end * np.cos(a) / 120, middle[1] + end * np.sin(a) / 120, 0, 1, 1, 1, 1))
    target = gl.simple_framebuffer((240, 240))
    target.use()
    target.clear()
    gl.enable(moderngl.BLEND)
    gl.blend_func = moderngl.SRC_ALPHA, moderngl.ONE
    gl.enable_direct(0x0B20)
    gl.vertex_array(program, [(gl.buffer(np.array(rows, "f4")), "3f 4f", "position", "colour")]).render(moderngl.LINES)
    gl.disable_direct(0x0B20)
    gl.disable(moderngl.BLEND)
    return read(target)


@scene
def crossing(gl: Any) -> Image:
    """The triangles that ``test_graphics_context.py`` draws without OpenGL: depth test and blending."""
    places, colours = importlib.import_module("graphics_streams").crossing_triangles()
    program = gl.program(
        vertex_shader="""
        #version 330
        in vec4 place; in vec4 colour; out vec4 shade;
        void main() { gl_Position = place; shade = colour; }
        """,
        fragment_shader=SHADED,
    )
    size = (96, 80)
    target = gl.framebuffer([gl.renderbuffer(size, 4)], gl.depth_renderbuffer(size))
    target.use()
    target.clear(0.125, 0.25, 0.5, 1.0, depth=1.0)
    gl.enable(moderngl.DEPTH_TEST | moderngl.BLEND)
    gl.blend_func = moderngl.SRC_ALPHA, moderngl.ONE_MINUS_SRC_ALPHA
    content = [(gl.buffer(places.tobytes()), "4f", "place"), (gl.buffer(colours.tobytes()), "4f", "colour")]
    gl.vertex_array(program, content).render()
    gl.disable(moderngl.DEPTH_TEST | moderngl.BLEND)
    return read(target)


@scene
def primitive_types(gl: Any) -> Image:
    """Strips and fans, with an index that begins anew."""
    program = gl.program(vertex_shader=PLAIN, fragment_shader=SHADED)
    rng = np.random.default_rng(2)
    strip = [(-0.9 + 0.2 * i, (0.3 if i & 1 else 0.9), 0, *rng.random(3), 1) for i in range(10)]
    fan = [(0, -0.5, 0, 1, 1, 1, 1)]
    fan += [(0.8 * np.cos(a), -0.5 + 0.45 * np.sin(a), 0, *rng.random(3), 1) for a in np.linspace(0, 6.0, 12)]
    buffer = gl.buffer(np.array(strip + fan, "f4"))
    target = gl.simple_framebuffer((160, 160))
    target.use()
    target.clear()
    indices = np.array([0, 1, 2, 3, -1, 4, 5, 6, 7, 8, 9], "i4")
    content = [(buffer, "3f 4f", "position", "colour")]
    gl.enable_direct(0x8F9D)
    gl.vertex_array(program, content, gl.buffer(indices)).render(moderngl.TRIANGLE_STRIP)
    gl.disable_direct(0x8F9D)
    gl.vertex_array(program, content).render(moderngl.TRIANGLE_FAN, vertices=13, first=10)
    return read(target)


TEXTURED = """
#version 330
uniform sampler2D image; in vec2 uv; out vec4 fragment;
void main() { fragment = texture(image, uv); }
"""


@scene
def textured(gl: Any) -> Image:
    """A floor with mipmaps and trilinear filtering."""
    program = gl.program(
        vertex_shader="""
        #version 330
        uniform mat4 projection; in vec3 position; in vec2 place; out vec2 uv;
        void main() { gl_Position = projection * vec4(position, 1.0); uv = place; }
        """,
        fragment_shader=TEXTURED,
    )
    program["projection"].write(perspective())
    y, x = np.mgrid[0:64, 0:64]
    texels = np.stack([(x // 8 + y // 8) % 2 * 200 + 40, x * 4, y * 4, np.full_like(x, 255)], axis=2).astype(np.uint8)
    image = gl.texture((64, 64), 4, texels.tobytes())
    image.build_mipmaps()
    image.filter = moderngl.LINEAR_MIPMAP_LINEAR, moderngl.LINEAR
    image.use()
    floor = [(-4, -1, -1, 0, 0), (4, -1, -1, 4, 0), (-4, -1, -15, 0, 7), (4, -1, -15, 4, 7)]
    target = gl.simple_framebuffer((256, 192))
    target.use()
    target.clear(0.3, 0.5, 0.8, 1.0)
    array = gl.vertex_array(program, [(gl.buffer(np.array(floor, "f4")), "3f 2f", "position", "place")])
    array.render(moderngl.TRIANGLE_STRIP)
    return read(target)


TILE = 64
SAMPLING = {
    "nearest": ("sampler2D", "texture(image, uv)"),
    "linear": ("sampler2D", "texture(image, uv)"),
    "clamped": ("sampler2D", "texture(image, uv)"),
    "lod": ("sampler2D", "textureLod(image, uv, uv.x * 2.0)"),
    "gradients": ("sampler2D", "textureGrad(image, uv, vec2(0.02, 0.0), vec2(0.0, 0.03))"),
    "fetch": ("sampler2D", "texelFetch(image, ivec2(uv * 20.0 + 0.25), 0)"),
    "offset": ("sampler2D", "textureOffset(image, uv, ivec2(3, -2))"),
    "size": ("sampler2D", "vec4(vec2(textureSize(image, 1)), 8.0 + uv.x * 0.001, 255.0) / 255.0"),
    "one_channel": ("sampler2D", "texture(image, uv)"),
    "floats": ("sampler2D", "texture(image, uv)"),
    "integers": ("usampler2D", "vec4(texture(image, uv)) / 255.0"),
    "cube": ("samplerCube", "texture(image, way)"),
    "volume": ("sampler3D", "texture(image, way * 0.5 + 0.5)"),
    "layers": ("sampler2DArray", "texture(image, vec3(uv, floor(uv.x * 2.0)))"),
    "shadow": ("sampler2DShadow", "vec4(texture(image, vec3(uv, 0.5)))"),
}
"""Tiles of the scene ``sampling``: a sampler's type and what is sampled."""


def sampled_texture(gl: Any, name: str) -> Any:
    chance = np.random.default_rng(5)
    texels = chance.integers(0, 256, (6, 32, 32, 4), dtype=np.uint8)
    nearest, linear = moderngl.NEAREST, moderngl.LINEAR
    if name == "cube":
        made, how = gl.texture_cube((32, 32), 4, texels.tobytes()), (nearest, nearest)
    elif name == "volume":
        made, how = gl.texture3d((16, 16, 8), 4, texels[:2].tobytes()), (linear, linear)
    elif name == "layers":
        made, how = gl.texture_array((32, 32, 6), 4, texels.tobytes()), (linear, linear)
    elif name == "shadow":
        made, how = gl.depth_texture((32, 32), chance.random((32, 32)).astype("f4").tobytes()), (linear, linear)
        made.compare_func = "<="
    elif name == "floats":
        made, how = (
            gl.texture((32, 32), 4, chance.random((32, 32, 4)).astype("f2").tobytes(), dtype="f2"),
            (linear, linear),
        )
    elif name == "one_channel":
        made, how = gl.texture((32, 32), 1, texels[0, :, :, 0].tobytes()), (linear, linear)
    else:
        made = gl.texture((32, 32), 4, texels[0].tobytes(), dtype="u1" if name == "integers" else "f1")
        how = (nearest, nearest) if name in ("nearest", "fetch", "integers") else (linear, linear)
        if name in ("lod", "gradients", "size"):
            made.build_mipmaps()
            for level in range(1, 6):
                made.write(np.ascontiguousarray(texels[0, :: 1 << level, :: 1 << level]).tobytes(), level=level)
            how = (moderngl.LINEAR_MIPMAP_LINEAR, linear)
    made.filter = how
    if name == "clamped":
        made.repeat_x = made.repeat_y = False
    return made


@scene
def sampling(gl: Any) -> Image:
    """Every kind of texture and of sample, a tile each."""
    target = gl.simple_framebuffer((4 * TILE, 4 * TILE))
    target.use()
    target.clear()
    corners = np.array([(-1, -1, -0.3, -0.2), (1, -1, 2.2, 0), (-1, 1, 0, 1.7), (1, 1, 1.9, 2.1)], "f4")
    buffer = gl.buffer(corners)
    for n, (name, (kind, sample)) in enumerate(SAMPLING.items()):
        program = gl.program(
            vertex_shader="""
            #version 330
            in vec2 place; in vec2 where; out vec2 uv; out vec3 way;
            void main() {
                gl_Position = vec4(place, 0.0, 1.0 + 0.3 * place.x); uv = where;
                way = vec3(where * 2.0 - 1.0, place.x * 0.7 - place.y * 0.3);
            }
            """,
            fragment_shader=f"""
            #version 330
            uniform {kind} image; in vec2 uv; in vec3 way; out vec4 fragment;
            void main() {{ fragment = {sample} + vec4(uv + way.xy, 0.0, 0.0) * 0.00001; }}
            """,
        )
        sampled_texture(gl, name).use()
        gl.viewport = n % 4 * TILE, n // 4 * TILE, TILE, TILE
        gl.vertex_array(program, [(buffer, "2f 2f", "place", "where")]).render(moderngl.TRIANGLE_STRIP)
    return read(target)


@scene
def mipmaps(gl: Any) -> Image:
    """Levels that the driver makes, side by side."""
    texels = np.random.default_rng(6).integers(0, 256, (64, 64, 4), dtype=np.uint8)
    image = gl.texture((64, 64), 4, texels.tobytes())
    image.build_mipmaps()
    levels = [np.frombuffer(image.read(level=n), np.uint8).reshape(64 >> n, 64 >> n, 4) for n in range(4)]
    return np.concatenate([np.kron(level, np.ones((1 << n, 1 << n, 1), np.uint8)) for n, level in enumerate(levels)])


def main(folder: str, names: list[str]) -> None:
    for name in names or list(SCENES):
        gl = moderngl.create_context(standalone=True, backend="egl")
        np.save(Path(folder) / f"{name}.npy", SCENES[name](gl))
        gl.release()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
