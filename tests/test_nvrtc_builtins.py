"""NVRTC's built-ins are loaded from the wheels on an import path, whichever release of CUDA they are of."""

from __future__ import annotations

import shutil
from pathlib import Path

from warpwright.driver import nvrtc_builtins


def _loaded() -> str:
    return Path("/proc/self/maps").read_text(encoding="utf-8")


def test_the_built_ins_of_a_wheel_are_loaded_and_its_second_build_is_not(tmp_path: Path) -> None:
    some_library = next(line.split()[-1] for line in _loaded().splitlines() if "libm.so" in line or "libm-" in line)
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    for name in ("libnvrtc-builtins.so.13.0", "libnvrtc-builtins.alt.so.13.0"):
        shutil.copy(some_library, folder / name)
    nvrtc_builtins.load([str(tmp_path), str(tmp_path / "absent"), ""])
    assert str(folder / "libnvrtc-builtins.so.13.0") in _loaded()
    assert str(folder / "libnvrtc-builtins.alt.so.13.0") not in _loaded()


def test_what_is_no_library_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "nvidia" / "cuda_nvrtc" / "lib"
    folder.mkdir(parents=True)
    (folder / "libnvrtc-builtins.so.12.9").write_text("not a library", encoding="utf-8")
    nvrtc_builtins.load([str(tmp_path)])
    assert str(folder) not in _loaded()
