// One MUFU for each input word. The function (EX2 here) is a field of the instruction, which measure.py rewrites.
extern "C" __global__ void mufu(unsigned start, unsigned step, unsigned n, unsigned *out) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float x = __uint_as_float(start + step * i), y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    out[i] = __float_as_uint(y);
  }
}
#define HALF(name, instruction)                                                        \
  extern "C" __global__ void name(unsigned *out) {                                     \
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                \
    unsigned short y;                                                                  \
    asm volatile(instruction " %0, %1;" : "=h"(y) : "h"((unsigned short)i));           \
    out[i] = y;                                                                        \
  }
HALF(ex2_f16, "ex2.approx.f16")
HALF(tanh_f16, "tanh.approx.f16")
HALF(ex2_bf16, "ex2.approx.ftz.bf16")
HALF(tanh_bf16, "tanh.approx.bf16")
