"""A processor that shares page tables and caches with GPUs over NVLink: translations, the probe filter, and machines that cannot."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import mmap
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_driver_devices import right
from tests.touch_kernel import TOUCH
from warpwright.engine.host_coherence import ProbeCosts, ProbeFilter, without
from warpwright.errors import MemoryFaultError, UnsupportedError
from warpwright.run import Run
from warpwright.system import MachineError, host_route, load_machine, route

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/maps")
SOURCE = (
    TOUCH
    + """
extern "C" __global__ void add(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd_system(p + i, 1);
}
"""
)
PAGE = 64 << 10


@pytest.fixture(scope="module")
def node() -> ww.System:
    return ww.System("ac922")


@pytest.fixture(scope="module")
def kernels(node: ww.System) -> Any:
    return node.gpus[0].compile(SOURCE)


class Ordinary:
    """Ordinary memory of the process, on a boundary of 512 KiB."""

    def __init__(self, pages: int) -> None:
        self.words = np.ones(pages * PAGE // 4 + (1 << 17), np.int32)
        begin = -self.words.ctypes.data % (1 << 19) // 4
        self.words = self.words[begin : begin + pages * PAGE // 4]
        self.address = self.words.ctypes.data


def touch(kernels: Any, address: int, count: int, step: int = PAGE) -> tuple[Run, list[int]]:
    clocks = np.zeros(count, np.int32)
    run = kernels["touch"][1, 1](np.uint64(address), np.int64(step), np.int32(count), clocks)
    return run, clocks.tolist()


def forget_translations(node: ww.System) -> None:
    translations = node.gpus[0].memory.translations
    assert translations is not None
    translations.words[:] = 0


# --- address translation ---------------------------------------------------------------------------
def test_kernels_use_ordinary_memory_of_the_host(node: ww.System, kernels: Any) -> None:
    memory = Ordinary(1)
    run = kernels["add"][4, 256](np.uint64(memory.address), np.int32(1000))
    assert memory.words[:1000].tolist() == [2] * 1000
    assert memory.words[1000] == 1
    assert run.metrics["ats__translation_requests.sum"] >= 1
    assert run.metrics["nvltx__bytes_data_user.sum"] > 0  # over NVLink
    assert run.metrics["pcie__read_bytes.sum"] == 0


def test_a_translation_takes_a_way_to_the_host_and_brings_its_group(node: ww.System, kernels: Any) -> None:
    forget_translations(node)
    memory = Ordinary(32)
    first, cold = touch(kernels, memory.address, 24)
    again, warm = touch(kernels, memory.address, 24)
    costs = node.machine.translation
    assert costs is not None
    per_ns = node.gpus[0].chip.clocks.sm_clock_mhz / 1000
    waited = [a - b > costs.request_ns * per_ns / 2 for a, b in zip(cold, warm, strict=True)]
    asked = int(first.metrics["ats__translation_requests.sum"])
    assert sum(waited) == asked
    assert asked in (3, 4)  # groups of 8 pages, wherever they begin
    extra = [a - b for a, b, late in zip(cold, warm, waited, strict=True) if late]
    assert extra == pytest.approx([costs.request_ns * per_ns] * asked, abs=20)
    assert again.metrics["ats__translation_requests.sum"] == 0


def test_translations_that_are_not_kept_are_asked_for_again(node: ww.System, kernels: Any) -> None:
    translations = node.gpus[0].memory.translations
    assert translations is not None
    memory = Ordinary(33)
    words = translations.words
    try:
        translations.words = np.zeros((16, 2), np.int64)
        fits, _ = touch(kernels, memory.address, 2, step=4096)
        assert touch(kernels, memory.address, 2, step=4096)[0].metrics["ats__translation_requests.sum"] <= 1
        many, _ = touch(kernels, memory.address, 33)
        assert touch(kernels, memory.address, 33)[0].metrics["ats__translation_requests.sum"] >= 4
        assert fits.metrics["ats__translation_requests.sum"] < many.metrics["ats__translation_requests.sum"]
    finally:
        translations.words = words


def test_the_host_shoots_translations_down_and_only_those_of_what_it_remaps(node: ww.System, kernels: Any) -> None:
    forget_translations(node)
    memory = Ordinary(32)
    touch(kernels, memory.address, 24)
    assert touch(kernels, memory.address, 24)[0].metrics["ats__translation_requests.sum"] == 0
    translations, costs = node.gpus[0].memory.translations, node.machine.translation
    assert translations is not None
    assert costs is not None
    part = memory.words[: 10 * (64 << 10) // 4]
    done = node.host_remaps(part)
    assert [one.translations for one in done[1:]] == [0] * 3  # the other GPUs had none
    assert done[0].translations in (10, 11)  # pages of 64 KiB, of which the array may begin within one
    assert done[0].seconds == pytest.approx(costs.shoot_down_ns * 1e-9)
    assert translations.shot_down >= 10
    assert node.host_remaps(part)[0].translations == 0
    asked = touch(kernels, memory.address, 24)[0].metrics["ats__translation_requests.sum"]
    assert asked in (2, 3)  # groups of 8 pages with one that was shot down; the rest is still known
    with pytest.raises(UnsupportedError, match=r"has no .address_translation."):
        ww.System("dgx-1").host_remaps(part)


def test_memory_that_the_process_gives_back_is_shot_down(node: ww.System, kernels: Any) -> None:
    forget_translations(node)
    stays = Ordinary(8)
    # So long that what the process maps next, which goes to the upper end of the gap, takes none of the pages that were read.
    mapping = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    touch(kernels, address, 8)
    touch(kernels, stays.address, 4)
    translations = node.gpus[0].memory.translations
    assert translations is not None
    before, known = translations.shot_down, int((translations.words[:, 0] > 0).sum())
    gc.collect()
    mapping.close()
    touch(kernels, stays.address, 4)
    assert 8 <= translations.shot_down - before <= known
    assert (translations.words[:, 0] > 0).any()


def test_other_machines_refuse_ordinary_memory() -> None:
    other = ww.System("dgx-1")
    memory = Ordinary(1)
    kernel = other.gpus[0].compile(SOURCE)["add"]
    with pytest.raises(MemoryFaultError):
        kernel[1, 32](np.uint64(memory.address), np.int32(32))


def test_memory_that_is_given_back_or_read_only_is_a_fault(node: ww.System, kernels: Any) -> None:
    text = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    assert text is not None
    with pytest.raises(MemoryFaultError):
        kernels["add"][1, 32](np.uint64(text & ~3), np.int32(32))


def test_ranges_leave_out_what_others_have() -> None:
    page = 4096
    taken = [(2 * page, 3 * page), (5 * page + 100, 6 * page + 1)]
    assert list(without(page, 10 * page, taken)) == [
        (page, 2 * page),
        (3 * page, 5 * page + 100),
        (7 * page, 10 * page),
    ]
    assert list(without(2 * page, 3 * page, taken)) == []


def test_the_host_is_reached_over_three_links_and_the_other_socket_is_refused() -> None:
    machine = load_machine("ac922")
    way = host_route(machine, 0)
    assert way is not None
    assert (way.nodes, way.link_count) == (("gpu0", "cpu0"), 3)
    assert way.copy_gb_per_s == pytest.approx(3 * 24.26, rel=0.001)
    assert route(machine, 0, 2) is None  # over two processors
    assert host_route(load_machine("dgx-1"), 0) is None


@pytest.mark.parametrize("table", ["address_translation", "probe_filter"])
def test_page_tables_and_caches_are_shared_over_nvlink_alone(tmp_path: Path, table: str) -> None:
    fields = {
        "address_translation": "page_kib = 64\nrequest_ns = 700\npages_per_answer = 8\nkept_page_count = 64\nshoot_down_ns = 700",
        "probe_filter": "line_count = 64\nway_count = 16\nwatermark_percent = 90\nprobe_ns = 700",
    }
    file = tmp_path / "wrong.toml"
    file.write_text(f'base = "p100x2-pcie"\n[{table}]\n{fields[table]}\n')
    with pytest.raises(
        MachineError, match=rf"\[{table}\] needs NVLinks between each GPU and a processor, and gpu0 has none"
    ):
        load_machine(str(file))


# --- probe filter ----------------------------------------------------------------------------------
def test_the_gpu_probes_only_lines_that_the_host_may_have(node: ww.System, kernels: Any) -> None:
    x = node.gpus[0].zeros(1 << 16, np.int32)
    address = x.device_address()
    probes = node.gpus[0].memory.probe_filter
    assert probes is not None
    touch(kernels, address, 16, step=128)
    _, without_host = touch(kernels, address, 16, step=128)
    done = probes.host_accesses(address + 3 * 128 + 4, 128)  # of two lines
    assert done.lines == 2
    assert probes.host_accesses(address + 3 * 128, 8).lines == 0  # it has it
    run, clocks = touch(kernels, address, 16, step=128)
    assert run.metrics["probe_filter__probes.sum"] == 2
    assert run.metrics["probe_filter__lookups.sum"] >= 16
    late = [a - b for a, b in zip(clocks, without_host, strict=True)]
    per_ns = node.gpus[0].chip.clocks.sm_clock_mhz / 1000
    assert late[3:5] == pytest.approx([probes.costs.probe_ns * per_ns] * 2, abs=20)
    assert max(abs(n) for n in [*late[:3], *late[5:]]) < 20
    assert touch(kernels, address, 16, step=128)[0].metrics["probe_filter__probes.sum"] == 0  # given back


def test_the_processor_loads_arrays_where_it_caches_them(node: ww.System) -> None:
    x = node.gpus[1].zeros(1000, np.int32)  # 4,000 bytes from the beginning of a line on
    assert node.host_accesses(x).lines == 32
    assert node.host_accesses(x).lines == 0
    other = ww.System("p100x2-pcie")
    with pytest.raises(ww.UnsupportedError, match=r"p100x2-pcie do not cache GPUs' memory"):
        other.host_accesses(other.gpus[0].zeros(8))


PROGRAM = """
on(0)
attribute = lambda number: cuda.word("cuDeviceGetAttribute", number, 0, kind=ctypes.c_int32)
print([attribute(number) for number in (86, 88, 100, 101)])
words = (ctypes.c_uint32 * 128)(*range(128))
if attribute(100):
    add(kernel(), ctypes.addressof(words), ctypes.addressof(words))
    cuda("cuCtxSynchronize")
    assert list(words)[:N] == [4 * n for n in range(N)], list(words)
"""


@pytest.mark.parametrize(("machine", "attributes"), [("ac922", [1, 1, 1, 1]), ("dgx-1", [0, 0, 0, 0])])
def test_programs_use_memory_of_malloc_where_page_tables_are_shared(machine: str, attributes: list[int]) -> None:
    assert right(PROGRAM, "", WARPWRIGHT_SYSTEM=machine).strip() == str(attributes)


def test_a_full_set_costs_the_host_a_probe_and_the_watermark_prevents_it() -> None:
    full = ProbeFilter(ProbeCosts(line_count=64, way_count=4, watermark_percent=100, probe_ns=700), 128)
    step = 16 * 128  # lines of one set
    for n in range(4):
        assert full.host_accesses(n * step, 1).forced_probes == 0
    done = full.host_accesses(4 * step, 1)
    assert done.forced_probes == 1
    assert done.seconds == pytest.approx(700e-9)
    assert not full.holds(0)
    assert full.holds(4 * step)
    low = ProbeFilter(dataclasses.replace(full.costs, watermark_percent=75), 128)
    assert low.host_accesses(0, 48 * 128).taken_back == 0  # 48 of 64
    done = low.host_accesses(48 * 128, 128)
    assert (done.taken_back, done.forced_probes, low.tracked) == (1, 0, 48)
    assert not low.holds(0)  # the oldest
    assert low.holds(128)
