"""Kernels that Triton compiles, run without torch and without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="drop-in libraries are ELF files")]
NAMES = (
    "vector_add",
    "fused_softmax",
    "matmul",
    "dropout",
    "layer_norm",
    "fused_attention",
    "grouped_gemm",
    "persistent_matmul",
)


@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_kernels_of_the_tutorials_agree_with_numpy(chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    command = [
        sys.executable,
        "-m",
        "warpwright.cli",
        "run",
        "--gpu",
        chip,
        "--timing",
        "off",
        "tests/triton_kernels.py",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    lines = done.stdout.split("\n")
    missing = [n for n in NAMES if f"{n}: agrees" not in lines]
    assert not missing, done.stdout + done.stderr
