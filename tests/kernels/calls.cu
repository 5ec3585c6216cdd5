// Calls and state: recursion, non-inlined functions, function pointers, local arrays, constant memory, device globals.
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void recursion_fibonacci(int *dst, const int *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    dst[i] = fibonacci(src[i]);
}

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion_ackermann(int *dst, const int *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    dst[i] = ackermann(src[i] & 1, src[i] >> 1);
}

__device__ __noinline__ void quicksort(int *values, int low, int high) {
    while (low < high) {
        int pivot = values[(low + high) >> 1], left = low, right = high;
        while (left <= right) {
            while (values[left] < pivot) ++left;
            while (values[right] > pivot) --right;
            if (left <= right) {
                int swap = values[left];
                values[left++] = values[right];
                values[right--] = swap;
            }
        }
        if (low < right) quicksort(values, low, right);
        low = left;
    }
}

extern "C" __global__ void recursion_quicksort(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int values[16];
    for (int k = 0; k < n; ++k) values[k] = src[i * n + k];
    quicksort(values, 0, n - 1);
    for (int k = 0; k < n; ++k) dst[i * n + k] = values[k];
}

__device__ __noinline__ float horner(float x, const float *coefficients, int n) {
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum = __fadd_rn(__fmul_rn(sum, x), coefficients[k]);
    return sum;
}

extern "C" __global__ void call_noinline(float *dst, const float *src, const float *coefficients, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float value = horner(src[i], coefficients, n);
    if (i & 1) value = horner(value, coefficients + 1, n - 1);
    dst[i] = value;
}

typedef int (*Operation)(int, int);
__device__ __noinline__ int add_values(int a, int b) { return a + b; }
__device__ __noinline__ int subtract_values(int a, int b) { return a - b; }
__device__ __noinline__ int multiply_values(int a, int b) { return a * b; }
__device__ __noinline__ int gcd_values(int a, int b) {
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
__device__ const Operation operations[4] = {add_values, subtract_values, multiply_values, gcd_values};

extern "C" __global__ void call_pointers(int *dst, const int *which, const int *a, const int *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    dst[i] = operations[which[i]](a[i], b[i]);
}

extern "C" __global__ void local_permutation(int *dst, const unsigned *seeds, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int values[24];
    for (int k = 0; k < 24; ++k) values[k] = k * k;
    unsigned state = seeds[i];
    for (int r = 0; r < rounds; ++r) {
        state = state * 1664525u + 1013904223u;
        int from = (state >> 8) % 24, to = (state >> 16) % 24;
        int swap = values[from];
        values[from] = values[to];
        values[to] = swap;
    }
    int sum = 0;
    for (int k = 0; k < 24; ++k) sum = sum * 3 + values[k];
    dst[i] = sum;
}

__constant__ float filter_taps[8];
__constant__ int powers[6] = {1, 10, 100, 1000, 10000, 100000};

extern "C" __global__ void constant_filter(float *dst, int *digits, const float *src, const int *whole, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k) sum = __fadd_rn(sum, __fmul_rn(filter_taps[k], src[i + k]));
    dst[i] = sum;
    digits[i] = whole[i] / powers[i % 6] % 10;
}

__device__ int counters[4];
__device__ float table[64] = {0.5f, 1.5f, 2.5f, 3.5f};
__device__ unsigned long long marker = 0x123456789abcdefull;

extern "C" __global__ void device_globals(float *dst, int *tallies, unsigned long long *seen, unsigned *blocks_done) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&counters[i & 3], i);
    dst[i] = table[i & 63] * 2.0f;
    if (i == 0) *seen = marker;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        if (atomicAdd(blocks_done, 1u) == gridDim.x - 1)
            for (int k = 0; k < 4; ++k) tallies[k] = atomicAdd(&counters[k], 0);
    }
}

struct Pixel {
    unsigned char red, green, blue;
};
struct Body {
    double mass;
    float position[3];
    short charge;
    Pixel colour;
    long long id;
};

extern "C" __global__ void struct_parameters(long long *dst, double *weight, Body body, int scale, Pixel pixel,
                                             char flag, float4 shift) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    dst[i] = body.id * scale + body.charge + body.colour.green * 256 + pixel.blue + flag + i;
    weight[i] = body.mass * body.position[i % 3] + (i & 1 ? shift.x : shift.w);
}

extern "C" __global__ void many_parameters(int *dst, char a, short b, int c, long long d, float e, double f,
                                           unsigned char g, unsigned short h, unsigned k, unsigned long long l, int m,
                                           const int *p, char q, long long r, float s, short t, int u, double v,
                                           char w, int x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int sum = a + b * 2 + c * 3 + (int)d + (int)e + (int)f + g + h + (int)k + (int)(l >> 40) + m;
    sum += p[i] * q + (int)r + (int)(s * 8.0f) + t + u + (int)v + w * x;
    dst[i] = sum;
}
