// Inline PTX, integers: bit fields, permutes, three-input logic, funnel shifts, carries over 128 bits, predicates.

#define ONE(text) asm(text : "=r"(r) : "r"(a), "r"(b), "r"(c)); dst[k++ * n + i] = r;

extern "C" __global__ void ptx_integer(unsigned *dst, const unsigned *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    unsigned a = src[i], b = src[n + i], c = src[2 * n + i], r;
    ONE("bfe.u32 %0, %1, %2, %3;") ONE("bfe.s32 %0, %1, %2, %3;") ONE("bfe.u32 %0, %1, 5, 11;") ONE("bfe.s32 %0, %1, 9, 7;")
    ONE("{.reg .u32 t; and.b32 t, %3, 31; bfi.b32 %0, %1, %2, t, 6;}") ONE("bfi.b32 %0, %1, %2, 8, 16;") ONE("bfi.b32 %0, %1, %2, %3, %2;")
    ONE("prmt.b32 %0, %1, %2, %3;") ONE("prmt.b32 %0, %1, %2, 0x1054;") ONE("prmt.b32.f4e %0, %1, %2, %3;") ONE("prmt.b32.b4e %0, %1, %2, %3;")
    ONE("prmt.b32.rc8 %0, %1, %2, %3;") ONE("prmt.b32.ecl %0, %1, %2, %3;") ONE("prmt.b32.ecr %0, %1, %2, %3;") ONE("prmt.b32.rc16 %0, %1, %2, %3;") ONE("prmt.b32 %0, %1, %2, 0xBA98;")
    ONE("lop3.b32 %0, %1, %2, %3, 0x1e;") ONE("lop3.b32 %0, %1, %2, %3, 0xd8;") ONE("lop3.b32 %0, %1, 0x12345678, %3, 0x6a;")
    ONE("shf.l.wrap.b32 %0, %1, %2, %3;") ONE("shf.r.wrap.b32 %0, %1, %2, %3;") ONE("shf.l.clamp.b32 %0, %1, %2, %3;") ONE("shf.r.clamp.b32 %0, %1, %2, %3;")
    ONE("shl.b32 %0, %1, %2;") ONE("shr.u32 %0, %1, %2;") ONE("shr.s32 %0, %1, %2;")
    ONE("mad.lo.u32 %0, %1, %2, %3;") ONE("mad.hi.s32 %0, %1, %2, %3;") ONE("mad.hi.u32 %0, %1, %2, %3;") ONE("mad.hi.sat.s32 %0, %1, %2, %3;")
    ONE("mul24.lo.s32 %0, %1, %2;") ONE("mul24.hi.u32 %0, %1, %2;") ONE("mad24.lo.u32 %0, %1, %2, %3;") ONE("mad24.hi.s32 %0, %1, %2, %3;")
    ONE("sad.s32 %0, %1, %2, %3;") ONE("sad.u32 %0, %1, %2, %3;") ONE("add.sat.s32 %0, %1, %2;") ONE("sub.sat.s32 %0, %1, %2;") ONE("abs.s32 %0, %1;") ONE("neg.s32 %0, %2;")
    ONE("popc.b32 %0, %1;") ONE("clz.b32 %0, %1;") ONE("bfind.u32 %0, %1;") ONE("bfind.s32 %0, %1;") ONE("bfind.shiftamt.u32 %0, %1;") ONE("brev.b32 %0, %1;") ONE("fns.b32 %0, %1, 3, 2;") ONE("cnot.b32 %0, %1;") ONE("bmsk.clamp.b32 %0, %1, %2;") ONE("bmsk.wrap.b32 %0, %1, %2;") ONE("szext.clamp.u32 %0, %1, %3;") ONE("szext.wrap.s32 %0, %1, %3;")
    ONE("{.reg .pred p, q, t; setp.ne.u32 t, %3, 0; setp.lt.and.u32 p|q, %1, %2, t; selp.u32 %0, %1, %3, p; @q add.u32 %0, %0, 7;}")
    ONE("{.reg .pred p, q; setp.gt.s32 p, %1, %2; setp.le.xor.s32 q, %2, %3, p; setp.eq.or.s32 p, %1, 3, !q; selp.s32 %0, %1, %2, p;}")
    ONE("slct.u32.s32 %0, %1, %2, %3;") ONE("set.lt.u32.s32 %0, %1, %2;") ONE("set.ge.u32.u32 %0, %1, %2;") ONE("min.s32 %0, %1, %2;") ONE("max.u32 %0, %1, %2;")
    ONE("vadd.s32.u32.s32.sat %0, %1.b1, %2.h1;") ONE("vsub.s32.s32.s32.max %0, %1.h0, %2.b3, %3;") ONE("vabsdiff.u32.u32.u32.add %0, %1.b0, %2.b2, %3;") ONE("vmin.s32.s32.s32 %0, %1.h1, %2.h0;") ONE("vmad.u32.u32.u32.shr7 %0, %1.h0, %2.h1, %3;") ONE("vshl.u32.u32.u32.clamp %0, %1, %2.b0;") ONE("vset.s32.u32.lt %0, %1.b0, %2;")
    ONE("vadd4.u32.u32.u32.sat %0, %1, %2, %3;") ONE("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;") ONE("vmax2.s32.s32.s32 %0, %1, %2, %3;") ONE("vavrg4.u32.u32.u32 %0, %1, %2, %3;") ONE("vset4.u32.u32.ge %0, %1, %2, %3;")
    ONE("dp4a.u32.s32 %0, %1, %2, %3;") ONE("dp4a.s32.u32 %0, %1, %2, %3;") ONE("dp2a.lo.s32.u32 %0, %1, %2, %3;") ONE("dp2a.hi.u32.s32 %0, %1, %2, %3;")
    ONE("{.reg .u16 x, y; mov.b32 {x, y}, %1; mul.lo.u16 x, x, y; add.u16 y, y, x; shr.s16 y, y, 3; mov.b32 %0, {y, x};}")
    ONE("{.reg .u16 x, y; mov.b32 {x, y}, %2; max.s16 x, x, y; sub.s16 y, x, y; mul.wide.s16 %0, x, y;}")
    ONE("{.reg .u8 x; cvt.u8.u32 x, %1; cvt.s32.s8 %0, x;}") ONE("cvt.sat.s8.s32 %0, %1;") ONE("cvt.sat.u16.s32 %0, %1;") ONE("{.reg .s16 h; cvt.sat.s16.u32 h, %1; cvt.u32.u16 %0, h;}")
}

// 128-bit sum, difference and product of four words each, by carries.
extern "C" __global__ void carry_chains(uint4 *dst, const uint4 *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 a = src[i], b = src[n + i], r;
    asm("add.cc.u32 %0, %4, %8; addc.cc.u32 %1, %5, %9; addc.cc.u32 %2, %6, %10; addc.u32 %3, %7, %11;"
        : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(b.z), "r"(b.w));
    dst[i] = r;
    asm("sub.cc.u32 %0, %4, %8; subc.cc.u32 %1, %5, %9; subc.cc.u32 %2, %6, %10; subc.u32 %3, %7, %11;"
        : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "r"(b.z), "r"(b.w));
    dst[n + i] = r;
    // a.xy times b.xy, all 128 bits.
    asm("mul.lo.u32 %0, %4, %6; mul.hi.u32 %1, %4, %6; mad.lo.cc.u32 %1, %4, %7, %1; madc.hi.u32 %2, %4, %7, 0;"
        "mad.lo.cc.u32 %1, %5, %6, %1; madc.hi.cc.u32 %2, %5, %6, %2; addc.u32 %3, 0, 0; mad.lo.cc.u32 %2, %5, %7, %2; madc.hi.u32 %3, %5, %7, %3;"
        : "=&r"(r.x), "=&r"(r.y), "=&r"(r.z), "=&r"(r.w) : "r"(a.x), "r"(a.y), "r"(b.x), "r"(b.y));
    dst[2 * n + i] = r;
    unsigned long long x = (unsigned long long)a.y << 32 | a.x, y = (unsigned long long)b.y << 32 | b.x, lo, hi;
    asm("add.cc.u64 %0, %2, %3; addc.u64 %1, %4, %5;" : "=l"(lo), "=l"(hi) : "l"(x), "l"(y), "l"(x * 3), "l"(y));
    dst[3 * n + i] = make_uint4((unsigned)lo, (unsigned)(lo >> 32), (unsigned)hi, (unsigned)(hi >> 32));
    asm("mad.lo.cc.u64 %0, %2, %3, %3; madc.hi.u64 %1, %2, %3, %2;" : "=&l"(lo), "=&l"(hi) : "l"(x), "l"(y));
    dst[4 * n + i] = make_uint4((unsigned)lo, (unsigned)(lo >> 32), (unsigned)hi, (unsigned)(hi >> 32));
}

#define WIDE(text) asm(text : "=l"(r) : "l"(a), "l"(b), "r"(c)); dst[k++ * n + i] = r;
extern "C" __global__ void ptx_wide(unsigned long long *dst, const unsigned long long *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n) return;
    unsigned long long a = src[i], b = src[n + i], r;
    unsigned c = (unsigned)(src[2 * n + i] >> 13);
    WIDE("bfe.u64 %0, %1, %3, 17;") WIDE("bfe.s64 %0, %1, 5, %3;") WIDE("bfi.b64 %0, %1, %2, 20, 30;") WIDE("{.reg .u32 t; and.b32 t, %3, 63; bfi.b64 %0, %1, %2, t, 9;}")
    WIDE("shl.b64 %0, %1, %3;") WIDE("shr.u64 %0, %1, %3;") WIDE("shr.s64 %0, %1, %3;") WIDE("{.reg .u32 t; and.b32 t, %3, 63; shl.b64 %0, %1, t;}")
    WIDE("mul.hi.s64 %0, %1, %2;") WIDE("mad.lo.s64 %0, %1, %2, %1;") WIDE("{.reg .u32 t; bfind.u64 t, %1; cvt.u64.u32 %0, t;}") WIDE("{.reg .u32 t; bfind.s64 t, %1; cvt.u64.u32 %0, t;}") WIDE("{.reg .u32 t; clz.b64 t, %1; cvt.s64.s32 %0, t;}")
    WIDE("mul.wide.u32 %0, %3, %3;") WIDE("{.reg .u32 x, y; mov.b64 {x, y}, %1; mad.wide.s32 %0, x, y, %2;}") WIDE("{.reg .u32 x, y; mov.b64 {x, y}, %1; mad.wide.u32 %0, x, y, %2;}")
    WIDE("min.s64 %0, %1, %2;") WIDE("max.u64 %0, %1, %2;") WIDE("abs.s64 %0, %1;") WIDE("brev.b64 %0, %1;") WIDE("cvt.s64.s32 %0, %3;") WIDE("{.reg .pred p; setp.lt.s64 p, %1, %2; selp.b64 %0, %1, %2, p;}") WIDE("slct.u64.s32 %0, %1, %2, %3;")
}
