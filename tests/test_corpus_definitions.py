"""The kernel corpus is whole: every source has cases, every case fits its kernel, references have the right shape."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from tests.kernels import KERNELS, Case, Size, case, cases, names
from warpwright.toolchain import Kernel, compile_source

ARCHITECTURES = (70, 80, 90)
SIZES: tuple[Size, ...] = ("small", "large")
KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(')


@cache
def corpus(size: Size) -> dict[str, Case]:
    return {found.name: found for found in cases(size)}


def sources() -> dict[str, tuple[str, ...]]:
    """Kernel names by source file."""
    return {path.name: tuple(KERNEL.findall(path.read_text())) for path in sorted(KERNELS.glob("*.cu"))}


def argument_bytes(argument: object) -> int:
    """What the argument takes in the parameter area: a pointer for a buffer, its own size otherwise."""
    if isinstance(argument, np.ndarray):
        return 8
    assert isinstance(argument, np.generic)
    return argument.itemsize


def test_corpus_has_at_least_sixty_kernels() -> None:
    assert len({found.kernel for found in corpus("small").values()}) >= 60


def test_case_names_are_unique() -> None:
    assert len(names()) == len(set(names()))


def test_every_kernel_of_every_source_has_a_case() -> None:
    launched = {(found.source.name, found.kernel) for found in corpus("small").values()}
    written = {(source, kernel) for source, kernels in sources().items() for kernel in kernels}
    assert launched == written


@pytest.mark.parametrize("source", sources())
def test_source_says_what_it_exercises(source: str) -> None:
    assert (KERNELS / source).read_text().startswith("// ")


@pytest.mark.ci
@pytest.mark.parametrize("size", SIZES)
def test_both_sizes_have_every_case(size: Size) -> None:
    assert list(corpus(size)) == names()


def test_unknown_case_lists_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no case named 'axpy'; there are: stream_copy, "):
        case("axpy", "small")


@pytest.mark.parametrize("name", ["stream_triad", "bfs_level", "mma_half"])
def test_inputs_follow_from_the_seed(name: str) -> None:
    first, again, other = case(name, "small"), case(name, "small", seed=0), case(name, "small", seed=1)
    pairs = [(x, y) for x, y in zip(first.args, again.args, strict=True) if isinstance(x, np.ndarray)]
    assert all(np.array_equal(x, y) for x, y in pairs)
    assert any(not np.array_equal(x, y) for x, y in zip(first.args, other.args, strict=True))


@pytest.mark.parametrize("size", ["small", pytest.param("large", marks=pytest.mark.ci)])
@pytest.mark.parametrize("name", names())
def test_case_is_well_formed(name: str, size: Size) -> None:
    found = corpus(size)[name]
    assert found.expected or found.check is not None
    assert np.prod(found.block) <= 1024
    buffers = {i: a for i, a in enumerate(found.args) if isinstance(a, np.ndarray)}
    assert all(a.flags.c_contiguous and a.ndim == 1 for a in buffers.values())
    assert sum(a.nbytes for a in buffers.values()) <= 64 * 2**20
    for index, want in found.expected.items():
        assert want.shape == buffers[index].shape
        assert want.dtype == buffers[index].dtype
    assert len({id(a) for a in buffers.values()}) == len(buffers)


@pytest.mark.parametrize("name", names())
def test_untouched_buffers_do_not_pass(name: str) -> None:
    """A launch that does nothing must not look right."""
    found = corpus("small")[name]
    with pytest.raises(AssertionError):
        found.verify({i: a.copy() for i, a in enumerate(found.args) if isinstance(a, np.ndarray)})


def test_expected_buffers_pass() -> None:
    for found in corpus("small").values():
        if found.check is None:
            found.verify({i: found.expected.get(i, a) for i, a in enumerate(found.args) if isinstance(a, np.ndarray)})


@cache
def compiled(source: str, arch: int, options: tuple[str, ...]) -> dict[str, Kernel]:
    return compile_source(KERNELS / source, arch, options=options).module.kernels


@pytest.mark.ci
@pytest.mark.parametrize("arch", [pytest.param(a, marks=pytest.mark.ci if a != 90 else ()) for a in ARCHITECTURES])
@pytest.mark.parametrize("name", names())
def test_case_compiles_and_its_arguments_fit(name: str, arch: int) -> None:
    found = corpus("small")[name]
    if arch < found.min_arch:
        pytest.skip(f"needs sm_{found.min_arch}")
    kernel = compiled(found.source.name, arch, found.options)[found.kernel]
    assert [p.size_bytes for p in kernel.parameters] == [argument_bytes(a) for a in found.args]
    assert kernel.shared_static_bytes + found.shared_bytes <= 48 * 1024
    assert int(np.prod(found.block)) <= kernel.max_threads_per_block
