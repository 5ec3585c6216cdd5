// Small kernels in which barriers, special functions, votes, atomics on shared words and waits for other blocks take most of the time; nothing is calibrated with them.
// out[4 * block ..]: of its first warp: start of the first of two passes, start and end of the second, SM; data: zeroed words.
#include "common.cuh"

template <class F>
__device__ __forceinline__ void second_pass(u32* out, F work) {
    u32 first = 0, t0 = 0, t1 = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        settle();
        t0 = clk();
        if (pass == 0) first = t0;
        work(pass);
        __syncthreads();
        t1 = clk();
    }
    u32* mine = out + 4 * blockIdx.x;
    if (threadIdx.x == 0) mine[0] = first, mine[1] = t0, mine[2] = t1, mine[3] = smid();
}
#define KEEP(v) if ((v) == 0x9e3779b9u) out[5 * SINK + threadIdx.x] = 1
#define KEEPF(v) KEEP(__float_as_uint(v))
#define CASE(NAME) extern "C" __global__ void NAME(u32* out, u32* data, int n)

// Shared memory and barriers.
CASE(tree_sum) {
    __shared__ float s[1024];
    float total = threadIdx.x;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            s[threadIdx.x] = total + i;
            __syncthreads();
            for (int half = blockDim.x / 2; half > 0; half >>= 1) {
                if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
                __syncthreads();
            }
            total += s[0] * 1e-3f;
            __syncthreads();
        }
    });
    KEEPF(total);
}
CASE(relax_rod) {
    __shared__ float a[1026], b[1026];
    a[threadIdx.x + 1] = threadIdx.x;
    if (threadIdx.x < 2) a[threadIdx.x * (blockDim.x + 1)] = b[threadIdx.x * (blockDim.x + 1)] = 1.0f;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            int t = threadIdx.x + 1;
            b[t] = 0.25f * a[t - 1] + 0.5f * a[t] + 0.25f * a[t + 1];
            __syncthreads();
            a[t] = 0.25f * b[t - 1] + 0.5f * b[t] + 0.25f * b[t + 1];
            __syncthreads();
        }
    });
    KEEPF(a[threadIdx.x + 1]);
}
CASE(scan_block) {
    __shared__ u32 s[2][1024];
    u32 x = threadIdx.x & 7;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            int side = 0;
            s[0][threadIdx.x] = x;
            __syncthreads();
            for (int d = 1; d < blockDim.x; d *= 2) {
                u32 v = s[side][threadIdx.x];
                if (threadIdx.x >= d) v += s[side][threadIdx.x - d];
                s[side ^ 1][threadIdx.x] = v;
                side ^= 1;
                __syncthreads();
            }
            x = s[side][threadIdx.x] & 15;
            __syncthreads();
        }
    });
    KEEP(x);
}
CASE(any_left) {
    u32 x = threadIdx.x * 2654435761u + blockIdx.x, rounds = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            if (!__syncthreads_or(x == 77)) rounds++;
        }
    });
    KEEP(rounds + x);
}
// Special functions and conversions.
CASE(bodies) {
    float px = threadIdx.x, py = 1.0f, ax = 0, ay = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            float dx = i * 0.5f - px, dy = i * 0.25f - py, d = rsqrtf(dx * dx + dy * dy + 0.01f), f = d * d * d;
            ax += dx * f, ay += dy * f, px += ax * 1e-3f, py += ay * 1e-3f;
        }
    });
    KEEPF(px + py);
}
CASE(logistic) {
    float x = threadIdx.x * 0.01f;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) x = __fdividef(1.0f, 1.0f + __expf(-x)) * 2.0f - 0.3f;
    });
    KEEPF(x);
}
CASE(phases) {
    float x = threadIdx.x * 0.1f, y = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) y += __sinf(x) * __cosf(y), x += 0.37f;
    });
    KEEPF(y);
}
CASE(widen) {
    float x = threadIdx.x * 0.1f;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            double w = (double)x * 1.0000001 + 0.5;
            x = (float)w;
        }
    });
    KEEPF(x);
}
CASE(round_trip) {
    float x = threadIdx.x * 1.37f;
    int y = threadIdx.x;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) y = __float2int_rn(x) ^ i, x = (float)y * 0.75f;
    });
    KEEP(y);
}
CASE(bit_counts) {
    u32 x = threadIdx.x * 2654435761u;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) x = __popc(x) + (__clz(x) << 8) + (x << 3);
    });
    KEEP(x);
}
// Votes.
CASE(compact) {
    u32 x = threadIdx.x * 2654435761u, at = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            u32 ballot = __ballot_sync(~0u, x >> 30 == 0);
            at += __popc(ballot & ((1u << lane()) - 1));
            x ^= ballot;
        }
    });
    KEEP(at);
}
CASE(until_all) {
    u32 x = threadIdx.x * 2654435761u;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            x = x * 5 + 1;
            if (__all_sync(~0u, x != 7)) x += 3;
            if (__any_sync(~0u, x == 9)) x ^= 5;
        }
    });
    KEEP(x);
}
// Integer sums.
CASE(mixing) {
    u32 a = threadIdx.x, b = blockIdx.x + 7, c = 0x9e3779b9u;
    second_pass(out, [&](int) {
#pragma unroll 4
        for (int i = 0; i < n; i++) {
            a -= b, a -= c, a ^= c >> 13;
            b -= c, b -= a, b ^= a << 8;
            c -= a, c -= b, c ^= b >> 13;
        }
    });
    KEEP(a + b + c);
}
CASE(sums_of_three) {
    u32 a = threadIdx.x, b = blockIdx.x + 7, c = 3, d = 5;
    second_pass(out, [&](int) {
#pragma unroll 8
        for (int i = 0; i < n; i++) {
            a = a + b + c, b = b + c + d, c = c + d + a, d = d + a + b;
        }
    });
    KEEP(a + b + c + d);
}
// Atomics on words that all share.
CASE(tickets) {
    u32 got = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++)
            if (threadIdx.x == 0) got += atomicAdd(data, 1 + (got & 0x80000000u));
    });
    KEEP(got);
}
CASE(work_queue) {
    __shared__ u32 item;
    float x = threadIdx.x;
    second_pass(out, [&](int pass) {
        while (true) {
            if (threadIdx.x == 0) item = atomicAdd(data + pass * 64, 1);
            __syncthreads();
            u32 mine = item;
            __syncthreads();
            if (mine >= n) break;
            for (int k = 0; k < 16; k++) x = x * 0.999f + 0.25f;
        }
    });
    KEEPF(x);
}
CASE(largest) {
    u32 x = threadIdx.x * 2654435761u + blockIdx.x * 40503u, seen = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            x = x * 1664525u + 1013904223u;
            seen ^= atomicMax(data + (i & 3) * 64, x ^ (seen & 1));
        }
    });
    KEEP(seen);
}
CASE(swap_loop) {
    u32 tries = 0;
    second_pass(out, [&](int) {
        if (threadIdx.x == 0)
            for (int i = 0; i < n; i++) {
                u32 old = data[0], want;
                do want = old, old = atomicCAS(data, want, want + 3), tries++; while (old != want);
            }
    });
    KEEP(tries);
}
CASE(pass_on) {  // each block's turn comes when the one before has had it
    second_pass(out, [&](int pass) {
        if (threadIdx.x == 0)
            for (int i = 0; i < n; i++) {
                u32 mine = (pass * n + i) * gridDim.x + blockIdx.x;
                while (*(volatile u32*)data != mine) {}
                *(volatile u32*)data = mine + 1;
            }
    });
}
CASE(ticket_lock) {
    second_pass(out, [&](int) {
        if (threadIdx.x == 0)
            for (int i = 0; i < n; i++) {
                u32 mine = atomicAdd(data, 1);
                while (*(volatile u32*)(data + 64) != mine) {}
                __threadfence();
                data[128]++;
                __threadfence();
                *(volatile u32*)(data + 64) = mine + 1;
            }
    });
}
// Grid barriers of programs' own.
CASE(grid_counter) {  // one word that only grows
    second_pass(out, [&](int pass) {
        for (int i = 0; i < n; i++) {
            __syncthreads();
            if (threadIdx.x == 0) {
                __threadfence();
                atomicAdd(data, 1);
                u32 goal = (pass * n + i + 1) * gridDim.x;
                while (*(volatile u32*)data < goal) {}
                __threadfence();
            }
            __syncthreads();
        }
    });
}
CASE(grid_sense) {  // the last to come changes the sense
    u32 sense = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            sense ^= 1;
            __syncthreads();
            if (threadIdx.x == 0) {
                __threadfence();
                if (atomicInc(data, gridDim.x - 1) == gridDim.x - 1) atomicExch(data + 32, sense);
                else
                    while (*(volatile u32*)(data + 32) != sense) {}
                __threadfence();
            }
            __syncthreads();
        }
    });
}
CASE(grid_tree) {  // eight counters, then one of them all
    u32 groups = 8, sense = 0;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            sense ^= 1;
            __syncthreads();
            if (threadIdx.x == 0) {
                u32 group = blockIdx.x % groups, size = (gridDim.x - group + groups - 1) / groups;
                __threadfence();
                if (atomicInc(data + 1024 + 64 * group, size - 1) == size - 1 && atomicInc(data, groups - 1) == groups - 1)
                    *(volatile u32*)(data + 256) = sense;
                while (*(volatile u32*)(data + 256) != sense) {}
                __threadfence();
            }
            __syncthreads();
        }
    });
}
CASE(grid_master) {  // each block has a word of its own, which the first block looks at and answers
    second_pass(out, [&](int pass) {
        for (int i = 0; i < n; i++) {
            u32 turn = pass * n + i + 1;
            __syncthreads();
            if (blockIdx.x == 0) {
                for (u32 k = threadIdx.x + 1; k < gridDim.x; k += blockDim.x)
                    while (((volatile u32*)data)[1024 + k] != turn) {}
                __syncthreads();
                for (u32 k = threadIdx.x + 1; k < gridDim.x; k += blockDim.x) ((volatile u32*)data)[16384 + k] = turn;
            } else if (threadIdx.x == 0) {
                __threadfence();
                ((volatile u32*)data)[1024 + blockIdx.x] = turn;
                while (((volatile u32*)data)[16384 + blockIdx.x] != turn) {}
                __threadfence();
            }
            __syncthreads();
        }
    });
}
CASE(grid_steps) {  // a row of numbers relaxed, a barrier a step
    float* a = (float*)(data + 65536);
    u32 sense = 0, all = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    second_pass(out, [&](int) {
        for (int i = 0; i < n; i++) {
            float* from = a + (i & 1) * all;
            float* to = a + (~i & 1) * all;
            to[me] = 0.5f * (from[(me + 1) % all] + from[(me + all - 1) % all]);
            sense ^= 1;
            __syncthreads();
            if (threadIdx.x == 0) {
                u32 old;
                asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(data), "r"(blockIdx.x ? 1u : 0x80000000u - (gridDim.x - 1)) : "memory");
                u32 now;
                do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(data) : "memory"); while (((old ^ now) & 0x80000000u) == 0);
            }
            __syncthreads();
        }
    });
}
// A sum of blocks that looks back: each block adds to what the one before leaves.
CASE(look_back) {
    __shared__ u32 carried;
    second_pass(out, [&](int pass) {
        for (int i = 0; i < n; i++) {
            u32 turn = pass * n + i + 1;
            volatile u32* flags = data + 1024;
            if (threadIdx.x == 0) {
                u32 sum = 0;
                if (blockIdx.x) {
                    while (flags[2 * (blockIdx.x - 1)] < turn) {}
                    __threadfence();
                    sum = flags[2 * (blockIdx.x - 1) + 1];
                }
                flags[2 * blockIdx.x + 1] = sum + blockIdx.x;
                __threadfence();
                flags[2 * blockIdx.x] = turn;
                carried = sum;
            }
            __syncthreads();
            KEEP(carried);
        }
    });
}
