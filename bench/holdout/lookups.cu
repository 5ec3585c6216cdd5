// Look-ups and walks that data decides: B+ trees, cross sections, boxes around spheres, back-tracking, tables in constant memory.

// A block of 64 threads finds one key: every thread compares one of a node's separators (Rodinia's b+tree).
extern "C" __global__ void tree_find(int *dst, const int *keys, const int *children, const int *values, const int *wanted, int levels) {
    __shared__ int node;
    int t = threadIdx.x, key = wanted[blockIdx.x];
    if (t == 0) node = 0, dst[blockIdx.x] = -1;
    __syncthreads();
    for (int level = 0; level < levels; ++level) {
        int at = node * 65 + t;
        bool mine = keys[at] <= key && key < keys[at + 1];
        __syncthreads();
        if (mine) node = children[node * 64 + t];
        __syncthreads();
    }
    if (keys[node * 65 + t] == key) dst[blockIdx.x] = values[node * 64 + t];
}

__constant__ int material_first[13], material_nuclides[192];
__constant__ double material_density[192];
// Neutron cross sections on a unionised grid (XSBench): a search, then two points of every nuclide of the material.
extern "C" __global__ void cross_sections(double *dst, const double *grid, const int *index, const double *points, const double *energies, const int *materials, int n, int energies_count, int nuclides, int points_each) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double energy = energies[i], total[5] = {0, 0, 0, 0, 0};
    int low = 0, high = energies_count - 1, material = materials[i];
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (grid[middle] > energy) high = middle; else low = middle;
    }
    for (int k = material_first[material]; k < material_first[material + 1]; ++k) {
        int nuclide = material_nuclides[k];
        const double *below = points + ((long long)nuclide * points_each + index[low * nuclides + nuclide]) * 6, *above = below + 6;
        double f = (above[0] - energy) / (above[0] - below[0]), density = material_density[k];
        for (int j = 0; j < 5; ++j) total[j] += (above[j + 1] - f * (above[j + 1] - below[j + 1])) * density;
    }
    for (int j = 0; j < 5; ++j) dst[i * 5 + j] = total[j];
}

struct Node { float low[3]; int left; float high[3]; int count; };  // count 0: children left, left + 1; else spheres left …
// The nearest sphere along each ray, through a tree of boxes with a stack in local memory.
extern "C" __global__ void trace_boxes(int *hit, float *distance, const Node *nodes, const float4 *spheres, const float *rays, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, stack[24], depth = 0, at = 0, found = -1;
    if (i >= n) return;
    float o[3], d[3], inverse[3], nearest = 1e30f;
    for (int k = 0; k < 3; ++k) o[k] = rays[i * 6 + k], d[k] = rays[i * 6 + 3 + k], inverse[k] = 1.0f / d[k];
    while (true) {
        Node node = nodes[at];
        float enter = 0.0f, leave = nearest;
        for (int k = 0; k < 3; ++k) {
            float a = (node.low[k] - o[k]) * inverse[k], b = (node.high[k] - o[k]) * inverse[k];
            enter = fmaxf(enter, fminf(a, b)), leave = fminf(leave, fmaxf(a, b));
        }
        if (enter <= leave) {
            if (node.count == 0) {
                stack[depth++] = node.left + 1, at = node.left;
                continue;
            }
            for (int s = node.left; s < node.left + node.count; ++s) {
                float4 sphere = spheres[s];
                float x = sphere.x - o[0], y = sphere.y - o[1], z = sphere.z - o[2];
                float along = x * d[0] + y * d[1] + z * d[2], inside = sphere.w * sphere.w - (x * x + y * y + z * z - along * along);
                if (inside > 0.0f) {
                    float t = along - sqrtf(inside);
                    if (t > 0.0f && t < nearest) nearest = t, found = s;
                }
            }
        }
        if (depth == 0) break;
        at = stack[--depth];
    }
    hit[i] = found, distance[i] = nearest;
}

// Queens on a board from given first rows: back-tracking with bit masks, its stack in shared memory.
extern "C" __global__ void __launch_bounds__(64) place_queens(unsigned *counts, const unsigned *starts, int n, int board, int given) {
    __shared__ unsigned columns[12][64], left[12][64], right[12][64], open[12][64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i >= n) return;
    unsigned full = (1u << board) - 1, found = 0;
    int row = 0;
    columns[0][t] = starts[i * 3], left[0][t] = starts[i * 3 + 1], right[0][t] = starts[i * 3 + 2];
    open[0][t] = full & ~(columns[0][t] | left[0][t] | right[0][t]);
    while (row >= 0) {
        unsigned bits = open[row][t];
        if (bits == 0) {
            --row;
            continue;
        }
        unsigned bit = bits & -bits;
        open[row][t] = bits ^ bit;
        unsigned c = columns[row][t] | bit, l = (left[row][t] | bit) << 1, r = (right[row][t] | bit) >> 1;
        if (row + given + 1 == board) ++found;
        else ++row, columns[row][t] = c, left[row][t] = l, right[row][t] = r, open[row][t] = full & ~(c | l | r);
    }
    counts[i] = found;
}

// The likeliest path through 64 states, integer costs: a block for a sequence, the way back by one thread.
extern "C" __global__ void viterbi_path(unsigned char *path, unsigned char *from, const int *transition, const int *emission, const unsigned char *seen, int steps) {
    __shared__ int cost[2][64], table[64][65];
    int t = threadIdx.x;
    const unsigned char *mine = seen + blockIdx.x * steps;
    unsigned char *back = from + (long long)blockIdx.x * steps * 64;
    for (int k = 0; k < 64; ++k) table[t][k] = transition[k * 64 + t];  // into t from k
    cost[0][t] = emission[t * 32 + mine[0]];
    __syncthreads();
    for (int s = 1; s < steps; ++s) {
        int best = 1 << 30, who = 0;
        for (int k = 0; k < 64; ++k) {
            int c = cost[s - 1 & 1][k] + table[t][k];
            if (c < best) best = c, who = k;
        }
        cost[s & 1][t] = best + emission[t * 32 + mine[s]];
        back[s * 64 + t] = who;
        __syncthreads();
    }
    if (t == 0) {
        int at = 0;
        for (int k = 1; k < 64; ++k)
            if (cost[steps - 1 & 1][k] < cost[steps - 1 & 1][at]) at = k;
        for (int s = steps - 1; s > 0; --s) path[blockIdx.x * steps + s] = at, at = back[s * 64 + at];
        path[blockIdx.x * steps] = at;
    }
}

__constant__ unsigned char shuffled[512];
__device__ float gradient(int hash, float x, float y) {
    float u = hash & 1 ? -x : x, v = hash & 2 ? -y : y;
    return hash & 4 ? u + v : hash & 8 ? u : v;
}
// Perlin's noise in octaves; lanes look up different entries of a table in constant memory.
extern "C" __global__ void perlin_octaves(float *dst, int width, int octaves, float scale) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f, weight = 1.0f;
    for (int o = 0; o < octaves; ++o, weight *= 0.5f, scale *= 2.0f) {
        float px = x * scale, py = y * scale, fx = floorf(px), fy = floorf(py);
        int cx = (int)fx & 255, cy = (int)fy & 255;
        px -= fx, py -= fy;
        float u = px * px * px * (px * (px * 6 - 15) + 10), v = py * py * py * (py * (py * 6 - 15) + 10);
        int a = shuffled[cx] + cy, b = shuffled[cx + 1] + cy;
        float low = gradient(shuffled[a & 511], px, py), low1 = gradient(shuffled[b & 511], px - 1, py);
        float high = gradient(shuffled[a + 1 & 511], px, py - 1), high1 = gradient(shuffled[b + 1 & 511], px - 1, py - 1);
        low += u * (low1 - low), high += u * (high1 - high);
        sum += weight * (low + v * (high - low));
    }
    dst[y * width + x] = sum;
}

// Marching cubes' first pass: each cell's case, how many cells of a warp are cut, and all cut corners counted.
extern "C" __global__ void classify_cubes(unsigned char *cases, int *cut, unsigned long long *corners, const float *field, int nx, int ny, float level) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z, bits = 0;
    for (int k = 0; k < 8; ++k) {
        int dx = k & 1, dy = k >> 1 & 1, dz = k >> 2;
        bits |= (field[((long long)(z + dz) * (ny + 1) + y + dy) * (nx + 1) + x + dx] < level) << k;
    }
    int cell = (z * ny + y) * nx + x;
    cases[cell] = bits;
    unsigned warp = __ballot_sync(~0u, bits != 0 && bits != 255);
    int sum = __reduce_add_sync(~0u, __popc(bits));
    if (threadIdx.x % 32 == 0) {
        cut[cell / 32] = __popc(warp);
        if (warp) atomicAdd(corners, (unsigned long long)sum);
    }
}

// Systematic resampling of a particle filter: each thread walks the cumulated weights until they pass its own draw.
extern "C" __global__ void resample_walk(int *chosen, float *moved, const float *cumulated, const float *positions, int n, float first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, at = n - 1;
    if (i >= n) return;
    float draw = first + i / (float)n;
    for (int k = 0; k < n; ++k)
        if (cumulated[k] >= draw) {
            at = k;
            break;
        }
    chosen[i] = at, moved[i] = positions[at];
}

// What opening a new centre would save each point (Rodinia's streamcluster): 32 coordinates, dimension by dimension.
extern "C" __global__ void centre_gain(float *gain, unsigned char *moves, const float *coordinates, const float *weights, const float *costs, const int *centres, const float *limits, int n, int candidate) {
    __shared__ float there[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 32) there[threadIdx.x] = coordinates[threadIdx.x * n + candidate];
    __syncthreads();
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 32; ++k) {
        float d = coordinates[k * n + i] - there[k];
        sum += d * d;
    }
    float cost = sum * weights[i], limit = limits[centres[i]];
    bool move = cost < costs[i];
    moves[i] = move;
    gain[i] = move ? cost - costs[i] : fmaxf(0.0f, costs[i] - limit);
}
