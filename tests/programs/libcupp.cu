// libcu++: atomics with scopes and orders, atomic_ref, array, tuple, complex, span, bit functions, optional, algorithms.
#include <cuda/atomic>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/complex>
#include <cuda/std/limits>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/utility>

extern "C" __global__ void scoped_atomics(int *values, unsigned long long *wide, float *real, int *seen, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> a(values[0]);
    a.fetch_add(i, cuda::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_block> b(values[1 + blockIdx.x]);
    b.fetch_max(i * 3 % 101, cuda::memory_order_acq_rel);
    cuda::atomic_ref<int, cuda::thread_scope_system> c(values[8]);
    c++;
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> w(wide[0]);
    w.fetch_or(1ull << (i & 63));
    unsigned long long expected = w.load(cuda::memory_order_acquire);
    while (!cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(wide[1]).compare_exchange_weak(expected, expected + 3)) {
    }
    cuda::atomic_ref<float, cuda::thread_scope_device> f(real[0]);
    f.fetch_add(0.5f);
    seen[i] = a.load() >= i;
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
    cuda::atomic_ref<int, cuda::thread_scope_device>(values[9]).store(7, cuda::memory_order_release);
    cuda::atomic_ref<int>(values[10]).fetch_xor(i);
    cuda::atomic_ref<int>(values[11]).exchange(9, cuda::memory_order_acq_rel);
}

__device__ cuda::atomic<int, cuda::thread_scope_device> tickets;
extern "C" __global__ void message_passing(int *dst, int *data, int n) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> flag;
    int t = threadIdx.x;
    if (t == 0) flag.store(0, cuda::memory_order_relaxed);
    __syncthreads();
    if (t == 32) {
        data[blockIdx.x] = 42 + blockIdx.x;
        flag.store(1, cuda::memory_order_release);
        flag.notify_all();
    }
    if (t == 0) {
        while (flag.load(cuda::memory_order_acquire) == 0) {
        }
        dst[blockIdx.x] = data[blockIdx.x] * 2;
        tickets.fetch_add(1, cuda::memory_order_acq_rel);
    }
}

__device__ cuda::std::tuple<int, float> divide(int a, int b) { return {a / b, (float)a / (float)b}; }
__device__ cuda::std::optional<int> find(cuda::std::span<const int> all, int what) {
    for (int k = 0; k < (int)all.size(); k++)
        if (all[k] == what) return k;
    return {};
}
extern "C" __global__ void containers(float *dst, const int *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::std::array<int, 6> a{};
    for (auto &x : a) x = src[(i + (&x - a.data())) % n];
    cuda::std::swap(a[0], a[5]);
    auto [q, f] = divide(a[i % 6], (src[i] & 7) + 1);
    auto at = find(cuda::std::span<const int>(src, 16), a[1]);
    float extra = at ? (float)*at : (float)cuda::std::numeric_limits<short>::max();
    dst[i] = q + f + extra + cuda::std::popcount((unsigned)src[i]) + cuda::std::countl_zero((unsigned)src[i] | 1) + cuda::std::bit_width((unsigned)i) + cuda::std::rotl((unsigned char)src[i], 3);
}

extern "C" __global__ void complex_numbers(cuda::std::complex<float> *dst, cuda::std::complex<double> *wide, const cuda::std::complex<float> *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    auto a = src[i], b = src[n - 1 - i];
    dst[i] = a * b + a / b - cuda::std::conj(a) * 2.0f;
    dst[n + i] = cuda::std::complex<float>(cuda::std::abs(a), cuda::std::arg(b));
    dst[2 * n + i] = cuda::std::exp(a) + cuda::std::sqrt(b);
    cuda::std::complex<double> z(a.real(), b.imag()), c = z;
    for (int k = 0; k < 4; k++) z = z * z * 0.1 + c;
    wide[i] = z / (c + 3.0);
}
