"""GLSL programs that Mesa compiles for Cypress and Cayman, each with what its machine code must have in it."""

from __future__ import annotations

HEAD = "#version 430\n"
COMPUTE: dict[str, tuple[str, tuple[str, ...]]] = {
    "scale": (
        """
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer In { float a[]; };
layout(std430, binding = 1) buffer Out { float b[]; };
uniform float k;
void main() { uint i = gl_GlobalInvocationID.x; b[i] = k * a[i] + float(gl_WorkGroupID.x); }
""",
        ("VFETCH", "MEM_RAT", "MULADD_IEEE"),
    ),
    "reverse": (
        """
layout(local_size_x = 16, local_size_y = 8) in;
layout(std430, binding = 0) buffer In { uint a[]; };
layout(std430, binding = 1) buffer Out { uint b[]; };
shared uint tile[128];
void main() {
    uint l = gl_LocalInvocationIndex, group = gl_WorkGroupID.x + gl_NumWorkGroups.x * gl_WorkGroupID.y;
    tile[l] = a[128u * group + l];
    barrier();
    b[128u * group + l] = tile[127u - l] + uint(a.length()) + 10000u * gl_NumWorkGroups.y;
}
""",
        ("LDS_WRITE", "LDS_READ_RET", "GROUP_BARRIER", "GET_BUFFER_RESINFO"),
    ),
    "collatz": (
        """
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer In { uint a[]; };
layout(std430, binding = 1) buffer Out { uint b[]; };
layout(std140, binding = 2) uniform Table { vec4 table[20]; };
uniform int limit;
void main() {
    uint i = gl_GlobalInvocationID.x, v = a[i], steps = 0u;
    for (int n = 0; n < limit; n++) {
        if (v == 1u) break;
        if (v % 7u == 3u) { v += uint(table[n % 20].z); continue; }
        v = (v & 1u) != 0u ? 3u * v + 1u : v / 2u;
        steps++;
    }
    b[i] = v * 1000u + steps;
}
""",
        ("LOOP_START_DX10", "LOOP_BREAK", "LOOP_END", "ELSE", "MULHI_UINT"),
    ),
    "histogram": (
        """
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer In { uint a[]; };
layout(std430, binding = 1) buffer Out { uint bins[40]; };
layout(binding = 0, offset = 0) uniform atomic_uint small;
shared uint part[16];
void main() {
    uint l = gl_LocalInvocationIndex, v = a[gl_GlobalInvocationID.x];
    if (l < 16u) part[l] = 0u;
    barrier();
    atomicAdd(part[v & 15u], 1u);
    barrier();
    if (l < 16u) atomicAdd(bins[l], part[l]);
    uint old = atomicMax(bins[16], v);
    if (old <= v) atomicOr(bins[17], v);
    atomicMin(bins[18], v);
    atomicCompSwap(bins[19 + l % 8u], 0u, 7u + l % 8u);
    if (v < 100u) atomicCounterIncrement(small);
}
""",
        ("LDS_ADD", "GDS", "ADD", "MAX_UINT_RTN", "CMPXCHG_INT", "MBCNT_32LO_ACCUM_PREV_INT", "WAIT_ACK"),
    ),
    "arithmetic": (
        """
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer In { float a[]; };
layout(std430, binding = 1) buffer Out { vec4 b[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    float x = a[i];
    float y = floor(x);
    if (i % 3u == 1u) y = uintBitsToFloat(bitfieldReverse(i));
    if (i % 3u == 2u) y = uintBitsToFloat(uint(bitCount(i)) | (uint(findMSB(i)) << 8));
    b[i] = vec4(sqrt(abs(x)), y, clamp(x, 0.0, 1.0), x > 3.0 ? exp2(x) : inversesqrt(1.0 + x * x));
}
""",
        ("FLOOR", "SQRT_IEEE", "BFREV_INT", "BCNT_INT"),
    ),
    "image": (
        """
layout(local_size_x = 8, local_size_y = 8) in;
layout(binding = 0) uniform sampler2D from;
layout(binding = 1, r32ui) uniform uimage2D to;
void main() {
    ivec2 at = ivec2(gl_GlobalInvocationID.xy);
    vec4 c = textureLod(from, vec2(at) / 64.0, 1.0) + texelFetch(from, at, 0) + textureGather(from, vec2(at) / 16.0);
    uint old = imageAtomicAdd(to, at, uint(c.x));
    imageStore(to, at + ivec2(8), uvec4(old + imageLoad(to, at).x));
}
""",
        ("SAMPLE_L", "LD", "GATHER4", "ADD_RTN", "STORE_TYPED"),
    ),
}
"""Compute programs by name: text, and operations."""
VERTEX = HEAD + (
    """
in vec4 place; in vec2 at; uniform mat4 turn; uniform vec4 lights[8]; uniform int count;
out vec2 uv; flat out int number; out vec3 light;
void main() {
    gl_Position = turn * place; uv = at; number = gl_InstanceID; light = vec3(0.0);
    for (int i = 0; i < count; i++) light += lights[i].xyz * max(dot(lights[i].xyz, place.xyz), 0.0);
}
"""
)
FRAGMENT = HEAD + (
    """
in vec2 uv; flat in int number; in vec3 light;
uniform sampler2D map; uniform sampler2DShadow shadow; uniform samplerCube sky; uniform sampler2DArray layers;
layout(location = 0) out vec4 colour; layout(location = 1) out vec4 other;
void main() {
    if (uv.x < 0.1) discard;
    vec4 c = texture(map, uv) + textureGrad(map, uv, dFdx(uv), dFdy(uv)) + texture(sky, light) + texture(layers, vec3(uv, number));
    c *= texture(shadow, vec3(uv, 0.5)) + textureLod(map, uv, 2.0).x + float(textureSize(map, 0).x) + textureQueryLod(map, uv).x;
    colour = c; other = vec4(fwidth(uv), sin(light.x), cos(light.y));
}
"""
)
DRAWN = ("INTERP_XY", "SAMPLE", "SAMPLE_G", "SAMPLE_C", "CUBE", "KILLGT", "EXPORT", "EXPORT_DONE", "CALL_FS")
