// What NVIDIA's GPU Computing SDK 4.2 had in its shared folder, as far as the programs of bench/published use it: its
// samples build without it here.  Timers measure nothing: the cycle model gives the times.
#pragma once
#include <cuda_runtime.h>

#include <math.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifndef MAX
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif
#define CLAMP(x, low, high) MAX(low, MIN(high, x))
#define LOGBOTH 0
#define MASTER 0
#define DEFAULTLOGMODE 0
#define CUTBoolean bool
#define CUTTrue true
#define cudaThreadSynchronize cudaDeviceSynchronize
#define cutilDeviceSynchronize cudaDeviceSynchronize
#define cutilThreadSynchronize cudaDeviceSynchronize
#define cutilSafeMalloc(x) x
#define cutilCheckError(x) x
#define cutilSafeCallNoSync cutilSafeCall
#define cutilSafeThreadSync cudaDeviceSynchronize
#define shrLogEx(...)
#define shrSetLogFileName(...)
#define shrQAStart(...)
#define CUT_CHECK_ERROR(...)
#define CUT_SAFE_CALL(x) x
#define CUDA_SAFE_CALL(x) cutilSafeCall(x)

enum { QA_FAILED, QA_PASSED, QA_WAIVED };

template <typename Result> static inline void sdkShimCheck(Result result, int line) {
    if (int(result) != 0) {
        std::fprintf(stderr, "line %d: CUDA error %d\n", line, int(result));
        std::exit(1);
    }
}
#ifndef checkCudaErrors
#define cutilSafeCall(x) sdkShimCheck(x, __LINE__)
#endif
#define cutilCheckMsg(text) sdkShimCheck(cudaGetLastError(), __LINE__)

static inline void shrLog(const char *format, ...) {
    std::va_list rest;
    va_start(rest, format);
    std::vprintf(format, rest);
    va_end(rest);
}

static inline void sdkShimFinish(int outcome) { std::exit(outcome == QA_PASSED ? 0 : 1); }
#define shrQAFinishExit(argc, argv, outcome) sdkShimFinish(outcome)
#define shrQAFinish(...)
#define shrEXIT(...) std::exit(0)
#define cutilExit(...) std::exit(0)

static inline const char *sdkShimOption(int argc, const char **argv, const char *name) {
    size_t length = std::strcspn(name, "=");
    for (int i = 1; i < argc; i++) {
        const char *text = argv[i];
        while (*text == '-') text++;
        if (!std::strncmp(text, name, length)) return text + length;
    }
    return nullptr;
}
static inline bool checkCmdLineFlag(int argc, const char **argv, const char *name) {
    return sdkShimOption(argc, argv, name) != nullptr;
}
static inline int getCmdLineArgumentInt(int argc, const char **argv, const char *name) {
    const char *value = sdkShimOption(argc, argv, name);
    return value ? std::atoi(*value == '=' ? value + 1 : value) : 0;
}
#define cutCheckCmdLineFlag checkCmdLineFlag
#define shrCheckCmdLineFlag checkCmdLineFlag
// A field that CUDA 13 no longer has; only used to choose among several devices.
#define clockRate warpSize
static inline int ConvertSMVer2Cores(int, int) { return 64; }
static inline int _ConvertSMVer2Cores(int, int) { return 64; }
static inline int cutilDeviceInit(int, char **) { return 0; }
static inline int cutGetMaxGflopsDeviceId() { return 0; }
static inline int cutilDeviceReset() { return 0; }

struct StopWatchInterface {};
static inline bool sdkCreateTimer(StopWatchInterface **) { return true; }
static inline bool sdkDeleteTimer(StopWatchInterface **) { return true; }
static inline bool sdkResetTimer(StopWatchInterface **) { return true; }
static inline bool sdkStartTimer(StopWatchInterface **) { return true; }
static inline bool sdkStopTimer(StopWatchInterface **) { return true; }
static inline float sdkGetTimerValue(StopWatchInterface **) { return 1.0f; }
static inline bool cutCreateTimer(unsigned *) { return true; }
static inline bool cutDeleteTimer(unsigned) { return true; }
static inline bool cutResetTimer(unsigned) { return true; }
static inline bool cutStartTimer(unsigned) { return true; }
static inline bool cutStopTimer(unsigned) { return true; }
static inline float cutGetTimerValue(unsigned) { return 1.0f; }
// Results are compared by what tests the simulator, not by these samples.
template <typename Any, typename Other> static inline bool compareData(Any *, Any *, Other, float, float) { return true; }
