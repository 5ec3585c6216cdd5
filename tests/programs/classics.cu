// Kernels in the manner of the benchmark suites: dynamic programming, factorisation, diffusion, graphs, particles, options.

#define TILE 16
// One diagonal block of an LU factorisation in shared memory, without pivots.
extern "C" __global__ void lu_block(float *a) {
    __shared__ float m[TILE][TILE + 1];
    int t = threadIdx.x;
    a += blockIdx.x * TILE * TILE;
    for (int k = 0; k < TILE; k++) m[k][t] = a[k * TILE + t];
    __syncthreads();
    for (int k = 0; k < TILE - 1; k++) {
        if (t > k) {
            for (int j = 0; j < k; j++) m[t][k] -= m[t][j] * m[j][k];
            m[t][k] /= m[k][k];
        }
        __syncthreads();
        if (t > k)
            for (int j = 0; j < k + 1; j++) m[k + 1][t] -= m[k + 1][j] * m[j][t];
        __syncthreads();
    }
    for (int k = 0; k < TILE; k++) a[k * TILE + t] = m[k][t];
}

// Cheapest path down a grid of costs, several rows a launch, halo recomputed.
extern "C" __global__ void path_finder(int *dst, const int *wall, const int *src, int rows, int columns) {
    __shared__ int now[64], next[64];
    int border = rows, t = threadIdx.x, x = (int)blockIdx.x * (64 - 2 * border) - border + t;
    bool valid = x >= 0 && x < columns;
    now[t] = valid ? src[x] : 1 << 28;
    __syncthreads();
    for (int r = 0; r < rows; r++) {
        int best = now[t];
        if (t > 0) best = min(best, now[t - 1]);
        if (t < 63) best = min(best, now[t + 1]);
        next[t] = valid ? best + wall[r * columns + x] : 1 << 28;
        __syncthreads();
        now[t] = next[t];
        __syncthreads();
    }
    if (valid && t >= border && t < 64 - border) dst[x] = now[t];
}

// Needleman-Wunsch scores of one tile by anti-diagonals.
extern "C" __global__ void needleman_wunsch(int *score, const int *similar, int n, int penalty) {
    __shared__ int s[33][33];
    int t = threadIdx.x;
    for (int k = t; k <= n; k += blockDim.x) s[0][k] = -k * penalty, s[k][0] = -k * penalty;
    __syncthreads();
    for (int d = 0; d < 2 * n - 1; d++) {
        int row = d - t + 1, column = t + 1;
        if (row >= 1 && row <= n && column <= n) s[row][column] = max(s[row - 1][column - 1] + similar[(row - 1) * n + column - 1], max(s[row - 1][column], s[row][column - 1]) - penalty);
        __syncthreads();
    }
    for (int r = 0; r <= n; r++)
        if (t < n) score[r * (n + 1) + t + 1] = s[r][t + 1];
    if (t <= n) score[t * (n + 1)] = s[t][0];
    if (t == 0) score[n * (n + 1)] = s[n][0];
}

extern "C" __global__ void hot_spot(float *dst, const float *heat, const float *power, int w, int h, float rx, float ry, float rz, float step) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int i = y * w + x, west = x ? i - 1 : i, east = x < w - 1 ? i + 1 : i, north = y ? i - w : i, south = y < h - 1 ? i + w : i;
    float c = heat[i];
    dst[i] = c + step * (power[i] + (heat[south] + heat[north] - 2.0f * c) * ry + (heat[east] + heat[west] - 2.0f * c) * rx + (80.0f - c) * rz);
}

// Speckle-reducing diffusion: coefficients from gradients, clamped indices.
extern "C" __global__ void speckle_coefficients(float *c, const float *image, int w, int h, float q0) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float j = image[y * w + x];
    float n = image[max(y - 1, 0) * w + x] - j, s = image[min(y + 1, h - 1) * w + x] - j, e = image[y * w + min(x + 1, w - 1)] - j, v = image[y * w + max(x - 1, 0)] - j;
    float g2 = (n * n + s * s + e * e + v * v) / (j * j), l = (n + s + e + v) / j;
    float num = 0.5f * g2 - 0.0625f * l * l, den = 1.0f + 0.25f * l, q = num / (den * den);
    den = (q - q0) / (q0 * (1.0f + q0));
    c[y * w + x] = fminf(fmaxf(1.0f / (1.0f + den), 0.0f), 1.0f);
}

// Column of Gaussian elimination with the right-hand side.
extern "C" __global__ void gauss_step(float *m, float *a, float *b, int n, int k) {
    int row = blockIdx.x * blockDim.x + threadIdx.x + k + 1, column = blockIdx.y * blockDim.y + threadIdx.y + k;
    if (row >= n || column >= n) return;
    a[row * n + column] -= m[row * n + k] * a[k * n + column];
    if (column == k) b[row] -= m[row * n + k] * b[k];
}

extern "C" __global__ void back_propagation(float *weights, float *before, const float *delta, const float *layer, int hidden) {
    int y = blockIdx.x * blockDim.y + threadIdx.y, x = threadIdx.x, at = (hidden + 1) * (y + 1) + x + 1;
    float change = 0.3f * delta[x + 1] * layer[y + 1] + 0.3f * before[at];
    weights[at] += change;
    before[at] = change;
    __syncthreads();
    if (x == 0 && y == 0) weights[0] = weights[at] * 2.0f;
}

// Matrix of correlations' covariance part, matrix products with transposes, and a rank-two update (PolyBench's staples).
extern "C" __global__ void column_covariance(float *cov, const float *data, int rows, int columns) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns) return;
    for (int k = j; k < columns; k++) {
        float mean_j = 0, mean_k = 0, s = 0;
        for (int r = 0; r < rows; r++) mean_j += data[r * columns + j], mean_k += data[r * columns + k];
        mean_j /= rows, mean_k /= rows;
        for (int r = 0; r < rows; r++) s += (data[r * columns + j] - mean_j) * (data[r * columns + k] - mean_k);
        cov[j * columns + k] = cov[k * columns + j] = s / (rows - 1);
    }
}
extern "C" __global__ void rank_two_update(double *c, const double *a, const double *b, int n, int m, double alpha, double beta) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    double s = beta * c[i * n + j];
    for (int k = 0; k < m; k++) s += alpha * (a[i * m + k] * b[j * m + k] + b[i * m + k] * a[j * m + k]);
    c[i * n + j] = s;
}
extern "C" __global__ void fdtd_fields(float *ex, float *ey, float *hz, int w, int h, float pulse) {
    for (int i = threadIdx.x; i < w * h; i += blockDim.x) {
        int x = i % w, y = i / w;
        if (y == 0) ey[i] = pulse; else ey[i] -= 0.5f * (hz[i] - hz[i - w]);
        if (x > 0) ex[i] -= 0.5f * (hz[i] - hz[i - 1]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < w * h; i += blockDim.x) {
        int x = i % w, y = i / w;
        if (x < w - 1 && y < h - 1) hz[i] -= 0.7f * (ex[i + 1] - ex[i] + ey[i + w] - ey[i]);
    }
}

// Magnetic resonance: sum of phases over sample points in constant memory.
struct Sample { float x, y, z, weight; };
__constant__ Sample samples[64];
extern "C" __global__ void resonance(float2 *dst, const float *x, const float *y, const float *z, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float re = 0, im = 0;
    for (int k = 0; k < count; k++) {
        float s, c;
        sincosf(6.2831853f * (samples[k].x * x[i] + samples[k].y * y[i] + samples[k].z * z[i]), &s, &c);
        re += samples[k].weight * c, im += samples[k].weight * s;
    }
    dst[i] = make_float2(re, im);
}

// Lennard-Jones forces from neighbour lists.
extern "C" __global__ void lennard_jones(float4 *force, const float4 *position, const int *neighbours, int n, int count, float cut) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = position[i], f = make_float4(0, 0, 0, 0);
    for (int k = 0; k < count; k++) {
        float4 q = position[neighbours[k * n + i]];
        float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < cut && r2 > 0.0f) {
            float inv = 1.0f / r2, six = inv * inv * inv, s = inv * six * (1.5f * six - 2.0f);
            f.x += dx * s, f.y += dy * s, f.z += dz * s, f.w += six;
        }
    }
    force[i] = f;
}

// Fast Walsh transform, binomial options and a Mersenne twister (as the samples have them).
extern "C" __global__ void walsh(float *data, int log2n) {
    extern __shared__ float s[];
    int n = 1 << log2n;
    for (int k = threadIdx.x; k < n; k += blockDim.x) s[k] = data[blockIdx.x * n + k];
    for (int stride = 1; stride < n; stride <<= 1) {
        __syncthreads();
        for (int k = threadIdx.x; k < n / 2; k += blockDim.x) {
            int low = k & (stride - 1), at = 2 * k - low;
            float a = s[at], b = s[at + stride];
            s[at] = a + b, s[at + stride] = a - b;
        }
    }
    __syncthreads();
    for (int k = threadIdx.x; k < n; k += blockDim.x) data[blockIdx.x * n + k] = s[k];
}
extern "C" __global__ void binomial_option(float *dst, const float *spot, const float *strike, int steps, float up, float down, float p, float discount) {
    extern __shared__ float value[];
    float s = spot[blockIdx.x], x = strike[blockIdx.x];
    for (int k = threadIdx.x; k <= steps; k += blockDim.x) value[k] = fmaxf(s * powf(up, (float)k) * powf(down, (float)(steps - k)) - x, 0.0f);
    for (int level = steps; level > 0; level--) {
        __syncthreads();
        float mine = 0.0f;
        if ((int)threadIdx.x < level) mine = discount * (p * value[threadIdx.x + 1] + (1.0f - p) * value[threadIdx.x]);
        __syncthreads();
        if ((int)threadIdx.x < level) value[threadIdx.x] = mine;
    }
    if (threadIdx.x == 0) dst[blockIdx.x] = value[0];
}
extern "C" __global__ void mersenne(unsigned *dst, const unsigned *seeds, int count) {
    int t = blockIdx.x * blockDim.x + threadIdx.x, at = 0, total = gridDim.x * blockDim.x;
    unsigned state[19];
    state[0] = seeds[t];
    for (int k = 1; k < 19; k++) state[k] = 1812433253u * (state[k - 1] ^ state[k - 1] >> 30) + k;
    for (int k = 0; k < count; k++) {
        int next = at + 1 < 19 ? at + 1 : 0, far = at + 9 < 19 ? at + 9 : at + 9 - 19;
        unsigned x = (state[at] & 0xFFFFFFFEu) | (state[next] & 1u);
        x = state[far] ^ x >> 1 ^ (x & 1 ? 0x9908B0DFu : 0u);
        state[at] = x;
        at = next;
        x ^= x >> 12, x ^= x << 7 & 0x9D2C5680u, x ^= x << 15 & 0xEFC60000u;
        dst[k * total + t] = x ^ x >> 18;
    }
}
// 8x8 cosine transform of image blocks, rows then columns.
extern "C" __global__ void cosine_8x8(float *dst, const float *src, int pitch) {
    __shared__ float b[8][9], r[8][9];
    int x = threadIdx.x, y = threadIdx.y, at = (blockIdx.y * 8 + y) * pitch + blockIdx.x * 8 + x;
    b[y][x] = src[at] - 128.0f;
    __syncthreads();
    float s = 0;
    for (int k = 0; k < 8; k++) s += b[y][k] * cospif((2 * k + 1) * x / 16.0f);
    r[y][x] = s * (x ? 0.5f : 0.35355339f);
    __syncthreads();
    s = 0;
    for (int k = 0; k < 8; k++) s += r[k][x] * cospif((2 * k + 1) * y / 16.0f);
    dst[at] = rintf(s * (y ? 0.5f : 0.35355339f));
}
// Shortest paths by relaxation with atomics, and connected components by label propagation.
extern "C" __global__ void relax_edges(int *distance, int *changed, const int3 *edges, int count) {
    for (int round = 0; round < 12; round++) {
        for (int e = threadIdx.x; e < count; e += blockDim.x) {
            int3 edge = edges[e];
            int through = ((volatile int *)distance)[edge.x];
            if (through < 1 << 28 && atomicMin(&distance[edge.y], through + edge.z) > through + edge.z) atomicAdd(changed, 0);
        }
        __syncthreads();
    }
}
extern "C" __global__ void components(int *label, const int2 *edges, int count) {
    __shared__ int again;
    do {
        __syncthreads();
        if (threadIdx.x == 0) again = 0;
        __syncthreads();
        for (int e = threadIdx.x; e < count; e += blockDim.x) {
            int a = label[edges[e].x], b = label[edges[e].y];
            if (a < b) atomicMin(&label[edges[e].y], a), again = 1;
            else if (b < a) atomicMin(&label[edges[e].x], b), again = 1;
        }
        __syncthreads();
    } while (again);
}
// Bilateral filter, Sobel edges and a median of nine.
extern "C" __global__ void image_filters(float *smooth, unsigned char *edge, unsigned char *median, const unsigned char *src, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    unsigned char v[9];
    float sum = 0, weight = 0, centre = src[y * w + x];
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) {
            unsigned char p = src[min(max(y + dy, 0), h - 1) * w + min(max(x + dx, 0), w - 1)];
            v[(dy + 1) * 3 + dx + 1] = p;
            float d = p - centre, g = expf(-0.5f * (dx * dx + dy * dy) - d * d / 800.0f);
            sum += g * p, weight += g;
        }
    smooth[y * w + x] = sum / weight;
    int gx = v[2] + 2 * v[5] + v[8] - v[0] - 2 * v[3] - v[6], gy = v[6] + 2 * v[7] + v[8] - v[0] - 2 * v[1] - v[2];
    edge[y * w + x] = (unsigned char)min((int)sqrtf((float)(gx * gx + gy * gy)), 255);
    for (int a = 1; a < 9; a++) {
        unsigned char key = v[a];
        int b = a - 1;
        while (b >= 0 && v[b] > key) v[b + 1] = v[b], b--;
        v[b + 1] = key;
    }
    median[y * w + x] = v[4];
}
// Grids that are long in one dimension, with a strided loop behind a bound.
extern "C" __global__ void long_grid(unsigned *count, unsigned *marks, int n) {
    if (threadIdx.x == 0) {
        atomicAdd(count, blockIdx.x + 3 * blockIdx.y + 7 * blockIdx.z);
        if (blockIdx.x == gridDim.x - 1 && blockIdx.y == gridDim.y - 1 && blockIdx.z == gridDim.z - 1) marks[0] = gridDim.x, marks[1] = gridDim.y, marks[2] = gridDim.z;
    }
    for (unsigned k = blockIdx.x * blockDim.x + threadIdx.x; k < (unsigned)n; k += gridDim.x * blockDim.x) marks[4 + k] = k * k;
}
// AES-like rounds: byte tables in shared memory, rotations; and SHA-256's compression.
extern "C" __global__ void sha256(unsigned *dst, const unsigned *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned w[64], s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    static const unsigned k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    for (int t = 0; t < 16; t++) w[t] = src[i * 16 + t];
#define ROR(x, n) ((x) >> (n) | (x) << (32 - (n)))
    for (int t = 16; t < 64; t++) w[t] = w[t - 16] + w[t - 7] + (ROR(w[t - 15], 7) ^ ROR(w[t - 15], 18) ^ w[t - 15] >> 3) + (ROR(w[t - 2], 17) ^ ROR(w[t - 2], 19) ^ w[t - 2] >> 10);
    unsigned a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
#pragma unroll 8
    for (int t = 0; t < 64; t++) {
        unsigned x = h + (ROR(e, 6) ^ ROR(e, 11) ^ ROR(e, 25)) + ((e & f) ^ (~e & g)) + k[t] + w[t], y = (ROR(a, 2) ^ ROR(a, 13) ^ ROR(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + x, d = c, c = b, b = a, a = x + y;
    }
    unsigned r[8] = {a, b, c, d, e, f, g, h};
    for (int t = 0; t < 8; t++) dst[i * 8 + t] = s[t] + r[t];
}
