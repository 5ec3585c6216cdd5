// Programmatic dependent launch: a first kernel that lets its dependents begin, and a second one that waits for it.
__device__ __forceinline__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
    return time;
}

__device__ __forceinline__ float spend(float seed, int rounds) {
    float a = seed, b = 1, c = 2, d = 3;
    for (int i = 0; i < rounds; i++) {
        a = a * 1.01f + b;
        b = b * 1.01f + c;
        c = c * 1.01f + d;
        d = d * 1.01f + a;
    }
    return a + b + c + d;
}

// Times by block: begin, trigger, end.
extern "C" __global__ void first(unsigned long long *times, float *out, int before, int after, int triggers) {
    unsigned long long begin = now();
    float sum = spend(threadIdx.x, before);
    unsigned long long trigger = now();
    if (triggers)
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    sum += spend(sum, after);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x == 0) {
        times[3 * blockIdx.x] = begin;
        times[3 * blockIdx.x + 1] = trigger;
        times[3 * blockIdx.x + 2] = now();
    }
}

// Times by block: begin, before the wait, after it, end.
extern "C" __global__ void second(unsigned long long *times, const float *in, float *out, int prologue, int rest, int waits) {
    unsigned long long begin = now();
    float sum = spend(threadIdx.x, prologue);
    unsigned long long before = now();
    if (waits)
        asm volatile("griddepcontrol.wait;" ::: "memory");
    unsigned long long after = now();
    sum += spend(in[blockIdx.x * blockDim.x + threadIdx.x], rest);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x == 0) {
        times[4 * blockIdx.x] = begin;
        times[4 * blockIdx.x + 1] = before;
        times[4 * blockIdx.x + 2] = after;
        times[4 * blockIdx.x + 3] = now();
    }
}
