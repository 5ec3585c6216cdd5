"""Several devices: each its own chip, memory, streams and clock; peers, pools, managed memory and libraries among them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.machine.visible_devices import names_of
from tests.driver_library import ENVIRONMENT
from tests.forked_programs import run_program
from warpwright.chips.mig import MigError
from warpwright.driver.visible_devices import VISIBLE, NamedTwiceError, mig_device, visible_cards
from warpwright.system.mig import card_uuid

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

HEAD = f"""
import ctypes, sys
sys.path.insert(0, {os.fspath(Path(__file__).parents[1])!r})
from tests.driver_library import VECTOR_ADD, Driver
from warpwright.driver import attach
attach.preload()
cuda = Driver()
cuda("cuInit", 0)
N = 100
devices = range(cuda.word("cuDeviceGetCount", kind=ctypes.c_int32))
contexts = [cuda.word("cuDevicePrimaryCtxRetain", d) for d in devices]

def on(i):
    cuda("cuCtxSetCurrent", contexts[i])

def filled(value):
    place = cuda.word("cuMemAlloc_v2", 4 * N)
    cuda("cuMemsetD32_v2", place, value, N)
    return place

def contents(place):
    back = (ctypes.c_uint32 * N)()
    cuda("cuMemcpyDtoH_v2", back, place, 4 * N)
    assert len(set(back)) == 1, list(back)
    return back[0]

def kernel():
    module = cuda.word("cuModuleLoadData", VECTOR_ADD.encode())
    return cuda.word("cuModuleGetFunction", module, b"add")

def add(function, a, b, stream=0, expect=0):
    cuda.launch(function, 1, 128, ctypes.c_uint64(a), ctypes.c_uint64(b), ctypes.c_uint32(N), stream=stream, expect=expect)
"""


def finished(program: str, chips: str = "a100,h200", **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **ENVIRONMENT, "WARPWRIGHT_GPU": chips, **more}
    return run_program(HEAD + program, environment)


def right(program: str, chips: str = "a100,h200", **more: str) -> str:
    done = finished(program, chips, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_device_has_its_own_chip_name_bus_and_memory() -> None:
    said = right("""
assert len(devices) == 2
assert [cuda.word("cuDeviceGet", i, kind=ctypes.c_int32) for i in devices] == [0, 1]
for d in devices:
    name = (ctypes.c_char * 100)()
    cuda("cuDeviceGetName", name, 100, d)
    bus = (ctypes.c_char * 20)()
    cuda("cuDeviceGetPCIBusId", bus, 20, d)
    again = cuda.word("cuDeviceGetByPCIBusId", bus.value, kind=ctypes.c_int32)
    uuid = (ctypes.c_char * 16)()
    cuda("cuDeviceGetUuid", uuid, d)
    sms = cuda.word("cuDeviceGetAttribute", 16, d, kind=ctypes.c_int32)
    print(name.value.decode(), bus.value.decode(), again, uuid.raw.hex() != bytes(16).hex(), sms, sep="|")
assert cuda.raw("cuDeviceGet", ctypes.byref(ctypes.c_int32()), 2) == 101
on(0)
first = cuda.word("cuMemAlloc_v2", 4 << 30)
free = [cuda.word("cuMemGetInfo_v2", ctypes.byref(ctypes.c_uint64()))]
on(1)
total = ctypes.c_uint64()
assert cuda.word("cuMemGetInfo_v2", ctypes.byref(total)) == total.value  # nothing of the first device's
assert cuda.word("cuCtxGetDevice", kind=ctypes.c_int32) == 1
""")
    lines = [line.split("|") for line in said.split("\n")[:2]]
    assert (
        lines[0] == ["NVIDIA A100-SXM4-80GB (simulated)", "0000:01:00.0", "0", "True", "108"] or "A100" in lines[0][0]
    )
    assert "H200" in lines[1][0]
    assert lines[1][1:] == ["0000:02:00.0", "1", "True", "132"]


def test_kernels_reach_a_peers_memory_when_it_was_enabled_and_not_before() -> None:
    right("""
on(1)
there, early = filled(7), kernel()
on(0)
here, function = filled(1), kernel()
assert cuda.word("cuDeviceCanAccessPeer", 0, 1, kind=ctypes.c_int32) == 1
assert cuda.word("cuDeviceCanAccessPeer", 1, 1, kind=ctypes.c_int32) == 0
assert cuda.raw("cuCtxDisablePeerAccess", contexts[1]) == 705
assert cuda.raw("cuCtxEnablePeerAccess", contexts[0], 0) == 217
cuda("cuCtxEnablePeerAccess", contexts[1], 0)
assert cuda.raw("cuCtxEnablePeerAccess", contexts[1], 0) == 704
add(function, here, there)
assert contents(here) == 1 + 3 * 7
add(function, there, here)      # and writes
assert contents(there) == 7 + 3 * 22
on(1)
later = filled(5)               # what is allocated afterwards is open as well
on(0)
add(function, here, later)
assert contents(here) == 22 + 15
cuda("cuMemFree_v2", later)     # by an address alone, whichever device is current
assert cuda.raw("cuMemFree_v2", later) == 1
""")


@pytest.mark.ci
def test_a_peers_memory_is_out_of_bounds_without_access() -> None:
    for prepare in (
        "",
        'on(0); cuda("cuCtxEnablePeerAccess", contexts[1], 0); cuda("cuCtxDisablePeerAccess", contexts[1])',
    ):
        done = finished(f"""
on(1)
there = filled(7)
{prepare}
on(0)
here, function = filled(1), kernel()
add(function, here, there)
print(cuda.raw("cuCtxSynchronize"))
on(1)
print(cuda.raw("cuCtxSynchronize"), contents(there))
""")
        assert done.stdout.split() == ["700", "0", "7"], done.stdout + done.stderr
        assert "the address is one of device 1's memory, to which this device has no access" in done.stderr


def test_copies_between_devices_need_no_access() -> None:
    right("""
on(0)
here = filled(3)
on(1)
there = filled(4)
cuda("cuMemcpyPeer", there, contexts[1], here, contexts[0], 4 * N)
assert contents(there) == 3
cuda("cuMemsetD32_v2", here, 9, N)      # of the other device
cuda("cuMemcpyDtoD_v2", there, here, 4 * N)
assert contents(there) == 9
ordinal = ctypes.c_int32()
for place, owner in ((here, 0), (there, 1)):
    cuda("cuPointerGetAttribute", ctypes.byref(ordinal), 9, place)
    assert ordinal.value == owner
""")


def test_host_and_managed_memory_is_every_devices() -> None:
    right("""
on(0)
here = filled(1)
managed = cuda.word("cuMemAllocManaged", 4 * N, 1)
pinned = cuda.word("cuMemAllocHost_v2", 4 * N)
own = (ctypes.c_uint32 * N)(*[2] * N)
cuda("cuMemHostRegister_v2", ctypes.addressof(own), 4 * N, 0)
for place in (managed, pinned):
    ctypes.memmove(place, own, 4 * N)
for i in range(2):
    on(i)
    function = kernel()
    add(function, managed, pinned)
    add(function, managed, ctypes.addressof(own))
assert (ctypes.c_uint32 * N).from_address(managed)[5] == 2 + 4 * 6
cuda("cuMemHostUnregister", ctypes.addressof(own))
cuda("cuMemFree_v2", managed)
cuda("cuMemFreeHost", pinned)
on(0)
function = kernel()
add(function, here, managed)
assert cuda.raw("cuCtxSynchronize") == 700
""")


def test_streams_and_kernels_are_of_one_device() -> None:
    right("""
on(1)
stream, foreign = cuda.word("cuStreamCreate", 0), kernel()
event = cuda.word("cuEventCreate", 0)
number = ctypes.c_int32()
cuda("cuStreamGetDevice", stream, ctypes.byref(number))
assert number.value == 1
on(0)
here, function = filled(1), kernel()
add(function, here, here, stream=stream, expect=400)
add(foreign, here, here, expect=400)
assert cuda.raw("cuEventRecord", event, 0) == 400
own = cuda.word("cuEventCreate", 0)
cuda("cuEventRecord", own, 0)
cuda("cuStreamWaitEvent", stream, own, 0)   # the one thing that goes across
add(function, here, here)
assert contents(here) == 4
""")


def test_a_librarys_kernel_runs_on_the_current_device() -> None:
    right("""
cuda("cuCtxSetCurrent", 0)
library = cuda.word("cuLibraryLoadData", VECTOR_ADD.encode(), 0, 0, 0, 0, 0, 0)
kernel = cuda.word("cuLibraryGetKernel", library, b"add")
places = []
for i in range(2):
    on(i)
    place, size = cuda.word("cuLibraryGetGlobal", ctypes.byref(ctypes.c_uint64()), library, b"scale"), 4
    cuda("cuMemsetD32_v2", place, 10 + i, 1)
    places.append(place)
    one = filled(1)
    add(kernel, one, one)
    assert contents(one) == 1 + 10 + i
    versions = cuda.word("cuKernelGetAttribute", 6, kernel, i, kind=ctypes.c_int32)
    assert versions == (80, 90)[i]
assert places[0] != places[1]
cuda("cuLibraryUnload", library)
""")


def test_pools_belong_to_a_device_and_may_be_opened_to_others() -> None:
    right("""
on(0)
function, here = kernel(), filled(1)
pool = cuda.word("cuDeviceGetDefaultMemPool", 1)
assert pool != cuda.word("cuDeviceGetDefaultMemPool", 0)
place = cuda.word("cuMemAllocFromPoolAsync", 4 * N, pool, 0)
cuda("cuMemsetD32_v2", place, 6, N)
location = (ctypes.c_int32 * 3)(1, 0, 3)        # device 0, reading and writing
flags = ctypes.c_int32()
cuda("cuMemPoolGetAccess", ctypes.byref(flags), pool, location)
assert flags.value == 0
cuda("cuMemPoolSetAccess", pool, location, 1)
cuda("cuMemPoolGetAccess", ctypes.byref(flags), pool, location)
assert flags.value == 3
add(function, here, place)
assert contents(here) == 19
later = cuda.word("cuMemAllocFromPoolAsync", 4 * N, pool, 0)
cuda("cuMemsetD32_v2", later, 1, N)
add(function, here, later)
assert contents(here) == 22
location[2] = 0
cuda("cuMemPoolSetAccess", pool, location, 1)
add(function, here, place)
assert cuda.raw("cuCtxSynchronize") == 700
""")


def test_physical_memory_is_mapped_for_the_devices_that_are_named() -> None:
    right("""
on(0)
function, here = kernel(), filled(1)
unit = 2 << 20
properties = (ctypes.c_int32 * 8)(1, 0, 1, 1)     # pinned, on device 1
handle = cuda.word("cuMemCreate", unit, properties, 0)
at = cuda.word("cuMemAddressReserve", unit, 0, 0, 0)
cuda("cuMemMap", at, unit, 0, handle, 0)
both = (ctypes.c_int32 * 6)(1, 1, 3, 1, 0, 3)
cuda("cuMemSetAccess", at, unit, both, 2)
cuda("cuMemsetD32_v2", at, 4, N)
add(function, here, at)
assert contents(here) == 13
on(1)
function = kernel()
add(function, at, at)
assert contents(at) == 16
both[2] = 0
cuda("cuMemSetAccess", at, unit, both, 1)
add(function, at, at)
assert cuda.raw("cuCtxSynchronize") == 700
""")


def test_events_of_two_devices_have_no_time_between_them() -> None:
    """CUDA C++ Programming Guide, "Stream and Event Behavior"."""
    right(
        """
events = []
for i in range(2):
    on(i)
    events.append(cuda.word("cuEventCreate", 0))
    cuda("cuEventRecord", events[i], 0)
    cuda("cuEventSynchronize", events[i])
took = ctypes.c_float()
assert cuda.raw("cuEventElapsedTime", ctypes.byref(took), *events) == 400
""",
        "a100,a100",
        WARPWRIGHT_TIMING="full",
    )


def test_devices_work_at_the_same_simulated_time() -> None:
    said = right(
        """
ends = []
for i in range(2):
    on(i)
    start, end = cuda.word("cuEventCreate", 0), cuda.word("cuEventCreate", 0)
    one, function = filled(1), kernel()
    add(function, one, one)  # later launches find its lines in L2
    cuda("cuEventRecord", start, 0)
    for _ in range(1 + 2 * i):
        add(function, one, one)
    cuda("cuEventRecord", end, 0)
    took = ctypes.c_float()
    cuda("cuEventElapsedTime", ctypes.byref(took), start, end)
    ends.append(took.value)
print(*ends)
""",
        "a100,a100",
        WARPWRIGHT_TIMING="full",
    )
    first, second = map(float, said.split())
    event = 1.28e-3  # the second of a pair
    assert second - event == pytest.approx(
        3 * (first - event), rel=0.05
    )  # and not four times, as it would be on one device


def test_runtime_calls_go_to_the_device_of_the_thread() -> None:
    said = right("""
import threading
runtime = ctypes.CDLL("libcudart.so.12")
runtime.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
count, device = ctypes.c_int(), ctypes.c_int()
assert runtime.cudaGetDeviceCount(ctypes.byref(count)) == 0 and count.value == 2
cuda("cuCtxSetCurrent", 0)
assert runtime.cudaSetDevice(2) == 101
assert runtime.cudaSetDevice(1) == 0
place = ctypes.c_uint64()
assert runtime.cudaMalloc(ctypes.byref(place), 400) == 0
attributes = (ctypes.c_int32 * 6)()
assert runtime.cudaPointerGetAttributes(attributes, place) == 0
assert list(attributes[:2]) == [2, 1]
def another():
    assert runtime.cudaGetDevice(ctypes.byref(device)) == 0
    print("thread", device.value)
thread = threading.Thread(target=another)
thread.start(); thread.join()
can = ctypes.c_int()
assert runtime.cudaDeviceCanAccessPeer(ctypes.byref(can), 1, 0) == 0 and can.value == 1
assert runtime.cudaDeviceEnablePeerAccess(0, 0) == 0
assert runtime.cudaDeviceEnablePeerAccess(0, 0) == 704
assert runtime.cudaDeviceReset() == 0
assert runtime.cudaGetDevice(ctypes.byref(device)) == 0
print("after", device.value)
assert runtime.cudaDeviceEnablePeerAccess(0, 0) == 0    # the reset took it back
""")
    assert said.split() == ["thread", "0", "after", "1"]


def test_nvml_tells_of_every_device() -> None:
    right(
        """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
count, index = ctypes.c_uint(), ctypes.c_uint()
nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
assert count.value == 2
names = set()
for i in range(2):
    handle = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle)) == 0
    assert nvml.nvmlDeviceGetIndex(handle, ctypes.byref(index)) == 0 and index.value == i
    text = (ctypes.c_char * 96)()
    assert nvml.nvmlDeviceGetUUID(handle, text, 96) == 0
    again = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByUUID(text.value, ctypes.byref(again)) == 0 and again.value == handle.value
    names.add(text.value)
    for form, words in (("", 4), ("_v2", 6), ("_v3", 6)):
        room, infos = ctypes.c_uint(0), (ctypes.c_uint * 6)(*[7] * 6)
        call = nvml["nvmlDeviceGetComputeRunningProcesses" + form]
        assert call(handle, ctypes.byref(room), None) == 7 and room.value == 1
        assert call(handle, ctypes.byref(room), infos) == 0
        assert infos[0] == __import__("os").getpid() and list(infos[4:]) == ([7, 7] if words == 4 else [0xFFFFFFFF] * 2)
assert len(names) == 2
assert nvml.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(handle)) == 2
""",
        "a100,a100",
    )


SEEN = f"""
import ctypes, sys
sys.path.insert(0, {os.fspath(Path(__file__).parents[1])!r})
from tests.driver_library import Driver
from warpwright.driver import attach
attach.preload()
cuda = Driver()
nvml, cards = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(cards)) == 0
runtime, count = ctypes.CDLL("libcudart.so.12"), ctypes.c_int()
code = cuda.raw("cuInit", 0)
assert runtime.cudaGetDeviceCount(ctypes.byref(count)) == code
print(cards.value, "code", code, end=":")
buses = []
for n in range(0 if code else cuda.word("cuDeviceGetCount", kind=ctypes.c_int32)):
    assert cuda.word("cuDeviceGet", n, kind=ctypes.c_int32) == n and count.value > n
    text, handle, index = (ctypes.c_char * 32)(), ctypes.c_void_p(), ctypes.c_uint()
    cuda("cuDeviceGetPCIBusId", text, 32, n)
    assert cuda.word("cuDeviceGetByPCIBusId", text, kind=ctypes.c_int32) == n
    assert nvml.nvmlDeviceGetHandleByPciBusId_v2(text, ctypes.byref(handle)) == 0
    assert nvml.nvmlDeviceGetIndex(handle, ctypes.byref(index)) == 0
    card, device = (ctypes.c_char * 96)(), (ctypes.c_char * 16)()
    assert nvml.nvmlDeviceGetUUID(handle, card, 96) == 0
    cuda("cuDeviceGetUuid", device, n)
    assert bytes(device).hex() == card.value.decode().removeprefix("GPU-").replace("-", "")
    print("", index.value, end="")
print()
"""


def seen(visible: str | None, program: str = "", **more: str) -> str:
    """What NVML and CUDA count, and the card of each CUDA device."""
    environment = {**os.environ, **ENVIRONMENT, "WARPWRIGHT_GPU": "a100,a100,a100,a100", **more}
    environment |= {"CUDA_VISIBLE_DEVICES": visible} if visible is not None else {}
    done = run_program(SEEN + program, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip() + ("; " + done.stderr.strip() if "code 100" in done.stdout else "")


@pytest.mark.ci
def test_a_process_sees_the_devices_that_it_names_in_their_order() -> None:
    uuids = [card_uuid("a100", n) for n in range(4)]
    for visible, indices in {
        None: "0 1 2 3",
        "2,3": "2 3",
        "3, 1": "3 1",
        "1,7,0": "1",
        "0,-1,2": "0",
        "2gpus,1": "2 1",
        f"{uuids[3]},{uuids[0][:10]}": "3 0",
        f"{uuids[3]},GPU-0123456789,{uuids[0]}": "3",
        f"1,{uuids[0]}": "1",
        f"{uuids[1]},0": "1",
    }.items():
        assert seen(visible) == f"4 code 0: {indices}", visible


@pytest.mark.ci
@pytest.mark.parametrize("visible", ["", "-1", "4", "none", "GPU-", "GPU-0123456789", " GPU-0"])
def test_a_process_that_names_no_device_sees_none(visible: str) -> None:
    said = seen(visible)
    assert said.startswith("4 code 100:;"), said
    why = (
        "names a device twice, so the program sees no device"
        if "," in visible
        else "hides every device; the machine has devices 0 to 3"
    )
    assert f"CUDA_VISIBLE_DEVICES={visible} {why}" in said


@pytest.mark.ci
def test_a_process_that_names_a_device_twice_gets_an_error() -> None:
    said = seen("1,1")
    assert said.startswith("4 code 101:"), said


ROWS = json.loads((Path(__file__).parents[1] / "bench/data/h200/visible_devices.json").read_text())["rows"]


def test_values_are_read_as_an_h200s_driver_reads_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every value of ``bench/data/h200/visible_devices.json``: the code that ``cuInit`` returns and the cards that the process sees."""
    monkeypatch.setenv("WARPWRIGHT_MIG", str(tmp_path / "mig.json"))
    names = names_of(card_uuid("h200", 0))
    for value, code, cards in ROWS:
        if value is None:
            monkeypatch.delenv(VISIBLE, raising=False)
        else:
            monkeypatch.setenv(VISIBLE, value.format(**names))
        try:
            places = visible_cards(["h200"])
            assert mig_device(["h200"], places) is None
            found = [0, places]
        except MigError as error:
            found = [101 if isinstance(error, NamedTwiceError) else 100, []]
        assert found == [code, cards], value


@pytest.mark.ci
def test_visible_devices_keep_their_links_and_memory() -> None:
    program = """
for n in range(2):
    cuda("cuCtxSetCurrent", cuda.word("cuDevicePrimaryCtxRetain", n))
    assert cuda.word("cuCtxGetDevice", kind=ctypes.c_int32) == n
    place = cuda.word("cuMemAlloc_v2", 400)
    cuda("cuMemsetD32_v2", place, 7 + n, 100)
    back, owner = (ctypes.c_uint32 * 100)(), ctypes.c_int()
    cuda("cuMemcpyDtoH_v2", back, place, 400)
    cuda("cuPointerGetAttribute", ctypes.byref(owner), 9, ctypes.c_uint64(place))
    assert set(back) == {7 + n} and owner.value == n
print(cuda.word("cuDeviceCanAccessPeer", 0, 1, kind=ctypes.c_int32))
"""
    for visible, reachable in (("5,4", 1), ("5,0", 0)):
        said = seen(visible, program, WARPWRIGHT_SYSTEM="dgx-1", WARPWRIGHT_TIMING="full")
        assert said == f"8 code 0: {visible.replace(',', ' ')}\n{reachable}"


@pytest.mark.ci
@pytest.mark.parametrize(("chips", "said"), [("h200,nonesuch", "nonesuch"), (",".join(["a100"] * 17), "at most 16")])
def test_devices_that_there_cannot_be_are_named(chips: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("")
    command = [sys.executable, "-m", "warpwright", "run", "--gpu", chips, str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr


def test_ecc_errors_reach_programs_and_nvml() -> None:
    """One flip is corrected, two end the kernel and stay with the context; counters and remapped rows are NVML's."""
    said = right(
        """
nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
handle = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0

def errors(kind):
    count = ctypes.c_ulonglong()
    assert nvml.nvmlDeviceGetTotalEccErrors(handle, kind, 0, ctypes.byref(count)) == 0
    return count.value

from warpwright.driver.driver_state import state
on(0)
a, b, function = filled(1), filled(2), kernel()
faults = state().devices[0].gpu.faults
faults.inject("dram", a + 8, [1])
add(function, a, b)
cuda("cuCtxSynchronize")
print(errors(0), errors(1))
faults.inject("dram", a + 8, [1, 2])
add(function, a, b)
assert cuda.raw("cuCtxSynchronize") == 214
print(errors(0), errors(1))
rows = [ctypes.c_uint() for _ in range(4)]
assert nvml.nvmlDeviceGetRemappedRows(handle, *(ctypes.byref(one) for one in rows)) == 0
print(*(one.value for one in rows))
banks = (ctypes.c_uint * 5)()
assert nvml.nvmlDeviceGetRowRemapperHistogram(handle, banks) == 0
print(*banks)
assert nvml.nvmlDeviceGetRetiredPages(handle, 1, ctypes.byref(rows[0]), None) == 3
""",
        "a100",
    )
    assert said.split("\n")[:4] == ["1 0", "1 1", "0 1 1 0", "1279 1 0 0 0"]
