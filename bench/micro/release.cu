// lanes that wait at BSYNC for lanes that spin: when do they go on?
extern "C" __global__ void release_load(volatile int *flag, int *polls, long long *clocks, int leave) {
    int lane = threadIdx.x, n = 0;
    long long t0 = clock64();
    volatile int *mine = lane < leave ? flag + 64 : flag;
    while (*mine == 0) n++;
    if (lane < leave) *flag = 1;
    polls[lane] = n; clocks[lane] = clock64() - t0;
}
extern "C" __global__ void release_atomic(int *flag, int *polls, long long *clocks, int leave) {
    int lane = threadIdx.x, n = 0;
    long long t0 = clock64();
    int *mine = lane < leave ? flag + 64 : flag;
    while (atomicAdd(mine, 0) == 0) n++;
    if (lane < leave) atomicExch(flag, 1);
    polls[lane] = n; clocks[lane] = clock64() - t0;
}
extern "C" __global__ void release_shared(int *out, int *polls, long long *clocks, int leave) {
    __shared__ volatile int flag[2];
    int lane = threadIdx.x, n = 0;
    flag[0] = 0; flag[1] = 1; __syncwarp();
    long long t0 = clock64();
    volatile int *mine = lane < leave ? flag + 1 : flag;
    while (*mine == 0) n++;
    if (lane < leave) flag[0] = 1;
    polls[lane] = n; clocks[lane] = clock64() - t0; out[lane]=n;
}
extern "C" __global__ void release_lock(int *mutex, int *polls, long long *clocks, int leave) {
    int n = 0; long long t0 = clock64();
    while (atomicCAS(mutex, 0, 1) == 1) n++;
    long long t1 = clock64();
    __threadfence(); atomicExch(mutex, 0);
    polls[threadIdx.x] = n; clocks[threadIdx.x] = t1 - t0;
}
