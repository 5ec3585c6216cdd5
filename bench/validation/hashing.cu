// Open-addressing hash tables and a Bloom filter.

__device__ unsigned mixed(unsigned key) {
    key ^= key >> 16;
    key *= 0x7feb352du;
    key ^= key >> 15;
    key *= 0x846ca68bu;
    return key ^ key >> 16;
}

extern "C" __global__ void table_insert(unsigned *table, const unsigned *keys, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], at = mixed(key) & mask;
    while (true) {
        unsigned seen = atomicCAS(&table[at], 0u, key);
        if (seen == 0u || seen == key) break;
        at = (at + 1) & mask;
    }
}

extern "C" __global__ void table_lookup(int *found, const unsigned *table, const unsigned *keys, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i], at = mixed(key) & mask;
    int result = 0;
    while (table[at] != 0u) {
        if (table[at] == key) {
            result = 1;
            break;
        }
        at = (at + 1) & mask;
    }
    found[i] = result;
}

extern "C" __global__ void bloom_set(unsigned *bits, const unsigned *keys, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned h = mixed(keys[i]), step = mixed(h) | 1;
    for (int k = 0; k < 3; ++k, h += step) atomicOr(&bits[(h & mask) / 32], 1u << (h & 31));
}
