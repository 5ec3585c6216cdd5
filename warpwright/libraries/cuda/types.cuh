// Element types of the libraries' kernels, and conversions between them and the types in which kernels compute.
#pragma once

typedef long long i64;
struct half_t { unsigned short bits; };
struct bfloat_t { unsigned short bits; };
struct e4m3_t { unsigned char bits; };
struct e5m2_t { unsigned char bits; };
template <class T> struct alignas(2 * sizeof(T)) complex_t { T x, y; };
typedef complex_t<float> c64;
typedef complex_t<double> c128;

__device__ __forceinline__ float half_to_float(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ __forceinline__ unsigned short float_to_half(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
__device__ __forceinline__ unsigned short float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
    unsigned short rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
    return rounded;
#else
    unsigned bits = __float_as_uint(value);
    if (value != value) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}

// --- to the type of computation ---------------------------------------------------------------------
template <class A> struct To;
template <> struct To<float> {
    static __device__ __forceinline__ float from(float v) { return v; }
    static __device__ __forceinline__ float from(double v) { return (float)v; }
    static __device__ __forceinline__ float from(half_t v) { return half_to_float(v.bits); }
    static __device__ __forceinline__ float from(bfloat_t v) { return __uint_as_float((unsigned)v.bits << 16); }
    static __device__ __forceinline__ float from(signed char v) { return (float)v; }
    static __device__ __forceinline__ float from(int v) { return (float)v; }
    static __device__ __forceinline__ float from(e5m2_t v) { return half_to_float((unsigned short)(v.bits << 8)); }
    static __device__ __forceinline__ float from(e4m3_t v) {
        unsigned magnitude = v.bits & 0x7f;
        if (magnitude == 0x7f) return __uint_as_float(0x7fffffff);
        // The exponent moves from bias 7 to 127; denormals are scaled by a product.
        float scaled = __uint_as_float(magnitude << 20) * __uint_as_float(0x7b800000);
        return v.bits & 0x80 ? -scaled : scaled;
    }
};
template <> struct To<double> {
    static __device__ __forceinline__ double from(double v) { return v; }
    static __device__ __forceinline__ double from(float v) { return v; }
};
template <> struct To<int> {
    static __device__ __forceinline__ int from(signed char v) { return v; }
    static __device__ __forceinline__ int from(int v) { return v; }
};
template <> struct To<c64> {
    static __device__ __forceinline__ c64 from(c64 v) { return v; }
};
template <> struct To<c128> {
    static __device__ __forceinline__ c128 from(c128 v) { return v; }
};

// --- from the type of computation -------------------------------------------------------------------
__device__ __forceinline__ void put(float *place, float v) { *place = v; }
__device__ __forceinline__ void put(double *place, double v) { *place = v; }
__device__ __forceinline__ void put(half_t *place, float v) { place->bits = float_to_half(v); }
__device__ __forceinline__ void put(bfloat_t *place, float v) { place->bits = float_to_bfloat(v); }
__device__ __forceinline__ void put(int *place, int v) { *place = v; }
__device__ __forceinline__ void put(int *place, float v) { *place = (int)v; }
__device__ __forceinline__ void put(float *place, int v) { *place = (float)v; }
__device__ __forceinline__ void put(signed char *place, float v) {
    int rounded = __float2int_rn(v);
    *place = (signed char)(rounded < -128 ? -128 : rounded > 127 ? 127 : rounded);
}
__device__ __forceinline__ void put(c64 *place, c64 v) { *place = v; }
__device__ __forceinline__ void put(c128 *place, c128 v) { *place = v; }

// --- arithmetic -------------------------------------------------------------------------------------
template <class T> __device__ __forceinline__ complex_t<T> operator+(complex_t<T> a, complex_t<T> b) { return {a.x + b.x, a.y + b.y}; }
template <class T> __device__ __forceinline__ complex_t<T> operator-(complex_t<T> a, complex_t<T> b) { return {a.x - b.x, a.y - b.y}; }
template <class T> __device__ __forceinline__ complex_t<T> operator*(complex_t<T> a, complex_t<T> b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
template <class T> __device__ __forceinline__ complex_t<T> operator/(complex_t<T> a, complex_t<T> b) {
    T d = b.x * b.x + b.y * b.y;
    return {(a.x * b.x + a.y * b.y) / d, (a.y * b.x - a.x * b.y) / d};
}
__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
__device__ __forceinline__ int fused(int a, int b, int c) { return a * b + c; }
template <class T> __device__ __forceinline__ complex_t<T> fused(complex_t<T> a, complex_t<T> b, complex_t<T> c) {
    return {fused(-a.y, b.y, fused(a.x, b.x, c.x)), fused(a.y, b.x, fused(a.x, b.y, c.y))};
}
__device__ __forceinline__ float conjugate(float v) { return v; }
__device__ __forceinline__ double conjugate(double v) { return v; }
__device__ __forceinline__ int conjugate(int v) { return v; }
template <class T> __device__ __forceinline__ complex_t<T> conjugate(complex_t<T> v) { return {v.x, -v.y}; }
template <class T> __device__ __forceinline__ bool is_zero(T v) { return v == T(0); }
template <class T> __device__ __forceinline__ bool is_zero(complex_t<T> v) { return v.x == T(0) && v.y == T(0); }
template <class T> struct Scalar {
    typedef T real;
    static __device__ __forceinline__ T of(double x, double) { return (T)x; }
};
template <class T> struct Scalar<complex_t<T>> {
    typedef T real;
    static __device__ __forceinline__ complex_t<T> of(double x, double y) { return {(T)x, (T)y}; }
};
