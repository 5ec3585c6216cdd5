"""PTX to machine code with the assembler of the wheel ``nvidia-cuda-nvcc-cu12``, as nvcc and the driver do it.

The assembler sees a whole program: functions that are not inlined stay in their kernel's section and share its registers. nvJitLink compiles the same PTX for
linking, with ABI calls and more registers, which is right for several inputs (``nvjitlink.py``) but second best for one.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from warpwright.toolchain.compile_errors import LinkError, MissingToolError, parse_ptxas_log
from warpwright.toolchain.wheels import nvidia_folders, wheel_version

PACKAGE = "nvidia-cuda-nvcc-cu12"
TIMEOUT_SECONDS = 600
"""Assembling that takes longer than this is assumed never to end."""


@lru_cache(maxsize=1)
def find_assembler() -> Path | None:
    """The assembler, or None when its wheel is not installed."""
    for folder in nvidia_folders():
        for part in ("cuda_nvcc", "cu13"):
            path = folder / part / "bin" / "ptxas"
            if path.is_file():
                return path
    return None


def version() -> str:
    """Version of the installed wheel (part of cache keys), or ``"absent"``."""
    return wheel_version(PACKAGE)


def assemble(ptx: str, arch: str, *, name: str = "kernel.ptx", options: Sequence[str] = ()) -> bytes:
    """Assemble PTX text for ``sm_<arch>`` and return the cubin's bytes; line information is kept.

    Raises :class:`LinkError` with the lines of PTX that the assembler names, :class:`MissingToolError` without the
    wheel.
    """
    program = find_assembler()
    if program is None:
        raise MissingToolError(
            f"ptxas was not found: turning PTX into machine code needs the PyPI package {PACKAGE}. "
            f"Install it with: pip install '{PACKAGE}>=12.9,<13'. Cubins run without it."
        )
    with tempfile.TemporaryDirectory(prefix="warpwright-") as folder:
        Path(folder, "in.ptx").write_text(ptx)
        command = [str(program), "-lineinfo", f"-arch=sm_{arch}", *options, "in.ptx", "-o", "out.cubin"]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise LinkError(f"{name} was not assembled for sm_{arch} within {TIMEOUT_SECONDS} s.", (), "") from None
        except OSError as error:
            raise MissingToolError(
                f"{program} does not run on this machine ({error}). Reinstall it with: "
                f"pip install --force-reinstall '{PACKAGE}>=12.9,<13'."
            ) from error
        if done.returncode:
            log = done.stderr + done.stdout
            raise LinkError(f"{name} was not assembled for sm_{arch}:", parse_ptxas_log(log, name, ptx), log)
        return Path(folder, "out.cubin").read_bytes()
