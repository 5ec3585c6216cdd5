"""Compiles CUDA C++, PTX, a cubin, or a path to one of them to kernels of machine code.

Results are kept on disk (``cache.py``) under a key that covers the source with the files it includes, the options,
the architecture and the versions of the compiler, the linker and the header wheels.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from warpwright.toolchain import nvjitlink, nvrtc, ptxas
from warpwright.toolchain.cache import DiskCache, cache_key, default_cache
from warpwright.toolchain.compile_errors import CompileError, CubinError, Diagnostic, SourceNotFoundError
from warpwright.toolchain.cubin import Kernel, Module, check_architecture, read_cubin
from warpwright.toolchain.wheels import header_versions

_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_FORMAT = "2"
"""Version of the format of cache entries."""

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*(?:\"([^\"\n]+)\"|<([^>\n]+)>|(\S+))", re.MULTILINE)
_ASSEMBLER_OPTION = re.compile(r"^--?(maxrregcount|Xptxas|ptxas-options)(=|$)")
DEFAULT_NAME, DEFAULT_OPENCL_NAME = "kernel.cu", "kernel.cl"
"""Names of sources given as text."""
OWN_FEATURES = ("90",)
"""Architectures with a variant ``a`` whose instructions no other architecture has."""
_ARCHITECTURE_OPTION = re.compile(r"^(?:-arch|--gpu-architecture)=(\S+)$")
_INCLUDE_OPTION = re.compile(r"^(?:-I|--include-path)=?(.*)$")
_PRE_INCLUDE = re.compile(r"^--?(include$|include=|pre-include|use-pch|pch)")
_PTX_VERSION = re.compile(r"^\s*\.version\s+\d+\.\d+", re.MULTILINE)
_PTX_TARGET = re.compile(r"^\s*\.target\s+sm_(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CompilerInput:
    """What a compiler gets besides the source."""

    options: Sequence[str] = ()
    """Options of NVRTC, such as ``"-use_fast_math"``."""
    defines: Mapping[str, str | int | None] | None = None
    """Preprocessor macros."""
    include_folders: Sequence[str | Path] = ()
    """Folders that are searched for ``#include``."""
    name_expressions: Sequence[str] = ()
    """C++ names of template kernels to instantiate, such as ``"saxpy<float>"``."""


NOTHING = CompilerInput()


@dataclass(slots=True)
class CompiledModule:
    """A module's machine code and the texts that it was compiled from."""

    module: Module
    cubin: bytes
    ptx: str | None = None
    source: str | None = None
    """CUDA C++ text, if the module was compiled from it."""
    text_lines: tuple[tuple[str, int] | None, ...] = ()
    """File and line that each line of the text comes from, where the text was part of another file."""
    name: str = DEFAULT_NAME
    folder: str = ""
    """Working folder of the compiler."""
    lowered_names: dict[str, str] = field(default_factory=dict)
    """Symbol of each name expression."""
    warnings: tuple[Diagnostic, ...] = ()
    arch: str = ""
    """The architecture it was compiled for: ``"80"``, ``"90a"``."""
    refused: dict[str, str] = field(default_factory=dict)
    """Kernels of the PTX that were omitted because the architecture cannot run them, by symbol, with the reason."""

    @property
    def kernels(self) -> dict[str, Kernel]:
        """Kernels by symbol."""
        return self.module.kernels

    def find(self, name: str) -> Kernel:
        """The kernel called ``name`` (symbol, plain name or name expression); see :meth:`Module.find`."""
        return self.module.find(name, self.lowered_names)


def architecture(arch: int | str) -> str:
    """``80``, ``"80"``, ``"sm_80"`` and ``"compute_80"`` as ``"80"``; ``"sm_90a"`` as ``"90a"``.

    Raises :class:`ValueError` for anything else.
    """
    text = str(arch).removeprefix("sm_").removeprefix("compute_")
    if not re.fullmatch(r"\d{2,3}[af]?", text):
        raise ValueError(f"{arch!r} is not an architecture: give a number such as 80, or a name such as sm_90a.")
    return text


def _number(arch: int | str) -> int:
    return int(architecture(arch).rstrip("af"))


def _given_architecture(wanted: str, options: Sequence[str]) -> tuple[str, list[str]]:
    """The architecture that the options name, otherwise ``wanted``, and the other options."""
    others = []
    for option in options:
        match = _ARCHITECTURE_OPTION.match(option)
        if match is None:
            others.append(option)
        else:
            wanted = architecture(match[1])
    return wanted, others


def _included(source: str, folders: Sequence[Path], seen: dict[Path, bytes]) -> bool:
    """Collect the files that a text includes from ``folders``, to any depth; returns False if this is impossible."""
    for match in _INCLUDE.finditer(source):
        name = match[1] or match[2]
        if name is None:
            # An include whose name is a macro: only the preprocessor knows the file.
            return False
        for folder in folders:
            path = folder / name
            if path in seen:
                break
            if path.is_file():
                seen[path] = path.read_bytes()
                text = seen[path].decode(errors="replace")
                if not _included(text, (path.parent, *folders), seen):
                    return False
                break
    return True


def _option_folders(options: Sequence[str]) -> list[Path]:
    """Folders of -I options, whether written as one word (``-Ifolder``) or two."""
    found = []
    for option, following in zip(options, (*options[1:], ""), strict=False):
        match = _INCLUDE_OPTION.match(option)
        if match is not None:
            found.append(Path(match[1] or following))
    return found


def _assembler_options(options: Sequence[str]) -> list[str]:
    """The NVRTC options that affect machine code, in the PTX assembler's spelling."""
    found: list[str] = []
    pending = ""
    for option in options:
        if pending:
            found += _assembler_option(pending, option)
            pending = ""
            continue
        match = _ASSEMBLER_OPTION.match(option)
        if match is not None and match[2]:
            found += _assembler_option(match[1], option[match.end() :])
        elif match is not None:
            pending = match[1]
        elif option in ("-G", "--device-debug"):
            found.append("-g")
    return found


def _assembler_option(word: str, value: str) -> list[str]:
    return value.split(",") if word in ("Xptxas", "ptxas-options") else [f"-{word}={value}"]


def compile_source(
    source: str | os.PathLike[str],
    arch: int | str,
    *,
    options: Sequence[str] = (),
    defines: Mapping[str, str | int | None] | None = None,
    include_folders: Sequence[str | Path] = (),
    name_expressions: Sequence[str] = (),
    name: str | None = None,
    cache: DiskCache | None = None,
) -> CompiledModule:
    """Compile CUDA C++ (its text, or a path to it) into machine code for ``arch``.

    ``name`` is what messages and line information call the source (a path's own name otherwise); a path's folder
    is searched for includes.  ``name_expressions`` are C++ names of kernels to instantiate (``"saxpy<float>"``).
    ``cache`` is the default one when None.  ``-arch=sm_90a`` among the options asks for an architecture's own
    features; code that ``arch`` cannot run is refused.  Without such an option, a source with inline PTX that requires
    them (wgmma) is compiled for them.

    Raises :class:`CompileError`, :class:`ArchitectureError` or :class:`MissingToolError`.
    """
    named = any(_ARCHITECTURE_OPTION.match(option) for option in options)
    wanted, options = _given_architecture(architecture(arch), options)
    text, name, folders = _text_of(source, name, include_folders)
    store = cache if cache is not None else default_cache()
    headers: dict[Path, bytes] = {}
    searched = [Path(name).parent, *folders, *_option_folders(options)]
    cacheable = not any(_PRE_INCLUDE.match(o) for o in options) and _included(text, searched, headers)
    asked = json.dumps([list(options), sorted((defines or {}).items()), list(name_expressions)])
    key = _key(text, name, wanted, asked, folders, headers)
    given = partial(
        nvrtc.compile_cuda,
        text,
        options=options,
        defines=defines,
        include_folders=folders,
        name_expressions=name_expressions,
        name=name,
    )

    def compiled() -> nvrtc.Compiled:
        return given(wanted) if named else _with_own_features(given, wanted)

    packed = store.made("cuda", key, lambda: _pack(compiled())) if cacheable else None
    result = _unpack(packed) or compiled()
    module = read_cubin(result.cubin, name, source_name=name, source_folder=result.folder)
    check_architecture(module, _number(arch))
    wanted = module.target.removeprefix("sm_")
    return CompiledModule(
        module,
        result.cubin,
        ptx=result.ptx,
        source=text,
        name=name,
        folder=result.folder,
        lowered_names=dict(result.lowered_names),
        warnings=result.warnings,
        arch=wanted,
    )


def _text_of(
    source: str | os.PathLike[str], name: str | None, include_folders: Sequence[str | Path]
) -> tuple[str, str, list[Path]]:
    """The text of a source, its name in messages, and the folders that are searched for includes."""
    folders = [Path(f) for f in include_folders]
    if not isinstance(source, os.PathLike):
        return source, name or DEFAULT_NAME, folders
    path = Path(source)
    return _read_text(path), name or str(path), [path.parent, *folders]


def _key(text: str, name: str, arch: str, asked: str, folders: Sequence[Path], headers: Mapping[Path, bytes]) -> str:
    """The cache key of a compilation: everything that its result depends on."""
    return cache_key(
        [
            *(_FORMAT, text, name, arch, asked),
            *(str(f) for f in folders),
            *(part for path, data in sorted(headers.items()) for part in (str(path), data)),
            *(str(nvrtc.version()), header_versions()),
            # The line table qualifies the files named by #line with the working folder.
            *([os.getcwd()] if "#line" in text else []),
        ]
    )


def _with_own_features(given: Callable[[str], nvrtc.Compiled], wanted: str) -> nvrtc.Compiled:
    """Compile for an architecture, or for its own features (``sm_90a``) if the source has PTX that needs them."""
    try:
        return given(wanted)
    except CompileError as error:
        if f"not supported on .target 'sm_{wanted}'" not in error.log or wanted not in OWN_FEATURES:
            raise
        return given(f"{wanted}a")


def _pack(result: nvrtc.Compiled) -> bytes:
    """A line of JSON, then the cubin."""
    warnings = [[w.severity, w.message, w.source_name, w.line, w.column, w.text] for w in result.warnings]
    return (
        json.dumps([result.ptx, result.lowered_names, warnings, result.log, result.folder]).encode()
        + b"\n"
        + result.cubin
    )


def _unpack(data: bytes | None) -> nvrtc.Compiled | None:
    if data is None:
        return None
    head, _, cubin = data.partition(b"\n")
    ptx, names, warnings, log, folder = json.loads(head)
    return nvrtc.Compiled(ptx, cubin, names, tuple(Diagnostic(*w) for w in warnings), log, folder)


def link_ptx(
    ptx: str,
    arch: int | str,
    *,
    name: str = "kernel.ptx",
    options: Sequence[str] = (),
    cache: DiskCache | None = None,
) -> CompiledModule:
    """Assemble PTX text into machine code for ``arch``; ``options`` are the assembler's (``-maxrregcount=32``).

    The assembler of the wheel nvidia-cuda-nvcc-cu12 is used, nvJitLink where that wheel is absent.  Raises
    :class:`LinkError` with the lines of PTX that the assembler names.
    """
    wanted = architecture(arch)
    store = cache if cache is not None else default_cache()
    whole_program = ptxas.find_assembler() is not None
    tool = f"ptxas {ptxas.version()}" if whole_program else f"nvJitLink {nvjitlink.version()}"
    key = cache_key([_FORMAT, ptx, name, wanted, json.dumps(list(options)), tool])

    def assembled() -> bytes:
        if whole_program:
            return ptxas.assemble(ptx, wanted, name=name, options=options)
        return nvjitlink.link([(nvjitlink.InputKind.PTX, ptx.encode() + b"\0", name)], wanted, options)

    cubin = store.made("ptx", key, assembled)
    return CompiledModule(read_cubin(cubin, name), cubin, ptx=ptx, name=name, arch=wanted)


def link(
    inputs: Sequence[tuple[nvjitlink.InputKind, bytes, str]],
    arch: int | str,
    *,
    name: str = "linked.cubin",
    options: Sequence[str] = (),
) -> CompiledModule:
    """Link several inputs (kind, contents, name) into one module with nvJitLink.

    Raises :class:`LinkError`.
    """
    wanted = architecture(arch)
    cubin = nvjitlink.link(inputs, wanted, options)
    return CompiledModule(read_cubin(cubin, name), cubin, name=name, arch=wanted)


def load(
    source: str | bytes | os.PathLike[str],
    arch: int | str,
    given: CompilerInput = NOTHING,
    *,
    name: str | None = None,
    chip: str = "",
    cache: DiskCache | None = None,
) -> CompiledModule:
    """Machine code for ``arch`` from CUDA C++ text, PTX text, a cubin's or fatbin's bytes, or a path to any of these.

    A one-line string that names an existing file, or ends in .cu, .ptx or .cubin, is a path; other strings are PTX if they contain a ``.version`` directive and
    CUDA C++ otherwise. ``chip`` is the chip's name for messages.

    Raises :class:`ArchitectureError` if a cubin's machine code does not run on ``arch``, :class:`CubinError` if the bytes are neither a cubin nor a fatbin or
    if name expressions are given without C++, :class:`SourceNotFoundError` for a path that cannot be read, and the errors of compiling.
    """
    wanted = architecture(arch)
    path = _as_path(source)
    data: bytes | None = None
    if path is not None:
        data = _read_file(path)
        name = name or str(path)
    elif isinstance(source, bytes):
        data = source
    if data is not None and data[:4] in (b"\x7fELF", _FATBIN_MAGIC):
        _refuse_expressions(given.name_expressions, name or "machine code")
    if data is not None and data[:4] == b"\x7fELF":
        module = read_cubin(data, name or "cubin")
        check_architecture(module, _number(wanted), chip)
        return CompiledModule(module, data, name=module.name, arch=wanted)
    if data is not None and data[:4] == _FATBIN_MAGIC:
        return link([(nvjitlink.InputKind.FATBIN, data, name or "fatbin")], wanted, name=name or "fatbin")
    text = str(source) if data is None else _decoded(data, name or "bytes")
    target = _PTX_TARGET.search(text)
    if target and _PTX_VERSION.search(text):
        _refuse_expressions(given.name_expressions, name or "kernel.ptx")
        if target[1] == f"{wanted}a":
            # PTX for an architecture's own features runs on that architecture.
            wanted = target[1]
        return link_ptx(text, wanted, name=name or "kernel.ptx", options=_assembler_options(given.options), cache=cache)
    return compile_source(
        text,
        wanted,
        options=given.options,
        defines=given.defines,
        include_folders=([path.parent] if path else []) + [Path(f) for f in given.include_folders],
        name_expressions=given.name_expressions,
        name=name,
        cache=cache,
    )


def source_text(source: str | bytes | os.PathLike[str], name: str | None) -> tuple[str, str, list[Path]]:
    """The text of CUDA C++, its name in messages, and the folders that contain it.

    Raises:
        SourceNotFoundError: for a path that cannot be read.
        CubinError: for machine code.
    """
    path = _as_path(source)
    if path is not None:
        return _read_text(path), name or str(path), [path.parent]
    if isinstance(source, bytes):
        return _decoded(source, name or "bytes"), name or DEFAULT_NAME, []
    return str(source), name or DEFAULT_NAME, []


def _as_path(source: str | bytes | os.PathLike[str]) -> Path | None:
    if isinstance(source, os.PathLike):
        return Path(source)
    if isinstance(source, bytes) or "\n" in source or len(source) > 4096:
        return None
    looks = source.endswith((".cu", ".cuh", ".ptx", ".cubin", ".cpp", ".cxx", ".cc"))
    return Path(source) if looks or (source and "{" not in source and Path(source).is_file()) else None


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise SourceNotFoundError(f"cannot read {path}: {reason} (the working folder is {Path.cwd()})") from None


def _read_text(path: Path) -> str:
    return _decoded(_read_file(path), str(path))


def _decoded(data: bytes, name: str) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise CubinError(
            f"{name} is not a cubin (no ELF magic number) and not text: give CUDA C++, PTX, or a cubin."
        ) from None
    if "\0" in text.rstrip("\0"):
        raise CompileError(f"{name} holds zero bytes, so it is not source text.", (), "")
    return text.rstrip("\0")


def _refuse_expressions(name_expressions: Sequence[str], name: str) -> None:
    if name_expressions:
        raise CubinError(
            f"{name} holds no C++ source, so {name_expressions[0]} cannot be instantiated. "
            "Give CUDA C++, or ask for a kernel by its symbol."
        )
