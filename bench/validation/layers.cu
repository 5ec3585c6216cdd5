// Layers of neural networks: normalisations, attention, convolutions, pooling, element-wise ends.
#include <cuda_fp16.h>

__device__ float block_sum(float v, float *scratch) {
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) total += scratch[w];
    return total;
}

__device__ float block_max(float v, float *scratch) {
    for (int d = 16; d; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float most = scratch[0];
    for (int w = 1; w < blockDim.x / 32; ++w) most = fmaxf(most, scratch[w]);
    return most;
}

extern "C" __global__ void softmax_block(float *dst, const float *src, int columns) {
    __shared__ float scratch[32];
    const float *row = src + (long long)blockIdx.x * columns;
    float most = -1e30f, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
    most = block_max(most, scratch);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += __expf(row[i] - most);
    sum = block_sum(sum, scratch);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) dst[(long long)blockIdx.x * columns + i] = __expf(row[i] - most) / sum;
}

// 128 columns in the registers of one warp.
extern "C" __global__ void softmax_warp(float4 *dst, const float4 *src, int rows) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float4 v = src[row * 32 + lane];
    float most = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    v.x = __expf(v.x - most), v.y = __expf(v.y - most), v.z = __expf(v.z - most), v.w = __expf(v.w - most);
    float sum = v.x + v.y + v.z + v.w;
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    float scale = 1.0f / sum;
    dst[row * 32 + lane] = make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}

extern "C" __global__ void layer_norm_block(float *dst, const float *src, const float *gain, const float *shift, int columns) {
    __shared__ float scratch[32];
    const float *row = src + blockIdx.x * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += row[i];
    float mean = block_sum(sum, scratch) / columns;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(block_sum(squares, scratch) / columns + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) dst[blockIdx.x * columns + i] = (row[i] - mean) * scale * gain[i] + shift[i];
}

extern "C" __global__ void rms_norm_half(__half2 *dst, const __half2 *src, const __half2 *gain, int pairs) {
    __shared__ float scratch[32];
    float squares = 0.0f;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 v = __half22float2(src[blockIdx.x * pairs + i]);
        squares += v.x * v.x + v.y * v.y;
    }
    float scale = rsqrtf(block_sum(squares, scratch) / (2 * pairs) + 1e-5f);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        float2 v = __half22float2(src[blockIdx.x * pairs + i]), g = __half22float2(gain[i]);
        dst[blockIdx.x * pairs + i] = __floats2half2_rn(v.x * scale * g.x, v.y * scale * g.y);
    }
}

// A thread for each query, keys and values in tiles of 32 in shared memory, the maximum kept as it goes; width 32.
extern "C" __global__ void __launch_bounds__(128) attention_tiles(float *out, const float *q, const float *k, const float *v, int length) {
    __shared__ float4 tk[32][8], tv[32][8];
    int t = threadIdx.x, head = blockIdx.y, query = blockIdx.x * 128 + t;
    const float4 *fk = (const float4 *)k + head * length * 8, *fv = (const float4 *)v + head * length * 8;
    const float4 *fq = (const float4 *)q + (head * length + query) * 8;
    float4 mine[8], sum[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        mine[i] = fq[i];
        sum[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    }
    float most = -1e30f, total = 0.0f;
    for (int first = 0; first < length; first += 32) {
        __syncthreads();
        for (int i = t; i < 256; i += 128) {
            tk[i / 8][i % 8] = fk[first * 8 + i];
            tv[i / 8][i % 8] = fv[first * 8 + i];
        }
        __syncthreads();
        for (int j = 0; j < 32; ++j) {
            float dot = 0.0f;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float4 c = tk[j][i];
                dot += mine[i].x * c.x + mine[i].y * c.y + mine[i].z * c.z + mine[i].w * c.w;
            }
            dot *= 0.17677669f;
            float top = fmaxf(most, dot), fade = __expf(most - top), weight = __expf(dot - top);
            most = top;
            total = total * fade + weight;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                float4 c = tv[j][i];
                sum[i].x = sum[i].x * fade + weight * c.x;
                sum[i].y = sum[i].y * fade + weight * c.y;
                sum[i].z = sum[i].z * fade + weight * c.z;
                sum[i].w = sum[i].w * fade + weight * c.w;
            }
        }
    }
    float scale = 1.0f / total;
    float4 *to = (float4 *)out + (head * length + query) * 8;
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = make_float4(sum[i].x * scale, sum[i].y * scale, sum[i].z * scale, sum[i].w * scale);
}

// 3x3, stride 1, zero padding; weights of one output channel in shared memory.
extern "C" __global__ void convolve_channels(float *dst, const float *src, const float *weights, int inputs, int width, int height) {
    extern __shared__ float w[];
    int output = blockIdx.z, x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    for (int i = threadIdx.y * 32 + threadIdx.x; i < inputs * 9; i += 256) w[i] = weights[output * inputs * 9 + i];
    __syncthreads();
    float sum = 0.0f;
    for (int c = 0; c < inputs; ++c)
#pragma unroll
        for (int dy = -1; dy <= 1; ++dy)
#pragma unroll
            for (int dx = -1; dx <= 1; ++dx) {
                int sx = x + dx, sy = y + dy;
                if (sx >= 0 && sy >= 0 && sx < width && sy < height)
                    sum += src[(c * height + sy) * width + sx] * w[c * 9 + (dy + 1) * 3 + dx + 1];
            }
    dst[(output * height + y) * width + x] = fmaxf(sum, 0.0f);
}

extern "C" __global__ void convolve_depthwise(float *dst, const float *src, const float *weights, int width, int height) {
    int channel = blockIdx.z, x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    const float *plane = src + channel * width * height, *w = weights + channel * 25;
    float sum = 0.0f;
    for (int dy = -2; dy <= 2; ++dy)
        for (int dx = -2; dx <= 2; ++dx) {
            int sx = min(max(x + dx, 0), width - 1), sy = min(max(y + dy, 0), height - 1);
            sum += plane[sy * width + sx] * w[(dy + 2) * 5 + dx + 2];
        }
    dst[channel * width * height + y * width + x] = sum;
}

extern "C" __global__ void pool_max(float *dst, const float *src, int width, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, half = width / 2;
    if (i >= total) return;
    const float2 *at = (const float2 *)(src + (i / half) * 2 * width + (i % half) * 2);
    float2 a = at[0], b = at[width / 2];
    dst[i] = fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y));
}

extern "C" __global__ void pool_mean_channel(float *dst, const float *src, int pixels) {
    __shared__ float scratch[32];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) sum += src[blockIdx.x * pixels + i];
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) dst[blockIdx.x] = sum / pixels;
}

extern "C" __global__ void bias_gelu_half(__half2 *data, const __half2 *bias, int pairs, int total) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    float2 v = __half22float2(__hadd2(data[i], bias[i % pairs]));
    v.x = 0.5f * v.x * (1.0f + tanhf(0.79788456f * (v.x + 0.044715f * v.x * v.x * v.x)));
    v.y = 0.5f * v.y * (1.0f + tanhf(0.79788456f * (v.y + 0.044715f * v.y * v.y * v.y)));
    data[i] = __floats2half2_rn(v.x, v.y);
}

extern "C" __global__ void embedding_rows(uint4 *dst, const uint4 *table, const int *tokens, int count, int words) {
    int token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (token >= count) return;
    for (int i = threadIdx.x % 32; i < words; i += 32) dst[token * words + i] = table[tokens[token] * words + i];
}

extern "C" __global__ void cross_entropy_rows(float *loss, const float *logits, const int *labels, int columns) {
    __shared__ float scratch[32];
    const float *row = logits + blockIdx.x * columns;
    float most = -1e30f, sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += blockDim.x) most = fmaxf(most, row[i]);
    most = block_max(most, scratch);
    for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - most);
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + most - row[labels[blockIdx.x]];
}
