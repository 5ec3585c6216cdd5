"""A kernel that reads one word per step and notes the cycles of each read."""

TOUCH = """
extern "C" __global__ void touch(char *p, long long step, int count, int *clocks)
{
    for (int i = 0; i < count; i++) {
        long long begin = clock64();
        int v = *(volatile int *)(p + i * step);
        if (v == 12345) __trap();
        clocks[i] = (int)(clock64() - begin);
    }
}
"""
