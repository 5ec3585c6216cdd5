// Clusters, neighbours, decision trees.

__constant__ float centres[16 * 4];

extern "C" __global__ void assign_clusters(int *label, const float4 *points, int n, int clusters) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = points[i];
    float least = 1e30f;
    int best = 0;
    for (int c = 0; c < clusters; ++c) {
        float a = p.x - centres[c * 4], b = p.y - centres[c * 4 + 1], d = p.z - centres[c * 4 + 2], e = p.w - centres[c * 4 + 3];
        float distance = a * a + b * b + d * d + e * e;
        if (distance < least) {
            least = distance;
            best = c;
        }
    }
    label[i] = best;
}

extern "C" __global__ void gather_clusters(int *sums, const int *label, const int4 *points, int n) {
    __shared__ int mine[16 * 5];
    if (threadIdx.x < 80) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int4 p = points[i];
        int *c = &mine[label[i] * 5];
        atomicAdd(c, p.x);
        atomicAdd(c + 1, p.y);
        atomicAdd(c + 2, p.z);
        atomicAdd(c + 3, p.w);
        atomicAdd(c + 4, 1);
    }
    __syncthreads();
    if (threadIdx.x < 80) atomicAdd(&sums[threadIdx.x], mine[threadIdx.x]);
}

// The four nearest of all points of each query, kept sorted in registers.
extern "C" __global__ void nearest_four(int4 *nearest, const float2 *points, const float2 *queries, int n) {
    __shared__ float2 tile[128];
    int q = blockIdx.x * 128 + threadIdx.x;
    float2 mine = queries[q];
    float d[4] = {1e30f, 1e30f, 1e30f, 1e30f};
    int at[4] = {-1, -1, -1, -1};
    for (int first = 0; first < n; first += 128) {
        __syncthreads();
        tile[threadIdx.x] = points[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 128; ++j) {
            float x = tile[j].x - mine.x, y = tile[j].y - mine.y, r = x * x + y * y;
            if (r < d[3]) {
                int place = first + j;
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    if (r < d[k]) {
                        float keep = d[k];
                        int kept = at[k];
                        d[k] = r, at[k] = place;
                        r = keep, place = kept;
                    }
            }
        }
    }
    nearest[q] = make_int4(at[0], at[1], at[2], at[3]);
}

// Forests: nodes hold feature and threshold; children of node i are 2i + 1 and 2i + 2.
extern "C" __global__ void forest_votes(float *votes, const int *feature, const float *threshold, const float *leaf, const float *rows, int n, int trees, int depth, int features) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, inner = (1 << depth) - 1;
    if (i >= n) return;
    float sum = 0.0f;
    for (int t = 0; t < trees; ++t) {
        int node = 0;
        for (int k = 0; k < depth; ++k) {
            int at = t * inner + node;
            node = 2 * node + 1 + (rows[feature[at] * n + i] > threshold[at]);
        }
        sum += leaf[t * (inner + 1) + node - inner];
    }
    votes[i] = sum;
}
