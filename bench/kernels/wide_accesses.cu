// Kernels that bench/wide_accesses.py measures accesses of 4, 8 and 16 bytes a lane with: each makes ``turns`` copies.
template <class T> __device__ void lines(int turns, const T *from, T *to) {
    int i = threadIdx.x;
    for (int k = 0; k < turns; k++) to[i + k * 32] = from[i + k * 32];
}

template <class T> __device__ void scattered(int turns, const int *places, const T *from, T *to) {
    int i = threadIdx.x;
    for (int k = 0; k < turns; k++) {
        int at = places[i + k * 32];
        to[at] = from[at];
    }
}

template <class T> __device__ void strided(int turns, const T *from, T *to) {
    int i = threadIdx.x;
    for (int k = 0; k < turns; k++) to[3 * (i + k * 32)] = from[3 * (i + k * 32)];
}

// Columns of a tile in shared memory whose rows are 17 elements apart.
template <class T> __device__ void turned(int turns, T *to) {
    __shared__ T tile[32 * 17];
    for (int i = threadIdx.x; i < 32 * 17; i += 32) tile[i] = to[i];
    __syncwarp();
    int at = threadIdx.x * 17;
    T sum = to[0];
    for (int k = 0; k < turns; k++) {
        T x = tile[at + (k & 15)];
        x.x += sum.y;
        tile[at + (k + 1 & 15)] = x;
        sum = x;
    }
    to[threadIdx.x] = sum;
}

__device__ void copy16(void *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}

__device__ void wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" {
__global__ void lines_4(int turns, const float *from, float *to) { lines(turns, from, to); }
__global__ void lines_8(int turns, const float2 *from, float2 *to) { lines(turns, from, to); }
__global__ void lines_16(int turns, const float4 *from, float4 *to) { lines(turns, from, to); }
__global__ void scattered_4(int turns, const int *p, const float *from, float *to) { scattered(turns, p, from, to); }
__global__ void scattered_8(int turns, const int *p, const float2 *from, float2 *to) { scattered(turns, p, from, to); }
__global__ void scattered_16(int turns, const int *p, const float4 *from, float4 *to) { scattered(turns, p, from, to); }
__global__ void strided_8(int turns, const float2 *from, float2 *to) { strided(turns, from, to); }
__global__ void strided_16(int turns, const float4 *from, float4 *to) { strided(turns, from, to); }
__global__ void turned_8(int turns, float2 *to) { turned(turns, to); }
__global__ void turned_16(int turns, float4 *to) { turned(turns, to); }

// A whole line of 512 bytes for each warp.
__global__ void async_lines(int turns, const float4 *from, float4 *to) {
    __shared__ float4 tile[32];
    for (int k = 0; k < turns; k++) copy16(&tile[threadIdx.x], from + k * 32 + threadIdx.x);
    wait();
    to[threadIdx.x] = tile[threadIdx.x];
}

// Blocks of 16 x 16 threads of which every row's first four fetch a tile's row.
__global__ void async_rows(int turns, int pitch, const float *from, float *to) {
    __shared__ float4 tile[16][4];
    int x = threadIdx.x, y = threadIdx.y;
    for (int k = 0; k < turns; k++)
        if (x < 4) copy16(&tile[y][x], from + y * pitch + k * 16 + x * 4);
    wait();
    if (x < 4) ((float4 *)to)[y * 4 + x] = tile[y][x];
}

__global__ void async_scattered(int turns, const int *places, const float4 *from, float4 *to) {
    __shared__ float4 tile[32];
    for (int k = 0; k < turns; k++) copy16(&tile[threadIdx.x ^ places[k] & 31], from + places[k * 32 + threadIdx.x]);
    wait();
    to[threadIdx.x] = tile[threadIdx.x];
}
}
