"""An OpenGL program: compute shaders that filter textures; saves what they read and what they were given."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import moderngl
import numpy as np

from tests.glsl_images import OpenGl

SIZE, LEVELS, POINTS = (32, 16), 5, 256
HEAD = """#version 430
layout(local_size_x = 64) in;
layout(binding = 0) uniform %s t;
layout(std430, binding = 1) buffer In { vec4 given[]; };
layout(std430, binding = 2) buffer Out { vec4 seen[]; };
void main() { uint i = gl_GlobalInvocationID.x; vec4 q = given[2 * i], d = given[2 * i + 1]; seen[i] = %s; }
"""
LINEAR, NEAREST = moderngl.LINEAR, moderngl.NEAREST
TRILINEAR = moderngl.LINEAR_MIPMAP_LINEAR, LINEAR
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bilinear": ("textureLod(t, q.xy, 0.0)", {"filter": (LINEAR, LINEAR)}),
    "nearest": ("texture(t, q.xy)", {"filter": (NEAREST, NEAREST)}),
    "clamped": ("textureLod(t, q.xy, 0.0)", {"filter": (LINEAR, LINEAR), "repeat_x": False, "repeat_y": False}),
    "offset": ("textureLodOffset(t, q.xy, 0.0, ivec2(3, -2))", {"filter": (LINEAR, LINEAR)}),
    "trilinear": ("textureLod(t, q.xy, q.z)", {"filter": TRILINEAR}),
    "nearest_level": ("textureLod(t, q.xy, q.z)", {"filter": (moderngl.LINEAR_MIPMAP_NEAREST, LINEAR)}),
    "gradients": ("textureGrad(t, q.xy, d.xy, d.zw)", {"filter": TRILINEAR}),
    "anisotropic": ("textureGrad(t, q.xy, d.xy, d.zw)", {"filter": TRILINEAR, "anisotropy": 8.0}),
    "gather": ("textureGather(t, q.xy, 1)", {"filter": (LINEAR, LINEAR)}),
    "texels": ("texelFetch(t, ivec2(q.xy * vec2(32, 16)) >> int(q.z), int(q.z))", {"filter": TRILINEAR}),
}


def levels(numbers: Any) -> list[Any]:
    """Texels of each level, unrelated to each other."""
    return [numbers.random((max(1, SIZE[1] >> n), max(1, SIZE[0] >> n), 4)).astype("f4") for n in range(LEVELS)]


def texture_of(context: Any, texels: list[Any]) -> Any:
    """A texture with levels of its own."""
    target, form, rgba, real = 0x0DE1, 0x8814, 0x1908, 0x1406
    texture, call = ctypes.c_uint(), OpenGl()
    call("glGenTextures", 1, ctypes.c_void_p(ctypes.addressof(texture)))
    call("glBindTexture", target, texture.value)
    call("glTexStorage2D", target, LEVELS, form, *SIZE)
    for n, level in enumerate(texels):
        height, width = level.shape[:2]
        call("glTexSubImage2D", target, n, 0, 0, width, height, rgba, real, level.ctypes.data_as(ctypes.c_void_p))
    return context.external_texture(texture.value, SIZE, 4, 0, "f4")


def main() -> None:
    context = moderngl.create_context(standalone=True, backend="egl", require=430)
    numbers = np.random.default_rng(20)
    texels = levels(numbers)
    found = {f"level{n}": level for n, level in enumerate(texels)}
    texture = texture_of(context, texels)
    given = np.zeros((POINTS, 2, 4), "f4")
    given[:, 0] = numbers.uniform((-0.5, -0.5, -1, 0), (1.5, 1.5, 5, 1), (POINTS, 4))
    angle, length = numbers.uniform(0, 2 * np.pi, POINTS), 2.0 ** numbers.uniform(-6, -1, (POINTS, 2))
    given[:, 1, 0], given[:, 1, 1] = length[:, 0] * np.cos(angle), length[:, 0] * np.sin(angle)
    given[:, 1, 2], given[:, 1, 3] = -length[:, 1] * np.sin(angle), length[:, 1] * np.cos(angle)
    inside = given.copy()
    inside[:, 0, :2] = numbers.uniform(0, 1, (POINTS, 2))
    inside[:, 0, 2] = numbers.integers(0, LEVELS, POINTS)
    for name, (expression, how) in CASES.items():
        points = inside if name == "texels" else given
        sampler = context.sampler(texture=texture, **how)
        sampler.use(0)
        program = context.compute_shader(HEAD % ("sampler2D", expression))
        source, seen = context.buffer(points.tobytes()), context.buffer(reserve=16 * POINTS)
        source.bind_to_storage_buffer(1)
        seen.bind_to_storage_buffer(2)
        program.run(POINTS // 64)
        found[f"{name}_given"] = points
        found[f"{name}_seen"] = np.frombuffer(seen.read(), "f4").reshape(POINTS, 4)
    np.savez(sys.argv[1], **found)


if __name__ == "__main__":
    main()
