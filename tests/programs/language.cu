// C++ as people write it: templates, classes, lambdas, functors, unions, bit fields, variadics, virtual functions, goto.

template <typename T, int N> struct Vec {
    T v[N];
    __device__ constexpr T &operator[](int i) { return v[i]; }
    __device__ constexpr const T &operator[](int i) const { return v[i]; }
    __device__ friend Vec operator+(const Vec &a, const Vec &b) {
        Vec r;
        for (int i = 0; i < N; i++) r[i] = a[i] + b[i];
        return r;
    }
    __device__ T dot(const Vec &o) const {
        T s = T();
        for (int i = 0; i < N; i++) s += v[i] * o[i];
        return s;
    }
};

extern "C" __global__ void template_vectors(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Vec<int, 5> a, b;
    for (int k = 0; k < 5; k++) {
        a[k] = src[(i + k) % n];
        b[k] = src[(i * 3 + k) % n];
    }
    Vec<int, 5> c = a + b;
    dst[i] = c.dot(a) + c[i % 5];
}

template <typename F, typename... Fs> __device__ int apply_all(int x, F f, Fs... rest) {
    if constexpr (sizeof...(rest) == 0)
        return f(x);
    else
        return apply_all(f(x), rest...);
}

template <typename... T> __device__ int fold_sum(T... values) { return (0 + ... + (int)values); }

struct Affine {
    int scale, shift;
    __device__ int operator()(int x) const { return scale * x + shift; }
};

extern "C" __global__ void lambdas_and_variadics(int *dst, const int *src, int n, int base) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int calls = 0;
    auto count = [&calls, base](int x) {
        calls++;
        return x ^ base;
    };
    int y = apply_all(src[i], count, Affine{3, 7}, [=](int x) { return x % (base + 1); }, count);
    dst[i] = y * 4 + calls + fold_sum(i, (short)-3, 2.9f, (unsigned char)200);
}

__device__ constexpr unsigned table_entry(unsigned i) {
    for (int k = 0; k < 8; k++) i = i & 1 ? 0xEDB88320u ^ (i >> 1) : i >> 1;
    return i;
}
template <unsigned... I> struct Table {
    unsigned entry[sizeof...(I)] = {table_entry(I)...};
};
__constant__ Table<0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15> small_table;

extern "C" __global__ void constexpr_table(unsigned *dst, const unsigned char *src) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    dst[i] = small_table.entry[src[i] & 15] ^ (small_table.entry[src[i] >> 4] << 1);
}

union Bits {
    float f;
    unsigned u;
    struct {
        unsigned mantissa : 23;
        unsigned exponent : 8;
        unsigned sign : 1;
    } part;
    unsigned char byte[4];
};

struct Packed {
    unsigned a : 3;
    int b : 5;
    unsigned long long c : 40;
    unsigned d : 11;
    bool e : 1;
};

extern "C" __global__ void bit_fields(unsigned *dst, Packed *packed, const float *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Bits x;
    x.f = src[i];
    x.part.exponent += 1;
    x.part.sign ^= i & 1;
    x.byte[0] = (unsigned char)i;
    dst[i] = x.u;
    Packed p = packed[i];
    p.a += 3;
    p.b = p.b * 2 - 1;
    p.c = p.c * 5 + p.d;
    p.d -= 100;
    p.e = p.b < 0;
    packed[i] = p;
}

struct Complex {
    float re, im;
};
struct Big {
    int v[12];
};
__device__ __noinline__ Complex multiply(Complex a, const Complex &b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ __noinline__ Big spread(int x) {
    Big r;
    for (int i = 0; i < 12; i++) r.v[i] = x * (i + 1);
    return r;
}
__device__ __noinline__ void swap_values(int &a, int &b) {
    int t = a;
    a = b;
    b = t;
}

extern "C" __global__ void structs_returned(Complex *dst, int *sums, const Complex *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    dst[i] = multiply(multiply(src[i], src[n - 1 - i]), Complex{1.0f, -0.5f});
    Big big = spread(i - 7);
    int a = big.v[i % 12], b = big.v[(i * 5) % 12];
    swap_values(a, b);
    sums[i] = 1000 * a - b;
}

struct Shape {
    int w, h;
    __device__ Shape(int w_, int h_) : w(w_), h(h_) {}
    __device__ virtual int area() const = 0;
    __device__ virtual int scaled(int k) { return area() * k; }
};
struct Box : Shape {
    __device__ Box(int w_, int h_) : Shape(w_, h_) {}
    __device__ int area() const override { return w * h; }
};
struct Triangle : Shape {
    __device__ Triangle(int w_, int h_) : Shape(w_, h_) {}
    __device__ int area() const override { return w * h / 2; }
    __device__ int scaled(int k) override { return area() * k + 1; }
};

extern "C" __global__ void virtual_calls(int *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Box box(src[i], i);
    Triangle triangle(src[i], i + 1);
    Shape *shapes[2] = {&box, &triangle};
    int sum = 0;
    for (int k = 0; k < 4; k++) sum += shapes[(src[i] >> k) & 1]->scaled(k + 1);
    dst[i] = sum;
}

typedef int (*Step)(int, int);
__device__ int step_add(int a, int b) { return a + b; }
__device__ int step_mul(int a, int b) { return a * b; }
__device__ int step_xor(int a, int b) { return a ^ b; }
__device__ int step_rec(int a, int b) { return b <= 0 ? a : 1 + step_rec(a ^ b, b / 3); }
__device__ Step steps[4] = {step_add, step_mul, step_xor, step_rec};

extern "C" __global__ void function_table(int *dst, const unsigned char *program, int length, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int value = i;
    for (int k = 0; k < length; k++) value = steps[(program[k] + i) & 3](value, k + 3);
    dst[i] = value;
}

// A byte code machine: a switch within a loop, with gotos.
extern "C" __global__ void byte_code(int *dst, const unsigned char *code, int length, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int stack[16], top = 0, at = 0, fuel = 200;
    stack[0] = i;
again:
    if (fuel-- <= 0 || at >= length) goto done;
    switch (code[at++]) {
    case 0: stack[top + 1] = stack[top]; top++; goto checked;
    case 1: if (top < 1) break; stack[top - 1] += stack[top]; top--; break;
    case 2: if (top < 1) break; stack[top - 1] *= stack[top]; top--; break;
    case 3: stack[++top] = code[at++]; goto checked;
    case 4: if (stack[top] & 1) at = code[at]; else at++; break;
    case 5: stack[top] >>= 1; break;
    case 6: stack[top] = -stack[top]; break;
    case 7: stack[top] = stack[top] * 3 + 1; break;
    default: goto done;
    }
    goto again;
checked:
    if (top < 15) goto again;
    top = 3;
    goto again;
done:
    dst[i] = stack[top] * 16 + top;
}

struct Node {
    int key;
    int left, right;
};
__device__ __noinline__ int deep_sum(const Node *nodes, int at, int depth) {
    volatile int pad[8];
    pad[depth & 7] = nodes[at].key;
    int sum = pad[depth & 7];
    if (nodes[at].left >= 0) sum += deep_sum(nodes, nodes[at].left, depth + 1);
    if (nodes[at].right >= 0) sum += 2 * deep_sum(nodes, nodes[at].right, depth + 1);
    return sum + depth;
}
extern "C" __global__ void tree_recursion(int *dst, const Node *nodes, const int *roots, int n) {
    int i = threadIdx.x;
    if (i < n) dst[i] = deep_sum(nodes, roots[i], 0);
}

extern "C" __global__ void big_frame(unsigned *dst, const unsigned *src, int n) {
    unsigned frame[1200];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 1200; k++) frame[k] = k * 7 + i;
    for (int k = 0; k < n; k++) frame[src[k] % 1200] ^= src[(k + i) % n] + frame[(src[k] + i) % 1200];
    unsigned h = 0;
    for (int k = 0; k < 1200; k++) h = h * 31 + frame[k];
    dst[i] = h;
}

enum class Colour : unsigned char { red = 1, green = 2, blue = 4 };
namespace palette {
template <Colour C> struct Weight { static constexpr int value = 1; };
template <> struct Weight<Colour::green> { static constexpr int value = 10; };
}
template <typename T> struct Range {
    T first, last;
    struct Iterator {
        T at;
        __device__ T operator*() const { return at; }
        __device__ Iterator &operator++() { ++at; return *this; }
        __device__ bool operator!=(const Iterator &o) const { return at != o.at; }
    };
    __device__ Iterator begin() const { return {first}; }
    __device__ Iterator end() const { return {last}; }
};
extern "C" __global__ void ranges_and_enums(long long *dst, const Colour *colours, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long sum = 0;
    for (int k : Range<int>{0, i % 9 + 1}) {
        switch (colours[(i + k) % n]) {
        case Colour::red: sum += palette::Weight<Colour::red>::value; break;
        case Colour::green: sum += palette::Weight<Colour::green>::value * k; break;
        default: sum -= k;
        }
    }
    auto square = [](long long x) { return x * x; };
    dst[i] = sum + square(sum) + square(i % 5);
}
