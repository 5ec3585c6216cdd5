// Language models at work: rotary positions, attention over paged caches, quantised weights, gates, routing, state-space scans.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// Rotates pairs (i, i + 64) of every head's 128 elements in place; cosines and sines come from a table by position.
extern "C" __global__ void rotary_embed(__nv_bfloat162 *x, const float2 *turns, const int *positions, int heads) {
    const float2 *row = turns + positions[blockIdx.x] * 64;
    for (int i = threadIdx.x; i < heads * 32; i += blockDim.x) {
        __nv_bfloat162 *v = x + ((long long)blockIdx.x * heads + i / 32) * 64 + i % 32;
        float2 a = __bfloat1622float2(v[0]), b = __bfloat1622float2(v[32]), p = row[i % 32 * 2], q = row[i % 32 * 2 + 1];
        v[0] = __floats2bfloat162_rn(a.x * p.x - b.x * p.y, a.y * q.x - b.y * q.y);
        v[32] = __floats2bfloat162_rn(b.x * p.x + a.x * p.y, b.y * q.x + a.y * q.y);
    }
}

// Maximum and sum in one pass over the row, then the row again.
extern "C" __global__ void softmax_online(float4 *dst, const float4 *src, int quads) {
    __shared__ float mosts[32], sums[32];
    const float4 *row = src + (long long)blockIdx.x * quads;
    float most = -1e30f, sum = 0.0f;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 v = row[i];
        float next = fmaxf(most, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
        sum = sum * __expf(most - next) + __expf(v.x - next) + __expf(v.y - next) + __expf(v.z - next) + __expf(v.w - next);
        most = next;
    }
    for (int d = 16; d; d /= 2) {
        float other = __shfl_xor_sync(~0u, most, d), part = __shfl_xor_sync(~0u, sum, d), next = fmaxf(most, other);
        sum = sum * __expf(most - next) + part * __expf(other - next), most = next;
    }
    if (threadIdx.x % 32 == 0) mosts[threadIdx.x / 32] = most, sums[threadIdx.x / 32] = sum;
    __syncthreads();
    most = mosts[0];
    for (int w = 1; w < blockDim.x / 32; ++w) most = fmaxf(most, mosts[w]);
    sum = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += sums[w] * __expf(mosts[w] - most);
    float scale = 1.0f / sum;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 v = row[i];
        dst[(long long)blockIdx.x * quads + i] = make_float4(__expf(v.x - most) * scale, __expf(v.y - most) * scale, __expf(v.z - most) * scale, __expf(v.w - most) * scale);
    }
}

// y = W x with weights of 4 bits: a warp for a row, a scale for 128 weights; elements 2s and 2s + 1 of a word stand in nibbles s and s + 4.
extern "C" __global__ void gemv_int4(float *y, const uint4 *weights, const __half *scales, const uint4 *x, int rows, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int c = lane * 32; c < columns; c += 1024) {
        uint4 w = weights[((long long)row * columns + c) / 32];
        float scale = __half2float(scales[(row * columns + c) / 128]), part = 0.0f;
        unsigned words[4] = {w.x, w.y, w.z, w.w};
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            uint4 xs = x[c / 8 + k];
            unsigned pairs[4] = {xs.x, xs.y, xs.z, xs.w};
            #pragma unroll
            for (int s = 0; s < 4; ++s) {
                unsigned bits = (words[k] >> 4 * s & 0x000f000f) | 0x64006400;  // 1024 + the nibble, as halves
                float2 a = __half22float2(__hsub2(*(__half2 *)&bits, __float2half2_rn(1032.0f))), b = __half22float2(*(__half2 *)&pairs[s]);
                part = fmaf(a.x, b.x, fmaf(a.y, b.y, part));
            }
        }
        sum = fmaf(part, scale, sum);
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0) y[row] = sum;
}

// One new token for each sequence against keys and values in pages of 16 tokens: block (head, sequence), 4 query heads share one of the cache.
extern "C" __global__ void __launch_bounds__(128) paged_attention(float *dst, const __half *query, const uint4 *keys, const __half *values, const int *pages, const int *lengths, int heads, int most_pages) {
    extern __shared__ float logits[];
    __shared__ float scratch[4], halves[64];
    int t = threadIdx.x, head = blockIdx.x, sequence = blockIdx.y, shared_heads = heads / 4, length = lengths[sequence];
    const int *table = pages + sequence * most_pages;
    const __half2 *q = (const __half2 *)(query + (sequence * heads + head) * 64 + t % 8 * 8);
    float2 mine[4];
    for (int k = 0; k < 4; ++k) mine[k] = __half22float2(q[k]);
    float most = -1e30f;
    for (int token = t / 8; token < (length + 15) / 16 * 16; token += 16) {
        uint4 bits = keys[((long long)(table[token / 16] * shared_heads + head / 4) * 16 + token % 16) * 8 + t % 8];
        unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
        float dot = 0.0f;
        for (int k = 0; k < 4; ++k) {
            float2 v = __half22float2(*(__half2 *)&words[k]);
            dot = fmaf(v.x, mine[k].x, fmaf(v.y, mine[k].y, dot));
        }
        for (int d = 4; d; d /= 2) dot += __shfl_xor_sync(~0u, dot, d);
        if (t % 8 == 0 && token < length) logits[token] = dot * 0.125f;
        if (token < length) most = fmaxf(most, dot * 0.125f);
    }
    for (int d = 16; d >= 8; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    if (t % 32 == 0) scratch[t / 32] = most;
    __syncthreads();
    most = fmaxf(fmaxf(scratch[0], scratch[1]), fmaxf(scratch[2], scratch[3]));
    __syncthreads();
    float sum = 0.0f;
    for (int token = t; token < length; token += 128) {
        float e = __expf(logits[token] - most);
        logits[token] = e, sum += e;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (t % 32 == 0) scratch[t / 32] = sum;
    __syncthreads();
    sum = scratch[0] + scratch[1] + scratch[2] + scratch[3];
    float out = 0.0f;
    for (int token = t / 64; token < length; token += 2)
        out = fmaf(logits[token], __half2float(values[((long long)(table[token / 16] * shared_heads + head / 4) * 16 + token % 16) * 64 + t % 64]), out);
    if (t >= 64) halves[t - 64] = out;
    __syncthreads();
    if (t < 64) dst[(sequence * heads + head) * 64 + t] = (out + halves[t]) / sum;
}

// New keys and values into their slots of a paged cache: keys as [page][head][8][token][8], values as [page][head][64][token].
extern "C" __global__ void cache_append(unsigned short *key_cache, unsigned short *value_cache, const unsigned short *key, const unsigned short *value, const int *slots, int heads) {
    int slot = slots[blockIdx.x];
    if (slot < 0) return;
    long long page = slot / 16, token = slot % 16;
    for (int i = threadIdx.x; i < heads * 64; i += blockDim.x) {
        int head = i / 64, at = i % 64;
        key_cache[(((page * heads + head) * 8 + at / 8) * 16 + token) * 8 + at % 8] = key[blockIdx.x * heads * 64 + i];
        value_cache[((page * heads + head) * 64 + at) * 16 + token] = value[blockIdx.x * heads * 64 + i];
    }
}

// The four largest of each row and where they stand: every lane keeps its own four, the warp draws from their heads.
extern "C" __global__ void top_four(unsigned *best, int *where, const float *src, int rows, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    unsigned key[4] = {0, 0, 0, 0};
    int at[4] = {-1, -1, -1, -1};
    for (int c = lane; c < columns; c += 32) {
        unsigned bits = __float_as_uint(src[(long long)row * columns + c]), k = bits & 0x80000000 ? ~bits : bits | 0x80000000;
        if (k > key[3]) {
            key[3] = k, at[3] = c;
            #pragma unroll
            for (int j = 3; j > 0; --j)
                if (key[j] > key[j - 1]) {
                    unsigned swap = key[j]; key[j] = key[j - 1], key[j - 1] = swap;
                    int there = at[j]; at[j] = at[j - 1], at[j - 1] = there;
                }
        }
    }
    for (int j = 0; j < 4; ++j) {
        unsigned most = __reduce_max_sync(~0u, key[0]);
        if (key[0] == most) {
            best[row * 4 + j] = most, where[row * 4 + j] = at[0];
            key[0] = key[1], key[1] = key[2], key[2] = key[3], key[3] = 0;
            at[0] = at[1], at[1] = at[2], at[2] = at[3];
        }
    }
}

// Rows of bf16 to e4m3 with the row's own scale.
extern "C" __global__ void quantise_rows(__nv_fp8x4_e4m3 *dst, float *scales, const uint2 *src, int quads) {
    __shared__ float parts[32];
    const uint2 *row = src + (long long)blockIdx.x * quads;
    float most = 0.0f;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        uint2 v = row[i];
        __nv_bfloat162 m = __hmax2(__habs2(*(__nv_bfloat162 *)&v.x), __habs2(*(__nv_bfloat162 *)&v.y));
        most = fmaxf(most, fmaxf(__low2float(m), __high2float(m)));
    }
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = most;
    __syncthreads();
    most = 1e-4f;
    for (int w = 0; w < blockDim.x / 32; ++w) most = fmaxf(most, parts[w]);
    float scale = 448.0f / most;
    if (threadIdx.x == 0) scales[blockIdx.x] = most / 448.0f;
    for (int i = threadIdx.x; i < quads; i += blockDim.x) {
        uint2 v = row[i];
        float2 a = __bfloat1622float2(*(__nv_bfloat162 *)&v.x), b = __bfloat1622float2(*(__nv_bfloat162 *)&v.y);
        dst[(long long)blockIdx.x * quads + i] = __nv_fp8x4_e4m3(make_float4(a.x * scale, a.y * scale, b.x * scale, b.y * scale));
    }
}

// silu(gate) * up; a row of src holds its gates, then its ups.
extern "C" __global__ void gated_unit(__nv_bfloat162 *dst, const __nv_bfloat162 *src, int pairs) {
    int row = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    float2 g = __bfloat1622float2(src[(long long)row * 2 * pairs + i]), u = __bfloat1622float2(src[(long long)row * 2 * pairs + pairs + i]);
    dst[(long long)row * pairs + i] = __floats2bfloat162_rn(g.x / (1.0f + __expf(-g.x)) * u.x, g.y / (1.0f + __expf(-g.y)) * u.y);
}

// Mamba's recurrence: a thread for a channel, 16 states in its registers, all inputs of one step shared by the channels.
extern "C" __global__ void selective_scan(float *y, const float *u, const float *delta, const float4 *a, const float4 *b, const float4 *c, int steps, int channels) {
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    long long batch = blockIdx.y;
    float rate[16], state[16];
    for (int k = 0; k < 4; ++k) {
        float4 v = a[channel * 4 + k];
        rate[4 * k] = v.x, rate[4 * k + 1] = v.y, rate[4 * k + 2] = v.z, rate[4 * k + 3] = v.w;
    }
    for (int k = 0; k < 16; ++k) state[k] = 0.0f;
    for (int t = 0; t < steps; ++t) {
        long long at = (batch * steps + t) * channels + channel;
        float d = delta[at], in = d * u[at], out = 0.0f;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            float4 bs = b[(batch * steps + t) * 4 + k], cs = c[(batch * steps + t) * 4 + k];
            float bv[4] = {bs.x, bs.y, bs.z, bs.w}, cv[4] = {cs.x, cs.y, cs.z, cs.w};
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                state[4 * k + j] = fmaf(__expf(d * rate[4 * k + j]), state[4 * k + j], in * bv[j]);
                out = fmaf(state[4 * k + j], cv[j], out);
            }
        }
        y[at] = out;
    }
}

// Two of 64 experts for each token, their weights, and a place in each expert's queue: a warp for a token.
extern "C" __global__ void route_tokens(int *expert, float *weight, int *place, int *counts, const float2 *logits, int tokens) {
    int token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (token >= tokens) return;
    float2 v = logits[token * 32 + lane];
    float top[2];
    int who[2];
    for (int k = 0; k < 2; ++k) {
        float most = fmaxf(v.x, v.y);
        int at = v.x >= v.y ? 2 * lane : 2 * lane + 1;
        for (int d = 16; d; d /= 2) {
            float other = __shfl_xor_sync(~0u, most, d);
            int there = __shfl_xor_sync(~0u, at, d);
            if (other > most || (other == most && there < at)) most = other, at = there;
        }
        top[k] = most, who[k] = at;
        if (at == 2 * lane) v.x = -1e30f;
        if (at == 2 * lane + 1) v.y = -1e30f;
    }
    if (lane < 2) {
        float other = __expf(top[1] - top[0]);
        expert[2 * token + lane] = who[lane];
        weight[2 * token + lane] = (lane ? other : 1.0f) / (1.0f + other);
        place[2 * token + lane] = atomicAdd(&counts[who[lane]], 1);
    }
}
