// Operators of data bases on columns, keys and text.
typedef unsigned long long u64;
typedef unsigned char u8;

__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// Pairs to 64 partitions: a block orders its tile in shared memory, then writes each partition's run together.
extern "C" __global__ void __launch_bounds__(256) radix_partition(uint2 *dst, const uint2 *src, const int *base, int n, int shift) {
    __shared__ int count[64], start[64], offset[64];
    __shared__ uint2 tile[2048];
    int t = threadIdx.x, first = blockIdx.x * 2048, size = min(2048, n - first), rank[8];
    uint2 mine[8];
    if (t < 64) count[t] = 0;
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        int i = k * 256 + t;
        if (i < size) {
            mine[k] = src[first + i];
            rank[k] = atomicAdd(&count[mixed(mine[k].x) >> shift & 63], 1);
        }
    }
    __syncthreads();
    if (t < 32) {
        int a = count[2 * t], b = count[2 * t + 1], sum = a + b;
        for (int d = 1; d < 32; d *= 2) {
            int left = __shfl_up_sync(~0u, sum, d);
            if (t >= d) sum += left;
        }
        start[2 * t] = sum - a - b, start[2 * t + 1] = sum - b;
    }
    __syncthreads();
    if (t < 64) offset[t] = base[blockIdx.x * 64 + t] - start[t];
    #pragma unroll
    for (int k = 0; k < 8; ++k)
        if (k * 256 + t < size) tile[start[mixed(mine[k].x) >> shift & 63] + rank[k]] = mine[k];
    __syncthreads();
    for (int i = t; i < size; i += 256) {
        uint2 pair = tile[i];
        dst[offset[mixed(pair.x) >> shift & 63] + i] = pair;
    }
}

// Look-ups in a cuckoo table: two places a key, four entries each.
extern "C" __global__ void cuckoo_lookup(unsigned *value, const uint4 *keys, const uint4 *values, const unsigned *wanted, int n, unsigned mask) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = wanted[i], found = ~0u, at = mixed(key);
    for (int round = 0; round < 2; ++round) {
        unsigned bucket = at & mask;
        uint4 k = keys[bucket];
        int slot = k.x == key ? 0 : k.y == key ? 1 : k.z == key ? 2 : k.w == key ? 3 : -1;
        if (slot >= 0) {
            found = ((const unsigned *)&values[bucket])[slot];
            break;
        }
        at = mixed(key ^ 0x5bd1e995u);
    }
    value[i] = found;
}

// Rows of text that are LIKE '%one%two%', a thread a row.
extern "C" __global__ void like_match(u8 *match, const char *text, const int *offset, const char *pattern, int one, int two, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    int at = offset[row], end = offset[row + 1];
    bool ok = true;
    for (int part = 0; part < 2 && ok; ++part) {
        const char *p = pattern + (part ? one : 0);
        int length = part ? two : one;
        ok = false;
        for (; at + length <= end; ++at) {
            int k = 0;
            while (k < length && text[at + k] == p[k]) ++k;
            if (k == length) {
                ok = true, at += length;
                break;
            }
        }
    }
    match[row] = ok;
}

// JSON's structure as bits: quotes that no backslash escapes, what is inside strings, and what separates outside; a warp 1024 bytes of a line's start.
extern "C" __global__ void __launch_bounds__(128) json_bitmaps(unsigned *structure, unsigned *strings, const uchar4 *text, int chunks) {
    int chunk = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (chunk >= chunks) return;
    unsigned quote = 0, backslash = 0, other = 0;
    const uchar4 *mine = text + chunk * 256 + lane * 8;
    for (int w = 0; w < 8; ++w) {
        uchar4 c = mine[w];
        const u8 *byte = (const u8 *)&c;
        #pragma unroll
        for (int b = 0; b < 4; ++b) {
            unsigned bit = 1u << (w * 4 + b);
            quote |= byte[b] == '"' ? bit : 0, backslash |= byte[b] == '\\' ? bit : 0;
            other |= byte[b] == '{' || byte[b] == '}' || byte[b] == '[' || byte[b] == ']' || byte[b] == ':' || byte[b] == ',' ? bit : 0;
        }
    }
    unsigned last = __shfl_up_sync(~0u, backslash >> 31, 1);
    quote &= ~(backslash << 1 | (lane ? last : 0));
    unsigned inside = quote;
    for (int d = 1; d < 32; d *= 2) inside ^= inside << d;
    unsigned odd = __ballot_sync(~0u, __popc(quote) & 1);
    if (__popc(odd & ((1u << lane) - 1)) & 1) inside = ~inside;
    strings[chunk * 32 + lane] = inside;
    structure[chunk * 32 + lane] = other & ~inside | quote;
}

// A run-length coded column made plain: each output seeks its run among the ends.
extern "C" __global__ void __launch_bounds__(256) rle_expand(int *dst, const int *ends, const int *values, int runs, int n) {
    __shared__ int first, last;
    int i = blockIdx.x * 1024 + threadIdx.x;
    if (threadIdx.x < 2) {
        int goal = min(blockIdx.x * 1024 + (threadIdx.x ? 1023 : 0), n - 1), low = 0, high = runs - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (ends[middle] > goal) high = middle;
            else low = middle + 1;
        }
        (threadIdx.x ? last : first) = low;
    }
    __syncthreads();
    for (int k = 0; k < 4 && i < n; ++k, i += 256) {
        int low = first, high = last;
        while (low < high) {
            int middle = (low + high) / 2;
            if (ends[middle] > i) high = middle;
            else low = middle + 1;
        }
        dst[i] = values[low];
    }
}

// A filter over four columns: a bit a row, and the sum of price times discount of those that pass.
extern "C" __global__ void __launch_bounds__(256) filter_query6(unsigned *bits, u64 *revenue, const int *day, const u8 *discount, const u8 *quantity, const int *price, int n) {
    __shared__ u64 part[8];
    u64 sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        bool pass = day[i] >= 800 && day[i] < 1165;
        if (pass) pass = discount[i] >= 5 && discount[i] <= 7 && quantity[i] < 24;
        if (pass) sum += (u64)price[i] * discount[i];
        unsigned mask = __ballot_sync(__activemask(), pass);
        if (threadIdx.x % 32 == 0) bits[i / 32] = mask;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < 8; ++k) sum += part[k];
        atomicAdd(revenue, sum);
    }
}

// Messages of variable-length integers, seven bits a byte: a thread a message.
extern "C" __global__ void varint_decode(u64 *sums, int *fields, const u8 *bytes, const int *offset, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 sum = 0;
    int count = 0, end = offset[i + 1];
    for (int at = offset[i]; at < end; ++count) {
        u64 value = 0;
        int shift = 0;
        u8 byte;
        do {
            byte = bytes[at++];
            value |= (u64)(byte & 127) << shift, shift += 7;
        } while (byte & 128);
        sum += (value >> 1) ^ -(value & 1);
    }
    sums[i] = sum, fields[i] = count;
}

// HyperLogLog: the longest run of zeros among the hashes of each of 4096 registers.
extern "C" __global__ void __launch_bounds__(512) hyperloglog(int *registers, const unsigned *keys, int n) {
    __shared__ int own[4096];
    for (int k = threadIdx.x; k < 4096; k += 512) own[k] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += gridDim.x * 512) {
        unsigned h = mixed(keys[i]), g = mixed(keys[i] + 0x9e3779b9u);
        int zeros = __clz(g) + 1, at = h & 4095;
        if (own[at] < zeros) atomicMax(&own[at], zeros);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < 4096; k += 512)
        if (own[k] > registers[k]) atomicMax(&registers[k], own[k]);
}

// A count-min sketch: four rows of counters in memory.
extern "C" __global__ void count_min(unsigned *sketch, const unsigned *keys, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned key = keys[i];
    #pragma unroll
    for (int r = 0; r < 4; ++r) atomicAdd(&sketch[r * width + mixed(key ^ (r + 1) * 0x9e3779b9u) % width], 1u);
}

// Year, month and day from days since 1970, grouped by month in shared memory.
extern "C" __global__ void __launch_bounds__(256) group_by_month(u64 *totals, const int *days, const int *amounts, int n) {
    __shared__ unsigned sum[12], many[12];
    if (threadIdx.x < 12) sum[threadIdx.x] = many[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        int z = days[i] + 719468, era = z / 146097, doe = z - era * 146097;
        int yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        int mp = (5 * doy + 2) / 153, month = mp < 10 ? mp + 2 : mp - 10;
        atomicAdd(&sum[month], (unsigned)amounts[i]), atomicAdd(&many[month], 1u);
    }
    __syncthreads();
    if (threadIdx.x < 12) atomicAdd(&totals[threadIdx.x], (u64)sum[threadIdx.x]), atomicAdd(&totals[12 + threadIdx.x], (u64)many[threadIdx.x]);
}
