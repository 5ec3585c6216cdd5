"""GTX 480 (Fermi, compute capability 2.0): PTX timed by a scoreboard, what the chip lacks, and its rules of time from both sides."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from tests.g80_kernels import TEXT
from tests.kernels import case, names
from warpwright.errors import LaunchError, UnsupportedError
from warpwright.isa.ptx.requirements import needed
from warpwright.isa.schedule import SCOREBOARD_NOTE
from warpwright.run import Run

ONE_SM = {"sm_count": 1, "gpc_sm_counts": [1], "gpc_l2_partitions": [0]}
MULTIPLY_ADD = "fma.rn.f32 %f0, %f0, %f0, %f0;"


def launch(body: str, trips: int, warps: int) -> Run:
    """One block of so many warps on one SM; trips of a loop."""
    text = TEXT.replace("SETUP", "mov.u32 %r3, 0;").replace("BODY", body).replace("LAST", "")
    gpu = ww.GPU("gtx480", timing="full", threads=1, **ONE_SM)
    return gpu.compile(text)["k"][1, 32 * warps](np.zeros(4096, np.uint32), trips)


def each(one: str, warps: int, count: int = 8) -> float:
    """Cycles in which every warp executes a repeated piece of a loop once."""
    trips = [(launch(one * n, 24, warps).cycles - launch(one * n, 8, warps).cycles) / 16 for n in (2 * count, count)]
    return (trips[0] - trips[1]) / count


# --- schedulers and pipes -------------------------------------------------------------------------
@pytest.mark.ci
@pytest.mark.parametrize(("warps", "cycles"), [(1, 18), (17, 18), (18, 18), (20, 20), (32, 32)])
def test_eighteen_warps_fill_two_schedulers_that_issue_every_second_cycle(warps: int, cycles: float) -> None:
    """Volkov 2010: 18 cycles, 576 threads; 24 slots of a scheduler are two groups."""
    assert each(MULTIPLY_ADD, warps) == pytest.approx(cycles, rel=0.01)


RATES = {
    "add.s32 %r3, %r3, %r2;": 32,
    "lop3.b32 %r3, %r3, %r2, %r2, 0x96;": 16,
    "mul.lo.u32 %r3, %r3, %r2;": 16,
    "shl.b32 %r3, %r3, 1;": 16,
    "cvt.rn.f32.u32 %f0, %r3;": 16,
    "rcp.approx.ftz.f32 %f0, %f0;": 4,
}


@pytest.mark.ci
@pytest.mark.parametrize("instruction", RATES)
def test_operations_a_clock_of_an_sm(instruction: str) -> None:
    """CUDA C Programming Guide 3.2, table 5-1; logic of three operands takes two instructions."""
    assert 32 * 32 / each(instruction, 32) == pytest.approx(RATES[instruction], rel=0.06)


@pytest.mark.ci
def test_double_precision_has_an_eighth_of_the_rate() -> None:
    source = (
        'extern "C" __global__ void k(double *x, int n) { double a = threadIdx.x; for (int i = 0; i < n; i++) { a = fma(a, a, a); a = fma(a, a, a);'
        " a = fma(a, a, a); a = fma(a, a, a); } x[threadIdx.x] = a; }"
    )
    kernel = ww.GPU("gtx480", timing="full", threads=1, **ONE_SM).compile(source)["k"]
    few, many = (kernel[1, 1024](np.zeros(1024), n).cycles for n in (16, 48))
    assert 1024 * 4 * 32 / (many - few) == pytest.approx(4, rel=0.05)


# --- memory ---------------------------------------------------------------------------------------
COPY = """
extern "C" __global__ void k(const int *x, int *y, int stride, int offset)
{
    int i = threadIdx.x * stride;
    y[i + offset] = x[i];
}
"""


@pytest.mark.parametrize(("stride", "read", "written"), [(1, 4, 4), (2, 8, 8), (8, 32, 32), (32, 128, 32)])
def test_loads_bring_whole_lines_and_stores_send_segments(stride: int, read: int, written: int) -> None:
    """Guide, G.4.2: L1 fetches lines of 128 bytes; stores are transactions of 32 bytes."""
    run = ww.GPU("gtx480", timing="full", threads=1).compile(COPY)["k"][1, 32](
        np.zeros(4096, np.int32), np.zeros(4096, np.int32), stride, 0
    )
    assert run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == read
    assert run.metrics["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == written


def test_16_kib_of_l1_hold_what_48_of_shared_memory_leave() -> None:
    resident = ww.GPU("gtx480", timing="full").compile(COPY)["k"][1, 32](
        np.zeros(64, np.int32), np.zeros(64, np.int32), 1, 0
    )
    assert (resident.resident.shared_kib, resident.resident.l1_kib) == (48, 16)
    other = ww.GPU("gtx480", timing="full", shared_carveout_kib=[16], shared_max_per_block_kib=16).compile(COPY)["k"]
    run = other[1, 32](np.zeros(64, np.int32), np.zeros(64, np.int32), 1, 0)
    assert (run.resident.shared_kib, run.resident.l1_kib) == (16, 48)


# --- what there is ----------------------------------------------------------------------------------
def test_the_report_says_that_ptx_was_timed(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = ww.GPU("gtx480").compile(COPY)["k"][1, 32](np.zeros(64, np.int32), np.zeros(64, np.int32), 1, 0)
    assert run.schedule_note == SCOREBOARD_NOTE
    page = tmp_path_factory.mktemp("page") / "page.html"
    run.report(page)
    assert SCOREBOARD_NOTE in page.read_text(encoding="utf-8")


def test_what_the_chip_lacks_is_refused_by_name() -> None:
    source = 'extern "C" __global__ void k(int *x) { x[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 1); }'
    with pytest.raises(
        UnsupportedError, match=r"shfl\.sync.*: it needs compute capability 3\.0, and this chip has 2\.0"
    ):
        ww.GPU("gtx480").compile(source)["k"][1, 32](np.zeros(32, np.int32))
    with pytest.raises(UnsupportedError, match="gtx480 runs PTX only, not front_end='sass': omit front_end"):
        ww.GPU("gtx480", front_end="sass")
    with pytest.raises(LaunchError, match=r"grid\.x is 65,536: gtx480 allows at most 65,535"):
        ww.GPU("gtx480").compile(COPY)["k"][65536, 32](np.zeros(64, np.int32), np.zeros(64, np.int32), 1, 0)


def test_textures_are_sampled() -> None:
    """PTX reads them by handles from compute capability 2.0 on."""
    gpu = ww.GPU("gtx480")
    texels = gpu.cuda_array((8, 8))
    texels.set(np.arange(64, dtype=np.float32).reshape(8, 8))
    source = (
        'extern "C" __global__ void k(cudaTextureObject_t t, float *y)'
        " { y[threadIdx.x] = tex2D<float>(t, threadIdx.x % 8 + 0.5f, threadIdx.x / 8 + 0.5f); }"
    )
    out = np.zeros(64, np.float32)
    run = gpu.compile(source)["k"][1, 64](gpu.texture(texels), out)
    assert out.tolist() == list(range(64))
    assert run.cycles > 0
    module = ww.GPU("g80").compile(source)
    with pytest.raises(UnsupportedError, match=r"texture objects need compute capability 2\.0"):
        module["k"]


@pytest.mark.parametrize(
    ("instruction", "capability"),
    [
        *[("shfl.sync.idx.b32", "3.0"), ("atom.global.add.f64", "6.0"), ("atom.global.add.f32", ""), ("vote.sync.any.pred", "")],
        *[("atom.global.min.u64", "3.2"), ("atom.global.add.u64", ""), ("fma.rn.f16x2", "5.3"), ("cvt.f32.f16", "")],
        *[("ld.global.nc.u32", ""), ("ld.acquire.gpu.u32", "7.0"), ("red.global.sys.add.u32", "6.0"), ("lop3.b32", "")],
    ],
)  # fmt: skip
def test_requirements_are_those_of_the_ptx_manual(instruction: str, capability: str) -> None:
    opcode, *modifiers = instruction.split(".")
    assert needed(opcode, modifiers) == capability


@pytest.mark.ci
@pytest.mark.parametrize("name", ["stream_triad", "matmul_tiled", "nested_divergence", "call_noinline", "warp_votes"])
def test_corpus_sample(name: str) -> None:
    found = case(name, "small")
    _, outputs = found.run(ww.GPU("gtx480").compile(found.source, options=found.options))
    found.verify(outputs)


@pytest.mark.slow
@pytest.mark.parametrize("timing", ["off", "full"])
def test_the_whole_corpus_is_right_or_needs_a_later_feature(timing: str) -> None:
    right, refused = 0, {}
    for name in names():
        found = case(name, "small")
        try:
            module = ww.GPU("gtx480", timing=timing).compile(found.source, options=found.options)
            run, outputs = found.run(module)
        except UnsupportedError as error:
            refused[name] = str(error)
        else:
            found.verify(outputs)
            bounds = run.timing.bounds if run.timing else {}
            assert all(run.cycles >= bound - 1e-6 for bound in bounds.values()), name
            right += 1
    assert all("it needs compute capability" in why for why in refused.values()), refused
    assert right >= 95
