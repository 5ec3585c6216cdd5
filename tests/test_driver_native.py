"""C programs on the driver API (``native/driver.c``): images of each kind, graphs, virtual memory, errors, threads and fork."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.driver_library import VECTOR_ADD
from tests.test_driver_runtime import fatbin
from warpwright.toolchain.ptxas import assemble

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
    pytest.mark.skipif(not sysconfig.get_config_var("Py_ENABLE_SHARED"), reason="this Python has no shared library"),
]
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("native") / "driver"
    source = Path(__file__).parent / "native/driver.c"
    subprocess.run(["cc", "-w", "-g", "-pthread", "-o", target, source, "-ldl"], check=True)
    return target


@pytest.fixture
def ptx(tmp_path: Path) -> Path:
    (tmp_path / "add.ptx").write_text(VECTOR_ADD)
    return tmp_path / "add.ptx"


def printed(program: Path, *words: str | Path, gpu: str = "a100", timing: str = "off", code: int = 0) -> str:
    """What the program prints before the table of launches."""
    command = [sys.executable, "-m", "warpwright.cli", "run", "--gpu", gpu, "--timing", timing, program, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout.split(f"{gpu} ")[0].split("the program launched")[0]


@pytest.mark.ci
@pytest.mark.parametrize("gpu", ["a100", "h200"])
def test_ptx_cubins_and_fat_binaries_are_loaded(program: Path, ptx: Path, gpu: str) -> None:
    cubin, fat = ptx.with_suffix(".cubin"), ptx.with_suffix(".fatbin")
    cubin.write_bytes(assemble(VECTOR_ADD, "80" if gpu == "a100" else "90"))
    fat.write_bytes(fatbin(VECTOR_ADD.encode()))
    assert printed(program, "images", ptx, cubin, fat, gpu=gpu) == "16\n16\n16\n"


@pytest.mark.ci
def test_a_captured_graph_runs_as_often_as_it_is_launched(program: Path, ptx: Path) -> None:
    assert printed(program, "streams", ptx, timing="full") == "16 1\n106\n"


@pytest.mark.ci
def test_two_addresses_are_one_memory(program: Path) -> None:
    assert printed(program, "virtual") == "77\n"


@pytest.mark.ci
def test_wrong_calls_get_a_drivers_codes(program: Path) -> None:
    said = "a launch failed: out-of-bounds write of 4 bytes at 0x40 in kernel fault\n"
    codes = "1 1 1\n400 200\n500 1\n1\n700 CUDA_ERROR_ILLEGAL_ADDRESS 700\n0\n"
    assert printed(program, "errors", code=1) == codes + said


@pytest.mark.ci
def test_threads_launch_at_once(program: Path, ptx: Path) -> None:
    assert printed(program, "threads", ptx) == "301 " * 8 + "\n"


@pytest.mark.ci
def test_a_forked_child_has_no_cuda(program: Path) -> None:
    assert printed(program, "fork") == "3 0\n"
