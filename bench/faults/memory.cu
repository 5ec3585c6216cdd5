// Accesses outside of allocations, misaligned, after free; the device's heap; calls that fail.
#include "cases.h"
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/ptx>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
namespace ptx = cuda::ptx;

// ---- Faulty: global memory

__global__ void fill_bytes(char *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) x[i] = 1;  //! one_byte_behind memcheck
}
CASE(one_byte_behind) { fill_bytes<<<1, 128>>>(zeros<char>(100), 100); }

__global__ void left_neighbour(const int *x, int *y) {
    int i = threadIdx.x;
    y[i] = x[i - 1] + x[i];  //! one_word_before memcheck
}
CASE(one_word_before) { left_neighbour<<<1, 32>>>(zeros<int>(32), zeros<int>(32)); }

__global__ void odd_short(char *x) { *(short *)(x + 2 * threadIdx.x + 1) = 7; }  //! misaligned_2 memcheck
CASE(misaligned_2) { odd_short<<<1, 8>>>(zeros<char>(64)); }

__global__ void skewed_float(char *x) {
    float *where = (float *)(x + 6);
    *where = 1.5f;  //! misaligned_4 memcheck
}
CASE(misaligned_4) { skewed_float<<<1, 1>>>(zeros<char>(64)); }

__global__ void skewed_double(const float *x, double *y) {
    y[threadIdx.x] = *(const double *)(x + threadIdx.x);  //! misaligned_8 memcheck
}
CASE(misaligned_8) { skewed_double<<<1, 4>>>(zeros<float>(64), zeros<double>(4)); }

__global__ void skewed_vector(const int2 *x, int4 *y) {
    y[threadIdx.x] = *(const int4 *)(x + 1);  //! misaligned_16 memcheck
}
CASE(misaligned_16) { skewed_vector<<<1, 2>>>(zeros<int2>(64), zeros<int4>(4)); }

__global__ void sum_vectors(const float4 *x, float *y, int n) {
    int i = threadIdx.x;
    if (4 * i < n) {
        float4 v = x[i];  //! vector_half_outside memcheck
        y[i] = v.x + v.y + v.z + v.w;
    }
}
CASE(vector_half_outside) { sum_vectors<<<1, 32>>>((float4 *)zeros<float>(26), zeros<float>(32), 26); }

__global__ void bins(const int *x, unsigned *histogram) {
    atomicAdd(&histogram[x[threadIdx.x]], 1u);  //! atomic_outside memcheck
}
CASE(atomic_outside) { bins<<<1, 64>>>(counted<int>(64), zeros<unsigned>(63)); }

__global__ void skewed_atomic(unsigned *x) {
    atomicMax((unsigned long long *)(x + 1), 5ull);  //! atomic_misaligned memcheck
}
CASE(atomic_misaligned) { skewed_atomic<<<1, 1>>>(zeros<unsigned>(8)); }

__global__ void stage_async(const float4 *x, float *y, int n) {
    __shared__ float4 s[32];
    int i = threadIdx.x;
    __pipeline_memcpy_async(&s[i], &x[i], sizeof(float4));  //! async_copy_outside memcheck
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[i] = s[i].x;
}
CASE(async_copy_outside) { stage_async<<<1, 32>>>(zeros<float4>(31), zeros<float>(32), 31); }

__global__ void stage_bulk(const int *x, int *y, int bytes) {
    __shared__ alignas(128) int s[256];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_proxy_async(ptx::space_shared);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, bytes);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, bytes, &bar);  //! bulk_copy_outside memcheck
    }
    __syncthreads();
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    if (threadIdx.x < bytes / 4) y[threadIdx.x] = s[threadIdx.x];
}
CASE(bulk_copy_outside) { stage_bulk<<<1, 256>>>(zeros<int>(200), zeros<int>(256), 1024); }

__global__ void touch(int *x) { x[threadIdx.x] += 1; }  //! after_free memcheck
CASE(after_free) {
    int *x = zeros<int>(32), *kept = zeros<int>(32);
    touch<<<1, 32>>>(kept);
    cudaFree(x);
    touch<<<1, 32>>>(x);
}

__global__ void touch_streamed(int *x) { x[threadIdx.x] = 1; }  //! after_stream_free memcheck
CASE(after_stream_free) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    int *x;
    cudaMallocAsync(&x, 4096, stream);
    touch_streamed<<<1, 32, 0, stream>>>(x);
    cudaFreeAsync(x, stream);
    touch_streamed<<<1, 32, 0, stream>>>(x);
    cudaStreamSynchronize(stream);
}

__global__ void touch_pooled(int *x) { x[threadIdx.x] = 1; }  //! after_pool_free memcheck
CASE(after_pool_free) {
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t pool;
    cudaMemPoolCreate(&pool, &props);
    int *x;
    cudaMallocFromPoolAsync(&x, 4096, pool, 0);
    cudaFreeAsync(x, 0);
    cudaDeviceSynchronize();
    touch_pooled<<<1, 32>>>(x);
}

__global__ void touch_managed(int *x) { x[threadIdx.x] = 1; }  //! managed_after_free memcheck
CASE(managed_after_free) {
    int *x;
    cudaMallocManaged(&x, 4096);
    touch_managed<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    cudaFree(x);
    touch_managed<<<1, 32>>>(x);
}

struct Node {
    int value;
    Node *next;
};
__global__ void second_value(const Node *list, int *y) { *y = list->next->value; }  //! null_pointer memcheck
CASE(null_pointer) { second_value<<<1, 1>>>(zeros<Node>(1), zeros<int>(1)); }

__global__ void shared_offset(int *y) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    const int *where = (const int *)__cvta_generic_to_shared(s);
    y[threadIdx.x] = where[threadIdx.x ^ 1];  //! wrong_space memcheck
}
CASE(wrong_space) { shared_offset<<<1, 32>>>(zeros<int>(32)); }

__global__ void touch_host(int *x) { x[threadIdx.x] = 1; }  //! host_pointer memcheck
CASE(host_pointer) { touch_host<<<1, 32>>>((int *)0x5ca1ab1e0000); }

// ---- Faulty: shared, local and constant memory

__global__ void shared_shift(int *y) {
    __shared__ int s[64];
    s[threadIdx.x + 1] = threadIdx.x;  //! shared_behind memcheck
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}
CASE(shared_behind) { shared_shift<<<1, 64>>>(zeros<int>(64)); }

__global__ void dynamic_tile(float *y) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = threadIdx.x;  //! dynamic_too_small memcheck
    __syncthreads();
    y[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
CASE(dynamic_too_small) { dynamic_tile<<<1, 256, 255 * sizeof(float)>>>(zeros<float>(256)); }

__global__ void shared_byte(char *y, int at) {
    __shared__ char s[48];
    for (int i = threadIdx.x; i < 48; i += 32) s[i] = i;
    __syncthreads();
    y[threadIdx.x] = s[at + threadIdx.x];  //! shared_one_byte memcheck
}
CASE(shared_one_byte) { shared_byte<<<1, 32>>>(zeros<char>(32), 17); }

__global__ void shared_skewed(float *y, int at) {
    __shared__ float s[64];
    s[threadIdx.x] = s[threadIdx.x + 32] = threadIdx.x;
    __syncthreads();
    float2 v = *(float2 *)&s[2 * threadIdx.x + at];  //! shared_misaligned memcheck
    y[threadIdx.x] = v.x + v.y;
}
CASE(shared_misaligned) { shared_skewed<<<1, 16>>>(zeros<float>(32), 1); }

__global__ void local_table(int *y, int at) {
    int table[16];
    for (int i = 0; i < 16; i++) table[i] = i * y[0];
    table[at] = 3;  //! local_outside memcheck
    y[1] = table[at & 15];
}
CASE(local_outside) { local_table<<<1, 1>>>(zeros<int>(2), 1 << 22); }

__device__ __noinline__ int deeper(int n, int *y) {
    int room[256];
    for (int i = 0; i < 256; i++) room[i] = n + i;  //! stack_overrun memcheck
    y[1] = n;
    if (n > 0) room[n & 255] += deeper(n - 1, y);  //? stack_overrun
    return room[(n * 7) & 255];
}
__global__ void recursion(int *y, int n) { y[0] = deeper(n, y); }
CASE(stack_overrun) { recursion<<<1, 1>>>(zeros<int>(2), 100); }

__constant__ int coefficients[16];
__global__ void filter(int *y, int at) {
    y[threadIdx.x] = coefficients[at * (threadIdx.x + 1)];  //! constant_outside memcheck
}
CASE(constant_outside) { filter<<<1, 32>>>(zeros<int>(32), 1000); }

__global__ void load_matrix(unsigned *y) {
    __shared__ alignas(16) unsigned s[32];
    s[threadIdx.x] = threadIdx.x;
    __syncwarp();
    unsigned where = __cvta_generic_to_shared(s) + 16 * (threadIdx.x & 7) + (threadIdx.x == 3 ? 8 : 0), v;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(where) : "memory");  //! ldmatrix_misaligned memcheck
    y[threadIdx.x] = v;
}
CASE(ldmatrix_misaligned) { load_matrix<<<1, 32>>>(zeros<unsigned>(32)); }

__global__ void __cluster_dims__(2) neighbour_block(int *y, int at) {
    __shared__ int s[64];
    auto cluster = cg::this_cluster();
    s[threadIdx.x] = threadIdx.x;
    cluster.sync();
    int *theirs = cluster.map_shared_rank(s, cluster.block_rank() ^ 1);
    y[blockIdx.x * 64 + threadIdx.x] = theirs[threadIdx.x + at];  //! cluster_outside memcheck
    cluster.sync();
}
CASE(cluster_outside) { neighbour_block<<<2, 64>>>(zeros<int>(128), 4096); }

// ---- Faulty: the device's heap

__global__ void heap_overrun(int *y) {
    char *p = (char *)malloc(24);
    for (int i = 0; i <= 24; i++) p[i] = i;  //! heap_overrun memcheck
    y[0] = p[3];
    free(p);
}
CASE(heap_overrun) { heap_overrun<<<1, 1>>>(zeros<int>(1)); }

__global__ void heap_after_free(int *y) {
    int *p = (int *)malloc(64);
    p[3] = y[0];
    free(p);
    y[0] = *(volatile int *)&p[3];  //! heap_after_free memcheck
}
CASE(heap_after_free) { heap_after_free<<<1, 1>>>(zeros<int>(1)); }

__global__ void heap_double_free(int *y) {
    int *p = (int *)malloc(64);
    p[0] = y[0];
    y[0] = p[0] + 1;
    free(p);
    if (y[0] == 1) free(p);  //! heap_double_free memcheck
}
CASE(heap_double_free) { heap_double_free<<<1, 1>>>(zeros<int>(1)); }

__global__ void heap_wrong_free(int *y) {
    int *p = (int *)malloc(64);
    p[0] = y[0];
    y[0] = p[0] + 1;
    free(p + y[0]);  //! heap_wrong_free memcheck
}
CASE(heap_wrong_free) { heap_wrong_free<<<1, 1>>>(zeros<int>(1)); }

__global__ void heap_leak(int **y) {
    int *p = (int *)malloc(64 + threadIdx.x);  //! heap_leak leakcheck
    p[0] = 5;
    y[threadIdx.x] = p;
}
CASE(heap_leak) {
    int **y = zeros<int *>(4);
    heap_leak<<<1, 4>>>(y);
    cudaFree(y);
}

// ---- Faulty: textures, copies, calls

__global__ void paint(cudaSurfaceObject_t surface, int width) {
    surf2Dwrite(1.0f, surface, (threadIdx.x + 1) * 4, 0);  //! surface_outside memcheck
}
CASE(surface_outside) {
    cudaArray_t array;
    auto format = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &format, 32, 8, cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    paint<<<1, 32>>>(surface, 32);
}

CASE(copy_outside) {
    char host[128] = {};
    char *x = zeros<char>(100);
    cudaMemcpy(x + 1, host, 100, cudaMemcpyHostToDevice);  //! copy_outside memcheck
}
CASE(copy_async_outside) {
    char *x = zeros<char>(100), *y = zeros<char>(4096);
    cudaMemcpyAsync(y, x, 600, cudaMemcpyDeviceToDevice, 0);  //! copy_async_outside memcheck
}
CASE(copy_2d_outside) {
    static char host[64 * 64];
    char *x = zeros<char>(64 * 60);
    cudaMemcpy2D(x, 64, host, 64, 60, 61, cudaMemcpyHostToDevice);  //! copy_2d_outside memcheck
}
CASE(fill_outside) {
    char *x = zeros<char>(1000);
    cudaMemset(x + 500, 0, 501);  //! fill_outside memcheck
}
CASE(fill_async_outside) {
    char *x = zeros<char>(1000);
    cudaMemsetAsync(x, 0, 1 << 22, 0);  //! fill_async_outside memcheck
}
__device__ int table[32];
CASE(copy_symbol_outside) {
    int host[40] = {};
    cudaMemcpyToSymbol(table, host, sizeof host);  //! copy_symbol_outside memcheck
}
CASE(double_free) {
    char *x = zeros<char>(1000);
    cudaFree(x);
    cudaFree(x);  //! double_free memcheck
}
CASE(free_inside) {
    char *x = zeros<char>(1000);
    cudaFree(x + 256);  //! free_inside memcheck
}
CASE(too_many_threads) {
    touch<<<1, 2048>>>(zeros<int>(2048));  //! too_many_threads memcheck
}
CASE(too_much_shared) {
    dynamic_tile<<<1, 32, 100 << 10>>>(zeros<float>(32));  //! too_much_shared memcheck
}
CASE(wait_for_nothing) {
    cudaEvent_t begin, end;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    float ms;
    cudaEventElapsedTime(&ms, begin, end);  //! wait_for_nothing memcheck
}
__global__ void say(const char *const *texts) {
    printf("%s\n", texts[threadIdx.x]);  //! printf_bad_string memcheck
}
CASE(printf_bad_string) {
    char **texts = zeros<char *>(2);
    say<<<1, 1>>>(texts);
}
CASE(leak) {
    cudaFree(zeros<char>(64));
    char *x;
    cudaMalloc(&x, 1000);  //! leak leakcheck
    cudaMemset(x, 0, 1000);
}
CASE(leak_streamed) {
    char *x;
    cudaMallocAsync(&x, 1000, 0);  //! leak_streamed leakcheck
    cudaMemsetAsync(x, 0, 1000, 0);
}

// ---- Right

__global__ void whole(char *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = i;
}
CASE(to_the_last_byte) {
    char *x = zeros<char>(100);
    whole<<<1, 128>>>(x, 100);
    EXPECT(element(x, 99) == 99);
    cudaFree(x);
}
__global__ void middle(const int *centre, int *y) { y[threadIdx.x] = centre[(int)threadIdx.x - 16]; }
CASE(negative_index) {
    int *x = counted<int>(32), *y = zeros<int>(32);
    middle<<<1, 32>>>(x + 16, y);
    EXPECT(element(y, 5) == 5);
}
__global__ void guarded(const int *const *pointers, int *y) {
    const int *p = pointers[threadIdx.x];
    y[threadIdx.x] = p ? *p : -1;
}
CASE(guarded_pointer) {
    int *x = counted<int>(4), **pointers = zeros<int *>(32), *host[32] = {};
    host[3] = x + 2;
    cudaMemcpy(pointers, host, sizeof host, cudaMemcpyHostToDevice);
    int *y = zeros<int>(32);
    guarded<<<1, 32>>>(pointers, y);
    EXPECT(element(y, 3) == 2 && element(y, 4) == -1);
}
__global__ void stage_filled(const float4 *x, float *y, int n) {
    __shared__ float4 s[32];
    int i = threadIdx.x;
    unsigned to = __cvta_generic_to_shared(&s[i]), bytes = i < n ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(x + i), "r"(bytes) : "memory");
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[i] = s[i].w;
}
CASE(async_copy_filled) {
    float4 *x = (float4 *)counted<float>(80);
    float *y = zeros<float>(32);
    stage_filled<<<1, 32>>>(x, y, 20);
    EXPECT(element(y, 19) == 79 && element(y, 20) == 0);
}
CASE(bulk_to_the_end) {
    int *y = zeros<int>(256);
    stage_bulk<<<1, 256>>>(counted<int>(256), y, 1024);
    EXPECT(element(y, 255) == 255);
}
__global__ void prefetching(const int *x, int *y) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x + 100000));
    y[threadIdx.x] = x[threadIdx.x];
}
CASE(prefetch_far) { prefetching<<<1, 32>>>(counted<int>(32), zeros<int>(32)); }

struct __attribute__((packed)) Packed {
    char tag;
    int value;
    double weight;
};
__global__ void packed(const Packed *x, double *y) { y[threadIdx.x] = x[threadIdx.x].value * x[threadIdx.x].weight; }
CASE(packed_structs) {
    Packed host[32];
    for (int i = 0; i < 32; i++) host[i] = {1, i, 0.5};
    Packed *x = zeros<Packed>(32);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    double *y = zeros<double>(32);
    packed<<<1, 32>>>(x, y);
    EXPECT(element(y, 30) == 15);
}
CASE(pool_reuse) {
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    for (int turn = 0; turn < 8; turn++) {
        int *x, *y;
        cudaMallocAsync(&x, 4096, stream);
        touch_streamed<<<1, 32, 0, stream>>>(x);
        cudaFreeAsync(x, stream);
        cudaMallocAsync(&y, 4096 << (turn & 1), stream);
        touch_streamed<<<1, 32, 0, stream>>>(y);
        cudaFreeAsync(y, stream);
    }
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
}
CASE(free_behind_kernel) {
    int *x = zeros<int>(32);
    touch<<<1, 32>>>(x);
    cudaFree(x);  // waits for the kernel
    int *y = zeros<int>(32);
    touch<<<1, 32>>>(y);
    cudaFree(y);
}
__device__ int *kept_in_heap;
__global__ void heap_takes() {
    kept_in_heap = (int *)malloc(100);
    for (int i = 0; i < 25; i++) kept_in_heap[i] = i;
}
__global__ void heap_gives(int *y) {
    *y = kept_in_heap[24];
    free(kept_in_heap);
    free(nullptr);
}
CASE(heap_across_launches) {
    int *y = zeros<int>(1);
    heap_takes<<<1, 1>>>();
    heap_gives<<<1, 1>>>(y);
    EXPECT(element(y, 0) == 24);
    cudaFree(y);
}
__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__global__ void recursion_small(int *y) { *y = fibonacci(9); }
CASE(recursion_fits) {
    int *y = zeros<int>(1);
    recursion_small<<<1, 1>>>(y);
    EXPECT(element(y, 0) == 34);
}
__global__ void sampled(cudaTextureObject_t texture, float *y) {
    y[threadIdx.x] = tex2D<float>(texture, (int)threadIdx.x - 8 + 0.5f, -3.0f);
}
__global__ void painted_outside(cudaSurfaceObject_t surface) {
    surf2Dwrite(2.0f, surface, threadIdx.x * 4, 3, cudaBoundaryModeZero);
}
CASE(texture_clamps) {
    cudaArray_t array;
    auto format = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &format, 16, 4, cudaArraySurfaceLoadStore);
    float host[64];
    for (int i = 0; i < 64; i++) host[i] = i;
    cudaMemcpy2DToArray(array, 0, 0, host, 64, 64, 4, cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &resource, &how, nullptr);
    float *y = zeros<float>(32);
    sampled<<<1, 32>>>(texture, y);
    EXPECT(element(y, 0) == 0 && element(y, 31) == 15);
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    painted_outside<<<1, 32>>>(surface);
    cudaDestroySurfaceObject(surface);
    cudaDestroyTextureObject(texture);
    cudaFreeArray(array);
    cudaFree(y);
}
CASE(pitched_last_row) {
    size_t pitch;
    char *x, host[7 * 100] = {};
    cudaMallocPitch(&x, &pitch, 100, 7);
    cudaMemcpy2D(x, pitch, host, 100, 100, 7, cudaMemcpyHostToDevice);
    char *tight = zeros<char>(64 * 60 + 60);
    cudaMemcpy2D(tight, 64, x, pitch, 60, 7, cudaMemcpyDeviceToDevice);
    cudaFree(x);
    cudaFree(tight);
}
CASE(host_memory_mapped) {
    int *host, *managed, *seen;
    cudaHostAlloc(&host, 128, cudaHostAllocMapped);
    memset(host, 0, 128);
    cudaHostGetDevicePointer(&seen, host, 0);
    touch<<<1, 32>>>(seen);
    cudaMallocManaged(&managed, 128);
    memset(managed, 0, 128);
    touch<<<1, 32>>>(managed);
    cudaDeviceSynchronize();
    EXPECT(host[31] == 1 && managed[31] == 1);
    cudaFreeHost(host);
    cudaFree(managed);
}
CASE(cluster_inside) {
    int *y = zeros<int>(128);
    neighbour_block<<<2, 64>>>(y, 0);
    EXPECT(element(y, 100) == 36);
}
CASE(largest_shared) {
    cudaFuncSetAttribute(dynamic_tile, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10);
    float *y = zeros<float>(1024);
    dynamic_tile<<<1, 1024, 100 << 10>>>(y);
    EXPECT(element(y, 0) == 1023);
}
CASE(graph_memory) {
    cudaGraph_t graph;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    int *y = zeros<int>(32), *x;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&x, 128, stream);
    cudaMemsetAsync(x, 0, 128, stream);
    touch<<<1, 32, 0, stream>>>(x);
    cudaMemcpyAsync(y, x, 128, cudaMemcpyDeviceToDevice, stream);
    cudaFreeAsync(x, stream);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphExec_t exec;
    cudaGraphInstantiate(&exec, graph, 0);
    for (int turn = 0; turn < 3; turn++) cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    EXPECT(element(y, 31) == 1);
}
CASE(everything_freed) {  //= everything_freed leakcheck
    char *x, *managed, *host;
    cudaMallocAsync(&x, 1000, 0);
    cudaFreeAsync(x, 0);
    cudaMallocManaged(&managed, 1000);
    cudaMallocHost(&host, 1000);
    cudaFree(managed);
    cudaFreeHost(host);
    cudaFree(zeros<char>(1000));
    int *y = zeros<int>(1);
    heap_takes<<<1, 1>>>();
    heap_gives<<<1, 1>>>(y);
    cudaFree(y);
}
