// Serving and training of language models and detectors, in forms that the other sets do not have.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
typedef unsigned long long u64;

__device__ unsigned shared_at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy_16(void *to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_at(to)), "l"(from), "r"(bytes));
}
__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// One query against a long cache, split among blocks: four query heads share a head of keys, a warp for each, a lane for a key.
extern "C" __global__ void __launch_bounds__(128) decode_split(float *parts, const __half *q, const __half *k, const __half *v, int length, int each) {
    __shared__ __align__(16) __half keys[2][32][136], values[2][32][128];
    __shared__ float query[4][128];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, head = blockIdx.y, heads = gridDim.y, first = blockIdx.x * each, tiles = each / 32;
    auto load = [&](int tile) {
        for (int i = t; i < 512; i += 128) {
            int row = i / 16, at = i % 16 * 8, key = first + tile * 32 + row, bytes = key < length ? 16 : 0;
            long long from = ((long long)(bytes ? key : 0) * heads + head) * 128 + at;
            copy_16(&keys[tile % 2][row][at], k + from, bytes);
            copy_16(&values[tile % 2][row][at], v + from, bytes);
        }
        asm volatile("cp.async.commit_group;");
    };
    load(0);
    for (int i = t; i < 512; i += 128) query[i / 128][i % 128] = __half2float(q[(head * 4 + i / 128) * 128 + i % 128]) * 0.08838834764f;
    float most = -1e30f, sum = 0.0f, out[4] = {};
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) {
            load(tile + 1);
            asm volatile("cp.async.wait_group 1;");
        } else asm volatile("cp.async.wait_group 0;");
        __syncthreads();
        float dot = 0.0f;
        #pragma unroll
        for (int c = 0; c < 128; c += 8) {
            uint4 raw = *(uint4 *)&keys[tile % 2][lane][c];
            const __half2 *pair = (const __half2 *)&raw;
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                float2 f = __half22float2(pair[j]);
                dot += f.x * query[warp][c + 2 * j] + f.y * query[warp][c + 2 * j + 1];
            }
        }
        if (first + tile * 32 + lane >= length) dot = -1e30f;
        float top = dot;
        for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
        float now = fmaxf(most, top), keep = __expf(most - now), p = dot > -1e29f ? __expf(dot - now) : 0.0f, all = p;
        for (int d = 16; d; d /= 2) all += __shfl_xor_sync(~0u, all, d);
        sum = sum * keep + all, most = now;
        #pragma unroll
        for (int c = 0; c < 4; ++c) out[c] *= keep;
        for (int key = 0; key < 32; ++key) {
            float weight = __shfl_sync(~0u, p, key);
            uint2 raw = *(uint2 *)&values[tile % 2][key][lane * 4];
            float2 a = __half22float2(*(__half2 *)&raw.x), b = __half22float2(*(__half2 *)&raw.y);
            out[0] += weight * a.x, out[1] += weight * a.y, out[2] += weight * b.x, out[3] += weight * b.y;
        }
        __syncthreads();
    }
    float *to = parts + ((long long)blockIdx.x * heads * 4 + head * 4 + warp) * 132;
    *(float4 *)(to + lane * 4) = make_float4(out[0], out[1], out[2], out[3]);
    if (lane == 0) to[128] = most, to[129] = sum;
}

// The parts of all splits become one output: a block a head.
extern "C" __global__ void __launch_bounds__(128) combine_splits(float *dst, const float *parts, int splits, int heads) {
    int t = threadIdx.x, head = blockIdx.x;
    float most = -1e30f, sum = 0.0f, out = 0.0f;
    for (int s = 0; s < splits; ++s) most = fmaxf(most, parts[((long long)s * heads + head) * 132 + 128]);
    for (int s = 0; s < splits; ++s) {
        const float *from = parts + ((long long)s * heads + head) * 132;
        float scale = __expf(from[128] - most);
        sum += scale * from[129], out += scale * from[t];
    }
    dst[head * 128 + t] = out / sum;
}

// Products of each expert with the tokens that chose it: rows gathered by asynchronous copies, ldmatrix, m16n8k16.
extern "C" __global__ void __launch_bounds__(128) grouped_product(__half *c, const __half *tokens, const __half *weights, const int *tile_rows, const int *tile_expert, int n, int depth) {
    __shared__ __align__(16) __half left[2][32][40], right[2][32][72];
    __shared__ int rows[32];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, steps = depth / 32, column = blockIdx.x * 64;
    if (t < 32) rows[t] = tile_rows[blockIdx.y * 32 + t];
    const __half *expert = weights + (long long)tile_expert[blockIdx.y] * depth * n;
    __syncthreads();
    auto load = [&](int s) {
        int row = t / 4, at = t % 4 * 8, from = rows[row];
        copy_16(&left[s % 2][row][at], tokens + (long long)max(from, 0) * depth + s * 32 + at, from < 0 ? 0 : 16);
        for (int i = t; i < 256; i += 128) copy_16(&right[s % 2][i / 8][i % 8 * 8], expert + (long long)(s * 32 + i / 8) * n + column + i % 8 * 8, 16);
        asm volatile("cp.async.commit_group;");
    };
    float d[4][4] = {};
    int wr = warp / 2 * 16, wc = warp % 2 * 32;
    load(0);
    for (int s = 0; s < steps; ++s) {
        if (s + 1 < steps) {
            load(s + 1);
            asm volatile("cp.async.wait_group 1;");
        } else asm volatile("cp.async.wait_group 0;");
        __syncthreads();
        #pragma unroll
        for (int kk = 0; kk < 32; kk += 16) {
            unsigned a[4], b[4][2];
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                : "r"(shared_at(&left[s % 2][wr + lane % 16][kk + lane / 16 * 8])));
            #pragma unroll
            for (int j = 0; j < 4; j += 2)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(b[j][0]), "=r"(b[j][1]), "=r"(b[j + 1][0]), "=r"(b[j + 1][1])
                    : "r"(shared_at(&right[s % 2][kk + lane % 16][wc + j * 8 + lane / 16 * 8])));
            #pragma unroll
            for (int j = 0; j < 4; ++j)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[j][0]), "r"(b[j][1]));
        }
        __syncthreads();
    }
    for (int j = 0; j < 4; ++j)
        for (int half = 0; half < 2; ++half) {
            int row = rows[wr + lane / 4 + half * 8];
            if (row >= 0) *(__half2 *)(c + (long long)row * n + column + wc + j * 8 + lane % 4 * 2) = __floats2half2_rn(d[j][half * 2], d[j][half * 2 + 1]);
        }
}

// Four-bit codes of a table of 16 levels become bf16: eight codes a thread, one scale for 64.
extern "C" __global__ void dequant_codes(uint4 *dst, const unsigned *codes, const float *scales, const float *levels, int words) {
    __shared__ float table[16];
    if (threadIdx.x < 16) table[threadIdx.x] = levels[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= words) return;
    unsigned code = codes[i], out[4];
    float scale = scales[i / 8];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        __nv_bfloat162 pair = __floats2bfloat162_rn(table[code >> 8 * j & 15] * scale, table[code >> 8 * j + 4 & 15] * scale);
        out[j] = *(unsigned *)&pair;
    }
    dst[i] = make_uint4(out[0], out[1], out[2], out[3]);
}

// Mean and variance of channels by Welford's rule, merged by Chan's: a block a channel.
extern "C" __global__ void __launch_bounds__(256) welford_channels(float *mean_of, float *variance_of, const float *src, int images, int channels, int pixels) {
    __shared__ float means[8], seconds[8], counts[8];
    int t = threadIdx.x, channel = blockIdx.x;
    float mean = 0.0f, second = 0.0f, count = 0.0f;
    for (int image = 0; image < images; ++image)
        for (int p = t; p < pixels; p += 256) {
            float x = src[((long long)image * channels + channel) * pixels + p], off = x - mean;
            count += 1.0f, mean += off / count, second += off * (x - mean);
        }
    auto merge = [&](float m, float s, float c) {
        float all = count + c, off = m - mean;
        if (all > 0.0f) mean += off * c / all, second += s + off * off * count * c / all, count = all;
    };
    for (int d = 16; d; d /= 2) {
        float m = __shfl_down_sync(~0u, mean, d), s = __shfl_down_sync(~0u, second, d), c = __shfl_down_sync(~0u, count, d);
        merge(m, s, c);
    }
    if (t % 32 == 0) means[t / 32] = mean, seconds[t / 32] = second, counts[t / 32] = count;
    __syncthreads();
    if (t == 0) {
        for (int w = 1; w < 8; ++w) merge(means[w], seconds[w], counts[w]);
        mean_of[channel] = mean, variance_of[channel] = second / count;
    }
}

// Gradients of an embedding: a warp adds a token's row to the table's, four floats at once.
extern "C" __global__ void scatter_gradients(float *table, const float4 *gradients, const int *tokens, int count, int width) {
    int token = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (token >= count) return;
    float *row = table + (long long)tokens[token] * width;
    for (int c = lane; c < width / 4; c += 32) {
        float4 g = gradients[(long long)token * (width / 4) + c];
        asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(row + c * 4), "f"(g.x), "f"(g.y), "f"(g.z), "f"(g.w) : "memory");
    }
}

// A recurrence of weighted keys and values along time, a thread a channel.
extern "C" __global__ void wkv_recurrence(float *dst, const float *decay, const float *bonus, const float *k, const float *v, int steps, int channels) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, batch = blockIdx.y;
    if (c >= channels) return;
    float w = -__expf(decay[c]), u = bonus[c], a = 0.0f, b = 0.0f, top = -1e30f;
    long long at = (long long)batch * steps * channels + c;
    for (int s = 0; s < steps; ++s, at += channels) {
        float key = k[at], value = v[at], most = fmaxf(top, u + key), e = __expf(top - most), f = __expf(u + key - most);
        dst[at] = (e * a + f * value) / (e * b + f);
        most = fmaxf(w + top, key), e = __expf(w + top - most), f = __expf(key - most);
        a = e * a + f * value, b = e * b + f, top = most;
    }
}

// A causal filter of four taps along time with a gate, eight bf16 a thread; a block a stretch of a channel.
extern "C" __global__ void __launch_bounds__(128) conv_causal(uint4 *dst, const uint4 *src, const float4 *taps, int channels, int length) {
    __shared__ uint4 last[128];
    int t = threadIdx.x, channel = blockIdx.y, vectors = length / 8;
    float4 w = taps[channel % channels];
    const uint4 *from = src + (long long)channel * vectors;
    for (int base = blockIdx.x * 128; base < vectors; base += gridDim.x * 128) {
        int i = base + t;
        uint4 now = i < vectors ? from[i] : make_uint4(0, 0, 0, 0);
        last[t] = now;
        __syncthreads();
        uint4 before = t ? last[t - 1] : i ? from[i - 1] : make_uint4(0, 0, 0, 0);
        __syncthreads();
        const __nv_bfloat16 *old = (const __nv_bfloat16 *)&before, *own = (const __nv_bfloat16 *)&now;
        float x[11];
        #pragma unroll
        for (int j = 0; j < 3; ++j) x[j] = __bfloat162float(old[5 + j]);
        #pragma unroll
        for (int j = 0; j < 8; ++j) x[3 + j] = __bfloat162float(own[j]);
        uint4 out;
        __nv_bfloat16 *to = (__nv_bfloat16 *)&out;
        #pragma unroll
        for (int j = 0; j < 8; ++j) {
            float y = w.x * x[j] + w.y * x[j + 1] + w.z * x[j + 2] + w.w * x[j + 3];
            to[j] = __float2bfloat16(y / (1.0f + __expf(-y)));
        }
        if (i < vectors) dst[(long long)channel * vectors + i] = out;
    }
}

// bf16 to e4m3 with a scale, as it stands and transposed, and the largest magnitude.
extern "C" __global__ void __launch_bounds__(256) cast_transpose(unsigned char *dst, unsigned char *turned, unsigned *largest, const __nv_bfloat162 *src, float scale, int width, int height) {
    __shared__ unsigned char tile[64][68];
    int t = threadIdx.x, x = blockIdx.x * 64, y = blockIdx.y * 64;
    float most = 0.0f;
    #pragma unroll
    for (int r = t / 32; r < 64; r += 8) {
        float2 f = __bfloat1622float2(src[((long long)(y + r) * width + x) / 2 + t % 32]);
        most = fmaxf(most, fmaxf(fabsf(f.x), fabsf(f.y)));
        unsigned short pair = __nv_cvt_float2_to_fp8x2(make_float2(f.x * scale, f.y * scale), __NV_SATFINITE, __NV_E4M3);
        *(unsigned short *)(dst + (long long)(y + r) * width + x + t % 32 * 2) = pair;
        tile[t % 32 * 2][r] = pair & 255, tile[t % 32 * 2 + 1][r] = pair >> 8;
    }
    __syncthreads();
    #pragma unroll
    for (int i = t; i < 1024; i += 256) *(unsigned *)(turned + (long long)(x + i / 16) * height + y + i % 16 * 4) = *(unsigned *)&tile[i / 16][i % 16 * 4];
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    if (t % 32 == 0) atomicMax(largest, __float_as_uint(most));
}

// A step of Adam whose moments are bytes: codes of a table with a scale for each 2048, found again by bisection.
__device__ unsigned nearest_code(const float *table, float x) {
    int low = 0, high = 255;
    while (low < high) {
        int middle = (low + high) / 2;
        if (0.5f * (table[middle] + table[middle + 1]) < x) low = middle + 1;
        else high = middle;
    }
    return low;
}
extern "C" __global__ void __launch_bounds__(256) adam_8bit(float *w, unsigned char *m, unsigned char *v, float *m_scale, float *v_scale, const float *g, const float *signed_codes, const float *codes, float rate) {
    __shared__ float one[256], two[256], tops[2][8];
    int t = threadIdx.x;
    long long base = (long long)blockIdx.x * 2048;
    one[t] = signed_codes[t], two[t] = codes[t];
    __syncthreads();
    float first[8], second[8], top_m = 0.0f, top_v = 0.0f, ms = m_scale[blockIdx.x], vs = v_scale[blockIdx.x];
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        long long i = base + j * 256 + t;
        float grad = g[i];
        first[j] = 0.9f * one[m[i]] * ms + 0.1f * grad, second[j] = 0.99f * two[v[i]] * vs + 0.01f * grad * grad;
        top_m = fmaxf(top_m, fabsf(first[j])), top_v = fmaxf(top_v, second[j]);
        w[i] -= rate * first[j] / (sqrtf(second[j]) + 1e-8f);
    }
    for (int d = 16; d; d /= 2) top_m = fmaxf(top_m, __shfl_xor_sync(~0u, top_m, d)), top_v = fmaxf(top_v, __shfl_xor_sync(~0u, top_v, d));
    if (t % 32 == 0) tops[0][t / 32] = top_m, tops[1][t / 32] = top_v;
    __syncthreads();
    for (int k = 0; k < 8; ++k) top_m = fmaxf(top_m, tops[0][k]), top_v = fmaxf(top_v, tops[1][k]);
    #pragma unroll
    for (int j = 0; j < 8; ++j) {
        long long i = base + j * 256 + t;
        m[i] = nearest_code(one, first[j] / top_m), v[i] = nearest_code(two, second[j] / top_v);
    }
    if (t == 0) m_scale[blockIdx.x] = top_m, v_scale[blockIdx.x] = top_v;
}

// The k-th largest of a row, digit by digit from the top: counts in shared memory, a warp finds the digit.
extern "C" __global__ void __launch_bounds__(256) radix_select(unsigned *kth, const unsigned *src, int columns, int k) {
    __shared__ unsigned bins[256], prefix, left;
    int t = threadIdx.x;
    const unsigned *row = src + (long long)blockIdx.x * columns;
    if (t == 0) prefix = 0, left = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        bins[t] = 0;
        __syncthreads();
        unsigned found = prefix, mask = shift == 24 ? 0 : ~0u << (shift + 8);
        for (int i = t; i < columns; i += 256) {
            unsigned key = row[i];
            if ((key & mask) == found) atomicAdd(&bins[key >> shift & 255], 1u);
        }
        __syncthreads();
        if (t < 32) {
            unsigned mine = 0, wanted = left;
            for (int j = 0; j < 8; ++j) mine += bins[255 - t * 8 - j];
            unsigned sum = mine;
            for (int d = 1; d < 32; d *= 2) {
                unsigned u = __shfl_up_sync(~0u, sum, d);
                if (t >= d) sum += u;
            }
            if (sum - mine < wanted && wanted <= sum) {
                unsigned above = sum - mine;
                int digit = 255 - t * 8;
                while (above + bins[digit] < wanted) above += bins[digit--];
                prefix = found | (unsigned)digit << shift, left = wanted - above;
            }
        }
        __syncthreads();
    }
    if (t == 0) kth[blockIdx.x] = prefix;
}

// A token by Gumbel's rule: the largest of a row's logits, each with noise of a hash of its place.
extern "C" __global__ void __launch_bounds__(512) gumbel_sample(int *token, const float *logits, int columns, unsigned seed) {
    __shared__ float tops[16];
    __shared__ int places[16];
    int t = threadIdx.x, place = 0;
    float top = -1e30f;
    for (int c = t; c < columns; c += 512) {
        float u = (mixed(blockIdx.x * columns + c ^ seed) >> 8) * 5.9604645e-8f + 2.9802322e-8f;
        float score = logits[(long long)blockIdx.x * columns + c] - logf(-logf(u));
        if (score > top) top = score, place = c;
    }
    auto better = [&](float other, int where) {
        if (other > top || (other == top && where < place)) top = other, place = where;
    };
    for (int d = 16; d; d /= 2) {
        float other = __shfl_down_sync(~0u, top, d);
        int where = __shfl_down_sync(~0u, place, d);
        better(other, where);
    }
    if (t % 32 == 0) tops[t / 32] = top, places[t / 32] = place;
    __syncthreads();
    if (t == 0) {
        for (int k = 1; k < 16; ++k) better(tops[k], places[k]);
        token[blockIdx.x] = place;
    }
}

// Tokens with adapters of their own: 16 rows of the token's adapter by its state, four rows a warp.
extern "C" __global__ void __launch_bounds__(128) adapter_shrink(float *y, const __half2 *x, const __half2 *adapters, const int *adapter, int pairs) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 4, token = blockIdx.x;
    const __half2 *state = x + (long long)token * pairs, *a = adapters + ((long long)adapter[token] * 16 + row) * pairs;
    float sum[4] = {};
    for (int c = lane; c < pairs; c += 32) {
        float2 s = __half22float2(state[c]);
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            float2 f = __half22float2(a[(long long)r * pairs + c]);
            sum[r] += f.x * s.x + f.y * s.y;
        }
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
        for (int d = 16; d; d /= 2) sum[r] += __shfl_xor_sync(~0u, sum[r], d);
        if (lane == r) y[token * 16 + row + r] = sum[r];
    }
}

// Which of 64 boxes each box covers too much of: a mask a thread, a block of two warps 64 by 64 pairs.
extern "C" __global__ void __launch_bounds__(64) overlap_masks(u64 *masks, const float4 *boxes, int n, float limit) {
    __shared__ float4 others[64];
    int t = threadIdx.x, first = blockIdx.x * 64, i = blockIdx.y * 64 + t, words = gridDim.x;
    if (first + 63 < (int)blockIdx.y * 64) return;
    if (first + t < n) others[t] = boxes[first + t];
    __syncthreads();
    if (i >= n) return;
    float4 mine = boxes[i];
    float own = (mine.z - mine.x) * (mine.w - mine.y);
    u64 mask = 0;
    for (int j = 0; j < min(64, n - first); ++j) {
        float4 b = others[j];
        float w = fminf(mine.z, b.z) - fmaxf(mine.x, b.x), h = fminf(mine.w, b.w) - fmaxf(mine.y, b.y);
        if (first + j <= i || w <= 0.0f || h <= 0.0f) continue;
        float both = w * h;
        if (both > limit * (own + (b.z - b.x) * (b.w - b.y) - both)) mask |= 1ull << j;
    }
    masks[(long long)i * words + blockIdx.x] = mask;
}

// Regions of a feature map on 7 by 7 points, four bilinear samples each.
extern "C" __global__ void region_align(float *dst, const float *features, const float4 *regions, int total, int channels, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int px = i % 7, py = i / 7 % 7, channel = i / 49 % channels;
    float4 r = regions[i / 49 / channels];
    float bw = (r.z - r.x) / 7.0f, bh = (r.w - r.y) / 7.0f, sum = 0.0f;
    const float *plane = features + (long long)channel * width * height;
    for (int s = 0; s < 4; ++s) {
        float x = r.x + (px + 0.25f + 0.5f * (s % 2)) * bw, y = r.y + (py + 0.25f + 0.5f * (s / 2)) * bh;
        if (x < 0.0f || y < 0.0f || x > width - 1 || y > height - 1) continue;
        int x0 = min((int)x, width - 2), y0 = min((int)y, height - 2);
        float fx = x - x0, fy = y - y0;
        const float *p = plane + y0 * width + x0;
        sum += (p[0] * (1 - fx) + p[1] * fx) * (1 - fy) + (p[width] * (1 - fx) + p[width + 1] * fx) * fy;
    }
    dst[i] = 0.25f * sum;
}
