// Clocks of every warp at block barriers while several blocks share an SM: lane k keeps the clock after the k-th group of EACH barriers.
// A read of the clock after a barrier does not wait for it, so it shows when the barrier was issued; the last read follows a load from shared memory, which waits.

template <int EACH> __device__ __forceinline__ void turns(unsigned *sms, unsigned *clocks)
{
    __shared__ volatile unsigned word;
    unsigned lane = threadIdx.x % 32, kept = 0, sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < 31; i++) {
#pragma unroll
        for (int k = 0; k < EACH; k++)
            __syncthreads();
        unsigned now = clock();
        kept = lane == i ? now : kept;
    }
    word = kept;
    __syncthreads();
    if (word != 0xffffffff && lane == 31)
        kept = clock();
    unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    clocks[32 * warp + lane] = kept;
    if (threadIdx.x == 0)
        sms[blockIdx.x] = sm;
}
extern "C" __global__ void turns_1(unsigned *sms, unsigned *clocks) { turns<1>(sms, clocks); }
extern "C" __global__ void turns_4(unsigned *sms, unsigned *clocks) { turns<4>(sms, clocks); }
extern "C" __global__ void turns_16(unsigned *sms, unsigned *clocks) { turns<16>(sms, clocks); }
