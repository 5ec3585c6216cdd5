// Long straight-line bodies by one or two blocks: special functions inline, arrays of a thread's own.
template <int K>
__device__ __forceinline__ float step(float x, float* table, int at) {
    float y = sinf(x * (1.0f + 0.01f * K)) + powf(fabsf(x) + 0.5f, 0.25f + 0.01f * K);
    table[(at + K) & 15] = y;
    y += expf(-fabsf(y)) * logf(1.5f + fabsf(x)) + table[(at * 3 + K) & 15];
    return y * 0.25f + erff(y) * 0.125f;
}
template <int K>
struct Steps {
    static __device__ __forceinline__ float run(float x, float* table, int at) {
        return step<K>(Steps<K - 1>::run(x, table, at), table, at);
    }
};
template <>
struct Steps<-1> {
    static __device__ __forceinline__ float run(float x, float*, int) { return x; }
};
#define LONG(NAME, COUNT)                                                                \
    extern "C" __global__ void NAME(float* out, const float* a, int turns) {             \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                   \
        float table[16], x = a[i];                                                       \
        for (int k = 0; k < 16; k++) table[k] = x * k;                                   \
        for (int t = 0; t < turns; t++) x = Steps<COUNT - 1>::run(x, table, i + t);      \
        out[i] = x + table[i & 15];                                                      \
    }
LONG(long_4, 4)
LONG(long_16, 16)
LONG(long_40, 40)
LONG(long_80, 80)

template <int K>
struct Plain {
    static __device__ __forceinline__ float run(float x, float y) {
        float z = Plain<K - 1>::run(x, y);
        return fmaf(z, 0.9f + 0.0001f * K, __sinf(z + y)) * 0.5f + __fdividef(z, 2.0f + K);
    }
};
template <>
struct Plain<0> {
    static __device__ __forceinline__ float run(float x, float y) { return x + y; }
};
extern "C" __global__ void plain_190(float* out, const float* a, int turns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i], y = x * 0.5f;
    for (int t = 0; t < turns; t++) x = Plain<190>::run(x, y);
    out[i] = x;
}
extern "C" __global__ void plain_100(float* out, const float* a, int turns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = a[i], y = x * 0.5f;
    for (int t = 0; t < turns; t++) x = Plain<100>::run(x, y);
    out[i] = x;
}
