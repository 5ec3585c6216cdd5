// Integer arithmetic: division and modulo of 32 and 64 bits, high products, bit counting, funnel shifts, bytes.
extern "C" __global__ void integer_divide(int *dst, unsigned *unsigned_dst, const int *a, const int *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i];
    dst[4 * i] = x / y;
    dst[4 * i + 1] = x % y;
    dst[4 * i + 2] = x / 7;
    dst[4 * i + 3] = x % 1000;
    unsigned_dst[4 * i] = (unsigned)x / (unsigned)y;
    unsigned_dst[4 * i + 1] = (unsigned)x % (unsigned)y;
    unsigned_dst[4 * i + 2] = (unsigned)x / 7u;
    unsigned_dst[4 * i + 3] = (unsigned)x % 10u;
}

extern "C" __global__ void integer_divide_wide(long long *dst, unsigned long long *unsigned_dst, const long long *a,
                                               const long long *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long x = a[i], y = b[i];
    dst[2 * i] = x / y;
    dst[2 * i + 1] = x % y;
    unsigned_dst[2 * i] = (unsigned long long)x / (unsigned long long)y;
    unsigned_dst[2 * i + 1] = (unsigned long long)x % (unsigned long long)y;
}

extern "C" __global__ void integer_wide(unsigned long long *dst, const unsigned long long *a,
                                        const unsigned long long *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long x = a[i], y = b[i];
    dst[10 * i] = x + y;
    dst[10 * i + 1] = x - y;
    dst[10 * i + 2] = x * y;
    dst[10 * i + 3] = x << (y & 63);
    dst[10 * i + 4] = x >> (y & 63);
    dst[10 * i + 5] = (long long)x >> (y & 63);
    dst[10 * i + 6] = (x & y) ^ (x | ~y);
    dst[10 * i + 7] = (x < y ? 1 : 0) + ((long long)x < (long long)y ? 2 : 0) + (x == y ? 4 : 0);
    dst[10 * i + 8] = (unsigned long long)llabs((long long)x);
    dst[10 * i + 9] = min((long long)x, (long long)y) ^ max(x, y);
}

extern "C" __global__ void integer_high(unsigned *dst, unsigned long long *wide, const unsigned *a, const unsigned *b,
                                        const unsigned long long *c, const unsigned long long *d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    dst[5 * i] = __umulhi(a[i], b[i]);
    dst[5 * i + 1] = (unsigned)__mulhi((int)a[i], (int)b[i]);
    dst[5 * i + 2] = __umul24(a[i], b[i]);
    dst[5 * i + 3] = (unsigned)__hadd((int)a[i], (int)b[i]);
    dst[5 * i + 4] = __usad(a[i], b[i], 7u);
    wide[4 * i] = __umul64hi(c[i], d[i]);
    wide[4 * i + 1] = (unsigned long long)__mul64hi((long long)c[i], (long long)d[i]);
    wide[4 * i + 2] = (unsigned long long)a[i] * b[i] + c[i];
    wide[4 * i + 3] = (unsigned long long)((long long)(int)a[i] * (int)b[i] - (long long)d[i]);
}

extern "C" __global__ void integer_bits(int *dst, const unsigned *a, const unsigned long long *wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i];
    unsigned long long w = wide[i];
    dst[10 * i] = __popc(x);
    dst[10 * i + 1] = __clz(x);
    dst[10 * i + 2] = __ffs(x);
    dst[10 * i + 3] = (int)__brev(x);
    dst[10 * i + 4] = __popcll(w);
    dst[10 * i + 5] = __clzll(w);
    dst[10 * i + 6] = __ffsll(w);
    dst[10 * i + 7] = (int)(__brevll(w) >> 32);
    dst[10 * i + 8] = (int)(x >> 5 & 0x7ff) + ((int)(x << 9) >> 21);
    dst[10 * i + 9] = (int)((x & 0x00ff00ffu) | ((~x & 0xff000000u) ^ (unsigned)w));
}

extern "C" __global__ void integer_bytes(unsigned *dst, const unsigned *a, const unsigned *b, const unsigned *c,
                                         int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i], s = c[i];
    dst[8 * i] = __byte_perm(x, y, s & 0x7777);
    dst[8 * i + 1] = __byte_perm(x, 0, 0x0123);
    dst[8 * i + 2] = __funnelshift_l(x, y, s);
    dst[8 * i + 3] = __funnelshift_r(x, y, s);
    dst[8 * i + 4] = __funnelshift_lc(x, y, s & 63);
    dst[8 * i + 5] = __funnelshift_rc(x, y, s & 63);
    dst[8 * i + 6] = (unsigned)__dp4a((int)x, (int)y, (int)s);
    dst[8 * i + 7] = __dp4a(x, y, s) + __vadd4(x, y);
}

extern "C" __global__ void integer_narrow(short *shorts, signed char *chars, unsigned char *bytes, const short *a,
                                          const signed char *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short x = a[i];
    signed char y = b[i];
    shorts[i] = (short)(x * 3 + y);
    chars[i] = (signed char)(x >> 3);
    bytes[i] = (unsigned char)(y < 0 ? -y : x / (y + 1));
}
