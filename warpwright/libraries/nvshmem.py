"""NVSHMEM is refused: its initialisation returns NVSHMEMX_ERROR_NOT_SUPPORTED, so that programs fall back to something else or end with an error that names NVSHMEM.

It cannot be provided because kernels that are linked with NVSHMEM's device library read state of its host library whose layout is not public.
"""

from __future__ import annotations

from warpwright.driver import cmemory
from warpwright.driver.cuda_error import say
from warpwright.libraries.calls import entry

SPECIFICATION = (1, 3)
"""Version of OpenSHMEM's interface."""


@entry("nvshmem_info_get_version")
def get_version(major: int, minor: int) -> None:
    for place, number in zip((major, minor), SPECIFICATION, strict=True):
        cmemory.put32(place, number)


@entry("nvshmemid_init_status", "nvshmemid_hostlib_finalize")
def not_initialized(*_: int) -> int:
    """NVSHMEM_STATUS_NOT_INITIALIZED."""
    return 0


def _register_pointer(name: str) -> None:
    @entry(name)
    def null(*_: int) -> int:
        say(f"{name} is not provided: the call returns a null pointer")
        return 0


for _name in ("malloc", "calloc", "align", "ptr"):
    _register_pointer(f"nvshmem_{_name}")
_register_pointer("nvshmemx_mc_ptr")
