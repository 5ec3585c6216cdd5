"""A histogram of bytes: atomics in shared memory, then one atomic per bin and block in global memory."""

import numpy as np

import warpwright as ww

SOURCE = """
extern "C" __global__ void histogram(int n, const unsigned char *data, unsigned int *bins)
{
    __shared__ unsigned int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
"""


def main() -> None:
    n = 1 << 18
    # A bell curve: neighbouring threads often meet in one bin.
    data = np.clip(np.random.default_rng(1).normal(128, 20, n), 0, 255).astype(np.uint8)
    bins = np.zeros(256, dtype=np.uint32)

    gpu = ww.GPU()
    gpu.compile(SOURCE, name="histogram.cu")["histogram"][64, 256](n, data, bins)

    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))
    print(f"histogram of {n:,} bytes on {gpu.name}: correct")


if __name__ == "__main__":
    main()
