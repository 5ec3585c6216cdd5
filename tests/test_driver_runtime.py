"""libcudart, called as the code that nvcc makes for the host calls it."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.driver_library import RUNTIME_CALLS, VECTOR_ADD
from tests.forked_programs import run_program
from warpwright.toolchain.compile_errors import CubinError
from warpwright.toolchain.fatbin import read_fatbin, unpack_lz4

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")


class Dim3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


def fatbin(text: bytes) -> bytes:
    """A container with one entry of PTX for sm_70."""
    payload = text + b"\0" * (8 - len(text) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(payload), 0, 0, 0, 7, 70, 0, 0, 0x11, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(payload)) + entry + payload


@pytest.fixture(scope="module")
def runtime() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARPWRIGHT_GPU", "a100")
        patch.setenv("WARPWRIGHT_TIMING", "off")
        from warpwright.driver import attach

        yield ctypes.CDLL(str(attach.folder() / "libcudart.so.12"), mode=ctypes.RTLD_GLOBAL)


@pytest.fixture(scope="module")
def stub(runtime: Any) -> int:
    """A registered kernel: the address that stands for its host stub."""
    image = ctypes.create_string_buffer(fatbin(VECTOR_ADD.encode()))
    wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(image), 0))
    register = runtime["__cudaRegisterFatBinary"]
    register.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(register(wrapper))
    host = ctypes.create_string_buffer(8)
    shadow = ctypes.create_string_buffer(4)
    runtime["__cudaRegisterFunction"](handle, host, b"add", b"add", -1, None, None, None, None, None)
    runtime["__cudaRegisterVar"](handle, shadow, b"scale", b"scale", 0, ctypes.c_size_t(4), 0, 0)
    runtime["__cudaRegisterFatBinaryEnd"](handle)
    runtime.kept = (image, wrapper, host, shadow)
    return ctypes.addressof(host)


def _error(runtime: Any) -> bytes:
    runtime.cudaGetErrorName.restype = ctypes.c_char_p
    return bytes(runtime.cudaGetErrorName(runtime.cudaGetLastError()))


def test_configured_launch_runs_the_registered_kernel(runtime: Any, stub: int) -> None:
    n = 100
    a, b = np.arange(n, dtype=np.uint32), np.full(n, 2, np.uint32)
    places = [ctypes.c_void_p(), ctypes.c_void_p()]
    for place, host in zip(places, (a, b), strict=True):
        assert runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t(host.nbytes)) == 0
        assert runtime.cudaMemcpy(place, ctypes.c_void_p(host.ctypes.data), ctypes.c_size_t(host.nbytes), 1) == 0
    # <<<2, 64>>> as host code does it: push, pop, launch.
    assert runtime["__cudaPushCallConfiguration"](Dim3(2, 1, 1), Dim3(64, 1, 1), ctypes.c_size_t(0), None) == 0
    grid, block, shared, stream = Dim3(), Dim3(), ctypes.c_size_t(9), ctypes.c_void_p()
    pop = runtime["__cudaPopCallConfiguration"]
    assert pop(ctypes.byref(grid), ctypes.byref(block), ctypes.byref(shared), ctypes.byref(stream)) == 0
    assert (grid.x, block.x, shared.value) == (2, 64, 0)
    count = ctypes.c_uint32(n)
    arguments = (ctypes.c_void_p * 3)(*(ctypes.addressof(x) for x in (*places, count)))
    assert runtime.cudaLaunchKernel(ctypes.c_void_p(stub), grid, block, arguments, shared, stream) == 0
    out = np.zeros(n, np.uint32)
    assert runtime.cudaMemcpy(ctypes.c_void_p(out.ctypes.data), places[0], ctypes.c_size_t(out.nbytes), 2) == 0
    assert np.array_equal(out, a + 6)


def test_symbol_is_written_and_read_by_its_shadow(runtime: Any, stub: int) -> None:
    shadow = runtime.kept[3]
    value = ctypes.c_uint32(11)
    size = ctypes.c_size_t(4)
    assert runtime.cudaMemcpyToSymbol(shadow, ctypes.byref(value), size, ctypes.c_size_t(0), 1) == 0
    back = ctypes.c_uint32()
    assert runtime.cudaMemcpyFromSymbol(ctypes.byref(back), shadow, size, ctypes.c_size_t(0), 2) == 0
    assert back.value == 11
    value.value = 3
    assert runtime.cudaMemcpyToSymbol(shadow, ctypes.byref(value), size, ctypes.c_size_t(0), 1) == 0
    assert runtime.cudaMemcpyToSymbol(ctypes.c_void_p(stub), ctypes.byref(value), size, ctypes.c_size_t(0), 1) == 13
    assert _error(runtime) == b"cudaErrorInvalidSymbol"


def test_errors_are_remembered_until_they_are_asked_for(runtime: Any, stub: int) -> None:
    arguments = (ctypes.c_void_p * 3)()
    block = Dim3(2048, 1, 1)
    dummy = ctypes.c_uint64()
    for i in range(3):
        arguments[i] = ctypes.addressof(dummy)
    launch = runtime.cudaLaunchKernel
    assert launch(ctypes.c_void_p(stub), Dim3(1, 1, 1), block, arguments, ctypes.c_size_t(0), None) == 9
    assert runtime.cudaPeekAtLastError() == 9
    assert _error(runtime) == b"cudaErrorInvalidConfiguration"
    assert runtime.cudaGetLastError() == 0
    assert launch(ctypes.c_void_p(64), Dim3(1, 1, 1), Dim3(1, 1, 1), arguments, ctypes.c_size_t(0), None) == 98
    assert _error(runtime) == b"cudaErrorInvalidDeviceFunction"


@pytest.mark.parametrize(("name", "sm_count_at", "size"), [("cudaGetDeviceProperties_v2", 388, 1032)])
def test_device_properties_lie_where_the_headers_say(runtime: Any, name: str, sm_count_at: int, size: int) -> None:
    from warpwright.driver.driver_state import state
    from warpwright.driver.runtime.devices import _properties

    assert len(_properties("12", state().device)) == size
    raw = ctypes.create_string_buffer(2048)
    assert runtime[name](raw, 0) == 0
    assert raw.raw.startswith(b"A100-SXM4-40GB (simulated)\0")
    assert struct.unpack_from("<i", raw.raw, sm_count_at)[0] == 108


def test_fatbin_entries_are_found_and_damage_is_refused() -> None:
    raw = fatbin(b".version 7.0")
    entries = list(read_fatbin(raw))
    assert [(e.is_ptx, e.arch) for e in entries] == [(True, 70)]
    assert entries[0].contents().rstrip(b"\0") == b".version 7.0"
    with pytest.raises(CubinError, match="cut short"):
        list(read_fatbin(raw[:-4]))


def test_lz4_blocks() -> None:
    # Literals "abcd", a match of 8 at distance 4, literals "!".
    assert unpack_lz4(bytes([0x44]) + b"abcd" + bytes([4, 0, 0x10]) + b"!", 13) == b"abcdabcdabcd!"
    with pytest.raises(CubinError, match="damaged"):
        unpack_lz4(bytes([0x14]) + b"a" + bytes([9, 0]), 9)


_PROGRAM = r"""
#include <cstdio>
__device__ __managed__ int total;
__constant__ int factor;
__global__ void add(const int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&total, factor * x[i]);
    if (i == 0) printf("first of %d\n", n);
}
int main() {
    int n = 1000, two = 2, *x;
    cudaMallocManaged(&x, n * sizeof(int));
    for (int i = 0; i < n; i++) x[i] = i;
    cudaMemcpyToSymbol(factor, &two, sizeof two);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    add<<<4, 256, 0, stream>>>(x, n);
    printf("launched\n");
    cudaStreamSynchronize(stream);
    cudaDeviceProp p;
    cudaGetDeviceProperties(&p, 0);
    printf("%d %s %d\n", total, cudaGetErrorString(cudaGetLastError()), p.multiProcessorCount);
    add<<<1, 4096>>>(x, n);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    return total == 999000 ? 0 : 1;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.skipif(not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="this Python has no shared library")
def test_program_of_nvcc_runs(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(_PROGRAM)
    subprocess.run(["nvcc", "-cudart", "shared", "-arch=sm_80", "-o", "main", "main.cu"], check=True, cwd=tmp_path)
    command = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", "a100", tmp_path / "main"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert lines[:4] == ["launched", "first of 1000", "999000 no error 108", "cudaErrorInvalidConfiguration"]


CLUSTERS = """
import ctypes, struct
from tests.test_driver_runtime import fatbin
from tests.driver_library import VECTOR_ADD
from warpwright.chips import load_chip
from warpwright.driver import attach
runtime = ctypes.CDLL(str(attach.folder() / "libcudart.so.12"), mode=ctypes.RTLD_GLOBAL)
image = ctypes.create_string_buffer(fatbin(VECTOR_ADD.encode()))
wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(image), 0))
register = runtime["__cudaRegisterFatBinary"]
register.restype = ctypes.c_void_p
handle, host = ctypes.c_void_p(register(wrapper)), ctypes.create_string_buffer(8)
runtime["__cudaRegisterFunction"](handle, host, b"add", b"add", -1, None, None, None, None, None)
runtime["__cudaRegisterFatBinaryEnd"](handle)
found = ctypes.c_int(-1)
def asked(name, cluster, threads):
    shape = ctypes.create_string_buffer(struct.pack("<i4x3I52x", 4, cluster, 1, 1), 72)
    given = struct.pack("<6IQQQI4x", 64, 1, 1, threads, 1, 1, 0, 0, ctypes.addressof(shape), int(cluster > 0))
    code = runtime[name](ctypes.byref(found), host, ctypes.c_char_p(given))
    return code, found.value
print(asked("cudaOccupancyMaxPotentialClusterSize", 0, 1024))
for cluster in (1, 2, 8):
    print(asked("cudaOccupancyMaxActiveClusters", cluster, 1024))
print(asked("cudaOccupancyMaxActiveClusters", 0, 1024)[0])
"""


def test_cluster_occupancy() -> None:
    """An H200 holds two blocks of 1,024 threads per SM, and no cluster reaches beyond its GPC."""
    environment = {**os.environ, "WARPWRIGHT_GPU": "h200", "WARPWRIGHT_TIMING": "off"}
    done = run_program(CLUSTERS, environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    active = [(0, 264), (0, 132), (0, 30)]
    assert lines == ["(0, 8)", *map(str, active), "0"]


MANAGED = """
import ctypes, struct
from tests.test_driver_runtime import fatbin
from warpwright.driver import attach
runtime = ctypes.CDLL(str(attach.folder() / "libcudart.so.12"), mode=ctypes.RTLD_GLOBAL)
code = b'''.version 8.0
.target sm_70
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 total = 5;
.visible .entry count() {
    .reg .b64 %a; .reg .b32 %r;
    mov.u64 %a, total;
    ld.global.u32 %r, [%a];
    add.u32 %r, %r, 1;
    st.global.u32 [%a], %r;
    ret;
}
\\0'''
image = ctypes.create_string_buffer(fatbin(code))
wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(image), 0))
register = runtime["__cudaRegisterFatBinary"]
register.restype = ctypes.c_void_p
handle, host = ctypes.c_void_p(register(wrapper)), ctypes.create_string_buffer(8)
pointer = ctypes.c_uint64()
runtime["__cudaRegisterFunction"](handle, host, b"count", b"count", -1, None, None, None, None, None)
runtime["__cudaRegisterManagedVar"](handle, ctypes.byref(pointer), b"total", b"total", 0, ctypes.c_size_t(4), 0, 0)
runtime["__cudaRegisterFatBinaryEnd"](handle)
seen = []
for device in (0, 1, 1, 0):
    assert runtime.cudaSetDevice(device) == 0
    one = ctypes.create_string_buffer(struct.pack("<6IQQQI4x", 1, 1, 1, 1, 1, 1, 0, 0, 0, 0), 56)
    assert runtime.cudaLaunchKernelExC(one, host, None) == 0
    assert runtime.cudaDeviceSynchronize() == 0
    address = ctypes.c_uint64()
    assert runtime.cudaGetSymbolAddress(ctypes.byref(address), ctypes.byref(pointer)) == 0
    seen.append((ctypes.c_uint32.from_address(pointer.value).value, address.value == pointer.value))
print(seen)
"""


def test_a_managed_variable_is_one_on_all_devices() -> None:
    environment = {**os.environ, "WARPWRIGHT_GPU": "a100,h200", "WARPWRIGHT_TIMING": "off"}
    done = run_program(MANAGED, environment)
    assert (done.stdout, done.stderr) == ("[(6, True), (7, True), (8, True), (9, True)]\n", "")


LIBRARIES = (
    RUNTIME_CALLS
    + """
words = ctypes.c_uint64 * 3

# A kernel of a library: found, described, launched with its global variable changed.
library = made("cudaLibraryLoadData", ctypes.c_char_p(VECTOR_ADD.encode()), 0, 0, 0, 0, 0, 0)
count = ctypes.c_uint32()
assert call("cudaLibraryGetKernelCount", ctypes.byref(count), library) == 0 and count.value == 1
kernel = made("cudaLibraryGetKernel", library, ctypes.c_char_p(b"add"))
assert made("cudaLibraryEnumerateKernels", 1, library) == kernel
assert call("cudaLibraryGetKernel", ctypes.byref(ctypes.c_uint64()), library, ctypes.c_char_p(b"sub")) == 500
places = []
for number in range(4):
    offset, size = ctypes.c_uint64(), ctypes.c_uint64()
    code = call("cudaFuncGetParamInfo", kernel, number, ctypes.byref(offset), ctypes.byref(size))
    places.append((code, offset.value, size.value))
assert places == [(0, 0, 8), (0, 8, 8), (0, 16, 4), (1, 0, 0)], places
assert call("cudaKernelSetAttributeForDevice", kernel, 8, 1024, 0) == 0
a, b = made("cudaMalloc", 40), made("cudaMalloc", 40)
for place, values in ((a, range(10)), (b, range(0, 100, 10))):
    assert call("cudaMemcpy", place, (ctypes.c_uint32 * 10)(*values), 40, 1) == 0
scale, size = ctypes.c_uint64(), ctypes.c_uint64()
assert call("cudaLibraryGetGlobal", ctypes.byref(scale), ctypes.byref(size), library, ctypes.c_char_p(b"scale")) == 0
assert size.value == 4 and call("cudaMemcpy", scale.value, (ctypes.c_uint32 * 1)(2), 4, 1) == 0
given = [ctypes.c_uint64(a), ctypes.c_uint64(b), ctypes.c_uint32(10)]
configuration = ctypes.create_string_buffer(struct.pack("<6IQQQI4x", 1, 1, 1, 32, 1, 1, 0, 0, 0, 0), 56)
assert call("cudaLaunchKernelExC", configuration, kernel, words(*(ctypes.addressof(one) for one in given))) == 0
found = (ctypes.c_uint32 * 10)()
assert call("cudaMemcpy", found, a, 40, 2) == 0
assert list(found) == [21 * n for n in range(10)], list(found)
assert call("cudaLibraryUnload", library) == 0

# Out of an array of 8 by 4 words into another, displaced; a block of it to the other device's memory by both kinds of 3D copies.
channel = (ctypes.c_int * 5)(32, 0, 0, 0, 1)
first, second = (made("cudaMallocArray", channel, 8, 4, 0) for _ in range(2))
stream = made("cudaStreamCreate")
values = (ctypes.c_uint32 * 32)(*range(32))
assert call("cudaMemcpyToArrayAsync", first, 0, 0, values, 128, 1, stream) == 0
assert call("cudaMemcpy2DArrayToArray", second, 8, 1, first, 0, 0, 16, 3, 3) == 0
back = (ctypes.c_uint32 * 32)(*[99] * 32)
assert call("cudaMemcpy2DFromArrayAsync", back, 32, second, 0, 0, 32, 4, 2, stream) == 0
assert list(back) == [8 * (row - 1) + column - 2 if row and 2 <= column < 6 else 0 for row in range(4) for column in range(8)]
assert call("cudaMemcpyArrayToArray", second, 0, 0, first, 0, 0, 128, 3) == 0
assert call("cudaMemcpyFromArrayAsync", back, second, 0, 0, 128, 2, stream) == 0 and list(back) == list(range(32))
assert call("cudaSetDevice", 1) == 0
there = made("cudaMalloc", 64)
peer = struct.pack("<Q3Q4Qi4xQ3Q4Qi4x3Q", first, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, there, 16, 16, 2, 1, 4, 2, 1)
assert call("cudaMemcpy3DPeer", ctypes.create_string_buffer(peer, len(peer))) == 0
assert call("cudaMemcpy", back, there, 32, 2) == 0
assert list(back[:8]) == [10, 11, 12, 13, 18, 19, 20, 21], list(back[:8])
print("right")
"""
)


@pytest.mark.parametrize("version", ["12", "13"])
def test_libraries_and_copies_of_arrays(version: str) -> None:
    environment = {**os.environ, "WARPWRIGHT_GPU": "a100,h200", "WARPWRIGHT_TIMING": "off"}
    done = run_program(LIBRARIES, environment, version)
    assert (done.stdout, done.returncode) == ("right\n", 0), done.stderr
