"""Locates NVIDIA's compiler libraries and headers in the wheels of PyPI, without importing them.

The wheels ``nvidia-*-cu12`` put their files under ``nvidia/<part>/{lib,include}`` of a site folder, the
same on x86-64 and aarch64; the wheels of CUDA 13 put them under ``nvidia/cu13``.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
from functools import lru_cache
from pathlib import Path

from warpwright.toolchain.compile_errors import MissingToolError

HEADER_WHEELS = {
    "nvidia-cuda-runtime-cu12": "cuda_runtime",
    "nvidia-cuda-nvcc-cu12": "cuda_nvcc",
    "nvidia-cuda-cccl-cu12": "cuda_cccl",
    "nvidia-curand-cu12": "curand",
}
"""Wheels with headers for device code: those of the runtime, ``crt/`` (which mma.h needs), libcu++, and those of cuRAND."""


@lru_cache(maxsize=1)
def nvidia_folders() -> tuple[Path, ...]:
    """Every folder ``nvidia`` on the import path that may contain the wheels' files."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None or spec.submodule_search_locations is None:
        return ()
    return tuple(dict.fromkeys(Path(p) for p in spec.submodule_search_locations))


def wheel_version(package: str) -> str:
    """The installed version of a PyPI package, or ``"absent"``."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


@lru_cache(maxsize=1)
def header_folders() -> tuple[Path, ...]:
    """Include folders of the installed header wheels, in the order in which they are searched."""
    found = []
    for part in HEADER_WHEELS.values():
        found += [f / part / "include" for f in nvidia_folders() if (f / part / "include").is_dir()]
    return tuple(found)


@lru_cache(maxsize=1)
def header_versions() -> str:
    """One line that changes when any header wheel changes (part of every cache key)."""
    return " ".join(f"{package}={wheel_version(package)}" for package in HEADER_WHEELS)


def find_library(part: str, stem: str, package: str, purpose: str) -> Path:
    """Path of ``nvidia/<part>/lib/<stem>.so.*``.

    Raises :class:`MissingToolError`, which names the PyPI package, when it is not installed.
    """
    for folder in nvidia_folders():
        for place in (folder / part / "lib", folder / "cu13" / "lib"):
            # ".alt" is a second build of NVRTC for another C library; skip it.
            found = [p for p in sorted(place.glob(f"{stem}.so.*")) if ".alt." not in p.name]
            if found:
                return found[0]
    raise MissingToolError(
        f"{stem} was not found: {purpose} needs the PyPI package {package}. "
        f"Install it with: pip install '{package}>=12.9,<13'. "
        "Cubins run without it."
    )


def load_library(part: str, stem: str, package: str, purpose: str) -> ctypes.CDLL:
    """Load the library; raises :class:`MissingToolError` if it is absent or does not load on this machine."""
    path = find_library(part, stem, package, purpose)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise MissingToolError(
            f"{path} does not load on this machine ({error}). Reinstall it with: "
            f"pip install --force-reinstall '{package}>=12.9,<13'."
        ) from error
