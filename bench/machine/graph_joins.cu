// Chains of forks and joins as a graph, whose kernels store when they begin and end: the time between a kernel and those that wait for it.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "clocks.cuh"
#include "forks.cuh"

__global__ void stamped(u64 *at, long long cycles) {
    at[0] = wall_ns();
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
    at[1] = wall_ns();
}

// `STAGES` times: a kernel, and `width` kernels that wait for it and are waited for by the next stage's; the first branch takes `longer` cycles more.
static const int STAGES = 16, WIDEST = 8, LAUNCHES = 25, WIDTHS[] = {1, 2, 3, 4, 6, 8};
static cudaStream_t streams[WIDEST];
static cudaEvent_t forked, joined[WIDEST];

static void submit(u64 *at, int width, long long cycles, long long longer) {
    for (int stage = 0; stage <= STAGES; stage++) {
        u64 *of_stage = at + stage * 2 * (WIDEST + 1);
        stamped<<<1, 32, 0, streams[0]>>>(of_stage, cycles);
        if (stage == STAGES)
            return;
        CHECK(cudaEventRecord(forked, streams[0]));
        for (int n = 0; n < width; n++) {
            if (n)
                CHECK(cudaStreamWaitEvent(streams[n], forked, 0));
            stamped<<<1, 32, 0, streams[n]>>>(of_stage + 2 * (n + 1), cycles + (n ? 0 : longer));
            if (n)
                CHECK(cudaEventRecord(joined[n], streams[n]));
        }
        for (int n = 1; n < width; n++)
            CHECK(cudaStreamWaitEvent(streams[0], joined[n], 0));
    }
}

int main() {
    create_branches(streams, forked, joined);
    const int words = (STAGES + 1) * 2 * (WIDEST + 1);
    std::vector<u64> times(words);
    u64 *at;
    CHECK(cudaMalloc(&at, words * sizeof(u64)));
    CHECK(cudaMemset(at, 0, words * sizeof(u64)));
    printf("{\"stages\": %d, \"launches\": %d, \"rows\": [", STAGES, LAUNCHES);
    bool separate = false;
    for (long long longer : {0LL, 8000LL})
        for (long long cycles : {0LL, 4000LL})
            for (int width : WIDTHS) {
                cudaGraphExec_t ready = graph_of(streams[0], [&] { submit(at, width, cycles, longer); });
                // Mean nanoseconds from the end of a stage's kernel to the beginning of the nth branch to begin, and from the end of the last branch to the next stage's kernel.
                double begins[WIDEST] = {}, join = 0;
                for (int launch = 0; launch < LAUNCHES; launch++) {
                    CHECK(cudaGraphLaunch(ready, streams[0]));
                    CHECK(cudaDeviceSynchronize());
                    CHECK(cudaMemcpy(times.data(), at, words * sizeof(u64), cudaMemcpyDeviceToHost));
                    if (launch < LAUNCHES / 5)
                        continue;
                    for (int stage = 0; stage < STAGES; stage++) {
                        u64 *own = &times[stage * 2 * (WIDEST + 1)], *next = own + 2 * (WIDEST + 1), last = 0;
                        std::vector<u64> begun;
                        for (int n = 1; n <= width; n++) {
                            begun.push_back(own[2 * n]);
                            last = std::max(last, own[2 * n + 1]);
                        }
                        std::sort(begun.begin(), begun.end());
                        for (int n = 0; n < width; n++)
                            begins[n] += double((long long)(begun[n] - own[1]));
                        join += double((long long)(next[0] - last));
                    }
                }
                const double count = (LAUNCHES - LAUNCHES / 5) * STAGES;
                printf("%s\n{\"width\": %d, \"cycles\": %lld, \"first_longer\": %lld, \"join_ns\": %.1f, \"begin_ns\": [", separate ? "," : "", width, cycles, longer, join / count);
                for (int n = 0; n < width; n++)
                    printf("%s%.1f", n ? ", " : "", begins[n] / count);
                printf("]}");
                separate = true;
                CHECK(cudaGraphExecDestroy(ready));
            }
    printf("\n]}\n");
    return 0;
}
