// Particles, systems, filters, graphs and sparse matrices.
typedef unsigned long long u64;

__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}
__device__ void spline_weights(float f, float *w) {
    float g = 1.0f - f;
    w[0] = g * g * g / 6.0f, w[3] = f * f * f / 6.0f;
    w[1] = (3.0f * f * f * f - 6.0f * f * f + 4.0f) / 6.0f, w[2] = (3.0f * g * g * g - 6.0f * g * g + 4.0f) / 6.0f;
}

// Charges spread to a grid by splines of order four: 16 lanes an atom, four words each.
extern "C" __global__ void spread_charges(float *grid, const float4 *atoms, int n, int side) {
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 16, lane = threadIdx.x % 16;
    if (i >= n) return;
    float4 a = atoms[i];
    int x = (int)a.x, y = (int)a.y, z = (int)a.z;
    float wx[4], wy[4], wz[4];
    spline_weights(a.x - x, wx), spline_weights(a.y - y, wy), spline_weights(a.z - z, wz);
    float row = a.w * (lane / 4 == 0 ? wz[0] : lane / 4 == 1 ? wz[1] : lane / 4 == 2 ? wz[2] : wz[3]) * (lane % 4 == 0 ? wy[0] : lane % 4 == 1 ? wy[1] : lane % 4 == 2 ? wy[2] : wy[3]);
    float *to = grid + ((z + lane / 4) % side * side + (y + lane % 4) % side) * side;
    #pragma unroll
    for (int k = 0; k < 4; ++k) atomicAdd(to + (x + k) % side, row * wx[k]);
}

// Charged particles in fields on a grid: six components interpolated from eight corners, Boris' step.
extern "C" __global__ void push_particles(float4 *position, float4 *speed, const float4 *electric, const float4 *magnetic, int n, int side, float step) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = position[i], v = speed[i];
    int x = (int)p.x, y = (int)p.y, z = (int)p.z;
    float fx = p.x - x, fy = p.y - y, fz = p.z - z, ex = 0, ey = 0, ez = 0, bx = 0, by = 0, bz = 0;
    #pragma unroll
    for (int k = 0; k < 8; ++k) {
        int at = ((z + k / 4) % side * side + (y + k / 2 % 2) % side) * side + (x + k % 2) % side;
        float w = (k & 1 ? fx : 1 - fx) * (k & 2 ? fy : 1 - fy) * (k & 4 ? fz : 1 - fz);
        float4 e = electric[at], b = magnetic[at];
        ex += w * e.x, ey += w * e.y, ez += w * e.z, bx += w * b.x, by += w * b.y, bz += w * b.z;
    }
    float h = 0.5f * step;
    v.x += h * ex, v.y += h * ey, v.z += h * ez, bx *= h, by *= h, bz *= h;
    float s = 2.0f / (1.0f + bx * bx + by * by + bz * bz);
    float ux = v.x + v.y * bz - v.z * by, uy = v.y + v.z * bx - v.x * bz, uz = v.z + v.x * by - v.y * bx;
    v.x += s * (uy * bz - uz * by) + h * ex, v.y += s * (uz * bx - ux * bz) + h * ey, v.z += s * (ux * by - uy * bx) + h * ez;
    auto wrap = [&](float q) { return q < 0 ? q + side : q >= side ? q - side : q; };
    p.x = wrap(p.x + step * v.x), p.y = wrap(p.y + step * v.y), p.z = wrap(p.z + step * v.z);
    position[i] = p, speed[i] = v;
}

// Lists of neighbours: a warp a particle looks at 27 cells, ballots keep the near ones in order.
extern "C" __global__ void __launch_bounds__(128) neighbour_lists(int *list, int *counts, const float4 *sorted, const int *cell_start, int n, int side, float reach, int most) {
    int i = (blockIdx.x * 128 + threadIdx.x) / 32, lane = threadIdx.x % 32, found = 0;
    if (i >= n) return;
    float4 p = sorted[i];
    int cx = (int)p.x, cy = (int)p.y, cz = (int)p.z;
    for (int z = max(cz - 1, 0); z <= min(cz + 1, side - 1); ++z)
        for (int y = max(cy - 1, 0); y <= min(cy + 1, side - 1); ++y) {
            int row = (z * side + y) * side, from = cell_start[row + max(cx - 1, 0)], to = cell_start[row + min(cx + 1, side - 1) + 1];
            for (int base = from; base < to; base += 32) {
                int j = base + lane;
                bool near = false;
                if (j < to && j != i) {
                    float4 q = sorted[j];
                    float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
                    near = dx * dx + dy * dy + dz * dz < reach * reach;
                }
                unsigned those = __ballot_sync(~0u, near);
                int at = found + __popc(those & ((1u << lane) - 1));
                if (near && at < most) list[(long long)i * most + at] = j;
                found += __popc(those);
            }
        }
    if (lane == 0) counts[i] = found;
}

// Inner nodes of a hierarchy over sorted codes (Karras): ranges by common prefixes, splits by bisection.
extern "C" __global__ void tree_nodes(int2 *children, const unsigned *codes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n - 1) return;
    unsigned own = codes[i];
    auto prefix = [&](int j) {
        if (j < 0 || j >= n) return -1;
        unsigned other = codes[j];
        return own == other ? 32 + __clz(i ^ j) : __clz(own ^ other);
    };
    int d = prefix(i + 1) > prefix(i - 1) ? 1 : -1, least = prefix(i - d), most = 2, length = 0;
    while (prefix(i + most * d) > least) most *= 2;
    for (int t = most / 2; t; t /= 2)
        if (prefix(i + (length + t) * d) > least) length += t;
    int j = i + length * d, common = prefix(j), split = 0;
    for (int t = length; t > 1;) {
        t = (t + 1) / 2;
        if (prefix(i + (split + t) * d) > common) split += t;
    }
    int at = i + split * d + min(d, 0);
    children[i] = make_int2(min(i, j) == at ? ~at : at, max(i, j) == at + 1 ? ~(at + 1) : at + 1);
}

// Half a sweep of spins on a chessboard, with a hash for chance.
extern "C" __global__ void spin_sweep(signed char *spins, const unsigned *limits, int width, int height, int colour, unsigned seed) {
    int k = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (k >= width / 2) return;
    int x = 2 * k + (y + colour & 1), left = x ? x - 1 : width - 1, right = x + 1 < width ? x + 1 : 0, up = y ? y - 1 : height - 1, down = y + 1 < height ? y + 1 : 0;
    int own = spins[y * width + x], sum = spins[y * width + left] + spins[y * width + right] + spins[up * width + x] + spins[down * width + x];
    if (mixed((y * width + x) * 2654435761u + seed) < limits[(own * sum + 4) / 2]) spins[y * width + x] = -own;
}

// The best exchange of two legs of a round trip: a thread takes every pair that it is given, the least change wins.
extern "C" __global__ void __launch_bounds__(256) exchange_legs(u64 *best, const float2 *towns, int n) {
    extern __shared__ float2 route[];
    __shared__ u64 warps[8];
    for (int k = threadIdx.x; k < n; k += 256) route[k] = towns[k];
    __syncthreads();
    auto leg = [&](int a, int b) {
        float dx = route[a].x - route[b].x, dy = route[a].y - route[b].y;
        return sqrtf(dx * dx + dy * dy);
    };
    u64 mine = ~0ull;
    int pairs = n * (n - 1) / 2;
    for (int p = blockIdx.x * 256 + threadIdx.x; p < pairs; p += gridDim.x * 256) {
        int j = (int)((1.0f + sqrtf(1.0f + 8.0f * p)) * 0.5f);
        while (j * (j - 1) / 2 > p) --j;
        while (j * (j + 1) / 2 <= p) ++j;
        int i = p - j * (j - 1) / 2, i1 = i + 1, j1 = j + 1 < n ? j + 1 : 0;
        float change = leg(i, j) + leg(i1, j1) - leg(i, i1) - leg(j, j1);
        unsigned bits = __float_as_uint(change);
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        mine = min(mine, (u64)bits << 32 | p);
    }
    for (int d = 16; d; d /= 2) mine = min(mine, __shfl_xor_sync(~0u, mine, d));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 8) {
        mine = warps[threadIdx.x];
        for (int d = 4; d; d /= 2) mine = min(mine, __shfl_xor_sync(0xff, mine, d));
        if (threadIdx.x == 0) atomicMin(best, mine);
    }
}

// Distances of series under warped time: a warp a pair, a lane four columns, the wave passes from lane to lane.
extern "C" __global__ void warp_distances(float *dst, const float *one, const float *two, int pairs) {
    int pair = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (pair >= pairs) return;
    float4 column = ((const float4 *)two)[pair * 32 + lane];
    float value[4] = {column.x, column.y, column.z, column.w}, above[4] = {1e30f, 1e30f, 1e30f, 1e30f}, last = 1e30f, corner = lane ? 1e30f : 0.0f;
    for (int wave = 0; wave < 128 + 31; ++wave) {
        int row = wave - lane;
        float left = __shfl_up_sync(~0u, last, 1);
        if (lane == 0) left = 1e30f;
        if (row < 0 || row >= 128) continue;
        float x = one[pair * 128 + row], before = left, diagonal = corner;
        #pragma unroll
        for (int c = 0; c < 4; ++c) {
            float now = fabsf(x - value[c]) + fminf(fminf(before, above[c]), diagonal);
            diagonal = above[c], above[c] = now, before = now;
        }
        last = before, corner = left;
    }
    if (lane == 31) dst[pair] = above[3];
}

// Tracks of four states seen in two places (Kalman): a thread a track, everything in registers.
extern "C" __global__ void __launch_bounds__(128) filter_tracks(float4 *state, const float2 *seen, int n, int steps, float dt, float noise, float spread) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n) return;
    float x[4] = {}, p[4][4] = {};
    for (int k = 0; k < 4; ++k) p[k][k] = 10.0f;
    for (int s = 0; s < steps; ++s) {
        float2 z = seen[(long long)s * n + i];
        x[0] += dt * x[2], x[1] += dt * x[3];
        #pragma unroll
        for (int c = 0; c < 4; ++c) p[0][c] += dt * p[2][c], p[1][c] += dt * p[3][c];
        #pragma unroll
        for (int r = 0; r < 4; ++r) p[r][0] += dt * p[r][2], p[r][1] += dt * p[r][3], p[r][r] += noise;
        float a = p[0][0] + spread, b = p[0][1], c = p[1][0], d = p[1][1] + spread, scale = 1.0f / (a * d - b * c), gain[4][2];
        #pragma unroll
        for (int r = 0; r < 4; ++r) gain[r][0] = (p[r][0] * d - p[r][1] * c) * scale, gain[r][1] = (p[r][1] * a - p[r][0] * b) * scale;
        float dx = z.x - x[0], dy = z.y - x[1], top[2][4];
        #pragma unroll
        for (int k = 0; k < 4; ++k) top[0][k] = p[0][k], top[1][k] = p[1][k];
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
            x[r] += gain[r][0] * dx + gain[r][1] * dy;
            #pragma unroll
            for (int k = 0; k < 4; ++k) p[r][k] -= gain[r][0] * top[0][k] + gain[r][1] * top[1][k];
        }
    }
    state[i] = make_float4(x[0], x[1], x[2], x[3]);
}

// Oscillators by a Runge-Kutta pair that chooses its steps: a thread a system, lanes end at different times.
extern "C" __global__ void adaptive_steps(double2 *end, int *taken, const double2 *start, const double *stiff, int n, double until, double tolerance) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = start[i].x, y = start[i].y, mu = stiff[i], t = 0.0, h = 0.01;
    int steps = 0;
    auto slope = [&](double u, double v, double &du, double &dv) { du = v, dv = mu * (1.0 - u * u) * v - u; };
    while (t < until && steps < 2000) {
        h = fmin(h, until - t);
        double ax, ay, bx, by, cx, cy, dx, dy;
        slope(x, y, ax, ay);
        slope(x + 0.5 * h * ax, y + 0.5 * h * ay, bx, by);
        slope(x + 0.75 * h * bx, y + 0.75 * h * by, cx, cy);
        double nx = x + h * (2.0 / 9.0 * ax + 1.0 / 3.0 * bx + 4.0 / 9.0 * cx), ny = y + h * (2.0 / 9.0 * ay + 1.0 / 3.0 * by + 4.0 / 9.0 * cy);
        slope(nx, ny, dx, dy);
        double ex = h * (-5.0 / 72.0 * ax + 1.0 / 12.0 * bx + 1.0 / 9.0 * cx - 0.125 * dx), ey = h * (-5.0 / 72.0 * ay + 1.0 / 12.0 * by + 1.0 / 9.0 * cy - 0.125 * dy);
        double error = sqrt(ex * ex + ey * ey) / tolerance;
        if (error <= 1.0) t += h, x = nx, y = ny;
        h *= fmin(4.0, fmax(0.25, 0.9 / cbrt(error + 1e-12)));
        ++steps;
    }
    end[i] = make_double2(x, y), taken[i] = steps;
}

// Eccentric anomalies by Newton's rule in doubles, then places on the orbit.
extern "C" __global__ void orbit_places(double2 *place, const double *mean, const double *eccentricity, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double m = mean[i], e = eccentricity[i], angle = m + e * (m < 3.14159265358979 ? 0.5 : -0.5), s, c;
    for (int k = 0; k < 20; ++k) {
        sincos(angle, &s, &c);
        double off = (angle - e * s - m) / (1.0 - e * c);
        angle -= off;
        if (fabs(off) < 1e-13) break;
    }
    sincos(angle, &s, &c);
    place[i] = make_double2(c - e, sqrt(1.0 - e * e) * s);
}

// Sixteen channels apart by a filter bank of eight taps each and a transform over channels in shuffles.
extern "C" __global__ void __launch_bounds__(128) filter_bank(float2 *dst, const float *src, const float *taps, int frames) {
    int frame = (blockIdx.x * 128 + threadIdx.x) / 16, channel = threadIdx.x % 16;
    float sum = 0.0f;
    if (frame < frames)
        for (int k = 0; k < 8; ++k) sum += taps[k * 16 + channel] * src[(frame + k) * 16 + channel];
    float2 out = make_float2(0, 0);
    for (int k = 0; k < 16; ++k) {
        float x = __shfl_sync(~0u, sum, k, 16), s, c;
        sincospif(-0.125f * (k * channel & 15), &s, &c);
        out.x += x * c, out.y += x * s;
    }
    if (frame < frames) dst[frame * 16 + channel] = out;
}

// Recursive filters of second order, three in a row, a thread a channel.
extern "C" __global__ void recursive_filters(float *dst, const float *src, const float *factors, int channels, int steps) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= channels) return;
    float f[3][5], s1[3] = {}, s2[3] = {};
    #pragma unroll
    for (int k = 0; k < 15; ++k) f[k / 5][k % 5] = factors[k * channels + c];
    for (int t = 0; t < steps; ++t) {
        float x = src[(long long)t * channels + c];
        #pragma unroll
        for (int k = 0; k < 3; ++k) {
            float y = f[k][0] * x + s1[k];
            s1[k] = f[k][1] * x - f[k][3] * y + s2[k], s2[k] = f[k][2] * x - f[k][4] * y;
            x = y;
        }
        dst[(long long)t * channels + c] = x;
    }
}

// Eigenvalues of symmetric matrices of 16 by 16 by Jacobi's rotations: eight pairs at once, a warp a matrix.
extern "C" __global__ void __launch_bounds__(64) rotate_pairs(float *values, const float *matrices, int count, int sweeps) {
    __shared__ float all[2][16][17], cosine[2][8], sine[2][8];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, m = blockIdx.x * 2 + warp;
    if (m >= count) return;
    float(*a)[17] = all[warp];
    for (int k = lane; k < 256; k += 32) a[k / 16][k % 16] = matrices[(long long)m * 256 + k];
    __syncwarp();
    for (int round = 0; round < sweeps * 15; ++round) {
        int r = round % 15;
        auto first = [&](int k) { return k == 0 ? 15 : (r + k) % 15; };
        auto second = [&](int k) { return k == 0 ? r : (r + 15 - k) % 15; };
        if (lane < 8) {
            int p = first(lane), q = second(lane);
            float off = a[p][q], c = 1.0f, s = 0.0f;
            if (fabsf(off) > 1e-12f) {
                float theta = (a[q][q] - a[p][p]) / (2.0f * off), t = copysignf(1.0f, theta) / (fabsf(theta) + sqrtf(theta * theta + 1.0f));
                c = rsqrtf(t * t + 1.0f), s = t * c;
            }
            cosine[warp][lane] = c, sine[warp][lane] = s;
        }
        __syncwarp();
        for (int k = lane; k < 128; k += 32) {
            int p = first(k / 16), q = second(k / 16), j = k % 16;
            float c = cosine[warp][k / 16], s = sine[warp][k / 16], x = a[p][j], y = a[q][j];
            a[p][j] = c * x - s * y, a[q][j] = s * x + c * y;
        }
        __syncwarp();
        for (int k = lane; k < 128; k += 32) {
            int p = first(k / 16), q = second(k / 16), j = k % 16;
            float c = cosine[warp][k / 16], s = sine[warp][k / 16], x = a[j][p], y = a[j][q];
            a[j][p] = c * x - s * y, a[j][q] = s * x + c * y;
        }
        __syncwarp();
    }
    if (lane < 16) values[m * 16 + lane] = a[lane][lane];
}

// Householder's triangles of matrices of 32 by 32: a warp a matrix, a lane a column in registers.
extern "C" __global__ void __launch_bounds__(96) reflect_columns(float *matrices, int count) {
    int m = (blockIdx.x * 96 + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (m >= count) return;
    float a[32];
    #pragma unroll
    for (int r = 0; r < 32; ++r) a[r] = matrices[((long long)m * 32 + r) * 32 + lane];
    #pragma unroll
    for (int k = 0; k < 31; ++k) {
        float v[32], square = 0.0f;
        #pragma unroll
        for (int r = k; r < 32; ++r) v[r] = __shfl_sync(~0u, a[r], k), square += v[r] * v[r];
        float length = copysignf(sqrtf(square), -v[k]), head = v[k] - length, norm = square - v[k] * v[k] + head * head, dot = head * a[k];
        v[k] = head;
        #pragma unroll
        for (int r = k + 1; r < 32; ++r) dot += v[r] * a[r];
        float scale = norm > 0.0f ? 2.0f * dot / norm : 0.0f;
        if (lane >= k) {
            #pragma unroll
            for (int r = k; r < 32; ++r) a[r] -= scale * v[r];
        }
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) matrices[((long long)m * 32 + r) * 32 + lane] = a[r];
}

// Sparse rows by a vector, rows and elements shared out evenly: eight steps a thread along the path where both merge.
extern "C" __global__ void __launch_bounds__(128) merged_rows(float *y, const int *ends, const int *columns, const float *values, const float *x, int rows, int elements) {
    int diagonal = min((blockIdx.x * 128 + threadIdx.x) * 8, rows + elements), stop = min(diagonal + 8, rows + elements);
    int low = max(0, diagonal - elements), high = min(diagonal, rows);
    while (low < high) {
        int middle = (low + high) / 2;
        if (ends[middle] <= diagonal - middle - 1) low = middle + 1;
        else high = middle;
    }
    int row = low, e = diagonal - low;
    float sum = 0.0f;
    bool whole = row < rows && e == (row ? ends[row - 1] : 0);
    for (int k = diagonal; k < stop; ++k) {
        if (row < rows && e < ends[row]) sum += values[e] * x[columns[e]], ++e;
        else {
            if (whole) y[row] += sum;
            else atomicAdd(y + row, sum);
            sum = 0.0f, ++row, whole = true;
        }
    }
    if (row < rows && sum != 0.0f) atomicAdd(y + row, sum);
}

// Sparse matrix by sparse matrix: a warp a row, its products summed in a table of 256 places in shared memory.
extern "C" __global__ void __launch_bounds__(128) hashed_rows(int *filled, float *sums, const int *a_start, const int *a_column, const float *a_value, const int *b_start, const int *b_column, const float *b_value, int rows) {
    __shared__ int key[4][256];
    __shared__ float sum[4][256];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * 4 + warp;
    if (row >= rows) return;
    for (int k = lane; k < 256; k += 32) key[warp][k] = -1, sum[warp][k] = 0.0f;
    __syncwarp();
    for (int e = a_start[row]; e < a_start[row + 1]; ++e) {
        int middle = a_column[e];
        float factor = a_value[e];
        for (int f = b_start[middle] + lane; f < b_start[middle + 1]; f += 32) {
            int column = b_column[f], place = column * 107 & 255;
            while (true) {
                int seen = atomicCAS(&key[warp][place], -1, column);
                if (seen == -1 || seen == column) break;
                place = place + 1 & 255;
            }
            atomicAdd(&sum[warp][place], factor * b_value[f]);
        }
    }
    __syncwarp();
    int used = 0;
    float all = 0.0f;
    for (int k = lane; k < 256; k += 32) {
        bool there = key[warp][k] >= 0;
        used += __popc(__ballot_sync(~0u, there)), all += there ? sum[warp][k] * (1 + key[warp][k] % 7) : 0.0f;
    }
    for (int d = 16; d; d /= 2) all += __shfl_xor_sync(~0u, all, d);
    if (lane == 0) filled[row] = used, sums[row] = all;
}

// A round of peeling: vertices of few neighbours left go, and their neighbours have one less.
extern "C" __global__ void peel_round(int *degree, int *removed, unsigned *gone, const int *first, const int *neighbours, int vertices, int k) {
    int v = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    bool leaves = v < vertices && !removed[v] && removed[v + vertices] < k;
    if (leaves) {
        if (lane == 0) removed[v] = 1;
        for (int e = first[v] + lane; e < first[v + 1]; e += 8) atomicSub(degree + neighbours[e], 1);
    }
    unsigned those = __ballot_sync(~0u, leaves && lane == 0);
    if (threadIdx.x % 32 == 0 && those) atomicAdd(gone, __popc(those));
}

// Sixteen nearest points: each thread keeps them in a heap in its own memory.
extern "C" __global__ void __launch_bounds__(128) heap_nearest(float *far, const float4 *points, const float4 *queries, int n, int queried) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float heap[16];
    float4 q = queries[min(i, queried - 1)];
    for (int k = 0; k < 16; ++k) heap[k] = 1e30f;
    for (int base = 0; base < n; base += 128) {
        __syncthreads();
        if (base + threadIdx.x < n) tile[threadIdx.x] = points[base + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < min(128, n - base); ++j) {
            float dx = tile[j].x - q.x, dy = tile[j].y - q.y, dz = tile[j].z - q.z, d = dx * dx + dy * dy + dz * dz;
            if (d >= heap[0]) continue;
            int at = 0;
            while (2 * at + 1 < 16) {
                int child = 2 * at + 1;
                if (child + 1 < 16 && heap[child + 1] > heap[child]) ++child;
                if (heap[child] <= d) break;
                heap[at] = heap[child], at = child;
            }
            heap[at] = d;
        }
    }
    float sum = 0.0f;
    for (int k = 1; k < 16; ++k) sum += heap[k];
    if (i < queried) far[2 * i] = heap[0], far[2 * i + 1] = sum;
}

// Sums over every pair of 24 terms, more values than registers are allowed: compiled for 32 of them.
extern "C" __global__ void spilled_pairs(float *dst, const float *src, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x[24], y[24];
    #pragma unroll
    for (int k = 0; k < 24; ++k) x[k] = src[(long long)k * n + i], y[k] = 0.0f;
    for (int r = 0; r < rounds; ++r) {
        #pragma unroll
        for (int k = 0; k < 24; ++k)
            #pragma unroll
            for (int j = 1; j < 4; ++j) y[k] += x[(k + j * 7) % 24] * x[(k + j * 5 + 1) % 24];
        #pragma unroll
        for (int k = 0; k < 24; ++k) x[k] = 0.5f * x[k] + 0.0625f * y[k], y[k] *= 0.25f;
    }
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 24; ++k) sum += x[k] * (k + 1);
    dst[i] = sum;
}
