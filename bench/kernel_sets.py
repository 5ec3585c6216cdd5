"""The sets of kernels that are compared with a real card: by name, in sizes that fill it.

``corpus``      ``tests/kernels`` in its large size; models were developed beside it
``validation``  ``bench/validation``: nothing is calibrated with it
``holdout``     ``bench/holdout``: of other kinds, compared once before anything was changed for it
``second``      ``bench/holdout/second``: the same again, after what the first hold-out set showed
``third``       ``bench/holdout/third``: once more, with machine code of other compilers
``fourth``      ``bench/holdout/fourth``: once more, programs as the suites and libraries of many fields have them
``shapes``      ``bench/shapes``: a few forms of kernels in many shapes, the half to learn from; ``shapes_held``: the half that is only to check
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.kernels.case import Case

NAMES = ("corpus", "validation", "holdout", "second", "third", "fourth", "shapes", "shapes_held")


@dataclass(frozen=True)
class KernelSet:
    """Cases by name; ``small`` has the same kernels in sizes for checks, where the set has them."""

    names: Callable[[], list[str]]
    case: Callable[[str], Case]
    small: Callable[[str], Case] | None = None


def kernel_set(name: str) -> KernelSet:
    """A set by its name.

    Raises:
        ValueError: for another name.
    """
    if name == "corpus":
        from tests import kernels

        return KernelSet(
            kernels.names, lambda case: kernels.case(case, "large"), lambda case: kernels.case(case, "small")
        )
    if name == "validation":
        from bench import validation

        return KernelSet(validation.names, validation.case)
    if name == "holdout":
        from bench import holdout

        return KernelSet(holdout.names, holdout.case, lambda case: holdout.case(case, "small"))
    if name == "second":
        from bench.holdout import second

        return KernelSet(second.names, second.case, lambda case: second.case(case, "small"))
    if name == "third":
        from bench.holdout import third

        return KernelSet(third.names, third.case, lambda case: third.case(case, "small"))
    if name == "fourth":
        from bench.holdout import fourth

        return KernelSet(fourth.names, fourth.case, lambda case: fourth.case(case, "small"))
    if name in ("shapes", "shapes_held"):
        from bench import shapes

        chosen = shapes.held_names if name == "shapes_held" else shapes.learned_names
        return KernelSet(chosen, shapes.case, lambda case: shapes.case(case, "small"))
    raise ValueError(f"kernel set {name!r} is unknown: choose from {', '.join(NAMES)}")
