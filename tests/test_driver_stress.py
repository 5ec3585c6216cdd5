"""The driver under use that is heavy or unusual: many threads and streams, long loops, forks, what kernels leave at the end."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.driver_library import ENVIRONMENT, IN_ANOTHER_PROCESS, VECTOR_ADD, Driver, attached
from tests.forked_programs import run_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with attached() as cuda:
        yield cuda


def resident_kib() -> int:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def test_eight_threads_launch_on_streams_of_their_own(driver: Driver) -> None:
    context = driver.word("cuCtxGetCurrent")
    add = driver.word("cuModuleGetFunction", driver.word("cuModuleLoadData", VECTOR_ADD.encode()), b"add")
    n, rounds = 1000, 20
    failures: list[str] = []

    def work(number: int) -> None:
        try:
            driver("cuCtxSetCurrent", context)
            stream = driver.word("cuStreamCreate", 1)
            a, b = (ctypes.c_uint64(driver.word("cuMemAlloc_v2", 4 * n)) for _ in range(2))
            driver("cuMemsetD32Async", a.value, number, n, stream)
            driver("cuMemsetD32Async", b.value, 1, n, stream)
            for _ in range(rounds):
                driver.launch(add, 4, 256, a, b, ctypes.c_uint32(n), stream=stream)
            out = np.zeros(n, np.uint32)
            driver("cuMemcpyDtoHAsync_v2", out.ctypes.data, a.value, out.nbytes, stream)
            driver("cuStreamSynchronize", stream)
            if set(out.tolist()) != {number + 3 * rounds}:
                failures.append(f"thread {number}: {set(out.tolist())}")
            for call, thing in (("cuMemFree_v2", a.value), ("cuMemFree_v2", b.value), ("cuStreamDestroy_v2", stream)):
                driver(call, thing)
        except BaseException as error:
            failures.append(f"thread {number}: {error!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.ci
def test_long_loops_keep_their_memory(driver: Driver) -> None:
    """Modules, memory, streams, events and launches, made and given back, leave nothing."""

    def once(launches: int) -> None:
        module = driver.word("cuModuleLoadData", VECTOR_ADD.encode())
        add = driver.word("cuModuleGetFunction", module, b"add")
        stream, event = driver.word("cuStreamCreate", 1), driver.word("cuEventCreate", 0)
        a = ctypes.c_uint64(driver.word("cuMemAlloc_v2", 1 << 20))
        for _ in range(launches):
            driver.launch(add, 1, 32, a, a, ctypes.c_uint32(32), stream=stream)
            driver("cuEventRecord", event, stream)
        driver("cuStreamSynchronize", stream)
        for call, thing in (
            ("cuMemFree_v2", a.value),
            ("cuEventDestroy_v2", event),
            ("cuStreamDestroy_v2", stream),
            ("cuModuleUnload", module),
        ):
            driver(call, thing)

    for _ in range(5):
        once(200)
    gc.collect()
    before = resident_kib()
    for _ in range(20):
        once(200)
    gc.collect()
    assert resident_kib() - before < 0.05 * before


def run(program: str) -> subprocess.CompletedProcess[str]:
    return run_program(IN_ANOTHER_PROCESS + program, {**os.environ, **ENVIRONMENT})


def test_a_forked_child_is_told_and_its_parent_goes_on() -> None:
    done = run("""
import os
child = os.fork()
if child == 0:
    os._exit(cuda.raw("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 4))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), cuda.raw("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 4))
""")
    assert done.stdout == "3 0\n", done.stderr  # CUDA_ERROR_NOT_INITIALIZED
    assert "start children with the spawn method" in done.stderr


TRAPS = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry stop() { trap; }
"""


def test_a_trap_marks_the_context_and_the_program_ends_as_it_likes() -> None:
    done = run(f"""
stop = cuda.word("cuModuleGetFunction", cuda.word("cuModuleLoadData", {TRAPS.encode()!r}), b"stop")
cuda.launch(stop, 1, 1)
print(cuda.raw("cuCtxSynchronize"), cuda.raw("cuStreamCreate", ctypes.byref(ctypes.c_uint64()), 0))
sys.exit(7)
""")
    assert (done.stdout, done.returncode) == ("719 719\n", 7), done.stderr
