"""The checks find what is there, say it in compute-sanitizer's words, and find nothing in programs without defects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.kernels import Case, cases
from warpwright.tools.checks import Finding, parse, summary

SOURCE = r"""
extern "C" __global__ void shift(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    x[t] = s[(t + 32) & 63];
}
extern "C" __global__ void shift_right(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    x[t] = s[(t + 32) & 63];
}
extern "C" __global__ void swap(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    x[t] = s[t ^ 1];
}
extern "C" __global__ void swap_right(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncwarp();
    x[t] = s[t ^ 1];
}
extern "C" __global__ void copy(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void shared_garbage(int *x) {
    __shared__ int s[64];
    if (threadIdx.x < 32) s[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void shared_garbage_dropped(int *x) {
    __shared__ int s[64];
    if (threadIdx.x < 32) s[threadIdx.x] = 1;
    __syncthreads();
    int read = __shfl_xor_sync(~0u, s[threadIdx.x], 1);
    if (threadIdx.x < 32) x[threadIdx.x] += read;
}
extern "C" __global__ void shared_garbage_prints(int *x) {
    __shared__ int s[64];
    printf("%d\n", s[threadIdx.x]);
    x[threadIdx.x] += 1;
}
extern "C" __global__ void shared_garbage_leads_astray(int *x) {
    __shared__ int s[64];
    if (s[threadIdx.x] & 0xffff0000) x += s[threadIdx.x];
    x[threadIdx.x] = 1;
}
extern "C" __global__ void shared_garbage_counts(int *x) {
    __shared__ unsigned s[64];
    unsigned k = 0;
    while (k < s[threadIdx.x] && *(volatile int *)x >= 0) k++;
    if (k > 1u << 31) x[threadIdx.x] = 0;
}
extern "C" __global__ void half_barrier(int *x) {
    if (threadIdx.x < 16) __syncthreads();
    x[threadIdx.x] = 1;
}
extern "C" __global__ void half_then_all(int *x) {
    if (threadIdx.x < 16) __syncthreads();
    x[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] += 1;
}
extern "C" __global__ void two_barriers(int *x) {
    if (threadIdx.x < 32) { x[threadIdx.x] = 1; __syncthreads(); }
    else { x[threadIdx.x] = 2; __syncthreads(); }
    x[threadIdx.x] += 1;
}
extern "C" __global__ void two_roles(int *x) {
    if (threadIdx.x < 32) { x[threadIdx.x] = 1; asm volatile("barrier.sync 1;" ::: "memory"); }
    else { asm volatile("barrier.sync 1;" ::: "memory"); x[threadIdx.x] = x[threadIdx.x - 32]; }
}
extern "C" __global__ void past_end(int *x) { x[threadIdx.x] = 1; }
__device__ unsigned finished;
extern "C" __global__ void last_block(const int *in, int *part, int *out, int fence) {
    __shared__ bool last;
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) {
        part[b] = in[b];
        if (fence) __threadfence();
        last = atomicAdd(&finished, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        if (fence) __threadfence();
        int sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += part[i];
        *out = sum;
    }
}
extern "C" __global__ void everyone_sets(int *flag) { *flag = 1; }
extern "C" __global__ void everyone_writes(int *where) { *where = threadIdx.x; }
extern "C" __global__ void bytes_side_by_side(unsigned char *x) { x[blockIdx.x] = threadIdx.x; }
extern "C" __global__ void strided(float *x) {
    __shared__ float s[1024];
    x[threadIdx.x * 33] = 1;
    s[threadIdx.x * 32] = 2;
    __syncthreads();
    x[threadIdx.x] = s[(threadIdx.x ^ 1) * 32];
}
extern "C" __global__ void in_turn(int *x) {
    int old = *x;
    if (threadIdx.x == 0) *x = old * 2 + blockIdx.x;
}
"""
PAIRS = {
    "racecheck": "Race reported",
    "initcheck": "Uninitialized",
    "synccheck": "Barrier error",
    "memcheck": "Invalid",
}


def checked(check: str = "all", chip: str = "a100", level: str = "warning") -> tuple[ww.GPU, ww.Module]:
    gpu = ww.GPU(chip, check=check, check_level=level)
    return gpu, gpu.compile(SOURCE, name="checks.cu")


def ints(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int32)


def line(text: str) -> int:
    """Number of the line of SOURCE that holds a text."""
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_a_missing_block_barrier_is_a_race_between_warps(chip: str) -> None:
    gpu, module = checked("racecheck", chip)
    module["shift_right"][1, 64](ints(64))
    assert gpu.findings == []
    module["shift"][1, 64](ints(64))
    kinds = {(f.severity, re.search("R?WA[RW]|RAW", f.details[0]).group()) for f in gpu.findings}
    assert kinds == {("error", "RAW"), ("error", "WAR")}
    for finding in gpu.findings:
        assert {p.line.split(":")[1] for p in finding.places} == {
            str(line("s[t] = x[t];")),
            str(line("x[t] = s[(t + 32)")),
        }
        assert finding.count == 32


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
def test_a_missing_warp_barrier_is_a_warning(chip: str) -> None:
    gpu, module = checked("racecheck", chip)
    module["swap_right"][1, 64](ints(64))
    assert gpu.findings == []
    module["swap"][1, 64](ints(64))
    (finding,) = gpu.findings
    assert (finding.severity, finding.count) == ("warning", 64)
    assert finding.details[1] == "threads of one warp: __syncwarp() between the accesses orders them"


LOCK = """
extern "C" __global__ void adds(int *lock, int *count)
{
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) {
            %s
            *count = *count + 1;
            %s
            atomicExch(lock, 0);
            done = true;
        }
    }
}
"""


@pytest.mark.ci
@pytest.mark.parametrize("chip", ["p100", "v100"])
@pytest.mark.parametrize("fences", ["", "after", "before", "both"])
def test_a_lock_that_lanes_of_a_warp_take_needs_fences_not_syncwarp(chip: str, fences: str) -> None:
    gpu = ww.GPU(chip, timing="off", check="racecheck")
    fence = "__threadfence();"
    source = LOCK % (fence if fences in ("after", "both") else "", fence if fences in ("before", "both") else "")
    lock, count = gpu.zeros(1, np.int32), gpu.zeros(1, np.int32)
    gpu.compile(source)["adds"][1, 32](lock, count)
    assert count.numpy()[0] == 32
    if fences == "both":
        assert not gpu.findings
    else:
        assert gpu.findings
        for finding in gpu.findings:
            assert "__threadfence() after taking it and before releasing it orders them" in finding.details[1]


def test_a_race_reads_word_for_word() -> None:
    gpu, module = checked("racecheck")
    module["swap"][1, 32](ints(32))
    text = re.sub(r"swap\+0x[0-9a-f]+", "swap+0x#", str(gpu.findings[0]))
    write, read = line("s[t] = x[t];\n    x[t] = s[t ^ 1]"), line("x[t] = s[t ^ 1]")
    assert text.splitlines()[:-1] == [
        "========= Warning: Race reported between Write access and Read access",
        f"=========     Write access at swap+0x# in checks.cu:{write}: s[t] = x[t];",
        "=========     by thread (1,0,0) in block (0,0,0)",
        f"=========     and Read access at swap+0x# in checks.cu:{read}: x[t] = s[t ^ 1];",
        "=========     by thread (0,0,0) in block (0,0,0)",
        "=========     RAW hazard at 0x7e0000000004: byte 4 of shared memory",
        "=========     threads of one warp: __syncwarp() between the accesses orders them",
        "=========     seen 32 times; this is the first",
    ]
    assert re.match(r"=========     Host: .*test_checks\.py:\d+$", text.splitlines()[-1])


@pytest.mark.parametrize("chip", ["v100", "h200"])
def test_blocks_are_ordered_by_fences_and_an_atomic(chip: str) -> None:
    gpu, module = checked("racecheck", chip)
    part, out = np.zeros(8, np.int32), np.zeros(1, np.int32)
    module["last_block"][8, 64](ints(8), part, out, 1)
    assert gpu.findings == []
    assert out[0] == 28
    module.symbol("finished").set(np.uint32(0))
    module["last_block"][8, 64](ints(8), part, out, 0)
    (finding,) = gpu.findings
    assert (finding.severity, finding.count) == ("error", 7)
    assert "__threadfence()" in finding.details[1]


def test_writes_of_one_value_are_information() -> None:
    gpu, module = checked("racecheck", level="info")
    module["everyone_sets"][2, 64](np.zeros(1, np.int32))
    assert {f.severity for f in gpu.findings} == {"info"}
    module["everyone_writes"][2, 32](np.zeros(1, np.int32))
    assert "warning" in {f.severity for f in gpu.findings}


def test_neighbouring_bytes_are_no_race() -> None:
    gpu, module = checked("racecheck")
    module["bytes_side_by_side"][4, 1](np.zeros(4, np.uint8))
    assert gpu.findings == []


def test_memory_that_nobody_wrote() -> None:
    gpu, module = checked("initcheck")
    fresh, target = gpu.empty(64, np.int32, name="fresh"), gpu.empty(64, np.int32)
    module["copy"][1, 64](fresh, target)
    module["copy"][1, 64](target, gpu.empty(64, np.int32))
    (finding,) = gpu.findings
    assert finding.title == "Uninitialized __global__ memory read of size 4 bytes"
    assert finding.count == 64
    assert finding.details[0].endswith("byte 0 of array 'fresh'")
    assert re.match(r"allocated at .*test_checks\.py:\d+; these bytes have not been written", finding.details[1])
    fresh.set(1)
    module["copy"][1, 64](fresh, target)
    assert len(gpu.findings) == 1
    module["shared_garbage"][1, 64](target)
    assert gpu.findings[-1].title == "Uninitialized __shared__ memory read of size 4 bytes"
    assert gpu.findings[-1].count == 32


@pytest.mark.parametrize(
    ("kernel", "severity", "sentence"),
    [
        (
            "shared_garbage",
            "error",
            r"depends on its contents: 128 bytes of memory differ, byte 128 of array 'x' first",
        ),
        ("shared_garbage_dropped", "info", "do not depend on its contents: they are the same with two other contents"),
        ("shared_garbage_prints", "error", "it prints something else"),
        ("shared_garbage_leads_astray", "error", "with other contents it fails: "),
        ("shared_garbage_counts", "error", "with other contents it takes more than 4 times its instructions"),
    ],
)
def test_what_shared_memory_that_nobody_wrote_does_to_results(
    kernel: str, severity: str, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    gpu, module = checked("initcheck", level="info")
    x = gpu.array(np.full(64, 3, np.int32), name="x")
    module[kernel][1, 64](x)
    assert {f.severity for f in gpu.findings} == {severity}
    assert re.search(sentence, gpu.findings[0].details[1])
    # The launch itself counts, once.
    expected = {
        "shared_garbage": [1] * 32 + [0] * 32,
        "shared_garbage_dropped": [4] * 32 + [3] * 32,
        "shared_garbage_prints": [4] * 64,
        "shared_garbage_leads_astray": [1] * 64,
        "shared_garbage_counts": [3] * 64,
    }
    assert x.numpy().tolist() == expected[kernel]
    assert capfd.readouterr().out == ("0\n" * 64 if kernel == "shared_garbage_prints" else "")


def test_what_cannot_be_tried_again_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warpwright.tools.checks.uninitialized_use.MOST_BYTES", 100)
    gpu, module = checked("initcheck")
    module["shared_garbage_dropped"][1, 64](ints(64))
    (finding,) = gpu.findings
    assert finding.severity == "warning"
    assert "was not tested" in finding.details[1]
    assert "bytes of memory would have to be kept" in finding.details[1]


def test_other_contents_leave_the_heap_of_malloc_as_it_was() -> None:
    gpu = ww.GPU("a100", check="initcheck", check_level="info")
    kernel = gpu.compile("""extern "C" __global__ void takes(long long *x) {
        __shared__ int s[32];
        int read = __shfl_xor_sync(~0u, s[threadIdx.x], 1);
        x[threadIdx.x] = (long long)malloc(64) + (read & 0);
        if (threadIdx.x < 16) x[threadIdx.x] += read;
    }""")["takes"]
    places = gpu.zeros(32, np.int64)
    kernel[1, 32](places)
    assert {f.severity for f in gpu.findings} == {"error"}
    first = set(places.numpy().tolist())
    kernel[1, 32](places)
    assert len(first | set(places.numpy().tolist())) == 64


def test_barriers_that_not_all_reach() -> None:
    for kernel in ("half_barrier", "half_then_all"):  # the others end, or wait at another one: both are complete then
        gpu, module = checked("synccheck")
        module[kernel][1, 32](ints(32))
        assert gpu.findings[0].title == "Barrier error detected. Divergent thread(s) in warp."
        assert gpu.findings[0].places[0].thread == (16, 0, 0)
        assert str(line(kernel) + 1) in gpu.findings[0].places[0].line
    gpu, module = checked("synccheck")
    module["two_barriers"][1, 64](ints(64))
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Divergent thread(s) in block."
    gpu, module = checked("all")
    module["two_roles"][1, 64](ints(64))
    assert gpu.findings == []


def test_faults_are_findings() -> None:
    gpu, module = checked("memcheck")
    with pytest.raises(ww.MemoryFaultError):
        module["past_end"][1, 32](ints(16))
    (finding,) = gpu.findings
    assert finding.title == "Invalid __global__ write of size 4 bytes"
    assert finding.places[0].thread == (16, 0, 0)
    assert str(line("past_end")) in finding.places[0].line


def test_a_misaligned_shared_access_is_named_so() -> None:
    gpu = ww.GPU("a100", timing="off", check="memcheck")
    source = """extern "C" __global__ void skewed(int *out, int at) {
        __shared__ int room[64];
        room[threadIdx.x] = at;
        __syncthreads();
        out[threadIdx.x] = *(int *)((char *)room + at);
    }"""
    with pytest.raises(ww.MemoryFaultError, match="misaligned read of 4 bytes") as caught:
        gpu.compile(source)["skewed"][1, 32](ints(32), 6)
    assert (caught.value.space, caught.value.access, caught.value.misaligned) == ("shared", "read", True)
    (finding,) = gpu.findings
    assert finding.title == "Invalid __shared__ read of size 4 bytes"
    assert finding.details[0].endswith("is misaligned")


def test_wasteful_accesses() -> None:
    gpu, module = checked("perfcheck")
    module["strided"][1, 32](np.zeros(2048, np.float32))
    titles = sorted(f.title for f in gpu.findings)
    assert titles == [
        "Bank conflicts: 32 wavefronts per request, 1 would suffice",
        "Uncoalesced access: 32 sectors per request, 4 would suffice",
    ] or titles == [
        "Bank conflicts: 32 wavefronts per request, 1 would suffice",
        "Bank conflicts: 32 wavefronts per request, 1 would suffice",
        "Uncoalesced access: 32 sectors per request, 4 would suffice",
    ]


def test_a_result_that_depends_on_the_order_of_warps() -> None:
    gpu, module = checked("schedcheck")
    module["in_turn"][6, 32](np.ones(1, np.int32))
    (finding,) = gpu.findings
    assert re.fullmatch("Result depends on the order of warps: [1-4] bytes of memory differ", finding.title)
    assert "in_turn" in str(finding)
    # The whole kernel is the place: no offset, no instruction.
    assert "in_turn+" not in str(finding)
    part, out = np.zeros(8, np.int32), np.zeros(1, np.int32)
    gpu, module = checked("schedcheck")
    module["last_block"][8, 64](ints(8), part, out, 1)
    assert out[0] == 28
    assert gpu.findings == []


def test_names_and_limits() -> None:
    assert parse("all") == ("memcheck", "racecheck", "synccheck", "initcheck")
    with pytest.raises(ww.UnsupportedError) as refused:
        ww.GPU("a100", check="lintcheck")
    assert str(refused.value) == (
        "check='lintcheck' is not known; use memcheck, racecheck, synccheck, initcheck, leakcheck, perfcheck, schedcheck, "
        "or all for the first four"
    )
    assert ww.GPU("a100", check="all").timing == "off"
    assert summary([]) == "========= CHECK SUMMARY: no findings"
    assert summary([], checked=False) == "========= CHECK SUMMARY: no launch was checked"


def run_case(case: Case, gpu: ww.GPU, source: str | None = None) -> list[Finding]:
    module = gpu.compile(
        source if source is not None else case.source, options=case.options, include_folders=[case.source.parent]
    )
    for name, values in case.device_globals.items():
        module.symbol(name).set(values)
    arguments = [gpu.array(a) if isinstance(a, np.ndarray) and a.ndim else a for a in case.args]
    module[case.kernel][case.grid, case.block, case.shared_bytes](*arguments)
    if source is None:
        case.verify({i: a.get() for i, a in enumerate(arguments) if isinstance(a, ww.DeviceArray)})
    return gpu.findings


QUICK = ("reduce_last_block", "atomics_cas_loop", "volatile_handoff", "grid_barrier", "scan_block_exclusive")


@pytest.mark.parametrize(
    ("chip", "case"),
    [
        pytest.param(chip, case, id=f"{chip}-{case.name}", marks=() if quick else pytest.mark.slow)
        for chip in ("v100", "a100", "h200")
        for case in cases("small")
        for quick in [chip == "a100" and case.name in QUICK]
    ],
)
def test_the_corpus_has_no_defects(chip: str, case: Case) -> None:
    gpu = ww.GPU(chip, check="all")
    if case.min_arch > gpu.chip.arch:
        pytest.skip(f"{case.name} needs sm_{case.min_arch}")
    assert [str(f) for f in run_case(case, gpu)] == []


HARMLESS = {
    ("scan_block_exclusive", "last"),
    ("fft_radix2", "last"),
    ("nbody_forces", "last"),
    ("smith_waterman", "first"),
    ("volatile_handoff", "first"),
    ("volatile_handoff", "last"),
    ("device_globals", "first"),
}
"""Barriers that order nothing at these sizes: every thread reads what it wrote itself, or a loop runs once."""


def barriers(case: Case) -> Iterator[tuple[str, str, bool]]:
    """(which, source without it, whether it orders something) for each __syncthreads() of a case's kernel."""
    text = Path(case.source).read_text(encoding="utf-8")
    head = re.search(rf"__global__[^;{{]*\b{re.escape(case.kernel)}\s*\(", text)
    if head is None:
        return
    start = end = text.index("{", head.end())
    depth = 0
    while True:
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            break
        end += 1
    found = list(re.finditer(r"__syncthreads\(\);", text[start:end]))
    for n, match in enumerate(found):
        names = {str(n)} | ({"first"} if n == 0 else set()) | ({"last"} if n == len(found) - 1 else set())
        gone = text[: start + match.start()] + " " * len(match.group()) + text[start + match.end() :]
        yield str(n), gone, not any((case.name, name) in HARMLESS for name in names)


@pytest.mark.parametrize(
    ("case", "source", "matters"),
    [
        pytest.param(
            case,
            source,
            matters,
            id=f"{case.name}-{which}",
            marks=() if case.name == "scan_block_exclusive" else pytest.mark.slow,
        )
        for case in cases("small")
        for which, source, matters in barriers(case)
    ],
)
def test_every_barrier_of_the_corpus_is_missed(case: Case, source: str, matters: bool) -> None:
    """Delete one __syncthreads(): racecheck finds it wherever it orders anything."""
    gpu = ww.GPU("a100", check="racecheck")
    if case.min_arch > gpu.chip.arch:
        pytest.skip(f"{case.name} needs sm_{case.min_arch}")
    assert bool(run_case(case, gpu, source)) == matters


MASKS = r"""
extern "C" __global__ void syncs(int *x) {
    unsigned mask = x[32];
    __syncwarp(mask);
    x[threadIdx.x] = 1;
}
extern "C" __global__ void shuffles(int *x) {
    unsigned mask = x[32];
    if (threadIdx.x < 24) x[threadIdx.x] = __shfl_sync(mask, x[threadIdx.x], 3);
}
extern "C" __global__ void votes(int *x) {
    unsigned mask = __ballot_sync(~0u, x[threadIdx.x] < x[32]);
    if (x[threadIdx.x] < 24) x[threadIdx.x] = __shfl_xor_sync(mask, x[threadIdx.x], 1);
}
"""


@pytest.mark.parametrize("chip", ["v100", "a100", "h200"])
@pytest.mark.parametrize(
    ("kernel", "wrong", "right", "first"),
    [("syncs", 0xFFFF, 0xFFFFFFFF, 16), ("shuffles", 0xFFFF, 0xFFFFFF, 16), ("votes", 20, 24, 20)],
)
def test_a_mask_that_machine_code_does_without_must_name_who_comes(
    chip: str, kernel: str, wrong: int, right: int, first: int
) -> None:
    gpu = ww.GPU(chip, check="synccheck")
    module = gpu.compile(MASKS, name="masks.cu")
    for mask in (right, wrong):
        assert gpu.findings == []
        module[kernel][1, 32](gpu.array(np.array([*range(32), mask], np.uint32)))
    (finding,) = gpu.findings
    assert finding.title == "Barrier error detected. Invalid arguments."
    assert finding.places[0].thread == (first, 0, 0)
    assert "mask)" in finding.places[0].line or "mask," in finding.places[0].line
