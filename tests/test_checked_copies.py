"""Racecheck of asynchronous copies: bulk copies with their mbarriers, groups and proxy fences, and ``cp.async``."""

from __future__ import annotations

import re

import numpy as np
import pytest

import warpwright as ww

HEAD = r"""
#define SHARED(x) ((unsigned)__cvta_generic_to_shared(x))
#define BEGIN(bar) if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(bar) : "memory"); __syncthreads();
#define EXPECT(bar, bytes) asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" :: "r"(bar), "r"(bytes) : "memory")
#define LOAD(to, from, bytes, bar) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" :: "r"(SHARED(to)), "l"(from), "r"(bytes), "r"(bar) : "memory")
#define WAIT(bar, parity) asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(bar), "r"(parity) : "memory")
#define STORE(to, from, bytes) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; cp.async.bulk.commit_group;" :: "l"(to), "r"(SHARED(from)), "r"(bytes) : "memory")
#define DONE(n) asm volatile("cp.async.bulk.wait_group.read " #n ";" ::: "memory")
#define PROXY asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
"""
SCALE = (
    HEAD
    + r"""
extern "C" __global__ void scale(float *out, const float *in) {
    __shared__ __align__(128) float tile[256];
    __shared__ __align__(8) unsigned long long gate;
    unsigned bar = SHARED(&gate), i = threadIdx.x;
    BEGIN(bar)
    for (int n = 0; n < 3; n++) {
        if (i == 0) {
            DONE(0);          // the store before has read the tile
            EXPECT(bar, 1024);
            LOAD(tile, in + 256 * n, 1024, bar);
        }
        WAIT(bar, n & 1);     // the tile is there
        tile[i] *= 2;
        PROXY;                // what threads wrote is seen by copies
        __syncthreads();      // every thread has written
        if (i == 0) STORE(out + 256 * n, tile, 1024);
    }
    if (i == 0) DONE(0);
}
"""
)
STAGED = r"""
extern "C" __global__ void staged(float *out, const float *in) {
    __shared__ __align__(16) float tile[2][128];
    unsigned i = threadIdx.x, to[2] = {(unsigned)__cvta_generic_to_shared(&tile[0][i]), (unsigned)__cvta_generic_to_shared(&tile[1][i])};
    for (int n = 0; n < 2; n++)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4; cp.async.commit_group;" :: "r"(to[n]), "l"(in + 128 * n + i) : "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");     // the first
    __syncthreads();
    float sum = tile[0][i ^ 33];
    asm volatile("cp.async.wait_group 0;" ::: "memory");     // the second
    __syncthreads();
    out[i] = sum + tile[1][i ^ 33];
}
"""


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def findings(source: str, kernel: str, threads: int, chip: str = "h200", check: str = "racecheck") -> list[ww.Finding]:
    gpu = ww.GPU(chip, timing="off", check=check)
    options = ("-arch=sm_90a",) if chip == "h200" else ()
    given = np.arange(768, dtype=np.float32)
    out = np.zeros(768, np.float32)
    gpu.compile(source, name="copies.cu", options=options)[kernel][2, threads](out, given)
    return list(gpu.findings)


@pytest.mark.ci
def test_a_program_that_orders_its_copies_has_no_findings() -> None:
    own = SCALE.replace("float *out, const float *in) {", "float *out, const float *in) {\n    if (blockIdx.x) return;")
    assert findings(own, "scale", 256, check="all") == []  # nor does initcheck take mbarrier.init for a read


@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_cp_async_that_is_waited_for_has_no_findings(chip: str) -> None:
    own = STAGED.replace("const float *in) {", "const float *in) {\n    if (blockIdx.x) return;")
    assert findings(own, "staged", 128, chip) == []


FAULTS = {
    "no wait": ("WAIT(bar, n & 1);", "asynchronous Write access", "tile[i] *= 2", "must first wait on its mbarrier"),
    "no proxy fence": (
        "PROXY;    ",
        "Missing fence.proxy.async between Write access and asynchronous copy",
        "STORE(out",
        "fence.proxy.async",
    ),
    "no barrier": (
        "__syncthreads();      //",
        "Race reported between Write access and Read access",
        "STORE(out",
        "__syncthreads() between the accesses",
    ),
    "no group wait": (
        "DONE(0);          //",
        "asynchronous Read access and Write access",
        "LOAD(tile, in",
        "wait_group.read",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_order_is_found_where_it_shows(fault: str) -> None:
    removed, title, shown_at, advice = FAULTS[fault]
    source = SCALE.replace("const float *in) {", "const float *in) { if (blockIdx.x) return;")
    assert source.count(removed) == 1
    source = source.replace(removed, "//" if removed.endswith("//") else "")
    found = [f for f in findings(source, "scale", 256) if title in f.title]
    assert found, fault
    assert any(f":{line_of(source, shown_at)}:" in f.places[-1].line for f in found), [str(f) for f in found]
    assert any(advice in detail for detail in found[0].details)
    assert found[0].severity == "error"


@pytest.mark.parametrize("chip", ["a100", "h200"])
@pytest.mark.parametrize("wait", ["wait_group 1", "wait_group 0"])
def test_cp_async_that_is_not_waited_for_is_found(chip: str, wait: str) -> None:
    source = STAGED.replace("const float *in) {", "const float *in) { if (blockIdx.x) return;")
    source = source.replace(f'asm volatile("cp.async.{wait};" ::: "memory");', "")
    found = [f for f in findings(source, "staged", 128, chip) if "asynchronous Write access and Read access" in f.title]
    shown = "float sum" if wait.endswith("1") else "out[i] = sum"
    assert any(f":{line_of(source, shown)}:" in f.places[-1].line for f in found), wait
    assert "cp.async.wait_group" in found[0].details[1]


@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_a_wait_that_may_leave_more_groups_than_there_are_waits_for_none(chip: str) -> None:
    source = STAGED.replace("const float *in) {", "const float *in) { if (blockIdx.x) return;")
    assert "cp.async.wait_group 1;" in source
    found = findings(source.replace("cp.async.wait_group 1;", "cp.async.wait_group 3;"), "staged", 128, chip)
    shown = f":{line_of(source, 'float sum')}:"
    assert any("asynchronous Write access and Read access" in f.title and shown in f.places[-1].line for f in found)


REDUCED = (
    HEAD
    + r"""
extern "C" __global__ void reduced(float *out, const float *in) {
    __shared__ __align__(128) float tile[64];
    unsigned i = threadIdx.x;
    tile[i] = in[i] + 1;
    PROXY;
    __syncthreads();
    BEFORE
    if (i == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256; cp.async.bulk.commit_group;" :: "l"(out), "r"(SHARED(tile)) : "memory");
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    BEHIND
}
"""
)
"""Two blocks add their tiles to the same floats."""


@pytest.mark.parametrize(
    ("before", "behind"), [("", ""), ("", "atomicAdd(out + i, 2.0f);"), ("atomicMax((int *)out + i, 1);", "")]
)
def test_bulk_reductions_to_one_place_and_atomics_do_not_race(before: str, behind: str) -> None:
    assert findings(REDUCED.replace("BEFORE", before).replace("BEHIND", behind), "reduced", 64, check="all") == []


@pytest.mark.parametrize(
    ("before", "behind", "words"),
    [
        ("if (blockIdx.x == 1) out[i] = 3;", "", "between Atomic access and Write access"),
        ("", "if (blockIdx.x == 0) out[64 + i] = out[i];", "between Read access and Atomic access"),
        ("", "if (blockIdx.x == 1) out[64 + i] = out[i];", "between Atomic access and Read access"),
        ("if (blockIdx.x == 0) STORE(out, tile, 256);", "", "between Write access and Atomic access"),
    ],
)
def test_a_plain_access_beside_a_bulk_reduction_is_a_race(before: str, behind: str, words: str) -> None:
    """Of the other block: nothing orders it."""
    found = findings(REDUCED.replace("BEFORE", before).replace("BEHIND", behind), "reduced", 64)
    assert any(words in f.title and f.severity == "error" for f in found), [f.title for f in found]


def test_a_tile_that_is_written_while_a_reduction_reads_it_is_a_race() -> None:
    source = REDUCED.replace("BEFORE", "").replace("BEHIND", "tile[i] = 0;")
    titles = [f.title for f in findings(source, "reduced", 64)]
    assert titles == ["Error: Race reported between asynchronous Read access and Write access"]


def test_a_phase_that_nobody_completes_is_a_standstill() -> None:
    source = SCALE.replace("EXPECT(bar, 1024);", "EXPECT(bar, 2048);")
    with pytest.raises(ww.DeadlockError, match=re.escape("copies.cu")):
        findings(source, "scale", 256)


def test_launches_in_clusters_are_watched_and_their_faults_are_findings(capfd: pytest.CaptureFixture[str]) -> None:
    gpu = ww.GPU("h200", timing="off", check="memcheck,racecheck")
    module = gpu.compile('extern "C" __global__ void f(int *x) { x[blockIdx.x * 32 + threadIdx.x] = 1; }', name="f.cu")
    x = gpu.zeros(64, np.int32)
    for _ in range(2):
        module["f"].clustered(2)[2, 32](x)
    assert x.get().tolist() == [1] * 64
    assert not capfd.readouterr().err
    with pytest.raises(ww.MemoryFaultError):
        module["f"].clustered(2)[4, 32](x)
    assert [f.check for f in gpu.findings] == ["memcheck"]
