// Tensor cores through PTX (sm_80 and later): ldmatrix, plain and transposed, and mma.sync.m16n8k16 of halves.
#include <cuda_fp16.h>

// Each warp multiplies a 16xK row panel of A by a Kx8 column panel of B, both row-major.
extern "C" __global__ void mma_float(float *c, const __half *a, const __half *b, int n, int depth) {
    __shared__ __align__(16) __half ta[16][16], tb[16][8];
    int lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 8;
    float d0 = 0.0f, d1 = 0.0f, d2 = 0.0f, d3 = 0.0f;
    for (int k = 0; k < depth; k += 16) {
        *(uint4 *)&ta[lane / 2][lane % 2 * 8] = *(const uint4 *)&a[(row + lane / 2) * depth + k + lane % 2 * 8];
        if (lane < 16) *(uint4 *)&tb[lane][0] = *(const uint4 *)&b[(k + lane) * n + column];
        __syncwarp();
        unsigned a0, a1, a2, a3, b0, b1;
        unsigned at_a = (unsigned)__cvta_generic_to_shared(&ta[lane % 16][lane / 16 * 8]);
        unsigned at_b = (unsigned)__cvta_generic_to_shared(&tb[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3)
                     : "r"(at_a)
                     : "memory");
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(b0), "=r"(b1)
                     : "r"(at_b)
                     : "memory");
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        __syncwarp();
    }
    int top = (row + lane / 4) * n + column + lane % 4 * 2;
    *(float2 *)&c[top] = make_float2(d0, d1);
    *(float2 *)&c[top + 8 * n] = make_float2(d2, d3);
}

extern "C" __global__ void mma_half(unsigned *d, const unsigned *a, const unsigned *b, const unsigned *c) {
    int lane = threadIdx.x, group = lane / 4, member = lane % 4;
    a += blockIdx.x * 128;
    b += blockIdx.x * 64;
    c += blockIdx.x * 64;
    d += blockIdx.x * 64;
    unsigned a0 = a[group * 8 + member], a1 = a[(group + 8) * 8 + member];
    unsigned a2 = a[group * 8 + member + 4], a3 = a[(group + 8) * 8 + member + 4];
    unsigned b0 = b[group * 8 + member], b1 = b[group * 8 + member + 4];
    unsigned c0 = c[group * 4 + member], c1 = c[(group + 8) * 4 + member], d0, d1;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                 : "=r"(d0), "=r"(d1)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c0), "r"(c1));
    d[group * 4 + member] = d0;
    d[(group + 8) * 4 + member] = d1;
}

// What ldmatrix puts where: four 8x8 matrices, as they lie and transposed.
extern "C" __global__ void ldmatrix_layout(unsigned *dst, const uint4 *src) {
    __shared__ uint4 rows[32];
    int lane = threadIdx.x;
    rows[lane] = src[blockIdx.x * 32 + lane];
    __syncwarp();
    unsigned address = (unsigned)__cvta_generic_to_shared(&rows[lane]), r[8];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                 : "r"(address)
                 : "memory");
    for (int k = 0; k < 8; ++k) dst[(blockIdx.x * 8 + k) * 32 + lane] = r[k];
}
