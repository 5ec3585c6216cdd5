"""initcheck and copies: what nothing wrote stays so in a copy, the host must not get it, padding is no finding."""

from __future__ import annotations

import numpy as np
import pytest

import warpwright as ww
from warpwright.tools.checks import Checker

SOURCE = r"""
struct Padded { char tag; int value; };
struct Half { int value; short tag; char pad[2]; };
extern "C" __global__ void fill(Padded *p) { p[threadIdx.x].tag = 1; p[threadIdx.x].value = threadIdx.x; }
extern "C" __global__ void copy(const Padded *from, Padded *to) { to[threadIdx.x] = from[threadIdx.x]; }
extern "C" __global__ void copy_wide(const long long *from, long long *to) { to[threadIdx.x] = from[threadIdx.x]; }
extern "C" __global__ void flags(const volatile unsigned short *from, int *to) { to[threadIdx.x] = from[4 * threadIdx.x] & 255; }
extern "C" __global__ void behind(const volatile unsigned short *from, int *to) { to[threadIdx.x] = from[4 * threadIdx.x + 1] & 255; }
extern "C" __global__ void sum_wide(const long long *from, long long *to) { to[threadIdx.x] = from[threadIdx.x] + 1; }
"""


@pytest.mark.parametrize(("kernel", "told"), [("copy", {"info"}), ("copy_wide", {"info"}), ("sum_wide", {"error"})])
def test_padding_that_is_only_copied_is_information(kernel: str, told: set[str]) -> None:
    gpu = ww.GPU("a100", check="initcheck", check_level="info")
    module = gpu.compile(SOURCE, name="padding.cu")
    p, q = gpu.empty(256, np.uint8), gpu.empty(256, np.uint8)
    module["fill"][1, 32](p)
    module[kernel][1, 32](p, q)
    assert {f.severity for f in gpu.findings} == told
    assert ("padding of a structure" in gpu.findings[0].details[-1]) == (told == {"info"})


@pytest.mark.parametrize(("kernel", "severity"), [("flags", "info"), ("behind", "error")])
def test_a_value_of_one_byte_may_be_read_with_the_byte_behind_it(kernel: str, severity: str) -> None:
    gpu = ww.GPU("a100", check="initcheck", check_level="info")
    module = gpu.compile(SOURCE, name="padding.cu")
    p, q = gpu.empty(256, np.uint8), gpu.empty(32, np.int32)
    module["fill"][1, 32](p)
    module[kernel][1, 32](p, q)
    assert [(f.severity, f.count) for f in gpu.findings] == [(severity, 32)]
    assert ("one of the two bytes was written" in gpu.findings[0].details[-1]) == (severity == "info")


def checker_of(gpu: ww.GPU) -> Checker:
    assert gpu.checker is not None
    return gpu.checker


def test_what_nothing_wrote_stays_so_in_a_copy() -> None:
    gpu = ww.GPU("a100", check="initcheck")
    memory, checker = gpu.memory, checker_of(gpu)
    source, target = (memory.allocate(64, name, undefined=True) for name in ("source", "target"))
    checker.filled(source.address, 16)
    checker.filled(target.address, 64)
    checker.forget_written()
    contents = checker.contents(source.address + 8, 16)
    assert contents is not None
    assert contents.tolist() == [255] * 8 + [0] * 8
    checker.filled(target.address, 16, contents)
    held = checker.contents(target.address, 64)
    assert held is not None
    assert np.flatnonzero(held == 0).tolist() == [*range(8, 16)]


@pytest.mark.parametrize(("written", "severity"), [(0, "error"), (16, "info"), (64, "")])
def test_the_host_gets_what_nothing_wrote(written: int, severity: str) -> None:
    gpu = ww.GPU("a100", check="initcheck", check_level="info")
    memory, checker = gpu.memory, checker_of(gpu)
    source = memory.allocate(64, "source", undefined=True)
    checker.filled(source.address, written)
    contents = checker.contents(source.address, 64)
    if contents is None:
        assert not severity
        return
    checker.read_by_host([(source.address, contents)], 64)
    (finding,) = gpu.findings
    assert (finding.severity, finding.title) == (
        severity,
        "Uninitialized __global__ memory copied to the host: 64 bytes",
    )
    assert f"byte {written} of source; nothing wrote {64 - written} of the bytes" in finding.details[0]
