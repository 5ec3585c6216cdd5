// One kernel for each way to fetch and each type of result.  Coordinates: COUNT values of each argument, one behind the other.
#include <cuda_runtime.h>

typedef unsigned long long handle;

__device__ uint4 bits(float4 v) { return make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)); }
__device__ uint4 bits(int4 v) { return make_uint4(v.x, v.y, v.z, v.w); }
__device__ uint4 bits(uint4 v) { return v; }

#define A(k) c[(k) * n + i]
#define FORM(name, expression) \
    template <class T> __device__ uint4 name##_(handle t, const float* c, int n, int i) { return bits(expression); } \
    extern "C" __global__ void name##_f(handle t, const float* c, uint4* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; o[i] = name##_<float4>(t, c, n, i); } \
    extern "C" __global__ void name##_i(handle t, const float* c, uint4* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; o[i] = name##_<int4>(t, c, n, i); } \
    extern "C" __global__ void name##_u(handle t, const float* c, uint4* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; o[i] = name##_<uint4>(t, c, n, i); }

FORM(fetch, (tex1Dfetch<T>(t, (int)A(0))))
FORM(t1, (tex1D<T>(t, A(0))))
FORM(t2, (tex2D<T>(t, A(0), A(1))))
FORM(t3, (tex3D<T>(t, A(0), A(1), A(2))))
FORM(a1, (tex1DLayered<T>(t, A(0), (int)A(1))))
FORM(a2, (tex2DLayered<T>(t, A(0), A(1), (int)A(2))))
FORM(cube, (texCubemap<T>(t, A(0), A(1), A(2))))
FORM(acube, (texCubemapLayered<T>(t, A(0), A(1), A(2), (int)A(3))))
FORM(l1, (tex1DLod<T>(t, A(0), A(1))))
FORM(l2, (tex2DLod<T>(t, A(0), A(1), A(2))))
FORM(l3, (tex3DLod<T>(t, A(0), A(1), A(2), A(3))))
FORM(la2, (tex2DLayeredLod<T>(t, A(0), A(1), (int)A(2), A(3))))
FORM(lcube, (texCubemapLod<T>(t, A(0), A(1), A(2), A(3))))
FORM(g1, (tex1DGrad<T>(t, A(0), A(1), A(2))))
FORM(g2, (tex2DGrad<T>(t, A(0), A(1), make_float2(A(2), A(3)), make_float2(A(4), A(5)))))
FORM(r2, (tex2Dgather<T>(t, A(0), A(1), 0)))
FORM(r2b, (tex2Dgather<T>(t, A(0), A(1), 2)))

// Forms that only PTX has: whole coordinates, levels by number, offsets.
#define ASM(name, text, ...) \
    extern "C" __global__ void name##_f(handle t, const float* c, uint4* o, int n) { \
        int i = blockIdx.x * blockDim.x + threadIdx.x; uint4 v; \
        asm volatile(text : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(t), __VA_ARGS__); o[i] = v; }
#define W(k) "r"((int)A(k))
#define F(k) "f"(A(k))
ASM(e1, "tex.1d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5}];", W(0))
ASM(e2, "tex.2d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5, %6}];", W(0), W(1))
ASM(e3, "tex.3d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5, %6, %7, %7}];", W(0), W(1), W(2))
ASM(ea2, "tex.a2d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%7, %5, %6, %6}];", W(0), W(1), W(2))
ASM(el2, "tex.level.2d.v4.f32.s32 {%0, %1, %2, %3}, [%4, {%5, %6}], %7;", W(0), W(1), W(2))
ASM(o2, "tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}], {3, -2};", F(0), F(1))
ASM(ro2, "tld4.g.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}], {-3, 1};", F(0), F(1))

#define QUERY(name) asm volatile("txq." #name ".b32 %0, [%1];" : "=r"(v) : "l"(t)); o[k++] = v;
extern "C" __global__ void txq_sizes(handle t, const float* c, unsigned* o, int n) {
    unsigned v;
    int k = 0;
    QUERY(width) QUERY(height) QUERY(depth)
}

// Surfaces.  Mode 0 trap, 1 clamp, 2 zero is compiled in; x counts elements.
#define SURFACE(name, T, size, boundary) \
    extern "C" __global__ void name(handle s, const int* c, T* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; o[i] = surf2Dread<T>(s, A(0) * size, A(1), boundary); } \
    extern "C" __global__ void name##_w(handle s, const int* c, T* o, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; surf2Dwrite<T>(o[i], s, A(0) * size, A(1), boundary); }
SURFACE(s2_4_clamp, unsigned, 4, cudaBoundaryModeClamp)
SURFACE(s2_4_zero, unsigned, 4, cudaBoundaryModeZero)
SURFACE(s2_8_clamp, uint2, 8, cudaBoundaryModeClamp)
SURFACE(s2_16_zero, uint4, 16, cudaBoundaryModeZero)
SURFACE(s2_2_clamp, unsigned short, 2, cudaBoundaryModeClamp)
SURFACE(s2_1_zero, unsigned char, 1, cudaBoundaryModeZero)

// Formatted store: the surface's own format, x counts elements.
extern "C" __global__ void sust_p(handle s, const int* c, const uint4* o, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("sust.p.2d.v4.b32.clamp [%0, {%1, %2}], {%3, %4, %5, %6};" ::"l"(s), "r"(A(0)), "r"(A(1)), "r"(o[i].x), "r"(o[i].y), "r"(o[i].z), "r"(o[i].w));
}

// Time: a chain of fetches, each of which waits for the one before, and many fetches that do not.
#define STEPS 64
#define TIMED(name, fetch) \
    extern "C" __global__ void name##_chain(handle t, float x, float step, long long* o, float* out) { \
        float v = x + threadIdx.x * step; \
        v += (fetch) * 0.0f; \
        __syncthreads(); \
        long long began = clock64(); \
        _Pragma("unroll 1") for (int k = 0; k < STEPS; k++) v += (fetch) * 0.0f; \
        long long ended = clock64(); \
        o[threadIdx.x / 32] = ended - began; out[threadIdx.x] = v; \
    } \
    extern "C" __global__ void name##_many(handle t, float x, float step, long long* o, float* out) { \
        float v = x + threadIdx.x * step, sum = fetch; \
        __syncthreads(); \
        long long began = clock64(); \
        _Pragma("unroll 1") for (int k = 0; k < STEPS; k++) { \
            float a = fetch; v += 0.0f; float b = fetch; v += step * 0.0f; float d = fetch; v += 0.0f; float e = fetch; \
            sum += a + b + d + e; v = __uint_as_float(__float_as_uint(v) ^ (k & 0)); } \
        long long ended = clock64(); \
        o[threadIdx.x / 32] = ended - began; out[threadIdx.x] = v + sum; \
    }
__device__ float get2(handle t, float v, float x) { float r; asm volatile("{.reg .f32 p, q, s; tex.2d.v4.f32.f32 {%0, p, q, s}, [%1, {%2, %3}];}" : "=f"(r) : "l"(t), "f"(v), "f"(x)); return r; }
__device__ float get2x4(handle t, float v, float x) { float r, p, q, s; asm volatile("tex.2d.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %6}];" : "=f"(r), "=f"(p), "=f"(q), "=f"(s) : "l"(t), "f"(v), "f"(x)); return r + p + q + s; }
__device__ float get1(handle t, float v, float x) { float r; asm volatile("{.reg .f32 p, q, s; tex.1d.v4.f32.s32 {%0, p, q, s}, [%1, {%2}];}" : "=f"(r) : "l"(t), "r"((int)v)); return r; }
__device__ float get3(handle t, float v, float x) { float r; asm volatile("{.reg .f32 p, q, s; tex.3d.v4.f32.f32 {%0, p, q, s}, [%1, {%2, %3, %4, %4}];}" : "=f"(r) : "l"(t), "f"(v), "f"(x), "f"(x)); return r; }
TIMED(time2, get2(t, v, x))
TIMED(time2x4, get2x4(t, v, x))
TIMED(time1i, get1(t, v, x))
TIMED(time3, get3(t, v, x))
