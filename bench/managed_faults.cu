// How the driver serves faults of managed memory: what wakes it, its batches, what a block of 2 MiB costs, when accesses repeat, and eviction.
// Each case lets warps touch pages and prints the times (ns, %globaltimer, from the kernel's beginning) at which their accesses ended, so that
// a batch is a group of equal times.
//   nvcc -O2 -std=c++20 -cudart shared -arch=sm_90 -o managed_faults bench/managed_faults.cu
//   ./managed_faults [evict MIB] on a card, warpwright run --system h200x2 ./managed_faults on the model
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
typedef unsigned long long u64;
static const size_t BIG = 64 << 10, BLOCK = 2 << 20;

__device__ u64 now() { u64 t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }

// One thread touches a place every `step` bytes, and waits `idle` ns before each.
__global__ void chain(char *base, size_t step, int count, u64 idle, bool store, u64 *out) {
    for (int i = 0; i < count; i++) {
        u64 until = now() + idle;
        while (now() < until) {}
        u64 a = now();
        volatile int *at = (volatile int *)(base + i * step);
        if (store) { *at = 1; __threadfence(); }
        else if (*at == 12345678) __trap();
        out[i] = now() - a;
    }
}
// Every warp touches its own place, all lanes the same word; ends[w] is when.  Place of warp w: (w / share) * step + (w % share) * inner.
__global__ void crowd(char *base, size_t step, int share, size_t inner, bool store, u64 *begin, u64 *ends) {
    u64 a = now();
    int w = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    volatile int *at = (volatile int *)(base + (w / share) * step + (w % share) * inner);
    if (store) { *at = 1; __threadfence(); }
    else if (*at == 12345678) __trap();
    u64 b = now();
    if (threadIdx.x % 32 == 0) { atomicMin(begin, a); ends[w] = b; }
}
// A stream over n words; first[p] is when the first access to page p of `page` bytes ended, last[p] when the last did.
__global__ void stream(int *x, size_t n, size_t page, bool store, u64 *begin, u64 *first, u64 *last) {
    u64 a = now();
    if (threadIdx.x % 32 == 0) atomicMin(begin, a);
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
        if (store) { *(volatile int *)(x + i) = 1; __threadfence(); }
        else if (*(volatile int *)(x + i) == 12345678) __trap();
        u64 b = now();
        if (threadIdx.x % 32 == 0) { atomicMin(first + i * 4 / page, b); atomicMax(last + i * 4 / page, b); }
    }
}
__global__ void nothing() {}

static u64 *begin_at, *one, *two;
static const int MOST = 8192;
static void clear() { CHECK(cudaMemset(begin_at, 255, 8)); CHECK(cudaMemset(one, 255, 8 * MOST)); CHECK(cudaMemset(two, 0, 8 * MOST)); CHECK(cudaDeviceSynchronize()); }
static std::vector<u64> got(u64 *from, int count, bool relative) {
    std::vector<u64> v(count); u64 zero = 0;
    CHECK(cudaMemcpy(v.data(), from, 8 * count, cudaMemcpyDeviceToHost));
    if (relative) { CHECK(cudaMemcpy(&zero, begin_at, 8, cudaMemcpyDeviceToHost)); for (u64 &t : v) t -= zero; }
    return v;
}
static void list(const std::string &name, const std::vector<u64> &v) {
    printf("  \"%s\": [", name.c_str());
    for (size_t i = 0; i < v.size(); i++) printf("%s%llu", i ? ", " : "", v[i]);
    printf("],\n");
    fflush(stdout);
}
// Managed memory; the host fills `filled` bytes of each `step`.
static char *fresh(size_t bytes, size_t step, size_t filled) {
    char *p; CHECK(cudaMallocManaged(&p, bytes));
    if (filled) for (size_t at = 0; at < bytes; at += step) memset(p + at, 1, std::min(filled, bytes - at));
    return p;
}
static std::string named(const char *format, auto... parts) { char text[96]; snprintf(text, 96, format, parts...); return text; }

static void gaps() {
    for (int host = 0; host < 2; host++) for (u64 idle : {0ull, 1000ull, 2000ull, 3000ull, 5000ull, 10000ull, 20000ull, 50000ull, 200000ull, 1000000ull}) {
        const int n = 12;
        char *x = fresh(n * BLOCK, BLOCK, host ? BIG : 0);
        chain<<<1, 1>>>(x, BLOCK, n, idle, !host, one); CHECK(cudaDeviceSynchronize());
        list(named("gap_%s_%lluns", host ? "host" : "fresh", idle), got(one, n, false));
        cudaFree(x);
    }
}
static void crowds(const char *name, int blocks, int warps, size_t step, int share, size_t inner, bool host, size_t filled) {
    int total = blocks * warps;
    size_t bytes = std::max(((total + share - 1) / share) * step, BLOCK);
    for (int k = 0; k < 2; k++) {
        char *x = fresh(bytes, step, host ? filled : 0);
        clear();
        crowd<<<blocks, 32 * warps>>>(x, step, share, inner, !host, begin_at, one); CHECK(cudaDeviceSynchronize());
        list(named("%s_%s_%dx%d_%zuk_share%d_%zuk_%d", name, host ? "host" : "fresh", blocks, warps, step >> 10, share, inner >> 10, k), got(one, total, true));
        cudaFree(x);
    }
}
static void streams(size_t mib, int blocks, int threads, bool host) {
    size_t bytes = mib << 20;
    for (int k = 0; k < 2; k++) {
        char *x = fresh(bytes, bytes, host ? bytes : 0);
        clear();
        stream<<<blocks, threads>>>((int *)x, bytes / 4, BIG, !host, begin_at, one, two); CHECK(cudaDeviceSynchronize());
        std::string name = named("stream_%s_%zumib_%dx%d_%d", host ? "host" : "fresh", mib, blocks, threads, k);
        list(name + "_first", got(one, bytes / BIG, true));
        list(name + "_last", got(two, bytes / BIG, true));
        cudaFree(x);
    }
}
// Reads or stores of the host to pages that are on the device: ns of each access that took longer than 1 us, and the sum of all.
static void host_side(bool store) {
    const size_t bytes = 4 << 20;
    char *x = fresh(bytes, 1, 0);
    clear();
    stream<<<64, 256>>>((int *)x, bytes / 4, BIG, true, begin_at, one, two); CHECK(cudaDeviceSynchronize());
    std::vector<u64> places, times; u64 sum = 0;
    for (size_t at = 0; at < bytes; at += 4096) {
        auto a = std::chrono::steady_clock::now();
        if (store) *(volatile int *)(x + at) = 2; else (void)*(volatile int *)(x + at);
        u64 took = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - a).count();
        sum += took;
        if (took > 1000) { places.push_back(at >> 12); times.push_back(took); }
    }
    list(named("host_%s_4k_page", store ? "stores" : "reads"), places);
    list(named("host_%s_ns", store ? "stores" : "reads"), times);
    list(named("host_%s_sum_ns", store ? "stores" : "reads"), {sum});
    cudaFree(x);
}
// The device's memory is full but for a little: passes of stores and of loads over more than that, each 16 MiB by a launch of its own, and single touches.
static void evictions(size_t mib) {
    const size_t room = (size_t)96 << 20, bytes = mib << 20;
    size_t left, all; CHECK(cudaMemGetInfo(&left, &all));
    std::vector<void *> held;
    for (size_t size = (size_t)8 << 30; size >= BLOCK; size /= 2) while (true) {
        CHECK(cudaMemGetInfo(&left, &all));
        void *p;
        if (left < room + size || cudaMalloc(&p, size) != cudaSuccess) break;
        held.push_back(p);
    }
    cudaGetLastError();
    CHECK(cudaMemGetInfo(&left, &all));
    list("evict_room_bytes", {left});
    char *x = fresh(bytes, 1, 0);
    const size_t part = (size_t)16 << 20;
    auto began = std::chrono::steady_clock::now();
    for (int pass = 0; pass < 3; pass++) {
        std::vector<u64> ends;
        for (size_t at = 0; at < bytes && std::chrono::steady_clock::now() - began < std::chrono::seconds(20); at += part) {
            clear();
            stream<<<264, 512>>>((int *)(x + at), part / 4, part, pass != 1, begin_at, one, two); CHECK(cudaDeviceSynchronize());
            ends.push_back(got(two, 1, true)[0]);
        }
        list(named("evict_pass%d_16mib_ns", pass), ends);
    }
    int touched = std::min<int>(bytes / BLOCK, 128);
    chain<<<1, 1>>>(x, BLOCK, touched, 0, false, one); CHECK(cudaDeviceSynchronize());
    list("evict_chain", got(one, touched, false));
    for (void *p : held) cudaFree(p);
    cudaFree(x);
}

int main(int argc, char **argv) {
    cudaDeviceProp p; CHECK(cudaGetDeviceProperties(&p, 0));
    printf("{\n  \"device\": \"%s\",\n", p.name);
    CHECK(cudaMalloc(&begin_at, 8)); CHECK(cudaMalloc(&one, 8 * MOST)); CHECK(cudaMalloc(&two, 8 * MOST));
    if (argc > 2 && !strcmp(argv[1], "evict")) {
        evictions(atoi(argv[2]));
        printf("  \"end\": 0\n}\n");
        return 0;
    }
    char *warm = fresh(4 * BLOCK, BLOCK, BIG);
    chain<<<1, 1>>>(warm, BLOCK, 4, 0, false, one); CHECK(cudaDeviceSynchronize());
    gaps();
    for (int host = 0; host < 2; host++) {
        for (int blocks : {1, 2, 8, 32, 128}) {
            crowds("pages", blocks, 1, BIG, 1, 0, host, BIG);      // pages of 64 KiB, side by side
            crowds("blocks", blocks, 1, BLOCK, 1, 0, host, BIG);   // each in a block of its own
        }
        for (int warps : {2, 8, 16, 32}) crowds("one_sm", 1, warps, BLOCK, 1, 0, host, BIG);
        for (int blocks : {8, 128, 264}) {
            crowds("same_word", blocks, 1, BLOCK, blocks, 0, host, BIG);
            crowds("same_word", blocks, 8, BLOCK, 8 * blocks, 0, host, BIG);
            crowds("same_big_page", blocks, 1, BIG, 16, 4096, host, BIG);
        }
        for (int blocks : {1, 8, 264}) streams(4, blocks, blocks == 1 ? 32 : blocks == 8 ? 256 : 512, host);
        streams(16, 264, 512, host);
        streams(64, 264, 512, host);
    }
    host_side(false);
    host_side(true);
    printf("  \"end\": 0\n}\n");
}
