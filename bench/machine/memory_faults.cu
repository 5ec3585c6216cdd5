// One access, the given number of bytes from an address.
extern "C" __global__ void writes(char* array, long bytes) { *(volatile int*)(array + bytes) = 1; }
extern "C" __global__ void reads(char* array, long bytes) { *(volatile int*)array = *(volatile int*)(array + bytes); }
