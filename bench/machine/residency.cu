// A block that stays on its SM for a while, and says which SM it was and when: 4 words of the log; the first one tells others that it has begun.
extern "C" __global__ void stay(unsigned long long *log, unsigned nanoseconds, unsigned more, volatile unsigned *begun) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    if (begun && threadIdx.x + blockIdx.x == 0) {
        *begun = 1;
        __threadfence_system();
    }
    nanoseconds += more * (blockIdx.x % 8);
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < nanoseconds);
    if (threadIdx.x == 0) {
        unsigned sm;
        asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
        log += 4 * blockIdx.x;
        log[0] = sm;
        log[1] = begin;
        log[2] = now;
    }
}
