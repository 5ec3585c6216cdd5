// Kernels of the kinds that benchmark suites of GPU computing have (Rodinia, Parboil, SHOC, PolyBench).

__device__ float ratio(float x) { return fabsf(x) < 1e-3f ? 1.0f - 0.5f * x : x / (expf(x) - 1.0f); }

// Membrane voltages after some steps of Hodgkin and Huxley's equations.
extern "C" __global__ void hodgkin_huxley(float *voltage, const float *state, float current, int n, int steps, float dt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = state[i], m = state[n + i], h = state[2 * n + i], g = state[3 * n + i];
    for (int s = 0; s < steps; ++s) {
        float an = 0.1f * ratio((10.0f - v) / 10.0f), bn = 0.125f * expf(-v / 80.0f);
        float am = ratio((25.0f - v) / 10.0f), bm = 4.0f * expf(-v / 18.0f);
        float ah = 0.07f * expf(-v / 20.0f), bh = 1.0f / (expf((30.0f - v) / 10.0f) + 1.0f);
        float sodium = 120.0f * m * m * m * h * (v - 115.0f), potassium = 36.0f * g * g * g * g * (v + 12.0f), leak = 0.3f * (v - 10.6f);
        v += dt * (current - sodium - potassium - leak);
        g += dt * (an * (1.0f - g) - bn * g);
        m += dt * (am * (1.0f - m) - bm * m);
        h += dt * (ah * (1.0f - h) - bh * h);
    }
    voltage[i] = v;
}

// Local alignment with affine gaps: a warp a pair, a lane a row of the query's stripe, along the diagonals.
extern "C" __global__ void __launch_bounds__(128) gotoh_warp(int *best, const unsigned char *query, const unsigned char *target, const signed char *matrix, int pairs, int rows, int columns) {
    __shared__ signed char score[24 * 24];
    __shared__ short high[4][256], gap[4][256];
    for (int k = threadIdx.x; k < 576; k += 128) score[k] = matrix[k];
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, pair = blockIdx.x * 4 + warp, most = 0;
    if (pair >= pairs) return;
    for (int c = lane; c < columns; c += 32) high[warp][c] = 0, gap[warp][c] = -30000;
    __syncwarp();
    for (int first = 0; first < rows; first += 32) {
        const signed char *mine = score + query[pair * rows + first + lane] * 24;
        int left = 0, across = -30000, diagonal = 0, h = 0, down = -30000;
        for (int d = 0; d < columns + 31; ++d) {
            int c = d - lane, above = __shfl_up_sync(~0u, h, 1), from = __shfl_up_sync(~0u, down, 1);
            bool inside = c >= 0 && c < columns;
            if (lane == 0 && inside) above = high[warp][c], from = gap[warp][c];
            if (inside) {
                across = max(across - 1, left - 11);
                down = max(from - 1, above - 11);
                h = max(max(0, diagonal + mine[target[pair * columns + c]]), max(across, down));
                diagonal = above, left = h, most = max(most, h);
            }
            __syncwarp();
            if (lane == 31 && inside) high[warp][c] = h, gap[warp][c] = down;
            __syncwarp();
        }
    }
    for (int d = 16; d; d /= 2) most = max(most, __shfl_xor_sync(~0u, most, d));
    if (lane == 0) best[pair] = most;
}

// A layer of a perceptron as Rodinia has it: tiles of 16 inputs by 16 hidden nodes, halved in shared memory.
extern "C" __global__ void backprop_forward(float *partial, float *weights, const float *input, int hidden) {
    __shared__ float node[16], matrix[16][16];
    int by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y, index = (hidden + 1) * 16 * by + (hidden + 1) * ty + tx + 1 + (hidden + 1);
    if (tx == 0) node[ty] = input[16 * by + ty + 1];
    __syncthreads();
    matrix[ty][tx] = weights[index];
    __syncthreads();
    matrix[ty][tx] = matrix[ty][tx] * node[ty];
    __syncthreads();
    for (int i = 1; i <= 4; ++i) {
        int power = 1 << i;
        if (ty % power == 0) matrix[ty][tx] = matrix[ty][tx] + matrix[ty + power / 2][tx];
        __syncthreads();
    }
    weights[index] = matrix[ty][tx];
    if (tx == 0) partial[by * hidden + ty] = matrix[tx][ty];
}

// What opening a centre would gain: each point moves if it is nearer, else its own centre keeps it.
extern "C" __global__ void __launch_bounds__(256) streamcluster_gain(float *lower, int *moves, const float *coordinates, const float *weight, const float *cost, const int *assigned, const int *table, int n, int dims, int centres, int candidate) {
    extern __shared__ float own[];
    for (int d = threadIdx.x; d < dims; d += blockDim.x) own[d] = coordinates[d * n + candidate];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float far = 0.0f;
    for (int d = 0; d < dims; ++d) {
        float apart = coordinates[d * n + i] - own[d];
        far += apart * apart;
    }
    float *row = lower + (long long)i * (centres + 1), change = far * weight[i] - cost[i];
    if (change < 0.0f) moves[i] = 1, row[centres] = change;
    else row[table[assigned[i]]] += -change;
}

__device__ int compare(const unsigned char *text, int n, int from, const unsigned char *query, int length) {
    for (int k = 0; k < length; ++k) {
        int c = from + k < n ? text[from + k] : 0;
        if (c != query[k]) return c - query[k];
    }
    return 0;
}

// The range of a suffix array whose suffixes begin with each query.
extern "C" __global__ void suffix_search(int2 *range, const unsigned char *text, const int *suffixes, const unsigned char *queries, int n, int count, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const unsigned char *query = queries + (long long)i * length;
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (compare(text, n, suffixes[middle], query, length) < 0) low = middle + 1;
        else high = middle;
    }
    int first = low;
    for (high = n; low < high;) {
        int middle = (low + high) / 2;
        if (compare(text, n, suffixes[middle], query, length) <= 0) low = middle + 1;
        else high = middle;
    }
    range[i] = make_int2(first, low);
}

// Normalised correlation of a template with all places of a window: a block a point that is tracked.
extern "C" __global__ void __launch_bounds__(256) template_correlate(float *out, const float *image, const float *templates, const int2 *points, int width) {
    __shared__ float part[256], window[48][48], sums[8], squares[8];
    int t = threadIdx.x;
    int2 at = points[blockIdx.x];
    float mine = templates[blockIdx.x * 256 + t], sum = mine, square = mine * mine;
    part[t] = mine;
    for (int k = t; k < 48 * 48; k += 256) window[k / 48][k % 48] = image[(at.y + k / 48) * width + at.x + k % 48];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d), square += __shfl_down_sync(~0u, square, d);
    if (t % 32 == 0) sums[t / 32] = sum, squares[t / 32] = square;
    __syncthreads();
    sum = square = 0.0f;
    for (int k = 0; k < 8; ++k) sum += sums[k], square += squares[k];
    float mean = sum / 256.0f, spread = square - sum * mean;
    for (int k = t; k < 33 * 33; k += 256) {
        int y = k / 33, x = k % 33;
        float dot = 0.0f, s = 0.0f, s2 = 0.0f;
        for (int r = 0; r < 16; ++r)
            #pragma unroll
            for (int c = 0; c < 16; ++c) {
                float w = window[y + r][x + c];
                dot += w * part[r * 16 + c], s += w, s2 += w * w;
            }
        out[(long long)blockIdx.x * 1089 + k] = (dot - s * mean) * rsqrtf(spread * (s2 - s * s / 256.0f));
    }
}

// How well a disc at each particle fits the picture, and the block's sum of weights.
extern "C" __global__ void __launch_bounds__(256) particle_likelihood(float *weight, float *total, const float2 *particles, const unsigned char *picture, const int2 *disc, int points, int n, int width, int height) {
    __shared__ float buffer[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    float w = 0.0f;
    if (i < n) {
        float2 p = particles[i];
        int x = (int)rintf(p.x), y = (int)rintf(p.y);
        float fit = 0.0f;
        for (int k = 0; k < points; ++k) {
            int u = min(max(x + disc[k].x, 0), width - 1), v = min(max(y + disc[k].y, 0), height - 1);
            float value = picture[v * width + u];
            fit += ((value - 100.0f) * (value - 100.0f) - (value - 228.0f) * (value - 228.0f)) / 50.0f;
        }
        w = expf(fit / points * 0.01f);
        weight[i] = w;
    }
    buffer[threadIdx.x] = w;
    __syncthreads();
    for (int half = 128; half; half /= 2) {
        if (threadIdx.x < half) buffer[threadIdx.x] += buffer[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) total[blockIdx.x] = buffer[0];
}

// Three levels of the 5/3 wavelet of tiles of 64 by 64, rows and then columns.
extern "C" __global__ void __launch_bounds__(256) dwt53_tiles(int *dst, const unsigned char *src, int width) {
    __shared__ int tile[64][65], line[64][65];
    int t = threadIdx.x, x0 = blockIdx.x * 64, y0 = blockIdx.y * 64;
    for (int k = t; k < 4096; k += 256) tile[k / 64][k % 64] = src[(y0 + k / 64) * width + x0 + k % 64] - 128;
    __syncthreads();
    for (int size = 64; size > 8; size /= 2) {
        int half = size / 2;
        for (int k = t; k < size * half; k += 256) {
            int y = k / half, i = k % half, right = min(2 * i + 2, size - 2);
            line[y][half + i] = tile[y][2 * i + 1] - ((tile[y][2 * i] + tile[y][right]) >> 1);
        }
        __syncthreads();
        for (int k = t; k < size * half; k += 256) {
            int y = k / half, i = k % half;
            line[y][i] = tile[y][2 * i] + ((line[y][half + max(i - 1, 0)] + line[y][half + i] + 2) >> 2);
        }
        __syncthreads();
        for (int k = t; k < size * half; k += 256) {
            int x = k % size, i = k / size, below = min(2 * i + 2, size - 2);
            tile[half + i][x] = line[2 * i + 1][x] - ((line[2 * i][x] + line[below][x]) >> 1);
        }
        __syncthreads();
        for (int k = t; k < size * half; k += 256) {
            int x = k % size, i = k / size;
            tile[i][x] = line[2 * i][x] + ((tile[half + max(i - 1, 0)][x] + tile[half + i][x] + 2) >> 2);
        }
        __syncthreads();
    }
    for (int k = t; k < 4096; k += 256) dst[(y0 + k / 64) * width + x0 + k % 64] = tile[k / 64][k % 64];
}

// Potentials of a lattice from atoms within a distance: bins of eight atoms, the neighbours' in shared memory.
extern "C" __global__ void __launch_bounds__(128) cutoff_lattice(float *lattice, const float4 *bins, int side, float spacing, float cutoff2) {
    __shared__ float4 atoms[27 * 8];
    int t = threadIdx.x, bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z;
    for (int k = t; k < 216; k += 128) {
        int b = k / 8, x = bx + b % 3 - 1, y = by + b / 3 % 3 - 1, z = bz + b / 9 - 1;
        bool inside = x >= 0 && y >= 0 && z >= 0 && x < side && y < side && z < side;
        atoms[k] = inside ? bins[((z * side + y) * side + x) * 8 + k % 8] : make_float4(0, 0, 0, 0);
    }
    __syncthreads();
    int x = bx * 8 + t % 8, y = by * 8 + t / 8 % 8, z = bz * 8 + t / 64 * 4, wide = side * 8;
    float sum[4] = {0, 0, 0, 0}, px = x * spacing, py = y * spacing;
    for (int k = 0; k < 216; ++k) {
        float4 a = atoms[k];
        if (a.w == 0.0f) continue;
        float dx = a.x - px, dy = a.y - py, plane = dx * dx + dy * dy;
        if (plane >= cutoff2) continue;
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            float dz = a.z - (z + j) * spacing, r2 = plane + dz * dz;
            if (r2 < cutoff2) {
                float s = 1.0f - r2 / cutoff2;
                sum[j] += a.w * rsqrtf(r2) * s * s;
            }
        }
    }
    for (int j = 0; j < 4; ++j) lattice[((long long)(z + j) * wide + y) * wide + x] = sum[j];
}

// Samples in polar order gathered to a grid: each tile of 16 by 16 has its list, each point looks at all of it.
extern "C" __global__ void __launch_bounds__(256) gridding_gather(float2 *grid, const float4 *samples, const int *first, const int *list, int width) {
    __shared__ float4 some[64];
    int tile = blockIdx.y * gridDim.x + blockIdx.x, x = blockIdx.x * 16 + threadIdx.x % 16, y = blockIdx.y * 16 + threadIdx.x / 16;
    float2 sum = make_float2(0, 0);
    for (int from = first[tile]; from < first[tile + 1]; from += 64) {
        int count = min(64, first[tile + 1] - from);
        __syncthreads();
        if (threadIdx.x < count) some[threadIdx.x] = samples[list[from + threadIdx.x]];
        __syncthreads();
        for (int k = 0; k < count; ++k) {
            float4 s = some[k];
            float dx = s.x - x, dy = s.y - y, r2 = dx * dx + dy * dy;
            if (r2 < 4.0f) {
                float weight = __expf(-1.5f * r2);
                sum.x += weight * s.z, sum.y += weight * s.w;
            }
        }
    }
    grid[y * width + x] = sum;
}

__constant__ float arrhenius[24][3];

// Rates of production of nine species by 24 reactions in each cell, all in registers.
extern "C" __global__ void __launch_bounds__(128) s3d_rates(float *rates, const float *concentrations, const float *temperature, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float c[9], w[9], t = temperature[i], lt = logf(t), inverse = 1.0f / t;
    #pragma unroll
    for (int s = 0; s < 9; ++s) c[s] = concentrations[s * n + i], w[s] = 0.0f;
    #pragma unroll
    for (int r = 0; r < 24; ++r) {
        float forward = expf(arrhenius[r][0] + arrhenius[r][1] * lt - arrhenius[r][2] * inverse);
        float backward = forward * expf(0.1f * arrhenius[r][2] * inverse - 1.0f);
        float q = forward * c[r % 9] * c[(r * 4 + 1) % 9] - backward * c[(r * 5 + 2) % 9] * c[(r * 7 + 3) % 9];
        w[r % 9] -= q, w[(r * 4 + 1) % 9] -= q, w[(r * 5 + 2) % 9] += q, w[(r * 7 + 3) % 9] += q;
    }
    #pragma unroll
    for (int s = 0; s < 9; ++s) rates[s * n + i] = w[s];
}

// Two matrices by a vector, a thread a row.
extern "C" __global__ void gesummv_rows(float *y, const float *a, const float *b, const float *x, int n, float alpha, float beta) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float one = 0.0f, two = 0.0f;
    for (int j = 0; j < n; ++j) {
        one += a[i * n + j] * x[j];
        two += b[i * n + j] * x[j];
    }
    y[i] = alpha * one + beta * two;
}

// A symmetric update of rank 2k, a thread an element.
extern "C" __global__ void syr2k_naive(float *c, const float *a, const float *b, int n, int m, float alpha, float beta) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || j >= n) return;
    float sum = c[i * n + j] * beta;
    for (int k = 0; k < m; ++k) sum += alpha * a[i * m + k] * b[j * m + k] + alpha * b[i * m + k] * a[j * m + k];
    c[i * n + j] = sum;
}

// One diagonal of the pairing table of an RNA strand: the best of all splits.
extern "C" __global__ void nussinov_diagonal(int *table, const unsigned char *bases, int n, int apart) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = i + apart;
    if (j >= n) return;
    int best = max(table[(i + 1) * n + j], table[i * n + j - 1]);
    best = max(best, table[(i + 1) * n + j - 1] + (bases[i] + bases[j] == 3));
    for (int k = i + 1; k < j; ++k) best = max(best, table[i * n + k] + table[(k + 1) * n + j]);
    table[i * n + j] = best;
}

// The bucket of each key among sorted pivots, and how many of a block's fall into each.
extern "C" __global__ void __launch_bounds__(256) bucket_pivots(unsigned short *bucket, int *counts, const float *keys, const float *pivots, int n) {
    __shared__ float edge[1024];
    __shared__ int count[1024];
    for (int k = threadIdx.x; k < 1024; k += 256) edge[k] = pivots[k], count[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        float key = keys[i];
        int at = 512;
        for (int jump = 256; jump >= 1; jump /= 2) at = key < edge[at] ? at - jump : at + jump;
        at = key < edge[at] ? at - 1 : at;
        atomicAdd(&count[at], 1);
        bucket[i] = at;
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 1024; k += 256) counts[blockIdx.x * 1024 + k] = count[k];
}
