// What L2 keeps near an SM of a line that is written: block 0 reads lines, one after the other, before and after they are written.
__device__ unsigned timed(const unsigned *at, volatile unsigned *sink) {
    unsigned before, after, got;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(before)::"memory");
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(got) : "l"(at) : "memory");
    *sink = got; // waits for the load, and the clock for it
    asm volatile("mov.u32 %0, %%clock;" : "=r"(after)::"memory");
    return after - before;
}

__device__ unsigned place() {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

// out: by block, its SM and the cycles of an atomic on each line, which tell the side of its home; one block after the other.
extern "C" __global__ void sides(unsigned *data, unsigned *out, volatile unsigned *turn, int lines, int stride) {
    if (threadIdx.x)
        return;
    while (*turn != blockIdx.x) ;
    unsigned *mine = out + blockIdx.x * (lines + 1);
    mine[0] = place();
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < lines; i++) {
            unsigned before, after;
            asm volatile("mov.u32 %0, %%clock;" : "=r"(before)::"memory");
            mine[1 + i] = atomicAdd(data + (size_t)i * stride, 0);
            __threadfence_block();
            asm volatile("mov.u32 %0, %%clock;" : "=r"(after)::"memory");
            mine[1 + i] = after - before;
        }
    __threadfence();
    *turn = blockIdx.x + 1;
}

// places: SMs of blocks 0 and writer.
// words: written of each line (32: all); writer: the block that writes; kind 0: stores, 1: sums without an answer.
// out: lines x {first read, read again, after the write, again}
extern "C" __global__ void written(unsigned *data, unsigned *out, volatile unsigned *turn, int lines, int stride, int words,
                                   int writer, int kind, int read_before, unsigned *places) {
    __shared__ volatile unsigned sink;
    if (threadIdx.x == 0 && blockIdx.x == 0)
        places[0] = place();
    if (threadIdx.x == 0 && blockIdx.x == writer)
        places[1] = place();
    for (int i = 0; i < lines; i++) {
        unsigned *line = data + (size_t)i * stride;
        if (blockIdx.x == 0) {
            if (threadIdx.x == 0 && read_before) {
                out[4 * i] = timed(line, &sink);
                out[4 * i + 1] = timed(line, &sink);
            }
            __syncwarp();
        }
        if (writer != 0) {
            if (blockIdx.x == 0) {
                if (threadIdx.x == 0) {
                    __threadfence();
                    *turn = 2 * i + 1;
                    while (*turn != 2 * i + 2) ;
                }
                __syncwarp();
            } else if (blockIdx.x == writer) {
                while (*turn != 2 * i + 1) ;
                __syncwarp();
            }
        }
        if (blockIdx.x == writer) {
            if (threadIdx.x < words) {
                if (kind == 0)
                    asm volatile("st.global.u32 [%0], %1;" ::"l"(line + threadIdx.x), "r"(i) : "memory");
                else
                    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(line + threadIdx.x), "r"(i) : "memory");
            }
            __threadfence();
            __syncwarp();
            if (writer != 0 && threadIdx.x == 0)
                *turn = 2 * i + 2;
        }
        if (blockIdx.x == 0) {
            if (threadIdx.x == 0) {
                out[4 * i + 2] = timed(line, &sink);
                out[4 * i + 3] = timed(line, &sink);
            }
            __syncwarp();
        }
    }
}
