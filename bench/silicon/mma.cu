// One warp, one tile: in[tile][register][lane] holds A's registers, then B's, then C's; out[tile][register][lane].
#define LOAD(n) in[(tile * REGISTERS + (n)) * 32 + lane]
#define HEAD                                                                           \
  unsigned tile = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32; \
  if (tile >= n) return;                                                               \
  unsigned d0, d1, d2, d3;
#define KERNEL(name) extern "C" __global__ void name(const unsigned *in, unsigned *out, unsigned n)
#define STORE4 out[(tile*4+0)*32+lane]=d0; out[(tile*4+1)*32+lane]=d1; out[(tile*4+2)*32+lane]=d2; out[(tile*4+3)*32+lane]=d3;
#define STORE2 out[(tile*2+0)*32+lane]=d0; out[(tile*2+1)*32+lane]=d1;

#define A4B2C4(name, shape, types) KERNEL(name) { const unsigned REGISTERS = 10; HEAD  \
  asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};" \
    : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3) : "r"(LOAD(0)), "r"(LOAD(1)), "r"(LOAD(2)), "r"(LOAD(3)), "r"(LOAD(4)), "r"(LOAD(5)), \
      "r"(LOAD(6)), "r"(LOAD(7)), "r"(LOAD(8)), "r"(LOAD(9))); STORE4 }
#define A4B2C2(name, shape, types) KERNEL(name) { const unsigned REGISTERS = 8; HEAD  \
  asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%8,%9};" \
    : "=r"(d0), "=r"(d1) : "r"(LOAD(0)), "r"(LOAD(1)), "r"(LOAD(2)), "r"(LOAD(3)), "r"(LOAD(4)), "r"(LOAD(5)), \
      "r"(LOAD(6)), "r"(LOAD(7))); STORE2 }
#define A2B1C4(name, shape, types) KERNEL(name) { const unsigned REGISTERS = 7; HEAD  \
  asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};" \
    : "=r"(d0), "=r"(d1), "=r"(d2), "=r"(d3) : "r"(LOAD(0)), "r"(LOAD(1)), "r"(LOAD(2)), "r"(LOAD(3)), "r"(LOAD(4)), "r"(LOAD(5)), \
      "r"(LOAD(6))); STORE4 }
#define A2B1C2(name, shape, types) KERNEL(name) { const unsigned REGISTERS = 5; HEAD  \
  asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1}, {%2,%3}, {%4}, {%5,%6};" \
    : "=r"(d0), "=r"(d1) : "r"(LOAD(0)), "r"(LOAD(1)), "r"(LOAD(2)), "r"(LOAD(3)), "r"(LOAD(4))); STORE2 }

A4B2C4(f16_f32_k16, "m16n8k16", "f32.f16.f16.f32")
A4B2C4(bf16_f32_k16, "m16n8k16", "f32.bf16.bf16.f32")
A4B2C4(tf32_f32_k8, "m16n8k8", "f32.tf32.tf32.f32")
A4B2C2(f16_f16_k16, "m16n8k16", "f16.f16.f16.f16")
A2B1C4(f16_f32_k8, "m16n8k8", "f32.f16.f16.f32")
A2B1C4(bf16_f32_k8, "m16n8k8", "f32.bf16.bf16.f32")
A2B1C4(tf32_f32_k4, "m16n8k4", "f32.tf32.tf32.f32")
A2B1C2(f16_f16_k8, "m16n8k8", "f16.f16.f16.f16")
