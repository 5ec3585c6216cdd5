// One access at a distance in bytes from an address.
extern "C" __global__ void writes(char* array, long bytes) { *(volatile int*)(array + bytes) = 1; }
extern "C" __global__ void reads(char* array, long bytes) { *(volatile int*)array = *(volatile int*)(array + bytes); }
