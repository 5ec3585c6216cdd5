"""The libraries' file names, and their place beside the driver's in the folder of drop-in libraries."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from functools import cache, partial
from importlib import resources
from typing import Any

from warpwright.driver.attach import FURTHER, FurtherLibrary

SONAMES: dict[str, tuple[str, ...]] = {
    # Those of CUDA 12 and 13.
    "cublas": ("libcublas.so.12", "libcublas.so.13"),
    "cublasLt": ("libcublasLt.so.12", "libcublasLt.so.13"),
    "cufft": ("libcufft.so.11", "libcufft.so.12"),
    "cusparse": ("libcusparse.so.12",),
    "cusolver": ("libcusolver.so.11", "libcusolver.so.12"),
    "cudnn": ("libcudnn.so.9",),
    "nccl": ("libnccl.so.2",),
    "curand": ("libcurand.so.10",),
    "cusparseLt": ("libcusparseLt.so.0",),
    "cufile": ("libcufile.so.0",),
    "nvshmem": ("libnvshmem_host.so.3",),
    "cupti": ("libcupti.so.12", "libcupti.so.13"),
}
_VERSIONS = {"nccl": "", "cufile": "", "cusparseLt": "", "nvshmem": "NVSHMEM"}
"""Symbol versions of libraries that are not the file's name; empty if the symbols have no version."""

_OWN_ATTENTION = ("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
"""Lets PyTorch prefer its own attention kernels, whose machine code it brings, to cuDNN's graphs of attention, which are not provided."""


@cache
def table(library: str) -> dict[str, tuple[str, str]]:
    """Letters of arguments and result by name, in the order of the library's table (``bench/library_entry_points.py``)."""
    rows = resources.files("warpwright.libraries").joinpath(f"data/{library}.txt").read_text(encoding="utf-8")
    found = {}
    for row in rows.splitlines():
        name, letters, *result = row.split()
        found[name] = ("" if letters == "-" else letters, result[0] if result else "i")
    return found


def _callbacks(library: str) -> Sequence[Any]:
    calls = importlib.import_module("warpwright.libraries.calls")
    return calls.callbacks(library)


def provide() -> None:
    """Let the driver's folder hold these libraries too."""
    os.environ.setdefault(*_OWN_ATTENTION)
    known = {one.soname for one in FURTHER}
    for library, sonames in SONAMES.items():
        if known.issuperset(sonames):
            continue
        entries = {name: letters for name, (letters, _) in table(library).items()}
        for soname in sonames:
            version = _VERSIONS.get(library, soname)
            FURTHER.append(
                FurtherLibrary(soname, version, entries, "warpwright.libraries.provided", partial(_callbacks, library))
            )
