// Control flow: divergent loops, switches (jump tables), nested break and continue, early return, three-dimensional
// grids and blocks of odd sizes, grid-stride loops.
extern "C" __global__ void collatz_steps(int *dst, const unsigned *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned value = src[i];
    int steps = 0;
    while (value != 1) {
        value = value & 1 ? 3 * value + 1 : value >> 1;
        ++steps;
    }
    dst[i] = steps;
}

extern "C" __global__ void switch_table(int *dst, const int *opcodes, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = src[i], r;
    switch (opcodes[i]) {
        case 0: r = x + 1; break;
        case 1: r = x * x - dst[i]; break;
        case 2: r = ~x; break;
        case 3: x <<= 3; // falls through
        case 4: r = x - 100; break;
        case 5: r = x > 0 ? x : -x; break;
        case 6: r = __popc(x); break;
        case 7: r = x ^ 0x5a5a; break;
        case 8: for (r = 0; x != 0; x &= x - 1) r += x; break;
        case 9: r = x % 13; break;
        case 10: dst[i] = -1; return;
        case 11: r = __brev(x); break;
        default: r = 0;
    }
    dst[i] = r;
}

extern "C" __global__ void nested_divergence(int *dst, const int *src, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int total = 0, limit = src[i];
    if (limit < 0) {
        dst[i] = -1;
        return;
    }
    for (int row = 0; row < width; ++row) {
        if ((row + limit) % 5 == 0) continue;
        for (int column = 0; column < width; ++column) {
            int value = row * column + limit;
            if (value % 7 == 3) continue;
            if (value > 60) break;
            if (value & 1) {
                total += value;
            } else {
                int inner = value;
                do {
                    inner -= 3;
                    if (inner == limit) goto next_row;
                    total ^= inner;
                } while (inner > column);
            }
        }
        if (total > 500) break;
    next_row:
        total += row;
    }
    dst[i] = total;
}

extern "C" __global__ void grid_three_dimensions(int *dst, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    dst[x + nx * (y + ny * z)] = block * 1000 + thread;
}

// Lanes leave one by one while the rest keep working together; partial last warps vote with who is left.
extern "C" __global__ void leaving_lanes(unsigned *dst, const int *lifetime, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned seen = 0;
    for (int step = 0;; ++step) {
        if (step == lifetime[i]) break;
        if (step % 3 == 2) seen += step;
        seen = seen * 31 + i;
    }
    dst[i] = seen;
}

extern "C" __global__ void mandelbrot(int *dst, int width, int height, float x0, float y0, float step, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float cx = __fadd_rn(x0, __fmul_rn(x, step)), cy = __fadd_rn(y0, __fmul_rn(y, step));
    float zx = 0.0f, zy = 0.0f;
    int count = 0;
    while (count < limit) {
        float xx = __fmul_rn(zx, zx), yy = __fmul_rn(zy, zy);
        if (__fadd_rn(xx, yy) > 4.0f) break;
        zy = __fadd_rn(__fmul_rn(__fmul_rn(2.0f, zx), zy), cy);
        zx = __fadd_rn(__fsub_rn(xx, yy), cx);
        ++count;
    }
    dst[y * width + x] = count;
}
