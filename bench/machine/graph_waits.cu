// How long a kernel waits for a graph that it fires, by its own clock: for one node, for two in a row, as a sibling, and for one graph after another.  Cycles, of five runs each.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.cuh"

__global__ void set(volatile int *word, int value) {
    *word = value;
    __threadfence();
}

__device__ long long wait_for(volatile int *word, int value) {
    long long begin = clock64();
    while (*word != value) {
    }
    return clock64() - begin;
}

// Two graphs at most: the second is fired when what the first writes has been seen.
__global__ void fire_and_wait(int *words, cudaGraphExec_t first, cudaGraphExec_t second, cudaStream_t how, long long *waited) {
    waited[0] = cudaGraphLaunch(first, how) == cudaSuccess ? wait_for(words, 1) : -1;
    waited[1] = 0;
    if (second) waited[1] = cudaGraphLaunch(second, how) == cudaSuccess ? wait_for(words + 1, 1) : -1;
}

static cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNode_t *after, void *function, void **arguments) {
    cudaKernelNodeParams node = {};
    node.func = function;
    node.gridDim = node.blockDim = dim3(1);
    node.kernelParams = arguments;
    cudaGraphNode_t made;
    CHECK(cudaGraphAddKernelNode(&made, graph, after, after ? 1 : 0, &node));
    return made;
}

// A graph for device launch, of so many nodes, of which the last writes 1 to a word.
static cudaGraphExec_t writes(int *word, int nodes, cudaStream_t stream) {
    cudaGraph_t graph;
    CHECK(cudaGraphCreate(&graph, 0));
    int *elsewhere = word + 8, one = 1;
    void *before[] = {&elsewhere, &one}, *last[] = {&word, &one};
    cudaGraphNode_t node;
    for (int i = 1; i < nodes; i++) node = add(graph, i > 1 ? &node : nullptr, (void *)set, before);
    add(graph, nodes > 1 ? &node : nullptr, (void *)set, last);
    cudaGraphExec_t made;
    CHECK(cudaGraphInstantiate(&made, graph, cudaGraphInstantiateFlagDeviceLaunch));
    CHECK(cudaGraphUpload(made, stream));
    return made;
}

int main() {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    int *words;
    long long *waited;
    CHECK(cudaMalloc(&words, 256));
    CHECK(cudaMalloc(&waited, 2 * sizeof *waited));
    cudaGraphExec_t one = writes(words, 1, stream), two = writes(words, 2, stream), other = writes(words + 1, 1, stream);
    struct { const char *name; cudaGraphExec_t first, second; cudaStream_t how; } cases[] = {
        {"one node", one, nullptr, cudaStreamGraphFireAndForget},
        {"two nodes", two, nullptr, cudaStreamGraphFireAndForget},
        {"sibling", one, nullptr, cudaStreamGraphFireAndForgetAsSibling},
        {"two graphs", one, other, cudaStreamGraphFireAndForget},
    };
    printf("{\"rows\": [");
    const char *separator = "";
    for (auto &kind : cases) {
        cudaGraph_t graph;
        CHECK(cudaGraphCreate(&graph, 0));
        void *arguments[] = {&words, &kind.first, &kind.second, &kind.how, &waited};
        add(graph, nullptr, (void *)fire_and_wait, arguments);
        cudaGraphExec_t launched;
        CHECK(cudaGraphInstantiate(&launched, graph, 0));
        printf("%s\n {\"what\": \"%s\", \"cycles\": [", separator, kind.name);
        for (int run = 0; run < 5; run++) {
            long long found[2];
            CHECK(cudaMemset(words, 0, 256));
            CHECK(cudaGraphLaunch(launched, stream));
            CHECK(cudaStreamSynchronize(stream));
            CHECK(cudaMemcpy(found, waited, sizeof found, cudaMemcpyDeviceToHost));
            printf("%s[%lld, %lld]", run ? ", " : "", found[0], found[1]);
        }
        printf("]}");
        separator = ",";
    }
    printf("\n]}\n");
    return 0;
}
