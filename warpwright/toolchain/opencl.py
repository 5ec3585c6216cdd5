"""OpenCL C to LLVM bitcode for Cypress and Cayman, with the system's clang and libclc.

On Debian and Ubuntu these are the packages ``clang-19`` and ``libclc-19``. ``WARPWRIGHT_CLANG`` names another clang, and ``WARPWRIGHT_LIBCLC`` another folder
of libclc's bitcode.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from warpwright.toolchain.cache import cache_key, default_cache
from warpwright.toolchain.compile import DEFAULT_OPENCL_NAME
from warpwright.toolchain.compile_errors import CompileError, Diagnostic, MissingToolError
from warpwright.toolchain.r600 import CPUS, TRIPLE

CLANGS = ("clang-19", "clang-20", "clang-18", "clang-17", "clang")
LIBRARY_FOLDERS = ("/usr/lib/clc", "/usr/share/clc", "/usr/local/share/clc")
INSTALL = "install clang and libclc (Debian, Ubuntu: apt install clang-19 libclc-19)"
STANDARD = "-cl-std=CL1.2"
TIMEOUT_SECONDS = 300
_DIAGNOSTIC = re.compile(r"^(?P<name>[^\s:]+):(?P<line>\d+):(?P<column>\d+): (?P<severity>fatal error|error|warning|note): (?P<message>.*)$")  # fmt: skip


_READ_OF_IMAGE = re.compile(r"no matching function for call to 'read_image\w+'")
_FEWEST_ARGUMENTS_WITH_LEVEL = 4
"""Arguments of ``read_image*``: image, sampler, coordinate, and a level or two gradients."""
_EXTENSIONS = {
    "cl_khr_mipmap_image": "reads with a level of detail or gradients",
    "__opencl_c_read_write_images": "read_write images",
}


class Tools(NamedTuple):
    """The compiler and its library for one chip."""

    clang: str
    library: Path


def find_clang() -> str | None:
    """The first clang on the path that has the R600 back end's target."""
    chosen = os.environ.get("WARPWRIGHT_CLANG")
    for name in (chosen,) if chosen else CLANGS:
        path = shutil.which(name)
        if path is not None and "r600" in _targets(path):
            return path
    return None


@lru_cache
def _targets(clang: str) -> str:
    return _output([clang, "--print-targets"])


@lru_cache
def version(clang: str) -> str:
    """The first line of ``clang --version``."""
    return _output([clang, "--version"]).partition("\n")[0]


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False).stdout


def find_tools(generation: str) -> Tools:
    """The compiler and the library for a generation of encodings.

    Raises:
        MissingToolError: one of them is not installed.
    """
    clang = find_clang()
    if clang is None:
        raise MissingToolError(f"OpenCL C: no clang with the target r600 was found: {INSTALL}.")
    chosen = os.environ.get("WARPWRIGHT_LIBCLC")
    name = f"{CPUS[generation]}-{TRIPLE}.bc"
    for folder in (chosen,) if chosen else LIBRARY_FOLDERS:
        path = Path(folder, name)
        if path.is_file():
            return Tools(clang, path)
    searched = chosen or ", ".join(LIBRARY_FOLDERS)
    raise MissingToolError(f"OpenCL C: libclc's {name} was not found in {searched}: {INSTALL}.")


def compile_opencl(
    source: str,
    generation: str,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    include_folders: Sequence[str | Path] = (),
    name: str = DEFAULT_OPENCL_NAME,
) -> bytes:
    """Compile OpenCL C to bitcode, including the libclc functions that it calls.

    Args:
        options: those of ``clBuildProgram``, such as ``-cl-fast-relaxed-math``.

    Raises:
        CompileError: naming line and column of each error.
        MissingToolError: clang or libclc is not installed.
    """
    tools = find_tools(generation)
    command = [tools.clang, "-target", TRIPLE, f"-mcpu={CPUS[generation]}", "-x", "cl", "-O2", "-nogpulib"]
    command += ["-Xclang", "-finclude-default-header", "-fno-discard-value-names", "-emit-llvm", "-c"]
    command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(tools.library)]
    # Words that are merged into vectors are aligned to 4 bytes only, but the engines require more.
    command += ["-fno-slp-vectorize", "-fno-vectorize"]
    if not any(option.startswith("-cl-std") for option in options):
        command.append(STANDARD)
    command += [*options, *(f"-D{k}" if v is None else f"-D{k}={v}" for k, v in (defines or {}).items())]
    command += [f"-I{folder}" for folder in include_folders]

    def made() -> bytes:
        return _compiled(command, source, name)

    if "#include" in source.replace("# include", "#include"):
        return made()  # Included files are not part of the key.
    key = cache_key([version(tools.clang), str(tools.library.stat().st_mtime_ns), source, name, *command])
    return default_cache().made("opencl", key, made)


def _compiled(command: Sequence[str], source: str, name: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="warpwright-") as folder:
        text, out = Path(folder, "in.cl"), Path(folder, "out.bc")
        text.write_text(source)
        done = subprocess.run(
            [*command, str(text), "-o", str(out)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if done.returncode:
            log = done.stderr.replace(str(text), name)
            found = diagnostics(log, source)
            raise CompileError(f"{name} does not compile:", [*found, *_hints(found, source, command)], log)
        return out.read_bytes()


def diagnostics(log: str, source: str) -> list[Diagnostic]:
    """Clang's errors and warnings with the source lines that they refer to."""
    lines = source.splitlines()
    found = []
    for line in log.splitlines():
        match = _DIAGNOSTIC.match(line)
        if match is not None and match["severity"] != "note":
            number = int(match["line"])
            text = lines[number - 1] if number <= len(lines) else ""
            severity = match["severity"].removeprefix("fatal ")
            found.append(Diagnostic(severity, match["message"], match["name"], number, int(match["column"]), text))
    return found


def _hints(found: Sequence[Diagnostic], source: str, command: Sequence[str]) -> Iterator[Diagnostic]:
    """Notes that name the options which enable what the source uses."""
    needed = set()
    for one in found:
        if _READ_OF_IMAGE.search(one.message) and _argument_count(one, source) >= _FEWEST_ARGUMENTS_WITH_LEVEL:
            needed.add("cl_khr_mipmap_image")
        needed |= {name for name in _EXTENSIONS if name in one.message}
    for name, what in _EXTENSIONS.items():
        option = f"-cl-ext=+{name}"
        if name in needed and option not in command:
            yield Diagnostic("note", f'{what} need options=["-cl-std=CL2.0", "-Xclang", "{option}"]')


def _argument_count(call: Diagnostic, source: str) -> int:
    """The number of arguments of the call at a diagnostic's place."""
    rest = "\n".join(source.splitlines()[call.line - 1 :])[call.column - 1 :]
    depth, count = 0, 1
    for character in rest[rest.find("(") :]:
        depth += (character in "([{") - (character in ")]}")
        if not depth:
            break
        count += character == "," and depth == 1
    return count
