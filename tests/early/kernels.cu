// Programs as CUDA's SDK of 2007 had them: transforms, filters, reductions and generators in blocks of at most 256 threads.

extern "C" __global__ void walsh_transform(int *data)
{
    __shared__ int s[256];
    int t = threadIdx.x, base = blockIdx.x * 256;
    s[t] = data[base + t];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int partner = t ^ half, mine = s[t], other = s[partner];
        __syncthreads();
        s[t] = t & half ? other - mine : mine + other;
    }
    data[base + t] = s[t];
}

extern "C" __global__ void scalar_products(const float *a, const float *b, float *c, int n)
{
    __shared__ float s[128];
    const float *x = a + blockIdx.x * n, *y = b + blockIdx.x * n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 128) sum += x[i] * y[i];
    s[threadIdx.x] = sum;
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
    }
    if (threadIdx.x == 0) c[blockIdx.x] = s[0];
}

// Each thread counts in bytes of its own, 64 of them; then each adds up one bin.
extern "C" __global__ void histogram_bytes(const unsigned char *data, unsigned *bins, int each)
{
    __shared__ unsigned char counts[64 * 64];
    int t = threadIdx.x;
    for (int i = 0; i < 64; i++) counts[i * 64 + t] = 0;
    __syncthreads();
    for (int i = 0; i < each; i++) counts[(data[(blockIdx.x * each + i) * 64 + t] >> 2) * 64 + t]++;
    __syncthreads();
    unsigned sum = 0;
    for (int i = 0; i < 64; i++) sum += counts[t * 64 + ((i + t) & 63)];
    bins[blockIdx.x * 64 + t] = sum;
}

__constant__ float row_filter[9];

extern "C" __global__ void convolution_rows(const float *src, float *dst, int width)
{
    __shared__ float tile[64 + 8];
    int x = blockIdx.x * 64 + threadIdx.x, row = blockIdx.y * width;
    for (int i = threadIdx.x; i < 72; i += 64) {
        int from = blockIdx.x * 64 + i - 4;
        tile[i] = from >= 0 && from < width ? src[row + from] : 0.0f;
    }
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 9; k++) sum += row_filter[k] * tile[threadIdx.x + k];
    if (x < width) dst[row + x] = sum;
}

__constant__ float cosines[64];

extern "C" __global__ void dct_8x8(const float *src, float *dst, int width)
{
    __shared__ float in[8][8], half[8][8];
    int x = threadIdx.x, y = threadIdx.y, at = (blockIdx.y * 8 + y) * width + blockIdx.x * 8 + x;
    in[y][x] = src[at];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 8; k++) sum += in[y][k] * cosines[x * 8 + k];
    half[y][x] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int k = 0; k < 8; k++) sum += cosines[y * 8 + k] * half[k][x];
    dst[at] = sum;
}

extern "C" __global__ void sobel(const unsigned char *src, unsigned char *dst, int width, int height)
{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= width || y >= height) return;
    int p[3][3];
    for (int j = -1; j <= 1; j++)
        for (int i = -1; i <= 1; i++) {
            int cx = min(max(x + i, 0), width - 1), cy = min(max(y + j, 0), height - 1);
            p[j + 1][i + 1] = src[cy * width + cx];
        }
    int h = p[0][2] + 2 * p[1][2] + p[2][2] - p[0][0] - 2 * p[1][0] - p[2][0];
    int v = p[2][0] + 2 * p[2][1] + p[2][2] - p[0][0] - 2 * p[0][1] - p[0][2];
    dst[y * width + x] = min((abs(h) + abs(v)) / 2, 255);
}

extern "C" __global__ void box_filter(const int *src, int *dst, int width, int height, int radius)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= width) return;
    int sum = 0;
    for (int y = 0; y < radius; y++) sum += src[y * width + x];
    for (int y = 0; y < height; y++) {
        if (y + radius < height) sum += src[(y + radius) * width + x];
        if (y - radius > 0) sum -= src[(y - radius - 1) * width + x];
        dst[y * width + x] = sum;
    }
}

__constant__ unsigned directions[4 * 32];

extern "C" __global__ void quasirandom(unsigned *dst, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned gray = i ^ i >> 1, found = 0;
    for (int bit = 0; gray != 0; bit++, gray >>= 1)
        if (gray & 1) found ^= directions[blockIdx.y * 32 + bit];
    dst[blockIdx.y * n + i] = found;
}

extern "C" __global__ void xorshift_streams(unsigned *state, unsigned *sums, int steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned x = state[i], sum = 0;
    for (int k = 0; k < steps; k++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        sum += x >> 8;
    }
    state[i] = x;
    sums[i] = sum;
}

extern "C" __global__ void gray_pixels(const uchar4 *src, unsigned char *dst, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    uchar4 p = src[i];
    dst[i] = (p.x * 77 + p.y * 151 + p.z * 28 + 128) >> 8;
}

extern "C" __global__ void matrix_vector(const float *a, const float *x, float *y, int columns)
{
    __shared__ float s[64];
    float sum = 0.0f;
    for (int k = threadIdx.x; k < columns; k += 64) sum += a[blockIdx.x * columns + k] * x[k];
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}

// One pair of sequences a block; threads go along antidiagonals.
extern "C" __global__ void edit_distance(const char *a, const char *b, int *dst, int n)
{
    __shared__ int last[65], before[65], now[65];
    int t = threadIdx.x;
    a += blockIdx.x * n;
    b += blockIdx.x * n;
    last[t] = before[t] = 0;
    for (int d = 0; d <= 2 * n; d++) {
        __syncthreads();
        int j = d - t;
        if (t <= n && j >= 0 && j <= n) {
            if (t == 0 || j == 0)
                now[t] = t + j;
            else {
                int cost = before[t - 1] + (a[t - 1] != b[j - 1]);
                now[t] = min(cost, 1 + min(last[t - 1], last[t]));
            }
        }
        __syncthreads();
        if (t <= n) {
            before[t] = last[t];
            last[t] = now[t];
        }
    }
    if (t == n) dst[blockIdx.x] = now[n];
}

// 32 words of a block are a square of bits.
extern "C" __global__ void transpose_bits(const unsigned *src, unsigned *dst)
{
    __shared__ unsigned s[32];
    s[threadIdx.x] = src[blockIdx.x * 32 + threadIdx.x];
    __syncthreads();
    unsigned found = 0;
    for (int k = 0; k < 32; k++) found |= (s[k] >> threadIdx.x & 1) << k;
    dst[blockIdx.x * 32 + threadIdx.x] = found;
}

extern "C" __global__ void points_in_polygon(const int2 *points, const int2 *corners, int *inside, int n, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int2 p = points[i];
    int crossings = 0;
    for (int k = 0, before = count - 1; k < count; before = k++) {
        int2 a = corners[k], b = corners[before];
        if ((a.y > p.y) != (b.y > p.y)) {
            int side = (b.x - a.x) * (p.y - a.y) - (p.x - a.x) * (b.y - a.y);
            crossings += b.y > a.y ? side > 0 : side < 0;
        }
    }
    inside[i] = crossings & 1;
}

__constant__ short taps[16];

extern "C" __global__ void fir_filter(const short *src, short *dst, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int sum = 1 << 14;
    for (int k = 0; k < 16; k++) sum += i >= k ? src[i - k] * taps[k] : 0;
    dst[i] = sum >> 15;
}

extern "C" __global__ void heat_step(const float *src, float *dst, int width, int height)
{
    __shared__ float tile[18][18];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    int own = threadIdx.y * 16 + threadIdx.x;
    for (int k = own; k < 18 * 18; k += 256) {
        int cx = min(max((int)blockIdx.x * 16 + k % 18 - 1, 0), width - 1);
        int cy = min(max((int)blockIdx.y * 16 + k / 18 - 1, 0), height - 1);
        tile[k / 18][k % 18] = src[cy * width + cx];
    }
    __syncthreads();
    if (x >= width || y >= height) return;
    int i = threadIdx.x + 1, j = threadIdx.y + 1;
    float around = tile[j - 1][i] + tile[j + 1][i] + tile[j][i - 1] + tile[j][i + 1];
    dst[y * width + x] = tile[j][i] + 0.2f * (around - 4.0f * tile[j][i]);
}
