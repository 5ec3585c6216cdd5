"""When tests that draw or compute through the system's Mesa can run."""

from __future__ import annotations

import ctypes.util
import importlib.util
from pathlib import Path

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
