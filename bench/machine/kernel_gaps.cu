// What comes between a kernel and the next in a line: lines of 8 to 64 kernels of several lengths and grids, as a graph and in a stream.  Microseconds between events.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "forks.cuh"

__global__ void empty() {
}

__global__ void argument(long long) {
}

__global__ void spin(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
}

// The same in other code.
__global__ void other(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) __nanosleep(0);
}

enum Work { EMPTY, ARGUMENT, SPIN, BY_TURNS };
struct Kind {
    const char *name;
    Work work;
    int blocks, threads;
};
static const Kind KINDS[] = {{"empty", EMPTY, 1, 32},
                             {"argument", ARGUMENT, 1, 32},
                             {"spin", SPIN, 1, 32},
                             {"two kernels by turns", BY_TURNS, 1, 32},
                             {"empty on all SMs", EMPTY, 132, 32},
                             {"spin on all SMs", SPIN, 132, 32},
                             {"spin, 1056 blocks of 256", SPIN, 1056, 256}};
static const int LENGTHS[] = {8, 16, 32, 64}, TURNS = 7;
static const long long CYCLES[] = {0, 100, 200, 400, 600, 800, 1000, 1500, 2000, 3000, 4000, 8000}, GATE_CYCLES = 1000000;
static cudaStream_t stream;

static void submit(const Kind &kind, long long cycles, int number) {
    if (kind.work == EMPTY) empty<<<kind.blocks, kind.threads, 0, stream>>>();
    else if (kind.work == ARGUMENT) argument<<<kind.blocks, kind.threads, 0, stream>>>(cycles);
    else if (kind.work == BY_TURNS && number % 2) other<<<kind.blocks, kind.threads, 0, stream>>>(cycles);
    else spin<<<kind.blocks, kind.threads, 0, stream>>>(cycles);
}

// Of a line of `length` kernels, the median of some turns.  A kernel before it runs while the host submits the line.
static int line(const Kind &kind, long long cycles, int length, bool in_graph, float *us) {
    static cudaEvent_t begin, end;
    if (!begin) {
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
    }
    auto submit_line = [&] {
        for (int i = 0; i < length; i++) submit(kind, cycles, i);
    };
    cudaGraphExec_t made = in_graph ? graph_of(stream, submit_line) : nullptr;
    std::vector<float> took;
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK(cudaDeviceSynchronize());
        spin<<<1, 32, 0, stream>>>(GATE_CYCLES);
        CHECK(cudaEventRecord(begin, stream));
        if (in_graph) CHECK(cudaGraphLaunch(made, stream));
        else submit_line();
        CHECK(cudaEventRecord(end, stream));
        CHECK(cudaDeviceSynchronize());
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        took.push_back(1e3f * ms);
    }
    std::sort(took.begin(), took.end());
    *us = took[TURNS / 2];
    if (in_graph) CHECK(cudaGraphExecDestroy(made));
    return 0;
}

int main() {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    const char *before = "{\"rows\": [\n";
    for (const Kind &kind : KINDS)
        for (long long cycles : CYCLES) {
            if (cycles && kind.work < SPIN) continue;
            for (int in_graph = 0; in_graph < 2; in_graph++) {
                printf("%s{\"kernel\": \"%s\", \"cycles\": %lld, \"how\": \"%s\", \"us\": {", before, kind.name, cycles, in_graph ? "graph" : "stream");
                for (int length : LENGTHS) {
                    float us;
                    if (line(kind, cycles, length, in_graph, &us)) return 1;
                    printf("%s\"%d\": %.3f", length == LENGTHS[0] ? "" : ", ", length, us);
                }
                printf("}}");
                before = ",\n";
            }
        }
    printf("\n]}\n");
    return 0;
}
