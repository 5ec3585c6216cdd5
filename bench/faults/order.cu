// Wasteful accesses (perfcheck) and results that change with the order of warps (schedcheck).
#include "cases.h"

__global__ void column(const float *x, float *y, int width) {
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += x[(threadIdx.x + 32 * blockIdx.x) * width + i];  //! row_of_its_own perfcheck
    y[threadIdx.x + 32 * blockIdx.x] = sum;
}
CASE(row_of_its_own) { column<<<4, 32>>>(zeros<float>(128 * 64), zeros<float>(128), 64); }

__global__ void banks(float *y) {
    __shared__ float s[32][32];
    for (int i = 0; i < 32; i++) s[i][threadIdx.x] = i;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 32; i++) sum += s[threadIdx.x][i];  //! one_bank perfcheck
    y[threadIdx.x] = sum;
}
CASE(one_bank) { banks<<<1, 32>>>(zeros<float>(32)); }

struct Body {
    float x, y, z, mass, vx, vy, vz, pad;
};
__global__ void masses(const Body *bodies, float *y) {
    y[threadIdx.x] = bodies[threadIdx.x].mass;  //! array_of_structs perfcheck
}
CASE(array_of_structs) { masses<<<1, 128>>>(zeros<Body>(128), zeros<float>(128)); }

__global__ void last_wins(int *x) { atomicExch(x, blockIdx.x); }
CASE(last_block_wins) { last_wins<<<8, 32>>>(zeros<int>(1)); }  //! last_block_wins schedcheck

__global__ void float_sum(const float *x, float *y) { atomicAdd(y, 1.0f / (1 + blockIdx.x * 7) + x[blockIdx.x]); }
CASE(float_sum_in_any_order) { float_sum<<<16, 1>>>(counted<float>(16), zeros<float>(1)); }  //! float_sum_in_any_order schedcheck

// ---- Right

__global__ void banks_padded(float *y) {
    __shared__ float s[32][33];
    for (int i = 0; i < 32; i++) s[i][threadIdx.x] = i;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 32; i++) sum += s[threadIdx.x][i] + s[i][0];
    y[threadIdx.x] = sum;
}
CASE(padded_banks) { banks_padded<<<1, 32>>>(zeros<float>(32)); }  //= padded_banks perfcheck

__global__ void together(const float4 *x, float4 *y) { y[threadIdx.x] = x[threadIdx.x ^ 1]; }
CASE(permuted_vectors) { together<<<1, 128>>>(zeros<float4>(128), zeros<float4>(128)); }  //= permuted_vectors perfcheck

__global__ void one_for_all(const float *x, float *y) { y[threadIdx.x] = x[blockIdx.x] + x[threadIdx.x / 32]; }
CASE(same_word_for_all) { one_for_all<<<1, 128>>>(zeros<float>(128), zeros<float>(128)); }  //= same_word_for_all perfcheck

__global__ void integer_sum(const int *x, int *y) { atomicAdd(y, x[blockIdx.x * 32 + threadIdx.x]); }
CASE(integer_sum) {  //= integer_sum schedcheck
    int *y = zeros<int>(1);
    integer_sum<<<8, 32>>>(counted<int>(256), y);
    EXPECT(element(y, 0) == 255 * 128);
}
__global__ void largest(const int *x, int *y) { atomicMax(y, x[blockIdx.x * 32 + threadIdx.x] ^ 5); }
CASE(largest_of_all) { largest<<<8, 32>>>(counted<int>(256), zeros<int>(1)); }  //= largest_of_all schedcheck
