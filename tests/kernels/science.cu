// Scientific kernels: n-body, Black-Scholes, Monte Carlo, k-means assignment, Smith-Waterman, Floyd-Warshall.
extern "C" __global__ void nbody_forces(float4 *force, const float4 *body, int n, float softening) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 me = body[i];
    float fx = 0.0f, fy = 0.0f, fz = 0.0f;
    for (int base = 0; base < n; base += 64) {
        tile[threadIdx.x] = body[base + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 64; ++j) {
            float4 other = tile[j];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float strength = other.w * inverse * inverse * inverse;
            fx += dx * strength;
            fy += dy * strength;
            fz += dz * strength;
        }
        __syncthreads();
    }
    force[i] = make_float4(fx, fy, fz, me.w);
}

__device__ float normal_cdf(float d) { return 0.5f * erfcf(-d * 0.70710678f); }

extern "C" __global__ void black_scholes(float *call, float *put, const float *price, const float *strike,
                                         const float *years, float rate, float volatility, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = price[i], x = strike[i], t = years[i], spread = volatility * sqrtf(t);
    float d1 = (logf(s / x) + (rate + 0.5f * volatility * volatility) * t) / spread, d2 = d1 - spread;
    float discounted = x * expf(-rate * t);
    call[i] = s * normal_cdf(d1) - discounted * normal_cdf(d2);
    put[i] = discounted * normal_cdf(-d2) - s * normal_cdf(-d1);
}

// Points inside the quarter circle, in integers so that the count is exact.
extern "C" __global__ void monte_carlo_pi(unsigned long long *inside, const unsigned *seeds, int samples) {
    unsigned state = seeds[blockIdx.x * blockDim.x + threadIdx.x], hits = 0;
    for (int k = 0; k < samples; ++k) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        unsigned long long x = state >> 16, y = state & 0xffff;
        hits += x * x + y * y < (1ull << 32);
    }
    for (int offset = 16; offset > 0; offset >>= 1) hits += __shfl_down_sync(0xffffffffu, hits, offset);
    if ((threadIdx.x & 31) == 0) atomicAdd(inside, (unsigned long long)hits);
}

extern "C" __global__ void kmeans_assign(int *label, int *population, const float2 *points, const float2 *centres,
                                         int count, int n) {
    extern __shared__ float2 local[];
    for (int k = threadIdx.x; k < count; k += blockDim.x) local[k] = centres[k];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 p = points[i];
    float best = 3.4e38f;
    int mine = -1;
    for (int k = 0; k < count; ++k) {
        float dx = __fsub_rn(p.x, local[k].x), dy = __fsub_rn(p.y, local[k].y);
        float distance = __fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy));
        if (distance < best) {
            best = distance;
            mine = k;
        }
    }
    label[i] = mine;
    atomicAdd(&population[mine], 1);
}

// One pair of sequences per block; anti-diagonals of the score matrix in three rotating rows of shared memory.
extern "C" __global__ void smith_waterman(int *best, const char *first, const char *second, int n) {
    __shared__ int rows[3][65];
    __shared__ char other[64];
    int t = threadIdx.x, peak = 0;
    char mine = first[blockIdx.x * n + t];
    other[t] = second[blockIdx.x * n + t];
    for (int r = 0; r < 3; ++r) {
        rows[r][t + 1] = 0;
        if (t == 0) rows[r][0] = 0;
    }
    __syncthreads();
    for (int diagonal = 0; diagonal < 2 * n - 1; ++diagonal) {
        int *now = rows[diagonal % 3], *last = rows[(diagonal + 2) % 3], *before = rows[(diagonal + 1) % 3];
        int column = diagonal - t, score = 0;
        if (column >= 0 && column < n) {
            score = max(0, before[t] + (mine == other[column] ? 3 : -2));
            score = max(score, max(last[t], last[t + 1]) - 1);
            peak = max(peak, score);
        }
        now[t + 1] = score;
        __syncthreads();
    }
    for (int offset = 16; offset > 0; offset >>= 1) peak = max(peak, __shfl_xor_sync(0xffffffffu, peak, offset));
    if ((t & 31) == 0) atomicMax(&best[blockIdx.x], peak);
}

// One phase of Floyd-Warshall: paths through vertex `via`.
extern "C" __global__ void floyd_warshall(int *distance, int n, int via) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= n || row >= n || row == via || column == via) return;
    int through = distance[row * n + via] + distance[via * n + column];
    if (through < distance[row * n + column]) distance[row * n + column] = through;
}
