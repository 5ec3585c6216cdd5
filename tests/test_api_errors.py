"""Bad input: every error says what, where and what to do, word for word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww

SOURCE = """\
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void uneven(int *out)
{
    if (threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;");
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

extern "C" __global__ void shifted(char *p, int by)
{
    *(int *)(p + by) = 1;
}

extern "C" __global__ void tile(int *out, int index)
{
    __shared__ int values[64];
    values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = values[index];
}

extern "C" __global__ void stop(int *out)
{
    if (threadIdx.x == 5)
        asm volatile("trap;");
    out[0] = 1;
}

extern "C" __global__ void __launch_bounds__(128) bounded(int *out)
{
    out[threadIdx.x] = 1;
}

__constant__ float coefficients[3];
extern "C" __global__ void uses(float *out)
{
    out[threadIdx.x] = coefficients[threadIdx.x];
}
"""

N = 1024


@pytest.fixture(scope="module")
def gpu() -> ww.GPU:
    return ww.GPU("a100", timing="off")


@pytest.fixture(scope="module")
def module(gpu: ww.GPU) -> ww.Module:
    return gpu.compile(SOURCE, name="demo.cu")


@pytest.fixture
def x() -> Any:
    return np.ones(N, np.float32)


@pytest.fixture
def y() -> Any:
    return np.ones(N, np.float32)


def said(kind: type[BaseException], action: Callable[[], Any]) -> str:
    with pytest.raises(kind) as error:
        action()
    return str(error.value)


# --- chips, modules ---------------------------------------------------------------------------------
def test_unknown_chip() -> None:
    assert said(ww.ChipError, lambda: ww.GPU("a101")) == (
        "no chip is called 'a101'; did you mean 'a100' or 'v100' or 'p100'? known chips: a100, fx5600, g80, g80-ultra, g92, gtx480, h200, hd5870, hd6970, p100, v100"
    )


def test_unknown_scheduler() -> None:
    assert said(ww.UnsupportedError, lambda: ww.GPU("a100", scheduler="fair")) == (
        "scheduler='fair' is not known; use a function or one of "
        "greedy_then_oldest, greedy_then_youngest, loose_round_robin"
    )


def test_unknown_timing() -> None:
    assert said(ww.UnsupportedError, lambda: ww.GPU("a100", timing="quick")) == (
        "timing='quick' is not known; use timing='full', timing='sampled' or timing='off'"
    )


def test_options_as_a_record_and_by_name() -> None:
    given = ww.GpuOptions(engine="interpreter", unified=True)
    gpu = ww.GPU("a100", timing="off", options=given)
    assert gpu.engine == "interpreter"
    assert ww.GPU("a100", timing="off", options=given, engine="tiered").engine == "tiered"
    with pytest.raises(TypeError, match=r"GPU\(\) has no argument 'timming': did you mean timing\?"):
        ww.GPU("a100", timming="off")
    with pytest.raises(TypeError, match=r"GPU\(\) has no argument 'front_ends': did you mean front_end\?"):
        ww.GPU("a100", front_ends="ptx")
    with pytest.raises(TypeError, match=r"GPU\(options=...\) takes a ww.GpuOptions"):
        ww.GPU("a100", options={"engine": "tiered"})


def test_kernel_not_in_module(module: ww.Module) -> None:
    message = said(ww.KernelNotFoundError, lambda: module["saxpi"])
    assert message == (
        "demo.cu has no kernel saxpi; its kernels are: bounded, saxpy, shifted, stop, tile, uneven, uses."
    )
    assert issubclass(ww.KernelNotFoundError, KeyError)


def test_unknown_symbol(module: ww.Module) -> None:
    assert said(ww.KernelNotFoundError, lambda: module.symbol("table")) == (
        "demo.cu has no global variable called 'table'; its variables: coefficients"
    )


def test_source_that_does_not_compile(gpu: ww.GPU) -> None:
    source = 'extern "C" __global__ void f(int *x) {\n  x[0] = y;\n}\n'
    assert said(ww.CompileError, lambda: gpu.compile(source, name="bad.cu")) == (
        "bad.cu does not compile for sm_80:\n"
        'bad.cu:2:10: error: identifier "y" is undefined\n'
        "    2 |   x[0] = y;\n"
        "      |          ^"
    )


def test_cubin_for_another_architecture(gpu: ww.GPU) -> None:
    cubin = ww.GPU("h200", timing="off").compile(SOURCE).cubin
    assert said(ww.ArchitectureError, lambda: gpu.compile(cubin)) == (
        "cubin holds machine code for sm_90; the chip a100 runs sm_80: compile for sm_80 or give PTX."
    )


def test_path_that_is_not_there(gpu: ww.GPU) -> None:
    with pytest.raises(FileNotFoundError) as error:
        gpu.compile("missing.cu")
    assert isinstance(error.value, ww.WarpwrightError)
    assert str(error.value) == f"cannot read missing.cu: there is no such file (the working folder is {Path.cwd()})"


REFUSED: list[tuple[Callable[[ww.GPU], object], str]] = [
    (lambda gpu: gpu.empty((4, -5)), "an array of shape (4, -5): no size may be negative"),
    (
        lambda gpu: gpu.texture(np.ones(4, np.float32)),
        "a texture reads gpu.cuda_array(...) or a device array (gpu.array(values)), not a ndarray",
    ),
    (lambda gpu: ww.GPU("h200", threads=0), "threads=0: must be a positive number of host threads, or None"),
]


@pytest.mark.parametrize(("what", "message"), REFUSED, ids=["shape", "texture", "threads"])
def test_what_makes_no_sense_is_refused(gpu: ww.GPU, what: Callable[[ww.GPU], object], message: str) -> None:
    assert said(ww.WarpwrightError, lambda: what(gpu)) == message


def test_values_of_another_shape(gpu: ww.GPU) -> None:
    array = gpu.zeros(64)
    assert said(ww.ArgumentError, lambda: array.set(np.ones(65))).endswith(
        " takes values of shape (64,), or what broadcasts to it, not (65,)"
    )


def test_metric_that_is_not_there(gpu: ww.GPU) -> None:
    run = gpu.compile(SOURCE)["bounded"][1, 32](np.zeros(32, np.int32))
    with pytest.raises(KeyError) as error:
        run.metrics["smsp__inst_executed"]
    assert str(error.value) == (
        "this run has no metric 'smsp__inst_executed'; nearest: smsp__inst_executed.sum, smsp__thread_inst_executed.sum"
    )
    assert run.metrics.get("smsp__inst_executed") is None


# --- arguments --------------------------------------------------------------------------------------
ARGUMENTS: list[tuple[Callable[[Any, Any], tuple[Any, ...]], str]] = [
    (lambda x, y: (N, 2.0, x), "saxpy takes 4 arguments (int n, float a, const float *x, float *y), not 3"),
    (lambda x, y: (1.5, 2.0, x, y), "argument 1 'n' of saxpy takes int (4 bytes), not the float 1.5"),
    (lambda x, y: (1 << 33, 2.0, x, y), "argument 1 'n' of saxpy takes int (4 bytes): 8589934592 does not fit 32 bits"),
    (
        lambda x, y: (x, 2.0, x, y),
        "argument 1 'n' of saxpy takes int (4 bytes), not an array of float32 with shape (1024,)",
    ),
    (
        lambda x, y: (N, np.float64(2), x, y),
        "argument 2 'a' of saxpy takes float (4 bytes), not a NumPy float64 of 8 bytes",
    ),
    (lambda x, y: (N, "2", x, y), "argument 2 'a' of saxpy takes float (4 bytes), not a str"),
    (lambda x, y: (N, None, x, y), "argument 2 'a' of saxpy takes float (4 bytes), not None"),
    (lambda x, y: (N, b"12", x, y), "argument 2 'a' of saxpy takes float (4 bytes), not bytes of 2 bytes"),
    (lambda x, y: (N, 2.0, 3.0, y), "argument 3 'x' of saxpy takes const float * (8 bytes), not the float 3.0"),
    (
        lambda x, y: (N, 2.0, [1.0], y),
        "argument 3 'x' of saxpy takes const float * (8 bytes), not a list; pass np.array(...)",
    ),
    (
        lambda x, y: (N, 2.0, x.astype(np.float64), y),
        "argument 3 'x' of saxpy is const float *, but the array is float64; pass array.astype(np.float32)",
    ),
    (
        lambda x, y: (N, 2.0, x[::2], y),
        "argument 3 'x' of saxpy: the array is not C-contiguous (shape (512,), strides (8,)); "
        "pass np.ascontiguousarray(array)",
    ),
    (
        lambda x, y: (N, 2.0, x.astype(">f4"), y),
        "argument 3 'x' of saxpy: the array's byte order is not the device's (dtype >f4); "
        "pass array.astype(array.dtype.newbyteorder('='))",
    ),
    (
        lambda x, y: (N, 2.0, x.astype(object), y),
        "argument 3 'x' of saxpy: an array of Python objects has no bytes that a kernel could read",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS, ids=range(len(ARGUMENTS)))
def test_arguments(
    module: ww.Module, x: Any, y: Any, arguments: Callable[[Any, Any], tuple[Any, ...]], message: str
) -> None:
    assert said(ww.ArgumentError, lambda: module["saxpy"][4, 256](*arguments(x, y))) == message
    assert (y == 1).all()


def test_read_only_array(module: ww.Module, x: Any, y: Any) -> None:
    y.flags.writeable = False
    assert said(ww.ArgumentError, lambda: module["saxpy"][4, 256](N, 2.0, x, y)) == (
        "argument 4 'y' of saxpy: the array is read-only and the kernel may write to it; "
        "pass a copy, or declare the parameter const"
    )
    module["saxpy"][4, 256](N, 2.0, y, x)
    assert (x == 3).all(), "a pointer to const takes a read-only array"


def test_arguments_in_another_gpus_memory(module: ww.Module, y: Any) -> None:
    other = ww.GPU("v100")
    advice = "in another GPU's memory; create it with the GPU that runs saxpy, or pass a copy on the host (its get())"
    x = other.array(np.ones(1024, np.float32))
    message = said(ww.ArgumentError, lambda: module["saxpy"][4, 256](1024, 2.0, x, y))
    assert message == f"argument 3 'x' of saxpy: it is {advice}"
    assert x.get().tolist() == [1.0] * 1024


def test_freed_device_array(gpu: ww.GPU, module: ww.Module, y: Any) -> None:
    d = gpu.zeros(N)
    d.free()
    message = "array float32[1024] was used after it was freed; make a new one with gpu.array(...)"
    assert said(ww.FreedArrayError, lambda: module["saxpy"][4, 256](N, 2.0, d, y)) == message
    assert said(ww.FreedArrayError, d.get) == message
    assert said(ww.FreedArrayError, d.free) == "array float32[1024] was freed before"


def test_device_array_of_another_dtype(gpu: ww.GPU, module: ww.Module, y: Any) -> None:
    d = gpu.zeros(N, np.float64)
    assert said(ww.ArgumentError, lambda: module["saxpy"][4, 256](N, 2.0, d, y)) == (
        "argument 3 'x' of saxpy is const float *, but the device array is float64"
    )


def test_symbol_of_another_size(module: ww.Module) -> None:
    symbol = module.symbol("coefficients")
    assert said(ww.ArgumentError, lambda: symbol.set(np.zeros(2))) == (
        "symbol 'coefficients' has 12 bytes, the value 16"
    )
    assert said(ww.ArgumentError, lambda: symbol.set([1, 2, 3])) == (
        "symbol 'coefficients' takes a NumPy array or scalar of 12 bytes, with a dtype, not a list"
    )


def test_more_memory_than_the_chip_has(gpu: ww.GPU) -> None:
    small = ww.GPU("v100", timing="off", dram_kib=1 << 17)
    assert said(ww.OutOfMemoryError, lambda: small.empty(1 << 26)) == (
        "out of device memory: array float32[67108864] needs 256 MiB; 0 bytes of 128 MiB are in use"
    )


# --- launches ---------------------------------------------------------------------------------------
def test_block_of_1025_threads(module: ww.Module) -> None:
    assert said(ww.LaunchError, lambda: module["saxpy"][4, 1025]) == (
        "saxpy: a block of 1,025 threads (1025, 1, 1): a100 runs at most 1,024 threads in a block; "
        "use smaller blocks and more of them"
    )


def test_block_larger_than_its_launch_bounds(module: ww.Module) -> None:
    assert said(ww.LaunchError, lambda: module["bounded"][1, 256]) == (
        "bounded: a block of 256 threads (256, 1, 1): the kernel was compiled for at most 128 "
        "(__launch_bounds__ or .maxntid); use smaller blocks and more of them"
    )


CONFIGURATIONS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda k: k[4, (1, 1, 128)], "saxpy: block.z is 128: a100 allows at most 64"),
    (lambda k: k[(1, 70_000), 32], "saxpy: grid.y is 70,000: a100 allows at most 65,535"),
    (lambda k: k[0, 256], "grid is one to three positive integers, not 0"),
    (lambda k: k[4, "x"], "block is one to three positive integers, not 'x'"),
    (lambda k: k[4, (1, 2, 3, 4)], "block is one to three positive integers, not (1, 2, 3, 4)"),
    (lambda k: k[4], "saxpy[...] takes grid and block, then optionally dynamic shared bytes and a stream, not 1 value"),
    (lambda k: k[4, 32, "many"], "saxpy: dynamic shared memory is a number of bytes, not 'many'"),
    (lambda k: k[4, 32, -1], "saxpy: -1 bytes of dynamic shared memory were asked for"),
    (lambda k: k(N), "give saxpy a grid and a block: saxpy[grid, block](...)"),
    (
        lambda k: k[4, 256, 200_000],
        "saxpy: a block needs 200,000 bytes of shared memory (0 static, 200,000 dynamic): a100 gives a block at most 166,912",
    ),
]


@pytest.mark.parametrize(("configure", "message"), CONFIGURATIONS, ids=range(len(CONFIGURATIONS)))
def test_configurations(module: ww.Module, configure: Callable[[Any], Any], message: str) -> None:
    assert said(ww.LaunchError, lambda: configure(module["saxpy"])) == message


# --- while the kernel runs --------------------------------------------------------------------------
def test_out_of_bounds_names_line_thread_and_allocation(module: ww.Module, x: Any, y: Any) -> None:
    with pytest.raises(ww.MemoryFaultError) as error:
        module["saxpy"][5, 256](2 * N, 2.0, x, y)
    fault = error.value
    begin = fault.address - 4 * N
    assert str(fault) == (
        f"out-of-bounds read of 4 bytes at {fault.address:#x} in kernel saxpy\n"
        "  demo.cu:5: y[i] = a * x[i] + y[i];\n"
        "  instruction LDG.E at 0xa0\n"
        "  block (4, 0, 0), thread (0, 0, 0) and 31 more of its warp\n"
        f"  nearest allocation: argument 3 'x' of saxpy (4,096 bytes at {begin:#x}); the address is directly after its end"
    )
    assert (fault.kernel, fault.bytes, fault.block, fault.thread) == ("saxpy", 4, (4, 0, 0), (0, 0, 0))
    assert fault.line == ("demo.cu", 5)
    assert (y == 1).all(), "host arrays keep their values"
    module["saxpy"][4, 256](N, 2.0, x, y)
    assert (y == 3).all(), "and the GPU goes on"


def test_null_pointer(module: ww.Module, y: Any) -> None:
    assert said(ww.MemoryFaultError, lambda: module["saxpy"][1, 32](N, 2.0, None, y)) == (
        "out-of-bounds read of 4 bytes at 0x0 in kernel saxpy\n"
        "  demo.cu:5: y[i] = a * x[i] + y[i];\n"
        "  instruction LDG.E at 0xa0\n"
        "  block (0, 0, 0), thread (0, 0, 0) and 31 more of its warp\n"
        "  the address is a null pointer or next to one"
    )


def test_use_after_free(gpu: ww.GPU, module: ww.Module, y: Any) -> None:
    d = gpu.array(y, name="weights")
    address = d.device_address()
    far = gpu.zeros(8)
    d.free()
    message = said(ww.MemoryFaultError, lambda: module["saxpy"][1, 32](N, 2.0, address + 2048, far))
    assert message.endswith("\n  the address is in array 'weights', which was freed")


def test_misaligned(module: ww.Module) -> None:
    data = np.zeros(64, np.int8)
    with pytest.raises(ww.MemoryFaultError) as error:
        module["shifted"][1, 1](data, 2)
    assert str(error.value) == (
        f"misaligned write of 4 bytes at {error.value.address:#x} in kernel shifted\n"
        "  demo.cu:19: *(int *)(p + by) = 1;\n"
        "  instruction STG.E at 0x90\n"
        "  block (0, 0, 0), thread (0, 0, 0)\n"
        "  an access of 4 bytes needs an address that is a multiple of 4; this is byte 2 of argument 1 'p' of shifted"
    )


def test_shared_out_of_bounds(module: ww.Module) -> None:
    out = np.zeros(64, np.int32)
    message = said(ww.MemoryFaultError, lambda: module["tile"][1, 64](out, 100_000))
    lines = message.splitlines()
    assert lines[0] == "out-of-bounds read of 4 bytes at byte 400,000 of shared memory in kernel tile"
    assert lines[1] == "  demo.cu:27: out[threadIdx.x] = values[index];"
    assert lines[-1] == "  the block has 256 bytes of shared memory (0 dynamic)"


def test_trap(module: ww.Module) -> None:
    lines = said(ww.TrapError, lambda: module["stop"][1, 32](np.zeros(1, np.int32))).splitlines()
    assert lines[0] == "kernel stop stopped itself (trap or failed assertion)"
    assert lines[1] == '  demo.cu:33: asm volatile("trap;");'
    assert lines[-1] == "  block (0, 0, 0), thread (5, 0, 0)"


def test_a_barrier_of_some_threads_says_how_many_wait() -> None:
    source = (
        'extern "C" __global__ void some(int *x) { if (threadIdx.x < 64) asm volatile("bar.sync 1, 96;"); x[0] = 1; }'
    )
    kernel = ww.GPU("a100", timing="off").compile(source)["some"]
    text = said(ww.DeadlockError, lambda: kernel[1, 128](np.zeros(1, np.int32)))
    assert text.endswith(
        "\n  barrier 1 is complete when 96 threads have arrived (bar.sync, bar.arrive), and 64 wait there"
    )


@pytest.mark.ci
@pytest.mark.parametrize(
    ("chip", "how"), [("a100", {"timing": "off"}), ("a100", {"timing": "full"}), ("a100", {"check": "all"})]
)
def test_threads_that_arrive_without_waiting_count_at_a_barrier(chip: str, how: dict[str, str]) -> None:
    source = """extern "C" __global__ void some(int *x) {
    if (threadIdx.x < 32) asm volatile("bar.arrive 1, 128;");
    else if (threadIdx.x < 96) asm volatile("bar.sync 1, 128;");
    else __syncthreads();
    x[0] = 1;
}"""
    kernel = ww.GPU(chip, **how).compile(source)["some"]
    text = said(ww.DeadlockError, lambda: kernel[1, 128](np.zeros(1, np.int32)))
    assert text.endswith(
        "\n  barrier 0 is complete when every thread of the block has arrived; "
        "barrier 1 is complete when 128 threads have arrived (bar.sync, bar.arrive), and 96 have, of which 64 wait there"
    )


@pytest.mark.parametrize("how", [{"timing": "off"}, {"timing": "full"}, {"timing": "off", "check": "all"}])
def test_a_deadlock_of_lanes_is_not_explained_by_a_block_barrier(how: dict[str, str]) -> None:
    source = """#include <cooperative_groups.h>
extern "C" __global__ void half_tile(int *x) {
    auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
    if (tile.thread_rank() < 4) tile.sync();
    x[threadIdx.x] = tile.shfl(threadIdx.x, 1);
}"""
    kernel = ww.GPU("a100", **how).compile(source)["half_tile"]
    text = said(ww.DeadlockError, lambda: kernel[1, 32](np.zeros(32, np.int32)))
    assert text.splitlines()[-1] == (
        "  all lanes that a *_sync operation or a group's sync() or shuffle names must reach that operation; "
        "is one inside a condition that leaves some out?"
    )


def test_deadlock_says_who_waits_for_what(module: ww.Module) -> None:
    assert said(ww.DeadlockError, lambda: module["uneven"][1, 128](np.zeros(128, np.int32))) == (
        "deadlock in kernel uneven, block (0, 0, 0): no warp can go on\n"
        '  warp 0: waits at barrier 1 of 64 threads at demo.cu:11: asm volatile("bar.sync 1, 64;");\n'
        "  warps 1-3: wait at barrier 0 at demo.cu:13: __syncthreads();\n"
        "  barrier 0 is complete when every thread of the block has arrived; "
        "barrier 1 is complete when 64 threads have arrived (bar.sync, bar.arrive), and 32 wait there"
    )
