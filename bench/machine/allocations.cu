// Symbols of several sizes, for the driver to place.
__device__ int word_a;
__device__ int word_b;
__device__ double numbers[8];
__device__ unsigned char odd[100];
__device__ int table[1024];
__device__ float grid_points[1 << 18];
__device__ float volume[3 << 19];
__constant__ int settings[16];
__constant__ float weights[1024];

extern "C" __global__ void uses_symbols(float* out) {
    unsigned i = threadIdx.x;
    out[i] = atomicAdd(&word_a, 1) + atomicAdd(&word_b, 2) + numbers[i & 7] + odd[i % 100] + table[i & 1023] + grid_points[i] + volume[i] + settings[i & 15] + weights[i & 1023];
    numbers[i & 7] = i;
    odd[i % 100] = i;
    table[i & 1023] = i;
    grid_points[i] = volume[i] = i;
}
