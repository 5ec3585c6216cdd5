"""Operations that a card refuses or carries out otherwise than was meant: counts of barriers, mbarriers, scopes, rows, constants, strings."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import MemoryFaultError
from warpwright.isa import mbarrier as mb

SOURCE = r"""
#include <cuda/ptx>
namespace ptx = cuda::ptx;
#define KERNEL extern "C" __global__ void
KERNEL counts(int *out, int first, int second) {
    out[threadIdx.x] = 1;
    if (threadIdx.x < 32)
        asm volatile("barrier.sync 1, %0;" ::"r"(first) : "memory");  // counts
    else
        asm volatile("barrier.sync 1, %0;" ::"r"(second) : "memory");  // other_count
    out[threadIdx.x] += 1;
}
KERNEL block_scope(int *count) {
    atomicAdd_block(count, 1);  // block_scope
}
KERNEL own_block_scope(int *count) {
    atomicAdd_block(count + blockIdx.x, 1);
    atomicAdd(count + 32, 1);
}
KERNEL mixed_scope(int *count) {
    if (blockIdx.x == 0) atomicAdd_block(count, 1);
    else
        atomicAdd(count, 1);  // mixed_scope
}
__constant__ int table[16];
KERNEL constants(int *out, int step) {
    out[threadIdx.x] = table[step * (threadIdx.x & 15)];  // constants
}
KERNEL says(const char *const *texts) {
    printf("%s\n", texts[threadIdx.x]);  // says
}
#if __CUDA_ARCH__ >= 750
KERNEL matrix(unsigned *out, int skew) {
    __shared__ alignas(16) unsigned s[64];
    s[threadIdx.x] = s[threadIdx.x + 32] = threadIdx.x;
    __syncwarp();
    unsigned at = (unsigned)__cvta_generic_to_shared(s) + (threadIdx.x & 7) * 16 + (threadIdx.x == 3 ? skew : 0), v;
    if (threadIdx.x > 7) at = 7;  // lanes that name no row
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(at) : "memory");  // matrix
    out[threadIdx.x] = v;
}
#endif
#if __CUDA_ARCH__ >= 900
KERNEL arrivals(int *out, int expected, int each) {
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) ptx::mbarrier_init(&bar, expected);
    __syncthreads();
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, each);  // arrivals
    while (!ptx::mbarrier_try_wait_parity(&bar, 0)) {}
    out[threadIdx.x] = 1;
}
KERNEL no_init(int *out) {
    __shared__ uint64_t bar;
    ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar);  // no_init
    out[threadIdx.x] = 1;
}
KERNEL phases(int *out, int n) {
    __shared__ uint64_t bar[2];
    if (threadIdx.x == 0) for (int b = 0; b < 2; b++) ptx::mbarrier_init(&bar[b], blockDim.x);
    __syncthreads();
    for (int k = 0; k < n; k++) {
        ptx::mbarrier_arrive(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar[k & 1]);
        while (!ptx::mbarrier_try_wait_parity(&bar[k & 1], k >> 1 & 1)) {}
        out[threadIdx.x] += k;
    }
}
#endif
"""


def line(mark: str) -> str:
    return f"misuse.cu:{SOURCE[: SOURCE.index('// ' + mark)].count(chr(10)) + 1}:"


def checked(chip: str, checks: str = "all") -> tuple[ww.GPU, ww.Module]:
    gpu = ww.GPU(chip, check=checks)
    return gpu, gpu.compile(SOURCE, name="misuse.cu")


def zeros(count: int = 64) -> np.ndarray:
    return np.zeros(count, np.int32)


CHIPS = pytest.mark.parametrize("chip", ["p100", "a100", "h200"])


@CHIPS
def test_counts_of_a_barrier(chip: str) -> None:
    gpu, module = checked(chip, "synccheck")
    module["counts"][1, 64](zeros(), 64, 64)
    assert not gpu.findings
    module["counts"][1, 96](zeros(96), 64, 96)
    assert [f.title for f in gpu.findings] == ["Barrier error detected. Invalid arguments."]
    assert "every thread that comes to a barrier must name the same" in gpu.findings[0].details[0]
    assert gpu.findings[0].places[0].line.startswith(line("counts"))
    assert line("other_count") in gpu.findings[0].details[0]
    gpu.findings.clear()
    module["counts"][1, 64](zeros(), 48, 48)
    assert {f.places[0].line.split(" ")[0] for f in gpu.findings} == {line("counts"), line("other_count")}
    assert all("48 threads: the number of threads must be a multiple of 32" in f.details[0] for f in gpu.findings)


@pytest.mark.parametrize(("chip", "timing"), [("h200", "full"), ("h200", "off"), ("p100", "off")])
def test_counts_of_a_barrier_that_a_card_refuses_are_named_without_the_checks_too(
    chip: str, timing: str, capfd: pytest.CaptureFixture[str]
) -> None:
    gpu = ww.GPU(chip, timing=timing)
    kernel = gpu.compile(SOURCE, name="misuse.cu")["counts"]
    kernel[1, 64](zeros(), 64, 64)
    assert "barrier of" not in capfd.readouterr().err
    kernel[1, 64](zeros(), 48, 48)
    kernel[1, 64](zeros(), 48, 48)
    told = capfd.readouterr().err
    assert told.count("warpwright: kernel counts has a barrier of 48 threads at") == 1
    assert "the number of threads must be a multiple of 32; a card refuses it as an illegal instruction" in told
    if timing == "full":
        gpu.report_miscount.kernels.clear()
        kernel[1, 96](zeros(96), 64, 96)
        assert "earlier threads specified another number" in capfd.readouterr().err


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])  # machine code of sm_60 has one scope for all atomics
def test_block_scope_across_blocks(chip: str) -> None:
    gpu, module = checked(chip, "racecheck")
    module["own_block_scope"][4, 64](zeros())
    module["block_scope"][1, 64](zeros())
    assert not gpu.findings
    for name in ("block_scope", "mixed_scope"):
        module[name][4, 64](zeros())
        assert gpu.findings, name
        assert all(f.severity == "error" and f.places[1].line.startswith(line(name)) for f in gpu.findings)
        assert "an access of block scope" in gpu.findings[0].details[1]
        gpu.findings.clear()


@CHIPS
def test_an_index_behind_constant_memory(chip: str) -> None:
    gpu, module = checked(chip)
    module["constants"][1, 32](zeros(), 1)
    assert not gpu.findings
    out = zeros(32)
    module["constants"][1, 32](out, 1000)
    (finding,) = gpu.findings
    assert (finding.check, finding.title) == ("memcheck", "Invalid __constant__ read of size 4 bytes")
    assert finding.places[0].line.startswith(line("constants"))
    assert finding.places[0].thread == (1, 0, 0)
    assert finding.count == 30  # all but two of 32


@CHIPS
def test_a_null_string_for_printf(chip: str, capfd: pytest.CaptureFixture[str]) -> None:
    gpu, module = checked(chip, "memcheck")
    text = gpu.array(np.frombuffer(b"text\0", np.uint8))
    module["says"][1, 1](np.array([text.__cuda_array_interface__["data"][0]], np.uint64))
    assert not gpu.findings
    module["says"][1, 1](np.array([0], np.uint64))
    (finding,) = gpu.findings
    assert finding.title == "Invalid pointer to a string of device-side printf"
    assert finding.places[0].line.startswith(line("says"))
    assert capfd.readouterr().out == "text\n(null)\n"


@pytest.mark.parametrize("options", [{}, {"engine": "interpreter"}, {"check": "all"}])
@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_rows_of_a_matrix_begin_at_multiples_of_16_bytes(chip: str, options: dict[str, str]) -> None:
    gpu = ww.GPU(chip, timing="off", **options)
    module = gpu.compile(SOURCE, name="misuse.cu")
    out = np.zeros(32, np.uint32)
    module["matrix"][1, 32](out, 0)
    assert out.tolist() == list(range(32))
    with pytest.raises(MemoryFaultError) as caught:
        module["matrix"][1, 32](out, 4)
    assert caught.value.misaligned
    assert caught.value.bytes == 16
    assert line("matrix") in str(caught.value)
    assert caught.value.thread == (3, 0, 0)


def test_mbarriers_are_initialised_and_get_as_many_arrivals_as_they_wait_for() -> None:
    gpu, module = checked("h200", "synccheck")
    module["arrivals"][1, 32](zeros(), 64, 2)
    module["phases"][2, 64](zeros(), 9)
    assert not gpu.findings
    module["arrivals"][1, 24](zeros(), 32, 2)
    (finding,) = gpu.findings
    assert finding.places[0].line.startswith(line("arrivals"))
    assert finding.details == ("more arrivals at once than the phase still waits for: some count for the next one",)
    gpu.findings.clear()
    module["no_init"][1, 32](zeros())
    (finding,) = gpu.findings
    assert finding.places[0].line.startswith(line("no_init"))
    assert "nothing has initialised the mbarrier" in finding.details[0]


@pytest.mark.parametrize(
    ("count", "arrivals", "passes"),
    [(4, (4,), False), (4, (3,), False), (4, (3, 1), False), (4, (5,), True), (4, (3, 2), True)],
)
def test_arrivals_that_pass_over_a_phase(count: int, arrivals: tuple[int, ...], passes: bool) -> None:
    left = (1 << mb.COUNT_BITS) - count
    word = left << mb.PENDING_AT | left << mb.EXPECTED_AT
    for many in arrivals:
        before = word
        for _ in range(many):
            word = mb.changed(word, 1)
    assert mb.passed_over(before, word) == passes
