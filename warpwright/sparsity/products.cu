// Y[n][m] = sum over k of W[m][k] * X[n][k]: a block makes a tile of 128 x 128, eight warps of 64 x 32 each.
// Of every element type an instruction takes 64 bytes of a row of X, and 64 of W, of which a sparse W holds 32.
// Rows of X and W lie in shared memory in chunks of 16 bytes, whose places are exchanged so that ldmatrix finds no bank conflicts.
//
// Macros: SPARSE (0 or 1), MMA (the instruction's text), SUM (float or int), REGISTER ("f" or "r"), SELECTORS (1 or 2).

const int TILE = 128, STEP_CHUNKS = 4, STEPS = 2, STAGES = 3, THREADS = 256;
const int X_CHUNKS = STEPS * STEP_CHUNKS, W_CHUNKS = SPARSE ? X_CHUNKS / 2 : X_CHUNKS;
const int X_BYTES = TILE * X_CHUNKS * 16, W_BYTES = TILE * W_CHUNKS * 16, STAGE_BYTES = X_BYTES + W_BYTES;
const int ROW_TILES = 4, COLUMN_TILES = 4;
const int WORDS = STEPS / SELECTORS;

__device__ inline unsigned place(unsigned base, int row, int chunk, int chunks)
{
    int turned = chunks == 8 ? chunk ^ (row & 7) : chunk ^ (row >> 1 & 3);
    return base + (row * chunks + turned) * 16;
}

__device__ inline void copy_tile(unsigned to, const unsigned char *from, size_t row_bytes, int chunks)
{
    for (int n = threadIdx.x; n < TILE * chunks; n += THREADS) {
        int row = n / chunks, chunk = n % chunks;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place(to, row, chunk, chunks)),
                     "l"(from + row * row_bytes + chunk * 16));
    }
}

__device__ inline void load_matrices(unsigned (&words)[4], unsigned at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(at));
}

#define SUMS "+" REGISTER
#if SPARSE
#define PRODUCT(D, A, B, E, SELECTOR)                                                                                     \
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, " SELECTOR ";"      \
                 : SUMS(D[0]), SUMS(D[1]), SUMS(D[2]), SUMS(D[3])                                                         \
                 : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]), "r"(B[2]), "r"(B[3]), "r"(E))
#else
#define HALF_PRODUCT(D, A, B, FIRST)                                                                                      \
    asm volatile(MMA " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
                 : SUMS(D[0]), SUMS(D[1]), SUMS(D[2]), SUMS(D[3])                                                         \
                 : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[FIRST]), "r"(B[FIRST + 1]))
#endif

extern "C" __global__ void __launch_bounds__(256, 2) product(
    int depth_tiles, size_t row_bytes, int rows, const unsigned char *w, const unsigned *metadata, const unsigned char *x, SUM *y)
{
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int first_row = warp / 4 * 64, first_column = warp % 4 * 32;
    size_t w_row_bytes = SPARSE ? row_bytes / 2 : row_bytes;
    w += blockIdx.x * TILE * w_row_bytes;
    x += blockIdx.y * TILE * row_bytes;
#if SPARSE
    size_t word_stride = static_cast<size_t>(depth_tiles) * WORDS * 32;
    metadata += (blockIdx.x * (TILE / 16) + first_row / 16) * word_stride + lane;
#endif
    SUM sums[ROW_TILES][COLUMN_TILES][4] = {};

    for (int tile = 0; tile < STAGES - 1; tile++) {
        if (tile < depth_tiles) {
            copy_tile(base + tile * STAGE_BYTES, w + tile * W_CHUNKS * 16, w_row_bytes, W_CHUNKS);
            copy_tile(base + tile * STAGE_BYTES + W_BYTES, x + tile * X_CHUNKS * 16, row_bytes, X_CHUNKS);
        }
        asm volatile("cp.async.commit_group;");
    }
#pragma unroll 1
    for (int tile = 0; tile < depth_tiles; tile++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        int next = tile + STAGES - 1;
        if (next < depth_tiles) {
            unsigned to = base + next % STAGES * STAGE_BYTES;
            copy_tile(to, w + static_cast<size_t>(next) * W_CHUNKS * 16, w_row_bytes, W_CHUNKS);
            copy_tile(to + W_BYTES, x + static_cast<size_t>(next) * X_CHUNKS * 16, row_bytes, X_CHUNKS);
        }
        asm volatile("cp.async.commit_group;");
        unsigned ours = base + tile % STAGES * STAGE_BYTES, theirs = ours + W_BYTES;
#if SPARSE
        unsigned kept[ROW_TILES][WORDS];
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
            for (int n = 0; n < WORDS; n++)
                kept[i][n] = metadata[i * word_stride + (tile * WORDS + n) * 32];
#endif
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            unsigned columns[COLUMN_TILES][4];
#pragma unroll
            for (int j = 0; j < COLUMN_TILES; j++)
                load_matrices(columns[j], place(theirs, first_column + j * 8 + lane % 8, step * STEP_CHUNKS + lane / 8, X_CHUNKS));
#pragma unroll
            for (int i = 0; i < ROW_TILES; i++) {
                int row = first_row + i * 16 + lane % 16;
#if SPARSE
                unsigned values[4];
                load_matrices(values, place(ours, row, step * 2 + lane / 16, W_CHUNKS));
#pragma unroll
                for (int j = 0; j < COLUMN_TILES; j++) {
                    if (SELECTORS == 2 && step == 1)
                        PRODUCT(sums[i][j], values, columns[j], kept[i][step / SELECTORS], "1");
                    else
                        PRODUCT(sums[i][j], values, columns[j], kept[i][step / SELECTORS], "0");
                }
#else
                unsigned left[4], right[4];
                load_matrices(left, place(ours, row, step * 4 + lane / 16, W_CHUNKS));
                load_matrices(right, place(ours, row, step * 4 + 2 + lane / 16, W_CHUNKS));
#pragma unroll
                for (int j = 0; j < COLUMN_TILES; j++) {
                    HALF_PRODUCT(sums[i][j], left, columns[j], 0);
                    HALF_PRODUCT(sums[i][j], right, columns[j], 2);
                }
#endif
            }
        }
    }
    // A lane has rows g and g + 8 and columns 2t and 2t + 1 of a tile of 16 x 8.
    y += (blockIdx.y * TILE + first_column + lane % 4 * 2) * static_cast<size_t>(rows) + blockIdx.x * TILE + first_row + lane / 4;
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (int j = 0; j < COLUMN_TILES; j++)
#pragma unroll
            for (int n = 0; n < 4; n++)
                y[(j * 8 + n % 2) * static_cast<size_t>(rows) + i * 16 + n / 2 * 8] = sums[i][j][n];
}
