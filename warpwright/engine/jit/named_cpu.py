"""Checks LLVM's name of a processor before code is generated for it: LLVM ends the process for names that it does not know."""

from __future__ import annotations

import os
import subprocess
import sys

import llvmlite
import llvmlite.binding as llvm

from warpwright.chips.chip import suggest
from warpwright.toolchain.cache import cache_key, default_cache

_PROGRAM = """
import sys
import llvmlite.binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(cpu=sys.argv[1])
if sys.argv[1] != "help":
    machine.emit_object(llvm.parse_assembly("define i64 @f(i64 %x) { ret i64 %x }"))
"""
"""Generates code for a processor. LLVM warns about unknown ones, and lists all for ``help``."""


def check_cpu(name: str) -> str:
    """The name, if LLVM generates code of this process's kind for such a processor.

    A child process tries it, once per name and version of LLVM; if no child process can run, any name is accepted.

    Raises:
        ValueError: it does not; the message suggests similar names.
    """
    version = ".".join(map(str, llvm.llvm_version_info))
    key = cache_key([name, version, llvmlite.__version__, llvm.get_process_triple()])
    cache = default_cache()
    if not sys.executable or cache.get("cpu", key) is not None:
        return name
    done = _asked(name)
    if done.returncode or done.stderr or name == "help":
        lines = _asked("help").stderr.splitlines()
        listed = [line.split(" - ")[0].strip() for line in lines if " - Select the " in line]
        if not listed:
            return name
        unsuitable = name in listed
        reason = "LLVM generates no code of this kind for it" if unsuitable else "LLVM knows no such processor"
        raise ValueError(f"{reason} ({llvm.get_process_triple()}){'' if unsuitable else suggest(name, listed)}")
    cache.put("cpu", key, b"known")
    return name


def _asked(name: str) -> subprocess.CompletedProcess[str]:
    # Without the variables of a program that the command runs, such as the simulated clock.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WARPWRIGHT_") and k != "LD_PRELOAD"}
    return subprocess.run([sys.executable, "-c", _PROGRAM, name], capture_output=True, text=True, check=False, env=kept)
