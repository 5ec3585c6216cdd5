"""The drop-in driver, called as C programs call it."""

from __future__ import annotations

import ctypes
import io
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.driver_library import ENVIRONMENT, IN_ANOTHER_PROCESS, VECTOR_ADD, Driver, attached

ROOT = Path(__file__).parents[1]
ENDLESS_ADD = """.version 7.0
.target sm_70
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u32 n)
{
    .reg .pred %p;
    .reg .u64 %rd<3>;
    .reg .u32 %r<3>;
    ld.param.u64 %rd1, [a];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, 0;
again:
    add.u32 %r1, %r1, 1;
    ld.volatile.global.u32 %r2, [%rd2];
    setp.eq.u32 %p, %r2, 1;
    @%p bra again;
    st.global.u32 [%rd2], %r1;
    ret;
}
"""
"""Polls a word that keeps its value and counts, so that no state repeats."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with attached() as cuda:
        yield cuda


@pytest.fixture(scope="module")
def module(driver: Driver) -> int:
    return int(driver.word("cuModuleLoadData", VECTOR_ADD.encode()))


@pytest.fixture(scope="module")
def add(driver: Driver, module: int) -> int:
    return int(driver.word("cuModuleGetFunction", module, b"add"))


def _vectors(driver: Driver, n: int) -> tuple[ctypes.c_uint64, ctypes.c_uint64, np.ndarray, np.ndarray]:
    a, b = np.arange(n, dtype=np.uint32), np.arange(n, dtype=np.uint32)[::-1].copy()
    places = []
    for host in (a, b):
        place = ctypes.c_uint64(driver.word("cuMemAlloc_v2", host.nbytes))
        driver("cuMemcpyHtoD_v2", place.value, host.ctypes.data, host.nbytes)
        places.append(place)
    return places[0], places[1], a, b


def _fetch(driver: Driver, place: ctypes.c_uint64, n: int) -> np.ndarray:
    out = np.zeros(n, np.uint32)
    driver("cuMemcpyDtoH_v2", out.ctypes.data, place.value, out.nbytes)
    return out


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_library_is_an_elf_file_that_exports_every_entry_point(machine: str) -> None:
    elffile = pytest.importorskip("elftools.elf.elffile")
    from warpwright.driver.entry_points import table
    from warpwright.driver.stubs import Boot, build_library

    names = list(table("driver"))
    raw = build_library(machine, "libcuda.so.1", names, Boot("", "pass", "none"))
    file = elffile.ELFFile(io.BytesIO(raw))
    assert file["e_machine"] == {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[machine]
    symbols = {s.name for s in file.get_section_by_name(".dynsym").iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}
    assert set(names) < symbols
    dynamic = file.get_section_by_name(".dynamic")
    assert [t.soname for t in dynamic.iter_tags("DT_SONAME")] == ["libcuda.so.1"]
    assert len(names) > 600


def test_every_implemented_entry_point_is_in_the_tables() -> None:
    from warpwright.driver import register_all
    from warpwright.driver.calls import ENTRIES
    from warpwright.driver.entry_points import plain, table

    assert register_all
    known = {plain(name) for library in ("driver", "runtime12", "runtime13", "nvml") for name in table(library)}
    assert sorted({name.partition("@")[0] for name in ENTRIES} - known) == []


def test_programs_for_an_older_cuda_get_entry_points_with_the_arguments_they_pass() -> None:
    from warpwright.driver.entry_points import table
    from warpwright.driver.process import versioned

    names = table("driver")
    changed = [n for n in names if f"{n}_v2" in names and len(names[n]) != len(names[f"{n}_v2"])]
    assert {"cuCtxGetDevice", "cuStreamGetCtx"} <= set(changed)
    for name in changed:
        # CUDA 4.0's forms are the oldest that 64-bit programs use; batches of copies came with 12.8.
        assert versioned(name, 4000, False) == name, name
        assert versioned(name, 13000, False) in (f"{name}_v2", f"{name}_v3"), name


def test_device_says_what_the_chip_is(driver: Driver) -> None:
    name = ctypes.create_string_buffer(100)
    driver("cuDeviceGetName", name, 100, 0)
    assert name.value == b"A100-SXM4-40GB (simulated)"
    assert driver.word("cuDeviceGetCount", kind=ctypes.c_int) == 1
    assert driver.word("cuDeviceGetAttribute", 75, 0, kind=ctypes.c_int) == 8
    assert driver.word("cuDeviceGetAttribute", 16, 0, kind=ctypes.c_int) == 108
    assert driver.raw("cuDeviceGet", ctypes.byref(ctypes.c_int()), 1) == 101


def test_kernel_from_ptx_runs(driver: Driver, module: int, add: int) -> None:
    n = 1000
    pa, pb, a, b = _vectors(driver, n)
    driver.launch(add, 4, 256, pa, pb, ctypes.c_uint32(n))
    driver("cuCtxSynchronize")
    assert np.array_equal(_fetch(driver, pa, n), a + 3 * b)
    size = ctypes.c_size_t()
    scale = ctypes.c_uint64()
    driver("cuModuleGetGlobal_v2", ctypes.byref(scale), ctypes.byref(size), module, b"scale")
    assert size.value == 4
    driver("cuMemsetD32_v2", scale.value, 0, 1)
    driver.launch(add, 4, 256, pa, pb, ctypes.c_uint32(n))
    assert np.array_equal(_fetch(driver, pa, n), a + 3 * b)
    driver("cuMemsetD32_v2", scale.value, 3, 1)
    for place in (pa, pb):
        driver("cuMemFree_v2", place.value)


def test_managed_and_registered_memory_serve_host_and_device_at_one_address(driver: Driver, add: int) -> None:
    n = 64
    managed = driver.word("cuMemAllocManaged", 4 * n, 1)
    ctypes.memset(managed, 0, 4 * n)
    own = np.arange(n, dtype=np.uint32)
    assert driver.raw("cuMemHostRegister_v2", own.ctypes.data, own.nbytes, 2) == 0
    assert driver.raw("cuMemHostRegister_v2", own.ctypes.data, own.nbytes, 2) == 712
    assert driver.word("cuMemHostGetDevicePointer_v2", own.ctypes.data, 0) == own.ctypes.data
    driver.launch(add, 1, n, ctypes.c_uint64(managed), ctypes.c_uint64(own.ctypes.data), ctypes.c_uint32(n))
    assert list((ctypes.c_uint32 * n).from_address(managed)) == [3 * i for i in range(n)]
    driver("cuMemHostUnregister", own.ctypes.data)
    driver("cuMemFree_v2", managed)


def test_memory_is_freed_by_a_thread_that_has_let_go_of_its_context(driver: Driver) -> None:
    """And pointers are known; all else wants a context (answers of an H200's driver, 13.0)."""
    memory, pinned = driver.word("cuMemAlloc_v2", 64), driver.word("cuMemAllocHost_v2", 64)
    context = driver.word("cuCtxPopCurrent_v2")
    ordinal = ctypes.c_int(7)
    driver("cuPointerGetAttribute", ctypes.byref(ordinal), 9, memory)
    refused = [driver.raw("cuMemsetD8_v2", memory, 0, 64), driver.raw("cuStreamSynchronize", 0)]
    driver("cuMemFree_v2", memory)
    driver("cuMemFreeHost", pinned)
    again = driver.raw("cuMemFree_v2", memory)
    driver("cuCtxPushCurrent_v2", context)
    assert (again, ordinal.value, refused) == (1, 0, [201, 201])


def test_captured_graph_is_launched_and_updated(driver: Driver, add: int) -> None:
    n = 32
    pa, pb, a, b = _vectors(driver, n)
    count = ctypes.c_uint32(n)
    stream = driver.word("cuStreamCreate", 1)
    driver("cuStreamBeginCapture_v2", stream, 0)
    driver.launch(add, 1, n, pa, pb, count, stream=stream)
    driver.launch(add, 1, n, pa, pb, count, stream=stream)
    graph = ctypes.c_uint64()
    driver("cuStreamEndCapture", stream, ctypes.byref(graph))
    assert np.array_equal(_fetch(driver, pa, n), a), "capturing runs nothing"
    executable = driver.word("cuGraphInstantiateWithFlags", graph.value, 0)
    driver("cuGraphLaunch", executable, stream)
    assert np.array_equal(_fetch(driver, pa, n), a + 6 * b)
    driver("cuGraphExecDestroy", executable)
    nodes = ctypes.c_size_t()
    driver("cuGraphGetNodes", graph.value, 0, ctypes.byref(nodes))
    assert nodes.value == 2


def test_graph_allocates_memory_at_one_address_for_each_of_its_launches(driver: Driver) -> None:
    size = 1 << 16
    graph = driver.word("cuGraphCreate", 0)
    parameters = (ctypes.c_uint64 * 15)()
    parameters[0], parameters[1], parameters[13] = 1, 1, size
    node, copied, freed = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    driver("cuGraphAddMemAllocNode", ctypes.byref(node), graph, 0, 0, parameters)
    address = parameters[14]
    assert driver.raw("cuMemsetD8_v2", address, 1, size) == 1, "there is no memory before a launch"
    fill = (ctypes.c_uint64 * 5)(address, 0, 0x5A | 1 << 32, size, 1)
    driver("cuGraphAddMemsetNode", ctypes.byref(copied), graph, ctypes.byref(node), 1, fill, 0)
    executable = driver.word("cuGraphInstantiateWithFlags", graph, 0)
    driver("cuGraphLaunch", executable, 0)
    assert ctypes.c_uint8.from_address(address + size - 1).value == 0x5A
    used = ctypes.c_uint64()
    driver("cuDeviceGetGraphMemAttribute", 0, 0, ctypes.byref(used))
    assert used.value == size
    assert driver.raw("cuGraphLaunch", executable, 0) == 1, "nothing freed what the first launch allocated"
    driver("cuMemFree_v2", address)
    driver("cuGraphAddMemFreeNode", ctypes.byref(freed), graph, ctypes.byref(copied), 1, address)
    driver("cuGraphExecDestroy", executable)
    executable = driver.word("cuGraphInstantiateWithFlags", graph, 0)
    for _ in range(3):
        driver("cuGraphLaunch", executable, 0)
    driver("cuDeviceGetGraphMemAttribute", 0, 0, ctypes.byref(used))
    assert used.value == 0
    driver("cuDeviceGetGraphMemAttribute", 0, 2, ctypes.byref(used))
    assert used.value == size
    driver("cuDeviceGraphMemTrim", 0)
    driver("cuDeviceGetGraphMemAttribute", 0, 2, ctypes.byref(used))
    assert used.value == 0
    automatic = driver.word("cuGraphInstantiateWithFlags", graph, 1)
    driver("cuGraphLaunch", automatic, 0)
    driver("cuGraphLaunch", automatic, 0)


def test_mapped_physical_memory_is_the_same_at_two_addresses(driver: Driver) -> None:
    size = 2 << 20
    properties = (ctypes.c_uint32 * 8)(1, 0, 1, 0)
    memory = driver.word("cuMemCreate", size, properties, 0)
    access = (ctypes.c_uint32 * 3)(1, 0, 3)
    places = [driver.word("cuMemAddressReserve", size, 0, 0, 0) for _ in range(2)]
    for place in places:
        driver("cuMemMap", place, size, 0, memory, 0)
        driver("cuMemSetAccess", place, size, access, 1)
    driver("cuMemsetD32_v2", places[0], 0xABCD, 16)
    assert ctypes.c_uint32.from_address(places[1]).value == 0xABCD
    driver("cuMemRelease", memory)
    for place in places:
        driver("cuMemUnmap", place, size)
        driver("cuMemAddressFree", place, size)


def test_occupancy_follows_the_chip(driver: Driver, add: int) -> None:
    blocks = driver.word("cuOccupancyMaxActiveBlocksPerMultiprocessor", add, 256, 0, kind=ctypes.c_int)
    assert blocks == 8
    grid, block = ctypes.c_int(), ctypes.c_int()
    driver("cuOccupancyMaxPotentialBlockSize", ctypes.byref(grid), ctypes.byref(block), add, 0, 0, 0)
    assert (grid.value, block.value) == (2 * 108, 1024)


def test_unknown_entry_points_and_handles_are_refused(driver: Driver, capfd: pytest.CaptureFixture[str]) -> None:
    assert driver.raw("cuMulticastCreate", 0, 0) == 801
    assert driver.raw("cuMulticastCreate", 0, 0) == 801
    assert capfd.readouterr().err.count("cuMulticastCreate is not provided") == 1
    assert driver.raw("cuModuleUnload", 12345) == 400
    assert driver.raw("cuMemFree_v2", 12345) == 1


def test_destructors_keep_an_exception_that_is_on_its_way(driver: Driver) -> None:
    """As those of C++ objects do when a function of C code fails: the capsule goes while ``int`` has an error set."""
    new = ctypes.pythonapi["PyCapsule_New"]
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    for name in ("cuMemFree_v2", "cuStreamDestroy_v2", "cuCtxSetCurrent"):
        with pytest.raises(TypeError, match="not 'PyCapsule'"):
            int(new(1, None, ctypes.cast(driver.library[name], ctypes.c_void_p)))


def test_fault_marks_the_context_until_it_is_reset() -> None:
    program = (
        IN_ANOTHER_PROCESS
        + """
add = cuda.word("cuModuleGetFunction", cuda.word("cuModuleLoadData", VECTOR_ADD.encode()), b"add")
cuda.launch(add, 1, 32, ctypes.c_uint64(64), ctypes.c_uint64(64), ctypes.c_uint32(4))
print(cuda.raw("cuCtxSynchronize"), cuda.raw("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), 4))
cuda("cuDevicePrimaryCtxReset_v2", 0)
print(cuda.raw("cuCtxSynchronize"))
"""
    )
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == ["700", "700", "0"], done.stderr
    assert "out-of-bounds" in done.stderr
    assert "null pointer" in done.stderr


_COMPILES = """
from warpwright.driver import attach
from warpwright.libraries import provide
from warpwright.programs import has_begun_driver
from warpwright.toolchain import InputKind, link
from warpwright.toolchain.nvrtc import compile_cuda
provide()
attach.preload()
compiled = compile_cuda("__global__ void nothing() {}", "80", options=["-rdc=true"])
print(has_begun_driver())
link([(InputKind.CUBIN, compiled.cubin, "nothing.cubin")], "80")
print(has_begun_driver())
"""


def test_a_compilation_does_not_begin_the_driver() -> None:
    """NVRTC and nvJitLink call cuInit of a driver that the process has loaded; the devices would be the default chip's from then on."""
    done = subprocess.run([sys.executable, "-c", _COMPILES], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "False"], done.stderr


_C_PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *), cuMemAlloc_v2(unsigned long *, unsigned long);
int cuMemsetD32_v2(unsigned long, unsigned, unsigned long), cuMemcpyDtoH_v2(void *, unsigned long, unsigned long);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static void *work(void *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    fread(text, 1, sizeof text - 1, file);
    void *context, *module, *function;
    unsigned long a, b;
    unsigned n = 8, out[8];
    int failed = cuInit(0) | cuDevicePrimaryCtxRetain(&context, 0) | cuCtxSetCurrent(context);
    failed |= cuModuleLoadData(&module, text) | cuModuleGetFunction(&function, module, "add");
    failed |= cuMemAlloc_v2(&a, 32) | cuMemAlloc_v2(&b, 32) | cuMemsetD32_v2(a, 1, 8) | cuMemsetD32_v2(b, 5, 8);
    void *arguments[] = {&a, &b, &n};
    failed |= cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0) | cuMemcpyDtoH_v2(out, a, 32);
    printf("%d %u %u\n", failed, out[0], out[7]);
    return 0;
}
/* A thread that Python did not start: its context must last from call to call. */
int main(int argc, char **argv) {
    pthread_t thread;
    pthread_create(&thread, 0, work, argv[1]);
    pthread_join(thread, 0);
    return 5;
}
"""


def native_program(folder: Path, ptx: str, source: str = _C_PROGRAM) -> list[str | Path]:
    """The words that run the C program above, whose kernel ``add`` is this one, under the command."""
    import sysconfig

    from warpwright.driver import attach

    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("this Python has no shared library")
    (folder / "add.ptx").write_text(ptx)
    (folder / "main.c").write_text(source)
    program = folder / "main"
    subprocess.run(
        ["cc", "-w", "-pthread", "-o", program, folder / "main.c", f"-L{attach.folder()}", "-lcuda"],
        check=True,
        cwd=folder,
    )
    command = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", "v100", "--timing", "off"]
    return [*command, program, folder / "add.ptx"]


@pytest.mark.ci
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_an_interrupted_native_program_reports_where_its_warps_are(tmp_path: Path) -> None:
    # Without the thread: signals reach Python in the thread that started it.
    main = _C_PROGRAM.replace("pthread_create(&thread, 0, work, argv[1]);", "work(argv[1]);")
    words = native_program(tmp_path, ENDLESS_ADD, main.replace("    pthread_join(thread, 0);\n", ""))
    running = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    assert running.stderr is not None
    told = next(line for line in running.stderr if "add: 0 of 1 blocks" in line)
    os.killpg(running.pid, signal.SIGINT)
    shown, errors = running.communicate(timeout=100)
    assert running.returncode == 130, told + errors
    assert "warpwright: interrupted in cuMemcpyDtoH_v2: kernel add, block (0, 0, 0):" in errors
    assert "warp 0: lanes 0-31 run at " in errors
    assert "Traceback" not in errors
    assert "the program launched no kernel" not in shown


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_native_program_runs_under_the_command(tmp_path: Path) -> None:
    words = native_program(tmp_path, VECTOR_ADD)
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 5, done.stderr
    assert done.stdout.startswith("0 16 16\n"), done.stdout
    assert "add" in done.stdout.split("\n", 1)[1]
