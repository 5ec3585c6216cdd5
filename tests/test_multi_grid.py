"""Cooperative launches on several GPUs: the barrier of all grids, its ranks, and what is refused."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.driver_library import ENVIRONMENT, RUNTIME_CALLS
from tests.forked_programs import run_program
from tests.test_driver_devices import finished, right
from warpwright.engine.multi_grid import parents
from warpwright.toolchain import InputKind, compile_source, link
from warpwright.toolchain.device_runtime import MOST_CHILDREN
from warpwright.toolchain.wheels import nvidia_folders

SOURCE = r"""
typedef unsigned long long Handle;
extern "C" __device__ Handle __cuda_syscall_CGS_get_intrinsic_handle(unsigned scope);
extern "C" __device__ unsigned __cuda_syscall_CGS_get_rank(unsigned *thread, unsigned *grid, Handle handle);
extern "C" __device__ unsigned __cuda_syscall_CGS_get_size(unsigned *threads, unsigned *grids, Handle handle);
extern "C" __device__ unsigned __cuda_syscall_CGS_sync(Handle handle, unsigned flags);

// Every thread of all grids takes the value of the thread before it, in each round: a rotation across the GPUs.
extern "C" __global__ void rotate(int **parts, int rounds, int flags, unsigned *seen) {
    Handle all = __cuda_syscall_CGS_get_intrinsic_handle(2);
    unsigned rank = 99, grid = 99, threads = 99, grids = 99;
    __cuda_syscall_CGS_get_rank(&rank, &grid, all);
    __cuda_syscall_CGS_get_rank(&rank, nullptr, all);
    __cuda_syscall_CGS_get_size(&threads, &grids, all);
    unsigned mine = threads / grids, before = (rank + threads - 1) % threads;
    volatile int *from = parts[before / mine], *to = parts[grid];
    for (int round = 0; round < rounds; round++) {
        int value = from[before % mine];
        if (flags) __syncthreads();
        if (!flags || threadIdx.x == 0) __cuda_syscall_CGS_sync(all, flags);
        if (flags) __syncthreads();
        to[rank % mine] = value;
        __cuda_syscall_CGS_sync(all, 0);
        __cuda_syscall_CGS_sync(__cuda_syscall_CGS_get_intrinsic_handle(1), 0);
    }
    if (threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) {
        seen[0] = rank; seen[1] = grid; seen[2] = threads; seen[3] = grids;
    }
}
// Blocks below `blocks` of the grids below `grids` come.
extern "C" __global__ void some(unsigned blocks, unsigned grids) {
    Handle all = __cuda_syscall_CGS_get_intrinsic_handle(2);
    unsigned grid = 0;
    __cuda_syscall_CGS_get_rank(nullptr, &grid, all);
    if (blockIdx.x < blocks && grid < grids)
        __cuda_syscall_CGS_sync(all, 0);
}
extern "C" __global__ void others(unsigned blocks, unsigned grids) {}
extern "C" __global__ void alone(unsigned long long *handle, unsigned *result) {
    handle[0] = __cuda_syscall_CGS_get_intrinsic_handle(2);
    result[0] = __cuda_syscall_CGS_sync(handle[0], 0);
    Handle grid = __cuda_syscall_CGS_get_intrinsic_handle(1);
    __cuda_syscall_CGS_get_size(&result[1], &result[2], grid);
    __cuda_syscall_CGS_sync(grid, 0);
}
"""


@cache
def cubin(arch: str, source: str = SOURCE) -> bytes:
    object_code = compile_source(source, arch, options=["-rdc=true"]).cubin
    return link([(InputKind.CUBIN, object_code, "grids.cubin")], arch).cubin


MULTI = """
#include <cooperative_groups.h>
extern "C" __global__ void meets(int *x) { cooperative_groups::this_multi_grid().sync(); x[0] = 1; }
extern "C" __global__ void traps(int *x) { asm("trap;"); }
"""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("options", "cooperative"), [((), True), ((), False), (("-rdc=true",), False), (("-rdc=true",), True)]
)
def test_the_trap_of_a_multi_grid_says_what_it_needs(options: tuple[str, ...], cooperative: bool) -> None:
    node = ww.System("dgx-1", timing="off")
    launches = [
        (gpu.compile(MULTI, options=list(options))["meets"][2, 32], (gpu.zeros(1, np.int32),)) for gpu in node.gpus[:2]
    ]
    if options and cooperative:
        assert len(node.launch(*launches, cooperative=True)) == 2
        return
    with pytest.raises(ww.TrapError, match=r"its functions trap unless the launch is cooperative \(cooperative=True"):
        node.launch(*launches, cooperative=cooperative)


PRINTS = """
extern "C" int vprintf(const char *, void *);
extern "C" __global__ void prints() { vprintf("a thread\\n", nullptr); }
"""


def rotated(name: str, arch: str, chosen: list[int], *, rounds: int = 3, blocks: int = 3, **options: Any) -> list[ww.Run]:  # fmt: skip
    """Runs of a rotation across GPUs of a machine, whose values and ranks are checked."""
    flags = options.pop("flags", 0)
    code = cubin(arch, SOURCE + options.pop("beside", ""))
    node = ww.System(name, **options)
    gpus = [node.gpus[i] for i in chosen]
    threads = 64
    n = blocks * threads
    values = np.arange(n * len(gpus), dtype=np.int32)
    parts = [gpu.array(values[i * n : (i + 1) * n]) for i, gpu in enumerate(gpus)]
    for i, mine in enumerate(chosen):
        left = chosen[i - 1]
        if left != mine:
            node.enable_peer_access(mine, left)
    seen = [np.zeros(4, np.uint32) for _ in gpus]
    places = np.array([part.device_address() for part in parts], np.uint64)
    launches = [
        (gpu.compile(code)["rotate"][blocks, threads], (places.copy(), np.int32(rounds), np.int32(flags), one))
        for gpu, one in zip(gpus, seen, strict=True)
    ]
    runs = node.launch(*launches, cooperative=True)
    np.testing.assert_array_equal(np.concatenate([part.numpy() for part in parts]), np.roll(values, rounds))
    for grid, one in enumerate(seen):
        assert list(one) == [(grid + 1) * n - threads, grid, n * len(gpus), len(gpus)]
    return runs


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "arch", "chosen"),
    [
        ("p100x2-pcie", "60", [0, 1]),
        ("p100x2-nvlink", "60", [1, 0]),
        ("dgx-1", "70", [0, 1, 2, 3]),
        ("dgx-1", "70", [0, 1, 2, 3, 7, 6, 5, 4]),
        ("dgx-a100", "80", [3, 5, 7]),
        ("h200x8", "90", [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_the_grids_of_several_gpus_wait_for_each_other(name: str, arch: str, chosen: list[int]) -> None:
    rotated(name, arch, chosen, timing="off")


@pytest.mark.ci
def test_one_thread_of_each_block_may_call_between_its_own_barriers() -> None:
    rotated("p100x2-nvlink", "60", [0, 1], timing="off", flags=1)
    rotated("h200x2", "90", [0, 1], timing="off", flags=1)


@pytest.mark.ci
def test_a_kernel_beside_one_that_prints_runs_on_several_gpus() -> None:
    rotated("h200x2", "90", [0, 1], timing="off", beside=PRINTS)
    gpu = ww.GPU("h200")
    module = gpu.compile(cubin("90", SOURCE + PRINTS))
    assert [module[name]._loaded.program.services for name in ("rotate", "prints")] == [(), ("vprintf",)]


@pytest.mark.ci
def test_a_single_device_is_a_cooperative_launch_too() -> None:
    rotated("h200x2", "90", [1], timing="off")


@pytest.mark.ci
def test_a_barrier_of_two_gpus_takes_two_ways_over_their_link_at_least() -> None:
    """Each round has two barriers of all grids, whose stores go to the first GPU and back."""
    few, many = (rotated("p100x2-nvlink", "60", [0, 1], rounds=rounds) for rounds in (1, 8))
    clock = few[0].sm_clock_mhz
    each_us = (many[0].cycles - few[0].cycles) / 14 / clock
    assert 2 * 0.6 < each_us < 20
    slow = [run.cycles for run in rotated("p100x2-pcie", "60", [0, 1], rounds=8)]
    assert slow[0] > many[0].cycles


def test_the_tree_is_breadth_first_over_peers() -> None:
    node = ww.System("dgx-1", timing="off")
    assert parents(8, node.can_access) == [None, 0, 0, 0, 0, 1, 2, 3]
    assert parents(1, node.can_access) == [None]
    with pytest.raises(ww.UnsupportedError, match="no peer access between 2 and the other devices of the launch"):
        parents(3, lambda first, second: first + second == 1)
    assert len(parents(MOST_CHILDREN, lambda *_: True)) == MOST_CHILDREN


def launch_some(blocks: int, grids: int) -> None:
    node = ww.System("dgx-1", timing="off")
    arguments = np.uint32(blocks), np.uint32(grids)
    node.launch(*[(gpu.compile(cubin("70"))["some"][3, 64], arguments) for gpu in node.gpus[:3]], cooperative=True)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("blocks", "grids", "said"),
    [
        (3, 2, "ended: 2; not ended: 0, 1\n  grid 0: 3 of 3 blocks have arrived after 0 barriers; grid 1: 3 of 3 blocks have arrived after 0 barriers; grid 2: 0 of 3"),
        (2, 3, "grid 0: 2 of 3 blocks have arrived after 0 barriers; grid 1: 2 of 3 blocks"),
    ],
)  # fmt: skip
def test_a_barrier_to_which_blocks_or_grids_do_not_come_is_an_explained_deadlock(
    blocks: int, grids: int, said: str
) -> None:
    """As the paper finds that a part of a grid, or of the grids of several devices, deadlocks."""
    launch_some(3, 3)
    with pytest.raises(ww.DeadlockError) as error:
        launch_some(blocks, grids)
    assert said in str(error.value)


ALL = """#include <cooperative_groups.h>
extern "C" __global__ void leaves(int *x) {
    auto all = cooperative_groups::this_multi_grid();
    if (all.grid_rank() == 1 && blockIdx.x == 2) return;
    all.sync();
    x[blockIdx.x] = 1;
}
"""


@pytest.mark.ci
@pytest.mark.parametrize("system", ["dgx-1", "p100x2-nvlink"])
def test_a_block_that_does_not_come_to_the_barrier_of_several_grids_is_named_with_the_line(system: str) -> None:
    """The barrier's function comes from the driver's library and has no lines."""
    node = ww.System(system, timing="off")
    jobs = [
        (gpu.compile(ALL, options=["-rdc=true"])["leaves"][4, 64], (gpu.zeros(4, np.int32),)) for gpu in node.gpus[:2]
    ]
    with pytest.raises(ww.DeadlockError) as error:
        node.launch(*jobs, cooperative=True)
    text = str(error.value)
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.startswith("ALL =")) + 4
    assert f"warp 1: lanes 0-31 wait at the block barrier {__file__}:{line}: all.sync();" in text
    assert "no source line" not in text
    assert "\n  block (2, 0, 0) has ended\n" in text
    assert "this is GPU 1 of them" in text
    last = text.splitlines()[-1].strip()
    assert last.startswith("every block of every grid must call multi_grid_group::sync() equally often")
    assert "the grid, every block must arrive" not in text


def test_grids_that_are_not_one_cooperative_launch_are_refused() -> None:
    node = ww.System("dgx-1", timing="off")
    kernels = [gpu.compile(cubin("70")) for gpu in node.gpus[:6]]
    arguments = np.uint32(1), np.uint32(1)

    def launch(*launchers: Any) -> None:
        node.launch(*[(launcher, arguments) for launcher in launchers], cooperative=True)

    some = [kernel["some"] for kernel in kernels]
    with pytest.raises(ww.LaunchError, match=r"the grid of device 1 is \(3, 1, 1\) and that of device 0 \(2, 1, 1\)"):
        launch(some[0][2, 64], some[1][3, 64])
    with pytest.raises(ww.LaunchError, match="the block of device 1 is"):
        launch(some[0][2, 64], some[1][2, 32])
    with pytest.raises(ww.LaunchError, match="the dynamic shared memory of device 1 is 256 and that of device 0 0"):
        launch(some[0][2, 64], some[1][2, 64, 256])
    with pytest.raises(ww.LaunchError, match="the kernel of device 1 is others and that of device 0 some"):
        launch(some[0][2, 64], kernels[1]["others"][2, 64])
    other = node.gpus[1].compile(cubin("70", SOURCE.replace("< blocks", "<= blocks")))["some"]
    with pytest.raises(ww.LaunchError, match="the machine code of some on device 1 is not that of device 0"):
        launch(some[0][2, 64], other[2, 64])
    with pytest.raises(ww.LaunchError, match="all of its 1,000,000 blocks must run at once"):
        launch(some[0][1000000, 64], some[1][1000000, 64])
    with pytest.raises(ww.UnsupportedError, match="no peer access between 1 and the other devices"):
        launch(some[0][2, 64], some[5][2, 64])
    assert not [a for gpu in node.gpus for a in gpu.memory if "barrier" in a.name]


@pytest.mark.ci
def test_an_ordinary_launch_has_no_group_of_several_grids() -> None:
    """``this_multi_grid().is_valid()`` is false, and its barrier returns an error."""
    handle, result = np.ones(1, np.uint64), np.zeros(3, np.uint32)
    ww.GPU("v100", timing="off").compile(cubin("70"))["alone"][2, 32](handle, result)
    assert handle[0] == 0
    assert list(result) == [1, 64, 1]


GROUPS = r"""
#include <cooperative_groups.h>
extern "C" __global__ void groups(unsigned *seen) {
    cooperative_groups::multi_grid_group all = cooperative_groups::this_multi_grid();
    for (int round = 0; round < 3; round++)
        all.sync();
    cooperative_groups::this_grid().sync();
    if (all.is_valid() && all.thread_rank() % (all.size() / all.num_grids()) == 0) {
        seen[0] = all.thread_rank(); seen[1] = all.grid_rank(); seen[2] = all.size(); seen[3] = all.num_grids();
    }
}
"""


def with_the_library(code: bytes) -> bytes:
    """The same linked with CUDA 12's libcudadevrt; skips without the wheel that has it."""
    library = next(
        (path for folder in nvidia_folders() for path in folder.glob("cuda_runtime/lib/libcudadevrt.a")), None
    )
    if library is None:
        pytest.skip("the wheel nvidia-cuda-runtime-cu12 with libcudadevrt is not installed")
    inputs = [(InputKind.CUBIN, code, "groups.cubin"), (InputKind.LIBRARY, library.read_bytes(), library.name)]
    return link(inputs, "70").cubin


@pytest.mark.ci
@pytest.mark.parametrize("linked", [True, False], ids=["linked", "unlinked"])
def test_the_groups_of_cuda_12_run_with_its_library_and_without(linked: bool) -> None:
    code = compile_source(GROUPS, "70", options=["-rdc=true"]).cubin
    code = with_the_library(code) if linked else code
    node = ww.System("dgx-1")
    seen = [np.zeros(4, np.uint32) for _ in range(6)]
    runs = node.launch(
        *[(gpu.compile(code)["groups"][2, 32], (one,)) for gpu, one in zip(node.gpus, seen, strict=False)],
        cooperative=True,
    )
    assert [list(one) for one in seen] == [[64 * grid, grid, 384, 6] for grid in range(6)]
    assert all(run.timed for run in runs)


# --- unmodified programs ----------------------------------------------------------------------------
linux = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
PREPARED = """
import struct
streams, functions, parts = [], [], []
for d in devices:
    on(d)
    streams.append(cuda.word("cuStreamCreate", 1))
    module = cuda.word("cuModuleLoadData", open({path!r}, "rb").read())
    functions.append({{name: cuda.word("cuModuleGetFunction", module, name.encode()) for name in ("rotate", "some")}})
    parts.append(cuda.word("cuMemAllocManaged", 4 * 128, 1))
rows = [(ctypes.c_int32 * 128).from_address(part) for part in parts]
for d, row in enumerate(rows):
    row[:] = range(128 * d, 128 * d + 128)
table = cuda.word("cuMemAllocManaged", 64, 1)
(ctypes.c_uint64 * len(parts)).from_address(table)[:] = parts
seen = cuda.word("cuMemAllocManaged", 16, 1)
kept = []

def launch(name="rotate", values=None, flags=0, **changes):
    values = values or [ctypes.c_uint64(table), ctypes.c_int32(2), ctypes.c_int32(0), ctypes.c_uint64(seen)]
    raw = b""
    for d in changes.get("devices", devices):
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        kept.append((pointers, values))
        grid = changes.get("grid", [2] * len(devices))[d]
        stream = changes.get("streams", streams)[d]
        raw += struct.pack("Q7I4xQQ", functions[d][name], grid, 1, 1, 64, 1, 1, 0, stream, ctypes.addressof(pointers))
    place = ctypes.create_string_buffer(raw)
    return cuda.raw("cuLaunchCooperativeKernelMultiDevice", ctypes.addressof(place), len(raw) // 56, flags)
"""


@pytest.fixture(scope="module")
def volta_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("grids") / "grids.cubin"
    path.write_bytes(cubin("70"))
    return os.fspath(path)


@linux
@pytest.mark.ci
def test_a_program_launches_on_several_devices(volta_file: str) -> None:
    right(
        PREPARED.format(path=volta_file)
        + """
assert [cuda.word("cuDeviceGetAttribute", 96, d, kind=ctypes.c_int32) for d in devices] == [1, 1]
assert launch() == 0
for d in devices:
    on(d)
    cuda("cuStreamSynchronize", streams[d])
whole = [value for row in rows for value in row]
assert whole == [(i - 2) % 256 for i in range(256)], whole
assert launch(flags=3) == 0
""",
        "v100,v100",
    )


@pytest.mark.ci
@linux
def test_a_launch_on_several_devices_is_refused_with_the_drivers_codes(volta_file: str) -> None:
    said = finished(
        PREPARED.format(path=volta_file)
        + """
assert launch(grid=[2, 3]) == 1
assert launch(flags=4) == 1
assert launch(devices=[]) == 1
assert launch(streams=[0, 0]) == 400
assert launch(streams=[streams[0], streams[0]]) == 101
assert launch(streams=streams[::-1]) == 400
assert launch(grid=[100000] * 2) == 720
on(0)
cuda("cuStreamBeginCapture_v2", streams[0], 0)
assert launch() == 900
graph = cuda.word("cuGraphCreate", 0)
cuda.raw("cuStreamEndCapture", streams[0], ctypes.byref(ctypes.c_uint64()))
assert cuda.raw("cuLaunchCooperativeKernelMultiDevice", 0, 2, 0) == 1
assert launch() == 0
assert launch("some", [ctypes.c_uint32(2), ctypes.c_uint32(1)]) == 0  # the second grid never comes
for d in devices:
    on(d)
    assert cuda.raw("cuCtxSynchronize") == 702
""",
        "v100,v100",
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "it cannot use a default stream" in said.stderr
    assert "the grid of device 1 is (3, 1, 1) and that of device 0 (2, 1, 1); they must be equal" in said.stderr
    assert "all of its 100,000 blocks must run at once" in said.stderr
    assert "grid 0: 2 of 2 blocks have arrived after 0 barriers; grid 1: 0 of 2 blocks" in said.stderr


@pytest.mark.ci
@linux
def test_devices_without_a_way_between_them_are_not_supported(volta_file: str, tmp_path: Path) -> None:
    machine = tmp_path / "apart.toml"
    machine.write_text(
        'base = "dgx-1"\ngpus = ["v100", "v100"]\n[[cables]]\nlink = "pcie3"\nends = ["gpu0", "cpu0"]\n'
        '[[cables]]\nlink = "pcie3"\nends = ["gpu1", "cpu1"]\n[[cables]]\nlink = "qpi"\nends = ["cpu0", "cpu1"]\n'
    )
    said = finished(PREPARED.format(path=volta_file) + "assert launch() == 801", WARPWRIGHT_SYSTEM=os.fspath(machine))
    assert said.returncode == 0, said.stdout + said.stderr
    assert "the machine offers no peer access between 1 and the other devices of the launch" in said.stderr


@pytest.mark.ci
@linux
def test_a_program_of_the_runtime_launches_on_the_eight_gpus_of_a_machine(volta_file: str) -> None:
    program = (
        RUNTIME_CALLS
        + f"""
code = open({volta_file!r}, "rb").read()
library = made("cudaLibraryLoadData", ctypes.c_char_p(code), 0, 0, 0, 0, 0, 0)
kernel = made("cudaLibraryGetKernel", library, ctypes.c_char_p(b"rotate"))
parts = [made("cudaMallocManaged", 4 * 128, 1) for _ in range(8)]
table, seen = made("cudaMallocManaged", 64, 1), made("cudaMallocManaged", 16, 1)
(ctypes.c_uint64 * 8).from_address(table)[:] = parts
rows = [(ctypes.c_int32 * 128).from_address(part) for part in parts]
for number, row in enumerate(rows):
    row[:] = range(128 * number, 128 * number + 128)
values = [ctypes.c_uint64(table), ctypes.c_int32(3), ctypes.c_int32(0), ctypes.c_uint64(seen)]
pointers = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
raw = b""
for device in range(8):
    call("cudaSetDevice", device)
    raw += struct.pack("Q6IQQQ", kernel, 2, 1, 1, 64, 1, 1, ctypes.addressof(pointers), 0, made("cudaStreamCreate"))
place = ctypes.create_string_buffer(raw)
assert call("cudaLaunchCooperativeKernelMultiDevice", ctypes.addressof(place), 8, 0) == 0
assert call("cudaDeviceSynchronize") == 0
whole = [value for row in rows for value in row]
assert whole == [(i - 3) % 1024 for i in range(1024)], whole
assert call("cudaLaunchCooperativeKernelMultiDevice", ctypes.addressof(place), 9, 0) == 1
"""
    )
    done = run_program(program, {**os.environ, **ENVIRONMENT, "WARPWRIGHT_SYSTEM": "dgx-1"}, "12")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("chip", ["p100", "v100", "h200"])
@pytest.mark.parametrize(("outside", "inside"), [("__shared__ int v[32];", ""), ("", "__shared__ int v[32];")])
def test_shared_variables_of_code_that_is_not_linked_are_refused_with_the_reason(
    chip: str, outside: str, inside: str
) -> None:
    source = f"""{outside} extern "C" __global__ void k(int *x) {{ {inside}
        v[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = v[31 - threadIdx.x]; }}"""
    module = ww.GPU(chip, timing="off").compile(source, options=["-rdc=true"])
    with pytest.raises(ww.ToolchainError, match=r"k uses a variable in shared memory \(.*v.*\).*omit the option"):
        module["k"][1, 32](np.zeros(32, np.int32))


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_code_that_is_not_linked_finds_constants_by_index(chip: str) -> None:
    source = """__constant__ int v[4] = {5, 6, 7, 8}; __constant__ int w[4] = {1, 2, 3, 4};
        extern "C" __global__ void k(int *x) { x[threadIdx.x] = v[x[threadIdx.x]] + 100 * w[x[threadIdx.x]]; }"""
    gpu = ww.GPU(chip, timing="off")
    kept = gpu.zeros(1000)
    x = np.arange(4, dtype=np.int32)
    gpu.compile(source, options=["-rdc=true"])["k"][1, 4](x)
    assert list(x) == [105, 206, 307, 408]
    assert not kept.get().any()
