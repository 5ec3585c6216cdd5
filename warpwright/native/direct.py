"""Functions that Python calls, compiled by ``translate`` and LLVM and cached on disk.

The key of the code covers everything that determines it: the sources, how much LLVM optimises, llvmlite's version, the processor and its features.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from warpwright.messages import report_compiling
from warpwright.native import intrinsics, numba_entry
from warpwright.native.function_source import TranslationError, is_source_of, symbol
from warpwright.native.translate import ArrayOf, Translation
from warpwright.toolchain.cache import cache_key, default_cache

KIND = "native"
"""The kind of its entries on disk."""
FULL, QUICK = "full", "quick"
"""Tiers: all of LLVM's passes, or only promotion to registers and simplification within each function, with faster code generation.  Both give the same results."""
_LEVELS = {FULL: 3, QUICK: 1}
"""LLVM's level of code generation."""
_lock = threading.Lock()
_engines: list[Any] = []  # hold the code


@cache
def _machine(tier: str = FULL) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=_LEVELS[tier],
        jit=True,
        reloc="pic",
        codemodel="jitdefault",
    )


@dataclass
class Statistics:
    """How often code came from the disk, and how often it was compiled; by entry."""

    cache_hits: Counter[str] = field(default_factory=Counter)
    cache_misses: Counter[str] = field(default_factory=Counter)


def object_code(text: str, tier: str = FULL) -> bytes:
    """Object code of a module's text."""
    machine = _machine(tier)
    module = llvm.parse_assembly(text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization = False
    options.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if tier == FULL:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_instruction_combine_pass()
    passes.run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def _loaded_engine(code: bytes) -> Any:
    """What holds object code that can run."""
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return engine


def code_key(name: str, file: Path, sources: tuple[Path, ...], tier: str = FULL) -> str:
    """Key on disk of the machine code of a function of this name in ``file``."""
    return cache_key(
        [
            *(name, tier, intrinsics.source_digest(sources), file.read_bytes(), llvmlite.__version__),
            *(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), llvm.get_process_triple()),
        ]
    )


class Entry:
    """A function that Python calls with arrays of int64 and numbers; without the GIL, and the result is a number."""

    def __init__(
        self, function: FunctionType, what: str, sources: tuple[Path, ...] = (), parts: Sequence[Any] = ()
    ) -> None:
        self.py_func = function
        self.what = what
        self.sources = sources
        self.parts: list[FunctionType] = [part.py_func for part in parts]
        self.stats = Statistics()
        self._call: Callable[..., int] | None = None
        self._addresses: dict[FunctionType, int] = {}

    @property
    def signatures(self) -> list[str]:
        """As Numba's functions have them: none while there is no machine code."""
        return [] if self._call is None else [self.py_func.__name__]

    def __call__(self, *arguments: Any) -> int:
        return self._loaded()(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments))

    def prepare(self) -> None:
        """Have its machine code, from the disk or compiled now."""
        self._loaded()

    def address(self, part: Any) -> int:
        """Where one of its parts, or the function itself, is: a C function of words."""
        self._loaded()
        return self._addresses[part.py_func]

    def _loaded(self) -> Callable[..., int]:
        if self._call is None:
            with _lock:
                self._call = self._call or self._load()
        return self._call

    def translated(self) -> str:
        """The text of its LLVM module."""
        return Translation(self.py_func, *self.parts).text

    def key(self, tier: str = FULL) -> str:
        """The key on disk of its machine code."""
        return code_key(self.py_func.__name__, Path(self.py_func.__code__.co_filename), self.sources, tier)

    def _compiled(self) -> bytes:
        """Its machine code, compiled now."""
        self.stats.cache_misses[self.py_func.__name__] += 1
        report_compiling(self.what)
        return object_code(self.translated())

    def _load(self) -> Callable[..., int]:
        name = self.py_func.__name__
        code = default_cache().made(KIND, self.key(), self._compiled)
        if not self.stats.cache_misses[name]:
            self.stats.cache_hits[name] += 1
        return self._callable(code)

    def _callable(self, code: bytes) -> Callable[..., int]:
        """The function of this machine code; records the addresses of its parts."""
        engine = _loaded_engine(code)
        self._addresses = {part: engine.get_function_address(symbol(part)) for part in (self.py_func, *self.parts)}
        kinds = [kind for name, kind in self.py_func.__annotations__.items() if name != "return"]
        words = [ctypes.c_void_p if kind == "Any" else ctypes.c_int64 for kind in kinds]
        return ctypes.CFUNCTYPE(ctypes.c_int64, *words)(engine.get_function_address(symbol(self.py_func)))


def bound(function: int, arguments: Sequence[int]) -> int:
    """The address of a C function without arguments that calls the C function of words at ``function`` with these words.

    It remains usable after the interpreter has ended.
    """
    words = ", ".join(f"i64 {argument}" for argument in arguments)
    text = f"define void @bound() {{\n  call i64 inttoptr (i64 {function} to ptr)({words})\n  ret void\n}}\n"
    with _lock:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_engines))
        return int(_loaded_engine(object_code(text)).get_function_address("bound"))


def policy_address(function: Callable[..., int], arguments: Sequence[ArrayOf | None]) -> int:
    """Where the machine code of a policy is, made now: it stays as long as the process.

    Raises:
        TranslationError: the function is written in more of Python than is translated, or its source is not to be had.
    """
    if not isinstance(function, FunctionType) or not is_source_of(function):
        raise TranslationError("its source is not to be had")
    code = object_code(Translation(function, policy=arguments).text)
    with _lock:
        return int(_loaded_engine(code).get_function_address(symbol(function)))


def held(array: Any) -> Any:
    """What an entry takes for an array that its caller keeps alive, found once for many calls: the array's address.

    Args:
        array: of int64, one row after the other; it comes back in one dimension where indices are checked.
    """
    return array.reshape(-1) if intrinsics.BOUNDSCHECK else array.ctypes.data


def bare(function: Any) -> Callable[..., int]:
    """An entry for callers whose arguments are numbers and what ``held`` gave: nothing is looked at on the way."""
    return function._loaded() if isinstance(function, Entry) else function


def entry(function: Any, *, what: str, sources: tuple[Path, ...] = (), parts: Sequence[Any] = ()) -> Any:
    """A function that Python calls; with checked indices Numba compiles it.

    Args:
        parts: functions that are called by address besides.
        sources: files, or folders of them, that determine its code.
        what: named in a line on stderr when it must be compiled; empty for no line.
    """
    if intrinsics.BOUNDSCHECK:
        return numba_entry.entry(function, sources=sources, what=what)
    return Entry(function, what, sources, parts)
