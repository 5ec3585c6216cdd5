// Physics, chances and geometry: paths, lattices, particles, rays, fields.

// Paths of Heston's model: a linear congruence of 64 bits a path, Box and Muller, the mean payoff by an addition for each warp.
__device__ float uniform(unsigned long long &state) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return ((unsigned)(state >> 40) + 0.5f) * (1.0f / 16777216.0f);
}
extern "C" __global__ void heston_paths(float *payoffs, int paths, int steps, float rate, float kappa, float theta, float sigma, float rho, float strike) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= paths) return;
    unsigned long long state = i * 2654435769ull + 12345;
    float s = 0.0f, v = theta, dt = 1.0f / steps, root = sqrtf(dt), other = sqrtf(1.0f - rho * rho);
    for (int k = 0; k < steps; ++k) {
        float r = sqrtf(-2.0f * logf(uniform(state))), c, w;
        sincospif(2.0f * uniform(state), &w, &c);
        float z1 = r * c, z2 = rho * z1 + other * r * w, now = fmaxf(v, 0.0f), dev = sqrtf(now) * root;
        s += (rate - 0.5f * now) * dt + dev * z1;
        v += kappa * (theta - now) * dt + sigma * dev * z2;
    }
    payoffs[i] = fmaxf(100.0f * expf(s) - strike, 0.0f);
}

// A link matrix of SU(3) times a vector on each site of a lattice, eight neighbours; complex numbers lie apart by component.
extern "C" __global__ void __launch_bounds__(128) links_times(float2 *dst, const float2 *links, const float2 *src, const int *neighbours, int sites) {
    int s = blockIdx.x * 128 + threadIdx.x;
    if (s >= sites) return;
    float2 sum[3] = {};
    for (int mu = 0; mu < 8; ++mu) {
        int at = neighbours[mu * sites + s];
        float2 v[3];
        #pragma unroll
        for (int c = 0; c < 3; ++c) v[c] = src[c * sites + at];
        #pragma unroll
        for (int r = 0; r < 3; ++r)
            #pragma unroll
            for (int c = 0; c < 3; ++c) {
                float2 u = links[((mu / 2 * 3 + r) * 3 + c) * sites + (mu & 1 ? at : s)];
                sum[r].x += u.x * v[c].x - u.y * v[c].y, sum[r].y += u.x * v[c].y + u.y * v[c].x;
            }
    }
    #pragma unroll
    for (int c = 0; c < 3; ++c) dst[c * sites + s] = sum[c];
}

// Forces of Lennard and Jones by lists of cells: a thread for a particle, 27 cells around it.
extern "C" __global__ void cell_forces(float4 *forces, const float4 *at, const int *first, int side, int n, float cutoff) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = at[i];
    int cx = (int)p.x, cy = (int)p.y, cz = (int)p.z;
    float fx = 0.0f, fy = 0.0f, fz = 0.0f, energy = 0.0f;
    for (int z = max(cz - 1, 0); z <= min(cz + 1, side - 1); ++z)
        for (int y = max(cy - 1, 0); y <= min(cy + 1, side - 1); ++y) {
            int row = (z * side + y) * side, end = first[row + min(cx + 1, side - 1) + 1];
            for (int j = first[row + max(cx - 1, 0)]; j < end; ++j) {
                float4 q = at[j];
                float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, d2 = dx * dx + dy * dy + dz * dz;
                if (d2 < cutoff && j != i) {
                    float inverse = 1.0f / d2, six = inverse * inverse * inverse * 1e-3f, f = 24.0f * inverse * six * (2.0f * six - 1.0f);
                    fx += f * dx, fy += f * dy, fz += f * dz, energy += 4.0f * six * (six - 1.0f);
                }
            }
        }
    forces[i] = make_float4(fx, fy, fz, energy);
}

// Attraction with softening: 64 bodies by four quarters of the sources in a two-dimensional block.
extern "C" __global__ void __launch_bounds__(256) soft_bodies(float4 *acceleration, const float4 *bodies, int n, float softening) {
    __shared__ float4 tile[4][64];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.x * 64 + x;
    float4 p = bodies[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int j = y * (n / 4); j < (y + 1) * (n / 4); j += 64) {
        tile[y][x] = bodies[j + x];
        __syncthreads();
        #pragma unroll 8
        for (int k = 0; k < 64; ++k) {
            float4 q = tile[y][k];
            float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z, d = rsqrtf(dx * dx + dy * dy + dz * dz + softening), f = q.w * d * d * d;
            ax += dx * f, ay += dy * f, az += dz * f;
        }
        __syncthreads();
    }
    tile[y][x] = make_float4(ax, ay, az, 0.0f);
    __syncthreads();
    if (y == 0) {
        for (int k = 1; k < 4; ++k) ax += tile[k][x].x, ay += tile[k][x].y, az += tile[k][x].z;
        acceleration[i] = make_float4(ax, ay, az, 0.0f);
    }
}

// The nearest triangle that each ray meets (Möller and Trumbore), triangles through shared memory.
extern "C" __global__ void __launch_bounds__(128) meet_triangles(int *who, float *distance, const float *triangles, const float *rays, int count, int n) {
    __shared__ float tile[64 * 9];
    int i = blockIdx.x * 128 + threadIdx.x;
    float ox = rays[i], oy = rays[n + i], oz = rays[2 * n + i], dx = rays[3 * n + i], dy = rays[4 * n + i], dz = rays[5 * n + i];
    float nearest = 1e30f;
    int found = -1;
    for (int base = 0; base < count; base += 64) {
        __syncthreads();
        for (int k = threadIdx.x; k < 576; k += 128) tile[k] = triangles[base * 9 + k];
        __syncthreads();
        for (int k = 0; k < 64; ++k) {
            const float *v = tile + k * 9;
            float e1x = v[3], e1y = v[4], e1z = v[5], e2x = v[6], e2y = v[7], e2z = v[8];
            float px = dy * e2z - dz * e2y, py = dz * e2x - dx * e2z, pz = dx * e2y - dy * e2x, det = e1x * px + e1y * py + e1z * pz;
            if (fabsf(det) < 1e-8f) continue;
            float inverse = 1.0f / det, tx = ox - v[0], ty = oy - v[1], tz = oz - v[2], u = (tx * px + ty * py + tz * pz) * inverse;
            if (u < 0.0f || u > 1.0f) continue;
            float qx = ty * e1z - tz * e1y, qy = tz * e1x - tx * e1z, qz = tx * e1y - ty * e1x, w = (dx * qx + dy * qy + dz * qz) * inverse;
            if (w < 0.0f || u + w > 1.0f) continue;
            float t = (e2x * qx + e2y * qy + e2z * qz) * inverse;
            if (t > 1e-4f && t < nearest) nearest = t, found = base + k;
        }
    }
    who[i] = found, distance[i] = nearest;
}

// Marching squares: the case of each cell and the places of its crossings, appended to one list.
extern "C" __global__ void march_squares(float2 *points, unsigned *number, unsigned char *cases, const float *field, int nx, int ny, float level) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx - 1 || y >= ny - 1) return;
    float a = field[y * nx + x], b = field[y * nx + x + 1], c = field[(y + 1) * nx + x], d = field[(y + 1) * nx + x + 1];
    int kind = (a > level) | (b > level) << 1 | (c > level) << 2 | (d > level) << 3;
    cases[y * (nx - 1) + x] = kind;
    if ((a > level) != (b > level)) points[atomicAdd(number, 1)] = make_float2(x + (level - a) / (b - a), y);
    if ((a > level) != (c > level)) points[atomicAdd(number, 1)] = make_float2(x, y + (level - a) / (c - a));
}

// Transforms of 16 complex numbers in a thread's registers, elements apart by the number of transforms.
extern "C" __global__ void __launch_bounds__(224) fft_16(float2 *data, int n) {
    int i = blockIdx.x * 224 + threadIdx.x;
    if (i >= n) return;
    float2 v[16];
    #pragma unroll
    for (int k = 0; k < 16; ++k) v[k] = data[(__brev(k) >> 28) * n + i];
    #pragma unroll
    for (int half = 1; half < 16; half *= 2)
        #pragma unroll
        for (int k = 0; k < 16; ++k)
            if ((k & half) == 0) {
                float w, c;
                sincospif(-(float)(k % half) / half, &w, &c);
                float2 a = v[k], b = v[k + half], t = make_float2(b.x * c - b.y * w, b.x * w + b.y * c);
                v[k] = make_float2(a.x + t.x, a.y + t.y), v[k + half] = make_float2(a.x - t.x, a.y - t.y);
            }
    #pragma unroll
    for (int k = 0; k < 16; ++k) data[k * n + i] = v[k];
}

// Runge and Kutta's four slopes for Lorenz's equations in double, a trajectory a thread.
__device__ double3 slope(double3 p) { return make_double3(10.0 * (p.y - p.x), p.x * (28.0 - p.z) - p.y, p.x * p.y - 8.0 / 3.0 * p.z); }
__device__ double3 along(double3 p, double3 d, double h) { return make_double3(p.x + h * d.x, p.y + h * d.y, p.z + h * d.z); }
extern "C" __global__ void lorenz_steps(double *state, int n, int steps, double h) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double3 p = make_double3(state[i], state[n + i], state[2 * n + i]);
    for (int s = 0; s < steps; ++s) {
        double3 a = slope(p), b = slope(along(p, a, h / 2)), c = slope(along(p, b, h / 2)), d = slope(along(p, c, h));
        p.x += h / 6 * (a.x + 2 * b.x + 2 * c.x + d.x), p.y += h / 6 * (a.y + 2 * b.y + 2 * c.y + d.y), p.z += h / 6 * (a.z + 2 * b.z + 2 * c.z + d.z);
    }
    state[i] = p.x, state[n + i] = p.y, state[2 * n + i] = p.z;
}

// Gray and Scott's reaction and diffusion on a torus, 24 x 8 threads.
extern "C" __global__ void react_diffuse(float *u1, float *v1, const float *u, const float *v, int nx, int ny, float feed, float kill) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= nx || y >= ny) return;
    int l = (x + nx - 1) % nx, r = (x + 1) % nx, t = (y + ny - 1) % ny * nx, b = (y + 1) % ny * nx, c = y * nx, at = c + x;
    float lu = u[c + l] + u[c + r] + u[t + x] + u[b + x] - 4.0f * u[at], lv = v[c + l] + v[c + r] + v[t + x] + v[b + x] - 4.0f * v[at];
    float mix = u[at] * v[at] * v[at];
    u1[at] = u[at] + 0.16f * lu - mix + feed * (1.0f - u[at]);
    v1[at] = v[at] + 0.08f * lv + mix - (feed + kill) * v[at];
}
