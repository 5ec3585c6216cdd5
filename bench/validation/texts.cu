// Hashes, ciphers and strings.

__constant__ unsigned sha_rounds[64];

__device__ unsigned turned(unsigned v, int n) { return __funnelshift_r(v, v, n); }

// SHA-256 of one 64-byte block for each thread (the compression function on the initial state).
extern "C" __global__ void sha256_blocks(unsigned *digests, const unsigned *messages, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned w[16], h[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
    for (int k = 0; k < 16; ++k) w[k] = messages[k * n + i];
    unsigned a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], q = h[7];
#pragma unroll
    for (int k = 0; k < 64; ++k) {
        if (k >= 16) {
            unsigned p = w[(k + 1) & 15], s = w[(k + 14) & 15];
            w[k & 15] += (turned(p, 7) ^ turned(p, 18) ^ p >> 3) + w[(k + 9) & 15] + (turned(s, 17) ^ turned(s, 19) ^ s >> 10);
        }
        unsigned x = q + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + sha_rounds[k] + w[k & 15];
        unsigned y = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        q = g, g = f, f = e, e = d + x, d = c, c = b, b = a, a = x + y;
    }
    unsigned out[8] = {a, b, c, d, e, f, g, q};
    for (int k = 0; k < 8; ++k) digests[k * n + i] = h[k] + out[k];
}

__constant__ unsigned md5_sines[64];
__constant__ int md5_turns[16];

extern "C" __global__ void md5_blocks(uint4 *digests, const unsigned *messages, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned w[16];
    for (int k = 0; k < 16; ++k) w[k] = messages[k * n + i];
    unsigned a = 0x67452301u, b = 0xefcdab89u, c = 0x98badcfeu, d = 0x10325476u;
#pragma unroll
    for (int k = 0; k < 64; ++k) {
        unsigned f = k < 16 ? (b & c) | (~b & d) : k < 32 ? (d & b) | (~d & c) : k < 48 ? b ^ c ^ d : c ^ (b | ~d);
        int g = k < 16 ? k : k < 32 ? (5 * k + 1) & 15 : k < 48 ? (3 * k + 5) & 15 : (7 * k) & 15;
        f += a + md5_sines[k] + w[g];
        a = d, d = c, c = b;
        b += turned(f, 32 - md5_turns[k / 16 * 4 + k % 4]);
    }
    digests[i] = make_uint4(a + 0x67452301u, b + 0xefcdab89u, c + 0x98badcfeu, d + 0x10325476u);
}

#define QUARTER(a, b, c, d) \
    a += b, d = turned(d ^ a, 16), c += d, b = turned(b ^ c, 20), a += b, d = turned(d ^ a, 24), c += d, b = turned(b ^ c, 25)

extern "C" __global__ void chacha_stream(uint4 *text, const unsigned *key, int blocks) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= blocks) return;
    unsigned in[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u, key[0], key[1], key[2], key[3],
                       key[4], key[5], key[6], key[7], (unsigned)i, 0u, 7u, 9u}, x[16];
    for (int k = 0; k < 16; ++k) x[k] = in[k];
#pragma unroll 1
    for (int round = 0; round < 10; ++round) {
        QUARTER(x[0], x[4], x[8], x[12]);
        QUARTER(x[1], x[5], x[9], x[13]);
        QUARTER(x[2], x[6], x[10], x[14]);
        QUARTER(x[3], x[7], x[11], x[15]);
        QUARTER(x[0], x[5], x[10], x[15]);
        QUARTER(x[1], x[6], x[11], x[12]);
        QUARTER(x[2], x[7], x[8], x[13]);
        QUARTER(x[3], x[4], x[9], x[14]);
    }
    for (int k = 0; k < 4; ++k) {
        uint4 t = text[i * 4 + k];
        t.x ^= x[4 * k] + in[4 * k], t.y ^= x[4 * k + 1] + in[4 * k + 1];
        t.z ^= x[4 * k + 2] + in[4 * k + 2], t.w ^= x[4 * k + 3] + in[4 * k + 3];
        text[i * 4 + k] = t;
    }
}

// Rounds of table look-ups in shared memory, as AES does them: four tables of 256 words.
extern "C" __global__ void table_cipher(uint4 *data, const unsigned *tables, int n, int rounds) {
    __shared__ unsigned s[1024];
    for (int i = threadIdx.x; i < 1024; i += 256) s[i] = tables[i];
    __syncthreads();
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    uint4 v = data[i];
    for (int r = 0; r < rounds; ++r) {
        uint4 o;
        o.x = s[v.x & 255] ^ s[256 + (v.y >> 8 & 255)] ^ s[512 + (v.z >> 16 & 255)] ^ s[768 + (v.w >> 24)];
        o.y = s[v.y & 255] ^ s[256 + (v.z >> 8 & 255)] ^ s[512 + (v.w >> 16 & 255)] ^ s[768 + (v.x >> 24)];
        o.z = s[v.z & 255] ^ s[256 + (v.w >> 8 & 255)] ^ s[512 + (v.x >> 16 & 255)] ^ s[768 + (v.y >> 24)];
        o.w = s[v.w & 255] ^ s[256 + (v.x >> 8 & 255)] ^ s[512 + (v.y >> 16 & 255)] ^ s[768 + (v.z >> 24)];
        v = o;
    }
    data[i] = v;
}

__constant__ unsigned char needle[16];

extern "C" __global__ void find_needle(int *found, const unsigned char *text, int n, int length) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n - length) return;
    int k = 0;
    while (k < length && text[i + k] == needle[k]) ++k;
    if (k == length) atomicMin(found, i);
}

// Edit distance of a 32-letter pattern to 64-letter words by Myers's bit vectors; letters are 0 to 3.
extern "C" __global__ void edit_distances(int *distances, const unsigned char *words, const unsigned *masks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned up = ~0u, down = 0u;
    int score = 32;
    for (int k = 0; k < 64; ++k) {
        unsigned equal = masks[words[k * n + i]], x = equal | down;
        unsigned d = (((x & up) + up) ^ up) | x, hp = down | ~(d | up), hn = up & d;
        score += (hp >> 31) - (hn >> 31);
        hp = hp << 1 | 1;
        up = hn << 1 | ~(d | hp);
        down = hp & d;
    }
    distances[i] = score;
}

extern "C" __global__ void base64_encode(uchar4 *dst, const unsigned char *src, int groups) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= groups) return;
    unsigned v = src[3 * i] << 16 | src[3 * i + 1] << 8 | src[3 * i + 2];
    unsigned char out[4];
    for (int k = 0; k < 4; ++k) {
        int c = v >> (18 - 6 * k) & 63;
        out[k] = c < 26 ? 'A' + c : c < 52 ? 'a' + c - 26 : c < 62 ? '0' + c - 52 : c == 62 ? '+' : '/';
    }
    dst[i] = make_uchar4(out[0], out[1], out[2], out[3]);
}
