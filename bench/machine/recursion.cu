// Recursive functions: calls, the stack in local memory, and convergence registers that each call saves, by the depths of a warp's lanes.
#include "../micro/common.cuh"

// Two calls per level; lanes return at different depths.
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

// One call per level.
__device__ __noinline__ int chain(int n) { return n == 0 ? 1 : chain(n - 1) * 3 + n; }

// One call per level, and an array with a different index in each lane.
__device__ __noinline__ int stacked(int n, int at) {
    int kept[4];
#pragma unroll
    for (int k = 0; k < 4; k++) kept[k] = n * k;
    kept[at & 3] += n;
    int below = n == 0 ? 1 : stacked(n - 1, at + 1);
    return below + kept[(below + at) & 3];
}

// A call in a loop that lanes leave after different numbers of turns.
__device__ __noinline__ int halves(int n) {
    int sum = 0;
    while (n > 0) {
        if (n > 1) sum += halves(n >> 1);
        n -= 2 + (n & 1);
        sum++;
    }
    return sum;
}

#define CALLER(NAME, CALL)                                                    \
    extern "C" __global__ void NAME(u32* out, int* results, const int* depths) { \
        int i = blockIdx.x * blockDim.x + threadIdx.x, n = depths[i];         \
        n += CALL >> 31;                                                      \
        settle();                                                             \
        u32 begin = clk();                                                    \
        int sum = CALL;                                                       \
        __syncwarp();                                                         \
        u32 end = clk() + (sum >> 31);                                        \
        results[i] = sum;                                                     \
        report(out, begin, end);                                              \
    }
CALLER(fibonacci_calls, fibonacci(n))
CALLER(chain_calls, chain(n))
CALLER(stacked_calls, stacked(n, i))
CALLER(halves_calls, halves(n))
