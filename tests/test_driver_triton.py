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


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> subprocess.CompletedProcess[str]:
    """``warpwright run`` with these options and names of kernels."""
    pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(folder))
    options = [word for word in words if not word.isidentifier()]
    kernels = [word for word in words if word.isidentifier()]
    command = [sys.executable, "-m", "warpwright.cli", "run", *options, "tests/triton_kernels.py", *kernels]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])


@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_kernels_of_the_tutorials_agree_with_numpy(chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(tmp_path, monkeypatch, f"--gpu={chip}", "--timing=off")
    lines = done.stdout.split("\n")
    missing = [n for n in NAMES if f"{n}: agrees" not in lines]
    assert not missing, done.stdout + done.stderr


@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_kernels_of_the_tutorials_have_no_findings(chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(tmp_path, monkeypatch, f"--gpu={chip}", "--check=all")
    assert "CHECK SUMMARY: no findings" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("chip", ["a100", "h200"])
def test_an_assertion_of_some_lanes_fails(chip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton has a barrier with a guard behind it, at which the lanes wait that hold it."""
    done = run(tmp_path, monkeypatch, f"--gpu={chip}", "--timing=off", "failing_assertion")
    assert "failing_assertion: agrees" in done.stdout, done.stdout + done.stderr
    assert done.stderr.count("Assertion `too large` failed.") == 8
