"""Write the tables of the driver's and the runtime's entry points from CUDA's public headers.

    python -m bench.entry_points driver HEADER_FOLDER ... > warpwright/driver/data/driver.txt
    python -m bench.entry_points runtime HEADER_FOLDER ... > warpwright/driver/data/runtime12.txt    (and runtime13.txt)
    python -m bench.entry_points nvml HEADER_FOLDER > warpwright/driver/data/nvml.txt

A row is a name and one letter for each argument: i int and enumerations, u unsigned, Q 64-bit integers, pointers and
handles, f float, d double, and structures passed by value: L eight bytes, D dim3, P cudaPitchedPtr, E cudaExtent,
I an IPC handle of 64 bytes.  Needs a C compiler; the folders' headers are read in order, and the last one wins.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_BY_VALUE = {
    "CUmemLocation": "L",
    "cudaMemLocation": "L",
    "dim3": "D",
    "cudaPitchedPtr": "P",
    "cudaExtent": "E",
    "CUipcMemHandle": "I",
    "CUipcEventHandle": "I",
    # Structures of one pointer.
    "nvmlDevice_t": "Q",
    "nvmlUnit_t": "Q",
    "nvmlEventSet_t": "Q",
    "nvmlGpuInstance_t": "Q",
    "nvmlComputeInstance_t": "Q",
    "nvmlGpmSample_t": "Q",
    "nvmlSystemEventSet_t": "Q",
    "cudaIpcMemHandle_t": "I",
    "cudaIpcEventHandle_t": "I",
    "int": "i",
    "unsigned int": "u",
    "unsigned": "u",
    "unsigned char": "u",
    "unsigned short": "u",
    "cuuint32_t": "u",
    "GLuint": "u",
    "GLenum": "u",
    "float": "f",
    "double": "d",
    "CUdevice": "i",
    "CUdevice_v1": "i",
    "size_t": "Q",
    "unsigned long long": "Q",
    "cuuint64_t": "Q",
    "CUdeviceptr": "Q",
    "CUdeviceptr_v1": "u",
    "CUdeviceptr_v2": "Q",
    "CUtexObject": "Q",
    "CUsurfObject": "Q",
    "cudaTextureObject_t": "Q",
    "cudaSurfaceObject_t": "Q",
}


_HEADERS = {
    # Files, and what a declaration in them begins with.
    "driver": (("cuda.h", "cudaProfiler.h"), r"CUresult"),
    "runtime": (
        ("cuda_runtime_api.h", "cuda_profiler_api.h"),
        r"(?:cudaError_t|const char\s*\*|struct cudaChannelFormatDesc)",
    ),
    "nvml": (("nvml.h",), r"(?:nvmlReturn_t|const\s+char\s*\*)"),
}
_HOST_STUBS = """
__cudaGetKernel QQ
__cudaInitModule Q
__cudaLaunchKernel QDDQQQ
__cudaLaunchKernel_ptsz QDDQQQ
__cudaPopCallConfiguration QQQQ
__cudaPushCallConfiguration DDQQ
__cudaRegisterFatBinary Q
__cudaRegisterFatBinaryEnd Q
__cudaRegisterFunction QQQQiQQQQQ
__cudaRegisterHostVar QQQQ
__cudaRegisterManagedVar QQQQiQii
__cudaRegisterUnifiedTable Q
__cudaRegisterVar QQQQiQii
__cudaUnregisterFatBinary Q
"""
"""Functions that the compiler's host code calls (crt/host_runtime.h)."""


def letters_of_types(text: str) -> dict[str, str]:
    """Letter of each type that is a pointer or an enumeration."""
    found = dict(_BY_VALUE)
    for match in re.finditer(r"typedef enum\b[^;{]*(?:\{[^}]*\})?\s*(\w+)\s*;", text):
        found.setdefault(match[1], "i")
    for match in re.finditer(r"typedef[^;{}]*\(\s*(?:\w+\s+)?\*\s*(\w+)\s*\)\s*\(", text):
        found.setdefault(match[1], "Q")
    for _ in range(3):
        for match in re.finditer(r"typedef\s+([^;{}()]*?)\s*(\*?)\s*\b(\w+)\s*;", text):
            kind = "Q" if match[2] or "*" in match[1] else letter_of(match[1], found)
            if kind:
                found.setdefault(match[3], kind)
    return found


def letter_of(declared: str, types: dict[str, str]) -> str | None:
    if "*" in declared or "[" in declared or "(" in declared:
        return "Q"
    words = [w for w in declared.split() if w not in ("const", "struct", "extern")]
    if words and words[0] == "enum":
        return "i"
    for count in range(len(words), 0, -1):
        kind = types.get(" ".join(words[:count]))
        if kind:
            return kind
    return None


def rows(header: Path, pattern: str, folders: list[str]) -> dict[str, str]:
    """Names and letters of the functions that a header declares."""
    command = ["cc", "-E", "-x", "c", "-D__CUDA_API_VERSION_INTERNAL", "-D__CUDART_API_VERSION_INTERNAL"]
    command += ["-DNVML_NO_UNVERSIONED_FUNC_DEFS"]
    command += [f"-I{f}" for f in folders] + [str(header)]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    types = letters_of_types(text)
    found: dict[str, str] = {}
    for match in re.finditer(pattern + r"\s+((?:cu|cuda|nvml)[A-Z]\w*)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", text):
        arguments = [a.strip() for a in re.split(r",(?![^()]*\))", match[2]) if a.strip() not in ("", "void")]
        letters = [letter_of(a, types) for a in arguments]
        if None in letters:
            print(f"unknown type in {match[1]}: {arguments[letters.index(None)]}", file=sys.stderr)
            continue
        found[match[1]] = "".join(str(x) for x in letters)
    return found


def main() -> None:
    what, folders = sys.argv[1], sys.argv[2:]
    found: dict[str, str] = {}
    for folder in folders:
        names, pattern = _HEADERS[what]
        for name in names:
            if not (Path(folder) / name).is_file():
                continue
            found |= rows(Path(folder) / name, pattern, folders)
        # Streams of each thread: variants that a define gives the plain names.
        for file in Path(folder).glob("cuda*api.h" if what == "runtime" else "cuda.h"):
            for match in re.finditer(r"#define\s+\w+\s+__CUDA(?:RT)?_API_(PTDS|PTSZ)\((\w+)\)", file.read_text()):
                if match[2] in found:
                    found[f"{match[2]}_{match[1].lower()}"] = found[match[2]]
    if what == "runtime":
        found |= dict(row.split() for row in _HOST_STUBS.split("\n") if row)
    for name in sorted(found):
        print(name, found[name] or "-")


if __name__ == "__main__":
    main()
