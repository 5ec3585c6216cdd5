// Layers in training and vision: backward passes, bags of embeddings, dropout, group norms, Winograd's tiles.
#include <cuda_fp16.h>

__device__ float2 block_sums(float2 v, float2 *scratch) {
    for (int d = 16; d; d /= 2) v.x += __shfl_xor_sync(~0u, v.x, d), v.y += __shfl_xor_sync(~0u, v.y, d);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    float2 total = make_float2(0.0f, 0.0f);
    for (int w = 0; w < blockDim.x / 32; ++w) total.x += scratch[w].x, total.y += scratch[w].y;
    return total;
}

// Gradients of a layer norm over 1024 columns; every block sums those of gain and shift over its own rows.
extern "C" __global__ void __launch_bounds__(256) layer_norm_backward(float4 *dx, float4 *dgain, float4 *dshift, const float4 *dy, const float4 *x, const float4 *gain, const float *mean, const float *scale, int rows) {
    __shared__ float2 scratch[8];
    int t = threadIdx.x;
    float4 g = gain[t], sum_gain = make_float4(0, 0, 0, 0), sum_shift = make_float4(0, 0, 0, 0);
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        float4 d = dy[row * 256 + t], v = x[row * 256 + t];
        float m = mean[row], s = scale[row];
        v.x = (v.x - m) * s, v.y = (v.y - m) * s, v.z = (v.z - m) * s, v.w = (v.w - m) * s;
        sum_gain.x += d.x * v.x, sum_gain.y += d.y * v.y, sum_gain.z += d.z * v.z, sum_gain.w += d.w * v.w;
        sum_shift.x += d.x, sum_shift.y += d.y, sum_shift.z += d.z, sum_shift.w += d.w;
        d.x *= g.x, d.y *= g.y, d.z *= g.z, d.w *= g.w;
        float2 sums = block_sums(make_float2(d.x + d.y + d.z + d.w, d.x * v.x + d.y * v.y + d.z * v.z + d.w * v.w), scratch);
        float a = sums.x / 1024.0f, b = sums.y / 1024.0f;
        dx[row * 256 + t] = make_float4((d.x - a - v.x * b) * s, (d.y - a - v.y * b) * s, (d.z - a - v.z * b) * s, (d.w - a - v.w * b) * s);
    }
    dgain[blockIdx.x * 256 + t] = sum_gain, dshift[blockIdx.x * 256 + t] = sum_shift;
}

// Weighted sums of table rows, a warp for a bag of any length.
extern "C" __global__ void embedding_bag(float4 *dst, const float4 *table, const int *indices, const float *weights, const int *offsets, int bags) {
    int bag = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (bag >= bags) return;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int i = offsets[bag]; i < offsets[bag + 1]; ++i) {
        float4 v = table[indices[i] * 32 + lane];
        float w = weights[i];
        sum.x = fmaf(w, v.x, sum.x), sum.y = fmaf(w, v.y, sum.y), sum.z = fmaf(w, v.z, sum.z), sum.w = fmaf(w, v.w, sum.w);
    }
    dst[bag * 32 + lane] = sum;
}

// Philox 4x32-10 of (index, seed) keeps or drops four elements a thread.
extern "C" __global__ void dropout_philox(float4 *dst, uchar4 *mask, const float4 *src, unsigned seed, unsigned threshold, float scale, int quads) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= quads) return;
    unsigned c0 = i, c1 = 0, c2 = seed, c3 = 0x5eed, k0 = seed, k1 = 0xcafe;
    for (int r = 0; r < 10; ++r) {
        unsigned h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0, c1 = l1, c2 = h0 ^ c3 ^ k1, c3 = l0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    float4 v = src[i];
    uchar4 keep = make_uchar4(c0 < threshold, c1 < threshold, c2 < threshold, c3 < threshold);
    dst[i] = make_float4(keep.x ? v.x * scale : 0.0f, keep.y ? v.y * scale : 0.0f, keep.z ? v.z * scale : 0.0f, keep.w ? v.w * scale : 0.0f);
    mask[i] = keep;
}

// Group norm and SiLU of halves as [image][channel][pixel]: a block for a group, eight elements a load.
extern "C" __global__ void group_norm(uint4 *dst, const uint4 *src, const float *gain, const float *shift, int groups, int channels_each, int pixels) {
    __shared__ float2 scratch[32];
    int group = blockIdx.x % groups, words = channels_each * pixels / 8;
    const uint4 *from = src + (long long)blockIdx.x * words;
    float2 sums = make_float2(0.0f, 0.0f);
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        uint4 bits = from[i];
        unsigned parts[4] = {bits.x, bits.y, bits.z, bits.w};
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            float2 v = __half22float2(*(__half2 *)&parts[k]);
            sums.x += v.x + v.y, sums.y += v.x * v.x + v.y * v.y;
        }
    }
    sums = block_sums(sums, scratch);
    float mean = sums.x / (words * 8), scale = rsqrtf(sums.y / (words * 8) - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < words; i += blockDim.x) {
        uint4 bits = from[i];
        unsigned parts[4] = {bits.x, bits.y, bits.z, bits.w};
        int channel = group * channels_each + i * 8 / pixels;
        float a = gain[channel] * scale, b = shift[channel] - mean * a;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            float2 v = __half22float2(*(__half2 *)&parts[k]);
            v.x = fmaf(v.x, a, b), v.y = fmaf(v.y, a, b);
            __half2 out = __floats2half2_rn(v.x / (1.0f + __expf(-v.x)), v.y / (1.0f + __expf(-v.y)));
            parts[k] = *(unsigned *)&out;
        }
        dst[(long long)blockIdx.x * words + i] = make_uint4(parts[0], parts[1], parts[2], parts[3]);
    }
}

// Winograd's F(2x2, 3x3): tiles of 4 by 4 pixels that overlap by two become 16 planes, as [plane][channel][tile].
extern "C" __global__ void winograd_tiles(float *dst, const float *src, int width, int height, int tiles_x, int tiles_y) {
    int tile = blockIdx.x * blockDim.x + threadIdx.x, channel = blockIdx.y, tiles = tiles_x * tiles_y;
    if (tile >= tiles) return;
    int x0 = tile % tiles_x * 2 - 1, y0 = tile / tiles_x * 2 - 1;
    float d[4][4], m[4][4];
    #pragma unroll
    for (int y = 0; y < 4; ++y)
        #pragma unroll
        for (int x = 0; x < 4; ++x) {
            bool inside = x0 + x >= 0 && x0 + x < width && y0 + y >= 0 && y0 + y < height;
            d[y][x] = inside ? src[((long long)channel * height + y0 + y) * width + x0 + x] : 0.0f;
        }
    #pragma unroll
    for (int x = 0; x < 4; ++x)
        m[0][x] = d[0][x] - d[2][x], m[1][x] = d[1][x] + d[2][x], m[2][x] = d[2][x] - d[1][x], m[3][x] = d[1][x] - d[3][x];
    #pragma unroll
    for (int y = 0; y < 4; ++y) {
        float out[4] = {m[y][0] - m[y][2], m[y][1] + m[y][2], m[y][2] - m[y][1], m[y][1] - m[y][3]};
        #pragma unroll
        for (int x = 0; x < 4; ++x) dst[((y * 4 + x) * (long long)gridDim.y + channel) * tiles + tile] = out[x];
    }
}
