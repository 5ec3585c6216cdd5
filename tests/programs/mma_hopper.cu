// min_arch: 90
// mma.sync that begins with sm_90: doubles in larger shapes; elect; barriers with transaction counts; cluster addresses of one block.

extern "C" __global__ void mma_double_large(double *d, const double *a, const double *b, const double *c) {
    int t = threadIdx.x;
    double r[4];
#define D4 "=d"(r[0]), "=d"(r[1]), "=d"(r[2]), "=d"(r[3])
#define X(p, k) "d"(p[k * 32 + t])
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" : D4 : X(a, 0), X(a, 1), X(b, 0), X(c, 0), X(c, 1), X(c, 2), X(c, 3));
    for (int k = 0; k < 4; k++) d[k * 32 + t] = r[k];
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" : D4 : X(a, 0), X(a, 1), X(a, 2), X(a, 3), X(b, 0), X(b, 1), X(c, 0), X(c, 1), X(c, 2), X(c, 3));
    for (int k = 0; k < 4; k++) d[128 + k * 32 + t] = r[k];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19};" : D4 : X(a, 0), X(a, 1), X(a, 2), X(a, 3), X(a, 4), X(a, 5), X(a, 6), X(a, 7), X(b, 0), X(b, 1), X(b, 2), X(b, 3), X(c, 0), X(c, 1), X(c, 2), X(c, 3));
    for (int k = 0; k < 4; k++) d[256 + k * 32 + t] = r[k];
}

extern "C" __global__ void elect_one(unsigned *dst, const unsigned *src) {
    unsigned t = threadIdx.x, lane, chosen;
    asm volatile("{.reg .pred p; elect.sync %0|p, -1; selp.u32 %1, 1, 0, p;}" : "=r"(lane), "=r"(chosen));
    dst[t] = lane * 2 + chosen;
    if (src[t] & 1) {
        asm volatile("{.reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p;}" : "=r"(lane), "=r"(chosen) : "r"(__activemask()));
        dst[32 + t] = lane * 2 + chosen + 100;
    }
}

extern "C" __global__ void transaction_barrier(unsigned *dst, const unsigned *src) {
    __shared__ unsigned long long bar;
    __shared__ unsigned box[64];
    unsigned t = threadIdx.x, at = (unsigned)__cvta_generic_to_shared(&bar), done = 0, remote, rank;
    if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(64));
    __syncthreads();
    box[t] = src[t] * 3;
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");
    while (!done) asm volatile("{.reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(at), "l"(state) : "memory");
    dst[t] = box[63 - t];
    done = 0;
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
    while (!done) asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}" : "=r"(done) : "r"(at), "r"(1) : "memory");
    asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(remote) : "r"((unsigned)__cvta_generic_to_shared(&box[t])));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(rank) : "r"(remote));
    dst[64 + t] = rank;
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    dst[128 + t] = rank;
}
