// Which of an SM's units its sub-cores share for shuffles, shared loads, matches, reductions, votes, and block barriers whose guard is false: pairs of them in straight-line code.
// A pair takes the sum of the two times if both pass the same unit, and otherwise the longer one.  An exclusive or consumes each result.
#define CONSUMED(TEXT, INPUT) asm volatile("{.reg .b32 r; .reg .pred p; " TEXT " xor.b32 %0, %0, r;}" : "+r"(sum) : "r"(INPUT));
#define MATCH CONSUMED("match.any.sync.b32 r, %1, 0xffffffff;", value)
#define REDUX CONSUMED("redux.sync.or.b32 r, %1, 0xffffffff;", value)
#define SHFL CONSUMED("shfl.sync.bfly.b32 r, %1, 1, 31, 0xffffffff;", value)
#define LDS CONSUMED("ld.volatile.shared.b32 r, [%1];", address)
#define VOTE CONSUMED("setp.ne.u32 p, %1, 7; vote.sync.ballot.b32 r, p, 0xffffffff;", value)
#define BAR asm volatile("{.reg .pred p; setp.eq.u32 p, %0, 0; @p bar.sync 1;}" ::"r"(passes));
#define NONE
#define STEPS 32

#define KERNEL(NAME, FIRST, SECOND, THIRD)                                                        \
    extern "C" __global__ void NAME(unsigned *clocks, unsigned mask, int passes)                  \
    {                                                                                             \
        __shared__ unsigned words[1024];                                                          \
        unsigned value = threadIdx.x & mask, begin = 0, end = 0, sum = 0;                         \
        unsigned address = (unsigned)__cvta_generic_to_shared(words + threadIdx.x);               \
        words[threadIdx.x] = value;                                                               \
        _Pragma("unroll 1") for (int pass = 0; pass < passes; pass++)                             \
        {                                                                                         \
            __syncthreads();                                                                      \
            if (*(volatile unsigned *)(words + threadIdx.x) != 0xffffffff)                        \
                begin = clock();                                                                  \
            _Pragma("unroll") for (int i = 0; i < STEPS; i++) { FIRST SECOND THIRD }              \
            end = clock();                                                                        \
        }                                                                                         \
        if (threadIdx.x % 32 == 0) {                                                              \
            clocks[threadIdx.x / 32] = sum == 0x12345678 ? 0 : begin;                             \
            clocks[threadIdx.x / 32 + 32] = end;                                                  \
        }                                                                                         \
    }
#define WITH(NAME, OP)                     \
    KERNEL(NAME##_alone, OP, NONE, NONE)   \
    KERNEL(NAME##_twice, OP, OP, NONE)     \
    KERNEL(NAME##_match, OP, MATCH, NONE)  \
    KERNEL(NAME##_redux, OP, REDUX, NONE)  \
    KERNEL(NAME##_shfl, OP, SHFL, NONE)    \
    KERNEL(NAME##_lds, OP, LDS, NONE)      \
    KERNEL(NAME##_vote, OP, VOTE, NONE)    \
    KERNEL(NAME##_bar, OP, BAR, NONE)

WITH(match, MATCH)
WITH(redux, REDUX)
WITH(shfl, SHFL)
WITH(lds, LDS)
WITH(vote, VOTE)
WITH(bar, BAR)
KERNEL(match_redux_bar, MATCH, REDUX, BAR)
KERNEL(match_redux_shfl, MATCH, REDUX, SHFL)
