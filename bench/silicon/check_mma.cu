// Random tiles, and the model of warpwright/engine/silicon_mma.py beside the card's results. Formats: 0 f16, 1 bf16,
// 2 tf32, 3 f32, 4 e4m3, 5 e5m2. A tile's inputs are in[tile][register][lane]; D is out[tile][register][lane].
// Tiles n & ~common .. share the B of the first of them (wgmma: four warps).
typedef long long V;
extern "C" {
__device__ unsigned long long wrong, finite;
__device__ unsigned examples[64 * 68];
}
__device__ unsigned hash(unsigned x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
  return x;
}
__device__ int exponent_bits(int f) { return f == 4 ? 4 : f == 0 || f == 5 ? 5 : 8; }
__device__ int mantissa_bits(int f) { return f == 5 ? 2 : f == 4 ? 3 : f == 1 ? 7 : f == 3 ? 23 : 10; }
__device__ int width_of(int f) { return f == 4 || f == 5 ? 8 : f < 2 ? 16 : 32; }

// One element; how: 0 near, 1 far apart, 2 any bits, 3 mostly zeros, 4 near the subnormals, 5 near overflow, 6 few values.
__device__ unsigned element(int f, int how, unsigned r, unsigned s, bool addend) {
  int eb = exponent_bits(f), mb = mantissa_bits(f), width = eb + mb, bias = (1 << (eb - 1)) - 1, top = 2 * bias + (f == 4);
  unsigned sign = s >> 31, mantissa = s & ((1u << mb) - 1), value;
  if (how == 2) {
    value = width_of(f) == 32 ? r : r & ((1u << width_of(f)) - 1);
    unsigned e = value >> (f == 2 ? 23 : mb) & ((1u << eb) - 1);
    if (f == 4 ? (value & 0x7f) == 0x7f && (s & 15) : e == (1u << eb) - 1 && (s & 15)) value = 0;
    return value;
  }
  int e = bias;
  if (how == 0) e = bias + 2 - r % 5 + (addend ? 4 - (int)(r / 5 % 9) : 0);
  if (how == 1) { int span = bias < 20 ? 2 * bias : 50; e = bias + span / 2 - r % (span + 1); }
  if (how == 3) e = bias + 8 - r % 17;
  if (how == 4) e = addend ? r % 30 : (bias < 20 ? r % (bias - 3) : 64 - 14 + r % 20);
  if (how == 5) e = addend ? top - r % 6 : (bias < 20 ? bias + bias / 2 - r % 4 : bias + 63 - r % 4);
  if (how == 6) { e = bias + r % 3; mantissa = (r >> 8 & 3) ? 0 : mantissa; }
  e = e < 0 ? 0 : e > top ? top : e;
  if ((s >> 24 & 3) == 0) mantissa &= 3u << (mb - 2);
  if (f == 4 && e == 15) mantissa &= 6;
  value = (unsigned)e << mb | mantissa;
  if ((how == 3 && (s >> 26 & 3)) || (how != 0 && (s >> 26 & 15) == 0)) value = 0;
  value |= sign << width;
  return f == 2 ? value << 13 | (r & 0x1fff) : value;
}
extern "C" __global__ void fill(unsigned *in, unsigned n, unsigned registers, unsigned addends, int f, int h, int g, unsigned seed) {
  for (unsigned w = blockIdx.x * blockDim.x + threadIdx.x; w < n * registers * 32; w += gridDim.x * blockDim.x) {
    unsigned tile = w / (registers * 32), reg = w / 32 % registers;
    int how = hash(tile + seed * 77u) % 7;
    bool addend = reg >= registers - addends;
    int format = addend ? g : reg * 3 < (registers - addends) * 2 ? f : h, width = width_of(format);
    unsigned word = 0, r = hash(w ^ hash(seed)), s = hash(r + 0x9e3779b9u);
    for (int at = 0; at < 32; at += width) {
      word |= element(format, how, r, s, addend) << at;
      r = hash(s + 1);
      s = hash(r + 2);
    }
    in[w] = word;
  }
}
struct Part { bool negative, infinite, nan; int exponent; V significand; };
__device__ Part part(int f, unsigned bits) {
  if (f == 2) bits >>= 13;
  int eb = exponent_bits(f), mb = mantissa_bits(f), top = (1 << eb) - 1, e = bits >> mb & top;
  V m = bits & ((1u << mb) - 1);
  bool infinite = e == top && m == 0 && f != 4, nan = e == top && (f == 4 ? m == 7 : m != 0);
  Part p = {(bits >> (eb + mb) & 1) != 0, infinite, nan, (e ? e : 1) - (top >> 1), e ? m | 1 << mb : m};
  return p;
}
__device__ V shifted(V m, int s) { return s >= 0 ? m << s : s > -63 ? m >> -s : 0; }
__device__ unsigned encoded(int g, int kept_bits, V total, int exponent) {
  int eb = exponent_bits(g), mb = mantissa_bits(g), bias = (1 << (eb - 1)) - 1, spare = g == 3 ? mb - kept_bits : 0;
  V size = total < 0 ? -total : total;
  if (!size) return 0;
  int last = 63 - __clzll(size) + exponent - mb + spare, lowest = 1 - bias - mb + spare;
  last = last < lowest ? lowest : last;
  int shift = last - exponent;
  V kept = shifted(size, -shift);
  if (g == 0 && shift > 0) {
    V rest = shift > 62 ? size : size - (kept << shift), half = shift > 62 ? (V)1 << 62 : (V)1 << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
  }
  V bits = ((V)(last - spare + bias + mb - 1) << mb) + (kept << spare), infinity = (V)((1 << eb) - 1) << mb;
  return (unsigned)(bits > infinity ? infinity : bits) | (total < 0 && kept ? 1u << (eb + mb) : 0);
}
__device__ unsigned fused(int fraction, int lowest, int kept_bits, int f, int h, int g, const unsigned *a, const unsigned *b, int n, unsigned c) {
  Part s = part(g, c);
  bool nan = s.nan, plus = s.infinite && !s.negative, minus = s.infinite && s.negative;
  int largest = s.significand ? s.exponent : -(1 << 20);
  for (int i = 0; i < n; i++) {
    Part x = part(f, a[i]), y = part(h, b[i]);
    if (x.significand && y.significand) largest = max(largest, x.exponent + y.exponent);
    nan |= x.nan || y.nan || (x.infinite && !y.significand) || (y.infinite && !x.significand);
    if (x.infinite || y.infinite) { if (x.negative != y.negative) minus = true; else plus = true; }
  }
  largest = max(largest, lowest);
  if (nan || (plus && minus)) return g == 0 ? 0x7fff : 0x7fffffff;
  if (plus || minus) return (g == 0 ? 0x7c00 : 0x7f800000) | (minus ? (g == 0 ? 0x8000u : 0x80000000u) : 0);
  V total = shifted(s.significand, s.significand ? fraction - mantissa_bits(g) + s.exponent - largest : 0);
  if (s.negative) total = -total;
  for (int i = 0; i < n; i++) {
    Part x = part(f, a[i]), y = part(h, b[i]);
    V p = x.significand * y.significand;
    if (!p) continue;
    p = shifted(p, fraction - mantissa_bits(f) - mantissa_bits(h) + x.exponent + y.exponent - largest);
    total += x.negative != y.negative ? -p : p;
  }
  return encoded(g, kept_bits, total, largest - fraction);
}
extern "C" __global__ void compare(const unsigned *in, const unsigned *out, unsigned n, unsigned registers, int f, int h, int g, int k,
                                   int fraction, int chunk, int lowest, int kept_bits, unsigned common) {
  unsigned long long numbers = 0;
  for (unsigned w = blockIdx.x * blockDim.x + threadIdx.x; w < n * 128; w += gridDim.x * blockDim.x) {
    unsigned tile = w / 128, row = w % 128 / 8, col = w % 8, a[32], b[32];
    const unsigned *words = in + (size_t)tile * registers * 32, *words_b = in + (size_t)(tile & ~common) * registers * 32;
    int width = width_of(f), per = 32 / width, ra = 2 * k / (4 * per), rb = k / (4 * per), rc = g == 0 ? 2 : 4;
    for (int i = 0; i < k; i++) {
      int block = i / (4 * per), thread = i % (4 * per) / per, half = i % per;
      unsigned x = words[((row >= 8) + 2 * block) * 32 + row % 8 * 4 + thread], y = words_b[(ra + block) * 32 + col * 4 + thread];
      a[i] = per == 1 ? x : x >> (width * half) & ((1u << width) - 1);
      b[i] = per == 1 ? y : y >> (width * half) & ((1u << width) - 1);
    }
    int lane = row % 8 * 4 + col / 2, place = g == 0 ? (row >= 8) : 2 * (row >= 8) + col % 2;
    unsigned c = words[(ra + rb + place) * 32 + lane], d = out[((size_t)tile * rc + place) * 32 + lane];
    if (g == 0) { c = c >> (16 * (col % 2)) & 0xffff; d = d >> (16 * (col % 2)) & 0xffff; }
    unsigned start = c;
    for (int i = 0; i < k; i += chunk) c = fused(fraction, lowest, kept_bits, f, h, g, a + i, b + i, chunk, c);
    unsigned top = g == 0 ? 0x7c00 : 0x7f800000;
    numbers += (d & top) != top;
    if (c != d) {
      unsigned long long m = atomicAdd(&wrong, 1ull);
      if (m < 64) {
        unsigned *e = examples + m * 68;
        e[0] = w, e[1] = start, e[2] = c, e[3] = d;
        for (int i = 0; i < k; i++) e[4 + i] = a[i], e[36 + i] = b[i];
      }
    }
  }
  atomicAdd(&finite, numbers);
}
