// Atomics by PTX and by function: every operation, type, scope and order, in global, shared and generic memory.

extern "C" __global__ void atomic_operations(unsigned *u, unsigned long long *l, unsigned *old, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(&u[0], i); atomicSub(&u[1], i); atomicMin((int *)&u[2], 50 - i); atomicMax((int *)&u[3], i - 30); atomicMin(&u[4], 5000 - i); atomicMax(&u[5], i); atomicInc(&u[6], 10); atomicDec(&u[7], 12); atomicAnd(&u[8], ~(1u << (i & 31))); atomicOr(&u[9], 1u << (i % 29)); atomicXor(&u[10], i * 77);
    old[i] = atomicExch(&u[16 + i], i) + atomicCAS(&u[16 + i], i, 2 * i) * 3 + atomicCAS(&u[16 + i], i, 5);
    atomicAdd(&l[0], (unsigned long long)i << 30); atomicMin((long long *)&l[1], -(long long)i); atomicMax((long long *)&l[2], (long long)i << 33); atomicMin(&l[3], ~0ull - i); atomicMax(&l[4], (unsigned long long)i << 50); atomicAnd(&l[5], ~(1ull << (i & 63))); atomicOr(&l[6], 1ull << (i % 61)); atomicXor(&l[7], (unsigned long long)i * 0x123456789ull);
    atomicExch(&l[8 + i], 3ull * i); atomicCAS(&l[8 + i], 3ull * i, ~(unsigned long long)i);
    atomicAdd_block(&u[11], 2); atomicAdd_system(&u[12], 3); atomicMax_block((int *)&u[13], i); atomicAdd((double *)&l[8 + n], 0.5); atomicAdd((float *)&u[14], 0.25f);
    unsigned short *s = (unsigned short *)&u[15];
    unsigned short seen = *(volatile unsigned short *)(s + (i & 1)), expected;
    do { expected = seen; seen = atomicCAS(s + (i & 1), expected, (unsigned short)(expected + 1 + (i & 1))); } while (seen != expected);
}

extern "C" __global__ void atomic_shared(unsigned *dst, unsigned long long *wide, int n) {
    __shared__ unsigned u[16];
    __shared__ unsigned long long l[8];
    __shared__ float f;
    __shared__ double d;
    int t = threadIdx.x;
    if (t < 16) u[t] = t == 4 || t == 8 ? ~0u : t == 2 ? 100 : 0;
    if (t < 8) l[t] = t == 2 ? ~0ull : 0;
    if (t == 0) f = 0, d = 0;
    __syncthreads();
    atomicAdd(&u[0], t); atomicSub(&u[1], t); atomicMin((int *)&u[2], 50 - t); atomicMax((int *)&u[3], t - 30); atomicMin(&u[4], 5000 - t); atomicMax(&u[5], t); atomicInc(&u[6], 10); atomicDec(&u[7], 12); atomicAnd(&u[8], ~(1u << (t & 31))); atomicOr(&u[9], 1u << (t % 29)); atomicXor(&u[10], t * 77); if (t == 9) atomicExch(&u[11], 42); if (t == 12) atomicCAS(&u[12], 0, 43);
    atomicAdd(&l[0], (unsigned long long)t << 30); atomicMax(&l[1], (unsigned long long)t << 40); atomicMin(&l[2], 1000ull - t); atomicXor(&l[3], (unsigned long long)t << t % 40); if (t == 3) atomicExch(&l[4], 1ull << 40); if (t == 4) atomicCAS(&l[5], 0ull, 1ull << 41); atomicAdd((unsigned long long *)&l[6], 1ull); atomicOr(&l[7], 1ull << (t & 63));
    atomicAdd(&f, 0.5f); atomicAdd(&d, 0.125);
    __syncthreads();
    if (t < 16) dst[t] = t == 15 ? (unsigned)f : t == 14 ? (unsigned)d : u[t];
    if (t < 8) wide[t] = l[t];
}

__device__ __noinline__ unsigned bump(unsigned *where, unsigned by) { return atomicAdd(where, by); }
__device__ __noinline__ void put(volatile int *where, int what) { *where = what + *where; }
extern "C" __global__ void generic_pointers(unsigned *dst, int *values, int n) {
    __shared__ unsigned counters[4];
    __shared__ int box[64];
    int t = threadIdx.x, own[4] = {t, t + 1, t + 2, t + 3};
    if (t < 4) counters[t] = 0;
    box[t] = t;
    __syncthreads();
    unsigned *where = t & 1 ? &counters[t & 3] : &dst[t & 3];
    bump(where, t);
    int *place = t % 3 == 0 ? &own[t & 3] : t % 3 == 1 ? &box[t] : &values[t];
    put(place, 100 * t);
    double *wide = t & 2 ? (double *)&box[t & ~1] : (double *)&values[64 + (t & ~1)];
    __syncthreads();
    values[128 + t] = own[t & 3] + box[t] + values[t];
    __syncthreads();
    if (t < 4) dst[4 + t] = counters[t];
    if ((t & 1) == 0) atomicAdd(wide, 1.5);
    __syncthreads();
    values[192 + t] = box[t];
    dst[8 + t] = __isShared(place) + 2 * __isGlobal(place) + 4 * __isLocal(place) + 8 * __isConstant(place);
}

#define RMW(op, type, reg, where, by) asm volatile(op " %0, [%1], %2;" : "=" reg(r##type) : "l"(where), reg(by) : "memory");
extern "C" __global__ void ptx_atomics(unsigned *u, unsigned long long *l, unsigned *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned rb32, x = i + 1;
    unsigned long long rb64, y = (unsigned long long)i + 1;
    RMW("atom.add.u32", b32, "r", u, x) out[i] = rb32 != 0xFFFFFFFF;
    RMW("atom.relaxed.gpu.global.add.u32", b32, "r", u + 1, x) RMW("atom.acquire.cta.global.min.s32", b32, "r", u + 2, x) RMW("atom.release.sys.global.max.u32", b32, "r", u + 3, x) RMW("atom.acq_rel.gpu.or.b32", b32, "r", u + 4, x) RMW("atom.global.exch.b32", b32, "r", u + 32 + i, x) RMW("atom.global.inc.u32", b32, "r", u + 5, 6u) RMW("atom.and.b32", b32, "r", u + 6, ~x) RMW("atom.acq_rel.sys.global.xor.b32", b32, "r", u + 7, x)
    RMW("atom.global.add.u64", b64, "l", l, y) RMW("atom.relaxed.cta.global.max.s64", b64, "l", l + 1, y) RMW("atom.acq_rel.gpu.global.exch.b64", b64, "l", l + 8 + i, y)
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(u + 8), "r"(x) : "memory"); asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(l + 2), "l"(y) : "memory"); asm volatile("red.release.gpu.global.max.s32 [%0], %1;" ::"l"(u + 9), "r"(x) : "memory"); asm volatile("red.global.dec.u32 [%0], %1;" ::"l"(u + 10), "r"(5u) : "memory"); asm volatile("red.global.add.f32 [%0], %1;" ::"l"(u + 11), "f"(0.5f) : "memory"); asm volatile("red.add.f64 [%0], %1;" ::"l"(l + 3), "d"(0.25) : "memory"); asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(u + 12), "r"(0x3C003800u) : "memory"); asm volatile("red.xor.b32 [%0], %1;" ::"l"(u + 13), "r"(x) : "memory");
    asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;" : "=r"(rb32) : "l"(u + 32 + i), "r"(x), "r"(x * 7) : "memory"); asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;" : "=l"(rb64) : "l"(l + 8 + i), "l"(y), "l"(y * 7) : "memory"); asm volatile("{.reg .b16 c, v, r; mov.b16 c, 0; cvt.u16.u32 v, %1; atom.global.cas.b16 r, [%0], c, v;}" ::"l"((unsigned short *)u + 28 + (i & 1)), "r"(9u) : "memory");
}
