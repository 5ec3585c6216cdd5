// Inline PTX, floating point: roundings, saturation, flushes, comparisons, tests of class, packed halves, conversions.

#define ONE(text) asm(text : "=f"(r) : "f"(a), "f"(b), "f"(c)); dst[k++ * n + i] = r;
#define BIT(text) asm(text : "=r"(u) : "f"(a), "f"(b), "f"(c)); dst[k++ * n + i] = __uint_as_float(u & 0x3FFFFFFF);

extern "C" __global__ void ptx_float(float *dst, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    float a = src[i], b = src[n + i], c = src[2 * n + i], r;
    unsigned u;
    ONE("fma.rz.f32 %0, %1, %2, %3;") ONE("fma.rn.sat.f32 %0, %1, %2, %3;") ONE("fma.rp.ftz.f32 %0, %1, %2, %3;") ONE("add.rm.f32 %0, %1, %2;") ONE("add.sat.f32 %0, %1, %2;") ONE("mul.rz.ftz.sat.f32 %0, %1, %2;") ONE("sub.ftz.f32 %0, %1, %2;")
    ONE("min.f32 %0, %1, %2;") ONE("max.ftz.f32 %0, %1, %2;") ONE("abs.ftz.f32 %0, %1;") ONE("neg.ftz.f32 %0, %1;") ONE("copysign.f32 %0, %1, %2;") ONE("cvt.rni.f32.f32 %0, %1;") ONE("cvt.rmi.ftz.f32.f32 %0, %1;") ONE("cvt.sat.f32.f32 %0, %1;") ONE("cvt.rpi.sat.f32.f32 %0, %1;")
    ONE("div.rp.f32 %0, %1, %2;") ONE("div.rz.ftz.f32 %0, %1, %2;") ONE("rcp.rm.f32 %0, %1;") ONE("sqrt.rz.ftz.f32 %0, %1;") ONE("rcp.rn.ftz.f32 %0, %1;")
    ONE("{.reg .pred p; setp.ltu.f32 p, %1, %2; selp.f32 %0, %1, %3, p;}") ONE("{.reg .pred p, q; setp.num.f32 p, %1, %2; setp.gt.and.ftz.f32 q, %1, %3, p; selp.f32 %0, 0f3F800000, %3, q;}") ONE("{.reg .pred p; setp.equ.f32 p, %1, %2; selp.f32 %0, %1, 0f40490FDB, !p;}")
    ONE("slct.f32.f32 %0, %1, %2, %3;") ONE("slct.ftz.f32.f32 %0, %1, %2, %3;") ONE("set.le.f32.f32 %0, %1, %2;") ONE("set.neu.f32.f32 %0, %1, %2;") BIT("set.gt.u32.f32 %0, %1, %2;")
    BIT("{.reg .pred p; testp.finite.f32 p, %1; selp.u32 %0, 1, 2, p;}") BIT("{.reg .pred p; testp.infinite.f32 p, %1; selp.u32 %0, 1, 2, p;}") BIT("{.reg .pred p; testp.number.f32 p, %1; selp.u32 %0, 1, 2, p;}") BIT("{.reg .pred p; testp.notanumber.f32 p, %1; selp.u32 %0, 1, 2, p;}") BIT("{.reg .pred p; testp.normal.f32 p, %1; selp.u32 %0, 1, 2, p;}") BIT("{.reg .pred p; testp.subnormal.f32 p, %1; selp.u32 %0, 1, 2, p;}")
    BIT("cvt.rni.s32.f32 %0, %1;") BIT("cvt.rzi.ftz.u32.f32 %0, %1;") BIT("{.reg .s16 h; cvt.rpi.s16.f32 h, %1; cvt.s32.s16 %0, h;}") BIT("{.reg .u16 h; cvt.rzi.u16.f32 h, %1; cvt.u32.u16 %0, h;}") BIT("cvt.rzi.s8.f32 %0, %1;") BIT("cvt.rmi.u8.f32 %0, %1;")
    BIT("{.reg .b16 h, g; cvt.rn.f16.f32 h, %1; cvt.rz.f16.f32 g, %2; mov.b32 %0, {h, g};}") BIT("{.reg .b16 h; cvt.rn.ftz.sat.f16.f32 h, %1; cvt.u32.u16 %0, h;}") BIT("{.reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.rmi.f16.f16 h, h; cvt.u32.u16 %0, h;}")
    ONE("{.reg .f64 d; cvt.f64.f32 d, %1; mul.rp.f64 d, d, 0d3FF3333333333333; cvt.rm.f32.f64 %0, d;}") ONE("{.reg .f64 d, e; cvt.f64.f32 d, %1; cvt.f64.f32 e, %2; min.f64 d, d, e; abs.f64 d, d; add.rz.f64 d, d, e; cvt.rz.ftz.f32.f64 %0, d;}") ONE("{.reg .f64 d; cvt.f64.f32 d, %1; copysign.f64 d, 0d4008000000000000, d; cvt.rni.f64.f64 d, d; cvt.rn.f32.f64 %0, d;}")
    ONE("{.reg .u32 u; mov.b32 u, %1; cvt.rz.f32.u32 %0, u;}") ONE("{.reg .s32 u; mov.b32 u, %1; cvt.rp.f32.s32 %0, u;}") ONE("{.reg .s16 h, g; .reg .u32 u; mov.b32 u, %1; mov.b32 {h, g}, u; cvt.rn.f32.s16 %0, g;}") ONE("{.reg .u32 u; mov.b32 u, %1; cvt.rn.f32.u8 %0, u;}")
}

#define PACKED(text) asm(text : "=r"(r) : "r"(a), "r"(b), "r"(c)); dst[k++ * n + i] = r;
extern "C" __global__ void ptx_half(unsigned *dst, const unsigned *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    unsigned a = src[i], b = src[n + i], c = src[2 * n + i], r;
    PACKED("add.f16x2 %0, %1, %2;") PACKED("add.rn.sat.f16x2 %0, %1, %2;") PACKED("sub.ftz.f16x2 %0, %1, %2;") PACKED("mul.f16x2 %0, %1, %2;") PACKED("fma.rn.f16x2 %0, %1, %2, %3;") PACKED("fma.rn.ftz.f16x2 %0, %1, %2, %3;") PACKED("fma.rn.sat.f16x2 %0, %1, %2, %3;") PACKED("neg.f16x2 %0, %1;") PACKED("abs.f16x2 %0, %1;")
    PACKED("set.lt.f16x2.f16x2 %0, %1, %2;") PACKED("set.geu.f16x2.f16x2 %0, %1, %2;") PACKED("{.reg .pred p, q; setp.lt.f16x2 p|q, %1, %2; selp.u32 %0, %1, %3, p; @q xor.b32 %0, %0, 255;}")
    PACKED("{.reg .b16 x, y; mov.b32 {x, y}, %1; add.f16 x, x, y; mul.f16 y, x, y; fma.rn.f16 y, x, x, y; mov.b32 %0, {x, y};}") PACKED("{.reg .b16 x, y; .reg .pred p; mov.b32 {x, y}, %1; setp.gt.f16 p, x, y; selp.b16 x, y, x, p; mov.b32 %0, {x, y};}")
}
