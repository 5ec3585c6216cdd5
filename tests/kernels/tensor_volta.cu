// Volta's own tensor instruction through PTX: mma.sync.m8n8k4, four products at once, one per group of eight lanes.
#include <cuda_fp16.h>

// Lanes q..q+3 and q+16..q+19 make one 8x8x4 product: A is row-major, B is column-major, D is float.
extern "C" __global__ void mma_volta(float *d, const unsigned *a, const unsigned *b) {
    int lane = threadIdx.x, quad = lane % 16 / 4, member = lane % 4 + (lane < 16 ? 0 : 4);
    const unsigned *my_a = a + (blockIdx.x * 4 + quad) * 16, *my_b = b + (blockIdx.x * 4 + quad) * 16;
    unsigned a0 = my_a[member * 2], a1 = my_a[member * 2 + 1], b0 = my_b[member * 2], b1 = my_b[member * 2 + 1];
    float f[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9}, "
                 "{%10, %11}, {%0, %1, %2, %3, %4, %5, %6, %7};"
                 : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3]), "+f"(f[4]), "+f"(f[5]), "+f"(f[6]), "+f"(f[7])
                 : "r"(a0), "r"(a1), "r"(b0), "r"(b1));
    for (int i = 0; i < 8; ++i) {
        int row = (lane & 1) + (i & 2) + (lane < 16 ? 0 : 4);
        int column = (i & 4) + (lane & 2) + (i & 1);
        d[(blockIdx.x * 4 + quad) * 64 + row * 8 + column] = f[i];
    }
}
