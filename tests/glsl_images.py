"""An OpenGL program: compute shaders on images and textures; saves what it gave them and what they wrote."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

NUMBERS = np.random.default_rng(9)
WIDTH, HEIGHT, LAYERS = 40, 24, 3
HEAD = "#version 430\nlayout(local_size_x = 8, local_size_y = 8) in;\n"
FORMATS = {
    # GLSL's name: channels, moderngl's type
    **{"r32f": (1, "f4"), "rgba32f": (4, "f4"), "rg32f": (2, "f4"), "r32ui": (1, "u4"), "rgba32i": (4, "i4")},
    **{"rgba16f": (4, "f2"), "r16f": (1, "f2"), "rg16ui": (2, "u2"), "r16i": (1, "i2")},
    **{"rgba8": (4, "f1"), "rg8": (2, "f1"), "rgba8ui": (4, "u1"), "r8i": (1, "i1")},
}
ARRAYS = {"f4": "f4", "u4": "u4", "i4": "i4", "f2": "f2", "u2": "u2", "i2": "i2", "f1": "u1", "u1": "u1", "i1": "i1"}


class OpenGl:
    """Calls that moderngl does not have."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libEGL.so.1")
        self._library.eglGetProcAddress.restype = ctypes.c_void_p
        self._library.eglGetProcAddress.argtypes = [ctypes.c_char_p]

    def __call__(self, name: str, *arguments: Any) -> None:
        kinds = [ctypes.c_void_p if not isinstance(x, int) else ctypes.c_uint for x in arguments]
        address = self._library.eglGetProcAddress(name.encode())
        ctypes.CFUNCTYPE(None, *kinds)(address)(*arguments)


def prefix(kind: str) -> str:
    return "" if kind[0] == "f" else kind[0]


def contents(channels: int, kind: str, layers: int = 1) -> Any:
    """What an image begins with."""
    shape = (layers, HEIGHT, WIDTH, channels)
    if kind in ("f4", "f2"):
        return NUMBERS.uniform(-4, 4, shape).astype(kind)
    limits = np.iinfo(ARRAYS[kind])
    return NUMBERS.integers(limits.min, limits.max, shape, dtype=ARRAYS[kind], endpoint=True)


def formats(context: Any, found: dict[str, Any]) -> None:
    """Loads of each format go to a buffer as registers have them; an image of the same format gets them transposed in halves."""
    for name, (channels, kind) in FORMATS.items():
        p = prefix(kind)
        program = context.compute_shader(
            f"""{HEAD}
layout(binding = 0, {name}) uniform readonly {p}image2D a;
layout(binding = 1, {name}) uniform writeonly {p}image2D b;
layout(std430, binding = 2) buffer Out {{ {p}vec4 seen[]; }};
void main() {{
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = imageSize(a);
    {p}vec4 v = imageLoad(a, at);
    seen[size.x * at.y + at.x] = v;
    imageStore(b, size - 1 - at, v);
}}
"""
        )
        given = contents(channels, kind)
        a = context.texture((WIDTH, HEIGHT), channels, given.tobytes(), dtype=kind, alignment=1)
        b = context.texture((WIDTH, HEIGHT), channels, dtype=kind, alignment=1)
        seen = context.buffer(reserve=16 * WIDTH * HEIGHT)
        a.bind_to_image(0, True, False)
        b.bind_to_image(1, False, True)
        seen.bind_to_storage_buffer(2)
        program.run(WIDTH // 8, HEIGHT // 8)
        found[f"{name}_given"] = given[0]
        found[f"{name}_seen"] = np.frombuffer(seen.read(), dtype=f"{p or 'f'}4").reshape(HEIGHT, WIDTH, 4)
        stored = np.frombuffer(b.read(alignment=1), dtype=ARRAYS[kind])
        found[f"{name}_stored"] = stored.reshape(HEIGHT, WIDTH, channels)


def conversions(context: Any, found: dict[str, Any]) -> None:
    """Stores of floats that formats cannot hold as they are."""
    program = context.compute_shader(
        f"""{HEAD}
layout(binding = 0, r32f) uniform readonly image2D a;
layout(binding = 1, r8) uniform writeonly image2D fraction;
layout(binding = 2, r16f) uniform writeonly image2D half_;
void main() {{
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    imageStore(fraction, at, imageLoad(a, at));
    imageStore(half_, at, imageLoad(a, at));
}}
"""
    )
    given = NUMBERS.uniform(-0.3, 1.3, (HEIGHT, WIDTH)).astype("f4")
    a = context.texture((WIDTH, HEIGHT), 1, given.tobytes(), dtype="f4")
    fraction = context.texture((WIDTH, HEIGHT), 1, dtype="f1", alignment=1)
    half = context.texture((WIDTH, HEIGHT), 1, dtype="f2", alignment=1)
    for unit, image in enumerate((a, fraction, half)):
        image.bind_to_image(unit)
    program.run(WIDTH // 8, HEIGHT // 8)
    found["conversions_given"] = given
    found["conversions_fraction"] = np.frombuffer(fraction.read(alignment=1), "u1").reshape(HEIGHT, WIDTH)
    found["conversions_half"] = np.frombuffer(half.read(alignment=1), "f2").reshape(HEIGHT, WIDTH)


def packed(context: Any, found: dict[str, Any]) -> None:
    """Images whose components differ in size: what loads give, and the words of stores."""
    for name, form, kind in (("r11f_g11f_b10f", 0x8C3A, 0x8C3B), ("rgb10_a2", 0x8059, 0x8368)):
        program = context.compute_shader(
            f"""{HEAD}
layout(binding = 0, {name}) uniform readonly image2D a;
layout(binding = 1, {name}) uniform writeonly image2D b;
layout(std430, binding = 2) buffer Out {{ vec4 seen[]; }};
void main() {{
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = imageSize(a);
    vec4 v = imageLoad(a, at);
    seen[size.x * at.y + at.x] = v;
    imageStore(b, at, v);
}}
"""
        )
        words = NUMBERS.integers(0, 1 << 32, (HEIGHT, WIDTH), dtype="u4")
        if kind == 0x8C3B:
            words &= np.uint32(~(1 << 10 | 1 << 21 | 1 << 31) & 0xFFFFFFFF)  # neither infinite nor no number
        target, rgba, call = 0x0DE1, (0x1907, 0x1908)[kind != 0x8C3B], OpenGl()
        for unit, source in ((0, words), (1, np.zeros_like(words))):
            texture = ctypes.c_uint()
            call("glGenTextures", 1, ctypes.c_void_p(ctypes.addressof(texture)))
            call("glBindTexture", target, texture.value)
            call("glTexStorage2D", target, 1, form, WIDTH, HEIGHT)
            call("glTexSubImage2D", target, 0, 0, 0, WIDTH, HEIGHT, rgba, kind, source.ctypes.data_as(ctypes.c_void_p))
            call("glBindImageTexture", unit, texture.value, 0, 0, 0, 0x88BA, form)
        seen = context.buffer(reserve=16 * WIDTH * HEIGHT)
        seen.bind_to_storage_buffer(2)
        program.run(WIDTH // 8, HEIGHT // 8)
        stored = np.zeros_like(words)
        call("glBindTexture", target, texture.value)
        call("glMemoryBarrier", 0xFFFFFFFF)
        call("glGetTexImage", target, 0, rgba, kind, stored.ctypes.data_as(ctypes.c_void_p))
        found[f"{name}_given"], found[f"{name}_stored"] = words, stored
        found[f"{name}_seen"] = np.frombuffer(seen.read(), "f4").reshape(HEIGHT, WIDTH, 4)


def layers(context: Any, found: dict[str, Any]) -> None:
    """Atomics on an array of images, its size, and stores to a volume."""
    program = context.compute_shader(
        f"""{HEAD}
layout(binding = 0, r32i) uniform iimage2DArray a;
layout(binding = 1, r32f) uniform writeonly image3D b;
layout(binding = 3, r32ui) uniform uimage2D sums;
void main() {{
    ivec3 at = ivec3(gl_GlobalInvocationID), size = imageSize(a);
    int old = imageAtomicCompSwap(a, at, 1000 * size.z, -5);
    imageStore(b, at, vec4(float(old) + 0.25));
    imageAtomicAdd(sums, ivec2(at.z, 0), 1u);
    imageAtomicMax(sums, ivec2(at.z, 1), uint(at.x + 100 * at.y));
}}
"""
    )
    given = np.full((LAYERS, HEIGHT, WIDTH), 7, dtype="i4")
    given[:, ::2] = 1000 * LAYERS
    a = context.texture_array((WIDTH, HEIGHT, LAYERS), 1, given.tobytes(), dtype="i4")
    b = context.texture3d((WIDTH, HEIGHT, LAYERS), 1, dtype="f4")
    sums = context.texture((4, 4), 1, bytes(64), dtype="u4")
    a.bind_to_image(0)
    b.bind_to_image(1)
    sums.bind_to_image(3)
    program.run(WIDTH // 8, HEIGHT // 8, LAYERS)
    shape = (LAYERS, HEIGHT, WIDTH)
    found["layers_given"] = given
    found["layers_swapped"] = np.frombuffer(a.read(), "i4").reshape(shape)
    found["layers_volume"] = np.frombuffer(b.read(), "f4").reshape(shape)
    found["layers_sums"] = np.frombuffer(sums.read(), "u4").reshape(4, 4)


def outside(context: Any, found: dict[str, Any]) -> None:
    """Loads outside of an image, and stores there."""
    program = context.compute_shader(
        f"""{HEAD}
layout(binding = 0, r32ui) uniform readonly uimage2D a;
layout(binding = 1, r32ui) uniform uimage2D b;
void main() {{
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    imageStore(b, at + ivec2(30, -5), imageLoad(a, at + ivec2(3, 4)) + 1u);
}}
"""
    )
    given = contents(1, "u4")[0, ..., 0] >> 1
    a = context.texture((WIDTH, HEIGHT), 1, given.tobytes(), dtype="u4")
    b = context.texture((WIDTH, HEIGHT), 1, bytes(4 * WIDTH * HEIGHT), dtype="u4")
    a.bind_to_image(0, True, False)
    b.bind_to_image(1)
    program.run(WIDTH // 8, HEIGHT // 8)
    found["outside_given"] = given
    found["outside_stored"] = np.frombuffer(b.read(), "u4").reshape(HEIGHT, WIDTH)


def buffers(context: Any, found: dict[str, Any]) -> None:
    """Images that are buffers: atomics, loads, stores with conversion, sizes."""
    texture_buffer, read_write, words, colours = 0x8C2A, 0x88BA, 0x8236, 0x8058
    program = context.compute_shader(
        """#version 430
layout(local_size_x = 64) in;
layout(binding = 0, r32ui) uniform uimageBuffer a;
layout(binding = 1, rgba8) uniform writeonly imageBuffer b;
void main() {
    int i = int(gl_GlobalInvocationID.x);
    uint old = imageAtomicXor(a, i, 0xffu);
    imageStore(b, i, vec4(float(old & 255u) / 255.0, float(imageLoad(a, i).x >> 24) / 255.0, float(imageSize(b)) / 255.0, 2.0));
}
"""
    )
    given = NUMBERS.integers(0, 1 << 32, 128, dtype="u4")
    kept = [context.buffer(given.tobytes()), context.buffer(bytes(4 * 128))]
    call = OpenGl()
    for unit, (buffer, form) in enumerate(zip(kept, (words, colours), strict=True)):
        texture = ctypes.c_uint()
        call("glGenTextures", 1, ctypes.c_void_p(ctypes.addressof(texture)))
        call("glBindTexture", texture_buffer, texture.value)
        call("glTexBuffer", texture_buffer, form, buffer.glo)
        call("glBindImageTexture", unit, texture.value, 0, 0, 0, read_write, form)
    program.run(2)
    found["buffers_given"] = given
    found["buffers_words"] = np.frombuffer(kept[0].read(), "u4")
    found["buffers_colours"] = np.frombuffer(kept[1].read(), "u1").reshape(128, 4)


def texels(context: Any, found: dict[str, Any]) -> None:
    """Textures that are read without a filter, with their sizes and channels in another order; dot products."""
    program = context.compute_shader(
        f"""{HEAD}
layout(binding = 0) uniform sampler2D a;
layout(binding = 1) uniform isampler2DArray b;
layout(std430, binding = 2) buffer Out {{ vec4 seen[]; }};
void main() {{
    ivec2 at = ivec2(gl_GlobalInvocationID.xy), size = textureSize(a, 0);
    vec4 v = texelFetch(a, at, 0);
    float layer = float(texelFetch(b, ivec3(at, 2), 0).x + textureSize(b, 0).z);
    seen[size.x * at.y + at.x] = vec4(v.xy, layer, dot(v, vec4(1.0, 2.0, 4.0, 8.0)));
}}
"""
    )
    given, whole = contents(4, "f1")[0], contents(1, "i2", LAYERS)[..., 0]
    a = context.texture((WIDTH, HEIGHT), 4, given.tobytes(), dtype="f1")
    a.swizzle = "BGRA"
    b = context.texture_array((WIDTH, HEIGHT, LAYERS), 1, whole.tobytes(), dtype="i2")
    for unit, texture in enumerate((a, b)):
        texture.filter = (context.NEAREST, context.NEAREST)
        texture.use(unit)
    seen = context.buffer(reserve=16 * WIDTH * HEIGHT)
    seen.bind_to_storage_buffer(2)
    program.run(WIDTH // 8, HEIGHT // 8)
    found["texels_given"], found["texels_whole"] = given, whole
    found["texels_seen"] = np.frombuffer(seen.read(), "f4").reshape(HEIGHT, WIDTH, 4)


def main() -> None:
    import moderngl

    context = moderngl.create_context(standalone=True, backend="egl", require=430)
    found: dict[str, Any] = {}
    for part in (formats, conversions, packed, layers, outside, buffers, texels):
        part(context, found)
    np.savez(sys.argv[1], **found)


if __name__ == "__main__":
    main()
