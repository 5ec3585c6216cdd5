// What launches take on the host: calls, empty kernels until they are waited for, and one kernel more (formula 1 of the study's method).
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

static double now_ns()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
__global__ void empty() {}
__global__ void spin(long long cycles)
{
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
static double median(std::vector<double> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}
template <class F> static double repeated(int count, F measure)
{
    std::vector<double> found;
    for (int i = 0; i < count; i++) found.push_back(measure());
    return median(found);
}

int main()
{
    cudaFree(0);
    const int many = 128;
    printf("{\n\"clock_reading_ns\": %.1f,\n", repeated(2000, [] {
        double begin = now_ns();
        for (int k = 0; k < 100; k++) now_ns();
        return (now_ns() - begin) / 101;
    }));
    for (int i = 0; i < 200; i++) empty<<<1, 32>>>();
    cudaDeviceSynchronize();
    auto waited = [] {
        double begin = now_ns();
        cudaDeviceSynchronize();
        return now_ns() - begin;
    };
    printf("\"synchronize_idle_ns\": %.0f,\n", repeated(2000, waited));
    for (int cooperative = 0; cooperative < 2; cooperative++) {
        auto launch = [&] {
            if (cooperative) cudaLaunchCooperativeKernel((void *)empty, dim3(132), dim3(1024), nullptr, 0, 0);
            else empty<<<132, 1024>>>();
        };
        std::vector<double> calls, totals, call_of_many, total_of_many;
        for (int i = 0; i < 1000; i++) {
            double begin = now_ns();
            launch();
            calls.push_back(now_ns() - begin);
            cudaDeviceSynchronize();
            totals.push_back(now_ns() - begin);
        }
        for (int i = 0; i < 200; i++) {
            double begin = now_ns();
            for (int k = 0; k < many; k++) launch();
            call_of_many.push_back((now_ns() - begin) / many);
            cudaDeviceSynchronize();
            total_of_many.push_back(now_ns() - begin);
        }
        printf("\"%s\": {\"call_ns\": %.0f, \"total_ns\": %.0f, \"call_of_many_ns\": %.0f, \"additional_ns\": %.0f},\n",
               cooperative ? "cooperative" : "traditional", median(calls), median(totals), median(call_of_many),
               (median(total_of_many) - median(totals)) / (many - 1));
    }
    int khz;
    cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0);
    printf("\"spins\": {");
    for (int us : {5, 10, 20, 50}) {
        auto time = [&](int launches) {
            return repeated(100, [&] {
                double begin = now_ns();
                for (int k = 0; k < launches; k++) spin<<<1, 32>>>((long long)khz / 1000 * us);
                cudaDeviceSynchronize();
                return now_ns() - begin;
            });
        };
        double one = time(1), more = time(32);
        printf("%s\"%d us\": {\"total_ns\": %.0f, \"additional_ns\": %.0f}", us == 5 ? "" : ", ", us, one, (more - one) / 31);
    }
    printf("}\n}\n");
}
