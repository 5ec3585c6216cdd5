// Shared by microbenchmarks of forks and joins: streams, events between them, and a graph of what is submitted to them.
#pragma once
#include "check.cuh"

// Creates a stream for each branch, the event of the fork, and the event at each branch's end.
template <int BRANCHES> void create_branches(cudaStream_t (&streams)[BRANCHES], cudaEvent_t &forked, cudaEvent_t (&joined)[BRANCHES]) {
    for (auto &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    for (auto &event : joined)
        CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
}

// A graph of what `submit` submits to `stream` and to those that it joins, uploaded to the card.
template <class Submit> cudaGraphExec_t graph_of(cudaStream_t stream, Submit submit) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    submit();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaGraphUpload(ready, stream));
    return ready;
}
