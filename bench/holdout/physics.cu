// Physics and imaging as Rodinia, Parboil and PolyBench have it.

struct Particle { float x, y, z, charge; };
// Forces between the particles of neighbouring boxes, 100 to a box (lavaMD).
extern "C" __global__ void __launch_bounds__(128) box_forces(float4 *force, const Particle *particles, int side, float alpha) {
    __shared__ Particle mine[100], theirs[100];
    int t = threadIdx.x, box = blockIdx.x, bx = box % side, by = box / side % side, bz = box / side / side;
    if (t < 100) mine[t] = particles[box * 100 + t];
    float4 sum = make_float4(0, 0, 0, 0);
    for (int k = 0; k < 27; ++k) {
        int x = bx + k % 3 - 1, y = by + k / 3 % 3 - 1, z = bz + k / 9 - 1;
        if (x < 0 || y < 0 || z < 0 || x >= side || y >= side || z >= side) continue;
        __syncthreads();
        if (t < 100) theirs[t] = particles[((z * side + y) * side + x) * 100 + t];
        __syncthreads();
        if (t < 100)
            for (int j = 0; j < 100; ++j) {
                float dx = mine[t].x - theirs[j].x, dy = mine[t].y - theirs[j].y, dz = mine[t].z - theirs[j].z;
                float v = __expf(-alpha * (dx * dx + dy * dy + dz * dz)), f = 2.0f * v * theirs[j].charge;
                sum.x += f * dx, sum.y += f * dy, sum.z += f * dz, sum.w += theirs[j].charge * v;
            }
    }
    if (t < 100) force[box * 100 + t] = sum;
}

struct Flow { float density, x, y, z, energy; };
__device__ Flow flow_of(const float *v, int n, int i) { return {v[i], v[n + i], v[2 * n + i], v[3 * n + i], v[4 * n + i]}; }
__device__ float pressure_of(Flow f) { return 0.4f * (f.energy - 0.5f * (f.x * f.x + f.y * f.y + f.z * f.z) / f.density); }
// Fluxes of an Euler solver over four faces of unstructured cells; neighbour -1 is a wall, -2 the far field (cfd).
extern "C" __global__ void euler_fluxes(float *out, const int *neighbours, const float *normals, const float *variables, int n, float far_density, float far_x, float far_energy) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Flow me = flow_of(variables, n, i);
    float p = pressure_of(me), speed = sqrtf((me.x * me.x + me.y * me.y + me.z * me.z) / (me.density * me.density)), sound = sqrtf(1.4f * p / me.density), sum[5] = {0, 0, 0, 0, 0};
    for (int face = 0; face < 4; ++face) {
        int other = neighbours[face * n + i];
        float nx = normals[face * 3 * n + i], ny = normals[(face * 3 + 1) * n + i], nz = normals[(face * 3 + 2) * n + i], area = sqrtf(nx * nx + ny * ny + nz * nz);
        if (other == -1) {
            sum[1] += nx * p, sum[2] += ny * p, sum[3] += nz * p;
            continue;
        }
        Flow them = other >= 0 ? flow_of(variables, n, other) : Flow{far_density, far_x, 0.0f, 0.0f, far_energy};
        float q = pressure_of(them), their_speed = sqrtf((them.x * them.x + them.y * them.y + them.z * them.z) / (them.density * them.density)), their_sound = sqrtf(1.4f * q / them.density);
        float along = 0.5f * (me.x * nx + me.y * ny + me.z * nz) / me.density, across = 0.5f * (them.x * nx + them.y * ny + them.z * nz) / them.density;
        float damp = -0.1f * area * (speed + their_speed + sound + their_sound);
        sum[0] += damp * (me.density - them.density) + along * me.density + across * them.density;
        sum[1] += damp * (me.x - them.x) + along * me.x + across * them.x + 0.5f * nx * (p + q);
        sum[2] += damp * (me.y - them.y) + along * me.y + across * them.y + 0.5f * ny * (p + q);
        sum[3] += damp * (me.z - them.z) + along * me.z + across * them.z + 0.5f * nz * (p + q);
        sum[4] += damp * (me.energy - them.energy) + along * (me.energy + p) + across * (them.energy + q);
    }
    for (int k = 0; k < 5; ++k) out[k * n + i] = sum[k];
}

// The second half of an SRAD step: divergence of the coefficients, with tables of neighbours.
extern "C" __global__ void speckle_update(float *image, const float *coefficient, const float *north, const float *south, const float *west, const float *east, const int *below, const int *right, int rows, int columns, float step) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= columns || y >= rows) return;
    int at = y * columns + x;
    float c = coefficient[at], s = coefficient[below[y] * columns + x], e = coefficient[y * columns + right[x]];
    image[at] += 0.25f * step * (c * north[at] + s * south[at] + c * west[at] + e * east[at]);
}

// One step of a lattice-Boltzmann fluid in three dimensions with 19 directions (lbm): pull, collide, store.
extern "C" __global__ void __launch_bounds__(128) lattice_19(float *dst, const float *src, int nx, int ny, int nz, float rate) {
    const int dx[19] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0};
    const int dy[19] = {0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1};
    const int dz[19] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1};
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y, z = blockIdx.z, cells = nx * ny * nz, here = (z * ny + y) * nx + x;
    if (x >= nx) return;
    float f[19], density = 0.0f, ux = 0.0f, uy = 0.0f, uz = 0.0f;
    #pragma unroll
    for (int k = 0; k < 19; ++k) {
        int px = x - dx[k], py = y - dy[k], pz = z - dz[k];
        px = px < 0 ? nx - 1 : px == nx ? 0 : px, py = py < 0 ? ny - 1 : py == ny ? 0 : py, pz = pz < 0 ? nz - 1 : pz == nz ? 0 : pz;
        f[k] = src[k * cells + (pz * ny + py) * nx + px];
        density += f[k], ux += dx[k] * f[k], uy += dy[k] * f[k], uz += dz[k] * f[k];
    }
    ux /= density, uy /= density, uz /= density;
    float square = 1.5f * (ux * ux + uy * uy + uz * uz);
    #pragma unroll
    for (int k = 0; k < 19; ++k) {
        float w = k == 0 ? 1.0f / 3.0f : k < 7 ? 1.0f / 18.0f : 1.0f / 36.0f, u = 3.0f * (dx[k] * ux + dy[k] * uy + dz[k] * uz);
        dst[k * cells + here] = f[k] - rate * (f[k] - w * density * (1.0f + u + 0.5f * u * u - square));
    }
}

__constant__ float4 trajectory[1024];
// Sums of a magnetic-resonance reconstruction: sines and cosines of dot products with a trajectory in constant memory (mri-q).
extern "C" __global__ void resonance_q(float *real, float *imaginary, const float *x, const float *y, const float *z, int n, int points) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float re = 0.0f, im = 0.0f, px = x[i], py = y[i], pz = z[i];
    for (int k = 0; k < points; ++k) {
        float4 p = trajectory[k];
        float s, c;
        sincosf(6.2831853f * (p.x * px + p.y * py + p.z * pz), &s, &c);
        re += p.w * c, im += p.w * s;
    }
    real[i] = re, imaginary[i] = im;
}

__constant__ float bounds[20];
// Histogram of angles between points on a sphere (tpacf): a search in the bounds for each pair, a histogram for each warp.
extern "C" __global__ void __launch_bounds__(128) angle_counts(unsigned *counts, const float *points, int n) {
    __shared__ float tile[3][128];
    __shared__ unsigned bins[4][21];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    for (int k = t; k < 84; k += 128) bins[k / 21][k % 21] = 0;
    float x = points[i], y = points[n + i], z = points[2 * n + i];
    for (int from = blockIdx.x * 128; from < n; from += 128) {
        __syncthreads();
        for (int k = 0; k < 3; ++k) tile[k][t] = points[k * n + from + t];
        __syncthreads();
        for (int j = 0; j < 128; ++j) {
            if (from + j <= i) continue;
            float dot = x * tile[0][j] + y * tile[1][j] + z * tile[2][j];
            int low = 0, high = 20;
            while (low < high) {
                int middle = (low + high) / 2;
                if (dot >= bounds[middle]) high = middle; else low = middle + 1;
            }
            atomicAdd(&bins[t / 32][low], 1u);
        }
    }
    __syncthreads();
    if (t < 21) atomicAdd(&counts[t], bins[0][t] + bins[1][t] + bins[2][t] + bins[3][t]);
}

// Sums of absolute differences of 8 by 8 pixels against 256 places around (sad): block for a macroblock, thread for a place.
extern "C" __global__ void __launch_bounds__(256) match_blocks(unsigned *best, const unsigned char *frame, const unsigned char *reference, int width) {
    __shared__ unsigned window[24][8], block[8][2], costs[8];
    int t = threadIdx.x, x0 = blockIdx.x * 8, y0 = blockIdx.y * 8;  // the reference has a border of 8
    if (t < 192) window[t / 8][t % 8] = t % 8 < 6 ? *(const unsigned *)(reference + (y0 + t / 8) * (width + 16) + x0 + t % 8 * 4) : 0;
    if (t < 16) block[t / 2][t % 2] = *(const unsigned *)(frame + (y0 + t / 2) * width + x0 + t % 2 * 4);
    __syncthreads();
    int dx = t % 16, dy = t / 16;
    unsigned sum = 0;
    #pragma unroll
    for (int y = 0; y < 8; ++y) {
        const unsigned *row = &window[dy + y][dx / 4];
        unsigned a = __funnelshift_r(row[0], row[1], dx % 4 * 8), b = __funnelshift_r(row[1], row[2], dx % 4 * 8);
        sum += __vsadu4(a, block[y][0]) + __vsadu4(b, block[y][1]);
    }
    unsigned least = __reduce_min_sync(~0u, sum << 8 | t);
    if (t % 32 == 0) costs[t / 32] = least;
    __syncthreads();
    if (t < 32) {
        least = __reduce_min_sync(~0u, t < 8 ? costs[t] : ~0u);
        if (t == 0) best[blockIdx.y * gridDim.x + blockIdx.x] = least;
    }
}

__constant__ float circle_sin[64], circle_cos[64];
__constant__ int circle_x[4][64], circle_y[4][64];
// How well circles fit around each pixel (leukocyte's GICOV): gradients along them, mean squared over variance, the best of four.
extern "C" __global__ void fit_circles(float *score, const float *along_x, const float *along_y, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float best = 0.0f;
    if (x >= 16 && y >= 16 && x < width - 16 && y < height - 16)
        for (int k = 0; k < 4; ++k) {
            float sum = 0.0f, squares = 0.0f;
            for (int j = 0; j < 64; ++j) {
                int at = (y + circle_y[k][j]) * width + x + circle_x[k][j];
                float g = along_x[at] * circle_cos[j] + along_y[at] * circle_sin[j];
                sum += g, squares += g * g;
            }
            float mean = sum / 64.0f, variance = (squares - sum * mean) / 63.0f;
            if (mean * mean / variance > best) best = mean * mean / variance;
        }
    score[y * width + x] = best;
}
