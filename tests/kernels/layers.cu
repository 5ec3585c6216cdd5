// Neural-network layers: softmax by rows, layer norm, and a GELU with bias.
__device__ __forceinline__ float block_sum(float value, float *scratch) {
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(0xffffffffu, value, offset);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) scratch[threadIdx.x >> 5] = value;
    __syncthreads();
    value = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) value += scratch[w];
    return value;
}

extern "C" __global__ void softmax_rows(float *dst, const float *src, int columns) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    const float *in = src + row * columns;
    float top = -3.4e38f, sum = 0.0f;
    for (int c = lane; c < columns; c += 32) top = fmaxf(top, in[c]);
    for (int offset = 16; offset > 0; offset >>= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));
    for (int c = lane; c < columns; c += 32) sum += expf(in[c] - top);
    for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    for (int c = lane; c < columns; c += 32) dst[row * columns + c] = expf(in[c] - top) / sum;
}

extern "C" __global__ void layer_norm(float *dst, const float *src, const float *gain, const float *bias,
                                      int columns, float epsilon) {
    __shared__ float scratch[32];
    const float *in = src + blockIdx.x * columns;
    float sum = 0.0f, squares = 0.0f;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += in[c];
    float mean = block_sum(sum, scratch) / columns;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) squares += (in[c] - mean) * (in[c] - mean);
    float scale = rsqrtf(block_sum(squares, scratch) / columns + epsilon);
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        dst[blockIdx.x * columns + c] = (in[c] - mean) * scale * gain[c] + bias[c];
}

extern "C" __global__ void gelu_bias(float4 *data, const float4 *bias, int columns, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 x = data[i], b = bias[i % columns];
    x.x += b.x;
    x.y += b.y;
    x.z += b.z;
    x.w += b.w;
    x.x = 0.5f * x.x * (1.0f + tanhf(0.7978845608f * (x.x + 0.044715f * x.x * x.x * x.x)));
    x.y = 0.5f * x.y * (1.0f + tanhf(0.7978845608f * (x.y + 0.044715f * x.y * x.y * x.y)));
    x.z = 0.5f * x.z * (1.0f + tanhf(0.7978845608f * (x.z + 0.044715f * x.z * x.z * x.z)));
    x.w = 0.5f * x.w * (1.0f + tanhf(0.7978845608f * (x.w + 0.044715f * x.w * x.w * x.w)));
    data[i] = x;
}
