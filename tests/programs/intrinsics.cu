// Integer and bit intrinsics, one result column each: permutes, funnel shifts, dot products, high products, averages.
// options: --device-int128

extern "C" __global__ void integer_intrinsics(unsigned *dst, const unsigned *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = src[i], b = src[n + i], c = src[2 * n + i];
    int k = 0;
#define OUT(x) dst[k++ * n + i] = (unsigned)(x)
    OUT(__byte_perm(a, b, c));
    OUT(__byte_perm(a, b, 0x6240));
    OUT(__byte_perm(a, 0, 0x4441));
    OUT(__funnelshift_l(a, b, c));
    OUT(__funnelshift_r(a, b, c));
    OUT(__funnelshift_lc(a, b, c & 63));
    OUT(__funnelshift_rc(a, b, c & 63));
    OUT(__funnelshift_l(a, a, 13));
    OUT(__dp4a((int)a, (int)b, (int)c));
    OUT(__dp4a(a, b, c));
    OUT(__dp2a_lo((int)a, (int)b, (int)c));
    OUT(__dp2a_hi((int)a, (int)b, (int)c));
    OUT(__dp2a_lo(a, b, c));
    OUT(__dp2a_hi(a, b, c));
    OUT(__brev(a));
    OUT(__clz((int)a));
    OUT(__clz((int)(a & 0xFF)));
    OUT(__ffs((int)(a & (0u - (c & 1)))));
    OUT(__popc(a));
    OUT(__mul24((int)a, (int)b));
    OUT(__umul24(a, b));
    OUT(__mulhi((int)a, (int)b));
    OUT(__umulhi(a, b));
    OUT(__sad((int)a, (int)b, c));
    OUT(__usad(a, b, c));
    OUT(__hadd((int)a, (int)b));
    OUT(__rhadd((int)a, (int)b));
    OUT(__uhadd(a, b));
    OUT(__urhadd(a, b));
    OUT(abs((int)a));
    OUT(min((int)a, (int)b));
    OUT(max((int)a, (int)b));
    OUT(umin(a, b));
    OUT(umax(a, b));
    OUT(min(max((int)a, -1000), 1000));
    OUT((int)a >> (b & 31));
    OUT(a >> (b & 31));
    OUT(a << (b & 31));
    OUT((int)a / (int)(b | 1));
    OUT((int)a % (int)(b | 1));
    OUT(a / (b >> 20 | 1));
    OUT(a % (b >> 20 | 1));
    OUT((short)a * (short)b);
    OUT((signed char)(a >> 8) + (unsigned char)b);
    OUT((unsigned short)a + (short)(b >> 16));
    OUT(__fns(a, c & 31, 1 + (b & 3)));
    OUT(__float_as_uint(__uint_as_float(a & 0x3FFFFFFF)));
    OUT((a & b) | (~a & c));
    OUT((a & b) ^ (a & c) ^ (b & c));
    OUT(a ^ b ^ c);
}
#define INTEGER_COLUMNS 50

extern "C" __global__ void wide_intrinsics(unsigned long long *dst, const unsigned long long *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long a = src[i], b = src[n + i], c = src[2 * n + i];
    int k = 0;
    OUT(0);
    k = 0;
#undef OUT
#define OUT(x) dst[k++ * n + i] = (unsigned long long)(x)
    OUT(__umul64hi(a, b));
    OUT(__mul64hi((long long)a, (long long)b));
    OUT(__brevll(a));
    OUT(__clzll((long long)a));
    OUT(__clzll((long long)(a >> 40)));
    OUT(__ffsll((long long)(a & -(c & 1))));
    OUT(__popcll(a));
    OUT(llabs((long long)a));
    OUT(llmin((long long)a, (long long)b));
    OUT(llmax((long long)a, (long long)b));
    OUT(ullmin(a, b));
    OUT(ullmax(a, b));
    OUT(a << (c & 63));
    OUT(a >> (c & 63));
    OUT((long long)a >> (c & 63));
    OUT(a * b + c);
    OUT(a / (b >> 30 | 1));
    OUT(a % (b >> 30 | 1));
    OUT((long long)a / (long long)(b | 1));
    OUT((long long)a % (long long)(b | 1));
    OUT(a / 1000000007ull);
    OUT((long long)a % 10ll);
    OUT((int)a < (int)b ? a : b);
    OUT(__double_as_longlong(__longlong_as_double((long long)a & 0x3FFFFFFFFFFFFFFFll)));
    OUT(__hiloint2double((int)(a >> 33), (int)b) == 0.0);
    OUT((unsigned)a * (unsigned long long)(unsigned)b);
    OUT((long long)(int)a * (int)b);
    OUT((long long)(int)a * (int)b + (long long)c);
    OUT((unsigned)a * (unsigned long long)(unsigned)b - c);
    unsigned __int128 wide = (unsigned __int128)a * b + c;
    OUT(wide);
    OUT(wide >> 64);
    OUT(wide >> (c & 127));
    OUT((wide << (c & 127)) >> 64);
    OUT(wide / ((unsigned __int128)b << 3 | 1));
    OUT((__int128)(long long)a * (long long)b >> 70);
    OUT(wide > ((unsigned __int128)c << 64 | a));
}

extern "C" __global__ void video_intrinsics(unsigned *dst, const unsigned *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = src[i], b = src[n + i];
    int k = 0;
#undef OUT
#define OUT(x) dst[k++ * n + i] = (unsigned)(x)
#define BOTH(f) OUT(f##2(a, b)); OUT(f##4(a, b));
    BOTH(__vadd) BOTH(__vaddss) BOTH(__vaddus) BOTH(__vsub) BOTH(__vsubss) BOTH(__vsubus)
    BOTH(__vabsdiffs) BOTH(__vabsdiffu) BOTH(__vavgs) BOTH(__vavgu) BOTH(__vhaddu)
    BOTH(__vcmpeq) BOTH(__vcmpges) BOTH(__vcmpgeu) BOTH(__vcmpgts) BOTH(__vcmpgtu) BOTH(__vcmples) BOTH(__vcmpltu) BOTH(__vcmpne)
    BOTH(__vmaxs) BOTH(__vmaxu) BOTH(__vmins) BOTH(__vminu) BOTH(__vsads) BOTH(__vsadu)
    BOTH(__vseteq) BOTH(__vsetges) BOTH(__vsetgtu) BOTH(__vsetlts) BOTH(__vsetne)
    OUT(__vabs2(a)); OUT(__vabs4(a)); OUT(__vabsss2(a)); OUT(__vabsss4(a));
    OUT(__vneg2(a)); OUT(__vneg4(a)); OUT(__vnegss2(a)); OUT(__vnegss4(a));
    OUT(__viaddmax_s32((int)a, (int)b, 77)); OUT(__viaddmin_s32_relu((int)a, (int)b, 1 << 20));
    OUT(__viaddmax_s16x2(a, b, 0x00100020)); OUT(__viaddmin_u16x2(a, b, 0x7FFF1234));
    OUT(__vimax3_s32((int)a, (int)b, -5)); OUT(__vimin3_u32(a, b, 0x40000000));
    OUT(__vimax3_s16x2(a, b, 0x00010002)); OUT(__vimin3_s16x2_relu(a, b, 0x40004000));
    OUT(__vimax_s32_relu((int)a, (int)b)); OUT(__vimin_s16x2_relu(a, b));
    bool hi, lo;
    OUT(__vibmax_s32((int)a, (int)b, &hi) + hi);
    OUT(__vibmin_u16x2(a, b, &hi, &lo) + 2 * hi + lo);
}
