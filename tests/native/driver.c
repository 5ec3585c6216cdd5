/* A program on the driver API that opens it at run time: each name is asked of cuGetProcAddress.
 *
 * driver images FILE...   load each file as a module, run its kernel "add"
 * driver streams FILE     events, a captured graph and its launches
 * driver virtual          two addresses of one physical memory
 * driver errors           codes of calls that are wrong, and behind a fault
 * driver threads FILE     eight threads that launch at once
 * driver fork             a child of fork, which has no CUDA
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long word;
static int (*find)(const char *, void **, int, word, int *);

#define CALL(name, ...) ((int (*)())entry(name))(__VA_ARGS__)
#define MUST(name, ...)                                                                                               \
    do {                                                                                                              \
        int result_ = CALL(name, __VA_ARGS__);                                                                           \
        if (result_) { printf("%s returned %d\n", name, result_); exit(1); }                                                 \
    } while (0)

static void *entry(const char *name) {
    void *found = NULL;
    int status = 0;
    if (find(name, &found, 12000, 0, &status) || !found) { printf("no %s\n", name); exit(1); }
    return found;
}

static void begin(void) {
    void *context;
    MUST("cuDevicePrimaryCtxRetain", &context, 0);
    MUST("cuCtxSetCurrent", context);
}

static char *contents(const char *path) {
    FILE *file = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 20);
    if (!file || !fread(bytes, 1, (1 << 20) - 1, file)) exit(2);
    fclose(file);
    return bytes;
}

static void *kernel_of(const char *path) {
    void *module, *function;
    MUST("cuModuleLoadData", &module, contents(path));
    MUST("cuModuleGetFunction", &function, module, "add");
    return function;
}

/* a[i] += 3 * b[i] with a = 1 and b = 5, so that each launch adds 15. */
typedef struct { void *function; word a, b; unsigned count; } Sum;

static Sum sum_of(void *function) {
    Sum sum = {function, 0, 0, 64};
    MUST("cuMemAlloc", &sum.a, (word)256);
    MUST("cuMemAlloc", &sum.b, (word)256);
    MUST("cuMemsetD32", sum.a, 1u, (word)64);
    MUST("cuMemsetD32", sum.b, 5u, (word)64);
    return sum;
}

static void add(Sum *sum, void *stream) {
    void *arguments[] = {&sum->a, &sum->b, &sum->count};
    MUST("cuLaunchKernel", sum->function, 2u, 1u, 1u, 32u, 1u, 1u, 0u, stream, arguments, NULL);
}

static unsigned last(Sum *sum) {
    unsigned out[64];
    MUST("cuMemcpyDtoH", out, sum->a, (word)256);
    return out[63];
}

static void images(int count, char **paths) {
    for (int n = 0; n < count; n++) {
        Sum sum = sum_of(kernel_of(paths[n]));
        add(&sum, NULL);
        printf("%u\n", last(&sum));
    }
}

static void streams(const char *path) {
    void *stream, *graph, *executable, *before, *after;
    Sum sum = sum_of(kernel_of(path));
    float milliseconds = -1;
    MUST("cuStreamCreate", &stream, 1u);
    MUST("cuEventCreate", &before, 0u);
    MUST("cuEventCreate", &after, 0u);
    MUST("cuEventRecord", before, stream);
    add(&sum, stream);
    MUST("cuEventRecord", after, stream);
    MUST("cuEventSynchronize", after);
    MUST("cuEventElapsedTime", &milliseconds, before, after);
    printf("%u %d\n", last(&sum), milliseconds > 0);
    MUST("cuStreamBeginCapture", stream, 1);
    add(&sum, stream);
    add(&sum, stream);
    MUST("cuStreamEndCapture", stream, &graph);
    MUST("cuGraphInstantiateWithFlags", &executable, graph, (word)0);
    for (int n = 0; n < 3; n++) MUST("cuGraphLaunch", executable, stream);
    MUST("cuStreamSynchronize", stream);
    printf("%u\n", last(&sum));
}

static void virtual_memory(void) {
    word size = 2 << 20, place[2];
    void *memory;
    int properties[8] = {1, 0, 1, 0}, access[3] = {1, 0, 3};
    unsigned seen = 0;
    MUST("cuMemCreate", &memory, size, properties, (word)0);
    for (int n = 0; n < 2; n++) {
        MUST("cuMemAddressReserve", &place[n], size, (word)0, (word)0, (word)0);
        MUST("cuMemMap", place[n], size, (word)0, memory, (word)0);
        MUST("cuMemSetAccess", place[n], size, access, (word)1);
    }
    MUST("cuMemsetD32", place[0], 77u, size / 4);
    MUST("cuMemcpyDtoH", &seen, place[1] + size - 4, (word)4);
    printf("%u\n", seen);
    for (int n = 0; n < 2; n++) {
        MUST("cuMemUnmap", place[n], size);
        MUST("cuMemAddressFree", place[n], size);
    }
    MUST("cuMemRelease", memory);
}

static void errors(void) {
    void *module, *function, *stream;
    word place;
    const char *name = NULL;
    const char *fault =
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry fault() { .reg .b64 %a; mov.u64 %a, 64; st.global.u32 [%a], 1; ret; }";
    MUST("cuStreamCreate", &stream, 1u);
    printf("%d %d %d\n", CALL("cuMemAlloc", NULL, (word)16), CALL("cuMemAlloc", &place, (word)0), CALL("cuMemFree", (word)4096));
    printf("%d %d\n", CALL("cuEventQuery", NULL), CALL("cuModuleLoadData", &module, "nothing that is code"));
    MUST("cuModuleLoadData", &module, fault);
    printf("%d %d\n", CALL("cuModuleGetFunction", &function, module, "none"), CALL("cuModuleGetFunction", &function, module, NULL));
    MUST("cuModuleGetFunction", &function, module, "fault");
    printf("%d\n", CALL("cuLaunchKernel", function, 0u, 1u, 1u, 32u, 1u, 1u, 0u, stream, NULL, NULL));
    CALL("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, NULL, NULL);
    int code = CALL("cuStreamSynchronize", stream);
    MUST("cuGetErrorName", code, &name);
    printf("%d %s %d\n", code, name, CALL("cuMemAlloc", &place, (word)16));
    MUST("cuDevicePrimaryCtxReset", 0);
    begin();
    printf("%d\n", CALL("cuMemAlloc", &place, (word)16));
}

static void *one_thread(void *function) {
    void *stream;
    begin();
    Sum sum = sum_of(function);
    MUST("cuStreamCreate", &stream, 1u);
    for (int n = 0; n < 20; n++) add(&sum, stream);
    MUST("cuStreamSynchronize", stream);
    return (void *)(word)last(&sum);
}

static void threads(const char *path) {
    pthread_t started[8];
    void *function = kernel_of(path), *result;
    for (int n = 0; n < 8; n++) pthread_create(&started[n], NULL, one_thread, function);
    for (int n = 0; n < 8; n++) {
        pthread_join(started[n], &result);
        printf("%lu ", (word)result);
    }
    printf("\n");
}

static void forked(void) {
    word place;
    int status;
    fflush(stdout);
    if (fork() == 0) _exit(CALL("cuMemAlloc", &place, (word)16));
    wait(&status);
    printf("%d %d\n", WEXITSTATUS(status), CALL("cuMemAlloc", &place, (word)16));
}

int main(int count, char **words) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) { printf("%s\n", dlerror()); return 1; }
    *(void **)&find = dlsym(library, "cuGetProcAddress_v2");
    MUST("cuInit", 0u);
    begin();
    if (!strcmp(words[1], "images")) images(count - 2, words + 2);
    if (!strcmp(words[1], "streams")) streams(words[2]);
    if (!strcmp(words[1], "virtual")) virtual_memory();
    if (!strcmp(words[1], "errors")) errors();
    if (!strcmp(words[1], "threads")) threads(words[2]);
    if (!strcmp(words[1], "fork")) forked();
    return 0;
}
