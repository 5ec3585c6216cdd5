"""The shapes: a half to learn from and a half to check, both recorded on a card, and kernels that leave what their references say."""

from __future__ import annotations

import pytest

import warpwright
from bench import shapes
from bench.accuracy import measured, simulate, summary
from bench.kernel_sets import kernel_set


def one_of_each_kernel() -> list[str]:
    """The first case of every kernel."""
    found: dict[str, str] = {}
    for name in shapes.SHAPES.names():
        found.setdefault(shapes.case(name, "small").kernel, name)
    return list(found.values())


def test_every_case_is_in_one_half_and_recorded() -> None:
    learned, held = shapes.learned_names(), shapes.held_names()
    assert sorted(learned + held) == sorted(shapes.SHAPES.names())
    assert min(len(learned), len(held)) >= 60
    assert set(measured("h200", "shapes")) == set(learned) == set(kernel_set("shapes").names())
    assert set(measured("h200", "shapes_held")) == set(held) == set(kernel_set("shapes_held").names())


@pytest.mark.ci
@pytest.mark.parametrize("name", [name for name in one_of_each_kernel() if not name.startswith(("long", "plain"))])
def test_a_shape_leaves_what_its_reference_says(name: str) -> None:
    case = shapes.case(name, "small")
    case.verify(case.run(warpwright.GPU("h200", timing="off").compile(case.source))[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in one_of_each_kernel() if name.startswith(("long", "plain"))])
def test_a_long_body_leaves_what_its_reference_says(name: str) -> None:
    case = shapes.case(name, "small")
    case.verify(case.run(warpwright.GPU("h200", timing="off").compile(case.source))[1])


@pytest.mark.slow
@pytest.mark.parametrize("which", ["shapes", "shapes_held"])
def test_errors_of_a_half_are_within_the_aims(which: str) -> None:
    figures = summary(simulate("h200", which=which, seconds=1200))
    assert figures["kernels"] == len(measured("h200", which))
    assert figures["mean"] <= 0.06
    assert figures["p90"] <= 0.12
    assert figures["worst"] <= 0.25
