// Dense factorisations and solvers, one block for each matrix of a batch, column-major. Macros: ELEMENT float, double, c64 or c128.
#include "dense.cuh"

// Solves op(A) X = alpha B in place of B, or X op(A) = alpha B: columns of X, or rows, are blocks of the grid's x.
extern "C" __global__ void warpwright_trsm(
    int rows, int columns, int from_right, int lower, int op, int unit, const T *alpha_place, double alpha_real, double alpha_imaginary,
    Batch a_batch, i64 lda, Batch b_batch, i64 ldb) {
    const T *a = of(a_batch);
    int n = from_right ? columns : rows, right = blockIdx.x;
    i64 step = from_right ? ldb : 1;
    T *b = of(b_batch) + (from_right ? right : right * ldb);
    T alpha = alpha_place ? *alpha_place : Scalar<T>::of(alpha_real, alpha_imaginary);
    LOOP (int i = threadIdx.x; i < n; i += THREADS) b[i * step] = alpha * b[i * step];
    // From the right the system is the transposed one; conjugation stays.
    bool transposed = (op != 0) != (from_right != 0), forward = (lower != 0) != transposed;
    LOOP (int s = 0; s < n; s++) {
        int j = forward ? s : n - 1 - s;
        __syncthreads();
        T d = a[j + lda * j];
        if (threadIdx.x == 0 && !unit) b[j * step] = b[j * step] / (op == 2 ? conjugate(d) : d);
        __syncthreads();
        T x = b[j * step];
        int first = forward ? j + 1 : 0, last = forward ? n : j;
        LOOP (int i = first + threadIdx.x; i < last; i += THREADS) {
            T v = transposed ? a[j + lda * i] : a[i + lda * j];
            b[i * step] = b[i * step] - (op == 2 ? conjugate(v) : v) * x;
        }
    }
}

// A = P L U in place; pivots are counted from 1; null: no pivoting.
extern "C" __global__ void warpwright_getrf(int m, int n, Batch batch, i64 ld, int *pivots, int *info) {
    __shared__ R best[THREADS];
    __shared__ int places[THREADS];
    T *a = of(batch);
    int least = m < n ? m : n, failed = 0;
    LOOP (int k = 0; k < least; k++) {
        if (pivots) {
            R largest = -1;
            int place = k;
            LOOP (int i = k + threadIdx.x; i < m; i += THREADS) {
                R v = absolute(a[i + ld * k]);
                if (v > largest) largest = v, place = i;
            }
            best[threadIdx.x] = largest, places[threadIdx.x] = place;
            LOOP (int half = THREADS / 2; half; half >>= 1) {
                __syncthreads();
                if (threadIdx.x < half) {
                    R other = best[threadIdx.x + half], own = best[threadIdx.x];
                    if (other > own || (other == own && places[threadIdx.x + half] < places[threadIdx.x]))
                        best[threadIdx.x] = other, places[threadIdx.x] = places[threadIdx.x + half];
                }
            }
            __syncthreads();
            int pivot = places[0];
            if (threadIdx.x == 0) pivots[blockIdx.y * (i64)least + k] = pivot + 1;
            if (pivot != k)
                LOOP (int j = threadIdx.x; j < n; j += THREADS) {
                    T v = a[k + ld * j];
                    a[k + ld * j] = a[pivot + ld * j];
                    a[pivot + ld * j] = v;
                }
            __syncthreads();
        }
        T d = a[k + ld * k];
        if (is_zero(d)) {
            if (!failed) failed = k + 1;
            __syncthreads();
            continue;
        }
        LOOP (int i = k + 1 + threadIdx.x; i < m; i += THREADS) a[i + ld * k] = a[i + ld * k] / d;
        __syncthreads();
        int below = m - k - 1;
        i64 count = (i64)below * (n - k - 1);
        LOOP (i64 at = threadIdx.x; at < count; at += THREADS) {
            int i = k + 1 + (int)(at % below), j = k + 1 + (int)(at / below);
            a[i + ld * j] = a[i + ld * j] - a[i + ld * k] * a[k + ld * j];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) info[blockIdx.y] = failed;
}
// The row exchanges of getrf, forwards or backwards; a thread for each column.
extern "C" __global__ void warpwright_exchange_rows(int n, int columns, const int *pivots, Batch batch, i64 ld, int backwards) {
    T *b = of(batch);
    int j = blockIdx.x * THREADS + threadIdx.x;
    if (j >= columns) return;
    LOOP (int s = 0; s < n; s++) {
        int k = backwards ? n - 1 - s : s, pivot = pivots[blockIdx.y * (i64)n + k] - 1;
        T v = b[k + ld * j];
        b[k + ld * j] = b[pivot + ld * j];
        b[pivot + ld * j] = v;
    }
}
// A = L L^H or U^H U in place of the named triangle.
extern "C" __global__ void warpwright_potrf(int lower, int n, Batch batch, i64 ld, int *info) {
    T *a = of(batch);
    int failed = 0;
    i64 down = lower ? 1 : ld, across = lower ? ld : 1;  // the upper triangle as the lower one of the transposed matrix
    LOOP (int k = 0; k < n && !failed; k++) {
        R d = real_part(a[k * down + k * across]);
        if (!(d > 0)) {
            failed = k + 1;
            break;
        }
        R root = sqrt(d);
        __syncthreads();
        if (threadIdx.x == 0) a[k * down + k * across] = real_value(root);
        LOOP (int i = k + 1 + threadIdx.x; i < n; i += THREADS) a[i * down + k * across] = a[i * down + k * across] / real_value(root);
        __syncthreads();
        int below = n - k - 1;
        LOOP (i64 at = threadIdx.x; at < (i64)below * below; at += THREADS) {
            int i = k + 1 + (int)(at % below), j = k + 1 + (int)(at / below);
            if (i < j) continue;
            T l = a[i * down + k * across], r = a[j * down + k * across];
            a[i * down + j * across] = a[i * down + j * across] - l * conjugate(r);
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) info[blockIdx.y] = failed;
}

// The Householder vector that leaves of a column only its element `k`, which becomes real: it takes the place of the elements below. Its factor is the result (LAPACK's form).
__device__ T reflector(int m, int k, T *column) {
    R rest = 0;
    LOOP (int i = k + 1 + threadIdx.x; i < m; i += THREADS) rest += norm2(column[i]);
    rest = block_sum(rest);
    T alpha = column[k];
    R size = sqrt(norm2(alpha) + rest), top = real_part(alpha);
    R beta = top > 0 ? -size : size;
    if (rest == 0 && norm2(alpha) == top * top) return T{};
    T factor = alpha - real_value(beta);
    LOOP (int i = k + 1 + threadIdx.x; i < m; i += THREADS) column[i] = column[i] / factor;
    __syncthreads();
    if (threadIdx.x == 0) column[k] = real_value(beta);
    __syncthreads();
    return (real_value(beta) - alpha) / real_value(beta);
}
// column = (1 - conj(tau) v v^H) column, with the vector that `reflector` left.
__device__ void reflect(int m, int k, const T *v, T tau, T *column) {
    T sum = T{};
    LOOP (int i = k + 1 + threadIdx.x; i < m; i += THREADS) sum = fused(conjugate(v[i]), column[i], sum);
    sum = conjugate(tau) * (block_sum(sum) + column[k]);
    __syncthreads();
    LOOP (int i = k + 1 + threadIdx.x; i < m; i += THREADS) column[i] = column[i] - v[i] * sum;
    if (threadIdx.x == 0) column[k] = column[k] - sum;
    __syncthreads();
}
// A = Q R: R above, the reflectors below the diagonal, with factors tau.
extern "C" __global__ void warpwright_geqrf(int m, int n, Batch batch, i64 ld, Batch tau_batch) {
    T *a = of(batch), *taus = of(tau_batch);
    int least = m < n ? m : n;
    LOOP (int k = 0; k < least; k++) {
        T tau = reflector(m, k, a + ld * k);
        if (threadIdx.x == 0) taus[k] = tau;
        if (is_zero(tau)) continue;
        LOOP (int j = k + 1; j < n; j++) reflect(m, k, a + ld * k, tau, a + ld * j);
    }
}
// The least-squares solutions of A X = C, m >= n, in C's first n rows; A becomes Q R. Of a matrix without full rank `info` is the first zero of R's diagonal, counted from 1, and C becomes
// the transformed right-hand sides.
extern "C" __global__ void warpwright_gels(int m, int n, int columns, Batch batch, i64 ld, Batch c_batch, i64 ldc, int *info) {
    T *a = of(batch), *c = of(c_batch);
    int failed = 0;
    LOOP (int k = 0; k < n; k++) {
        T tau = reflector(m, k, a + ld * k);
        if (!failed && is_zero(a[k + ld * k])) failed = k + 1;
        if (is_zero(tau)) continue;
        LOOP (int j = k + 1; j < n; j++) reflect(m, k, a + ld * k, tau, a + ld * j);
        LOOP (int j = 0; j < columns; j++) reflect(m, k, a + ld * k, tau, c + ldc * j);
    }
    LOOP (int k = n - 1; k >= 0 && !failed; k--)
        LOOP (int j = 0; j < columns; j++) {
            __syncthreads();
            T x = c[k + ldc * j] / a[k + ld * k];
            __syncthreads();
            LOOP (int i = threadIdx.x; i < k; i += THREADS) c[i + ldc * j] = c[i + ldc * j] - a[i + ld * k] * x;
            if (threadIdx.x == 0) c[k + ldc * j] = x;
        }
    if (threadIdx.x == 0 && info) info[blockIdx.y] = failed;
}
// C = op(Q) C by k reflectors of length m; a block of the grid's x for each column. From the right columns are rows.
extern "C" __global__ void warpwright_apply_reflectors(int m, int k, int from_right, int op, const T *a, i64 lda, const T *taus, T *c, i64 ldc) {
    i64 step = from_right ? ldc : 1;
    c += from_right ? blockIdx.x : blockIdx.x * ldc;
    // Q = H1 H2 ...: Q C begins with the last one, C Q with the first; a row is the transposed one, so the vectors are conjugated.
    bool forward = (op != 0) != (from_right != 0);
    LOOP (int s = 0; s < k; s++) {
        int r = forward ? s : k - 1 - s;
        T tau = op ? conjugate(taus[r]) : taus[r], sum = T{};
        LOOP (int i = r + 1 + threadIdx.x; i < m; i += THREADS) {
            T v = a[i + lda * r];
            sum = fused(from_right ? v : conjugate(v), c[i * step], sum);
        }
        sum = tau * (block_sum(sum) + c[r * step]);
        __syncthreads();
        LOOP (int i = r + 1 + threadIdx.x; i < m; i += THREADS) {
            T v = a[i + lda * r];
            c[i * step] = c[i * step] - (from_right ? conjugate(v) : v) * sum;
        }
        if (threadIdx.x == 0) c[r * step] = c[r * step] - sum;
        __syncthreads();
    }
}
extern "C" __global__ void warpwright_set_info(int *info, int count) {
    if (threadIdx.x < count) info[threadIdx.x] = 0;
}
extern "C" __global__ void warpwright_identity(int m, int n, T *a, i64 ld) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at < (i64)m * n) a[at % m + ld * (at / m)] = real_value(at % m == at / m ? 1 : 0);
}
extern "C" __global__ void warpwright_copy(int m, int n, const T *a, i64 lda, T *b, i64 ldb) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at < (i64)m * n) b[at % m + ldb * (at / m)] = a[at % m + lda * (at / m)];
}
extern "C" __global__ void warpwright_adjoint(int m, int n, Batch a_batch, i64 lda, Batch b_batch) {
    const T *a = of(a_batch);
    T *b = of(b_batch);
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at < (i64)m * n) b[at] = conjugate(a[at / n + lda * (at % n)]);
}

// Eigenvalues and vectors of a Hermitian matrix by cyclic Jacobi rotations; work holds a matrix for each of the batch.
extern "C" __global__ void warpwright_heev(int vectors, int lower, int n, Batch batch, i64 ld, R *values, T *work, int sweeps, R tolerance, int *info) {
    __shared__ R cosine;
    __shared__ T sine;
    __shared__ int rotates;
    T *a = of(batch), *v = work + (i64)n * n * 2 * blockIdx.y, *w = v + (i64)n * n;
    R *d = values + (i64)n * blockIdx.y;
    LOOP (i64 at = threadIdx.x; at < (i64)n * n; at += THREADS) {
        int i = (int)(at % n), j = (int)(at / n);
        bool given = lower ? i >= j : i <= j;
        T x = given ? a[i + ld * j] : conjugate(a[j + ld * i]);
        w[at] = i == j ? real_value(real_part(x)) : x;
        v[at] = real_value(i == j ? 1 : 0);
    }
    __syncthreads();
    int left = 1;
    LOOP (int sweep = 0; sweep < sweeps && left; sweep++) {
        R off = 0, all = 0;
        LOOP (i64 at = threadIdx.x; at < (i64)n * n; at += THREADS) {
            R x = norm2(w[at]);
            all += x;
            if (at % n != at / n) off += x;
        }
        off = block_sum(off), all = block_sum(all);
        if (off <= tolerance * tolerance * all) left = 0;
        LOOP (int p = 0; p < n - 1 && left; p++)
            LOOP (int q = p + 1; q < n; q++) {
                __syncthreads();
                if (threadIdx.x == 0) {
                    T x = w[p + (i64)n * q];
                    R size = absolute(x), app = real_part(w[p + (i64)n * p]), aqq = real_part(w[q + (i64)n * q]);
                    rotates = size > 0;
                    if (rotates) {
                        R theta = (aqq - app) / (2 * size);
                        R t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
                        cosine = 1 / sqrt(t * t + 1);
                        sine = x / real_value(size) * real_value(t * cosine);
                    }
                }
                __syncthreads();
                if (!rotates) continue;
                T c = real_value(cosine), s = sine;
                LOOP (int i = threadIdx.x; i < n; i += THREADS) {
                    T x = w[i + (i64)n * p], y = w[i + (i64)n * q];
                    w[i + (i64)n * p] = c * x - conjugate(s) * y;
                    w[i + (i64)n * q] = s * x + c * y;
                    x = v[i + (i64)n * p], y = v[i + (i64)n * q];
                    v[i + (i64)n * p] = c * x - conjugate(s) * y;
                    v[i + (i64)n * q] = s * x + c * y;
                }
                __syncthreads();
                LOOP (int j = threadIdx.x; j < n; j += THREADS) {
                    T x = w[p + (i64)n * j], y = w[q + (i64)n * j];
                    w[p + (i64)n * j] = c * x - s * y;
                    w[q + (i64)n * j] = conjugate(s) * x + c * y;
                }
            }
        __syncthreads();
    }
    // Ascending order by rank.
    LOOP (int i = threadIdx.x; i < n; i += THREADS) {
        R own = real_part(w[i + (i64)n * i]);
        int rank = 0;
        LOOP (int j = 0; j < n; j++) {
            R other = real_part(w[j + (i64)n * j]);
            rank += other < own || (other == own && j < i);
        }
        d[rank] = own;
        if (vectors)
            LOOP (int r = 0; r < n; r++) a[r + ld * rank] = v[r + (i64)n * i];
    }
    if (threadIdx.x == 0) info[blockIdx.y] = left ? n : 0;
}

// A = U S V^H by one-sided Jacobi rotations of A's columns (m >= n); work holds A and V for each of the batch, m n + n n elements.
extern "C" __global__ void warpwright_gesvd(
    int vectors, int m, int n, Batch batch, i64 ld, R *values, Batch u_batch, i64 ldu, int u_columns, Batch v_batch, i64 ldv, int v_transposed,
    T *work, int sweeps, R tolerance, int *info) {
    __shared__ R cosine;
    __shared__ T sine;
    __shared__ int rotates, rotated;
    T *a = of(batch), *w = work + ((i64)m * n + (i64)n * n) * blockIdx.y, *v = w + (i64)m * n;
    R *s = values + (i64)n * blockIdx.y;
    LOOP (i64 at = threadIdx.x; at < (i64)m * n; at += THREADS) w[at] = a[at % m + ld * (at / m)];
    LOOP (i64 at = threadIdx.x; at < (i64)n * n; at += THREADS) v[at] = real_value(at % n == at / n ? 1 : 0);
    __syncthreads();
    int left = 1;
    LOOP (int sweep = 0; sweep < sweeps && left; sweep++) {
        if (threadIdx.x == 0) rotated = 0;
        LOOP (int p = 0; p < n - 1; p++)
            LOOP (int q = p + 1; q < n; q++) {
                R pp = 0, qq = 0;
                T pq = T{};
                LOOP (int i = threadIdx.x; i < m; i += THREADS) {
                    T x = w[i + (i64)m * p], y = w[i + (i64)m * q];
                    pp += norm2(x), qq += norm2(y);
                    pq = fused(conjugate(x), y, pq);
                }
                pp = block_sum(pp), qq = block_sum(qq), pq = block_sum(pq);
                if (threadIdx.x == 0) {
                    R size = absolute(pq);
                    rotates = size > tolerance * sqrt(pp) * sqrt(qq) && size > 0;
                    if (rotates) {
                        rotated = 1;
                        R theta = (qq - pp) / (2 * size);
                        R t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
                        cosine = 1 / sqrt(t * t + 1);
                        sine = pq / real_value(size) * real_value(t * cosine);
                    }
                }
                __syncthreads();
                if (!rotates) continue;
                T c = real_value(cosine), r = sine;
                LOOP (int i = threadIdx.x; i < m; i += THREADS) {
                    T x = w[i + (i64)m * p], y = w[i + (i64)m * q];
                    w[i + (i64)m * p] = c * x - conjugate(r) * y;
                    w[i + (i64)m * q] = r * x + c * y;
                }
                LOOP (int i = threadIdx.x; i < n; i += THREADS) {
                    T x = v[i + (i64)n * p], y = v[i + (i64)n * q];
                    v[i + (i64)n * p] = c * x - conjugate(r) * y;
                    v[i + (i64)n * q] = r * x + c * y;
                }
                __syncthreads();
            }
        __syncthreads();
        left = rotated;
        __syncthreads();
    }
    // Descending order by rank.
    T *u = vectors ? of(u_batch) : nullptr, *to = vectors ? of(v_batch) : nullptr;
    R *sizes = s;
    LOOP (int i = threadIdx.x; i < n; i += THREADS) {
        R sum = 0;
        LOOP (int r = 0; r < m; r++) sum += norm2(w[r + (i64)m * i]);
        sizes[i] = sqrt(sum);
    }
    __syncthreads();
    LOOP (int first = 0; first < n; first += THREADS) {
        int i = first + threadIdx.x, rank = 0;
        R own = i < n ? sizes[i] : 0;
        LOOP (int j = 0; i < n && j < n; j++) rank += sizes[j] > own || (sizes[j] == own && j < i);
        if (vectors && i < n) {
            LOOP (int r = 0; r < m; r++) u[r + ldu * rank] = own > 0 ? w[r + (i64)m * i] / real_value(own) : T{};
            LOOP (int r = 0; r < n; r++) {
                if (v_transposed) to[rank + ldv * r] = conjugate(v[r + (i64)n * i]);
                else to[r + ldv * rank] = v[r + (i64)n * i];
            }
        }
    }
    __syncthreads();
    // The values themselves, where they are.
    if (threadIdx.x == 0)
        LOOP (int i = 1; i < n; i++) {
            R x = s[i];
            int j = i - 1;
            LOOP (; j >= 0 && s[j] < x; j--) s[j + 1] = s[j];
            s[j + 1] = x;
        }
    __syncthreads();
    // Columns of U for values of 0, and those beyond n: unit vectors made orthogonal to the ones before.
    if (!vectors) {
        if (threadIdx.x == 0) info[blockIdx.y] = left ? n + 1 : 0;
        return;
    }
    LOOP (int c = 0, next = 0; c < u_columns; c++) {
        if (c < n && s[c] > 0) continue;
        LOOP (; next < m; next++) {
            LOOP (int i = threadIdx.x; i < m; i += THREADS) u[i + ldu * c] = real_value(i == next ? 1 : 0);
            __syncthreads();
            LOOP (int twice = 0; twice < 2; twice++)
                LOOP (int j = 0; j < c; j++) {
                    T sum = T{};
                    LOOP (int i = threadIdx.x; i < m; i += THREADS) sum = fused(conjugate(u[i + ldu * j]), u[i + ldu * c], sum);
                    sum = block_sum(sum);
                    LOOP (int i = threadIdx.x; i < m; i += THREADS) u[i + ldu * c] = u[i + ldu * c] - sum * u[i + ldu * j];
                    __syncthreads();
                }
            R size = 0;
            LOOP (int i = threadIdx.x; i < m; i += THREADS) size += norm2(u[i + ldu * c]);
            size = sqrt(block_sum(size));
            if (size < (R)0.5 / sqrt((R)m)) continue;
            LOOP (int i = threadIdx.x; i < m; i += THREADS) u[i + ldu * c] = u[i + ldu * c] / real_value(size);
            __syncthreads();
            next++;
            break;
        }
    }
    if (threadIdx.x == 0) info[blockIdx.y] = left ? n + 1 : 0;
}
