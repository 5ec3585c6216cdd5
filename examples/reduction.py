"""The sum of an array: shuffles within a warp, shared memory within a block, one atomic per block."""

import numpy as np

import warpwright as ww

SOURCE = """
__device__ float warp_sum(float value)
{
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

extern "C" __global__ void sum(int n, const float *x, float *total)
{
    __shared__ float partial[32];
    float value = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        value += x[i];
    value = warp_sum(value);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = warp_sum(lane < blockDim.x / 32 ? partial[lane] : 0.0f);
        if (lane == 0)
            atomicAdd(total, value);
    }
}
"""


def main() -> None:
    n = 1 << 18
    x = np.random.default_rng(1).standard_normal(n, dtype=np.float32)
    total = np.zeros(1, dtype=np.float32)

    gpu = ww.GPU()
    gpu.compile(SOURCE, name="reduction.cu")["sum"][128, 256](n, x, total)

    expected = x.astype(np.float64).sum()
    assert abs(total[0] - expected) < 1e-5 * np.abs(x).sum(), (total[0], expected)
    print(f"sum of {n:,} elements on {gpu.name}: {total[0]:.3f}, correct")


if __name__ == "__main__":
    main()
