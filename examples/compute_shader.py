"""A GLSL compute shader that reverses each group of 64 numbers; ``warpwright run --gpu hd6970 examples/compute_shader.py``."""

import moderngl
import numpy as np

context = moderngl.create_context(standalone=True, backend="egl", require=430)
program = context.compute_shader("""
#version 430
layout(local_size_x = 64) in;
layout(std430, binding = 0) buffer Data { float data[]; };
shared float tile[64];
void main() {
    uint l = gl_LocalInvocationIndex;
    tile[l] = data[gl_GlobalInvocationID.x];
    barrier();
    data[gl_GlobalInvocationID.x] = 2.0 * tile[63u - l];
}
""")
data = context.buffer(np.arange(256, dtype=np.float32).tobytes())
data.bind_to_storage_buffer(0)
program.run(4)
print(np.frombuffer(data.read(), np.float32)[:4])  # [126. 124. 122. 120.]
