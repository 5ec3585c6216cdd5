"""The checks from outside: ``warpwright run --check`` and ``pytest --warpwright``."""

from __future__ import annotations

import importlib.machinery
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from warpwright.driver import failed_calls, results
from warpwright.driver.failed_calls import is_answer

KERNELS = r"""
extern "C" __global__ void turn(int *x) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    %s
    x[t] = s[(t + 32) & 63];
}
"""
PROGRAM = """
import numpy as np
import warpwright as ww

kernel = ww.GPU("v100").compile({source!r})["turn"]
x = np.arange(64, dtype=np.int32)
run = kernel[1, 64](x)
"""
DRIVER_PROGRAM = """
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1000)) == 0
{free}
"""
RIGHT, WRONG = KERNELS % "__syncthreads();", KERNELS % ""


def warpwright(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "COLUMNS": "160"}
    command = [sys.executable, "-m", "warpwright", *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.ci
def test_run_prints_what_the_checks_find(tmp_path: Path) -> None:
    for name, source in (("right.py", RIGHT), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(PROGRAM.format(source=source))
    done = warpwright("run", "--check", "racecheck", "--gpu", "a100", "right.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "========= CHECK SUMMARY: no findings"
    done = warpwright("run", "--check", "racecheck", "wrong.py", cwd=tmp_path)
    assert done.returncode == 1
    assert "========= Error: Race reported between Write access and Read access" in done.stdout
    assert "=========     Host: " in done.stdout
    assert "wrong.py:7" in done.stdout
    assert done.stdout.splitlines()[-1] == "========= CHECK SUMMARY: 1 error"


ONE_VALUE = 'extern "C" __global__ void turn(int *x) { x[blockIdx.x >> 6] = 1; }\n'
"""Blocks write the same value to the same place: information."""


@pytest.mark.ci
def test_run_tells_information_on_request(tmp_path: Path) -> None:
    text = PROGRAM.format(source=ONE_VALUE).replace("kernel[1, 64]", "kernel[2, 64]")
    (tmp_path / "one_value.py").write_text(text)
    for words in (["one_value.py"], ["--", sys.executable, "one_value.py"]):
        done = warpwright("run", "--check", "all", *words, cwd=tmp_path)
        assert done.stdout.splitlines()[-1] == "========= CHECK SUMMARY: no findings"
    done = warpwright("run", "--check", "all", "--check-level", "info", "one_value.py", cwd=tmp_path)
    assert done.returncode == 0
    assert "both wrote the same value" in done.stdout
    assert done.stdout.splitlines()[-1] == "========= CHECK SUMMARY: 1 info"


@pytest.mark.ci
def test_run_refuses_what_does_not_go_together(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(PROGRAM.format(source=RIGHT))
    done = warpwright("run", "--check", "everything", "right.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "check='everything' is not known; use memcheck, " in done.stderr
    done = warpwright("run", "--check", "all", "--check-level", "loud", "right.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "check level 'loud' is not known; use error, warning, info" in done.stderr
    done = warpwright("run", "--check-level", "info", "right.py", cwd=tmp_path)
    assert (done.returncode, "--check-level has no effect without --check: add --check" in done.stderr) == (2, True)


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_double_free_and_leaks_of_a_program_on_the_driver(tmp_path: Path) -> None:
    twice = "assert cuda.cuMemFree_v2(block) == 0\nassert cuda.cuMemFree_v2(block) == 1"
    (tmp_path / "twice.py").write_text(DRIVER_PROGRAM.format(free=twice))
    (tmp_path / "leak.py").write_text(DRIVER_PROGRAM.format(free=""))
    for words in (["twice.py"], ["--", sys.executable, "twice.py"]):
        done = warpwright("run", "--check", "memcheck,leakcheck", *words, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        assert "========= Malloc/Free error encountered: Double free" in done.stdout
        assert "Leaked" not in done.stdout
        done = warpwright("run", "--check", "leakcheck", *(w.replace("twice", "leak") for w in words), cwd=tmp_path)
        assert done.returncode == 1
        assert "========= Leaked 1,000 bytes at 0x" in done.stdout
        assert "leak.py:9" in done.stdout


def pytest_run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    plugin = ["-p", "warpwright.pytest_plugin", "-p", "no:cacheprovider"]
    # An installed package brings the plug-in by itself; this one may be a checkout.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # On a CI machine pytest repeats whole messages in its summary.
    for name in ("CI", "BUILD_NUMBER"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", *plugin, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


TESTS = """
import numpy as np
import warpwright as ww

def launch(source):
    x = np.arange(64, dtype=np.int32)
    ww.GPU("v100").compile(source)["turn"][1, 64](x)
    return x

def test_right():
    launch({right!r})

def test_wrong():
    launch({wrong!r})

def test_cycles(warpwright_runs):
    launch({right!r})
    (run,) = warpwright_runs
    assert run.chip == "a100"
    if run.timed:
        assert 2000 < run.cycles < 20000
        assert run.metrics["smsp__inst_executed.sum"] == run.instructions
"""


@pytest.mark.ci
def test_pytest_runs_tests_on_a_simulated_card(tmp_path: Path) -> None:
    (tmp_path / "test_gpu.py").write_text(textwrap.dedent(TESTS).format(right=RIGHT, wrong=WRONG))
    done = pytest_run(tmp_path, "--warpwright=a100")
    assert "3 passed" in done.stdout, done.stdout
    done = pytest_run(tmp_path, "--warpwright=a100", "--warpwright-check=all", "-v")
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "FAILED test_gpu.py::test_wrong" in done.stdout
    assert "- Failed: racecheck: Race reported" in done.stdout
    assert "Race reported between Write access and Read access" in done.stdout
    assert "warpwright: GPU code runs on a simulated a100, checks: all" in done.stdout


@pytest.mark.ci
def test_pytest_tells_lesser_findings_in_a_tests_report(tmp_path: Path) -> None:
    text = TESTS.format(right=RIGHT, wrong=ONE_VALUE).replace('["turn"][1, 64]', '["turn"][2, 64]')
    (tmp_path / "test_gpu.py").write_text(text.replace("def test_right", "def left_out"))
    words = ("--warpwright=a100", "--warpwright-check=racecheck", "-rA", "test_gpu.py::test_wrong")
    done = pytest_run(tmp_path, *words)
    assert "1 passed" in done.stdout, done.stdout
    assert "both wrote the same value" not in done.stdout
    done = pytest_run(tmp_path, *words, "--warpwright-check-level=info")
    assert "1 passed" in done.stdout, done.stdout
    assert "both wrote the same value" in done.stdout


def test_pytest_imports_the_package_as_it_is() -> None:
    """Without rewriting the assertions of all of its modules, as it does with those of packages that bring plug-ins."""
    for module in (results, failed_calls):
        assert type(module.__spec__.loader) is importlib.machinery.SourceFileLoader, module


@pytest.mark.ci
def test_pytest_refuses_unknown_chips_and_checks(tmp_path: Path) -> None:
    assert "no chip is called 'a101'; did you mean 'a100'" in pytest_run(tmp_path, "--warpwright=a101").stderr
    assert "check='x' is not known" in pytest_run(tmp_path, "--warpwright=a100", "--warpwright-check=x").stderr
    assert "go with --warpwright=CHIP" in pytest_run(tmp_path, "--warpwright-check=all").stderr
    words = ("--warpwright=a100", "--warpwright-check-level=info")
    assert "--warpwright-check-level goes with --warpwright-check" in pytest_run(tmp_path, *words).stderr


TWO_FAULTS = """
import ctypes

PTX = b'''.version 7.0
.target sm_70
.address_size 64
.visible .entry wild(.param .u64 where) {
    .reg .b64 %a;
    ld.param.u64 %a, [where];
    st.global.u32 [%a], 1;
    ret;
}
'''
cuda = ctypes.CDLL("libcuda.so.1")
context, module, wild = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), PTX) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(wild), module, b"wild") == 0
for address in (0x40, 0x80):
    argument = ctypes.c_uint64(address)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    print(cuda.cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, None, pointers, None), cuda.cuCtxSynchronize())
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_memcheck_goes_on_behind_a_fault(tmp_path: Path) -> None:
    (tmp_path / "faults.py").write_text(TWO_FAULTS)
    done = warpwright("run", "--check", "memcheck", "faults.py", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "Address 0x40 is out of bounds" in done.stdout
    assert "seen 2 times" in done.stdout
    assert done.stdout.startswith("0 0\n0 0\n")
    done = warpwright("run", "faults.py", cwd=tmp_path)
    assert "700" in done.stdout.splitlines()[0]
    assert done.stdout.splitlines()[1].startswith("700")


FAILING_CALLS = """
import ctypes

cuda = ctypes.CDLL("libcuda.so.1")
context, block, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
assert cuda.cuInit(0) == 0
assert cuda.cuCtxGetDevice(ctypes.byref(device)) == 201
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
for _ in range(3):
    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 50)) == 2
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(0)) == 1
assert cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(0), None, ctypes.c_size_t(0)) == 0
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_calls_that_fail_are_findings_of_memcheck(tmp_path: Path) -> None:
    (tmp_path / "calls.py").write_text(FAILING_CALLS)
    for words in (["calls.py"], ["--", sys.executable, "calls.py"]):
        done = warpwright("run", "--check", "memcheck", *words, cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        lines = [x.removeprefix("=========").strip() for x in done.stdout.splitlines() if x.startswith("====")]
        out_of_memory = (
            'Program hit CUDA_ERROR_OUT_OF_MEMORY (error 2) due to "out of memory" on CUDA API call to cuMemAlloc_v2'
        )
        assert lines[:2] == [out_of_memory, "seen 3 times; this is the first"]
        assert lines[2].endswith("calls.py:11")
        assert 'CUDA_ERROR_INVALID_VALUE (error 1) due to "invalid argument"' in lines[3]
        assert lines[4].endswith("calls.py:12")
        assert lines[5] == "CHECK SUMMARY: 2 errors"
    done = warpwright("run", "--check", "memcheck", "--check-level", "info", "calls.py", cwd=tmp_path)
    assert "CUDA_ERROR_INVALID_CONTEXT" in done.stdout
    done = warpwright("run", "--check", "racecheck", "calls.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_an_attribute_of_later_drivers_is_a_question() -> None:
    """Triton sets a function's attribute 17 and goes on without it where the driver refuses."""
    assert is_answer("cuFuncSetAttribute", results.INVALID_VALUE, (0x6000, 17, 3))
    assert is_answer("cuKernelSetAttribute", results.INVALID_VALUE, (17, 3, 0x6000, 0))
    assert not is_answer("cuFuncSetAttribute", results.INVALID_VALUE, (0x6000, 8, 1 << 30))


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_a_call_that_fails_is_no_failure_of_a_test(tmp_path: Path) -> None:
    body = textwrap.indent(FAILING_CALLS, "    ")
    (tmp_path / "test_calls.py").write_text(f"def test_refusals():\n{body}")
    done = pytest_run(tmp_path, "--warpwright=a100", "--warpwright-check=memcheck", "-rA")
    assert "1 passed" in done.stdout, done.stdout
    assert "CUDA_ERROR_OUT_OF_MEMORY" in done.stdout


NATIVE = """
typedef int CUresult; typedef unsigned long long CUdeviceptr;
CUresult cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(CUdeviceptr *, unsigned long);
CUresult cuMemFree_v2(CUdeviceptr);
static int too_much(CUdeviceptr *block) {
    return cuMemAlloc_v2(block, 1UL << 50);
}
int main(void) {
    void *context; CUdeviceptr block;
    cuInit(0); cuDevicePrimaryCtxRetain(&context, 0); cuCtxSetCurrent(context);
    return too_much(&block) != 2
        || cuMemFree_v2(4096) != 1;
}
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("debug", [True, False])
def test_findings_name_calls_of_native_programs(tmp_path: Path, debug: bool) -> None:
    from warpwright.driver import attach

    if debug and shutil.which("addr2line") is None:
        pytest.skip("no addr2line")
    (tmp_path / "native.c").write_text(NATIVE)
    options = ["-g"] if debug else []
    command = ["cc", *options, "-O0", "native.c", "-o", "native", f"-L{attach.folder()}", "-lcuda"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = warpwright("run", "--check", "memcheck", "./native", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    hosts = [x.split("Host: ")[1].split(" > ") for x in done.stdout.splitlines() if "Host: " in x]
    if debug:
        places = [[p.rsplit("/", 1)[-1] for p in host] for host in hosts]
        assert places == [["native.c:11", "native.c:6"], ["native.c:12"]]
    else:
        assert [[p.partition("+")[0] for p in host] for host in hosts] == [["main", "too_much"], ["main"]]


CHILD_TESTS = """
import subprocess
import sys
import pytest

PROGRAMS = {{"right": {right!r}, "wrong": {wrong!r}, "leak": {leak!r}}}

def run(name, tmp_path):
    (tmp_path / f"{{name}}.py").write_text(PROGRAMS[name])
    subprocess.run([sys.executable, f"{{name}}.py"], cwd=tmp_path, check=True)

def test_wrong(tmp_path):
    run("wrong", tmp_path)

def test_right(tmp_path, warpwright_runs):
    assert warpwright_runs == []
    run("right", tmp_path)
    (launch,) = warpwright_runs
    assert launch.chip == "a100" and launch.cycles > 1000
    run("right", tmp_path)
    assert len(warpwright_runs) == 2 and len(warpwright_runs[1:]) == 1

def test_on_the_driver(tmp_path):
    run("leak", tmp_path)

@pytest.fixture
def ends_late(tmp_path):
    yield
    run("wrong", tmp_path)

def test_fixture(ends_late):
    pass
"""


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_pytest_checks_processes_that_tests_start(tmp_path: Path) -> None:
    right, wrong = PROGRAM.format(source=RIGHT), PROGRAM.format(source=WRONG)
    text = CHILD_TESTS.format(right=right, wrong=wrong, leak=DRIVER_PROGRAM.format(free=""))
    (tmp_path / "test_children.py").write_text(text)
    done = pytest_run(tmp_path, "--warpwright=a100", "--warpwright-check=all,leakcheck", "-v")
    assert "2 failed, 2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    failed = {line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))}
    assert failed == {
        "FAILED test_children.py::test_wrong",
        "FAILED test_children.py::test_on_the_driver",
        "ERROR test_children.py::test_fixture",
    }
    report, summary = done.stdout.split("short test summary")
    race = "Race reported between Write access and Read access"
    assert report.count(race) == 4, "two failures, each with the finding as its first line and in full"
    assert summary.count(race) == 2
    assert "========= Leaked 1,000 bytes at 0x" in done.stdout
    assert "outside of tests" not in done.stdout
    done = pytest_run(tmp_path, "--warpwright=a100")
    assert "4 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.ci
@pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")
def test_pytest_tells_of_processes_that_end_outside_of_tests(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(PROGRAM.format(source=WRONG))
    imports = "import subprocess, sys\nsubprocess.run([sys.executable, 'wrong.py'], check=True)\n"
    (tmp_path / "test_late.py").write_text(imports + "def test_nothing():\n    pass\n")
    done = pytest_run(tmp_path, "--warpwright=a100", "--warpwright-check=racecheck")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "processes that ended outside of tests" in done.stdout
    assert "Race reported between Write access and Read access" in done.stdout
