// Integer hashing: murmur3, xxhash32, table-driven and bitwise CRC-32, FNV-1a of 64 bits.
__device__ __forceinline__ unsigned rotate_left(unsigned x, int by) { return __funnelshift_l(x, x, by); }

extern "C" __global__ void hash_murmur3(unsigned *dst, const unsigned *keys, int words, unsigned seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned h = seed;
    for (int w = 0; w < words; ++w) {
        unsigned k = keys[i * words + w] * 0xcc9e2d51u;
        k = rotate_left(k, 15) * 0x1b873593u;
        h = rotate_left(h ^ k, 13) * 5u + 0xe6546b64u;
    }
    h ^= words * 4;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    dst[i] = h ^ h >> 16;
}

// xxHash32 of 16 bytes.
extern "C" __global__ void hash_xxhash32(unsigned *dst, const uint4 *keys, unsigned seed) {
    const unsigned p1 = 2654435761u, p2 = 2246822519u, p3 = 3266489917u;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 key = keys[i];
    unsigned a = rotate_left(seed + p1 + p2 + key.x * p2, 13) * p1;
    unsigned b = rotate_left(seed + p2 + key.y * p2, 13) * p1;
    unsigned c = rotate_left(seed + key.z * p2, 13) * p1;
    unsigned d = rotate_left(seed - p1 + key.w * p2, 13) * p1;
    unsigned h = rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18) + 16u;
    h = (h ^ h >> 15) * p2;
    h = (h ^ h >> 13) * p3;
    dst[i] = h ^ h >> 16;
}

extern "C" __global__ void hash_crc32(unsigned *dst, const unsigned char *messages, int length) {
    __shared__ unsigned table[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) {
        unsigned crc = b;
        for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        table[b] = crc;
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned crc = 0xffffffffu;
    for (int k = 0; k < length; ++k) crc = table[(crc ^ messages[i * length + k]) & 255] ^ crc >> 8;
    dst[i] = ~crc;
}

extern "C" __global__ void hash_fnv64(unsigned long long *dst, const unsigned char *messages, const int *lengths,
                                      int pitch) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long h = 14695981039346656037ull;
    for (int k = 0; k < lengths[i]; ++k) h = (h ^ messages[i * pitch + k]) * 1099511628211ull;
    dst[i] = h;
}
