"""Functions that all kernels share, such as those of matrix products: compiled once with all of LLVM's passes, kept on disk, loaded when first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from warpwright.engine.jit import shared_code, slow_path
from warpwright.engine.jit.object_code import Target, load_object, make_target, to_object
from warpwright.engine.jit.wave import wave_of
from warpwright.native.intrinsics import source_digest
from warpwright.toolchain.cache import DiskCache, cache_key


@cache
def compiler_digest() -> str:
    """Digest of this package and its dependencies, because a change of the compiler changes the code."""
    folder = Path(__file__).parent
    above = folder.parent
    names = (
        *("abi.py", "blocks.py", "clock_uses.py", "lane_positions.py", "matrix_fragments.py", "silicon_mma.py"),
        *("silicon_mufu.py", "data/mufu.npz", "spin_loops.py", "reconvergence.py"),
    )
    return source_digest((folder, *(above / name for name in names)))


@cache
def object_cache() -> DiskCache:
    return DiskCache()


def _shared_object(name: str, lanes: int, text: Callable[[], str], target: Target) -> bytes:
    """Object code that does not depend on a kernel: from the disk, or compiled with all passes."""
    key = cache_key(
        [
            *(name, str(lanes)),
            compiler_digest(),
            llvmlite.__version__,
            target.cpu,
            target.features,
            slow_path.vector_level(),
            target.triple,
        ]
    )
    return object_cache().made("object", key, lambda: to_object(text(), target, whole=True))


class Library:
    """Addresses of the functions that kernels share, for one target; each is loaded when a kernel first needs it."""

    linked: Library | None = None
    """The engine by which LLVM's linker finds functions by name."""

    def __init__(self, target: Target, lanes: int) -> None:
        self.target = target
        self.wave = wave_of(lanes)
        self.addresses: dict[str, int] = {}
        self.add(
            _shared_object("shared", lanes, partial(shared_code.shared_module, self.wave), target), shared_code.SHARED
        )
        self.link((shared_code.RUN_BLOCKS,))

    def add(self, data: bytes, names: Iterable[str]) -> None:
        """Load object code."""
        engine = load_object(data, self.target)
        for name in names:
            self.addresses[name] = engine.get_function_address(name)
            assert self.addresses[name], name
        Library.linked = None

    def link(self, names: Iterable[str]) -> None:
        """Make functions available by name to code that is loaded later."""
        for name in names:
            if name not in self.addresses:
                self._link()
                self.add(
                    _shared_object(
                        name, self.wave.lanes, partial(shared_code.function_module, name, self.wave), self.target
                    ),
                    (name,),
                )
        self._link()

    def _link(self) -> None:
        if Library.linked is not self:
            for name, address in self.addresses.items():
                llvm.add_symbol(name, address)
            Library.linked = self


@cache
def shared_library(cpu: str | None = None, lanes: int = 32) -> Library:
    """The functions that kernels for a CPU share, for waves of this many lanes."""
    return Library(make_target(cpu), lanes)
