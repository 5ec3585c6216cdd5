// Reads of memory that nothing wrote, and such as look so but are right.
#include "cases.h"
#include <cuda/ptx>
#include <cuda_pipeline.h>
namespace ptx = cuda::ptx;

template <typename T> T *fresh(size_t n) {
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    return p;
}

// ---- Faulty

__global__ void add_one(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x] + 1; }  //! never_written initcheck
CASE(never_written) { add_one<<<1, 32>>>(fresh<int>(32), zeros<int>(32)); }

__global__ void add_two(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x] + 2; }  //! last_word_unwritten initcheck
CASE(last_word_unwritten) {
    int *x = fresh<int>(64);
    cudaMemset(x, 0, 63 * sizeof(int));
    add_two<<<1, 64>>>(x, zeros<int>(64));
}

struct Particle {
    float x, y, z;
    int kind;
};
__global__ void place(Particle *p) {
    p[threadIdx.x].x = p[threadIdx.x].y = 1;
    p[threadIdx.x].kind = 2;
}
__global__ void energy(const Particle *p, float *e) {
    e[threadIdx.x] = p[threadIdx.x].x + p[threadIdx.x].z;  //! member_unwritten initcheck
}
CASE(member_unwritten) {
    Particle *p = fresh<Particle>(32);
    place<<<1, 32>>>(p);
    energy<<<1, 32>>>(p, zeros<float>(32));
}

__global__ void three_of_four(float4 *v) { v[threadIdx.x].x = v[threadIdx.x].y = v[threadIdx.x].z = 1; }
__global__ void all_four(const float4 *v, float *y) {
    float4 one = v[threadIdx.x];  //! vector_part_unwritten initcheck
    y[threadIdx.x] = one.x + one.y + one.z + one.w;
}
CASE(vector_part_unwritten) {
    float4 *v = fresh<float4>(32);
    three_of_four<<<1, 32>>>(v);
    all_four<<<1, 32>>>(v, zeros<float>(32));
}

__global__ void count_up(unsigned *count) { atomicAdd(count, 1u); }  //! counter_unwritten initcheck
CASE(counter_unwritten) { count_up<<<1, 32>>>(fresh<unsigned>(1)); }

CASE(copied_to_host) {
    int host[32];
    int *x = fresh<int>(32);
    cudaMemset(x, 0, 64);
    cudaMemcpy(host, x, 128, cudaMemcpyDeviceToHost);  //! copied_to_host initcheck
}

CASE(copied_to_host_whole) {
    int host[32];
    int *x = fresh<int>(32);
    cudaMemcpy(host, x, 128, cudaMemcpyDeviceToHost);  //! copied_to_host_whole initcheck
}

__global__ void read_copy(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }  //! copied_on_device initcheck
CASE(copied_on_device) {
    int *x = fresh<int>(32), *copy = fresh<int>(32);
    cudaMemcpy(copy, x, 128, cudaMemcpyDeviceToDevice);  //? copied_on_device
    read_copy<<<1, 32>>>(copy, zeros<int>(32));
}

__global__ void half_filled(int *y) {
    __shared__ int s[64];
    if (threadIdx.x < 60) s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];  //! shared_unwritten initcheck
}
CASE(shared_unwritten) { half_filled<<<1, 64>>>(zeros<int>(64)); }

__global__ void shared_counter(int *y) {
    extern __shared__ int total[];
    atomicAdd(total, threadIdx.x);  //! shared_counter_unwritten initcheck
    __syncthreads();
    if (threadIdx.x == 0) *y = *total;  //? shared_counter_unwritten
}
CASE(shared_counter_unwritten) { shared_counter<<<1, 64, 4>>>(zeros<int>(1)); }

__global__ void heap_unwritten(int *y) {
    int *p = (int *)malloc(64);
    p[0] = 1;
    y[0] = p[0] + p[y[1] + 5];  //! heap_unwritten initcheck
    free(p);
}
CASE(heap_unwritten) { heap_unwritten<<<1, 1>>>(zeros<int>(2)); }

__global__ void fill_pool(int *x) { x[threadIdx.x] = 3; }
__global__ void read_pool(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }  //! pool_memory_again initcheck
CASE(pool_memory_again) {
    int *x, *again;
    cudaMallocAsync(&x, 4096, 0);
    fill_pool<<<1, 32>>>(x);
    cudaFreeAsync(x, 0);
    cudaMallocAsync(&again, 4096, 0);
    read_pool<<<1, 32>>>(again, zeros<int>(32));
    cudaFreeAsync(again, 0);
}

__global__ void stage(const int *x, int *y) {
    __shared__ int s[32];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);  //! async_copy_unwritten initcheck
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[threadIdx.x] = s[threadIdx.x];
}
CASE(async_copy_unwritten) { stage<<<1, 32>>>(fresh<int>(32), zeros<int>(32)); }

__global__ void bulk_out(int *y) {
    __shared__ alignas(128) int s[64];
    if (threadIdx.x < 48) s[threadIdx.x] = 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y, s, 256);  //! bulk_store_unwritten initcheck
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
    }
}
CASE(bulk_store_unwritten) { bulk_out<<<1, 64>>>(zeros<int>(64)); }

__global__ void bulk_in(const int *x, int *y) {
    __shared__ alignas(128) int s[64];
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&bar, 1);
        ptx::fence_proxy_async(ptx::space_shared);
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, 256);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x, 256, &bar);  //! bulk_load_unwritten initcheck
    }
    __syncthreads();
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    y[threadIdx.x] = s[threadIdx.x];
}
CASE(bulk_load_unwritten) { bulk_in<<<1, 64>>>(fresh<int>(64), zeros<int>(64)); }

__global__ void fetched(cudaTextureObject_t texture, float *y) {
    y[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x);  //! texture_unwritten initcheck
}
cudaTextureObject_t linear_texture(float *x, size_t bytes) {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = x;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = bytes;
    cudaTextureDesc how = {};
    cudaTextureObject_t texture;
    cudaCreateTextureObject(&texture, &resource, &how, nullptr);
    return texture;
}
CASE(texture_unwritten) { fetched<<<1, 32>>>(linear_texture(fresh<float>(32), 128), zeros<float>(32)); }

// ---- Right

struct Padded {
    char tag;
    int value;
};
__global__ void fill_padded(Padded *p) {
    p[threadIdx.x].tag = 1;
    p[threadIdx.x].value = threadIdx.x;
}
__global__ void copy_padded(const Padded *from, Padded *to) { to[threadIdx.x] = from[threadIdx.x]; }
CASE(padding) {
    Padded *p = fresh<Padded>(32), *q = fresh<Padded>(32);
    fill_padded<<<1, 32>>>(p);
    copy_padded<<<1, 32>>>(p, q);
    EXPECT(element(q, 31).value == 31);
}
struct alignas(8) Aligned {
    int value;
    short tag;
};
__global__ void fill_aligned(Aligned *p) {
    p[threadIdx.x].tag = 1;
    p[threadIdx.x].value = threadIdx.x;
}
__global__ void copy_aligned(const Aligned *from, Aligned *to) {
    *(unsigned long long *)&to[threadIdx.x] = *(const unsigned long long *)&from[threadIdx.x];
}
CASE(padding_in_wide_copy) {
    Aligned *p = fresh<Aligned>(32), *q = fresh<Aligned>(32);
    fill_aligned<<<1, 32>>>(p);
    copy_aligned<<<1, 32>>>(p, q);
    EXPECT(element(q, 31).value == 31);
}
__device__ int zero_at_load[32];
__device__ int set_at_load[4] = {1, 2, 3, 4};
__global__ void read_symbols(int *y) { y[threadIdx.x] = zero_at_load[threadIdx.x] + set_at_load[threadIdx.x & 3]; }
CASE(symbols) {
    int *y = fresh<int>(32);
    read_symbols<<<1, 32>>>(y);
    EXPECT(element(y, 31) == 4);
}
__global__ void written_before(int *x, int *y) {
    x[threadIdx.x] = 4;
    y[threadIdx.x] = x[threadIdx.x] + 1;
}
CASE(written_in_kernel) {
    int *x = fresh<int>(32), *y = fresh<int>(32);
    written_before<<<1, 32>>>(x, y);
    add_one<<<1, 32>>>(y, x);
    EXPECT(element(x, 0) == 6);
}
__global__ void guarded_tail(const int *x, int *y, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t < n ? x[t] : 0;
    __syncthreads();
    if (t < n) y[t] = s[63 - t] + s[t];
}
CASE(tail_is_guarded) {
    int *x = fresh<int>(64), *y = fresh<int>(64);
    cudaMemset(x, 0, 50 * 4);
    guarded_tail<<<1, 64>>>(x, y, 50);
    EXPECT(element(y, 49) == 0);
}
CASE(pitched_rows) {
    size_t pitch;
    int *x, host[7 * 25] = {}, back[7 * 25];
    cudaMallocPitch(&x, &pitch, 100, 7);
    cudaMemcpy2D(x, pitch, host, 100, 100, 7, cudaMemcpyHostToDevice);
    cudaMemcpy2D(back, 100, x, pitch, 100, 7, cudaMemcpyDeviceToHost);
}
CASE(bulk_store_writes) {
    int *x = fresh<int>(64), *y = fresh<int>(64);
    cudaMemset(x, 1, 256);
    bulk_in<<<1, 64>>>(x, y);
    add_one<<<1, 32>>>(y, x);
    EXPECT(element(x, 5) == 0x01010102);
}
CASE(texture_written) {
    float *x = fresh<float>(32), *y = fresh<float>(32);
    cudaMemset(x, 0, 128);
    fetched<<<1, 32>>>(linear_texture(x, 128), y);
    EXPECT(element(y, 31) == 0);
}
__global__ void paint(cudaSurfaceObject_t surface) { surf1Dwrite((int)threadIdx.x, surface, threadIdx.x * 4); }
__global__ void look(cudaSurfaceObject_t surface, int *y) { surf1Dread(&y[threadIdx.x], surface, threadIdx.x * 4); }
CASE(surface_written) {
    cudaArray_t array;
    auto format = cudaCreateChannelDesc<int>();
    cudaMallocArray(&array, &format, 32, 0, cudaArraySurfaceLoadStore);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    cudaCreateSurfaceObject(&surface, &resource);
    int *y = fresh<int>(32);
    paint<<<1, 32>>>(surface);
    look<<<1, 32>>>(surface, y);
    EXPECT(element(y, 31) == 31);
}
CASE(written_by_host) {
    int *managed, *mapped, *y = fresh<int>(32);
    cudaMallocManaged(&managed, 128);
    for (int i = 0; i < 32; i++) managed[i] = i;
    add_one<<<1, 32>>>(managed, y);
    cudaDeviceSynchronize();
    cudaHostAlloc(&mapped, 128, cudaHostAllocMapped);
    for (int i = 0; i < 32; i++) mapped[i] = i;
    add_one<<<1, 32>>>(mapped, y);
    EXPECT(element(y, 31) == 32);
}
CASE(set_by_graph) {
    int *x = fresh<int>(32), *y = fresh<int>(32);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(x, 0, 128, stream);
    add_one<<<1, 32, 0, stream>>>(x, y);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphExec_t exec;
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, stream);
    cudaStreamSynchronize(stream);
    EXPECT(element(y, 31) == 1);
}
__global__ void scan_reads_more(const int *x, int *y, int n) {
    __shared__ int s[128];
    int t = threadIdx.x;
    if (t < n) s[t] = x[t];
    __syncthreads();
    int v = s[t];
    if (t >= n) v = 0;
    for (int k = 1; k < 32; k *= 2) {
        int left = __shfl_up_sync(~0u, v, k);
        if (t % 32 >= k) v += left;
    }
    if (t < n) y[t] = v;
}
CASE(shared_read_and_dropped) {
    int *y = fresh<int>(128);
    scan_reads_more<<<1, 128>>>(counted<int>(128), y, 50);
    EXPECT(element(y, 31) == 31 * 16);
}
