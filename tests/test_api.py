"""The API: arguments of every kind, device arrays, symbols, launches, interruption."""

from __future__ import annotations

import ctypes
import gc
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from warpwright.engine.arguments import pack
from warpwright.run import Progress
from warpwright.toolchain import CubinError

SOURCE = """\
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

struct Pair { int first; double second; };

extern "C" __global__ void scalars(double *out, signed char a, unsigned short b, long long c, float d, double e, bool f)
{
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f;
}
extern "C" __global__ void take_struct(double *out, Pair p) { out[0] = p.first; out[1] = p.second; }
extern "C" __global__ void shift(int n, const int *from, int *to)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i] + 1;
}
extern "C" __global__ void shape(int *out)
{
    int linear = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + linear] = linear + 1000 * block;
}
extern "C" __global__ void dynamic(int *out)
{
    extern __shared__ int values[];
    values[threadIdx.x] = threadIdx.x * 3;
    __syncthreads();
    out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}
__device__ int counter;
__device__ int squares[4] = {0, 1, 4, 9};
__constant__ float weights[4];
extern "C" __global__ void uses_symbols(float *out)
{
    out[threadIdx.x] = squares[threadIdx.x] * weights[threadIdx.x];
    atomicAdd(&counter, 1);
}
extern "C" __global__ void pointer_to_constant(float *out)
{
    const float *p = threadIdx.x < 2 ? weights : out;
    out[4 + threadIdx.x] = p[threadIdx.x];
}
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__device__ int (*functions[2])(int) = {twice, thrice};
extern "C" __global__ void through_pointer(int *out) { out[threadIdx.x] = functions[threadIdx.x & 1](threadIdx.x); }
extern "C" __global__ void generic(int *out, int where)
{
    __shared__ int shared[32];
    int local[32];
    for (int i = 0; i < 32; ++i) local[i] = 100 + i;
    shared[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int *p = where == 0 ? out : where == 1 ? shared : local;
    out[threadIdx.x] = p[31 - threadIdx.x];
}
extern "C" __global__ void whole_grid(int *out)
{
    cg::grid_group grid = cg::this_grid();
    out[grid.thread_rank()] = 1;
    grid.sync();
    int sum = 0;
    for (int i = 0; i < grid.size(); ++i) sum += ((volatile int *)out)[i];
    grid.sync();
    out[grid.thread_rank()] = sum;
}
extern "C" __global__ void passing(volatile int *flags)
{
    if (threadIdx.x == 0) {
        if (blockIdx.x + 1 < gridDim.x)
            while (flags[blockIdx.x + 1] == 0) { }
        flags[blockIdx.x] = 1;
    }
}
extern "C" __global__ void endless(volatile int *flag) { int n = 0; while (*flag == 0) n++; *flag = n; }
template <typename T> __global__ void typed(T *x) { x[threadIdx.x] += 1; }
template __global__ void typed<float>(float *);
"""

CHIPS = ("v100", "a100", "h200")


# Launches on an A100 pass their arguments as on a V100; an H200 has another layout.
REPEATED = {"v100": pytest.mark.ci, "a100": pytest.mark.slow}


@pytest.fixture(scope="module", params=[pytest.param(chip, marks=REPEATED.get(chip, ())) for chip in CHIPS])
def gpu(request: pytest.FixtureRequest) -> ww.GPU:
    return ww.GPU(request.param, timing="off")


@pytest.fixture(scope="module")
def module(gpu: ww.GPU) -> ww.Module:
    return gpu.compile(SOURCE, name="api.cu")


# --- arguments --------------------------------------------------------------------------------------
def test_python_numbers_take_the_parameters_type(module: ww.Module) -> None:
    out = np.zeros(6)
    module["scalars"][1, 1](out, -3, 65535, -(2**40), 0.1, 0.1, True)
    np.testing.assert_array_equal(out, [-3, 65535, -(2**40), np.float32(0.1), 0.1, 1])


def test_an_int_for_a_float_parameter_becomes_a_float(module: ww.Module) -> None:
    out = np.zeros(6)
    module["scalars"][1, 1](out, 1, 2, 3, 4, 5, False)
    np.testing.assert_array_equal(out, [1, 2, 3, 4, 5, 0])


def test_numpy_scalars(module: ww.Module) -> None:
    out = np.zeros(6)
    arguments = np.int8(-1), np.uint16(7), np.int64(-5), np.float32(2.5), np.float64(3.25), np.bool_(True)
    module["scalars"][1, 1](out, *arguments)
    np.testing.assert_array_equal(out, [-1, 7, -5, 2.5, 3.25, 1])


class Pair(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int), ("second", ctypes.c_double))


RECORD = np.array([(7, 1.5)], dtype=np.dtype([("first", "i4"), ("second", "f8")], align=True))[0]


@pytest.mark.parametrize("value", [Pair(7, 1.5), RECORD, RECORD.tobytes()], ids=["ctypes", "np.void", "bytes"])
def test_structs_by_value(module: ww.Module, value: Any) -> None:
    out = np.zeros(2)
    module["take_struct"][1, 1](out, value)
    np.testing.assert_array_equal(out, [7, 1.5])


@pytest.mark.parametrize("chip", ["v100", "h200"])
@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_parameters_of_32_kib(chip: str, engine: str) -> None:
    source = (
        "struct Big { int v[8000]; };"
        'extern "C" __global__ void last(const __grid_constant__ Big p, int *out, int n)'
        "{ out[threadIdx.x] = p.v[7999] + p.v[n + threadIdx.x] + p.v[4]; }"
    )
    kernel = ww.GPU(chip, timing="off", engine=engine).compile(source)["last"]
    values, out = np.arange(8000, dtype=np.int32), np.zeros(32, np.int32)
    kernel[1, 32](values.tobytes(), out, 7900)
    assert np.array_equal(out, 7999 + values[7900:7932] + 4)


def test_one_array_twice_is_one_array(module: ww.Module) -> None:
    x = np.arange(64, dtype=np.int32)
    module["shift"][2, 32](64, x, x)
    np.testing.assert_array_equal(x, np.arange(64) + 1)


def test_overlapping_arrays_overlap_on_the_device(module: ww.Module) -> None:
    x = np.arange(65, dtype=np.int32)
    module["shift"][1, 1](1, x[5:6], x[4:6])
    assert x[4] == 6
    module["shift"][1, 1](1, x[9:12], x[10:14])
    assert x.tolist()[9:14] == [9, 10, 11, 12, 13]


def test_pointer_to_const_is_not_copied_back(module: ww.Module) -> None:
    x, y = np.zeros(32, np.int32), np.zeros(32, np.int32)
    x.flags.writeable = False
    module["shift"][1, 32](32, x, y)
    assert (y == 1).all()


def test_template_by_its_plain_name(module: ww.Module) -> None:
    x = np.zeros(8, np.float32)
    module["typed"][1, 8](x)
    assert (x == 1).all()


# --- launch shapes ----------------------------------------------------------------------------------
def test_three_dimensions(module: ww.Module) -> None:
    out = np.zeros(2 * 3 * 2 * 4 * 3 * 5, np.int32)
    module["shape"][(2, 3, 2), (4, 3, 5)](out)
    expected = np.arange(60)[None, :] + 1000 * np.arange(12)[:, None]
    np.testing.assert_array_equal(out, expected.ravel())


def test_dynamic_shared_memory(module: ww.Module) -> None:
    out = np.zeros(64, np.int32)
    module["dynamic"][1, 64, 256](out)
    np.testing.assert_array_equal(out, 3 * np.arange(64)[::-1])


def test_static_and_dynamic_shared_memory_are_told(module: ww.Module) -> None:
    assert module["generic"].shared_bytes == 128
    out = np.zeros(32, np.int32)
    run = module["dynamic"][1, 32, 128](out)
    assert (run.shared_bytes, run.dynamic_shared_bytes) == (128, 128)


# --- memory spaces ----------------------------------------------------------------------------------
def test_symbols(module: ww.Module) -> None:
    module.symbol("weights").set(np.array([1, 2, 3, 4], np.float32))
    module.symbol("counter").set(np.int32(0))
    out = np.zeros(4, np.float32)
    module["uses_symbols"][1, 4](out)
    np.testing.assert_array_equal(out, [0, 2, 12, 36])
    assert module.symbol("counter").get(np.int32)[0] == 4
    np.testing.assert_array_equal(module.symbol("squares").get(np.int32), [0, 1, 4, 9])


def test_symbol_keeps_what_was_set_before_the_first_launch(gpu: ww.GPU) -> None:
    fresh = gpu.compile(SOURCE, name="api.cu")
    fresh.symbol("squares").set(np.array([5, 6, 7, 8], np.int32))
    fresh.symbol("weights").set(np.ones(4, np.float32))
    out = np.zeros(4, np.float32)
    fresh["uses_symbols"][1, 4](out)
    np.testing.assert_array_equal(out, [5, 6, 7, 8])


def test_pointer_to_constant_memory(module: ww.Module) -> None:
    module.symbol("weights").set(np.array([1, 2, 3, 4], np.float32))
    out = np.array([9, 9, 8, 7, 0, 0, 0, 0], np.float32)
    module["pointer_to_constant"][1, 4](out)
    np.testing.assert_array_equal(out[4:], [1, 2, 8, 7])


def test_function_pointers_in_global_memory(module: ww.Module) -> None:
    out = np.zeros(6, np.int32)
    module["through_pointer"][1, 6](out)
    np.testing.assert_array_equal(out, [0, 3, 4, 9, 8, 15])


POINTERS = """
__device__ int a = 3, b = 4;
__device__ int* table[2] = {&a, &b};
extern "C" __global__ void swap() { int* first = table[0]; table[0] = table[1]; table[1] = first; }
extern "C" __global__ void use(int* out) { out[0] = *table[0]; out[1] = *table[1]; }
"""


def test_pointers_that_a_kernel_stores_stay_when_another_is_launched(gpu: ww.GPU) -> None:
    module, out = gpu.compile(POINTERS), np.zeros(2, np.int32)
    for expected in ([3, 4], [4, 3], [3, 4]):
        module["use"][1, 1](out)
        assert out.tolist() == expected
        module["swap"][1, 1]()


@pytest.mark.parametrize("where", [0, 1, 2])
def test_generic_pointers(module: ww.Module, where: int) -> None:
    out = np.arange(200, 232).astype(np.int32)
    start = {0: out.copy(), 1: np.arange(32), 2: np.arange(100, 132)}[where]
    module["generic"][1, 32](out, where)
    np.testing.assert_array_equal(out, start[::-1])


# --- blocks that wait for each other ----------------------------------------------------------------
def test_whole_grid_synchronises(module: ww.Module) -> None:
    out = np.zeros(3 * 64, np.int32)
    module["whole_grid"][3, 64](out)
    assert (out == 192).all()


def test_whole_grid_must_fit_the_chip(gpu: ww.GPU, module: ww.Module) -> None:
    kernel = module["whole_grid"]
    at_once = kernel[1, 1024].resident.blocks_per_sm * gpu.chip.sm.sm_count
    with pytest.raises(ww.LaunchError) as error:
        kernel[at_once + 1, 1024](np.zeros(1, np.int32))
    assert str(error.value) == (
        f"whole_grid synchronises its whole grid, so all of its {at_once + 1:,} blocks must run at once: "
        f"{gpu.name} with {gpu.chip.sm.sm_count} SMs holds {at_once:,} of them; use fewer blocks"
    )


def test_a_block_may_wait_for_a_later_one(module: ww.Module) -> None:
    flags = np.zeros(5, np.int32)
    module["passing"][5, 32](flags)
    assert (flags == 1).all()


# --- device arrays ----------------------------------------------------------------------------------
def test_device_arrays_stay(gpu: ww.GPU, module: ww.Module) -> None:
    a = gpu.array(np.arange(64, dtype=np.int32))
    b = gpu.empty(64, np.int32)
    module["shift"][2, 32](64, a, b)
    module["shift"][2, 32](64, b, a)
    np.testing.assert_array_equal(a.get(), np.arange(64) + 2)
    np.testing.assert_array_equal(np.asarray(b), np.arange(64) + 1)


def test_device_array_views_share_memory(gpu: ww.GPU) -> None:
    a = gpu.zeros((3, 4), np.float32)
    a.numpy()[1, 2] = 5
    assert a.get()[1, 2] == 5
    a.set(np.arange(4))
    np.testing.assert_array_equal(np.from_dlpack(a), np.tile(np.arange(4, dtype=np.float32), (3, 1)))
    assert a.__dlpack_device__() == (1, 0)
    assert (a.shape, a.dtype, a.nbytes, a.ndim, len(a)) == ((3, 4), np.dtype(np.float32), 48, 2, 3)


def test_cuda_array_interface_gives_the_device_address(gpu: ww.GPU, module: ww.Module) -> None:
    a = gpu.array(np.arange(32, dtype=np.int32))
    interface = a.__cuda_array_interface__
    assert interface["data"] == (a.device_address(), False)
    assert (interface["shape"], interface["typestr"], interface["version"]) == ((32,), "<i4", 3)

    class Foreign:
        __cuda_array_interface__ = interface

    out = np.zeros(32, np.int32)
    module["shift"][1, 32](32, Foreign(), out)
    np.testing.assert_array_equal(out, np.arange(32) + 1)


def test_views_keep_the_memory(gpu: ww.GPU) -> None:
    view = gpu.array(np.full(1000, 7)).numpy()
    gc.collect()
    others = [gpu.zeros(1000, np.int64) for _ in range(4)]
    assert (view == 7).all()
    assert len(others) == 4


def test_memory_returns_when_the_last_reference_goes(gpu: ww.GPU) -> None:
    gpu.memory.table()
    before = gpu.memory.used_bytes
    made = gpu.zeros(1 << 20)
    assert gpu.memory.used_bytes == before + (4 << 20)
    del made
    gc.collect()
    gpu.memory.table()
    assert gpu.memory.used_bytes == before


def test_launches_leave_no_memory_behind(gpu: ww.GPU, module: ww.Module) -> None:
    gpu.memory.table()
    before = gpu.memory.used_bytes
    module["shift"][2, 32](64, np.zeros(64, np.int32), np.zeros(64, np.int32))
    assert gpu.memory.used_bytes == before


# --- sources ----------------------------------------------------------------------------------------
def test_ptx_cubin_and_paths(gpu: ww.GPU, module: ww.Module, tmp_path: Path) -> None:
    path = tmp_path / "api.cu"
    path.write_text(SOURCE)
    assert module.ptx is not None
    for source in (module.ptx, module.cubin, path, str(path)):
        x, y = np.zeros(8, np.int32), np.zeros(8, np.int32)
        gpu.compile(source)["shift"][1, 8](8, x, y)
        assert (y == 1).all()


def test_scalars_for_a_cubin_alone(gpu: ww.GPU, module: ww.Module) -> None:
    out = np.zeros(6)
    kernel = gpu.compile(module.cubin)["scalars"]
    kernel[1, 1](out, -3, 65535, 12, 0.5, 0.25, True)
    np.testing.assert_array_equal(out, [-3, 65535, 12, 0.5, 0.25, 1])


# --- runs -------------------------------------------------------------------------------------------
def test_run_without_timing(gpu: ww.GPU, module: ww.Module) -> None:
    run = module["shift"][2, 64](128, np.zeros(128, np.int32), np.zeros(128, np.int32))
    assert (run.kernel, run.chip, run.grid, run.block) == ("shift", gpu.name, (2, 1, 1), (64, 1, 1))
    assert not run.timed
    assert run.registers == module["shift"].registers
    assert run.instructions == run.metrics["smsp__inst_executed.sum"] > 0
    assert run.thread_instructions == 32 * run.instructions
    assert 0 < run.occupancy <= 1
    assert gpu.launches[-1] is run
    with pytest.raises(ww.UnsupportedError) as error:
        _ = run.cycles
    assert (
        str(error.value)
        == "this run of shift has no cycles: its GPU was made with timing='off' or with checks: add timing='full' (--timing full)"
    )


def test_overrides_make_another_chip() -> None:
    assert ww.GPU("v100", timing="off", sm_count=40).chip.sm.sm_count == 40


# --- interruption -----------------------------------------------------------------------------------
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_ctrl_c_stops_an_endless_kernel(gpu: ww.GPU, module: ww.Module, interrupted: list[Progress]) -> None:
    flag = np.zeros(1, np.int32)
    kept = gpu.array(np.arange(1000))
    with pytest.raises(KeyboardInterrupt):
        module["endless"][1, 32](flag)
    seen = interrupted
    assert (seen[0].kernel, seen[0].phase, seen[0].blocks) == ("endless", "running", 1)
    assert seen[-1].finished
    np.testing.assert_array_equal(kept.get(), np.arange(1000))
    x, y = np.zeros(64, np.int32), np.zeros(64, np.int32)
    module["shift"][2, 32](64, x, y)
    assert (y == 1).all(), "the GPU is usable again"


def test_device_addresses_follow_the_order_of_arguments(gpu: ww.GPU, module: ww.Module) -> None:
    """Whatever the host addresses: cycles depend on device addresses."""
    parameters = module["shift"].parameters
    low, high = np.zeros(128, np.int32).reshape(2, 64)
    for x, y in ((low, high), (high, low)):
        packed = pack(parameters, "shift", (64, x, y), gpu.memory)
        first, second = np.frombuffer(bytes(packed.parameters[8:24]), np.uint64)
        packed.release()
        assert first < second


TEMPLATES = """
template <typename T, int N> __global__ void fill(T *out, T value) { if (threadIdx.x < N) out[threadIdx.x] = value; }
namespace deep { template <typename T> __global__ void twice(T *x) { x[threadIdx.x] *= 2; } }
extern "C" __global__ void plain(int *x) { x[0] = 7; }
"""


@pytest.mark.ci
@pytest.mark.parametrize("options", [{}, {"front_end": "ptx", "timing": "off"}])
def test_templates_are_launched_by_name_expressions(options: dict[str, Any]) -> None:
    gpu = ww.GPU("h200", **options)
    module = gpu.compile(TEMPLATES, name_expressions=["fill<float, 3>", "fill<short, 5>", "deep::twice<double>"])
    floats, shorts, doubles = np.zeros(8, np.float32), np.zeros(8, np.int16), np.arange(8.0)
    module["fill<float,3>"][1, 8](floats, 2.5)
    module["fill<short, 5>"][1, 8](shorts, -4)
    module["deep::twice<double>"][1, 8](doubles)
    assert floats.tolist() == [2.5] * 3 + [0] * 5
    assert shorts.tolist() == [-4] * 5 + [0] * 3
    assert doubles.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [name in module for name in ("plain", "fill<float, 3>", "fill<int, 3>", 3)] == [True, True, False, False]
    with pytest.raises(ww.KernelNotFoundError, match=r'compile with name_expressions=\["fill<int, 3>"\]\.$'):
        module["fill<int, 3>"]


def test_name_expressions_need_cplusplus() -> None:
    gpu = ww.GPU("h200")
    module = gpu.compile(TEMPLATES)
    for compiled in (module.ptx, module.cubin):
        assert compiled
        with pytest.raises(CubinError, match=r"holds no C\+\+ source, so fill<int, 3> cannot be instantiated"):
            gpu.compile(compiled, name_expressions=["fill<int, 3>"])
