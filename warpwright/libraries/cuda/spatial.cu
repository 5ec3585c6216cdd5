// cuDNN's spatial transformer in two dimensions: grids of affine maps, and images sampled at a grid bilinearly. -1 and 1 are the centres of an image's first and last element, and beyond
// it everything is 0. Macros: ELEMENT half_t, float or double; SUM float or double.
#include "types.cuh"

#define THREADS 256
// Sizes and strides, in elements, of images, channels, lines and positions.
struct Image { ELEMENT *at; i64 stride[4]; int size[4]; };

__device__ __forceinline__ SUM coordinate(int i, int count) { return count > 1 ? (SUM)(2 * i) / (SUM)(count - 1) - (SUM)1 : (SUM)0; }
__device__ __forceinline__ void blend(ELEMENT *to, SUM value, SUM beta) { put(to, beta == 0 ? value : value + beta * To<SUM>::from(*to)); }

// grid = theta (x, y, 1) for each element of an image's grid.
extern "C" __global__ void warpwright_affine_grid(int images, int height, int width, const ELEMENT *theta, ELEMENT *grid) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= (i64)images * height * width) return;
    const ELEMENT *of = theta + at / width / height * 6;
    SUM x = coordinate(at % width, width), y = coordinate(at / width % height, height);
    for (int i = 0; i < 2; i++)
        put(grid + 2 * at + i, To<SUM>::from(of[3 * i]) * x + To<SUM>::from(of[3 * i + 1]) * y + To<SUM>::from(of[3 * i + 2]));
}
// A block for each image.
extern "C" __global__ void warpwright_affine_grid_gradient(int height, int width, const ELEMENT *dgrid, ELEMENT *dtheta) {
    __shared__ double values[THREADS];
    const ELEMENT *of = dgrid + (i64)blockIdx.x * height * width * 2;
    for (int i = 0; i < 6; i++) {
        double sum = 0;
        for (int at = threadIdx.x; at < height * width; at += THREADS) {
            SUM factor = i % 3 == 0 ? coordinate(at % width, width) : i % 3 == 1 ? coordinate(at / width, height) : (SUM)1;
            sum += (double)(To<SUM>::from(of[2 * (i64)at + i / 3]) * factor);
        }
        values[threadIdx.x] = sum;
        for (int half = THREADS / 2; half; half >>= 1) {
            __syncthreads();
            if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
        }
        if (threadIdx.x == 0) put(dtheta + blockIdx.x * 6 + i, (SUM)values[0]);
        __syncthreads();
    }
}

// A point of an image: the element before it in both dimensions, and how far beyond that it is.
struct Point {
    int x, y;
    SUM right, below;
    __device__ __forceinline__ Point(const ELEMENT *grid, int width, int height) {
        SUM px = (To<SUM>::from(grid[0]) + 1) / 2 * (width - 1), py = (To<SUM>::from(grid[1]) + 1) / 2 * (height - 1);
        SUM fx = floor(px), fy = floor(py);
        right = px - fx, below = py - fy;
        // What is far outside, infinite or no number is beyond the image, where every integer may be.
        x = fx >= -1 && fx < width ? (int)fx : width, y = fy >= -1 && fy < height ? (int)fy : height;
    }
    __device__ __forceinline__ SUM weight(int i, int j) const { return (i ? right : 1 - right) * (j ? below : 1 - below); }
};
__device__ __forceinline__ bool is_inside(const Image &of, const Point &p, int i, int j) {
    return p.x + i >= 0 && p.x + i < of.size[3] && p.y + j >= 0 && p.y + j < of.size[2];
}
__device__ __forceinline__ ELEMENT *element(const Image &of, i64 image, int channel, const Point &p, int i, int j) {
    return of.at + image * of.stride[0] + channel * of.stride[1] + (p.y + j) * of.stride[2] + (p.x + i) * of.stride[3];
}

extern "C" __global__ void warpwright_sampler(const Image x, const Image y, const ELEMENT *grid, double alpha, double beta) {
    const int width = y.size[3], height = y.size[2];
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= (i64)y.size[0] * height * width) return;
    const i64 image = at / width / height;
    const Point p(grid + 2 * at, x.size[3], x.size[2]);
    for (int c = 0; c < y.size[1]; c++) {
        SUM sum = 0;
        for (int j = 0; j < 2; j++)
            for (int i = 0; i < 2; i++)
                if (is_inside(x, p, i, j)) sum += p.weight(i, j) * To<SUM>::from(*element(x, image, c, p, i, j));
        blend(y.at + image * y.stride[0] + c * y.stride[1] + at / width % height * y.stride[2] + at % width * y.stride[3], (SUM)alpha * sum, (SUM)beta);
    }
}

#ifdef GRADIENT
__device__ __forceinline__ void add(float *to, float value) { atomicAdd(to, value); }
__device__ __forceinline__ void add(double *to, double value) {
#if __CUDA_ARCH__ >= 600
    atomicAdd(to, value);
#else
    unsigned long long *word = (unsigned long long *)to, old = *word, expected;
    do {
        expected = old;
        old = atomicCAS(word, expected, __double_as_longlong(__longlong_as_double(expected) + value));
    } while (old != expected);
#endif
}
// dx = beta dx, before its gradients are added.
extern "C" __global__ void warpwright_sampler_scale(const Image dx, double beta) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= (i64)dx.size[0] * dx.size[1] * dx.size[2] * dx.size[3]) return;
    i64 column = at % dx.size[3], line = at / dx.size[3] % dx.size[2], plane = at / dx.size[3] / dx.size[2];
    ELEMENT *to = dx.at + plane / dx.size[1] * dx.stride[0] + plane % dx.size[1] * dx.stride[1] + line * dx.stride[2] + column * dx.stride[3];
    *to = beta == 0 ? (ELEMENT)0 : (ELEMENT)beta * *to;
}
// dx += alpha dy's shares, and dgrid = alpha_grid its slopes + beta_grid dgrid.
extern "C" __global__ void warpwright_sampler_gradient(
    const Image x, const Image dx, const Image dy, const ELEMENT *grid, ELEMENT *dgrid, double alpha, double alpha_grid, double beta_grid) {
    const int width = dy.size[3], height = dy.size[2];
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= (i64)dy.size[0] * height * width) return;
    const i64 image = at / width / height;
    const Point p(grid + 2 * at, x.size[3], x.size[2]);
    SUM slope_x = 0, slope_y = 0;
    for (int c = 0; c < dy.size[1]; c++) {
        SUM given = dy.at[image * dy.stride[0] + c * dy.stride[1] + at / width % height * dy.stride[2] + at % width * dy.stride[3]];
        for (int j = 0; j < 2; j++)
            for (int i = 0; i < 2; i++) {
                if (!is_inside(x, p, i, j)) continue;
                SUM value = given * *element(x, image, c, p, i, j);
                slope_x += (i ? value : -value) * (j ? p.below : 1 - p.below);
                slope_y += (j ? value : -value) * (i ? p.right : 1 - p.right);
                add(element(dx, image, c, p, i, j), (SUM)alpha * given * p.weight(i, j));
            }
    }
    blend(dgrid + 2 * at, (SUM)alpha_grid * slope_x * (x.size[3] - 1) / 2, (SUM)beta_grid);
    blend(dgrid + 2 * at + 1, (SUM)alpha_grid * slope_y * (x.size[2] - 1) / 2, (SUM)beta_grid);
}
#endif
