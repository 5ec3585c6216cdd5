// Histograms in global memory: six ways to write the kernel.
__device__ void add4(unsigned *bins, uint4 v) {
    atomicAdd(bins + v.x, 1);
    atomicAdd(bins + v.y, 1);
    atomicAdd(bins + v.z, 1);
    atomicAdd(bins + v.w, 1);
}

// Four neighbouring integers for each thread and turn.
extern "C" __global__ void quads(const unsigned *data, unsigned count, unsigned *bins) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count / 4; i += step)
        add4(bins, ((const uint4 *)data)[i]);
}

// The same, the integers being read as what is not needed again.
extern "C" __global__ void streamed(const unsigned *data, unsigned count, unsigned *bins) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count / 4; i += step)
        add4(bins, __ldcs((const uint4 *)data + i));
}

// One integer for each thread and turn.
extern "C" __global__ void words(const unsigned *data, unsigned count, unsigned *bins) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        atomicAdd(bins + data[i], 1);
}

// One integer for each thread, as many threads as integers.
extern "C" __global__ void threads(const unsigned *data, unsigned count, unsigned *bins) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        atomicAdd(bins + data[i], 1);
}

// Lanes with the same integer are counted together.
extern "C" __global__ void matched(const unsigned *data, unsigned count, unsigned *bins) {
    unsigned step = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        unsigned value = data[i], same = __match_any_sync(__activemask(), value);
        if ((threadIdx.x & 31) == __ffs(same) - 1)
            atomicAdd(bins + value, __popc(same));
    }
}

// The sums' former values are used.
extern "C" __global__ void answered(const unsigned *data, unsigned count, unsigned *bins) {
    unsigned step = gridDim.x * blockDim.x, seen = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        seen |= atomicAdd(bins + data[i], 1);
    if (seen == 0xffffffff)
        bins[0] = 0;
}
