// What faults and migration of managed memory take: first touches of pages by one thread (cycles of each) and by many blocks, and, by size,
// streams over memory that the host has filled, prefetches, mapped and mostly read memory (nanoseconds).
//   nvcc -O2 -std=c++17 -cudart shared -arch=sm_90 -o managed_pages bench/managed_pages.cu
//   ./managed_pages [LARGEST_MIB] on a card, warpwright run --system h200x2 ./managed_pages 4 on the model
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <algorithm>
#include <chrono>
#include <cuda_runtime.h>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)

// One thread loads one word of each of `count` places, `step` bytes apart; cycles of each.
__global__ void chain(const char *base, size_t step, int count, long long *cycles, int *sink) {
    int sum = 0;
    for (int i = 0; i < count; i++) {
        long long a = clock64();
        int v = *(volatile const int *)(base + i * step);
        if (v == 12345678) __trap();
        sum += v;
        cycles[i] = clock64() - a;
    }
    *sink = sum;
}
__global__ void chain_store(char *base, size_t step, int count, long long *cycles) {
    for (int i = 0; i < count; i++) {
        long long a = clock64();
        *(volatile int *)(base + i * step) = 1;
        __threadfence();
        cycles[i] = clock64() - a;
    }
}
// Every block's first thread touches one page.
__global__ void crowd(const char *base, size_t step, int *sink) {
    int v = *(volatile const int *)(base + blockIdx.x * step);
    if (v == 12345678) *sink = v;
}
__global__ void stream(const int *x, size_t n, int *sink) {
    int s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) s += x[i];
    if (s == 12345678) *sink = s;
}
__global__ void fill(int *x, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) x[i] = 1;
}
__global__ void spin(int *x) { *x = 1; }

static char *fresh(size_t bytes, bool host) { char *p; CHECK(cudaMallocManaged(&p, bytes)); if (host) memset(p, 1, bytes); return p; }
static float timed(cudaEvent_t a, cudaEvent_t b) { float ms; CHECK(cudaEventElapsedTime(&ms, a, b)); return ms * 1000; }
static void list(const char *name, const std::vector<long long> &v) {
    printf("  \"%s\": [", name);
    for (size_t i = 0; i < v.size(); i++) printf("%s%lld", i ? ", " : "", v[i]);
    printf("],\n");
}

int main(int argc, char **argv) {
    const size_t largest = argc > 1 ? atoi(argv[1]) : 256;
    cudaDeviceProp p; CHECK(cudaGetDeviceProperties(&p, 0));
    int concurrent, pageable, tables, clock_khz;
    cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0);
    cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, 0);
    cudaDeviceGetAttribute(&tables, cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0);
    cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0);
    int count = 0; cudaGetDeviceCount(&count);
    printf("{\n  \"device\": \"%s\", \"concurrent\": %d, \"pageable\": %d, \"host_page_tables\": %d, \"clock_khz\": %d, \"devices\": %d,\n", p.name, concurrent, pageable, tables, clock_khz, count);
    long long *cycles; int *sink;
    CHECK(cudaMalloc(&cycles, 8 * 8192)); CHECK(cudaMalloc(&sink, 4));
    spin<<<1, 1>>>(sink); CHECK(cudaDeviceSynchronize());
    cudaEvent_t a, b; cudaEventCreate(&a); cudaEventCreate(&b);
    const size_t steps[] = {4096, 65536, 1 << 20, 2 << 20};
    for (int host = 0; host < 2; host++) for (size_t step : steps) for (int store = 0; store < 2; store++) {
        int n = step <= 65536 ? 96 : 24;
        char *x = fresh(step * n, host);
        if (store) chain_store<<<1, 1>>>(x, step, n, cycles); else chain<<<1, 1>>>(x, step, n, cycles, sink);
        CHECK(cudaDeviceSynchronize());
        std::vector<long long> v(n);
        CHECK(cudaMemcpy(v.data(), cycles, 8 * n, cudaMemcpyDeviceToHost));
        char name[64]; snprintf(name, 64, "chain_%s_%s_%zuk", host ? "host" : "fresh", store ? "store" : "load", step >> 10);
        list(name, v);
        cudaFree(x);
    }
    for (size_t step : {(size_t)65536, (size_t)(2 << 20)}) for (int blocks : {1, 2, 4, 8, 16, 32, 64, 128}) {
        if (step * blocks > (512u << 20)) continue;
        std::vector<long long> v;
        for (int k = 0; k < 3; k++) {
            char *x = fresh(step * blocks, true);
            cudaEventRecord(a); crowd<<<blocks, 32>>>(x, step, sink); cudaEventRecord(b);
            CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));
            cudaFree(x);
        }
        char name[64]; snprintf(name, 64, "crowd_ns_%zuk_%d", step >> 10, blocks);
        list(name, v);
    }
    for (size_t mib : {1, 4, 16, 64, 256}) {
        if (mib > largest) continue;
        size_t bytes = mib << 20;
        std::vector<long long> v;
        for (int k = 0; k < 2; k++) {
            char *x = fresh(bytes, true);
            cudaEventRecord(a); stream<<<264, 512>>>((int *)x, bytes / 4, sink); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // faults from the host
            cudaEventRecord(a); stream<<<264, 512>>>((int *)x, bytes / 4, sink); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // resident
            auto t = std::chrono::steady_clock::now();
            volatile long long s = 0; for (size_t i = 0; i < bytes; i += 4096) s += x[i];
            v.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - t).count());  // host faults back
            cudaFree(x);
            x = fresh(bytes, false);
            cudaEventRecord(a); fill<<<264, 512>>>((int *)x, bytes / 4); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // first touch by the device
            cudaMemLocation place{};
            place.type = cudaMemLocationTypeHost;
            cudaEventRecord(a); CHECK(cudaMemPrefetchAsync(x, bytes, place, 0, 0)); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // prefetch to the host
            place.type = cudaMemLocationTypeDevice; place.id = 0;
            cudaEventRecord(a); CHECK(cudaMemPrefetchAsync(x, bytes, place, 0, 0)); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // prefetch to the device
            cudaFree(x);
            x = fresh(bytes, true);
            CHECK(cudaMemAdvise(x, bytes, cudaMemAdviseSetAccessedBy, place));
            cudaEventRecord(a); stream<<<264, 512>>>((int *)x, bytes / 4, sink); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // mapped
            cudaEventRecord(a); stream<<<264, 512>>>((int *)x, bytes / 4, sink); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // mapped again
            cudaFree(x);
            x = fresh(bytes, true);
            CHECK(cudaMemAdvise(x, bytes, cudaMemAdviseSetReadMostly, place));
            cudaEventRecord(a); stream<<<264, 512>>>((int *)x, bytes / 4, sink); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // read-mostly: copies
            cudaEventRecord(a); fill<<<264, 512>>>((int *)x, bytes / 4); cudaEventRecord(b); CHECK(cudaDeviceSynchronize());
            v.push_back((long long)(timed(a, b) * 1000));  // writes end them
            cudaFree(x);
        }
        // In this order: from the host, resident, the host reads it back, first touched by the device, prefetched to the host, to the device,
        // mapped, mapped again, mostly read, written after that.
        char name[64]; snprintf(name, 64, "stream_ns_%zumib", mib);
        list(name, v);
    }
    printf("  \"end\": 0\n}\n");
}
