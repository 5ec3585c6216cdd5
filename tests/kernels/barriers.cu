// Barriers: counting and voting ones, named producer-consumer ones, and a warp handing over to another by a flag.
extern "C" __global__ void barrier_votes(int *dst, const int *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, value = src[i];
    int count = __syncthreads_count(value > 0);
    int every = __syncthreads_and(value > -1000);
    int some = __syncthreads_or(value == 77);
    int none = __syncthreads_or(value > 5000);
    dst[i] = count * 8 + (every ? 4 : 0) + (some ? 2 : 0) + (none ? 1 : 0);
}

// Two warps fill a buffer, two warps drain it; barrier 1 says full and barrier 2 says empty.
extern "C" __global__ void barrier_named(int *dst, const int *src, int rounds) {
    __shared__ int buffer[64];
    int t = threadIdx.x & 63, base = blockIdx.x * rounds * 64;
    if (threadIdx.x < 64) {
        for (int r = 0; r < rounds; ++r) {
            asm volatile("bar.sync 2, 128;" ::: "memory");
            buffer[t] = src[base + r * 64 + t] * 2;
            __threadfence_block();
            asm volatile("bar.arrive 1, 128;" ::: "memory");
        }
    } else {
        asm volatile("bar.arrive 2, 128;" ::: "memory");
        for (int r = 0; r < rounds; ++r) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
            dst[base + r * 64 + t] = buffer[63 - t] + r;
            if (r + 1 < rounds) asm volatile("bar.arrive 2, 128;" ::: "memory");
        }
    }
}

// Barriers whose number and thread count are only known at run time: each pair of warps meets at its own.
extern "C" __global__ void barrier_pairs(int *dst, const int *src) {
    extern __shared__ int slots[];
    int t = threadIdx.x, pair = t / 64;
    slots[t] = src[blockIdx.x * blockDim.x + t];
    asm volatile("bar.sync %0, %1;" ::"r"(pair + 1), "r"(64) : "memory");
    dst[blockIdx.x * blockDim.x + t] = slots[t ^ 32] * 10 + pair;
}

extern "C" __global__ void volatile_handoff(int *dst, const int *src, int rounds) {
    __shared__ volatile int turn;
    __shared__ volatile int box[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, base = blockIdx.x * 32;
    if (threadIdx.x == 0) turn = 0;
    if (warp == 0) box[lane] = src[base + lane];
    __syncthreads();
    for (int r = 0; r < rounds; ++r) {
        while (turn != 2 * r + warp) {
        }
        __threadfence_block();
        int value = warp == 0 ? box[lane] * 3 : box[31 - lane] + 1;
        __syncwarp();
        box[lane] = value;
        __threadfence_block();
        __syncwarp();
        if (lane == 0) turn = 2 * r + warp + 1;
    }
    __syncthreads();
    if (warp == 0) dst[base + lane] = box[lane];
}
