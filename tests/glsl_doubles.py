"""An OpenGL program: a compute shader in double precision; saves what it computed."""

from __future__ import annotations

import sys

import moderngl
import numpy as np

EXPRESSIONS = (
    "q + 1.0lf",
    "q * q",
    "fma(q, q, q)",
    "floor(q)",
    "max(q, 2.0lf)",
    "q < 3.0lf ? q : 2.0lf",
    "sqrt(q)",
    "1.0lf / q",
    "double(float(q))",
)


def main() -> None:
    context = moderngl.create_context(standalone=True, backend="egl", require=430)
    lines = "\n".join(
        f"found[{len(EXPRESSIONS)}u * i + {n}u] = unpackDouble2x32({e});" for n, e in enumerate(EXPRESSIONS)
    )
    program = context.compute_shader(f"""#version 430
#extension GL_ARB_gpu_shader_fp64 : enable
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer In {{ uvec2 given[]; }};
layout(std430, binding = 1) buffer Out {{ uvec2 found[]; }};
void main() {{
    uint i = gl_GlobalInvocationID.x;
    double q = packDouble2x32(given[i]);
{lines}
}}
""")
    q = np.random.default_rng(64).uniform(0.1, 9, 64)
    given, found = context.buffer(q.tobytes()), context.buffer(reserve=8 * 64 * len(EXPRESSIONS))
    given.bind_to_storage_buffer(0)
    found.bind_to_storage_buffer(1)
    program.run(1)
    np.savez(sys.argv[1], given=q, found=np.frombuffer(found.read(), "f8").reshape(64, -1))


if __name__ == "__main__":
    main()
