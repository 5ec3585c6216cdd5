// Time slices of processes that share a card without MPS: when each process's kernel runs, by the global timer, for small and large states of the SMs.
#include <cuda_runtime.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t error = (call);                                                      \
        if (error != cudaSuccess) {                                                      \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));               \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

typedef unsigned long long u64;
__device__ u64 now() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}
static const int MOST = 500;
// Runs for a time; its first thread notes every pause of more than 3 us: beginning, (last time before, first after)*, end.
__global__ void __launch_bounds__(1024) hold(u64 ns, u64 *log, int *count, float *out) {
    extern __shared__ float shared[];
    for (int i = threadIdx.x; i < 4096; i += blockDim.x)
        shared[i % 256] = i;
    u64 begin = now(), last = begin, t;
    int n = 0;
    bool first = blockIdx.x == 0 && threadIdx.x == 0;
    if (first)
        log[n++] = begin;
    float sum = threadIdx.x;
    do {
        t = now();
        if (first && t - last > 3000 && n < MOST - 2) {
            log[n++] = last;
            log[n++] = t;
        }
        last = t;
        sum = sum * 1.0001f + 1;
    } while (t - begin < ns);
    if (first) {
        log[n++] = t;
        *count = n;
    }
    if (sum == 12345.678f)
        out[0] = sum + shared[0];
}
struct Case {
    const char *name;
    int blocks, threads, shared;
};
static const Case CASES[] = {{"one warp", 1, 32, 1024},
                             {"a warp on each SM", 132, 32, 1024},
                             {"all threads", 264, 1024, 1024},
                             {"all threads and shared memory", 264, 1024, 100 << 10}};
static const int PROCESSES[] = {1, 2, 3};
int main() {
    volatile int *gate = (volatile int *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    u64 *logs = (u64 *)mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int *counts = (int *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    printf("{\"cases\": [");
    bool comma = false;
    int round = 0;
    for (const Case &one : CASES)
        for (int processes : PROCESSES) {
            round++;
            gate[0] = 0;
            for (int p = 0; p < processes; p++)
                if (!fork()) {
                    u64 *log;
                    int *count;
                    float *out;
                    CHECK(cudaFuncSetAttribute(hold, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
                    CHECK(cudaMalloc(&log, MOST * 8));
                    CHECK(cudaMalloc(&count, 4));
                    CHECK(cudaMalloc(&out, 4));
                    hold<<<1, 32, 1024>>>(1000, log, count, out);
                    CHECK(cudaDeviceSynchronize());
                    __sync_fetch_and_add((int *)gate, 1);
                    while (gate[0] < processes)
                        usleep(50);
                    hold<<<one.blocks, one.threads, one.shared>>>(40000000, log, count, out);
                    CHECK(cudaDeviceSynchronize());
                    CHECK(cudaMemcpy(counts + p, count, 4, cudaMemcpyDeviceToHost));
                    CHECK(cudaMemcpy(logs + p * MOST, log, MOST * 8, cudaMemcpyDeviceToHost));
                    _exit(0);
                }
            int status, failed = 0;
            for (int p = 0; p < processes; p++) {
                wait(&status);
                failed |= status;
            }
            if (failed) {
                fprintf(stderr, "%s, %d processes: failed\n", one.name, processes);
                continue;
            }
            u64 first = ~0ull;
            for (int p = 0; p < processes; p++)
                if (logs[p * MOST] < first)
                    first = logs[p * MOST];
            printf("%s\n{\"case\": \"%s\", \"processes\": %d, \"ns\": [", comma ? "," : "", one.name, processes);
            comma = true;
            for (int p = 0; p < processes; p++) {
                printf("%s[", p ? ", " : "");
                for (int n = 0; n < counts[p]; n++)
                    printf("%s%llu", n ? ", " : "", logs[p * MOST + n] - first);
                printf("]");
            }
            printf("]}");
            fflush(stdout);
        }
    printf("\n]}\n");
    return 0;
}
