// Random numbers of cuRAND's host interface: XORWOW (Marsaglia 2003), MRG32k3a (L'Ecuyer 1999) and Philox4x32-10 (Salmon et al. 2011), in cuRAND's order and scales.
//
// Macros: GENERATOR 0 XORWOW, 1 MRG32k3a, 2 Philox; KIND 0 integers, 1 uniform, 2 uniform in double, 3 normal, 4 normal in double, 5 and 6 log-normal.
//
// XORWOW and MRG32k3a: items (a number, or a pair of normal ones) are made by one stream after the other; a stream's state stays in memory. Philox: each stream makes four numbers in turn.
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr bool NORMAL = KIND >= 3, LOGARITHMIC = KIND >= 5, WIDE = KIND == 2 || KIND == 4 || KIND == 6;
#if KIND == 0
typedef u32 Number;
#elif KIND == 2 || KIND == 4 || KIND == 6
typedef double Number;
#else
typedef float Number;
#endif
constexpr float STEP = 2.3283064e-10f, TURN = 2.3283064e-10f * 6.2831855f;  // 2^-32, and of a full turn
constexpr double STEP_53 = 1.1102230246251565e-16;                         // 2^-53

__device__ __forceinline__ float uniform(u32 x) { return x * STEP + STEP / 2; }
__device__ __forceinline__ u64 joined(u32 low, u32 high) { return (u64)low ^ (u64)high << 21; }
__device__ __forceinline__ double uniform_double(u32 low, u32 high) { return joined(low, high) * STEP_53 + STEP_53 / 2; }
__device__ __forceinline__ void polar(float u, float angle, float *pair) {
    float radius = sqrtf(-2.0f * logf(u));
    __sincosf(angle, &pair[0], &pair[1]);
    pair[0] *= radius, pair[1] *= radius;
}
__device__ __forceinline__ void polar(double u, double half_turns, double *pair) {
    double radius = sqrt(-2.0 * log(u));
    sincospi(half_turns, &pair[0], &pair[1]);
    pair[0] *= radius, pair[1] *= radius;
}
__device__ __forceinline__ void normal_pair(u32 x, u32 y, float *pair) { polar(uniform(x), y * TURN + TURN / 2, pair); }
__device__ __forceinline__ void normal_pair(u32 x0, u32 x1, u32 y0, u32 y1, double *pair) {
    polar(uniform_double(x0, x1), joined(y0, y1) * (STEP_53 * 2) + STEP_53, pair);
}
__device__ __forceinline__ float placed(float x, double mean, double deviation) {
    float value = (float)mean + (float)deviation * x;
    return LOGARITHMIC ? expf(value) : value;
}
__device__ __forceinline__ double placed(double x, double mean, double deviation) {
    double value = mean + deviation * x;
    return LOGARITHMIC ? exp(value) : value;
}

#if GENERATOR == 0
struct State { u32 v[5], d; };
__device__ __forceinline__ u32 next(State &s) {
    u32 t = s.v[0] ^ s.v[0] >> 2;
    s.v[0] = s.v[1], s.v[1] = s.v[2], s.v[2] = s.v[3], s.v[3] = s.v[4];
    s.v[4] = s.v[4] ^ s.v[4] << 4 ^ (t ^ t << 1);
    s.d += 362437;
    return s.v[4] + s.d;
}
__device__ __forceinline__ void make(State &s, u32 &made) { made = next(s); }
__device__ __forceinline__ void make(State &s, float &made) { made = uniform(next(s)); }
__device__ __forceinline__ void make(State &s, double &made) {
    u32 low = next(s);
    made = uniform_double(low, next(s));
}
__device__ __forceinline__ void make_pair(State &s, float *pair) {
    u32 x = next(s);
    normal_pair(x, next(s), pair);
}
__device__ __forceinline__ void make_pair(State &s, double *pair) {
    u32 x0 = next(s), x1 = next(s), y0 = next(s);
    normal_pair(x0, x1, y0, next(s), pair);
}
#elif GENERATOR == 1
struct State { u32 a[3], b[3]; };
constexpr i64 M1 = 4294967087, M2 = 4294944443;
constexpr double NORM = 2.3283065498378288e-10, BITS_NORM = 1.000000048662;
__device__ __forceinline__ u32 next(State &s) {
    i64 p = (1403580 * (i64)s.a[1] - 810728 * (i64)s.a[0]) % M1, q = (527612 * (i64)s.b[2] - 1370589 * (i64)s.b[0]) % M2;
    p += p < 0 ? M1 : 0, q += q < 0 ? M2 : 0;
    s.a[0] = s.a[1], s.a[1] = s.a[2], s.a[2] = (u32)p;
    s.b[0] = s.b[1], s.b[1] = s.b[2], s.b[2] = (u32)q;
    return (u32)(p > q ? p - q : p - q + M1);
}
__device__ __forceinline__ void make(State &s, u32 &made) { made = (u32)(next(s) * BITS_NORM); }
__device__ __forceinline__ void make(State &s, float &made) { made = (float)(next(s) * NORM); }
__device__ __forceinline__ void make(State &s, double &made) { made = next(s) * NORM; }
__device__ __forceinline__ void make_pair(State &s, float *pair) {
    float u, v;
    make(s, u), make(s, v);
    polar(u, v * 6.2831855f, pair);
}
__device__ __forceinline__ void make_pair(State &s, double *pair) {
    double u, v;
    make(s, u), make(s, v);
    polar(u, v * 2.0, pair);
}
#endif

#if GENERATOR < 2
// The items of one stream: those whose number, with the ones made before, is the stream's modulo the number of streams.
extern "C" __global__ void KERNEL(State *states, u32 streams, u32 first_stream, u64 items, Number *out, double mean, double deviation) {
    u32 stream = blockIdx.x * blockDim.x + threadIdx.x;
    if (stream >= streams) return;
    u64 item = stream >= first_stream ? stream - first_stream : stream + streams - first_stream;
    if (item >= items) return;
    State state = states[stream];
    for (; item < items; item += streams) {
#if KIND < 3
        make(state, out[item]);
#else
        Number pair[2];
        make_pair(state, pair);
        out[2 * item] = placed(pair[0], mean, deviation);
        out[2 * item + 1] = placed(pair[1], mean, deviation);
#endif
    }
    states[stream] = state;
}
#else
struct Words { u32 v[4]; };
__device__ __forceinline__ Words philox(u64 counter, u32 stream, u64 seed) {
    u32 c[4] = {(u32)counter, (u32)(counter >> 32), stream, 0}, low = (u32)seed, high = (u32)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u64 p = (u64)0xD2511F53u * c[0], q = (u64)0xCD9E8D57u * c[2];
        c[0] = (u32)(q >> 32) ^ c[1] ^ low, c[2] = (u32)(p >> 32) ^ c[3] ^ high;
        c[1] = (u32)q, c[3] = (u32)p;
        low += 0x9E3779B9u, high += 0xBB67AE85u;
    }
    return {c[0], c[1], c[2], c[3]};
}
// Numbers from `begin` to `end` of the sequence. A stream's counter goes on when it has made its fourth number.
extern "C" __global__ void KERNEL(u64 *counters, u32 streams, u64 seed, u64 begin, u64 end, Number *out, double mean, double deviation) {
    u32 stream = blockIdx.x * blockDim.x + threadIdx.x;
    if (stream >= streams) return;
    u64 counter = counters[stream], group = begin / 4;
    group += (stream + streams - (u32)(group % streams)) % streams;
    for (; group * 4 < end; group += streams) {
        Words w = philox(counter, stream, seed);
        Number made[4];
#if KIND == 0
        for (int i = 0; i < 4; i++) made[i] = w.v[i];
#elif KIND == 1
        for (int i = 0; i < 4; i++) made[i] = uniform(w.v[i]);
#elif KIND == 3 || KIND == 5
        normal_pair(w.v[0], w.v[1], made), normal_pair(w.v[2], w.v[3], made + 2);
#else
        Words more = philox(counter + 1, stream, seed);
#if KIND == 2
        for (int i = 0; i < 2; i++) made[i] = uniform_double(w.v[2 * i], w.v[2 * i + 1]), made[2 + i] = uniform_double(more.v[2 * i], more.v[2 * i + 1]);
#else
        normal_pair(w.v[0], w.v[1], w.v[2], w.v[3], made), normal_pair(more.v[0], more.v[1], more.v[2], more.v[3], made + 2);
#endif
#endif
        for (int i = 0; i < 4; i++) {
            u64 number = group * 4 + i;
            if (number < begin || number >= end) continue;
#if KIND >= 3
            out[number - begin] = placed(made[i], mean, deviation);
#else
            out[number - begin] = made[i];
#endif
        }
        if (group * 4 + 3 < end) counter += WIDE ? 2 : 1;
    }
    counters[stream] = counter;
}
#endif
