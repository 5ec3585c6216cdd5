"""Code for other processors: without AVX-512, without inline assembly, and for machines that are not x86-64."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import warpwright as ww
from tests.kernels import case
from warpwright.engine import kernels
from warpwright.engine.blocks import basic_blocks
from warpwright.engine.jit import shared_code, slow_path
from warpwright.engine.jit.codegen import CodeOptions, TargetChoice, compile_kernel, write_module
from warpwright.engine.jit.host_machine import AVX512, Registers
from warpwright.engine.jit.object_code import make_target, optimise
from warpwright.engine.jit.shape_inference import Setting
from warpwright.engine.jit.wave import wave_of
from warpwright.isa.sass.lower import lower

KERNELS = (
    *("stream_triad", "strided_read", "gather", "scatter", "matmul_tiled", "reduce_sum", "nested_divergence"),
    *("local_permutation", "atomics_global", "atomics_float", "histogram_shared", "half2_axpy", "mma_half"),
    *("warp_shuffles", "recursion_fibonacci", "barrier_named"),
    *(pytest.param(name, marks=pytest.mark.ci) for name in ("double_arithmetic", "float_rounding")),
)
REGISTERS = {"AVX-512": AVX512, "AVX2": Registers(masks=False, words=8), "NEON": Registers(masks=False, words=4)}
FAULTS = """
extern "C" __global__ void copy(int n, const int *x, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i + 1];
}
"""


def run_case(name: str) -> None:
    one = case(name, "small")
    module = ww.GPU("a100", timing="off").compile(one.source, options=one.options)
    for symbol, contents in one.device_globals.items():
        module.symbol(symbol).set(contents)
    args = [a.copy() if isinstance(a, np.ndarray) and a.ndim else a for a in one.args]
    module[one.kernel][one.grid, one.block, one.shared_bytes](*args)
    one.verify({index: a for index, a in enumerate(args) if isinstance(a, np.ndarray) and a.ndim})


def with_target(monkeypatch: pytest.MonkeyPatch, target: TargetChoice) -> None:
    def compiled(*args: Any, **others: Any) -> object:
        return compile_kernel(*args, **others, target=target)

    monkeypatch.setattr(kernels, "compile_kernel", compiled)


@pytest.mark.ci
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("way", ["ordinary calls", *REGISTERS, "x86-64-v3"])
def test_kernels_on_another_machine(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "ordinary calls":
        with_target(monkeypatch, TargetChoice(ordinary_calls=True))
    elif way in REGISTERS:
        with_target(monkeypatch, TargetChoice(registers=REGISTERS[way]))
    elif llvm.get_process_triple().startswith("x86_64"):
        with_target(monkeypatch, TargetChoice(cpu=way))
    run_case(name)


@pytest.mark.parametrize("ordinary", [False, True])
def test_a_load_at_fault_stores_nothing(ordinary: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault is noticed before the store that follows it, in the warp at fault; warps before it have stored."""
    with_target(monkeypatch, TargetChoice(ordinary_calls=ordinary))
    gpu = ww.GPU("h200", timing="off")
    x, y = gpu.array(np.arange(64, dtype=np.int32)), gpu.array(np.full(64, -1, dtype=np.int32))
    with pytest.raises(ww.WarpwrightError, match=r"thread \(63, 0, 0\)"):
        gpu.compile(FAULTS)["copy"][1, 64](64, x, y)
    found = y.get()
    assert np.array_equal(found[:32], 2 * np.arange(32) + 1)
    assert np.array_equal(found[32:], np.full(32, -1))


def test_code_for_avx2_has_no_wider_registers() -> None:
    program = ww.GPU("a100", timing="off").compile(FAULTS)["copy"]._loaded.program
    lowered = lower(program)
    if not llvm.get_process_triple().startswith("x86_64"):
        pytest.skip("compiles for x86-64")
    kernel = compile_kernel(
        program, lowered, (64, 1, 1), trace=False, target=TargetChoice(cpu="x86-64-v3"), use_cache=False
    )
    module = llvm.parse_assembly(kernel.ir)
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(cpu="x86-64-v3", reloc="pic")
    text = machine.emit_assembly(module)
    assert "%ymm" in text
    assert "%zmm" not in text


@pytest.mark.parametrize(
    ("cpu", "name"), [("x86-64-v3", "AVX2"), ("znver3", "AVX2"), ("sapphirerapids", "AVX-512"), ("x86-64-v2", "NEON")]
)
def test_llvm_tells_what_registers_a_machine_has(cpu: str, name: str) -> None:
    if not llvm.get_process_triple().startswith("x86_64"):
        pytest.skip("compiles for x86-64")
    assert make_target(cpu).registers == REGISTERS[name]


def test_masks_as_bits_are_not_spread_over_bytes() -> None:
    """Without mask registers a predicate that outlives its block is an i32, and a store by all lanes has no mask."""
    loaded = ww.GPU("a100", timing="off").compile(FAULTS)["copy"]._loaded
    texts = {}
    for name in REGISTERS:
        texts[name], _ = write_module(
            loaded.program,
            lower(loaded.program),
            basic_blocks(loaded.program, lower(loaded.program)),
            Setting(block_shape=(64, 1, 1)),
            CodeOptions(False, slow_path.ORDINARY, REGISTERS[name]),
            "warp_function",
        )
    for name, text in texts.items():
        has = REGISTERS[name].masks
        assert ("alloca <32 x i1>" in text) == has
        assert bool(re.search(r"bitcast i32 \S+ to <32 x i1>", text)) == has
        assert bool(re.search(r"store <32 x i32> %v\d+, ptr %v\d+, align 4", text)) != has


WHOLE = """
extern "C" __global__ void some(int n, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i;
}
extern "C" __global__ void all(int n, int *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (n > 0) y[i] = i;
}
"""


@pytest.mark.parametrize(("name", "threads", "masked"), [("some", 64, True), ("all", 64, False), ("all", 40, True)])
def test_stores_of_warps_that_never_lose_a_lane_have_no_mask(name: str, threads: int, masked: bool) -> None:
    """Lanes are told apart only in kernels that some leave early, and in blocks that are no multiple of a warp."""
    gpu = ww.GPU("a100", timing="off")
    program = gpu.compile(WHOLE)[name]._loaded.program
    kernel = compile_kernel(program, lower(program), (threads, 1, 1), trace=False, use_cache=False)
    assert ("masked.store" in kernel.ir) == masked
    y = np.zeros(2 * threads, np.int32)
    gpu.compile(WHOLE)[name][2, threads](2 * threads - 7, y)
    count = len(y) - 7 if name == "some" else len(y)
    assert np.array_equal(y, np.where(np.arange(len(y)) < count, np.arange(len(y)), 0))


@pytest.mark.parametrize("name", ["gather", "scatter"])
def test_lanes_are_not_taken_behind_a_branch_each(name: str) -> None:
    if not llvm.get_process_triple().startswith("x86_64"):
        pytest.skip("compiles for x86-64")
    one = case(name, "small")
    program = ww.GPU("a100", timing="off").compile(one.source, options=one.options)[one.kernel]._loaded.program
    kernel = compile_kernel(
        program, lower(program), (32, 1, 1), trace=False, target=TargetChoice(cpu="x86-64-v3"), use_cache=False
    )
    module = llvm.parse_assembly(kernel.ir)
    assembly = make_target("x86-64-v3").machine.emit_assembly(module)
    written = kernel.ir.count("\n  br ")
    assert len(re.findall(r"^\.LBB", assembly, re.MULTILINE)) < written


@pytest.mark.ci
@pytest.mark.parametrize("name", ["nested_divergence", "atomics_global"])
def test_code_for_a_machine_that_is_not_x86(name: str) -> None:
    """Everything that a kernel needs becomes assembly for aarch64."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu="neoverse-n1", reloc="pic")
    one = case(name, "small")
    loaded = ww.GPU("a100", timing="off").compile(one.source, options=one.options)[one.kernel]._loaded
    lowered = lower(loaded.program)
    blocks = basic_blocks(loaded.program, lowered)
    for trace in (False, True):
        text, sizes = write_module(
            loaded.program,
            lowered,
            blocks,
            Setting(block_shape=(32, 2, 1)),
            CodeOptions(trace, slow_path.ORDINARY, REGISTERS["NEON"]),
            "warp_function",
        )
        needed = [n for n in sizes["calls"] if n not in shared_code.SHARED]
        for part in (
            text,
            shared_code.shared_module(wave_of(32), keepers=False),
            *(shared_code.function_module(n, wave_of(32)) for n in (*needed, shared_code.RUN_BLOCKS)),
        ):
            assert " asm " not in part
            module = llvm.parse_assembly(part)
            module.triple, module.data_layout = machine.triple, str(machine.target_data)
            optimise(module, dataclasses.make_dataclass("Machine", ["machine"])(machine), 0)
            assembly = machine.emit_assembly(module)
            assert "\tret" in assembly
