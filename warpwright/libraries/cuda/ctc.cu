// Connectionist temporal classification (Graves et al., 2006): the loss of each sequence and its gradient for the activations before softmax, one block for each sequence.
//
// The states of a sequence are its labels with a blank (0) before, between and after them. Sums of paths are in logarithms.
#include "types.cuh"

#define THREADS 128
constexpr int WORDS = 512;
struct Words { int v[WORDS]; };
struct Arguments {
    const float *activations;  // probabilities if `are_probabilities`
    float *costs, *gradients, *work;
    const int *labels, *label_lengths, *times;
    i64 time_stride, sequence_stride, symbol_stride, gradient_time_stride, gradient_sequence_stride, gradient_symbol_stride, work_stride;
    int most_times, symbols, are_probabilities;
};
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ float log_sum(float a, float b) {
    const float most = fmaxf(a, b);
    return most == -infinity() ? most : most + log1pf(expf(fminf(a, b) - most));
}
__device__ float block_sum(float value) {
    __shared__ float values[THREADS];
    __syncthreads();
    values[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    }
    __syncthreads();
    return values[0];
}
// What the host has, in the stream's order.
extern "C" __global__ void warpwright_put_words(int *to, const Words words, int count) {
    for (int i = threadIdx.x; i < count; i += THREADS) to[i] = words.v[i];
}

struct Sequence {
    const Arguments &g;
    const float *x;
    const int *labels;
    int count, states, times;
    float *scales, *alphas, *betas;  // of each time: the logarithm of softmax's denominator, and the states' sums forwards; two rows of sums backwards

    __device__ Sequence(const Arguments &g) : g(g) {
        int before = 0;
        for (int n = 0; n < blockIdx.x; n++) before += g.label_lengths[n];
        labels = g.labels + before, count = g.label_lengths[blockIdx.x], states = 2 * count + 1, times = g.times[blockIdx.x];
        x = g.activations + g.sequence_stride * blockIdx.x;
        scales = g.work + g.work_stride * blockIdx.x, alphas = scales + g.most_times, betas = alphas + (i64)g.most_times * states;
    }
    __device__ __forceinline__ int symbol(int state) const { return state % 2 ? labels[state / 2] : 0; }
    // Whether a path may pass over the blank before a state.
    __device__ __forceinline__ bool skips(int state) const { return state % 2 && state > 1 && labels[state / 2] != labels[state / 2 - 1]; }
    __device__ __forceinline__ float log_probability(int time, int symbol) const {
        const float v = x[g.time_stride * time + g.symbol_stride * symbol];
        return g.are_probabilities ? logf(v) : v - scales[time];
    }
    __device__ void find_scales() {
        if (g.are_probabilities) return;
        for (int time = threadIdx.x / 32; time < times; time += THREADS / 32) {
            const float *of = x + g.time_stride * time;
            float most = -infinity(), sum = 0;
            for (int a = threadIdx.x % 32; a < g.symbols; a += 32) most = fmaxf(most, of[g.symbol_stride * a]);
            for (int step = 16; step; step >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
            for (int a = threadIdx.x % 32; a < g.symbols; a += 32) sum += expf(of[g.symbol_stride * a] - most);
            for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
            if (threadIdx.x % 32 == 0) scales[time] = most + logf(sum);
        }
        __syncthreads();
    }
    // The logarithm of all paths' probability.
    __device__ float forwards() {
        for (int time = 0; time < times; time++) {
            float *row = alphas + (i64)time * states, *before = row - states;
            for (int s = threadIdx.x; s < states; s += THREADS) {
                float sum = s < 2 ? 0 : -infinity();
                if (time) {
                    sum = before[s];
                    if (s > 0) sum = log_sum(sum, before[s - 1]);
                    if (skips(s)) sum = log_sum(sum, before[s - 2]);
                }
                row[s] = sum == -infinity() ? sum : sum + log_probability(time, symbol(s));
            }
            __syncthreads();
        }
        if (times == 0) return count ? -infinity() : 0;
        const float *last = alphas + (i64)(times - 1) * states;
        return states > 1 ? log_sum(last[states - 1], last[states - 2]) : last[0];
    }
    // Probability of the paths through a state at a time, given all.
    __device__ __forceinline__ float share(int time, int state, float total) const {
        return expf(alphas[(i64)time * states + state] + betas[time % 2 * states + state] - total);
    }
    __device__ void backwards(float *to, float total) {
        for (int time = times - 1; time >= 0; time--) {
            float *row = betas + time % 2 * states, *after = betas + (time + 1) % 2 * states;
            for (int s = threadIdx.x; s < states; s += THREADS) {
                if (time == times - 1) {
                    row[s] = s + 2 >= states ? 0 : -infinity();
                    continue;
                }
                float sum = after[s] + log_probability(time + 1, symbol(s));
                if (s + 1 < states) sum = log_sum(sum, after[s + 1] + log_probability(time + 1, symbol(s + 1)));
                if (s + 2 < states && skips(s + 2)) sum = log_sum(sum, after[s + 2] + log_probability(time + 1, symbol(s + 2)));
                row[s] = sum;
            }
            __syncthreads();
            float *of = to + g.gradient_time_stride * time;
            for (int a = threadIdx.x; a < g.symbols; a += THREADS) of[g.gradient_symbol_stride * a] = expf(log_probability(time, a));
            float blanks = 0;
            for (int s = 2 * threadIdx.x; s < states; s += 2 * THREADS) blanks += share(time, s, total);
            blanks = block_sum(blanks);
            if (threadIdx.x == 0) of[0] -= blanks;
            // A label's first place takes the shares of all its places, so that the order of the sum is always the same.
            for (int i = threadIdx.x; i < count; i += THREADS) {
                bool first = true;
                for (int j = 0; j < i && first; j++) first = labels[j] != labels[i];
                if (!first) continue;
                float sum = 0;
                for (int j = i; j < count; j++)
                    if (labels[j] == labels[i]) sum += share(time, 2 * j + 1, total);
                of[g.gradient_symbol_stride * labels[i]] -= sum;
            }
            __syncthreads();
        }
    }
};

// A sequence without any path has the cost 0 and no gradient.
extern "C" __global__ void warpwright_ctc_loss(const Arguments g) {
    Sequence of(g);
    of.find_scales();
    const float total = of.forwards();
    const bool possible = total != -infinity();
    if (threadIdx.x == 0) g.costs[blockIdx.x] = possible ? -total : 0;
    if (!g.gradients) return;
    float *to = g.gradients + g.gradient_sequence_stride * blockIdx.x;
    const i64 first = possible ? of.times : 0;
    for (i64 at = first * g.symbols + threadIdx.x; at < (i64)g.most_times * g.symbols; at += THREADS)
        to[g.gradient_time_stride * (at / g.symbols) + g.gradient_symbol_stride * (at % g.symbols)] = 0;
    if (possible) of.backwards(to, total);
}
