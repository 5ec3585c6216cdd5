// Pictures: escape times, spheres under rays, distance fields.

extern "C" __global__ void mandelbrot_set(int *steps, int width, int height, int most) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= width || y >= height) return;
    float cx = -2.2f + 3.2f * x / width, cy = -1.2f + 2.4f * y / height, zx = 0.0f, zy = 0.0f;
    int k = 0;
    while (k < most && __fadd_rn(__fmul_rn(zx, zx), __fmul_rn(zy, zy)) < 4.0f) {
        float next = __fadd_rn(__fsub_rn(__fmul_rn(zx, zx), __fmul_rn(zy, zy)), cx);
        zy = __fadd_rn(__fmul_rn(__fmul_rn(2.0f, zx), zy), cy);
        zx = next;
        ++k;
    }
    steps[y * width + x] = k;
}

extern "C" __global__ void julia_double(int *steps, int width, int height, double cx, double cy, int most) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= width || y >= height) return;
    double zx = -1.5 + 3.0 * x / width, zy = -1.5 + 3.0 * y / height;
    int k = 0;
    for (; k < most && __dadd_rn(__dmul_rn(zx, zx), __dmul_rn(zy, zy)) < 4.0; ++k) {
        double next = __dadd_rn(__dsub_rn(__dmul_rn(zx, zx), __dmul_rn(zy, zy)), cx);
        zy = __dadd_rn(__dmul_rn(__dmul_rn(2.0, zx), zy), cy);
        zx = next;
    }
    steps[y * width + x] = k;
}

__constant__ float4 spheres[64];

extern "C" __global__ void ray_spheres(int *hit, float *depth, int width, int height, int count) {
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x >= width || y >= height) return;
    float dx = (float)x / width - 0.5f, dy = (float)y / height - 0.5f, dz = 1.0f;
    float scale = rsqrtf(dx * dx + dy * dy + dz * dz), nearest = 1e30f;
    dx *= scale, dy *= scale, dz *= scale;
    int found = -1;
    for (int i = 0; i < count; ++i) {
        float4 s = spheres[i];
        float b = dx * s.x + dy * s.y + dz * s.z, c = s.x * s.x + s.y * s.y + s.z * s.z - s.w * s.w, d = b * b - c;
        if (d > 0.0f) {
            float t = b - sqrtf(d);
            if (t > 0.0f && t < nearest) {
                nearest = t;
                found = i;
            }
        }
    }
    hit[y * width + x] = found;
    depth[y * width + x] = found < 0 ? 0.0f : nearest;
}

// Rays march through a field of repeated spheres until they are near one or have gone too far.
extern "C" __global__ void ray_march(float *depth, int width, int height) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    if (x >= width || y >= height) return;
    float dx = (float)x / width - 0.5f, dy = (float)y / height - 0.5f, dz = 1.0f;
    float scale = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz), t = 0.0f;
    for (int k = 0; k < 64 && t < 24.0f; ++k) {
        float px = dx * scale * t, py = dy * scale * t, pz = dz * scale * t;
        px -= 2.0f * floorf(0.5f * px + 0.5f), py -= 2.0f * floorf(0.5f * py), pz -= 2.0f * floorf(0.5f * pz + 0.25f);
        float d = sqrtf(px * px + (py - 1.0f) * (py - 1.0f) + (pz - 0.5f) * (pz - 0.5f)) - 0.4f;
        if (d < 0.001f) break;
        t += 0.8f * d;
    }
    depth[y * width + x] = t;
}
