"""The hold-out sets: both engines, PTX and the checks agree on kernels of kinds that nothing here was written with."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import warpwright as ww
from bench import holdout
from bench.holdout import fourth, second, third
from tests.kernels import Case

QUICK = (
    *("cache_append", "top_four", "unpack_deltas", "huffman_chunks", "match_blocks", "solve_triangle", "flood_step"),
    *("digit_ranks", "scan_segments", "quantise_zigzag", "streamcluster_gain"),
)
"""Run every time; the rest of the sets is slow."""
SECONDS = ("streamcluster_gain", "cache_append", "match_blocks", "digit_ranks", "top_four", "flood_step")
"""Of these, the ones that take a second or more."""
UNORDERED = {
    "route_tokens": (2,),
    "join_trees": (0,),
    "unite_edges": (0,),
    "march_squares": (0,),
    "group_sums": (0, 1, 2),
    "moe_align": (0,),
    "radix_partition": (0,),
    "cluster_all_to_all": (0,),
    "cfar_detect": (0,),
    "fast_corners": (0,),
}
"""Arguments whose contents depend on the order of warps."""
CONTRACTED = (
    *("layer_norm_backward", "cross_sections", "trace_boxes", "lattice_19", "fit_circles", "gram_schmidt", "fft_512"),
    *(
        "invert_3x3",
        "givens_local",
        "gauss_jordan",
        "turn_pixels",
        "heston_paths",
        "links_times",
        "meet_triangles",
        "fft_16",
    ),
    *("lorenz_steps", "react_diffuse", "product_tf32"),
    *("track_points", "spread_charges", "push_particles", "adaptive_steps", "orbit_places", "recursive_filters"),
    *("recursive_filters_one_block", "rotate_pairs", "reflect_columns"),
    *(
        "streamcluster_gain",
        "template_correlate",
        "s3d_rates",
        "batchnorm_backward",
        "fft_convolve",
        "implied_volatility",
    ),
    *("sph_density", "fem_assemble", "wilson_dslash", "tricubic_spline", "delay_and_sum"),
)
"""The assembler fuses products and sums here that PTX keeps apart."""
FUSED_PTX = ("triton_layer_norm",)
"""The same of PTX that another compiler made: no option keeps them apart."""
CLUSTERS = (
    *("cluster_histogram", "cluster_softmax", "edges_exchanged", "multicast_product"),
    *("cluster_all_to_all", "cluster_table"),
)
"""Only memcheck watches clusters."""
RACING = ("unite_edges", "radix_select", "hyperloglog")
"""Threads halve each other's paths without order, as union-find on a GPU does, or lanes of a warp write what others have just read
with nothing but a shuffle or a vote between, or look at a counter that others raise before they raise it: racecheck says so."""

Outputs = dict[int, np.ndarray]


@cache
def gpu(**how: str) -> ww.GPU:
    return ww.GPU("h200", timing="off", **how)


def outputs(case: Case, on: ww.GPU) -> Outputs:
    after = case.run(on.compile(case.source, options=case.options))[1]
    case.verify(after)
    return {index: a for index, a in after.items() if index not in UNORDERED.get(case.name, ())}


def same_bits(one: Outputs, other: Outputs) -> bool:
    return all(one[index].tobytes() == other[index].tobytes() for index in one)


OF = {name: which for which in (holdout.FIRST, second.SECOND, third.THIRD, fourth.FOURTH) for name in which.names()}
"""The set that each name belongs to."""


def kernel(name: str) -> object:
    seconds = pytest.mark.ci if name in SECONDS else ()
    return pytest.param(name, marks=seconds if name in QUICK else pytest.mark.slow)


EVERY = [kernel(n) for n in OF]


def test_no_name_stands_in_two_sets() -> None:
    assert len(OF) == sum(len(which.names()) for which in (holdout, second, third, fourth))


@pytest.mark.ci
@pytest.mark.parametrize("name", EVERY)
def test_engines_and_ptx_leave_the_same_bits(name: str) -> None:
    case = OF[name].case(name, "small")
    compiled = outputs(case, gpu())
    assert same_bits(compiled, outputs(case, gpu(engine="interpreter")))
    if name in FUSED_PTX:
        outputs(case, gpu(front_end="ptx"))
    elif name not in CONTRACTED:
        assert same_bits(compiled, outputs(case, gpu(front_end="ptx")))
    else:
        apart = replace(case, options=(*case.options, "-fmad=false"))
        assert same_bits(outputs(apart, gpu()), outputs(apart, gpu(front_end="ptx")))


@pytest.mark.parametrize("name", EVERY)
def test_checks_find_nothing(name: str) -> None:
    on = ww.GPU("h200", check="memcheck" if name in CLUSTERS else "all")
    outputs(OF[name].case(name, "small"), on)
    found = {finding.check for finding in on.findings}
    assert found == ({"racecheck"} if name in RACING else set()), "\n".join(map(str, on.findings))


@pytest.mark.slow
@pytest.mark.parametrize("name", OF)
def test_full_size_is_right(name: str) -> None:
    outputs(OF[name].case(name), gpu())
