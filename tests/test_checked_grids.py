"""Launches on several devices under the checks: races between devices, barriers, deadlocks, faults and unwritten memory."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpwright as ww
from tests.test_driver_devices import right
from tests.test_multi_grid import PREPARED, SOURCE, rotated
from warpwright.toolchain import InputKind, compile_source, link

KERNELS = (
    SOURCE
    + r"""
struct Parts { int *of[3]; };
__device__ void meet() { __cuda_syscall_CGS_sync(__cuda_syscall_CGS_get_intrinsic_handle(2), 0); }
// Each grid writes a part of the next one's memory, which that one then reads.
extern "C" __global__ void next(Parts parts, int own, int meets, int *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    parts.of[own ^ 1][at] = at;
    if (meets) meet();
    out[at] = parts.of[own][at];
}
// A flag from device to device and back orders two blocks of one grid.
extern "C" __global__ void relay(Parts parts, int own, int, int *out) {
    volatile int *here = parts.of[own] + 1024, *there = parts.of[own ^ 1] + 1024;
    if (threadIdx.x == 0 && own == 0 && blockIdx.x == 0) { parts.of[0][5] = 41; __threadfence_system(); *there = 1; }
    if (threadIdx.x == 0 && own == 1 && blockIdx.x == 0) { while (*here == 0); __threadfence_system(); *there = 1; }
    if (threadIdx.x == 0 && own == 0 && blockIdx.x == 1) { while (*here == 0); __threadfence_system(); out[0] = parts.of[0][5] + 1; }
}
extern "C" __global__ void bytes(Parts parts, int own, int meets, int *out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (own == 0) parts.of[1][at] = 3;
    if (meets) meet();
    if (own == 1) out[at] = ((char *)parts.of[1])[4 * at];
}
extern "C" __global__ void leaves(Parts parts, int own, int, int *out) {
    if (own == 1 && blockIdx.x == 1) return;
    meet();
    out[0] = 1;
}
extern "C" __global__ void far(Parts parts, int own, int, int *out) {
    if (own == 1) out[1 << 28] = 1;
    meet();
}
extern "C" __global__ void outside(Parts parts, int own, int, int *out) {
    if (threadIdx.x < 20) __syncwarp(0x3ff);
    meet();
    out[threadIdx.x] = 1;
}
"""
)
CHIPS = {"p100x2-nvlink": "60", "dgx-1": "70", "dgx-a100": "80", "h200x2": "90"}


@cache
def code(arch: str) -> bytes:
    compiled = compile_source(KERNELS, arch, options=["-rdc=true"]).cubin
    return link([(InputKind.CUBIN, compiled, "grids.cubin")], arch).cubin


def checked(kernel: str, meets: int = 1, system: str = "dgx-1", fill: bool = True, **options: Any) -> tuple[ww.System, list[np.ndarray]]:  # fmt: skip
    """A cooperative launch on two devices, each with 2 blocks of 64 threads, and what its grids wrote."""
    node = ww.System(system, **{"timing": "off", "check": "all", **options})
    gpus = node.gpus[:2]
    node.enable_peer_access(0, 1)
    node.enable_peer_access(1, 0)
    arrays = [gpu.zeros(2048, np.int32) if fill else gpu.empty(2048, np.int32) for gpu in gpus]
    table = np.array([*(array.device_address() for array in arrays), 0], np.uint64)
    outs = [gpu.zeros(128, np.int32) for gpu in gpus]
    launches = [
        (
            gpu.compile(code(CHIPS[system]))[kernel][2, 64],
            (np.void(table.tobytes()), np.int32(own), np.int32(meets), out),
        )
        for own, (gpu, out) in enumerate(zip(gpus, outs, strict=True))
    ]
    try:
        node.launch(*launches, cooperative=True)
    except ww.ExecutionError as error:
        node.failure = error  # type: ignore[attr-defined]
    return node, [out.numpy() for out in outs]


def found(node: ww.System) -> list[Any]:
    return [finding for gpu in node.gpus for finding in gpu.findings]


@pytest.mark.ci
@pytest.mark.parametrize("system", CHIPS)
@pytest.mark.parametrize("timing", ["off", "full"])
def test_right_grids_of_several_devices_have_no_findings(system: str, timing: str) -> None:
    runs = rotated(system, CHIPS[system], [0, 1], timing=timing, check="all")
    assert [run.timed for run in runs] == [timing == "full"] * 2
    if timing == "full":
        plain = rotated(system, CHIPS[system], [0, 1], timing=timing)
        assert [run.cycles for run in runs] == [run.cycles for run in plain]
    for kernel in ("next", "relay", "bytes"):
        node, outs = checked(kernel, 1, system, timing=timing)
        assert found(node) == []
        if kernel == "next":
            assert all(np.array_equal(out, np.arange(128)) for out in outs)


@pytest.mark.ci
@pytest.mark.parametrize("system", ["p100x2-nvlink", "h200x2"])
@pytest.mark.parametrize("kernel", ["next", "bytes"])
def test_a_race_between_two_devices_is_found(kernel: str, system: str) -> None:
    node, _ = checked(kernel, 0, system)
    races = [one for one in found(node) if one.check == "racecheck"]
    assert races
    assert all(one.severity == "error" for one in races)
    text = str(races[0])
    assert (
        "threads of different devices: only multi_grid_group::sync(), an atomic or volatile flag with __threadfence_system()"
        in text
    )
    assert "the first access is of device 0 of the launch, the second of device 1" in text


def test_a_deadlock_of_several_grids_is_a_finding_with_its_advice() -> None:
    node, _ = checked("leaves")
    (one,) = found(node)
    text = str(one)
    assert text.startswith("========= Barrier error detected. deadlock in kernel leaves, block (0, 0, 0)")
    assert "this is GPU 1 of them" in text
    assert "block (1, 0, 0) has ended" in text
    assert "every block of every grid must call multi_grid_group::sync() equally often" in text
    assert "without --check" not in text
    assert one.host[-1].startswith(f"{__file__}:")  # the program's line, not one of the thread that executes
    assert "threading.py" not in text
    assert isinstance(node.failure, ww.DeadlockError)  # type: ignore[attr-defined]


def test_a_fault_and_a_wrong_mask_in_one_of_several_grids_are_found() -> None:
    node, _ = checked("far")
    (one,) = node.gpus[1].findings
    assert one.check == "memcheck"
    assert one.title == "Invalid __global__ write of size 4 bytes"
    assert node.gpus[0].findings == []
    node, _ = checked("outside")
    assert {str(one.title) for one in found(node)} == {"Barrier error detected. Invalid arguments."}


def test_what_another_device_writes_is_initialised() -> None:
    node, outs = checked("next", fill=False)
    assert found(node) == []
    assert np.array_equal(outs[0], np.arange(128))
    node, _ = checked("bytes", fill=False, meets=1)
    assert found(node) == []


def test_unequal_kernels_that_run_at_once_are_refused_with_advice_that_can_be_followed() -> None:
    node = ww.System("dgx-1", timing="off", check="all")
    kernels = [gpu.compile(code("70")) for gpu in node.gpus[:2]]
    arguments = np.uint32(0), np.uint32(0)
    with pytest.raises(ww.UnsupportedError) as refused:
        node.launch((kernels[0]["some"][1, 32], arguments), (kernels[1]["others"][1, 32], arguments))
    text = str(refused.value)
    assert "the kernel of device 1 is others and that of device 0 some" in text
    assert (
        "Omit --check (check=) for this launch, or launch the kernels one after the other if they do not wait for each other"
        in text
    )
    node.launch((kernels[0]["some"][1, 32], arguments))
    node.launch((kernels[1]["others"][1, 32], arguments))
    assert [gpu.checker.launches for gpu in node.gpus[:2]] == [1, 1]  # type: ignore[union-attr]


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_a_cooperative_launch_of_an_unmodified_program_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "grids.cubin"
    path.write_bytes(code("70"))
    program = (
        PREPARED.format(path=str(path))
        + f"""
source = {KERNELS!r}
"""
        + """
from warpwright.session import session
for d in devices:
    on(d)
    cuda("cuCtxEnablePeerAccess", contexts[1 - d], 0)
assert launch() == 0
for d in devices:
    on(d)
    cuda("cuCtxSynchronize")
assert [list(row[:2]) for row in rows] == [[254, 255], [126, 127]]
assert [checker.launches for checker in session.checkers] == [1, 1], [(c.launches, c.checks) for c in session.checkers]
race, *more = session.findings()  # both grids write their ranks to one array
assert not more
assert "seen[0] = rank" in source.splitlines()[int(race.places[0].line.split(":")[1]) - 1]
assert "the first access is of device 0 of the launch, the second of device 1" in str(race)
assert launch("some", [ctypes.c_uint32(1), ctypes.c_uint32(2)]) == 0
assert cuda.raw("cuCtxSynchronize") == 702
assert sum("multi_grid_group::sync() equally often" in str(one) for one in session.findings()) == 1
"""
    )
    right(program, "v100,v100", WARPWRIGHT_TIMING="off", WARPWRIGHT_CHECK="all")


INCREMENT = (
    'extern "C" __global__ void increment(int *here, int *there) { here[threadIdx.x] += 1; there[threadIdx.x] += 1; }'
)


def test_a_launch_that_can_write_a_peer_is_checked_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    node = ww.System("dgx-1", timing="full", check="all")
    node.enable_peer_access(0, 1)
    here, there = (gpu.zeros(32, np.int32) for gpu in node.gpus[:2])
    kernel = node.gpus[0].compile(INCREMENT)["increment"][1, 32]
    run = kernel(here, np.uint64(there.device_address()))
    assert run.cycles > 0
    (run,) = node.launch((kernel, (here, np.uint64(there.device_address()))))
    assert run.cycles > 0
    assert (here.numpy() == 2).all()
    assert (there.numpy() == 2).all()
    assert "not timed" not in capsys.readouterr().err


def test_a_checked_launch_that_cannot_be_repeated_for_its_time_has_the_reason_and_advice_that_can_be_followed() -> None:
    gpu = ww.GPU("v100", timing="full", check="memcheck")
    host = np.zeros(32, np.int32)
    gpu.memory.map(int(host.ctypes.data), host.nbytes, "registered memory")
    run = gpu.compile(INCREMENT)["increment"][1, 32](gpu.zeros(32, np.int32), gpu.zeros(32, np.int32))
    with pytest.raises(ww.UnsupportedError) as refused:
        _ = run.cycles
    assert str(refused.value) == (
        "this run of increment has no cycles: it was only checked, because it cannot be repeated with timing (memory of the host or of another device "
        "is mapped, which the kernel may change): time it in a run without checks (omit --check or check=)"
    )
    with pytest.raises(ww.UnsupportedError, match="this run of increment has no report: it was only checked"):
        run.report("never.html")
