// Numbers of many words, ciphers and hashes, random numbers.
typedef unsigned long long u64;

__constant__ u64 rounds512[80];
__device__ u64 turned(u64 x, int k) { return x >> k | x << 64 - k; }

// SHA-512 of messages of one block each.
extern "C" __global__ void __launch_bounds__(128) sha512_blocks(u64 *digest, const u64 *message, int n) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    u64 w[16], h[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
    u64 a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
    #pragma unroll
    for (int j = 0; j < 16; ++j) w[j] = message[j * n + i];
    #pragma unroll 16
    for (int j = 0; j < 80; ++j) {
        if (j >= 16) {
            u64 x = w[(j + 1) % 16], y = w[(j + 14) % 16];
            w[j % 16] += (turned(x, 1) ^ turned(x, 8) ^ x >> 7) + w[(j + 9) % 16] + (turned(y, 19) ^ turned(y, 61) ^ y >> 6);
        }
        u64 one = k + (turned(e, 14) ^ turned(e, 18) ^ turned(e, 41)) + (e & f ^ ~e & g) + rounds512[j] + w[j % 16];
        u64 two = (turned(a, 28) ^ turned(a, 34) ^ turned(a, 39)) + (a & b ^ a & c ^ b & c);
        k = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    u64 out[8] = {a, b, c, d, e, f, g, k};
    #pragma unroll
    for (int j = 0; j < 8; ++j) digest[j * n + i] = h[j] + out[j];
}

// Poly1305 tags in limbs of 26 bits.
extern "C" __global__ void poly1305_tags(uint4 *tag, const uint4 *messages, const uint4 *keys, int n, int blocks) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uint4 k = keys[2 * i], s = keys[2 * i + 1];
    unsigned r0 = k.x & 0x3ffffff, r1 = (k.x >> 26 | k.y << 6) & 0x3ffff03, r2 = (k.y >> 20 | k.z << 12) & 0x3ffc0ff, r3 = (k.z >> 14 | k.w << 18) & 0x3f03fff, r4 = k.w >> 8 & 0x00fffff;
    unsigned s1 = r1 * 5, s2 = r2 * 5, s3 = r3 * 5, s4 = r4 * 5;
    u64 h0 = 0, h1 = 0, h2 = 0, h3 = 0, h4 = 0;
    for (int b = 0; b < blocks; ++b) {
        uint4 m = messages[(long long)b * n + i];
        h0 += m.x & 0x3ffffff, h1 += (m.x >> 26 | m.y << 6) & 0x3ffffff, h2 += (m.y >> 20 | m.z << 12) & 0x3ffffff, h3 += (m.z >> 14 | m.w << 18) & 0x3ffffff, h4 += m.w >> 8 | 1 << 24;
        u64 d0 = h0 * r0 + h1 * s4 + h2 * s3 + h3 * s2 + h4 * s1, d1 = h0 * r1 + h1 * r0 + h2 * s4 + h3 * s3 + h4 * s2;
        u64 d2 = h0 * r2 + h1 * r1 + h2 * r0 + h3 * s4 + h4 * s3, d3 = h0 * r3 + h1 * r2 + h2 * r1 + h3 * r0 + h4 * s4, d4 = h0 * r4 + h1 * r3 + h2 * r2 + h3 * r1 + h4 * r0;
        d1 += d0 >> 26, h0 = d0 & 0x3ffffff;
        d2 += d1 >> 26, h1 = d1 & 0x3ffffff;
        d3 += d2 >> 26, h2 = d2 & 0x3ffffff;
        d4 += d3 >> 26, h3 = d3 & 0x3ffffff;
        h0 += (d4 >> 26) * 5, h4 = d4 & 0x3ffffff;
        h1 += h0 >> 26, h0 &= 0x3ffffff;
    }
    h2 += h1 >> 26, h1 &= 0x3ffffff, h3 += h2 >> 26, h2 &= 0x3ffffff, h4 += h3 >> 26, h3 &= 0x3ffffff, h0 += (h4 >> 26) * 5, h4 &= 0x3ffffff, h1 += h0 >> 26, h0 &= 0x3ffffff;
    u64 g0 = h0 + 5, g1 = h1 + (g0 >> 26), g2 = h2 + (g1 >> 26), g3 = h3 + (g2 >> 26), g4 = h4 + (g3 >> 26) - (1ull << 26);
    if (!(g4 >> 63)) h0 = g0 & 0x3ffffff, h1 = g1 & 0x3ffffff, h2 = g2 & 0x3ffffff, h3 = g3 & 0x3ffffff, h4 = g4;
    u64 f0 = (unsigned)(h0 | h1 << 26) + (u64)s.x, f1 = (unsigned)(h1 >> 6 | h2 << 20) + (u64)s.y + (f0 >> 32);
    u64 f2 = (unsigned)(h2 >> 12 | h3 << 14) + (u64)s.z + (f1 >> 32), f3 = (unsigned)(h3 >> 18 | h4 << 8) + (u64)s.w + (f2 >> 32);
    tag[i] = make_uint4(f0, f1, f2, f3);
}

// Products of numbers of 1024 bits, a thread a pair: 32 words by 32, carries in registers.
extern "C" __global__ void __launch_bounds__(64) bignum_mul_1024(unsigned *out, const unsigned *a, const unsigned *b, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    unsigned x[32], sum[32];
    #pragma unroll
    for (int j = 0; j < 32; ++j) x[j] = a[j * n + i], sum[j] = 0;
    for (int k = 0; k < 32; ++k) {
        unsigned y = b[k * n + i];
        u64 carry = 0;
        #pragma unroll
        for (int j = 0; j < 32; ++j) {
            carry += (u64)x[j] * y + sum[j];
            if (j) sum[j - 1] = (unsigned)carry;
            else out[k * n + i] = (unsigned)carry;
            carry >>= 32;
        }
        sum[31] = (unsigned)carry;
    }
    #pragma unroll
    for (int j = 0; j < 32; ++j) out[(32 + j) * n + i] = sum[j];
}

struct Field { unsigned w[8]; };

__device__ void reduce_once(Field &r) {
    // The prime is 2^256 - 2^32 - 977.
    Field t;
    u64 c = 977;
    c += r.w[0], t.w[0] = (unsigned)c, c >>= 32;
    c += (u64)r.w[1] + 1, t.w[1] = (unsigned)c, c >>= 32;
    #pragma unroll
    for (int k = 2; k < 8; ++k) c += r.w[k], t.w[k] = (unsigned)c, c >>= 32;
    if (c) r = t;
}
__device__ void fold(Field &r, unsigned over) {
    while (over) {
        u64 c = (u64)over * 977 + r.w[0];
        r.w[0] = (unsigned)c, c >>= 32;
        c += (u64)r.w[1] + over, r.w[1] = (unsigned)c, c >>= 32;
        #pragma unroll
        for (int k = 2; k < 8; ++k) c += r.w[k], r.w[k] = (unsigned)c, c >>= 32;
        over = (unsigned)c;
    }
    reduce_once(r);
}
__device__ Field multiply(const Field &a, const Field &b) {
    unsigned p[16];
    #pragma unroll
    for (int k = 0; k < 16; ++k) p[k] = 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        u64 c = 0;
        #pragma unroll
        for (int j = 0; j < 8; ++j) c += (u64)a.w[i] * b.w[j] + p[i + j], p[i + j] = (unsigned)c, c >>= 32;
        p[i + 8] = (unsigned)c;
    }
    Field r;
    u64 c = 0, d = 0;
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        c += (u64)p[k + 8] * 977 + p[k];
        d = (c & 0xffffffff) + (k ? p[k + 7] : 0);
        r.w[k] = (unsigned)d, c = (c >> 32) + (d >> 32);
    }
    c += p[15];
    // What is over 256 bits has up to 34 bits: its low word, and its high bits at the next word.
    unsigned low = (unsigned)c, high = (unsigned)(c >> 32);
    u64 e = (u64)low * 977 + r.w[0];
    r.w[0] = (unsigned)e, e >>= 32;
    e += (u64)r.w[1] + low + (u64)high * 977, r.w[1] = (unsigned)e, e >>= 32;
    e += (u64)r.w[2] + high, r.w[2] = (unsigned)e, e >>= 32;
    #pragma unroll
    for (int k = 3; k < 8; ++k) e += r.w[k], r.w[k] = (unsigned)e, e >>= 32;
    fold(r, (unsigned)e);
    return r;
}
__device__ Field plus(const Field &a, const Field &b) {
    Field r;
    u64 c = 0;
    #pragma unroll
    for (int k = 0; k < 8; ++k) c += (u64)a.w[k] + b.w[k], r.w[k] = (unsigned)c, c >>= 32;
    fold(r, (unsigned)c);
    return r;
}
__device__ Field minus(const Field &a, const Field &b) {
    Field r;
    long long c = 0;
    #pragma unroll
    for (int k = 0; k < 8; ++k) c += (long long)a.w[k] - b.w[k], r.w[k] = (unsigned)c, c >>= 32;
    if (c) {
        unsigned prime[8] = {0xfffffc2f, 0xfffffffe, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u};
        u64 up = 0;
        #pragma unroll
        for (int k = 0; k < 8; ++k) up += (u64)r.w[k] + prime[k], r.w[k] = (unsigned)up, up >>= 32;
    }
    return r;
}

// Points of secp256k1 doubled some times, Jacobian coordinates.
extern "C" __global__ void __launch_bounds__(128) secp256k1_double(unsigned *out, const unsigned *in, int n, int times) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    Field x, y, z;
    #pragma unroll
    for (int k = 0; k < 8; ++k) x.w[k] = in[k * n + i], y.w[k] = in[(8 + k) * n + i], z.w[k] = in[(16 + k) * n + i];
    #pragma unroll 1
    for (int t = 0; t < times; ++t) {
        Field a = multiply(x, x), b = multiply(y, y), c = multiply(b, b), xb = plus(x, b);
        Field d = minus(minus(multiply(xb, xb), a), c);
        d = plus(d, d);
        Field e = plus(plus(a, a), a), f = multiply(e, e), yz = multiply(y, z);
        x = minus(f, plus(d, d));
        c = plus(c, c), c = plus(c, c), c = plus(c, c);
        y = minus(multiply(e, minus(d, x)), c);
        z = plus(yz, yz);
    }
    #pragma unroll
    for (int k = 0; k < 8; ++k) out[k * n + i] = x.w[k], out[(8 + k) * n + i] = y.w[k], out[(16 + k) * n + i] = z.w[k];
}

__device__ u64 multiply(u64 a, u64 b, u64 m) {
    u64 high = __umul64hi(a, b), low = a * b;
    for (int k = 0; k < 64; ++k) {
        bool over = high >> 63;
        high = high << 1 | low >> 63, low <<= 1;
        if (over || high >= m) high -= m;
    }
    return high;
}

// Miller and Rabin's test of odd numbers to a few bases: most leave early.
extern "C" __global__ void miller_rabin(unsigned char *prime, const u64 *numbers, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 m = numbers[i], odd = m - 1;
    int twos = __ffsll(odd) - 1;
    odd >>= twos;
    bool ok = true;
    for (int base = 2; base < 8 && ok; base += base == 2 ? 1 : 2) {
        u64 x = 1, power = base % m;
        for (u64 e = odd; e; e >>= 1) {
            if (e & 1) x = multiply(x, power, m);
            power = multiply(power, power, m);
        }
        if (x == 1 || x == m - 1) continue;
        ok = false;
        for (int k = 1; k < twos && !ok; ++k) {
            x = multiply(x, x, m);
            ok = x == m - 1;
        }
    }
    prime[i] = ok;
}

// Mixing that wants memory: 64 words of scratch a thread in the chip's memory, filled and then read where the state says.
extern "C" __global__ void __launch_bounds__(64) memory_hard(unsigned *out, uint4 *scratch, int n, int rounds) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    uint4 s = make_uint4(i, i * 0x9e3779b9u, ~i, i ^ 0x5bd1e995u);
    auto quarter = [&]() {
        s.x += s.y, s.w = __funnelshift_l(s.w ^ s.x, s.w ^ s.x, 16);
        s.z += s.w, s.y = __funnelshift_l(s.y ^ s.z, s.y ^ s.z, 12);
        s.x += s.y, s.w = __funnelshift_l(s.w ^ s.x, s.w ^ s.x, 8);
        s.z += s.w, s.y = __funnelshift_l(s.y ^ s.z, s.y ^ s.z, 7);
    };
    for (int k = 0; k < 64; ++k) quarter(), scratch[(long long)i * 64 + k] = s;
    for (int r = 0; r < rounds; ++r) {
        uint4 *at = scratch + (long long)i * 64 + (s.x & 63), v = *at;
        s.x ^= v.x, s.y ^= v.y, s.z ^= v.z, s.w ^= v.w;
        quarter();
        *at = s;
    }
    out[i] = s.x ^ s.y ^ s.z ^ s.w;
}

// Xorwow states drawn from and kept in memory, pairs of normal numbers by Box and Muller.
extern "C" __global__ void xorwow_normals(float2 *out, unsigned *state, int threads, int each) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= threads) return;
    unsigned v[6];
    for (int k = 0; k < 6; ++k) v[k] = state[k * threads + i];
    auto draw = [&]() {
        unsigned t = v[0] ^ v[0] >> 2;
        v[0] = v[1], v[1] = v[2], v[2] = v[3], v[3] = v[4];
        v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1, v[5] += 362437;
        return v[4] + v[5];
    };
    for (int k = 0; k < each; ++k) {
        float u = draw() * 2.3283064e-10f + 1.1641532e-10f, w = draw() * 2.3283064e-10f * 6.28318531f, r = sqrtf(-2.0f * logf(u)), s, c;
        __sincosf(w, &s, &c);
        out[(long long)k * threads + i] = make_float2(r * s, r * c);
    }
    for (int k = 0; k < 6; ++k) state[k * threads + i] = v[k];
}
