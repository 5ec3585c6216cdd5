"""Compiled code against the references of the corpus, the interpreter, and the errors that it must stop with."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.kernels import Case, cases, names
from tests.kernels import case as corpus_case
from warpwright.engine.abi import LAUNCH, FaultKind, Status
from warpwright.engine.arguments import pack
from warpwright.engine.constant_bank0 import constant_bank0
from warpwright.engine.geometry import Geometry
from warpwright.engine.interpreter import Environment, Kernel, Launch, run_grid
from warpwright.engine.interpreter.gather_scatter import global_memory
from warpwright.engine.jit.codegen import compile_kernel
from warpwright.engine.jit.shape_inference import CodeForm
from warpwright.engine.jit.workspace import Outcome, Workspace
from warpwright.engine.launch import LaunchContext, make_context
from warpwright.isa.sass.lower import lower

CHIPS = {70: "v100", 80: "a100", 90: "h200"}
SAMPLE = (
    *("stream_triad", "narrow_widths", "matmul_tiled", "scan_block_exclusive", "sort_bitonic", "warp_shuffles"),
    *("histogram_shared", "atomics_float", "atomics_half", "lock_lanes", "lock_blocks", "barrier_votes"),
    *("barrier_named", "volatile_handoff", "half_arithmetic", "integer_divide_wide", "switch_table"),
    *("nested_divergence", "recursion_quicksort", "call_pointers", "local_permutation", "wmma_half"),
)
"""Cases that together reach every part of the compiler; the rest of the corpus runs in the slow test."""


class Prepared:
    """A kernel with its launch structure, to run in either engine on the same memory."""

    def __init__(
        self, gpu: Any, module: Any, name: str, grid: Any, block: Any, arguments: list[Any], shared: int = 0
    ) -> None:
        kernel = module[name]
        launcher = kernel[grid, block, shared]
        self.gpu = gpu
        self.program = kernel._loaded.program
        self.lowered = lower(self.program)
        self.geometry: Geometry = launcher.geometry
        self.packed = pack(kernel.parameters, name, arguments, gpu.memory)
        constants = kernel._loaded_module.constants
        self.bank0 = constant_bank0(
            self.program, self.geometry, self.packed.parameters, constants.address if constants is not None else 0
        )
        self.banks = kernel._loaded.banks
        self.context: LaunchContext = make_context(
            self.program, self.geometry, gpu.memory, self.bank0, self.banks, gpu.chip.sm.sm_count
        )

    def compiled(self, resident: int = 16, **options: Any) -> Outcome:
        kernel = compile_kernel(self.program, self.lowered, self.geometry.block, trace=False, **options)
        shared = self.program.shared_static_bytes + self.geometry.dynamic_shared_bytes
        room = Workspace(kernel, shared, self.context["local_bytes_per_thread"], resident)
        return room.run(self.context.address, 0, self.geometry.blocks)

    def interpreted(self) -> Any:
        launch = Launch(
            Kernel(self.program, self.lowered),
            self.geometry,
            global_memory(self.gpu.memory),
            {**self.banks, 0: self.bank0},
            Environment(self.gpu.chip.sm.sm_count),
        )
        return run_grid(launch, 16)


def prepare(source: str, name: str, grid: Any, block: Any, *arguments: Any, chip: str = "a100") -> Prepared:
    gpu = ww.GPU(chip, timing="off")
    return Prepared(gpu, gpu.compile(source), name, grid, block, list(arguments))


def run_case(case: Case, chip: str) -> None:
    gpu = ww.GPU(chip, timing="off")
    module = gpu.compile(case.source, options=case.options)
    for name, value in case.device_globals.items():
        module.symbol(name).set(value)
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in case.args]
    module[case.kernel][case.grid, case.block, case.shared_bytes](*arguments)
    case.verify({n: a for n, a in enumerate(arguments) if isinstance(a, np.ndarray)})


@pytest.mark.parametrize("arch", [pytest.param(70, marks=pytest.mark.ci), pytest.param(80, marks=pytest.mark.slow), 90])
@pytest.mark.parametrize("name", [n for n in SAMPLE if n in names()])
def test_corpus_sample(name: str, arch: int) -> None:
    case = corpus_case(name, "small")
    if case.min_arch > arch:
        pytest.skip(f"needs sm_{case.min_arch}")
    run_case(case, CHIPS[arch])


@pytest.mark.slow
@pytest.mark.parametrize("arch", sorted(CHIPS))
def test_whole_corpus(arch: int) -> None:
    wrong = []
    for case in cases("small"):
        if case.min_arch <= arch:
            try:
                run_case(case, CHIPS[arch])
            except AssertionError as error:
                wrong.append(f"{case.name}: {str(error)[:200]}")
    assert not wrong, "\n".join(wrong)


TORTURE = """
extern "C" __global__ void torture(int *out, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], total = 0;
    for (int a = 0; a < (v & 7) + 2; ++a) {
        if ((a ^ v) & 1) continue;
        for (int b = 0; b < 9; ++b) {
            if (b == ((v >> 3) & 7)) break;
            if (((a + b + v) & 3) == 0) { total += a * b; continue; }
            switch ((v + b) % 5) {
            case 0: total += 1; break;
            case 1: total ^= v << (b & 31);  // falls through
            case 2: total -= b; break;
            case 3: if (v & 16) goto done; total += 7; break;
            default: total = total * 3 + a;
            }
        }
    }
done:
    if (v & 32) { out[i] = total; return; }
    unsigned active = __activemask();
    out[i] = total + (__popc(active) > 0) + (v % (i % 7 + 1)) + v / ((v & 15) + 1);
}
"""


@pytest.mark.ci
@pytest.mark.parametrize(
    "chip", [pytest.param("v100", marks=pytest.mark.ci), pytest.param("a100", marks=pytest.mark.slow), "h200"]
)
@pytest.mark.parametrize("patterns", [True, False])
def test_divergence(chip: str, patterns: bool) -> None:
    """Nested loops with break, continue, switch, goto and early return give what the interpreter gives."""
    source = np.random.default_rng(3).integers(-1000, 1000, 160).astype(np.int32)
    results = []
    for engine in ("compiled", "interpreted"):
        out = np.zeros(160, np.int32)
        p = prepare(TORTURE, "torture", 2, 80, out, source, 160, chip=chip)
        outcome = p.compiled(form=CodeForm(patterns=patterns)) if engine == "compiled" else p.interpreted()
        assert outcome.status is Status.EXIT
        p.packed.copy_back()
        results.append(out)
    np.testing.assert_array_equal(results[0], results[1])


TWO_ENDS = """
extern "C" __global__ void two_ends(float *y, const float *a, const float *x, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * 64;
    float sum = 0.0f;
    for (int k = first; k < first + 64 && k < rows; ++k) sum += a[k * columns + column] * x[k];
    atomicAdd(&y[column], sum);
}
"""


@pytest.mark.parametrize("chip", CHIPS.values())
def test_a_branch_of_two_conditions_that_are_one_for_all_lanes(chip: str) -> None:
    """``@!P0 BRA P1``: both uniform, so that no lanes part there and nothing is made for groups."""
    a, x = np.ones((100, 64), np.float32), np.arange(100, dtype=np.float32)
    for engine in ("compiled", "interpreted"):
        y = np.zeros(64, np.float32)
        p = prepare(TWO_ENDS, "two_ends", (1, 2), 64, y, a, x, 100, 64, chip=chip)
        outcome = p.compiled() if engine == "compiled" else p.interpreted()
        assert outcome.status is Status.EXIT
        p.packed.copy_back()
        np.testing.assert_array_equal(y, x.sum())


SPIN = """
extern "C" __global__ void same_warp(int *lock, int *count) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) { *(volatile int *)count += 1; __threadfence(); atomicExch(lock, 0); done = true; }
    }
}
extern "C" __global__ void other_block(int *flag, int *out) {
    if (blockIdx.x == 0) { while (*(volatile int *)flag == 0); out[threadIdx.x] = 5; }
    else if (threadIdx.x == 0) { __threadfence(); *(volatile int *)flag = 1; }
}
extern "C" __global__ void last_warp(int *flag, int *out) {
    if (threadIdx.x < 32) return;
    if (blockIdx.x == 0) { while (*(volatile int *)flag == 0); out[threadIdx.x - 32] = 5; }
    else if (threadIdx.x == 32) { __threadfence(); *(volatile int *)flag = 1; }
}
"""


def test_lock_within_a_warp() -> None:
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int32)
    p = prepare(SPIN, "same_warp", 3, 96, lock, count)
    assert p.compiled().status is Status.EXIT
    p.packed.copy_back()
    assert count[0] == 3 * 96


@pytest.mark.parametrize(("kernel", "threads"), [("other_block", 64), ("last_warp", 96)])
def test_block_waits_for_a_later_block(kernel: str, threads: int) -> None:
    flag, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    p = prepare(SPIN, kernel, 8, threads, flag, out)
    assert p.compiled().status is Status.EXIT
    p.packed.copy_back()
    assert (out == 5).all()


FAULTS = """
extern "C" __global__ void at(char *base, long long offset, int lane, int *out) {
    if (threadIdx.x == lane) out[0] = *(volatile int *)(base + offset);
}
extern "C" __global__ void put(int *base, int n) { base[n + threadIdx.x] = 1; }
extern "C" __global__ void shared_at(int *out, int n) {
    extern __shared__ int s[];
    s[threadIdx.x] = 1; __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + n];
}
extern "C" __global__ void stuck(int *out) {
    if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
    else asm volatile("bar.sync 2, 64;");
    out[0] = 1;
}
extern "C" __global__ void endless(int *out) { for (;;) { asm volatile(""); } }
extern "C" __global__ void trap(int *out) { if (threadIdx.x == 5) asm volatile("trap;"); out[threadIdx.x] = 1; }
"""


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        (0, None),
        (1020, None),
        (1024, FaultKind.OUT_OF_BOUNDS),
        (-4, FaultKind.OUT_OF_BOUNDS),
        (2, FaultKind.MISALIGNED),
    ],
)
def test_one_lane_at_fault(offset: int, kind: FaultKind | None) -> None:
    p = prepare(FAULTS, "at", 1, 32, np.zeros(1024, np.int8), offset, 17, np.zeros(1, np.int32))
    outcome = p.compiled()
    if kind is None:
        assert outcome.status is Status.EXIT
        return
    assert outcome.status is Status.FAULT
    assert outcome.stopped is not None
    assert (outcome.stopped["fault_kind"], outcome.stopped["fault_lanes"]) == (kind, 1 << 17)


def test_a_faulting_store_writes_nothing() -> None:
    data = np.zeros(100, np.int32)
    p = prepare(FAULTS, "put", 1, 32, data, 69)
    outcome = p.compiled()
    assert outcome.status is Status.FAULT
    assert outcome.stopped is not None
    assert outcome.stopped["fault_lanes"] == 1 << 31
    p.packed.copy_back()
    assert not data.any()
    p = prepare(FAULTS, "put", 1, 32, data, 68)
    assert p.compiled().status is Status.EXIT


def test_shared_memory_is_checked() -> None:
    gpu = ww.GPU("a100", timing="off")
    module = gpu.compile(FAULTS)
    for n, status in ((0, Status.EXIT), (1, Status.FAULT)):
        p = Prepared(gpu, module, "shared_at", 1, 64, [np.zeros(64, np.int32), n], 256)
        outcome = p.compiled()
        assert outcome.status is status
    assert outcome.stopped is not None
    assert outcome.stopped["fault_kind"] == FaultKind.SHARED_OUT_OF_BOUNDS
    assert outcome.stopped["fault_lanes"] == 1 << 31


def test_warps_that_wait_for_each_other_are_a_deadlock() -> None:
    outcome = prepare(FAULTS, "stuck", 1, 64, np.zeros(1, np.int32)).compiled()
    assert outcome.status is Status.DEADLOCK
    assert [(w.state, w["barrier_id"]) for w in outcome.warps] == [("barrier", 1), ("barrier", 2)]


def test_a_trap_stops_the_launch() -> None:
    outcome = prepare(FAULTS, "trap", 1, 32, np.zeros(32, np.int32)).compiled()
    assert outcome.status is Status.TRAP
    assert outcome.stopped is not None
    assert outcome.stopped["fault_lanes"] == 1 << 5


def test_an_endless_kernel_can_be_cancelled() -> None:
    p = prepare(FAULTS, "endless", 1, 32, np.zeros(1, np.int32))

    def cancel() -> None:
        time.sleep(0.2)
        p.context.words[LAUNCH.slot("cancel")] = 1

    helper = threading.Thread(target=cancel)
    helper.start()
    outcome = p.compiled()
    helper.join()
    assert outcome.cancelled


def test_object_code_comes_from_the_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from warpwright.engine.jit import codegen as jit
    from warpwright.toolchain.cache import DiskCache

    p = prepare(SPIN, "same_warp", 1, 32, np.zeros(1, np.int32), np.zeros(1, np.int32))
    store = DiskCache(tmp_path)
    monkeypatch.setattr(jit, "object_cache", lambda: store)
    monkeypatch.setattr(jit, "_memory", {})
    first = compile_kernel(p.program, p.lowered, (32, 1, 1), trace=False)
    monkeypatch.setattr(jit, "_memory", {})
    second = compile_kernel(p.program, p.lowered, (32, 1, 1), trace=False)
    assert first.ir
    assert not second.ir
    assert (first.spill_bytes, first.site_bytes) == (second.spill_bytes, second.site_bytes)
