// One program holds many cases; `PROGRAM NAME` runs one of them, `PROGRAM` lists their names.
//
// A comment `//! NAME CHECK` marks the line of case NAME's only fault, which CHECK is to find; `//? NAME` the other line of
// a race, which may be named beside it.  A case without such a mark has no fault; `//= NAME CHECK` asks for a check of it
// beyond the usual ones.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

struct Case {
    const char *name;
    void (*run)();
    Case *next;
    static Case *&first() {
        static Case *list = nullptr;
        return list;
    }
    Case(const char *name, void (*run)()) : name(name), run(run), next(first()) { first() = this; }
};
#define CASE(name)                                          \
    static void case_##name();                              \
    static Case registered_##name(#name, case_##name);      \
    static void case_##name()

/// Say that a result is not what it must be.
inline void expect(bool right, const char *what) {
    if (!right) {
        printf("wrong result: %s\n", what);
        exit(3);
    }
}
#define EXPECT(condition) expect(condition, #condition)

/// Device memory, set to zero.
template <typename T> T *zeros(size_t n) {
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}

/// Device memory that holds 0, 1, 2 ...
template <typename T> T *counted(size_t n) {
    T *host = new T[n], *p;
    for (size_t i = 0; i < n; i++) host[i] = T(i);
    cudaMalloc(&p, n * sizeof(T));
    cudaMemcpy(p, host, n * sizeof(T), cudaMemcpyHostToDevice);
    delete[] host;
    return p;
}

/// One element of device memory.
template <typename T> T element(const T *p, size_t i) {
    T value;
    cudaMemcpy(&value, p + i, sizeof(T), cudaMemcpyDeviceToHost);
    return value;
}

int main(int count, char **arguments) {
    for (Case *one = Case::first(); one; one = one->next) {
        if (count < 2) puts(one->name);
        else if (!strcmp(one->name, arguments[1])) {
            one->run();
            cudaError_t error = cudaDeviceSynchronize();
            printf("%s: %s\n", one->name, cudaGetErrorString(error));
            return error != cudaSuccess;
        }
    }
    return count < 2 ? 0 : 4;
}
