"""Programs that draw or compute through the system's Mesa on a simulated chip: when their tests can run, and what they print and save."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def needs_mesa(driver: str) -> list[pytest.MarkDecorator]:
    """The marks of a module of tests through one of Mesa's drivers, such as ``"nouveau"``: they take seconds each, and need its packages."""
    missing = (
        importlib.util.find_spec("moderngl") is None
        or ctypes.util.find_library("EGL") is None
        or not list(Path("/usr/lib").glob(f"*/dri/{driver}_dri.so"))
    )
    reason = f"needs moderngl, EGL and Mesa's {driver} driver (libegl1, libgl1-mesa-dri)"
    return [pytest.mark.ci, pytest.mark.skipif(missing, reason=reason)]


def run(chip: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``warpwright run`` on a chip; its program can import what this process can."""
    return subprocess.run(
        [sys.executable, "-m", "warpwright", "run", "--gpu", chip, *words],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=500,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables},
    )


def complaints(printed: str) -> list[str]:
    """Warpwright's own lines among what a program printed, but for those about compilation and progress, which a slow machine prints."""
    own = [line for line in printed.splitlines() if line.startswith("warpwright:")]
    return [line for line in own if "compiling" not in line and not re.search(r"\d s\b", line)]


@cache
def saved_by(program: Path, chip: str, timing: str) -> tuple[dict[str, Any], str]:
    """Run a program that saves its arrays in the ``.npz`` file that its argument names; returns them and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "results.npz"
        done = run(chip, "--timing", timing, str(program), str(place))
        assert done.returncode == 0, done.stderr
        assert "warpwright: drm" not in done.stderr, done.stderr
        return dict(np.load(place)), done.stdout
