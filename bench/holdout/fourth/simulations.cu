// Simulations in physics, chemistry and finance.

__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// Forward rates of the LIBOR market model along given normal numbers: forty rates in a local array.
extern "C" __global__ void __launch_bounds__(64) libor_paths(float *payoff, const float *normals, const float *volatility, int paths, int steps, float delta) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= paths) return;
    float rate[40];
    for (int k = 0; k < 40; ++k) rate[k] = 0.05f;
    for (int s = 0; s < steps; ++s) {
        float z = sqrtf(delta) * normals[s * paths + i], drift = 0.0f;
        for (int k = s + 1; k < 40; ++k) {
            float lam = volatility[k - s - 1], c = delta * lam;
            drift += c * rate[k] / (1.0f + delta * rate[k]);
            rate[k] *= expf(c * drift + lam * (z - 0.5f * c));
        }
    }
    float bond = 1.0f, sum = 0.0f, swap = 0.0f;
    for (int k = steps; k < 40; ++k) {
        bond /= 1.0f + delta * rate[k];
        sum += delta * bond;
        if (k % 5 == 4) swap += fmaxf(0.0f, 100.0f * (1.0f - bond - 0.05f * sum));
    }
    payoff[i] = swap;
}

__device__ float normal_cdf(float x) { return 0.5f * erfcf(-x * 0.70710678f); }

// Volatilities that give call options their prices: Newton's steps until each converges.
extern "C" __global__ void implied_volatility(float *out, const float *price, const float *strike, const float *years, int n, float spot, float rate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float k = strike[i], t = years[i], root = sqrtf(t), discount = k * expf(-rate * t), sigma = 0.5f;
    for (int step = 0; step < 30; ++step) {
        float d1 = (logf(spot / k) + (rate + 0.5f * sigma * sigma) * t) / (sigma * root);
        float value = spot * normal_cdf(d1) - discount * normal_cdf(d1 - sigma * root), vega = spot * root * 0.39894228f * expf(-0.5f * d1 * d1);
        float change = (value - price[i]) / fmaxf(vega, 1e-4f);
        sigma = fminf(fmaxf(sigma - change, 0.01f), 3.0f);
        if (fabsf(change) < 1e-4f) break;
    }
    out[i] = sigma;
}

// Lennard-Jones forces over neighbour lists in columns, periodic box.
extern "C" __global__ void __launch_bounds__(128) lj_verlet(float4 *force, const float4 *place, const int *count, const int *neighbour, int n, float box, float cutoff2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = place[i], f = make_float4(0, 0, 0, 0);
    for (int k = 0; k < count[i]; ++k) {
        float4 q = __ldg(&place[neighbour[k * n + i]]);
        float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
        dx -= box * rintf(dx / box), dy -= box * rintf(dy / box), dz -= box * rintf(dz / box);
        float r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < cutoff2) {
            float i2 = 1.0f / r2, i6 = i2 * i2 * i2, s = i6 * (48.0f * i6 - 24.0f) * i2;
            f.x += s * dx, f.y += s * dy, f.z += s * dz, f.w += 4.0f * i6 * (i6 - 1.0f);
        }
    }
    force[i] = f;
}

// Densities and pressures of smoothed particles that are sorted by cell: 27 cells each.
extern "C" __global__ void __launch_bounds__(128) sph_density(float2 *out, const float4 *place, const int *first, int n, int side, float h) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = place[i];
    int cx = p.x / h, cy = p.y / h, cz = p.z / h;
    float sum = 0.0f;
    for (int z = max(cz - 1, 0); z <= min(cz + 1, side - 1); ++z)
        for (int y = max(cy - 1, 0); y <= min(cy + 1, side - 1); ++y) {
            int row = (z * side + y) * side, from = first[row + max(cx - 1, 0)], end = first[row + min(cx + 1, side - 1) + 1];
            for (int j = from; j < end; ++j) {
                float4 q = place[j];
                float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, w = h * h - dx * dx - dy * dy - dz * dz;
                if (w > 0.0f) sum += q.w * w * w * w;
            }
        }
    float density = 1.56668147f / powf(h, 9.0f) * sum, ratio = density / 1000.0f;
    out[i] = make_float2(density, 2.0e5f * (powf(ratio, 7.0f) - 1.0f));
}

// Stiffness of linear tetrahedra, added to the diagonal blocks of their nodes and the right-hand side.
extern "C" __global__ void __launch_bounds__(128) fem_assemble(double *diagonal, double *load, const int4 *elements, const double *place, int n) {
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= n) return;
    int4 node = elements[e];
    const int *at = (const int *)&node;
    double x[4][3], b[3][3];
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        #pragma unroll
        for (int c = 0; c < 3; ++c) x[k][c] = place[at[k] * 3 + c];
    #pragma unroll
    for (int k = 0; k < 3; ++k)
        #pragma unroll
        for (int c = 0; c < 3; ++c) b[k][c] = x[k + 1][c] - x[0][c];
    double g[4][3], det = 0.0;
    #pragma unroll
    for (int c = 0; c < 3; ++c) {
        int u = (c + 1) % 3, v = (c + 2) % 3;
        g[1][c] = b[1][u] * b[2][v] - b[1][v] * b[2][u];
        g[2][c] = b[2][u] * b[0][v] - b[2][v] * b[0][u];
        g[3][c] = b[0][u] * b[1][v] - b[0][v] * b[1][u];
        g[0][c] = -g[1][c] - g[2][c] - g[3][c];
        det += b[0][c] * g[1][c];
    }
    double volume = fabs(det) / 6.0, scale = volume / (det * det);
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        atomicAdd(&diagonal[at[k]], scale * (g[k][0] * g[k][0] + g[k][1] * g[k][1] + g[k][2] * g[k][2]));
        atomicAdd(&load[at[k]], 0.25 * volume);
    }
}

__device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 operator-(float2 a, float2 b) { return make_float2(a.x - b.x, a.y - b.y); }
__device__ float2 turned(float2 a, int quarters) { return quarters == 0 ? a : quarters == 1 ? make_float2(-a.y, a.x) : quarters == 2 ? make_float2(-a.x, -a.y) : make_float2(a.y, -a.x); }

// Wilson's operator on a four-dimensional lattice: spinors projected to half, turned by links of SU(3), put together again.
extern "C" __global__ void __launch_bounds__(128) wilson_dslash(float2 *out, const float2 *in, const float2 *links, int lx, int ly, int lz, int lt) {
    int volume = lx * ly * lz * lt, site = blockIdx.x * blockDim.x + threadIdx.x;
    if (site >= volume) return;
    int extent[4] = {lx, ly, lz, lt}, at[4] = {site % lx, site / lx % ly, site / (lx * ly) % lz, site / (lx * ly * lz)}, stride[4] = {1, lx, lx * ly, lx * ly * lz};
    // gamma_mu takes spin s to spin other[mu][s], times i to the power quarters[mu][s].
    constexpr int other[4][4] = {{3, 2, 1, 0}, {3, 2, 1, 0}, {2, 3, 0, 1}, {2, 3, 0, 1}};
    constexpr int quarters[4][4] = {{1, 1, 3, 3}, {2, 0, 0, 2}, {1, 3, 3, 1}, {0, 0, 0, 0}};
    float2 sum[4][3];
    #pragma unroll
    for (int s = 0; s < 4; ++s)
        #pragma unroll
        for (int c = 0; c < 3; ++c) sum[s][c] = make_float2(0, 0);
    #pragma unroll
    for (int mu = 0; mu < 4; ++mu)
        #pragma unroll
        for (int sign = 0; sign < 2; ++sign) {
            int step = sign ? (at[mu] == 0 ? extent[mu] - 1 : -1) : (at[mu] == extent[mu] - 1 ? 1 - extent[mu] : 1), from = site + step * stride[mu], link = sign ? from : site;
            float2 half[2][3];
            #pragma unroll
            for (int s = 0; s < 2; ++s)
                #pragma unroll
                for (int c = 0; c < 3; ++c) {
                    float2 one = in[(s * 3 + c) * volume + from], two = turned(in[(other[mu][s] * 3 + c) * volume + from], quarters[mu][s]);
                    half[s][c] = sign ? one + two : one - two;
                }
            #pragma unroll
            for (int r = 0; r < 3; ++r) {
                float2 made[2] = {make_float2(0, 0), make_float2(0, 0)};
                #pragma unroll
                for (int c = 0; c < 3; ++c) {
                    float2 u = links[((mu * 3 + (sign ? c : r)) * 3 + (sign ? r : c)) * volume + link];
                    if (sign) u.y = -u.y;
                    #pragma unroll
                    for (int s = 0; s < 2; ++s) {
                        made[s].x += u.x * half[s][c].x - u.y * half[s][c].y;
                        made[s].y += u.x * half[s][c].y + u.y * half[s][c].x;
                    }
                }
                #pragma unroll
                for (int s = 0; s < 2; ++s) {
                    float2 back = turned(made[s], (4 - quarters[mu][s]) % 4);
                    sum[s][r] = sum[s][r] + made[s];
                    sum[other[mu][s]][r] = sign ? sum[other[mu][s]][r] + back : sum[other[mu][s]][r] - back;
                }
            }
        }
    #pragma unroll
    for (int s = 0; s < 4; ++s)
        #pragma unroll
        for (int c = 0; c < 3; ++c) out[(s * 3 + c) * volume + site] = sum[s][c];
}

// Structure factors of Ewald's sum: a block a wave vector, all charges.
extern "C" __global__ void __launch_bounds__(256) structure_factors(float2 *out, const float4 *charges, const float4 *waves, int n) {
    __shared__ float2 part[8];
    float4 k = waves[blockIdx.x];
    float re = 0.0f, im = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) {
        float4 p = charges[i];
        float s, c;
        sincosf(k.x * p.x + k.y * p.y + k.z * p.z, &s, &c);
        re += p.w * c, im += p.w * s;
    }
    for (int d = 16; d; d /= 2) re += __shfl_down_sync(~0u, re, d), im += __shfl_down_sync(~0u, im, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = make_float2(re, im);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int j = 1; j < 8; ++j) re += part[j].x, im += part[j].y;
        out[blockIdx.x] = make_float2(re, im);
    }
}

// Gravity by Barnes and Hut over a tree with ropes: next if it is near, skip if it is far or a leaf.
extern "C" __global__ void __launch_bounds__(256) barnes_hut(float *out, const float4 *bodies, const float4 *mass, const int4 *node, int n, float theta2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = bodies[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int at = 0; at >= 0;) {
        float4 m = mass[at];
        int4 links = node[at];
        float dx = m.x - p.x, dy = m.y - p.y, dz = m.z - p.z, r2 = dx * dx + dy * dy + dz * dz, size = __int_as_float(links.z);
        if (links.x < 0 || size * size < theta2 * r2) {
            float inverse = rsqrtf(r2 + 1e-4f), s = m.w * inverse * inverse * inverse;
            ax += s * dx, ay += s * dy, az += s * dz;
            at = links.y;
        } else at = links.x;
    }
    out[i] = ax, out[n + i] = ay, out[2 * n + i] = az;
}

// Packets of light through layers of tissue until they are absorbed: what each layer keeps, in whole units.
extern "C" __global__ void __launch_bounds__(128) photon_transport(unsigned *kept, int *bounces, const float4 *layers, int packets) {
    __shared__ unsigned own[8];
    int i = blockIdx.x * 128 + threadIdx.x;
    if (threadIdx.x < 8) own[threadIdx.x] = 0;
    __syncthreads();
    if (i < packets) {
        unsigned state = mixed(i * 2 + 1);
        float depth = 0.0f, down = 1.0f, weight = 1.0f;
        int count = 0;
        for (; count < 200 && weight > 0.02f; ++count) {
            int layer = 0;
            while (layer < 3 && depth > layers[layer].z) ++layer;
            float4 mine = layers[layer];
            state = state * 1664525u + 1013904223u;
            float u = ((state >> 8) + 1) * 5.9604645e-8f;
            depth += down * (-logf(u) / (mine.x + mine.y));
            if (depth < 0.0f) break;
            float lost = weight * mine.x / (mine.x + mine.y);
            atomicAdd(&own[layer], (unsigned)(lost * 4096.0f + 0.5f));
            weight -= lost;
            state = state * 1664525u + 1013904223u;
            float v = (state >> 8) * 5.9604645e-8f, g = mine.w, part = (1.0f - g * g) / (1.0f - g + 2.0f * g * v);
            down = (1.0f + g * g - part * part) / (2.0f * g) * (down > 0.0f ? 1.0f : -1.0f);
        }
        bounces[i] = count;
    }
    __syncthreads();
    if (threadIdx.x < 8 && own[threadIdx.x]) atomicAdd(&kept[threadIdx.x], own[threadIdx.x]);
}

// Orbitals by tricubic splines: a block an electron, a thread an orbital, value and gradient of 64 coefficients.
extern "C" __global__ void __launch_bounds__(128) tricubic_spline(float4 *out, const float *coefficients, const float4 *places, int side, int orbitals) {
    float4 p = places[blockIdx.x];
    int o = threadIdx.x, ix = p.x, iy = p.y, iz = p.z;
    auto weights = [](float t, float *w, float *d) {
        float u = 1.0f - t;
        w[0] = u * u * u / 6.0f, w[1] = (3.0f * t * t * t - 6.0f * t * t + 4.0f) / 6.0f, w[2] = (3.0f * u * u * u - 6.0f * u * u + 4.0f) / 6.0f, w[3] = t * t * t / 6.0f;
        d[0] = -0.5f * u * u, d[1] = 1.5f * t * t - 2.0f * t, d[2] = -1.5f * u * u + 2.0f * u, d[3] = 0.5f * t * t;
    };
    float a[4], b[4], c[4], da[4], db[4], dc[4], v = 0.0f, gx = 0.0f, gy = 0.0f, gz = 0.0f;
    weights(p.x - ix, a, da), weights(p.y - iy, b, db), weights(p.z - iz, c, dc);
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            float plain = 0.0f, along = 0.0f;
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                float f = coefficients[(((long long)(ix + i) * side + iy + j) * side + iz + k) * orbitals + o];
                plain += c[k] * f, along += dc[k] * f;
            }
            v += a[i] * b[j] * plain, gx += da[i] * b[j] * plain, gy += a[i] * db[j] * plain, gz += a[i] * b[j] * along;
        }
    out[(long long)blockIdx.x * orbitals + o] = make_float4(v, gx, gy, gz);
}
