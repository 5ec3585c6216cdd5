"""y = a * x + y, the usual first CUDA program: one thread per element."""

import numpy as np

import warpwright as ww

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
"""


def main() -> None:
    n = 1 << 18
    rng = np.random.default_rng(1)
    x = rng.standard_normal(n, dtype=np.float32)
    y = rng.standard_normal(n, dtype=np.float32)
    expected = np.float32(2.5) * x + y

    gpu = ww.GPU()
    saxpy = gpu.compile(SOURCE, name="saxpy.cu")["saxpy"]
    saxpy[-(-n // 256), 256](n, 2.5, x, y)

    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
    print(f"saxpy of {n:,} elements on {gpu.name}: correct")


if __name__ == "__main__":
    main()
