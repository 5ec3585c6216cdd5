// Steps of image processing: separable filters, morphology, edges, seams, coefficients.

__constant__ float taps[17];

// Rows of a separable filter of radius 8: eight results a thread, a halo on both sides in shared memory.
extern "C" __global__ void filter_rows_8(float *dst, const float *src, int width) {
    __shared__ float line[4][10 * 16];
    int x0 = (blockIdx.x * 8 - 1) * 16 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
    src += y * width + x0, dst += y * width + x0;
    #pragma unroll
    for (int k = 1; k < 9; ++k) line[threadIdx.y][threadIdx.x + 16 * k] = src[16 * k];
    line[threadIdx.y][threadIdx.x] = x0 >= 0 ? src[0] : 0.0f;
    line[threadIdx.y][threadIdx.x + 144] = width - x0 > 144 ? src[144] : 0.0f;
    __syncthreads();
    #pragma unroll
    for (int k = 1; k < 9; ++k) {
        float sum = 0.0f;
        #pragma unroll
        for (int j = -8; j <= 8; ++j) sum += taps[8 - j] * line[threadIdx.y][threadIdx.x + 16 * k + j];
        dst[16 * k] = sum;
    }
}

// Columns of the same filter.
extern "C" __global__ void filter_columns_8(float *dst, const float *src, int width, int height) {
    __shared__ float line[16][10 * 8 + 1];
    int x = blockIdx.x * 16 + threadIdx.x, y0 = (blockIdx.y * 8 - 1) * 8 + threadIdx.y;
    src += y0 * width + x, dst += y0 * width + x;
    #pragma unroll
    for (int k = 1; k < 9; ++k) line[threadIdx.x][threadIdx.y + 8 * k] = src[8 * k * width];
    line[threadIdx.x][threadIdx.y] = y0 >= 0 ? src[0] : 0.0f;
    line[threadIdx.x][threadIdx.y + 72] = height - y0 > 72 ? src[72 * width] : 0.0f;
    __syncthreads();
    #pragma unroll
    for (int k = 1; k < 9; ++k) {
        float sum = 0.0f;
        #pragma unroll
        for (int j = -8; j <= 8; ++j) sum += taps[8 - j] * line[threadIdx.x][threadIdx.y + 8 * k + j];
        dst[8 * k * width] = sum;
    }
}

// Erosion of bytes by a disc of radius 3: a tile with its rim in shared memory, 1024 threads.
extern "C" __global__ void __launch_bounds__(1024) erode_disc(unsigned char *dst, const unsigned char *src, int width, int height) {
    __shared__ unsigned char tile[38][40];
    int x0 = blockIdx.x * 32, y0 = blockIdx.y * 32;
    for (int k = threadIdx.y * 32 + threadIdx.x; k < 38 * 38; k += 1024) {
        int x = min(max(x0 + k % 38 - 3, 0), width - 1), y = min(max(y0 + k / 38 - 3, 0), height - 1);
        tile[k / 38][k % 38] = src[y * width + x];
    }
    __syncthreads();
    int least = 255;
    #pragma unroll
    for (int dy = -3; dy <= 3; ++dy)
        #pragma unroll
        for (int dx = -3; dx <= 3; ++dx)
            if (dx * dx + dy * dy <= 9) least = min(least, (int)tile[threadIdx.y + 3 + dy][threadIdx.x + 3 + dx]);
    int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x < width && y < height) dst[y * width + x] = least;
}

// Canny's thinning: only maxima along the gradient stay, in one of four directions; then two thresholds.
extern "C" __global__ void thin_edges(unsigned char *dst, const short2 *gradient, int width, int height, int low, int high) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int at = y * width + x, mark = 0;
    if (x > 0 && y > 0 && x < width - 1 && y < height - 1) {
        short2 g = gradient[at];
        int ax = abs(g.x), ay = abs(g.y), size = ax + ay;
        if (size > low) {
            int step;
            if (ay * 5 < ax * 2) step = 1;
            else if (ax * 5 < ay * 2) step = width;
            else step = (g.x ^ g.y) < 0 ? width - 1 : width + 1;
            short2 a = gradient[at - step], b = gradient[at + step];
            if (size > abs(a.x) + abs(a.y) && size >= abs(b.x) + abs(b.y)) mark = size > high ? 255 : 128;
        }
    }
    dst[at] = mark;
}

// Cheapest seams from the top row down, one block, a barrier for each row.
extern "C" __global__ void __launch_bounds__(1024) seam_costs(int *total, const int *energy, int width, int height) {
    extern __shared__ int row[];
    for (int x = threadIdx.x; x < width; x += 1024) row[x] = total[x] = energy[x];
    __syncthreads();
    for (int y = 1; y < height; ++y) {
        int *from = row + (y & 1 ? 0 : width), *to = row + (y & 1 ? width : 0);
        for (int x = threadIdx.x; x < width; x += 1024) {
            int best = from[x];
            if (x > 0) best = min(best, from[x - 1]);
            if (x < width - 1) best = min(best, from[x + 1]);
            to[x] = total[y * width + x] = best + energy[y * width + x];
        }
        __syncthreads();
    }
}

// An affine turn of four-byte pixels with bilinear weights of 8 bits.
extern "C" __global__ void turn_pixels(uchar4 *dst, const uchar4 *src, int width, int height, float c, float s) {
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float fx = c * (x - width / 2) - s * (y - height / 2) + width / 2, fy = s * (x - width / 2) + c * (y - height / 2) + height / 2;
    int px = (int)floorf(fx * 256.0f), py = (int)floorf(fy * 256.0f), u = px & 255, v = py & 255;
    px >>= 8, py >>= 8;
    uchar4 out = make_uchar4(0, 0, 0, 255);
    if (px >= 0 && py >= 0 && px < width - 1 && py < height - 1) {
        const uchar4 *p = src + py * width + px;
        uchar4 a = p[0], b = p[1], d = p[width], e = p[width + 1];
        int wa = (256 - u) * (256 - v), wb = u * (256 - v), wd = (256 - u) * v, we = u * v;
        out.x = (a.x * wa + b.x * wb + d.x * wd + e.x * we) >> 16;
        out.y = (a.y * wa + b.y * wb + d.y * wd + e.y * we) >> 16;
        out.z = (a.z * wa + b.z * wb + d.z * wd + e.z * we) >> 16;
    }
    dst[y * width + x] = out;
}

__constant__ unsigned char zigzag[64];
__constant__ unsigned short steps[64];
// Coefficients of JPEG blocks divided, rounded and put in zigzag order; four blocks a block of 256 threads.
extern "C" __global__ void quantise_zigzag(short *dst, unsigned char *last, const short *src) {
    __shared__ short block[4][64];
    int which = threadIdx.x / 64, k = threadIdx.x % 64, base = (blockIdx.x * 4 + which) * 64;
    int v = src[base + k], q = steps[k];
    block[which][k] = v < 0 ? -((-v + q / 2) / q) : (v + q / 2) / q;
    __syncthreads();
    short out = block[which][zigzag[k]];
    dst[base + k] = out;
    unsigned some = __ballot_sync(~0u, out != 0);
    __shared__ unsigned masks[8];
    if (threadIdx.x % 32 == 0) masks[threadIdx.x / 32] = some;
    __syncthreads();
    if (k == 0) last[blockIdx.x * 4 + which] = masks[2 * which + 1] ? 64 - __clz(masks[2 * which + 1]) : 32 - __clz(masks[2 * which]);
}

// Running sums of image rows: a block of 1024 threads for a row of any length.
extern "C" __global__ void __launch_bounds__(1024) integral_rows(unsigned *dst, const unsigned char *src, int width) {
    __shared__ unsigned sums[32];
    unsigned carry = 0;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int x0 = 0; x0 < width; x0 += 1024) {
        int x = x0 + threadIdx.x;
        unsigned v = x < width ? src[blockIdx.x * width + x] : 0;
        for (int d = 1; d < 32; d *= 2) {
            unsigned u = __shfl_up_sync(~0u, v, d);
            if (lane >= d) v += u;
        }
        if (lane == 31) sums[warp] = v;
        __syncthreads();
        if (warp == 0) {
            unsigned s = sums[lane];
            for (int d = 1; d < 32; d *= 2) {
                unsigned u = __shfl_up_sync(~0u, s, d);
                if (lane >= d) s += u;
            }
            sums[lane] = s;
        }
        __syncthreads();
        v += carry + (warp ? sums[warp - 1] : 0);
        if (x < width) dst[blockIdx.x * width + x] = v;
        carry += sums[31];
        __syncthreads();
    }
}
