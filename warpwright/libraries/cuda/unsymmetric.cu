// Eigenvalues and right eigenvectors of a general matrix, one block for each: reduction to Hessenberg form by reflectors, QR steps with shifts (single ones for complex matrices,
// Francis' double ones for real ones), vectors by substitution in the triangular factor (Golub and Van Loan, "Matrix Computations", chapter 7). Macros: ELEMENT float, double, c64 or c128.
#include "dense.cuh"

constexpr bool COMPLEX = sizeof(T) != sizeof(R);
typedef complex_t<R> C;
constexpr R EPSILON = sizeof(R) == 4 ? (R)5.9604645e-8 : (R)1.1102230246251565e-16;
constexpr int STEPS_PER_VALUE = 30, EXCEPTIONAL_STEP = 10;

__device__ __forceinline__ C as_complex(R v) { return {v, 0}; }
__device__ __forceinline__ C as_complex(C v) { return v; }
__device__ __forceinline__ R size1(R v) { return fabs(v); }
__device__ __forceinline__ R size1(C v) { return fabs(v.x) + fabs(v.y); }

// A column-major matrix.
template <class V> struct View {
    V *at;
    i64 ld;
    __device__ __forceinline__ V &operator()(int row, int column) const { return at[row + ld * column]; }
};
typedef View<T> Matrix;

// A = Z H Z^H with zeros below H's first subdiagonal; H takes A's place, z holds the identity at first (null: no vectors are wanted).
__device__ void reduce_to_hessenberg(int n, Matrix a, Matrix z) {
    LOOP (int k = 0; k + 2 < n; k++) {
        R rest = 0;
        LOOP (int i = k + 2 + threadIdx.x; i < n; i += THREADS) rest += norm2(a(i, k));
        rest = block_sum(rest);
        if (rest == 0) continue;
        const T alpha = a(k + 1, k);
        const R size = sqrt(norm2(alpha) + rest), beta = real_part(alpha) > 0 ? -size : size;
        const T tau = (real_value(beta) - alpha) / real_value(beta), factor = alpha - real_value(beta);
        __syncthreads();
        LOOP (int i = k + 2 + threadIdx.x; i < n; i += THREADS) a(i, k) = a(i, k) / factor;
        if (threadIdx.x == 0) a(k + 1, k) = real_value(1);
        __syncthreads();
        LOOP (int j = k + 1 + threadIdx.x; j < n; j += THREADS) {
            T sum = T{};
            LOOP (int i = k + 1; i < n; i++) sum = fused(conjugate(a(i, k)), a(i, j), sum);
            sum = conjugate(tau) * sum;
            LOOP (int i = k + 1; i < n; i++) a(i, j) = a(i, j) - a(i, k) * sum;
        }
        __syncthreads();
        LOOP (int row = threadIdx.x; row < (z.at ? 2 * n : n); row += THREADS) {
            const Matrix of = row < n ? a : z;
            const int i = row % n;
            T sum = T{};
            LOOP (int j = k + 1; j < n; j++) sum = fused(of(i, j), a(j, k), sum);
            sum = sum * tau;
            LOOP (int j = k + 1; j < n; j++) of(i, j) = of(i, j) - sum * conjugate(a(j, k));
        }
        __syncthreads();
        LOOP (int i = k + 2 + threadIdx.x; i < n; i += THREADS) a(i, k) = T{};
        if (threadIdx.x == 0) a(k + 1, k) = real_value(beta);
        __syncthreads();
    }
}

// Rows k and k + 1 of H are multiplied by a rotation, its columns and Z's by the adjoint: c x + s y, c y - conjugate(s) x.
template <class V> __device__ void rotate(int n, View<V> h, View<V> z, int k, int first_column, int last_row, R cosine, V sine) {
    const V c = Scalar<V>::of(cosine, 0);
    LOOP (int j = first_column + threadIdx.x; j < n; j += THREADS) {
        const V x = h(k, j), y = h(k + 1, j);
        h(k, j) = c * x + sine * y, h(k + 1, j) = c * y - conjugate(sine) * x;
    }
    __syncthreads();
    const int rows = last_row + 1;
    LOOP (int row = threadIdx.x; row < (z.at ? rows + n : rows); row += THREADS) {
        const View<V> of = row < rows ? h : z;
        const int i = row < rows ? row : row - rows;
        const V x = of(i, k), y = of(i, k + 1);
        of(i, k) = c * x + conjugate(sine) * y, of(i, k + 1) = c * y - sine * x;
    }
    __syncthreads();
}
// The rotation that takes (f, g) to (r, 0).
__device__ __forceinline__ void rotation(C f, C g, R &cosine, C &sine) {
    const R of_f = absolute(f), of_g = absolute(g), r = of_g > of_f ? of_g * sqrt(1 + of_f / of_g * (of_f / of_g)) : of_f * sqrt(1 + of_g / of_f * (of_g / of_f));
    if (of_g == 0) cosine = 1, sine = C{};
    else if (of_f == 0) cosine = 0, sine = conjugate(g) / as_complex(of_g);
    else cosine = of_f / r, sine = f / as_complex(of_f) * (conjugate(g) / as_complex(r));
}
// The first row of the part that ends at `last` and has no small element below the diagonal; those in the way become zero.
__device__ int first_of_part(Matrix h, int last, R scale) {
    __shared__ int found;
    if (threadIdx.x == 0) {
        int l = last;
        LOOP (; l > 0; l--) {
            R near = size1(h(l, l)) + size1(h(l - 1, l - 1));
            if (near == 0) near = scale;
            // What is not a number ends the part as well.
            if (!(size1(h(l, l - 1)) > EPSILON * near)) {
                h(l, l - 1) = T{};
                break;
            }
        }
        found = l;
    }
    __syncthreads();
    const int l = found;
    __syncthreads();
    return l;
}

// --- complex matrices: single shifts ----------------------------------------------------------------
__device__ __forceinline__ C square_root(C v) {
    const R size = sqrt(v.x * v.x + v.y * v.y), x = sqrt((size + fabs(v.x)) / 2);
    if (x == 0) return {0, 0};
    const R y = v.y / (2 * x);
    return v.x >= 0 ? C{x, y} : C{fabs(y), v.y >= 0 ? x : -x};
}
__device__ C single_shift(View<C> h, int last, int step) {
    if (step % EXCEPTIONAL_STEP == 0) return {h(last, last).x + (R)0.75 * size1(h(last, last - 1)), h(last, last).y};
    const C a = h(last - 1, last - 1), d = h(last, last), half = (a - d) * C{(R)0.5, 0};
    const C root = square_root(half * half + h(last - 1, last) * h(last, last - 1));
    // The eigenvalue of the last two rows and columns that is nearer to the last element: d - bc / (half + root) with the larger denominator.
    const C plus = half + root, minus = half - root, larger = size1(plus) > size1(minus) ? plus : minus;
    return size1(larger) == 0 ? d : d - h(last - 1, last) * h(last, last - 1) / larger;
}
__device__ void single_step(int n, View<C> h, View<C> z, int first, int last, int step) {
    __shared__ R cosine;
    __shared__ C sine;
    LOOP (int k = first; k < last; k++) {
        if (threadIdx.x == 0) {
            if (k == first) rotation(h(k, k) - single_shift(h, last, step), h(k + 1, k), cosine, sine);
            else rotation(h(k, k - 1), h(k + 1, k - 1), cosine, sine);
        }
        __syncthreads();
        const R c = cosine;
        const C s = sine;
        rotate(n, h, z, k, k > first ? k - 1 : k, k + 2 < last ? k + 2 : last, c, s);
        if (threadIdx.x == 0 && k > first) h(k + 1, k - 1) = C{0, 0};
    }
    __syncthreads();
}
// A part of one row is an eigenvalue.
__device__ bool ends_part(int, View<C>, View<C>, int first, int last) { return first == last; }

// --- real matrices: double shifts -------------------------------------------------------------------
// A reflector of three rows, or two: 1 - (x, y, z)^T (1, q, r).
struct Reflector { R x, y, z, q, r, size; };
__device__ Reflector reflector(R p, R q, R r) {
    const R scale = fabs(p) + fabs(q) + fabs(r);
    if (scale == 0) return {0, 0, 0, 0, 0, 0};
    p /= scale, q /= scale, r /= scale;
    const R s = p < 0 ? -sqrt(p * p + q * q + r * r) : sqrt(p * p + q * q + r * r);
    return {(p + s) / s, q / s, r / s, q / (p + s), r / (p + s), -s * scale};
}
__device__ Reflector first_reflector(View<R> h, int first, int last, int step) {
    R x = h(last, last), y = h(last - 1, last - 1), product = h(last, last - 1) * h(last - 1, last);
    if (step % EXCEPTIONAL_STEP == 0) {
        const bool from_below = step / EXCEPTIONAL_STEP % 2 == 0;
        const R s = from_below ? fabs(h(last, last - 1)) + fabs(h(last - 1, last - 2)) : fabs(h(first + 1, first)) + fabs(h(first + 2, first + 1));
        x = y = (R)0.75 * s + (from_below ? h(last, last) : h(first, first));
        product = (R)-0.4375 * s * s;
    }
    const R a = h(first, first), r = x - a, s = y - a;
    return reflector((r * s - product) / h(first + 1, first) + h(first, first + 1), h(first + 1, first + 1) - a - r - s, h(first + 2, first + 1));
}
__device__ void single_step(int n, View<R> h, View<R> z, int first, int last, int step) {
    __shared__ Reflector shared;
    LOOP (int k = first; k < last; k++) {
        const bool three = k + 2 <= last;
        if (threadIdx.x == 0) {
            shared = k == first ? first_reflector(h, first, last, step) : reflector(h(k, k - 1), h(k + 1, k - 1), three ? h(k + 2, k - 1) : 0);
            if (k > first && shared.size != 0) {
                h(k, k - 1) = shared.size, h(k + 1, k - 1) = 0;
                if (three) h(k + 2, k - 1) = 0;
            }
        }
        __syncthreads();
        const Reflector f = shared;
        LOOP (int j = k + threadIdx.x; j < n; j += THREADS) {
            const R sum = h(k, j) + f.q * h(k + 1, j) + (three ? f.r * h(k + 2, j) : 0);
            h(k, j) -= sum * f.x, h(k + 1, j) -= sum * f.y;
            if (three) h(k + 2, j) -= sum * f.z;
        }
        __syncthreads();
        const int rows = (k + 3 < last ? k + 3 : last) + 1;
        LOOP (int row = threadIdx.x; row < (z.at ? rows + n : rows); row += THREADS) {
            const View<R> of = row < rows ? h : z;
            const int i = row < rows ? row : row - rows;
            const R sum = f.x * of(i, k) + f.y * of(i, k + 1) + (three ? f.z * of(i, k + 2) : 0);
            of(i, k) -= sum, of(i, k + 1) -= sum * f.q;
            if (three) of(i, k + 2) -= sum * f.r;
        }
        __syncthreads();
    }
}
// A part of two rows has a pair of conjugate eigenvalues and stays as it is, or is made triangular.
__device__ bool ends_part(int n, View<R> h, View<R> z, int first, int last) {
    if (first + 1 < last) return false;
    if (first == last) return true;
    const R a = h(first, first), b = h(first, last), c = h(last, first), d = h(last, last), half = (a - d) / 2, under = half * half + b * c;
    __syncthreads();
    if (!(under >= 0)) return true;
    const R root = half + (half < 0 ? -sqrt(under) : sqrt(under)), size = sqrt(c * c + root * root);
    rotate<R>(n, h, z, first, first, last, size == 0 ? 1 : root / size, size == 0 ? 0 : c / size);
    if (threadIdx.x == 0) h(last, first) = 0;
    __syncthreads();
    return true;
}

// H becomes triangular, but for pairs of rows of a real one; what is returned is the number of rows that did not.
__device__ int triangularise(int n, Matrix h, Matrix z, R scale) {
    int left = STEPS_PER_VALUE * (n > 10 ? n : 10);
    LOOP (int last = n - 1, step = 1; last >= 0; step++) {
        const int first = first_of_part(h, last, scale);
        if (ends_part(n, h, z, first, last)) {
            last = first - 1, step = 0;
            continue;
        }
        if (left-- == 0) return last + 1;
        single_step(n, h, z, first, last, step);
    }
    return 0;
}

// --- eigenvectors -----------------------------------------------------------------------------------
__device__ __forceinline__ bool is_pair(Matrix h, int n, int first) { return !COMPLEX && first >= 0 && first + 1 < n && !is_zero(h(first + 1, first)); }
__device__ C eigenvalue(Matrix h, int n, int k) {
    const bool below = is_pair(h, n, k), above = is_pair(h, n, k - 1);
    if (!below && !above) return as_complex(h(k, k));
    const int first = below ? k : k - 1;
    const R a = real_part(h(first, first)), d = real_part(h(first + 1, first + 1)), half = (a - d) / 2;
    const R under = half * half + real_part(h(first, first + 1)) * real_part(h(first + 1, first)), y = sqrt(under < 0 ? -under : 0);
    return {d + half, below ? y : -y};
}
__device__ __forceinline__ C divided(C a, C b, R least) {
    if (size1(b) < least) b = {least, 0};
    // By the larger part, so that squares neither overflow nor vanish.
    if (fabs(b.x) >= fabs(b.y)) {
        const R r = b.y / b.x, d = b.x + b.y * r;
        return {(a.x + a.y * r) / d, (a.y - a.x * r) / d};
    }
    const R r = b.x / b.y, d = b.x * r + b.y;
    return {(a.x * r + a.y) / d, (a.y * r - a.x) / d};
}
// x with H x = value x, for the eigenvalue of row k (the first one of a pair).
__device__ void substitute(Matrix h, int n, int k, C value, C *x, R scale) {
    const R least = EPSILON * scale > 0 ? EPSILON * scale : EPSILON;
    LOOP (int i = k + 1; i < n; i++) x[i] = {0, 0};
    int row = k - 1;
    x[k] = {1, 0};
    if (is_pair(h, n, k)) {
        const C right = as_complex(h(k, k + 1)), below = as_complex(h(k + 1, k));
        if (size1(right) >= size1(below)) x[k + 1] = divided(value - as_complex(h(k, k)), right, least);
        else x[k + 1] = {1, 0}, x[k] = divided(value - as_complex(h(k + 1, k + 1)), below, least);
    }
    const int end = is_pair(h, n, k) ? k + 2 : k + 1;
    R largest = 1;
    LOOP (; row >= 0; row--) {
        const bool two = is_pair(h, n, row - 1);
        C sums[2] = {{0, 0}, {0, 0}};
        LOOP (int j = row + 1; j < end; j++) {
            sums[1] = sums[1] - as_complex(h(row, j)) * x[j];
            if (two) sums[0] = sums[0] - as_complex(h(row - 1, j)) * x[j];
        }
        const C d = as_complex(h(row, row)) - value;
        if (!two) x[row] = divided(sums[1], d, least);
        else {
            const C a = as_complex(h(row - 1, row - 1)) - value, b = as_complex(h(row - 1, row)), c = as_complex(h(row, row - 1)), determinant = a * d - b * c;
            x[row - 1] = divided(d * sums[0] - b * sums[1], determinant, least * least);
            x[row] = divided(a * sums[1] - c * sums[0], determinant, least * least);
        }
        LOOP (int i = two ? row - 1 : row; i <= row; i++)
            if (size1(x[i]) > largest) largest = size1(x[i]);
        if (two) row--;
        if (largest * EPSILON > 1) {
            LOOP (int i = row; i < end; i++) x[i] = {x[i].x / largest, x[i].y / largest};
            largest = 1;
        }
    }
}
// A vector of length 1, its largest element real; `packed`: the real parts of a real matrix's pair in one column, the imaginary parts in the next.
__device__ void store_vector(Matrix z, int n, int k, bool two, const C *x, void *vectors, i64 ld, bool packed) {
    const int end = k + (two ? 2 : 1);
    C *to = (C *)vectors;
    R total = 0, most = -1;
    C largest = {1, 0};
    // x is no longer than its column: the product with Z is computed twice.
    LOOP (int pass = 0; pass < 2; pass++) {
        LOOP (int i = 0; i < n; i++) {
            C sum = {0, 0};
            LOOP (int j = 0; j < end; j++) sum = fused(as_complex(z(i, j)), x[j], sum);
            if (pass == 0) {
                const R size = norm2(sum);
                total += size;
                if (size > most) most = size, largest = sum;
                continue;
            }
            const R turn = sqrt(most), length = sqrt(total);
            sum = COMPLEX || two ? sum * C{largest.x / turn, -largest.y / turn} : sum;
            sum = {sum.x / length, sum.y / length};
            if (!packed) {
                to[i + ld * k] = sum;
                if (two) to[i + ld * (k + 1)] = conjugate(sum);
            } else {
                ((R *)vectors)[i + ld * k] = sum.x;
                if (two) ((R *)vectors)[i + ld * (k + 1)] = sum.y;
            }
        }
    }
}

// x is room for n n complex numbers and then Z. `complex_values`, `complex_vectors`: of a real matrix too, in place of all real parts before all imaginary ones, and of packed pairs.
extern "C" __global__ void warpwright_geev(int wants_vectors, int n, Batch batch, i64 ld, void *values, int complex_values, void *vectors, i64 ldv, int complex_vectors, C *x, int *info) {
    T *product = (T *)(x + (i64)n * n);
    const Matrix h = {of(batch), ld}, z = {wants_vectors ? product : nullptr, n};
    if (wants_vectors)
        LOOP (i64 at = threadIdx.x; at < (i64)n * n; at += THREADS) product[at] = real_value(at % n == at / n ? 1 : 0);
    R scale = 0;
    LOOP (i64 at = threadIdx.x; at < (i64)n * n; at += THREADS) scale += norm2(h((int)(at % n), (int)(at / n)));
    scale = sqrt(block_sum(scale));
    reduce_to_hessenberg(n, h, z);
    const int failed = triangularise(n, h, z, scale);
    LOOP (int k = threadIdx.x; k < n; k += THREADS) {
        const C value = eigenvalue(h, n, k);
        if (complex_values) ((C *)values)[k] = value;
        else ((R *)values)[k] = value.x, ((R *)values)[n + k] = value.y;
    }
    if (wants_vectors && !failed)
        LOOP (int k = threadIdx.x; k < n; k += THREADS) {
            if (is_pair(h, n, k - 1)) continue;
            substitute(h, n, k, eigenvalue(h, n, k), x + (i64)n * k, scale);
            store_vector(z, n, k, is_pair(h, n, k), x + (i64)n * k, vectors, ldv, !complex_vectors);
        }
    if (threadIdx.x == 0) info[blockIdx.y] = failed;
}
