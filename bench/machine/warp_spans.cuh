// What each warp of a kernel leaves for the host: four words.  The last is `number`; compilers cannot leave out what computes `kept`.
static __device__ __forceinline__ void report(unsigned *out, unsigned begin, unsigned end, unsigned number, unsigned kept = 0)
{
    if (threadIdx.x % 32 == 0) {
        unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        out[4 * warp] = begin;
        out[4 * warp + 1] = end;
        out[4 * warp + 2] = sm;
        out[4 * warp + 3] = number + (kept == 12345);
    }
}
