// Barriers of the grids of two devices: candidates for the protocol of the driver's multi_grid_group barrier.

struct Workspace {
    unsigned arrived, alone[31];       // the grid's own barrier
    unsigned released, alone_too[31];  // the last round that the other device has released
    unsigned come, also_alone[31];     // the last round that the other device has come to
};

template <char SCOPE> __device__ __forceinline__ void fence() { if (SCOPE == 's') __threadfence_system(); else if (SCOPE == 'g') __threadfence(); }
static __device__ __forceinline__ unsigned look(const unsigned *word) { return *(const volatile unsigned *)word; }
static __device__ __forceinline__ void put(unsigned *word, unsigned value) { *(volatile unsigned *)word = value; }

static __device__ __forceinline__ void meet_grid(unsigned *word)
{
    unsigned before = atomicAdd(word, blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u);
    while (((before ^ look(word)) & 0x80000000u) == 0) {}
}

// Two devices: 't' one reports to the other, which releases it; 'x' each tells the other; 'a' both add to a word of one of them and poll it.
template <char MEET> __device__ __forceinline__ void meet_other(Workspace *own, Workspace *other, int rank, unsigned round)
{
    if (MEET == 't') {
        if (rank == 0)
            while (look(&own->come) != round) {}
        __threadfence_system();
        put(rank ? &other->come : &other->released, round);
        if (rank) {
            while (look(&own->released) != round) {}
            __threadfence_system();
        }
    }
    if (MEET == 'x') {
        __threadfence_system();
        put(&other->come, round);
        while (look(&own->come) != round) {}
        __threadfence_system();
    }
    if (MEET == 'a') {
        unsigned *word = rank ? &other->come : &own->come;
        __threadfence_system();
        atomicAdd_system(word, 1u);
        while (look(word) < 2 * round) {}
        __threadfence_system();
    }
}

// WHO: all threads fence before the block's barrier, or the first one after it. SECOND: of the second barrier of the grid, '-' no fences, 'l' the first thread's, 'a' all threads';
// 'r': no second barrier of the grid, its blocks wait for a word that the first one stores.
template <char SCOPE, char WHO, char MEET, char SECOND>
__device__ __noinline__ unsigned called(Workspace *own, Workspace *other, int rank, unsigned round)
{
    volatile unsigned frame[4];
    frame[0] = threadIdx.x; frame[1] = threadIdx.y; frame[2] = threadIdx.z; frame[3] = round;
    bool first = threadIdx.x + threadIdx.y + threadIdx.z == 0;
    if (WHO == 'a')
        fence<SCOPE>();
    __syncthreads();
    if (first) {
        if (WHO == 'l')
            fence<SCOPE>();
        if (SECOND == 'r') {
            atomicAdd(&own->arrived, 1u);
            if (blockIdx.x == 0) {
                while (look(&own->arrived) != round * gridDim.x) {}
                meet_other<MEET>(own, other, rank, round);
                put(own->alone, round);
            } else
                while (look(own->alone) != round) {}
            fence<'g'>();
        } else {
            meet_grid(&own->arrived);
            if (blockIdx.x == 0)
                meet_other<MEET>(own, other, rank, round);
        }
    }
    __syncthreads();
    if (SECOND != 'r') {
        if (SECOND == 'a')
            fence<'g'>();
        __syncthreads();
        if (first) {
            if (SECOND == 'l')
                fence<'g'>();
            meet_grid(&own->arrived);
            if (SECOND == 'l')
                fence<'g'>();
        }
        __syncthreads();
        if (SECOND == 'a')
            fence<'g'>();
    }
    return frame[0] + frame[1] + frame[2] == 0xffffffffu;
}

#define KERNEL(S, W, M, N, NAME) \
    extern "C" __global__ void NAME(Workspace *own, Workspace *other, unsigned *cycles, int rank, int repeats) \
    { \
        unsigned begin = clock(), failed = 0; \
        _Pragma("unroll 1") for (int i = 1; i <= repeats; i++) \
            failed += called<S, W, M, N>(own, other, rank, i); \
        unsigned end = clock(); \
        if (threadIdx.x == 0 && blockIdx.x == 0) \
            *cycles = end - begin + failed; \
    }
KERNEL('s', 'a', 't', 'a', sata) KERNEL('s', 'a', 't', 'l', satl) KERNEL('s', 'a', 't', '-', satn) KERNEL('s', 'a', 't', 'r', satr)
KERNEL('s', 'a', 'x', 'l', saxl) KERNEL('s', 'a', 'x', 'r', saxr) KERNEL('s', 'a', 'a', 'l', saal) KERNEL('s', 'a', 'a', 'r', saar)
KERNEL('s', 'l', 't', 'l', sltl) KERNEL('s', 'l', 'x', 'r', slxr) KERNEL('g', 'a', 't', 'a', gata) KERNEL('g', 'a', 't', 'l', gatl)
KERNEL('g', 'a', 'x', 'l', gaxl) KERNEL('g', 'a', 'x', 'r', gaxr) KERNEL('g', 'l', 't', 'l', gltl) KERNEL('g', 'l', 'x', 'r', glxr)
KERNEL('g', 'a', 'a', 'r', gaar) KERNEL('g', 'l', 'a', 'r', glar)
