"""What ``warpwright run`` prints, and the exit code, where the driver ends a launch and the program does not look at the result."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.test_driver_devices import HEAD
from warpwright.cli import app

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")

SOURCE = r"""
extern "C" __global__ void waits(volatile int *flag) { while (*flag == 0); }
extern "C" __global__ void strays(int *far) { far[1 << 28] = 1; }
"""
LAUNCH = f"""
from warpwright.toolchain import compile_source
on(0)
module = cuda.word("cuModuleLoadData", compile_source({SOURCE!r}, "sm_90").cubin)
function = cuda.word("cuModuleGetFunction", module, sys.argv[1].encode())
cuda.launch(function, 1, 32, ctypes.c_uint64(filled(0)))
print("result", cuda.raw("cuCtxSynchronize"), flush=True)
"""


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kernel", "code", "how"),
    [
        (
            "waits",
            1,
            "a launch failed: deadlock in kernel waits, block (0, 0, 0): warps run, but only repeat themselves",
        ),
        ("strays", 1, "a launch failed: out-of-bounds write of 4 bytes at 0x"),
    ],
)
def test_a_launch_that_the_driver_ends_is_named(kernel: str, code: int, how: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(HEAD + LAUNCH, encoding="utf-8")
    words = ["run", "--gpu", "h200", "--timing", "off", sys.executable, str(program), kernel]
    done = CliRunner().invoke(app, words)
    assert how in done.stdout, done.stdout + done.stderr
    assert "launched no kernel" not in done.stdout
    assert done.exit_code == code
    for given in (0, 3):
        chosen = CliRunner().invoke(app, ["run", "--error-exitcode", str(given), *words[1:]])
        assert chosen.exit_code == given


@pytest.mark.ci
@pytest.mark.parametrize("kernel", ["waits", "strays"])
def test_the_message_names_the_device_if_the_program_has_several(
    kernel: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    program.write_text(HEAD + LAUNCH.replace("on(0)", "on(1)"), encoding="utf-8")
    words = ["run", "--gpu", "h200,h200", "--timing", "off", sys.executable, str(program), kernel]
    CliRunner().invoke(app, words)
    message = capfd.readouterr().err  # of the program's process
    assert "block (0, 0, 0)" in message
    assert "device 1" in message
