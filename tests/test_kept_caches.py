"""Launches that find in L2 what earlier launches, copies and fills of the device have left (``caches="kept"``)."""

from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from warpwright.errors import UnsupportedError
from warpwright.timing import state as s
from warpwright.tools.report.page import report_html

KERNELS = Path(__file__).parents[1] / "bench" / "machine" / "kernels.cu"
QUADS = 1 << 16  # 1 MiB
MIB = 1 << 20
READ, READ_BYTES, WRITTEN_BYTES = "lts__t_sectors_op_read.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"


class Bench:
    """A GPU with two arrays of a MiB and the kernels of bench.machine."""

    def __init__(self, caches: str | None = "kept", **how: object) -> None:
        self.gpu = ww.GPU("v100", caches=caches, **how)
        self.module = self.gpu.compile(KERNELS)
        self.a, self.b = (self.gpu.array(np.ones(4 * QUADS, np.float32)) for _ in range(2))
        self.sums = self.gpu.array(np.zeros(64, np.float32))

    def total(self, array: object) -> ww.Run:
        run = self.module["total"][64, 128](array, self.sums, np.int32(QUADS))
        assert self.sums.numpy().sum() == 4 * QUADS
        return run

    def fill(self, array: object) -> ww.Run:
        return self.module["fill"][64, 128](array, np.int32(QUADS), np.float32(1))


@pytest.fixture(scope="module")
def cold() -> ww.Run:
    """A launch on its own."""
    bench = Bench("cold")
    return bench.total(bench.a)


def test_a_launch_of_its_own_begins_cold_each_time(cold: ww.Run) -> None:
    bench = Bench(None)
    assert bench.gpu.caches == "cold"
    assert [bench.total(bench.a).cycles for _ in range(2)] == [cold.cycles] * 2


def test_what_was_read_is_found(cold: ww.Run) -> None:
    bench = Bench()
    first, again, other = bench.total(bench.a), bench.total(bench.a), bench.total(bench.b)
    assert first.cycles == cold.cycles
    assert again.metrics[READ_BYTES] == 0 < first.metrics[READ_BYTES]
    assert again.cycles < first.cycles - 300
    assert other.metrics[READ_BYTES] == first.metrics[READ_BYTES]


def test_what_was_written_is_found_and_stays_dirty_until_it_leaves() -> None:
    bench = Bench()
    assert bench.fill(bench.a).metrics[WRITTEN_BYTES] == 0
    assert bench.total(bench.a).metrics[READ_BYTES] == 0
    large = bench.gpu.array(np.ones(4 * MIB, np.float32))  # 16 MiB, of an L2 of 6
    run = bench.module["total"][64, 128](large, bench.sums, np.int32(MIB))
    assert run.metrics[WRITTEN_BYTES] == pytest.approx(MIB, rel=0.1)
    assert bench.total(bench.a).metrics[READ_BYTES] == pytest.approx(MIB, rel=0.1)


def test_programs_of_other_sizes_find_the_same_lines() -> None:
    """The part of the buffer that holds L2 moves when a larger program needs more room."""
    bench = Bench()
    bench.total(bench.a)
    for kernel, block in (("transpose", (32, 8)), ("product", (16, 16))):
        last = (np.int32(32), np.int32(32)) if kernel == "transpose" else (np.int32(16),)
        arrays = (bench.b, bench.b) if kernel == "transpose" else (bench.b, bench.b, bench.b)
        bench.module[kernel][1, block](*arrays, *last)
    assert bench.total(bench.a).metrics[READ_BYTES] == 0


@pytest.mark.parametrize(("how", "found"), [(s.BR_READ, True), (s.BR_WRITTEN, True), (s.BR_DROPPED, False)])
def test_copies_and_fills_use_l2(how: int, found: bool) -> None:
    bench = Bench()
    kept = bench.gpu.kept_caches
    assert kept is not None
    if not found:
        bench.total(bench.a)
    kept.used(bench.a.device_address(), bench.a.nbytes, how)
    assert (bench.total(bench.a).metrics[READ_BYTES] == 0) == found


def test_caches_of_two_gpus_are_their_own() -> None:
    one, other = Bench(), Bench()
    assert one.total(one.a).cycles == other.total(other.a).cycles
    assert one.total(one.a).cycles == other.total(other.a).cycles


def test_a_launch_that_fails_leaves_cold_caches(cold: ww.Run) -> None:
    bench = Bench()
    bench.total(bench.a)
    with pytest.raises(ww.MemoryFaultError):
        bench.module["fill"][1, 32](np.uint64(64), np.int32(32), np.float32(1))
    assert bench.total(bench.a).cycles == cold.cycles


def test_cycles_do_not_depend_on_host_threads() -> None:
    def cycles(threads: int) -> list[int]:
        bench = Bench(threads=threads)
        return [
            run.cycles
            for run in (bench.total(bench.a), bench.fill(bench.b), bench.total(bench.a), bench.total(bench.b))
        ]

    assert cycles(1) == cycles(2)


def test_other_words_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="caches='warm' is not known; use caches='cold' or caches='kept'"):
        ww.GPU("v100", caches="warm")


def test_a_run_and_its_report_say_with_which_caches_the_launch_began() -> None:
    feet = []
    for caches in ("cold", "kept"):
        gpu = ww.GPU("h200", caches=caches)
        kernel = gpu.compile('extern "C" __global__ void fill(int *p) { p[threadIdx.x] = threadIdx.x; }')["fill"]
        run = kernel[1, 32](gpu.zeros(32, np.int32))
        assert run.caches == caches
        feet.append(report_html([run]).partition('<footer class="note">')[2].partition("<")[0])
    assert feet[0].endswith("Launches began with cold caches.")
    assert feet[1].endswith("Launches began with what earlier launches, copies and fills had left in L2.")
