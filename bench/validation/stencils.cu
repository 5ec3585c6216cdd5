// Grids in two and three dimensions: heat, high-order stars, boxes, waves, a lattice-Boltzmann step.

extern "C" __global__ void heat_direct(float *dst, const float *src, int nx, int ny) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int i = y * nx + x;
    dst[i] = 0.6f * src[i] + 0.1f * (src[i - 1] + src[i + 1] + src[i - nx] + src[i + nx]);
}

// Tiles with halos in shared memory, four steps of time in one launch; the valid part shrinks by one a step.
extern "C" __global__ void heat_tiled(float *dst, const float *src, int nx, int ny) {
    __shared__ float a[2][24][25];
    int x = blockIdx.x * 16 + (int)threadIdx.x - 4, y = blockIdx.y * 16 + (int)threadIdx.y - 4;
    int cx = min(max(x, 0), nx - 1), cy = min(max(y, 0), ny - 1);
    a[0][threadIdx.y][threadIdx.x] = src[cy * nx + cx];
    int tx = threadIdx.x, ty = threadIdx.y, from = 0;
    for (int step = 1; step <= 4; ++step) {
        __syncthreads();
        if (tx >= step && tx < 24 - step && ty >= step && ty < 24 - step)
            a[1 - from][ty][tx] = 0.6f * a[from][ty][tx] + 0.1f * (a[from][ty][tx - 1] + a[from][ty][tx + 1] +
                                                                   a[from][ty - 1][tx] + a[from][ty + 1][tx]);
        from = 1 - from;
    }
    if (tx >= 4 && tx < 20 && ty >= 4 && ty < 20 && x < nx && y < ny) dst[y * nx + x] = a[from][ty][tx];
}

// A star of radius 4, marching along z with the column in registers and the plane in shared memory.
extern "C" __global__ void star_march(float *dst, const float *src, int nx, int ny, int nz) {
    __shared__ float plane[24][40];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, sx = threadIdx.x + 4, sy = threadIdx.y + 4;
    int area = nx * ny, at = y * nx + x;
    float column[9];
#pragma unroll
    for (int k = 0; k < 8; ++k) column[k + 1] = src[at + k * area];
    bool inner = x >= 4 && x < nx - 4 && y >= 4 && y < ny - 4;
    for (int z = 4; z < nz - 4; ++z) {
#pragma unroll
        for (int k = 0; k < 8; ++k) column[k] = column[k + 1];
        column[8] = src[at + (z + 4) * area];
        __syncthreads();
        plane[sy][sx] = column[4];
        const float *p = src + z * area;
        if (threadIdx.x < 4) {
            plane[sy][sx - 4] = x >= 4 ? p[at - 4] : 0.0f;
            plane[sy][sx + 32] = x + 32 < nx ? p[at + 32] : 0.0f;
        }
        if (threadIdx.y < 4) {
            plane[sy - 4][sx] = y >= 4 ? p[at - 4 * nx] : 0.0f;
            plane[sy + 16][sx] = y + 16 < ny ? p[at + 16 * nx] : 0.0f;
        }
        __syncthreads();
        if (inner) {
            float sum = 0.5f * column[4];
#pragma unroll
            for (int r = 1; r <= 4; ++r)
                sum += 0.01f * r * (column[4 - r] + column[4 + r] + plane[sy][sx - r] + plane[sy][sx + r] +
                                    plane[sy - r][sx] + plane[sy + r][sx]);
            dst[at + z * area] = sum;
        }
    }
}

extern "C" __global__ void box_27(float *dst, const float *src, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
    float sum = 0.0f;
    for (int dz = -1; dz <= 1; ++dz)
        for (int dy = -1; dy <= 1; ++dy)
            for (int dx = -1; dx <= 1; ++dx) sum += src[((z + dz) * ny + y + dy) * nx + x + dx];
    dst[(z * ny + y) * nx + x] = sum / 27.0f;
}

extern "C" __global__ void wave_double(double *next, const double *now, const double *before, int nx, int ny) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int i = y * nx + x;
    next[i] = 2.0 * now[i] - before[i] + 0.25 * (now[i - 1] + now[i + 1] + now[i - nx] + now[i + nx] - 4.0 * now[i]);
}

// One collide-and-stream step of D2Q9 on a periodic grid; nine arrays, pulled from the neighbours.
extern "C" __global__ void lattice_step(float *dst, const float *src, int nx, int ny) {
    const int ex[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, ey[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
    const float weight[9] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, cells = nx * ny;
    float f[9], rho = 0.0f, ux = 0.0f, uy = 0.0f;
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        int fx = x - ex[q], fy = y - ey[q];
        fx = fx < 0 ? nx - 1 : fx == nx ? 0 : fx;
        fy = fy < 0 ? ny - 1 : fy == ny ? 0 : fy;
        f[q] = src[q * cells + fy * nx + fx];
        rho += f[q];
        ux += ex[q] * f[q];
        uy += ey[q] * f[q];
    }
    ux /= rho;
    uy /= rho;
    float square = 1.5f * (ux * ux + uy * uy);
#pragma unroll
    for (int q = 0; q < 9; ++q) {
        float eu = 3.0f * (ex[q] * ux + ey[q] * uy);
        dst[q * cells + y * nx + x] = f[q] - 0.8f * (f[q] - weight[q] * rho * (1.0f + eu + 0.5f * eu * eu - square));
    }
}
