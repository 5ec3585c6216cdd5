// Layers of neural networks, forwards and backwards, as libraries of such kernels have them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

__device__ float warp_sum(float x) {
    for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
}

// A transposed convolution of 4 by 4 with stride 2, a thread an output.
extern "C" __global__ void __launch_bounds__(256) conv_transpose2d(float *out, const float *in, const float *weight, int channels, int filters, int side) {
    int wide = side * 2, i = blockIdx.x * 256 + threadIdx.x, f = blockIdx.y, x = i % wide, y = i / wide;
    if (y >= wide) return;
    float sum = 0.0f;
    for (int c = 0; c < channels; ++c)
        for (int ky = (y + 1) % 2; ky < 4; ky += 2) {
            int v = (y + 1 - ky) / 2;
            if (y + 1 - ky < 0 || v >= side) continue;
            for (int kx = (x + 1) % 2; kx < 4; kx += 2) {
                int u = (x + 1 - kx) / 2;
                if (x + 1 - kx >= 0 && u < side) sum += in[(c * side + v) * side + u] * weight[((c * filters + f) * 4 + ky) * 4 + kx];
            }
        }
    out[f * wide * wide + i] = sum;
}

// A grouped convolution of 3 by 3 in half precision, channels last: a thread eight outputs of a pixel's group.
extern "C" __global__ void __launch_bounds__(128) conv_grouped(__half *out, const __half *in, const __half *weight, int groups, int width, int height) {
    __shared__ __half2 filter[9 * 8 * 4];
    int g = blockIdx.y, channels = groups * 8;
    for (int k = threadIdx.x; k < 288; k += 128) filter[k] = ((const __half2 *)weight)[g * 288 + k];
    __syncthreads();
    int pixel = blockIdx.x * 128 + threadIdx.x, x = pixel % width, y = pixel / width;
    if (y >= height) return;
    __half2 sum[4];
    for (int j = 0; j < 4; ++j) sum[j] = __float2half2_rn(0.0f);
    for (int tap = 0; tap < 9; ++tap) {
        int u = x + tap % 3 - 1, v = y + tap / 3 - 1;
        if (u < 0 || v < 0 || u >= width || v >= height) continue;
        uint4 raw = *(const uint4 *)(in + (long long)(v * width + u) * channels + g * 8);
        const __half *value = (const __half *)&raw;
        #pragma unroll
        for (int c = 0; c < 8; ++c)
            #pragma unroll
            for (int j = 0; j < 4; ++j) sum[j] = __hfma2(__half2half2(value[c]), filter[(tap * 8 + c) * 4 + j], sum[j]);
    }
    *(uint4 *)(out + (long long)pixel * channels + g * 8) = *(uint4 *)sum;
}

// Gradients of batch normalisation, a block a channel: two sums over the batch, then the input's gradient.
extern "C" __global__ void __launch_bounds__(512) batchnorm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x, const float *gain, const float *mean, const float *inverse, int batch, int channels, int pixels) {
    __shared__ float one[16], two[16];
    int c = blockIdx.x, t = threadIdx.x;
    float m = mean[c], r = inverse[c], bias = 0.0f, scale = 0.0f;
    for (int b = 0; b < batch; ++b)
        for (int p = t; p < pixels; p += 512) {
            long long i = ((long long)b * channels + c) * pixels + p;
            bias += dy[i], scale += dy[i] * (x[i] - m) * r;
        }
    bias = warp_sum(bias), scale = warp_sum(scale);
    if (t % 32 == 0) one[t / 32] = bias, two[t / 32] = scale;
    __syncthreads();
    bias = scale = 0.0f;
    for (int k = 0; k < 16; ++k) bias += one[k], scale += two[k];
    if (t == 0) dbias[c] = bias, dgain[c] = scale;
    float n = 1.0f / (batch * pixels), factor = gain[c] * r;
    for (int b = 0; b < batch; ++b)
        for (int p = t; p < pixels; p += 512) {
            long long i = ((long long)b * channels + c) * pixels + p;
            dx[i] = factor * (dy[i] - bias * n - (x[i] - m) * r * scale * n);
        }
}

// Attention to the 64 keys up to each query, a warp a query: two keys a lane, then two channels a lane.
extern "C" __global__ void __launch_bounds__(128) window_attention(float *out, const __half *q, const __half *k, const __half *v, int length) {
    __shared__ float weights[4][64];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, head = blockIdx.y, row = blockIdx.x * 4 + warp;
    if (row >= length) return;
    const __half2 *query = (const __half2 *)(q + ((long long)head * length + row) * 64);
    float dot[2], most = -1e30f, sum = 0.0f;
    for (int s = 0; s < 2; ++s) {
        int key = row - 63 + s * 32 + lane;
        dot[s] = -1e30f;
        if (key >= 0) {
            const uint4 *from = (const uint4 *)(k + ((long long)head * length + key) * 64);
            __half2 total = __float2half2_rn(0.0f);
            float both = 0.0f;
            #pragma unroll
            for (int c = 0; c < 8; ++c) {
                uint4 raw = from[c];
                const __half2 *pair = (const __half2 *)&raw;
                total = __hmul2(query[c * 4], pair[0]);
                #pragma unroll
                for (int j = 1; j < 4; ++j) total = __hfma2(query[c * 4 + j], pair[j], total);
                both += __low2float(total) + __high2float(total);
            }
            dot[s] = both * 0.125f;
        }
        most = fmaxf(most, dot[s]);
    }
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    for (int s = 0; s < 2; ++s) {
        float p = dot[s] > -1e29f ? __expf(dot[s] - most) : 0.0f;
        weights[warp][s * 32 + lane] = p, sum += p;
    }
    sum = warp_sum(sum);
    __syncwarp();
    float x = 0.0f, y = 0.0f;
    for (int j = 0; j < 64; ++j) {
        int key = row - 63 + j;
        if (key < 0) continue;
        float2 value = __half22float2(((const __half2 *)(v + ((long long)head * length + key) * 64))[lane]);
        x += weights[warp][j] * value.x, y += weights[warp][j] * value.y;
    }
    ((float2 *)(out + ((long long)head * length + row) * 64))[lane] = make_float2(x / sum, y / sum);
}

// Tokens sorted by expert, each expert's number rounded up to a block of 16 rows: one block of the chip, counts in shared memory.
extern "C" __global__ void __launch_bounds__(1024) moe_align(int *sorted, int *owner, int *total, const int *chosen, int tokens, int experts) {
    extern __shared__ int counts[];
    int t = threadIdx.x, each = (tokens + 1023) / 1024, from = t * each;
    int *start = counts + 64;
    for (int e = t; e < experts; e += 1024) counts[e] = 0;
    __syncthreads();
    for (int i = t; i < tokens; i += 1024) atomicAdd(&counts[chosen[i]], 1);
    __syncthreads();
    if (t == 0) {
        start[0] = 0;
        for (int e = 0; e < experts; ++e) start[e + 1] = start[e] + (counts[e] + 15) / 16 * 16;
        total[0] = start[experts];
    }
    __syncthreads();
    for (int e = t; e < experts; e += 1024) {
        for (int i = start[e]; i < start[e + 1]; i += 16) owner[i / 16] = e;
        counts[e] = 0;
    }
    __syncthreads();
    for (int i = from; i < min(from + each, tokens); ++i) sorted[start[chosen[i]] + atomicAdd(&counts[chosen[i]], 1)] = i;
}

// Sampling from the most likely tokens whose probabilities sum to p: a block a row, the threshold halved, then the chosen one sought.
extern "C" __global__ void __launch_bounds__(256) top_p_sample(int *token, const float *probability, const float *uniform, int words, float p) {
    __shared__ float part[8];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const float *row = probability + (long long)blockIdx.x * words;
    auto sum_block = [&](float x) {
        x = warp_sum(x);
        __syncthreads();
        if (lane == 0) part[warp] = x;
        __syncthreads();
        x = 0.0f;
        for (int k = 0; k < 8; ++k) x += part[k];
        return x;
    };
    float low = 0.0f, high = 1.0f, mass = 1.0f;
    for (int round = 0; round < 14; ++round) {
        float middle = 0.5f * (low + high), sum = 0.0f;
        for (int i = t; i < words; i += 256) sum += row[i] >= middle ? row[i] : 0.0f;
        sum = sum_block(sum);
        if (sum >= p) low = middle, mass = sum;
        else high = middle;
    }
    float goal = uniform[blockIdx.x] * mass, before = 0.0f;
    for (int first = 0; first < words; first += 256) {
        float x = first + t < words && row[first + t] >= low ? row[first + t] : 0.0f, scan = x;
        for (int d = 1; d < 32; d *= 2) {
            float left = __shfl_up_sync(~0u, scan, d);
            if (lane >= d) scan += left;
        }
        __syncthreads();
        if (lane == 31) part[warp] = scan;
        __syncthreads();
        float ahead = before, all = before;
        for (int k = 0; k < 8; ++k) {
            if (k < warp) ahead += part[k];
            all += part[k];
        }
        if (x > 0.0f && goal >= ahead + scan - x && goal < ahead + scan) token[blockIdx.x] = first + t;
        before = all;
        if (before > goal) break;
    }
}

// Products of 8-bit floats on the tensor cores, tiles of 64 by 64 by 64 bytes, a scale for each row and column.
extern "C" __global__ void __launch_bounds__(128) fp8_gemm(__nv_bfloat16 *c, const unsigned *a, const unsigned *b, const float *scale_a, const float *scale_b, int n, int words) {
    __shared__ unsigned left[64][20], right[64][20];
    int t = threadIdx.x, warp = t / 32, lane = t % 32, row = blockIdx.y * 64, column = blockIdx.x * 64;
    float d[8][4] = {};
    for (int k = 0; k < words; k += 16) {
        for (int i = t; i < 256; i += 128) {
            int r = i / 4, at = i % 4 * 4;
            *(uint4 *)&left[r][at] = *(const uint4 *)(a + (long long)(row + r) * words + k + at);
            *(uint4 *)&right[r][at] = *(const uint4 *)(b + (long long)(column + r) * words + k + at);
        }
        __syncthreads();
        #pragma unroll
        for (int s = 0; s < 16; s += 8) {
            unsigned fa[4];
            int r = warp * 16 + lane / 4, w = s + lane % 4;
            fa[0] = left[r][w], fa[1] = left[r + 8][w], fa[2] = left[r][w + 4], fa[3] = left[r + 8][w + 4];
            #pragma unroll
            for (int j = 0; j < 8; ++j) {
                unsigned b0 = right[j * 8 + lane / 4][w], b1 = right[j * 8 + lane / 4][w + 4];
                asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]) : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(b0), "r"(b1));
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j)
        for (int h = 0; h < 2; ++h) {
            int y = row + warp * 16 + lane / 4 + h * 8, x = column + j * 8 + lane % 4 * 2;
            float s = scale_a[y];
            *(__nv_bfloat162 *)(c + (long long)y * n + x) = __floats2bfloat162_rn(d[j][2 * h] * s * scale_b[x], d[j][2 * h + 1] * s * scale_b[x + 1]);
        }
}

// A residual added and its root mean square normalised, bf16, eight to a load; the sum is kept.
extern "C" __global__ void __launch_bounds__(256) rms_norm_residual(__nv_bfloat16 *out, __nv_bfloat16 *residual, const __nv_bfloat16 *x, const __nv_bfloat16 *gain, int columns) {
    __shared__ float part[8];
    extern __shared__ float row[];
    long long base = (long long)blockIdx.x * columns;
    float square = 0.0f;
    for (int i = threadIdx.x * 8; i < columns; i += 2048) {
        uint4 one = *(const uint4 *)(x + base + i), two = *(uint4 *)(residual + base + i), sum;
        for (int j = 0; j < 4; ++j) {
            __nv_bfloat162 s = __hadd2(((__nv_bfloat162 *)&one)[j], ((__nv_bfloat162 *)&two)[j]);
            ((__nv_bfloat162 *)&sum)[j] = s;
            float2 f = __bfloat1622float2(s);
            row[i + 2 * j] = f.x, row[i + 2 * j + 1] = f.y, square += f.x * f.x + f.y * f.y;
        }
        *(uint4 *)(residual + base + i) = sum;
    }
    square = warp_sum(square);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = square;
    __syncthreads();
    square = 0.0f;
    for (int k = 0; k < 8; ++k) square += part[k];
    float scale = rsqrtf(square / columns + 1e-6f);
    for (int i = threadIdx.x * 8; i < columns; i += 2048) {
        uint4 g = *(const uint4 *)(gain + i), made;
        for (int j = 0; j < 4; ++j) {
            float2 f = __bfloat1622float2(((__nv_bfloat162 *)&g)[j]);
            ((__nv_bfloat162 *)&made)[j] = __floats2bfloat162_rn(row[i + 2 * j] * scale * f.x, row[i + 2 * j + 1] * scale * f.y);
        }
        *(uint4 *)(out + base + i) = made;
    }
}

// Two products with the same left matrix, joined by SwiGLU: fragments of WMMA, tiles of 64 by 32.
extern "C" __global__ void __launch_bounds__(128) swiglu_gemm(__half *out, const __half *x, const __half *gate, const __half *up, int n, int depth) {
    __shared__ __align__(16) __half left[64][40], one[32][40], two[32][40];
    __shared__ __align__(16) float result[2][64][36];
    int t = threadIdx.x, warp = t / 32, row = blockIdx.y * 64, column = blockIdx.x * 32;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> g[2], u[2];
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(g[j], 0.0f), wmma::fill_fragment(u[j], 0.0f);
    for (int k = 0; k < depth; k += 32) {
        for (int i = t; i < 256; i += 128) *(uint4 *)&left[i / 4][i % 4 * 8] = *(const uint4 *)(x + (long long)(row + i / 4) * depth + k + i % 4 * 8);
        *(uint4 *)&one[t / 4][t % 4 * 8] = *(const uint4 *)(gate + (long long)(k + t / 4) * n + column + t % 4 * 8);
        *(uint4 *)&two[t / 4][t % 4 * 8] = *(const uint4 *)(up + (long long)(k + t / 4) * n + column + t % 4 * 8);
        __syncthreads();
        for (int s = 0; s < 32; s += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
            wmma::load_matrix_sync(a, &left[warp * 16][s], 40);
            for (int j = 0; j < 2; ++j) {
                wmma::load_matrix_sync(b, &one[s][j * 16], 40);
                wmma::mma_sync(g[j], a, b, g[j]);
                wmma::load_matrix_sync(b, &two[s][j * 16], 40);
                wmma::mma_sync(u[j], a, b, u[j]);
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 2; ++j) {
        wmma::store_matrix_sync(&result[0][warp * 16][j * 16], g[j], 36, wmma::mem_row_major);
        wmma::store_matrix_sync(&result[1][warp * 16][j * 16], u[j], 36, wmma::mem_row_major);
    }
    __syncthreads();
    for (int i = t; i < 2048; i += 128) {
        float v = result[0][i / 32][i % 32];
        out[(long long)(row + i / 32) * n + column + i % 32] = __float2half(v / (1.0f + __expf(-v)) * result[1][i / 32][i % 32]);
    }
}

// The gradient of GELU by tanh, pairs of bf16.
extern "C" __global__ void gelu_backward(__nv_bfloat162 *dx, const __nv_bfloat162 *dy, const __nv_bfloat162 *x, int pairs) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < pairs; i += gridDim.x * blockDim.x) {
        float2 v = __bfloat1622float2(x[i]), g = __bfloat1622float2(dy[i]);
        auto slope = [](float z) {
            float cube = 0.044715f * z * z, inner = 0.79788456f * z * (1.0f + cube), th = tanhf(inner);
            return 0.5f * (1.0f + th) + 0.5f * z * (1.0f - th * th) * 0.79788456f * (1.0f + 3.0f * cube);
        };
        dx[i] = __floats2bfloat162_rn(g.x * slope(v.x), g.y * slope(v.y));
    }
}

// The gradient of softmax, a warp a row that stays in registers.
extern "C" __global__ void __launch_bounds__(256) softmax_backward(float *dx, const float *dy, const float *y, int rows) {
    int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float4 *g = (const float4 *)(dy + (long long)row * 512), *p = (const float4 *)(y + (long long)row * 512);
    float4 a[4], b[4];
    float dot = 0.0f;
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        a[k] = g[k * 32 + lane], b[k] = p[k * 32 + lane];
        dot += a[k].x * b[k].x + a[k].y * b[k].y + a[k].z * b[k].z + a[k].w * b[k].w;
    }
    dot = warp_sum(dot);
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        ((float4 *)(dx + (long long)row * 512))[k * 32 + lane] = make_float4((a[k].x - dot) * b[k].x, (a[k].y - dot) * b[k].y, (a[k].z - dot) * b[k].z, (a[k].w - dot) * b[k].w);
}

// Bilinear samples at given places, channels first.
extern "C" __global__ void __launch_bounds__(256) grid_sample(float *out, const float *in, const float2 *places, int channels, int width, int height, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    float2 p = places[i];
    float x = ((p.x + 1.0f) * width - 1.0f) * 0.5f, y = ((p.y + 1.0f) * height - 1.0f) * 0.5f;
    int x0 = (int)floorf(x), y0 = (int)floorf(y);
    float fx = x - x0, fy = y - y0;
    bool left = x0 >= 0 && x0 < width, right = x0 + 1 >= 0 && x0 + 1 < width, top = y0 >= 0 && y0 < height, bottom = y0 + 1 >= 0 && y0 + 1 < height;
    for (int c = 0; c < channels; ++c) {
        const float *plane = in + (long long)c * width * height;
        float sum = 0.0f;
        if (top && left) sum += plane[y0 * width + x0] * (1.0f - fx) * (1.0f - fy);
        if (top && right) sum += plane[y0 * width + x0 + 1] * fx * (1.0f - fy);
        if (bottom && left) sum += plane[(y0 + 1) * width + x0] * (1.0f - fx) * fy;
        if (bottom && right) sum += plane[(y0 + 1) * width + x0 + 1] * fx * fy;
        out[(long long)c * n + i] = sum;
    }
}

// Log probabilities of all labellings of CTC: a block a sequence, a thread a state, step after step.
extern "C" __global__ void __launch_bounds__(128) ctc_alpha(float *loss, const float *logits, const int *labels, int steps, int symbols, int length) {
    __shared__ float alpha[2][130];
    int t = threadIdx.x, states = 2 * length + 1;
    const float *mine = logits + (long long)blockIdx.x * steps * symbols;
    int own = t % 2 && t < states ? labels[blockIdx.x * length + t / 2] : 0;
    bool skip = t % 2 && t > 1 && t < states && own != labels[blockIdx.x * length + t / 2 - 1];
    if (t < 2) alpha[0][t] = alpha[1][t] = -1e30f;
    alpha[0][t + 2] = t < 2 ? mine[own] : -1e30f;
    __syncthreads();
    for (int s = 1; s < steps; ++s) {
        const float *last = alpha[(s - 1) % 2];
        float a = last[t + 2], b = last[t + 1], c = skip ? last[t] : -1e30f, most = fmaxf(a, fmaxf(b, c));
        float sum = expf(a - most) + expf(b - most) + expf(c - most);
        alpha[s % 2][t + 2] = t < states ? most + logf(sum) + mine[s * symbols + own] : -1e30f;
        __syncthreads();
    }
    if (t == 0) {
        float a = alpha[(steps - 1) % 2][states + 1], b = alpha[(steps - 1) % 2][states], most = fmaxf(a, b);
        loss[blockIdx.x] = -(most + logf(expf(a - most) + expf(b - most)));
    }
}

// The 32 largest of each row: a warp keeps them sorted in its lanes, sorts 32 new ones and merges when any is larger.
extern "C" __global__ void __launch_bounds__(128) warp_select(float *largest, const float *x, int rows, int columns) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float best = -1e30f;
    for (int c = 0; c < columns; c += 32) {
        float v = c + lane < columns ? x[(long long)row * columns + c + lane] : -1e30f;
        if (!__any_sync(~0u, v > __shfl_sync(~0u, best, 31))) continue;
        for (int size = 2; size <= 32; size *= 2)
            for (int step = size / 2; step; step /= 2) {
                float other = __shfl_xor_sync(~0u, v, step);
                bool keep_small = (lane & step ? 0 : 1) ^ (lane & size ? 0 : 1);
                v = size == 32 ? ((lane & step) ? fmaxf(v, other) : fminf(v, other)) : (keep_small ? fminf(v, other) : fmaxf(v, other));
            }
        best = fmaxf(best, v);
        for (int step = 16; step; step /= 2) {
            float other = __shfl_xor_sync(~0u, best, step);
            best = lane & step ? fminf(best, other) : fmaxf(best, other);
        }
    }
    largest[row * 32 + lane] = best;
}

// Squares of norms of many tensors: a block a chunk of one of them, added atomically.
extern "C" __global__ void __launch_bounds__(512) multi_tensor_norm(float *square, const int2 *where, const float *all, const int *offset, const int *size, int chunk) {
    __shared__ float part[16];
    int2 mine = where[blockIdx.x];
    const float *from = all + offset[mine.x] + mine.y * chunk;
    int count = min(chunk, size[mine.x] - mine.y * chunk);
    float sum = 0.0f, value[4];
    for (int first = threadIdx.x; first < count; first += 2048) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) value[k] = first + k * 512 < count ? from[first + k * 512] : 0.0f;
        #pragma unroll
        for (int k = 0; k < 4; ++k) sum += value[k] * value[k];
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = warp_sum(threadIdx.x < 16 ? part[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0) atomicAdd(square + mine.x, sum);
    }
}

__device__ float2 times(float2 a, float2 b) { return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// A long convolution of each row by transforms of 2048 points in shared memory: forwards, times the filter's spectrum, backwards.
extern "C" __global__ void __launch_bounds__(256) fft_convolve(float *out, const float *in, const float2 *spectrum, int length) {
    __shared__ float2 data[2048];
    int t = threadIdx.x;
    for (int k = t; k < 2048; k += 256) data[k] = make_float2(k < length ? in[(long long)blockIdx.x * length + k] : 0.0f, 0.0f);
    for (int half = 1024; half; half /= 2) {
        __syncthreads();
        for (int k = t; k < 1024; k += 256) {
            int j = k % half, i = k / half * half * 2 + j;
            float2 a = data[i], b = data[i + half], w;
            __sincosf(-3.14159265f * j / half, &w.y, &w.x);
            data[i] = make_float2(a.x + b.x, a.y + b.y);
            data[i + half] = times(make_float2(a.x - b.x, a.y - b.y), w);
        }
    }
    __syncthreads();
    for (int k = t; k < 2048; k += 256) data[k] = times(data[k], spectrum[k]);
    for (int half = 1; half < 2048; half *= 2) {
        __syncthreads();
        for (int k = t; k < 1024; k += 256) {
            int j = k % half, i = k / half * half * 2 + j;
            float2 a = data[i], w;
            __sincosf(3.14159265f * j / half, &w.y, &w.x);
            float2 b = times(data[i + half], w);
            data[i] = make_float2(a.x + b.x, a.y + b.y), data[i + half] = make_float2(a.x - b.x, a.y - b.y);
        }
    }
    __syncthreads();
    for (int k = t; k < length; k += 256) out[(long long)blockIdx.x * length + k] = data[k].x / 2048.0f;
}

// Channels to pixels: four channels become a square of two by two.
extern "C" __global__ void pixel_shuffle(float *out, const float *in, int channels, int width, int height) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % (2 * width), y = i / (2 * width) % (2 * height), c = i / (4 * width * height);
    if (c < channels) out[i] = in[((c * 4 + y % 2 * 2 + x % 2) * height + y / 2) * width + x / 2];
}
