// Pictures, radio and sound.
typedef unsigned char u8;

// Min-sum decoding of a quasi-cyclic parity code: a block a word, a thread a row of each layer, layer after layer.
extern "C" __global__ void __launch_bounds__(96) ldpc_minsum(u8 *bits, const signed char *received, const int2 *entries, const int *first, int layers, int columns, int rounds) {
    extern __shared__ short values[];
    const int z = 96;
    short *messages = values + columns * z;
    int t = threadIdx.x, total = first[layers];
    for (int k = t; k < columns * z; k += z) values[k] = received[(long long)blockIdx.x * columns * z + k];
    for (int k = t; k < total * z; k += z) messages[k] = 0;
    __syncthreads();
    for (int round = 0; round < rounds; ++round)
        for (int layer = 0; layer < layers; ++layer) {
            int least = 32767, second = 32767, which = -1;
            bool sign = false;
            for (int e = first[layer]; e < first[layer + 1]; ++e) {
                int at = entries[e].x * z + (t + entries[e].y) % z, v = values[at] - messages[e * z + t], size = abs(v);
                sign ^= v < 0;
                if (size < least) second = least, least = size, which = e;
                else if (size < second) second = size;
            }
            for (int e = first[layer]; e < first[layer + 1]; ++e) {
                int at = entries[e].x * z + (t + entries[e].y) % z, v = values[at] - messages[e * z + t];
                int size = (e == which ? second : least) * 3 / 4, made = sign ^ (v < 0) ? -size : size;
                values[at] = min(max(v + made, -2000), 2000), messages[e * z + t] = made;
            }
            __syncthreads();
        }
    for (int k = t; k < columns * z; k += z) bits[(long long)blockIdx.x * columns * z + k] = values[k] < 0;
}

// An ultrasound picture by delays and sums: a thread a pixel, all receivers, samples between two.
extern "C" __global__ void __launch_bounds__(256) delay_and_sum(float *out, const float *traces, const float2 *receivers, int count, int samples, int width, float step, float rate) {
    int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32;
    float px = x * step, py = (y + 20) * step, sum = 0.0f;
    for (int r = 0; r < count; ++r) {
        float2 at = receivers[r];
        float dx = px - at.x, dy = py - at.y, when = (py + sqrtf(dx * dx + dy * dy)) * rate;
        int k = (int)when;
        float part = when - k;
        if (k + 1 < samples) sum += traces[r * samples + k] * (1.0f - part) + traces[r * samples + k + 1] * part;
    }
    out[y * width + x] = sum;
}

// 44.1 to 48 kHz by a polyphase filter: 160 phases of 24 taps, a block's samples in shared memory.
extern "C" __global__ void __launch_bounds__(320) polyphase_resample(float *dst, const float *src, const float *taps, int n, int have) {
    __shared__ float part[352];
    long long channel = blockIdx.y;
    int first = blockIdx.x * 320, base = first / 160 * 147;
    for (int k = threadIdx.x; k < 352; k += 320) part[k] = base + k < have ? src[channel * have + base + k] : 0.0f;
    __syncthreads();
    int i = first + threadIdx.x;
    if (i >= n) return;
    int up = i * 147, phase = up % 160, at = up / 160 - base;
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 24; ++k) sum += part[at + k] * taps[k * 160 + phase];
    dst[channel * n + i] = sum;
}

// Targets by a constant false alarm rate: a cell's power against its row's neighbours, guard cells left out, hits to a list.
extern "C" __global__ void __launch_bounds__(256) cfar_detect(int *hits, int *count, const float2 *cells, int ranges, int rows, float factor) {
    __shared__ float power[256 + 40];
    int row = blockIdx.y, first = blockIdx.x * 256;
    for (int k = threadIdx.x; k < 296; k += 256) {
        int at = first + k - 20;
        float2 v = at >= 0 && at < ranges ? cells[(long long)row * ranges + at] : make_float2(0, 0);
        power[k] = v.x * v.x + v.y * v.y;
    }
    __syncthreads();
    float noise = 0.0f;
    for (int k = 4; k <= 20; ++k) noise += power[threadIdx.x + 20 - k] + power[threadIdx.x + 20 + k];
    bool hit = first + threadIdx.x < ranges && power[threadIdx.x + 20] > factor * noise / 34.0f;
    unsigned mask = __ballot_sync(~0u, hit);
    if (hit) {
        int lane = threadIdx.x % 32, leader = __ffs(mask) - 1, place = 0;
        if (lane == leader) place = atomicAdd(count, __popc(mask));
        place = __shfl_sync(mask, place, leader) + __popc(mask & ((1u << lane) - 1));
        hits[place] = row * ranges + first + threadIdx.x;
    }
}

// Costs of matching along a row from left to right: a warp a row, four disparities a lane.
extern "C" __global__ void __launch_bounds__(128) sgm_path(unsigned short *sums, const unsigned *left, const unsigned *right, int width, int height) {
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= height) return;
    int last[4] = {0, 0, 0, 0}, least = 0;
    for (int x = 0; x < width; ++x) {
        unsigned own = left[row * width + x];
        int before = __shfl_up_sync(~0u, last[3], 1), after = __shfl_down_sync(~0u, last[0], 1), now[4], small = 1 << 20;
        if (lane == 0) before = 1 << 20;
        if (lane == 31) after = 1 << 20;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            int d = lane * 4 + k, cost = __popc(own ^ right[row * width + max(x - d, 0)]);
            int side = min(k ? last[k - 1] : before, k < 3 ? last[k + 1] : after) + 10;
            now[k] = cost + min(min(last[k], side), least + 120) - least;
            small = min(small, now[k]);
        }
        #pragma unroll
        for (int k = 0; k < 4; ++k) last[k] = now[k];
        for (int d = 16; d; d /= 2) small = min(small, __shfl_xor_sync(~0u, small, d));
        least = small;
        *(ushort4 *)&sums[((long long)row * width + x) * 128 + lane * 4] = make_ushort4(now[0], now[1], now[2], now[3]);
    }
}

// Histograms of gradients of cells of 8 by 8 pixels, nine directions, in whole numbers.
extern "C" __global__ void __launch_bounds__(256) hog_cells(int *cells, const u8 *picture, int width, int height) {
    __shared__ int bins[4][9];
    int t = threadIdx.x, cell = t / 64, x = blockIdx.x * 32 + cell * 8 + t % 8, y = blockIdx.y * 8 + t % 64 / 8;
    if (t < 36) bins[t / 9][t % 9] = 0;
    __syncthreads();
    int dx = picture[y * width + min(x + 1, width - 1)] - picture[y * width + max(x - 1, 0)];
    int dy = picture[min(y + 1, height - 1) * width + x] - picture[max(y - 1, 0) * width + x];
    const int cosine[9] = {256, 241, 196, 128, 44, -44, -128, -196, -241}, sine[9] = {0, 88, 165, 222, 252, 252, 222, 165, 88};
    int best = 0, bin = 0;
    #pragma unroll
    for (int k = 0; k < 9; ++k) {
        int along = abs(dx * cosine[k] + dy * sine[k]);
        if (along > best) best = along, bin = k;
    }
    atomicAdd(&bins[cell][bin], dx * dx + dy * dy);
    __syncthreads();
    if (t < 36) cells[(blockIdx.y * gridDim.x + blockIdx.x) * 36 + t] = bins[t / 9][t % 9];
}

// Corners by FAST: nine pixels in a row of a circle of 16 brighter or darker than the middle.
extern "C" __global__ void __launch_bounds__(256) fast_corners(int *list, int *count, const u8 *picture, int width, int height, int threshold) {
    int x = blockIdx.x * 32 + threadIdx.x % 32 + 3, y = blockIdx.y * 8 + threadIdx.x / 32 + 3;
    if (x >= width - 3 || y >= height - 3) return;
    constexpr int cx[16] = {0, 1, 2, 3, 3, 3, 2, 1, 0, -1, -2, -3, -3, -3, -2, -1}, cy[16] = {-3, -3, -2, -1, 0, 1, 2, 3, 3, 3, 2, 1, 0, -1, -2, -3};
    int middle = picture[y * width + x];
    unsigned bright = 0, dark = 0;
    #pragma unroll
    for (int k = 0; k < 16; k += 4) {
        int v = picture[(y + cy[k]) * width + x + cx[k]];
        bright |= (v > middle + threshold) << k, dark |= (v < middle - threshold) << k;
    }
    if (__popc(bright) < 2 && __popc(dark) < 2) return;
    #pragma unroll
    for (int k = 0; k < 16; ++k)
        if (k % 4) {
            int v = picture[(y + cy[k]) * width + x + cx[k]];
            bright |= (v > middle + threshold) << k, dark |= (v < middle - threshold) << k;
        }
    auto nine = [](unsigned m) {
        m |= m << 16;
        unsigned two = m & m >> 1, four = two & two >> 2, eight = four & four >> 4;
        return (eight & m >> 8) != 0;
    };
    if (nine(bright) || nine(dark)) list[atomicAdd(count, 1)] = y * width + x;
}

// Votes of edge points for lines: a block an angle, distances in shared memory.
extern "C" __global__ void __launch_bounds__(512) hough_lines(unsigned *votes, const int2 *points, const float2 *directions, int n, int distances) {
    extern __shared__ unsigned bin[];
    for (int k = threadIdx.x; k < distances; k += 512) bin[k] = 0;
    __syncthreads();
    float2 way = directions[blockIdx.x];
    for (int i = threadIdx.x; i < n; i += 512) {
        int at = (int)floorf(points[i].x * way.x + points[i].y * way.y) + distances / 2;
        if (at >= 0 && at < distances) atomicAdd(&bin[at], 1u);
    }
    __syncthreads();
    for (int k = threadIdx.x; k < distances; k += 512) votes[(long long)blockIdx.x * distances + k] = bin[k];
}

// A perspective view of a colour picture, three bytes a pixel, between four pixels.
extern "C" __global__ void perspective_bytes(u8 *dst, const u8 *src, int width, int height, const float *matrix) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float w = matrix[6] * x + matrix[7] * y + matrix[8], u = (matrix[0] * x + matrix[1] * y + matrix[2]) / w, v = (matrix[3] * x + matrix[4] * y + matrix[5]) / w;
    int u0 = (int)floorf(u), v0 = (int)floorf(v);
    float fx = u - u0, fy = v - v0;
    for (int c = 0; c < 3; ++c) {
        float sum = 0.0f;
        if (u0 >= 0 && v0 >= 0 && u0 + 1 < width && v0 + 1 < height) {
            const u8 *p = src + (v0 * width + u0) * 3 + c;
            sum = (p[0] * (1.0f - fx) + p[3] * fx) * (1.0f - fy) + (p[width * 3] * (1.0f - fx) + p[width * 3 + 3] * fx) * fy;
        }
        dst[(y * width + x) * 3 + c] = (u8)(sum + 0.5f);
    }
}

// Squares of distances along columns by lower envelopes of parabolas: a thread a column, its stack in memory.
extern "C" __global__ void __launch_bounds__(64) distance_parabolas(int *dst, const int *src, short *stack, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width) return;
    int top = -1;
    for (int q = 0; q < height; ++q) {
        int fq = src[q * width + x];
        while (top >= 1) {
            int b = stack[top * width + x], a = stack[(top - 1) * width + x], fa = src[a * width + x], fb = src[b * width + x];
            // b never lies lowest if it meets q no later than a meets b.
            long long meet_ab = (long long)(fb + b * b - fa - a * a) * (q - b), meet_bq = (long long)(fq + q * q - fb - b * b) * (b - a);
            if (meet_bq > meet_ab) break;
            --top;
        }
        stack[++top * width + x] = q;
    }
    for (int q = 0, k = 0; q < height; ++q) {
        int p = stack[k * width + x], best = src[p * width + x] + (q - p) * (q - p);
        while (k < top) {
            int next = stack[(k + 1) * width + x], other = src[next * width + x] + (q - next) * (q - next);
            if (other > best) break;
            best = other, ++k;
        }
        dst[q * width + x] = best;
    }
}
