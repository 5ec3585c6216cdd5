"""cuRAND's host interface: XORWOW, MRG32k3a and Philox4x32-10 with cuRAND's numbers in cuRAND's order.

Integers and uniform numbers are bit for bit those of the library. Normal and log-normal numbers go through the same steps in device code. Quasirandom generators, the Mersenne twisters, Poisson and
binomial numbers are refused.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warpwright.driver import cmemory
from warpwright.driver.memory import allocate
from warpwright.driver.memory import free as free_memory
from warpwright.libraries import curand_streams as streams
from warpwright.libraries import library_kernels
from warpwright.libraries.calls import LibraryError, entry, invalid, unsupported

_XORWOW, _MRG, _PHILOX = 0, 1, 2
"""GENERATOR of ``cuda/random.cu``."""
_TYPES = {100: _XORWOW, 101: _XORWOW, 121: _MRG, 161: _PHILOX}
"""curandRngType."""
_OTHER_TYPES = {
    141: "MTGP32",
    142: "MT19937",
    200: "Sobol32",
    201: "Sobol32",
    202: "scrambled Sobol32",
    203: "Sobol64",
    204: "scrambled Sobol64",
}
_NAMES = ("xorwow", "mrg32k3a", "philox4x32")
_BEST, _DEFAULT, _SEEDED, _LEGACY, _DYNAMIC = 100, 101, 102, 103, 104
"""curandOrdering."""
_INT, _UNIFORM, _UNIFORM_DOUBLE, _NORMAL, _NORMAL_DOUBLE, _LOG, _LOG_DOUBLE = range(7)
"""KIND of ``cuda/random.cu``."""
_KIND_NAMES = (
    *("integers", "uniform", "uniform_double", "normal", "normal_double"),
    *("log_normal", "log_normal_double"),
)
_WIDE = frozenset({_UNIFORM_DOUBLE, _NORMAL_DOUBLE, _LOG_DOUBLE})
_LENGTH_NOT_MULTIPLE = 105
_OUT_OF_RANGE = 104
_THREADS = 256
_VERSION = 10400


@dataclass(eq=False)
class Generator:
    """What curandCreateGenerator makes."""

    kind: int
    on_host: bool
    seed: int = 0
    offset: int = 0
    ordering: int = _DEFAULT
    stream: int = 0
    states: int = 0
    """Device address of the streams' states; 0 before the first numbers."""
    made: int = 0
    """Items, or numbers of Philox, since the beginning of the sequence."""

    @property
    def stream_count(self) -> int:
        """Streams that make numbers in turn."""
        if self.kind == _MRG:
            return streams.MRG_LEGACY_STREAMS if self.ordering == _LEGACY else streams.MRG_STREAMS
        return streams.XORWOW_STREAMS if self.kind == _XORWOW else streams.PHILOX_STREAMS

    def restart(self) -> None:
        """Forget the states, because seed, offset or ordering has changed."""
        if self.states:
            library_kernels.synchronize(self.stream)
            free_memory(self.states)
        self.states = 0

    def begin(self) -> None:
        """Place the states of the streams in device memory."""
        if self.kind == _XORWOW:
            words: Any = streams.xorwow(self.seed, self.offset)
        elif self.kind == _MRG:
            words = streams.mrg(self.seed, self.offset, self.stream_count)
        else:
            words = streams.philox(self.offset)
        self.states = allocate(words.nbytes)
        ctypes.memmove(self.states, words.ctypes.data, words.nbytes)
        self.made = self.offset


_generators: dict[int, Generator] = {}
"""By handle."""


def _generator(handle: int) -> Generator:
    if handle not in _generators:
        raise LibraryError("not_initialized")
    return _generators[handle]


def _create(place: int, type: int, on_host: bool) -> None:
    if type in _OTHER_TYPES:
        raise unsupported(f"generators of {_OTHER_TYPES[type]} are not provided: use XORWOW, MRG32k3a or Philox4x32-10")
    if type not in _TYPES:
        raise LibraryError("not_supported")
    handle = max(_generators, default=0) + 1
    _generators[handle] = Generator(_TYPES[type], on_host)
    cmemory.put64(place, handle)


@entry("curandCreateGenerator")
def create(place: int, type: int) -> None:
    _create(place, type, False)


@entry("curandCreateGeneratorHost")
def create_host(place: int, type: int) -> None:
    _create(place, type, True)


@entry("curandDestroyGenerator")
def destroy(handle: int) -> None:
    _generator(handle).restart()
    del _generators[handle]


@entry("curandSetStream")
def set_stream(handle: int, stream: int) -> None:
    generator = _generator(handle)
    if generator.stream != stream and generator.states:
        # The states are in the order of the stream before.
        library_kernels.synchronize(generator.stream)
    generator.stream = stream


@entry("curandSetPseudoRandomGeneratorSeed")
def set_seed(handle: int, seed: int) -> None:
    generator = _generator(handle)
    generator.restart()
    generator.seed = seed


@entry("curandSetGeneratorOffset")
def set_offset(handle: int, offset: int) -> None:
    generator = _generator(handle)
    generator.restart()
    generator.offset = offset


@entry("curandSetGeneratorOrdering")
def set_ordering(handle: int, ordering: int) -> int | None:
    generator = _generator(handle)
    if ordering == _DYNAMIC or (ordering == _SEEDED and generator.kind == _XORWOW):
        name = "dynamic" if ordering == _DYNAMIC else "seeded"
        raise unsupported(f"the {name} ordering is not provided: use the default one")
    if ordering not in (_BEST, _DEFAULT, _LEGACY):
        return _OUT_OF_RANGE
    generator.restart()
    generator.ordering = ordering
    return None


@entry("curandGenerateSeeds")
def generate_seeds(handle: int) -> None:
    generator = _generator(handle)
    if not generator.states:
        generator.begin()


@entry("curandGetVersion")
def get_version(place: int) -> None:
    cmemory.put32(place, _VERSION)


@entry("curandGetProperty")
def get_property(kind: int, place: int) -> None:
    if not 0 <= kind < 3:
        raise invalid()
    cmemory.put32(place, (_VERSION // 1000, _VERSION // 100 % 10, _VERSION % 100)[kind])


# --- numbers -----------------------------------------------------------------------------------------
def _generate(handle: int, place: int, count: int, kind: int, mean: float, deviation: float) -> int | None:
    generator = _generator(handle)
    pairs = kind >= _NORMAL and generator.kind != _PHILOX
    if pairs and count % 2:
        return _LENGTH_NOT_MULTIPLE
    if not count:
        return None
    if not generator.states:
        generator.begin()
    size = count * (8 if kind in _WIDE else 4)
    target = allocate(size) if generator.on_host else place
    _launch(generator, kind, (count // 2 if pairs else count), target, (mean, deviation))
    if generator.on_host:
        library_kernels.synchronize(generator.stream)
        ctypes.memmove(place, target, size)
        free_memory(target)
    return None


def _launch(generator: Generator, kind: int, items: int, target: int, parameters: tuple[float, float]) -> None:
    name = f"warpwright_{_NAMES[generator.kind]}_{_KIND_NAMES[kind]}"
    code = library_kernels.code("random.cu", "cuRAND", KERNEL=name, GENERATOR=generator.kind, KIND=kind)
    count, begun = generator.stream_count, generator.made
    generator.made += items
    arguments: list[int | float | bytes] = [generator.states, count, begun % count, items, target, *parameters]
    if generator.kind == _PHILOX:
        arguments = [generator.states, count, generator.seed, begun, begun + items, target, *parameters]
    library_kernels.launch(code, name, [-(-count // _THREADS)], _THREADS, generator.stream, arguments)


def _entry_of(name: str, kind: int) -> None:
    def plain(handle: int, place: int, count: int) -> int | None:
        return _generate(handle, place, count, kind, 0.0, 1.0)

    def with_parameters(handle: int, place: int, count: int, mean: float, deviation: float) -> int | None:
        return _generate(handle, place, count, kind, mean, deviation)

    function: Callable[..., int | None] = with_parameters if kind >= _NORMAL else plain
    entry(name)(function)


for _name, _kind in (
    ("", _INT),
    ("Uniform", _UNIFORM),
    ("UniformDouble", _UNIFORM_DOUBLE),
    ("Normal", _NORMAL),
    ("NormalDouble", _NORMAL_DOUBLE),
    ("LogNormal", _LOG),
    ("LogNormalDouble", _LOG_DOUBLE),
):
    _entry_of(f"curandGenerate{_name}", _kind)
