// min_arch: 80
// mbarriers and cp.async by hand: sizes, cache operators, groups that overlap, arrival on completion.

extern "C" __global__ void mbarrier_basics(unsigned *dst, const unsigned *src) {
    __shared__ unsigned long long bar;
    __shared__ unsigned box[64];
    unsigned t = threadIdx.x, at = (unsigned)__cvta_generic_to_shared(&bar), done = 0, pending;
    unsigned long long state;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at));
    __syncthreads();
    box[t] = src[t] + 5;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
    while (!done) asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(at), "l"(state) : "memory");
    dst[t] = box[t ^ 33];
    dst[64 + t] = pending >= 1 && pending <= 64;
    __syncthreads();
    if (t < 32) asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(state) : "r"(at) : "memory");
    __syncthreads();
    if (t == 0) asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(at));
}

extern "C" __global__ void copy_sizes(unsigned *dst, const unsigned *src) {
    __shared__ __align__(16) unsigned box[3][128];
    unsigned t = threadIdx.x;
    unsigned a = (unsigned)__cvta_generic_to_shared(&box[0][t]), b = (unsigned)__cvta_generic_to_shared(&box[1][2 * t]), c = (unsigned)__cvta_generic_to_shared(&box[2][4 * t]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(a), "l"(src + t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(b), "l"(src + 2 * t), "r"(t & 1 ? 8 : 4));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(c), "l"(src + 4 * t));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    __syncwarp();
    dst[t] = box[0][31 - t];
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncwarp();
    dst[32 + t] = box[1][2 * t] + 3 * box[1][2 * t + 1];
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    dst[64 + t] = box[2][4 * t] + box[2][(4 * t + 7) & 127];
}

extern "C" __global__ void copy_arrival(unsigned *dst, const unsigned *src) {
    __shared__ unsigned long long bar;
    __shared__ unsigned box[64];
    unsigned t = threadIdx.x, at = (unsigned)__cvta_generic_to_shared(&bar), done = 0;
    unsigned long long state;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(at));
    __syncthreads();
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(&box[t])), "l"(src + t));
    asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(at) : "memory");
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    while (!done) asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(at), "l"(state) : "memory");
    dst[t] = box[63 - t] * 2;
}
