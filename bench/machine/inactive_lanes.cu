// Shuffles whose source lanes do not execute them.

// Lanes whose number is a multiple of `step` read their neighbours one and two lanes up; the others stay outside the branch.
extern "C" __global__ void inactive(int *out, const int *in, int step)
{
    int lane = threadIdx.x;
    int value = in[lane] * 3 + 1000, first = -1, second = -1;
    if (lane % step == 0) {
        int more = value + in[lane + 64];
        first = __shfl_down_sync(0xffffffffu, more, 1, 4);
        second = __shfl_down_sync(0xffffffffu, more + first, 2, 4);
    }
    out[lane] = first;
    out[lane + 32] = second;
    out[lane + 64] = value;
}
