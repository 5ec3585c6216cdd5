"""Multi-Instance GPU: profiles, placements, isolation, what processes see."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.driver_library import ENVIRONMENT
from tests.forked_programs import run_program
from warpwright.api import GPU
from warpwright.chips import load_chip
from warpwright.chips.mig import (
    COMPUTE_SLICES,
    IN_USE,
    INSUFFICIENT_RESOURCES,
    INVALID_ARGUMENT,
    MEMORY_SLICES,
    NOT_FOUND,
    NOT_SUPPORTED,
    PROFILES,
    MigError,
    instance_chip,
    profile_of,
)
from warpwright.driver import results
from warpwright.driver.calls import failed
from warpwright.driver.cuda_error import CudaError
from warpwright.engine.access_policy import AccessWindow
from warpwright.errors import DeadlockError, ExecutionError, MemoryFaultError, UnsupportedError
from warpwright.mig import InstanceGPU, MigGPU
from warpwright.run import Run
from warpwright.system.mig import VARIABLE, MigCard, card_uuid

A100 = load_chip("a100")


READ = """
extern "C" __global__ void read(const uint4 *from, unsigned words, unsigned *sink)
{
    unsigned sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) sum += __ldcg(from + i).x;
    if (sum == 0x9e3779b9u) *sink = sum;
}
"""


def missed_after_a_flood(gpu: GPU) -> float:
    """The share of 512 KiB, read with a window of persisting lines, that DRAM is asked for after a flood."""
    hot_bytes, flood_bytes = 1 << 19, 16 << 20
    read = gpu.compile(READ)["read"][28, 512]
    hot, flood, sink = (gpu.zeros(size // 4, np.uint32) for size in (hot_bytes, flood_bytes, 4))
    window = AccessWindow(hot.device_address(), hot_bytes, 1.0)
    for _ in range(2):
        read.with_window(window)(hot, np.uint32(hot_bytes // 16), sink)
    read(flood, np.uint32(flood_bytes // 16), sink)
    return float(read(hot, np.uint32(hot_bytes // 16), sink).metrics["dram__bytes_read.sum"]) / hot_bytes


def empty_card() -> MigCard:
    return MigCard(A100, card_uuid("a100", 0), True)


# --- the table -------------------------------------------------------------------------------------
TABLE = {
    "1g.5gb": (19, 7, 4864, 14, 1, [0, 1, 2, 3, 4, 5, 6], 1),
    "1g.5gb+me": (20, 1, 4864, 14, 1, [0, 1, 2, 3, 4, 5, 6], 1),
    "1g.10gb": (15, 4, 9856, 14, 1, [0, 2, 4, 6], 2),
    "2g.10gb": (14, 3, 9856, 28, 2, [0, 2, 4], 2),
    "3g.20gb": (9, 2, 19968, 42, 3, [0, 4], 4),
    "4g.20gb": (5, 1, 19968, 56, 4, [0], 4),
    "7g.40gb": (0, 1, 40192, 98, 7, [0], 8),
}
"""nvidia-smi mig -lgip and -lgipp on an A100 with 40 GB: ID, instances, MiB, SMs, copy engines, placements and their size."""


@pytest.mark.parametrize("name", TABLE)
def test_profiles_are_those_of_the_driver(name: str) -> None:
    number, most, mib, sms, engines, starts, size = TABLE[name]
    one = profile_of(name)
    assert (one.number, one.most, one.memory_mib, one.sms, one.copy_engines) == (number, most, mib, sms, engines)
    assert (list(one.starts), one.memory_slices) == (starts, size)
    card = empty_card()
    assert [place.start for place in card.free(one)] == starts
    made = 0
    while card.free(one):
        card.create(name)
        made += 1
    assert made == most
    with pytest.raises(MigError, match=f"no room for a {name.replace('+', '.')} instance") as refused:
        card.create(name)
    assert refused.value.code == INSUFFICIENT_RESOURCES


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("start", range(-1, 9))
def test_every_place_is_taken_or_refused_as_nvml_does(name: str, start: int) -> None:
    card = empty_card()
    if start in TABLE[name][5]:
        assert card.create(name, start).placement.start == start
        return
    with pytest.raises(MigError) as refused:
        card.create(name, start)
    assert refused.value.code == INVALID_ARGUMENT


FULL = (
    *("7g.40gb", "4g.20gb 3g.20gb", "4g.20gb 2g.10gb 1g.5gb", "4g.20gb 1g.5gb 1g.5gb 1g.5gb", "3g.20gb 3g.20gb"),
    *("3g.20gb 2g.10gb 1g.5gb", "3g.20gb 1g.5gb 1g.5gb 1g.5gb", "2g.10gb 2g.10gb 2g.10gb 1g.5gb"),
    *("2g.10gb 2g.10gb 1g.5gb 1g.5gb 1g.5gb", "2g.10gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb"),
    *("1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb 1g.5gb", "1g.10gb 1g.10gb 1g.10gb 1g.10gb"),
)
"""Configurations of the MIG User Guide's picture of an A100."""


@pytest.mark.parametrize("names", FULL)
def test_the_guide_s_configurations_fit_and_leave_no_compute_or_memory(names: str) -> None:
    card = empty_card()
    for name in names.split():
        card.create(name)
    assert not card.free(profile_of("2g.10gb"))


def test_a_larger_instance_after_smaller_ones_finds_no_place() -> None:
    card = empty_card()
    card.create("1g.5gb", 0)
    for name in ("4g.20gb", "7g.40gb"):
        with pytest.raises(MigError, match=r"there are: 1g\.5gb at 0"):
            card.create(name)
    assert card.create("3g.20gb").start == 4


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.sampled_from([p.name for p in PROFILES]), st.integers(0, 7), st.booleans()), max_size=30))
def test_instances_never_share_slices(steps: list[tuple[str, int, bool]]) -> None:
    card = empty_card()
    for name, start, destroys in steps:
        code = 0
        try:
            if destroys and card.instances:
                card.destroy(card.instances[start % len(card.instances)].number)
            else:
                card.create(name, start)
        except MigError as refused:
            code = refused.code
        assert code in (0, INVALID_ARGUMENT, INSUFFICIENT_RESOURCES)
        held = [n for one in card.instances for n in range(one.start, one.start + one.placement.size)]
        assert len(set(held)) == len(held) <= MEMORY_SLICES
        assert sum(one.profile.compute_slices for one in card.instances) <= COMPUTE_SLICES
        assert len({one.number for one in card.instances}) == len(card.instances)


def test_no_two_profiles_fit_that_exceed_the_slices() -> None:
    for names in combinations_with_replacement([p.name for p in PROFILES], 2):
        card = empty_card()
        try:
            for name in names:
                card.create(name)
        except MigError:
            continue
        assert sum(profile_of(name).compute_slices for name in names) <= COMPUTE_SLICES


def test_compute_instances_take_slices_of_their_gpu_instance() -> None:
    card = empty_card()
    gpu = card.create("4g.20gb")
    first, second = gpu.create_compute(2), gpu.create_compute(2)
    assert [(one.number, one.start) for one in (first, second)] == [(0, 0), (1, 2)]
    assert gpu.name_of(first) == "2c.4g.20gb"
    for slices, code in ((1, INSUFFICIENT_RESOURCES), (3, NOT_SUPPORTED)):
        with pytest.raises(MigError) as refused:
            gpu.create_compute(slices)
        assert refused.value.code == code
    with pytest.raises(MigError) as refused:
        card.destroy(gpu.number)
    assert refused.value.code == IN_USE
    card.destroy_compute(gpu.number, 1)
    with pytest.raises(MigError) as refused:
        gpu.create_compute(2, 1)
    assert refused.value.code == INVALID_ARGUMENT
    with pytest.raises(MigError) as refused:
        card.destroy_compute(gpu.number, 5)
    assert refused.value.code == NOT_FOUND
    half = gpu.chip(A100, first)
    assert (half.sm.sm_count, half.l2.l2_slice_count) == (28, 40), "half of the SMs, all of the instance's L2"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_an_instance_has_its_share_of_the_chip(profile: object) -> None:
    one = profile_of(profile.name)  # type: ignore[attr-defined]
    chip = instance_chip(A100, one)
    share = one.memory_slices / 8
    assert (
        chip.sm.gpc_sm_counts == (14,) * one.compute_slices or list(chip.sm.gpc_sm_counts) == [14] * one.compute_slices
    )
    assert chip.l2.l2_slice_count == 10 * one.memory_slices
    assert chip.l2.l2_kib == share * 40960
    assert chip.dram.dram_gb_per_s == pytest.approx(share * 1555)
    assert chip.dram.dram_kib == one.memory_mib * 1024


@pytest.mark.ci
def test_an_instance_sets_nothing_aside_and_its_windows_persist_nothing() -> None:
    instance = MigGPU("a100", caches="kept").create("1g.5gb")
    with pytest.raises(UnsupportedError, match="can set aside at most 0 bytes of L2"):
        instance.set_aside(1 << 20)
    assert missed_after_a_flood(instance) > 0.95
    whole = GPU(load_chip("a100", l2_kib=A100.l2.l2_kib // 8), caches="kept")
    assert missed_after_a_flood(whole) < 0.2


def test_chips_without_mig_are_refused() -> None:
    with pytest.raises(MigError, match="v100 has no MIG mode") as refused:
        MigGPU("v100")
    assert refused.value.code == NOT_SUPPORTED


# --- isolation -------------------------------------------------------------------------------------
SOURCE = """
extern "C" __global__ void stream(const float4 *x, float4 *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        v.x += v.y * v.z;
        y[i] = v;
    }
}
extern "C" __global__ void sums(const float *x, float *y, int n)
{
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += 32) sum += x[(i * 37 + blockIdx.x * 101) % n];
    atomicAdd(y, sum);
}
extern "C" __global__ void overrun(float *y) { y[(1 << 22) + threadIdx.x] = 1; }
extern "C" __global__ void hang(volatile float *y) { while (y[threadIdx.x] == 0) {} }
"""
WORDS = 16384


class Tenant:
    """An instance with arrays of its own."""

    def __init__(self, gpu: InstanceGPU, seed: int) -> None:
        self.gpu, self.module = gpu, gpu.compile(SOURCE)
        values = np.random.default_rng(seed).random(WORDS, np.float32)
        self.x, self.y = gpu.array(values, name="x"), gpu.zeros(WORDS, np.float32, name="y")

    def launch(self, name: str, blocks: int = 24) -> object:
        arguments = (
            (self.x, self.y, WORDS // 4 if name == "stream" else WORDS) if name in ("stream", "sums") else (self.y,)
        )
        return self.module[name][blocks, 128 if name == "stream" else 32], arguments

    def reset(self) -> None:
        self.y.set(0)


def pair(first: str, second: str) -> tuple[MigGPU, Tenant, Tenant]:
    card = MigGPU("a100")
    return card, Tenant(card.create(first), 1), Tenant(card.create(second), 2)


def alone(tenant: Tenant, name: str, blocks: int = 24) -> Run:
    tenant.reset()
    launcher, arguments = tenant.launch(name, blocks)  # type: ignore[misc]
    run: Run = launcher(*arguments)
    return run


@pytest.mark.ci
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([("1g.5gb", "3g.20gb"), ("2g.10gb", "2g.10gb"), ("3g.20gb", "4g.20gb")]),
    st.tuples(st.sampled_from(["stream", "sums"]), st.integers(1, 40)),
    st.tuples(st.sampled_from(["stream", "sums"]), st.integers(1, 40)),
)
def test_instances_at_once_have_the_cycles_counters_and_results_that_they_have_alone(
    profiles: tuple[str, str], left: tuple[str, int], right: tuple[str, int]
) -> None:
    card, one, other = pair(*sorted(profiles, reverse=True))
    before = [alone(one, *left), alone(other, *right)]
    results = [one.y.get(), other.y.get()]
    one.reset()
    other.reset()
    found = card.launch(one.launch(*left), other.launch(*right))  # type: ignore[arg-type]
    for run, expected in zip(found, before, strict=True):
        assert isinstance(run, Run)
        assert run.cycles == expected.cycles
        assert dict(run.metrics) == dict(expected.metrics)
    assert (one.y.get() == results[0]).all()
    assert (other.y.get() == results[1]).all()


@pytest.mark.ci
@pytest.mark.parametrize(("bad", "error"), [("overrun", MemoryFaultError), ("hang", DeadlockError)])
def test_a_fault_and_a_hang_stay_in_their_instance(bad: str, error: type[ExecutionError]) -> None:
    card, one, other = pair("3g.20gb", "1g.5gb")
    expected = alone(one, "stream")
    result = one.y.get()
    one.reset()
    good, failed = card.launch(one.launch("stream"), other.launch(bad, 1))  # type: ignore[arg-type]
    assert isinstance(failed, error)
    assert isinstance(good, Run)
    assert good.cycles == expected.cycles
    assert (one.y.get() == result).all()
    again = alone(other, "sums")
    assert again.cycles > 0, "the instance that failed goes on"


# --- processes ----------------------------------------------------------------------------------------
@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "mig.json"
    monkeypatch.setenv(VARIABLE, str(place))
    return place


def command(*words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "warpwright", "mig", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


PROGRAM = f"""
import ctypes, sys
sys.path.insert(0, {os.fspath(Path(__file__).parents[1])!r})
from tests.driver_library import Driver
from warpwright.driver import attach
attach.preload()
cuda = Driver()
code = cuda.raw("cuInit", 0)
if code:
    print("code", code)
    sys.exit()
name = (ctypes.c_char * 96)()
total = ctypes.c_size_t()
cuda("cuDeviceGetName", name, 96, 0)
cuda("cuDeviceTotalMem_v2", ctypes.byref(total), 0)
sms, engines = (cuda.word("cuDeviceGetAttribute", n, 0, kind=ctypes.c_int32) for n in (16, 40))
print(cuda.word("cuDeviceGetCount", kind=ctypes.c_int32), name.value.decode(), total.value >> 20, sms, engines)
"""


def seen(**environment: str) -> str:
    done = run_program(PROGRAM, {**os.environ, **ENVIRONMENT, "WARPWRIGHT_GPU": "a100", **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.ci
def test_a_process_sees_its_instance(kept: Path) -> None:
    assert seen() == "1 A100-SXM4-40GB (simulated) 40960 108 3"
    command("enable")
    assert seen() == "code 100", "a card in MIG mode without instances is no device"
    command("create", "3g.20gb,1g.5gb")
    listed = command("list")
    uuids = [word for word in listed.split() if word.startswith("MIG-")]
    assert len(uuids) == 2
    assert seen() == "1 A100-SXM4-40GB MIG 3g.20gb (simulated) 19968 42 3", "the first one"
    assert seen(CUDA_VISIBLE_DEVICES=uuids[1]) == "1 A100-SXM4-40GB MIG 1g.5gb (simulated) 4864 14 1"
    old = f"MIG-{card_uuid('a100', 0)}/1/0"
    assert seen(CUDA_VISIBLE_DEVICES=old).startswith("1 A100-SXM4-40GB MIG 3g.20gb")
    assert seen(CUDA_VISIBLE_DEVICES="MIG-00000000") == "code 100"
    assert seen(CUDA_VISIBLE_DEVICES="-1") == "code 100"
    assert seen(CUDA_VISIBLE_DEVICES="0").startswith("1 A100-SXM4-40GB MIG 3g.20gb")
    assert "destroyed GPU instance" in command("destroy")
    command("disable")


@pytest.mark.ci
def test_mps_gives_a_process_a_share_of_the_sms(kept: Path) -> None:
    assert seen(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25").split()[3:] == ["40960", "28", "3"]


def is_refused(name: str, text: str, said: str, tmp_path: Path) -> None:
    """A driver without ``warpwright run`` has no device, and ``run`` does not start the program; both give the reason once."""
    done = run_program(PROGRAM, {**os.environ, **ENVIRONMENT, "WARPWRIGHT_GPU": "a100", name: text})
    assert done.stdout.strip() == "code 100"
    assert done.stderr.count(said) == 1
    assert "Traceback" not in done.stderr
    (tmp_path / "program.py").write_text("print('started')")
    run = [sys.executable, "-m", "warpwright", "run", str(tmp_path / "program.py")]
    refused = subprocess.run(run, capture_output=True, text=True, check=False, env={**os.environ, name: text})
    assert refused.returncode == 2
    assert said in refused.stderr
    assert "started" not in refused.stdout


@pytest.mark.ci
@pytest.mark.parametrize(
    ("setting", "advice"),
    [
        ("MEMORY_FAULTS=foo", "use allocation or page"),
        ("GPU=foo", "no chip is called 'foo'"),
        ("SYSTEM=foo", "no machine is called 'foo'"),
        ("CHECK_LEVEL=foo", "check level 'foo' is not known"),
        ("THREADS= 8 ", "use a positive whole number"),
        ("DEADLINE=nan", "use a positive number of seconds"),
        ("STORAGE_GB_PER_S=-3", "use a positive number of GB/s"),
        ("CACHE_MIB=1.5", "use a whole number of MiB"),
        ("CPU=znver33", "LLVM knows no such processor"),
        ("INJECT=dram@x", "'dram@x' names no bits"),
        ("LIBRARY_MODEL=foo", "use nvidia"),
        ("TRACE_CALLS=yes", "use 0 or 1"),
    ],
)
def test_an_invalid_setting_is_an_error_before_the_program_starts(setting: str, advice: str, tmp_path: Path) -> None:
    name, text = setting.split("=")
    is_refused(f"WARPWRIGHT_{name}", text, f"WARPWRIGHT_{setting} is not valid: {advice}", tmp_path)


@pytest.mark.ci
@pytest.mark.parametrize("percentage", ["101", "0", "abc", "nan"])
def test_an_invalid_share_of_the_sms_is_an_error(percentage: str, kept: Path, tmp_path: Path) -> None:
    name = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
    is_refused(name, percentage, f"{name}={percentage} is not a percentage above 0 and up to 100", tmp_path)


@pytest.mark.ci
def test_the_command_says_what_the_driver_refuses(kept: Path) -> None:
    assert "MIG mode of a100 is off" in command("create", "9", code=1)
    assert "Enabled MIG Mode for GPU 0 (a100)" in command("enable")
    command("create", "9:4")
    assert "no room for a 7g.40gb instance" in command("create", "1g.5gb,7g.40gb", code=1)
    assert "1g.5gb" not in command("list"), "none of them where one does not fit"
    assert "destroy them before" in command("disable", code=1)
    rows = command("profiles").splitlines()
    assert any("1/2" in row and "3g.20gb" in row for row in rows)


NVML = f"""
import ctypes, sys
sys.path.insert(0, {os.fspath(Path(__file__).parents[1])!r})
from warpwright.driver import attach
attach.preload()
nvml = ctypes.CDLL("libnvidia-ml.so.1")
u, p, ref = ctypes.c_uint, ctypes.c_void_p, ctypes.byref
assert nvml.nvmlInit_v2() == 0
card = p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ref(card)) == 0
a, b = u(), u()
assert nvml.nvmlDeviceGetMigMode(card, ref(a), ref(b)) == 0 and (a.value, b.value) == (0, 0)
gi, ci, dev, back = p(), p(), p(), p()
assert nvml.nvmlDeviceCreateGpuInstance(card, 9, ref(gi)) == 3          # MIG mode is off
assert nvml.nvmlDeviceSetMigMode(card, 1, ref(a)) == 0
info = (ctypes.c_ulonglong * 6)()
words = ctypes.cast(info, ctypes.POINTER(u))
assert nvml.nvmlDeviceGetGpuInstanceProfileInfo(card, 2, info) == 0
assert [words[n] for n in range(10)] == [9, 0, 3, 2, 42, 3, 2, 0, 0, 0] and info[5] == 19968
assert nvml.nvmlDeviceGetGpuInstanceProfileInfo(card, 5, info) == 3     # no 8-slice profile
rows, count = (u * 16)(), u(8)
assert nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(card, 9, rows, ref(count)) == 0
assert count.value == 2 and list(rows)[:4] == [0, 4, 4, 4]
assert nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(card, 14, ref(count)) == 0 and count.value == 3
place = (u * 2)(4, 4)
assert nvml.nvmlDeviceCreateGpuInstanceWithPlacement(card, 9, place, ref(gi)) == 0
assert nvml.nvmlDeviceCreateGpuInstanceWithPlacement(card, 9, place, ref(back)) == 23
assert nvml.nvmlDeviceCreateGpuInstanceWithPlacement(card, 9, (u * 2)(1, 4), ref(back)) == 2
data = (ctypes.c_ulonglong * 4)()
words = ctypes.cast(data, ctypes.POINTER(u))
assert nvml.nvmlGpuInstanceGetInfo(gi, data) == 0
assert data[0] == card.value and [words[n] for n in range(2, 6)] == [2, 9, 4, 4]
assert nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 0, ref(count)) == 0 and count.value == 3
assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 0, ref(dev)) == 6
assert nvml.nvmlGpuInstanceCreateComputeInstance(gi, 1, ref(ci)) == 0
assert nvml.nvmlGpuInstanceCreateComputeInstance(gi, 2, ref(back)) == 23
assert nvml.nvmlComputeInstanceGetInfo_v2(ci, data) == 0
assert data[1] == gi.value and [words[n] for n in range(4, 8)] == [0, 1, 0, 2]
assert nvml.nvmlGpuInstanceDestroy(gi) == 19
assert nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, 0, ref(dev)) == 0
assert nvml.nvmlDeviceIsMigDeviceHandle(dev, ref(a)) == 0 and a.value == 1
text = (ctypes.c_char * 96)()
assert nvml.nvmlDeviceGetUUID(dev, text, 96) == 0 and text.value.startswith(b"MIG-")
assert nvml.nvmlDeviceGetName(dev, text, 96) == 0
print(text.value.decode())
assert nvml.nvmlDeviceGetGpuInstanceId(dev, ref(a)) == 0 and a.value == 2
assert nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(dev, ref(back)) == 0 and back.value == card.value
assert nvml.nvmlDeviceGetAttributes_v2(dev, info) == 0 and info[4] == 19968
assert nvml.nvmlDeviceSetMigMode(card, 0, ref(a)) == 19
assert nvml.nvmlComputeInstanceDestroy(ci) == 0 and nvml.nvmlGpuInstanceDestroy(gi) == 0
assert nvml.nvmlGpuInstanceDestroy(gi) == 6
assert nvml.nvmlDeviceSetMigMode(card, 0, ref(a)) == 0
"""


@pytest.mark.ci
def test_nvml_creates_lists_and_destroys(kept: Path) -> None:
    done = run_program(NVML, {**os.environ, **ENVIRONMENT, "WARPWRIGHT_GPU": "a100"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb (simulated)"


def test_a_missing_device_is_reported_once(capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("cuInit", "cudaGetDeviceCount", "cudaMalloc"):
        assert failed(name, CudaError(results.NO_DEVICE, "CUDA_VISIBLE_DEVICES=MIG-once: none")) == results.NO_DEVICE
    assert capfd.readouterr().err.count("MIG-once") == 1
