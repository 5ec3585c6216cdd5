// Finance and random numbers: closed forms, trees, paths; xorshift, Philox, Mersenne Twister, Sobol.

__device__ float normal_below(float x) { return 0.5f * erfcf(-0.70710678f * x); }

extern "C" __global__ void option_prices(float *call, float *put, const float *spot, const float *strike, const float *years, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float rate = 0.02f, vol = 0.3f;
    float root = vol * sqrtf(years[i]), d1 = (logf(spot[i] / strike[i]) + (rate + 0.5f * vol * vol) * years[i]) / root;
    float d2 = d1 - root, paid = strike[i] * expf(-rate * years[i]);
    call[i] = spot[i] * normal_below(d1) - paid * normal_below(d2);
    put[i] = paid * normal_below(-d2) - spot[i] * normal_below(-d1);
}

// A tree of 256 steps for each block; the row of values lies in shared memory.
extern "C" __global__ void option_tree(float *price, const float *spot, const float *strike) {
    __shared__ float value[257];
    const float up = 1.01886f, probability = 0.50135f, discount = 0.99996f;
    int t = threadIdx.x;
    float s = spot[blockIdx.x], k = strike[blockIdx.x];
    value[t] = fmaxf(s * powf(up, 2.0f * t - 256.0f) - k, 0.0f);
    if (t == 0) value[256] = fmaxf(s * powf(up, 256.0f) - k, 0.0f);
    for (int step = 255; step >= 0; --step) {
        __syncthreads();
        float v = t <= step ? discount * (probability * value[t + 1] + (1.0f - probability) * value[t]) : 0.0f;
        __syncthreads();
        if (t <= step) value[t] = v;
    }
    if (t == 0) price[blockIdx.x] = value[0];
}

extern "C" __global__ void path_means(float *sums, unsigned seed, int paths, int steps) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = (t + 1) * 2654435761u ^ seed;
    float total = 0.0f;
    for (int p = 0; p < paths; ++p) {
        float s = 1.0f, mean = 0.0f;
        for (int k = 0; k < steps; ++k) {
            x ^= x << 13;
            x ^= x >> 17;
            x ^= x << 5;
            s *= 1.0f + 0.01f * ((x >> 8) * 5.9604645e-8f - 0.5f);
            mean += s;
        }
        total += fmaxf(mean / steps - 1.0f, 0.0f);
    }
    sums[t] = total / paths;
}

extern "C" __global__ void philox_fill(uint4 *dst, unsigned key0, unsigned key1, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned c0 = i, c1 = 0, c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        unsigned h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ key0;
        c1 = l1;
        c2 = h0 ^ c3 ^ key1;
        c3 = l0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    dst[i] = make_uint4(c0, c1, c2, c3);
}

// MT19937: a generator for each block, its state in shared memory, one twist and 624 tempered numbers a round.
extern "C" __global__ void mersenne_rounds(unsigned *dst, const unsigned *seeds, int rounds) {
    __shared__ unsigned state[624];
    int t = threadIdx.x;
    if (t == 0) {
        unsigned s = seeds[blockIdx.x];
        state[0] = s;
        for (int i = 1; i < 624; ++i) state[i] = s = 1812433253u * (s ^ s >> 30) + i;
    }
    for (int r = 0; r < rounds; ++r) {
        // Three stretches whose inputs are all known: 227 + 227 + 170 words.
        for (int first = 0; first < 624; first += 227) {
            __syncthreads();
            int i = first + t;
            bool mine = t < 227 && i < 624;
            unsigned next = 0;
            if (mine) {
                unsigned y = (state[i] & 0x80000000u) | (state[(i + 1) % 624] & 0x7fffffffu);
                next = state[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0u);
            }
            __syncthreads();
            if (mine) {
                state[i] = next;
                unsigned y = next;
                y ^= y >> 11;
                y ^= y << 7 & 0x9d2c5680u;
                y ^= y << 15 & 0xefc60000u;
                dst[(blockIdx.x * rounds + r) * 624 + i] = y ^ y >> 18;
            }
        }
    }
}

extern "C" __global__ void sobol_points(float *dst, const unsigned *directions, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, dimension = blockIdx.y;
    if (i >= n) return;
    unsigned x = 0, gray = i ^ i >> 1;
    for (int bit = 0; gray; ++bit, gray >>= 1)
        if (gray & 1) x ^= directions[dimension * 32 + bit];
    dst[dimension * n + i] = x * 2.3283064e-10f;
}
