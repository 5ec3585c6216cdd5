// Task graphs and the same kernels in streams: straight lines, forks that join, and chains of forks.  Times of the host's clock and between events.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "forks.cuh"

__global__ void spin(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

// `stages` times: a kernel, `width` kernels that wait for it, and one more stage that joins them; width 1 is a straight line of `stages` kernels.
struct Shape {
    const char *name;
    int stages, width;
};
static const Shape SHAPES[] = {{"line of 1", 1, 1},       {"line of 2", 2, 1},      {"line of 4", 4, 1},       {"line of 8", 8, 1},
                               {"line of 16", 16, 1},     {"line of 32", 32, 1},    {"line of 64", 64, 1},     {"fork of 2", 1, 2},
                               {"fork of 4", 1, 4},       {"fork of 8", 1, 8},      {"fork of 16", 1, 16},     {"4 forks of 2", 4, 2},
                               {"4 forks of 4", 4, 4},    {"8 forks of 2", 8, 2},   {"8 forks of 4", 8, 4}};
static const int WIDEST = 16, TIMES = 9;
static cudaStream_t streams[WIDEST];
static cudaEvent_t forked, joined[WIDEST];

static int submit(const Shape &shape, long long cycles) {
    for (int stage = 0; stage < shape.stages; stage++) {
        spin<<<1, 32, 0, streams[0]>>>(cycles);
        if (shape.width == 1)
            continue;
        CHECK(cudaEventRecord(forked, streams[0]));
        for (int n = 0; n < shape.width; n++) {
            if (n)
                CHECK(cudaStreamWaitEvent(streams[n], forked, 0));
            spin<<<1, 32, 0, streams[n]>>>(cycles);
            if (n) {
                CHECK(cudaEventRecord(joined[n], streams[n]));
                CHECK(cudaStreamWaitEvent(streams[0], joined[n], 0));
            }
        }
    }
    if (shape.width > 1)
        spin<<<1, 32, 0, streams[0]>>>(cycles);
    return 0;
}

static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

template <class Work> static int measure(const char *how, cudaEvent_t begin, cudaEvent_t end, Work work) {
    using clock = std::chrono::steady_clock;
    std::vector<double> call, between;
    for (int time = 0; time < TIMES; time++) {
        CHECK(cudaDeviceSynchronize());
        // The device waits while the host submits, so that events bracket the work alone.
        spin<<<1, 32, 0, streams[0]>>>(1500000);
        CHECK(cudaEventRecord(begin, streams[0]));
        auto first = clock::now();
        if (work())
            return 1;
        auto last = clock::now();
        CHECK(cudaEventRecord(end, streams[0]));
        CHECK(cudaDeviceSynchronize());
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        call.push_back(1e6 * std::chrono::duration<double>(last - first).count());
        between.push_back(1e3 * ms);
    }
    printf("\"%s\": {\"call_us\": %.3f, \"device_us\": %.3f}", how, median(call), median(between));
    return 0;
}

int main() {
    cudaEvent_t begin, end;
    create_branches(streams, forked, joined);
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    printf("{\"shapes\": [");
    bool separate = false;
    for (long long cycles : {0LL, 4000LL})
        for (const Shape &shape : SHAPES) {
            cudaGraphExec_t ready = graph_of(streams[0], [&] { submit(shape, cycles); });
            printf("%s\n{\"shape\": \"%s\", \"stages\": %d, \"width\": %d, \"spin_cycles\": %lld, ", separate ? "," : "", shape.name, shape.stages, shape.width, cycles);
            separate = true;
            if (measure("graph", begin, end, [&] { return cudaGraphLaunch(ready, streams[0]) != cudaSuccess; }))
                return 1;
            printf(", ");
            if (measure("streams", begin, end, [&] { return submit(shape, cycles); }))
                return 1;
            printf("}");
            CHECK(cudaGraphExecDestroy(ready));
        }
    printf("\n]}\n");
    return 0;
}
