"""Ordinary programs (``tests/programs``) leave what NumPy says, or what a real H200 left, on three chips."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import warpwright as ww
from tests.kernels.case import Case
from tests.programs import PROGRAMS, names, program, programs

CHIPS = ("v100", "a100", "h200")


@cache
def gpu(chip: str, engine: str) -> ww.GPU:
    return ww.GPU(chip, timing="off", engine=engine)


def outputs(case: Case, chip: str, engine: str) -> dict[int, np.ndarray]:
    """The buffers after a launch, by index of argument."""
    module = gpu(chip, engine).compile(case.source, options=case.options)
    for name, contents in case.device_globals.items():
        module.symbol(name).set(contents)
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in case.args]
    module[case.kernel][case.grid, case.block, case.shared_bytes](*args)
    return {index: a for index, a in enumerate(args) if isinstance(a, np.ndarray)}


LAUNCHES = [
    (case.name, chip, arch)
    for case in programs()
    for chip, arch in zip(CHIPS, (70, 80, 90), strict=True)
    if arch >= case.min_arch
]


QUICK = frozenset(("tree_recursion",))
"""Programs that every run has on the older chips as well."""
SECONDS = frozenset(
    (
        *("float_intrinsics", "video_intrinsics", "tiles_of_all_sizes", "image_filters", "cub_sorts", "cub_warps"),
        *("float_library", "double_library", "lu_block", "double_intrinsics", "cub_merge_histogram", "complex_numbers"),
    )
)
"""Programs that the interpreter takes seconds for."""


LONG = frozenset(
    (
        *("float_intrinsics", "float_library", "double_intrinsics", "double_library", "complex_numbers"),
        *("fp8_conversions", "tiles_of_all_sizes", "cub_merge_histogram", "lu_block", "column_covariance"),
        *("relax_edges", "image_filters"),
    )
)
"""Programs that take several seconds to compile for the host."""
MEDIUM = frozenset(
    (
        *(
            "partitions",
            "ptx_float",
            "function_table",
            "block_barrier",
            "float_approximations",
            "float_reductions",
            "cub_warps",
        ),
        *(
            "scoped_atomics",
            "group_copy",
            "barrier_copy",
            "local_arrays",
            "mma_integers",
            "wide_intrinsics",
            "virtual_calls",
            "block_tile",
            "cub_reduce_scan",
            "message_passing",
            "staged_pipeline",
        ),
    )
)
"""Programs that take one to three."""


def interpreted_launch(name: str, chip: str) -> object:
    # The other programs are compiled in every run.
    quick = name in QUICK or (chip == "h200" and name in LONG - SECONDS)
    # Instructions that an A100 has and a V100 lacks are in programs that need an A100; the whole corpus runs there (test_ptx.py). On an H200 the programs that
    # do not take long to compile run compiled.
    repeated = program(name).min_arch < 80 and (chip == "a100" or (chip == "h200" and name not in LONG))
    return pytest.param(
        name, chip, id=f"{chip}-{name}", marks=() if quick else pytest.mark.slow if repeated else pytest.mark.ci
    )


@pytest.mark.parametrize(("name", "chip"), [interpreted_launch(n, c) for n, c, _ in LAUNCHES])
def test_program_is_right(name: str, chip: str) -> None:
    case = program(name)
    case.verify(outputs(case, chip, "interpreter"))


def compiled_launch(name: str, chip: str) -> object:
    quick = name in QUICK or (chip == "h200" and name not in LONG)
    seconds = pytest.mark.ci if name in MEDIUM else ()
    return pytest.param(name, chip, id=f"{chip}-{name}", marks=seconds if quick else pytest.mark.slow)


@pytest.mark.ci
@pytest.mark.parametrize(("name", "chip"), [compiled_launch(n, c) for n, c, _ in LAUNCHES])
def test_program_is_right_compiled(name: str, chip: str) -> None:
    case = program(name)
    case.verify(outputs(case, chip, "compiled"))


def test_every_program_has_a_reference() -> None:
    assert [case.name for case in programs() if not case.expected and case.check is None] == []


def test_every_source_is_launched() -> None:
    assert {case.source for case in programs()} == set(PROGRAMS.glob("*.cu"))


def test_names_are_unique() -> None:
    assert len(names()) == len(set(names()))


@pytest.mark.parametrize("source", sorted(path.name for path in PROGRAMS.glob("*.cu")))
def test_source_says_what_it_exercises(source: str) -> None:
    lines = (Path(PROGRAMS) / source).read_text().splitlines()
    assert next(line for line in lines if not line.startswith(("// min_arch:", "// options:"))).startswith("// ")


CLUSTER = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(int *dst) {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    dst[blockIdx.x] = rank;
}
"""
TEXTURE = 'extern "C" __global__ void fetch(int *dst, unsigned long long t) { dst[0] = tex1Dfetch<int>(t, 0); }'


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
def test_a_kernel_that_names_its_cluster(engine: str) -> None:
    ranks = np.full(4, 9, np.int32)
    gpu("h200", engine).compile(CLUSTER)["pairs"][4, 32](ranks)
    assert ranks.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("chip", CHIPS)
def test_a_null_handle_is_no_texture(chip: str) -> None:
    with pytest.raises(ww.MemoryFaultError, match="0x0 is not the handle of a texture object in kernel fetch"):
        gpu(chip, "interpreter").compile(TEXTURE)["fetch"][1, 32](np.zeros(1, np.int32), np.uint64(0))
