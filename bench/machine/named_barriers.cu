// When warps leave a named barrier at which more warps arrive than it counts: each warp's microseconds from the block's start to its release.
#include "check.cuh"

enum { SYNC, ARRIVE };

// Warp w arrives `after[w]` microseconds after the block's start, in the mode `how[w]`, at a barrier that counts `threads`.
__global__ void leave(const int *how, const int *after, int threads, long long *left) {
    __shared__ long long start;
    __shared__ volatile int zero;
    int warp = threadIdx.x / 32;
    long long now;
    if (threadIdx.x == 0) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        start = now;
        zero = 0;
    }
    __syncthreads();
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now < start + 1000LL * after[warp]);
    if (how[warp] == SYNC)
        asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
    else
        asm volatile("bar.arrive 1, %0;" ::"r"(threads) : "memory");
    // A waiting warp may read its clock, but not shared memory.
    if (zero == 0)
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (threadIdx.x % 32 == 0)
        left[warp] = now - start;
}

struct Case {
    const char *name;
    int threads, warps, how[8], after[8];
};

// The last warps arrive late, so that no warp waits forever.
static const Case cases[] = {
    {"three warps at 64", 64, 4, {SYNC, SYNC, SYNC, SYNC}, {0, 0, 0, 60}},
    {"five warps at 64", 64, 6, {SYNC, SYNC, SYNC, SYNC, SYNC, SYNC}, {0, 0, 0, 0, 0, 60}},
    {"four warps at 96", 96, 6, {SYNC, SYNC, SYNC, SYNC, SYNC, SYNC}, {0, 0, 0, 0, 60, 60}},
    {"four warps at 64", 64, 4, {SYNC, SYNC, SYNC, SYNC}, {0, 0, 0, 0}},
    {"two arrive at 64, then one waits", 64, 4, {ARRIVE, ARRIVE, SYNC, SYNC}, {0, 0, 30, 60}},
    {"three arrive at 64, then one waits", 64, 6, {ARRIVE, ARRIVE, ARRIVE, SYNC, SYNC, SYNC}, {0, 0, 0, 30, 60, 60}},
    {"one waits at 64, then two arrive", 64, 4, {SYNC, ARRIVE, ARRIVE, SYNC}, {0, 30, 30, 60}},
    {"one waits at 32", 32, 2, {SYNC, SYNC}, {0, 30}},
};

int main() {
    const char *separator = "{\"rows\": [";
    for (const Case &one : cases) {
        int *how, *after;
        long long *left, found[8];
        CHECK(cudaMalloc(&how, sizeof one.how));
        CHECK(cudaMalloc(&after, sizeof one.after));
        CHECK(cudaMalloc(&left, sizeof found));
        CHECK(cudaMemcpy(how, one.how, sizeof one.how, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(after, one.after, sizeof one.after, cudaMemcpyHostToDevice));
        for (int turn = 0; turn < 3; ++turn) {
            leave<<<1, 32 * one.warps>>>(how, after, one.threads, left);
            CHECK(cudaMemcpy(found, left, sizeof found, cudaMemcpyDeviceToHost));
            printf("%s\n[\"%s\", %d, [", separator, one.name, one.threads);
            for (int w = 0; w < one.warps; ++w)
                printf("%s[\"%s\", %d, %.1f]", w ? ", " : "", one.how[w] == SYNC ? "sync" : "arrive", one.after[w], found[w] * 1e-3);
            printf("]]");
            separator = ",";
            fflush(stdout);
        }
    }
    printf("]}\n");
}
