// Particles: all pairs through shared memory, neighbour lists, binning into cells.

extern "C" __global__ void bodies_tiled(float4 *force, const float4 *body, int n) {
    __shared__ float4 tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    float4 p = body[i];
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int first = 0; first < n; first += 128) {
        __syncthreads();
        tile[threadIdx.x] = body[first + threadIdx.x];
        __syncthreads();
#pragma unroll 8
        for (int j = 0; j < 128; ++j) {
            float4 q = tile[j];
            float dx = q.x - p.x, dy = q.y - p.y, dz = q.z - p.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = q.w * r * r * r;
            ax += dx * s;
            ay += dy * s;
            az += dz * s;
        }
    }
    force[i] = make_float4(ax, ay, az, 0.0f);
}

// Lennard-Jones forces from a neighbour list that is stored neighbour by neighbour.
extern "C" __global__ void pair_forces(float4 *force, const float4 *position, const int *neighbours, int atoms, int most) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= atoms) return;
    float4 p = position[i], f = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int k = 0; k < most; ++k) {
        float4 q = position[neighbours[k * atoms + i]];
        float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, r2 = dx * dx + dy * dy + dz * dz;
        if (r2 < 6.25f) {
            float i2 = 1.0f / r2, i6 = i2 * i2 * i2, s = 48.0f * i6 * (i6 - 0.5f) * i2;
            f.x += dx * s;
            f.y += dy * s;
            f.z += dz * s;
        }
    }
    force[i] = f;
}

extern "C" __global__ void bin_particles(int *counts, int *cell, const float4 *position, int n, int side) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = position[i];
    int at = ((int)(p.z * side) * side + (int)(p.y * side)) * side + (int)(p.x * side);
    cell[i] = at;
    atomicAdd(&counts[at], 1);
}

extern "C" __global__ void coulomb_double(double *energy, const double4 *atom, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double4 p = atom[i];
    double sum = 0.0;
    for (int j = 0; j < n; ++j) {
        double4 q = atom[j];
        double dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
        sum += q.w / sqrt(dx * dx + dy * dy + dz * dz + 0.5);
    }
    energy[i] = p.w * sum;
}
