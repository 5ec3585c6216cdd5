// The kernels of engine.cu in OpenCL C, for simulators and runtimes that take that.
kernel void triad(int n, float a, global const float *x, global const float *y, global float *z) {
    int i = get_global_id(0);
    if (i < n) z[i] = a * x[i] + y[i];
}

kernel void matmul(int n, global const float *a, global const float *b, global float *c) {
    int row = get_global_id(1), column = get_global_id(0);
    if (row >= n || column >= n) return;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum;
}

kernel void mandelbrot(int width, int height, int limit, global int *counts) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= width || y >= height) return;
    float cx = x * 3.0f / width - 2.0f, cy = y * 2.0f / height - 1.0f, zx = 0, zy = 0;
    int k = 0;
    while (k < limit && zx * zx + zy * zy < 4.0f) {
        float t = zx * zx - zy * zy + cx;
        zy = 2 * zx * zy + cy;
        zx = t;
        k++;
    }
    counts[y * width + x] = k;
}

kernel void tiled(int n, global const float *a, global const float *b, global float *c) {
    local float left[16][17], right[16][17];
    int tx = get_local_id(0), ty = get_local_id(1), row = get_group_id(1) * 16 + ty, column = get_group_id(0) * 16 + tx;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        left[ty][tx] = a[row * n + k + tx];
        right[ty][tx] = b[(k + ty) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < 16; j++) sum += left[ty][j] * right[j][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + column] = sum;
}
