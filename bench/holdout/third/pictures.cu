// Pictures, volumes and rays.

__constant__ float2 directions[360];

// Means of similar surroundings: 7 by 7 places, patches of 3 by 3, from a tile in shared memory.
extern "C" __global__ void __launch_bounds__(256) similar_means(float *dst, const float *src, int width, int height, float sharp) {
    __shared__ float tile[24][25];
    int x0 = blockIdx.x * 16, y0 = blockIdx.y * 16, tx = threadIdx.x, ty = threadIdx.y;
    for (int i = ty * 16 + tx; i < 576; i += 256) {
        int x = min(max(x0 + i % 24 - 4, 0), width - 1), y = min(max(y0 + i / 24 - 4, 0), height - 1);
        tile[i / 24][i % 24] = src[y * width + x];
    }
    __syncthreads();
    float sum = 0.0f, weights = 0.0f;
    for (int dy = -3; dy <= 3; ++dy)
        for (int dx = -3; dx <= 3; ++dx) {
            float far = 0.0f;
            #pragma unroll
            for (int py = -1; py <= 1; ++py)
                #pragma unroll
                for (int px = -1; px <= 1; ++px) {
                    float d = tile[ty + 4 + py][tx + 4 + px] - tile[ty + 4 + dy + py][tx + 4 + dx + px];
                    far += d * d;
                }
            float w = __expf(-far * sharp);
            sum += w * tile[ty + 4 + dy][tx + 4 + dx], weights += w;
        }
    if (x0 + tx < width && y0 + ty < height) dst[(y0 + ty) * width + x0 + tx] = sum / weights;
}

// A sensor's mosaic (red and green, green and blue) to colours of four bytes.
extern "C" __global__ void mosaic_colours(uchar4 *dst, const unsigned char *src, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    auto at = [&](int dx, int dy) {
        int px = x + dx, py = y + dy;
        px = px < 0 ? 1 : px >= width ? width - 2 : px, py = py < 0 ? 1 : py >= height ? height - 2 : py;
        return (int)src[py * width + px];
    };
    int own = at(0, 0), sides = at(-1, 0) + at(1, 0), ends = at(0, -1) + at(0, 1);
    int corners = at(-1, -1) + at(1, -1) + at(-1, 1) + at(1, 1), r, g, b;
    if ((x ^ y) & 1) {
        g = own, r = y & 1 ? ends >> 1 : sides >> 1, b = y & 1 ? sides >> 1 : ends >> 1;
    } else {
        g = sides + ends >> 2, r = y & 1 ? corners >> 2 : own, b = y & 1 ? own : corners >> 2;
    }
    dst[y * width + x] = make_uchar4(r, g, b, 255);
}

// A picture of brightness and halved colour planes (NV12) to three bytes a pixel: a thread 2 by 2 pixels.
extern "C" __global__ void planes_pixels(unsigned char *dst, const unsigned char *bright, const uchar2 *colour, int width, int height) {
    int x = (blockIdx.x * blockDim.x + threadIdx.x) * 2, y = (blockIdx.y * blockDim.y + threadIdx.y) * 2;
    if (x >= width || y >= height) return;
    uchar2 uv = colour[y / 2 * (width / 2) + x / 2];
    int u = uv.x - 128, v = uv.y - 128;
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        int px = x + k % 2, py = y + k / 2, c = 298 * (bright[py * width + px] - 16) + 128;
        unsigned char *to = dst + (py * width + px) * 3;
        to[0] = min(max(c + 409 * v >> 8, 0), 255), to[1] = min(max(c - 100 * u - 208 * v >> 8, 0), 255), to[2] = min(max(c + 516 * u >> 8, 0), 255);
    }
}

// Motion of points between two pictures (Lucas and Kanade): a warp a point, windows of 8 by 8, four rounds.
extern "C" __global__ void track_points(float2 *moved, const float2 *points, const float *one, const float *two, int n, int width, int height) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (i >= n) return;
    float2 p = points[i];
    float u = 0.0f, v = 0.0f, xx = 0.0f, xy = 0.0f, yy = 0.0f, gx[2], gy[2], value[2];
    auto sample = [&](const float *image, float x, float y) {
        x = fminf(fmaxf(x, 0.0f), width - 1.001f), y = fminf(fmaxf(y, 0.0f), height - 1.001f);
        int x0 = (int)x, y0 = (int)y;
        float fx = x - x0, fy = y - y0;
        const float *at = image + y0 * width + x0;
        return (at[0] * (1 - fx) + at[1] * fx) * (1 - fy) + (at[width] * (1 - fx) + at[width + 1] * fx) * fy;
    };
    auto over_lanes = [](float s) {
        for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
        return s;
    };
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
        float x = p.x + lane % 8 - 3.5f, y = p.y + lane / 8 + 4 * k - 3.5f;
        value[k] = sample(one, x, y);
        gx[k] = 0.5f * (sample(one, x + 1, y) - sample(one, x - 1, y)), gy[k] = 0.5f * (sample(one, x, y + 1) - sample(one, x, y - 1));
        xx += gx[k] * gx[k], xy += gx[k] * gy[k], yy += gy[k] * gy[k];
    }
    xx = over_lanes(xx), xy = over_lanes(xy), yy = over_lanes(yy);
    float scale = 1.0f / (xx * yy - xy * xy + 1e-6f);
    for (int round = 0; round < 4; ++round) {
        float bx = 0.0f, by = 0.0f;
        #pragma unroll
        for (int k = 0; k < 2; ++k) {
            float off = value[k] - sample(two, p.x + u + lane % 8 - 3.5f, p.y + v + lane / 8 + 4 * k - 3.5f);
            bx += off * gx[k], by += off * gy[k];
        }
        bx = over_lanes(bx), by = over_lanes(by);
        u += (yy * bx - xy * by) * scale, v += (xx * by - xy * bx) * scale;
    }
    if (lane == 0) moved[i] = make_float2(u, v);
}

// Descriptors of 256 bits: the two nearest of a list by differing bits, 64 of it in shared memory at a time.
extern "C" __global__ void __launch_bounds__(128) match_bits(int *dst, const uint4 *queries, const uint4 *list, int n, int listed) {
    __shared__ uint4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x, best = 1 << 20, next = 1 << 20, where = -1;
    uint4 a = queries[min(i, n - 1) * 2], b = queries[min(i, n - 1) * 2 + 1];
    for (int base = 0; base < listed; base += 64) {
        __syncthreads();
        tile[threadIdx.x] = list[base * 2 + threadIdx.x];
        __syncthreads();
        #pragma unroll 4
        for (int j = 0; j < 64; ++j) {
            uint4 c = tile[2 * j], d = tile[2 * j + 1];
            int far = __popc(a.x ^ c.x) + __popc(a.y ^ c.y) + __popc(a.z ^ c.z) + __popc(a.w ^ c.w)
                + __popc(b.x ^ d.x) + __popc(b.y ^ d.y) + __popc(b.z ^ d.z) + __popc(b.w ^ d.w);
            if (far < best) next = best, best = far, where = base + j;
            else if (far < next) next = far;
        }
    }
    if (i < n) dst[i] = where | (next - best) << 20;
}

// Tiles of 64 by 64 with their histograms made even, no bin above a limit.
extern "C" __global__ void __launch_bounds__(256) equalise_tiles(unsigned char *dst, const unsigned char *src, int width, unsigned limit) {
    __shared__ unsigned bins[256], warps[8], spare;
    __shared__ unsigned char map[256];
    int t = threadIdx.x, lane = t % 32;
    long long corner = (long long)blockIdx.y * 64 * width + blockIdx.x * 64;
    bins[t] = 0;
    if (t == 0) spare = 0;
    __syncthreads();
    uchar4 pixels[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        pixels[k] = *(const uchar4 *)(src + corner + (long long)(k * 16 + t / 16) * width + t % 16 * 4);
        atomicAdd(&bins[pixels[k].x], 1u), atomicAdd(&bins[pixels[k].y], 1u), atomicAdd(&bins[pixels[k].z], 1u), atomicAdd(&bins[pixels[k].w], 1u);
    }
    __syncthreads();
    unsigned mine = bins[t];
    if (mine > limit) atomicAdd(&spare, mine - limit), mine = limit;
    __syncthreads();
    mine += spare / 256;
    unsigned sum = mine;
    for (int d = 1; d < 32; d *= 2) {
        unsigned u = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += u;
    }
    if (lane == 31) warps[t / 32] = sum;
    __syncthreads();
    for (int w = 0; w < t / 32; ++w) sum += warps[w];
    map[t] = min(sum * 255 / 4096, 255u);
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        *(uchar4 *)(dst + corner + (long long)(k * 16 + t / 16) * width + t % 16 * 4) = make_uchar4(map[pixels[k].x], map[pixels[k].y], map[pixels[k].z], map[pixels[k].w]);
}

// A slice from its projections: a pixel adds what each of many directions saw through it.
extern "C" __global__ void back_project(float *dst, const float *seen, int width, int detectors, int views) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float fx = x - 0.5f * (width - 1), fy = y - 0.5f * (width - 1), sum = 0.0f;
    for (int view = 0; view < views; ++view) {
        float2 d = directions[view];
        float at = fx * d.x + fy * d.y + 0.5f * (detectors - 1);
        int cell = (int)floorf(at);
        float part = at - cell;
        if (cell >= 0 && cell + 1 < detectors) {
            const float *row = seen + view * detectors + cell;
            sum += row[0] * (1.0f - part) + row[1] * part;
        }
    }
    if (x < width && y < width) dst[y * width + x] = sum;
}

// Triangles over tiles of 16 by 16 pixels: a block finds those that may touch its tile, 256 at a time, then each pixel tests them.
extern "C" __global__ void __launch_bounds__(256) raster_tiles(unsigned *dst, const int4 *corners, const int4 *rest, int triangles, int width) {
    __shared__ int4 ab[256], c[256];
    __shared__ int counts[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, x0 = blockIdx.x * 16, y0 = blockIdx.y * 16, x = x0 + t % 16, y = y0 + t / 16;
    unsigned best = ~0u;
    for (int base = 0; base < triangles; base += 256) {
        int4 p = make_int4(0, 0, 0, 0), q = p;
        bool near = false;
        if (base + t < triangles) {
            p = corners[base + t], q = rest[base + t];  // two corners; the third, a depth, a name
            near = min(min(p.x, p.z), q.x) < x0 + 16 && max(max(p.x, p.z), q.x) >= x0 && min(min(p.y, p.w), q.y) < y0 + 16 && max(max(p.y, p.w), q.y) >= y0;
        }
        unsigned those = __ballot_sync(~0u, near);
        if (lane == 0) counts[warp] = __popc(those);
        __syncthreads();
        int first = 0, all = 0;
        for (int w = 0; w < 8; ++w) first += w < warp ? counts[w] : 0, all += counts[w];
        if (near) {
            int to = first + __popc(those & ((1u << lane) - 1));
            ab[to] = p, c[to] = q;
        }
        __syncthreads();
        for (int k = 0; k < all; ++k) {
            int4 u = ab[k], v = c[k];
            int e0 = (u.z - u.x) * (y - u.y) - (u.w - u.y) * (x - u.x), e1 = (v.x - u.z) * (y - u.w) - (v.y - u.w) * (x - u.z), e2 = (u.x - v.x) * (y - v.y) - (u.y - v.y) * (x - v.x);
            if ((e0 >= 0 && e1 >= 0 && e2 >= 0) || (e0 <= 0 && e1 <= 0 && e2 <= 0)) best = min(best, (unsigned)v.z << 16 | v.w);
        }
        __syncthreads();
    }
    dst[y * width + x] = best;
}

// Rays through a grid of bits, cell by cell, until one that is set.
extern "C" __global__ void walk_voxels(int *hit, const unsigned *cells, const float4 *origins, const float4 *ways, int n, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 o = origins[i], w = ways[i];
    int x = (int)o.x, y = (int)o.y, z = (int)o.z, sx = w.x < 0 ? -1 : 1, sy = w.y < 0 ? -1 : 1, sz = w.z < 0 ? -1 : 1, steps = 0, found = -1;
    float ex = fabsf(1.0f / w.x), ey = fabsf(1.0f / w.y), ez = fabsf(1.0f / w.z);
    float nx = (w.x < 0 ? o.x - x : x + 1 - o.x) * ex, ny = (w.y < 0 ? o.y - y : y + 1 - o.y) * ey, nz = (w.z < 0 ? o.z - z : z + 1 - o.z) * ez;
    while ((unsigned)x < side && (unsigned)y < side && (unsigned)z < side) {
        int cell = (z * side + y) * side + x;
        if (cells[cell / 32] >> cell % 32 & 1) {
            found = steps;
            break;
        }
        if (nx < ny && nx < nz) x += sx, nx += ex;
        else if (ny < nz) y += sy, ny += ey;
        else z += sz, nz += ez;
        ++steps;
    }
    hit[i] = found;
}
