// Loads and stores of every kind: cache operators, vector structures, unaligned members, volatile, spaces, dynamic shared memory.

struct __align__(16) Wide { double a; int b; short c; char d, e; };
#pragma pack(push, 1)
struct Odd { char tag; int value; double real; short tail; };
#pragma pack(pop)
struct Parameters { float scale; int shift[3]; double bias; unsigned char mask; };
__constant__ Parameters settings = {1.5f, {1, 2, 3}, 0.25, 0x5A};
__constant__ int table[64];
__device__ int counters[8] = {5, 6, 7, 8};
__device__ float grid_values[4][8];
static __device__ unsigned long long total;

extern "C" __global__ void structures(Wide *wide, unsigned char *odd, const double2 *pairs, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Wide w = wide[i];
    w.a += w.b; w.c -= w.d; w.e ^= (char)i; w.b *= 3;
    wide[n - 1 - i + n] = w;
    Odd *o = (Odd *)odd + i;
    int v = 0;
    for (int k = 0; k < 4; k++) v |= odd[i * sizeof(Odd) + 1 + k] << (8 * k);
    double2 p = pairs[i];
    o->tag = (char)(v >> 4);
    odd[i * sizeof(Odd) + 13] = (unsigned char)(p.x + p.y + o->value + o->real);
}

extern "C" __global__ void constants(double *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    dst[i] = settings.scale * src[i] + settings.shift[i % 3] + settings.bias + (settings.mask & src[i]) + table[src[i] & 63] + table[i & 63];
    atomicAdd(&counters[i & 7], src[i] & 3);
    grid_values[i & 3][i >> 2 & 7] = src[i] * 0.5f;
    atomicAdd(&total, 1ull);
    if (i == 0) dst[n] = counters[3] >= 8;
}

#define LOAD(text) asm volatile(text : "=r"(r) : "l"(src + i)); dst[k++ * n + i] = r;
extern "C" __global__ void cache_operators(unsigned *dst, const unsigned *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    unsigned r;
    LOAD("ld.global.nc.u32 %0, [%1];") LOAD("ld.global.cg.u32 %0, [%1];") LOAD("ld.global.cs.u32 %0, [%1];") LOAD("ld.global.ca.u32 %0, [%1];") LOAD("ld.global.lu.u32 %0, [%1];") LOAD("ld.global.cv.u32 %0, [%1];") LOAD("ld.volatile.global.u32 %0, [%1];") LOAD("ld.relaxed.gpu.global.u32 %0, [%1];") LOAD("ld.acquire.sys.u32 %0, [%1];") LOAD("ld.global.L1::no_allocate.u32 %0, [%1];") LOAD("ld.global.L1::evict_last.u32 %0, [%1];") LOAD("ld.global.nc.L1::evict_first.u32 %0, [%1];") LOAD("ld.global.u8 %0, [%1+1];") LOAD("ld.global.s16 %0, [%1+2];") LOAD("ld.global.nc.s8 %0, [%1+3];") LOAD("ld.weak.global.L1::evict_unchanged.u32 %0, [%1];") LOAD("ld.u16 %0, [%1];")
    asm volatile("st.global.wt.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r)); asm volatile("st.global.cs.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r + 1)); asm volatile("st.global.cg.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r + 2)); asm volatile("st.global.wb.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r + 3)); asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r + 4)); asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r + 5)); asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r + 6)); asm volatile("st.global.L1::no_allocate.u32 [%0], %1;" ::"l"(dst + k++ * n + i), "r"(r + 7));
    dst[k++ * n + i] = __ldg(src + i) + __ldcg(src + i) + __ldca(src + i) + __ldcs(src + i) + __ldlu(src + i) + __ldcv(src + i);
    __stcg(dst + k++ * n + i, r); __stwb(dst + k++ * n + i, r); __stcs(dst + k++ * n + i, r); __stwt(dst + k++ * n + i, r);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(src + i)); asm volatile("prefetch.global.L1 [%0];" ::"l"(src)); asm volatile("prefetchu.L1 [%0];" ::"l"(src));
    __threadfence(); __threadfence_block(); __threadfence_system(); asm volatile("membar.cta; fence.acq_rel.gpu; fence.sc.cta;" ::: "memory");
}

extern "C" __global__ void vector_types(uint4 *dst, const uchar4 *bytes, const short2 *shorts, const float3 *threes, const longlong2 *longs, const ushort4 *fours, const char3 *odd, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 b = __ldg(bytes + i);
    short2 s = shorts[i];
    float3 t = threes[i];
    longlong2 l = __ldg(longs + i);
    ushort4 f = fours[i];
    char3 o = odd[i];
    dst[i] = make_uint4(b.x + b.y * 256 + b.z + b.w, s.x * s.y + o.x - o.y * o.z, (unsigned)(t.x + t.y * t.z), (unsigned)(l.x ^ l.y >> 7) + f.x + f.y + f.z * f.w);
}

extern "C" __global__ void mixed_shared(double *dst, const int *src, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    double *reals = (double *)raw;
    float4 *quads = (float4 *)(reals + 32);
    unsigned short *shorts = (unsigned short *)(quads + 32);
    char *chars = (char *)(shorts + 32);
    int t = threadIdx.x;
    reals[t] = src[t] * 0.5;
    quads[t] = make_float4(t, src[t], -t, 1);
    shorts[t] = (unsigned short)src[t];
    chars[t] = (char)(src[t] >> 3);
    __syncthreads();
    int u = (t * 7 + 3) % 32;
    volatile float *words = (volatile float *)quads;
    dst[t] = reals[u] + quads[u].y + shorts[u] + chars[u] + words[4 * u + 2] + ((unsigned char *)raw)[t * 5];
    float2 half_quad = ((float2 *)quads)[u];
    dst[n + t] = half_quad.x * half_quad.y;
}

extern "C" __global__ void local_arrays(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    char bytes[40];
    short words[20];
    long long longs[10];
    double2 pairs[4];
    int4 quads[3];
    for (int k = 0; k < 40; k++) bytes[k] = (char)(src[(i + k) % n]);
    for (int k = 0; k < 20; k++) words[k] = (short)(bytes[(k * 3 + i) % 40] * k);
    for (int k = 0; k < 10; k++) longs[k] = (long long)words[(k + i) % 20] << k;
    for (int k = 0; k < 4; k++) pairs[k] = make_double2(longs[(k + i) % 10], k);
    for (int k = 0; k < 3; k++) quads[k] = make_int4(i, k, words[(i + k) % 20], 4);
    int j = src[i] & 3;
    pairs[j].y += 2.0;
    quads[j % 3].w = j;
    unsigned sum = 0;
    for (int k = 0; k < 40; k++) sum = sum * 3 + bytes[(k + j) % 40];
    int4 q = quads[(j + 1) % 3];
    dst[i] = sum + (int)pairs[(j + 1) & 3].x + (int)(10 * pairs[j].y) + q.x + q.y * 2 + q.z * 3 + q.w * 4 + *(unsigned short *)(bytes + 2 * (j + 4));
}

extern "C" __global__ void __launch_bounds__(96, 4) spaces(unsigned *dst, const int *src) {
    __shared__ int box[4];
    int t = threadIdx.x, own = src[t];
    volatile int *local = &own;
    box[t & 3] = t;
    unsigned long long a = (unsigned long long)&box[t & 3], g;
    unsigned s, p;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(g) : "l"(a)); s = (unsigned)g;
    asm("cvta.shared.u64 %0, %1;" : "=l"(g) : "l"((unsigned long long)s));
    dst[t] = (g == a) + (s == __cvta_generic_to_shared(&box[t & 3])) * 2;
    asm("{.reg .pred q; isspacep.shared q, %1; selp.u32 %0, 1, 0, q;}" : "=r"(p) : "l"(a)); dst[t] += 4 * p;
    asm("{.reg .pred q; isspacep.global q, %1; selp.u32 %0, 1, 0, q;}" : "=r"(p) : "l"(dst)); dst[t] += 8 * p;
    asm("{.reg .pred q; isspacep.local q, %1; selp.u32 %0, 1, 0, q;}" : "=r"(p) : "l"(local)); dst[t] += 16 * p;
    asm("{.reg .pred q; isspacep.const q, %1; selp.u32 %0, 1, 0, q;}" : "=r"(p) : "l"(&settings)); dst[t] += 32 * p;
    const int *pointer = t & 1 ? &settings.shift[0] : src;
    dst[t] += 64 * (unsigned)pointer[t % 3] + 1000 * *local;
}
