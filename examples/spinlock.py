"""A lock that every thread of a warp takes in turn, which requires independent thread scheduling (Volta and later)."""

import numpy as np

import warpwright as ww

SOURCE = """
extern "C" __global__ void count(int *lock, volatile int *counter)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *counter = *counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
"""


def main() -> None:
    blocks, threads = 4, 64
    gpu = ww.GPU()
    lock = gpu.zeros(1, np.int32, name="lock")
    counter = gpu.zeros(1, np.int32, name="counter")
    gpu.compile(SOURCE, name="spinlock.cu")["count"][blocks, threads](lock, counter)

    assert counter.get()[0] == blocks * threads, counter.get()
    print(f"{blocks * threads} threads took the lock in turn on {gpu.name}: correct")


if __name__ == "__main__":
    main()
