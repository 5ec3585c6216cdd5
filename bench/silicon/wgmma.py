"""CUDA source of kernels around one ``wgmma`` each: sums of random tiles, where the operands' elements are read, and time.

``sums``: in[tile][register][lane] as for mma.cu; four tiles are a warpgroup's and share the B of the first.
``map``: D shows which place of shared memory each element of B (or A) comes from: the other operand picks it out.
``time``: clocks of a loop of four products.
"""

from __future__ import annotations

SUMS: dict[str, tuple[str, str, str]] = {
    **{f"{a}_{b}_{d}": (a, b, d) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f32", "f16")},
    "f16_f16_f32": ("f16", "f16", "f32"),
    "f16_f16_f16": ("f16", "f16", "f16"),
    "bf16_bf16_f32": ("bf16", "bf16", "f32"),
    "tf32_tf32_f32": ("tf32", "tf32", "f32"),
}
"""Kernel: elements of A and B, of C and D."""
K = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32, "b1": 256}
"""Depth of one product: 32 bytes."""
FLOATS = ("f16", "bf16", "tf32", "e4m3", "e5m2")


def descriptor(at: int, leading: int, stride: int, mode: int, base: int = 0) -> int:
    """A matrix descriptor: offsets in bytes, mode 0 none, 1 128 bytes, 2 64, 3 32."""
    return at >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | mode << 62


HEAD = """
typedef unsigned long long Q;
__device__ unsigned base_of(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ Q plain(unsigned at, unsigned leading, unsigned stride) {
  return (Q)(at >> 4 & 0x3fff) | (Q)(leading >> 4) << 16 | (Q)(stride >> 4) << 32;
}
#define FENCE asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define COMMIT asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#define WAIT asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#define PROXY asm volatile("fence.proxy.async;" ::: "memory"); __syncthreads();
"""


def product(
    types: tuple[str, str, str],
    n: int,
    d: str,
    a: str,
    b: str,
    registers: bool,
    transposed: tuple[int, int] = (0, 0),
    sparse: str = "",
) -> str:
    """The asm statement; ``d`` names an array of registers, ``a`` one as well where ``registers`` is set."""
    first, second, sum_type = types
    count = n // 4 if sum_type == "f16" else n // 2
    k = K[first] * (2 if sparse else 1)
    name = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.m64n{n}k{k}.{sum_type}.{first}.{second}"
    name += ".and.popc" if first == "b1" else ""
    at = count
    left = "{" + ", ".join(f"%{at + i}" for i in range(4)) + "}" if registers else f"%{at}"
    at += 4 if registers else 1
    tail = f"%{at}"
    at += 1
    if sparse:
        tail += f", %{at}, 0"
        at += 1
    tail += ", 1"
    if first in FLOATS:
        tail += ", 1, 1"
    if first in ("f16", "bf16"):
        tail += f", {transposed[1]}" if registers else f", {transposed[0]}, {transposed[1]}"
    results = ", ".join(f"%{i}" for i in range(count))
    inputs = [f'"r"({a}[{i}])' for i in range(4)] if registers else [f'"l"({a})']
    inputs += [f'"l"({b})'] + ([f'"r"({sparse})'] if sparse else [])
    outputs = ", ".join(f'"+r"({d}[{i}])' for i in range(count))
    return f'asm volatile("{name} {{{results}}}, {left}, {tail};" : {outputs} : {", ".join(inputs)});'


def sums_kernel(name: str) -> str:
    types = SUMS[name]
    rc = 2 if types[2] == "f16" else 4
    return f"""
extern "C" __global__ void {name}(const unsigned *in, unsigned *out, unsigned n) {{
  __shared__ alignas(128) unsigned tile_b[64];
  unsigned tile = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, a[4], d[{rc}];
  const unsigned *words = in + (size_t)tile * {6 + rc} * 32 + lane;
  for (int i = 0; i < 4; i++) a[i] = words[i * 32];
  for (int i = 0; i < {rc}; i++) d[i] = words[(6 + i) * 32];
  if (threadIdx.x < 32) for (int r = 0; r < 2; r++) tile_b[r * 32 + lane] = words[(4 + r) * 32];
  PROXY
  Q b = plain(base_of(tile_b), 128, 128);
  FENCE {product(types, 8, "d", "a", "b", True)} COMMIT WAIT
  for (int i = 0; i < {rc}; i++) out[((size_t)tile * {rc} + i) * 32 + lane] = d[i];
}}
"""


MAP_BYTES = 131072
MAP_N = 128


def map_kernels() -> str:
    """``map_b_<type>_<transposed>``: out[k][n] of B; ``map_a_<transposed>``: out[m][k] of A.  Values: place in elements,
    its lower ten bits or the upper ones."""
    text = ""
    for element, transposed in (("f16", 0), ("f16", 1), ("tf32", 0)):
        wide = element == "tf32"
        fill = (
            "__float_as_uint((float)(high ? i >> 10 : i & 1023))"
            if wide
            else (
                "(unsigned)__half_as_ushort(__int2half_rn(high ? 2 * i >> 10 : 2 * i & 1023)) | "
                "(unsigned)__half_as_ushort(__int2half_rn(high ? 2 * i + 1 >> 10 : 2 * i + 1 & 1023)) << 16"
            )
        )
        one = "0x3f800000u" if wide else "0x3c00u"
        per = 1 if wide else 2
        text += f"""
extern "C" __global__ void map_b_{element}_{transposed}(Q b, int high, float *out) {{
  extern __shared__ unsigned raw[];
  unsigned skip = (1024 - (base_of(raw) & 1023)) & 1023, *memory = raw + skip / 4;
  for (unsigned i = threadIdx.x; i < {MAP_BYTES // 4}; i += 128) memory[i] = {fill};
  unsigned group = threadIdx.x % 32 / 4, thread = threadIdx.x % 4, a[4], d[{MAP_N // 2}];
  for (int r = 0; r < 4; r++) {{
    a[r] = 0;
    for (unsigned p = 0; p < {per}; p++) {{
      unsigned row = group + 8 * (r % 2), column = thread * {per} + p + {4 * per} * (r / 2);
      if (row == column && threadIdx.x < 32) a[r] |= {one} << 16 * p;
    }}
  }}
  for (int i = 0; i < {MAP_N // 2}; i++) d[i] = 0;
  PROXY
  b += base_of(memory) >> 4;
  FENCE {product((element, element, "f32"), MAP_N, "d", "a", "b", True, (0, transposed))} COMMIT WAIT
  if (threadIdx.x < 32) for (int i = 0; i < {MAP_N // 2}; i++)
    out[(group + 8 * (i / 2 % 2)) * {MAP_N} + i / 4 * 8 + thread * 2 + i % 2] = __uint_as_float(d[i]);
}}
"""
    for transposed in (0, 1):
        text += f"""
extern "C" __global__ void map_a_{transposed}(Q a, int high, float *out) {{
  extern __shared__ unsigned raw[];
  unsigned skip = (1024 - (base_of(raw) & 1023)) & 1023, *memory = raw + skip / 4;
  for (unsigned i = threadIdx.x; i < {MAP_BYTES // 4}; i += 128)
    memory[i] = (unsigned)__half_as_ushort(__int2half_rn(high ? 2 * i >> 10 : 2 * i & 1023)) |
                (unsigned)__half_as_ushort(__int2half_rn(high ? 2 * i + 1 >> 10 : 2 * i + 1 & 1023)) << 16;
  // B: the unit matrix, core matrices 0 and 3 of four
  unsigned short *unit = (unsigned short *)(memory + {MAP_BYTES // 4});
  for (unsigned i = threadIdx.x; i < 256; i += 128) unit[i] = i / 64 % 3 == 0 && i % 64 / 8 == i % 8 ? 0x3c00 : 0;
  unsigned group = threadIdx.x % 32 / 4, thread = threadIdx.x % 4, d[8] = {{0, 0, 0, 0, 0, 0, 0, 0}};
  PROXY
  a += base_of(memory) >> 4;
  Q b = plain(base_of(unit), 128, 256);
  FENCE {product(("f16", "f16", "f32"), 16, "d", "a", "b", False, (transposed, 0))} COMMIT WAIT
  for (int i = 0; i < 8; i++)
    out[(threadIdx.x / 32 * 16 + group + 8 * (i / 2 % 2)) * 16 + i / 4 * 8 + thread * 2 + i % 2] = __uint_as_float(d[i]);
}}
"""
    return text


def timed() -> dict[str, tuple[tuple[str, str, str], int, bool, tuple[int, int], bool, int, int]]:
    """Kernel: types, n, A in registers, transposed, sparse, swizzle mode of the descriptors, sets of sums in turn."""
    half = ("f16", "f16", "f32")
    found = {}

    def add(
        types: tuple[str, str, str],
        n: int,
        registers: bool,
        transposed: tuple[int, int] = (0, 0),
        sparse: bool = False,
        mode: int = 1,
        sets: int = 1,
    ) -> None:
        name = f"time_{types[0]}_{types[2]}_{n}_{'rs' if registers else 'ss'}"
        name += f"_t{transposed[0]}{transposed[1]}" if any(transposed) else ""
        name += "_sp" * sparse + (f"_mode{mode}" if mode != 1 else "") + (f"_sets{sets}" if sets > 1 else "")
        found[name] = (types, n, registers, transposed, sparse, mode, sets)

    for n in (8, 16, 24, 32, 48, 64, 96, 128, 192, 256):
        for registers in (False, True):
            add(half, n, registers)
    for n in (8, 64, 128):
        add(half, n, False, sets=2)
        add(half, n, True, sets=2)
    for n in (32, 64, 128):
        for mode in (0, 2, 3):
            add(half, n, False, mode=mode)
        add(half, n, False, (1, 1))
        add(half, n, True, (0, 1))
    for n in (8, 64, 128, 256):
        for registers in (False, True):
            add(half, n, registers, sparse=True)
            add(("e4m3", "e4m3", "f32"), n, registers)
            add(("tf32", "tf32", "f32"), n, registers)
            add(("s8", "s8", "s32"), n, registers)
        add(("f16", "f16", "f16"), n, False)
        add(("bf16", "bf16", "f32"), n, False)
        add(("e5m2", "e5m2", "f16"), n, False)
        add(("b1", "b1", "s32"), n, False)
    return found


def time_kernel(name: str) -> str:
    types, n, registers, transposed, sparse, mode, sets = timed()[name]
    count = n // 4 if types[2] == "f16" else n // 2
    body = " ".join(
        product(types, n, f"d{i % sets}", "a" if registers else "qa", "qb", registers, transposed, "meta" if sparse else "")
        for i in range(4)
    )  # fmt: skip
    sets_of = range(sets)
    arrays = " ".join(f"unsigned d{s}[{count}]; for (int i = 0; i < {count}; i++) d{s}[i] = 0;" for s in sets_of)
    total = " ".join(f"for (int i = 0; i < {count}; i++) total += d{s}[i];" for s in sets_of)
    return f"""
extern "C" __global__ void __launch_bounds__({256 if n == 256 else 384}) {name}(unsigned *out, int count, int zero) {{
  extern __shared__ unsigned raw[];
  for (unsigned i = threadIdx.x; i < 12288; i += blockDim.x) raw[i] = 0;
  unsigned base = base_of(raw) + 1023 & ~1023u, meta, a[4];
  asm volatile("or.b32 %0, %1, 0x44444444;" : "=r"(meta) : "r"(zero));
  for (int i = 0; i < 4; i++) asm volatile("mov.b32 %0, %1;" : "=r"(a[i]) : "r"(zero));
  Q qa = plain(base, 16, 1024) | (Q){mode} << 62, qb = plain(base + 8192, 16, 1024) | (Q){mode} << 62;
  {arrays}
  PROXY
  unsigned start = clock();
  FENCE
  #pragma unroll 1
  for (int n = 0; n < count; n++) {{ {body} COMMIT }}
  WAIT
  unsigned end = clock(), total = 0;
  {total}
  if (threadIdx.x % 32 == 0) {{ out[threadIdx.x / 16] = end - start; out[threadIdx.x / 16 + 1] = total; }}
}}
"""


WAITS = [
    (n, many, left) for n in (8, 32, 64, 128, 256) for many, left in ((1, 0), (2, 0), (4, 0), (8, 0), (1, 1), (4, 1))
]
"""Columns of a product, products of a group, groups that a wait leaves open."""


def _zeros(n: int) -> str:
    """Operands of zeros in shared memory, swizzled over 128 bytes, and sums of a product of n columns."""
    return f"""extern __shared__ unsigned raw[];
  for (unsigned i = threadIdx.x; i < 12288; i += blockDim.x) raw[i] = 0;
  unsigned base = base_of(raw) + 1023 & ~1023u;
  Q qa = plain(base, 16, 1024) | 1ull << 62, qb = plain(base + 8192, 16, 1024) | 1ull << 62;
  unsigned d[{n // 2}]; for (int i = 0; i < {n // 2}; i++) d[i] = zero;
  PROXY"""


def _total(n: int) -> str:
    """The total of the sums, so that the products are not left out."""
    return f"unsigned total = 0; for (int i = 0; i < {n // 2}; i++) total += d[i];"


def _products(n: int, many: int) -> str:
    """Products of n columns, one after the other."""
    return " ".join(product(("f16", "f16", "f32"), n, "d", "qa", "qb", False) for _ in range(many))


def wait_kernel(n: int, many: int, left: int) -> str:
    """Cycles of groups of products, each waited for before the next (or the one after) is issued."""
    body = _products(n, many)
    return f"""
extern "C" __global__ void __launch_bounds__(128) wait_{n}_{many}_{left}(unsigned *out, int count, int zero) {{
  {_zeros(n)}
  unsigned spent = 0;
  for (int again = 0; again < 2; again++) {{
    unsigned long long start, end;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(start) :: "memory");
    #pragma unroll 1
    for (int n = 0; n < count; n++) {{
      FENCE {body} COMMIT
      asm volatile("wgmma.wait_group.sync.aligned {left};" ::: "memory");
    }}
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(end) :: "memory");
    spent = (unsigned)(end - start);
    WAIT
  }}
  {_total(n)}
  if (threadIdx.x % 32 == 0) {{ out[threadIdx.x / 16] = spent; out[threadIdx.x / 16 + 1] = total; }}
}}
"""


SKEWS = ("before the fence", "before the products", "before the commit", "before the wait")
"""Where one warp of a warpgroup comes late."""


def skew_kernel(place: int) -> str:
    """When the four warps of a group pass each step of it, of which one warp sleeps at one place."""
    n = 128
    body = _products(n, 4)
    sleeps = ["" for _ in SKEWS]
    sleeps[place] = 'asm volatile("nanosleep.u32 %0;" :: "r"(nap) : "memory");'
    stamps = [f'asm volatile("mov.u64 %0, %%clock64;" : "=l"(at[{i}]) :: "memory");' for i in range(5)]
    return f"""
extern "C" __global__ void __launch_bounds__(128) skew_{place}(unsigned *out, int late, int sleep, int zero) {{
  {_zeros(n)}
  for (int again = 0; again < 2; again++) {{
    unsigned nap = again && threadIdx.x / 32 == late ? sleep : 0;
    unsigned long long at[5];
    __syncthreads();
    {stamps[0]} {sleeps[0]}
    FENCE {stamps[1]} {sleeps[1]}
    {body} {stamps[2]} {sleeps[2]}
    COMMIT {stamps[3]} {sleeps[3]}
    WAIT {stamps[4]}
    if (threadIdx.x % 32 == 0) for (int i = 0; i < 5; i++) out[threadIdx.x / 32 * 5 + i] = (unsigned)at[i];
  }}
  {_total(n)}
  out[20 + threadIdx.x] = total;
}}
"""


QUEUED = [(n, many) for n in (64, 256) for many in (1, 2, 4, 8, 16, 32)]
"""Columns of a product, products that follow each other without a wait."""


def queue_kernel(n: int, many: int) -> str:
    """When a warp has issued products, and when they are complete."""
    body = _products(n, many)
    stamps = [f'asm volatile("mov.u64 %0, %%clock64;" : "=l"(at[{i}]) :: "memory");' for i in range(3)]
    return f"""
extern "C" __global__ void __launch_bounds__(128) queue_{n}_{many}(unsigned *out, int zero) {{
  {_zeros(n)}
  unsigned long long at[3];
  for (int again = 0; again < 2; again++) {{
    __syncthreads();
    FENCE {stamps[0]} {body} {stamps[1]} COMMIT WAIT {stamps[2]}
  }}
  {_total(n)}
  if (threadIdx.x % 32 == 0) for (int i = 0; i < 2; i++) out[threadIdx.x / 16 + i] = (unsigned)(at[i + 1] - at[0]);
  out[8 + threadIdx.x] = total;
}}
"""


def sources() -> dict[str, str]:
    """CUDA source by module."""
    return {
        "wgmma_sums": HEAD + "".join(map(sums_kernel, SUMS)),
        "wgmma_map": "#include <cuda_fp16.h>\n" + HEAD + map_kernels(),
        "wgmma_time": HEAD + "".join(map(time_kernel, timed())),
        "wgmma_wait": HEAD + "".join(wait_kernel(*which) for which in WAITS),
        "wgmma_skew": HEAD + "".join(map(skew_kernel, range(len(SKEWS)))),
        "wgmma_queue": HEAD + "".join(queue_kernel(*which) for which in QUEUED),
    }
