"""Write the tables of the math libraries' entry points from their public headers.

    python -m bench.library_entry_points cublas HEADER_FOLDER ... > warpwright/libraries/data/cublas.txt

The libraries are the keys of :data:`HEADERS`.  A row is a name, one letter for each argument as in :mod:`bench.entry_points` (N a ncclUniqueId by value) and,
where the result is no status, its letter.  Needs a C compiler.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bench.entry_points import letter_of, letters_of_types

HEADERS = {
    "cublas": ("cublas_v2.h", r"cublas[A-Z]\w*", "cublasLt"),
    "cublasLt": ("cublasLt.h", r"cublasLt[A-Z]\w*", ""),
    "cufft": ("cufftXt.h", r"cufft[A-Z]\w*", ""),
    "cudnn": ("cudnn.h", r"cudnn[A-Z]\w*", ""),
    "cusparse": ("cusparse.h", r"cusparse[A-Z]\w*", ""),
    "cusolver": ("cusolverDn.h", r"cusolver(?:Dn|Get)[A-Z]\w*", ""),
    "curand": ("curand.h", r"curand[A-Z]\w*", ""),
    "nccl": ("nccl.h", r"nccl[A-Z]\w*", ""),
    "cufile": ("cufile.h", r"cuFile[A-Z]\w*", ""),
    "cusparseLt": ("cusparseLt.h", r"cusparseLt[A-Z]\w*", ""),
    "cupti": ("cupti.h", r"cupti[A-Z]\w*", ""),
}
"""Header, names, and the beginning of names that another library has."""
_OF_CPLUSPLUS = ("cusparseLt.h",)
"""Headers that include those of C++."""
_RESULTS = {
    "size_t": "Q",
    "void": "",
    "unsigned": "u",
    "unsigned int": "u",
    "uint64_t": "Q",
    "long": "Q",
    "ssize_t": "Q",
    # Two 32-bit numbers in one register.
    "CUfileError_t": "Q",
}
_OTHER_TYPES = {
    "ncclUniqueId": "N",
    "_Bool": "i",
    "off_t": "Q",
    "long": "Q",
    "long long": "Q",
    "int64_t": "Q",
    "uint64_t": "Q",
    "signed char": "i",
    "int32_t": "i",
    "uint32_t": "u",
}
_DEVICE_SIDE = {
    "nccl": {
        "ncclDevCommCreate": "QQQ",
        "ncclDevCommDestroy": "QQ",
        "ncclGetLsaMultimemDevicePointer": "QQQ",
        "ncclGetPeerDevicePointer": "QQiQ",
    }
}
"""Functions that headers for device code declare (nccl_device.h)."""
_CONVENTIONS = re.compile(
    r"\b(?:CUBLASWINAPI|CUDNNWINAPI|CUFFTAPI|CURANDAPI|CUSPARSEAPI|CUDENSEAPI|extern|inline)\b|\"C\""
)


def _preprocessed(header: str, folders: list[str]) -> str:
    language = "c++" if header in _OF_CPLUSPLUS else "c"
    command = ["cc", "-E", "-P", "-x", language, *(f"-I{f}" for f in folders), "-include", header, "/dev/null"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    text = re.sub(r"\b(?:__declspec|CUSPARSE_DEPRECATED\w*)\s*\([^()]*\)", "", text)
    return re.sub(r"\s+", " ", _CONVENTIONS.sub(" ", text))


def rows(library: str, folders: list[str]) -> dict[str, str]:
    """Letters by name."""
    header, names, others = HEADERS[library]
    text = _preprocessed(header, folders)
    types = letters_of_types(text) | dict.fromkeys(re.findall(r"\benum (\w+) ?\{", text), "i") | _OTHER_TYPES
    found: dict[str, str] = dict(_DEVICE_SIDE.get(library, {}))
    for match in re.finditer(rf"([\w \*]+?[ \*])\s*(p?{names})\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", text):
        name = match[2]
        if (others and name.startswith(others)) or name.startswith("p"):
            continue
        arguments = [a.strip() for a in re.split(r",(?![^()]*\))", match[3]) if a.strip() not in ("", "void")]
        letters = [letter_of(a, types) for a in arguments]
        if None in letters:
            print(f"unknown type in {name}: {arguments[letters.index(None)]}", file=sys.stderr)
            continue
        result = match[1].replace("const", " ").strip()
        kind = "Q" if "*" in result else _RESULTS.get(result, "i")
        found[name] = ("".join(map(str, letters)) or "-") + (f" {kind}" if kind != "i" else "")
    return found


def main() -> None:
    for name, letters in sorted(rows(sys.argv[1], sys.argv[2:]).items()):
        print(name, letters)


if __name__ == "__main__":
    assert Path(sys.argv[2]).is_dir(), "name the folders of the headers"
    main()
