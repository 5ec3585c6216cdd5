// Locks: spin locks among the lanes of one warp and among blocks, one lock per bucket, and a ticket lock.

// Only independent thread scheduling lets this finish: a lane spins while another lane of its warp holds the lock.
extern "C" __global__ void lock_lanes(volatile int *counter, int *order, int *mutex) {
    while (atomicCAS(mutex, 0, 1) == 1);
    __threadfence();
    int at = *counter;
    order[at] = blockIdx.x * blockDim.x + threadIdx.x;
    *counter = at + 1;
    __threadfence();
    *(volatile int *)mutex = 0;
}

extern "C" __global__ void lock_blocks(int *total, int *mutex, const int *src) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, src[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) {
        while (atomicExch(mutex, 1)) __nanosleep(20);
        __threadfence();
        ((volatile int *)total)[0] += sum;
        ((volatile int *)total)[1] += 1;
        __threadfence();
        atomicExch(mutex, 0);
    }
}

// Lanes prepend themselves to linked lists, each list under its own lock.
extern "C" __global__ void lock_buckets(volatile int *head, volatile int *next, int *locks, const int *bucket) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, b = bucket[i];
    bool done = false;
    while (!done) {
        if (atomicCAS(&locks[b], 0, 1) == 0) {
            __threadfence();
            next[i] = head[b];
            head[b] = i;
            __threadfence();
            atomicExch(&locks[b], 0);
            done = true;
        }
    }
}

extern "C" __global__ void lock_ticket(unsigned *tickets, volatile unsigned *serving, volatile double *value) {
    if (threadIdx.x % 8 == 0) {
        unsigned mine = atomicAdd(tickets, 1u);
        while (*serving != mine) {
        }
        __threadfence();
        *value = *value * 0.5 + mine;
        __threadfence();
        *serving = mine + 1;
    }
}
