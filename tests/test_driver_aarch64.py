"""The library for AArch64, executed by qemu: its stubs start an interpreter once and pass every argument on.

Needs qemu-aarch64 and gcc-aarch64-linux-gnu (Debian: qemu-user, gcc-aarch64-linux-gnu, libc6-dev-arm64-cross).  The interpreter
is a stand-in in C with the six functions that the library asks of libpython, so that only the library itself is tested.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from warpwright.driver.stubs import Boot, build_library

COMPILER, EMULATOR, ROOT = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
pytestmark = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason="needs qemu-aarch64 and a cross compiler"
)
INTERPRETER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int lives, held;
int Py_IsInitialized(void) { return lives; }
void Py_InitializeEx(int signals) { lives = 1; printf("initialised %d\n", signals); }
void *PyEval_SaveThread(void) { printf("saved\n"); return NULL; }
int PyGILState_Ensure(void) { held = 7; return held; }
void PyGILState_Release(int state) { if (state != held) abort(); printf("released\n"); }
static int first(long a) { return (int)a + 1; }
static int many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,
                double s, double t, double u, double v, double w, double x, double y, double z) {
    printf("%ld %ld %ld %ld %ld %ld %ld %ld %ld %ld %g %g %g %g %g %g %g %g\n", a, b, c, d, e, f, g, h, i, j, s, t, u, v, w, x, y, z);
    return 42;
}
static long six(long a, long b, long c, long d, long e, long f) {
    printf("%ld %ld %ld %ld %ld %ld\n", a, b, c, d, e, f);
    return 77;
}
void PyErr_Fetch(void **kind, void **value, void **trace) {
    *kind = (void *)1, *value = (void *)2, *trace = (void *)3;
    printf("fetched\n");
}
void PyErr_Restore(void *kind, void *value, void *trace) { printf("restored %ld %ld %ld\n", (long)kind, (long)value, (long)trace); }
int PyRun_SimpleString(const char *code) {
    double spoil = code[0];
    for (int i = 0; i < 100; i++) spoil = spoil * 1.5 + i;
    printf("runs %s %d\n", code, spoil > 0);
    usleep(20000);
    if (code[0] == '!') return -1;
    void **table = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW), "warpwright_table");
    table[0] = first;
    table[1] = many;
    void **guard = dlsym(dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW), "warpwright_guard");
    guard[0] = PyGILState_Ensure;
    guard[1] = PyErr_Fetch;
    guard[2] = PyErr_Restore;
    guard[3] = PyGILState_Release;
    guard[4 + 6 + 2] = six;
    table[2] = guard[4 + 2];
    return 0;
}
"""
PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
int first(long a);
int many(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j,
         double s, double t, double u, double v, double w, double x, double y, double z);
long six(long a, long b, long c, long d, long e, long f);
void warpwright_close(void);
int cudaFree(void *pointer);
int cudaGetDevice(int *device);
const char *cudaGetErrorString(int code);
static void *thread(void *number) { return (void *)(long)first((long)number); }
int main(int count, char **words) {
    setvbuf(stdout, NULL, _IONBF, 0);
    if (count > 1) {
        pthread_t threads[4];
        for (long n = 0; n < 4; n++) pthread_create(&threads[n], NULL, thread, (void *)(10 * n));
        for (int n = 0; n < 4; n++) {
            void *result;
            pthread_join(threads[n], &result);
            printf("thread %ld\n", (long)result);
        }
    }
    int result = many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, .5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5);
    printf("many %d, first %d\n", result, first(4));
    if (result == 42) printf("six %ld\n", six(1, 2, 3, 4, 5, 6));
    warpwright_close();
    printf("closed %d, %d, %s\n", first(4), cudaFree(NULL), cudaGetErrorString(4));
    int device = 9, code = cudaGetDevice(&device);
    printf("device %d, %d\n", code, device);
}
"""
GUARDED = "fetched\n1 2 3 4 5 6\nrestored 1 2 3\nreleased\nsix 77\n"
ARGUMENTS = "1 2 3 4 5 6 7 8 9 10 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5\n"


def compile_c(folder: Path, name: str, source: str, *options: str) -> Path:
    (folder / f"{name}.c").write_text(source)
    target = folder / name
    subprocess.run([COMPILER, "-O2", "-w", "-o", target, folder / f"{name}.c", *options], check=True)
    return target


def run(folder: Path, boot: Boot, *words: str) -> tuple[str, str]:
    """Standard output and error of the program with a library that starts ``boot``."""
    (folder / "libcuda.so.1").write_bytes(
        build_library(
            "aarch64",
            "libcuda.so.1",
            ["first", "many", "six", "cudaFree", "cudaGetDevice", "cudaGetErrorString"],
            boot,
            guarded=[2],
        )
    )
    program = compile_c(folder, "program", PROGRAM, f"-L{folder}", "-l:libcuda.so.1", "-lpthread")
    command = [EMULATOR, "-L", ROOT, "-E", f"LD_LIBRARY_PATH={folder}", str(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def interpreter(tmp_path: Path) -> str:
    return str(compile_c(tmp_path, "libpython.so", INTERPRETER, "-shared", "-fPIC"))


def test_first_call_starts_an_interpreter_and_keeps_its_arguments(tmp_path: Path, interpreter: str) -> None:
    out, _ = run(tmp_path, Boot(interpreter, "the code", "no interpreter"))
    assert (
        out
        == f"initialised 0\nruns the code 1\nsaved\n{ARGUMENTS}many 42, first 5\n{GUARDED}closed 4, 0, driver shutting down\ndevice 0, 0\n"
    )


def test_threads_that_call_at_once_wait_for_one_start(tmp_path: Path, interpreter: str) -> None:
    out, _ = run(tmp_path, Boot(interpreter, "the code", "no interpreter"), "threads")
    threads = "".join(f"thread {10 * n + 1}\n" for n in range(4))
    assert (
        out
        == f"initialised 0\nruns the code 1\nsaved\n{threads}{ARGUMENTS}many 42, first 5\n{GUARDED}closed 4, 0, driver shutting down\ndevice 0, 0\n"
    )


def test_calls_fail_when_the_code_or_the_library_does(tmp_path: Path, interpreter: str) -> None:
    out, _ = run(tmp_path, Boot(interpreter, "!", "no interpreter"))
    assert out == "initialised 0\nruns ! 1\nsaved\nmany 3, first 3\nclosed 4, 0, driver shutting down\ndevice 0, 0\n"
    out, error = run(tmp_path, Boot(str(tmp_path / "absent.so"), "the code", "no interpreter"))
    assert out == "many 3, first 3\nclosed 4, 0, driver shutting down\ndevice 0, 0\n"
    assert error.startswith("no interpreter")
