// When kernels begin and end, by the global timer: forks and joins of streams and graphs by width, and a stream's gap by the number of waits and records in it.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "forks.cuh"

__device__ unsigned long long now() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
__global__ void spin(long long cycles, unsigned long long *times) {
    unsigned long long first = now();
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
    if (times && threadIdx.x == 0) {
        times[0] = first;
        times[1] = now();
    }
}
static const int MOST = 33, TIMES = 11;
static cudaStream_t streams[MOST];
static cudaEvent_t forked, joined[MOST];
static unsigned long long *times;
static void kernel(int stream, long long cycles, int place) { spin<<<1, 32, 0, streams[stream]>>>(cycles, times + 2 * place); }

static bool comma = false;
// Medians over repetitions of (begin, end) of each place, in ns after the end of place 0.
static void measure(const std::string &name, int places, const std::function<void()> &work) {
    std::vector<std::vector<double>> found(2 * places);
    for (int time = 0; time < TIMES; time++) {
        CHECK(cudaDeviceSynchronize());
        spin<<<1, 32, 0, streams[0]>>>(6000000, nullptr);
        work();
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        for (int n = 0; n < 2 * places; n++)
            found[n].push_back((double)times[n] - (double)times[1]);
    }
    printf("%s\n{\"case\": \"%s\", \"ns\": [", comma ? "," : "", name.c_str());
    comma = true;
    for (int n = 0; n < 2 * places; n++) {
        std::sort(found[n].begin(), found[n].end());
        printf("%s%.0f", n ? ", " : "", found[n][TIMES / 2]);
    }
    printf("]}");
}
// Place 0: the kernel before, 1..width: branches, width + 1: the joining kernel.
enum Join { NEVER, AT_ONCE, AT_LAST };  // when the first stream is told to wait for a branch: after it, or after all of them
static void join_branch(int n) {
    CHECK(cudaEventRecord(joined[n], streams[n]));
    CHECK(cudaStreamWaitEvent(streams[0], joined[n], 0));
}
static void fork(int width, long long cycles, Join join) {
    kernel(0, cycles, 0);
    CHECK(cudaEventRecord(forked, streams[0]));
    for (int n = 0; n < width; n++) {
        if (n)
            CHECK(cudaStreamWaitEvent(streams[n], forked, 0));
        kernel(n, cycles, 1 + n);
        if (n && join == AT_ONCE)
            join_branch(n);
    }
    for (int n = 1; n < width && join == AT_LAST; n++)
        join_branch(n);
    if (join != NEVER)
        kernel(0, cycles, 1 + width);
}
int main() {
    create_branches(streams, forked, joined);
    CHECK(cudaMallocManaged(&times, 2 * 80 * sizeof *times));
    CHECK(cudaDeviceSynchronize());
    printf("{\"cases\": [");
    for (long long cycles : {0LL, 4000LL, 20000LL})
        for (int width : {2, 3, 4, 5, 6, 8, 12, 16, 24, 32}) {
            std::string name = std::to_string(width) + ", " + std::to_string(cycles) + " cycles";
            measure("fork of " + name, width + 2, [&] { fork(width, cycles, AT_ONCE); });
            measure("fork without join of " + name, width + 1, [&] { fork(width, cycles, NEVER); });
            measure("fork and late join of " + name, width + 2, [&] { fork(width, cycles, AT_LAST); });
            cudaGraphExec_t ready = graph_of(streams[0], [&] { fork(width, cycles, AT_ONCE); });
            measure("graph fork of " + name, width + 2, [&] { CHECK(cudaGraphLaunch(ready, streams[0])); });
            CHECK(cudaGraphExecDestroy(ready));
        }
    for (int length : {2, 4, 8, 16, 32})
        for (long long cycles : {0LL, 4000LL, 20000LL}) {
            std::string name = std::to_string(length) + ", " + std::to_string(cycles) + " cycles";
            auto line = [&] { for (int n = 0; n < length; n++) kernel(0, cycles, n); };
            measure("line of " + name, length, line);
            cudaGraphExec_t ready = graph_of(streams[0], line);
            measure("graph line of " + name, length, [&] { CHECK(cudaGraphLaunch(ready, streams[0])); });
            CHECK(cudaGraphExecDestroy(ready));
        }
    // Waits for events that are complete by then: other streams' gates are short.
    for (int count : {0, 1, 2, 3, 4, 8, 16}) {
        measure("kernel, " + std::to_string(count) + " waits for ended work, kernel", 2, [&] {
            for (int n = 1; n <= count; n++) {
                spin<<<1, 32, 0, streams[n]>>>(400000, nullptr);
                CHECK(cudaEventRecord(joined[n], streams[n]));
            }
            kernel(0, 4000, 0);
            for (int n = 1; n <= count; n++)
                CHECK(cudaStreamWaitEvent(streams[0], joined[n], 0));
            kernel(0, 4000, 1);
        });
        measure("kernel, " + std::to_string(count) + " records, kernel", 2, [&] {
            kernel(0, 4000, 0);
            for (int n = 1; n <= count; n++)
                CHECK(cudaEventRecord(joined[n], streams[0]));
            kernel(0, 4000, 1);
        });
    }
    // A chain through streams: each waits for the one before.
    for (int length : {2, 4, 8, 16})
        measure("chain through " + std::to_string(length) + " streams", length, [&] {
            for (int n = 0; n < length; n++) {
                if (n)
                    CHECK(cudaStreamWaitEvent(streams[n], joined[n - 1], 0));
                kernel(n, 4000, n);
                CHECK(cudaEventRecord(joined[n], streams[n]));
            }
        });
    printf("\n]}\n");
    return 0;
}
