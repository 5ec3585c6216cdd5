// Memory order: acquire and release through PTX, a chained scan over blocks, clocks, sleeping.
__device__ __forceinline__ unsigned load_acquire(const unsigned *address) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void store_release(unsigned *address, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// A block takes its place by ticket, scans its slice, and adds what its predecessor published.
extern "C" __global__ void chained_scan(unsigned *dst, unsigned *ticket, unsigned *ready, unsigned *prefix,
                                        const unsigned *src) {
    __shared__ unsigned warp_sums[4];
    __shared__ unsigned place, carried;
    int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    if (t == 0) place = atomicAdd(ticket, 1u);
    __syncthreads();
    unsigned value = src[place * 128 + t];
    for (int offset = 1; offset < 32; offset <<= 1) {
        unsigned other = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset) value += other;
    }
    if (lane == 31) warp_sums[warp] = value;
    __syncthreads();
    for (int w = 0; w < warp; ++w) value += warp_sums[w];
    if (t == 127) {
        unsigned before = 0;
        if (place > 0) {
            while (load_acquire(&ready[place - 1]) == 0) {
            }
            before = prefix[place - 1];
        }
        prefix[place] = before + value;
        store_release(&ready[place], 1u);
        carried = before;
    }
    __syncthreads();
    dst[place * 128 + t] = value + carried;
}

// Atomics that carry an order: every block adds its data, releases a count; the last to acquire it sums up.
extern "C" __global__ void atom_acquire_release(unsigned *dst, unsigned *slots, unsigned *count, unsigned factor) {
    if (threadIdx.x != 0) return;
    slots[blockIdx.x] = (blockIdx.x + 1) * factor;
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
    if (before == gridDim.x - 1) {
        unsigned sum = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) sum += slots[b];
        asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(dst), "r"(sum) : "memory");
        unsigned old;
        asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3;"
                     : "=r"(old)
                     : "l"(count), "r"(gridDim.x), "r"(0u)
                     : "memory");
        asm volatile("fence.sc.gpu;" ::: "memory");
        dst[1] = old;
    }
}

extern "C" __global__ void clock_read(long long *elapsed, int *dst, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    long long start = clock64();
    unsigned low = clock();
    int value = i;
    for (int r = 0; r < rounds; ++r) value = value * 1664525 + 1013904223;
    dst[i] = value;
    elapsed[2 * i] = clock64() - start;
    elapsed[2 * i + 1] = (unsigned)clock() - low;
}

extern "C" __global__ void sleep_turns(unsigned *dst, unsigned *flag) {
    if (threadIdx.x >= 32) {
        __nanosleep(500);
        if (threadIdx.x == 32) atomicExch(&flag[blockIdx.x], 5u);
    } else {
        unsigned wait = 8, seen;
        while ((seen = ((volatile unsigned *)flag)[blockIdx.x]) == 0) {
            __nanosleep(wait);
            if (wait < 256) wait *= 2;
        }
        dst[blockIdx.x * 32 + threadIdx.x] = seen + threadIdx.x;
    }
}
