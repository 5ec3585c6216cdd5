// Batch normalisation: a block for each channel, or for each element of an image (mode 0). Macros: ELEMENT, SUM.
#include "types.cuh"

#define THREADS 256
struct Arguments {
    const ELEMENT *x, *dy;
    ELEMENT *out;  // y, or dx
    const SUM *scale, *bias;
    SUM *mean, *inverse;            // of the batch
    SUM *running_mean, *running_variance;
    SUM *dscale, *dbias;
    i64 image_stride, channel_stride, position_stride;
    double alpha, beta, alpha_parameters, beta_parameters, epsilon, factor;
    int images, positions, reads_statistics;
};

__device__ double block_sum(double value) {
    __shared__ double values[THREADS];
    __syncthreads();
    values[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    }
    __syncthreads();
    return values[0];
}
__device__ __forceinline__ i64 place(const Arguments &g, int i) {
    return i / g.positions * g.image_stride + i % g.positions * g.position_stride + blockIdx.x * g.channel_stride;
}
__device__ __forceinline__ void blend(const Arguments &g, ELEMENT *to, SUM value) {
    value = (SUM)g.alpha * value;
    if (g.beta != 0.0) value += (SUM)g.beta * To<SUM>::from(*to);
    put(to, value);
}

extern "C" __global__ void warpwright_batch_norm_training(const Arguments g) {
    int count = g.images * g.positions, c = blockIdx.x;
    double sum = 0.0, squares = 0.0;
    for (int i = threadIdx.x; i < count; i += THREADS) sum += To<SUM>::from(g.x[place(g, i)]);
    double mean = block_sum(sum) / count;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        double d = To<SUM>::from(g.x[place(g, i)]) - mean;
        squares += d * d;
    }
    squares = block_sum(squares);
    SUM inverse = (SUM)(1.0 / sqrt(squares / count + g.epsilon)), middle = (SUM)mean;
    for (int i = threadIdx.x; i < count; i += THREADS)
        blend(g, g.out + place(g, i), (To<SUM>::from(g.x[place(g, i)]) - middle) * inverse * g.scale[c] + g.bias[c]);
    if (threadIdx.x) return;
    if (g.mean) g.mean[c] = middle, g.inverse[c] = inverse;
    if (!g.running_mean) return;
    double variance = count > 1 ? squares / (count - 1) : squares;
    g.running_mean[c] = (SUM)((1.0 - g.factor) * g.running_mean[c] + g.factor * mean);
    g.running_variance[c] = (SUM)((1.0 - g.factor) * g.running_variance[c] + g.factor * variance);
}
extern "C" __global__ void warpwright_batch_norm_inference(const Arguments g) {
    int c = blockIdx.x;
    SUM inverse = (SUM)(1.0 / sqrt((double)g.running_variance[c] + g.epsilon));
    for (int i = threadIdx.x; i < g.images * g.positions; i += THREADS)
        blend(g, g.out + place(g, i), (To<SUM>::from(g.x[place(g, i)]) - g.running_mean[c]) * inverse * g.scale[c] + g.bias[c]);
}
extern "C" __global__ void warpwright_batch_norm_backward(const Arguments g) {
    int count = g.images * g.positions, c = blockIdx.x;
    double mean, inverse;
    if (g.reads_statistics) {
        mean = g.mean[c], inverse = g.inverse[c];
    } else {
        double sum = 0.0, squares = 0.0;
        for (int i = threadIdx.x; i < count; i += THREADS) sum += To<SUM>::from(g.x[place(g, i)]);
        mean = block_sum(sum) / count;
        for (int i = threadIdx.x; i < count; i += THREADS) {
            double d = To<SUM>::from(g.x[place(g, i)]) - mean;
            squares += d * d;
        }
        inverse = 1.0 / sqrt(block_sum(squares) / count + g.epsilon);
    }
    double dbias = 0.0, dscale = 0.0;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        double dy = To<SUM>::from(g.dy[place(g, i)]);
        dbias += dy;
        dscale += dy * (To<SUM>::from(g.x[place(g, i)]) - mean) * inverse;
    }
    dbias = block_sum(dbias);
    dscale = block_sum(dscale);
    SUM factor = (SUM)(g.scale[c] * inverse);
    for (int i = threadIdx.x; i < count; i += THREADS) {
        i64 at = place(g, i);
        SUM normal = (SUM)((To<SUM>::from(g.x[at]) - mean) * inverse);
        blend(g, g.out + at, factor * (To<SUM>::from(g.dy[at]) - (SUM)(dbias / count) - normal * (SUM)(dscale / count)));
    }
    if (threadIdx.x) return;
    SUM old_scale = g.beta_parameters != 0.0 ? g.dscale[c] : SUM(0), old_bias = g.beta_parameters != 0.0 ? g.dbias[c] : SUM(0);
    g.dscale[c] = (SUM)(g.alpha_parameters * dscale + g.beta_parameters * old_scale);
    g.dbias[c] = (SUM)(g.alpha_parameters * dbias + g.beta_parameters * old_bias);
}
